"""Two solvers that `ablation.py` compares with the default; pass them as ``solve(..., solver=ADMM())``."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lrml.core.arrays import Array, frobenius, namespace
from lrml.core.penalties import Penalty, gram_noise, right_singular, right_singular_by_svd, spectral_prox
from lrml.core.quadratic import SpectralProblem
from lrml.solvers import Point, point_at
from lrml.solvers.alternating import Anderson


class _HalfSteps(NamedTuple):
    """Both blocks after one pass: Z with its spectrum and objective, and the gap W − Z."""

    Z: Array
    sigma: Array
    gap: Array
    gap_norm: float
    objective: float


class ADMM:
    """Alternating direction method of multipliers on f(W) + Ω(σ(Z)), W = Z.

    In spectral coordinates both half-steps are closed forms. Written in the single variable y (the scaled
    dual plus W, as in Douglas and Rachford's splitting):

    ::

        Z  = prox_{Ω/ρ}(y)                          one spectral prox
        W  = (2B + ρ(2Z − y)) / (2(Λ + ridge) + ρ)    elementwise
        y⁺ = y + (W − Z)

    A fixed point has W = Z, which is then stationary: (2(Λ + ridge) + ρ)(W − Z) is minus an element of
    ∇f(Z) + ∂Ω(Z), and its norm is the residual that this phase reports.

    ρ starts at the mean curvature. The map y ↦ y⁺ is accelerated by Anderson's method (type II) with the
    given ``memory``; 0 switches it off. Ω is not convex, so there are safeguards.

    - An accelerated y is taken only if the objective at its Z does not rise and the fixed-point residual
      stays within ``trust`` times the least so far; otherwise the plain step is.
    - Near a saddle point Anderson's method, which only sees residuals, keeps returning to it. After a
    rejection the plain step is therefore lengthened, twice as far each time, while the objective falls; then
    Anderson's method is used again.
    - If nothing has improved for ``patience`` steps, or the residual has grown ``divergence``-fold, ρ is
      doubled and the iteration restarts from the best Z. Beyond the Lipschitz constant of ∇f the plain
      iteration converges whatever the penalty (Themelis and Patrinos, SIAM J. Optim. 2020); if nothing
      improves even there, the phase hands over.
    """

    name = "admm"
    trust = 2.0
    divergence = 100.0
    worse = 1e-6

    def __init__(self, memory: int = 10, patience: int = 15) -> None:
        self.memory = memory
        self.patience = patience

    def start(self, problem: SpectralProblem, penalty: Penalty, point: Point) -> None:
        """Take ρ from the mean curvature and the dual variable from the gradient at the start."""
        self.problem, self.penalty = problem, penalty
        self.best = point.W
        self.best_objective = point.objective
        self._restart(problem.mean_curvature)

    def _restart(self, rho: float) -> None:
        self.rho = rho
        self.denominator = 2.0 * self.problem.curvature[:, None] + rho
        self.y = self.plain = self.best - self.problem.gradient(self.best) / rho
        self.accelerator = Anderson(self.memory)
        self.stretch = 0.0
        self.objective = self.least_gap = float("inf")
        self.stalled = 0

    def step(self) -> Point | None:
        """One prox, one elementwise solve, one acceleration."""
        if self.stalled >= self.patience:
            if self.rho > self.problem.lipschitz:
                return None
            self._restart(2.0 * self.rho)
        half = self._half_steps()
        if self.y is not self.plain and not self._acceptable(half):
            # Alternate: where one kind of extrapolation fails, the other may succeed.
            self.stretch = 0.0 if self.stretch else 1.0
            self.accelerator = Anderson(self.memory)
            self.y = self.plain
            half = self._half_steps()
        self._watch(half)
        self.plain = self.y + half.gap
        if self.stretch:
            self.stretch *= 2.0
            self.y = self.y + self.stretch * half.gap
        else:
            self.y = self.accelerator.extrapolate(self.plain, half.gap)
        return point_at(self.problem, self.penalty, half.Z, half.sigma, -self.denominator * half.gap)

    def _half_steps(self) -> _HalfSteps:
        Z, sigma = spectral_prox(self.y, self.penalty, 1.0 / self.rho)
        W = (2.0 * self.problem.cross + self.rho * (2.0 * Z - self.y)) / self.denominator
        gap = W - Z
        objective = point_at(self.problem, self.penalty, Z, sigma).objective
        return _HalfSteps(Z, sigma, gap, frobenius(gap), objective)

    def _acceptable(self, half: _HalfSteps) -> bool:
        """Whether an accelerated point lowers the objective and does not lead away from a fixed point."""
        limit = self.divergence if self.stretch else self.trust
        return half.objective <= self.objective and half.gap_norm <= limit * self.least_gap

    def _watch(self, half: _HalfSteps) -> None:
        """Keep the best Z, and count the steps without progress."""
        ahead = half.objective <= self.best_objective * (1 + self.worse)
        improved = half.objective < self.best_objective or half.gap_norm < self.least_gap
        self.stalled = 0 if ahead and improved else self.stalled + 1
        if half.gap_norm > self.divergence * self.least_gap:
            self.stalled = self.patience
        if half.objective < self.best_objective:
            self.best, self.best_objective = half.Z, half.objective
        self.objective = half.objective
        self.least_gap = min(self.least_gap, half.gap_norm)


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
    treats well and badly conditioned directions alike: a few steps replace thousands of gradient steps. But
    it shrinks small values only geometrically, and zero values stay zero; so this phase gets close quickly
    and hands over as soon as a step gains less than ``min_gain`` of the objective.
    """

    name = "reweighted"

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
        sigma, self.V = right_singular(W)
        if float(sigma[-1]) <= gram_noise(sigma):
            sigma, self.V = right_singular_by_svd(W)
        self.sigma = np.where(sigma > max(W.shape) * np.finfo(W.dtype).eps * sigma[0], sigma, 0.0)
        self.objective = point_at(self.problem, self.penalty, W, self.sigma).objective
