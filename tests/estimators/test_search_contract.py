"""Searches as estimators: scikit-learn's checks, the final fit, odd data, repeatability, errors."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import KFold
from sklearn.utils.estimator_checks import check_estimator

from lrml import CPLST, CPLSTCV, LEML, LEMLCV, LRML, LRMLCV, MLFro, MLFroCV, MLTrace, MLTraceCV
from sklearn_failures import CUT, unexpected

SEED = {"cv": 3, "random_state": 0}
FAMILY = {
    "LRMLCV": (LRMLCV(thetas=[0, 1], alphas=[0.5, 3.0], ridges=[0.1], **SEED), LRML()),
    "MLTraceCV": (MLTraceCV(alphas=[0.5, 3.0], ridges=0, **SEED), MLTrace()),
    "MLFroCV": (MLFroCV(alphas=[0.5, 3.0], **SEED), MLFro()),
    "CPLSTCV": (CPLSTCV(ranks=[1, 1.0], ridges=[0.1], **SEED), CPLST()),
    "LEMLCV": (LEMLCV(ranks=[1, 0.5], alphas=[0.5, 3.0], **SEED), LEML()),
}
SEARCHES = pytest.mark.parametrize("model", [pytest.param(m, id=n) for n, (m, _) in FAMILY.items()])
PAIRS = pytest.mark.parametrize(("model", "plain"), FAMILY.values(), ids=FAMILY)
THE_BEST = ["factors_", "singular_values_", "rank_", "n_iter_", "objective_", "status_", "n_features_in_"]


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(70, 5, 4, seed=21)


@pytest.mark.parametrize("model", [FAMILY["LRMLCV"][0], FAMILY["CPLSTCV"][0]], ids=repr)
def test_every_check_passes_but_those_that_cannot_apply(model):
    # A single candidate: weights change folds, and so the choice, in another way than repeated rows do.
    grid = {
        name: value[:1] for name, value in model.get_params(deep=False).items() if isinstance(value, list)
    }
    assert not unexpected(check_estimator, clone(model).set_params(cv=2, **grid), CUT)


@PAIRS
@pytest.mark.parametrize("weighted", [False, True])
def test_final_fit_is_the_plain_fit_on_all_rows(data, model, plain, weighted):
    X, Y = data
    weights = np.linspace(0.5, 2.0, len(X)) if weighted else None
    model = clone(model).fit(X, Y, sample_weight=weights)
    plain = clone(plain).set_params(**model.best_params_).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, plain.coef_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(model.intercept_, plain.intercept_, rtol=1e-8, atol=1e-10)
    assert np.abs(plain.coef_).max() > 0.01
    best = model.best_estimator_
    assert type(best) is type(plain)
    assert all(getattr(model, name) is getattr(best, name) for name in THE_BEST)
    np.testing.assert_array_equal(model.predict(X), best.predict(X))
    assert model.score(X, Y) == best.score(X, Y)
    assert model.best_params_ == model.cv_results_["params"][model.best_index_]
    assert hasattr(model, "gap_") == hasattr(plain, "gap_")


@SEARCHES
def test_frames_and_sparse_labels(data, model, fitted):
    X, Y = data
    frame, labels = pd.DataFrame(X, columns=list("abcde")), pd.DataFrame(Y, columns=list("wxyz"))
    plain, framed = clone(model).fit(X, Y), clone(model).fit(frame, labels)
    assert framed.feature_names_in_.tolist() == list("abcde")
    assert framed.classes_.tolist() == list("wxyz")
    np.testing.assert_allclose(framed.coef_, plain.coef_, rtol=1e-8)  # columns of a frame lie differently
    again = framed.fit(X[:, :4], Y[:, :3])  # forgets all of the first fit
    assert not hasattr(again, "feature_names_in_")
    assert again.predict(X[:, :4]).shape == (70, 3)
    fresh = clone(model).fit(X[:, :4], Y[:, :3])
    assert fitted(again).keys() == fitted(fresh).keys()
    np.testing.assert_array_equal(again.coef_, fresh.coef_)
    sparse = clone(model).fit(X, sp.csr_array(Y))
    decisions = sparse.predict(X)
    assert sp.issparse(decisions)
    np.testing.assert_array_equal(decisions.toarray(), sparse.decision_function(X) >= 0.5)
    np.testing.assert_allclose(sparse.coef_, plain.coef_, atol=1e-8)


@SEARCHES
def test_a_failing_fit_changes_nothing(data, model, fitted):
    X, Y = data
    fresh, model = clone(model), clone(model).fit(X, Y)
    before = dict(fitted(model))
    bad = X.copy()
    bad[3, 1] = np.nan
    # No held-out row of the last has a label: all candidates have run before that shows.
    for A, B in ((bad, Y), (X[:-1], Y), (X[:1], Y[:1]), (X, np.zeros_like(Y))):
        for estimator in (model, fresh):
            with pytest.raises(ValueError, match=r"."):
                estimator.fit(A, B)
    with pytest.raises(ZeroDivisionError):
        model.set_params(scoring=lambda Y, S: 1 / 0).fit(X, Y)
    assert fitted(fresh) == {}
    assert fitted(model).keys() == before.keys()
    assert all(value is before[name] for name, value in fitted(model).items())


# Odd data


@pytest.mark.parametrize("kind", [LRMLCV, MLTraceCV, MLFroCV, CPLSTCV, LEMLCV])
@pytest.mark.parametrize(
    ("n", "d", "n_labels"), [(40, 5, 1), (40, 1, 3), (40, 3, 9), (12, 20, 4), (4, 3, 2)], ids=str
)
def test_default_grids_on_odd_shapes(make_problem, kind, n, d, n_labels):
    X, Y = make_problem(n, d, n_labels, seed=4)
    Y[:, 0] = 1  # every held-out row has a label
    model = kind(cv=2, random_state=0).fit(X, Y)
    assert model.coef_.shape == (n_labels, d)
    assert np.isfinite(model.decision_function(X)).all()
    assert np.isfinite(model.best_score_)


@pytest.mark.parametrize(("name", "as_nan"), [("LRMLCV", True), ("MLFroCV", False), ("LEMLCV", True)])
def test_unknown_labels(data, name, as_nan):
    X, Y = data
    known = np.random.default_rng(0).random(Y.shape) < 0.8
    hidden, observed = (np.where(known, Y, np.nan), None) if as_nan else (Y, known)
    model, plain = map(clone, FAMILY[name])
    plain.set_params(tol=1e-8, max_iter=5000, threshold="auto")
    model.set_params(estimator=clone(plain), cv=KFold(3)).fit(X, hidden, observed=observed)
    plain.set_params(**model.best_params_, threshold=None)
    for split, (train, test) in enumerate(KFold(3).split(X)):
        fit = plain.fit(X[train], Y[train], observed=known[train])
        found = model.cv_results_[f"split{split}_test_score"][model.best_index_]
        assert found == pytest.approx(fit.score(X[test], Y[test], observed=known[test]), abs=1e-3)
    assert np.isfinite(model.threshold_)
    assert model.predict(X).shape == Y.shape
    with pytest.raises(ValueError, match=r"CPLSTCV .* LEMLCV or LRMLCV"):
        CPLSTCV().fit(X, hidden, observed=observed)


def test_a_search_takes_its_own_member_and_leaves_it_alone(data):
    given = LRML(theta=1, alpha=7.0, fit_intercept=False)
    search = LRMLCV(given, random_state=0).set_params(estimator__tol=1e-3).fit(*data)
    assert search.get_params()["estimator"] is given
    assert (given.theta, given.alpha, hasattr(given, "fitted_")) == (1, 7.0, False)
    assert (search.best_estimator_.fit_intercept, search.best_estimator_.tol) == (False, 1e-3)
    copied = clone(search)
    assert copied.estimator is not given
    assert copied.estimator.get_params() == given.get_params()
    for wrong in (MLFro(), LRML, "LRML"):
        with pytest.raises(TypeError, match="LRML"):
            LRMLCV(wrong).fit(*data)
    with pytest.raises(ValueError, match="alpha"):
        LRMLCV(LRML(alpha=-1.0)).fit(*data)


def test_weights_must_reach_every_part(data):
    halves = np.arange(35), np.arange(35, 70)
    weights = np.r_[np.ones(35), np.zeros(35)]
    for model in (MLFroCV(cv=[halves[::-1]]), LEMLCV(LEML(loss="logistic"), cv=KFold(2))):
        with pytest.raises(ValueError, match=r"Split 0 .*sample_weight"):
            model.fit(*data, sample_weight=weights)
    with pytest.raises(ValueError, match=r"every split, got none"):
        MLFroCV(cv=[halves]).fit(*data, sample_weight=weights)


@pytest.mark.parametrize(("ranks", "is_told"), [([1, 2], False), ([1, 1.0], True), (None, True)])
def test_no_lead_over_ridge_regression_is_told_of_limited_ranks(make_problem, ranks, is_told):
    found = CPLSTCV(ranks=ranks, random_state=0).fit(*make_problem(120, 6, 4, seed=2)).search_
    assert np.isfinite(found["gain"]) == np.isfinite(found["gain_error"]) == is_told
