"""Figures: a grid of panels on a canvas, or every panel by itself; lines and dots, axes, words and legend.

Importing this module needs matplotlib. Contours and surfaces are in `_maps`.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from lrml.report._axes import is_above_hole, scale_axes, visible
from lrml.report._maps import annotate, draw_contour, draw_surface, mark_lines
from lrml.report._series import (
    COLOURS,
    FEW,
    assigned,
    base_name,
    chosen_markers,
    is_published,
    numbers,
    series_of,
)

_DPI = 250

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
    "text.parse_math": False,  # a dollar sign is literal
    "svg.fonttype": "none",  # text that can be searched and edited
    "svg.hashsalt": "lrml",  # ids that do not change from run to run
    "pdf.fonttype": 42,  # TrueType, which publishers require
}
_METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}

# A page of a paper is 16 cm wide, and so is a figure: its text has the size that it will have in print.
_PAGE_WIDTH = 6.3
_LONE_PANEL_WIDTH = 4.4
# On a page of HTML every panel stands by itself, so that they may be beside or below each other; at this
# width their text has about the size of the page's own, on a phone as well.
_WEB_WIDTH, _WEB_DPI = 3.8, 160
_LONGEST_NAME = 30  # characters of a name beside a line of dots
_MANY = 1_000  # points: more of them are an image, because each would be an element of the page
_SAMPLE, _SAMPLE_OF_POINTS = (0.42, 0.16), (0.16, 0.16)  # inches, beside a name in the legend
_HEIGHT_TO_WIDTH = {"lines": 0.74, "contour": 0.86, "surface": 0.88}
_LEAST_HEIGHT = 1.9
_FEW_ROWS = 3  # more than these share the height of a page, less that of a legend, as far as can be read
_PAGE_HEIGHT = 8.4
_FLATTEST = 1.35


def draw(
    figure: Mapping[str, Any], looks: Mapping[str, Look], suffixes: Sequence[str] = ("png", "svg", "pdf")
) -> dict[str, bytes]:
    """Draw one figure of a summary, with the looks that series have in all; return images by suffix."""
    with _own_style():
        canvas = compose(figure, looks)
        return {suffix: _saved(canvas, suffix) for suffix in suffixes}


def draw_apart(figure: Mapping[str, Any], looks: Mapping[str, Look]) -> tuple[list[bytes], dict[str, bytes]]:
    """Draw every panel of a figure for a page, and a sample of every series by name, all as SVG.

    Nothing has a ground. Text, axes, grid and hollow parts are black, grey and white, which the page changes.
    """
    panels, samples = [], {}
    with _own_style():
        for panel in figure["panels"]:
            canvas = compose({**figure, "panels": [panel]}, looks, beside=figure["panels"])
            [axes] = canvas.axes
            for ground in (canvas.patch, axes.patch):
                ground.set_visible(False)
            if panel["kind"] == "surface":
                axes.collections[0].set_rasterized(True)
            for line in axes.lines:
                if np.size(line.get_xdata()) > _MANY and line.get_linestyle() == "None":
                    line.set(rasterized=True, markeredgecolor="none")
            panels.append(_saved(canvas, "svg", _WEB_DPI))
        for name, style in _legend_styles(figure["panels"], looks).items():
            canvas = Figure(
                figsize=_SAMPLE_OF_POINTS if style["linestyle"] == "none" else _SAMPLE, facecolor="none"
            )
            canvas.add_artist(Line2D([0.02, 0.5, 0.98], [0.5] * 3, markevery=[1], **style))
            samples[name] = _saved(canvas, "svg", _WEB_DPI)
    return panels, samples


@contextmanager
def _own_style() -> Iterator[None]:
    """Use our settings alone: a user's own would change the bytes."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_STYLE)
        yield


def _saved(canvas: Figure, suffix: str, dpi: float = _DPI) -> bytes:
    stream = io.BytesIO()
    canvas.savefig(stream, format=suffix, dpi=dpi, metadata=_METADATA[suffix])
    return stream.getvalue()


