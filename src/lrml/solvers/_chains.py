"""Chains of warm starts by their old names, until paths and searches use `solve_path`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from lrml.core.arrays import Array, is_host, map_in_threads
from lrml.core.linalg import Factors
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.solvers._loop import Status
from lrml.solvers._solve import _solve_chain, seen

_Result = TypeVar("_Result")


@dataclass(frozen=True, eq=False)
class ChainPoint:
    """One solution of a chain."""

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
    """Penalties TailSum(theta, alpha) to be solved one after the other."""

    theta: int
    alphas: tuple[float, ...]
    keys: tuple[Any, ...]
    begin: Any


def chains_for(theta: int, alphas: Sequence[float], keys: Sequence[Any]) -> list[Chain]:
    """Return two chains that meet in the middle of the descending alphas."""
    half = (len(alphas) + 1) // 2
    down = Chain(theta, tuple(alphas[:half]), tuple(keys[:half]), "reduced rank")
    up = Chain(theta, tuple(alphas[half:])[::-1], tuple(keys[half:])[::-1], "least squares")
    return [chain for chain in (down, up) if chain.alphas]


def solve_chain(
    problem: SpectralProblem, chain: Chain, *, tol: float, max_iter: int
) -> Iterator[tuple[Any, ChainPoint]]:
    """Solve the penalties of a chain in turn."""
    points = [(problem, TailSum(chain.theta, alpha)) for alpha in chain.alphas]
    names = {"reduced rank": "down", "least squares": "up"}
    begin = names[chain.begin] if isinstance(chain.begin, str) else chain.begin
    solved = _solve_chain(points, begin, "coefficients", tol, max_iter)
    for key, (_, penalty), found in zip(chain.keys, points, solved, strict=True):
        left, right = found.regressions.sides
        sigma = found.sigma
        if right is None or found.status is Status.EXACT:
            U, sigma, right = seen(Factors.of(left) if right is None else Factors.of_sides(left, right))
            left = U * sigma
        how = found.objective, found.gap, found.status, found.n_steps
        yield key, ChainPoint(problem, penalty, left, right, sigma, *how)


def solve_chains(
    problems: Sequence[SpectralProblem],
    chains: Sequence[Chain],
    visit: Callable[[Any, ChainPoint], _Result],
    *,
    tol: float,
    max_iter: int,
) -> Iterator[list[_Result]]:
    """Solve chains, each on its own problem; yield the results of their points, in order."""

    def work(pair: tuple[SpectralProblem, Chain]) -> list[_Result]:
        return [visit(key, point) for key, point in solve_chain(*pair, tol=tol, max_iter=max_iter)]

    small = all(problem.is_small or not is_host(problem.cross) for problem in problems)
    return map_in_threads(work, list(zip(problems, chains, strict=True)), ahead=len(chains), small=small)
