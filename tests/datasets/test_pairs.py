"""svmlight and XMC files: what their rows may look like, and what is not said in them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from lrml.datasets import (
    Dataset,
    DatasetFormatError,
    NumberedNames,
    open_source,
    read_dataset,
    write_dataset,
)


@pytest.fixture
def read(write):
    return lambda text, name="toy.svm", **options: read_dataset(write(text, name), **options)


@pytest.mark.parametrize(
    ("text", "X", "Y"),
    [
        ("0,2 1:0.5 4:1  # a comment\n 2:2\n", [[0.5, 0, 0, 1], [0, 2, 0, 0]], [[1, 0, 1], [0, 0, 0]]),
        ("# head\n\n1 2:1\r\n0\t1:3\n", [[0, 1], [3, 0]], [[0, 1], [1, 0]]),
        ("1:1 2:2\n0\n", [[1, 2], [0, 0]], [[0], [1]]),
        ("1 2:1 1:-2.5e-3\n0 1:+.5", [[-0.0025, 1], [0.5, 0]], [[0, 1], [1, 0]]),
        ("3.0 1:1\n", [[1]], [[0, 0, 0, 1]]),
        ("0 1:nan 2:0\n", [[np.nan, 0]], [[1]]),
        ("1,0 1:1\n", [[1]], [[1, 1]]),
    ],
)
def test_rows_of_svmlight(read, text, X, Y):
    found = read(text)
    assert_array_equal(found.X.toarray(), X)
    assert_array_equal(found.Y.toarray(), Y)
    assert found.feature_names == NumberedNames("feature", len(X[0]), 1)


def test_from_where_features_are_counted(read):
    assert read("0 0:1 2:1\n", zero_based=True).feature_names == NumberedNames("feature", 3)
    assert read("0 1:1 2:1\n").shape == (1, 2, 1)
    assert read("0 1:1 2:1\n", zero_based=True).shape == (1, 3, 1)
    with pytest.raises(DatasetFormatError, match=r"line 2: .*zero_based=True"):
        read("1 2:3\n0 0:1\n")


WRONG = (
    "0 1:x|0 x:1|0 1:|0 :1|0 1|0 1:1:1|x 1:1|-1 1:1|0.5 1:1|0, 1:1|,0 1:1|0 1:1 1:2|0,0 1:1|0 1:inf|0 1:1e999"
)
WRONG += "|0 1.5:1|0 -1:1|0 99999999999:1|0 qid:3|0 1: 1|0 1 :1|0 1:1_0|0 1:0x10|0 1:1,2:2"


@pytest.mark.parametrize("name", ["toy.svm", "toy.xmc"])
@pytest.mark.parametrize("row", WRONG.split("|"))
def test_what_breaks_a_rule_is_named_by_its_line(read, name, row):
    head = "3 5 3\n" if name == "toy.xmc" else "# a comment\n"
    with pytest.raises(DatasetFormatError, match=rf"{name}, line 3: "):
        read(f"{head}0 1:1\n{row}\n1 2:1\n", name)


def test_xmc_says_its_size(read):
    found = read("3 5 3\n0,2 1:0.5 4:1\n 0:2\n\n\n\n", "toy.txt")
    assert found.shape == (3, 5, 3)
    assert_array_equal(found.Y.toarray(), [[1, 0, 1], [0, 0, 0], [0, 0, 0]])
    assert read("1 5 0\n 0:2\n", "toy.xmc").Y is None
    for text in ("", "1 5\n0 1:1\n", "0 5 3\n", "3 5 3\n0 1:1\n", "1 5 3\n0 1:1\n1 1:1\n", "1 5 3\n0 5:1\n"):
        with pytest.raises(DatasetFormatError, match=r"toy\.xmc, line \d"):
            read(text, "toy.xmc")


def test_names_from_a_file_or_a_list(tmp_path, read):
    (tmp_path / "names.txt").write_text("red\nround\nsüß\n", encoding="utf-8")
    for names in (tmp_path / "names.txt", ["red", "round", "süß"]):
        found = read("1 2 3\n0 1:1\n", "toy.xmc", label_names=names)
        assert found.label_names == ("red", "round", "süß")
    assert read("0 1:1\n", label_names=["a", "b"], feature_names=["x", "y", "z"]).shape == (1, 3, 2)
    for names in (["a"], ["a", "a", "b"]):
        with pytest.raises(ValueError, match="label_names"):
            read("1 2 3\n0 1:1\n", "toy.xmc", label_names=names)


_ENTRY = st.one_of(st.just(0.0), st.floats(allow_nan=False, allow_infinity=False))
_TABLES = st.integers(1, 4).flatmap(
    lambda d: st.lists(st.lists(_ENTRY, min_size=d, max_size=d), min_size=1, max_size=6)
)


@given(_TABLES, st.integers(1, 3), st.integers(0, 99), st.sampled_from(["any.svm", "any.xmc.gz"]))
def test_any_numbers_are_written_and_read_bit_for_bit(tmp_path_factory, table, n_labels, seed, name):
    X = np.array(table)
    Y = np.random.default_rng(seed).integers(0, 2, (len(X), n_labels))
    path = tmp_path_factory.mktemp("any") / name
    write_dataset(Dataset("any", X, Y), path)
    widths = {"n_features": X.shape[1], "n_labels": n_labels} if "svm" in name else {}
    found = read_dataset(path, **widths)
    assert_array_equal(found.X.toarray(), X)
    assert_array_equal(found.Y.toarray() if found.Y is not None else 0, Y)
    blocks = list(open_source(path, **widths).blocks(2))
    assert_array_equal(np.vstack([block.X.toarray() for block in blocks]), X)
