"""Searches by scikit-learn's scorers, and searches for real targets, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone, is_regressor
from sklearn.metrics import f1_score, get_scorer, label_ranking_loss, make_scorer, r2_score, roc_auc_score
from sklearn.model_selection import KFold

from lrml import LRMLCV, MLFro, MLFroCV, SpectralRegressor, SpectralRegressorCV
from lrml.core.penalties import TailSum

FOLDS = KFold(3, shuffle=True, random_state=1)
ALPHAS = [0.1, 3.0, 100.0]


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(75, 6, 4, seed=11)


@pytest.fixture(scope="module")
def real(data):
    X, truth = data[0], np.random.default_rng(0).standard_normal((6, 3))
    return X, X @ truth - 4.0 + 0.3 * np.random.default_rng(1).standard_normal((len(X), 3))


def own_scorer(model, X, Y):
    return -label_ranking_loss(Y, model.decision_function(X))


BY_PROBABILITY = ("roc_auc_ovr", make_scorer(roc_auc_score, response_method="predict_proba"))
SCORERS = [
    *("f1_micro", "accuracy", "roc_auc", "jaccard_macro", "r2", *BY_PROBABILITY),
    *(make_scorer(f1_score, average="macro"), get_scorer("neg_mean_squared_error"), own_scorer),
]


class WithPairsOfClasses(MLFro):
    """Two plain classes pass for a binary problem, in scikit-learn."""

    @property
    def classes_(self):
        return [np.array([0, 1])] * self.fitted_.n_labels


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("n_labels", [2, 4])
def test_scorers_say_what_they_say_in_a_grid_search(data, loss, n_labels):
    X, Y = data[0], data[1][:, :n_labels]
    params = {"loss": loss, "tol": 1e-12}
    pairs = []
    for train, test in FOLDS.split(X):
        plain = [WithPairsOfClasses(alpha, **params).fit(X[train], Y[train]) for alpha in ALPHAS]
        pairs.append((plain, test))
    search = MLFroCV(MLFro(**params), alphas=ALPHAS, cv=FOLDS)
    if loss == "squared":
        for scoring in BY_PROBABILITY:
            with pytest.raises(ValueError, match=r"loss='squared'|this loss"):
                clone(search).set_params(scoring=scoring).fit(X, Y)
    asked = [scoring for scoring in SCORERS if loss == "logistic" or scoring not in BY_PROBABILITY]
    table = search.set_params(scoring=asked).fit(X, Y).cv_results_
    means = [values for name, values in table.items() if name.startswith("mean_test_")]
    for scorer, values in zip(map(get_scorer, asked), means, strict=True):
        expected = [[scorer(model, X[test], Y[test]) for model in plain] for plain, test in pairs]
        found = values[np.argsort(table["param_alpha"])]
        np.testing.assert_allclose(found, np.mean(expected, axis=0), atol=1e-6)
        assert np.ptp(expected) > 0


def test_the_name_that_both_know_is_ours(data):
    ours, by_name, theirs = (
        MLFroCV(alphas=ALPHAS, cv=FOLDS, scoring=scoring).fit(*data).best_score_
        for scoring in (None, "label_ranking_average_precision", get_scorer("average_precision"))
    )
    assert ours == by_name != theirs
    several = [
        "label_ranking_average_precision",
        "f1_micro",
        own_scorer,
        make_scorer(f1_score, average="macro"),
    ]
    model = LRMLCV(thetas=[1], alphas=[0.3, 3.0], ridges=[0.1], cv=FOLDS, scoring=several).fit(*data)
    assert list(model.best_estimators_)[:3] == ["label_ranking_average_precision", "f1_micro", "own_scorer"]
    assert len(model.best_estimators_) == 4


# Real targets


def test_r2_is_that_of_scikit_learn_with_weights_and_constant_targets(real, monkeypatch):
    X, Y = real
    weights = np.random.default_rng(3).uniform(0.1, 3.0, len(X))
    weights[::7] = 0.0
    Y = np.column_stack([Y, np.where(np.arange(len(X)) == 1, 1.0, 0.0), np.zeros(len(X))])
    Y[::7] = 1e15  # rows that do not count
    search = SpectralRegressorCV(thetas=0, alphas=[0.5, 50.0], ridges=[0.1, 5.0], cv=FOLDS)
    for most_scores in (1 << 20, 10):
        monkeypatch.setattr("lrml.estimators._judges._BLOCK_SCORES", most_scores)
        search.fit(X, Y, sample_weight=weights)
        assert is_regressor(search)
        results = search.cv_results_
        for params, found in zip(results["params"], results["mean_test_score"], strict=True):
            expected = []
            for train, test in FOLDS.split(X):
                model = SpectralRegressor(**params).fit(X[train], Y[train], sample_weight=weights[train])
                expected.append(r2_score(Y[test], model.predict(X[test]), sample_weight=weights[test]))
            assert found == pytest.approx(np.mean(expected), rel=1e-4)


def test_what_does_not_suit_real_targets_is_refused(real):
    X, Y = real
    error = "neg_mean_squared_error"
    for params, named in (
        ({"rule": "one_standard_error", "cv": 0.2, "scoring": error}, error),
        ({"scoring": "neg_max_error"}, "max_error.*'r2'"),
        ({"scoring": "typo"}, "'typo'.*'r2'"),
        ({"scoring": "f1_micro"}, "f1_micro.*'r2'"),
        ({"estimator": SpectralRegressor(penalty=TailSum(1, 2.0))}, "penalty"),
        ({"estimator": SpectralRegressor(target_weights=[1.0, 2.0, 3.0])}, "target_weights"),
    ):
        with pytest.raises(ValueError, match=named):
            SpectralRegressorCV(**params).fit(X, Y)
    with pytest.raises(ValueError, match="targets"):
        SpectralRegressorCV().fit(X, np.where(np.arange(3) == 1, np.nan, Y))
