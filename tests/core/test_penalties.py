"""Penalties and their proximal maps, against brute force and full SVDs."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.integrate import quad

from lrml.core.arrays import HOST, to_numpy
from lrml.core.linalg import gram_noise, right_singular, spectral_prox
from lrml.core.penalties import Separable, ranks_of
from lrml.penalties import (
    MCP,
    SCAD,
    Capped,
    LogSum,
    OptimalShrinker,
    Rank,
    SchattenHalf,
    TailSum,
    TraceNorm,
    Weighted,
)
from namespaces import assert_same, put

PENALTIES = [
    TailSum(0, 0.7),
    TailSum(1, 0.7),
    TailSum(9, 1.0),
    TailSum(0, 0.7, max_rank=2),
    TailSum(1, 0.7, max_rank=3),
    TailSum(3, 0.7, max_rank=2),
    TailSum(2, np.inf),
    Weighted([0.0, 0.2, 1.5]),
    Weighted.adaptive(np.array([9.0, 5.0, 2.0]), 2.0, 1.0),
    Rank(0.7),
    Capped(0.7, 2.0),
    MCP(0.7),
    MCP(1.5, 0.2),
    SCAD(0.7),
    SCAD(2.0, 1.1),
    LogSum(0.7),
    LogSum(3.0, 0.1),
    SchattenHalf(0.7),
]

descending = hnp.arrays(float, st.integers(1, 6), elements=st.floats(0, 10)).map(lambda s: np.sort(s)[::-1])


def majoriser(penalty, sigma, other):
    """Ω(σ) + Σ c_j (σ'_j − σ_j), with 0 · ∞ = 0."""
    slopes, moved = penalty.slopes(sigma), other - sigma
    return penalty.value(sigma) + slopes[moved != 0] @ moved[moved != 0]


@pytest.mark.parametrize("penalty", PENALTIES, ids=str)
@settings(max_examples=40)
@given(sigma=descending, step=st.floats(0.01, 12), seed=st.integers(0, 2**31))
def test_contract_of_every_penalty(penalty, sigma, step, seed):
    shrunk = penalty.prox(sigma, step)
    assert shrunk.shape == sigma.shape
    assert np.all(np.diff(shrunk) <= 0)
    assert np.all((shrunk >= 0) & (shrunk <= sigma))
    # A step of length 0 leads to the nearest permitted values.
    permitted = np.arange(len(sigma)) < ranks_of(penalty, len(sigma))[1]
    nearest = penalty.prox(sigma, 0.0)
    np.testing.assert_allclose(nearest, np.where(permitted, sigma, 0.0), rtol=1e-12, atol=1e-12)
    assert np.all(penalty.slopes(sigma)[: penalty.n_free] == 0)
    # No rival is better than the map, and none is above the majoriser.
    ours = 0.5 * np.sum((shrunk - sigma) ** 2) + step * penalty.value(shrunk)
    random = np.random.default_rng(seed)
    for factor in (random.uniform(0, 1.2, 20), random.integers(0, 2, 20), 1 + 1e-3 * random.normal(size=20)):
        for other in (np.sort(sigma * scale)[::-1] for scale in factor):
            assert ours <= 0.5 * np.sum((other - sigma) ** 2) + step * penalty.value(other) + 1e-12
    other = np.sort(random.uniform(0, 10, sigma.shape))[::-1]
    slopes = penalty.slopes(nearest)
    assert np.all(np.diff(slopes[slopes < np.inf]) >= -1e-12)
    for rival in (
        other,
        other[::-1],
        np.where(nearest > 0, other, 0.0),
    ):  # in any order
        assert penalty.value(np.sort(rival)[::-1]) <= majoriser(penalty, nearest, rival) + 1e-9


@pytest.mark.parametrize("penalty", [one for one in PENALTIES if isinstance(one, Separable)], ids=str)
@settings(max_examples=60)
@given(y=st.floats(0, 10), step=st.floats(0, 12))
def test_maps_of_single_values_are_never_beaten(penalty, y, step):
    """By any x of a fine grid, and of a finer one around the best of these; steps beyond gamma too."""
    found = penalty.prox(np.array([y]), step)
    ours = 0.5 * (found[0] - y) ** 2 + step * penalty.value(found)
    low, high = 0.0, y
    for _ in range(2):
        grid = np.linspace(low, high, 2001)
        costs = 0.5 * (grid - y) ** 2 + step * penalty.prices(grid)
        assert ours <= costs.min() + 1e-12 * (1 + y * y)
        at = int(np.argmin(costs))
        low, high = grid[max(at - 1, 0)], grid[min(at + 1, 2000)]


@pytest.mark.parametrize("beta", [1.0, 0.5, 0.1])
def test_optimal_shrinker_is_the_published_formula(beta):
    """With the median of the Marčenko-Pastur density by quadrature."""
    low, high = (1 - beta**0.5) ** 2, (1 + beta**0.5) ** 2

    def below(t):
        density = lambda x: np.sqrt((high - x) * (x - low)) / (2 * np.pi * beta * x)  # noqa: E731
        return quad(density, low, t)[0]

    ends = [low, high]
    for _ in range(40):
        middle = sum(ends) / 2
        ends[int(below(middle) > 0.5)] = middle
    shrinker, n = OptimalShrinker((round(1000 * beta), 1000)), 1000
    sigma = np.array([9.0, 3.0, 2.5, 2.0, 1.5, 1.0, 0.5])
    noise = np.median(sigma) / np.sqrt(n * ends[0])
    assert shrinker.noise_of(sigma) == pytest.approx(noise, rel=1e-3)
    assert OptimalShrinker(shrinker.shape[::-1], noise=3.0).noise_of(sigma) == 3.0
    y = sigma / (np.sqrt(n) * noise)
    kept = y > 1 + np.sqrt(beta)
    expected = np.sqrt(np.maximum((y**2 - beta - 1) ** 2 - 4 * beta, 0)) / y * kept * np.sqrt(n) * noise
    np.testing.assert_allclose(shrinker.prox(sigma), expected, rtol=2e-3)
    assert shrinker.prox(np.zeros(3)).tolist() == [0, 0, 0]
    assert OptimalShrinker(shrinker.shape, noise=1e-300).prox(sigma).tolist() == sigma.tolist()


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


def test_papers_rule_is_beaten_when_the_head_is_below_the_threshold():
    """Theorem 4 as printed drops a free singular value that is at most C; that costs σ²/2 for nothing."""
    Q = np.diag([3.0, 0.8, 0.3])
    printed = spectral_prox(Q, TailSum(2, 1.0, rule="paper"), 1.0)[0]
    exact = spectral_prox(Q, TailSum(2, 1.0), 1.0)[0]
    np.testing.assert_allclose(printed, np.diag([3.0, 0.0, 0.0]), atol=1e-12)
    np.testing.assert_allclose(exact, np.diag([3.0, 0.8, 0.0]), atol=1e-12)
    costs = [0.5 * np.sum((Z - Q) ** 2) + TailSum(2, 1.0).value(np.diag(Z)) for Z in (printed, exact)]
    assert costs[0] - costs[1] == pytest.approx(0.8**2 / 2)


@pytest.mark.parametrize("shape", [(40, 7), (7, 40), (9, 9), (5, 1), (1, 5)])
@pytest.mark.parametrize(("dtype", "rtol"), [("float64", 1e-12), ("float32", 2e-5)])
def test_spectral_prox_matches_a_full_svd(place, shape, dtype, rtol):
    Q = np.random.default_rng(1).normal(size=shape).astype(dtype)
    U, s, Vt = np.linalg.svd(Q.astype(float), full_matrices=False)
    expected_sigma = np.where(np.arange(len(s)) < 2, s, np.maximum(s - 0.6, 0))
    matrix, sigma = spectral_prox(put(place, Q), TailSum(2, 2.0), 0.3)
    assert_same(sigma, expected_sigma, HOST, dtype, rtol)
    assert_same(matrix, (U * expected_sigma) @ Vt, place, dtype, rtol)
    matrix, sigma = spectral_prox(put(place, Q), TraceNorm(1e3), 0.3)
    assert_same(sigma, np.zeros(min(shape)), HOST, dtype)
    assert_same(matrix, np.zeros(shape), place, dtype)


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
    assert_same(sigma[:3], truth[:3], HOST, dtype, atol=atol)
    assert float(sigma[2]) == pytest.approx(small, rel=0.05)
    assert float(sigma[3]) == 0
    assert_same(matrix, (U[:, :3] * truth[:3]) @ V[:, :3].T, place, dtype, atol=small)


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
    ("name", "values"),
    [
        ("theta", [1.5, "a", None, True, -1]),
        ("max_rank", [2.0, -1]),
        ("alpha", [-2.0, np.nan, "b"]),
        ("rule", ["other"]),
    ],
)
def test_bad_parameters(name, values):
    for value in values:
        with pytest.raises(ValueError, match=rf"{name} .*{value}\b"):
            TailSum(**{"theta": 1, "alpha": 1.0, name: value})


