from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import lzma
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.preprocessing import MultiLabelBinarizer

from lrml.datasets import DatasetFormatError, read_csv, write_dataset

TOY = "id,size,ok,red,round\na,2.5,true,1,0\nb,,False,0,1\nc,-1e-3,TRUE,,0\n"


@pytest.fixture(autouse=True)
def _usual_limit_of_cells():
    """SciPy's ARFF reader, which other tests use, changes the limit for the whole process."""
    before = csv.field_size_limit(131_072)
    yield
    csv.field_size_limit(before)


@pytest.fixture
def read(tmp_path):
    """Write a file, and read it."""

    def read_text(content, file_name="toy.csv", **options):
        path = tmp_path / file_name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_csv(path, **options)

    return read_text


# Headers.


def test_a_row_of_numbers_is_no_header(read):
    for text in ("2.5,1,0\n3.5,0,1\n", "1,0,1\n2,1,1\n", "1,1,0\n"):
        with pytest.raises(DatasetFormatError, match=r"line 1: the first line must name.*put a line with"):
            read(text, labels=-1)


@pytest.mark.parametrize("header", ["0,1,2", "1,2,3", "2.5,3.5,red"])
def test_columns_may_be_counted_or_partly_numbers(read, header):
    dataset = read(f"{header}\n4,5,1\n6,7,0\n", labels=-1)
    assert (*dataset.feature_names, *dataset.label_names) == tuple(header.split(","))
    assert_array_equal(dataset.X, [[4, 5], [6, 7]])


def test_yes_and_no_are_labels(read):
    dataset = read("x,a,b\n1,yes,No\n2,NO,YES\n3,,yes\n", labels=["a", "b"])
    assert_array_equal(dataset.targets, [[1, 0], [0, 1], [np.nan, 1]])


def test_provenance_counts_one_column_in_the_singular(read):
    assert read("x,a\n1,0\n", labels=["a"]).provenance == "toy.csv with 1 label column"


# Label columns.


def test_label_columns(read):
    dataset = read(TOY, labels=["round", "red"], ignore=["id"])
    assert repr(dataset) == "<MultiLabelDataset toy: X (3, 2) dense, Y (3, 2) dense, no split>"
    assert (dataset.X.dtype, dataset.Y.dtype) == (np.float64, np.uint8)
    assert dataset.feature_names == ("size", "ok")
    assert dataset.label_names == ("round", "red")  # the order of the argument
    assert_array_equal(dataset.X, [[2.5, 1], [np.nan, 0], [-1e-3, 1]])
    assert_array_equal(dataset.Y, [[0, 1], [1, 0], [0, 0]])
    assert_array_equal(dataset.unknown.toarray(), [[0, 0], [0, 0], [0, 1]])
    assert dataset.provenance == "toy.csv with 2 label columns"


def test_sparse_stores_no_zeros_but_missing_values(read):
    dataset = read(TOY, labels=["round", "red"], ignore=["id"], sparse=True)
    assert isinstance(dataset.X, sparse.csr_array)
    assert isinstance(dataset.Y, sparse.csr_array)
    assert (dataset.X.nnz, dataset.Y.nnz, dataset.unknown.nnz) == (5, 2, 1)
    assert_array_equal(dataset.X.toarray(), [[2.5, 1], [np.nan, 0], [-1e-3, 1]])
    assert_array_equal(dataset.Y.toarray(), [[0, 1], [1, 0], [0, 0]])


@pytest.mark.parametrize(
    ("labels", "names"), [(2, ("a", "b")), (-1, ("d",)), (np.int64(-3), ("b", "c", "d")), (("c",), ("c",))]
)
def test_labels_by_number_or_name(read, labels, names):
    dataset = read("a,b,c,d\n1,0,1,0\n", labels=labels)
    assert dataset.label_names == names
    assert dataset.feature_names == tuple(name for name in "abcd" if name not in names)
    assert dataset.unknown is None


def test_features_are_in_the_order_of_the_argument(read):
    dataset = read("a,b,c,y\n1,2,text,0\n", labels=["y"], features=["b", "a"], name="other")
    assert (dataset.name, dataset.feature_names) == ("other", ("b", "a"))
    assert_array_equal(dataset.X, [[2, 1]])


# A column that lists labels.


