"""Judges: how candidates are fitted to some rows, and scored on others.

What has a closed form in coordinates, or is solved there, takes one decomposition per training part, in which
`solve_path` solves all candidates. Ridges need no more than that of all rows, as their leave-one-out scores
are exact; of a penalty on singular values, V has seen the row that is left out. All else is fitted to the
rows, one candidate after the other.
"""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from threading import Lock
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lrml._progress import progress
from lrml._shown import counted
from lrml.core.arrays import Array, Place, dense, full_precision, namespace, take, to_numpy
from lrml.core.coordinates import Coordinates, RidgeRegressions, coordinates_of, spectrum_of, with_unseen
from lrml.core.losses import SquaredLoss
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.estimators._criteria import Criterion, GridPoint, ScoreTable, by_row
from lrml.estimators._fitted import Fitted, model_nbytes
from lrml.estimators._loo import LeaveOneOut
from lrml.estimators._scores import Scores
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
Seen: TypeAlias = tuple[int, Scoring]
"""The rank of a candidate, and its scores."""
Visit: TypeAlias = Callable[[int, Scoring], Any]
"""Gets what is seen of a candidate."""


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

    def judge(self, criteria: Sequence[Criterion], cut: Any, several: Sequence[Scoring]) -> list[Any]:
        """Values of some candidates by all criteria: by row in blocks, or, if one needs that, of all rows.

        Several candidates need criteria by row: the rows of each are further ones of a block. Values come to
        the host: candidates are compared there.
        """
        (n_rows, n_labels), times = self.Y.shape, len(several)
        step = max(1, _BLOCK_SCORES // (times * n_labels)) if by_row(criteria) else max(n_rows, 1)
        parts = defaultdict[str, list[Any]](list)
        for start in range(0, n_rows, step):
            rows = slice(start, min(start + step, n_rows))
            Y, known = self.Y[rows, :], None if self.known is None else self.known[rows, :]
            S, *others = [scores(rows) for scores in several]
            xp = namespace(S)
            if others:
                again = np.tile(np.arange(Y.shape[0]), times)
                S, Y = xp.concat([S, *others], axis=0), take(Y, again)
                known = None if known is None else take(known, again)
            if known is not None:  # below all others and the cut, so that they have no effect
                S = xp.where(known, S, min(float(xp.min(S)), float(np.min(cut))) - 1.0)
            for criterion in criteria:
                found = criterion.measure(Y, S, cut, self)
                found = found if isinstance(found, float) else to_numpy(found)
                parts[criterion.name].append(np.reshape(found, (times, -1)))
        return list(zip(*map(np.hstack, parts.values()), strict=True))


class Comparison(NamedTuple):
    """What all judges of a search share."""

    data: Rows
    criteria: Sequence[Criterion]
    cut: Any  # threshold for criteria that need decisions
    fit_intercept: bool
    tell: Callable[..., None]  # how many models on splits are done, and how many more there are

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
def told_of_models(verbose: int, name: str, callback: Any) -> Iterator[Callable[..., None]]:
    """Yield a function that is told of models on splits, done and to come, and shows it if ``verbose``.

    A callback hears of each model that is done.
    """
    done = total = 0
    lock = Lock()  # candidates are judged in threads
    with progress(name, "models on splits", verbose=verbose) as report:

        def tell(more_done: int = 0, more: int = 0, first: int = 0, how: str = "") -> None:
            nonlocal done, total
            for _ in range(more_done if callback is not None else 0):
                callback("model on a split")
            with lock:
                done, total = done + more_done, total + more
                if first and verbose:
                    report.say(f"{counted(first, 'candidate')} {how} to begin with")
                if more_done:
                    report.update(done, total)

        yield tell


class Judge(ABC):
    """Candidates, their ranks, and their scores on splits: one table for each criterion."""

    def __init__(self, comparison: Comparison, splits: Sequence[Split]) -> None:
        self.comparison, self.splits = comparison, list(splits)
        self.ranks: dict[GridPoint, float] = {}
        self.tables = [comparison.table(criterion, splits) for criterion in comparison.criteria]

    @property
    @abstractmethod
    def spectrum(self) -> SpectralProblem:
        """A problem for the strengths to begin with."""

    @abstractmethod
    def held_out(self, number: int) -> HeldOut:
        """Return the rows of a split on which candidates are compared."""

    @abstractmethod
    def visited(self, number: int, points: Sequence[GridPoint], visit: Visit) -> list[Any]:
        """Fit candidates to the training part of a split; return what ``visit`` makes of each."""

    def judge(self, points: Sequence[GridPoint]) -> None:
        """Fit and judge those candidates that are new."""
        fresh = [point for point in dict.fromkeys(points) if point not in self.ranks]
        if not fresh:
            return
        first = 0 if self.ranks else len(fresh)
        self.comparison.tell(more=len(fresh) * len(self.splits), first=first, how=self.how_told)
        found = list(map(self._fitted, range(len(self.splits)), repeat(fresh)))
        for point, of_splits in zip(fresh, zip(*found, strict=True), strict=True):
            ranks, values = zip(*of_splits, strict=True)
            self.ranks[point] = float(np.mean(ranks))
            for table, of_criterion in zip(self.tables, zip(*values, strict=True), strict=True):
                table.add(point, of_criterion)

    def _fitted(self, number: int, points: Sequence[GridPoint]) -> list[tuple[int, Any]]:
        """Fit candidates to the training part of a split; return their ranks and values on the rest."""
        held, criteria = self.held_out(number), self.comparison.criteria
        most = _FEW_SCORES if self.comparison.data.place.is_host else _BLOCK_SCORES
        together = most // max(math.prod(held.Y.shape), 1) if by_row(criteria) else 1
        if together <= 1:
            return self.visited(number, points, lambda *seen: self._judged(held, [seen])[0])
        several, found = self.visited(number, points, lambda *seen: seen), list[Any]()
        for start in range(0, len(several), together):
            found += self._judged(held, several[start : start + together])
        return found

    def _judged(self, held: HeldOut, several: Sequence[Seen]) -> list[tuple[int, Any]]:
        """Return the ranks of some candidates and their values on held-out rows."""
        ranks, scorings = zip(*several, strict=True)
        found = held.judge(self.comparison.criteria, self.comparison.cut, scorings)
        self.comparison.tell(len(several))
        return list(zip(ranks, found, strict=True))

    def scored(self, number: int, point: GridPoint) -> tuple[HeldOut, Scores]:
        """Held-out rows of a split, and one candidate's scores of them."""
        (found,) = self.visited(number, [point], lambda rank, scores: scores(slice(None)))
        return self.held_out(number), found

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
    n_effective: float  # rows of the training part
    most: int  # labels that vary there: no model has a higher rank


class PathJudge(Judge):
    """Candidates that are solved in the coordinates of training parts; of all rows, for leave-one-out."""

    def __init__(self, comparison: Comparison, splits: Sequence[Split], **how: Any) -> None:
        super().__init__(comparison, splits)
        self.how = how  # of `solve_path`
        self._folds: dict[int, Fold] = {}
        self._problems: dict[tuple[int, float], SpectralProblem] = {}  # with ridges
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
                self._problems.clear()
            cross, rounding = space.problem.cross, space.problem.rounding
            lengths = to_numpy(namespace(cross).linalg.vector_norm(cross, axis=0))
            most = int(np.count_nonzero(lengths > rounding * lengths.max(initial=0.0)))
            self._folds[number] = Fold(space, held_out, scores, part.n_effective, most)
        return self._folds[number]

    def problem(self, number: int, ridge: float) -> SpectralProblem:
        """Return the problem of a fold with a ridge, and what it keeps of its solutions."""
        space = self.fold(number).space
        if (number, ridge) not in self._problems:
            self._problems[number, ridge] = space.problem.with_ridge(ridge)
        return self._problems[number, ridge]

    @property
    def spectrum(self) -> SpectralProblem:
        """The problem of the first fold."""
        return self.fold(0).space.problem

    @property
    def unit(self) -> float:
        """The root mean square of a label about its mean, times √L."""
        return math.sqrt(self.spectrum.target / self.fold(0).n_effective)

    def held_out(self, number: int) -> HeldOut:
        """Return the rows of a split on which candidates are compared."""
        return self.fold(number).held_out

    def solved(self, number: int, points: Sequence[GridPoint], visit: Callable[[PathPoint], Any]) -> Any:
        """Solve candidates on a fold; return what ``visit`` makes of each, in the thread that solves it."""
        pairs = [(self.problem(number, point.ridge), point.penalty) for point in points]
        return solve_path(pairs, lambda _, found: visit(found), **self.how)

    def visited(self, number: int, points: Sequence[GridPoint], visit: Visit) -> list[Any]:
        """Solve candidates on a fold; return what ``visit`` makes of each."""
        fold = self.fold(number)

        def seen(found: PathPoint) -> Any:
            solution = found.regressions
            return visit(min(solution.left.shape[1], fold.most), fold.scores.of(solution))

        found: list[Any] = self.solved(number, points, seen)
        return found


class RefitJudge(Judge):
    """Candidates that are fitted to the rows, each from the last one on the same split."""

    def __init__(
        self, comparison: Comparison, splits: Sequence[Split], estimator: Any, params_of: Callable[..., Any]
    ) -> None:
        super().__init__(comparison, splits)
        self.estimator, self.params_of = estimator, params_of
        self._last: dict[tuple[int, int | None], tuple[GridPoint, Any]] = {}  # by split and limit of the rank
        self._part: tuple[int, Rows] | None = None  # the training part in use

    @property
    def spectrum(self) -> SpectralProblem:
        """That of all rows."""
        return spectrum_of(self.comparison.data, fit_intercept=self.comparison.fit_intercept)

    def held_out(self, number: int) -> HeldOut:
        """Return the rows of a split on which candidates are compared."""
        return self.comparison.held_out(self.splits[number])

    def visited(self, number: int, points: Sequence[GridPoint], visit: Visit) -> list[Any]:
        """Fit candidates to the training part of a split, one by one; return what ``visit`` makes of each."""
        held, ranks_labels = self.held_out(number), self.comparison.data.schema.targets == "binary"

        def visited(point: GridPoint) -> Any:
            fitted = self._model(number, point).fitted_

            def scores(block: slice) -> Scores:
                found: Scores = fitted.scores(held.X[block, :])
                return namespace(found).astype(found, namespace(found).float32) if ranks_labels else found

            return visit(min(fitted.shape) if fitted.rank is None else fitted.rank, scores)

        return list(map(visited, points))

    def _model(self, number: int, point: GridPoint) -> Any:
        last, model = self._last.get((number, point.rank), (None, None))
        if last == point:
            return model
        if self._part is None or self._part[0] != number:
            self._part = number, self.comparison.data.some(self.splits[number].train)
        if model is None or not (self.estimator.tol is None or self.estimator.tol <= _LOOSE):
            model = clone(self.estimator).set_params(warm_start=True)
        model.set_params(**self.params_of(point))
        with warnings.catch_warnings():
            # A candidate that has not quite converged can be judged; the final fit warns.
            warnings.simplefilter("ignore", ConvergenceWarning)
            part, params = self._part[1], model._check_params()
            # With more features than rows a fit from zero, on the dual side, takes as long as one from its
            # neighbour; to factor the coefficients, from which that would begin, takes half as long again.
            params.factored = part.shape[1] <= part.shape[0]
            model._fit_to(part, params)
        self._last[number, point.rank] = point, model
        return model

    def neighbour(self, number: int, point: GridPoint) -> Any:
        """Return the last model on a split, if a fit of the candidate may start from there."""
        return self._last.get((number, point.rank), (None, None))[1]

    def leader(self, point: GridPoint) -> tuple[Fitted, Any, Any, Any]:
        """Return the fit of a candidate to the first training part, and what was held out: X, Y, known."""
        held = self.held_out(0)
        return self._model(0, point).fitted_, held.X, held.Y, held.known


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
        codes = xp.astype(self.unit * left, self.dtype)

        @full_precision(self.rows)
        def scores(block: slice) -> Scores:
            found = (self.rows[block, :] @ codes) @ V.T
            found += self.at_mean
            return found

        return scores
