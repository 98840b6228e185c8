"""One self-contained HTML page of a summary: everything the template shows is computed here.

Figures are those of `_draw`, as SVG within the page, whose style sheet gives them the colours of its theme.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from html import escape
from importlib import import_module
from importlib.resources import files
from types import ModuleType
from typing import Any, TypeAlias

Plain: TypeAlias = Mapping[str, Any]

_MISSING = "–"
_LONG = 28  # characters from which on a text may break into lines
_MOST_ROWS = 300  # of a table behind a plot

# What drawings have for paper, and what takes its place on the page: words, axes and frames, grid, what is
# hollow, and the one dark colour of series.
_THEME = {
    "#000000": "currentColor",
    "#e6e6e6": "var(--rule)",
    "#cccccc": "var(--rule)",
    "#ffffff": "var(--paper)",
    "#333333": "var(--neutral)",
}
_COLOUR = re.compile(rf"((?:fill|stroke): )({'|'.join(_THEME)})")
_TAG = re.compile(r"<[^>]+>")
_REFERENCE = re.compile(r' id="| xlink:href="#|url\(#')
_LONG_NUMBER = re.compile(r"(?<![\w.#])-?\d+\.\d{3,}(?![\w.])")
_BETWEEN_TAGS = re.compile(r">\s+<")
_VIEW_BOX = re.compile(r'viewBox="([^"]*)"')
_NO_PART = re.compile(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>|<!--.*?-->", re.DOTALL)
_FONT = re.compile(r" font-family: [^;\"]*;")


def render_html(summary: Mapping[str, Any]) -> str:
    """Return the report as one HTML document that needs no network.

    Parameters
    ----------
    summary : mapping
        Title, sentences, tables and figures of an experiment.

    Returns
    -------
    str
        The document; the same summary gives the same text.

    Raises
    ------
    ImportError
        If Jinja2 is not installed, or matplotlib, which draws the figures.
    """
    jinja2 = needed("jinja2", "report")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    folder, figures = files("lrml.report") / "page", []
    if summary["figures"]:
        drawing = needed("matplotlib", "report", "lrml.report._draw")
        looks = drawing.series_looks(summary["figures"])
        figures = [_figure(figure, *drawing.draw_apart(figure, looks)) for figure in summary["figures"]]
    text: str = environment.from_string((folder / "page.html.j2").read_text("utf-8")).render(
        summary=summary,
        tables=[_table(table) for table in summary["tables"]],
        figures=figures,
        css=page_style() + (folder / "page.css").read_text("utf-8"),
        script=(folder / "page.js").read_text("utf-8"),
    )
    return text


def page_style() -> str:
    """Return the style sheet that all pages begin with: colours for light and dark, and plain elements."""
    return (files("lrml.report") / "page" / "base.css").read_text("utf-8")


def needed(module: str, extra: str, own: str | None = None) -> ModuleType:
    """Import a library, or say what to install; return it, or a module of our own that needs it."""
    try:
        found = import_module(module)
    except ImportError as error:
        raise ImportError(
            f'{module} is needed and cannot be imported. Install it with: pip install "lrml[{extra}]"'
        ) from error
    return import_module(own) if own else found


def _table(table: Plain) -> dict[str, Any]:
    shown = [_column(column, table["rows"]) for column in table["columns"]]
    rows = zip(table["rows"], zip(*shown, strict=True), strict=True)
    return {**table, "rows": [{"kind": row.get("_class"), "cells": cells} for row, cells in rows]}


def _column(column: Plain, rows: Sequence[Plain]) -> list[dict[str, Any]]:
    """Return the cells of one column: text, exact value for sorting, and classes of the style sheet."""
    values, numeric = [row[column["key"]] for row in rows], column["kind"] != "text"
    if numeric:
        # "z" turns a rounded −0.0000 into 0.0000.
        form = f"z.{0 if column['kind'] == 'integer' else column['digits']}f"
        texts = [_MISSING if value is None else format(value, form).replace("-", "−") for value in values]
    else:
        texts = [_MISSING if value is None else str(value) for value in values]
    look = "numeric" if numeric else "long" if max(map(len, texts), default=0) > _LONG else "short"
    return [
        {
            "text": text,
            "value": repr(value) if numeric and value is not None else None,
            "look": f"{look} missing" if value is None else look,
        }
        for value, text in zip(values, texts, strict=True)
    ]


# Figures


def _figure(figure: Plain, panels: Sequence[bytes], samples: Mapping[str, bytes]) -> dict[str, Any]:
    name = figure["id"]
    return {
        **figure,
        "panels": [
            {
                "title": panel["title"],
                "drawing": _embedded(svg, f"{name}-{number}", f"{panel['title']}. {figure['alt']}"),
                "behind": _behind(panel),
            }
            for number, (panel, svg) in enumerate(zip(figure["panels"], panels, strict=True), start=1)
        ],
        "legend": [
            {"name": series, "sample": _embedded(svg, f"{name}-sample-{number}")}
            for number, (series, svg) in enumerate(samples.items(), start=1)
        ],
    }


def _embedded(svg: bytes, name: str, label: str | None = None) -> str:
    """Return a drawing as an element of the page, in the page's colours; without a label it is an ornament.

    Ids begin with the name, because all drawings of a page share one space of names.
    """
    text = _NO_PART.sub("", svg.decode())
    start, end = text.index("<svg"), text.index(">", text.index("<svg"))
    box = _VIEW_BOX.search(text, start, end)
    assert box is not None
    prefix = re.sub(r"[^\w-]", "_", name) + "-"
    said = 'aria-hidden="true"' if label is None else f'role="img" aria-label="{escape(label)}"'

    def of_page(tag: re.Match[str]) -> str:
        found = _REFERENCE.sub(lambda match: match[0] + prefix, _FONT.sub("", tag[0]))
        found = _LONG_NUMBER.sub(lambda match: f"{float(match[0]):.5g}", " ".join(found.split()))
        return _COLOUR.sub(lambda match: match[1] + _THEME[match[2]], found)

    body = _BETWEEN_TAGS.sub("><", _TAG.sub(of_page, text[end + 1 :])).strip()
    return f'<svg viewBox="{box[1]}" {said}>{body}'


def _behind(panel: Plain) -> dict[str, Any] | None:
    """Return the table behind a plot: one row per point, or per name, with bounds if any series has them."""
    if sum(len(series["x"]) for series in panel.get("series", ())) not in range(1, _MOST_ROWS):
        return None
    dots, several = panel["kind"] == "dots", len(panel["series"]) > 1
    bounds = [bound for bound in ("low", "high") if any(series[bound] for series in panel["series"])]
    sides = "x" if dots else "xy"
    rows = []
    for series in panel["series"]:
        n_points, own = len(series["x"]), series["name"]
        names = panel["y"]["names"] if dots else series.get("names") or [own] * n_points
        columns = [series[key] or [None] * n_points for key in (*sides, *bounds)]
        for name, *point in zip(names, *columns, strict=True):
            rows.append([f"{name}, {own}" if dots and several else name, *map(_shown, point)])
    labels = [panel[side]["label"] for side in sides]
    return {"head": ["" if dots else "series", *labels, *bounds], "rows": rows}


def _shown(value: float | None) -> str:
    """Return a number as the tables behind plots show it."""
    return _MISSING if value is None or not math.isfinite(value) else f"{value:.6g}"
