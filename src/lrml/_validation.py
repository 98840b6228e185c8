"""Checks of what users pass to an estimator."""

from __future__ import annotations

from copy import copy
from typing import Any

from lrml._checks import (
    check_choice,
    check_flag,
    check_max_iter,
    check_nonnegative,
    check_rank,
    check_theta,
)
from lrml._shown import shown
from lrml._targets import (
    check_label_names,
    check_sample_weight,
    check_targets,
    check_threshold,
    check_unique_columns,
)
from lrml.solvers import SOLVERS, Callback, Phase

__all__ = [
    "check_callback",
    "check_choice",
    "check_flag",
    "check_label_names",
    "check_max_iter",
    "check_nonnegative",
    "check_rank",
    "check_sample_weight",
    "check_solver",
    "check_targets",
    "check_theta",
    "check_threshold",
    "check_unique_columns",
]


def check_solver(solver: Any) -> str | Phase:
    """Return the name of a solver, or a copy of a solver object, which keeps its state to itself."""
    if isinstance(solver, str):
        return check_choice("solver", solver, SOLVERS)
    if not all(hasattr(solver, name) for name in ("name", "seeks_tolerance", "start", "step")):
        listed = ", ".join(map(repr, SOLVERS))
        raise ValueError(
            f"solver must be one of {listed} or a solver object, got {shown(solver)}. Use 'auto' if in doubt."
        )
    phase: Phase = copy(solver)
    return phase


def check_callback(callback: Any) -> Callback | None:
    """Return something that can be called, or None."""
    if callback is not None and not callable(callback):
        raise TypeError(
            f"callback must be callable or None, got {shown(callback)}. Pass a function of one argument."
        )
    checked: Callback | None = callback
    return checked
