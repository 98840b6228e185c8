"""The numeric core speaks the Array API standard: the strict reference library must give NumPy's answer."""

import array_api_strict
import numpy as np
import pytest

import contracts
from lrml.penalties import TailSum, spectral_prox
from lrml.problem import SpectralProblem
from lrml.solvers import Status, solve
from lrml.statistics import Moments


def moments(shape, dtype):
    rng = np.random.default_rng(0)
    n, d, n_labels = shape
    X, Y = rng.normal(size=(n, d)), (rng.random((n, n_labels)) < 0.3).astype(float)
    return [(X.T @ X).astype(dtype), (X.T @ Y).astype(dtype), float(np.sum(Y**2))]


@pytest.mark.parametrize("solver", ["auto", "apg", "pg", "paper"])
@pytest.mark.parametrize("shape", [(60, 9, 5), (60, 5, 9)], ids=str)
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-9), ("float32", 1e-3)])
def test_strict_arrays_give_numpys_answer(solver, shape, dtype, rtol):
    gram, cross, target = moments(shape, dtype)
    strict = [array_api_strict.asarray(gram), array_api_strict.asarray(cross), target]
    tol = 1e-8 if dtype == "float64" else 1e-4
    options = {"solver": solver, "tol": tol, "max_iter": 300 if solver == "paper" else 20_000}
    reference = solve(
        SpectralProblem.from_moments(Moments(*moments(shape, "float64"))), TailSum(2, 1.5), **options
    )
    result = solve(SpectralProblem.from_moments(Moments(*strict)), TailSum(2, 1.5), **options)
    assert result.objective == pytest.approx(reference.objective, rel=rtol)
    U, s, V = result.factors
    assert all(isinstance(factor, type(strict[0])) for factor in (U, s, V))
    assert U.dtype == V.dtype == s.dtype == getattr(array_api_strict, dtype)
    assert U.shape == (shape[1], s.shape[0])
    assert V.shape == (shape[2], s.shape[0])
    assert result.status is not Status.MAX_ITER
    np.testing.assert_allclose(
        np.from_dlpack(s), reference.factors.s[: s.shape[0]], rtol=20 * rtol, atol=20 * rtol
    )


def test_strict_fallback_prox():
    Q = np.zeros((5, 3))
    Q[0, 0], Q[1, 1] = 1.0, 1e-11
    matrix, sigma = spectral_prox(array_api_strict.asarray(Q), TailSum(2, 1.0), 0.1)
    np.testing.assert_allclose(np.from_dlpack(sigma), [1.0, 1e-11, 0.0], rtol=1e-3, atol=1e-14)
    np.testing.assert_allclose(np.from_dlpack(matrix), Q, atol=1e-14)


def test_contract_problem_is_badly_conditioned():
    """Guards the other tests: on a well-conditioned problem every solver looks good."""
    problem = contracts.make_problem(decay=1.0)
    assert problem.curvature[0] / problem.curvature[-1] > 50
