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

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import descending_eigh
from lrml.core.eigen import Eigen
from lrml.core.linalg import (
    COLUMNS,
    Leading,
    NormalOperator,
    Operator,
    RowsElsewhere,
    column_sums,
    leading_directions,
    operator_of,
    solve_shifted,
)
from lrml.core.moments import CentredRows

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


class Found(NamedTuple):
    """What a subspace costs a solution, and how to make it better.

    Attributes
    ----------
    gap : float
        Estimate of F(W) − F*, W* the solution without the subspace.
    further : array or None
        Vectors to extend the subspace by; None if the gap is small enough.
    enough_alpha : float or None
        If 512 directions that the penalty holds at zero would gain: the alpha from which on others do not.
    """

    gap: float
    further: _Floats | None
    enough_alpha: float | None = None


@dataclass(frozen=True, eq=False)
class Subspace:
    """A span of vectors, with the problem inside it.

    Attributes
    ----------
    rows : CentredRows or RowsElsewhere
    fast : Operator
        Divided by ``unit``; in single precision, unless some column varies far less than others.
    unit : float
        Mean eigenvalue.
    leading : Leading
        Of ``fast``.
    basis : array of shape (size, r)
        Vectors in whose span the eigenvalues below are diagonal; for dual vectors A, X̂ᵀA is orthonormal.
    eigenvalues : array of shape (r,)
    cross : array of shape (r, L)
    """

    rows: CentredRows | RowsElsewhere
    fast: Operator
    unit: float
    leading: Leading
    basis: _Float64
    eigenvalues: _Float64
    cross: _Float64

    @classmethod
    def for_ridges(
        cls,
        rows: CentredRows | RowsElsewhere,
        least: float = 0.0,
        *,
        bare: bool = False,
        rough: bool = False,
        directions: int | None = None,
    ) -> Subspace:
        """Span the solutions of the shifted systems, and the leading directions.

        Parameters
        ----------
        rows : CentredRows or RowsElsewhere
        least : float, default=0.0
            The least ridge for which it is made. Shifts go from there, or from 0.03 times the mean
            eigenvalue, to 3 times the mean.
        bare : bool, default=False
            Whether only ridge regression with this ridge is wanted.
        rough : bool, default=False
            Solve to a residual of 0.1 instead of 0.01, as it will be extended.
        directions : int, optional
            How many directions of label space solutions have at least, which matters for more than 512
            labels only.
        """
        fast, unit, leading = _prepared(rows)
        V = _label_directions(fast, leading, directions)
        size, width = fast.size, V.shape[1]
        relative = _shifts(least / unit, bare=bare)
        tolerance = _EXTENSION_RESIDUAL if rough else _RESIDUAL
        found = np.empty((size, len(relative) * width + len(leading.values)), dtype=fast.dtype)
        found[:, len(relative) * width :] = leading.vectors

        def fill(columns: slice) -> None:
            B = fast.right_sides(V[:, columns])
            places = np.arange(len(relative))
            for together in [places] if fast.in_lockstep else places[:, None]:
                shifts = np.repeat(relative[together], B.shape[1])
                A = solve_shifted(fast, np.tile(B, len(together)), shifts, leading, tolerance)
                for place, part in zip(together, np.hsplit(A, len(together)), strict=True):
                    found[:, place * width + columns.start : place * width + columns.stop] = part

        fast.map(fill, width)
        return cls._spanned(rows, fast, unit, leading, found)

    @classmethod
    def of_vectors(cls, rows: CentredRows, parts: Iterable[_Floats]) -> Subspace:
        """Span X̂ᵀS for matrices S (n × k), and the leading directions."""
        fast, unit, leading = _prepared(rows)
        found = [_from_rows(fast, part) for part in parts]
        return cls._spanned(rows, fast, unit, leading, np.hstack([*found, leading.vectors]))

    @classmethod
    def _spanned(
        cls,
        rows: CentredRows | RowsElsewhere,
        fast: Operator,
        unit: float,
        leading: Leading,
        vectors: _Floats,
    ) -> Subspace:
        block = _Block.of(rows, vectors)
        if block.vectors.shape[1] == 0:  # X is constant; one direction, with nothing to learn
            return cls(
                *(rows, fast, unit, leading),
                *(np.zeros((fast.size, 1)), np.ones(1), np.zeros((1, fast.n_labels))),
            )
        eigenvalues, turn = _diagonalised(*block.inner)
        cross, A = turn.T @ block.cross, block.vectors
        del block
        return cls(rows, fast, unit, leading, A @ turn, eigenvalues, cross)

    def from_rows(self, S: _Floats) -> _Floats:
        """Return the vectors of X̂ᵀS."""
        return _from_rows(self.fast, S)

    def extended(self, further: _Floats) -> Subspace:
        """Add vectors."""
        new = _Block.of(self.rows, further)
        A, Z, own, new_cross = new.vectors, new.images, new.inner, new.cross
        del new
        if self.is_dual:  # the images of the basis are not kept, but (K basis)ᵀ Z = basisᵀ (K Z)
            products = (self.basis.T @ Z, self.basis.T @ operator_of(self.rows, np.float64).apply_wide(Z))
        else:
            products = (self.basis.T @ A, self.basis.T @ Z)
        lengths, bends = (
            np.block([[np.diag(old), product], [product.T, own]])
            for old, product, own in zip(
                (np.ones(len(self.eigenvalues)), self.eigenvalues), products, own, strict=True
            )
        )
        del Z
        eigenvalues, turn = _diagonalised(lengths, bends)
        cross = turn.T @ np.vstack([self.cross, new_cross])
        split, basis = len(self.eigenvalues), np.empty((len(A), len(eigenvalues)))
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
        if self.is_dual and isinstance(self.rows, CentredRows) and np.any(self.rows.weights != 1.0):
            features = features * np.sqrt(self.rows.weights)[:, None]
        return Eigen(self.eigenvalues, features, self.cross)

    def inside(self, vectors: _Float64) -> _Float64:
        """Return the coordinates of vectors: those of X̂ᵀA for dual ones."""
        sides = operator_of(self.rows, np.float64).apply_wide(vectors) if self.is_dual else vectors
        found: _Float64 = self.basis.T @ sides
        return found

    def outside(self, S: _Floats) -> _Float64:
        """Return the inner products of the columns of X̂ᵀS, as far as they lie outside."""
        vectors = _from_rows(self.fast, S)  # for other than dual vectors, divided by the root of the unit
        sides = self.fast.apply_wide(vectors) if self.is_dual else vectors
        inside = self.basis.T @ sides * (self.unit**0.5 if self.is_dual else 1.0)
        inner: _Float64 = (vectors.T @ sides).astype(np.float64) - inside.T @ inside
        return 0.5 * self.unit * (inner + inner.T)

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
        zero, gains (τ − alpha/2)² uᵀ(X̂ᵀX̂ + ridge)⁻¹u if τu = X̂ᵀ(Ŷ − X̂W)v is longer than alpha/2.

        With more than 512 such directions, the longest slopes are found by randomised subspace iteration,
        until the least one found is shorter than alpha/2, or 512 are found. Their lengths are approached
        from below. So it is an estimate, not a bound, and where 512 directions would gain it is too small.

        Parameters
        ----------
        left : array of shape (r, k)
        V : array of shape (L, k) or None
            Orthonormal; None stands for the identity.
        shifts : array of shape (k,)
        alpha : float or None
            None if the rank is given, so that no other direction of label space may come in.
        ridge : float
        enough : float
            A gap for which no further vectors are wanted.
        """
        V, dtype = np.eye(self.cross.shape[1]) if V is None else V, self.fast.dtype
        A = (self.basis @ left).astype(dtype)
        residuals = self._right_sides(V)
        residuals -= self._images(A)
        A *= shifts.astype(dtype)
        residuals -= A
        del A
        squares = column_sums(residuals, residuals).astype(np.float64)
        shifts = np.where(shifts > 0, shifts, _NO_SHIFT[dtype] * self.unit)
        top = float(self.eigenvalues[0])
        bounds = squares * (top / (top + shifts)) if self.is_dual else squares / shifts
        gap, further, enough_alpha = float(bounds.sum()), [], None
        if not (np.isfinite(gap) and gap <= enough):  # without a shift there is no bound
            gains, corrections = self._corrected(residuals, shifts)
            gap = float(gains.sum())
            further.append(corrections)
        del residuals
        if alpha is not None and V.shape[1] < len(V):
            more, corrections, enough_alpha = self._new_directions(V, 0.5 * alpha, ridge)
            gap += more
            further.append(corrections)
        return Found(gap, None if gap <= enough or not further else np.hstack(further), enough_alpha)

    def _corrected(self, residuals: _Floats, shifts: _Float64) -> tuple[_Float64, _Floats]:
        """Return rᵀ(X̂ᵀX̂ + s)⁻¹r, what each residual gains, and (op + s)⁻¹r."""
        corrections = self._solved(residuals, shifts)
        along = column_sums(residuals, corrections).astype(np.float64)
        if self.is_dual:
            along = column_sums(residuals, residuals) - shifts * along
        # Conjugate gradients approach it from below, by less than they were asked for.
        return np.abs(along) * (1.0 + 2.0 * _EXTENSION_RESIDUAL), corrections

    def _images(self, A: _Floats) -> _Floats:
        """Return op(A)."""
        images = self.fast.apply_wide(A)
        images *= self.fast.dtype(self.unit)
        return images

    def _right_sides(self, V: _Float64) -> _Floats:
        sides = np.empty((self.fast.size, V.shape[1]), dtype=self.fast.dtype)
        scale = self.fast.dtype(1.0 if self.is_dual else self.unit**0.5)

        def fill(group: slice) -> None:
            sides[:, group] = scale * self.fast.right_sides(V[:, group])

        self.fast.map(fill, V.shape[1])
        return sides

    def _solved(self, residuals: _Floats, shifts: _Float64) -> _Floats:
        """Solve (op + s_j) δ_j = r_j roughly."""
        scale = float(np.abs(residuals).max(initial=0.0)) or 1.0
        relative = shifts / self.unit

        def part(group: slice) -> _Floats:
            block = (residuals[:, group] / scale).astype(self.fast.dtype)
            return solve_shifted(self.fast, block, relative[group], self.leading, _EXTENSION_RESIDUAL)

        none = np.zeros((len(residuals), 0), dtype=self.fast.dtype)
        solved: _Floats = np.hstack([none, *self.fast.map(part, residuals.shape[1])])
        solved *= self.fast.dtype(scale / self.unit)
        return solved

    def _new_directions(self, V: _Float64, held: float, ridge: float) -> tuple[float, _Floats, float | None]:
        """Return what directions orthogonal to V gain whose slopes are longer than ``held``, and vectors.

        The solution has no part in them, so their slopes are those at zero. Also return twice the shortest
        slope if all are longer and there may be more.
        """
        slopes, inner = self._steepest(V, held)
        squares, S = descending_eigh(inner)
        lengths = np.sqrt(np.maximum(squares, 0.0))
        free = lengths > max(held, _NO_SHIFT[self.fast.dtype] * float(lengths[0]))
        shifts = np.full(int(free.sum()), max(ridge, _LEAST_SHIFT * self.unit))
        gains, corrections = self._corrected(slopes @ S[:, free].astype(self.fast.dtype), shifts)
        crowded = bool(free.all()) and len(free) < len(V) - V.shape[1]
        gain = float(((1.0 - held / lengths[free]) ** 2 * gains).sum())
        return gain, corrections, 2.0 * float(lengths[-1]) if crowded else None

    def _steepest(self, V: _Float64, held: float) -> tuple[_Floats, _Float64]:
        """Return slopes in orthonormal directions orthogonal to V, and their inner products.

        All directions, or leading ones that have all slopes longer than ``held``, as far as 512 do.
        """
        n_labels, count = len(V), len(V) - V.shape[1]
        if count <= _MOST_LABELS:
            others = np.linalg.qr(V, mode="complete")[0][:, V.shape[1] :]
            return self._slopes(others)
        random, others = np.random.default_rng(0), np.zeros((n_labels, 0))
        for step in range(20):
            count = min(_FIRST_DIRECTIONS * 2**step, _MOST_LABELS)
            others = np.hstack([others, random.standard_normal((n_labels, count - others.shape[1]))])
            for _ in range(_POWER_STEPS):
                others = np.linalg.qr(others - V @ (V.T @ others))[0]
                others = _explained(self.fast, others)
            others = np.linalg.qr(others - V @ (V.T @ others))[0]
            slopes, inner = self._slopes(others)
            if count == _MOST_LABELS or np.linalg.eigvalsh(inner)[0] < held**2:
                break
        return slopes, inner

    def _slopes(self, V: _Float64) -> tuple[_Floats, _Float64]:
        """Return X̂ᵀŶV, as dual vectors if there are such, and its inner products."""
        slopes = self._right_sides(V)
        inner = slopes.T @ (self._images(slopes) if self.is_dual else slopes)
        return slopes, 0.5 * (inner + inner.T).astype(np.float64)


def _prepared(rows: CentredRows | RowsElsewhere) -> tuple[Operator, float, Leading]:
    """Return the operator, in single precision if that suffices, its unit, and its leading directions."""
    n_eigenvalues = min(rows.X.shape) if isinstance(rows, CentredRows) else rows.n_eigenvalues
    unit = check_unit(float(rows.scatter.sum()) / n_eigenvalues or 1.0)
    variation = rows.variation
    least = float(np.min(variation, initial=np.inf, where=variation > _CONSTANT * rows.scatter))
    fast = operator_of(rows, np.float32 if least >= _NO_SHIFT[np.float32] * unit else np.float64, unit)
    return fast, unit, leading_directions(fast, _LEADING)


def check_unit(unit: float) -> float:
    """Return the mean eigenvalue if single precision can hold what is computed with it."""
    if not _LEAST_UNIT <= unit <= _LARGEST_UNIT:
        raise ValueError(
            "a fit in a subspace takes single precision, so the mean eigenvalue of XᵀX must be in "
            f"[{_LEAST_UNIT:.0e}, {_LARGEST_UNIT:.0e}], got {unit:.1e}. Divide X by {unit**0.5:.0e}."
        )
    return unit


def _from_rows(operator: Operator, S: _Floats) -> _Floats:
    """Return S itself as dual vectors, else X̂ᵀS."""
    S = S.astype(operator.dtype, copy=False)
    if operator.is_dual:
        return S
    assert isinstance(operator, NormalOperator)
    parts = operator.map(lambda group: operator.backward(np.ascontiguousarray(S[:, group])), S.shape[1])
    return np.hstack([np.zeros((operator.size, 0), dtype=operator.dtype), *parts])


def estimated_eigenvalues(rows: CentredRows) -> _Float64:
    """Return all eigenvalues of X̂ᵀX̂, roughly: leading ones, and for each of the others their mean."""
    fast, unit, leading = _prepared(rows)
    values = np.full(fast.n_eigenvalues, 0.0)
    values[: len(leading.values)] = leading.values
    others = values[len(leading.values) :]
    others[:] = max(len(values) - float(values.sum()), 0.0) / max(len(others), 1)
    values = np.sort(np.maximum(values, np.finfo(np.float32).eps * values.max()))[::-1]
    return values * unit if values[0] > 0 else np.ones(1)


def nbytes(size: int, n_labels: int, directions: int | None, *, bare: bool) -> float:
    """Return about how many bytes a first subspace takes, with copies, and its products with labels."""
    width = n_directions(n_labels, directions) * (1 if bare else 3) + _LEADING
    return 24.0 * width * (size + min(n_labels, size))


def cost(size: int, entries: float, n_labels: int, wanted: int | None = None) -> float:
    """Return about how many multiplications a subspace takes; X̂ times a vector takes ``entries``."""
    directions = n_directions(n_labels, wanted)
    width = 3 * directions + _LEADING
    return 4.0 * _PASSES * entries * directions + 4.0 * size * width**2 + 10.0 * width**3


class _Block(NamedTuple):
    """Vectors of unit length A, their images op(A), and X̂ᵀŶ along them."""

    vectors: _Float64
    images: _Float64
    cross: _Float64
    is_dual: bool

    @classmethod
    def of(cls, rows: CentredRows | RowsElsewhere, vectors: _Floats) -> _Block:
        """Compute the images, in double precision."""
        operator = operator_of(rows, np.float64)
        lengths = np.sqrt(column_sums(vectors, vectors))
        noise = np.finfo(np.float64).eps * float(rows.scatter.sum())
        some = np.flatnonzero((lengths > 0) & (noise > 0))
        A = np.empty((len(vectors), len(some)))
        for start in range(0, len(some), COLUMNS):  # large arrays: no further copy of one
            columns = some[start : start + COLUMNS]
            A[:, start : start + COLUMNS] = vectors[:, columns] / lengths[columns]
        images, cross = np.empty_like(A), np.empty((A.shape[1], operator.n_labels))

        def fill(columns: slice) -> None:
            block = np.ascontiguousarray(A[:, columns])
            images[:, columns], cross[columns] = operator.apply_and_cross(block)

        operator.map(fill, A.shape[1])
        if operator.is_dual:  # vectors orthogonal to all features, such as constant ones, are rounding
            kept = column_sums(A, images) > noise
            if not kept.all():
                A, images, cross = A[:, kept], images[:, kept], cross[kept]
        return cls(A, images, cross, operator.is_dual)

    @property
    def inner(self) -> tuple[_Float64, _Float64]:
        """Inner products QᵀQ and QᵀX̂ᵀX̂Q, with Q = X̂ᵀA for dual vectors and A for others."""
        A, Z = self.vectors, self.images
        return (A.T @ Z, Z.T @ Z) if self.is_dual else (A.T @ A, A.T @ Z)


def _diagonalised(lengths: _Float64, bends: _Float64) -> tuple[_Float64, _Float64]:
    """Return eigenvalues Λ and T with Tᵀ lengths T = I, Tᵀ bends T = Λ, without dependent directions."""
    scale = np.diagonal(lengths) ** -0.5
    squares, S = descending_eigh(lengths * scale[:, None] * scale)
    kept = squares > _DEPENDENT * squares[0]
    C = scale[:, None] * S[:, kept] / np.sqrt(squares[kept])
    eigenvalues, Q = descending_eigh(C.T @ bends @ C)
    kept = eigenvalues > len(eigenvalues) * np.finfo(np.float64).eps * eigenvalues[0]
    return eigenvalues[kept], C @ Q[:, kept]


def _label_directions(fast: Operator, leading: Leading, wanted: int | None) -> _Float64:
    """Return directions of label space: all of up to 512 labels, or those that X explains best.

    These are the leading right singular vectors of (X̂ᵀX̂ + s)^(−1/2) X̂ᵀŶ, s the mean eigenvalue, by
    randomised subspace iteration. The inverse knows leading directions and takes all others for alike.
    """
    n_labels = fast.n_labels
    count = n_directions(n_labels, wanted)
    if count == n_labels:
        return np.eye(count)
    values = leading.values
    others = fast.n_eigenvalues - len(values)
    rest = max(fast.n_eigenvalues - float(values.sum()), 0.0) / max(others, 1)
    gains = ((rest + 1.0) / (values + 1.0) - 1.0)[:, None].astype(fast.dtype)

    def inverse(B: _Floats) -> _Floats:
        return B + leading.vectors @ (gains * (leading.vectors.T @ B))

    V = np.random.default_rng(0).standard_normal((n_labels, count))
    for _ in range(_POWER_STEPS):
        V = np.linalg.qr(_explained(fast, V, inverse))[0]
    return V


def n_directions(n_labels: int, wanted: int | None) -> int:
    """Return how many directions of label space a first subspace is made for."""
    if n_labels <= _MOST_LABELS or wanted is None:
        return min(n_labels, _MOST_LABELS)
    blocks = -(-(wanted + _MORE_DIRECTIONS) // COLUMNS)
    return min(n_labels, blocks * COLUMNS)


def _explained(fast: Operator, V: _Float64, inverse: Callable[[_Floats], _Floats] | None = None) -> _Float64:
    """Return ŶᵀX̂ P X̂ᵀŶ V, with P an inverse, or the identity."""
    product = np.empty(V.shape)

    def fill(columns: slice) -> None:
        B = fast.right_sides(V[:, columns])
        product[:, columns] = fast.cross(B if inverse is None else inverse(B)).T

    fast.map(fill, V.shape[1])
    return product
