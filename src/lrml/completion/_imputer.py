"""A transformer that fills in missing values, and the choice of alpha on held-out entries."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from lrml.completion._complete import Completion, Method, complete, is_dense
from lrml.completion._noisy import Decomposition
from lrml.completion._observed import Floats, Observed, fit_rows
from lrml.core.arrays import to_host
from lrml.core.checks import check_count, check_flag, is_integer, is_real
from lrml.core.penalties import TailSum
from lrml.solvers import Factors

# The least alpha, as a share of the largest that matters.
_LEAST_SHARE = 1e-3
# Number of alphas that the imputer tries.
_N_ALPHAS = 10
_CHECKS: Any = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}


class LowRankImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fill in NaN by completing the (centred) table under the tail sum of its singular values.

    ``fit`` solves ::

        minimise ½‖P_Ω(Z − (X − 1 meanᵀ))‖²_F + alpha · Σ_{j > theta} σ_j(Z)

    and keeps the right factors V, the singular values and the column means. ``transform`` finds the
    coefficients of each row x in V by ridge regression on its known values ::

        r = argmin Σ_{j known} (x_j − mean_j − r·v_j)² + Σ_k w_k r_k²

    with w_k = 0 for k ≤ theta and alpha/σ_k beyond, and replaces NaN by mean + V r. These are the weights of
    the quadratic that majorises the penalty at the solution, so the rows of ``fit`` get the values of the
    completed table. Known values never change. A row with fewer known values than free directions gets the
    smallest coefficients that fit; one with none gets the means.

    Parameters
    ----------
    theta : int or float, default=0.1
        Free singular values: a count, or a share of the columns. 0 is the trace norm.
    alpha : float, optional
        Strength; by default chosen on a tenth of the known values, held out at random.
    center : bool, default=True
        Whether to subtract the column means of the known values first. A column without any gets mean 0.
    tol : float, default=1e-5
        Stationarity residual to reach.
    max_iter : int, default=500
    random_state : int, Generator or None, default=None
        Seed of the held-out values; without effect if alpha is given.

    Attributes
    ----------
    mean_, components_, singular_values_ : arrays
        Column means, V (n_features × rank) and the singular values, descending.
    theta_, alpha_ : int, float
        What was used.
    completion_ : Completion
        Of the centred training table.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, -1.0, 2.0])
    >>> X[1, 2] = np.nan
    >>> LowRankImputer(theta=1, alpha=1e-4, center=False).fit_transform(X)[1].round(2).tolist()
    [2.0, -2.0, 4.0]
    """

    def __init__(
        self,
        theta: int | float = 0.1,
        alpha: float | None = None,
        *,
        center: bool = True,
        tol: float = 1e-5,
        max_iter: int = 500,
        random_state: Any = None,
    ) -> None:
        self.theta = theta
        self.alpha = alpha
        self.center = center
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def fit(self, X: Any, y: Any = None) -> LowRankImputer:
        """Complete a table of shape (n_samples, n_features), in which NaN is missing; ``y`` is ignored."""
        center = check_flag("center", self.center)
        table = check_array(to_host(X), input_name="X", estimator=self, **_CHECKS)
        theta = check_count("theta", self.theta, 0, table.shape, ("rows", "columns"))
        known = ~np.isnan(table)
        mean = np.zeros(table.shape[1])
        if center:
            mean = np.where(known, table, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        options: dict[str, Any] = {"max_iter": self.max_iter, "method": "dense"}
        alpha = self.alpha
        if alpha is None:
            seed, tol = self.random_state, max(self.tol, 1e-4)
            chosen = select_alpha(
                table - mean, theta, n_alphas=_N_ALPHAS, random_state=seed, tol=tol, **options
            )
            alpha = chosen.alpha
        done = complete(table - mean, TailSum(theta, alpha), tol=self.tol, **options)
        if not done.converged:
            warnings.warn(done.status, ConvergenceWarning, stacklevel=2)
        # Nothing above has changed this object, so a fit that fails leaves it as it was.
        validate_data(self, X, skip_check_array=True)
        self.mean_, self.theta_, self.alpha_ = mean, theta, float(alpha)
        self.components_, self.singular_values_ = done.factors.V, done.factors.s
        self.completion_, self.n_iter_ = done, done.n_iter
        return self

    def transform(self, X: Any) -> Any:
        """Return a table of shape (n_samples, n_features) with NaN replaced."""
        check_is_fitted(self)
        X = validate_data(self, to_host(X), reset=False, copy=True, **_CHECKS)
        rows = np.flatnonzero(np.isnan(X).any(axis=1))
        known = ~np.isnan(X[rows])
        values, V, s = (X[rows] - self.mean_)[known], self.components_, self.singular_values_
        weights = np.asarray(TailSum(self.theta_, self.alpha_).slopes(s) / s)
        places = np.nonzero(known)
        observed = Observed(X[rows].shape, places[0], places[1], values)
        filled = fit_rows(observed, V, weights, np.zeros((len(rows), len(s)))) @ V.T + self.mean_
        X[rows] = np.where(known, X[rows], filled)
        return X


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
    method: Method = "auto",
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
    theta : int, default=0
        Free singular values; 0 chooses for the trace norm.
    share : float, default=0.1
        Share of the observed entries to hold out, in (0, 1).
    n_alphas : int, default=12
    M, method, max_rank, tol, max_iter
        As in `complete`.
    random_state : int, Generator or None, default=None
        Seed of the split.
    """
    TailSum(theta, 1.0)  # theta is an int of at least 0
    if not (is_real(share) and 0.0 < share < 1.0):
        raise ValueError(f"share is {share!r}. Hold out a share between 0 and 1, such as 0.1.")
    if not is_integer(n_alphas) or n_alphas < 1:
        raise ValueError(f"n_alphas is {n_alphas!r}. Pass an int of at least 1, such as 12.")
    try:
        generator = np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state is {random_state!r:.80}. Pass an int of at least 0, a generator of NumPy or None."
        ) from None
    observed = Observed.of(M)
    shape, entries, largest = observed.shape, len(observed.values), 0.0
    decomposition = Decomposition(observed, dense=is_dense(method, theta, shape))
    if theta < min(shape):  # above the next value, a first step keeps only the free ones
        largest = float(decomposition.leading(Factors.zero(shape), np.inf, theta + 1, None).s[theta])
    hidden = np.zeros(entries, dtype=bool)
    hidden[generator.permutation(entries)[: max(1, round(share * entries))]] = True
    rows, cols, values = (part[~hidden] for part in (observed.rows, observed.cols, observed.values))
    if largest == 0.0 or not np.any(values):
        # Nothing is penalised, or there is nothing to learn from: all strengths are equivalent.
        return AlphaSelection(largest, np.array([largest]), np.array([np.nan]))
    kept = sp.csr_array((values, (rows, cols)), shape=shape)
    options: Any = {"method": method, "max_rank": max_rank, "tol": tol, "max_iter": max_iter}
    alphas, errors = largest * np.geomspace(1.0, _LEAST_SHARE, n_alphas), []
    last: Completion | None = None
    for alpha in alphas:
        last = complete(kept, TailSum(theta, float(alpha)), start=last, **options)
        misfit = observed.values[hidden] - last.values(observed.rows[hidden], observed.cols[hidden])
        errors.append(float(np.sqrt(np.mean(misfit**2))))
    return AlphaSelection(float(alphas[int(np.argmin(errors))]), alphas, np.array(errors))
