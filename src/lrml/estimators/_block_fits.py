"""Fits to rows that come in blocks, or of which only the sums are known.

Everything that a fit needs of the rows is a sum over them (`lrml.blocks.BlockSource.sum`), so one block is in
memory at a time. Where sums do not suffice, the rows are read in passes (`BlockRows`), each of which is one
round of a cluster: docs/scale.md has a table of what travels in a round.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, partialmethod
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from lrml._door import check_threshold, warn_of_ranges, warn_of_spreads
from lrml._progress import Reading, tell
from lrml.blocks import (
    BlockError,
    BlockSource,
    Checkpoint,
    Door,
    RowBlock,
    UnknownLabelsError,
    as_source,
    statistics_of,
)
from lrml.core.arrays import HOST, Array, to_host
from lrml.core.moments import CentredRows, Statistics, about, are_far
from lrml.core.operators import NormalOperator
from lrml.core.rows import Census, Rows, Schema, filled_moments
from lrml.estimators._fitted import Fitted, Sums
from lrml.estimators._spec import Parameters, check_reach

MOST_KEPT = 1 << 22
"""Most numbers of the sums that a fit to all rows keeps for later blocks: 32 MiB."""
_Float64 = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]
_Floats = npt.NDArray[np.floating[Any]]
_Result = TypeVar("_Result")
# Numbers of the vectors of a subspace that are sent at a time: 512 MiB in single precision.
_MOST_SENT = 1 << 27


def _takes_blocks(model: Any) -> bool:
    """Whether ``partial_fit`` suits the parameters, as far as that can be told without checking them."""
    try:
        check_reach(model, "partial_fit")
    except ValueError as error:
        raise AttributeError(str(error)) from error
    return True


class BlockFits:
    """What members of the family do with blocks of rows, and with sums over them."""

    def fit_statistics(self: Any, statistics: Statistics, *, classes: Any = None) -> Any:
        """Fit from second moments: of a stream, a cluster, a file, or several of these added up.

        Parameters
        ----------
        statistics : Statistics
            Of all rows. It is kept as ``statistics_``, to which ``partial_fit`` adds in a copy.
        classes : sequence of length L, optional
            Names of the labels, which become ``classes_``.

        Returns
        -------
        self
            Equal to a ``fit`` to the rows up to rounding; unchanged if anything is wrong. docs/scale.md adds
            up sums of two places.
        """
        params = self._check_params()
        check_reach(self, "fit_statistics")
        names, shape = checked_classes(classes), (statistics.n_features, statistics.n_labels)
        if names is not None and len(names) != shape[1]:
            raise ValueError(f"classes names {len(names)} labels, but the statistics have {shape[1]}.")
        check_threshold(params.threshold, shape[1], params.loss.threshold)
        return self._fit_sums(statistics, Schema(*shape, label_names=names, targets=params.targets), params)

    @property
    def statistics_(self: Any) -> Statistics:
        """Sums over the rows seen so far, by ``fit_statistics``, ``fit_blocks`` and ``partial_fit``."""
        fitted: Fitted | None = vars(self).get("fitted_")
        if fitted is None or fitted.sums is None or not fitted.sums.lasting:
            raise AttributeError(f"this {type(self).__name__} has no sums over blocks of rows.")
        return fitted.sums.statistics

    @available_if(_takes_blocks)  # type: ignore[untyped-decorator]  # scikit-learn has no stubs
    def partial_fit(self: Any, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Add a block of rows to those seen so far, by ``fit`` too, and solve for all of them.

        Only sums are kept, in ``statistics_``: d² + dL numbers for any number of rows. The order and size of
        the blocks change nothing but the last digits. For many blocks, ``fit_blocks`` solves once.

        Parameters
        ----------
        X, y, sample_weight
            A block, as in ``fit``; all labels must be known.
        classes : sequence, optional
            Names of the L labels; the two classes of a 1-D y, needed in the first call unless they are 0
            and 1.

        Returns
        -------
        self
            Unchanged if anything is wrong with the block.

        Examples
        --------
        >>> from lrml import LRML
        >>> from lrml.datasets import load_yeast
        >>> X, Y = load_yeast().train
        >>> model = LRML(3, 20.0)
        >>> for start in range(0, len(X), 500):
        ...     _ = model.partial_fit(X[start : start + 500], Y[start : start + 500])
        >>> model.statistics_.n_rows, model.rank_
        (1500, 8)
        """
        params = self._check_params()
        check_reach(self, "partial_fit")
        fitted: Fitted | None = vars(self).get("fitted_")
        known, before = (None, None) if fitted is None else (fitted.schema, fitted.sums)
        if known is not None and before is None:
            raise ValueError(
                "partial_fit adds to the sums of the last fit, which has none: it was on a device, did not "
                f"decompose XᵀX, had more than {MOST_KEPT} numbers, or comes from a file. Keep them by "
                "lrml.save(model.statistics_, FILE), and go on with fit_statistics(lrml.load(FILE))."
            )
        if known is not None:
            validate_data(self, X, reset=False, skip_check_array=True)
        n_blocks, n_rows = (0, 0) if before is None else (before.n_blocks, before.statistics.n_rows)
        door = Door(params.targets, checked_classes(classes), known)
        block, schema = door.check((X, y, sample_weight), n_blocks, n_rows)
        check_threshold(params.threshold, schema.n_labels, params.loss.threshold)
        sums = statistics_of(block)
        if before is not None and known is not None:
            sums = before.statistics.at(HOST) + sums  # the caller may have kept the old ones
            schema = replace(known, dtype=np.result_type(known.dtype, schema.dtype))
        return self._fit_sums(sums, schema, params, n_blocks + 1)

    def fit_blocks(self: Any, blocks: Any, *, classes: Any = None, checkpoint: Any = None) -> Any:
        """Fit to rows that come in blocks, one of which is in memory at a time.

        With the squared loss and all labels known it reads the blocks once; the result is that of ``fit`` up
        to rounding. With another loss, with unknown labels, and where d² + dL numbers and the work
        of the solve do not fit into memory, every iteration reads them again.

        Parameters
        ----------
        blocks : iterable, callable or BlockSource
            Of ``(X, y)`` or ``(X, y, sample_weight)``; what a `lrml.datasets.Source` yields; a function
            that returns such an iterable, if blocks are read more than once; or a `lrml.blocks.BlockSource`,
            such as `lrml.engines.dask.DaskBlocks`.
        classes : sequence, optional
            Names of the labels, or the two classes of a 1-D y.
        checkpoint : path-like or Checkpoint, optional
            A file that keeps the sums so far, about every 30 seconds and at any end, Ctrl-C too. If it
            exists, the run goes on from there, and ends with the same bits; the blocks must be the same, but
            a stream may have more of them now. Only for fits that read the blocks once.

        Returns
        -------
        self
            Unchanged if anything is wrong. A `lrml.blocks.BlockError` says which block and row break a rule,
            and has in ``sums`` what was summed before.

        Examples
        --------
        >>> from lrml import LRML
        >>> from lrml.datasets import load_yeast
        >>> X, Y = load_yeast().train
        >>> blocks = ((X[start : start + 100], Y[start : start + 100]) for start in range(0, 1500, 100))
        >>> LRML(3, 20.0).fit_blocks(blocks).rank_
        8
        """
        params = self._check_params()
        check_reach(self, "fit_blocks")
        source, kept = opened(self, blocks, classes, params), Checkpoint.of(checkpoint)
        d, n_labels = source.columns.n_features, source.columns.n_labels
        check_threshold(params.threshold, n_labels, params.loss.threshold)
        spec = self._spec(params, Rows.of_sums(None, source.columns))
        # As measured: a solve keeps 3 d² + 5 dL numbers, and its acceleration 24 d min(d, L) if it iterates.
        needed = 8 * d * (3 * d + 5 * n_labels + (spec.alpha != 0) * 24 * min(d, n_labels))
        squared, has_room = params.loss.name == "squared", needed <= HOST.memory
        if squared and not has_room and None in (spec.alpha, spec.ridge):
            raise ValueError(
                f"there is no memory for XᵀX of {d} features and {n_labels} labels, from which the default "
                f"strengths of blocks follow. Pass alpha and ridge, such as alpha_ and ridge_ of "
                f"{type(self).__name__}().fit on some of the rows."
            )
        once = squared and has_room and params.solver != "compressed"
        if once:
            with suppress(UnknownLabelsError):
                return self._fit_sums(source.sum(statistics_of, checkpoint=kept), source.columns, params)
        if kept is not None:
            raise ValueError(
                f"the checkpoint {os.fspath(kept.path)!r} is for fits that read the blocks once: leave it "
                "out for other losses, unknown labels, very many columns and solver='compressed'."
            )
        return self._fit_to(BlockRows.read(source, wide=squared and not once), params)

    def _fit_sums(self: Any, sums: Statistics, schema: Schema, params: Parameters, n_blocks: int = 1) -> Any:
        rows = Rows.of_sums(sums, schema)
        warn_of_spreads(sums, schema)
        fitted = replace(self._solved(rows, params), sums=Sums(sums, n_blocks, lasting=True))
        return self._keep(fitted_=fitted)


