"""The limit alpha → ∞ as a candidate: reduced-rank regression."""

from __future__ import annotations

from typing import Literal

from lrml._arrays import Array
from lrml.penalties import Penalty, right_singular
from lrml.problem import SpectralProblem
from lrml.solvers._loop import Point, objective_of, spectrum


class ReducedRank:
    """Offer the least-squares solution of rank ``penalty.n_free`` where it is worth a look.

    It pays no penalty, and for a strong one it is stationary: methods that see the problem locally would
    otherwise settle for another subspace, or creep towards it.

    Parameters
    ----------
    where : {"stationary", "better"}
        Offer it where the penalty makes it stationary, or where it is better than the best point so far.
    """

    name = "reduced rank"
    seeks_tolerance = True

    def __init__(self, where: Literal["stationary", "better"]) -> None:
        self.where = where

    def start(self, problem: SpectralProblem, penalty: Penalty, point: Point) -> None:
        """Solve, and look whether to offer the solution."""
        self.candidate: Point | None = None
        W, unpenalised = problem.reduced_rank_solution(penalty.n_free)
        if self.where == "stationary":
            wanted = strongest_slope(problem, W) <= float(penalty.slopes(point.sigma)[-1])
        else:
            wanted = unpenalised < objective_of(problem, penalty, point.W, point.sigma)
        if wanted:
            # The loop believes in no residual before it has measured it.
            self.candidate = Point(W, spectrum(W, rank=penalty.n_free), residual=0.0)

    def step(self) -> Point | None:
        """Return the candidate once, or nothing."""
        candidate, self.candidate = self.candidate, None
        return candidate


def strongest_slope(problem: SpectralProblem, W: Array) -> float:
    """‖∇f(W)‖₂: at a reduced-rank solution, the strength from which on a penalty of the tail keeps it."""
    return float(right_singular(problem.gradient(W))[0][0])
