"""The steps of `Alternating` against a transcription of its docstring with full SVDs, and its safeguards."""

import math

import numpy as np
import pytest

import contracts
from contracts import make_problem
from lrml.core.moments import Statistics
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.solvers import Alternating, point_at


def started(problem, penalty, W=None, **options):
    """A phase that begins at W, or at a ridge solution."""
    phase, W = Alternating(**options), problem.ridge_solution(extra=1.0) if W is None else W
    phase.start(problem, penalty, point_at(problem, penalty, W, np.linalg.svd(W, compute_uv=False)))
    return phase


def run(phase, residual=1e-8, most=300):
    for count in range(1, most):
        point = phase.step()
        if point is None or point.residual <= residual:
            return count, point
    raise AssertionError("not converged")


def proximal(problem, penalty, W, rho):
    """Z = prox(W − ∇f(W)/ρ) as U, σ, V, and the element of ∇f(Z) + ∂Ω(Z) that the step implies."""
    U, s, Vt = np.linalg.svd(W - problem.gradient(W) / rho, full_matrices=False)
    sigma = penalty.prox(s, 1 / rho)
    Z = (U * sigma) @ Vt
    slope = problem.gradient(Z) - problem.gradient(W) - rho * (Z - W)
    return U, sigma, Vt.T, Z, slope


def both_sides(problem, penalty, U, sigma, V, turn):
    """W⁺ from a proximal point, by dense least squares."""
    curvature, B = problem.curvature, problem.cross
    slopes = penalty.slopes(sigma)
    kept = np.count_nonzero(sigma)
    U, sigma, V, slopes = U[:, :kept], sigma[:kept], V[:, :kept], slopes[:kept]
    if turn:
        K = np.linalg.solve(U.T @ np.diag(curvature) @ U + np.diag(slopes / (2 * sigma)), U.T @ B)
        _, sigma, Vt = np.linalg.svd(K, full_matrices=False)
        V = Vt.T
    R = (B @ V) / (curvature[:, None] + slopes / (2 * sigma))
    return R @ V.T


@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize(
    "penalty", [TailSum(0, 2.0), TailSum(2, 2.0), TailSum(5, 2.0), TailSum(2, 1e4)], ids=str
)
def test_steps_are_those_of_the_docstring(penalty, ridge):
    """Where more than 0.8 of the values live the turn is left out in the first eight steps."""
    problem = make_problem(decay=1.0, ridge=ridge)
    W = problem.ridge_solution(extra=1.0)
    phase = started(problem, penalty, share=1.0, memory=0)
    rho = 2 * problem.curvature[0]
    for step in range(1, 13):
        U, sigma, V, Z, slope = proximal(problem, penalty, W, rho)
        point = phase.step()
        np.testing.assert_allclose(point.W, Z, atol=1e-9)
        np.testing.assert_allclose(point.sigma, sigma, atol=1e-9)
        objective = problem.value(Z) + penalty.value(sigma)
        assert point.objective == pytest.approx(objective, rel=1e-10)
        assert point.residual == pytest.approx(np.linalg.norm(slope) / problem.scale, rel=1e-6, abs=1e-12)
        gap = np.sum(slope**2 / (4 * problem.curvature[:, None])) / objective
        assert point.gap == pytest.approx(gap, rel=1e-5, abs=1e-16)
        turn = np.count_nonzero(sigma) <= (1.0 if step >= 8 else 0.8) * len(sigma)
        W = both_sides(problem, penalty, U, sigma, V, turn)
    assert phase.rho == pytest.approx(problem.lipschitz)


@pytest.mark.parametrize("theta", [0, 2, 5])
def test_acceleration_saves_steps_and_ends_where_plain_steps_do(theta):
    problem, penalty = make_problem(decay=1.5), TailSum(theta, 2.0)
    fast, found = run(started(problem, penalty))
    slow, expected = run(started(problem, penalty, memory=0))
    assert fast < slow
    assert found.objective == pytest.approx(expected.objective, rel=1e-6)
    assert contracts.residual_by_svd(problem, penalty, found.W) <= 1e-7


@pytest.mark.parametrize("theta", [0, 2, 5])
@pytest.mark.parametrize(
    ("first", "then", "ridge"), [(2.0, 1.8, 0.0), (2.0, 0.3, 3.0), (50.0, 0.01, 0.0)], ids=str
)
def test_goes_on_with_another_penalty_and_another_problem(theta, first, then, ridge):
    """It ends at a stationary point of the new, even if more values live than the last step kept."""
    problem = make_problem(decay=1.0)
    phase = started(problem, TailSum(theta, first))
    run(phase)
    other, penalty = problem.with_ridge(ridge), TailSum(theta, then)
    phase.retarget(penalty, other if ridge else None)
    if ridge:
        assert phase.rho == pytest.approx(0.3 * other.lipschitz)
    warm, point = run(phase)
    assert contracts.residual_by_svd(other, penalty, point.W) <= 1e-7
    sigma = np.linalg.svd(point.W, compute_uv=False)
    np.testing.assert_allclose(point.sigma, sigma, atol=1e-9)
    assert point.objective == pytest.approx(other.value(point.W) + penalty.value(sigma), rel=1e-10)
    if then == 1.8:
        assert warm <= run(started(other, penalty))[0]


@pytest.mark.parametrize("close", [False, True])
def test_a_better_reduced_rank_solution_replaces_what_the_first_steps_have_found(close):
    """It is compared after three steps, or as soon as the gap is small; before, no gap is small enough."""
    # Three orthogonal features with a label each. Descent leaves the wrong value free.
    X = np.diag([11.0, 1.0, 10.0, 0.0])
    Y = np.diag([5.0, 2.0, 4.0, 1.0])[:, :3]
    Y[3] = 1.0
    problem = SpectralProblem.from_moments(Statistics.from_arrays(X, Y).moments(fit_intercept=False))
    penalty = TailSum(1, 75.0)
    _, poor = run(started(problem, penalty, problem.ridge_solution()))
    phase = started(problem, penalty, poor.W if close else problem.ridge_solution(), compare=True)
    points = [phase.step() for _ in range(6)]
    asked = 1 if close else 3
    assert all(point.gap == math.inf for point in points[:asked])
    assert all(point.gap < math.inf for point in points[asked:])
    assert all(point.objective >= poor.objective * (1 - 1e-9) for point in points[:asked])
    assert all(point.objective < 0.7 * poor.objective for point in points[asked:])
