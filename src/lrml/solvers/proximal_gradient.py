"""First-order solvers: backtracking and accelerated proximal gradient."""

from __future__ import annotations

import math

from lrml._arrays import Array, inner
from lrml.penalties import Penalty, SpectralProx
from lrml.problem import SpectralProblem
from lrml.solvers._loop import Point, Problem, point_at


def gradient_step(problem: Problem, penalty: Penalty, W: Array, t: float) -> SpectralProx:
    """prox_{Ω/t}(W − ∇f(W)/t): minimise the model of f with curvature t, plus the penalty."""
    return problem.prox(W - problem.gradient(W) / t, penalty, 1.0 / t)


class ProximalGradient:
    """Proximal gradient with backtracking.

    ::

        W_{k+1} = prox_{Ω/t}(W_k − ∇f(W_k)/t)

    with t multiplied by ``growth`` until f(W_{k+1}) ≤ f(W_k) + ⟨∇f(W_k), D⟩ + t/2 ‖D‖², D = W_{k+1} − W_k.
    This is what Algorithm 1 of the paper becomes when t grows only where it has to. It is monotone, and
    slow wherever X is badly conditioned.
    """

    name = "pg"
    seeks_tolerance, settles = True, False

    def __init__(self, growth: float = 1.5) -> None:
        self.growth = growth

    def start(self, problem: SpectralProblem, penalty: Penalty, point: Point) -> None:
        """Begin with the mean curvature."""
        self.problem, self.penalty = problem, penalty
        self.W = point.W
        self.t = problem.mean_curvature

    def step(self) -> Point:
        """One proximal step, with as many trials as the majoriser needs."""
        while True:
            W, sigma = gradient_step(self.problem, self.penalty, self.W, self.t)
            D = W - self.W
            # f is quadratic, so the majoriser holds exactly if ⟨D, (Λ + ridge) D⟩ ≤ t/2 ‖D‖².
            if self.t >= self.problem.lipschitz or self._excess(D) <= 0.5 * self.t * inner(D, D):
                break
            self.t = min(self.growth * self.t, self.problem.lipschitz)
        slope = self.problem.gradient(W) - self.problem.gradient(self.W) - self.t * D
        self.W = W
        return point_at(self.problem, self.penalty, W, sigma, slope)

    def _excess(self, D: Array) -> float:
        return inner(D, self.problem.curvature[:, None] * D)


class AcceleratedProximalGradient:
    """Monotone accelerated proximal gradient (FISTA) with function-value restart.

    An extrapolated step that would raise the objective is thrown away; momentum is then reset and a plain
    step of size 1/L, which cannot raise it, is taken instead (Beck and Teboulle 2009; O'Donoghue and Candès
    2015; Li and Lin 2015 for the non-convex case).
    """

    name = "apg"
    seeks_tolerance, settles = True, False

    def start(self, problem: Problem, penalty: Penalty, point: Point) -> None:
        """Begin without momentum."""
        self.problem, self.penalty = problem, penalty
        self.lipschitz = problem.lipschitz
        self.W = self.previous = point.W
        self.objective = point.objective
        self.momentum = 1.0

    def step(self) -> Point:
        """One extrapolated proximal step, or a plain one where that would go uphill."""
        following = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * self.momentum**2))
        inertia = (self.momentum - 1.0) / following
        base = self.W + inertia * (self.W - self.previous)
        found = self._trial(base)
        if inertia > 0 and found.objective > self.objective:
            following = 1.0
            found = self._trial(self.W)
        self.previous, self.W = self.W, found.W
        self.objective, self.momentum = found.objective, following
        return found

    def _trial(self, base: Array) -> Point:
        slope = self.problem.gradient(base)
        W, sigma = self.problem.prox(base - slope / self.lipschitz, self.penalty, 1.0 / self.lipschitz)
        slope = self.problem.gradient(W) - slope - self.lipschitz * (W - base)
        return point_at(self.problem, self.penalty, W, sigma, slope)
