"""Matrix completion as a function, with its result and its checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from lrml.completion._exact import complete_exactly
from lrml.completion._noisy import NoisyCompletion
from lrml.completion._observed import Floats, Observed, entries_of
from lrml.core.arrays import to_host
from lrml.core.checks import check_choice, check_flag, check_max_iter, check_nonnegative, is_integer
from lrml.core.penalties import TailSum
from lrml.solvers import Factors, History, Recorder, Status

Method = Literal["auto", "dense", "factored"]
# A full decomposition is cheap for a short side of this length, if the matrix has no more entries than this.
_SHORT_SIDE, _ENTRIES = 500, 5_000_000


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
        followed by a cut to ``max_rank`` where that was set. Exact: the violation of the two optimality
        conditions, P_Ω(Z) = P_Ω(M) and a subgradient that vanishes outside Ω.
    converged : bool
    status : str
        How it ended, in a sentence.
    history : History
        One line per proximal step, those of the warm-up with larger alphas included.
    """

    factors: Factors
    objective: float
    residual: float
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
        """Number of nonzero singular values."""
        return len(self.factors.s)

    @property
    def n_iter(self) -> int:
        """Number of proximal steps."""
        return len(self.history)

    def values(self, rows: Any, cols: Any) -> Floats:
        """Return the entries at pairs of indices; ``rows`` and ``cols`` have equal length."""
        rows, cols = np.asarray(to_host(rows)), np.asarray(to_host(cols))
        if rows.shape != cols.shape or rows.ndim != 1:
            raise ValueError(f"rows have the shape {rows.shape}, cols {cols.shape}. Pass a pair per entry.")
        return entries_of(self.factors, rows, cols)

    def dense(self) -> Floats:
        """Return the m × n matrix."""
        filled: Floats = (self.factors.U * self.factors.s) @ self.factors.V.T
        return filled


def complete(
    M: Any,
    penalty: TailSum,
    *,
    exact: bool = False,
    method: Method = "auto",
    max_rank: int | None = None,
    start: Completion | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> Completion:
    """Fill in the missing entries of a matrix under the tail sum or the trace norm.

    ::

        noisy:   minimise ½‖P_Ω(Z − M)‖²_F + Ω(σ(Z))
        exact:   minimise Ω(σ(Z))  subject to  P_Ω(Z) = P_Ω(M)

    P_Ω keeps the observed entries. Under the trace norm both problems are convex. Under the tail sum with
    0 < theta < min(m, n) they are not: the result is stationary, and ``residual`` says how nearly, but
    another stationary point may be better. The exact one is never worse than the minimiser of the trace norm.
    Rows and columns without any observed entry come out as zero, the answer of least norm.

    Parameters
    ----------
    M : array, frame or sparse matrix of shape (m, n)
        Dense: NaN is missing. Sparse: stored entries are observed, including stored zeros.
    penalty : TailSum or TraceNorm
        With its strength alpha. In exact mode alpha only multiplies the objective.
    exact : bool, default=False
        Whether observed entries are kept exactly. Needs full decompositions.
    method : {"auto", "dense", "factored"}
        "dense" decomposes the m × n matrix; "factored" needs memory for the observed entries and a few times
        (m + n) · rank numbers, and makes that matrix only if a step needs all of its singular values (alpha
        is small, or theta large). "auto" is dense if the shorter side is at most 500.
    max_rank : int, optional
        Most singular values that are kept, theta of them free; no bound by default. A bound is a constraint,
        which is not convex even under the trace norm.
    start : Completion, optional
        A warm start, such as the result for a neighbouring alpha. Noisy mode only. By default the solution is
        followed down from strong penalties.
    tol : float, default=1e-6
        Stationarity residual to reach.
    max_iter : int, default=1000
        Most proximal steps, that is, decompositions.

    Examples
    --------
    >>> import numpy as np
    >>> from lrml.core.penalties import TailSum, TraceNorm
    >>> M = [[2, 1, 2, 1], [1, 1, np.nan, 2], [1, 1, 2, np.nan]]
    >>> complete(M, TraceNorm(1.0), exact=True).values([1, 2], [2, 3]).round(3).tolist()
    [1.839, 1.427]
    >>> complete(M, TailSum(theta=2, alpha=1.0), exact=True).values([1, 2], [2, 3]).round(3).tolist()
    [2.0, 2.0]
    """
    exact, max_iter = check_flag("exact", exact), check_max_iter(max_iter)
    tol = check_nonnegative("tol", tol, "Leave it out for the default.")
    if not isinstance(penalty, TailSum) or penalty.rule != "exact":  # only this rule is a proximal map
        raise TypeError(f"penalty is {penalty!r}. Pass TailSum(theta, alpha) or TraceNorm(alpha).")
    if exact and (max_rank is not None or start is not None):
        raise ValueError("max_rank and start belong to the noisy problem. Leave them out, or exact=True.")
    least = max(1, penalty.theta)
    if max_rank is not None and (not is_integer(max_rank) or max_rank < least):
        raise ValueError(f"max_rank is {max_rank!r}, theta {penalty.theta}. Pass an int of at least {least}.")
    observed = Observed.of(M)
    shape = observed.shape
    if start is not None and (not isinstance(start, Completion) or start.shape != shape):
        raise ValueError(
            f"start is {start!r:.80}. Pass what complete returned for a matrix of shape {shape}."
        )
    dense = is_dense(method, penalty.theta, shape)
    free = penalty.alpha == 0 or penalty.theta == min(shape)
    if not dense and (exact or free):
        raise ValueError(
            f"exact={exact}, alpha={penalty.alpha} and theta={penalty.theta} need full decompositions of a "
            f"matrix of shape {shape}. Change them, or pass method='dense' if it fits into memory."
        )
    if observed.norm == 0 or free:  # missing entries are 0, the answer of least norm
        entries = observed.sparse(observed.values)
        filled = Factors.of(entries.toarray()) if observed.norm else Factors.zero(shape)
        return Completion(filled, 0.0, 0.0, True, Status.EXACT.value, History())
    if exact:
        run: Recorder[Floats] = Recorder()
        residual, history = complete_exactly(observed, penalty, tol, max_iter, run), run.history
        factors = Factors.of(run.best)
        objective = penalty.value(factors.s)
    else:
        problem = NoisyCompletion(observed, dense=dense, max_rank=max_rank)
        residual = problem.solve(penalty, None if start is None else start.factors, tol, max_iter)
        factors, objective, history = problem.run.best, problem.run.least, problem.run.history
    converged = residual <= tol
    status = Status.RESIDUAL_SMALL if converged else Status.RESIDUAL_LARGE
    return Completion(factors, objective, residual, converged, status.value, history)


def is_dense(method: Method, theta: int, shape: tuple[int, int]) -> bool:
    """Whether a matrix of this shape is decomposed as a whole; it has to have theta singular values."""
    if theta > min(shape):
        raise ValueError(f"theta is {theta}, and the shorter side of M {min(shape)}. Lower theta.")
    small = min(shape) <= _SHORT_SIDE and shape[0] * shape[1] <= _ENTRIES
    return check_choice("method", method, get_args(Method)) == "dense" or (method == "auto" and small)
