"""LRML: a penalty on the tail of the singular values; LRMLCV, which chooses its parameters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.core.checks import check_count
from lrml.core.coordinates import ROADS, RidgeRegressions, coordinates_of, spectrum_of
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.estimators._defaults import loss_scale, noise_along
from lrml.estimators._grid import Grid, GridPoint, chains_from, chains_of, resolve_thetas, ridges_leaving
from lrml.estimators._kernels import KernelLike
from lrml.estimators._member import Member
from lrml.estimators._parameters import CHECKS, Parameters, check_theta_or_auto, optional
from lrml.estimators._spec import WEAK, Spec, sums_suffice
from lrml.estimators.search import (
    MANY_ROWS,
    BlockSearch,
    Comparison,
    Family,
    FoldedSearch,
    Params,
    Piece,
    Plan,
    Search,
    Start,
    Visit,
    extending,
    fit_ridge,
    once,
    prediction_pieces,
    ridge_plan,
    shrinking,
    tail_plan,
)
from lrml.solvers import Callback, Chain, Phase, solve_chain

# Default shares of free singular values: of the coefficients with the squared loss, with the others, and of
# the predictions.
_THETA, _ROW_THETA, _PREDICTIONS_THETA = 0.2, 0.1, 0.05
# Default grids. If the moments suffice, a candidate costs a fraction of a fit, otherwise a whole fit.
_RIDGE_SHARES, _ROW_RIDGE_SHARES = (1.0, 0.9, 0.6, 0.4, 0.2), (0.6, 0.4, 0.2)
# Candidates without the penalty cost almost nothing, and with them the search is never below ridge
# regression.
_BARE_RIDGE_SHARES = (0.995, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
_ROW_THETAS = (0.0, 0.05)
_N_ALPHAS = 10
# Where a search decides by itself what to try, candidates are solved only as well as it needs.
_MAX_ITER, _TOL, _ROUGH_TOL = 500, 1e-4, 1e-3
# Alphas of fits of their own: how many, the strongest as a multiple of the noise, the ratio of neighbours.
# Beside a ridge the best alpha is smaller, and matters less.
_NOISE_SHARE = 0.2  # left by the ridge that marks the direction along which noise is measured
_BESIDE_RIDGE, _ALONE = (3, 1.0, 3.0), (4, 3.0, 2.0)
# The next alpha, as a multiple, if every candidate is a fit of its own and small models are sought.
_STRONGER = 2.0
# The weakest ridge beside the penalty then, as a share of the usual one; without any, fits take long.
_LEAST_RIDGE = 0.25
# Gradients of the other losses relative to that of the squared loss, at constant scores.
_SLOPES = {"squared": 1.0, "logistic": 0.5, "squared_hinge": 2.0}


class LRML(Member):
    """Low-rank multi-label learning by penalising only the tail of the spectrum.

    Finds a stationary point W (d × L) of

    ::

        ‖Y − 1bᵀ − XW‖²_F + alpha · Σ_{j > theta} σ_j(W) + ridge · ‖W‖²_F,    σ_1 ≥ σ_2 ≥ …

    with a free intercept b, or with another loss in place of the squared error. The loss is a sum over the
    known labels of all examples, not a mean. theta = 0 is the trace norm;
    alpha = 0 is (ridge) least squares; alpha → ∞ is least squares of rank at most theta. In between the
    problem is not convex: a fit ends near the objective of a stationary point, which need not be the best.
    Features may have any scale; a warning names those that differ by more than 1e8.

    Cost: with the squared loss and all labels known O(n d² + d³ + d² L) once, then O(dL min(d, L)) per
    iteration, independent of n; memory 3 d² + O(dL) numbers beside the data. Otherwise an iteration also
    takes a few passes over the rows, in blocks, O(ndL) each. With more features than rows, and for kernels,
    an n × n matrix takes the place of the d × d one: O(n² d + n³ + n² L), memory 4 n² + O(nL). Where n and d
    are both large, a subspace of r ≈ 4L + 128 dimensions takes 15 to 30 passes over the nonzeros with L
    columns, and memory O(r min(n, d) + k (d + L)) for a solution of rank k. Of more than 512 labels it takes
    theta + 64 directions in place of L (and further ones where alpha is small), and O(r L) numbers more.

    Parameters
    ----------
    theta : int, float or "auto", optional
        How many leading singular values stay free. An int counts them; a float in [0, 1] is a share of the
        number of labels (rounded, at most min(d, L)). Mind the type: 1 means one value, 1.0 all of them. By
        default 0.2 with the squared loss, and 0.1 with the others, where free values overfit sooner.
        "auto" takes the elbow of the energy of the least-squares predictions, see Notes.
    alpha : float, optional
        Strength of the penalty, the paper's C. (scikit-learn reads ``C`` as an inverse strength, hence the
        name.) By default it follows the data, see Notes.
    ridge : float, optional
        Strength of an additional squared Frobenius norm, which also shrinks the free singular values. Not in
        the paper. By default 0 where theta is 0, and beside a given alpha with the squared loss: that is the
        objective of the paper. Otherwise it follows the data: half of the default ridge of `LEML`. With
        another loss and without any, nothing limits the free
        singular values, and separable labels have no optimum; a fit that seems to have converged is then
        compared with a second one, which starts from the solution without the penalty.
    loss : {"squared", "logistic", "squared_hinge"}, default="squared"
        What is summed over labels and examples, see `lrml.core.losses`. "squared" with all labels known needs
        one pass over the data; otherwise every iteration takes one, in blocks of rows.
    fit_intercept : bool, default=True
        Fit b. The paper has none.
    kernel : str or callable, default="linear"
        A kernel k(x, z) in place of the inner product of two rows, as in scikit-learn's `KernelRidge`:
        "rbf", "poly", "laplacian", "cosine", …; a function of two rows; or "precomputed": X holds
        k(x_i, x_j) for all pairs of training rows in ``fit`` (n × n), and k(x, x_i) with the training rows
        later. It must be positive semi-definite, and needs the squared loss with all labels known. The rows
        are centred in the space behind the kernel if there is an intercept.
    gamma : float, optional
        Of "rbf", "laplacian", "poly" and "sigmoid", 1/d by default, and of "chi2", 1 by default.
    degree : float, default=3
        Of "poly".
    coef0 : float, default=1
        Of "poly" and "sigmoid".
    solver : {"auto", "primal", "dual", "compressed", "apg", "pg", "paper"} or solver object, default="auto"
        "auto": a proximal step and least squares on either side of W, in turn, see
        `lrml.solvers.Alternating`. "apg": monotone accelerated proximal gradient. "pg": proximal gradient
        with backtracking. "paper": Algorithm 1 to the letter; see `lrml.solvers.Algorithm1`, an instance of
        which may be passed to set t₀, γ and the rule. For other losses, and if labels are unknown, "auto" is
        proximal Newton (Newton's method label by label, if alpha is 0), and "apg" the only other method.
        "primal", "dual" and "compressed" are "auto" with given coordinates: eigenvectors of XᵀX, of XXᵀ, or a
        subspace (`lrml.core.subspace`). By itself "auto" takes the smaller matrix up to 3,000 rows or
        features, and beyond the cheapest of the three, by the number of multiplications.
    max_iter : int, optional
        Most iterations (for "paper": the number of iterations). By default 5000, or 1000 where every
        iteration reads the rows.
    tol : float, optional
        Upper limit of the estimated gap (F − F*) / F, with F* the objective to which the iteration converges,
        see `lrml.solvers.Point`; 1e-4 by default. If the moments suffice, a fit also ends when ten steps
        together gain less than 1 % of it. If every iteration reads the rows, scores are in single precision,
        unless ``tol`` is below 1e-5, or features differ by more than 1e3 in scale or are far from zero
        relative to their spread. For predictions on large data 0.01 is often enough.
    targets : {"binary", "real"}, default="binary"
        "binary" insists on 0/1 labels; "real" accepts any finite numbers, and ``predict`` returns scores.
    threshold : float, array of shape (L,) or "auto", optional
        A label is predicted if its score is at least this; by default 0.5 for the squared loss, whose scores
        estimate 0/1, and 0 for the others, whose scores are margins.
        "auto" chooses it on scores of unseen rows: leave-one-out scores where they are in closed form (as for
        ``leave_one_out_scores``, but not in a subspace), otherwise those of a fifth of the rows by one more
        fit, to the others.
    warm_start : bool, default=False
        Start from the coefficients of the last ``fit``.
    callback : callable, optional
        Called with an `lrml.solvers.IterationInfo` for the starting point (iteration 0) and after every
        iteration; a true return value stops.
    device : str, optional
        Where to compute: "cuda" or "cuda:1" (torch, or CuPy where torch is missing) takes NumPy arrays and
        sparse matrices to a GPU, and the model back to NumPy. None computes where X is: arrays of torch or
        CuPy stay on their device, and so does the model, if scikit-learn's ``array_api_dispatch`` is on.
        See docs/gpu.md.
    verbose : int, default=0
        1 shows progress on standard error: a bar in a terminal, a line every few seconds elsewhere.

    Attributes
    ----------
    coef_ : array of shape (L, d)
        Wᵀ, in scikit-learn's orientation; for the linear kernel only. Beyond 2²⁴ numbers it is made from
        ``factors_`` at each access.
    dual_coef_ : array of shape (n, L)
        For other kernels: scores are Σ_i k(x, x_i) dual_coef_i + intercept_. Made from ``factors_`` at each
        access.
    X_fit_ : array or sparse matrix of shape (n, d)
        For other kernels: the training rows x_i (unless precomputed).
    intercept_ : array of shape (L,)
        b. A label without a positive example has zero coefficients and the intercept −1 (−100 for margins),
        so that it does not rank above real candidates. With another loss, or unknown labels, a label that all
        examples have gets zero coefficients and the best intercept, 1 (100 for the logistic loss).
    factors_ : Factors
        Thin SVD W = U diag(s) Vᵀ. For a kernel U diag(s) Vᵀ is ``dual_coef_``, and UᵀKU = I with the
        (centred) kernel matrix K of the training rows: s are singular values in the space behind the kernel.
    singular_values_ : array of shape (rank_,)
    rank_ : int
        Number of positive singular values. Small ones may not have reached zero yet: a smaller ``tol`` can
        lower the rank a little.
    nbytes_ : int
        Bytes that predictions need, (min(k (d + L + 1), d L) + L) times those of a number, k = ``rank_``:
        the factors, or their product if that is smaller, and the intercepts. For a kernel, d is the number
        of training rows, and their own bytes come on top.
    kernel_ : Kernel
        For other kernels: the kernel with its parameters at the time of the fit, which predictions use.
    kernel_gap_ : float
        For other kernels: how much the directions of the kernel matrix that were left
        out raise the objective at most, over the objective; 0 if none were, else up to 1e-4, see
        `lrml.core.kernels.LeftOut`. Only fits with a ridge of 2,000 rows or more leave out any.
    compression_gap_ : float
        If a subspace was used: an estimate of how far the objective is above that without one, over the
        objective. It is extended until that is at most 5e-4, or a warning tells. For other losses it is
        a bound that neglects the curvature of the loss, or twice what the last extension has gained, if that
        is less; 1e-3 is enough, or 5 times ``tol``.
    theta_ : int
        The number of free singular values that ``theta`` stands for.
    alpha_, ridge_ : float
        The strengths in use.
    n_iter_ : int
    n_passes_ : int
        How often ``fit_blocks`` has read the blocks, if once does not suffice.
    objective_ : float
        At the returned W and its best intercept (which for an unseen label is 0, not −1).
    residual_ : float
        L‖W − prox_{1/L}(W − ∇f(W)/L)‖_F / ‖∇f(0)‖_F, L the Lipschitz constant of ∇f: how nearly W is
        stationary, mainly in the directions in which X varies most.
    converged_ : bool
        Whether ``tol`` was reached (or the solution is exact).
    status_ : str
        How the solver ended, with a remedy if one is needed.
    history_ : dict of arrays
        iteration, phase, objective, gap (which ``tol`` limits; infinite if the phase has none), residual (of
        an element of the subdifferential), rank, seconds.
    classes_ : array of shape (L,)
        Label names if Y was a frame, else 0, …, L − 1; the two classes if y was 1-D. Numbers are where X was.
    loss_ : str
        The loss of the fit.
    threshold_ : float or array of shape (L,)
        If ``threshold="auto"``: where ``predict`` cuts.
    sparse_output_, flat_output_ : bool
        Whether Y was sparse, or 1-D; then ``predict`` returns a sparse matrix, or a 1-D array.
    unseen_labels_ : bool array of shape (L,)
        Labels without a positive training example.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    ``theta="auto"`` is a heuristic. With A = (Λ + ridge)^(−1/2) QᵀXᵀY in the eigenvectors of XᵀX = QΛQᵀ,
    least squares of rank theta loses T(theta) = Σ_{j>theta} σ_j(A)² of the energy of its predictions; the
    elbow is the theta at which T(theta)/T(0) is farthest below the line 1 − theta/m, m the number of values.
    Unknown labels count as absent, and the squared loss is used whatever ``loss`` is. The theta that
    minimises the paper's bound is useless here: on all data we tried it is near min(d, L).

    The default alpha is ‖G‖_F √(ρ/n), with G (n × L) the slopes of the loss at the best
    constant scores, and ρ the ridge with which ridge regression of G predicts best (see `LEML`). If labels
    were independent of X, the gradient along a direction of X whose eigenvalue is ρ would have about this
    length: the penalty keeps out what noise alone would bring. Multiplying X by a constant does not change
    the predictions; with weights, n is that of `LEML`.

    References
    ----------
    C. Xu, T. Liu, D. Tao, C. Xu. Local Rademacher Complexity for Multi-label Learning. IEEE Transactions on
    Image Processing 25(3), 2016.

    Examples
    --------
    >>> from lrml import LRML
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> model = LRML(theta=3, alpha=20.0).fit(*yeast.train)
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


class _TailFits:
    """Fits of candidates in spectral coordinates; on the home problem, later ones start from earlier ones."""

    def __init__(self, tol: float, max_iter: int, home: SpectralProblem | None = None) -> None:
        self.tol, self.max_iter = tol, max_iter
        self.home = None if home is None else home.features
        self.known: dict[GridPoint, tuple[Any, Any]] = {}  # solutions at home

    def pieces(
        self, problem: SpectralProblem, chosen: Sequence[tuple[int, Params]], visit: Visit
    ) -> list[Piece]:
        """Return pieces of work as `Family` wants them."""
        points = {place: GridPoint(**{"theta": 0} | params) for place, params in chosen}
        problems = {ridge: problem.with_ridge(ridge) for ridge in {point.ridge for point in points.values()}}
        bare = [i for i, point in points.items() if point.alpha == 0 or point.theta >= problem.shape[1]]
        work: list[Piece] = [partial(fit_ridge, problems[points.pop(i).ridge], i, visit) for i in bare]
        known = self.known if problem.features is self.home else {}
        chains = chains_from(points, known) if known else chains_of(points, points)
        return work + [partial(self._fit, problems[ridge], chain, visit) for ridge, chain in chains]

    def _fit(self, problem: SpectralProblem, chain: Chain, visit: Visit) -> None:
        for place, found in solve_chain(problem, chain, tol=self.tol, max_iter=self.max_iter):
            if problem.features is self.home:
                point = GridPoint(chain.theta, found.penalty.alpha, problem.ridge)
                self.known[point] = found.left, found.right
            slopes = found.penalty.slopes(found.sigma)
            extra = 0.5 * slopes / found.sigma
            visit(place, RidgeRegressions(found.left, found.right, problem.ridge, extra))


class TailSearch(BlockSearch):
    """Base of the searches over alpha and ridge, and perhaps theta."""

    _names: tuple[str, ...] = ("theta", "alpha", "ridge")
    _row_tol = _ROUGH_TOL

    def _grid_thetas(self, data: Rows, params: Parameters) -> list[int]:
        """Return the counts of free singular values."""
        raise NotImplementedError

    def _check_shapes(self, data: Rows, params: Parameters) -> None:
        super()._check_shapes(data, params)
        params.thetas = self._grid_thetas(data, params)

    def _points(self, data: Rows, params: Parameters) -> list[GridPoint]:
        """Return the whole grid."""
        problem = coordinates_of(data, fit_intercept=params.fit_intercept).problem
        ridges = ridges_leaving(problem, _RIDGE_SHARES) if params.ridges is None else params.ridges
        count = params.n_alphas or _N_ALPHAS
        grid = Grid(params.thetas, params.alphas, ridges, count, params.alpha_ratio)
        if params.space == "predictions":  # alphas are in units of these, and the same problem has no ridge
            units = [(ridge, problem.with_ridge(ridge).of_predictions) for ridge in ridges]
            grid = grid._replace(ridges=[0.0])
            points = [point._replace(ridge=ridge) for ridge, own in units for point in grid.points(own)]
        else:
            points = grid.points(problem)
        if params.alphas is None and params.ridges is None:
            points += [GridPoint(0, 0.0, ridge) for ridge in ridges_leaving(problem, _BARE_RIDGE_SHARES)]
        return points

    def _decides(self, params: Parameters) -> bool:
        """Whether the search decides what to try: no grid is given."""
        given = (params.alphas, params.n_alphas, params.alpha_ratio)
        return all(value is None for value in given) and len(params.ridges or [0.0]) == 1

    def _search(self, comparison: Comparison, params: Parameters) -> Search:
        closed = params.cv == "loo" and self._decides(params)
        if params.space is None:
            params.space = "predictions" if closed else "coefficients"
        if not (closed and params.space == "predictions"):
            return super()._search(comparison, params)
        data, given = comparison.data, vars(self).get("thetas", [0])
        return FoldedSearch(
            comparison,
            Family(self._ridges_alone(data, params), prediction_pieces),
            fit_intercept=params.fit_intercept,
            names=self._names,
            thetas=None if given is None else params.thetas,
            is_free=params.ridges is None,
            wants_small=params.rule in ("one_standard_error", "smallest"),
            random_state=params.random_state,
        )

    def _ridges_alone(self, data: Rows, params: Parameters) -> Plan:
        def candidate(ridge: float) -> Params:
            return self._as_params(GridPoint(0, 0.0, ridge))

        if params.ridges is not None:
            return once(map(candidate, params.ridges))
        return ridge_plan(coordinates_of(data, fit_intercept=params.fit_intercept).problem, candidate)

    def _family(self, data: Rows, params: Parameters) -> Family:
        max_iter = _MAX_ITER if params.max_iter is None else params.max_iter
        problem = coordinates_of(data, fit_intercept=params.fit_intercept).problem
        if params.space == "predictions":
            return Family(once(map(self._as_params, self._points(data, params))), prediction_pieces)
        if not self._decides(params):
            plan = once(map(self._as_params, self._points(data, params)))
            return Family(plan, _TailFits(_TOL if params.tol is None else params.tol, max_iter).pieces)
        ridge = None if params.ridges is None else params.ridges[0]
        plan = tail_plan(Start.of(problem, sorted(params.thetas), ridge), self._as_params)
        tol = _ROUGH_TOL if params.tol is None else params.tol
        return Family(plan, _TailFits(tol, max_iter, problem).pieces)

    def _as_params(self, point: GridPoint) -> Params:
        return {name: getattr(point, name) for name in self._names}

    def _refits(self, data: Rows, params: Parameters) -> tuple[Plan, Callable[[Params], Any]]:
        centred = {"fit_intercept": params.fit_intercept}
        problem, ridges, alphas = spectrum_of(data, **centred), params.ridges, params.alphas
        if ridges is None:
            scale = loss_scale(data, params.loss, **centred)
            ridges = [scale * ridge for ridge in ridges_leaving(problem, _ROW_RIDGE_SHARES)]
        count, multiple, ratio = _BESIDE_RIDGE if any(ridges) else _ALONE
        count = params.n_alphas or count
        if alphas is None and params.alpha_ratio is None:
            noise = noise_along(data, params.loss, problem.ridge_leaving(_NOISE_SHARE), **centred)
            alphas = [multiple * noise / ratio**step for step in range(count)]
        given = (params.alphas, params.n_alphas, params.alpha_ratio)
        # Few held-out rows tell little; without any penalty, separable labels have no optimum.
        staged = data.X.shape[0] >= MANY_ROWS and (params.ridges is None or len(ridges) == 1) and all(ridges)
        plan: Plan
        if staged and alphas is not None and all(value is None for value in given):
            beside = [alpha for alpha in alphas if alpha > 0]
            start = Start(ridges, lambda point: beside, sorted(params.thetas), _LEAST_RIDGE)
            plan = tail_plan(start, self._as_params)
        else:
            points = Grid(params.thetas, alphas, ridges, count, params.alpha_ratio).points(problem)
            if alphas is None:  # alpha_max was that of the squared loss
                points = [p._replace(alpha=_SLOPES[params.loss.name] * p.alpha) for p in points]
            elif all(value is None for value in given) and all(ridges):
                # Without the penalty fits are cheap, and with them the search is never below MLFro.
                points = [GridPoint(0, 0.0, ridge) for ridge in sorted(ridges, reverse=True)] + points
            names = [name for name in ("ridge", "alpha") if getattr(params, f"{name}s") is None]
            plan = extending(list(map(self._as_params, points)), names)
        if params.rule == "smallest" and params.alphas is None:
            least = min(alphas or [0.0])
            plan = shrinking(plan, lambda one: one | {"alpha": max(_STRONGER * one["alpha"], least)})
        return plan, lambda candidate: None


class LRMLCV(TailSearch):
    """`LRML` with theta, alpha and ridge chosen by scores of rows that the model has not seen.

    With the squared loss and all labels known, candidates are judged by leave-one-out scores, which have a
    closed form: one decomposition of all rows, and no folds. The search decides what to try. First come
    ridges alone; then alphas, beside half of the best ridge; then, if the penalty has gained anything, no
    ridge and the whole one; and if it has gained more than one standard error, other thetas. (With one given
    ridge, it begins with alphas.) A best ridge or alpha on the edge of those tried is followed beyond it.
    Leave-one-out scores are exact without the penalty, and a little too good with it. So a candidate with it
    must lead the best one without by more than one standard error, and must lead on folds as well: on one to
    three of five, until the difference is clear.

    A grid is tried as a whole. It takes any of ``alphas``, ``n_alphas``, ``alpha_ratio`` and several
    ``ridges``; the others have the defaults below. If the best of five or more given alphas or ridges is the
    first or last, and clearly better than the next, a warning says so. Without a candidate with an exact
    score nothing is confirmed on folds.

    For other losses, and with unknown labels, every candidate is a fit of its own, warm-started. From 3,000
    rows on, it is judged on one held-out fifth, and the search decides what to try as above, without folds;
    beside the penalty there is always a ridge. With fewer rows there is a small grid on five folds,
    ridges alone among it, and a best ridge or alpha on its edge is followed beyond it.

    Cost: with the squared loss and all labels known O(n d² + d³ + d² L) once, as for a fit; then O(dL min(d,
    L)) per iteration and O(mk (d + L)) for each candidate of rank k, judged on m rows; up to three more
    decompositions to confirm the choice. Memory 3 d² + O(m (d + L)) numbers beside the data, with n in place
    of m if ``threshold="auto"``. A number of folds takes one decomposition per fold. Otherwise one fit of
    `LRML` per candidate and fold. Rows that do not fit into memory: ``fit_blocks``.

    Parameters
    ----------
    thetas : sequence of int or float, optional
        As in `LRML`. By default 0 (the trace norm), 5, 10, 20 and 40 % of the labels; 0 and 5 % if every
        candidate is a fit of its own. Without a grid, alphas are tried with the least of them.
    alphas : sequence of float, optional
        In a grid by default ``n_alphas`` log-spaced values, which act on the largest singular value of the
        tail like ridges that leave 5 to 98 % of the effective directions; and 0, if ``ridges`` is None too.
        If every candidate is a fit of its own, 1, 1/3 and 1/9 times ‖G‖_F √(ρ/n), as in the Notes of `LRML`,
        but with the ρ that leaves 20 % of the effective directions; without a ridge 3, 1.5, 0.75 and 0.375
        times.
    ridges : float or sequence of float, optional
        In a grid by default 0 and the ridges that leave 90, 60, 40 and 20 % of the effective directions
        Σ λ_i / (λ_i + ridge), λ_i the eigenvalues of XᵀX, so they do not depend on the scale of the features;
        with alpha = 0, 13 ridges. If every candidate is a fit of its own, 60, 40 and 20 %, times the
        curvature of the loss relative to that of the squared loss. A single one is taken as it is.
    n_alphas : int, optional
        10 by default in a grid; 3 if every candidate is a fit of its own, or 4 without a ridge.
    alpha_ratio : float, optional
        If given, alphas go instead from `lrml.estimators.alpha_max` of the theta and ridge at hand down to
        ``alpha_ratio`` times that.
    loss : {"squared", "logistic", "squared_hinge"}, default="squared"
    fit_intercept : bool, default=True
    kernel, degree, coef0
        As in `LRML`. If "precomputed", splits take rows and columns.
    gammas : float or sequence of float, optional
        Of the kernels "rbf", "laplacian", "chi2", "poly" and "sigmoid". Several are compared before anything
        else, each by the leave-one-out scores of its best ridge regression on at most 2,000 rows, drawn at
        random. By default a half, 1 and 2 times one over the median of what gamma multiplies (for "rbf" the
        squared distance of two rows); a best one on the edge is followed beyond it, and the smallest of
        those as good as the best is taken.
    targets : {"binary", "real"}, default="binary"
        As in `LRML`. Folds of real targets are random.
    cv : "loo", int, float, splitter or iterable, optional
        "loo" stands for leave-one-out scores, which need the squared loss with all labels known. They are
        compared on at most m = max(1500, 2¹⁹ / L) rows, drawn at random. Or a number of folds
        (`lrml.model_selection.MultilabelStratifiedKFold`), a held-out share in (0, 1), a splitter of
        scikit-learn, or (train, test) row numbers. By default "loo" where it is possible, 0.2 where fits work
        in a subspace (see ``solver`` of `LRML`); where every candidate is a fit of its own, 0.2 from 3,000
        rows on, and 5 below.
        Pass a splitter if rows come in groups, or repeat: leave-one-out scores would know the answer.
    scoring : str, callable, list of these or None, default=None
        A metric of `lrml.metrics`: "precision_at_1" (any number), "average_precision", "average_auc",
        "hamming_loss", "micro_f1", "macro_f1"; any scorer of scikit-learn, by name ("f1_micro", "roc_auc", …)
        or as an object; or a function of (Y, scores), larger for better scores. None is "average_precision",
        "r2" if the targets are real, and the loss itself for a single label, where there is nothing to rank.
        "average_precision", a name in both, means ours, the mean over the examples. A callable with three
        positional arguments without a default is a scorer: it gets (model, X, Y) of the held-out rows, where
        the model predicts for exactly these rows, and Y is dense. A function gets a sparse Y if y is sparse.
        Several threads may call either at a time. Unknown labels are 0 in Y and have scores below all others.
        With a list, one search judges by each metric, the first chooses the model, and ``best_estimators_``
        has one for each.
    rule : {"best", "one_standard_error", "smallest"} or callable, default="best"
        "one_standard_error" takes, among the candidates whose mean is within one standard error of the best,
        the one of least rank, and among those the one with the strongest penalty. "smallest" takes the one
        with the fewest bytes (``nbytes_``), and among those the best; unless there is a grid, the search then
        also looks for smaller models, until they are worse than that. A function gets ``cv_results_`` (with
        one metric, called "score") and returns the index of a candidate, which is not confirmed on folds.
    abandon : bool, default=True
        Drop hopeless candidates after the first fold, if there are several: those that the leader beats, by
        each metric, by more than three standard errors of the paired difference over the held-out rows.
    threshold : float, array of shape (L,), "auto" or None, default=None
        As in `LRML`; "auto" takes the best cut for the held-out scores of the chosen candidate: for its
        leave-one-out scores of all rows, unless there are folds.
    max_iter, tol
        As in `LRML`. If the moments suffice, candidates take 500 iterations at most by default, and a ``tol``
        of 1e-4 in a grid and 1e-3 without one; 1e-3 from 3,000 rows on if
        every candidate is a fit of its own.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds, and of the rows drawn where there are many. Pass an int for repeatable results.
    verbose : int, default=0
        1 shows progress on standard error: a bar in a terminal, a line every few seconds elsewhere.

    Attributes
    ----------
    best_params_ : dict
        With "gamma", if the kernel has one.
    best_score_ : float
        Mean of the held-out scores; greater is better (a loss has its sign changed). If the choice was
        confirmed on folds, the exact leave-one-out score of its rival plus its lead there.
    best_index_ : int
    best_estimator_ : LRML
        Fitted on all rows.
    best_estimators_, best_indices_ : dict
        If ``scoring`` is a list: the same by the name of each metric.
    cv_results_ : dict of arrays
        As in scikit-learn's searches: params, param_theta, param_alpha, param_ridge, split0_test_score, …,
        mean_test_score, std_test_score, rank_test_score; also n_splits_seen, mean_model_rank and
        mean_model_nbytes, the size of a model of that rank. Abandoned candidates have NaN on the splits they
        did not see, and rank behind all others. If the choice was confirmed on folds, confirmed_test_score
        has the exact leave-one-out score of its rival and, for the choice and those that the rule would have
        taken next, that score plus the lead on the folds; NaN elsewhere.
    gamma_results_ : dict of arrays
        If several gammas were compared: gamma and mean_test_score.
    n_splits_ : int
        1 for leave-one-out scores.
    refit_time_ : float
        Seconds of the final fit, which reuses the sums of the search.
    threshold_ : float, array or None
        Where ``predict`` cuts; setting ``threshold`` after ``fit`` has no effect.
    coef_, intercept_, factors_, singular_values_, rank_, n_iter_, objective_, residual_, converged_, status_
        Of ``best_estimator_``.
    nbytes_, theta_, history_, classes_, loss_, unseen_labels_, n_features_in_, feature_names_in_
        Of ``best_estimator_``.

    Examples
    --------
    >>> from lrml import LRMLCV
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> model = LRMLCV(random_state=0).fit(*yeast.train)
    >>> len(model.cv_results_["params"]) < 50, round(model.score(*yeast.test), 3)
    (True, 0.755)

    A whole grid, on folds:

    >>> model = LRMLCV(thetas=[0, 2, 4], n_alphas=8, cv=3, random_state=0).fit(*yeast.train)
    >>> len(model.cv_results_["params"]), round(model.score(*yeast.test), 3)
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
