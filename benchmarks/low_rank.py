"""Where low rank pays: a penalty on the predictions against ridge regression, by paired differences.

    LRML_DATA_HOME=... python benchmarks/low_rank.py labels [--data delicious …] [--seeds 3] [--out DIR]
    python benchmarks/low_rank.py simulated [--seeds 5] [--out DIR]
    python benchmarks/low_rank.py targets --folder DIR [--data andro …] [--seeds 3] [--out DIR]
    LRML_DATA_HOME=... python benchmarks/low_rank.py times [--data bibtex delicious …] [--out DIR]
    python benchmarks/low_rank.py figure --out DIR [--images docs/images]

``labels``: Mulan's data with all training rows, 25 % and 5 % of them, or with 60 % and 90 % of the labels
hidden (each 1 of Y kept with probability 1 − share; test labels stay). Rows have unit length; yeast and
emotions are standardised. Everything is chosen on training rows. The difference to the best ridge in test
average precision has the standard error of its mean over the test rows. ``simulated``: regression of many
targets, relative risk ‖Ŵ − W‖² / ‖W‖². ``targets``: Mulan's multi-target sets, ``<name>.arff`` of a folder
(repository tsoumakas/mulan, data/multi-target), by ten folds, drawn anew for each seed: squared error of
standardised targets, and its difference to ridge with a standard error over the rows. ``times``: seconds over
those of scikit-learn's Ridge in the same run, beside what else searches for a joint model: scikit-learn's
RidgeCV and MultiTaskElasticNetCV (where it ends in minutes), and himalaya's RidgeCV, if it is installed.
``figure`` draws what the first three have left in a folder.
"""

from __future__ import annotations

import argparse
import json
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from _data import machine
from sklearn.linear_model import MultiTaskElasticNetCV, Ridge, RidgeCV
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler, normalize

import lrml
from lrml.datasets import fetch_mulan, load_yeast
from lrml.metrics import average_precision

NAMES = ("delicious", "corel5k", "bibtex", "enron", "yeast", "emotions")
CONDITIONS = ("all", "25 % of rows", "5 % of rows", "60 % hidden", "90 % hidden")
SEARCHES: dict[str, Callable[[int], Any]] = {
    "ridge": lambda seed: lrml.MLFroCV(random_state=seed),
    "trace": lambda seed: lrml.LRMLCV(thetas=[0], random_state=seed),
    "tail": lambda seed: lrml.LRMLCV(random_state=seed),
    "coefficients": lambda seed: lrml.LRMLCV(lrml.LRML(space="coefficients"), random_state=seed),
}
SHARES = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0)
REGRESSIONS: dict[str, Callable[[int], Any]] = {
    "ridge": lambda seed: lrml.SpectralRegressorCV(alphas=0, random_state=seed),
    "trace": lambda seed: lrml.SpectralRegressorCV(thetas=0, random_state=seed),
    "tail": lambda seed: lrml.SpectralRegressorCV(random_state=seed),
    "rank": lambda seed: lrml.SpectralRegressorCV(ranks=SHARES, random_state=seed),
}
# Shapes, how W is made, its rank or decay, and the ratio of signal to noise.
SIMULATED: dict[str, tuple[Any, ...]] = {
    "200, 100, 100, rank 5": (200, 100, 100, "rank", 5, 0.5),
    "200, 100, 500, 1/j": (200, 100, 500, "decay", 1.0, 0.5),
    "200, 100, 500, 1/√j": (200, 100, 500, "decay", 0.5, 0.5),
    "1000, 200, 200, rank 10": (1000, 200, 200, "rank", 10, 0.1),
}
# How many of the last columns of a multi-target set are targets.
TARGETS = {
    **{"andro": 6, "atp1d": 6, "atp7d": 6, "edm": 2, "enb": 2, "jura": 3, "oes10": 16, "oes97": 16},
    **{"osales": 12, "scpf": 3, "slump": 3, "wq": 14},
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


def compared(values: dict[str, Any], sign: float = 1.0) -> dict[str, Any]:
    """Return means over rows, and by how much each method leads ridge there, with a standard error."""
    found = {}
    for method, one in values.items():
        lead = sign * (one - values["ridge"])
        lead = lead[np.isfinite(lead)]
        found[method] = float(np.nanmean(one))
        found[f"{method} lead"] = float(lead.mean())
        found[f"{method} error"] = float(lead.std(ddof=1) / np.sqrt(len(lead)))
    return found


def labels(names: list[str], n_seeds: int) -> Iterator[dict[str, Any]]:
    """Compare the searches on every data set under every condition."""
    for name in names:
        X, Y, X_test, Y_test = dataset(name)
        for condition in CONDITIONS:
            for seed in range(1 if condition == "all" else n_seeds):
                part = reduced(X, Y, condition, seed)
                models = {method: make(seed).fit(*part) for method, make in SEARCHES.items()}
                values = {
                    method: average_precision(Y_test, model.decision_function(X_test), per_example=True)
                    for method, model in models.items()
                }
                chosen = {f"{method} params": model.best_params_ for method, model in models.items()}
                yield {"data": name, "condition": condition, "seed": seed} | compared(values) | chosen


def simulation(kind: str, seed: int) -> tuple[Any, Any, Any]:
    """Return X, Y and W of a recipe: X normal, W of low rank or with decaying singular values, noise 1."""
    n, d, L, how, value, ratio = SIMULATED[kind]
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, d))
    if how == "rank":
        W = random.standard_normal((d, value)) @ random.standard_normal((value, L))
    else:
        U, V = (np.linalg.qr(random.standard_normal((size, min(d, L))))[0] for size in (d, L))
        W = (U * np.arange(1.0, min(d, L) + 1) ** -value) @ V.T
    W *= np.sqrt(ratio / np.mean(np.sum(W**2, axis=0)))
    return X, X @ W + random.standard_normal((n, L)), W


