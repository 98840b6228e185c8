"""The problem in spectral coordinates against the same quantities in the original ones."""

from dataclasses import replace

import numpy as np
import pytest

from lrml.core.arrays import namespace, to_numpy
from lrml.core.moments import Statistics
from lrml.core.penalties import TraceNorm
from lrml.core.quadratic import SpectralProblem
from namespaces import assert_same, moved, put


def make(n, d, n_labels, ridge=0.0, seed=0, rank=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) if rank is None else rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d))
    Y = (rng.random((n, n_labels)) < 0.3).astype(float)
    return X, Y, SpectralProblem.from_moments(Statistics.from_arrays(X, Y).uncentered(), ridge)


SHAPES = [(40, 6, 4), (40, 6, 15), (10, 25, 4), (10, 25, 40), (30, 5, 5), (8, 1, 3), (9, 3, 1)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("ridge", [0.0, 2.5])
def test_value_gradient_and_singular_values_survive_the_change_of_coordinates(shape, ridge):
    X, Y, problem = make(*shape, ridge=ridge)
    rng = np.random.default_rng(1)
    compact = rng.normal(size=problem.shape)
    U, V = problem.restore(compact, np.eye(problem.shape[1]))
    W = U @ V.T
    assert W.shape == (X.shape[1], Y.shape[1])
    assert problem.value(compact) == pytest.approx(np.sum((Y - X @ W) ** 2) + ridge * np.sum(W**2))
    gradient = 2 * X.T @ (X @ W - Y) + 2 * ridge * W
    np.testing.assert_allclose(problem.gradient(compact), problem.compress(gradient), atol=1e-9)
    np.testing.assert_allclose(problem.compress(W), compact, atol=1e-10)
    ours = np.linalg.svd(compact, compute_uv=False)
    np.testing.assert_allclose(ours, np.linalg.svd(W, compute_uv=False)[: len(ours)], atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_coordinates_are_as_small_as_they_can_be(shape):
    X, Y, problem = make(*shape)
    rows = np.linalg.matrix_rank(X)
    assert problem.shape == (rows, min(rows, Y.shape[1]))
    assert problem.lipschitz == pytest.approx(2 * np.linalg.norm(X, 2) ** 2)
    assert problem.scale == pytest.approx(np.linalg.norm(2 * X.T @ Y))
    assert problem.scale > 1e-3


def test_directions_without_variance_are_dropped():
    X, Y, problem = make(50, 12, 4, rank=5)
    assert problem.shape == (5, 4)
    expected, *_ = np.linalg.lstsq(X, Y, rcond=1e-10)
    U, V = problem.restore(problem.ridge_solution(), np.eye(4))
    np.testing.assert_allclose(U @ V.T, expected, atol=1e-8)


@pytest.mark.parametrize("rank", [0, 1, 3, 4])
@pytest.mark.parametrize("shape", [(60, 8, 4), (60, 5, 9)], ids=str)
def test_reduced_rank_solution_is_eckart_young_on_the_predictions(shape, rank):
    X, Y, problem = make(*shape)
    W, value = problem.reduced_rank_solution(rank)
    predictions = X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    U, s, Vt = np.linalg.svd(predictions, full_matrices=False)
    best = (U[:, :rank] * s[:rank]) @ Vt[:rank]
    left, right = problem.restore(W, np.eye(problem.shape[1]))
    np.testing.assert_allclose(X @ left @ right.T, best, atol=1e-9)
    assert value == pytest.approx(np.sum((Y - best) ** 2))
    left, right, gains = problem.reduced_rank_factors()
    np.testing.assert_allclose(left[:, :rank] @ right[:, :rank].T, W, atol=1e-12)
    np.testing.assert_allclose(right.T @ right, np.eye(problem.shape[1]), atol=1e-12)
    assert problem.target - gains[:rank].sum() == pytest.approx(value)


def test_with_ridge_equals_starting_over():
    X, Y, problem = make(40, 6, 4, ridge=1.0)
    other = problem.with_ridge(3.0)
    expected = np.linalg.solve(X.T @ X + 3.0 * np.eye(6), X.T @ Y)
    U, V = other.restore(other.ridge_solution(), np.eye(4))
    np.testing.assert_allclose(U @ V.T, expected, atol=1e-10)


def test_constant_features_leave_nothing_to_learn():
    moments = Statistics.from_arrays(np.full((9, 3), 0.1), np.eye(9)[:, :2]).centered()
    problem = SpectralProblem.from_moments(moments)
    assert problem.shape == (1, 1)
    assert np.all(problem.ridge_solution() == 0)
    assert problem.scale == 1.0
    np.testing.assert_array_equal(problem.curvature, [1.0])
    U, V = problem.restore(problem.ridge_solution(), np.eye(1))
    np.testing.assert_array_equal(U @ V.T, np.zeros((3, 2)))


@pytest.mark.parametrize("shape", [(40, 6, 4), (40, 6, 15), (10, 25, 4)], ids=str)
def test_gap_bound_is_exact_for_the_smooth_part(shape):
    """½⟨∇f, H⁻¹∇f⟩ is the whole gap f(W) − min f of a quadratic."""
    X, Y, problem = make(*shape, ridge=1.5)
    W = np.random.default_rng(1).normal(size=problem.shape)
    root = np.sqrt(1.5)
    stacked = np.vstack([X, root * np.eye(X.shape[1])]), np.vstack([Y, np.zeros((X.shape[1], Y.shape[1]))])
    best = stacked[0] @ np.linalg.lstsq(*stacked, rcond=None)[0]
    gap = problem.value(W) - np.sum((stacked[1] - best) ** 2)
    assert problem.decrement(problem.gradient(W)) == pytest.approx(gap)


@pytest.mark.parametrize("shape", [(40, 6, 4), (10, 25, 40)], ids=str)
def test_solves_on_one_side_are_stationary_and_report_their_minimum(shape):
    """∇f(R Vᵀ) V + 2 R diag(w) = 0 and Uᵀ∇f(U K) + 2 diag(w) K = 0."""
    _, _, problem = make(*shape, ridge=0.5)
    rng = np.random.default_rng(2)
    weights = np.array([0.0, 3.0, 0.7])
    U, V = (np.linalg.qr(rng.normal(size=(size, 3)))[0] for size in problem.shape)
    R, least = problem.solve_left(V, weights)
    np.testing.assert_allclose(problem.gradient(R @ V.T) @ V, -2 * R * weights, atol=1e-9)
    assert least == pytest.approx(problem.value(R @ V.T) + np.sum(weights * R**2))
    K = problem.solve_right(U, weights)
    np.testing.assert_allclose(U.T @ problem.gradient(U @ K), -2 * weights[:, None] * K, atol=1e-9)


def test_steps_means_and_further_ridges():
    X, Y, problem = make(40, 6, 4, ridge=1.0)
    W = np.random.default_rng(3).normal(size=problem.shape)
    scale, shift = problem.gradient_step(7.0)
    np.testing.assert_allclose(scale * W + shift, W - problem.gradient(W) / 7.0, atol=1e-12)
    left, s, right = np.linalg.svd(W, full_matrices=False)
    expected = (left * np.maximum(s - 0.3 * 2.0, 0)) @ right
    np.testing.assert_allclose(problem.prox(W, TraceNorm(2.0), 0.3).matrix, expected, atol=1e-10)
    assert problem.mean_curvature == pytest.approx(2 * np.trace(X.T @ X + np.eye(6)) / 6)
    U, V = problem.restore(problem.ridge_solution(extra=4.0), np.eye(4))
    np.testing.assert_allclose(U @ V.T, np.linalg.solve(X.T @ X + 5 * np.eye(6), X.T @ Y), atol=1e-10)


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("spread", [0.0, 6.0])
def test_ridge_that_leaves_a_share_of_the_directions(share, spread):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(50, 8)) * np.geomspace(1, 10.0**-spread, 8)
    moments = Statistics.from_arrays(X, rng.normal(size=(50, 3))).uncentered()
    problem = SpectralProblem.from_moments(moments, ridge=1e-14)
    eigenvalues = np.linalg.svd(X, compute_uv=False) ** 2
    ridge = problem.ridge_leaving(share)
    lower, upper = (np.mean(eigenvalues / (eigenvalues + ridge * f)) for f in (1.001, 0.999))
    assert lower <= share <= upper


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("n_labels", [3, 20])
@pytest.mark.parametrize("mean", [0.0, 5.0])
@pytest.mark.parametrize("unit", [1.0, 1e-6])
def test_features_of_all_scales_are_solved_as_those_of_one(intercept, n_labels, mean, unit):
    """Least squares does not mind scales: the coefficients are those of the unscaled features, divided."""
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(60, 7)) + mean, rng.normal(size=(60, n_labels))
    scales = unit * 10.0 ** np.array([-4, -3, -1, 0, 1, 3, 4])
    moments = Statistics.from_arrays(X * scales, Y).moments(fit_intercept=intercept)
    problem = SpectralProblem.from_moments(moments)
    assert problem.shape == (7, min(7, n_labels))
    U, V = problem.restore(problem.ridge_solution(), np.eye(problem.shape[1]))
    if intercept:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    expected = np.linalg.lstsq(X, Y, rcond=None)[0]
    np.testing.assert_allclose((U @ V.T) * scales[:, None], expected, atol=1e-6)
    _, value = problem.reduced_rank_solution(7)
    assert value == pytest.approx(np.sum((Y - X @ expected) ** 2), rel=1e-8)
    eigenvalues = problem.curvature
    assert eigenvalues[0] == pytest.approx(np.linalg.norm(X * scales, 2) ** 2)
    # The product of the eigenvalues is the determinant, to which the scales contribute exactly.
    _, logarithm = np.linalg.slogdet(X.T @ X)
    assert np.sum(np.log(eigenvalues)) == pytest.approx(logarithm + 2 * np.sum(np.log(scales)), abs=1e-6)


