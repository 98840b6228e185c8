"""One self-contained HTML page of a summary: everything the template shows is computed here.

Plots are plain dictionaries that the page's script hands to Plotly. Colours that belong to the page's theme
(ground, text, rules) are absent; the script adds them.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib import import_module
from importlib.resources import files
from textwrap import wrap
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lrml.report._series import COLOURS, assigned, base_name, chosen_markers, is_published, numbers, series_of

Plain: TypeAlias = Mapping[str, Any]

_MISSING = "–"
_LONG = 28  # characters from which on a text may break into lines
_LONGEST_LINE = 34  # characters of a label along an axis
_MOST_GRID_LINES = 21  # of the table behind a contour plot, in each direction
_LONGEST_NAME = 22  # characters of a name beside a line of dots
_N_SHOWN = 6  # digits of numbers under the pointer and in the tables behind the plots

_NEUTRAL = "#333333"  # the page's script replaces it by a light grey on dark ground
# Filled ones only: a hollow symbol means published values.
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down")
_MARK_SYMBOLS = ("diamond", "circle", "square", "triangle-up", "triangle-down")
_DASHES = {"line": "solid", "dashed": "dash", "dotted": "dot"}

# Outlines of the markers in the legend, around (17, 7).
_OUTLINES = {
    "circle": "M13.2 7a3.8 3.8 0 1 0 7.6 0a3.8 3.8 0 1 0 -7.6 0z",
    "square": "M13.5 3.5h7v7h-7z",
    "diamond": "M17 2.2l4.8 4.8l-4.8 4.8l-4.8 -4.8z",
    "triangle-up": "M17 2.4l4.4 7.6h-8.8z",
    "triangle-down": "M17 11.6l4.4 -7.6h-8.8z",
}
_DASH_ARRAYS = {"dashed": "6 4", "dotted": "1.5 3"}


def render_html(summary: Mapping[str, Any], *, stills: Mapping[str, bytes] = {}) -> str:
    """Return the report as one HTML document that needs no network.

    Parameters
    ----------
    summary : mapping
        Title, sentences, tables and figures of an experiment.
    stills : mapping of str to bytes, default={}
        PNG images by the id of a figure. The page draws lines and contours itself; for a figure with surfaces
        it shows the image.

    Returns
    -------
    str
        The document; the same summary gives the same text.

    Raises
    ------
    ImportError
        If Jinja2 or Plotly is not installed.
    """
    make_template, plotly_script = _libraries()
    page = files("lrml.report") / "page"
    figures = summary["figures"]
    colours, symbols = assigned(figures, len(COLOURS)), assigned(figures, len(_SYMBOLS))
    shown_figures = [
        _figure(figure, _legend(figure, colours, symbols), stills.get(figure["id"])) for figure in figures
    ]
    plots = {panel["id"]: panel["plot"] for figure in shown_figures for panel in figure["panels"]}
    text: str = make_template((page / "page.html.j2").read_text("utf-8")).render(
        summary=summary,
        tables=[_table(table) for table in summary["tables"]],
        figures=shown_figures,
        css=page_style() + (page / "page.css").read_text("utf-8"),
        plotly=_script(plotly_script()),
        plots=_json(plots),
        script=_script((page / "page.js").read_text("utf-8")),
    )
    return text


def page_style() -> str:
    """Return the style sheet that all pages begin with: colours for light and dark, and plain elements."""
    return (files("lrml.report") / "page" / "base.css").read_text("utf-8")


def _libraries() -> tuple[Callable[[str], Any], Callable[[], str]]:
    try:
        jinja2, plotly = import_module("jinja2"), import_module("plotly.offline")
    except ImportError as error:
        raise ImportError(
            f"The HTML report needs Jinja2 and Plotly, and {error.name} cannot be imported. "
            'Install both with: pip install "lrml[report]"'
        ) from error
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string, plotly.get_plotlyjs


def _script(text: str) -> str:
    """Return a script that cannot end its own element; inside literals the backslash changes nothing."""
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _json(value: Any) -> str:
    """Return JSON in which no character means anything to HTML."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _table(table: Plain) -> dict[str, Any]:
    columns = table["columns"]
    shown = [_column(column, table["rows"]) for column in columns]
    texts = {
        column["key"]: [cell["text"] for cell in cells] for column, cells in zip(columns, shown, strict=True)
    }
    places = {column["key"]: place for place, column in enumerate(columns)}
    return {
        **table,
        "head": [{**column, "look": "numeric" if _is_numeric(column) else ""} for column in columns],
        "rows": [
            {"kind": row.get("_class"), "cells": cells}
            for row, cells in zip(table["rows"], zip(*shown, strict=True), strict=True)
        ],
        "filters": [
            {
                "place": places[key],
                "title": columns[places[key]]["title"],
                "choices": list(dict.fromkeys(texts[key])),
            }
            for key in table["filters"]
        ],
        "helps": [column for column in columns if column["help"]],
    }


