"""The metrics against scikit-learn, against plain loops and against a table worked out by hand."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
import sklearn.metrics as skm
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lrml import _ranking
from lrml.estimators import MLFro, TopK
from lrml.metrics import (
    average_auc,
    average_precision,
    evaluate,
    hamming_loss,
    label_propensities,
    precision_at_k,
    propensity_scored_precision_at_k,
)
from model_checks import SPARSE_FORMATS

METRICS = {
    "precision_at_k": lambda Y, S, **options: precision_at_k(Y, S, 2, **options),
    "average_precision": average_precision,
    "average_auc": average_auc,
    "hamming_loss": hamming_loss,
}
RANKING = ["precision_at_k", "average_precision", "average_auc"]

# One row per convention: a plain ranking, ties, no label, every label.
Y_HAND = np.array([[1, 0, 1, 0], [0, 1, 1, 0], [0, 0, 0, 0], [1, 1, 1, 1]])
S_HAND = np.array([[0.9, 0.6, 0.5, 0.1], [0.5, 0.5, 0.2, 0.5], [0.3, 0.7, 0.2, 0.1], [0.1, 0.9, 0.2, 0.3]])


@st.composite
def labels_and_scores(draw, max_rows=6, max_labels=8):
    """Labels with some empty and some full rows; integer scores from so few values that most of them tie."""
    shape = draw(st.tuples(st.integers(1, max_rows), st.integers(1, max_labels)))
    Y = draw(hnp.arrays(np.int64, shape, elements=st.integers(0, 1)))
    S = draw(hnp.arrays(np.float64, shape, elements=st.integers(-3, 3).map(float)))
    return Y, S


def make(n_rows, n_labels, *, density=0.2, ties=False, seed=0):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n_rows, n_labels)) < density).astype(np.int64)
    S = 0.5 + rng.standard_normal((n_rows, n_labels))
    return Y, np.round(S, 1) if ties else S


def loop_precision_at(Y, S, k):
    """Python's sort is stable, so (−score) alone puts the lower index first."""
    best = [sorted(range(len(s)), key=lambda j, s=s: -s[j])[:k] for s in S.tolist()]
    return [sum(int(y[j]) for j in chosen) / k for y, chosen in zip(Y, best, strict=True)]


def loop_auc(y, s):
    pairs = [(a > b) + 0.5 * (a == b) for a in s[y == 1] for b in s[y == 0]]
    return sum(pairs) / len(pairs) if pairs else np.nan


# A worked example


def test_top_k_by_hand():
    np.testing.assert_array_equal(precision_at_k(Y_HAND, S_HAND, 1, per_example=True), [1, 0, 0, 1])
    np.testing.assert_array_equal(precision_at_k(Y_HAND, S_HAND, 2, per_example=True), [0.5, 0.5, 0, 1])
    np.testing.assert_allclose(precision_at_k(Y_HAND, S_HAND, 3, per_example=True), [2 / 3, 1 / 3, 0, 1])
    assert precision_at_k(Y_HAND, S_HAND, 1) == 0.5


def test_average_precision_by_hand():
    # Row 0: ranks 1 and 3, (1/1 + 2/3) / 2. Row 1: label 1 ties for rank 3, label 2 is last, (1/3 + 2/4) / 2.
    expected = [5 / 6, 5 / 12, np.nan, 1]
    np.testing.assert_allclose(average_precision(Y_HAND, S_HAND, per_example=True), expected)
    assert average_precision(Y_HAND, S_HAND) == pytest.approx(9 / 12)


def test_average_auc_by_hand():
    # Row 0: three of four pairs. Row 1: two ties among four pairs.
    np.testing.assert_array_equal(average_auc(Y_HAND, S_HAND, per_example=True), [0.75, 0.25, np.nan, np.nan])
    assert average_auc(Y_HAND, S_HAND) == 0.5


def test_hamming_loss_by_hand():
    # A score of exactly 0.5 is a prediction.
    np.testing.assert_array_equal(hamming_loss(Y_HAND, S_HAND, per_example=True), [0.25, 0.75, 0.25, 0.75])
    assert hamming_loss(Y_HAND, S_HAND) == 0.5


