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
from lrml.core.penalties import TailSum, TraceNorm
from lrml.solvers import Factors, Status

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


def convex_minimum(M, alpha):
    """Least objective under the trace norm, by cvxpy."""
    known = (~np.isnan(M)).astype(float)
    Z = cvxpy.Variable(M.shape)
    misfit = cvxpy.multiply(known, Z) - np.nan_to_num(M)
    loss = 0.5 * cvxpy.sum_squares(misfit) + alpha * cvxpy.normNuc(Z)
    return cvxpy.Problem(cvxpy.Minimize(loss)).solve(solver="SCS", eps=1e-8)


# Long and short sides of every kind: Lanczos's method alone finds all triplets but the last.
SHAPES = [(30, 3), (3, 30), (1, 9), (6, 6)]


@pytest.mark.parametrize("alpha", [0.05, 1.0])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_trace_norm_agrees_with_cvxpy_by_all_singular_values(shape, alpha):
    _, M = planted(shape, min(shape), 0.8, 0.3, 4)
    least = convex_minimum(M, alpha)
    for method in ("dense", "factored"):
        done = complete(M, TraceNorm(alpha), method=method)
        assert done.converged
        assert done.objective == pytest.approx(least, rel=1e-4)


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
        assert done.status == Status.EXACT.value


@pytest.mark.parametrize("exact", [False, True])
def test_every_step_is_recorded(exact):
    _, M = planted((20, 15), 2, 0.6, 0.1, 0)
    done = complete(M, TailSum(2, 0.5), exact=exact, tol=1e-4)
    lines = done.history.as_dict()
    assert done.n_iter == len(done.history) == len(lines["iteration"])
    assert np.all(np.diff(lines["seconds"]) > 0)
    assert done.status == Status.RESIDUAL_SMALL.value
    short = complete(M, TailSum(2, 0.5), exact=exact, tol=0.0, max_iter=3)
    assert (short.n_iter, short.converged) == (3, False)
    assert short.status == Status.RESIDUAL_LARGE.value


def test_the_objective_never_rises_at_the_final_alpha():
    _, M = planted((40, 30), 3, 0.3, 0.1, 0)
    lines = complete(M, TailSum(3, 0.5)).history.as_dict()
    final = lines["objective"][lines["phase"] == "alpha=0.5"]
    assert len(final) > 2
    assert np.all(np.diff(final) <= 1e-12 * final[0])


def test_the_tail_sum_recovers_what_the_trace_norm_shrinks():
    """Small sizes and few seeds of benchmarks/completion.py, alpha chosen alike for both."""
    for share, seed in ((0.3, 0), (0.3, 1), (0.5, 2)):
        truth, M = planted((40, 30), 2, share, 0.1, seed)
        errors = []
        for theta in (0, 2):
            alpha = select_alpha(M, theta, n_alphas=8, random_state=seed).alpha
            Z = complete(M, TailSum(theta, alpha), tol=1e-4).dense()
            errors.append(np.linalg.norm(Z - truth))
        assert errors[1] < 0.9 * errors[0]


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


def test_the_alpha_of_a_matrix_without_noise_by_hand():
    """Every fit of a diagonal matrix is known: held-out values are estimated by 0, whatever alpha."""
    M = np.where(np.eye(4) == 1, np.diag([4.0, 3.0, 2.0, 1.0]), NAN)
    found = select_alpha(M, 1, share=0.5, n_alphas=3, random_state=0)
    np.testing.assert_allclose(found.alphas, [3.0, 3e-3 * 1e3**0.5, 3e-3])
    held = np.random.default_rng(0).permutation(4)[:2]
    np.testing.assert_allclose(found.errors, np.sqrt(np.mean((4.0 - held) ** 2)), rtol=1e-3)
    assert found.alpha in found.alphas


GOOD = np.array([[1.0, NAN, 2.0], [NAN, 1.0, 1.0]])


@pytest.mark.parametrize(
    ("M", "penalty", "options", "named"),
    [
        (np.full((2, 3), NAN), TraceNorm(1.0), {}, "M"),
        (np.array([[1.0, np.inf]]), TraceNorm(1.0), {}, "row 0, column 1"),
        (GOOD * 1e160, TraceNorm(1.0), {}, "row 0, column 2"),
        (sp.coo_array((np.ones(2), ([1, 1], [2, 2]))), TraceNorm(1.0), {}, "row 1, column 2"),
        (GOOD, TailSum(3, 1.0), {}, "theta is 3"),
        (GOOD, TraceNorm(1.0), {"method": "sparse"}, "method"),
        (GOOD, TraceNorm(1.0), {"exact": True, "method": "factored"}, "exact=True"),
        (GOOD, TraceNorm(0.0), {"method": "factored"}, "alpha=0"),
        (GOOD, TraceNorm(1.0), {"exact": True, "max_rank": 1}, "max_rank"),
        (GOOD, TailSum(2, 1.0), {"max_rank": 1}, "max_rank is 1"),
        (GOOD, TraceNorm(1.0), {"max_iter": 0}, "max_iter"),
        (GOOD, TraceNorm(1.0), {"tol": -1.0}, "tol"),
        (GOOD, TraceNorm(1.0), {"start": 3}, "start is 3"),
        (GOOD, TraceNorm(0.1), {"start": complete(GOOD.T, TraceNorm(0.1))}, r"\(2, 3\)"),
    ],
)
def test_wrong_values_are_named(M, penalty, options, named):
    with pytest.raises(ValueError, match=rf"(^|\W){named}"):
        complete(M, penalty, **options)


@pytest.mark.parametrize("penalty", [1.0, TailSum(1, 1.0, rule="paper")])
def test_other_penalties_are_refused(penalty):
    with pytest.raises(TypeError, match="penalty"):
        complete(GOOD, penalty)


def test_values_wants_pairs():
    with pytest.raises(ValueError, match=r"\(2,\).*\(1,\)"):
        complete(GOOD, TraceNorm(0.1)).values([0, 1], [0])


def test_zeros_are_completed_by_zeros():
    done = complete(np.array([[0.0, NAN], [NAN, 0.0]]), TraceNorm(1.0))
    assert done.rank == 0
    np.testing.assert_array_equal(done.dense(), np.zeros((2, 2)))


@pytest.mark.parametrize(
    ("name", "value"),
    [("share", 1.5), ("share", "a"), ("n_alphas", 0), ("random_state", "x"), ("theta", -1), ("theta", 4)],
)
def test_wrong_choices_of_alpha_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        select_alpha(GOOD, **{name: value})