def test_label_column(read):
    text = 'x,tags\n1,"round, red,round"\n2,\n3,  \n4,"big,,"\n5,"é\n, red"\n'
    dataset = read(text, label_column="tags")
    assert dataset.label_names == ("big", "red", "round", "é")
    assert dataset.Y.dtype == np.uint8
    assert dataset.Y.has_canonical_format
    assert_array_equal(
        dataset.Y.toarray(), [[0, 1, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 0, 1]]
    )
    assert_array_equal(dataset.X, [[1], [2], [3], [4], [5]])
    assert dataset.provenance == "toy.csv with the labels listed in column 'tags'"


@pytest.mark.parametrize(
    ("separator", "names"), [("|", ("a", "b c")), (" ", ("a|b", "c")), ("||", ("a|b c",))]
)
def test_label_separator(read, separator, names):
    assert read("x,t\n1,a|b c\n", label_column="t", label_separator=separator).label_names == names


# The form of the file.


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_blank_lines_line_ends_and_byte_order_mark_do_not_matter(read, end, last):
    text = "\na,y\n\n1,0\n   \n2,1" + ("\n" if last else "")
    dataset = read(codecs.BOM_UTF8 + text.replace("\n", end).encode(), labels=["y"])
    assert dataset.feature_names == ("a",)
    assert_array_equal(dataset.X, [[1], [2]])


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
@pytest.mark.parametrize(("kind", "delimiter"), [("csv", ","), ("tsv", "\t"), ("TSV", "\t")])
def test_compressed_and_tabulated_files(read, suffix, compress, kind, delimiter):
    dataset = read(
        compress(TOY.replace(",", delimiter).encode()), f"a.b.{kind}{suffix}", labels=-2, ignore=["id"]
    )
    assert dataset.name == "a.b"
    assert_array_equal(dataset.Y, [[1, 0], [0, 1], [0, 0]])


def test_delimiters_that_are_seen_or_typed(read):
    for mark in ";\t":
        text = TOY.replace(",", mark)
        for options in ({}, {"delimiter": mark}, {"delimiter": {"\t": r"\t"}.get(mark, mark)}):
            assert read(text, labels=-2, ignore=["id"], **options).feature_names == ("size", "ok")
    with pytest.raises(DatasetFormatError, match=r'"\|" \(on the command line: --delimiter "\|"\)'):
        read("a|b\n1|0\n", labels=-1)


@pytest.mark.parametrize("start", [0, 1])
def test_an_index_without_a_name_is_left_out(read, start):
    frame = pd.DataFrame({"x": [2.5, 3.5, 4.5], "y": [0, 1, 0]}, index=range(start, start + 3))
    dataset = read(frame.to_csv(), labels=-1)
    assert (dataset.feature_names, dataset.shape) == (("x",), (3, 1, 1))
    assert read(frame.to_csv(), labels=["y"], features=["", "x"]).feature_names == ("", "x")
    with pytest.raises(DatasetFormatError, match=r'must have a name.*ignore=\[""\].*--ignore ""'):
        read(frame[::-1].to_csv(), labels=-1)


def test_delimiter(read):
    text = 'x;"y;1"\n1;0\n2;1\n'
    assert read(text, labels=["y;1"], delimiter=";").shape == (2, 1, 1)
    with pytest.raises(DatasetFormatError, match=r"two columns or more, separated by ','.*Pass delimiter"):
        read("x;y\n1\n", labels=["y"])


@pytest.mark.parametrize("cell", ["1", " 1.50 ", "+.5", "5.", "-1E-3", "1e-400", "NaN", "-nan", "nan", "  "])
def test_numbers_are_those_of_pandas(read, tmp_path, cell):
    found = read(f"x,y\n{cell},1\n", labels=["y"]).X[0, 0]
    expected = pd.read_csv(tmp_path / "toy.csv", skipinitialspace=True)["x"].astype(np.float64)[0]
    assert_array_equal(found, expected)


@pytest.mark.parametrize("cell", ["NA", "null", "NULL", "Null", "na"])
def test_words_for_missing_values(read, cell):
    assert np.isnan(read(f"x,y\n{cell},1\n", labels=["y"]).X[0, 0])


# Against pandas and polars.


