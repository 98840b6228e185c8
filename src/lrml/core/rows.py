"""Rows: examples with their labels, and sums over them; all that a fit sees of its data.

A fit with squared loss and full labels needs second moments only (`lrml.core.moments`). Everything else needs
the scores of the examples. They are computed, used and discarded block by block, so the n × L scores never
exist at once, whether X and Y are dense or sparse.

On a device everything is dense and stays there, blocks are large, and one after the other is summed. Scores,
slopes and the product Xᵀ slopes of a block have the precision of the rows; single precision is never TF32.
Values, slopes and curvatures are added up in double precision, over the rows of a block as well as over
blocks, and so are the products of blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, TypeVar, cast

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from lrml.core.arrays import (
    HOST,
    Array,
    Place,
    full_precision,
    is_sparse,
    map_in_threads,
    namespace,
    one_blas_thread_if,
    take,
    to_numpy,
)
from lrml.core.losses import Loss, Terms
from lrml.core.moments import CentredRows, Statistics, extremes, without_weightless

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
# Single-precision scores give the objective to 2e-7, which suffices for gaps down to this.
_SINGLE_PRECISION_FROM = 1e-5
# Numbers of labels that are made dense at a time where unknown ones are filled in.
_FILLED = 1 << 22
# Up to so many multiplications in the sums, a second BLAS thread saves an estimated tenth of a fit at most.
_SMALL_PRODUCT = 30_000_000


@dataclass(frozen=True, eq=False)
class Schema:
    """What is known of the columns before any row is summed: found at the door, kept in a fitted model."""

    n_features: int
    n_labels: int
    feature_names: npt.NDArray[Any] | None = None  # columns of frames
    label_names: npt.NDArray[Any] | None = None  # for a 1-D y, its two classes
    dtype: np.dtype[Any] = np.dtype(np.float64)  # noqa: RUF009  # float32 or float64, that of X
    sparse_features: bool = False
    sparse_labels: bool = False
    flat: bool = False  # whether y is 1-D
    targets: str = "binary"  # or "real"


@dataclass(frozen=True, eq=False)
class Spread:
    """Weight, means, Σ w (m − m̄)² and extremes of columns; those of blocks add up by `absorb`."""

    weight: float
    mean: Array
    scatter: Array
    low: Array
    high: Array

    @property
    def squares(self) -> Array:
        """Σ w m²."""
        return self.scatter + self.weight * self.mean**2

    @classmethod
    def of(cls, M: Any, weights: Array | None) -> Spread:
        """Look at the columns of a matrix."""
        M, nothing, weights = without_weightless(M, M[:, :0], weights)
        centred = CentredRows.of(M, nothing, weights)
        return cls(centred.weight, centred.x_mean, centred.scatter, *extremes(M))

    def absorb(self, other: Spread) -> Spread:
        """Return that of the rows of both, as `Statistics.absorb` does."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0 else 0.0
        moved = other.mean - self.mean
        return Spread(
            weight,
            self.mean + share * moved,
            self.scatter + other.scatter + self.weight * share * moved**2,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )


class Census(NamedTuple):
    """What a look at every row of a block tells, column by column; the parts of blocks add up."""

    n_rows: int  # those with a positive weight
    squared_weights: float
    known: Array  # weighted number of known examples of every label
    features: Spread
    labels: Spread  # unknown ones count as 0

    @classmethod
    def of(cls, rows: Any) -> Census:
        """Look at the `Rows` of a block, on the host."""
        n_rows = rows.X.shape[0] if rows.weights is None else int(np.count_nonzero(rows.weights))
        spreads = Spread.of(rows.X, rows.weights), Spread.of(rows.Y, rows.weights)
        return cls(n_rows, rows.squared_weights, rows.label_totals[0], *spreads)


