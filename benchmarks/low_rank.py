"""Where low rank pays: a penalty on the predictions against ridge regression, by paired differences.

    LRML_DATA_HOME=... python benchmarks/low_rank.py labels [--data delicious …] [--seeds 3] [--out DIR]
    python benchmarks/low_rank.py targets [--seeds 5] [--out DIR]
    LRML_DATA_HOME=... python benchmarks/low_rank.py times [--data bibtex delicious …]

``labels``: Mulan's data with all training rows, 25 % and 5 % of them, or with 60 % and 90 % of the labels
hidden (each 1 of Y kept with probability 1 − share; test labels stay). Rows have unit length; yeast and
emotions are standardised. Everything is chosen on training rows. The difference to `MLFroCV` in test average
precision has the standard error of its mean over the test rows. ``targets``: simulated regression of many
targets, relative risk ‖Ŵ − W‖² / ‖W‖². ``times``: seconds over those of scikit-learn's Ridge in the same run.
"""

from __future__ import annotations

import argparse
import json
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _data import machine
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.preprocessing import StandardScaler, normalize

import lrml
from lrml.datasets import fetch_mulan, load_yeast
from lrml.metrics import average_precision

NAMES = ("delicious", "corel5k", "bibtex", "enron", "yeast", "emotions")
CONDITIONS = ("all", "25 % of rows", "5 % of rows", "60 % hidden", "90 % hidden")
SEARCHES: dict[str, Callable[[int], Any]] = {
    "ridge": lambda seed: lrml.MLFroCV(random_state=seed),
    "trace": lambda seed: lrml.MLTraceCV(ridges=None, space="predictions", random_state=seed),
    "tail": lambda seed: lrml.LRMLCV(random_state=seed),
    "coefficients": lambda seed: lrml.LRMLCV(space="coefficients", random_state=seed),
}


def dataset(name: str) -> tuple[Any, ...]:
    """Return training rows and labels, and those of the test set, scaled as usual."""
    found = load_yeast() if name == "yeast" else fetch_mulan(name)
    (X, Y), (X_test, Y_test) = found.train, found.test
    if name in ("yeast", "emotions"):
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    else:
        X, X_test = normalize(X), normalize(X_test)
    return X, np.asarray(Y.toarray() if hasattr(Y, "toarray") else Y, dtype=float), X_test, Y_test


def reduced(X: Any, Y: Any, condition: str, seed: int) -> tuple[Any, Any]:
    """Return some of the rows, or fewer positive labels."""
    random = np.random.default_rng(seed)
    share = 1.0 if condition == "all" else float(condition.split(maxsplit=1)[0]) / 100
    if condition.endswith("hidden"):
        return X, Y * (random.random(Y.shape) < 1.0 - share)
    rows = random.permutation(len(Y))[: round(share * len(Y))]
    return X[rows], Y[rows]


def labels(names: list[str], n_seeds: int) -> Iterator[dict[str, Any]]:
    """Compare the searches on every data set under every condition."""
    for name in names:
        X, Y, X_test, Y_test = dataset(name)
        for condition in CONDITIONS:
            for seed in range(1 if condition == "all" else n_seeds):
                part = reduced(X, Y, condition, seed)
                found: dict[str, Any] = {"data": name, "condition": condition, "seed": seed}
                ridge = np.zeros(0)
                for method, make in SEARCHES.items():
                    model = make(seed).fit(*part)
                    values = average_precision(Y_test, model.decision_function(X_test), per_example=True)
                    ridge = values if method == "ridge" else ridge
                    lead = (values - ridge)[np.isfinite(values - ridge)]
                    found[method] = float(np.nanmean(values))
                    found[f"{method} lead"] = float(lead.mean())
                    found[f"{method} error"] = float(lead.std(ddof=1) / np.sqrt(len(lead)))
                    found[f"{method} params"] = model.best_params_
                yield found


def simulated(kind: str, seed: int) -> tuple[Any, Any, Any]:
    """Return X, Y and W of a recipe: X normal, W of low rank or with decaying singular values, noise 1."""
    n, d, L, how, value, ratio = TARGETS[kind]
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    if how == "rank":
        W = random.standard_normal((d, value)) @ random.standard_normal((value, L))
    else:
        U, V = (np.linalg.qr(random.standard_normal((size, min(d, L))))[0] for size in (d, L))
        W = (U * np.arange(1.0, min(d, L) + 1) ** -value) @ V.T
    W *= np.sqrt(ratio / np.mean(np.sum(W**2, axis=0)))
    return X, X @ W + random.standard_normal((n, L)), W


TARGETS: dict[str, tuple[Any, ...]] = {
    "200, 100, 100, rank 5": (200, 100, 100, "rank", 5, 0.5),
    "200, 100, 500, 1/j": (200, 100, 500, "decay", 1.0, 0.5),
    "200, 100, 500, 1/√j": (200, 100, 500, "decay", 0.5, 0.5),
    "1000, 200, 200, rank 10": (1000, 200, 200, "rank", 10, 0.1),
}


def targets(n_seeds: int) -> Iterator[dict[str, Any]]:
    """Compare the searches on simulated targets."""
    makes = SEARCHES | {"rank": lambda seed: lrml.CPLSTCV(random_state=seed)}
    for kind in TARGETS:
        for seed in range(n_seeds):
            X, Y, W = simulated(kind, seed)
            found: dict[str, Any] = {"kind": kind, "seed": seed}
            for method, make in makes.items():
                model = make(0).set_params(targets="real").fit(X, Y)
                found[method] = float(np.sum((model.coef_.T - W) ** 2) / np.sum(W**2))
            yield found


def times(names: list[str], repeats: int = 3) -> Iterator[dict[str, Any]]:
    """Time searches and a path beside Ridge and RidgeCV; the best of a few runs each."""
    for name in names:
        X, Y, *_ = dataset(name)
        dense = X.toarray() if hasattr(X, "toarray") else X
        works: dict[str, Callable[[], Any]] = {
            "Ridge": partial(Ridge(1.0).fit, dense, Y),
            "RidgeCV, 12 alphas": partial(RidgeCV(np.geomspace(1e-2, 1e2, 12)).fit, dense, Y),
            "LRML()": partial(lrml.LRML().fit, X, Y),
            "MLFroCV()": partial(lrml.MLFroCV(random_state=0).fit, X, Y),
            "LRMLCV()": partial(lrml.LRMLCV(random_state=0).fit, X, Y),
        }
        seconds = {work: min(timeit.repeat(call, number=1, repeat=repeats)) for work, call in works.items()}
        ratios = {work: span / seconds["Ridge"] for work, span in seconds.items()}
        yield {"data": name, "Ridge, seconds": seconds["Ridge"], **ratios}


def main() -> None:
    """Print one line for each result, and keep them as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["labels", "targets", "times"])
    parser.add_argument("--data", nargs="+", default=list(NAMES), choices=NAMES)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    print(machine())
    calls = {"labels": (labels, given.data, given.seeds), "targets": (targets, given.seeds)}
    call, *arguments = calls.get(given.what, (times, given.data))
    for found in call(*arguments):
        words = (
            f"{key} {value:.4f}" if isinstance(value, float) else f"{key} {value}"
            for key, value in found.items()
        )
        print(", ".join(words), flush=True)
        if given.out is not None:
            given.out.mkdir(parents=True, exist_ok=True)
            with (given.out / f"low_rank_{given.what}.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
