"""Sweeps until the gradient is small: stopping, history, clock, callback."""

from __future__ import annotations

from time import perf_counter
from typing import NamedTuple, Protocol

import numpy as np

from lrml.solvers._result import Callback, History, IterationInfo, Status
from lrml.solvers.leml._balance import Float64

# Share of tol that a sweep may still gain, over the objective.
_GAIN = 0.1


class Alternation(Protocol):
    """A point, and a way to improve it.

    Attributes
    ----------
    objective : float
        F at the point.
    residual : float
        ‖∇F‖ in relation to the data, see `relative_gradient`.
    sigma : array of shape (k,)
        Singular values of ZHᵀ, descending.
    """

    objective: float
    residual: float
    sigma: Float64

    def sweep(self) -> None:
        """Improve one factor, then the other; F does not rise."""


class Outcome(NamedTuple):
    """How the sweeps ended."""

    status: Status
    history: History


def relative_gradient(
    gradients: tuple[Float64, Float64], factors: tuple[Float64, Float64], unit: float
) -> float:
    """‖(∇_Z F, ∇_H F)‖_F / (unit · ‖(Z, H)‖_F) for balanced factors; 0 if they vanish.

    ``unit`` is ‖∇f(0)‖₂, the largest singular value of the gradient of the loss with respect to the
    coefficients where these are zero: the least alpha that makes them vanish. The quotient is free of the
    units of X, Y and weights, and about |1 − alpha/unit| for factors that are tiny and point the right way.
    """
    size = np.sqrt(sum(float(np.vdot(factor, factor)) for factor in factors))
    steep = np.sqrt(sum(float(np.vdot(gradient, gradient)) for gradient in gradients))
    return float(steep / (unit * size)) if size > 0 else 0.0


def alternate(
    alternation: Alternation, *, max_iter: int, tol: float, callback: Callback | None = None
) -> Outcome:
    """Sweep until the residual is at most ``tol``, and a sweep gains no more than that of the objective.

    The residual alone is blind to features that are small beside others. Entry 0 of the history is the
    starting point.
    """
    history, seconds = History(), 0.0

    def record(phase: str) -> bool:
        rank = int(np.count_nonzero(alternation.sigma))
        info = IterationInfo(len(history), phase, alternation.objective, alternation.residual, rank, seconds)
        history.entries.append(info)
        return bool(callback(info)) if callback is not None else False

    def settled() -> bool:
        if len(history) < 2 or alternation.residual > tol:
            return False
        before = history.entries[-2].objective
        return before - alternation.objective <= _GAIN * tol * abs(before)

    stop = record("start")
    while not (settled() or stop) and len(history) <= max_iter:
        clock = perf_counter()
        alternation.sweep()
        seconds += perf_counter() - clock
        stop = record("sweep")
    if settled():
        return Outcome(Status.RESIDUAL_SMALL, history)
    return Outcome(Status.STOPPED if stop else Status.MAX_ITER, history)
