"""The observed entries of a matrix: where they are, what they are, and products that touch only them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml._arrays import as_matrix, is_sparse
from lrml.solvers import Factors

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
# Numbers gathered at a time where a factor is read at many entries: 8 MiB of float64.
_GATHER = 1 << 20
# Squares of entries beyond these sizes overflow, or vanish.
_SMALLEST, _LARGEST = 1e-140, 1e140


class Observed:
    """Observed entries Ω of an m × n matrix, sorted by row and then by column.

    Parameters
    ----------
    shape : tuple of int
    rows, cols : array of int, shape (|Ω|,)
        Each pair at most once.
    values : array of float, shape (|Ω|,)
    """

    def __init__(self, shape: tuple[int, int], rows: Indices, cols: Indices, values: Floats) -> None:
        order = np.lexsort((cols, rows))
        self.shape = shape
        self.rows, self.cols, self.values = rows[order], cols[order], values[order]
        self.row_starts = np.searchsorted(self.rows, np.arange(shape[0] + 1))
        # Where the entries are once they are sorted by column.
        self.by_column = np.lexsort((self.rows, self.cols))
        self.column_starts = np.searchsorted(self.cols[self.by_column], np.arange(shape[1] + 1))
        self.norm = float(np.linalg.norm(self.values))

    def __len__(self) -> int:
        return len(self.values)

    def at(self, factors: Factors) -> Floats:
        """Return U diag(s) Vᵀ at the observed entries."""
        return entries_of(factors, self.rows, self.cols)

    def sparse(self, values: Floats) -> sp.csr_array:
        """Return the sparse matrix that has these values at the observed entries."""
        return sp.csr_array((values, self.cols, self.row_starts), shape=self.shape)

    def part(self, chosen: npt.NDArray[np.bool_]) -> Observed:
        """Return some of the observed entries, as if the others were missing."""
        return Observed(self.shape, self.rows[chosen], self.cols[chosen], self.values[chosen])


def entries_of(factors: Factors, rows: Any, cols: Any) -> Floats:
    """Return (U diag(s) Vᵀ)_ij for pairs of indices, without the other entries."""
    left = factors.U * factors.s
    found = np.empty(len(rows))
    step = max(1, _GATHER // max(1, len(factors.s)))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        found[some] = np.einsum("ij,ij->i", left[rows[some]], factors.V[cols[some]])
    return found


def read_observed(M: Any) -> Observed:
    """Observed entries of a dense matrix (all but NaN) or of a sparse one (all that are stored)."""
    matrix = as_matrix(M)
    if matrix.ndim != 2:
        raise ValueError(
            f"M must have two dimensions, got {matrix.ndim}. Pass a matrix with NaN for missing entries."
        )
    if is_sparse(matrix):
        entries = matrix.tocoo()
        rows, cols = (np.asarray(index, dtype=np.int64) for index in (entries.row, entries.col))
        values = _real(entries.data)
        _refuse_duplicates(matrix.shape, rows, cols)
        known = ~np.isnan(values)
        rows, cols, values = rows[known], cols[known], values[known]
    else:
        dense = _real(matrix)
        rows, cols = np.nonzero(~np.isnan(dense))
        values = dense[rows, cols]
    if len(values) == 0:
        raise ValueError(
            f"M must have at least one observed entry, got none in a matrix of shape {matrix.shape}. "
            "Mark only missing entries as NaN; in a sparse matrix, store the observed ones."
        )
    if not np.isfinite(values).all():
        worst = int(np.flatnonzero(~np.isfinite(values))[0])
        raise ValueError(
            f"observed entries of M must be finite, got {values[worst]} at row {rows[worst]}, column "
            f"{cols[worst]}. Replace it, or mark it as missing with NaN."
        )
    largest = float(np.abs(values).max())
    if largest > 0 and not _SMALLEST <= largest <= _LARGEST:
        raise ValueError(
            f"the largest observed entry of M must be in [{_SMALLEST}, {_LARGEST}] in magnitude, so that "
            f"squares can be added, got {largest}. Rescale M."
        )
    return Observed((int(matrix.shape[0]), int(matrix.shape[1])), rows, cols, values)


def _real(values: Any) -> Floats:
    if np.iscomplexobj(values):
        raise ValueError("M must be real, got complex numbers. Complete the real and imaginary parts alone.")
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"M must hold numbers, got entries of type {values.dtype}. Encode them first; NaN is missing."
        ) from None


def _refuse_duplicates(shape: tuple[int, int], rows: Indices, cols: Indices) -> None:
    """Refuse entries that a COO matrix stores twice: SciPy adds them, raters may mean something else."""
    flat = np.sort(rows * shape[1] + cols)
    same = np.flatnonzero(flat[1:] == flat[:-1])
    if len(same):
        row, col = divmod(int(flat[same[0]]), shape[1])
        raise ValueError(
            f"M must store each entry once, got row {row}, column {col} twice. "
            "Add them up with M.sum_duplicates(), or drop one."
        )
