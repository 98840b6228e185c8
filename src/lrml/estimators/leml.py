"""LEML: low-rank coefficients as a product of two factors, for many features and labels; LEMLCV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_random_state

from lrml._arrays import Array, namespace
from lrml._checks import check_count
from lrml.estimators._base import LinearMultiLabelModel
from lrml.estimators._fitted import Fitted
from lrml.estimators._fitting import (
    Solution,
    TrainingData,
    is_warm_start,
    nothing_to_learn,
    record,
    solver_progress,
    sort_labels,
    warn_of_subspace,
    warn_unless_converged,
    with_used,
)
from lrml.estimators._grid import resolve_ranks
from lrml.estimators._parameters import CHECKS, Parameters, optional
from lrml.estimators._space import (
    MOST_COMPRESSED,
    InSubspace,
    RidgeRegressions,
    Space,
    solve_extending,
    with_unseen,
)
from lrml.estimators._usual_ridge import usual_ridge
from lrml.estimators.search import Family, Params, Plan, SearchModel, extending, reduced_rank_pieces
from lrml.solvers import Callback
from lrml.solvers import leml as core

# Sweeps over the moments are cheap. If every sweep reads the rows, the default ended on bibtex about 0.1 %
# above the best objective found for the squared loss, and about 1 % above it for the other losses.
# Least squares with a ridge only converges fast: there, less accuracy ranks labels as well.
_TOL_MOMENTS, _TOL_ROWS, _TOL_RIDGE = 1e-4, 1e-3, 3e-3
_MAX_SWEEPS = 500
# Defaults are shares of the labels, or of this many if there are fewer: with few labels a rank below theirs
# saves little time and costs much quality.
_RANK_SHARE, _RANK_SHARES, _FEW_LABELS, _LARGEST_RANK = 0.8, (0.4, 0.8), 320, 512
_RIDGE_MULTIPLES = (3.0, 1.0, 0.3)
# From this many features on, a search compares on one held-out part instead of folds.
_MANY_FEATURES, _HELD_OUT = 5000, 0.2


class LEML(LinearMultiLabelModel):
    """Low-rank empirical risk minimisation for multi-label learning.

    Finds factors Z (d × k) and H (L × k) and intercepts b that minimise

    ::

        Σ_(i,l) known  w_i ℓ(y_il, x_iᵀ Z h_l + b_l) + ½ alpha (‖Z‖²_F + ‖H‖²_F) + ridge ‖ZHᵀ‖²_F,

    where ℓ is (y − s)² or another loss. Scores are X W + 1bᵀ with W = ZHᵀ. Because ½(‖Z‖² + ‖H‖²) is at least
    the trace norm of ZHᵀ, and equal to it for the best factors of a matrix, this is `LRML` with theta = 0 and
    a limit on the rank: the two agree once k is at least the rank of that solution. With alpha = 0, as by
    default, it is ridge regression of rank k. Unlike the others, LEML need not build anything of size d × L,
    so it suits problems with many features and labels.

    Cost: as in the notes; memory O((n + d + L) k) numbers beside the data, and for least squares what the
    decomposition takes, as in `LRML`.

    Notes
    -----
    The objective is convex in Z and in (H, b), but not jointly. A sweep improves one and then the other, and
    balances the factors by the singular value decomposition of their product; the objective never rises.

    - *Squared loss, all labels known, no alpha*: reduced-rank ridge regression in closed form, as in `CPLST`,
      from a decomposition of XᵀX or XXᵀ, or in a subspace where n and d are both large. Only where k is so
      small, compared with L, that sweeps over the rows cost less, it is as in the last case.
    - *The same with alpha, and d moderate*: on the second moments, in coordinates in which XᵀX is
      diagonal. Both half-steps have closed forms; that of Z is an elementwise quotient. Costs O(n d² + d³ +
      d² L) once, then O(dLk) per sweep. The start, a reduced-rank ridge regression, is deterministic.
    - *Otherwise*: a Newton step for Z by preconditioned conjugate gradients with the fast product of Yu et
      al., and one for every label's (h_l, b_l) with its own line search. Before that, a step along the last
      sweep is taken if it lowers the objective. A product with the Hessian costs O(nnz(X) k) and, for the
      labels, O(nk²) for the squared loss with all labels known, O(k) for each known label where fewer than a
      tenth are known, and O(nLk) else, block by block. A sparse X is centred without being densified. The
      start consists of the leading singular vectors of the gradient at W = 0, by subspace iteration from
      random directions (``random_state``).

    On a device (``device``) everything stays there, dense; a fit by rows keeps n × L second derivatives in
    single precision as well. All else is in double precision, as on the host, but for the products of
    conjugate gradients with the Hessian: they are in single precision, and never in TF32, unless the numbers
    of X are extreme. Random numbers come from the host, so that all devices start from the same point. The
    exact decomposition takes the place of a subspace, and few known labels cost as much as many.

    An ``alpha`` of at least ‖∇f(0)‖₂, the largest singular value of the gradient of the loss at W = 0, gives
    W = 0.

    The default ridge is the best one for ridge regression of the slopes of the loss at the best constant
    scores, 2(ȳ − y) for the squared loss, times the curvature of the loss relative to that of the squared
    loss. Multiplying X by a constant does not change the predictions. Best is what generalised
    cross-validation says: the least n ‖(I − H_ρ)G‖² / (n − 1 − 1.05 tr H_ρ)², H_ρ = X(XᵀX + ρ)⁻¹Xᵀ with X
    centred. Where n and d are both large, it is the least squared error on a fifth of the rows, by a fit to
    the others, of 32 sums of the slopes with random signs. Neither depends on ``random_state``. Why a ridge:
    the trace norm, the paper's only penalty, hardly shrinks leading directions, and these overfit wide text.

    Departures from the paper: the ridge; an intercept, which is not penalised; preconditioners; a line search
    for every label; balanced factors; closed forms on the moments.

    Parameters
    ----------
    rank : int or float, optional
        k. An int counts; a float in (0, 1] is a share of the labels (rounded, at least 1, at most min(d, L)).
        By default 80 % of the labels, but at least 256 and at most 512, or min(d, L) if that is less: with
        40 % even the best fit is behind ridge regression on text, because rare labels do not fit in. A
        smaller rank makes a smaller model.
    alpha : float, optional
        Strength of the paper's penalty, a trace norm; 0 by default.
    ridge : float, optional
        Strength of the ridge penalty. By default 0 if alpha is given; otherwise it follows the data, see
        Notes.
    loss, fit_intercept, targets, threshold, threshold_scoring, threshold_per_label
        As in `LRML`.
    callback, device, verbose
        As in `LRML`; an iteration is a sweep.
    max_iter : int, optional
        Most sweeps, 500 by default.
    tol : float, optional
        Upper limit of ``residual_`` and, divided by ten, of a sweep's gain relative to the objective; 1e-4 by
        default if the moments suffice, 3e-3 if the rows are read for a ridge and squares only, and 1e-3
        otherwise. The latter ends about 0.1 % above the best objective for the squared loss, and 1 % for the
        others; pass 1e-4 for more accuracy.
    warm_start : bool, default=False
        Start from the factors of the last ``fit``. A smaller rank keeps the first of them, a larger one adds
        random directions to Z.
    random_state : int, RandomState instance or None, default=None
        Seed of the start if the rows are read, and of directions that a warm start adds. Fits with different
        seeds agree within ``tol``, unless the rank is so small that there are several local optima.

    Attributes
    ----------
    factors_ : Factors
        Thin singular value decomposition W = U diag(s) Vᵀ, from the factors; Z = U√s and H = V√s.
    coef_ : array of shape (L, d)
        Wᵀ, in scikit-learn's orientation. Computed from ``factors_`` at each access, because it may be large.
    intercept_ : array of shape (L,)
        b. A label without a positive example has zero coefficients and the intercept −1 (−100 for margins).
        One without a negative example also has zero coefficients, and the intercept 1. With the logistic
        loss, which has no best intercept then, it is 100, where the loss is below 1e-43.
    alpha_, ridge_ : float
        The strengths of the penalties.
    singular_values_ : array of shape (rank_,)
    rank_ : int
        Number of positive singular values, at most k. Small ones may not have reached zero yet.
    n_iter_ : int
        Number of sweeps.
    objective_ : float
        At the returned factors and intercepts (labels with only one value add nothing).
    residual_ : float
        ‖(∇_Z F, ∇_H F)‖_F / (‖∇f(0)‖₂ ‖(Z, H)‖_F) at the balanced factors (and, where the rows are read,
        ‖∇_b F‖ / ‖∇f(0)‖₂ with b counted from the mean of X, as the other leg of a right-angled triangle).
    converged_ : bool
        Whether ``residual_`` is within ``tol`` (or the solution is exact).
    compression_gap_
        As in `LRML`, if the fit works in a subspace (squared loss, n and d large).
    status_, history_, classes_, unseen_labels_, n_features_in_, feature_names_in_
        As in `LRML`.

    References
    ----------
    H.-F. Yu, P. Jain, P. Kar, I. S. Dhillon. Large-scale Multi-label Learning with Missing Labels. ICML 2014.

    Examples
    --------
    >>> from lrml import LEML
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> model = LEML(rank=5).fit(*yeast.train)
    >>> model.rank_, round(model.score(*yeast.test), 3)
    (5, 0.755)
    """

    _checks = CHECKS | {name: optional(CHECKS[name]) for name in ("rank", "alpha", "ridge")}

    def __init__(
        self,
        rank: int | float | None = None,
        alpha: float | None = None,
        *,
        ridge: float | None = None,
        loss: str = "squared",
        fit_intercept: bool = True,
        max_iter: int | None = None,
        tol: float | None = None,
        targets: str = "binary",
        threshold: float | npt.NDArray[np.floating[Any]] | str | None = None,
        threshold_scoring: str = "micro_f1",
        threshold_per_label: bool = False,
        warm_start: bool = False,
        random_state: int | np.random.RandomState | None = None,
        callback: Callback | None = None,
        device: Any = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def _solved(self, data: TrainingData, params: Parameters) -> Fitted:
        rank = _usual_ranks([_RANK_SHARE], data.shape)[0] if params.rank is None else params.rank
        rank = check_count("rank", rank, 1, data.shape)
        last = None
        if is_warm_start(self, params, data):
            U, s, V, intercept = (
                data.place.asarray(array, "float64") for array in (*self.factors_, self.intercept_)
            )
            last = U * s**0.5, V * s**0.5, intercept
        start = _Start(rank, last, check_random_state(params.random_state))
        moments = _in_coordinates(data, rank, params.alpha or 0.0)
        usual = _TOL_RIDGE if data.needs_moments_only and not params.alpha else _TOL_ROWS
        tol = (_TOL_MOMENTS if moments else usual) if params.tol is None else params.tol
        max_iter = _MAX_SWEEPS if params.max_iter is None else params.max_iter
        with solver_progress(params.verbose, max_iter, params.callback, type(self).__name__) as report:
            limits = core.Limits(max_iter, tol, report)
            if moments:
                solution, extras = _fit_moments(self, data, params, start, limits)
            else:
                solution, extras = _fit_rows(data, params, start, limits)
        extras["alpha"] = params.alpha or 0.0
        extras["n_iter"] = max(1, len(solution.outcome.history) - 1)  # a closed form counts as one
        warn_unless_converged(solution.outcome)
        return record(data, solution, **extras)


class _Start(NamedTuple):
    """The number of columns of the factors, and where they start."""

    rank: int
    last: tuple[Array, Array, Array] | None  # balanced factors and intercepts of the last fit
    random: np.random.RandomState


def _fit_moments(
    model: LEML, data: TrainingData, params: Parameters, start: _Start, limits: core.Limits
) -> tuple[Solution, dict[str, Any]]:
    """Least squares with all labels known, in spectral coordinates."""
    ridge, alpha = _resolved_ridge(data, params), params.alpha or 0.0

    def solve(space: Space) -> tuple[core.LemlResult, RidgeRegressions, float]:
        problem, first = space.problem.with_ridge(ridge), None
        if start.last is not None and alpha:
            rank = min(start.rank, *problem.shape)
            first = space.inside(core.resize(start.last[0], start.last[1], rank, start.random)[0])
        result = core.solve_moments(problem, alpha, start.rank, limits, first)
        U, s, V = result.factors
        return result, RidgeRegressions(U * s, V, ridge, 0.5 * alpha / s), result.objective

    # Without alpha all solutions are ridge regressions with this ridge.
    space = data.space(
        fit_intercept=params.fit_intercept,
        ridge=ridge,
        bare=not alpha,
        extensible=True,
        directions=start.rank,
    )
    space, result, gap = solve_extending(space, solve)
    found = result.factors._replace(
        **dict(zip("UV", space.problem.restore(result.factors.U, result.factors.V), strict=True))
    )
    extras: dict[str, Any] = {"ridge": ridge}
    if isinstance(space, InSubspace) and gap is not None:
        extras |= {"compression_gap": gap} | warn_of_subspace(model, gap, 2 * MOST_COMPRESSED, ridge)
        space = space.without_coordinates()
    factors = space.factors(found)
    intercept = space.intercept(factors.U, factors.V * factors.s)
    # Those of unseen labels are zero up to rounding.
    V = namespace(factors.V).where(space.unseen[:, None], 0.0, factors.V)
    return Solution(factors._replace(V=V), intercept, space.unseen, result), extras


def _fit_rows(
    data: TrainingData, params: Parameters, start: _Start, limits: core.Limits
) -> tuple[Solution, dict[str, Any]]:
    """Any loss, known or unknown labels, any number of features: every sweep reads the rows."""
    rows, xp = data.rows, data.place.xp
    unseen, used, constants = sort_labels(data, rows, fit_intercept=params.fit_intercept)
    n_used = int(xp.count_nonzero(used))
    if not n_used:
        return nothing_to_learn(data, unseen, constants), {"ridge": params.ridge or 0.0}
    design = core.Design(rows.X, rows.weights, center=params.fit_intercept)
    core.precondition(design, rows.X, n_used, start.rank)
    term = core.data_term(rows.select_labels(used), data.loss)
    ridge, first = _resolved_ridge(data, params), None
    if start.last is not None:
        Z, H, intercept = start.last
        at_mean = intercept + H @ (design.mean @ Z) if params.fit_intercept else xp.zeros_like(constants)
        # A label without coefficients had a constant score, perhaps -100: start from the best one instead.
        at_mean = xp.where(xp.any(H != 0, axis=1), at_mean, constants)
        first = Z, H[used], at_mean[used]
    result = core.solve_rows(
        design,
        term,
        core.Penalty(params.alpha or 0.0, ridge),
        start.rank,
        constants[used],
        limits,
        start.random,
        fit_intercept=params.fit_intercept,
        start=first,
    )
    V = with_used(result.factors.V, used, 0.0)
    factors = result.factors._replace(V=V)
    intercept = with_used(result.constants, used, constants) - V @ ((design.mean @ factors.U) * factors.s)
    return Solution(factors, with_unseen(intercept, unseen, data.loss), unseen, result), {"ridge": ridge}


def _in_coordinates(data: TrainingData, rank: int, alpha: float) -> bool:
    """Whether a fit goes through spectral coordinates, and not over the rows, which may not fit a device."""
    if not data.needs_moments_only:
        return False
    return data.summed_up is not None or core.prefers_moments(data.X, data.Y.shape[1], rank, alpha)


def _usual_ranks(shares: Sequence[float], shape: tuple[int, int]) -> list[int]:
    """Return ranks for coefficients of this shape (d × L)."""
    counts = [
        min(*shape, _LARGEST_RANK, max(1, round(share * max(shape[1], _FEW_LABELS)))) for share in shares
    ]
    return list(dict.fromkeys(counts))


def _resolved_ridge(data: TrainingData, params: Parameters) -> float:
    """Return the ridge: as given, 0 beside a given alpha, or the one that follows the data."""
    if params.ridge is None and params.alpha is None:
        return usual_ridge(data, fit_intercept=params.fit_intercept)
    return float(params.ridge or 0.0)


class LEMLCV(SearchModel):
    """`LEML` with rank and ridge chosen by scores of unseen rows.

    With the squared loss, all labels known and no alpha, one decomposition serves all candidates, and
    ``cv=None`` stands for leave-one-out scores, or for one held-out fifth where n and d are both large: see
    `CPLSTCV`. Otherwise every candidate is a warm-started fit, and ``cv=None`` stands for five folds, or,
    with more than 5,000 features and a metric that has a value for every row, for one held-out fifth.

    Cost: that of `CPLSTCV` in the first case, else one fit of `LEML` per candidate and fold.

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
    loss, fit_intercept, targets, cv, scoring, rule, abandon, threshold, threshold_scoring
        As in `LRMLCV`.
    threshold_per_label
        As in `LRMLCV`.
    max_iter, tol
        As in `LEML`.
    random_state, device, verbose
        As in `LRMLCV`; the first also seeds the fits.

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, cv_results_, n_splits_, threshold_, …
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
        threshold_scoring: str = "micro_f1",
        threshold_per_label: bool = False,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: int | np.random.RandomState | None = None,
        device: Any = None,
        verbose: int = 0,
    ) -> None:
        self._keep(locals())

    def _check_shapes(self, data: TrainingData, params: Parameters) -> None:
        params.ranks = resolve_ranks(params.ranks, _usual_ranks(_RANK_SHARES, data.shape), data.shape)
        super()._check_shapes(data, params)
        by_row = all(criterion.by_row for criterion in params.criteria)
        wide = data.X.shape[1] > _MANY_FEATURES
        if params.cv is None and by_row and wide and not self._in_coordinates(data, params):
            params.cv = _HELD_OUT

    def _in_coordinates(self, data: TrainingData, params: Parameters) -> bool:
        return not any(params.alphas or ()) and _in_coordinates(data, max(params.ranks), 0.0)

    def _family(self, data: TrainingData, params: Parameters) -> Family:
        return Family(self._plan(data, params), reduced_rank_pieces)

    def _refits(self, data: TrainingData, params: Parameters) -> tuple[Plan, Callable[[Params], Any]]:
        return self._plan(data, params), lambda one: one["rank"]

    def _plan(self, data: TrainingData, params: Parameters) -> Plan:
        alphas, ridges = params.alphas or [0.0], params.ridges
        follows_data = ridges is None and params.alphas is None
        if follows_data:
            usual = usual_ridge(data, fit_intercept=params.fit_intercept)
            ridges = [multiple * usual for multiple in _RIDGE_MULTIPLES] if usual > 0 else [0.0]
        strengths = [
            {"alpha": alpha, "ridge": ridge}
            for alpha in sorted(alphas, reverse=True)
            for ridge in sorted(ridges or [0.0], reverse=True)
        ]
        candidates = [{"rank": rank} | one for rank in params.ranks for one in strengths]
        return extending(candidates, ("ridge",) if follows_data else ())
