"""Fits to rows that come in blocks, or of which only the sums are known."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from lrml._door import check_threshold, warn_of_spreads
from lrml._progress import Reading, tell
from lrml.blocks import BlockSource, Checkpoint, Door, UnknownLabelsError, as_source, statistics_of
from lrml.core.arrays import HOST, to_host
from lrml.core.moments import Statistics
from lrml.core.rows import Rows, Schema
from lrml.estimators._block_rows import BlockRows
from lrml.estimators._fitted import Fitted, Sums
from lrml.estimators._parameters import Parameters, check_reach

MOST_KEPT = 1 << 22
"""Most numbers of the sums that a fit to all rows keeps for later blocks: 32 MiB."""


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
