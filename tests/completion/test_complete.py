"""Completion and the choice of its alpha, against the paper's example, cvxpy and plain soft-impute."""

import math
import tracemalloc

import cvxpy
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lrml.completion import complete, select_alpha
from lrml.core.penalties import TailSum, TraceNorm

NAN = np.nan
EXAMPLE = np.array([[2, 1, 2, 1], [1, 1, NAN, 2], [1, 1, 2, NAN]])
GOOD = np.array([[1.0, NAN, 2.0], [NAN, 1.0, 1.0]])


def planted(shape, rank, share, noise, seed):
    generator = np.random.default_rng(seed)
    truth = generator.standard_normal((shape[0], rank)) @ generator.standard_normal((rank, shape[1]))
    M = truth + noise * generator.standard_normal(shape)
    return truth, np.where(generator.random(shape) < share, M, NAN)


def tail(matrix, theta):
    """The definition, by a full SVD."""
    return np.linalg.svd(matrix, compute_uv=False)[theta:].sum()


def objective(Z, M, theta, alpha):
    return 0.5 * np.nansum((Z - M) ** 2) + alpha * tail(Z, theta)


def soft_step(Z, M, theta, alpha):
    """One step of soft-impute, by a full SVD."""
    U, s, Vt = np.linalg.svd(np.where(np.isnan(M), Z, M), full_matrices=False)
    s[theta:] = np.maximum(s[theta:] - alpha, 0.0)
    return (U * s) @ Vt


def by_cvxpy(M, alpha=None):
    """The least objective under the trace norm, or the least trace norm if the entries have to agree."""
    known, Z = (~np.isnan(M)).astype(float), cvxpy.Variable(M.shape)
    misfit = cvxpy.multiply(known, Z) - np.nan_to_num(M)
    if alpha is None:
        problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.normNuc(Z)), [misfit == 0])
    else:
        loss = 0.5 * cvxpy.sum_squares(misfit) + alpha * cvxpy.normNuc(Z)
        problem = cvxpy.Problem(cvxpy.Minimize(loss))
    return problem.solve(solver="SCS", eps=1e-8)


@pytest.fixture
def factored(monkeypatch):
    """Make every matrix one that is too large for full decompositions, if told so."""
    return lambda: monkeypatch.setattr("lrml.completion._complete._SHORT_SIDE", 0)


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


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    theta=st.integers(0, 5),
    share=st.floats(0.3, 0.95),
    max_iter=st.sampled_from([2, 300]),
)
def test_exact_keeps_entries_and_is_no_worse_than_the_trace_norm(seed, theta, share, max_iter):
    generator = np.random.default_rng(seed)
    M = generator.standard_normal((8, 5))
    M[generator.random(M.shape) > share] = NAN
    M[0, 0] = 1.0
    known = ~np.isnan(M)
    done = complete(M, TailSum(theta, 2.0), exact=True, tol=1e-5, max_iter=max_iter)
    np.testing.assert_allclose(done.dense()[known], M[known], atol=1e-12)
    assert done.objective == pytest.approx(2.0 * tail(done.dense(), theta), abs=1e-9)
    assert done.n_iter <= max_iter
    if max_iter > 2:
        convex = complete(M, TraceNorm(2.0), exact=True, tol=1e-6, max_iter=2000)
        assert done.objective <= 2.0 * tail(convex.dense(), theta) + 1e-3 * convex.objective


def test_the_solution_under_the_trace_norm_is_not_taken_for_one_under_the_tail_sum():
    """Steps run out just before the first of the convex problems counts as solved."""
    _, M = planted((30, 25), 2, 0.35, 0.0, 1)
    residuals = complete(M, TraceNorm(1.0), exact=True, max_iter=60).history.as_dict()["residual"]
    last = int(np.argmin(residuals))
    done = complete(M, TailSum(2, 1.0), exact=True, tol=1.2 * residuals[last], max_iter=last + 1)
    assert not done.converged


# Long and short sides of every kind: Lanczos's method alone finds all triplets but the last.
@pytest.mark.parametrize("shape", [(30, 3), (3, 30), (1, 9), (6, 6)])
@pytest.mark.parametrize("is_dense", [True, False])
def test_the_trace_norm_agrees_with_cvxpy(shape, is_dense, factored):
    _, M = planted(shape, min(shape), 0.8, 0.3, 4)
    exact = complete(M, TraceNorm(1.0), exact=True, tol=1e-7)
    is_dense or factored()
    for alpha in (0.05, 1.0):
        done = complete(M, TraceNorm(alpha))
        assert done.converged
        assert done.objective == pytest.approx(by_cvxpy(M, alpha), rel=1e-4)
    assert exact.objective == pytest.approx(by_cvxpy(M), rel=1e-4)