def compose(
    figure: Mapping[str, Any], looks: Mapping[str, Look], beside: Sequence[Mapping[str, Any]] | None = None
) -> Figure:
    """Return the finished figure, its layout settled.

    With ``beside``, its only panel stands by itself on a page, next to these: they share their axes' limits.
    """
    panels = figure["panels"]
    n_columns = max(1, min(figure["columns"], len(panels)))
    width = _PAGE_WIDTH if n_columns > 1 else _LONE_PANEL_WIDTH if beside is None else _WEB_WIDTH
    rows = [panels[start : start + n_columns] for start in range(0, len(panels), n_columns)]
    heights = _row_heights(rows, width / n_columns)
    layout = ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.05)
    canvas = Figure(figsize=(width, sum(heights)), dpi=_DPI, layout=layout)
    FigureCanvasAgg(canvas)
    grid = canvas.add_gridspec(len(heights), n_columns, height_ratios=heights)
    all_axes: list[Axes] = []
    for number, panel in enumerate(panels):
        projection = "3d" if panel["kind"] == "surface" else None
        axes = canvas.add_subplot(grid[divmod(number, n_columns)], projection=projection)
        axes.set_gid(f"panel-{number}")
        _draw_panel(axes, panel, number, looks)
        all_axes.append(axes)
    scale_axes(all_axes, panels, n_columns, panels if beside is None else beside)
    for number, (axes, panel) in enumerate(zip(all_axes, panels, strict=True)):
        _draw_bands(axes, panel)
        _write_labels(axes, panel, width / n_columns, heights[number // n_columns])
    if beside is None:
        _add_legend(canvas, panels, looks)
    canvas.draw_without_rendering()
    canvas.set_layout_engine("none")
    for number, (axes, panel) in enumerate(zip(all_axes, panels, strict=True)):
        if panel["kind"] == "lines":
            _space_markers(axes, panel)
        elif panel["kind"] != "dots":
            annotate(axes, panel)
        if panel["kind"] != "surface" and is_above_hole(number, n_columns, len(panels)):
            axes.tick_params(axis="x", labelbottom=True)
            axes.set_xlabel(_wrapped(panel["x"]["label"], 0.8 * width / n_columns, 8.5))
    return canvas


def _draw_panel(axes: Axes, panel: Mapping[str, Any], number: int, looks: Mapping[str, Look]) -> None:
    if panel["kind"] == "contour":
        draw_contour(axes, panel)
    elif panel["kind"] == "surface":
        draw_surface(axes, panel)
    else:
        draw_series = _draw_lines if panel["kind"] == "lines" else _draw_dots
        draw_series(axes, panel, number, looks)
        axes.grid()
        axes.set_axisbelow(True)


def _row_heights(rows: Sequence[Sequence[Mapping[str, Any]]], width: float) -> list[float]:
    heights = [max(_panel_height(panel, width) for panel in row) for row in rows] or [1.0]
    if len(rows) <= _FEW_ROWS:
        return heights
    return [max(min(height, _PAGE_HEIGHT / len(rows)), _FLATTEST) for height in heights]


def _panel_height(panel: Mapping[str, Any], width: float) -> float:
    if panel["kind"] == "dots":
        return 0.75 + len(panel["y"]["names"]) * max(0.2, 0.11 * len(panel["series"]))
    marks = len(mark_lines(panel)) * 1.25 * _MARK_POINTS / 72
    return max(_HEIGHT_TO_WIDTH[panel["kind"]] * width, _LEAST_HEIGHT) + marks


# Panels with lines and points

# Markers and dashes survive a black-and-white print. There are more markers than colours, so that an eighth
# name does not look like the first.
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "p", ">", "h")
_DASHES = ((9, 2, 2, 2), (5, 2), (7, 2, 1.5, 2), (2.5, 1.2))
_DOTS = ((1, 1.5), (1, 3), (1, 2), (1, 4))


class Look(NamedTuple):
    """What all series of a base name have in common; ``order`` is that of first appearance."""

    color: str
    marker: str
    order: int


def series_looks(figures: Sequence[Mapping[str, Any]]) -> dict[str, Look]:
    """Return the look of every base name in all figures."""
    colors, markers = assigned(figures, len(COLOURS)), assigned(figures, len(_MARKERS))
    return {
        name: Look(COLOURS[color], _MARKERS[markers[name]], order)
        for order, (name, color) in enumerate(colors.items())
    }


def _draw_lines(axes: Axes, panel: Mapping[str, Any], number: int, looks: Mapping[str, Look]) -> None:
    """Draw all series of a panel; a missing value, or one that a log axis cannot show, breaks the line."""
    for position, series in enumerate(panel["series"]):
        x, y = (visible(series[side], panel[side]["scale"]) for side in "xy")
        style = _style(series, looks)
        if series["low"] and series["high"]:
            _draw_spread(axes, series, x, style["color"])
        (line,) = axes.plot(x, y, clip_on=False, **style)  # no data lies outside, but parts of markers may
        line.set_gid(f"series-{number}-{position}")


def _draw_dots(axes: Axes, panel: Mapping[str, Any], number: int, looks: Mapping[str, Look]) -> None:
    """Draw one dot per name and series, with its interval; series stand below each other, within a line."""
    names, all_series = panel["y"]["names"], panel["series"]
    axes.axvline(0.0, color="0.5", linewidth=0.6, zorder=1)
    for position, series in enumerate(all_series):
        shift = (position - (len(all_series) - 1) / 2) * 0.7 / len(all_series)
        places, style = np.arange(len(names)) + shift, _style(series, looks) | {"markersize": 5}
        if series["low"] and series["high"]:
            ends = numbers(series["low"]), numbers(series["high"])
            axes.hlines(places, *ends, color=style["color"], linewidth=1.2, zorder=3)
        (line,) = axes.plot(numbers(series["x"]), places, clip_on=False, **style)
        line.set_gid(f"series-{number}-{position}")
    shown = [
        name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 11]}…{name[-10:]}" for name in names
    ]
    axes.set_yticks(range(len(names)), shown)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _draw_bands(axes: Axes, panel: Mapping[str, Any]) -> None:
    """Shade parts of the x axis, and name them at the top; the axis must have its limits."""
    for band in panel.get("bands", ()):
        low, high = np.clip((band["low"], band["high"]), *axes.get_xlim())
        axes.axvspan(low, high, color=COLOURS[0], alpha=0.1, linewidth=0, zorder=0)
        middle = math.sqrt(low * high) if panel["x"]["scale"] == "log" else (low + high) / 2
        axes.annotate(
            band["name"],
            (middle, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, -3),
            textcoords="offset points",
            ha="center",
            va="top",
        )


