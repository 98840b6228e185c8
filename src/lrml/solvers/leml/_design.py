"""The centred features as a linear map: products, a preconditioner, and the directions to start from."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from lrml._arrays import Array, Place, descending_eigh, dtype_name, is_host, is_sparse
from lrml.solvers.leml._factors import EPS, TINY, LinearMap, column_dots, quotient
from lrml.solvers.leml._terms import DataTerm

# An eigendecomposition takes about 10 d³ operations at the speed of BLAS; operations on nonzeros are slower.
EIGEN, _SLOWDOWN = 10, 10
# A preconditioner may cost this many products with a Hessian, and 200 MB.
_PRODUCTS_FOR_A_BASIS, _MOST_FEATURES = 20, 5000
_POWER_ITERATIONS = 3
# Extra directions, which make the last of the wanted ones more accurate.
_OVERSAMPLING = 8
# Magnitudes of X whose products stay within single precision.
_SINGLE_RANGE = (1e-10, 1e10)
# Squared means, in units of the variance, that leave five digits of a difference; and what is a constant.
_FAR, _CONSTANT = 1e4, 1e-14


class Design:
    """X − 1x̄ᵀ, never formed if X is sparse; X is in double precision, in host memory or on a device.

    With ``center`` the weighted means of the columns are subtracted, and the intercept is the score at the
    mean. ``spread`` is Σ_i w_i (x_ij − x̄_j)², or the eigenvalues of the scatter matrix after `diagonalise`.
    """

    def __init__(self, X: Any, weights: Array | None, *, center: bool) -> None:
        self.place = Place.of(X)
        xp = self.place.xp
        w = self.place.ones(X.shape[0]) if weights is None else weights
        self._weights, self._sparse = w, is_sparse(X)
        self.mean: Array = (X.T @ w) / xp.sum(w) if center else self.place.zeros(X.shape[1])
        self._X = X
        with np.errstate(over="ignore"):  # checked below, with a remedy
            if self._sparse:
                squares = np.asarray(X.multiply(X).T @ w) - w.sum() * self.mean**2
            else:
                # A copy, which keeps digits that x·z − x̄·z would lose.
                self._X = X - self.mean if center else X
                squares = _weighted_squares(self._X, w)
        if not bool(xp.all(xp.isfinite(squares))):
            raise ValueError(
                "the squares of X must stay below 1e308, got features that overflow. "
                "Divide X by a constant, or scale it with StandardScaler."
            )
        self.spread: Array = xp.maximum(squares, 0.0)
        self._variances = self.spread
        self._basis: Array | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of examples and features."""
        return int(self._X.shape[0]), int(self._X.shape[1])

    @cached_property
    def total_weight(self) -> float:
        """Sum of the weights of the examples."""
        return float(self.place.xp.sum(self._weights))

    def times(self, D: Array) -> Array:
        """(X − 1x̄ᵀ)D for D of shape (d, k), in the precision of D."""
        product = self._in(D) @ D
        if self._sparse:
            product -= self.mean.astype(D.dtype) @ D
        return product

    def transposed(self, M: Array) -> Array:
        """(X − 1x̄ᵀ)ᵀM for M of shape (n, k), computed in the precision of M."""
        product = self.place.asarray(self._in(M).T @ M, "float64")
        if self._sparse:
            product -= np.outer(self.mean, M.sum(axis=0, dtype=np.float64))
        return product

    def sandwich(self, between: Callable[[Array], Array], D: Array) -> Array:
        """Xᵀ between(XD), X centred; in single precision, twice as fast, if X allows."""
        dtype = "float64" if self._single is None else "float32"
        image = between(self.times(self.place.asarray(D, dtype)))
        return self.transposed(self.place.asarray(image, dtype))

    def _in(self, operand: Array) -> Any:
        """X in the precision of what it is multiplied by."""
        return self._single if dtype_name(operand) == "float32" else self._X

    @cached_property
    def _single(self) -> Any:
        """X in single precision; None if its numbers are too large or small, or far from zero."""
        X = self._X
        stored = X.nnz if self._sparse else math.prod(X.shape)
        largest = float(abs(X).max() if self._sparse else self.place.xp.max(abs(X))) if stored else 0.0
        if not _SINGLE_RANGE[0] < largest < _SINGLE_RANGE[1]:
            return None
        if not self._sparse:
            return self.place.asarray(X, "float32")
        offset = self._weights.sum() * self.mean**2
        varies = self._variances > _CONSTANT * offset
        if np.any(offset[varies] > _FAR * self._variances[varies]):
            return None  # x·z − x̄·z would be the difference of two large numbers
        return sp.csr_array((X.data.astype(np.float32), X.indices, X.indptr), shape=X.shape)

    def weighted_gram(self, A: Array) -> Array:
        """AᵀWA for A of shape (n, k)."""
        return A.T @ (self._weights[:, None] * A)

    def diagonalise(self) -> None:
        """Decompose the d × d scatter matrix, for a better preconditioner: O(nd² + d³)."""
        if self._sparse:
            scaled = self._X.multiply(self._weights[:, None]).tocsr()
            gram = (self._X.T @ scaled).toarray() - self._weights.sum() * np.outer(self.mean, self.mean)
        else:
            gram = self._X.T @ (self._weights[:, None] * self._X)
        eigenvalues, self._basis = descending_eigh(gram)
        self.spread = self.place.xp.maximum(eigenvalues, 0.0)

    def divider(self, scale: Array, shifts: Array) -> LinearMap:
        """Return D ↦ E with (spread_i · scale_j + shift_j) E_ij = D_ij, in the basis of the spread."""
        xp, basis = self.place.xp, self._basis
        floor = EPS * float(xp.max(self.spread) * xp.max(scale))
        model = self.spread[:, None] * scale
        model += xp.maximum(shifts, max(floor, TINY))
        if basis is None:
            return lambda D: D / model
        return lambda D: basis @ ((basis.T @ D) / model)


