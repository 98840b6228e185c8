"""What the study says: leads over ridge regression with intervals, as figures, tables and a few rows.

A lead is a mean over the test rows and the seeds. Its standard error adds the two parts, s²_rows / m of the
differences that are means over the seeds and s²_seeds / S of the means over the rows, and Student's t has
S − 1 degrees of freedom. Holm's correction is over all leads of a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtr

from lrml._significance import LEVEL, holm, paired_difference
from lrml.paper._cells import Result
from lrml.paper._plan import spec
from lrml.paper._tables import members_of
from lrml.report import COLOURS, MARKERS, canvas, column, figure, table

# Methods of the study by method and space, with their names; those on the predictions have solid lines.
NAMES = {
    ("MLTrace", "predictions"): "trace norm, predictions",
    ("MLTrace", "coefficients"): "ML-trace",
    ("LRML", "predictions"): "LRML, predictions",
    ("LRML", "coefficients"): "LRML, coefficients",
    ("LEML", "coefficients"): "LEML",
    ("CPLST", "predictions"): "CPLST",
    ("logistic", "coefficients"): "one-vs-rest logistic",
    ("LRML logistic", "coefficients"): "LRML, logistic loss",
}
_LOOKS = {
    name: {"color": COLOURS[n % len(COLOURS)], "marker": MARKERS[n % len(MARKERS)]}
    for n, name in enumerate(NAMES.values())
}
BEST = "LRML, predictions"
_AXES = {
    "rows": "share of the training rows",
    "hidden": "share of the labels that is hidden",
    "noise": "share of the labels that is wrong",
    "labels": "share of the labels that is kept",
    "rank": "rank of the truth",
    "decay": "decay of the singular values of the truth",
}
_COMMAND = "lrml study"


def leads(results: Sequence[Result]) -> pd.DataFrame:
    """Return the lead of each method over ridge in every condition: per cent of ridge's value or error."""
    groups: dict[tuple[Any, ...], dict[Any, list[Result]]] = {}
    for result in results:
        cell = result.cell
        place = (cell["part"], cell["dataset"], cell["axis"], repr(cell["level"]))
        for member in members_of(result):
            if member.cell["theta"] is None:
                key = member.cell["method"], member.cell["space"]
                groups.setdefault(place, {}).setdefault(key, []).append(member)
    rows = [row for place, found in groups.items() for row in _compared(place, found)]
    frame = pd.DataFrame(rows)
    if len(frame):
        frame["p_holm"] = holm(frame["p_value"].tolist())
        signs = np.where(frame["lead"] > 0, "•", "∘")
        frame["mark"] = np.where(frame["p_holm"] < LEVEL, signs, "")
    return frame


def _compared(place: tuple[Any, ...], found: dict[Any, list[Result]]) -> Iterator[dict[str, Any]]:
    part, dataset, axis, level = place
    ridge = found["MLFro", "predictions"]
    (metric,) = ridge[0].arrays
    by_seed = {one.cell["seed"]: one.arrays[metric].astype(np.float64) for one in ridge}
    base = float(np.mean([np.nanmean(values) for values in by_seed.values()]))
    for key, name in NAMES.items():
        own = [one for one in found.get(key, ()) if one.cell["seed"] in by_seed]
        if not own:
            continue
        differences = [one.arrays[metric] - by_seed[one.cell["seed"]] for one in own]
        means = np.array([np.nanmean(one) for one in differences])
        if part == "labels":  # the test rows are the same for all seeds
            whole = np.mean(differences, axis=0)
            of_rows = paired_difference(whole, np.zeros_like(whole)).standard_error
        else:  # they are drawn anew
            of_rows = 0.0
        of_seeds = means.std(ddof=1) / len(means) ** 0.5 if len(means) > 1 else 0.0
        error = float(np.hypot(of_rows, of_seeds))
        t = abs(means.mean()) / error if error > 0 else 0.0
        yield {
            "part": part,
            "dataset": dataset,
            "axis": axis,
            "level": level,
            "method": name,
            "ridge": abs(base),
            "lead": 100.0 * means.mean() / abs(base),
            "error": 100.0 * error / abs(base),
            "p_value": 2.0 * float(stdtr(max(len(means) - 1, 1), -t)),
            "seeds": len(means),
        }


