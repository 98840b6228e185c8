"""The observed entries of a matrix, and what is read or fitted at them alone."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils import check_array

from lrml.core.arrays import is_sparse, to_host
from lrml.solvers import Factors

Floats = npt.NDArray[np.float64]
# Numbers gathered at a time when a factor is read at many entries, and in the stacked systems of some rows.
_GATHER, _BATCH = 1 << 20, 1 << 21
# Squares of entries beyond these sizes overflow, or vanish.
_SMALLEST, _LARGEST = 1e-140, 1e140
# Weight of the old coefficients beside the unit length of a basis vector: keeps systems regular.
_PROXIMAL = 1e-9


class Observed:
    """Observed entries Ω of an m × n matrix, each pair once, sorted by row and then by column."""

    def __init__(self, shape: tuple[int, int], rows: Any, cols: Any, values: Floats) -> None:
        order = np.lexsort((cols, rows))
        self.shape = shape
        self.rows, self.cols, self.values = rows[order], cols[order], values[order]
        self.row_starts = np.searchsorted(self.rows, np.arange(shape[0] + 1))

    @classmethod
    def of(cls, M: Any) -> Observed:
        """Read a dense matrix (all but NaN is observed) or a sparse one (all that is stored)."""
        matrix: Any = check_array(
            to_host(M), accept_sparse="coo", dtype=np.float64, ensure_all_finite=False, input_name="M"
        )
        rows, cols = (matrix.row, matrix.col) if is_sparse(matrix) else np.nonzero(~np.isnan(matrix))
        values = matrix.data if is_sparse(matrix) else matrix[rows, cols]
        known = ~np.isnan(values)
        found = cls(matrix.shape, rows[known], cols[known], values[known])
        twice = np.flatnonzero((np.diff(found.rows) == 0) & (np.diff(found.cols) == 0))
        if len(twice):  # SciPy would add them, which may not be meant
            raise ValueError(
                f"M stores row {found.rows[twice[0]]}, column {found.cols[twice[0]]} twice. "
                "Add such entries up with M.sum_duplicates(), or drop one."
            )
        if len(found.values) == 0:
            raise ValueError(
                "M has no observed entry. Mark only missing entries as NaN, or store the others."
            )
        largest = int(np.argmax(np.abs(found.values)))
        size = abs(found.values[largest])
        if size > 0 and not _SMALLEST <= size <= _LARGEST:
            raise ValueError(
                f"the largest entry of M is {found.values[largest]}, at row {found.rows[largest]}, column "
                f"{found.cols[largest]}. Mark it as missing with NaN, or rescale M, whose squares are added."
            )
        return found

    @cached_property
    def norm(self) -> float:
        """‖P_Ω(M)‖_F."""
        return float(np.linalg.norm(self.values))

    @cached_property
    def transposed(self) -> Observed:
        """The same entries, sorted by column."""
        return Observed((self.shape[1], self.shape[0]), self.cols, self.rows, self.values)

    def misfit(self, factors: Factors) -> Floats:
        """Return M − U diag(s) Vᵀ at the observed entries."""
        return self.values - entries_of(factors, self.rows, self.cols)

    def sparse(self, values: Floats) -> sp.csr_array:
        """Return the sparse matrix that has these values at the observed entries."""
        return sp.csr_array((values, self.cols, self.row_starts), shape=self.shape)


def entries_of(factors: Factors, rows: Any, cols: Any) -> Floats:
    """Return (U diag(s) Vᵀ)_ij for pairs of indices, without the other entries."""
    left = factors.U * factors.s
    found = np.empty(len(rows))
    step = max(1, _GATHER // max(1, len(factors.s)))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        found[some] = np.einsum("ij,ij->i", left[rows[some]], factors.V[cols[some]])
    return found


def fit_rows(observed: Observed, V: Floats, weights: Floats, old: Floats) -> Floats:
    """Coefficients R of all rows in a fixed basis V of the row space.

    Row i minimises, over its observed entries Ω_i,

    ::

        Σ_{j ∈ Ω_i} (m_ij − r·v_j)² + Σ_k w_k r_k² + ε ‖r − r_old‖²

    ε is tiny. It makes the system regular if fewer entries than free directions are observed, and leaves the
    undetermined part of ``old`` unchanged. Rows with equally many entries are solved together.
    """
    counts, rank = np.diff(observed.row_starts), V.shape[1]
    found = np.zeros_like(old)
    near = _PROXIMAL * (1.0 + weights)
    for count in np.unique(counts):
        alike = np.flatnonzero(counts == count)
        step = max(1, _BATCH // (1 + rank * (int(count) + rank)))
        for start in range(0, len(alike), step):
            rows = alike[start : start + step]
            places = observed.row_starts[rows, None] + np.arange(count)
            basis = V[observed.cols[places]]
            gram = np.swapaxes(basis, 1, 2) @ basis + np.diag(weights + near)
            moments = np.einsum("ick,ic->ik", basis, observed.values[places]) + near * old[rows]
            found[rows] = np.linalg.solve(gram, moments[..., None])[..., 0]
    return found
