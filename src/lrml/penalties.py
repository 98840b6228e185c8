"""Spectral penalties: functions of the singular values of W, and their proximal maps.

A penalty sees the singular values in *descending* order, everywhere. It offers

``value(sigma)``
    the penalty Ω(σ);
``prox(sigma, step)``
    argmin over p of ½‖p − σ‖² + step · Ω(p);
``slopes(sigma)``
    the weights c_j of the linear majoriser Ω(σ') ≤ Σ c_j σ'_j that is tight at σ;
``n_free``
    how many leading singular values are not penalised.

Because such a penalty does not change under rotations of W, its proximal map at a matrix Q = U diag(σ) Vᵀ
is U diag(prox(σ)) Vᵀ: `spectral_prox` does this lifting for every penalty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from lrml._arrays import Array, descending_eigh, descending_eigvalsh, is_host, namespace, thin_svd
from lrml._checks import is_integer, is_real
from lrml._shown import shown

__all__ = ["Penalty", "TailSum", "TraceNorm"]


def __dir__() -> list[str]:
    return __all__


class Penalty(Protocol):
    """What a solver needs from a penalty; see the module's docstring for the contract."""

    @property
    def n_free(self) -> int:
        """Number of leading singular values that cost nothing."""

    def value(self, sigma: Array) -> float:
        """Penalty of the descending singular values ``sigma``."""

    def prox(self, sigma: Array, step: float) -> Array:
        """Proximal map at the descending singular values ``sigma``; descending too."""

    def slopes(self, sigma: Array) -> Array:
        """Weights of the tight linear majoriser at the descending values ``sigma``."""


@dataclass(frozen=True)
class TailSum:
    """Tail sum of the singular values, the penalty of LRML.

    ::

        Ω(σ) = alpha · Σ_{j > theta} σ_j          (σ descending)

    Its proximal map keeps the top ``theta`` values as they are and soft-thresholds the others by
    ``step · alpha``. Ω is not convex for 0 < theta < len(σ); theta = 0 is the trace norm.

    Parameters
    ----------
    theta : int
        Number of leading singular values that stay free.
    alpha : float
        Strength (the paper's C).
    rule : {"exact", "paper"}
        "paper" is the map as printed in Theorem 4 of Xu et al.: a value among the top ``theta`` that does not
        exceed the threshold is set to zero as well. That is not the minimiser: keeping the value σ_j costs
        nothing, dropping it costs σ_j²/2. The two agree whenever σ_theta exceeds the threshold.

    Examples
    --------
    >>> import numpy as np
    >>> TailSum(theta=1, alpha=2.0).prox(np.array([5.0, 3.0, 1.0]), step=1.0).tolist()
    [5.0, 1.0, 0.0]
    >>> TailSum(theta=1, alpha=2.0, rule="paper").prox(np.array([1.5, 0.5]), step=1.0).tolist()
    [0.0, 0.0]
    """

    theta: int
    alpha: float
    rule: Literal["exact", "paper"] = "exact"

    def __post_init__(self) -> None:
        if not is_integer(self.theta):
            raise TypeError(
                f"theta of a penalty must be an int, got {shown(self.theta)}. Count the free singular values."
            )
        if self.theta < 0:
            raise ValueError(f"theta must be at least 0, got {self.theta}. Use theta=0 for the trace norm.")
        if not (is_real(self.alpha) and math.isfinite(self.alpha) and self.alpha >= 0):
            raise ValueError(
                f"alpha must be finite and not negative, got {self.alpha!s}. Use alpha=0 for none."
            )
        if self.rule not in ("exact", "paper"):
            raise ValueError(f"rule must be 'exact' or 'paper', got {self.rule!r}. Use the default, 'exact'.")
        # A scalar of NumPy would try to turn arrays of other libraries into its own.
        object.__setattr__(self, "alpha", float(self.alpha))

    @property
    def n_free(self) -> int:
        """Number of leading singular values that cost nothing: theta."""
        return self.theta

    def value(self, sigma: Array) -> float:
        """Return alpha · Σ_{j > theta} σ_j of the descending values ``sigma``."""
        xp = namespace(sigma)
        return self.alpha * float(xp.sum(self._parts(sigma)[1]))

    def prox(self, sigma: Array, step: float) -> Array:
        """Keep the head, soft-threshold the tail by ``step · alpha``; descending in, descending out."""
        xp = namespace(sigma)
        head, tail = self._parts(sigma)
        threshold = step * self.alpha
        if self.rule == "paper":
            head = xp.where(head > threshold, head, xp.zeros_like(head))
        return xp.concat([head, xp.clip(tail - threshold, min=0.0)])

    def slopes(self, sigma: Array) -> Array:
        """Return 0 for the head and alpha for the tail.

        The tail sum is the least of all sums of len(σ) − theta values, so the sum over the indices that are
        the tail at σ majorises it elsewhere and is tight at σ.
        """
        xp = namespace(sigma)
        head, tail = self._parts(sigma)
        return xp.concat([xp.zeros_like(head), xp.full_like(tail, self.alpha)])

    def _parts(self, sigma: Array) -> tuple[Array, Array]:
        """Head and tail; the standard leaves slices beyond the end of an array undefined."""
        head = min(self.theta, sigma.shape[0])
        return sigma[:head], sigma[head:]


class TraceNorm(TailSum):
    """Trace norm alpha · Σ_j σ_j: the tail sum that leaves no value free (ML-trace)."""

    def __init__(self, alpha: float, theta: int = 0, rule: Literal["exact", "paper"] = "exact") -> None:
        # theta and rule exist for dataclasses.replace, which passes every field.
        if theta != 0:
            raise ValueError(
                f"theta must be 0 for the trace norm, got {theta}. Use TailSum(theta={theta}, alpha={alpha})."
            )
        super().__init__(theta, alpha, rule)


