"""The driver of every fit: rows and what is minimised over them go in, one immutable record comes out.

Least squares with all labels known needs sums only, and is solved in spectral coordinates
(`lrml.core.coordinates`). Everything else reads the rows at every step (`lrml.estimators._loss_fit`).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from lrml.core.arrays import Array, namespace
from lrml.core.coordinates import Coordinates, RidgeRegressions, coordinates_of
from lrml.core.linalg import Factors
from lrml.core.penalties import Penalty, TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.core.subspace import Found
from lrml.estimators import _loss_fit
from lrml.estimators._defaults import filled
from lrml.estimators._fitted import Fitted
from lrml.estimators._spec import Solution, Spec, Start, check_row_solver, solver_progress
from lrml.estimators._warnings import warn_of_subspace, warn_of_weakness, warn_unless_converged
from lrml.solvers import SUCCESSES, Callback, DualityGap, Point, Recorder, SolverResult, Status, solve

# What a subspace may cost, over the objective, and how often it is extended until it costs less.
_MOST_COMPRESSED, _MOST_EXTENSIONS = 5e-4, 4


def fit(rows: Rows, spec: Spec, last: Fitted | None = None) -> Fitted:
    """Minimise; start from the last fit if there is one."""
    if not spec.needs_sums_only(rows):
        check_row_solver(spec.solver)
        spec = spec.reading_rows()
    spec = filled(rows, spec.limited(rows))
    start = None if last is None else Start.of(last, rows)
    if spec.needs_sums_only(rows):
        solution = _fit_sums(rows, spec, start)
    else:
        with solver_progress(spec) as callback:
            solution = _loss_fit.fit(rows, replace(spec, callback=callback), start)
    poor = {}
    missed = solution.compression_gap
    if missed is not None and missed > 2.0 * _enough(rows, spec):
        warn_of_subspace(spec, missed)
        poor = {"converged": False, "status": Status.SUBSPACE_POOR.value}
    warn_unless_converged(solution.outcome)
    return record(rows, spec, solution, **poor)


def _enough(rows: Rows, spec: Spec) -> float:
    """Return what a subspace may cost, as a share of the objective."""
    return _MOST_COMPRESSED if spec.needs_sums_only(rows) else _loss_fit.enough(spec)


def record(rows: Rows, spec: Spec, solution: Solution, **changes: Any) -> Fitted:
    """Return the record of a fit, in the type of X and where X came from."""
    home, dtype, kernel = rows.home, rows.model_dtype, rows.kernel
    outcome, gap, components = solution.outcome, solution.gap, solution.components
    if gap is not None and solution.compression_gap is not None:
        gap += solution.compression_gap  # what is proven inside a subspace is not all
    found: dict[str, Any] = {
        "status": outcome.status.value,
        "converged": outcome.status in SUCCESSES,
        "objective": outcome.objective,
        "residual": outcome.residual,
        "n_iter": outcome.n_iter,
        "history": outcome.history.as_dict(),
    }
    return Fitted(
        schema=rows.schema,
        loss_name=spec.loss.name,
        factors=Factors(*(home.asarray(factor, dtype) for factor in solution.factors)),
        intercept=home.asarray(solution.intercept, dtype),
        unseen=home.asarray(solution.unseen),
        kernel=kernel,
        X_fit=None if kernel is None or kernel.is_precomputed else rows.given_rows,
        theta=spec.theta,  # type: ignore[arg-type]  # a number by now
        alpha=spec.ridge if spec.ridge_is_alpha else None if spec.encodes or spec.given else spec.alpha,
        space=None if spec.is_bare else spec.space,
        ridge=None if spec.ridge_is_alpha else spec.ridge,
        gap=gap,
        compression_gap=solution.compression_gap,
        kernel_gap=solution.kernel_gap,
        n_passes=rows.n_passes,
        components=None if components is None else home.asarray(components, rows.schema.dtype),
        **found | changes,
    )


# Least squares with all labels known


def _fit_sums(rows: Rows, spec: Spec, start: Start | None) -> Solution:
    """Everything follows from the second moments."""
    coordinates, problem, outcome, missed = _solved(rows, spec, start)
    gap = _proven_gap(problem, spec.tail, outcome) if spec.certified else None
    kernel_gap = coordinates.kernel_gap(problem.ridge, outcome.objective)
    components = None
    if spec.encodes:
        right = problem.reduced_rank_factors(spec.max_rank).right
        components = (right if problem.labels is None else problem.labels @ right).T
    del problem
    coordinates = coordinates.without_subspace()
    factors = coordinates.lift.factors(outcome.factors)
    intercept = coordinates.intercept(factors.U, factors.V * factors.s)
    return Solution(factors, intercept, coordinates.unseen, outcome, gap, missed, kernel_gap, components)


def _solved(
    rows: Rows, spec: Spec, start: Start | None
) -> tuple[Coordinates, SpectralProblem, SolverResult, float | None]:
    """Solve, and extend a subspace until it costs little; also return what it costs, over the objective."""
    penalty, ridge = spec.penalty, float(spec.ridge or 0.0)
    asked: dict[str, Any] = {"bare": spec.is_bare, "directions": spec.expected_rank(rows.model_shape[1])}
    coordinates = coordinates_of(
        rows, fit_intercept=spec.fit_intercept, ridge=ridge, road=spec.road, extensible=True, **asked
    )
    problem = coordinates.problem.with_ridge(ridge)
    first = None if start is None else coordinates.compress(start.left, 1.0, start.right)
    outcome = _solve(problem, spec, first)
    if coordinates.subspace is None:
        return coordinates, problem, outcome, None
    for extension in range(1 + _MOST_EXTENSIONS):
        found = as_regressions(problem, spec, outcome)
        unit = coordinates.unit_of_gaps(outcome.objective)
        alpha = None if spec.space == "predictions" else _price_of_rank(penalty, found)
        missed: Found = coordinates.missed(found, alpha, _MOST_COMPRESSED * unit)
        if missed.further is None or extension == _MOST_EXTENSIONS or outcome.status is Status.STOPPED:
            break
        if alpha and not extension and missed.enough_alpha is not None:
            warn_of_weakness(alpha, missed.enough_alpha)
        larger = coordinates.extended(missed.further)
        first = coordinates.carry_all(found, larger)
        coordinates, problem = larger, larger.problem.with_ridge(ridge)
        del larger
        outcome = _solve(problem, spec, first)
    return coordinates, problem, outcome, missed.gap / unit


def _solve(problem: SpectralProblem, spec: Spec, start: Array | None) -> SolverResult:
    penalty = spec.penalty
    assert spec.max_iter is not None
    assert spec.tol is not None
    with solver_progress(spec) as callback:
        if spec.space == "predictions":
            return _closed_form(problem, penalty, callback)
        return solve(
            problem,
            penalty,
            solver=spec.method,
            start=start,
            max_iter=spec.max_iter,
            tol=spec.tol,
            callback=callback,
            certificate=DualityGap(spec.tail.alpha) if spec.certified else None,
        )


def _closed_form(problem: SpectralProblem, penalty: Penalty, callback: Callback | None) -> SolverResult:
    """Return the global minimum under a penalty on the predictions."""
    left, right, d, sigma = problem.penalised_predictions(penalty)
    U, s, V = Factors.of_sides(left * (sigma / d), right)
    W = (U * s) @ V.T
    objective = problem.value(W) + penalty.value(sigma)
    record: Recorder[None] = Recorder(callback)
    record.record("closed form", objective, 0.0, int(s.shape[0]), 0.0)
    U, V = problem.restore(U, V)
    return SolverResult(W, Factors(U, s, V), Status.EXACT, 0, objective, 0.0, 0.0, record.history)


def _proven_gap(problem: SpectralProblem, penalty: TailSum, outcome: SolverResult) -> float:
    """Return the better of two bounds; which one is smaller depends on the scale of the features."""
    if outcome.status is Status.EXACT:
        return 0.0
    point = Point(outcome.solution, outcome.factors.s, outcome.objective)
    return min(outcome.gap, DualityGap(penalty.alpha).measure(problem, penalty, point))


def _price_of_rank(penalty: Penalty, solution: RidgeRegressions) -> float | None:
    """Return the slope of the penalty along a direction that a solution lacks; None if it may take no more.

    A solution of less rank than theta may take on a further one at no price.
    """
    left = solution.left
    none = namespace(left).zeros(left.shape[1] + 1, dtype=left.dtype, device=left.device)
    slope = float(penalty.slopes(none)[-1])
    return slope if slope < math.inf else None


def as_regressions(problem: SpectralProblem, spec: Spec, outcome: SolverResult) -> RidgeRegressions:
    """Read a solution as ridge regressions of directions of label space."""
    penalty = spec.penalty
    if spec.space == "predictions" and not spec.is_bare:
        left, right, d, sigma = problem.penalised_predictions(penalty)
        return RidgeRegressions(left, right, problem.ridge, shrunk=sigma / d)
    unlimited = spec.given is None and spec.expected_rank(problem.shape[1]) == problem.shape[1]
    if outcome.status is Status.EXACT and unlimited:
        return RidgeRegressions(outcome.solution, None, problem.ridge)
    U, s, V = Factors.of(outcome.solution)
    xp = namespace(s)
    kept = int(xp.count_nonzero(s > max(problem.shape) * xp.finfo(s.dtype).eps * s[0]))  # they descend
    extra = 0.5 * penalty.slopes(s)[:kept] / s[:kept]
    return RidgeRegressions(U[:, :kept] * s[:kept], V[:, :kept], problem.ridge, extra)


def regressions(rows: Rows, spec: Spec, last: Fitted | None = None) -> RidgeRegressions:
    """Solve (once more, from the last fit), and read the solution as ridge regressions."""
    spec = filled(rows, replace(spec.limited(rows), solver=spec.method))  # in the coordinates that read it
    _, problem, outcome, _ = _solved(rows, spec, None if last is None else Start.of(last, rows))
    return as_regressions(problem, spec, outcome)
