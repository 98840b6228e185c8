"""The generalisation bounds of Theorems 1 and 2, given a complexity."""

from __future__ import annotations

import math
from typing import Any

from lrml._checks import check_nonnegative
from lrml.theory._data import check_count, check_positive
from lrml.theory._records import Bound

_COMPLEXITY_REMEDY = "Pass the mean of a MonteCarlo or the value of a Bound."


def _deviation(n_examples: Any, delta: Any) -> float:
    """Return log(2/δ)/n."""
    n = check_count("n_examples", n_examples, 1, "Pass the number of rows of X.")
    level = check_positive("delta", delta, "Use 0.05 for a probability of 95 %.")
    if level >= 1:
        raise ValueError(f"delta must be below 1, got {delta}. Use 0.05 for a probability of 95 %.")
    return math.log(2 / level) / n


def theorem1(complexity: float, n_examples: int, delta: float = 0.05) -> Bound:
    """Excess risk by the global complexity (Theorem 1 of Xu et al.).

    ::

        E[ĝ] − inf E[g] ≤ 4 R_n(G) + √(2 log(2/δ) / n)      with probability at least 1 − δ

    Assumptions: independent examples of one distribution, losses in [0, 1], ĝ the empirical risk minimiser of
    G, and R_n(G) the complexity of the *loss* class, in mean over samples. The printed theorem does not say
    "minimiser"; without it no such bound holds. It is right, with room: 2 R_n(G) is enough.

    Parameters
    ----------
    complexity : float
        R_n(G). For a loss with Lipschitz constant ℓ (in the Euclidean norm of the scores) it is at most √2 ℓ
        times the complexity of the predictors with one sign per example and label [2]_.
    n_examples : int
    delta : float, default=0.05

    References
    ----------
    .. [1] P. L. Bartlett, S. Mendelson. Rademacher and Gaussian Complexities. JMLR 3, 463-482, 2002.
    .. [2] A. Maurer. A Vector-Contraction Inequality for Rademacher Complexities. ALT 2016.

    Examples
    --------
    >>> round(theorem1(0.1, 100).value, 4)
    0.6716
    """
    R = check_nonnegative("complexity", complexity, _COMPLEXITY_REMEDY)
    return Bound({"complexity": 4 * R, "confidence": math.sqrt(2 * _deviation(n_examples, delta))})


def theorem2(complexity: float, n_examples: int, r: float, delta: float = 0.05) -> Bound:
    """Excess risk by the complexity of a class of small second moment (Theorem 2 of Xu et al.).

    ::

        E[ĝ] − inf E[g] ≤ 8 R_n(G) + √(8 r log(2/δ) / n) + 3 log(2/δ) / n      with probability ≥ 1 − δ

    Assumptions: those of `theorem1`, and E[g²] ≤ r for every g in G. It follows from Talagrand's inequality
    in the form of Theorem 2.1 of [1]_ (with α = 1), used on both sides; Bernstein's on one side would give
    4 R_n(G) + √(8 r log(2/δ)/n) + (5/3) log(2/δ)/n.

    Parameters
    ----------
    complexity : float
        R_n(G).
    n_examples : int
    r : float
        Bound on E[g²], not larger than 1 for losses in [0, 1].
    delta : float, default=0.05

    References
    ----------
    .. [1] P. L. Bartlett, O. Bousquet, S. Mendelson. Local Rademacher Complexities. Ann. Statist. 33, 2005.

    Examples
    --------
    >>> round(theorem2(0.01, 100, r=0.01).value, 4)
    0.245
    """
    R, deviation = (
        check_nonnegative("complexity", complexity, _COMPLEXITY_REMEDY),
        _deviation(n_examples, delta),
    )
    moment = check_nonnegative("r", r, "Pass the bound on the mean of squared losses.")
    return Bound(
        {
            "complexity": 8 * R,
            "second moment": math.sqrt(8 * moment * deviation),
            "confidence": 3 * deviation,
        }
    )
