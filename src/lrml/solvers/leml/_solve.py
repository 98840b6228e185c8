"""From a problem to a result: closed forms where there are some, sweeps elsewhere."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lrml.problem import SpectralProblem
from lrml.solvers._result import Callback, Factors, History, IterationInfo, Status
from lrml.solvers.leml._balance import Float64, balance, resize
from lrml.solvers.leml._design import Design
from lrml.solvers.leml._loop import Outcome, alternate
from lrml.solvers.leml._moments import MomentAlternation, best_left_factor, steepest_slope
from lrml.solvers.leml._rows import RowAlternation
from lrml.solvers.leml._start import spectral_start
from lrml.solvers.leml._terms import DataTerm


class Limits(NamedTuple):
    """When to stop: see `alternate`."""

    max_iter: int
    tol: float
    callback: Callback | None = None


class LemlResult(NamedTuple):
    """Outcome of a solve.

    Attributes
    ----------
    factors : Factors
        Thin singular value decomposition of ZHᵀ, in the coordinates of the problem.
    constants : array of shape (L,)
        Scores at the mean of X; zeros if the moments were centred.
    status, objective, residual, history
        As in `lrml.solvers.SolverResult`.
    """

    factors: Factors
    constants: Float64
    status: Status
    objective: float
    residual: float
    history: History


def solve_moments(
    problem: SpectralProblem, alpha: float, rank: int, limits: Limits, start: Float64 | None = None
) -> LemlResult:
    """Minimise F for the squared loss with all labels known.

    Parameters
    ----------
    problem : SpectralProblem
    alpha : float
    rank : int
    limits : Limits
    start : array of shape (r, k), optional
        Z in the coordinates of the problem.
    """
    rank = min(rank, *problem.shape)
    constants = np.zeros(problem.shape[1])
    slope = steepest_slope(problem)
    if alpha >= slope:
        return _zero(problem.shape, constants, problem.target, limits)
    if alpha == 0:
        left, V = best_left_factor(problem, 0.0, rank)
        point = balance(left, V)
        return _closed_form(_factors(*point[:3]), constants, problem.reduced_rank_solution(rank)[1], limits)
    sweeps = MomentAlternation(problem, alpha, rank, start=start, unit=slope)
    return _result(sweeps, alternate(sweeps, **limits._asdict()), constants)


def solve_rows(
    design: Design,
    term: DataTerm,
    alpha: float,
    rank: int,
    constants: Float64,
    limits: Limits,
    random: np.random.RandomState,
    *,
    fit_intercept: bool = True,
    start: tuple[Float64, Float64, Float64] | None = None,
) -> LemlResult:
    """Minimise F for any loss.

    Parameters
    ----------
    design : Design
    term : DataTerm
    alpha : float
    rank : int
    constants : array of shape (L,)
        Scores of the best model without features; zeros without intercept.
    limits : Limits
    random : RandomState
    fit_intercept : bool, default=True
    start : triple of arrays of shape (d, j), (L, j) and (L,), optional
        Balanced Z and H, of any rank j, and scores at the mean. The leading directions of the gradient at
        zero if not given.
    """
    rank = min(rank, design.n_features, len(constants))
    origin = spectral_start(design, term, constants, rank, random)
    if alpha >= origin.slope:
        nothing = term.evaluate(np.zeros((design.n_rows, 1)), np.zeros((len(constants), 1)), constants)
        shape = (design.n_features, len(constants))
        return _zero(shape, constants, float(nothing.values.sum()), limits)
    point = (origin.Z, np.zeros((len(constants), rank)), constants)
    if start is not None:
        point = (*resize(start[0], start[1], rank, random), start[2])
    sweeps = RowAlternation(design, term, alpha, point, unit=origin.slope, fit_intercept=fit_intercept)
    outcome = alternate(sweeps, **limits._asdict())
    return _result(sweeps, outcome, sweeps.c)


def _result(sweeps: MomentAlternation | RowAlternation, outcome: Outcome, constants: Float64) -> LemlResult:
    factors = _factors(sweeps.Z, sweeps.H, sweeps.sigma)
    return LemlResult(factors, constants, outcome.status, sweeps.objective, sweeps.residual, outcome.history)


def _factors(Z: Float64, H: Float64, sigma: Float64) -> Factors:
    """Singular vectors from balanced factors, without the zero columns."""
    rank = int(np.count_nonzero(sigma))
    root = np.sqrt(sigma[:rank])
    return Factors(Z[:, :rank] / root, sigma[:rank], H[:, :rank] / root)


def _zero(shape: tuple[int, int], constants: Float64, objective: float, limits: Limits) -> LemlResult:
    """Return zero coefficients: the penalty is so strong that nothing is worth its price."""
    factors = Factors(np.zeros((shape[0], 0)), np.zeros(0), np.zeros((shape[1], 0)))
    return _closed_form(factors, constants, objective, limits)


def _closed_form(factors: Factors, constants: Float64, objective: float, limits: Limits) -> LemlResult:
    info = IterationInfo(0, "closed form", objective, 0.0, len(factors.s), 0.0)
    if limits.callback is not None:
        limits.callback(info)
    return LemlResult(factors, constants, Status.CLOSED_FORM, objective, 0.0, History([info]))
