from __future__ import annotations

import datetime
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

from lrml.datasets import DatasetFormatError, read_parquet


@pytest.fixture
def read(tmp_path):
    """Write a table, and read it."""

    def read_table(columns, writing=None, **options):
        table = columns if isinstance(columns, pa.Table) else pa.table(columns)
        pq.write_table(table, tmp_path / "toy.parquet", **(writing or {}))
        return read_parquet(tmp_path / "toy.parquet", **options)

    return read_table


TOY = {"id": ["a", "b", "c"], "size": [2.5, None, -1e-3], "red": [1, 0, None], "round": [False, True, False]}


# Label columns.


def test_label_columns(read):
    dataset = read(TOY, labels=["round", "red"], ignore=["id"])
    assert repr(dataset) == "<MultiLabelDataset toy: X (3, 1) dense, Y (3, 2) dense, no split>"
    assert (dataset.X.dtype, dataset.Y.dtype) == (np.float64, np.uint8)
    assert (dataset.feature_names, dataset.label_names) == (("size",), ("round", "red"))
    assert_array_equal(dataset.X, [[2.5], [np.nan], [-1e-3]])
    assert_array_equal(dataset.Y, [[0, 1], [1, 0], [0, 0]])
    assert_array_equal(dataset.unknown.toarray(), [[0, 0], [0, 0], [0, 1]])


def test_sparse(read):
    columns = TOY | {"zero": [0, None, 3]}
    dataset = read(columns, labels=["red", "round"], ignore=["id"], sparse=True)
    assert isinstance(dataset.X, sparse.csr_array)
    assert isinstance(dataset.Y, sparse.csr_array)
    assert (dataset.X.nnz, dataset.Y.nnz) == (5, 2)
    assert_array_equal(dataset.X.toarray(), [[2.5, 0], [np.nan, np.nan], [-1e-3, 3]])


@pytest.mark.parametrize(("labels", "names"), [(2, ("a", "b")), (-1, ("c",))])
def test_labels_by_number(read, labels, names):
    assert read({"a": [0], "b": [1], "c": [1]}, labels=labels).label_names == names


_NUMBERS = [
    *(pa.array([0, 3, None, 1], kind) for kind in (pa.int8(), pa.uint16(), pa.int64(), pa.uint64())),
    *(pa.array([0, 3, None, 1], kind) for kind in (pa.float32(), pa.float64())),
    pa.array(np.array([0, 3, 1], np.float16)).take(pa.array([0, 1, None, 2])),
    pa.array([Decimal("0.00"), Decimal("3.00"), None, Decimal("1.00")]),
    pa.array([0, 3, None, 1]).dictionary_encode(),
]


@pytest.mark.parametrize("array", _NUMBERS, ids=lambda array: str(array.type))
def test_types_of_numbers(read, array):
    assert_array_equal(read({"x": array, "y": [0, 1, 0, 1]}, labels=["y"]).X[:, 0], [0, 3, np.nan, 1])


def test_booleans_and_columns_of_nothing(read):
    dataset = read({"b": [True, None], "n": pa.nulls(2), "y": pa.nulls(2), "z": [1, 0]}, labels=["y", "z"])
    assert_array_equal(dataset.X, [[1, np.nan], [np.nan, np.nan]])
    assert_array_equal(dataset.unknown.toarray(), [[1, 0], [1, 0]])


def test_large_integers_become_the_nearest_float(read):
    assert read({"x": [2**53 + 1, 2**63 - 1], "y": [0, 1]}, labels=["y"]).X[:, 0].tolist() == [
        2.0**53,
        2.0**63,
    ]


# A column that lists labels.

_LISTS = [["red", "round"], [], None, [" red ", "big", "red", ""]]
_TEXTS = ["red,round", "", None, " red , big,red, "]


