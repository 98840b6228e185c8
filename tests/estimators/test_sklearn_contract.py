"""LRML as a scikit-learn estimator: the official checks, and the tools that people put around estimators."""

from __future__ import annotations

import inspect
import pickle
import traceback
from functools import partial

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import label_ranking_average_precision_score, make_scorer, r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks

from lrml import LRML
from lrml.solvers import Algorithm1
from sklearn_failures import EXPECTED_FAILURES
from storage.model_makers import assert_equal

REASONS = {check: reason for check, (reason, _) in EXPECTED_FAILURES.items()}


def expected_failures(estimator):
    exact = "check_non_transformer_estimators_n_iter"
    return REASONS if estimator.targets == "binary" else {exact: REASONS[exact]}


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(60, 5, 4, seed=3)


# The official checks


@parametrize_with_checks([LRML(), LRML(targets="real")], expected_failed_checks=expected_failures)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def verdicts():
    """Check → its results for the plain classifier, with nothing marked as expected."""
    results = check_estimator(LRML(), on_skip=None, on_fail=None)
    grouped = {}
    for result in results:
        grouped.setdefault(result["check_name"], []).append(result)
    return grouped


@pytest.mark.parametrize("check", EXPECTED_FAILURES)
def test_expected_failure_still_fails_for_the_reason_given(verdicts, check):
    _, evidence = EXPECTED_FAILURES[check]
    assert verdicts[check]
    for result in verdicts[check]:
        assert result["status"] == "failed"
        assert evidence in "".join(traceback.format_exception(result["exception"]))


def test_multioutput_check_passes_with_the_cut_it_assumes():
    results = check_estimator(LRML(threshold=0.0), on_skip=None, on_fail=None)
    assert [r["status"] for r in results if r["check_name"] == "check_classifier_multioutput"] == ["passed"]


def test_kind_of_estimator():
    assert is_classifier(LRML())
    assert not is_regressor(LRML())
    assert is_regressor(LRML(targets="real"))
    assert not is_classifier(LRML(targets="real"))
    assert hasattr(LRML(), "decision_function")
    assert not hasattr(LRML(targets="real"), "decision_function")


# Parameters


def test_get_params_lists_the_signature_with_its_defaults():
    signature = inspect.signature(LRML)
    assert LRML().get_params() == {name: p.default for name, p in signature.parameters.items()}


def test_set_params_is_the_same_as_the_constructor(data):
    params = {"theta": 2, "alpha": 3.0, "ridge": 0.5, "fit_intercept": False, "tol": 1e-12}
    one, other = LRML(**params).fit(*data), LRML().set_params(**params).fit(*data)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert one.coef_.any()
    assert not np.allclose(one.coef_, LRML().fit(*data).coef_)


def test_set_params_rejects_an_unknown_name():
    with pytest.raises(ValueError, match="Invalid parameter 'C'"):
        LRML().set_params(C=1.0)


@pytest.mark.parametrize("solver", ["auto", Algorithm1(gamma=1.0)], ids=["name", "object"])
def test_fit_leaves_the_parameters_alone(data, solver):
    threshold = np.full(4, 0.4)
    model = LRML(theta=0.5, solver=solver, threshold=threshold, max_iter=30)
    before, inside = model.get_params(), dict(getattr(solver, "__dict__", {}))
    model.fit(*data)
    assert all(value is before[name] for name, value in model.get_params().items())
    assert dict(getattr(solver, "__dict__", {})) == inside  # it may serve other estimators as well
    np.testing.assert_array_equal(threshold, 0.4)


def test_clone_keeps_the_parameters_and_forgets_the_fit(data, fitted):
    model = LRML(theta=2, alpha=0.3, threshold=np.array([0.1, 0.2, 0.3, 0.4])).fit(*data)
    copy = clone(model)
    assert fitted(model)
    assert fitted(copy) == {}
    np.testing.assert_equal(copy.get_params(), model.get_params())
    np.testing.assert_array_equal(copy.fit(*data).coef_, model.coef_)


@pytest.mark.parametrize("model", [LRML(), LRML(theta=3, ridge=0.1, solver="apg", targets="real")], ids=repr)
def test_repr_builds_the_same_estimator(model):
    assert eval(repr(model)).get_params() == model.get_params()


def test_repr_shows_what_differs_from_the_defaults():
    assert repr(LRML(theta=3, alpha=None, ridge=0.1)) == "LRML(ridge=0.1, theta=3)"


def test_pickle_round_trip(data, fitted):
    X, Y = data
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = LRML(theta=1, alpha=2.0).fit(frame, pd.DataFrame(Y, columns=list("wxyz")))
    copy = pickle.loads(pickle.dumps(model))
    assert_equal(copy, model)
    np.testing.assert_array_equal(copy.decision_function(frame), model.decision_function(frame))
    np.testing.assert_array_equal(copy.predict_top_k(frame, 2).labels, model.predict_top_k(frame, 2).labels)
    np.testing.assert_array_equal(
        copy.set_params(alpha=5.0).fit(frame, Y).coef_, clone(copy).fit(frame, Y).coef_
    )


# score


