"""The loop of solvers with a penalty, and when it stops; the record and the result of every solver."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import Array, frobenius, to_numpy
from lrml.core.linalg import Factors
from lrml.core.loss_problem import RowProblem
from lrml.core.penalties import Penalty, Values
from lrml.core.quadratic import SpectralProblem

# A run may end at a point that is worse than the best one by this share.
_WORSE = 1e-6
# A run has settled if its last steps have gained less than this share of tol; if a certificate is required,
# it ends without one only at a hundredth of that.
_SETTLED, _STANDSTILL = 1e-2, 1e-4


class Status(Enum):
    """How a solver ended: a sentence for the user, with a remedy if one is needed."""

    CONVERGED = "Converged: the estimated gap of the objective is at most tol times the objective."
    SETTLED = "Converged: the last 10 steps lowered the objective by less than 1 % of tol times itself."
    RESIDUAL_SMALL = "Converged: the residual is at most tol."
    GAP_CLOSED = "Converged: the duality gap is at most tol times the objective."
    EXACT = "Solved in closed form."
    RESIDUAL_LARGE = "Stopped at max_iter with the residual above tol; raise max_iter or loosen tol."
    MAX_ITER = "Stopped at max_iter before tol was reached; raise max_iter or loosen tol, or scale X."
    GAP_OPEN = "Stopped at max_iter with the duality gap above tol; raise max_iter or loosen tol."
    SUBSPACE_POOR = "Stopped with the subspace costing more than it should; raise ridge or alpha, or scale X."
    STOPPED = "Stopped by the callback; the best point so far is returned."
    ALL_STEPS = "Ran all max_iter steps of Algorithm 1, which has no stopping test; see the residual."


SUCCESSES = (Status.CONVERGED, Status.SETTLED, Status.RESIDUAL_SMALL, Status.GAP_CLOSED, Status.EXACT)


class IterationInfo(NamedTuple):
    """One line of the history, as a callback receives it."""

    iteration: int
    phase: str
    objective: float
    residual: float
    rank: int
    seconds: float
    gap: float = math.inf


Callback: TypeAlias = Callable[[IterationInfo], bool | None]
"""Called after every iteration; a true return value stops the solver."""


class History(list[IterationInfo]):
    """One line for every iteration; entry 0 is the starting point.

    For ``gap`` and ``residual`` see `Point`. ``seconds`` leaves out what callbacks take.
    """

    def as_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Columns as arrays: iteration, phase, objective, residual, rank, seconds, gap."""
        return dict(zip(IterationInfo._fields, map(np.array, zip(*self, strict=True)), strict=True))


@dataclass(frozen=True)
class SolverResult:
    """Outcome of a solve.

    ``solution`` is in the coordinates of the problem, ``factors`` are in feature and label space; ``gap`` and
    ``residual`` are those of `Point`, the latter by `stationarity_residual`.
    """

    solution: Array
    factors: Factors
    status: Status
    n_iter: int
    objective: float
    gap: float
    residual: float
    history: History
    intercept: Any = None  # of labels that were solved one by one


def at_once(
    W: Array, factors: Factors, objective: float, residual: float = 0.0, callback: Callback | None = None
) -> SolverResult:
    """Return a closed form as the outcome of a run that has taken no step."""
    run = Recorder(callback)
    run.record("closed form", objective, residual, int(factors.s.shape[0]), 0.0)
    return SolverResult(W, factors, Status.EXACT, 0, objective, 0.0, residual, run.history)


@dataclass(frozen=True)
class Point:
    """A candidate: coefficients, their descending singular values, and how good they are.

    ``residual`` and ``gap`` come from an element g of the subdifferential of the objective F at W: ‖g‖_F over
    the problem's scale, and ½⟨g, H⁻¹g⟩ over F, with H the Hessian of f, or a model of it. If F is convex and
    f quadratic, the latter is an upper bound of (F − F*) / F, whatever the scale of the features; otherwise
    it is an estimate. What a method does not know is infinite.
    """

    W: Array
    sigma: Values
    objective: float
    residual: float = math.inf
    gap: float = math.inf

    @cached_property
    def rank(self) -> int:
        """Number of positive singular values."""
        return int(np.count_nonzero(self.sigma))


