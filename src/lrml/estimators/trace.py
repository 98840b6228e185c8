"""ML-trace: the trace norm as penalty, with a certificate of optimality."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.estimators._kernels import KernelLike
from lrml.estimators._member import Member
from lrml.estimators._parameters import CHECKS, Parameters, optional
from lrml.estimators._spec import Spec
from lrml.solvers import Callback, Phase


class MLTrace(Member):
    """Multi-label learning with the trace norm: `LRML` with theta = 0, and a proof of how close a fit is.

    Finds the minimiser W (d × L) of the convex objective

    ::

        ‖Y − 1bᵀ − XW‖²_F + alpha · Σ_j σ_j(W) + ridge · ‖W‖²_F

    with a free intercept b, or with another loss. For ``space="predictions"`` see `LRML`: the solution is
    exact, and ``gap_`` is 0. Otherwise a duality gap proves the distance from the optimum, and with the
    squared loss and all labels known the solver stops on it, or on another proven bound
    (`SpectralProblem.decrement`).

    Cost: as `LRML`. Where fits read the rows, the solver stops on the estimate of `LRML`, and the duality gap
    takes two more passes at the end.

    Parameters
    ----------
    alpha : float, optional
        Strength of the trace norm. By default it follows the data as in `LRML`.
    ridge : float, default=0.0
        Strength of an additional squared Frobenius norm.
    space : {"coefficients", "predictions"}, default="coefficients"
        What is penalised, as in `LRML`.
    tol : float, default=1e-4
        Upper limit of ``gap_``; of its estimate if every iteration reads the rows.
    loss, fit_intercept, kernel, gamma, degree, coef0, solver, max_iter, threshold
        As in `LRML`; and so are ``warm_start``, ``callback``, ``device`` and ``verbose``.

    Attributes
    ----------
    gap_ : float
        (primal − dual) / primal: an upper bound of the relative distance of the objective from its minimum.
        In a subspace, that from the minimum inside, plus ``compression_gap_``, which is an estimate.
    coef_, intercept_, factors_, rank_, alpha_, ridge_, objective_, status_, …
        As in `LRML`.

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
        self.threshold = threshold
        self.warm_start = warm_start
        self.callback = callback
        self.device = device
        self.verbose = verbose

    def _spec(self, params: Parameters, shape: tuple[int, int]) -> Spec:
        strengths = {"alpha": params.alpha, "ridge": params.ridge}
        return Spec(**self._common(params), space=params.space, certified=True, **strengths)
