"""Searches against brute force: plain fits on the training rows, scored on the held-out rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import KFold

from lrml import (
    CPLST,
    CPLSTCV,
    LEML,
    LEMLCV,
    LRML,
    LRMLCV,
    MLFro,
    MLFroCV,
    MLTrace,
    MLTraceCV,
    SpectralRegressor,
    SpectralRegressorCV,
    metrics,
)
from lrml.estimators._criteria import ScoreTable
from lrml.thresholds import Cut, best_threshold
from model_checks import squared_error

FOLDS = KFold(3, shuffle=True, random_state=1)
TIGHT = {"tol": 1e-16}
# Convex problems, which have one solution: a search and plain fits must agree on it.
CONVEX = {
    "LRML": (LRMLCV(thetas=[0], alphas=[0.5, 5.0], ridges=[0.1, 2.0]), LRML(**TIGHT)),
    "predictions": (LRMLCV(thetas=[0, 2], alphas=[0.5, 5.0], ridges=[0.1]), LRML(space="predictions")),
    "MLTrace": (MLTraceCV(alphas=[0.5, 5.0], ridges=[0.0, 1.0]), MLTrace(**TIGHT)),
    "MLFro": (MLFroCV(alphas=[0.0, 0.3, 10.0]), MLFro()),
    "CPLST": (CPLSTCV(ranks=[1, 0.5, 4], ridges=[0.0, 2.0]), CPLST()),
    "LEML": (LEMLCV(ranks=[2, 3], ridges=[0.5, 2.0]), LEML(tol=1e-12)),
    "SpectralRegressor": (
        SpectralRegressorCV(thetas=[1], alphas=[0.5, math.inf], ridges=[0.5]),
        SpectralRegressor(),
    ),
}
LOGISTIC = {
    "LRML": (LRMLCV(thetas=[0], alphas=[1.0, 4.0], ridges=[0.5]), LRML(loss="logistic", tol=1e-14)),
    "MLFro": (MLFroCV(alphas=[0.5, 5.0]), MLFro(loss="logistic", **TIGHT)),
    "LEML": (LEMLCV(ranks=[4], alphas=[0.5, 5.0]), LEML(loss="logistic", tol=1e-7, max_iter=5000)),
}


def by_row(metric, *args):
    def mean(Y, S, weights):
        values = metric(Y, S, *args, per_example=True)
        counted = np.isfinite(values)
        return np.average(values[counted], weights=None if weights is None else weights[counted])

    return mean


METRICS = {
    "precision_at_1": by_row(metrics.precision_at_k, 1),
    "precision_at_3": by_row(metrics.precision_at_k, 3),
    "label_ranking_average_precision": by_row(metrics.label_ranking_average_precision),
    "roc_auc_samples": by_row(metrics.roc_auc_samples),
    "hamming_loss": lambda Y, S, w: -np.average(np.not_equal(S >= 0.5, Y).mean(axis=1), weights=w),
    "f1_micro": lambda Y, S, w: metrics.f1_micro(Y, S, 0.5),
    "f1_macro": lambda Y, S, w: metrics.f1_macro(Y, S, 0.5),
    squared_error: lambda Y, S, w: squared_error(Y, S),
}


def columns(model):
    return np.stack([model.cv_results_[f"split{i}_test_score"] for i in range(model.n_splits_)], axis=1)


def brute_force(search, plain, X, Y, *scorings, weights=None, cv=FOLDS):
    """Scores of plain fits by each metric: candidates × folds."""
    found = []
    for params in search.cv_results_["params"]:
        model = clone(plain).set_params(**params)
        for train, test in cv.split(X, Y):
            w, held_out = (None, None) if weights is None else (weights[train], weights[test])
            scores = scores_of(model.fit(X[train], Y[train], sample_weight=w), X[test])
            found.append([METRICS[scoring](Y[test], scores, held_out) for scoring in scorings])
    shape = len(search.cv_results_["params"]), -1, len(scorings)
    return [np.asarray(part) for part in np.moveaxis(np.reshape(found, shape), 2, 0)]


def scores_of(model, X):
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(75, 6, 4, seed=11)


# Held-out scores


@pytest.mark.parametrize(("search", "plain"), CONVEX.values(), ids=CONVEX)
@pytest.mark.parametrize(  # every pair of the three
    ("form", "fit_intercept", "weighted"),
    [
        (np.asarray, True, False),
        (np.asarray, False, True),
        (sp.csr_array, True, True),
        (sp.csr_array, False, False),
    ],
)
def test_held_out_scores_are_those_of_plain_fits(data, search, plain, form, fit_intercept, weighted):
    X, Y = np.where(np.abs(data[0]) > 0.3, data[0], 0.0), data[1].copy()
    Y[4:9] = 0  # rows without labels are left out
    Y[np.setdiff1d(np.arange(75), next(FOLDS.split(X))[1]), 3] = 0  # unseen where the first fold is held out
    X, Y = form(X), form(Y)
    weights = np.random.default_rng(0).integers(1, 5, X.shape[0]) / 2 if weighted else None
    centred = {"fit_intercept": fit_intercept} if "fit_intercept" in plain.get_params() else {}
    plain = clone(plain).set_params(**centred)
    search = clone(search).set_params(estimator=plain, cv=FOLDS)
    regresses = isinstance(plain, SpectralRegressor)
    scorings, expected = (
        (squared_error,) if regresses else ("label_ranking_average_precision", squared_error),
        None,
    )
    for number, scoring in enumerate(scorings):
        search.set_params(scoring=scoring).fit(X, Y, sample_weight=weights)
        expected = expected or brute_force(search, plain, X, Y, *scorings, weights=weights)
        np.testing.assert_allclose(columns(search), expected[number], atol=1e-5)
        assert np.ptp(expected[number]) > 1e-3
        table = search.cv_results_
        np.testing.assert_allclose(table["mean_test_score"], expected[number].mean(axis=1), atol=1e-5)
        np.testing.assert_allclose(table["std_test_score"], expected[number].std(axis=1), atol=1e-5)
        assert search.best_score_ == table["mean_test_score"].max()
        assert table["rank_test_score"][search.best_index_] == 1


@pytest.mark.parametrize(("search", "plain"), LOGISTIC.values(), ids=LOGISTIC)
def test_logistic_searches(data, search, plain):
    search = clone(search).set_params(estimator=plain, cv=FOLDS, scoring=squared_error).fit(*data)
    (expected,) = brute_force(search, plain, *data, squared_error)
    np.testing.assert_allclose(columns(search), expected, rtol=1e-3)
    assert np.ptp(expected) > 0.1
    scores = search.decision_function(data[0])
    np.testing.assert_allclose(search.predict_proba(data[0]), 1 / (1 + np.exp(-scores)), rtol=1e-6)
    np.testing.assert_array_equal(search.predict(data[0]), scores >= 0)


# Rules


@pytest.mark.parametrize("scoring", ["label_ranking_average_precision", "f1_macro"])
@pytest.mark.parametrize("seed", range(2))
def test_one_standard_error_takes_the_simplest_that_is_good_enough(make_problem, scoring, seed):
    X, Y = make_problem(90, 6, 5, seed=seed, density=0.3)
    grid = LRMLCV(thetas=[0, 2], alphas=np.geomspace(0.5, 30.0, 6), ridges=[0.1, 3.0], cv=FOLDS)
    grid.set_params(scoring=scoring)
    best, simple = (clone(grid).set_params(rule=rule).fit(X, Y) for rule in ("best", "one_standard_error"))
    table, means = best.cv_results_, best.cv_results_["mean_test_score"]
    np.testing.assert_array_equal(means, simple.cv_results_["mean_test_score"])
    top, chosen = best.best_index_, simple.best_index_
    assert means[top] == means.max()
    if scoring == "f1_macro":  # a number per split
        leads = columns(best)[top] - columns(best)
        errors = leads.std(axis=1, ddof=1) / np.sqrt(3)
        np.testing.assert_allclose(table["error_test_score"], errors, atol=1e-12)
    errors = table["error_test_score"]
    near = means >= means[top] - errors - 1e-12
    assert near[chosen]
    assert table["mean_model_rank"][chosen] == table["mean_model_rank"][near].min()
    assert simple.best_score_ == means[chosen]


@pytest.mark.parametrize("gain", [0.03, 0.06, 0.15, 0.24])
def test_a_tie_is_not_decided_by_rounding(gain):
    table = ScoreTable([np.ones(3)] * 3, by_row=False)
    for name, first in (("best", 0.4 + gain), ("other", 0.4)):  # the mean lead is its standard error
        table.add(name, [first, 0.3, 0.3])
    assert table.near("best", ["other"]) == ["other"]


def test_a_standard_error_needs_rows_or_splits(data):
    model = MLFroCV(alphas=[1.0, 10.0], cv=0.2, scoring="f1_micro", rule="one_standard_error", random_state=0)
    with pytest.raises(ValueError, match=r"one_standard_error.*f1_micro"):
        model.fit(*data)
    assert model.set_params(cv=2).fit(*data).n_splits_ == 2


# Thresholds, several metrics


@pytest.mark.parametrize(
    ("loss", "metric", "per_label"), [("squared", "f1_micro", False), ("logistic", "hamming_loss", True)]
)
def test_automatic_threshold_is_the_best_for_held_out_scores(data, loss, metric, per_label):
    X, Y = data
    cut, labels, scores = Cut(metric, per_label), [], []
    search = MLFroCV(MLFro(loss=loss, tol=1e-18, threshold=cut), alphas=[0.5, 5.0], cv=FOLDS).fit(X, Y)
    plain = MLFro(loss=loss, tol=1e-18, **search.best_params_)
    for train, test in FOLDS.split(X):
        scores.append(plain.fit(X[train], Y[train]).decision_function(X[test]))
        labels.append(Y[test])
    natural = 0.5 if loss == "squared" else 0.0
    pooled = np.concatenate(labels), np.concatenate(scores)
    expected = best_threshold(*pooled, metric, per_label=per_label, prior=10.0, natural=natural).cut
    np.testing.assert_allclose(search.threshold_, expected, atol=1e-5)
    assert np.shape(search.threshold_) == ((4,) if per_label else ())
    assert np.asarray(search.threshold_).dtype == X.dtype == np.float64
    decisions = search.decision_function(X) >= search.threshold_
    np.testing.assert_array_equal(search.predict(X), decisions)
    np.testing.assert_array_equal(search.best_estimator_.predict(X), decisions)
    assert search.estimator.threshold == cut


def best_cut_hamming(Y, scores):
    return -best_threshold(Y, scores, "hamming_loss").value


def test_one_search_by_several_metrics_equals_one_search_for_each(data):
    several = {
        "label_ranking_average_precision": "label_ranking_average_precision",
        "hamming_loss": "hamming_loss",
        "best_cut_hamming": best_cut_hamming,
    }
    model = LRML(threshold="auto")
    search = LRMLCV(model, thetas=[1, 2], alphas=[0.3, 30.0], ridges=[0.1], cv=3, random_state=0)
    together = clone(search).set_params(scoring=list(several.values())).fit(*data)
    table = together.cv_results_
    assert list(together.best_estimators_) == list(together.best_indices_) == list(several)
    for name, metric in several.items():
        alone = clone(search).set_params(scoring=metric).fit(*data)
        np.testing.assert_array_equal(table[f"mean_test_{name}"], alone.cv_results_["mean_test_score"])
        assert together.best_indices_[name] == alone.best_index_
        found = together.best_estimators_[name]
        assert found.threshold == alone.threshold_
        np.testing.assert_array_equal(found.coef_, alone.coef_)
    np.testing.assert_array_equal(
        together.coef_, together.best_estimators_["label_ranking_average_precision"].coef_
    )
    assert together.best_score_ == table["mean_test_label_ranking_average_precision"].max()
    assert not hasattr(together.set_params(scoring="precision_at_1").fit(*data), "best_estimators_")


# Other losses on many rows


@pytest.fixture(scope="module")
def many():
    """Rows, of which a fold is enough to decide by, with labels of rank 2 among noise."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 12)) * np.geomspace(3.0, 0.1, 12)
    W = rng.standard_normal((12, 2)) @ rng.standard_normal((2, 6))
    return X, (X @ W + 3.0 * rng.standard_normal((3000, 6)) > 1.5).astype(float)


