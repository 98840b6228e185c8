from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from lrml.datasets import MultiLabelDataset, NumberedNames

X = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 4.0]])
Y = np.array([[1, 0, 0], [0, 1, 1], [0, 0, 0]], dtype=np.uint8)


def make(**changes):
    fields = {
        "name": "toy",
        "X": X,
        "Y": Y,
        "feature_names": ["a", "b"],
        "label_names": ["p", "q", "r"],
        "n_train": 2,
    }
    return MultiLabelDataset(**fields | changes)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_train_and_test_are_the_rows_before_and_after_the_split(convert):
    dataset = make(X=convert(X), Y=convert(Y))
    for part, rows in ((dataset.train, slice(0, 2)), (dataset.test, slice(2, 3))):
        for found, expected in zip(part, (X, Y), strict=True):
            assert type(found) is type(convert(X))
            assert found.dtype == expected.dtype
            assert_array_equal(sparse.csr_array(found).toarray(), expected[rows])


def test_shape_and_names():
    dataset = make()
    assert dataset.shape == (3, 2, 3)
    assert dataset.feature_names == ("a", "b")
    assert dataset.label_names == ("p", "q", "r")
    assert dataset.provenance == ""


def test_record_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        make().name = "other"


def test_repr_tells_sizes_storage_and_split():
    assert repr(make()) == "<MultiLabelDataset toy: X (3, 2) dense, Y (3, 3) dense, train 2 / test 1>"
    dataset = make(X=sparse.csr_array(X), n_train=None)
    assert repr(dataset) == "<MultiLabelDataset toy: X (3, 2) sparse, Y (3, 3) dense, no split>"


@pytest.mark.parametrize("part", ["train", "test"])
def test_parts_of_a_dataset_without_split_are_an_error(part):
    with pytest.raises(ValueError, match=r"need a dataset with a split, got n_train=None for 'toy'. Use X"):
        getattr(make(n_train=None), part)


