"""Lifts: what a basis vector of spectral coordinates stands for, and the ways to a model and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import Array, Place, is_host, namespace
from lrml.core.eigen import Factors
from lrml.core.kernels import LeftOut
from lrml.core.moments import CentredRows, dense_product

_Float64 = npt.NDArray[np.float64]

# Columns of features that are made at a time from dual vectors of a subspace.
_FEW_COLUMNS = 32


class Lift:
    """What a basis vector stands for: itself, a direction of feature space."""

    def rows_of(self, X: Any) -> Any:
        """Rows as the coefficients of a model meet them."""
        return X

    def model_side(self, left: Array) -> Array:
        """Left side of a solution in the space of the model, given that in the basis."""
        return left

    def factors(self, found: Factors) -> Factors:
        """Factors of a solution in the space of the model, given those in the basis."""
        return Factors(self.model_side(found.U), found.s, found.V)

    def inner(self, left: Array) -> Array:
        """Return what the basis is multiplied with, to give the coordinates of the left side of a model."""
        return left

    def coordinates(self, X: Any, basis: Array, x_mean: Array) -> Array:
        """Rows of X in spectral coordinates: X̃ = (X − 1x̄ᵀ) Q."""
        rows = X if is_host(basis) else Place.of(basis).asarray(X, "float64")
        rotated = rows @ basis
        rotated -= x_mean @ basis
        return rotated


@dataclass(frozen=True, eq=False)
class DualLift(Lift):
    """Q = X_cᵀA for more features than rows, of which only the dual vectors A (n × r) are kept."""

    rows: CentredRows  # X_c

    def model_side(self, left: Array) -> Array:
        """Return X_cᵀ left, d × k."""
        return self.rows.X.T @ left - self.rows.x_offset[:, None] * namespace(left).sum(left, axis=0)

    def factors(self, found: Factors) -> Factors:
        """Decompose anew: of small eigenvalues, the columns of X_cᵀA are orthogonal to few digits only."""
        return Factors.of_sides(self.model_side(found.U) * found.s, found.V)

    def inner(self, left: Array) -> Array:
        """Return X_c left."""
        return self.rows.X @ left - self.rows.x_offset @ left

    def coordinates(self, X: Any, basis: Array, x_mean: Array) -> Array:
        """Rows of X in spectral coordinates: X̃ = (X − 1x̄ᵀ) X_cᵀ A."""
        M, offset = self.rows.X, self.rows.x_offset
        X = X if is_host(offset) else Place.of(offset).asarray(X, "float64")
        products = dense_product(X, M.T) - (X @ offset)[:, None]
        products -= M @ x_mean - offset @ x_mean
        return products @ basis


class DualLiftOfSubspace(DualLift):
    """The same for dual vectors of a subspace, a few columns at a time: the result may be very large."""

    def model_side(self, left: Array) -> Array:
        """Return X_cᵀ left, d × k."""
        return _by_columns(len(self.rows.x_mean), left, super().model_side)

    def factors(self, found: Factors) -> Factors:
        """Return X_cᵀ U, whose columns are orthonormal by construction."""
        return Lift.factors(self, found)

    def coordinates(self, X: Any, basis: Array, x_mean: Array) -> Array:
        """Rows of X in spectral coordinates: X̃ = (X − 1x̄ᵀ) X_cᵀ A."""
        plain, sides = super(DualLift, self).coordinates, super().model_side
        return _by_columns(X.shape[0], basis, lambda some: plain(X, sides(some), x_mean))


def _by_columns(n_rows: int, matrix: _Float64, make: Callable[[_Float64], _Float64]) -> _Float64:
    """Return make(matrix), made for a few columns at a time."""
    found = np.empty((n_rows, matrix.shape[1]))
    for start in range(0, matrix.shape[1], _FEW_COLUMNS):
        columns = slice(start, start + _FEW_COLUMNS)
        found[:, columns] = make(np.ascontiguousarray(matrix[:, columns]))
    return found


@dataclass(frozen=True, eq=False)
class KernelLift(Lift):
    """A model has dual coefficients a (n × L), and x the scores Σ_i k(x, x_i) a_i + b.

    Rows of kernel values with the training rows take the place of features: the coordinates of x are
    (k(x, ·) − x̄)ᵀ A, with x̄ the mean of the kernel values of the training rows.
    """

    kernel: Any
    X: Any
    left_out: LeftOut

    def rows_of(self, X: Any) -> Array:
        """Values k(x, x_i) for all training rows x_i."""
        return self.kernel(X, self.X)

    def coordinates(self, X: Any, basis: Array, x_mean: Array) -> Array:
        """Rows of X in spectral coordinates, in blocks."""
        n_rows, step = X.shape[0], self.kernel.block_of(x_mean.shape[0])
        blocks = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
        parts = [
            super(KernelLift, self).coordinates(self.rows_of(X[rows, :]), basis, x_mean) for rows in blocks
        ]
        return namespace(*parts).concat(parts, axis=0)
