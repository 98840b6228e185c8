"""What LRML computes: exact limits, certificates of optimality, and an honest record of the way there."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, Ridge

from lrml import LRML
from lrml.solvers import Status

INTERCEPT = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(60, 7, 5, seed=31)


def some_weights(n, weighted):
    return np.random.default_rng(7).uniform(0.2, 2.0, n) if weighted else None


# Least squares and ridge regression


@INTERCEPT
@pytest.mark.parametrize("theta", [0, 2, 5])
def test_no_penalty_is_least_squares(data, fit_intercept, theta):
    X, Y = data
    model = LRML(theta=theta, alpha=0.0, fit_intercept=fit_intercept).fit(X, Y)
    A = np.c_[X, np.ones(len(X))] if fit_intercept else X
    solution = np.linalg.lstsq(A, Y, rcond=None)[0]
    np.testing.assert_allclose(model.coef_, solution[:7].T, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        model.intercept_, solution[7] if fit_intercept else np.zeros(5), rtol=1e-9, atol=1e-12
    )
    assert model.objective_ == pytest.approx(np.sum((Y - A @ solution) ** 2), rel=1e-12)
    assert model.n_iter_ == 0
    assert model.residual_ <= 1e-12
    assert model.status_ == Status.EXACT.value


@INTERCEPT
@WEIGHTED
def test_no_penalty_is_weighted_least_squares(data, fit_intercept, weighted):
    X, Y = data
    weights = some_weights(len(X), weighted)
    model = LRML(theta=1, alpha=0.0, fit_intercept=fit_intercept).fit(X, Y, sample_weight=weights)
    expected = LinearRegression(fit_intercept=fit_intercept).fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-8, atol=1e-11)
    np.testing.assert_allclose(model.intercept_, expected.intercept_, rtol=1e-8, atol=1e-11)


@INTERCEPT
@pytest.mark.parametrize("kind", ["fewer rows than features", "repeated and summed columns"])
def test_no_penalty_is_the_least_squares_solution_of_smallest_norm(make_problem, fit_intercept, kind):
    if kind == "fewer rows than features":
        X, Y = make_problem(9, 15, 4, seed=2)
    else:
        X, Y = make_problem(40, 4, 3, seed=2)
        X = np.c_[X, X[:, 0], X[:, 1] + X[:, 2]]
    model = LRML(theta=0, alpha=0.0, fit_intercept=fit_intercept).fit(X, Y)
    x_mean, y_mean = (X.mean(axis=0), Y.mean(axis=0)) if fit_intercept else (0.0, 0.0)
    solution = np.linalg.pinv(X - x_mean, rcond=1e-10) @ (Y - y_mean)
    np.testing.assert_allclose(model.coef_, solution.T, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(
        X @ model.coef_.T + model.intercept_, (X - x_mean) @ solution + y_mean, rtol=1e-7, atol=1e-9
    )


@INTERCEPT
@WEIGHTED
@pytest.mark.parametrize("ridge", [1e-3, 1.0, 100.0])
@pytest.mark.parametrize(("n", "d", "n_labels"), [(60, 7, 5), (10, 20, 4), (30, 3, 8)])
def test_ridge_alone_is_ridge_regression(make_problem, fit_intercept, weighted, ridge, n, d, n_labels):
    X, Y = make_problem(n, d, n_labels, seed=n)
    weights = some_weights(n, weighted)
    model = LRML(theta=1, alpha=0.0, ridge=ridge, fit_intercept=fit_intercept)
    model.fit(X, Y, sample_weight=weights)
    expected = Ridge(alpha=ridge, fit_intercept=fit_intercept, solver="cholesky")
    expected.fit(X, Y, sample_weight=weights)
    np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(model.intercept_, np.broadcast_to(expected.intercept_, n_labels), atol=1e-9)


# The trace norm


@INTERCEPT
@pytest.mark.parametrize("ridge", [0.0, 0.7])
@pytest.mark.parametrize(("n", "d", "n_labels"), [(30, 5, 4), (8, 12, 3), (30, 3, 6)])
def test_theta_zero_is_the_trace_norm_optimum(make_problem, oracle, fit_intercept, ridge, n, d, n_labels):
    X, Y = make_problem(n, d, n_labels, seed=d)
    alpha = 4.0
    W, b = cp.Variable((d, n_labels)), cp.Variable((1, n_labels))
    errors = Y - X @ W - (np.ones((n, 1)) @ b if fit_intercept else 0)
    convex = cp.Problem(
        cp.Minimize(cp.sum_squares(errors) + alpha * cp.normNuc(W) + ridge * cp.sum_squares(W))
    )
    convex.solve(solver=cp.CLARABEL)
    model = LRML(theta=0, alpha=alpha, ridge=ridge, fit_intercept=fit_intercept, tol=1e-18).fit(X, Y)
    assert model.objective_ == pytest.approx(convex.value, rel=1e-6)
    np.testing.assert_allclose(model.coef_, W.value.T, atol=1e-4)
    if fit_intercept:
        np.testing.assert_allclose(model.intercept_, b.value.ravel(), atol=2e-4)
    assert model.rank_ == np.sum(np.linalg.svd(W.value, compute_uv=False) > 1e-4) > 0
    if ridge == 0:
        gap = oracle(X, Y, 0, alpha, fit_intercept=fit_intercept).duality_gap(model.coef_)
        assert -1e-9 <= gap <= 1e-6 * model.objective_


@INTERCEPT
@pytest.mark.parametrize("alpha", [0.1, 10.0, 100.0])
def test_duality_gap_on_yeast(yeast, oracle, fit_intercept, alpha):
    X, Y = yeast
    model = LRML(theta=0, alpha=alpha, fit_intercept=fit_intercept, tol=1e-14).fit(X, Y)
    problem = oracle(X, Y, 0, alpha, fit_intercept=fit_intercept)
    assert -1e-8 * model.objective_ <= problem.duality_gap(model.coef_) <= 1e-5 * model.objective_


@INTERCEPT
@pytest.mark.parametrize(("n", "d", "n_labels"), [(40, 6, 4), (8, 12, 3), (30, 3, 6)])
def test_solvers_agree_where_the_problem_is_convex(make_problem, fit_intercept, n, d, n_labels):
    X, Y = make_problem(n, d, n_labels, seed=n)
    X = X / np.linalg.norm(X, axis=0)
    params = {"theta": 0, "alpha": 0.3, "ridge": 0.05, "fit_intercept": fit_intercept, "tol": 1e-18}
    auto, apg, pg = (
        LRML(solver=solver, max_iter=20_000, **params).fit(X, Y) for solver in ("auto", "apg", "pg")
    )
    for model in (apg, pg):
        np.testing.assert_allclose(model.coef_, auto.coef_, rtol=1e-5, atol=1e-6)
        assert model.objective_ == pytest.approx(auto.objective_, rel=1e-10)
        assert model.rank_ == auto.rank_
    phases = [set(model.history_["phase"]) - {"start"} for model in (auto, apg, pg)]
    assert "alternating" in phases[0]
    assert phases[1:] == [{"apg"}, {"pg"}]


# Reduced-rank regression


def reduced_rank(X, Y, rank):
    """Least squares projected on the top right singular vectors of its predictions."""
    solution = np.linalg.lstsq(X, Y, rcond=None)[0]
    V = np.linalg.svd(X @ solution, full_matrices=False)[2][:rank].T
    return solution @ V @ V.T


@INTERCEPT
@WEIGHTED
@pytest.mark.parametrize("theta", [0, 1, 2, 3, 4])
def test_strong_penalty_is_reduced_rank_regression(data, oracle, fit_intercept, weighted, theta):
    X, Y = data
    weights = some_weights(len(X), weighted)
    model = LRML(theta=theta, alpha=1e12, fit_intercept=fit_intercept).fit(X, Y, sample_weight=weights)
    A, B = oracle(X, Y, theta, 0.0, fit_intercept=fit_intercept, weights=weights).rows
    solution = reduced_rank(A, B, theta)
    np.testing.assert_allclose(model.coef_, solution.T, rtol=1e-6, atol=1e-9)
    assert model.objective_ == pytest.approx(np.sum((B - A @ solution) ** 2), rel=1e-9)
    assert model.rank_ == theta


@INTERCEPT
def test_strong_penalty_on_yeast(yeast, oracle, fit_intercept):
    X, Y = yeast
    model = LRML(theta=3, alpha=1e12, fit_intercept=fit_intercept).fit(X, Y)
    A, B = oracle(X, Y, 3, 0.0, fit_intercept=fit_intercept).rows
    np.testing.assert_allclose(A @ model.coef_.T, A @ reduced_rank(A, B, 3), atol=1e-8)


# What the fitted attributes claim


@INTERCEPT
@WEIGHTED
@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("theta", [0, 2, 5])
@pytest.mark.parametrize("solver", ["auto", "apg", "pg"])
def test_objective_and_residual_are_those_of_the_definition(
    data, oracle, fit_intercept, weighted, ridge, theta, solver
):
    X, Y = data
    weights = some_weights(len(X), weighted)
    params = {"theta": theta, "alpha": 3.0, "ridge": ridge, "fit_intercept": fit_intercept}
    tol = 1e-8 if solver == "auto" else 1e-6
    model = LRML(solver=solver, tol=tol, max_iter=50_000, **params).fit(X, Y, sample_weight=weights)
    problem = oracle(X, Y, weights=weights, **params)
    assert model.objective_ == pytest.approx(problem.objective(model.coef_, model.intercept_), rel=1e-10)
    assert model.residual_ == pytest.approx(problem.residual(model.coef_), rel=1e-6, abs=1e-11)
    assert model.residual_ <= 1e-3


@INTERCEPT
@pytest.mark.parametrize(("n", "d", "n_labels"), [(10, 25, 4), (10, 25, 40), (30, 4, 9)])
@pytest.mark.parametrize("stop_after", [0, 1, 4, None])
def test_claims_hold_in_reduced_coordinates_and_after_an_early_stop(
    make_problem, oracle, fit_intercept, n, d, n_labels, stop_after
):
    """Fewer rows than features, more labels than features, and points that are far from stationary."""
    X, Y = make_problem(n, d, n_labels, seed=n)
    callback = None if stop_after is None else lambda info: info.iteration >= stop_after
    model = LRML(theta=2, alpha=1.0, fit_intercept=fit_intercept, callback=callback, tol=1e-8).fit(X, Y)
    problem = oracle(X, Y, 2, 1.0, fit_intercept=fit_intercept)
    assert model.objective_ == pytest.approx(problem.objective(model.coef_, model.intercept_), rel=1e-8)
    assert model.residual_ == pytest.approx(problem.residual(model.coef_), rel=1e-5, abs=1e-10)
    if stop_after in (0, None):
        assert (model.residual_ <= 1e-4) == (stop_after is None)


@pytest.mark.parametrize(("n", "d", "n_labels"), [(60, 7, 5), (3, 3, 3), (10, 25, 4)])
@pytest.mark.parametrize("alpha", [1.0, 1e3, 1e6])
@pytest.mark.parametrize("stop_after", [0, 1, 2, 3])
def test_objective_of_a_strong_penalty_after_an_early_stop(
    make_problem, oracle, n, d, n_labels, alpha, stop_after
):
    """The penalty multiplies the noise of small singular values, which the objective must not contain."""
    X, Y = make_problem(n, d, n_labels, seed=0)
    model = LRML(theta=1, alpha=alpha, callback=lambda info: info.iteration >= stop_after, targets="real")
    model.fit(X, Y)
    recomputed = oracle(X, Y, 1, alpha).objective(model.coef_, model.intercept_)
    assert model.objective_ == pytest.approx(recomputed, rel=1e-8)


def assert_svd(model):
    U, s, V = model.factors_
    sigma = np.linalg.svd(model.coef_, compute_uv=False)
    scale = sigma[0]
    assert model.rank_ == len(s) == U.shape[1] == V.shape[1]
    np.testing.assert_array_equal(model.singular_values_, s)
    np.testing.assert_allclose(s, sigma[: len(s)], rtol=1e-7, atol=1e-12 * scale)
    np.testing.assert_allclose(sigma[len(s) :], 0, atol=1e-12 * scale)
    assert np.all(np.diff(s) <= 0)
    np.testing.assert_allclose((U * s) @ V.T, model.coef_.T, atol=1e-12 * scale)
    np.testing.assert_allclose(U.T @ U, np.eye(len(s)), atol=1e-8)
    np.testing.assert_allclose(V.T @ V, np.eye(len(s)), atol=1e-8)


@INTERCEPT
@pytest.mark.parametrize("theta", [0, 2, 5])
@pytest.mark.parametrize("alpha", [0.0, 3.0, 1e6])
@pytest.mark.parametrize("solver", ["auto", "apg"])
def test_factors_are_the_singular_value_decomposition(data, fit_intercept, theta, alpha, solver):
    model = LRML(theta=theta, alpha=alpha, fit_intercept=fit_intercept, solver=solver, max_iter=20_000)
    model.fit(*data)
    if theta == 0 and alpha == 1e6:
        assert model.rank_ == 0
        assert not model.coef_.any()
    else:
        assert_svd(model)
        assert model.rank_ == np.linalg.matrix_rank(model.coef_)


@pytest.mark.parametrize(("n", "d", "n_labels"), [(10, 25, 4), (10, 25, 40), (30, 4, 9)])
def test_factors_in_reduced_coordinates(make_problem, n, d, n_labels):
    X, Y = make_problem(n, d, n_labels, seed=n)
    assert_svd(LRML(theta=2, alpha=1.0).fit(X, Y))


@pytest.mark.parametrize("smallest", [1e-2, 1e-4, 1e-6, 1e-9])
def test_factors_of_a_wide_spectrum(smallest):
    """Coefficients known by construction: a real target that X explains without error."""
    rng = np.random.default_rng(0)
    A, U, V = (np.linalg.qr(rng.standard_normal(shape))[0] for shape in ((60, 20), (20, 6), (6, 6)))
    s = np.geomspace(1.0, smallest, 6)
    W = (U * s) @ V.T
    model = LRML(theta=0, alpha=0.0, fit_intercept=False, targets="real").fit(A, A @ W)
    np.testing.assert_allclose(model.coef_, W.T, atol=1e-13)
    assert model.rank_ == 6
    np.testing.assert_allclose(model.singular_values_, s, rtol=1e-7, atol=1e-13)
    np.testing.assert_allclose(model.factors_.U.T @ model.factors_.U, np.eye(6), atol=1e-8)
    np.testing.assert_allclose(model.factors_.V.T @ model.factors_.V, np.eye(6), atol=1e-8)


def test_repeated_labels_do_not_add_to_the_rank(data):
    X, Y = data
    for stop_after in (0, 1, 3, None):
        callback = None if stop_after is None else lambda info, last=stop_after: info.iteration >= last
        model = LRML(theta=1, alpha=0.5, callback=callback).fit(X, np.c_[Y, Y[:, :2]])
        assert model.rank_ == np.linalg.matrix_rank(model.coef_) <= 5
        np.testing.assert_allclose(model.coef_[5:], model.coef_[:2], atol=1e-9)
