"""Chains of warm starts: all points once, each stationary, in the order of the chains."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from threadpoolctl import threadpool_limits

import contracts
import lrml.solvers.alternating
from contracts import make_problem
from lrml.core.penalties import TailSum
from lrml.solvers import Chain, Status, alpha_max, chains_for, solve_chain, solve_chains
from namespaces import assert_same, moved

DOWN, UP = "reduced rank", "least squares"


def matrix(found):
    return found.left @ found.right.T


def value(problem, penalty, W):
    return problem.value(W) + penalty.value(np.linalg.svd(W, compute_uv=False))


def solved(problem, theta, alphas, begin=DOWN, tol=1e-12, max_iter=5000):
    """The points of a chain by their alphas."""
    chain = Chain(theta, tuple(alphas), tuple(alphas), begin)
    return dict(solve_chain(problem, chain, tol=tol, max_iter=max_iter))


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=30, unique=True))
def test_two_chains_cover_all_alphas_once_and_meet_in_the_middle(alphas):
    alphas = sorted(alphas, reverse=True)
    keys = [f"key of {alpha}" for alpha in alphas]
    chains = chains_for(3, alphas, keys)
    found = {key: alpha for chain in chains for alpha, key in zip(chain.alphas, chain.keys, strict=True)}
    assert found == dict(zip(keys, alphas, strict=True))
    assert [(chain.theta, chain.begin) for chain in chains] == [(3, DOWN), (3, UP)][: len(alphas)]
    down, up = chains[0].alphas, chains[1].alphas if len(alphas) > 1 else ()
    assert [*down, *up[::-1]] == alphas
    assert 0 <= len(down) - len(up) <= 1


@pytest.mark.parametrize("theta", [0, 2, 5])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("begin", [DOWN, UP])
@pytest.mark.parametrize("tol", [1e-4, 1e-12])
def test_contract(theta, ridge, begin, tol):
    """In the order of the chain; each stationary, factored, and ended as a fit ends."""
    problem = make_problem(ridge=ridge)
    alphas = [*(alpha_max(problem, theta) * np.geomspace(1, 1e-3, 7)), 0.0]
    alphas = alphas if begin == DOWN else alphas[::-1]
    points = solved(problem, theta, alphas, begin, tol)
    assert list(points) == alphas
    least_squares = points.pop(0.0)
    assert_allclose(matrix(least_squares), problem.cross / problem.curvature[:, None], rtol=1e-9)
    assert (least_squares.status, least_squares.n_steps) == (Status.EXACT, 0)
    for alpha, found in points.items():
        penalty, W = TailSum(theta, alpha), matrix(found)
        assert (found.penalty, found.problem) == (penalty, problem)
        assert found.status in (Status.CONVERGED, Status.SETTLED)
        assert (found.gap <= tol) == (found.status is Status.CONVERGED)
        assert found.objective == pytest.approx(value(problem, penalty, W), rel=1e-9)
        if tol == 1e-12:
            assert contracts.residual_by_svd(problem, penalty, W) <= 1e-6
        scale = found.sigma.max(initial=1)
        assert_allclose(found.left.T @ found.left, np.diag(found.sigma**2), atol=1e-9 * scale)
        assert_allclose(found.right.T @ found.right, np.eye(len(found.sigma)), atol=1e-9)
        assert np.all(np.diff(found.sigma) <= 0)
        assert np.all(found.sigma > 0)


@pytest.mark.parametrize("theta", [0, 2, 5])
@pytest.mark.parametrize("share", [1e-4, 0.1, 0.9, 3.0])
def test_no_point_is_worse_than_where_its_chain_begins(theta, share):
    """At the least-squares solution of rank theta, or at a ridge solution with the ridge alpha, if small."""
    problem = make_problem(seed=4, decay=2)
    penalty = TailSum(theta, share * alpha_max(problem, theta))
    extra = min(penalty.alpha, 0.05 * 2 * np.mean(problem.curvature))
    starts = {
        DOWN: problem.reduced_rank_solution(theta)[1],
        UP: value(problem, penalty, problem.cross / (problem.curvature[:, None] + extra)),
    }
    for begin, limit in starts.items():
        for tol in (1e-1, 1e-3):
            (found,) = solved(problem, theta, [penalty.alpha], begin, tol).values()
            assert found.objective <= limit * (1 + 1e-12)


def test_steps_are_decompositions_and_the_limit_holds(monkeypatch):
    problem, count = make_problem(decay=2), []
    decompose = lrml.solvers.alternating.right_singular
    monkeypatch.setattr(lrml.solvers.alternating, "right_singular", lambda Y: count.append(1) or decompose(Y))
    points = solved(problem, 2, (1.0, 0.3, 0.1), tol=1e-10)
    assert sum(found.n_steps for found in points.values()) == len(count)
    # A step that has to raise the curvature decomposes again before it counts.
    most = 1 + math.ceil(math.log2(max(2.0, problem.lipschitz / problem.mean_curvature)))
    for found in solved(problem, 2, (1.0, 0.3, 0.1), tol=0.0, max_iter=1).values():
        assert 1 <= found.n_steps <= most
        assert found.status is Status.MAX_ITER


def test_a_warm_start_saves_decompositions():
    problem = make_problem(n=100, d=20, n_labels=12)
    alphas = alpha_max(problem, 3) * np.geomspace(1, 1e-2, 12)
    warm = sum(found.n_steps for found in solved(problem, 3, alphas, tol=1e-8).values())
    cold = sum(solved(problem, 3, [alpha], tol=1e-8)[alpha].n_steps for alpha in alphas)
    assert warm < cold


@pytest.mark.parametrize("begin", [DOWN, UP, "given"])
def test_a_chain_is_the_same_in_every_place(place, begin):
    here = make_problem(ridge=0.1)
    there = moved(place, here)
    alphas = (*(alpha_max(here, 2) * np.geomspace(0.5, 0.01, 3)), 0.0)
    assert alpha_max(there, 2) == pytest.approx(alpha_max(here, 2), rel=1e-12)
    starts = begin, begin
    if begin == "given":
        left, right, _ = here.reduced_rank_factors(2)
        U, s, Vt = np.linalg.svd(left @ right.T, full_matrices=False)
        starts = (U[:, :2] * s[:2], Vt[:2].T), moved(place, (U[:, :2] * s[:2], Vt[:2].T))
    expected, found = (
        solved(problem, 2, alphas, start, max_iter=500)
        for problem, start in zip((here, there), starts, strict=True)
    )
    for alpha, one in found.items():
        other = expected[alpha]
        assert_same(one.left @ one.right.T, matrix(other), place, rtol=1e-5)
        assert_same(one.sigma, other.sigma, place, rtol=1e-5)
        assert one.objective == pytest.approx(other.objective, rel=1e-10)
        assert one.status is other.status


@pytest.mark.parametrize("threads", [1, 2])
def test_chains_come_in_order_each_on_its_own_problem(threads):
    problems = [make_problem(seed, ridge=0.1 * seed) for seed in range(5)]
    chains = [Chain(2, (4.0, 1.0), ((seed, 4.0), (seed, 1.0)), DOWN) for seed in range(5)]
    how = {"tol": 1e-8, "max_iter": 500}
    with threadpool_limits(threads, user_api="blas"):
        found = list(solve_chains(problems, chains, lambda key, point: (key, matrix(point)), **how))
    assert [[key for key, _ in results] for results in found] == [list(chain.keys) for chain in chains]
    for problem, chain, results in zip(problems, chains, found, strict=True):
        for (_, W), (_, point) in zip(results, solve_chain(problem, chain, **how), strict=True):
            assert_allclose(W, matrix(point), atol=1e-9)
    assert list(solve_chains([], [], lambda key, point: key, **how)) == []
