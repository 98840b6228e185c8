"""Choice of method and starting point."""

from __future__ import annotations

from collections.abc import Sequence

from lrml._arrays import Array, namespace
from lrml.penalties import Penalty
from lrml.problem import SpectralProblem
from lrml.solvers._loop import (
    START_SHARE,
    Certificate,
    Phase,
    factorise,
    iterate,
    point_at,
    spectrum,
    stationarity_residual,
)
from lrml.solvers._result import Callback, History, IterationInfo, SolverResult, Status
from lrml.solvers.alternating import Alternating
from lrml.solvers.paper import Algorithm1
from lrml.solvers.proximal_gradient import AcceleratedProximalGradient, ProximalGradient
from lrml.solvers.reduced_rank import ReducedRank

SOLVERS = ("auto", "apg", "pg", "paper")


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
        "auto" takes the reduced-rank solution where that is stationary. Elsewhere it begins at a ridge
        solution with a few alternating steps, compares with the reduced-rank solution, and goes on from the
        better one; should that come to rest, accelerated proximal gradient takes over. A `Phase` object is
        run as it is.
    start : array of shape ``problem.shape``, optional
        Starting point in spectral coordinates.
    max_iter : int
    tol : float
        Upper limit of the estimated gap (F − F*) / F; see `Point` and `Gains`.
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
    if not literal and _inactive(problem, penalty):
        return _closed_form(problem, penalty)
    if start is None:
        xp = namespace(problem.cross)
        start = xp.zeros_like(problem.cross) if literal else _ridge_start(problem)
    first = point_at(problem, penalty, start, spectrum(start))
    return iterate(
        phases,
        problem,
        penalty,
        first,
        max_iter=max_iter,
        tol=tol,
        callback=callback,
        certificate=certificate,
    )


def _phases(solver: str | Phase, *, warm: bool) -> Sequence[Phase]:
    if not isinstance(solver, str):
        return [solver]
    if solver == "auto":
        if warm:  # close already
            return [Alternating(), AcceleratedProximalGradient()]
        limit = ReducedRank()
        return [limit, Alternating(rival=limit), AcceleratedProximalGradient()]
    if solver == "apg":
        return [AcceleratedProximalGradient()]
    if solver == "pg":
        return [ProximalGradient()]
    if solver == "paper":
        return [Algorithm1()]
    raise ValueError(f"solver must be one of {', '.join(map(repr, SOLVERS))}, got {solver!r}. Use 'auto'.")


def _ridge_start(problem: SpectralProblem) -> Array:
    return problem.ridge_solution(extra=problem.ridge_leaving(START_SHARE))


def _inactive(problem: SpectralProblem, penalty: Penalty) -> bool:
    """Whether the penalty is zero at every matrix of the problem's shape."""
    xp = namespace(problem.cross)
    ones = xp.ones(problem.shape[1], dtype=problem.cross.dtype)
    return float(xp.sum(penalty.slopes(ones))) == 0.0


def _closed_form(problem: SpectralProblem, penalty: Penalty) -> SolverResult:
    W = problem.ridge_solution()
    point = point_at(problem, penalty, W, spectrum(W), problem.gradient(W))
    residual = stationarity_residual(problem, penalty, W)
    entry = IterationInfo(0, "closed form", point.objective, residual, point.rank, 0.0, point.gap)
    factors = factorise(problem, W, point.rank)
    return SolverResult(W, factors, Status.EXACT, 0, point.objective, point.gap, residual, History([entry]))
