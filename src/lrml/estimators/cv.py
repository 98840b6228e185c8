"""Searches: each chooses the parameters of a member of the family on rows that the model has not seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from lrml.core.coordinates import RidgeRegressions, coordinates_of, spectrum_of
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.estimators._defaults import loss_scale, noise_along, sums_suffice, usual_strengths
from lrml.estimators._grid import (
    Grid,
    GridPoint,
    chains_from,
    chains_of,
    resolve_ranks,
    resolve_thetas,
    ridges_leaving,
)
from lrml.estimators._kernels import KernelLike
from lrml.estimators._parameters import Parameters
from lrml.estimators.label_space import CPLST, check_all_known
from lrml.estimators.leml import LEML, usual_ranks
from lrml.estimators.lrml import LRML, MLFro, MLTrace
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
    SearchModel,
    Start,
    Visit,
    extending,
    fit_ridge,
    once,
    prediction_pieces,
    reduced_rank_pieces,
    ridge_pieces,
    ridge_plan,
    shrinking,
    tail_plan,
)
from lrml.solvers import Chain, solve_chain

# Default grids. If the moments suffice, a candidate costs a fraction of a fit, otherwise a whole fit.
_TAIL_RIDGE_SHARES, _ROW_RIDGE_SHARES = (1.0, 0.9, 0.6, 0.4, 0.2), (0.6, 0.4, 0.2)
# Candidates without the penalty cost almost nothing, and with them the search is never below ridge
# regression.
_BARE_RIDGE_SHARES = (0.995, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
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
        ridges = ridges_leaving(problem, _TAIL_RIDGE_SHARES) if params.ridges is None else params.ridges
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


# A default grid of searches of LRML with other losses.
_ROW_THETAS = (0.0, 0.05)
# Shares of effective directions left by the default alphas of MLFro if every candidate is a fit of its own.
_ROW_SHARES = (0.6, 0.4, 0.2)
# Default grid of LEML: shares of the labels, and multiples of the usual ridge.
_LEML_SHARES, _RIDGE_MULTIPLES = (0.4, 0.8), (3.0, 1.0, 0.3)
# From this many features on, that search compares on one held-out part instead of folds.
_MANY_FEATURES, _HELD_OUT = 5000, 0.2
# Default grid of CPLST: shares of the labels, and shares of effective directions left by the ridges.
_CPLST_SHARES, _RIDGE_SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0), (1.0, 0.9, 0.6, 0.3)


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


class MLTraceCV(TailSearch):
    """`MLTrace` with alpha (and ridge) chosen by scores of unseen rows: `LRMLCV` with theta = 0.

    On the coefficients, the default, alphas are judged by leave-one-out scores: docs/selection.md.

    Parameters
    ----------
    alphas : sequence of float, optional
        As in `LRMLCV`; 0 is among those tried by default.
    ridges : float or sequence of float, default=0.0
        None searches for a ridge too.
    space : {"coefficients", "predictions"}, default="coefficients"
        As in `MLTrace`; "predictions" is searched as in `LRMLCV`.
    n_alphas, alpha_ratio, loss, fit_intercept, kernel, gammas, targets, cv, scoring, rule, threshold, …
        As in `LRMLCV`.

    Attributes
    ----------
    gap_ : float
        As in `MLTrace`.
    best_params_, best_score_, best_estimator_, cv_results_, …
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


