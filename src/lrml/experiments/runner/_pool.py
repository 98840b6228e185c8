"""Processes that work on jobs, one job each at a time.

Each worker has its own pipe. A worker that is killed, even while answering, closes only its own pipe: the
parent sees which job is lost, and nothing waits for a lock or for the rest of a message.
(`concurrent.futures.ProcessPoolExecutor` has one pipe for the results of all its workers, and holds both ends
of it open: a worker that dies while it sends a large result leaves the reader waiting forever.)
"""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import re
import signal
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Thread
from typing import Any, Literal, TypeAlias

from numpy.typing import NDArray

from lrml._shown import shown
from lrml.experiments.runner._store import packed_arrays, plain_json

_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+,-]{0,199}")
# For every library that NumPy and SciPy may be built with; each is read once, when the library is loaded.
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_START: Literal["spawn"] = "spawn"  # the same everywhere, and nothing of the parent is inherited
_MAX_FAILED_STARTS = 3
# When these occur depends on what a worker has imported or discarded before, not on the job.
_NOT_OF_THE_JOB = DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning


@dataclass(frozen=True)
class Job:
    """A piece of work.

    Parameters
    ----------
    key : str
        A stable id; it names the file with the arrays.
    payload : mapping
        Plain data that JSON can hold; a copy is kept. ``payload["cost"]``, if all jobs have it, is a weight
        for the estimate of the time left.
    """

    key: str
    payload: Mapping[str, Any] = field(hash=False)

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ValueError(
                "the key of a job must be 1 to 200 of the characters A-Z a-z 0-9 . _ = + , - and begin with "
                f"a letter or digit, got {shown(self.key)}. Choose a key that can name a file."
            )
        try:
            payload = json.loads(json.dumps(dict(self.payload), allow_nan=False))
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"the payload of a job must be plain data that JSON can hold, got {shown(self.payload)} "
                f"({error}). Use str, int, finite float, bool, None, list and dict."
            ) from error
        object.__setattr__(self, "payload", payload)


@dataclass(frozen=True)
class Outcome:
    """What a work function returns.

    Parameters
    ----------
    result : mapping
        Plain data that JSON can hold; a number that is not finite is stored as null.
    arrays : mapping of str to array, default=None
        Arrays for the side file, in the type in which they are to be kept.
    """

    result: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]] | None = None


@dataclass(frozen=True)
class Reply:
    """What a worker sends; it encodes result and arrays, so that the parent has only bytes to write."""

    status: str
    error: str | None
    seconds: float
    warnings: tuple[str, ...] = ()
    result: str = "{}"
    arrays: bytes | None = None


Work: TypeAlias = Callable[[dict[str, Any]], Outcome]


class WorkerError(RuntimeError):
    """No worker can be started, so no job can be run."""


class Pool:
    """Up to ``n_workers`` processes, started when needed.

    Leaving the context kills them at once: a worker owns nothing that needs cleaning up.
    """

    def __init__(self, work: Work, n_workers: int) -> None:
        try:
            self._pickled_work = pickle.dumps(work)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise ValueError(
                f"the work function must be at the top level of a module, got {work!r} ({error}). "
                "Move it there."
            ) from error
        self._n_workers = n_workers
        self._workers: list[_Worker] = []
        self._failed_starts = 0

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.process.kill()  # all of them before the first is waited for
        for worker in self._workers:
            worker.end()

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[Job, Reply]]:
        """Begin the jobs in order and yield each with its reply when it is finished.

        A job whose worker dies is tried once more, alone, after all others: if it lacked memory, it has more
        then.
        """
        lost: list[tuple[Job, Reply]] = []
        yield from self._share(deque(jobs), self._n_workers, lost)
        for job, _ in lost:
            lost_again: list[tuple[Job, Reply]] = []
            yield from self._share(deque([job]), 1, lost_again)
            yield from lost_again

    def _share(
        self, waiting: deque[Job], n_at_once: int, lost: list[tuple[Job, Reply]]
    ) -> Iterator[tuple[Job, Reply]]:
        """Run jobs and yield their replies; a job whose worker died goes to ``lost``."""
        finished: list[tuple[Job, Reply]] = []
        while True:
            self._hand_out(waiting, n_at_once)
            yield from finished  # after the workers got new jobs, so that they work while results are written
            if not waiting and not any(worker.job for worker in self._workers):
                return
            finished = list(self._collect(lost))

    def _hand_out(self, waiting: deque[Job], n_at_once: int) -> None:
        """Give jobs to workers that have none, and start as many workers as there will be jobs for."""
        n_more = n_at_once - sum(worker.job is not None for worker in self._workers)
        for worker in self._workers:
            if waiting and n_more and worker.is_ready and not worker.job and worker.take(waiting[0]):
                waiting.popleft()
                n_more -= 1
        n_starting = sum(not worker.is_ready for worker in self._workers)
        for _ in range(min(len(waiting), n_more) - n_starting):
            self._workers.append(_Worker(self._pickled_work))

    def _collect(self, lost: list[tuple[Job, Reply]]) -> Iterator[tuple[Job, Reply]]:
        """Wait until at least one worker has a message, or is dead."""
        spoken = wait([worker.connection for worker in self._workers])
        for worker in [worker for worker in self._workers if worker.connection in spoken]:
            job, message = worker.job, worker.receive()
            if message is None:
                self._workers.remove(worker)
                death = worker.end()
                if job:
                    error = f"the worker process died twice while it ran this job ({death})."
                    reply = Reply("failed", f"{error} It may have run out of memory.", worker.seconds)
                    lost.append((job, reply))
                elif not worker.is_ready:
                    self._count_failed_start(death)
            elif isinstance(message, Reply):
                assert job is not None
                yield job, message
            elif message:
                raise WorkerError(
                    f"a worker process must be able to import the work function, got {message}. Put it into "
                    "a module that can be imported, not into the script or notebook that is run."
                )
            else:
                self._failed_starts = 0

    def _count_failed_start(self, death: str) -> None:
        self._failed_starts += 1
        if self._failed_starts >= _MAX_FAILED_STARTS:
            raise WorkerError(
                f"worker processes must be able to start, got {self._failed_starts} in a row that did not "
                f'({death}). A script must begin its run under `if __name__ == "__main__":`.'
            )


