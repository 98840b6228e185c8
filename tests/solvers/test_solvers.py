"""One contract for all solvers; then what sets each apart, and the record that each keeps."""

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
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.penalties import MCP, SCAD, Capped, LogSum, Rank, SchattenHalf, TailSum
from lrml.solvers import (
    Algorithm1,
    Alternating,
    Status,
    solve,
    solve_rows,
)

EACH = pytest.mark.parametrize(
    "solver",
    ["auto", "apg", "pg", Alternating(share=1e-3)],
    ids=lambda solver: solver if isinstance(solver, str) else type(solver).__name__,
)


@EACH
@pytest.mark.parametrize("theta", [0, 2, 5])
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
    U, s, V = result.factors
    np.testing.assert_allclose(U.T @ U, np.eye(len(s)), atol=1e-9)
    np.testing.assert_allclose(V.T @ V, np.eye(len(s)), atol=1e-9)
    assert np.all(np.diff(s) <= 0)
    assert np.all(s > 0)
    objectives, last = result.history.as_dict()["objective"], result.history[-1]
    assert result.objective <= objectives[0]
    if solver in ("apg", "pg"):
        assert np.all(np.diff(objectives) <= 1e-9 * objectives[0])
    assert len(s) == last.rank
    assert result.n_iter == len(result.history) - 1 == last.iteration


@pytest.mark.parametrize(
    "penalty",
    [Rank(2.0), Capped(2.0, 1.0), MCP(2.0, 0.02), MCP(5.0), SCAD(2.0), LogSum(2.0, 0.3), SchattenHalf(2.0)],
    ids=str,
)
def test_relatives_of_the_tail_sum(penalty):
    """Ends at a stationary point that a slow method from the same start does not beat."""
    problem = make_problem(ridge=0.1)
    result, slow = (solve(problem, penalty, solver=solver, tol=1e-10) for solver in ("auto", "apg"))
    assert result.status is Status.CONVERGED
    objective, W = contracts.objective_by_svd(problem, penalty, result.factors)
    if not isinstance(penalty, Rank):  # whose price of rounding errors is not small
        assert result.objective == pytest.approx(objective, rel=1e-9)
    assert contracts.residual_by_svd(problem, penalty, W) <= 1e-5
    assert result.objective <= slow.objective * (1 + 1e-6)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), theta=st.integers(0, 6), log_alpha=st.floats(-3, 4), decay=st.floats(0, 2))
def test_default_never_ends_above_its_start_and_never_diverges(seed, theta, log_alpha, decay):
    problem = make_problem(seed, decay=decay)
    result = solve(problem, TailSum(theta, 10**log_alpha), tol=1e-14)
    assert result.objective <= result.history[0].objective * (1 + 1e-12)
    assert math.isfinite(result.residual)
    assert result.residual <= 1e-5


@EACH
@pytest.mark.parametrize("penalty", [TailSum(7, 3.0), TailSum(20, 3.0), TailSum(2, 0.0)], ids=str)
def test_inactive_penalty_is_solved_in_closed_form(penalty, solver):
    problem, seen = make_problem(ridge=0.1), []
    result = solve(problem, penalty, solver=solver, callback=seen.append)
    assert result.status is Status.EXACT
    assert seen == result.history
    assert result.n_iter == 0
    assert result.residual < 1e-10
    gradient = problem.gradient(
        problem.compress(problem.features.T @ result.factors.U * result.factors.s, result.factors.V)
    )
    assert np.linalg.norm(gradient) < 1e-9 * problem.scale


# Algorithm 1


def test_algorithm_1_to_the_letter():
    """Against a literal transcription in the original coordinates, with the printed rule and full SVDs."""
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(50, 6)), (rng.random((50, 4)) < 0.4).astype(float)
    problem = SpectralProblem.from_moments(Statistics.from_arrays(X, Y).moments(fit_intercept=False))
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


# The record


def test_max_iter_is_obeyed_and_seconds_count_solver_work_only(monkeypatch):
    """A clock that ticks once per reading, and jumps while the callback runs: the jumps must not count."""
    now = [0.0]

    def clock():
        now[0] += 1.0
        return now[0]

    def slow(_info):
        now[0] += 1e6

    monkeypatch.setattr("lrml.solvers._loop.perf_counter", clock)
    result = solve(make_problem(), TailSum(2, 2.0), tol=0.0, max_iter=9, callback=slow)
    assert result.status is Status.MAX_ITER
    assert result.n_iter == 9
    seconds = result.history.as_dict()["seconds"]
    assert np.all(np.diff(seconds) >= 1)
    assert seconds[-1] < 100


def _solve_rows(solver):
    return solve_rows(
        RowProblem(Rows(np.eye(3), np.eye(3)), LOSSES["logistic"]), TailSum(1, 1.0), solver=solver
    )


@pytest.mark.parametrize(
    ("call", "place"),
    [
        (lambda: solve(make_problem(), TailSum(2, 2.0), solver="newton"), "solver.*'newton'"),
        (lambda: _solve_rows("pg"), "solver.*'pg'"),
        (lambda: Algorithm1(gamma=0.9), r"gamma.*0\.9"),
        (lambda: Algorithm1(t0=0.0), r"t0.*0\.0"),
        (lambda: Algorithm1(rule="best"), "rule.*'best'"),
    ],
)
def test_errors_name_the_parameter_and_its_value(call, place):
    with pytest.raises(ValueError, match=place):
        call()
