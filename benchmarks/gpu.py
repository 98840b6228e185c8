"""A GPU against the CPUs of its host: fits, paths, searches, kernels, other losses, LEML and prediction.

    python benchmarks/gpu.py [--data FOLDER] [--only fit path …] [--no-cpu] [--limit 60] [--out FILE]
    python benchmarks/gpu.py --device cpu --quick        # the same code without a GPU, on little data

Needs torch. Arrays are on the device before the clock starts, in double precision; every time is taken
between two synchronisations, the first call apart from the median of up to five later ones. The CPU part
runs the same call on NumPy arrays with all cores, in a process of its own that is given up after ``--limit``
seconds. Copies to the host during a fit are those that torch's profiler sees ("Memcpy DtoH").

Bibtex and delicious come from `fetch_mulan` (LRML_DATA_HOME, the cache, or the network), or as files
``<name>_train_X.npz`` and ``<name>_train_Y.npz`` (scipy.sparse) of a folder.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # scikit-learn's condition, to be set before SciPy is imported

import numpy as np
import scipy.sparse as sp
import sklearn
import torch
from _bench import head, in_a_process, line, machine, mulan, parser, write_results
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from lrml import LEML, LRML, LRMLCV, lrml_path
from lrml.estimators import LRMLPath

SECTIONS = ("fit", "path", "search", "kernel", "logistic", "leml", "predict")
# Rows, features and labels of synthetic data: 7.2 GB and 70 GB of numbers.
SIZES = ((100_000, 8_000, 1_000), (400_000, 20_000, 2_000))
QUICK_SIZES = ((600, 40, 20),)
QUICK_SHAPE = (300, 60, 40)
# Later calls: five at most, and no more once so many seconds have passed.
CALLS, SECONDS = 5, 15.0
PREDICTED = 1_000_000


class Item(NamedTuple):
    """One row of the table: ``run(X, Y)`` is timed, and its result may have an ``objective_``."""

    section: str
    name: str
    data: Callable[[], tuple[Any, Any]]  # torch tensors on the device, or NumPy arrays and sparse matrices
    run: Callable[[Any, Any], Any]
    on_cpu: Callable[[Any, Any], Any] | None = None  # None: the same call


class Bench:
    """Data, clock and counters of one device."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.device = options, torch.device(options.device)
        self.is_gpu = self.device.type == "cuda"

    def synchronise(self) -> None:
        """Wait for the device."""
        if self.is_gpu:
            torch.cuda.synchronize(self.device)

    def there(self, array: np.ndarray) -> torch.Tensor:
        """Copy to the device."""
        return torch.asarray(array, dtype=torch.float64, device=self.device)

    @cache  # noqa: B019  # one object, as long as the program
    def sparse(self, name: str) -> tuple[sp.csr_array, sp.csr_array]:
        """Training part of a Mulan set."""
        if self.options.data is None:
            X, Y = (sp.csr_array(part) for part in mulan(name, "raw")[:2])
        else:
            X, Y = (
                sp.csr_array(sp.load_npz(self.options.data / f"{name}_train_{part}.npz")) for part in "XY"
            )
        n, d, n_labels = QUICK_SHAPE if self.options.quick else (*X.shape, Y.shape[1])
        return X[:n, :d].astype(np.float64), Y[:n, :n_labels].astype(np.float64)

    def dense(self, name: str, *, l2: bool = False) -> Callable[[], tuple[Any, Any]]:
        """Return a maker of a Mulan set as tensors on the device."""

        def make() -> tuple[Any, Any]:
            X, Y = self.sparse(name)
            return self.there((normalize(X) if l2 else X).toarray()), self.there(Y.toarray())

        return make

    def synthetic(self, n: int, d: int, n_labels: int) -> Callable[[], tuple[Any, Any]]:
        """Return a maker of Gaussian rows, made on the device, with labels that follow 20 directions."""

        def make() -> tuple[Any, Any]:
            random = torch.Generator(device=self.device).manual_seed(0)
            options: Any = {"dtype": torch.float64, "device": self.device, "generator": random}
            W = torch.randn(d, 20, **options) @ torch.randn(20, n_labels, **options)
            X, Y = (torch.empty(n, k, dtype=torch.float64, device=self.device) for k in (d, n_labels))
            spread = (20 * d) ** 0.5
            for rows in torch.arange(n, device="cpu").split(10_000):
                some = slice(int(rows[0]), int(rows[-1]) + 1)
                X[some] = torch.randn(len(rows), d, **options)
                noise = torch.randn(len(rows), n_labels, **options)
                Y[some] = (X[some] @ W + spread * noise > 2 * spread).double()
            return X, Y

        return make

    def clock(self, call: Callable[[], Any]) -> tuple[float, float, Any]:
        """Seconds of the first call, median of the later ones, and what the last returned."""
        seconds: list[float] = []
        while len(seconds) < 2 or (len(seconds) <= CALLS and sum(seconds) < SECONDS):
            self.synchronise()
            start = perf_counter()
            found = call()
            self.synchronise()
            seconds.append(perf_counter() - start)
        return seconds[0], median(seconds[1:]), found

    def copies_to_host(self, call: Callable[[], Any]) -> dict[str, int] | None:
        """Count the copies from the device to the host, their bytes, and those of the largest."""
        if not self.is_gpu:
            return None
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            call()
            self.synchronise()
        with tempfile.TemporaryDirectory() as folder:
            trace = Path(folder, "trace.json")
            profile.export_chrome_trace(str(trace))
            events = json.loads(trace.read_text(encoding="utf8"))["traceEvents"]
        sizes = [int(e["args"].get("bytes", 0)) for e in events if "Memcpy DtoH" in e.get("name", "")]
        return {"copies": len(sizes), "bytes": sum(sizes), "largest": max(sizes, default=0)}


