"""Paths: all points once, each as good as a fit, whatever the number of threads."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import contracts
from contracts import make_problem
from lrml.core.penalties import MCP, TailSum
from lrml.solvers import Status, solve, solve_path
from namespaces import assert_same, moved


def path(points, **how):
    found = solve_path(points, lambda index, point: (index, point), **{"tol": 1e-12, "max_iter": 5000} | how)
    assert [index for index, _ in found] == list(range(len(points)))
    return [point for _, point in found]


def matrix(point):
    left, right = point.regressions.sides
    return left if right is None else left @ right.T


def value(problem, penalty, W):
    s = np.linalg.svd(W, compute_uv=False)
    return problem.value(W) + penalty.value(s * (s > 1e-9))


def alphas_of(problem, theta, count=7, ratio=1e-3):
    return problem.strongest_slopes([theta])[0] * np.geomspace(1, ratio, count)


@pytest.mark.parametrize(("theta", "max_rank"), [(0, None), (2, None), (5, None), (0, 3), (1, 3)])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("tol", [1e-4, 1e-12])
def test_contract(theta, max_rank, ridge, tol):
    """Stationary, factored as ridge regressions, and ended as a fit ends, from both limits."""
    problem = make_problem(ridge=ridge)
    alphas = np.random.default_rng(0).permutation([*alphas_of(problem, theta), 0.0])
    for alpha, found in zip(
        alphas, path([(problem, TailSum(theta, a, max_rank=max_rank)) for a in alphas], tol=tol), strict=True
    ):
        penalty, W = TailSum(theta, alpha, max_rank=max_rank), matrix(found)
        assert (found.penalty, found.problem) == (penalty, problem)
        assert found.objective == pytest.approx(value(problem, penalty, W), rel=1e-9)
        one = found.regressions
        shifts = problem.curvature[:, None] + (0.0 if one.extra is None else one.extra)
        targets = problem.cross if one.right is None else problem.cross @ one.right
        assert_allclose(one.left, targets / shifts, atol=1e-4 if tol == 1e-12 else 0.2)
        if alpha == 0.0:
            assert (found.status, found.n_steps, found.gap) == (Status.EXACT, 0, 0.0)
            assert_allclose(W, problem.reduced_rank_solution(max_rank or 99)[0], rtol=1e-9)
            continue
        assert found.status in (Status.CONVERGED, Status.SETTLED)
        assert (found.gap <= tol) == (found.status is Status.CONVERGED)
        assert_allclose(one.right.T @ one.right, np.eye(len(found.sigma)), atol=1e-9)
        assert_allclose(np.linalg.norm(one.left, axis=0), found.sigma, rtol=1e-6)
        assert np.all(np.diff(found.sigma) <= 0)
        if tol == 1e-12:
            assert contracts.residual_by_svd(problem, penalty, W) <= 1e-6


@pytest.mark.parametrize("theta", [0, 2, 5])
def test_no_point_is_worse_than_the_limit(theta):
    """The least-squares solution of rank theta pays no penalty."""
    problem = make_problem(seed=4, decay=2)
    for share in (1e-4, 0.1, 0.9, 3.0):
        penalty = TailSum(theta, share * alphas_of(problem, theta)[0])
        (found,) = path([(problem, penalty)], tol=1e-3)
        assert found.objective <= problem.reduced_rank_solution(theta)[1] * (1 + 1e-12)


def test_a_warm_start_saves_steps_and_their_limit_holds():
    problem = make_problem(n=100, d=20, n_labels=12)
    points = [(problem, TailSum(3, alpha)) for alpha in alphas_of(problem, 3, 12, 1e-2)]
    warm = sum(found.n_steps for found in path(points, tol=1e-8))
    assert warm < sum(path([point], tol=1e-8)[0].n_steps for point in points)
    for found in path(points[2:9], tol=0.0, max_iter=1):
        assert (found.status, found.n_steps) == (Status.MAX_ITER, 1)


@pytest.mark.parametrize("penalty", [TailSum(2, 3.0), TailSum(0, 0.0, max_rank=2), MCP(2.0)], ids=str)
def test_predictions_have_a_closed_form(penalty):
    """Against random rivals, and the outcome of a fit."""
    problem = make_problem(ridge=0.5)
    (found,) = path([(problem, penalty)], space="predictions")
    W, random, root = matrix(found), np.random.default_rng(0), np.sqrt(problem.curvature)[:, None]

    def objective(W):
        s = np.linalg.svd(root * W, compute_uv=False)
        return problem.value(W) + penalty.value(s * (s > 1e-9))

    assert found.objective == pytest.approx(objective(W), rel=1e-9)
    assert_allclose(found.sigma, np.linalg.svd(root * W)[1][: len(found.sigma)], atol=1e-9)
    for scale in (1e-4, 1e-2, 1.0):
        for _ in range(30):
            assert found.objective <= objective(W + scale * random.standard_normal(W.shape)) + 1e-9
    fit = solve(problem, penalty, space="predictions")
    assert (fit.status, fit.n_iter) == (Status.EXACT, 0)
    assert fit.objective == pytest.approx(found.objective, rel=1e-9)
    assert_allclose(fit.solution, W, atol=1e-9)


def test_a_path_is_the_same_in_every_place(place):
    here = make_problem(ridge=0.1)
    there = moved(place, here)
    penalties = [TailSum(2, alpha) for alpha in (*alphas_of(here, 2, 3, 0.02), 0.0)]
    found = path([(there, penalty) for penalty in penalties], max_iter=500)
    for one, other in zip(found, path([(here, penalty) for penalty in penalties], max_iter=500), strict=True):
        assert_same(matrix(one), matrix(other), place, rtol=1e-5)
        if one.sigma is not None:
            assert_allclose(one.sigma, other.sigma, rtol=1e-5, atol=1e-9)
        assert one.objective == pytest.approx(other.objective, rel=1e-10)
        assert one.status is other.status
