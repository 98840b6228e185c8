"""Paths: every model against its definition, the ends against closed forms, all against single fits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LinearRegression, Ridge
from threadpoolctl import threadpool_limits

import namespaces
from lrml import CPLST, LRML, MLTrace, lrml_path
from lrml.core.moments import Statistics
from lrml.estimators import LRMLPath, alpha_max, ml_fro_path

INTERCEPT = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(60, 7, 5, seed=31)


def some_weights(n, weighted=True):
    return np.random.default_rng(7).uniform(0.2, 2.0, n) if weighted else None


def stacked(case):
    """Rows whose plain least squares are those of the problem, the ridge included."""
    X, Y = case.rows
    d, n_labels = X.shape[1], Y.shape[1]
    return np.r_[X, np.sqrt(case.ridge) * np.eye(d)], np.r_[Y, np.zeros((d, n_labels))]


def reduced_rank(case):
    """Least squares of rank theta: project the fitted values on their leading right singular vectors."""
    A, B = stacked(case)
    W = np.linalg.lstsq(A, B, rcond=1e-12)[0]
    V = np.linalg.svd(A @ W, full_matrices=False)[2][: case.theta].T
    return W @ V @ V.T


def slope(case, W):
    A, B = stacked(case)
    return 2 * A.T @ (A @ W - B)


def distance(case, coef):
    """Distance of 0 from the subdifferential at a W with σ_theta > σ_{theta+1}, relative to ‖∇f(0)‖.

    It is that of −∇f from alpha · (U_tail V_tailᵀ + U_⊥ M V_⊥ᵀ) over all ‖M‖₂ ≤ 1: what lies in the
    complement is clipped at alpha. No proximal map and no step size come in.
    """
    W = coef.T
    U, s, Vt = np.linalg.svd(W)
    rank = int(np.count_nonzero(s > 1e-9 * max(s[0], 1e-12)))
    rest = -slope(case, W)
    rest -= case.alpha * U[:, case.theta : rank] @ Vt[case.theta : rank]
    outside = U[:, rank:].T @ rest @ Vt[rank:].T
    left, t, right = np.linalg.svd(outside, full_matrices=False)
    clipped = (left * np.minimum(t, case.alpha)) @ right
    rest -= U[:, rank:] @ clipped @ Vt[rank:]
    return np.linalg.norm(rest) / np.linalg.norm(slope(case, np.zeros_like(W)))


def mapping_factor(case, coef):
    """By how much the proximal gradient step may exceed the distance of 0 from the subdifferential.

    A convex prox is nonexpansive: 1. That of the tail sum turns head and tail against each other by the gap
    of their singular values over the gap before the shrinkage, which is smaller by alpha / L.
    """
    if case.theta == 0:
        return 1.0
    s = np.r_[np.linalg.svd(coef, compute_uv=False), 0.0]
    gap = s[case.theta - 1] - s[case.theta]
    X, _ = case.rows
    shrinkage = case.alpha / (2 * (np.linalg.norm(X, 2) ** 2 + case.ridge))
    return gap / (gap - shrinkage) if gap > shrinkage else np.inf


def check_model(model, case, tol):
    """One model: objective, stationarity, factors and scores are what their definitions say."""
    coef, intercept = model.coef, model.intercept
    assert model.objective == pytest.approx(case.objective(coef, intercept), rel=1e-9)
    assert model.residual <= tol
    assert distance(case, coef) <= tol * (1 + 1e-6)
    # The factor holds for small steps; a tenth is for the second order.
    assert case.residual(coef) <= 1.1 * tol * mapping_factor(case, coef)
    U, s, V = model.factors
    assert model.rank == len(s) == len(model.singular_values)
    assert_allclose(U.T @ U, np.eye(model.rank), atol=1e-9)
    assert_allclose(V.T @ V, np.eye(model.rank), atol=1e-9)
    assert np.all(np.diff(s) <= 0)
    assert np.all(s > 0)
    assert_allclose(s, model.singular_values, rtol=1e-6)
    assert_allclose((V * s) @ U.T, coef, atol=1e-12 * max(1.0, np.abs(coef).max()))
    assert_allclose(model.decision_function(case.X), case.X @ coef.T + intercept, atol=1e-10)


def assert_same(path, other, atol=1e-7):
    assert len(path) == len(other)
    for model, twin in zip(path, other, strict=True):
        assert (model.theta, model.ridge) == (twin.theta, twin.ridge)
        assert model.alpha == pytest.approx(twin.alpha, rel=1e-7)
        assert_allclose(model.coef, twin.coef, atol=atol)
        assert_allclose(model.intercept, twin.intercept, atol=atol)


# alpha_max


@INTERCEPT
@WEIGHTED
def test_alpha_max_of_the_trace_norm_is_the_spectral_norm_of_the_gradient_at_zero(
    data, oracle, fit_intercept, weighted
):
    weights = some_weights(60, weighted)
    X, Y = oracle(*data, 0, 0.0, fit_intercept=fit_intercept, weights=weights).rows
    found = alpha_max(*data, 0, fit_intercept=fit_intercept, sample_weight=weights)
    assert found == pytest.approx(2 * np.linalg.norm(X.T @ Y, 2), rel=1e-10)


@INTERCEPT
@WEIGHTED
@pytest.mark.parametrize("ridge", [0.0, 3.0])
@pytest.mark.parametrize("theta", [0, 1, 3, 0.4])
def test_alpha_max_is_the_slope_at_reduced_rank_regression(
    data, oracle, fit_intercept, weighted, ridge, theta
):
    options = {"ridge": ridge, "fit_intercept": fit_intercept}
    weights = some_weights(60, weighted)
    count = 2 if theta == 0.4 else theta
    case = oracle(*data, count, 0.0, **options, weights=weights)
    expected = np.linalg.norm(slope(case, reduced_rank(case)), 2)
    assert alpha_max(*data, theta, **options, sample_weight=weights) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("theta", [0, 1, 2, 3])
def test_alpha_max_is_where_the_tail_begins(data, oracle, theta):
    largest = alpha_max(*data, theta)
    above, below = (oracle(*data, theta, share * largest) for share in (1.001, 0.999))
    W = reduced_rank(above)
    assert above.residual(W.T) <= 1e-10
    assert below.residual(W.T) >= 1e-5
    model = LRML(theta, above.alpha).fit(*data)
    assert model.rank_ == theta
    assert_allclose(model.coef_, W.T, atol=1e-8)
    assert LRML(theta, 0.9 * largest).fit(*data).rank_ > theta


@pytest.mark.parametrize("form", [list, tuple, np.array])
def test_alpha_max_of_several_thetas_is_that_of_each_in_their_order(data, form):
    thetas = form([3, 0, 1, 3])
    found = alpha_max(*data, thetas, ridge=0.3)
    expected = [alpha_max(*data, theta, ridge=0.3) for theta in (3, 0, 1, 3)]
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    np.testing.assert_array_equal(alpha_max(*data, [0.0, 1.0]), [alpha_max(*data, 0), 0.0])
    assert alpha_max(*data, []).shape == (0,)
    with pytest.raises(ValueError, match=r"theta must be in \[0, \d+\].* got 99"):
        alpha_max(*data, [0, 99])
    with pytest.raises(TypeError, match=r"theta must be an int .* got 'many'"):
        alpha_max(*data, ["many"])


@pytest.mark.parametrize(("n", "d", "n_labels"), [(60, 7, 5), (30, 3, 6), (5, 8, 7)])
def test_alpha_max_is_zero_where_nothing_is_penalised(make_problem, n, d, n_labels):
    assert alpha_max(*make_problem(n, d, n_labels), min(d, n_labels)) == 0.0
    assert alpha_max(*make_problem(n, d, n_labels), 1.0) == 0.0


# Every model of a path


SHAPES = {
    "plain": (60, 7, 5),
    "more labels than features": (40, 4, 9),
    "fewer rows than features": (9, 15, 5),
    "one label": (30, 6, 1),
    "one feature": (30, 1, 4),
}


@INTERCEPT
@WEIGHTED
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_model_is_what_it_says(make_problem, oracle, shape, fit_intercept, weighted):
    X, Y = make_problem(*shape, seed=3)
    weights = some_weights(len(X), weighted)
    path = lrml_path(
        X, Y, ridges=[0.0, 0.5], n_alphas=8, fit_intercept=fit_intercept, sample_weight=weights, tol=1e-11
    )
    for model in path:
        case = oracle(X, Y, model.theta, model.alpha, model.ridge, fit_intercept, weights)
        check_model(model, case, 1e-4)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    shape=st.tuples(st.integers(4, 30), st.integers(2, 9), st.integers(2, 9)),
    theta=st.integers(0, 4),
    log_alphas=st.lists(st.floats(-3, 3), min_size=1, max_size=5),
    ridge=st.sampled_from([0.0, 0.1, 10.0]),
)
def test_any_grid_gives_stationary_points_never_above_the_reduced_rank_end(
    make_problem, oracle, seed, shape, theta, log_alphas, ridge
):
    X, Y = make_problem(*shape, seed=seed)
    theta = min(theta, *shape[1:])
    path = lrml_path(X, Y, theta, [10**power for power in log_alphas], ridge, max_iter=20_000, tol=1e-11)
    for model in path:
        case = oracle(X, Y, theta, model.alpha, ridge)
        assert distance(case, model.coef) <= 1e-3 * (1 + 1e-6)
        A, B = stacked(case)
        end = np.sum((B - A @ reduced_rank(case)) ** 2)  # of rank theta: no tail
        assert model.objective <= end + 1e-11 * np.sum(B**2)


def value_without_centring(case, W):
    A, B = stacked(case)
    return np.sum((B - A @ W) ** 2) + case.alpha * np.linalg.svd(W, compute_uv=False)[case.theta :].sum()


@pytest.mark.parametrize("theta", [0, 1, 3, 6])
@pytest.mark.parametrize("ridge", [0.0, 10.0])
def test_models_are_as_good_as_single_fits_and_as_both_ends(yeast, oracle, theta, ridge):
    head = reduced_rank(oracle(*yeast, theta, 0.0, ridge))
    least_squares = Ridge(ridge).fit(*yeast).coef_.T
    for model in lrml_path(*yeast, theta, ridges=ridge, n_alphas=7):
        case = oracle(*yeast, theta, model.alpha, ridge)
        assert model.objective <= 1.001 * LRML(theta, model.alpha, ridge=ridge).fit(*yeast).objective_
        assert model.objective <= (1 + 1e-9) * value_without_centring(case, head)
        # At this tolerance, a chain that begins near least squares does not get to the last digit.
        assert model.objective <= 1.001 * value_without_centring(case, least_squares)


@pytest.mark.parametrize("ridge", [0.0, 2.0])
def test_without_free_values_a_path_is_that_of_the_trace_norm(data, oracle, ridge):
    """F − F* is at most tol · F, and strong convexity (μ) makes of that ‖W − W*‖² ≤ 2(F − F*)/μ."""
    case = oracle(*data, 0, 0.0, ridge)
    A, _ = stacked(case)
    mu = 2 * np.linalg.norm(A, -2) ** 2
    for model in lrml_path(*data, 0, ridges=ridge, n_alphas=8):
        best = MLTrace(model.alpha, ridge=ridge, tol=1e-12).fit(*data)
        assert np.linalg.norm(model.coef - best.coef_) <= np.sqrt(2 * 1e-4 * model.objective / mu) + 1e-5
        assert best.objective_ * (1 - 1e-11) <= model.objective <= best.objective_ + 1e-4 * model.objective


@INTERCEPT
def test_a_tight_tolerance_gives_the_coefficients_of_a_tight_fit(data, fit_intercept):
    for model in lrml_path(*data, 0, n_alphas=8, fit_intercept=fit_intercept, tol=1e-18, max_iter=5000):
        single = LRML(0, model.alpha, fit_intercept=fit_intercept, tol=1e-18).fit(*data)
        assert_allclose(model.coef, single.coef_, atol=1e-6)
        assert_allclose(model.intercept, single.intercept_, atol=1e-6)


# Both ends in closed form


@pytest.mark.parametrize("ridge", [0.0, 4.0])
def test_the_first_model_of_every_theta_is_reduced_rank_regression(yeast, ridge):
    path = lrml_path(*yeast, ridges=ridge)
    first = [model for model, before in zip(path, [None, *path], strict=False) if is_new(model, before)]
    assert [model.theta for model in first] == [0, 1, 3, 6]
    for model in first:
        assert model.rank == model.theta
        assert model.alpha == pytest.approx(alpha_max(*yeast, model.theta, ridge=ridge), rel=1e-8)
        if model.theta == 0:
            assert not model.coef.any()
        else:
            expected = CPLST(model.theta, ridge=ridge).fit(*yeast)
            assert_allclose(model.coef, expected.coef_, atol=1e-8 * np.abs(expected.coef_).max())
            assert model.objective == pytest.approx(expected.objective_, rel=1e-10)


def is_new(model, before):
    return before is None or (model.theta, model.ridge) != (before.theta, before.ridge)


@INTERCEPT
@WEIGHTED
@pytest.mark.parametrize("ridge", [0.0, 5.0])
def test_no_penalty_is_scikit_learns_least_squares(data, fit_intercept, weighted, ridge):
    weights = some_weights(60, weighted)
    peer = (
        Ridge(ridge, fit_intercept=fit_intercept) if ridge else LinearRegression(fit_intercept=fit_intercept)
    )
    peer.fit(*data, sample_weight=weights)
    options = {"fit_intercept": fit_intercept, "sample_weight": weights}
    path = lrml_path(*data, [0, 2, 5], [0.0, 1.0], ridge, **options)
    exact = [model for model in path if model.alpha == 0 or model.theta == 5]
    assert len(exact) == 4
    for model in exact:
        assert_allclose(model.coef, peer.coef_, rtol=1e-8, atol=1e-10)
        assert_allclose(model.intercept, peer.intercept_ * np.ones(5), rtol=1e-8, atol=1e-10)
        assert model.n_iter == 0
        assert model.residual <= 1e-12


# What is in a path, and in which order


def test_defaults_are_five_thetas_and_twenty_alphas(make_problem):
    X, Y = make_problem(50, 22, 20, seed=1)
    path = lrml_path(X, Y)
    columns = path.as_dict()
    assert list(columns) == [
        "theta",
        "alpha",
        "ridge",
        "rank",
        "nbytes",
        "objective",
        "gap",
        "residual",
        "converged",
        "n_iter",
    ]
    assert_array_equal(columns["theta"], np.repeat([0, 1, 2, 4, 8], 20))
    for theta, alphas in zip([0, 1, 2, 4, 8], columns["alpha"].reshape(5, 20), strict=True):
        largest = alpha_max(X, Y, theta)
        assert_allclose(alphas, np.geomspace(largest, largest / 1000, 20), rtol=1e-8)
    for name, column in columns.items():
        assert_array_equal(column, [getattr(model, name) for model in path])


def test_thetas_that_coincide_on_few_labels_count_once(make_problem):
    assert list(dict.fromkeys(m.theta for m in lrml_path(*make_problem(50, 6, 4), n_alphas=2))) == [0, 1, 2]


def test_models_come_by_ridge_by_theta_and_by_descending_alpha(data):
    path = lrml_path(*data, [2, 0.4, 0, np.int64(2)], [0.5, 8.0, 2.0, 0.5], np.array([1.0, 0.0, 1.0]))
    found = [(model.ridge, model.theta, model.alpha) for model in path]
    assert found == [(r, t, a) for r in (1.0, 0.0) for t in (2, 0) for a in (8.0, 2.0, 0.5)]


def test_single_numbers_stand_for_grids_of_one(data):
    (model,) = lrml_path(*data, 2, np.array(0.5), 1)
    assert (model.theta, model.alpha, model.ridge) == (2, 0.5, 1.0)
    assert [m.alpha for m in lrml_path(*data, 1, n_alphas=1)] == pytest.approx([alpha_max(*data, 1)])


def test_a_path_is_a_sequence(data):
    path = lrml_path(*data, [0, 2], n_alphas=3)
    assert repr(path) == "LRMLPath(6 models)"
    assert list(path) == [path[index] for index in range(6)]
    assert path[-1] is path[5]
    part = path[1:5:2]
    assert isinstance(part, LRMLPath)
    assert list(part) == [path[1], path[3]]
    assert all(len(column) == 2 for column in part.as_dict().values())


# Forms of data


def test_statistics_are_enough(data):
    X, Y = data
    options = {"thetas": [0, 2], "ridges": [0.0, 1.0], "n_alphas": 5}
    path = lrml_path(X, Y, **options)
    for model, twin in zip(path, lrml_path(Statistics.from_arrays(X, Y), **options), strict=True):
        assert_array_equal(model.coef, twin.coef)
        assert_array_equal(model.intercept, twin.intercept)
    halves = Statistics.from_arrays(X[:20], Y[:20]) + Statistics.from_arrays(X[20:], Y[20:])
    assert_same(path, lrml_path(halves, **options))


@INTERCEPT
@pytest.mark.parametrize("form", [sp.csr_array, sp.csc_matrix, sp.coo_array])
def test_sparse_data_gives_the_models_of_dense_data(data, fit_intercept, form):
    X, Y = np.where(np.abs(data[0]) > 0.5, data[0], 0.0), data[1]
    options = {"thetas": [0, 2], "n_alphas": 5, "fit_intercept": fit_intercept}
    path, sparse = lrml_path(X, Y, **options), lrml_path(form(X), form(Y), **options)
    assert_same(path, sparse)
    for model in sparse:
        assert_allclose(model.decision_function(form(X)), model.decision_function(X), atol=1e-12)


def test_single_precision_is_summed_in_double(data):
    X = data[0].astype(np.float32)
    assert_same(lrml_path(X, data[1], 2), lrml_path(X.astype(float), data[1], 2), atol=0)


def test_weights_count_rows(data):
    X, Y = data
    times = np.random.default_rng(5).integers(0, 4, len(X))
    options = {"thetas": [0, 2], "n_alphas": 5}
    repeated = lrml_path(np.repeat(X, times, axis=0), np.repeat(Y, times, axis=0), **options)
    assert_same(lrml_path(X, Y, **options, sample_weight=times), repeated)


def test_constant_features_get_no_coefficient(data):
    X, Y = data
    path = lrml_path(np.c_[X, np.full(len(X), 3.0)], Y, [0, 2], n_alphas=5)
    for model, twin in zip(path, lrml_path(X, Y, [0, 2], n_alphas=5), strict=True):
        assert_allclose(model.coef, np.c_[twin.coef, np.zeros(5)], atol=1e-8)


def test_data_without_any_variation_leaves_the_means(data):
    _, Y = data
    for model in lrml_path(np.ones((60, 3)), Y, [0, 1], [1.0, 0.0]):
        assert model.rank == 0
        assert_allclose(model.decision_function(np.ones((2, 3))), np.tile(Y.mean(axis=0), (2, 1)))


@INTERCEPT
def test_a_label_without_positives_is_out_of_the_game(data, fit_intercept):
    X, Y = data
    wide = np.insert(Y, 2, 0, axis=1)
    options = {"n_alphas": 5, "fit_intercept": fit_intercept}
    for model in lrml_path(X, wide, [0, 2], **options):
        assert model.intercept[2] == -1
        assert_allclose(model.coef[2], 0, atol=1e-12)
    # The trace norm has one optimum, with that label or without.
    options |= {"tol": 1e-18, "max_iter": 5000}
    for model, twin in zip(lrml_path(X, wide, 0, **options), lrml_path(X, Y, 0, **options), strict=True):
        assert_allclose(model.coef, np.insert(twin.coef, 2, 0, axis=0), atol=1e-6)
    real = lrml_path(X, wide, 2, **options, targets="real")
    assert_allclose([model.intercept[2] for model in real], 0, atol=1e-12)


def test_real_targets(data, oracle):
    X, _ = data
    Y = X @ np.random.default_rng(0).normal(size=(7, 4)) + 5
    for model in lrml_path(X, Y, [0, 2], [30.0, 1.0], 0.1, targets="real", tol=1e-9):
        check_model(model, oracle(X, Y, model.theta, model.alpha, model.ridge), 1e-3)


def test_more_labels_than_rank(data, oracle):
    """X of rank 3 and labels that repeat: no more than 3 values can be penalised, or free."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, 3)) @ rng.normal(size=(3, 8))
    Y = np.tile(data[1], 2)
    for model in lrml_path(X, Y, [0, 2], n_alphas=5, tol=1e-10):
        check_model(model, oracle(X, Y, model.theta, model.alpha), 1e-3)
    exact = lrml_path(X, Y, [3, 8], n_alphas=5)
    assert [(model.theta, model.alpha, model.rank) for model in exact] == [(3, 0.0, 3), (8, 0.0, 3)]


