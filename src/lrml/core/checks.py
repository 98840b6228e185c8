"""Checks of numbers, flags and choices. Every message says where, what was found, and what to do."""

from __future__ import annotations

import math
import numbers
from contextlib import suppress
from typing import Any

import numpy as np

from lrml._shown import shortened, shown


def is_integer(value: Any) -> bool:
    """Whether a value is a whole number, of Python or NumPy; True and False are not."""
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def is_real(value: Any) -> bool:
    """Whether a value is a real number, of Python or NumPy; True and False are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_count(
    name: str, value: Any, least: int, shape: tuple[int, int], sides: tuple[str, str] = ("features", "labels")
) -> int:
    """Resolve theta or a rank to a count: an int is the count, a float in [0, 1] a share (Table 2).

    A share of ``shape[1]``, the labels, is rounded and at least ``least``. The most is the smaller side, the
    number of singular values. ``sides`` names the two numbers in messages.
    """
    most = min(shape)
    if is_integer(value) and least <= value <= most:
        return int(value)
    if is_integer(value):
        raise ValueError(
            f"{name} is {value}, but there are {shape[0]} {sides[0]} and {shape[1]} {sides[1]}. Pass a count "
            f"from {least} to {most}, or a share such as 0.5."
        )
    if not is_real(value):
        raise TypeError(f"{name} is {shown(value)}. Pass a count, or a share of the {sides[1]} such as 0.5.")
    if not (0.0 <= value <= 1.0 and (value > 0 or least == 0)):
        raise ValueError(
            f"{name} is {value}, and a float is a share of the {sides[1]}. Pass one in "
            f"{'(' if least else '['}0, 1], or an int such as {min(most, 5)} to count singular values."
        )
    return min(most, max(least, round(float(value) * shape[1])))


def check_nonnegative(name: str, value: Any, remedy: str) -> float:
    """Return a finite number that is at least 0."""
    if not is_real(value):
        raise TypeError(f"{name} must be a number, got {shown(value)}. {remedy}")
    number = math.inf
    with suppress(OverflowError):  # an int may be beyond all floats
        number = float(value)
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} must be finite and at least 0, got {shortened(str(value))}. {remedy}")
    return number


def check_flag(name: str, value: Any) -> bool:
    """Return True or False; a string such as "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {shown(value)}.")
    return bool(value)


def check_max_iter(max_iter: Any) -> int:
    """Return a positive iteration limit."""
    if not is_integer(max_iter) or max_iter < 1:
        raise ValueError(f"max_iter is {shown(max_iter)}. Pass an int of at least 1, or leave it out.")
    return int(max_iter)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return a string that is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}, got {shown(value)}.")
    return str(value)
