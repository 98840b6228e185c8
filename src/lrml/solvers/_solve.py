"""What is solved how: closed forms, methods, starting points; one penalty, or paths of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import (
    Array,
    beside,
    dot,
    frobenius,
    is_host,
    map_in_threads,
    namespace,
    one_blas_thread_if,
    to_numpy,
)
from lrml.core.coordinates import RidgeRegressions
from lrml.core.linalg import Factors, singular_values, spectrum
from lrml.core.loss_problem import RowProblem
from lrml.core.penalties import Penalty, TailSum, Values, ranks_of
from lrml.core.quadratic import SpectralProblem
from lrml.solvers._loop import (
    Callback,
    Certificate,
    Phase,
    Point,
    Run,
    SolverResult,
    Status,
    at_once,
    point_at,
    stationarity_residual,
)
from lrml.solvers.alternating import Alternating
from lrml.solvers.first_order import AcceleratedProximalGradient, Algorithm1, ProximalGradient
from lrml.solvers.proximal_newton import ProximalNewton

_Result = TypeVar("_Result")

_FIRST_ORDER = {"apg": AcceleratedProximalGradient, "pg": ProximalGradient, "paper": Algorithm1}
SOLVERS = ("auto", *_FIRST_ORDER)
ROW_SOLVERS = ("auto", "apg")
# Share of effective directions left by the ridge of a starting point. All features must be present, whatever
# their scale: missing ones would have to be found by small steps.
_START_SHARE = 0.8
# Up to so many multiplications in a product, a second BLAS thread saves an estimated tenth of a fit at most.
_SMALL_PRODUCT = 4_000_000


@dataclass(frozen=True, eq=False)
class PathPoint:
    """One solution, in the coordinates of its problem.

    ``sigma`` are the descending singular values that are penalised, those of the coefficients or of the
    predictions; None where the penalty costs nothing. ``status`` is found by the same tests as in a fit;
    ``n_steps`` counts steps of the solver.
    """

    problem: SpectralProblem
    penalty: Penalty
    regressions: RidgeRegressions
    sigma: Values | None
    objective: float
    gap: float
    status: Status
    n_steps: int


def closed_form(problem: SpectralProblem, penalty: Penalty, space: str = "coefficients") -> PathPoint | None:
    """Return the global minimum where it has a closed form.

    That is: if the penalty costs nothing, or is a limit of the rank, or if predictions are penalised.
    """
    costs = space == "coefficients" or hasattr(penalty, "slopes")  # the predictions need no more than a prox
    free, permitted = ranks_of(penalty, problem.shape[1]) if costs else (0, 0)
    if free == problem.shape[1]:
        W = problem.ridge_solution()
        objective = problem.target - float(dot(W, problem.cross))
        found = RidgeRegressions(W, None, problem.ridge)
        return PathPoint(problem, penalty, found, None, objective, 0.0, Status.EXACT, 0)
    if space == "coefficients" and free < permitted:
        return None
    left, right, d, sigma = problem.penalised_predictions(penalty)
    gains = float(np.sum(sigma * (2.0 * d - sigma)))
    objective = problem.target - gains + penalty.value(sigma)
    found = RidgeRegressions(left, right, problem.ridge, shrunk=beside(sigma / d, left))
    if space == "coefficients":
        found, sigma = found._replace(shrunk=None), spectrum(left) if left.shape[1] else sigma
    return PathPoint(problem, penalty, found, sigma, objective, 0.0, Status.EXACT, 0)


def regressions_of(
    problem: SpectralProblem, penalty: Penalty, W: Array, space: str = "coefficients"
) -> RidgeRegressions:
    """Read a solution as ridge regressions of directions of label space."""
    exact = closed_form(problem, penalty, space)
    if exact is not None:
        return exact.regressions
    U, s, V = seen(Factors.of(W))
    return RidgeRegressions(U * s, V, problem.ridge, _shrinkages(penalty, s))


def solve(
    problem: SpectralProblem,
    penalty: Penalty,
    *,
    space: str = "coefficients",
    solver: str | Phase = "auto",
    start: Array | None = None,
    max_iter: int = 5000,
    tol: float = 1e-4,
    callback: Callback | None = None,
    certificate: Certificate | None = None,
) -> SolverResult:
    """Find a stationary point of f(W) + Ω(σ(W)), with an objective of at most that of the starting point.

    "auto" takes the reduced-rank solution if that is stationary. Otherwise it takes a few alternating steps
    from a ridge solution, compares with the reduced-rank solution, and goes on from the better one; if that
    stalls, accelerated proximal gradient takes over. "apg", "pg" and "paper" are first-order methods; a
    `Phase` object is run alone. For a penalty on the predictions (``space``) there is a closed form.

    ``start`` is in spectral coordinates, of the shape of the problem. ``tol`` limits the estimated gap
    (F − F*) / F, see `Point` and `Status`, and that of a ``certificate``, which proves it. A ``callback``
    receives an `IterationInfo` after every iteration; a true return value stops.
    """
    phases: list[Phase]
    if not isinstance(solver, str):
        phases = [solver]
    elif solver == "auto":
        phases = [Alternating(compare=start is None), AcceleratedProximalGradient()]  # a start is close
    elif solver in _FIRST_ORDER:
        phases = [_FIRST_ORDER[solver]()]
    else:
        raise ValueError(f"solver is {solver!r}. Use one of {', '.join(map(repr, SOLVERS))}.")
    literal = isinstance(phases[0], Algorithm1)
    exact = None if literal else closed_form(problem, penalty, space)
    if exact is not None:
        return result_of(exact, callback)
    if literal and start is None:
        start = namespace(problem.cross).zeros_like(problem.cross)
    elif start is None:
        start = _beginning(problem, penalty)
    otherwise = Status.MAX_ITER if certificate is None else Status.GAP_OPEN
    otherwise = Status.ALL_STEPS if literal else otherwise
    rows, columns = problem.shape
    run = Run(problem, penalty, tol, callback, certificate)
    with one_blas_thread_if(rows * columns**2 <= _SMALL_PRODUCT):
        return run.through(phases, start, spectrum(start), max_iter, otherwise)


def result_of(found: PathPoint, callback: Callback | None = None) -> SolverResult:
    """Return a solution as the outcome of a run, of which only the end is known."""
    problem, (left, right) = found.problem, found.regressions.sides
    U, s, V = seen(Factors.of(left) if right is None else Factors.of_sides(left, right))
    W = (U * s) @ V.T
    objective = problem.value(W) + (0.0 if found.sigma is None else found.penalty.value(found.sigma))
    if found.status is not Status.EXACT:
        residual = stationarity_residual(problem, found.penalty, W)
    else:  # what the gradient has left would leave the matrices of this rank
        residual = frobenius(problem.gradient(W)) / problem.scale if right is None else 0.0
    ended = at_once(W, problem.restored(Factors(U, s, V)), objective, residual, callback)
    return replace(ended, status=found.status, n_iter=found.n_steps, gap=found.gap)


def seen(factors: Factors) -> Factors:
    """Return factors without singular values that are rounding noise."""
    (U, s, V), xp, kept = factors, namespace(factors.s), 0
    if s.shape[0]:  # they descend
        kept = int(xp.count_nonzero(s > max(U.shape[0], V.shape[0]) * xp.finfo(s.dtype).eps * s[0]))
    return Factors(U[:, :kept], s[:kept], V[:, :kept])


def _shrinkages(penalty: Penalty, s: Array) -> Array:
    """Return as which ridges a penalty acts on positive singular values, c / 2σ."""
    sigma = to_numpy(s)
    return beside(0.5 * penalty.slopes(sigma) / sigma, s)


def _beginning(problem: SpectralProblem, penalty: Penalty) -> Array:
    """Return a ridge solution of a rank that the penalty permits.

    If that is a limit, the ridge is the one as which the penalty acts on the middle singular value, c / 2σ.
    """
    _, rank = ranks_of(penalty, problem.shape[1])
    further = problem.ridge_leaving(_START_SHARE)
    W, _ = problem.with_ridge(problem.ridge + further).reduced_rank_solution(rank)
    if rank >= problem.shape[1]:
        return W
    sigma = spectrum(W, rank)[: (rank + 1) // 2]
    if sigma[-1] == 0.0:
        return W
    further = 0.5 * float(penalty.slopes(sigma)[-1] / sigma[-1])
    return problem.with_ridge(problem.ridge + further).reduced_rank_solution(rank)[0]


def duality_gap(problem: SpectralProblem, penalty: TailSum, point: Point) -> float:
    """Relative duality gap of f(W) + alpha · ‖W‖_*, f the squared loss with or without a ridge.

    A ridge is equivalent to rows √ridge · I of X with zero rows of Y, so let f be ‖Y − XW‖². The dual is

    ::

        maximise ⟨A, Y⟩ − ‖A‖²/4    subject to    ‖XᵀA‖₂ ≤ alpha,

    and A = 2t(Y − XW), for t in [0, alpha / ‖∇f(W)‖₂], is feasible. The best such t gives the dual value
    D(t) = 2t ⟨E, Y⟩ − t² ‖E‖², E = Y − XW. Primal minus dual value, over the primal value, bounds how far
    the objective is above the least one.
    """
    W, primal = point.W, point.objective
    projected = float(dot(W, problem.cross))
    error_on_target = problem.target - projected
    error = error_on_target - projected + float(dot(W, problem.diagonal * W))
    steepest = singular_values(problem.gradient(W))[0]
    t = error_on_target / error if error > 0 else 1.0
    if steepest > 0:
        t = min(t, penalty.alpha / steepest)
    t = max(t, 0.0)
    dual = 2.0 * t * error_on_target - t * t * error
    return max(primal - dual, 0.0) / primal if primal > 0 else 0.0


def solve_rows(
    problem: RowProblem,
    penalty: Penalty,
    *,
    solver: str = "auto",
    start: npt.NDArray[np.float64] | None = None,
    rank: int | None = None,
    max_iter: int = 5000,
    tol: float = 1e-4,
    callback: Callback | None = None,
) -> SolverResult:
    """Find a stationary point of f(V) + Ω(σ(W̃)) for a loss over rows; every iteration reads them.

    ``solver`` "auto" is proximal Newton, then accelerated proximal gradient if that stalls; "apg" is the
    latter alone. The default start are the constant scores ``problem.origin``; ``rank`` is an upper limit of
    the rank of the penalised part of another one, if known. All else is as in `solve`. The ``solution``
    holds the intercepts: see `RowProblem.intercept`.
    """
    if solver not in ROW_SOLVERS:
        raise ValueError(f"solver must be 'auto' or 'apg' for a loss over rows, got {solver!r}. Use 'auto'.")
    first: list[Phase] = [ProximalNewton()] if solver == "auto" else []
    V = problem.origin if start is None else start
    run, phases = Run(problem, penalty, tol, callback), [*first, AcceleratedProximalGradient()]
    found = run.through(phases, V, spectrum(V[1:, :], rank), max_iter, Status.MAX_ITER)
    if problem.space == "coefficients":
        return found
    U, s, V = found.factors  # of the predictions
    return replace(found, factors=Factors.of_sides(U * s, V))


def solve_path(
    points: Sequence[tuple[SpectralProblem, Penalty]],
    visit: Callable[[int, PathPoint], _Result],
    *,
    space: str = "coefficients",
    tol: float = 1e-4,
    max_iter: int = 500,
) -> list[_Result]:
    """Solve many problems with penalties; return what ``visit(index, point)`` returns for each, in order.

    Problems may differ in the ridge or in the rows. Where there is no closed form, the points that share a
    problem and differ in alpha only are two chains, which meet in the middle: one goes down from the largest
    alpha, where the model is the reduced-rank solution, one up from the smallest, near least squares. Each
    solution is the start of the next. Chains run side by side, and points are visited in their threads, each
    on one thread of BLAS; nothing depends on the number of threads. All else is as in `solve`.
    """
    groups: dict[Any, list[int]] = {}
    for index, (problem, penalty) in enumerate(points):
        key: Any = id(problem)
        if space == "coefficients":
            key = key, replace(penalty, alpha=0.0) if isinstance(penalty, TailSum) else penalty
        groups.setdefault(key, []).append(index)
    chains: list[tuple[list[int], str]] = []
    for members in groups.values():
        members.sort(key=lambda index: -getattr(points[index][1], "alpha", 0.0))
        half = len(members) if space == "predictions" else (len(members) + 1) // 2
        chains += [(members[:half], "down"), (members[half:][::-1], "up")]
    results: dict[int, _Result] = {}

    def work(chain: tuple[list[int], str]) -> None:
        members, begin = chain
        found = _solve_chain([points[index] for index in members], begin, space, tol, max_iter)
        for index, point in zip(members, found, strict=True):
            results[index] = visit(index, point)

    # Chains differ much in length: all may start at once, so that none waits for another. A device has its
    # own threads.
    small = all(problem.is_small or not is_host(problem.cross) for problem, _ in points)
    for _ in map_in_threads(work, chains, ahead=len(chains), small=small):
        pass
    return [results[index] for index in range(len(points))]


def _solve_chain(
    points: Sequence[tuple[SpectralProblem, Penalty]], begin: str, space: str, tol: float, max_iter: int
) -> Iterator[PathPoint]:
    """Solve the points of a chain in turn; it begins on its way "down" or "up"."""
    phase = Alternating()
    for problem, penalty in points:
        exact = closed_form(problem, penalty, space)
        if exact is not None:
            yield exact
            continue
        if phase.last is None:
            if begin == "down":
                rank = penalty.n_free
                W, _ = problem.reduced_rank_solution(rank)
            else:
                # A little more ridge, so that directions undetermined by the data do not dominate.
                extra = min(getattr(penalty, "alpha", math.inf), problem.ridge_leaving(_START_SHARE))
                _, rank = ranks_of(penalty, problem.shape[1])
                W, _ = problem.with_ridge(problem.ridge + extra).reduced_rank_solution(rank)
            phase.start(problem, penalty, point_at(problem, penalty, W, spectrum(W, rank)))
        else:
            phase.retarget(penalty)
        run = Run(problem, penalty, tol)
        run.take_steps(phase, max_iter)
        point, factors = phase.reached
        U, s, V = seen(factors)
        found = RidgeRegressions(U * s, V, problem.ridge, _shrinkages(penalty, s))
        status = run.status or Status.MAX_ITER
        ended = point.objective, point.gap, status, len(run.history)
        yield PathPoint(problem, penalty, found, to_numpy(s), *ended)