def mean_ranking_precision(Y, scores, weights=None):
    """scikit-learn's average over the rows that have a label."""
    labelled = Y.any(axis=1)
    weights = None if weights is None else weights[labelled]
    return label_ranking_average_precision_score(Y[labelled], scores[labelled], sample_weight=weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_score_is_the_label_ranking_average_precision(data, weighted):
    X, Y = data
    Y = Y.copy()
    Y[:7] = 0
    weights = np.random.default_rng(0).integers(1, 4, len(X)) if weighted else None
    model = LRML(theta=1).fit(X, Y)
    expected = mean_ranking_precision(Y, model.decision_function(X), weights)
    assert model.score(X, Y, sample_weight=weights) == pytest.approx(expected, rel=1e-12)
    assert expected < 1


@pytest.mark.parametrize("weighted", [False, True])
def test_score_of_real_targets_is_r2(data, weighted):
    X, Y = data
    targets = Y + np.random.default_rng(1).standard_normal(Y.shape)
    weights = np.random.default_rng(0).integers(0, 4, len(X)) if weighted else None
    model = LRML(theta=1, targets="real").fit(X, targets)
    expected = r2_score(targets, X @ model.coef_.T + model.intercept_, sample_weight=weights)
    assert model.score(X, targets, sample_weight=weights) == pytest.approx(expected, rel=1e-12)
    assert 0 < expected < 1


def test_score_of_rows_without_labels_explains_itself(data):
    X, Y = data
    with pytest.raises(ValueError, match="relevant label"):
        LRML().fit(X, Y).score(X, np.zeros_like(Y))


@pytest.mark.parametrize(
    "weights", [np.ones(3), np.full(60, -1.0), np.zeros(60)], ids=["too short", "negative", "all zero"]
)
def test_score_checks_its_weights(data, weights):
    with pytest.raises(ValueError, match="sample_weight"):
        LRML().fit(*data).score(*data, sample_weight=weights)


# Around the estimator


def test_pipeline_carries_feature_names(data):
    X, Y = data
    frame = pd.DataFrame(X, columns=list("abcde"))
    pipeline = make_pipeline(StandardScaler(), LRML(theta=1, alpha=2.0)).set_output(transform="pandas")
    pipeline.fit(frame, Y)
    assert pipeline[-1].feature_names_in_.tolist() == list("abcde")
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    by_hand = LRML(theta=1, alpha=2.0).fit(scaled, Y)
    assert not hasattr(by_hand, "feature_names_in_")
    np.testing.assert_allclose(
        pipeline.decision_function(frame), by_hand.decision_function(scaled), rtol=1e-8, atol=1e-10
    )
    np.testing.assert_array_equal(pipeline.predict(frame), by_hand.predict(scaled))
    assert pipeline.score(frame, Y) == pytest.approx(by_hand.score(scaled, Y))


def test_cross_val_score_is_the_score_of_each_fold(data):
    X, Y = data
    folds = KFold(3)
    expected = []
    for train, test in folds.split(X):
        scores = LRML(theta=1, alpha=2.0).fit(X[train], Y[train]).decision_function(X[test])
        expected.append(mean_ranking_precision(Y[test], scores))
    np.testing.assert_allclose(cross_val_score(LRML(theta=1, alpha=2.0), X, Y, cv=folds), expected)
    assert np.ptp(expected) > 0


def test_grid_search_over_theta_and_alpha(data):
    X, Y = data
    grid = {"theta": [0, 2, 0.25], "alpha": [0.5, 30.0]}
    search = GridSearchCV(LRML(tol=1e-10), grid, cv=KFold(3)).fit(X, Y)
    assert len(search.cv_results_["params"]) == 6
    by_hand = [
        cross_val_score(LRML(tol=1e-10, **params), X, Y, cv=KFold(3)).mean()
        for params in search.cv_results_["params"]
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], by_hand)
    assert search.best_params_ == search.cv_results_["params"][int(np.argmax(by_hand))]
    np.testing.assert_array_equal(
        search.predict(X), LRML(tol=1e-10, **search.best_params_).fit(X, Y).predict(X)
    )
    np.testing.assert_array_equal(search.classes_, np.arange(4))


def test_scorers_that_need_decisions(data):
    X, Y = data
    model = LRML(theta=2)
    decisions = cross_val_predict(model, X, Y, cv=KFold(3))
    scores = cross_val_predict(model, X, Y, cv=KFold(3), method="decision_function")
    np.testing.assert_array_equal(decisions, scores >= 0.5)
    hamming = make_scorer(lambda Y, Z: np.mean(Y != Z))
    by_fold = [np.mean(Y[test] != decisions[test]) for _, test in KFold(3).split(X)]
    np.testing.assert_allclose(cross_val_score(model, X, Y, cv=KFold(3), scoring=hamming), by_fold)


def test_sample_weight_is_routed_through_a_grid_search(data):
    X, Y = data
    weights = np.random.default_rng(5).integers(1, 6, len(X)).astype(float)
    make = partial(LRML, theta=1, tol=1e-12)
    with sklearn.config_context(enable_metadata_routing=True):
        model = make().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        search = GridSearchCV(model, {"alpha": [0.5, 5.0]}, cv=KFold(3)).fit(X, Y, sample_weight=weights)
    expected = []
    for alpha in (0.5, 5.0):
        of_folds = []
        for train, test in KFold(3).split(X):
            fold = make(alpha=alpha).fit(X[train], Y[train], sample_weight=weights[train])
            of_folds.append(mean_ranking_precision(Y[test], fold.decision_function(X[test]), weights[test]))
        expected.append(np.mean(of_folds))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected)
    best = make(**search.best_params_)
    np.testing.assert_array_equal(search.best_estimator_.coef_, best.fit(X, Y, sample_weight=weights).coef_)
    assert not np.allclose(best.coef_, best.fit(X, Y).coef_, rtol=1e-3)