@pytest.mark.parametrize("chunk_bytes", [1, 100, 1 << 20])
def test_same_as_pandas(tmp_path, monkeypatch, chunk_bytes):
    monkeypatch.setattr("lrml.datasets._tables._BLOCK_BYTES", chunk_bytes)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "id": [f"é_{i}" for i in range(60)],  # must not disturb the conversion of other columns
            "float": rng.normal(size=60) * 10.0 ** rng.integers(-300, 300, 60),
            "missing": np.where(rng.random(60) < 0.3, np.nan, rng.normal(size=60)),
            "integer": rng.integers(-3, 4, 60),
            "flag": rng.random(60) < 0.5,
            "genres": [
                ";".join(rng.choice(["b", "a", "ç d", "10"], k, replace=False))
                for k in rng.integers(0, 4, 60)
            ],
        }
    )
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    dataset = read_csv(path, label_column="genres", label_separator=";", ignore=["id"])
    back = pd.read_csv(path)
    assert_array_equal(dataset.X, back[list(dataset.feature_names)].to_numpy(np.float64))
    binarizer = MultiLabelBinarizer()
    expected = binarizer.fit_transform(
        [[] if text == "" else text.split(";") for text in back["genres"].fillna("")]
    )
    assert dataset.label_names == tuple(binarizer.classes_)
    assert_array_equal(dataset.Y.toarray(), expected)


@pytest.mark.parametrize("block", [1, 60, 1 << 23])
def test_values_that_are_often_repeated(read, monkeypatch, block):
    monkeypatch.setattr("lrml.datasets._tables._BLOCK_BYTES", block)
    values = np.random.default_rng(0).choice([0, 0.5, -3, np.nan], 400)
    rows = "".join(f"{'' if np.isnan(value) else value},1\n" for value in values)
    assert_array_equal(read("x,y\n" + rows, labels=["y"]).X[:, 0], values)


def test_file_of_polars(tmp_path):
    path = tmp_path / "p.csv"
    pl.DataFrame({"x": [1.5, None, 0.0], "b": [True, None, False], "y": [1, 0, None]}).write_csv(path)
    dataset = read_csv(path, labels=["y"])
    assert_array_equal(dataset.X, [[1.5, 1], [np.nan, np.nan], [0, 0]])
    assert_array_equal(dataset.unknown.toarray(), [[False], [False], [True]])


@pytest.mark.real_data
def test_real_data_comes_back(mulan, tmp_path):
    emotions = mulan("emotions")
    columns = dict(zip(emotions.label_names, emotions.Y.T, strict=True))
    columns |= dict(zip(emotions.feature_names, emotions.X.T, strict=True))
    pd.DataFrame(columns).to_csv(tmp_path / "emotions.csv", index=False)
    dataset = read_csv(tmp_path / "emotions.csv", labels=len(emotions.label_names))
    assert (dataset.feature_names, dataset.label_names) == (emotions.feature_names, emotions.label_names)
    assert_array_equal(dataset.X, emotions.X)
    assert_array_equal(dataset.Y, emotions.Y)


# Blocks: a file is cut between rows, wherever it has quotes and line ends.


@pytest.mark.parametrize("block", [1, 7, 40, 1 << 23])
def test_rows_with_quotes_are_cut_between_rows(read, monkeypatch, block):
    monkeypatch.setattr("lrml.datasets._tables._BLOCK_BYTES", block)
    rows = ['1,5" disk', '"2","a ""b"" c\n d"', '3,""', '4,"x,\r\ny"', '5,e"', '"6","e"""']
    text = "x,t\r\n" + "".join(row + "\r\n" for row in rows * 3)
    dataset = read(text, label_column="t", label_separator="|")
    assert dataset.label_names == ('5" disk', 'a "b" c\n d', 'e"', "x,\r\ny")
    assert_array_equal(dataset.X[:, 0], [1, 2, 3, 4, 5, 6] * 3)
    assert_array_equal(dataset.Y.indices, [0, 1, 3, 2, 2] * 3)


@pytest.mark.parametrize("block", [1, 40, 1 << 23])
def test_words_that_come_late(read, monkeypatch, block):
    monkeypatch.setattr("lrml.datasets._tables._BLOCK_BYTES", block)
    text = "x,y\n" + "1.5,0\n" * 30 + "true,yes\n  ,No\nNA,1\n" + "0.5,1\n" * 30 + "no,\n"
    dataset = read(text, labels=["y"])
    assert_array_equal(dataset.X[:, 0], [1.5] * 30 + [1, np.nan, np.nan] + [0.5] * 30 + [0])
    assert_array_equal(dataset.targets[:, 0], [0] * 30 + [1, 0, 1] + [1] * 30 + [np.nan])


def test_a_delimiter_beyond_ascii(read):
    dataset = read('x§y§t\n1§0§"a§b\nc"\n2§1§d\n', label_column="t", delimiter="§")
    assert dataset.label_names == ("a§b\nc", "d")
    assert_array_equal(dataset.X, [[1, 0], [2, 1]])


