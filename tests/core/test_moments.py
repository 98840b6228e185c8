"""Sufficient statistics: blocks add up, sparse equals dense, and the digits survive."""

import tracemalloc
import zipfile
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


def assert_equal_sums(a, b, rtol=1e-10):
    for name in FIELDS:
        scale = max(1.0, np.max(np.abs(getattr(b, name))))  # all sums here are of order 1 or more
        np.testing.assert_allclose(
            getattr(a, name), getattr(b, name), rtol=0, atol=rtol * scale, err_msg=name
        )


def data(seed=0, n=60, d=7, n_labels=4, density=0.3, positives=0.3):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < density)
    Y = (rng.random((n, n_labels)) < positives).astype(float)
    return X, Y, rng.uniform(0, 2, size=n)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("form", [{}, {"d": 300, "n_labels": 20, "positives": 0.03}], ids=["small", "wide"])
def test_equals_the_definition(weighted, form):
    X, Y, w = data(**form)
    w = w if weighted else np.ones(len(X))
    got = Statistics.from_arrays(X, Y, w if weighted else None)
    xm, ym = np.average(X, axis=0, weights=w), np.average(Y, axis=0, weights=w)
    np.testing.assert_allclose(got.xx, (X - xm).T @ np.diag(w) @ (X - xm), atol=1e-12)
    np.testing.assert_allclose(got.xy, (X - xm).T @ np.diag(w) @ (Y - ym), atol=1e-12)
    assert got.yy == pytest.approx(np.sum(w[:, None] * (Y - ym) ** 2))
    raw = got.uncentered().summed()
    np.testing.assert_allclose(raw.gram, X.T @ np.diag(w) @ X, atol=1e-12)
    np.testing.assert_allclose(raw.cross, X.T @ np.diag(w) @ Y, atol=1e-12)
    assert raw.target == pytest.approx(np.sum(w[:, None] * Y**2))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("x_type", [np.asarray, sp.csr_matrix, sp.csc_array, sp.coo_array])
@pytest.mark.parametrize("y_type", [np.asarray, sp.csr_array, sp.csc_matrix])
def test_sparse_equals_dense(x_type, y_type, weighted):
    X, Y, w = data()
    w = w if weighted else None
    assert_equal_sums(
        Statistics.from_arrays(x_type(X), y_type(Y), w), Statistics.from_arrays(X, Y, w), rtol=1e-13
    )


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
    assert_equal_sums(Statistics.from_blocks(blocks), whole)
    assert_equal_sums(Statistics.from_blocks(reversed(blocks)), whole)
    if len(blocks) > 1:  # taking a block away again leaves the rest
        rest = Statistics.from_blocks(blocks[1:])
        assert_equal_sums(whole - Statistics.from_arrays(*blocks[0]), rest, rtol=1e-8)


@pytest.mark.parametrize("sparse", [False, True])
def test_internal_blocking_changes_nothing(monkeypatch, sparse):
    X, Y, w = data(n=500)
    X = sp.csc_array(X) if sparse else X
    whole = Statistics.from_arrays(X, Y, w)
    monkeypatch.setattr(lrml.core.moments, "_BLOCK_ENTRIES", 64)
    assert len(list(lrml.core.moments._blocks(X, Y, w, HOST))) > 5
    assert_equal_sums(Statistics.from_arrays(X, Y, w), whole)


def test_a_large_offset_loses_no_digits():
    """Raw moments would lose all of them: (1e8)² · eps is about 2."""
    X, Y, _ = data()
    shifted = Statistics.from_arrays(X + 1e8, Y)
    expected = np.cov((X + 1e8).T, bias=True) * len(X)
    np.testing.assert_allclose(shifted.xx, expected, atol=1e-6)


def test_constant_sparse_columns_have_exactly_no_variance():
    X, Y, w = data()
    X[:, 2] = 0.1
    stats = Statistics.from_arrays(sp.csr_array(X), Y, w)
    assert np.all(stats.xx[2] == 0)
    assert np.all(stats.xy[2] == 0)


def test_float32_is_summed_in_float64():
    X, Y, _ = data()
    stats = Statistics.from_arrays(X.astype(np.float32), Y.astype(np.float32))
    exact = Statistics.from_arrays(X.astype(np.float32).astype(float), Y)
    assert stats.xx.dtype == np.float64
    assert_equal_sums(stats, exact, rtol=1e-14)


def test_a_block_without_weight_adds_nothing():
    X, Y, w = data()
    nothing = Statistics.from_arrays(X[:5], Y[:5], np.zeros(5))
    rest = Statistics.from_arrays(X[5:], Y[5:], w[5:])
    for total in (nothing + rest, rest + nothing):
        for name in set(FIELDS) - {"n_rows"}:
            np.testing.assert_allclose(getattr(total, name), getattr(rest, name), rtol=1e-13, atol=1e-13)


