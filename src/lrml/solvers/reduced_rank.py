"""The limit alpha → ∞ as a candidate: reduced-rank regression."""

from __future__ import annotations

from lrml._arrays import Array, namespace
from lrml.penalties import Penalty, singular_values
from lrml.problem import SpectralProblem
from lrml.solvers._loop import Point, objective_of, spectrum


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
        if _longest_column(problem.gradient(W)) <= slope and strongest_slope(problem, W) <= slope:
            sigma = spectrum(W, rank=penalty.n_free)
            # f has no slope within the row and column space of W, and elsewhere none above the penalty's.
            self.candidate = Point(W, sigma, objective_of(problem, penalty, W, sigma), residual=0.0, gap=0.0)

    def step(self) -> Point | None:
        """Return the candidate once, or nothing."""
        candidate, self.candidate = self.candidate, None
        return candidate


def strongest_slope(problem: SpectralProblem, W: Array) -> float:
    """‖∇f(W)‖₂: at a reduced-rank solution, the least penalty of the tail that keeps it stationary."""
    return float(singular_values(problem.gradient(W))[0])


def _longest_column(matrix: Array) -> float:
    xp = namespace(matrix)
    return float(xp.max(xp.linalg.vector_norm(matrix, axis=0)))
