from __future__ import annotations

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from lrml.datasets import (
    DatasetFormatError,
    iter_blocks,
    load_yeast,
    make_low_rank_multilabel,
    read_dataset,
    write_dataset,
)


def _joined(blocks):
    """Put blocks together; check that their rows are numbered and their names shared."""
    blocks = list(blocks)
    starts = np.cumsum([0] + [len(block) for block in blocks[:-1]])
    assert [block.first_row for block in blocks] == starts.tolist()
    assert all(block.feature_names is blocks[0].feature_names for block in blocks)

    def stacked(parts):
        if parts[0] is None:
            return None
        return sparse.vstack(parts).toarray() if sparse.issparse(parts[0]) else np.vstack(parts)

    return blocks, stacked([block.X for block in blocks]), stacked([block.targets for block in blocks])


def _array(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else matrix


@pytest.fixture(scope="module")
def wide():
    """Sparse rows, some labels unknown."""
    dataset, _ = make_low_rank_multilabel(101, 40, 6, rank=2, density=0.1, missing=0.05, random_state=0)
    assert sparse.issparse(dataset.X)
    return dataset


@pytest.mark.parametrize("suffix", ["svm", "xmc.gz", "arff"])
@pytest.mark.parametrize("rows", [1, 7, 1000])
def test_blocks_are_the_whole(tmp_path, wide, suffix, rows):
    path = tmp_path / f"wide.{suffix}"
    write_dataset(wide, path)
    whole = read_dataset(path)
    blocks, X, targets = _joined(iter_blocks(path, rows=rows))
    assert [len(block) for block in blocks][:-1] == [rows] * (len(blocks) - 1)
    assert all(sparse.issparse(block.X) and block.X.has_canonical_format for block in blocks)
    assert_array_equal(X, _array(whole.X))
    assert_array_equal(targets, _array(whole.targets))
    assert tuple(blocks[0].feature_names) == tuple(whole.feature_names)
    assert tuple(blocks[0].label_names) == tuple(whole.label_names)
    assert blocks[0].Y.dtype == whole.Y.dtype


def test_dense_files_give_dense_blocks(tmp_path):
    yeast = load_yeast()
    write_dataset(yeast, tmp_path / "yeast.svm")
    blocks, X, Y = _joined(iter_blocks(tmp_path / "yeast.svm", rows=1000))
    assert all(isinstance(block.X, np.ndarray) and isinstance(block.Y, np.ndarray) for block in blocks)
    assert_array_equal(X, yeast.X)
    assert_array_equal(Y, yeast.Y)


@pytest.fixture
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((50, 3)), columns=list("abc"))
    frame.loc[3, "b"] = np.nan
    frame["red"] = pd.array(rng.integers(0, 2, 50), dtype="Int8")
    frame["round"] = pd.array(rng.integers(0, 2, 50), dtype="Int8")
    frame.loc[7, "red"] = pd.NA
    frame["tags"] = [", ".join(name for name in ("x", "y", "z") if rng.random() < 0.5) for _ in range(50)]
    return frame


@pytest.fixture(params=["csv", "parquet"])
def table(request, tmp_path, frame):
    path = tmp_path / f"toys.{request.param}"
    if request.param == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path, row_group_size=20)
    return path


