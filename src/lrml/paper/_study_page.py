"""What the study says: leads over ridge regression with intervals, as figures, tables and a few rows.

A lead is the mean of the differences d_is of test row i and seed s. If all seeds have the same test rows, its
variance is that of the means over the seeds by the number of rows, plus that of the means over the rows by
the number of seeds. If each seed holds out rows of its own, the latter alone; and where these are drawn again
from one data set, (1/S + test rows / training rows) takes the place of 1/S, as such draws overlap (Nadeau and
Bengio 2003). Student's t has Satterthwaite's degrees of freedom. Holm's correction is over all leads of a
run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import stdtr

from lrml._significance import LEVEL, holm
from lrml.paper._cells import Result
from lrml.paper._figures import LOOKS, grid, legend
from lrml.paper._plan import spec
from lrml.paper._tables import members_of
from lrml.report import COLOURS, canvas, column, figure, table

BEST, LOGISTIC = "LRML, predictions", "LRML, logistic loss"
_HOLLOW = {"linestyle": "--", "markerfacecolor": "w"}
_TRACE = LOOKS["MLTrace"] | {"marker": "D", "linestyle": "-"}
# Methods by name and space; what acts on the coefficients is hollow where it has a twin on the predictions.
_SHOWN = {
    ("LRML", "predictions"): (BEST, LOOKS["LRML"]),
    ("LRML", "coefficients"): ("LRML, coefficients", LOOKS["LRML"] | _HOLLOW),
    ("MLTrace", "predictions"): ("trace norm, predictions", _TRACE),
    ("MLTrace", "coefficients"): ("ML-trace", _TRACE | _HOLLOW),
    ("LEML", "coefficients"): ("LEML", LOOKS["LEML"]),
    ("CPLST", "predictions"): ("CPLST", LOOKS["CPLST"]),
    ("logistic", "coefficients"): ("one-vs-rest logistic", {"color": COLOURS[6], "marker": "X"}),
    ("LRML logistic", "coefficients"): (LOGISTIC, {"color": COLOURS[5], "marker": "P"}),
}
_LOOKS = dict(_SHOWN.values())
_AXES = {
    "rows": "share of the training rows",
    "hidden": "share of the labels that is hidden",
    "noise": "share of the labels that is wrong",
    "labels": "share of the labels that is kept",
    "rank": "rank of the truth",
    "decay": "decay of the singular values of the truth",
}
_SHARES = ("rows", "hidden", "noise", "labels")
_PARTS = {"labels": "data with labels", "targets": "real targets", "planted": "planted truths"}
_COLUMNS = ["part", "dataset", "axis", "level", "method", "ridge", "lead", "error", "p_value", "seeds"]
_BARS = "Per cent of ridge's average precision, or of its squared error; bars are two standard errors."


def leads(results: Sequence[Result]) -> pd.DataFrame:
    """Return the lead of each method over ridge in every condition: per cent of ridge's value or error.

    A condition with a single label is none: there is nothing to rank.
    """
    groups: dict[tuple[Any, ...], dict[Any, list[Result]]] = {}
    for result in results:
        cell, (n_train, _, n_labels) = result.cell, result.values["shape"]
        place = (cell["part"], cell["dataset"], cell["axis"], repr(cell["level"]), n_train)
        for member in members_of(result):
            if member.cell["theta"] is None and n_labels > 1:
                key = member.cell["method"], member.cell["space"]
                groups.setdefault(place, {}).setdefault(key, []).append(member)
    rows = [row for place, found in groups.items() for row in _compared(place, found)]
    frame = pd.DataFrame(rows, columns=_COLUMNS)
    if len(frame):
        frame["p_holm"] = holm(frame["p_value"].tolist())
        signs = np.where(frame["lead"] > 0, "•", "∘")
        frame["mark"] = np.where(frame["p_holm"] < LEVEL, signs, "")
    return frame


def _compared(place: tuple[Any, ...], found: dict[Any, list[Result]]) -> Iterator[tuple[Any, ...]]:
    part, dataset, axis, level, n_train = place
    ridge = found["MLFro", "predictions"]
    (metric,) = ridge[0].arrays
    by_seed = {one.cell["seed"]: one.arrays[metric].astype(np.float64) for one in ridge}
    base = abs(float(np.mean([np.nanmean(values) for values in by_seed.values()])))
    for key, (name, _) in _SHOWN.items():
        own = [one for one in found.get(key, ()) if one.cell["seed"] in by_seed]
        if not own:
            continue
        differences = np.array([one.arrays[metric] - by_seed[one.cell["seed"]] for one in own])
        overlap = differences.shape[1] / n_train if part == "targets" else 0.0
        lead, error, p_value = lead_of(differences, part == "labels", overlap)
        per_cents = 100.0 * lead / base, 100.0 * error / base
        yield part, dataset, axis, level, name, base, *per_cents, p_value, len(own)


def lead_of(
    differences: npt.NDArray[np.float64], same_rows: bool, overlap: float
) -> tuple[float, float, float]:
    """Return mean, standard error and p-value of differences by seed and test row, some of which may be NaN.

    Examples
    --------
    >>> mean, error, p_value = lead_of(np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]), True, 0.0)
    >>> mean, round(error**2, 6), round(p_value, 4)  # a t-test over three rows
    (2.0, 0.333333, 0.0742)
    """
    d = differences[:, ~np.isnan(differences).all(axis=0)]
    n_seeds, n_rows = d.shape
    of_seeds = np.nanmean(d, axis=1)
    parts = []  # variances, and their degrees of freedom
    if n_seeds > 1:
        parts.append((of_seeds.var(ddof=1) * (1.0 / n_seeds + overlap), n_seeds - 1))
    if same_rows or n_seeds == 1:
        parts.append((np.nanmean(d, axis=0).var(ddof=1) / n_rows, n_rows - 1))
    mean, variance = float(of_seeds.mean()), float(sum(own for own, _ in parts))
    if variance <= 0.0:
        return mean, 0.0, 1.0
    freedom = variance**2 / sum(own**2 / count for own, count in parts)
    return mean, variance**0.5, 2.0 * float(stdtr(freedom, -abs(mean) / variance**0.5))


def study_numbers(found: pd.DataFrame) -> list[tuple[str, ...]]:
    """Return the first rows: in how many conditions two methods lead or lose, of each kind of data."""
    rows = [
        (
            f"{one['method']}: {one['part']}",
            *(str(one[key]) for key in ("cells", "better", "worse")),
            f"{one['median']:+z.1f} ({one['least']:+z.1f} to {one['most']:+z.1f})".replace("-", "−"),
        )
        for one in _counts(found)
        if one["method"] in (BEST, LOGISTIC)
    ]
    head = ("against ridge regression", "conditions", "better", "worse", "lead in %: median (range)")
    return [head, *rows] if rows else []


def _counts(found: pd.DataFrame) -> list[dict[str, Any]]:
    groups = found.groupby(["part", "method"], sort=False) if len(found) else ()
    return [
        {"part": _PARTS[part], "method": name, "cells": len(own)}
        | {word: int((own["mark"] == sign).sum()) for word, sign in (("better", "•"), ("worse", "∘"))}
        | {"median": own["lead"].median(), "least": own["lead"].min(), "most": own["lead"].max()}
        for (part, name), own in groups
    ]


def study_tables(found: pd.DataFrame) -> list[dict[str, Any]]:
    """Return how often each method leads and loses, and the table of all leads."""
    return table(
        "counts",
        "How often each method leads ridge regression, and loses to it",
        "Over all conditions; • better and ∘ worse after Holm's correction over all comparisons.",
        [
            column("part", "on"),
            column("method", "method"),
            column("cells", "conditions", "integer"),
            column("better", "• better", "integer"),
            column("worse", "∘ worse", "integer"),
            *(column(key, key, "number", 1, "lead in %") for key in ("median", "least", "most")),
        ],
        _counts(found),
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


def study_figures(found: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield the leads on whole data, the phase diagram, then the leads along each axis."""
    real = found[(found["axis"] == "rows") & (found["level"] == "1.0")]
    planted = found[found["axis"].isin(["phase", "rank"])]
    if len(real):
        yield figure(
            "whole",
            "Lead over ridge regression with all rows and labels",
            f"{_BARS} Left of the line a method loses.",
            "Dots with intervals for each method on each data set.",
            partial(_draw_whole, real),
            "lrml study",
        )
    if (planted["axis"] == "phase").any():
        yield figure(
            "phase",
            "Phase diagram: what a penalty on the predictions saves of ridge's error",
            "Simulated regressions of 100 targets on 100 features: per cent of the squared error of ridge "
            f"regression that {BEST} saves, for the rank of the truth against the number of rows.",
            "A map of per cents: large where the rank is low, small where it is high.",
            partial(_draw_phase, planted),
            _command(planted),
        )
    for part, axis in dict.fromkeys(zip(found["part"], found["axis"], strict=True)):
        own = _along(found[found["part"] == part], axis)
        if axis in _AXES and part != "targets" and own["x"].nunique() > 1:  # these have two levels
            yield figure(
                f"{part}-{axis}",
                f"Lead over ridge regression by {_AXES[axis]}: {_PARTS[part]}",
                _BARS,
                f"Leads of each method over the {_AXES[axis]}, one panel per data set.",
                partial(_draw_axis, own, axis),
                _command(own),
            )


