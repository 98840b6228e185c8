"""LRML: a penalty on the tail of the singular values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.core.checks import check_count
from lrml.core.coordinates import ROADS
from lrml.estimators._kernels import KernelLike
from lrml.estimators._member import Member
from lrml.estimators._parameters import CHECKS, Parameters, check_theta_or_auto, optional
from lrml.estimators._spec import WEAK, Spec
from lrml.solvers import Callback, Phase

# Default shares of free singular values: of the coefficients with the squared loss, with the others, and of
# the predictions.
_THETA, _ROW_THETA, _PREDICTIONS_THETA = 0.2, 0.1, 0.05


class LRML(Member):
    """Low-rank multi-label learning by penalising only the tail of the spectrum.

    Minimises over W (d × L), with a free intercept b and singular values σ_1 ≥ σ_2 ≥ …,

    ::

        ‖Y − 1bᵀ − XW‖²_F + alpha · Σ_{j > theta} σ_j(M) + ridge · ‖W‖²_F,

    or another loss in place of the squares; it is a sum over the known labels of all examples, not a mean.
    ``space`` says what is penalised:

    - "coefficients", M = W: the paper's objective, not convex unless theta is 0. A fit ends near the
      objective of a stationary point, which need not be the best.
    - "predictions", M = X̃W with X̃ = [X − 1x̄ᵀ; √ridge · I]: the predictions, with the ridge as further
      rows. With Ŵ the ridge regression and X̃Ŵ = U diag(d) Vᵀ, the global minimum is W = Ŵ V diag(s/d) Vᵀ,
      where s_j is d_j up to theta and max(d_j − alpha/2, 0) beyond.

    In both, theta = 0 is a trace norm, alpha = 0 is (ridge) least squares, and alpha → ∞ is least squares of
    rank theta. Features may have any scale; a warning names those that differ by more than 1e8.

    Cost: with the squared loss and all labels known O(n d² + d³ + d² L) once, and O(dL min(d, L)) per
    iteration; memory 3 d² + O(dL) numbers beside the data. Otherwise an iteration takes a few passes over the
    rows, O(ndL) each. With more features than rows, and for kernels, XXᵀ takes the place of XᵀX. Where both
    are large, fits work in a subspace: docs/solver.md.

    Parameters
    ----------
    theta : int, float or "auto", optional
        How many leading singular values stay free. An int counts them; a float in [0, 1] is a share of the
        labels (rounded, at most min(d, L)). Mind the type: 1 means one value, 1.0 all of them. By default
        0.05 for predictions; for coefficients 0.2 with the squared loss, and 0.1 with the others, where free
        values overfit sooner. "auto" is an elbow, see Notes.
    alpha : float, optional
        Strength of the penalty, the paper's C (an inverse strength in scikit-learn). By default see Notes.
    ridge : float, optional
        Strength of a squared Frobenius norm, which also shrinks the free singular values. By default half of
        the default ridge of `LEML`; but 0 for coefficients if theta is 0 (and alpha is not), and beside a
        given alpha with the squared loss, as in the paper.
    space : {"predictions", "coefficients"}, optional
        By default the predictions where alpha follows the data, with the squared loss, all labels known and
        no iterative ``solver``; the coefficients everywhere else. Other losses take these only.
    loss : {"squared", "logistic", "squared_hinge"}, default="squared"
    fit_intercept : bool, default=True
        Fit b. The paper has none.
    kernel, gamma, degree, coef0
        As in scikit-learn's `KernelRidge`: "linear" (the default), "rbf", "poly", …, a function of two rows,
        or "precomputed". It must be positive semi-definite, and needs the squared loss with all labels known.
        With an intercept, rows are centred in the space behind the kernel. See docs/kernels.md.
    solver : str or solver object, default="auto"
        For coefficients: "auto" (`lrml.solvers.Alternating`; for other losses and unknown labels proximal
        Newton, or Newton's method label by label if alpha is 0), "apg" (accelerated proximal gradient), "pg"
        (with backtracking), "paper" (Algorithm 1 to the letter) or an instance such as
        `lrml.solvers.Algorithm1`. Of these, "apg" alone also reads rows. "primal", "dual" and "compressed"
        are "auto" in given coordinates, of either space: eigenvectors of XᵀX, of XXᵀ, or a subspace.
    max_iter : int, optional
        Most iterations: 5000 by default, or 1000 where every iteration reads the rows.
    tol : float, default=1e-4
        Upper limit of the estimated gap (F − F*) / F of the objective, see docs/solver.md. From 1e-5 on,
        scores of fits that read the rows are in single precision, if the scales of the features allow it.
    threshold : float, array of shape (L,), "auto" or `lrml.thresholds.Cut`, optional
        A label is predicted if its score is at least this; by default 0.5 for the squared loss and 0 for the
        others. A `Cut` is chosen by ``fit``, for its metric, on leave-one-out scores where they have a closed
        form, otherwise on a fifth of the rows, by one more fit. "auto" is `Cut()`, for micro-F1.
    warm_start : bool, default=False
        Start from the coefficients of the last ``fit``.
    callback : callable, optional
        Called with an `lrml.solvers.IterationInfo` before the first iteration and after each; true stops.
    device : str, optional
        Such as "cuda": compute there, and bring the model back to NumPy. By default where X is.
    verbose : int, default=0

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (L, d) and (L,)
        Wᵀ and b. A label without a positive example has zero coefficients and an intercept of −1 (−100 for
        margins), so that it does not rank above real candidates. There is no ``coef_`` with a kernel.
    factors_, singular_values_, rank_, nbytes_
        Thin SVD W = U diag(s) Vᵀ (behind the kernel, if any), s, their number, and the bytes of a model.
    theta_, alpha_, space_, ridge_, loss_, threshold_
        What is in use; the space only if anything is penalised, the threshold only if it was chosen.
    objective_, residual_ : float
        L‖W − prox_{1/L}(W − ∇f(W)/L)‖_F / ‖∇f(0)‖_F is the latter, L the Lipschitz constant of ∇f.
    converged_, status_, n_iter_, history_, n_passes_
        Whether ``tol`` was reached; how the solver ended, with a remedy; one entry per iteration; how often
        ``fit_blocks`` has read the blocks, if once does not suffice.
    compression_gap_, kernel_gap_ : float
        What a subspace (by an estimate), or left-out directions of a kernel (at most), add to the objective.
    dual_coef_, X_fit_, kernel_
        For kernels: scores are Σ_i k(x, x_i) dual_coef_i + intercept_ over the rows x_i of X_fit_.
    classes_, unseen_labels_, n_features_in_, feature_names_in_, sparse_output_, flat_output_, fitted_
        Names; labels without a positive example; the form of Y; the record of all these.

    Notes
    -----
    The default alpha keeps out what noise alone would bring. For coefficients it is ‖G‖_F √(ρ/n), G the
    slopes of the loss at the best constant scores, ρ the default ridge of `LEML` for squares: with labels
    independent of X, the gradient along a direction with the eigenvalue ρ would be about as long. For
    predictions it is ½ √2 ‖Y − 1ȳᵀ‖_F / √n.

    The elbow is where T(theta) = Σ_{j > theta} d_j², d as above, is farthest below the line from T(0) to 0.

    References
    ----------
    C. Xu, T. Liu, D. Tao, C. Xu. Local Rademacher Complexity for Multi-label Learning. IEEE Transactions on
    Image Processing 25(3), 2016. The closed form, for a weighted trace norm: K. Chen, H. Dong, K.-S. Chan,
    Biometrika 100(4), 2013.

    Examples
    --------
    >>> from lrml import LRML
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> LRML().fit(*yeast.train).status_
    'Solved in closed form.'
    >>> model = LRML(theta=3, alpha=20.0).fit(*yeast.train)  # the paper's objective
    >>> model.rank_, round(model.score(*yeast.test), 3)
    (8, 0.755)
    """

    _checks = CHECKS | {
        "theta": optional(check_theta_or_auto),
        **{name: optional(CHECKS[name]) for name in ("alpha", "ridge")},
    }

    def __init__(
        self,
        theta: int | float | str | None = None,
        alpha: float | None = None,
        *,
        ridge: float | None = None,
        space: str | None = None,
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
        self.theta = theta
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
        space, squared = params.space, params.loss.name == "squared"
        closed = squared and params.solver in ("auto", *ROADS)
        if space is None and closed and params.alpha is None:  # a given alpha is that of the paper
            otherwise = self._spec_in("coefficients", params, shape)
            return replace(self._spec_in("predictions", params, shape), otherwise=otherwise)
        return self._spec_in(space or "coefficients", params, shape)

    def _spec_in(self, space: str, params: Parameters, shape: tuple[int, int]) -> Spec:
        theta, alpha, ridge = params.theta, params.alpha, params.ridge
        squared = params.loss.name == "squared"
        if theta is None:
            usual = _THETA if squared else _ROW_THETA
            theta = _PREDICTIONS_THETA if space == "predictions" else usual
        if theta != "auto":
            theta = check_count("theta", theta, 0, shape)
        # The objective of the paper has no ridge; and the trace norm of W limits all singular values.
        bare = (squared and alpha is not None) or (theta == 0 and alpha != 0)
        if ridge is None and space == "coefficients" and bare:
            ridge = 0.0
        strengths = {"alpha": alpha, "ridge": ridge, "ridge_share": WEAK}
        return Spec(**self._common(params), theta=theta, space=space, **strengths)
