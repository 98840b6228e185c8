"""Extreme labels: a fit with 100,000 features and 50,000 labels, head and tail, and the objective on bibtex.

    python benchmarks/extreme.py fit [--quick]       # one fit: time, peak memory, P@k, a baseline on the head
    python benchmarks/extreme.py study [--quick]     # head and tail by rank, with a picture
    python benchmarks/extreme.py bibtex              # the compressed road against the exact one

The data is that of `lrml.datasets.make_xmc`: 50 topics, labels that follow a power law. A fit runs in its own
process, so that its peak memory, with the data, can be measured. The baseline is one linear model per label,
by scikit-learn, on the head labels, and both choose among these only; its strength is the best of several *on
the test rows*, which favours it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from _data import machine, training_set
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

from lrml import LRML
from lrml.core import subspace
from lrml.datasets import make_xmc
from lrml.metrics import label_propensities, precision_at_k, propensity_scored_precision_at_k

mpl.use("Agg")
Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.intp]
_BLOCK = 500  # rows that are scored at a time


class Size(NamedTuple):
    """Data and model of a run."""

    rows: int
    features: int
    labels: int
    rank: int
    words: float
    tests: int
    theta: int
    alpha: float
    ridge: float


FULL = Size(200_000, 100_000, 50_000, 50, 110.0, 10_000, 50, 200.0, 10.0)
QUICK = Size(6_000, 5_000, 2_000, 10, 50.0, 1_000, 10, 30.0, 10.0)
STUDY = Size(15_000, 8_000, 3_000, 30, 60.0, 10_000, 30, 60.0, 3.0)
QUICK_STUDY = Size(2_000, 1_500, 600, 10, 40.0, 1_000, 10, 20.0, 3.0)
RIDGES = (1.0, 3.0, 10.0)
HEAD = 100
STRENGTHS = {"Ridge": (3.0, 10.0), "LinearSVC": (0.03, 0.1)}


class Data(NamedTuple):
    """Training and test rows, and what is behind the latter: the best that any model could do."""

    X: sp.csr_array
    Y: sp.csr_array
    X_test: sp.csr_array
    Y_test: sp.csr_array
    truth: Any

    def truth_among(self, rows: slice, labels: Labels) -> Any:
        """Scores of some labels that no model can beat on average."""
        return self.truth(rows)[:, labels]


def make(size: Size, specific: float = 0.0) -> Data:
    """Make training and test rows, in single precision."""
    dataset, truth = make_xmc(
        size.rows + size.tests,
        size.features,
        size.labels,
        rank=size.rank,
        n_words=size.words,
        specific=specific,
        random_state=0,
    )
    X, Y = sp.csr_array(dataset.X, dtype=np.float32), dataset.Y
    n = size.rows
    return Data(X[:n], Y[:n], X[n:], Y[n:], lambda rows: truth.scores(np.arange(n, n + size.tests)[rows]))


def groups(Y: sp.csr_array) -> dict[str, Labels]:
    """Labels by their frequency in training."""
    counts = np.asarray(Y.sum(axis=0), dtype=np.int64).ravel()
    order = np.argsort(-counts, kind="stable")
    head = min(HEAD, len(counts) // 20)
    bounds = {"head": (0, head), "middle": (head, int((counts >= 20).sum()))}
    parts = {name: order[start:stop] for name, (start, stop) in bounds.items()}
    return parts | {"tail (2 to 19 rows)": order[bounds["middle"][1] : int((counts >= 2).sum())]}


def blocks(first: int, end: int) -> Iterator[slice]:
    return (slice(start, min(start + _BLOCK, end)) for start in range(first, end, _BLOCK))


def precision_among(
    scores: Any, Y: sp.csr_array, labels: Labels, k: int = 1, first: int = 0
) -> tuple[float, float]:
    """P@k with its standard error, among these labels only, over the rows that have one of them."""
    found = []
    for rows in blocks(first, Y.shape[0]):
        wanted = Y[rows][:, labels].toarray() > 0
        some = wanted.any(axis=1)
        if some.any():
            S = scores(rows, labels)[some]
            best = np.argpartition(-S, k - 1, axis=1)[:, :k]  # a sort of all labels takes far longer
            found.append(np.take_along_axis(wanted[some], best, axis=1).mean(axis=1))
    values = np.concatenate(found)
    return float(values.mean()), float(values.std() / np.sqrt(len(values)))


def scores_of(model: LRML, X: sp.csr_array) -> Any:
    """Return a function of rows and labels."""
    U, s, V = model.factors_
    codes = X @ (U * s)
    return lambda rows, labels: codes[rows] @ V[labels].T + model.intercept_[labels]


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def measured_fit(size: Size) -> tuple[LRML, dict[str, float]]:
    """Fit in this process; return the model and what it took."""
    data = make(size)
    before, clock, cpu = peak_gigabytes(), perf_counter(), process_time()
    model = LRML(size.theta, size.alpha, ridge=size.ridge).fit(data.X, data.Y)
    taken = {
        "wall": perf_counter() - clock,
        "cpu": process_time() - cpu,
        "before_gb": before,
        "peak_gb": peak_gigabytes(),
    }
    return model, taken


def baseline(name: str, strength: float, data: Data, labels: Labels) -> Floats:
    """Scores of the test rows by one linear model of scikit-learn for each label."""
    scores = np.empty((data.X_test.shape[0], len(labels)))
    Y = data.Y[:, labels].toarray()
    for place in range(len(labels)):
        if name == "Ridge":
            model = Ridge(strength, solver="sparse_cg", tol=1e-3).fit(data.X, Y[:, place].astype(np.float32))
            scores[:, place] = model.predict(data.X_test)
        else:
            model = LinearSVC(C=strength).fit(data.X, Y[:, place])
            scores[:, place] = model.decision_function(data.X_test)
    return scores


def run_fit(size: Size, baselines: list[str], head: int) -> dict[str, Any]:
    """Fit, predict, and compare with the baseline on the head labels."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        model, taken = pool.apply(measured_fit, (size,))
    n, d, L = size.rows, size.features, size.labels
    data = make(size)
    print(
        f"{n} × {d}, {data.X.nnz / n:.0f} nonzeros and {data.Y.nnz / n:.1f} of {L} labels a row", flush=True
    )
    record: dict[str, Any] = taken | {
        "size": size._asdict(),
        "rank": model.rank_,
        "compression_gap": model.compression_gap_ if hasattr(model, "compression_gap_") else 0.0,
        "model_mb": model.nbytes_ / 1e6,
    }
    print(
        f"theta {size.theta}, alpha {size.alpha:g}, ridge {size.ridge:g}: rank {model.rank_}, gap "
        f"{record['compression_gap']:.1e}, {taken['wall']:.0f} s, {taken['cpu']:.0f} s of CPU, peak "
        f"{taken['peak_gb']:.2f} GB ({taken['before_gb']:.2f} before), model {record['model_mb']:.1f} MB",
        flush=True,
    )
    clock, cpu = perf_counter(), process_time()
    top = model.predict_top_k(data.X_test, 5)
    record["predict_cpu"] = process_time() - cpu
    print(f"top 5 of {size.tests} rows: {perf_counter() - clock:.1f} s, {record['predict_cpu']:.1f} s of CPU")
    propensities = label_propensities(data.Y)
    for k in (1, 3, 5):
        record[f"P@{k}"] = precision_at_k(data.Y_test, top, k)
        record[f"PSP@{k}"] = propensity_scored_precision_at_k(data.Y_test, top, k, propensities)
    everything = np.arange(L)
    truth = [precision_among(data.truth_among, data.Y_test, everything, k)[0] for k in (1, 3, 5)]
    record["truth"] = truth
    print("all labels: " + ", ".join(f"{key} {record[key]:.4f}" for key in record if "@" in key))
    print("the truth itself: P@1, 3, 5 " + ", ".join(f"{value:.4f}" for value in truth), flush=True)
    ours = scores_of(model, data.X_test)
    for name, labels in groups(data.Y).items():
        found, error = precision_among(ours, data.Y_test, labels)
        best, _ = precision_among(data.truth_among, data.Y_test, labels)
        record[name] = {"labels": len(labels), "P@1": found, "error": error, "truth": best}
        print(f"{name}, {len(labels)} labels: P@1 {found:.4f} ± {error:.4f}, truth {best:.4f}", flush=True)
    labels = groups(data.Y)["head"][:head]
    record["baselines"] = {"head": len(labels), "ours": precision_among(ours, data.Y_test, labels)}
    print(f"{len(labels)} head labels: ours {record['baselines']['ours'][0]:.4f}", flush=True)
    for name in baselines:
        for strength in STRENGTHS[name]:
            cpu = process_time()
            scores = baseline(name, strength, data, labels)
            found = precision_among(lambda rows, _, S=scores: S[rows], data.Y_test, labels)
            record["baselines"][f"{name} {strength:g}"] = found
            print(
                f"{name}({strength:g}): {found[0]:.4f} ± {found[1]:.4f}, {process_time() - cpu:.0f} s of CPU",
                flush=True,
            )
    return record


