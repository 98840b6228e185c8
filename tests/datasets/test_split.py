"""Training and test sets in two files."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import load_svmlight_files
from sklearn.preprocessing import MultiLabelBinarizer

from lrml.datasets import DatasetFormatError, MultiLabelDataset, read_split, write_dataset


@pytest.fixture
def files(tmp_path):
    """Write two files, and return their paths."""

    def write(train, test, suffix):
        paths = tmp_path / f"toy-train.{suffix}", tmp_path / f"toy-test.{suffix}"
        for path, text in zip(paths, (train, test), strict=True):
            path.write_text(text)
        return paths

    return write


_ROWS = st.lists(
    st.tuples(
        st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True),
        st.lists(st.integers(0, 6), min_size=1, max_size=4, unique=True).map(sorted),
    ),
    min_size=1,
    max_size=4,
)


def svmlight(rows):
    return "".join(
        f"{','.join(map(str, labels))} {' '.join(f'{index}:{index + 0.5}' for index in indices)}\n"
        for labels, indices in rows
    )


@settings(max_examples=50, deadline=None)
@given(train=_ROWS, test=_ROWS)
def test_svmlight_files_are_joined_as_by_scikit_learn(tmp_path_factory, train, test):
    folder = tmp_path_factory.mktemp("svm")
    paths = folder / "a.svm", folder / "b.svm"
    for path, rows in zip(paths, (train, test), strict=True):
        path.write_text(svmlight(rows))
    found = read_split(*paths)
    X_train, y_train, X_test, y_test = load_svmlight_files(paths, multilabel=True)
    assert found.n_train == len(train)
    assert_array_equal(found.X.toarray(), np.vstack([X_train.toarray(), X_test.toarray()]))
    width = 1 + max(max(labels) for labels, _ in train + test)
    expected = MultiLabelBinarizer(classes=range(width)).fit_transform([*y_train, *y_test])
    assert_array_equal(found.Y.toarray(), expected)
    first = 0 if any(0 in indices for _, indices in train + test) else 1
    assert found.feature_names[0] == f"feature{first}"


@pytest.mark.parametrize(("train", "test"), [("0 0:1 2:1\n", "1 2:5\n"), ("0 2:1\n", "1 0:1 2:5\n")])
def test_a_given_number_of_features_holds_for_both_files(files, train, test):
    paths = files(train, test, "svm")
    assert read_split(*paths, n_features=3).shape == (2, 3, 2)
    assert read_split(*paths, n_features=3).X[1, 2] == 5
    with pytest.raises(DatasetFormatError, match=r"an index must lie in \[0, 1\].*got 2"):
        read_split(*paths, n_features=2)


def test_files_with_sidecars_keep_their_names(tmp_path):
    X, Y = sparse.csr_array(np.eye(3)), sparse.csr_array(np.eye(3, 2, dtype=np.uint8))
    for part, rows in (("train", slice(0, 2)), ("test", slice(2, 3))):
        dataset = MultiLabelDataset(f"toy-{part}", X[rows], Y[rows], ["a", "b", "c"], ["p", "q"])
        write_dataset(dataset, tmp_path / f"{part}.svm")
    found = read_split(tmp_path / "train.svm", tmp_path / "test.svm")
    assert (found.name, found.feature_names, found.n_train) == ("toy", ("a", "b", "c"), 2)
    assert_array_equal(found.X.toarray(), np.eye(3))
    assert read_split(tmp_path / "train.svm", tmp_path / "test.svm", name="mine").name == "mine"


def test_tables_that_list_labels_get_the_labels_of_both(files):
    tags = [["sour", "red"], [], ["green"], ["red", "blue"]]
    rows = [f"{x},{';'.join(names)}\n" for x, names in enumerate(tags)]
    paths = files("x,tags\n" + "".join(rows[:2]), "x,tags\n" + "".join(rows[2:]), "csv")
    found = read_split(*paths, label_column="tags", label_separator=";")
    binarizer = MultiLabelBinarizer()
    assert_array_equal(found.Y.toarray(), binarizer.fit_transform(tags))
    assert found.label_names == tuple(binarizer.classes_)
    assert (found.name, found.n_train) == ("toy", 2)
    assert found.Y.has_canonical_format


def test_integer_labels_are_sorted_by_size(files):
    paths = files("x,tags\n1,9\n", "x,tags\n2,10 9\n3,1\n", "csv")
    found = read_split(*paths, label_column="tags", label_separator=" ")
    assert found.label_names == ("1", "9", "10")
    assert_array_equal(found.Y.toarray(), [[0, 1, 0], [0, 1, 1], [1, 0, 0]])


def test_label_columns_must_be_the_same(files):
    paths = files("x,a,b\n1,0,1\n", "x,a,c\n1,0,1\n", "csv")
    with pytest.raises(ValueError, match=r"same labels in the same order, got 'b' and 'c' in column 1"):
        read_split(*paths, labels=-2)


def test_an_arff_file_with_a_longer_name_finds_its_labels(tmp_path):
    text = "@attribute x numeric\n@attribute red {0,1}\n@data\n{0 1,1 1}\n"
    paths = tmp_path / "Corel5k-train-sparse.arff", tmp_path / "Corel5k-test-sparse.arff"
    for path in paths:
        path.write_text(text)
    (tmp_path / "other.xml").write_text('<labels><label name="x"/></labels>')
    with pytest.raises(DatasetFormatError, match=r"got none of them\. Give xml or labels"):
        read_split(*paths)  # what is merely in the same folder does not count
    (tmp_path / "Corel5k.xml").write_text('<labels><label name="red"/></labels>')
    assert read_split(*paths).label_names == ("red",)


def test_missing_files_are_named(tmp_path, files):
    paths = files("0 1:1\n", "0 1:1\n", "svm")
    with pytest.raises(FileNotFoundError, match=r"must be a file, got '.*no\.svm', which does not exist"):
        read_split(paths[0], tmp_path / "no.svm")
    (tmp_path / "folder.svm").mkdir()
    with pytest.raises(FileNotFoundError, match=r"must be a file, got '.*folder\.svm', which is a folder"):
        read_split(tmp_path / "folder.svm", paths[1])
    arff = tmp_path / "x.arff"
    arff.write_text("@attribute x numeric\n@attribute red {0,1}\n@data\n1,1\n")
    with pytest.raises(FileNotFoundError, match=r"the XML file .* must be a file, got '.*no\.xml'"):
        read_split(arff, arff, xml=tmp_path / "no.xml")
