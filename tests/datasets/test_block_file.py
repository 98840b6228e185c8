"""Files in blocks that can be read again, and sums over them that go on where they were stopped."""

from __future__ import annotations

import os
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

import lrml.datasets._tables as tables
from lrml import LRML
from lrml.blocks import BlockError, Checkpoint, LocalBlocks, statistics_of
from lrml.core.moments import Statistics
from lrml.datasets import (
    BlockFile,
    DatasetFormatError,
    make_low_rank_multilabel,
    read_dataset,
    write_dataset,
)

OPTIONS = {"csv": {"label_column": "tags"}, "parquet": {"label_column": "tags"}}


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else matrix


def write(path, rows, seed=0):
    """Write a file of a few rows with ten features and five labels, in the format of the suffix."""
    dataset, _ = make_low_rank_multilabel(rows, 10, 5, rank=2, density=0.4, random_state=seed)
    if path.suffix in (".csv", ".parquet"):
        frame = pd.DataFrame(dense(dataset.X), columns=list("abcdefghij"))
        frame["tags"] = [",".join(f"t{column}" for column in np.flatnonzero(row)) for row in dense(dataset.Y)]
        if path.suffix == ".csv":
            frame.to_csv(path, index=False)
        else:
            frame.to_parquet(path, row_group_size=4)
    else:
        write_dataset(dataset, path)
    return path