class LEMLCV(SearchModel):
    """`LEML` with rank and ridge chosen by scores of unseen rows.

    With the squared loss, all labels known and no alpha, one decomposition serves all candidates, judged as
    in `CPLSTCV`. Otherwise each of them is a warm-started fit, and ``cv=None`` stands for five folds, or,
    with more than 5,000 features and a metric that has a value for every row, for one held-out fifth.

    Parameters
    ----------
    ranks : sequence of int or float, optional
        As in `LEML`. By default 40 and 80 % of the labels, but at least 128 and 256, and at most 512 or
        min(d, L).
    alphas : sequence of float, optional
        By default 0 only.
    ridges : sequence of float, optional
        By default 3, 1 and 0.3 times the default of `LEML`; a best one on the edge is followed beyond it.
        Only 0 if alphas are given.
    max_iter, tol
        As in `LEML`.
    loss, fit_intercept, targets, cv, scoring, rule, abandon, threshold, random_state, device, verbose
        As in `LRMLCV`.

    Attributes
    ----------
    best_params_, best_score_, best_estimator_, cv_results_, …
        As in `LRMLCV`.

    Examples
    --------
    >>> from lrml import LEMLCV
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> round(LEMLCV(ranks=[4, 8], cv=3, random_state=0).fit(*yeast.train).score(*yeast.test), 2)
    0.75
    """

    _member = LEML

    def __init__(
        self,
        ranks: Any = None,
        alphas: Any = None,
        *,
        ridges: Any = None,
        loss: str = "squared",
        fit_intercept: bool = True,
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
        self.ranks = ranks
        self.alphas = alphas
        self.ridges = ridges
        self.loss = loss
        self.fit_intercept = fit_intercept
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

    def _check_shapes(self, data: Rows, params: Parameters) -> None:
        params.ranks = resolve_ranks(
            params.ranks, usual_ranks(_LEML_SHARES, data.model_shape), data.model_shape
        )
        super()._check_shapes(data, params)
        by_row = all(criterion.by_row for criterion in params.criteria)
        wide = data.X.shape[1] > _MANY_FEATURES
        if params.cv is None and by_row and wide and not self._in_coordinates(data, params):
            params.cv = _HELD_OUT

    def _in_coordinates(self, data: Rows, params: Parameters) -> bool:
        return sums_suffice(params.loss, data) and not any(params.alphas or ())

    def _family(self, data: Rows, params: Parameters) -> Family:
        return Family(self._plan(data, params), reduced_rank_pieces)

    def _refits(self, data: Rows, params: Parameters) -> tuple[Plan, Callable[[Params], Any]]:
        return self._plan(data, params), lambda one: one["rank"]

    def _plan(self, data: Rows, params: Parameters) -> Plan:
        alphas, ridges = params.alphas or [0.0], params.ridges
        follows_data = ridges is None and params.alphas is None
        if follows_data:
            _, usual = usual_strengths(data, params.loss, fit_intercept=params.fit_intercept)
            ridges = [multiple * usual for multiple in _RIDGE_MULTIPLES] if usual > 0 else [0.0]
        strengths = [
            {"alpha": alpha, "ridge": ridge}
            for alpha in sorted(alphas, reverse=True)
            for ridge in sorted(ridges or [0.0], reverse=True)
        ]
        candidates = [{"rank": rank} | one for rank in params.ranks for one in strengths]
        return extending(candidates, ("ridge",) if follows_data else ())


class CPLSTCV(BlockSearch):
    """`CPLST` with rank and ridge chosen by scores of unseen rows.

    The whole grid is tried. Leave-one-out scores are exact for the full rank, and estimates for lower ones: a
    choice among these is confirmed on folds as in a grid of `LRMLCV`.

    Cost: O(n d² + d³ + d² L) once, or once per fold; per ridge one decomposition of a min(d, L)² matrix,
    which serves all ranks; and O(mk (d + L)) for each candidate of rank k, judged on m rows.

    Parameters
    ----------
    ranks : sequence of int or float, optional
        By default 5, 10, 20, 40, 60, 80 and 100 % of the labels.
    ridges : float or sequence of float, optional
        By default 0 and those that leave 90, 60 and 30 % of the effective directions, see `LRMLCV`.
    kernel, gammas, degree, coef0, targets, cv, scoring, rule, abandon, threshold, random_state
        As in `LRMLCV`; and so are ``device`` and ``verbose``.

    Attributes
    ----------
    best_params_, best_score_, best_estimator_, cv_results_, …
        As in `LRMLCV`.

    Examples
    --------
    >>> from lrml import CPLSTCV
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> round(CPLSTCV(cv=3, random_state=0).fit(*yeast.train).score(*yeast.test), 2)
    0.75
    """

    _member = CPLST

    def __init__(
        self,
        ranks: Any = None,
        ridges: Any = None,
        *,
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
        random_state: int | np.random.RandomState | None = None,
        device: Any = None,
        verbose: int = 0,
    ) -> None:
        self.ranks = ranks
        self.ridges = ridges
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
        self.random_state = random_state
        self.device = device
        self.verbose = verbose

    def _check_shapes(self, data: Rows, params: Parameters) -> None:
        super()._check_shapes(data, params)
        check_all_known(data, "CPLSTCV", "LEMLCV or LRMLCV")
        params.ranks = resolve_ranks(params.ranks, _CPLST_SHARES, data.model_shape)

    def _family(self, data: Rows, params: Parameters) -> Family:
        ridges = params.ridges
        if ridges is None:
            ridges = ridges_leaving(coordinates_of(data, fit_intercept=True).problem, _RIDGE_SHARES)
        candidates = [{"rank": rank, "ridge": ridge} for ridge in ridges for rank in params.ranks]
        return Family(once(candidates), reduced_rank_pieces)
