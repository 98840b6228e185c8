"""A scikit-learn transformer that fills in missing values with a matrix of low rank."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from lrml._checks import check_flag, check_max_iter, check_nonnegative
from lrml.completion._alternate import solve_rows
from lrml.completion._complete import complete, is_dense
from lrml.completion._observed import Floats, read_observed
from lrml.completion._selection import choose
from lrml.penalties import TailSum

# Share of the known values that is held out to choose alpha, and the number of strengths to choose from.
_HELD_OUT = 0.1
_N_ALPHAS = 10


class LowRankImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fill in NaN by completing the (centred) table under the tail sum of its singular values.

    ``fit`` solves ::

        minimise ½‖P_Ω(Z − (X − 1 meanᵀ))‖²_F + alpha · Σ_{j > theta} σ_j(Z)

    and keeps the right factors V, the singular values and the column means. ``transform`` finds, for every
    row x, its coefficients in V by ridge regression on what is known of it ::

        r = argmin Σ_{j known} (x_j − mean_j − r·v_j)² + Σ_k w_k r_k²

    with w_k = 0 for k ≤ theta and alpha/σ_k beyond, and replaces NaN by mean + V r. These are the weights of
    the quadratic that majorises the penalty at the solution, so for the rows of ``fit`` this gives back the
    completed table. Known values are never changed. A row with fewer known values than free directions gets
    the smallest coefficients that fit; one with none gets the means.

    Parameters
    ----------
    theta : int or float, default=0.1
        Free singular values: a count, or a share of the columns. 0 is the trace norm.
    alpha : float, optional
        Strength. By default it is chosen on a tenth of the known values, held out at random.
    center : bool, default=True
        Whether column means of the known values are taken off first. A column without any gets mean 0.
    tol : float, default=1e-5
        Stationarity residual to reach.
    max_iter : int, default=500
    random_state : int, default=0
        Seed of the held-out values; without effect where alpha is given.

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
        random_state: int = 0,
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
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
        tol = check_nonnegative("tol", self.tol, "Leave it out for the default.")
        max_iter = check_max_iter(self.max_iter)
        theta = _count_free(self.theta, X.shape)
        mean = _known_means(X) if check_flag("center", self.center) else np.zeros(X.shape[1])
        table = X - mean
        if self.alpha is None:
            alpha = self._choose_alpha(table, theta, tol, max_iter)
        else:
            alpha = check_nonnegative("alpha", self.alpha, "Leave it out to have it chosen.")
        done = complete(table, TailSum(theta, alpha), method="dense", tol=tol, max_iter=max_iter)
        if not done.converged:
            warnings.warn(done.status, ConvergenceWarning, stacklevel=2)
        self.mean_, self.theta_, self.alpha_ = mean, theta, alpha
        self.components_, self.singular_values_ = done.factors.V, done.factors.s
        self.completion_, self.n_iter_ = done, done.n_iter
        return self

    def transform(self, X: Any) -> Any:
        """Replace NaN; known values stay as they are.

        Parameters
        ----------
        X : array or frame of shape (n_samples, n_features)

        Returns
        -------
        array of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, copy=True, dtype=np.float64, ensure_all_finite="allow-nan")
        missing = np.isnan(X)
        rows = np.flatnonzero(missing.any(axis=1))
        if len(rows) == 0:
            return X
        table = X[rows] - self.mean_
        starts = np.concatenate([[0], np.cumsum((~missing[rows]).sum(axis=1))])
        known_rows, known_cols = np.nonzero(~missing[rows])
        coefficients = solve_rows(
            starts,
            known_cols,
            table[known_rows, known_cols],
            self.components_,
            self._weights(),
            np.zeros((len(rows), len(self.singular_values_))),
        )
        filled = coefficients @ self.components_.T + self.mean_
        X[rows] = np.where(missing[rows], filled, X[rows])
        return X

    def _weights(self) -> Floats:
        penalty = TailSum(self.theta_, self.alpha_)
        return np.asarray(penalty.slopes(self.singular_values_) / self.singular_values_)

    def _choose_alpha(self, table: Floats, theta: int, tol: float, max_iter: int) -> float:
        observed = read_observed(table)
        dense = is_dense("dense", observed.shape)
        seed = self.random_state
        return choose(
            observed, theta, _HELD_OUT, _N_ALPHAS, dense, None, max(tol, 1e-4), max_iter, seed
        ).alpha


def _known_means(X: Floats) -> Floats:
    known = ~np.isnan(X)
    means: Floats = np.where(known, X, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    return means


def _count_free(theta: Any, shape: tuple[int, int]) -> int:
    """Resolve theta: an int as it is, a float in [0, 1] as a share of the columns."""
    most = min(shape)
    if isinstance(theta, bool | np.bool_) or not isinstance(theta, int | float | np.integer | np.floating):
        raise TypeError(
            f"theta must be an int (a count) or a float (a share of the columns), got {theta!r}. "
            "Pass a number."
        )
    if isinstance(theta, int | np.integer):
        if not 0 <= theta <= most:
            raise ValueError(
                f"theta must be in [0, {most}] (the smaller of {shape[0]} rows and {shape[1]} columns), "
                f"got {theta}. Lower theta, or pass a fraction such as 0.1."
            )
        return int(theta)
    if not 0.0 <= theta <= 1.0:
        raise ValueError(
            f"a float theta must be in [0, 1] (a share of the columns), got {theta}. Pass an int to count."
        )
    return min(most, round(float(theta) * shape[1]))
