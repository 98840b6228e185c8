"""Newton steps by preconditioned conjugate gradients, for one system or one for every row of a matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from lrml.solvers.leml._balance import Float64

LinearMap: TypeAlias = Callable[[Float64], Float64]
# Conjugate gradients end where the preconditioned residual has shrunk to this share, or after so many
# products: more accurate steps cost more than the sweeps that they save.
ACCURACY = 0.1
_LEAST_BEND = 1e-6  # of the curvature that the preconditioner expects
MAX_PRODUCTS = 10
_ARMIJO, _MAX_HALVINGS = 1e-4, 15
# Differences of objectives below this share of them are rounding.
_ROUNDING = 1e-13


def _inner(a: Float64, b: Float64, *, by_row: bool) -> Float64:
    """Return ⟨a, b⟩ as a 1 × 1 array, or that of every row as a column."""
    if by_row:
        products: Float64 = np.einsum("ij,ij->i", a, b)
        return products[:, None]
    return np.full((1, 1), np.vdot(a, b))


def newton_direction(
    gradient: Float64, product: LinearMap, precondition: LinearMap, *, by_row: bool = False
) -> Float64:
    """Solve Hessian · D = −gradient approximately; D is a direction of descent.

    Parameters
    ----------
    gradient : array of two dimensions
    product : callable
        D ↦ Hessian · D, symmetric and positive semidefinite.
    precondition : callable
        R ↦ an approximation of Hessian⁻¹ · R, symmetric and positive definite.
    by_row : bool, default=False
        Whether the Hessian treats each row of D on its own: each then takes steps of its own.
    """
    D = np.zeros_like(gradient)
    residual = -gradient
    direction = precondition(residual)
    height = _inner(residual, direction, by_row=by_row)
    target = ACCURACY**2 * height
    for _ in range(MAX_PRODUCTS):
        active = height > target
        if not active.any():
            break
        image = product(direction)
        bend = _inner(direction, image, by_row=by_row)
        active &= bend > 0
        # Where the loss is all but flat a step would leave the range of numbers.
        bend = np.maximum(bend, _LEAST_BEND * height)
        step = np.divide(height, bend, out=np.zeros_like(height), where=active)
        D += step * direction
        residual -= step * image
        better = precondition(residual)
        last, height = height, np.where(active, _inner(residual, better, by_row=by_row), 0.0)
        ratio = np.divide(height, last, out=np.zeros_like(height), where=active)
        direction = better + ratio * direction
    return D


def backtrack(trial: Callable[[Float64], Float64], before: Float64, slopes: Float64) -> None:
    """Halve steps until each objective has fallen enough; they end as 0 where none was short enough.

    Parameters
    ----------
    trial : callable
        Moves by the steps (m,) and returns the objectives (m,), which depend on one step each.
    before : array of shape (m,)
        Objectives at step 0.
    slopes : array of shape (m,)
        Derivatives of the objectives at step 0, not positive.
    """
    steps = np.ones_like(before)
    for _ in range(_MAX_HALVINGS):
        after = trial(steps)
        good = after <= before + _ARMIJO * steps * slopes + _ROUNDING * np.abs(before)
        if good.all():
            return
        steps = np.where(good, steps, 0.5 * steps)
    trial(np.where(good, steps, 0.0))
