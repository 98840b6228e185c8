"""Choice of method and starting point, for one penalty or for chains of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import Array, is_host, namespace
from lrml.core.eigen import Factors
from lrml.core.loss_problem import RowProblem
from lrml.core.penalties import Penalty, Ranks, TailSum, singular_values
from lrml.core.quadratic import SpectralProblem
from lrml.core.threads import map_in_threads, one_blas_thread_if
from lrml.solvers._loop import (
    START_SHARE,
    Callback,
    Certificate,
    History,
    Phase,
    Point,
    Problem,
    Run,
    SolverResult,
    Status,
    iterate,
    objective_of,
    point_at,
    spectrum,
    stationarity_residual,
)
from lrml.solvers.alternating import Alternating
from lrml.solvers.first_order import AcceleratedProximalGradient, Algorithm1, ProximalGradient
from lrml.solvers.proximal_newton import ProximalNewton

_Result = TypeVar("_Result")

_FIRST_ORDER = {"apg": AcceleratedProximalGradient, "pg": ProximalGradient, "paper": Algorithm1}
SOLVERS = ("auto", *_FIRST_ORDER)
# Up to so many multiplications in a product, a second BLAS thread saves an estimated tenth of a fit at most.
_SMALL_PRODUCT = 4_000_000
ROW_SOLVERS = ("auto", "apg")


class ReducedRank:
    """Offer the least-squares solution of rank ``penalty.n_free`` if the penalty makes it stationary.

    It pays no penalty, and is stationary for a strong one, where local methods would settle for another
    subspace or approach it slowly. For a weaker penalty it may still be a better start than the first steps
    of `Alternating`, which therefore also uses ``solution``.
    """

    name = "reduced rank"
    seeks_tolerance, settles = True, False

    def start(self, problem: SpectralProblem, penalty: Penalty, point: Point) -> None:
        """Solve, and check whether to offer the solution."""
        self.candidate: Point | None = None
        self.solution = problem.reduced_rank_solution(penalty.n_free)
        W = self.solution[0]
        slope = float(penalty.slopes(point.sigma)[penalty.n_free])
        # The norm of a column is a cheap lower bound, which mostly decides.
        gradient = problem.gradient(W)
        if _longest_column(gradient) <= slope and float(singular_values(gradient)[0]) <= slope:
            sigma = spectrum(W, rank=penalty.n_free)
            # f has no slope within the row and column space of W, and elsewhere none above the penalty's.
            self.candidate = Point(W, sigma, objective_of(problem, penalty, W, sigma), residual=0.0, gap=0.0)

    def step(self) -> Point | None:
        """Return the candidate once, or nothing."""
        candidate, self.candidate = self.candidate, None
        return candidate


def _longest_column(matrix: Array) -> float:
    xp = namespace(matrix)
    return float(xp.max(xp.linalg.vector_norm(matrix, axis=0)))


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
    """Find a stationary point of f(W) + Ω(σ(W)).

    Parameters
    ----------
    problem : SpectralProblem
        The smooth part f.
    penalty : Penalty
        Ω.
    solver : {"auto", "apg", "pg", "paper"} or Phase
        "auto" takes the reduced-rank solution if that is stationary. Otherwise it takes a few alternating
        steps from a ridge solution, compares with the reduced-rank solution, and goes on from the better one;
        if that stalls, accelerated proximal gradient takes over. A `Phase` object is run alone.
    start : array of shape ``problem.shape``, optional
        Starting point in spectral coordinates.
    max_iter : int
    tol : float
        Upper limit of the estimated gap (F − F*) / F; see `Point` and `Status`.
    callback : callable, optional
        Receives an `IterationInfo` after every iteration; a true return value stops.
    certificate : Certificate, optional
        A proof of the gap, to which ``tol`` applies as well.

    Returns
    -------
    SolverResult
        Its objective never exceeds that of the starting point.
    """
    phases = _phases(solver, warm=start is not None)
    literal = isinstance(phases[0], Algorithm1)
    run = Run(problem, penalty, tol, callback, certificate)
    ranks = Ranks.of(penalty, problem.cross)
    if not literal and ranks.free == ranks.permitted:
        return _closed_form(problem, penalty, run, ranks.free)
    if literal and start is None:
        start = namespace(problem.cross).zeros_like(problem.cross)
    elif start is None:
        start = _beginning(problem, penalty, ranks.permitted)
    rows, columns = problem.shape
    with one_blas_thread_if(rows * columns**2 <= _SMALL_PRODUCT):
        first = _permitted(problem, penalty, start, spectrum(start))
        return iterate(phases, run, first, max_iter=max_iter)


def _phases(solver: str | Phase, *, warm: bool) -> Sequence[Phase]:
    if not isinstance(solver, str):
        return [solver]
    if solver == "auto":
        if warm:  # already close
            return [Alternating(), AcceleratedProximalGradient()]
        limit = ReducedRank()
        return [limit, Alternating(rival=limit), AcceleratedProximalGradient()]
    if solver in _FIRST_ORDER:
        return [_FIRST_ORDER[solver]()]
    raise ValueError(f"solver must be one of {', '.join(map(repr, SOLVERS))}, got {solver!r}. Use 'auto'.")


def _closed_form(problem: SpectralProblem, penalty: Penalty, run: Run, rank: int) -> SolverResult:
    """Return the minimiser over the matrices of this rank: the penalty is nothing but such a limit."""
    W = problem.best_of_rank(rank)
    point = point_at(problem, penalty, W, spectrum(W, rank), problem.gradient(W))
    if rank < problem.shape[1]:  # what the gradient has left would leave the matrices of this rank
        point = replace(point, residual=0.0, gap=0.0)
    run.status = Status.EXACT
    run.keep(point, point.objective)
    run.record("closed form", point.objective, point.residual, point.rank, point.gap)
    return run.result(Status.EXACT)


def _beginning(problem: SpectralProblem, penalty: Penalty, rank: int) -> Array:
    """Return a ridge solution of at most the given rank.

    If that is a limit, the ridge is the one as which the penalty acts on the middle singular value, c / 2σ.
    """
    eased = problem.with_ridge(problem.ridge + problem.ridge_leaving(START_SHARE))
    W = eased.best_of_rank(rank)
    if rank >= problem.shape[1]:
        return W
    sigma = spectrum(W, rank)[: (rank + 1) // 2]
    if float(sigma[-1]) == 0.0:
        return W
    extra = 0.5 * float(penalty.slopes(sigma)[-1]) / float(sigma[-1])
    return problem.with_ridge(problem.ridge + extra).best_of_rank(rank)


def _permitted(problem: Problem, penalty: Penalty, W: Array, sigma: Array) -> Point:
    """Evaluate a starting point, or the nearest one that the penalty permits."""
    point = point_at(problem, penalty, W, sigma)
    if point.objective < math.inf:
        return point
    return point_at(problem, penalty, *problem.prox(W, penalty, 0.0))


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
    """Find a stationary point of f(V) + Ω(σ(W̃)) for a loss over rows.

    Parameters
    ----------
    problem : RowProblem
    penalty : Penalty
    solver : {"auto", "apg"}
        "auto" is proximal Newton, then accelerated proximal gradient if that stalls.
    start : array of shape ``problem.shape``, optional
        The constant scores ``problem.origin`` if not given.
    rank : int, optional
        Upper limit of the rank of the penalised part of the start, if known.
    max_iter, tol, callback
        As in `lrml.solvers.solve`. Every iteration reads the rows.

    Returns
    -------
    SolverResult
        Its ``solution`` holds the intercepts: see `RowProblem.intercept`.
    """
    if solver not in ROW_SOLVERS:
        raise ValueError(f"solver must be 'auto' or 'apg' for a loss over rows, got {solver!r}. Use 'auto'.")
    phases: list[Phase] = [AcceleratedProximalGradient()]
    if solver == "auto":
        phases.insert(0, ProximalNewton())
    V = problem.origin if start is None else start
    first = _permitted(problem, penalty, V, spectrum(problem.penalised(V), rank))
    return iterate(phases, Run(problem, penalty, tol, callback), first, max_iter=max_iter)


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
    history: History

    @cached_property
    def residual(self) -> float:
        """Stationarity residual, as in `SolverResult`. Costs one proximal step, on access."""
        return stationarity_residual(self.problem, self.penalty, self.left @ self.right.T)


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
    begun = False
    # On the way up from least squares, the limit alpha → ∞, which pays no penalty, may become better.
    limit = problem.reduced_rank_solution(chain.theta) if chain.begin == "least squares" else None
    for alpha, key in zip(chain.alphas, chain.keys, strict=True):
        penalty = TailSum(chain.theta, alpha)
        if alpha == 0.0 or chain.theta >= problem.shape[1]:
            yield key, _unpenalised(problem, penalty)
            continue
        if begun:
            phase.retarget(penalty)
        else:
            phase.start(problem, penalty, _first_point(problem, chain, penalty))
            begun = True
        found = _settle(phase, problem, penalty, tol, max_iter)
        if limit is not None and found.objective > limit[1] * (1 + problem.rounding):
            W, sigma = limit[0], spectrum(limit[0], rank=chain.theta)
            phase.start(problem, penalty, point_at(problem, penalty, W, sigma))
            better = _settle(phase, problem, penalty, tol, max_iter)
            found = replace(better, n_steps=found.n_steps + better.n_steps)
        yield key, found


def _first_point(problem: SpectralProblem, chain: Chain, penalty: TailSum) -> Point:
    xp = namespace(problem.cross)
    if not isinstance(chain.begin, str):
        left, right = chain.begin
        rest = xp.zeros(problem.shape[1] - left.shape[1], dtype=left.dtype, device=left.device)
        sigma = xp.concat([xp.linalg.vector_norm(left, axis=0), rest])
        return point_at(problem, penalty, left @ right.T, sigma)
    if chain.begin == "reduced rank" and chain.theta == 0:
        return point_at(problem, penalty, xp.zeros_like(problem.cross), xp.zeros_like(problem.cross[0, :]))
    if chain.begin == "reduced rank":
        W = problem.reduced_rank_solution(chain.theta)[0]
        return point_at(problem, penalty, W, spectrum(W, rank=chain.theta))
    # A little more ridge, so that directions undetermined by the data do not dominate.
    W = problem.ridge_solution(extra=min(penalty.alpha, problem.ridge_leaving(START_SHARE)))
    return point_at(problem, penalty, W, spectrum(W))


def _settle(
    phase: Alternating, problem: SpectralProblem, penalty: TailSum, tol: float, max_iter: int
) -> ChainPoint:
    """Step until the point is within ``tol``, as in a fit."""
    before = phase.n_decompositions
    run = Run(problem, penalty, tol)
    run.take_steps(phase, lambda: phase.n_decompositions - before < max_iter)
    last = phase.last
    assert last is not None  # there was at least one step
    kept = last.point.rank
    sigma = last.point.sigma[:kept]
    return ChainPoint(
        problem,
        penalty,
        last.U[:, :kept] * sigma,
        last.basis[:, :kept],
        sigma,
        last.point.objective,
        last.point.gap,
        run.status or Status.MAX_ITER,
        phase.n_decompositions - before,
        run.history,
    )


def _unpenalised(problem: SpectralProblem, penalty: TailSum) -> ChainPoint:
    """Return the (ridge) least-squares solution, for the case that nothing is penalised."""
    W = problem.ridge_solution()
    U, sigma, V = Factors.of(W)
    rank = int(namespace(W).count_nonzero(spectrum(W) > 0))
    left, right = U[:, :rank] * sigma[:rank], V[:, :rank]
    value = problem.value(W)
    return ChainPoint(problem, penalty, left, right, sigma[:rank], value, 0.0, Status.EXACT, 0, History())
