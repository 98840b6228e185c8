"""A transformer that fills in missing values."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from lrml.completion._complete import complete, select_alpha
from lrml.completion._methods import Observed
from lrml.core.arrays import to_host
from lrml.core.checks import check_count, check_flag
from lrml.core.penalties import TailSum

_CHECKS: Any = {"dtype": np.float64, "ensure_all_finite": "allow-nan"}


class LowRankImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Fill in NaN by completing the (centred) table under the tail sum of its singular values.

    ``fit`` completes X − 1 meanᵀ (see `complete`) and keeps the right factors V. ``transform`` finds the
    coefficients of each row x in V from its known values, and replaces NaN by mean + V r ::

        r = argmin Σ_{j known} (x_j − mean_j − r·v_j)² + alpha · Σ_{k > theta} r_k²/σ_k

    So the rows of ``fit`` get the values of the completed table. Known values never change. A row with fewer
    known values than free directions gets the smallest coefficients that fit; one with none gets the means.

    Parameters
    ----------
    theta : int or float, default=0.1
        Free singular values: a count, or a share of the columns. 0 is the trace norm.
    alpha : float, optional
        Strength; by default chosen on a tenth of the known values, held out at random.
    center : bool, default=True
        Whether to subtract the column means of the known values first. A column without any gets mean 0.
    tol, max_iter, random_state
        As in `complete` and `select_alpha`.

    Attributes
    ----------
    mean_, components_, singular_values_ : arrays
        Column means, V (n_features × rank) and the singular values, descending.
    theta_, alpha_, completion_ : int, float, Completion
        What was used, and the completed (centred) table.

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
        mean = np.where(known & center, table, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
        centred, alpha = Observed.of(table - mean), self.alpha
        if alpha is None:
            options: dict[str, Any] = {"tol": max(self.tol, 1e-4), "max_iter": self.max_iter, "n_alphas": 10}
            alpha = select_alpha(centred, theta, random_state=self.random_state, **options).alpha
        done = complete(centred, TailSum(theta, alpha), tol=self.tol, max_iter=self.max_iter)
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
        gaps = np.isnan(X)
        rows = np.flatnonzero(gaps.any(axis=1))
        known, V, s = ~gaps[rows], self.components_, self.singular_values_
        observed = Observed(known.shape, np.nonzero(known), (X[rows] - self.mean_)[known])
        weights = TailSum(self.theta_, self.alpha_).slopes(s) / s
        filled = observed.fit_rows(V, weights, np.zeros((len(rows), len(s)))) @ V.T + self.mean_
        X[gaps] = filled[~known]
        return X
