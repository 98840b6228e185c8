"""Searches over rows that come in blocks and are read once."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from lrml._door import check_threshold, warn_of_spreads
from lrml._shown import shown
from lrml.blocks import BlockError, Checkpoint
from lrml.core import checks as check
from lrml.core.rows import Rows, Schema
from lrml.estimators._block_fits import opened
from lrml.estimators._fold_sums import Folds, FoldSums, SampledRows, fold_sums
from lrml.estimators._parameters import Parameters
from lrml.estimators._search import N_FOLDS, SearchModel
from lrml.thresholds import Cut


class BlockSearch(SearchModel):
    """A search whose candidates follow from second moments, which add up over blocks of rows."""

    def fit_blocks(self, blocks: Any, *, classes: Any = None, checkpoint: Any = None) -> Self:
        """Choose the parameters and fit, on rows that come in blocks and are read once.

        Every candidate is fitted to all rows, by sums over them: one for each fold, which add up. They are
        judged on a sample of at most k = max(7,500, 2²³ / (d + L)) rows. A leave-one-out score follows from
        the sums of all rows and the row itself; a fold is held out on those of its rows that are sampled. So
        if all rows are in the sample, ``fit`` differs in the folds only.

        Sample and folds depend on ``random_state`` (None stands for 0) and on the blocks, not on the order in
        which these are summed: the rows of block i are drawn by ``default_rng([random_state, i])``. The
        sample has the rows with the smallest random numbers. Folds have equal shares of the rows, and a
        held-out share its own, up to chance.

        Cost: the sums take O(n d² + n d L) at most, as in a fit; the rest is that of ``fit`` to the sample.
        Memory, for any number of rows, 2 (K + 1)(d² + dL) numbers and 4k rows beside one block. K is 5 by
        default, the number of folds if ``cv`` is one, and 2 for a held-out share.

        Parameters
        ----------
        blocks : iterable, callable or BlockSource
            As in `LRML.fit_blocks`. An iterator will do.
        classes, checkpoint
            As in `LRML.fit_blocks`.

        Returns
        -------
        self
            Unchanged if anything is wrong. Needs the squared loss, all labels known, a linear kernel, and a
            ``cv`` that is None, a number of folds, which are random here, or a held-out share.

        Examples
        --------
        >>> from lrml import MLFroCV
        >>> from lrml.datasets import load_yeast
        >>> X, Y = load_yeast().train
        >>> blocks = ((X[start : start + 100], Y[start : start + 100]) for start in range(0, 1500, 100))
        >>> round(MLFroCV().fit_blocks(blocks).best_params_["alpha"], 3)
        3.7
        >>> round(MLFroCV().fit(X, Y).best_params_["alpha"], 3)
        3.7
        """
        params = self._check_params()
        _check_sums_suffice(params, type(self)._member)
        source = opened(self, blocks, classes, params)
        columns = source.columns
        folds = _folds(params, columns)
        self._check_before(params, columns)
        try:
            sums: FoldSums = source.sum(
                fold_sums, folds, columns, checkpoint=Checkpoint.of(checkpoint, FoldSums)
            )
        except BlockError as error:
            if isinstance(error.sums, FoldSums):
                error.sums = error.sums.total
            raise
        sums.check_same(folds)
        data = SampledRows.of_folds(sums, columns)
        warn_of_spreads(data.statistics, columns)
        return self._keep(**self._found(data, params))

    def _check_before(self, params: Parameters, columns: Schema) -> None:
        """Check parameters against the shape of the data, before anything is summed."""
        if not isinstance(params.threshold, Cut):
            check_threshold(params.threshold, columns.n_labels, params.loss.threshold)
        self._check_shapes(Rows.of_sums(None, columns), self._check_params())


def _check_sums_suffice(params: Parameters, member: Any) -> None:
    """Refuse what sums and a sample do not tell."""
    if params.loss.name != "squared":
        raise ValueError(
            f"a search over blocks needs loss='squared', got loss={params.loss.name!r}. Search on some of "
            f"the rows with fit, then fit to all with {member.__name__}.fit_blocks."
        )
    if params.kernel != "linear":
        raise ValueError(
            f"a search over blocks needs kernel='linear', got kernel={shown(params.kernel)}, which compares "
            "all pairs of rows. Use features of sklearn.kernel_approximation.Nystroem."
        )
    if not (params.cv is None or check.is_real(params.cv)):
        raise ValueError(
            "cv must be a number of folds or a held-out share in a search over blocks, where the numbers of "
            f"the rows decide about folds, got {shown(params.cv)}. Pass cv=5, or search on some of the rows "
            f"with fit, then fit to all with {member.__name__}.fit_blocks."
        )


def _folds(params: Parameters, columns: Schema) -> Folds:
    cv, seed = params.cv, params.random_state
    count = N_FOLDS if cv is None else cv
    bounds = Folds.equal(int(count)) if check.is_integer(count) else (float(count),)
    if not (seed is None or check.is_integer(seed)):
        seed = seed.randint(1 << 32, dtype=np.uint64)
    return Folds(int(seed or 0), bounds, Folds.rows_kept(columns))