def test_without_pyarrow(read, monkeypatch):
    for module in ("pyarrow", "pyarrow.csv", "pyarrow.compute"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'reading CSV files needs pyarrow.*pip install "lrml\[tables\]"'):
        read("x,y\n1,0\n", labels=["y"])


# Errors name the line, the column, the value and a remedy.


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "big,1",
            r"line 4: column 'size' must hold numbers.*got 'big'\. Encode the column.*list it in ignore",
        ),
        ("1_000,1", r"line 4: column 'size' must hold numbers.*got '1_000'"),
        ("١٢,1", r"line 4: column 'size' must hold numbers.*got '١٢'"),
        ("1 2,1", r"line 4: .*got '1 2'"),
        ("0x10,1", r"line 4: .*got '0x10'"),
        ("nan(1),1", r"line 4: column 'size' must hold numbers.*got 'nan\(1\)'"),
        ("1,NaN()", r"line 4: label column 'red' must hold 0 or 1.*got 'NaN\(\)'"),
        ("-Infinity,1", r"line 4: column 'size' must hold finite numbers, got '-Infinity'\. Correct"),
        ("1e999,1", r"line 4: column 'size' must hold finite numbers, got '1e999'"),
        ("1,2", r"line 4: label column 'red' must hold 0 or 1, true or false.*got '2'"),
        ("1,yea", r"line 4: label column 'red' must hold 0 or 1.*got 'yea'"),
        ("1,inf", r"line 4: label column 'red' must hold 0 or 1.*got 'inf'"),
        ("1", r"line 4: a row must have 3 cells, as the header has, separated by ',', got 2 cells"),
        ("1,1,1", r"line 4: a row must have 3 cells.*got 4 cells\. Complete the row"),
        ('1,"1', r"rows must be in CSV form, got 'unexpected end of data'\. Check quotes"),
        ('"1"2,1', r"line 4: rows must be in CSV form"),
        ("1\r2,1", r"line 4: rows must be in CSV form"),
        ("1\0,1", r"line 4: .*got '1\\x00'"),
    ],
)
@pytest.mark.parametrize("ahead", [0, 200])  # with many distinct cells ahead, another way of conversion
def test_wrong_rows(read, monkeypatch, row, message, ahead):
    monkeypatch.setattr("lrml.datasets._tables._BLOCK_BYTES", 700)
    start = "".join(f"n,{i}.5,1\n" for i in range(ahead))
    text = f'id,size,red\n{start}"two\nlines",1,0\na,{row}\nb,2,1\n'
    message = message.replace("line 4", f"line {ahead + 4}")
    with pytest.raises(DatasetFormatError, match=r"toy\.csv.*" + message):
        read(text, labels=["red"], ignore=["id"])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "a table must have a header, got an empty file"),
        ("\n\n", "a table must have a header"),
        ("x,y\n", "a table must have a row"),
        (b"x,y\n1,0\n\xff,1\n", "line 3: text must be in UTF-8.*Save the file in UTF-8"),
        ("x,y\n1,0\n".encode("utf-16"), "line 1: text must be in UTF-8"),
        ("x,y,x\n1,0,1\n", "line 1: the names of columns must be unique, got 'x'. Rename"),
        ('x,y\n1,0\n"1,0\n2,1\n', "line 4: rows must be in CSV form, got 'unexpected end of data'"),
        ('x,y\n1,0\n"1,0\n2,1', "line 4: rows must be in CSV form, got 'unexpected end of data'"),
        (",y\n5,0\n", r"line 1: a feature must have a name, got ''. Pass ignore=\[\"\"\]"),
        ("x,y\n" + "1" * 140_000 + ",1\n", r"line 2: .*field larger than field limit.*csv\.field_size_limit"),
    ],
)
def test_wrong_files(read, content, message):
    with pytest.raises(DatasetFormatError, match=r"toy\.csv.*" + message):
        read(content, labels=["y"])


def test_a_row_cannot_take_all_memory(read, monkeypatch):
    for module in ("_lines", "_tables"):
        monkeypatch.setattr(f"lrml.datasets.{module}.LONGEST_ROW", 1000)
    with pytest.raises(DatasetFormatError, match="line 253: a row must not be longer than 1000 bytes"):
        read("x,y\n1,0\n" + '"\n",' * 5000, labels=["y"])
    rows = "1,0\n" * 5000  # many short rows may be longer than that
    assert read("x,y\n" + rows, labels=["y"]).shape == (5000, 1, 1)