class Judged(NamedTuple):
    """A model of the study: a function of rows and labels, its ridge, its rank and its megabytes."""

    scores: Any
    ridge: float
    rank: int | None
    megabytes: float


def of_rank(data: Data, theta: int, alpha: float, ridge: float) -> Judged:
    model = LRML(theta, alpha, ridge=ridge).fit(data.X, data.Y)
    return Judged(scores_of(model, data.X_test), ridge, model.rank_, model.nbytes_ / 1e6)


def one_by_one(data: Data, ridge: float) -> Judged:
    model = Ridge(ridge, solver="cholesky").fit(data.X.toarray(), data.Y.toarray().astype(np.float32))
    W, b = model.coef_.T, model.intercept_

    def scores(rows: slice, labels: Labels) -> Any:
        return data.X_test[rows] @ W[:, labels] + b[labels]

    return Judged(scores, ridge, None, W.nbytes / 1e6)


def study(size: Size, picture: Path | None) -> dict[str, Any]:
    """P@1 of head, middle and tail by theta, for labels of low rank and for those with words of their own.

    The ridge of every model is the best of three on the first half of the test rows; the second half judges.
    """
    record: dict[str, Any] = {"size": size._asdict()}
    thetas = [theta for theta in (5, 10, 20, 30, 60, 120, 240) if theta <= size.labels // 10]
    half = size.tests // 2
    for specific in (0.0, 0.5):
        data = make(size, specific)
        parts = groups(data.Y) | {"all": np.arange(size.labels)}
        makers: dict[str, Any] = {str(theta): partial(of_rank, data, theta, size.alpha) for theta in thetas}
        makers["1-vs-all"] = partial(one_by_one, data)
        makers["topics"] = lambda ridge, data=data: Judged(data.truth_among, ridge, None, 0.0)
        rows: dict[str, Any] = {}
        for name, maker in makers.items():
            best = max(
                (maker(ridge) for ridge in RIDGES),
                key=lambda one: precision_among(one.scores, data.Y_test[:half], parts["all"]),
            )
            found: dict[str, Any] = {
                group: precision_among(best.scores, data.Y_test, labels, first=half)
                for group, labels in parts.items()
            }
            rows[name] = found | {"ridge": best.ridge, "rank": best.rank, "megabytes": best.megabytes}
            cells = [f"{mean:.4f} ± {error:.4f}" for mean, error in found.values()]
            cells += [f"{best.ridge:g}", str(best.rank), f"{best.megabytes:.1f}"]
            print(f"| {specific:g} | {name} | " + " | ".join(cells) + " |", flush=True)
        record[f"specific {specific:g}"] = rows
    if picture is not None:
        draw(record, thetas, picture)
    return record


def draw(record: dict[str, Any], thetas: list[int], path: Path) -> None:
    """Two panels: without and with words that only one label has."""
    titles = {
        "specific 0": f"labels follow {record['size']['rank']} topics",
        "specific 0.5": "and half of them leave a word of their own",
    }
    colours = dict(zip(record["specific 0"]["topics"], ("#1b6ca8", "#c46210", "#4d7c3a"), strict=False))
    figure, panels = plt.subplots(1, 2, figsize=(9.0, 3.8), sharey=True, layout="constrained")
    for panel, (key, title) in zip(panels, titles.items(), strict=True):
        rows = record[key]
        for name, colour in colours.items():
            means, errors = (np.array([rows[str(theta)][name][i] for theta in thetas]) for i in (0, 1))
            panel.errorbar(thetas, means, errors, color=colour, marker="o", markersize=4, label=name)
            panel.axhline(rows["1-vs-all"][name][0], color=colour, linestyle="--", linewidth=1)
        panel.set_xscale("log")
        panel.set_xticks(thetas, [str(theta) for theta in thetas])
        panel.minorticks_off()
        panel.set_xlabel("theta, free singular values")
        panel.set_title(title, fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_yscale("log")
    panels[0].set_yticks(
        *zip(*((value, f"{value:g}") for value in (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)), strict=True)
    )
    panels[0].minorticks_off()
    panels[0].set_ylabel("P@1 among the labels of the group")
    panels[0].plot([], [], color="grey", linestyle="--", linewidth=1, label="one ridge regression per label")
    panels[0].legend(fontsize=8, frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.68))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


def bibtex() -> list[dict[str, float]]:
    """Objectives of the compressed road over the exact ones; also where it has to find directions."""
    records = []
    X, Y = training_set("bibtex", l2=True)
    for theta, alpha, ridge in [(32, 3.0, 0.5), (32, 10.0, 0.0), (10, 3.0, 1.0), (0, 3.0, 0.5)]:
        exact = LRML(theta, alpha, ridge=ridge, solver="primal", tol=1e-6).fit(X, Y)
        record: dict[str, float] = {"theta": theta, "alpha": alpha, "ridge": ridge, "rank": exact.rank_}
        for name, most in (("all directions", subspace._MOST_LABELS), ("directions found", 48)):
            usual, subspace._MOST_LABELS = subspace._MOST_LABELS, most
            try:
                found = LRML(theta, alpha, ridge=ridge, solver="compressed", tol=1e-6).fit(X, Y)
            finally:
                subspace._MOST_LABELS = usual
            record[name] = found.objective_ / exact.objective_ - 1.0
            record[f"{name}, gap"] = found.compression_gap_
        print(json.dumps(record), flush=True)
        records.append(record)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("fit", "study", "bibtex"))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--alpha", type=float)
    parser.add_argument("--ridge", type=float)
    parser.add_argument("--theta", type=int)
    parser.add_argument("--head", type=int, default=HEAD, help="head labels of the baseline")
    parser.add_argument("--baselines", nargs="*", choices=STRENGTHS, default=list(STRENGTHS))
    parser.add_argument("--picture", type=Path, help="where the study draws")
    parser.add_argument("--out", type=Path, default=Path("results/extreme.json"))
    options = parser.parse_args()
    print(machine(), flush=True)
    sizes = {"fit": (QUICK, FULL), "study": (QUICK_STUDY, STUDY)}
    given = {name: getattr(options, name) for name in ("alpha", "ridge", "theta")}
    found: Any
    if options.part == "bibtex":
        found = bibtex()
    else:
        size = sizes[options.part][0 if options.quick else 1]
        size = size._replace(**{name: value for name, value in given.items() if value is not None})
        if options.part == "fit":
            found = run_fit(size, options.baselines, options.head)
        else:
            found = study(size, options.picture)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    content = json.dumps({"machine": machine(), options.part: found}, indent=2, default=float)
    options.out.write_text(content + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