def _space_markers(axes: Axes, panel: Mapping[str, Any]) -> None:
    """Thin the markers of a crowded curve; the axis must have its scale and limits."""
    curves = [line for line in axes.lines if str(line.get_gid()).startswith("series-")]
    for position, (line, series) in enumerate(zip(curves, panel["series"], strict=True)):
        points = np.column_stack([line.get_xdata(), line.get_ydata()]).astype(float)
        places = (axes.transScale + axes.transLimits).transform(points)
        places[np.isnan(points).any(axis=1), 0] = np.nan
        if line.get_linestyle() != "None":
            line.set_markevery(chosen_markers(series, places[:, 0], position))


def _legend_styles(
    panels: Sequence[Mapping[str, Any]], looks: Mapping[str, Look]
) -> dict[str, dict[str, Any]]:
    """Return the style of every series that occurs, by name and in the common order, published ones last.

    A name that is a line in one panel and a point in another is shown as the line, with its marker.
    """

    def place(series: Mapping[str, Any]) -> tuple[bool, int, bool]:
        name = series["name"]
        return is_published(name), looks[base_name(name)].order, _is_points(series)

    found: dict[str, dict[str, Any]] = {}
    for series in sorted(series_of({"panels": panels}), key=place):
        found.setdefault(series["name"], _style(series, looks))
    return found


def _is_points(series: Mapping[str, Any]) -> bool:
    return series["style"] == "points" or len(series["x"]) == 1


def _is_level(series: Mapping[str, Any]) -> bool:
    """Tell whether a series is one number drawn from end to end, and not two measurements."""
    return len(series["y"]) == 2 and series["y"][0] == series["y"][1]


