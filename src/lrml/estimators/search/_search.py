"""The mechanism behind every ``…CV`` estimator: fit candidates on splits, judge them, drop the hopeless."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from threading import Lock
from time import monotonic
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml._progress import progress
from lrml.core.arrays import is_host, map_in_threads, take, to_numpy
from lrml.core.coordinates import Coordinates, RidgeRegressions, coordinates_of
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.estimators._fitted import model_nbytes
from lrml.estimators._loo import LeaveOneOut
from lrml.estimators._scores import Scores
from lrml.estimators.search._score_table import ScoreTable
from lrml.estimators.search._scoring import Criterion, HeldOut, SpectralScores
from lrml.estimators.search._splits import Split, confirming_splits, training_part

# Most numbers that the decompositions of splits processed at the same time may take.
_MOST_NUMBERS = 1 << 27
# Numbers of rows in spectral coordinates that are made at a time, if all rows are scored.
_BLOCK_NUMBERS = 1 << 25
N_FOLDS, MOST_FOLDS = 5, 3
"""Choices are confirmed on up to three of five folds."""

# Until a difference of so many standard errors is clear.
_CLEAR = 2.0
# Most candidates that compete there for one choice, beside their rival.
_MOST_CHOICES = 5
# A search that is expected to take longer than so many seconds says so.
_LONG = 10.0

Params: TypeAlias = dict[str, Any]
Visit: TypeAlias = Callable[[int, RidgeRegressions], None]
Piece: TypeAlias = Callable[[], None]
Advance: TypeAlias = Callable[[int], None]


class Judged(NamedTuple):
    """What a plan learns about the candidates that it has just proposed."""

    table: ScoreTable  # of the first criterion, for all candidates so far
    new: range  # the places of the new ones


Plan: TypeAlias = Generator[list[Params], Judged, Any]
"""Yields candidates, is sent how they did on the first split, and goes on until it has seen enough."""


class Comparison(NamedTuple):
    """The data on which candidates are compared, and how."""

    data: Rows
    splits: list[Split]
    criteria: Sequence[Criterion]
    cut: Any  # threshold for criteria that need decisions
    abandon: bool  # whether hopeless candidates are dropped after the first split
    with_margin: bool  # whether candidates within a standard error of the best matter too

    def held_out(self, split: int) -> HeldOut:
        """Rows on which candidates are compared."""
        rows, place = self.splits[split].test, self.data.place
        known = None if self.data.mask is None else self.data.mask.known(rows)
        X, Y = self.data.features(rows, self.splits[split].train), take(self.data.Y, rows)
        if not place.is_host:
            X, Y = place.asarray(X), place.asarray(Y)
            known = None if known is None else place.asarray(known)
        return HeldOut(X, Y, known)

    def _nbytes(self, rank: Any) -> Any:
        """Bytes of models of these ranks that are fitted on all rows."""
        data, kernel = self.data, self.data.kernel
        rows = None if kernel is None or kernel.is_precomputed else data.X
        return model_nbytes(rank, data.model_shape, data.model_dtype, rows)

    def tables(self) -> list[ScoreTable]:
        """Return an empty table for every criterion."""
        tests = [split.test for split in self.splits]
        weights = None if self.data.weights is None else to_numpy(self.data.weights)
        chosen = [None if weights is None else weights[rows] for rows in tests]
        sizes = [len(rows) for rows in tests]
        return [
            ScoreTable(sizes, chosen, by_row=criterion.by_row, nbytes=self._nbytes)
            for criterion in self.criteria
        ]


class Family(NamedTuple):
    """Candidates whose fits follow from second moments.

    ``pieces(problem, candidates, visit)`` returns pieces of work, independent of each other, that fit the
    candidates (pairs of place and parameters). They call ``visit(place, solution)`` for each, with the
    solution in spectral coordinates.
    """

    plan: Plan
    pieces: Callable[[SpectralProblem, Sequence[tuple[int, Params]], Visit], list[Piece]]


def fit_ridge(problem: SpectralProblem, place: int, visit: Visit) -> None:
    """Fit a candidate that is a ridge regression, with the ridge of the problem."""
    visit(place, RidgeRegressions(problem.ridge_solution(), None, problem.ridge))


def ridge_pieces(
    name: str,
) -> Callable[[SpectralProblem, Sequence[tuple[int, Params]], Visit], list[Piece]]:
    """Return the pieces of work of a family of ridge regressions; ``name`` is that of their strength."""
    return lambda problem, chosen, visit: [
        partial(fit_ridge, problem.with_ridge(one[name]), place, visit) for place, one in chosen
    ]


def reduced_rank_pieces(
    problem: SpectralProblem, chosen: Sequence[tuple[int, Params]], visit: Visit
) -> list[Piece]:
    """Return the pieces of work of a family of reduced-rank regressions: one ridge serves all ranks."""

    def run(problem: SpectralProblem, group: list[tuple[int, int]]) -> None:
        left, V, _, _ = problem.penalised_predictions(TailSum(0, 0.0))
        for place, wanted in group:
            rank = min(wanted, V.shape[1])
            visit(place, RidgeRegressions(left[:, :rank], V[:, :rank], problem.ridge))

    groups: dict[float, list[tuple[int, int]]] = {}
    for place, one in chosen:
        groups.setdefault(one["ridge"], []).append((place, one["rank"]))
    return [partial(run, problem.with_ridge(ridge), group) for ridge, group in groups.items()]


class Search:
    """Candidates on splits; subclasses define how they are fitted.

    The plan proposes candidates, one round after the other, by what the first split says about those before.
    All see the first split. Those that are hopeless there by every criterion skip the others.
    """

    def __init__(self, comparison: Comparison, plan: Plan) -> None:
        self.comparison, self.plan = comparison, plan
        self.candidates: list[Params] = []
        self.tables = comparison.tables()

    def run(self, verbose: int, name: str = "search") -> list[ScoreTable]:
        """Fit and judge all candidates; return one table per criterion."""
        others = list(range(1, len(self.comparison.splits)))
        with _progress(verbose, name, 1 + len(others)) as (expect, advance):
            proposed = next(self.plan, None)
            while proposed is not None:
                new = self.add(proposed)
                expect(len(proposed))
                self.fit([0], list(new), advance)
                try:
                    proposed = self.plan.send(Judged(self.tables[0], new))
                except StopIteration:
                    proposed = None
            kept = list(range(len(self.candidates)))
            if self.comparison.abandon and others:
                margin = self.comparison.with_margin
                kept = sorted({i for table in self.tables for i in table.hopeful(0, with_margin=margin)})
                advance((len(self.candidates) - len(kept)) * len(others))
            if others:
                self.fit(others, kept, advance)
        return self.tables

    def _judge(
        self, held_out: HeldOut, scores: Callable[[slice], Scores], place: tuple[int, int], rank: int
    ) -> None:
        """Enter the value of each criterion into its table; ``place`` is a candidate and a split."""
        found = held_out.judge(self.comparison.criteria, self.comparison.cut, scores)
        for table, values in zip(self.tables, found, strict=True):
            table.record(*place, values, rank)

    def add(self, proposed: list[Params]) -> range:
        """Make room for more candidates; return their places."""
        new = range(len(self.candidates), len(self.candidates) + len(proposed))
        self.candidates += proposed
        for table in self.tables:
            table.add(len(proposed))
        return new

    def fit(self, splits: list[int], kept: list[int], advance: Advance = lambda count: None) -> None:
        """Fit some candidates on some splits, and judge them."""
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

    def _chosen(self, kept: Sequence[int]) -> list[tuple[int, Params]]:
        return [(place, self.candidates[place]) for place in kept]


class MomentSearch(Search):
    """Candidates that need second moments only, fitted on parts of the rows."""

    def __init__(self, comparison: Comparison, family: Family, first: Rows, *, fit_intercept: bool) -> None:
        super().__init__(comparison, family.plan)
        self.family, self.fit_intercept = family, fit_intercept
        self._first = first  # the first split's training part, kept for further rounds and thresholds

    def _space(self, split: int) -> Coordinates:
        """Decompose a split's training part."""
        part = training_part(self.comparison.data, self.comparison.splits[split]) if split else self._first
        return coordinates_of(part, fit_intercept=self.fit_intercept)

    def fit(self, splits: list[int], kept: list[int], advance: Advance = lambda count: None) -> None:
        at_once = max(1, _MOST_NUMBERS // max(min(self.comparison.data.X.shape) ** 2, 1))
        for start in range(0, len(splits), at_once):
            pieces = [
                piece
                for split in splits[start : start + at_once]
                for piece in self._pieces(split, kept, advance)
            ]
            _run(pieces, self._space(0).problem)

    def _pieces(self, split: int, kept: Sequence[int], advance: Advance) -> list[Piece]:
        space, held_out = self._space(split), self.comparison.held_out(split)
        scores = SpectralScores(space, held_out.X, self.comparison.data.schema.targets)

        def visit(index: int, solution: RidgeRegressions) -> None:
            left, right = solution.sides
            self._judge(held_out, scores.of(left, right), (index, split), left.shape[1])
            advance(1)

        return self.family.pieces(space.problem, self._chosen(kept), visit)

    def scores_of(self, candidate: int) -> Iterator[tuple[HeldOut, Scores]]:
        """Held-out rows and one candidate's scores of them, split by split."""
        return (self._scores(candidate, split) for split in range(len(self.comparison.splits)))

    def _scores(self, candidate: int, split: int) -> tuple[HeldOut, Scores]:
        space, held_out = self._space(split), self.comparison.held_out(split)
        scores, found = SpectralScores(space, held_out.X, self.comparison.data.schema.targets), []

        def visit(_: int, solution: RidgeRegressions) -> None:
            found.append(scores.of(*solution.sides)(slice(None)))

        for piece in self.family.pieces(space.problem, self._chosen([candidate]), visit):
            piece()
        return held_out, found[0]


class _Contest(NamedTuple):
    """What is decided on folds: whether some candidates hold up against one with an exact score."""

    own: list[int]  # the preferred one first
    rival: int
    margin: float  # by how much a choice may be worse than the best of all

    def needed(self, leads: list[tuple[float, float]]) -> list[float]:
        """Return the least lead over the rival that each candidate must have, given those of all."""
        gains = [gain for gain, _ in leads]
        return [max([0.0, *gains[:i], *gains[i + 1 :]]) - self.margin for i in range(len(gains))]


class LeaveOneOutSearch(Search):
    """Candidates fitted once, on all rows, and judged by what they would give each row without it."""

    def __init__(self, comparison: Comparison, family: Family, *, fit_intercept: bool) -> None:
        super().__init__(comparison, family.plan)
        self.family, self.fit_intercept = family, fit_intercept
        self.space = coordinates_of(comparison.data, fit_intercept=fit_intercept)
        self.held_out = comparison.held_out(0)
        self.scores = self._leave_one_out(comparison.splits[0].test)
        self.exact: set[int] = set()  # candidates whose leave-one-out scores are not estimates
        for table in self.tables:
            table.exact = self.exact
        # By candidate and criterion: an exact score, plus the lead over that candidate on folds.
        self.confirmed: dict[tuple[int, str], float] = {}

    def _leave_one_out(self, rows: npt.NDArray[np.int64]) -> LeaveOneOut:
        return LeaveOneOut(self.space, self.comparison.data, rows, fit_intercept=self.fit_intercept)

    def fit(self, splits: list[int], kept: list[int], advance: Advance = lambda count: None) -> None:
        def visit(index: int, solution: RidgeRegressions) -> None:
            rank = solution.left.shape[1]
            self._judge(self.held_out, self.scores.of(solution), (index, 0), rank)
            if self.scores.is_exact(solution):
                self.exact.add(index)
            advance(1)

        _run(self.family.pieces(self.space.problem, self._chosen(kept), visit), self.space.problem)

    def confirm(self, orders: list[list[int]], random_state: Any) -> list[int]:
        """Return choices, one per criterion, that hold up against the best one with an exact score.

        Estimates are a little too good. So a choice with an estimated score must lead by more than one
        standard error, and must then lead on folds as well, one after the other until the lead is clear. With
        a margin, the first one of an order is taken that is within one standard error of the best on folds.
        """
        contests = [self._contest(*pair) for pair in zip(self.tables, orders, strict=True)]
        if all(contest.own[0] in self.exact for contest in contests) or not self.exact:
            return [contest.own[0] for contest in contests]
        return self._compare_on_folds(contests, random_state)

    def _contest(self, table: ScoreTable, order: list[int]) -> _Contest:
        exact = [place for place in sorted(self.exact) if table.complete[place]]
        rival = max(exact, key=table.scores[:, 0].__getitem__, default=order[0])
        if not self.comparison.with_margin:
            gain, error = table.lead(order[0], rival)
            return _Contest(order[:1] if gain > error else [rival], rival, 0.0)
        own = order[:1]
        for place in order[1:]:
            if own[-1] in self.exact:
                break
            if table.scores[place, 0] > table.scores[own[-1], 0]:
                own.append(place)
        spread = np.linspace(0, len(own) - 1, min(len(own), _MOST_CHOICES)).astype(int)
        own = [own[place] for place in spread]
        return _Contest(own, rival, table.best_error)

    def _compare_on_folds(self, contests: list[_Contest], random_state: Any) -> list[int]:
        splits = confirming_splits(self.comparison.data, N_FOLDS, random_state)
        if not splits:
            return [contest.own[0] for contest in contests]
        comparison = self.comparison._replace(splits=splits)
        places = list(dict.fromkeys(place for contest in contests for place in [*contest.own, contest.rival]))
        first = training_part(comparison.data, splits[0])
        search = MomentSearch(comparison, self.family, first, fit_intercept=self.fit_intercept)
        search.add([self.candidates[place] for place in places])
        leads: list[list[tuple[float, float]]] = []
        for fold in range(MOST_FOLDS):
            search.fit([fold], list(range(len(places))))
            leads = [
                [table.lead(places.index(own), places.index(rival), range(fold + 1)) for own in owns]
                for table, (owns, rival, _) in zip(search.tables, contests, strict=True)
            ]
            if all(
                gain == 0.0 or abs(gain - least) > _CLEAR * error
                for contest, found in zip(contests, leads, strict=True)
                for (gain, error), least in zip(found, contest.needed(found), strict=True)
            ):
                break
        winners = []
        for contest, found, table, criterion in zip(
            contests, leads, self.tables, self.comparison.criteria, strict=True
        ):
            owns, rival = contest.own, contest.rival
            held = [gain >= least for (gain, _), least in zip(found, contest.needed(found), strict=True)]
            winner = held.index(True) if any(held) else None
            # A choice that is no smaller than its rival must not be worse.
            sizes = table.nbytes(table.ranks[:, 0])
            if winner is None or (found[winner][0] < 0.0 and sizes[owns[winner]] >= sizes[rival]):
                winners.append(rival)
            else:
                winners.append(owns[winner])
            # An exact score plus a difference of pairs varies less than a mean over the folds.
            score = float(table.scores[rival, 0])
            for own, (gain, _) in zip(owns, found, strict=True):
                self.confirmed[own, criterion.name] = score + gain
            self.confirmed[rival, criterion.name] = score
        return winners

    def scores_of(self, candidate: int) -> Iterator[tuple[HeldOut, Scores]]:
        """All rows, in blocks, and the leave-one-out scores of one candidate."""
        found: list[RidgeRegressions] = []
        pieces = self.family.pieces(
            self.space.problem, self._chosen([candidate]), lambda _, solution: found.append(solution)
        )
        for piece in pieces:
            piece()
        data = self.comparison.data
        step = max(1, _BLOCK_NUMBERS // self.space.problem.shape[0])
        for start in range(0, data.X.shape[0], step):
            rows = np.arange(start, min(start + step, data.X.shape[0]))
            scores = self._leave_one_out(rows).of(found[0])(slice(None))
            yield HeldOut(take(data.X, rows), take(data.Y, rows), None), scores


def _run(pieces: list[Piece], problem: SpectralProblem) -> None:
    """Run pieces of work in threads; on a device, which has its own, one after the other."""
    alone = problem.is_small or not is_host(problem.cross)
    for _ in map_in_threads(lambda piece: piece(), pieces, ahead=len(pieces), small=alone):
        pass


@contextmanager
def _progress(verbose: int, name: str, n_splits: int) -> Iterator[tuple[Advance, Advance]]:
    """Yield a function that expects more candidates and one that advances; both show it if ``verbose``."""
    if not verbose:
        yield (lambda count: None), (lambda count: None)
        return
    done = total = 0
    began, lock = monotonic(), Lock()  # candidates are fitted in threads
    with progress(name, "models on splits") as report:

        def expect(count: int) -> None:
            nonlocal total
            if total == 0:
                several = "s" if n_splits > 1 else ""
                report.say(
                    f"{count} candidate{'s' if count > 1 else ''} on {n_splits} split{several} to begin with"
                )
            total += count * n_splits

        def advance(count: int) -> None:
            nonlocal done
            with lock:
                if done == 0 and (left := (monotonic() - began) * (total - count) / count) > _LONG:
                    report.say(f"these take about {timedelta(seconds=round(left))}")
                done += count
                report.update(done, total)

        yield expect, advance
