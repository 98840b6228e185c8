"""Duality gaps of trace-norm problems: proofs of how far a point can be from the optimum."""

from __future__ import annotations

from lrml._arrays import inner
from lrml.penalties import Penalty, right_singular
from lrml.problem import SpectralProblem
from lrml.solvers._loop import Point
from lrml.solvers._result import Status


class DualityGap:
    """Relative duality gap of f(W) + alpha · ‖W‖_*, f the squared loss with or without a ridge.

    A ridge is √ridge · I among the rows of X with zeros among those of Y, so let f be ‖Y − XW‖². The dual is

    ::

        maximise ⟨A, Y⟩ − ‖A‖²/4    subject to    ‖XᵀA‖₂ ≤ alpha,

    and A = 2t(Y − XW), for t in [0, alpha / ‖∇f(W)‖₂], is feasible. The best such t gives the dual value
    D(t) = 2t ⟨E, Y⟩ − t² ‖E‖², E = Y − XW. Primal minus dual value, over the primal value, bounds how far
    the objective is above the least one.

    Parameters
    ----------
    alpha : float
        The strength of the trace norm.
    """

    status = Status.GAP_CLOSED
    failure = Status.GAP_OPEN

    def __init__(self, alpha: float) -> None:
        self.alpha = alpha

    def measure(self, problem: SpectralProblem, penalty: Penalty, point: Point) -> float:
        """Return (primal − dual) / primal; all that is needed is in the moments."""
        W = point.W
        projected = inner(W, problem.cross)
        error_on_target = problem.target - projected
        error = error_on_target - projected + inner(W, problem.curvature[:, None] * W)
        steepest = float(right_singular(problem.gradient(W))[0][0])
        t = error_on_target / error if error > 0 else 1.0
        if steepest > 0:
            t = min(t, self.alpha / steepest)
        t = max(t, 0.0)
        primal = point.objective
        dual = 2.0 * t * error_on_target - t * t * error
        return max(primal - dual, 0.0) / primal if primal > 0 else 0.0
