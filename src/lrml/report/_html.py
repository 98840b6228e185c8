"""One self-contained HTML page of a summary: everything the template shows is computed here."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.resources import files
from typing import Any

from lrml.report import _plots
from lrml.report._plots import Plain

MISSING = "–"
LONG = 28  # characters from which on a text may break into lines
MOST_GRID_LINES = 21  # of the table behind a contour plot, in each direction

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
    looks = _plots.series_looks(figures)
    shown_figures = [_figure(figure, looks, stills.get(figure["id"])) for figure in figures]
    plots = {panel["id"]: panel["plot"] for figure in shown_figures for panel in figure["panels"]}
    text: str = make_template((page / "page.html.j2").read_text("utf-8")).render(
        summary=summary,
        tables=[_table(table) for table in summary["tables"]],
        figures=shown_figures,
        css=(page / "page.css").read_text("utf-8"),
        plotly=_script(plotly_script()),
        plots=_json(plots),
        script=_script((page / "page.js").read_text("utf-8")),
    )
    return text


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
    look = "numeric" if _is_numeric(column) else "long" if max(map(len, texts), default=0) > LONG else "short"
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
        return MISSING
    if not _is_numeric(column):
        return str(value)
    digits = 0 if column["kind"] == "integer" else column["digits"]
    # "z" turns a rounded −0.0000 into 0.0000.
    return format(value, f"z.{digits}f").replace("-", "−")


def _figure(figure: Plain, looks: Mapping[str, _plots.Look], still: bytes | None) -> dict[str, Any]:
    entries = _plots.legend(figure, looks)
    drawn = [panel for panel in figure["panels"] if panel["kind"] != "surface"]
    panels = [
        {
            "id": f"{figure['id']}-panel-{number}",
            "title": panel["title"],
            "label": f"{panel['title']}. {figure['alt']}",
            "plot": _plots.plot(panel, entries),
            "behind": _behind_lines(panel) if panel["kind"] == "lines" else _behind_contour(panel),
        }
        for number, panel in enumerate(drawn, start=1)
    ]
    return {
        **figure,
        "panels": panels,
        "has_surfaces": len(drawn) < len(figure["panels"]),
        "legend": [_legend_entry(entry) for entry in entries],
        "still": None if still is None else f"data:image/png;base64,{base64.b64encode(still).decode()}",
    }


def _legend_entry(entry: _plots.Entry) -> dict[str, Any]:
    colour = "var(--neutral)" if entry.look.colour == _plots.NEUTRAL else entry.look.colour
    hollow = entry.look.symbol.endswith("-open")
    mark = entry.style == "mark"
    return {
        "name": entry.name,
        "line": entry.style not in ("points", "mark"),
        "dashes": _DASH_ARRAYS.get(entry.style, "none"),
        "outline": _OUTLINES[entry.look.symbol.removesuffix("-open")],
        "stroke": "#000000" if mark else colour,
        "fill": "#FFFFFF" if mark else "var(--paper)" if hollow else colour,
    }


def _behind_lines(panel: Plain) -> dict[str, Any]:
    """Return the table behind a plot of lines: one row per point, with bounds if any series has them."""
    bounds = [bound for bound in ("low", "high") if any(series[bound] for series in panel["series"])]
    rows = []
    for series in panel["series"]:
        unknown = [None] * len(series["x"])
        columns = [series["x"], series["y"], *(series[bound] or unknown for bound in bounds)]
        rows += [[series["name"], *map(_shown, point)] for point in zip(*columns, strict=True)]
    head = ["series", panel["x"]["label"], panel["y"]["label"], *bounds]
    return {"head": head, "rows": rows, "sentence": f"{panel['y']['label']} by {panel['x']['label']}."}


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


def _thinned(values: Sequence[float]) -> range:
    return range(0, len(values), -(-len(values) // MOST_GRID_LINES))


def _shown(value: float | None) -> str:
    return _plots.shown(value) or MISSING
