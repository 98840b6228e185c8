"""Singular values of matrices, and the proximal maps of penalties on them."""

from __future__ import annotations

import math
from typing import NamedTuple

from lrml.core.arrays import Array, descending_eigh, descending_eigvalsh, namespace, thin_svd
from lrml.core.penalties import Penalty


class Ranks(NamedTuple):
    """Up to which rank a penalty costs nothing, and up to which it is finite."""

    free: int
    permitted: int

    @classmethod
    def of(cls, penalty: Penalty, like: Array) -> Ranks:
        """Return those of a penalty of as many singular values as an array has columns."""
        xp = namespace(like)
        ones = xp.ones(like.shape[1], dtype=like.dtype, device=like.device)
        free = xp.count_nonzero(penalty.slopes(0.0 * ones) == 0)  # they majorise it everywhere
        return cls(int(free), int(xp.count_nonzero(penalty.prox(ones, 0.0))))


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
