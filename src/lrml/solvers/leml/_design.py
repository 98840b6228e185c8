"""The centred features as a linear map: products, a preconditioner, and the directions to start from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import eigh_tridiagonal

from lrml._arrays import descending_eigh, is_sparse
from lrml.losses import Floats
from lrml.solvers.leml._factors import Float64
from lrml.solvers.leml._terms import DataTerm
from lrml.solvers.leml._validation import Spectrum, ridge_by_validation

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
# The spectrum of X is estimated from random vectors and so many products with each. Then eigenvalues below
# this share of the largest one do not count as directions.
_PROBES, _PRODUCTS_PER_PROBE, _NO_DIRECTION = 8, 20, 1e-12
# Labels are summed with random signs, so many times.
_LABEL_PROBES = 16


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

    def ridge_by_validation(self, term: DataTerm, constants: Float64) -> float:
        """Return the ridge with which least squares predicts the slopes of the loss best, by GCV.

        ``constants`` are the scores at which slopes are taken; for the squared loss they are −2(Y − ȳ).
        Estimated from about 480 products with vectors, and independent of chance: see `_validation`.
        """
        n, n_labels = self.shape[0], len(constants)
        # Σ_l ±g_l for random signs has the mean square length of the whole matrix G.
        count = min(_LABEL_PROBES, n_labels)
        signs = np.eye(n_labels)
        if count < n_labels:
            signs = np.random.default_rng(0).choice([-1.0, 1.0], (n_labels, count)) / np.sqrt(count)
        slopes = term.evaluate(np.zeros((n, count)), signs, constants).rows
        counted = self._weights > 0
        probes = np.divide(
            slopes, np.sqrt(self._weights)[:, None], out=np.zeros_like(slopes), where=counted[:, None]
        )
        lengths = np.einsum("ij,ij->j", probes, probes)
        steps = min(_PRODUCTS_PER_PROBE, *self.shape)
        nodes, shares = _quadrature(self._row_scatter, probes, steps, from_zero=True)
        target = Spectrum(np.maximum(nodes, 0.0).ravel(), (shares * lengths[:, None]).ravel())
        return ridge_by_validation(Spectrum(*self._spectrum()), target, self.total_weight)

    def _spectrum(self) -> tuple[Float64, Float64]:
        """Positive eigenvalues of the scatter matrix, and how many directions each stands for."""
        size = min(self.shape)
        values: Float64 | None = None if self._basis is None else self.spread
        if values is None and size <= _PROBES * _PRODUCTS_PER_PROBE:
            values = descending_eigh(self._scatter(np.eye(size)))[0]
        if values is not None:
            values = values[values > size * np.finfo(np.float64).eps * values.max()]
            return values, np.ones(len(values))
        # Fixed probes: a default must not depend on chance.
        probes = np.random.default_rng(0).standard_normal((size, _PROBES))
        nodes, shares = _quadrature(self._scatter, probes, _PRODUCTS_PER_PROBE)
        values, counts = nodes.ravel(), shares.ravel() * size / _PROBES
        positive = values > _NO_DIRECTION * values.max()
        return values[positive], counts[positive]

    def _scatter(self, V: Float64) -> Float64:
        """XᵀWXV with X centred, or √W XXᵀ √W V with the same eigenvalues if X has fewer rows than columns."""
        n, d = self.shape
        if d <= n:
            return self.transposed(self._weights[:, None] * self.times(V))
        return self._row_scatter(V)

    def _row_scatter(self, V: Float64) -> Float64:
        """√W XXᵀ √W V with X centred."""
        root = np.sqrt(self._weights)[:, None]
        return root * self.times(self.transposed(root * V))

    def divide(self, D: Float64, scale: Float64, shifts: Float64 | float) -> Float64:
        """Solve (spread_i · scale_j + shift_j) E_ij = D_ij, in the basis of the spread."""
        floor = np.finfo(np.float64).eps * float(self.spread.max(initial=0.0) * scale.max(initial=0.0))
        model = np.outer(self.spread, scale)
        model += np.maximum(shifts, max(floor, np.finfo(np.float64).tiny))
        if self._basis is None:
            return D / model
        solution: Float64 = self._basis @ ((self._basis.T @ D) / model)
        return solution


def _quadrature(
    product: Callable[[Float64], Float64], probes: Float64, steps: int, *, from_zero: bool = False
) -> tuple[Float64, Float64]:
    """Return nodes and weights, one row per probe p, such that Σ weight · f(node) is about pᵀf(A)p / pᵀp.

    A is symmetric. For normal probes, the mean times the size is about the trace of f(A).

    With ``from_zero``, for a positive semi-definite A, 0 is a node (Gauss-Radau): then a convex, falling f is
    estimated from above, not from below.

    Stochastic Lanczos quadrature (Ubaru, Chen, Saad 2017), all probes at once. Directions are not made
    orthogonal again: that repeats nodes, but does not spoil the sum.
    """
    n_probes, lengths = probes.shape[1], np.linalg.norm(probes, axis=0)
    last, here = np.zeros_like(probes), probes / np.where(lengths > 0, lengths, 1.0)
    diagonals, offsets = np.zeros((steps, n_probes)), np.zeros((steps, n_probes))
    for step in range(steps):
        there = product(here) - (offsets[step - 1] if step else 0.0) * last
        diagonals[step] = np.einsum("ij,ij->j", here, there)
        there -= diagonals[step] * here
        offsets[step] = np.linalg.norm(there, axis=0)
        last, here = here, there / np.where(offsets[step] > 0, offsets[step], 1.0)
    if from_zero and steps > 1:
        pivots = diagonals[0]
        for step in range(1, steps):
            ratio = np.divide(offsets[step - 1] ** 2, pivots, out=np.zeros(n_probes), where=pivots > 0)
            pivots = diagonals[step] - ratio
        diagonals[-1] = ratio  # the last pivot becomes 0
    rules = [eigh_tridiagonal(diagonals[:, j], offsets[:-1, j]) for j in range(n_probes)]
    return np.array([values for values, _ in rules]), np.array([vectors[0] ** 2 for _, vectors in rules])


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
