"""Spectral coordinates from the rows, for more features than rows: the same problem from the other side.

With rows x_i of weight w_i (a diagonal matrix D, sum w), their means x̄ and X_c = X − 1x̄ᵀ, the n × n matrix

::

    K = D^(1/2) X_c X_cᵀ D^(1/2) = P Λ Pᵀ

has the positive eigenvalues of X_cᵀ D X_c. Its eigenvectors are Q = X_cᵀ A with the *dual vectors*
A = D^(1/2) P Λ^(−1/2), so `SpectralProblem` is the same with A in place of Q: W = X_cᵀ A W̃ has the singular
values of W̃, and QᵀX_cᵀDY = Λ AᵀY. Nothing of the size d × d is made. Only inner products of rows are needed,
so a kernel k(x, z) may take their place.

Aᵀ1 = 0 if the rows are centred, because then K D^(1/2)1 = 0. So the coordinates Qᵀ(x − x̄) = Aᵀ X_c (x − x̄) of
a row follow from its inner products with the rows of X as they are, up to a constant shift.
"""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import Array, Place, is_host, is_sparse, namespace
from lrml.core.linalg import Eigen, descending_eigh, thin_svd
from lrml.core.moments import CentredRows, dense_product

_Float64 = npt.NDArray[np.float64]
_EPS = sys.float_info.epsilon

# Negative eigenvalues up to this are rounding in a kernel of single precision: relative to the largest one,
# or to √n times the largest kernel value, which bounds the norm of random errors in all of them.
_INDEFINITE = 1e-6
# From this number of rows on, the leading directions are tried first.
_MANY_ROWS = 2000
# Size of the Krylov space (1/8 of the rows), and the number of blocks that span it.
_KRYLOV_SHARE, _KRYLOV_DEPTH = 8, 6
# What is left out may raise the optimum by this share.
_RISE = 1e-4
# Largest residual ‖Kq − θq‖ / θ of a direction that is kept.
_RESIDUAL = 0.1
# If the mean eigenvalue of what is left out exceeds this share of the ridge, the rise will exceed _RISE.
_HOPELESS = 0.1


def row_kernel(rows: CentredRows) -> Array:
    """Return X_c X_cᵀ, for sparse X by (X − 1oᵀ)(X − 1oᵀ)ᵀ = XXᵀ − Xo1ᵀ − 1oᵀXᵀ + ‖o‖², o the offset."""
    kernel = dense_product(rows.X, rows.X.T)
    if is_sparse(rows.X):
        along = rows.X @ rows.x_offset
        kernel -= along[:, None] + along - float(rows.x_offset @ rows.x_offset)
    return kernel


def dual_coordinates(
    kernel: Array, rows: CentredRows, size: int, largest: float = 0.0, ridge: float = 0.0
) -> tuple[Eigen, LeftOut]:
    """Decompose a kernel matrix: eigenvalues, dual vectors A (n × r) and Λ AᵀY; at least one direction.

    The matrix is overwritten. Eigenvalues up to size · eps · max(λ₁, largest) are rounding noise, where
    ``largest`` is the largest kernel value before centring, and so are those up to the size of a negative
    one. A constant kernel keeps one direction, with the eigenvalue 1 and nothing to learn. If the ridge is at
    least the one given, many rows may do with the leading directions, unless they are on a device, which
    decomposes 12,920 rows in two seconds; see `LeftOut`.
    """
    xp, n = namespace(kernel), kernel.shape[0]
    roots = xp.sqrt(rows.weights)
    kernel *= roots[:, None]  # in place: n × n numbers are many
    kernel *= roots
    heaviest = float(xp.max(rows.weights))
    if ridge > 0 and n >= _MANY_ROWS and is_host(kernel):
        targets = (rows.Y.toarray() if is_sparse(rows.Y) else rows.Y) - rows.y_offset
        noise = size * _EPS * largest * heaviest
        part = leading_coordinates(kernel, roots[:, None] * targets, ridge, noise)
        if part is not None:
            coordinates, left_out = part
            return coordinates._replace(features=roots[:, None] * coordinates.features), left_out
    eigenvalues, P = descending_eigh(kernel, overwrite=True)
    del kernel
    first, lowest = float(eigenvalues[0]), -float(eigenvalues[-1])
    noise = size * _EPS * max(first, largest * heaviest)
    random_errors = n**0.5 * largest * heaviest
    if lowest > max(_INDEFINITE * max(abs(first), random_errors), noise):
        raise ValueError(
            "a kernel matrix must be positive semi-definite, got one with an eigenvalue of "
            f"{-lowest:.2g} (the largest is {first:.2g}). Use another kernel, such as 'rbf', or set "
            "the negative eigenvalues to zero."
        )
    kept = int(xp.count_nonzero(eigenvalues > max(noise, lowest)))
    eigenvalues, P = eigenvalues[:kept], P[:, :kept]
    if kept == 0:
        return Eigen.of_nothing(n, rows.Y.shape[1], Place.of(roots)), LeftOut()
    dual = roots[:, None] * P
    dual /= xp.sqrt(eigenvalues)
    return Eigen(eigenvalues, dual, eigenvalues[:, None] * _codes(dual, rows)), LeftOut()


