"""Fits that read the rows, for other losses and unknown labels: coordinates by size, solver by penalty.

Without a penalty on singular values, labels are solved one by one (`lrml.solvers.separable`). With one,
proximal Newton needs spectral coordinates (`lrml.core.coordinates`). In a subspace a solution is W = X̂ᵀA with

::

    A (ridge + c_j / 2σ_j) v_j = −½ S v_j,    S the slopes of the loss at the solution (n × L),

so the slopes at the solutions of two ridges, without the penalty, are a good subspace to begin with. The
slopes at the solution inside tell what it costs, at most, and how to extend it. Where many fits follow each
other, all begin with the subspace that the last one has left.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from lrml.core.arrays import Array, is_sparse, namespace, take
from lrml.core.coordinates import (
    Coordinates,
    coordinates_of,
    road_of,
    spanned_by_slopes,
    spectrum_of,
    with_unseen,
)
from lrml.core.linalg import Factors
from lrml.core.loss_problem import Axes, RowProblem
from lrml.core.rows import Rows
from lrml.core.subspace import check_unit
from lrml.estimators._defaults import loss_scale, sort_labels
from lrml.estimators._spec import Solution, Spec, Start
from lrml.solvers import (
    SUCCESSES,
    History,
    IterationInfo,
    SeparableProblem,
    SolverResult,
    Status,
    row_duality_gap,
    slopes_at,
    solve_rows,
    solve_separable,
)

_Made = TypeVar("_Made")

# Single-precision scores give the objective to 2e-7, which suffices for gaps down to this.
_SINGLE_PRECISION_FROM = 1e-5
# The ridges whose solutions span a subspace: the least one in units of the mean eigenvalue, and their ratio.
_LEAST_SHIFT, _RATIO, _SPAN_TOL = 0.03, 10.0, 1e-2
# A ridge that leaves more than this share of the effective directions limits nothing.
_LOOSE_SHARE = 0.998
# A subspace is extended until it costs at most this share of the objective, or so many times ``tol``.
_MOST_MISSED, _MISSED_PER_TOL, _MOST_EXTENSIONS = 1e-3, 5.0, 4
# With a small ridge the bound is too large, mostly by up to so many times. So what the last extension has
# gained counts, times a factor for all further ones, but never less than the bound over this.
_LOOSENESS, _TO_COME = 10.0, 2.0


def enough(spec: Spec) -> float:
    """Return what a subspace may cost, as a share of the objective."""
    return max(_MOST_MISSED, _MISSED_PER_TOL * (spec.tol or 0.0))


def fit(rows: Rows, spec: Spec, start: Start | None) -> Solution:
    """Minimise any loss, with or without unknown labels: every iteration reads the rows."""
    xp = rows.place.xp
    if not bool(xp.any(rows.label_totals()[0] != 0)):
        raise ValueError(
            "some label must be known in a row with a positive weight, got none. Check sample_weight."
        )
    unseen, used, intercept = sort_labels(rows, spec.loss, fit_intercept=spec.fit_intercept)
    if not bool(xp.any(used)):
        return _nothing_to_learn(rows, spec, unseen, intercept)
    if start is not None:
        places = xp.nonzero(used)[0]
        start = Start(start.left, take(start.right, places), take(start.intercept, places))
    work = _LossFit(rows, used, spec)
    found = work.separable(start) if work.is_separable else work.penalised(start)
    gap = None
    if spec.certified:
        assert found.problem is not None
        gap = row_duality_gap(found.problem, spec.tail.alpha, found.result.solution)
    factors = found.factors._replace(V=_with_used(found.factors.V, used, 0.0))
    intercept = with_unseen(_with_used(found.intercept, used, intercept), unseen, spec.loss)
    return Solution(factors, intercept, unseen, found.result, gap, found.missed)


def _with_used(some: Array, used: Array, others: Array) -> Array:
    """Return one row per label: the next one of ``some`` if the label is used, that of ``others`` if not."""
    xp = namespace(some)
    order = xp.cumulative_sum(xp.astype(used, xp.int64)) - 1
    rows = xp.take(some, xp.where(used, order, 0), axis=0)
    return xp.where(used if some.ndim == 1 else used[:, None], rows, others)


def _nothing_to_learn(rows: Rows, spec: Spec, unseen: Array, constants: Array) -> Solution:
    """Return the outcome if no label needs coefficients."""
    zeros, (_, d, n_labels) = rows.place.zeros, rows.shape
    factors = Factors(zeros((d, 0)), zeros(0), zeros((n_labels, 0)))
    history = History([IterationInfo(0, "closed form", 0.0, 0.0, 0, 0.0, 0.0)])
    outcome = SolverResult(zeros((0, n_labels)), factors, Status.EXACT, 0, 0.0, 0.0, 0.0, history)
    proven = 0.0 if spec.certified else None
    return Solution(factors, with_unseen(constants, unseen, spec.loss), unseen, outcome, proven)


class _Found(NamedTuple):
    """A solution in the space of the model, for the labels in use."""

    factors: Factors
    intercept: Array
    result: SolverResult
    problem: RowProblem | None = None  # None if labels were solved one by one
    missed: float | None = None  # what a subspace costs, over the objective


@dataclass(frozen=True, eq=False)
class _LossFit:
    """A fit to the labels in use."""

    rows: Rows
    used: Array
    spec: Spec

    @property
    def ridge(self) -> float:
        """The ridge."""
        return float(self.spec.ridge or 0.0)

    @property
    def _limits(self) -> dict[str, Any]:
        return {"max_iter": self.spec.max_iter, "tol": self.spec.tol, "callback": self.spec.callback}

    @property
    def is_separable(self) -> bool:
        """Whether it is one of every label on its own, in memory."""
        spec, slopes = self.spec, self.spec.penalty.slopes(np.ones(min(self.rows.shape[1:])))
        alone = not np.any(slopes) and spec.solver == "auto" and not spec.certified
        return alone and self._in_memory

    @property
    def _in_memory(self) -> bool:
        return self.rows.n_passes is None and self.rows.place.is_host

    def separable(self, start: Start | None) -> _Found:
        """Solve label by label; there must be no penalty."""
        n, d, _ = self.rows.shape
        spec, dual = self.spec, d > n and start is None
        sides = {"fit_intercept": spec.fit_intercept, "dual": dual}

        def make() -> SeparableProblem:
            return SeparableProblem(self._labelled(self._dtype), spec.loss, **sides)

        key = (spec.loss.name, self._dtype, spec.fit_intercept, dual)
        solution = solve_separable(
            self.rows.kept("separable", key, make).with_ridge(self.ridge),
            start=None if start is None else (start.left @ start.right.T, start.intercept),
            **self._limits,
        )
        return _Found(solution.result.factors, solution.intercept, solution.result)

    def penalised(self, start: Start | None) -> _Found:
        """Solve with the penalty.

        Where hardly anything limits the free singular values, a fit can end near a saddle point and not show
        it. Then it is compared with one that starts from the solution without the penalty.
        """
        found = self._penalised(start)
        if start is not None or not self._is_loose(found):
            return found
        scale, spec = loss_scale(self.rows, self.spec.loss, fit_intercept=self.spec.fit_intercept), self.spec
        ridge = scale * spectrum_of(self.rows, fit_intercept=spec.fit_intercept).ridge_leaving(_LOOSE_SHARE)
        without = replace(spec.quiet(), alpha=0.0, theta=0, max_rank=None, ridge=ridge, certified=False)
        bare = replace(self, spec=without)
        U, s, V = (first := bare.separable(None) if self._in_memory else bare._penalised(None)).factors
        rival = self._penalised(Start(U * s, V, first.intercept))
        better = rival.result.objective < (1.0 - (spec.tol or 0.0)) * found.result.objective
        return rival if better else found

    def _is_loose(self, found: _Found) -> bool:
        """Whether a fit says that it has converged, without a ridge that makes this credible."""
        spec = self.spec
        if spec.penalty.n_free == 0 or spec.loss.name == "squared" or found.problem is None:
            return False
        values = found.problem.spread[1:, 0]
        ridge = self.ridge / loss_scale(self.rows, spec.loss, fit_intercept=spec.fit_intercept)
        left = float(namespace(values).mean(values / (values + ridge)))
        return found.result.status in SUCCESSES and left > _LOOSE_SHARE

    def _penalised(self, start: Start | None) -> _Found:
        """Solve with the penalty once."""
        road, spec = road_of(self.rows, self.spec.road), self.spec
        if road == "compressed":
            return self._compressed(start)
        space = coordinates_of(self.rows, fit_intercept=spec.fit_intercept, road=road)
        key = (spec.loss.name, road, spec.fit_intercept, self._dtype)
        if road == "dual":
            inner = self._shared("dual", key, lambda: self._inside(space))
            return self._outward(space, *self._solve(inner, self._moved(space, start)))
        Q = space.basis
        axes = Axes(space.problem.rows, Q, space.x_mean @ Q)
        problem = self.rows.kept("row problem", key, lambda: self._problem(self.rows, axes))
        problem, result = self._solve(problem, start)
        return _Found(result.factors, problem.intercept(result.solution), result, problem)

    def _shared(self, kind: str, key: Any, make: Callable[[], _Made]) -> _Made:
        """Make something large, and keep it for further fits if there may be any."""
        return self.rows.kept(kind, key, make) if self.spec.again else make()

    @property
    def _dtype(self) -> type[np.floating[Any]]:
        single = (self.spec.tol or 0.0) >= _SINGLE_PRECISION_FROM and _suits_single_precision(
            *self.rows.ranges
        )
        return np.float32 if single else np.float64

    def _labelled(self, dtype: type[np.floating[Any]]) -> Rows:
        """Return the rows with the labels in use, and the precision of their scores."""
        return replace(self.rows.select_labels(self.used), dtype=dtype)

    def _problem(self, rows: Rows, axes: Axes) -> RowProblem:
        labelled = rows.select_labels(self.used).with_precision(self._dtype)
        return RowProblem(labelled, self.spec.loss, fit_intercept=self.spec.fit_intercept, axes=axes)

    def _inside(self, space: Coordinates) -> RowProblem:
        """Return the problem of rows in coordinates, which are few, centred and uncorrelated."""
        X = self.rows.place.asarray(space.of_rows(self.rows.X), self._dtype)
        axes = Axes(space.problem.rows, None, namespace(X).zeros_like(space.problem.rows))
        return self._problem(replace(self.rows, X=X, sums=None), axes)

    def _solve(self, shared: RowProblem, start: Start | None) -> tuple[RowProblem, SolverResult]:
        problem, spec = shared.with_ridge(self.ridge), self.spec
        result = solve_rows(
            problem,
            spec.penalty,
            solver="apg" if spec.solver == "apg" else "auto",
            start=None if start is None else problem.recalled(problem.compress(*start)),
            rank=None if start is None else start.left.shape[1],
            **self._limits,
        )
        return problem, result

    def _moved(self, space: Coordinates, start: Start | None) -> Start | None:
        """Return a start in the coordinates of a space."""
        if start is None:
            return None
        shift = start.right @ (space.x_mean @ start.left)
        return Start(space.inside(start.left), start.right, start.intercept + shift)

    def _outward(self, space: Coordinates, problem: RowProblem, result: SolverResult) -> _Found:
        """Map a solution in the coordinates of a space back."""
        U, s, V = result.factors
        left = space.lift.model_side(space.basis @ U)
        intercept = problem.intercept(result.solution) - V @ (s * (space.x_mean @ left))
        return _Found(Factors(left, s, V), intercept, result, problem)

    def _compressed(self, start: Start | None) -> _Found:
        """Solve in a subspace, and extend it until it costs little; further fits begin with the last one."""
        rows, spec = self.rows, self.spec
        key = (spec.loss.name, spec.fit_intercept, self._dtype)
        space, shared, bare = self._shared("subspace", key, lambda: self._first_space(start))
        problem, result = self._solve(shared, bare if start is None else self._moved(space, start))
        gained, n_iter = math.inf, result.n_iter
        for extension in range(1 + _MOST_EXTENSIONS):
            U, s, V = result.factors
            intercept = problem.intercept(result.solution)
            slopes = slopes_at(problem.rows, spec.loss, result.solution[1:], intercept)
            before, unit = result.objective, result.objective or 1.0
            missed = space.missed_by(slopes, rows.weights, V, *self._shifts(s), enough(spec) * unit)
            bound = missed.gap / unit
            gap = min(bound, max(_TO_COME * gained, bound / _LOOSENESS))
            last = extension == _MOST_EXTENSIONS or result.status is Status.STOPPED
            if missed.further is None or gap <= enough(spec) or last:
                break
            larger = space.extended(missed.further)
            left = space.carry(U * s, larger)
            space, shared = larger, self._inside(larger)
            if spec.again:
                rows.cache["subspace"] = key, (space, shared, None)
            problem, result = self._solve(shared, Start(left, V, intercept))
            gained, n_iter = max(before - result.objective, 0.0) / unit, n_iter + result.n_iter
        result = replace(result, n_iter=n_iter)
        return self._outward(space, problem, result)._replace(missed=gap)

    def _shifts(self, s: Array) -> tuple[Array, float, float]:
        """Return ridge + c_j / 2σ_j, the ridge, and what holds a further singular value at zero.

        With hardly any ridge, the curvature of the loss limits steps: the least shift stands for it.
        """
        slopes, least = self.spec.penalty.slopes(np.append(s, 0.0)), self._least_shift(0.0)
        shifts = np.maximum(self.ridge + 0.5 * slopes[:-1] / s, least)
        return shifts, max(self.ridge, least), float(slopes[-1])

    def _least_shift(self, ridge: float) -> float:
        """Return the ridge, or the least one for which a subspace is made."""
        X, fit_intercept = self.rows.X, self.spec.fit_intercept
        squares = X.multiply(X).sum() if is_sparse(X) else np.sum(X * X)
        unit = check_unit(float(squares) / min(X.shape) or 1.0)
        scale = loss_scale(self.rows, self.spec.loss, fit_intercept=fit_intercept)
        return max(ridge, _LEAST_SHIFT * scale * unit)

    def _first_space(self, start: Start | None) -> tuple[Coordinates, RowProblem, Start | None]:
        """Return the span of slopes, the problem in it, and a point to begin with.

        These are the slopes at two solutions without the penalty, or at the start and at one of them.
        """
        (n, d, _), spec, least = self.rows.shape, self.spec, self._least_shift(self.ridge)
        rows = self._labelled(np.float32)
        problem = SeparableProblem(rows, spec.loss, fit_intercept=spec.fit_intercept, dual=d > n)
        slopes, ridges = [], [_RATIO * least, least]
        if start is not None:
            left, right = (side.astype(rows.dtype) for side in start[:2])
            slopes.append(slopes_at(rows, spec.loss, left @ right.T, start.intercept))
            ridges = [math.sqrt(_RATIO) * least]
        for ridge in ridges:
            found = solve_separable(problem.with_ridge(ridge), tol=_SPAN_TOL, max_iter=20)
            W, intercept = found.result.solution, found.intercept
            slopes.append(slopes_at(rows, spec.loss, W, intercept))
        space = spanned_by_slopes(self.rows, slopes, fit_intercept=spec.fit_intercept)
        first = None if start is not None else self._moved(space, Start(W, np.eye(W.shape[1]), intercept))
        return space, self._inside(space), first


def _suits_single_precision(low: Array, high: Array) -> bool:
    """Whether no feature is far from zero relative to its spread, or too large or small for float32 squares.

    Scores of features that are not centred are differences of large numbers. If features differ much in
    scale, rounding errors would swamp the smaller ones.
    """
    xp = namespace(low)
    size, spread, varies = xp.maximum(xp.abs(low), xp.abs(high)), high - low, low != high
    alike = xp.max(spread) <= 1e3 * xp.min(xp.where(varies, spread, xp.inf))
    moderate = (size <= 100 * spread) & (size < 1e15) & (size > 1e-15)
    return bool(alike & xp.all(moderate | ~varies))
