"""Spectral coordinates in a subspace: for data with so many rows and features that no Gram matrix fits.

With X̂ = D^(1/2)(X − 1x̄ᵀ), D the weights, every solution of the least-squares problem for any theta, alpha and
ridge is

::

    W = Σ_j (X̂ᵀX̂ + s_j)⁻¹ X̂ᵀŶ v_j v_jᵀ,    s_j = ridge + c_j / 2σ_j ≥ ridge,

c_j the slope of the penalty at σ_j. As a function of the shift s the solutions of (X̂ᵀX̂ + s) A = X̂ᵀŶ are so
smooth that those of three shifts, a factor of ten apart, span all others to a thousandth of the objective.
Solved by conjugate gradients, they take 20 to 30 products with X̂ and X̂ᵀ (Ruhe's rational Krylov space).
Inside their span the problem has a few thousand coordinates, and everything else goes on as usual.

All vectors are on the smaller side. With more features than rows these are *dual*: A stands for X̂ᵀA, and
the operator is K = X̂X̂ᵀ instead of X̂ᵀX̂. Nothing of the size d × d, n × n or d × L is made.

What the subspace costs can be told afterwards: it is the residual of the systems above, see `Subspace.gap`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import HOST
from lrml.core.linalg import Eigen, descending_eigh
from lrml.core.moments import CentredRows
from lrml.core.operators import (
    COLUMNS,
    Leading,
    NormalOperator,
    column_sums,
    leading_directions,
    powered,
    solve_shifted,
    taken,
)

_Float64 = npt.NDArray[np.float64]
_Floats = npt.NDArray[np.floating[Any]]

# Leading directions that the preconditioner knows.
_LEADING = 128
# Up to so many labels, the solutions of all of them span the subspace; of more, those of so many directions.
_MOST_LABELS = 512
# Directions beside those that a solution is known to have, which come in blocks of `COLUMNS`.
_MORE_DIRECTIONS = 64
# Randomised subspace iterations, which find leading directions of label space; directions they start with.
_POWER_STEPS, _FIRST_DIRECTIONS = 3, 64
# Single precision holds the squares of rows, slopes and solutions if the mean eigenvalue is in this range.
_LEAST_UNIT, _LARGEST_UNIT = 1e-17, 1e18
# Least and largest shift, in units of the mean eigenvalue, and the ratio of neighbours.
_LEAST_SHIFT, _LARGEST_SHIFT, _SHIFT_RATIO = 0.03, 3.0, 10.0
# Residual to which the systems of the first subspace are solved, and those of an extension.
_RESIDUAL, _EXTENSION_RESIDUAL = 1e-2, 0.1
# Products with X̂ and X̂ᵀ that two or three shifts take together, as a rule.
_PASSES = 25
# Without a shift, a residual that no vector reaches would count. In units of the mean eigenvalue, products in
# single and in double precision tell no less than this; a column that varies less takes the latter.
_NO_SHIFT = {np.float32: 1e-6, np.float64: 1e-13}
# Columns whose share of squares about the mean is less are constant, up to rounding.
_CONSTANT = 1e-13
# Directions that together cost less than this share of what is enough are not added.
_LEFT_OUT = 0.25
# Rows that are turned at a time.
_BLOCK_ROWS = 4096
# Directions whose share of the length is below this are combinations of others, up to rounding.
_DEPENDENT = 1e-9


def _shifts(least: float, *, bare: bool) -> _Float64:
    """Return the shifts, in units of the mean eigenvalue."""
    if bare:
        return np.array([max(least, 1e-3 * _LEAST_SHIFT)])
    first = max(least, _LEAST_SHIFT)
    last = max(_LARGEST_SHIFT, _SHIFT_RATIO * first)
    return np.geomspace(first, last, max(2, 1 + round(np.log(last / first) / np.log(_SHIFT_RATIO))))


Found: TypeAlias = tuple[float, _Floats | None]
"""An estimate of F(W) − F*, F* the minimum without the subspace; if that is much, vectors to extend it by."""


@dataclass(frozen=True, eq=False)
class Subspace:
    """A span of vectors, with the problem inside it.

    In the span of the basis (size × r) the eigenvalues are diagonal; for dual vectors A, X̂ᵀA is orthonormal.
    """

    rows: Any  # `CentredRows`, or others with the same sums and an ``operator`` of their own
    fast: NormalOperator  # over ``unit``; in single precision, unless some column varies far less than others
    unit: float  # mean eigenvalue
    leading: Leading  # of ``fast``
    basis: _Float64
    eigenvalues: _Float64
    cross: _Float64  # X̂ᵀŶ inside (r × L)

    @classmethod
    def _of_nothing(cls, rows: Any) -> Subspace:
        """Return the span of no vectors, with an operator of single precision if that suffices."""
        unit = check_unit(float(rows.scatter.sum()) / rows.n_eigenvalues or 1.0)
        variation = rows.variation
        least = float(np.min(variation, initial=np.inf, where=variation > _CONSTANT * rows.scatter))
        fast = _operator(rows, np.float32 if least >= _NO_SHIFT[np.float32] * unit else np.float64, unit)
        leading = leading_directions(fast.apply_wide, fast.size, _LEADING, fast.dtype)
        nothing = np.zeros((fast.size, 0)), np.zeros(0), np.zeros((0, fast.n_labels))
        return cls(rows, fast, unit, leading, *nothing)

    @classmethod
    def for_ridges(
        cls,
        rows: Any,
        least: float = 0.0,
        *,
        bare: bool = False,
        rough: bool = False,
        directions: int | None = None,
    ) -> Subspace:
        """Span the solutions of the shifted systems, and the leading directions.

        It is made for all ridges from ``least`` on: shifts go from there, or from 0.03 times the mean
        eigenvalue, to 3 times the mean. If ``bare``, only ridge regression with this ridge is wanted. If
        ``rough``, systems are solved to a residual of 0.1 instead of 0.01, as it will be extended. Solutions
        have at least so many ``directions`` of label space, which matters for more than 512 labels only.
        """
        nothing = cls._of_nothing(rows)
        fast, leading = nothing.fast, nothing.leading
        V = _label_directions(fast, leading, directions)
        shifts = _shifts(least / nothing.unit, bare=bare)
        tolerance = _EXTENSION_RESIDUAL if rough else _RESIDUAL

        def solved(columns: slice) -> _Floats:
            B, parts = fast.right_sides(V[:, columns]), []
            for together in [shifts] if fast.in_lockstep else shifts[:, None]:
                each = np.repeat(together, B.shape[1])
                parts.append(solve_shifted(fast, np.tile(B, len(together)), each, leading, tolerance))
            return np.hstack(parts)

        return nothing.extended(np.hstack([*fast.map(solved, V.shape[1]), leading.vectors]))

    def from_rows(self, S: _Floats) -> _Floats:
        """Return the vectors of X̂ᵀS: S itself if they are dual."""
        S = S.astype(self.fast.dtype, copy=False)
        if self.is_dual:
            return S
        return self.fast.wide(self.fast.backward, S)

    def extended(self, further: _Floats) -> Subspace:
        """Add vectors.

        The inner products of Q are QᵀQ and QᵀX̂ᵀX̂Q, with Q = X̂ᵀA for dual vectors and A for others.
        """
        operator = _operator(self.rows, np.float64)
        noise = np.finfo(np.float64).eps * float(self.rows.scatter.sum())
        lengths = np.sqrt(column_sums(further, further))
        some = np.flatnonzero((lengths > 0) & (noise > 0))
        A: _Float64 = taken(further, some) / lengths[some]
        Z, new_cross = _images(operator, A)
        if self.is_dual:  # vectors orthogonal to all features, such as constant ones, are rounding
            some = np.flatnonzero(column_sums(A, Z) > noise)
            A, Z, new_cross = taken(A, some), taken(Z, some), new_cross[some]
        if A.shape[1] == 0 and len(self.eigenvalues) == 0:  # X is constant: one direction, nothing to learn
            found = Eigen.of_nothing(self.fast.size, self.fast.n_labels, HOST)
            return replace(self, basis=found.features, eigenvalues=found.eigenvalues, cross=found.cross)
        sides, images = (Z if self.is_dual else A), Z
        own = A.T @ sides, sides.T @ images
        if self.is_dual and self.basis.size:  # its images are not kept, but (K basis)ᵀ Z = basisᵀ (K Z)
            images = operator.apply_wide(Z).astype(np.float64, copy=False)
        overlap, bent = self.basis.T @ sides, self.basis.T @ images
        del Z, sides, images
        split = len(self.eigenvalues)
        eigenvalues, turn = _diagonalised(
            np.block([[np.eye(split), overlap], [overlap.T, own[0]]]),
            np.block([[np.diag(self.eigenvalues), bent], [bent.T, own[1]]]),
        )
        cross, basis = turn.T @ np.vstack([self.cross, new_cross]), np.empty((len(A), len(eigenvalues)))
        for start in range(0, len(A), _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            basis[rows] = self.basis[rows] @ turn[:split]
            basis[rows] += A[rows] @ turn[split:]
        return replace(self, basis=basis, eigenvalues=eigenvalues, cross=cross)

    @property
    def is_dual(self) -> bool:
        """Whether the vectors are dual."""
        return self.fast.is_dual

    @property
    def coordinates(self) -> Eigen:
        """The problem inside; features are dual vectors D^(1/2) A if there are more features than rows."""
        features = self.basis
        if self.is_dual and np.any(self.rows.weights != 1.0):
            features = features * np.sqrt(self.rows.weights)[:, None]
        return Eigen(self.eigenvalues, features, self.cross)

    def inside(self, vectors: _Float64) -> _Float64:
        """Return the coordinates of vectors: those of X̂ᵀA for dual ones."""
        sides = _operator(self.rows, np.float64).apply_wide(vectors) if self.is_dual else vectors
        found: _Float64 = self.basis.T @ sides
        return found

    def gap(
        self,
        left: _Float64,
        V: _Float64 | None,
        shifts: _Float64,
        alpha: float | None,
        ridge: float,
        enough: float,
    ) -> Found:
        """Estimate what the subspace costs a solution W = basis left Vᵀ with these shifts s_j.

        Where W is stationary inside the subspace, column j solves (op + s_j) a_j = b_j there. With the
        residual r_j outside it, a Newton step lowers the objective by r_jᵀ (X̂ᵀX̂ + s_j)⁻¹ r_j, which in dual
        vectors is ρ_jᵀ K (K + s_j)⁻¹ ρ_j ≤ ‖ρ_j‖². A direction v orthogonal to V, which the penalty holds at
        zero, gains (τ − alpha/2)² uᵀ(X̂ᵀX̂ + ridge)⁻¹u if τu = X̂ᵀ(Ŷ − X̂W)v is longer than alpha/2. Of more
        than 512 such directions, a randomised iteration finds the leading ones, and their lengths from below:
        an estimate, not a bound.

        Columns of V (L × k) are orthonormal; None stands for the identity. If alpha is None, the rank is
        given, and no other direction of label space may come in. A gap up to ``enough`` needs no vectors.
        """
        V, dtype = np.eye(self.cross.shape[1]) if V is None else V, self.fast.dtype
        A = (self.basis @ left).astype(dtype)
        residuals = self._right_sides(V)
        residuals -= self.unit * self.fast.apply_wide(A)
        A *= shifts.astype(dtype)
        residuals -= A
        del A
        squares = column_sums(residuals, residuals)
        shifts = np.where(shifts > 0, shifts, _NO_SHIFT[dtype] * self.unit)
        top = float(self.eigenvalues[0])
        bounds = squares * (top / (top + shifts)) if self.is_dual else squares / shifts
        gap, further = float(bounds.sum()), []
        if not (np.isfinite(gap) and gap <= enough):  # without a shift there is no bound
            gains, corrections = self._corrected(residuals, shifts)
            gap = float(gains.sum())
            further.append(corrections)
        del residuals
        if alpha is not None and V.shape[1] < len(V):
            more, corrections = self._new_directions(V, 0.5 * alpha, ridge)
            gap += more
            further.append(corrections)
        return gap, None if gap <= enough or not further else np.hstack(further)

    def gap_of_slopes(
        self, S: _Floats, V: _Float64, shifts: _Float64, ridge: float, held: float, enough: float
    ) -> Found:
        """Bound what the subspace costs a solution W under another loss, with slopes S (n × L) there.

        A step D outside changes penalty and ridge by Σ_j s_j ‖D v_j‖² with s_j = ridge + c_j / 2σ_j, to
        second order, and a convex loss by ⟨G, D⟩ at least, with G the part of X̂ᵀS outside. So no step gains
        more than

        ::

            Σ_j ‖G v_j‖² / 4s_j,

        and more than (τ − held)² / 4 ridge along a direction with the slope τ that the penalty holds at zero.
        Vectors are those of the directions that gain most; the others gain no more than a quarter of what is
        enough.
        """
        vectors = self.from_rows(S)  # for other than dual vectors, divided by the root of the unit
        sides = self.fast.apply_wide(vectors) if self.is_dual else vectors
        inside = self.basis.T @ sides * (self.unit**0.5 if self.is_dual else 1.0)
        inner: _Float64 = (vectors.T @ sides).astype(np.float64) - inside.T @ inside
        outside = 0.5 * self.unit * (inner + inner.T)  # GᵀG
        others = np.linalg.qr(V, mode="complete")[0][:, V.shape[1] :]
        squares, turn = descending_eigh(others.T @ outside @ others)
        too_long = np.maximum(np.sqrt(np.maximum(squares, 0.0)) - held, 0.0)
        squares = np.append(column_sums(V, outside @ V), too_long**2)
        gains = np.maximum(squares, 0.0) / (4.0 * np.append(shifts, np.full(len(too_long), ridge)))
        gap, order = float(gains.sum()), np.argsort(-gains)
        if gap <= enough:
            return gap, None
        count = 1 + int(np.argmax(gap - np.cumsum(gains[order]) <= _LEFT_OUT * enough))
        return gap, self.from_rows(S @ np.hstack([V, others @ turn])[:, order[:count]])

    def _corrected(self, residuals: _Floats, shifts: _Float64) -> tuple[_Float64, _Floats]:
        """Return rᵀ(X̂ᵀX̂ + s)⁻¹r, what each residual gains, and roughly (op + s)⁻¹r."""
        scale = float(np.abs(residuals).max(initial=0.0)) or 1.0

        def solved(block: _Floats, relative: _Floats) -> _Floats:
            return solve_shifted(self.fast, block, relative, self.leading, _EXTENSION_RESIDUAL)

        corrections = self.fast.wide(solved, residuals / scale, shifts / self.unit)
        corrections *= scale / self.unit
        along = column_sums(residuals, corrections)
        if self.is_dual:
            along = column_sums(residuals, residuals) - shifts * along
        # Conjugate gradients approach it from below, by less than they were asked for.
        return np.abs(along) * (1.0 + 2.0 * _EXTENSION_RESIDUAL), corrections

    def _right_sides(self, V: _Float64) -> _Floats:
        """Ŷ V for dual vectors, X̂ᵀŶ V for others."""
        return (1.0 if self.is_dual else self.unit**0.5) * self.fast.wide(self.fast.right_sides, V)

    def _new_directions(self, V: _Float64, held: float, ridge: float) -> tuple[float, _Floats]:
        """Return what directions orthogonal to V gain whose slopes are longer than ``held``, and vectors.

        The solution has no part in them, so their slopes are those at zero.
        """
        slopes, inner = self._steepest(V, held)
        squares, S = descending_eigh(inner)
        lengths = np.sqrt(np.maximum(squares, 0.0))
        free = lengths > max(held, _NO_SHIFT[self.fast.dtype] * float(lengths[0]))
        shifts = np.full(int(free.sum()), max(ridge, _LEAST_SHIFT * self.unit))
        gains, corrections = self._corrected(slopes @ S[:, free].astype(self.fast.dtype), shifts)
        return float(((1.0 - held / lengths[free]) ** 2 * gains).sum()), corrections

    def _steepest(self, V: _Float64, held: float) -> tuple[_Floats, _Float64]:
        """Return slopes in orthonormal directions orthogonal to V, and their inner products.

        All directions, or leading ones that have all slopes longer than ``held``, as far as 512 do.
        """
        n_labels, n_others = len(V), len(V) - V.shape[1]
        if n_others <= _MOST_LABELS:
            return self._slopes(np.linalg.qr(V, mode="complete")[0][:, V.shape[1] :])

        def explained_beside(B: _Floats) -> _Floats:
            B = _explained(self.fast, B)
            return B - V @ (V.T @ B)

        random, others = np.random.default_rng(0), np.zeros((n_labels, 0))
        while True:
            count = min(2 * others.shape[1] or _FIRST_DIRECTIONS, _MOST_LABELS)
            others = np.hstack([others, random.standard_normal((n_labels, count - others.shape[1]))])
            others = powered(explained_beside, others, _POWER_STEPS)
            slopes, inner = self._slopes(others)
            if count == _MOST_LABELS or np.linalg.eigvalsh(inner)[0] < held**2:
                return slopes, inner

    def _slopes(self, V: _Float64) -> tuple[_Floats, _Float64]:
        """Return X̂ᵀŶV, as dual vectors if there are such, and its inner products."""
        slopes = self._right_sides(V)
        inner = slopes.T @ (self.unit * self.fast.apply_wide(slopes) if self.is_dual else slopes)
        return slopes, 0.5 * (inner + inner.T).astype(np.float64)


def check_unit(unit: float) -> float:
    """Return the mean eigenvalue if single precision can hold what is computed with it."""
    if not _LEAST_UNIT <= unit <= _LARGEST_UNIT:
        raise ValueError(
            f"the mean eigenvalue of XᵀX is {unit:.1e}. Single precision, in a subspace, needs it between "
            f"{_LEAST_UNIT:.0e} and {_LARGEST_UNIT:.0e}. Divide X by {unit**0.5:.0e}, or scale sample_weight."
        )
    return unit


def _operator(rows: Any, dtype: type[np.floating[Any]], unit: float = 1.0) -> NormalOperator:
    """Return the operator of rows in memory, or that of rows elsewhere, which bring their own."""
    if isinstance(rows, CentredRows):
        return NormalOperator(rows, dtype, unit)
    found: NormalOperator = rows.operator(dtype, unit)
    return found


def cost(size: int, entries: float, n_labels: int) -> float:
    """Return about how many multiplications a subspace takes; X̂ times a vector takes ``entries``."""
    directions = n_directions(n_labels, None)
    width = 3 * directions + _LEADING
    return 4.0 * _PASSES * entries * directions + 4.0 * size * width**2 + 10.0 * width**3


def _images(operator: NormalOperator, A: _Float64) -> tuple[_Float64, _Float64]:
    """Return op(A), and X̂ᵀŶ along the vectors."""
    images, cross = np.empty_like(A), np.empty((A.shape[1], operator.n_labels))

    def fill(columns: slice) -> None:
        images[:, columns], cross[columns] = operator.apply_and_cross(np.ascontiguousarray(A[:, columns]))

    operator.map(fill, A.shape[1])
    return images, cross


def _diagonalised(lengths: _Float64, bends: _Float64) -> tuple[_Float64, _Float64]:
    """Return eigenvalues Λ and T with Tᵀ lengths T = I, Tᵀ bends T = Λ, without dependent directions."""
    scale = np.diagonal(lengths) ** -0.5
    squares, S = descending_eigh(lengths * scale[:, None] * scale)
    kept = squares > _DEPENDENT * squares[0]
    C = scale[:, None] * S[:, kept] / np.sqrt(squares[kept])
    eigenvalues, Q = descending_eigh(C.T @ bends @ C)
    kept = eigenvalues > len(eigenvalues) * np.finfo(np.float64).eps * eigenvalues[0]
    return eigenvalues[kept], C @ Q[:, kept]


def _label_directions(fast: NormalOperator, leading: Leading, wanted: int | None) -> _Float64:
    """Return directions of label space: all of up to 512 labels, or those that X explains best.

    These are the leading right singular vectors of (X̂ᵀX̂ + s)^(−1/2) X̂ᵀŶ, s the mean eigenvalue, by
    randomised subspace iteration. The inverse knows leading directions and takes all others for alike.
    """
    n_labels = fast.n_labels
    count = n_directions(n_labels, wanted)
    if count == n_labels:
        return np.eye(count)
    values, size = leading.values, fast.n_eigenvalues
    rest = max(size - float(values.sum()), 0.0) / max(size - len(values), 1)  # the mean of all is 1
    gains = ((rest + 1.0) / (values + 1.0) - 1.0)[:, None].astype(fast.dtype)

    def inverse(B: _Floats) -> _Floats:
        return B + leading.vectors @ (gains * (leading.vectors.T @ B))

    random = np.random.default_rng(0).standard_normal((n_labels, count))
    V: _Float64 = powered(lambda V: _explained(fast, V, inverse), random, _POWER_STEPS)
    return V


def n_directions(n_labels: int, wanted: int | None) -> int:
    """Return how many directions of label space a first subspace is made for."""
    if n_labels <= _MOST_LABELS or wanted is None:
        return min(n_labels, _MOST_LABELS)
    blocks = -(-(wanted + _MORE_DIRECTIONS) // COLUMNS)
    return min(n_labels, blocks * COLUMNS)


def _explained(
    fast: NormalOperator, V: _Floats, inverse: Callable[[_Floats], _Floats] | None = None
) -> _Float64:
    """Return ŶᵀX̂ P X̂ᵀŶ V, with P an inverse, or the identity."""

    def explained(block: _Float64) -> _Floats:
        B = fast.right_sides(block)
        return fast.cross(B if inverse is None else inverse(B)).T

    return fast.wide(explained, V, length=len(V)).astype(np.float64)
