"""Proximal Newton for losses over rows: every step reads the data once and uses its curvature."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lrml.penalties import Penalty
from lrml.row_problem import Evaluation, RowProblem
from lrml.solvers._loop import Point, spectrum_of_any, stationarity_residual

_Float64 = npt.NDArray[np.float64]


class ProximalNewton:
    """Minimise a quadratic model of the loss plus the penalty, again and again.

    At a point V₀ with gradient G the model of f is

    ::

        f(V₀) + ⟨G, D⟩ + ½ Σ_il h_il D_il²,    h_il = κ_l c_l λ_i + 2 ridge,    D = V − V₀,

    diagonal in spectral coordinates: c_l is the mean curvature of label l at V₀, and κ_l corrects it by what
    the last steps have shown (the curvature along D, ⟨∇f(V) − G, D⟩_l, over that of the model). Labels differ
    a lot in this, and f is a sum over labels, so each has a κ_l of its own. The model plus the penalty is
    minimised by a few steps of ADMM, which need no rows. A step that does not lower the objective is tried
    again with the corrected model; with κ_l c_l at the loss's largest curvature the model lies above f.

    Parameters
    ----------
    inner : int
        Steps of ADMM per model; each costs one spectral prox.
    caution : float
        κ_l is the measured ratio times this.
    """

    name = "newton"
    seeks_tolerance = True
    _slowest, _fastest = 0.7, 4.0  # limits to the change of κ in one step
    _least_curvature = 0.1  # of that at the origin: a label that is fitted perfectly has none
    _trials = 12
    _most_blind_steps = 5

    def __init__(self, inner: int = 3, caution: float = 1.2) -> None:
        self.inner = inner
        self.caution = caution

    def start(self, problem: RowProblem, penalty: Penalty, point: Point) -> None:
        """Begin with the mean curvature as it is."""
        self.problem, self.penalty = problem, penalty
        self.V = point.W
        self.objective = problem.value(point.W) + penalty.value(point.sigma)
        self.kappa = np.ones(problem.shape[1])
        self.blind_steps = 0
        self.floor = self._least_curvature * problem.evaluate(problem.origin).curvatures
        self.penalised = float(np.sum(penalty.slopes(np.ones(min(self.V[1:].shape))))) > 0

    def step(self) -> Point | None:
        """Return the next point; None if even the safest model finds nothing better."""
        here = self.problem.evaluate(self.V)
        for _ in range(self._trials):
            model = self._model(here)
            V, sigma = self._minimise(here.gradient, model)
            there = self.problem.evaluate(V)
            D = V - self.V
            change = there.gradient - here.gradient
            self._correct(D, change, model, here)
            objective = there.value + self.penalty.value(sigma)
            if objective < self.objective or self._is_lost_in_rounding(objective, model, D):
                self.V, self.objective = V, objective
                # One more prox, which is little beside the pass over the rows that a step costs.
                return Point(V, sigma, stationarity_residual(self.problem, self.penalty, V))
        return None

    def _is_lost_in_rounding(self, objective: float, model: _Float64, D: _Float64) -> bool:
        """Whether a step gains too little to be seen; a few such are taken, as where a ridge rules all."""
        noise = self.problem.rounding * abs(self.objective)
        hidden = abs(objective - self.objective) <= noise and float(np.sum(model * D * D)) <= noise
        self.blind_steps += hidden
        return hidden and self.blind_steps <= self._most_blind_steps

    def _model(self, here: Evaluation) -> _Float64:
        limit = self.problem.loss.largest_curvature
        curvatures = np.minimum(self.kappa * np.maximum(here.curvatures, self.floor), limit)
        return self.problem.hessian_model(curvatures)

    def _minimise(self, gradient: _Float64, model: _Float64) -> tuple[_Float64, _Float64]:
        """Minimise ⟨G, D⟩ + ½ Σ h D² + Ω by ADMM, started at the dual variable −G."""
        newton = self.V - gradient / model
        if not self.penalised:
            return newton, spectrum_of_any(newton[1:])
        rho = float(np.mean(model[1:]))
        shrink = model / (model + rho)
        y = self.V - gradient / rho
        for _ in range(self.inner):
            Z, _ = self.problem.prox(y, self.penalty, 1.0 / rho)
            # argmin of the model plus ρ/2 ‖W − (2Z − y)‖² is a mean of its own minimiser and of 2Z − y.
            y = y - Z + shrink * newton + (1.0 - shrink) * (2.0 * Z - y)
        y[0] = newton[0]
        V, sigma = self.problem.prox(y, self.penalty, 1.0 / rho)
        return V, sigma

    def _correct(self, D: _Float64, change: _Float64, model: _Float64, here: Evaluation) -> None:
        """Move κ towards the curvature that each label has shown along its step."""
        expected = np.einsum("il,il->l", model * D, D)
        shown = np.einsum("il,il->l", change, D)
        moved = expected > 1e-12 * max(float(expected.max()), 1e-300)
        ratio = np.divide(shown, expected, out=np.ones_like(shown), where=moved)
        most = self.problem.loss.largest_curvature / np.maximum(here.curvatures, self.floor)
        self.kappa = np.minimum(
            self.kappa * np.clip(self.caution * ratio, self._slowest, self._fastest), most
        )
