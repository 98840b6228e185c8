"""Panels with lines and points. Importing this module needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from lrml.report._draw_axes import numbers
from lrml.report._draw_rules import FEW, assigned, base_name, is_published, marked

# Okabe and Ito's colours, safe for colour-blind readers; markers and dashes survive a black-and-white print
# too. There are more markers than colours, so that an eighth name does not look like the first.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
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
    colors, markers = assigned(figures, len(COLORS)), assigned(figures, len(_MARKERS))
    return {
        name: Look(COLORS[color], _MARKERS[markers[name]], order)
        for order, (name, color) in enumerate(colors.items())
    }


def draw_lines(axes: Axes, panel: Mapping[str, Any], number: int, looks: Mapping[str, Look]) -> None:
    """Draw all series of a panel; a missing value, or one that a log axis cannot show, breaks the line."""
    for position, series in enumerate(panel["series"]):
        x, y = _visible(series["x"], panel["x"]["scale"], True), _visible(series["y"], panel["y"]["scale"])
        style = _style(series, looks)
        if series.get("low") and series.get("high"):
            _draw_spread(axes, x, y, numbers(series["low"]), numbers(series["high"]), style["color"])
        (line,) = axes.plot(x, y, clip_on=False, **style)  # no data lies outside, but half of a marker may
        line.set_gid(f"series-{number}-{position}")
    axes.grid()
    axes.set_axisbelow(True)


def space_markers(axes: Axes) -> None:
    """Leave a curve that has too many markers some of them; the axis must have its scale and limits."""
    curves = [line for line in axes.lines if str(line.get_gid()).startswith("series-")]
    for position, line in enumerate(curves):
        points = np.column_stack([line.get_xdata(), line.get_ydata()]).astype(float)
        places = (axes.transScale + axes.transLimits).transform(points)
        places[np.isnan(points).any(axis=1), 0] = np.nan
        if line.get_linestyle() != "None":
            line.set_markevery(marked(places[:, 0], position))


def legend_entries(panels: Sequence[Mapping[str, Any]], looks: Mapping[str, Look]) -> dict[str, Line2D]:
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


def _visible(values: Sequence[float | None], scale: str, zero: bool = False) -> NDArray[np.float64]:
    array = numbers(values)
    if scale == "log":
        array[array < 0 if zero else array <= 0] = np.nan
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


def _draw_spread(
    axes: Axes,
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
    color: str,
) -> None:
    """Draw bars at a few measurements, a light band along a curve or a level."""
    if len(x) > FEW or (len(y) == 2 and y[0] == y[1]):
        axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0, zorder=1)
        return
    axes.vlines(x, low, high, color=color, linewidth=1.0, zorder=3)
    for ends in (low, high):
        axes.plot(x, ends, linestyle="none", marker="_", markersize=5, color=color, zorder=3)
