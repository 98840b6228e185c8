"""Decompositions: eigenvalues and singular values, which descend, and what a penalty makes of a matrix.

Singular values are few, and come to the host, as NumPy's; vectors stay where the matrix is.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.linalg

from lrml._shown import shown
from lrml.core.arrays import Array, Place, beside, few_threads, is_host, namespace, to_numpy
from lrml.core.moments import Moments
from lrml.core.penalties import Penalty, Values

_Float64 = npt.NDArray[np.float64]

_LARGE = 2000  # from this size on, memory counts more than threads
# If the column lengths of X differ by more than this, an eigendecomposition of XᵀX would lose digits of the
# short ones, because eigenvalues have an error of eps · λ₁.
_WIDE = 1e3


def descending_eigh(gram: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """Eigenvalues of a symmetric matrix in descending order, and the eigenvectors as columns.

    A large NumPy matrix that may be overwritten takes room for two further ones, instead of four.
    """
    xp = namespace(gram)
    with few_threads(gram):
        if overwrite and gram.shape[0] >= _LARGE and is_host(gram):
            # LAPACK, as in NumPy; the transpose is in its order, so that nothing is copied. But SciPy has
            # threads of its own, which wait for those of NumPy: small matrices would take ten times as long.
            values, vectors = scipy.linalg.eigh(gram.T, overwrite_a=True, check_finite=False, driver="evd")
        else:
            values, vectors = xp.linalg.eigh(gram)
    return xp.flip(values, axis=0), xp.flip(vectors, axis=1)


def thin_svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition U, s, Vᵀ, s descending."""
    with few_threads(matrix):
        try:
            U, s, Vt = namespace(matrix).linalg.svd(matrix, full_matrices=False)
        except np.linalg.LinAlgError:  # NumPy's divide and conquer gives up on a few harmless matrices
            U, s, Vt = scipy.linalg.svd(matrix, full_matrices=False, lapack_driver="gesvd")
    return U, s, Vt


def check_shrunk(shrunk: Any, sigma: Values, penalty: Penalty) -> None:
    """Refuse what the proximal map of a penalty of the user's own makes of singular values."""
    sound = np.shape(shrunk) == sigma.shape and np.all(np.isfinite(shrunk))
    if not sound or np.any(np.diff(shrunk, append=0.0) > 1e-9 * sigma[:1].sum()):  # that is rounding
        raise ValueError(
            f"prox of {shown(penalty)} makes {shown(shrunk)} of {shown(sigma)}. Let it return an array of as "
            "many finite values, descending, none below 0."
        )


def spectral_prox(Q: Array, penalty: Penalty, step: float) -> tuple[Array, Values]:
    """Proximal map of a spectral penalty at a matrix: argmin_Z ½‖Z − Q‖²_F + step · Ω(σ(Z)), and σ(Z).

    With Q = U diag(σ) Vᵀ and p = prox(σ) the result is Q V diag(p/σ) Vᵀ, so only the right singular vectors
    are needed and U never appears. They come from the eigendecomposition of the smaller Gram matrix, several
    times cheaper than an SVD. That squares the condition number: values below ``sqrt(n · eps) · σ₁`` are
    noise. If one of those may survive the prox, a QR factorisation and the SVD of its small triangle are used
    instead.
    """
    if Q.shape[0] < Q.shape[1]:
        matrix, sigma = spectral_prox(Q.T, penalty, step)
        return matrix.T, sigma
    sigma, V = right_singular(Q)
    if noise_may_survive(sigma, penalty, step):
        sigma, V = right_singular_by_svd(Q)
    shrunk = penalty.prox(sigma, step)
    if penalty.__module__ != Penalty.__module__:
        check_shrunk(shrunk, sigma, penalty)
    kept = np.count_nonzero(shrunk)
    if kept == 0:
        return namespace(Q).zeros_like(Q), shrunk
    V, shrinkage = V[:, :kept], beside(shrunk[:kept] / sigma[:kept], Q)
    # One tall product instead of two: V diag(p/σ) Vᵀ is small.
    return Q @ ((V * shrinkage) @ V.T), shrunk


def right_singular(Q: Array) -> tuple[Values, Array]:
    """Descending singular values and right singular vectors of a tall Q through the eigh of QᵀQ.

    Values below `gram_noise` have no correct digits. If QᵀQ would overflow or underflow, the SVD is used.
    """
    gram = _gram(Q)
    if gram is None:
        return right_singular_by_svd(Q)
    squares, V = descending_eigh(gram)
    return np.sqrt(np.maximum(to_numpy(squares), 0.0)), V