@pytest.mark.parametrize("rows", [1, 8, 50])
@pytest.mark.parametrize("storage", [False, True])
def test_tables(table, rows, storage):
    options = {"labels": ["round", "red"], "ignore": ["tags"], "sparse": storage}
    whole = read_dataset(table, **options)
    blocks, X, targets = _joined(iter_blocks(table, rows=rows, **options))
    assert [len(block) for block in blocks] == [rows] * (50 // rows) + [50 % rows] * (50 % rows > 0)
    assert_array_equal(X, _array(whole.X))
    assert_array_equal(targets, _array(whole.targets))
    assert blocks[0].label_names == ("round", "red")


@pytest.mark.parametrize("rows", [8, 50])
def test_tables_that_list_labels(table, rows):
    options = {"label_column": "tags", "features": ["c", "a"]}
    whole = read_dataset(table, **options)
    _, X, Y = _joined(iter_blocks(table, rows=rows, label_names=["x", "y", "z"], **options))
    assert_array_equal(X, whole.X)
    assert_array_equal(Y, whole.Y.toarray())
    _, _, Y = _joined(iter_blocks(table, rows=rows, label_names=["z", "none", "y", "x"], **options))
    assert_array_equal(Y[:, [3, 2, 0]], whole.Y.toarray())
    assert not Y[:, 1].any()
    with pytest.raises(DatasetFormatError, match=r"must list labels of label_names \(rows 1 to .*got '[yz]'"):
        list(iter_blocks(table, rows=rows, label_names=["x"], **options))


def test_rows_without_labels(table, tmp_path):
    _, X, Y = _joined(iter_blocks(table, rows=20, ignore=["red", "round", "tags"]))
    assert Y is None
    assert X.shape == (50, 3)
    for name, content, options in (
        ("a.svm", " 1:1\n3:2\n", {"n_features": 3, "n_labels": 2, "labelled": False}),
        ("a.xmc", "2 3 0\n0:1\n2:2\n", {}),
        (
            "a.arff",
            "@attribute a numeric\n@attribute b numeric\n@attribute c real\n@data\n1,0,0\n0,0,2\n",
            {},
        ),
    ):
        (tmp_path / name).write_text(content)
        blocks, X, Y = _joined(iter_blocks(tmp_path / name, rows=1, **options))
        assert_array_equal(X, [[1, 0, 0], [0, 0, 2]])
        assert Y is None
        assert blocks[1].targets is blocks[1].label_names is None
        assert "no labels" in repr(blocks[1])


def test_labels_are_left_out_where_they_are(table, tmp_path, wide):
    """With the options of training, rows may come with labels and identifiers, or without."""
    for options in (
        {"labels": ["red", "round"], "ignore": ["tags", "id"]},
        {"label_column": "tags", "ignore": ["red", "round"]},
        {"labels": ["none"], "ignore": ["tags", "red", "round"], "name": "any"},
    ):
        blocks, X, Y = _joined(iter_blocks(table, rows=20, labelled=False, **options))
        assert blocks[0].feature_names == ("a", "b", "c")
        assert X.shape == (50, 3)
        assert Y is None
    for suffix in ("arff", "svm", "xmc"):
        write_dataset(wide, tmp_path / f"wide.{suffix}")
        _, X, Y = _joined(iter_blocks(tmp_path / f"wide.{suffix}", labelled=False))
        assert_array_equal(X, wide.X.toarray())
        assert Y is None
    path = tmp_path / "new.arff"
    path.write_text("@attribute a numeric\n@attribute b numeric\n@data\n1,1\n")
    block = next(iter_blocks(path, labels=["red", "b"], labelled=False))
    assert (block.feature_names, block.Y) == (("a",), None)


def test_what_the_end_would_show_is_taken_from_each_block(tmp_path, table):
    path = tmp_path / "a.svm"
    path.write_text("3 1:1\n0 7:2\n 2:1\n")
    blocks = list(iter_blocks(path, rows=1))
    assert [block.X.shape for block in blocks] == [(1, 1), (1, 7), (1, 2)]
    assert [block.Y.shape for block in blocks] == [(1, 4), (1, 1), (1, 1)]
    assert [len(block.feature_names) for block in blocks] == [1, 7, 2]
    whole = read_dataset(table, label_column="tags", features=["a"])
    for block in iter_blocks(table, rows=7, label_column="tags", features=["a"]):
        columns = [whole.label_names.index(name) for name in block.label_names]
        rows = slice(block.first_row, block.first_row + len(block))
        assert_array_equal(block.Y.toarray(), whole.Y.toarray()[rows][:, columns])
        assert whole.Y[rows].sum() == block.Y.sum()


def test_svmlight_streams_count_from_one(tmp_path):
    path = tmp_path / "a.svm"
    path.write_text("3 1:1\n0,1 2:2\n5 0:1\n")
    blocks = iter_blocks(path, rows=2, n_features=2, n_labels=6)
    assert_array_equal(next(blocks).Y.toarray(), [[0, 0, 0, 1, 0, 0], [1, 1, 0, 0, 0, 0]])
    with pytest.raises(DatasetFormatError, match=r"line 3: an index must lie in \[1, 2\], got '0'"):
        next(blocks)
    _, X, _ = _joined(iter_blocks(path, rows=2, n_features=3, n_labels=6, zero_based=True))
    assert_array_equal(X, [[0, 1, 0], [0, 0, 2], [1, 0, 0]])


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("a.svm", "# nothing\n", {"n_features": 3}, "the file must have a row, got none"),
        (
            "a.svm",
            "0 1:1\n",
            {"n_features": 3, "sparse": True},
            r"one of the svmlight reader's \(n_features, n_labels,",
        ),
        ("a.csv", "a,b\n1,x\n", {"label_column": "b", "label_names": "x"}, "label_names must be a list"),
        ("a.csv", "a,b\n", {}, "a table must have a row"),
        ("a.csv", "a,b\n1,2\n", {"labels": ["b"], "label_column": "a"}, "exactly one of labels"),
        ("a.csv", "a,b\n1,2\n", {"rows": 0}, "rows must be an integer of at least 1, got 0"),
        ("a.xmc", "3 2 2\n0 1:1\n", {}, "must have 3 rows, as its first line says, got 1"),
        ("a.doc", "", {}, "the format must be one of arff"),
    ],
)
def test_wrong_input(tmp_path, name, content, options, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        list(iter_blocks(tmp_path / name, **options))


def test_a_sidecar_of_another_file_is_noticed_at_the_end(tmp_path, wide):
    path = tmp_path / "wide.xmc"
    write_dataset(wide, path)
    path.write_text(path.read_text().replace(":1", ":2", 1) if ":1" in path.read_text() else "")
    blocks = iter_blocks(path, rows=50)
    next(blocks)
    with pytest.raises(DatasetFormatError, match="sha256 must be that of the data file"):
        list(blocks)


_MEASURE = """
import resource, sys
from lrml.datasets import iter_blocks
path, options = sys.argv[1], eval(sys.argv[2])
next(iter_blocks(path, rows=500, **options))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
count = sum(len(block) for block in iter_blocks(path, rows=500, **options))
print(count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.parametrize("suffix", ["xmc", "csv"])
def test_memory_does_not_grow_with_the_file(tmp_path, suffix):
    """The whole matrices would take 30 MB and more."""
    rng = np.random.default_rng(0)
    path = tmp_path / f"long.{suffix}"
    if suffix == "csv":
        lines = [",".join(row) for row in rng.integers(0, 100, (50, 40)).astype(str)]
        header, options, times = ",".join(f"x{k}" for k in range(40)), "{}", 2000
    else:
        lines = [
            "1,2 " + " ".join(f"{k}:0.5" for k in sorted(rng.choice(1000, 30, replace=False)))
            for _ in range(50)
        ]
        header, options, times = f"{50 * 2000} 1000 5", "{}", 2000
    path.write_text("\n".join([header, *(lines * times), ""]))
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, path, options],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    count, growth = map(int, done.stdout.split())
    assert count == 50 * times
    assert growth < 15_000  # KiB


def test_parquet_and_csv_agree_with_pandas(table, frame):
    _, X, _ = _joined(iter_blocks(table, rows=13, features=["a", "b", "c"]))
    assert_array_equal(X, frame[["a", "b", "c"]].to_numpy())