def simulated(n_seeds: int) -> Iterator[dict[str, Any]]:
    """Compare the searches on simulated targets."""
    for kind in SIMULATED:
        for seed in range(n_seeds):
            X, Y, W = simulation(kind, seed)
            risks = {
                method: float(np.sum((make(0).fit(X, Y).coef_.T - W) ** 2) / np.sum(W**2))
                for method, make in REGRESSIONS.items()
            }
            yield {"kind": kind, "seed": seed} | risks


def read_targets(path: Path) -> tuple[Any, Any]:
    """Return features, with NaN where they are missing, and targets of a file of numbers in ARFF."""
    head, _, rows = path.read_text(encoding="utf-8").partition("@data")
    rows = rows or head.partition("@DATA")[2]
    lines = (line.strip() for line in rows.splitlines())
    numbers = np.array(
        [
            [np.nan if cell.strip() == "?" else float(cell) for cell in line.split(",")]
            for line in lines
            if line and not line.startswith("%")
        ]
    )
    return numbers[:, : -TARGETS[path.stem]], numbers[:, -TARGETS[path.stem] :]


def prepared(X: Any, Y: Any, train: Any, test: Any) -> tuple[Any, Any, Any, Any]:
    """Impute features by medians of the training rows, and standardise all by these rows."""
    X = np.where(np.isnan(X), np.nan_to_num(np.nanmedian(X[train], axis=0)), X)
    scaled = [StandardScaler().fit(part[train]).transform(part) for part in (X, Y)]
    return scaled[0][train], scaled[1][train], scaled[0][test], scaled[1][test]


def targets(folder: Path, names: list[str], n_seeds: int) -> Iterator[dict[str, Any]]:
    """Compare the searches on real targets, each row predicted by a model of the other nine folds."""
    for name in names:
        X, Y = read_targets(folder / f"{name}.arff")
        for seed in range(n_seeds):
            errors = {method: np.zeros(len(X)) for method in REGRESSIONS}
            for train, test in KFold(10, shuffle=True, random_state=seed).split(X):
                X_train, Y_train, X_test, Y_test = prepared(X, Y, train, test)
                for method, make in REGRESSIONS.items():
                    found = make(seed).fit(X_train, Y_train).predict(X_test)
                    errors[method][test] = np.mean((found - Y_test) ** 2, axis=1)
            yield {"data": name, "shape": [*X.shape, Y.shape[1]], "seed": seed} | compared(errors, -1.0)


def peers(X: Any, Y: Any) -> dict[str, Callable[[], Any]]:
    """Return what others have, on dense data."""
    strengths = np.geomspace(1e-2, 1e2, 12)
    works: dict[str, Callable[[], Any]] = {
        "Ridge": partial(Ridge(1.0).fit, X, Y),
        "RidgeCV, 12 alphas": partial(RidgeCV(strengths).fit, X, Y),
    }
    if find_spec("himalaya") is None:
        print("himalaya is not installed: left out")
    else:
        model = import_module("himalaya.ridge").RidgeCV(strengths, fit_intercept=True)
        works["himalaya RidgeCV, 12 alphas, one for each target"] = partial(model.fit, X, Y)
    if X.size * Y.shape[1] < 1e7:
        works["MultiTaskElasticNetCV"] = partial(MultiTaskElasticNetCV(cv=5).fit, X, Y)
    return works


