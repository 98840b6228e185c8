"""Fits of `LEML`: from checked data to a solution in the original space."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lrml.estimators._fitting import Solution, TrainingData, nothing_to_learn, sort_labels
from lrml.problem import SpectralProblem
from lrml.solvers import Factors
from lrml.solvers import leml as core

_Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Task:
    """Checked parameters of one fit.

    Attributes
    ----------
    alpha : float
    rank : int
    fit_intercept : bool
    last : triple of arrays of shape (d, j), (L, j) and (L,), or None
        Balanced factors and intercepts to start from.
    random : RandomState
    """

    alpha: float
    rank: int
    fit_intercept: bool
    last: tuple[_Float64, _Float64, _Float64] | None
    random: np.random.RandomState


def fit_moments(data: TrainingData, task: Task, limits: core.Limits) -> Solution:
    """Least squares with all labels known: everything follows from the second moments."""
    statistics = data.statistics
    problem = SpectralProblem.from_moments(statistics.moments(fit_intercept=task.fit_intercept))
    start = None
    if task.last is not None:
        rank = min(task.rank, *problem.shape)
        start = problem.features.T @ core.resize(task.last[0], task.last[1], rank, task.random)[0]
    result = core.solve_moments(problem, task.alpha, task.rank, limits, start)
    U, V = problem.restore(result.factors.U, result.factors.V)
    factors = Factors(U, result.factors.s, V)
    constants = statistics.y_mean if task.fit_intercept else np.zeros(len(V))
    shift = statistics.x_mean if task.fit_intercept else np.zeros(len(U))
    return _solution(data, result, factors, constants - _score(shift, factors), statistics.y_mean == 0)


def fit_rows(data: TrainingData, task: Task, limits: core.Limits) -> Solution:
    """Any loss, any labels known, any number of features: every sweep reads the rows."""
    rows = data.rows
    unseen, used, constants = sort_labels(data, rows, fit_intercept=task.fit_intercept)
    if not used.any():
        return nothing_to_learn(data, unseen, constants)
    chosen = rows if used.all() else rows.select_labels(used)
    design = core.Design(rows.X, rows.weights, center=task.fit_intercept)
    core.precondition(design, rows.X, int(used.sum()), task.rank)
    result = core.solve_rows(
        design,
        core.data_term(chosen, data.loss),
        task.alpha,
        task.rank,
        constants[used],
        limits,
        task.random,
        fit_intercept=task.fit_intercept,
        start=_row_start(task, used, constants, design),
    )
    V = np.zeros((len(used), len(result.factors.s)))
    V[used] = result.factors.V
    factors = Factors(result.factors.U, result.factors.s, V)
    constants[used] = result.constants
    return _solution(data, result, factors, constants - _score(design.mean, factors), unseen)


def _row_start(
    task: Task, used: npt.NDArray[np.bool_], best: _Float64, design: core.Design
) -> tuple[_Float64, _Float64, _Float64] | None:
    """Last factors for the labels in use, with the scores at the mean."""
    if task.last is None:
        return None
    Z, H, intercept = task.last
    constants = intercept + H @ (design.mean @ Z) if task.fit_intercept else np.zeros(len(H))
    # A label without coefficients had a constant score, -100 perhaps. No other is better than the best.
    constants = np.where(H.any(axis=1), constants, best)
    return Z, H[used], constants[used]


def _score(x: _Float64, factors: Factors) -> _Float64:
    """Scores xᵀW of one example."""
    scores: _Float64 = factors.V @ ((x @ factors.U) * factors.s)
    return scores


def _solution(
    data: TrainingData,
    result: core.LemlResult,
    factors: Factors,
    intercept: _Float64,
    unseen: npt.NDArray[np.bool_],
) -> Solution:
    factors.V[unseen] = 0.0  # up to rounding they are
    intercept[unseen] = data.loss.unseen_score
    return Solution(
        factors,
        intercept,
        unseen,
        result.status,
        len(result.history) - 1,
        result.objective,
        result.residual,
        result.history,
    )
