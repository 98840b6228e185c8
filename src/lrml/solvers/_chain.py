"""Many penalties on one problem: chains of warm starts, several at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, TypeVar

from lrml._arrays import Array, is_host, namespace
from lrml._threads import map_in_threads
from lrml.penalties import TailSum
from lrml.problem import SpectralProblem
from lrml.solvers._loop import START_SHARE, Point, Run, point_at, spectrum, stationarity_residual
from lrml.solvers._result import Factors, History, Status
from lrml.solvers.alternating import Alternating

_Result = TypeVar("_Result")


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
            phase.start(problem, penalty, _beginning(problem, chain, penalty))
            begun = True
        found = _settle(phase, problem, penalty, tol, max_iter)
        if limit is not None and found.objective > limit[1] * (1 + problem.rounding):
            W, sigma = limit[0], spectrum(limit[0], rank=chain.theta)
            phase.start(problem, penalty, point_at(problem, penalty, W, sigma))
            better = _settle(phase, problem, penalty, tol, max_iter)
            found = replace(better, n_steps=found.n_steps + better.n_steps)
        yield key, found


def _beginning(problem: SpectralProblem, chain: Chain, penalty: TailSum) -> Point:
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
