"""Plans: which candidates a search tries, and what it tries next.

A plan asks a judge, and goes on by its scores. A grid on folds needs no plan: squared errors screen it. With
T the predictions of held-out rows by ridge regression, along the right singular vectors V of its predictions,
and s/d what a penalty leaves of their singular values, the squared error on these rows is

::

    ‖Y − 1ȳᵀ − T diag(s/d) Vᵀ‖² = const + Σ_j (s_j/d_j)² a_j − 2 (s_j/d_j) b_j,

    a_j = ‖T_j‖²,    b_j = ⟨T_j, Y v_j⟩,

so the grid of a ridge costs one decomposition. Squared error does not rank labels, so it does not decide.

Defaults must not depend on the scales of the features. With the r eigenvalues λ_i of XᵀX, a ridge ρ leaves
the share (1/r) Σ λ_i / (λ_i + ρ) of *effective directions*: a share of 0.9 is a weak ridge and one of 0.1 a
strong one, whatever the λ_i are. The penalty alpha · σ_j acts on direction j like a ridge of alpha / 2σ_j, so
alpha = 2ρσ acts on the largest singular value σ of the tail like ρ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics.pairwise import chi2_kernel, manhattan_distances
from sklearn.utils import check_random_state

from lrml.core.arrays import Array, Place, dense, is_sparse, namespace, take, to_numpy
from lrml.core.checks import check_count
from lrml.core.coordinates import coordinates_of
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.estimators._criteria import GridPoint
from lrml.estimators._judges import Comparison, Fold, Judge, PathJudge
from lrml.estimators._kernels import compared
from lrml.estimators._spec import Parameters, noise_along
from lrml.estimators._splits import Split
from lrml.solvers import PathPoint

_Float64 = npt.NDArray[np.float64]

# Ridges by the shares of effective directions that they leave: the first ones of a search, those of a grid,
# and the first ones where every candidate is a fit of its own.
FIRST_SHARES, GRID_SHARES = (0.98, 0.9, 0.75, 0.5, 0.25, 0.1), (1.0, 0.9, 0.6, 0.4, 0.2)
ROW_SHARES = (0.2, 0.4, 0.6)
# Thetas of such fits, as shares of the labels, and what the ridge leaves at which noise is measured.
ROW_THETAS, _NOISE_SHARE = (0.0, 0.05), 0.2
# Neighbouring values that differ by less than the square of this factor are not told apart.
_FINE = 1.5
# A best value on the edge of what was tried is followed beyond it by this factor, at most so many times.
BEYOND, MOST_ROUNDS = 4.0, 6
# Ridges beside the penalty, as multiples of the best one without it.
_MULTIPLES = (1.0, 0.5, 0.25, 0.1, 0.03, 0.0)
# Thresholds of singular values, in units of the root mean square of a label about its mean, times √L.
_THRESHOLDS = np.geomspace(0.03, 3.0, 24)
# Upper ends of the ranges of theta, as shares of the number of directions, of which each names a candidate.
_RANGES = (0.0, 0.02, 0.06, 0.25, 1.0)
# On the coefficients, where a model is solved step by step: shares of the labels, multiples, and how many
# alphas, down to which share of the largest.
_FEW_THETAS, _FEW_MULTIPLES, _ALPHAS = (0.0, 0.05, 0.2), (1.0, 0.25), (4, 0.03)
# Where every candidate is a fit: how many alphas, the strongest as a multiple of the noise, the ratio of
# neighbours. Beside a ridge the best alpha is smaller, and matters less.
_BESIDE_RIDGE, _ALONE = (3, 1.0, 3.0), (4, 3.0, 2.0)
N_SCREENING = 3  # folds that screen; all judge
_N_RANKS = 10  # ranks that are tried where a small model is wanted
DEFAULT_THETAS = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Shares of the labels that paths and searches try unless told otherwise; 0 is the trace norm."""
WITH_GAMMA = ("rbf", "laplacian", "chi2", "poly", "polynomial", "sigmoid")
# Rows on which widths are compared, and rows whose distances tell the scale.
_MOST_ROWS, _SCALE_ROWS = 2000, 300
# Widths tried first, as multiples of one over the usual distance.
_FIRST_WIDTHS = (0.5, 1.0, 2.0)


