"""Fixed points of sub-root functions, and the rates that they give."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np

from lrml._checks import check_choice
from lrml.theory._data import check_count, check_eigenvalues, check_positive
from lrml.theory._records import Vector

_MAX_STEPS = 200
_TOLERANCE = 1e-14
_SLACK = 1e-9  # rounding in the check that psi is sub-root


def fixed_point(psi: Callable[[float], float], start: float = 1.0) -> float:
    """Return the positive solution r* of ψ(r) = r for a sub-root function ψ.

    ψ is sub-root if it is not negative, does not fall, ψ(r)/√r does not rise, and it is not zero. Such a
    function has exactly one positive fixed point [1]_. In log r the slope of log ψ lies between 0 and ½, so
    the iteration r ← ψ(r) halves the distance of log r to log r* at every step, from any start.

    Parameters
    ----------
    psi : callable
        ψ, of a positive float.
    start : float, default=1.0

    Returns
    -------
    float
        r* with |ψ(r*) − r*| ≤ 1e-10 · r*, in fact to rounding.

    Raises
    ------
    ValueError
        Where ψ is seen not to be sub-root: between two points of the iteration it falls, or ψ(r)/√r rises.

    References
    ----------
    .. [1] P. L. Bartlett, O. Bousquet, S. Mendelson. Local Rademacher Complexities. Ann. Statist. 33, 2005:
       Lemma 3.2.

    Examples
    --------
    >>> round(fixed_point(lambda r: 0.3 * r**0.5), 12)
    0.09
    """
    r = check_positive("start", start, "Use 1.0.")
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
    the excess risk of the minimiser is at most a constant times r* + log(1/δ)/n [1]_.

    Parameters
    ----------
    eigenvalues : array of shape (k,)
        s_j of the second-moment matrix.
    n_examples : int
    n_labels : int, default=1
    radius : float, default=1.0
        λ.

    References
    ----------
    .. [1] P. L. Bartlett, O. Bousquet, S. Mendelson. Local Rademacher Complexities. Ann. Statist. 33, 2005:
       Corollary 5.3.

    Examples
    --------
    >>> round(local_rate([1.0, 1.0], n_examples=400), 12)  # 2 · rank / n
    0.01
    """
    s = check_eigenvalues(eigenvalues)
    n = check_count("n_examples", n_examples, 1, "Pass the number of rows of X.")
    scaled = check_positive("radius", radius, "Use 1.0 for the unit ball.") ** 2 * s
    return fixed_point(partial(_mendelson, scaled, 2 * n_labels / n))


def _mendelson(scaled: Vector, factor: float, r: float) -> float:
    return math.sqrt(factor * float(np.sum(np.minimum(r, scaled))))


def decaying_spectrum(
    decay: Literal["exponential", "polynomial"], rate: float, size: int = 100_000
) -> Vector:
    """Eigenvalues exp(−rate · j) or j^(−rate), j = 1, …, size.

    Examples
    --------
    >>> decaying_spectrum("polynomial", 2.0, 3).round(4).tolist()
    [1.0, 0.25, 0.1111]
    """
    speed = check_positive("rate", rate, "Use 1.0.")
    j = np.arange(1, check_count("size", size, 1, "Use the number of features.") + 1, dtype=np.float64)
    exponential = check_choice("decay", decay, ("exponential", "polynomial")) == "exponential"
    return np.exp(-speed * j) if exponential else j**-speed


def excess_risk_rate(
    decay: Literal["exponential", "polynomial"], rate: float, n_examples: int, n_labels: int = 1
) -> float:
    """Return r* for data whose eigenvalues decay exponentially or polynomially.

    ::

        s_j = exp(−rate · j)     r* ≈ (2L/rate) · log(n)/n
        s_j = j^(−rate)          r* ≈ constant · (L/n)^(rate/(rate + 1)),       rate > 1

    Both are between 1/√n, which a global complexity gives, and 1/n.

    Parameters
    ----------
    decay : {"exponential", "polynomial"}
    rate : float
    n_examples : int
    n_labels : int, default=1

    Examples
    --------
    >>> [round(excess_risk_rate("exponential", 1.0, n) * n, 1) for n in (10**3, 10**6)]
    [10.1, 22.4]
    """
    return local_rate(decaying_spectrum(decay, rate), n_examples, n_labels)


def fitted_slope(x: Any, y: Any) -> float:
    """Slope of the least-squares line of log y on log x.

    Examples
    --------
    >>> round(fitted_slope([1, 10, 100], [5, 0.5, 0.05]), 12)
    -1.0
    """
    return float(np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)[0])
