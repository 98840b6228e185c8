"""The solvers speak the Array API standard: every library, on every device, must give NumPy's answer."""

import numpy as np
import pytest

from contracts import row_arrays
from lrml.core.moments import Moments
from lrml.core.penalties import TailSum, TraceNorm
from lrml.core.quadratic import SpectralProblem
from lrml.solvers import Status, duality_gap, solve
from namespaces import assert_same, moved, places


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("solver", "penalty", "shape"),
    [
        ("auto", TailSum(2, 5.0), (60, 5, 9)),
        ("apg", TailSum(2, 5.0), (60, 5, 9)),
        ("pg", TailSum(2, 20.0), (30, 5, 4)),
        ("paper", TailSum(2, 5.0), (60, 9, 5)),
        ("auto", TailSum(5, 3.0), (60, 5, 9)),
        ("auto", TraceNorm(2.0), (60, 5, 9)),
    ],
    ids=str,
)
@pytest.mark.parametrize("place", [place for place in places() if place.id != "numpy"], indirect=True)
def test_every_solver_gives_numpys_answer(place, solver, penalty, shape, dtype):
    """So do closed forms, certificates and warm starts."""
    X, Y, *_ = row_arrays(*shape)
    rtol, tol = (1e-9, 1e-8) if dtype == "float64" else (1e-3, 1e-4)
    options = {"solver": solver, "tol": tol, "max_iter": 60 if solver == "paper" else 20_000}
    options["certificate"] = duality_gap if penalty.theta == 0 else None

    def problem(where, dtype):
        sums = Moments((X.T @ X).astype(dtype), (X.T @ Y).astype(dtype), float(np.sum(Y**2)))
        return SpectralProblem.from_moments(sums if where is None else moved(where, sums))

    here, there = problem(None, "float64"), problem(place, dtype)
    expected, found = solve(here, penalty, **options), solve(there, penalty, **options)
    assert found.objective == pytest.approx(expected.objective, rel=rtol)
    assert found.status is not Status.MAX_ITER
    U, s, V = found.factors
    sigma = expected.factors.s[: s.shape[0]]
    assert_same(s, sigma, place, dtype, rtol=20 * rtol)
    coefficients = (expected.factors.U[:, : len(sigma)] * sigma) @ expected.factors.V[:, : len(sigma)].T
    assert_same((U * s) @ V.T, coefficients, place, dtype, rtol=0.05 if dtype == "float32" else 1e-4)
    if solver == "auto":
        again = solve(there, penalty, start=found.solution, tol=tol)
        assert again.n_iter <= 3
        assert again.objective == pytest.approx(expected.objective, rel=10 * rtol)
