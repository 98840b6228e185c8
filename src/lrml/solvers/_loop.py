"""The one loop that drives every solver, the record that every run keeps, and what it returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from time import perf_counter
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import Array, frobenius, namespace
from lrml.core.eigen import Factors
from lrml.core.penalties import Penalty, SpectralProx, accurate_singular_values, gram_noise, singular_values

# Share of effective directions left by the ridge of a starting point. All features must be present, whatever
# their scale: missing ones would have to be found by small steps.
START_SHARE = 0.8
# A run may end at a point that is worse than the best one by this share.
_WORSE = 1e-6
# If a certificate is required, a stalled run ends without it only if gains are below this share of tol.
_STANDSTILL = 1e-2

_Kept = TypeVar("_Kept")


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


SUCCESSES = (
    Status.CONVERGED,
    Status.SETTLED,
    Status.RESIDUAL_SMALL,
    Status.GAP_CLOSED,
    Status.EXACT,
)


@dataclass(frozen=True)
class IterationInfo:
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


@dataclass
class History:
    """Per-iteration record; entry 0 is the starting point.

    ``gap`` and ``residual`` are by-products of the solver, see `Point`: the estimated relative distance of
    the objective from its minimum, which ``tol`` limits, and the norm of an element of the subdifferential
    over the scale of the problem; infinite if a method has none. ``seconds`` counts solver work only: the
    clock is stopped while this record is made.
    """

    entries: list[IterationInfo] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.entries)

    def as_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Columns as arrays: iteration, phase, objective, gap, residual, rank, seconds."""
        names = ("iteration", "phase", "objective", "gap", "residual", "rank", "seconds")
        return {name: np.array([getattr(entry, name) for entry in self.entries]) for name in names}


@dataclass(frozen=True)
class SolverResult:
    """Outcome of a solve.

    Attributes
    ----------
    solution : array
        The returned point, in the coordinates of the problem.
    factors : Factors
        Coefficients W = U diag(s) Vᵀ in feature and label space.
    status : Status
    n_iter : int
    objective : float
        f(W) + Ω(σ(W)) at the returned point.
    gap : float
        Estimated distance of the objective from its minimum, over the objective.
    residual : float
        Stationarity residual L‖W − prox_{1/L}(W − ∇f(W)/L)‖_F / ‖∇f(0)‖_F at the returned point.
    history : History
    """

    solution: Array
    factors: Factors
    status: Status
    n_iter: int
    objective: float
    gap: float
    residual: float
    history: History


@dataclass(frozen=True)
class Point:
    """A candidate: coefficients, their descending singular values, and how good they are.

    ``residual`` and ``gap`` come from an element g of the subdifferential of the objective F at W: ‖g‖_F over
    the problem's scale, and ½⟨g, H⁻¹g⟩ over F, with H the Hessian of f, or a model of it. If F is convex and
    f quadratic, the latter is an upper bound of (F − F*) / F, whatever the scale of the features; otherwise
    it is an estimate. Both are infinite if a method knows no such g.
    """

    W: Array
    sigma: Array
    objective: float
    residual: float = math.inf
    gap: float = math.inf

    @cached_property
    def rank(self) -> int:
        """Number of positive singular values."""
        xp = namespace(self.sigma)
        return int(xp.count_nonzero(self.sigma > 0))