def _is_numeric(column: Plain) -> bool:
    return bool(column["kind"] != "text")


def _column(column: Plain, rows: Sequence[Plain]) -> list[dict[str, Any]]:
    """Return the cells of one column: text, exact value for sorting, and classes of the style sheet."""
    values = [row[column["key"]] for row in rows]
    texts = [_cell_text(value, column) for value in values]
    look = (
        "numeric" if _is_numeric(column) else "long" if max(map(len, texts), default=0) > _LONG else "short"
    )
    return [
        {
            "text": text,
            "value": repr(value) if _is_numeric(column) and value is not None else None,
            "look": f"{look} missing" if value is None else look,
        }
        for value, text in zip(values, texts, strict=True)
    ]


def _cell_text(value: Any, column: Plain) -> str:
    if value is None:
        return _MISSING
    if not _is_numeric(column):
        return str(value)
    digits = 0 if column["kind"] == "integer" else column["digits"]
    # "z" turns a rounded −0.0000 into 0.0000.
    return format(value, f"z.{digits}f").replace("-", "−")


def _figure(figure: Plain, items: Mapping[str, LegendItem], still: bytes | None) -> dict[str, Any]:
    drawn = [panel for panel in figure["panels"] if panel["kind"] != "surface"]
    panels = [
        {
            "id": f"{figure['id']}-panel-{number}",
            "title": panel["title"],
            "label": f"{panel['title']}. {figure['alt']}",
            "plot": _plot(panel, items),
            "height": _height(panel),
            "behind": _BEHIND[panel["kind"]](panel),
        }
        for number, panel in enumerate(drawn, start=1)
    ]
    return {
        **figure,
        "panels": panels,
        "has_surfaces": len(drawn) < len(figure["panels"]),
        "legend": [_legend_entry(item) for item in items.values()],
        "still": None if still is None else f"data:image/png;base64,{base64.b64encode(still).decode()}",
    }


def _behind_lines(panel: Plain) -> dict[str, Any]:
    """Return the table behind a plot of lines: one row per point, with bounds if any series has them."""
    bounds = [bound for bound in ("low", "high") if any(series[bound] for series in panel["series"])]
    rows = []
    for series in panel["series"]:
        unknown = [None] * len(series["x"])
        columns = [series["x"], series["y"], *(series[bound] or unknown for bound in bounds)]
        names = series.get("names") or [series["name"]] * len(series["x"])
        points = zip(names, *columns, strict=True)
        rows += [[name, *map(_shown, point)] for name, *point in points]
    head = ["series", panel["x"]["label"], panel["y"]["label"], *bounds]
    return {"head": head, "rows": rows, "sentence": f"{panel['y']['label']} by {panel['x']['label']}."}


def _behind_dots(panel: Plain) -> dict[str, Any]:
    """Return the table behind a plot of dots: one row per name and series."""
    named = panel["y"]["names"]
    several = len(panel["series"]) > 1
    bounds = [bound for bound in ("low", "high") if any(series[bound] for series in panel["series"])]
    rows = []
    for place, name in enumerate(named):
        for series in panel["series"]:
            values = [series["x"][place], *(series[bound][place] for bound in bounds)]
            rows.append([name, *([series["name"]] if several else []), *map(_shown, values)])
    head = ["", *(["series"] if several else []), panel["x"]["label"], *bounds]
    return {"head": head, "rows": rows, "sentence": f"{panel['x']['label']}, line by line."}


def _behind_contour(panel: Plain) -> dict[str, Any]:
    """Return the table behind a contour plot, thinned to a readable number of rows and columns."""
    across, up = _thinned(panel["x"]["values"]), _thinned(panel["y"]["values"])
    values = panel["z"]["values"]
    head = [f"{panel['y']['label']} ↓  {panel['x']['label']} →"]
    head += [_shown(panel["x"]["values"][column]) for column in across]
    rows = [[_shown(panel["y"]["values"][row]), *(_shown(values[row][col]) for col in across)] for row in up]
    sentence = f"{panel['z']['label']} over {panel['x']['label']} and {panel['y']['label']}."
    if len(across) < len(panel["x"]["values"]) or len(up) < len(panel["y"]["values"]):
        sentence += " The plot has more points than this table."
    for mark in panel["marks"]:
        sentence += f" {mark['name']}: {_shown(mark['z'])} at ({_shown(mark['x'])}, {_shown(mark['y'])})."
    return {"head": head, "rows": rows, "sentence": sentence}