def row_coordinates(rows: CentredRows) -> Eigen:
    """Eigenvalues and eigenvectors Q of XᵀDX by the singular value decomposition of dense rows, D^(1/2) X.

    Twice to three times as slow as the kernel matrix, but it keeps features of very different scales apart.
    """
    xp = namespace(rows.X)
    roots = xp.sqrt(rows.weights)
    P, s, Qt = thin_svd(rows.X * roots[:, None])
    kept = int(xp.count_nonzero(s > max(rows.X.shape) * _EPS * s[0]))
    if kept == 0:
        return Eigen.of_nothing(rows.X.shape[1], rows.Y.shape[1], Place.of(s))
    P, s, Q = P[:, :kept], s[:kept], Qt[:kept, :].T
    return Eigen(s**2, Q, s[:, None] * _codes(roots[:, None] * P, rows))


def _codes(vectors: Array, rows: CentredRows) -> Array:
    """Return Aᵀ(Y − 1oᵀ), o the offset of Y."""
    return (rows.Y.T @ vectors).T - namespace(vectors).sum(vectors, axis=0)[:, None] * rows.y_offset


# A part of the directions


class LeftOut(NamedTuple):
    """What a subspace of directions leaves out, and by how much that can raise the optimum.

    With E = ‖Y⊥‖² and m = ⟨Y⊥, K Y⊥⟩ / E for the part Y⊥ of Y that no model in the subspace reaches, and c
    the norm of what is left out of K on the rest, the optimum F of the confined problem is above F* by

    ::

        F − F* ≤ ( √(E m / (m + ridge)) + √(c / ridge · (F − E)) )²;    docs/kernels.md says why.
    """

    energy: float = 0.0  # E
    mean: float = 0.0  # m
    coupling: float = 0.0  # c

    def rise(self, ridge: float, objective: float) -> float:
        """Bound of F − F* at this positive ridge, given F; 0 if nothing is left out."""
        if self == LeftOut():
            return 0.0
        straight = self.energy * self.mean / (self.mean + ridge)
        coupled = self.coupling / ridge * max(objective - self.energy, 0.0)
        return (math.sqrt(straight) + math.sqrt(coupled)) ** 2


def leading_coordinates(
    kernel: _Float64, targets: _Float64, ridge: float, noise: float
) -> tuple[Eigen, LeftOut] | None:
    """Coordinates in a space of n/8 directions, if it raises the optimum by at most 1e-4 of it; else None.

    The block Krylov space takes a few percent of the time of a whole decomposition. If it is clear from the
    trace and ‖K‖_F that it cannot suffice, that costs nothing. The ridge is positive; eigenvalues have
    rounding errors of size ``noise``, or of n · eps · λ₁ if that is more.
    """
    n = len(kernel)
    width = n // (_KRYLOV_SHARE * _KRYLOV_DEPTH)
    # The leading k eigenvalues add up to at most √k ‖K‖_F. If the others are large on average, all matter.
    rest = float(np.trace(kernel)) - float(np.linalg.norm(kernel)) * (width * _KRYLOV_DEPTH) ** 0.5
    if rest / n > _HOPELESS * ridge:
        return None
    values, Q, images = _ritz_pairs(kernel, width)
    if values[-1] < -_INDEFINITE * values[0]:
        return None  # the whole decomposition will tell how far
    # Vectors far from an eigenvector couple what is kept with what is left out.
    residuals = np.linalg.norm(images - Q * values, axis=0)
    floor = max(noise, n * np.finfo(np.float64).eps * float(values[0]))
    kept = (residuals <= _RESIDUAL * values) & (values > floor)
    if not kept.any():
        return None
    roots = np.sqrt(values[kept])
    Z = images[:, kept] / roots  # rows in an orthonormal basis of the subspace
    eigenvalues, S = descending_eigh(Z.T @ Z)
    rows = Z @ S
    basis = rows / np.sqrt(eigenvalues)
    codes = basis.T @ targets
    others = targets - basis @ codes
    energy = float(np.vdot(others, others))
    mean = max(float(np.vdot(others, kernel @ others)), 0.0) / (energy or 1.0)
    coupling = np.linalg.eigvalsh(basis.T @ (kernel @ basis) - np.diag(eigenvalues))[-1]
    left_out = LeftOut(energy, mean, max(float(coupling), 0.0))
    # The optimum is at least that of the ridge alone; 1 / (λ + ridge) is convex. It is at most ‖Y‖².
    shrunk = ridge / (eigenvalues + ridge)
    rise = left_out.rise(ridge, energy + float(np.vdot(codes, codes)))
    least = float(np.vdot(shrunk[:, None] * codes, codes)) + energy * ridge / (mean + ridge) - rise
    if rise > _RISE * least:
        return None
    return Eigen(eigenvalues, (Q[:, kept] / roots) @ S, rows.T @ targets), left_out


def _ritz_pairs(kernel: _Float64, width: int) -> tuple[_Float64, _Float64, _Float64]:
    """Ritz values (descending) and vectors Q of a block Krylov space, and KQ."""
    n = len(kernel)
    V = np.empty((n, width * _KRYLOV_DEPTH))
    images = np.empty_like(V)
    random = np.random.default_rng(0)  # repeatable; any start will do
    block = kernel @ random.standard_normal((n, width))  # orthogonal to the null space of the kernel
    for start in range(0, V.shape[1], width):
        done = V[:, :start]
        for _ in range(2):  # once is not enough for orthogonality
            block = np.linalg.qr(block - done @ (done.T @ block))[0]
        V[:, start : start + width] = block
        images[:, start : start + width] = block = kernel @ block
    values, S = descending_eigh(V.T @ images)
    return values, V @ S, images @ S
