"""Fits from sums over blocks of rows: ``fit_statistics``, ``partial_fit`` and ``fit_blocks``.

A fit with the squared loss needs second moments only, so rows may come in any number of blocks, of which one
is in memory at a time, and may never be seen again.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from lrml._progress import Reading, tell
from lrml._shown import shown
from lrml._targets import check_threshold
from lrml.blocks import (
    BlockSource,
    Checkpoint,
    Columns,
    Door,
    UnknownLabelsError,
    as_source,
    statistics_of,
)
from lrml.core.arrays import HOST, to_host
from lrml.core.losses import Loss, SquaredLoss
from lrml.core.moments import Statistics
from lrml.estimators._base import LinearMultiLabelModel
from lrml.estimators._fitted import Fitted, Sums
from lrml.estimators._fitting import TrainingData, warn_of_ranges
from lrml.estimators._parameters import Parameters
from lrml.estimators._size import sums_fit_in_memory, sums_nbytes

# Solvers that need the rows.
_NEED_ROWS = ("dual", "compressed")
# Most numbers of the sums that a fit to all rows keeps for later blocks: 32 MiB.
_MOST_KEPT = 1 << 22


@dataclass(frozen=True, eq=False)
class SummedData(TrainingData):
    """Training data of which only the sums are known: X and Y have all columns, but no rows."""

    @classmethod
    def of(
        cls,
        statistics: Statistics | None,
        columns: Columns,
        targets: str,
        loss: Loss | None = None,
        **further: Any,
    ) -> Self:
        """Return data for a fit; None tells its shape only."""
        if statistics is not None and statistics.weight <= 0:
            raise ValueError("sample_weight must be positive for some row, got none. Pass other weights.")
        X = np.empty((0, columns.n_features), dtype=columns.dtype)
        Y: Any = np.empty((0, columns.n_labels))
        place = HOST if statistics is None else statistics.place
        return cls(
            columns,
            X,
            csr_array(Y) if columns.sparse_labels else Y,
            mask=None,
            weights=None,
            loss=SquaredLoss() if loss is None else loss,
            targets=targets,
            summed_up=statistics,
            **{"place": place, "home": place} | further,
        )

    def road(self, wanted: str = "auto") -> str:
        """Return "primal": the sums are those of XᵀX."""
        return "primal"

    @property
    def is_dual(self) -> bool:
        """Sums have no dual side."""
        return False


def columns_of(statistics: Statistics, label_names: npt.NDArray[Any] | None = None) -> Columns:
    """Return the columns of statistics, which know no names."""
    shape = (statistics.n_features, statistics.n_labels)
    return Columns(*shape, None, label_names, np.dtype(np.float64), False, False, False)


def check_statistics(value: Any) -> None:
    """Refuse what is not `Statistics`."""
    if not isinstance(value, Statistics):
        raise TypeError(
            f"statistics must be lrml.core.moments.Statistics, got {type(value).__name__}. Make them with "
            "Statistics.from_arrays(X, Y), or pass X and Y to fit."
        )


def _takes_blocks(model: Any) -> bool:
    """Whether ``partial_fit`` suits the parameters, as far as that can be told without checking them."""
    solver, threshold = getattr(model, "solver", "auto"), model.threshold
    needs_rows = isinstance(threshold, str) or (isinstance(solver, str) and solver in _NEED_ROWS)
    squared, kernel = getattr(model, "loss", "squared") == "squared", getattr(model, "kernel", "linear")
    if squared and kernel == "linear" and not needs_rows:
        return True
    try:
        _check_sums_suffice(model._check_params(), "partial_fit")
    except (ValueError, TypeError) as error:
        raise AttributeError(str(error)) from error
    return True


class BlockFitting(LinearMultiLabelModel):
    """A model that can be fitted from sums over blocks of rows."""

    def fit_statistics(self, statistics: Statistics, *, classes: Any = None) -> Self:
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
            Equal to a ``fit`` to the rows up to rounding; unchanged if anything is wrong.

        Examples
        --------
        >>> from lrml import LRML
        >>> from lrml.datasets import load_yeast
        >>> from lrml.core.moments import Statistics
        >>> X, Y = load_yeast().train
        >>> halves = Statistics.from_arrays(X[:700], Y[:700]) + Statistics.from_arrays(X[700:], Y[700:])
        >>> round(LRML(3, 20.0).fit_statistics(halves).score(*load_yeast().test), 3)
        0.755
        """
        params = self._check_params()
        _check_sums_suffice(params, "fit_statistics")
        check_statistics(statistics)
        names, shape = checked_classes(classes), (statistics.n_features, statistics.n_labels)
        if names is not None and len(names) != shape[1]:
            raise ValueError(
                f"classes must name all {shape[1]} labels of the statistics, got {len(names)}. Pass one name "
                "per label."
            )
        check_threshold(params.threshold, shape[1], params.loss.threshold)
        return self._fit_sums(statistics, columns_of(statistics, names), params)

    @property
    def statistics_(self) -> Statistics:
        """Sums over the rows seen so far, by ``fit_statistics``, ``fit_blocks`` and ``partial_fit``."""
        fitted: Fitted | None = vars(self).get("fitted_")
        if fitted is None or fitted.sums is None or not fitted.sums.lasting:
            raise AttributeError(f"this {type(self).__name__} has no sums over blocks of rows.")
        return fitted.sums.statistics

    @available_if(_takes_blocks)  # type: ignore[untyped-decorator]  # scikit-learn has no stubs
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add a block of rows to those seen so far, by ``fit`` too, and solve for all of them.

        Only sums are kept, in ``statistics_``: d² + dL numbers for any number of rows. The order and size of
        the blocks change nothing but the last digits. For many blocks, ``fit_blocks`` solves once.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (b, d)
        y : array, sparse matrix or frame of shape (b, L), or (b,)
            All labels must be known.
        classes : sequence, optional
            Names of the L labels; the two classes of a 1-D y, needed in the first call unless they are 0
            and 1.
        sample_weight : array of shape (b,), optional

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
        _check_sums_suffice(params, "partial_fit")
        fitted: Fitted | None = vars(self).get("fitted_")
        before = None if fitted is None else self._sums_of(fitted)
        names = checked_classes(classes)
        known = None if fitted is None else fitted.schema
        if known is not None:
            validate_data(self, X, reset=False, skip_check_array=True)
            if names is not None and list(names) != list(_names(known)):
                raise ValueError(
                    "classes must be given in the first call, and stay the same, got "
                    f"{shown(names.tolist())} after {shown(list(_names(known)))}. Leave them out."
                )
        door = Door(params.targets, classes=names, columns=known)
        place = (0, 0) if before is None else (before.n_blocks, before.statistics.n_rows)
        block, columns = door.check((X, y, sample_weight), *place)
        if not len(block):
            raise ValueError("a block must have at least one row, got 0. Pass some data.")
        if not self._has_room(columns, params):
            raise self._too_wide(columns, params)
        check_threshold(params.threshold, columns.n_labels, params.loss.threshold)
        sums = statistics_of(block)
        if before is not None and known is not None:
            sums = before.statistics.at(HOST) + sums  # the caller may have kept the old ones
            columns = replace(known, dtype=np.result_type(known.dtype, columns.dtype))
        return self._fit_sums(sums, columns, params, place[0] + 1)

    def _sums_of(self, fitted: Fitted) -> Sums:
        """Return the sums of the last fit, to which more rows are added."""
        if fitted.sums is None and not fitted.place.is_host:
            raise ValueError(
                "partial_fit sums rows on the host, got a model that was fitted to arrays of "
                f"{fitted.place}, whose sums stay there. Fit to NumPy arrays, perhaps with device='cuda', or "
                "begin with fit_statistics(Statistics.from_arrays(X, Y))."
            )
        if fitted.sums is None:
            raise ValueError(
                "partial_fit adds to sums over rows, got a model that has none: fit keeps them only if it "
                f"decomposes XᵀX and they have at most {_MOST_KEPT} numbers, and no model file does. Keep "
                "them with model.statistics_.save(FILE) after fit_blocks or partial_fit, or with "
                "checkpoint=FILE, and go on with fit_statistics(Statistics.load(FILE)).partial_fit(X, y)."
            )
        return fitted.sums

    def fit_blocks(self, blocks: Any, y: None = None, *, classes: Any = None, checkpoint: Any = None) -> Self:
        """Fit to rows that come in blocks, one of which is in memory at a time.

        With the squared loss and all labels known it reads the blocks once; the result is that of ``fit`` up
        to rounding. With another loss, with unknown labels, and where d² + dL numbers and the work
        of the solve do not fit into memory, every iteration reads them again.

        Parameters
        ----------
        blocks : iterable, callable or BlockSource
            Of ``(X, y)`` or ``(X, y, sample_weight)``; what `lrml.datasets.iter_blocks` yields; a function
            that returns such an iterable, if blocks are read more than once; or a `lrml.blocks.BlockSource`,
            such as `lrml.engines.dask.DaskBlocks`.
        y : None
            The blocks have the labels.
        classes : sequence, optional
            Names of the labels, or the two classes of a 1-D y.
        checkpoint : path-like or Checkpoint, optional
            A file that keeps the sums so far, about every 30 seconds. If it exists, the run goes on from
            there, and ends with the same bits as one that was not interrupted; the blocks must be the same,
            but a stream may have more of them now. It stays when the fit has ended. Only for fits that read
            the blocks once.

        Returns
        -------
        self
            Unchanged if anything is wrong.

        Raises
        ------
        BlockError
            If a block breaks a rule (`lrml.blocks.BlockError`): which one, which row, and in ``sums`` what
            was summed before. An error of the iterator itself, such as an OSError, passes as it is, with a
            note that says which block was read. Whatever the end, Ctrl-C too, the checkpoint gets the sums
            so far.

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
        _check_for_blocks(params, "fit_blocks")
        check_no_labels(y)
        solver = vars(params).get("solver")
        if solver == "dual" or (solver == "compressed" and params.loss.name != "squared"):
            raise ValueError(
                f"fit_blocks has no solver={solver!r} with loss={params.loss.name!r}, which needs all rows "
                "at once. Pass solver='auto'."
            )
        source = opened(self, blocks, classes, params, allow_unknown=self._reads_again)
        kept = (
            checkpoint if checkpoint is None or isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        )
        check_threshold(params.threshold, source.columns.n_labels, params.loss.threshold)
        self._check_before(source.columns, params)
        got = "very many features or labels" if solver != "compressed" else "solver='compressed'"
        got = got if params.loss.name == "squared" else f"loss={params.loss.name!r}"
        if self._is_one_pass(source, params):
            got = "unknown labels"
            with suppress(*([UnknownLabelsError] if self._reads_again else [])):
                return self._fit_sums(source.sum(statistics_of, checkpoint=kept), source.columns, params)
        if kept is not None:
            raise ValueError(
                f"checkpoint needs a fit that reads the blocks once, got {shown(os.fspath(kept.path))} and "
                f"{got}. Leave it out."
            )
        self._fit_passes(source, params)
        return self

    def _check_before(self, columns: Columns, params: Parameters) -> None:
        """Check parameters against the number of columns, before anything is read."""

    # Whether ``_fit_passes`` can fit what sums do not suffice for.
    _reads_again = False

    def _fit_passes(self, source: BlockSource, params: Parameters) -> None:
        """Fit by reading the blocks several times."""
        raise NotImplementedError

    def _is_one_pass(self, source: BlockSource, params: Parameters) -> bool:
        """Whether second moments suffice, and fit into memory."""
        if params.loss.name != "squared" or vars(params).get("solver") == "compressed":
            return False
        if not self._has_room(source.columns, params) and not self._reads_again:
            raise self._too_wide(source.columns, params)
        return self._has_room(source.columns, params)

    def _iterates(self, params: Parameters) -> bool:
        """Whether a solve from sums is more than a decomposition."""
        return False

    def _has_room(self, columns: Columns, params: Parameters) -> bool:
        """Whether sums over rows with these columns, and the solve, fit into memory."""
        shape = columns.n_features, columns.n_labels
        return sums_fit_in_memory(shape, iterates=self._iterates(params))

    def _too_wide(self, columns: Columns, params: Parameters) -> ValueError:
        shape = columns.n_features, columns.n_labels
        needed = sums_nbytes(shape, iterates=self._iterates(params))
        return ValueError(
            f"sums over rows and the solve must fit into memory, got d = {shape[0]} features and L = "
            f"{shape[1]} labels, which take {needed / 1e9:.1f} GB. Use fit_blocks of LRML or MLTrace, which "
            "then reads the rows several times, or fewer features or labels."
        )

    def _fit_sums(self, sums: Statistics, columns: Columns, params: Parameters, n_blocks: int = 1) -> Self:
        data = SummedData.of(sums, columns, params.targets)
        warn_of_spreads(sums, columns)
        return self._keep_found(
            {"fitted_": replace(self._solved(data, params), sums=Sums(sums, n_blocks, lasting=True))}
        )

    def _found(self, data: TrainingData, params: Parameters) -> dict[str, Any]:
        """Keep the sums of a fit to all rows, if it made any and they are small, for ``partial_fit``."""
        found = super()._found(data, params)
        sums: Statistics | None = vars(data).get("statistics")
        if sums is None or not (data.needs_moments_only and data.home.is_host):
            return found
        if math.prod(sums.xx.shape) + math.prod(sums.xy.shape) > _MOST_KEPT:
            return found
        return {"fitted_": replace(found["fitted_"], sums=Sums(sums.at(HOST), 1, lasting=False))}


def _names(columns: Columns) -> Any:
    """Return the names of the labels as ``classes_`` has them."""
    return range(columns.n_labels) if columns.label_names is None else columns.label_names


def opened(
    model: Any, blocks: Any, classes: Any, params: Parameters, *, allow_unknown: bool = False
) -> BlockSource:
    """Return blocks as a source that checks them for a model and, if that is verbose, tells how far it is."""
    source = as_source(blocks).checked(
        targets=params.targets, classes=checked_classes(classes), allow_unknown=allow_unknown
    )
    if vars(params).get("verbose") and source.told is None:
        source.told = Reading(partial(tell, type(model).__name__))
    return source


def check_no_labels(y: Any) -> None:
    """Refuse labels beside blocks."""
    if y is not None:
        raise TypeError(
            "fit_blocks needs blocks that have the labels, got X and y apart. Pass [(X, y)], or use fit."
        )


def warn_of_spreads(statistics: Statistics, columns: Columns) -> None:
    """Warn if some features vary so little, compared with others, that rounding may swamp them."""
    xp = statistics.place.xp
    with np.errstate(invalid="ignore", divide="ignore"):
        spreads = xp.sqrt(xp.linalg.diagonal(statistics.xx) / statistics.weight)
    warn_of_ranges(spreads, columns.feature_names)


def checked_classes(classes: Any) -> npt.NDArray[Any] | None:
    """Return names of labels, or two classes, as an array without repetitions."""
    if classes is None:
        return None
    classes = to_host(classes)
    names = np.asarray(classes if isinstance(classes, np.ndarray) else list(classes))
    if names.dtype.kind in "US":
        names = names.astype(object)
    if names.ndim != 1 or len(set(names.tolist())) != len(names):
        raise ValueError(
            f"classes must be a sequence of different names, got {shown(classes)}. Pass one name per label."
        )
    return names


def _check_for_blocks(params: Parameters, method: str) -> None:
    """Refuse what needs all rows at once."""
    if params.kernel != "linear":
        raise ValueError(
            f"{method} needs kernel='linear', got kernel={shown(params.kernel)}, which compares all pairs of "
            "rows. Use features of sklearn.kernel_approximation.Nystroem."
        )
    if isinstance(params.threshold, str):
        raise ValueError(
            f"threshold='auto' needs rows that the model has not seen, got a fit by {method}. Pass a number, "
            "or choose one with a search, such as LRMLCV.fit_blocks."
        )


def _check_sums_suffice(params: Parameters, method: str) -> None:
    """Refuse what sums over rows do not tell."""
    _check_for_blocks(params, method)
    if params.loss.name != "squared":
        raise ValueError(
            f"{method} needs loss='squared', whose fits follow from sums over rows, got "
            f"loss={params.loss.name!r}. Use fit, or fit_blocks with blocks that can be read several times."
        )
    if vars(params).get("solver") in _NEED_ROWS:
        raise ValueError(
            f"{method} decomposes XᵀX, got solver={vars(params)['solver']!r}, which needs the rows. Pass "
            "solver='auto'."
        )
