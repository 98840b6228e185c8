"""Families of candidates whose fits follow from second moments: what has to be solved on every split.

A family lists its candidates as parameters of the estimator, and turns some of them, on one problem, into
tasks that do not depend on each other. A task calls ``visit(candidate, left, right)`` for each of its
solutions W = left rightᵀ, in spectral coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml.estimators._grid import GridPoint, chains_of
from lrml.problem import SpectralProblem
from lrml.solvers import Chain, solve_chain

_Float64 = npt.NDArray[np.float64]
Visit: TypeAlias = Callable[[int, _Float64, _Float64], None]
Task: TypeAlias = Callable[[], None]


class Family(Protocol):
    """What a search needs of a family."""

    candidates: list[dict[str, Any]]

    def tasks(self, problem: SpectralProblem, kept: Sequence[int], visit: Visit) -> list[Task]:
        """Return tasks that fit the kept candidates."""

    def strengths(self) -> _Float64:
        """Return the strengths of the penalties, one row per candidate, the decisive column first."""


class TailFamily:
    """LRML and ML-trace: chains of warm starts over alpha."""

    def __init__(self, points: list[GridPoint], names: tuple[str, ...], tol: float, max_iter: int) -> None:
        self.points = points
        self.candidates = [{name: getattr(point, name) for name in names} for point in points]
        self.tol, self.max_iter = tol, max_iter

    def tasks(self, problem: SpectralProblem, kept: Sequence[int], visit: Visit) -> list[Task]:
        """One task per chain."""
        return [
            partial(self._run, problem.with_ridge(ridge), chain, visit)
            for ridge, chain in chains_of(self.points, kept)
        ]

    def _run(self, problem: SpectralProblem, chain: Chain, visit: Visit) -> None:
        for index, point in solve_chain(problem, chain, tol=self.tol, max_iter=self.max_iter):
            visit(index, point.left, point.right)

    def strengths(self) -> _Float64:
        """Return alpha, then ridge."""
        return np.array([(point.alpha, point.ridge) for point in self.points])


class RidgeFamily:
    """ML-Fro: a closed form for every alpha."""

    def __init__(self, alphas: Sequence[float]) -> None:
        self.candidates = [{"alpha": alpha} for alpha in alphas]

    def tasks(self, problem: SpectralProblem, kept: Sequence[int], visit: Visit) -> list[Task]:
        """One task per alpha."""
        identity = np.eye(problem.shape[1])

        def run(index: int) -> None:
            ridge = self.candidates[index]["alpha"]
            visit(index, problem.with_ridge(ridge).ridge_solution(), identity)

        return [partial(run, index) for index in kept]

    def strengths(self) -> _Float64:
        """Return alpha."""
        return np.array([[candidate["alpha"]] for candidate in self.candidates])


class ReducedRankFamily:
    """CPLST: one decomposition per ridge serves all ranks."""

    def __init__(self, ranks: Sequence[int], ridges: Sequence[float]) -> None:
        self.candidates = [{"rank": rank, "ridge": ridge} for ridge in ridges for rank in ranks]

    def tasks(self, problem: SpectralProblem, kept: Sequence[int], visit: Visit) -> list[Task]:
        """One task per ridge."""
        groups: dict[float, list[int]] = {}
        for index in kept:
            groups.setdefault(self.candidates[index]["ridge"], []).append(index)
        return [
            partial(self._run, problem.with_ridge(ridge), group, visit) for ridge, group in groups.items()
        ]

    def _run(self, problem: SpectralProblem, group: list[int], visit: Visit) -> None:
        left, V, _ = problem.reduced_rank_factors()
        for index in group:
            rank = self.candidates[index]["rank"]
            visit(index, left[:, :rank], V[:, :rank])

    def strengths(self) -> _Float64:
        """Return the ridge; the rank speaks for itself."""
        return np.array([[candidate["ridge"]] for candidate in self.candidates])
