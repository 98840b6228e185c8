"""The smooth part of a fit by rows, in spectral coordinates.

::

    f(W, b) = Σ_(i,l) known  w_i ℓ(y_il, x_iᵀ w_l + b_l) + ridge · ‖W‖²_F

With X centred and XᵀX = Q Λ Qᵀ, W = Q W̃ has the singular values of W̃. The variable is the matrix
V = (b/u; W̃) with the intercepts, seen from the mean of X, in its first row. Their unit u = √(λ₁/n) makes
them as curved as the leading feature, whatever the scale of X. The Hessian of label l is
Xᵀ diag(w_i ℓ''_il) X; its model is c_l · Λ with c_l the mean of the ℓ''_il, which is diagonal in these
coordinates, exact for the squared loss with full labels, and exact for any loss where W = 0.

V and all that is computed from it are in double precision, and live where the rows are. Only the scores, and
what a pass over the rows makes of them, may be in single precision (`lrml.rows`).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from lrml._arrays import Array, Place, dot, few_threads, frobenius, inner, is_host, namespace
from lrml.losses import Loss, best_constants
from lrml.penalties import Penalty, SpectralProx, spectral_prox
from lrml.problem import spectral_coordinates
from lrml.rows import Block, RowSums

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

    Parameters
    ----------
    rows : RowSums
        The data.
    loss : Loss
    ridge : float
    fit_intercept : bool
        If False, the first row of V stays zero, and X is not centred.
    """

    def __init__(self, rows: RowSums, loss: Loss, ridge: float = 0.0, *, fit_intercept: bool = True) -> None:
        self.rows, self.loss, self.ridge, self.fit_intercept = rows, loss, ridge, fit_intercept
        moments = rows.moments_of_features()
        eigenvalues, self.features, _ = spectral_coordinates(moments.moments(fit_intercept=fit_intercept))
        xp = namespace(eigenvalues)
        varied = [moments.xx] if fit_intercept else [moments.xx, moments.x_mean]
        if not any(bool(xp.any(part != 0)) for part in varied):
            self.features = xp.zeros_like(self.features)  # X is constant: only rounding would be learnt
        self.center = moments.x_mean @ self.features if fit_intercept else xp.zeros_like(eigenvalues)
        self.weight = moments.weight
        self.unit = math.sqrt(float(eigenvalues[0]) / moments.weight)
        # Second moments of a coordinate of V; the intercept's is the weight of the examples times u².
        self.spread = xp.concat([eigenvalues[:1], eigenvalues])[:, None]
        self.origin = moments.place.zeros(self.shape)
        if fit_intercept:
            self.origin[0, :] = best_constants(loss, *rows.label_totals()) / self.unit
        # What a solver has learnt about the loss, for the next one on the same rows.
        self.learnt: dict[str, Any] = {}
        self._last: tuple[Array, Evaluation] | None = None
        first = self.evaluate(self.origin)
        penalised = first.gradient[1:, :]
        self.scale = math.sqrt(inner(penalised, penalised)) or 1.0
        self.least = self.rounding * first.value or 1.0
        self.least_curvatures = _LEAST_CURVATURE * first.curvatures

    def with_ridge(self, ridge: float) -> RowProblem:
        """Return the same problem with another ridge, at no cost; what was evaluated last stays known."""
        other = copy(self)
        other.ridge = ridge
        if "last" in self.learnt:
            V, before, there = self.learnt["last"]
            W, gradient = V[1:, :], namespace(V).asarray(there.gradient, copy=True)
            gradient[1:, :] += 2.0 * (ridge - before) * W
            value = there.value + (ridge - before) * inner(W, W)
            other._last = V, Evaluation(value, gradient, there.curvatures)
        return other

    def recalled(self, V: Array) -> Array:
        """Return the point that was evaluated last if V is that one, but for rounding."""
        if self._last is None:
            return V
        known = self._last[0]
        return known if frobenius(V - known) <= self.rounding * frobenius(known) else V

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (1 + r, L) of V."""
        return (1 + self.features.shape[1], self.rows.shape[2])

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant of the gradient."""
        return self.loss.largest_curvature * float(namespace(self.spread).max(self.spread)) + 2.0 * self.ridge

    @property
    def rounding(self) -> float:
        """Relative accuracy of the objective: that of the scores, which are summed in double precision."""
        return 4.0 * float(np.finfo(self.rows.dtype).eps)

    def decrement(self, slope: Array, V: Array) -> float:
        """½⟨g, H⁻¹g⟩ with the model of the Hessian at V."""
        xp = namespace(V)
        model = self.hessian_model(xp.maximum(self.evaluate(V).curvatures, self.least_curvatures))
        return 0.5 * float(xp.sum(slope * slope / model))

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
        """Return coefficients (d × L) and intercepts, in the precision of the scores; see `scores_of`."""
        place, dtype = Place.of(V), self.rows.dtype
        return place.asarray(self.features @ V[1:, :], dtype), place.asarray(self.intercept(V), dtype)

    def _pass(self, V: Array) -> Evaluation:
        value, moments, totals, curvatures = self.rows.sum(_loss_sums, self.loss, *self.scoring(V))
        W, gradient = V[1:, :], namespace(V).empty_like(V)
        gradient[0, :] = self.unit * totals if self.fit_intercept else 0.0
        gradient[1:, :] = self.features.T @ moments - self.center[:, None] * totals + 2.0 * self.ridge * W
        value = float(value + self.ridge * dot(W, W))
        return Evaluation(value, gradient, curvatures / self.weight)

    def hessian_model(self, curvatures: Array) -> Array:
        """Return the diagonal c_l λ_i (+ 2 ridge) of the model, of the shape of V."""
        model = self.spread * curvatures
        model[1:, :] += 2.0 * self.ridge
        return model

    def penalised(self, V: Array) -> Array:
        """Return the penalised part of V: all but the intercepts."""
        return V[1:, :]

    def prox(self, V: Array, penalty: Penalty, step: float) -> SpectralProx:
        """Proximal map of the penalty, which leaves the intercepts alone."""
        matrix, sigma = spectral_prox(V[1:, :], penalty, step)
        return SpectralProx(namespace(V).concat([V[:1, :], matrix]), sigma)

    def restore(self, U: Array, V: Array) -> tuple[Array, Array]:
        """Map left singular vectors of W̃ back to feature space; labels are not rotated."""
        return self.features @ U, V

    def compress(self, left: Array, right: Array, intercept: Array) -> Array:
        """Map coefficients left rightᵀ (d × L) and intercepts of the original space into V."""
        inside = (self.features.T @ left) @ right.T
        constants = (intercept + self.center @ inside) / self.unit
        xp = namespace(inside)
        first = constants if self.fit_intercept else xp.zeros_like(constants)
        return xp.concat([first[None, :], inside])

    def intercept(self, V: Array) -> Array:
        """Map the intercepts back to the original space."""
        return self.unit * V[0, :] - self.center @ V[1:, :]


