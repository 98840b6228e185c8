"""How seconds and peak memory of a squared-loss LRML fit grow with rows, features, labels and theta.

    python benchmarks/scaling.py [--out results] [--quick]

Synthetic data, dense and sparse, one factor varied at a time. Every point runs in its own process, which
makes the data, fits once for the peak memory, and then alternates between the three parts of a fit one by
one, a whole fit, and scikit-learn's Ridge on the same data as dense arrays. Seconds are medians. Exponents p
of c · x^p are least squares in logarithms over the upper half of the points: overhead dominates the lower
half.

Writes ``scaling.json``, ``scaling.md`` and ``scaling.png``. Needs Linux with glibc, for the peak memory.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import multiprocessing
import resource
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import matplotlib.pyplot as plt
import numpy as np
from _data import machine
from matplotlib.axes import Axes
from matplotlib.ticker import NullFormatter
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import track
from sklearn.linear_model import Ridge
from threadpoolctl import threadpool_info

from lrml import LRML
from lrml.core.moments import Statistics
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.datasets import make_low_rank_multilabel
from lrml.solvers import SolverResult, solve

RANK, CARDINALITY, NONZEROS, RIDGE = 20, 3.0, 20, 1.0
STRENGTH = 0.7  # alpha in units of the noise: the penalty has work to do, and the rank ends near theta
PEER, PEER_ENTRIES = "sklearn Ridge", 1e8  # beyond, the peer takes most of the time
FACTORS = {"n": "rows n", "d": "features d", "L": "labels L", "theta": "free singular values θ"}
# Operation counts with every constant set to 1. m = min(d, L): labels beyond d are rotated away beforehand.
FORMULAS = {
    "statistics": "dense n·d², sparse n·k² + d² (k nonzeros a row)",
    "decomposition": "d²·(d + L)",
    "iteration": "m²·(d + m), m = min(d, L)",
    "solver": "iterations × the above",
    "fit": "sum of the above",
    "memory": "d·(d + L) + the larger of a block of rows, ≤ 2²², and 20 steps, 20·d·m",
    PEER: "n·d·(d + L)",
}


class Case(NamedTuple):
    """One point of a curve."""

    n: int
    d: int
    L: int
    theta: int
    kind: str


Records: TypeAlias = dict[Case, dict[str, Any]]
Grid: TypeAlias = dict[str, tuple[int, ...]]
BASE = Case(20_000, 400, 200, 20, "dense")
GRID = {
    "n": (5_000, 10_000, 20_000, 40_000, 80_000, 160_000, 320_000),
    "d": (100, 200, 400, 800, 1_600),
    "L": (50, 100, 200, 400, 800, 1_600),
    "theta": (1, 3, 8, 20, 56, 160),
}
QUICK_BASE = Case(5_000, 200, 100, 8, "dense")


def alpha_of(case: Case) -> float:
    """Return a share of 2‖XᵀE‖₂ ≈ 2 sqrt(n · cardinality / L)(√d + √L), E noise of the labels' variance.

    That keeps the problem about equally hard along a curve. Rows of a sparse X have norm 1, not √d.
    """
    noise = 2 * math.sqrt(case.n * CARDINALITY / case.L) * (math.sqrt(case.d) + math.sqrt(case.L))
    return STRENGTH * noise * (1.0 if case.kind == "dense" else case.d**-0.5)


def theory(case: Case, part: str) -> float | None:
    """Operations (or numbers held) by `FORMULAS`; None where the number of iterations decides."""
    n, d, n_labels, _, kind = case
    m = min(d, n_labels)
    stored = n * ((d if kind == "dense" else NONZEROS) + CARDINALITY)
    return {
        "statistics": n * d**2 if kind == "dense" else n * NONZEROS**2 + d**2,
        "decomposition": d**2 * (d + n_labels),
        "iteration": m**2 * (d + m),
        "memory": d * (d + n_labels) + max(min(stored, 2**22), 20 * d * m),
        PEER: n * d * (d + n_labels),
    }.get(part)


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    clock, result = perf_counter(), run()
    return perf_counter() - clock, result


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def fit_memory(model: LRML, X: Any, Y: Any) -> float:
    """Megabytes by which the first fit raises the peak of this process.

    Three things would falsify it. Modules and buffers load at first use, so a small fit comes first. The
    allocator keeps memory freed after making the data, so that the fit would seem to need none; it is
    returned to the system. The peak of making the data may be higher, so it is reset. Besides, Linux passes
    the peak of a parent on to its children, so the parent must hold no data.
    """
    small, _ = make_low_rank_multilabel(50, 8, 4, rank=2, random_state=0)
    LRML(1, 1.0).fit(small.X, small.Y)
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5", encoding="utf8")
    before = peak_megabytes()
    model.fit(X, Y)
    return peak_megabytes() - before


def parts_of_a_fit(case: Case, X: Any, Y: Any) -> tuple[dict[str, float], SolverResult]:
    """Seconds of the three parts, and of one iteration by the solver's own clock."""
    summing, statistics = timed(lambda: Statistics.from_arrays(X, Y))
    decomposing, problem = timed(lambda: SpectralProblem.from_moments(statistics.centered(), RIDGE))
    solving, result = timed(lambda: solve(problem, TailSum(case.theta, alpha_of(case))))
    seconds = {"statistics": summing, "decomposition": decomposing, "solver": solving}
    # The start and the closing SVD are no iterations: the history leaves them out.
    seconds["iteration"] = result.history.entries[-1].seconds / max(result.n_iter, 1)
    return seconds, result


