"""ML-trace: the trace norm as penalty, with a certificate of optimality; MLTraceCV."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.core.rows import Rows
from lrml.estimators._kernels import KernelLike
from lrml.estimators._member import Member
from lrml.estimators._parameters import CHECKS, Parameters, optional
from lrml.estimators._spec import Spec
from lrml.estimators.lrml import TailSearch
from lrml.solvers import Callback, Phase


class MLTrace(Member):
    """Multi-label learning with the trace norm.

    Finds the minimiser W (d × L) of the convex objective

    ::

        ‖Y − 1bᵀ − XW‖²_F + alpha · Σ_j σ_j(W) + ridge · ‖W‖²_F

    with a free intercept b, or with another loss. It is `LRML` with theta = 0. Because the problem is convex,
    a duality gap proves how close a fit is to the optimum, and ``gap_`` reports it. With squared loss and all
    labels known the solver stops on it, or on another proven bound (`SpectralProblem.decrement`). Otherwise a
    duality gap costs two passes over the rows, so the solver stops on the estimate of `LRML`.

    Cost: as `LRML`, by the same algorithm; with another loss, or unknown labels, the duality gap takes two
    more passes over the rows at the end.

    Parameters
    ----------
    alpha : float, optional
        Strength of the trace norm. By default it follows the data as in `LRML`.
    ridge : float, default=0.0
        Strength of an additional squared Frobenius norm.
    loss, fit_intercept, kernel, gamma, degree, coef0, solver, targets, threshold
        As in `LRML`.
    warm_start, callback, verbose
        As in `LRML`.
    max_iter : int, optional
        Most iterations, 5000 by default, or 1000 if every iteration reads the rows.
    tol : float, optional
        Upper limit of ``gap_``, 1e-4 by default; of its estimate if every iteration reads the rows.

    Attributes
    ----------
    gap_ : float
        (primal − dual) / primal: an upper bound of the relative distance of the objective from its minimum.
        In a subspace, that from the minimum inside, plus ``compression_gap_``, which is an estimate.
    coef_, dual_coef_, X_fit_, intercept_, factors_, singular_values_, rank_, n_iter_, objective_, residual_
        As in `LRML`.
    alpha_, ridge_, converged_, status_, history_, classes_, unseen_labels_, n_features_in_, feature_names_in_
        As in `LRML`.
    compression_gap_, n_passes_
        As in `LRML`: what a subspace costs, where n and d are both large, and how often blocks were read.

    References
    ----------
    Y. Amit, M. Fink, N. Srebro, S. Ullman. Uncovering Shared Structures in Multiclass Classification. ICML
    2007. The name ML-trace is that of Xu et al. (2016), who compare LRML with it.

    Examples
    --------
    >>> from lrml import MLTrace
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> model = MLTrace(alpha=20.0).fit(*yeast.train)
    >>> model.rank_ < 14 and model.gap_ < 1e-4
    True
    """

    _checks = CHECKS | {"alpha": optional(CHECKS["alpha"])}

    def __init__(
        self,
        alpha: float | None = None,
        *,
        ridge: float = 0.0,
        space: str = "coefficients",
        loss: str = "squared",
        fit_intercept: bool = True,
        kernel: KernelLike = "linear",
        gamma: float | None = None,
        degree: float = 3,
        coef0: float = 1,
        solver: str | Phase = "auto",
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
        self.ridge = ridge
        self.space = space
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.targets = targets
        self.threshold = threshold
        self.warm_start = warm_start
        self.callback = callback
        self.device = device
        self.verbose = verbose

    def _spec(self, params: Parameters, shape: tuple[int, int]) -> Spec:
        strengths = {"alpha": params.alpha, "ridge": params.ridge}
        return Spec(**self._common(params), space=params.space, certified=True, **strengths)


class MLTraceCV(TailSearch):
    """`MLTrace` with alpha (and ridge) chosen by scores of unseen rows: `LRMLCV` with theta = 0.

    Cost: as `LRMLCV`, with one theta.

    Parameters
    ----------
    alphas : sequence of float, optional
        As in `LRMLCV`; 0 is among those tried by default.
    ridges : float or sequence of float, default=0.0
        None searches for a ridge too.
    n_alphas, alpha_ratio, loss, fit_intercept, kernel, gammas, degree, coef0, targets, cv, scoring, rule
        As in `LRMLCV`.
    abandon, threshold
        As in `LRMLCV`.
    max_iter, tol, random_state, verbose
        As in `LRMLCV`.

    Attributes
    ----------
    gap_ : float
        As in `MLTrace`.
    best_params_, best_score_, best_index_, best_estimator_, cv_results_, n_splits_, threshold_, coef_, …
        As in `LRMLCV`.

    Examples
    --------
    >>> from lrml import MLTraceCV
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> round(MLTraceCV(cv=3, random_state=0).fit(*yeast.train).score(*yeast.test), 2)
    0.76
    """

    _member = MLTrace
    _names = ("alpha", "ridge")

    def __init__(
        self,
        alphas: Any = None,
        ridges: Any = 0.0,
        *,
        n_alphas: int | None = None,
        alpha_ratio: float | None = None,
        space: str = "coefficients",
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
        self.ridges = ridges
        self.n_alphas = n_alphas
        self.alpha_ratio = alpha_ratio
        self.space = space
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

    def _grid_thetas(self, data: Rows, params: Parameters) -> list[int]:
        return [0]
