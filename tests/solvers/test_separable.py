"""Newton's method for labels on their own: against scikit-learn, SciPy and itself."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from lrml import MLFro
from lrml.core.losses import LOSSES
from lrml.core.rows import Mask, Rows
from lrml.solvers import SeparableProblem, Status, solve_separable
from lrml.solvers import separable as module

MARGINS = pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])


def text(n, d, n_labels, seed=0, density=0.02):
    """Sparse rows of unit length, labels that depend on a few features, rare and frequent."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=density, rng=rng, format="csr")
    X = sp.csr_array(X.multiply(1.0 / np.maximum(np.sqrt((X * X).sum(axis=1)), 1e-9)[:, None]))
    scores = X @ rng.standard_normal((d, n_labels))
    Y = (scores > rng.uniform(0.0, 2.0, n_labels) * scores.std(axis=0)).astype(float)
    return X, Y


def objective(loss, X, Y, ridge, W, b, weights=None):
    S = X @ W + b
    signs = 2 * Y - 1
    values = np.logaddexp(0, -signs * S) if loss == "logistic" else np.maximum(1 - signs * S, 0) ** 2
    return np.sum(values if weights is None else values * weights) + ridge * np.sum(W**2)


def best(loss, X, y, ridge, f, fit_intercept):
    """Minimise the objective of one label with SciPy."""
    X = np.asarray(X.toarray() if sp.issparse(X) else X)
    m = 2 * y - 1

    def value(v):
        margins = m * (X @ v[:-1] + v[-1] * fit_intercept)
        if loss == "logistic":
            values, slopes = np.logaddexp(0, -margins), -m / (1 + np.exp(np.clip(margins, -500, 500)))
        elif loss == "squared_hinge":
            short = np.maximum(1 - margins, 0)
            values, slopes = short**2, -2 * m * short
        else:
            errors = m * margins - y
            values, slopes = errors**2, 2 * errors
        gradient = np.append(X.T @ (f * slopes) + 2 * ridge * v[:-1], fit_intercept * np.sum(f * slopes))
        return float(f @ values) + ridge * float(v[:-1] @ v[:-1]), gradient

    options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 30}
    return minimize(value, np.zeros(X.shape[1] + 1), jac=True, method="L-BFGS-B", options=options).fun


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["logistic", "squared_hinge", "squared"]),
    st.sampled_from([(40, 6), (15, 30), (25, 25), (50, 1)]),
    st.integers(0, 10_000),
    st.sampled_from([1e-2, 0.3, 10.0]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.sampled_from([None, 5]),
)
def test_objective_is_that_of_scipy(
    loss, shape, seed, ridge, fit_intercept, weighted, masked, sparse, directions
):
    rng = np.random.default_rng(seed)
    n, _ = shape
    X = rng.standard_normal(shape) * (rng.random(shape) < 0.5) + 0.3
    Y = (rng.random((n, 3)) < [0.5, 0.2, 0.8]).astype(float)
    Y[0], Y[1] = 0, 1
    known = rng.random((n, 3)) < 0.7 if masked else np.ones((n, 3), dtype=bool)
    known[:2] = True
    weights = rng.uniform(0.1, 3.0, n) if weighted else None
    mask = Mask(sp.csr_array(~known), marks_known=False) if masked else None
    form = sp.csr_array if sparse else np.asarray
    rows = Rows(form(X), form(Y * known), mask, weights)
    with pytest.MonkeyPatch.context() as patch:
        if directions is not None:  # the road of large data: few leading directions, chunks and groups
            patch.setattr(module, "_ALL_DIRECTIONS", 0)
            patch.setattr(module, "_ALL_IF_WIDE", 0)
            patch.setattr(module, "_LEADING", 1)
            patch.setattr(module, "_SPARSE_UP_TO", 1.0)
            patch.setattr(module, "COLUMNS", 2)
            patch.setattr(module, "_SCORES_IN_WORK", 2 * n)
        sides = {"fit_intercept": fit_intercept, "dual": X.shape[1] > n}
        problem = SeparableProblem(rows, LOSSES[loss], **sides).with_ridge(ridge)
        result = solve_separable(problem, tol=1e-12)
    f = known * (np.ones((n, 1)) if weights is None else weights[:, None])
    optimum = sum(best(loss, X, Y[:, label], ridge, f[:, label], fit_intercept) for label in range(3))
    assert result.status is Status.CONVERGED
    assert result.objective == pytest.approx(optimum, rel=1e-6, abs=1e-9)
    assert result.objective <= optimum * (1 + 1e-6) + 1e-9
    U, s, V = result.factors
    np.testing.assert_allclose((U * s) @ V.T, result.solution, atol=1e-10)
    assert result.intercept.any() == fit_intercept
    # At the optimum the slopes are dual vectors: W = −Xᵀ slopes / (2 ridge).
    slopes = f * LOSSES[loss].terms(Y * known, X @ result.solution + result.intercept).slopes
    np.testing.assert_allclose(-X.T @ slopes / (2 * ridge), result.solution, atol=2e-3 * s.max(initial=1.0))


@MARGINS
@pytest.mark.parametrize(("n", "d"), [(1500, 900), (700, 2500)], ids=["more rows", "more features"])
def test_default_tolerance_is_kept_on_sparse_text(loss, n, d):
    X, Y = text(n, d, 20)
    model = MLFro(0.5, loss=loss).fit(X, Y)
    exact = MLFro(0.5, loss=loss, tol=1e-13).fit(X, Y)
    assert exact.objective_ <= model.objective_ <= exact.objective_ * (1 + 1e-5)
    assert model.objective_ == pytest.approx(
        objective(loss, X, Y, 0.5, model.coef_.T, model.intercept_), rel=1e-9
    )
    for label in (0, 7):
        if loss == "logistic":
            one = LogisticRegression(C=1.0, tol=1e-8, max_iter=2000).fit(X, Y[:, label])
            np.testing.assert_allclose(exact.coef_[label], one.coef_[0], atol=1e-4)
        else:
            alone = MLFro(0.5, loss=loss, fit_intercept=False, tol=1e-13).fit(X, Y)
            one = LinearSVC(C=1.0, dual=False, fit_intercept=False, tol=1e-9).fit(X, Y[:, label])
            np.testing.assert_allclose(alone.coef_[label], one.coef_[0], atol=1e-5)


@MARGINS
def test_without_ridge(loss):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((200, 8))
    X[:, 7] = X[:, 6]
    Y = (X @ rng.standard_normal((8, 3)) + 2 * rng.standard_normal((200, 3)) > 0).astype(float)
    model = MLFro(0.0, loss=loss, tol=1e-12).fit(X, Y)
    assert model.converged_
    optimum = sum(best(loss, X, Y[:, label], 0.0, np.ones(200), True) for label in range(3))
    assert model.objective_ == pytest.approx(optimum, rel=1e-8)
    np.testing.assert_allclose(model.coef_[:, 6], model.coef_[:, 7], rtol=1e-6)  # of smallest norm
