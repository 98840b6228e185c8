"""Probabilities from scores of unseen rows, against fits of scipy and scikit-learn, and known curves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, logit, xlogy
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

from lrml import CPLST, LEML, LRML, LRMLCV, MLFro, MLFroCV, evaluation, metrics
from lrml.estimators import Calibration
from lrml.model_selection import iterative_train_test_split
from namespaces import assert_same, put

KINDS = ("sigmoid", "isotonic")
each_kind = pytest.mark.parametrize("kind", KINDS)


def drawn(slopes, offsets, n_rows, seed=0):
    """Scores, and labels whose log odds are straight in them."""
    rng = np.random.default_rng(seed)
    S = rng.normal(-1.0, 2.0, (n_rows, len(slopes)))
    truth = expit(np.asarray(slopes) * S + np.asarray(offsets))
    return (rng.random(S.shape) < truth).astype(int), S, truth


def log_loss(Y, P):
    return -np.mean(xlogy(Y, P) + xlogy(1 - Y, 1 - P))


def leaving_each_row_out(model, X, Y):
    rows = range(len(X))
    return np.vstack(
        [model.fit(np.delete(X, i, 0), np.delete(Y, i, 0)).decision_function(X[[i]]) for i in rows]
    )


def test_one_label_gets_the_sigmoid_of_platt():
    Y, S, _ = drawn([1.5], [0.4], 50)
    n_positive, n = Y.sum(), len(Y)
    aims = np.where(Y == 1, (n_positive + 1) / (n_positive + 2), 1 / (n - n_positive + 2))

    def loss(parts):
        odds = parts[0] * S + parts[1]
        return np.sum(np.logaddexp(0.0, odds) - aims * odds)

    found = Calibration.of(Y, S, None, "sigmoid")
    np.testing.assert_allclose(
        [found.slopes[0], found.offsets[0]], minimize(loss, [1.0, 0.0], tol=1e-10).x, rtol=1e-4
    )


def test_one_label_gets_nearly_the_isotonic_regression_of_scikit_learn():
    Y, S, truth = drawn([1.0], [0.0], 20_000)
    found = Calibration.of(Y, S, None, "isotonic").probability(S)
    expected = IsotonicRegression(out_of_bounds="clip").fit(S[:, 0], Y[:, 0]).predict(S[:, 0])
    assert np.mean(np.abs(found[:, 0] - expected)) < 0.01
    assert np.mean(np.abs(found - truth)) < 0.015
    assert np.all(np.diff(found[np.argsort(S[:, 0]), 0]) >= 0)


@each_kind
def test_labels_with_many_examples_follow_their_own_scores(kind):
    slopes, offsets = [0.6, 1.0, 1.6], [-1.0, 0.5, 1.5]
    Y, S, truth = drawn(slopes, offsets, 8000)
    found = Calibration.of(Y, S, None, kind).probability(S)
    assert np.max(np.mean(np.abs(found - truth), axis=0)) < (0.02 if kind == "sigmoid" else 0.03)
    if kind == "sigmoid":
        alone = LogisticRegression(C=1e6).fit(S[:, [2]], Y[:, 2]).predict_proba(S[:, [2]])[:, 1]
        np.testing.assert_allclose(found[:, 2], alone, atol=0.01)


@each_kind
def test_labels_with_few_examples_are_drawn_to_what_is_common(kind):
    rng = np.random.default_rng(1)
    slopes, offsets = rng.normal(1.0, 0.1, 60), rng.normal(-2.5, 0.5, 60)
    Y, S, _ = drawn(slopes, offsets, 120)
    Y_new, S_new, _ = drawn(slopes, offsets, 2000, seed=2)
    together = Calibration.of(Y, S, None, kind).probability(S_new)
    alone = np.hstack([Calibration.of(y, s, None, kind).probability(t) for y, s, t in by_label(Y, S, S_new)])
    pooled = Calibration.of(Y.reshape(-1, 1), S.reshape(-1, 1), None, kind)
    as_one = pooled.probability(S_new.reshape(-1, 1)).reshape(S_new.shape)
    assert log_loss(Y_new, together) < min(log_loss(Y_new, alone), log_loss(Y_new, as_one))


def by_label(*matrices):
    return [tuple(M[:, [label]] for M in matrices) for label in range(matrices[0].shape[1])]


@each_kind
def test_equal_labels_get_equal_probabilities(kind):
    Y, S, _ = drawn(np.ones(30), np.zeros(30), 1000)
    found = Calibration.of(Y, S, None, kind).probability(np.zeros((1, 30)))
    assert np.std(logit(found)) < 0.1


@each_kind
def test_unknown_cells_do_not_count(kind):
    Y, S, _ = drawn([1.0, 0.8], [0.0, -1.0], 200)
    known = np.random.default_rng(3).random(Y.shape) < 0.7
    one = Calibration.of(Y, S, known, kind)
    other = Calibration.of(np.where(known, Y, 1 - Y), np.where(known, S, 100.0), known, kind)
    np.testing.assert_array_equal(one.probability(S), other.probability(S))


def test_nothing_known_is_nothing_to_calibrate_by():
    with pytest.raises(ValueError, match=r"^calibrate='sigmoid' .*no known label"):
        Calibration.of(np.ones((3, 2)), np.zeros((3, 2)), np.zeros((3, 2), dtype=bool), "sigmoid")


@each_kind
@pytest.mark.parametrize("label", [0, 1], ids=["none", "all"])
def test_labels_that_all_rows_have_or_none_has(kind, label):
    Y, S, _ = drawn(np.ones(4), np.zeros(4), 300)
    Y[:, 3] = label
    found = Calibration.of(Y, S, None, kind).probability(S)[:, 3]
    assert np.mean(np.abs(found - label)) < 0.15
    alone = Calibration.of(Y[:, 3:], S[:, 3:], None, kind).probability(S[:, 3:])
    assert np.mean(np.abs(alone - label)) < 0.02
    assert np.all((found > 0) & (found < 1))


@each_kind
def test_a_constant_score_is_the_share_of_positive_rows(kind):
    Y = np.repeat([1, 0], [30, 70])[:, None]
    found = Calibration.of(Y, np.zeros((100, 1)), None, kind).probability(np.zeros((1, 1)))
    assert found == pytest.approx(0.3, abs=0.02)


@each_kind
def test_probabilities_are_those_of_numpy_on_any_device(kind, place):
    Y, S, _ = drawn([1.0, 0.8, 1.3], [0.0, -1.0, 0.2], 100)
    made = Calibration.of(Y, S, None, kind)
    found = made.probability(put(place, S))
    assert_same(found, made.probability(S), place)


# In models


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(80, 6, 4, seed=9, density=0.2)


@each_kind
def test_a_fit_calibrates_leave_one_out_scores(data, kind):
    X, Y = data
    expected = Calibration.of(Y, leaving_each_row_out(MLFro(1.0), X, Y), None, kind)
    model = MLFro(1.0, calibrate=kind).fit(X, Y)
    scores = model.decision_function(X)
    np.testing.assert_allclose(model.predict_proba(X), expected.probability(scores), atol=1e-4)
    np.testing.assert_array_equal(scores, MLFro(1.0).fit(X, Y).decision_function(X))
    search = MLFroCV(MLFro(calibrate=kind, threshold="auto"), alphas=[1.0]).fit(X, Y)
    np.testing.assert_allclose(search.predict_proba(X), model.predict_proba(X), atol=1e-4)
    assert search.threshold_ == MLFroCV(MLFro(threshold="auto"), alphas=[1.0]).fit(X, Y).threshold_


@pytest.mark.parametrize("model", [MLFro(loss="logistic"), LEML(2, loss="squared_hinge")], ids=repr)
def test_other_losses_use_a_fifth_of_the_rows(data, model):
    X, Y = data
    train, test, _, _ = iterative_train_test_split(np.arange(80), Y, test_size=0.2, random_state=0)
    scores = model.fit(X[train], Y[train]).decision_function(X[test])
    expected = Calibration.of(Y[test], scores, None, "sigmoid")
    found = model.set_params(calibrate="sigmoid").fit(X, Y).predict_proba(X)
    np.testing.assert_allclose(found, expected.probability(model.decision_function(X)), atol=1e-6)


def test_a_search_calibrates_the_held_out_scores_of_its_choice(data):
    X, Y = data
    folds = [(np.arange(30, 80), np.arange(30)), (np.arange(50), np.arange(50, 80))]
    model = LRML(1, 0.5, ridge=1.0, space="coefficients", loss="logistic")
    search = LRMLCV(
        model.set_params(calibrate="sigmoid"), thetas=1, alphas=0.5, ridges=1.0, cv=folds, random_state=0
    ).fit(X, Y)
    model.set_params(calibrate=None)
    scores = np.vstack([model.fit(X[a], Y[a]).decision_function(X[b]) for a, b in folds])
    expected = Calibration.of(np.vstack([Y[b] for _, b in folds]), scores, None, "sigmoid")
    found = search.fitted_.calibration
    np.testing.assert_allclose(found.slopes, expected.slopes, rtol=0.05)
    np.testing.assert_allclose(found.offsets, expected.offsets, atol=0.1)


@pytest.mark.parametrize("model", [MLFro(1.0), CPLST(1)], ids=repr)
def test_one_label_in_one_dimension(data, model):
    X, y = data[0], data[1][:, 0]
    model.set_params(calibrate="sigmoid", threshold=0.3)
    column = model.fit(X, y[:, None]).predict_proba(X)
    flat = model.fit(X, y).predict_proba(X)
    np.testing.assert_allclose(flat, np.hstack([1 - column, column]), rtol=1e-12)


def test_who_does_not_ask_has_none(data):
    X, Y = data
    model = MLFro(1.0).fit(X, Y)
    assert not hasattr(model, "predict_proba")
    assert hasattr(MLFro(calibrate="sigmoid"), "predict_proba")
    model.calibrate = "sigmoid"  # after the fit it is too late
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "partial_fit")
    with pytest.raises(ValueError, match=r"^fit_blocks .*calibrate='sigmoid'"):
        model.fit_blocks([(X, Y)])
    with pytest.raises(ValueError, match=r"^calibrate='sigmoid' .*2 rows"):
        model.fit(X[:1], Y[:1])


def test_unknown_labels_are_left_out(data):
    X, Y = data[0], data[1].astype(float)
    Y[::7, 1] = np.nan
    model = MLFro(1.0, calibrate="sigmoid").fit(X, Y)
    assert metrics.brier_score_loss(Y, model.predict_proba(X)) < metrics.brier_score_loss(
        Y, np.full(Y.shape, 0.5)
    )


def test_evaluations_judge_the_probabilities_of_the_model(data):
    X, Y = data
    model = MLFro(1.0, calibrate="isotonic", threshold="auto").fit(X, Y)
    P = model.predict_proba(X)
    found = metrics.evaluate(model, X, Y, metrics=["brier_score_loss", "log_loss", "f1_micro", "ndcg_at_2"])
    assert found["brier_score_loss"] == pytest.approx(np.mean((P - Y) ** 2))
    assert found["log_loss"] == pytest.approx(log_loss(Y, P))
    assert found["f1_micro"] == metrics.f1_micro(Y, model.decision_function(X), model.threshold_)
    assessed = evaluation.assess(model, X, Y, n_bootstrap=0)
    assert assessed.reliability.brier == pytest.approx(found["brier_score_loss"])
    told = [one["score"] * one["count"] for one in assessed.reliability.bins]
    assert sum(told) == pytest.approx(P.sum())
