"""A 1-D y: one label, answered as scikit-learn's binary classifiers do, and the tools that wrap them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier

from lrml import CPLST, LEML, LRML, LRMLCV, MLFro, MLFroCV, MLTrace, SpectralRegressor
from lrml.model_selection import MultilabelStratifiedKFold

FAMILY = [
    LRML(theta=0, alpha=0.5, ridge=0.1),
    MLTrace(alpha=0.5),
    MLFro(),
    MLFro(loss="logistic"),
    MLFro(loss="squared_hinge"),
    LEML(rank=1),
    CPLST(rank=1, ridge=0.1),
    LRMLCV(thetas=[0], alphas=[0.5], ridges=[0.1], cv=2, random_state=0),
]
MODELS = pytest.mark.parametrize("model", FAMILY, ids=repr)


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(60, 5, 3, seed=4)


@MODELS
def test_answers_are_those_for_one_column_in_one_dimension(data, model):
    X, y = data[0], data[1][:, 0]
    model = clone(model).fit(X, y[:, None])
    scores, labels = model.decision_function(X), model.predict(X)
    assert scores.shape == labels.shape == (60, 1)
    cut = 0.5 if model.loss_ == "squared" else 0.0
    model.fit(X, y)
    assert model.coef_.shape == (1, 5)
    np.testing.assert_array_equal(model.classes_, [0, 1])
    np.testing.assert_allclose(model.decision_function(X), scores[:, 0] - cut, atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), labels[:, 0])
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X) > 0)
    assert 0 < model.predict(X).sum() < 60
    assert model.score(X, y) == accuracy_score(y, model.predict(X))
    if hasattr(model, "predict_proba"):
        probability = model.predict_proba(X)
        np.testing.assert_allclose(probability[:, 1], 1 / (1 + np.exp(-scores[:, 0])))
        np.testing.assert_allclose(probability.sum(axis=1), np.ones(60))
    with pytest.raises(ValueError, match="1-D"):
        model.predict_top_k(X)
    for value in (0, 1):  # one class only
        np.testing.assert_array_equal(clone(model).fit(X, np.full(60, value)).predict(X), np.full(60, value))
    model.fit(X, data[1])  # nothing of the 1-D y is left
    assert model.predict(X).shape == (60, 3)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])


@pytest.mark.parametrize(
    "classes", [["no", "yes"], [-1, 1], [1, 2], [False, True], [0.0, 1.0], [3.0, 7.0]], ids=repr
)
def test_any_two_classes(data, classes):
    X, y = data[0], data[1][:, 1]
    plain, named = MLFro().fit(X, y), [classes[value] for value in y]
    forms = [np.asarray, list, pd.Series, pl.Series, lambda y: np.asarray(y, dtype=object)]
    for form in forms if classes != [1, 2] else [*forms, lambda y: pd.Series(y, dtype="Int64")]:
        model = MLFro().fit(X, form(named))
        assert model.classes_.tolist() == classes
        np.testing.assert_array_equal(model.predict(X), np.array(classes)[plain.predict(X)])
        np.testing.assert_array_equal(model.coef_, plain.coef_)
        assert model.score(X, form(named)) == plain.score(X, y)


def test_who_has_no_probabilities_says_who_has(data):
    for model in (LRML(), CPLST(), LEML(loss="squared_hinge"), LRMLCV()):
        assert not hasattr(model, "predict_proba")
        with pytest.raises(AttributeError) as refused:
            model.predict_proba(data[0])
        assert "calibrate=" in str(refused.value.__cause__)


def test_one_label_is_that_of_scikit_learn(data):
    X, y = data[0], np.where(data[1][:, 0], "yes", "no")
    ridge, ours = RidgeClassifier(alpha=2.0).fit(X, y), MLFro(alpha=2.0).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), ridge.decision_function(X) / 2, atol=1e-10)
    np.testing.assert_array_equal(ours.predict(X), ridge.predict(X))
    logistic = LogisticRegression(C=0.25, tol=1e-10).fit(X, y)
    ours = MLFro(alpha=2.0, loss="logistic", tol=1e-12).fit(X, y)
    np.testing.assert_allclose(ours.predict_proba(X), logistic.predict_proba(X), atol=1e-5)
    real = X @ np.arange(5.0) + np.random.default_rng(0).standard_normal(60)
    model = SpectralRegressor().fit(X, real)
    assert model.predict(X).shape == SpectralRegressor(alpha=0.0).leave_one_out_scores(X, real).shape == (60,)
    assert model.score(X, real) == pytest.approx(r2_score(real, model.predict(X)))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_search_has_something_to_maximise(data, loss):
    """A ranking of one label is always right; the default for one is the loss."""
    X, y = data[0], data[1][:, 0]
    alphas = [100.0, 1.0, 1e-3]
    search = MLFroCV(MLFro(loss=loss), alphas=alphas, cv=3, random_state=0).fit(X, y)
    found = search.cv_results_["mean_test_score"]
    assert np.ptp(found) > 0.01
    if loss == "logistic":
        folds = list(MultilabelStratifiedKFold(3, random_state=0).split(X, y[:, None]))
        by_hand = GridSearchCV(MLFro(loss=loss), {"alpha": alphas}, cv=folds, scoring="neg_log_loss")
        by_hand.fit(X, y)
        np.testing.assert_allclose(found, by_hand.cv_results_["mean_test_score"], rtol=2e-3)
        assert search.best_params_ == by_hand.best_params_
    unknown = np.where(np.arange(60) % 5 == 0, np.nan, y)
    assert MLFroCV(MLFro(loss=loss), alphas=alphas, cv=3, random_state=0).fit(X, unknown).predict(
        X
    ).shape == (60,)


@pytest.mark.parametrize("model", [FAMILY[0], FAMILY[3]], ids=repr)
def test_scikit_learns_wrappers(data, model):
    X, Y = data
    by_hand = np.stack([clone(model).fit(X, y).predict(X) for y in Y.T], axis=1)
    for wrapper in (MultiOutputClassifier, OneVsRestClassifier):
        np.testing.assert_array_equal(wrapper(model).fit(X, Y).predict(X), by_hand)
    chain = ClassifierChain(model, order=[2, 0, 1]).fit(X, Y)
    second, last = clone(model).fit(np.c_[X, Y[:, 2]], Y[:, 0]), chain.estimators_[0].predict(X)
    np.testing.assert_array_equal(chain.estimators_[1].coef_, second.coef_)
    np.testing.assert_array_equal(chain.predict(X)[:, 0], second.predict(np.c_[X, last]))
    probability = CalibratedClassifierCV(model, cv=3).fit(X, Y[:, 0]).predict_proba(X)[:, 1]
    assert np.mean(probability[Y[:, 0] == 1]) > np.mean(probability[Y[:, 0] == 0]) + 0.1
    rows, kinds = load_iris(return_X_y=True)
    kinds = np.array(["a", "b", "c"])[kinds]
    assert OneVsRestClassifier(model).fit(rows, kinds).score(rows, kinds) > 0.6
