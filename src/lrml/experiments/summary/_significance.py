"""Which differences between two methods are more than the choice of test examples explains.

Two methods are compared on the same test examples, each with one value of a metric per example. With dᵢ the
difference on example i, t = mean(d) / (sd(d)/√n) is compared with Student's distribution with n − 1 degrees
of freedom, on both sides.

What the test covers is the choice of the test examples. It does not cover the choice of the training rows:
both models are fixed, and values are averaged over the seeds first, so that another training set may well
turn a mark around. It works for metrics that are means over examples, as all of Table 2 are. For values
that are 0 or 1, such as top-1 accuracy, the t distribution is an approximation, which is good for the
hundreds of rows that a test set has.

A table makes many comparisons, and of those without any true difference 5 % are marked. So two marks are
given: a plain one, as in the paper, and one after Holm's correction over all comparisons of one protocol in
the table, which keeps the chance of even one false mark below 5 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

LEVEL = 0.05
"""Below this p-value a difference is called significant."""

BETTER, WORSE, NEITHER = "•", "∘", ""
"""Marks of the paper: LRML is significantly better, significantly worse, or neither."""

# Values per example are means over a few seeds, so equal ones can differ in their last bits. They are
# stored in single precision, so no difference of any weight is as small as this.
_NOISE = 1e-9


@dataclass(frozen=True)
class Difference:
    """Mean of paired differences, its standard error, and the p-value of the t-test on both sides.

    Attributes
    ----------
    mean : float
        NaN if there is no example.
    standard_error : float
        sd(d)/√n, with n − 1 in the variance; NaN for fewer than two examples, which tell nothing about it.
    p_value : float
        1 if all differences are zero, or if there are fewer than two; 0 if they are one and the same other
        number.
    """

    mean: float
    standard_error: float
    p_value: float


def paired_difference(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> Difference:
    """Compare the values of two methods on the same examples.

    Parameters
    ----------
    first, second : array of shape (n,)
        One value per example. Examples on which either is NaN are left out.

    Returns
    -------
    Difference
        Of ``first − second``.

    Examples
    --------
    >>> found = paired_difference(np.array([1.0, 0.0, np.nan]), np.array([0.0, 0.0, 1.0]))
    >>> found.mean, found.standard_error, round(found.p_value, 6)
    (0.5, 0.5, 0.5)
    """
    d = first - second
    d = d[~np.isnan(d)]
    d[np.abs(d) < _NOISE] = 0.0
    if d.size < 2:
        return Difference(float(d[0]) if d.size else np.nan, np.nan, 1.0)
    mean, deviation = float(d.mean()), float(d.std(ddof=1))
    if np.ptp(d) < _NOISE:  # one and the same number, up to its last bits
        return Difference(mean, 0.0, 1.0 if mean == 0.0 else 0.0)
    standard_error = deviation / float(np.sqrt(d.size))
    p_value = 2.0 * float(stdtr(d.size - 1, -abs(mean / standard_error)))
    return Difference(mean, standard_error, p_value)


def standard_error(values: npt.NDArray[np.float64]) -> float:
    """Return sd/√n of values per example, without those that are NaN."""
    return paired_difference(values, np.zeros_like(values)).standard_error


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number, by Holm's step-down method.

    With p₁ ≤ p₂ ≤ … ≤ p_m, the corrected p_k is the largest of (m − j + 1) p_j over j ≤ k, and at most 1.
    Calling those below 5 % significant keeps the chance of any false call below 5 %, however the tests hang
    together.

    Examples
    --------
    >>> holm([0.01, 0.5, 0.02])
    [0.03, 0.5, 0.04]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in corrected]


def mark(difference: float, p_value: float, lower_is_better: bool = False) -> str:
    """Return the paper's mark of a difference, LRML minus the other method.

    Examples
    --------
    >>> mark(0.02, 0.01), mark(0.02, 0.01, lower_is_better=True), mark(0.02, 0.5)
    ('•', '∘', '')
    """
    if not p_value < LEVEL or difference == 0.0:
        return NEITHER
    return BETTER if (difference < 0.0) == lower_is_better else WORSE
