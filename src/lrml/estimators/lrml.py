"""LRML: a penalty on the tail of the singular values; and its two ends, the trace norm and a ridge alone."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace

from lrml.core.checks import check_count
from lrml.core.coordinates import ROADS, road_of
from lrml.core.rows import Rows
from lrml.estimators._base import LabelModel, Member
from lrml.estimators._constructor import Iterated, Kernelised, with_constructor
from lrml.estimators._fitted import Fitted
from lrml.estimators._spec import USUAL_THETA, Parameters, Spec
from lrml.solvers import Phase
from lrml.thresholds import CutLike


@with_constructor
class LRML(LabelModel, Kernelised, Iterated, Member):
    """Low-rank multi-label learning by penalising only the tail of the spectrum.

    Minimises over W (d × L), with a free intercept b and singular values σ_1 ≥ σ_2 ≥ …,

    ::

        ‖Y − 1bᵀ − XW‖²_F + alpha · Σ_{j > theta} σ_j(M) + ridge · ‖W‖²_F,

    or another loss in place of the squares, summed over all known labels. M is X̃W with X̃ = [X − 1x̄ᵀ;
    √ridge I] for ``space="predictions"``: with Ŵ the ridge regression and X̃Ŵ = U diag(d) Vᵀ, the global
    minimum is Ŵ V diag(s/d) Vᵀ, s_j = d_j up to theta and max(d_j − alpha/2, 0) beyond. M is W for
    "coefficients", the objective of the paper, which is not convex unless theta is 0: a fit ends near a
    stationary point. theta = 0 is a trace norm, alpha = 0 (ridge) least squares, alpha → ∞ least squares of
    rank theta. docs/solver.md says how it is solved, and what it costs.

    Parameters
    ----------
    theta : int, float or "auto", optional
        How many leading singular values stay free: a count, or as a float a share of the labels (1 is one
        value, 1.0 all of them). "auto" is the elbow of the energy of the ridge predictions. By default 0.05
        for predictions, 0.2 for coefficients, and 0.1 with other losses, where free values overfit sooner.
    alpha : float, optional
        Strength of the penalty, the paper's C (an inverse strength in scikit-learn). By default what noise
        alone would bring: ½ √2 ‖Y − 1ȳᵀ‖_F / √n for predictions, ‖G‖_F √(ρ/n) for coefficients, G the slopes
        of the loss at the best constant scores, ρ twice the default ridge of `LEML` for squares.
    ridge : float, optional
        Strength of a squared Frobenius norm. By default that of `LEML`; for coefficients 0 beside a given
        alpha with the squared loss, as in the paper, and for trace norms.
    space : {"predictions", "coefficients"}, optional
        Whose singular values are penalised. By default those of the predictions where alpha follows the data,
        with the squared loss and no iterative ``solver`` (with unknown labels, except in a subspace); else
        those of the coefficients.
    loss : {"squared", "logistic", "squared_hinge"}, default="squared"
    fit_intercept : bool, default=True
        Fit b. The paper has none.
    kernel, gamma, degree, coef0
        As in scikit-learn's `KernelRidge`, for the squared loss with all labels known: "linear" (the
        default), "rbf", "poly", …, a function of two rows, or "precomputed"; see docs/kernels.md.
    solver : str or solver object, default="auto"
        "primal", "dual" and "compressed" give the coordinates: eigenvectors of XᵀX, of XXᵀ, or a subspace.
        For coefficients also "apg", "pg" (proximal gradient, accelerated or with backtracking), "paper"
        (Algorithm 1 to the letter) or an object of `lrml.solvers`; of these only "apg" for losses and unknown
        labels.
    max_iter : int, optional
        Most iterations: 5000 by default, or 1000 where every iteration reads the rows.
    tol : float, default=1e-4
        Upper limit of the estimated gap (F − F*) / F of the objective; docs/solver.md.
    threshold : float, array of shape (L,), "auto" or `lrml.thresholds.Cut`, optional
        A label is predicted if its score is at least this; by default 0.5 for the squared loss, 0 for others.
        A `Cut` is chosen by ``fit``, for its metric, on scores of rows left out. "auto" is `Cut()`, for
        micro-F1.
    calibrate : {"sigmoid", "isotonic"}, optional
        Make probabilities of scores, for ``predict_proba``, by the scores of rows left out, with a common
        curve of this kind; docs/selection.md. By default only the logistic loss has probabilities, its own.
    prune : int or "auto", optional
        Keep so many coefficients, the largest, as by `pruned`; without a penalty on singular values labels
        are then fitted in blocks, and W (d × L) never exists as a whole. "auto" keeps as few as
        predict rows left out as well (docs/text.md), if X is sparse and the model not small anyway.
    warm_start : bool, default=False
        Start from the coefficients of the last ``fit``; not with a kernel.
    callback : callable, optional
        Called with an `lrml.solvers.IterationInfo` before the first iteration and after each; true stops.
    device : str, optional
        Such as "cuda": compute there, and bring the model back to NumPy. By default where X is.
    verbose : int, default=0

    Attributes
    ----------
    coef_, intercept_ : arrays of shape (L, d) and (L,)
        Wᵀ and b. A label without a positive example has zero coefficients and an intercept of −1 (−100 for
        margins), below real candidates. For kernels, ``dual_coef_`` instead: ``Σ_i k(x, x_i) dual_coef_i``
        over ``X_fit_``.
    factors_, singular_values_, rank_, nbytes_, n_weights_
        Thin SVD W = U diag(s) Vᵀ (behind the kernel, if any), s, their number, and the bytes of a model. Of a
        pruned one only the bytes and the number of coefficients kept; ``coef_`` is then sparse.
    theta_, alpha_, space_, ridge_, loss_, threshold_, kernel_
        What is in use.
    objective_, residual_, converged_, status_, n_iter_, history_, n_passes_
        How the fit ended, see `lrml.solvers.SolverResult`; how often ``fit_blocks`` read the blocks, if
        often.
    compression_gap_, kernel_gap_ : float
        What a subspace (by an estimate), or left-out directions of a kernel (at most), add to the objective.
    classes_, unseen_labels_, n_features_in_, feature_names_in_, sparse_output_, flat_output_, fitted_
        Names; labels without a positive example; the form of Y; the record of all these.

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

    theta: int | float | str | None = None
    alpha: float | None = None
    _: KW_ONLY
    ridge: float | None = None
    space: str | None = None
    loss: str = "squared"
    solver: str | Phase = "auto"
    threshold: CutLike = None
    calibrate: str | None = None
    prune: int | str | None = None

    def _spec(self, params: Parameters, rows: Rows) -> Spec:
        theta, alpha, ridge, space = params.theta, params.alpha, params.ridge, params.space
        squared = params.loss.name == "squared"
        if space is None:  # a given alpha is that of the paper
            free = squared and alpha is None and params.solver in ("auto", *ROADS)
            # With unknown labels, a subspace is made for a penalty on the coefficients only.
            free = free and (rows.all_known or road_of(rows, str(params.solver)) != "compressed")
            space = "predictions" if free else "coefficients"
        if theta is None:
            theta = USUAL_THETA[space] if squared else 0.1
        if theta != "auto":
            theta = check_count("theta", theta, 0, rows.model_shape)
        # The objective of the paper has no ridge; and the trace norm of W limits all singular values.
        bare = (squared and alpha is not None) or (theta == 0 and alpha != 0)
        if ridge is None and space == "coefficients" and bare:
            ridge = 0.0
        return Spec.of(self, params, theta=theta, space=space, alpha=alpha, ridge=ridge)


