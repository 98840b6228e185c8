from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import load_svmlight_file

from lrml.datasets import (
    DatasetFormatError,
    MultiLabelDataset,
    NumberedNames,
    read_svmlight,
    read_xmc,
    write_svmlight,
    write_xmc,
)


@pytest.fixture
def read(tmp_path):
    """Write a file, and read it."""

    def read_text(text, **options):
        path = tmp_path / "toy.svm"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_svmlight(path, **options)

    return read_text


def test_comments_blank_lines_and_rows_without_labels(read):
    dataset = read("# made by hand\n\n1,3.0 2:0.5 1:2 # 7:7\n 3:1\r\n\t\n3:-1e0\n+2\n  0 1:5\n")
    assert repr(dataset) == "<MultiLabelDataset toy: X (5, 3) sparse, Y (5, 4) sparse, no split>"
    assert_array_equal(dataset.X.toarray(), [[2, 0.5, 0], [0, 0, 1], [0, 0, -1], [0, 0, 0], [5, 0, 0]])
    assert_array_equal(
        dataset.Y.toarray(), [[0, 1, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]]
    )
    assert dataset.feature_names == NumberedNames("feature", 3, start=1)
    assert dataset.label_names == NumberedNames("label", 4)


@pytest.mark.parametrize(
    ("text", "options", "row", "first"),
    [
        ("0 1:5 2:6\n", {}, [5, 6], 1),
        ("0 0:0 1:5\n", {}, [0, 5], 0),  # a written 0 counts
        ("0 1:5\n", {"zero_based": True}, [0, 5], 0),
        ("0 1:5\n", {"zero_based": False, "n_features": 3}, [5, 0, 0], 1),
        ("0 0:5\n", {"n_features": 2}, [5, 0], 0),
        ("0\n", {"n_features": 2}, [0, 0], 1),
    ],
)
def test_where_features_are_counted_from(read, text, options, row, first):
    dataset = read(text, **options)
    assert_array_equal(dataset.X.toarray(), [row])
    assert dataset.feature_names == NumberedNames("feature", len(row), first)


def test_number_of_labels(read):
    assert read("0 1:1\n", n_labels=np.int64(7)).label_names == NumberedNames("label", 7)
    assert read(" 1:1\n", n_labels=2).Y.nnz == 0


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("0 1:1\n1 qid:3 1:1\n", {}, ", line 2: a row must not have a qid, got 'qid:3'. .* remove"),
        ("0 1:1\nqid:3 1:1\n", {}, ", line 2: a row must not have a qid, got 'qid:3'. .* remove"),
        ("-1 1:1\n", {}, ", line 1: a label must be a non-negative integer, got '-1'. Number labels from 0"),
        ("0,1.5 1:1\n", {}, ", line 1: a label must be a non-negative integer, got '1.5'"),
        ("spam 1:1\n", {}, ", line 1: a label must be a non-negative integer, got 'spam'"),
        ("1,1 1:1\n", {}, ", line 1: a label must not occur twice"),
        ("2147483647 1:1\n", {}, ", line 1: a label must be below 2147483647"),
        ("1e400 1:1\n", {}, ", line 1: a label must be below 2147483647, .* got 'inf'"),
        ("\n2 1:1\n", {"n_labels": 2}, ", line 2: a label must be below 2, the number of labels, got '2'"),
        ("0 0:1\n", {"zero_based": False}, ", line 1: an index must lie in \\[1, 2147483647\\], got '0'"),
        ("0 2147483648:1\n", {}, ", line 1: an index must lie in \\[0, 2147483647\\]"),
        ("0 2147483647:1\n\n0 0:1\n", {}, ", line 1: an index must lie in \\[0, 2147483646\\], as"),
        ("0 3:1\n", {"n_features": 2}, ", line 1: an index must lie in \\[0, 2\\], got '3'"),
        ("0 1:1\n0 2:1 0:1\n", {"n_features": 2}, ", line 2: an index must lie in \\[0, 1\\], as .* got 2"),
        ("0 2:1\n", {"n_features": 2, "zero_based": True}, ", line 1: an index must lie in \\[0, 1\\]"),
        ("# nothing\n\n", {}, ": the file must have a row, got none"),
        ("0\n", {}, ": the file must have some features, got none. Give n_features"),
        ("1:1\n", {}, ": the file must have some labels, got none. Give n_labels"),
    ],
)
def test_errors_name_line_rule_value_and_remedy(read, text, options, message):
    with pytest.raises(DatasetFormatError, match=rf"toy\.svm{message}"):
        read(text, **options)


@pytest.mark.parametrize(
    "options",
    [{"n_features": 0}, {"n_features": 2.0}, {"n_labels": True}, {"zero_based": 1}, {"n_labels": 2**31}],
)
def test_wrong_arguments(read, options):
    with pytest.raises(ValueError, match=rf"{next(iter(options))} must be .* got .* Pass"):
        read("0 1:1\n", **options)
    dataset = read("0 1:1\n")
    with pytest.raises(ValueError, match="zero_based must be True or False, got 'auto'"):
        write_svmlight(dataset, "never", zero_based="auto")


# scikit-learn reads the same from any file that both accept.

_NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6).map("{:.6f}".format),
    st.floats(-1e6, 1e6).map("{:+.3e}".format),
    st.decimals(allow_nan=False, allow_infinity=False, places=25, min_value=-9, max_value=9).map(
        "{:f}".format
    ),
    st.integers(-(10**20), 10**20).map(str),
    st.sampled_from(["0", "1", ".5", "5.", "+1", "-0", "-.25", "007", "9007199254740993", "nan"]),
)


