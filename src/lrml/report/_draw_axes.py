"""Limits, ticks and labels of the panels with lines. Importing this module needs matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator, ScalarFormatter
from numpy.typing import NDArray

_MARGIN = 0.05  # of an axis, free on both sides of the data
_MOST_TICKS = 7
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def numbers(values: Sequence[float | None]) -> NDArray[np.float64]:
    """Return values as an array; a missing one is not a number."""
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


def scale_axes(all_axes: Sequence[Axes], panels: Sequence[Mapping[str, Any]], n_columns: int) -> None:
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
    values = numbers([v for series in panel["series"] for key in keys for v in series.get(key) or ()])
    values = values[np.isfinite(values)]
    if panel[direction]["scale"] == "linear":
        return values
    return values[values >= 0] if direction == "x" else values[values > 0]


def _alike(data: Sequence[NDArray[np.float64]], scale: str) -> bool:
    if scale == "log" or any(values.size == 0 for values in data):
        return True
    together = np.concatenate(data)
    return all(np.ptp(values) >= 0.5 * np.ptp(together) for values in data)


def is_above_hole(number: int, n_columns: int, n_panels: int) -> bool:
    """Tell whether a panel has none below it although it is not in the last row.

    It has its label and numbers there, written after the layout: they would part its row from the next one.
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
        ticks = _given_ticks(values) if direction == "x" else None
        axis.set_major_locator(FixedLocator(ticks) if ticks else MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        axis.set_major_formatter(ScalarFormatter(useOffset=False))
    else:
        positive = values[values > 0] if np.any(values > 0) else np.ones(1)
        low, high = _log_limits(positive)
        set_scale = getattr(axis.axes, f"set_{direction}scale")
        ticks = log_ticks(low, high)
        if np.any(values == 0):  # a short linear piece on the left makes room for iteration 0
            low, ticks = -0.15 * positive.min(), [0.0, *(tick for tick in ticks if tick >= positive.min())]
            set_scale("symlog", linthresh=positive.min(), linscale=0.4)
        else:
            set_scale("log")
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


def _log_limits(positive: NDArray[np.float64]) -> tuple[float, float]:
    low, high = _linear_limits(np.log10(positive))
    return 10**low, 10**high


def _given_ticks(values: NDArray[np.float64]) -> list[float]:
    """Return the places of a few measurements, such as 20, 40, 60 and 80 %, as ticks, or nothing."""
    places = np.unique(values)
    if not 2 <= len(places) <= _MOST_TICKS or np.diff(places).min() < 0.12 * np.ptp(places):
        return []
    if any(len(f"{place:g}") > 4 for place in places):
        return []
    return [float(place) for place in places]


def log_ticks(low: float, high: float) -> list[float]:
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
    short = all(tick == 0 or 0.01 <= tick <= 10_000 for tick in ticks)

    def write(value: float, _: int | None = None) -> str:
        if short or value == 0:
            return f"{value:.10g}"
        exponent = math.floor(math.log10(value) + 1e-9)
        factor = f"{value / 10.0**exponent:.3g}"
        power = f"10{str(exponent).translate(_SUPERSCRIPTS)}"
        return power if factor == "1" else f"{factor}·{power}"

    return write
