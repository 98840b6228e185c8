"""Rows that are read in passes over blocks: a stream, files, a cluster.

Everything that a fit needs of the rows is a sum over them (`lrml.blocks.BlockSource.sum`), so one block is in
memory at a time, and a pass is one round of a cluster. docs/scale.md has a table of what travels in a round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from lrml.blocks import BlockError, BlockSource, RowBlock, unknown_labels
from lrml.core.arrays import Array, is_sparse, thin_svd
from lrml.core.columns import Census
from lrml.core.linalg import NormalOperator, Operator
from lrml.core.moments import CentredRows, Statistics, are_far, without_means
from lrml.core.rows import Rows, filled_moments
from lrml.estimators._warnings import warn_of_ranges

_Float64 = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.floating[Any]]
_Result = TypeVar("_Result")
# A matrix of fewer numbers is sent as it is; one with a larger shorter side takes too long to decompose.
_LEAST_FACTORED, _LARGEST_FACTORED = 1 << 14, 2000
# Numbers of the vectors of a subspace that are sent at a time: 512 MiB in single precision.
_MOST_SENT = 1 << 27


class _Passes:
    """A source of blocks that counts how often it is read."""

    def __init__(self, source: BlockSource) -> None:
        self.source, self.count = source, 0

    def sum(self, part: Callable[..., _Result], *arguments: Any) -> _Result:
        """Sum over all blocks."""
        try:
            total = self.source.sum(part, *arguments)
        except BlockError as error:
            error.sums = None  # part of a pass is of no use
            raise
        self.count += 1
        return total


@dataclass(frozen=True, eq=False)
class BlockRows(Rows):
    """Rows of a source, with some of the labels; X and Y have all columns, but no rows.

    Attributes
    ----------
    passes : _Passes
    census : Census
        What the first pass has found.
    used : bool array of shape (L,)
    is_wide : bool
        Whether there is no room for XᵀX.
    """

    passes: _Passes = field(kw_only=True)
    census: Census = field(kw_only=True)
    used: _Bools = field(kw_only=True)
    is_wide: bool = field(kw_only=True)

    @classmethod
    def read(cls, source: BlockSource, *, is_wide: bool) -> BlockRows:
        """Read the rows for the first time; wide ones must have known labels only."""
        passes, schema = _Passes(source), source.columns
        census = passes.sum(_known_census if is_wide else Census.of)
        warn_of_ranges(0.5 * census.features.high - 0.5 * census.features.low, schema.feature_names)
        used = np.ones(schema.n_labels, dtype=np.bool_)
        X, Y = np.empty((0, schema.n_features)), np.empty((0, schema.n_labels))
        return cls(X, Y, schema=schema, passes=passes, census=census, used=used, is_wide=is_wide)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of rows, features and labels."""
        return self.census.n_rows, self.schema.n_features, int(np.count_nonzero(self.used))

    @property
    def all_known(self) -> bool:
        """Whether all labels are known: those of others are summed at once."""
        return self.is_wide

    @property
    def n_passes(self) -> int:
        """How often the rows were read."""
        return self.passes.count

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the rows."""
        return self.census.features.weight

    @property
    def squared_weights(self) -> float:
        """Sum of the squares of the weights of the rows."""
        return self.census.squared_weights

    @property
    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of every feature."""
        return self.census.features.low, self.census.features.high

    def label_totals(self) -> tuple[Array, Array]:
        """Weighted number of known examples, and of positive ones, per label."""
        return self.census.known[self.used], self.census.positive[self.used]

    @property
    def label_squares(self) -> Array:
        """Weighted sums of the squares of the labels, 0 where unknown."""
        return self.census.squares[self.used]

    @cached_property
    def statistics(self) -> Statistics:
        """Moments of X and Y, the unknown labels filled in, in one more pass."""
        return self.passes.sum(filled_moments, self.label_means)

    def select_labels(self, chosen: Array) -> BlockRows:
        """Return the same rows with the chosen labels only."""
        if chosen.all():
            return self
        used = self.used.copy()
        used[used] = chosen
        return replace(self, used=used)

    def with_precision(self, dtype: type[np.floating[Any]]) -> BlockRows:
        """Return the same rows with scores in the given precision."""
        return replace(self, dtype=dtype)

    def sum(self, part: Callable[..., _Result], *arguments: Any) -> _Result:
        """Sum over all blocks and their parts, as `Rows.sum` does; matrices are sent as factors."""
        sent = (_Broadcast(each) if getattr(each, "ndim", 0) == 2 else each for each in arguments)
        total: _Result = self.passes.sum(_sum_of_block, part, self.used, self.dtype, *sent)
        return total

    def centred(self, fit_intercept: bool) -> Any:
        """Return the rows about their means, with the products that a subspace needs of them."""
        return _CentredBlocks(self.passes, self.census, fit_intercept)


def _known_census(block: RowBlock) -> Census:
    if block.mask is not None:
        raise unknown_labels(block.index, block.first_row)
    return Census.of(block)


def _sum_of_block(
    block: RowBlock,
    part: Callable[..., _Result],
    used: _Bools,
    dtype: type[np.floating[Any]],
    *sent: Any,
) -> _Result:
    arguments = (each.matrix if isinstance(each, _Broadcast) else each for each in sent)
    total: _Result = block.select_labels(used).with_precision(dtype).sum(part, *arguments)
    return total