def study_tables(found: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the table of all leads, and how often each method leads and loses."""
    counts = [
        {"method": name, "cells": len(own)}
        | {word: int((own["mark"] == sign).sum()) for word, sign in (("better", "•"), ("worse", "∘"))}
        | {"median": own["lead"].median(), "least": own["lead"].min(), "most": own["lead"].max()}
        for name, own in found.groupby("method", sort=False)
    ]
    return table(
        "counts",
        "How often each method leads ridge regression, and loses to it",
        "Over all conditions; • better and ∘ worse after Holm's correction over all comparisons.",
        [
            column("method", "method"),
            column("cells", "conditions", "integer"),
            column("better", "• better", "integer"),
            column("worse", "∘ worse", "integer"),
            *(column(key, key, "number", 1, "lead in %") for key in ("median", "least", "most")),
        ],
        counts,
    ) + table(
        "leads",
        "Every lead over ridge regression",
        "In per cent of the average precision of ridge, or of its squared error; with the standard error "
        "over test rows and seeds.",
        [
            *(column(key, key) for key in ("dataset", "axis", "level", "method")),
            column("ridge", "ridge", "number", 4, "average precision, or squared error"),
            column("lead", "lead (%)", "number", 2),
            column("error", "error", "number", 2),
            column("p_holm", "p (Holm)", "p_value", 4),
            column("mark", "mark"),
            column("seeds", "seeds", "integer"),
        ],
        found.to_dict("records"),
    )


def study_figures(found: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the phase diagram, then the leads along each axis, then those of real targets."""
    made = []
    planted = found[found["part"] == "planted"]
    if len(planted):
        made.append(
            figure(
                "phase",
                "Phase diagram: what a penalty on the predictions saves of ridge's error",
                "Simulated regressions of 100 targets on 100 features: per cent of the squared error of "
                f"ridge regression that {BEST} saves, for the rank of the truth against the number of rows. "
                f"{_COMMAND} --datasets planted",
                "A map of per cents: large where the rank is low, small where it is high.",
                partial(_draw_phase, planted),
            )
        )
    for part, axis in dict.fromkeys(zip(found["part"], found["axis"], strict=True)):
        own = found[
            (found["part"] == part) & (found["axis"].isin([axis, *(["rows"] if part == "labels" else [])]))
        ]
        if axis == "phase" or (part, axis) == ("targets", "rows"):
            continue
        names = ",".join(own["dataset"].unique())
        made.append(
            figure(
                f"{part}-{axis}",
                f"Lead over ridge regression, by {_AXES[axis]}",
                f"Per cent of ridge's average precision (or of its squared error), bars are two standard "
                f"errors. {_COMMAND} --datasets {names}",
                f"Lines of the leads of each method over the {_AXES[axis]}, one panel per data set.",
                partial(_draw_axis, own, axis),
            )
        )
    targets = found[(found["part"] == "targets") & (found["level"] == "1.0")]
    if len(targets):
        made.append(
            figure(
                "targets",
                "Lead over ridge regression on real targets",
                "Per cent of ridge's squared error; lines are two standard errors. "
                f"{_COMMAND} --datasets {','.join(targets['dataset'].unique())}",
                "Dots with intervals for each method on each data set.",
                partial(_draw_targets, targets),
            )
        )
    return made


def _draw_axis(found: pd.DataFrame, axis: str) -> Any:
    datasets = list(dict.fromkeys(found["dataset"]))
    n_columns = min(3, len(datasets))
    drawing = canvas(2.5 * max(n_columns, 2), 2.2 * -(-len(datasets) // n_columns) + 0.7)
    panels = drawing.subplots(-(-len(datasets) // n_columns), n_columns, squeeze=False).ravel()
    for axes in panels[len(datasets) :]:
        axes.remove()
    usual = {"rows": None, "labels": 1.0}.get(axis, 0.0)  # where all axes meet
    for axes, dataset in zip(panels, datasets, strict=False):
        own = found[found["dataset"] == dataset]
        for name, line in own.groupby("method", sort=False):
            on_axis = line[line["axis"] == axis]
            x = [float(level) for level in on_axis["level"]]
            some = on_axis
            base = line[(line["axis"] == "rows") & (line["level"] == "1.0")]
            if usual is not None and len(base) and axis not in ("rank", "decay"):
                x, some = [usual, *x], pd.concat([base, on_axis])
            order = np.argsort(x)
            y, bars = some["lead"].to_numpy()[order], 2.0 * some["error"].to_numpy()[order]
            axes.errorbar(np.array(x)[order], y, bars, label=name, capsize=2, **_LOOKS[name])
        axes.axhline(0.0, color="0.4", linewidth=0.8)
        axes.set(title=dataset, xlabel=_AXES[axis], ylabel="lead (%)")
        if axis in ("rows", "labels", "rank"):
            axes.set_xscale("log")
    handles = {
        label: line
        for axes in drawing.axes
        for line, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    drawing.legend(handles.values(), handles, loc="outside lower center", ncols=4)
    return drawing


def _draw_targets(found: pd.DataFrame) -> Any:
    datasets = list(dict.fromkeys(found["dataset"]))
    drawing = canvas(5.4, 0.5 * len(datasets) + 0.9)
    axes = drawing.subplots()
    methods = list(dict.fromkeys(found["method"]))
    for place, name in enumerate(methods):
        own = found[found["method"] == name]
        y = [datasets.index(one) + 0.7 * (place / len(methods) - 0.4) for one in own["dataset"]]
        look = _LOOKS[name] | {"linestyle": "none"}
        axes.errorbar(own["lead"], y, xerr=2.0 * own["error"], label=name, **look)
    axes.axvline(0.0, color="0.4", linewidth=0.8)
    axes.set(xlabel="lead (%)", ylim=(len(datasets) - 0.4, -0.6))
    axes.set_yticks(range(len(datasets)), datasets)
    drawing.legend(loc="outside lower center", ncols=3)
    return drawing


def _draw_phase(found: pd.DataFrame) -> Any:
    own = found[(found["method"] == BEST) & found["axis"].isin(["phase", "rank"])]
    levels = [rows_and_rank(axis, level) for axis, level in zip(own["axis"], own["level"], strict=True)]
    rows, ranks = (sorted({level[side] for level in levels}) for side in (0, 1))
    ranks = [rank for rank in ranks if sum(level[1] == rank for level in levels) > 1]
    grid = np.full((len(ranks), len(rows)), np.nan)
    for (n, rank), lead in zip(levels, own["lead"], strict=True):
        if rank in ranks:
            grid[ranks.index(rank), rows.index(n)] = lead
    drawing = canvas(4.6, 3.4)
    axes = drawing.subplots()
    axes.grid(False)
    shown = axes.imshow(grid, cmap="viridis", aspect="auto", origin="lower")
    middle = (np.nanmin(grid) + np.nanmax(grid)) / 2
    for i, j in np.ndindex(grid.shape):
        colour = "black" if grid[i, j] > middle else "white"
        axes.text(j, i, f"{grid[i, j]:.0f}", ha="center", va="center", color=colour)
    axes.set_xticks(range(len(rows)), rows)
    axes.set_yticks(range(len(ranks)), ranks)
    axes.set(xlabel="training rows", ylabel="rank of the truth")
    drawing.colorbar(shown, ax=axes, label="lead over ridge (%)")
    return drawing


def rows_and_rank(axis: str, level: str) -> tuple[int, int]:
    """Return rows and rank of a level of planted truths."""
    numbers = [int(part) for part in level.strip("[]").split(",")]
    return (numbers[0], numbers[1]) if axis == "phase" else (spec("study")["planted"]["n_rows"], numbers[0])