def follow(
    judge: Judge,
    given: Sequence[float] | None,
    first: Callable[[], Iterable[float]],
    point: Callable[[float], GridPoint],
) -> GridPoint:
    """Return the best candidate for values of one parameter: for those given, or by a search.

    A search begins with the usual ``first`` ones, goes on beyond the edge if the best is there, and refines
    around it. It ends when a round gains less than one standard error.
    """
    table, last, edge = judge.tables[0], None, False
    fresh = dict.fromkeys(first() if given is None else given)
    tried: dict[float, GridPoint] = {}
    for round_ in range(1 + MOST_ROUNDS):
        tried |= (points := dict(zip(fresh, map(point, fresh), strict=True)))
        judge.judge(list(points.values()))
        if given is not None:
            return max(tried.values(), key=table.mean)
        order = sorted(tried)
        best = max(reversed(order), key=lambda value: table.mean(tried[value]))  # among equals, the largest
        if last is not None:
            lead = table.lead(tried[best], tried[last])
            if lead.mean <= lead.error and not (edge and lead.mean > 0):
                break
        at, last = order.index(best), best
        edge = at in (0, len(order) - 1)
        further = [best * BEYOND] * (at == len(order) - 1) + [best / BEYOND] * (at == 0)
        near = [order[place] for place in (at - 1, at + 1) if 0 <= place < len(order)]
        further += [
            math.sqrt(best) * math.sqrt(value) for value in near if max(best / value, value / best) > _FINE**2
        ]
        fresh = dict.fromkeys(value for value in further if value not in tried and math.isfinite(value))
        if not fresh or round_ == MOST_ROUNDS:
            break
    return tried[best]


def beside(judge: Judge, params: Parameters, ridge: float, thetas: Sequence[int]) -> None:
    """Search for alpha beside half of the best ridge, then theta: where every candidate is a fit.

    The penalty shrinks what the ridge shrinks too; so a smaller ridge with a larger alpha follows, and the
    whole one with a smaller alpha. Given ridges stay as they are. Where a small model is wanted, the alpha of
    the smallest candidate that is as good as the best is then doubled, and so on.
    """
    table, free = judge.tables[0], params.ridges is None
    noise = noise_along(judge.comparison.data, params, judge.spectrum.ridge_leaving(_NOISE_SHARE))
    count, multiple, ratio = _ALONE if ridge == 0 else _BESIDE_RIDGE
    alphas = [multiple * noise / ratio**step for step in range(count)]
    start = GridPoint(thetas[0], 0.0, 0.5 * ridge if free else ridge)
    found = [follow(judge, None, lambda: alphas, lambda value: start._replace(alpha=value))]
    if free:
        alpha = found[0].alpha
        found += [GridPoint(thetas[0], 1.5 * alpha, 0.125 * ridge), GridPoint(thetas[0], 0.5 * alpha, ridge)]
        judge.judge(found)
    leader = max(found, key=table.mean)
    judge.judge([leader._replace(theta=theta) for theta in thetas[1:]])
    for _ in range(MOST_ROUNDS if params.rule == "smallest" else 0):
        best = max(judge.points, key=table.mean)
        small = min(table.near(best, judge.points, params.rule), key=judge.ranks.__getitem__)
        stronger = small._replace(alpha=max(2.0 * small.alpha, alphas[-1]))
        if stronger in judge.points:
            break
        judge.judge([stronger])


def _errors(
    judge: PathJudge, number: int, ridges: Sequence[float], thetas: Sequence[int], thresholds: _Float64
) -> _Float64:
    """Squared errors on held-out rows, up to a constant, beside each ridge for every theta and threshold."""
    parts_of, found = _parts(judge.fold(number)), list[_Float64]()
    for ridge in ridges:
        left, V, d, _ = judge.problem(number, ridge).penalised_predictions(TailSum(0, 0.0))
        a, b = parts_of(left, V)
        shrunk = np.maximum(1.0 - thresholds[:, None] / d, 0.0)
        gains = shrunk**2 * a - 2.0 * shrunk * b
        # The head is free: its gains are those of ridge regression.
        free, tails = np.zeros(len(d) + 1), np.zeros((len(thresholds), len(d) + 1))
        free[1:], tails[:, :-1] = np.cumsum(a - 2.0 * b), np.cumsum(gains[:, ::-1], axis=1)[:, ::-1]
        heads = np.minimum(np.asarray(thetas, np.intp), len(d))
        found.append(free[heads][:, None] + tails[:, heads].T)
    return np.stack(found)


