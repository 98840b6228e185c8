"""Local complexities: the bracket against cvxpy and cases by hand, and bounds that hold for every X."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lrml.theory import Spectrum, local_bound, local_complexity, local_dual_bound
from lrml.theory._local import LocalBall, ascend, bracket, with_tail  # each supremum, without sampling noise

SMALL = arrays(np.float64, (4, 3), elements=st.integers(-4, 4).map(float)).filter(np.any)
MOMENTS = st.floats(1e-4, 30.0)


def decaying_rows(n=40, d=6, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d)) * np.exp(-np.arange(d) / 2)


def by_cvxpy(M, s, radius, r, tail):
    """Solve the convex case (theta = 0) with another program."""
    W = cp.Variable(M.shape)
    limits = [cp.norm(W, "fro") <= radius, cp.sum_squares(cp.multiply(np.sqrt(s)[:, None], W)) <= r]
    limits += [cp.normNuc(W) <= tail] if tail < math.inf else []
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(M, W))), limits)
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize(
    ("r", "tail"), [(0.01, math.inf), (0.3, math.inf), (0.01, 0.3), (0.1, 1.0), (1.0, 0.5)]
)
def test_bracket_holds_the_supremum_of_the_convex_classes(r, tail):
    spectrum = Spectrum.of(decaying_rows())
    rng = np.random.default_rng(1)
    for _ in range(3):
        M = spectrum.coordinates(rng.choice([-1.0, 1.0], size=(40, 4)))
        lower, upper = bracket(M, LocalBall(spectrum.eigenvalues, 1.0, r), 0, tail)
        exact = by_cvxpy(M, spectrum.eigenvalues, 1.0, r, tail)
        assert lower <= exact * (1 + 1e-5)
        assert upper >= exact * (1 - 1e-5)
        assert upper <= lower * (1 + 1e-9 if tail == math.inf else 1.25)


@pytest.mark.parametrize("theta", [1, 2, 3])
@pytest.mark.parametrize("r", [0.01, 0.2, 4.0])
def test_bracket_closes_for_predictors_of_low_rank(theta, r):
    found = local_complexity(decaying_rows(), 5, r, theta=theta, tail=0.0, n_draws=5, random_state=0)
    assert found.lower.mean == pytest.approx(found.upper.mean, rel=1e-6)


@pytest.mark.parametrize("theta", [0, 2])
def test_tails_from_nothing_to_everything_lead_from_low_rank_to_no_constraint(theta):
    options = {"X": decaying_rows(), "n_labels": 5, "r": 0.1, "n_draws": 2, "random_state": 0}
    tails = (0.0, 1e-300, 1e-12, 1e-3, 0.1, 1.0, 10.0, 1e300)
    found = [local_complexity(theta=theta, tail=tail, **options) for tail in tails]
    free = local_complexity(**options)
    assert found[1].upper.mean == pytest.approx(found[0].upper.mean)
    assert found[-1] == found[-2] == free
    uppers, lowers = ([getattr(one, side).mean for one in found] for side in ("upper", "lower"))
    assert np.all(np.array(lowers) <= np.array(uppers) * (1 + 1e-9))
    assert uppers == pytest.approx(sorted(uppers), rel=1e-3)


@pytest.mark.parametrize("theta", [0, 1, 2])
def test_low_rank_members_of_white_data_are_ky_fan_s(theta, every_product):
    X = math.sqrt(4) * np.eye(4)  # S = I, so the class is a ball of radius min(1, √r)
    products = every_product(X, 2)
    sigma = np.linalg.svd(products, compute_uv=False)
    exact = 0.5 * np.mean(np.sqrt(np.sum(sigma[:, :theta] ** 2, axis=1)))
    found = local_complexity(X, 2, 0.25, theta=theta, tail=0.0, n_draws=300, random_state=0)
    for side in (found.lower, found.upper):
        assert abs(side.mean - exact) <= 3 * side.standard_error + 1e-12


@pytest.mark.parametrize("signs", ["entry", "example"])
@pytest.mark.parametrize(("r", "exact"), [(0.25, 1.0), (100.0, 6.0)])
def test_a_single_example_by_hand(signs, r, exact):
    # W lies along x: ⟨xΣ, W⟩ ≤ √L min(λ‖x‖, √r) with ‖x‖ = 3, L = 4.
    found = local_complexity([[1.0, 2.0, 2.0]], 4, r, signs=signs, n_draws=2)
    assert found.lower.mean == pytest.approx(exact)
    assert found.upper.mean == pytest.approx(exact)


def test_one_sign_per_example_is_the_matrix_with_equal_columns():
    spectrum = Spectrum.of(decaying_rows())
    found = local_complexity(spectrum, 5, 0.1, theta=1, tail=0.2, signs="example", n_draws=4, random_state=0)
    free = local_complexity(spectrum, 5, 0.1, signs="example", n_draws=4, random_state=0)
    assert found == free  # a matrix of rank one has no tail beyond theta = 1
    ball = LocalBall(spectrum.eigenvalues, 1.0, 0.1)
    M = spectrum.coordinates(np.repeat(np.ones((40, 1)), 5, axis=1))
    assert bracket(M, ball, 1, 0.0)[1] == pytest.approx(bracket(M, ball, 0, math.inf)[1])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), theta=st.integers(0, 3), tail=st.floats(0.0, 3.0))
def test_shrinking_the_tail_fills_it_and_never_leaves_the_ball(seed, theta, tail):
    rng = np.random.default_rng(seed)
    W, X = rng.normal(size=(5, 4)), rng.normal(size=(7, 5))
    shrunk = with_tail(W, theta, tail)
    before, after = (np.linalg.svd(A, compute_uv=False) for A in (W, shrunk))
    assert after[theta:].sum() == pytest.approx(min(tail, before[theta:].sum()), abs=1e-9)
    np.testing.assert_allclose(after[:theta], before[:theta])
    assert np.linalg.norm(X @ shrunk) <= np.linalg.norm(X @ W) * (1 + 1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), theta=st.integers(0, 2), tail=st.floats(0.01, 2.0), r=st.floats(1e-3, 3.0))
def test_what_the_search_returns_is_in_the_class(seed, theta, tail, r):
    rng = np.random.default_rng(seed)
    M, s = rng.normal(size=(6, 4)), np.exp(-rng.uniform(0, 4, 6))
    ball = LocalBall(s, 0.8, r)
    members = [ascend(M, with_tail(ball.maximiser(M), theta, tail), ball, theta, tail)[0]]
    if theta:
        members.append(ball.rank_support(M, theta)[1])
        assert np.linalg.matrix_rank(members[1]) <= theta
    for W in members:
        assert np.linalg.norm(W) <= 0.8 * (1 + 1e-9)
        assert np.sum(s[:, None] * W**2) <= r * (1 + 1e-9)
        assert np.linalg.svd(W, compute_uv=False)[theta:].sum() <= tail * (1 + 1e-9)


@pytest.mark.parametrize("signs", ["entry", "example"])
@settings(max_examples=40, deadline=None)
@given(X=SMALL, r=MOMENTS, radius=st.floats(0.1, 10.0))
def test_local_bounds_are_never_below_the_exact_complexity(signs, X, r, radius, every_product):
    s, vectors = np.linalg.eigh(X.T @ X / 4)
    positive = s > 1e-9 * s[-1]
    squares = np.sum((vectors[:, positive].T @ every_product(X, 2, signs)) ** 2, axis=2)
    values, _ = LocalBall(s[positive], radius, r).support(squares)
    exact = values.mean()
    dual = local_dual_bound(s[positive], 4, 2, r, radius=radius).value
    split = local_bound(s[positive], 4, 2, r, radius=radius, signs=signs).value
    mendelson = math.sqrt(2 * 2 / 4 * np.minimum(r, radius**2 * s[positive]).sum())
    assert exact * (1 - 1e-9) <= dual <= split * (1 + 1e-9)
    assert dual <= mendelson * (1 + 1e-9)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    theta=st.integers(0, 4),
    tail=st.floats(0.0, 2.0),
    r=st.floats(1e-3, 3.0),
    signs=st.sampled_from(["entry", "example"]),
)
def test_bounds_with_tail_are_never_below_monte_carlo(seed, theta, tail, r, signs):
    rng = np.random.default_rng(seed)
    n, d, n_labels = (int(size) for size in rng.integers([5, 1, 1], [50, 12, 10]))
    X = rng.normal(size=(n, d)) * np.arange(1.0, d + 1) ** -rng.uniform(0, 2)
    spectrum = Spectrum.of(X)
    options = {"theta": theta, "tail": tail, "signs": signs}
    found = local_complexity(spectrum, n_labels, r, **options, n_draws=8, random_state=seed)
    assert found.lower.mean <= found.upper.mean * (1 + 1e-7)
    bound = local_bound(spectrum.eigenvalues, n, n_labels, r, **options)
    assert bound.value >= found.lower.mean - 5 * found.lower.standard_error
    # The trace-norm ball of radius τ is the class without free values, τ the tail and the radius.
    if tail > 0.01:
        trace = local_bound(spectrum.eigenvalues, n, n_labels, r, ball="trace", radius=tail, signs=signs)
        class_ = {"theta": 0, "tail": tail, "radius": tail, "signs": signs}
        ball = local_complexity(spectrum, n_labels, r, **class_, n_draws=8, random_state=seed)
        assert trace.value >= ball.lower.mean - 5 * ball.lower.standard_error


def test_low_rank_bound_has_theta_times_sum_where_the_plain_one_has_the_product():
    s, n, r = np.ones(100), 10_000, 0.01
    plain = local_bound(s, n, 400, r, head_size=100)
    ranked = local_bound(s, n, 400, r, head_size=100, theta=1, tail=0.0)
    assert plain.value == pytest.approx(math.sqrt(r * 100 * 400 / n))
    assert ranked.value == pytest.approx(math.sqrt(r * math.pi / 2 / n) * (10 + 20))


def test_every_head_size_gives_a_bound_and_the_best_is_returned():
    s = np.array([4.0, 1.0, 0.2, 0.01])
    by_hand = [math.sqrt(0.5 * h * 3 / 50) + 2 * math.sqrt(3 / 50 * s[h:].sum()) for h in range(5)]
    found = [local_bound(s, 50, 3, 0.5, radius=2.0, head_size=h).value for h in range(5)]
    np.testing.assert_allclose(found, by_hand)
    best = local_bound(s, 50, 3, 0.5, radius=2.0)
    assert (best.value, best.head_size) == (pytest.approx(min(by_hand)), int(np.argmin(by_hand)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"r": 0.0}, "r must be a finite number above 0, got 0.0"),
        ({"head_size": 3}, r"head_size must be in \[0, 1\]"),
        ({"ball": "trace", "tail": 1.0}, "a finite tail needs ball='frobenius', got ball='trace'"),
        ({"eigenvalues": [-1.0]}, "eigenvalues must be 1-D, finite and not negative"),
    ],
)
def test_errors_name_rule_value_and_remedy(change, message):
    with pytest.raises(ValueError, match=message):
        local_bound(**({"eigenvalues": [1.0], "n_examples": 5, "n_labels": 1, "r": 1.0} | change))
