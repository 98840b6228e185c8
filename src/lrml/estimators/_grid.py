"""Grids of theta, alpha and ridge: what the user gave, or defaults from the data.

Defaults must not depend on the scales of the features. With the r eigenvalues λ_i of XᵀX, a ridge ρ leaves
the share (1/r) Σ λ_i / (λ_i + ρ) of *effective directions*: a share of 0.9 is a weak ridge and one of 0.1 a
strong one, whatever the λ_i are. The penalty alpha · σ_j acts on direction j like a ridge of alpha / 2σ_j, so
alpha = 2ρσ acts on the largest singular value σ of the tail like ρ.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from lrml.core import checks as check
from lrml.core.quadratic import SpectralProblem
from lrml.core.spectra import singular_values
from lrml.solvers import Chain, chains_for

_ALPHA_SHARES = (0.05, 0.98)
DEFAULT_THETAS = (0.0, 0.05, 0.1, 0.2, 0.4)
"""Shares of the labels that paths and searches try unless told otherwise; 0 is the trace norm."""


class GridPoint(NamedTuple):
    """One candidate."""

    theta: int
    alpha: float
    ridge: float


class Grid(NamedTuple):
    """The checked ingredients of a grid."""

    thetas: Sequence[int]
    alphas: Sequence[float] | None  # None: n_alphas values from alpha_max down to alpha_ratio times that
    ridges: Sequence[float]
    n_alphas: int
    alpha_ratio: float | None  # None: alphas that leave 5 to 98 % of the effective directions

    def points(self, problem: SpectralProblem) -> list[GridPoint]:
        """All candidates: by ridge, by theta, and by descending alpha."""
        ends: list[float] = []
        if self.alphas is None and self.alpha_ratio is None:
            ends = ridges_leaving(problem, _ALPHA_SHARES)
        points = []
        for ridge in self.ridges:
            part = problem.with_ridge(ridge)
            strengths = [2.0 * end * singular_values(part.ridge_solution(extra=end)) for end in ends]
            limits = [math.inf] * len(self.thetas)
            if self.alphas is None:
                limits = part.strongest_slopes(self.thetas)
            points += [
                GridPoint(theta, alpha, ridge)
                for theta, limit in zip(self.thetas, limits, strict=True)
                for alpha in self._alphas(part, limit, [strength[theta:] for strength in strengths])
            ]
        return points

    def _alphas(self, problem: SpectralProblem, limit: float, strengths: list[Any]) -> list[float]:
        """Return descending alphas; from ``limit`` on, no model has a tail."""
        if self.alphas is not None:
            return sorted(self.alphas, reverse=True)
        # Whether the first model has a tail must not depend on rounding.
        largest = limit * (1 + 1e-9)
        if largest <= problem.rounding * problem.scale:  # there is nothing to penalise
            return [0.0]
        if self.alpha_ratio is not None:
            smallest = largest * self.alpha_ratio
        else:
            strong, weak = (float(strength[0]) for strength in strengths)
            largest = min(largest, strong) or largest
            smallest = min(weak or largest, 0.1 * largest)
        return [float(alpha) for alpha in np.geomspace(largest, smallest, self.n_alphas)]


def resolve_thetas(thetas: Iterable[Any] | None, shape: tuple[int, int]) -> list[int]:
    """Return counts of free singular values, without repetitions; ``shape`` is that of the coefficients."""
    values = DEFAULT_THETAS if thetas is None else thetas
    return list(dict.fromkeys(check.check_count("theta", value, 0, shape) for value in values))


def resolve_ranks(
    ranks: Iterable[Any] | None, defaults: Iterable[float], shape: tuple[int, int]
) -> list[int]:
    """Return ranks, without repetitions; ``shape`` is that of the coefficients."""
    values = defaults if ranks is None else ranks
    return list(dict.fromkeys(check.check_count("each of ranks", value, 1, shape) for value in values))


def ridges_leaving(problem: SpectralProblem, shares: Iterable[float]) -> list[float]:
    """Return the ridges that leave these shares of the effective directions; 1 stands for no ridge."""
    return [0.0 if share == 1.0 else problem.ridge_leaving(share) for share in shares]


def chains_of(
    points: Sequence[GridPoint] | Mapping[int, GridPoint], kept: Iterable[int]
) -> list[tuple[float, Chain]]:
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


def chains_from(
    points: Mapping[int, GridPoint], known: Mapping[GridPoint, tuple[Any, Any]]
) -> list[tuple[float, Chain]]:
    """One chain for each point, with its ridge, from the nearest solution that is known.

    A point halfway between two of them starts from the one with the larger alpha, whatever the last digits.
    """

    def distance(one: GridPoint, other: GridPoint) -> tuple[float, ...]:
        away = round(abs(math.log(one.alpha / other.alpha)), 6)
        return one.theta != other.theta, away, abs(one.ridge - other.ridge), -other.alpha

    chains = []
    for index, point in points.items():
        start = min(known, key=partial(distance, point))
        chains.append((point.ridge, Chain(point.theta, (point.alpha,), (index,), known[start])))
    return chains
