"""Where low rank pays: a penalty on the predictions against ridge regression, by paired differences.

    LRML_DATA_HOME=... python benchmarks/low_rank.py labels [--data delicious …] [--seeds 3] [--out DIR]
    python benchmarks/low_rank.py simulated [--seeds 5] [--out DIR]
    python benchmarks/low_rank.py targets --folder DIR [--data andro …] [--seeds 3] [--out DIR]
    python benchmarks/low_rank.py figure --out DIR [--images docs/images]

``labels``: Mulan's data with all training rows, 25 % and 5 % of them, or with 60 % and 90 % of the labels
hidden (each 1 of Y kept with probability 1 − share; test labels stay). Rows have unit length; yeast and
emotions are standardised. Everything is chosen on training rows. The difference to the best ridge in test
average precision has the standard error of its mean over the test rows. ``simulated``: regression of many
targets, relative risk ‖Ŵ − W‖² / ‖W‖², in the mean over seeds; the default must be within 5 % of the best of
its restrictions, and at least twice as good as ridge where the rank is 5 of 100. ``targets``: Mulan's
multi-target sets, ``<name>.arff`` of a folder (repository tsoumakas/mulan, data/multi-target), by ten folds,
drawn anew for each seed: squared error of standardised targets, and its difference to ridge with a standard
error over the rows. ``figure`` draws what the others have left in a folder. Results are printed one by one,
and at the end as a table of means over the seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from _bench import dense, head, line, machine, mean_and_error, mulan
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler

import lrml
from lrml.metrics import label_ranking_average_precision

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
FEW_DIRECTIONS = "200, 100, 100, rank 5"
# Shapes, how W is made, its rank or decay, and the ratio of signal to noise.
SIMULATED: dict[str, tuple[Any, ...]] = {
    FEW_DIRECTIONS: (200, 100, 100, "rank", 5, 0.5),
    "200, 100, 500, 1/j": (200, 100, 500, "decay", 1.0, 0.5),
    "200, 100, 500, 1/√j": (200, 100, 500, "decay", 0.5, 0.5),
    "1000, 200, 200, rank 10": (1000, 200, 200, "rank", 10, 0.1),
}
# How many of the last columns of a multi-target set are targets.
TARGETS = {
    **{"andro": 6, "atp1d": 6, "atp7d": 6, "edm": 2, "enb": 2, "jura": 3, "oes10": 16, "oes97": 16},
    **{"osales": 12, "scpf": 3, "slump": 3, "wq": 14},
}


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
        found[method] = float(np.nanmean(one))
        found[f"{method} lead"], found[f"{method} error"] = mean_and_error(sign * (one - values["ridge"]))
    return found


def labels(names: list[str], n_seeds: int) -> Iterator[dict[str, Any]]:
    """Compare the searches on every data set under every condition."""
    for name in names:
        X, Y, X_test, Y_test = mulan(name, "usual")
        Y = dense(Y)
        for condition in CONDITIONS:
            for seed in range(1 if condition == "all" else n_seeds):
                part = reduced(X, Y, condition, seed)
                models = {method: make(seed).fit(*part) for method, make in SEARCHES.items()}
                values = {
                    method: label_ranking_average_precision(
                        Y_test, model.decision_function(X_test), per_example=True
                    )
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


def print_table(found: list[dict[str, Any]]) -> None:
    """Print means over the seeds, of risks or of leads, with the errors of the latter."""
    keys = [key for key in ("kind", "data", "condition") if key in found[0]]
    leads = [key.removesuffix(" lead") for key in found[0] if key.endswith(" lead")]
    methods = leads or list(REGRESSIONS)
    print("\n" + head([*keys, *methods]))
    for group in dict.fromkeys(tuple(one[key] for key in keys) for one in found):
        some = [one for one in found if tuple(one[key] for key in keys) == group]
        cells: list[Any] = [f"{np.mean([one[method] for one in some]):.4f}" for method in methods]
        for place, method in enumerate(leads):
            if method != "ridge":
                error = np.sqrt(np.sum([one[f"{method} error"] ** 2 for one in some])) / len(some)
                cells[place] = (float(np.mean([one[f"{method} lead"] for one in some])), float(error))
        print(line([*group, *cells]))


def bars_hold(found: list[dict[str, Any]]) -> bool:
    """Tell whether the default is as good as it should be in every simulation, and print by how much."""
    held = True
    for kind in dict.fromkeys(one["kind"] for one in found):
        risks = {
            method: np.mean([one[method] for one in found if one["kind"] == kind]) for method in REGRESSIONS
        }
        best = min(risks[method] for method in REGRESSIONS if method != "tail")
        shares = risks["tail"] / best, risks["tail"] / risks["ridge"]
        print(f"{kind}: {shares[0]:.3f} of the best restriction, {shares[1]:.3f} of ridge")
        held &= risks["tail"] <= 1.05 * best
        held &= kind != FEW_DIRECTIONS or 2.0 * risks["tail"] <= risks["ridge"]
    return bool(held)


def main() -> int:
    """Print one line for each result and a table, and keep the results as JSON lines."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=["labels", "simulated", "targets", "figure"])
    parser.add_argument("--data", nargs="+", choices=[*NAMES, *TARGETS])
    parser.add_argument("--folder", type=Path, help="where the multi-target sets are")
    parser.add_argument("--seeds", type=int, help="by default 5 in simulations, else 3")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--images", type=Path, default=Path("docs/images"))
    given = parser.parse_args()
    if (given.what == "targets" and given.folder is None) or (given.what == "figure" and given.out is None):
        parser.error("targets needs --folder, figure needs --out")
    if given.what == "figure":
        figure(given.out, given.images)
        return 0
    print(machine())
    results = {
        "labels": lambda: labels(given.data or list(NAMES), given.seeds or 3),
        "simulated": lambda: simulated(given.seeds or 5),
        "targets": lambda: targets(given.folder, given.data or list(TARGETS), given.seeds or 3),
    }[given.what]()
    found = []
    for one in results:
        found.append(one)
        cells = (f"{value:.4f}" if isinstance(value, float) else str(value) for value in one.values())
        print(line(cells), flush=True)
        if given.out is not None:
            given.out.mkdir(parents=True, exist_ok=True)
            with (given.out / f"low_rank_{given.what}.jsonl").open("a", encoding="utf-8") as stream:
                stream.write(json.dumps(one) + "\n")
    print_table(found)
    return 0 if given.what != "simulated" or bars_hold(found) else 1


if __name__ == "__main__":
    sys.exit(main())
