"""The driver of every fit: rows and what is minimised over them go in, one immutable record comes out.

Least squares with all labels known needs sums only, and is solved in spectral coordinates (`Squares`).
Everything else reads the rows at every step: in coordinates (`Losses`), or label by label where no penalty
joins them. Both are *settings*: one in a subspace tells what that costs, and gives a larger one if it is too
much.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from lrml._progress import progress, tell
from lrml._shown import level_of_user, shown
from lrml.core.arrays import Array, namespace, take
from lrml.core.coordinates import (
    Coordinates,
    RidgeRegressions,
    check_room,
    coordinates_of,
    road_of,
    spectrum_of,
    with_unseen,
)
from lrml.core.linalg import Factors
from lrml.core.loss_problem import RowProblem
from lrml.core.penalties import ranks_of
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.estimators._fitted import Fitted, Start
from lrml.estimators._pruning import Largest, Whole
from lrml.estimators._spec import Spec, check_row_solver, filled, loss_scale, sort_labels, sums_suffice
from lrml.solvers import (
    SUCCESSES,
    Callback,
    IterationInfo,
    Point,
    SeparableProblem,
    SolverResult,
    Status,
    at_once,
    duality_gap,
    regressions_of,
    solve,
    solve_rows,
    solve_separable,
)

# What a subspace may cost, over the objective: with the squared loss; with others, or so many times ``tol``.
_MOST_COMPRESSED, _MOST_MISSED, _MISSED_PER_TOL = 5e-4, 1e-3, 5.0
_MOST_EXTENSIONS = 4
# Smaller objectives, over ‖Y‖², are not told from 0 in a subspace.
_LEAST_OBJECTIVE = 1e-8
# With a small ridge the bound of a loss is too large, mostly by up to so many times. So what the last
# extension has gained counts, times a factor for all further ones, but never less than the bound over this.
_LOOSENESS, _TO_COME = 10.0, 2.0
# With hardly any ridge, the curvature of the loss limits steps: this shift stands for it, over the mean
# eigenvalue.
_LEAST_SHIFT = 0.03
# A ridge that leaves more than this share of the effective directions limits nothing.
_LOOSE_SHARE = 0.998

Model: TypeAlias = tuple[Any, Array]
"""`Factors`, or None if coefficients are pruned, and intercepts, before they are stored."""
_Setting = TypeVar("_Setting", "Squares", "Losses")


def fit(rows: Rows, spec: Spec, last: Fitted | None = None) -> Fitted:
    """Minimise; start from the last fit if there is one."""
    sums_only = sums_suffice(spec.loss, rows)
    if sums_only and spec.n_weights is not None and _is_separable(rows, spec):
        sums_only = road_of(rows, spec.road) != "compressed"  # where labels one by one need less memory
    if not sums_only:
        check_row_solver(spec.solver)
        if spec.given is not None and not hasattr(spec.given, "slopes"):
            raise ValueError(f"with unknown targets, a penalty needs slopes; {shown(spec.given)} has none.")
    if spec.road != "auto":  # before the defaults read the rows
        check_room(rows, spec.road)
    start = None if last is None else Start.of(last, rows)
    spec = filled(rows, spec)
    with _reported(spec) if spec.verbose else nullcontext(spec.callback) as callback:
        fitted = (_fit_sums if sums_only else _fit_rows)(rows, replace(spec, callback=callback), start)
    if spec.verbose and not fitted.n_iter:
        tell(spec.name, f"{fitted.status} Objective {fitted.objective:.6g}")
    if spec.n_weights is not None and fitted.factors is not None:
        fitted = fitted.pruned(spec.n_weights)
    missed, history, complaints = fitted.compression_gap, fitted.history, []
    if fitted.status in (Status.MAX_ITER.value, Status.GAP_OPEN.value):
        gap = float(history["gap"][-1])
        reached = f"estimated gap {gap:.1e}" if math.isfinite(gap) else f"residual {fitted.residual:.1e}"
        complaints.append(f"{fitted.status} ({reached} after {len(history['gap']) - 1} iterations)")
    if missed is not None and missed > 2.0 * (_MOST_COMPRESSED if sums_only else _enough(spec)):
        fitted = replace(fitted, converged=False, status=Status.SUBSPACE_POOR.value)
        complaints.append(
            f"the fit in a subspace is an estimated {missed:.1%} above the exact objective. Raise the ridge "
            f"(now {spec.ridge:g}; searches such as LRMLCV find one), scale X, or use a model with "
            "solver='primal' or 'dual', which take more memory."
        )
    for complaint in complaints:
        warnings.warn(complaint, ConvergenceWarning, stacklevel=level_of_user())
    return fitted


@contextmanager
def _reported(spec: Spec) -> Iterator[Callback | None]:
    """Yield a callback that shows progress and then calls that of the user."""
    with progress(spec.name, "iterations", at_most=True) as shown:

        def report(info: IterationInfo) -> bool | None:
            residual = f"residual {info.residual:.1e}, " if math.isfinite(info.residual) else ""
            words = f"objective {info.objective:.6g}, {residual}rank {info.rank}"
            if info.iteration:
                shown.update(info.iteration, spec.max_iter or 0, words)
            return spec.callback(info) if spec.callback is not None else None

        yield report


def record(rows: Rows, spec: Spec, outcome: SolverResult, model: Model, unseen: Array, **more: Any) -> Fitted:
    """Return the record of a fit, in the type of X and where X came from."""
    X = rows.X if rows.given is None else rows.given
    home, dtype, kernel, (factors, intercept) = rows.home, rows.model_dtype, rows.kernel, model
    return Fitted(
        schema=rows.schema,
        loss_name=spec.loss.name,
        factors=factors and Factors(*(home.asarray(part, dtype) for part in factors)),
        intercept=home.asarray(intercept, dtype),
        unseen=home.asarray(unseen),
        status=outcome.status.value,
        converged=outcome.status in SUCCESSES,
        objective=outcome.objective,
        residual=outcome.residual,
        n_iter=outcome.n_iter,
        history=outcome.history.as_dict(),
        kernel=kernel,
        X_fit=None if kernel is None or kernel.is_precomputed else X,
        theta=spec.theta,  # type: ignore[arg-type]  # a number by now
        alpha=None if spec.given else spec.alpha,
        space=None if spec.is_bare else spec.space,
        ridge=spec.ridge,
        n_passes=rows.n_passes,
        **more,
    )


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

    def solve(self, start: Start | None) -> SolverResult:
        """Solve; the predictions have a closed form, the global minimum."""
        spec, certificate = self.spec, duality_gap if self.spec.certified else None
        how: dict[str, Any] = {"solver": spec.solver, "certificate": certificate, **spec.limits}
        first = None if start is None else self.problem.compress(start.left, start.right)
        return solve(self.problem, spec.penalty, space=spec.space, start=first, **how)

    def missed(self, outcome: SolverResult, gained: float) -> tuple[float, Any]:
        """Return what the subspace costs, over the objective, and vectors to add if that is too much."""
        found, slope = self.regressions(outcome), math.inf
        if self.spec.space == "coefficients":
            # Of the penalty along a further direction. A solution that may take one at no price has slope 0.
            slope = float(self.spec.penalty.slopes(np.zeros(found.left.shape[1] + 1))[-1])
        # If a perfect fit leaves only rounding, a small share of ‖Y‖² stands for the objective.
        unit = max(outcome.objective, _LEAST_OBJECTIVE * self.problem.target) or 1.0
        right = self.problem.in_label_space(found.right)
        shifts = found.ridge + (np.zeros(found.left.shape[1]) if found.extra is None else found.extra)
        price, enough = None if slope == math.inf else slope, _MOST_COMPRESSED * unit
        gap, further = self.coordinates.subspace.gap(found.left, right, shifts, price, found.ridge, enough)
        return gap / unit, further

    def larger(self, outcome: SolverResult, further: Array) -> tuple[Self, Start]:
        """Return the problem in a larger subspace, and the solution so far in it."""
        found, space = self.regressions(outcome), self.coordinates.extended(further)
        left = self.coordinates.carry(found.left, space)
        return type(self)(space, self.spec), Start(left, self.problem.in_label_space(found.right))

    def regressions(self, outcome: SolverResult) -> RidgeRegressions:
        """Read a solution as ridge regressions of directions of label space."""
        space = "coefficients" if self.spec.is_bare else self.spec.space
        return regressions_of(self.problem, self.spec.penalty, outcome.solution, space)


def _fit_sums(rows: Rows, spec: Spec, start: Start | None) -> Fitted:
    setting, outcome, missed = _solved(rows, spec, start)
    coordinates, problem, more = setting.coordinates, setting.problem, dict[str, Any](compression_gap=missed)
    if rows.kernel is not None:
        more["kernel_gap"] = coordinates.kernel_gap(problem.ridge, outcome.objective)
    if spec.certified:
        gap = 0.0
        if outcome.status is not Status.EXACT:  # which of two bounds is smaller depends on the scale of X
            point = Point(outcome.solution, outcome.factors.s, outcome.objective)
            gap = min(outcome.gap, duality_gap(problem, spec.tail, point))
        more["gap"] = gap + (missed or 0.0)  # what is proven inside a subspace is not all
    if missed is not None:  # a wide model needs the memory of the subspace
        coordinates = replace(coordinates, problem=None, subspace=None)  # type: ignore[arg-type]
    del setting, problem
    return record(rows, spec, outcome, coordinates.model(outcome.factors), coordinates.unseen, **more)


def _solved(rows: Rows, spec: Spec, start: Start | None) -> tuple[Squares, SolverResult, float | None]:
    asked: dict[str, Any] = {"fit_intercept": spec.fit_intercept, "road": spec.road, "bare": spec.is_bare}
    if road_of(rows, spec.road) == "compressed":  # a rank that is given, or about the one that costs nothing
        n_labels = rows.shape[2]
        free, permitted = 2 * (n_labels,) if spec.given is not None else ranks_of(spec.tail, n_labels)
        asked["directions"] = permitted if permitted < n_labels else free
    space = coordinates_of(rows, ridge=spec.ridge or 0.0, extensible=True, **asked)
    first = None if start is None else Start(space.inside(start.left), start.right)
    return _minimise(Squares(space, spec), first)


def regressions(rows: Rows, spec: Spec, last: Fitted | None = None) -> RidgeRegressions:
    """Solve (once more, from the last fit), and read the solution as ridge regressions."""
    spec = filled(rows, replace(spec, road="auto"))  # in the coordinates that read it
    setting, outcome, _ = _solved(rows, spec, None if last is None else Start.of(last, rows))
    return setting.regressions(outcome)


# Other losses, and unknown labels


def _fit_rows(rows: Rows, spec: Spec, start: Start | None) -> Fitted:
    """Fit the labels that need coefficients."""
    place, (_, d, n_labels) = rows.place, rows.shape
    xp = place.xp
    if not bool(xp.any(rows.label_totals[0] != 0)):
        raise ValueError("no label is known in a row with a positive weight. Check sample_weight.")
    unseen, used, constants = sort_labels(rows, spec)
    if not bool(xp.any(used)):
        factors = Factors(place.zeros((d, 0)), place.zeros(0), place.zeros((n_labels, 0)))
        outcome, intercept = at_once(place.zeros((0, n_labels)), factors, 0.0), constants
        more: dict[str, Any] = {"gap": 0.0 if spec.certified else None}
    elif (spec.n_weights is not None or not spec.factored) and _is_separable(rows, spec):
        kept: Any = Whole() if spec.n_weights is None else Largest(spec.n_weights)
        numbers = np.flatnonzero(used)
        outcome = _one_by_one(rows, used, spec, None, lambda labels, W: kept.add(numbers[labels], W))
        factors, more = None, {"weights": kept.matrix((d, n_labels)).astype(rows.model_dtype)}
        intercept = constants
        intercept[numbers] = outcome.intercept
    else:
        if start is not None:
            places = xp.nonzero(used)[0]
            start = Start(start.left, take(start.right, places), take(start.intercept, places))
        (found, intercept), outcome, missed = _solved_rows(rows, used, spec, start)
        more = {"compression_gap": missed, "gap": outcome.gap + (missed or 0.0) if spec.certified else None}
        order = xp.where(used, xp.cumulative_sum(xp.astype(used, xp.int64)) - 1, 0)
        factors = found._replace(V=xp.where(used[:, None], xp.take(found.V, order, axis=0), 0.0))
        intercept = xp.where(used, xp.take(intercept, order), constants)
    intercept = with_unseen(intercept, unseen, spec.loss)
    return record(rows, spec, outcome, (factors, intercept), unseen, **more)


def _solved_rows(
    rows: Rows, used: Array, spec: Spec, start: Start | None
) -> tuple[Model, SolverResult, float | None]:
    """Minimise; return the model of the labels in use, how it ended, and what a subspace costs.

    Where hardly anything limits the free singular values, a fit can end near a saddle point and not show it.
    Then it is compared with one that starts from the solution without the penalty.
    """
    if _is_separable(rows, spec):
        outcome = _one_by_one(rows, used, spec, start)
        return (outcome.factors, outcome.intercept), outcome, None
    first = Losses.of(rows, used, spec)
    setting, outcome, missed = _minimise(first, first.inside(start))
    found = setting.model(outcome), outcome, missed
    if start is not None or not setting.is_loose(outcome):
        return found
    scale = loss_scale(rows, spec)
    ridge = scale * spectrum_of(rows, fit_intercept=spec.fit_intercept).ridge_leaving(_LOOSE_SHARE)
    without: dict[str, Any] = {"alpha": 0.0, "theta": 0, "max_rank": None, "certified": False}
    bare = replace(spec, **without, ridge=ridge, solver="auto", callback=None)
    ((U, s, V), intercept), *_ = _solved_rows(rows, used, bare, None)
    rival = _solved_rows(rows, used, spec, Start(U * s, V, intercept))
    return rival if rival[1].objective < (1.0 - (spec.tol or 0.0)) * outcome.objective else found


def _is_separable(rows: Rows, spec: Spec) -> bool:
    """Whether labels may be fitted one by one: rows are in memory, and no penalty joins the labels."""
    # A penalty grows and is concave in each value, so it is 0 for all if it is 0 for some that are positive.
    alone = spec.solver == "auto" and spec.penalty.value(np.ones(min(rows.shape[1:]))) == 0
    in_memory = not rows.only_sums and rows.n_passes is None and rows.place.is_host
    return alone and in_memory and not spec.certified


def _one_by_one(
    rows: Rows, used: Array, spec: Spec, start: Start | None, keep: Callable[[Any, Array], None] | None = None
) -> SolverResult:
    """Solve each label on its own, for rows in memory; the problem serves all fits that may follow."""
    dtype, dual = rows.precision_for(spec.tol or 0.0), rows.shape[1] > rows.shape[0] and start is None

    def make() -> SeparableProblem:
        labelled = replace(rows.select_labels(used), dtype=dtype)
        return SeparableProblem(labelled, spec.loss, fit_intercept=spec.fit_intercept, dual=dual)

    problem = rows.kept("separable", (spec.loss.name, dtype, spec.fit_intercept, dual), make)
    begin = None if start is None else (start.left @ start.right.T, start.intercept)
    problem = problem.with_ridge(float(spec.ridge or 0.0))
    return solve_separable(problem, start=begin, keep=keep, **spec.limits)


@dataclass(frozen=True, eq=False)
class Losses:
    """A loss over rows in spectral coordinates, for the labels in use.

    The rows stay as they are where basis vectors are directions of features; else they are replaced by their
    coordinates, which are few, centred and uncorrelated.
    """

    rows: Rows
    used: Array
    spec: Spec
    coordinates: Coordinates
    shared: RowProblem  # on the coefficients for any ridge

    @classmethod
    def of(cls, rows: Rows, used: Array, spec: Spec) -> Self:
        """Choose the coordinates; make them, and the problem in them, once for all fits that may follow."""
        road, dtype = road_of(rows, spec.road), rows.precision_for(spec.tol or 0.0)
        if road == "compressed" and spec.space == "predictions":
            raise ValueError(
                "in a subspace, space='predictions' needs the squared loss with all labels known. Use "
                "space='coefficients', or solver='primal' or 'dual'."
            )

        def make() -> tuple[Coordinates, RowProblem]:
            ridge = float(spec.ridge or 0.0) / loss_scale(rows, spec)
            asked: dict[str, Any] = {"fit_intercept": spec.fit_intercept, "ridge": ridge, "road": road}
            space = coordinates_of(rows, extensible=True, **asked)
            return space, _problem(rows, used, spec, space, dtype)

        key = (spec.loss.name, spec.fit_intercept, road, dtype)
        parts = rows.kept("losses", key, make) if spec.space == "coefficients" else make()
        return cls(rows, used, spec, *parts)

    def solve(self, start: Start | None) -> SolverResult:
        """Solve, from a point in the coordinates if there is one."""
        spec, problem = self.spec, self.problem
        return solve_rows(
            problem,
            spec.penalty,
            solver="apg" if spec.solver == "apg" else "auto",
            start=None if start is None else problem.recalled(problem.compress(*start)),
            rank=None if start is None else start.left.shape[1],
            **spec.limits,
        )

    @cached_property
    def problem(self) -> RowProblem:
        """The problem with the ridge, on which the scale of predictions depends."""
        spec = self.spec
        return self.shared if spec.space == "predictions" else self.shared.with_ridge(spec.ridge or 0.0)

    def inside(self, start: Start | None) -> Start | None:
        """Return a start in the space of the model as the problem takes it."""
        if start is None or self.coordinates.is_plain:
            return start
        shift = start.right @ (self.coordinates.x_mean @ start.left)
        return Start(self.coordinates.inside(start.left), start.right, start.intercept + shift)

    def model(self, outcome: SolverResult) -> Model:
        """Return factors and intercepts of a solution in the space of the model."""
        intercept = self.problem.intercept(outcome.solution)
        if self.coordinates.is_plain:
            return outcome.factors, intercept
        (U, s, V), space = outcome.factors, self.coordinates
        left = space.lift.model_side(space.basis @ U)
        return Factors(left, s, V), intercept - V @ (s * (space.x_mean @ left))

    def missed(self, outcome: SolverResult, gained: float) -> tuple[float, Array | None]:
        """Return what the subspace costs, over the objective, and vectors to add if that is too much.

        ``gained`` is what the last extension has brought.
        """
        spec, space, unit = self.spec, self.coordinates, outcome.objective or 1.0
        _, s, V = outcome.factors
        slopes = self.problem.slopes(outcome.solution)
        ridge = float(spec.ridge or 0.0)
        least = _LEAST_SHIFT * loss_scale(self.rows, spec) * space.subspace.unit
        costs = spec.penalty.slopes(np.append(s, 0.0))
        shifts = np.maximum(ridge + 0.5 * costs[:-1] / s, least)
        held, allowed = float(costs[-1]), _enough(spec)
        missed, further = space.subspace.gap_of_slopes(
            slopes, V, shifts, max(ridge, least), held, allowed * unit
        )
        bound = missed / unit
        gap = min(bound, max(_TO_COME * gained, bound / _LOOSENESS))
        return gap, None if gap <= allowed else further

    def larger(self, outcome: SolverResult, further: Array) -> tuple[Self, Start]:
        """Return the problem in a larger subspace, and the solution so far in it."""
        left, V = outcome.factors.U * outcome.factors.s, outcome.factors.V
        space = self.coordinates.extended(further)
        if not space.is_plain:
            left = self.coordinates.carry(left, space)
        shared = _problem(self.rows, self.used, self.spec, space, self.shared.rows.dtype)
        self.rows.cache["losses"] = self.rows.cache["losses"][0], (space, shared)
        start = Start(left, V, self.problem.intercept(outcome.solution))
        return replace(self, coordinates=space, shared=shared), start

    def is_loose(self, outcome: SolverResult) -> bool:
        """Whether a solution says that it has converged, without a ridge that makes this credible."""
        spec = self.spec
        if spec.tail.n_free == 0 or spec.loss.name == "squared" or spec.space == "predictions":
            return False
        values = self.shared.spread[1:, 0]
        ridge = float(spec.ridge or 0.0) / loss_scale(self.rows, spec)
        left = float(namespace(values).mean(values / (values + ridge)))
        return outcome.status in SUCCESSES and left > _LOOSE_SHARE


def _enough(spec: Spec) -> float:
    """Return what a subspace may cost, as a share of the objective."""
    return max(_MOST_MISSED, _MISSED_PER_TOL * (spec.tol or 0.0))


def _problem(rows: Rows, used: Array, spec: Spec, space: Coordinates, dtype: Any) -> RowProblem:
    """Return the problem of the labels in use, of the rows as they are or of their coordinates."""
    if not space.is_plain:
        rows = replace(rows, X=rows.place.asarray(space.of_rows(rows.X), dtype), sums=None)
    how: dict[str, Any] = {"fit_intercept": spec.fit_intercept, "space": spec.space, "coordinates": space}
    return RowProblem(rows.select_labels(used).with_precision(dtype), spec.loss, spec.ridge or 0.0, **how)
