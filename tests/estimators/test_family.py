"""One contract for the whole family: every linear multi-label model with every loss."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from lrml import CPLST, LEML, LRML, MLFro, MLTrace
from lrml.core.losses import LOSSES

TIGHT = {"tol": 1e-13}
# One singular value is free, the others are penalised: of 4 labels LRML has a tail of 3.
FAMILY = {
    "CPLST": CPLST(2, ridge=0.3),
    **{
        f"{kind.__name__}-{loss}": kind(**params, loss=loss)
        for kind, params in (
            (LRML, {"theta": 1, "alpha": 2.0, "ridge": 0.5, **TIGHT}),
            (MLTrace, {"alpha": 2.0, "ridge": 0.5, **TIGHT}),
            (MLFro, {"alpha": 0.5, **TIGHT}),
            (LEML, {"rank": 2, "alpha": 2.0, "tol": 1e-9}),
        )
        for loss in LOSSES
    },
}
MEMBERS = pytest.mark.parametrize("model", [pytest.param(m, id=name) for name, m in FAMILY.items()])
CLOSE = {"rtol": 1e-5, "atol": 1e-6}


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(50, 5, 4, seed=21)


@pytest.fixture(scope="module")
def plain_fit(data):
    """A function that fits a member to the data, once for all tests: they must not change it."""
    fits = {}

    def fit(model):
        if repr(model) not in fits:
            fits[repr(model)] = clone(model).fit(*data)
        return fits[repr(model)]

    return fit


def assert_same(one, other, **tolerance):
    tolerance = tolerance or CLOSE
    np.testing.assert_allclose(one.coef_, other.coef_, **tolerance)
    np.testing.assert_allclose(one.intercept_, other.intercept_, **tolerance)
    assert np.abs(other.coef_).max() > 0.01


# What is minimised


def slopes(loss, Y, S):
    """Derivatives of the loss with respect to the scores."""
    signs = 2 * Y - 1
    return {
        "squared": 2 * (S - Y),
        "logistic": 1 / (1 + np.exp(-S)) - Y,
        "squared_hinge": -2 * signs * np.maximum(0, 1 - signs * S),
    }[loss]


@pytest.mark.parametrize("name", [name for name in FAMILY if "-" in name])
def test_the_model_is_stationary_and_its_tail_penalised(data, name):
    """By the definition: a proximal gradient step of the penalised loss, written out, leads nowhere."""
    X, Y = data
    model = clone(FAMILY[name]).fit(X, Y)
    params, W = model.get_params(), model.coef_.T
    alpha, theta = (0.0, 0) if isinstance(model, MLFro) else (params["alpha"], params.get("theta", 0))
    ridge = params["alpha"] if isinstance(model, MLFro) else params.get("ridge") or 0.0
    errors = slopes(model.loss, Y, X @ W + model.intercept_)
    at_zero = np.linalg.norm(X.T @ slopes(model.loss, Y, np.zeros(Y.shape)))
    np.testing.assert_allclose(errors.sum(axis=0), 0, atol=1e-4 * at_zero)
    gradient = X.T @ errors + 2 * ridge * W
    if isinstance(model, LEML):  # the rank is limited: only within the spaces of the factors
        U, _, V = model.factors_
        np.testing.assert_allclose(gradient @ V, -alpha * U, atol=1e-4 * at_zero)
        np.testing.assert_allclose(gradient.T @ U, -alpha * V, atol=1e-4 * at_zero)
    else:
        step = 1 / (2 * np.linalg.norm(X, 2) ** 2 + 2 * ridge)
        U, sigma, Vt = np.linalg.svd(W - step * gradient, full_matrices=False)
        sigma[theta:] = np.maximum(sigma[theta:] - step * alpha, 0)
        assert np.linalg.norm(W - (U * sigma) @ Vt) <= 1e-4 * step * at_zero
    if alpha:
        bare = MLFro(ridge, loss=model.loss).fit(X, Y)
        tail = model.singular_values_[theta:].sum()
        assert 0.05 < tail < 0.8 * bare.singular_values_[theta:].sum()


# Forms of the data


@MEMBERS
@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix], ids=["csr", "csc"])
def test_sparse_rows_give_the_same_model_stay_as_they_are_and_make_sparse_answers(data, model, form):
    X, Y = data
    X, weights = np.where(np.abs(X) > 0.5, X, 0.0), np.linspace(0.0, 2.0, len(X))
    A, B = form(X), form(Y.astype(float))
    for array in (X, A.data, A.indices, A.indptr, B.data, B.indices, B.indptr, weights):
        array.flags.writeable = False
    model = clone(model)
    if hasattr(model, "tol"):
        model.set_params(tol=1e-8)  # the same numbers take the same steps, also to a near end
    found, plain = model.fit(A, B, weights), clone(model).fit(X, Y, weights)
    assert_same(found, plain)
    decisions = found.predict(A)
    assert decisions.format == "csr"
    np.testing.assert_array_equal(decisions.toarray(), plain.predict(X))


# Weights


@MEMBERS
def test_weight_two_is_the_row_twice_and_weight_zero_no_row(data, plain_fit, model):
    X, Y = data
    counts = np.random.default_rng(2).integers(0, 3, len(X))
    weighted = clone(model).fit(X, Y, sample_weight=counts)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0))
    assert_same(weighted, repeated)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-8)
    assert not np.allclose(weighted.coef_, plain_fit(model).coef_, rtol=0.01)
    huge = X.copy()
    huge[counts == 0] = 1e3  # rows without weight may hold anything
    assert_same(clone(model).fit(huge, Y, sample_weight=counts), weighted)


# Shapes


@MEMBERS
@pytest.mark.parametrize(("n", "d", "n_labels"), [(40, 5, 1), (40, 1, 3), (40, 3, 9), (6, 12, 4), (1, 2, 3)])
def test_shapes(make_problem, model, n, d, n_labels):
    X, Y = make_problem(n, d, n_labels, seed=4)
    model = clone(model)
    if "rank" in model.get_params():
        model.set_params(rank=0.3)
    model.fit(X, Y)
    assert model.coef_.shape == (n_labels, d)
    assert model.decision_function(X).shape == model.predict(X).shape == (n, n_labels)
    assert np.all(np.isfinite(model.decision_function(X)))
    assert model.converged_
    if n > 1:
        assert model.coef_.any()
    else:
        assert not model.coef_.any()
        np.testing.assert_array_equal(model.predict(X), Y)


# What users stumbled on


def test_probabilities_follow_the_fit_and_not_the_parameter(make_problem):
    X, Y = make_problem(60, 4, 3)
    squared, logistic = MLFro().fit(X, Y), MLFro(loss="logistic").fit(X, Y)
    expected = logistic.predict_proba(X)
    assert not hasattr(squared.set_params(loss="logistic"), "predict_proba")
    np.testing.assert_array_equal(logistic.set_params(loss="squared").predict_proba(X), expected)
