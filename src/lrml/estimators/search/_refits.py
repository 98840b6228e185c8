"""The search for what has no sums: every candidate is a fit of its own, on the rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lrml.core.arrays import namespace
from lrml.core.rows import Rows
from lrml.estimators._scores import Scores
from lrml.estimators.search._scoring import HeldOut
from lrml.estimators.search._search import Advance, Comparison, Params, Plan, Search

# Tolerance up to which a warm start helps.
_LOOSE = 1e-3


class _Fitted(NamedTuple):
    """A model and the group of the candidate that it was fitted as."""

    model: Any
    group: Any


class RefitSearch(Search):
    """Candidates that are fitted one by one on the rows, each starting from the last one of its group.

    They are ordered so that each is a good start for the next; ``group`` returns a key for each.
    """

    def __init__(
        self, comparison: Comparison, plan: Plan, group: Callable[[Params], Any], estimator: Any
    ) -> None:
        super().__init__(comparison, plan)
        self.estimator, self.group = estimator, group
        self._first: tuple[Rows, _Fitted | None] | None = None  # of the first split, for more rounds
        self._leaders: dict[int, Any] = {}  # of a single split: the best so far by each criterion

    def fit(self, splits: list[int], kept: list[int], advance: Advance = lambda count: None) -> None:
        for split in splits:
            held_out = self.comparison.held_out(split)
            data, last = self._begin(split)
            for index in kept:
                last = _Fitted(self._model(data, index, last), self.group(self.candidates[index]))
                scores = partial(
                    _scores, last.model, held_out.X, single=self.comparison.data.schema.targets == "binary"
                )
                self._judge(held_out, scores, (index, split), last.model.rank_)
                self._remember(index, last.model)
                advance(1)
            if split == 0:
                self._first = data, last

    def _begin(self, split: int) -> tuple[Rows, _Fitted | None]:
        """Return a training part and the last model that was fitted to it."""
        if split == 0 and self._first is not None:
            return self._first
        self._first = None  # all rounds are over
        return self.comparison.data.some(self.comparison.splits[split].train), None

    def _remember(self, index: int, model: Any) -> None:
        """Keep the leaders of a single split: thresholds use their scores, and the final fit starts there."""
        if len(self.comparison.splits) > 1:
            return
        scores = [table.scores[:, 0] for table in self.tables]
        leading = {int(np.nanargmax(column)) for column in scores if np.isfinite(column).any()}
        if index in leading:
            self._leaders[index] = copy(model)  # the next fit of the same estimator sets new attributes
        self._leaders = {i: leader for i, leader in self._leaders.items() if i in leading}

    @property
    def _tells_neighbours_apart(self) -> bool:
        """Whether a fit that starts at its neighbour's solution leaves it; with a loose tol it may not."""
        tol = self.estimator.tol
        return tol is None or tol <= _LOOSE

    def _model(self, data: Rows, index: int, last: _Fitted | None) -> Any:
        group = self.group(self.candidates[index])
        warm = last is not None and last.group == group and self._tells_neighbours_apart
        model = last.model if warm and last is not None else copy(self.estimator).set_params(warm_start=True)
        model.set_params(**self.candidates[index])
        with warnings.catch_warnings():
            # A candidate that has not quite converged can be judged; the final fit warns.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model._fit_rows(data, model._check_params())
        return model

    def scores_of(self, candidate: int) -> Iterator[tuple[HeldOut, Scores]]:
        """Held-out rows and one candidate's scores of them, split by split."""
        for split in range(len(self.comparison.splits)):
            held_out, model = self.comparison.held_out(split), self._leaders.get(candidate)
            if model is None:
                model = self._model(
                    self.comparison.data.some(self.comparison.splits[split].train), candidate, None
                )
            yield held_out, _scores(model, held_out.X, slice(None))

    def starting_point(self, candidate: int) -> Any:
        """Return the candidate as fitted to most of the rows; no candidates follow."""
        self._first = None
        return copy(self._leaders[candidate]) if candidate in self._leaders else None


def _scores(model: Any, X: Any, rows: slice, *, single: bool = False) -> Scores:
    """Scores of a fitted model (predictions, if the targets are real), perhaps in single precision."""
    scores: Scores = model.fitted_.scores(X[rows, :])
    return namespace(scores).astype(scores, namespace(scores).float32) if single else scores
