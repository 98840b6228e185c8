"""Losses summed over rows, in blocks: for losses other than the squared one, and for unknown labels.

A fit with squared loss and full labels needs second moments only (`lrml.core.moments`). Everything else needs
the scores of the examples. They are computed, used and discarded block by block, so the n × L scores never
exist at once, whether X and Y are dense or sparse.

On a device everything is dense and stays there, blocks are large, and one after the other is summed. Scores,
slopes and the product Xᵀ slopes of a block have the precision of the rows; single precision is never TF32.
Values, slopes and curvatures are added up in double precision, over the rows of a block as well as over
blocks, and so are the products of blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from lrml.core.arrays import Array, Place, full_precision, is_sparse, namespace, take
from lrml.core.losses import Loss, Terms
from lrml.core.moments import Statistics
from lrml.core.threads import map_in_threads

_Result = TypeVar("_Result")
Matrix: TypeAlias = Any
"""A dense array, or a SciPy CSR array."""

# Scores of one block: 2 MiB in single precision, so that a block and its derivatives stay near the cache.
_BLOCK_SCORES = 1 << 19
# The same on a device: about ten such arrays take 1.3 GiB in double precision, and kernels run much longer
# than it takes to launch them.
_DEVICE_SCORES = 1 << 24
_LEAST_ROWS = 32  # enough for products with a block to be worth a BLAS call
# From this density on, BLAS on a dense copy of a block is faster than a sparse product.
_DENSE_FROM = 0.1
_DENSE_BYTES = 1 << 28
_ROUNDING = 1e-13


def added(total: Any, more: Any) -> Any:
    """Return total + more, perhaps in the arrays of ``total``; None is an empty sum.

    Both are numbers, arrays, objects with a method ``absorb``, or tuples of these.
    """
    if total is None:
        return more
    if isinstance(total, tuple):
        parts = [added(*pair) for pair in zip(total, more, strict=True)]
        return type(total)(*parts) if hasattr(total, "_fields") else tuple(parts)
    if hasattr(total, "absorb"):
        return total.absorb(more)
    if isinstance(total, np.ndarray) and total.ndim and total.dtype == np.result_type(total, more):
        total += more
        return total
    return total + more


def dense_block(matrix: Matrix, rows: slice, dtype: npt.DTypeLike) -> Array:
    """Return some rows of a matrix as a dense array, copied only if they must be."""
    block = matrix[rows, :]
    return Place.of(block).asarray(block.toarray() if is_sparse(block) else block, dtype)


@dataclass(frozen=True, eq=False)
class Mask:
    """Which labels of which examples are known.

    Parameters
    ----------
    pattern : bool array or CSR array of shape (n, L)
    marks_known : bool, default=True
        Whether the pattern marks the known entries or the unknown ones; use the rarer kind.
    """

    pattern: Matrix
    marks_known: bool = True

    def block(self, rows: slice, dtype: npt.DTypeLike) -> Array:
        """Return 1 where a label is known and 0 elsewhere, for some rows."""
        marks = dense_block(self.pattern, rows, dtype)
        return marks if self.marks_known else 1.0 - marks

    def known(self, rows: Any = None) -> Array:
        """Return which labels are known, as a dense array of bool, of all examples or those numbered."""
        marks = self.pattern if rows is None else take(self.pattern, rows)
        marks = marks.toarray() if is_sparse(marks) else marks
        return marks if self.marks_known else ~marks

    def select_labels(self, chosen: Array) -> Mask:
        """Return the mask of the chosen labels."""
        return Mask(chosen_columns(self.pattern, chosen), self.marks_known)

    def select_rows(self, rows: npt.NDArray[np.int64]) -> Mask:
        """Return the mask of some of the examples."""
        return Mask(take(self.pattern, rows), self.marks_known)


def chosen_columns(matrix: Matrix, chosen: Array) -> Matrix:
    """Return the columns of a matrix that are marked."""
    if is_sparse(matrix):
        return matrix[:, chosen]
    return take(matrix, namespace(chosen).nonzero(chosen)[0], axis=1)


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows: features as given, dense labels, and the factors of their losses.

    Attributes
    ----------
    rows : slice
    X : array or CSR array of shape (b, d)
    Y : array of shape (b, L)
    factors : array of shape (b, L) or (b, 1), or None
        Weight of every entry, 0 where a label is not known; None stands for ones.
    """

    rows: slice
    X: Matrix
    Y: Array
    factors: Array | None

    def terms(self, loss: Loss, scores: Array) -> Terms:
        """Values, slopes and curvatures of the loss at the scores (b × L), times the factors."""
        terms = loss.terms(self.Y, scores)
        if self.factors is not None:
            for part in terms:
                part[...] *= self.factors
        return terms


