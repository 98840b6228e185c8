"""CPLST and PLST against a dense transcription of the papers, and against what they must reduce to."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from lrml import CPLST, LRML, PLST
from lrml.solvers import Status

SHAPES = pytest.mark.parametrize(
    ("n", "d", "n_labels"), [(50, 6, 5), (40, 4, 9), (12, 20, 5)], ids=["plain", "many labels", "few rows"]
)
RIDGE = pytest.mark.parametrize("ridge", [0.0, 0.8])
WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def some_weights(n, weighted):
    return np.random.default_rng(7).uniform(0.2, 2.0, n) if weighted else None


def centred(X, Y, weights):
    """Rows without their means, times √weight, and the means."""
    w = np.ones(len(X)) if weights is None else weights
    x_mean, y_mean = np.average(X, axis=0, weights=w), np.average(Y, axis=0, weights=w)
    return np.sqrt(w)[:, None] * (X - x_mean), np.sqrt(w)[:, None] * (Y - y_mean), x_mean, y_mean


def decode(X, A, Z, V, ridge, x_mean, y_mean):
    """Regress the codes ZV on the features, decode with Vᵀ, add the mean."""
    codes = Z @ V
    inverse = np.linalg.pinv(A.T @ A + ridge * np.eye(A.shape[1]), rcond=1e-12, hermitian=True)
    return (X - x_mean) @ (inverse @ A.T @ codes) @ V.T + y_mean


def chen_and_lin(X, Y, k, ridge=0.0, weights=None):
    """Scores of CPLST: the top eigenvectors of ZᵀHZ, with the hat matrix H written out."""
    A, Z, x_mean, y_mean = centred(X, Y, weights)
    inverse = np.linalg.pinv(A.T @ A + ridge * np.eye(A.shape[1]), rcond=1e-12, hermitian=True)
    H = A @ inverse @ A.T
    _, vectors = np.linalg.eigh(Z.T @ H @ Z)
    return decode(X, A, Z, vectors[:, ::-1][:, :k], ridge, x_mean, y_mean)


def tai_and_lin(X, Y, k, ridge=0.0, weights=None):
    """Scores of PLST: the top right singular vectors of Z."""
    A, Z, x_mean, y_mean = centred(X, Y, weights)
    V = np.linalg.svd(Z, full_matrices=False)[2][:k].T
    return decode(X, A, Z, V, ridge, x_mean, y_mean)


METHODS = pytest.mark.parametrize(
    ("method", "by_the_book"), [(CPLST, chen_and_lin), (PLST, tai_and_lin)], ids=["CPLST", "PLST"]
)


@METHODS
@SHAPES
@RIDGE
@WEIGHTED
@FORMS
@pytest.mark.parametrize("k", [1, 3])
def test_scores_are_those_of_the_paper(
    make_problem, method, by_the_book, n, d, n_labels, ridge, weighted, form, k
):
    X, Y = make_problem(n, d, n_labels, seed=n)
    weights = some_weights(n, weighted)
    model = method(k, ridge=ridge).fit(form(X), form(Y), sample_weight=weights)
    expected = by_the_book(X, Y, k, ridge, weights)
    np.testing.assert_allclose(model.decision_function(form(X)), expected, atol=1e-8)
    decisions = model.predict(form(X))
    assert sp.issparse(decisions) == (form is sp.csr_array)
    np.testing.assert_array_equal(
        decisions.toarray() if sp.issparse(decisions) else decisions, expected >= 0.5
    )
    assert model.rank_ == model.n_components_ == k
    assert np.ptp(expected) > 0.1


@SHAPES
@RIDGE
@pytest.mark.parametrize("k", [1, 2, 4])
def test_cplst_is_reduced_rank_regression_and_the_limit_of_lrml(
    make_problem, oracle, n, d, n_labels, ridge, k
):
    X, Y = make_problem(n, d, n_labels, seed=n)
    model = CPLST(k, ridge=ridge).fit(X, Y)
    limit = LRML(k, 1e12, ridge=ridge).fit(X, Y)
    assert model.objective_ == pytest.approx(limit.objective_, rel=1e-8)
    np.testing.assert_allclose(model.decision_function(X), limit.decision_function(X), atol=1e-6)
    # Eckart and Young, with the ridge as further rows of X.
    A, Z, *_ = centred(X, Y, None)
    A, Z = np.r_[A, np.sqrt(ridge) * np.eye(d)], np.r_[Z, np.zeros((d, n_labels))]
    full = np.linalg.lstsq(A, Z, rcond=1e-10)[0]
    U, s, Vt = np.linalg.svd(A @ full, full_matrices=False)
    np.testing.assert_allclose(A @ model.coef_.T, (U[:, :k] * s[:k]) @ Vt[:k], atol=1e-8)
    assert model.objective_ == pytest.approx(np.sum((Z - A @ full) ** 2) + np.sum(s[k:] ** 2), rel=1e-8)
    recomputed = oracle(X, Y, k, 0.0, ridge=ridge).objective(model.coef_, model.intercept_)
    assert model.objective_ == pytest.approx(recomputed, rel=1e-8, abs=1e-9)


@SHAPES
@RIDGE
def test_no_other_directions_fit_better(make_problem, n, d, n_labels, ridge):
    X, Y = make_problem(n, d, n_labels, seed=n)
    best = CPLST(2, ridge=ridge).fit(X, Y).objective_
    assert PLST(2, ridge=ridge).fit(X, Y).objective_ >= best * (1 - 1e-12)
    A, Z, *_ = centred(X, Y, None)
    rng = np.random.default_rng(0)
    inverse = np.linalg.pinv(A.T @ A + ridge * np.eye(d), rcond=1e-12, hermitian=True)
    for _ in range(20):
        V = np.linalg.qr(rng.standard_normal((n_labels, 2)))[0]
        W = inverse @ A.T @ Z @ V @ V.T
        assert np.sum((Z - A @ W) ** 2) + ridge * np.sum(W**2) >= best * (1 - 1e-9)


@METHODS
@WEIGHTED
def test_all_directions_are_ridge_regression(make_problem, method, by_the_book, weighted):
    X, Y = make_problem(50, 6, 5, seed=1)
    weights = some_weights(50, weighted)
    for components in (5, 1.0):
        model = method(components, ridge=0.8).fit(X, Y, sample_weight=weights)
        expected = Ridge(0.8).fit(X, Y, sample_weight=weights)
        np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-9)
        np.testing.assert_allclose(model.intercept_, expected.intercept_, atol=1e-9)


@METHODS
def test_fitted_attributes(make_problem, method, by_the_book):
    X, Y = make_problem(50, 6, 5, seed=1)
    model = method(3, ridge=0.2).fit(X, Y)
    V = model.components_
    np.testing.assert_allclose(V @ V.T, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(model.coef_.T @ V.T @ V, model.coef_.T, atol=1e-10)
    U, s, R = model.factors_
    np.testing.assert_allclose((U * s) @ R.T, model.coef_.T, atol=1e-12)
    np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(s, np.linalg.svd(model.coef_, compute_uv=False)[:3], rtol=1e-9)
    assert model.status_ == Status.EXACT.value
    assert model.converged_
    assert model.n_iter_ == 0
    assert model.residual_ < 1e-12
    assert model.history_["objective"].tolist() == [model.objective_]


@METHODS
@pytest.mark.parametrize(("share", "count"), [(0.2, 1), (0.5, 2), (0.01, 1), (1.0, 4), (2, 2)])
def test_number_of_components(make_problem, method, by_the_book, share, count):
    X, Y = make_problem(50, 4, 5, seed=1)
    assert method(share).fit(X, Y).n_components_ == count


@METHODS
@pytest.mark.parametrize(
    ("params", "error", "says"),
    [
        ({"rank": 0}, ValueError, ("at least 1", "got 0")),
        ({"rank": 5}, ValueError, ("[1, 4]", "4 features and 5 labels", "got 5")),
        ({"rank": 0.0}, ValueError, ("(0, 1]", "got 0.0")),
        ({"rank": 1.5}, ValueError, ("(0, 1]", "got 1.5")),
        ({"rank": True}, TypeError, ("True",)),
        ({"rank": "all"}, TypeError, ("'all'",)),
        ({"ridge": -1}, ValueError, ("ridge", "-1")),
        ({"threshold": [0.5]}, ValueError, ("threshold", "(5)")),
    ],
)
def test_bad_parameters(make_problem, method, by_the_book, params, error, says, fitted):
    model = method(**params)
    with pytest.raises(error) as caught:
        model.fit(*make_problem(50, 4, 5, seed=1))
    assert all(words in str(caught.value) for words in says)
    assert fitted(model) == {}


@METHODS
@FORMS
def test_unknown_labels_are_refused(make_problem, method, by_the_book, form):
    X, Y = make_problem(50, 4, 5, seed=1)
    Y = Y.astype(float)
    Y[3, 1] = np.nan
    with pytest.raises(
        ValueError, match=rf"contains NaN or unobserved labels; {method.__name__} needs all.*LRML"
    ):
        method(2).fit(X, form(Y))


@METHODS
def test_features_of_low_rank_and_unseen_labels(make_problem, method, by_the_book):
    X, Y = make_problem(50, 4, 5, seed=1)
    X[:, 2:] = X[:, :2]
    Y[:, 3] = 0
    model = method(2).fit(X, Y)
    expected = by_the_book(X, Y, 2)
    expected[:, 3] = -1
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-8)
    assert model.rank_ == np.linalg.matrix_rank(model.coef_) == 2
    assert method(4).fit(X, Y).rank_ == 2
    assert np.all(model.predict_top_k(X, 5).labels[:, -1] == 3)
    constant = method(1).fit(np.full((50, 2), 0.3), Y)
    assert not constant.coef_.any()
    np.testing.assert_allclose(constant.intercept_, np.where(Y.any(axis=0), Y.mean(axis=0), -1))
