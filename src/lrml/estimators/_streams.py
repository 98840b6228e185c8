"""Fits that read their rows in passes over blocks: a stream, files, a cluster.

Everything that such a fit needs of the rows is a sum over them (`lrml.blocks.BlockSource.sum`), so one block
is in memory at a time, and a pass is one round of a cluster. What travels in a round, in numbers of 8 bytes
unless the fit is in single precision (*, 4 bytes):

============================ ============================= =========================
round                        to each worker                back, blocks added up
============================ ============================= =========================
the first                    nothing                       d² + 4d + 2L
for the default ridge        2L min(L, 32)                 d² + d min(L, 32)
loss and slopes at rank k    k(d + L) + L, or dL + L *     dL + 2L + 1
certificate of `MLTrace`     the same                      dL + 1, after 2L
the first, of wide data      nothing                       4d + L
X̂ᵀX̂ times c vectors          dc + d + L *                  dc *
the problem in r directions  dr + d + L                    r(d + L)
============================ ============================= =========================

For wide data c ≤ 3 min(L, 512), or fewer, such that dc numbers take 512 MiB at most.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from lrml import _targets as check
from lrml.blocks import BlockError, BlockSource, RowBlock, UnknownLabelsError, unknown_labels
from lrml.core.arrays import is_sparse, thin_svd
from lrml.core.linalg import NormalOperator, Operator
from lrml.core.loss_problem import RowProblem
from lrml.core.moments import CentredRows, Statistics, are_far, extremes, without_means, without_weightless
from lrml.core.rows import RowSums
from lrml.core.subspace import Subspace
from lrml.estimators._blocks import SummedData, warn_of_spreads
from lrml.estimators._fitting import warn_of_ranges
from lrml.estimators._parameters import Parameters
from lrml.estimators._size import check_directions, fits_in_memory
from lrml.estimators._space import Space, in_subspace

_Float64 = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.floating[Any]]
_Result = TypeVar("_Result")
# A matrix of fewer numbers is sent as it is; one with a larger shorter side takes too long to decompose.
_LEAST_FACTORED, _LARGEST_FACTORED = 1 << 14, 2000
# Numbers of the vectors of a subspace that are sent at a time: 512 MiB in single precision.
_MOST_SENT = 1 << 27


def fit_by_passes(model: Any, source: BlockSource, params: Parameters) -> None:
    """Fit a model with a penalty on singular values to rows that are read once per pass.

    Any loss, with or without unknown labels: proximal Newton in the coordinates of XᵀX (`RowProblem`), of
    which every step reads the rows once. Least squares with all labels known, where XᵀX does not fit into
    memory: conjugate gradients span a subspace (`lrml.core.subspace`), with one pass per step.

    Parameters
    ----------
    model : LRML, MLTrace or MLFro
    source : BlockSource
        With the door of the model: its targets, and ``allow_unknown=True``.
    params : Parameters
        Those of the model, checked.
    """
    passes = Passes(source)
    check.check_threshold(params.threshold, source.columns.n_labels, params.loss.threshold)
    data: SummedData | None = None
    has_room = model._has_room(source.columns, params)
    if params.loss.name == "squared" and (params.solver == "compressed" or not has_room):
        with suppress(UnknownLabelsError):
            data = WideData.read(model, passes, params)
    if data is None and not fits_in_memory(source.columns.n_features):
        raise ValueError(
            f"fit_blocks with loss={params.loss.name!r} or unknown labels decomposes XᵀX, so 24 d² bytes "
            f"must fit into memory, got d = {source.columns.n_features} features. Use loss='squared' with "
            "all labels known, fewer features, or fit, if the rows fit into memory."
        )
    model._fit_data(StreamedData.read(passes, params) if data is None else data, params)


class Passes:
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


class Broadcast:
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
        return Broadcast, (self.matrix,)


def _multiplied(left: _Floats, right: _Floats) -> Broadcast:
    return Broadcast(left @ right)


@dataclass(frozen=True, eq=False)
class Overview:
    """What the first pass finds out about the rows; blocks are put together by `absorb`.

    Attributes
    ----------
    statistics : Statistics
        With a column of zeros in place of the labels, unless they are needed.
    known, positive : array of shape (L,)
        As of `Rows.label_totals`.
    low, high : array of shape (d,)
        Least and largest value of every feature.
    squared_weights : float
        As of `Rows`.
    """

    statistics: Statistics
    known: _Float64
    positive: _Float64
    low: _Float64
    high: _Float64
    squared_weights: float

    @classmethod
    def of(cls, block: RowBlock, with_labels: bool) -> Overview:
        """Look at a block."""
        statistics = block.moments_of_features()
        if with_labels:
            statistics = Statistics.from_arrays(block.X, block.Y, block.weights)
        return cls(statistics, *block.label_totals(), *extremes(block.X), block.squared_weights)

    def absorb(self, other: Overview) -> Overview:
        """Return that of the rows of both."""
        return Overview(
            self.statistics.absorb(other.statistics),
            self.known + other.known,
            self.positive + other.positive,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.squared_weights + other.squared_weights,
        )


@dataclass(frozen=True, eq=False)
class StreamedRows:
    """Rows of a source, with some of the labels: the sums over them that a `RowProblem` needs."""

    passes: Passes
    overview: Overview
    used: _Bools
    dtype: type[np.floating[Any]] = np.float64

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of rows, features and labels."""
        statistics = self.overview.statistics
        return statistics.n_rows, statistics.n_features, int(np.count_nonzero(self.used))

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the rows."""
        return self.overview.statistics.weight

    @property
    def squared_weights(self) -> float:
        """Sum of the squares of the weights of the rows."""
        return self.overview.squared_weights

    def moments_of_features(self) -> Statistics:
        """Moments of X, with one column of zeros for the labels."""
        found = self.overview.statistics
        return replace(found, y_mean=np.zeros(1), xy=np.zeros((found.n_features, 1)), yy=0.0)

    def label_totals(self) -> tuple[_Float64, _Float64]:
        """Weighted number of known examples, and of positive ones, per label."""
        return self.overview.known[self.used], self.overview.positive[self.used]

    def sum(self, part: Callable[..., _Result], *arguments: Any) -> _Result:
        """Sum over all blocks and their parts, as `Rows.sum` does; matrices are sent as factors."""
        sent = (Broadcast(each) if getattr(each, "ndim", 0) == 2 else each for each in arguments)
        total: _Result = self.passes.sum(_sum_of_block, part, self.used, self.dtype, *sent)
        return total


def _moments_with(block: RowBlock, made: Callable[..., _Float64], *arguments: Any) -> Statistics:
    return Statistics.from_arrays(block.X, made(block.Y, block.mask, *arguments), block.weights)


def _sum_of_block(
    block: RowBlock,
    part: Callable[..., _Result],
    used: _Bools,
    dtype: type[np.floating[Any]],
    *sent: Any,
) -> _Result:
    arguments = (each.matrix if isinstance(each, Broadcast) else each for each in sent)
    total: _Result = block.select_labels(used).with_precision(dtype).sum(part, *arguments)
    return total


@dataclass(frozen=True, eq=False)
class StreamedData(SummedData):
    """Training data that is read in passes."""

    passes: Passes = field(kw_only=True)
    overview: Overview = field(kw_only=True)

    @classmethod
    def read(cls, passes: Passes, params: Parameters) -> StreamedData:
        """Read the rows for the first time."""
        columns = passes.source.columns
        overview = passes.sum(Overview.of, vars(params).get("theta") == "auto")
        warn_of_spreads(overview.statistics, columns)
        given = (overview.statistics, columns, params.targets, params.loss)
        return cls.of(*given, passes=passes, overview=overview)

    @property
    def n_passes(self) -> int:
        """How often the rows were read."""
        return self.passes.count

    @property
    def needs_moments_only(self) -> bool:
        """Whether the fit is one of least squares with all labels known: no, the blocks have been tried."""
        return False

    @property
    def ranges(self) -> tuple[_Float64, _Float64]:
        """Least and largest value of every feature."""
        return self.overview.low, self.overview.high

    @property
    def row_sums(self) -> RowSums:
        """The rows, as far as sums over them are needed."""
        return StreamedRows(self.passes, self.overview, np.ones(self.shape[1], dtype=np.bool_))

    def with_targets(self, made: Callable[..., _Float64], *arguments: Any) -> SummedData:
        """Return least squares on the same rows, with targets made of Y in a pass."""
        sums = self.passes.sum(_moments_with, made, *arguments)
        columns = replace(self.passes.source.columns, n_labels=sums.n_labels, label_names=None)
        return SummedData.of(sums, columns, "real")

    def row_problem(self, used: _Bools, dtype: type[np.floating[Any]], *, fit_intercept: bool) -> RowProblem:
        """Return the problem of the labels in use, without a ridge."""
        rows = StreamedRows(self.passes, self.overview, used, dtype)
        return RowProblem(rows, self.loss, fit_intercept=fit_intercept)


@dataclass(frozen=True, eq=False)
class Marginals:
    """Sums over rows of wide data, of which each feature and label has its own; blocks add up by `absorb`.

    Attributes
    ----------
    n_rows : int
        Those with a positive weight.
    weight : float
    x_mean, scatter, low, high : array of shape (d,)
        Means, Σ w (x − x̄)², and least and largest values.
    y_mean : array of shape (L,)
    yy : float
        Σ w ‖y − ȳ‖².
    """

    n_rows: int
    weight: float
    x_mean: _Float64
    scatter: _Float64
    low: _Float64
    high: _Float64
    y_mean: _Float64
    yy: float

    @classmethod
    def of(cls, block: RowBlock) -> Marginals:
        """Sum over a block, all of whose labels must be known."""
        if block.mask is not None:
            raise unknown_labels(block.index, block.first_row)
        X, Y, weights = without_weightless(block.X, block.Y, block.weights)
        rows = CentredRows.of(X, Y, weights)
        n_rows = len(block) if block.weights is None else int(np.count_nonzero(block.weights))
        low, high = extremes(X)
        return cls(n_rows, rows.weight, rows.x_mean, rows.scatter, low, high, rows.y_mean, rows.yy)

    def absorb(self, other: Marginals) -> Marginals:
        """Return those of the rows of both, by the parallel formula of `Statistics`."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0 else 0.0
        between = self.weight * share
        dx, dy = other.x_mean - self.x_mean, other.y_mean - self.y_mean
        return Marginals(
            self.n_rows + other.n_rows,
            weight,
            self.x_mean + share * dx,
            self.scatter + other.scatter + between * dx**2,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
            self.y_mean + share * dy,
            self.yy + other.yy + between * float(dy @ dy),
        )


