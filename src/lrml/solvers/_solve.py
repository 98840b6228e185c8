"""Choice of method and starting point, for one penalty or for chains of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import Array, is_host, map_in_threads, namespace, one_blas_thread_if
from lrml.core.linalg import Factors
from lrml.core.loss_problem import RowProblem
from lrml.core.penalties import Penalty, TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.core.spectra import Ranks
from lrml.solvers._loop import (
    Callback,
    Certificate,
    Phase,
    Point,
    Run,
    SolverResult,
    Status,
    point_at,
    spectrum,
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


def solve(
    problem: SpectralProblem,
    penalty: Penalty,
    *,
    solver: str | Phase = "auto",
    start: Array | None = None,
    max_iter: int = 5000,
    tol: float = 1e-4,
    callback: Callback | None = None,
    certificate: Certificate | None = None,
) -> SolverResult:
    """Find a stationary point of f(W) + Ω(σ(W)), with an objective of at most that of the starting point.

    Parameters
    ----------
    problem, penalty : SpectralProblem, Penalty
        f and Ω.
    solver : {"auto", "apg", "pg", "paper"} or Phase
        "auto" takes the reduced-rank solution if that is stationary. Otherwise it takes a few alternating
        steps from a ridge solution, compares with the reduced-rank solution, and goes on from the better one;
        if that stalls, accelerated proximal gradient takes over. A `Phase` object is run alone.
    start : array of shape ``problem.shape``, optional
        Starting point in spectral coordinates.
    max_iter, tol : int, float
        Upper limits of the iterations, and of the estimated gap (F − F*) / F; see `Point` and `Status`.
    callback : callable, optional
        Receives an `IterationInfo` after every iteration; a true return value stops.
    certificate : Certificate, optional
        A proof of the gap, to which ``tol`` applies as well.
    """
    phases = _phases(solver, warm=start is not None)
    literal = isinstance(phases[0], Algorithm1)
    run = Run(problem, penalty, tol, callback, certificate)
    exact = None if literal else _closed_form(problem, penalty)
    if exact is not None:
        run.status = Status.EXACT
        run.add("closed form", exact, best=True)
        return run.result(Status.EXACT)
    if literal and start is None:
        start = namespace(problem.cross).zeros_like(problem.cross)
    elif start is None:
        start = _beginning(problem, penalty)
    rows, columns = problem.shape
    with one_blas_thread_if(rows * columns**2 <= _SMALL_PRODUCT):
        run.through(phases, start, spectrum(start), max_iter)
        if literal:
            return run.result(Status.ALL_STEPS)
        return run.result(Status.MAX_ITER if certificate is None else Status.GAP_OPEN)


def _phases(solver: str | Phase, *, warm: bool) -> Sequence[Phase]:
    if not isinstance(solver, str):
        return [solver]
    if solver == "auto":
        return [Alternating(compare=not warm), AcceleratedProximalGradient()]  # warm: already close
    if solver in _FIRST_ORDER:
        return [_FIRST_ORDER[solver]()]
    raise ValueError(f"solver must be one of {', '.join(map(repr, SOLVERS))}, got {solver!r}. Use 'auto'.")


def _closed_form(problem: SpectralProblem, penalty: Penalty) -> Point | None:
    """Return the minimiser if the penalty is nothing but a limit of the rank, or nothing at all."""
    rank, permitted = Ranks.of(penalty, problem.cross)
    if rank < permitted:
        return None
    W = problem.best_of_rank(rank)
    point = point_at(problem, penalty, W, spectrum(W, rank), problem.gradient(W))
    # What the gradient has left would leave the matrices of this rank.
    return point if rank == problem.shape[1] else replace(point, residual=0.0, gap=0.0)


def _beginning(problem: SpectralProblem, penalty: Penalty) -> Array:
    """Return a ridge solution of a rank that the penalty permits.

    If that is a limit, the ridge is the one as which the penalty acts on the middle singular value, c / 2σ.
    """
    rank = Ranks.of(penalty, problem.cross).permitted
    W = problem.with_ridge(problem.ridge + problem.ridge_leaving(_START_SHARE)).best_of_rank(rank)
    if rank >= problem.shape[1]:
        return W
    sigma = spectrum(W, rank)[: (rank + 1) // 2]
    if float(sigma[-1]) == 0.0:
        return W
    extra = 0.5 * float(penalty.slopes(sigma)[-1]) / float(sigma[-1])
    return problem.with_ridge(problem.ridge + extra).best_of_rank(rank)


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
    run = Run(problem, penalty, tol, callback)
    sigma = spectrum(problem.penalised(V), rank)
    run.through([*first, AcceleratedProximalGradient()], V, sigma, max_iter)
    return run.result(Status.MAX_ITER)


@dataclass(frozen=True, eq=False)
class ChainPoint:
    """One solution of a chain, in the coordinates of its problem: W = left rightᵀ.

    ``left`` (r × k) has orthogonal columns, their norms the descending singular values ``sigma``; ``right``
    (m × k) has orthonormal ones. ``status`` is found by the same tests as in a fit; ``n_steps`` counts
    spectral decompositions.
    """

    problem: SpectralProblem
    penalty: TailSum
    left: Array
    right: Array
    sigma: Array
    objective: float
    gap: float
    status: Status
    n_steps: int


@dataclass(frozen=True)
class Chain:
    """Penalties TailSum(theta, alpha) to be solved one after the other, each from the last one's solution.

    Alphas descend if the chain begins at the reduced-rank solution, the limit alpha → ∞, and ascend if it
    begins at the least-squares solution, the limit alpha → 0. It may also begin at a given solution left
    rightᵀ, left with orthogonal columns, right with orthonormal ones. ``keys`` name the solutions.
    """

    theta: int
    alphas: tuple[float, ...]
    keys: tuple[Any, ...]
    begin: Literal["reduced rank", "least squares"] | tuple[Array, Array]


def chains_for(theta: int, alphas: Sequence[float], keys: Sequence[Any]) -> list[Chain]:
    """Return two chains that meet in the middle of the descending alphas; each begins at the nearer limit.

    They are independent, so more threads have work, and do not depend on the number of threads.
    """
    half = (len(alphas) + 1) // 2
    down = Chain(theta, tuple(alphas[:half]), tuple(keys[:half]), "reduced rank")
    up = Chain(theta, tuple(alphas[half:])[::-1], tuple(keys[half:])[::-1], "least squares")
    return [chain for chain in (down, up) if chain.alphas]


def alpha_max(problem: SpectralProblem, theta: int) -> float:
    """Least alpha at which the rank-theta least-squares solution W_theta is stationary: ‖∇f(W_theta)‖₂."""
    return problem.strongest_slopes([theta])[0]


def solve_chains(
    problems: Sequence[SpectralProblem],
    chains: Sequence[Chain],
    visit: Callable[[Any, ChainPoint], _Result],
    *,
    tol: float,
    max_iter: int,
) -> Iterator[list[_Result]]:
    """Solve chains, each on its own problem; yield the results of ``visit(key, point)`` for their points.

    Chains run in parallel, each on one thread of BLAS; the lists come in the order of the chains.
    """

    def work(pair: tuple[SpectralProblem, Chain]) -> list[_Result]:
        return [visit(key, point) for key, point in solve_chain(*pair, tol=tol, max_iter=max_iter)]

    # Chains differ much in length: all may start at once, so that none waits for another.
    # A device has its own threads.
    small = all(problem.is_small or not is_host(problem.cross) for problem in problems)
    return map_in_threads(work, list(zip(problems, chains, strict=True)), ahead=len(chains), small=small)


def solve_chain(
    problem: SpectralProblem, chain: Chain, *, tol: float, max_iter: int
) -> Iterator[tuple[Any, ChainPoint]]:
    """Solve the penalties of a chain in turn, each to ``tol`` or with ``max_iter`` decompositions."""
    phase = Alternating()
    # On the way up from least squares, the limit alpha → ∞, which pays no penalty, may become better.
    up = chain.begin == "least squares"
    limit = problem.reduced_rank_solution(chain.theta)[1] if up else math.inf
    for alpha, key in zip(chain.alphas, chain.keys, strict=True):
        penalty, before = TailSum(chain.theta, alpha), phase.n_decompositions
        point = _closed_form(problem, penalty)
        if point is not None:
            factors, status = Factors.of(point.W), Status.EXACT
        else:
            if phase.last is None:
                phase.start(problem, penalty, point_at(problem, penalty, *_first(problem, chain, alpha)))
            else:
                phase.retarget(penalty)
            status = _settle(phase, Run(problem, penalty, tol), max_iter)
            if phase.reached[0].objective > limit * (1 + problem.rounding):
                phase.start(problem, penalty, point_at(problem, penalty, *_limit(problem, chain.theta)))
                status = _settle(phase, Run(problem, penalty, tol), max_iter)
            point, factors = phase.reached
        U, s, V = (part[..., : point.rank] for part in factors)
        steps = phase.n_decompositions - before
        yield key, ChainPoint(problem, penalty, U * s, V, s, point.objective, point.gap, status, steps)


def _settle(phase: Alternating, run: Run, max_iter: int) -> Status:
    """Step until a point is good enough, as in a fit, or there were ``max_iter`` decompositions."""
    most = phase.n_decompositions + max_iter
    run.take_steps(phase, lambda: phase.n_decompositions < most)
    return run.status or Status.MAX_ITER


def _first(problem: SpectralProblem, chain: Chain, alpha: float) -> tuple[Array, Array]:
    """Return a matrix to begin with, and its singular values."""
    if chain.begin == "reduced rank":
        return _limit(problem, chain.theta)
    if chain.begin == "least squares":
        # A little more ridge, so that directions undetermined by the data do not dominate.
        W = problem.ridge_solution(extra=min(alpha, problem.ridge_leaving(_START_SHARE)))
        return W, spectrum(W)
    left, right = chain.begin
    xp = namespace(left)
    rest = xp.zeros(problem.shape[1] - left.shape[1], dtype=left.dtype, device=left.device)
    return left @ right.T, xp.concat([xp.linalg.vector_norm(left, axis=0), rest])


def _limit(problem: SpectralProblem, theta: int) -> tuple[Array, Array]:
    """Return the least-squares solution of rank theta, and its singular values."""
    W, _ = problem.reduced_rank_solution(theta)
    return W, spectrum(W, rank=theta)
