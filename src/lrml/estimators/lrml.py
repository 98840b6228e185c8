"""LRML: a penalty on the tail of the singular values; LRMLCV, which chooses its parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.core.checks import check_count
from lrml.core.coordinates import ROADS
from lrml.core.rows import Rows
from lrml.estimators._grid import resolve_thetas
from lrml.estimators._kernels import KernelLike
from lrml.estimators._member import Member
from lrml.estimators._parameters import CHECKS, Parameters, check_theta_or_auto, optional
from lrml.estimators._spec import WEAK, Spec, sums_suffice
from lrml.estimators._tail_search import TailSearch
from lrml.solvers import Callback, Phase

# Default shares of free singular values: of the coefficients with the squared loss, with the others, and of
# the predictions.
_THETA, _ROW_THETA, _PREDICTIONS_THETA = 0.2, 0.1, 0.05
# A default grid of searches of other losses.
_ROW_THETAS = (0.0, 0.05)


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
    targets : {"binary", "real"}, default="binary"
        "binary" insists on 0/1 labels; "real" takes any finite numbers, and ``predict`` returns scores.
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
        targets: str = "binary",
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
        self.targets = targets
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


class LRMLCV(TailSearch):
    """`LRML` with theta, alpha and ridge chosen by scores of rows that the model has not seen.

    With the squared loss, all labels known and no grid, the penalty acts on the predictions (``space``):

    1. Ridges alone are judged by leave-one-out scores, which are exact and have a closed form.
    2. Three of five random folds screen a grid of theta, alpha and ridge by squared error; all five judge up
       to eight of these candidates by the metric. A fold costs one decomposition.
    3. The best of them is chosen if choosing it pays: each fold judges what leads on the other four, and that
       must lead the best ridge by more than one standard error, or two if fewer than 500 rows tell. Otherwise
       that ridge is chosen, with alpha = 0: it is the simpler model.

    A grid (any of ``alphas``, ``n_alphas``, ``alpha_ratio`` or several ``ridges``) is tried as a whole, by
    default on the coefficients. Leave-one-out scores are a little too good with a penalty, so a choice with
    one must lead the best without one by more than one standard error, and hold up on up to three folds.
    Other losses and unknown labels take one warm-started fit per candidate and split. See docs/selection.md.

    Cost: with the squared loss and all labels known O(n d² + d³ + d² L), once and per fold, and O(mk (d + L))
    for each candidate of rank k, judged on m rows; memory O(d² + m (d + L)) numbers. For rows that do not fit
    into memory there is ``fit_blocks``.

    Parameters
    ----------
    thetas : sequence of int or float, optional
        As in `LRML`. By default all counts are allowed in a search without a grid; in a grid 0 (the trace
        norm), 5, 10, 20 and 40 % of the labels, and 0 and 5 % where every candidate is a fit of its own.
    alphas : sequence of float, optional
        In a grid by default ``n_alphas`` values, which act on the largest penalised singular value like
        ridges that leave 5 to 98 % of the effective directions, and 0 if ``ridges`` is None.
    ridges : float or sequence of float, optional
        A single one is taken as it is. In a grid by default 0 and those that leave 90, 60, 40 and 20 % of the
        effective directions Σ λ_i / (λ_i + ridge), λ_i the eigenvalues of XᵀX: no matter how X is scaled.
    n_alphas : int, optional
        10 by default in a grid; 3, or 4 without a ridge, where every candidate is a fit of its own.
    alpha_ratio : float, optional
        If given, alphas go from `alpha_max` of the theta and ridge down to this share of it.
    space : {"predictions", "coefficients"}, optional
        As in `LRML`; by default the predictions in the search described above, with leave-one-out scores
        and without a grid, and the coefficients elsewhere: with ``cv`` a number, a share or a splitter, too.
    loss, fit_intercept, kernel, degree, coef0, targets, device, verbose
        As in `LRML`. If the kernel is "precomputed", splits take rows and columns.
    gammas : float or sequence of float, optional
        Widths of the kernel, compared first: docs/kernels.md.
    cv : "loo", int, float, splitter or iterable, optional
        Leave-one-out scores, on at most m = max(1500, 2¹⁹ / L) random rows; a number of folds
        (`MultilabelStratifiedKFold`; random ones for real targets); a held-out share; a splitter of
        scikit-learn; or (train, test) row numbers. By default "loo" with the squared loss and all labels
        known, but 0.2 in a subspace; elsewhere 0.2 from 3,000 rows on, and 5 below. Pass a splitter if rows
        come in groups, or repeat.
    scoring : str, callable, list of these or None, default=None
        A metric of `lrml.metrics` by name, such as "precision_at_1"; a scorer of scikit-learn; or a function
        of (Y, scores), larger for better scores. None is "average_precision", "r2" for real targets, and the
        loss for a single label. The first one of a list chooses the model.
    rule : {"best", "one_standard_error", "smallest"} or callable, default="best"
        Among the candidates within one standard error of the best, take that of least rank, or of the fewest
        bytes (``nbytes_``); without a grid the search then also tries small models. A function gets
        ``cv_results_`` (with one metric, called "score") and returns the index of a candidate, as it is.
    abandon : bool, default=True
        After the first of several folds, drop candidates that are three standard errors behind.
    threshold : float, array of shape (L,), "auto" or `lrml.thresholds.Cut`, optional
        As in `LRML`; chosen on the held-out scores of the choice.
    max_iter, tol
        As in `LRML`; candidates may have fewer iterations and a ``tol`` of up to 1e-3 by default.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    best_params_, best_index_, best_score_
        The choice, with "gamma" if the kernel has one; its place; its mean held-out score (of a loss, the
        negative), or that of the best ridge plus its lead on the folds that decided.
    best_estimator_ : LRML
        Fitted on all rows, in the ``space`` that was searched, which ``best_params_`` leave out.
    best_estimators_, best_indices_ : dict
        If ``scoring`` is a list: the same by the name of each metric.
    cv_results_ : dict of arrays
        As in scikit-learn's searches, without times; also n_splits_seen, mean_model_rank, mean_model_nbytes,
        and confirmed_test_score of those compared on the folds that decided.
    gamma_results_, n_splits_, refit_time_, threshold_
        The gammas compared; 1 for leave-one-out scores; seconds of the final fit; where ``predict`` cuts.
    coef_, intercept_, factors_, rank_, theta_, status_, …
        Of ``best_estimator_``, as in `LRML`.

    Examples
    --------
    >>> from lrml import LRMLCV
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> model = LRMLCV(random_state=0).fit(*yeast.train)
    >>> len(model.cv_results_["params"]) < 50, round(model.score(*yeast.test), 3)
    (True, 0.755)
    >>> grid = LRMLCV(thetas=[0, 2, 4], n_alphas=8, cv=3, random_state=0).fit(*yeast.train)
    >>> len(grid.cv_results_["params"]), round(grid.score(*yeast.test), 3)
    (133, 0.755)
    """

    _member = LRML

    def __init__(
        self,
        thetas: Any = None,
        alphas: Any = None,
        ridges: Any = None,
        *,
        n_alphas: int | None = None,
        alpha_ratio: float | None = None,
        space: str | None = None,
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
        self.thetas = thetas
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
        thetas = params.thetas
        if thetas is None and not sums_suffice(params.loss, data):
            thetas = _ROW_THETAS
        return resolve_thetas(thetas, data.model_shape)
