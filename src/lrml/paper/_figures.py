"""The figures, drawn with matplotlib; what a caption says of numbers, the tables and the first rows say."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml.paper._cells import Result
from lrml.paper._plan import METHODS, WITH_THETA, sizes
from lrml.paper._tables import METRICS, Models, metric_values, table2_values
from lrml.report import canvas, figure

Figure: TypeAlias = dict[str, Any]

# Colour (Okabe and Ito's) and marker of each method, the same in all figures.
LOOKS = {
    "LRML": {"color": "#0072B2", "marker": "o"},
    "LEML": {"color": "#D55E00", "marker": "s"},
    "CPLST": {"color": "#009E73", "marker": "^"},
    "MLTrace": {"color": "#CC79A7", "linestyle": "--"},
    "MLFro": {"color": "#E69F00", "linestyle": ":"},
}
_WIDTH, _HEIGHT = 2.7, 2.1  # of a panel, in inches
_METRIC = "label_ranking_average_precision"
_OVER_SEEDS = " one standard deviation over the seeds."


def figures(models: Models, results: Sequence[Result]) -> list[Figure]:
    """Return all figures of a run."""
    of_kind = {kind: [r for r in results if r.cell["kind"] == kind] for kind in ("completion", "convergence")}
    plan = models.plan
    found = [_completion(result) for result in of_kind["completion"]]
    for protocol in plan.protocols:
        shown = [name for name in plan.datasets if models.over_theta(protocol, name)]
        found += [_norms(models, protocol, shown)] if shown else []
    alphas = sorted({result.cell["alpha"] for result in of_kind["convergence"]})
    for name, alpha in zip(("figure3", "figure3_strong"), alphas, strict=False):
        runs = [result for result in of_kind["convergence"] if result.cell["alpha"] == alpha]
        found.append(_convergence(name, sorted(runs, key=lambda run: int(run.cell["theta"]))))
    printed = table2_values(models)
    if not printed.empty:
        printed = printed.dropna(subset="published")
        found += [_like_table2(name, own) for name, own in printed.groupby("protocol", sort=False)]
    return found


def grid(n_panels: int, n_columns: int = 2, height: float = _HEIGHT) -> tuple[Any, Sequence[Any]]:
    """Return a matplotlib figure and the axes of its panels, row by row."""
    n_columns = min(n_columns, n_panels)
    n_rows = -(-n_panels // n_columns)
    drawing = canvas(n_columns * _WIDTH if n_columns > 1 else 4.4, n_rows * height + 0.3)
    axes = drawing.subplots(n_rows, n_columns, squeeze=False).ravel()
    for one in axes[n_panels:]:
        one.remove()
    return drawing, axes[:n_panels]


def legend(drawing: Any, n_columns: int = 3, order: Sequence[str] = tuple(METHODS.values())) -> None:
    """Name every series once, below all panels; in their order, the paper's values below ours."""
    entries = {
        name: line
        for axes in drawing.axes
        for line, name in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    places = {name: order.index(own) for name in entries if (own := name.removesuffix(", paper")) in order}
    names = sorted(entries, key=lambda name: (places.get(name, len(order)), len(name)))
    lines = [entries[name] for name in names]
    drawing.legend(lines, names, loc="outside lower center", ncols=n_columns)


# Figure 1: trace norm and tail sum of all completions of a small matrix

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def _completion(result: Result) -> Figure:
    return figure(
        "figure1",
        "Figure 1: trace norm and tail sum of a matrix with two unknown entries",
        "Both norms for all values of the two entries; the star is the minimum. The trace norm is a flat "
        "bowl, whose minimum has full rank. The tail sum, of the singular values beyond theta, has its "
        "minimum where the rank is lowest.",
        "Two surfaces and two contour maps over the unknown entries: a flat bowl, and a valley with a sharp "
        "tip.",
        partial(_draw_completion, result),
        "lrml reproduce fig1",
    )


def _draw_completion(result: Result) -> Any:
    cell, axis = result.cell, result.arrays["axis"]
    names = [
        f"M{row}{column}".translate(_SUBSCRIPTS)
        for row, values in enumerate(cell["matrix"], start=1)
        for column, value in enumerate(values, start=1)
        if value is None
    ]
    norms = {
        "trace_norm": ("trace norm", 0),
        "tail_sum": (f"tail sum, theta = {cell['theta']}", cell["theta"]),
    }
    drawing = canvas(2 * _WIDTH, 4.6)
    for row, (norm, (title, n_free)) in enumerate(norms.items()):
        heights = result.arrays["singular_values"][..., n_free:].sum(-1)
        minimum = result.values["minima"][norm]
        place = *minimum["entries"], minimum["value"]
        surface = drawing.add_subplot(2, 2, 2 * row + 1, projection="3d")
        surface.plot_surface(
            *np.meshgrid(axis, axis), heights, cmap="viridis", rcount=36, ccount=36, rasterized=True
        )
        surface.computed_zorder = False  # the mark lies on the surface, which would hide half of it
        surface.plot(*([value] for value in place), "*", color="#D55E00", markersize=11, zorder=5)
        surface.view_init(elev=26, azim=-128)
        surface.set(title=title, xlabel=names[0], ylabel=names[1])
        for side in (surface.xaxis, surface.yaxis, surface.zaxis):
            side.pane.set_visible(False)
        contours = drawing.add_subplot(2, 2, 2 * row + 2)
        filled = contours.contourf(axis, axis, heights, levels=10, cmap="viridis")
        filled.set_edgecolor("face")  # no seams between the levels
        drawing.colorbar(filled, ax=contours, label=title)
        contours.plot(
            *place[:2], "*", color="#D55E00", markersize=11, markeredgecolor="w", markeredgewidth=0.6
        )
        entries = ", ".join(f"{value:.4f}" for value in place[:2])
        contours.set(title=f"minimum {place[2]:.4f}\nat ({entries})", xlabel=names[0], ylabel=names[1])
    return drawing


# Figure 2: average precision of LRML over theta, beside the trace and the Frobenius norm


def _norms(models: Models, protocol: str, datasets: Sequence[str]) -> Figure:
    return figure(
        "figure2" if protocol == "paper" else f"figure2_{protocol}",
        f"Figure 2: three norms over theta, protocol {protocol}",
        "Average precision on the test rows against theta as a share of the labels. ML-trace and ML-Fro have"
        " no theta." + (" Bars and bands are" + _OVER_SEEDS if models.plan.n_seeds > 1 else ""),
        "Average precision over theta / L, one panel per dataset: a line for LRML, levels for the other "
        "norms.",
        partial(_draw_norms, models, protocol, datasets),
        f"lrml reproduce fig2 --protocols {protocol} --datasets {','.join(datasets)}",
    )


def _draw_norms(models: Models, protocol: str, datasets: Sequence[str]) -> Any:
    drawing, panels = grid(len(datasets))
    for axes, dataset in zip(panels, datasets, strict=True):
        n_labels = sizes(dataset)[0]
        lrml = models.over_theta(protocol, dataset)
        means, spreads = _over_seeds(lrml.values(), _METRIC)
        x = [100 * theta / n_labels for theta in lrml]
        bars = spreads if models.plan.n_seeds > 1 else None
        axes.errorbar(x, means, bars, label="LRML", capsize=2, **LOOKS["LRML"])
        for method in ("MLTrace", "MLFro"):
            own = models.at(protocol, dataset, method, None)
            if own:
                (mean,), (spread,) = _over_seeds([own], _METRIC)
                axes.axhline(mean, label=METHODS[method], **LOOKS[method])
                axes.axhspan(mean - spread, mean + spread, color=LOOKS[method]["color"], alpha=0.15, lw=0)
        axes.set(title=f"{dataset} ({n_labels} labels)", xlabel="theta / L (%)", ylabel=METRICS[_METRIC])
    legend(drawing)
    return drawing


def _over_seeds(models: Any, metric: str) -> tuple[list[float], list[float]]:
    """Return mean and standard deviation of the test value of each model."""
    values = [metric_values(own, metric) for own in models]
    return [float(one.mean()) for one in values], [float(one.std()) for one in values]


# Figure 3: how fast the objective falls

FLOOR = 1e-9  # objectives are stored with ten digits
_CURVES = ({"color": "#0072B2"}, {"color": "#D55E00", "linestyle": "--"}, {"color": "#009E73"})


def excesses(result: Result) -> list[npt.NDArray[np.float64]]:
    """Return F/F* − 1 of each curve, by iteration; F* is the lowest value that any run met."""
    curves = [np.array(curve["objective"]) for curve in result.values["curves"]]
    best = min(float(curve.min()) for curve in curves)
    return [curve / best - 1.0 for curve in curves]


def _convergence(name: str, results: Sequence[Result]) -> Figure:
    cell = results[0].cell
    return figure(
        name,
        f"Figure 3: convergence on {cell['dataset']}, alpha = {cell['alpha']:g}",
        "Objective F over the lowest known one, F*, minus 1. The leftmost points are the starting points: "
        "zero for Algorithm 1 of the paper, whose t grows by the factor gamma in every iteration, a ridge "
        "solution for the default solver. Dots are where the default tolerance stops the default solver. The "
        "problem is not convex, so runs may end in different stationary points.",
        "Relative excess of the objective against iterations, log scales, one panel per theta.",
        partial(_draw_convergence, results),
        "lrml reproduce fig3",
    )


def _draw_convergence(results: Sequence[Result]) -> Any:
    drawing, panels = grid(len(results))
    for axes, result in zip(panels, results, strict=True):
        n_labels = sizes(result.cell["dataset"])[0]
        curves = zip(result.values["curves"], excesses(result), _CURVES, strict=True)
        for curve, excess, look in curves:
            below = np.flatnonzero(excess >= FLOOR)
            end = min(len(excess), int(below[-1]) + 2 if below.size else 1)
            iterations = np.arange(1, end + 1)
            axes.plot(iterations, np.maximum(excess[:end], FLOOR), label=curve["method"], **look)
            if curve["stop"] is not None:
                stop = curve["stop"] + 1, max(excess[curve["stop"]], FLOOR)
                axes.plot(*stop, "o", color=look["color"], label=f"{curve['method']} stops")
        title = f"theta = {result.cell['theta']} of {n_labels}"
        axes.set(xscale="log", yscale="log", title=title, xlabel="iteration + 1", ylabel="F / F* − 1")
        axes.set_ylim(bottom=FLOOR / 2)
    legend(drawing, 2)
    return drawing


# Figure 4: Table 2 as a picture, our values beside those that the paper prints


def _like_table2(protocol: str, values: Any) -> Figure:
    return figure(
        f"figure4_{protocol}",
        f"Figure 4: Table 2 as a picture, protocol {protocol}",
        "Our values (lines) and those that the paper prints (dotted, hollow), over theta or the rank as a "
        "share of the labels. Higher is better, but for Hamming loss. The scales differ from panel to panel."
        + (" Bars are" + _OVER_SEEDS if values["seeds"].max() > 1 else ""),
        "Lines of the metrics over the share of the labels, ours and the paper's, by metric and dataset.",
        partial(_draw_table2, values),
        f"lrml reproduce table2 --protocols {protocol} --datasets {','.join(values['dataset'].unique())}",
    )


def _draw_table2(values: Any) -> Any:
    order = list(METRICS.values())
    groups = list(values.groupby(["metric", "dataset"], sort=False))
    groups = sorted(groups, key=lambda group: order.index(group[0][0]))
    drawing, panels = grid(len(groups), 2, height=1.8)
    for axes, ((metric, dataset), group) in zip(panels, groups, strict=True):
        for method, own in group.groupby("method", sort=False):
            look = LOOKS[method]
            keys = ("percent", "ours", "spread", "published")
            shares, ours, spread, printed = (own[key].to_numpy(float) for key in keys)
            bars = spread if np.isfinite(spread).all() else None
            axes.errorbar(shares, ours, bars, label=method, capsize=2, **look)
            hollow = {"linestyle": ":", "markerfacecolor": "w", "label": f"{method}, paper"}
            axes.plot(shares, printed, **look | hollow)
        axes.set(title=f"{dataset}, {metric}", xlabel="theta / L (%)")
    legend(drawing, len(WITH_THETA))
    return drawing
