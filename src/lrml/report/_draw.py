"""Static figures: a grid of panels on a canvas, lines and points, axes, words and legend, as bytes.

Importing this module needs matplotlib. Contours and surfaces are in `_maps`.
"""

from __future__ import annotations

import io
import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator, ScalarFormatter
from numpy.typing import NDArray

from lrml.report._maps import annotate, draw_contour, draw_surface, mark_lines
from lrml.report._series import COLOURS, FEW, assigned, base_name, chosen_markers, is_published, numbers

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
_HEIGHT_TO_WIDTH = {"lines": 0.74, "contour": 0.86, "surface": 0.88}
_LEAST_HEIGHT = 1.9
_FEW_ROWS = 3  # more than these share the height of a page, less that of a legend, as far as can be read
_PAGE_HEIGHT = 8.4
_FLATTEST = 1.35


def draw(
    figure: Mapping[str, Any], looks: Mapping[str, Look], suffixes: Sequence[str] = ("png", "svg", "pdf")
) -> dict[str, bytes]:
    """Draw one figure of a summary, with the looks that series have in all; return images by suffix."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # a user's own settings would change the bytes
        matplotlib.rcParams.update(_STYLE)
        canvas = compose(figure, looks)
        images = {}
        for suffix in suffixes:
            stream = io.BytesIO()
            canvas.savefig(stream, format=suffix, dpi=_DPI, metadata=_METADATA[suffix])
            images[suffix] = stream.getvalue()
        return images


def compose(figure: Mapping[str, Any], looks: Mapping[str, Look]) -> Figure:
    """Return the finished figure, its layout settled."""
    panels = figure["panels"]
    n_columns = max(1, min(figure["columns"], len(panels)))
    width = _PAGE_WIDTH if n_columns > 1 else _LONE_PANEL_WIDTH
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
        if panel["kind"] == "lines":
            _draw_lines(axes, panel, number, looks)
        elif panel["kind"] == "contour":
            draw_contour(axes, panel)
        else:
            draw_surface(axes, panel)
        all_axes.append(axes)
    _scale_axes(all_axes, panels, n_columns)
    for number, (axes, panel) in enumerate(zip(all_axes, panels, strict=True)):
        _write_labels(axes, panel, width / n_columns, heights[number // n_columns])
    _add_legend(canvas, panels, looks)
    canvas.draw_without_rendering()
    canvas.set_layout_engine("none")
    for number, (axes, panel) in enumerate(zip(all_axes, panels, strict=True)):
        if panel["kind"] == "lines":
            _space_markers(axes, panel)
        else:
            annotate(axes, panel)
        if panel["kind"] != "surface" and _is_above_hole(number, n_columns, len(panels)):
            axes.tick_params(axis="x", labelbottom=True)
            axes.set_xlabel(_wrapped(panel["x"]["label"], 0.8 * width / n_columns, 8.5))
    return canvas


def _row_heights(rows: Sequence[Sequence[Mapping[str, Any]]], width: float) -> list[float]:
    heights = [max(_panel_height(panel, width) for panel in row) for row in rows] or [1.0]
    if len(rows) <= _FEW_ROWS:
        return heights
    return [max(min(height, _PAGE_HEIGHT / len(rows)), _FLATTEST) for height in heights]


def _panel_height(panel: Mapping[str, Any], width: float) -> float:
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
        x, y = (_visible(series[side], panel[side]["scale"]) for side in "xy")
        style = _style(series, looks)
        if series["low"] and series["high"]:
            _draw_spread(axes, series, x, style["color"])
        (line,) = axes.plot(x, y, clip_on=False, **style)  # no data lies outside, but parts of markers may
        line.set_gid(f"series-{number}-{position}")
    axes.grid()
    axes.set_axisbelow(True)


def _space_markers(axes: Axes, panel: Mapping[str, Any]) -> None:
    """Thin the markers of a crowded curve; the axis must have its scale and limits."""
    curves = [line for line in axes.lines if str(line.get_gid()).startswith("series-")]
    for position, (line, series) in enumerate(zip(curves, panel["series"], strict=True)):
        points = np.column_stack([line.get_xdata(), line.get_ydata()]).astype(float)
        places = (axes.transScale + axes.transLimits).transform(points)
        places[np.isnan(points).any(axis=1), 0] = np.nan
        if line.get_linestyle() != "None":
            line.set_markevery(chosen_markers(series, places[:, 0], position))


def _legend_entries(panels: Sequence[Mapping[str, Any]], looks: Mapping[str, Look]) -> dict[str, Line2D]:
    """Return a sample of every series that occurs, by name and in the common order, published ones last.

    A name that is a line in one panel and a point in another is shown as the line, with its marker.
    """

    def place(series: Mapping[str, Any]) -> tuple[bool, int, bool]:
        name = series["name"]
        return is_published(name), looks[base_name(name)].order, _is_points(series)

    found: dict[str, Line2D] = {}
    all_series = [series for panel in panels if panel["kind"] == "lines" for series in panel["series"]]
    for series in sorted(all_series, key=place):
        if series["name"] not in found:
            found[series["name"]] = Line2D([], [], **_style(series, looks))
    return found


def _visible(values: Sequence[float | None], scale: str) -> NDArray[np.float64]:
    array = numbers(values)
    if scale == "log":
        array[array <= 0] = np.nan
    return array


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


# Limits, ticks and labels of axes

_MARGIN = 0.05  # of an axis, free on both sides of the data
_MOST_TICKS = 7
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _scale_axes(all_axes: Sequence[Axes], panels: Sequence[Mapping[str, Any]], n_columns: int) -> None:
    """Set scales, limits, ticks and labels.

    Panels whose axes mean the same have the same limits, if that leaves each of them readable: always on log
    scales, on linear ones if every panel fills half of the common range. A label, and the numbers along a
    common axis, are then written only at the left and at the bottom.
    """
    lines = [(number, axes) for number, axes in enumerate(all_axes) if panels[number]["kind"] == "lines"]
    directions: tuple[Literal["x", "y"], ...] = ("x", "y")
    for direction in directions:
        data = [_data(panels[number], direction) for number, _ in lines]
        meanings = {(panels[n][direction]["label"], panels[n][direction]["scale"]) for n, _ in lines}
        shared = len(lines) > 1 and len(meanings) == 1 and _alike(data, next(iter(meanings))[1])
        if shared:
            data = [np.concatenate(data)] * len(data)
        for (_, axes), values in zip(lines, data, strict=True):
            panel = panels[all_axes.index(axes)]
            _scale(getattr(axes, f"{direction}axis"), values, panel[direction]["scale"], direction)
        for number, axes in enumerate(all_axes):
            if panels[number]["kind"] != "surface":
                _drop_repeated(axes, panels, number, n_columns, direction, shared)


def _data(panel: Mapping[str, Any], direction: str) -> NDArray[np.float64]:
    """Return all numbers of a panel in a direction that can be shown."""
    keys = ("x",) if direction == "x" else ("y", "low", "high")
    values = [v for series in panel["series"] for key in keys for v in series[key] or ()]
    if panel[direction].get("from_zero"):
        values.append(0.0)
    shown = _visible(values, panel[direction]["scale"])
    return shown[np.isfinite(shown)]


def _alike(data: Sequence[NDArray[np.float64]], scale: str) -> bool:
    if scale == "log" or any(values.size == 0 for values in data):
        return True
    together = np.concatenate(data)
    return all(np.ptp(values) >= 0.5 * np.ptp(together) for values in data)


def _is_above_hole(number: int, n_columns: int, n_panels: int) -> bool:
    """Tell whether a panel has none below it although it is not in the last row.

    Its label and numbers are written there after the layout: before, they would move the rows apart.
    """
    return number + n_columns >= n_panels and number // n_columns < (n_panels - 1) // n_columns


def _drop_repeated(
    axes: Axes,
    panels: Sequence[Mapping[str, Any]],
    number: int,
    n_columns: int,
    direction: Literal["x", "y"],
    shared: bool,
) -> None:
    """Leave out a label that the neighbour on the left, or the one below, shows as well."""
    neighbour = number - 1 if direction == "y" else number + n_columns
    exists = number % n_columns > 0 if direction == "y" else neighbour < len(panels)
    panel = panels[number]
    if direction == "x" and _is_above_hole(number, n_columns, len(panels)):
        axes.set_xlabel("")
        axes.tick_params(axis="x", labelbottom=not (shared and panel["kind"] == "lines"))
        return
    repeated = exists and panels[neighbour]["kind"] == panel["kind"]
    repeated = repeated and panels[neighbour][direction]["label"] == panel[direction]["label"]
    axes.set(**{f"{direction}label": "" if repeated else panel[direction]["label"]})
    if repeated and shared and panel["kind"] == "lines":
        axes.tick_params(axis=direction, **{"labelbottom" if direction == "x" else "labelleft": False})


def _scale(axis: Axis, values: NDArray[np.float64], scale: str, direction: str) -> None:
    if scale == "linear":
        low, high = _linear_limits(values)
        ticks = _given_ticks(values) if direction == "x" else None
        axis.set_major_locator(FixedLocator(ticks) if ticks else MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(ScalarFormatter(useOffset=False))
    else:
        low, high = (10**end for end in _linear_limits(np.log10(values if values.size else np.ones(1))))
        ticks = _log_ticks(low, high)
        axis.axes.set(**{f"{direction}scale": "log"})
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter(FuncFormatter(_formatter(ticks)))
        axis.set_minor_locator(NullLocator())
    axis.axes.set(**{f"{direction}lim": (low, high)})


def _linear_limits(values: NDArray[np.float64]) -> tuple[float, float]:
    if values.size == 0:
        return 0.0, 1.0
    low, high = float(values.min()), float(values.max())
    room = _MARGIN * (high - low) or 0.05 * abs(high) or 0.5
    return low - room, high + room


def _given_ticks(values: NDArray[np.float64]) -> list[float]:
    """Return the places of a few measurements, such as 20, 40, 60 and 80 %, as ticks, or nothing."""
    places = np.unique(values)
    if not 2 <= len(places) <= _MOST_TICKS or np.diff(places).min() < 0.12 * np.ptp(places):
        return []
    return [] if any(len(f"{place:g}") > 4 for place in places) else places.tolist()


def _log_ticks(low: float, high: float) -> list[float]:
    """Return about six places for numbers on a log axis: powers of ten, or 1, 2 and 5 times them."""
    first, last = math.ceil(math.log10(low)), math.floor(math.log10(high))
    if last - first >= 2:
        step = -(-(last - first) // (_MOST_TICKS - 1))
        return [10.0**k for k in range(first, last + 1) if k % step == 0]
    fine = [m * 10.0**k for k in range(first - 1, last + 1) for m in (1, 2, 5)]
    fine = [tick for tick in fine if low <= tick <= high]
    if len(fine) >= 2:
        return fine
    return [float(tick) for tick in MaxNLocator(4).tick_values(low, high) if low <= tick <= high]


def _formatter(ticks: Sequence[float]) -> Any:
    """Write all ticks of an axis in one way: as decimal numbers if they are short, else as powers of ten."""
    short = all(0.01 <= tick <= 10_000 for tick in ticks)

    def write(value: float, _: int | None = None) -> str:
        if short:
            return f"{value:.10g}"
        exponent = math.floor(math.log10(value) + 1e-9)
        factor = f"{value / 10.0**exponent:.3g}"
        power = f"10{str(exponent).translate(_SUPERSCRIPTS)}"
        return power if factor == "1" else f"{factor}·{power}"

    return write


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
    entries = _legend_entries(panels, looks)
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