def test_factors_are_orthonormal_even_where_singular_values_span_many_orders():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 12)) * np.geomspace(1, 1e-6, 12)
    Y = (X / np.geomspace(1, 1e-6, 12) @ rng.normal(size=(12, 7)) > 0).astype(int)
    path = lrml_path(X, Y, [0, 2], alpha_ratio=1e-8)
    assert max(model.factors.s[0] / model.factors.s[-1] for model in path if model.rank) > 1e4
    for model in path:
        for side in (model.factors.U, model.factors.V):
            assert_allclose(side.T @ side, np.eye(model.rank), atol=1e-9)


# The same result every time


def test_two_runs_are_equal_to_the_bit_and_threads_change_only_rounding(yeast):
    paths = []
    for threads in (1, 2, 2):
        with threadpool_limits(threads, user_api="blas"):
            paths.append(lrml_path(*yeast, [0, 3], n_alphas=6))
    for model, twin in zip(paths[1], paths[2], strict=True):
        assert_array_equal(model.coef, twin.coef)
        assert (model.objective, model.residual, model.n_iter) == (twin.objective, twin.residual, twin.n_iter)
    assert_same(paths[0], paths[1], atol=1e-6)


# Warnings and errors


def test_a_limit_on_iterations_that_is_too_low_is_reported_where_it_was_asked_for(yeast):
    with pytest.warns(ConvergenceWarning, match=r"of 12 models .* max_iter=1; raise max_iter") as record:
        path = lrml_path(*yeast, [0, 3], n_alphas=6, max_iter=1, tol=1e-10)
    late = int(np.sum(path.as_dict()["residual"] > 1e-5))
    assert str(record[0].message).startswith(f"{late} of 12 models")
    assert record[0].filename == __file__


