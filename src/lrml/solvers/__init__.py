"""Solvers for f(W) + Ω(σ(W)) in spectral coordinates: small methods, one loop, one result.

`solve` and `solve_rows` choose a method and a starting point; a method of your own is a `Phase`.

``__all__`` lists what is for users. The other names imported with ``as`` (duality gaps, the recorder,
Anderson's method) serve the rest of the library and may change.
"""

from lrml.core.linalg import Factors
from lrml.solvers._loop import (
    SUCCESSES,
    Callback,
    History,
    IterationInfo,
    Phase,
    Point,
    SolverResult,
    Status,
    point_at,
    stationarity_residual,
)
from lrml.solvers._loop import Recorder as Recorder
from lrml.solvers._loop import at_once as at_once
from lrml.solvers._solve import ROW_SOLVERS, SOLVERS, PathPoint, solve, solve_path, solve_rows
from lrml.solvers._solve import duality_gap as duality_gap
from lrml.solvers._solve import regressions_of as regressions_of
from lrml.solvers._solve import result_of as result_of
from lrml.solvers.alternating import Alternating
from lrml.solvers.alternating import Anderson as Anderson
from lrml.solvers.first_order import AcceleratedProximalGradient, Algorithm1, ProximalGradient
from lrml.solvers.separable import SeparableProblem as SeparableProblem
from lrml.solvers.separable import solve_separable as solve_separable

__all__ = [
    "ROW_SOLVERS",
    "SOLVERS",
    "SUCCESSES",
    "AcceleratedProximalGradient",
    "Algorithm1",
    "Alternating",
    "Callback",
    "Factors",
    "History",
    "IterationInfo",
    "PathPoint",
    "Phase",
    "Point",
    "ProximalGradient",
    "SolverResult",
    "Status",
    "point_at",
    "solve",
    "solve_path",
    "solve_rows",
    "stationarity_residual",
]
