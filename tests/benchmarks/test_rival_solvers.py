"""The solvers that the ablation compares with have to be good, or the comparison means nothing."""

import sys
from pathlib import Path

import numpy as np
import pytest

from contracts import make_problem
from lrml.core.penalties import TailSum, TraceNorm
from lrml.core.quadratic import SpectralProblem
from lrml.solvers import Point, Status, solve, stationarity_residual


@pytest.fixture
def rivals(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    monkeypatch.delitem(sys.modules, "rival_solvers", raising=False)
    import rival_solvers  # noqa: PLC0415

    return rival_solvers


def test_reweighted_steps_never_go_uphill(rivals):
    problem, penalty = make_problem(decay=2.0), TailSum(2, 3.0)
    phase = rivals.Reweighted(min_gain=-1.0, max_steps=60)
    objectives = solve(problem, penalty, solver=phase).history.as_dict()["objective"]
    assert len(objectives) == 61
    assert np.all(np.diff(objectives) <= 1e-10 * objectives[0])


def test_admm_reports_the_residual_of_an_element_of_the_subdifferential(rivals):
    """For a convex penalty the reported norm bounds the exact stationarity residual from above."""
    problem, penalty, phase = make_problem(), TraceNorm(2.0), rivals.ADMM()
    start = problem.ridge_solution(extra=1.0)
    sigma = np.linalg.svd(start, compute_uv=False)
    phase.start(problem, penalty, Point(start, sigma, problem.value(start) + penalty.value(sigma)))
    for _ in range(12):
        point = phase.step()
        assert stationarity_residual(problem, penalty, point.W) <= point.residual * (1 + 1e-9)


def test_admm_repairs_a_rho_that_is_too_small(rivals, monkeypatch):
    """With a hundredth of the mean curvature plain ADMM cycles or diverges here; the safeguard must not."""
    problem, penalty = make_problem(decay=2.0), TailSum(2, 3.0)
    monkeypatch.setattr(
        SpectralProblem, "mean_curvature", property(lambda self: 0.01 * 2 * self.curvature.mean())
    )
    phase = rivals.ADMM()
    result = solve(problem, penalty, solver=phase, tol=1e-12, max_iter=3000)
    assert result.status is Status.CONVERGED
    assert phase.rho > problem.mean_curvature
