"""Noisy completion, against cvxpy, a plain soft-impute loop, and its own definition."""

import tracemalloc
from dataclasses import replace

import cvxpy
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lrml.completion import complete, select_alpha
from lrml.penalties import TailSum, TraceNorm
from lrml.solvers import Factors

NAN = np.nan


def planted(shape, rank, share, noise, seed):
    generator = np.random.default_rng(seed)
    truth = generator.standard_normal((shape[0], rank)) @ generator.standard_normal((rank, shape[1]))
    M = truth + noise * generator.standard_normal(shape)
    return truth, np.where(generator.random(shape) < share, M, NAN)


def objective(Z, M, theta, alpha):
    misfit = np.where(np.isnan(M), 0.0, Z - M)
    return 0.5 * np.sum(misfit**2) + alpha * np.linalg.svd(Z, compute_uv=False)[theta:].sum()


def soft_step(Z, M, theta, alpha):
    """One step of soft-impute, by a full SVD."""
    U, s, Vt = np.linalg.svd(np.where(np.isnan(M), Z, M), full_matrices=False)
    s[theta:] = np.maximum(s[theta:] - alpha, 0.0)
    return (U * s) @ Vt


def convex_minimiser(M, alpha):
    """Least objective under the trace norm, and where it is taken, by cvxpy."""
    known = (~np.isnan(M)).astype(float)
    Z = cvxpy.Variable(M.shape)
    misfit = cvxpy.multiply(known, Z) - np.nan_to_num(M)
    loss = 0.5 * cvxpy.sum_squares(misfit) + alpha * cvxpy.normNuc(Z)
    least = cvxpy.Problem(cvxpy.Minimize(loss)).solve(solver="SCS", eps=1e-8)
    return least, Z.value


@pytest.mark.parametrize("alpha", [0.2, 1.0])
def test_the_trace_norm_agrees_with_cvxpy(alpha):
    _, M = planted((8, 6), 2, 0.6, 0.2, 1)
    least, Z = convex_minimiser(M, alpha)
    done = complete(M, TraceNorm(alpha), tol=1e-8)
    assert done.objective == pytest.approx(least, rel=1e-5)
    np.testing.assert_allclose(done.dense(), Z, atol=1e-3)


# Long and short sides of every kind: Lanczos's method alone finds all triplets but the last.
SHAPES = [(30, 3), (3, 30), (2, 12), (12, 2), (1, 9), (9, 1), (6, 6), (20, 9)]


