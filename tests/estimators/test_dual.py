"""More features than rows: the n × n matrix XXᵀ instead of XᵀX gives the same models."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

from lrml import CPLST, LEML, LRML, LRMLCV, PLST, MLFro, MLFroCV, MLTrace
from lrml.core.arrays import Place
from lrml.core.moments import Statistics
from lrml.estimators import alpha_max, lrml_path, ml_fro_path
from roads import always, take_road


def primal(monkeypatch):
    """Decompose XᵀX whatever the shape."""
    take_road(monkeypatch, always("primal"))


@pytest.fixture
def no_moments(monkeypatch):
    """Whoever makes d × d moments fails the test."""

    def refuse(*args, **kwargs):
        pytest.fail("moments of the size d × d were made")

    monkeypatch.setattr(Statistics, "from_arrays", refuse)


def wide_problem(n=24, d=60, n_labels=5, *, seed=0, sparse=False, far=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.geomspace(1.0, 0.1, d)
    if sparse:
        X[rng.random((n, d)) < 0.7] = 0.0
    if far:
        X[:, :3] = 1e4 + rng.standard_normal((n, 3))
    Y = (rng.random((n, n_labels)) < 0.4).astype(np.int64)
    return (sp.csr_array(X) if sparse else X), Y


MODELS = {
    "LRML": LRML(2, 2.0, ridge=0.1, tol=1e-12),
    "LRML, no intercept": LRML(2, 2.0, ridge=0.1, fit_intercept=False, tol=1e-12),
    "LRML, auto": LRML("auto", 2.0, ridge=0.1, tol=1e-12),
    "MLTrace": MLTrace(2.0, ridge=0.1, tol=1e-12),
    "MLFro": MLFro(0.3),
    "MLFro, no ridge": MLFro(0.0),
    "CPLST": CPLST(3, ridge=0.1),
    "PLST": PLST(3, ridge=0.1),
    "LEML": LEML(3, 1.0, tol=1e-10),
}
WEIGHTS = {
    "unweighted": lambda n: None,
    "weighted": lambda n: np.linspace(0.2, 2.0, n),
    "some without weight": lambda n: np.where(np.arange(n) % 4 == 0, 0.0, np.linspace(0.2, 2.0, n)),
}


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_dual_and_primal_agree(monkeypatch, model, sparse, far, weights):
    X, Y = wide_problem(sparse=sparse, far=far)
    w = weights(len(Y))
    dual = pickle.loads(pickle.dumps(model.fit(X, Y, w)))
    primal(monkeypatch)
    expected = model.fit(X, Y, w)
    # At an exact fit the objective is 0, up to rounding.
    assert dual.objective_ == pytest.approx(expected.objective_, rel=1e-9, abs=1e-9)
    assert dual.rank_ == expected.rank_
    np.testing.assert_allclose(dual.coef_, expected.coef_, atol=1e-7)
    np.testing.assert_allclose(dual.singular_values_, expected.singular_values_, rtol=1e-6)
    np.testing.assert_allclose(dual.decision_function(X), expected.decision_function(X), atol=1e-6)
    U, s, V = dual.factors_
    np.testing.assert_allclose(U.T @ U, np.eye(len(s)), atol=1e-9)
    np.testing.assert_allclose((V * s) @ U.T, dual.coef_, atol=1e-9)


@given(
    n=st.integers(2, 12),
    extra=st.integers(1, 30),
    n_labels=st.integers(1, 20),
    seed=st.integers(0, 99),
    share=st.floats(1e-3, 0.9),
    intercept=st.booleans(),
)
def test_the_objective_is_that_of_the_definition(oracle, n, extra, n_labels, seed, share, intercept):
    X, Y = wide_problem(n, n + extra, n_labels, seed=seed)
    alpha = share * alpha_max(X, Y, fit_intercept=intercept)
    model = LRML(1, alpha, ridge=0.1, fit_intercept=intercept).fit(X, Y)
    truth = oracle(X, Y, model.theta_, alpha, 0.1, intercept)
    b = np.where(model.unseen_labels_, 0.0, model.intercept_)  # -1 marks a label that was never seen
    assert model.objective_ == pytest.approx(truth.objective(model.coef_, b), rel=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_ridge_regression(fit_intercept, sparse):
    X, Y = wide_problem(sparse=sparse)
    peer = Ridge(alpha=0.3, fit_intercept=fit_intercept).fit(X.toarray() if sparse else X, Y)
    model = MLFro(0.3, fit_intercept=fit_intercept, targets="real").fit(X, Y)
    np.testing.assert_allclose(model.coef_, peer.coef_, atol=1e-11)
    np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=1e-11)


@pytest.mark.parametrize("form", [{}, {"sparse": True}], ids=str)
def test_no_moments_are_made(no_moments, form):
    X, Y = wide_problem(**form)
    for model in MODELS.values():
        model.fit(X, Y)
    lrml_path(X, Y, [0, 2], n_alphas=3)
    LRMLCV(thetas=[0, 2], n_alphas=2, cv=3, random_state=0).fit(X, Y)


def test_a_million_features():
    X, Y = wide_problem(20, 40, 3, sparse=True)
    columns = np.random.default_rng(0).permutation(1_000_000)[:40]
    wide = sp.csr_array((X.data, columns[X.indices], X.indptr), shape=(20, 1_000_000))
    small, large = LRML(1, 1.0).fit(X, Y), LRML(1, 1.0).fit(wide, Y)
    np.testing.assert_allclose(large.coef_[:, columns], small.coef_, atol=1e-10)
    assert np.abs(np.delete(large.coef_, columns, axis=1)).max() < 1e-14


def test_features_of_very_different_scales(monkeypatch):
    """Rounding of XXᵀ would swamp the small ones, so X itself is decomposed."""
    X, Y = wide_problem()
    X = X * np.geomspace(1.0, 1e7, X.shape[1])
    Y = X[:, :4] > np.median(X[:, :4], axis=0)  # small features decide
    found = [MLFro(1e-3).fit(M, Y.astype(int)) for M in (X, sp.csr_array(X))]
    primal(monkeypatch)
    expected = MLFro(1e-3).fit(X, Y.astype(int))
    for model in found:
        assert model.objective_ == pytest.approx(expected.objective_, rel=1e-6)
        np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("sparse", [True, False])
def test_few_rows(rows, sparse):
    X, Y = wide_problem(rows, 7, 3, sparse=sparse)
    model = LRML(1, 0.1).fit(X, Y)
    assert np.isfinite(model.coef_).all()
    assert model.rank_ < rows
    seen = ~model.unseen_labels_
    if rows == 1:  # nothing but the intercept
        np.testing.assert_allclose(model.decision_function(X)[:, seen], Y[:, seen])


def test_constant_features_teach_nothing():
    for X in (np.full((4, 9), 3.7), sp.csr_array(np.full((4, 9), 3.7)), sp.csr_array((4, 9))):
        Y = np.eye(4, 2, dtype=int)
        model = LRML(1, 0.1).fit(X, Y)
        assert model.rank_ == 0
        np.testing.assert_allclose(model.decision_function(X), np.full((4, 2), 0.25), atol=1e-12)


def test_duplicated_rows_are_weights():
    X, Y = wide_problem(8, 40, 3)
    twice = MLFro(0.5).fit(np.vstack([X, X[:3]]), np.vstack([Y, Y[:3]]))
    weighted = MLFro(0.5).fit(X, Y, sample_weight=np.r_[2.0, 2.0, 2.0, np.ones(5)])
    np.testing.assert_allclose(twice.coef_, weighted.coef_, atol=1e-12)


def test_single_precision_stays_single():
    X, Y = wide_problem()
    model = LRML(2, 1.0).fit(X.astype(np.float32), Y)
    assert model.coef_.dtype == np.float32
    np.testing.assert_allclose(model.coef_, LRML(2, 1.0).fit(X, Y).coef_, atol=1e-4)


def test_warm_start():
    X, Y = wide_problem()
    for form in (X, sp.csr_array(X)):
        model = LRML(2, 1.0, ridge=0.1, tol=1e-10, warm_start=True).fit(form, Y)
        first, steps = model.objective_, model.n_iter_
        again = model.fit(form, Y)
        assert again.objective_ == pytest.approx(first, rel=1e-9)
        assert again.n_iter_ < steps
        start = again.history_["objective"][0]
        assert start == pytest.approx(first, rel=1e-7)


def test_paths_agree(monkeypatch):
    X, Y = wide_problem(sparse=True)
    alphas = [0.5, 2.0, 10.0]
    path, ridge = lrml_path(X, Y, [0, 2], alphas, [0.0, 0.1], tol=1e-10), ml_fro_path(X, Y, alphas)
    largest = alpha_max(X, Y, 2)
    primal(monkeypatch)
    expected, other = lrml_path(X, Y, [0, 2], alphas, [0.0, 0.1], tol=1e-10), ml_fro_path(X, Y, alphas)
    np.testing.assert_allclose(ridge.coefs, other.coefs, atol=1e-10)
    np.testing.assert_allclose(ridge.intercepts, other.intercepts, atol=1e-10)
    assert largest == pytest.approx(alpha_max(X, Y, 2), rel=1e-9)
    for mine, theirs in zip(path, expected, strict=True):
        assert mine.objective == pytest.approx(theirs.objective, rel=1e-8)
        np.testing.assert_allclose(mine.decision_function(X), theirs.decision_function(X), atol=1e-4)
        np.testing.assert_allclose(mine.factors.U.T @ mine.factors.U, np.eye(mine.rank), atol=1e-10)


@pytest.mark.parametrize("search", [
    LRMLCV([0, 2], [1.0, 4.0], [0.0, 0.3], cv=KFold(3), abandon=False, tol=1e-10),
    LRMLCV([0, 2], [1.0, 4.0], [0.0, 0.3], cv=0.3, random_state=0, tol=1e-10, threshold="auto"),
    MLFroCV(cv=KFold(3), scoring="r2", targets="real"),
], ids=["folds", "share", "real"])  # fmt: skip
@pytest.mark.parametrize("sparse", [True, False])
def test_searches_choose_alike(monkeypatch, search, sparse):
    X, Y = wide_problem(30, 80, sparse=sparse)
    weights = np.linspace(0.5, 1.5, 30)
    mine = search.fit(X, Y, weights)
    table, params, cut = mine.cv_results_["mean_test_score"], mine.best_params_, mine.threshold_
    primal(monkeypatch)
    theirs = search.fit(X, Y, weights)
    np.testing.assert_allclose(table, theirs.cv_results_["mean_test_score"], atol=1e-6)
    assert params == pytest.approx(theirs.best_params_)
    assert cut is None or cut == pytest.approx(theirs.threshold_, abs=1e-4)


def test_squares_that_overflow_are_refused():
    X, Y = wide_problem(4, 9, 2)
    for factor, message in ((1e160, "squares of X must stay below 1e308"), (1e-170, "must not underflow")):
        for form in (X * factor, sp.csr_array(X * factor)):
            with pytest.raises(ValueError, match=message):
                LRML(1, 1.0).fit(form, Y)


def test_more_rows_and_features_than_memory_holds_are_refused(monkeypatch):
    X, Y = wide_problem()
    monkeypatch.setattr(Place, "memory", 100)
    with pytest.raises(ValueError, match="n = 24 "):
        MLFroCV(cv="loo").fit(X, Y)
    with pytest.raises(ValueError, match="d = 60 "):
        LRML(loss="logistic", solver="primal").fit(X, Y)
    with pytest.raises(ValueError, match="kernel matrix"):
        LRML(kernel="rbf").fit(X, Y)


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["enron", "emotions"])
def test_real_data(monkeypatch, mulan, name):
    X, Y = mulan(name).train
    X, Y = X[:60], Y[:60]
    dual = LRML(0.2, 2.0, ridge=0.5, tol=1e-10).fit(X, Y)
    primal(monkeypatch)
    expected = LRML(0.2, 2.0, ridge=0.5, tol=1e-10).fit(X, Y)
    assert dual.objective_ == pytest.approx(expected.objective_, rel=1e-9)