class SpectralProx(NamedTuple):
    """A proximal point: the matrix and its descending singular values."""

    matrix: Array
    sigma: Array


def spectral_prox(Q: Array, penalty: Penalty, step: float) -> SpectralProx:
    """Proximal map of a spectral penalty at a matrix: argmin_Z ½‖Z − Q‖²_F + step · Ω(σ(Z)).

    With Q = U diag(σ) Vᵀ and p = prox(σ) the result is Q V diag(p/σ) Vᵀ, so only the right singular vectors
    are needed and U never appears. They come from the eigendecomposition of the smaller Gram matrix, several
    times cheaper than an SVD. That squares the condition number: values below ``sqrt(n · eps) · σ₁`` are
    noise. If one of those may survive the prox, a QR factorisation and the SVD of its small triangle are used
    instead.

    Parameters
    ----------
    Q : array of shape (m, n)
    penalty : Penalty
    step : float
        Multiplies the penalty, as 1/t does in a proximal gradient step of curvature t.

    Returns
    -------
    SpectralProx
        ``matrix`` of the shape of Q and ``sigma``, its min(m, n) singular values, descending.
    """
    if Q.shape[0] < Q.shape[1]:
        matrix, sigma = spectral_prox(Q.T, penalty, step)
        return SpectralProx(matrix.T, sigma)
    sigma, V = right_singular(Q)
    if noise_may_survive(sigma, penalty, step):
        sigma, V = right_singular_by_svd(Q)
    shrunk = penalty.prox(sigma, step)
    xp = namespace(Q)
    kept = int(xp.count_nonzero(shrunk > 0))
    if kept == 0:
        return SpectralProx(xp.zeros_like(Q), shrunk)
    V = V[:, :kept]
    shrinkage = shrunk[:kept] / sigma[:kept]
    # One tall product instead of two: V diag(p/σ) Vᵀ is small.
    return SpectralProx(Q @ ((V * shrinkage) @ V.T), shrunk)


def right_singular(Q: Array) -> tuple[Array, Array]:
    """Descending singular values and right singular vectors of a tall Q through the eigh of QᵀQ.

    Values below `gram_noise` have no correct digits. If QᵀQ would overflow or underflow, the SVD is used.
    """
    if not _has_gram(Q):
        return right_singular_by_svd(Q)
    xp = namespace(Q)
    squares, V = descending_eigh(Q.T @ Q)
    return xp.sqrt(xp.clip(squares, min=0.0)), V


def singular_values(Q: Array) -> Array:
    """Descending singular values of a tall Q as from `right_singular`, at less than half its cost."""
    if not _has_gram(Q):
        return right_singular_by_svd(Q)[0]
    xp = namespace(Q)
    return xp.sqrt(xp.clip(descending_eigvalsh(Q.T @ Q), min=0.0))


def _has_gram(Q: Array) -> bool:
    """Whether QᵀQ neither overflows nor underflows."""
    xp = namespace(Q)
    largest = float(xp.maximum(xp.max(Q), -xp.min(Q)))
    limits = xp.finfo(Q.dtype)
    least, most = math.sqrt(limits.smallest_normal) / limits.eps, math.sqrt(limits.max / math.prod(Q.shape))
    return largest == 0 or bool(least <= largest <= most)


def right_singular_by_svd(Q: Array) -> tuple[Array, Array]:
    """Descending singular values and right singular vectors of a tall Q, accurate to eps · σ₁."""
    xp = namespace(Q)
    _, R = xp.linalg.qr(Q, mode="reduced")
    _, sigma, Vt = thin_svd(R)
    return sigma, Vt.T


def accurate_singular_values(Q: Array) -> Array:
    """Descending singular values of a tall Q, accurate to eps · σ₁.

    With the triangle R of Q, [[0, R], [Rᵀ, 0]] has the eigenvalues ±σ_j. On a device, where an SVD costs six
    times an eigendecomposition, this is the faster way.
    """
    if is_host(Q):
        return right_singular_by_svd(Q)[0]
    xp = namespace(Q)
    _, R = xp.linalg.qr(Q, mode="reduced")
    zeros = xp.zeros_like(R)
    both = xp.concat([xp.concat([zeros, R], axis=1), xp.concat([R.T, zeros], axis=1)])
    return xp.clip(descending_eigvalsh(both)[: R.shape[0]], min=0.0)


def gram_noise(sigma: Array) -> float:
    """Size below which a singular value from `right_singular` is noise: sqrt(n · eps) · σ₁."""
    xp = namespace(sigma)
    return math.sqrt(sigma.shape[0] * xp.finfo(sigma.dtype).eps) * float(sigma[0])


def noise_may_survive(sigma: Array, penalty: Penalty, step: float) -> bool:
    """Whether the prox may keep a value of which the Gram matrix shows nothing but noise.

    ``sigma`` comes from `right_singular`. Rounding may have made any value below the noise 0, so what counts
    is not whether the computed values survive, but whether they would if they were as large as the noise.
    A free value counts even if it is 0.
    """
    xp = namespace(sigma)
    noise = gram_noise(sigma)
    visible = int(xp.count_nonzero(sigma > noise))
    if visible == sigma.shape[0]:
        return False
    survivors = int(xp.count_nonzero(penalty.prox(xp.clip(sigma, min=noise), step) > 0))
    return visible < max(survivors, min(penalty.n_free, int(sigma.shape[0])))
