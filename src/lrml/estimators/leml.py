"""LEML: the trace norm, or a ridge only, over the matrices of limited rank; LEMLCV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.core.checks import check_count
from lrml.core.rows import Rows
from lrml.estimators._defaults import usual_strengths
from lrml.estimators._grid import resolve_ranks
from lrml.estimators._member import Member
from lrml.estimators._parameters import CHECKS, Parameters, optional
from lrml.estimators._spec import Spec, sums_suffice
from lrml.estimators.search import Family, Params, Plan, SearchModel, extending, reduced_rank_pieces
from lrml.solvers import Callback

# Defaults are shares of the labels, or of this many if there are fewer: with few labels a rank below theirs
# saves little time and costs much quality.
_RANK_SHARE, _RANK_SHARES, _FEW_LABELS, _LARGEST_RANK = 0.8, (0.4, 0.8), 320, 512
_RIDGE_MULTIPLES = (3.0, 1.0, 0.3)
# From this many features on, a search compares on one held-out part instead of folds.
_MANY_FEATURES, _HELD_OUT = 5000, 0.2


class LEML(Member):
    """Low-rank empirical risk minimisation for multi-label learning.

    Finds coefficients W (d × L) of rank k at most, and intercepts b, that minimise

    ::

        Σ_(i,l) known  w_i ℓ(y_il, x_iᵀ w_l + b_l) + alpha · Σ_j σ_j(W) + ridge · ‖W‖²_F,

    where ℓ is (y − s)² or another loss. With W = ZHᵀ, Z d × k and H L × k, the trace norm is the least
    ½(‖Z‖²_F + ‖H‖²_F), the penalty of the paper. So this is `LRML` on the coefficients with theta = 0 and a
    limit on the rank, solved by the same solvers for W itself. With alpha = 0, the default, it is ridge
    regression of rank k; without a ridge, too, it is `CPLST`. The ridge and the intercept are not in the
    paper: the trace norm hardly shrinks leading directions, and these overfit wide text.

    Cost: as `LRML`. With the squared loss, all labels known and no alpha the solution is exact, and costs one
    decomposition. A limit on the rank is not convex: elsewhere a solution is a stationary point.

    Parameters
    ----------
    rank : int or float, optional
        k. An int counts; a float in (0, 1] is a share of the labels (rounded, at least 1, at most min(d, L)).
        By default 80 % of the labels, but at least 256 and at most 512, or min(d, L) if that is less: with a
        smaller one, rare labels do not fit in.
    alpha : float, default=0.0
        Strength of the paper's penalty, a trace norm. From ‖∇f(0)‖₂ on, W is 0.
    ridge : float, optional
        Strength of the ridge penalty. By default 0 if alpha is given; otherwise it follows the data, see
        Notes.
    tol : float, optional
        As in `LRML`; 1e-6 by default where sums suffice, and 1e-4 elsewhere.
    loss, fit_intercept, targets, threshold, max_iter, warm_start, callback, device, verbose
        As in `LRML`.

    Attributes
    ----------
    coef_, intercept_, factors_, rank_, alpha_, ridge_, objective_, status_, …
        As in `LRML`; the rank is k at most.

    Notes
    -----
    The default ridge ρ has the least generalised cross-validation error of ridge regression, ‖(I − H_ρ)Y‖² /
    (n − 1 − 1.05 tr H_ρ)² with H_ρ = X(XᵀX + ρ)⁻¹Xᵀ, X and Y centred, times the curvature of the loss
    relative to squares. Unknown labels count as the mean of their label. Multiplying X by a constant does not
    change the predictions. With weights below 1, n is (Σ w)² / Σ w² if that is more than Σ w.

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
    _tols = (1e-6, 1e-4)

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
        warm_start: bool = False,
        callback: Callback | None = None,
        device: Any = None,
        verbose: int = 0,
    ) -> None:
        self.rank = rank
        self.alpha = alpha
        self.ridge = ridge
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.targets = targets
        self.threshold = threshold
        self.warm_start = warm_start
        self.callback = callback
        self.device = device
        self.verbose = verbose

    def _spec(self, params: Parameters, shape: tuple[int, int]) -> Spec:
        rank = _usual_ranks([_RANK_SHARE], shape)[0] if params.rank is None else params.rank
        ridge = 0.0 if params.ridge is None and params.alpha is not None else params.ridge
        strengths: dict[str, Any] = {"alpha": params.alpha or 0.0, "ridge": ridge}
        return Spec(**self._common(params), max_rank=check_count("rank", rank, 1, shape), **strengths)


def _usual_ranks(shares: Sequence[float], shape: tuple[int, int]) -> list[int]:
    """Return ranks for coefficients of this shape (d × L)."""
    counts = [
        min(*shape, _LARGEST_RANK, max(1, round(share * max(shape[1], _FEW_LABELS)))) for share in shares
    ]
    return list(dict.fromkeys(counts))


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
            params.ranks, _usual_ranks(_RANK_SHARES, data.model_shape), data.model_shape
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
