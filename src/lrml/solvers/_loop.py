"""The one loop that drives every solver: stopping, history, timing, callbacks, the best point so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

from lrml._arrays import Array, frobenius, namespace
from lrml.penalties import Penalty, gram_noise, right_singular, right_singular_by_svd, spectral_prox
from lrml.problem import SpectralProblem
from lrml.solvers._result import Callback, Factors, History, IterationInfo, SolverResult, Status


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


@dataclass
class _Run:
    """The state of one solve; `iterate` below reads as the algorithm."""

    problem: SpectralProblem
    penalty: Penalty
    tol: float
    callback: Callback | None
    history: History
    best: Point
    best_objective: float
    seconds: float = 0.0

    def objective(self, point: Point) -> float:
        return self.problem.value(point.W) + self.penalty.value(point.sigma)

    def record(self, phase: str, point: Point, objective: float) -> bool:
        """Add a line to the history, keep the best point, and say whether the callback wants to stop."""
        info = IterationInfo(len(self.history), phase, objective, point.residual, point.rank, self.seconds)
        self.history.entries.append(info)
        if objective <= self.best_objective:
            self.best, self.best_objective = point, objective
        return bool(self.callback(info)) if self.callback is not None else False


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
    run = _Run(problem, penalty, tol, callback, History(), start, math.inf)
    stop = run.record("start", start, run.objective(start))
    start_objective = run.best_objective
    status, final = Status.STOPPED if stop else Status.MAX_ITER, None
    for phase in () if stop else phases:
        clock = perf_counter()
        phase.start(problem, penalty, run.best)
        run.seconds += perf_counter() - clock
        check_below = tol
        while len(run.history) <= max_iter:
            clock = perf_counter()
            point = phase.step()
            run.seconds += perf_counter() - clock
            if point is None:
                break
            converged = False
            if phase.seeks_tolerance and point.residual <= check_below:
                exact = stationarity_residual(problem, penalty, point.W)
                converged = exact <= tol
                check_below = (
                    0.5 * point.residual
                )  # an estimate that misled once must improve to be asked again
                point = Point(point.W, point.sigma, exact)
            objective = run.objective(point)
            stop = run.record(phase.name, point, objective)
            if converged and objective <= start_objective:
                status, final = Status.CONVERGED, point
                break
            if stop:
                status = Status.STOPPED
                break
        if status is not Status.MAX_ITER:
            break
    if status is Status.MAX_ITER and not phases[-1].seeks_tolerance:
        status = Status.ALL_STEPS
    return _finish(run, run.best if final is None else final, status)


def _finish(run: _Run, point: Point, status: Status) -> SolverResult:
    """Factorise the returned point and evaluate its exact residual."""
    if status is Status.CONVERGED:
        residual = point.residual
    else:
        residual = stationarity_residual(run.problem, run.penalty, point.W)
    return SolverResult(
        factors=factorise(run.problem, point.W, point.rank),
        status=status,
        n_iter=len(run.history) - 1,
        objective=run.objective(point),
        residual=residual,
        history=run.history,
    )


def spectrum(W: Array, rank: int | None = None) -> Array:
    """Descending singular values of a tall W, with rounding noise (and all beyond ``rank``) set to zero."""
    xp = namespace(W)
    sigma, _ = right_singular(W)
    if float(sigma[-1]) <= gram_noise(sigma):
        sigma, _ = right_singular_by_svd(W)
    floor = max(W.shape) * xp.finfo(W.dtype).eps * float(sigma[0])
    kept = int(xp.count_nonzero(sigma > floor))
    kept = kept if rank is None else min(kept, rank)
    return xp.concat([sigma[:kept], xp.zeros_like(sigma[kept:])])


def factorise(problem: SpectralProblem, W: Array, rank: int) -> Factors:
    """Thin SVD of a tall W of known rank, mapped back to features × labels."""
    xp = namespace(W)
    s, V = right_singular(W)
    if rank and float(s[rank - 1]) > gram_noise(s):
        s, V = s[:rank], V[:, :rank]
        U = (W @ V) / s
    else:
        U, s, Vt = xp.linalg.svd(W, full_matrices=False)
        U, s, V = U[:, :rank], s[:rank], Vt[:rank, :].T
    U, V = problem.restore(U, V)
    return Factors(U, s, V)
