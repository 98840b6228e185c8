"""Limits, ticks and labels of axes. Importing this module needs matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator, ScalarFormatter
from numpy.typing import NDArray

from lrml.report._series import numbers

_MARGIN = 0.05  # of an axis, free on both sides of the data
_MOST_TICKS = 7
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def scale_axes(
    all_axes: Sequence[Axes],
    panels: Sequence[Mapping[str, Any]],
    n_columns: int,
    beside: Sequence[Mapping[str, Any]],
) -> None:
    """Set scales, limits, ticks and labels.

    Panels whose axes mean the same have the same limits as those beside them, if that leaves each of them
    readable: always on log scales, on linear ones if every panel fills half of the common range. A label, and
    the numbers along a common axis, are then written only at the left and at the bottom.
    """
    directions: tuple[Literal["x", "y"], ...] = ("x", "y")
    for direction in directions:
        lines = [panel for panel in beside if panel["kind"] == "lines"]
        data = [_data(panel, direction) for panel in lines]
        meanings = {(panel[direction]["label"], panel[direction]["scale"]) for panel in lines}
        shared = len(lines) > 1 and len(meanings) == 1 and _alike(data, next(iter(meanings))[1])
        for number, (axes, panel) in enumerate(zip(all_axes, panels, strict=True)):
            axis = getattr(axes, f"{direction}axis")
            if panel["kind"] == "lines":
                values = np.concatenate(data) if shared else _data(panel, direction)
                _scale(axis, values, panel[direction]["scale"], direction)
            elif panel["kind"] == "dots" and direction == "x":
                _scale(axis, _data(panel, "x"), "linear", "x")
            if panel["kind"] != "surface":
                _drop_repeated(axes, panels, number, n_columns, direction, shared)


def _data(panel: Mapping[str, Any], direction: str) -> NDArray[np.float64]:
    """Return all numbers of a panel in a direction that can be shown."""
    dots = panel["kind"] == "dots"
    keys = ("x",) if direction == "x" and not dots else (direction, "low", "high")
    values = [v for series in panel["series"] for key in keys for v in series[key] or ()]
    if dots or panel[direction].get("from_zero"):
        values.append(0.0)
    shown = visible(values, panel[direction]["scale"])
    return shown[np.isfinite(shown)]


def _alike(data: Sequence[NDArray[np.float64]], scale: str) -> bool:
    if scale == "log" or any(values.size == 0 for values in data):
        return True
    together = np.concatenate(data)
    return all(np.ptp(values) >= 0.5 * np.ptp(together) for values in data)


def is_above_hole(number: int, n_columns: int, n_panels: int) -> bool:
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
    if direction == "x" and is_above_hole(number, n_columns, len(panels)):
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
        axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
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


def visible(values: Sequence[float | None], scale: str) -> NDArray[np.float64]:
    array = numbers(values)
    if scale == "log":
        array[array <= 0] = np.nan
    return array