def measure(case: Case, repeats: int) -> dict[str, Any]:
    """Make the data of a case and return medians, peak memory and the ratio to the peer."""
    density = None if case.kind == "dense" else NONZEROS / case.d
    settings = {"rank": RANK, "decay": 0.05, "cardinality": CARDINALITY, "noise": 1.0, "density": density}
    dataset, _ = make_low_rank_multilabel(case.n, case.d, case.L, **settings, random_state=0)
    X, Y = dataset.X, dataset.Y
    model = LRML(case.theta, alpha_of(case), ridge=RIDGE)
    memory = fit_memory(model, X, Y)
    peer = case.n * (case.d + case.L) <= PEER_ENTRIES
    if peer:
        dense = X if case.kind == "dense" else X.toarray(), Y.toarray().astype(float)
    runs: dict[str, list[float]] = {}
    for _ in range(repeats):  # in turn, so that a busy moment of the machine affects all
        seconds, result = parts_of_a_fit(case, X, Y)
        seconds["fit"] = timed(lambda: model.fit(X, Y))[0]
        if peer:
            seconds[PEER] = timed(lambda: Ridge(alpha=RIDGE).fit(*dense))[0]
        for part, value in seconds.items():
            runs.setdefault(part, []).append(value)
    medians = {part: median(values) for part, values in runs.items()}
    return {
        **case._asdict(),
        "alpha": alpha_of(case),
        "costs": medians | {"memory": memory},  # seconds; megabytes
        "iterations": result.n_iter,
        "rank": model.rank_,
        "converged": model.converged_,
        "ratio": medians["fit"] / medians[PEER] if peer else None,
        "blas_threads": max((library["num_threads"] for library in threadpool_info()), default=1),
    }


def run_all(base: Case, grid: Grid, repeats: int) -> Records:
    """Measure every case once, each in a fresh process."""
    cases = [
        base._replace(kind=kind, **{factor: value})
        for kind, factor in product(("dense", "sparse"), grid)
        for value in grid[factor]
    ]
    records = {}
    distinct = list(dict.fromkeys(cases))  # the curves meet in the base case
    for case in track(distinct, "cases", console=Console(stderr=True)):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            records[case] = pool.apply(measure, (case, repeats))
    return records


def power_law(x: Any, y: Any) -> tuple[float, float]:
    """Return p and c of y ≈ c · x^p by least squares in logarithms over the upper half of the points."""
    half = len(x) // 2
    p, log_c = np.polyfit(np.log(x[half:]), np.log(y[half:]), 1)
    return float(p), float(np.exp(log_c))


def curve(records: Records, base: Case, factor: str, values: Any, part: str) -> tuple[list[int], list[float]]:
    """Return the points of a curve; without those where the peer did not fit in memory."""
    costs = {x: records[base._replace(**{factor: x})]["costs"] for x in values}
    found = {x: max(cost[part], 1e-6) for x, cost in costs.items() if part in cost}  # 0 has no logarithm
    return list(found), list(found.values())


def exponents(records: Records, base: Case, grid: Grid) -> list[dict[str, Any]]:
    """Measured exponents beside those of the formulas at the same points."""
    found = []
    for kind, part, factor in product(("dense", "sparse"), FORMULAS, grid):
        origin = base._replace(kind=kind)
        x, y = curve(records, origin, factor, grid[factor], part)
        counts = [theory(origin._replace(**{factor: value}), part) for value in x]
        expected = None if None in counts else power_law(x, counts)[0]
        p, c = power_law(x, y)
        found.append({"kind": kind, "part": part, "factor": factor, "p": p, "c": c, "theory": expected})
    return found


