"""Checks of the parameters of synthetic data, and the shares that follow from them."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrml._checks import check_choice, check_nonnegative

Floats = NDArray[np.float64]

_MOST = 0.9  # no label applies to a larger share of the rows
_ALWAYS = 0.999  # no feature occurs in a larger share of the rows
_ZIPF = 1.0  # exponent of the power law of the popularity of words
_LEAST = -30  # logarithm of the smallest singular value, relative to the largest
_STEEPEST = 10.0  # exponent beyond which the frequencies of labels would underflow


def check_count(key: str, value: Any) -> int:
    """Return an int of at least 1."""
    counts = isinstance(value, numbers.Integral) and value is not True
    if not counts or value < 1:
        raise ValueError(f"{key} must be an int of at least 1, got {value!r}. Pass a positive count.")
    return int(value)


def check_rank(rank: Any, d: int, n_labels: int) -> int:
    """Return a rank that a d × L matrix can have."""
    checked = check_count("rank", rank)
    if checked > min(d, n_labels):
        raise ValueError(
            f"rank must be at most {min(d, n_labels)} (the smaller of {d} features and {n_labels} labels), "
            f"got {rank}. Lower rank, or raise n_features and n_labels."
        )
    return checked


def check_spectrum(spectrum: Any, decay: Any, rank: int) -> Floats:
    """Return the singular values up to a factor, the first of them 1."""
    exponential = check_choice("spectrum", spectrum, ("exponential", "polynomial")) == "exponential"
    decay = check_nonnegative("decay", decay, "Pass decay=0 for equal singular values.")
    steps = np.arange(rank)
    logarithms: Floats = -decay * (steps if exponential else np.log1p(steps))
    if logarithms[-1] < _LEAST:
        raise ValueError(
            f"decay must leave the smallest of {rank} singular values above e^{_LEAST} of the largest, got "
            f"{decay}. Lower decay or rank."
        )
    return np.exp(logarithms)


def check_label_shares(cardinality: Any, imbalance: Any, n_labels: int) -> Floats:
    """Return the share of the rows that each label applies to."""
    total = _check_within(
        "cardinality", cardinality, _MOST * n_labels, "Pass a mean number of labels per row"
    )
    remedy = "Pass imbalance=0 for labels that are equally frequent."
    exponent = check_nonnegative("imbalance", imbalance, remedy)
    if exponent > _STEEPEST:
        raise ValueError(f"imbalance must be at most {_STEEPEST}, got {imbalance}. {remedy}")
    return skewed_shares(n_labels, total, exponent, _MOST)


def check_feature_shares(density: Any, d: int) -> Floats:
    """Return the share of the rows in which each feature occurs."""
    share = _check_within("density", density, 1.0, "Pass None for a dense X")
    return skewed_shares(d, min(share, _ALWAYS) * d, _ZIPF, _ALWAYS)


def check_missing(missing: Any) -> float:
    """Return a share in [0, 1)."""
    checked = check_nonnegative("missing", missing, "Pass missing=0 to hide no label.")
    if checked >= 1:
        raise ValueError(f"missing must be a share below 1, got {missing}. Pass missing=0 to hide no label.")
    return checked


def _check_within(name: str, value: Any, most: float, remedy: str) -> float:
    if not isinstance(value, float | int | np.floating | np.integer) or isinstance(value, bool):
        raise TypeError(f"{name} must be a number, got {value!r}. {remedy}.")
    if not 0 < value <= most:
        raise ValueError(f"{name} must be more than 0 and at most {most:g}, got {value}. {remedy}.")
    return float(value)


def skewed_shares(count: int, total: float, exponent: float, most: float) -> Floats:
    """Shares ``min(most, c · (1 + i) ** −exponent)``, i < count, with c such that they add up to `total`."""
    falling = np.arange(1.0, count + 1) ** -exponent
    rest = np.cumsum(falling[::-1])[::-1]
    c = (total - most * np.arange(count)) / rest  # if the first 0, 1, 2, … shares are cut off at `most`
    cut_off = int(np.argmax(c * falling <= most * (1 + 1e-12)))
    shares: Floats = np.minimum(most, c[cut_off] * falling)
    return shares