def singular_values(Q: Array) -> Values:
    """Descending singular values of a tall Q as from `right_singular`, at less than half its cost."""
    gram = _gram(Q)
    if gram is None:
        return right_singular_by_svd(Q)[0]
    with few_threads(gram):
        squares = namespace(gram).linalg.eigvalsh(gram)
    sigma: Values = np.sqrt(np.maximum(to_numpy(squares)[::-1], 0.0))
    return sigma


def _gram(Q: Array) -> Array | None:
    """Return QᵀQ; None if it overflows or underflows, as its trace ‖Q‖² shows."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        gram = Q.T @ Q
        trace, limits = float(namespace(gram).linalg.trace(gram)), namespace(gram).finfo(gram.dtype)
    is_sound = limits.smallest_normal / limits.eps**2 <= trace < math.inf
    return gram if is_sound or (trace == 0.0 and not bool(namespace(Q).any(Q != 0.0))) else None


def right_singular_by_svd(Q: Array) -> tuple[Values, Array]:
    """Descending singular values and right singular vectors of a tall Q, accurate to eps · σ₁."""
    _, R = namespace(Q).linalg.qr(Q, mode="reduced")
    _, sigma, Vt = thin_svd(R)
    return to_numpy(sigma), Vt.T


def spectrum(W: Array, rank: int | None = None) -> Values:
    """Descending singular values of W, each accurate to eps · σ₁.

    Uses the Gram matrix if all values up to ``rank`` are above its noise, the SVD otherwise. Values that are
    rounding noise, and all beyond ``rank``, are set to zero: a strong penalty would amplify them.
    """
    W = W if W.shape[0] >= W.shape[1] else W.T
    rank = W.shape[1] if rank is None else min(rank, W.shape[1])
    sigma = singular_values(W)
    if rank and sigma[rank - 1] <= gram_noise(sigma):
        sigma = right_singular_by_svd(W)[0]
    floor = max(W.shape) * np.finfo(sigma.dtype).eps * sigma[0]
    kept = min(int(np.count_nonzero(sigma > floor)), rank)
    return np.where(np.arange(len(sigma)) < kept, sigma, 0.0)


def gram_noise(sigma: Values) -> float:
    """Size below which a singular value from `right_singular` is noise: sqrt(n · eps) · σ₁."""
    return math.sqrt(len(sigma) * np.finfo(sigma.dtype).eps) * float(sigma[0])


def noise_may_survive(sigma: Values, penalty: Penalty, step: float) -> bool:
    """Whether the prox may keep a value of which the Gram matrix shows nothing but noise.

    ``sigma`` comes from `right_singular`. Rounding may have made any value below the noise 0, so what counts
    is not whether the computed values survive, but whether they would if they were as large as the noise.
    A free value counts even if it is 0.
    """
    noise = gram_noise(sigma)
    visible = int(np.count_nonzero(sigma > noise))
    if visible == len(sigma):
        return False
    survivors = int(np.count_nonzero(penalty.prox(np.maximum(sigma, noise), step)))
    return visible < max(survivors, min(penalty.n_free, len(sigma)))


class Factors(NamedTuple):
    """Thin singular value decomposition W = U diag(s) Vᵀ: U is d × k, s descending, V is L × k."""

    U: Array
    s: Array
    V: Array

    @classmethod
    def of(cls, matrix: Array, rank: int | None = None) -> Factors:
        """Decompose a matrix, as far as its rank if that is known.

        Leading right singular vectors V from the Gram matrix are good enough for Q, an orthonormal basis of
        the columns of W V. Where the rank is small, that and the decomposition of QᵀW take less time than
        that of W, much less on a GPU.
        """
        if rank is not None and 0 < 3 * rank <= min(matrix.shape):
            Q, _ = namespace(matrix).linalg.qr(matrix @ right_singular(matrix)[1][:, :rank], mode="reduced")
            V, s, U = cls.of_sides(matrix.T @ Q, Q)
            return cls(U, s, V)
        U, s, Vt = thin_svd(matrix)
        return cls(U[:, :rank], s[:rank], Vt[:rank, :].T)

    @classmethod
    def of_sides(cls, left: Array, right: Array) -> Factors:
        """Decompose left rightᵀ, right with orthonormal columns."""
        Q, triangle = namespace(left).linalg.qr(left, mode="reduced")
        U, s, Vt = thin_svd(triangle)
        return cls(Q @ U, s, right @ Vt.T)

    @classmethod
    def zero(cls, shape: tuple[int, int]) -> Factors:
        """Return the factors of a zero matrix, in NumPy arrays."""
        return cls(np.zeros((shape[0], 0)), np.zeros(0), np.zeros((shape[1], 0)))


class Eigen(NamedTuple):
    """Eigenvalues Λ of XᵀX, descending and positive, its eigenvectors Q as columns, and QᵀXᵀY."""

    eigenvalues: Array
    features: Array
    cross: Array

    @classmethod
    def of_nothing(cls, size: int, n_labels: int, place: Place) -> Eigen:
        """Return one direction of length 0, with the eigenvalue 1 and nothing to learn."""
        return cls(place.ones(1), place.zeros((size, 1)), place.zeros((1, n_labels)))


def spectral_coordinates(moments: Moments) -> Eigen:
    """Decompose XᵀX so that every feature counts, whatever its scale; return at least one direction.

    Directions whose eigenvalues are rounding noise are left out, so the unpenalised limit is the
    least-squares solution of smallest norm. A constant X keeps one, of length 0, with the eigenvalue 1 and
    nothing to learn.

    If features have very different scales, write XᵀX = D C D with a diagonal D, and take the eigenvalues Γ
    and eigenvectors P of C, which are as accurate as the data permit. Then A = Γ^(1/2) Pᵀ D is a root of XᵀX,
    and its singular value decomposition is more accurate than the eigendecomposition of AᵀA: with A = U S Qᵀ,
    Λ = S² and QᵀXᵀY = S Uᵀ A^(-T) XᵀY = S Uᵀ Γ^(-1/2) Pᵀ D⁻¹ XᵀY.
    """
    gram, cross, _ = moments
    if differ_widely(namespace(gram).linalg.diagonal(gram)):
        return _from_root(gram, cross)
    eigenvalues, Q = _positive_part(*descending_eigh(gram))
    if eigenvalues.shape[0] == 0:
        return Eigen.of_nothing(gram.shape[0], cross.shape[1], Place.of(gram))
    return Eigen(eigenvalues, Q, Q.T @ cross)


def differ_widely(squares: Array) -> bool:
    """Whether the longest column is beyond comparison with the shortest, given squared lengths; not of 0."""
    xp, varying = namespace(squares), squares[squares > 0]
    return varying.shape[0] > 0 and float(xp.max(varying)) > _WIDE**2 * float(xp.min(varying))


def _from_root(gram: Array, cross: Array) -> Eigen:
    xp = namespace(gram, cross)
    lengths = xp.sqrt(xp.clip(xp.linalg.diagonal(gram), min=0.0))
    scale = xp.where(lengths > 0, lengths, 1.0)
    shares, P = _positive_part(*descending_eigh(gram / scale[:, None] / scale))
    roots = xp.sqrt(shares)[:, None]
    A = roots * P.T * lengths  # for a column of length 0, rows of P are rounding errors
    codes = (P.T @ (cross / scale[:, None])) / roots
    U, s, Qt = thin_svd(A)
    kept = int(xp.count_nonzero(s > max(A.shape) * xp.finfo(s.dtype).eps * s[0]))
    s = s[:kept]
    return Eigen(s**2, Qt[:kept, :].T, s[:, None] * (U[:, :kept].T @ codes))


def _positive_part(eigenvalues: Array, vectors: Array) -> tuple[Array, Array]:
    """Drop eigenvalues below d · eps · λ₁, which are rounding noise."""
    xp = namespace(eigenvalues)
    floor = vectors.shape[0] * xp.finfo(eigenvalues.dtype).eps * float(eigenvalues[0])
    rank = int(xp.count_nonzero(eigenvalues > max(floor, 0.0)))
    return eigenvalues[:rank], vectors[:, :rank]


def tall_svd(W: npt.NDArray[Any]) -> tuple[_Float64, _Float64, _Float64]:
    """Return U, s and V of a thin singular value decomposition, in double precision.

    It comes from the smaller Gram matrix, unless that would lose small singular values.
    """
    if W.shape[0] < W.shape[1]:
        V, s, U = tall_svd(W.T)
        return U, s, V
    W = W.astype(np.float64)
    s, V = right_singular(W)
    if s[-1] > 1e4 * gram_noise(s):  # U is orthonormal to 1e-8
        return W @ (V / s), s, V
    U, s, Vt = thin_svd(W)
    kept = int(np.count_nonzero(s > max(W.shape) * np.finfo(np.float64).eps * s[0]))
    return U[:, :kept], s[:kept], Vt[:kept].T
