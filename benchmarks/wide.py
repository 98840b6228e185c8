"""Wide sparse text: time, memory and quality of lrml, LinearSVC and Ridge on Debian's package descriptions.

    python benchmarks/wide.py [--lists DIR] [--sets 15k×10k …] [--methods Ridge LRML …] [--repeat 3] [--quick]
    python benchmarks/wide.py --check

The first fits every method on every set, in turns, each time in a process of its own. It prints medians of
wall and CPU seconds and of peak memory beyond the data, and the quality on 3,000 or 5,000 test rows with
standard errors; "difference" is that of average precision from tuned LinearSVC, paired. The second compares
the objective of the compressed road with that of the exact dual, on 3,000 rows of some 100,000 features. Both
write what they found to results/wide.json.

The data comes from apt's package lists, see `_debian.py`: those of the system (Debian 12 or later), or of a
folder, as `apt-get -o Acquire::Languages=en -o Dir::State::lists=DIR update` fills it; or pass the two files.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import multiprocessing
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from _data import machine, resident_gigabytes
from _debian import LISTS, Documents, TextSet, find_lists, read_documents, text_set
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from lrml import LEML, LRML, LRMLCV, MLFro, metrics

SETS = {  # training rows, most features, packages that a tag needs
    "15k×10k": (15_000, 10_000, 20),
    "15k×50k": (15_000, 50_000, 20),
    "27k×200k": (27_303, 200_000, 10),
}
QUICK_SETS = {"1k×2k": (1_000, 2_000, 100)}
CHECKED, QUICK_CHECKED = (3_000, None, 10), (500, None, 50)
# theta, alpha, ridge: ranks from a few to all, weak and strong ridges, theta = 0 (convex) and not.
TRIPLES = ((0, 10.0, 0.0), (0, 2.0, 1.0), (20, 10.0, 0.1), (50, 3.0, 0.3), (100, 1.0, 1.0), (100, 100.0, 1.0))
PEER = "LinearSVC, tuned"


class TunedSVC:
    """One-vs-rest LinearSVC, C chosen among five by three folds."""

    def fit(self, X: Any, Y: Any) -> TunedSVC:
        """Try every C, then fit the best."""
        quality = {}
        for C in (0.1, 0.3, 1.0, 3.0, 10.0):
            scores = np.empty(Y.shape)
            for train, test in KFold(3, shuffle=True, random_state=0).split(X):
                model = OneVsRestClassifier(LinearSVC(C=C)).fit(X[train], Y[train])
                scores[test] = scores_of(model, X[test], Y[train])
            quality[C] = metrics.average_precision(Y, scores)
        self.C = max(quality, key=quality.__getitem__)
        self.model = OneVsRestClassifier(LinearSVC(C=self.C)).fit(X, Y)
        return self

    def decision_function(self, X: Any) -> Any:
        """Margins, n × L."""
        return self.model.decision_function(X)


METHODS: dict[str, Callable[[], Any]] = {
    "Ridge": Ridge,
    "LinearSVC": lambda: OneVsRestClassifier(LinearSVC()),
    PEER: TunedSVC,
    "LRML": lambda: LRML(0.2, 1.0, ridge=1.0),
    "LRMLCV": lambda: LRMLCV(random_state=0),
    "LRMLCV, smallest": lambda: LRMLCV(rule="smallest", random_state=0),
    "MLFro squared hinge": lambda: MLFro(1.67, loss="squared_hinge"),
    "MLFro logistic": lambda: MLFro(0.03, loss="logistic"),
    "LRML squared hinge": lambda: LRML(0.2, 1.0, ridge=1.67, loss="squared_hinge"),
    "LRML logistic": lambda: LRML(0.2, 0.05, ridge=0.03, loss="logistic"),
    "LRMLCV squared hinge": lambda: LRMLCV(LRML(loss="squared_hinge"), random_state=0),
    "LRMLCV logistic": lambda: LRMLCV(LRML(loss="logistic"), random_state=0),
    "LEML": LEML,
}


def scores_of(model: Any, X: Any, Y_train: Any) -> np.ndarray:
    """Scores of new rows; labels without a training example come last, as in lrml."""
    scores = np.array(model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X))
    scores[:, np.asarray(Y_train.sum(axis=0)).ravel() == 0] = scores.min() - 1.0
    return scores


class Outcome(NamedTuple):
    """What a fit took, and the quality of each test row."""

    wall: float
    cpu: float
    gigabytes: float
    quality: dict[str, np.ndarray]
    chosen: str


def measure(make: Callable[[], Any], data: TextSet) -> Outcome:
    """Fit once, in a process that has done nothing but be handed the data."""
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf8")  # forget the peak of making the data
    before = resident_gigabytes("VmRSS")
    model, clock, cpu = make(), perf_counter(), process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels without examples, fits that end early: the table tells
        model.fit(data.X, data.Y if not isinstance(model, Ridge) else data.Y.toarray())
    wall, cpu = perf_counter() - clock, process_time() - cpu
    growth = resident_gigabytes("VmHWM") - before
    scores = scores_of(model, data.X_test, data.Y)
    quality = {f"P@{k}": metrics.precision_at_k(data.Y_test, scores, k, per_example=True) for k in (1, 3, 5)}
    quality["AP"] = metrics.average_precision(data.Y_test, scores, per_example=True)
    return Outcome(wall, cpu, growth, quality, description(model))


def description(model: Any) -> str:
    """Return what was chosen, the rank, and the size of the model."""
    if isinstance(model, TunedSVC):
        return f"C {model.C:g}"
    parts = [f"{name} {value:.3g}" for name, value in getattr(model, "best_params_", {}).items()]
    if hasattr(model, "nbytes_"):
        parts.append(f"rank {model.rank_}, {model.nbytes_ / 1e6:.1f} MB")
    return "; ".join(parts)


def in_a_process(
    make: Callable[..., Any], data: TextSet, limit: float, work_off: Callable[..., Any] = measure
) -> Any:
    """Return the outcome of ``work_off(make, data)``, or a str that says why there is none."""
    context = multiprocessing.get_context("fork")  # hands the data over without a copy
    receiver, sender = context.Pipe(duplex=False)

    def work() -> None:
        try:
            sender.send(work_off(make, data))
        except Exception as error:
            sender.send(f"{type(error).__name__}: {error}")

    process = context.Process(target=work)
    process.start()
    sender.close()
    try:
        return receiver.recv() if receiver.poll(limit) else f"not done after {limit:.0f} s"
    except EOFError:
        return "its process was killed, for example because memory ran out"
    finally:
        process.kill()
        process.join()


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    values = values[np.isfinite(values)]
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def compare(name: str, data: TextSet, methods: list[str], repeat: int, limit: float) -> list[dict[str, Any]]:
    """Print the table of one set; return its rows."""
    (n, d), n_labels, per_row = data.X.shape, data.Y.shape[1], data.X.nnz / data.X.shape[0]
    print(f"\n{name}: {n} × {d}, {per_row:.0f} nonzeros a row, {n_labels} labels\n")
    found: dict[str, list[Outcome]] = {method: [] for method in methods}
    reasons: dict[str, str] = {}
    for _ in range(repeat):
        for method in methods:
            if method in reasons:
                continue
            outcome = in_a_process(METHODS[method], data, limit)
            said = outcome if isinstance(outcome, str) else f"{outcome.wall:.1f} s"
            print(f"{method}: {said}", file=sys.stderr, flush=True)
            if isinstance(outcome, str):
                reasons[method] = outcome
            else:
                found[method].append(outcome)
    print("| method | wall s | CPU s | GB | P@1 | P@3 | P@5 | AP | difference | chosen |")
    print("| --- |" + " --: |" * 8 + " --- |")
    records: list[dict[str, Any]] = []
    peer = found.get(PEER)
    for method in methods:
        if not found[method]:
            print(f"| {method} |" + " |" * 8 + f" {reasons[method]} |")
            records.append({"set": name, "method": method, "left_out": reasons[method]})
            continue
        last = found[method][-1]
        cost = [median(getattr(run, part) for run in found[method]) for part in ("wall", "cpu", "gigabytes")]
        quality = {metric: mean_and_error(values) for metric, values in last.quality.items()}
        lead = mean_and_error(last.quality["AP"] - peer[-1].quality["AP"]) if peer else None
        cells = [method, *(f"{value:.3g}" for value in cost)]
        cells += [f"{mean:.4f} ± {error:.4f}" for mean, error in quality.values()]
        cells += [f"{lead[0]:+.4f} ± {lead[1]:.4f}" if lead and method != PEER else "", last.chosen]
        print("| " + " | ".join(cells) + " |", flush=True)
        records.append(
            {"set": name, "method": method, "wall": cost[0], "cpu": cost[1], "gigabytes": cost[2]}
            | {"quality": quality, "difference": lead, "chosen": last.chosen}
        )
    return records


def check(data: TextSet) -> list[dict[str, Any]]:
    """Print how far objectives of the compressed road lie above those of the exact dual."""
    print(f"\n{data.X.shape[0]} × {data.X.shape[1]}, {data.Y.shape[1]} labels\n")
    print("| theta | alpha | ridge | rank | excess | certificate |\n|" + " --: |" * 6)
    records = []
    for theta, alpha, ridge in TRIPLES:
        exact, compressed = (
            LRML(theta, alpha, ridge=ridge, solver=solver, tol=1e-6).fit(data.X, data.Y)
            for solver in ("dual", "compressed")
        )
        excess = compressed.objective_ / exact.objective_ - 1.0
        gap = compressed.compression_gap_
        print(f"| {theta} | {alpha:g} | {ridge:g} | {exact.rank_} | {excess:.1e} | {gap:.1e} |", flush=True)
        records.append(
            {"theta": theta, "alpha": alpha, "ridge": ridge, "rank": exact.rank_}
            | {"excess": excess, "compression_gap": gap}
        )
    return records


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lists", type=Path, default=LISTS, help="folder with apt's package lists")
    parser.add_argument("--packages", type=Path, help="a Packages file")
    parser.add_argument("--translations", type=Path, help="a Translation-en file")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds for one fit")
    parser.add_argument("--check", action="store_true", help="compare the compressed road with the dual")
    parser.add_argument("--quick", action="store_true", help="1,000 rows of 2,000 features; 500 with --check")
    parser.add_argument("--out", type=Path, default=Path("results/wide.json"))
    options = parser.parse_args()
    if options.packages is None or options.translations is None:
        packages, translations = find_lists(options.lists)
        options.packages = options.packages or packages
        options.translations = options.translations or translations
    documents: Documents = read_documents(options.packages, options.translations)
    print(machine(), flush=True)
    if options.check:
        records = check(text_set(documents, *(QUICK_CHECKED if options.quick else CHECKED)))
    else:
        sets = QUICK_SETS if options.quick else {name: SETS[name] for name in options.sets}
        records = [
            record
            for name, shape in sets.items()
            for record in compare(
                name, text_set(documents, *shape), options.methods, options.repeat, options.limit
            )
        ]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"machine": machine(), "results": records}, indent=2)
    options.out.write_text(content + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