@st.composite
def files(draw):
    """Return the text of a file, and options under which it is valid."""
    zero_based = draw(st.sampled_from([True, False, "auto"]))
    lowest = 1 if zero_based is False else draw(st.integers(0, 2))
    rows = ["3 2:1"]  # so that there are a label and a feature
    for _ in range(draw(st.integers(0, 6))):
        labels = draw(st.lists(st.integers(0, 12), max_size=4, unique=True))
        blank = draw(st.sampled_from([" ", "\t", "  "]))
        text = ",".join(f"{label}{draw(st.sampled_from(['', '.0']))}" for label in labels)
        for index in sorted(draw(st.sets(st.integers(lowest, 15), max_size=6))):
            text += f"{blank}{index}:{draw(_NUMBERS)}"
        rows.append(text + draw(st.sampled_from(["", " ", "# 3:4", " # note", "\r", "\n"])))
    return "\n".join(rows), {"zero_based": zero_based, "n_features": draw(st.sampled_from([None, 17]))}


@settings(max_examples=100, deadline=None)
@given(files())
def test_scikit_learn_reads_the_same(tmp_path_factory, file):
    text, options = file
    path = tmp_path_factory.getbasetemp() / "oracle.svm"
    path.write_text(text, newline="\n")
    X, labels = load_svmlight_file(path, multilabel=True, **options)
    found = read_svmlight(path, **options)
    assert_array_equal(found.X.toarray(), X.toarray())
    assert [np.flatnonzero(row).tolist() for row in found.Y.toarray()] == [sorted(row) for row in labels]


def test_scikit_learn_reads_what_is_written(tmp_path):
    rng = np.random.default_rng(0)
    X = sparse.random_array((300, 40), density=0.1, format="csr", rng=rng)
    X = sparse.vstack([X, sparse.csr_array((1, 40))], format="csr")  # an empty row is the difficult case
    Y = rng.random((301, 9)) < 0.1
    Y[-1] = False
    Y = sparse.csr_array(Y.astype(np.uint8))
    names = NumberedNames("f", 40), NumberedNames("l", 9)
    for zero_based in (False, True):
        write_svmlight(MultiLabelDataset("d", X, Y, *names), tmp_path / "d.svm", zero_based=zero_based)
        found, labels = load_svmlight_file(
            tmp_path / "d.svm", multilabel=True, n_features=40, zero_based=zero_based
        )
        assert_array_equal(found.toarray(), X.toarray())
        assert [list(row) for row in labels] == [np.flatnonzero(row).tolist() for row in Y.toarray()]


@pytest.fixture
def written(tmp_path):
    """A file whose features and labels do not all occur, and which no reader could guess to be zero-based."""
    X = sparse.csr_array(np.array([[0, 2.0, 0], [0, 0, 0]]))
    Y = sparse.csr_array(np.array([[1, 0], [1, 0]], dtype=np.uint8))
    dataset = MultiLabelDataset("d", X, Y, NumberedNames("feature", 3), NumberedNames("label", 2))
    write_svmlight(dataset, tmp_path / "d.svm", zero_based=True)
    return tmp_path / "d.svm"


def test_the_sidecar_knows_shape_and_base(written):
    assert written.read_text() == "0 1:2\n0\n"
    for options in ({}, {"zero_based": True, "n_features": 3, "n_labels": 2}):
        found = read_svmlight(written, **options)
        assert_array_equal(found.X.toarray(), [[0, 2, 0], [0, 0, 0]])
        assert found.shape == (2, 3, 2)
        assert found.feature_names == NumberedNames("feature", 3)


@pytest.mark.parametrize(
    "options", [{"zero_based": False}, {"n_features": 4}, {"n_labels": 3}, {"n_features": 2}, {"n_labels": 1}]
)
def test_arguments_must_agree_with_the_sidecar(written, options):
    with pytest.raises(
        DatasetFormatError, match=r"d\.svm\.meta\.json: .* must agree .* Delete or rename this file"
    ):
        read_svmlight(written, **options)


@pytest.mark.parametrize("text", ["0 1:2\n", "0 1:2\n0\n0\n", "0 3:2\n0\n", "0 1:2\n2\n", "0 1:2\n0,1\n"])
def test_a_sidecar_of_another_file_is_refused(written, text):
    written.write_text(text)
    with pytest.raises(DatasetFormatError, match=r"d\.svm\.meta\.json: (shape|sha256) must .* Delete"):
        read_svmlight(written)


def test_a_sidecar_of_the_other_format_is_refused(written):
    with pytest.raises(DatasetFormatError, match=r"d\.svm\.meta\.json: format must be 'xmc', got 'svmlight'"):
        read_xmc(written)


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["bibtex", "delicious"])
def test_real_data_survive_both_formats(mulan, tmp_path, name):
    expected = mulan(name)
    for write, read in ((write_xmc, read_xmc), (write_svmlight, read_svmlight)):
        write(expected, tmp_path / "d.txt")
        found = read(tmp_path / "d.txt")
        assert (found.X != expected.X).nnz == (found.Y != expected.Y).nnz == 0
        assert (found.X.nnz, found.Y.nnz) == (expected.X.nnz, expected.Y.nnz)
        for key in ("name", "feature_names", "label_names", "n_train", "provenance", "unknown", "shape"):
            assert getattr(found, key) == getattr(expected, key)
