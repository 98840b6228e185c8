"""Sufficient statistics: the definition in every form, sums of blocks, and the digits that survive."""

import tracemalloc
from functools import reduce
from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import lrml.core.moments
from lrml.core.arrays import HOST, to_numpy
from lrml.core.moments import Statistics
from namespaces import assert_same, put

FIELDS = ("n_rows", "weight", "x_mean", "y_mean", "xx", "xy", "yy")
WEIGHTED = pytest.mark.parametrize("weighted", [False, True])


def assert_equal_sums(a, b, rtol=1e-10, but=()):
    for name in set(FIELDS) - set(but):
        scale = max(1.0, np.max(np.abs(getattr(b, name))))  # all sums here are of order 1 or more
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name), rtol=0, atol=rtol * scale, err_msg=name
        )


def data(seed=0, n=60, d=7, n_labels=4, density=0.3, positives=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    Y = (rng.random((n, n_labels)) < positives).astype(float)
    return X, Y, rng.uniform(0, 2, size=n)


def pandas_sparse(M):
    return pd.DataFrame(M).astype(pd.SparseDtype(float, 0.0))


# Frames, arrays and sparse matrices of X and of Y.
FORMS = [
    (np.asarray, np.asarray),
    (np.asarray, sp.csr_array),
    (sp.csr_matrix, np.asarray),
    (sp.csc_array, sp.csc_matrix),
    (sp.coo_array, sp.csr_array),
    (sp.bsr_array, lambda Y: Y.astype(int)),
    (pd.DataFrame, lambda Y: pl.DataFrame(Y.astype(int))),
    (pandas_sparse, pd.DataFrame),
]


@WEIGHTED
@pytest.mark.parametrize("size", [{}, {"d": 300, "n_labels": 20, "positives": 0.03}], ids=["small", "wide"])
@pytest.mark.parametrize("forms", FORMS)
def test_equals_the_definition(forms, size, weighted):
    X, Y, w = data(**size)
    w = w if weighted else np.ones(len(X))
    got = Statistics.from_arrays(forms[0](X), forms[1](Y), w if weighted else None)
    xm, ym = np.average(X, axis=0, weights=w), np.average(Y, axis=0, weights=w)
    np.testing.assert_allclose(got.xx, (X - xm).T @ np.diag(w) @ (X - xm), atol=1e-12)
    np.testing.assert_allclose(got.xy, (X - xm).T @ np.diag(w) @ (Y - ym), atol=1e-12)
    assert got.yy == pytest.approx(np.sum(w[:, None] * (Y - ym) ** 2))
    raw = got.moments(fit_intercept=False)
    np.testing.assert_allclose(raw.gram, X.T @ np.diag(w) @ X, atol=1e-12)
    np.testing.assert_allclose(raw.cross, X.T @ np.diag(w) @ Y, atol=1e-12)
    assert raw.target == pytest.approx(np.sum(w[:, None] * Y**2))
    centred = got.moments(fit_intercept=True)
    assert (centred.gram is got.xx, centred.cross is got.xy, centred.target) == (True, True, got.yy)
    assert (got.n_rows, got.n_features, got.n_labels) == (*X.shape, Y.shape[1])
    assert got.weight == pytest.approx(w.sum())


@settings(max_examples=40)
@given(
    cuts=st.lists(st.integers(1, 59), max_size=5, unique=True), sparse=st.booleans(), seed=st.integers(0, 99)
)
def test_blocks_equal_the_whole_and_order_is_free(cuts, sparse, seed):
    X, Y, w = data(seed)
    if sparse:
        X = sp.csr_array(X)
    edges = [0, *sorted(cuts), 60]
    blocks = [(X[a:b], Y[a:b], w[a:b]) for a, b in pairwise(edges)]
    whole = Statistics.from_arrays(X, Y, w)
    assert_equal_sums(reduce(Statistics.absorb, (Statistics.from_arrays(*block) for block in blocks)), whole)
    assert_equal_sums(
        reduce(Statistics.absorb, (Statistics.from_arrays(*block) for block in reversed(blocks))), whole
    )
    if len(blocks) > 1:  # taking a block away again leaves the rest
        rest = reduce(Statistics.absorb, (Statistics.from_arrays(*block) for block in blocks[1:]))
        assert_equal_sums(whole - Statistics.from_arrays(*blocks[0]), rest, rtol=1e-8)


@WEIGHTED
def test_sparse_data_is_never_dense(weighted):
    """A dense copy of either matrix would take 400 or 160 MB; the result itself takes 2 MB."""
    rng = np.random.default_rng(0)
    n, d, n_labels = 200_000, 250, 100
    X = sp.random_array((n, d), density=0.01, format="csr", rng=rng)
    Y = sp.random_array((n, n_labels), density=0.01, format="csr", rng=rng)
    tracemalloc.start()
    Statistics.from_arrays(X, Y, np.ones(n) if weighted else None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40e6


# Digits


@WEIGHTED
@pytest.mark.parametrize("sparse", ["X", "Y", "both"])
def test_sparse_columns_far_from_zero_keep_their_digits(sparse, weighted):
    """Σ w x² − (Σ w) x̄² would lose all of them at 1e8; the other columns stay sparse and in their places."""
    X, Y, w = data()
    w = w if weighted else None
    far_X, far_Y = X + np.array([0, 1e8, 0, -3e7, 0, 0, 1e8]), Y + np.array([0, 0, 2e8, 0])
    rounded_X, rounded_Y = far_X - far_X[0], far_Y - far_Y[0]  # what is left of the digits, exactly
    expected = Statistics.from_arrays(rounded_X, rounded_Y, w)
    got = Statistics.from_arrays(
        sp.csr_array(far_X) if sparse != "Y" else far_X, sp.csr_array(far_Y) if sparse != "X" else far_Y, w
    )
    np.testing.assert_allclose(got.xx, expected.xx, atol=1e-6)
    np.testing.assert_allclose(got.xy, expected.xy, atol=1e-6)
    assert got.yy == pytest.approx(expected.yy)
    np.testing.assert_allclose(got.x_mean, expected.x_mean + far_X[0], rtol=1e-15)
    np.testing.assert_allclose(got.y_mean, expected.y_mean + far_Y[0], rtol=1e-15)


@WEIGHTED
@pytest.mark.parametrize("matrix", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("constant", [0.1, 3.0, 1e8, 1e200, 1e-200])
def test_constant_columns_have_exactly_no_variance(constant, matrix, weighted):
    X, Y, w = data()
    X[:, 2] = constant
    stats = Statistics.from_arrays(matrix(X), matrix(np.full_like(Y, 3.0)), w if weighted else None)
    assert stats.x_mean[2] == constant
    assert not np.any(stats.xx[2])
    assert not np.any(stats.xy[2])
    assert stats.yy < 1e-10


# What is refused


@pytest.mark.parametrize("matrix", [np.asarray, sp.csr_array])
@WEIGHTED
def test_squares_beyond_float64_are_refused(matrix, weighted):
    X, Y, w = data()
    w = 1e-3 * w if weighted else None
    for wrong, where in ((1e200 * X, "1e308"), (X * np.r_[1e-200, np.ones(6)], "underflow")):
        with pytest.raises(ValueError, match=f"(?s)X.*{where}.*StandardScaler"):
            Statistics.from_arrays(matrix(wrong), Y, w)


def test_rows_and_columns_that_do_not_fit_are_refused():
    X, Y, w = data()
    whole, other = Statistics.from_arrays(X, Y, w), Statistics.from_arrays(X[:5], Y[:5, 1:], w[:5])
    weightless = Statistics.from_arrays(X[:5], Y[:5], np.zeros(5))
    for wrong, found in (
        (lambda: Statistics.from_arrays(X, Y[:-1]), " 60 .*59"),
        (lambda: Statistics.from_arrays(X[:0], Y[:0]), "X .* 0"),
        (lambda: whole + other, r"\(7, 4\) .*\(7, 3\)"),
        (lambda: whole - other, r"\(7, 4\) .*\(7, 3\)"),
        (lambda: whole - Statistics.from_arrays(X, Y, w / 2), "60 − 60 rows"),
        (lambda: (whole + weightless) - whole, r"65 − 60 rows \(weight 0"),
    ):
        with pytest.raises(ValueError, match=found):
            wrong()
    last = whole - Statistics.from_arrays(X[:-1], Y[:-1], w[:-1])
    assert_equal_sums(last, Statistics.from_arrays(X[-1:], Y[-1:], w[-1:]))


# Other places


@WEIGHTED
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("blocked", [False, True])
def test_every_place_sums_as_numpy_does(monkeypatch, place, weighted, dtype, blocked):
    """Arrays that live there, and NumPy's and SciPy's that are summed there, in one block or several."""
    X, Y, w = data()
    X, w = (X + np.r_[1e4, np.zeros(6)]).astype(dtype), np.where(np.arange(60) % 7, w, 0.0)
    X[:, 2] = 0.1
    w = w if weighted else None
    expected = Statistics.from_arrays(X, Y, w)
    if blocked:
        monkeypatch.setattr(lrml.core.moments, "_DEVICE_ENTRIES", 64)
        monkeypatch.setattr(lrml.core.moments, "_BLOCK_ENTRIES", 64)
        monkeypatch.setattr(lrml.core.moments, "_PANEL_ENTRIES", 20)
    there = Statistics.from_arrays(*(None if M is None else put(place, M) for M in (X, Y, w)))
    moved = Statistics.from_arrays(sp.csr_array(X), sp.csc_array(Y), w, place=place)
    for found in (there, moved, expected.at(place), there.at(HOST).at(place)):
        assert found.place == place
        for name in ("x_mean", "y_mean", "xx", "xy"):
            assert_same(getattr(found, name), getattr(expected, name), place, rtol=1e-10)
        assert found.weight == pytest.approx(expected.weight)
        assert found.yy == pytest.approx(expected.yy)
        assert found.n_rows == expected.n_rows
        assert np.all(to_numpy(found.xx)[2] == 0)
    assert_same((there + there - there).xx, expected.xx, place, rtol=1e-9)
    for mine, theirs in zip(
        there.moments(fit_intercept=False)[:2],
        expected.moments(fit_intercept=False)[:2],
        strict=True,
    ):
        assert_same(mine, theirs, place, rtol=1e-9)