def test_errors_name_rule_value_and_remedy():
    X, Y, _ = data()
    with pytest.raises(ValueError, match=r"same number of rows, got 60 and 59\. Pass one row of Y"):
        Statistics.from_arrays(X, Y[:-1])
    with pytest.raises(ValueError, match="at least one row, got 0"):
        Statistics.from_arrays(X[:0], Y[:0])
    with pytest.raises(ValueError, match=r"no block"):
        Statistics.from_blocks([])
    with pytest.raises(ValueError, match=r"agree in \(features, labels\), got \(7, 4\) and \(6, 4\)"):
        Statistics.from_arrays(X, Y) + Statistics.from_arrays(X[:, 1:], Y)
    with pytest.raises(ValueError, match="must leave at least one row, got 60 − 60"):
        Statistics.from_arrays(X, Y) - Statistics.from_arrays(X, Y)


def test_frames_equal_arrays():
    X, Y, w = data()
    expected = Statistics.from_arrays(X, Y, w)
    pandas_sparse = pd.DataFrame(X).astype(pd.SparseDtype(float, 0.0))
    for frame in (pd.DataFrame, pl.DataFrame):
        assert_equal_sums(Statistics.from_arrays(frame(X), frame(Y.astype(int)), w), expected, rtol=1e-14)
    assert_equal_sums(Statistics.from_arrays(pandas_sparse, Y, w), expected)


@pytest.mark.parametrize("weighted", [False, True])
def test_sparse_data_is_never_dense(weighted):
    """A dense copy of either matrix would take 400 or 160 MB; the result itself takes 2 MB."""
    rng = np.random.default_rng(0)
    n, d, n_labels = 200_000, 250, 100
    X = sp.random_array((n, d), density=0.01, format="csr", rng=rng)
    Y = sp.random_array((n, n_labels), density=0.01, format="csr", rng=rng)
    weights = np.ones(n) if weighted else None
    tracemalloc.start()
    Statistics.from_arrays(X, Y, weights)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 40e6


@pytest.mark.parametrize("weighted", [False, True])
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


@pytest.mark.parametrize("matrix", [np.asarray, sp.csr_array, sp.bsr_array])
def test_rows_without_weight_are_not_there_at_all(matrix):
    X, Y, w = data()
    w *= 0.01
    w[::4] = 0
    kept = w > 0
    wild = np.where(kept[:, None], X, 1e200)
    got = Statistics.from_arrays(matrix(wild), matrix(Y), w)
    assert_equal_sums(got, Statistics.from_arrays(X[kept], Y[kept], w[kept]), rtol=1e-13)
    assert got.n_rows == kept.sum()


