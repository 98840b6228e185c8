"""The smooth part of a fit by rows, in spectral coordinates.

::

    f(W, b) = Σ_(i,l) known  w_i ℓ(y_il, x_iᵀ w_l + b_l) + ridge · ‖W‖²_F

With X centred and XᵀX = Q Λ Qᵀ, W = Q W̃ has the singular values of W̃. The variable is the matrix
V = (b/u; W̃) with the intercepts, seen from the mean of X, in its first row. Their unit u = √(λ₁/n) makes
them as curved as the leading feature, whatever the scale of X. The Hessian of label l is
Xᵀ diag(w_i ℓ''_il) X; its model is c_l · Λ with c_l the mean of the ℓ''_il, which is diagonal in these
coordinates, exact for the squared loss with full labels, and exact for any loss where W = 0.

A penalty on the predictions X̃W, X̃ = [X; √ridge · I], is one on Z = (Λ + ridge)^(1/2) W̃. In Z the second
moments are a = Λ / (Λ + ridge), and the ridge is one for each direction, ridge / (Λ + ridge) = 1 − a; nothing
else changes. In general the ridge of a direction is `ridge` + `tilt` · a.

V and all that is computed from it are in double precision, and live where the rows are. Only the scores, and
what a pass over the rows makes of them, may be in single precision (`lrml.core.rows`).
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrml.core.arrays import Array, Place, dot, floats, frobenius, namespace
from lrml.core.coordinates import Coordinates, coordinates_of
from lrml.core.linalg import Factors, spectral_prox
from lrml.core.losses import Loss, best_constants
from lrml.core.penalties import Penalty, Values
from lrml.core.rows import Block, Rows

# Least curvature of a label, as a share of that at the origin: a perfectly fitted label has none.
_LEAST_CURVATURE = 0.1


@dataclass(frozen=True, eq=False)
class Evaluation:
    """f at a point: its value, gradient, and the mean curvature of each label."""

    value: float
    gradient: Array
    curvatures: Array


class RowProblem:
    """Smooth part of the objective for any loss, with or without unknown labels.

    Without an intercept the first row of V stays zero, and X is not centred. ``space`` says whose singular
    values are those of the variable, the "coefficients" or the "predictions". ``coordinates`` are those of
    XᵀX by default. Where a basis vector stands for itself, rows are as they are; else in the coordinates.
    """

    def __init__(
        self,
        rows: Rows,
        loss: Loss,
        ridge: float = 0.0,
        *,
        fit_intercept: bool = True,
        coordinates: Coordinates | None = None,
        space: str = "coefficients",
    ) -> None:
        self.rows, self.loss, self.fit_intercept, self.space = rows, loss, fit_intercept, space
        if coordinates is None:
            coordinates = coordinates_of(rows, fit_intercept=fit_intercept, road="primal")
        eigenvalues = coordinates.problem.rows
        self.features, self.center = None, 0.0 * eigenvalues
        if coordinates.is_plain:
            self.features, self.center = coordinates.basis, coordinates.x_mean @ coordinates.basis
        xp = namespace(eigenvalues)
        self.shape = 1 + int(eigenvalues.shape[0]), rows.shape[2]  # of V
        # Relative accuracy of the objective: that of the scores, which are summed in double precision.
        self.rounding = 4.0 * float(np.finfo(rows.dtype).eps)
        self.ridge, self.tilt, self.stretch = ridge, 0.0, None
        if space == "predictions":
            self.ridge, self.tilt, self.stretch = 1.0, -1.0, 1.0 / xp.sqrt(eigenvalues + ridge)[:, None]
            self.center = self.center * self.stretch[:, 0]
            eigenvalues = eigenvalues / (eigenvalues + ridge)
        self.ridges = self.ridge + self.tilt * eigenvalues[:, None]
        self.weight = rows.total_weight
        self.unit = math.sqrt(float(xp.max(eigenvalues)) / self.weight)
        # Second moments of a coordinate of V; the intercept's is the weight of the examples times u².
        self.spread = xp.concat([xp.max(eigenvalues, keepdims=True), eigenvalues])[:, None]
        self.origin = Place.of(eigenvalues).zeros(self.shape)
        if fit_intercept:
            self.origin[0, :] = best_constants(loss, *rows.label_totals) / self.unit
        # What a solver has learnt about the loss, for the next one on the same rows.
        self.learnt: dict[str, Any] = {}
        self._last: tuple[Array, Evaluation] | None = None
        first = self.evaluate(self.origin)
        penalised = first.gradient[1:, :]
        self.scale = frobenius(penalised) or 1.0
        self.least = self.rounding * first.value or 1.0
        self.least_curvatures = _LEAST_CURVATURE * first.curvatures

    def with_ridge(self, ridge: float) -> RowProblem:
        """Return the same problem with another ridge, on the coefficients, at no cost."""
        other = copy(self)
        other.ridge, other.ridges = ridge, ridge + 0.0 * self.ridges
        if "last" in self.learnt:
            V, before, there = self.learnt["last"]
            W, gradient = V[1:, :], namespace(V).asarray(there.gradient, copy=True)
            gradient[1:, :] += 2.0 * (ridge - before) * W
            value = there.value + (ridge - before) * float(dot(W, W))
            other._last = V, Evaluation(value, gradient, there.curvatures)
        return other

    def recalled(self, V: Array) -> Array:
        """Return the point that was evaluated last if V is that one, but for rounding."""
        if self._last is None:
            return V
        known = self._last[0]
        return known if frobenius(V - known) <= self.rounding * frobenius(known) else V

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant of the gradient."""
        xp = namespace(self.spread)
        return self.loss.largest_curvature * float(xp.max(self.spread)) + 2.0 * float(xp.max(self.ridges))

    def measures(self, V: Array, slope: Array) -> list[float]:
        """f(V), ½⟨g, H⁻¹g⟩ with the model of the Hessian there, and ‖g‖."""
        xp = namespace(V)
        model = self.hessian_model(xp.maximum(self.evaluate(V).curvatures, self.least_curvatures))
        return [self.value(V), *floats(0.5 * xp.sum(slope * slope / model), xp.linalg.vector_norm(slope))]

    def value(self, V: Array) -> float:
        """f(V)."""
        return self.evaluate(V).value

    def gradient(self, V: Array) -> Array:
        """∇f(V), the intercepts' part in the first row."""
        return self.evaluate(V).gradient

    def evaluate(self, V: Array) -> Evaluation:
        """Evaluate f in one pass over the rows; the last result is kept."""
        if self._last is None or self._last[0] is not V:
            self._last = (V, self._pass(V))
            self.learnt["last"] = V, self.ridge, self._last[1]
        return self._last[1]

    def scoring(self, V: Array) -> tuple[Array, Array]:
        """Return coefficients (d × L) and intercepts, in the precision of the scores."""
        place, dtype = Place.of(V), self.rows.dtype
        return place.asarray(self._outward(V[1:, :]), dtype), place.asarray(self.intercept(V), dtype)

    def slopes(self, V: Array) -> Array:
        """Return slopes S (n × L) of the loss over the roots of the weights, for rows in memory with weight.

        They are 0 where a label is not known. At an optimum without a penalty W = −X̂ᵀS / (2 ridge).
        """
        at, weights = self.scoring(V), self.rows.weights
        terms = self.rows.map(lambda block: block.terms_at(self.loss, *at))
        found = np.concatenate([part.slopes for part in terms])
        return found if weights is None else found[weights > 0] / np.sqrt(weights[weights > 0])[:, None]

    def _outward(self, W: Array) -> Array:
        """Map coefficients into the space of the rows."""
        W = W if self.stretch is None else self.stretch * W
        return W if self.features is None else self.features @ W

    def _inward(self, moments: Array) -> Array:
        """Map gradients from there: the adjoint."""
        moments = moments if self.features is None else self.features.T @ moments
        return moments if self.stretch is None else self.stretch * moments

    def _pass(self, V: Array) -> Evaluation:
        value, moments, totals, curvatures = self.rows.sum(_loss_sums, self.loss, *self.scoring(V))
        W, gradient = V[1:, :], namespace(V).empty_like(V)
        gradient[0, :] = self.unit * totals if self.fit_intercept else 0.0
        gradient[1:, :] = self._inward(moments) - self.center[:, None] * totals + 2.0 * self.ridges * W
        value = float(value + dot(W, self.ridges * W))
        return Evaluation(value, gradient, curvatures / self.weight)

    def hessian_model(self, curvatures: Array) -> Array:
        """Return the diagonal c_l λ_i (+ 2 ridge) of the model, of the shape of V."""
        model = self.spread * curvatures
        model[1:, :] += 2.0 * self.ridges
        return model

    def prox(self, V: Array, penalty: Penalty, step: float) -> tuple[Array, Values]:
        """Proximal map of the penalty, which leaves the intercepts alone."""
        matrix, sigma = spectral_prox(V[1:, :], penalty, step)
        return namespace(V).concat([V[:1, :], matrix]), sigma

    def factors(self, V: Array, rank: int) -> Factors:
        """Return the factors of the coefficients, U in the space of the features."""
        found = Factors.of(V[1:, :], rank)
        return found._replace(U=self._outward(found.U))

    def compress(self, left: Array, right: Array, intercept: Array) -> Array:
        """Map coefficients left rightᵀ (d × L) and intercepts of the original space into V."""
        inside = self._inward(left) @ right.T
        inside = inside if self.stretch is None else inside / self.stretch**2
        constants = (intercept + self.center @ inside) / self.unit
        xp = namespace(inside)
        first = constants if self.fit_intercept else xp.zeros_like(constants)
        return xp.concat([first[None, :], inside])

    def intercept(self, V: Array) -> Array:
        """Map the intercepts back to the original space."""
        return self.unit * V[0, :] - self.center @ V[1:, :]


def _loss_sums(
    block: Block, loss: Loss, coefficients: Array, shift: Array
) -> tuple[Array, Array, Array, Array]:
    """Return the value of a loss on a block, XᵀS for its slopes S, and sums of slopes and curvatures."""
    values, slopes, curvatures = block.terms_at(loss, coefficients, shift)
    xp = namespace(values)
    return (
        xp.sum(values, dtype=xp.float64),
        xp.astype(block.X.T @ slopes, xp.float64, copy=False),
        xp.sum(slopes, axis=0, dtype=xp.float64),
        xp.sum(curvatures, axis=0, dtype=xp.float64),
    )