def times(names: list[str], repeats: int = 3) -> Iterator[dict[str, Any]]:
    """Time searches and a fit beside those of others; the best of a few runs each."""
    for name in names:
        X, Y, *_ = dataset(name)
        works = peers(X.toarray() if hasattr(X, "toarray") else X, Y) | {
            "LRML()": partial(lrml.LRML().fit, X, Y),
            "MLFroCV()": partial(lrml.MLFroCV(random_state=0).fit, X, Y),
            "LRMLCV()": partial(lrml.LRMLCV(random_state=0).fit, X, Y),
        }
        seconds = {}
        for work, call in works.items():
            spans = [timeit.timeit(call, number=1)]
            while len(spans) < repeats and sum(spans) < 30.0:
                spans.append(timeit.timeit(call, number=1))
            seconds[work] = min(spans)
        ratios = {work: span / seconds["Ridge"] for work, span in seconds.items()}
        yield {"data": name, "Ridge, seconds": seconds["Ridge"], **ratios}


def records(folder: Path, what: str) -> list[dict[str, Any]]:
    """Return what a run has left in a folder."""
    path = folder / f"low_rank_{what}.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def draw_leads(axes: Any, found: list[dict[str, Any]], key: str, methods: dict[str, str]) -> None:
    """Draw by how much each method leads ridge, one group of points for each value of a key."""
    groups = list(dict.fromkeys(one[key] for one in found))
    for place, (method, colour) in enumerate(methods.items()):
        rows = [[one for one in found if one[key] == group] for group in groups]
        means = [np.mean([one[f"{method} lead"] for one in some]) for some in rows]
        bars = [np.sqrt(np.sum([one[f"{method} error"] ** 2 for one in some])) / len(some) for some in rows]
        spots = np.arange(len(groups)) + 0.16 * (place - (len(methods) - 1) / 2)
        axes.errorbar(spots, means, bars, fmt="o", ms=4, capsize=2, color=colour, label=method)
    axes.axhline(0, color="0.4", lw=0.8)
    axes.set_xticks(range(len(groups)), groups, rotation=30, ha="right")


def figure(folder: Path, images: Path) -> None:
    """Draw the leads on labels and on real targets, and the risks of the simulations."""
    plt = import_module("matplotlib.pyplot")
    colours = {"trace": "#E69F00", "tail": "#0072B2"}
    by_data: dict[str, list[dict[str, Any]]] = {}
    for one in records(folder, "labels"):
        by_data.setdefault(one["data"], []).append(one)
    real, recipes = records(folder, "targets"), records(folder, "simulated")
    n_rows = -(-(len(by_data) + bool(real) + bool(recipes)) // 2)
    canvas, grid = plt.subplots(n_rows, 2, figsize=(8.0, 3.2 * n_rows), layout="constrained", squeeze=False)
    places = iter(grid.flat)
    for name, some in by_data.items():
        axes = next(places)
        draw_leads(axes, some, "condition", colours)
        axes.set(title=name, ylabel="average precision beyond ridge")
    if real:
        axes = next(places)
        draw_leads(axes, real, "data", colours)
        axes.set(title="multi-target sets", ylabel="squared error below ridge")
    if recipes:
        axes = next(places)
        kinds = list(dict.fromkeys(one["kind"] for one in recipes))
        for place, (method, colour) in enumerate({"ridge": "0.6", **colours}.items()):
            means = [np.mean([one[method] for one in recipes if one["kind"] == kind]) for kind in kinds]
            axes.bar(np.arange(len(kinds)) + 0.25 * (place - 1), means, 0.25, color=colour, label=method)
        axes.set_xticks(range(len(kinds)), [kind.rpartition(", ")[2] for kind in kinds], rotation=30)
        axes.set(title="simulated regressions", ylabel="relative risk")
        canvas.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    for axes in grid.flat:
        axes.spines[["top", "right"]].set_visible(False)
    canvas.savefig(images / "low_rank.png", dpi=150)


def main() -> None:
    """Print one line for each result, and keep them as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=["labels", "simulated", "targets", "times", "figure"])
    parser.add_argument("--data", nargs="+", choices=[*NAMES, *TARGETS])
    parser.add_argument("--folder", type=Path, help="where the multi-target sets are")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--images", type=Path, default=Path("docs/images"))
    given = parser.parse_args()
    if (given.what == "targets" and given.folder is None) or (given.what == "figure" and given.out is None):
        parser.error("targets needs --folder, figure needs --out")
    if given.what == "figure":
        figure(given.out, given.images)
        return
    print(machine())
    found = {
        "labels": lambda: labels(given.data or list(NAMES), given.seeds),
        "simulated": lambda: simulated(given.seeds),
        "targets": lambda: targets(given.folder, given.data or list(TARGETS), given.seeds),
        "times": lambda: times(given.data or list(NAMES)),
    }[given.what]()
    for one in found:
        words = (
            f"{key} {value:.4f}" if isinstance(value, float) else f"{key} {value}"
            for key, value in one.items()
        )
        print(", ".join(words), flush=True)
        if given.out is not None:
            given.out.mkdir(parents=True, exist_ok=True)
            with (given.out / f"low_rank_{given.what}.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(one) + "\n")


if __name__ == "__main__":
    main()