class Centring(NamedTuple):
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
class WideRows:
    """Centred rows of a source, with the products that a `Subspace` needs of them."""

    passes: Passes
    marginals: Marginals
    fit_intercept: bool

    @property
    def n_eigenvalues(self) -> int:
        """How many eigenvalues of X̂ᵀX̂ may differ from 0."""
        return max(min(self.marginals.n_rows, len(self.marginals.x_mean)), 1)

    @property
    def scatter(self) -> _Float64:
        """Σ w x̂² of every column."""
        found = self.marginals
        return found.scatter if self.fit_intercept else found.scatter + found.weight * found.x_mean**2

    @property
    def variation(self) -> _Float64:
        """Σ w (x − x̄)² of every column."""
        return self.marginals.scatter

    @property
    def yy(self) -> float:
        """Σ w ‖ŷ‖²."""
        found = self.marginals
        of_mean = 0.0 if self.fit_intercept else found.weight * float(found.y_mean @ found.y_mean)
        return found.yy + of_mean

    @property
    def centring(self) -> Centring:
        """How blocks are centred."""
        found = self.marginals
        if not self.fit_intercept:
            none = np.zeros(len(found.x_mean), dtype=np.bool_)
            return Centring(np.zeros_like(found.x_mean), np.zeros_like(found.y_mean), none)
        far = are_far(found.scatter, found.scatter + found.weight * found.x_mean**2)
        return Centring(found.x_mean, found.y_mean, far)

    def operator(self, dtype: type[np.floating[Any]], unit: float) -> Operator:
        """Return X̂ᵀX̂ over a unit."""
        return SummedOperator(self, dtype, unit)