duplicated = sparse.csr_array((np.ones(3, dtype=np.uint8), [0, 0, 1], [0, 2, 3, 3]), shape=(3, 3))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"X": X[:2]}, "same number of rows, got 2 and 3"),
        ({"X": [[1.0], [2.0, 3.0], []]}, "X must be a two-dimensional array .* got list of shape None"),
        ({"X": X[0]}, r"X must be a two-dimensional .* got ndarray of shape \(2,\)"),
        ({"X": [["a", "b"]] * 3}, r"X must hold numbers, got dtype <U1\. Encode.*lrml\.TextTagger"),
        ({"X": X.astype(complex)}, "X must hold numbers, got dtype complex128"),
        ({"X": pl.LazyFrame(X)}, r"X must hold numbers, got a LazyFrame.*Pass X\.collect\(\)"),
        ({"Y": pl.LazyFrame(Y)}, r"Y must hold numbers, got a LazyFrame.*Pass Y\.collect\(\)"),
        ({"Y": Y * 0.5}, r"Y must hold only 0 and 1, got 0\.5"),
        ({"Y": Y * np.nan}, "Y must hold only 0 and 1, got nan"),
        ({"Y": Y.astype(np.int64) * 257}, "Y must hold only 0 and 1, got 257"),
        ({"Y": Y * 2}, "Y must hold only 0 and 1, got 2"),
        ({"Y": sparse.csr_array(Y * 2)}, "Y must hold only 0 and 1, got 2"),
        ({"Y": -Y.astype(np.int8)}, "Y must hold only 0 and 1, got -1"),
        ({"Y": duplicated}, "Y must hold only 0 and 1, got 2"),
        ({"Y": Y[:, :0], "label_names": []}, r"at least one row and one column, got shape \(3, 0\)"),
        ({"feature_names": ["a"]}, "feature_names must name each of the 2 columns, got 1 names"),
        ({"label_names": ["p", "q", "p"]}, "label_names must be unique, got 'p' more than once"),
        ({"n_train": 0}, r"lie in \[1, 2\], got 0"),
        ({"n_train": 3}, r"lie in \[1, 2\], got 3"),
    ],
)
def test_inconsistent_fields_are_rejected(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


@pytest.mark.parametrize(
    "convert",
    [
        np.ndarray.tolist,
        lambda A: A.astype(np.float32),
        lambda A: A.astype(np.int64),
        lambda A: A[:, ::-1].copy()[:, ::-1],
        pd.DataFrame,
        lambda A: pl.DataFrame(A, schema=[f"c{k}" for k in range(A.shape[1])]),
        sparse.csr_matrix,
        sparse.coo_array,
        lambda A: sparse.csr_matrix(A[:, ::-1])[:, ::-1],  # unsorted
    ],
)
def test_any_kind_of_matrix(convert):
    given = convert(X), convert(Y)
    dataset = MultiLabelDataset("toy", *given)
    kind = sparse.csr_array if sparse.issparse(given[0]) else np.ndarray
    for found, expected in ((dataset.X, X), (dataset.Y, Y)):
        assert isinstance(found, kind)
        assert found.dtype == expected.dtype
        assert_array_equal(sparse.csr_array(found).toarray(), expected)
        assert kind is np.ndarray or found.has_canonical_format
    if isinstance(given[0], pl.DataFrame):
        assert dataset.feature_names == ("c0", "c1")
    else:
        assert dataset.feature_names == NumberedNames("feature", 2)
        assert dataset.label_names == NumberedNames("label", 3)
    assert_array_equal(MultiLabelDataset("toy", X, Y.astype(bool)).Y, Y)


def test_the_matrices_of_the_caller_stay_as_they_are():
    dense, unsorted = X.copy(), sparse.csr_array((np.array([1, 1]), [2, 0], [0, 0, 2, 2]), shape=(3, 3))
    dataset = MultiLabelDataset("toy", dense, unsorted)
    assert dataset.X is dense
    assert unsorted.indices.tolist() == [2, 0]
    assert dataset.Y.indices.tolist() == [0, 2]


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_from_split_stacks_training_rows_first(convert):
    whole = make(X=convert(X), Y=convert(Y))
    train, test = (
        make(X=part[0], Y=part[1], n_train=None, name=name, provenance=source)
        for part, name, source in ((whole.train, "left", "l.arff"), (whole.test, "right", "r.arff"))
    )
    joined = MultiLabelDataset.from_split(train, test)
    assert (joined.name, joined.n_train, joined.provenance) == ("left", 2, "l.arff; r.arff")
    for found, expected in ((joined.X, X), (joined.Y, Y)):
        assert type(found) is type(convert(X))
        assert found.dtype == expected.dtype
        assert_array_equal(sparse.csr_array(found).toarray(), expected)
    assert MultiLabelDataset.from_split(train, test, name="both").name == "both"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feature_names": ["a", "c"]}, "same features in the same order, got 'b' and 'c' in column 1"),
        ({"label_names": ["q", "p", "r"]}, "same labels in the same order, got 'p' and 'q' in column 0"),
        ({"X": X[:, :1], "feature_names": ["a"]}, "same features, got 2 and 1"),
        ({"X": sparse.csr_array(X)}, "X of train and test must be stored alike, got dense .* and sparse"),
        ({"Y": Y.astype(np.int8)}, "Y of train and test .* dense uint8 and dense int8"),
    ],
)
def test_from_split_rejects_parts_that_do_not_fit(changes, message):
    with pytest.raises(ValueError, match=message):
        MultiLabelDataset.from_split(make(), make(**changes))


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_targets_have_nan_where_a_label_is_unknown(convert):
    unknown = sparse.csr_array(np.array([[0, 0, 1], [0, 0, 0], [1, 1, 0]], dtype=np.bool_))
    dataset = make(Y=convert(Y), unknown=unknown)
    expected = np.where(unknown.toarray(), np.nan, Y)
    assert type(dataset.targets) is type(convert(Y))
    found = dataset.targets.toarray() if sparse.issparse(dataset.targets) else dataset.targets
    assert_array_equal(found, expected)
    assert make().targets is Y


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_parts_keep_the_unknown_marks(convert):
    unknown = np.array([[0, 0, 1], [0, 0, 0], [0, 0, 0]], dtype=np.bool_)
    dataset = make(Y=convert(Y), unknown=sparse.csr_array(unknown))
    (_, train), (_, test) = dataset.train, dataset.test
    assert type(train) is type(test) is type(convert(Y))
    assert_array_equal(sparse.csr_array(train).toarray(), np.where(unknown, np.nan, Y)[:2])
    assert test.dtype == Y.dtype  # nothing is unknown there
    assert_array_equal(sparse.csr_array(test).toarray(), Y[2:])
    assert_array_equal(dataset.observed, ~unknown)
    assert make().observed is None


def test_marks_that_are_stored_as_false_mark_nothing():
    stored = sparse.csr_array((np.array([False, True]), ([0, 2], [1, 0])), shape=(3, 3))
    assert stored.nnz == 2
    dataset = make(unknown=stored)
    assert np.argwhere(np.isnan(dataset.targets)).tolist() == [[2, 0]]
    assert dataset.train[1].dtype == Y.dtype


def test_unknown_marks_must_fit_the_labels():
    with pytest.raises(ValueError, match=r"csr_array of bool of shape \(3, 3\).*got ndarray"):
        make(unknown=np.zeros((3, 3), dtype=bool))
    with pytest.raises(ValueError, match=r"must be 0 where it is unknown.* got 1 in 1 such places"):
        make(unknown=sparse.csr_array(np.eye(3, dtype=np.bool_)[[0, 0, 0]] & np.eye(3, dtype=np.bool_)))


def test_numbered_names_are_not_stored():
    names = NumberedNames("label", 3, start=1)
    dataset = make(label_names=names)
    assert dataset.label_names is names
    assert list(names) == ["label1", "label2", "label3"]
    assert (names[-1], names[1:], len(names)) == ("label3", ("label2", "label3"), 3)
    assert names == NumberedNames("label", 3, start=1) != NumberedNames("label", 3)
    with pytest.raises(ValueError, match="label_names must name each of the 3 columns, got 2000000000"):
        make(label_names=NumberedNames("label", 2_000_000_000))


def test_infinity_is_refused_and_nan_is_not():
    with pytest.raises(ValueError, match="got infinity"):
        make(X=np.array([[np.inf, 0.0]] * 3))
    assert np.isnan(make(X=np.full((3, 2), np.nan)).X).all()
