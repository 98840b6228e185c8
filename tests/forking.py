"""Processes of the program that start at once: forks of one process that has imported everything.

A process of lrml takes two seconds to import scikit-learn, and the tests of the command line run a hundred of
them. Each of these is a real process with its own arguments, environment, files and exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import io
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

CAN_FORK = hasattr(os, "fork") and sys.platform != "darwin"
_lock = threading.Lock()


def run_program(*arguments, stdin=None, **environment):
    """Run ``lrml`` with arguments; return a `subprocess.CompletedProcess` with text."""
    argv = [str(argument) for argument in arguments]
    changed = {"PYTHONIOENCODING": "utf-8", "OMP_NUM_THREADS": "1", **environment}
    if not CAN_FORK:
        return subprocess.run(
            [sys.executable, "-m", "lrml", *argv],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            env=os.environ | changed,
            timeout=300,
            check=False,
        )
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("in", "out", "err")]
        files[0].write_text(stdin or "", encoding="utf-8")
        request = {
            "argv": argv,
            "env": dict(os.environ) | changed,
            "cwd": os.getcwd(),
            "files": list(map(str, files)),
        }
        with _lock:
            server = _server()
            print(json.dumps(request), file=server.stdin, flush=True)
            answer = server.stdout.readline()
        if not answer:
            raise RuntimeError("the process that forks must answer, it has ended")
        out, err = (file.read_text(encoding="utf-8") for file in files[1:])
    return subprocess.CompletedProcess(["lrml", *argv], json.loads(answer), out, err)


def quick_workers(patch):
    """Let workers of `lrml.experiments.runner` that this process starts be forks that have imported all."""
    if CAN_FORK:
        multiprocessing.set_forkserver_preload(["lrml.experiments._work"])
        patch.setattr("lrml.experiments.runner._pool._START", "forkserver")


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


def _serve():
    import lrml  # noqa: PLC0415
    from lrml.cli import main  # noqa: PLC0415
    from lrml.experiments.runner import _pool  # noqa: PLC0415

    for name in lrml.__all__:
        getattr(lrml, name)
    _import_what_comes_late()
    _pool._START = "fork"  # the processes that work on the cells of an experiment start at once, too
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(request)
            try:
                code = main(request["argv"])
            except SystemExit as error:
                code = error.code
            except BaseException:
                sys.excepthook(*sys.exc_info())
                code = 1
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
            os._exit(code or 0)
        _, status = os.waitpid(child, 0)
        print(json.dumps(os.waitstatus_to_exitcode(status)), flush=True)


def _import_what_comes_late():
    """Import what commands import inside their functions, as far as it is installed."""
    for name in (
        "lrml.cli._program",  # all commands
        "typer._adapters",  # with pydantic: four fifths of what a command takes to find a wrong option
        "lrml.cli._console",
        "lrml.cli._data",
        "lrml.experiments._work",
        "lrml.report._draw",
        "lrml.storage",
        "jinja2",
        "plotly.graph_objects",
        "pyarrow.csv",
        "pyarrow.parquet",
        "rich.progress",
    ):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def _become(request):
    """Take over environment, folder and standard streams of a request."""
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    for number, (path, flags) in enumerate(
        zip(request["files"], (os.O_RDONLY, *[os.O_WRONLY | os.O_CREAT] * 2), strict=True)
    ):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, number)
        os.close(opened)
    streams = [os.fdopen(number, mode, closefd=False) for number, mode in enumerate(("rb", "wb", "wb"))]
    sys.stdin, sys.stdout = (io.TextIOWrapper(stream, encoding="utf-8") for stream in streams[:2])
    sys.stderr = io.TextIOWrapper(
        streams[2], encoding="utf-8", line_buffering=True, errors="backslashreplace"
    )


if __name__ == "__main__":
    _serve()
