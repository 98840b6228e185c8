"""Grids of theta, alpha and ridge: what the user gave, or defaults from the data.

Defaults must not depend on the scales of the features. With the r eigenvalues λ_i of XᵀX, a ridge ρ leaves
the share (1/r) Σ λ_i / (λ_i + ρ) of *effective directions*: a share of 0.9 is a weak ridge and one of 0.1 a
strong one, whatever the λ_i are. The penalty alpha · σ_j acts on direction j like a ridge of alpha / 2σ_j, so
alpha = 2ρσ acts on the largest singular value σ of the tail like ρ.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lrml.core import checks as check
from lrml.core.linalg import singular_values
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem

_ALPHA_SHARES = (0.05, 0.98)
DEFAULT_THETAS = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Shares of the labels that paths and searches try unless told otherwise; 0 is the trace norm."""


class GridPoint(NamedTuple):
    """One model: the strengths of its penalty, and perhaps a limit of its rank."""

    theta: int
    alpha: float
    ridge: float
    rank: int | None = None

    @property
    def penalty(self) -> TailSum:
        """The penalty; the ridge belongs to the problem."""
        return TailSum(self.theta, self.alpha, max_rank=self.rank)


def grid_points(
    problem: SpectralProblem,
    thetas: Sequence[int],
    alphas: Sequence[float] | None,
    ridges: Sequence[float],
    n_alphas: int = 0,
    alpha_ratio: float | None = None,
    space: str = "coefficients",
) -> list[GridPoint]:
    """Return the points of a grid: by ridge, by theta, and by descending alpha.

    Without alphas there are ``n_alphas`` for each theta and ridge, from where no model has a tail downwards:
    to ``alpha_ratio`` times that, or, without a ratio, such as leave 5 to 98 % of the effective directions.
    """
    if alphas is not None:
        descending = sorted(alphas, reverse=True)
        return [
            GridPoint(theta, alpha, ridge) for ridge in ridges for theta in thetas for alpha in descending
        ]
    ends = ridges_leaving(problem, _ALPHA_SHARES) if alpha_ratio is None else []
    points = []
    for ridge in ridges:
        part = problem.with_ridge(ridge)
        strengths = [2.0 * end * singular_values(part.ridge_solution(extra=end)) for end in ends]
        limits, least = part.strongest_slopes(thetas), part.rounding * part.scale
        if space == "predictions":
            d = part.penalised_predictions(TailSum(0, 0.0)).d
            limits, least = [2.0 * float(d[theta]) if theta < len(d) else 0.0 for theta in thetas], 0.0
        for theta, limit in zip(thetas, limits, strict=True):
            # Whether the first one has a tail must not depend on rounding.
            largest = limit * (1 + 1e-9)
            if largest <= least:  # there is nothing to penalise
                points.append(GridPoint(theta, 0.0, ridge))
                continue
            if alpha_ratio is not None:
                smallest = largest * alpha_ratio
            else:
                strong, weak = (float(strength[theta]) for strength in strengths)
                largest = min(largest, strong) or largest
                smallest = min(weak or largest, 0.1 * largest)
            values = np.geomspace(largest, smallest, n_alphas)
            points += [GridPoint(theta, float(alpha), ridge) for alpha in values]
    return points


def resolve_thetas(thetas: Iterable[Any] | None, shape: tuple[int, int]) -> list[int]:
    """Return counts of free singular values, without repetitions; ``shape`` is that of the coefficients."""
    values = DEFAULT_THETAS if thetas is None else thetas
    return list(dict.fromkeys(check.check_count("theta", value, 0, shape) for value in values))


def resolve_ranks(ranks: Iterable[Any], shape: tuple[int, int]) -> list[int]:
    """Return ranks, without repetitions; ``shape`` is that of the coefficients."""
    return list(dict.fromkeys(check.check_count("each of ranks", value, 1, shape) for value in ranks))


def ridges_leaving(problem: SpectralProblem, shares: Iterable[float]) -> list[float]:
    """Return the ridges that leave these shares of the effective directions; 1 stands for no ridge."""
    return [0.0 if share == 1.0 else problem.ridge_leaving(share) for share in shares]


def counts_up_to(most: int, count: int = 24) -> list[int]:
    """Return 0 and about geometric counts up to a number."""
    if most < 1:
        return [0]
    return [0, *dict.fromkeys(round(float(value)) for value in np.geomspace(1, most, count))]
