"""Penalties on singular values, for everybody: `lrml.core.penalties` explains them."""

from lrml.core.penalties import (
    MCP,
    SCAD,
    Capped,
    LogSum,
    OptimalShrinker,
    Penalty,
    Rank,
    SchattenHalf,
    TailSum,
    TraceNorm,
    Weighted,
)

__all__ = [
    "MCP",
    "SCAD",
    "Capped",
    "LogSum",
    "OptimalShrinker",
    "Penalty",
    "Rank",
    "SchattenHalf",
    "TailSum",
    "TraceNorm",
    "Weighted",
]