Problem: TypeAlias = SpectralProblem | RowProblem
"""The smooth part f: its value, gradient and ``lipschitz`` constant, the ``prox`` of a penalty, the units
``scale`` and ``least`` and the relative ``rounding`` of what is computed."""


class Phase(Protocol):
    """One method, as a sequence of points. The loop owns everything else.

    If it ``settles``, it stalls only where it has converged, so that small gains end a run; otherwise not.
    """

    name: str

    def start(self, problem: Any, penalty: Penalty, point: Point) -> None:
        """Prepare to iterate from ``point``."""

    def step(self) -> Point | None:
        """Return the next point, or None to hand over to the next phase."""


Certificate: TypeAlias = Callable[[Any, Any, Point], float]
"""Of a problem, a penalty and a point: a proven bound of (F − F*) / F. It costs about one step."""


def stationarity_residual(problem: Problem, penalty: Penalty, W: Array) -> float:
    """L‖W − prox_{1/L}(W − ∇f(W)/L)‖_F / ‖∇f(0)‖_F: zero exactly at the stationary points.

    ``L`` is the Lipschitz constant of ∇f. Costs one proximal step.
    """
    lipschitz = problem.lipschitz
    moved, _ = problem.prox(W - problem.gradient(W) / lipschitz, penalty, 1.0 / lipschitz)
    return lipschitz * frobenius(W - moved) / problem.scale


def point_at(
    problem: Problem, penalty: Penalty | float, W: Array, sigma: Values, slope: Array | None = None
) -> Point:
    """Evaluate a point, given the penalty or its value there, and maybe an element of the subdifferential."""
    price = penalty if isinstance(penalty, float) else penalty.value(sigma)
    if slope is None:
        return Point(W, sigma, problem.value(W) + price)
    value, decrement, length = problem.measures(W, slope)
    objective = value + price
    return Point(W, sigma, objective, length / problem.scale, decrement / max(objective, problem.least))


