"""Solvers for f(W) + Ω(σ(W)) in spectral coordinates: tiny methods, one loop, one result."""

from lrml.solvers._loop import Phase, Point, stationarity_residual
from lrml.solvers._result import Callback, Factors, History, IterationInfo, SolverResult, Status
from lrml.solvers._solve import SOLVERS, solve
from lrml.solvers.admm import ADMM
from lrml.solvers.paper import Algorithm1
from lrml.solvers.proximal_gradient import AcceleratedProximalGradient, ProximalGradient
from lrml.solvers.reduced_rank import ReducedRank
from lrml.solvers.reweighted import Reweighted

__all__ = [
    "ADMM",
    "SOLVERS",
    "AcceleratedProximalGradient",
    "Algorithm1",
    "Callback",
    "Factors",
    "History",
    "IterationInfo",
    "Phase",
    "Point",
    "ProximalGradient",
    "ReducedRank",
    "Reweighted",
    "SolverResult",
    "Status",
    "solve",
    "stationarity_residual",
]