def _solved_errors(judge: PathJudge, number: int, points: Sequence[GridPoint]) -> _Float64:
    """Squared errors on the held-out rows of a fold, up to a constant, by candidates that are solved."""
    parts_of = _parts(judge.fold(number))

    def error(solved: PathPoint) -> float:
        a, b = parts_of(*solved.regressions.sides)
        return float(np.sum(a - 2.0 * b))

    return np.array(judge.solved(number, points, error))


def _parts(fold: Fold) -> Callable[[Array, Array | None], tuple[_Float64, _Float64]]:
    """Return the function that gives ‖T_j‖² and ⟨T_j, Y v_j⟩ for the predictions T of held-out rows."""
    scores: Any = fold.scores
    rows, problem, weights = scores.rotated, fold.space.problem, fold.held_out.weights
    Y = Place.of(rows).asarray(dense(fold.held_out.Y), "float64") - fold.space.y_mean
    Y = Y if problem.labels is None else Y @ problem.labels

    def parts(left: Array, V: Array | None) -> tuple[_Float64, _Float64]:
        T = rows @ left
        weighted, total = T if weights is None else weights[:, None] * T, namespace(T).sum
        sums = total(weighted * T, axis=0), total(weighted * (Y if V is None else Y @ V), axis=0)
        return to_numpy(sums[0]), to_numpy(sums[1])

    return parts


def screened(
    judge: PathJudge, best: GridPoint, unit: float, params: Parameters
) -> tuple[list[GridPoint], dict[GridPoint, GridPoint]]:
    """Return candidates with the least squared errors on folds, of each range of theta, and overall.

    Also the best of all by its variants with half and twice the alpha. Given thetas, ridges and ranks are
    kept to; by default there are all thetas, and multiples of the best ridge. ``unit`` is that of a judge.
    Where small models are wanted, some of low rank follow.
    """
    numbers = range(min(len(judge.splits), N_SCREENING))
    most = min(judge.fold(number).space.problem.shape[1] for number in numbers)
    ridges, sizes, alphas, errors = _screen(judge, numbers, best, unit, most, params)

    def least(among: Any) -> list[GridPoint]:  # only those chosen become points: there are many
        places = np.flatnonzero(among)
        if not places.size:
            return []
        place = places[np.argmin(errors[places])]
        ridge, size = float(ridges[place]), int(sizes[place])
        return [
            GridPoint(0, 0.0, ridge, size) if params.limited else GridPoint(size, float(alphas[place]), ridge)
        ]

    shares, found = np.minimum(sizes / most, 1.0), list[GridPoint]()
    for low, high in zip((-1.0, *_RANGES), _RANGES, strict=False):
        found += least((low < shares) & (shares <= high))
    found += least(ridges == best.ridge)
    tops, factors = [one for one in least(shares >= 0.0) if 0.0 < one.alpha < math.inf], (0.5, 2.0)
    variants = {top._replace(alpha=factor * top.alpha): top for top in tops for factor in factors}
    small = _small(judge, best, params) if params.rule != "best" and found else []
    return list(dict.fromkeys([*found, *variants, *small])), variants