def test_directions_without_variance_are_dropped_at_all_scales():
    """A constant column and a copy of another one, beside columns of very different lengths."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(50, 4)) * np.array([1e6, 1.0, 1e-3, 1.0])
    X = np.column_stack([X, np.full(50, 3.0), X[:, 1]])
    Y = rng.normal(size=(50, 2))
    problem = SpectralProblem.from_moments(Statistics.from_arrays(X, Y).centered())
    assert problem.shape == (4, 2)
    U, V = problem.restore(problem.ridge_solution(), np.eye(2))
    W = U @ V.T
    np.testing.assert_allclose(W[4], 0, atol=1e-12 * np.max(np.abs(W)))
    np.testing.assert_allclose(W[1], W[5], rtol=1e-8)  # the solution of smallest norm shares alike
    X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    scaled = X[:, :4] / np.array([1e6, 1.0, 1e-3, 1.0])
    np.testing.assert_allclose(X @ W, scaled @ np.linalg.lstsq(scaled, Y, rcond=None)[0], atol=1e-8)


@pytest.mark.parametrize("mean", [1e7, -1e7])
def test_a_large_mean_without_an_intercept_does_not_drown_the_rest(mean):
    """XᵀX would hold their squares of 1e14, beside which what the features vary by is rounding."""
    rng = np.random.default_rng(9)
    X, Y = rng.normal(size=(50, 3)), rng.normal(size=(50, 2))
    X += mean * np.array([1.0, 2.0, -1.0])
    problem = SpectralProblem.from_moments(Statistics.from_arrays(X, Y).uncentered())
    assert problem.shape == (3, 2)
    U, V = problem.restore(problem.ridge_solution(), np.eye(2))
    np.testing.assert_allclose(U @ V.T, np.linalg.lstsq(X, Y, rcond=None)[0], atol=1e-6)


def test_a_mean_that_adds_no_direction_is_no_direction_at_all_scales():
    """Raw moments add the means to the centred ones; where these lie in the same space, nothing is new."""
    rng = np.random.default_rng(8)
    scales = np.array([1e6, 1.0, 1e-3, 1.0])
    X = rng.normal(size=(50, 4)) + 2.0
    scaled = np.column_stack([X * scales, X[:, 1]])
    Y = rng.normal(size=(50, 2))
    problem = SpectralProblem.from_moments(Statistics.from_arrays(scaled, Y).uncentered())
    assert problem.shape == (4, 2)
    U, V = problem.restore(problem.ridge_solution(), np.eye(2))
    np.testing.assert_allclose(scaled @ (U @ V.T), X @ np.linalg.lstsq(X, Y, rcond=None)[0], atol=1e-6)


def test_targets_that_are_zero_leave_units_to_divide_by():
    X = np.random.default_rng(7).normal(size=(10, 3))
    problem = SpectralProblem.from_moments(Statistics.from_arrays(X, np.zeros((10, 2))).uncentered())
    assert problem.scale == problem.least == 1.0
    assert problem.target == 0
    _, Y, problem = make(40, 6, 4)
    assert problem.target == pytest.approx(np.sum(Y**2))
    assert 0 < problem.least < 1e-12 * problem.target


def solution(problem, rank):
    """Factors in the original coordinates of the best matrix of a rank, or of a ridge solution."""
    W = problem.ridge_solution(0.1) if rank is None else problem.reduced_rank_solution(rank)[0]
    eye = namespace(W).eye(problem.shape[1], dtype=W.dtype, device=W.device)
    return problem.restore(W, eye)


@pytest.mark.parametrize("shape", [(40, 6, 4), (40, 6, 15), (10, 25, 4)], ids=str)
def test_every_place_has_numpys_coordinates(place, shape):
    """A decomposition leaves the signs of its vectors open, not the solutions and values that follow."""
    rng = np.random.default_rng(3)
    n, d, n_labels = shape
    X, Y = rng.normal(size=(n, d)) + 1.0, (rng.random((n, n_labels)) < 0.3).astype(float)
    for scales in (np.ones(d), np.geomspace(1, 1e5, d)):  # the second is decomposed by its root
        for moments in (sums := Statistics.from_arrays(X * scales, Y)).centered(), sums.uncentered():
            expected = SpectralProblem.from_moments(moments, ridge=0.7)
            found = SpectralProblem.from_moments(moved(place, moments), ridge=0.7)
            assert_same(found.curvature, expected.curvature, place, rtol=1e-10)
            assert found.shape == expected.shape
            assert found.target == pytest.approx(expected.target)
            for rank in (None, 2):
                (U, V), (left, right) = (solution(problem, rank) for problem in (found, expected))
                assert_same(U @ V.T, left @ right.T, place, rtol=1e-8)
                compressed = to_numpy(found.compress(U @ V.T))
                np.testing.assert_allclose(abs(compressed), abs(expected.compress(left @ right.T)), atol=1e-8)
            assert found.strongest_slopes([0, 2]) == pytest.approx(expected.strongest_slopes([0, 2]))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_every_place_computes_as_numpy_does(place, dtype):
    """In the same coordinates, so that every number is the same."""
    rtol = 1e-11 if dtype == "float64" else 1e-4
    expected = make(40, 6, 15, ridge=0.5)[-1]
    parts = {name: getattr(expected, name).astype(dtype) for name in ("rows", "cross", "features", "labels")}
    found = moved(place, replace(expected, **parts))
    rng = np.random.default_rng(4)
    W, weights = rng.normal(size=expected.shape).astype(dtype), np.array([0.0, 3.0, 0.7], dtype=dtype)
    U, V = (np.linalg.qr(rng.normal(size=(size, 3)))[0].astype(dtype) for size in expected.shape)
    there, w, left, right = (put(place, array) for array in (W, weights, U, V))

    def same(one, other):
        if isinstance(one, tuple):
            for mine, theirs in zip(one, other, strict=True):
                same(mine, theirs)
        elif isinstance(one, float):
            assert one == pytest.approx(other, rel=rtol)
        else:
            assert_same(one, other, place, dtype, rtol)

    same(found.value(there), expected.value(W))
    same(found.decrement(there), expected.decrement(W))
    same(found.gradient(there), expected.gradient(W))
    same(found.gradient_step(7.0), expected.gradient_step(7.0))
    same(found.ridge_solution(2.0), expected.ridge_solution(2.0))
    same(found.solve_left(right, w), expected.solve_left(V, weights))
    same(found.solve_right(left, w), expected.solve_right(U, weights))
    same(found.prox(there, TraceNorm(2.0), 0.3), expected.prox(W, TraceNorm(2.0), 0.3))
    same(found.restore(left, right), expected.restore(U, V))
    same(found.with_ridge(2.0).ridge_solution(), expected.with_ridge(2.0).ridge_solution())
    for name in ("lipschitz", "mean_curvature", "scale"):
        same(getattr(found, name), getattr(expected, name))
    same(found.ridge_leaving(0.3), expected.ridge_leaving(0.3))


def test_every_place_keeps_one_direction_of_constant_features(place):
    moments = Statistics.from_arrays(np.full((9, 3), 0.1), np.eye(9)[:, :2]).centered()
    problem = SpectralProblem.from_moments(moved(place, moments))
    assert_same(problem.curvature, [1.0], place)
    assert_same(problem.ridge_solution(), [[0.0]], place)
    assert_same(problem.features, np.zeros((3, 1)), place)


@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_curvatures_of_one_are_none(place, ridge):
    """Equal curvatures take the road of squares, which has closed forms of its own."""
    rng = np.random.default_rng(0)
    rows, cross = np.sort(rng.uniform(0.5, 9.0, 8))[::-1].copy(), rng.standard_normal((8, 5))
    V, U = (np.linalg.qr(rng.standard_normal((size, 3)))[0] for size in (5, 8))
    given = np.array([0.1, 1.0, 2.0]), rng.standard_normal((8, 5)), V, U
    weights, W, V, U = (put(place, part) for part in given)
    plain = SpectralProblem(put(place, rows), put(place, cross), 3.0, ridge=ridge)
    equal = replace(plain, columns=put(place, np.ones(5)))
    for found, expected in (
        (equal.gradient(W), plain.gradient(W)),
        (equal.solve_left(V, weights)[0], plain.solve_left(V, weights)[0]),
        (equal.solve_right(U, weights), plain.solve_right(U, weights)),
        (equal.ridge_solution(0.3), plain.ridge_solution(0.3)),
    ):
        assert_same(found, to_numpy(expected), place, rtol=1e-12)
    for name, arguments in (("value", (W,)), ("decrement", (W,))):
        assert getattr(equal, name)(*arguments) == pytest.approx(getattr(plain, name)(*arguments), rel=1e-13)
    assert equal.solve_left(V, weights)[1] == pytest.approx(plain.solve_left(V, weights)[1], rel=1e-13)
    assert (equal.lipschitz, equal.mean_curvature) == pytest.approx((plain.lipschitz, plain.mean_curvature))


@pytest.mark.parametrize("rank", [0, 2, 4, 9])
def test_best_of_rank(rank):
    """No limit is ridge regression; another one is Eckart and Young's."""
    _, _, problem = make(40, 6, 4, ridge=0.5)
    expected = problem.ridge_solution() if rank >= 4 else problem.reduced_rank_solution(rank)[0]
    np.testing.assert_allclose(problem.best_of_rank(rank), expected, atol=1e-12)
