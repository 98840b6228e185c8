"""Run jobs, store each result at once, and continue where an earlier run ended."""

from __future__ import annotations

import json
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from lrml.experiments.runner._pool import Job, Pool, Reply, Work
from lrml.experiments.runner._store import Record, Store

_PACKAGES = "lrml", "numpy", "scipy", "scikit-learn"


@dataclass(frozen=True)
class Progress:
    """The progress of a run, after each finished job.

    Parameters
    ----------
    done, total : int
        Jobs that are finished, by this run and earlier ones, and all jobs.
    failed : int
        Jobs that failed in this run.
    record : dict
        The record of the job that was finished last.
    seconds : float
        The time since the start of this run.
    seconds_left : float or None
        An estimate from the jobs finished in this run, weighted by ``payload["cost"]`` if all have one.
    """

    done: int
    total: int
    failed: int
    record: Record
    seconds: float
    seconds_left: float | None


def run_jobs(
    jobs: Sequence[Job],
    work: Work,
    store: Store,
    *,
    n_workers: int,
    on_event: Callable[[Progress], None] | None = None,
    is_whole: Callable[[Record], bool] = lambda record: True,
) -> list[Record]:
    """Run jobs in processes of their own and return their records, in the order of the jobs.

    A job is skipped if the store has a record of it that is "ok", of the same payload (its cost aside), whole
    and with its arrays intact. An exception in the work function makes a "failed" record, as does a worker
    that dies twice with the same job; the other jobs go on, and the next run tries the failed ones again. The
    run may be killed at any time: what was finished stays, and no process outlives it.

    Parameters
    ----------
    jobs : sequence of Job
        They are begun in this order. Keys differ, and not by upper and lower case only.
    work : callable
        ``work(payload)`` returns an `Outcome`. It is at the top level of a module that can be imported.
    store : Store
        Where the records go. Only this process writes to it.
    n_workers : int
        The number of processes; each uses one thread for linear algebra. Results do not depend on it.
    on_event : callable, default=None
        It gets a `Progress` after each finished job.
    is_whole : callable, optional
        Tells whether a record of the right payload has the result that such a job gives.

    Raises
    ------
    StoreError
        If another run works in the same folder, or the folder has damaged records.
    WorkerError
        If no worker process can be started.
    """
    _check_keys(jobs)
    if isinstance(n_workers, bool) or not isinstance(n_workers, int) or n_workers < 1:
        raise ValueError(f"n_workers must be a positive integer, got {n_workers!r}. Use 1 for one process.")
    with store.writer() as writer:
        stored = store.records()
        records = {
            job.key: stored[job.key]
            for job in jobs
            if _is_finished(job, stored.get(job.key), store) and is_whole(stored[job.key])
        }
        waiting = [job for job in jobs if job.key not in records]
        clock = _Clock(waiting)
        surroundings = {"versions": versions(), "machine": machine()}
        failed = 0
        with Pool(work, n_workers) as pool:
            for job, reply in pool.run(waiting):
                record = writer.append(_record(job, reply) | surroundings, reply.arrays)
                records[job.key] = record
                failed += record["status"] == "failed"
                seconds, left = clock.tick(job)
                if on_event is not None:
                    on_event(Progress(len(records), len(jobs), failed, record, seconds, left))
    return [records[job.key] for job in jobs]


def _check_keys(jobs: Sequence[Job]) -> None:
    seen: dict[str, str] = {}
    for job in jobs:
        twin = seen.get(job.key.casefold())
        if twin is not None:
            raise ValueError(
                f"the keys of jobs must differ, and not by upper and lower case only, got {twin!r} and "
                f"{job.key!r}. Put into the key what tells the jobs apart."
            )
        seen[job.key.casefold()] = job.key


def _is_finished(job: Job, record: Record | None, store: Store) -> bool:
    """Tell whether a record is the result of this job, not of an earlier one with the same key."""
    if record is None or record["payload"] | {"cost": None} != {**job.payload, "cost": None}:
        return False
    return store.is_intact(record)


def _record(job: Job, reply: Reply) -> Record:
    return {
        "key": job.key,
        "payload": job.payload,
        "status": reply.status,
        "error": reply.error,
        "result": json.loads(reply.result),
        "seconds": round(reply.seconds, 6),
        "warnings": reply.warnings,
    }


class _Clock:
    """The time a run has taken, and the time it may still take: (time so far) · (work left) / (work done)."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        costs = [job.payload.get("cost") for job in jobs]
        self._weighted = all(isinstance(cost, int | float) and cost >= 0 for cost in costs)
        self._left = sum(self._weight(job) for job in jobs)
        self._done = 0.0
        self._start = time.perf_counter()

    def tick(self, job: Job) -> tuple[float, float | None]:
        """Note that a job is finished; return the seconds since the start and those left."""
        self._done += self._weight(job)
        self._left -= self._weight(job)
        seconds = time.perf_counter() - self._start
        return seconds, seconds * max(self._left, 0.0) / self._done if self._done else None

    def _weight(self, job: Job) -> float:
        return float(job.payload["cost"]) if self._weighted else 1.0


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on; none of them is imported."""
    return {"python": platform.python_version(), **{name: version(name) for name in _PACKAGES}}


def machine() -> dict[str, str | int | float | None]:
    """Return system, processor architecture, cores that may be used and memory in GiB (None if not known)."""
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        "system": platform.system(),
        "architecture": platform.machine(),
        "cores": len(affinity(0)) if affinity else os.cpu_count(),
        "memory_gib": _memory(),
    }


def _memory() -> float | None:
    try:
        pages, page_size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not this system, or not this name
        return None
    return round(pages * page_size / 2**30, 1) if min(pages, page_size) > 0 else None
