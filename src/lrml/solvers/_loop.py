"""The one loop that drives every solver: stopping, history, timing, callbacks, the best point so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Protocol

from lrml._arrays import Array, frobenius, namespace, thin_svd
from lrml.penalties import Penalty, SpectralProx, gram_noise, right_singular, right_singular_by_svd
from lrml.solvers._result import SUCCESSES, Callback, Factors, History, IterationInfo, SolverResult, Status

# How much worse than the best point so far, relatively, a stationary point may be; and when a residual is no
# more than rounding, whatever else was to be proved.
_WORSE, _STATIONARY = 1e-6, 2e-13


@dataclass(frozen=True)
class Point:
    """A candidate: coefficients, their descending singular values, an estimate of the residual.

    The estimate is ``proved`` if it is the norm of an element of the subdifferential at this very point.
    """

    W: Array
    sigma: Array
    residual: float = math.inf
    proved: bool = False

    @property
    def rank(self) -> int:
        """Number of positive singular values."""
        xp = namespace(self.sigma)
        return int(xp.count_nonzero(self.sigma > 0))


class Problem(Protocol):
    """What the loop needs of a problem; a phase may need more."""

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant of ∇f."""

    @property
    def scale(self) -> float:
        """Unit of the stationarity residual."""

    @property
    def rounding(self) -> float:
        """Relative accuracy of the objective."""

    def value(self, W: Array) -> float:
        """f(W)."""

    def gradient(self, W: Array) -> Array:
        """∇f(W)."""

    def prox(self, W: Array, penalty: Penalty, step: float) -> SpectralProx:
        """Proximal map of the penalty."""

    def penalised(self, W: Array) -> Array:
        """Return the part of W whose singular values are penalised."""

    def restore(self, U: Array, V: Array) -> tuple[Array, Array]:
        """Map singular vectors back to feature and label space."""


class Phase(Protocol):
    """One method, as a sequence of points. The loop owns everything else."""

    name: str
    seeks_tolerance: bool

    def start(self, problem: Any, penalty: Penalty, point: Point) -> None:
        """Prepare to iterate from ``point``."""

    def step(self) -> Point | None:
        """Return the next point, or None to hand over to the next phase."""


def stationarity_residual(problem: Problem, penalty: Penalty, W: Array) -> float:
    """L‖W − prox_{1/L}(W − ∇f(W)/L)‖_F / ‖∇f(0)‖_F: zero exactly at the stationary points.

    ``L`` is the Lipschitz constant of ∇f. Costs one proximal step.
    """
    lipschitz = problem.lipschitz
    moved, _ = problem.prox(W - problem.gradient(W) / lipschitz, penalty, 1.0 / lipschitz)
    return lipschitz * frobenius(W - moved) / problem.scale


def objective_of(problem: Problem, penalty: Penalty, W: Array, sigma: Array) -> float:
    """F(W) = f(W) + Ω(σ(W)), for a W whose singular values are known."""
    return problem.value(W) + penalty.value(sigma)


class Certificate(Protocol):
    """What has to fall below ``tol`` for the loop to end."""

    status: Status
    failure: Status

    def measure(self, problem: Any, penalty: Penalty, point: Point) -> float:
        """Evaluate the criterion exactly; about as dear as a step."""


class Stationarity:
    """The stationarity residual, which works for any problem."""

    status = Status.CONVERGED
    failure = Status.MAX_ITER

    def measure(self, problem: Problem, penalty: Penalty, point: Point) -> float:
        """Return the residual at the point."""
        return stationarity_residual(problem, penalty, point.W)


