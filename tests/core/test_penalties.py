"""Penalties and their proximal maps, against brute force and full SVDs."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lrml.core.arrays import to_numpy
from lrml.core.penalties import (
    Ranks,
    TailSum,
    TraceNorm,
    accurate_singular_values,
    gram_noise,
    right_singular,
    spectral_prox,
)
from namespaces import assert_same, put

PENALTIES = [
    TailSum(0, 0.7),
    TailSum(1, 0.7),
    TailSum(3, 2.0),
    TailSum(5, 1.0),
    TailSum(9, 1.0),
    TraceNorm(0.7),
    TailSum(0, 0.7, max_rank=2),
    TailSum(1, 0.7, max_rank=3),
    TailSum(3, 0.7, max_rank=2),
    TailSum(0, 0.0, max_rank=2),
    TailSum(2, np.inf),
]


def tail_sum(matrix, theta, alpha, max_rank=None):
    """The definition, by a full SVD."""
    sigma = np.linalg.svd(matrix, compute_uv=False)
    if max_rank is not None and np.any(sigma[max_rank:] > 1e-9):
        return np.inf
    return alpha * sigma[theta:max_rank].sum()


def prox_objective(Z, Q, theta, alpha, step, max_rank=None):
    return 0.5 * np.sum((Z - Q) ** 2) + step * tail_sum(Z, theta, alpha, max_rank)


def majoriser(slopes, sigma):
    """Σ c_j σ_j with 0 · ∞ = 0."""
    return slopes[sigma > 0] @ sigma[sigma > 0]


descending = hnp.arrays(float, st.integers(1, 8), elements=st.floats(0, 10)).map(lambda s: np.sort(s)[::-1])


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@settings(max_examples=50)
@given(sigma=descending, step=st.floats(0.01, 3))
def test_contract_of_every_penalty(penalty, sigma, step):
    """prox stays descending and non-negative, is no worse than staying put, and slopes majorise the value."""
    shrunk = penalty.prox(sigma, step)
    assert shrunk.shape == sigma.shape
    assert np.all(np.diff(shrunk) <= 0)
    assert np.all((shrunk >= 0) & (shrunk <= sigma))
    moved = 0.5 * np.sum((shrunk - sigma) ** 2) + step * penalty.value(shrunk)
    assert moved <= step * penalty.value(sigma) + 1e-12
    slopes = penalty.slopes(sigma)
    assert penalty.value(sigma) == pytest.approx(majoriser(slopes, sigma))  # tight at sigma
    other = np.sort(np.random.default_rng(0).uniform(0, 10, sigma.shape))[::-1]
    for shuffled in (other, other[::-1]):  # an upper bound whichever way the values are matched to the slopes
        assert penalty.value(other) <= majoriser(slopes, shuffled) + 1e-9
    assert np.all(slopes[: penalty.n_free] == 0)
    # A step of length 0 leads to the nearest permitted values.
    nearest = penalty.prox(sigma, 0.0)
    assert penalty.value(nearest) < np.inf
    np.testing.assert_array_equal(nearest, np.where(np.isfinite(slopes), sigma, 0.0))


@settings(max_examples=100)
@given(
    sigma=descending.filter(lambda s: len(s) <= 5),
    limit=st.integers(0, 8),
    alpha=st.floats(0.05, 3),
    theta=st.integers(0, 4),
)
def test_prox_of_limited_rank_is_the_best_of_all_subsets(sigma, limit, alpha, theta):
    """Keep any values at any price: the least of ½‖p − σ‖² + Ω(p) over all subsets, free ones among them."""
    penalty = TailSum(theta, alpha, max_rank=limit)
    kept = penalty.prox(sigma, 0.5)
    gains = np.array([[0.5 * s**2, 0.5 * max(s - 0.5 * alpha, 0.0) ** 2] for s in sigma])
    best = 0.0
    for subset in product([None, 0, 1], repeat=len(sigma)):
        chosen = [i for i, kind in enumerate(subset) if kind is not None]
        if len(chosen) <= limit and subset.count(0) <= theta:
            best = max(best, sum(gains[i, subset[i]] for i in chosen))
    ours = 0.5 * np.sum((kept - sigma) ** 2) + 0.5 * penalty.value(kept)
    assert ours == pytest.approx(0.5 * np.sum(sigma**2) - best, abs=1e-9)
    assert np.count_nonzero(kept) <= limit


@settings(max_examples=25, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    theta=st.integers(0, 4),
    alpha=st.floats(0.05, 3),
    max_rank=st.none() | st.integers(0, 5),
    seed=st.integers(0, 2**31),
)
def test_exact_prox_is_never_beaten(shape, theta, alpha, max_rank, seed):
    """1,000 rivals: near and far noise, other ranks, other shrinkage of the same singular vectors."""
    rng = np.random.default_rng(seed)
    Q = rng.normal(size=shape)
    best = spectral_prox(Q, TailSum(theta, alpha, max_rank=max_rank), 0.5)
    ours = prox_objective(best.matrix, Q, theta, alpha, 0.5, max_rank)
    U, s, Vt = np.linalg.svd(Q, full_matrices=False)
    scales = 10.0 ** rng.uniform(-6, 1, size=500)
    rivals = [best.matrix + scale * rng.normal(size=shape) for scale in scales]
    rivals += [(U * (s * rng.uniform(0, 1.2, size=s.shape))) @ Vt for _ in range(300)]
    rivals += [(U * (s * rng.integers(0, 2, size=s.shape))) @ Vt for _ in range(150)]
    rivals += [scale * Q for scale in np.linspace(0, 1.2, 50)]
    assert len(rivals) == 1000
    values = np.array([prox_objective(rival, Q, theta, alpha, 0.5, max_rank) for rival in rivals])
    assert ours <= values.min() + 1e-10


def test_papers_rule_is_beaten_when_the_head_is_below_the_threshold():
    """Theorem 4 as printed drops a free singular value that is at most C; that costs σ²/2 for nothing."""
    Q = np.diag([3.0, 0.8, 0.3])
    printed = spectral_prox(Q, TailSum(2, 1.0, rule="paper"), 1.0).matrix
    exact = spectral_prox(Q, TailSum(2, 1.0), 1.0).matrix
    np.testing.assert_allclose(printed, np.diag([3.0, 0.0, 0.0]), atol=1e-12)
    np.testing.assert_allclose(exact, np.diag([3.0, 0.8, 0.0]), atol=1e-12)
    excess = prox_objective(printed, Q, 2, 1.0, 1.0) - prox_objective(exact, Q, 2, 1.0, 1.0)
    assert excess == pytest.approx(0.8**2 / 2)


@given(sigma=descending, theta=st.integers(0, 8), step=st.floats(0.01, 2))
def test_papers_rule_agrees_where_the_head_exceeds_the_threshold(sigma, theta, step):
    exact = TailSum(theta, 1.0).prox(sigma, step)
    printed = TailSum(theta, 1.0, rule="paper").prox(sigma, step)
    if np.all(sigma[:theta] > step):
        np.testing.assert_array_equal(printed, exact)
    else:
        assert np.any(printed < exact) or np.any(sigma[:theta] == 0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_trace_norm_is_soft_thresholding(place, dtype):
    sigma = put(place, np.array([3.0, 1.0, 0.2], dtype=dtype))
    assert_same(TraceNorm(0.5).prox(sigma, 1.0), [2.5, 0.5, 0.0], place, dtype, rtol=1e-7)
    assert_same(TailSum(1, 0.5).prox(sigma, 1.0), [3.0, 0.5, 0.0], place, dtype, rtol=1e-7)
    assert_same(TailSum(2, 0.5, rule="paper").prox(sigma, 2.0), [3.0, 0.0, 0.0], place, dtype, rtol=1e-7)
    assert_same(TailSum(2, 0.5).slopes(sigma), [0.0, 0.0, 0.5], place, dtype)
    assert_same(TailSum(5, 0.5).slopes(sigma), np.zeros(3), place, dtype)
    assert TraceNorm(0.5).value(sigma) == pytest.approx(2.1)
    assert TailSum(1, 0.5).value(sigma) == pytest.approx(0.6)
    assert TailSum(5, 0.5).value(sigma) == 0


def test_trace_norm_leaves_no_value_free():
    with pytest.raises(ValueError, match=r"theta .*3"):
        TraceNorm(1.0, theta=3)
    assert replace(TraceNorm(1.0), alpha=2.0) == TraceNorm(2.0)


@pytest.mark.parametrize("shape", [(40, 7), (7, 40), (9, 9), (5, 1), (1, 5)])
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-12), ("float32", 2e-5)])
def test_spectral_prox_matches_a_full_svd(place, shape, dtype, rtol):
    Q = np.random.default_rng(1).normal(size=shape).astype(dtype)
    U, s, Vt = np.linalg.svd(Q.astype(float), full_matrices=False)
    expected_sigma = np.where(np.arange(len(s)) < 2, s, np.maximum(s - 0.6, 0))
    matrix, sigma = spectral_prox(put(place, Q), TailSum(2, 2.0), 0.3)
    assert_same(sigma, expected_sigma, place, dtype, rtol)
    assert_same(matrix, (U * expected_sigma) @ Vt, place, dtype, rtol)
    matrix, sigma = spectral_prox(put(place, Q), TraceNorm(1e3), 0.3)
    assert_same(sigma, np.zeros(min(shape)), place, dtype)
    assert_same(matrix, np.zeros(shape), place, dtype)


def test_accurate_singular_values(place):
    rng = np.random.default_rng(1)
    U, V = (np.linalg.qr(rng.normal(size=(n, 6)))[0] for n in (20, 6))
    truth = np.array([3.0, 3.0, 1e-3, 1e-9, 1e-12, 0.0])
    found = accurate_singular_values(put(place, (U * truth) @ V.T))
    assert_same(found, truth, place, atol=3e-15)


@pytest.mark.parametrize(("dtype", "small"), [("float64", 1e-11), ("float32", 1e-5)])
def test_tiny_survivors_are_computed_by_the_fallback(place, dtype, small):
    """A free singular value below the noise of the Gram matrix must still come out right."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.normal(size=(n, 4)))[0] for n in (30, 4))
    truth = np.array([1.0, 0.5, small, small / 2])
    Q = put(place, ((U * truth) @ V.T).astype(dtype))
    matrix, sigma = spectral_prox(Q, TailSum(3, 1.0), 0.1)
    assert small < gram_noise(right_singular(Q)[0]), "this case must lie below the noise floor of the Gram"
    atol = max(0.05 * small, 10 * float(np.finfo(dtype).eps))  # of a CUDA device: 6e-7 at 1
    assert_same(sigma[:3], truth[:3], place, dtype, atol=atol)
    assert float(sigma[2]) == pytest.approx(small, rel=0.05)
    assert float(sigma[3]) == 0
    assert_same(matrix, (U[:, :3] * truth[:3]) @ V[:, :3].T, place, dtype, atol=small)


