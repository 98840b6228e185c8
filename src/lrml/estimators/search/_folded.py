"""The search for a penalty on the predictions: ridges by leave-one-out scores, the penalty on folds.

A fold costs one decomposition, in which every ridge, theta and alpha is a closed form. With T the predictions
of held-out rows by ridge regression, along the right singular vectors V of its predictions, and s/d what the
penalty leaves of their singular values, the squared error on these rows is

::

    ‖Y − 1ȳᵀ − T diag(s/d) Vᵀ‖² = const + Σ_j (s_j/d_j)² a_j − 2 (s_j/d_j) b_j,

    a_j = ‖T_j‖²,    b_j = ⟨T_j, Y v_j⟩.

So the whole grid is *screened* by squared error, and a few candidates are judged by the metric, on the same
rows as the best ridge alone. Leave-one-out scores would not do: V has seen the row. A penalty is taken only
if choosing it pays: each fold judges what the other folds choose, and that must lead the ridge by one
standard error, or by two with fewer than 500 rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import Array, Place, namespace, take, to_numpy
from lrml.core.coordinates import Coordinates, RidgeRegressions, coordinates_of
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.estimators._grid import GridPoint
from lrml.estimators.search._score_table import ScoreTable
from lrml.estimators.search._scoring import HeldOut, SpectralScores
from lrml.estimators.search._search import (
    Comparison,
    Family,
    LeaveOneOutSearch,
    Params,
    Piece,
    Visit,
)
from lrml.estimators.search._splits import Split, confirming_splits, training_part

_Float64 = npt.NDArray[np.float64]

# Of five folds, three screen and all judge, on so many rows and scores in all.
_N_FOLDS, _N_SCREENING, _MOST_ROWS, _MOST_SCORES = 5, 3, 3000, 1 << 21
_FEW_ROWS = 500
# Ridges beside the penalty, as multiples of the best one without it.
_MULTIPLES = (1.0, 0.5, 0.25, 0.1, 0.03, 0.0)
# Thresholds of singular values, as multiples of the root mean square of the labels times √L.
_THRESHOLDS = np.geomspace(0.03, 3.0, 24)
# Upper ends of the ranges of theta, as shares of the number of directions, of which each names a candidate.
_RANGES = (0.0, 0.02, 0.06, 0.25, 1.0)
_N_RANKS = 10  # ranks that are tried where a small model is wanted


class _Fold(NamedTuple):
    """A training part, and held-out rows in its coordinates."""

    space: Coordinates
    held_out: HeldOut
    scores: SpectralScores
    weights: Array | None  # of the held-out rows


class Screened(NamedTuple):
    """What squared errors on held-out rows follow from, for one ridge: d, a and b of each fold."""

    d: list[_Float64]
    a: list[_Float64]
    b: list[_Float64]

    def errors(self, thetas: Sequence[int], thresholds: _Float64) -> _Float64:
        """Squared errors, up to a constant, of all folds together, for every theta and threshold."""
        found = np.zeros((len(thetas), len(thresholds)))
        for d, a, b in zip(self.d, self.a, self.b, strict=True):
            shrunk = np.maximum(1.0 - thresholds[:, None] / d, 0.0)
            gains = shrunk**2 * a - 2.0 * shrunk * b
            # The head is free: its gains are those of ridge regression.
            free = np.concatenate([[0.0], np.cumsum(a - 2.0 * b)])
            tails = np.concatenate(
                [np.cumsum(gains[:, ::-1], axis=1)[:, ::-1], np.zeros((len(gains), 1))], axis=1
            )
            heads = np.minimum(thetas, len(d))
            found += free[heads][:, None] + tails[:, heads].T
        return found


def prediction_pieces(
    problem: SpectralProblem, chosen: Sequence[tuple[int, Params]], visit: Visit
) -> list[Piece]:
    """Return the pieces of work of closed forms: one decomposition for each ridge."""

    def run(problem: SpectralProblem, group: list[tuple[int, Params]]) -> None:
        for place, one in group:
            if not one["alpha"]:
                visit(place, RidgeRegressions(problem.ridge_solution(), None, problem.ridge))
                continue
            left, right, d, s = problem.penalised_predictions(TailSum(one.get("theta", 0), one["alpha"]))
            visit(place, RidgeRegressions(left, right, problem.ridge, shrunk=s / d))

    groups: dict[float, list[tuple[int, Params]]] = {}
    for place, one in chosen:
        groups.setdefault(one["ridge"], []).append((place, one))
    return [partial(run, problem.with_ridge(ridge), group) for ridge, group in groups.items()]


class FoldedSearch(LeaveOneOutSearch):
    """Ridges by leave-one-out scores, then the penalty on folds.

    ``thetas`` are those allowed; None means all. ``is_free`` says whether other ridges may be tried beside
    the penalty, and ``wants_small`` whether small models are sought.
    """

    def __init__(
        self,
        comparison: Comparison,
        family: Family,
        *,
        fit_intercept: bool,
        names: tuple[str, ...],
        thetas: Sequence[int] | None,
        is_free: bool,
        wants_small: bool,
        random_state: Any,
    ) -> None:
        super().__init__(comparison, family, fit_intercept=fit_intercept)
        self.names, self.thetas, self.is_free, self.wants_small = names, thetas, is_free, wants_small
        self.random_state = random_state
        self.proven: dict[int, int] = {}  # by criterion: a choice that pays

    def run(self, verbose: int, name: str = "search") -> list[ScoreTable]:
        """Judge ridges, then candidates with the penalty; return one table per criterion."""
        super().run(verbose, name)
        data = self.comparison.data
        splits = [self._sampled(split) for split in confirming_splits(data, _N_FOLDS, self.random_state)]
        if len(splits) > _N_SCREENING and all(table.complete.any() for table in self.tables):
            self._penalise(splits)
        return self.tables

    def _sampled(self, split: Split) -> Split:
        """Judge some of the rows of a fold only: scoring is what takes time."""
        most = max(_MOST_ROWS, _MOST_SCORES // self.comparison.data.shape[2]) // _N_FOLDS
        random = np.random.default_rng(0)
        if len(split.test) <= most:
            return split
        return split._replace(test=np.sort(random.permutation(split.test)[:most]), left_out=split.test)

    def _fold(self, split: Split) -> _Fold:
        data = self.comparison.data
        space = coordinates_of(training_part(data, split), fit_intercept=self.fit_intercept)
        held_out = self.comparison._replace(splits=[split]).held_out(0)
        weights = None if data.weights is None else data.place.asarray(take(data.weights, split.test))
        return _Fold(space, held_out, SpectralScores(space, held_out.X, data.schema.targets), weights)

    def _penalise(self, splits: list[Split]) -> None:
        folds = [self._fold(split) for split in splits[:_N_SCREENING]]
        best = [int(np.nanargmax(table.scores[:, 0])) for table in self.tables]
        ridges = [self.candidates[place]["ridge"] for place in best]
        points = self._screened(folds, ridges[0])
        if not points:
            return
        new = self.add([{name: getattr(point, name) for name in self.names} for point in points])
        places = list(dict.fromkeys([*best, *new]))
        tables = self.comparison._replace(splits=splits).tables()
        for table in tables:
            table.add(len(places))
        everything = range(len(splits))
        for number in everything:
            fold = folds[number] if number < _N_SCREENING else self._fold(splits[number])
            self._judge_on(fold, number, places, tables)
        choices = self._enter(tables, places, best, new, everything)
        for table in self.tables:
            table.exact = set()  # no score is an estimate any more
        for order, (table, choice, rival) in enumerate(zip(tables, choices, best, strict=True)):
            # Every fold judges what the others choose: so the lead is that of choosing, not of the luckiest.
            against = places.index(rival)
            own = [against, *map(places.index, new)]
            picks = [
                self._picked(table, own, [n for n in everything if n != number]) for number in everything
            ]
            gain, error = table.lead(picks, against, everything)
            n_rows = table.n_counted(against)
            if n_rows >= 2 and gain > (2.0 if n_rows < _FEW_ROWS else 1.0) * error:
                self.proven[order] = choice
            mine, name = self.tables[order].scores[:, 0], self.comparison.criteria[order].name
            self.confirmed |= {(place, name): float(mine[place]) for place in [rival, *new]}
            if choice != rival and not self.wants_small:
                self.confirmed[choice, name] = float(mine[rival]) + gain

    @staticmethod
    def _picked(table: ScoreTable, places: list[int], splits: Sequence[int]) -> int:
        """Return the candidate that leads the first one by most on some folds, or that one."""
        return max(places, key=lambda place: table.lead(place, places[0], splits)[0])

    def _judge_on(self, fold: _Fold, number: int, places: list[int], tables: list[ScoreTable]) -> None:
        """Judge the candidates on a fold."""

        def visit(place: int, found: RidgeRegressions) -> None:
            left, right = found.sides
            values = fold.held_out.judge(
                self.comparison.criteria, self.comparison.cut, fold.scores.of(left, right)
            )
            for table, value in zip(tables, values, strict=True):
                table.record(place, number, value, left.shape[1])

        asked = [(number, self.candidates[place]) for number, place in enumerate(places)]
        for piece in prediction_pieces(fold.space.problem, asked, visit):
            piece()

    def _enter(
        self, tables: list[ScoreTable], places: list[int], best: list[int], new: range, splits: Sequence[int]
    ) -> list[int]:
        """Enter exact scores of the best ridge plus leads over it; return the best by each criterion."""
        choices = []
        for table, mine, rival in zip(tables, self.tables, best, strict=True):
            for place in new:
                gain, _ = table.lead(places.index(place), places.index(rival), splits)
                base = mine.values[0][rival] if mine.by_row else mine.scores[rival, 0]
                mine.record(place, 0, base + gain, int(table.ranks[places.index(place), splits[0]]))
            choices.append(max([rival, *new], key=mine.scores[:, 0].__getitem__))
        return choices

    def confirm(self, orders: list[list[int]], random_state: Any) -> list[int]:
        """Return choices, one per criterion: a penalty that has proven itself, or a ridge alone."""
        if self.wants_small:
            return [order[0] for order in orders]
        best = (max(self.exact, key=table.scores[:, 0].__getitem__) for table in self.tables)
        return [self.proven.get(number, ridge) for number, ridge in enumerate(best)]

    # Which candidates

    def _screened(self, folds: list[_Fold], usual: float) -> list[GridPoint]:
        """Return the candidates with the least squared errors, each with a theta of its own range."""
        data = self.comparison.data
        # The root mean square of a label about its mean, times √L.
        unit = math.sqrt(self.space.problem.target / data.total_weight)
        if not unit > 0.0:
            return []
        most = min(fold.space.problem.shape[1] for fold in folds)
        thetas = _counts(most) if self.thetas is None else sorted(set(self.thetas))
        ridges = [multiple * usual for multiple in _MULTIPLES] if self.is_free else [usual]
        ridges = list(dict.fromkeys(ridges))
        found = [self._of_ridge(folds, ridge) for ridge in ridges]
        errors = np.stack(
            [one.errors(thetas, unit * _THRESHOLDS) for one in found]
        )  # ridge, theta, threshold

        def point(place: Any) -> GridPoint:
            ridge, theta, threshold = place
            return GridPoint(thetas[theta], 2.0 * unit * float(_THRESHOLDS[threshold]), ridges[ridge])

        points, low = [], -1.0
        for high in _RANGES:
            among = [i for i, theta in enumerate(thetas) if low < min(theta / most, 1.0) <= high]
            low = high
            if among:
                ridge, theta, threshold = np.unravel_index(
                    np.argmin(errors[:, among]), errors[:, among].shape
                )
                points.append(point((ridge, among[theta], threshold)))
        top = np.unravel_index(np.argmin(errors), errors.shape)
        beside = np.unravel_index(np.argmin(errors[0]), errors[0].shape)
        points.append(point((0, *beside)))
        points += [point(top)._replace(alpha=factor * point(top).alpha) for factor in (0.5, 2.0)]
        if self.wants_small:
            points += self._small(usual)
        return list(dict.fromkeys(points))

    def _small(self, ridge: float) -> list[GridPoint]:
        """Return models of limited ranks: so many directions are free, or are left by the threshold."""
        d = to_numpy(self.space.problem.with_ridge(ridge).penalised_predictions(TailSum(0, 0.0)).d)
        points = []
        for rank in _counts(len(d) - 1, _N_RANKS)[1:]:
            free = [rank] if self.thetas is None else [theta for theta in self.thetas if theta <= rank]
            if free:
                points.append(GridPoint(max(free), 2.0 * float(d[rank]) * (1.0 + 1e-9), ridge))
        return points

    def _of_ridge(self, folds: list[_Fold], ridge: float) -> Screened:
        found = Screened([], [], [])
        for space, held_out, scores, weights in folds:
            problem = space.problem.with_ridge(ridge)
            left, V, d, _ = problem.penalised_predictions(TailSum(0, 0.0))
            T = scores.rotated @ left
            Y = Place.of(left).asarray(held_out.labels, "float64") - space.y_mean
            codes = (Y if problem.labels is None else Y @ problem.labels) @ V
            weighted, sums = T if weights is None else weights[:, None] * T, namespace(T).sum
            parts = (d, sums(weighted * T, axis=0), sums(weighted * codes, axis=0))
            for part, values in zip(found, parts, strict=True):
                part.append(to_numpy(values))
        return found


def _counts(most: int, count: int = 24) -> list[int]:
    """Return 0 and about geometric counts up to a number."""
    if most < 1:
        return [0]
    return [0, *dict.fromkeys(round(float(value)) for value in np.geomspace(1, most, count))]