def _command(found: pd.DataFrame) -> str:
    return f"lrml study --datasets {','.join(found['dataset'].unique())}"


def _along(found: pd.DataFrame, axis: str) -> pd.DataFrame:
    """Return the leads along an axis, with the level as x; the usual case, all rows and labels, is on it."""
    own = found[found["axis"] == axis]
    base = found[
        (found["axis"] == "rows") & (found["level"] == "1.0") & found["dataset"].isin(own["dataset"])
    ]
    if axis in ("hidden", "noise", "labels"):
        own = pd.concat([own, base.assign(level="1.0" if axis == "labels" else "0.0")])
    x = [float(level) if axis in _AXES else np.nan for level in own["level"]]
    return own.assign(x=x)


def _draw_axis(found: pd.DataFrame, axis: str) -> Any:
    datasets, methods = (list(dict.fromkeys(found[key])) for key in ("dataset", "method"))
    order = [name for name in _LOOKS if name in methods]
    drawing, panels = grid(len(datasets), 2 if len(datasets) < 5 else 3)
    for axes, (dataset, own) in zip(panels, found.groupby("dataset", sort=False), strict=True):
        levels = sorted(own["x"].unique())
        for place, name in enumerate(order):
            line = own[own["method"] == name].sort_values("x")
            shift = 0.6 * (place - (len(order) - 1) / 2) / len(order)  # bars beside each other
            x = [levels.index(level) + shift for level in line["x"]]
            axes.errorbar(x, line["lead"], 2.0 * line["error"], label=name, **(_THIN | _LOOKS[name]))
        shown = [f"{100 * level:g} %" if axis in _SHARES else f"{level:g}" for level in levels]
        axes.set_xticks(range(len(levels)), shown)
        axes.axhline(0.0, color="0.4", linewidth=0.8)
        axes.set(title=dataset, xlabel=_AXES[axis], ylabel="lead (%)")
    legend(drawing, min(4, len(order)), order)
    return drawing