class RowSums(Protocol):
    """What a fit needs of rows, in memory or not: their shape, and sums over them."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of rows, features and labels."""

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the rows."""

    @property
    def squared_weights(self) -> float:
        """Sum of the squares of the weights of the rows."""

    @property
    def dtype(self) -> type[np.floating[Any]]:
        """Precision of the scores."""

    def moments_of_features(self) -> Statistics:
        """Moments of X, with one column of zeros for the labels."""

    def label_totals(self) -> tuple[Array, Array]:
        """Weighted number of known examples, and of positive ones, per label."""

    def sum(self, part: Callable[..., _Result], *arguments: Any) -> _Result:
        """Return Σ part(block, *arguments) in one pass over the rows; see `Rows.sum`."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Examples, their labels, which of these are known, and weights.

    Parameters
    ----------
    X : array or CSR array of shape (n, d)
        Sums are taken where X is; all other arrays are in the same place.
    Y : array or CSR array of shape (n, L)
        0 where a label is not known.
    mask : Mask or None
        Which labels are known; None means all.
    weights : array of shape (n,) or None
    dtype : type
        Precision of the scores; sums are always taken in double precision.
    """

    X: Matrix
    Y: Matrix
    mask: Mask | None = None
    weights: Array | None = None
    dtype: type[np.floating[Any]] = np.float64

    @property
    def place(self) -> Place:
        """Where the rows are, and sums over them."""
        return Place.of(self.X)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of rows, features and labels."""
        return (self.X.shape[0], self.X.shape[1], self.Y.shape[1])

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the rows."""
        return float(self.X.shape[0] if self.weights is None else self.place.xp.sum(self.weights))

    @property
    def squared_weights(self) -> float:
        """Sum of the squares of the weights of the rows."""
        return float(self.X.shape[0] if self.weights is None else self.weights @ self.weights)

    @property
    def suits_blas(self) -> bool:
        """Whether X is sparse, but dense enough for products with dense copies of its blocks to be faster."""
        return is_sparse(self.X) and self.X.nnz > _DENSE_FROM * self.X.shape[0] * self.X.shape[1]

    def with_precision(self, dtype: type[np.floating[Any]]) -> Rows:
        """Return the same rows for many passes, with features and scores in the given precision.

        Features that suit BLAS are made dense here, once for all passes, if that takes at most 256 MiB, and
        block by block otherwise. Dense ones that are almost all zero are made sparse.
        """
        if not self.place.is_host:
            X, Y = (self.place.asarray(M, dtype) for M in (self.X, self.Y))
            return Rows(X, Y, self.mask, self.weights, dtype)
        X = self.X.astype(dtype, copy=False)
        if not is_sparse(X) and np.count_nonzero(X) <= _DENSE_FROM * X.size:
            X = csr_array(X)
        elif self.suits_blas and X.shape[0] * X.shape[1] * X.dtype.itemsize <= _DENSE_BYTES:
            X = X.toarray()
        Y = self.Y if is_sparse(self.Y) else self.Y.astype(dtype, copy=False)
        return Rows(X, Y, self.mask, self.weights, dtype)

    def select_labels(self, chosen: Array) -> Rows:
        """Return the same rows with the chosen labels only."""
        if bool(namespace(chosen).all(chosen)):
            return self
        mask = None if self.mask is None else self.mask.select_labels(chosen)
        return Rows(self.X, chosen_columns(self.Y, chosen), mask, self.weights, self.dtype)

    def blocks(self) -> Iterator[Block]:
        """Yield the rows, a few at a time."""
        return map(self._block, self._slices())

    def map(self, function: Callable[[Block], _Result]) -> Iterator[_Result]:
        """Apply a function to each block, on the host in several threads; yield the results in order."""
        if not self.place.is_host:
            return map(function, self.blocks())
        return map_in_threads(lambda rows: function(self._block(rows)), self._slices())

    def sum(self, part: Callable[..., _Result], *arguments: Any) -> _Result:
        """Return Σ part(block, *arguments) over the blocks, added in their order.

        ``part`` is importable by name, as rows may be elsewhere, and returns what `added` can add, in double
        precision.
        """
        with full_precision(self.X):
            return reduce(added, self.map(lambda block: part(block, *arguments)))

    def moments_of_features(self) -> Statistics:
        """Moments of X, with one column of zeros for the labels."""
        return Statistics.from_arrays(self.X, self.place.zeros((self.X.shape[0], 1)), self.weights)

    @property
    def block_rows(self) -> int:
        """Number of rows of a block (the last one may have fewer)."""
        scores = _BLOCK_SCORES if self.place.is_host else _DEVICE_SCORES
        return min(self.shape[0], max(_LEAST_ROWS, scores // self.shape[2]))

    def _slices(self) -> list[slice]:
        n, step = self.X.shape[0], self.block_rows
        return [slice(start, min(start + step, n)) for start in range(0, n, step)]

    def _block(self, rows: slice) -> Block:
        X = self.X[rows].toarray() if self.suits_blas else self.X[rows, :]
        return Block(rows, X, dense_block(self.Y, rows, self.dtype), self._factors(rows))

    def _factors(self, rows: slice) -> Array | None:
        weights = (
            None if self.weights is None else self.place.asarray(self.weights[rows], self.dtype)[:, None]
        )
        if self.mask is None:
            return weights
        known = self.mask.block(rows, self.dtype)
        return known if weights is None else known * weights

    def label_totals(self) -> tuple[Array, Array]:
        """Weighted number of known examples, and of positive ones, per label."""
        return self._label_totals

    @cached_property
    def _label_totals(self) -> tuple[Array, Array]:
        xp, total = self.place.xp, self.total_weight
        positive = self._weighted_sums(self.Y)
        known = xp.full_like(positive, total)
        if self.mask is not None:
            marked = self._weighted_sums(self.mask.pattern)
            known = marked if self.mask.marks_known else known - marked
            # Instead of 0, a subtraction may leave rounding noise.
            known = xp.where(known < _ROUNDING * total, 0.0, known)
        return known, positive

    def _weighted_sums(self, M: Matrix) -> Array:
        """Return the weighted sums of the columns of a matrix, in double precision."""
        if self.place.is_host:
            w = np.ones(self.X.shape[0]) if self.weights is None else self.weights
            return np.asarray(M.T @ w, dtype=np.float64)
        xp = self.place.xp
        total = self.place.zeros(M.shape[1])
        for rows in self._slices():  # a whole copy in double precision might not fit
            block = dense_block(M, rows, np.float64)
            total += xp.sum(block if self.weights is None else block * self.weights[rows, None], axis=0)
        return total