# Independent oracles


@settings(deadline=None)
@given(labels_and_scores(), st.data())
def test_top_k_is_that_of_a_loop(case, data):
    Y, S = case
    k = data.draw(st.integers(1, Y.shape[1]))
    np.testing.assert_array_equal(precision_at_k(Y, S, k, per_example=True), loop_precision_at(Y, S, k))


@pytest.mark.parametrize("n_labels", [17, 300])
def test_ties_go_to_the_lower_index_in_long_rows_too(n_labels):
    # The default sort may be stable on short rows by chance; on long ones it is not.
    Y, S = make(40, n_labels, ties=True)
    S[0] = 0.0
    S[1] = np.where(np.arange(n_labels) % 2, 0.0, -0.0)
    for k in (1, 5, n_labels):
        np.testing.assert_allclose(precision_at_k(Y, S, k, per_example=True), loop_precision_at(Y, S, k))


@settings(deadline=None)
@given(labels_and_scores())
def test_average_precision_is_that_of_scikit_learn(case):
    Y, S = case
    expected = [
        skm.label_ranking_average_precision_score(y[None], s[None]) if y.any() else np.nan
        for y, s in zip(Y, S, strict=True)
    ]
    np.testing.assert_allclose(average_precision(Y, S, per_example=True), expected, rtol=1e-12)


@settings(deadline=None)
@given(labels_and_scores())
def test_average_auc_is_that_of_scikit_learn_and_of_a_loop(case):
    Y, S = case
    values = average_auc(Y, S, per_example=True)
    np.testing.assert_allclose(values, [loop_auc(y, s) for y, s in zip(Y, S, strict=True)], rtol=1e-12)
    for value, y, s in zip(values, Y, S, strict=True):
        if 0 < y.sum() < len(y):
            assert value == pytest.approx(skm.roc_auc_score(y, s))


@settings(deadline=None)
@given(labels_and_scores(), st.integers(-3, 3))
def test_hamming_loss_is_that_of_scikit_learn(case, threshold):
    Y, S = case
    assert hamming_loss(Y, S, threshold) == pytest.approx(skm.hamming_loss(Y, np.greater_equal(S, threshold)))


@pytest.mark.parametrize("ties", [False, True])
def test_means_are_those_of_scikit_learn(ties):
    Y, S = make(500, 40, ties=ties)
    Y[:, 0], Y[:, 1] = 0, 1  # each row has a relevant and an irrelevant label
    assert average_precision(Y, S) == pytest.approx(skm.label_ranking_average_precision_score(Y, S))
    assert average_auc(Y, S) == pytest.approx(skm.roc_auc_score(Y, S, average="samples"))
    assert hamming_loss(Y, S) == pytest.approx(skm.hamming_loss(Y, S >= 0.5))


# Properties


@settings(deadline=None)
@given(labels_and_scores(), st.sampled_from([np.exp, np.arctan, lambda s: s**3, lambda s: 7 * s - 2]))
def test_ranking_metrics_see_only_the_order(case, increasing):
    Y, S = case
    for name in RANKING:
        if name == "precision_at_k" and Y.shape[1] < 2:
            continue
        metric = METRICS[name]
        np.testing.assert_array_equal(
            metric(Y, S, per_example=True), metric(Y, increasing(S), per_example=True), err_msg=name
        )


@settings(deadline=None)
@given(labels_and_scores())
def test_auc_of_the_complement_and_of_the_reverse(case):
    Y, S = case
    values = average_auc(Y, S, per_example=True)
    np.testing.assert_allclose(average_auc(1 - Y, S, per_example=True), 1 - values, atol=1e-14)
    np.testing.assert_allclose(average_auc(Y, -S, per_example=True), 1 - values, atol=1e-14)


