"""Which of two models is better on the same examples: the paired t-test, and Holm's correction.

Each model has one value of a metric per example. With dᵢ the difference on example i,
t = mean(d) / (sd(d)/√n) is compared with Student's distribution with n − 1 degrees of freedom, on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

LEVEL = 0.05
"""Below this p-value a difference is called significant."""

# Values per example may be means over a few seeds, so equal ones can differ in their last bits. Stored in
# single precision, no difference of any weight is as small as this.
_NOISE = 1e-9


@dataclass(frozen=True)
class Difference:
    """Mean of paired differences, its standard error, and the p-value of the t-test on both sides.

    The mean is NaN without examples, the standard error for fewer than two. The p-value is 1 if all
    differences are zero, or if there are fewer than two; 0 if they are one and the same other number.
    """

    mean: float
    standard_error: float
    p_value: float


def paired_difference(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> Difference:
    """Compare the values of two methods on the same examples; those on which either is NaN are left out.

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


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number, by Holm's step-down method.

    With p₁ ≤ p₂ ≤ … ≤ p_m, the corrected p_k is the largest of (m − j + 1) p_j over j ≤ k, and at most 1.
    Calling those below 5 % significant keeps the chance of any false call below 5 %, however the tests depend
    on each other.

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
