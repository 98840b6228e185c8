"""The driver of every fit: rows and what is minimised over them go in, one immutable record comes out.

Least squares with all labels known needs sums only, and is solved in spectral coordinates (`Squares`).
Everything else reads the rows at every step (`lrml.estimators._loss_fit`). Both are *settings*: a problem in
coordinates. One in a subspace tells what that costs, and gives a larger one if it is too much.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, Self, TypeVar

from sklearn.exceptions import ConvergenceWarning

from lrml._progress import progress, tell
from lrml._shown import level_of_user, shown
from lrml.core.arrays import Array, Place, take
from lrml.core.coordinates import (
    Coordinates,
    RidgeRegressions,
    check_room,
    coordinates_of,
    spectrum_of,
    with_unseen,
)
from lrml.core.linalg import Factors
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.estimators._defaults import Spec, filled, loss_scale, sort_labels, sums_suffice
from lrml.estimators._fitted import Fitted, Solution, Start
from lrml.estimators._loss_fit import LOOSE_SHARE, Losses, enough, is_separable, separable
from lrml.estimators._parameters import check_row_solver
from lrml.solvers import (
    SUCCESSES,
    Callback,
    History,
    IterationInfo,
    Point,
    SolverResult,
    Status,
    duality_gap,
    regressions_of,
    row_duality_gap,
    solve,
)

# What a subspace may cost with the squared loss, over the objective; and how often it is extended for that.
_MOST_COMPRESSED, _MOST_EXTENSIONS = 5e-4, 4


def fit(rows: Rows, spec: Spec, last: Fitted | None = None) -> Fitted:
    """Minimise; start from the last fit if there is one."""
    sums_only = sums_suffice(spec.loss, rows)
    if not sums_only:
        check_row_solver(spec.solver)
        if spec.given is not None and not hasattr(spec.given, "slopes"):
            raise ValueError(f"with unknown targets, a penalty needs slopes; {shown(spec.given)} has none.")
    if spec.road != "auto":  # before the defaults read the rows
        check_room(rows, spec.road)
    start = None if last is None else Start.of(last, rows)
    spec = filled(rows, spec)
    with _reported(spec) as callback:
        minimise = _fit_sums if sums_only else _fit_rows
        solution = minimise(rows, replace(spec, callback=callback), start)
    if spec.verbose and not solution.outcome.n_iter:
        tell(spec.name, f"{solution.outcome.status.value} Objective {solution.outcome.objective:.6g}")
    fitted, outcome, missed = record(rows, spec, solution), solution.outcome, solution.compression_gap
    if missed is not None and missed > 2.0 * (_MOST_COMPRESSED if sums_only else enough(spec)):
        fitted = replace(fitted, converged=False, status=Status.SUBSPACE_POOR.value)
        _warn(
            f"the fit in a subspace is an estimated {missed:.1%} above the exact objective. Raise the ridge "
            f"(now {spec.ridge:g}; searches such as LRMLCV find one), scale X, or use a model with "
            "solver='primal' or 'dual', which take more memory."
        )
    if outcome.status in (Status.MAX_ITER, Status.GAP_OPEN):
        gap = outcome.history[-1].gap
        reached = f"estimated gap {gap:.1e}" if math.isfinite(gap) else f"residual {outcome.residual:.1e}"
        _warn(f"{outcome.status.value} ({reached} after {len(outcome.history) - 1} iterations)")
    return fitted


def _warn(message: str) -> None:
    """Warn at the line of the user's own code that called the fit."""
    warnings.warn(message, ConvergenceWarning, stacklevel=level_of_user())


@contextmanager
def _reported(spec: Spec) -> Iterator[Callback | None]:
    """Yield a callback that shows progress (``verbose`` > 0) and then calls that of the user."""
    if not spec.verbose:
        yield spec.callback
        return
    with progress(spec.name, "iterations", at_most=True) as shown:

        def report(info: IterationInfo) -> bool | None:
            residual = f"residual {info.residual:.1e}, " if math.isfinite(info.residual) else ""
            words = f"objective {info.objective:.6g}, {residual}rank {info.rank}"
            if info.iteration:
                shown.update(info.iteration, spec.max_iter or 0, words)
            return spec.callback(info) if spec.callback is not None else None

        yield report


