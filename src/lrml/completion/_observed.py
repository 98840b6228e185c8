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
# Numbers gathered at a time, of factors at many entries or of the systems of some rows.
_BATCH = 1 << 20


class Observed:
    """Observed entries Ω of an m × n matrix M, each pair once, sorted by row and then by column."""

    def __init__(self, shape: tuple[int, int], places: tuple[Any, ...], values: Floats) -> None:
        order = np.lexsort(places[::-1])
        self.shape, self.values = shape, values[order]
        self.rows, self.cols = (place[order] for place in places)
        self.row_starts = np.searchsorted(self.rows, np.arange(shape[0] + 1))
        self.norm = float(np.linalg.norm(values))  # ‖P_Ω(M)‖_F

    @classmethod
    def of(cls, M: Any) -> Observed:
        """Read a dense matrix (all but NaN is observed) or a sparse one (all that is stored)."""
        if isinstance(M, Observed):
            return M
        options: dict[str, Any] = {"ensure_all_finite": "allow-nan", "input_name": "M"}
        matrix: Any = check_array(to_host(M), accept_sparse="coo", dtype=np.float64, **options)
        places = (matrix.row, matrix.col) if is_sparse(matrix) else np.indices(matrix.shape).reshape(2, -1)
        values = matrix.data if is_sparse(matrix) else matrix.ravel()
        known = ~np.isnan(values)
        found = cls(matrix.shape, tuple(place[known] for place in places), values[known])
        if not len(found.values):
            raise ValueError("M has no observed entry. Mark only missing ones as NaN, or store the others.")
        twice = np.flatnonzero((np.diff(found.rows) == 0) & (np.diff(found.cols) == 0))
        if len(twice):  # SciPy would add them, which may not be meant
            where = f"row {found.rows[twice[0]]}, column {found.cols[twice[0]]}"
            raise ValueError(f"M stores {where} twice. Add the values up with M.sum_duplicates().")
        return found

    def only(self, chosen: Any) -> Observed:
        """Return some of the entries."""
        return Observed(self.shape, (self.rows[chosen], self.cols[chosen]), self.values[chosen])

    @cached_property
    def transposed(self) -> Observed:
        """The same entries, sorted by column."""
        return Observed(self.shape[::-1], (self.cols, self.rows), self.values)

    def misfit(self, factors: Factors) -> Floats:
        """Return M − U diag(s) Vᵀ at the observed entries."""
        return self.values - entries_of(factors, self.rows, self.cols)

    def sparse(self, values: Floats) -> sp.csr_array:
        """Return the sparse matrix that has these values at the observed entries."""
        return sp.csr_array((values, self.cols, self.row_starts), shape=self.shape)

    def fit_rows(self, V: Floats, weights: Floats, old: Floats) -> Floats:
        """Return the coefficients r of every row i in the basis V, from its observed entries Ω_i.

        ::

            argmin_r Σ_{j ∈ Ω_i} (m_ij − r·v_j)² + Σ_k w_k r_k² + ε ‖r − r_old‖²

        A tiny ε keeps what fewer entries than free directions leave undetermined as it is in ``old``. Rows
        with equally many entries are solved together.
        """
        counts, rank = np.diff(self.row_starts), V.shape[1]
        found = np.zeros_like(old)
        near = 1e-9 * (1.0 + weights)  # ε, beside the unit length of a basis vector
        for count in np.unique(counts):
            alike = np.flatnonzero(counts == count)
            step = max(1, _BATCH // (1 + rank * (int(count) + rank)))
            for start in range(0, len(alike), step):
                rows = alike[start : start + step]
                places = self.row_starts[rows, None] + np.arange(count)
                basis = V[self.cols[places]]
                gram = np.swapaxes(basis, 1, 2) @ basis + np.diag(weights + near)
                moments = np.einsum("ick,ic->ik", basis, self.values[places]) + near * old[rows]
                found[rows] = np.linalg.solve(gram, moments[..., None])[..., 0]
        return found


def entries_of(factors: Factors, rows: Any, cols: Any) -> Floats:
    """Return (U diag(s) Vᵀ)_ij for pairs of indices, without the other entries."""
    left = factors.U * factors.s
    found = np.empty(len(rows))
    step = max(1, _BATCH // max(1, len(factors.s)))
    for start in range(0, len(rows), step):
        some = slice(start, start + step)
        found[some] = np.einsum("ij,ij->i", left[rows[some]], factors.V[cols[some]])
    return found
