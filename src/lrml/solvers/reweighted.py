"""Reweighted least squares: a majorise-minimise step that uses all of the curvature."""

from __future__ import annotations

from lrml._arrays import Array, namespace
from lrml.penalties import Penalty
from lrml.problem import SpectralProblem
from lrml.solvers._loop import Point, accurate_right_singular, objective_of


class Reweighted:
    """Minimise quadratic majorisers of the objective, in closed form.

    At a point with singular values σ, right singular vectors v_j and slopes c_j (alpha in the tail, 0 in the
    head), every W satisfies

    ::

        Ω(σ(W)) ≤ ½ Σ_j c_j (‖W v_j‖² / σ_j + σ_j),

    with equality at that point. Added to f this is again a separable quadratic, because f is diagonal on the
    left and the majoriser on the right: with B the cross moments and V = (v_j),

    ::

        (W⁺ V)_ij = (B V)_ij / (λ_i + ½ c_j / σ_j).

    Each step costs about as much as a proximal step, never increases the objective, has no step size, and
    treats well and badly conditioned directions alike: a handful of steps does what thousands of gradient
    steps do. But it only ever shrinks small values geometrically, and a value that is zero stays zero; so
    this phase gets close quickly and hands over as soon as a step gains less than ``min_gain`` of the
    objective.
    """

    name = "reweighted"
    seeks_tolerance = settles = False

    def __init__(self, min_gain: float = 1e-3, max_steps: int = 10) -> None:
        self.min_gain = min_gain
        self.max_steps = max_steps

    def start(self, problem: SpectralProblem, penalty: Penalty, point: Point) -> None:
        """Take the spectrum of the starting point."""
        self.problem, self.penalty = problem, penalty
        self.steps = 0
        self.gain = float("inf")
        self._update(point.W)

    def step(self) -> Point | None:
        """Minimise the majoriser at the current point."""
        largest = float(self.sigma[0])
        if self.gain < self.min_gain or self.steps >= self.max_steps or largest == 0.0:
            return None
        xp = namespace(self.sigma)
        floor = largest * xp.finfo(self.sigma.dtype).eps ** 2
        weights = 0.5 * self.penalty.slopes(self.sigma) / xp.clip(self.sigma, min=floor)
        before = self.objective
        rotated = (self.problem.cross @ self.V) / (self.problem.curvature[:, None] + weights)
        self._update(rotated @ self.V.T)
        self.gain = 1.0 - self.objective / before if before > 0 else 0.0
        self.steps += 1
        return Point(self.W, self.sigma, self.objective)

    def _update(self, W: Array) -> None:
        self.W = W
        self.sigma, self.V = accurate_right_singular(W)
        self.objective = objective_of(self.problem, self.penalty, W, self.sigma)
