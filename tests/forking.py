"""Processes of the program that start at once: forks of one process that has imported everything.

A process of lrml takes two seconds to import scikit-learn, and the tests of the command line run a hundred of
them. Each of these is a real process with its own arguments, environment, files, signals and exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import importlib
import io
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

CAN_FORK = hasattr(os, "fork") and sys.platform != "darwin"
_lock = threading.Lock()


def run_program(*arguments, stdin=None, **environment):
    """Run ``lrml`` with arguments; return a `subprocess.CompletedProcess` with text."""
    if CAN_FORK:
        return Program(*arguments, stdin=stdin, **environment).result()
    return subprocess.run(
        [sys.executable, "-m", "lrml", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        encoding="utf-8",
        env=os.environ | {"PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1", **environment},
        timeout=300,
        check=False,
    )


class Program:
    """A process of ``lrml``, or of Python code with arguments, that runs beside the test.

    It has a session of its own, as if started from another terminal. Nobody reads what an ``unread`` one
    prints: its standard output is a pipe without another end. ``err`` is a file or a terminal for its errors.
    """

    def __init__(self, *arguments, code=None, stdin=None, unread=False, err=None, **environment):
        self.argv = [str(argument) for argument in arguments]
        self._folder = tempfile.TemporaryDirectory()
        given, self.out, self.err = (Path(self._folder.name, name) for name in ("in", "out", "err"))
        for path in (given, self.out, self.err):
            path.write_text(stdin or "" if path is given else "", encoding="utf-8")
        self.pid = _ask(
            argv=self.argv,
            code=code,
            env=dict(os.environ) | {"PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1", **environment},
            cwd=os.getcwd(),
            files=[str(given), None if unread else str(self.out), err or str(self.err)],
        )
        self.returncode = self._result = None

    def poll(self):
        """Return the exit code of a process that has ended, otherwise nothing."""
        if self.returncode is None:
            self.returncode = _ask(pid=self.pid)
        return self.returncode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def result(self, seconds=300):
        """Wait for the end; return a `subprocess.CompletedProcess` with text."""
        if self._result is not None:
            return self._result
        deadline, pause = time.monotonic() + seconds, 0.001
        while self.poll() is None:
            assert time.monotonic() < deadline, "the process does not end"
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        out, err = (path.read_text("utf-8") for path in (self.out, self.err))
        self._folder.cleanup()
        self._result = subprocess.CompletedProcess(["lrml", *self.argv], self.returncode, out, err)
        return self._result

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.poll() is None:
            self.send_signal(signal.SIGKILL)
        self.result()


def quick_workers(patch):
    """Let workers of `lrml.paper` that this process starts be forks that have imported all."""
    if CAN_FORK:
        multiprocessing.set_forkserver_preload(["lrml.paper._work"])
        patch.setattr("lrml.paper._cells._START", "forkserver")


def _ask(**request):
    with _lock:
        server = _server()
        print(json.dumps(request), file=server.stdin, flush=True)
        answer = server.stdout.readline()
    if not answer:
        raise RuntimeError("the process that forks must answer, it has ended")
    return json.loads(answer)


@functools.cache
def _server():
    server = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    atexit.register(_end, server)
    return server


def _end(server):
    server.stdin.close()  # and so it ends
    server.wait(60)
    server.stdout.close()


def _serve():
    import lrml  # noqa: PLC0415
    from lrml.paper import _cells  # noqa: PLC0415

    for name in lrml.__all__:
        getattr(lrml, name)
    _import_what_comes_late()
    _cells._START = "fork"  # the processes that work on the cells of a run start at once, too
    for line in sys.stdin:
        request = json.loads(line)
        if "pid" in request:
            pid, status = os.waitpid(request["pid"], os.WNOHANG)
            answer = os.waitstatus_to_exitcode(status) if pid else None
        else:
            answer = os.fork()
            if answer == 0:
                _become(request)
                _run(request)
        print(json.dumps(answer), flush=True)


def _run(request):
    from lrml.cli import main  # noqa: PLC0415

    try:
        if request["code"] is None:
            code = main(request["argv"])
        else:
            sys.argv = ["-c", *request["argv"]]
            code = exec(compile(request["code"], "<code>", "exec"), {"__name__": "__main__"})
    except SystemExit as error:
        code = error.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code or 0)


def _import_what_comes_late():
    """Import what commands import inside their functions, as far as it is installed."""
    for name in (
        "typer._adapters",  # with pydantic: four fifths of what a command takes to find a wrong option
        "lrml.paper._run",
        "matplotlib.figure",
        "mpl_toolkits.mplot3d",
        "lrml.serving",
        "lrml.storage",
        "jinja2",
        "pyarrow.csv",
        "pyarrow.parquet",
        "rich.progress",
        "uvicorn",
    ):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    importlib.import_module("lrml.cli")._program()  # all commands


def _become(request):
    """Take over environment, folder and standard streams of a request."""
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # nothing outlives tests that are killed
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where tests run in the background
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    for number, path in enumerate(request["files"]):
        if path is None:
            ours, opened = os.pipe()
            os.close(ours)
        else:
            opened = os.open(path, os.O_WRONLY if number else os.O_RDONLY)
        os.dup2(opened, number)
        os.close(opened)
    streams = [os.fdopen(number, mode, closefd=False) for number, mode in enumerate(("rb", "wb", "wb"))]
    sys.stdin, sys.stdout = (io.TextIOWrapper(stream, encoding="utf-8") for stream in streams[:2])
    sys.stderr = io.TextIOWrapper(
        streams[2], encoding="utf-8", line_buffering=True, errors="backslashreplace"
    )


if __name__ == "__main__":
    _serve()
