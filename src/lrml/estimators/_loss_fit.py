"""Losses over rows, which every step reads: in coordinates by size, or label by label without a penalty.

Proximal Newton needs spectral coordinates (`lrml.core.coordinates`). In a subspace a solution is W = X̂ᵀA with

::

    A (ridge + c_j / 2σ_j) v_j = −½ S v_j,    S the slopes of the loss at the solution (n × L),

so the slopes at the solutions of two ridges, without the penalty, are a good subspace to begin with. The
slopes at the solution inside tell what it costs, at most, and how to extend it. Where many fits follow each
other, all begin with the subspace that the last one has left.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np

from lrml.core.arrays import Array, is_sparse, namespace
from lrml.core.coordinates import Coordinates, coordinates_of, road_of, spanned_by_slopes
from lrml.core.linalg import Factors
from lrml.core.loss_problem import Axes, RowProblem
from lrml.core.rows import Rows
from lrml.core.subspace import check_unit
from lrml.estimators._defaults import Spec, loss_scale
from lrml.estimators._fitted import Start
from lrml.solvers import SUCCESSES, SeparableProblem, SolverResult, slopes_at, solve_rows, solve_separable

# Single-precision scores give the objective to 2e-7, which suffices for gaps down to this.
_SINGLE_PRECISION_FROM = 1e-5
# The ridges whose solutions span a subspace: the least one in units of the mean eigenvalue, and their ratio.
_LEAST_SHIFT, _RATIO, _SPAN_TOL = 0.03, 10.0, 1e-2
# A ridge that leaves more than this share of the effective directions limits nothing.
LOOSE_SHARE = 0.998
# A subspace is extended until it costs at most this share of the objective, or so many times ``tol``.
_MOST_MISSED, _MISSED_PER_TOL = 1e-3, 5.0
# With a small ridge the bound is too large, mostly by up to so many times. So what the last extension has
# gained counts, times a factor for all further ones, but never less than the bound over this.
_LOOSENESS, _TO_COME = 10.0, 2.0


@dataclass(frozen=True, eq=False)
class Losses:
    """A loss over rows in spectral coordinates, for the labels in use.

    On the way through XᵀX the rows stay as they are; else they are replaced by their coordinates, which are
    few, centred and uncorrelated.
    """

    rows: Rows
    used: Array
    spec: Spec
    coordinates: Coordinates
    shared: RowProblem  # on the coefficients for any ridge
    first: Start | None  # a point to begin with, in the space of the model
    replaced: bool

    @classmethod
    def of(cls, rows: Rows, used: Array, spec: Spec, start: Start | None) -> Self:
        """Choose the coordinates; make them, and the problem in them, once for all fits that may follow."""
        road, dtype = road_of(rows, spec.road), _precision(rows, spec)
        if road == "compressed" and spec.space == "predictions":
            raise ValueError(
                "in a subspace, space='predictions' needs the squared loss with all labels known. Use "
                "space='coefficients', or solver='primal' or 'dual'."
            )

        def make() -> tuple[Coordinates, RowProblem, Start | None]:
            if road == "compressed":
                space, first = _first_space(rows, used, spec, start)
            else:
                space, first = coordinates_of(rows, fit_intercept=spec.fit_intercept, road=road), None
            if road != "primal":
                return space, _replaced(rows, used, spec, space, dtype), first
            axes = Axes(space.problem.rows, space.basis, space.x_mean @ space.basis)
            return space, _problem(rows, used, spec, axes, dtype), first

        key = (spec.loss.name, spec.fit_intercept, road, dtype)
        parts = rows.kept("losses", key, make) if spec.space == "coefficients" else make()
        return cls(rows, used, spec, *parts, replaced=road != "primal")

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
        """Return a start in the space of the model, or that of the subspace, as the problem takes it."""
        start = self.first if start is None else start
        if start is None or not self.replaced:
            return start
        shift = start.right @ (self.coordinates.x_mean @ start.left)
        return Start(self.coordinates.inside(start.left), start.right, start.intercept + shift)

    def model(self, outcome: SolverResult) -> tuple[Factors, Array]:
        """Return factors and intercepts of a solution in the space of the model."""
        intercept = self.problem.intercept(outcome.solution)
        if not self.replaced:
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
        slopes = slopes_at(
            self.shared.rows, spec.loss, outcome.solution[1:], self.problem.intercept(outcome.solution)
        )
        # With hardly any ridge, the curvature of the loss limits steps: the least shift stands for it.
        ridge, least = float(spec.ridge or 0.0), _least_shift(self.rows, spec, 0.0)
        costs = spec.penalty.slopes(np.append(s, 0.0))
        shifts = np.maximum(ridge + 0.5 * costs[:-1] / s, least)
        held, allowed = float(costs[-1]), enough(spec)
        found = space.missed_by(slopes, self.rows.weights, V, shifts, max(ridge, least), held, allowed * unit)
        bound = found.gap / unit
        gap = min(bound, max(_TO_COME * gained, bound / _LOOSENESS))
        return gap, None if gap <= allowed else found.further

    def larger(self, outcome: SolverResult, further: Array) -> tuple[Self, Start]:
        """Return the problem in a larger subspace, and the solution so far in it."""
        space = self.coordinates.extended(further)
        U, s, V = outcome.factors
        left = self.coordinates.carry(U * s, space)
        shared = _replaced(self.rows, self.used, self.spec, space, self.shared.rows.dtype)
        self.rows.cache["losses"] = self.rows.cache["losses"][0], (space, shared, None)
        start = Start(left, V, self.problem.intercept(outcome.solution))
        return replace(self, coordinates=space, shared=shared), start

    def is_loose(self, outcome: SolverResult) -> bool:
        """Whether a solution says that it has converged, without a ridge that makes this credible."""
        spec = self.spec
        if spec.tail.n_free == 0 or spec.loss.name == "squared" or spec.space == "predictions":
            return False
        values = self.shared.spread[1:, 0]
        ridge = float(spec.ridge or 0.0) / loss_scale(self.rows, spec.loss, fit_intercept=spec.fit_intercept)
        left = float(namespace(values).mean(values / (values + ridge)))
        return outcome.status in SUCCESSES and left > LOOSE_SHARE


def enough(spec: Spec) -> float:
    """Return what a subspace may cost, as a share of the objective."""
    return max(_MOST_MISSED, _MISSED_PER_TOL * (spec.tol or 0.0))


def _problem(rows: Rows, used: Array, spec: Spec, axes: Axes, dtype: Any) -> RowProblem:
    labelled = rows.select_labels(used).with_precision(dtype)
    how: dict[str, Any] = {"fit_intercept": spec.fit_intercept, "space": spec.space, "axes": axes}
    return RowProblem(labelled, spec.loss, spec.ridge or 0.0, **how)


def _replaced(rows: Rows, used: Array, spec: Spec, space: Coordinates, dtype: Any) -> RowProblem:
    """Return the problem of rows in coordinates."""
    X = rows.place.asarray(space.of_rows(rows.X), dtype)
    axes = Axes(space.problem.rows, None, namespace(X).zeros_like(space.problem.rows))
    return _problem(replace(rows, X=X, sums=None), used, spec, axes, dtype)


def _least_shift(rows: Rows, spec: Spec, ridge: float) -> float:
    """Return the ridge, or the least one for which a subspace is made."""
    X, weight = rows.X, rows.total_weight / rows.shape[0]
    squares = X.multiply(X).sum() if is_sparse(X) else np.sum(X * X)
    unit = check_unit(weight * float(squares) / min(X.shape) or 1.0)
    return max(ridge, _LEAST_SHIFT * loss_scale(rows, spec.loss, fit_intercept=spec.fit_intercept) * unit)


def _first_space(
    rows: Rows, used: Array, spec: Spec, start: Start | None
) -> tuple[Coordinates, Start | None]:
    """Return the span of slopes, and a point to begin with.

    These are the slopes at two solutions without the penalty, or at the start and at one of them.
    """
    least = _least_shift(rows, spec, float(spec.ridge or 0.0))
    labelled = replace(rows.select_labels(used), dtype=np.float32)
    dual = rows.shape[1] > rows.shape[0]
    problem = SeparableProblem(labelled, spec.loss, fit_intercept=spec.fit_intercept, dual=dual)
    slopes, ridges = [], [_RATIO * least, least]
    if start is not None:
        left, right = (side.astype(labelled.dtype) for side in start[:2])
        slopes.append(slopes_at(labelled, spec.loss, left @ right.T, start.intercept))
        ridges = [math.sqrt(_RATIO) * least]
    for ridge in ridges:
        found = solve_separable(problem.with_ridge(ridge), tol=_SPAN_TOL, max_iter=20)
        W, intercept = found.result.solution, found.intercept
        slopes.append(slopes_at(labelled, spec.loss, W, intercept))
    space = spanned_by_slopes(rows, slopes, fit_intercept=spec.fit_intercept)
    return space, None if start is not None else Start(W, np.eye(W.shape[1]), intercept)


# Label by label


def is_separable(rows: Rows, spec: Spec) -> bool:
    """Whether a fit is one of every label on its own, in memory."""
    in_memory = rows.n_passes is None and rows.place.is_host
    # A penalty grows and is concave in each value, so it is 0 for all if it is 0 for some that are positive.
    alone = spec.penalty.value(np.ones(min(rows.shape[1:]))) == 0
    return in_memory and alone and spec.solver == "auto" and not spec.certified


def separable(
    rows: Rows, used: Array, spec: Spec, start: Start | None
) -> tuple[Factors, Array, SolverResult]:
    """Solve label by label; return factors, intercepts and how it ended."""
    dtype, dual = _precision(rows, spec), rows.shape[1] > rows.shape[0] and start is None

    def make() -> SeparableProblem:
        labelled = replace(rows.select_labels(used), dtype=dtype)
        return SeparableProblem(labelled, spec.loss, fit_intercept=spec.fit_intercept, dual=dual)

    key = (spec.loss.name, dtype, spec.fit_intercept, dual)
    found = solve_separable(
        rows.kept("separable", key, make).with_ridge(float(spec.ridge or 0.0)),
        start=None if start is None else (start.left @ start.right.T, start.intercept),
        **spec.limits,
    )
    return found.result.factors, found.intercept, found.result


def _precision(rows: Rows, spec: Spec) -> Any:
    """Return the type of scores: single, if the tolerance allows it, and the features.

    Scores of features that are not centred are differences of large numbers. If features differ much in
    scale, rounding errors would swamp the smaller ones. Squares must not overflow, whatever the weights.
    """
    if (spec.tol or 0.0) < _SINGLE_PRECISION_FROM:
        return np.float64
    low, high = rows.ranges
    xp = namespace(low)
    size, spread, varies = xp.maximum(xp.abs(low), xp.abs(high)), high - low, low != high
    alike = xp.max(spread) <= 1e3 * xp.min(xp.where(varies, spread, xp.inf))
    weight = rows.total_weight / rows.shape[0]
    largest = 1e15 * min(weight, 1.0 / weight)
    moderate = (size <= 100 * spread) & (size < largest) & (size * largest > 1.0)
    return np.float32 if bool(alike & xp.all(moderate | ~varies)) else np.float64
