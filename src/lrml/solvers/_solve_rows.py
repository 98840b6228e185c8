"""Choice of method and starting point for losses over rows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lrml.penalties import Penalty
from lrml.row_problem import RowProblem
from lrml.solvers._loop import Phase, iterate, point_at, spectrum_of_any
from lrml.solvers._result import Callback, SolverResult
from lrml.solvers.proximal_gradient import AcceleratedProximalGradient
from lrml.solvers.proximal_newton import ProximalNewton

ROW_SOLVERS = ("auto", "apg")


def solve_rows(
    problem: RowProblem,
    penalty: Penalty,
    *,
    solver: str = "auto",
    start: npt.NDArray[np.float64] | None = None,
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
        "auto" is proximal Newton, with accelerated proximal gradient should that come to rest.
    start : array of shape ``problem.shape``, optional
        The constant scores ``problem.origin`` if not given.
    max_iter, tol, callback
        As in `lrml.solvers.solve`. Every iteration reads the rows.

    Returns
    -------
    SolverResult
        Its ``solution`` holds the intercepts: see `RowProblem.intercept`.
    """
    phases: list[Phase] = [AcceleratedProximalGradient()]
    if solver == "auto":
        phases.insert(0, ProximalNewton())
    V = problem.origin if start is None else start
    first = point_at(problem, penalty, V, spectrum_of_any(problem.penalised(V)))
    return iterate(phases, problem, penalty, first, max_iter=max_iter, tol=tol, callback=callback)