class Problem(Protocol):
    """What the loop needs from a problem; a phase may need more."""

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant of ∇f."""

    @property
    def scale(self) -> float:
        """Unit of the stationarity residual."""

    @property
    def rounding(self) -> float:
        """Relative accuracy of the objective."""

    @property
    def least(self) -> float:
        """Objectives below this are zero up to rounding."""

    def decrement(self, slope: Array, W: Array) -> float:
        """½⟨g, H⁻¹g⟩ for a slope g at W and the Hessian H of f, or a model of it."""

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
    settles: bool
    """Whether several steps with almost no gain mean that the method has converged."""

    def start(self, problem: Any, penalty: Penalty, point: Point) -> None:
        """Prepare to iterate from ``point``."""

    def step(self) -> Point | None:
        """Return the next point, or None to hand over to the next phase."""


class Certificate(Protocol):
    """A proven bound on the distance of the objective from its minimum."""

    status: Status
    failure: Status

    def measure(self, problem: Any, penalty: Penalty, point: Point) -> float:
        """Return an upper bound of (F − F*) / F; costs about one step."""


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


def point_at(problem: Problem, penalty: Penalty, W: Array, sigma: Array, slope: Array | None = None) -> Point:
    """Evaluate a point, with an element of the subdifferential there if one is known."""
    objective = objective_of(problem, penalty, W, sigma)
    if slope is None:
        return Point(W, sigma, objective)
    gap = problem.decrement(slope, W) / max(objective, problem.least)
    return Point(W, sigma, objective, frobenius(slope) / problem.scale, gap)


class Gains:
    """The gains of the last steps, for methods that do not stall before they have converged.

    The estimated gap is useless if features differ so much in scale that it is rounding noise, or if it is
    dominated by a direction in which X hardly varies. Then it suffices that ``steps`` steps together lower
    the objective by less than ``share`` of what ``tol`` permits, and the later half of them by less than the
    earlier half: near a saddle point gains grow again. ``rounding`` is the relative accuracy of the
    objective, below which gains mean nothing.
    """

    steps, share = 10, 0.01
    falling = 0.7

    def __init__(self, rounding: float) -> None:
        self.rounding = rounding
        self.least: list[float] = []

    def add(self, objective: float) -> None:
        """Add the objective after a step."""
        self.least.append(min([objective, *self.least[-1:]]))

    def below(self, tol: float) -> bool:
        """Whether the last steps have gained no more than a share of ``tol`` times the objective."""
        if len(self.least) <= self.steps or self.share * tol < self.rounding:
            return False
        last, middle, first = (self.least[-1 - back] for back in (0, self.steps // 2, self.steps))
        noise = self.rounding * abs(last)
        falls = middle - last <= self.falling * (first - middle) + noise
        return falls and first - last <= self.share * tol * abs(last)

    def of_last_half(self) -> float:
        """Return the gain of the later half of all steps, over the objective; infinite for few steps.

        If gains fall like 1/k², this is about the remaining gain; if they fall faster, it is more.
        """
        return self.of_last((len(self.least) - 1) // 2) if len(self.least) > 2 * self.steps else math.inf

    def of_last(self, steps: int) -> float:
        """Return the gain of the last steps, over the objective."""
        return (self.least[-1 - steps] - self.least[-1]) / max(abs(self.least[-1]), math.ulp(0.0))

    def to_come(self) -> float:
        """Extrapolate the remaining gain, over the objective, from the gains so far (Aitken).

        With gains g₀ and then g₁ of two spans of steps, this is g₁ q/(1 − q), q = g₁/g₀; 0 after a single
        step. A span is a quarter of all steps, so that slow convergence does not mislead, but at least five
        steps if there are as many.
        """
        steps = len(self.least) - 1
        span = min(steps // 2, max(5, steps // 4))
        if span == 0:
            return 0.0
        first, second, last = self.least[-1 - 2 * span], self.least[-1 - span], self.least[-1]
        ratio = min((second - last) / (first - second), 0.999) if first > second else 0.0
        return (second - last) * ratio / (1.0 - ratio) / max(abs(last), math.ulp(0.0))


class Recorder(Generic[_Kept]):
    """The record of a run, for every method: history, clock, callback, best point, status.

    Fits, paths, LEML's sweeps and matrix completion all record their steps here. ``seconds`` counts time
    inside `clock`; ``best`` is the point to return and ``least`` its objective (infinite before the first);
    ``status`` is None while the run goes on, and is set by the stepping code, or by a callback that stops.
    """

    def __init__(self, callback: Callback | None = None) -> None:
        self.callback = callback
        self.history = History()
        self.seconds = 0.0
        self.least = math.inf
        self.status: Status | None = None

    @contextmanager
    def clock(self) -> Iterator[None]:
        """Count the time spent inside."""
        started = perf_counter()
        yield
        self.seconds += perf_counter() - started

    def keep(self, point: _Kept, objective: float) -> None:
        """Make a point the one to return."""
        self.best: _Kept = point
        self.least = objective

    def record(self, phase: str, objective: float, residual: float, rank: int, gap: float = math.inf) -> None:
        """Add an entry to the history and pass it to the callback, which may end the run."""
        number = len(self.history)
        info = IterationInfo(number, phase, objective, residual, rank, self.seconds, gap)
        self.history.entries.append(info)
        stop = self.callback is not None and bool(self.callback(info))
        if stop and self.status is None:
            self.status = Status.STOPPED


class Run(Recorder[Point]):
    """Steps of phases on one problem, until a point is good to within ``tol``.

    That is: its gap is at most ``tol``, or the certificate proves as much, or the last steps of a phase that
    settles have gained almost nothing.
    """

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
        self._ask_below = math.inf

    def begin(self, start: Point) -> None:
        """Record the starting point."""
        self.keep(start, start.objective)
        self._record("start", start)

    def take_steps(self, phase: Phase, more: Callable[[], bool], *, final: bool = True) -> None:
        """Step until the run ends, the phase hands over or there may be no ``more`` steps.

        The problem is not convex: a stationary point that is worse than an earlier point does not end the
        run. But if the ``final`` phase ends at one, the best point is at least as good.
        """
        gains = Gains(self.problem.rounding)
        while self.status is None and more():
            with self.clock():
                point = phase.step()
            if point is None:
                break
            gains.add(point.objective)
            status = self._verdict(phase, point, gains)
            worse = point.objective > self.least * (1 + _WORSE)
            if point.objective <= self.least or (status is not None and not worse):
                self.keep(point, point.objective)
            self.status = status if final or not worse else None
            self._record(phase.name, point)

    def _verdict(self, phase: Phase, point: Point, gains: Gains) -> Status | None:
        """Return why a point is good enough, or None."""
        tol, certificate = self.tol, self.certificate
        if phase.seeks_tolerance and point.gap <= tol:
            return Status.CONVERGED
        # A certificate costs a step, so it is computed only when the estimate has halved.
        if phase.seeks_tolerance and certificate is not None and point.gap <= self._ask_below:
            self._ask_below = 0.5 * point.gap
            if certificate.measure(self.problem, self.penalty, point) <= tol:
                return certificate.status
        if phase.settles and gains.below(tol if certificate is None else _STANDSTILL * tol):
            return Status.SETTLED
        return None

    def _record(self, phase: str, point: Point) -> None:
        self.record(phase, point.objective, point.residual, point.rank, point.gap)

    def result(self, otherwise: Status) -> SolverResult:
        """Factorise the best point, and evaluate its objective and its residual exactly."""
        point = self.best
        # One full SVD: with a wide spectrum, factors from the Gram matrix would not be orthonormal.
        U, s, V = Factors.of(self.problem.penalised(point.W))
        U, V = self.problem.restore(U[:, : point.rank], V[:, : point.rank])
        factors = Factors(U, s[: point.rank], V)
        exact = self.status is Status.EXACT  # the penalty does nothing, so the gradient says it all
        return SolverResult(
            solution=point.W,
            factors=factors,
            status=self.status or otherwise,
            n_iter=len(self.history) - 1,
            objective=objective_of(self.problem, self.penalty, point.W, factors.s),
            gap=point.gap,
            residual=point.residual if exact else stationarity_residual(self.problem, self.penalty, point.W),
            history=self.history,
        )


def iterate(phases: Sequence[Phase], run: Run, start: Point, *, max_iter: int) -> SolverResult:
    """Run the phases one after the other; the result never has a larger objective than ``start``."""
    run.begin(start)
    for phase in phases:
        if run.status is not None:
            break
        with run.clock():
            phase.start(run.problem, run.penalty, run.best)
        run.take_steps(phase, lambda: len(run.history) <= max_iter, final=phase is phases[-1])
    if not phases[-1].seeks_tolerance:
        return run.result(Status.ALL_STEPS)
    return run.result(Status.MAX_ITER if run.certificate is None else run.certificate.failure)


def spectrum(W: Array, rank: int | None = None) -> Array:
    """Descending singular values of W, each accurate to eps · σ₁.

    Uses the Gram matrix if all values up to ``rank`` are above its noise, the SVD otherwise. Values that are
    rounding noise, and all beyond ``rank``, are set to zero: a strong penalty would amplify them.
    """
    xp = namespace(W)
    W = W if W.shape[0] >= W.shape[1] else W.T
    rank = W.shape[1] if rank is None else min(rank, W.shape[1])
    sigma = singular_values(W)
    if rank and float(sigma[rank - 1]) <= gram_noise(sigma):
        sigma = accurate_singular_values(W)
    floor = max(W.shape) * xp.finfo(W.dtype).eps * float(sigma[0])
    kept = min(int(xp.count_nonzero(sigma > floor)), rank)
    return xp.concat([sigma[:kept], xp.zeros_like(sigma[kept:])])
