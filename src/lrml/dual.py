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

import numpy as np
import numpy.typing as npt

from lrml._arrays import descending_eigh, is_sparse, thin_svd
from lrml.problem import Coordinates
from lrml.statistics import CentredRows, dense_product

_Float64 = npt.NDArray[np.float64]

# Negative eigenvalues up to this, relative to the largest, are rounding in a kernel of single precision.
_INDEFINITE = 1e-6


def centred_kernel(kernel: _Float64, weights: _Float64) -> tuple[_Float64, _Float64]:
    """Centre a kernel matrix as if its rows were, K_c = C K Cᵀ with C = I − 1wᵀ/Σw; and the means Kw/Σw."""
    share = weights / weights.sum()
    means = kernel @ share
    return kernel - means[:, None] - means + share @ means, means


def row_kernel(rows: CentredRows) -> _Float64:
    """Return X_c X_cᵀ, for sparse X by (X − 1oᵀ)(X − 1oᵀ)ᵀ = XXᵀ − Xo1ᵀ − 1oᵀXᵀ + ‖o‖², o the offset."""
    kernel = dense_product(rows.X, rows.X.T)
    if is_sparse(rows.X):
        along = rows.X @ rows.x_offset
        kernel -= along[:, None] + along - float(rows.x_offset @ rows.x_offset)
    return kernel


def dual_coordinates(kernel: _Float64, rows: CentredRows, size: int, largest: float = 0.0) -> Coordinates:
    """Decompose a kernel matrix: eigenvalues, dual vectors A (n × r) and Λ AᵀY; at least one direction.

    Eigenvalues up to size · eps · max(λ₁, largest) are rounding noise, where ``largest`` is the largest
    kernel value before centring, and so are those up to the size of a negative one. A constant kernel keeps
    one direction, with the eigenvalue 1 and nothing to learn.
    """
    roots = np.sqrt(rows.weights)
    scaled = kernel * roots[:, None] * roots
    eigenvalues, P = descending_eigh(scaled)
    noise = size * np.finfo(np.float64).eps * max(float(eigenvalues[0]), largest * rows.weights.max())
    lowest = -float(eigenvalues[-1])
    if lowest > max(_INDEFINITE * abs(float(eigenvalues[0])), noise):
        raise ValueError(
            "a kernel matrix must be positive semi-definite, got one with an eigenvalue of "
            f"{-lowest:.2g} (the largest is {eigenvalues[0]:.2g}). Use another kernel, such as 'rbf', or set "
            "the negative eigenvalues to zero."
        )
    kept = int(np.count_nonzero(eigenvalues > max(noise, lowest)))
    eigenvalues, P = eigenvalues[:kept], P[:, :kept]
    if len(eigenvalues) == 0:
        n, n_labels = rows.Y.shape
        return Coordinates(np.ones(1), np.zeros((n, 1)), np.zeros((1, n_labels)))
    dual = roots[:, None] * P / np.sqrt(eigenvalues)
    return Coordinates(eigenvalues, dual, eigenvalues[:, None] * _codes(dual, rows))


def row_coordinates(rows: CentredRows) -> Coordinates:
    """Eigenvalues and eigenvectors Q of XᵀDX by the singular value decomposition of dense rows, D^(1/2) X.

    Twice to three times as slow as the kernel matrix, but it keeps features of very different scales apart.
    """
    roots = np.sqrt(rows.weights)
    P, s, Qt = thin_svd(rows.X * roots[:, None])
    kept = int(np.count_nonzero(s > max(rows.X.shape) * np.finfo(s.dtype).eps * s[0]))
    if kept == 0:
        return Coordinates(np.ones(1), np.eye(len(Qt.T), 1), np.zeros((1, rows.Y.shape[1])))
    P, s, Q = P[:, :kept], s[:kept], Qt[:kept].T
    return Coordinates(s**2, Q, s[:, None] * _codes(roots[:, None] * P, rows))


def _codes(vectors: _Float64, rows: CentredRows) -> _Float64:
    """Return Aᵀ(Y − 1oᵀ), o the offset of Y."""
    codes: _Float64 = np.asarray(rows.Y.T @ vectors).T - vectors.sum(axis=0)[:, None] * rows.y_offset
    return codes