@pytest.mark.parametrize(
    "tags",
    [
        pa.array(_TEXTS),
        pa.array(_TEXTS, pa.large_string()),
        pa.array(_TEXTS, pa.string_view()),
        pa.array(_TEXTS).dictionary_encode(),
        pa.array(_LISTS),
        pa.array(_LISTS, pa.large_list(pa.large_string())),
        pa.array(_LISTS, pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    ],
    ids=lambda array: str(array.type),
)
@pytest.mark.parametrize(
    "writing", [{}, {"use_dictionary": False}, {"store_schema": False}, {"row_group_size": 1}]
)
def test_label_column(read, tags, writing):
    dataset = read({"tags": tags, "x": [1, 2, 3, 4]}, writing, label_column="tags")
    assert dataset.label_names == ("big", "red", "round")
    assert dataset.Y.has_canonical_format
    assert_array_equal(dataset.Y.toarray(), [[0, 1, 1], [0, 0, 0], [0, 0, 0], [1, 1, 0]])


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.list_(pa.uint8(), 2)], ids=str)
def test_integer_labels_are_sorted_by_size(read, kind):
    dataset = read({"x": [1, 2], "tags": pa.array([[10, 2], [2, 2]], kind)}, label_column="tags")
    assert dataset.label_names == ("2", "10")
    assert_array_equal(dataset.Y.toarray(), [[1, 1], [1, 0]])


def test_null_in_a_list(read, monkeypatch):
    monkeypatch.setattr("lrml.datasets._tables._BATCH_CELLS", 4)  # two rows at a time
    tags = [["a"], [], ["a", "b"], ["b", None]]
    with pytest.raises(DatasetFormatError, match=r"label column 't' must not list null \(row 4\), got None"):
        read({"x": [1.0] * 4, "t": tags}, label_column="t")


def test_separator(read):
    tags = ["a, b|c", "a, b"]
    assert read({"x": [1, 2], "t": tags}, label_column="t", label_separator="|").label_names == ("a, b", "c")


# Against pandas, polars and scikit-learn.


@pytest.mark.parametrize("cells", [1, 30, 1 << 22])
@pytest.mark.parametrize("writer", ["pandas", "polars", "pyarrow"])
def test_same_as_pandas(tmp_path, monkeypatch, writer, cells):
    monkeypatch.setattr("lrml.datasets._tables._BATCH_CELLS", cells)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "float": rng.normal(size=60),
            "missing": np.where(rng.random(60) < 0.3, np.nan, rng.normal(size=60)),
            "integer": rng.integers(-3, 4, 60),
            "flag": rng.random(60) < 0.5,
            "tags": [
                rng.choice(["b", "a", "ç d", "10"], k, replace=False).tolist() for k in rng.integers(0, 4, 60)
            ],
            "text": ["x"] * 60,
        }
    )
    path = tmp_path / "table.parquet"
    if writer == "pandas":
        frame.to_parquet(path, row_group_size=17)
    elif writer == "polars":
        pl.DataFrame(frame.to_dict("list")).write_parquet(path, row_group_size=17)
    else:
        pq.write_table(pa.Table.from_pandas(frame), path, data_page_version="2.0", compression="gzip")
    dataset = read_parquet(path, label_column="tags", ignore=["text"])
    back = pd.read_parquet(path)
    assert_array_equal(dataset.X, back[list(dataset.feature_names)].to_numpy(np.float64))
    binarizer = MultiLabelBinarizer()
    expected = binarizer.fit_transform(back["tags"])
    assert dataset.label_names == tuple(binarizer.classes_)
    assert_array_equal(dataset.Y.toarray(), expected)


@pytest.mark.parametrize("name", [None, "key"])
def test_the_index_of_a_frame_is_no_feature(tmp_path, name):
    index = pd.Index([7, 5], name=name)
    pd.DataFrame({"x": [1.0, 2.0], "y": [0, 1]}, index=index).to_parquet(tmp_path / "t.parquet")
    assert len(pq.read_schema(tmp_path / "t.parquet")) == 3  # pandas did write it
    dataset = read_parquet(tmp_path / "t.parquet", labels=-1)
    assert (dataset.feature_names, dataset.label_names) == (("x",), ("y",))


