"""Kernels in place of inner products of features."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels, rbf_kernel
from sklearn.preprocessing import KernelCenterer

from lrml import CPLST, CPLSTCV, LRML, LRMLCV, MLFro, MLFroCV, MLTrace
from lrml.theory import bound_report

MODELS = {
    "LRML": LRML(2, 0.5, ridge=0.1, tol=1e-12),
    "LRML, no intercept": LRML(2, 0.5, ridge=0.1, fit_intercept=False, tol=1e-12),
    "LRML, auto": LRML("auto", 0.5, ridge=0.1, tol=1e-12),
    "MLTrace": MLTrace(0.5, ridge=0.1, tol=1e-12),
    "MLFro": MLFro(0.3),
    "CPLST": CPLST(2, ridge=0.1),
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
KERNELS = {
    "linear": {"kernel": "linear"},
    "rbf": {"kernel": "rbf", "gamma": 0.3},
    "rbf, default gamma": {"kernel": "rbf"},
    "poly": {"kernel": "poly", "degree": 2, "gamma": 0.5, "coef0": 0.7},
    "laplacian": {"kernel": "laplacian"},
    "cosine": {"kernel": "cosine"},
}
every_kernel = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
every_weight = pytest.mark.parametrize("weights", [None, np.arange(40.0) % 5], ids=["unweighted", "weighted"])


@pytest.fixture
def data(make_problem):
    return make_problem(40, 6, 4)


@pytest.fixture
def others(make_problem):
    """Rows to predict for."""
    return make_problem(15, 6, 4, seed=5)[0]


def squared_features(X):
    """Map rows to features with the inner products (½ xᵀz + 0.7)², the kernel "poly" above."""
    pairs = 0.5 * X[:, :, None] * X[:, None, :]
    return np.hstack([pairs.reshape(len(X), -1), np.sqrt(0.7) * X, np.full((len(X), 1), 0.7)])


# Oracles


@every_kernel
@every_weight
def test_kernel_ridge_regression(data, others, kernel, weights):
    X, Y = data
    peer = KernelRidge(alpha=0.3, **kernel).fit(X, Y, weights)
    model = MLFro(0.3, fit_intercept=False, **kernel).fit(X, Y, weights)
    np.testing.assert_allclose(model.decision_function(others), peer.predict(others), atol=1e-8)
    if weights is not None:
        return
    options = {name: value for name, value in kernel.items() if name != "kernel"}
    K, new = (
        pairwise_kernels(rows, X, metric=kernel["kernel"], filter_params=True, **options)
        for rows in (X, others)
    )
    centerer = KernelCenterer().fit(K)  # an intercept
    peer = KernelRidge(alpha=0.3, kernel="precomputed").fit(centerer.transform(K), Y - Y.mean(axis=0))
    expected = peer.predict(centerer.transform(new)) + Y.mean(axis=0)
    for found in (
        MLFro(0.3, **kernel).fit(X, Y).decision_function(others),
        MLFro(0.3, kernel="precomputed").fit(K, Y).decision_function(new),
    ):
        np.testing.assert_allclose(found, expected, atol=1e-8)


@every_model
@every_weight
def test_a_polynomial_kernel_is_its_explicit_features(data, others, model, weights):
    X, Y = data
    kernel = clone(model).set_params(**KERNELS["poly"]).fit(X, Y, weights)
    explicit = clone(model).fit(squared_features(X), Y, weights)
    assert kernel.objective_ == pytest.approx(explicit.objective_, rel=1e-9)
    np.testing.assert_allclose(kernel.singular_values_, explicit.singular_values_, atol=1e-6)
    expected = explicit.decision_function(squared_features(others))
    np.testing.assert_allclose(kernel.decision_function(others), expected, atol=1e-6)
    assert getattr(kernel, "theta_", None) == getattr(explicit, "theta_", None)


# The life of a model


@every_model
def test_factors_pickle_and_attributes(data, others, model):
    X, Y = data
    weights = np.arange(40.0) % 5
    fitted = clone(model).set_params(kernel="rbf", gamma=0.4).fit(X, Y, weights)
    U, s, V = fitted.factors_
    K = rbf_kernel(X, gamma=0.4)
    if getattr(model, "fit_intercept", True):
        C = np.eye(40) - weights / weights.sum()
        K = C @ K @ C.T
        np.testing.assert_allclose(U.sum(axis=0), 0.0, atol=1e-8)
    np.testing.assert_allclose(U.T @ K @ U, np.eye(fitted.rank_), atol=1e-7)
    np.testing.assert_allclose(V.T @ V, np.eye(fitted.rank_), atol=1e-10)
    np.testing.assert_allclose((U * s) @ V.T, fitted.dual_coef_)
    assert (fitted.dual_coef_[weights == 0] == 0).all()
    assert np.array_equal(fitted.X_fit_, X)
    with pytest.raises(AttributeError, match="coef_"):
        _ = fitted.coef_
    scores = fitted.decision_function(others)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.decision_function(others), scores)
    top = fitted.predict_top_k(others, 2)
    np.testing.assert_allclose(top.scores, -np.sort(-scores, axis=1)[:, :2])
    # The parameters of the fit count, whatever they are now.
    assert np.array_equal(fitted.set_params(gamma=9.0).decision_function(others), scores)
    linear = fitted.set_params(kernel="linear").fit(X, Y)
    assert not hasattr(linear, "X_fit_")
    with pytest.raises(AttributeError, match="dual_coef_"):
        _ = linear.dual_coef_


# A part of the directions


@pytest.fixture
def many(monkeypatch):
    """240 rows count as many, so that the leading directions are tried."""
    monkeypatch.setattr("lrml.core.dual._MANY_ROWS", 240)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((240, 3))
    scores = np.tanh(X @ rng.standard_normal((3, 5))) + 0.3 * rng.standard_normal((240, 5))
    return X, (scores > 0.3).astype(int)


@pytest.mark.parametrize(("gamma", "ridge", "weighted"), [(0.001, 0.1, True), (0.01, 1.0, False)])
@pytest.mark.parametrize(
    "model", [LRML(2, 0.3, tol=1e-10), MLTrace(0.3, tol=1e-10), MLFro(), CPLST(3)], ids=str
)
def test_the_bound_of_what_is_left_out_holds(monkeypatch, many, model, ridge, gamma, weighted):
    X, Y = many
    weights = np.arange(240.0) % 5 if weighted else None
    name = "alpha" if isinstance(model, MLFro) else "ridge"
    model = clone(model).set_params(kernel="rbf", gamma=gamma, **{name: ridge})
    part = clone(model).fit(X, sp.csr_array(Y), weights)
    monkeypatch.setattr("lrml.core.dual._MANY_ROWS", 10**9)
    whole = clone(model).fit(X, Y, weights)
    assert whole.kernel_gap_ == 0 < part.kernel_gap_ <= 1e-4
    rise = part.objective_ / whole.objective_ - 1
    assert -1e-8 <= rise <= part.kernel_gap_ * (1 + 1e-6) + 1e-8
    # f is quadratic in the scores, so a small rise means a small difference.
    w, scores = 1 if weights is None else weights[:, None], part.decision_function(X)
    assert np.sum(w * (scores - whole.decision_function(X)) ** 2) <= 4 * part.kernel_gap_ * part.objective_
    # With an intercept the errors add up to 0.
    np.testing.assert_allclose(*(np.average(M, weights=weights, axis=0) for M in (scores, Y)))
    U = part.factors_.U
    np.testing.assert_allclose(U.sum(axis=0) / np.abs(U).sum(axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(U.T @ rbf_kernel(X, gamma=gamma) @ U, np.eye(part.rank_), atol=1e-5)


@pytest.mark.parametrize("model", [MLFro(1.0), LRML(5, 1.0, ridge=1.0), CPLST(1.0, ridge=1.0)], ids=str)
def test_leave_one_out_scores_use_all_directions(many, model):
    X, Y = many
    model = clone(model).set_params(kernel="rbf", gamma=0.01).fit(X, Y)
    assert model.kernel_gap_ > 0
    found = model.leave_one_out_scores(X, Y)
    for row in (0, 239):
        refitted = clone(model).fit(np.delete(X, row, 0), np.delete(Y, row, 0))
        np.testing.assert_allclose(found[row], refitted.decision_function(X[[row]])[0], atol=1e-9)


# Bad input


def refuses(shown, model, X, Y):
    with pytest.raises((ValueError, TypeError), match=shown):
        model.fit(X, Y)
    assert not hasattr(model, "factors_")


@pytest.mark.parametrize("make", [LRML, MLFro, CPLST])
@pytest.mark.parametrize("search", [False, True])
def test_bad_kernel_matrices(data, make, search):
    X, Y = data
    K, model = rbf_kernel(X), make(kernel="precomputed")
    model = {LRML: LRMLCV, MLFro: MLFroCV, CPLST: CPLSTCV}[make](model) if search else model
    crooked = K.copy()
    crooked[3, 7] += 0.25
    U, s, _ = np.linalg.svd(K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean())
    s[1] = -2.0 * s[0]
    for shown, matrix in (
        ("40 × 6", X),
        (r"0\.25", crooked),
        ("eigenvalue", (U * s) @ U.T),
        ("NaN", np.where(K == 1, np.nan, K)),
        ("[Ss]parse", sp.csr_array(K)),
    ):
        refuses(shown, model, matrix, Y)
    with pytest.raises(ValueError, match=r"39 features.* 40 "):
        model.fit(K, Y).predict(K[:, :39])


def test_what_is_no_kernel_is_refused(data):
    X, Y = data
    positive = np.abs(X)  # additive_chi2 is positive only when centred: with an intercept that suffices
    assert MLFro(0.3, kernel="additive_chi2").fit(positive, Y).score(positive, Y) > 0.5
    refuses("eigenvalue", MLFro(0.3, kernel="additive_chi2", fit_intercept=False), positive, Y)
    refuses("eigenvalue", LRML(kernel="sigmoid", gamma=3.0, coef0=-2), X, Y)
    refuses(r"\(6,\)", LRML(kernel=lambda x, z: x * z), X, Y)
    refuses("nan.* 0 ", LRML(kernel=lambda x, z: np.nan), X, Y)
    refuses("NoneType", LRML(kernel=lambda x, z: None), X, Y)
    refuses("complex", LRML(kernel=lambda x, z: complex(x @ z)), X, Y)
    for kernel in ("rbf", "poly"):
        for model in (LRML(kernel=kernel), LRMLCV(LRML(kernel=kernel))):
            refuses("finite", model, 1e160 * X, Y)
    refuses("unknown", LRML(kernel="rbf"), X, np.where(np.eye(40, 4), np.nan, Y))
    with pytest.raises(ValueError, match="linear"):
        bound_report(MLFro(kernel="rbf").fit(X, Y), X)