@pytest.mark.parametrize("is_dense", [True, False])
@pytest.mark.parametrize("shape", [(12, 3), (4, 4)])
@pytest.mark.parametrize("theta", [0, 2])
def test_the_closed_form_of_a_matrix_without_gaps(shape, theta, is_dense, factored):
    """All is observed: the answer is the proximal map, also with a limit on the rank."""
    is_dense or factored()
    M = np.random.default_rng(2).standard_normal(shape)
    U, s, Vt = np.linalg.svd(M, full_matrices=False)
    for alpha, max_rank in ((0.0, None), (0.1, None), (0.1, 2), (math.inf, 3), (math.inf, 0)):
        penalty = TailSum(theta, alpha, max_rank=max_rank)
        done = complete(M, penalty)
        assert done.converged
        np.testing.assert_allclose(done.dense(), (U * penalty.prox(s, 1.0)) @ Vt, atol=1e-5)


def test_no_full_matrix_is_made_where_the_rank_is_low():
    generator = np.random.default_rng(0)
    n, count = 2500, 25_000
    places = np.unique(generator.integers(n * n, size=count))
    rows, cols = np.divmod(places, n)
    left, right = generator.standard_normal((2, n))
    M = sp.csr_array((left[rows] * right[cols], (rows, cols)), shape=(n, n))
    tracemalloc.start()
    done = complete(M, TailSum(1, 5.0), tol=1e-3, max_iter=20)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert done.rank < 50
    assert peak < 8 * n * n / 2


@settings(max_examples=12, deadline=None)
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


@pytest.mark.parametrize(
    ("penalty", "as_format"), [(TraceNorm(1.0), sp.coo_array), (TailSum(2, 0.5), sp.csc_matrix)]
)
def test_factored_and_sparse_equal_dense(penalty, as_format, factored):
    _, M = planted((40, 30), 3, 0.4, 0.1, 0)
    M[:, 7] *= 0.0  # stored zeros are observed
    known = ~np.isnan(M)
    dense = complete(M, penalty, tol=1e-7)
    choice = select_alpha(M, penalty.theta, n_alphas=4, random_state=0)
    factored()
    stored = as_format(sp.coo_array((M[known], np.nonzero(known)), shape=M.shape))
    found = complete(stored, penalty, tol=1e-7)
    assert found.rank == dense.rank
    np.testing.assert_allclose(found.dense(), dense.dense(), atol=1e-5)
    assert found.objective == pytest.approx(dense.objective, rel=1e-9)
    same = select_alpha(stored, penalty.theta, n_alphas=4, random_state=0)
    assert same.alpha == pytest.approx(choice.alpha, rel=1e-9)
    np.testing.assert_allclose(same.errors, choice.errors, rtol=1e-3)


@pytest.mark.parametrize(
    ("M", "penalty", "options", "named"),
    [
        (np.full((2, 3), NAN), TraceNorm(1.0), {}, "M"),
        (np.array([[1.0, np.inf]]), TraceNorm(1.0), {}, "M"),
        (sp.coo_array((np.ones(2), ([1, 1], [2, 2]))), TraceNorm(1.0), {}, "row 1, column 2"),
        (GOOD, TailSum(3, 1.0), {}, "theta is 3"),
        (GOOD, TraceNorm(1.0, max_rank=1), {"exact": True}, "max_rank"),
        (GOOD, TraceNorm(1.0), {"max_iter": 0}, "max_iter"),
        (GOOD, TraceNorm(1.0), {"tol": -1.0}, "tol"),
        (GOOD, TraceNorm(1.0), {"start": 3}, "start is 3"),
        (GOOD, TraceNorm(0.1), {"start": complete(GOOD.T, TraceNorm(0.1))}, r"\(2, 3\)"),
        (GOOD, 1.0, {}, "penalty"),
        (GOOD, TailSum(1, 1.0, rule="paper"), {}, "penalty"),
    ],
)
def test_wrong_values_are_named(M, penalty, options, named):
    with pytest.raises((TypeError, ValueError), match=rf"(^|\W){named}"):
        complete(M, penalty, **options)


@pytest.mark.parametrize(
    ("name", "value"), [("share", 1.5), ("share", "a"), ("n_alphas", 0), ("theta", -1), ("theta", 4)]
)
def test_wrong_choices_of_alpha_are_named(name, value):
    with pytest.raises(ValueError, match=name):
        select_alpha(GOOD, **{name: value})
