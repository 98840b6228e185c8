"""Judges: how candidates are fitted to some rows, and scored on others.

Ridges are judged by leave-one-out scores, which are exact and cost one decomposition. V has seen the row that
a penalty on singular values leaves out, so anything else is judged on folds: each is one decomposition, in
which `solve_path` solves all candidates. What has no closed form in coordinates is fitted to the rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lrml._shown import counted
from lrml.core.arrays import (
    Array,
    Place,
    full_precision,
    is_sparse,
    map_in_threads,
    namespace,
    take,
    to_numpy,
)
from lrml.core.coordinates import Coordinates, RidgeRegressions, coordinates_of, with_unseen
from lrml.core.losses import SquaredLoss
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.estimators._criteria import Criterion
from lrml.estimators._fitted import model_nbytes
from lrml.estimators._grid import GridPoint
from lrml.estimators._loo import LeaveOneOut
from lrml.estimators._scores import Scorer, Scores
from lrml.estimators._splits import Split, training_part
from lrml.estimators._table import ScoreTable, mean_and_error
from lrml.solvers import solve_path

# Most numbers that the decompositions of folds in memory may take.
_MOST_NUMBERS = 1 << 27
# Scores of one block of rows, and rows in spectral coordinates that are kept, as numbers of 4 or 8 bytes.
_BLOCK_SCORES, _KEPT_NUMBERS = 1 << 23, 1 << 27
# Tolerance up to which a fit that starts at its neighbour's solution leaves it.
_LOOSE = 1e-3

Judged: TypeAlias = tuple[list[Any], int]
"""Values of all criteria on a split, and the rank of the model."""


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
        xp, Y = place.xp, place.asarray(self.labels, "float64")
        weights = xp.ones_like(Y[:, 0]) if self.weights is None else self.weights
        shares = weights / (float(xp.sum(weights)) or 1.0)
        Y = xp.where(shares[:, None] > 0, Y, 0.0)
        found = shares @ (Y - shares @ Y) ** 2
        rounding = Y.shape[0] * xp.finfo(xp.float64).eps * xp.max(xp.abs(Y), axis=0)
        return xp.where(found > rounding**2, found, 0.0)

    @property
    def labels(self) -> Array:
        """Labels as an array."""
        return self.Y.toarray() if is_sparse(self.Y) else self.Y

    def judge(self, criteria: Sequence[Criterion], cut: Any, scores: Callable[[slice], Scores]) -> list[Any]:
        """Values of all criteria: by row in blocks, or, if one of them needs that, for all rows at once.

        They come to the host: candidates are compared there.
        """
        blocks = [slice(None)]
        if all(criterion.by_row for criterion in criteria):
            n_rows, step = self.Y.shape[0], max(1, _BLOCK_SCORES // self.Y.shape[1])
            blocks = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
        parts: list[list[Any]] = [[] for _ in criteria]
        for rows in blocks:
            seen = scores(rows)
            if self.known is not None:  # below all others and the cut, so that they have no effect
                xp = namespace(seen)
                below = min(float(xp.min(seen)), float(np.min(cut))) - 1.0
                seen = xp.where(self.known[rows, :], seen, below)
            for criterion, values in zip(criteria, parts, strict=True):
                found = criterion.measure(self.Y[rows, :], seen, cut, self)
                values.append(found if isinstance(found, float) else to_numpy(found))
        return [values[0] if np.ndim(values[0]) == 0 else np.concatenate(values) for values in parts]


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

    def nbytes(self, rank: Any) -> Any:
        """Bytes of models of these ranks that are fitted to all rows."""
        data, kernel = self.data, self.data.kernel
        rows = None if kernel is None or kernel.is_precomputed else data.X
        return model_nbytes(rank, data.model_shape, data.model_dtype, rows)


class Judge:
    """Candidates and their scores on splits, one table for each criterion."""

    def __init__(self, comparison: Comparison, splits: Sequence[Split]) -> None:
        self.comparison, self.splits = comparison, list(splits)
        self.ranks: dict[GridPoint, float] = {}
        weights = None if comparison.data.weights is None else to_numpy(comparison.data.weights)
        counted = [None if weights is None else weights[split.test] for split in splits]
        self.tables = [ScoreTable(counted, by_row=criterion.by_row) for criterion in comparison.criteria]

    def judge(self, points: Sequence[GridPoint]) -> None:
        """Fit and judge those candidates that are new."""
        fresh = [point for point in dict.fromkeys(points) if point not in self.ranks]
        how = "" if self.ranks else f"{counted(len(fresh), 'candidate')} {self.how_told}"
        self.comparison.expect(len(fresh) * len(self.splits), how)
        found = self._judged(fresh) if fresh else []
        for place, point in enumerate(fresh):
            self.ranks[point] = float(np.mean([split[place][1] for split in found]))
            for number, table in enumerate(self.tables):
                table.add(point, [split[place][0][number] for split in found])

    @property
    def points(self) -> list[GridPoint]:
        """All candidates so far."""
        return list(self.ranks)

    @property
    def bare(self) -> list[GridPoint]:
        """Those that are like the first one: ridge regressions without anything else."""
        return [point for point in self.ranks if not point.alpha and point.rank == self.points[0].rank]

    @property
    def beside(self) -> list[GridPoint]:
        """The others."""
        return [point for point in self.ranks if point.alpha or point.rank != self.points[0].rank]

    def nbytes(self, points: Sequence[GridPoint]) -> Any:
        """Bytes of some of the models, fitted to all rows."""
        return self.comparison.nbytes(np.array([self.ranks[point] for point in points]))

    @property
    def how_told(self) -> str:
        """How candidates are judged, in words."""
        return f"on {len(self.splits)} folds" if len(self.splits) > 1 else "on one held-out part"

    def _judged(self, points: list[GridPoint]) -> list[list[Judged]]:
        """Return values and ranks, by split and candidate."""
        raise NotImplementedError

    def _values(self, held_out: HeldOut, scores: Callable[[slice], Scores]) -> list[Any]:
        values = held_out.judge(self.comparison.criteria, self.comparison.cut, scores)
        self.comparison.advance(1)
        return values


class LeaveOneOutJudge(Judge):
    """Ridges, fitted once to all rows, and judged by what they would give each row without it."""

    how_told = "by leave-one-out scores"

    def __init__(self, comparison: Comparison, split: Split) -> None:
        super().__init__(comparison, [split])
        data, centred = comparison.data, comparison.fit_intercept
        self.space = coordinates_of(data, fit_intercept=centred)
        self.held_out = comparison.held_out(split)
        self.scores = LeaveOneOut(self.space, data, split.test, fit_intercept=centred)
        self.problem = self.space.problem
        self.unit = _unit(self.problem, data.total_weight, data)

    def _judged(self, points: list[GridPoint]) -> list[list[Judged]]:
        problem = self.problem

        def judged(point: GridPoint) -> Judged:
            solved = RidgeRegressions(problem.with_ridge(point.ridge).ridge_solution(), None, point.ridge)
            return self._values(self.held_out, self.scores.of(solved)), problem.shape[1]

        alone = problem.is_small or not self.comparison.data.place.is_host
        return [list(map_in_threads(judged, points, ahead=len(points), small=alone))]


class Fold(NamedTuple):
    """A training part in coordinates, and held-out rows there."""

    space: Coordinates
    held_out: HeldOut
    scores: SpectralScores
    total_weight: float  # of the training part


class FoldJudge(Judge):
    """Candidates that are solved in the coordinates of training parts."""

    def __init__(self, comparison: Comparison, splits: Sequence[Split], **how: Any) -> None:
        super().__init__(comparison, splits)
        self.how = how  # of `solve_path`
        self.variants: dict[GridPoint, GridPoint] = {}  # candidates that are near another one, and that one
        self._folds: dict[int, Fold] = {}
        self.at_once = max(1, _MOST_NUMBERS // max(min(comparison.data.X.shape) ** 2, 1))

    def fold(self, number: int) -> Fold:
        """Decompose the training part of a split, unless it is in memory."""
        if number not in self._folds:
            data, split = self.comparison.data, self.splits[number]
            part = training_part(data, split)
            space = coordinates_of(part, fit_intercept=self.comparison.fit_intercept)
            held_out = self.comparison.held_out(split)
            scores = SpectralScores(space, held_out.X, data.schema.targets)
            fold = Fold(space, held_out, scores, part.total_weight)
            if len(self._folds) >= self.at_once:
                return fold
            self._folds[number] = fold
        return self._folds[number]

    @property
    def problem(self) -> SpectralProblem:
        """That of the first fold."""
        return self.fold(0).space.problem

    @property
    def unit(self) -> float:
        """The root mean square of a label about its mean, times √L and the root of the usual weight."""
        return _unit(self.problem, self.fold(0).total_weight, self.comparison.data)

    def solve(
        self, asked: Sequence[tuple[Fold, GridPoint]], visit: Callable[[int, RidgeRegressions], None]
    ) -> None:
        """Solve candidates on folds; visit each in the thread that has solved it."""
        problems: dict[Any, Any] = {}
        for fold, point in asked:
            key = id(fold.space), point.ridge
            problems.setdefault(key, fold.space.problem.with_ridge(point.ridge))
        own = [problems[id(fold.space), point.ridge] for fold, point in asked]
        bare = [number for number, (_, point) in enumerate(asked) if not point.alpha and point.rank is None]
        others = sorted(set(range(len(asked))) - set(bare))

        def ridge(number: int) -> None:
            visit(number, RidgeRegressions(own[number].ridge_solution(), None, own[number].ridge))

        alone = all(problem.is_small for problem in own) or not self.comparison.data.place.is_host
        for _ in map_in_threads(ridge, bare, ahead=len(bare), small=alone):
            pass
        pairs = [(own[number], asked[number][1].penalty) for number in others]
        solve_path(pairs, lambda place, found: visit(others[place], found.regressions), **self.how)

    def _judged(self, points: list[GridPoint]) -> list[list[Judged]]:
        found: dict[tuple[int, int], Judged] = {}
        for start in range(0, len(self.splits), self.at_once):
            numbers = range(start, min(start + self.at_once, len(self.splits)))
            folds = [self.fold(number) for number in numbers]
            asked = [(number, place) for number in numbers for place in range(len(points))]

            def visit(
                index: int,
                solved: RidgeRegressions,
                asked: Any = asked,
                folds: Any = folds,
                start: int = start,
            ) -> None:
                left, right = solved.sides
                fold = folds[asked[index][0] - start]
                values = self._values(fold.held_out, fold.scores.of(left, right))
                found[asked[index]] = values, left.shape[1]

            self.solve([(folds[number - start], points[place]) for number, place in asked], visit)
        return [[found[number, place] for place in range(len(points))] for number in range(len(self.splits))]

    def scores_of(self, point: GridPoint) -> Iterator[tuple[HeldOut, Scores]]:
        """Held-out rows and one candidate's scores of them, split by split."""
        for number in range(len(self.splits)):
            fold, found = self.fold(number), dict[int, RidgeRegressions]()
            self.solve([(fold, point)], found.__setitem__)
            yield fold.held_out, fold.scores.of(*found[0].sides)(slice(None))


