"""Checks of numbers (theta among them), flags, choices. Messages say where, what was found, what to do."""

from __future__ import annotations

import math
import numbers
from contextlib import suppress
from typing import Any

import numpy as np

from lrml._shown import shown


def is_integer(value: Any) -> bool:
    """Whether a value is a whole number, of Python or NumPy; True and False are not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_real(value: Any) -> bool:
    """Whether a value is a real number, of Python or NumPy; True and False are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_count(
    name: str,
    value: Any,
    least: int,
    shape: tuple[int, int] | None = None,
    sides: tuple[str, str] = ("features", "labels"),
) -> Any:
    """Resolve theta or a rank to a count: an int is the count, a float in [0, 1] a share (Table 2).

    A share of ``shape[1]``, the labels, is rounded and at least ``least``. The most is the smaller side, the
    number of singular values. ``sides`` names the two numbers in messages. Without a shape, what is right for
    some shape is returned as it is.
    """
    most, found = math.inf, ""
    if shape is not None:
        most, found = min(shape), f", but there are {shape[0]} {sides[0]} and {shape[1]} {sides[1]}"
    if is_integer(value):
        if least <= value <= most:
            return int(value)
        wanted = f"of at least {least}" if shape is None else f"from {least} to {most}"
        raise ValueError(f"{name} is {value}{found}. Pass a count {wanted}, or a share such as 0.5.")
    if not is_real(value):
        raise TypeError(f"{name} is {shown(value)}. Pass a count, or a share of the {sides[1]} such as 0.5.")
    if not (0.0 <= value <= 1.0 and (value > 0 or least == 0)):
        raise ValueError(
            f"{name} is {value}, and a float is a share of the {sides[1]}. Pass one in "
            f"{'(' if least else '['}0, 1], or an int to count singular values."
        )
    return value if shape is None else min(most, max(least, round(float(value) * shape[1])))


def check_integer(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return an int that is at least ``least``, and at most ``most`` if there is such a limit."""
    if not is_integer(value) or value < least or (most is not None and value > most):
        wanted = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} is {shown(value)}. Pass an int {wanted}.")
    return int(value)


def check_number(
    name: str, value: Any, least: float = 0.0, below: float = math.inf, *, above: bool = False
) -> float:
    """Return a finite number that is at least ``least``, or ``above`` it, and less than ``below``."""
    number = math.nan
    if is_real(value):
        with suppress(OverflowError):  # an int may be beyond all floats
            number = float(value)
    if not (math.isfinite(number) and least <= number < below and not (above and number == least)):
        low = "" if least == -math.inf else f" above {least:g}" if above else f" of at least {least:g}"
        high = "" if below == math.inf else f" and below {below:g}"
        raise ValueError(f"{name} is {shown(value)}. Pass a finite number{low}{high}.")
    return number


def check_flag(name: str, value: Any) -> bool:
    """Return True or False; a string such as "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {shown(value)}.")
    return bool(value)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return a string that is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {shown(value)}.")
    return str(value)