@pytest.mark.parametrize("matrix", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("weighted", [False, True])
def test_squares_beyond_float64_are_refused(matrix, weighted):
    X, Y, w = data()
    w = 1e-3 * w if weighted else None
    with pytest.raises(ValueError, match=r"must stay below 1e308, got features that overflow\. Divide X"):
        Statistics.from_arrays(matrix(1e200 * X), Y, w)
    tiny = X * np.r_[1e-200, np.ones(6)]
    with pytest.raises(ValueError, match=r"must not underflow to 0, got a feature that varies .* Multiply X"):
        Statistics.from_arrays(matrix(tiny), Y, w)
    tiny[:, 0] = 1e-200  # does not vary: nothing is lost
    assert Statistics.from_arrays(matrix(tiny), Y, w).xx[0, 0] == 0


def test_what_a_subtraction_must_leave():
    X, Y, w = data()
    whole = Statistics.from_arrays(X, Y, w)
    assert_equal_sums(
        whole - Statistics.from_arrays(X[:-1], Y[:-1], w[:-1]), Statistics.from_arrays(X[-1:], Y[-1:], w[-1:])
    )
    with pytest.raises(ValueError, match=r"got 60 − 60 rows \(weight .* left\)\. Subtract a proper part"):
        whole - Statistics.from_arrays(X, Y, w / 2)
    weightless = Statistics.from_arrays(X[:5], Y[:5], np.zeros(5))
    with pytest.raises(ValueError, match=r"got 65 − 60 rows \(weight 0 left\)"):
        (whole + weightless) - whole
    with pytest.raises(ValueError, match=r"agree in \(features, labels\)"):
        whole - Statistics.from_arrays(X[:5], Y[:5, 1:], w[:5])


def test_a_subtraction_leaves_no_negative_sum_of_squares():
    for seed in range(20):
        X, Y, w = data(seed)
        Y[30:] = 1.0
        rest = Statistics.from_arrays(X, Y, w) - Statistics.from_arrays(X[:30], Y[:30], w[:30])
        assert 0 <= rest.yy < 1e-12


def test_small_weights_are_weights():
    """Sums, differences and means do not depend on the unit of the weights, nor on their type."""
    X, Y, w = data()
    w = (1e-3 * w).astype(np.float32)
    exact = w.astype(float)
    whole = Statistics.from_arrays(X, Y, w)
    assert whole.weight == exact.sum()
    np.testing.assert_allclose(whole.x_mean, np.average(X, axis=0, weights=exact), rtol=1e-13, atol=1e-16)
    first, rest = (Statistics.from_arrays(X[part], Y[part], w[part]) for part in (np.s_[:20], np.s_[20:]))
    for got, expected in ((first + rest, whole), (whole - first, rest)):
        for name in set(FIELDS) - {"n_rows"}:
            np.testing.assert_allclose(getattr(got, name), getattr(expected, name), rtol=1e-9, atol=1e-12)


def test_constant_sparse_targets_have_no_variance():
    X, Y, w = data()
    assert Statistics.from_arrays(X, sp.csr_array(np.full_like(Y, 3.0)), w).yy < 1e-10


def test_a_sum_of_weightless_blocks_is_weightless():
    X, Y, _ = data()
    blocks = [(X[a : a + 5], Y[a : a + 5], np.zeros(5)) for a in (0, 5)]
    total = Statistics.from_blocks(blocks)
    assert (total.n_rows, total.weight, total.yy) == (10, 0, 0)
    assert np.all(total.xx == 0)
    assert np.all(total.xy == 0)


def test_dimensions_and_moments():
    X, Y, w = data()
    stats = Statistics.from_arrays(X, Y, w)
    assert (stats.n_features, stats.n_labels) == (7, 4)
    centred, raw = stats.moments(fit_intercept=True), stats.moments(fit_intercept=False)
    assert centred.further is None
    assert centred.summed() is centred
    np.testing.assert_array_equal(centred.gram, stats.xx)
    np.testing.assert_allclose(raw.summed().gram, (X.T * w) @ X, atol=1e-12)
    assert raw.summed().further is None


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("blocked", [False, True])
def test_every_place_sums_as_numpy_does(monkeypatch, place, weighted, dtype, blocked):
    """Arrays that live there, and NumPy's and SciPy's that are summed there."""
    if blocked:
        monkeypatch.setattr(lrml.core.moments, "_DEVICE_ENTRIES", 64)
        monkeypatch.setattr(lrml.core.moments, "_BLOCK_ENTRIES", 64)
    X, Y, w = data()
    X, w = (X + np.r_[1e4, np.zeros(6)]).astype(dtype), np.where(np.arange(60) % 7, w, 0.0)
    X[:, 2] = 0.1
    w = w if weighted else None
    expected = Statistics.from_arrays(X, Y, w)
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
    twice = there + there
    assert_same((twice - there).xx, expected.xx, place, rtol=1e-9)
    for mine, theirs in zip(there.uncentered().summed()[:2], expected.uncentered().summed()[:2], strict=True):
        assert_same(mine, theirs, place, rtol=1e-9)


def test_every_place_refuses_squares_beyond_float64(place):
    X, Y, _ = data()
    with pytest.raises(ValueError, match=r"must stay below 1e308, got features that overflow\. Divide X"):
        Statistics.from_arrays(put(place, 1e200 * X), put(place, Y))


def test_a_file_holds_numpys_arrays_wherever_the_sums_live(place, tmp_path):
    X, Y, _ = data()
    sums = Statistics.from_arrays(put(place, X), put(place, Y))
    sums.save(tmp_path / "sums.npz")
    again = Statistics.load(tmp_path / "sums.npz")
    for name in ("x_mean", "y_mean", "xx", "xy"):
        np.testing.assert_array_equal(getattr(again, name), to_numpy(getattr(sums, name)))


def test_ctrl_c_in_the_middle_of_an_array_is_not_hidden(tmp_path, monkeypatch):
    opened, archives = zipfile.ZipFile.open, []

    def interrupted(self, *given, **options):
        archives.append((self, opened(self, *given, **options)))
        raise KeyboardInterrupt

    monkeypatch.setattr(zipfile.ZipFile, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Statistics.from_arrays(np.eye(3), np.eye(3)).save(tmp_path / "sums.npz")
    assert list(tmp_path.iterdir()) == []
    for archive, _ in archives:
        archive.fp = None  # its file is closed: nothing is left to do when it is collected
