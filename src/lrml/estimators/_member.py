"""Members of the family: estimators that minimise a loss plus a penalty on the singular values.

A member says what is minimised (``_spec``); the rest is the same for all: rows in memory, in blocks, or of
which only the sums are known.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from lrml._door import check_threshold, warn_of_spreads
from lrml._progress import Reading, tell
from lrml.blocks import BlockSource, Checkpoint, Door, UnknownLabelsError, as_source, statistics_of
from lrml.core.arrays import HOST, to_host
from lrml.core.coordinates import ROADS, RidgeRegressions, road_of
from lrml.core.moments import Statistics
from lrml.core.rows import Rows, Schema
from lrml.estimators._base import LowRankModel
from lrml.estimators._block_rows import BlockRows
from lrml.estimators._cuts import automatic_cut
from lrml.estimators._defaults import Spec
from lrml.estimators._fit import fit, regressions
from lrml.estimators._fitted import Fitted, Sums
from lrml.estimators._parameters import Parameters, check_reach
from lrml.thresholds import Cut

# Most numbers of the sums that a fit to all rows keeps for later blocks: 32 MiB.
_MOST_KEPT = 1 << 22


def _takes_blocks(model: Any) -> bool:
    """Whether ``partial_fit`` suits the parameters, as far as that can be told without checking them."""
    try:
        check_reach(model, "partial_fit")
    except ValueError as error:
        raise AttributeError(str(error)) from error
    return True


class Member(LowRankModel):
    """A model that is defined by what it minimises."""

    # By default, where sums suffice and where rows are read.
    _tols: tuple[float, float] = (1e-4, 1e-4)

    def _spec(self, params: Parameters, shape: tuple[int, int], *, predictive: bool = True) -> Spec:
        """Return what is minimised, for coefficients of this shape (d × L); refuse counts beyond it.

        ``predictive`` says whether a penalty may be on the predictions.
        """
        raise NotImplementedError

    def _common(self, params: Parameters) -> dict[str, Any]:
        """Return the parts of a `Spec` that all members have."""
        names = ("loss", "fit_intercept", "solver", "max_iter", "tol", "callback", "verbose")
        found: dict[str, Any] = {"name": type(self).__name__, "tols": self._tols}
        for name in names:
            found[name] = getattr(params, name)
        if params.solver in ROADS:
            found |= {"solver": "auto", "road": params.solver}
        return found

    def _solved(self, rows: Rows, params: Parameters) -> Fitted:
        """Return the record of a fit, without a threshold of its own."""
        # With unknown labels, a subspace is made for a penalty on the coefficients only.
        predictive = rows.all_known or road_of(rows, str(params.solver)) != "compressed"
        spec = self._spec(params, rows.model_shape, predictive=predictive)
        return fit(rows, spec, self._last(rows, params) if params.warm_start else None)

    def _last(self, rows: Rows, params: Parameters) -> Fitted | None:
        """Return the last fit if the next one is to start there; refuse if that had other columns."""
        last: Fitted | None = vars(self).get("fitted_")
        if last is None or last.kernel != rows.kernel:
            return None
        (d, n_labels), now = (last.schema.n_features, last.n_labels), rows.shape[1:]
        if (d, n_labels) != now:
            raise ValueError(
                f"warm_start needs the columns of the last fit, {d} features and {n_labels} labels, not "
                f"{now[0]} and {now[1]}."
            )
        return last

    def _found(self, rows: Rows, params: Parameters) -> dict[str, Any]:
        """Return the record of the fit, with its threshold, and small sums for ``partial_fit``."""
        fitted = self._solved(rows, params)
        if isinstance(params.threshold, Cut):
            twin = copy(self)
            twin.fitted_ = fitted
            fitted = replace(fitted, cut=automatic_cut(twin, rows, params))
        sums: Statistics | None = vars(rows).get("statistics")
        squared = params.loss.name == "squared" and rows.all_known and rows.home.is_host
        if sums is not None and squared and math.prod(sums.xx.shape) + math.prod(sums.xy.shape) <= _MOST_KEPT:
            fitted = replace(fitted, sums=Sums(sums.at(HOST), 1, lasting=False))
        return {"fitted_": fitted}

    def _fit_rows(self, rows: Rows, params: Parameters) -> Self:
        """Fit to checked rows, without a threshold of its own."""
        return self._keep(fitted_=self._solved(rows, params))

    def _regressions(self, rows: Rows, params: Parameters, *, warm: bool = False) -> RidgeRegressions:
        """Solve once more, from the fitted model if ``warm``, and read the solution as regressions."""
        return regressions(rows, self._spec(params, rows.model_shape), self.fitted_ if warm else None)

    # Sums over blocks

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
        check_reach(self, "fit_statistics")
        names, shape = checked_classes(classes), (statistics.n_features, statistics.n_labels)
        if names is not None and len(names) != shape[1]:
            raise ValueError(f"classes names {len(names)} labels, but the statistics have {shape[1]}.")
        check_threshold(params.threshold, shape[1], params.loss.threshold)
        return self._fit_sums(statistics, Schema(*shape, label_names=names, targets=params.targets), params)

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
                f"decompose XᵀX, had more than {_MOST_KEPT} numbers, or comes from a file. Keep statistics_ "
                "with save(FILE), and go on with fit_statistics(Statistics.load(FILE))."
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

    def fit_blocks(self, blocks: Any, *, classes: Any = None, checkpoint: Any = None) -> Self:
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
        spec = self._spec(params, (d, n_labels))
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
        return self._fit_rows(BlockRows.read(source, wide=squared and not once), params)

    def _fit_sums(self, sums: Statistics, schema: Schema, params: Parameters, n_blocks: int = 1) -> Self:
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
