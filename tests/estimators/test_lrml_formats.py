"""Types and formats of X and Y, and the parameters theta, threshold and k."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LinearRegression

from model_checks import SPARSE_FORMATS, TIGHT, assert_same_model, lrml


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(50, 6, 4, seed=21)


# Types and formats


def test_types_of_x_that_hold_the_same_numbers(make_problem):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (40, 5))
    _, Y = make_problem(40, 5, 3, seed=8)
    reference = lrml().fit(X.astype(float), Y)
    for dtype in (bool, np.uint8, np.int32, np.int64, np.float16):
        model = lrml().fit(X.astype(dtype), Y)
        assert model.coef_.dtype == np.float64
        assert_same_model(model, reference)
        np.testing.assert_allclose(
            model.decision_function(X.astype(dtype)), reference.decision_function(X), **TIGHT
        )


def test_layouts_of_x(data):
    X, Y = data
    reference = lrml().fit(X, Y)
    wide = np.repeat(X, 2, axis=1)
    for layout in (np.asfortranarray(X), wide[:, ::2], X.tolist(), memoryview(X)):
        assert_same_model(lrml().fit(layout, Y), reference)


@pytest.mark.parametrize(
    "dtype", [bool, np.uint8, np.int8, np.int64, np.float16, np.float32, object], ids=str
)
def test_types_of_y(data, dtype):
    X, Y = data
    assert_same_model(lrml().fit(X, Y.astype(dtype)), lrml().fit(X, Y.astype(float)))
    if dtype not in (np.float16, object):  # SciPy has no sparse matrices of these
        assert_same_model(lrml().fit(X, sp.csr_array(Y.astype(dtype))), lrml().fit(X, Y))


def test_lists_of_lists(data):
    X, Y = data
    assert_same_model(lrml().fit(X.tolist(), Y.tolist()), lrml().fit(X, Y))


@pytest.mark.parametrize("name", SPARSE_FORMATS)
def test_sparse_formats(data, name):
    X, Y = data
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    form = SPARSE_FORMATS[name]
    reference = lrml().fit(X, Y)
    for A, B in ((form(X), Y), (X, form(Y)), (form(X), form(Y))):
        model = lrml().fit(A, B)
        assert_same_model(model, reference)
        np.testing.assert_allclose(model.decision_function(A), reference.decision_function(X), **TIGHT)


def test_sparse_x_that_stores_zeros_and_repeats(data):
    X, Y = data
    rows, columns = np.indices(X.shape).reshape(2, -1)
    halves = sp.coo_array((np.r_[X.ravel() / 2, X.ravel() / 2], (np.r_[rows, rows], np.r_[columns, columns])))
    assert_same_model(lrml().fit(halves, Y), lrml().fit(X, Y))
    stored = sp.csr_array(np.ones_like(X))
    stored.data[:] = np.where(np.abs(X) > 0.5, X, 0.0).ravel()
    assert_same_model(lrml().fit(stored, Y), lrml().fit(stored.toarray(), Y))


@pytest.mark.parametrize("theta", [0, 1, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("n", "d", "n_labels"), [(50, 6, 4), (12, 20, 5), (30, 4, 9)])
def test_sparse_equals_dense(make_problem, theta, fit_intercept, weighted, n, d, n_labels):
    X, Y = make_problem(n, d, n_labels, seed=n)
    X = np.where(np.abs(X) > 0.4, X, 0.0)
    weights = np.random.default_rng(1).uniform(0, 2, n) if weighted else None
    make = {"theta": theta, "fit_intercept": fit_intercept, "tol": 1e-18}
    reference = lrml(**make).fit(X, Y, sample_weight=weights)
    for A, B in ((sp.csr_array(X), Y), (X, sp.csr_array(Y)), (sp.csc_array(X), sp.csc_array(Y))):
        model = lrml(**make).fit(A, B, sample_weight=weights)
        assert_same_model(model, reference, rtol=1e-6, atol=1e-8)
        assert model.objective_ == pytest.approx(reference.objective_, rel=1e-9, abs=1e-9)


def test_sparse_labels_give_sparse_predictions(data):
    X, Y = data
    dense_model, sparse_model = lrml().fit(X, Y), lrml().fit(X, sp.coo_array(Y))
    decisions = sparse_model.predict(X)
    assert sp.issparse(decisions)
    assert decisions.format == "csr"
    assert decisions.dtype == dense_model.predict(X).dtype == np.int64
    np.testing.assert_array_equal(decisions.toarray(), dense_model.predict(X))
    assert 0 < decisions.nnz < Y.size
    assert isinstance(lrml().fit(sp.csr_array(X), Y).predict(sp.csr_array(X)), np.ndarray)
    # The last fit counts.
    assert isinstance(sparse_model.fit(X, Y).predict(X), np.ndarray)


@pytest.mark.parametrize("sparse", [False, True])
def test_float32_stays_float32(data, sparse):
    X, Y = data
    form = sp.csr_array if sparse else np.asarray
    X32 = X.astype(np.float32)
    model, reference = lrml().fit(form(X32), Y), lrml().fit(X, Y)
    arrays = (model.coef_, model.intercept_, model.singular_values_, *model.factors_)
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
    assert model.decision_function(form(X32)).dtype == np.float32
    assert reference.decision_function(X).dtype == reference.coef_.dtype == np.float64
    assert_same_model(model, reference, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        model.decision_function(form(X32)), reference.decision_function(X), rtol=1e-4, atol=1e-4
    )


def test_float32_sums_are_exact_enough_for_offsets(make_problem):
    """Sums in float32 would lose all of the variance: (1000 ± 1)² has seven digits."""
    X, Y = make_problem(400, 4, 3, seed=9)
    shifted = (X + 1000).astype(np.float32)
    model, reference = lrml().fit(shifted, Y), lrml().fit(shifted.astype(float) - 1000, Y)
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-5, atol=1e-6)


def frame_of(library, array, names):
    return pd.DataFrame(array, columns=names) if library is pd else pl.DataFrame(array, schema=names)


FRAMES = pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])


@FRAMES
def test_frames(data, library):
    X, Y = data
    features, labels = list("abcdef"), ["red", "green", "blue", "grey"]
    A, B = frame_of(library, X, features), frame_of(library, Y, labels)
    model, reference = lrml().fit(A, B), lrml().fit(X, Y)
    assert_same_model(model, reference)
    assert model.classes_.tolist() == labels
    assert model.feature_names_in_.tolist() == features
    np.testing.assert_allclose(model.decision_function(A), reference.decision_function(X), **TIGHT)
    np.testing.assert_array_equal(model.predict(A), reference.predict(X))
    named, numbered = model.predict_top_k(A, 2), reference.predict_top_k(X, 2)
    np.testing.assert_array_equal(named.labels, np.array(labels, dtype=object)[numbered.labels])
    np.testing.assert_allclose(named.scores, numbered.scores, **TIGHT)
    assert model.score(A, B) == pytest.approx(reference.score(X, Y))


@FRAMES
def test_a_frame_is_forgotten_by_the_next_fit(data, library):
    X, Y = data
    model = lrml().fit(frame_of(library, X, list("abcdef")), frame_of(library, Y, list("wxyz")))
    model.fit(X, Y)
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.classes_, np.arange(4))
    model.predict(X)  # without a warning about names


@pytest.mark.parametrize("dtype", ["bool", "boolean", "Int64", "float32", "uint8"])
def test_pandas_types_of_labels(data, dtype):
    X, Y = data
    assert_same_model(lrml().fit(X, pd.DataFrame(Y).astype(dtype)), lrml().fit(X, Y))


def test_frames_of_other_types(data):
    X, Y = data
    integers = pd.DataFrame(np.rint(4 * X).astype(int), columns=list("abcdef")).assign(a=Y[:, 0].astype(bool))
    assert_same_model(lrml().fit(integers, Y), lrml().fit(integers.to_numpy(dtype=float), Y))
    numbered = pd.DataFrame(Y, columns=[10, 20, 30, 40])
    assert lrml().fit(X, numbered).classes_.tolist() == [10, 20, 30, 40]


def test_frames_of_sparse_columns(data):
    X, Y = data
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    sparse_x = pd.DataFrame.sparse.from_spmatrix(sp.csr_array(X), columns=list("abcdef"))
    sparse_y = pd.DataFrame.sparse.from_spmatrix(sp.csr_array(Y), columns=list("wxyz"))
    model, reference = lrml().fit(sparse_x, sparse_y), lrml().fit(X, Y)
    assert_same_model(model, reference)
    assert model.classes_.tolist() == list("wxyz")
    assert model.feature_names_in_.tolist() == list("abcdef")
    decisions = model.predict(sparse_x)
    assert sp.issparse(decisions)
    np.testing.assert_array_equal(decisions.toarray(), reference.predict(X))


MAKERS = {
    "dense": np.array,
    "fortran": lambda M: np.asfortranarray(M.copy()),
    "float32": lambda M: M.astype(np.float32),
    **SPARSE_FORMATS,
    "pandas": pd.DataFrame,
    "polars": lambda M: pl.DataFrame(M, schema=[f"c{j}" for j in range(M.shape[1])]),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_inputs_are_not_modified(data, name, fit_intercept, dense):
    make = MAKERS[name]
    X, Y, weights = make(data[0]), make(data[1].astype(float)), np.linspace(0, 2, len(data[0]))
    before = [np.array(dense(M)) for M in (X, Y)] + [weights.copy()]
    model = lrml(fit_intercept=fit_intercept).fit(X, Y, sample_weight=weights)
    model.decision_function(X), model.predict(X), model.predict_top_k(X, 2), model.score(X, Y)
    for M, saved in zip((X, Y, weights), before, strict=True):
        np.testing.assert_array_equal(dense(M), saved)
        assert dense(M).dtype == saved.dtype


def test_arrays_inside_a_sparse_input_are_not_reordered(data):
    """Not even where they are out of order, which SciPy would gladly put right in place."""
    X, Y = data
    A, B = sp.csr_array(X), sp.csr_array(Y)
    A.indices, A.data = A.indices[::-1].copy(), A.data[::-1].copy()  # every row is full: reversed columns
    arrays = [(M, M.data.copy(), M.indices.copy(), M.indptr.copy()) for M in (A, B)]
    lrml().fit(A, B).predict(A)
    for M, values, indices, pointers in arrays:
        np.testing.assert_array_equal(M.data, values)
        np.testing.assert_array_equal(M.indices, indices)
        np.testing.assert_array_equal(M.indptr, pointers)


def test_read_only_inputs(data):
    X, Y = (M.copy() for M in data)
    weights = np.ones(len(X))
    A, B = sp.csr_array(X), sp.csr_array(Y)
    for array in (X, Y, weights, A.data, A.indices, A.indptr, B.data, B.indices, B.indptr):
        array.flags.writeable = False
    assert_same_model(lrml().fit(A, B, sample_weight=weights), lrml().fit(X, Y, sample_weight=weights))


# theta, threshold, top-k


def test_float_theta_is_a_share_and_int_theta_a_count(data):
    X, Y = data
    assert_same_model(lrml(theta=1.0).fit(X, Y), lrml(theta=4).fit(X, Y))
    assert_same_model(lrml(theta=0.25).fit(X, Y), lrml(theta=1).fit(X, Y))
    assert_same_model(lrml(theta=0.0).fit(X, Y), lrml(theta=0).fit(X, Y))
    assert_same_model(lrml(theta=np.float32(0.5)).fit(X, Y), lrml(theta=np.int64(2)).fit(X, Y))
    assert [lrml(theta=theta).fit(X, Y).theta_ for theta in (1, 1.0, 0.25, 0.0, 0.5, 3)] == [1, 4, 1, 0, 2, 3]
    least, most = lrml(theta=1).fit(X, Y), lrml(theta=1.0).fit(X, Y)
    assert not np.allclose(least.coef_, most.coef_, rtol=0.1)


def test_float_theta_stops_at_the_number_of_features(make_problem):
    X, Y = make_problem(40, 3, 8, seed=2)
    assert_same_model(lrml(theta=0.9).fit(X, Y), lrml(theta=3).fit(X, Y))


@pytest.mark.parametrize(("n", "d", "n_labels"), [(50, 6, 4), (50, 4, 6)])
def test_largest_theta_is_least_squares(make_problem, n, d, n_labels):
    X, Y = make_problem(n, d, n_labels, seed=3)
    model, least_squares = lrml(theta=4).fit(X, Y), LinearRegression().fit(X, Y)
    np.testing.assert_allclose(model.coef_, least_squares.coef_, rtol=1e-8)
    np.testing.assert_allclose(model.intercept_, least_squares.intercept_, rtol=1e-8)
    assert model.n_iter_ == 0


def test_strong_trace_norm_leaves_the_means(data):
    X, Y = data
    model = lrml(theta=0, alpha=1e4).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, 0)
    np.testing.assert_allclose(model.decision_function(X), np.tile(Y.mean(axis=0), (len(X), 1)), rtol=1e-12)
    assert model.rank_ == 0
    assert model.singular_values_.shape == (0,)
    assert (model.factors_.U.shape, model.factors_.V.shape) == ((6, 0), (4, 0))


def test_threshold_per_label(data):
    X, Y = data
    cuts = np.array([0.1, 0.3, 0.6, 5.0])
    model = lrml(threshold=cuts).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), model.decision_function(X) >= cuts)
    assert 0 < model.predict(X)[:, :3].mean() < 1
    assert not model.predict(X)[:, 3].any()
    assert lrml(threshold=-10).fit(X, Y).predict(X).all()


def test_a_score_equal_to_the_threshold_counts():
    X, Y = np.zeros((4, 1)), np.array([[1, 0], [1, 0], [0, 1], [0, 0]])
    np.testing.assert_array_equal(lrml().fit(X, Y).predict(X), np.tile([1, 0], (4, 1)))


@pytest.mark.parametrize("k", [1, 2, 4])
def test_top_k_is_a_sort(data, k):
    X, Y = data
    model = lrml().fit(X, Y)
    best = model.predict_top_k(X, k)
    assert best.labels.shape == best.scores.shape == (50, k)
    for row, scores in enumerate(model.decision_function(X)):
        expected = sorted(range(4), key=lambda j, scores=scores: -scores[j])[:k]
        assert best.labels[row].tolist() == expected
        np.testing.assert_array_equal(best.scores[row], scores[expected])


def test_ties_go_to_the_label_that_comes_first():
    X, Y = np.zeros((4, 2)), np.array([[0, 1, 1, 0, 1]] * 2 + [[1, 0, 0, 1, 1]] * 2)
    best = lrml().fit(X, Y).predict_top_k(X, 5)
    np.testing.assert_array_equal(best.labels, np.tile([4, 0, 1, 2, 3], (4, 1)))


def test_default_k_is_at_most_the_number_of_labels(data, make_problem):
    X, Y = data
    assert lrml().fit(X, Y).predict_top_k(X).labels.shape == (50, 4)
    X, Y = make_problem(40, 5, 8)
    assert lrml().fit(X, Y).predict_top_k(X).labels.shape == (40, 5)