def ridge(X: Any, Y: Any) -> Any:
    """Plain least squares in torch: normal equations of the centred rows, by Cholesky."""
    x_sum, y_sum = X.sum(dim=0), Y.sum(dim=0)
    gram = torch.addmm(torch.outer(x_sum, x_sum), X.T, X, beta=-1.0 / len(X))
    cross = torch.addmm(torch.outer(x_sum, y_sum), X.T, Y, beta=-1.0 / len(X))
    gram.diagonal().add_(1.0)
    return torch.cholesky_solve(cross, torch.linalg.cholesky(gram))


def items(bench: Bench) -> Iterator[Item]:
    """All rows of the table, in its order."""
    device = bench.options.device

    def fit(X: Any, Y: Any) -> Any:
        return LRML().fit(X, Y)

    def fit_there(X: Any, Y: Any) -> Any:
        return LRML(device=device).fit(X, Y)

    def search(X: Any, Y: Any) -> Any:
        return LRMLCV(random_state=0).fit(X, Y)

    def ridge_here(X: Any, Y: Any) -> Any:
        return Ridge(solver="cholesky").fit(X, Y)

    sizes = QUICK_SIZES if bench.options.quick else SIZES
    sets = [(name, bench.dense(name)) for name in ("bibtex", "delicious")]
    sets += [(" × ".join(f"{side:,d}" for side in size), bench.synthetic(*size)) for size in sizes]
    for name, data in sets:
        yield Item("fit", f"LRML, {name}", data, fit)
        yield Item("fit", f"torch Ridge by Cholesky, {name}", data, ridge, ridge_here)
    for name in ("bibtex", "delicious"):
        yield Item("fit", f"LRML, {name}, from sparse", lambda name=name: bench.sparse(name), fit_there, fit)
    for name, unit in (("delicious", False), ("delicious, rows of length 1", True)):
        yield Item("path", f"100 models, {name}", bench.dense("delicious", l2=unit), lrml_path)
    for name in ("bibtex", "delicious"):
        yield Item("search", f"LRMLCV, {name}", bench.dense(name), search)
    yield from other_models(bench)
    yield from predictions(bench)


def other_models(bench: Bench) -> Iterator[Item]:
    """Kernels, another loss, and LEML."""
    yield Item(
        "kernel",
        "LRMLCV rbf, leave-one-out, delicious, rows of length 1",
        bench.dense("delicious", l2=True),
        lambda X, Y: LRMLCV(LRML(kernel="rbf"), random_state=0).fit(X, Y),
    )
    yield Item(
        "logistic",
        "LRML logistic, delicious, rows of length 1",
        bench.dense("delicious", l2=True),
        lambda X, Y: LRML(loss="logistic").fit(X, Y),
    )
    for loss in ("squared", "logistic"):
        yield Item(
            "leml",
            f"LEML {loss}, delicious",
            bench.dense("delicious"),
            lambda X, Y, loss=loss: LEML(min(50, Y.shape[1]), loss=loss).fit(X, Y),
        )