def record(rows: Rows, spec: Spec, solution: Solution) -> Fitted:
    """Return the record of a fit, in the type of X and where X came from."""
    home, dtype, kernel = rows.home, rows.model_dtype, rows.kernel
    outcome, gap, components = solution.outcome, solution.gap, solution.components
    if gap is not None and solution.compression_gap is not None:
        gap += solution.compression_gap  # what is proven inside a subspace is not all
    return Fitted(
        schema=rows.schema,
        loss_name=spec.loss.name,
        factors=Factors(*(home.asarray(factor, dtype) for factor in solution.factors)),
        intercept=home.asarray(solution.intercept, dtype),
        unseen=home.asarray(solution.unseen),
        status=outcome.status.value,
        converged=outcome.status in SUCCESSES,
        objective=outcome.objective,
        residual=outcome.residual,
        n_iter=outcome.n_iter,
        history=outcome.history.as_dict(),
        kernel=kernel,
        X_fit=None if kernel is None or kernel.is_precomputed else rows.given_rows,
        theta=spec.theta,  # type: ignore[arg-type]  # a number by now
        alpha=None if spec.encodes or spec.given else spec.alpha,
        space=None if spec.is_bare else spec.space,
        ridge=spec.ridge,
        gap=gap,
        compression_gap=solution.compression_gap,
        kernel_gap=solution.kernel_gap,
        n_passes=rows.n_passes,
        components=None if components is None else home.asarray(components, rows.schema.dtype),
    )


_Setting = TypeVar("_Setting", "Squares", Losses)


def _minimise(setting: _Setting, start: Any) -> tuple[_Setting, SolverResult, float | None]:
    """Solve, and extend a subspace until it costs little; also return what it costs, over the objective."""
    outcome, gained = setting.solve(start), math.inf
    if setting.coordinates.subspace is None:
        return setting, outcome, None
    n_iter = outcome.n_iter
    for extension in range(1 + _MOST_EXTENSIONS):
        missed, further = setting.missed(outcome, gained)
        if further is None or extension == _MOST_EXTENSIONS or outcome.status is Status.STOPPED:
            break
        before = outcome.objective
        setting, start = setting.larger(outcome, further)
        outcome = setting.solve(start)
        gained = max(before - outcome.objective, 0.0) / (before or 1.0)
        n_iter += outcome.n_iter
    return setting, replace(outcome, n_iter=n_iter), missed


# Least squares with all labels known


@dataclass(frozen=True, eq=False)
class Squares:
    """Least squares plus a penalty in spectral coordinates: everything follows from the second moments."""

    coordinates: Coordinates
    spec: Spec

    @cached_property
    def problem(self) -> SpectralProblem:
        """The problem with the ridge."""
        return self.coordinates.problem.with_ridge(self.spec.ridge or 0.0)

    def solve(self, start: Array | None) -> SolverResult:
        """Solve; the predictions have a closed form, the global minimum."""
        spec, certificate = self.spec, duality_gap if self.spec.certified else None
        how: dict[str, Any] = {"solver": spec.solver, "certificate": certificate, **spec.limits}
        return solve(self.problem, spec.penalty, space=spec.space, start=start, **how)

    def missed(self, outcome: SolverResult, gained: float) -> tuple[float, Any]:
        """Return what the subspace costs, and vectors to add beside the solution that lacks them."""
        found, unit = self.regressions(outcome), self.coordinates.unit_of_gaps(outcome.objective)
        slope = math.inf
        if self.spec.space == "coefficients":
            # Of the penalty along a further direction. A solution that may take one at no price has slope 0.
            none = Place.of(found.left).zeros(found.left.shape[1] + 1)
            slope = float(self.spec.penalty.slopes(none)[-1])
        price = None if slope == math.inf else slope
        gap, further = self.coordinates.missed(found, price, _MOST_COMPRESSED * unit)
        return gap / unit, None if further is None else (further, found)

    def larger(self, outcome: SolverResult, further: Any) -> tuple[Self, Array]:
        """Return the problem in a larger subspace, and the solution in it."""
        vectors, found = further
        space = self.coordinates.extended(vectors)
        return type(self)(space, self.spec), self.coordinates.carry_all(found, space)

    def regressions(self, outcome: SolverResult) -> RidgeRegressions:
        """Read a solution as ridge regressions of directions of label space."""
        space = "coefficients" if self.spec.is_bare else self.spec.space
        return regressions_of(self.problem, self.spec.penalty, outcome.solution, space)


def _fit_sums(rows: Rows, spec: Spec, start: Start | None) -> Solution:
    setting, outcome, missed = _solved(rows, spec, start)
    problem, gap, components = setting.problem, None, None
    if spec.certified:
        gap = 0.0
        if outcome.status is not Status.EXACT:  # which of two bounds is smaller depends on the scale of X
            point = Point(outcome.solution, outcome.factors.s, outcome.objective)
            gap = min(outcome.gap, duality_gap(problem, spec.tail, point))
    if spec.encodes:
        right = problem.penalised_predictions(TailSum(0, 0.0, max_rank=spec.max_rank)).right
        components = (right if problem.labels is None else problem.labels @ right).T
    kernel_gap = setting.coordinates.kernel_gap(problem.ridge, outcome.objective)
    coordinates = setting.coordinates.without_subspace()
    del setting, problem
    factors = coordinates.lift.factors(outcome.factors)
    intercept = coordinates.intercept(factors.U, factors.V * factors.s)
    return Solution(factors, intercept, coordinates.unseen, outcome, gap, missed, kernel_gap, components)


