"""ARFF files: labels, nominal attributes, missing values, and what breaks their rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from lrml.datasets import Dataset, DatasetFormatError, read_dataset, write_dataset
from model_checks import dense

ATTRIBUTES = "".join(f"@attribute {name} {{0,1}}\n" for name in "abcd")
ROWS = "@data\n1,0,1,1\n0,1,1,0\n0,0,0,1\n"
SPARSE_ROWS = "@data\n{0 1,2 1,3 1}\n{1 1,2 1}\n{3 1}\n"
VALUES = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 1]])
NAN = np.nan


@pytest.fixture
def read(write):
    def read_text(text, xml=None, **options):
        if xml is not None:
            options["xml"] = write(xml, "labels.xml")
        return read_dataset(write(text, "toy.arff"), **options)

    return read_text


def check(dataset, labels):
    features = [name for name in "abcd" if name not in labels]
    assert (dataset.label_names, dataset.feature_names) == (tuple(labels), tuple(features))
    for matrix, names in ((dataset.X, features), (dataset.Y, labels)):
        assert_array_equal(dense(matrix), VALUES[:, ["abcd".index(name) for name in names]])


@pytest.mark.parametrize(
    ("relation", "options", "labels", "name", "n_train"),
    [
        ("'other: -C 2'", {"labels": ["c", "a"]}, "ac", "other", None),
        ("'other: -C 2'", {"labels": 3}, "abc", "other", None),
        ("other", {"labels": -2}, "cd", "toy", None),
        ("'Music: -C 1'", {}, "a", "Music", None),
        ('"Music: -C -2 -split-number 2"', {}, "cd", "Music", 2),
        ("'Music:-split-number 1 -C +2'", {}, "ab", "Music", 1),
        (r"'it\'s: -C 1'", {}, "a", "it's", None),
        ("'two: parts: -C 1'", {}, "a", "two: parts", None),
        ("'m: -C 1 -split-percentage 34'", {}, "a", "m", 1),  # 1.02
        ("'m: -C 1 -split-percentage 50'", {}, "a", "m", 2),  # 1.5, and Java's Math.round gives 2
    ],
)
@pytest.mark.parametrize("rows", [ROWS, SPARSE_ROWS])
def test_labels_by_argument_or_meka_header(read, relation, options, labels, name, n_train, rows):
    dataset = read(f"@relation {relation}\n" + ATTRIBUTES + rows, **options)
    check(dataset, labels)
    assert (dataset.name, dataset.n_train) == (name, n_train)


@pytest.mark.parametrize(
    "relation",
    ["C", "C six", "C 5", "C -4", "C 1 -split-number 3", "C 1 -split-number x", "C 1 -split-percentage x"],
)
def test_wrong_meka_headers(read, relation):
    with pytest.raises(DatasetFormatError, match=r"toy\.arff"):
        read(f"@relation 'm: -{relation}'\n" + ATTRIBUTES + ROWS)


def test_labels_in_an_xml_file(tmp_path, read):
    head = '<labels xmlns="http://mulan.sourceforge.net/labels">'
    xml = head + '<label name="d"><label name="a"/></label></labels>'
    check(read(ATTRIBUTES + ROWS, xml), "ad")
    for name in ("toy-train-sparse", "toy-test", "toy"):
        (tmp_path / f"{name}.arff").write_text(ATTRIBUTES + ROWS)
    (tmp_path / "toy.xml").write_text(xml)
    for name in ("toy-train-sparse", "toy-test", "toy"):  # beside it
        check(read_dataset(tmp_path / f"{name}.arff"), "ad")
    (tmp_path / "toy.arff").write_text("@attribute 'it\\'s' {0,1}\n@attribute m\\'b real\n@data\n1,2\n")
    for label in ("it\\'s", "it's"):  # as it is written inside of quotes
        (tmp_path / "toy.xml").write_text(f'<labels><label name="{label}"/></labels>')
        found = read_dataset(tmp_path / "toy.arff")
        assert (found.label_names, found.feature_names) == (("it's",), (r"m\'b",))
    for wrong in ("<labels", "<labels/>", "<labels><label/></labels>", '<labels><label name="x"/></labels>'):
        with pytest.raises(DatasetFormatError, match=r"labels\.xml"):
            read(ATTRIBUTES + ROWS, wrong)


def test_nothing_says_which_attributes_are_labels(read):
    assert read(ATTRIBUTES + ROWS).Y is None
    for labels in (["x"], list("abcd"), 4, 9):
        with pytest.raises(DatasetFormatError, match=r"toy\.arff"):
            read(ATTRIBUTES + ROWS, labels=labels)


HEADER = (
    "@attribute color {red, 'light green', \"it's, blue\", '?'}\n@attribute size numeric\n"
    "@attribute only {one}\n@attribute flag {0,1}\n@attribute label {0,1}\n@data\n"
)
NAMES = ("color=light green", "color=it's, blue", "color=?", "size", "flag")
DENSE = (
    "red,1.5,one,1,0\n'light green' , -2,one,0,1\n \"it\\'s, blue\",0,'one',0,'1'\n'?',0,one,'1',0\n"
    "?,?,?,?,?\n"
)
SPARSE = (
    "{1 1.5, 3 1}\n{0 'light green' ,1 -2, 4 1}\n{ 4 '1',0 \"it\\'s, blue\"}\n{0 '?',3 '1',2 one}\n"
    "{0 ?,1 ?,2 ?,3 ?,4 ?}\n"
)


@pytest.mark.parametrize("rows", [DENSE, SPARSE])
def test_nominal_attributes_become_columns_of_zeros_and_ones(read, rows):
    dataset = read(HEADER + rows, labels=-1)
    assert (dataset.feature_names, dataset.label_names) == (NAMES, ("label",))
    expected = [[0, 0, 0, 1.5, 1], [1, 0, 0, -2, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 1], [NAN] * 5]
    assert_array_equal(dense(dataset.X), expected)
    assert_array_equal(dense(dataset.Y), [[0], [1], [1], [0], [0]])
    assert_array_equal(dataset.unknown.toarray(), [[False]] * 4 + [[True]])
    assert sparse.issparse(dataset.X) == sparse.issparse(dataset.Y) == (rows is SPARSE)


@pytest.mark.parametrize("domain", ["no,yes", "1,0", "0,1,2"])
def test_a_label_is_0_or_1_and_an_omitted_one_is_0(read, domain):
    text = f"@attribute a numeric\n@attribute l {{{domain}}}\n@data\n"
    with pytest.raises(DatasetFormatError, match=r"line 2: .*'l'"):
        read(text + "{0 1}\n", labels=-1)
    if domain == "1,0":
        assert_array_equal(read(text + "1,0\n2,1\n", labels=-1).Y, [[0], [1]])


NOMINAL, REAL = "@attribute v {a,b}", "@attribute v real"


@pytest.mark.parametrize(
    ("header", "row", "line"),
    [
        *(
            (NOMINAL, row, 4)
            for row in ("c,0", ",0", "{0 c}", "a,2", "a,1e999", "{0 b} x", "{0 {b}}", "'a,1")
        ),
        *(
            (REAL, row, 4)
            for row in ("{0 1,0 2}", "{7 1}", "{0 1", "{0 1 2}", "1", "1,0,{5}", "nan,0", "inf,0")
        ),
        *((REAL, row, 4) for row in ("1_0,0", "{0 x}")),
        *((f"@attribute v{kind}", "a,0", 1) for kind in (" string", " {a,a}", " {a,b", "")),
        ("nonsense", "a,0", 1),
        ("@attribute l real", "1,0", 2),
        ("@attribute v real\n@attribute w {0,1}", "{3 1}", 5),
    ],
)
def test_what_breaks_a_rule_is_named_by_its_line(read, header, row, line):
    with pytest.raises(DatasetFormatError, match=rf"toy\.arff, line {line}: "):
        read(f"{header}\n@attribute l {{0,1}}\n@data\n{row}\n", labels=-1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "complete"),
        ("@attribute a real\n", "complete"),
        ("@attribute l {0,1}\n@attribute a real\n@data\n", "complete"),
        (b"@attribute \xff real\n@attribute l {0,1}\n@data\n1,0\n", "UTF-8"),
        ("@attribute l {x,y,z}\n@attribute a real\n@data\n1,x\n", "line 1: .*'l'"),
    ],
)
def test_wrong_files(read, text, message):
    with pytest.raises(DatasetFormatError, match=message):
        read(text, labels=1)


_NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
_VALUES = st.one_of(st.floats(allow_infinity=False, width=64), st.sampled_from([0.0, 1.0]))


@given(st.data(), st.booleans(), st.integers(1, 4), st.integers(1, 3), st.integers(1, 5))
def test_any_dataset_is_written_and_read_bit_for_bit(tmp_path_factory, data, is_sparse, d, n_labels, n):
    names = data.draw(st.lists(_NAMES, min_size=d + n_labels, max_size=d + n_labels, unique=True))
    X = np.array(data.draw(st.lists(st.lists(_VALUES, min_size=d, max_size=d), min_size=n, max_size=n)))
    X[X == 0] = 0.0  # the sign of a zero is not kept by sparse rows
    Y = np.array(
        data.draw(
            st.lists(st.lists(st.booleans(), min_size=n_labels, max_size=n_labels), min_size=n, max_size=n)
        )
    )
    kind = sparse.csr_array if is_sparse else np.asarray
    path = tmp_path_factory.mktemp("any") / "any.arff"
    name = data.draw(_NAMES).strip() or "x"
    write_dataset(Dataset(name, kind(X), kind(Y.astype(np.uint8)), names[:d], names[d:]), path)
    (path.parent / "any.xml").unlink()
    found = read_dataset(path)
    assert (found.name, list(found.feature_names), list(found.label_names)) == (name, names[:d], names[d:])
    assert_array_equal(dense(found.X), X)
    assert_array_equal(dense(found.Y), Y)