def _style(series: Mapping[str, Any], looks: Mapping[str, Look]) -> dict[str, Any]:
    color, marker, order = looks[base_name(series["name"])]
    published = is_published(series["name"])
    style = {"color": color, "marker": marker, "markersize": 4.2, "linewidth": 1.4, "zorder": 3}
    if published:
        style |= {"markerfacecolor": "white", "markeredgewidth": 1.0}
    if _is_points(series):
        edge = {} if published else {"markeredgecolor": "white", "markeredgewidth": 0.5}
        return style | edge | {"linestyle": "none", "markersize": 6.5, "zorder": 4}
    if series["style"] == "dotted" or published:
        style |= {"linestyle": (0, _DOTS[order % 4]), "linewidth": 1.6}
    elif series["style"] == "dashed":
        style |= {"linestyle": (0, _DASHES[order % 4])}
    else:
        return style | {"linestyle": "-"}
    return style | {"marker": "", "zorder": 2} if _is_level(series) else style


def _draw_spread(axes: Axes, series: Mapping[str, Any], x: NDArray[np.float64], color: str) -> None:
    """Draw bars at a few measurements, a light band along a curve or a level."""
    low, high = numbers(series["low"]), numbers(series["high"])
    if len(x) > FEW or _is_level(series):
        axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0, zorder=1)
        return
    axes.vlines(x, low, high, color=color, linewidth=1.0, zorder=3)
    for ends in (low, high):
        axes.plot(x, ends, linestyle="none", marker="_", markersize=5, color=color, zorder=3)


# Titles, names of marks, labels, legend

_MARK_POINTS = 8
_LABEL_POINTS = 8.5
_TITLE_POINTS = 9
_SMALL_POINTS = 7
_NOTHING = Line2D([], [], linestyle="none")  # fills a place in a legend


def _wrapped(text: str, inches: float, points: float = _LABEL_POINTS) -> str:
    """Break a text into lines of about the same length."""
    room = max(8, int(inches / (0.54 * points / 72)))
    n_lines = -(-len(text) // room)
    return textwrap.fill(text, min(room, len(text) // n_lines + 6)) if n_lines > 1 else text


def _write_labels(axes: Axes, panel: Mapping[str, Any], width: float, height: float) -> None:
    """Write title and marks above a panel, and break labels that are longer than it."""
    title = panel["title"]
    if panel["kind"] == "contour" and panel["z"]["label"] not in title:
        title = f"{title} ({panel['z']['label']})"
    pad = -8.0 if panel["kind"] == "surface" else 6.0  # a surface leaves room beside its highest corner
    marks = "\n".join(_wrapped(line, 0.8 * width, _MARK_POINTS) for line in mark_lines(panel))
    if panel["kind"] == "surface":
        axes.texts[0].set_text(_wrapped(panel["z"]["label"], 0.7 * height))
    if marks:
        axes.annotate(
            marks,
            (0.5, 1.0),
            xycoords="axes fraction",
            xytext=(0, pad - 2),
            textcoords="offset points",
            ha="center",
            va="bottom",
            fontsize=_MARK_POINTS,
        )
        pad += 1.25 * _MARK_POINTS * len(marks.splitlines())
    axes.set_title(_wrapped(title, 0.8 * width, _TITLE_POINTS), pad=pad)
    axes.set_xlabel(_wrapped(axes.get_xlabel(), 0.8 * width))
    axes.set_ylabel(_wrapped(axes.get_ylabel(), 0.9 * height))


def _add_legend(canvas: Figure, panels: Sequence[Mapping[str, Any]], looks: Mapping[str, Look]) -> None:
    """Name all series once, below the panels: in one or two rows, unless that is wider than the page.

    Published series have a row of their own, each of them below the series of ours that looks like it.
    """
    entries = {name: Line2D([], [], **style) for name, style in _legend_styles(panels, looks).items()}
    for names, n_columns, points in _arrangements(list(entries)):
        legend = canvas.legend(
            [entries.get(name, _NOTHING) for name in names],
            [_wrapped(name, canvas.get_figwidth() - 0.8) for name in names],
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
