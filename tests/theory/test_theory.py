"""Complexities and bounds against all sign matrices of small problems, cases by hand, cvxpy and Ky Fan."""

from __future__ import annotations

import math
from itertools import product

import cvxpy as cp
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
    local_dual_bound,
    local_rate,
    prediction_bound,
    printed_local_bound,
    theorem1,
    theorem2,
)
from lrml.theory._complexity import LocalBall, bracket  # suprema without sampling noise
from lrml.theory._report import assumption_holds

DUAL = {"trace": 2, "frobenius": "fro", "operator": "nuc"}
SMALL = arrays(np.float64, (4, 3), elements=st.integers(-4, 4).map(float)).filter(np.any)
every_reading = pytest.mark.parametrize("signs", ["entry", "example"])


def every_product(X, n_labels, signs="entry"):
    """All matrices XᵀΣ/n of a small X, for each choice of signs."""
    n, columns = len(X), n_labels if signs == "entry" else 1
    choices = np.array(list(product((-1.0, 1.0), repeat=n * columns))).reshape(-1, n, columns)
    return np.swapaxes(X, 0, 1) @ np.repeat(choices, n_labels // columns, axis=2) / n


def decaying_rows(n=40, d=6):
    return np.random.default_rng(0).normal(size=(n, d)) * np.exp(-np.arange(d) / 2)


@every_reading
@pytest.mark.parametrize("ball", DUAL)
def test_global_complexity_agrees_with_all_sign_matrices(ball, signs):
    X = np.random.default_rng(0).normal(size=(5, 4)) * [3.0, 1.0, 0.5, 0.1]
    exact = 2.5 * np.mean([np.linalg.norm(M, DUAL[ball]) for M in every_product(X, 2, signs)])
    found = global_complexity(X, 2, ball=ball, radius=2.5, signs=signs, n_draws=1500, random_state=1)
    assert abs(found.mean - exact) <= 3 * found.standard_error
    assert found.standard_error < 0.03 * exact


@pytest.mark.parametrize("shape", [(5, 12), (12, 5)])
def test_the_spectrum_is_that_of_numpy_without_axes_of_rounding(shape):
    rng = np.random.default_rng(4)
    X = rng.normal(size=shape)
    X[1], X[:, 1] = X[0], X[:, 0]  # one axis less
    spectrum = Spectrum.of(X)
    _, s, Vt = np.linalg.svd(X)
    rank = np.linalg.matrix_rank(X)
    np.testing.assert_allclose(spectrum.eigenvalues, s[:rank] ** 2 / len(X), rtol=1e-10)
    signs = rng.choice([-1.0, 1.0], size=(len(X), 3))
    expected = np.abs(Vt[:rank] @ X.T @ signs / len(X))
    np.testing.assert_allclose(np.abs(spectrum.coordinates(signs)), expected, atol=1e-10)
    assert Spectrum.of(spectrum) is spectrum


def by_cvxpy(M, s, r, tail):
    """The supremum over a convex class (theta = 0, radius 1) by another program."""
    W = cp.Variable(M.shape)
    limits = [cp.norm(W, "fro") <= 1.0, cp.sum_squares(cp.multiply(np.sqrt(s)[:, None], W)) <= r]
    limits += [cp.normNuc(W) <= tail] if tail < math.inf else []
    return cp.Problem(cp.Maximize(cp.sum(cp.multiply(M, W))), limits).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("n_labels", [4, 9])  # fewer and more than axes
@pytest.mark.parametrize(("r", "tail"), [(0.01, math.inf), (0.3, math.inf), (0.01, 0.3), (1.0, 0.5)])
def test_the_bracket_holds_the_supremum_of_convex_classes(r, tail, n_labels):
    spectrum = Spectrum.of(decaying_rows())
    rng = np.random.default_rng(1)
    for _ in range(2):
        M = spectrum.coordinates(rng.choice([-1.0, 1.0], size=(40, n_labels)))
        lower, upper = bracket(M, LocalBall(spectrum.eigenvalues, 1.0, r), 0, tail)
        exact = by_cvxpy(M, spectrum.eigenvalues, r, tail)
        assert lower * (1 - 1e-5) <= exact <= upper * (1 + 1e-5)
        assert upper <= lower * (1 + 1e-9 if tail == math.inf else 1.25)


@every_reading
@settings(max_examples=25, deadline=None)
@given(X=SMALL, r=st.floats(1e-4, 30.0), radius=st.floats(0.1, 10.0))
def test_bounds_are_never_below_exact_complexities(signs, X, r, radius):
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


def test_global_bounds_by_hand():
    s, n, n_labels = np.full(200, 1 / 200), 1000, 200
    trace = global_bound(s, n, n_labels)
    assert list(trace.terms.values()) == pytest.approx([math.sqrt(math.pi / 2 / n)] * 2)
    assert global_bound(s, n, n_labels, ball="frobenius").value == pytest.approx(math.sqrt(n_labels / n))
    # Few features: √(L/n) Σ √s_j; few labels: L √(tr S/n).
    assert global_bound([4.0, 1.0], 100, 9, ball="operator").value == pytest.approx(0.9)
    assert global_bound(s, n, 2, ball="operator").value == pytest.approx(2 / math.sqrt(n))


@settings(max_examples=20, deadline=None)
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

    exact = math.exp(brentq(excess, -60, 60))
    assert local_rate(spectrum, n, n_labels, radius) == pytest.approx(exact, rel=1e-9)


def test_theorems_and_printed_lines_by_hand():
    x = math.log(100.0) / 200
    assert theorem1(0.3, 200, 0.02).value == pytest.approx(1.2 + math.sqrt(2 * x))
    terms = theorem2(0.3, 200, 0.25, 0.02).terms
    assert list(terms.values()) == pytest.approx([2.4, math.sqrt(2 * x), 3 * x])
    for line, head, tail in (
        ("theorem", 0.1, 0.14),
        ("proof", 0.1, 0.1),
        ("predictions", 0.5**0.5 / 5, 0.14),
    ):
        terms = printed_local_bound([0.8, 0.4, 0.3], 25, 0.5, 1, line=line).terms
        assert list(terms.values()) == pytest.approx([head, tail])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), theta=st.integers(0, 2), share=st.floats(0.1, 1.0))
