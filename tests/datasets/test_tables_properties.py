"""Properties of the readers of tables that hold for all inputs, and what they do with hostile ones."""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

from lrml.datasets import DatasetFormatError, read_csv, read_parquet

# Round trip: what a writer wrote comes back, whatever the names, the layout and the size of the chunks.

_CHARACTERS = st.characters(codec="utf-8") | st.sampled_from("\"',;|\n\r\t .")
_NAMES = st.text(_CHARACTERS, min_size=1, max_size=5)
_LABELS = _NAMES.filter(lambda text: text == text.strip() and "|" not in text)
_FLOATS = st.floats(allow_infinity=False) | st.sampled_from([0.0, 1.0, 0.5])


@st.composite
def tables(draw):
    """Names of features and of two more columns, values of the features, and the order of all columns."""
    n, d = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    names = draw(st.lists(_NAMES, min_size=d + 2, max_size=d + 2, unique=True))
    return names, draw(arrays(np.float64, (n, d), elements=_FLOATS)), draw(st.permutations(range(d + 2)))


def write_csv(path, columns, delimiter=","):
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, delimiter=delimiter)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


def ordered(names, values, extra, order):
    """Columns by name: features, then extra ones, in some order."""
    columns = dict(zip(names, [*values.T.tolist(), *extra], strict=True))
    return {names[place]: columns[names[place]] for place in order}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@settings(max_examples=60, deadline=None)
@given(tables(), st.data(), st.sampled_from(",;\t"), st.sampled_from([1, 30, 1 << 20]), st.booleans())
def test_lists_of_labels_come_back(folder, table, data, delimiter, chunk, is_sparse):
    names, values, order = table
    rows = st.lists(st.lists(_LABELS, max_size=4), min_size=len(values), max_size=len(values))
    labels = data.draw(rows.filter(any))
    extra = [["text"] * len(values), ["|".join(row) for row in labels]]
    columns = ordered(names, values, extra, order)
    write_csv(folder / "t.csv", columns, delimiter)
    pq.write_table(pa.table(columns), folder / "t.parquet")
    as_lists = columns | {names[-1]: pa.array(labels, pa.list_(pa.string()))}
    pq.write_table(pa.table(as_lists), folder / "l.parquet", row_group_size=2)
    options = {"label_column": names[-1], "label_separator": "|", "ignore": [names[-2]], "sparse": is_sparse}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lrml.datasets._tables._BLOCK_BYTES", chunk)
        patch.setattr("lrml.datasets._tables._BATCH_CELLS", chunk)
        found = [read_csv(folder / "t.csv", delimiter=delimiter, **options)]
        found += [read_parquet(folder / name, **options) for name in ("t.parquet", "l.parquet")]
    binarizer = MultiLabelBinarizer()
    expected = binarizer.fit_transform(labels)
    features = [place for place in order if place < values.shape[1]]
    for dataset in found:
        assert dataset.feature_names == tuple(names[place] for place in features)
        assert dataset.label_names == tuple(binarizer.classes_)
        assert_array_equal(dense(dataset.X, is_sparse), values[:, features])
        assert_array_equal(dense(dataset.Y, True), expected)


@settings(max_examples=80, deadline=None)
@given(tables(), st.data(), st.sampled_from([1, 30, 1 << 20]), st.booleans())
def test_label_columns_come_back(folder, table, data, chunk, is_sparse):
    names, values, order = table
    marks = st.sampled_from([0, 1, None])
    extra = [data.draw(st.lists(marks, min_size=len(values), max_size=len(values))) for _ in range(2)]
    columns = ordered(names, values, extra, order)
    write_csv(folder / "t.csv", columns)
    pq.write_table(pa.table(columns), folder / "t.parquet")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lrml.datasets._tables._BLOCK_BYTES", chunk)
        patch.setattr("lrml.datasets._tables._BATCH_CELLS", chunk)
        options = {"labels": names[-2:], "features": names[:-2], "sparse": is_sparse}
        found = [read_csv(folder / "t.csv", **options), read_parquet(folder / "t.parquet", **options)]
    unknown = np.array([[mark is None for mark in marks] for marks in extra]).T
    for dataset in found:
        assert (dataset.feature_names, dataset.label_names) == (tuple(names[:-2]), tuple(names[-2:]))
        assert_array_equal(dense(dataset.X, is_sparse), values)
        assert_array_equal(dense(dataset.Y, is_sparse), np.array(extra).T == 1)
        assert (dataset.unknown is None) == (not unknown.any())
        assert dataset.unknown is None or (dataset.unknown.toarray() == unknown).all()


def dense(matrix, is_sparse):
    assert isinstance(matrix, sparse.csr_array if is_sparse else np.ndarray)
    return matrix.toarray() if is_sparse else matrix


# A cell means the same whatever stands beside it, and whoever parses it.

