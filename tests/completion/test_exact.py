"""Exact completion, against the paper's example, a simplex search and cvxpy."""

import cvxpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from lrml.completion import complete
from lrml.core.penalties import TailSum, TraceNorm

NAN = np.nan
EXAMPLE = np.array([[2, 1, 2, 1], [1, 1, NAN, 2], [1, 1, 2, NAN]])


def tail(matrix, theta):
    """The definition, by a full SVD."""
    return np.linalg.svd(matrix, compute_uv=False)[theta:].sum()


@pytest.mark.parametrize(
    ("penalty", "unknown", "sigma"),
    [
        (TraceNorm(1.0), (1.8392, 1.4271), (5.1247, 1.0341, 0.2950)),
        (TailSum(2, 1.0), (2.0, 2.0), (5.3549, 1.1512, 0.0)),
    ],
)
def test_the_two_minimisers_of_the_papers_example(penalty, unknown, sigma):
    done = complete(EXAMPLE, penalty, exact=True, tol=1e-8)
    np.testing.assert_allclose(done.values([1, 2], [2, 3]), unknown, atol=1e-4)
    np.testing.assert_allclose(done.factors.s, sigma, atol=1e-4)
    assert done.converged


@pytest.mark.parametrize("theta", [0, 1, 2])
def test_no_worse_than_a_simplex_search(theta):
    def value(unknown):
        filled = EXAMPLE.copy()
        filled[1, 2], filled[2, 3] = unknown
        return tail(filled, theta)

    starts = [(0.0, 0.0), (1.0, 1.0), (2.0, 1.0), (1.0, 3.0), (3.0, 3.0)]
    options = {"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000}
    searched = min(minimize(value, start, method="Nelder-Mead", options=options).fun for start in starts)
    assert complete(EXAMPLE, TailSum(theta, 1.0), exact=True, tol=1e-8).objective <= searched + 1e-6


@pytest.mark.parametrize("seed", range(3))
def test_the_trace_norm_agrees_with_cvxpy(seed):
    generator = np.random.default_rng(seed)
    M = generator.standard_normal((7, 2)) @ generator.standard_normal((2, 6))
    M += 0.3 * generator.standard_normal(M.shape)
    mask = generator.random(M.shape) < 0.6
    Z = cvxpy.Variable(M.shape)
    agree = [cvxpy.multiply(mask.astype(float), Z) == np.where(mask, M, 0.0)]
    least = cvxpy.Problem(cvxpy.Minimize(cvxpy.normNuc(Z)), agree).solve(solver="SCS", eps=1e-7)
    done = complete(np.where(mask, M, NAN), TraceNorm(1.0), exact=True, tol=1e-7)
    assert done.objective == pytest.approx(least, rel=1e-4)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), theta=st.integers(0, 5), share=st.floats(0.3, 0.95))
def test_observed_entries_stay_and_the_tail_is_no_worse_than_that_of_the_trace_norm(seed, theta, share):
    generator = np.random.default_rng(seed)
    M = generator.standard_normal((8, 5))
    M[generator.random(M.shape) > share] = NAN
    M[0, 0] = 1.0
    known = ~np.isnan(M)
    done = complete(M, TailSum(theta, 2.0), exact=True, tol=1e-5, max_iter=300)
    np.testing.assert_allclose(done.dense()[known], M[known], atol=1e-12)
    assert done.objective == pytest.approx(2.0 * tail(done.dense(), theta), abs=1e-9)
    if theta == 5:
        assert done.objective == 0.0
        return
    convex = complete(M, TraceNorm(2.0), exact=True, tol=1e-6, max_iter=2000)
    if theta == 0:
        assert done.objective == pytest.approx(convex.objective, rel=1e-3)
    assert done.objective <= 2.0 * tail(convex.dense(), theta) + 1e-3 * convex.objective


def test_a_planted_matrix_is_found_by_the_tail_sum_and_not_by_the_trace_norm():
    generator = np.random.default_rng(3)
    truth = generator.standard_normal((30, 2)) @ generator.standard_normal((2, 25))
    M = np.where(generator.random(truth.shape) < 0.35, truth, NAN)
    for penalty, found in ((TailSum(2, 1.0), True), (TraceNorm(1.0), False)):
        Z = complete(M, penalty, exact=True, tol=1e-8, max_iter=3000).dense()
        error = np.linalg.norm(Z - truth) / np.linalg.norm(truth)
        assert error < 1e-5 if found else error > 1e-2


def test_running_out_of_steps_leaves_observed_entries_as_they_are():
    generator = np.random.default_rng(0)
    M = generator.standard_normal((8, 6))
    M[generator.random(M.shape) < 0.5] = NAN
    done = complete(M, TraceNorm(1.0), exact=True, max_iter=2)
    assert (done.converged, done.n_iter) == (False, 2)
    known = ~np.isnan(M)
    np.testing.assert_allclose(done.dense()[known], M[known], atol=1e-12)
