"""What holds for sources of every format, plain and compressed."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import os
import pickle
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from lrml.datasets import (
    Columns,
    Dataset,
    DatasetFormatError,
    NumberedNames,
    TextDataset,
    open_source,
    read_dataset,
)
from model_checks import dense

N = 11
RNG = np.random.default_rng(0)
X = np.round(RNG.normal(size=(N, 4)) * (RNG.random((N, 4)) < 0.6), 3)
Y = (RNG.random((N, 3)) < 0.4).astype(np.uint8)
Y[0], Y[-1], X[0, 0], X[-1, 3] = 1, 1, 0.5, -0.25
FEATURES, LABELS = [f"x{j}" for j in range(4)], ["red", "round", "sweet"]
TEXTS = [f"text number {i}, a good one" for i in range(N)]
TAGS = [tuple(sorted(np.array(LABELS)[row > 0].tolist())) for row in Y]


@dataclass
class Case:
    """Rows in a format: how they are written, what is said when they are read, and a spoilt row."""

    name: str
    content: bytes
    options: dict[str, Any] = field(default_factory=dict)
    texts: bool = False
    numbered: bool = False
    bad: tuple[bytes, bytes] = (b"", b"")

    def write(self, folder, suffix="", spoilt=False):
        content = self.content.replace(*self.bad, 1) if spoilt else self.content
        path = folder / (self.name + suffix)
        squeeze = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}[suffix]
        path.write_bytes(squeeze(content))
        return path


def lines(*rows):
    return ("\n".join(rows) + "\n").encode()


def table(delimiter, cells):
    return lines(delimiter.join([*FEATURES, *cells[0]]), *(delimiter.join(map(str, row)) for row in cells[1]))


def parquet(**columns):
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, row_group_size=3)
    return out.getvalue()


def pairs(first):
    for x, y in zip(X, Y, strict=True):
        labels = ",".join(map(str, np.flatnonzero(y)))
        yield f"{labels} " + " ".join(f"{j + first}:{v}" for j, v in enumerate(x) if v)


def arff(rows):
    head = [f"@attribute {name} numeric" for name in FEATURES] + [f"@attribute {n} {{0,1}}" for n in LABELS]
    return lines("@relation 'toys: -C -3'", "% a comment", *head, "@data", *rows)


together = np.column_stack([X, Y]).tolist()
flags = {name: Y[:, k] for k, name in enumerate(LABELS)}
numbers = {name: X[:, j] for j, name in enumerate(FEATURES)}
CASES = [
    Case("dense.arff", arff(",".join(map(str, row)) for row in together), bad=(b"\n", b"\nx,")),
    Case(
        "sparse.arff",
        arff("{" + ",".join(f"{j} {v}" for j, v in enumerate(row) if v) + "}" for row in together),
        bad=(b"{0 0.5", b"{0 one"),
    ),
    Case("toys.xmc", lines(f"{N} 4 3", *pairs(0)), numbered=True, bad=(b"0:0.5", b"0:one")),
    Case("toys.txt", lines(f"{N} 4 3", *pairs(0)), numbered=True, bad=(b"0:0.5", b"9:0.5")),
    Case("toys.svm", lines("# a comment", *pairs(1)), numbered=True, bad=(b"1:0.5", b"1:one")),
    Case(
        "toys.csv",
        table(",", (LABELS, together)),
        {"labels": LABELS},
        bad=(b"\n0.5", b"\none"),
    ),
    Case("toys.tsv", table("\t", (LABELS, together)), {"labels": -3}, bad=(b"\n0.5", b"\none")),
    Case(
        "listed.csv",
        table(";", (["tags"], [[*x, "|".join(t)] for x, t in zip(X.tolist(), TAGS, strict=True)])),
        {"tags": "tags"},
        bad=(b"\n0.5", b"\none"),
    ),
    Case("toys.parquet", parquet(**numbers, **flags), {"labels": LABELS}),
    Case("listed.parquet", parquet(**numbers, tags=list(map(list, TAGS))), {"tags": "tags"}),
    Case(
        "texts.csv",
        lines("id,text,tags", *(f'{i},"{t}",{"; ".join(TAGS[i])}' for i, t in enumerate(TEXTS))),
        texts=True,
        bad=(b"\n3,", b"\n3\n4,"),
    ),
    Case(
        "texts.jsonl",
        lines(*(json.dumps({"text": t, "tags": s}) for t, s in zip(TEXTS, TAGS, strict=True))),
        texts=True,
        bad=(b'{"text": "text number 3', b'{"text": "text number 3"'),
    ),
    Case("texts.parquet", parquet(text=TEXTS, tags=list(map(list, TAGS))), texts=True),
    Case("plain.txt", lines(*TEXTS), texts=True, bad=(b"number 3", b"number \xff")),
]
SUFFIXES = ["", ".gz"]
EVERY = [
    pytest.param(case, suffix, id=case.name + suffix)
    for case in CASES
    for suffix in SUFFIXES
    if not (suffix and case.name.endswith("parquet"))
]


def check(case, found, rows=slice(None)):
    """Compare some rows with what was written."""
    if case.texts:
        assert isinstance(found, TextDataset)
        assert found.texts == tuple(TEXTS[rows])
        assert found.tags == (None if case.name == "plain.txt" else tuple(TAGS[rows]))
        return
    assert isinstance(found, Dataset)
    assert_array_equal(dense(found.X), X[rows])
    assert_array_equal(dense(found.Y), Y[rows])
    assert (found.X.dtype, found.Y.dtype) == (np.float64, np.int8)
    assert sparse.issparse(found.X) == (case.numbered or case.name == "sparse.arff")
    if not case.numbered:
        assert (list(found.feature_names), list(found.label_names)) == (FEATURES, LABELS)


@pytest.mark.parametrize(("case", "suffix"), EVERY)
def test_what_was_written_is_read_whole_in_blocks_and_from_any_block_on(tmp_path, case, suffix):
    source = open_source(case.write(tmp_path, suffix), **case.options)
    whole = source.read()
    check(case, whole)
    for size in (1, 4, N, 50):
        blocks = list(source.blocks(size))
        for start, block in zip(range(0, N, size), blocks, strict=True):
            check(case, block, slice(start, start + size))
            assert case.texts or block.first_row == start
        assert (source.n_rows, source.n_blocks) == (N, len(blocks))
        for start in range(len(blocks) + 1):
            again = list(source.blocks(size, start))
            assert [len(block) for block in again] == [len(block) for block in blocks[start:]]
            for place, block in enumerate(again, start):
                check(case, block, slice(place * size, place * size + size))


@pytest.mark.parametrize(("case", "suffix"), EVERY)
def test_rows_in_the_columns_of_a_model(tmp_path, case, suffix):
    source = open_source(case.write(tmp_path, suffix), rows=3, **case.options)
    labels = ("sweet", "other", "red")
    order = [3, 0, 2] if not case.numbered else [0, 1, 2]
    features = NumberedNames("feature", 3) if case.numbered else ("x3", "x0", "x2")
    if case.numbered:
        labels = NumberedNames("label", 2)
    aligned = source.aligned(Columns(None if case.texts else features, labels))
    blocks = list(aligned)
    if case.texts:
        assert [text for X, _ in blocks for text in X] == TEXTS
    else:
        assert_array_equal(np.vstack([dense(X) for X, _ in blocks]), X[:, order])
        gone = 3 if case.numbered else 1
        assert aligned.unknown["feature"].total() == np.count_nonzero(X[:, gone])
    if case.name == "plain.txt":
        assert blocks[0][1] is None
        return
    expected = Y[:, :2] if case.numbered else np.column_stack([Y[:, 2], np.zeros(N), Y[:, 0]])
    assert_array_equal(np.vstack([Y.toarray() for _, Y in blocks]), expected)
    gone = 2 if case.numbered else 1
    assert list(aligned.unknown["label"].values()) == [np.count_nonzero(Y[:, gone])]


@pytest.mark.parametrize("case", [c for c in CASES if not c.name.endswith("parquet")], ids=lambda c: c.name)
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_wrong_row_is_named_by_file_and_line(tmp_path, case, suffix):
    path = case.write(tmp_path, suffix, spoilt=True)
    with pytest.raises(DatasetFormatError, match=rf"{case.name}{suffix}, line \d+: "):
        open_source(path, **case.options).read()
    with pytest.raises(DatasetFormatError, match=rf"{case.name}{suffix}, line \d+: "):
        list(open_source(path, **case.options).blocks(3))


@pytest.mark.parametrize("case", [c for c in CASES if not c.texts], ids=lambda c: c.name)
def test_rows_without_labels_may_lack_their_columns(tmp_path, case):
    path = case.write(tmp_path)
    source = open_source(path, unlabelled=True, **case.options)
    blocks = list(source.blocks(4))
    assert all(block.Y is None and block.targets is None for block in blocks)
    assert_array_equal(np.vstack([dense(block.X) for block in blocks]), X)
    if case.name in ("toys.csv", "toys.parquet"):
        (tmp_path / "bare.csv").write_bytes(table(",", ([], X.tolist())))
        assert read_dataset(tmp_path / "bare.csv", unlabelled=True, **case.options).shape == (N, 4, 0)


@pytest.mark.parametrize("case", [c for c in CASES if not c.name.startswith("plain")], ids=lambda c: c.name)
def test_several_files_are_read_one_after_the_other(tmp_path, case):
    paths = []
    for place in range(2):
        (tmp_path / str(place)).mkdir()
        paths.append(case.write(tmp_path / str(place)))
    source = open_source(paths, rows=4, **case.options)
    blocks = list(source)
    assert [len(block) for block in blocks] == [4, 4, 3] * 2
    assert len(source.read()) == 2 * N
    for start in (0, 2, 3, 5):
        assert [len(block) for block in source.blocks(start=start)] == ([4, 4, 3] * 2)[start:]
    assert case.texts or [block.first_row for block in blocks] == [0, 4, 8, N, N + 4, N + 8]
    parts = [pickle.loads(pickle.dumps(part)) for part in source.parts()]
    assert [len(block) for part in parts for block in part] == [4, 4, 3] * 2
    for part in parts:
        assert part.columns == source.columns


def test_columns_of_files_that_do_not_say_them_are_those_of_all(tmp_path):
    (tmp_path / "a.svm").write_text("0,2 1:1\n")
    (tmp_path / "b.svm").write_text("1 7:1 3:2\n")
    source = open_source([tmp_path / "a.svm", tmp_path / "b.svm"])
    assert source.has_first_pass
    assert [block.shape for block in source] == [(1, 7, 3)] * 2
    assert source.columns == Columns(NumberedNames("feature", 7, 1), NumberedNames("label", 3))
    assert not open_source(tmp_path / "a.svm", n_features=9, n_labels=3).has_first_pass
    (tmp_path / "a.csv").write_text("x,tags\n1,a\n")
    (tmp_path / "b.csv").write_text("x,tags\n2,c;b\n")
    source = open_source(str(tmp_path / "*.csv"), tags="tags", tag_separator=";")
    assert source.columns.labels == ("a", "b", "c")
    assert_array_equal(np.vstack([block.Y.toarray() for block in source]), [[1, 0, 0], [0, 1, 1]])
    assert_array_equal(source.read().Y.toarray(), [[1, 0, 0], [0, 1, 1]])


def test_files_with_other_columns_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("x,z,y\n1,2,0\n")
    (tmp_path / "b.csv").write_text("z,x,y\n1,2,0\n")
    (tmp_path / "c.svm").write_text("0 1:1\n")
    with pytest.raises(ValueError, match=r"'x'.*'z'"):
        list(open_source([tmp_path / "a.csv", tmp_path / "b.csv"], labels=["y"]))
    with pytest.raises(ValueError, match=r"csv.*svmlight"):
        open_source([tmp_path / "a.csv", tmp_path / "c.svm"])


def test_a_split_is_two_sources(tmp_path):
    (tmp_path / "toy-train.svm").write_text("0,2 1:0.5 4:1\n1 2:2\n")
    (tmp_path / "toy-test.svm").write_text("0 5:1\n")
    source = open_source(tmp_path / "toy-train.svm", test=tmp_path / "toy-test.svm")
    whole = source.read()
    assert repr(whole) == "<Dataset toy: X (3, 5) sparse, Y (3, 3) sparse, train 2 / test 1>"
    assert [len(part.read()) for part in (source.train, source.test)] == [2, 1]
    assert source.has_split
    whole.save(tmp_path / "toy.npz")
    again = open_source(tmp_path / "toy.npz")
    assert [len(part.read()) for part in (again.train, again.test)] == [2, 1]
    one = open_source(tmp_path / "toy-train.svm")
    assert one.train is one.test is one


def test_a_dataset_by_name():
    source = open_source("yeast")
    assert [len(source.train.read()), len(source.test.read())] == [1500, 917]
    assert [len(block) for block in source.blocks(1000)] == [1000, 1000, 417]
    assert_array_equal(next(source.blocks(1000, 2)).X, source.read().X[2000:])
    with pytest.raises(ValueError, match=r"labels .*'yeast' is a dataset.*\./yeast"):
        open_source("yeast", labels=3)
    assert source.identity() == open_source("yeast").identity() != source.train.identity()


def test_identities_tell_files_and_options_apart(tmp_path):
    case = next(case for case in CASES if case.name == "toys.csv")
    path = case.write(tmp_path)
    first = open_source(path, labels=LABELS)
    same = open_source(path, labels=-3)
    assert first.identity() == same.identity()
    others = [
        open_source(path, labels=LABELS[:2], ignore=["sweet"]),
        open_source(path, labels=LABELS, rows=5),
        open_source(path, labels=LABELS, sparse=True),
        open_source([path, path], labels=LABELS),
    ]
    assert len({first.identity(), *(other.identity() for other in others)}) == 5
    moved = tmp_path / "moved"
    moved.mkdir()
    os.rename(path, moved / path.name)
    again = open_source(moved / path.name, labels=LABELS)
    assert (again.identity(), again.files) == (first.identity(), first.files)
    (moved / path.name).write_bytes(case.content + b"1,1,1,1,0,0,0\n")
    changed = open_source(moved / path.name, labels=LABELS)
    assert changed.identity() != first.identity()
    assert changed.files[0][0] == first.files[0][0]
    assert changed.files != first.files


def test_streams_are_read_as_they_come():
    """A person who types, or a program that waits for the answer, is not asked for a thousand lines first."""
    reader, writer = os.pipe()
    with open(reader, "rb") as stream, open(writer, "wb", buffering=0) as out:
        out.write(b"one\n")
        blocks = open_source(stream).blocks(1)
        assert next(blocks).texts == ("one",)
        out.write(b"two\n")
        assert next(blocks).texts == ("two",)
    stream = io.BytesIO(b"text,tags\na good text,x\nanother one,y\n")
    assert open_source(stream, format="csv").read().tags == (("x",), ("y",))
    assert not stream.closed
    with pytest.raises(ValueError, match="cannot be Parquet"):
        open_source(io.BytesIO(b"PAR1"), format="parquet")


def test_a_missing_feature_and_numbers_for_texts_are_errors(tmp_path):
    source = open_source(CASES[5].write(tmp_path), labels=LABELS)
    with pytest.raises(ValueError, match="'y9'"):
        list(source.aligned(Columns(("x0", "y9"), ("red",))))
    with pytest.raises(ValueError, match="numbers"):
        list(source.aligned(Columns(None, ("red",))))
    with pytest.raises(ValueError, match="3 features"):
        list(source.aligned(Columns(NumberedNames("feature", 3), ("red",))))


@pytest.mark.parametrize(
    ("name", "options", "error", "message"),
    [
        ("none.csv", {}, FileNotFoundError, "none.csv"),
        ("toys.doc", {}, ValueError, r"'\.doc'.*\.csv"),
        ("toys.csv", {"format": "xls"}, ValueError, "'xls'"),
        ("toys.csv", {"rows": 0, "labels": LABELS}, ValueError, "rows is 0"),
        ("toys.csv", {"n_features": 3}, ValueError, "'n_features'"),
        ("toys.svm", {"xml": "x"}, ValueError, "'xml'"),
        ("sub", {}, FileNotFoundError, r"folder.*\*"),
    ],
)
def test_wrong_sources(tmp_path, name, options, error, message):
    (tmp_path / "toys.doc").write_text("x")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.csv").write_text("x")
    for case in CASES:
        case.write(tmp_path)
    with pytest.raises(error, match=message):
        open_source(tmp_path / name, **options)