_CELLS = st.text("0123456789.eE+-_ naifNTRUtrueNAls\t١", max_size=6) | st.floats().map(str)
_MEANINGS = {"": np.nan, "na": np.nan, "null": np.nan, "true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}


def meaning(cell):
    """Return the number that a cell stands for; None if it is none, or not finite."""
    text = cell.strip()
    if text.lower() in _MEANINGS:
        return _MEANINGS[text.lower()]
    try:
        value = float(text) if text.isascii() and "_" not in text else np.inf
    except ValueError:
        return None
    return None if np.isinf(value) else value


@settings(max_examples=150, deadline=None)
@given(st.lists(_CELLS, min_size=1, max_size=5), st.sampled_from([1, 1 << 20]), st.booleans())
@example(["1_0", "2"], 1, False)
@example(["١", "2"], 1, False)
@example([" true", "NA", "", "inf"], 1 << 20, False)
@example([" true", "NA", "", "1.5", "yes"], 1 << 20, False)
def test_cells_mean_the_same_everywhere(folder, cells, block, line_wise):
    expected = [meaning(cell) for cell in cells]
    blank = "  \n" if line_wise else ""  # what pyarrow refuses: then rows are looked at one by one
    text = "x,y\n" + blank + "".join(f'"{cell}",1\n' for cell in cells)
    (folder / "cells.csv").write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lrml.datasets._tables._BLOCK_BYTES", block)
        if None not in expected:
            assert_array_equal(read_csv(folder / "cells.csv", labels=["y"]).X[:, 0], expected)
            return
        lines = [str(2 + bool(blank) + row) for row, value in enumerate(expected) if value is None]
        with pytest.raises(DatasetFormatError, match=rf"line ({'|'.join(lines)}): column 'x' must hold"):
            read_csv(folder / "cells.csv", labels=["y"])


# Whatever the bytes, the answer is a dataset or a DatasetFormatError that names the file.

_WHOLE_CSV = b'id,x,y,t\n"a,\nb",1.5,1,"p,q"\nc,,0,p\n\nd,-2e3,,\n'
_WAYS = [
    {"labels": ["y"], "ignore": ["id", "t"]},
    {"labels": 1},
    {"label_column": "t", "ignore": ["id"], "sparse": True},
]


def read_or_refuse(read, path, options):
    """Return the dataset, or None if it was refused."""
    try:
        dataset = read(path, **options)
    except DatasetFormatError as error:
        assert str(path) in str(error)  # noqa: PT017  # no error is as good
        return None
    assert dataset.shape[0] > 0
    return dataset


@st.composite
def damaged(draw, content):
    """Some bytes replaced, inserted or cut out."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(start + 4, len(content))))
        put = draw(st.binary(max_size=4) | st.sampled_from([b'"', b",", b"\n", b"\r", b"\0", b"_", b"inf"]))
        content = content[:start] + put + content[end:]
    return content


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=60) | damaged(_WHOLE_CSV), st.sampled_from(_WAYS))
def test_any_bytes_as_csv(folder, content, options):
    (folder / "any.csv").write_bytes(content)
    found = []
    for block in (1, 1 << 20):  # row by row, and all at once: the answer is the same
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("lrml.datasets._tables._BLOCK_BYTES", block)
            found.append(read_or_refuse(read_csv, folder / "any.csv", options))
    left, right = found
    assert (left is None) == (right is None)
    if left is not None:
        assert (left.feature_names, left.label_names) == (right.feature_names, right.label_names)
        assert_array_equal(sparse.csr_array(left.X).toarray(), sparse.csr_array(right.X).toarray())
        assert_array_equal(sparse.csr_array(left.Y).toarray(), sparse.csr_array(right.Y).toarray())


@settings(max_examples=50, deadline=None)
@given(damaged(gzip.compress(_WHOLE_CSV, mtime=0)), st.sampled_from(_WAYS))
def test_any_bytes_as_compressed_csv(folder, content, options):
    (folder / "any.csv.gz").write_bytes(content)
    read_or_refuse(read_csv, folder / "any.csv.gz", options)


@settings(max_examples=50, deadline=None)
@given(st.binary(max_size=60), st.booleans(), st.sampled_from(_WAYS))
def test_any_bytes_as_parquet(folder, content, framed, options):
    if framed:
        content = b"PAR1" + content + len(content).to_bytes(4, "little") + b"PAR1"
    (folder / "any.parquet").write_bytes(content)
    with pytest.raises(DatasetFormatError, match=r"any\.parquet: "):
        read_parquet(folder / "any.parquet", **options)


# Files that would take all memory. pyarrow counts what it allocates.


def _varint(number):
    """Thrift's compact form of an integer."""
    number, result = number << 1, bytearray()
    while number > 127:
        result.append(number & 127 | 128)
        number >>= 7
    return bytes([*result, number])


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        (10**15, r"must not have more than 33554432 values in the columns to read, got 2000+\. Get"),
        (10_000, None),
    ],
)
def test_more_rows_declared_than_there_are(tmp_path, declared, message):
    path = tmp_path / "toy.parquet"
    pq.write_table(pa.table({"x": np.arange(9001.0), "y": np.zeros(9001, bool)}), path)
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    # Field 3 of the file's description, an integer: the number of rows. Those of the row group stay.
    footer = content[start:-8].replace(b"\x16" + _varint(9001), b"\x16" + _varint(declared), 1)
    path.write_bytes(content[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    assert pq.read_metadata(path).num_rows == declared
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(
        DatasetFormatError, match=message or "must have the 10000 rows that it declares, got 9001"
    ):
        read_parquet(path, labels=["y"])
    assert pa.default_memory_pool().max_memory() - before < 1 << 26


@pytest.mark.parametrize("as_list", [True, False])
def test_a_long_text_that_is_often_repeated_is_held_once(tmp_path, as_list):
    rows, text = 20_000, "b" * 1_000_000  # 20 GB if each row had its own
    tags = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), [text])
    if as_list:
        tags = pa.ListArray.from_arrays(np.arange(rows + 1, dtype=np.int32), tags)
    path = tmp_path / "toy.parquet"
    table = pa.table({"x": np.zeros(rows), "t": tags})
    pq.write_table(table, path, store_schema=False, dictionary_pagesize_limit=1 << 24)
    before = pa.default_memory_pool().max_memory()
    assert read_parquet(path, label_column="t").label_names == (text,)
    assert pa.default_memory_pool().max_memory() - before < 1 << 27