@dataclass
class _Run:
    """The record of one solve: history, clock, the best point so far."""

    problem: Problem
    penalty: Penalty
    tol: float
    callback: Callback | None
    history: History
    best: Point
    certificate: Certificate
    best_objective: float = math.inf
    seconds: float = 0.0
    ask_below: float = 0.0

    @property
    def measures_residual(self) -> bool:
        """Whether the certificate is the stationarity residual, which the phases estimate."""
        return self.certificate.status is Status.CONVERGED

    def consider(self, phase: str, point: Point) -> tuple[Point, Status | None]:
        """Record a point; return it with its exact residual if that was asked for, and how to end, if so."""
        converged, success = False, self.certificate.status
        if point.residual <= self.ask_below:
            self.ask_below = 0.5 * point.residual  # an estimate that misled must improve to be asked again
            measured = self.certificate.measure(self.problem, self.penalty, point)
            if point.proved and self.measures_residual and measured > self.tol:
                measured = point.residual  # where two singular values tie, the prox may have taken the other
            converged = measured <= self.tol
            if not (converged or self.measures_residual) and point.residual <= _STATIONARY:
                converged = stationarity_residual(self.problem, self.penalty, point.W) <= _STATIONARY
                success = Status.CONVERGED
            if self.measures_residual:
                point = replace(point, residual=measured)
        objective = objective_of(self.problem, self.penalty, point.W, point.sigma)
        # Not convex: a stationary point that is worse than one already met is not what we are looking for.
        converged = converged and objective <= self.best_objective * (1 + _WORSE)
        if objective <= self.best_objective:
            self.best, self.best_objective = point, objective
        info = IterationInfo(len(self.history), phase, objective, point.residual, point.rank, self.seconds)
        self.history.entries.append(info)
        stop = bool(self.callback(info)) if self.callback is not None else False
        if converged and objective <= self.history.entries[0].objective * (1 + self.problem.rounding):
            return point, success
        return point, Status.STOPPED if stop else None


def iterate(
    phases: Sequence[Phase],
    problem: Problem,
    penalty: Penalty,
    start: Point,
    *,
    max_iter: int,
    tol: float,
    callback: Callback | None = None,
    certificate: Certificate | None = None,
) -> SolverResult:
    """Run the phases one after the other, until the certificate says that a point is good to within ``tol``.

    The clock runs only inside the phases. A phase's residual is an estimate; before the loop believes it,
    the exact one is computed. Another certificate than the residual is asked whenever the estimate has
    halved. The result never has a larger objective than ``start``.
    """
    run = _Run(
        problem, penalty, tol, callback, History(), start, certificate or Stationarity(), ask_below=tol
    )
    point, status = run.consider("start", start)
    for phase in phases:
        if status is not None:
            break
        clock = perf_counter()
        phase.start(problem, penalty, run.best)
        run.seconds += perf_counter() - clock
        ask = tol if run.measures_residual else math.inf
        run.ask_below = ask if phase.seeks_tolerance else -math.inf
        while status is None and len(run.history) <= max_iter:
            clock = perf_counter()
            step = phase.step()
            run.seconds += perf_counter() - clock
            if step is None:
                break
            point, status = run.consider(phase.name, step)
    if status is None:
        status = run.certificate.failure if phases[-1].seeks_tolerance else Status.ALL_STEPS
    return _finish(run, point if status in SUCCESSES else run.best, status)


def _finish(run: _Run, point: Point, status: Status) -> SolverResult:
    """Factorise the returned point, and evaluate its objective and its residual exactly."""
    factors = factorise(run.problem, point.W, point.rank)
    residual = point.residual
    if status is not Status.CONVERGED or not run.measures_residual:
        residual = stationarity_residual(run.problem, run.penalty, point.W)
        if status is Status.MAX_ITER and run.measures_residual and residual <= run.tol:
            status = Status.CONVERGED  # the last estimate was too high
    return SolverResult(
        solution=point.W,
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


def spectrum_of_any(W: Array) -> Array:
    """`spectrum` of a matrix of any shape."""
    return spectrum(W if W.shape[0] >= W.shape[1] else W.T)


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


def factorise(problem: Problem, W: Array, rank: int) -> Factors:
    """Thin SVD of a W of known rank, mapped back to features × labels.

    A full SVD, once per solve: the factors of a wide spectrum would not be orthonormal by the Gram matrix.
    """
    U, s, Vt = thin_svd(problem.penalised(W))
    U, V = problem.restore(U[:, :rank], Vt[:rank, :].T)
    return Factors(U, s[:rank], V)