def test_many_rows_are_searched_in_stages_on_one_held_out_fifth(many):
    X, Y = many
    found = LRMLCV(LRML(loss="logistic"), random_state=0).fit(X, Y)
    tried = found.cv_results_["params"]
    beside = [one["alpha"] for one in tried if one["alpha"] > 0]
    assert found.n_splits_ == 1
    assert [one["alpha"] for one in tried[:3]] == [0.0, 0.0, 0.0]
    assert 3 <= len(beside) <= 12
    assert all(one["ridge"] > 0 for one in tried)
    assert found.best_estimator_.tol is None
    # A whole grid, given by hand, on the same rows is hardly better.
    alphas, ridges = [0.0, max(beside), max(beside) / 4], [1e-3, 0.1, 10.0]
    grid = LRMLCV(LRML(loss="logistic"), thetas=[0], alphas=alphas, ridges=ridges, random_state=0).fit(X, Y)
    assert found.best_score_ > grid.best_score_ - 2e-3
    assert LRMLCV(LRML(loss="logistic"), thetas=[0], random_state=0).fit(X[:2999], Y[:2999]).n_splits_ == 5


def test_smallest_model_of_another_loss_on_many_rows(many):
    rules = ("best", "smallest")
    best, small = (LRMLCV(LRML(loss="logistic"), rule=rule, random_state=0).fit(*many) for rule in rules)
    assert small.nbytes_ < best.nbytes_
    assert small.rank_ <= 4
    assert small.best_score_ > best.best_score_ - 0.02


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_model_of_constants_has_rank_zero(loss):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    Y = X @ rng.standard_normal((5, 3)) + rng.standard_normal((60, 3)) > 0
    model = LRMLCV(LRML(loss=loss), thetas=[0], alphas=[1e6, 1.0], ridges=[1.0], cv=2).fit(X, Y)
    ranks = {
        one["alpha"]: rank
        for one, rank in zip(model.cv_results_["params"], model.cv_results_["mean_model_rank"], strict=True)
    }
    assert ranks[1e6] == 0 < ranks[1.0]