@pytest.mark.parametrize("alpha", [0.05, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_factored_finds_every_singular_value(shape, alpha):
    _, M = planted(shape, min(shape), 0.8, 0.3, 4)
    done = complete(M, TraceNorm(alpha), method="factored")
    assert done.converged
    assert done.objective == pytest.approx(convex_minimiser(M, alpha)[0], rel=1e-4)


@pytest.mark.parametrize("max_rank", [None, 2, 3])
@pytest.mark.parametrize("theta", [0, 1, 2])
@pytest.mark.parametrize("shape", [(30, 3), (3, 12), (4, 4)])
def test_factored_in_closed_form_with_a_bound_on_the_rank(shape, theta, max_rank):
    """All is observed: the best matrix of bounded rank is a proximal map, cut off."""
    M = np.random.default_rng(2).standard_normal(shape)
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    s[theta:] = np.maximum(s[theta:] - 0.1, 0.0)
    U, s, Vt = U[:, :max_rank], s[:max_rank], Vt[:max_rank]
    done = complete(M, TailSum(theta, 0.1), method="factored", max_rank=max_rank)
    assert done.converged
    np.testing.assert_allclose(done.dense(), (U * s) @ Vt, atol=1e-5)


def test_factored_makes_no_full_matrix_where_the_rank_is_low():
    generator = np.random.default_rng(0)
    n, count = 3000, 30_000
    places = np.unique(generator.integers(n * n, size=count))
    rows, cols = np.divmod(places, n)
    left, right = generator.standard_normal((2, n))
    M = sp.csr_array((left[rows] * right[cols], (rows, cols)), shape=(n, n))
    tracemalloc.start()
    done = complete(M, TailSum(1, 5.0), method="factored", tol=1e-3, max_iter=20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert done.rank < 50
    assert peak < 8 * n * n / 2


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    theta=st.integers(0, 4),
    alpha=st.floats(0.05, 5.0),
    share=st.floats(0.1, 1.0),
)
@example(seed=437, theta=0, alpha=5.0, share=0.6)
def test_record_and_certificate_are_true(seed, theta, alpha, share):
    generator = np.random.default_rng(seed)
    M = generator.standard_normal((9, 6))
    M[generator.random(M.shape) > share] = NAN
    M[2, 3] = 1.0
    done = complete(M, TailSum(theta, alpha), tol=1e-6)
    Z = done.dense()
    assert done.objective == pytest.approx(objective(Z, M, theta, alpha), rel=1e-8, abs=1e-10)
    # Where zero is the answer the two are sums of the same squares, in another order.
    assert done.objective <= objective(np.zeros_like(Z), M, theta, alpha) * (1 + 1e-12)
    if done.converged:
        moved = np.linalg.norm(soft_step(Z, M, theta, alpha) - Z) / np.linalg.norm(np.nan_to_num(M))
        assert moved <= 2e-6


@pytest.mark.parametrize("theta", [0, 2])
def test_no_worse_than_soft_impute(theta):
    _, M = planted((20, 15), 2, 0.5, 0.1, 0)
    Z = np.zeros_like(M)
    for _ in range(3000):
        Z = soft_step(Z, M, theta, 0.5)
    done = complete(M, TailSum(theta, 0.5), tol=1e-7)
    assert done.objective <= objective(Z, M, theta, 0.5) * (1 + 1e-8)
    assert done.n_iter < 300


def test_a_full_matrix_needs_the_prox_alone():
    M = np.random.default_rng(0).standard_normal((6, 5))
    np.testing.assert_allclose(complete(M, TailSum(1, 0.7)).dense(), soft_step(M, M, 1, 0.7), atol=1e-5)


@pytest.mark.parametrize("penalty", [TraceNorm(1.0), TailSum(3, 1.0), TailSum(2, 0.5)])
def test_factored_equals_dense(penalty):
    _, M = planted((60, 50), 3, 0.4, 0.1, 0)
    known = ~np.isnan(M)
    stored = sp.csr_array((M[known], np.nonzero(known)), shape=M.shape)
    dense = complete(M, penalty, method="dense", tol=1e-7)
    factored = complete(stored, penalty, method="factored", tol=1e-7)
    assert factored.rank == dense.rank
    np.testing.assert_allclose(factored.dense(), dense.dense(), atol=1e-5)
    assert factored.objective == pytest.approx(dense.objective, rel=1e-9)


@pytest.mark.parametrize("as_format", [sp.coo_array, sp.csr_array, sp.csc_matrix])
def test_stored_zeros_are_observed(as_format):
    rows, cols = np.array([0, 0, 1, 2, 2]), np.array([0, 1, 1, 0, 2])
    values = np.array([1.0, 0.0, 2.0, 0.5, 0.0])
    M = np.full((3, 3), NAN)
    M[rows, cols] = values
    stored = as_format(sp.coo_array((values, (rows, cols)), shape=(3, 3)))
    expected = complete(M, TraceNorm(0.1)).dense()
    np.testing.assert_allclose(complete(stored, TraceNorm(0.1)).dense(), expected, atol=1e-10)


def test_empty_rows_and_columns_come_out_as_zero():
    _, M = planted((12, 10), 2, 0.7, 0.1, 0)
    M[3], M[:, 4] = NAN, NAN
    for options in ({}, {"exact": True}):
        Z = complete(M, TailSum(2, 0.5), **options).dense()
        np.testing.assert_allclose(Z[3], 0.0, atol=1e-6)
        np.testing.assert_allclose(Z[:, 4], 0.0, atol=1e-6)


def test_warm_start_and_max_rank():
    _, M = planted((30, 20), 3, 0.6, 0.1, 0)
    first = complete(M, TraceNorm(1.0))
    again = complete(M, TraceNorm(1.0), start=first)
    assert again.n_iter == 1
    assert again.objective == pytest.approx(first.objective, rel=1e-12)
    assert complete(M, TraceNorm(0.1), max_rank=4).rank <= 4


def test_nothing_penalised_interpolates():
    _, M = planted((6, 5), 2, 0.6, 0.1, 0)
    for penalty in (TailSum(5, 1.0), TraceNorm(0.0)):
        done = complete(M, penalty)
        np.testing.assert_allclose(done.dense(), np.nan_to_num(M), atol=1e-12)
        assert "closed form" in done.status


@pytest.mark.parametrize("exact", [False, True])
def test_every_step_is_recorded(exact):
    _, M = planted((20, 15), 2, 0.6, 0.1, 0)
    done = complete(M, TailSum(2, 0.5), exact=exact, tol=1e-4)
    lines = done.history.as_dict()
    assert done.n_iter == len(done.history) == len(lines["iteration"])
    assert np.all(np.diff(lines["seconds"]) > 0)
    assert done.status == "Converged: the residual is at most tol."
    short = complete(M, TailSum(2, 0.5), exact=exact, tol=0.0, max_iter=3)
    assert (short.n_iter, short.converged) == (3, False)
    assert short.status.startswith("Stopped at max_iter with the residual above tol")


def test_history_never_rises_at_the_final_alpha():
    _, M = planted((40, 30), 3, 0.3, 0.1, 0)
    lines = complete(M, TailSum(3, 0.5)).history.as_dict()
    final = lines["objective"][lines["phase"] == "alpha=0.5"]
    assert len(final) > 2
    assert np.all(np.diff(final) <= 1e-12 * final[0])


def test_the_tail_sum_recovers_what_the_trace_norm_shrinks():
    """Small sizes and few seeds of benchmarks/completion.py, alpha chosen alike for both."""
    for share in (0.3, 0.5):
        for seed in range(3):
            truth, M = planted((40, 30), 2, share, 0.1, seed)
            errors = {}
            for theta in (0, 2):
                alpha = select_alpha(M, theta, n_alphas=8, random_state=seed).alpha
                Z = complete(M, TailSum(theta, alpha), tol=1e-4).dense()
                errors[theta] = np.linalg.norm(Z - truth)
            assert errors[2] < 0.9 * errors[0]


@pytest.mark.parametrize("seed", [2, 6, 9])
def test_a_start_at_the_truth_is_no_better(seed):
    """Little is observed: a start at the zero-filled matrix ends in points with huge free values."""
    truth, M = planted((60, 50), 3, 0.2, 0.1, seed)
    U, s, Vt = np.linalg.svd(truth, full_matrices=False)
    done = complete(M, TailSum(3, 2.0), tol=1e-5)
    at_truth = replace(done, factors=Factors(U[:, :3], s[:3], Vt[:3].T))
    best = complete(M, TailSum(3, 2.0), start=at_truth, tol=1e-5)
    assert done.objective <= best.objective * (1 + 1e-4)
    assert np.linalg.norm(done.dense() - truth) < 0.1 * np.linalg.norm(truth)


@pytest.mark.parametrize("theta", [1, 2])
def test_alpha_is_chosen_by_factors_as_by_full_decompositions(theta):
    _, M = planted((30, 3), 2, 0.7, 0.1, 0)
    dense, factored = (
        select_alpha(M, theta, n_alphas=4, method=name, random_state=0) for name in ("dense", "factored")
    )
    assert factored.alpha == pytest.approx(dense.alpha, rel=1e-9)
    np.testing.assert_allclose(factored.errors, dense.errors, rtol=1e-3)
