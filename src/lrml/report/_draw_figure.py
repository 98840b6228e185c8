"""A figure on its canvas: grid of panels, legend, bytes. Importing this module needs matplotlib."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from lrml.report._draw_axes import is_above_hole, scale_axes
from lrml.report._draw_lines import Look, draw_lines, series_looks, space_markers
from lrml.report._draw_maps import annotate, draw_contour, draw_surface, mark_lines
from lrml.report._draw_text import MARK_POINTS, add_legend, wrapped, write_labels

__all__ = ["DPI", "compose", "draw", "series_looks"]

DPI = 250

_STYLE: dict[Any, Any] = {
    "font.size": 8,
    "axes.titlesize": 9,
    "axes.labelsize": 8.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "grid.color": "0.9",
    "grid.linewidth": 0.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "legend.fontsize": 8.5,
    "text.parse_math": False,  # a dollar is a dollar
    "svg.fonttype": "none",  # text that can be searched and edited
    "svg.hashsalt": "lrml",  # ids that do not change from run to run
    "pdf.fonttype": 42,  # TrueType, which publishers ask for
}
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}

# A page of a paper is 16 cm wide, and so is a figure: its text has the size that it will have in print.
_PAGE_WIDTH = 6.3
_LONE_PANEL_WIDTH = 4.4
_HEIGHT_TO_WIDTH = {"lines": 0.74, "contour": 0.86, "surface": 0.88}
_LEAST_HEIGHT = 1.9
_FEW_ROWS = 3  # more than these share the height of a page, less that of a legend, as far as can be read
_PAGE_HEIGHT = 8.4
_FLATTEST = 1.35


def draw(
    figure: Mapping[str, Any], looks: Mapping[str, Look], suffixes: Sequence[str] = ("png", "svg", "pdf")
) -> dict[str, bytes]:
    """Draw one figure.

    Parameters
    ----------
    figure : mapping
        One figure of a summary.
    looks : mapping of str to Look
        The looks of the series of all figures.
    suffixes : sequence of str, default=("png", "svg", "pdf")

    Returns
    -------
    dict of str to bytes
        The images by suffix.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's own settings would change the bytes
        matplotlib.rcParams.update(_STYLE)
        canvas = compose(figure, looks)
        return {suffix: _encoded(canvas, suffix) for suffix in suffixes}


def _encoded(canvas: Figure, suffix: str) -> bytes:
    stream = io.BytesIO()
    canvas.savefig(stream, format=suffix, dpi=DPI, metadata=_METADATA[suffix])
    return stream.getvalue()


def compose(figure: Mapping[str, Any], looks: Mapping[str, Look]) -> Figure:
    """Return the finished figure, its layout settled."""
    panels = figure["panels"]
    n_columns = max(1, min(figure["columns"], len(panels)))
    width = _PAGE_WIDTH if n_columns > 1 else _LONE_PANEL_WIDTH
    rows = [panels[start : start + n_columns] for start in range(0, len(panels), n_columns)]
    heights = _row_heights(rows, width / n_columns)
    layout = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.05)
    canvas = Figure(figsize=(width, sum(heights)), dpi=DPI, layout=layout)
    FigureCanvasAgg(canvas)
    all_axes = _panel_axes(canvas, panels, n_columns, heights)
    for number, (axes, panel) in enumerate(zip(all_axes, panels, strict=True)):
        _draw_panel(axes, panel, number, looks)
    scale_axes(all_axes, panels, n_columns)
    for number, (axes, panel) in enumerate(zip(all_axes, panels, strict=True)):
        write_labels(axes, panel, width / n_columns, heights[number // n_columns])
    add_legend(canvas, panels, looks)
    canvas.draw_without_rendering()
    canvas.set_layout_engine("none")
    for number, (axes, panel) in enumerate(zip(all_axes, panels, strict=True)):
        if panel["kind"] == "lines":
            space_markers(axes)
        else:
            annotate(axes, panel)
        if panel["kind"] != "surface" and is_above_hole(number, n_columns, len(panels)):
            axes.tick_params(axis="x", labelbottom=True)
            axes.set_xlabel(wrapped(panel["x"]["label"], 0.8 * width / n_columns, 8.5))
    return canvas


def _row_heights(rows: Sequence[Sequence[Mapping[str, Any]]], width: float) -> list[float]:
    heights = [max(_panel_height(panel, width) for panel in row) for row in rows] or [1.0]
    if len(rows) <= _FEW_ROWS:
        return heights
    return [max(min(height, _PAGE_HEIGHT / len(rows)), _FLATTEST) for height in heights]


def _panel_height(panel: Mapping[str, Any], width: float) -> float:
    marks = len(mark_lines(panel)) * 1.25 * MARK_POINTS / 72
    return max(_HEIGHT_TO_WIDTH[panel["kind"]] * width, _LEAST_HEIGHT) + marks


def _panel_axes(
    canvas: Figure, panels: Sequence[Mapping[str, Any]], n_columns: int, heights: Sequence[float]
) -> list[Axes]:
    grid = canvas.add_gridspec(len(heights), n_columns, height_ratios=heights)
    return [
        canvas.add_subplot(
            grid[divmod(number, n_columns)], projection="3d" if panel["kind"] == "surface" else None
        )
        for number, panel in enumerate(panels)
    ]


def _draw_panel(axes: Axes, panel: Mapping[str, Any], number: int, looks: Mapping[str, Look]) -> None:
    axes.set_gid(f"panel-{number}")
    if panel["kind"] == "lines":
        draw_lines(axes, panel, number, looks)
    elif panel["kind"] == "contour":
        draw_contour(axes, panel)
    else:
        draw_surface(axes, panel)
