"""Risk bounds of Theorems 1 and 2, fixed points of sub-root functions, and the rates that they give."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lrml._checks import check_nonnegative
from lrml.theory._data import Bound, check_count, check_eigenvalues, check_positive

_MAX_STEPS = 200
_TOLERANCE = 1e-14
_SLACK = 1e-9  # rounding in the check that psi is sub-root
_COMPLEXITY_REMEDY = "Pass the mean of a MonteCarlo or the value of a Bound."


def fixed_point(psi: Callable[[float], float], start: float = 1.0) -> float:
    """Return the positive solution r* of ψ(r) = r for a sub-root function ψ.

    ψ is sub-root if it is not negative, does not fall, ψ(r)/√r does not rise, and it is not zero. Such a
    function has exactly one positive fixed point (Bartlett, Bousquet and Mendelson 2005, Lemma 3.2). In log r
    the slope of log ψ lies between 0 and ½, so the iteration r ← ψ(r) halves the distance of log r to log r*
    at every step, from any start.

    Parameters
    ----------
    psi : callable
        ψ, of a positive float.
    start : float, default=1.0

    Returns
    -------
    float
        r* with |ψ(r*) − r*| ≤ 1e-10 · r*, in practice to rounding.

    Raises
    ------
    ValueError
        If ψ is found not to be sub-root: between two points of the iteration it falls, or ψ(r)/√r rises.

    Examples
    --------
    >>> round(fixed_point(lambda r: 0.3 * r**0.5), 12)
    0.09
    """
    r = check_positive("start", start)
    value = _positive(psi, r)
    for _ in range(_MAX_STEPS):
        if abs(value - r) <= _TOLERANCE * r:
            return r
        following = _positive(psi, value)
        low, high = sorted(((r, value), (value, following)))
        _check_sub_root(*low, *high)
        r, value = value, following
    # Rounding in psi itself may keep the last digits moving.
    if abs(value - r) <= 1e-10 * r:
        return r
    raise ValueError(
        f"psi must be sub-root for the iteration to settle, got psi({r:.6g}) = {value:.6g} after "
        f"{_MAX_STEPS} steps. Compute psi more accurately."
    )


def _positive(psi: Callable[[float], float], r: float) -> float:
    value = float(psi(r))
    if not (math.isfinite(value) and value > 0):
        raise ValueError(
            f"psi must be finite and positive for r > 0, got psi({r:.6g}) = {value}. "
            "Without that there is no positive fixed point; check the class for members other than 0."
        )
    return value


def _check_sub_root(low: float, psi_low: float, high: float, psi_high: float) -> None:
    """Reject two points of a function that falls, or rises faster than the root."""
    if psi_high < psi_low * (1 - _SLACK):
        raise ValueError(
            f"psi must not fall, got psi({low:.6g}) = {psi_low:.6g} and psi({high:.6g}) = {psi_high:.6g}. "
            "Pass its running maximum."
        )
    if psi_high / math.sqrt(high) > psi_low / math.sqrt(low) * (1 + _SLACK):
        raise ValueError(
            f"psi(r)/√r must not rise, got {psi_low / math.sqrt(low):.6g} at r = {low:.6g} and "
            f"{psi_high / math.sqrt(high):.6g} at r = {high:.6g}. Bound psi by a multiple of √r."
        )


def local_rate(eigenvalues: Any, n_examples: int, n_labels: int = 1, radius: float = 1.0) -> float:
    """Return the fixed point r* of the local complexity's bound: the rate of the excess risk.

    ::

        ψ(r) = √((2L/n) Σ_j min(r, λ² s_j)),      ψ(r*) = r*

    ψ bounds the local complexity of the Frobenius ball for every X (see `local_dual_bound`) and is sub-root.
    Under a Bernstein condition, E‖f − f*‖² ≤ B · excess risk, as least squares over a convex class has it,
    the excess risk of the minimiser is at most a constant times r* + log(1/δ)/n (Bartlett, Bousquet and
    Mendelson 2005, Corollary 5.3).

    Parameters
    ----------
    eigenvalues : array of shape (k,)
        s_j of the second-moment matrix.
    n_examples : int
    n_labels : int, default=1
    radius : float, default=1.0
        λ.

    Examples
    --------
    >>> round(local_rate([1.0, 1.0], n_examples=400), 12)  # 2 · rank / n
    0.01
    """
    s = check_eigenvalues(eigenvalues)
    scaled = check_positive("radius", radius) ** 2 * s
    factor = 2 * n_labels / check_count("n_examples", n_examples)
    return fixed_point(lambda r: math.sqrt(factor * float(np.sum(np.minimum(r, scaled)))))


def _deviation(n_examples: Any, delta: Any) -> float:
    """Return log(2/δ)/n."""
    n, level = check_count("n_examples", n_examples), check_positive("delta", delta)
    if level >= 1:
        raise ValueError(f"delta must be below 1, got {delta}. Use 0.05 for a probability of 95 %.")
    return math.log(2 / level) / n


def theorem1(complexity: float, n_examples: int, delta: float = 0.05) -> Bound:
    """Excess risk by the global complexity (Theorem 1 of Xu et al.).

    ::

        E[ĝ] − inf E[g] ≤ 4 R_n(G) + √(2 log(2/δ) / n)      with probability at least 1 − δ

    Assumptions: independent examples of one distribution, losses in [0, 1], ĝ the empirical risk minimiser of
    G (which the paper does not say), and R_n(G) the complexity of the *loss* class, averaged over samples.

    Parameters
    ----------
    complexity : float
        R_n(G). For a loss with Lipschitz constant ℓ (in the Euclidean norm of the scores) it is at most √2 ℓ
        times the complexity of the predictors with one sign per example and label (Maurer 2016).
    n_examples : int
    delta : float, default=0.05

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

    Assumptions: those of `theorem1`, and E[g²] ≤ r for every g in G. It follows from Theorem 2.1 of
    Bartlett, Bousquet and Mendelson (2005) with α = 1, used on both sides.

    Parameters
    ----------
    complexity : float
        R_n(G).
    n_examples : int
    r : float
        Bound on E[g²], not larger than 1 for losses in [0, 1].
    delta : float, default=0.05

    Examples
    --------
    >>> round(theorem2(0.01, 100, r=0.01).value, 4)
    0.245
    """
    R = check_nonnegative("complexity", complexity, _COMPLEXITY_REMEDY)
    deviation = _deviation(n_examples, delta)
    moment = check_nonnegative("r", r, "Pass the bound on the mean of squared losses.")
    spread = math.sqrt(8 * moment * deviation)
    return Bound({"complexity": 8 * R, "second moment": spread, "confidence": 3 * deviation})
