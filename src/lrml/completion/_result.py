"""What a completion returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lrml.completion._observed import Floats, entries_of
from lrml.solvers import Factors, History


@dataclass(frozen=True)
class Completion:
    """A completed matrix Z = U diag(s) Vᵀ, kept as factors.

    Attributes
    ----------
    factors : Factors
        ``U`` (m × k), ``s`` (k, descending) and ``V`` (n × k).
    objective : float
        ½‖P_Ω(Z − M)‖² + Ω(σ(Z)); the penalty Ω(σ(Z)) alone if the completion is exact.
    residual : float
        Stationarity residual at Z over ‖P_Ω(M)‖_F. Noisy: ‖Z − prox(P_Ω(M) + P_Ω⊥(Z))‖_F, the proximal map
        followed by a cut to ``max_rank`` where that was set. Exact: what is left of the two optimality
        conditions, P_Ω(Z) = P_Ω(M) and a subgradient that vanishes outside Ω.
    n_iter : int
        Proximal steps, those of the warm-up with larger alphas included.
    converged : bool
    status : str
        How it ended, in a sentence.
    history : History
        One line per step.
    """

    factors: Factors
    objective: float
    residual: float
    n_iter: int
    converged: bool
    status: str
    history: History

    def __repr__(self) -> str:
        m, n = self.shape
        return f"Completion({m} × {n}, rank {self.rank}, objective {self.objective:.6g}, {self.status!r})"

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self.factors.U), len(self.factors.V)

    @property
    def rank(self) -> int:
        """Number of singular values that are not zero."""
        return len(self.factors.s)

    def values(self, rows: Any, cols: Any) -> Floats:
        """Return the entries at pairs of indices; ``rows`` and ``cols`` have equal length."""
        rows, cols = np.asarray(rows), np.asarray(cols)
        if rows.shape != cols.shape or rows.ndim != 1:
            raise ValueError(
                f"rows and cols must be flat and of one length, got shapes {rows.shape} and {cols.shape}. "
                "Pass one row and one column for every entry."
            )
        return entries_of(self.factors, rows, cols)

    def dense(self) -> Floats:
        """Return the m × n matrix."""
        filled: Floats = (self.factors.U * self.factors.s) @ self.factors.V.T
        return filled
