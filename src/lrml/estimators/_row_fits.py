"""Fits that read the rows, for other losses and unknown labels: coordinates by size, solver by penalty.

Without a penalty on singular values, labels are solved one by one (`lrml.solvers.separable`). With one,
proximal Newton needs spectral coordinates. Up to 3,000 features these are eigenvectors of XᵀX, up to 3,000
rows those of XXᵀ. Beyond, they span a subspace. A solution is W = X̂ᵀA with

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

from lrml.core.arrays import Array, descending_eigh, is_sparse, namespace
from lrml.core.loss_problem import RowProblem
from lrml.core.penalties import TailSum
from lrml.core.rows import Rows
from lrml.core.subspace import check_unit
from lrml.estimators._fitting import TrainingData
from lrml.estimators._grid import loss_scale
from lrml.estimators._space import MOST_EXTENSIONS, InSubspace, Space
from lrml.solvers import (
    SUCCESSES,
    Callback,
    Factors,
    SeparableProblem,
    SolverResult,
    Status,
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
_MOST_MISSED, _MISSED_PER_TOL = 1e-3, 5.0
# Directions that together cost less than this share of that are not among those it is extended by.
_LEFT_OUT = 0.25
# With a small ridge the bound is too large, mostly by up to so many times. So what the last extension has
# gained counts, times a factor for all further ones, but never less than the bound over this.
_LOOSENESS, _TO_COME = 10.0, 2.0


class Start(NamedTuple):
    """Coefficients left rightᵀ and intercepts to begin with, of the labels in use."""

    left: Array
    right: Array
    intercept: Array


class RowSolution(NamedTuple):
    """A solution in the original space, for the labels in use."""

    factors: Factors
    intercept: Array
    result: SolverResult
    problem: RowProblem | None  # None if labels were solved one by one
    extras: dict[str, float]


@dataclass(frozen=True, eq=False)
class RowFit:
    """What a fit by rows is given."""

    data: TrainingData
    used: Array  # labels with something to learn
    penalty: TailSum
    ridge: float
    fit_intercept: bool
    solver: str
    max_iter: int
    tol: float
    callback: Callback | None
    again: bool = False  # whether further fits to the same rows may follow

    @property
    def enough(self) -> float:
        """What a subspace may cost, as a share of the objective."""
        return max(_MOST_MISSED, _MISSED_PER_TOL * self.tol)

    def separable(self, start: Start | None) -> RowSolution:
        """Solve label by label; there must be no penalty."""
        n, d = self.data.X.shape
        sides = {"fit_intercept": self.fit_intercept, "dual": d > n and start is None}
        shared = self.data.separable_problem(self.used, self._dtype, **sides)
        solution = solve_separable(
            shared.with_ridge(self.ridge),
            start=None if start is None else (start.left @ start.right.T, start.intercept),
            max_iter=self.max_iter,
            tol=self.tol,
            callback=self.callback,
        )
        return RowSolution(solution.result.factors, solution.intercept, solution.result, None, {})

    def penalised(self, start: Start | None, road: str) -> RowSolution:
        """Solve with the penalty, in the coordinates of a road.

        Where hardly anything limits the free singular values, a fit can end near a saddle point and not show
        it. Then it is compared with one that starts from the solution without the penalty.
        """
        found = self._on(road, start)
        if start is not None or not self._is_loose(found):
            return found
        scale = loss_scale(self.data, fit_intercept=self.fit_intercept)
        ridge = scale * self.data.spectrum(fit_intercept=self.fit_intercept).ridge_leaving(_LOOSE_SHARE)
        bare = replace(self, ridge=ridge, callback=None)._bare()
        U, s, V = bare.factors
        rival = self._on(road, Start(U * s, V, bare.intercept))
        better = rival.result.objective < (1.0 - self.tol) * found.result.objective
        return rival if better else found

    def _bare(self) -> RowSolution:
        """Solve without the penalty."""
        if self.data.n_passes is None and self.data.place.is_host:
            return self.separable(None)
        road = "primal" if self.data.place.is_host else self.data.road()
        return replace(self, penalty=TailSum(theta=0, alpha=0.0))._on(road, None)

    def _is_loose(self, found: RowSolution) -> bool:
        """Whether a fit says that it has converged, without a ridge that makes this credible."""
        if self.penalty.n_free == 0 or self.data.loss.name == "squared" or found.problem is None:
            return False
        values = found.problem.spread[1:, 0]
        ridge = self.ridge / loss_scale(self.data, fit_intercept=self.fit_intercept)
        left = float(namespace(values).mean(values / (values + ridge)))
        return found.result.status in SUCCESSES and left > _LOOSE_SHARE

    def _on(self, road: str, start: Start | None) -> RowSolution:
        """Solve with the penalty once."""
        if road == "primal":
            problem, result = self._solve(self.data, start)
            return RowSolution(result.factors, problem.intercept(result.solution), result, problem, {})
        if road == "compressed":
            return self._compressed(start)
        space = self.data.space(fit_intercept=self.fit_intercept, road=road)
        inner = self._shared(
            "coordinates", (road, self.fit_intercept, self._dtype), lambda: self._inner(space)
        )
        return self._outside(space, *self._solve(inner, self._start(space, start)))

    def _shared(self, kind: str, key: Any, make: Callable[[], _Made]) -> _Made:
        """Make something large, and keep it for further fits if there may be any."""
        return self.data.once(kind, key, make) if self.again else make()

    @property
    def _dtype(self) -> type[np.floating[Any]]:
        single = self.tol >= _SINGLE_PRECISION_FROM and _suits_single_precision(*self.data.ranges)
        return np.float32 if single else np.float64

    def _solve(self, data: TrainingData, start: Start | None) -> tuple[RowProblem, SolverResult]:
        shared = data.row_problem(self.used, self._dtype, fit_intercept=self.fit_intercept)
        problem = shared.with_ridge(self.ridge)
        result = solve_rows(
            problem,
            self.penalty,
            solver=self.solver if self.solver == "apg" else "auto",
            start=None if start is None else problem.recalled(problem.compress(*start)),
            rank=None if start is None else start.left.shape[1],
            max_iter=self.max_iter,
            tol=self.tol,
            callback=self.callback,
        )
        return problem, result

    def _inner(self, space: Space) -> TrainingData:
        """Return the same data with rows in the coordinates of a space, which are few and centred."""
        X = self.data.place.asarray(space.coordinates(self.data.X), self._dtype)
        return replace(self.data, X=X, summed_up=None)

    def _start(self, space: Space, start: Start | None) -> Start | None:
        """Return a start in the coordinates of a space."""
        if start is None:
            return None
        shift = start.right @ (space.x_mean @ start.left)
        return Start(space.inside(start.left), start.right, start.intercept + shift)

    def _outside(self, space: Space, problem: RowProblem, result: SolverResult) -> RowSolution:
        """Map a solution in the coordinates of a space back."""
        U, s, V = result.factors
        left = space.model_side(space.problem.features @ U)
        intercept = problem.intercept(result.solution) - V @ (s * (space.x_mean @ left))
        return RowSolution(Factors(left, s, V), intercept, result, problem, {})

    def _compressed(self, start: Start | None) -> RowSolution:
        """Solve in a subspace, and extend it until it costs little; further fits begin with the last one."""
        key = self.fit_intercept, self._dtype
        space, inner, bare = self._shared("subspace", key, lambda: self._first_space(start))
        problem, result = self._solve(inner, bare if start is None else self._start(space, start))
        gained, n_iter = math.inf, result.n_iter
        for extension in range(1 + MOST_EXTENSIONS):
            U, s, V = result.factors
            inside = problem.features @ result.solution[1:], problem.intercept(result.solution)
            assert isinstance(problem.rows, Rows)
            slopes = slopes_at(problem.rows, self.data.loss, *inside)
            before, unit = result.objective, result.objective or 1.0
            missed = _Missed.of(space.outside(slopes, self.data.weights), V, *self._shifts(s))
            bound = missed.bound / unit
            gap = min(bound, max(_TO_COME * gained, bound / _LOOSENESS))
            if gap <= self.enough or extension == MOST_EXTENSIONS or result.status is Status.STOPPED:
                break
            larger = space.along(
                slopes @ missed.directions(_LEFT_OUT * self.enough * unit), self.data.weights
            )
            left = larger.subspace.inside(space.subspace.basis @ (U * s))
            space, inner = larger, self._inner(larger)
            if self.again:
                self.data.keep("subspace", key, (space, inner, None))
            problem, result = self._solve(inner, Start(left, V, inside[1]))
            gained, n_iter = max(before - result.objective, 0.0) / unit, n_iter + result.n_iter
        result = replace(result, n_iter=n_iter)
        return self._outside(space, problem, result)._replace(extras={"compression_gap": gap})

    def _shifts(self, s: Array) -> tuple[Array, float, float]:
        """Return ridge + c_j / 2σ_j, the ridge, and what holds a further singular value at zero.

        With hardly any ridge, the curvature of the loss limits steps: the least shift stands for it.
        """
        slopes, least = self.penalty.slopes(np.append(s, 0.0)), self._least_shift(0.0)
        shifts = np.maximum(self.ridge + 0.5 * slopes[:-1] / s, least)
        return shifts, max(self.ridge, least), float(slopes[-1])

    def _least_shift(self, ridge: float) -> float:
        """Return the ridge, or the least one for which a subspace is made."""
        X = self.data.X
        squares = X.multiply(X).sum() if is_sparse(X) else np.sum(X * X)
        unit = check_unit(float(squares) / min(X.shape) or 1.0)
        return max(ridge, _LEAST_SHIFT * loss_scale(self.data, fit_intercept=self.fit_intercept) * unit)

    def _first_space(self, start: Start | None) -> tuple[InSubspace, TrainingData, Start | None]:
        """Return the span of slopes, the rows in it, and a point to begin with.

        These are the slopes at two solutions without the penalty, or at the start and at one of them.
        """
        data, (n, d), least = self.data, self.data.X.shape, self._least_shift(self.ridge)
        rows = replace(data.rows.select_labels(self.used), dtype=np.float32)
        problem = SeparableProblem(rows, data.loss, fit_intercept=self.fit_intercept, dual=d > n)
        slopes, ridges = [], [_RATIO * least, least]
        if start is not None:
            left, right = (side.astype(rows.dtype) for side in start[:2])
            slopes.append(slopes_at(rows, data.loss, left @ right.T, start.intercept))
            ridges = [math.sqrt(_RATIO) * least]
        for ridge in ridges:
            found = solve_separable(problem.with_ridge(ridge), tol=_SPAN_TOL, max_iter=20)
            W, intercept = found.result.solution, found.intercept
            slopes.append(slopes_at(rows, data.loss, W, intercept))
        space = InSubspace.of_slopes(
            *(data.X, data.Y, data.weights, slopes), fit_intercept=self.fit_intercept, targets=data.targets
        )
        first = None if start is not None else self._start(space, Start(W, np.eye(W.shape[1]), intercept))
        return space, self._inner(space), first


class _Missed(NamedTuple):
    """What steps outside a subspace would gain, at most and to second order, along directions of label space.

    At a solution W inside, a step D outside changes penalty and ridge by Σ_j s_j ‖D v_j‖² with
    s_j = ridge + c_j / 2σ_j, to second order. With G the gradient of the loss, without its part inside, a
    convex loss changes by ⟨G, D⟩ at least. So no step gains more than

    ::

        Σ_j ‖G v_j‖² / 4s_j,

    and more than (τ − c)² / 4 ridge along a direction with the slope τ that the penalty holds at zero by c.
    """

    gains: Array
    V: Array

    @classmethod
    def of(cls, outside: Array, V: Array, shifts: Array, ridge: float, held: float) -> _Missed:
        """Compute the gains; ``outside`` has the inner products GᵀG, G without its part inside."""
        others = np.linalg.qr(V, mode="complete")[0][:, V.shape[1] :]
        squares, turn = descending_eigh(others.T @ outside @ others)
        too_long = np.maximum(np.sqrt(np.maximum(squares, 0.0)) - held, 0.0)
        squares = np.append(np.einsum("lj,lj->j", V, outside @ V), too_long**2)
        bends = np.append(shifts, np.full(len(too_long), ridge))
        gains = np.maximum(squares, 0.0) / (4.0 * bends)
        order = np.argsort(-gains)
        return cls(gains[order], np.hstack([V, others @ turn])[:, order])

    @property
    def bound(self) -> float:
        """The gain along all directions."""
        return float(self.gains.sum())

    def directions(self, left: float) -> Array:
        """Return the directions that gain most; the others gain no more than ``left``."""
        of_others = self.bound - np.cumsum(self.gains)
        return self.V[:, : 1 + int(np.argmax(of_others <= left))]


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
