"""Contours and surfaces with marked points. Importing this module needs matplotlib."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, ListedColormap
from matplotlib.contour import ContourSet
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from lrml.report._series import numbers

_MARK: dict[str, Any] = {
    "color": "#D55E00",
    "markeredgecolor": "white",
    "markeredgewidth": 0.8,
    "linestyle": "none",
    "zorder": 5,
}
# Markers with their sizes, and the characters that stand for them in a line of text.
_MARKERS = (("*", 11, "★"), ("o", 7.5, "●"), ("s", 7, "■"), ("^", 8, "▲"), ("D", 6.5, "◆"))
_LEVELS: dict[str, Any] = {"fontsize": 6.5, "fmt": "{:.6g}".format}


def draw_contour(axes: Axes, panel: Mapping[str, Any]) -> None:
    """Draw filled contours with thin lines and their levels."""
    x, y, z = _grid(panel)
    levels = MaxNLocator(9, steps=[1, 2, 2.5, 5, 10]).tick_values(z.min(), z.max())
    axes.contourf(x, y, z, levels=levels, cmap=_light_map())
    crossed = levels[(levels > z.min()) & (levels < z.max())]
    if crossed.size:
        axes.contour(x, y, z, levels=crossed, colors="0.25", linewidths=0.5)
    for order, mark in enumerate(panel["marks"]):
        axes.plot(mark["x"], mark["y"], clip_on=False, **_marker(order))
    axes.set(xlim=(x.min(), x.max()), ylim=(y.min(), y.max()))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    axes.spines[["top", "right"]].set_visible(True)


def draw_surface(axes: Any, panel: Mapping[str, Any]) -> None:
    """Draw a surface with its marks in front of it."""
    x, y, z = _grid(panel)
    axes.computed_zorder = False  # a mark lies on the surface, which would hide half of it
    mesh_x, mesh_y = np.meshgrid(x, y)
    axes.plot_surface(
        mesh_x, mesh_y, z, cmap=_light_map(), rcount=36, ccount=36, edgecolor="0.35", linewidth=0.12, zorder=1
    )
    for order, mark in enumerate(panel["marks"]):
        axes.plot([mark["x"]], [mark["y"]], [mark["z"]], **_marker(order))
    axes.view_init(elev=26, azim=-128)
    axes.set_box_aspect((1, 1, 0.8), zoom=1.0)
    axes.set_xlabel(panel["x"]["label"], labelpad=-3)
    axes.set_ylabel(panel["y"]["label"], labelpad=-3)
    # The layout leaves no room for a real label of the vertical axis. This one is moved later.
    axes.annotate(
        panel["z"]["label"],
        (0.0, 0.5),
        xycoords="axes fraction",
        xytext=(-16, 0),
        textcoords="offset points",
        rotation=90,
        ha="right",
        va="center",
        fontsize=8.5,
    )
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
        axis.pane.set_facecolor("white")
        axis.pane.set_edgecolor("0.8")
        axis.set_tick_params(pad=-2, labelsize=7.5)


def mark_lines(panel: Mapping[str, Any]) -> list[str]:
    """Return a line of text per mark, with its sign, name and value.

    They are placed under the panel's title: inside the frame they would hide the surface.
    """
    return [
        f"{_MARKERS[order % len(_MARKERS)][2]} {mark['name']}: {mark['z']:.5g}"
        for order, mark in enumerate(panel.get("marks", ()))
    ]


def annotate(axes: Any, panel: Mapping[str, Any]) -> None:
    """Write the levels on contours, and move the name of a surface's height next to its numbers.

    The layout must be settled: places are compared in pixels.
    """
    if panel["kind"] == "contour":
        _write_levels(axes)
        return
    numbers_left = axes.zaxis.get_tightbbox(axes.figure.canvas.get_renderer()).x0 - axes.bbox.x0
    axes.texts[0].set_position((numbers_left / (axes.figure.dpi / 72) - 3, 0))


def _marker(order: int) -> dict[str, Any]:
    marker, size, _ = _MARKERS[order % len(_MARKERS)]
    return _MARK | {"marker": marker, "markersize": size}


def _write_levels(axes: Axes) -> None:
    """Write levels where matplotlib would, except where the frame would cut them off."""
    for lines in axes.collections:
        if not isinstance(lines, ContourSet) or lines.filled:
            continue
        places = []
        for text in axes.clabel(lines, inline=False, **_LEVELS):
            extent = text.get_window_extent()
            if axes.bbox.contains(*extent.min) and axes.bbox.contains(*extent.max):
                places.append(text.get_position())
            text.remove()
        if places:
            axes.clabel(lines, inline=True, inline_spacing=3, manual=places, **_LEVELS)


def _grid(panel: Mapping[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64], Any]:
    """Return x, y and z; missing values of z are masked."""
    z = np.ma.masked_invalid(np.array([numbers(row) for row in panel["z"]["values"]]))
    return numbers(panel["x"]["values"]), numbers(panel["y"]["values"]), z


def _light_map() -> Colormap:
    """Return viridis without its dark end, on which lines and numbers would be illegible."""
    return ListedColormap(matplotlib.colormaps["viridis"](np.linspace(0.38, 1.0, 256)))
