"""Products with X̂ᵀX̂ or X̂X̂ᵀ that never exist, and linear systems with them by conjugate gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import descending_eigh, is_sparse
from lrml.core.moments import CentredRows, scaled_rows
from lrml.core.threads import map_in_threads

_Float64 = npt.NDArray[np.float64]
_Floats = npt.NDArray[np.floating[Any]]

# Columns that are processed at a time: wide enough for sparse products, narrow enough to stay near the cache.
COLUMNS = 64
_MOST_STEPS = 60


class Operator(ABC):
    """X̂ᵀX̂, or X̂X̂ᵀ on dual vectors, divided by a unit, and products of X̂ and Ŷ; applied, never made.

    Attributes
    ----------
    dtype : type
        Precision of the products.
    size : int
        Length of the vectors.
    n_eigenvalues : int
        How many may differ from 0: min(n, d).
    n_labels : int
    is_dual : bool
        Whether vectors have one entry per row.
    columns : int
        How many vectors are best processed at a time.
    in_lockstep : bool
        Whether the systems of several shifts are solved side by side, as every product reads all rows.
    """

    dtype: type[np.floating[Any]]
    size: int
    n_eigenvalues: int
    n_labels: int
    is_dual: bool = False
    columns: int = COLUMNS
    in_lockstep: bool = False

    @abstractmethod
    def apply(self, B: _Floats) -> _Floats:
        """Return the product with a block of vectors."""

    @abstractmethod
    def right_sides(self, V: _Float64) -> _Floats:
        """Ŷ V for dual vectors, X̂ᵀŶ V for others, in units of the operator."""

    @abstractmethod
    def apply_and_cross(self, B: _Floats) -> tuple[_Floats, _Floats]:
        """Return the product with a block of vectors, and (X̂ᵀŶ)ᵀ times X̂ᵀB or B, transposed (k × L)."""

    @abstractmethod
    def cross(self, B: _Floats) -> _Floats:
        """Return the second part of `apply_and_cross`."""

    def map(self, function: Callable[[slice], Any], count: int) -> list[Any]:
        """Apply a function to groups of columns."""
        return [function(group) for group in self.groups(count)]

    def groups(self, count: int) -> list[slice]:
        """Return groups of columns."""
        return [slice(start, min(start + self.columns, count)) for start in range(0, count, self.columns)]

    def apply_wide(self, B: _Floats) -> _Floats:
        """Return the product with any number of vectors."""
        product = np.empty(B.shape, dtype=self.dtype)

        def fill(columns: slice) -> None:
            product[:, columns] = self.apply(np.ascontiguousarray(B[:, columns]))

        self.map(fill, B.shape[1])
        return product


class RowsElsewhere(Protocol):
    """Centred rows that are not in memory, but can be multiplied with."""

    @property
    def yy(self) -> float:
        """Σ w ‖ŷ‖²."""

    @property
    def n_eigenvalues(self) -> int:
        """How many eigenvalues of X̂ᵀX̂ may differ from 0: min(n, d)."""

    @property
    def scatter(self) -> _Float64:
        """Σ w x̂² of every column."""

    @property
    def variation(self) -> _Float64:
        """Σ w (x − x̄)² of every column."""

    def operator(self, dtype: type[np.floating[Any]], unit: float) -> Operator:
        """Return X̂ᵀX̂ over a unit."""


def operator_of(
    rows: CentredRows | RowsElsewhere, dtype: type[np.floating[Any]], unit: float = 1.0
) -> Operator:
    """Return the operator of rows in memory, or of rows elsewhere, which bring their own."""
    return NormalOperator(rows, dtype, unit) if isinstance(rows, CentredRows) else rows.operator(dtype, unit)


class NormalOperator(Operator):
    """X̂X̂ᵀ if there are at most as many rows as features, else X̂ᵀX̂, for rows in memory.

    Parameters
    ----------
    rows : CentredRows
    dtype : type
        Precision of the products.
    unit : float, default=1.0
        X̂ is divided by its square root, which keeps numbers of single precision in their range.
    may_be_dual : bool, default=True
        If False, it is X̂ᵀX̂ in any case.
    """

    def __init__(
        self,
        rows: CentredRows,
        dtype: type[np.floating[Any]],
        unit: float = 1.0,
        *,
        may_be_dual: bool = True,
    ) -> None:
        self.rows, self.dtype = rows, dtype
        self.n_eigenvalues, self.n_labels = min(rows.X.shape), rows.Y.shape[1]
        self.is_dual = may_be_dual and bool(rows.X.shape[0] <= rows.X.shape[1])
        self.size = rows.X.shape[0 if self.is_dual else 1]
        root = np.sqrt(rows.weights / unit)
        X = rows.X if np.all(root == 1.0) else scaled_rows(rows.X, root)
        offset = rows.x_offset
        if is_sparse(X):
            X = X.tocsr()
            if self.is_dual:
                # XXᵀ does not depend on the order of features; frequent ones side by side stay in the cache.
                order = np.argsort(-np.bincount(X.indices, minlength=X.shape[1]), kind="stable")
                X, offset = X[:, order], offset[order]
        self.X = X.astype(dtype, copy=False)
        # Transposed once: products with rows of the result in order are faster.
        self.Xt = self.X.T.tocsr() if is_sparse(X) else self.X.T
        self.root, self.offset = root.astype(dtype), offset.astype(dtype)
        self.along = np.asarray(self.X @ self.offset)

    def forward(self, W: _Floats) -> _Floats:
        """X̂ W; not for dual vectors, as features may be in another order."""
        product: _Floats = np.asarray(self.X @ W) - np.outer(self.root, self.offset @ W)
        return product

    def backward(self, A: _Floats) -> _Floats:
        """X̂ᵀ A; not for dual vectors."""
        product: _Floats = np.asarray(self.Xt @ A) - np.outer(self.offset, self.root @ A)
        return product

    def apply(self, B: _Floats) -> _Floats:
        """Return the product with a narrow block of vectors."""
        if not self.is_dual:
            return self.backward(self.forward(B))
        # X̂ = M − root offsetᵀ, so centring takes no further array with one row per feature.
        sums = self.root @ B
        product = np.asarray(self.X @ np.asarray(self.Xt @ B))
        product -= np.outer(self.along, sums)
        product += np.outer(self.root, (self.offset @ self.offset) * sums - self.along @ B)
        return product

    def right_sides(self, V: _Float64) -> _Floats:
        """Ŷ V for dual vectors, X̂ᵀŶ V for others, in units of the operator."""
        root = np.sqrt(self.rows.weights)[:, None]
        targets = (root * (np.asarray(self.rows.Y @ V) - self.rows.y_offset @ V)).astype(self.dtype)
        return targets if self.is_dual else self.backward(targets)

    def apply_and_cross(self, B: _Floats) -> tuple[_Floats, _Floats]:
        """Return the product with a narrow block of vectors, and its scores times Ŷ."""
        if self.is_dual:
            product = self.apply(B)
            return product, self._targets_product(product)
        scores = self.forward(B)
        return self.backward(scores), self._targets_product(scores)

    def cross(self, B: _Floats) -> _Floats:
        """Return the scores of a narrow block of vectors times Ŷ."""
        return self._targets_product(self.apply(B) if self.is_dual else self.forward(B))

    def _targets_product(self, scores: _Floats) -> _Floats:
        """Return scoresᵀ Ŷ without making a sparse Y dense."""
        rows = self.rows
        weighted = np.sqrt(rows.weights)[:, None] * scores
        product: _Floats = np.asarray(rows.Y.T @ weighted).T
        return product - np.outer(weighted.sum(axis=0), rows.y_offset)

    def map(self, function: Callable[[slice], Any], count: int) -> list[Any]:
        """Apply a function to groups of columns, in threads."""
        groups = self.groups(count)
        return list(map_in_threads(function, groups, ahead=len(groups)))


class Leading(NamedTuple):
    """Leading eigenvectors (columns) and eigenvalues of an operator, approximately."""

    vectors: _Floats
    values: _Floats


def leading_directions(operator: Operator, count: int, seed: int = 0) -> Leading:
    """Return leading eigenvectors by a randomised Nyström approximation, with one power step.

    With S = op(Q), Q orthonormal, op ≈ S (QᵀS)⁻¹ Sᵀ, which never exceeds the operator.
    """
    count = min(count, operator.size)
    random = np.random.default_rng(seed).standard_normal((operator.size, count)).astype(operator.dtype)
    Q = np.linalg.qr(operator.apply_wide(random))[0]
    S = operator.apply_wide(Q)
    inner = Q.T.astype(np.float64) @ S
    values, P = descending_eigh(0.5 * (inner + inner.T))
    kept = values > 1e-5 * max(float(values[0]), 0.0)
    if not kept.any():
        return Leading(Q[:, :0], values[:0])
    root = S @ (P[:, kept] / np.sqrt(values[kept])).astype(operator.dtype)
    squares, V = descending_eigh(root.T.astype(np.float64) @ root)
    kept = squares > 1e-6 * squares[0]
    vectors = root @ (V[:, kept] / np.sqrt(squares[kept])).astype(operator.dtype)
    return Leading(vectors, squares[kept])


def solve_shifted(
    operator: Operator,
    B: _Floats,
    shifts: _Floats,
    leading: Leading,
    tolerance: float,
    max_steps: int = _MOST_STEPS,
) -> _Floats:
    """Solve (op + s_j) a_j = b_j for every column by preconditioned conjugate gradients.

    The preconditioner is U diag((μ + s_j) / (λ + s_j)) Uᵀ + (I − UUᵀ), μ the least of the leading
    eigenvalues λ. It ends when the residual of the block is ``tolerance`` times B, and the last step has
    lowered the quadratic function by that share of all steps: a large part of the residual may lie along a
    large eigenvalue, where it matters little.
    """
    U, values = leading
    least = values[-1] if len(values) else 0.0
    gains = ((least + shifts) / (values[:, None] + shifts) - 1.0).astype(operator.dtype)
    shifts = shifts.astype(operator.dtype)

    def preconditioned(R: _Floats) -> _Floats:
        return R + U @ (gains * (U.T @ R))

    A, R = np.zeros_like(B), B.copy()
    Z = preconditioned(R)
    P, along = Z.copy(), column_sums(R, Z)
    limit, gain, gained = tolerance * float(np.linalg.norm(B)), 0.0, 0.0
    for _ in range(max_steps):
        if float(np.linalg.norm(R)) <= limit and gain <= tolerance * gained:
            break
        Q = operator.apply(P)
        Q += shifts * P
        step = _quotient(along, column_sums(P, Q))
        gain = float(step @ along)
        gained += gain
        A += step * P
        R -= step * Q
        Z = preconditioned(R)
        last, along = along, column_sums(R, Z)
        P *= _quotient(along, last)
        P += Z
    return A


def column_sums(A: _Floats, B: _Floats) -> _Floats:
    """Σ_i a_ij b_ij for every column."""
    sums: _Floats = np.einsum("ij,ij->j", A, B)
    return sums


def _quotient(above: _Floats, below: _Floats) -> _Floats:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