def added(total: Any, more: Any) -> Any:
    """Return total + more, perhaps in the arrays of ``total``; None is an empty sum.

    Both are numbers, arrays, objects with a method ``absorb``, or tuples of these.
    """
    if total is None or more is None:
        return more if total is None else total
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
    """Which labels of which examples are known; the rarer kind of entries is marked."""

    pattern: Matrix  # of bool, n × L
    marks_known: bool = True  # or the unknown ones

    def block(self, rows: slice, dtype: npt.DTypeLike) -> Array:
        """Return 1 where a label is known and 0 elsewhere, for some rows."""
        marks = dense_block(self.pattern, rows, dtype)
        return marks if self.marks_known else 1.0 - marks

    def known(self, rows: Any = None) -> Array:
        """Return which labels are known, as a dense array of bool, of all examples or those numbered."""
        marks = self.pattern if rows is None else take(self.pattern, rows)
        marks = marks.toarray() if is_sparse(marks) else marks
        return marks if self.marks_known else ~marks

    def nowhere(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the labels that no example knows."""
        marks = self.pattern if is_sparse(self.pattern) else to_numpy(self.pattern)
        return np.flatnonzero(marks.sum(axis=0) == (0 if self.marks_known else marks.shape[0]))

    def at(self, place: Place) -> Mask:
        """Return the same mask, in another place."""
        return self if place.is_host else self.with_pattern(place.asarray(self.pattern))

    def with_pattern(self, pattern: Matrix) -> Mask:
        """Return the mask with another pattern."""
        return Mask(pattern, self.marks_known)


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows: features as given, dense labels, and the factors of their losses.

    A factor is the weight of an entry, 0 where a label is not known; None stands for ones.
    """

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

    def terms_at(self, loss: Loss, coefficients: Array, shift: Array) -> Terms:
        """Return the same at the scores X coefficients + 1 shiftᵀ."""
        scores = self.X @ coefficients
        scores += shift
        return self.terms(loss, scores)


@dataclass(frozen=True, eq=False)
class Rows:
    """Examples, their labels, which of these are known, and weights: everything that a fit sees of its data.

    Sums are taken where X is; all other arrays are in the same place. On a device they are dense.
    """

    X: Matrix  # n × d
    Y: Matrix  # n × L, 0 where a label is not known
    mask: Mask | None = None  # which labels are known; None means all
    weights: Array | None = None
    dtype: type[np.floating[Any]] = np.float64  # of the scores; sums are in double precision
    schema: Schema = cast(Any, None)  # noqa: RUF009  # by default that of plain arrays
    kernel: Any = None  # how rows are compared; None stands for inner products
    sums: Statistics | None = None  # moments, if they are known already
    only_sums: bool = False  # whether X and Y are a sample of the rows, or none of them
    only_exact: bool = False  # whether a subspace will not do
    home: Place = cast(Any, None)  # noqa: RUF009  # where X came from and the model goes
    given: Any = None  # X as it was given, perhaps sparse, at home, if it was moved
    n_passes: ClassVar[Any] = None  # how often rows were read that are not in memory
    cache: dict[Any, tuple[Any, Any]] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        given = vars(self)
        if given["schema"] is None:
            object.__setattr__(self, "schema", Schema(self.X.shape[1], self.Y.shape[1]))
        if given["home"] is None:
            object.__setattr__(self, "home", Place.of(self.X))
        if self.only_sums and self.sums is not None and self.sums.weight <= 0:
            raise ValueError("sample_weight must be positive for some row, got none. Pass other weights.")

    @classmethod
    def of_sums(cls, sums: Statistics | None, schema: Schema) -> Rows:
        """Return rows of which only the sums are known; None tells their columns only."""
        place = HOST if sums is None else sums.place
        X, Y = place.zeros((0, schema.n_features)), place.zeros((0, schema.n_labels))
        return cls(X, Y, schema=schema, sums=sums, only_sums=True, home=place)

    @property
    def place(self) -> Place:
        """Where the rows are, or where their sums are if a fit is one to these."""
        return self.sums.place if self.only_sums and self.sums is not None else Place.of(self.X)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Numbers of rows, features and labels."""
        return (self.X.shape[0], self.X.shape[1], self.Y.shape[1])

    @property
    def model_shape(self) -> tuple[int, int]:
        """Shape of the coefficients: numbers of features (of rows for a kernel) and labels."""
        return self.X.shape[1 if self.kernel is None else 0], self.Y.shape[1]

    @property
    def all_known(self) -> bool:
        """Whether all labels are known."""
        return self.mask is None

    @property
    def model_dtype(self) -> np.dtype[Any]:
        """Type of a model's numbers: that of X, but dual coefficients may be large and cancel each other."""
        return self.schema.dtype if self.kernel is None else np.dtype(np.float64)

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the rows."""
        if self.only_sums and self.sums is not None:
            return self.sums.weight
        return float(self.X.shape[0] if self.weights is None else self.place.xp.sum(self.weights))

    @property
    def squared_weights(self) -> float:
        """Sum of the squares of the weights of the rows."""
        return float(self.X.shape[0] if self.weights is None else self.weights @ self.weights)

    @property
    def counted(self) -> npt.NDArray[np.int64]:
        """Numbers of the rows with a positive weight, on the host."""
        weights = np.ones(self.X.shape[0]) if self.weights is None else to_numpy(self.weights)
        return np.flatnonzero(weights > 0)

    @property
    def positive_counts(self) -> Array:
        """How many rows, among those with weight, have each label."""
        w = None if self.weights is None else self.place.asarray(self.weights > 0, "float64")
        return self._weighted_sums(self.Y, w)

    @property
    def n_effective(self) -> float:
        """For how many rows of weight 1 the rows count: the larger of Σ w and (Σ w)² / Σ w².

        Sums over rows know their number instead of the latter.
        """
        if self.only_sums and self.sums is not None:
            return max(self.sums.weight, float(self.sums.n_rows))
        total, squares = self.total_weight, self.squared_weights
        return max(total, total * (total / squares)) if squares > 0 else total  # squares may underflow

    @property
    def ranges(self) -> tuple[Array, Array]:
        """Least and largest value of every feature."""
        return extremes(self.X)

    @cached_property
    def statistics(self) -> Statistics:
        """Moments of X and Y, unknown labels filled in by the mean of the known ones; made on first use."""
        if self.sums is not None:
            return self.sums
        with one_blas_thread_if(math.prod(self.X.shape) * sum(self.shape[1:]) <= _SMALL_PRODUCT):
            if self.mask is None:
                return Statistics.from_arrays(self.X, self.Y, self.weights)
            step = max(1, _FILLED // self.shape[2])
            parts = (self.some(slice(start, start + step)) for start in range(0, self.shape[0], step))
            return reduce(added, (filled_moments(part, self.label_means) for part in parts))

    @property
    def label_means(self) -> Array:
        """Weighted mean of every label over the rows where it is known; 0 if that is nowhere."""
        known, positive = self.label_totals
        xp = namespace(known)
        return xp.where(known > 0, positive / xp.where(known > 0, known, 1.0), 0.0)

    def filled(self, means: Array) -> Array:
        """Return the labels as a dense array, unknown ones replaced by these means."""
        everything = slice(0, self.shape[0])
        Y = dense_block(self.Y, everything, np.float64)
        return Y if self.mask is None else Y + (1.0 - self.mask.block(everything, np.float64)) * means

    def centred(self, fit_intercept: bool) -> Any:
        """Return the rows, without those of no weight, about their means unless there is no intercept."""
        Y = self.Y if self.mask is None else self.filled(self.label_means)
        X, Y, weights = without_weightless(self.X, Y, self.weights)
        rows = CentredRows.of(X, Y, weights)
        return rows if fit_intercept else rows.uncentred(X, Y)

    def some(self, rows: slice | npt.NDArray[np.int64]) -> Rows:
        """Return some of the rows; of precomputed kernel values, those among themselves."""
        numbers = np.arange(*rows.indices(self.shape[0])) if isinstance(rows, slice) else rows
        X = self.features(numbers, numbers)
        return replace(
            self,
            X=X,
            Y=take(self.Y, numbers),
            mask=None if self.mask is None else self.mask.with_pattern(take(self.mask.pattern, numbers)),
            weights=None if self.weights is None else take(self.weights, numbers),
            schema=replace(self.schema, feature_names=None, n_features=X.shape[1]),
            sums=None,
            only_sums=False,
            home=Place.of(X),
            given=None,
        )

    def features(self, rows: npt.NDArray[np.int64], fitted: npt.NDArray[np.int64]) -> Any:
        """Rows of X, as a model fitted on others needs them: of precomputed values, those with the others."""
        X = take(self.X, rows)
        return take(X, fitted, axis=1) if self.kernel is not None and self.kernel.is_precomputed else X

    def kept(self, kind: str, key: Any, make: Callable[[], _Result]) -> _Result:
        """Return what was made for the same key before, or make it; of every kind, the last one is kept."""
        if kind not in self.cache or self.cache[kind][0] != key:
            self.cache.pop(kind, None)  # first, as it may be large
            self.cache[kind] = key, make()
        found: _Result = self.cache[kind][1]
        return found

    @property
    def _suits_blas(self) -> bool:
        """Whether X is sparse, but dense enough for products with dense copies of its blocks to be faster."""
        return is_sparse(self.X) and self.X.nnz > _DENSE_FROM * math.prod(self.X.shape)

    def precision_for(self, tol: float) -> type[np.floating[Any]]:
        """Return the type of scores: single, if the tolerance allows it, and the features.

        Scores of features that are not centred are differences of large numbers. If features differ much in
        scale, rounding errors would swamp the smaller ones. Squares must not overflow, whatever the weights.
        """
        if tol < _SINGLE_PRECISION_FROM:
            return np.float64
        low, high = self.ranges
        xp = namespace(low)
        size, spread, varies = xp.maximum(xp.abs(low), xp.abs(high)), high - low, low != high
        alike = xp.max(spread) <= 1e3 * xp.min(xp.where(varies, spread, xp.inf))
        weight = self.total_weight / self.shape[0]
        largest = 1e15 * min(weight, 1.0 / weight)
        moderate = (size <= 100 * spread) & (size < largest) & (size * largest > 1.0)
        return np.float32 if bool(alike & xp.all(moderate | ~varies)) else np.float64

    def with_precision(self, dtype: type[np.floating[Any]]) -> Self:
        """Return the same rows for many passes, with features and scores in the given precision.

        Features that suit BLAS are made dense here, once for all passes, if that takes at most 256 MiB, and
        block by block otherwise. Dense ones that are almost all zero are made sparse.
        """
        if not self.place.is_host:
            X, Y = (self.place.asarray(M, dtype) for M in (self.X, self.Y))
            return replace(self, X=X, Y=Y, dtype=dtype)
        X = self.X.astype(dtype, copy=False)
        if not is_sparse(X) and np.count_nonzero(X) <= _DENSE_FROM * X.size:
            X = csr_array(X)
        elif self._suits_blas and math.prod(X.shape) * X.dtype.itemsize <= _DENSE_BYTES:
            X = X.toarray()
        Y = self.Y if is_sparse(self.Y) else self.Y.astype(dtype, copy=False)
        return replace(self, X=X, Y=Y, dtype=dtype)

    def select_labels(self, chosen: Array) -> Self:
        """Return the same rows with the labels that are marked only."""
        xp = namespace(chosen)
        if bool(xp.all(chosen)):
            return self
        places = xp.nonzero(chosen)[0]
        Y, *pattern = (
            M[:, places] if is_sparse(M) else take(M, places, axis=1)
            for M in ([self.Y] if self.mask is None else [self.Y, self.mask.pattern])
        )
        mask = None if self.mask is None else self.mask.with_pattern(*pattern)
        schema = replace(self.schema, n_labels=Y.shape[1], label_names=None)
        return replace(self, Y=Y, mask=mask, schema=schema, sums=None)

    def map(self, function: Callable[[Block], _Result]) -> Iterator[_Result]:
        """Apply a function to each block, on the host in several threads; yield the results in order."""
        apply: Any = map_in_threads if self.place.is_host else map
        found: Iterator[_Result] = apply(lambda rows: function(self._block(rows)), self._slices())
        return found

    def sum(self, part: Callable[..., _Result], *arguments: Any) -> _Result:
        """Return ``Σ part(block, *arguments)`` over the blocks, added in their order.

        ``part`` is importable by name, as rows may be elsewhere, and returns what `added` can add, in double
        precision.
        """
        with full_precision(self.X):
            return reduce(added, self.map(lambda block: part(block, *arguments)))

    def _slices(self) -> list[slice]:
        n, scores = self.X.shape[0], _BLOCK_SCORES if self.place.is_host else _DEVICE_SCORES
        step = min(n, max(_LEAST_ROWS, scores // self.shape[2])) or 1
        return [slice(start, min(start + step, n)) for start in range(0, n, step)]

    def _block(self, rows: slice) -> Block:
        X = self.X[rows].toarray() if self._suits_blas else self.X[rows, :]
        factors = None if self.mask is None else self.mask.block(rows, self.dtype)
        if self.weights is not None:
            weights = self.place.asarray(self.weights[rows], self.dtype)[:, None]
            factors = weights if factors is None else factors * weights
        return Block(X, dense_block(self.Y, rows, self.dtype), factors)

    @property
    def label_squares(self) -> Array:
        """Weighted sums of the squares of the labels, 0 where unknown."""
        if self.schema.targets == "binary":
            return self.label_totals[1]
        Y = self.Y
        return self._weighted_sums(Y.multiply(Y) if is_sparse(Y) else Y * Y, self.weights)

    @cached_property
    def label_totals(self) -> tuple[Array, Array]:
        """Weighted number of known examples, and of positive ones, per label."""
        xp, total = self.place.xp, self.total_weight
        positive = self._weighted_sums(self.Y, self.weights)
        known = xp.full_like(positive, total)
        if self.mask is not None:
            marked = self._weighted_sums(self.mask.pattern, self.weights)
            known = marked if self.mask.marks_known else known - marked
            # Instead of 0, a subtraction may leave rounding noise.
            known = xp.where(known < _ROUNDING * total, 0.0, known)
        return known, positive

    def _weighted_sums(self, M: Matrix, weights: Array | None) -> Array:
        """Return the weighted sums of the columns of a matrix, in double precision."""
        if self.place.is_host:
            w = np.ones(self.X.shape[0]) if weights is None else weights
            return np.asarray(M.T @ w, dtype=np.float64)
        total = self.place.zeros(M.shape[1])
        for rows in self._slices():  # a whole copy in double precision might not fit
            block = dense_block(M, rows, np.float64)
            total += self.place.xp.sum(block if weights is None else block * weights[rows, None], axis=0)
        return total


def filled_moments(rows: Rows, means: Array) -> Statistics:
    """Moments of a block of rows, with these means in place of unknown labels."""
    Y = rows.Y if rows.mask is None else rows.filled(means)
    return Statistics.from_arrays(rows.X, Y, rows.weights)