@pytest.fixture(params=["xmc", "svm.gz", "arff", "csv", "parquet"])
def files(request, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_BLOCK_BYTES", 300)
    return [write(tmp_path / f"{name}.{request.param}", rows, rows) for name, rows in (("a", 11), ("b", 7))]


def test_blocks_can_be_read_again_and_from_any_block_on(files):
    options = OPTIONS.get(files[0].suffix[1:], {})
    whole = [read_dataset(path, **options) for path in files]
    for paths, sizes in ((files[0], [3, 3, 3, 2]), (files, [3, 3, 3, 2, 3, 3, 1])):
        blocks = BlockFile(paths, rows=3, **options)
        found = list(blocks)
        assert [len(block) for block in found] == sizes
        assert [block.first_row for block in found] == np.cumsum([0, *sizes[:-1]]).tolist()
        for matrix in ("X", "Y"):
            expected = np.vstack([dense(getattr(part, matrix)) for part in whole])[: sum(sizes)]
            assert_array_equal(np.vstack([dense(getattr(block, matrix)) for block in found]), expected)
        assert list(blocks.feature_names) == list(whole[0].feature_names)
        assert list(blocks.label_names) == list(whole[0].label_names)
        for start in range(len(sizes) + 2):
            for later, block in zip(
                pickle.loads(pickle.dumps(blocks)).starting_at(start), found[start:], strict=True
            ):
                assert later.first_row == block.first_row
                assert_array_equal(dense(later.X), dense(block.X))
                assert_array_equal(dense(later.targets), dense(block.targets))


def test_what_an_svmlight_file_does_not_say_is_found_in_all_files(tmp_path):
    (tmp_path / "a.svm").write_text("3 1:1 # no 9:9\n0 7:2\n")
    (tmp_path / "b.svm").write_text("1 2:1\n")
    (tmp_path / "c.svm").write_text("5 0:4 # features are counted from 0\n")
    shapes = [(block.X.shape, block.Y.shape) for block in BlockFile(tmp_path / "a.svm", rows=1)]
    assert shapes == [((1, 7), (1, 4))] * 2
    blocks = BlockFile([tmp_path / f"{name}.svm" for name in "abc"], rows=1)
    X, Y = (sparse.vstack(parts).toarray() for parts in zip(*((b.X, b.Y) for b in blocks), strict=True))
    assert (X.shape, Y.shape) == ((4, 8), (4, 6))
    assert np.argwhere(X).tolist() == [[0, 1], [1, 7], [2, 2], [3, 0]]
    assert Y.argmax(axis=1).tolist() == [3, 0, 1, 5]
    assert blocks.has_first_pass
    given = BlockFile(tmp_path / "b.svm", n_features=3, n_labels=2)
    assert not given.has_first_pass
    assert [block.X.shape for block in given] == [(1, 3)]
    (tmp_path / "d.svm").write_text(" 1:1\n")
    with pytest.raises(DatasetFormatError, match="must have some labels, got none"):
        list(BlockFile(tmp_path / "d.svm"))
    assert [block.Y for block in BlockFile(tmp_path / "d.svm", labelled=False)] == [None]


def test_labels_of_a_table_are_those_of_all_its_rows(tmp_path):
    table = pa.table({"size": [1.0, 2.0, 3.0], "tags": [[10], [9, 2], []]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1)
    blocks = BlockFile(tmp_path / "a.parquet", rows=1, label_column="tags")
    assert blocks.label_names == ("2", "9", "10")
    assert np.vstack([block.Y.toarray() for block in blocks]).tolist() == [[0, 0, 1], [1, 1, 0], [0, 0, 0]]


@pytest.mark.parametrize("suffix", ["xmc", "svm", "arff", "parquet"])
def test_skipped_rows_are_not_parsed(tmp_path, suffix):
    path = write(tmp_path / f"a.{suffix}", 8)
    options = OPTIONS.get(suffix, {})
    if suffix == "parquet":  # infinity in the first of two row groups
        frame = pd.read_parquet(path)
        frame.loc[1, "a"] = np.inf
        frame.to_parquet(path, row_group_size=4)
        options = options | {"label_names": [f"t{column}" for column in range(5)]}
    else:
        lines = path.read_text().splitlines()
        lines[1 if suffix == "xmc" else lines.index("@data") + 2 if suffix == "arff" else 0] = "nonsense"
        path.write_text("\n".join([*lines, ""]))
        (tmp_path / f"a.{suffix}.meta.json").unlink(missing_ok=True)
        options = options | ({"n_features": 10, "n_labels": 5} if suffix == "svm" else {})
    blocks = BlockFile(path, rows=4, **options)
    assert [block.first_row for block in blocks.starting_at(1)] == [4]
    with pytest.raises(DatasetFormatError, match=r"nonsense|finite"):
        next(iter(blocks))


def test_a_file_must_not_change_while_it_is_read(tmp_path):
    path = write(tmp_path / "a.xmc", 8)
    blocks = BlockFile(path, rows=3)
    reading = iter(blocks)
    next(reading)
    os.utime(path, (1, 1))
    with pytest.raises(DatasetFormatError, match=r"a\.xmc: a file must stay as it is .* got a change\. Wait"):
        next(reading)
    with pytest.raises(DatasetFormatError, match="got a change"):
        next(iter(blocks))


def test_identity_is_that_of_the_blocks(tmp_path):
    a, b = write(tmp_path / "a.svm", 8), write(tmp_path / "b.svm", 8)
    usual = BlockFile(a).identity()
    assert usual == BlockFile(str(a), name="any").identity()
    others = [BlockFile(a, rows=3), BlockFile([a, b]), BlockFile([b, a]), BlockFile(a, zero_based=False)]
    others.append(BlockFile([a, a]))
    os.utime(tmp_path / "a.svm.meta.json", (1, 1))
    others.append(BlockFile(a))
    assert len({usual, *(blocks.identity() for blocks in others)}) == 7


def test_identity_tells_files_and_long_options_apart(tmp_path):
    a, b = (tmp_path / name for name in ("a.csv", "b.csv"))
    names = np.array([f"t{number:04d}" for number in range(3000)])
    other = np.concatenate([names[:1500], ["other"], names[1501:]])
    assert repr(names) == repr(other)  # NumPy leaves out the middle
    for path in (a, b):
        path.write_text("x,tags\n1,t0000\n")
        os.utime(path, (1, 1))
    known = [BlockFile(a, label_column="tags", label_names=chosen) for chosen in (names, other)]
    found = {blocks.identity() for blocks in (*known, BlockFile(a), BlockFile(b))}
    assert len(found) == 4
    moved = tmp_path / "moved"
    moved.mkdir()
    a.rename(moved / "a.csv")
    there = BlockFile(moved / "a.csv", label_column="tags", label_names=names.tolist())
    assert there.identity() == known[0].identity()


@pytest.mark.parametrize(
    ("names", "options", "message"),
    [
        ((), {}, "paths must name a file, got none"),
        (("a.csv", "none.csv"), {}, "must be a file, got .*which does not exist"),
        (("a.csv", "a.svm"), {}, r"all files must be of one format, got .*\(csv\) and .*\(svmlight\)"),
        (("a.csv", "b.csv"), {"labels": -1}, r"b\.csv: all files must have the same features in "
         r"the same order.* got 'z' in the place of 'x'"),
        (("a.csv", "c.csv"), {"labels": -1}, "got 1 features, for 2"),
        (("a.csv",), {"labels": -1, "rows": 0}, "rows must be an integer of at least 1, got 0"),
        (("a.csv",), {"labels": -1, "zero_based": True}, "one of the csv reader's"),
    ],
)  # fmt: skip
def test_wrong_files(tmp_path, names, options, message):
    for name, text in (("a.csv", "x,y,t\n1,2,0\n"), ("b.csv", "z,y,t\n1,2,0\n"), ("c.csv", "y,t\n1,0\n")):
        (tmp_path / name).write_text(text)
    (tmp_path / "a.svm").write_text("0 1:1\n")
    with pytest.raises((ValueError, OSError), match=message):
        list(BlockFile([tmp_path / name for name in names], **options))
    with pytest.raises((ValueError, OSError), match=message):  # the same where each process reads a file
        [list(part) for part in BlockFile([tmp_path / name for name in names], **options).split()]


class StoppedError(Exception):
    pass


class Stopping:
    """Some blocks of a file, then an end as sudden as that of the process."""

    def __init__(self, blocks, after):
        self.blocks, self.after, self.identity = blocks, after, blocks.identity

    def starting_at(self, start):
        for index, block in enumerate(self.blocks.starting_at(start), start):
            if index == self.after:
                raise StoppedError
            yield block

    def __iter__(self):
        return self.starting_at(0)


def bits(statistics):
    return [array.tobytes() for array in statistics.to_arrays().values()]


def test_a_stopped_sum_goes_on_and_ends_with_the_same_bits(files, tmp_path):
    blocks = BlockFile(files, rows=3, **OPTIONS.get(files[0].suffix[1:], {}))
    expected = LocalBlocks(blocks).sum(statistics_of)
    checkpoint = Checkpoint(tmp_path / "sums", seconds=0)
    for after in (2, 5):
        with pytest.raises(StoppedError):
            LocalBlocks(Stopping(blocks, after)).sum(statistics_of, checkpoint=checkpoint)
    assert checkpoint.start().n_blocks == 5
    read = []

    def seen(block):
        read.append((block.index, block.first_row))
        return statistics_of(block)

    assert bits(LocalBlocks(blocks).sum(seen, checkpoint=checkpoint)) == bits(expected)
    assert read == [(5, 14), (6, 17)]
    assert bits(LocalBlocks(blocks).sum(seen, checkpoint=checkpoint)) == bits(expected)
    assert len(read) == 2  # the finished sum is kept, too
    with pytest.raises(ValueError, match="other rows"):
        LocalBlocks(BlockFile(files, rows=4, **blocks.options)).sum(statistics_of, checkpoint=checkpoint)
    with pytest.raises(ValueError, match="other rows"):
        LocalBlocks(list(blocks)).sum(statistics_of, checkpoint=checkpoint)


def test_a_table_whose_labels_are_not_named(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,0\n")
    with pytest.raises(BlockError, match=r"block 0 .*labels="):
        LRML(1).fit_blocks(BlockFile(tmp_path / "a.csv"))


def test_an_error_after_a_checkpoint_names_block_and_row(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("x,y\n" + "1,0\n2,1\n" * 3 + ",1\n")
    blocks = BlockFile(path, rows=2, labels=["y"])
    checkpoint = Checkpoint(tmp_path / "sums", seconds=0)
    for _ in range(2):  # a new run gets there by the checkpoint
        with pytest.raises(BlockError, match=r"block 3, row 6: .*NaN") as error:
            LocalBlocks(blocks).sum(statistics_of, checkpoint=checkpoint)
        assert isinstance(error.value.sums, Statistics)
        assert error.value.sums.n_rows == 6


def test_patterns_name_files_and_folders_are_told_how(tmp_path):
    for name in ("b", "a", "[c]"):
        (tmp_path / f"{name}.csv").write_text("x,y\n1,0\n")
    (tmp_path / "notes.txt").write_text("")
    every = BlockFile(tmp_path / "*.csv", labels=-1)
    assert [path.name for path in every.paths] == ["[c].csv", "a.csv", "b.csv"]
    assert BlockFile([tmp_path / "b*", tmp_path / "[c].csv"], labels=-1).paths[1].name == "[c].csv"
    with pytest.raises(
        FileNotFoundError, match=r"is a folder. Name its files, as a list or a pattern: .*\*\.csv"
    ):
        BlockFile(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"none\*.csv', which does not exist"):
        BlockFile(tmp_path / "none*.csv")
