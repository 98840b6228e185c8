"""Work functions for the tests of the runner; as a script, a run that can be killed.

Workers import this file as a module of its own, so it is not a test module. Jobs that begin are logged to the
file that the environment variable RUNNER_LOG names: a path in the payload would tell two folders apart.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from lrml.experiments.runner import Job, Outcome, Store, run_jobs


def log(name: Any) -> None:
    if path := os.environ.get("RUNNER_LOG"):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, f"{name} {os.getpid()}\n".encode())
        os.close(descriptor)


def draw(payload: dict[str, Any]) -> Outcome:
    """Sums of random numbers, after some time."""
    log(payload["seed"])
    time.sleep(payload.get("sleep", 0.0))
    numbers = np.random.default_rng(payload["seed"]).normal(size=(50, 4))
    return Outcome({"sum": numbers.sum()}, {"numbers": numbers.astype(np.float32), "index": np.arange(50)})


def draw_jobs(n_jobs: int = 30) -> list[Job]:
    return [
        Job(f"draw-{seed:02d}", {"seed": seed, "sleep": 0.02 + 0.02 * (seed % 3)}) for seed in range(n_jobs)
    ]


def behave(payload: dict[str, Any]) -> Outcome:
    """Do what the payload says."""
    log(payload["do"])
    return _DEEDS[payload["do"]](payload)


def _warn(_: dict[str, Any]) -> Outcome:
    for _ in range(3):
        warnings.warn("second", RuntimeWarning, stacklevel=1)
        warnings.warn("first", UserWarning, stacklevel=1)
    warnings.warn("of no interest", DeprecationWarning, stacklevel=1)
    return Outcome({})


def _fail(_: dict[str, Any]) -> Outcome:
    warnings.warn("before", UserWarning, stacklevel=1)
    raise KeyError("no such thing")


def _odd_numbers(_: dict[str, Any]) -> Outcome:
    return Outcome(
        {"nan": np.nan, "nested": [np.inf, {"x": -np.inf}], "scalars": (np.float32(0.5), np.int64(3))}
    )


def _threads(_: dict[str, Any]) -> Outcome:
    np.linalg.svd(np.eye(3))
    return Outcome({"threads": [library["num_threads"] for library in threadpool_info()]})


def _die_once(payload: dict[str, Any]) -> Outcome:
    path = Path(payload["flag"])
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return Outcome({"alive": True})


def _large(_: dict[str, Any]) -> Outcome:
    return Outcome({}, {"x": np.random.default_rng(0).integers(256, size=4_000_000, dtype=np.uint8)})


_DEEDS = {
    "nothing": lambda _: Outcome({}),
    "warn": _warn,
    "fail": _fail,
    "leave": lambda _: sys.exit("enough"),
    "odd numbers": _odd_numbers,
    "threads": _threads,
    "no outcome": lambda _: {"x": 1},
    "no data": lambda _: Outcome({"x": object()}),
    "objects": lambda _: Outcome({}, {"x": np.array([object()])}),
    "sleep": lambda payload: time.sleep(payload["seconds"]),
    "exit": lambda _: os._exit(3),
    "die": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "die once": _die_once,
    "large": _large,
}


def sleeping_jobs() -> list[Job]:
    """One that ends, and two that do not in the time of a test."""
    deeds = [{"do": "nothing"}, {"do": "sleep", "seconds": 600}, {"do": "sleep", "seconds": 601}]
    return [Job(f"job-{number}", deed) for number, deed in enumerate(deeds)]


def without_seconds(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """What two runs have in common."""
    return [{name: value for name, value in record.items() if name != "seconds"} for record in records]


def wait_until(condition: Callable[[], Any], seconds: float = 300) -> None:
    """Wait for something that is sure to come; the time is for a test that would never end."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.005)


if __name__ == "__main__":  # runner_jobs.py (draw | sleep) FOLDER N_WORKERS
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where the tests run in the background
    kind, folder, n_workers = sys.argv[1:]
    if kind == "draw":
        run_jobs(draw_jobs(), draw, Store(folder), n_workers=int(n_workers))
    else:
        run_jobs(sleeping_jobs(), behave, Store(folder), n_workers=int(n_workers))
