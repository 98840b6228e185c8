"""Panels of a figure as Plotly plots: plain dictionaries that the page's script hands to Plotly.

Colours that belong to the page's theme (ground, text, rules) are absent here; the script adds them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any, NamedTuple

import numpy as np

from lrml.report._draw_rules import assigned, base_name, is_published, marked, series_of

Plain = Mapping[str, Any]

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
NEUTRAL = "#333333"  # the page's script replaces it by a light grey on dark ground

# Filled ones only: a hollow symbol means published values.
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down")
MARK_SYMBOLS = ("diamond", "circle", "square", "triangle-up", "triangle-down")
DASHES = {"line": "solid", "dashed": "dash", "dotted": "dot"}
LONGEST_LINE = 34  # characters of a label along an axis
N_SHOWN = 6  # digits of numbers under the pointer and in the tables behind the plots


class Look(NamedTuple):
    """How a series is drawn, in the plots and in the legend."""

    colour: str
    symbol: str


class Entry(NamedTuple):
    """One line of a figure's legend; ``style`` is "mark" for a mark in a contour plot."""

    name: str
    look: Look
    style: str


def series_looks(figures: Sequence[Plain]) -> dict[str, Look]:
    """Return the look of every series name; published values have the colour and the outline of our own."""
    colours, symbols = assigned(figures, len(COLOURS)), assigned(figures, len(SYMBOLS))
    looks: dict[str, Look] = {}
    for name in (series["name"] for figure in figures for series in series_of(figure)):
        base = base_name(name)
        symbol = SYMBOLS[symbols[base]] + ("-open" if is_published(name) else "")
        looks[name] = Look(COLOURS[colours[base]], symbol)
    return looks


def legend(figure: Plain, looks: Mapping[str, Look]) -> list[Entry]:
    """Return one entry per name: our series, then published ones, then marks.

    The first style that a name has is the one shown.
    """
    entries: dict[str, Entry] = {}
    for series in sorted(series_of(figure), key=lambda series: is_published(series["name"])):
        name = series["name"]
        entries.setdefault(name, Entry(name, looks[name], _style(series)))
    marks = dict.fromkeys(mark["name"] for panel in figure["panels"] for mark in panel.get("marks", ()))
    for order, name in enumerate(marks):
        look = Look(NEUTRAL, MARK_SYMBOLS[order % len(MARK_SYMBOLS)])
        entries.setdefault(name, Entry(name, look, "mark"))
    return list(entries.values())


def plot(panel: Plain, entries: Sequence[Entry]) -> dict[str, Any]:
    """Return ``{"data": traces, "layout": layout}`` of a lines or contour panel.

    The place of a series in the legend is the ``meta`` of its trace, so that the legend can switch it.
    """
    places = {entry.name: place for place, entry in enumerate(entries)}
    if panel["kind"] == "lines":
        traces = [_line(panel, series, places, entries) for series in panel["series"]]
        _space_markers(panel, traces)
        axes = {side: _axis(panel[side]["label"], panel[side]["scale"]) for side in "xy"}
        for side, axis in axes.items():
            if panel[side]["scale"] == "log" and _has_some_decades(panel, side):
                axis["dtick"] = 1  # powers of ten alone; Plotly would put a small 2 and 5 between them
    else:
        traces = [_contour(panel)] + [_mark(panel, mark, places, entries) for mark in panel["marks"]]
        axes = {side: _axis(panel[side]["label"], "linear") for side in "xy"}
        axes["x"]["constrain"] = axes["y"]["constrain"] = "domain"
    layout = {
        "xaxis": axes["x"],
        "yaxis": axes["y"],
        "height": 320,
        "margin": {"l": 60, "r": 12, "t": 28, "b": 48},
        "showlegend": False,
        "hovermode": "closest",
        "uirevision": "keep",  # a change of theme leaves the zoom alone
    }
    return {"data": traces, "layout": layout}


def shown(value: float | None) -> str:
    """Return a number as the plots show it; nothing for null."""
    return "" if _finite(value) is None else f"{value:.{N_SHOWN}g}"


def _style(series: Plain) -> str:
    """Return the style of a series; a line of published values is dotted."""
    style: str = series["style"]
    return "dotted" if is_published(series["name"]) and style != "points" else style


def _line(panel: Plain, series: Plain, places: Mapping[str, int], entries: Sequence[Entry]) -> dict[str, Any]:
    place = places[series["name"]]
    colour, symbol = entries[place].look
    points = series["style"] == "points"
    heights = [_finite(value) for value in series["y"]]
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers" if points else "lines+markers",
        "name": _text(series["name"]),
        "meta": place,
        "x": [_finite(value) for value in series["x"]],
        "y": heights,
        "marker": {"color": colour, "symbol": symbol, "size": 8 if points else 6},
        "line": {"color": colour, "width": 1.8, "dash": DASHES.get(_style(series), "solid")},
        "hovertemplate": _hover(_text(series["name"]), panel, "xy"),
    }
    if series["low"] is not None and series["high"] is not None:
        bounds = list(zip(series["low"], heights, series["high"], strict=True))
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": [_difference(high, middle) for _, middle, high in bounds],
            "arrayminus": [_difference(middle, low) for low, middle, _ in bounds],
            "color": colour,
            "thickness": 1,
            "width": 3,
        }
        trace["customdata"] = [f"{shown(low)} to {shown(high)}" for low, _, high in bounds]
        trace["hovertemplate"] = _hover(_text(series["name"]), panel, "xy", "<br>%{customdata}")
    return trace