class Gains:
    """What the steps of a method have gained, over the objective.

    ``rounding`` is the relative accuracy of the objective, below which gains mean nothing.
    """

    def __init__(self, rounding: float) -> None:
        self.rounding = rounding
        self.least: list[float] = []

    def add(self, objective: float) -> None:
        """Add the objective after a step."""
        self.least.append(min(objective, self.least[-1]) if self.least else objective)

    def of_last(self, steps: int) -> float:
        """Return the gain of the last steps; infinite if there were not as many."""
        if len(self.least) <= steps:
            return math.inf
        return (self.least[-1 - steps] - self.least[-1]) / max(abs(self.least[-1]), math.ulp(0.0))

    def while_falling(self) -> float:
        """Return the gain of the last ten steps, or infinity while the later five gain as much as the others.

        It tells where the estimated gap is rounding noise, but near a saddle point gains grow again.
        """
        if len(self.least) <= 10:
            return math.inf
        both, later = self.of_last(10), self.of_last(5)
        return max(both, self.rounding) if later <= 0.7 * (both - later) + self.rounding else math.inf

    def to_come(self) -> float:
        """Extrapolate the remaining gain from those of two spans of steps (Aitken): g₁ q/(1 − q), q = g₁/g₀.

        A span is a quarter of all steps, but at least five if there are as many; 0 after a single step.
        """
        steps = len(self.least) - 1
        span = min(steps // 2, max(5, steps // 4))
        if span == 0:
            return 0.0
        last = self.of_last(span)
        first = self.of_last(2 * span) - last
        ratio = min(last / first, 0.999) if first > 0 else 0.0
        return last * ratio / (1.0 - ratio)


class Recorder:
    """The record of a run, of fits and of matrix completion: history, clock, callback, best point, status.

    ``best`` is the point to return, ``least`` its objective (infinite before the first); ``status`` is None
    while the run goes on, and is set by the stepping code, or by a callback that stops.
    """

    best: Any

    def __init__(self, callback: Callback | None = None) -> None:
        self.callback = callback
        self.history = History()
        self.started = perf_counter()
        self.least = math.inf
        self.status: Status | None = None

    def record(self, phase: str, objective: float, residual: float, rank: int, gap: float = math.inf) -> None:
        """Add an entry to the history and pass it to the callback, which may end the run."""
        now = perf_counter()
        number, seconds = len(self.history), now - self.started
        self.history.append(IterationInfo(number, phase, objective, residual, rank, seconds, gap))
        if self.callback is not None:
            if self.callback(self.history[-1]) and self.status is None:
                self.status = Status.STOPPED
            self.started += perf_counter() - now


class Run(Recorder):
    """Steps of phases on one problem, until the gap is at most ``tol`` or steps gain next to nothing."""

    def __init__(
        self,
        problem: Problem,
        penalty: Penalty,
        tol: float,
        callback: Callback | None = None,
        certificate: Certificate | None = None,
    ) -> None:
        super().__init__(callback)
        self.problem, self.penalty, self.tol, self.certificate = problem, penalty, tol, certificate
        self.gains, self._ask_below = Gains(problem.rounding), math.inf

    def take_steps(self, phase: Phase, most: int, *, final: bool = True) -> None:
        """Step until the run ends, the phase hands over or there are ``most`` entries in the history.

        The problem is not convex: a stationary point that is worse than an earlier point does not end the
        run. But if the ``final`` phase ends at one, the best point is at least as good.
        """
        while self.status is None and len(self.history) < most:
            point = phase.step()
            if point is None:
                break
            self.gains.add(point.objective)
            status = self._verdict(point, settles=getattr(phase, "settles", False))
            worse = point.objective > self.least * (1 + _WORSE)
            self.status = status if final or not worse else None
            if point.objective <= self.least or (status is not None and not worse):
                self.best, self.least = point, point.objective
            self.record(phase.name, point.objective, point.residual, point.rank, point.gap)

    def _verdict(self, point: Point, *, settles: bool) -> Status | None:
        """Return why a point is good enough, or None."""
        if point.gap <= self.tol:
            return Status.CONVERGED
        # A certificate costs a step, so it is computed only when the estimate has halved.
        if self.certificate is not None and point.gap < self._ask_below:
            self._ask_below = 0.5 * point.gap
            if self.certificate(self.problem, self.penalty, point) <= self.tol:
                return Status.GAP_CLOSED
        enough = self.tol * (_SETTLED if self.certificate is None else _STANDSTILL)
        settled = settles and point.gap < math.inf and self.gains.while_falling() <= enough
        return Status.SETTLED if settled else None

    def through(
        self, phases: Sequence[Phase], W: Array, sigma: Values, max_iter: int, otherwise: Status
    ) -> SolverResult:
        """Run phases one after the other; the best point is never worse than the starting point W.

        It is factorised, and its objective and residual are evaluated exactly.
        """
        start = point_at(self.problem, self.penalty, W, sigma)
        if start.objective == math.inf:  # begin at the nearest point that the penalty permits
            start = point_at(self.problem, self.penalty, *self.problem.prox(W, self.penalty, 0.0))
        self.best, self.least = start, start.objective
        self.record("start", start.objective, start.residual, start.rank, start.gap)
        for phase in phases:
            if self.status is None:
                self.gains = Gains(self.problem.rounding)
                phase.start(self.problem, self.penalty, self.best)
                self.take_steps(phase, max_iter + 1, final=phase is phases[-1])
        problem, penalty, point = self.problem, self.penalty, self.best
        factors = problem.factors(point.W, point.rank)
        return SolverResult(
            solution=point.W,
            factors=factors,
            status=self.status or otherwise,
            n_iter=len(self.history) - 1,
            objective=problem.value(point.W) + penalty.value(to_numpy(factors.s)),
            gap=point.gap,
            residual=stationarity_residual(problem, penalty, point.W),
            history=self.history,
        )
