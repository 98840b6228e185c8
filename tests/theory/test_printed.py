"""The printed local bound: where it fails under its own assumptions, and what makes it true."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrml.theory import printed_assumption, printed_local_bound


def printed_class_supremum(M, r, theta):
    """Largest ⟨M, W⟩ over ‖W‖ ≤ 1, ‖WWᵀ‖ ≤ r (operator norms) and rank ≤ theta, for each of many M."""
    return math.sqrt(min(1.0, r)) * np.linalg.svd(M, compute_uv=False)[:, :theta].sum(axis=1)


@pytest.mark.parametrize("signs", ["entry", "example"])
@pytest.mark.parametrize("r", [0.01, 0.25, 0.81])
def test_one_number_and_one_label_refute_it_in_every_reading(signs, r, every_product):
    # n = d = L = 1 and x = 1: every norm of W is |w|, E[WWᵀ] = E⟨w, x⟩² = w², and the class is |w| ≤ √r.
    complexity = printed_class_supremum(every_product(np.ones((1, 1)), 1, signs), r, 1).mean()
    assert complexity == pytest.approx(math.sqrt(r))
    assert complexity > printed_local_bound([math.sqrt(r)], 1, r, 1).value == pytest.approx(r)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6), d=st.integers(1, 3), n_labels=st.integers(1, 2), share=st.floats(0.01, 0.999)
)
def test_it_fails_below_the_computed_r_for_unit_rows(seed, d, n_labels, share, every_product):
    X = np.random.default_rng(seed).normal(size=(4, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    theta = min(d, n_labels)
    r = share / (2 * theta)  # below tr S / (2 theta), and tr S = 1
    for signs in ("entry", "example"):
        # Members of rank one alone, which every reading of ‖·‖ admits.
        reached = math.sqrt(r) * np.linalg.norm(every_product(X, n_labels, signs), 2, axis=(1, 2)).mean()
        assert reached > printed_local_bound(np.zeros(theta), 4, r, theta).value


def test_the_complexity_grows_with_the_data_and_falls_slower_than_the_bound(every_product):
    X = np.random.default_rng(0).normal(size=(4, 3))
    X /= np.linalg.norm(X, axis=1).max()  # ‖x‖ ≤ 1
    products = every_product(X, 2)
    once, bound = printed_class_supremum(products, 1.0, 2).mean(), printed_local_bound([], 4, 1.0, 2).value
    assert printed_class_supremum(10 * products, 1.0, 2).mean() == pytest.approx(10 * once)
    assert 10 * once > bound  # which does not know X
    # Predictors multiplied by s have ‖WWᵀ‖ ≤ s²: s on the left, s² on the right.
    small, small_bound = printed_class_supremum(products, 1e-4, 2), printed_local_bound([], 4, 1e-4, 2)
    assert small.mean() == pytest.approx(1e-2 * once)
    assert small_bound.value == pytest.approx(1e-4 * bound)
    assert small.mean() > 10 * small_bound.value


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), theta=st.integers(0, 2), share=st.floats(0.1, 1.0))
def test_it_holds_under_the_stated_assumption(seed, theta, share, every_product):
    rng = np.random.default_rng(seed)
    n, n_labels = 4, 2
    left, X = np.linalg.qr(rng.normal(size=(2, 2)))[0], rng.normal(size=(n, 2))
    sigma = np.sort(rng.uniform(0.1, 1.0, 2))[::-1]
    sigma /= np.linalg.norm(sigma)
    # Scale the data along each u_j so that L u_jᵀSu_j = share · σ_j².
    coordinates = X @ left
    coordinates *= sigma * np.sqrt(share * n / n_labels) / np.linalg.norm(coordinates, axis=0)
    X = coordinates @ left.T
    assert printed_assumption(X, left, sigma, n_labels).holds
    # The class U diag(σ) Vᵀ over all orthonormal V: its supremum is the trace norm of diag(σ) UᵀM.
    weighted = sigma[:, None] * (left.T @ every_product(X, n_labels))
    exact = np.linalg.svd(weighted, compute_uv=False).sum(axis=1).mean()
    r = float(np.linalg.norm(sigma**2))
    proof = printed_local_bound(sigma, n, r, theta, line="proof").value
    theorem = printed_local_bound(sigma, n, r, theta).value
    assert exact * (1 - 1e-12) <= proof <= theorem * (1 + 1e-12)


def test_assumption_sees_large_moments_and_directions_without_weight():
    X = np.diag([1.0, 1.0]) * math.sqrt(2)  # S = I
    assert printed_assumption(X, np.eye(2), np.array([1.0, 1.0]), 1).holds
    strong = printed_assumption(X, np.eye(2), np.array([1.0, 0.5]), 1)
    assert (strong.holds, strong.worst_ratio, strong.outside) == (False, pytest.approx(4.0), 0.0)
    missing = printed_assumption(X, np.eye(2)[:, :1], np.array([1.0]), 1)
    assert (missing.holds, missing.outside) == (False, pytest.approx(0.5))


def test_printed_lines_by_hand():
    theorem = printed_local_bound([0.8, 0.4, 0.3], 25, 0.5, 1)
    proof = printed_local_bound([0.8, 0.4, 0.3], 25, 0.5, 1, line="proof")
    assert theorem.terms == {"head": pytest.approx(0.1), "tail of W": pytest.approx(0.14)}
    assert proof.terms == {"head": pytest.approx(0.1), "tail of W": pytest.approx(0.1)}
    with pytest.raises(ValueError, match="line must be one of"):
        printed_local_bound([1.0], 1, 1.0, 1, line="lemma")
