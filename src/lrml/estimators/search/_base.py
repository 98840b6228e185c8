"""What every ``…CV`` estimator shares: the search, its results, the final fit, the threshold."""

from __future__ import annotations

import numbers
from dataclasses import replace
from time import perf_counter
from typing import Any, Self, cast, get_args

import numpy as np
import numpy.typing as npt

from lrml import _validation as check
from lrml._shown import shown
from lrml.estimators._fitting import TrainingData, check_feature_count, prepare
from lrml.estimators._linear import LinearMultiLabelModel
from lrml.estimators.search._criterion import check_scorings
from lrml.estimators.search._families import Family
from lrml.estimators.search._race import Board
from lrml.estimators.search._results import cv_results
from lrml.estimators.search._search import Contest, MomentContest, RefitContest, Task
from lrml.estimators.search._splits import check_training_weights, make_splits, split_statistics
from lrml.thresholds import MetricName, best_threshold

LOSS_SCALES = {"squared": 1.0, "logistic": 0.1, "squared_hinge": 1.0}
"""How strong a penalty is that does to a loss what a penalty of strength 1 does to the squared error."""

_RULES = ("best", "one_standard_error")


class SearchModel(LinearMultiLabelModel):
    """An estimator that chooses its parameters on held-out rows, and then is fitted on all.

    Subclasses say in ``_estimator`` what is fitted, in ``_family`` which candidates there are where second
    moments suffice, and in ``_candidates`` which ones where the rows have to be read.
    """

    _has_family = True  # False if second moments, d × d numbers, are never to be made
    loss: str = "squared"
    fit_intercept: Any = True

    def __init__(
        self,
        *,
        cv: Any,
        scoring: Any,
        rule: Any,
        abandon: bool,
        threshold: Any,
        threshold_scoring: str,
        threshold_per_label: bool,
        random_state: Any,
        verbose: int,
    ) -> None:
        self.cv = cv
        self.scoring = scoring
        self.rule = rule
        self.abandon = abandon
        self.threshold = threshold
        self.threshold_scoring = threshold_scoring
        self.threshold_per_label = threshold_per_label
        self.random_state = random_state
        self.verbose = verbose

    def _estimator(self) -> Any:
        """Return an unfitted estimator with all parameters that are not searched."""
        raise NotImplementedError

    def _family(self, data: TrainingData, fit_intercept: bool) -> Family:
        """Return the candidates for second moments."""
        raise NotImplementedError

    def _candidates(self, data: TrainingData, fit_intercept: bool) -> tuple[list[dict[str, Any]], list[Any]]:
        """Return candidates that are fitted one by one, and groups within which warm starts make sense."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, observed: Any = None) -> Self:
        """Choose the parameters on held-out rows, then fit on all rows.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
        y : array, sparse matrix or frame of shape (n, L)
            0/1 labels; NaN where it is not known whether a label applies (not for `CPLSTCV`).
        sample_weight : array of shape (n,), optional
            Multiplies the loss of each row, and its part in the mean of the held-out scores (not in F1, in a
            function of your own, nor in the choice of a threshold).
        observed : array, sparse matrix or frame of bool of shape (n, L), optional
            True where a label is known, as an alternative to NaN.

        Returns
        -------
        self
            Unchanged if anything is wrong with the input.
        """
        data = prepare(self, X, y, sample_weight, observed)
        fit_intercept = check.check_flag("fit_intercept", self.fit_intercept)
        one_standard_error = self._check_rule() == "one_standard_error"
        self._check_threshold_choice()
        task = Task(
            data,
            make_splits(self.cv, data.X, data.Y, self.random_state),
            check_scorings(self.scoring),
            data.loss.threshold if self._wants_threshold else self._cut(data),
            check.check_flag("abandon", self.abandon),
            one_standard_error,
        )
        check_training_weights(data.weights, task.splits)
        _check_error_can_be_told(task, self.scoring)
        contest = self._contest(task, fit_intercept)
        boards = contest.run(self.verbose)
        chosen = [self._choose(contest, board) for board in boards]
        fitted = {index: self._final_fit(contest, index) for index in dict.fromkeys(chosen)}
        self._store(contest, chosen, fitted)
        return self

    def _check_rule(self) -> str | None:
        """Return the name of the rule, None for a function."""
        if callable(self.rule):
            return None
        if self.rule not in _RULES:
            raise ValueError(
                "rule must be one of 'best', 'one_standard_error', or a function of cv_results_ that returns "
                f"the index of a candidate, got {shown(self.rule)}. Use 'best'."
            )
        return str(self.rule)

    def _choose(self, contest: Contest, board: Board) -> int:
        """Return the index of the candidate that the rule takes."""
        if not board.complete.any():
            raise ValueError(
                f"scoring={shown(self.scoring)} must have a value on every split, got none. "
                "Check that held-out rows have labels and weight, or pass fewer folds."
            )
        if not callable(self.rule):
            return board.best(
                one_standard_error=self.rule == "one_standard_error", strengths=self._strengths(contest)
            )
        index = self.rule(cv_results(contest.candidates, {"score": board}))
        last = len(contest.candidates) - 1
        if not isinstance(index, numbers.Integral) or not 0 <= int(index) <= last:
            raise ValueError(
                f"rule must return the index of a candidate, an integer in [0, {last}], got {shown(index)}. "
                "Return for example results['mean_test_score'].argmax()."
            )
        return int(index)

    def _final_fit(self, contest: Contest, index: int) -> tuple[Any, float]:
        """Fit a candidate on all rows; return it and the seconds that it took."""
        cut = self._choose_threshold(contest, index)
        best = contest.starting_point(index) or self._estimator().set_params(**contest.candidates[index])
        best.set_params(threshold=self.threshold if cut is None else cut)
        start = perf_counter()
        best._fit_data(contest.task.data)
        seconds = perf_counter() - start
        if hasattr(best, "warm_start"):
            best.set_params(warm_start=False)
        return best, seconds

    def _contest(self, task: Task, fit_intercept: bool) -> Contest:
        data = task.data
        if not (self._has_family and data.needs_moments_only):
            return RefitContest(task, *self._candidates(data, fit_intercept), self._estimator())
        check_feature_count(data.X.shape[1], type(self).__name__)
        total, parts = split_statistics(data.X, data.Y, data.weights, task.splits)
        data = replace(data, summed_up=total)  # the final fit needs no other pass
        family = self._family(data, fit_intercept)
        task = task._replace(data=data)
        return MomentContest(task, family, parts, fit_intercept=fit_intercept)

    def _strengths(self, contest: Contest) -> npt.NDArray[np.float64]:
        if isinstance(contest, MomentContest):
            return contest.family.strengths()
        names = [name for name in ("alpha", "ridge") if name in contest.candidates[0]]
        return np.array([[candidate[name] for name in names] for candidate in contest.candidates])

    @property
    def _wants_threshold(self) -> bool:
        return isinstance(self.threshold, str)

    def _cut(self, data: TrainingData) -> Any:
        return check.check_threshold(self.threshold, data.Y.shape[1], data.loss.threshold)

    def _check_threshold_choice(self) -> None:
        if self._wants_threshold:
            if self.threshold != "auto":
                raise ValueError(
                    f"threshold must be a number, one per label, None or 'auto', got "
                    f"{shown(self.threshold)}. Pass 'auto' to have it chosen."
                )
            check.check_choice("threshold_scoring", self.threshold_scoring, get_args(MetricName))
            check.check_flag("threshold_per_label", self.threshold_per_label)

    def _choose_threshold(self, contest: Contest, index: int) -> Any:
        """Return the best cut of the winner's held-out scores, or None if it is given."""
        if not self._wants_threshold:
            return None
        parts = list(contest.scores_of(index))
        natural = contest.task.data.loss.threshold
        known = None
        if parts[0][0].known is not None:
            known = np.concatenate([held_out.known for held_out, _ in parts])
        return best_threshold(
            np.concatenate([_dense(held_out.Y) for held_out, _ in parts]),
            np.concatenate([scores for _, scores in parts]),
            cast(MetricName, self.threshold_scoring),
            per_label=self.threshold_per_label,
            natural=natural,
            known=known,
        ).cut

    @property
    def _decision_threshold(self) -> Any:
        return self.threshold_

    def _store(self, contest: Contest, chosen: list[int], fitted: dict[int, tuple[Any, float]]) -> None:
        """Set every fitted attribute at once, those of the final fit included."""
        index = chosen[0]
        best, seconds = fitted[index]
        own = {name: value for name, value in vars(best).items() if name.endswith("_") and name[0] != "_"}
        names = [criterion.name for criterion in contest.task.criteria]
        several = isinstance(self.scoring, list | tuple)
        titles = names if several else ["score"]
        results = cv_results(contest.candidates, dict(zip(titles, contest.boards, strict=True)))
        found = {
            "best_estimator_": best,
            "best_index_": index,
            "best_params_": contest.candidates[index],
            "best_score_": float(results[f"mean_test_{titles[0]}"][index]),
            "cv_results_": results,
            "n_splits_": len(contest.task.splits),
            "refit_time_": seconds,
            "threshold_": best.threshold,
        }
        for name in ("feature_names_in_", "best_estimators_", "best_indices_"):
            self.__dict__.pop(name, None)
        if several:
            found["best_indices_"] = dict(zip(names, chosen, strict=True))
            found["best_estimators_"] = {name: fitted[i][0] for name, i in found["best_indices_"].items()}
        self.__dict__.update(own | found)


