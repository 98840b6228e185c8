"""What a solver returns: one record, whatever the method."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml._arrays import Array, namespace, thin_svd


class Status(Enum):
    """How a solver ended: a sentence for the user, with a remedy if one is needed."""

    CONVERGED = "Converged: the estimated gap of the objective is at most tol times the objective."
    SETTLED = "Converged: the last 10 steps lowered the objective by less than 1 % of tol times itself."
    RESIDUAL_SMALL = "Converged: the residual is at most tol."
    GAP_CLOSED = "Converged: the duality gap is at most tol times the objective."
    EXACT = "Solved in closed form."
    RESIDUAL_LARGE = "Stopped at max_iter with the residual above tol; raise max_iter or loosen tol."
    MAX_ITER = "Stopped at max_iter before tol was reached; raise max_iter or loosen tol, or scale X."
    GAP_OPEN = "Stopped at max_iter with the duality gap above tol; raise max_iter or loosen tol."
    SUBSPACE_POOR = "Stopped with the subspace costing more than it should; raise ridge or alpha, or scale X."
    STOPPED = "Stopped by the callback; the best point so far is returned."
    ALL_STEPS = "Ran all max_iter steps of Algorithm 1, which has no stopping test; see the residual."


SUCCESSES = (
    Status.CONVERGED,
    Status.SETTLED,
    Status.RESIDUAL_SMALL,
    Status.GAP_CLOSED,
    Status.EXACT,
)


class Factors(NamedTuple):
    """Thin singular value decomposition W = U diag(s) Vᵀ: U is d × k, s descending, V is L × k."""

    U: Array
    s: Array
    V: Array

    @classmethod
    def of(cls, matrix: Array) -> Factors:
        """Decompose a matrix."""
        U, s, Vt = thin_svd(matrix)
        return cls(U, s, Vt.T)

    @classmethod
    def of_sides(cls, left: Array, right: Array) -> Factors:
        """Decompose left rightᵀ, right with orthonormal columns."""
        Q, triangle = namespace(left).linalg.qr(left, mode="reduced")
        U, s, Vt = thin_svd(triangle)
        return cls(Q @ U, s, right @ Vt.T)

    @classmethod
    def zero(cls, shape: tuple[int, int]) -> Factors:
        """Return the factors of a zero matrix, in NumPy arrays."""
        return cls(np.zeros((shape[0], 0)), np.zeros(0), np.zeros((shape[1], 0)))


@dataclass(frozen=True)
class IterationInfo:
    """One line of the history, as a callback receives it."""

    iteration: int
    phase: str
    objective: float
    residual: float
    rank: int
    seconds: float
    gap: float = math.inf


Callback: TypeAlias = Callable[[IterationInfo], bool | None]
"""Called after every iteration; a true return value stops the solver."""


@dataclass
class History:
    """Per-iteration record; entry 0 is the starting point.

    ``gap`` and ``residual`` are by-products of the solver, see `Point`: the estimated relative distance of
    the objective from its minimum, which ``tol`` limits, and the norm of an element of the subdifferential
    over the scale of the problem; infinite if a method has none. ``seconds`` counts solver work only: the
    clock is stopped while this record is made.
    """

    entries: list[IterationInfo] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.entries)

    def as_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Columns as arrays: iteration, phase, objective, gap, residual, rank, seconds."""
        names = ("iteration", "phase", "objective", "gap", "residual", "rank", "seconds")
        return {name: np.array([getattr(entry, name) for entry in self.entries]) for name in names}


@dataclass(frozen=True)
class SolverResult:
    """Outcome of a solve.

    Attributes
    ----------
    solution : array
        The returned point, in the coordinates of the problem.
    factors : Factors
        Coefficients W = U diag(s) Vᵀ in feature and label space.
    status : Status
    n_iter : int
    objective : float
        f(W) + Ω(σ(W)) at the returned point.
    gap : float
        Estimated distance of the objective from its minimum, over the objective.
    residual : float
        Stationarity residual L‖W − prox_{1/L}(W − ∇f(W)/L)‖_F / ‖∇f(0)‖_F at the returned point.
    history : History
    """

    solution: Array
    factors: Factors
    status: Status
    n_iter: int
    objective: float
    gap: float
    residual: float
    history: History