def _solved(rows: Rows, spec: Spec, start: Start | None) -> tuple[Squares, SolverResult, float | None]:
    asked = {"bare": spec.is_bare, "directions": spec.expected_rank(rows.model_shape[1])}
    sides: dict[str, Any] = {"fit_intercept": spec.fit_intercept, "road": spec.road, **asked}
    setting = Squares(coordinates_of(rows, ridge=spec.ridge or 0.0, extensible=True, **sides), spec)
    first = None if start is None else setting.coordinates.compress(start.left, 1.0, start.right)
    return _minimise(setting, first)


def regressions(rows: Rows, spec: Spec, last: Fitted | None = None) -> RidgeRegressions:
    """Solve (once more, from the last fit), and read the solution as ridge regressions."""
    spec = filled(rows, replace(spec, road="auto"))  # in the coordinates that read it
    setting, outcome, _ = _solved(rows, spec, None if last is None else Start.of(last, rows))
    return setting.regressions(outcome)


# Other losses, and unknown labels


class _Found(NamedTuple):
    """A solution in the space of the model, for the labels in use."""

    factors: Factors
    intercept: Array
    outcome: SolverResult
    missed: float | None = None
    setting: Losses | None = None  # None if labels were solved one by one


def _fit_rows(rows: Rows, spec: Spec, start: Start | None) -> Solution:
    """Fit the labels that need coefficients."""
    place, (_, d, n_labels) = rows.place, rows.shape
    xp = place.xp
    if not bool(xp.any(rows.label_totals()[0] != 0)):
        raise ValueError("no label is known in a row with a positive weight. Check sample_weight.")
    unseen, used, constants = sort_labels(rows, spec.loss, fit_intercept=spec.fit_intercept)
    if not bool(xp.any(used)):
        factors = Factors(place.zeros((d, 0)), place.zeros(0), place.zeros((n_labels, 0)))
        history = History([IterationInfo(0, "closed form", 0.0, 0.0, 0, 0.0, 0.0)])
        outcome = SolverResult(place.zeros((0, n_labels)), factors, Status.EXACT, 0, 0.0, 0.0, 0.0, history)
        intercept = with_unseen(constants, unseen, spec.loss)
        return Solution(factors, intercept, unseen, outcome, 0.0 if spec.certified else None)
    if start is not None:
        places = xp.nonzero(used)[0]
        start = Start(start.left, take(start.right, places), take(start.intercept, places))
    found, gap = _found(rows, used, spec, start), None
    if spec.certified and spec.space == "coefficients" and found.setting is not None:
        gap = row_duality_gap(found.setting.problem, spec.tail.alpha, found.outcome.solution)
    order = xp.where(used, xp.cumulative_sum(xp.astype(used, xp.int64)) - 1, 0)
    V = xp.where(used[:, None], xp.take(found.factors.V, order, axis=0), 0.0)
    intercept = xp.where(used, xp.take(found.intercept, order), constants)
    factors, intercept = found.factors._replace(V=V), with_unseen(intercept, unseen, spec.loss)
    return Solution(factors, intercept, unseen, found.outcome, gap, found.missed)


def _found(rows: Rows, used: Array, spec: Spec, start: Start | None) -> _Found:
    """Minimise.

    Where hardly anything limits the free singular values, a fit can end near a saddle point and not show it.
    Then it is compared with one that starts from the solution without the penalty.
    """
    if is_separable(rows, spec):
        return _Found(*separable(rows, used, spec, start))
    losses = Losses.of(rows, used, spec, start)
    setting, outcome, missed = _minimise(losses, losses.inside(start))
    found = _Found(*setting.model(outcome), outcome, missed, setting)
    if start is not None or not setting.is_loose(outcome):
        return found
    scale = loss_scale(rows, spec.loss, fit_intercept=spec.fit_intercept)
    ridge = scale * spectrum_of(rows, fit_intercept=spec.fit_intercept).ridge_leaving(LOOSE_SHARE)
    without: dict[str, Any] = {"alpha": 0.0, "theta": 0, "max_rank": None, "certified": False}
    bare = replace(spec, **without, ridge=ridge, solver="auto", callback=None)
    (U, s, V), intercept, *_ = _found(rows, used, bare, None)
    rival = _found(rows, used, spec, Start(U * s, V, intercept))
    better = rival.outcome.objective < (1.0 - (spec.tol or 0.0)) * outcome.objective
    return rival if better else found
