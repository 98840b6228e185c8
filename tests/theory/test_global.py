"""Global complexities: all sign vectors, cases by hand, and bounds that hold for every X."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lrml.theory import Spectrum, global_bound, global_complexity, printed_trace_bound

DUAL = {"trace": 2, "frobenius": "fro", "operator": "nuc"}
SMALL = arrays(np.float64, (4, 3), elements=st.integers(-4, 4).map(float)).filter(np.any)


def mean_norm(products: np.ndarray, ball: str) -> float:
    return float(np.mean([np.linalg.norm(M, DUAL[ball]) for M in products]))


@pytest.mark.parametrize("signs", ["entry", "example"])
@pytest.mark.parametrize("ball", list(DUAL))
def test_agrees_with_all_sign_matrices(ball, signs, every_product):
    X = np.random.default_rng(0).normal(size=(5, 4)) * [3.0, 1.0, 0.5, 0.1]
    exact = 2.5 * mean_norm(every_product(X, 2, signs), ball)
    found = global_complexity(X, 2, ball=ball, radius=2.5, signs=signs, n_draws=4000, random_state=1)
    assert abs(found.mean - exact) <= 3 * found.standard_error
    assert found.standard_error < 0.02 * exact


def test_agrees_with_all_sign_vectors_of_ten_examples(every_product):
    X = np.random.default_rng(5).normal(size=(10, 3))
    exact = mean_norm(every_product(X, 4, "example"), "trace")
    found = global_complexity(X, 4, signs="example", n_draws=4000, random_state=2)
    assert abs(found.mean - exact) <= 3 * found.standard_error


def test_orthonormal_data_with_the_frobenius_ball_have_no_variance():
    Q, _ = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))
    found = global_complexity(Q, 3, ball="frobenius", n_draws=10, random_state=0)
    assert found.mean == pytest.approx(math.sqrt(6 * 3) / 6)  # ‖QᵀΣ‖_F = ‖Σ‖_F = √(nL)
    assert found.standard_error == pytest.approx(0.0, abs=1e-15)


def test_data_of_rank_one_have_one_complexity_for_all_balls():
    X = np.outer([1.0, 1.0, 1.0], [3.0, 4.0])
    # XᵀΣ/n = b (1ᵀΣ)/n: E √(z₁² + z₂²), z sums of three signs, which are ±1 with 3/4 and ±3 with 1/4.
    mean = (9 / 16) * math.sqrt(2) + (6 / 16) * math.sqrt(10) + (1 / 16) * math.sqrt(18)
    for ball in DUAL:
        found = global_complexity(X, 2, ball=ball, n_draws=5000, random_state=3)
        assert abs(found.mean - 5 * mean / 3) <= 3 * found.standard_error


@pytest.mark.parametrize("signs", ["entry", "example"])
@pytest.mark.parametrize("ball", list(DUAL))
def test_a_single_example_by_hand(ball, signs):
    found = global_complexity([[3.0, 4.0]], 9, ball=ball, signs=signs, radius=2.0, n_draws=3, random_state=0)
    assert found.mean == pytest.approx(2.0 * 5.0 * 3.0)
    assert found.mean > printed_trace_bound(1, 2.0 * 5.0).value  # ‖x‖ = 1 after scaling: λ√L, not λ


@pytest.mark.parametrize("ball", list(DUAL))
def test_sparse_rows_give_the_same_numbers_in_one_block_and_in_many(ball, monkeypatch):
    X = sp.random_array((30, 8), density=0.3, rng=np.random.default_rng(0), format="csr")
    options = {"ball": ball, "n_draws": 12, "random_state": 7}
    dense, sparse = global_complexity(X.toarray(), 4, **options), global_complexity(X, 4, **options)
    assert sparse.mean == pytest.approx(dense.mean, rel=1e-12)
    assert global_complexity(X, 4, **options) == sparse
    monkeypatch.setattr("lrml.theory._data._BLOCK_BYTES", 8 * 30 * 4 * 5)
    blocks = global_complexity(X, 4, ball=ball, n_draws=2000, random_state=8)
    assert blocks.n_draws == 2000
    assert abs(blocks.mean - dense.mean) <= 3 * math.hypot(blocks.standard_error, dense.standard_error)


def test_sparse_rows_are_never_made_dense(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("X was made dense")

    X = sp.random_array((40, 6), density=0.2, rng=np.random.default_rng(0), format="csr")
    monkeypatch.setattr(sp.csr_array, "toarray", refuse)
    monkeypatch.setattr(sp.csr_array, "todense", refuse)
    assert global_complexity(X, 3, n_draws=2).mean > 0


@pytest.mark.parametrize("signs", ["entry", "example"])
@pytest.mark.parametrize("ball", list(DUAL))
@settings(max_examples=25, deadline=None)
@given(X=SMALL)
def test_bounds_are_never_below_the_exact_complexity(ball, signs, X, every_product):
    exact = mean_norm(every_product(X, 2, signs), ball)
    bound = global_bound(Spectrum.of(X).eigenvalues, 4, 2, ball=ball, signs=signs)
    assert bound.value >= exact * (1 - 1e-12)


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 40),
    d=st.integers(1, 30),
    n_labels=st.integers(1, 25),
    decay=st.floats(0.0, 2.0),
)
def test_bounds_are_never_below_monte_carlo(seed, n, d, n_labels, decay):
    X = np.random.default_rng(seed).normal(size=(n, d)) * np.arange(1.0, d + 1) ** -decay
    eigenvalues = Spectrum.of(X).eigenvalues
    for ball in DUAL:
        found = global_complexity(X, n_labels, ball=ball, n_draws=30, random_state=seed)
        bound = global_bound(eigenvalues, n, n_labels, ball=ball).value
        # Some bounds are tight, so noise may carry the mean beyond them.
        assert bound >= found.mean - 5 * found.standard_error - 1e-12


def test_chevet_s_bound_needs_far_less_than_all_labels():
    s, n, n_labels = np.full(200, 1 / 200), 1000, 200
    trace = global_bound(s, n, n_labels, ball="trace")
    frobenius = global_bound(s, n, n_labels, ball="frobenius")
    assert frobenius.value == pytest.approx(math.sqrt(n_labels / n))
    assert trace.value == pytest.approx(math.sqrt(math.pi / 2) * 2 / math.sqrt(n))
    assert set(trace.terms) == {"all eigenvalues", "largest eigenvalue"}


@pytest.mark.parametrize("signs", ["entry", "example"])
@settings(max_examples=25, deadline=None)
@given(X=SMALL)
def test_printed_trace_bound_holds_for_rows_of_norm_one_over_root_labels(signs, X, every_product):
    X = X / max(1.0, np.linalg.norm(X, axis=1).max()) / math.sqrt(2)
    assert printed_trace_bound(4).value >= mean_norm(every_product(X, 2, signs), "trace") * (1 - 1e-12)


def test_wide_and_tall_spectra_are_those_of_numpy():
    rng = np.random.default_rng(4)
    for shape in ((5, 12), (12, 5)):
        X = rng.normal(size=shape)
        spectrum = Spectrum.of(X)
        _, s, Vt = np.linalg.svd(X, full_matrices=False)
        np.testing.assert_allclose(spectrum.eigenvalues, s**2 / shape[0], rtol=1e-10)
        signs = rng.choice([-1.0, 1.0], size=(shape[0], 3))
        rows = np.abs(Vt @ X.T @ signs / shape[0])
        np.testing.assert_allclose(np.abs(spectrum.coordinates(signs)), rows, atol=1e-10)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": [1.0, 2.0]}, "X must be 2-D"),
        ({"X": [[np.nan]]}, "X must be finite"),
        ({"n_labels": 0}, "n_labels must be an int of at least 1, got 0"),
        ({"n_draws": 1}, "n_draws must be an int of at least 2, got 1"),
        ({"radius": -1.0}, "radius must be a finite number above 0, got -1.0"),
        ({"ball": "nuclear"}, "ball must be one of"),
        ({"signs": "row"}, "signs must be one of"),
    ],
)
def test_errors_name_rule_value_and_remedy(change, message):
    with pytest.raises(ValueError, match=message):
        global_complexity(**({"X": [[1.0]], "n_labels": 1} | change))
