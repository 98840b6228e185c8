from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from lrml.datasets import DatasetFormatError, MultiLabelDataset, NumberedNames, read_xmc, write_xmc


@pytest.fixture
def read(tmp_path):
    """Write a file, and read it."""

    def read_text(text, **options):
        path = tmp_path / "toy.txt"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_xmc(path, **options)

    return read_text


@pytest.fixture
def toy():
    return MultiLabelDataset(
        name="toy data",
        X=np.array([[0.5, 0, -0.0], [0, 0, np.nan], [0, 0, 0]]),
        Y=sparse.csr_array(np.array([[1, 0], [0, 0], [0, 0]], dtype=np.int8)),
        feature_names=["a\nb", "", "ü"],
        label_names=NumberedNames("tag", 2, 5),
        n_train=2,
        provenance="by hand",
        unknown=sparse.csr_array(np.array([[0, 1], [0, 0], [1, 0]], dtype=bool)),
    )


def test_rows_with_and_without_labels_and_features(read):
    dataset = read("5 4 3\n2,0 3:.5 0:-1e-3\n 1:2\n\n1\n3:7 2:0\n")
    assert repr(dataset) == "<MultiLabelDataset toy: X (5, 4) sparse, Y (5, 3) sparse, no split>"
    assert (dataset.X.dtype, dataset.Y.dtype) == (np.float64, np.uint8)
    assert_array_equal(
        dataset.X.toarray(), [[-1e-3, 0, 0, 0.5], [0, 2, 0, 0], [0] * 4, [0] * 4, [0, 0, 0, 7]]
    )
    assert_array_equal(dataset.Y.toarray(), [[1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0]])
    assert dataset.X.nnz == 4  # a written 0 is not stored
    assert dataset.feature_names == NumberedNames("feature", 4)
    assert dataset.label_names == NumberedNames("label", 3)
    assert dataset.provenance == "toy.txt"


@pytest.mark.parametrize("end", ["", "\n", "\n\n \t\r\n\n"])
def test_the_last_row_may_be_blank_and_blank_lines_may_follow(read, end):
    assert_array_equal(read("2 1 1\r\n0\t0:3 \r\n" + (end or "\n")).X.toarray(), [[3], [0]])


def test_missing_values(read):
    assert_array_equal(read("1 3 1\n0 0:nan 2:NaN\n").X.toarray(), [[np.nan, 0, np.nan]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'line 1: the first line must be "n d L"'),
        ("2 3\n", "line 1: .* got '2 3'. Put such a line first, or name the format svmlight"),
        ("0 3 3\n", "line 1: the first line .* each in \\[1, 2147483647\\], got '0 3 3'"),
        ("1 2147483648 3\n0 1:1\n", "line 1: the first line"),
        ("0,1 3:0.5\n", "line 1: the first line"),
        ("2 3 3\n0 1:1\n", "line 2: the file must have 2 rows, .* got 1. Check that the file is complete"),
        ("2 3 3\n\n\n\n1 0:1\n", "line 5: the file must have 2 rows, .* got one more row"),
        ("1 3 3\n3 0:1\n", "line 2: a label must be below 3, .* got '3'. Count labels from 0"),
        ("1 3 3\n1.0 0:1\n", "line 2: a label must be a non-negative integer, got '1.0'"),
        ("1 3 3\n-1 0:1\n", "line 2: a label must be a non-negative integer, got '-1'"),
        ("1 3 3\n1,,2 0:1\n", "line 2: a label must be a non-negative integer, got ''"),
        ("2 3 3\n0\n 3:1\n", "line 3: an index must lie in \\[0, 2\\], got '3'. Count features from 0"),
        (f"1 3 3\n {'9' * 400}:1\n", "line 2: an index must lie in \\[0, 2\\], got 'inf'"),
        ("2 3 3\n0\n 1:1 0:2 1:1\n", "line 3: an index must not occur twice in a row, got 1. Delete"),
        ("2 3 3\n0\n2,1,2 1:1\n", "line 3: a label must not occur twice in a row, got 2. Delete"),
        ("1 3 3\n0 1:1e999\n", "line 2: a value must be a finite number, or nan .* got 'inf'"),
        ("1 3 3\n0 1:-inf\n", "line 2: a value must be a finite number, or nan .* got '-inf'"),
        ("1 3 3\n0 1:\n", "line 2: a value must be a finite number, or nan .* got ''"),
        ("1 3 3\n0 1:0x1\n", "line 2: a value must be a finite number, or nan .* got '0x1'"),
        ("1 3 3\n0 -1:1\n", "line 2: after the labels, .* pairs \"index:value\", .* got '-1:1'"),
        ("1 3 3\n 0 1:1\n", "line 2: after the labels, .* pairs \"index:value\", .* got '0'"),
        ("1 3 3\n0 1:1 qid:3\n", "line 2: a row must not have a qid, got 'qid:3'"),
    ],
)
def test_errors_name_line_rule_value_and_remedy(read, text, message):
    with pytest.raises(DatasetFormatError, match=rf"toy\.txt, {message}"):
        read(text)


def test_large_dimensions_take_no_memory(read, tmp_path):
    tracemalloc.start()
    try:
        dataset = read("1 2147483647 2000000000\n1999999999 2147483646:1\n")
        write_xmc(dataset, tmp_path / "copy.txt")
        copy = read_xmc(tmp_path / "copy.txt")
        with pytest.raises(DatasetFormatError, match="must have 2000000000 rows"):
            read("2000000000 2000000000 2000000000\n1 1:1\n")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3e6
    assert copy.shape == (1, 2147483647, 2000000000)
    assert copy.X.indices.tolist() == [2147483646]
    assert copy.Y.indices.tolist() == [1999999999]
    assert copy.label_names[-1] == "label1999999999"


def test_names_from_a_file_or_a_sequence(read, tmp_path):
    (tmp_path / "Yf.txt").write_bytes("red\r\nvery round\r\nsüß\r\n\r\n".encode())
    dataset = read("1 2 3\n0 0:1\n", label_names=tmp_path / "Yf.txt", feature_names=["b", "a"], name="n")
    assert dataset.label_names == ("red", "very round", "süß")
    assert dataset.feature_names == ("b", "a")
    assert dataset.name == "n"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            b"a\nb\na\n",
            "line 3: a name must not occur twice, as on line 1, got 'a'. Rename .* label_names=None",
        ),
        (b"a\nb\n", "the file must have 3 lines, one name for each column, got 2"),
        (b"a\nb\nc\nd\n", "the file must have 3 lines, one name for each column, got 4"),
        (b"a\n\xff\nc\n", "line 2: a name must be UTF-8"),
    ],
)
def test_wrong_files_of_names(read, tmp_path, names, message):
    (tmp_path / "Yf.txt").write_bytes(names)
    with pytest.raises(DatasetFormatError, match=rf"Yf\.txt(, |: ){message}"):
        read("1 2 3\n0 0:1\n", label_names=str(tmp_path / "Yf.txt"))


@pytest.mark.parametrize("names", [["a"], ["a", "a"], ["a", 1], NumberedNames("x", 3)])
def test_wrong_sequences_of_names(read, names):
    with pytest.raises(ValueError, match=r"feature_names must .* got .*None"):
        read("1 2 3\n0 0:1\n", feature_names=names)
