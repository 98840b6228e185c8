"""The toolbox for large X: products with X̂ᵀX̂ or X̂X̂ᵀ, which are never made, and what is built on them.

That is: leading directions, and conjugate gradients.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import is_sparse, map_in_threads
from lrml.core.linalg import descending_eigh
from lrml.core.moments import CentredRows, scaled_rows

_Float64 = npt.NDArray[np.float64]
_Floats = npt.NDArray[np.floating[Any]]
_Places = npt.NDArray[np.intp]
_Array = TypeVar("_Array", bound=npt.NDArray[Any])
Vectors: TypeAlias = tuple[_Floats, ...]
"""Coordinates of vectors (columns), and other arrays that are linear in them, such as their images."""

# Columns that are processed at a time: wide enough for sparse products, narrow enough to stay near the cache.
COLUMNS = 64
_MOST_STEPS = 60
_FULL_ENOUGH = 0.7  # once fewer of the systems in work go on, they are packed


class NormalOperator:
    """X̂X̂ᵀ if there are at most as many rows as features, else X̂ᵀX̂; applied, never made.

    X̂ is divided by the root of ``unit``, which keeps numbers of single precision in their range. Vectors
    have the length ``size``: one entry per row if it ``is_dual``. ``n_eigenvalues`` may differ from 0.
    """

    columns = COLUMNS  # how many vectors are best processed at a time
    in_lockstep = False  # whether several shifts are solved side by side, as every product reads all rows

    def __init__(
        self, rows: CentredRows, dtype: type[np.floating[Any]], unit: float = 1.0, *, may_be_dual: bool = True
    ) -> None:
        self.dtype, self._Y, self._y_offset = dtype, rows.Y, rows.y_offset
        self._roots = np.sqrt(rows.weights)[:, None]
        self.n_eigenvalues, self.n_labels = rows.n_eigenvalues, int(rows.Y.shape[1])
        self.is_dual = may_be_dual and bool(rows.X.shape[0] <= rows.X.shape[1])
        self.size = rows.X.shape[0 if self.is_dual else 1]
        root = np.sqrt(rows.weights / unit)
        X = rows.X if np.all(root == 1.0) else scaled_rows(rows.X, root)
        offset = rows.x_offset
        self._places: slice | _Places = slice(None)
        if is_sparse(X):
            X = X.tocsr()
            if self.is_dual:
                # XXᵀ does not depend on the order of features; frequent ones side by side stay in the cache.
                order = np.argsort(-np.bincount(X.indices, minlength=X.shape[1]), kind="stable")
                X, offset, self._places = X[:, order], offset[order], np.argsort(order)
        self.X = X.astype(dtype, copy=False)
        # Transposed once: products with rows of the result in order are faster.
        self.Xt = self.X.T.tocsr() if is_sparse(X) else self.X.T
        self.root, self.offset = root.astype(dtype), offset.astype(dtype)
        self.is_centred = not offset.any()
        self.along = np.asarray(self.X @ self.offset)

    def forward(self, W: _Floats) -> _Floats:
        """X̂ W; not for dual vectors, as features may be in another order."""
        product: _Floats = np.asarray(self.X @ W)
        if not self.is_centred:
            product -= np.outer(self.root, self.offset @ W)
        return product

    def backward(self, A: _Floats) -> _Floats:
        """X̂ᵀ A, with features in the order of the rows."""
        product: _Floats = np.asarray(self.Xt @ A)
        if not self.is_centred:
            product -= np.outer(self.offset, self.root @ A)
        return product[self._places]

    def _seen(self, B: _Floats) -> _Floats:
        """X̂X̂ᵀB for dual vectors, X̂B for others: what the rows make of them."""
        if not self.is_dual:
            return self.forward(B)
        product: _Floats = np.asarray(self.X @ np.asarray(self.Xt @ B))
        if not self.is_centred:
            # X̂ = M − root offsetᵀ, so centring takes no further array with one row per feature.
            sums = self.root @ B
            product -= np.outer(self.along, sums)
            product += np.outer(self.root, (self.offset @ self.offset) * sums - self.along @ B)
        return product

    def apply(self, B: _Floats) -> _Floats:
        """Return the product with a narrow block of vectors."""
        return self._seen(B) if self.is_dual else self.backward(self.forward(B))

    def right_sides(self, V: _Float64) -> _Floats:
        """Ŷ V for dual vectors, X̂ᵀŶ V for others, in units of the operator."""
        targets = (self._roots * (np.asarray(self._Y @ V) - self._y_offset @ V)).astype(self.dtype)
        return targets if self.is_dual else self.backward(targets)

    def apply_and_cross(self, B: _Floats) -> tuple[_Floats, _Floats]:
        """Return the product with a narrow block of vectors, and `cross` of it."""
        seen = self._seen(B)
        return seen if self.is_dual else self.backward(seen), self._targets_product(seen)

    def cross(self, B: _Floats) -> _Floats:
        """Return (X̂ᵀŶ)ᵀ times X̂ᵀB, or times B, transposed (k × L)."""
        return self._targets_product(self._seen(B))

    def _targets_product(self, scores: _Floats) -> _Floats:
        """Return scoresᵀ Ŷ without making a sparse Y dense."""
        weighted = self._roots * scores
        product: _Floats = np.asarray(self._Y.T @ weighted).T
        return product - np.outer(weighted.sum(axis=0), self._y_offset)

    def map(self, function: Callable[[slice], Any], count: int) -> list[Any]:
        """Apply a function to groups of columns, in threads unless every product reads all rows."""
        groups = [slice(start, min(start + self.columns, count)) for start in range(0, count, self.columns)]
        if self.in_lockstep:
            return [function(group) for group in groups]
        return list(map_in_threads(function, groups, ahead=len(groups)))

    def wide(self, function: Callable[..., _Floats], *parts: _Floats, length: int | None = None) -> _Floats:
        """Apply a function of blocks of vectors to all columns of matrices, and entries of vectors."""
        count = parts[0].shape[-1]
        found = np.empty((self.size if length is None else length, count), dtype=self.dtype)

        def fill(columns: slice) -> None:
            found[:, columns] = function(*(np.ascontiguousarray(part[..., columns]) for part in parts))

        self.map(fill, count)
        return found

    def apply_wide(self, B: _Floats) -> _Floats:
        """Return the product with any number of vectors."""
        return self.wide(self.apply, B)


def powered(product: Callable[[Any], _Floats], block: _Floats, steps: int) -> Any:
    """Return an orthonormal block, turned towards leading eigenvectors by powers of a symmetric operator."""
    for _ in range(steps):
        block = np.linalg.qr(product(block))[0]
    return block


class Leading(NamedTuple):
    """Leading eigenvectors (columns) and eigenvalues of an operator, approximately."""

    vectors: _Floats
    values: _Floats


def leading_directions(
    product: Callable[[_Floats], _Floats], size: int, count: int, dtype: npt.DTypeLike
) -> Leading:
    """Return leading eigenvectors by a randomised Nyström approximation, with one power step.

    With S = op(Q), Q orthonormal, op ≈ S (QᵀS)⁻¹ Sᵀ, which never exceeds the operator.
    """
    random = np.random.default_rng(0).standard_normal((size, min(count, size))).astype(dtype)
    Q = powered(product, random, 1)
    S = product(Q)
    inner = Q.T.astype(np.float64) @ S
    values, P = descending_eigh(0.5 * (inner + inner.T))
    kept = values > 1e-5 * max(float(values[0]), 0.0)
    if not kept.any():
        return Leading(Q[:, :0], values[:0])
    root = S @ (P[:, kept] / np.sqrt(values[kept])).astype(dtype)
    squares, V = descending_eigh(root.T.astype(np.float64) @ root)
    kept = squares > 1e-6 * squares[0]
    vectors = root @ (V[:, kept] / np.sqrt(squares[kept])).astype(dtype)
    return Leading(vectors, squares[kept])


class ConjugateGradients:
    """Preconditioned conjugate gradients for systems H x = b, one per column of a block, begun at zero.

    ``system`` knows H and a preconditioner P: ``precondition(r)`` returns P⁻¹r as vectors, ⟨r, P⁻¹r⟩ and
    ‖r‖²; ``product(p)`` Hp, ⟨p, Hp⟩, and what else is linear in p and wanted of the solution;
    ``take(places)`` some of the systems.

    Attributes
    ----------
    places : array of shape (k,)
        Columns in work; the arrays below have one entry, or column, for each of them.
    size, square : array of shape (k,)
        ⟨r, P⁻¹r⟩ and ‖r‖² of what is left of the right sides.
    count : int
        Steps taken.
    length : array of shape (k,)
        Of the last step. Its inverse is at least the least eigenvalue of P⁻¹H.
    last, gain : array of shape (k,)
        How much the last step, and all together, have lowered ½⟨x, Hx⟩ − ⟨b, x⟩.
    """

    def __init__(self, system: Any, right_sides: _Floats) -> None:
        self.system, self.residual, self.count = system, right_sides, 0
        self.ahead, self.size, self.square = system.precondition(right_sides)
        self.places, self.width = np.arange(len(self.size)), len(self.size)
        self.length, self.last, self.gain, self.turn = np.zeros((4, self.width))
        self.direction: Vectors = ()
        self.solution: Vectors = ()
        self.found: Vectors = ()  # solutions of all columns, as far as they have been stored

    def step(self) -> None:
        """Take one step with every system in work."""
        for along, ahead in zip(self.direction, self.ahead, strict=False):
            np.multiply(along, self.turn.astype(along.dtype), out=along)
            np.add(along, ahead, out=along)
        self.direction = self.direction or self.ahead
        bent, curvature, further = self.system.product(self.direction)
        vectors = (*self.direction, *further)
        if not self.found:
            self.found = tuple(np.zeros((len(part), self.width), part.dtype) for part in vectors)
            self.solution = tuple(taken(part, self.places) for part in self.found)
        self.length, before = ratio(self.size, curvature), self.size
        step = self.length.astype(bent.dtype)
        for whole, part in zip(self.solution, vectors, strict=True):
            np.add(whole, step * part, out=whole)
        bent *= -step
        bent += self.residual
        self.residual = bent
        self.ahead, self.size, self.square = self.system.precondition(self.residual)
        self.turn = ratio(self.size, before)
        self.last = 0.5 * self.length * before
        self.gain, self.count = self.gain + self.last, self.count + 1

    def take(self, some: _Places) -> None:
        """Store the solutions, and go on with some of the systems in work only."""
        for whole, part in zip(self.found, self.solution, strict=True):
            whole[:, self.places] = part
        self.system = self.system.take(some)
        for name in ("places", "residual", "size", "square", "length", "last", "gain", "turn"):
            setattr(self, name, taken(getattr(self, name), some))
        for name in ("ahead", "direction", "solution"):
            setattr(self, name, tuple(taken(part, some) for part in getattr(self, name)))

    def run(self, goes_on: Callable[[Self], npt.NDArray[np.bool_]], most_steps: int) -> Vectors:
        """Step until ``goes_on`` is true of none; return the solutions of all columns.

        Systems that are done are left out once they are many.
        """
        for count in range(1, most_steps + 1):
            self.step()
            going = np.flatnonzero(goes_on(self))
            if len(going) <= _FULL_ENOUGH * len(self.places) or count == most_steps:
                self.take(going)
            if len(going) == 0:
                break
        return self.found


class _Shifted(NamedTuple):
    """Systems (op + s_j) x_j = b_j with P⁻¹ = U diag((μ + s_j) / (λ + s_j)) Uᵀ + (I − UUᵀ).

    λ are the leading eigenvalues, and μ is the least of them.
    """

    operator: NormalOperator
    shifts: _Floats
    vectors: _Floats
    gains: _Floats

    def precondition(self, residual: _Floats) -> tuple[Vectors, _Float64, _Float64]:
        """Return P⁻¹r, ⟨r, P⁻¹r⟩ and ‖r‖²."""
        ahead = residual + self.vectors @ (self.gains * (self.vectors.T @ residual))
        return (ahead,), column_sums(residual, ahead), column_sums(residual, residual)

    def product(self, direction: Vectors) -> tuple[_Floats, _Float64, Vectors]:
        """Return (op + s) p and ⟨p, (op + s) p⟩."""
        bent = self.operator.apply(direction[0])
        bent += self.shifts * direction[0]
        return bent, column_sums(direction[0], bent), ()

    def take(self, places: _Places) -> _Shifted:
        """Return some of the systems."""
        return self._replace(shifts=self.shifts[places], gains=taken(self.gains, places))


def solve_shifted(
    operator: NormalOperator,
    B: _Floats,
    shifts: _Floats,
    leading: Leading,
    tolerance: float,
    max_steps: int = _MOST_STEPS,
) -> _Floats:
    """Solve (op + s_j) a_j = b_j for every column by preconditioned conjugate gradients.

    They end when the residual of the block is ``tolerance`` times B, and the last step has lowered the
    quadratic function by that share of all steps: a large part of the residual may lie along a large
    eigenvalue, where it matters little.
    """
    vectors, values = leading
    least = values[-1] if len(values) else 0.0
    gains = ((least + shifts) / (values[:, None] + shifts) - 1.0).astype(operator.dtype)
    systems = ConjugateGradients(_Shifted(operator, shifts.astype(operator.dtype), vectors, gains), B)
    limit = tolerance**2 * systems.square.sum()

    def goes_on(now: ConjugateGradients) -> npt.NDArray[np.bool_]:
        done = now.square.sum() <= limit and now.last.sum() <= tolerance * now.gain.sum()
        return np.full(len(now.places), not done)

    return systems.run(goes_on, max_steps)[0]


def column_sums(A: _Floats, B: _Floats) -> _Float64:
    """Σ_i a_ij b_ij for every column."""
    return np.asarray(np.einsum("ij,ij->j", A, B), dtype=np.float64)


def ratio(above: _Float64, below: _Float64) -> _Float64:
    """Divide; 0 where the divisor is not positive."""
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)


def taken(part: _Array, places: _Places) -> _Array:
    """Return some columns, or entries; all of them, in order, are the array itself."""
    some: Any = part if len(places) == part.shape[-1] else np.take(part, places, axis=-1)
    return cast(_Array, some)