def test_the_printed_bound_holds_under_its_assumption(seed, theta, share):
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


# In the space of predictions


def in_predictions(X, ridge, products):
    """Z with ⟨M, W⟩ = ⟨Z, F⟩ for F = X̃W/√n, by a pseudo-inverse of X̃ = [X; √ridge I]."""
    stacked = np.vstack([X, math.sqrt(ridge) * np.eye(X.shape[1])])
    return math.sqrt(len(X)) * np.linalg.pinv(stacked).T @ products


@pytest.mark.parametrize(("shape", "ridge"), [((4, 3), 0.0), ((4, 3), 0.7), ((3, 6), 0.0), ((3, 6), 0.7)])
def test_the_axes_of_predictions_keep_their_inner_products_and_singular_values(shape, ridge):
    rng = np.random.default_rng(0)
    X, W = rng.normal(size=shape), rng.normal(size=(shape[1], 2))
    W = X.T @ np.linalg.pinv(X.T) @ W  # what X sees of it
    signs = rng.choice([-1.0, 1.0], size=(shape[0], 2))
    found = Spectrum.of_predictions(X, ridge)
    products = X.T @ signs / len(X)
    ours = np.linalg.svd(found.coordinates(signs), compute_uv=False)
    expected = np.linalg.svd(in_predictions(X, ridge, products), compute_uv=False)[: len(ours)]
    np.testing.assert_allclose(ours, expected, atol=1e-10)
    if ridge == 0:
        np.testing.assert_allclose(found.eigenvalues, 1.0)


@every_reading
@settings(max_examples=25, deadline=None)
@given(X=SMALL, r=st.floats(1e-3, 10.0), ridge=st.sampled_from([0.0, 0.5, 20.0]), share=st.floats(0.0, 1.0))
def test_the_bound_on_predictions_is_never_below_exact_complexities(signs, X, r, ridge, share):
    """Three classes whose suprema are known: the ball, rank one, and a trace norm within the ball."""
    s = Spectrum.of(X).eigenvalues
    values = np.linalg.svd(in_predictions(X, ridge, every_product(X, 2, signs)), compute_uv=False)
    radius = math.sqrt(r)
    for limits, supremum in (
        ({}, radius * np.linalg.norm(values, axis=1)),
        ({"theta": 1, "tail": 0.0}, radius * values[:, 0]),
        ({"theta": 0, "tail": share * radius}, share * radius * values[:, 0]),
    ):
        bound = prediction_bound(s, 4, 2, r, ridge=ridge, signs=signs, **limits).value
        assert bound >= supremum.mean() * (1 - 1e-9)


GLOBAL, LOCAL = (
    {"X": [[1.0]], "n_labels": 1},
    {"eigenvalues": [1.0], "n_examples": 5, "n_labels": 1, "r": 1.0},
)


@pytest.mark.parametrize(
    ("function", "valid", "wrong"),
    [
        (global_complexity, GLOBAL, {"n_labels": 0, "n_draws": 1, "radius": -1.0, "ball": "nuclear"}),
        (global_complexity, GLOBAL, {"signs": "row", "X": [[np.nan]]}),
        (local_bound, LOCAL, {"r": 0.0, "tail": -1.0, "eigenvalues": [-1.0], "theta": 0.5}),
        (theorem1, {"complexity": 0.1, "n_examples": 10}, {"delta": 1.0, "complexity": -1.0}),
        (
            printed_local_bound,
            {"singular_values": [1.0], "n_examples": 1, "r": 1.0, "theta": 1},
            {"line": "a"},
        ),
        *(
            (
                printed_local_bound,
                {"singular_values": [1.0], "n_examples": 1, "r": 1.0, "theta": 1},
                {"singular_values": values},
            )
            for values in ([-1.0, 2.0], [np.nan], [np.inf], [[1.0]], 1.0)
        ),
        (global_bound, {"n_examples": 5, "n_labels": 1}, {"eigenvalues": 1.0}),
        (local_rate, {"n_examples": 5}, {"eigenvalues": 1.0}),
    ],
)
def test_wrong_arguments_are_named(function, valid, wrong):
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=rf"\b{name}\b"):
            function(**(valid | {name: value}))