@pytest.mark.parametrize("transposed", [False, True])
def test_tiny_values_that_a_weak_trace_norm_spares_are_computed_by_the_fallback(transposed):
    """Whatever rounding makes of the third value in the Gram matrix: for half of the seeds that is 0."""
    truth = np.array([0.9, 0.5, 1e-11])
    for seed in range(50):
        rng = np.random.default_rng(seed)
        U, V = (np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in (30, 3))
        U, V = (V, U) if transposed else (U, V)
        matrix, sigma = spectral_prox((U * truth) @ V.T, TraceNorm(1e-13), 1.0)
        np.testing.assert_allclose(sigma, truth - 1e-13, rtol=1e-3, err_msg=f"seed {seed}")
        np.testing.assert_allclose(U[:, 2] @ matrix @ V[:, 2], sigma[2], rtol=1e-3, err_msg=f"seed {seed}")


NOISY = (0.9, 0.5, 1e-11)


@pytest.mark.parametrize(
    ("sigma", "penalty", "n_svds"),
    [
        (NOISY, TraceNorm(1e-13), 1),
        (NOISY, TraceNorm(1e-5), 0),  # no value below the noise survives it
        (NOISY, TailSum(2, 1e-5), 0),
        (NOISY, TailSum(3, 1e-5), 1),  # the third is free
        (NOISY, TailSum(2, 1e-13), 1),
        *(
            ((1e5, 8e4, 7e4), penalty, 0)
            for penalty in (TraceNorm(1.0), TraceNorm(1e-13), TailSum(2, 1e-13), TailSum(0, 1e7))
        ),
        ((0.0, 0.0, 0.0), TraceNorm(1.0), 0),
    ],
    ids=str,
)
def test_only_a_value_that_may_survive_below_the_noise_needs_an_svd(monkeypatch, sigma, penalty, n_svds):
    """It takes several times as long as the eigendecomposition of the small Gram matrix."""
    rng = np.random.default_rng(0)
    U, V = (np.linalg.qr(rng.normal(size=(n, 3)))[0] for n in (30, 3))
    calls, svd = [], np.linalg.svd
    monkeypatch.setattr(np.linalg, "svd", lambda *args, **more: calls.append(args) or svd(*args, **more))
    for Q in ((U * sigma) @ V.T, (V * sigma) @ U.T):
        spectral_prox(Q, penalty, 1.0)
        assert len(calls) == n_svds
        calls.clear()


