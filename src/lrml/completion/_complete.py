"""Matrix completion as a function."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from lrml._arrays import thin_svd
from lrml._checks import check_flag, check_max_iter, check_nonnegative
from lrml.completion._decompose import Decomposition, DenseDecomposition, TruncatedDecomposition
from lrml.completion._exact import complete_exactly
from lrml.completion._noisy import NoisyCompletion, zero_factors
from lrml.completion._observed import Floats, Observed, read_observed
from lrml.completion._result import Completion
from lrml.penalties import TailSum
from lrml.solvers import Factors, History

Method = Literal["auto", "dense", "factored"]
# A full decomposition is cheap for a short side of this length, if the matrix has no more entries than this.
_SHORT_SIDE = 500
_ENTRIES = 5_000_000

_FREE = "Solved in closed form: nothing is penalised, so missing entries are 0, the answer of least norm."
_CONVERGED = "Converged: the stationarity residual is at most tol."
_STOPPED = "Stopped at max_iter with the residual above tol; raise max_iter or loosen tol."


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
        Dense: NaN is missing. Sparse: entries that are stored are observed, stored zeros too.
    penalty : TailSum or TraceNorm
        With its strength alpha. In exact mode alpha only multiplies the objective.
    exact : bool, default=False
        Whether observed entries are kept as they are. By full decompositions only.
    method : {"auto", "dense", "factored"}
        "dense" decomposes the m × n matrix; "factored" needs memory for the observed entries and a few times
        (m + n) · rank numbers, and makes that matrix only where a step asks for all of its singular values
        (alpha is small, or theta large). "auto" is dense where the shorter side is at most 500.
    max_rank : int, optional
        Most singular values that are kept, theta of them free; no bound by default. A bound is a constraint:
        ``residual`` and ``converged`` then speak of the best matrix of at most this rank, which even under
        the trace norm is no convex problem.
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
    observed = read_observed(M)
    exact = check_flag("exact", exact)
    tol = check_nonnegative("tol", tol, "Leave it out for the default.")
    max_iter = check_max_iter(max_iter)
    check_penalty(penalty, observed.shape)
    dense = is_dense(method, observed.shape)
    _check_limits(observed.shape, penalty, dense, exact, max_rank, start)
    if observed.norm == 0:
        zero = zero_factors(observed.shape)
        return Completion(zero, 0.0, 0.0, 0, True, _FREE.replace("nothing is penalised", "M is 0"), History())
    if penalty.alpha == 0 or penalty.theta >= min(observed.shape):
        filled = observed.sparse(observed.values).toarray()
        return Completion(_factors(filled), 0.0, 0.0, 0, True, _FREE, History())
    if exact:
        return _exact(observed, penalty, tol, max_iter)
    return fit_noisy(observed, penalty, dense, max_rank, start, tol, max_iter)


def fit_noisy(
    observed: Observed,
    penalty: TailSum,
    dense: bool,
    max_rank: int | None,
    start: Completion | None,
    tol: float,
    max_iter: int,
) -> Completion:
    """Solve the noisy problem for validated arguments; see `complete`."""
    decomposition: Decomposition = DenseDecomposition(observed) if dense else TruncatedDecomposition(observed)
    problem = NoisyCompletion(observed, decomposition, max_rank)
    point = problem.warm_up(penalty, max_iter // 2) if start is None else start.factors
    # The zero matrix is the start of those who bring none: nothing may be worse.
    zero = zero_factors(observed.shape)
    if start is None and problem.objective(point, penalty) > problem.objective(zero, penalty):
        point = zero
    best, objective, residual = problem.descend(point, penalty, tol, max_iter)
    return _record(best, objective, residual, tol, problem.history)


def _exact(observed: Observed, penalty: TailSum, tol: float, max_iter: int) -> Completion:
    history = History()
    matrix, residual = complete_exactly(observed, penalty, tol, max_iter, history)
    factors = _factors(matrix)
    return _record(factors, penalty.value(factors.s), residual, tol, history)


def _record(factors: Factors, objective: float, residual: float, tol: float, history: History) -> Completion:
    converged = residual <= tol
    status = _CONVERGED if converged else _STOPPED
    return Completion(factors, objective, residual, len(history), converged, status, history)


def _factors(matrix: Floats) -> Factors:
    U, s, Vt = thin_svd(matrix)
    return Factors(U, s, Vt.T)


def check_penalty(penalty: Any, shape: tuple[int, int]) -> None:
    """Refuse a penalty without an exact proximal map, and a theta beyond the shorter side."""
    if not isinstance(penalty, TailSum) or penalty.rule != "exact":
        raise TypeError(
            f"penalty must be a TailSum or TraceNorm with rule='exact', got {penalty!r}. "
            "Pass TailSum(theta, alpha) or TraceNorm(alpha)."
        )
    if penalty.theta > min(shape):
        raise ValueError(
            f"theta must be in [0, {min(shape)}] (the shorter side of M), got {penalty.theta}. Lower theta."
        )


def check_max_rank(max_rank: Any, theta: int) -> None:
    """Refuse a bound on the rank that leaves no room for the free values."""
    whole = isinstance(max_rank, int | np.integer) and not isinstance(max_rank, bool)
    if max_rank is not None and (not whole or max_rank < max(1, theta)):
        raise ValueError(
            f"max_rank must be None or an int of at least 1 and at least theta ({theta}), got {max_rank!r}. "
            "Raise it, or leave it out."
        )


def is_dense(method: str, shape: tuple[int, int]) -> bool:
    """Whether full decompositions are to be used for a matrix of this shape."""
    if method not in ("auto", "dense", "factored"):
        raise ValueError(f"method must be 'auto', 'dense' or 'factored', got {method!r}. Use 'auto'.")
    small = min(shape) <= _SHORT_SIDE and np.prod(shape, dtype=float) <= _ENTRIES
    return method == "dense" or (method == "auto" and bool(small))


def _check_limits(
    shape: tuple[int, int],
    penalty: TailSum,
    dense: bool,
    exact: bool,
    max_rank: int | None,
    start: Completion | None,
) -> None:
    if exact and not dense:
        raise ValueError(
            f"exact=True needs full decompositions, got a matrix of shape {shape} to complete by factors. "
            "Pass a small alpha and exact=False, or method='dense' if it fits into memory."
        )
    if exact and (max_rank is not None or start is not None):
        raise ValueError("max_rank and start belong to the noisy problem, got exact=True. Leave them out.")
    if not dense and (penalty.alpha == 0 or penalty.theta >= min(shape)):
        raise ValueError(
            f"alpha must be positive and theta below {min(shape)} where factors are used, got "
            f"alpha={penalty.alpha} and theta={penalty.theta}: nothing of low rank is asked for. "
            "Change them, or pass method='dense'."
        )
    check_max_rank(max_rank, penalty.theta)
    if start is not None and start.shape != shape:
        raise ValueError(
            f"start must have the shape of M, {shape}, got {start.shape}. Pass a completion of this matrix."
        )
