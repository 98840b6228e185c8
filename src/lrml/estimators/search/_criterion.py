"""What a search maximises: a metric of `lrml.metrics`, signed so that more is better."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml import metrics
from lrml._shown import shown

_NAMES = "precision_at_1, precision_at_3, …, average_precision, average_auc, hamming_loss, micro_f1, macro_f1"
_Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Criterion:
    """A signed metric of labels and scores.

    Attributes
    ----------
    name : str
    measure : callable
        Of (Y, S, cut); returns one value per row, NaN where a row has none, or a single number.
    by_row : bool
        Which of the two. Only values per row can be compared pair by pair.
    """

    name: str
    measure: Callable[[Any, Any, Any], Any]
    by_row: bool


def check_scorings(scoring: Any) -> tuple[Criterion, ...]:
    """Return the criteria for one metric's name or function, or for a list of them."""
    if not isinstance(scoring, list | tuple):
        return (check_scoring(scoring),)
    criteria = tuple(check_scoring(entry) for entry in scoring)
    names = [criterion.name for criterion in criteria]
    if not names or len(set(names)) < len(names):
        raise ValueError(
            f"scoring must be one metric, or a list of metrics that differ in name, got {shown(names)}. "
            "Name each metric once."
        )
    return criteria


def check_scoring(scoring: Any) -> Criterion:
    """Return the criterion for a metric's name or a function of (Y, S)."""
    if callable(scoring):
        return Criterion(getattr(scoring, "__name__", "score"), lambda Y, S, cut: float(scoring(Y, S)), False)
    simple = {
        "average_precision": lambda Y, S, cut: metrics.average_precision(Y, S, per_example=True),
        "average_auc": lambda Y, S, cut: metrics.average_auc(Y, S, per_example=True),
        "hamming_loss": lambda Y, S, cut: -metrics.hamming_loss(Y, S, cut, per_example=True),
    }
    whole = {
        "micro_f1": metrics.micro_f1,
        "macro_f1": metrics.macro_f1,
    }
    if isinstance(scoring, str):
        if scoring in simple:
            return Criterion(scoring, simple[scoring], True)
        if scoring in whole:
            return Criterion(scoring, whole[scoring], False)
        top = re.fullmatch(r"precision_at_([1-9]\d*)", scoring)
        if top:
            k = int(top[1])
            return Criterion(
                scoring, lambda Y, S, cut: metrics.precision_at_k(Y, S, k, per_example=True), True
            )
    raise ValueError(
        f"scoring must be one of {_NAMES}, or a function of (Y, scores) that is larger for better scores, "
        f"got {shown(scoring)}. Use 'average_precision'."
    )


def weighted_mean(values: _Float64, weights: _Float64 | None) -> float:
    """Mean over the rows that have a value."""
    counted = np.isfinite(values) if weights is None else np.isfinite(values) & (weights > 0)
    if not counted.any():
        return float("nan")
    return float(np.average(values[counted], weights=None if weights is None else weights[counted]))