class _Worker:
    """A process, our end of its pipe, and the job it has."""

    def __init__(self, pickled_work: bytes) -> None:
        context = multiprocessing.get_context(_START)
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, pickled_work), daemon=True)
        with _one_thread_per_library():
            self.process.start()
        theirs.close()  # so that theirs is the only one, and its end is seen here
        self.job: Job | None = None
        self.is_ready = False
        self._since = time.perf_counter()

    @property
    def seconds(self) -> float:
        """The time since it got its job."""
        return time.perf_counter() - self._since

    def take(self, job: Job) -> bool:
        """Hand over a job; False if the worker has died meanwhile."""
        try:
            self.connection.send(job.payload)
        except OSError:
            return False
        self.job, self._since = job, time.perf_counter()
        return True

    def receive(self) -> Reply | str | None:
        """Return the reply to the job, the word at the start (see `_serve`), or None from a dead worker."""
        try:
            message: Reply | str = self.connection.recv()
        except (EOFError, OSError):
            return None
        self.is_ready, self.job = True, None
        return message

    def end(self) -> str:
        """Wait for the end of the process, which has lost its pipe or is being killed; tell how it ended."""
        self.connection.close()
        self.process.join(timeout=5)
        self.process.kill()  # one that still runs although its pipe is closed
        self.process.join()
        code = self.process.exitcode or 0
        return f"signal {-code}, {signal.strsignal(-code)}" if code < 0 else f"exit code {code}"


@contextmanager
def _one_thread_per_library() -> Iterator[None]:
    """Limit processes started inside to one thread each: parallelism comes from their number."""
    before = {name: os.environ.get(name) for name in _THREAD_VARIABLES}
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


# Inside a worker process


def _serve(connection: Connection, pickled_work: bytes) -> None:
    """Send "" if all is well, or what is wrong; then answer each payload until there are no more.

    The work function comes pickled, because loading it imports its module, which may take long; Ctrl-C and
    the death of the parent must be handled before.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the parent decides
    Thread(target=_die_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):  # of the pipe: the parent is gone, which the user need not be told
        _answer(connection, pickled_work)


def _answer(connection: Connection, pickled_work: bytes) -> None:
    try:
        work = pickle.loads(pickled_work)
    except Exception as error:
        connection.send(_described(error))
        return
    connection.send("")
    while True:
        connection.send(_attempt(work, connection.recv()))


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)  # there is nothing left to report, and no parent


def _attempt(work: Work, payload: dict[str, Any]) -> Reply:
    """Call the work function; an exception, also one that ends a program, fails this job and no other."""
    texts: set[str] = set()
    start = time.perf_counter()
    try:
        with _warnings_to(texts):
            outcome = work(payload)
        seconds = time.perf_counter() - start
        if not isinstance(outcome, Outcome):
            raise TypeError(
                f"the work function must return an Outcome, got {outcome!r}. Return Outcome(result={{...}})."
            )
        result = plain_json(outcome.result)
        arrays = None if outcome.arrays is None else packed_arrays(outcome.arrays)
    except BaseException as error:
        seconds = time.perf_counter() - start
        return Reply("failed", _described(error), seconds, tuple(sorted(texts)))
    return Reply("ok", None, seconds, tuple(sorted(texts)), result, arrays)


@contextmanager
def _warnings_to(texts: set[str]) -> Iterator[None]:
    """Collect each text once; a list of all warnings could exhaust memory."""

    def collect(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        texts.add(f"{category.__name__}: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")  # even if an earlier job of this worker had the same warning
        for category in _NOT_OF_THE_JOB:
            warnings.simplefilter("ignore", category)
        warnings.showwarning = collect
        yield


def _described(error: BaseException) -> str:
    """Return type, message and place; only the file name, because folders can reveal the user."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno}, in {place.name})"
    )
