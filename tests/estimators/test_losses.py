"""Losses over rows and unknown labels: against scikit-learn, by symmetry, and nothing unknown counts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from lrml import LRML, MLFro, MLTrace
from lrml.core.losses import LOSSES

EACH = pytest.mark.parametrize("loss", LOSSES)
FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
NO_PENALTY = {
    "MLFro": lambda ridge, **params: MLFro(ridge, tol=1e-16, **params),
    "LRML": lambda ridge, **params: LRML(theta=1.0, ridge=ridge, tol=1e-16, **params),
    "MLTrace": lambda ridge, **params: MLTrace(0.0, ridge=ridge, tol=1e-16, **params),
}
WITHOUT_PENALTY = pytest.mark.parametrize("make", NO_PENALTY.values(), ids=NO_PENALTY.keys())


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(60, 5, 4, seed=3)


@pytest.fixture(scope="module")
def known():
    known = np.random.default_rng(8).random((60, 4)) < 0.7
    known[:3] = True
    return known


def some_weights(weighted, n=60):
    return np.random.default_rng(7).uniform(0.2, 2.0, n) if weighted else None


# scikit-learn fits every label on its own


@WITHOUT_PENALTY
@pytest.mark.parametrize(("ridge", "weighted"), [(0.05, True), (2.0, False)])
@pytest.mark.parametrize("fit_intercept", [True, False])
@FORMS
def test_logistic_loss_is_logistic_regression(data, make, weighted, ridge, fit_intercept, form):
    X, Y = data
    weights = some_weights(weighted)
    model = make(ridge, loss="logistic", fit_intercept=fit_intercept)
    model.fit(form(X), form(Y), sample_weight=weights)
    for label in range(4):
        one = LogisticRegression(C=1 / (2 * ridge), tol=1e-12, solver="newton-cholesky", max_iter=1000)
        one.set_params(fit_intercept=fit_intercept).fit(X, Y[:, label], sample_weight=weights)
        np.testing.assert_allclose(model.coef_[label], one.coef_[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(model.intercept_[label], one.intercept_, rtol=1e-5, atol=1e-6)
        probabilities = model.predict_proba(form(X))[:, label]
        np.testing.assert_allclose(probabilities, one.predict_proba(X)[:, 1], atol=1e-5)


@WITHOUT_PENALTY
@pytest.mark.parametrize("ridge", [0.05, 2.0])
def test_squared_hinge_is_a_support_vector_machine(data, make, ridge):
    X, Y = data  # LinearSVC penalises the intercept, so there is none
    model = make(ridge, loss="squared_hinge", fit_intercept=False).fit(X, Y)
    for label in range(4):
        one = LinearSVC(C=1 / (2 * ridge), dual=False, fit_intercept=False, tol=1e-10, max_iter=10_000)
        np.testing.assert_allclose(model.coef_[label], one.fit(X, Y[:, label]).coef_[0], rtol=1e-5, atol=1e-6)


@WITHOUT_PENALTY
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
def test_known_labels_are_regressed_on_the_rows_that_know_them(data, known, make, weighted):
    X, Y = data
    weights = some_weights(weighted)
    model = make(0.5).fit(X, Y, sample_weight=weights, observed=known)
    for label in range(4):
        seen = known[:, label]
        w = None if weights is None else weights[seen]
        one = Ridge(alpha=0.5).fit(X[seen], Y[seen, label], sample_weight=w)
        np.testing.assert_allclose(model.coef_[label], one.coef_, rtol=1e-6, atol=1e-7)
        assert model.intercept_[label] == pytest.approx(one.intercept_, abs=1e-6)


# Unknown labels


def test_one_unknown_label_of_a_row_without_weight_is_the_fit_by_moments(data):
    """By rows and by moments: two code paths, one optimum."""
    X, Y = data
    holes = Y.astype(float)
    holes[0, 0] = np.nan
    by_rows = MLTrace(2.0, tol=1e-16).fit(X, holes, sample_weight=np.r_[0.0, np.ones(59)])
    by_moments = MLTrace(2.0, tol=1e-12).fit(X[1:], Y[1:])
    assert max(by_rows.gap_, by_moments.gap_) < 1e-7
    np.testing.assert_allclose(by_rows.coef_, by_moments.coef_, atol=1e-6)
    assert by_rows.objective_ == pytest.approx(by_moments.objective_, rel=1e-10)


@EACH
def test_labels_and_rows_of_which_nothing_is_known(data, known, loss, fitted):
    X, Y = data
    observed, model = known.copy(), LRML(1, 1.0, loss=loss)
    observed[:, 2] = False
    with pytest.warns(UserWarning, match="2 of Y"):
        model.fit(X, Y, observed=observed)
    assert model.unseen_labels_.tolist() == [False, False, True, False]
    assert (model.coef_[2].any(), model.intercept_[2]) == (False, LOSSES[loss].unseen_score)
    rest = LRML(1, 1.0, loss=loss).fit(X, np.delete(Y, 2, axis=1), observed=np.delete(observed, 2, axis=1))
    np.testing.assert_allclose(np.delete(model.coef_, 2, axis=0), rest.coef_, atol=1e-6)
    # A row without a known label only helps to centre.
    of_rows = np.ones(Y.shape, dtype=bool)
    of_rows[:10] = False
    one = MLFro(1.0, loss=loss, tol=1e-16).fit(X, Y, observed=of_rows)
    other = MLFro(1.0, loss=loss, tol=1e-16).fit(X[10:], Y[10:])
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-5)
    np.testing.assert_allclose(one.intercept_, other.intercept_, atol=1e-5)
    # No positive example at all.
    holes = np.where(np.arange(60)[:, None] % 3 == 0, np.nan, np.zeros(4))
    model.fit(X, holes)
    assert model.unseen_labels_.all()
    assert (model.rank_, model.n_iter_, model.objective_) == (0, 0, 0.0)
    assert not model.predict(X).any()
    # Labels that are known in rows without weight only.
    only_first, fresh = np.arange(60)[:, None] < [1] * 4, LRML(loss=loss)
    with pytest.raises(ValueError, match="sample_weight"):
        fresh.fit(X, Y, sample_weight=np.r_[0.0, np.ones(59)], observed=only_first)
    assert fitted(fresh) == {}


def test_score_ranks_the_known_labels_only():
    X, Y = np.eye(3), np.array([[1.0, 0.0, np.nan], [np.nan, 1.0, 0.0], [0.0, np.nan, 1.0]])
    model = MLFro(0.1).fit(X, np.nan_to_num(Y))
    scores, known = model.decision_function(X), ~np.isnan(Y)
    # By hand: with two known labels, the precision is 1 if the positive one is first and 1/2 if not.
    is_first = [s[k & (y == 1)][0] > s[k & (y == 0)][0] for s, y, k in zip(scores, Y, known, strict=True)]
    assert model.score(X, Y) == pytest.approx(np.mean(np.where(is_first, 1.0, 0.5)))
    raised = np.array([0.0, 5.0, 0.0])
    model.fitted_ = replace(model.fitted_, intercept=raised)  # a high score in an unknown place does no harm
    assert (model.score(X[2:], Y[2:]), model.score(X[:1], Y[:1])) == (1.0, 0.5)
