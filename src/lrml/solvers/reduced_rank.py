"""The limit alpha → ∞ as a candidate: reduced-rank regression."""

from __future__ import annotations

from lrml.penalties import Penalty
from lrml.problem import SpectralProblem
from lrml.solvers._loop import Point, objective_of, spectrum


class ReducedRank:
    """Offer the least-squares solution of rank ``penalty.n_free``, where it is the best point so far.

    It pays no penalty, and for a strong one it is stationary: the splitting methods, which see the problem
    locally, would otherwise settle for another subspace.
    """

    name = "reduced rank"
    seeks_tolerance = True

    def start(self, problem: SpectralProblem, penalty: Penalty, point: Point) -> None:
        """Compare the closed-form objective with that of the best point."""
        self.candidate: Point | None = None
        W, unpenalised = problem.reduced_rank_solution(penalty.n_free)
        if unpenalised < objective_of(problem, penalty, point.W, point.sigma):
            # The limit is exactly stationary if the penalty is strong enough; claim so, and let the loop see.
            self.candidate = Point(W, spectrum(W, rank=penalty.n_free), residual=0.0)

    def step(self) -> Point | None:
        """Return the candidate once, or nothing."""
        candidate, self.candidate = self.candidate, None
        return candidate