def _weighted_squares(X: Array, weights: Array) -> Array:
    """Σ_i w_i x_ij²."""
    if is_host(X):
        return np.einsum("ij,ij,i->j", X, X, weights)
    return column_dots(X, weights[:, None] * X)


def features_cost(X: Any, rank: int) -> float:
    """Operations of a product of X and one of Xᵀ with k columns."""
    return 4.0 * rank * float(_SLOWDOWN * X.nnz if is_sparse(X) else math.prod(X.shape))


def gram_cost(X: Any) -> float:
    """Operations that give the d × d Gram matrix and its eigenvectors."""
    n, d = X.shape
    products = _SLOWDOWN * X.nnz**2 / n if is_sparse(X) else n * d**2
    return float(products) + EIGEN * float(d) ** 3


def precondition(design: Design, X: Any, n_labels: int, rank: int) -> None:
    """Decompose the scatter matrix of X if that is cheap compared with the fit."""
    product = features_cost(X, rank) + 4.0 * X.shape[0] * rank * n_labels
    if X.shape[1] <= _MOST_FEATURES and gram_cost(X) <= _PRODUCTS_FOR_A_BASIS * product:
        design.diagonalise()


def spectral_start(
    design: Design, term: DataTerm, constants: Array, rank: int, random: np.random.RandomState
) -> tuple[Array, float]:
    """Leading left singular vectors of ∇f(0) = XᵀG by subspace iteration from random labels, and ‖∇f(0)‖₂.

    The slopes G are taken at the scores ``constants`` of the model without features. Each vector has the
    length of a Newton step along it. The norm, the least alpha whose solution is zero, is approached from
    below, to about a percent.
    """
    (n, d), n_labels = design.shape, constants.shape[0]
    place, linalg = design.place, design.place.xp.linalg
    count = min(rank + _OVERSAMPLING, d, n_labels)
    no_rows, no_labels = place.zeros((n, count)), place.zeros((n_labels, count))
    labels = place.asarray(random.standard_normal((n_labels, count)))
    for _ in range(_POWER_ITERATIONS):
        gradient = design.transposed(term.evaluate(no_rows, labels, constants).rows)
        basis, _ = linalg.qr(gradient, mode="reduced")
        A = design.times(basis)
        images = term.evaluate(A, no_labels, constants).labels  # GᵀXQ
        labels, _ = linalg.qr(images, mode="reduced")
    mix, sigma, _ = linalg.svd(images.T, full_matrices=False)
    mix = mix[:, :rank]
    codes = A @ mix
    bend = column_dots(codes, codes)
    lengths = quotient(sigma[:rank], bend, bend > 0) ** 0.5
    return (basis @ mix) * lengths, float(sigma[0])
