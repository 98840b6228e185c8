"""Matrix completion as a function, with its result and its checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lrml._arrays import to_host
from lrml._checks import check_flag, check_max_iter, check_nonnegative, is_integer
from lrml._shown import shown
from lrml.completion._exact import complete_exactly
from lrml.completion._noisy import NoisyCompletion
from lrml.completion._observed import Floats, Observed, entries_of, read_observed
from lrml.penalties import TailSum
from lrml.solvers import Factors, History, Recorder, Status

Method = Literal["auto", "dense", "factored"]
# A full decomposition is cheap for a short side of this length, if the matrix has no more entries than this.
_SHORT_SIDE = 500
_ENTRIES = 5_000_000
_CLOSED_FORM = "Solved in closed form: {}, so missing entries are 0, the answer of least norm."


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
    n_iter : int
        Proximal steps, including those of the warm-up with larger alphas.
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
        """Number of nonzero singular values."""
        return len(self.factors.s)

    def values(self, rows: Any, cols: Any) -> Floats:
        """Return the entries at pairs of indices; ``rows`` and ``cols`` have equal length."""
        rows, cols = np.asarray(to_host(rows)), np.asarray(to_host(cols))
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

    Rows and columns without any observed entry are allowed and come out as zero, the answer of least norm.

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
        Most singular values that are kept, theta of them free; no bound by default. A bound is a constraint:
        ``residual`` and ``converged`` then refer to the problem with this constraint, which is not convex
        even under the trace norm.
    start : Completion, optional
        A warm start, such as the result for a neighbouring alpha. Noisy mode only. By default the solution is
        followed down from strong penalties.
    tol : float, default=1e-6
        Stationarity residual to reach.
    max_iter : int, default=1000
        Most proximal steps, that is, decompositions.

    Returns
    -------
    Completion

    Examples
    --------
    >>> import numpy as np
    >>> from lrml.penalties import TailSum, TraceNorm
    >>> M = [[2, 1, 2, 1], [1, 1, np.nan, 2], [1, 1, 2, np.nan]]
    >>> complete(M, TraceNorm(1.0), exact=True).values([1, 2], [2, 3]).round(3).tolist()
    [1.839, 1.427]
    >>> complete(M, TailSum(theta=2, alpha=1.0), exact=True).values([1, 2], [2, 3]).round(3).tolist()
    [2.0, 2.0]
    """
    exact = check_flag("exact", exact)
    tol = check_nonnegative("tol", tol, "Leave it out for the default.")
    max_iter = check_max_iter(max_iter)
    if not isinstance(penalty, TailSum) or penalty.rule != "exact":  # only this rule is a proximal map
        raise TypeError(
            f"penalty must be a TailSum or TraceNorm with rule='exact', got {penalty!r}. "
            "Pass TailSum(theta, alpha) or TraceNorm(alpha)."
        )
    check_options(penalty.theta, max_rank, method)
    if start is not None and not isinstance(start, Completion):
        raise TypeError(
            f"start must be a Completion or None, got {shown(start)}. Pass what complete returned."
        )
    if exact and (max_rank is not None or start is not None):
        raise ValueError("max_rank and start belong to the noisy problem, got exact=True. Leave them out.")
    observed = read_observed(M)
    dense = is_dense(method, penalty.theta, observed.shape)
    _check_shape(observed.shape, penalty, dense, exact, start)
    if observed.norm == 0:
        status = _CLOSED_FORM.format("M is 0")
        return Completion(Factors.zero(observed.shape), 0.0, 0.0, 0, True, status, History())
    if penalty.alpha == 0 or penalty.theta >= min(observed.shape):
        filled = observed.sparse(observed.values).toarray()
        status = _CLOSED_FORM.format("nothing is penalised")
        return Completion(Factors.of(filled), 0.0, 0.0, 0, True, status, History())
    if not exact:
        return fit_noisy(observed, penalty, dense, max_rank, start, tol, max_iter)
    run: Recorder[Floats] = Recorder()
    residual = complete_exactly(observed, penalty, tol, max_iter, run)
    factors = Factors.of(run.best)
    return _result(factors, penalty.value(factors.s), residual, tol, run.history)


def fit_noisy(
    observed: Observed,
    penalty: TailSum,
    dense: bool,
    max_rank: int | None,
    start: Completion | None,
    tol: float,
    max_iter: int,
) -> Completion:
    """Solve the noisy problem for checked arguments; see `complete`."""
    problem = NoisyCompletion(observed, dense=dense, max_rank=max_rank)
    residual = problem.solve(penalty, None if start is None else start.factors, tol, max_iter)
    return _result(problem.run.best, problem.run.least, residual, tol, problem.run.history)


def _result(factors: Factors, objective: float, residual: float, tol: float, history: History) -> Completion:
    converged = residual <= tol
    status = Status.RESIDUAL_SMALL if converged else Status.RESIDUAL_LARGE
    return Completion(factors, objective, residual, len(history), converged, status.value, history)


def check_options(theta: int, max_rank: Any, method: Any) -> None:
    """Refuse a bound on the rank that leaves no room for the free values, and an unknown method."""
    if max_rank is not None and (not is_integer(max_rank) or max_rank < max(1, theta)):
        raise ValueError(
            f"max_rank must be None or an int of at least 1 and at least theta ({theta}), got {max_rank!r}. "
            "Raise it, or leave it out."
        )
    if method not in ("auto", "dense", "factored"):
        raise ValueError(f"method must be 'auto', 'dense' or 'factored', got {method!r}. Use 'auto'.")


def is_dense(method: str, theta: int, shape: tuple[int, int]) -> bool:
    """Whether to use full decompositions; refuse a theta beyond the shorter side."""
    if theta > min(shape):
        raise ValueError(
            f"theta must be in [0, {min(shape)}] (the shorter side of M), got {theta}. Lower theta."
        )
    small = min(shape) <= _SHORT_SIDE and np.prod(shape, dtype=float) <= _ENTRIES
    return method == "dense" or (method == "auto" and bool(small))


def _check_shape(
    shape: tuple[int, int], penalty: TailSum, dense: bool, exact: bool, start: Completion | None
) -> None:
    if exact and not dense:
        raise ValueError(
            f"exact=True needs full decompositions, got a matrix of shape {shape} to complete by factors. "
            "Pass a small alpha and exact=False, or method='dense' if it fits into memory."
        )
    if not dense and (penalty.alpha == 0 or penalty.theta >= min(shape)):
        raise ValueError(
            f"alpha must be positive and theta below {min(shape)} where factors are used, got "
            f"alpha={penalty.alpha} and theta={penalty.theta}: nothing of low rank is asked for. "
            "Change them, or pass method='dense'."
        )
    if start is not None and start.shape != shape:
        raise ValueError(
            f"start must have the shape of M, {shape}, got {start.shape}. Pass a completion of this matrix."
        )