@settings(deadline=None)
@given(labels_and_scores(), st.randoms(use_true_random=False))
def test_tie_aware_metrics_do_not_depend_on_the_order_of_the_labels(case, random):
    Y, S = case
    permutation = random.sample(range(Y.shape[1]), Y.shape[1])
    for metric in (average_precision, average_auc, hamming_loss):
        np.testing.assert_allclose(
            metric(Y, S, per_example=True),
            metric(Y[:, permutation], S[:, permutation], per_example=True),
            rtol=1e-12,
        )


def test_perfect_and_worst_scores():
    Y, _ = make(50, 12)
    Y[:, 0], Y[:, 1] = 0, 1
    assert (average_precision(Y, Y), average_auc(Y, Y), hamming_loss(Y, Y)) == (1, 1, 0)
    assert (average_auc(Y, 1 - Y), hamming_loss(Y, 1 - Y), precision_at_k(Y, 1 - Y, 1)) == (0, 1, 0)
    assert average_auc(Y, np.zeros(Y.shape)) == 0.5


# Rows that are left out


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("density", [0.05, 0.5, 0.95])
def test_mean_of_the_rows_that_have_a_value(name, density):
    Y, S = make(200, 9, density=density, ties=True)
    values = METRICS[name](Y, S, per_example=True)
    mean = METRICS[name](Y, S)
    assert values.shape == (200,)
    assert values.dtype == np.float64
    assert type(mean) is float
    assert mean == pytest.approx(np.nanmean(values))
    empty, full = ~Y.any(axis=1), Y.all(axis=1)
    left_out = {"average_precision": empty, "average_auc": empty | full}.get(name, np.zeros(200, dtype=bool))
    np.testing.assert_array_equal(np.isnan(values), left_out)


def test_rows_without_labels_depart_from_scikit_learn():
    Y, S = make(30, 6)
    with_empty = np.vstack([Y, np.zeros_like(Y)]), np.vstack([S, S])
    assert average_precision(*with_empty) == average_precision(Y, S)
    assert average_auc(*with_empty) == average_auc(Y, S)
    assert precision_at_k(*with_empty, 3) == pytest.approx(precision_at_k(Y, S, 3) / 2)
    assert skm.label_ranking_average_precision_score(*with_empty) > average_precision(Y, S)


@pytest.mark.parametrize(
    ("metric", "Y", "needed"),
    [
        (average_precision, np.zeros((3, 4)), "a relevant label"),
        (average_auc, np.zeros((3, 4)), "both a relevant and an irrelevant label"),
        (average_auc, np.ones((3, 4)), "both a relevant and an irrelevant label"),
    ],
)
def test_no_row_left(metric, Y, needed):
    S = np.zeros((3, 4))
    rule = rf"^{metric.__name__} needs at least one row with {needed}, got none in 3 rows\. Check Y"
    with pytest.raises(ValueError, match=rule):
        metric(Y, S)
    assert np.isnan(metric(Y, S, per_example=True)).all()
    first = "average_auc" if Y.any() else "average_precision"
    with pytest.raises(ValueError, match=rf"^{first} needs .* got none in 3 rows"):
        evaluate(Y, S, ks=[1])


# Threshold


def test_threshold_per_label():
    Y, S = make(60, 5)
    threshold = np.array([0.1, 0.5, -1.0, 2.0, np.inf])
    expected = np.greater_equal(S, threshold) != Y
    np.testing.assert_allclose(hamming_loss(Y, S, threshold, per_example=True), expected.mean(axis=1))
    assert hamming_loss(Y, S, list(threshold)) == pytest.approx(expected.mean())
    assert hamming_loss(Y, S, np.full(5, 0.3)) == hamming_loss(Y, S, 0.3)


def test_threshold_is_compared_in_the_precision_of_the_scores():
    # float32(0.7) < 0.7, and yet a score written 0.7 reaches the threshold 0.7.
    S = np.array([[0.7, 0.1]], dtype=np.float32)
    assert hamming_loss([[1, 0]], S, 0.7) == hamming_loss([[1, 0]], S, [0.7, 0.7]) == 0


