"""Complexities against all sign matrices of small problems, cases by hand, cvxpy and Ky Fan's theorem."""

from __future__ import annotations

import math

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from lrml.theory import Spectrum, global_complexity, local_complexity
from lrml.theory._complexity import LocalBall, ascend, bracket, with_tail  # suprema without sampling noise

DUAL = {"trace": 2, "frobenius": "fro", "operator": "nuc"}
every_reading = pytest.mark.parametrize("signs", ["entry", "example"])


def decaying_rows(n=40, d=6):
    return np.random.default_rng(0).normal(size=(n, d)) * np.exp(-np.arange(d) / 2)


@every_reading
@pytest.mark.parametrize("ball", DUAL)
def test_global_complexity_agrees_with_all_sign_matrices(ball, signs, every_product):
    X = np.random.default_rng(0).normal(size=(5, 4)) * [3.0, 1.0, 0.5, 0.1]
    exact = 2.5 * np.mean([np.linalg.norm(M, DUAL[ball]) for M in every_product(X, 2, signs)])
    found = global_complexity(X, 2, ball=ball, radius=2.5, signs=signs, n_draws=4000, random_state=1)
    assert abs(found.mean - exact) <= 3 * found.standard_error
    assert found.standard_error < 0.02 * exact


def test_the_standard_error_is_that_of_the_mean_of_draws():
    # Two examples of one feature, one label: |σ₁ + σ₂|/2 is 0 or 1 with probability ½ each.
    found = global_complexity([[1.0], [1.0]], 1, n_draws=5, random_state=0)
    assert found.standard_error == pytest.approx(math.sqrt(found.mean * (1 - found.mean) / 4))
    assert 0 < found.mean < 1


@every_reading
def test_a_single_example_by_hand(signs):
    # XᵀΣ = xΣ has rank one, ‖x‖ = 3 and ‖Σ‖ = √L = 2. In the local class W lies along x.
    X = [[1.0, 2.0, 2.0]]
    for ball in DUAL:
        assert global_complexity(X, 4, ball=ball, signs=signs, radius=2.0, n_draws=3).mean == pytest.approx(
            12
        )
    for r, exact in ((0.25, 1.0), (100.0, 6.0)):
        found = local_complexity(X, 4, r, signs=signs, n_draws=2)
        assert (found.lower.mean, found.upper.mean) == (pytest.approx(exact), pytest.approx(exact))


@pytest.mark.parametrize("ball", DUAL)
def test_sparse_rows_stay_sparse_and_blocks_change_nothing_but_the_draws(ball, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise AssertionError("X was made dense")

    X = sp.random_array((30, 8), density=0.3, rng=np.random.default_rng(0), format="csr")
    dense = global_complexity(X.toarray(), 4, ball=ball, random_state=7)
    monkeypatch.setattr(sp.csr_array, "toarray", refuse)
    assert global_complexity(X, 4, ball=ball, random_state=7).mean == pytest.approx(dense.mean, rel=1e-12)
    monkeypatch.setattr("lrml.theory._data._BLOCK_BYTES", 8 * 30 * 4 * 7)
    blocks = global_complexity(X, 4, ball=ball, n_draws=2000, random_state=8)
    assert blocks.n_draws == 2000
    assert abs(blocks.mean - dense.mean) <= 3 * math.hypot(blocks.standard_error, dense.standard_error)


@pytest.mark.parametrize("shape", [(5, 12), (12, 5)])
def test_the_spectrum_is_that_of_numpy_without_axes_of_rounding(shape):
    rng = np.random.default_rng(4)
    X = rng.normal(size=shape)
    X[1] = X[0]  # one axis less
    X[:, 1] = X[:, 0]
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


@pytest.mark.parametrize(("r", "tail"), [(0.01, math.inf), (0.3, math.inf), (0.01, 0.3), (1.0, 0.5)])
def test_the_bracket_holds_the_supremum_of_convex_classes(r, tail):
    spectrum = Spectrum.of(decaying_rows())
    rng = np.random.default_rng(1)
    for _ in range(3):
        M = spectrum.coordinates(rng.choice([-1.0, 1.0], size=(40, 4)))
        lower, upper = bracket(M, LocalBall(spectrum.eigenvalues, 1.0, r), 0, tail)
        exact = by_cvxpy(M, spectrum.eigenvalues, r, tail)
        assert lower * (1 - 1e-5) <= exact <= upper * (1 + 1e-5)
        assert upper <= lower * (1 + 1e-9 if tail == math.inf else 1.25)


@pytest.mark.parametrize("theta", [1, 2, 3])
@pytest.mark.parametrize("r", [0.01, 0.2, 4.0])
def test_the_bracket_closes_for_low_rank(theta, r):
    found = local_complexity(decaying_rows(), 5, r, theta=theta, tail=0.0, n_draws=5, random_state=0)
    assert found.lower.mean == pytest.approx(found.upper.mean, rel=1e-6)


@pytest.mark.parametrize("theta", [0, 2])
def test_tails_lead_from_low_rank_to_no_constraint(theta):
    options = {"X": decaying_rows(), "n_labels": 5, "r": 0.1, "n_draws": 2, "random_state": 0}
    tails = (0.0, 1e-300, 1e-12, 1e-3, 0.1, 1.0, 10.0, 1e300)
    found = [local_complexity(theta=theta, tail=tail, **options) for tail in tails]
    assert found[1].upper.mean == pytest.approx(found[0].upper.mean)
    assert found[-1] == found[-2] == local_complexity(**options)
    uppers, lowers = ([getattr(one, side).mean for one in found] for side in ("upper", "lower"))
    assert np.all(np.array(lowers) <= np.array(uppers) * (1 + 1e-9))
    assert np.all(np.array(uppers) <= uppers[-1] * (1 + 1e-9))
    assert uppers == pytest.approx(sorted(uppers), rel=1e-3)
    assert lowers[3:6] == pytest.approx(uppers[3:6], rel=0.25)


@pytest.mark.parametrize("theta", [1, 2])
def test_low_rank_members_of_white_data_are_ky_fan_s(theta, every_product):
    X = math.sqrt(4) * np.eye(4)  # S = I, so the class is a ball of radius min(1, √r)
    sigma = np.linalg.svd(every_product(X, 2), compute_uv=False)
    exact = 0.5 * np.mean(np.sqrt(np.sum(sigma[:, :theta] ** 2, axis=1)))
    found = local_complexity(X, 2, 0.25, theta=theta, tail=0.0, n_draws=100, random_state=0)
    for side in found:
        assert abs(side.mean - exact) <= 3 * side.standard_error + 1e-12


def test_one_sign_per_example_has_no_tail_beyond_the_first_value():
    options = {"signs": "example", "n_draws": 4, "random_state": 0}
    found = local_complexity(decaying_rows(), 5, 0.1, theta=1, tail=0.2, **options)
    assert found == local_complexity(decaying_rows(), 5, 0.1, **options)


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


@settings(max_examples=20, deadline=None)
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_labels", 0),
        ("n_draws", 1),
        ("radius", -1.0),
        ("ball", "nuclear"),
        ("signs", "row"),
        ("X", [[np.nan]]),
    ],
)
def test_wrong_arguments_are_named(name, value):
    with pytest.raises(ValueError, match=rf"\b{name}\b"):
        global_complexity(**({"X": [[1.0]], "n_labels": 1} | {name: value}))
