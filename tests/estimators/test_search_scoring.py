"""Searches by scikit-learn's scorers, and searches for real targets, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.linear_model import Ridge
from sklearn.metrics import f1_score, get_scorer, label_ranking_loss, make_scorer, r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.utils.estimator_checks import check_estimator

from lrml import CPLST, CPLSTCV, LEML, LEMLCV, LRML, LRMLCV, PLST, MLFro, MLFroCV, MLTrace, MLTraceCV
from sklearn_failures import EXACT

FOLDS = KFold(3, shuffle=True, random_state=1)
ALPHAS = [0.1, 3.0, 100.0]
REAL = {
    "LRMLCV": (LRMLCV([0], [0.5, 5.0], [0.1], tol=1e-12), LRML(tol=1e-12)),
    "MLTraceCV": (MLTraceCV([0.5, 5.0], tol=1e-12), MLTrace(tol=1e-12)),
    "MLFroCV": (MLFroCV([0.5, 50.0]), MLFro()),
    "CPLSTCV": (CPLSTCV([1, 3], [0.1]), CPLST()),
    "LEMLCV": (LEMLCV([2], [0.5, 50.0], tol=1e-8, random_state=0), LEML(tol=1e-8)),
}


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(75, 6, 4, seed=11)


@pytest.fixture(scope="module")
def real(data):
    X = data[0]
    truth = np.random.default_rng(0).standard_normal((6, 3))
    return X, X @ truth - 4.0 + 0.3 * np.random.default_rng(1).standard_normal((len(X), 3))


def own_scorer(model, X, Y):
    return -label_ranking_loss(Y, model.decision_function(X))


SCORERS = [
    "f1_micro",
    "accuracy",
    "roc_auc",
    "jaccard_macro",
    "roc_auc_ovr",  # by probabilities
    "r2",
    make_scorer(f1_score, average="macro"),
    get_scorer("neg_mean_squared_error"),
    own_scorer,
]


class WithPairsOfClasses(MLFro):
    """Two plain classes pass for a binary problem, in scikit-learn."""

    @property
    def classes_(self):
        return [np.array([0, 1])] * self.fitted_.n_labels


@pytest.mark.parametrize("loss", ["squared", "logistic"])
@pytest.mark.parametrize("scoring", SCORERS, ids=lambda scoring: getattr(scoring, "__name__", str(scoring)))
@pytest.mark.parametrize("n_labels", [2, 4])
def test_scorers_say_what_they_say_in_a_grid_search(data, loss, scoring, n_labels):
    X, Y = data[0], data[1][:, :n_labels]
    if scoring == "roc_auc_ovr" and loss == "squared":
        with pytest.raises(ValueError, match="scoring must suit targets='binary' and this loss"):
            MLFroCV(ALPHAS, scoring=scoring).fit(X, Y)
        return
    params = {"loss": loss, "tol": 1e-12}
    ours = MLFroCV(ALPHAS, cv=FOLDS, abandon=False, scoring=scoring, **params).fit(X, Y)
    expected = []
    for train, test in FOLDS.split(X):
        models = [
            WithPairsOfClasses(alpha, **params).fit(X[train], Y[train])
            for alpha in ours.cv_results_["param_alpha"]
        ]
        scorer = get_scorer(scoring)
        expected.append([scorer(model, X[test], Y[test]) for model in models])
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], np.mean(expected, axis=0), atol=1e-6)
    assert np.ptp(expected) > 0


def test_the_name_that_both_know_is_ours(data):
    X, Y = data
    by_default, by_name = (
        MLFroCV(ALPHAS, cv=FOLDS, scoring=s).fit(X, Y) for s in (None, "average_precision")
    )
    assert by_default.best_score_ == by_name.best_score_
    theirs = MLFroCV(ALPHAS, cv=FOLDS, scoring=get_scorer("average_precision")).fit(X, Y)
    assert theirs.best_score_ != by_name.best_score_


def test_a_scorer_sees_the_held_out_rows_dense_labels_and_the_threshold(data):
    X, Y = data
    seen = []

    def spy(model, A, B):
        seen.append((A, B))
        assert is_classifier(model)
        assert not hasattr(model, "predict_proba")
        np.testing.assert_array_equal(model.predict(A), model.decision_function(A) >= 0.3)
        with pytest.raises(ValueError, match="held-out rows that it was given, got 3"):
            model.predict(A[:3])
        return 0.0

    MLFroCV([1.0], cv=FOLDS, scoring=spy, threshold=0.3).fit(X, sp.csr_array(Y))
    for (A, B), (_, test) in zip(seen, FOLDS.split(X), strict=True):
        np.testing.assert_array_equal(A, X[test])
        np.testing.assert_array_equal(B, Y[test])


def test_scorers_and_metrics_in_one_search(data):
    several = ["average_precision", "f1_micro", own_scorer, make_scorer(f1_score, average="macro")]
    model = LRMLCV([1], [0.3, 3.0], [0.1], cv=FOLDS, scoring=several).fit(*data)
    assert list(model.best_estimators_)[:3] == ["average_precision", "f1_micro", "own_scorer"]
    assert len(model.best_estimators_) == 4


# Real targets


@pytest.mark.parametrize(("search", "plain"), REAL.values(), ids=REAL)
@pytest.mark.parametrize(
    "scoring",
    [None, "neg_mean_absolute_error", lambda Y, S: -np.abs(Y - S).max()],
    ids=["r2", "a name", "a function"],
)
def test_searches_for_real_targets(real, search, plain, scoring):
    X, Y = real
    search = clone(search).set_params(targets="real", cv=FOLDS, scoring=scoring, abandon=False).fit(X, Y)
    expected = []
    for params in search.cv_results_["params"]:
        model, values = clone(plain).set_params(targets="real", **params), []
        for train, test in FOLDS.split(X):
            model.fit(X[train], Y[train])
            if callable(scoring):
                values.append(scoring(Y[test], model.predict(X[test])))
            else:
                values.append(get_scorer(scoring or "r2")(model, X[test], Y[test]))
        expected.append(np.mean(values))
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, rtol=1e-4)
    assert np.ptp(expected) > 1e-3
    assert is_regressor(search)
    assert search.score(X, Y) == search.best_estimator_.score(X, Y) > 0.5
    np.testing.assert_array_equal(search.predict(X), search.best_estimator_.predict(X))


@pytest.mark.parametrize(("search", "plain"), REAL.values(), ids=REAL)
@pytest.mark.parametrize("cv", [3, 0.3])
def test_folds_of_real_targets(real, search, plain, cv):
    X, Y = real
    search = clone(search).set_params(targets="real", cv=cv, random_state=0)
    one, same = clone(search).fit(X, Y), clone(search).fit(X, Y)
    assert one.best_score_ == same.best_score_
    assert one.n_splits_ == (3 if cv == 3 else 1)
    assert clone(search).set_params(random_state=1).fit(X, Y).best_score_ != one.best_score_


def test_real_targets_agree_with_the_grid_search_of_scikit_learn(real):
    X, Y = real
    Y = Y - Y.mean(axis=0) - 1.0  # sums below zero are no absent labels
    theirs = GridSearchCV(MLFro(targets="real"), {"alpha": ALPHAS}, cv=FOLDS, scoring="r2").fit(X, Y)
    ours = MLFroCV(ALPHAS, targets="real", cv=FOLDS, abandon=False).fit(X, Y)
    for name in ("mean_test_score", "std_test_score", "rank_test_score"):
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], rtol=1e-5)


@pytest.mark.parametrize(("offset", "noise"), [(0.0, 1.0), (1e8, 1.0), (0.0, 1e-5)])
def test_real_targets_are_judged_in_double_precision(real, offset, noise):
    X = real[0]
    random = np.random.default_rng(2)
    Y = X @ random.standard_normal((6, 3)) + noise * random.standard_normal((len(X), 3)) + offset
    alphas, scoring = [1e-6, 1e-4, 1e-2, 1.0], "neg_mean_squared_error"
    theirs = GridSearchCV(Ridge(), {"alpha": alphas}, cv=FOLDS, scoring=scoring).fit(X, Y)
    for search in (MLFroCV(alphas), LRMLCV([0], [0.0], alphas), CPLSTCV([3], alphas)):
        ours = search.set_params(targets="real", cv=FOLDS, scoring=scoring).fit(X, Y).cv_results_
        name = "param_ridge" if "param_ridge" in ours else "param_alpha"
        found = ours["mean_test_score"][np.argsort(ours[name])]
        np.testing.assert_allclose(found, theirs.cv_results_["mean_test_score"], rtol=1e-4)


@pytest.mark.parametrize("model", [LRML(1.0), PLST(), LEML(), MLFroCV(), CPLSTCV(), LEMLCV()], ids=repr)
def test_real_targets_of_any_size(real, model):
    X, Y = real
    with np.errstate(all="raise"):
        large = clone(model).set_params(targets="real").fit(X, 1e98 * Y)
    assert large.score(X, 1e98 * Y) > 0.4
    with pytest.raises(ValueError, match=r"real targets must stay below 1e\+100.*Divide Y by a constant"):
        clone(model).set_params(targets="real").fit(X, 1e200 * Y)


@pytest.mark.parametrize("model", [LRML(1.0), LEML(1.0, 1e-9)], ids=repr)
def test_the_score_of_real_targets_leaves_unknown_ones_out(real, model):
    X, Y = real
    known = np.random.default_rng(3).random(Y.shape) < 0.8
    known[:, 2] = False
    known[0, 2] = True  # too few for an R²
    weights = np.random.default_rng(4).random(len(X))
    model = clone(model).set_params(targets="real").fit(X, Y, observed=known)
    wrong = np.where(known, Y, 1e6)
    for w in (None, weights):
        expected = np.mean([
            r2_score(Y[rows, j], model.predict(X)[rows, j], sample_weight=None if w is None else w[rows])
            for j, rows in enumerate(known.T[:2])
        ])  # fmt: skip
        found = [
            model.score(X, wrong, w, observed=known),
            model.score(X, np.where(known, Y, np.nan), w),
            model.score(X, sp.csr_array(wrong), w, observed=sp.csr_array(known)),
        ]
        np.testing.assert_allclose(found, expected)
    search = GridSearchCV(clone(model), {"fit_intercept": [True, False]}, cv=FOLDS)
    search.fit(X, np.where(known[:, :2], Y[:, :2], np.nan))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_remedies_suit_real_targets(real):
    error = "neg_mean_squared_error"
    with pytest.raises(ValueError, match=rf"scoring='{error}'\. Pass cv=5\.$"):
        MLFroCV(targets="real", rule="one_standard_error", cv=0.2, scoring=error).fit(*real)
    with pytest.raises(ValueError, match=r"not supported in max_error\. Use 'r2'\.$"):
        MLFroCV(targets="real", scoring="neg_max_error").fit(*real)
    with pytest.raises(ValueError, match=r"got 'typo'\. Use 'r2'\.$"):
        MLFroCV(targets="real", scoring="typo").fit(*real)


@pytest.mark.parametrize("model", [CPLST(2), PLST(2), LEML(2, 0.5, tol=1e-10)], ids=repr)
def test_real_targets_are_shifted_and_scaled_like_the_predictions(real, model):
    X, Y = real
    plain = clone(model).set_params(targets="real").fit(X, Y)
    zero_mean = clone(plain).fit(X, Y - Y.mean(axis=0))
    np.testing.assert_allclose(plain.predict(X), zero_mean.predict(X) + Y.mean(axis=0), atol=1e-6)
    assert not plain.unseen_labels_.any()
    assert not zero_mean.unseen_labels_.any()
    assert plain.score(X, Y) > 0.8
    with pytest.raises(ValueError, match="Y must hold only 0 and 1"):
        clone(model).fit(X, Y)


def test_unknown_real_targets_are_refused_by_searches(real):
    X, Y = real
    with pytest.raises(ValueError, match="targets='real' needs to know all targets"):
        MLFroCV(targets="real").fit(X, np.where(np.arange(3) == 1, np.nan, Y))


@pytest.mark.parametrize(
    "model", [LEML(targets="real"), CPLST(targets="real"), PLST(targets="real")], ids=repr
)
def test_regressors_pass_every_check(model):
    exact = {"check_non_transformer_estimators_n_iter": EXACT[0]} if isinstance(model, LEML) else {}
    results = check_estimator(model, on_skip=None, expected_failed_checks=exact)
    assert {result["status"] for result in results} <= {"passed", "skipped", "xfail"}


def test_a_scorer_that_asks_for_probabilities_of_least_squares_is_told_what_to_do(data):
    by_probability = make_scorer(roc_auc_score, response_method="predict_proba")
    with pytest.raises(ValueError, match=r"models with loss='squared' have.*need a logistic loss"):
        MLFroCV(scoring=by_probability, cv=FOLDS).fit(*data)
