"""Words of a figure: titles, names of marks, labels, legend. Importing this module needs matplotlib."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from lrml.report._draw_lines import Look, legend_entries
from lrml.report._draw_maps import mark_lines
from lrml.report._draw_rules import base_name, is_published

MARK_POINTS = 8
_LABEL_POINTS = 8.5
_TITLE_POINTS = 9
_SMALL_POINTS = 7
_NOTHING = Line2D([], [], linestyle="none")  # fills a place in a legend


def wrapped(text: str, inches: float, points: float = _LABEL_POINTS) -> str:
    """Break a text into lines of about the same length."""
    room = max(8, int(inches / (0.54 * points / 72)))
    n_lines = -(-len(text) // room)
    return textwrap.fill(text, min(room, len(text) // n_lines + 6)) if n_lines > 1 else text


def write_labels(axes: Axes, panel: Mapping[str, Any], width: float, height: float) -> None:
    """Write title and marks above a panel, and break labels that are longer than it."""
    title = panel["title"]
    if panel["kind"] == "contour" and panel["z"]["label"] not in title:
        title = f"{title} ({panel['z']['label']})"
    pad = (
        -8.0 if panel["kind"] == "surface" else 6.0
    )  # points; a surface leaves room beside its highest corner
    marks = "\n".join(wrapped(line, 0.8 * width, MARK_POINTS) for line in mark_lines(panel))
    if panel["kind"] == "surface":
        axes.texts[0].set_text(wrapped(panel["z"]["label"], 0.7 * height))
    if marks:
        axes.annotate(
            marks,
            (0.5, 1.0),
            xycoords="axes fraction",
            xytext=(0, pad - 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=MARK_POINTS,
        )
        pad += 1.25 * MARK_POINTS * len(marks.splitlines())
    axes.set_title(wrapped(title, 0.8 * width, _TITLE_POINTS), pad=pad)
    axes.set_xlabel(wrapped(axes.get_xlabel(), 0.8 * width))
    axes.set_ylabel(wrapped(axes.get_ylabel(), 0.9 * height))


def add_legend(canvas: Figure, panels: Sequence[Mapping[str, Any]], looks: Mapping[str, Look]) -> None:
    """Name all series once, below the panels: in one or two rows, unless that is wider than the page.

    Published series have a row of their own, each of them below the series of ours that looks like it.
    """
    entries = legend_entries(panels, looks)
    for names, n_columns, points in _arrangements(list(entries)):
        legend = canvas.legend(
            [entries.get(name, _NOTHING) for name in names],
            [wrapped(name, canvas.get_figwidth() - 0.8) for name in names],
            loc="outside lower center",
            ncols=n_columns,
            frameon=False,
            fontsize=points,
            handlelength=3.2 if points == _LABEL_POINTS else 2.4,
            columnspacing=1.6 if points == _LABEL_POINTS else 1.0,
        )
        extent = legend.get_window_extent()
        if n_columns == 1 or extent.width <= 0.98 * canvas.bbox.width:
            # The panels keep their size.
            canvas.set_figheight(canvas.get_figheight() + extent.height / canvas.dpi)
            return
        legend.remove()


def _arrangements(names: Sequence[str]) -> Iterator[tuple[Sequence[str], int, float]]:
    """Yield names column by column, the number of columns, and a size of letters, the best way first."""
    published = {base_name(name): name for name in names if is_published(name)}
    if 0 < len(published) < len(names):
        bases = list(dict.fromkeys(map(base_name, names)))
        pairs = [cell for base in bases for cell in (base if base in names else "", published.get(base, ""))]
        yield from ((pairs, len(bases), points) for points in (_LABEL_POINTS, _SMALL_POINTS))
    half = -(-len(names) // 2)
    for points in (_LABEL_POINTS, _SMALL_POINTS):
        yield from (
            (names, n_columns, points) for n_columns in range(min(len(names), half + 2), half - 1, -1)
        )
    yield from ((names, n_columns, _LABEL_POINTS) for n_columns in range(half - 1, 0, -1))