def _screen(
    judge: PathJudge, numbers: Iterable[int], best: GridPoint, unit: float, most: int, params: Parameters
) -> Any:
    """Return ridges, thetas or ranks, alphas and squared errors, summed over some folds, of a grid."""
    closed, thetas = judge.how["space"] == "predictions" or params.limited, params.thetas
    usual = np.multiply(_MULTIPLES if closed else _FEW_MULTIPLES, best.ridge).tolist()
    ridges = list(dict.fromkeys([best.ridge, *(usual if params.ridges is None else params.ridges)]))
    if closed:
        sizes, cuts = counts_up_to(most) if thetas is None else sorted(thetas), unit * _THRESHOLDS
        if params.limited:  # all or nothing of a direction
            sizes, cuts = (
                [rank for rank in params.ranks or range(1, most) if rank < most],
                np.array([math.inf]),
            )
        grid = np.stack([part.ravel() for part in np.meshgrid(ridges, sizes, 2.0 * cuts, indexing="ij")])
        return *grid, sum(_errors(judge, number, ridges, sizes, cuts).ravel() for number in numbers)
    sizes = thetas or sorted({round(share * most) for share in _FEW_THETAS})
    points = grid_points(judge.fold(0).space.problem, sizes, None, ridges, *_ALPHAS)
    points = [point for point in points if point.alpha > 0]
    grid = np.array([(one.ridge, one.theta, one.alpha) for one in points]).reshape(-1, 3).T
    return *grid, sum(_solved_errors(judge, number, points) for number in numbers)


def _small(judge: PathJudge, best: GridPoint, params: Parameters) -> list[GridPoint]:
    """Return models of limited ranks: so many directions are free, or are left by the threshold."""
    problem = coordinates_of(judge.comparison.data, fit_intercept=judge.comparison.fit_intercept).problem
    problem = problem.with_ridge(best.ridge)
    d = problem.penalised_predictions(TailSum(0, 0.0)).d
    points = []
    for rank in counts_up_to(len(d) - 1, _N_RANKS)[1:]:
        free = max((theta for theta in params.thetas or [rank] if theta <= rank), default=None)
        if params.limited:
            points += [best._replace(rank=rank)] * (rank in (params.ranks or [rank]))
        elif free is not None:
            on_predictions = judge.how["space"] == "predictions"
            limit = 2.0 * float(d[rank]) if on_predictions else problem.strongest_slopes([free])[0]
            points.append(GridPoint(free, limit * (1.0 + 1e-9), best.ridge))
    return points


# Grids


def grid_points(
    problem: SpectralProblem,
    thetas: Sequence[int],
    alphas: Sequence[float] | None,
    ridges: Sequence[float],
    n_alphas: int,
    alpha_ratio: float,
    space: str = "coefficients",
) -> list[GridPoint]:
    """Return the points of a grid: by ridge, by theta, and by descending alpha.

    Without alphas there are ``n_alphas`` for each theta and ridge, from where no model has a tail downwards,
    to ``alpha_ratio`` times that.
    """
    if alphas is not None:
        descending = sorted(alphas, reverse=True)
        return [
            GridPoint(theta, alpha, ridge) for ridge in ridges for theta in thetas for alpha in descending
        ]
    points = []
    for ridge in ridges:
        part = problem.with_ridge(ridge)
        limits, least = part.strongest_slopes(thetas), part.rounding * part.scale
        if space == "predictions":
            d = part.penalised_predictions(TailSum(0, 0.0)).d
            limits, least = [2.0 * float(d[theta]) if theta < len(d) else 0.0 for theta in thetas], 0.0
        for theta, limit in zip(thetas, limits, strict=True):
            # Whether the first one has a tail must not depend on rounding.
            largest = limit * (1 + 1e-9)
            if largest <= least:  # there is nothing to penalise
                points.append(GridPoint(theta, 0.0, ridge))
                continue
            values = np.geomspace(largest, largest * alpha_ratio, n_alphas)
            points += [GridPoint(theta, float(alpha), ridge) for alpha in values]
    return points


def resolve_counts(name: str, values: Iterable[Any], least: int, shape: tuple[int, int]) -> list[int]:
    """Return thetas or ranks as counts, without repetitions; ``shape`` is that of the coefficients."""
    return list(dict.fromkeys(check_count(name, value, least, shape) for value in values))


def ridges_leaving(problem: SpectralProblem, shares: Iterable[float], scale: float = 1.0) -> list[float]:
    """Return a multiple of the ridges that leave these shares of the directions; 1 stands for no ridge."""
    return [0.0 if share == 1.0 else scale * problem.ridge_leaving(share) for share in shares]


