"""The one loop that drives every solver: stopping, history, timing, callbacks, the best point so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

from lrml._arrays import Array, frobenius, namespace, thin_svd
from lrml.penalties import Penalty, SpectralProx, gram_noise, right_singular, right_singular_by_svd
from lrml.solvers._result import SUCCESSES, Callback, Factors, History, IterationInfo, SolverResult, Status

# Effective directions that the ridge of a starting point leaves. All features must be in it, whatever their
# scale: what is missing has to be found by small steps.
START_SHARE = 0.8
# How much worse than the best point so far, relatively, a point may be to end at.
_WORSE = 1e-6
# Where a proof is wanted only a standstill, which is this much less to be gained, ends without it.
_STANDSTILL = 1e-2


@dataclass(frozen=True)
class Point:
    """A candidate: coefficients, their descending singular values, and how good they are.

    ``residual`` and ``gap`` come from an element g of the subdifferential of the objective F at W: ‖g‖_F over
    the problem's scale, and ½⟨g, H⁻¹g⟩ over F, with H the Hessian of f, or a model of it. Where F is convex
    and f quadratic, the latter is an upper bound of (F − F*) / F, whatever the scale of the features;
    elsewhere it is an estimate. Both are infinite where a method knows no such g.
    """

    W: Array
    sigma: Array
    objective: float
    residual: float = math.inf
    gap: float = math.inf

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

    @property
    def least(self) -> float:
        """Objectives below this one are zero but for rounding."""

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
    """Whether several steps that gain next to nothing mean that there is nothing to be gained."""

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


def point_at(problem: Problem, penalty: Penalty, W: Array, sigma: Array, slope: Array | None = None) -> Point:
    """Evaluate a point, with an element of the subdifferential there if one is known."""
    objective = objective_of(problem, penalty, W, sigma)
    if slope is None:
        return Point(W, sigma, objective)
    gap = problem.decrement(slope, W) / max(objective, problem.least)
    return Point(W, sigma, objective, frobenius(slope) / problem.scale, gap)


class Certificate(Protocol):
    """A proof of how far the objective is from the least one."""

    status: Status
    failure: Status

    def measure(self, problem: Any, penalty: Penalty, point: Point) -> float:
        """Return an upper bound of (F − F*) / F; costs about as much as a step."""


class Gains:
    """What the last steps have gained, for methods that do not stand still before they are done.

    The estimated gap is of no use where features differ so much in scale that it is rounding, or where a
    direction in which X hardly varies counts for little. There it is enough that ``steps`` steps together
    lower the objective by less than ``share`` of what ``tol`` permits, the later half of them by less than
    the earlier one: on the way past a saddle point gains grow. ``rounding`` is the relative accuracy of the
    objective; less than that cannot be asked for.
    """

    steps, share = 10, 0.01
    falling = 0.7

    def __init__(self, rounding: float) -> None:
        self.rounding = rounding
        self.least: list[float] = []

    def add(self, objective: float) -> None:
        """Take in the objective after a step."""
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
        """Return what the later half of all steps has gained, over the objective; infinite for few steps.

        Where gains fall like 1/k² this is about what is still to come, and more where they fall faster.
        """
        if len(self.least) <= 2 * self.steps:
            return math.inf
        return (self.least[len(self.least) // 2] - self.least[-1]) / max(abs(self.least[-1]), math.ulp(0.0))

    def to_come(self) -> float:
        """Return what is still to be gained, over the objective, if gains go on falling as they do (Aitken).

        With gains g₀ and then g₁ of two spans of steps, g₁ q/(1 − q) for q = g₁/g₀; 0 after a single step. A
        span is a quarter of all steps, so that the last ones do not mislead where convergence is slow, but
        five of them at least, if there are as many.
        """
        steps = len(self.least) - 1
        span = min(steps // 2, max(5, steps // 4))
        if span == 0:
            return 0.0
        first, second, last = self.least[-1 - 2 * span], self.least[-1 - span], self.least[-1]
        ratio = min((second - last) / (first - second), 0.999) if first > second else 0.0
        return (second - last) * ratio / (1.0 - ratio) / max(abs(last), math.ulp(0.0))


@dataclass
class _Run:
    """The record of one solve: history, clock, the best point so far."""

    problem: Problem
    penalty: Penalty
    tol: float
    callback: Callback | None
    certificate: Certificate | None
    best: Point
    gains: Gains
    history: History = field(default_factory=History)
    seconds: float = 0.0
    ask_below: float = math.inf

    def consider(self, name: str, point: Point, *, seeks: bool, settles: bool, final: bool) -> Status | None:
        """Record a point, and return how to end, if so."""
        self.gains.add(point.objective)
        status = self._verdict(point, seeks, settles)
        worse = point.objective > self.best.objective * (1 + _WORSE)
        # Not convex: a stationary point that is worse than one already met is not what we are looking for.
        # But if the last phase ends at one, the best point is as good at least.
        if worse and not final:
            status = None
        if point.objective <= self.best.objective or (status in SUCCESSES and not worse):
            self.best = point
        info = IterationInfo(
            len(self.history), name, point.objective, point.residual, point.rank, self.seconds, point.gap
        )
        self.history.entries.append(info)
        stop = bool(self.callback(info)) if self.callback is not None else False
        if status is None and stop:
            status = Status.STOPPED
        return status

    def _verdict(self, point: Point, seeks: bool, settles: bool) -> Status | None:
        """Return in which way a point is good enough, if it is."""
        tol, certificate = self.tol, self.certificate
        if seeks and point.gap <= tol:
            return Status.CONVERGED
        # A proof costs a step, so it is asked for whenever the estimate has halved.
        if seeks and certificate is not None and point.gap <= self.ask_below:
            self.ask_below = 0.5 * point.gap
            if certificate.measure(self.problem, self.penalty, point) <= tol:
                return certificate.status
        if settles and self.gains.below(tol if certificate is None else _STANDSTILL * tol):
            return Status.SETTLED
        return None


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
    """Run the phases one after the other, until a point is good to within ``tol``.

    That is: its gap is at most ``tol``, or the certificate proves as much, or the last steps of a phase that
    settles have gained next to nothing. The clock runs only inside the phases. The result never has a larger
    objective than ``start``.
    """
    run = _Run(problem, penalty, tol, callback, certificate, start, Gains(problem.rounding))
    status = run.consider("start", start, seeks=False, settles=False, final=False)
    for phase in phases:
        if status is not None:
            break
        clock = perf_counter()
        phase.start(problem, penalty, run.best)
        run.seconds += perf_counter() - clock
        run.gains = Gains(problem.rounding)
        while status is None and len(run.history) <= max_iter:
            clock = perf_counter()
            step = phase.step()
            run.seconds += perf_counter() - clock
            if step is None:
                break
            status = run.consider(
                phase.name,
                step,
                seeks=phase.seeks_tolerance,
                settles=phase.settles,
                final=phase is phases[-1],
            )
    if status is None:
        status = Status.MAX_ITER if phases[-1].seeks_tolerance else Status.ALL_STEPS
        if certificate is not None and phases[-1].seeks_tolerance:
            status = certificate.failure
    return _finish(run, run.best, status)


def _finish(run: _Run, point: Point, status: Status) -> SolverResult:
    """Factorise the returned point, and evaluate its objective and its residual exactly."""
    factors = factorise(run.problem, point.W, point.rank)
    return SolverResult(
        solution=point.W,
        factors=factors,
        status=status,
        n_iter=len(run.history) - 1,
        objective=objective_of(run.problem, run.penalty, point.W, factors.s),
        gap=point.gap,
        residual=stationarity_residual(run.problem, run.penalty, point.W),
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