def scores_of(block: Block, coefficients: Array, shift: Array) -> Array:
    """Return the scores of a block."""
    scores = block.X @ coefficients
    scores += shift
    return scores


def _loss_sums(
    block: Block, loss: Loss, coefficients: Array, shift: Array
) -> tuple[Array, Array, Array, Array]:
    """Return the value of a loss on a block, XᵀS for its slopes S, and sums of slopes and curvatures."""
    values, slopes, curvatures = block.terms(loss, scores_of(block, coefficients, shift))
    xp = namespace(values)
    return (
        xp.sum(values, dtype=xp.float64),
        xp.astype(block.X.T @ slopes, xp.float64, copy=False),
        xp.sum(slopes, axis=0, dtype=xp.float64),
        xp.sum(curvatures, axis=0, dtype=xp.float64),
    )


@dataclass(frozen=True, eq=False)
class QuadraticModel:
    """A quadratic with the Hessian 2(a_i b_j + ridge) + N, the model of f near a point W₀.

    ::

        q(W) = target + Σ_ij (a_i b_j + ridge) W_ij² − 2⟨W, cross⟩ + ½⟨W − W₀, N(W − W₀)⟩

    With the eigenvalues of XᵀX as a and the curvatures of the labels as b (or the reverse, if there are more
    labels) its diagonal part is as curved as f on average; N corrects it by what the last steps have shown.
    Without N, least squares on either side of W has a closed form, as (x VᵀAV + D)⁻¹ is
    E diag(1/(x + ψ)) Eᵀ for all x at once. With N, up to ``refinements`` conjugate gradient
    steps follow, preconditioned by that.

    Attributes
    ----------
    rows, columns : arrays of shape (r,) and (m,)
        a and b, positive; m ≤ r.
    cross : array of shape (r, m)
    target, ridge : float
    anchor : array of shape (r, m)
        W₀.
    correction : callable or None
        N, symmetric, such that the whole Hessian is positive.
    refinements : int
        The most conjugate gradient steps of a least-squares solve.
    accuracy : float
        They end when the error, as they measure it, has fallen to this share.
    """

    rows: Array
    columns: Array
    cross: Array
    target: float
    ridge: float
    anchor: Array
    correction: Callable[[Array], Array] | None = None
    refinements: int = 2
    accuracy: float = 1e-2

    rounding = 16.0 * sys.float_info.epsilon
    least, scale = 1.0, 1.0  # units that nothing else is compared with

    @cached_property
    def curvature(self) -> Array:
        """Half of the diagonal part of the Hessian, of the shape of W."""
        return self.rows[:, None] * self.columns + self.ridge

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant of the gradient of the diagonal part."""
        xp = namespace(self.rows)
        return 2.0 * float(xp.max(self.rows) * xp.max(self.columns) + self.ridge)

    def beyond_diagonal(self, W: Array) -> Array | None:
        """N(W)."""
        return None if self.correction is None else self.correction(W)

    def value(self, W: Array) -> float:
        """q(W)."""
        bent = self.rows @ (W * W) @ self.columns + self.ridge * dot(W, W)
        value = self.target + bent - 2.0 * dot(W, self.cross)
        if self.correction is not None:
            moved = W - self.anchor
            value = value + 0.5 * dot(moved, self.correction(moved))
        return float(value)

    def gradient(self, W: Array) -> Array:
        """∇q(W)."""
        gradient = 2.0 * (self.curvature * W - self.cross)
        if self.correction is not None:
            gradient += self.correction(W - self.anchor)
        return gradient

    def decrement(self, slope: Array, W: Array) -> float:
        """½⟨g, H⁻¹g⟩ with the diagonal part."""
        return 0.25 * float(namespace(slope).sum(slope * slope / self.curvature))

    @cached_property
    def _whole_cross(self) -> Array:
        """Half of −∇q(0)."""
        return self.cross if self.correction is None else self.cross + 0.5 * self.correction(self.anchor)

    def gradient_step(self, rho: float) -> tuple[Array, Array]:
        """Return A and C with W − ∇q(W)/ρ = A ∘ W + C − N(W)/ρ."""
        return 1.0 - (2.0 / rho) * self.curvature, (2.0 / rho) * self._whole_cross

    def solve_left(self, V: Array, weights: Array) -> tuple[Array, float]:
        """Minimise q(R Vᵀ) + Σ_j w_j ‖R_j‖² over R (r × k), for orthonormal columns V; and the minimum."""
        E, psi = _simultaneous(V, self.columns, weights + self.ridge)
        scales = 1.0 / (self.rows[:, None] + psi)
        projected = self.cross @ V
        R = ((projected @ E) * scales) @ E.T
        if self.correction is None:
            return R, self.target - inner(R, projected)
        correction, residual = self.correction, self.correction(self.anchor - R @ V.T)
        V_, E, scales = as_precise(residual, V, E, scales)
        step, slope = _refined(
            0.5 * residual @ V_,
            lambda G: ((G @ E) * scales) @ E.T,
            lambda P: 0.5 * correction(P @ V_.T) @ V_,
            *(self.refinements, self.accuracy),
        )
        R += step
        constant = self.target + dot(self.anchor, self._whole_cross - self.cross)
        return R, float(constant - dot(R, self._whole_cross @ V + slope))

    def solve_right(self, U: Array, weights: Array) -> Array:
        """Minimise q(U K) + Σ_j w_j ‖K_j‖² over K (k × m), for orthonormal columns U."""
        E, psi = _simultaneous(U, self.rows, weights + self.ridge)
        scales = 1.0 / (psi[:, None] + self.columns)
        K = E @ ((E.T @ (U.T @ self.cross)) * scales)
        if self.correction is None:
            return K
        correction, residual = self.correction, self.correction(self.anchor - U @ K)
        U, E, scales = as_precise(residual, U, E, scales)
        step, _ = _refined(
            0.5 * (U.T @ residual),
            lambda G: E @ ((E.T @ G) * scales),
            lambda P: 0.5 * (U.T @ correction(U @ P)),
            *(self.refinements, self.accuracy),
        )
        return K + step

    def prox(self, W: Array, penalty: Penalty, step: float) -> SpectralProx:
        """Proximal map of the penalty."""
        return spectral_prox(W, penalty, step)

    def penalised(self, W: Array) -> Array:
        """Return the penalised part of the variable: all of it."""
        return W

    def restore(self, U: Array, V: Array) -> tuple[Array, Array]:
        """Return singular vectors unchanged."""
        return U, V


def _refined(
    residual: Array,
    precondition: Callable[[Array], Array],
    correction: Callable[[Array], Array],
    steps: int,
    accuracy: float,
) -> tuple[Array, Array]:
    """Solve (P + N) X = B by conjugate gradients, P⁻¹ given; return X and what is left of B."""
    xp = namespace(residual)
    X, moved = xp.zeros_like(residual), xp.zeros_like(residual)
    bent = xp.zeros_like(residual)  # P times the last direction
    last, least = np.inf, 0.0
    for _ in range(steps):
        gradient = precondition(residual)
        size = inner(gradient, residual)
        if not size > least:
            break
        least = least or accuracy**2 * size
        moved = gradient + (size / last) * moved
        bent = residual + (size / last) * bent
        image = bent + correction(moved)
        length = size / dot(moved, image)
        X += length * moved
        residual = residual - length * image
        last = size
    return X, residual


def as_precise(as_this: Array, *arrays: Array) -> list[Array]:
    """Return arrays in the precision of another one."""
    xp = namespace(as_this)
    return [xp.astype(array, as_this.dtype, copy=False) for array in arrays]


def _simultaneous(basis: Array, stretch: Array, diagonal: Array) -> tuple[Array, Array]:
    """Return E and ψ with (x · Vᵀ diag(stretch) V + diag(d))⁻¹ = E diag(1 / (x + ψ)) Eᵀ for every x.

    The triangle of √stretch · V keeps digits that its Gram matrix would lose.
    """
    xp = namespace(basis)
    with few_threads(diagonal):
        if is_host(basis):
            triangle = np.linalg.qr(np.sqrt(stretch)[:, None] * basis, mode="r")
            inverse = solve_triangular(triangle, np.eye(len(triangle)))
        else:
            triangle = xp.linalg.qr(xp.sqrt(stretch)[:, None] * basis, mode="reduced")[1]
            inverse = xp.linalg.inv(triangle)
        psi, S = xp.linalg.eigh((inverse.T * diagonal) @ inverse)
    return inverse @ S, xp.maximum(psi, xp.zeros_like(psi))
