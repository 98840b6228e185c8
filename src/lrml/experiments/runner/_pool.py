"""Processes that work on jobs, one job each at a time.

Each worker has a pipe of its own. A worker that is killed, even in the middle of an answer, closes its pipe
and nothing else: the parent sees which job is lost, and nobody waits for a lock or for the rest of a message.
(`concurrent.futures.ProcessPoolExecutor` has one pipe for the results of all its workers, and holds both ends
of it open: a worker that dies while it sends a large result leaves the reader waiting forever.)
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait

from lrml.experiments.runner._jobs import Job, Reply, Work
from lrml.experiments.runner._worker import serve

# Of every library that NumPy and SciPy may be built with; each is read once, when the library is loaded.
_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_MAX_FAILED_STARTS = 3


class WorkerError(RuntimeError):
    """No worker can be started, so no job can be run."""


class Pool:
    """Up to ``n_workers`` processes, started when needed.

    Leaving the context kills them at once: a worker owns nothing that would have to be put in order.
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

        A job whose worker dies is tried once more when all others are finished, with nothing beside it: if it
        was short of memory, it has more then.
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
            yield from finished  # after the workers have got new jobs: they work while results are written
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
        """Wait until at least one worker has something to say, or is dead."""
        spoken = wait([worker.connection for worker in self._workers])
        for worker in [worker for worker in self._workers if worker.connection in spoken]:
            job, message = worker.job, worker.receive()
            if message is None:
                self._workers.remove(worker)
                death = worker.end()
                if job:
                    lost.append((job, _death_reply(death, worker.seconds)))
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
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs, pickled_work), daemon=True)
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
        """Return the reply to the job, the word at the start (see `serve`), or None from a dead worker."""
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
        self.process.kill()  # one that stays although nobody listens to it any more
        self.process.join()
        code = self.process.exitcode or 0
        return f"signal {-code}, {signal.strsignal(-code)}" if code < 0 else f"exit code {code}"


def _death_reply(death: str, seconds: float) -> Reply:
    return Reply(
        "failed",
        f"the worker process died twice while it ran this job ({death}). It may have run out of memory.",
        seconds,
    )


@contextmanager
def _one_thread_per_library() -> Iterator[None]:
    """Let processes that are started inside use one thread: their number is what uses the cores."""
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