_THIN = {"elinewidth": 0.6, "linewidth": 0.7, "markersize": 3.2}


def _draw_whole(found: pd.DataFrame) -> Any:
    """Draw a panel for labels and one for targets: of each data set a dot with its interval by method."""
    parts = list(found.groupby("part", sort=False))
    drawing = canvas(4.4 * len(parts), 0.42 * max(own["dataset"].nunique() for _, own in parts) + 1.1)
    panels = drawing.subplots(1, len(parts), squeeze=False).ravel()
    for axes, (part, own) in zip(panels, parts, strict=True):
        datasets = list(dict.fromkeys(own["dataset"]))
        for place, name in enumerate(_LOOKS):
            dots = own[own["method"] == name]
            y = [datasets.index(one) + 0.8 * (place + 0.5) / len(_LOOKS) - 0.4 for one in dots["dataset"]]
            look = _THIN | _LOOKS[name] | {"linestyle": "none"}
            if len(dots):
                axes.errorbar(dots["lead"], y, xerr=2.0 * dots["error"], label=name, **look)
        axes.axvline(0.0, color="0.4", linewidth=0.8)
        axes.set(title=_PARTS[part], xlabel="lead (%)", ylim=(len(datasets) - 0.4, -0.6))
        axes.set_yticks(range(len(datasets)), datasets)
    legend(drawing, 4, list(_LOOKS))
    return drawing


def _draw_phase(found: pd.DataFrame) -> Any:
    own = found[found["method"] == BEST]
    usual = spec("study")["planted"]["n_rows"]
    levels = [
        json.loads(level) if axis == "phase" else (usual, int(level))
        for axis, level in zip(own["axis"], own["level"], strict=True)
    ]
    own = own.assign(rows=[level[0] for level in levels], rank=[level[1] for level in levels])
    shown = own.pivot_table(index="rank", columns="rows", values="lead").dropna(thresh=2)
    drawing = canvas(4.6, 3.4)
    axes = drawing.subplots()
    axes.grid(False)
    drawn = axes.imshow(shown, cmap="viridis", aspect="auto", origin="lower")
    middle = (np.nanmin(shown) + np.nanmax(shown)) / 2
    for (i, j), lead in np.ndenumerate(shown):
        colour = "black" if lead > middle else "white"
        axes.text(j, i, f"{lead:z.0f}", ha="center", va="center", color=colour)
    axes.set_xticks(range(shown.shape[1]), shown.columns)
    axes.set_yticks(range(shown.shape[0]), shown.index)
    axes.set(xlabel="training rows", ylabel="rank of the truth")
    drawing.colorbar(drawn, ax=axes, label="lead over ridge (%)")
    return drawing
