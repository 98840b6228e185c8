"""Solvers for f(W) + Ω(σ(W)) in spectral coordinates: tiny methods, one loop, one result."""

from lrml.solvers._chain import Chain, ChainPoint, alpha_max, chains_for, solve_chain, solve_chains
from lrml.solvers._gap import DualityGap
from lrml.solvers._loop import Certificate, Phase, Point, stationarity_residual
from lrml.solvers._result import (
    SUCCESSES,
    Callback,
    Factors,
    History,
    IterationInfo,
    SolverResult,
    Status,
)
from lrml.solvers._row_gap import row_duality_gap
from lrml.solvers._solve import SOLVERS, solve
from lrml.solvers._solve_rows import ROW_SOLVERS, solve_rows
from lrml.solvers.admm import ADMM
from lrml.solvers.alternating import Alternating
from lrml.solvers.paper import Algorithm1
from lrml.solvers.proximal_gradient import AcceleratedProximalGradient, ProximalGradient
from lrml.solvers.proximal_newton import ProximalNewton
from lrml.solvers.reduced_rank import ReducedRank
from lrml.solvers.reweighted import Reweighted

__all__ = [
    "ADMM",
    "ROW_SOLVERS",
    "SOLVERS",
    "SUCCESSES",
    "AcceleratedProximalGradient",
    "Algorithm1",
    "Alternating",
    "Callback",
    "Certificate",
    "Chain",
    "ChainPoint",
    "DualityGap",
    "Factors",
    "History",
    "IterationInfo",
    "Phase",
    "Point",
    "ProximalGradient",
    "ProximalNewton",
    "ReducedRank",
    "Reweighted",
    "SolverResult",
    "Status",
    "alpha_max",
    "chains_for",
    "row_duality_gap",
    "solve",
    "solve_chain",
    "solve_chains",
    "solve_rows",
    "stationarity_residual",
]
