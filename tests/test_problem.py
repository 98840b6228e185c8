"""The problem in spectral coordinates against the same quantities in the original ones."""

import numpy as np
import pytest

from lrml.problem import SpectralProblem
from lrml.statistics import Statistics


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