def predictions(bench: Bench) -> Iterator[Item]:
    """Scores and top labels of many rows; the model is fitted before the clock starts, in each place."""
    n = 1_000 if bench.options.quick else PREDICTED
    models: dict[type, Any] = {}

    def rows() -> tuple[Any, Any]:
        X, Y = bench.dense("delicious")()
        models[type(X)] = LRML().fit(X, Y)
        models[np.ndarray] = models[type(X)].to_numpy()
        drawn = torch.randint(len(X), (n,), generator=torch.Generator().manual_seed(0)).to(X.device)
        return X[drawn], Y[:1]

    for name, call in (
        ("decision_function", lambda X, _: models[type(X)].decision_function(X)),
        ("predict_top_k", lambda X, _: models[type(X)].predict_top_k(X, 5)),
    ):
        yield Item("predict", f"{name} of {n:,d} rows, delicious", rows, call)


def on_cpu(item: Item, X: Any, Y: Any) -> dict[str, Any]:
    """Time the CPUs: one call if it is long, otherwise the median of three."""
    call = item.on_cpu or item.run
    seconds: list[float] = []
    while not seconds or (len(seconds) < 3 and sum(seconds) < 5):
        start = perf_counter()
        found = call(X, Y)
        seconds.append(perf_counter() - start)
    return {"cpu": median(seconds), "cpu_objective": objective_of(found)}


def objective_of(found: Any) -> float | None:
    """Objective of a fit, or the sum of those of a path."""
    if hasattr(found, "objective_"):
        return float(found.objective_)
    if isinstance(found, LRMLPath):
        return float(found.as_dict()["objective"].sum())
    return None


def measure(bench: Bench, item: Item) -> dict[str, Any]:
    """Time one item on the device, then on the CPUs."""
    record: dict[str, Any] = {"section": item.section, "item": item.name}
    X, Y = item.data()
    record["shape"] = " × ".join(f"{side:,d}" for side in (*X.shape, Y.shape[1]))
    if bench.is_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(bench.device)
    try:
        record["first s"], record["later s"], found = bench.clock(lambda: item.run(X, Y))
        record["objective"] = objective_of(found)
        if bench.is_gpu:
            record["peak GB"] = torch.cuda.max_memory_allocated(bench.device) / 1e9
        if item.section == "fit" and isinstance(found, LRML) and record["later s"] < SECONDS / CALLS:
            record["copies to the host"] = bench.copies_to_host(lambda: item.run(X, Y))
    except Exception as error:
        record["first s"] = f"left out: {type(error).__name__}: {error}"
    if not bench.options.no_cpu and not (isinstance(X, torch.Tensor) and X.numel() > 1 << 31):
        here = [M.cpu().numpy() if isinstance(M, torch.Tensor) else M for M in (X, Y)]
        answer = in_a_process(lambda: on_cpu(item, *here), bench.options.limit)
        if isinstance(answer, str):
            record["CPUs s"] = answer
        else:
            record["CPUs s"] = answer["cpu"]
            if "later s" in record:
                record["×"] = answer["cpu"] / record["later s"]
            if record.get("objective") is not None and answer["cpu_objective"] is not None:
                record["objectives differ by"] = abs(record["objective"] / answer["cpu_objective"] - 1)
    return record


COLUMNS = (
    *("item", "shape", "first s", "later s", "peak GB", "copies to the host"),
    *("CPUs s", "×", "objectives differ by"),
)


def arguments() -> argparse.Namespace:
    made = parser(__doc__, "gpu.json")
    made.add_argument("--device", default="cuda", help="one of torch's devices")
    made.add_argument("--data", type=Path, help="folder with <name>_train_X.npz and <name>_train_Y.npz")
    made.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="sections to run")
    made.add_argument("--match", default="", help="only items whose name contains this")
    made.add_argument("--no-cpu", action="store_true", help="leave out the CPU part")
    made.add_argument("--limit", type=float, default=60.0, help="seconds after which the CPUs give up")
    made.add_argument("--quick", action="store_true", help="little data, to see that everything runs")
    return made.parse_args()


def main() -> None:
    bench = Bench(arguments())
    known: dict[str, Any] = {"torch": torch.__version__}
    if bench.is_gpu:
        known |= {"gpu": torch.cuda.get_device_name(bench.device), "cuda": torch.version.cuda}
    print(", ".join(f"{name} {value}" for name, value in (machine() | known).items()) + "\n")
    print(head(COLUMNS), flush=True)
    records = []
    with sklearn.config_context(array_api_dispatch=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels without examples, fits that end early
        for item in items(bench):
            if item.section in bench.options.only and bench.options.match in item.name:
                records.append(measure(bench, item))
                print(line(records[-1].get(column) for column in COLUMNS), flush=True)
                write_results(bench.options.out, records, device=known)


if __name__ == "__main__":
    main()
