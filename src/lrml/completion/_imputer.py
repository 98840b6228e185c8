"""A transformer that fills in missing values, and the choice of alpha on held-out entries."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from lrml._arrays import to_host
from lrml._checks import check_count, check_flag, check_max_iter, check_nonnegative, is_integer, is_real
from lrml._shown import shown
from lrml.completion._complete import Completion, Method, check_options, complete, fit_noisy, is_dense
from lrml.completion._observed import Decomposition, Floats, fit_rows, read_observed
from lrml.penalties import TailSum
from lrml.solvers import Factors

# The least alpha, as a share of the largest that matters.
_LEAST_SHARE = 1e-3
# Number of alphas that the imputer tries.
_N_ALPHAS = 10


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

    Cost: per step O(nd min(n, d)) for an SVD of the n × d table, and O(k²) per known value and O((n + d) k³)
    for regressions of rank k; choosing alpha takes ten further fits.

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
    mean_ : array of shape (n_features,)
    components_ : array of shape (n_features, rank)
        Right factors V.
    singular_values_ : array of shape (rank,)
        Descending.
    theta_ : int
    alpha_ : float
    completion_ : Completion
        Of the centred training table.
    n_iter_ : int
    n_features_in_ : int
    feature_names_in_ : array, where X had names

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
        """Complete the table and keep its right factors.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)
            NaN is missing.
        y : ignored

        Returns
        -------
        self
        """
        tol = check_nonnegative("tol", self.tol, "Leave it out for the default.")
        max_iter, center = check_max_iter(self.max_iter), check_flag("center", self.center)
        alpha = self.alpha
        if alpha is not None:
            alpha = check_nonnegative("alpha", alpha, "Leave it out to have it chosen.")
        # Validation writes to a stand-in: self changes only after success.
        stand_in = copy(self)
        X = validate_data(stand_in, to_host(X), dtype=np.float64, ensure_all_finite="allow-nan")
        theta = check_count("theta", self.theta, 0, X.shape, ("rows", "columns"))
        mean = _known_means(X) if center else np.zeros(X.shape[1])
        table = X - mean
        if alpha is None:
            options: dict[str, Any] = {"tol": max(tol, 1e-4), "max_iter": max_iter, "method": "dense"}
            seed = self.random_state
            alpha = select_alpha(table, theta, n_alphas=_N_ALPHAS, random_state=seed, **options).alpha
        done = complete(table, TailSum(theta, alpha), method="dense", tol=tol, max_iter=max_iter)
        if not done.converged:
            warnings.warn(done.status, ConvergenceWarning, stacklevel=2)
        self.__dict__.pop("feature_names_in_", None)
        self.__dict__.update(stand_in.__dict__)
        self.mean_, self.theta_, self.alpha_ = mean, theta, alpha
        self.components_, self.singular_values_ = done.factors.V, done.factors.s
        self.completion_, self.n_iter_ = done, done.n_iter
        return self

    def transform(self, X: Any) -> Any:
        """Replace NaN; known values stay unchanged.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = validate_data(
            self, to_host(X), reset=False, copy=True, dtype=np.float64, ensure_all_finite="allow-nan"
        )
        missing = np.isnan(X)
        rows = np.flatnonzero(missing.any(axis=1))
        if len(rows) == 0:
            return X
        table = X[rows] - self.mean_
        starts = np.concatenate([[0], np.cumsum((~missing[rows]).sum(axis=1))])
        known_rows, known_cols = np.nonzero(~missing[rows])
        values, V, s = table[known_rows, known_cols], self.components_, self.singular_values_
        weights = np.asarray(TailSum(self.theta_, self.alpha_).slopes(s) / s)
        coefficients = fit_rows(starts, known_cols, values, V, weights, np.zeros((len(rows), len(s))))
        filled = coefficients @ self.components_.T + self.mean_
        X[rows] = np.where(missing[rows], filled, X[rows])
        return X


@dataclass(frozen=True)
class AlphaSelection:
    """Held-out errors along a path of strengths.

    Attributes
    ----------
    alpha : float
        The strength with the least error; among ties the strongest.
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
    random_state: Any = None,
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
    random_state : int, Generator or None, default=None
        Seed of the split.

    Returns
    -------
    AlphaSelection
    """
    TailSum(theta, 1.0)  # theta is an int of at least 0
    if not (is_real(share) and 0.0 < share < 1.0):
        raise ValueError(f"share must be between 0 and 1, got {shown(share)}. Hold out a tenth, share=0.1.")
    if not is_integer(n_alphas) or n_alphas < 1:
        raise ValueError(f"n_alphas must be an int of at least 1, got {n_alphas!r}. Use the default, 12.")
    tol = check_nonnegative("tol", tol, "Leave it out for the default.")
    max_iter = check_max_iter(max_iter)
    check_options(theta, max_rank, method)
    generator = _generator(random_state)
    observed = read_observed(M)
    dense = is_dense(method, theta, observed.shape)
    largest = 0.0
    if theta < min(observed.shape):
        zero = Factors.zero(observed.shape)
        found = Decomposition(observed, dense=dense).leading(zero, observed.values, np.inf, theta + 1, None)
        largest = float(found.s[theta])  # above it, a first step keeps only the free values
    order = generator.permutation(len(observed))
    hidden = np.zeros(len(observed), dtype=bool)
    hidden[order[: max(1, round(share * len(observed)))]] = True
    kept, held = observed.part(~hidden), observed.part(hidden)
    if largest == 0.0 or len(kept) == 0 or kept.norm == 0.0:
        # Nothing is penalised, or there is nothing to learn from: all strengths are equivalent.
        return AlphaSelection(largest, np.array([largest]), np.array([np.nan]))
    alphas = largest * np.geomspace(1.0, _LEAST_SHARE, n_alphas)
    errors: list[float] = []
    last: Completion | None = None
    for alpha in alphas:
        last = fit_noisy(kept, TailSum(theta, float(alpha)), dense, max_rank, last, tol, max_iter)
        misfit = held.values - held.at(last.factors)
        errors.append(float(np.sqrt(np.mean(misfit**2))))
    return AlphaSelection(float(alphas[int(np.argmin(errors))]), alphas, np.array(errors))


def _generator(random_state: Any) -> np.random.Generator:
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state must be an int of at least 0, a generator of NumPy or None, got "
            f"{shown(random_state)}. Pass an int such as 0 for results that can be repeated."
        ) from None


def _known_means(X: Floats) -> Floats:
    known = ~np.isnan(X)
    means: Floats = np.where(known, X, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return means