def exponent_tables(found: list[dict[str, Any]]) -> str:
    """Exponents as Markdown, one table for each kind of X."""
    lines = ["# Cost curves", "", "Exponents over the upper half of each curve; of the formula in brackets."]
    for kind in ("dense", "sparse"):
        lines += ["", f"## {kind.capitalize()} X", "", "| | formula | n | d | L | theta |"]
        lines += ["| --- | --- | --: | --: | --: | --: |"]
        for part, formula in FORMULAS.items():
            row = [entry for entry in found if (entry["kind"], entry["part"]) == (kind, part)]
            expected = ["" if e["theory"] is None else f" ({e['theory']:z.2f})" for e in row]
            cells = [f"{e['p']:z.2f}{text}" for e, text in zip(row, expected, strict=True)]
            lines.append(f"| {part} | {formula} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def point_table(records: Records) -> str:
    """All points as Markdown."""
    parts = ("fit", "statistics", "decomposition", "solver")
    heads = ("X", *Case._fields[:4], *parts, "iterations", "ms each", "peak MB", "fit / Ridge")
    lines = ["", "## Points", "", "Seconds are medians; Ridge is scikit-learn's, on dense arrays.", ""]
    lines += [f"| {' | '.join(heads)} |", "| --- |" + " --: |" * (len(heads) - 1)]
    for case, record in records.items():
        costs = record["costs"]
        cells = [case.kind, *map(str, case[:4]), *(f"{costs[part]:.3f}" for part in parts)]
        cells.append(f"{record['iterations']}{'' if record['converged'] else ' (not converged)'}")
        cells += [f"{1e3 * costs['iteration']:.1f}", f"{costs['memory']:.0f}"]
        cells.append("" if record["ratio"] is None else f"{record['ratio']:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


# part, kind, label, colour, marker, whether its power law is drawn
SECONDS = (
    ("fit", "dense", "LRML fit, dense X", "#0072B2", "o", True),
    ("fit", "sparse", "LRML fit, sparse X", "#D55E00", "s", True),
    ("statistics", "dense", "dense: statistics", "#56B4E9", "^", False),
    ("decomposition", "dense", "dense: decomposition", "#009E73", "v", False),
    ("solver", "dense", "dense: solver", "#CC79A7", "D", False),
    (PEER, "dense", "scikit-learn Ridge, dense X", "0.45", "x", False),
)
MEGABYTES = tuple(("memory", *series[1:]) for series in SECONDS[:2])


def draw_panel(axis: Axes, series: Any, records: Any, base: Case, factor: str, values: Any) -> None:
    """One panel: measured points, and dashed power laws with their exponents in the legend."""
    laws = []
    for part, kind, label, colour, marker, with_law in series:
        x, y = curve(records, base._replace(kind=kind), factor, values, part)
        axis.plot(x, y, color=colour, marker=marker, lw=1.8 if with_law else 0.9, ms=4, label=label)
        if with_law:
            p, c = power_law(x, y)
            law = axis.plot(x, [c * v**p for v in x], "--", color=colour, lw=1.1)
            laws.append((law[0], f"{kind}: {factor.replace('theta', 'θ')}$^{{{p:z.2f}}}$"))
    axis.set(xscale="log", yscale="log")
    axis.set_xticks(values, [f"{v // 1000}k" if v >= 1000 and v % 1000 == 0 else f"{v}" for v in values])
    axis.xaxis.set_minor_formatter(NullFormatter())
    axis.grid(alpha=0.25)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(*zip(*laws, strict=True), frameon=False, fontsize=9, loc="upper left")


def draw(records: Records, base: Case, grid: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(2, len(grid), figsize=(13, 6.2), sharey="row", layout="constrained")
    for column, (factor, values) in zip(axes.T, grid.items(), strict=True):
        for axis, series in zip(column, (SECONDS, MEGABYTES), strict=True):
            draw_panel(axis, series, records, base, factor, values)
        column[1].set_xlabel(FACTORS[factor])
    axes[0, 0].set_ylabel("seconds")
    axes[1, 0].set_ylabel("peak memory of the fit (MB)")
    for row in axes:
        low, high = row[0].get_ylim()
        row[0].set_ylim(low, high * 8)  # room for the legends
    lines = axes[0, 0].get_legend_handles_labels()
    title = f"base case: n = {base.n:,}, d = {base.d}, L = {base.L}, θ = {base.theta}; dashed: power law"
    figure.legend(*lines, loc="outside lower center", ncols=3, frameon=False, title=title)
    figure.savefig(path, dpi=150, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how the cost of a fit grows.")
    parser.add_argument("--out", type=Path, default=Path("results"))
    parser.add_argument("--quick", action="store_true", help="small sizes, one repeat: to see that it works")
    options = parser.parse_args()
    base, grid, repeats = BASE, GRID, 3
    if options.quick:
        base, grid, repeats = QUICK_BASE, {factor: values[:4] for factor, values in GRID.items()}, 1
    options.out.mkdir(parents=True, exist_ok=True)
    records = run_all(base, grid, repeats)
    found = exponents(records, base, grid)
    content = {"machine": machine(), "quick": options.quick, "points": list(records.values())}
    text = json.dumps(content | {"exponents": found}, indent=1)
    (options.out / "scaling.json").write_text(text + "\n", encoding="utf8")
    tables = exponent_tables(found)
    (options.out / "scaling.md").write_text(tables + point_table(records), encoding="utf8")
    draw(records, base, grid, options.out / "scaling.png")
    Console(width=140).print(Markdown(tables))


if __name__ == "__main__":
    main()
