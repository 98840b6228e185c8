"""Proximal Newton for losses over rows: every step reads the data once and uses its curvature."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lrml.penalties import Penalty
from lrml.row_problem import Evaluation, QuadraticModel, RowProblem
from lrml.solvers._loop import Gains, Point, point_at, spectrum
from lrml.solvers.alternating import Alternating

_Float64 = npt.NDArray[np.float64]
# Ridge of the first starting point, as a share of the mean curvature.
_START_RIDGE = 0.1


class ProximalNewton:
    """Repeatedly minimise a quadratic model of the loss plus the penalty.

    At a point V₀ with gradient G the model of f is

    ::

        f(V₀) + ⟨G, D⟩ + ½ Σ_il h_il D_il²,    h_il = κ_l c_l λ_i + 2 ridge,    D = V − V₀,

    diagonal in spectral coordinates: c_l is the mean curvature of label l at V₀, and κ_l corrects it by the
    ratio seen in the last steps (the curvature along D, ⟨∇f(V) − G, D⟩_l, over that of the model). Labels
    differ a lot in this, and f is a sum over labels, so each has its own κ_l. The model plus the penalty is
    minimised by a few steps of `Alternating`, which need no rows and cope with features of different scales.
    A step that does not lower the objective is tried again with the corrected model; with κ_l c_l at the
    loss's largest curvature the model lies above f.

    ``inner`` steps of `Alternating` per model, each with one spectral decomposition, are usual; κ_l is the
    measured ratio times ``caution``.
    """

    name = "newton"
    seeks_tolerance, settles = True, False
    _slowest, _fastest = 0.8, 4.0  # limits to the change of κ in one step
    _trials = 12
    _most_blind_steps = 5
    _forcing = 0.05  # the model is minimised to this share of the remaining gap

    def __init__(self, inner: int = 3, caution: float = 2.0) -> None:
        self.inner = inner
        self.caution = caution

    def start(self, problem: RowProblem, penalty: Penalty, point: Point) -> None:
        """Begin with the uncorrected mean curvature."""
        self.problem, self.penalty = problem, penalty
        self.last = point
        self.gains = Gains(problem.rounding)
        self.gains.add(point.objective)
        self.kappa = np.ones(problem.shape[1])
        self.blind_steps = 0
        self.penalised = float(np.sum(penalty.slopes(np.ones(min(point.W[1:].shape))))) > 0
        self.phase: Alternating | None = None

    def step(self) -> Point | None:
        """Return the next point; None if even the safest model finds nothing better."""
        V, here = self.last.W, self.problem.evaluate(self.last.W)
        for _ in range(self._trials):
            model = self.problem.hessian_model(self._curvatures(here))
            found, sigma, subgradient = self._minimise(here, model)
            there = self.problem.evaluate(found)
            D = found - V
            self._correct(D, there.gradient - here.gradient, model, here)
            objective = there.value + self.penalty.value(sigma)
            if objective < self.last.objective or self._is_lost_in_rounding(objective, model, D):
                slope = there.gradient.copy()
                slope[1:] += subgradient
                point = point_at(self.problem, self.penalty, found, sigma, slope)
                self.gains.add(point.objective)
                # Along directions whose curvature the model overestimates, the gap is larger. And with
                # single-precision scores it never vanishes.
                gap = min(max(point.gap, self.gains.to_come()), self.gains.of_last_half())
                self.last = replace(point, gap=gap)
                return self.last
            self.phase = None  # its state from there is useless here
        return None

    def _is_lost_in_rounding(self, objective: float, model: _Float64, D: _Float64) -> bool:
        """Whether a step gains less than rounding; a few of these are taken, as when the ridge dominates."""
        noise = self.problem.rounding * abs(self.last.objective)
        hidden = abs(objective - self.last.objective) <= noise and float(np.sum(model * D * D)) <= noise
        self.blind_steps += hidden
        return hidden and self.blind_steps <= self._most_blind_steps

    def _curvatures(self, here: Evaluation) -> _Float64:
        believed = np.maximum(here.curvatures, self.problem.least_curvatures)
        return np.minimum(self.kappa * believed, self.problem.loss.largest_curvature)

    def _minimise(self, here: Evaluation, model: _Float64) -> tuple[_Float64, _Float64, _Float64]:
        """Minimise ⟨G, D⟩ + ½ Σ h D² + Ω; return V, its singular values and an element of ∂Ω there."""
        V = self.last.W
        newton = V - here.gradient / model
        if not self.penalised:
            return newton, spectrum(newton[1:]), np.zeros_like(newton[1:])
        wide = V.shape[1] > len(V) - 1
        problem = self._quadratic(here, model, transposed=wide)
        if self.phase is None:
            self.phase = Alternating()
            W = V[1:]
            if self.last.rank == 0:
                # At the origin there are no directions, and small steps would have to find them: begin at the
                # minimiser of the model with a little more ridge, and without the penalty.
                W = newton[1:] * model[1:] / (model[1:] + _START_RIDGE * model[1:].mean(axis=0))
            W = W.T if wide else W
            self.phase.start(problem, self.penalty, point_at(problem, self.penalty, W, spectrum(W)))
        else:
            self.phase.retarget(self.penalty, problem)
        for count in range(1, 4 * self.inner):
            found = self.phase.step()
            enough = count >= self.inner and found is not None and found.objective <= self.last.objective
            if found is None or enough or found.gap <= self._forcing * self.last.gap:
                break
        last = self.phase.last
        assert last is not None  # there was at least one step
        W, subgradient = last.point.W, last.slope - problem.gradient(last.point.W)
        W, subgradient = (W.T, subgradient.T) if wide else (W, subgradient)
        return np.vstack([newton[:1], W]), last.point.sigma, subgradient

    def _quadratic(self, here: Evaluation, model: _Float64, *, transposed: bool) -> QuadraticModel:
        V, h = self.last.W[1:], model[1:]
        eigenvalues, curvatures = self.problem.spread[1:, 0], 0.5 * self._curvatures(here)
        cross = 0.5 * (h * V - here.gradient[1:])
        target = here.value - float(np.vdot(here.gradient[1:], V)) + 0.5 * float(np.sum(h * V * V))
        if transposed:
            return QuadraticModel(curvatures, eigenvalues, cross.T, target, self.problem.ridge)
        return QuadraticModel(eigenvalues, curvatures, cross, target, self.problem.ridge)

    def _correct(self, D: _Float64, change: _Float64, model: _Float64, here: Evaluation) -> None:
        """Move κ towards the curvature that each label has shown along its step."""
        expected = np.einsum("il,il->l", model * D, D)
        shown = np.einsum("il,il->l", change, D)
        moved = expected > 1e-12 * max(float(expected.max()), 1e-300)
        ratio = np.divide(shown, expected, out=np.ones_like(shown), where=moved)
        believed = np.maximum(here.curvatures, self.problem.least_curvatures)
        most = self.problem.loss.largest_curvature / believed
        self.kappa = np.minimum(
            self.kappa * np.clip(self.caution * ratio, self._slowest, self._fastest), most
        )
