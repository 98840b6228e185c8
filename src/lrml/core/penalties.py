"""Spectral penalties: functions of the singular values of W, and their proximal maps.

A penalty sees the singular values in *descending* order, everywhere. It offers

``value(sigma)``
    the penalty Ω(σ), ∞ where it permits no such matrix;
``prox(sigma, step)``
    argmin over p of ½‖p − σ‖² + step · Ω(p); with step = 0, the nearest values that Ω permits;
``slopes(sigma)``
    the weights c_j of the linear majoriser Ω(σ') ≤ Σ c_j σ'_j that is tight at σ, ∞ where σ' must be 0;
``n_free``
    how many leading singular values are not penalised.

Because such a penalty does not change under rotations of W, its proximal map at a matrix Q = U diag(σ) Vᵀ
is U diag(prox(σ)) Vᵀ: `spectral_prox` does this lifting for every penalty.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

from lrml._shown import shown
from lrml.core.arrays import Array, descending_eigh, descending_eigvalsh, is_host, namespace, thin_svd
from lrml.core.checks import is_integer, is_real


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
    """Tail sum of the singular values over the matrices of limited rank: the penalty of the whole family.

    ::

        Ω(σ) = alpha · Σ_{theta < j ≤ max_rank} σ_j    if σ_j = 0 for j > max_rank, and ∞ otherwise
        (σ descending)

    Its proximal map keeps the top ``theta`` values as they are, soft-thresholds the next ones by
    ``step · alpha``, and drops all beyond ``max_rank``: the larger a value, the more is gained by keeping it,
    freely or not. Ω is convex for theta = 0 without a limit only, the trace norm.

    ============================================== =================================================
    theta and alpha                                LRML
    theta = 0, alpha                               ML-trace: the trace norm
    alpha = 0                                      no penalty (ML-Fro, with a ridge)
    theta = 0, alpha, max_rank = k                 LEML: the trace norm over the matrices of rank k
    theta = k, alpha = ∞ (or alpha = 0,            CPLST: reduced-rank regression
    max_rank = k)
    ============================================== =================================================

    Parameters
    ----------
    theta : int
        Number of leading singular values that stay free.
    alpha : float
        Strength (the paper's C). ``math.inf`` permits no tail, so ``max_rank`` becomes theta, if not less.
    rule : {"exact", "paper"}
        "paper" is the map as printed in Theorem 4 of Xu et al.: a value among the top ``theta`` that does not
        exceed the threshold is set to zero as well. That is not the minimiser: keeping the value σ_j costs
        nothing, dropping it costs σ_j²/2. The two agree whenever σ_theta exceeds the threshold.
    max_rank : int, optional
        Most positive singular values; None for no limit.

    Examples
    --------
    >>> import numpy as np
    >>> TailSum(theta=1, alpha=2.0).prox(np.array([5.0, 3.0, 1.0]), step=1.0).tolist()
    [5.0, 1.0, 0.0]
    >>> TailSum(theta=0, alpha=1.0, max_rank=2).prox(np.array([5.0, 4.0, 3.0]), step=1.0).tolist()
    [4.0, 3.0, 0.0]
    >>> TailSum(theta=1, alpha=2.0, rule="paper").prox(np.array([1.5, 0.5]), step=1.0).tolist()
    [0.0, 0.0]
    """

    theta: int
    alpha: float
    rule: Literal["exact", "paper"] = "exact"
    max_rank: int | None = None

    def __post_init__(self) -> None:
        _check_count("theta", self.theta, "Use theta=0 for the trace norm.")
        if self.max_rank is not None:
            _check_count("max_rank", self.max_rank, "Use None for no limit.")
        if not (is_real(self.alpha) and self.alpha >= 0):
            raise ValueError(f"alpha must not be negative, got {self.alpha!s}. Use alpha=0 for none.")
        if self.rule not in ("exact", "paper"):
            raise ValueError(f"rule must be 'exact' or 'paper', got {self.rule!r}. Use the default, 'exact'.")
        # A scalar of NumPy would try to turn arrays of other libraries into its own.
        object.__setattr__(self, "alpha", float(self.alpha))
        if self.alpha == math.inf:
            limit = self.theta if self.max_rank is None else min(self.theta, self.max_rank)
            object.__setattr__(self, "max_rank", limit)

    @property
    def n_free(self) -> int:
        """Number of leading singular values that cost nothing: theta, or all that a limit permits."""
        if self.max_rank is None:
            return self.theta
        return self.max_rank if self.alpha == 0 else min(self.theta, self.max_rank)

    def expected_rank(self, count: int) -> int:
        """Rank of a solution with ``count`` singular values: the limit, or all without alpha, else theta."""
        most = count if self.max_rank is None else min(self.max_rank, count)
        return min(self.theta, most) if self.alpha > 0 and self.max_rank is None else most

    def value(self, sigma: Array) -> float:
        """Return alpha · Σ σ_j over the tail of the descending values ``sigma``; ∞ beyond the rank."""
        xp = namespace(sigma)
        _, tail, beyond = self._parts(sigma)
        if bool(xp.any(beyond > 0)):
            return math.inf
        return self.alpha * float(xp.sum(tail)) if tail.shape[0] else 0.0

    def prox(self, sigma: Array, step: float) -> Array:
        """Keep the head, soft-threshold the tail by ``step · alpha``; descending in, descending out."""
        xp = namespace(sigma)
        head, tail, beyond = self._parts(sigma)
        threshold = step * self.alpha
        if self.rule == "paper":
            head = xp.where(head > threshold, head, xp.zeros_like(head))
        return xp.concat([head, xp.clip(tail - threshold, min=0.0), xp.zeros_like(beyond)])

    def slopes(self, sigma: Array) -> Array:
        """Return 0 for the head, alpha for the tail, and ∞ beyond the rank.

        The tail sum is the least of all sums of len(σ) − theta values, so the sum over the indices that are
        the tail at σ majorises it elsewhere and is tight at σ.
        """
        xp = namespace(sigma)
        head, tail, beyond = self._parts(sigma)
        return xp.concat(
            [xp.zeros_like(head), xp.full_like(tail, self.alpha), xp.full_like(beyond, math.inf)]
        )

    def _parts(self, sigma: Array) -> tuple[Array, Array, Array]:
        """Head, tail and the rest; the standard leaves slices beyond the end of an array undefined."""
        count = int(sigma.shape[0])
        limit = count if self.max_rank is None else min(self.max_rank, count)
        head = min(self.theta, limit)
        return sigma[:head], sigma[head:limit], sigma[limit:]


def _check_count(name: str, value: object, remedy: str) -> None:
    if not is_integer(value):
        raise TypeError(f"{name} of a penalty must be an int, got {shown(value)}. Count singular values.")
    if value < 0:  # type: ignore[operator]  # it is an integer
        raise ValueError(f"{name} must be at least 0, got {value}. {remedy}")


class TraceNorm(TailSum):
    """Trace norm alpha · Σ_j σ_j: the tail sum that leaves no value free (ML-trace)."""

    def __init__(
        self,
        alpha: float,
        theta: int = 0,
        rule: Literal["exact", "paper"] = "exact",
        max_rank: int | None = None,
    ) -> None:
        # theta, rule and max_rank exist for dataclasses.replace, which passes every field.
        if theta != 0:
            raise ValueError(
                f"theta must be 0 for the trace norm, got {theta}. Use TailSum(theta={theta}, alpha={alpha})."
            )
        super().__init__(theta, alpha, rule, max_rank)


class Ranks(NamedTuple):
    """Up to which rank a penalty costs nothing, and up to which it is finite."""

    free: int
    permitted: int

    @classmethod
    def of(cls, penalty: Penalty, like: Array) -> Ranks:
        """Return those of a penalty of as many singular values as an array has columns.

        Its slopes at zero tell, since they majorise it everywhere.
        """
        xp = namespace(like)
        slopes = penalty.slopes(xp.zeros(like.shape[1], dtype=like.dtype, device=like.device))
        return cls(int(xp.count_nonzero(slopes == 0)), int(xp.count_nonzero(slopes < math.inf)))


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