def _unit(problem: SpectralProblem, weight: float, data: Rows) -> float:
    level = 1.0
    if data.weights is not None:  # Σ w² / Σ w
        top = float(data.place.xp.max(data.weights)) or 1.0
        shares = data.weights / top
        level = top * float(shares @ shares / data.place.xp.sum(shares))
    return math.sqrt(problem.target / weight * level)


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
        # Of a single split: the best model so far by each criterion.
        self.leaders: list[tuple[float, GridPoint, Any]] = [(-math.inf, GridPoint(0, 0.0, 0.0), None)] * len(
            self.tables
        )

    def _judged(self, points: list[GridPoint]) -> list[list[Judged]]:
        return [[self._fitted(number, point) for point in points] for number in range(len(self.splits))]

    def _rows(self, number: int) -> Rows:
        if self._part is None or self._part[0] != number:
            self._part = number, self.comparison.data.some(self.splits[number].train)
        return self._part[1]

    def _fitted(self, number: int, point: GridPoint) -> Judged:
        last = self._last.get(number)
        close = self.estimator.tol is None or self.estimator.tol <= _LOOSE
        start = last[1] if last is not None and close and last[0].rank == point.rank else None
        model = self._model(number, point, start)
        self._last[number] = point, model
        held_out = self.comparison.held_out(self.splits[number])
        single = self.comparison.data.schema.targets == "binary"

        def scores(block: slice) -> Scores:
            found: Scores = model.fitted_.scores(held_out.X[block, :])
            return namespace(found).astype(found, namespace(found).float32) if single else found

        values = self._values(held_out, scores)
        for place, table in enumerate(self.tables if len(self.splits) == 1 else ()):
            value = values[place]
            score = mean_and_error(value, table.weights[0])[0] if table.by_row else float(value)
            if score > self.leaders[place][0]:
                self.leaders[place] = score, point, copy(model)  # the next fit sets new attributes
        return values, model.rank_

    def _model(self, number: int, point: GridPoint, start: Any) -> Any:
        model = clone(self.estimator).set_params(warm_start=True) if start is None else start
        model.set_params(**self.params_of(point))
        with warnings.catch_warnings():
            # A candidate that has not quite converged can be judged; the final fit warns.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model._fit_to(self._rows(number), model._check_params())
        return model

    def starting_point(self, point: GridPoint) -> Any:
        """Return a model from whose solution the final fit may start, if there is one."""
        self._part = None  # no candidates follow
        return next((copy(model) for _, one, model in self.leaders if one == point), None)

    def scores_of(self, point: GridPoint) -> Iterator[tuple[HeldOut, Scores]]:
        """Held-out rows and one candidate's scores of them, split by split."""
        for number, split in enumerate(self.splits):
            model = self.starting_point(point) or self._model(number, point, None)
            held_out = self.comparison.held_out(split)
            yield held_out, model.fitted_.scores(held_out.X)


