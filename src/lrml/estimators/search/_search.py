"""The mechanism behind every ``…CV`` estimator: fit candidates on splits, judge them, drop the hopeless."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lrml._threads import map_in_threads
from lrml.estimators._fitting import TrainingData, take
from lrml.estimators._scores import Scores
from lrml.estimators._space import Space
from lrml.estimators.search._score_table import ScoreTable
from lrml.estimators.search._scoring import Criterion, HeldOut, SpectralScores
from lrml.estimators.search._splits import Split
from lrml.problem import SpectralProblem

# Most numbers that the decompositions of splits processed at the same time may take.
_MOST_NUMBERS = 1 << 27
# Tolerance up to which a warm start helps.
_LOOSE = 1e-3

Visit: TypeAlias = Callable[[int, Any, Any], None]
Piece: TypeAlias = Callable[[], None]
Advance: TypeAlias = Callable[[int], None]


class Comparison(NamedTuple):
    """The data on which candidates are compared, and how."""

    data: TrainingData
    splits: list[Split]
    criteria: Sequence[Criterion]
    cut: Any  # threshold for criteria that need decisions
    abandon: bool  # whether hopeless candidates are dropped after the first split
    with_margin: bool  # whether candidates within a standard error of the best matter too

    def held_out(self, split: int) -> HeldOut:
        """Rows on which candidates are compared."""
        rows = self.splits[split].test
        known = None
        if self.data.mask is not None:
            known = self.data.mask.block(slice(None), np.bool_)[rows].astype(np.bool_)
        return HeldOut(self.data.features(rows, self.splits[split].train), take(self.data.Y, rows), known)

    def tables(self, n_candidates: int) -> list[ScoreTable]:
        """Return an empty table for every criterion."""
        tests = [split.test for split in self.splits]
        weights = self.data.weights
        chosen = [None if weights is None else weights[rows] for rows in tests]
        return [ScoreTable(n_candidates, [len(rows) for rows in tests], chosen) for _ in self.criteria]


class Family(NamedTuple):
    """Candidates whose fits follow from second moments.

    ``pieces(problem, kept, visit)`` returns pieces of work, independent of each other, that fit the kept
    candidates. They call ``visit(candidate, left, right)`` for each solution left rightᵀ in spectral
    coordinates.
    """

    candidates: list[dict[str, Any]]
    pieces: Callable[[SpectralProblem, Sequence[int], Visit], list[Piece]]


class Search:
    """Candidates on splits; subclasses define how they are fitted.

    All candidates see the first split. Those that are hopeless there by every criterion skip the others.
    """

    def __init__(self, comparison: Comparison, candidates: list[dict[str, Any]]) -> None:
        self.comparison = comparison
        self.candidates = candidates
        self.tables = comparison.tables(len(candidates))

    def run(self, verbose: int) -> list[ScoreTable]:
        """Fit and judge all candidates; return one table per criterion."""
        n_splits, everyone = len(self.comparison.splits), list(range(len(self.candidates)))
        with _progress(verbose, len(everyone) * n_splits) as advance:
            for criterion, table in zip(self.comparison.criteria, self.tables, strict=True):
                for split in range(n_splits):
                    table.open_split(split, by_row=criterion.by_row)
            self._fit([0], everyone, advance)
            kept = everyone
            if self.comparison.abandon:
                hopeful = {
                    i for b in self.tables for i in b.hopeful(0, with_margin=self.comparison.with_margin)
                }
                kept = sorted(hopeful)
                advance((len(everyone) - len(kept)) * (n_splits - 1))
            self._fit(list(range(1, n_splits)), kept, advance)
        return self.tables

    def _judge(
        self, held_out: HeldOut, scores: Callable[[slice], Scores], place: tuple[int, int], rank: int
    ) -> None:
        """Enter the value of each criterion into its table; ``place`` is a candidate and a split."""
        found = held_out.judge(self.comparison.criteria, self.comparison.cut, scores)
        for table, values in zip(self.tables, found, strict=True):
            table.record(*place, values, rank)

    def _fit(self, splits: list[int], kept: list[int], advance: Advance) -> None:
        raise NotImplementedError

    def scores_of(self, candidate: int) -> Iterator[tuple[HeldOut, Scores]]:
        """Held-out rows and one candidate's scores of them, split by split."""
        raise NotImplementedError

    def strengths(self) -> npt.NDArray[np.float64]:
        """Return the strengths of the penalties, one row per candidate, the decisive column first."""
        names = [name for name in ("alpha", "ridge") if name in self.candidates[0]]
        return np.array([[candidate[name] for name in names] for candidate in self.candidates])

    def starting_point(self, candidate: int) -> Any:
        """Return an estimator from whose solution the final fit may start, or None."""
        return None