@pytest.mark.parametrize(
    "note", [b"{", b"3", b'{"index_columns": [{"kind": "range"}]}', b"\xff", b"[" * 100_000]
)
def test_odd_notes_of_pandas_are_no_obstacle(read, note):
    table = pa.table({"x": [1.0], "y": [1]}).replace_schema_metadata({b"pandas": note})
    assert read(table, labels=["y"]).feature_names == ("x",)


def test_names_that_look_like_paths(read):
    columns = {
        "a.b": [1],
        "a": [2],
        "a.b.list.element": [3],
        "": [4],
        "t.x": [5],
        "t": [["p"]],
        "t.list.element": [6],
    }
    dataset = read(columns, label_column="t", features=[name for name in columns if name != "t"])
    assert_array_equal(dataset.X, [[1, 2, 3, 4, 5, 6]])
    assert dataset.label_names == ("p",)


@pytest.mark.real_data
def test_real_data_comes_back(mulan, tmp_path):
    enron = mulan("enron")
    columns = dict(zip(enron.feature_names, enron.X.toarray().T, strict=True))
    columns |= dict(zip(enron.label_names, enron.Y.toarray().T, strict=True))
    pq.write_table(pa.table(columns), tmp_path / "enron.parquet")
    dataset = read_parquet(tmp_path / "enron.parquet", labels=-len(enron.label_names), sparse=True)
    assert (dataset.feature_names, dataset.label_names) == (enron.feature_names, enron.label_names)
    for found, expected in ((dataset.X, enron.X), (dataset.Y, enron.Y)):
        assert_array_equal(found.indptr, expected.indptr)
        assert_array_equal(found.indices, expected.indices)
        assert_array_equal(found.data, expected.data)


# Errors name the file, the column, the value and a remedy.


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["a", "b"], "column 'x' must hold numbers.*got type string. Encode the column.*list it in ignore"),
        ([datetime.datetime(2020, 1, 1)] * 2, r"column 'x' must hold numbers.*got type timestamp\[us\]"),
        ([datetime.date(2020, 1, 1)] * 2, "got type date32"),
        ([{"a": 1}] * 2, "got type struct"),
        ([[1], [2]], "got type list"),
        ([b"1", b"2"], "got type binary"),
        (pa.array(["a", "b"]).dictionary_encode(), "got type dictionary"),
        ([1.0, np.inf], r"column 'x' must hold finite numbers \(row 2\), got inf\. Correct the value"),
    ],
)
def test_wrong_features(read, column, message):
    with pytest.raises(DatasetFormatError, match=r"toy\.parquet: .*" + message):
        read({"x": column, "y": [0, 1]}, labels=["y"])


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([0, 2], r"label column 'y' must hold 0 or 1.*\(row 2\), got 2\.0"),
        ([-np.inf, 0], r"label column 'y' must hold 0 or 1.*\(row 1\), got -inf"),
        (["0", "1"], "label column 'y' must hold 0 or 1.*got type string"),
    ],
)
def test_wrong_label_columns(read, column, message):
    with pytest.raises(DatasetFormatError, match=r"toy\.parquet: " + message):
        read({"x": [1, 2], "y": column}, labels=["y"])


@pytest.mark.parametrize(
    "column",
    [[1, 0], [b"a", b"b"], [[1.5], [2.5]], [[["a"]], [["b"]]], [{"a": 1}] * 2, pa.nulls(2)],
    ids=str,
)
def test_wrong_lists(read, column):
    with pytest.raises(
        DatasetFormatError, match="label column 't' must hold text, or lists of text or of integers"
    ):
        read({"x": [1, 2], "t": column}, label_column="t")


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            TOY,
            {"labels": ["rouge"]},
            "labels must name columns of the file.*got 'rouge'. Close matches: 'round'",
        ),
        (TOY, {"labels": ["red"], "features": ["red"]}, "not be in both labels and features, got 'red'"),
        (TOY, {"labels": ["red"], "ignore": ["id", "size", "round"]}, "some column must be a feature"),
        ({"x": [], "y": []}, {"labels": ["y"]}, "a table must have a row"),
        ({"x": [1], "t": [""]}, {"label_column": "t"}, "label column 't' must list a label in some row"),
        (pa.table([[1], [0], [2]], ["x", "y", "x"]), {"labels": ["y"]}, "must be unique, got 'x'"),
    ],
)
def test_wrong_tables(read, columns, options, message):
    with pytest.raises(DatasetFormatError, match=r"toy\.parquet: .*" + message):
        read(columns, **options)


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_parquet(tmp_path / "none.parquet", labels=1)
    with pytest.raises(DatasetFormatError, match="directory"):
        read_parquet(tmp_path, labels=1)


