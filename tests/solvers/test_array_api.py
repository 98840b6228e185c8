"""The solvers speak the Array API standard: every library, on every device, must give NumPy's answer."""

import numpy as np
import pytest

import contracts
from lrml.core.moments import Moments
from lrml.core.penalties import TailSum, TraceNorm
from lrml.core.quadratic import SpectralProblem
from lrml.solvers import DualityGap, Status, solve
from namespaces import assert_same, moved, places

SOLVERS = ["auto", "apg", "pg", "paper"]
# NumPy's own answers are tested elsewhere.
OTHERS = places("strict-device1", "torch-cpu", "torch-cuda", "cupy-cuda")


def moments(shape, dtype):
    rng = np.random.default_rng(0)
    n, d, n_labels = shape
    X, Y = rng.normal(size=(n, d)), (rng.random((n, n_labels)) < 0.3).astype(float)
    return Moments((X.T @ X).astype(dtype), (X.T @ Y).astype(dtype), float(np.sum(Y**2)))


@pytest.mark.parametrize("place", OTHERS, indirect=True)
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("shape", [(60, 9, 5), (60, 5, 9)], ids=str)
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-9), ("float32", 1e-3)])
def test_every_solver_gives_numpys_answer(place, solver, shape, dtype, rtol):
    tol = 1e-8 if dtype == "float64" else 1e-4
    options = {"solver": solver, "tol": tol, "max_iter": 60 if solver == "paper" else 20_000}
    reference = solve(SpectralProblem.from_moments(moments(shape, "float64")), TailSum(2, 1.5), **options)
    given = moved(place, moments(shape, dtype))
    result = solve(SpectralProblem.from_moments(given), TailSum(2, 1.5), **options)
    assert result.objective == pytest.approx(reference.objective, rel=rtol)
    U, s, V = result.factors
    sigma = reference.factors.s[: s.shape[0]]
    assert_same(s, sigma, place, dtype, rtol=20 * rtol)
    coefficients = (reference.factors.U[:, : len(sigma)] * sigma) @ reference.factors.V[:, : len(sigma)].T
    assert_same((U * s) @ V.T, coefficients, place, dtype, rtol=0.05 if dtype == "float32" else 1e-4)
    assert U.shape == (shape[1], s.shape[0])
    assert V.shape == (shape[2], s.shape[0])
    assert result.status is not Status.MAX_ITER


@pytest.mark.parametrize("place", [*OTHERS, *places("strict-cpu")], indirect=True)
@pytest.mark.parametrize("penalty", [TailSum(5, 3.0), TailSum(2, 1e12), TraceNorm(2.0)], ids=str)
def test_closed_forms_warm_starts_and_certificates(place, penalty):
    here = contracts.make_problem(d=9, n_labels=5)
    there = moved(place, here)
    proof = DualityGap(penalty.alpha) if penalty.theta == 0 else None
    expected = solve(here, penalty, tol=1e-10, certificate=proof)
    found = solve(there, penalty, tol=1e-10, certificate=proof)
    assert found.status is expected.status
    assert found.objective == pytest.approx(expected.objective, rel=1e-10)
    assert_same(found.solution, expected.solution, place, rtol=1e-5)
    again = solve(there, penalty, start=found.solution, tol=1e-10)
    assert again.n_iter <= 3
    assert again.objective == pytest.approx(expected.objective, rel=1e-9)


def test_contract_problem_is_badly_conditioned():
    """Guards the other tests: on a well-conditioned problem every solver looks good."""
    problem = contracts.make_problem(decay=1.0)
    assert problem.curvature[0] / problem.curvature[-1] > 50