_BEHIND = {"lines": _behind_lines, "dots": _behind_dots, "contour": _behind_contour}


def _thinned(values: Sequence[float]) -> range:
    return range(0, len(values), -(-len(values) // _MOST_GRID_LINES))


# Legends and plots


class LegendItem(NamedTuple):
    """A series, or a mark of a contour plot, and how it is drawn; ``style`` is "mark" for a mark."""

    place: int
    name: str
    colour: str
    symbol: str
    style: str


def _legend(figure: Plain, colours: Mapping[str, int], symbols: Mapping[str, int]) -> dict[str, LegendItem]:
    """Return one item per name: our series, then published ones, then marks.

    Published values have the colour and the outline of our own. The first style of a name is the one shown.
    """
    found: dict[str, LegendItem] = {}
    for series in sorted(series_of(figure), key=lambda series: is_published(series["name"])):
        name, base = series["name"], base_name(series["name"])
        symbol = _SYMBOLS[symbols[base]] + ("-open" if is_published(name) else "")
        item = LegendItem(len(found), name, COLOURS[colours[base]], symbol, _style(series))
        found.setdefault(name, item)
    marks = dict.fromkeys(mark["name"] for panel in figure["panels"] for mark in panel.get("marks", ()))
    for order, name in enumerate(marks):
        symbol = _MARK_SYMBOLS[order % len(_MARK_SYMBOLS)]
        found.setdefault(name, LegendItem(len(found), name, _NEUTRAL, symbol, "mark"))
    return found


def _legend_entry(item: LegendItem) -> dict[str, Any]:
    colour = "var(--neutral)" if item.colour == _NEUTRAL else item.colour
    hollow, mark = item.symbol.endswith("-open"), item.style == "mark"
    return {
        "name": item.name,
        "line": item.style not in ("points", "mark"),
        "dashes": _DASH_ARRAYS.get(item.style, "none"),
        "outline": _OUTLINES[item.symbol.removesuffix("-open")],
        "stroke": "#000000" if mark else colour,
        "fill": "#FFFFFF" if mark else "var(--paper)" if hollow else colour,
    }


def _style(series: Plain) -> str:
    """Return the style of a series; a line of published values is dotted."""
    style: str = series["style"]
    return "dotted" if is_published(series["name"]) and style != "points" else style


def _plot(panel: Plain, items: Mapping[str, LegendItem]) -> dict[str, Any]:
    """Return ``{"data": traces, "layout": layout}`` of a panel other than a surface.

    The place of a series in the legend is the ``meta`` of its trace, so that the legend can switch it.
    """
    if panel["kind"] == "lines":
        traces = [_line(panel, series, items[series["name"]]) for series in panel["series"]]
        _space_markers(panel, traces)
        axes = {side: _axis(panel[side]["label"], panel[side]["scale"]) for side in "xy"}
        for side, axis in axes.items():
            if panel[side]["scale"] == "log" and _has_some_decades(panel, side):
                axis["dtick"] = 1  # powers of ten alone; Plotly would put a small 2 and 5 between them
            if panel[side].get("from_zero"):
                axis["rangemode"] = "tozero"
    elif panel["kind"] == "dots":
        traces = [_dots(panel, place, items[series["name"]]) for place, series in enumerate(panel["series"])]
        axes = {"x": _axis(panel["x"]["label"], "linear"), "y": _axis_of_names(panel)}
        axes["x"]["rangemode"] = "tozero"
    else:
        traces = [_contour(panel)] + [_mark(panel, mark, items[mark["name"]]) for mark in panel["marks"]]
        axes = {side: _axis(panel[side]["label"], "linear") for side in "xy"}
        axes["x"]["constrain"] = axes["y"]["constrain"] = "domain"
    layout = {
        "xaxis": axes["x"],
        "yaxis": axes["y"],
        "height": _height(panel),
        "margin": {"l": 60, "r": 12, "t": 28, "b": 48},
        "showlegend": False,
        "hovermode": "closest",
        "uirevision": "keep",  # a change of theme keeps the zoom
    }
    if panel.get("bands"):
        layout["shapes"], layout["annotations"] = _bands(panel)
    return {"data": traces, "layout": layout}


def _height(panel: Plain) -> int:
    """Return the height of a plot in pixels: lines of dots need room for their names."""
    if panel["kind"] != "dots":
        return 320
    return 90 + len(panel["y"]["names"]) * max(26, 14 * len(panel["series"]))


def _line(panel: Plain, series: Plain, item: LegendItem) -> dict[str, Any]:
    points = series["style"] == "points"
    x, y = numbers(series["x"]), numbers(series["y"])
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers" if points else "lines+markers",
        "name": _text(item.name),
        "meta": item.place,
        "x": _nullable(x),
        "y": _nullable(y),
        "marker": {"color": item.colour, "symbol": item.symbol, "size": 8 if points else 6},
        "line": {"color": item.colour, "width": 1.8, "dash": _DASHES.get(_style(series), "solid")},
        "hovertemplate": _hover(_text(item.name), panel, "xy"),
    }
    if series.get("names"):
        trace["text"] = [_text(name) for name in series["names"]]
        trace["hovertemplate"] = _hover("%{text}", panel, "xy")
    if series["low"] is not None and series["high"] is not None:
        low, high = numbers(series["low"]), numbers(series["high"])
        trace["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": _nullable(high - y),
            "arrayminus": _nullable(y - low),
            "color": item.colour,
            "thickness": 1,
            "width": 3,
        }
        bounds = zip(series["low"], series["high"], strict=True)
        trace["customdata"] = [f"{_shown(one, '')} to {_shown(other, '')}" for one, other in bounds]
        trace["hovertemplate"] = _hover(_text(item.name), panel, "xy", "<br>%{customdata}")
    return trace


def _dots(panel: Plain, place: int, item: LegendItem) -> dict[str, Any]:
    """Return one dot per name; series stand below each other, within a line of their own."""
    series, names = panel["series"][place], panel["y"]["names"]
    shift = (place - (len(panel["series"]) - 1) / 2) * 0.7 / max(len(panel["series"]), 1)
    x = numbers(series["x"])
    trace: dict[str, Any] = {
        "type": "scatter",
        "mode": "markers",
        "name": _text(item.name),
        "meta": item.place,
        "x": _nullable(x),
        "y": [line + shift for line in range(len(names))],
        "text": [_text(name) for name in names],
        "marker": {"color": item.colour, "symbol": item.symbol, "size": 9},
    }
    end = ""
    if series["low"] is not None and series["high"] is not None:
        low, high = numbers(series["low"]), numbers(series["high"])
        bars = {"array": _nullable(high - x), "arrayminus": _nullable(x - low), "color": item.colour}
        trace["error_x"] = {"type": "data", "symmetric": False, "thickness": 1.5, "width": 4, **bars}
        bounds = zip(series["low"], series["high"], strict=True)
        trace["customdata"] = [f"{_shown(one, '')} to {_shown(other, '')}" for one, other in bounds]
        end = "<br>%{customdata}"
    own = f"<br>{_text(item.name)}" if len(panel["series"]) > 1 else ""
    trace["hovertemplate"] = f"<b>%{{text}}</b>{own}<br>{_hover('', panel, 'x', end)}"
    return trace


def _axis_of_names(panel: Plain) -> dict[str, Any]:
    names = panel["y"]["names"]
    ticks = {
        "tickmode": "array",
        "tickvals": list(range(len(names))),
        "ticktext": [_clipped(n) for n in names],
    }
    return _axis("", "linear") | ticks | {"range": [len(names) - 0.4, -0.6], "showline": False, "ticks": ""}


def _clipped(name: str) -> str:
    """Return a name that leaves room for the plot on a phone; the whole one is under the pointer."""
    return _text(name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…")


def _bands(panel: Plain) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return shaded parts of the x axis, and their names at the top."""
    shapes, names = [], []
    log = panel["x"]["scale"] == "log"
    for band in panel["bands"]:
        ends = {"x0": band["low"], "x1": band["high"], "y0": 0, "y1": 1, "yref": "paper"}
        shade = {"fillcolor": COLOURS[0], "opacity": 0.12, "line": {"width": 0}, "layer": "below"}
        shapes.append({"type": "rect", **ends, **shade})
        middle = math.sqrt(band["low"] * band["high"]) if log else (band["low"] + band["high"]) / 2
        at = {"x": math.log10(middle) if log else middle, "y": 1.0, "yref": "paper", "yanchor": "bottom"}
        names.append({"text": _text(band["name"]), "showarrow": False, **at})
    return shapes, names


def _space_markers(panel: Plain, traces: Sequence[dict[str, Any]]) -> None:
    """Thin the markers of a long curve; other points get size 0 and still react to the pointer."""
    along = [_in_scale(series["x"], panel["x"]) for series in panel["series"]]
    for places, series in zip(along, panel["series"], strict=True):
        places[np.isnan(_in_scale(series["y"], panel["y"]))] = np.nan
    known = np.concatenate([places[np.isfinite(places)] for places in along] or [np.empty(0)])
    if not known.size:
        return
    low, length = known.min(), np.ptp(known) or 1.0
    for position, (series, places, trace) in enumerate(zip(panel["series"], along, traces, strict=True)):
        kept = chosen_markers(series, (places - low) / length, position)
        if kept is not None and series["style"] != "points":
            marker = trace["marker"]
            marker["size"] = [marker["size"] if index in kept else 0 for index in range(len(places))]
            # Markers of several sizes would be translucent and have a rim.
            marker |= {"opacity": 1, "line": {"width": 1 if marker["symbol"].endswith("-open") else 0}}


def _has_some_decades(panel: Plain, side: str) -> bool:
    known = np.concatenate(
        [_in_scale(series[side], panel[side]) for series in panel["series"]] or [np.empty(0)]
    )
    known = known[np.isfinite(known)]
    return bool(known.size) and bool(2 <= np.ptp(known) <= 6)


def _in_scale(values: Sequence[float | None], axis: Plain) -> NDArray[np.float64]:
    """Return where values are along an axis; nan for those that are not shown."""
    known = numbers(values)
    known[~np.isfinite(known)] = np.nan
    if axis["scale"] == "linear":
        return known
    known[~(known > 0)] = np.nan
    logs: NDArray[np.float64] = np.log10(known)
    return logs


def _contour(panel: Plain) -> dict[str, Any]:
    return {
        "type": "contour",
        "x": panel["x"]["values"],
        "y": panel["y"]["values"],
        "z": [_nullable(numbers(row)) for row in panel["z"]["values"]],
        "colorscale": "Cividis",  # safe for colour-blind readers, and even in grey
        "ncontours": 14,
        "line": {"width": 0.5, "color": "rgba(255, 255, 255, 0.55)"},
        "colorbar": {
            "thickness": 10,
            "outlinewidth": 0,
            "title": {"text": _label(panel["z"]["label"]), "side": "right"},
        },
        "hovertemplate": _hover("", panel, "xyz"),
    }


def _mark(panel: Plain, mark: Plain, item: LegendItem) -> dict[str, Any]:
    height = f"<br>{_text(panel['z']['label'])}: %{{customdata}}"
    return {
        "type": "scatter",
        "mode": "markers",
        "name": _text(item.name),
        "meta": item.place,
        "x": [mark["x"]],
        "y": [mark["y"]],
        "customdata": [_shown(mark["z"], "")],
        "marker": {
            "color": "#FFFFFF",
            "symbol": item.symbol,
            "size": 11,
            "line": {"color": "#000000", "width": 1.5},
        },
        "hovertemplate": _hover(_text(item.name), panel, "xy", height),
    }


def _axis(label: str, scale: str) -> dict[str, Any]:
    axis: dict[str, Any] = {
        "title": {"text": _label(label), "standoff": 8},
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
    values = [f"{_text(panel[side]['label'])}: %{{{side}:.{_N_SHOWN}~g}}" for side in sides]
    return "<br>".join(([f"<b>{name}</b>"] if name else []) + values) + end + "<extra></extra>"


def _label(label: str) -> str:
    """Return a label in as many lines as it needs beside a small plot."""
    return "<br>".join(_text(line) for line in wrap(label, _LONGEST_LINE))


def _text(text: str) -> str:
    """Return text that Plotly shows as it is: it reads a few tags, and ``%{…}`` in templates."""
    return escape(text, quote=False).replace("{", "&#123;")


def _nullable(values: NDArray[np.float64]) -> list[float | None]:
    """Return plain numbers, with null for what JSON cannot hold."""
    return [value if math.isfinite(value) else None for value in values.tolist()]


def _shown(value: float | None, missing: str = _MISSING) -> str:
    """Return a number as plots and the tables behind them show it."""
    return missing if value is None or not math.isfinite(value) else f"{value:.{_N_SHOWN}g}"