@with_constructor
class MLTrace(LabelModel, Kernelised, Iterated, Member):
    """Multi-label learning with the trace norm: `LRML` with theta = 0, and a proof of how close a fit is.

    On the coefficients, the default, the problem is convex: with the squared loss and all labels known a
    duality gap proves the distance from the optimum, and the solver stops on it. On the predictions a fit is
    exact.

    Parameters
    ----------
    alpha : float, optional
        Strength of the trace norm. By default it follows the data as in `LRML`.
    ridge : float, default=0.0
        Strength of an additional squared Frobenius norm.
    space : {"coefficients", "predictions"}, default="coefficients"
    loss, fit_intercept, kernel, gamma, degree, coef0, solver, max_iter, tol, threshold, calibrate, …
        As in `LRML`, to the last, but there is no ``prune``; ``tol`` limits ``gap_``.

    Attributes
    ----------
    gap_ : float
        (primal − dual) / primal: an upper bound of the relative distance of the objective from its minimum;
        with other losses and unknown labels the estimate that ``tol`` limits. In a subspace, that from the
        minimum inside, plus ``compression_gap_``, which is an estimate.
    coef_, intercept_, factors_, rank_, alpha_, ridge_, objective_, status_, …
        As in `LRML`.

    References
    ----------
    Y. Amit, M. Fink, N. Srebro, S. Ullman. Uncovering Shared Structures in Multiclass Classification. ICML
    2007.

    Examples
    --------
    >>> from lrml import MLTrace
    >>> from lrml.datasets import load_yeast
    >>> model = MLTrace(alpha=20.0).fit(*load_yeast().train)
    >>> model.rank_ < 14 and model.gap_ < 1e-4
    True
    """

    alpha: float | None = None
    _: KW_ONLY
    ridge: float = 0.0
    space: str = "coefficients"
    loss: str = "squared"
    solver: str | Phase = "auto"
    threshold: CutLike = None
    calibrate: str | None = None

    def _spec(self, params: Parameters, rows: Rows) -> Spec:
        strengths = {"alpha": params.alpha, "ridge": params.ridge}
        return Spec.of(self, params, space=params.space, certified=True, **strengths)


