"""Judges: how candidates are fitted to some rows, and scored on others.

What has a closed form in coordinates, or is solved there, takes one decomposition per training part, in which
`solve_path` solves all candidates. Ridges need no more than that of all rows, as their leave-one-out scores
are exact; of a penalty on singular values, V has seen the row that is left out. All else is fitted to the
rows, one candidate after the other.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lrml._progress import progress
from lrml._shown import counted
from lrml.core.arrays import Array, Place, dense, full_precision, namespace, take, to_numpy
from lrml.core.coordinates import Coordinates, RidgeRegressions, coordinates_of, with_unseen
from lrml.core.losses import SquaredLoss
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.estimators._criteria import Criterion, GridPoint, ScoreTable, by_row, mean_and_error
from lrml.estimators._fitted import model_nbytes
from lrml.estimators._loo import LeaveOneOut
from lrml.estimators._scores import Scorer, Scores
from lrml.estimators._splits import Split, training_part
from lrml.solvers import PathPoint, solve_path

# Most numbers that the decompositions of folds in memory may take.
_MOST_NUMBERS = 1 << 27
# Scores of one block of rows, as numbers of 4 or 8 bytes.
_BLOCK_SCORES = 1 << 23
# Candidates are judged together on the host up to so many scores: one by one, they are overhead of Python.
_FEW_SCORES = 1 << 14
# Tolerance up to which a fit that starts at its neighbour's solution leaves it.
_LOOSE = 1e-3

Scoring: TypeAlias = Callable[[slice], Scores]
"""Scores of some of the held-out rows."""
Judged: TypeAlias = tuple[int, Scoring, int]
"""The place of a candidate, its scores and its rank."""
Visit: TypeAlias = Callable[["HeldOut", Sequence[Judged]], Any]
"""Receives held-out rows and candidates that score them; returns the values of each."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Features and labels that candidates are compared on; Y is 0 where a label is not known."""

    X: Any
    Y: Any
    known: Array | None
    weights: Array | None

    @cached_property
    def variances(self) -> Array:
        """Weighted variances of the labels; 0 for those that differ by rounding only."""
        place = Place.of(self.X)
        xp, Y = place.xp, place.asarray(dense(self.Y), "float64")
        weights = xp.ones_like(Y[:, 0]) if self.weights is None else self.weights
        shares = weights / (float(xp.sum(weights)) or 1.0)
        Y = xp.where(shares[:, None] > 0, Y, 0.0)
        found = shares @ (Y - shares @ Y) ** 2
        rounding = Y.shape[0] * xp.finfo(xp.float64).eps * xp.max(xp.abs(Y), axis=0)
        return xp.where(found > rounding**2, found, 0.0)

    def judge(self, criteria: Sequence[Criterion], cut: Any, scores: Scoring) -> list[Any]:
        """Values of all criteria: by row in blocks, or, if one of them needs that, for all rows at once.

        They come to the host: candidates are compared there.
        """
        n_rows, step = self.Y.shape[0], max(1, _BLOCK_SCORES // self.Y.shape[1])
        step = step if by_row(criteria) else max(n_rows, 1)
        parts: list[list[Any]] = [[] for _ in criteria]
        for start in range(0, n_rows, step):
            rows = slice(start, min(start + step, n_rows))
            seen = scores(rows)
            if self.known is not None:  # below all others and the cut, so that they have no effect
                xp = namespace(seen)
                below = min(float(xp.min(seen)), float(np.min(cut))) - 1.0
                seen = xp.where(self.known[rows, :], seen, below)
            for criterion, values in zip(criteria, parts, strict=True):
                found = criterion.measure(self.Y[rows, :], seen, cut, self)
                values.append(found if isinstance(found, float) else to_numpy(found))
        return [values[0] if np.ndim(values[0]) == 0 else np.concatenate(values) for values in parts]

    def judge_all(self, criteria: Sequence[Criterion], cut: Any, scorings: Sequence[Scoring]) -> Any:
        """Values of all criteria, by row, of several candidates, as if their rows were further ones."""
        if len(scorings) == 1:
            return [self.judge(criteria, cut, scorings[0])]
        rows = np.tile(np.arange(self.Y.shape[0]), len(scorings))
        parts = [scores(slice(None)) for scores in scorings]
        seen = namespace(*parts).concat(parts, axis=0)
        known = None if self.known is None else take(self.known, rows)
        weights = None if self.weights is None else take(self.weights, rows)
        repeated = HeldOut(self.X, take(self.Y, rows), known, weights)
        found = np.stack(repeated.judge(criteria, cut, lambda block: seen[block, :]))
        return np.swapaxes(np.reshape(found, (len(criteria), len(scorings), -1)), 0, 1)


class Comparison(NamedTuple):
    """What all judges of a search share."""

    data: Rows
    criteria: Sequence[Criterion]
    cut: Any  # threshold for criteria that need decisions
    fit_intercept: bool
    expect: Callable[[int, str], None] = lambda count, how: None  # further models on splits
    advance: Callable[[int], None] = lambda count: None

    def held_out(self, split: Split) -> HeldOut:
        """Rows on which candidates are compared."""
        rows, place = split.test, self.data.place
        known = None if self.data.mask is None else self.data.mask.known(rows)
        X, Y = self.data.features(rows, split.train), take(self.data.Y, rows)
        weights = None if self.data.weights is None else place.asarray(take(self.data.weights, rows))
        if not place.is_host:
            X, Y = place.asarray(X), place.asarray(Y)
            known = None if known is None else place.asarray(known)
        return HeldOut(X, Y, known, weights)

    def table(self, criterion: Criterion, splits: Sequence[Split]) -> ScoreTable:
        """Return an empty table of one criterion."""
        weights = self.data.weights
        weights = np.ones(self.data.X.shape[0]) if weights is None else to_numpy(weights)
        return ScoreTable([weights[split.test] for split in splits], by_row=criterion.by_row)

    def nbytes(self, rank: Any) -> Any:
        """Bytes of models of these ranks that are fitted to all rows."""
        data, kernel = self.data, self.data.kernel
        rows = None if kernel is None or kernel.is_precomputed else data.X
        return model_nbytes(rank, data.model_shape, data.model_dtype, rows)


@contextmanager
def told_of_models(
    verbose: int, name: str, callback: Any
) -> Iterator[tuple[Callable[[int, str], None], Callable[[int], None]]]:
    """Yield functions that expect more models on splits, and that advance; they show it if ``verbose``.

    A callback hears of each model.
    """

    def tell(count: int) -> None:
        for _ in range(count if callback is not None else 0):
            callback("model on a split")

    if not verbose:
        yield (lambda count, how: None), tell
        return
    done = total = 0
    lock = Lock()  # candidates are judged in threads
    with progress(name, "models on splits") as report:

        def expect(count: int, how: str) -> None:
            nonlocal total
            total += count
            if how:
                report.say(f"{how} to begin with")

        def advance(count: int) -> None:
            nonlocal done
            tell(count)
            with lock:
                done += count
                report.update(done, total)

        yield expect, advance


class Judge:
    """Candidates, their ranks, and their scores on splits: one table for each criterion."""

    def __init__(self, comparison: Comparison, splits: Sequence[Split]) -> None:
        self.comparison, self.splits = comparison, list(splits)
        self.ranks: dict[GridPoint, float] = {}
        self.tables = [comparison.table(criterion, splits) for criterion in comparison.criteria]

    def judge(self, points: Sequence[GridPoint]) -> None:
        """Fit and judge those candidates that are new."""
        fresh = [point for point in dict.fromkeys(points) if point not in self.ranks]
        how = "" if self.ranks else f"{counted(len(fresh), 'candidate')} {self.how_told}"
        self.comparison.expect(len(fresh) * len(self.splits), how)
        told: list[list[tuple[int, list[Any]]]] = [[] for _ in fresh]  # ranks and values, split by split

        def visit(held: HeldOut, several: Sequence[Judged]) -> Any:
            places, scorings, ranks = zip(*several, strict=True)
            found = held.judge_all(self.comparison.criteria, self.comparison.cut, scorings)
            for place, rank, values in zip(places, ranks, found, strict=True):
                told[place].append((rank, values))
            self.comparison.advance(len(places))
            return found

        for number in range(len(self.splits) if fresh else 0):
            self.fit(number, fresh, visit)
        for point, of_splits in zip(fresh, told, strict=True):
            ranks, values = zip(*of_splits, strict=True)
            self.ranks[point] = float(np.mean(ranks))
            for table, of_criterion in zip(self.tables, zip(*values, strict=True), strict=True):
                table.add(point, of_criterion)

    def fit(self, number: int, points: Sequence[GridPoint], visit: Visit) -> None:
        """Fit candidates to the training part of a split, and let each be visited."""
        raise NotImplementedError

    def scores_of(self, point: GridPoint) -> Iterator[tuple[HeldOut, Scores]]:
        """Held-out rows and one candidate's scores of them, split by split."""
        found: list[tuple[HeldOut, Scores]] = []

        def visit(held: HeldOut, several: Sequence[Judged]) -> Any:
            found.extend((held, scores(slice(None))) for _, scores, _ in several)
            return []

        for number in range(len(self.splits)):
            self.fit(number, [point], visit)
            yield found.pop()

    @property
    def points(self) -> list[GridPoint]:
        """All candidates so far."""
        return list(self.ranks)

    @property
    def tells(self) -> bool:
        """Whether some candidate has a score, by every criterion."""
        return all(max(map(table.mean, self.points)) > -math.inf for table in self.tables)

    @property
    def how_told(self) -> str:
        """How candidates are judged, in words."""
        if self.splits[0].is_leave_one_out:
            return "by leave-one-out scores"
        return f"on {len(self.splits)} folds" if len(self.splits) > 1 else "on one held-out part"


class Fold(NamedTuple):
    """A training part in coordinates, and scores of held-out rows there."""

    space: Coordinates
    held_out: HeldOut
    scores: SpectralScores | LeaveOneOut
    total_weight: float  # of the training part
    most: int  # labels that vary there: no model has a higher rank


class PathJudge(Judge):
    """Candidates that are solved in the coordinates of training parts; of all rows, for leave-one-out."""

    def __init__(self, comparison: Comparison, splits: Sequence[Split], **how: Any) -> None:
        super().__init__(comparison, splits)
        self.how = how  # of `solve_path`
        self._folds: dict[int, Fold] = {}
        self._most_folds = max(1, _MOST_NUMBERS // max(min(comparison.data.X.shape) ** 2, 1))

    def fold(self, number: int) -> Fold:
        """Decompose the training part of a split, unless it is in memory."""
        if number not in self._folds:
            data, split, centred = self.comparison.data, self.splits[number], self.comparison.fit_intercept
            part = training_part(data, split)
            space, held_out = coordinates_of(part, fit_intercept=centred), self.comparison.held_out(split)
            if split.is_leave_one_out:
                scores: Any = LeaveOneOut(space, data, split.test, fit_intercept=centred)
            else:
                scores = SpectralScores(space, held_out.X, data.schema.targets)
            if len(self._folds) >= self._most_folds:
                self._folds.popitem()
            cross, rounding = space.problem.cross, space.problem.rounding
            lengths = to_numpy(namespace(cross).linalg.vector_norm(cross, axis=0))
            most = int(np.count_nonzero(lengths > rounding * lengths.max(initial=0.0)))
            self._folds[number] = Fold(space, held_out, scores, part.total_weight, most)
        return self._folds[number]

    @property
    def problem(self) -> SpectralProblem:
        """That of the first fold."""
        return self.fold(0).space.problem

    @property
    def unit(self) -> float:
        """The root mean square of a label about its mean, times √L and the root of the usual weight.

        That weight is Σ w² / Σ w.
        """
        data, level = self.comparison.data, 1.0
        if data.weights is not None:
            top = float(data.place.xp.max(data.weights)) or 1.0
            shares = data.weights / top
            level = top * float(shares @ shares / data.place.xp.sum(shares))
        return math.sqrt(self.problem.target / self.fold(0).total_weight * level)

    def solve(
        self, number: int, points: Sequence[GridPoint], visit: Callable[[int, PathPoint], None]
    ) -> None:
        """Solve candidates on a fold; visit each in the thread that has solved it."""
        problem = self.fold(number).space.problem
        parts = {point.ridge: problem.with_ridge(point.ridge) for point in points}
        solve_path([(parts[point.ridge], point.penalty) for point in points], visit, **self.how)

    def fit(self, number: int, points: Sequence[GridPoint], visit: Visit) -> None:
        """Fit candidates to the training part of a split, and let each be visited."""
        fold, waiting = self.fold(number), list[Judged]()
        held, most = fold.held_out, _FEW_SCORES if self.comparison.data.place.is_host else _BLOCK_SCORES
        together = most // max(math.prod(held.Y.shape), 1) if by_row(self.comparison.criteria) else 1

        def seen(place: int, found: PathPoint) -> None:
            solution = found.regressions
            judged = place, fold.scores.of(solution), min(solution.left.shape[1], fold.most)
            if together > 1:
                waiting.append(judged)
            else:
                visit(held, [judged])

        self.solve(number, points, seen)
        for start in range(0, len(waiting), max(together, 1)):
            visit(held, waiting[start : start + together])


class RefitJudge(Judge):
    """Candidates that are fitted to the rows, each from the last one on the same split."""

    def __init__(
        self,
        comparison: Comparison,
        splits: Sequence[Split],
        estimator: Any,
        params_of: Callable[[GridPoint], Any],
    ) -> None:
        super().__init__(comparison, splits)
        self.estimator, self.params_of = estimator, params_of
        self._last: dict[int, tuple[GridPoint, Any]] = {}  # by split
        self._part: tuple[int, Rows] | None = None  # the training part in use
        # Of a single split: the best model so far by the first criterion.
        self._leader: tuple[float, GridPoint | None, Any] = -math.inf, None, None

    def fit(self, number: int, points: Sequence[GridPoint], visit: Visit) -> None:
        """Fit candidates to the training part of a split, and let each be visited."""
        held_out = self.comparison.held_out(self.splits[number])
        ranks_labels = self.comparison.data.schema.targets == "binary"
        for place, point in enumerate(points):
            model = self.starting_point(point) or self._model(number, point)

            def scores(block: slice, model: Any = model) -> Scores:
                found: Scores = model.fitted_.scores(held_out.X[block, :])
                return namespace(found).astype(found, namespace(found).float32) if ranks_labels else found

            found = visit(held_out, [(place, scores, model.rank_)])
            if len(self.splits) == 1 and len(found):
                score, _ = mean_and_error(np.atleast_1d(found[0][0]), self.tables[0].weights)
                if score > self._leader[0]:
                    self._leader = score, point, copy(model)  # the next fit sets new attributes

    def _model(self, number: int, point: GridPoint) -> Any:
        if self._part is None or self._part[0] != number:
            self._part = number, self.comparison.data.some(self.splits[number].train)
        last, model = self._last.get(number), clone(self.estimator).set_params(warm_start=True)
        close = self.estimator.tol is None or self.estimator.tol <= _LOOSE
        if last is not None and close and last[0].rank == point.rank:
            model = last[1]
        model.set_params(**self.params_of(point))
        with warnings.catch_warnings():
            # A candidate that has not quite converged can be judged; the final fit warns.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model._fit_to(self._part[1], model._check_params())
        self._last[number] = point, model
        return model

    def starting_point(self, point: GridPoint) -> Any:
        """Return a model from whose solution the final fit may start, if there is one."""
        return copy(self._leader[2]) if self._leader[1] == point else None


class SpectralScores:
    """Scores of held-out rows from factors in spectral coordinates.

    The rows are rotated once for all candidates: with X̃ = (X − 1x̄ᵀ) Q the scores are 1ȳᵀ + X̃ left rightᵀ.
    Single precision is enough to rank labels, but not for real targets, which may be far from zero relative
    to their spread, or fitted almost without error.
    """

    def __init__(self, space: Coordinates, X: Any, targets: str) -> None:
        self.space, labels = space, space.problem.labels
        self.xp = xp = namespace(space.problem.cross)
        self.dtype = xp.float64 if targets == "real" else xp.float32
        self.labels = None if labels is None else xp.astype(labels, self.dtype)
        self.at_mean = xp.astype(with_unseen(space.y_mean, space.unseen, SquaredLoss()), self.dtype)
        rotated = space.of_rows(X)
        # Single precision cannot hold the squares of very large or small features.
        self.unit = float(xp.max(xp.abs(rotated))) or 1.0
        self.rows = xp.astype(rotated / self.unit, self.dtype)

    @property
    def rotated(self) -> Array:
        """X̃, in double precision."""
        return self.unit * self.xp.astype(self.rows, self.xp.float64)

    def of(self, solution: RidgeRegressions) -> Scoring:
        """Return the function that scores some of the rows."""
        xp, (left, right) = self.xp, solution.sides
        whole = xp.eye(left.shape[1], dtype=left.dtype, device=left.device) if right is None else right
        V = xp.astype(whole, self.dtype)
        with full_precision(V):
            V = V if self.labels is None else self.labels @ V
        V = xp.where(self.space.unseen[:, None], 0.0, V)
        scorer = Scorer(xp.astype(self.unit * left, self.dtype), V.T, self.at_mean, sparse=False)
        return lambda block: scorer(self.rows[block, :])
