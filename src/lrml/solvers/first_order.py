"""First-order solvers: proximal gradient with backtracking or momentum, and Algorithm 1 of the paper."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

from lrml.core.arrays import Array, dot, frobenius, namespace
from lrml.core.checks import check_choice, check_number
from lrml.core.penalties import Penalty, TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.solvers._loop import Point, Problem, point_at


def _proximal_step(problem: Problem, penalty: Penalty, W: Array, t: float) -> Point:
    """Evaluate prox_{Ω/t}(W − ∇f(W)/t), which minimises the model of f with curvature t, plus the penalty."""
    gradient = problem.gradient(W)
    Z, sigma = problem.prox(W - gradient / t, penalty, 1.0 / t)
    return point_at(problem, penalty, Z, sigma, problem.gradient(Z) - gradient - t * (Z - W))


class ProximalGradient:
    """Proximal gradient with backtracking.

    ::

        W_{k+1} = prox_{Ω/t}(W_k − ∇f(W_k)/t)

    with t multiplied by ``growth`` until f(W_{k+1}) ≤ f(W_k) + ⟨∇f(W_k), D⟩ + t/2 ‖D‖², D = W_{k+1} − W_k.
    This is what Algorithm 1 of the paper becomes if t grows only when it has to. It is monotone, and slow if
    X is badly conditioned.
    """

    name = "pg"

    def __init__(self, growth: float = 1.5) -> None:
        self.growth = growth

    def start(self, problem: SpectralProblem, penalty: Penalty, point: Point) -> None:
        """Begin with the mean curvature."""
        self.problem, self.penalty = problem, penalty
        self.W = point.W
        self.t = 2.0 * float(namespace(problem.diagonal).mean(problem.diagonal))

    def step(self) -> Point:
        """One proximal step, with as many trials as the majoriser needs."""
        while True:
            found = _proximal_step(self.problem, self.penalty, self.W, self.t)
            D = found.W - self.W
            # f is quadratic, so the majoriser holds exactly if ⟨D, (Λ + ridge) D⟩ ≤ t/2 ‖D‖².
            bent = float(dot(D, self.problem.diagonal * D))
            if self.t >= self.problem.lipschitz or bent <= 0.5 * self.t * float(dot(D, D)):
                break
            self.t = min(self.growth * self.t, self.problem.lipschitz)
        self.W = found.W
        return found


class AcceleratedProximalGradient:
    """Monotone accelerated proximal gradient (FISTA) with function-value restart.

    An extrapolated step that would raise the objective is discarded; then momentum is reset and a plain step
    of size 1/L, which cannot raise it, is taken instead (Beck and Teboulle 2009; O'Donoghue and Candès 2015;
    Li and Lin 2015 for the non-convex case).
    """

    name = "apg"

    def start(self, problem: Problem, penalty: Penalty, point: Point) -> None:
        """Begin without momentum."""
        self.problem, self.penalty = problem, penalty
        self.lipschitz = problem.lipschitz
        self.W = self.previous = point.W
        self.objective = point.objective
        self.momentum = 1.0

    def step(self) -> Point:
        """One extrapolated proximal step, or a plain one if that would raise the objective."""
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * self.momentum**2))
        inertia = (self.momentum - 1.0) / following
        base = self.W + inertia * (self.W - self.previous)
        found = _proximal_step(self.problem, self.penalty, base, self.lipschitz)
        if inertia > 0 and found.objective > self.objective:
            following = 1.0
            found = _proximal_step(self.problem, self.penalty, self.W, self.lipschitz)
        self.previous, self.W = self.W, found.W
        self.objective, self.momentum = found.objective, following
        return found


class Algorithm1:
    """Conditional singular value thresholding (Xu, Liu, Tao and Xu, Algorithm 1).

    For k = 1, …, K: t_k = gamma · t_{k−1}, then one thresholding step at W_{k−1} − ∇f(W_{k−1})/t_k with the
    threshold alpha/t_k. K is ``max_iter``, W₀ is the starting point (zero unless warm-started), and there is
    no stopping test.

    Because t_k grows at *every* step, the steps shrink geometrically and the total movement is bounded: the
    iteration can stop short of a stationary point. gamma = 1 gives the constant-step variant. t₀ is the
    Lipschitz constant of ∇f by default, the smallest value that is safe. ``rule`` is that of Theorem 4 as
    printed ("paper"), or the exact proximal map ("exact").
    """

    name = "paper"

    def __init__(
        self, t0: float | None = None, gamma: float = 1.01, rule: Literal["paper", "exact"] = "paper"
    ) -> None:
        self.t0 = None if t0 is None else check_number("t0", t0, above=True)
        self.gamma = check_number("gamma", gamma, 1.0)
        self.rule: Any = check_choice("rule", rule, ("paper", "exact"))

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
        step = self.problem.gradient(self.W) / self.t
        W, sigma = self.problem.prox(self.W - step, self.penalty, 1.0 / self.t)
        moved = self.t * frobenius(W - self.W) / self.problem.scale
        self.W = W
        return replace(point_at(self.problem, self.penalty, W, sigma), residual=moved)
