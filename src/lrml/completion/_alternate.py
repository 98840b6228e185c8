"""Least squares on one side of Z = R Vᵀ over the observed entries: one small system per row."""

from __future__ import annotations

import numpy as np

from lrml.completion._observed import Floats, Indices, Observed
from lrml.solvers import Factors

# Numbers in the stacked systems of one batch of rows: 16 MiB of float64.
_BATCH = 1 << 21
# Weight of the old coefficients beside the unit length of a basis vector: keeps systems regular.
_PROXIMAL = 1e-9


def solve_rows(
    starts: Indices, cols: Indices, values: Floats, V: Floats, weights: Floats, old: Floats
) -> Floats:
    """Coefficients R of all rows in a fixed basis V of the row space.

    Row i minimises, over its observed entries Ω_i,

    ::

        Σ_{j ∈ Ω_i} (m_ij − r·v_j)² + Σ_k w_k r_k² + ε ‖r − r_old‖²

    ε is tiny. It makes the system regular where fewer entries than free directions are observed, and leaves
    the undetermined part of ``old`` as it is. Rows with equally many entries are solved together.
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


def turn_rows(observed: Observed, factors: Factors, slopes: Floats) -> Factors:
    """Solve on the left: keep the row space V and the weights c_j/σ_j, and fit all rows anew."""
    found = solve_rows(
        observed.row_starts,
        observed.cols,
        observed.values,
        factors.V,
        slopes / factors.s,
        factors.U * factors.s,
    )
    return tidy(found, factors.V)


def turn_columns(observed: Observed, factors: Factors, slopes: Floats) -> Factors:
    """Solve on the right: keep the column space U and the weights c_j/σ_j, and fit all columns anew."""
    order = observed.by_column
    found = solve_rows(
        observed.column_starts,
        observed.rows[order],
        observed.values[order],
        factors.U,
        slopes / factors.s,
        factors.V * factors.s,
    )
    turned = tidy(found, factors.U)
    return Factors(turned.V, turned.s, turned.U)


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
