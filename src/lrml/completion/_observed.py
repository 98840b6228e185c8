"""The observed entries of a matrix, and the linear algebra that touches only them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, svds

from lrml._arrays import as_matrix, is_sparse, to_host
from lrml.penalties import TailSum
from lrml.solvers import Factors

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
# Numbers gathered at a time when a factor is read at many entries: 8 MiB of float64.
_GATHER = 1 << 20
# Squares of entries beyond these sizes overflow, or vanish.
_SMALLEST, _LARGEST = 1e-140, 1e140
# Numbers in the stacked systems of one batch of rows: 16 MiB of float64.
_BATCH = 1 << 21
# Weight of the old coefficients beside the unit length of a basis vector: keeps systems regular.
_PROXIMAL = 1e-9


class Observed:
    """Observed entries Ω of an m × n matrix, each pair once, sorted by row and then by column."""

    def __init__(self, shape: tuple[int, int], rows: Indices, cols: Indices, values: Floats) -> None:
        order = np.lexsort((cols, rows))
        self.shape = shape
        self.rows, self.cols, self.values = rows[order], cols[order], values[order]
        self.row_starts = np.searchsorted(self.rows, np.arange(shape[0] + 1))
        self.norm = float(np.linalg.norm(self.values))

    def __len__(self) -> int:
        return len(self.values)

    @cached_property
    def transposed(self) -> Observed:
        """The same entries, sorted by column."""
        return Observed((self.shape[1], self.shape[0]), self.cols, self.rows, self.values)

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
    matrix = as_matrix(to_host(M))
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
    """Refuse entries that a COO matrix stores twice: SciPy would add them, which may not be meant."""
    flat = np.sort(rows * shape[1] + cols)
    same = np.flatnonzero(flat[1:] == flat[:-1])
    if len(same):
        row, col = divmod(int(flat[same[0]]), shape[1])
        raise ValueError(
            f"M must store each entry once, got row {row}, column {col} twice. "
            "Add them up with M.sum_duplicates(), or drop one."
        )


class Decomposition:
    """Leading singular triplets of U diag(s) Vᵀ + S, the matrix that every proximal step decomposes.

    ``dense`` takes the SVD of the full matrix. Otherwise Lanczos's method finds as many triplets as are
    needed. The number of singular values above the threshold is not known in advance. The count of the last
    call, plus a few, is tried first; while all values found exceed the threshold, it grows by half. If it
    reaches all of them, the m × n matrix is made and decomposed: it is smaller than its singular vectors, and
    Lanczos's method cannot find the last triplet.

    ``accuracy`` is the relative accuracy of the triplets; 0 stands for machine precision.
    """

    def __init__(self, observed: Observed, *, dense: bool) -> None:
        self.observed, self.dense = observed, dense
        self.accuracy = 0.0
        self.rank = 0
        self.start = np.random.default_rng(0).standard_normal(min(observed.shape))

    def leading(
        self, factors: Factors, values: Floats, threshold: float, n_free: int, max_rank: int | None
    ) -> Factors:
        """Return at least ``n_free`` triplets and all with a value above ``threshold``.

        ``values`` are the entries of the sparse S at the observed places. ``max_rank`` triplets suffice.
        """
        if self.dense:
            return self._all(factors, values)
        shape = self.observed.shape
        operator = self._operator(factors, values)
        most = min(shape) if max_rank is None else min(*shape, max_rank)
        count = min(most, max(n_free, self.rank) + 3)
        while True:
            if count == min(shape):
                found = self._all(factors, values)
            else:
                U, s, Vt = svds(operator, k=count, v0=self.start, tol=self.accuracy)
                found = Factors(U[:, ::-1], s[::-1], Vt[::-1].T)
            if found.s[-1] <= threshold or count == most:
                break
            count = min(most, count + max(4, count // 2))
        self.rank = max(n_free, int(np.count_nonzero(found.s > threshold)))
        # Lanczos's method starts from the leading directions of the last call.
        side = found.U if shape[0] <= shape[1] else found.V
        self.start = side[:, : self.rank + 1].sum(axis=1)
        return found

    def _all(self, factors: Factors, values: Floats) -> Factors:
        """Decompose the full matrix."""
        full = (factors.U * factors.s) @ factors.V.T
        full[self.observed.rows, self.observed.cols] += values
        return Factors.of(full)

    def _operator(self, factors: Factors, values: Floats) -> LinearOperator[np.float64]:
        """Products with U diag(s) Vᵀ + S and with its transpose."""
        sparse = self.observed.sparse(values)
        transposed = sparse.T.tocsr()
        left, right = factors.U * factors.s, factors.V

        def forward(x: Floats) -> Floats:
            return np.asarray(sparse @ x + left @ (right.T @ x))

        def backward(y: Floats) -> Floats:
            return np.asarray(transposed @ y + right @ (left.T @ y))

        shape = self.observed.shape
        return LinearOperator(
            shape, matvec=forward, rmatvec=backward, matmat=forward, rmatmat=backward, dtype=np.float64
        )


def fit_rows(
    starts: Indices, cols: Indices, values: Floats, V: Floats, weights: Floats, old: Floats
) -> Floats:
    """Coefficients R of all rows in a fixed basis V of the row space.

    Row i minimises, over its observed entries Ω_i,

    ::

        Σ_{j ∈ Ω_i} (m_ij − r·v_j)² + Σ_k w_k r_k² + ε ‖r − r_old‖²

    ε is tiny. It makes the system regular if fewer entries than free directions are observed, and leaves the
    undetermined part of ``old`` unchanged. Rows with equally many entries are solved together.
    """
    counts = np.diff(starts)
    rank = V.shape[1]
    found = np.zeros_like(old)
    near = _PROXIMAL * (1.0 + weights)
    for count in np.unique(counts):
        alike = np.flatnonzero(counts == count)
        step = max(1, _BATCH // (1 + rank * (int(count) + rank)))
        for start in range(0, len(alike), step):
            rows = alike[start : start + step]
            places = starts[rows, None] + np.arange(count)
            basis = V[cols[places]]
            gram = np.swapaxes(basis, 1, 2) @ basis + np.diag(weights + near)
            moments = np.einsum("ick,ic->ik", basis, values[places]) + near * old[rows]
            found[rows] = np.linalg.solve(gram, moments[..., None])[..., 0]
    return found


def turn(observed: Observed, factors: Factors, penalty: TailSum) -> Factors:
    """Refit all rows in the row space V with the weights c_j/σ_j, then all columns likewise."""
    for entries in (observed, observed.transposed):
        U, s, V = factors
        weights = penalty.slopes(s) / s
        found = tidy(fit_rows(entries.row_starts, entries.cols, entries.values, V, weights, U * s), V)
        factors = Factors(found.V, found.s, found.U)  # of the transpose
    return factors


def tidy(R: Floats, V: Floats) -> Factors:
    """Thin singular value decomposition of R Vᵀ for an orthonormal V, without values that are zero."""
    basis, triangle = np.linalg.qr(R)
    left, s, right = np.linalg.svd(triangle, full_matrices=False)
    keep = s > np.finfo(np.float64).eps * max(R.shape) * s.max(initial=0.0)
    return Factors((basis @ left)[:, keep], s[keep], (V @ right.T)[:, keep])


def distance(first: Factors, second: Factors) -> float:
    """‖Z₁ − Z₂‖_F of two matrices given by factors, without cancellation."""
    left = np.concatenate([first.U * first.s, -second.U * second.s], axis=1)
    right = np.concatenate([first.V, second.V], axis=1)
    if left.shape[1] == 0:
        return 0.0
    _, left_triangle = np.linalg.qr(left)
    _, right_triangle = np.linalg.qr(right)
    return float(np.linalg.norm(left_triangle @ right_triangle.T))