class SummedOperator(Operator):
    """X̂ᵀX̂ for rows of a source; every product is one pass, with as many vectors as memory permits."""

    in_lockstep = True

    def __init__(self, rows: WideRows, dtype: type[np.floating[Any]], unit: float) -> None:
        self.dtype, self.n_eigenvalues = dtype, rows.n_eigenvalues
        self.size, self.n_labels = len(rows.marginals.x_mean), len(rows.marginals.y_mean)
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
    centring: Centring,
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


@dataclass(frozen=True, eq=False)
class WideData(SummedData):
    """Training data for least squares that is read in passes, since XᵀX would not fit into memory."""

    passes: Passes = field(kw_only=True)
    marginals: Marginals = field(kw_only=True)

    @classmethod
    def read(cls, estimator: Any, passes: Passes, params: Parameters) -> WideData:
        """Read the rows for the first time."""
        columns = passes.source.columns
        # A rank that does not fit is refused before the rows are read.
        if vars(params).get("theta") != "auto":
            shape = columns.n_features, columns.n_labels
            penalty = estimator._penalty(SummedData.of(None, columns, params.targets), params)
            directions = penalty.expected_rank(shape[1])
            check_directions(shape, directions, bare=penalty.alpha == 0, given=f"{shape[0]} features")
        marginals = passes.sum(Marginals.of)
        warn_of_ranges(0.5 * marginals.high - 0.5 * marginals.low, columns.feature_names)
        given = (None, columns, params.targets, params.loss)
        return cls.of(*given, passes=passes, marginals=marginals)

    @property
    def n_passes(self) -> int:
        """How often the rows were read."""
        return self.passes.count

    def _check_directions(self, directions: int | None, *, bare: bool) -> None:
        """Refuse more directions of label space than there is room for; vectors have length d here."""
        d, n_labels = self.shape
        check_directions((d, n_labels), directions, bare=bare, given=f"{d} features")

    def road(self, wanted: str = "auto") -> str:
        """Return "compressed": there is no room for XᵀX."""
        return "compressed"

    def _compressed(self, **wanted: Any) -> Space:
        found, fit_intercept, targets = self.marginals, wanted.pop("fit_intercept"), wanted.pop("targets")
        rows, used = WideRows(self.passes, found, fit_intercept), float(fit_intercept)
        means = (used * found.y_mean, (found.y_mean == 0) & (targets == "binary"), used * found.x_mean)
        return in_subspace(Subspace.for_ridges(rows, wanted.pop("ridge"), **wanted), means)