def test_damaged_compression(read):
    with pytest.raises(DatasetFormatError, match=r"toy\.csv\.gz.*compressed data must be whole"):
        read(gzip.compress(TOY.encode())[:-12], "toy.csv.gz", labels=-2)


def test_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_csv(tmp_path / "none.csv", labels=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"labels": ["rouge", "red"]},
            r"labels must name columns.*\(1 of 2 names do not\), got 'rouge'.*'round'",
        ),
        ({"labels": ["zzz"]}, r"got 'zzz'\. The columns are 'id', 'size', 'ok', 'red', 'round' \(5 in all\)"),
        ({"label_column": "Red"}, r"label_column must name columns.*got 'Red'\. Close matches: 'red'"),
        ({"labels": ["red"], "features": ["sise"]}, r"features must name columns.*Close matches: 'size'"),
        ({"labels": ["red"], "ignore": ["ids"]}, r"ignore must name columns.*Close matches: 'id'"),
        ({"labels": ["red"], "features": ["red", "ok"]}, r"not be in both labels and features, got 'red'"),
        ({"label_column": "id", "ignore": ["id"]}, r"not be in both label_column and ignore, got 'id'"),
        ({"labels": ["red"], "features": ["ok"], "ignore": ["ok"]}, r"both features and ignore, got 'ok'"),
        ({"labels": 3, "ignore": ["size"]}, r"both labels and ignore, got 'size'"),
        (
            {"labels": 4, "ignore": ["round"]},
            r"some column must be a feature.*got 5 columns and no feature",
        ),
        ({"labels": 5}, r"first n or -n for the last n of 5 columns.*got 5"),
        ({"labels": 0}, r"n at least 1.*got 0"),
    ],
)
def test_wrong_names(read, options, message):
    with pytest.raises(DatasetFormatError, match=r"toy\.csv, line 1: .*" + message):
        read(TOY, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of labels.*and label_column.*must be given, got neither"),
        ({"labels": ["red"], "label_column": "id"}, r"exactly one.*got both"),
        ({"labels": "red"}, "labels must be a list of column names, or their number, got 'red'. Pass a list"),
        ({"labels": True}, "labels must be a list of column names, or their number, got True"),
        ({"labels": []}, "labels must name a column, got an empty list"),
        ({"labels": ["red", "red"]}, "labels must not name a column twice, got 'red'"),
        ({"labels": ["red"], "ignore": "id"}, "ignore must be a list of column names, got 'id'"),
        ({"labels": ["red"], "features": [1]}, r"features must be a list of column names, got \[1\]"),
        ({"label_column": ["a", "b"]}, r"label_column must be the name of one column, got \['a', 'b'\]"),
        ({"label_column": "id", "label_separator": ""}, "label_separator must be a text of at least one"),
        ({"labels": ["red"], "delimiter": ", "}, "delimiter must be one character.*got ', '"),
        ({"labels": ["red"], "delimiter": '"'}, "delimiter must be one character"),
    ],
)
def test_wrong_arguments(read, options, message):
    with pytest.raises(ValueError, match=message):
        read(TOY, **options)


def test_a_label_column_without_labels(read):
    with pytest.raises(DatasetFormatError, match="label column 'tags' must list a label in some row"):
        read("x,tags\n1,\n2,  \n", label_column="tags")


# What users met.


def test_labels_alone(read, tmp_path):
    for options in ({"labels": -2}, {"labels": ["round", "red"]}, {"label_column": "id"}):
        dataset = read(TOY, features=[], **options)
        whole = read(TOY, features=["size"], **options)
        assert dataset.shape == (3, 0, whole.shape[2])
        assert dataset.label_names == whole.label_names
        assert_array_equal(sparse.csr_array(dataset.Y).toarray(), sparse.csr_array(whole.Y).toarray())
    assert read("a,b\n1,0\n0,1\n", labels=2, features=[], sparse=True).shape == (2, 0, 2)
    for suffix in ("svm", "xmc", "arff"):
        with pytest.raises(ValueError, match=r"must have a feature to be written, got X of shape \(3, 0\)"):
            write_dataset(dataset, tmp_path / f"a.{suffix}")


def test_texts_point_to_the_tagger(read):
    with pytest.raises(DatasetFormatError, match=r"line 2: column 'body'.*read_texts and lrml\.TextTagger"):
        read("body,tags\nsome words of text,a\n", label_column="tags")
    with pytest.raises(DatasetFormatError, match=r"column 'body'.*or list it in ignore\.$"):
        read("body,tags\nword,a\n", label_column="tags")
