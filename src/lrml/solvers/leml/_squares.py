"""Squared loss with all labels known: everything through k × k matrices and products with a sparse Y."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml._arrays import is_sparse
from lrml.losses import Floats
from lrml.solvers.leml._balance import Float64
from lrml.solvers.leml._terms import Evaluation

# Products with a matrix of fewer nonzeros are faster in CSR.
_SPARSE_BELOW = 0.1


class Squares:
    """Σ w_i (y_il − s_il)²; an evaluation costs O(nk² + nnz(Y) k).

    Parameters
    ----------
    Y : array or CSR array of shape (n, L)
    weights : array of shape (n,) or None
    """

    def __init__(self, Y: Any, weights: Float64 | None = None) -> None:
        few = is_sparse(Y) or np.count_nonzero(Y) < _SPARSE_BELOW * Y.size
        make: Any = sp.csr_array if few else np.asarray
        self.Y = make(Y, dtype=np.float64)
        self.weights = np.ones(Y.shape[0]) if weights is None else weights
        self.total = float(self.weights.sum())
        self.sums = self._sums(self.Y)
        self.squares = self._sums(self.Y.multiply(self.Y) if few else self.Y**2)

    def _sums(self, matrix: Any) -> Float64:
        sums: Float64 = np.asarray(matrix.T @ self.weights)
        return sums

    def evaluate(self, A: Float64, H: Float64, c: Float64) -> Evaluation:
        """Expand the square, so that no scores are needed."""
        weighted = self.weights[:, None] * A
        gram, sums = A.T @ weighted, weighted.sum(axis=0)
        products = np.asarray(self.Y.T @ weighted)  # YᵀWA
        fitted = H @ gram
        mean = H @ sums
        values = np.einsum("lk,lk->l", fitted - 2.0 * products, H)
        values += c * (2.0 * (mean - self.sums) + self.total * c) + self.squares
        rows = A @ (H.T @ H)
        rows += c @ H
        rows -= self.Y @ H
        rows *= 2.0 * self.weights[:, None]
        return Evaluation(
            np.maximum(values, 0.0),
            rows,
            2.0 * (fitted + np.outer(c, sums) - products),
            2.0 * (mean + self.total * c - self.sums),
        )

    def curvature(self, A: Float64, H: Float64, c: Float64) -> SquaresCurvature:
        """Return 2w_i for every label."""
        return SquaresCurvature(A, H, self.weights)


class SquaresCurvature:
    """C_il = 2w_i: products with k × k matrices."""

    def __init__(self, A: Float64, H: Float64, weights: Float64) -> None:
        self.means: Float64 = np.full(len(H), 2.0)
        self._doubled: npt.NDArray[np.float64] = 2.0 * weights[:, None]
        self._label_gram = H.T @ H
        weighted = self._doubled * A
        self._gram, self._sums, self._total = A.T @ weighted, weighted.sum(axis=0), float(self._doubled.sum())

    def along_rows(self, E: Floats) -> Floats:
        """2w E HᵀH."""
        product: Floats = E @ self._label_gram.astype(E.dtype)
        product *= self._doubled
        return product

    def along_labels(self, D: Float64, e: Float64) -> tuple[Float64, Float64]:
        """2(D AᵀWA + e 1ᵀWA) and 2(D AᵀW1 + e 1ᵀw)."""
        return D @ self._gram + np.outer(e, self._sums), D @ self._sums + self._total * e
