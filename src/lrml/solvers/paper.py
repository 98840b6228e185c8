"""Algorithm 1 of the paper, to the letter, for comparison."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from lrml._arrays import frobenius
from lrml.penalties import Penalty, TailSum
from lrml.problem import SpectralProblem
from lrml.solvers._loop import Point, objective_of
from lrml.solvers.proximal_gradient import gradient_step


class Algorithm1:
    """Conditional singular value thresholding (Xu, Liu, Tao and Xu, Algorithm 1).

    For k = 1, …, K: t_k = gamma · t_{k−1}, then one thresholding step at W_{k−1} − ∇f(W_{k−1})/t_k with the
    threshold alpha/t_k. K is ``max_iter``, W₀ is the starting point (zero unless warm-started), and there is
    no stopping test.

    Because t_k grows at *every* step, the steps shrink geometrically and the total movement is bounded: the
    iteration can come to rest short of a stationary point. gamma = 1 gives the constant-step variant.

    Parameters
    ----------
    t0 : float or None
        First curvature; None takes the Lipschitz constant of ∇f, the smallest value that is safe.
    gamma : float
        Growth of t per step, at least 1.
    rule : {"paper", "exact"}
        The thresholding rule of Theorem 4 as printed, or the exact proximal map.
    """

    name = "paper"
    seeks_tolerance = settles = False

    def __init__(
        self, t0: float | None = None, gamma: float = 1.01, rule: Literal["paper", "exact"] = "paper"
    ) -> None:
        if t0 is not None and not t0 > 0:
            raise ValueError(f"t0 must be positive, got {t0}. Use None for the Lipschitz constant.")
        if not gamma >= 1:
            raise ValueError(f"gamma must be at least 1, got {gamma}. The paper asks for gamma > 1.")
        if rule not in ("paper", "exact"):
            raise ValueError(f"rule must be 'paper' or 'exact', got {rule!r}. Use one of the two.")
        self.t0 = t0
        self.gamma = gamma
        self.rule: Literal["paper", "exact"] = rule

    def start(self, problem: SpectralProblem, penalty: Penalty, point: Point) -> None:
        """Set W₀ and t₀."""
        if not isinstance(penalty, TailSum):
            raise TypeError(f"Algorithm 1 is defined for TailSum, got {type(penalty).__name__}. Use 'auto'.")
        self.problem = problem
        self.penalty = replace(penalty, rule=self.rule)
        self.W = point.W
        self.t = problem.lipschitz if self.t0 is None else self.t0

    def step(self) -> Point:
        """One iteration of the printed loop."""
        self.t *= self.gamma
        W, sigma = gradient_step(self.problem, self.penalty, self.W, self.t)
        moved = self.t * frobenius(W - self.W) / self.problem.scale
        self.W = W
        return Point(W, sigma, objective_of(self.problem, self.penalty, W, sigma), residual=moved)
