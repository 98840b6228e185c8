"""Reports of a summary: CSV, Markdown and LaTeX tables, static figures, and one HTML page.

A renderer sees only the summary, a plain dictionary, and returns text or bytes; the caller writes files. What
a renderer needs beyond the standard library and NumPy (matplotlib, Plotly, Jinja2) is imported when it is
called.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from types import ModuleType
from typing import Any

from lrml.report._page import page_style, render_html
from lrml.report._parts import column, dots, figure, lines, page, rounded, series, table
from lrml.report._tables import render_tables

__all__ = [
    "column",
    "dots",
    "figure",
    "lines",
    "page",
    "page_style",
    "render_figures",
    "render_html",
    "render_still",
    "render_tables",
    "rounded",
    "series",
    "table",
]


def render_figures(summary: Mapping[str, Any]) -> dict[str, bytes]:
    """Draw every figure of a summary.

    Parameters
    ----------
    summary : mapping
        The summary of a reproduction; only ``summary["figures"]`` is read.

    Returns
    -------
    dict of str to bytes
        For every figure ``{id}.png`` (250 dots per inch), ``{id}.svg`` and ``{id}.pdf``; the same summary
        gives the same bytes. A name has the same colour and marker in all figures, and "LEML, paper" those
        of "LEML". Figures with panels of dots are for pages, and left out.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    drawing = _drawing()
    looks = drawing.series_looks(summary["figures"])
    files: dict[str, bytes] = {}
    for each in summary["figures"]:
        if any(panel["kind"] == "dots" for panel in each["panels"]):
            continue
        for suffix, content in drawing.draw(each, looks).items():
            files[f"{each['id']}.{suffix}"] = content
    return files


def render_still(figure: Mapping[str, Any]) -> bytes | None:
    """Draw the surfaces of a figure, which a page cannot draw by itself.

    Parameters
    ----------
    figure : mapping
        One figure of a summary.

    Returns
    -------
    bytes or None
        A PNG image, or None if the figure has no surface.

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    surfaces = [panel for panel in figure["panels"] if panel["kind"] == "surface"]
    if not surfaces:
        return None
    content: bytes = _drawing().draw({**figure, "panels": surfaces}, {}, suffixes=("png",))["png"]
    return content


def _drawing() -> ModuleType:
    try:
        import_module("matplotlib")
    except ImportError as error:
        raise ImportError(
            'Drawing figures needs matplotlib, which is not installed. Get it with: pip install "lrml[plots]"'
        ) from error
    return import_module("lrml.report._draw")
