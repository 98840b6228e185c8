"""Reports of a summary: CSV, Markdown and LaTeX tables, figures, and one HTML page.

A renderer sees only the summary, a plain dictionary, and returns text or bytes; the caller writes files. What
a renderer needs beyond the standard library and NumPy (matplotlib, Jinja2) is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lrml.report._page import needed, page_style, render_html
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
        of "LEML".

    Raises
    ------
    ImportError
        Without matplotlib.
    """
    drawing = needed("matplotlib", "plots", "lrml.report._draw")
    looks = drawing.series_looks(summary["figures"])
    return {
        f"{each['id']}.{suffix}": content
        for each in summary["figures"]
        for suffix, content in drawing.draw(each, looks).items()
    }
