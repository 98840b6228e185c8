"""A GPU against the CPUs of its host: fits, paths, searches, kernels, other losses, LEML and prediction.

    python benchmarks/gpu.py [--data FOLDER] [--only fit path …] [--no-cpu] [--limit 60] [--json FILE]
    python benchmarks/gpu.py --device cpu --quick        # the same code without a GPU, on little data

Needs torch. Arrays are on the device before the clock starts, in double precision; every time is taken
between two synchronisations, the first call apart from the median of up to five later ones. The CPU part
runs the same call on NumPy arrays with all cores, in a process of its own that is given up after ``--limit``
seconds. The parts of a fit are timed in a run of their own, through public names: transfer from pageable host
memory, `Statistics.from_arrays`, `SpectralProblem.from_moments` and `solve`. Copies to the host during a fit
are those that torch's profiler sees ("Memcpy DtoH").

Bibtex and delicious come from `fetch_mulan` (LRML_DATA_HOME, the cache, or the network), or as files
``<name>_train_X.npz`` and ``<name>_train_Y.npz`` (scipy.sparse) of a folder.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

os.environ.setdefault("SCIPY_ARRAY_API", "1")  # scikit-learn's condition, to be set before SciPy is imported

import numpy as np
import scipy.sparse as sp
import sklearn
import torch
from _data import machine, training_set
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from lrml import LEML, LRML, LRMLCV, lrml_path
from lrml.core.moments import Statistics
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.solvers import solve

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
            X, Y = training_set(name, l2=False)
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

    def clock(self, call: Callable[[], Any], *, once: bool = False) -> tuple[float, float, int, Any]:
        """Seconds of the first call, median of the later ones, their number, and what the last returned.

        With ``once`` there is a single call, which stands for both.
        """
        seconds: list[float] = []
        while not seconds or (
            not once and (len(seconds) < 2 or (len(seconds) <= CALLS and sum(seconds) < SECONDS))
        ):
            self.synchronise()
            start = perf_counter()
            found = call()
            self.synchronise()
            seconds.append(perf_counter() - start)
        return seconds[0], median(seconds[1:] or seconds), len(seconds) - 1, found

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

    def parts(self, X: Any, Y: Any, model: Any, *, once: bool) -> dict[str, float]:
        """Seconds of each part of a fit, one by one; the transfer only of data that the host holds easily."""
        seconds: dict[str, float] = {}

        def timed(name: str, call: Callable[[], Any]) -> Any:
            _, seconds[name], _, found = self.clock(call, once=once)
            return found

        if X.numel() < 1 << 30:
            held = X.cpu().numpy(), Y.cpu().numpy()
            timed("transfer", lambda: [self.there(M) for M in held])
        sums = timed("statistics", lambda: Statistics.from_arrays(X, Y))
        ridge = getattr(model, "ridge_", model.ridge or 0.0)
        problem = timed("decomposition", lambda: SpectralProblem.from_moments(sums.centered(), ridge))
        penalty = TailSum(model.theta_, getattr(model, "alpha_", model.alpha))
        timed("solve", lambda: solve(problem, penalty))
        return seconds


def ridge(X: Any, Y: Any) -> Any:
    """Plain least squares in torch: normal equations of the centred rows, by Cholesky."""
    x_sum, y_sum = X.sum(dim=0), Y.sum(dim=0)
    gram = torch.addmm(torch.outer(x_sum, x_sum), X.T, X, beta=-1.0 / len(X))
    cross = torch.addmm(torch.outer(x_sum, y_sum), X.T, Y, beta=-1.0 / len(X))
    gram.diagonal().add_(1.0)
    return torch.cholesky_solve(cross, torch.linalg.cholesky(gram))


def cuml_ridge() -> Callable[[Any, Any], Any] | None:
    """Return a fit of cuML's Ridge, where there is one."""
    try:
        linear_model, cupy = import_module("cuml.linear_model"), import_module("cupy")
    except ImportError:
        return None
    return lambda X, Y: linear_model.Ridge(alpha=1.0).fit(cupy.from_dlpack(X), cupy.from_dlpack(Y))


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
    cuml = cuml_ridge()
    for name, data in sets:
        yield Item("fit", f"LRML, {name}", data, fit)
        yield Item("fit", f"torch Ridge by Cholesky, {name}", data, ridge, ridge_here)
        if cuml is not None:
            yield Item("fit", f"cuML Ridge, {name}", data, cuml, ridge_here)
    for name in ("bibtex", "delicious"):
        yield Item("fit", f"LRML, {name}, from sparse", lambda name=name: bench.sparse(name), fit_there, fit)
    for name, unit in (("delicious", False), ("delicious, rows of length 1", True)):
        yield Item("path", f"100 models, {name}", bench.dense("delicious", l2=unit), lrml_path)
    for name in ("bibtex", "delicious"):
        yield Item(
            "search", f"LRMLCV, {name}", bench.dense(name), lambda X, Y: LRMLCV(random_state=0).fit(X, Y)
        )
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


def on_cpu(item: Item, X: Any, Y: Any, limit: float) -> dict[str, Any]:
    """Time the CPUs: one call if it is long, otherwise the median of three; given up after the limit."""
    call = item.on_cpu or item.run
    context = multiprocessing.get_context("fork")  # hands the data over without a copy
    receiver, sender = context.Pipe(duplex=False)

    def work() -> None:
        try:
            seconds = []
            while not seconds or (len(seconds) < 3 and sum(seconds) < 5):
                start = perf_counter()
                found = call(X, Y)
                seconds.append(perf_counter() - start)
            sender.send({"cpu": median(seconds), "cpu_objective": objective_of(found)})
        except Exception as error:
            sender.send({"cpu_left_out": f"{type(error).__name__}: {error}"})

    process = context.Process(target=work)
    process.start()
    sender.close()
    try:
        done = receiver.poll(limit)
        return receiver.recv() if done else {"cpu_left_out": f"not done after {limit:.0f} s"}
    except EOFError:
        return {"cpu_left_out": "its process was killed, for example because memory ran out"}
    finally:
        process.kill()
        process.join()