def test_a_tolerance_below_rounding_is_reported_as_such(data):
    with pytest.warns(ConvergenceWarning, match="no longer brought anything; loosen tol"):
        lrml_path(*data, 0, [20.0, 10.0], max_iter=100_000, tol=0.0)


BAD_GRIDS = [
    ({"alphas": [1.0, -1.0]}, ValueError, r"each of alphas must be finite and at least 0, got -1.0. Pass"),
    ({"alphas": [np.nan]}, ValueError, r"each of alphas must be finite and at least 0, got nan. Pass"),
    ({"alphas": ["1"]}, TypeError, r"each of alphas must be a number, got '1'. Pass"),
    ({"alphas": "strong"}, TypeError, r"each of alphas must be a number, got 'strong'. Pass"),
    ({"alphas": []}, ValueError, r"alphas must hold at least one number, got none. Pass a list"),
    ({"thetas": []}, ValueError, r"thetas must hold at least one number, got none. Pass a list"),
    ({"thetas": [0, 6]}, ValueError, r"theta must be in \[0, 5\] .* got 6. Choose"),
    ({"thetas": -1}, ValueError, r"theta must be at least 0, got -1. Choose"),
    ({"thetas": [1.5]}, ValueError, r"as a float, theta must be in \[0, 1\] .* got 1.5. Pass an int"),
    ({"thetas": "half"}, TypeError, r"theta must be an int .* got 'half'. Pass a number"),
    ({"ridges": [-2.0]}, ValueError, r"each of ridges must be finite and at least 0, got -2.0. Pass"),
    ({"n_alphas": 0}, ValueError, r"n_alphas must be an int of at least 1, got 0. Pass"),
    ({"n_alphas": 2.5}, ValueError, r"n_alphas must be an int of at least 1, got 2.5. Pass"),
    ({"alpha_ratio": 2}, ValueError, r"alpha_ratio must be in \(0, 1\), got 2. Pass"),
    ({"alpha_ratio": 0.0}, ValueError, r"alpha_ratio must be in \(0, 1\), got 0.0. Pass"),
    ({"targets": "multi"}, ValueError, r"targets must be one of 'binary', 'real', got 'multi'"),
    ({"fit_intercept": "no"}, TypeError, r"fit_intercept must be True or False, got 'no'"),
    ({"max_iter": 0}, ValueError, r"max_iter must be an int of at least 1, got 0"),
    ({"tol": -1.0}, ValueError, r"tol must be finite and at least 0, got -1.0"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD_GRIDS, ids=lambda value: str(value)[:30])
def test_bad_parameters_are_named_with_the_remedy(data, options, error, message):
    with pytest.raises(error, match=message):
        lrml_path(*data, **options)
    with pytest.raises(error, match=message):
        lrml_path(Statistics.from_arrays(*data), **options)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_unknown_labels_are_refused_with_the_estimators_that_take_them(data, form):
    X, Y = data
    Y = Y.astype(float)
    Y[3, 1] = np.nan
    for function in (lrml_path, alpha_max):
        with pytest.raises(ValueError, match=r"all labels, got a Y that contains NaN\. Use LRML or LRMLCV"):
            function(X, form(Y), 2)


def test_bad_data_is_named_with_the_remedy(data):
    X, Y = data
    with pytest.raises(ValueError, match=r"same number of rows, got 60 and 59"):
        lrml_path(X, Y[:-1])
    with pytest.raises(ValueError, match=r"Y must be 2-D .* got shape \(60,\)"):
        lrml_path(X, Y[:, 0])
    with pytest.raises(ValueError, match=r"Y must hold only 0 and 1, got 2"):
        lrml_path(X, 2 * Y)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        lrml_path(np.where(X > 2, np.nan, X), Y)
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(60,\)"):
        lrml_path(X, Y, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match=r"Statistics have labels and weights in them, got Y or"):
        lrml_path(Statistics.from_arrays(X, Y), Y)
    (model,) = lrml_path(X, Y, 2, 1.0)
    with pytest.raises(ValueError, match="X must have the 7 features of the training data, got 6"):
        model.decision_function(X[:, :6])


def test_more_features_than_memory_holds_take_a_subspace(monkeypatch, data):
    expected = lrml_path(*data, thetas=[0, 2], n_alphas=4, ridges=0.1).as_dict()
    monkeypatch.setattr("os.sysconf", lambda name: 10)  # 100 bytes in all
    found = lrml_path(*data, thetas=[0, 2], n_alphas=4, ridges=0.1).as_dict()
    np.testing.assert_allclose(found["objective"], expected["objective"], rtol=1e-3)


# Real data


@pytest.mark.real_data
@pytest.mark.parametrize(("name", "thetas", "n_models"), [("bibtex", None, 100), ("delicious", 0.1, 20)])
def test_a_model_takes_few_decompositions(mulan, name, thetas, n_models):
    columns = lrml_path(*mulan(name).train, thetas).as_dict()
    assert len(columns["n_iter"]) == n_models
    assert columns["converged"].all()
    assert columns["n_iter"].mean() <= 8


@pytest.mark.parametrize("shape", [(60, 7, 5), (20, 30, 5), (60, 4, 9)], ids=str)
def test_paths_are_the_same_in_every_place(place, shape, make_problem):
    X, Y = make_problem(*shape, seed=5)[:2]
    expected = lrml_path(X, Y, thetas=[0, 2], n_alphas=3, ridges=0.1)
    coefs, intercepts = ml_fro_path(X, Y, [0.1, 2.0])
    with namespaces.dispatching():
        there = namespaces.put(place, X), namespaces.put(place, Y)
        found = lrml_path(*there, thetas=[0, 2], n_alphas=3, ridges=0.1)
        ridge = ml_fro_path(*there, [0.1, 2.0])
        assert alpha_max(*there, 2) == pytest.approx(alpha_max(X, Y, 2))
        scores = found[1].decision_function(there[0])
    namespaces.assert_same(scores, expected[1].decision_function(X), place, rtol=1e-6)
    for mine, theirs in zip(found, expected, strict=True):
        assert (mine.theta, mine.rank, mine.status) == (theirs.theta, theirs.rank, theirs.status)
        assert mine.objective == pytest.approx(theirs.objective, rel=1e-9)
        assert mine.residual == pytest.approx(theirs.residual, rel=1e-3, abs=1e-6)
        namespaces.assert_same(mine.singular_values, theirs.singular_values, place, rtol=1e-5)
        namespaces.assert_same(mine.coef, theirs.coef, place, rtol=1e-5)
        namespaces.assert_same(mine.intercept, theirs.intercept, place, rtol=1e-5)
    namespaces.assert_same(ridge.coefs, coefs, place)
    namespaces.assert_same(ridge.intercepts, intercepts, place)