class _Broadcast:
    """A matrix that is sent to another process as two factors, if its rank is low."""

    def __init__(self, matrix: _Floats) -> None:
        self.matrix = matrix

    def __reduce__(self) -> Any:
        shape = self.matrix.shape
        if self.matrix.size >= _LEAST_FACTORED and min(shape) <= _LARGEST_FACTORED:
            U, s, Vt = thin_svd(self.matrix.astype(np.float64))
            # Smaller singular values are rounding.
            rank = int(np.count_nonzero(s > np.finfo(self.matrix.dtype).eps * s[0]))
            if rank * sum(shape) < self.matrix.size:
                left, right = (U * s)[:, :rank], Vt[:rank]
                return _multiplied, tuple(part.astype(self.matrix.dtype) for part in (left, right))
        return _Broadcast, (self.matrix,)


def _multiplied(left: _Floats, right: _Floats) -> _Broadcast:
    return _Broadcast(left @ right)


# Wide rows


class _Centring(NamedTuple):
    """How blocks are centred: means, and which sparse columns are so far from zero that this comes first."""

    x_mean: _Float64
    y_mean: _Float64
    far: _Bools

    def operator(self, block: RowBlock, dtype: type[np.floating[Any]], unit: float) -> NormalOperator:
        """Return X̂ᵀX̂ of a block."""
        X, x_offset = block.X.astype(np.float64), self.x_mean
        if not is_sparse(X):
            X, x_offset = X - x_offset, np.zeros_like(x_offset)
        elif self.far.any():
            X, x_offset = without_means(X, x_offset, self.far), np.where(self.far, 0.0, x_offset)
        Y, y_offset = block.Y.astype(np.float64), self.y_mean
        if not is_sparse(Y):
            Y, y_offset = Y - y_offset, np.zeros_like(y_offset)
        w = np.ones(len(block)) if block.weights is None else block.weights
        rows = CentredRows(X, Y, w, *self[:2], x_offset, y_offset, np.ones_like(self.far), 0.0)
        return NormalOperator(rows, dtype, unit, may_be_dual=False)


@dataclass(frozen=True, eq=False)
class _CentredBlocks:
    """Centred rows of a source, with the products that a `Subspace` needs of them."""

    passes: _Passes
    census: Census
    fit_intercept: bool

    @property
    def x_mean(self) -> Array:
        """Means of the features."""
        return self.census.features.mean

    @property
    def y_mean(self) -> Array:
        """Means of the labels."""
        return self.census.labels.mean

    @property
    def n_eigenvalues(self) -> int:
        """How many eigenvalues of X̂ᵀX̂ may differ from 0."""
        return max(min(self.census.n_rows, len(self.x_mean)), 1)

    @property
    def scatter(self) -> Array:
        """Σ w x̂² of every column."""
        found = self.census.features
        return found.scatter if self.fit_intercept else found.scatter + found.weight * found.mean**2

    @property
    def variation(self) -> Array:
        """Σ w (x − x̄)² of every column."""
        return self.census.features.scatter

    @property
    def yy(self) -> float:
        """Σ w ‖ŷ‖²."""
        found = self.census.labels
        of_mean = 0.0 if self.fit_intercept else found.weight * float(found.mean @ found.mean)
        return float(found.scatter.sum()) + of_mean

    @property
    def centring(self) -> _Centring:
        """How blocks are centred."""
        found = self.census.features
        if not self.fit_intercept:
            none = np.zeros(len(found.mean), dtype=np.bool_)
            return _Centring(np.zeros_like(found.mean), np.zeros_like(self.y_mean), none)
        far = are_far(found.scatter, found.scatter + found.weight * found.mean**2)
        return _Centring(found.mean, self.y_mean, far)

    def operator(self, dtype: type[np.floating[Any]], unit: float) -> Operator:
        """Return X̂ᵀX̂ over a unit."""
        return _SummedOperator(self, dtype, unit)


class _SummedOperator(Operator):
    """X̂ᵀX̂ for rows of a source; every product is one pass, with as many vectors as memory permits."""

    in_lockstep = True

    def __init__(self, rows: _CentredBlocks, dtype: type[np.floating[Any]], unit: float) -> None:
        self.dtype, self.n_eigenvalues = dtype, rows.n_eigenvalues
        self.size, self.n_labels = len(rows.x_mean), len(rows.y_mean)
        self.columns = max(64, _MOST_SENT // (3 * self.size))
        self._passes, self._given = rows.passes, (rows.centring, dtype, unit)

    def _sum(self, method: str, matrix: _Floats) -> Any:
        return self._passes.sum(_product, method, matrix, *self._given)

    def apply(self, B: _Floats) -> _Floats:
        """Return the product with a block of vectors."""
        product: _Floats = self._sum("apply", B)
        return product

    def right_sides(self, V: _Float64) -> _Floats:
        """X̂ᵀŶ V, in units of the operator."""
        product: _Floats = self._sum("right_sides", V)
        return product

    def apply_and_cross(self, B: _Floats) -> tuple[_Floats, _Floats]:
        """Return the product with a block of vectors, and their scores times Ŷ."""
        product, cross = self._sum("apply_and_cross", B)
        return product, cross

    def cross(self, B: _Floats) -> _Floats:
        """Return the scores of a block of vectors times Ŷ."""
        product: _Floats = self._sum("cross", B)
        return product


def _product(
    block: RowBlock,
    method: str,
    matrix: _Floats,
    centring: _Centring,
    dtype: type[np.floating[Any]],
    unit: float,
) -> Any:
    """Return what a method of the operator of a block makes of a matrix, in groups of its columns."""
    operator = centring.operator(block, dtype, unit)
    apply = getattr(operator, method)
    parts = operator.map(lambda group: apply(np.ascontiguousarray(matrix[:, group])), matrix.shape[1])
    if method == "apply_and_cross":
        products, crosses = zip(*parts, strict=True)
        return np.hstack(products), np.vstack(crosses)
    return np.vstack(parts) if method == "cross" else np.hstack(parts)
