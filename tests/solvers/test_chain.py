"""Chains of warm starts: all points once, each stationary, in the order of the chains."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

import contracts
import lrml.solvers.alternating
from contracts import make_problem
from lrml.core.penalties import TailSum
from lrml.solvers import (
    Alternating,
    Chain,
    Point,
    Status,
    alpha_max,
    chains_for,
    solve,
    solve_chain,
    solve_chains,
)
from namespaces import assert_same, moved

DOWN, UP = "reduced rank", "least squares"


def matrix(found):
    return found.left @ found.right.T


def value(problem, penalty, W):
    return problem.value(W) + penalty.value(np.linalg.svd(W, compute_uv=False))


# Which chains


@given(st.lists(st.floats(0, 1e3), min_size=1, max_size=30, unique=True))
def test_two_chains_cover_all_alphas_once_and_meet_in_the_middle(alphas):
    alphas = sorted(alphas, reverse=True)
    keys = [f"key of {alpha}" for alpha in alphas]
    chains = chains_for(3, alphas, keys)
    found = {key: alpha for chain in chains for alpha, key in zip(chain.alphas, chain.keys, strict=True)}
    assert found == dict(zip(keys, alphas, strict=True))
    assert sum(len(chain.alphas) for chain in chains) == len(alphas)
    assert [chain.begin for chain in chains] == [DOWN, UP][: len(alphas)]
    assert all(chain.theta == 3 for chain in chains)
    down = chains[0].alphas
    up = chains[1].alphas if len(alphas) > 1 else ()
    assert list(down) == sorted(down, reverse=True)
    assert list(up) == sorted(up)
    assert 0 <= len(down) - len(up) <= 1
    assert not up or up[-1] < down[-1]


# One chain


@pytest.mark.parametrize("theta", [0, 2, 5])
@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("begin", [DOWN, UP])
def test_every_point_of_a_chain_is_stationary_and_factored(theta, ridge, begin):
    problem = make_problem(ridge=ridge)
    alphas = alpha_max(problem, theta) * np.geomspace(1, 1e-3, 7)
    chain = Chain(theta, tuple(alphas if begin == DOWN else alphas[::-1]), tuple("abcdefg"), begin)
    points = list(solve_chain(problem, chain, tol=1e-12, max_iter=5000))
    assert [key for key, _ in points] == list("abcdefg")
    for alpha, (_, found) in zip(chain.alphas, points, strict=True):
        penalty, W = TailSum(theta, alpha), matrix(found)
        assert found.objective == pytest.approx(value(problem, penalty, W), rel=1e-9)
        assert found.residual <= 1e-6
        assert found.residual == pytest.approx(
            contracts.residual_by_svd(problem, penalty, W), rel=1e-3, abs=1e-9
        )
        rank = len(found.sigma)
        assert_allclose(
            found.left.T @ found.left, np.diag(found.sigma**2), atol=1e-9 * found.sigma.max(initial=1)
        )
        assert_allclose(found.right.T @ found.right, np.eye(rank), atol=1e-9)
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
            chain = Chain(theta, (penalty.alpha,), (0,), begin)
            ((_, found),) = solve_chain(problem, chain, tol=tol, max_iter=5000)
            assert found.objective <= limit * (1 + 1e-12)


def test_where_the_problem_is_convex_both_directions_end_at_the_optimum():
    problem = make_problem(ridge=0.5)
    alphas = alpha_max(problem, 0) * np.geomspace(0.9, 1e-2, 5)
    down, up = (
        Chain(0, tuple(alphas), tuple(range(5)), DOWN),
        Chain(0, tuple(alphas[::-1]), (4, 3, 2, 1, 0), UP),
    )
    first, second = (dict(solve_chain(problem, chain, tol=1e-20, max_iter=5000)) for chain in (down, up))
    for key, alpha in enumerate(alphas):
        optimum = solve(problem, TailSum(0, alpha), solver="apg", tol=1e-20, max_iter=100_000).solution
        assert_allclose(matrix(first[key]), optimum, atol=1e-8)
        assert_allclose(matrix(second[key]), optimum, atol=1e-8)


@pytest.mark.parametrize(("theta", "alphas"), [(2, (0.0,)), (7, (3.0, 1.0)), (7, (0.0, 2.0))])
def test_where_nothing_is_penalised_the_answer_is_least_squares(theta, alphas):
    problem = make_problem(ridge=0.3)
    expected = problem.cross / problem.curvature[:, None]
    for _, found in solve_chain(problem, Chain(theta, alphas, alphas, UP), tol=1e-3, max_iter=10):
        assert_allclose(matrix(found), expected, atol=1e-12 * np.abs(expected).max())
        assert found.objective == pytest.approx(problem.value(expected), rel=1e-12)
        assert found.residual <= 1e-12
        assert found.n_steps == 0


def test_no_penalty_may_come_first_or_last():
    problem = make_problem()
    forward = dict(solve_chain(problem, Chain(2, (0.0, 1.0), "ab", UP), tol=1e-16, max_iter=5000))
    backward = dict(solve_chain(problem, Chain(2, (1.0, 0.0), "ab", DOWN), tol=1e-16, max_iter=5000))
    assert_array_equal(matrix(forward["a"]), matrix(backward["b"]))
    for found in (forward["b"], backward["a"]):
        assert contracts.residual_by_svd(problem, TailSum(2, 1.0), matrix(found)) <= 2e-8


def test_a_point_of_a_chain_ends_and_is_recorded_as_a_fit_is():
    problem, tol = make_problem(decay=2), 1e-4
    chain = Chain(2, (3.0, 1.0, 0.3), "abc", DOWN)
    for _, found in solve_chain(problem, chain, tol=tol, max_iter=500):
        lines = found.history.as_dict()
        assert found.status in (Status.CONVERGED, Status.SETTLED)
        assert (found.gap <= tol) == (found.status is Status.CONVERGED)
        assert found.objective == lines["objective"][-1]
        assert found.gap == lines["gap"][-1]
        assert len(found.sigma) == lines["rank"][-1]
        assert np.all(np.diff(lines["seconds"]) > 0)
    ((_, stopped),) = solve_chain(problem, Chain(2, (1.0,), "a", DOWN), tol=0.0, max_iter=1)
    assert stopped.status is Status.MAX_ITER


def test_steps_are_decompositions_and_the_limit_holds(monkeypatch):
    problem, count = make_problem(decay=2), []
    decompose = lrml.solvers.alternating.right_singular
    monkeypatch.setattr(lrml.solvers.alternating, "right_singular", lambda Y: count.append(1) or decompose(Y))
    chain = Chain(2, (1.0, 0.3, 0.1), "abc", DOWN)
    points = list(solve_chain(problem, chain, tol=1e-10, max_iter=5000))
    assert sum(found.n_steps for _, found in points) == len(count)
    short = [found.n_steps for _, found in solve_chain(problem, chain, tol=0.0, max_iter=1)]
    # A step that has to raise the curvature decomposes again before it counts.
    most = 1 + math.ceil(math.log2(max(2.0, problem.lipschitz / problem.mean_curvature)))
    assert all(1 <= steps <= most for steps in short)


def test_a_warm_start_saves_decompositions():
    problem = make_problem(n=100, d=20, n_labels=12)
    alphas = alpha_max(problem, 3) * np.geomspace(1, 1e-2, 12)
    chain = Chain(3, tuple(alphas), tuple(range(12)), DOWN)
    warm = sum(found.n_steps for _, found in solve_chain(problem, chain, tol=1e-8, max_iter=5000))
    cold = 0
    for alpha in alphas:
        alone = Chain(3, (alpha,), (0,), DOWN)
        cold += sum(found.n_steps for _, found in solve_chain(problem, alone, tol=1e-8, max_iter=5000))
    assert warm < cold


def test_another_penalty_may_take_over_from_any_point():
    """Retargeting with an alpha that lets more values live than the last decomposition kept."""
    problem = make_problem()
    phase, W = Alternating(), problem.reduced_rank_solution(2)[0]
    sigma = np.where(np.arange(7) < 2, np.linalg.svd(W, compute_uv=False), 0.0)
    phase.start(problem, TailSum(2, 50.0), Point(W, sigma, problem.value(W)))
    phase.step()
    phase.retarget(TailSum(2, 0.01))
    point = next(point for point in iter(phase.step, None) if point.residual <= 1e-6)
    assert contracts.residual_by_svd(problem, TailSum(2, 0.01), point.W) <= 2e-6


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
        list(solve_chain(problem, Chain(2, alphas, tuple("abcd"), start), tol=1e-12, max_iter=500))
        for problem, start in zip((here, there), starts, strict=True)
    )
    for (key, one), (_, other) in zip(found, expected, strict=True):
        assert_same(one.left @ one.right.T, matrix(other), place, rtol=1e-5)
        assert_same(one.sigma, other.sigma, place, rtol=1e-5)
        assert one.objective == pytest.approx(other.objective, rel=1e-10), key
        assert one.status is other.status
        assert one.residual <= 1e-5


# Several chains


@pytest.mark.parametrize("threads", [1, 2])
def test_chains_come_in_order_each_on_its_own_problem(threads):
    problems = [make_problem(seed, ridge=0.1 * seed) for seed in range(5)]
    chains = [Chain(2, (4.0, 1.0), ((seed, 4.0), (seed, 1.0)), DOWN) for seed in range(5)]
    with threadpool_limits(threads, user_api="blas"):
        found = list(
            solve_chains(problems, chains, lambda key, point: (key, matrix(point)), tol=1e-8, max_iter=500)
        )
    assert [[key for key, _ in results] for results in found] == [list(chain.keys) for chain in chains]
    for problem, chain, results in zip(problems, chains, found, strict=True):
        alone = solve_chain(problem, chain, tol=1e-8, max_iter=500)
        for (_, W), (_, point) in zip(results, alone, strict=True):
            assert_allclose(W, matrix(point), atol=1e-9)


def test_no_chains_give_nothing():
    assert list(solve_chains([], [], lambda key, point: key, tol=1e-3, max_iter=5)) == []


# alpha_max


@pytest.mark.parametrize("theta", [0, 1, 3, 6])
def test_alpha_max_is_where_the_first_tail_value_appears(theta):
    problem = make_problem()
    largest = alpha_max(problem, theta)
    ranks = []
    for share in (1.0001, 0.999):
        chain = Chain(theta, (share * largest,), (0,), DOWN)
        ((_, found),) = solve_chain(problem, chain, tol=1e-16, max_iter=5000)
        ranks.append(len(found.sigma))
    assert ranks[0] == theta
    assert ranks[1] > theta


def test_alpha_max_vanishes_where_every_value_is_free():
    assert alpha_max(make_problem(), 7) == 0.0
    assert alpha_max(make_problem(d=4), 6) == 0.0
