"""Stratified folds: seconds compared with the published pseudo-code, and how even the folds are.

    LRML_DATA_HOME=... python benchmarks/splits.py [--out results] [--rows 100000] [--labels 500]

Times ``MultilabelStratifiedKFold(5)`` on random sparse labels of low and of high cardinality, and in the same
run the pseudo-code of Sechidis et al. (2011) a row at a time and, if it is installed, the package
``iterative-stratification``, which takes a dense Y. The measure of evenness is the paper's LD, the mean
difference between the odds of a label in a fold and in all rows.
Writes ``splits.json``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp
from _data import machine, training_set
from rich.console import Console
from sklearn.model_selection import KFold

from lrml.datasets import load_yeast
from lrml.model_selection import MultilabelStratifiedKFold

try:
    from iterstrat.ml_stratifiers import MultilabelStratifiedKFold as Peer
except ImportError:
    Peer = None

FOLDS = 5
CARDINALITIES = (3.0, 50.0)
console = Console(width=110)


def random_labels(rows: int, labels: int, cardinality: float) -> sp.csr_array:
    """Independent labels whose frequencies follow a power law."""
    rng = np.random.default_rng(0)
    share = np.arange(1.0, labels + 1) ** -0.8
    share = np.minimum(share * cardinality / share.sum(), 0.9)
    return sp.csr_array(sp.vstack([sp.csr_array(rng.random((1, rows)) < p) for p in share]).T, dtype=np.uint8)


def row_by_row(Y: sp.csr_array, k: int, seed: int = 0) -> np.ndarray:
    """Return the fold of each row by a literal transcription of the paper's pseudo-code."""
    rng = np.random.default_rng(seed)
    n = Y.shape[0]
    rows_of_label = Y.tocsc()
    left = np.bincount(Y.indices, minlength=Y.shape[1])
    desired = np.full(k, n / k)
    desired_label = np.repeat(left[:, None] / k, k, axis=1)
    fold = np.full(n, -1)

    def give(row: int, candidates: np.ndarray) -> None:
        best = candidates[desired[candidates] == desired[candidates].max()]
        chosen = best[0] if best.size == 1 else rng.choice(best)
        labels = Y.indices[Y.indptr[row] : Y.indptr[row + 1]]
        fold[row] = chosen
        desired[chosen] -= 1
        desired_label[labels, chosen] -= 1
        left[labels] -= 1

    while left.any():
        label = np.argmin(np.where(left > 0, left, n + 1))
        wish = desired_label[label]
        for row in rows_of_label.indices[rows_of_label.indptr[label] : rows_of_label.indptr[label + 1]]:
            if fold[row] < 0:
                give(row, np.flatnonzero(wish == wish.max()))
    for row in np.flatnonzero(fold < 0):
        give(row, np.arange(k))
    return fold


def from_splits(splits: Iterable[tuple[np.ndarray, np.ndarray]], n: int) -> np.ndarray:
    fold = np.empty(n, dtype=int)
    for number, (_, test) in enumerate(splits):
        fold[test] = number
    return fold


def ours(Y: Any, seed: int = 0, k: int = FOLDS) -> np.ndarray:
    return from_splits(MultilabelStratifiedKFold(k, random_state=seed).split(Y, Y), Y.shape[0])


def seconds(run: Callable[[], object], repeats: int = 1) -> float:
    times = []
    for _ in range(repeats):
        clock = perf_counter()
        run()
        times.append(perf_counter() - clock)
    return median(times)


def compare_times(rows: int, labels: int, cardinality: float) -> dict[str, float]:
    """Time our folds, the pseudo-code, and the peer if it is there."""
    Y = random_labels(rows, labels, cardinality)
    record = {"rows": rows, "labels": labels, "nonzeros": Y.nnz, "seconds": seconds(lambda: ours(Y), 3)}
    record["row_by_row_seconds"] = seconds(lambda: row_by_row(Y, FOLDS))
    record["ratio"] = record["row_by_row_seconds"] / record["seconds"]
    if Peer is not None:
        dense, peer = Y.toarray(), Peer(FOLDS, shuffle=True, random_state=0)
        record["peer_seconds"] = seconds(lambda: list(peer.split(dense, dense)))
        record["peer_ratio"] = record["peer_seconds"] / record["seconds"]
    return record


def evenness(Y: sp.csr_array, fold: np.ndarray, k: int) -> tuple[float, int, float]:
    """Return LD, the (label, fold) pairs without a row, and the largest deviation of a size in percent."""
    n = Y.shape[0]
    counts = sp.csr_array((np.ones(n), (fold, np.arange(n))), shape=(k, n)) @ Y
    counts = counts.toarray()
    sizes, totals = np.bincount(fold, minlength=k), counts.sum(axis=0)
    odds = counts / (sizes[:, None] - counts)
    deviation = np.abs(odds - totals / (n - totals)).mean()
    return float(deviation), int(np.sum(counts == 0)), float(100 * np.abs(sizes * k / n - 1).max())


def compare_evenness(name: str, Y: sp.csr_array, seeds: int, k: int = 10) -> dict[str, Any]:
    """Average over seeds: ours, the pseudo-code row by row, and random folds."""
    n = Y.shape[0]
    methods: dict[str, Callable[[int], np.ndarray]] = {
        "lrml": lambda seed: ours(Y, seed, k),
        "row by row": lambda seed: row_by_row(Y, k, seed),
        "KFold": lambda seed: from_splits(KFold(k, shuffle=True, random_state=seed).split(np.zeros(n)), n),
    }
    record: dict[str, Any] = {"data": name, "folds": k, "seeds": seeds}
    for method, run in methods.items():
        mean = np.mean([evenness(Y, run(seed), k) for seed in range(seeds)], axis=0)
        record[method] = dict(
            zip(("LD", "pairs_without_row", "size_deviation_percent"), mean.tolist(), strict=True)
        )
        console.print(
            f"{name}, {method}: LD {mean[0]:.5f}, (label, fold) pairs without a row {mean[1]:.1f}, "
            f"sizes within {mean[2]:.1f} %"
        )
    return record


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--labels", type=int, default=500)
    parser.add_argument("--seeds", type=int, default=20)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)

    times = []
    for cardinality in CARDINALITIES:
        times.append(compare_times(options.rows, options.labels, cardinality))
        console.print(
            "{rows} × {labels}, {nonzeros} ones: {seconds:.2f} s; row by row {row_by_row_seconds:.1f} s, "
            "ratio {ratio:.0f}".format(**times[-1])
        )
        if Peer is not None:
            console.print(
                "  iterative-stratification {peer_seconds:.1f} s, ratio {peer_ratio:.0f}".format(**times[-1])
            )
    sets = {"yeast": sp.csr_array(load_yeast().Y)}
    sets |= {name: training_set(name, l2=False)[1] for name in ("bibtex", "corel5k")}
    even = [compare_evenness(name, Y, options.seeds) for name, Y in sets.items()]
    record = {"machine": machine(), "times": times, "evenness": even}
    (options.out / "splits.json").write_text(json.dumps(record, indent=1), encoding="utf8")
    console.print(f"written: {options.out / 'splits.json'}")


if __name__ == "__main__":
    try:
        main()
    except FileNotFoundError as missing:  # the data; the message says what to put where
        raise SystemExit(str(missing)) from None
