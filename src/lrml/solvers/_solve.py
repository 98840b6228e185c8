"""Choice of method and starting point."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from lrml._arrays import Array, namespace
from lrml._threads import one_blas_thread_if
from lrml.penalties import Penalty, Ranks
from lrml.problem import SpectralProblem
from lrml.row_problem import RowProblem
from lrml.solvers._loop import (
    START_SHARE,
    Certificate,
    Phase,
    Point,
    Problem,
    Run,
    iterate,
    point_at,
    spectrum,
)
from lrml.solvers._result import Callback, SolverResult, Status
from lrml.solvers.alternating import Alternating
from lrml.solvers.proximal_gradient import AcceleratedProximalGradient, Algorithm1, ProximalGradient
from lrml.solvers.proximal_newton import ProximalNewton
from lrml.solvers.reduced_rank import ReducedRank

_FIRST_ORDER = {"apg": AcceleratedProximalGradient, "pg": ProximalGradient, "paper": Algorithm1}
SOLVERS = ("auto", *_FIRST_ORDER)
# Up to so many multiplications in a product, a second BLAS thread saves an estimated tenth of a fit at most.
_SMALL_PRODUCT = 4_000_000
ROW_SOLVERS = ("auto", "apg")


def solve(
    problem: SpectralProblem,
    penalty: Penalty,
    *,
    solver: str | Phase = "auto",
    start: Array | None = None,
    max_iter: int = 5000,
    tol: float = 1e-4,
    callback: Callback | None = None,
    certificate: Certificate | None = None,
) -> SolverResult:
    """Find a stationary point of f(W) + Ω(σ(W)).

    Parameters
    ----------
    problem : SpectralProblem
        The smooth part f.
    penalty : Penalty
        Ω.
    solver : {"auto", "apg", "pg", "paper"} or Phase
        "auto" takes the reduced-rank solution if that is stationary. Otherwise it takes a few alternating
        steps from a ridge solution, compares with the reduced-rank solution, and goes on from the better one;
        if that stalls, accelerated proximal gradient takes over. A `Phase` object is run alone.
    start : array of shape ``problem.shape``, optional
        Starting point in spectral coordinates.
    max_iter : int
    tol : float
        Upper limit of the estimated gap (F − F*) / F; see `Point` and `Status`.
    callback : callable, optional
        Receives an `IterationInfo` after every iteration; a true return value stops.
    certificate : Certificate, optional
        A proof of the gap, to which ``tol`` applies as well.

    Returns
    -------
    SolverResult
        Its objective never exceeds that of the starting point.
    """
    phases = _phases(solver, warm=start is not None)
    literal = isinstance(phases[0], Algorithm1)
    run = Run(problem, penalty, tol, callback, certificate)
    ranks = Ranks.of(penalty, problem.cross)
    if not literal and ranks.free == ranks.permitted:
        return _closed_form(problem, penalty, run, ranks.free)
    if literal and start is None:
        start = namespace(problem.cross).zeros_like(problem.cross)
    elif start is None:
        start = _beginning(problem, penalty, ranks.permitted)
    rows, columns = problem.shape
    with one_blas_thread_if(rows * columns**2 <= _SMALL_PRODUCT):
        first = _permitted(problem, penalty, start, spectrum(start))
        return iterate(phases, run, first, max_iter=max_iter)


def _phases(solver: str | Phase, *, warm: bool) -> Sequence[Phase]:
    if not isinstance(solver, str):
        return [solver]
    if solver == "auto":
        if warm:  # already close
            return [Alternating(), AcceleratedProximalGradient()]
        limit = ReducedRank()
        return [limit, Alternating(rival=limit), AcceleratedProximalGradient()]
    if solver in _FIRST_ORDER:
        return [_FIRST_ORDER[solver]()]
    raise ValueError(f"solver must be one of {', '.join(map(repr, SOLVERS))}, got {solver!r}. Use 'auto'.")


def _closed_form(problem: SpectralProblem, penalty: Penalty, run: Run, rank: int) -> SolverResult:
    """Return the minimiser over the matrices of this rank: the penalty is nothing but such a limit."""
    W = problem.best_of_rank(rank)
    point = point_at(problem, penalty, W, spectrum(W, rank), problem.gradient(W))
    if rank < problem.shape[1]:  # what the gradient has left would leave the matrices of this rank
        point = replace(point, residual=0.0, gap=0.0)
    run.status = Status.EXACT
    run.keep(point, point.objective)
    run.record("closed form", point.objective, point.residual, point.rank, point.gap)
    return run.result(Status.EXACT)


def _beginning(problem: SpectralProblem, penalty: Penalty, rank: int) -> Array:
    """Return a ridge solution of at most the given rank.

    If that is a limit, the ridge is the one as which the penalty acts on the middle singular value, c / 2σ.
    """
    eased = problem.with_ridge(problem.ridge + problem.ridge_leaving(START_SHARE))
    W = eased.best_of_rank(rank)
    if rank >= problem.shape[1]:
        return W
    sigma = spectrum(W, rank)[: (rank + 1) // 2]
    if float(sigma[-1]) == 0.0:
        return W
    extra = 0.5 * float(penalty.slopes(sigma)[-1]) / float(sigma[-1])
    return problem.with_ridge(problem.ridge + extra).best_of_rank(rank)


def _permitted(problem: Problem, penalty: Penalty, W: Array, sigma: Array) -> Point:
    """Evaluate a starting point, or the nearest one that the penalty permits."""
    point = point_at(problem, penalty, W, sigma)
    if point.objective < math.inf:
        return point
    return point_at(problem, penalty, *problem.prox(W, penalty, 0.0))


def solve_rows(
    problem: RowProblem,
    penalty: Penalty,
    *,
    solver: str = "auto",
    start: npt.NDArray[np.float64] | None = None,
    rank: int | None = None,
    max_iter: int = 5000,
    tol: float = 1e-4,
    callback: Callback | None = None,
) -> SolverResult:
    """Find a stationary point of f(V) + Ω(σ(W̃)) for a loss over rows.

    Parameters
    ----------
    problem : RowProblem
    penalty : Penalty
    solver : {"auto", "apg"}
        "auto" is proximal Newton, then accelerated proximal gradient if that stalls.
    start : array of shape ``problem.shape``, optional
        The constant scores ``problem.origin`` if not given.
    rank : int, optional
        Upper limit of the rank of the penalised part of the start, if known.
    max_iter, tol, callback
        As in `lrml.solvers.solve`. Every iteration reads the rows.

    Returns
    -------
    SolverResult
        Its ``solution`` holds the intercepts: see `RowProblem.intercept`.
    """
    if solver not in ROW_SOLVERS:
        raise ValueError(f"solver must be 'auto' or 'apg' for a loss over rows, got {solver!r}. Use 'auto'.")
    phases: list[Phase] = [AcceleratedProximalGradient()]
    if solver == "auto":
        phases.insert(0, ProximalNewton())
    V = problem.origin if start is None else start
    first = _permitted(problem, penalty, V, spectrum(problem.penalised(V), rank))
    return iterate(phases, Run(problem, penalty, tol, callback), first, max_iter=max_iter)
