"""Decompositions: the factors of a matrix; eigenvectors of XᵀX, accurate whatever the scale of a feature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lrml.core.arrays import Array, Place, descending_eigh, namespace, thin_svd
from lrml.core.moments import Moments

# If the column lengths of X differ by more than this, an eigendecomposition of XᵀX would lose digits of the
# short ones, because eigenvalues have an error of eps · λ₁.
_WIDE = 1e3


class Factors(NamedTuple):
    """Thin singular value decomposition W = U diag(s) Vᵀ: U is d × k, s descending, V is L × k."""

    U: Array
    s: Array
    V: Array

    @classmethod
    def of(cls, matrix: Array) -> Factors:
        """Decompose a matrix."""
        U, s, Vt = thin_svd(matrix)
        return cls(U, s, Vt.T)

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
    if _is_wide(moments):
        return _from_root(moments)
    gram, cross, _, _ = moments.summed()
    xp = namespace(gram, cross)
    eigenvalues, Q = _positive_part(*descending_eigh(gram))
    if eigenvalues.shape[0] == 0:
        place = Place.of(gram)
        return Eigen(place.ones(1), place.zeros((gram.shape[0], 1)), xp.zeros_like(cross[:1, :]))
    return Eigen(eigenvalues, Q, Q.T @ cross)


def _is_wide(moments: Moments) -> bool:
    squares = namespace(moments.gram).linalg.diagonal(moments.gram)
    return differ_widely(squares, squares if moments.further is None else squares + moments.further[0] ** 2)


def differ_widely(squares: Array, lengths: Array) -> bool:
    """Whether the longest column of X is beyond comparison with the shortest one that varies.

    ``squares`` are those of the centred columns, ``lengths`` those of the columns as the model sees them.
    """
    xp = namespace(squares)
    varying = squares[squares > 0]
    if varying.shape[0] == 0:
        return False
    return float(xp.max(lengths)) > _WIDE**2 * float(xp.min(varying))


def _from_root(moments: Moments) -> Eigen:
    gram, cross, _, further = moments
    xp = namespace(gram, cross)
    squares = xp.linalg.diagonal(gram)
    scale = xp.sqrt(xp.where(squares > 0, squares, xp.ones_like(squares)))
    shares, P = _positive_part(*descending_eigh(gram / scale[:, None] / scale))
    roots = xp.sqrt(shares)[:, None]
    A = roots * P.T * scale
    codes = (P.T @ (cross / scale[:, None])) / roots
    if further is not None:
        A = xp.concat([A, further[0][None, :]])
        codes = xp.concat([codes, further[1][None, :]])
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
