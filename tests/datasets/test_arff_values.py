"""Nominal attributes and missing values of ARFF files."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from lrml.datasets import DatasetFormatError, read_arff

HEADER = (
    "@attribute color {red, 'light green', \"it's, blue\", '?'}\n@attribute size numeric\n"
    "@attribute only {one}\n@attribute flag {0,1}\n@attribute label {no,yes}\n@data\n"
)
# Columns: color=light green, color=it's, blue, color=?, size, flag.
NAMES = ("color=light green", "color=it's, blue", "color=?", "size", "flag")
NAN = np.nan


@pytest.fixture
def read(tmp_path):
    """Write an ARFF file and read it; the last attribute is the label."""

    def read_text(text, **options):
        (tmp_path / "toy.arff").write_bytes(text.encode())
        return read_arff(tmp_path / "toy.arff", **({"labels": -1} | options))

    return read_text


def dense(matrix):
    return matrix.toarray() if sparse.issparse(matrix) else matrix


DENSE = (
    "red,1.5,one,1,no\n'light green' , -2,one,0,yes\n \"it\\'s, blue\",0,'one',0,'yes'\n'?',0,one,'1',no\n"
    "?,?,?,?,?\n"
)
SPARSE = (
    "{1 1.5, 3 1}\n{0 'light green' ,1 -2, 4 yes}\n{ 4 'yes',0 \"it\\'s, blue\"}\n{0 '?',3 '1',2 one}\n"
    "{0 ?,1 ?,2 ?,3 ?,4 ?}\n"
)


@pytest.mark.parametrize("rows", [DENSE, SPARSE])
@pytest.mark.parametrize("chunk_bytes", [1, 1 << 20])
def test_nominal_attributes_become_columns_of_zeros_and_ones(read, limits, rows, chunk_bytes):
    with limits(_CHUNK_BYTES=chunk_bytes):
        dataset = read(HEADER + rows)
    assert dataset.feature_names == NAMES
    assert dataset.label_names == ("label",)
    expected = [[0, 0, 0, 1.5, 1], [1, 0, 0, -2, 0], [0, 1, 0, 0, 0], [0, 0, 1, 0, 1], [NAN] * 5]
    assert_array_equal(dense(dataset.X), expected)
    assert_array_equal(dense(dataset.Y), [[0], [1], [1], [0], [0]])
    assert_array_equal(dataset.unknown.toarray(), [[False]] * 4 + [[True]])
    assert sparse.issparse(dataset.X) == sparse.issparse(dataset.Y) == (rows is SPARSE)


@pytest.mark.parametrize("rows", ["?,0\n1.5,1\n 2 , ? \n", "{0 ?}\n{0 1.5,1 1}\n{0 2,1 ? }\n"])
def test_missing_numbers(read, rows):
    dataset = read("@attribute a numeric\n@attribute l {0,1}\n@data\n" + rows)
    assert_array_equal(dense(dataset.X), [[NAN], [1.5], [2]])
    assert_array_equal(dense(dataset.Y), [[0], [1], [0]])
    assert_array_equal(dataset.unknown.toarray(), [[False], [False], [True]])
    assert dataset.unknown.dtype == np.bool_


@pytest.mark.parametrize("rows", ["?,0\n", "{0 ?}\n"])
def test_nothing_unknown_is_none(read, rows):
    assert read("@attribute a numeric\n@attribute l {0,1}\n@data\n" + rows).unknown is None


@pytest.mark.parametrize(
    "domain", ["False,True", "TRUE,FALSE", "no,yes", "Yes,No", "n,y", "Y,N", "f,t", "T,F", "'no','yes'"]
)
def test_two_valued_labels(read, domain):
    first, second = domain.split(",")
    yes = second if second.strip("'").lower()[0] in "ty" else first
    no = first if yes is second else second
    text = f"@attribute a numeric\n@attribute l {{{domain}}}\n@data\n"
    assert_array_equal(read(text + f"1,{yes}\n2,{no}\n").Y, [[1], [0]])
    if no is first:
        assert_array_equal(read(text + f"{{1 {yes}}}\n{{0 1}}\n").Y.toarray(), [[1], [0]])
    else:
        with pytest.raises(DatasetFormatError, match=f"line 2: 'l' must declare {no} first, as an omitted"):
            read(text + f"{{1 {yes}}}\n")


@pytest.mark.parametrize("rows", ["0,1\n", "{1 1}\n"])
@pytest.mark.parametrize("domain", ["a,b", "0,1,2", "no,true", "yes", "no,yes,maybe", "false,False"])
def test_labels_of_other_values_are_an_error(read, domain, rows):
    with pytest.raises(DatasetFormatError, match="line 2: label 'l' must be numeric or have two values"):
        read(f"@attribute a numeric\n@attribute l {{{domain}}}\n@data\n{rows}")


@pytest.mark.parametrize(
    ("domain", "row", "message"),
    [
        ("a,b", "c,0", "line 4: attribute 'v' must have one of its 2 declared values, got 'c'"),
        ("a,b", "A,0", "line 4: attribute 'v' must have one of its 2 declared values, got 'A'"),
        ("a,b", "1,0", "line 4: attribute 'v' must have one of its 2 declared values, got '1'"),
        ("a,b", ",0", "line 4: attribute 'v' must have one of its 2 declared values, got ''"),
        ("a,b", "{0 c}", "line 4: attribute 'v' must have one of its 2 declared values, got 'c'"),
        ("a,b", "{0 'a b'}", "line 4: attribute 'v' must have one of its 2 declared values, got 'a b'"),
        ("a,b", "a,2", "line 4: attribute 'l' must be 0 or 1, got 2.0"),
        ("a,b", "a,1e999", "line 4: attribute 'l' must be 0 or 1, got inf"),
        ("a,b", "{1 0.5}", "line 4: attribute 'l' must be 0 or 1, got 0.5"),
        ("a,b", "{0 b} x", "line 4: a sparse row must end with }"),
        ("a,b", "{0 {b}}", "line 4: an entry of a sparse row must be"),
        ("0", "1,0", "line 4: attribute 'v' must be 0, got 1.0"),
        ("0", "{0 1}", "line 4: attribute 'v' must be 0, got 1.0"),
        ("1", "0,0", "line 4: attribute 'v' must be 1, got 0.0"),
        ("1", "{0 1}", "line 1: 'v' must declare 0 first, .* got '.1.'"),
        ("one", "one,0", "toy.arff: some attribute must be a feature that can take two values, got none"),
    ],
)
def test_values_outside_of_the_domain_are_reported(read, domain, row, message):
    with pytest.raises(DatasetFormatError, match=message):
        read(f"@attribute v {{{domain}}}\n@attribute l {{0,1}}\n@data\n{row}\n")


def test_the_first_of_several_wrong_rows_is_reported(read):
    with pytest.raises(DatasetFormatError, match="line 6: a value must be a finite number, got 'x'"):
        read("@attribute v {a,b}\n@attribute w real\n@attribute l {0,1}\n@data\na,1,1\nb,x,1\nc,1,1\n")


@pytest.mark.parametrize(
    "header",
    [
        "@attribute a {x,y}\n@attribute a=y numeric\n",
        "@attribute a=y numeric\n@attribute a {x,y}\n",
        "@attribute a=y {x,z}\n@attribute a {x,y=z}\n",
    ],
)
def test_names_of_columns_must_not_clash(read, header):
    message = r"line [12]: the column attribute=value .* must have a name of its own, got 'a="
    with pytest.raises(DatasetFormatError, match=message):
        read(header + "@attribute l {0,1}\n@data\nx,1,0\n")


def test_column_must_not_be_named_like_a_label(read):
    with pytest.raises(DatasetFormatError, match="line 1: the column attribute=value"):
        read("@attribute a {x,y}\n@attribute a=y {0,1}\n@data\nx,1\n")


def test_one_of_many_values(read):
    # The oracle is plain Python: column j of k-1 is 1 where the value is number j+1.
    values = [f"value {number}" for number in range(300)]
    chosen = [values[number] for number in (0, 299, 17, 17, 1)]
    text = f"@attribute v {{{','.join(map(repr, values))}}}\n@attribute l {{0,1}}\n@data\n"
    expected = [[float(value == name) for name in values[1:]] for value in chosen]
    for rows in ([f"'{value}',1" for value in chosen], [f"{{0 '{value}',1 1}}" for value in chosen]):
        assert_array_equal(dense(read(text + "\n".join(rows)).X), expected)


# Long inputs that a careless pattern would chew on forever.


@pytest.mark.parametrize("rows", ["{}\n", "v0,0\n"])
def test_huge_domain(read, rows):
    size = 200_000
    text = (
        "@attribute v {" + ",".join(f"v{number}" for number in range(size)) + "}\n@attribute l {0,1}\n@data\n"
    )
    assert read(text + rows).X.shape == (1, size - 1)


LONG = 200_000


@pytest.mark.parametrize(
    "header",
    [
        "@attribute '" + "a" * LONG,
        "@attribute '" + r"\'" * LONG,
        '@attribute "' + "\\" * LONG,
        "@attribute " + "a" * LONG,
        "@attribute a " + "{" * LONG,
        "@attribute a {" + "'" * (LONG + 1) + "}",
        "@attribute a {" + ", " * LONG + "}",
        "@attribute a {" + " " * LONG,
        "@relation " + ":" * LONG + "\n@attribute a real",
        "@relation " + ": " * LONG + "-\n@attribute a real",
        "@relation 'm: -C " + "9" * LONG + "'\n@attribute a real",
        "@relation 'm: -" + " -split-number" * 1000 + "'\n@attribute a real",
    ],
)
def test_long_header_lines_end_in_an_error(read, header):
    with pytest.raises(DatasetFormatError, match="line 1: "):
        read(header + "\n@attribute b real\n@data\n1,0\n", labels=None)


@pytest.mark.parametrize(
    "row",
    [
        "'" * (LONG + 1),
        "'" + "\\" * LONG,
        "'" + r"\'" * LONG,
        "," * LONG,
        " ," * LONG + "'",
        "?" * LONG,
        "9" * LONG + "x",
        "1e" + "9" * LONG + ",1",
        "{" + "9" * LONG + " 1}",
        "{0" + " " * LONG + "}",
        "{0 '" + "x" * LONG + "}",
        "{" + "0 1," * LONG + "}",
        "{" + "0 1 " * LONG + "}",
        "{" * LONG,
        "{" + "}" * LONG,
    ],
)
@pytest.mark.parametrize("domain", ["{0,1}", "{a,b}"])
def test_long_rows_end_in_an_error(read, row, domain):
    with pytest.raises(DatasetFormatError, match="line 4: "):
        read(f"@attribute v {domain}\n@attribute l {{0,1}}\n@data\n{row}\n")


def test_names_of_columns_must_not_fill_the_memory(read):
    domain = ",".join(map(str, range(1000)))
    text = f"@attribute {'a' * 100_000} {{{domain}}}\n@attribute l {{0,1}}\n@data\n0,1\n"
    with pytest.raises(
        DatasetFormatError, match="line 1: the names of nominal columns must not take more than"
    ):
        read(text)