def _dense(Y: Any) -> npt.NDArray[Any]:
    return Y.toarray() if hasattr(Y, "toarray") else np.asarray(Y)


def cross_norm(data: TrainingData) -> float:
    """Return 2‖XᵀY‖₂ of the centred data, the trace norm's alpha_max, without making XᵀX or XᵀY."""
    w = np.ones(data.X.shape[0]) if data.weights is None else data.weights
    x_mean, y_mean = (np.asarray(M.T @ w).ravel() / w.sum() for M in (data.X, data.Y))

    def forward(v: npt.NDArray[np.float64]) -> Any:
        v = v.ravel()
        return np.asarray(data.X.T @ (w * (data.Y @ v - y_mean @ v))).ravel()

    def backward(u: npt.NDArray[np.float64]) -> Any:
        u = u.ravel()
        return np.asarray(data.Y.T @ (w * (data.X @ u - x_mean @ u))).ravel()

    shape = (data.X.shape[1], data.Y.shape[1])
    v = np.ones(shape[1]) / np.sqrt(shape[1])
    norm = 0.0
    for _ in range(30):  # power iteration: a scale is wanted, not digits
        v = backward(forward(v))
        norm = float(np.linalg.norm(v))
        if norm == 0.0:
            return 1.0
        v /= norm
    return 2.0 * float(np.sqrt(norm))


def _check_error_can_be_told(task: Task, scoring: Any) -> None:
    if task.with_margin and len(task.splits) == 1 and not all(c.by_row for c in task.criteria):
        raise ValueError(
            "rule='one_standard_error' needs several splits, or a metric with a value for every row, got one "
            f"split and scoring={shown(scoring)}. Pass cv=5, or scoring='average_precision'."
        )
