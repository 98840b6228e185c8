"""MLFroCV, CPLSTCV and LEMLCV: the rivals' parameters chosen on held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from lrml import _validation as check
from lrml.estimators._fitting import TrainingData, check_feature_count
from lrml.estimators._grid import as_values, check_alpha, check_numbers, check_ridge, ridges_leaving
from lrml.estimators.cplst import CPLST
from lrml.estimators.leml import LEML
from lrml.estimators.ridge import MLFro
from lrml.estimators.search._base import LOSS_SCALES, SearchModel, cross_norm
from lrml.estimators.search._families import ReducedRankFamily, RidgeFamily
from lrml.problem import SpectralProblem

# Effective directions that a ridge leaves, see `lrml.estimators._grid`.
_SHARES = (0.995, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.05)
_ROW_SHARES = (0.98, 0.8, 0.4)
_REDUCED_RANK_SHARES = (1.0, 0.9, 0.6, 0.3)
_LEML_SHARES = (0.003, 0.01, 0.03, 0.1)
_RANK_SHARES = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0)


def _ranks(values: Any, defaults: tuple[float, ...], shape: tuple[int, int], name: str) -> list[int]:
    shares = defaults if values is None else as_values(name, values)
    return list(dict.fromkeys(check.check_rank(share, *shape, f"each of {name}") for share in shares))


class MLFroCV(SearchModel):
    """`MLFro` with alpha chosen on held-out rows: ridge regression for label matrices.

    With the squared loss and all labels known a candidate costs a product; otherwise a warm-started fit.

    Parameters
    ----------
    alphas : sequence of float, optional
        By default 13 values that leave from 99.5 to 5 % of the effective directions Σ λ_i / (λ_i + alpha),
        λ_i the eigenvalues of XᵀX, whatever the scale of the features; 3 where every candidate is a fit of
        its own.
    loss, fit_intercept, cv, scoring, rule, abandon, threshold, threshold_scoring, threshold_per_label
        As in `LRMLCV`.
    max_iter, tol
        As in `MLFro`.
    random_state, verbose
        As in `LRMLCV`.

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, cv_results_, n_splits_, threshold_, coef_, …
        As in `LRMLCV`.

    Examples
    --------
    >>> from lrml import MLFroCV
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> round(MLFroCV(cv=3).fit(*yeast.train).score(*yeast.test), 3)
    0.755
    """

    def __init__(
        self,
        alphas: Any = None,
        *,
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

    def _alphas(self, problem: SpectralProblem, shares: tuple[float, ...]) -> list[float]:
        if self.alphas is not None:
            return check_numbers("alphas", self.alphas, check_alpha)
        return [LOSS_SCALES[self.loss] * ridge for ridge in ridges_leaving(problem, shares)]

    def _family(self, data: TrainingData, fit_intercept: bool) -> RidgeFamily:
        return RidgeFamily(self._alphas(data.problem(fit_intercept=fit_intercept), _SHARES))

    def _candidates(self, data: TrainingData, fit_intercept: bool) -> tuple[list[dict[str, Any]], list[Any]]:
        check_feature_count(data.X.shape[1], type(self).__name__)
        alphas = sorted(self._alphas(data.problem(fit_intercept=fit_intercept), _ROW_SHARES), reverse=True)
        return [{"alpha": alpha} for alpha in alphas], [0] * len(alphas)

    def _estimator(self) -> MLFro:
        return MLFro(loss=self.loss, fit_intercept=self.fit_intercept, max_iter=self.max_iter, tol=self.tol)


class CPLSTCV(SearchModel):
    """`CPLST` with the number of components and the ridge chosen on held-out rows.

    One decomposition per ridge and fold serves all numbers of components.

    Parameters
    ----------
    ranks : sequence of int or float, optional
        By default 5, 10, 20, 40, 60, 80 and 100 % of the labels.
    ridges : float or sequence of float, optional
        By default 0, and those that leave 90, 60 and 30 % of the effective directions, see `MLFroCV`.
    cv, scoring, rule, abandon, threshold, threshold_scoring, threshold_per_label, random_state, verbose
        As in `LRMLCV`.

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, cv_results_, n_splits_, threshold_, coef_, …
        As in `LRMLCV`.

    Examples
    --------
    >>> from lrml import CPLSTCV
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> round(CPLSTCV(cv=3).fit(*yeast.train).score(*yeast.test), 2)
    0.75
    """

    def __init__(
        self,
        ranks: Any = None,
        ridges: Any = None,
        *,
        cv: Any = 5,
        scoring: Any = "average_precision",
        rule: Any = "best",
        abandon: bool = True,
        threshold: Any = None,
        threshold_scoring: str = "micro_f1",
        threshold_per_label: bool = False,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ) -> None:
        self.ranks = ranks
        self.ridges = ridges
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

    def _family(self, data: TrainingData, fit_intercept: bool) -> ReducedRankFamily:
        ridges = self.ridges
        if ridges is None:
            ridges = ridges_leaving(data.problem(fit_intercept=True), _REDUCED_RANK_SHARES)
        shape = (data.X.shape[1], data.Y.shape[1])
        ranks = _ranks(self.ranks, _RANK_SHARES, shape, "ranks")
        return ReducedRankFamily(ranks, check_numbers("ridges", ridges, check_ridge))

    def _candidates(self, data: TrainingData, fit_intercept: bool) -> tuple[list[dict[str, Any]], list[Any]]:
        raise ValueError(
            "Input Y contains NaN or unobserved labels; CPLSTCV needs all, as CPLST encodes label vectors. "
            "Use LEMLCV or LRMLCV for labels that are not all known."
        )

    def _estimator(self) -> CPLST:
        return CPLST()


class LEMLCV(SearchModel):
    """`LEML` with rank and alpha chosen on held-out rows; every candidate is a warm-started fit.

    Parameters
    ----------
    ranks : sequence of int or float, optional
        As in `LEML`. By default 5, 20 and 40 % of the labels.
    alphas : sequence of float, optional
        By default 0.003, 0.01, 0.03 and 0.1 times the alpha at which the trace norm leaves nothing.
    loss, fit_intercept, cv, scoring, rule, abandon, threshold, threshold_scoring, threshold_per_label
        As in `LRMLCV`.
    max_iter, tol
        As in `LEML`.
    random_state, verbose
        As in `LRMLCV`; the former also seeds the fits.

    Attributes
    ----------
    best_params_, best_score_, best_index_, best_estimator_, cv_results_, n_splits_, threshold_, …
        As in `LRMLCV`.

    Examples
    --------
    >>> from lrml import LEMLCV
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> round(LEMLCV(ranks=[4, 8], cv=3).fit(*yeast.train).score(*yeast.test), 2)
    0.75
    """

    _has_family = False

    def __init__(
        self,
        ranks: Any = None,
        alphas: Any = None,
        *,
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
        self.ranks = ranks
        self.alphas = alphas
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

    def _candidates(self, data: TrainingData, fit_intercept: bool) -> tuple[list[dict[str, Any]], list[Any]]:
        alphas = self.alphas
        if alphas is None:
            # Balanced factors pay what the trace norm does.
            alphas = [share * cross_norm(data) for share in _LEML_SHARES]
        strengths = sorted(check_numbers("alphas", alphas, check_alpha), reverse=True)
        ranks = _ranks(self.ranks, (0.05, 0.2, 0.4), (data.X.shape[1], data.Y.shape[1]), "ranks")
        candidates = [{"rank": rank, "alpha": alpha} for rank in ranks for alpha in strengths]
        return candidates, [candidate["rank"] for candidate in candidates]

    @property
    def coef_(self) -> Any:
        """Wᵀ (L × d), made on demand."""
        return self.best_estimator_.coef_

    def _estimator(self) -> LEML:
        return LEML(
            loss=self.loss,
            fit_intercept=self.fit_intercept,
            max_iter=self.max_iter,
            tol=self.tol,
            random_state=self.random_state,
        )