def test_text_that_is_not_utf8(read):
    wrong = pa.Array.from_buffers(pa.string(), 2, pa.array([b"a", b"\xff"]).buffers())
    with pytest.raises(DatasetFormatError, match=r"toy\.parquet: the file must be whole.*Invalid U"):
        read({"x": [1, 2], "t": wrong}, label_column="t")


_PEAK = """
import contextlib, sys
import pyarrow as pa
from lrml.datasets import read_dataset
with contextlib.suppress(ValueError):
    read_dataset(sys.argv[1], labels=["y"])
print(pa.default_memory_pool().max_memory())
"""


def test_a_page_that_claims_to_be_large_takes_no_memory(tmp_path):
    path = tmp_path / "toy.parquet"
    pq.write_table(pa.table({"x": [0.5] * 3, "y": [1] * 3}), path, use_dictionary=False, compression="none")
    content = path.read_bytes()
    # The header of the first page: its kind, its size unpacked and packed, as numbers of one byte each.
    assert content[4:9:2] == b"\x15\x15\x15"
    assert content[7] == content[9] < 128
    path.write_bytes(content[:9] + b"\xfe\xff\xff\xff\x0f" + content[10:])  # 2 GiB
    with pytest.raises(DatasetFormatError, match=r"the file must be whole.*Page was smaller"):
        read_parquet(path, labels=["y"])
    # The peak of a process of its own: other tests may have had a higher one.
    child = subprocess.run([sys.executable, "-c", _PEAK, path], capture_output=True, check=True)
    assert int(child.stdout) < 1 << 20


def test_a_list_in_the_footer_that_claims_to_be_long_takes_no_memory(tmp_path):
    path = tmp_path / "toy.parquet"
    pq.write_table(pa.table({"x": [0.5], "y": [1]}), path)
    content = path.read_bytes()
    start = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    assert content[start + 2 : start + 4] == b"\x19\x3c"  # the schema: a list of three structures
    footer = content[start : start + 3] + b"\xfc\xbf\x84\x3d" + content[start + 4 : -8]  # of 999,999
    path.write_bytes(content[:start] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    with pytest.raises(DatasetFormatError, match=r"the file must be whole.*Exceeded size limit"):
        read_parquet(path, labels=["y"])


def test_long_texts_that_compress_well_are_refused_before_they_are_read(read, monkeypatch):
    columns = {"x": [1.0], "t": ["a" * 2**20]}
    writing = {"compression": "zstd", "use_dictionary": False, "write_statistics": False}
    assert len(read(columns, writing, label_column="t").label_names[0]) == 2**20
    monkeypatch.setattr("lrml.datasets._tables._VALUES_ALWAYS", 1 << 10)
    message = r"a file of \d+ bytes must not have more than \d+ bytes in its pages, got 10\d{5}\. Get"
    with pytest.raises(DatasetFormatError, match=message):
        read(columns, writing, label_column="t")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1PAR1", b"PAR1\xff\xff\xff\xffPAR1"])
def test_files_too_short_to_be_tables(tmp_path, content):
    (tmp_path / "toy.parquet").write_bytes(content)
    with pytest.raises(DatasetFormatError, match="the file must be whole and in Parquet format"):
        read_parquet(tmp_path / "toy.parquet", labels=1)


def test_without_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(ImportError, match=r'needs pyarrow.*pip install "lrml\[tables\]"'):
        read_parquet(tmp_path / "toy.parquet", labels=1)