@pytest.mark.parametrize("theta", [0, 1])
@pytest.mark.parametrize("sign", ["mixed", "positive", "negative"])
@pytest.mark.parametrize("scale", [1e-170, 1e-158, 1e170, 0.0])
def test_extreme_scales_do_not_overflow(place, scale, sign, theta):
    Q = np.random.default_rng(0).normal(size=(6, 3))
    Q = scale * {"mixed": Q, "positive": np.abs(Q), "negative": -np.abs(Q)}[sign]
    matrix, sigma = map(to_numpy, spectral_prox(put(place, Q), TailSum(theta, scale), 0.1))
    assert np.all(np.isfinite(matrix))
    assert np.all(np.isfinite(sigma))
    if scale:
        U, s, Vt = np.linalg.svd(Q / scale, full_matrices=False)
        expected = np.r_[s[:theta], np.maximum(s[theta:] - 0.1, 0)]
        np.testing.assert_allclose(sigma / scale, expected, rtol=1e-10)
        np.testing.assert_allclose(matrix / scale, (U * expected) @ Vt, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "values", "error"),
    [
        ("theta", [1.5, "a", None, True], TypeError),
        ("theta", [-1], ValueError),
        ("max_rank", [2.0], TypeError),
        ("max_rank", [-1], ValueError),
        ("alpha", [-2.0, np.nan, "b"], ValueError),
        ("rule", ["other"], ValueError),
    ],
)
def test_bad_parameters(name, values, error):
    for value in values:
        with pytest.raises(error, match=rf"{name} .*{value}\b"):
            TailSum(**{"theta": 1, "alpha": 1.0, name: value})


@pytest.mark.parametrize(
    ("penalty", "free", "permitted"),
    [
        (TailSum(1, 2.0), 1, 4),
        (TailSum(0, 2.0, max_rank=3), 0, 3),
        (TailSum(5, 2.0), 4, 4),
        (TailSum(0, 0.0, max_rank=2), 2, 2),
        (TailSum(2, np.inf), 2, 2),
        (TailSum(3, np.inf, max_rank=1), 1, 1),
    ],
    ids=str,
)
def test_ranks_that_cost_nothing_and_that_are_permitted(place, penalty, free, permitted):
    assert Ranks.of(penalty, put(place, np.ones((6, 4)))) == (free, permitted)
