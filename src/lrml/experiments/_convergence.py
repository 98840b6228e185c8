"""Figure 3: how fast the objective falls, for Algorithm 1 of the paper and for the default solver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml._validation import check_theta
from lrml.datasets import MultiLabelDataset
from lrml.experiments._spec import ConvergenceSpec, Spec
from lrml.penalties import TailSum
from lrml.problem import SpectralProblem
from lrml.solvers import Algorithm1, SolverResult, solve
from lrml.statistics import Statistics

DEFAULT_SOLVER = "default solver"


@dataclass(frozen=True, eq=False)
class Curve:
    """The history of one run.

    Attributes
    ----------
    theta : int
    method : str
    history : dict of arrays
        As `lrml.solvers.History.as_dict`; entry 0 is the starting point.
    residual : float
        Stationarity residual of the point that the run returned.
    stop : int or None
        Iteration at which the method's default tolerance would have stopped it; None for Algorithm 1.
    """

    theta: int
    method: str
    history: dict[str, npt.NDArray[Any]]
    residual: float
    stop: int | None = None

    @property
    def objective(self) -> npt.NDArray[np.float64]:
        """Objective after every iteration."""
        return self.history["objective"]


@dataclass(frozen=True, eq=False)
class Panel:
    """All runs for one theta, with the lowest objective that any of them met."""

    theta: int
    curves: tuple[Curve, ...]

    @property
    def best(self) -> float:
        """The best known objective."""
        return min(float(curve.objective.min()) for curve in self.curves)

    def excess(self, curve: Curve) -> npt.NDArray[np.float64]:
        """Relative excess F/F_best − 1 after every iteration."""
        return curve.objective / self.best - 1.0

    def lowest(self) -> Curve:
        """Return the run that met the best known objective."""
        return min(self.curves, key=lambda curve: float(curve.objective.min()))


def convergence_curves(dataset: MultiLabelDataset, spec: Spec) -> Iterator[Curve]:
    """Run every method for every theta on the training set, raw and without intercept as in the paper."""
    X, Y = dataset.train
    problem = SpectralProblem.from_moments(Statistics.from_arrays(X, Y).uncentered())
    for share in spec.theta_shares:
        penalty = TailSum(check_theta(share, X.shape[1], Y.shape[1]), spec.convergence.alpha)
        yield _default_solver(problem, penalty, spec.convergence)
        for gamma in spec.convergence.gammas:
            yield _algorithm1(problem, penalty, gamma, spec.convergence.steps)


def panels(curves: Sequence[Curve]) -> tuple[Panel, ...]:
    """Group the curves of `convergence_curves` by theta."""
    return tuple(Panel(theta, tuple(group)) for theta, group in groupby(curves, key=lambda c: c.theta))


def _default_solver(problem: SpectralProblem, penalty: TailSum, spec: ConvergenceSpec) -> Curve:
    usual = solve(problem, penalty, max_iter=spec.max_iter)
    tight = solve(problem, penalty, max_iter=spec.max_iter, tol=spec.tol)
    return _curve(penalty.theta, DEFAULT_SOLVER, tight, stop=usual.n_iter)


def _algorithm1(problem: SpectralProblem, penalty: TailSum, gamma: float, steps: int) -> Curve:
    result = solve(problem, penalty, solver=Algorithm1(gamma=gamma), max_iter=steps)
    return _curve(penalty.theta, f"Algorithm 1, gamma = {gamma:g}", result)


def _curve(theta: int, method: str, result: SolverResult, stop: int | None = None) -> Curve:
    return Curve(theta, method, result.history.as_dict(), result.residual, stop)


def caption(figure: Sequence[Panel], spec: ConvergenceSpec, name: str) -> str:
    """Describe Figure 3 in words, with the numbers that the eye cannot read off."""
    ends: dict[str, list[float]] = {}
    stops: list[int] = []
    for panel in figure:
        for curve in panel.curves:
            last = -1 if curve.stop is None else curve.stop
            ends.setdefault(curve.method, []).append(float(panel.excess(curve)[last]))
            stops += [] if curve.stop is None else [curve.stop]
    at_stop = max(ends.pop(DEFAULT_SOLVER))
    reached = ", ".join(f"{min(e):.1e} to {max(e):.1e} ({method})" for method, e in ends.items())
    lowest = " or ".join(dict.fromkeys(panel.lowest().method for panel in figure))
    return (
        "Figure 3. Relative excess F/F_best - 1 of the objective over the best known one against the "
        f"iteration; {name}, raw features, no intercept, alpha = {spec.alpha:g}. Open circles are starting "
        "points: zero for Algorithm 1 (t0 is the Lipschitz constant), a ridge solution for the default "
        f"solver. The dot is where the latter's default tolerance stops it, after {min(stops)} to "
        f"{max(stops)} iterations and at an excess of at most {at_stop:.1e}. After {spec.steps} iterations "
        f"the others are at {reached}. The problem is not convex, so runs may end in different stationary "
        f"points; F_best is the lowest value that any run met (here: {lowest})."
    )
