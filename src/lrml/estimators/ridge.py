"""ML-Fro: the squared Frobenius norm as penalty, that is, ridge regression for label matrices; MLFroCV."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.core.coordinates import coordinates_of, spectrum_of
from lrml.core.rows import Rows
from lrml.estimators._defaults import loss_scale
from lrml.estimators._grid import ridges_leaving
from lrml.estimators._kernels import KernelLike
from lrml.estimators._member import Member
from lrml.estimators._parameters import CHECKS, Parameters, optional
from lrml.estimators._spec import WEAK, Spec
from lrml.estimators.search import (
    BlockSearch,
    Family,
    Params,
    Plan,
    extending,
    once,
    ridge_pieces,
    ridge_plan,
)
from lrml.solvers import Callback

# Shares of effective directions left by the default alphas if every candidate is a fit of its own.
_ROW_SHARES = (0.6, 0.4, 0.2)


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
    loss, fit_intercept, kernel, gamma, degree, coef0, targets, threshold, warm_start, callback
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
        targets: str = "binary",
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
        self.targets = targets
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


class MLFroCV(BlockSearch):
    """`MLFro` with alpha chosen by scores of unseen rows.

    With the squared loss and all labels known these are leave-one-out scores, which are exact here.

    Cost: with the squared loss and all labels known O(n d² + d³ + d² L) once, or once per fold, and O(mdL)
    for each candidate, judged on m rows; memory 3 d² + O(m (d + L)) numbers beside the data. Otherwise one
    warm-started fit of `MLFro` per candidate and fold.

    Parameters
    ----------
    alphas : sequence of float, optional
        By default a search that begins with those that leave 98, 90, 75, 50, 25 and 10 % of the effective
        directions (see ``ridges`` of `LRMLCV`) and goes on between and beyond. If every candidate is a fit of
        its own, 60, 40 and 20 %, times the curvature of the loss relative to squares, and on beyond the edge.
    max_iter, tol
        As in `MLFro`.
    loss, fit_intercept, kernel, gammas, degree, coef0, targets, cv, scoring, rule, abandon, threshold
        As in `LRMLCV`; and so are ``random_state``, ``device`` and ``verbose``.

    Attributes
    ----------
    best_params_, best_score_, best_estimator_, cv_results_, …
        As in `LRMLCV`.

    Examples
    --------
    >>> from lrml import MLFroCV
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> round(MLFroCV(cv=3, random_state=0).fit(*yeast.train).score(*yeast.test), 3)
    0.755
    """

    _member = MLFro

    def __init__(
        self,
        alphas: Any = None,
        *,
        loss: str = "squared",
        fit_intercept: bool = True,
        kernel: KernelLike = "linear",
        gammas: Any = None,
        degree: float = 3,
        coef0: float = 1,
        targets: str = "binary",
        cv: Any = None,
        scoring: Any = None,
        rule: Any = "best",
        abandon: bool = True,
        threshold: Any = None,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: Any = None,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.kernel = kernel
        self.gammas = gammas
        self.degree = degree
        self.coef0 = coef0
        self.targets = targets
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.abandon = abandon
        self.threshold = threshold
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _family(self, data: Rows, params: Parameters) -> Family:
        if params.alphas is None:
            problem = coordinates_of(data, fit_intercept=params.fit_intercept).problem
            plan: Plan = ridge_plan(problem, lambda alpha: {"alpha": alpha})
        else:
            plan = once({"alpha": alpha} for alpha in params.alphas)

        return Family(plan, ridge_pieces("alpha"))

    def _refits(self, data: Rows, params: Parameters) -> tuple[Plan, Callable[[Params], Any]]:
        alphas = params.alphas
        if alphas is None:
            problem = spectrum_of(data, fit_intercept=params.fit_intercept)
            scale = loss_scale(data, params.loss, fit_intercept=params.fit_intercept)
            alphas = [scale * ridge for ridge in ridges_leaving(problem, _ROW_SHARES)]
        candidates = [{"alpha": alpha} for alpha in sorted(alphas, reverse=True)]
        return extending(candidates, () if params.alphas else ("alpha",)), lambda candidate: 0