def opened(model: Any, blocks: Any, classes: Any, params: Parameters) -> BlockSource:
    """Return blocks as a source that checks them for a model and, if that is verbose, tells how far it is."""
    source = as_source(blocks).checked(targets=params.targets, classes=checked_classes(classes))
    if params.verbose and source.told is None:
        source.told = Reading(partial(tell, type(model).__name__))
    return source


def checked_classes(classes: Any) -> npt.NDArray[Any] | None:
    """Return names of labels, or two classes, as an array."""
    if classes is None:
        return None
    classes = to_host(classes)
    names = np.asarray(classes if isinstance(classes, np.ndarray) else list(classes))
    if names.dtype.kind in "US":
        names = names.astype(object)
    return names


# Rows that are read in passes


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

    @property
    def label_totals(self) -> tuple[Array, Array]:
        """Weighted number of known examples, and of positive ones, per label."""
        labels = self.census.labels
        return self.census.known[self.used], (labels.weight * labels.mean)[self.used]

    @property
    def label_squares(self) -> Array:
        """Weighted sums of the squares of the labels, 0 where unknown."""
        return self.census.labels.squares[self.used]

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
    X, x_offset = about(block.X.astype(np.float64), x_mean, far)
    Y, y_offset = about(block.Y.astype(np.float64), y_mean, None)
    w = np.ones(len(block)) if block.weights is None else block.weights
    rows = CentredRows(X, Y, w, x_mean, y_mean, x_offset, y_offset, np.ones_like(far), 0.0)
    return NormalOperator(rows, *scaling, may_be_dual=False)


class _CentredBlocks:
    """Centred rows of a source, or rows about zero without an intercept, as a `Subspace` needs them."""

    def __init__(self, passes: _Passes, census: Census, fit_intercept: bool) -> None:
        X, Y = census.features, census.labels
        self.x_mean, self.y_mean, self.variation = X.mean, Y.mean, X.scatter
        self.scatter = X.scatter if fit_intercept else X.squares
        self.yy = float((Y.scatter if fit_intercept else Y.squares).sum())
        self.n_eigenvalues = max(min(census.n_rows, len(X.mean)), 1)
        self._passes, used = passes, float(fit_intercept)
        self._centring = used * X.mean, used * Y.mean, are_far(X.scatter, X.squares) & fit_intercept

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
