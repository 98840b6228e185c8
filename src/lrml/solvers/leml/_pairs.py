"""Any loss, with few known labels: scores at the known pairs of example and label only."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml._arrays import is_sparse
from lrml.losses import Floats, Loss
from lrml.rows import Rows
from lrml.solvers.leml._balance import Float64
from lrml.solvers.leml._terms import Evaluation

# Rows of A and H are gathered for this many numbers at a time: 16 MiB.
_CHUNK = 1 << 21


class Pairs:
    """Σ w_i ℓ(y_il, s_il) over the known pairs; an evaluation costs O(k) for each.

    Parameters
    ----------
    rows : Rows
        With a mask; X is not looked at.
    loss : Loss
    known : CSR array of shape (n, L)
        Where labels are known; the stored values do not matter.
    """

    def __init__(self, rows: Rows, loss: Loss, known: sp.csr_array) -> None:
        self.loss = loss
        known.sum_duplicates()
        self._shape, self._indptr, self.columns = known.shape, known.indptr, known.indices
        self.row_numbers: npt.NDArray[Any] = np.repeat(np.arange(known.shape[0]), np.diff(known.indptr))
        self._y = _labels_at(rows.Y, known, self.row_numbers)
        self._w = None if rows.weights is None else rows.weights[self.row_numbers]
        self._total = rows.total_weight

    def matrix(self, values: Floats) -> sp.csr_array:
        """Return the n × L matrix with one value at each pair."""
        return sp.csr_array((values, self.columns, self._indptr), shape=self._shape)

    def products(self, A: Floats, H: Float64) -> Float64:
        """a_i · h_l at each pair."""
        out = np.empty(len(self.columns))
        step = max(1, _CHUNK // A.shape[1])
        for start in range(0, len(out), step):
            part = slice(start, start + step)
            np.einsum("pk,pk->p", A[self.row_numbers[part]], H[self.columns[part]], out=out[part])
        return out

    def by_label(self, values: Floats) -> Float64:
        """Sum of the values of each label."""
        sums = np.bincount(self.columns, weights=values, minlength=self._shape[1])
        return sums.astype(np.float64, copy=False)

    def _terms(self, A: Float64, H: Float64, c: Float64) -> tuple[Floats, ...]:
        terms = self.loss.terms(self._y, self.products(A, H) + c[self.columns])
        return tuple(terms) if self._w is None else tuple(part * self._w for part in terms)

    def evaluate(self, A: Float64, H: Float64, c: Float64) -> Evaluation:
        """Evaluate at the pairs."""
        values, slopes, _ = self._terms(A, H, c)
        G = self.matrix(slopes)
        return Evaluation(self.by_label(values), G @ H, G.T @ A, self.by_label(slopes))

    def curvature(self, A: Float64, H: Float64, c: Float64) -> PairsCurvature:
        """Return the second derivatives, one number for each pair."""
        curvatures = self._terms(A, H, c)[2]
        return PairsCurvature(self, A, H, curvatures, self.by_label(curvatures) / self._total)


class PairsCurvature:
    """Products with the second derivatives at the known pairs."""

    def __init__(self, pairs: Pairs, A: Float64, H: Float64, curvatures: Floats, means: Float64) -> None:
        self._pairs, self._A, self._H, self._C, self.means = pairs, A, H, curvatures, means

    def along_rows(self, E: Floats) -> Floats:
        """(C ∘ EHᵀ)H."""
        product: Floats = self._pairs.matrix(self._C * self._pairs.products(E, self._H)) @ self._H
        return product

    def along_labels(self, D: Float64, e: Float64) -> tuple[Float64, Float64]:
        """SᵀA and Sᵀ1 with S = C ∘ (ADᵀ + 1eᵀ)."""
        S = self._C * (self._pairs.products(self._A, D) + e[self._pairs.columns])
        return self._pairs.matrix(S).T @ self._A, self._pairs.by_label(S)


def _labels_at(Y: Any, known: sp.csr_array, row_numbers: npt.NDArray[Any]) -> Float64:
    """Labels at the known pairs, in their order."""
    if not is_sparse(Y):
        return np.asarray(Y[row_numbers, known.indices], dtype=np.float64)
    # 2 + y at every known pair: no entry of the sum can vanish, and none of Y lies elsewhere.
    marks = sp.csr_array((np.full(known.nnz, 2.0), known.indices, known.indptr), shape=known.shape)
    labels: Float64 = sp.csr_array(marks + Y).data - 2.0
    return labels
