"""ML-Fro: the squared Frobenius norm as penalty, that is, ridge regression for label matrices."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array

from lrml import _validation as check
from lrml.estimators._fitting import TrainingData, warn_of_scales
from lrml.estimators._spectral import SpectralModel
from lrml.penalties import TailSum
from lrml.problem import SpectralProblem
from lrml.solvers import Callback
from lrml.statistics import Statistics


class MLFro(SpectralModel):
    """Multi-label learning with the squared Frobenius norm.

    Finds the minimiser W (d × L) of

    ::

        ‖Y − 1bᵀ − XW‖²_F + alpha · ‖W‖²_F

    with a free intercept b, or with another loss. For the squared loss this is ridge regression, and the
    solution is exact: with the eigenvalues λ_i and eigenvectors q_i of the centred XᵀX it is
    Σ_i q_i q_iᵀ XᵀY / (λ_i + alpha), so one decomposition serves any number of alphas: see `ml_fro_path`.
    With the logistic loss it is one-vs-rest logistic regression with C = 1 / (2 alpha).

    Cost: O(n d² + d³ + d² L) for the squared loss; for other losses, and with unknown labels, every iteration
    of a Newton-like method takes one pass over the rows.

    Parameters
    ----------
    alpha : float, default=1.0
        Strength of the penalty; 0 is the least-squares solution of smallest norm.
    loss : {"squared", "logistic", "squared_hinge"}, default="squared"
        What is summed over labels and examples, see `lrml.losses`.
    fit_intercept : bool, default=True
        Fit b.
    max_iter : int, optional
        Most iterations, where there are any; 1000 by default.
    tol : float, optional
        As in `LRML`, where there are iterations; 1e-5 by default. Where alpha is small, probabilities may
        still be off by some percent; 1e-12 agrees with scikit-learn.
    targets : {"binary", "real"}, default="binary"
        "real" accepts any finite numbers instead of 0/1.
    threshold : float or array of shape (L,), optional
        As in `LRML`.
    warm_start : bool, default=False
        Start from the coefficients of the last ``fit``.
    callback : callable, optional
        As in `LRML`.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    coef_, intercept_, factors_, singular_values_, rank_, n_iter_, objective_, residual_, converged_, status_
        As in `LRML`.
    history_, classes_, unseen_labels_, n_features_in_, feature_names_in_
        As in `LRML`.

    References
    ----------
    A. E. Hoerl, R. W. Kennard. Ridge Regression: Biased Estimation for Nonorthogonal Problems. Technometrics
    12(1), 1970. The name ML-Fro is that of Xu et al. (2016), who compare LRML with it.

    Examples
    --------
    >>> from lrml import MLFro
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> round(MLFro(alpha=10.0).fit(*yeast.train).score(*yeast.test), 3)
    0.755
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        loss: str = "squared",
        fit_intercept: bool = True,
        max_iter: int | None = None,
        tol: float | None = None,
        targets: str = "binary",
        threshold: float | npt.NDArray[np.floating[Any]] | None = None,
        warm_start: bool = False,
        callback: Callback | None = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.targets = targets
        self.threshold = threshold
        self.warm_start = warm_start
        self.callback = callback
        self.verbose = verbose

    _default_row_tol = 1e-5

    def _penalty(self, data: TrainingData) -> TailSum:
        return TailSum(theta=0, alpha=0.0)

    def _ridge(self) -> float:
        return _check_alpha(self.alpha)


class RidgePath(NamedTuple):
    """Coefficients (m × L × d) and intercepts (m × L) for m values of alpha."""

    coefs: npt.NDArray[np.float64]
    intercepts: npt.NDArray[np.float64]


def ml_fro_path(
    X: Any, Y: Any, alphas: Iterable[float], *, fit_intercept: bool = True, sample_weight: Any = None
) -> RidgePath:
    """Solve `MLFro` with squared loss for many values of alpha at the price of one decomposition.

    Parameters
    ----------
    X : array, sparse matrix or frame of shape (n, d)
    Y : array, sparse matrix or frame of shape (n, L)
        Any finite numbers.
    alphas : iterable of float
        At least 0.
    fit_intercept : bool, default=True
    sample_weight : array of shape (n,), optional

    Returns
    -------
    RidgePath

    Examples
    --------
    >>> from lrml.datasets import load_yeast
    >>> from lrml.estimators import ml_fro_path
    >>> coefs, intercepts = ml_fro_path(*load_yeast().train, alphas=[0.1, 1.0, 10.0])
    >>> coefs.shape
    (3, 14, 103)
    """
    if not isinstance(alphas, Iterable):
        raise TypeError(f"alphas must be several numbers, got {alphas!r}. Pass a list such as [0.1, 1, 10].")
    strengths = [_check_alpha(alpha) for alpha in alphas]
    fit_intercept = check.check_flag("fit_intercept", fit_intercept)
    check.check_unique_columns(X, "X")
    X = check_array(X, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32], input_name="X")
    targets = check.check_targets(Y, "real").values
    warn_of_scales(X)
    statistics = Statistics.from_arrays(X, targets, check.check_sample_weight(sample_weight, X.shape[0]))
    problem = SpectralProblem.from_moments(statistics.moments(fit_intercept=fit_intercept))
    # Columns of cross are rotated labels where there are more labels than features: rotate back.
    cross = problem.cross if problem.labels is None else problem.cross @ problem.labels.T
    shape = (len(strengths), targets.shape[1])
    coefs, intercepts = np.empty((*shape, X.shape[1])), np.zeros(shape)
    for place, alpha in enumerate(strengths):
        coefs[place] = (problem.features @ (cross / (problem.curvature[:, None] + alpha))).T
        if fit_intercept:
            intercepts[place] = statistics.y_mean - coefs[place] @ statistics.x_mean
    return RidgePath(coefs, intercepts)


def _check_alpha(alpha: Any) -> float:
    return check.check_nonnegative("alpha", alpha, "Pass alpha=0 for least squares.")
