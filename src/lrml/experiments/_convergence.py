"""Figure 3: how fast the objective falls, for Algorithm 1 of the paper and for the default solver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lrml.datasets import MultiLabelDataset
from lrml.penalties import TailSum
from lrml.problem import SpectralProblem
from lrml.solvers import Algorithm1, SolverResult, solve
from lrml.statistics import Statistics

DEFAULT_SOLVER = "default solver"
_DIGITS = 10  # beyond them machines differ in the order of their sums


def convergence(dataset: MultiLabelDataset, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Run both methods on the training set, raw and without intercept as in the paper.

    Parameters
    ----------
    dataset : MultiLabelDataset
    payload : mapping
        theta and alpha; gammas and steps of Algorithm 1; tol and max_iter of the default solver.

    Returns
    -------
    dict
        ``curves``: for every run its method, the objective after every iteration (entry 0 is the starting
        point), the residual of the point it returned, and the iteration at which the default tolerance would
        have stopped it (None for Algorithm 1, which has none).
    """
    X, Y = dataset.train
    problem = SpectralProblem.from_moments(Statistics.from_arrays(X, Y).uncentered())
    penalty = TailSum(payload["theta"], payload["alpha"])
    usual = solve(problem, penalty, max_iter=payload["max_iter"])
    tight = solve(problem, penalty, max_iter=payload["max_iter"], tol=payload["tol"])
    curves = [_curve(DEFAULT_SOLVER, tight, stop=usual.n_iter)]
    for gamma in payload["gammas"]:
        result = solve(problem, penalty, solver=Algorithm1(gamma=gamma), max_iter=payload["steps"])
        curves.append(_curve(f"Algorithm 1, gamma = {gamma:g}", result, stop=None))
    return {"curves": curves}


def _curve(method: str, result: SolverResult, stop: int | None) -> dict[str, Any]:
    objective = [float(f"{value:.{_DIGITS}g}") for value in result.history.as_dict()["objective"]]
    return {"method": method, "objective": objective, "residual": result.residual, "stop": stop}