def objective_of(found: Any) -> float | None:
    """Objective of a fit, or the sum of those of a path."""
    if hasattr(found, "objective_"):
        return float(found.objective_)
    models = list(found) if type(found).__name__ == "LRMLPath" else []
    return float(sum(model.objective for model in models)) if models else None


def measure(bench: Bench, item: Item) -> dict[str, Any]:
    """Time one item on the device, then on the CPUs."""
    record: dict[str, Any] = {"section": item.section, "item": item.name}
    X, Y = item.data()
    record["shape"] = [*X.shape, Y.shape[1]]
    if bench.is_gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(bench.device)
    try:
        record["first"], record["later"], record["calls"], found = bench.clock(lambda: item.run(X, Y))
        record["objective"] = objective_of(found)
        if bench.is_gpu:
            record["peak_gigabytes"] = torch.cuda.max_memory_allocated(bench.device) / 1e9
        if item.section == "fit" and isinstance(found, LRML):
            long = record["later"] > SECONDS / CALLS
            if not long:  # the number of copies does not depend on the size
                record["to_host"] = bench.copies_to_host(lambda: item.run(X, Y))
            if isinstance(X, torch.Tensor):
                record["parts"] = bench.parts(X, Y, found, once=long)
    except Exception as error:
        record["left_out"] = f"{type(error).__name__}: {error}"
    if not bench.options.no_cpu:
        if isinstance(X, torch.Tensor) and X.numel() > 1 << 31:
            record["cpu_left_out"] = "more than the host should hold beside the device's data"
        else:
            here = [M.cpu().numpy() if isinstance(M, torch.Tensor) else M for M in (X, Y)]
            record |= on_cpu(item, *here, bench.options.limit)
    if record.get("objective") is not None and record.get("cpu_objective") is not None:
        record["difference"] = abs(record["objective"] / record["cpu_objective"] - 1)
    return record


def cell(value: Any, form: str = ".3g") -> str:
    return "" if value is None else format(value, form)


def row(record: dict[str, Any]) -> str:
    parts = record.get("parts") or {}
    copies = record.get("to_host")
    ratio = record["cpu"] / record["later"] if "cpu" in record and "later" in record else None
    cells = [
        record["section"],
        record["item"],
        " × ".join(f"{side:,d}" for side in record["shape"]),
        record.get("left_out") or cell(record.get("first")),
        cell(record.get("later")),
        " / ".join(cell(parts.get(name)) for name in ("transfer", "statistics", "decomposition", "solve"))
        if parts
        else "",
        cell(record.get("peak_gigabytes")),
        f"{copies['copies']}: {copies['bytes']:,d} B, largest {copies['largest']:,d} B" if copies else "",
        record.get("cpu_left_out") or cell(record.get("cpu")),
        cell(ratio),
        cell(record.get("difference"), ".1e"),
    ]
    return "| " + " | ".join(cells) + " |"


HEAD = (
    "| section | item | rows × features × labels | first s | later s | transfer / statistics / decomposition "
    "/ solve s | peak GB | copies to the host | CPUs s | × | objective differs by |"
)


def facts(bench: Bench) -> dict[str, Any]:
    """Return what a reader needs to know of the machine."""
    found: dict[str, Any] = {**machine(), "torch": torch.__version__}
    found["array-api-compat"] = version("array-api-compat")
    if bench.is_gpu:
        properties = torch.cuda.get_device_properties(bench.device)
        found |= {"gpu": properties.name, "gpu_gigabytes": round(properties.total_memory / 1e9, 1)}
        found |= {"cuda": torch.version.cuda, "tf32": torch.backends.cuda.matmul.allow_tf32}
        driver = Path("/proc/driver/nvidia/version")
        if driver.exists():
            number = re.search(r"\d+\.\d+(\.\d+)?", driver.read_text(encoding="utf8"))
            found["driver"] = number.group() if number else "unknown"
    return found


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="cuda", help="one of torch's devices")
    parser.add_argument("--data", type=Path, help="folder with <name>_train_X.npz and <name>_train_Y.npz")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=SECTIONS, help="sections to run")
    parser.add_argument("--match", default="", help="only items whose name contains this")
    parser.add_argument("--no-cpu", action="store_true", help="leave out the CPU part")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which the CPUs give up")
    parser.add_argument("--quick", action="store_true", help="little data, to see that everything runs")
    parser.add_argument("--json", type=Path, help="write all numbers to this file")
    return parser.parse_args()


def main() -> None:
    bench = Bench(arguments())
    known = facts(bench)
    print(", ".join(f"{name} {value}" for name, value in known.items()) + "\n")
    print(HEAD + "\n| --- | --- | ---: |" + " ---: |" * 8, flush=True)
    records = []
    with sklearn.config_context(array_api_dispatch=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels without examples, fits that end early
        for item in items(bench):
            if item.section in bench.options.only and bench.options.match in item.name:
                records.append(measure(bench, item))
                print(row(records[-1]), flush=True)
                if bench.options.json is not None:
                    bench.options.json.write_text(json.dumps({"machine": known, "items": records}, indent=1))


if __name__ == "__main__":
    main()
