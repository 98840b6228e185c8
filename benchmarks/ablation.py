"""What each part of the default solver is worth, in eigendecompositions of min(d, L)² matrices.

    LRML_DATA_HOME=... python benchmarks/ablation.py [--paths] [--out results]

Without ``--paths``: how far the objective is above the best found after a given number of decompositions, for
single problems. With it: mean decompositions per model for whole paths over alpha. Counts, not seconds: for
every method a step costs such a decomposition and a few products. All are counted, including those of
rejected trials and of the default's reduced-rank candidates. A step of `Alternating` that changes the basis
of the column space takes a second, smaller one, of size rank², which is counted separately. Writes a record
and a picture.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import matplotlib.pyplot as plt
import numpy as np
from _data import machine, training_set
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from rival_solvers import ADMM, Reweighted

from lrml.core.arrays import descending_eigh
from lrml.core.moments import Statistics
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.solvers import Alternating, IterationInfo, Phase, alpha_max, chains_for, solve, solve_chain

# data set, rows L2-normalised and intercept, theta, alpha
PROBLEMS = (
    ("bibtex", False, 32, 30.0),
    ("bibtex", True, 32, 3.0),
    ("delicious", True, 197, 10.0),
    ("corel5k", True, 75, 3.0),
    ("yeast", False, 3, 10.0),
)
BUDGETS = (3, 5, 10, 20, 60)
SHARES = (0.0, 0.05, 0.1, 0.2, 0.4)
N_ALPHAS, RANGE, TOL, MOST = 20, 1e3, 1e-3, 300
# Okabe and Ito's colours, which colour-blind readers can tell apart; dashes and markers work without colour.
BLUE, RED, GREEN, PINK, ORANGE, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
console = Console(width=120)


def one_sided() -> Alternating:
    """Return an `Alternating` that never turns the column space."""
    phase = Alternating()
    phase.turning, phase.patient_steps = 0.0, math.inf
    return phase


# method, and how to draw it
METHODS: dict[str, tuple[Callable[[], str | Phase], dict[str, Any]]] = {
    "proximal gradient": (lambda: "pg", {"color": "0.6", "ls": ":"}),
    "accelerated proximal gradient": (lambda: "apg", {"color": "0.35", "ls": "--"}),
    "ADMM": (lambda: ADMM(memory=0), {"color": ORANGE, "ls": ":"}),
    "ADMM + Anderson": (ADMM, {"color": ORANGE, "ls": "-"}),
    "reweighted only": (lambda: Reweighted(-1.0, max(BUDGETS)), {"color": PINK, "ls": "-."}),
    "alternating": (Alternating, {"color": GREEN, "ls": "-"}),
    "alternating, right side only": (one_sided, {"color": RED, "ls": (0, (2, 2))}),
    "alternating without Anderson": (lambda: Alternating(memory=0), {"color": SKY, "ls": "--"}),
    "default": (lambda: "auto", {"color": BLUE, "ls": "-", "lw": 2.6}),
}
PATH_METHODS = {
    "ADMM + Anderson, warm": (ADMM, {"color": ORANGE, "marker": "D"}),
    "default, cold": (lambda: "auto", {"color": "0.35", "marker": "s"}),
    "default, chains": (None, {"color": BLUE, "marker": "o"}),
}


def load(name: str, tuned: bool) -> SpectralProblem:
    statistics = Statistics.from_arrays(*training_set(name, l2=tuned))
    return SpectralProblem.from_moments(statistics.centered() if tuned else statistics.uncentered())


class Counter:
    """Counts decompositions while active: of min(d, L)² Gram matrices, and of smaller ones in left solves."""

    def __enter__(self) -> Counter:
        modules = ("penalties", "solvers.alternating")
        self.patches = [patch(f"lrml.{module}.descending_eigh", wraps=descending_eigh) for module in modules]
        self.gram, self.turned = (one.start() for one in self.patches)
        return self

    def __exit__(self, *details: object) -> None:
        for one in self.patches:
            one.stop()


def run_counted(
    problem: SpectralProblem, penalty: TailSum, most: int, tol: float = 0.0, **options: Any
) -> tuple[np.ndarray, int, Any]:
    """Solve; return decompositions and objective by iteration, small decompositions, and the result.

    Work before the first step, and on the factors of the result, is not counted: it is the same for all
    methods. Nor is the check of the final residual.
    """
    rows: list[tuple[int, float]] = []

    def note(info: IterationInfo) -> bool:
        rows.append((counter.gram.call_count, info.objective))
        return rows[-1][0] - rows[0][0] >= most or (info.iteration > 0 and info.residual <= tol)

    with Counter() as counter:
        result = solve(problem, penalty, tol=0.0, callback=note, **options)
    curve = np.array(rows)
    curve[:, 0] -= curve[0, 0]
    curve[:, 1] = np.minimum.accumulate(curve[:, 1])
    return curve, counter.turned.call_count, result


def ablate() -> Iterator[dict[str, Any]]:
    """Run every method on every problem within the largest budget."""
    for name, tuned, theta, alpha in PROBLEMS:
        title = f"{name}{'' if tuned else ' raw'}, theta {theta}, alpha {alpha:g}"
        problem, penalty = load(name, tuned), TailSum(theta, alpha)
        curves, small = {}, {}
        with console.status(title):
            for label, (method, _) in METHODS.items():
                curves[label], small[label], _ = run_counted(problem, penalty, max(BUDGETS), solver=method())
            best = solve(problem, penalty, tol=1e-6, max_iter=1000).objective
        best = min(best, *(curve[-1, 1] for curve in curves.values()))
        stops = run_counted(problem, penalty, MOST, TOL)[0][-1]
        yield {
            "problem": title,
            "best": best,
            "default_stops": [int(stops[0]), 100 * (stops[1] / best - 1)],
            "small": small,
            "decompositions": {label: curve[:, 0].tolist() for label, curve in curves.items()},
            "excess": {label: (100 * (curve[:, 1] / best - 1)).tolist() for label, curve in curves.items()},
        }


def tabulate(records: list[dict[str, Any]]) -> Table:
    columns = [f"{k}" for k in BUDGETS]
    table = Table("problem", "method", *columns, "small", title="objective above best found, %")
    for record in records:
        for label, counts in record["decompositions"].items():
            last = np.searchsorted(counts, BUDGETS, side="right") - 1
            cells = [f"{record['excess'][label][i]:.4f}" for i in last]
            name = record["problem"] if label == next(iter(METHODS)) else ""
            table.add_row(name, label, *cells, str(record["small"][label]))
        table.add_row("", "default stops: after, at", *map("{:.4g}".format, record["default_stops"]))
        table.add_section()
    return table


def save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=160, metadata={"Software": None})
    plt.close(figure)
    console.print(f"written: {path}")


def draw_ablation(records: list[dict[str, Any]], path: Path) -> None:
    """Draw objective above the best found against decompositions, one panel per problem."""
    figure, panels = plt.subplots(2, 3, figsize=(11.5, 6.6), sharex=True, sharey=True, layout="constrained")
    for axes, record in zip(panels.flat, records, strict=False):
        for label, (_, style) in METHODS.items():
            excess = np.maximum(record["excess"][label], 1e-6)  # what is lower is the best found itself
            axes.plot(record["decompositions"][label], excess, label=label, **{"lw": 1.8, **style})
        axes.set_title(record["problem"], fontsize=10.5)
        tidy(axes)
        axes.set(yscale="log", xlim=(0, max(BUDGETS)), ylim=(1e-5, 20))
    handles, labels = panels.flat[0].get_legend_handles_labels()
    panels.flat[-1].axis("off")
    panels.flat[-1].legend(handles, labels, loc="center", frameon=False, fontsize=10, handlelength=3.2)
    panels.flat[2].tick_params(labelbottom=True)
    figure.supxlabel("eigendecompositions", fontsize=11)
    figure.supylabel("objective above best found (%)", fontsize=11)
    save(figure, path)


def tidy(axes: Axes) -> None:
    axes.grid(alpha=0.25, lw=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def walk(problem: SpectralProblem, theta: int, alphas: np.ndarray) -> dict[str, list[list[float]]]:
    """Decompositions and objective of every model of a path, by method."""
    found: dict[str, list[list[float]]] = {label: [] for label in PATH_METHODS}
    warm = problem.reduced_rank_solution(theta)[0]
    for label, first in (("ADMM + Anderson, warm", warm), ("default, cold", None)):
        start = first
        for alpha in alphas:
            options = {"solver": PATH_METHODS[label][0](), "start": start}
            curve, _, result = run_counted(problem, TailSum(theta, alpha), MOST, TOL, **options)
            start = None if start is None else result.solution
            found[label].append([curve[-1, 0], result.objective])
    for chain in chains_for(theta, alphas, range(len(alphas))):
        points = dict(solve_chain(problem, chain, tol=TOL, max_iter=MOST))
        found["default, chains"] += [[points[key].n_steps, points[key].objective] for key in sorted(points)]
    return found


def walk_all() -> Iterator[dict[str, Any]]:
    """Walk the paths of all data sets, rows of unit length and with intercept."""
    for name in ("bibtex", "delicious", "corel5k", "yeast"):
        problem = load(name, tuned=True)
        n_labels = training_set(name, l2=True)[1].shape[1]
        for theta in dict.fromkeys(round(share * n_labels) for share in SHARES):
            with console.status(f"{name}, theta {theta}"):
                top = alpha_max(problem, theta)
                found = walk(problem, theta, np.geomspace(top, top / RANGE, N_ALPHAS))
            yield {"data": name, "theta": theta, "alpha_max": top, "methods": found}


def means(record: dict[str, Any]) -> dict[str, tuple[float, float, int]]:
    """Mean decompositions per model, mean objective above the least in %, number of models at the limit."""
    counts, objectives = np.moveaxis(np.array(list(record["methods"].values())), 2, 0)
    excess = 100 * (objectives / objectives.min(axis=0) - 1)
    columns = counts.mean(axis=1), excess.mean(axis=1), (counts >= MOST).sum(axis=1)
    return dict(zip(record["methods"], zip(*columns, strict=True), strict=True))


def tabulate_paths(records: list[dict[str, Any]]) -> Table:
    title = f"mean decompositions a model (objective above the least of the three, %; models at {MOST})"
    table = Table("data", "theta", *PATH_METHODS, title=title)
    for record in records:
        cells = ["{:.2f} ({:.4f}; {})".format(*cell) for cell in means(record).values()]
        table.add_row(record["data"], str(record["theta"]), *cells)
    return table


def draw_paths(records: list[dict[str, Any]], path: Path) -> None:
    """Mean decompositions per model, one row per path, one kind of dot per method."""
    figure, axes = plt.subplots(figsize=(7.6, 5.6), layout="constrained")
    places, place = [], 0.0
    for previous, record in pairwise([None, *records]):
        place -= 1.7 if previous and previous["data"] != record["data"] else 1.0
        places.append(place)
    rows = [means(record) for record in records]
    for place, row in zip(places, rows, strict=True):
        counts = [cell[0] for cell in row.values()]
        axes.plot([min(counts), max(counts)], [place, place], color="0.85", lw=2.5, zorder=1)
    for label, (_, style) in PATH_METHODS.items():
        counts = [row[label][0] for row in rows]
        axes.plot(counts, places, ls="none", ms=7, markeredgecolor="white", label=label, **style)
    axes.set_yticks(places, [f"{record['data']}, theta {record['theta']}" for record in records])
    axes.set_xlabel(f"eigendecompositions a model (mean of {N_ALPHAS} models, tolerance {TOL:g})")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_locator(plt.MultipleLocator(2))
    tidy(axes)
    axes.tick_params(axis="y", length=0)
    axes.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=3, fontsize=10)
    save(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--paths", action="store_true", help="whole paths over alpha")
    parser.add_argument("--out", type=Path, default=Path("results"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.paths:
        records = list(walk_all())
        console.print(tabulate_paths(records))
        draw_paths(records, options.out / "solver_paths.png")
    else:
        records = list(ablate())
        console.print(tabulate(records))
        draw_ablation(records, options.out / "solver_ablation.png")
    path = options.out / ("paths.json" if options.paths else "ablation.json")
    path.write_text(json.dumps({"machine": machine(), "records": records}, indent=1), encoding="utf8")
    console.print(f"written: {path}")


if __name__ == "__main__":
    try:
        main()
    except FileNotFoundError as missing:  # the data; the message says what to put where
        raise SystemExit(str(missing)) from None