# Containers and types


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("format_", SPARSE_FORMATS)
def test_sparse_labels(name, format_):
    Y, S = make(50, 12, ties=True)
    sparse = SPARSE_FORMATS[format_](Y)
    before = sparse.copy()
    np.testing.assert_array_equal(
        METRICS[name](sparse, S, per_example=True), METRICS[name](Y, S, per_example=True)
    )
    assert sparse.format == before.format
    assert (sparse != before).nnz == 0


def test_sparse_labels_may_store_zeros():
    Y, S = make(30, 5)
    stored = sp.csr_array(np.ones_like(Y))
    stored.data[:] = Y.ravel()
    assert evaluate(stored, S) == evaluate(Y, S)


def test_sparse_labels_stored_twice_add_up():
    once = sp.csr_array((np.array([0.5, 0.5, 1.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert hamming_loss(once, np.array([[0.0, 1.0], [1.0, 0.0]])) == 0
    twice = sp.coo_array((np.ones(3), ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    with pytest.raises(ValueError, match=r"only 0 and 1, got 2\.0 at row 0, column 1"):
        hamming_loss(twice, np.zeros((2, 2)))


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float32, np.float64, object])
def test_types_of_labels(dtype):
    Y, S = make(30, 6, ties=True)
    assert evaluate(Y.astype(dtype), S) == evaluate(Y, S)
    if dtype is not object:
        assert evaluate(sp.csr_array(Y).astype(dtype), S) == evaluate(Y, S)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float16, np.float32, np.longdouble])
def test_types_of_scores(dtype):
    Y, S = make(30, 6)
    S = np.clip(np.rint(3 * S), 0, 1 if dtype is bool else 9)
    assert evaluate(Y, S.astype(dtype)) == evaluate(Y, S)


def test_frames_and_lists():
    Y, S = make(30, 6, ties=True)
    names = [f"label{j}" for j in range(6)]
    expected = evaluate(Y, S)
    assert evaluate(Y.tolist(), S.tolist()) == expected
    assert evaluate(pd.DataFrame(Y, columns=names), pd.DataFrame(S, columns=names)) == expected
    assert evaluate(pd.DataFrame(Y == 1), S) == expected
    assert evaluate(pd.DataFrame(Y).astype("Int64"), pd.DataFrame(S).astype("Float64")) == expected
    assert evaluate(pl.DataFrame(Y, schema=names), pl.DataFrame(S, schema=names)) == expected
    assert evaluate(pl.DataFrame(Y == 1, schema=names), S) == expected


def test_sparse_frame_is_not_made_dense(monkeypatch):
    Y, S = make(30, 6)
    expected = evaluate(Y, S)
    frame = pd.DataFrame.sparse.from_spmatrix(sp.csr_matrix(Y))
    monkeypatch.setattr(pd.DataFrame, "__array__", lambda *_, **__: pytest.fail("the whole frame is dense"))
    assert evaluate(frame, S) == expected


@pytest.mark.parametrize("order", ["C", "F"])
def test_layout_of_memory_does_not_matter_and_input_is_not_changed(order):
    Y, S = make(40, 12, ties=True)
    Y2, S2 = np.asarray(Y, order=order), np.asarray(S, order=order)
    Y2.flags.writeable = S2.flags.writeable = False
    assert evaluate(Y2, S2) == evaluate(Y, S)
    assert evaluate(Y[::-1, ::-1], S[::-1, ::-1], ks=[12]) == pytest.approx(evaluate(Y, S, ks=[12]).as_dict())


# Blocks


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("entries", [1, 7, 13, 100, 1 << 30])
def test_results_do_not_depend_on_the_size_of_a_block(monkeypatch, entries, sparse):
    Y, S = make(53, 7, density=0.15, ties=True)
    expected = evaluate(Y, S)
    monkeypatch.setattr(_ranking, "_BLOCK_ENTRIES", entries)
    result = evaluate(sp.csc_array(Y) if sparse else Y, S)
    for name, values in expected.per_example.items():
        np.testing.assert_array_equal(result.per_example[name], values)
    assert result == expected


def test_large_sparse_labels_are_dense_in_blocks_only(monkeypatch):
    n_rows, n_labels = 20_000, 500
    rng = np.random.default_rng(0)
    Y = sp.random_array((n_rows, n_labels), density=0.01, format="csr", rng=rng)
    Y.data[:] = 1
    S = rng.standard_normal((n_rows, n_labels), dtype=np.float32)
    dense_rows = []
    toarray = sp.csr_array.toarray

    def recording(self, *args, **kwargs):
        dense_rows.append(self.shape[0])
        return toarray(self, *args, **kwargs)

    monkeypatch.setattr(sp.csr_array, "toarray", recording)
    result = evaluate(Y, S)
    assert sum(dense_rows) == n_rows
    assert len(dense_rows) > 10
    assert max(dense_rows) * n_labels <= _ranking._BLOCK_ENTRIES

    rows = rng.choice(n_rows, 200, replace=False)
    Y_rows = toarray(Y[rows]).astype(int)
    np.testing.assert_array_equal(
        result.per_example["precision_at_3"][rows], loop_precision_at(Y_rows, S[rows], 3)
    )
    np.testing.assert_allclose(
        result.per_example["average_auc"][rows],
        [loop_auc(y, s) for y, s in zip(Y_rows, S[rows], strict=True)],
    )
    has_label = Y_rows.any(axis=1)
    assert np.mean(result.per_example["average_precision"][rows[has_label]]) == pytest.approx(
        skm.label_ranking_average_precision_score(Y_rows[has_label], S[rows[has_label]])
    )
    wrong = (S >= 0.5).sum() + Y.nnz - 2 * Y.multiply(S >= 0.5).sum()
    assert result["hamming_loss"] == pytest.approx(wrong / S.size)


# evaluate


def test_evaluate_is_the_metrics_one_by_one():
    Y, S = make(80, 10, density=0.1, ties=True)
    result = evaluate(Y, S, ks=(2, 7), threshold=0.3)
    one_by_one = {
        "precision_at_2": precision_at_k(Y, S, 2, per_example=True),
        "precision_at_7": precision_at_k(Y, S, 7, per_example=True),
        "average_precision": average_precision(Y, S, per_example=True),
        "average_auc": average_auc(Y, S, per_example=True),
        "hamming_loss": hamming_loss(Y, S, 0.3, per_example=True),
    }
    assert list(result.per_example) == list(result.left_out) == list(one_by_one)
    assert list(result) == [*one_by_one, "micro_f1", "macro_f1"]
    for average in ("micro", "macro"):
        expected = skm.f1_score(Y, S >= 0.3, average=average, zero_division=0)
        assert result[f"{average}_f1"] == pytest.approx(expected)
    for name, values in one_by_one.items():
        np.testing.assert_array_equal(result.per_example[name], values)
        assert result.left_out[name] == np.isnan(values).sum()
        assert result[name] == pytest.approx(np.nanmean(values))
    assert result.left_out["average_precision"] == (~Y.any(axis=1)).sum() > 0


def test_evaluation_is_a_mapping_in_a_fixed_order():
    result = evaluate(*make(20, 6, density=0.5))
    names = [
        "precision_at_1",
        "precision_at_3",
        "precision_at_5",
        "average_precision",
        "average_auc",
        "hamming_loss",
        "micro_f1",
        "macro_f1",
    ]
    assert list(result.as_dict()) == list(result) == names
    assert type(result.as_dict()) is dict
    assert len(result) == 8
    assert result.as_dict() == dict(result)
    assert re.fullmatch(r"Evaluation\(precision_at_1=[\d.]+, .*macro_f1=[\d.]+\)", repr(result))
    copy = pickle.loads(pickle.dumps(result))
    assert copy == result
    with pytest.raises(AttributeError):
        result.means = {}


def test_evaluate_sorts_once(monkeypatch):
    Y, S = make(20, 6)
    calls = []
    argsort = np.argsort
    monkeypatch.setattr(np, "argsort", lambda a, **kwargs: calls.append(len(a)) or argsort(a, **kwargs))
    evaluate(Y, S)
    assert sum(calls) == 20  # a row is sorted again only if it has ties
    calls.clear()
    hamming_loss(Y, S)
    assert calls == []


# Errors: rule, value, remedy


@pytest.mark.parametrize("metric", [*METRICS.values(), evaluate], ids=[*METRICS, "evaluate"])
@pytest.mark.parametrize("container", [np.asarray, sp.csr_matrix], ids=["dense", "sparse"])
class TestErrorsOfEveryMetric:
    def test_shapes_differ(self, metric, container):
        with pytest.raises(
            ValueError, match=r"same shape \(n, L\).* got \(3, 6\) and \(3, 7\)\. Pass one row"
        ):
            metric(container(np.eye(3, 6)), np.zeros((3, 7)))

    def test_no_rows(self, metric, container):
        with pytest.raises(
            ValueError, match=r"at least one row and one label, got \(0, 6\) and \(0, 6\)\. Pass"
        ):
            metric(container(np.zeros((0, 6))), np.zeros((0, 6)))

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_scores_not_finite(self, metric, container, bad, monkeypatch):
        monkeypatch.setattr(_ranking, "_BLOCK_ENTRIES", 6)
        S = np.zeros((3, 6))
        S[2, 4] = bad
        with pytest.raises(
            ValueError, match=rf"S must be finite, got {bad} at row 2, column 4\. Impute or drop"
        ):
            metric(container(np.eye(3, 6)), S)

    @pytest.mark.parametrize("bad", [2.0, -1.0, 0.5, np.nan])
    def test_labels_not_binary(self, metric, container, bad, monkeypatch):
        monkeypatch.setattr(_ranking, "_BLOCK_ENTRIES", 6)
        Y = np.eye(3, 6)
        Y[1, 5] = bad
        with pytest.raises(ValueError, match=rf"only 0 and 1, got {bad} at row 1, column 5\. Binarise"):
            metric(container(Y), np.zeros((3, 6)))

    def test_sparse_scores(self, metric, container):
        with pytest.raises(TypeError, match=r"S must be dense, got a sparse csr_array\. Pass S\.toarray\(\)"):
            metric(container(np.eye(3, 6)), sp.csr_array(np.eye(3, 6)))


@pytest.mark.parametrize("shape", [(6,), (2, 3, 4)])
def test_not_two_dimensional(shape):
    with pytest.raises(
        ValueError, match=rf"shape \(n, L\).*got {re.escape(f'{shape} and {shape}')}\. Pass one"
    ):
        average_auc(np.zeros(shape), np.zeros(shape))


def test_sparse_array_of_one_dimension():
    with pytest.raises(ValueError, match=r"got \(3,\) and \(3,\)"):
        average_auc(sp.coo_array(np.array([1, 0, 1])), np.zeros(3))


def test_not_numbers():
    with pytest.raises(TypeError, match=r"Y must hold real numbers.*got dtype <U4\. Fill or drop"):
        average_auc([["rain", "snow"]], [[0.1, 0.2]])
    with pytest.raises(TypeError, match=r"S must hold real numbers.*got dtype complex128"):
        average_auc([[0, 1]], [[0.1, 1j]])
    with pytest.raises(TypeError, match=r"Y must hold real numbers and no missing values, got dtype object"):
        average_auc(np.array([[1, None, "x"]], dtype=object), [[0.1, 0.2, 0.3]])


def test_missing_label_in_a_frame():
    frame = pd.DataFrame({"a": [1, None], "b": [0, 1]})
    with pytest.raises(ValueError, match=r"Y must hold only 0 and 1, got nan at row 1, column 0"):
        average_auc(frame, np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"Y must hold only 0 and 1, got nan at row 1, column 0"):
        average_auc(pl.DataFrame({"a": [1, None], "b": [0, 1]}), np.zeros((2, 2)))


def test_missing_value_in_a_nullable_frame():
    frame = pd.DataFrame({"a": [1, None], "b": [0, 1]}).astype("Int64")
    with pytest.raises(ValueError, match=r"Y must hold only 0 and 1, got nan at row 1, column 0"):
        average_auc(frame, np.zeros((2, 2)))
    with pytest.raises(TypeError, match=r"S must hold real numbers and no missing values, got dtype object"):
        average_auc(np.eye(2), frame)


@pytest.mark.parametrize("k", [0, -1, 5])
def test_k_out_of_range(k):
    rule = rf"must be in \[1, 4\] \(the number of labels\), got {k}\. Choose a number of labels in that range"
    with pytest.raises(ValueError, match=f"^k {rule}"):
        precision_at_k(Y_HAND, S_HAND, k)
    with pytest.raises(ValueError, match=f"^each of ks {rule}"):
        evaluate(Y_HAND, S_HAND, ks=(1, k))


@pytest.mark.parametrize("k", [1.0, True, "1", None])
def test_k_not_an_integer(k):
    with pytest.raises(
        TypeError, match=rf"^k must be an integer in \[1, 4\], got {k!r}\. Pass a number of labels"
    ):
        precision_at_k(Y_HAND, S_HAND, k)


def test_k_may_be_a_numpy_integer():
    assert precision_at_k(Y_HAND, S_HAND, np.int32(2)) == precision_at_k(Y_HAND, S_HAND, 2)
    assert list(evaluate(Y_HAND, S_HAND, ks=np.arange(1, 3)))[:2] == ["precision_at_1", "precision_at_2"]


@pytest.mark.parametrize("threshold", [[0.5, 0.5], np.full((4, 4), 0.5), np.nan, [0.1, 0.2, np.nan, 0.4]])
def test_threshold_refused(threshold):
    rule = r"(?s)must be a number or 4 numbers \(one per label\) and not NaN, got .*\. Pass 0\.5, or one"
    with pytest.raises(ValueError, match=rule):
        hamming_loss(Y_HAND, S_HAND, threshold)
    with pytest.raises(ValueError, match=rule):
        evaluate(Y_HAND, S_HAND, ks=[1], threshold=threshold)


def test_refused_threshold_is_shown():
    with pytest.raises(ValueError, match=r"and not NaN, got \[0\.25, 0\.75\]\. Pass"):
        hamming_loss(Y_HAND, S_HAND, [0.25, 0.75])


def test_default_ks_are_those_that_the_labels_allow():
    names = [",".join(list(evaluate(np.eye(n), np.eye(n)))[:-5]) for n in (2, 3, 4, 5, 6)]
    assert names == [
        "precision_at_1",
        "precision_at_1,precision_at_3",
        "precision_at_1,precision_at_3",
        "precision_at_1,precision_at_3,precision_at_5",
        "precision_at_1,precision_at_3,precision_at_5",
    ]


# ---- the best labels in place of scores ----


@given(st.integers(0, 10**6), st.integers(1, 6), st.integers(1, 9), st.booleans())
def test_the_best_labels_are_enough_for_precision(seed, n, n_labels, sparse_labels):
    rng = np.random.default_rng(seed)
    Y, S = rng.integers(0, 2, (n, n_labels)), rng.integers(0, 4, (n, n_labels)).astype(float)
    columns = np.argsort(-S, axis=1, kind="stable")
    top = TopK(columns, np.take_along_axis(S, columns, axis=1))
    given_labels = sp.csr_array(Y) if sparse_labels else Y
    propensities = rng.uniform(0.1, 1.0, n_labels)
    for k in range(1, n_labels + 1):
        values = precision_at_k(given_labels, top, k, per_example=True)
        np.testing.assert_array_equal(values, precision_at_k(Y, S, k, per_example=True))
        if not Y.any():
            continue
        # By the definition: hits over propensities, and the best choice of k labels of every row.
        found = sum(Y[i, j] / propensities[j] for i in range(n) for j in columns[i, :k])
        most = sum(np.sort(Y[i] / propensities)[::-1][:k].sum() for i in range(n))
        for scores in (top, S):
            value = propensity_scored_precision_at_k(given_labels, scores, k, propensities)
            assert value == pytest.approx(found / most)


def test_best_labels_by_name():
    Y = pd.DataFrame({"cat": [1, 0], "dog": [0, 1], "elk": [1, 1]})
    top = TopK(np.array([["elk", "dog"], ["cat", "dog"]], dtype=object), np.zeros((2, 2)))
    assert precision_at_k(Y, top, 2, per_example=True).tolist() == [0.5, 0.5]
    with pytest.raises(ValueError, match=r"columns of Y, by name or by a number below 3, got 'elk'"):
        precision_at_k(Y.to_numpy(), top, 1)


@pytest.mark.parametrize("classes", [[1, 2, 3], [2, 0, 1], [0, 1, 2], ["cat", "dog", "elk"]])
def test_best_labels_know_their_columns(classes):
    """Names may be numbers, but of other columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = (X[:, :3] + rng.normal(size=(60, 3)) > 0.3).astype(int)
    model = MLFro(1.0).fit_blocks([(X, Y)], classes=classes)
    expected = precision_at_k(Y, model.decision_function(X), 2)
    top = model.predict_top_k(X, 2)
    labels, scores = top
    assert len(top) == 2
    assert set(np.unique(labels).tolist()) <= set(classes)
    for given_labels in (Y, sp.csr_array(Y), pd.DataFrame(Y, columns=classes)):
        assert precision_at_k(given_labels, top, 2) == expected
    for copied in (pickle.loads(pickle.dumps(top)), top._replace(scores=scores + 1)):
        assert precision_at_k(Y, copied, 2) == expected
    assert propensity_scored_precision_at_k(Y, top, 2, np.ones(3)) == pytest.approx(
        propensity_scored_precision_at_k(Y, model.decision_function(X), 2, np.ones(3))
    )
    if classes != [0, 1, 2]:
        turned = pd.DataFrame(Y, columns=classes).iloc[:, ::-1]
        assert precision_at_k(turned, top, 2) == expected  # a frame goes by its names
    with pytest.raises(ValueError, match="the best labels must be columns of Y"):
        precision_at_k(np.eye(60)[:, :4], top, 2)


@pytest.mark.parametrize(
    ("Y", "labels", "k", "message"),
    [
        (np.eye(2), [[0]], 1, r"one row for every row of the best labels.*\(2, 2\) and \(1, 1\)"),
        (np.eye(2), [[0], [1]], 2, r"k must be at most 1, as many labels as were predicted, got 2"),
        (np.eye(2), [[0], [2]], 1, "columns of Y, by name or by a number below 2"),
        (2 * np.eye(2), [[0], [1]], 1, "Y must hold only 0 and 1, got 2"),
        (np.zeros((2, 2)), [[0], [1]], 3, r"k must be in \[1, 2\]"),
    ],
)
def test_best_labels_that_do_not_fit_are_refused(Y, labels, k, message):
    with pytest.raises(ValueError, match=message):
        precision_at_k(Y, TopK(np.array(labels), np.zeros(np.shape(labels))), k)


def test_propensities_follow_the_formula():
    Y = np.repeat(np.eye(3, dtype=int), [1, 10, 100], axis=0)
    expected = [1 / (1 + (np.log(111) - 1) * 2.5**0.55 * (count + 1.5) ** -0.55) for count in (1, 10, 100)]
    np.testing.assert_allclose(label_propensities(Y), expected)
    np.testing.assert_allclose(label_propensities(sp.csr_array(Y)), expected)
    with pytest.raises(ValueError, match="at least 3 training rows, got 2"):
        label_propensities(np.eye(2))


@pytest.mark.parametrize("wrong", [[0.5], [0.5, 0.0], [0.5, 1.1], [0.5, np.nan]])
def test_wrong_propensities_are_refused(wrong):
    with pytest.raises(ValueError, match=r"propensities must be 2 numbers in \(0, 1\]"):
        propensity_scored_precision_at_k(np.eye(2), np.eye(2), 1, wrong)
    with pytest.raises(ValueError, match="a row with a relevant label"):
        propensity_scored_precision_at_k(np.zeros((2, 2)), np.eye(2), 1, [0.5, 0.5])
