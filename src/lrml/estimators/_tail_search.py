"""The searches for a penalty on singular values: what they try, and how candidates are fitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lrml.core.coordinates import RidgeRegressions, coordinates_of, spectrum_of
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.estimators._defaults import loss_scale, noise_along
from lrml.estimators._grid import Grid, GridPoint, chains_from, chains_of, ridges_leaving
from lrml.estimators._parameters import Parameters
from lrml.estimators.search import (
    MANY_ROWS,
    BlockSearch,
    Comparison,
    Family,
    FoldedSearch,
    Params,
    Piece,
    Plan,
    Search,
    Start,
    Visit,
    extending,
    fit_ridge,
    once,
    prediction_pieces,
    ridge_plan,
    shrinking,
    tail_plan,
)
from lrml.solvers import Chain, solve_chain

# Default grids. If the moments suffice, a candidate costs a fraction of a fit, otherwise a whole fit.
_RIDGE_SHARES, _ROW_RIDGE_SHARES = (1.0, 0.9, 0.6, 0.4, 0.2), (0.6, 0.4, 0.2)
# Candidates without the penalty cost almost nothing, and with them the search is never below ridge
# regression.
_BARE_RIDGE_SHARES = (0.995, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
_N_ALPHAS = 10
# Where a search decides by itself what to try, candidates are solved only as well as it needs.
_MAX_ITER, _TOL, _ROUGH_TOL = 500, 1e-4, 1e-3
# Alphas of fits of their own: how many, the strongest as a multiple of the noise, the ratio of neighbours.
# Beside a ridge the best alpha is smaller, and matters less.
_NOISE_SHARE = 0.2  # left by the ridge that marks the direction along which noise is measured
_BESIDE_RIDGE, _ALONE = (3, 1.0, 3.0), (4, 3.0, 2.0)
# The next alpha, as a multiple, if every candidate is a fit of its own and small models are sought.
_STRONGER = 2.0
# The weakest ridge beside the penalty then, as a share of the usual one; without any, fits take long.
_LEAST_RIDGE = 0.25
# Gradients of the other losses relative to that of the squared loss, at constant scores.
_SLOPES = {"squared": 1.0, "logistic": 0.5, "squared_hinge": 2.0}


class _TailFits:
    """Fits of candidates in spectral coordinates; on the home problem, later ones start from earlier ones."""

    def __init__(self, tol: float, max_iter: int, home: SpectralProblem | None = None) -> None:
        self.tol, self.max_iter = tol, max_iter
        self.home = None if home is None else home.features
        self.known: dict[GridPoint, tuple[Any, Any]] = {}  # solutions at home

    def pieces(
        self, problem: SpectralProblem, chosen: Sequence[tuple[int, Params]], visit: Visit
    ) -> list[Piece]:
        """Return pieces of work as `Family` wants them."""
        points = {place: GridPoint(**{"theta": 0} | params) for place, params in chosen}
        problems = {ridge: problem.with_ridge(ridge) for ridge in {point.ridge for point in points.values()}}
        bare = [i for i, point in points.items() if point.alpha == 0 or point.theta >= problem.shape[1]]
        work: list[Piece] = [partial(fit_ridge, problems[points.pop(i).ridge], i, visit) for i in bare]
        known = self.known if problem.features is self.home else {}
        chains = chains_from(points, known) if known else chains_of(points, points)
        return work + [partial(self._fit, problems[ridge], chain, visit) for ridge, chain in chains]

    def _fit(self, problem: SpectralProblem, chain: Chain, visit: Visit) -> None:
        for place, found in solve_chain(problem, chain, tol=self.tol, max_iter=self.max_iter):
            if problem.features is self.home:
                point = GridPoint(chain.theta, found.penalty.alpha, problem.ridge)
                self.known[point] = found.left, found.right
            slopes = found.penalty.slopes(found.sigma)
            extra = 0.5 * slopes / found.sigma
            visit(place, RidgeRegressions(found.left, found.right, problem.ridge, extra))


class TailSearch(BlockSearch):
    """Base of the searches over alpha and ridge, and perhaps theta."""

    _names: tuple[str, ...] = ("theta", "alpha", "ridge")
    _row_tol = _ROUGH_TOL

    def _grid_thetas(self, data: Rows, params: Parameters) -> list[int]:
        """Return the counts of free singular values."""
        raise NotImplementedError

    def _check_shapes(self, data: Rows, params: Parameters) -> None:
        super()._check_shapes(data, params)
        params.thetas = self._grid_thetas(data, params)

    def _points(self, data: Rows, params: Parameters) -> list[GridPoint]:
        """Return the whole grid."""
        problem = coordinates_of(data, fit_intercept=params.fit_intercept).problem
        ridges = ridges_leaving(problem, _RIDGE_SHARES) if params.ridges is None else params.ridges
        count = params.n_alphas or _N_ALPHAS
        grid = Grid(params.thetas, params.alphas, ridges, count, params.alpha_ratio)
        if params.space == "predictions":  # alphas are in units of these, and the same problem has no ridge
            units = [(ridge, problem.with_ridge(ridge).of_predictions) for ridge in ridges]
            grid = grid._replace(ridges=[0.0])
            points = [point._replace(ridge=ridge) for ridge, own in units for point in grid.points(own)]
        else:
            points = grid.points(problem)
        if params.alphas is None and params.ridges is None:
            points += [GridPoint(0, 0.0, ridge) for ridge in ridges_leaving(problem, _BARE_RIDGE_SHARES)]
        return points

    def _decides(self, params: Parameters) -> bool:
        """Whether the search decides what to try: no grid is given."""
        given = (params.alphas, params.n_alphas, params.alpha_ratio)
        return all(value is None for value in given) and len(params.ridges or [0.0]) == 1

    def _search(self, comparison: Comparison, params: Parameters) -> Search:
        closed = params.cv == "loo" and self._decides(params)
        if params.space is None:
            params.space = "predictions" if closed else "coefficients"
        if not (closed and params.space == "predictions"):
            return super()._search(comparison, params)
        data, given = comparison.data, vars(self).get("thetas", [0])
        return FoldedSearch(
            comparison,
            Family(self._ridges_alone(data, params), prediction_pieces),
            fit_intercept=params.fit_intercept,
            names=self._names,
            thetas=None if given is None else params.thetas,
            is_free=params.ridges is None,
            wants_small=params.rule in ("one_standard_error", "smallest"),
            random_state=params.random_state,
        )

    def _ridges_alone(self, data: Rows, params: Parameters) -> Plan:
        def candidate(ridge: float) -> Params:
            return self._as_params(GridPoint(0, 0.0, ridge))

        if params.ridges is not None:
            return once(map(candidate, params.ridges))
        return ridge_plan(coordinates_of(data, fit_intercept=params.fit_intercept).problem, candidate)

    def _family(self, data: Rows, params: Parameters) -> Family:
        max_iter = _MAX_ITER if params.max_iter is None else params.max_iter
        problem = coordinates_of(data, fit_intercept=params.fit_intercept).problem
        if params.space == "predictions":
            return Family(once(map(self._as_params, self._points(data, params))), prediction_pieces)
        if not self._decides(params):
            plan = once(map(self._as_params, self._points(data, params)))
            return Family(plan, _TailFits(_TOL if params.tol is None else params.tol, max_iter).pieces)
        ridge = None if params.ridges is None else params.ridges[0]
        plan = tail_plan(Start.of(problem, sorted(params.thetas), ridge), self._as_params)
        tol = _ROUGH_TOL if params.tol is None else params.tol
        return Family(plan, _TailFits(tol, max_iter, problem).pieces)

    def _as_params(self, point: GridPoint) -> Params:
        return {name: getattr(point, name) for name in self._names}

    def _refits(self, data: Rows, params: Parameters) -> tuple[Plan, Callable[[Params], Any]]:
        centred = {"fit_intercept": params.fit_intercept}
        problem, ridges, alphas = spectrum_of(data, **centred), params.ridges, params.alphas
        if ridges is None:
            scale = loss_scale(data, params.loss, **centred)
            ridges = [scale * ridge for ridge in ridges_leaving(problem, _ROW_RIDGE_SHARES)]
        count, multiple, ratio = _BESIDE_RIDGE if any(ridges) else _ALONE
        count = params.n_alphas or count
        if alphas is None and params.alpha_ratio is None:
            noise = noise_along(data, params.loss, problem.ridge_leaving(_NOISE_SHARE), **centred)
            alphas = [multiple * noise / ratio**step for step in range(count)]
        given = (params.alphas, params.n_alphas, params.alpha_ratio)
        # Few held-out rows tell little; without any penalty, separable labels have no optimum.
        staged = data.X.shape[0] >= MANY_ROWS and (params.ridges is None or len(ridges) == 1) and all(ridges)
        plan: Plan
        if staged and alphas is not None and all(value is None for value in given):
            beside = [alpha for alpha in alphas if alpha > 0]
            start = Start(ridges, lambda point: beside, sorted(params.thetas), _LEAST_RIDGE)
            plan = tail_plan(start, self._as_params)
        else:
            points = Grid(params.thetas, alphas, ridges, count, params.alpha_ratio).points(problem)
            if alphas is None:  # alpha_max was that of the squared loss
                points = [p._replace(alpha=_SLOPES[params.loss.name] * p.alpha) for p in points]
            elif all(value is None for value in given) and all(ridges):
                # Without the penalty fits are cheap, and with them the search is never below MLFro.
                points = [GridPoint(0, 0.0, ridge) for ridge in sorted(ridges, reverse=True)] + points
            names = [name for name in ("ridge", "alpha") if getattr(params, f"{name}s") is None]
            plan = extending(list(map(self._as_params, points)), names)
        if params.rule == "smallest" and params.alphas is None:
            least = min(alphas or [0.0])
            plan = shrinking(plan, lambda one: one | {"alpha": max(_STRONGER * one["alpha"], least)})
        return plan, lambda candidate: None