def _space_markers(panel: Plain, traces: Sequence[dict[str, Any]]) -> None:
    """Leave a curve of many points some markers; its other points have the size 0, and answer the pointer."""
    along = [_shown_along(panel, series) for series in panel["series"]]
    known = [place for places in along for place in places if math.isfinite(place)]
    if not known:
        return
    low, length = min(known), max(known) - min(known) or 1.0
    for position, (series, places, trace) in enumerate(zip(panel["series"], along, traces, strict=True)):
        kept = marked((np.array(places) - low) / length, position)
        if kept is not None and series["style"] != "points":
            marker = trace["marker"]
            marker["size"] = [marker["size"] if index in kept else 0 for index in range(len(places))]
            # Markers of several sizes would be translucent and have a rim.
            marker |= {"opacity": 1, "line": {"width": 1 if marker["symbol"].endswith("-open") else 0}}


def _shown_along(panel: Plain, series: Plain) -> list[float]:
    """Return where points are along the horizontal axis, in its scale; nan for those that are not shown."""
    points = zip(_in_scale(series["x"], panel["x"]), _in_scale(series["y"], panel["y"]), strict=True)
    return [x if math.isfinite(y) else math.nan for x, y in points]


def _has_some_decades(panel: Plain, side: str) -> bool:
    known = [
        v for series in panel["series"] for v in _in_scale(series[side], panel[side]) if math.isfinite(v)
    ]
    return bool(known) and 2 <= max(known) - min(known) <= 6


def _in_scale(values: Sequence[float | None], axis: Plain) -> list[float]:
    known = [math.nan if _finite(value) is None else float(value or 0.0) for value in values]
    if axis["scale"] == "linear":
        return known
    return [math.log10(value) if value > 0 else math.nan for value in known]


def _contour(panel: Plain) -> dict[str, Any]:
    return {
        "type": "contour",
        "x": panel["x"]["values"],
        "y": panel["y"]["values"],
        "z": [[_finite(value) for value in row] for row in panel["z"]["values"]],
        "colorscale": "Cividis",  # safe for colour-blind readers, and even in grey
        "ncontours": 14,
        "line": {"width": 0.5, "color": "rgba(255, 255, 255, 0.55)"},
        "colorbar": {
            "thickness": 10,
            "outlinewidth": 0,
            "title": {"text": _lines(panel["z"]["label"]), "side": "right"},
        },
        "hovertemplate": _hover("", panel, "xyz"),
    }


def _mark(panel: Plain, mark: Plain, places: Mapping[str, int], entries: Sequence[Entry]) -> dict[str, Any]:
    place = places[mark["name"]]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": _text(mark["name"]),
        "meta": place,
        "x": [mark["x"]],
        "y": [mark["y"]],
        "customdata": [shown(mark["z"])],
        "marker": {
            "color": "#FFFFFF",
            "symbol": entries[place].look.symbol,
            "size": 11,
            "line": {"color": "#000000", "width": 1.5},
        },
        "hovertemplate": _hover(
            _text(mark["name"]), panel, "xy", f"<br>{_text(panel['z']['label'])}: %{{customdata}}"
        ),
    }


def _axis(label: str, scale: str) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": _lines(label), "standoff": 8},
        "type": scale,
        "automargin": True,
        "showline": True,
        "ticks": "outside",
        "ticklen": 4,
        "tickangle": 0,
        "nticks": 7,
        "zeroline": False,
        "exponentformat": "power",
        "minexponent": 5,
    }
    # Plotly writes powers a quarter larger than other numbers.
    return axis | {"tickfont": {"size": 10}} if scale == "log" else axis


def _hover(name: str, panel: Plain, sides: str, end: str = "") -> str:
    # A format of its own keeps Plotly from adding the error bars, which the caller states as bounds.
    values = [f"{_text(panel[side]['label'])}: %{{{side}:.{N_SHOWN}~g}}" for side in sides]
    return "<br>".join(([f"<b>{name}</b>"] if name else []) + values) + end + "<extra></extra>"


def _lines(label: str) -> str:
    """Return a label in as many lines as it needs beside a small plot."""
    return "<br>".join(_text(line) for line in wrap(label, LONGEST_LINE))


def _text(text: str) -> str:
    """Return text that Plotly shows as it is: it reads a few tags, and ``%{…}`` in templates."""
    return escape(text, quote=False).replace("{", "&#123;")


def _finite(value: float | None) -> float | None:
    """Return null for what JSON cannot hold."""
    return value if value is not None and math.isfinite(value) else None


def _difference(upper: float | None, lower: float | None) -> float | None:
    upper, lower = _finite(upper), _finite(lower)
    return None if upper is None or lower is None else upper - lower
