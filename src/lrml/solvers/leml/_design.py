"""The centred features as a linear map: products, a preconditioner, and the directions to start from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml._arrays import descending_eigh, is_sparse
from lrml.losses import Floats
from lrml.solvers.leml._factors import Float64
from lrml.solvers.leml._terms import DataTerm

_Precision = TypeVar("_Precision", bound=np.floating[Any])
# An eigendecomposition takes about 10 d³ operations at the speed of BLAS; operations on nonzeros are slower.
_EIGEN, _SLOWDOWN = 10, 10
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
    """X − 1x̄ᵀ, never formed if X is sparse; X is in double precision.

    With ``center`` the weighted means of the columns are subtracted, and the intercept is the score at the
    mean. ``spread`` is Σ_i w_i (x_ij − x̄_j)², or the eigenvalues of the scatter matrix after `diagonalise`.
    """

    def __init__(self, X: Any, weights: Float64 | None, *, center: bool) -> None:
        w = np.ones(X.shape[0]) if weights is None else weights
        self._weights, self._sparse = w, is_sparse(X)
        self.mean: Float64 = np.asarray(X.T @ w) / w.sum() if center else np.zeros(X.shape[1])
        self._X = X
        with np.errstate(over="ignore"):  # checked below, with a remedy
            if self._sparse:
                squares = np.asarray(X.multiply(X).T @ w) - w.sum() * self.mean**2
            else:
                # A copy, which keeps digits that x·z − x̄·z would lose.
                self._X = X - self.mean if center else X
                squares = np.einsum("ij,ij,i->j", self._X, self._X, w)
        if not np.all(np.isfinite(squares)):
            raise ValueError(
                "the squares of X must stay below 1e308, got features that overflow. "
                "Divide X by a constant, or scale it with StandardScaler."
            )
        self.spread: Float64 = np.maximum(squares, 0.0)
        self._variances = self.spread
        self._basis: Float64 | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of examples and features."""
        return int(self._X.shape[0]), int(self._X.shape[1])

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the examples."""
        return float(self._weights.sum())

    def times(self, D: npt.NDArray[_Precision]) -> npt.NDArray[_Precision]:
        """(X − 1x̄ᵀ)D for D of shape (d, k), in the precision of D."""
        product: npt.NDArray[_Precision] = np.asarray(self._in(D.dtype) @ D)
        if self._sparse:
            product -= self.mean.astype(D.dtype) @ D
        return product

    def transposed(self, M: Floats) -> Float64:
        """(X − 1x̄ᵀ)ᵀM for M of shape (n, k), computed in the precision of M."""
        product: Float64 = np.asarray(self._in(M.dtype).T @ M).astype(np.float64, copy=False)
        if self._sparse:
            product -= np.outer(self.mean, M.sum(axis=0, dtype=np.float64))
        return product

    def sandwich(self, between: Callable[[Floats], Floats], D: Float64) -> Float64:
        """Xᵀ between(XD), X centred; in single precision, twice as fast, if X allows."""
        dtype = np.float64 if self._single is None else np.float32
        return self.transposed(np.asarray(between(self.times(D.astype(dtype, copy=False))), dtype=dtype))

    def _in(self, dtype: Any) -> Any:
        return self._single if dtype == np.float32 else self._X

    @cached_property
    def _single(self) -> Any:
        """X in single precision; None if its numbers are too large or small, or far from zero."""
        stored = self._X.nnz if self._sparse else self._X.size
        largest = float(abs(self._X).max()) if stored else 0.0
        if not _SINGLE_RANGE[0] < largest < _SINGLE_RANGE[1]:
            return None
        if not self._sparse:
            return self._X.astype(np.float32)
        offset = self._weights.sum() * self.mean**2
        varies = self._variances > _CONSTANT * offset
        if np.any(offset[varies] > _FAR * self._variances[varies]):
            return None  # x·z − x̄·z would be the difference of two large numbers
        X = self._X
        return sp.csr_array((X.data.astype(np.float32), X.indices, X.indptr), shape=X.shape)

    def weighted_gram(self, A: Float64) -> Float64:
        """AᵀWA for A of shape (n, k)."""
        gram: Float64 = A.T @ (self._weights[:, None] * A)
        return gram

    def diagonalise(self) -> None:
        """Decompose the d × d scatter matrix, for a better preconditioner: O(nd² + d³)."""
        if self._sparse:
            scaled = self._X.multiply(self._weights[:, None]).tocsr()
            gram = (self._X.T @ scaled).toarray() - self._weights.sum() * np.outer(self.mean, self.mean)
        else:
            gram = self._X.T @ (self._weights[:, None] * self._X)
        eigenvalues, self._basis = descending_eigh(gram)
        self.spread = np.maximum(eigenvalues, 0.0)

    def divide(self, D: Float64, scale: Float64, shifts: Float64 | float) -> Float64:
        """Solve (spread_i · scale_j + shift_j) E_ij = D_ij, in the basis of the spread."""
        floor = np.finfo(np.float64).eps * float(self.spread.max(initial=0.0) * scale.max(initial=0.0))
        model = np.outer(self.spread, scale)
        model += np.maximum(shifts, max(floor, np.finfo(np.float64).tiny))
        if self._basis is None:
            return D / model
        solution: Float64 = self._basis @ ((self._basis.T @ D) / model)
        return solution


def features_cost(X: Any, rank: int) -> float:
    """Operations of a product of X and one of Xᵀ with k columns."""
    return 4.0 * rank * float(_SLOWDOWN * X.nnz if is_sparse(X) else X.size)


def gram_cost(X: Any) -> float:
    """Operations that give the d × d Gram matrix and its eigenvectors."""
    n, d = X.shape
    products = _SLOWDOWN * X.nnz**2 / n if is_sparse(X) else n * d**2
    return float(products) + _EIGEN * float(d) ** 3


def precondition(design: Design, X: Any, n_labels: int, rank: int) -> None:
    """Decompose the scatter matrix of X if that is cheap compared with the fit."""
    product = features_cost(X, rank) + 4.0 * X.shape[0] * rank * n_labels
    if X.shape[1] <= _MOST_FEATURES and gram_cost(X) <= _PRODUCTS_FOR_A_BASIS * product:
        design.diagonalise()


def spectral_start(
    design: Design, term: DataTerm, constants: Float64, rank: int, random: np.random.RandomState
) -> tuple[Float64, float]:
    """Leading left singular vectors of ∇f(0) = XᵀG by subspace iteration from random labels, and ‖∇f(0)‖₂.

    The slopes G are taken at the scores ``constants`` of the model without features. Each vector has the
    length of a Newton step along it. The norm, the least alpha whose solution is zero, is approached from
    below, to about a percent.
    """
    n, d = design.shape
    count = min(rank + _OVERSAMPLING, d, len(constants))
    no_rows, no_labels = np.zeros((n, count)), np.zeros((len(constants), count))
    labels = random.standard_normal((len(constants), count))
    for _ in range(_POWER_ITERATIONS):
        gradient = design.transposed(term.evaluate(no_rows, labels, constants).rows)
        basis, _ = np.linalg.qr(gradient)
        A = design.times(basis)
        images = term.evaluate(A, no_labels, constants).labels  # GᵀXQ
        labels, _ = np.linalg.qr(images)
    mix, sigma, _ = np.linalg.svd(images.T, full_matrices=False)
    mix = mix[:, :rank]
    bend = np.einsum("ij,ij->j", A @ mix, A @ mix)
    lengths = np.sqrt(np.divide(sigma[:rank], bend, out=np.zeros(rank), where=bend > 0))
    return (basis @ mix) * lengths, float(sigma[0])
