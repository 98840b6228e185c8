"""The one loop that drives every solver: stopping, history, timing, callbacks, the best point so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Protocol

from lrml._arrays import Array, frobenius, namespace
from lrml.penalties import Penalty, gram_noise, right_singular, right_singular_by_svd, spectral_prox
from lrml.problem import SpectralProblem
from lrml.solvers._result import Callback, Factors, History, IterationInfo, SolverResult, Status

# How much worse than the best point so far, relatively, a stationary point may be; and what is rounding.
_WORSE, _ROUNDING = 1e-6, 4e-15


@dataclass(frozen=True)
class Point:
    """A candidate: coefficients, their descending singular values, an estimate of the residual."""

    W: Array
    sigma: Array
    residual: float = math.inf

    @property
    def rank(self) -> int:
        """Number of positive singular values."""
        xp = namespace(self.sigma)
        return int(xp.count_nonzero(self.sigma > 0))


class Phase(Protocol):
    """One method, as a sequence of points. The loop owns everything else."""

    name: str
    seeks_tolerance: bool

    def start(self, problem: SpectralProblem, penalty: Penalty, point: Point) -> None:
        """Prepare to iterate from ``point``."""

    def step(self) -> Point | None:
        """Return the next point, or None to hand over to the next phase."""


def stationarity_residual(problem: SpectralProblem, penalty: Penalty, W: Array) -> float:
    """L‖W − prox_{1/L}(W − ∇f(W)/L)‖_F / ‖∇f(0)‖_F: zero exactly at the stationary points.

    ``L`` is the Lipschitz constant of ∇f. Costs one proximal step.
    """
    lipschitz = problem.lipschitz
    moved, _ = spectral_prox(W - problem.gradient(W) / lipschitz, penalty, 1.0 / lipschitz)
    return lipschitz * frobenius(W - moved) / problem.scale


def objective_of(problem: SpectralProblem, penalty: Penalty, W: Array, sigma: Array) -> float:
    """F(W) = f(W) + Ω(σ(W)), for a W whose singular values are known."""
    return problem.value(W) + penalty.value(sigma)


@dataclass
class _Run:
    """The record of one solve: history, clock, the best point so far."""

    problem: SpectralProblem
    penalty: Penalty
    tol: float
    callback: Callback | None
    history: History
    best: Point
    best_objective: float = math.inf
    seconds: float = 0.0
    ask_below: float = 0.0

    def consider(self, phase: str, point: Point) -> tuple[Point, Status | None]:
        """Record a point; return it with its exact residual if that was asked for, and how to end, if so."""
        converged = False
        if point.residual <= self.ask_below:
            self.ask_below = 0.5 * point.residual  # an estimate that misled must improve to be asked again
            point = replace(point, residual=stationarity_residual(self.problem, self.penalty, point.W))
            converged = point.residual <= self.tol
        objective = objective_of(self.problem, self.penalty, point.W, point.sigma)
        # Not convex: a stationary point that is worse than one already met is not what we are looking for.
        converged = converged and objective <= self.best_objective * (1 + _WORSE)
        if objective <= self.best_objective:
            self.best, self.best_objective = point, objective
        info = IterationInfo(len(self.history), phase, objective, point.residual, point.rank, self.seconds)
        self.history.entries.append(info)
        stop = bool(self.callback(info)) if self.callback is not None else False
        if converged and objective <= self.history.entries[0].objective * (1 + _ROUNDING):
            return point, Status.CONVERGED
        return point, Status.STOPPED if stop else None


def iterate(
    phases: Sequence[Phase],
    problem: SpectralProblem,
    penalty: Penalty,
    start: Point,
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
) -> SolverResult:
    """Run the phases one after the other, until a point is stationary to within ``tol``.

    The clock runs only inside the phases. A phase's residual is an estimate; before the loop believes it,
    the exact residual is computed. The result never has a larger objective than ``start``.
    """
    run = _Run(problem, penalty, tol, callback, History(), start, ask_below=tol)
    point, status = run.consider("start", start)
    for phase in phases:
        if status is not None:
            break
        clock = perf_counter()
        phase.start(problem, penalty, run.best)
        run.seconds += perf_counter() - clock
        run.ask_below = tol if phase.seeks_tolerance else -math.inf
        while status is None and len(run.history) <= max_iter:
            clock = perf_counter()
            step = phase.step()
            run.seconds += perf_counter() - clock
            if step is None:
                break
            point, status = run.consider(phase.name, step)
    if status is None:
        status = Status.MAX_ITER if phases[-1].seeks_tolerance else Status.ALL_STEPS
    return _finish(run, point if status is Status.CONVERGED else run.best, status)


def _finish(run: _Run, point: Point, status: Status) -> SolverResult:
    """Factorise the returned point, and evaluate its objective and its residual exactly."""
    factors = factorise(run.problem, point.W, point.rank)
    residual = point.residual
    if status is not Status.CONVERGED:
        residual = stationarity_residual(run.problem, run.penalty, point.W)
        if status is Status.MAX_ITER and residual <= run.tol:  # the last estimate was too high
            status = Status.CONVERGED
    return SolverResult(
        factors=factors,
        status=status,
        n_iter=len(run.history) - 1,
        objective=objective_of(run.problem, run.penalty, point.W, factors.s),
        residual=residual,
        history=run.history,
    )


def spectrum(W: Array, rank: int | None = None) -> Array:
    """Descending singular values of a tall W, with rounding noise (and all beyond ``rank``) set to zero."""
    return accurate_right_singular(W, rank)[0]


def accurate_right_singular(W: Array, rank: int | None = None) -> tuple[Array, Array]:
    """Descending singular values and right singular vectors of a tall W, every value good to eps · σ₁.

    The Gram matrix serves while all values are above its noise, the SVD otherwise. Values that are rounding
    noise, and all beyond ``rank``, are set to zero: a strong penalty would multiply them.
    """
    xp = namespace(W)
    sigma, V = right_singular(W)
    if float(sigma[-1]) <= gram_noise(sigma):
        sigma, V = right_singular_by_svd(W)
    floor = max(W.shape) * xp.finfo(W.dtype).eps * float(sigma[0])
    kept = int(xp.count_nonzero(sigma > floor))
    kept = kept if rank is None else min(kept, rank)
    return xp.concat([sigma[:kept], xp.zeros_like(sigma[kept:])]), V


def factorise(problem: SpectralProblem, W: Array, rank: int) -> Factors:
    """Thin SVD of a W of known rank, mapped back to features × labels.

    A full SVD, once per solve: the factors of a wide spectrum would not be orthonormal by the Gram matrix.
    """
    xp = namespace(W)
    U, s, Vt = xp.linalg.svd(W, full_matrices=False)
    U, V = problem.restore(U[:, :rank], Vt[:rank, :].T)
    return Factors(U, s[:rank], V)
