"""Rows that are read in passes over blocks: a stream, files, a cluster.

Everything that a fit needs of the rows is a sum over them (`lrml.blocks.BlockSource.sum`), so one block is in
memory at a time, and a pass is one round of a cluster. docs/scale.md has a table of what travels in a round.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partialmethod
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lrml._door import warn_of_ranges
from lrml.blocks import BlockError, BlockSource, RowBlock, UnknownLabelsError
from lrml.core.arrays import Array, is_sparse
from lrml.core.moments import CentredRows, Statistics, are_far, without_means
from lrml.core.operators import NormalOperator
from lrml.core.rows import Census, Rows, filled_moments

_Float64 = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.floating[Any]]
_Result = TypeVar("_Result")
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
    """Rows of a source, with some of the labels; X and Y have all columns, but no rows."""

    passes: _Passes = field(kw_only=True)
    census: Census = field(kw_only=True)  # what the first pass has found
    used: _Bools = field(kw_only=True)  # which labels, of shape (L,)
    is_wide: bool = field(kw_only=True)  # whether there is no room for XᵀX

    @classmethod
    def read(cls, source: BlockSource, *, wide: bool) -> BlockRows:
        """Read the rows for the first time; ``wide`` ones, without room for XᵀX, if all labels are known."""
        passes, schema, is_wide = _Passes(source), source.columns, wide
        try:
            census = passes.sum(_known_census if wide else Census.of)
        except UnknownLabelsError:
            is_wide, census = False, passes.sum(Census.of)
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
        """Sum over all blocks and their parts, as `Rows.sum` does."""
        total: _Result = self.passes.sum(_sum_of_block, part, self.used, self.dtype, *arguments)
        return total

    def centred(self, fit_intercept: bool) -> Any:
        """Return the rows about their means, with the products that a subspace needs of them."""
        return _CentredBlocks(self.passes, self.census, fit_intercept)


def _known_census(block: RowBlock) -> Census:
    block.check_known()
    return Census.of(block)


def _sum_of_block(
    block: RowBlock, part: Callable[..., _Result], used: _Bools, dtype: Any, *arguments: Any
) -> _Result:
    total: _Result = block.select_labels(used).with_precision(dtype).sum(part, *arguments)
    return total


# Wide rows


def _operator(
    block: RowBlock, x_mean: _Float64, y_mean: _Float64, far: _Bools, *scaling: Any
) -> NormalOperator:
    """Return X̂ᵀX̂ of a block about means; ``far`` sparse columns are centred first."""
    X, x_offset = _about(block.X, x_mean, far)
    Y, y_offset = _about(block.Y, y_mean, np.zeros(len(y_mean), dtype=np.bool_))
    w = np.ones(len(block)) if block.weights is None else block.weights
    rows = CentredRows(X, Y, w, x_mean, y_mean, x_offset, y_offset, np.ones_like(far), 0.0)
    return NormalOperator(rows, *scaling, may_be_dual=False)


def _about(M: Any, mean: _Float64, far: _Bools) -> tuple[Any, _Float64]:
    """Return M about the means of its columns, of a sparse one the far ones, and the other means."""
    M = M.astype(np.float64)
    if not is_sparse(M):
        return M - mean, np.zeros_like(mean)
    return without_means(M, mean, far) if far.any() else M, np.where(far, 0.0, mean)


class _CentredBlocks:
    """Centred rows of a source, or rows about zero without an intercept, as a `Subspace` needs them."""

    def __init__(self, passes: _Passes, census: Census, fit_intercept: bool) -> None:
        X, Y = census.features, census.labels
        x_squares, y_squares = (part.scatter + part.weight * part.mean**2 for part in (X, Y))
        self.x_mean, self.y_mean, self.variation = X.mean, Y.mean, X.scatter
        self.scatter = X.scatter if fit_intercept else x_squares
        self.yy = float((Y.scatter if fit_intercept else y_squares).sum())
        self.n_eigenvalues = max(min(census.n_rows, len(X.mean)), 1)
        self._passes, used = passes, float(fit_intercept)
        self._centring = used * X.mean, used * Y.mean, are_far(X.scatter, x_squares) & fit_intercept

    def operator(self, dtype: type[np.floating[Any]], unit: float) -> NormalOperator:
        """Return X̂ᵀX̂ over a unit."""
        return _SummedOperator(self._passes, (*self._centring, dtype, unit), self.n_eigenvalues)


class _SummedOperator(NormalOperator):
    """X̂ᵀX̂ for rows of a source; every product is one pass, with as many vectors as memory permits."""

    in_lockstep, is_dual = True, False

    def __init__(self, passes: _Passes, centring: tuple[Any, ...], n_eigenvalues: int) -> None:
        (x_mean, y_mean, _, self.dtype, _), self.n_eigenvalues = centring, n_eigenvalues
        self.size, self.n_labels = len(x_mean), len(y_mean)
        self.columns = max(64, _MOST_SENT // (3 * self.size))
        self._passes, self._centring = passes, centring

    def _summed(self, method: str, B: _Floats) -> Any:
        return self._passes.sum(_product, method, B, self._centring)

    apply = partialmethod(_summed, "apply")
    right_sides = partialmethod(_summed, "right_sides")
    cross = partialmethod(_summed, "cross")
    apply_and_cross = partialmethod(_summed, "apply_and_cross")


def _product(block: RowBlock, method: str, matrix: _Floats, centring: tuple[Any, ...]) -> Any:
    """Return what a method of the operator of a block makes of a matrix, by groups of columns."""
    operator = _operator(block, *centring)
    apply = getattr(operator, method)
    parts = operator.map(lambda group: apply(np.ascontiguousarray(matrix[:, group])), matrix.shape[1])
    if method == "apply_and_cross":
        products, crosses = zip(*parts, strict=True)
        return np.hstack(products), np.vstack(crosses)
    return np.vstack(parts) if method == "cross" else np.hstack(parts)
