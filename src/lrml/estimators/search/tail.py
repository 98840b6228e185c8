"""LRMLCV and MLTraceCV: theta, alpha and ridge chosen on held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from lrml.estimators._fitting import TrainingData, check_feature_count, check_limits
from lrml.estimators._grid import Grid, GridPoint, check_grid, ridges_leaving
from lrml.estimators.lrml import LRML
from lrml.estimators.search._base import LOSS_SCALES, SearchModel
from lrml.estimators.search._families import TailFamily
from lrml.estimators.trace import MLTrace
from lrml.problem import SpectralProblem

# Default grids. Where the moments suffice a candidate costs a fraction of a fit, elsewhere a fit.
_RIDGE_SHARES, _ROW_RIDGE_SHARES = (1.0, 0.9, 0.6, 0.4, 0.2), (0.98, 0.8)
# Without the penalty a candidate costs next to nothing, and the search ends no lower than ridge regression.
_BARE_RIDGE_SHARES = (0.995, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
_ROW_THETAS = (0.02, 0.1)
_N_ALPHAS, _N_ROW_ALPHAS = 10, 4
# Gradients of the other losses beside that of the squared loss, at constant scores.
_ALPHA_SCALES = {"squared": 1.0, "logistic": 0.5, "squared_hinge": 2.0}


class _TailSearch(SearchModel):
    """What searches over alpha and ridge, and perhaps theta, share."""

    _names: tuple[str, ...] = ("theta", "alpha", "ridge")

    def _thetas(self, *, by_rows: bool) -> Any:
        raise NotImplementedError

    def _grid(self, problem: SpectralProblem, *, by_rows: bool) -> Grid:
        count = self.n_alphas
        if count is None:
            count = _N_ROW_ALPHAS if by_rows else _N_ALPHAS
        ridges = self.ridges
        if ridges is None:
            shares = _ROW_RIDGE_SHARES if by_rows else _RIDGE_SHARES
            ridges = [LOSS_SCALES[self.loss] * ridge for ridge in ridges_leaving(problem, shares)]
        return check_grid(self._thetas(by_rows=by_rows), self.alphas, ridges, count, self.alpha_ratio)

    def _points(self, data: TrainingData, fit_intercept: bool, *, by_rows: bool) -> list[GridPoint]:
        problem = data.problem(fit_intercept=fit_intercept)
        points = self._grid(problem, by_rows=by_rows).points(problem, data.X.shape[1], data.Y.shape[1])
        if self.alphas is None and self.ridges is None and not by_rows:
            ridges = ridges_leaving(problem, _BARE_RIDGE_SHARES)
            points += [GridPoint(0, 0.0, ridge) for ridge in ridges]
        return points

    def _family(self, data: TrainingData, fit_intercept: bool) -> TailFamily:
        points = self._points(data, fit_intercept, by_rows=False)
        max_iter, tol = check_limits(self, default_tol=1e-4, default_max_iter=500)
        return TailFamily(points, self._names, tol, max_iter)

    def _candidates(self, data: TrainingData, fit_intercept: bool) -> tuple[list[dict[str, Any]], list[Any]]:
        check_feature_count(data.X.shape[1], type(self).__name__)
        points = self._points(data, fit_intercept, by_rows=True)
        if self.alphas is None:
            # What the moments say about alpha holds for the squared loss; the strongest is of no use here.
            scale = _ALPHA_SCALES[self.loss] * 0.3
            points = [point._replace(alpha=scale * point.alpha) for point in points]
        candidates = [{name: getattr(point, name) for name in self._names} for point in points]
        return candidates, [(point.theta, point.ridge) for point in points]


class LRMLCV(_TailSearch):
    """`LRML` with theta, alpha and ridge chosen on held-out rows.

    With the squared loss and all labels known, all candidates of a fold share one decomposition and start
    from each other, and the folds share one pass over the data: the statistics of a fold are subtracted from
    those of all rows. Otherwise every candidate is a fit of its own, warm-started, on a smaller default grid.

    Parameters
    ----------
    thetas : sequence of int or float, optional
        As in `LRML`. By default 0 (the trace norm), 5, 10, 20 and 40 % of the labels; 2 and 10 % where every
        candidate is a fit of its own.
    alphas : sequence of float, optional
        By default ``n_alphas`` log-spaced values that weigh the largest singular value of the tail like
        ridges that leave 5 to 98 % of the effective directions (scaled by the loss), and 0.
    ridges : float or sequence of float, optional
        By default 0 and those that leave 90, 60, 40 and 20 % of the effective directions
        Σ λ_i / (λ_i + ridge), λ_i the eigenvalues of XᵀX, whatever the scale of the features; without a
        penalty 13 of them. 98 and 80 % where every candidate is a fit of its own.
    n_alphas : int, optional
        10 by default, or 4 where every candidate is a fit of its own.
    alpha_ratio : float, optional
        For alphas from `lrml.estimators.alpha_max` of the theta and ridge at hand down to ``alpha_ratio``
        times that instead.
    loss : {"squared", "logistic", "squared_hinge"}, default="squared"
    fit_intercept : bool, default=True
    cv : int, float, splitter or iterable, default=5
        A number of folds (`lrml.model_selection.MultilabelStratifiedKFold`), a held-out share in (0, 1), a
        splitter of scikit-learn, or (train, test) row numbers.
    scoring : str, callable or list of these, default="average_precision"
        A metric of `lrml.metrics`: "precision_at_1" (any number), "average_precision", "average_auc",
        "hamming_loss", "micro_f1", "macro_f1"; or a function of (Y, scores), larger for better
        scores, which several threads may call at a time and which gets a sparse Y if y is sparse.
        With a list, one search judges by each of its metrics, the model is chosen by the first, and
        ``best_estimators_`` has one for each.
    rule : {"best", "one_standard_error"} or callable, default="best"
        "one_standard_error" takes the candidate of least rank, and among those the one with the strongest
        penalty, whose mean is within one standard error of the best one's. A function gets ``cv_results_``
        (with one metric, called "score") and returns the index of a candidate.
    abandon : bool, default=True
        Leave out of the later folds what is hopeless after the first: candidates that the leader beats by
        more than three standard errors of the paired difference over the held-out rows, by each metric.
    threshold : float, array of shape (L,), "auto" or None, default=None
        As in `LRML`; "auto" takes what is best for the held-out scores of the chosen candidate.
    threshold_scoring : {"micro_f1", "macro_f1", "hamming_loss"}, default="micro_f1"
        What "auto" optimises, see `lrml.thresholds.best_threshold`.
    threshold_per_label : bool, default=False
        Whether "auto" chooses one threshold per label.
    max_iter, tol
        As in `LRML`.
    random_state : int, RandomState instance or None, default=0
        Of the folds.
    verbose : int, default=0
        1 shows a progress bar on standard error.

    Attributes
    ----------
    best_params_ : dict
    best_score_ : float
        Mean of the held-out scores; greater is better (a loss has its sign changed).
    best_index_ : int
    best_estimator_ : LRML
        Fitted on all rows.
    best_estimators_, best_indices_ : dict
        If ``scoring`` is a list: the same by the name of each metric.
    cv_results_ : dict of arrays
        As in scikit-learn's searches: params, param_theta, param_alpha, param_ridge, split0_test_score, …,
        mean_test_score, std_test_score, rank_test_score; also n_splits_seen and mean_model_rank. What was
        abandoned has NaN on the splits that it did not see, and ranks behind all others.
    n_splits_ : int
    refit_time_ : float
        Seconds of the final fit. What the search has summed up is not summed up again.
    threshold_ : float, array or None
        Where ``predict`` cuts; what ``threshold`` is set to after ``fit`` does not matter.
    coef_, intercept_, factors_, singular_values_, rank_, n_iter_, objective_, residual_, converged_, status_
        Of ``best_estimator_``.
    theta_, history_, classes_, loss_, unseen_labels_, n_features_in_, feature_names_in_
        Of ``best_estimator_``.

    Examples
    --------
    >>> from lrml import LRMLCV
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> model = LRMLCV(thetas=[0, 2, 4], n_alphas=8, cv=3).fit(*yeast.train)
    >>> len(model.cv_results_["params"]), round(model.score(*yeast.test), 3)
    (133, 0.755)
    """

    def __init__(
        self,
        thetas: Any = None,
        alphas: Any = None,
        ridges: Any = None,
        *,
        n_alphas: int | None = None,
        alpha_ratio: float | None = None,
        loss: str = "squared",
        fit_intercept: bool = True,
        cv: Any = 5,
        scoring: Any = "average_precision",
        rule: Any = "best",
        abandon: bool = True,
        threshold: Any = None,
        threshold_scoring: str = "micro_f1",
        threshold_per_label: bool = False,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ) -> None:
        self.thetas = thetas
        self.alphas = alphas
        self.ridges = ridges
        self.n_alphas = n_alphas
        self.alpha_ratio = alpha_ratio
        self.loss = loss
        self.fit_intercept = fit_intercept
        super().__init__(
            cv=cv,
            scoring=scoring,
            rule=rule,
            abandon=abandon,
            threshold=threshold,
            threshold_scoring=threshold_scoring,
            threshold_per_label=threshold_per_label,
            random_state=random_state,
            verbose=verbose,
        )
        self.max_iter = max_iter
        self.tol = tol

    def _thetas(self, *, by_rows: bool) -> Any:
        return _ROW_THETAS if self.thetas is None and by_rows else self.thetas

    def _estimator(self) -> LRML:
        return LRML(loss=self.loss, fit_intercept=self.fit_intercept, max_iter=self.max_iter, tol=self.tol)


class MLTraceCV(_TailSearch):
    """`MLTrace` with alpha and ridge chosen on held-out rows: `LRMLCV` with theta = 0.

    Parameters
    ----------
    alphas : sequence of float, optional
        By default ``n_alphas`` log-spaced values as in `LRMLCV`.
    ridges : float or sequence of float, default=0.0
    n_alphas, alpha_ratio, loss, fit_intercept, cv, scoring, rule, abandon, threshold, threshold_scoring
        As in `LRMLCV`.
    threshold_per_label, max_iter, tol, random_state, verbose
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
    >>> round(MLTraceCV(cv=3).fit(*yeast.train).score(*yeast.test), 2)
    0.76
    """

    _names = ("alpha", "ridge")

    def __init__(
        self,
        alphas: Any = None,
        ridges: Any = 0.0,
        *,
        n_alphas: int | None = None,
        alpha_ratio: float | None = None,
        loss: str = "squared",
        fit_intercept: bool = True,
        cv: Any = 5,
        scoring: Any = "average_precision",
        rule: Any = "best",
        abandon: bool = True,
        threshold: Any = None,
        threshold_scoring: str = "micro_f1",
        threshold_per_label: bool = False,
        max_iter: int | None = None,
        tol: float | None = None,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ) -> None:
        self.alphas = alphas
        self.ridges = ridges
        self.n_alphas = n_alphas
        self.alpha_ratio = alpha_ratio
        self.loss = loss
        self.fit_intercept = fit_intercept
        super().__init__(
            cv=cv,
            scoring=scoring,
            rule=rule,
            abandon=abandon,
            threshold=threshold,
            threshold_scoring=threshold_scoring,
            threshold_per_label=threshold_per_label,
            random_state=random_state,
            verbose=verbose,
        )
        self.max_iter = max_iter
        self.tol = tol

    def _thetas(self, *, by_rows: bool) -> list[int]:
        return [0]

    def _estimator(self) -> MLTrace:
        return MLTrace(loss=self.loss, fit_intercept=self.fit_intercept, max_iter=self.max_iter, tol=self.tol)
