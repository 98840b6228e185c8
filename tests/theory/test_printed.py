"""The printed local bound: where it fails under its own assumptions, and what makes it true."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from lrml.theory import (
    printed_assumption,
    printed_bound_fails_below,
    printed_class_complexity,
    printed_local_bound,
    scale_data,
    scale_predictors,
)


@pytest.mark.parametrize("signs", ["entry", "example"])
@pytest.mark.parametrize("r", [0.01, 0.25, 0.81])
def test_one_number_and_one_label_refute_it_in_every_reading(signs, r):
    # n = d = L = 1 and x = 1: every norm of W is |w|, E[WWᵀ] = E⟨w, x⟩² = w², and the class is |w| ≤ √r.
    found = printed_class_complexity([[1.0]], 1, r, 1, signs=signs, n_draws=2)
    assert found.mean == pytest.approx(math.sqrt(r))
    assert printed_local_bound([math.sqrt(r)], 1, r, 1).value == pytest.approx(r)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6), d=st.integers(1, 3), n_labels=st.integers(1, 2), share=st.floats(0.01, 0.999)
)
def test_it_fails_below_the_computed_r_for_unit_rows(seed, d, n_labels, share, every_product):
    X = np.random.default_rng(seed).normal(size=(4, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    theta = min(d, n_labels)
    limit = printed_bound_fails_below(X, theta)
    assert limit == pytest.approx(min(1.0, 1 / (2 * theta)))
    r = share * limit
    for signs in ("entry", "example"):
        # Members of rank one alone, which every reading of ‖·‖ admits.
        reached = math.sqrt(r) * np.linalg.norm(every_product(X, n_labels, signs), 2, axis=(1, 2)).mean()
        assert reached > printed_local_bound(np.zeros(theta), 4, r, theta).value


def test_complexity_of_the_printed_class_against_linear_programming(every_product):
    X = np.random.default_rng(0).normal(size=(4, 3))
    r, theta, tail = 0.36, 1, 0.5
    values = []
    for M in every_product(X, 2):
        sigma = np.linalg.svd(M, compute_uv=False)
        limits = np.zeros((1, 2))
        limits[0, theta:] = 1.0
        values.append(-linprog(-sigma, A_ub=limits, b_ub=[tail], bounds=[(0, 0.6)] * 2).fun)
    found = printed_class_complexity(X, 2, r, theta, tail=tail, n_draws=4000, random_state=0)
    assert abs(found.mean - np.mean(values)) <= 3 * found.standard_error


def test_ten_times_the_data_is_ten_times_the_complexity_and_the_same_bound():
    X = np.random.default_rng(0).normal(size=(20, 4))
    X /= np.linalg.norm(X, axis=1).max()
    once, ten, hundred = scale_data(X, 3, r=0.5, theta=2, tail=0.1, n_draws=20)
    assert ten.complexity.mean == pytest.approx(10 * once.complexity.mean)
    assert hundred.complexity.mean == pytest.approx(100 * once.complexity.mean)
    assert (
        once.bound == ten.bound == hundred.bound == pytest.approx((0.5 * math.sqrt(2) + 0.1) / math.sqrt(20))
    )
    assert hundred.complexity.mean - 3 * hundred.complexity.standard_error > hundred.bound


def test_small_predictors_fall_like_s_and_the_bound_like_its_square():
    X = np.random.default_rng(0).normal(size=(20, 4))
    X /= np.linalg.norm(X, axis=1).max()  # ‖x‖ ≤ 1
    one, tenth, hundredth = scale_predictors(X, 3, r=1.0, n_draws=20)
    assert tenth.complexity.mean == pytest.approx(0.1 * one.complexity.mean)
    assert hundredth.complexity.mean == pytest.approx(0.01 * one.complexity.mean)
    assert tenth.bound == pytest.approx(0.01 * one.bound)
    assert hundredth.bound == pytest.approx(1e-4 * one.bound)
    assert hundredth.complexity.mean > 10 * hundredth.bound


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
