"""What BLAS threads cost when other processes keep the cores busy, and what the limits of lrml save.

    LRML_DATA_HOME=... python benchmarks/threads.py [--data yeast enron bibtex] [--busy 2] [--seconds 2]

Milliseconds of eigendecompositions and products of several sizes, and of fits, paths and searches, on the
cores as they are and beside processes that do nothing but count. "lrml" is the library as it is; "all" lets
BLAS use all its threads everywhere, except for blocks and chains that run side by side; "one" allows BLAS one
thread. The three ways alternate; on quiet cores the shortest time counts, on busy ones the median. Prints a
table in Markdown. Nothing else should run meanwhile: "quiet" means what it says.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from statistics import median
from time import perf_counter, sleep
from typing import Any
from unittest.mock import patch

import numpy as np
from _data import machine, training_set
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_info, threadpool_limits

from lrml import LRML, LRMLCV, lrml_path
from lrml.core.arrays import descending_eigh

SIZES = (14, 50, 100, 159, 200, 256, 374, 500, 1000)
LIMITED = ("lrml.core.arrays", "lrml.solvers._solve", "lrml.estimators._fitting")
DENSE = ("yeast", "emotions")


@contextmanager
def all_threads() -> Iterator[None]:
    """Lift the limits of small problems."""
    with ExitStack() as stack:
        for module in LIMITED:
            stack.enter_context(patch(f"{module}.one_blas_thread_if", lambda limited: nullcontext()))
        yield


WAYS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "lrml": nullcontext,
    "all": all_threads,
    "one": lambda: threadpool_limits(1, user_api="blas"),
}


@contextmanager
def busy_cores(processes: int) -> Iterator[None]:
    """Keep as many processes running that use all the time they can get."""
    counting = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        sleep(0.5 if counting else 0)
        yield
    finally:
        for process in counting:
            process.kill()
            process.wait()


def tasks(names: list[str]) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Decompositions and products of several sizes, then fits, paths and searches on the data sets."""
    random = np.random.default_rng(0)
    for size in SIZES:
        root = random.standard_normal((2 * size, size))
        gram = root.T @ root
        yield f"eigh of {size} × {size}", lambda gram=gram: descending_eigh(gram)
        yield f"product {size} × {2 * size} × {size}", lambda root=root: root.T @ root
    for name in names:
        X, Y = training_set(name, l2=name not in DENSE)
        A, B = X.toarray(), Y.toarray()
        X, Y = (A, B) if name in DENSE else (X, Y)
        yield f"{name}: Ridge, dense", lambda A=A, B=B: Ridge(1.0).fit(A, B)
        yield f"{name}: LRML", lambda X=X, Y=Y: LRML(0.2, 3.0, ridge=0.3).fit(X, Y)
        yield f"{name}: lrml_path", lambda X=X, Y=Y: lrml_path(X, Y)
        yield f"{name}: LRMLCV", lambda X=X, Y=Y: LRMLCV(random_state=0).fit(X, Y)


def measure(task: Callable[[], Any], seconds: float) -> dict[str, list[float]]:
    """Return the times of each way, which alternate until the time is up, but at least once."""
    times: dict[str, list[float]] = {way: [] for way in WAYS}
    end = perf_counter() + seconds
    while perf_counter() < end or not times["one"]:
        for way, context in WAYS.items():
            with context():
                clock = perf_counter()
                task()
                times[way].append(perf_counter() - clock)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="*", default=["yeast", "enron", "bibtex"])
    parser.add_argument("--busy", type=int, default=2, help="number of processes that count")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each task, quiet and busy")
    parser.add_argument("--only", default="", help="only tasks whose name contains this")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    threads = max((pool["num_threads"] for pool in threadpool_info()), default=1)
    print(f"{machine()}, {threads} BLAS threads, {options.busy} busy processes\n")
    columns = [f"{state}: {way}" for state in ("quiet", "busy") for way in WAYS]
    print(f"| ms | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 1)}")
    for name, task in tasks(options.data):
        if options.only not in name:
            continue
        task()
        cells = []
        for processes, summary in ((0, min), (options.busy, median)):
            with busy_cores(processes):
                times = measure(task, options.seconds)
            cells += [f"{1e3 * summary(of_way):.3g}" for of_way in times.values()]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
