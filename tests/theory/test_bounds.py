"""Bounds: never below exact complexities, formulas by hand, rates, and where the printed one fails."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq

from lrml.theory import (
    Spectrum,
    global_bound,
    global_complexity,
    local_bound,
    local_complexity,
    local_dual_bound,
    local_rate,
    printed_local_bound,
    theorem1,
    theorem2,
)
from lrml.theory._complexity import LocalBall
from lrml.theory._report import assumption_holds

DUAL = {"trace": 2, "frobenius": "fro", "operator": "nuc"}
SMALL = arrays(np.float64, (4, 3), elements=st.integers(-4, 4).map(float)).filter(np.any)
J = np.arange(1.0, 100_001.0)
every_reading = pytest.mark.parametrize("signs", ["entry", "example"])


@every_reading
@settings(max_examples=25, deadline=None)
@given(X=SMALL, r=st.floats(1e-4, 30.0), radius=st.floats(0.1, 10.0))
def test_bounds_are_never_below_exact_complexities(signs, X, r, radius, every_product):
    s, vectors = np.linalg.eigh(X.T @ X / 4)
    s, vectors = s[s > 1e-9 * s[-1]], vectors[:, s > 1e-9 * s[-1]]
    products = every_product(X, 2, signs)
    for ball, dual in DUAL.items():
        exact = radius * np.mean([np.linalg.norm(M, dual) for M in products])
        assert global_bound(s, 4, 2, ball=ball, signs=signs, radius=radius).value >= exact * (1 - 1e-12)
    local = LocalBall(s, radius, r).support(np.sum((vectors.T @ products) ** 2, axis=2))[0].mean()
    found = local_dual_bound(s, 4, 2, r, radius=radius).value
    split = local_bound(s, 4, 2, r, radius=radius, signs=signs).value
    mendelson = math.sqrt(2 * 2 / 4 * np.minimum(r, radius**2 * s).sum())
    assert local * (1 - 1e-9) <= found <= min(split, mendelson) * (1 + 1e-9)


@every_reading
@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 40),
    d=st.integers(1, 12),
    n_labels=st.integers(1, 12),
    theta=st.integers(0, 3),
    tail=st.floats(0.0, 2.0),
)
def test_bounds_are_never_below_monte_carlo(signs, seed, n, d, n_labels, theta, tail):
    X = np.random.default_rng(seed).normal(size=(n, d)) * np.exp(-np.arange(d) / 2)
    s, r = Spectrum.of(X).eigenvalues, 0.1
    draws = {"signs": signs, "n_draws": 10, "random_state": seed}
    for ball in DUAL:
        found = global_complexity(X, n_labels, ball=ball, **draws)
        # Some bounds are tight, so noise may carry the mean beyond them.
        bound = global_bound(s, n, n_labels, ball=ball, signs=signs).value
        assert bound >= found.mean - 5 * found.standard_error - 1e-12
    found = local_complexity(X, n_labels, r, theta=theta, tail=tail, **draws).lower
    bound = local_bound(s, n, n_labels, r, theta=theta, tail=tail, signs=signs).value
    assert bound >= found.mean - 5 * found.standard_error - 1e-12


def test_global_bounds_by_hand():
    s, n, n_labels = np.full(200, 1 / 200), 1000, 200
    trace = global_bound(s, n, n_labels)
    assert list(trace.terms.values()) == pytest.approx([math.sqrt(math.pi / 2 / n)] * 2)
    assert global_bound(s, n, n_labels, ball="frobenius").value == pytest.approx(math.sqrt(n_labels / n))
    # Few features: √(L/n) Σ √s_j; few labels: L √(tr S/n).
    assert global_bound([4.0, 1.0], 100, 9, ball="operator").value == pytest.approx(0.9)
    assert global_bound(s, n, 2, ball="operator").value == pytest.approx(2 / math.sqrt(n))


def test_the_best_split_of_the_axes_by_hand():
    s = np.array([4.0, 1.0, 0.2, 0.01])
    by_hand = [math.sqrt(0.5 * h * 3 / 50) + 2 * math.sqrt(3 / 50 * s[h:].sum()) for h in range(5)]
    best = local_bound(s, 50, 3, 0.5, radius=2.0)
    assert (best.value, best.head_size) == (pytest.approx(min(by_hand)), int(np.argmin(by_hand)))


def test_the_best_split_with_a_tail_by_hand():
    s, n, n_labels, r = np.array([400.0] * 30 + [0.5] * 5), 50, 40, 0.05

    def beyond(h):  # the bound on the operator norm of what the axes after h contribute
        largest = s[h] if h < s.size else 0.0
        chevet = math.sqrt(math.pi / 2 / n) * (math.sqrt(s[h:].sum()) + math.sqrt(n_labels * largest))
        return min(chevet, math.sqrt(n_labels * s[h:].sum() / n))

    by_hand = [
        math.sqrt(r * math.pi / 2 / n) * (math.sqrt(h) + math.sqrt(n_labels)) * bool(h)
        + beyond(h)
        + 0.001 * beyond(0)
        for h in range(s.size + 1)
    ]
    found = local_bound(s, n, n_labels, r, theta=1, tail=0.001)
    assert (found.value, found.head_size) == (pytest.approx(min(by_hand)), int(np.argmin(by_hand)))
    assert found.value < local_bound(s, n, n_labels, r).value
    assert local_bound(s, n, n_labels, r, tail=0.001).value == pytest.approx(0.001 * beyond(0))  # theta = 0


@pytest.mark.parametrize(
    ("name", "value"), [("r", 0.0), ("tail", -1.0), ("eigenvalues", [-1.0]), ("theta", 0.5)]
)
def test_wrong_arguments_are_named(name, value):
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        local_bound(**({"eigenvalues": [1.0], "n_examples": 5, "n_labels": 1, "r": 1.0} | {name: value}))


@settings(max_examples=60, deadline=None)
@given(
    spectrum=st.lists(st.floats(1e-6, 1e3), min_size=1, max_size=20),
    n=st.integers(1, 10**8),
    n_labels=st.integers(1, 9),
    radius=st.floats(0.1, 10.0),
)
def test_the_rate_solves_its_equation(spectrum, n, n_labels, radius):
    def excess(log_r):
        r = math.exp(log_r)
        psi = math.sqrt(2 * n_labels / n * sum(min(r, radius**2 * value) for value in spectrum))
        return math.log(psi) - log_r

    assert local_rate(spectrum, n, n_labels, radius) == pytest.approx(
        math.exp(brentq(excess, -60, 60)), rel=1e-9
    )


def test_rates_of_decaying_spectra():
    sizes = np.array([1e3, 1e4, 1e5, 1e6])

    def slope(x, s):
        return np.polyfit(np.log(x), np.log([local_rate(s, int(n)) for n in sizes]), 1)[0]

    assert slope(np.log(sizes) / sizes, np.exp(-J)) == pytest.approx(1.0, rel=0.05)
    for power in (2.0, 4.0):
        assert slope(sizes, J**-power) == pytest.approx(-power / (power + 1), rel=0.05)


def test_theorems_by_hand():
    x = math.log(100.0) / 200
    assert theorem1(0.3, 200, 0.02).value == pytest.approx(1.2 + math.sqrt(2 * x))
    terms = theorem2(0.3, 200, 0.25, 0.02).terms
    assert list(terms.values()) == pytest.approx([2.4, math.sqrt(2 * x), 3 * x])
    for delta in (0.0, 1.0, math.nan):
        with pytest.raises(ValueError, match="delta"):
            theorem1(0.1, 10, delta)


def test_theorem_1_covers_the_excess_risk_of_threshold_rules():
    """Empirical risk minimisers over 20 thresholds, 300 samples: at most δ of them may exceed the bound."""
    rng = np.random.default_rng(0)
    cuts, n, delta = np.linspace(0.0, 1.0, 20), 100, 0.1
    risks = 0.2 + 0.6 * np.abs(cuts - 0.5)  # labels 1{x > ½} with 20 % noise, x uniform
    excess, suprema = [], []
    for _ in range(300):
        x = rng.uniform(size=n)
        y = (x > 0.5) ^ (rng.uniform(size=n) < 0.2)
        losses = ((x[:, None] > cuts) != y[:, None]).astype(float)
        excess.append(risks[losses.mean(axis=0).argmin()] - risks.min())
        suprema.append((rng.choice([-1.0, 1.0], size=n) @ losses / n).max())
    bound = theorem1(max(0.0, float(np.mean(suprema))), n, delta).value
    assert np.mean(np.array(excess) > bound) <= delta


def test_printed_lines_by_hand():
    for line, tail in (("theorem", 0.14), ("proof", 0.1)):
        terms = printed_local_bound([0.8, 0.4, 0.3], 25, 0.5, 1, line=line).terms
        assert terms == {"head": pytest.approx(0.1), "tail of W": pytest.approx(tail)}
    with pytest.raises(ValueError, match="line"):
        printed_local_bound([1.0], 1, 1.0, 1, line="lemma")


@every_reading
@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 10**6), d=st.integers(1, 3), n_labels=st.integers(1, 2), share=st.floats(0.01, 0.99)
)
def test_the_printed_bound_fails_for_small_r_and_rows_of_norm_one(
    signs, seed, d, n_labels, share, every_product
):
    X = np.random.default_rng(seed).normal(size=(4, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    theta = min(d, n_labels)
    r = share / (2 * theta)  # below tr S / (2 theta), and tr S = 1
    # Members √r uvᵀ alone, which every reading of ‖·‖ admits.
    reached = math.sqrt(r) * np.linalg.norm(every_product(X, n_labels, signs), 2, axis=(1, 2)).mean()
    assert reached > printed_local_bound(np.zeros(theta), 4, r, theta).value


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), theta=st.integers(0, 2), share=st.floats(0.1, 1.0))
def test_the_printed_bound_holds_under_its_assumption(seed, theta, share, every_product):
    rng = np.random.default_rng(seed)
    n, n_labels = 4, 2
    left, X = np.linalg.qr(rng.normal(size=(2, 2)))[0], rng.normal(size=(n, 2))
    sigma = np.sort(rng.uniform(0.1, 1.0, 2))[::-1]
    sigma /= np.linalg.norm(sigma)
    # Scale the data along each u_j so that L u_jᵀSu_j = share · σ_j².
    coordinates = X @ left
    coordinates *= sigma * np.sqrt(share * n / n_labels) / np.linalg.norm(coordinates, axis=0)
    X = coordinates @ left.T
    assert assumption_holds(X, left, sigma, n_labels)
    assert not assumption_holds(X, left, 0.99 * math.sqrt(share) * sigma, n_labels)
    assert not assumption_holds(X, left[:, :1], sigma[:1], n_labels)  # nothing is left for the other axis
    # The class U diag(σ) Vᵀ over all orthonormal V: its supremum is the trace norm of diag(σ) UᵀM.
    weighted = sigma[:, None] * (left.T @ every_product(X, n_labels))
    exact = np.linalg.svd(weighted, compute_uv=False).sum(axis=1).mean()
    r = float(np.linalg.norm(sigma**2))
    proof = printed_local_bound(sigma, n, r, theta, line="proof").value
    assert exact * (1 - 1e-12) <= proof <= printed_local_bound(sigma, n, r, theta).value * (1 + 1e-12)
