"""The problem in spectral coordinates against the same quantities in the original ones."""

import numpy as np
import pytest

from lrml.core.arrays import namespace
from lrml.core.moments import Statistics
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem
from namespaces import assert_same, moved


def make(n, d, n_labels, ridge=0.0, seed=0, rank=None):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) if rank is None else rng.normal(size=(n, rank)) @ rng.normal(size=(rank, d))
    Y = (rng.random((n, n_labels)) < 0.3).astype(float)
    moments = Statistics.from_arrays(X, Y).moments(fit_intercept=False)
    return X, Y, SpectralProblem.from_moments(moments, ridge)


def original(problem, W):
    """W in the coordinates of X and Y."""
    xp = namespace(W)
    U, _, V = problem.restored((W, None, xp.eye(problem.shape[1], dtype=W.dtype, device=W.device)))
    return U @ V.T


SHAPES = [(40, 6, 4), (40, 6, 15), (10, 25, 4), (10, 25, 40), (30, 5, 5), (8, 1, 3), (9, 3, 1)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("ridge", [0.0, 2.5])
def test_everything_is_that_of_the_original_coordinates(shape, ridge):
    X, Y, problem = make(*shape, ridge=ridge)
    rows, d = np.linalg.matrix_rank(X), X.shape[1]
    assert problem.shape == (rows, min(rows, Y.shape[1]))  # as small as they can be
    compact = np.random.default_rng(1).normal(size=problem.shape)
    W = original(problem, compact)
    assert W.shape == (d, Y.shape[1])
    np.testing.assert_allclose(problem.compress(problem.features.T @ W), compact, atol=1e-10)
    ours = np.linalg.svd(compact, compute_uv=False)
    np.testing.assert_allclose(ours, np.linalg.svd(W, compute_uv=False)[: len(ours)], atol=1e-10)

    assert problem.value(compact) == pytest.approx(np.sum((Y - X @ W) ** 2) + ridge * np.sum(W**2))
    gradient = 2 * X.T @ (X @ W - Y) + 2 * ridge * W
    np.testing.assert_allclose(
        problem.gradient(compact), problem.compress(problem.features.T @ gradient), atol=1e-9
    )
    assert problem.lipschitz == pytest.approx(2 * np.linalg.norm(X, 2) ** 2 + 2 * ridge)
    assert problem.scale == pytest.approx(np.linalg.norm(2 * X.T @ Y))
    assert problem.target == pytest.approx(np.sum(Y**2))
    assert 0 < problem.least < 1e-12 * problem.target

    for extra in (0.0, 4.0):  # with more of a ridge, as if it were another problem
        root = np.sqrt(ridge + extra) * np.eye(d)
        stacked = np.vstack([X, root]), np.vstack([Y, np.zeros((d, Y.shape[1]))])
        best, *_ = np.linalg.lstsq(*stacked, rcond=None)
        other = problem.with_ridge(ridge + extra)
        for found in (problem.ridge_solution(extra), other.ridge_solution()):
            np.testing.assert_allclose(original(problem, found), best, atol=1e-8)
        # ½⟨∇f, H⁻¹∇f⟩ is the whole gap f(W) − min f of a quadratic.
        gap = other.value(compact) - np.sum((stacked[1] - stacked[0] @ best) ** 2)
        assert other.measures(compact, other.gradient(compact))[1] == pytest.approx(gap)


@pytest.mark.parametrize("rank", [0, 1, 3, 4, 9])
@pytest.mark.parametrize("shape", [(60, 8, 4), (60, 5, 9)], ids=str)
def test_reduced_rank_solution_is_eckart_young_on_the_predictions(shape, rank):
    X, Y, problem = make(*shape)
    W, value = problem.reduced_rank_solution(rank)
    predictions = X @ np.linalg.lstsq(X, Y, rcond=None)[0]
    U, s, Vt = np.linalg.svd(predictions, full_matrices=False)
    best = (U[:, :rank] * s[:rank]) @ Vt[:rank]
    np.testing.assert_allclose(X @ original(problem, W), best, atol=1e-9)
    assert value == pytest.approx(np.sum((Y - best) ** 2))
    left, right, d, kept = problem.penalised_predictions(TailSum(0, 0.0, max_rank=rank))
    np.testing.assert_allclose(left @ right.T, W, atol=1e-12)
    np.testing.assert_allclose(right.T @ right, np.eye(len(d)), atol=1e-12)
    np.testing.assert_array_equal(d, kept)
    assert problem.target - np.sum(d**2) == pytest.approx(value)
    slope = np.linalg.norm(2 * X.T @ (X @ original(problem, W) - Y), 2)
    assert problem.strongest_slopes([rank, 99]) == pytest.approx([slope, 0.0], abs=1e-9)


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


@pytest.mark.parametrize("share", [0.001, 0.5, 0.999])
@pytest.mark.parametrize("spread", [0.0, 6.0])
def test_ridge_that_leaves_a_share_of_the_directions(share, spread):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(50, 8)) * np.geomspace(1, 10.0**-spread, 8)
    moments = Statistics.from_arrays(X, rng.normal(size=(50, 3))).moments(fit_intercept=False)
    problem = SpectralProblem.from_moments(moments, ridge=1e-14)
    eigenvalues = np.linalg.svd(X, compute_uv=False) ** 2
    ridge = problem.ridge_leaving(share)
    lower, upper = (np.mean(eigenvalues / (eigenvalues + ridge * f)) for f in (1.001, 0.999))
    assert lower <= share <= upper


