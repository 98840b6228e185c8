"""Grids of theta, alpha and ridge: what the user gave, checked, or defaults from the data.

Defaults must not depend on the scales of the features. What a ridge ρ leaves of r directions with the
eigenvalues λ_i of XᵀX is its share of *effective directions*, (1/r) Σ λ_i / (λ_i + ρ): a share of 0.9 is a
weak ridge and one of 0.1 a strong one, whatever the λ_i are. And as alpha · σ_j weighs the direction j like
the ridge alpha / 2σ_j, alpha = 2ρσ does to the largest singular value σ of the tail what ρ does.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from lrml import _validation as check
from lrml.penalties import right_singular
from lrml.problem import SpectralProblem
from lrml.solvers import Chain, alpha_max, chains_for

_ALPHA_SHARES = (0.05, 0.98)
DEFAULT_THETAS = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Shares of the labels that paths and searches try unless told otherwise; 0 is the trace norm."""


class GridPoint(NamedTuple):
    """One candidate."""

    theta: int
    alpha: float
    ridge: float


class Grid(NamedTuple):
    """What the points of a grid are made of; None stands for the default.

    Attributes
    ----------
    thetas : sequence of int or float, or None
    alphas : sequence of float or None
        By default ``n_alphas`` values from alpha_max(theta, ridge) down to ``alpha_ratio`` times that.
    ridges : sequence of float
    n_alphas : int
    alpha_ratio : float or None
        None for alphas that leave 5 to 98 % of the effective directions.
    """

    thetas: Sequence[Any] | None
    alphas: Sequence[float] | None
    ridges: Sequence[float]
    n_alphas: int
    alpha_ratio: float | None

    def points(self, problem: SpectralProblem, n_features: int, n_labels: int) -> list[GridPoint]:
        """All candidates: by ridge, by theta, and by descending alpha."""
        shares = DEFAULT_THETAS if self.thetas is None else self.thetas
        thetas = list(dict.fromkeys(check.check_theta(share, n_features, n_labels) for share in shares))
        ends: list[float] = []
        if self.alphas is None and self.alpha_ratio is None:
            ends = ridges_leaving(problem, _ALPHA_SHARES)
        points = []
        for ridge in self.ridges:
            part = problem.with_ridge(ridge)
            strengths = [2.0 * end * right_singular(part.ridge_solution(extra=end))[0] for end in ends]
            points += [
                GridPoint(theta, alpha, ridge)
                for theta in thetas
                for alpha in self._alphas(part, theta, [strength[theta:] for strength in strengths])
            ]
        return points

    def _alphas(self, problem: SpectralProblem, theta: int, strengths: list[Any]) -> list[float]:
        if self.alphas is not None:
            return sorted(dict.fromkeys(self.alphas), reverse=True)
        # Rounding must not decide whether the first model has a tail.
        largest = alpha_max(problem, theta) * (1 + 1e-9)
        if largest <= problem.rounding * problem.scale:  # nothing is left for a penalty to act on
            return [0.0]
        if self.alpha_ratio is not None:
            smallest = largest * self.alpha_ratio
        else:
            strong, weak = (float(strength[0]) for strength in strengths)
            largest = min(largest, strong) or largest
            smallest = min(weak or largest, 0.1 * largest)
        return [float(alpha) for alpha in np.geomspace(largest, smallest, self.n_alphas)]


def check_grid(thetas: Any, alphas: Any, ridges: Any, n_alphas: Any, alpha_ratio: Any) -> Grid:
    """Check everything about a grid that can be checked without the data."""
    chosen = None if alphas is None else check_numbers("alphas", alphas, check_alpha)
    if isinstance(n_alphas, bool) or not isinstance(n_alphas, numbers.Integral) or n_alphas < 1:
        raise ValueError(
            f"n_alphas must be an int of at least 1, got {n_alphas!r}. Pass a number such as 20."
        )
    ratio = None
    if alpha_ratio is not None:
        ratio = check.check_nonnegative("alpha_ratio", alpha_ratio, "Pass a small number such as 1e-3.")
        if not 0 < ratio < 1:
            raise ValueError(f"alpha_ratio must be in (0, 1), got {alpha_ratio}. Pass a number such as 1e-3.")
    return Grid(
        None if thetas is None else as_values("thetas", thetas),
        chosen,
        check_numbers("ridges", ridges, check_ridge),
        int(n_alphas),
        ratio,
    )


def ridges_leaving(problem: SpectralProblem, shares: Iterable[float]) -> list[float]:
    """Return the ridges that leave the given shares of effective directions.

    Parameters
    ----------
    problem : SpectralProblem
        Without a ridge.
    shares : iterable of float
        In (0, 1); 1 stands for no ridge.
    """
    return [0.0 if share == 1.0 else problem.ridge_leaving(share) for share in shares]


def chains_of(points: Sequence[GridPoint], kept: Iterable[int]) -> list[tuple[float, Chain]]:
    """Chains through the kept points, each with its ridge; the long ones, down from alpha_max, first."""
    groups: dict[tuple[float, int], list[int]] = {}
    for index in kept:
        groups.setdefault((points[index].ridge, points[index].theta), []).append(index)
    chains = [
        (ridge, chain)
        for (ridge, theta), members in groups.items()
        for chain in chains_for(theta, [points[index].alpha for index in members], members)
    ]
    return sorted(chains, key=lambda pair: pair[1].begin != "reduced rank")


def as_values(name: str, values: Any) -> list[Any]:
    """Return a single number or several as a list that is not empty."""
    if isinstance(values, np.ndarray):
        values = np.atleast_1d(values)  # an array without a dimension is one number
    several = isinstance(values, Iterable) and not isinstance(values, (str, bytes))
    listed = list(values) if several else [values]
    if not listed:
        raise ValueError(
            f"{name} must hold at least one number, got none. Pass a list, or None for defaults."
        )
    return listed


def check_numbers(name: str, values: Any, check_one: Callable[[Any], float]) -> list[float]:
    """Several numbers, each checked, without repetitions."""
    return list(dict.fromkeys(check_one(value) for value in as_values(name, values)))


def check_alpha(alpha: Any) -> float:
    """Return a strength of at least 0."""
    return check.check_nonnegative("each of alphas", alpha, "Pass numbers such as [0.1, 1, 10].")


def check_ridge(ridge: Any) -> float:
    """Return a ridge of at least 0."""
    return check.check_nonnegative("each of ridges", ridge, "Pass ridges=0 for none.")
