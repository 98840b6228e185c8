"""The records: what they take, how columns are matched, and the file that keeps all of it."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from lrml.datasets import (
    Columns,
    Dataset,
    NumberedNames,
    TextDataset,
    load_yeast,
    read_dataset,
    write_dataset,
)
from model_checks import dense

X = np.array([[1.0, np.nan], [0, 2], [3, 0]])
Y = np.array([[1, 0], [0, 1], [1, 1]])


@pytest.mark.parametrize("form", [np.asarray, list, pd.DataFrame, sparse.csr_array, sparse.coo_matrix])
def test_any_form_is_stored_as_floats_and_small_integers(form):
    parts = (form(matrix.tolist() if form is list else matrix) for matrix in (X, Y))
    found = Dataset("toy", *parts)
    assert_array_equal(dense(found.X), X)
    assert_array_equal(dense(found.Y), Y)
    assert (found.X.dtype, found.Y.dtype) == (np.float64, np.int8)
    kind = "sparse" if form in (sparse.csr_array, sparse.coo_matrix) else "dense"
    assert repr(found) == f"<Dataset toy: X (3, 2) {kind}, Y (3, 2) {kind}, no split>"
    assert (found.shape, len(found)) == ((3, 2, 2), 3)
    raw = sparse.csr_array((np.ones(2), np.array([1, 1]), np.array([0, 2, 2, 2])), shape=(3, 2))
    assert_array_equal(Dataset("toy", raw, Y).X.toarray()[0], [0, 2])
    assert raw.nnz == 2  # a matrix of the caller stays as it is


def test_a_split_and_unknown_labels():
    unknown = sparse.csr_array(np.array([[0, 1], [0, 0], [0, 0]], bool))
    for kind in (np.asarray, sparse.csr_array):
        found = Dataset("toy", kind(X), kind(Y), n_train=2, unknown=unknown)
        (X_train, Y_train), (X_test, Y_test) = found.train, found.test
        assert_array_equal(dense(X_train), X[:2])
        assert_array_equal(dense(Y_train), [[1, np.nan], [0, 1]])
        assert_array_equal(dense(X_test), X[2:])
        assert_array_equal(dense(Y_test), [[1, 1]])
        assert Y_test.dtype == np.int8
    with pytest.raises(ValueError, match="split"):
        _ = Dataset("toy", X, Y).train


@pytest.mark.parametrize(
    "estimator",
    [RidgeClassifierCV(), RidgeCV(), OneVsRestClassifier(LinearSVC())],
    ids=lambda estimator: type(estimator).__name__,
)
def test_scikit_learn_takes_the_labels_as_they_are(estimator):
    yeast = load_yeast()
    plain = clone(estimator).fit(yeast.train[0], yeast.train[1].astype(float))
    assert_allclose(estimator.fit(*yeast.train).predict(yeast.test[0]), plain.predict(yeast.test[0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, Y[:2]), "3 rows"),
        ((X, Y * 2), "2 in column 'label0'"),
        ((np.full((3, 2), np.inf), Y), "inf in column 'feature0'"),
        ((X[0], Y), "two-dimensional"),
        (([["a"], ["b"], ["c"]], Y), "two-dimensional"),
        (([[1], [2, 3], [4]], Y), "two-dimensional"),
        ((X[:0], Y[:0]), "shape"),
        ((X, Y, ["a"]), "1 feature_names for 2"),
        ((X, Y, ["a", "a"]), "'a' more than once"),
        ((X, Y, None, None, 3), "n_train is 3"),
    ],
)
def test_wrong_records(arguments, message):
    with pytest.raises(ValueError, match=message):
        Dataset("toy", *arguments)


names = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6, unique=True)


@given(names, names, st.booleans(), st.integers(0, 99))
def test_columns_are_matched_by_name(have, wanted, is_sparse, seed):
    drawn = np.random.default_rng(seed).integers(0, 3, (4, len(have))).astype(float)
    X = sparse.csr_array(drawn) if is_sparse else drawn
    found = Dataset("toy", X, np.eye(4), have).with_columns(Columns(tuple(wanted), None))
    column = {name: drawn[:, k] for k, name in enumerate(have)}
    expected = np.column_stack([column.get(name, np.zeros(4)) for name in wanted])
    assert_array_equal(dense(found.X), expected)
    assert found.feature_names == tuple(wanted)


def test_rows_of_parts_are_put_together():
    first = Dataset("a", sparse.csr_array(X), sparse.csr_array(Y), provenance="here")
    wide = Dataset("b", sparse.csr_array(np.eye(3)), sparse.csr_array(np.eye(3)), provenance="there")
    both = Dataset.concat([first, wide])
    assert (both.name, both.shape, both.provenance) == ("a", (6, 3, 3), "here; there")
    assert_array_equal(both.X.toarray()[3:], np.eye(3))
    one, two = Dataset("a", X, Y, None, ["p", "q"]), Dataset("b", X, Y, None, ["q", "r"])
    listed = Dataset.concat([one, two], listed=True)
    assert listed.label_names == ("p", "q", "r")
    assert_array_equal(listed.Y[[0, 3]], [[1, 0, 0], [0, 1, 0]])
    marks = sparse.csr_array(np.array([[0, 1]] + [[0, 0]] * 2, bool))
    marked = Dataset.concat([one, Dataset("b", X, Y, None, ["p", "q"], unknown=marks)])
    assert np.isnan(marked.targets).sum() == np.isnan(marked.targets[3, 1]) == 1
    narrow, thin = (Dataset("c", M, Y, None, ["p", "q"]) for M in (X[:, :1], sparse.csr_array(X)))
    named = Dataset("c", X, Y, ["a", "b"], ["p", "q"])
    for other, message in ((two, "'p'"), (thin, "dense"), (named, "'a'")):
        with pytest.raises(ValueError, match=message):
            Dataset.concat([one, other])
    assert Dataset.concat([one, narrow]).shape == (6, 2, 2)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("numbered", [True, False])
def test_a_saved_dataset_comes_back_whole(tmp_path, kind, numbered):
    unknown = sparse.csr_array(np.array([[0, 1], [0, 0], [0, 0]], bool))
    numbers, listed = (NumberedNames("word", 2, 7), NumberedNames("tag", 2)), (["a\n", "ä"], ["p", "q"])
    given = numbers if numbered else listed
    saved = Dataset("toy ☃", kind(X), kind(Y).astype(np.int8), *given, 2, "from\nhere", unknown)
    write_dataset(saved, tmp_path / "toy.npz")
    found = read_dataset(tmp_path / "toy.npz")
    for key in ("name", "feature_names", "label_names", "n_train", "provenance", "shape"):
        assert getattr(found, key) == getattr(saved, key)
    for key in ("X", "Y", "unknown"):
        ours, theirs = getattr(found, key), getattr(saved, key)
        assert (type(ours), ours.dtype) == (type(theirs), theirs.dtype)
        assert_array_equal(dense(ours), dense(theirs))


def test_a_file_of_something_else_is_refused_and_no_code_is_run(tmp_path):
    np.savez(tmp_path / "evil.npz", kind=np.array([os.system], object), facts=np.array([print], object))
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04")
    np.savez(tmp_path / "other.npz", kind=np.asarray("sums"))
    for name in ("evil", "cut", "other"):
        with pytest.raises(ValueError, match=f"{name}.npz"):
            read_dataset(tmp_path / f"{name}.npz")


def test_numbered_names():
    names = NumberedNames("x", 3, 1)
    assert list(names) == ["x1", "x2", "x3"]
    assert (names[-1], names[1:], len(names), "x2" in names) == ("x3", ("x2", "x3"), 3, True)
    assert names == NumberedNames("x", 3, 1) != NumberedNames("x", 3)
    assert len({names, NumberedNames("x", 3, 1)}) == 1
    with pytest.raises(IndexError):
        names[3]


def test_texts():
    texts = TextDataset("toy", ["a", " ", "c"], [["p"], (), ("q", "p")])
    assert (len(texts), texts.n_empty, texts.label_names) == (3, 1, ("p", "q"))
    assert repr(texts) == "<TextDataset toy: 3 texts, 1 empty, 2 tags>"
    assert texts.rows(np.array([2, 0])).tags == (("q", "p"), ("p",))
    assert texts.rows(slice(1, None)).X == (" ", "c")
    assert TextDataset("toy", ["a"]).targets is None
    with pytest.raises(ValueError, match="2 texts"):
        TextDataset("x", ["t", "u"], [("a",)])


@pytest.mark.parametrize("name", ["toy.npz", "toy.arff", "toy.xmc", "toy.svm"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()], ids=repr)
def test_a_full_disk_or_an_interrupted_write_leaves_nothing(tmp_path, monkeypatch, name, error):
    (tmp_path / name).write_text("older")

    def fail(*_):
        raise error

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(type(error)):
        write_dataset(Dataset("toy", np.nan_to_num(X), Y, ["a", "b"], ["p", "q"]), tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "older"


def test_what_a_format_cannot_hold_is_refused_before_anything_is_written(tmp_path):
    unknown = sparse.csr_array(np.array([[0, 1], [0, 0], [0, 0]], bool))
    marked = Dataset("toy", X, Y, unknown=unknown)
    same = Dataset("toy", X, Y, ["a", "b"], ["b", "c"])
    for dataset, name, message in (
        (marked, "a.svm", "unknown"),
        (same, "a.arff", "'b'"),
        (Dataset("toy", X, None), "a.xmc", "npz"),
        (same, "a.csv", "a.csv"),
        (TextDataset("x", ["t"], [("a;b",)]), "a.csv", "a;b"),
        (TextDataset("x", ["t"]), "a.parquet", "a.parquet"),
    ):
        with pytest.raises(ValueError, match=message):
            write_dataset(dataset, tmp_path / name)
    assert not list(tmp_path.iterdir())
