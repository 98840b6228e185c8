"""Plans: which candidates a search tries, and what it tries next.

A plan yields points and is sent the judge that has judged them. A grid on folds needs no plan: squared errors
screen it. With T the predictions of held-out rows by ridge regression, along the right singular vectors V of
its predictions, and s/d what a penalty leaves of their singular values, the squared error on these rows is

::

    ‖Y − 1ȳᵀ − T diag(s/d) Vᵀ‖² = const + Σ_j (s_j/d_j)² a_j − 2 (s_j/d_j) b_j,

    a_j = ‖T_j‖²,    b_j = ⟨T_j, Y v_j⟩,

so the grid of a ridge costs one decomposition. Squared error does not rank labels, so it does not decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import Array, Place, namespace, to_numpy
from lrml.core.coordinates import RidgeRegressions, coordinates_of
from lrml.core.penalties import TailSum
from lrml.estimators._grid import GridPoint, grid_points
from lrml.estimators._judges import Fold, FoldJudge, Judge

_Float64 = npt.NDArray[np.float64]
Plan: TypeAlias = Generator[list[GridPoint], Judge, Any]

# Ridges with which a search begins, by the shares of effective directions that they leave.
FIRST_SHARES = (0.98, 0.9, 0.75, 0.5, 0.25, 0.1)
# Neighbouring values that differ by less than the square of this factor are not told apart.
_FINE = 1.5
# A best value on the edge of what was tried is followed beyond it by this factor, at most so many times.
_BEYOND, _MOST_ROUNDS = 4.0, 6
# Ridges beside the penalty, as multiples of the best one without it.
_MULTIPLES = (1.0, 0.5, 0.25, 0.1, 0.03, 0.0)
# Thresholds of singular values, as multiples of the unit of a judge.
_THRESHOLDS = np.geomspace(0.03, 3.0, 24)
# Upper ends of the ranges of theta, as shares of the number of directions, of which each names a candidate.
_RANGES = (0.0, 0.02, 0.06, 0.25, 1.0)
# On the coefficients, where a model is solved step by step: shares of the labels, multiples, alphas.
_FEW_THETAS, _FEW_MULTIPLES, _N_ALPHAS = (0.0, 0.05, 0.2), (1.0, 0.25), 4
N_SCREENING = 3  # folds that screen; all judge
_N_RANKS = 10  # ranks that are tried where a small model is wanted


def run(plan: Plan, judge: Judge) -> Any:
    """Judge what a plan proposes until it ends; return what it has found."""
    try:
        proposed = next(plan)
        while True:
            judge.judge(proposed)
            proposed = plan.send(judge)
    except StopIteration as end:
        return end.value


def follow(values: Iterable[float], point: Callable[[float], GridPoint]) -> Plan:
    """Try values of one parameter; go on beyond the edge if the best is there, and refine around it.

    Ends when a round gains less than one standard error. Returns the best value.
    """
    tried: dict[float, GridPoint] = {}
    fresh, last, edge = list(dict.fromkeys(values)), None, False
    for round_ in range(1 + _MOST_ROUNDS):
        judge = yield [tried.setdefault(value, point(value)) for value in fresh]
        means = {value: judge.tables[0].mean(one) for value, one in tried.items()}
        best = max(sorted(tried, reverse=True), key=means.__getitem__)  # among equals, the largest
        if last is not None:
            gain, error = judge.tables[0].lead(tried[best], tried[last])
            if gain <= error and not (edge and gain > 0):
                break
        order = sorted(tried)
        at, last = order.index(best), best
        edge = at in (0, len(order) - 1)
        fresh = [best * _BEYOND] * (at == len(order) - 1) + [best / _BEYOND] * (at == 0)
        near = [order[place] for place in (at - 1, at + 1) if 0 <= place < len(order)]
        fresh += [
            math.sqrt(best) * math.sqrt(value) for value in near if max(best / value, value / best) > _FINE**2
        ]
        fresh = [value for value in fresh if value not in tried and math.isfinite(value)]
        if not fresh or round_ == _MOST_ROUNDS:
            break
    return best


def once(points: list[GridPoint]) -> Plan:
    """Try these candidates."""
    yield points


def staged(ridges: Sequence[float], alphas: Sequence[float], thetas: Sequence[int], *, free: bool) -> Plan:
    """Search for the best ridge, then alpha beside half of it, then theta: where every candidate is a fit.

    The penalty shrinks what the ridge shrinks too; so a smaller ridge with a larger alpha follows, and the
    whole one with a smaller alpha. Without ``free``, the ridges are those given.
    """
    ridge = 0.0
    if any(ridges) and free:  # without any penalty, separable labels have no optimum
        ridge = yield from follow(ridges, lambda value: GridPoint(0, 0.0, value))
    elif any(ridges) or not any(alphas):
        bare = [GridPoint(0, 0.0, value) for value in ridges]
        judge = yield bare
        ridge = max(bare, key=judge.tables[0].mean).ridge
    if not any(alphas):
        return
    start = GridPoint(thetas[0], 0.0, 0.5 * ridge if free else ridge)
    alpha = yield from follow(alphas, lambda value: start._replace(alpha=value))
    found = [start._replace(alpha=alpha)]
    if free:
        found += [GridPoint(thetas[0], 1.5 * alpha, 0.125 * ridge), GridPoint(thetas[0], 0.5 * alpha, ridge)]
    judge = yield found
    leader = max(found, key=judge.tables[0].mean)
    yield [leader._replace(theta=theta) for theta in thetas[1:]]


def shrinking(plan: Plan, least: float) -> Plan:
    """After a plan, double the alpha of the smallest candidate that is as good as the best, and so on."""
    yield from plan
    judge = yield []
    for _ in range(_MOST_ROUNDS):
        best = max(judge.points, key=judge.tables[0].mean)
        small = min(judge.tables[0].near(best, judge.points), key=judge.ranks.__getitem__)
        stronger = small._replace(alpha=max(2.0 * small.alpha, least))
        if stronger in judge.points:
            break
        judge = yield [stronger]


class Screened(NamedTuple):
    """What squared errors on held-out rows follow from, for one ridge: d, a and b of each fold."""

    d: list[_Float64]
    a: list[_Float64]
    b: list[_Float64]

    @classmethod
    def of(cls, folds: Sequence[Fold], ridge: float) -> Screened:
        """Decompose the predictions of ridge regression on every fold."""
        found = cls([], [], [])
        for fold in folds:
            left, V, d, _ = fold.space.problem.with_ridge(ridge).penalised_predictions(TailSum(0, 0.0))
            a, b = _parts(fold, left, V)
            for part, values in zip(found, (d, a, b), strict=True):
                part.append(to_numpy(values))
        return found

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


def _parts(fold: Fold, left: Array, V: Array | None) -> tuple[Array, Array]:
    """Return ‖T_j‖² and ⟨T_j, Y v_j⟩ for the predictions T of held-out rows."""
    T, problem = fold.scores.rotated @ left, fold.space.problem
    Y = Place.of(left).asarray(fold.held_out.labels, "float64") - fold.space.y_mean
    Y = Y if problem.labels is None else Y @ problem.labels
    weights = fold.held_out.weights
    weighted, total = T if weights is None else weights[:, None] * T, namespace(T).sum
    return total(weighted * T, axis=0), total(weighted * (Y if V is None else Y @ V), axis=0)


def screened(
    judge: FoldJudge,
    best: GridPoint,
    unit: float,
    *,
    thetas: Sequence[int] | None,
    ridges: Sequence[float] | None,
    ranks: Sequence[int] | None,
    small: bool,
) -> tuple[list[GridPoint], dict[GridPoint, GridPoint]]:
    """Return candidates with the least squared errors on folds, of each range of theta, and overall.

    Also the best of all by its variants with half and twice the alpha. ``unit`` is the root mean square of
    the labels times √L and the root of the usual weight. ``thetas``, ``ridges`` and ``ranks`` are those
    allowed: None stands for all thetas, multiples of the best ridge, and a penalty in place of limits of the
    rank. Where models are to be ``small``, some of low rank follow.
    """
    folds = [judge.fold(number) for number in range(min(len(judge.splits), N_SCREENING))]
    problem = folds[0].space.problem
    most = min(fold.space.problem.shape[1] for fold in folds)
    closed = judge.how["space"] == "predictions" or ranks is not None
    multiples = _MULTIPLES if closed else _FEW_MULTIPLES
    beside = [multiple * best.ridge for multiple in multiples] if ridges is None else ridges
    beside = list(dict.fromkeys([best.ridge, *beside]))
    if ranks is not None:
        sizes, cuts = [rank for rank in sorted(ranks) if rank < most], np.array([math.inf])
        points = [GridPoint(0, 0.0, ridge, rank) for ridge in beside for rank in sizes]
    elif closed:
        sizes = _counts(most) if thetas is None else sorted(set(thetas))
        cuts = unit * _THRESHOLDS
        strengths = [(theta, 2.0 * float(cut)) for theta in sizes for cut in cuts]
        points = [GridPoint(*pair, ridge) for ridge in beside for pair in strengths]
    else:
        sizes = sorted({round(share * most) for share in _FEW_THETAS} if thetas is None else set(thetas))
        points = [one for one in grid_points(problem, sizes, None, beside, _N_ALPHAS) if one.alpha > 0]
    if not points:
        return [], {}
    if closed:
        errors = np.concatenate([Screened.of(folds, ridge).errors(sizes, cuts).ravel() for ridge in beside])
    else:
        errors = _solved_errors(judge, folds, points)
    found, low = [], -1.0

    def least(among: Iterable[int]) -> list[GridPoint]:
        return [points[place] for place in sorted(among, key=errors.__getitem__)[:1]]

    for high in _RANGES:
        share = [min((one.theta if one.rank is None else one.rank) / most, 1.0) for one in points]
        found += least(place for place in range(len(points)) if low < share[place] <= high)
        low = high
    found += least(place for place, one in enumerate(points) if one.ridge == best.ridge)
    variants = {
        top._replace(alpha=factor * top.alpha): top
        for top in least(range(len(points)))
        for factor in (0.5, 2.0)
        if top.alpha < math.inf
    }
    found += variants
    found += _small(judge, best, thetas, ranks) if small else []
    return list(dict.fromkeys(found)), variants


def _solved_errors(judge: FoldJudge, folds: Sequence[Fold], points: list[GridPoint]) -> _Float64:
    """Squared errors, up to a constant, of models that have to be solved."""
    found = np.zeros(len(points))
    for fold in folds:

        def error(number: int, solved: RidgeRegressions, fold: Fold = fold) -> None:
            a, b = _parts(fold, *solved.sides)
            found[number] += float(namespace(a).sum(a - 2.0 * b))

        judge.solve([(fold, point) for point in points], error)
    return found


def _small(
    judge: FoldJudge, best: GridPoint, thetas: Sequence[int] | None, ranks: Sequence[int] | None
) -> list[GridPoint]:
    """Return models of limited ranks: so many directions are free, or are left by the threshold."""
    problem = coordinates_of(judge.comparison.data, fit_intercept=judge.comparison.fit_intercept).problem
    problem = problem.with_ridge(best.ridge)
    d = to_numpy(problem.penalised_predictions(TailSum(0, 0.0)).d)
    points = []
    for rank in _counts(len(d) - 1, _N_RANKS)[1:]:
        free = [rank] if thetas is None else [theta for theta in thetas if theta <= rank]
        if ranks is not None:
            points.append(best._replace(rank=rank))
        elif free and judge.how["space"] == "predictions":
            points.append(GridPoint(max(free), 2.0 * float(d[rank]) * (1.0 + 1e-9), best.ridge))
        elif free:
            points.append(
                GridPoint(max(free), (1.0 + 1e-9) * problem.strongest_slopes([max(free)])[0], best.ridge)
            )
    return [one for one in points if ranks is None or one.rank in ranks]


def _counts(most: int, count: int = 24) -> list[int]:
    """Return 0 and about geometric counts up to a number."""
    if most < 1:
        return [0]
    return [0, *dict.fromkeys(round(float(value)) for value in np.geomspace(1, most, count))]
