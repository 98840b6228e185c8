"""Matrix completion as a function, its result, and the choice of alpha on held-out entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from lrml.completion._methods import Floats, NoisyCompletion, Observed, complete_exactly, entries_of
from lrml.core.arrays import to_host
from lrml.core.checks import check_flag, check_integer, check_number
from lrml.core.penalties import TailSum
from lrml.solvers import Factors, History, Recorder, Status

# A full decomposition is cheap for a short side of this length, if the matrix has no more entries than this.
_SHORT_SIDE, _ENTRIES = 500, 5_000_000


@dataclass(frozen=True)
class Completion:
    """A completed matrix Z = U diag(s) Vᵀ, kept as factors.

    Z is stationary if ``residual`` is 0. Noisy: ‖Z − prox(P_Ω(M) + P_Ω⊥(Z))‖_F / ‖P_Ω(M)‖_F. Exact: the
    violation of P_Ω(Z) = P_Ω(M), and of a subgradient that vanishes outside Ω, likewise.
    """

    factors: Factors  # U (m × k), s (k, descending) and V (n × k)
    objective: float
    residual: float
    converged: bool  # whether ``residual`` is at most ``tol``
    status: str  # how it ended, in a sentence
    history: History  # one line per proximal step

    def __repr__(self) -> str:
        m, n = self.shape
        return f"Completion({m} × {n}, rank {self.rank}, objective {self.objective:.6g}, {self.status!r})"

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
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
        return entries_of(self.factors, np.asarray(to_host(rows)), np.asarray(to_host(cols)))

    def dense(self) -> Floats:
        """Return the m × n matrix."""
        return np.asarray((self.factors.U * self.factors.s) @ self.factors.V.T)


def complete(
    M: Any,
    penalty: TailSum,
    *,
    exact: bool = False,
    start: Completion | None = None,
    tol: float = 1e-6,
    max_iter: int = 1000,
) -> Completion:
    """Fill in the missing entries of a matrix under the tail sum or the trace norm.

    ::

        noisy:   minimise ½‖P_Ω(Z − M)‖²_F + Ω(σ(Z))
        exact:   minimise Ω(σ(Z))  subject to  P_Ω(Z) = P_Ω(M)

    P_Ω keeps the observed entries. Only the trace norm without a limit on the rank is convex; otherwise Z is
    stationary. An exact Z is never worse than the minimiser of the trace norm. Rows and columns without any
    observed entry come out as zero, the answer of least norm.

    Parameters
    ----------
    M : array, frame or sparse matrix of shape (m, n)
        Dense: NaN is missing. Sparse: stored entries are observed, including stored zeros.
    penalty : TailSum or TraceNorm
        A limit ``max_rank`` is for noisy problems. In exact mode alpha only multiplies the objective.
    exact : bool, default=False
        Whether observed entries are kept exactly, by full decompositions. Noisy problems take them if the
        shorter side is at most 500; otherwise memory for the observed entries and a few times (m + n) · rank
        numbers will do, unless a step needs all singular values (alpha is small, or theta large).
    start : Completion, optional
        Where to start a noisy problem; by default the solution is followed down from strong penalties.
    tol, max_iter : float, int
        Residual to reach, and most proximal steps, that is, decompositions.

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
    exact, max_iter = check_flag("exact", exact), check_integer("max_iter", max_iter)
    tol = check_number("tol", tol)
    if not isinstance(penalty, TailSum) or penalty.rule != "exact":  # only this rule is a proximal map
        raise TypeError(f"penalty is {penalty!r}. Pass TailSum(theta, alpha) or TraceNorm(alpha).")
    if exact and (penalty.max_rank is not None or start is not None):
        raise ValueError("max_rank and start belong to the noisy problem. Leave them out, or exact=True.")
    observed = Observed.of(M)
    shape = observed.shape
    if start is not None and (not isinstance(start, Completion) or start.shape != shape):
        raise ValueError(f"start is {start!r:.80}. Pass what complete returned for the shape {shape}.")
    dense = _is_dense(penalty.theta, shape)
    free = not np.any(penalty.slopes(np.zeros(min(shape))))  # nothing is penalised
    run: Recorder = Recorder()
    if observed.norm == 0 or free:  # missing entries are 0, the answer of least norm
        filled = observed.sparse(observed.values)
        run.best, run.least = Factors.of(filled.toarray()) if observed.norm else Factors.zero(shape), 0.0
        run.status, residual = Status.EXACT, 0.0
    elif exact:
        residual = complete_exactly(observed, run, penalty, tol, max_iter)
    else:
        problem = NoisyCompletion(observed, run, dense=dense)
        residual = problem.solve(penalty, None if start is None else start.factors, tol, max_iter)
    small = residual <= tol
    status = run.status or (Status.RESIDUAL_SMALL if small else Status.RESIDUAL_LARGE)
    return Completion(run.best, run.least, residual, small, status.value, run.history)


def _is_dense(theta: int, shape: tuple[int, int]) -> bool:
    """Whether a matrix of this shape is decomposed as a whole; it has to have theta singular values."""
    if theta > min(shape):
        raise ValueError(f"theta is {theta}, and the shorter side of M {min(shape)}. Lower theta.")
    return min(shape) <= _SHORT_SIDE and shape[0] * shape[1] <= _ENTRIES


class AlphaSelection(NamedTuple):
    """Held-out errors (roots of mean squares) of descending strengths, and the strength with the least."""

    alpha: float
    alphas: Floats
    errors: Floats


def select_alpha(
    M: Any,
    theta: int = 0,
    *,
    share: float = 0.1,
    n_alphas: int = 12,
    max_rank: int | None = None,
    tol: float = 1e-4,
    max_iter: int = 300,
    random_state: Any = None,
) -> AlphaSelection:
    """Choose alpha for `complete` by its error on a random share of the observed entries.

    The strengths are a geometric grid from σ_{theta+1} of the zero-filled matrix down to a thousandth of it;
    each fit starts from the one before.

    Parameters
    ----------
    M, tol, max_iter
        As in `complete`.
    theta, max_rank : int
        Of the penalty; theta = 0 chooses for the trace norm.
    share, n_alphas : float, int
        Share of the observed entries to hold out, in (0, 1), and length of the grid.
    random_state : int, Generator or None, default=None
        Seed of the split.
    """
    TailSum(theta, 1.0, max_rank=max_rank)  # checks both
    share = check_number("share", share, below=1.0, above=True)
    n_alphas = check_integer("n_alphas", n_alphas)
    observed = Observed.of(M)
    problem = NoisyCompletion(observed, Recorder(), dense=_is_dense(theta, observed.shape))
    # Above the next value, a first step keeps only the free ones.
    largest = problem.at_zero(theta + 1) if theta < min(observed.shape) else 0.0
    order = np.random.default_rng(random_state).permutation(len(observed.values))
    held, seen = map(observed.only, np.split(order, [max(1, round(share * len(order)))]))
    if largest == 0.0 or seen.norm == 0.0:
        # Nothing is penalised, or there is nothing to learn from: all strengths are equivalent.
        return AlphaSelection(largest, np.array([largest]), np.array([np.nan]))
    alphas, errors = largest * np.geomspace(1.0, 1e-3, n_alphas), []
    last: Completion | None = None
    for alpha in alphas:
        penalty = TailSum(theta, alpha, max_rank=max_rank)
        last = complete(seen, penalty, start=last, tol=tol, max_iter=max_iter)
        errors.append(float(np.sqrt(np.mean(held.misfit(last.factors) ** 2))))
    return AlphaSelection(float(alphas[int(np.argmin(errors))]), alphas, np.array(errors))