@pytest.mark.parametrize("as_list", [True, False])
def test_many_labels_in_few_bytes(tmp_path, monkeypatch, as_list):
    monkeypatch.setattr("lrml.datasets._tables._VALUES_ALWAYS", 16_000)
    monkeypatch.setattr("lrml.datasets._tables._VALUES_PER_BYTE", 1)
    tags = [[1] * 2000] * 3 if as_list else ["a," * 2000] * 3
    pq.write_table(pa.table({"x": [1, 2, 3], "t": tags}), tmp_path / "toy.parquet")
    with pytest.raises(DatasetFormatError, match=r"must not have more than 1\d\d\d values.*got 6000"):
        read_parquet(tmp_path / "toy.parquet", label_column="t")


def test_a_value_that_is_repeated_very_often(tmp_path, monkeypatch):
    """Dense by what is declared, sparse by what is stored: zeros cost nothing there."""
    monkeypatch.setattr("lrml.datasets._tables._VALUES_ALWAYS", 30_000)
    monkeypatch.setattr("lrml.datasets._tables._VALUES_PER_BYTE", 1)
    path = tmp_path / "toy.parquet"
    for value in (0.0, 1.0):
        pq.write_table(pa.table({"x": np.full(14_000, value), "y": np.zeros(14_000)}), path)
        assert read_parquet(path, labels=["y"]).shape == (14_000, 1, 1)
        if value == 0.0:
            assert read_parquet(path, labels=["y"], sparse=True).X.nnz == 0
            continue
        with pytest.raises(DatasetFormatError, match=r"must not have more than 10000 values.*got 14000"):
            read_parquet(path, labels=["y"], sparse=True)


_DAMAGE = """
import random, sys
from pathlib import Path
from lrml.datasets import DatasetFormatError, read_parquet

source, target = Path(sys.argv[1]), Path(sys.argv[2])
content, chance = source.read_bytes(), random.Random(0)
ways = [{"labels": ["y"], "features": ["x", "i"]}, *({"label_column": k, "features": ["x"]} for k in "stk")]
read = refused = 0
for _ in range(300):
    damaged = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 5])):
        place = chance.randrange(len(damaged))
        if chance.random() < 0.8:
            damaged[place] = chance.randrange(256)
        else:
            del damaged[place : place + chance.randrange(1, 20)]
    target.write_bytes(damaged)
    try:
        read_parquet(target, **chance.choice(ways), sparse=chance.random() < 0.5)
        read += 1
    except DatasetFormatError as error:
        assert str(target) in str(error), error
        refused += 1
print(read, refused)
"""


@pytest.mark.parametrize(
    "writing", [{}, {"compression": "none", "use_dictionary": False}, {"row_group_size": 7}]
)
def test_damaged_files_are_read_or_refused(tmp_path, writing):
    # In a process of its own: a fault in pyarrow may end the process.
    columns = {
        "x": [k / 7 for k in range(30)],
        "i": [None if k % 5 == 0 else k for k in range(30)],
        "y": [k % 2 for k in range(30)],
        "s": ["a,b" if k % 3 else "c" for k in range(30)],
        "t": [["a", "b"][: k % 3] for k in range(30)],
        "k": [[k, k + 1] for k in range(30)],
    }
    pq.write_table(pa.table(columns), tmp_path / "whole.parquet", **writing)
    paths = [str(tmp_path / name) for name in ("whole.parquet", "damaged.parquet")]
    done = subprocess.run(
        [sys.executable, "-c", _DAMAGE, *paths], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    read, refused = map(int, done.stdout.split())
    assert min(read, refused) > 20  # the damage was neither too mild nor too strong