@pytest.mark.parametrize(
    "make",
    [
        *(lambda bad, kind=kind: kind(bad, 2.0) for kind in (Capped, MCP, SCAD, LogSum)),
        *(lambda bad, kind=kind: kind(1.0, bad and -1.0) for kind in (Capped, MCP, SCAD, LogSum)),
        *(Rank, SchattenHalf, lambda bad: Weighted([bad]), Weighted),
    ],
)
def test_bad_parameters_of_relatives(make):
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=r"alpha|gamma|cap|epsilon|weights"):
            make(bad)


@pytest.mark.parametrize(
    "given",
    [{"noise": bad} for bad in (-1.0, np.nan, np.inf, "x")]
    + [{"shape": bad} for bad in ((0, 0), (-1, 3), "x", (3,), 3, (2.5, 2))],
)
def test_bad_parameters_of_the_shrinker(given):
    with pytest.raises(ValueError, match=r"noise|side|shape"):
        OptimalShrinker(**given)


@pytest.mark.parametrize(
    ("penalty", "free", "permitted"),
    [
        (TailSum(1, 2.0), 1, 4),
        (TailSum(0, 2.0, max_rank=3), 0, 3),
        (TailSum(5, 2.0), 4, 4),
        (TailSum(0, 0.0, max_rank=2), 2, 2),
        (TailSum(2, np.inf), 2, 2),
        (TailSum(3, np.inf, max_rank=1), 1, 1),
        (Rank(1.0), 0, 4),
        (MCP(0.0), 4, 4),
        (SchattenHalf(1.0), 0, 4),
        (Weighted([0.0, 0.0, 1.0]), 2, 4),
    ],
    ids=str,
)
def test_ranks_that_cost_nothing_and_that_are_permitted(penalty, free, permitted):
    assert ranks_of(penalty, 4) == (free, permitted)