@with_constructor
class MLFro(LabelModel, Kernelised, Iterated, Member):
    """Multi-label learning with the squared Frobenius norm alone, alpha · ‖W‖²_F: ridge regression.

    For the squared loss the solution is exact; ``lrml_path(X, Y, thetas=0, alphas=0, ridges=[…])`` gives many
    ridges at the price of one.
    With ``loss="logistic"`` it is one-vs-rest logistic regression, with "squared_hinge" one-vs-rest
    `LinearSVC` with a free intercept, both with C = 1 / (2 alpha). These, and fits with unknown labels, solve
    label by label: wide sparse text (200,000 features) is no obstacle.

    Parameters
    ----------
    alpha : float, optional
        0 is the least-squares solution of smallest norm. By default the default ridge of `LEML`.
    tol : float, default=1e-5
        As in `LRML`, if there are iterations. With a small alpha, probabilities may then be off by a few
        percent; 1e-12 agrees with scikit-learn.
    loss, fit_intercept, kernel, gamma, degree, coef0, max_iter, threshold, calibrate, prune, …
        As in `LRML`, to the last; and so are the attributes.

    Examples
    --------
    >>> from lrml import MLFro
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> round(MLFro(alpha=10.0).fit(*yeast.train).score(*yeast.test), 3)
    0.755
    """

    alpha: float | None = None
    _: KW_ONLY
    loss: str = "squared"
    threshold: CutLike = None
    calibrate: str | None = None
    prune: int | str | None = None

    def _spec(self, params: Parameters, rows: Rows) -> Spec:
        return Spec.of(self, params, ridge=params.alpha, tols=(1e-4, 1e-5))

    def _solved(self, rows: Rows, params: Parameters) -> Fitted:
        found = super()._solved(rows, params)
        return replace(found, alpha=found.ridge, ridge=None)  # its only strength is the ridge
