"""Losses over rows, as the estimators offer them: against scikit-learn and by symmetry."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from lrml import LRML, MLFro, MLTrace
from lrml.core.losses import LOSSES

EACH = pytest.mark.parametrize("loss", LOSSES)
MARGINS = pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
NO_PENALTY = {
    "MLFro": lambda ridge, **params: MLFro(ridge, tol=1e-18, **params),
    "LRML": lambda ridge, **params: LRML(theta=1.0, ridge=ridge, tol=1e-18, **params),
    "MLTrace": lambda ridge, **params: MLTrace(0.0, ridge=ridge, tol=1e-18, **params),
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
@WEIGHTED
@pytest.mark.parametrize("ridge", [0.05, 2.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
def test_logistic_loss_is_logistic_regression(data, make, weighted, ridge, fit_intercept, sparse):
    X, Y = data
    weights = some_weights(weighted)
    form = sp.csr_array if sparse else np.asarray
    model = make(ridge, loss="logistic", fit_intercept=fit_intercept)
    model.fit(form(X), form(Y), sample_weight=weights)
    for label in range(4):
        one = LogisticRegression(C=1 / (2 * ridge), tol=1e-12, solver="newton-cholesky", max_iter=1000)
        one.set_params(fit_intercept=fit_intercept).fit(X, Y[:, label], sample_weight=weights)
        np.testing.assert_allclose(model.coef_[label], one.coef_[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(model.intercept_[label], one.intercept_, rtol=1e-5, atol=1e-6)


def test_probabilities_are_those_of_one_vs_rest(data):
    X, Y = data
    model = MLFro(1.0, loss="logistic", tol=1e-18).fit(X, Y)
    rest = OneVsRestClassifier(LogisticRegression(C=0.5, tol=1e-10, max_iter=1000)).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X), rest.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(model.predict(X), rest.predict(X))


@WITHOUT_PENALTY
@pytest.mark.parametrize("ridge", [0.05, 2.0])
def test_squared_hinge_is_a_support_vector_machine(data, make, ridge):
    X, Y = data  # LinearSVC penalises the intercept, so there is none
    model = make(ridge, loss="squared_hinge", fit_intercept=False).fit(X, Y)
    for label in range(4):
        one = LinearSVC(C=1 / (2 * ridge), dual=False, fit_intercept=False, tol=1e-10, max_iter=10_000)
        one.fit(X, Y[:, label])
        np.testing.assert_allclose(model.coef_[label], one.coef_[0], rtol=1e-5, atol=1e-6)


@WITHOUT_PENALTY
@WEIGHTED
def test_squared_loss_of_known_labels_is_ridge_regression_on_the_rows_that_know_them(
    data, known, make, weighted
):
    X, Y = data
    weights = some_weights(weighted)
    model = make(0.5).fit(X, Y, sample_weight=weights, observed=known)
    for label in range(4):
        seen = known[:, label]
        one = Ridge(alpha=0.5).fit(
            X[seen], Y[seen, label], sample_weight=None if weights is None else weights[seen]
        )
        np.testing.assert_allclose(model.coef_[label], one.coef_, rtol=1e-6, atol=1e-7)
        assert model.intercept_[label] == pytest.approx(one.intercept_, abs=1e-6)


# Scores, probabilities, decisions


@pytest.mark.parametrize("kind", [LRML, MLTrace, MLFro])
def test_probabilities_belong_to_the_logistic_loss(data, kind):
    X, Y = data
    model = kind(loss="logistic").fit(X, Y)
    probabilities, scores = model.predict_proba(X), model.decision_function(X)
    np.testing.assert_allclose(probabilities, expit(scores), rtol=1e-12)
    assert probabilities.min() >= 0
    assert probabilities.max() <= 1
    order = np.argsort(scores, axis=None)
    assert np.all(np.diff(probabilities.ravel()[order]) >= 0)
    np.testing.assert_array_equal(model.predict(X), probabilities >= 0.5)
    assert not any(hasattr(kind(loss=loss), "predict_proba") for loss in ("squared", "squared_hinge"))


@EACH
@pytest.mark.parametrize("threshold", [None, 0.2, [0.1, -0.3, 0.6, 5.0]])
def test_decisions(data, loss, threshold):
    X, Y = data
    model = LRML(1, 1.0, loss=loss, threshold=threshold).fit(X, Y)
    natural = 0.5 if loss == "squared" else 0.0
    cut = natural if threshold is None else np.array(threshold)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X) >= cut)
    assert 0.1 < model.predict(X)[:, :3].mean() < 0.9


@EACH
@pytest.mark.parametrize("masked", [False, True])
def test_unseen_labels_rank_last_and_are_never_predicted(data, known, loss, masked):
    X, Y = data
    Y = Y.copy()
    Y[:, 1] = 0
    for kind in (LRML(1, 1.0), MLTrace(1.0), MLFro(1.0)):
        model = kind.set_params(loss=loss).fit(X, Y, observed=known if masked else None)
        assert model.unseen_labels_.tolist() == [False, True, False, False]
        assert np.all(model.predict_top_k(X, 4).labels[:, -1] == 1)
        assert np.all(model.decision_function(X).argmin(axis=1) == 1)
        assert not model.predict(X)[:, 1].any()
        if loss == "logistic":
            assert model.predict_proba(X)[:, 1].max() < 1e-9


# Numbers


@MARGINS
@pytest.mark.parametrize("c", [1e-20, 1e-6, 1e6, 1e40])
def test_unit_of_x_does_not_matter(data, loss, c):
    X, Y = data
    plain = LRML(1, 2.0, loss=loss).fit(X, Y)
    model = LRML(1, 2.0 * c, loss=loss).fit(c * X, Y)
    assert abs(model.n_iter_ - plain.n_iter_) <= 1
    np.testing.assert_allclose(model.decision_function(c * X), plain.decision_function(X), atol=1e-3)


@MARGINS
@pytest.mark.parametrize("offset", [1e2, 1e4, 1e5])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_offset_of_x_does_not_matter(data, loss, offset, form):
    """Scores in single precision would be differences of large numbers."""
    X, Y = data
    plain = MLFro(1.0, loss=loss).fit(X, Y)
    model = MLFro(1.0, loss=loss).fit(form(X + offset), Y)
    assert abs(model.n_iter_ - plain.n_iter_) <= 1
    np.testing.assert_allclose(
        model.decision_function(form(X + offset)), plain.decision_function(X), atol=2e-3
    )


@MARGINS
def test_warm_start_without_the_intercept_of_the_last_fit(data, loss):
    X, Y = data
    model = LRML(1, 1.0, loss=loss, warm_start=True, tol=1e-8).fit(X, Y)
    assert model.intercept_.any()
    model.set_params(fit_intercept=False).fit(X, Y)
    assert not model.intercept_.any()


@MARGINS
def test_other_solvers_are_refused_with_the_choice(data, loss):
    with pytest.raises(
        ValueError,
        match=r"solver must be one of 'auto', 'apg', 'primal', .* unless loss='squared' and .*, got 'pg'",
    ):
        LRML(loss=loss, solver="pg").fit(*data)
    with pytest.raises(ValueError, match=r"targets='real' needs loss='squared'"):
        LRML(loss=loss, targets="real").fit(*data)
    with pytest.raises(ValueError, match=r"loss must be one of 'squared'.*got 'hinge'"):
        LRML(loss="hinge").fit(*data)