def counts_up_to(most: int, count: int = 24) -> list[int]:
    """Return 0 and about geometric counts up to a number."""
    if most < 1:
        return [0]
    return [0, *dict.fromkeys(np.rint(np.geomspace(1, most, count)).astype(int).tolist())]


# The width of a kernel: chosen before anything else, by ridge regression on some of the rows


def choose_gamma(
    comparison: Comparison, gammas: list[float] | None, splits: Sequence[Split] | None, random_state: Any
) -> tuple[float, dict[str, npt.NDArray[Any]]]:
    """Return the best gamma, and a table of those tried.

    Each is judged by the first criterion, on leave-one-out scores of the best ridge regression on at most
    2,000 rows, or on the given splits of these. If no gammas are given, they begin around one over the median
    distance of two rows, and go on beyond the edge of what was tried while that is better. Among those within
    one standard error of the best (of the paired difference over the rows), the smallest, which makes the
    smoothest kernel, is chosen.
    """
    random = check_random_state(random_state)
    part, held = _compared_on(comparison.data, splits, random)
    criterion = comparison.criteria[0]
    table = comparison._replace(data=part).table(criterion, held)

    def judge(gamma: float) -> float:
        wide = replace(part, kernel=replace(part.kernel, gamma=gamma))
        alone = PathJudge(comparison._replace(data=wide, criteria=[criterion]), held)
        ridges = partial(ridges_leaving, alone.spectrum, FIRST_SHARES)
        best = follow(alone, None, ridges, lambda ridge: GridPoint(0, 0.0, ridge))
        table.add(gamma, [alone.tables[0].values[best]])
        return table.mean(gamma)

    usual = _usual_gamma(part, random) if gammas is None else 1.0
    best = max([multiple * usual for multiple in _FIRST_WIDTHS] if gammas is None else gammas, key=judge)
    for _ in range(MOST_ROUNDS if gammas is None else 0):
        if best not in (min(table.scores), max(table.scores)):
            break
        last, best = best, best * BEYOND if best == max(table.scores) else best / BEYOND
        if judge(best) <= table.mean(last):
            best = last
            break
    tried = list(table.scores)
    if table.by_row:  # as good as the best, but smoother
        best = min(table.near(best, tried))
    return best, {"gamma": np.array(tried), "mean_test_score": np.array([table.mean(one) for one in tried])}


def _compared_on(
    data: Rows, splits: Sequence[Split] | None, random: np.random.RandomState
) -> tuple[Rows, list[Split]]:
    """Return some rows with weight, and the splits of these: all if one of them would lose a part."""
    n_rows = data.X.shape[0]
    rows = data.counted
    if len(rows) > _MOST_ROWS:
        rows = rows[np.sort(random.permutation(len(rows))[:_MOST_ROWS])]
    if splits is None:
        everyone = np.arange(len(rows))
        return data.some(rows), [Split(everyone, everyone, is_leave_one_out=True)]
    places = np.full(n_rows, -1)
    places[rows] = np.arange(len(rows))
    pairs = [(places[split.train], places[split.test]) for split in splits]
    held = [Split(train[train >= 0], test[test >= 0]) for train, test in pairs]
    if all(len(split.train) and len(split.test) for split in held):
        return data.some(rows), held
    return data, list(splits)


def _usual_gamma(data: Rows, random: np.random.RandomState) -> float:
    """Return one over the median of what gamma multiplies in the kernel, for pairs of different rows."""
    metric = data.kernel.metric
    X = take(data.X, random.permutation(data.X.shape[0])[:_SCALE_ROWS])
    if is_sparse(X):  # few rows have few features
        X = X.tocsc()[:, np.unique(X.indices)].toarray()
    xp = namespace(X)
    X = xp.astype(X, xp.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):  # the kernel will be refused, with a remedy
        if metric == "laplacian":
            values = manhattan_distances(X)
        elif metric == "chi2":
            values = -np.log(np.maximum(chi2_kernel(X, gamma=1.0), np.finfo(np.float64).tiny))
        else:
            values = compared(metric, X, X)
            values = values if metric == "rbf" else xp.linalg.diagonal(values)
    order = xp.sort(values[values > 0])
    n = order.shape[0]
    return 2.0 / float(order[(n - 1) // 2] + order[n // 2]) if n else 1.0
