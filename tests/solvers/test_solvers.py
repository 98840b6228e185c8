"""One contract for all solvers; then what sets each apart."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import contracts
from contracts import make_problem
from lrml.core.loss_problem import RowProblem
from lrml.core.losses import LOSSES
from lrml.core.moments import Statistics
from lrml.core.penalties import TailSum, TraceNorm
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.solvers import (
    AcceleratedProximalGradient,
    Algorithm1,
    Alternating,
    Point,
    ProximalGradient,
    Status,
    solve,
    solve_rows,
    stationarity_residual,
)

SOLVERS = ["auto", "apg", "pg"]


def point_at(problem, penalty, W):
    """A starting point."""
    sigma = np.linalg.svd(W, compute_uv=False)
    return Point(W, sigma, problem.value(W) + penalty.value(sigma))


THETAS = [0, 2, 5]


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("theta", THETAS)
@pytest.mark.parametrize("ridge", [0.0, 0.5])
def test_contract(solver, theta, ridge):
    """Converges to tol, reports the truth, never ends above its start, and the factors are a thin SVD."""
    problem, penalty = make_problem(ridge=ridge), TailSum(theta, 2.0)
    result = solve(problem, penalty, solver=solver, tol=1e-12, max_iter=100_000)
    assert result.status is Status.CONVERGED
    objective, W = contracts.objective_by_svd(problem, penalty, result.factors)
    assert result.objective == pytest.approx(objective, rel=1e-9)
    assert result.residual <= 1e-6
    assert result.residual == pytest.approx(
        contracts.residual_by_svd(problem, penalty, W), rel=1e-3, abs=1e-9
    )
    assert result.objective <= result.history.entries[0].objective
    U, s, V = result.factors
    np.testing.assert_allclose(U.T @ U, np.eye(len(s)), atol=1e-9)
    np.testing.assert_allclose(V.T @ V, np.eye(len(s)), atol=1e-9)
    assert np.all(np.diff(s) <= 0)
    assert np.all(s > 0)
    assert len(s) == result.history.entries[-1].rank
    assert result.n_iter == len(result.history) - 1 == result.history.entries[-1].iteration


@pytest.mark.parametrize("solver", ["apg", "pg"])
@pytest.mark.parametrize("theta", THETAS)
def test_first_order_solvers_are_monotone(solver, theta):
    history = solve(make_problem(), TailSum(theta, 2.0), solver=solver, tol=1e-12).history.as_dict()
    assert np.all(np.diff(history["objective"]) <= 1e-9 * history["objective"][0])


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), theta=st.integers(0, 6), log_alpha=st.floats(-3, 4), decay=st.floats(0, 2))
def test_default_never_ends_above_its_start_and_never_diverges(seed, theta, log_alpha, decay):
    problem = make_problem(seed, decay=decay)
    result = solve(problem, TailSum(theta, 10**log_alpha), tol=1e-14)
    assert result.objective <= result.history.entries[0].objective * (1 + 1e-12)
    assert math.isfinite(result.residual)
    assert result.residual <= 1e-5


@pytest.mark.parametrize("alpha", [0.3, 3.0, 30.0])
def test_trace_norm_optimum_has_no_duality_gap(alpha):
    """theta = 0 is convex. For N = −∇f(W)/alpha, optimality is ‖N‖₂ ≤ 1 and ⟨N, W⟩ = ‖W‖_*; give the gap."""
    problem = make_problem()
    result = solve(problem, TraceNorm(alpha), tol=1e-18, max_iter=100_000)
    W = problem.compress((result.factors.U * result.factors.s) @ result.factors.V.T)
    curvature, B = problem.curvature[:, None], problem.cross
    # Fenchel dual of min f(W) + alpha‖W‖_*: max −f*(−M) over ‖M‖₂ ≤ alpha, scaled into the feasible set.
    M = -problem.gradient(W)
    M = M * min(1.0, alpha / np.linalg.norm(M, 2))
    dual = problem.target - np.sum((B - 0.5 * M) ** 2 / curvature)
    gap = result.objective - dual
    assert gap + 1e-9 >= 0
    assert gap <= 1e-6 * result.objective


def test_all_solvers_agree_where_the_problem_is_convex():
    values = [
        solve(make_problem(), TraceNorm(2.0), solver=s, tol=1e-16, max_iter=10**5).objective for s in SOLVERS
    ]
    assert values == pytest.approx([values[0]] * 3, rel=1e-10)


@pytest.mark.parametrize("theta", [0, 1, 3])
def test_strong_penalty_gives_the_reduced_rank_solution(theta):
    problem = make_problem()
    result = solve(problem, TailSum(theta, 1e12), tol=1e-16)
    _, best = problem.reduced_rank_solution(theta)
    assert result.objective == pytest.approx(best, rel=1e-10)
    assert len(result.factors.s) == theta


@pytest.mark.parametrize("penalty", [TailSum(7, 3.0), TailSum(20, 3.0), TailSum(2, 0.0)], ids=str)
@pytest.mark.parametrize("solver", SOLVERS)
def test_inactive_penalty_is_solved_in_closed_form(penalty, solver):
    problem = make_problem(ridge=0.1)
    result = solve(problem, penalty, solver=solver)
    assert result.status is Status.EXACT
    assert result.n_iter == 0
    assert result.residual < 1e-10
    gradient = problem.gradient(problem.compress((result.factors.U * result.factors.s) @ result.factors.V.T))
    assert np.linalg.norm(gradient) < 1e-9 * problem.scale


def test_residual_is_that_of_an_element_of_the_subdifferential():
    """For a convex penalty the reported norm bounds the exact stationarity residual from above."""
    problem, penalty, phase = make_problem(), TraceNorm(2.0), Alternating()
    start = problem.ridge_solution(extra=1.0)
    phase.start(problem, penalty, point_at(problem, penalty, start))
    for _ in range(12):
        point = phase.step()
        assert stationarity_residual(problem, penalty, point.W) <= point.residual * (1 + 1e-9)


def test_too_small_share_is_repaired():
    """A proximal step of a thousandth of the curvature goes uphill; ρ must grow until it does not."""
    problem, penalty = make_problem(decay=2.0), TailSum(2, 3.0)
    phase = Alternating(share=1e-3)
    result = solve(problem, penalty, solver=phase, tol=1e-12, max_iter=3000)
    assert result.status is Status.CONVERGED
    assert 1e-3 * problem.lipschitz < phase.rho <= problem.lipschitz


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), theta=st.integers(0, 6), log_alpha=st.floats(-2, 2), decay=st.floats(0, 2))
def test_alternating_steps_never_rise_once_rho_is_the_lipschitz_constant(seed, theta, log_alpha, decay):
    """Without acceleration every step is a proximal gradient step followed by majorise-minimise steps."""
    problem = make_problem(seed, decay=decay)
    result = solve(
        problem,
        TailSum(theta, 10**log_alpha),
        solver=Alternating(share=1.0, memory=0),
        tol=0.0,
        max_iter=15,
    )
    objective = result.history.as_dict()["objective"]
    assert np.all(np.diff(objective) <= 1e-10 * objective[0])


@pytest.mark.parametrize("theta", THETAS)
def test_alternating_goes_on_with_another_penalty(theta):
    """Retargeted, it ends at a stationary point of the new problem, in no more steps than from scratch."""
    problem = make_problem(decay=1.0)
    start = problem.ridge_solution(extra=1.0)
    begin = point_at(problem, TailSum(theta, 2.0), start)

    def run(phase):
        for count in range(1, 200):
            point = phase.step()
            if point.residual <= 1e-6:
                return count, point
        raise AssertionError("not converged")

    phase, other = Alternating(), Alternating()
    phase.start(problem, TailSum(theta, 2.0), begin)
    run(phase)
    penalty = TailSum(theta, 1.8)
    phase.retarget(penalty)
    warm, point = run(phase)
    other.start(problem, penalty, begin)
    cold, _ = run(other)
    assert warm <= cold
    assert contracts.residual_by_svd(problem, penalty, point.W) <= 2e-6


def test_tied_singular_values_do_not_keep_the_solver_from_ending():
    """The exact prox of W − ∇f(W)/L may take either of two tied values; 0 is in the subdifferential."""
    eye = np.eye(8)
    problem = SpectralProblem.from_moments(Statistics.from_arrays(eye, eye[:, :3]).centered())
    result = solve(problem, TailSum(1, 1.0))
    assert result.status is Status.CONVERGED
    np.testing.assert_allclose(result.factors.s, [1.0, 0.5, np.sqrt(5 / 8) - 0.5], atol=1e-3)


def test_algorithm_1_to_the_letter():
    """Against a literal transcription in the original coordinates, with the printed rule and full SVDs."""
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(50, 6)), (rng.random((50, 4)) < 0.4).astype(float)
    problem = SpectralProblem.from_moments(Statistics.from_arrays(X, Y).uncentered())
    C, theta, t, gamma, K = 4.0, 2, 150.0, 1.05, 40
    W = np.zeros((6, 4))
    expected = []
    for _ in range(K):
        t = gamma * t
        U, s, Vt = np.linalg.svd(W - 2 * X.T @ (X @ W - Y) / t, full_matrices=False)
        kept = [s[i] if i < theta and s[i] > C / t else max(0.0, s[i] - C / t) for i in range(4)]
        W = (U * kept) @ Vt
        expected.append(np.sum((Y - X @ W) ** 2) + C * np.linalg.svd(W, compute_uv=False)[theta:].sum())
    result = solve(problem, TailSum(theta, C), solver=Algorithm1(t0=150.0, gamma=gamma), max_iter=K)
    assert result.status is Status.ALL_STEPS
    assert result.n_iter == K
    np.testing.assert_allclose(result.history.as_dict()["objective"][1:], expected, rtol=1e-10)


def test_growing_t_stops_short_of_a_stationary_point():
    """The printed schedule moves a bounded distance in total; backtracking does not have that flaw."""
    problem, penalty = make_problem(decay=1.5), TailSum(2, 2.0)
    growing = solve(problem, penalty, solver=Algorithm1(gamma=1.2), max_iter=3000)
    constant = solve(problem, penalty, solver=Algorithm1(gamma=1.0, rule="exact"), max_iter=3000)
    ours = solve(problem, penalty, tol=1e-12)
    assert growing.residual > 1e-2
    assert constant.residual < 1e-3
    assert ours.objective < growing.objective


def test_callback_sees_every_iteration_and_can_stop():
    seen = []

    def callback(info):
        seen.append(info)
        return info.iteration == 4

    result = solve(make_problem(), TailSum(2, 2.0), tol=0.0, callback=callback)
    assert [info.iteration for info in seen] == [0, 1, 2, 3, 4]
    assert result.status is Status.STOPPED
    assert result.objective == pytest.approx(min(info.objective for info in seen), rel=1e-12)


def test_max_iter_is_obeyed_and_reported():
    result = solve(make_problem(), TailSum(2, 2.0), tol=0.0, max_iter=9)
    assert result.status is Status.MAX_ITER
    assert result.n_iter == 9
    assert "raise max_iter" in result.status.value


def test_seconds_count_solver_work_only(monkeypatch):
    """A clock that ticks once per reading, and jumps while the callback runs: the jumps must not count."""
    now = [0.0]

    def clock():
        now[0] += 1.0
        return now[0]

    def slow(_info):
        now[0] += 1e6

    monkeypatch.setattr("lrml.solvers._loop.perf_counter", clock)
    problem = make_problem()
    fit = solve(problem, TailSum(2, 2.0), tol=0.0, max_iter=10, callback=slow)
    seconds = fit.history.as_dict()["seconds"]
    assert np.all(np.diff(seconds) >= 1)
    assert seconds[-1] < 100


def test_callback_sees_a_closed_form():
    seen = []
    result = solve(make_problem(), TailSum(2, 0.0), callback=seen.append)
    assert seen == result.history.entries
    assert result.status is Status.EXACT


def test_warm_start_at_the_solution_needs_no_work():
    problem, penalty = make_problem(), TailSum(2, 2.0)
    first = solve(problem, penalty, tol=1e-14)
    W = problem.compress((first.factors.U * first.factors.s) @ first.factors.V.T)
    again = solve(problem, penalty, start=W, tol=1e-12)
    assert again.n_iter <= 3 < first.n_iter
    assert again.objective == pytest.approx(first.objective, rel=1e-9)


@pytest.mark.parametrize("solver", [AcceleratedProximalGradient(), ProximalGradient(), Alternating()])
def test_solver_objects_are_accepted(solver):
    result = solve(make_problem(), TailSum(2, 2.0), solver=solver, tol=1e-8, max_iter=20_000)
    assert result.status is Status.CONVERGED


def test_errors():
    problem = make_problem()
    with pytest.raises(ValueError, match="solver must be one of 'auto', 'apg', 'pg', 'paper', got 'newton'"):
        solve(problem, TailSum(2, 2.0), solver="newton")
    rows = Rows(np.eye(3), np.eye(3))
    with pytest.raises(ValueError, match="solver must be 'auto' or 'apg' for a loss over rows, got 'pg'"):
        solve_rows(RowProblem(rows, LOSSES["logistic"]), TailSum(1, 1.0), solver="pg")
    with pytest.raises(ValueError, match=r"gamma must be at least 1, got 0\.9"):
        Algorithm1(gamma=0.9)
    with pytest.raises(ValueError, match=r"t0 must be positive, got 0\.0"):
        Algorithm1(t0=0.0)
    with pytest.raises(ValueError, match="rule must be 'paper' or 'exact', got 'best'"):
        Algorithm1(rule="best")