class MomentSearch(Search):
    """Candidates that need second moments only."""

    def __init__(self, comparison: Comparison, family: Family, space_of: Callable[[int], Space]) -> None:
        super().__init__(comparison, family.candidates)
        self.family, self.space_of = family, space_of
        self._only_space: Space | None = None

    def _space(self, split: int) -> Space:
        """Decompose a split's training part; that of a single split is kept: thresholds need it again."""
        if self._only_space is not None:
            return self._only_space
        space = self.space_of(split)
        if len(self.comparison.splits) == 1:
            self._only_space = space
        return space

    def _fit(self, splits: list[int], kept: list[int], advance: Advance) -> None:
        at_once = max(1, _MOST_NUMBERS // max(min(self.comparison.data.X.shape) ** 2, 1))
        for start in range(0, len(splits), at_once):
            pieces = [
                piece
                for split in splits[start : start + at_once]
                for piece in self._pieces(split, kept, advance)
            ]
            for _ in map_in_threads(lambda piece: piece(), pieces, ahead=len(pieces)):
                pass

    def _pieces(self, split: int, kept: Sequence[int], advance: Advance) -> list[Piece]:
        space, held_out = self._space(split), self.comparison.held_out(split)
        scores = SpectralScores(space, held_out.X, self.comparison.data.targets)

        def visit(index: int, left: Any, right: Any) -> None:
            self._judge(held_out, scores.of(left, right), (index, split), min(left.shape))
            advance(1)

        return self.family.pieces(space.problem, kept, visit)

    def scores_of(self, candidate: int) -> Iterator[tuple[HeldOut, Scores]]:
        """Held-out rows and one candidate's scores of them, split by split."""
        return (self._scores(candidate, split) for split in range(len(self.comparison.splits)))

    def _scores(self, candidate: int, split: int) -> tuple[HeldOut, Scores]:
        space, held_out = self._space(split), self.comparison.held_out(split)
        scores, found = SpectralScores(space, held_out.X, self.comparison.data.targets), []

        def visit(_: int, left: Any, right: Any) -> None:
            found.append(scores.of(left, right)(slice(None)))

        for piece in self.family.pieces(space.problem, [candidate], visit):
            piece()
        return held_out, found[0]


class _Fitted(NamedTuple):
    """A model and the group of the candidate that it was fitted as."""

    model: Any
    group: Any


class RefitSearch(Search):
    """Candidates that are fitted one by one on the rows, each starting from the last one of its group.

    They are ordered so that each is a good start for the next; ``groups`` has a key for each.
    """

    def __init__(
        self, comparison: Comparison, candidates: list[dict[str, Any]], groups: list[Any], estimator: Any
    ) -> None:
        super().__init__(comparison, candidates)
        self.estimator, self.groups = estimator, groups
        self._leaders: dict[int, Any] = {}  # of a single split: the best so far by each criterion

    def _fit(self, splits: list[int], kept: list[int], advance: Advance) -> None:
        for split in splits:
            held_out = self.comparison.held_out(split)
            data = self.comparison.data.part(self.comparison.splits[split].train)
            last: _Fitted | None = None
            for index in kept:
                last = _Fitted(self._model(data, index, last), self.groups[index])
                self._judge(
                    held_out, partial(_scores, last.model, held_out.X), (index, split), last.model.rank_
                )
                self._remember(index, last.model)
                advance(1)

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

    def _model(self, data: TrainingData, index: int, last: _Fitted | None) -> Any:
        warm = last is not None and last.group == self.groups[index] and self._tells_neighbours_apart
        model = last.model if warm and last is not None else clone(self.estimator).set_params(warm_start=True)
        model.set_params(**self.candidates[index])
        with warnings.catch_warnings():
            # A candidate that has not quite converged can be judged; the final fit warns.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model._fit_data(data, model._check_params())
        return model

    def scores_of(self, candidate: int) -> Iterator[tuple[HeldOut, Scores]]:
        """Held-out rows and one candidate's scores of them, split by split."""
        for split in range(len(self.comparison.splits)):
            held_out, model = self.comparison.held_out(split), self._leaders.get(candidate)
            if model is None:
                model = self._model(
                    self.comparison.data.part(self.comparison.splits[split].train), candidate, None
                )
            yield held_out, _scores(model, held_out.X, slice(None))

    def starting_point(self, candidate: int) -> Any:
        """Return the candidate as fitted to most of the rows."""
        return copy(self._leaders[candidate]) if candidate in self._leaders else None


def _scores(model: Any, X: Any, rows: slice) -> Scores:
    """Scores of a fitted model (predictions, if the targets are real)."""
    scores: Scores = model._scores(X[rows])
    return scores


@contextmanager
def _progress(verbose: int, total: int) -> Iterator[Advance]:
    """Yield a function that advances a bar on standard error, or does nothing."""
    if not verbose:
        yield lambda count: None
        return
    columns = (TextColumn("models on splits"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("search", total=total)
        yield lambda count: progress.advance(bar, count)