@pytest.mark.parametrize(
    ("intercept", "n_labels", "mean", "unit"),
    [(False, 3, 0.0, 1.0), (True, 20, 5.0, 1e-6), (False, 20, 5.0, 1e-6), (True, 3, 5.0, 1.0)],
)
def test_features_of_all_scales_are_solved_as_those_of_one(intercept, n_labels, mean, unit):
    """Least squares does not mind scales: the coefficients are those of the unscaled features, divided."""
    rng = np.random.default_rng(5)
    X, Y = rng.normal(size=(60, 7)) + mean, rng.normal(size=(60, n_labels))
    scales = unit * 10.0 ** np.array([-4, -3, -1, 0, 1, 3, 4])
    moments = Statistics.from_arrays(X * scales, Y).moments(fit_intercept=intercept)
    problem = SpectralProblem.from_moments(moments)
    assert problem.shape == (7, min(7, n_labels))
    found = original(problem, problem.ridge_solution())
    if intercept:
        X, Y = X - X.mean(axis=0), Y - Y.mean(axis=0)
    expected = np.linalg.lstsq(X, Y, rcond=None)[0]
    np.testing.assert_allclose(found * scales[:, None], expected, atol=1e-6)
    _, value = problem.reduced_rank_solution(7)
    assert value == pytest.approx(np.sum((Y - X @ expected) ** 2), rel=1e-8)
    eigenvalues = problem.curvature
    assert eigenvalues[0] == pytest.approx(np.linalg.norm(X * scales, 2) ** 2)
    # The product of the eigenvalues is the determinant, to which the scales contribute exactly.
    _, logarithm = np.linalg.slogdet(X.T @ X)
    assert np.sum(np.log(eigenvalues)) == pytest.approx(logarithm + 2 * np.sum(np.log(scales)), abs=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_directions_that_add_nothing_are_dropped_at_all_scales(intercept):
    """A copy of a column, a constant one, and means that lie in the space of the others."""
    rng = np.random.default_rng(6)
    scaled, Y = rng.normal(size=(50, 4)) + 2.0, rng.normal(size=(50, 2))
    constant = np.full(50, 3.0 if intercept else 0.0)
    X = np.column_stack([scaled * np.array([1e6, 1.0, 1e-3, 1.0]), constant, scaled[:, 1]])
    moments = Statistics.from_arrays(X, Y).moments(fit_intercept=intercept)
    problem = SpectralProblem.from_moments(moments)
    assert problem.shape == (4, 2)
    W = original(problem, problem.ridge_solution())
    np.testing.assert_allclose(W[4], 0, atol=1e-12 * np.max(np.abs(W)))
    np.testing.assert_allclose(W[1], W[5], rtol=1e-6)  # the solution of smallest norm shares alike
    if intercept:
        X, Y, scaled = X - X.mean(axis=0), Y - Y.mean(axis=0), scaled - scaled.mean(axis=0)
    np.testing.assert_allclose(X @ W, scaled @ np.linalg.lstsq(scaled, Y, rcond=None)[0], atol=1e-6)


def test_constant_features_keep_one_direction_and_leave_nothing_to_learn(place):
    moments = Statistics.from_arrays(np.full((9, 3), 0.1), np.eye(9)[:, :2]).moments()
    problem = SpectralProblem.from_moments(moved(place, moments))
    assert problem.scale == 1.0
    assert_same(problem.curvature, [1.0], place)
    assert_same(problem.ridge_solution(), [[0.0]], place)
    assert_same(problem.features, np.zeros((3, 1)), place)
    assert_same(original(problem, problem.ridge_solution()), np.zeros((3, 2)), place)