class SpectralScores:
    """Scores of held-out rows from factors in spectral coordinates.

    The rows are rotated once for all candidates (unless that takes too much memory): with X̃ = (X − 1x̄ᵀ) Q
    the scores are 1ȳᵀ + X̃ left rightᵀ. Single precision is enough to rank labels, but not for real targets,
    which may be far from zero relative to their spread, or fitted almost without error.
    """

    def __init__(self, space: Coordinates, X: Any, targets: str) -> None:
        self.space, self.X = space, X
        problem = space.problem
        self.xp = xp = namespace(problem.cross)
        self.dtype = xp.float64 if targets == "real" else xp.float32
        self.labels = None if problem.labels is None else xp.astype(problem.labels, self.dtype)
        self.at_mean = xp.astype(with_unseen(space.y_mean, space.unseen, SquaredLoss()), self.dtype)
        self.rows, self.unit = None, 1.0
        if X.shape[0] * problem.shape[0] <= _KEPT_NUMBERS:
            projected = space.of_rows(X)
            # Single precision cannot hold the squares of very large or small features.
            self.unit = float(xp.max(xp.abs(projected))) or 1.0
            self.rows = xp.astype(projected / self.unit, self.dtype)

    @property
    def rotated(self) -> Array:
        """X̃, in double precision."""
        if self.rows is None:
            return self.space.of_rows(self.X)
        return self.unit * self.xp.astype(self.rows, self.xp.float64)

    def of(self, left: Array, right: Array | None) -> Callable[[slice], Scores]:
        """Return the function that scores some of the rows with W = left rightᵀ; W = left without right."""
        xp, rows = self.xp, self.rows
        whole = xp.eye(left.shape[1], dtype=left.dtype, device=left.device) if right is None else right
        V = xp.astype(whole, self.dtype)
        with full_precision(V):
            V = V if self.labels is None else self.labels @ V
        V = xp.where(self.space.unseen[:, None], 0.0, V)
        if rows is not None:
            scorer = Scorer(xp.astype(self.unit * left, self.dtype), V.T, self.at_mean, sparse=False)
            return lambda block: scorer(rows[block, :])
        first = self.space.lift.model_side(self.space.basis @ left)
        V = xp.astype(V, first.dtype)
        scorer, X = Scorer(first, V.T, self.space.intercept(first, V), sparse=True), self.X
        whole = X.tocsr() if is_sparse(X) else X
        return lambda block: scorer(self.space.lift.rows_of(whole[block, :]))
