"""ML-Fro: the squared Frobenius norm as penalty, that is, ridge regression for label matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.estimators._kernels import KernelLike
from lrml.estimators._member import Member
from lrml.estimators._parameters import CHECKS, Parameters, optional
from lrml.estimators._spec import WEAK, Spec
from lrml.solvers import Callback


class MLFro(Member):
    """Multi-label learning with the squared Frobenius norm: ridge regression for label matrices.

    Finds the minimiser W (d × L) of

    ::

        ‖Y − 1bᵀ − XW‖²_F + alpha · ‖W‖²_F

    with a free intercept b, or with another loss. For the squared loss the solution is exact: with the
    eigenvalues λ_i and eigenvectors q_i of the centred XᵀX it is Σ_i q_i q_iᵀ XᵀY / (λ_i + alpha), so one
    decomposition serves any number of alphas: `ml_fro_path`. With ``loss="logistic"`` it is one-vs-rest
    logistic regression, with "squared_hinge" one-vs-rest `LinearSVC` with a free intercept, both with C = 1 /
    (2 alpha).

    Cost: as `LRML` without iterations for the squared loss. For others, and with unknown labels, labels are
    fitted one by one by Newton's method: 10 to 60 products with X and Xᵀ per label, O(nnz(X)) each, and O(dL
    + nL) numbers of memory. So wide sparse text (200,000 features) is no obstacle.

    Parameters
    ----------
    alpha : float, optional
        Strength of the penalty; 0 is the least-squares solution of smallest norm. By default it follows the
        data: half of the default ridge of `LEML`.
    max_iter : int, default=1000
        Most iterations, if there are any.
    tol : float, default=1e-5
        As in `LRML`, if there are iterations. With a small alpha, probabilities may then be off by a few
        percent; 1e-12 agrees with scikit-learn.
    loss, fit_intercept, kernel, gamma, degree, coef0, threshold, warm_start, callback
        As in `LRML`; and so are ``device`` and ``verbose``.

    Attributes
    ----------
    alpha_ : float
        The strength in use.
    coef_, intercept_, factors_, rank_, objective_, status_, …
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
        alpha: float | None = None,
        *,
        loss: str = "squared",
        fit_intercept: bool = True,
        kernel: KernelLike = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        max_iter: int | None = None,
        tol: float | None = None,
        threshold: float | npt.NDArray[np.floating[Any]] | str | None = None,
        warm_start: bool = False,
        callback: Callback | None = None,
        device: Any = None,
        verbose: int = 0,
    ) -> None:
        self.alpha = alpha
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.max_iter = max_iter
        self.tol = tol
        self.threshold = threshold
        self.warm_start = warm_start
        self.callback = callback
        self.device = device
        self.verbose = verbose

    _checks = CHECKS | {"alpha": optional(CHECKS["alpha"])}
    _tols = (1e-4, 1e-5)

    def _spec(self, params: Parameters, shape: tuple[int, int]) -> Spec:
        strength = {"ridge": params.alpha, "ridge_share": WEAK, "ridge_is_alpha": True}
        return Spec(**self._common(params), **strength)
