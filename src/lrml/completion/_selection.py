"""The strength of the penalty, chosen on observed entries that are held out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lrml.completion._complete import Method, check_max_rank, check_penalty, fit_noisy, is_dense
from lrml.completion._decompose import DenseDecomposition, TruncatedDecomposition
from lrml.completion._noisy import zero_factors
from lrml.completion._observed import Floats, Observed, read_observed
from lrml.completion._result import Completion
from lrml.penalties import TailSum

# Strengths reach from the largest that matters down to this share of it.
_LEAST_SHARE = 1e-3


@dataclass(frozen=True)
class AlphaSelection:
    """Held-out errors along a path of strengths.

    Attributes
    ----------
    alpha : float
        The strength with the least error; the stronger one of equals.
    alphas : array
        Descending.
    errors : array
        Root of the mean square on the held-out entries, for each alpha.
    """

    alpha: float
    alphas: Floats
    errors: Floats


def select_alpha(
    M: Any,
    theta: int = 0,
    *,
    share: float = 0.1,
    n_alphas: int = 12,
    method: Method = "auto",
    max_rank: int | None = None,
    tol: float = 1e-4,
    max_iter: int = 300,
    random_state: int = 0,
) -> AlphaSelection:
    """Choose alpha for `complete` by its error on a random share of the observed entries.

    The strengths are a geometric grid from σ_{theta+1} of the zero-filled matrix down to a thousandth of it;
    each fit starts from the one before.

    Parameters
    ----------
    M : array, frame or sparse matrix
        As in `complete`.
    theta : int, default=0
        Free singular values; 0 chooses for the trace norm.
    share : float, default=0.1
        Share of the observed entries to hold out, in (0, 1).
    n_alphas : int, default=12
    method, max_rank, tol, max_iter
        As in `complete`.
    random_state : int, default=0
        Seed of the split.

    Returns
    -------
    AlphaSelection
    """
    observed = read_observed(M)
    check_penalty(TailSum(theta, 1.0), observed.shape)
    if not 0.0 < share < 1.0:
        raise ValueError(f"share must be between 0 and 1, got {share}. Hold out a tenth, share=0.1.")
    if not isinstance(n_alphas, int | np.integer) or n_alphas < 1:
        raise ValueError(f"n_alphas must be an int of at least 1, got {n_alphas!r}. Use the default, 12.")
    check_max_rank(max_rank, theta)
    dense = is_dense(method, observed.shape)
    return choose(observed, theta, share, n_alphas, dense, max_rank, tol, max_iter, random_state)


def choose(
    observed: Observed,
    theta: int,
    share: float,
    n_alphas: int,
    dense: bool,
    max_rank: int | None,
    tol: float,
    max_iter: int,
    seed: int,
) -> AlphaSelection:
    """Do the work of `select_alpha` for validated arguments."""
    largest = _largest_alpha(observed, theta, dense)
    order = np.random.default_rng(seed).permutation(len(observed))
    hidden = np.zeros(len(observed), dtype=bool)
    hidden[order[: max(1, round(share * len(observed)))]] = True
    kept, held = observed.part(~hidden), observed.part(hidden)
    if largest == 0.0 or len(kept) == 0 or kept.norm == 0.0:
        # Nothing is penalised, or nothing is left to learn from: all strengths are alike.
        return AlphaSelection(largest, np.array([largest]), np.array([np.nan]))
    alphas = largest * np.geomspace(1.0, _LEAST_SHARE, n_alphas)
    errors: list[float] = []
    last: Completion | None = None
    for alpha in alphas:
        last = fit_noisy(kept, TailSum(theta, float(alpha)), dense, max_rank, last, tol, max_iter)
        misfit = held.values - held.at(last.factors)
        errors.append(float(np.sqrt(np.mean(misfit**2))))
    return AlphaSelection(float(alphas[int(np.argmin(errors))]), alphas, np.array(errors))


def _largest_alpha(observed: Observed, theta: int, dense: bool) -> float:
    """σ_{theta+1} of the zero-filled matrix: beyond it a first step keeps nothing but the free values."""
    if theta >= min(observed.shape):
        return 0.0
    decomposition = DenseDecomposition(observed) if dense else TruncatedDecomposition(observed)
    zero = zero_factors(observed.shape)
    return float(decomposition.leading(zero, observed.values, np.inf, theta + 1, None).s[theta])
