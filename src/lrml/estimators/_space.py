"""Least squares with all labels known, in spectral coordinates: the way there, and back to a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.losses import Loss, SquaredLoss
from lrml.problem import SpectralProblem
from lrml.statistics import Statistics

_Float64 = npt.NDArray[np.float64]
_Bools = npt.NDArray[np.bool_]


def with_unseen(intercept: _Float64, unseen: _Bools, loss: Loss) -> _Float64:
    """Give labels without a positive example a score below those of real candidates."""
    return np.where(unseen, loss.unseen_score, intercept)


@dataclass(frozen=True, eq=False)
class Space:
    """A problem in spectral coordinates, and the maps between them and the space of the model.

    With the coordinates X̃ of some rows, a solution left rightᵀ scores them as 1ȳᵀ + X̃ left (R right)ᵀ, R the
    rotation of the labels, if the problem has one.
    """

    problem: SpectralProblem  # without a ridge
    y_mean: _Float64  # zeros without an intercept
    unseen: _Bools  # labels without a positive example; none if the targets are real
    x_mean: _Float64  # zeros without an intercept

    @classmethod
    def from_statistics(cls, statistics: Statistics, *, fit_intercept: bool, targets: str) -> Space:
        """Decompose the moments once."""
        problem = SpectralProblem.from_moments(statistics.moments(fit_intercept=fit_intercept))
        unseen = (statistics.y_mean == 0) & (targets == "binary")
        used = float(fit_intercept)
        return cls(problem, used * statistics.y_mean, unseen, used * statistics.x_mean)

    def coordinates(self, X: Any) -> _Float64:
        """Rows of X in spectral coordinates: X̃ = (X − 1x̄ᵀ) Q."""
        rotated = np.asarray(X @ self.problem.features)
        rotated -= self.x_mean @ self.problem.features
        return rotated

    def model_side(self, left: _Float64) -> _Float64:
        """Left side of a solution in the space of the model, given that in the problem's features (d × k)."""
        return left

    def sides(self, left: _Float64, right: _Float64) -> tuple[_Float64, _Float64]:
        """Return A (d × k) and B (L × k), with coefficients A Bᵀ, for a solution left rightᵀ."""
        A, B = self.problem.restore(left, right)
        return self.model_side(A), B

    def intercept(self, left: _Float64, right: _Float64) -> _Float64:
        """Return the intercepts that go with the coefficients left rightᵀ, left d × k and right L × k."""
        return with_unseen(self.y_mean - right @ (self.x_mean @ left), self.unseen, SquaredLoss())
