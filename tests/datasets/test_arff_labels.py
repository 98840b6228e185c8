"""The ways to say which attributes are labels: an XML file, an argument, MEKA's header."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from lrml.datasets import DatasetFormatError, read_arff

ATTRIBUTES = "".join(f"@attribute {name} {{0,1}}\n" for name in "abcd")
ROWS = "@data\n1,0,1,1\n0,1,1,0\n0,0,0,1\n"
VALUES = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [0, 0, 0, 1]])
SPARSE_ROWS = "@data\n{0 1,2 1,3 1}\n{1 1,2 1}\n{3 1}\n"


@pytest.fixture
def read(tmp_path):
    """Write an ARFF file with four attributes and three rows, with the given relation, and read it."""

    def read_text(relation="", rows=ROWS, xml=None, **options):
        path = tmp_path / "file.arff"
        line = f"@relation {relation}\n" if relation else ""
        path.write_bytes((line + ATTRIBUTES + rows).encode() if isinstance(relation, str) else relation)
        if xml is not None:
            options["xml"] = tmp_path / "file.xml"
            names = "".join(f'<label name="{name}"/>' for name in xml)
            options["xml"].write_text(f"<labels>{names}</labels>")
        return read_arff(path, **options)

    return read_text


def check(dataset, labels):
    features = [name for name in "abcd" if name not in labels]
    assert dataset.label_names == tuple(labels)
    assert dataset.feature_names == tuple(features)
    order = {name: column for column, name in enumerate("abcd")}
    for matrix, names in ((dataset.X, features), (dataset.Y, labels)):
        expected = VALUES[:, [order[name] for name in names]]
        assert_array_equal(matrix.toarray() if sparse.issparse(matrix) else matrix, expected)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (["c", "a"], "ac"),
        (("b",), "b"),
        (np.array(["b"]), "b"),
        (1, "a"),
        (3, "abc"),
        (-1, "d"),
        (np.int64(-2), "cd"),
    ],
)
@pytest.mark.parametrize("rows", [ROWS, SPARSE_ROWS])
def test_labels_by_argument(read, labels, expected, rows):
    dataset = read("'other: -C 2'", rows, labels=labels)
    check(dataset, expected)
    assert dataset.name == "other"


@pytest.mark.parametrize(
    ("relation", "labels", "name", "n_train"),
    [
        ("'Music: -C 1'", "a", "Music", None),
        ('"Music: -C -2 -split-number 2"', "cd", "Music", 2),
        ("'Music:-split-number 1 -C +2'", "ab", "Music", 1),
        ("Music: -C 1", "a", "Music", None),
        (r"'it\'s: -C 1'", "a", "it's", None),
        ("'two: parts: -C 1'", "a", "two: parts", None),
        ("'a: -C 3: -C 1'", "a", "a: -C 3", None),
        ("'m: -C 1 -t C:\\\\x -W y'", "a", "m", None),
        ("': -C 1'", "a", "", None),
        ("'m: -C 1 -split-percentage 34'", "a", "m", 1),  # 1.02
        ("'m: -C 1 -split-percentage 50'", "a", "m", 2),  # 1.5, and Java's Math.round gives 2
        ("'m: -C 1 -split-percentage 66.7'", "a", "m", 2),
    ],
)
@pytest.mark.parametrize("rows", [ROWS, SPARSE_ROWS])
def test_labels_by_meka_header(read, relation, labels, name, n_train, rows):
    dataset = read(relation, rows)
    check(dataset, labels)
    assert (dataset.name, dataset.n_train) == (name, n_train)


def test_explicit_name_wins(read):
    assert read("'Music: -C 1'", name="mine").name == "mine"


@pytest.mark.parametrize("rows", [ROWS, SPARSE_ROWS])
def test_label_order(read, rows):
    check(read(rows=rows, xml="dba"), "abd")
    check(read(rows=rows, xml="dba", label_order="xml"), "dba")


def test_label_order_moves_unknown_labels_along(read):
    for rows in ("@data\n1,?,0,1\n0,1,0,?\n", "@data\n{0 1,1 ?,3 1}\n{1 1,3 ?}\n"):
        dataset = read(rows=rows, xml="dab", label_order="xml")
        Y = sparse.csr_array(dataset.Y).toarray()
        assert_array_equal(Y, [[1, 1, 0], [0, 0, 1]])
        assert_array_equal(dataset.unknown.toarray(), [[0, 0, 1], [1, 0, 0]])


def test_split_of_the_header_is_used_with_an_xml_file_too(read):
    dataset = read("'Music: -C 2 -split-number 2'", xml="d")
    check(dataset, "d")
    assert (dataset.name, dataset.n_train) == ("Music", 2)


@pytest.mark.parametrize(
    ("relation", "message"),
    [
        ("", "file.arff: the labels must be given: .* got none of them. Give xml or labels"),
        ("'Music'", "file.arff, line 1: the labels must be given"),
        ("'Music: -split-number 2'", "line 1: the labels must be given"),
        ("'m: -C'", "line 1: -C of MEKA's header must be an integer, got ''"),
        ("'m: -C six'", "line 1: -C of MEKA's header must be an integer, got 'six'"),
        ("'m: -C 0'", "line 1: the number of labels must be at least 1 and below 4, .* got 0"),
        ("'m: -C -4'", "line 1: the number of labels must be at least 1 and below 4, .* got -4"),
        ("'m: -C 1 -C 2'", "line 1: an option of MEKA's header must be given once, got '-C'"),
        ("'m: -C 1 -split-number x'", "line 1: -split-number of MEKA's header must be an integer, got 'x'"),
        ("'m: -C 1 -split-number 3'", "line 1: the split .* training and test rows, of 3 in all, got '3'"),
        ("'m: -C 1 -split-number -1'", "line 1: the split of MEKA's header must leave"),
        ("'m: -C 1 -split-percentage 100'", "line 1: the split .* got '100'. Correct the @relation line"),
        ("'m: -C 1 -split-percentage x'", "line 1: -split-percentage must be a number between 0 and 100"),
        ("'m: -C 1 -split-percentage 50 -split-number 1'", "line 1: .*one of -split-number and .*percentage"),
        (b"@relation 'm\xfa: -C 1'\n" + (ATTRIBUTES + ROWS).encode(), "line 1: the name .* must be UTF-8"),
    ],
)
def test_bad_meka_headers_are_reported(read, relation, message):
    with pytest.raises(DatasetFormatError, match=message):
        read(relation)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"xml": "a", "labels": ["b"]}, "must be given in one way, got both xml=.*file.xml' and labels="),
        ({"labels": 1, "label_order": "xml"}, 'label_order="xml" needs an XML file, got xml=None'),
        ({"labels": 1, "label_order": "file"}, 'label_order must be "arff" or "xml", got \'file\''),
        ({"labels": "a"}, r"labels must be names of attributes, .* got 'a'. Pass a list"),
        ({"labels": []}, r"labels must be names of attributes, .* got \[\]"),
        ({"labels": [1]}, r"labels must be names of attributes, .* got \[1\]"),
        ({"labels": 0}, "labels must be names of attributes, .* got 0"),
        ({"labels": True}, "labels must be names of attributes, .* got True"),
        ({"labels": ["a", "a"]}, r"labels must name each attribute once, got \['a', 'a'\]"),
        (
            {"labels": ["a", "x"]},
            "file.arff: each label must be an attribute of .*, got 'x'. 1 of 2 labels are not",
        ),
        ({"labels": list("abcd")}, "file.arff: some attribute of .* must be a feature"),
        ({"labels": 4}, "file.arff: the number of labels must be at least 1 and below 4"),
    ],
)
def test_bad_arguments_are_reported(read, options, message):
    with pytest.raises(ValueError, match=message):
        read(**options)


def test_two_spellings_of_one_label_in_the_xml_file(tmp_path):
    (tmp_path / "f.arff").write_text('@attribute "it\'s" {0,1}\n@attribute b numeric\n@data\n1,0\n')
    (tmp_path / "f.xml").write_text('<labels><label name="it\'s"/><label name="it\\\'s"/></labels>')
    with pytest.raises(DatasetFormatError, match=r"each label must be listed once, got .it's."):
        read_arff(tmp_path / "f.arff", tmp_path / "f.xml")
