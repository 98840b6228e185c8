from __future__ import annotations

import bz2
import codecs
import gzip
import pickle
from xml.sax.saxutils import quoteattr

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from scipy.io.arff import loadarff

from lrml.datasets import DatasetFormatError, mulan_entries, read_arff

HEADER = (
    "@relation toy\n@attribute a numeric\n@attribute p {0,1}\n@attribute b {0,1}\n@attribute q {0,1}\n@data\n"
)
LABELS = '<labels><label name="q"/><label name="p"/></labels>'


@pytest.fixture
def read(tmp_path):
    """Write the two files, and read them."""

    def read_texts(arff, xml=LABELS, **options):
        for name, content in (("toy.arff", arff), ("toy.xml", xml)):
            (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_arff(tmp_path / "toy.arff", tmp_path / "toy.xml", **options)

    return read_texts


def test_sparse_file(read):
    dataset = read(HEADER + "{0 2.5,1 1}\n{ 3 1 , 0 -1e-3 }\n{}\n{2 1,3 0}\n")
    assert repr(dataset) == "<MultiLabelDataset toy: X (4, 2) sparse, Y (4, 2) sparse, no split>"
    assert (dataset.X.dtype, dataset.Y.dtype) == (np.float64, np.uint8)
    assert_array_equal(dataset.X.toarray(), [[2.5, 0], [-1e-3, 0], [0, 0], [0, 1]])
    assert_array_equal(dataset.Y.toarray(), [[1, 0], [0, 1], [0, 0], [0, 0]])
    assert (dataset.X.nnz, dataset.Y.nnz) == (3, 2)  # a written 0 is not stored
    assert dataset.X.indices.dtype == dataset.X.indptr.dtype == np.int32


def test_dense_file(read):
    dataset = read(HEADER + "2.5,1,0,0\n -1e-3 , 0,0,\t1\n.5,0,1.0,0\n", name="other")
    assert repr(dataset) == "<MultiLabelDataset other: X (3, 2) dense, Y (3, 2) dense, no split>"
    assert (dataset.X.dtype, dataset.Y.dtype) == (np.float64, np.uint8)
    assert_array_equal(dataset.X, [[2.5, 0], [-1e-3, 0], [0.5, 1]])
    assert_array_equal(dataset.Y, [[1, 0], [0, 1], [0, 0]])


def test_labels_keep_the_order_of_the_arff_file(read):
    dataset = read(HEADER + "{1 1}\n")
    assert dataset.feature_names == ("a", "b")
    assert dataset.label_names == ("p", "q")  # the XML file lists q first


@pytest.mark.parametrize("row", ["{0 4,1 1}", "4,1,0,0"])
def test_comments_blank_lines_case_line_ends_and_byte_order_mark_do_not_matter(read, row):
    text = (
        "% a comment\n\n@RELATION 'my data'\n@Attribute\ta\tREAL\n@ATTRIBUTE p{0,1}\n"
        f"  @attribute b {{ 0 , 1 }}  \n@attribute q integer\n\n@DATA\n% more\n\n{row}\n   \n  {row}  \n%\n"
    )
    dataset = read(codecs.BOM_UTF8 + text.replace("\n", "\r\n").encode())
    assert_array_equal(sparse.csr_array(dataset.X).toarray(), [[4, 0], [4, 0]])
    assert_array_equal(sparse.csr_array(dataset.Y).toarray(), [[1, 0], [1, 0]])


@pytest.mark.parametrize(
    ("written", "name"),
    [
        (
            r"TAG_m\'usica",
            r"TAG_m\'usica",
        ),  # bare: the backslash is part of the name, as in Mulan's delicious
        (r"TAG_dise\~no", r"TAG_dise\~no"),
        (r"'TAG_m\'usica'", "TAG_m'usica"),
        (r'"two words {x}, 100\%"', "two words {x}, 100%"),
        (r"'a\\b\tc\~d'", "a\\b\tc\\~d"),
        ("música", "música"),
        ("it's", "it's"),
    ],
)
def test_attribute_names(read, written, name):
    text = f"@attribute a numeric\n@attribute {written} {{0,1}}\n@data\n{{1 1}}\n"
    dataset = read(text, f"<labels><label name={quoteattr(name)}/></labels>")
    assert dataset.label_names == (name,)


def test_xml_may_repeat_the_escapes_of_a_quoted_name(read):
    text = "@attribute a numeric\n@attribute 'TAG_m\\'usica' {0,1}\n@data\n{1 1}\n"
    assert read(text, '<labels><label name="TAG_m\\\'usica"/></labels>').label_names == ("TAG_m'usica",)


def test_nested_labels_and_a_namespace(read):
    xml = (
        '<?xml version="1.0" encoding="utf-8"?>\n<labels xmlns="http://mulan.sourceforge.net/labels">'
        '<label name="p"><label name="q"></label></label></labels>'
    )
    assert read(HEADER + "{1 1}\n", xml).label_names == ("p", "q")


def test_dense_file_may_declare_one_first(read):
    dataset = read(HEADER.replace("b {0,1}", "b {1,0}") + "0,1,1,0\n")
    assert_array_equal(dataset.X, [[0, 1]])


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("1,0,0,0\n\n1,0,??,0", r"toy.arff, line 9: a value must be a finite number, got '\?\?'"),
        ("?(1),0,0,0", r"line 7: a value must be a finite number, got '\?\(1\)'"),  # "nan(1)" is NaN in C
        ("1,0,0,0\n-?,0,0,0", r"line 8: a value must be a finite number, got '-\?'"),
        ("?,0,0,0\nnan,0,0,0", "line 8: a value must be a finite number, got 'nan'"),
        ("{0 ?}\n{0 -?}", r"line 8: a value must be a finite number, got '-\?'"),
        ("{0 '?'}", r"line 7: a value must be a finite number, got '\?'"),
        ("{0 1}\n{0 abc}", "line 8: a value must be a finite number, got 'abc'. Write numbers"),
        ("1,0,'0 ,0", 'line 7: a quoted value must end with its quote, .* got "1,0,\'0 ,0"'),
        ("1,0,'0'0,0", "line 7: a quoted value must end with its quote"),
        ("1,'2',0,0", "line 7: attribute 'p' must be 0 or 1, got 2.0"),
        ("1,0,,0", "line 7: a value must be a finite number, got ''"),
        ("1_0,0,0,0", "line 7: a value must be a finite number, got '1_0'"),
        ("{0 1_0}", "line 7: a value must be a finite number, got '1_0'"),
        ("{0 nan}", "line 7: a value must be a finite number, got 'nan'"),
        ("nan,0,0,0", "line 7: a value must be a finite number, got 'nan'"),
        ("{0 1e999}", "line 7: attribute 'a' must be finite, got inf"),
        ("{1 1}\n{2 1,3 2}", "line 8: attribute 'q' must be 0 or 1, got 2.0"),
        ("1,1,0,0\n1,1,0.5,0", "line 8: attribute 'b' must be 0 or 1, got 0.5"),
        ("{1 1}\n{4 1}", "line 8: an index must be below 4, the number of attributes, got '4'. Count"),
        ("{3 1,1 1,3 1}", "line 7: an index must not occur twice in a row, got 3"),
        ("{-1 1}", "line 7: an entry of a sparse row must be .index value., got '-1 1'"),
        ("{1}", "line 7: an entry of a sparse row must be .index value., got '1'"),
        ("{1 1 1}", "line 7: a value must be a finite number, got '1 1'"),
        ("{1 1,}", "line 7: an entry of a sparse row must be .index value., got ''"),
        ("{1 '1}", 'line 7: an entry of a sparse row must be .index value., got "1 \'1"'),
        ("{007 1}", "line 7: an index must be below 4, the number of attributes, got '7'"),
        ("{9999 '1'}", "line 7: an index must be below 4, the number of attributes, got '9999'"),
        ("{1 1} ,{2}", "line 7: a row must not have a weight, got ' ,.2.'. Instance weights are not"),
        ("{1 1}, {0.5}", "line 7: a row must not have a weight"),
        ("{}, {5}", "line 7: a row must not have a weight"),
        ("1,0,0,0, {5}", "line 7: a row must not have a weight, got '.5.'"),
        ("{1 1", "line 7: a sparse row must end with }, got '{1 1'. Check"),
        ("{1 1}\n1,0,0,0", "line 8: all rows must be of one kind.*, got '1,0,0,0'"),
        ("1,0,0,0\n{1 1}", "line 8: all rows must be of one kind.*, got '{1 1}'"),
        ("1,0,0", "line 7: a row must have 4 values, one per attribute, got 3"),
        ("1,0,0,0\n1,0,0,0,0", "line 8: a row must have 4 values, one per attribute, got 5"),
        ("% nothing", "toy.arff: the data section must have a row, got none. Check"),
    ],
)
def test_bad_rows_are_reported_with_their_line(read, data, message):
    with pytest.raises(DatasetFormatError, match=message):
        read(HEADER + data + "\n")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("", "toy.arff: an ARFF file must have an @data line"),
        ("hello\n@data\n", "line 1: a header line must start with @relation, .* got 'hello'"),
        ("@attribute a\n@data\n", "line 1: an attribute must be declared as @attribute name type, got 'a'"),
        ("@attribute areal\n@data\n", "line 1: an attribute must be declared"),
        ("@attribute\n@data\n", "line 1: an attribute must be declared as @attribute name type, got ''"),
        ("%\n@attribute 'a numeric\n@data\n", "line 2: an attribute must be declared"),
        ("@attribute a string\n@data\n", "attribute 'a' must be numeric or nominal, got 'string'. String"),
        ("@attribute a date 'yyyy'\n@data\n", "line 1: attribute 'a' must be numeric or nominal, got"),
        ("@attribute a relational\n@data\n", "line 1: attribute 'a' must be numeric or nominal, got"),
        ("@attribute a {x,y\n@data\n", "line 1: attribute 'a' must declare its values as .*got '{x,y'"),
        ("@attribute a {}\n@data\n", "line 1: attribute 'a' must declare its values as {first,second"),
        ("@attribute a {x,,y}\n@data\n", "line 1: attribute 'a' must declare its values as"),
        ("@attribute a {x,?}\n@data\n", "line 1: attribute 'a' must declare its values as"),
        ("@attribute a {x,'y}\n@data\n", "line 1: attribute 'a' must declare its values as"),
        ("@attribute a {x,y,'x'}\n@data\n", "line 1: attribute 'a' must declare each value once, got 'x'"),
        (b"@attribute a {x,\xfa}\n@data\n", "line 1: names and values must be UTF-8 text"),
        (
            "@attribute a real\n@attribute 'a' real\n@data\n",
            "line 2: attribute names must be unique, got 'a'",
        ),
        (b"@attribute m\xfasica real\n@data\n", "line 1: names and values must be UTF-8 text"),
        ("@attribute p {0,1}\n@data\n", "toy.xml: each label must be an attribute .* got 'q'. 1 of 2"),
        (
            "@attribute p {0,1}\n@attribute q {0,1}\n@data\n",
            "toy.xml: some attribute of .* must be a feature",
        ),
        (HEADER.replace("q {0,1}", "q {1,0}") + "{1 1}\n", "line 5: 'q' must declare 0 first.*got '.1,0.'"),
    ],
)
def test_bad_headers_are_reported(read, header, message):
    with pytest.raises(DatasetFormatError, match=message):
        read(header)


BOMB = '<!DOCTYPE labels [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>\n<labels><label name="&b;"/></labels>'


@pytest.mark.parametrize(
    ("xml", "message"),
    [
        (BOMB, "toy.xml, line 1: a label file must not declare a document type or entities"),
        (BOMB.encode("utf-16"), "must not declare a document type or entities, got '<!DOCTYPE labels'"),
        ('<!DOCTYPE labels SYSTEM "labels.dtd">\n<labels/>', "must not declare a document type"),
        (
            '<labels>\n<label name="p">',
            "line 2: the label file must be well-formed XML, got 'no element found",
        ),
        ('<labels>\n<label name="&x;"/></labels>', "line 2: the label file must be well-formed XML"),
        ("<labels></labels>", "toy.xml: the label file must name at least one label"),
        ("<labels><label/></labels>", "line 1: each <label> must have a name"),
        (
            '<labels><label name="p"/>\n<label name="p"/></labels>',
            "line 2: each label must be listed once, got 'p'",
        ),
        ("<html></html>", "line 1: a <labels> element must stand here, got '<html>'"),
        ("<labels><tag/></labels>", "line 1: a <label> element must stand here, got '<tag>'"),
        ('<?xml version="1.0" encoding="utf-7"?><labels/>', "toy.xml: the label file must be UTF-8 text"),
    ],
)
def test_bad_label_files_are_reported(read, xml, message):
    with pytest.raises(DatasetFormatError, match=message):
        read(HEADER + "{1 1}\n", xml)


@pytest.mark.parametrize("kind", ["x SYSTEM", "% x SYSTEM", 'x PUBLIC "-//x"'])
def test_external_entities_are_not_opened(read, tmp_path, kind):
    (tmp_path / "secret.txt").write_text("<label name='leaked secret'/>")
    entity = f'<!DOCTYPE labels [<!ENTITY {kind} "{(tmp_path / "secret.txt").as_uri()}">]>'
    with pytest.raises(DatasetFormatError, match="must not declare a document type") as caught:
        read(HEADER + "{1 1}\n", entity + "<labels>&x;</labels>")
    assert "leaked" not in str(caught.value)


def test_missing_files_stay_file_not_found_errors(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_arff(tmp_path / "no.arff", tmp_path / "no.xml")


@pytest.mark.parametrize(("suffix", "compress"), [(".gz", gzip.compress), (".bz2", bz2.compress)])
def test_compressed_files(tmp_path, suffix, compress):
    path = tmp_path / f"toy.arff{suffix}"
    whole = compress((HEADER + "{0 2.5,1 1}\n{3 1}\n").encode())
    path.write_bytes(whole)
    dataset = read_arff(path, labels=["p", "q"])
    assert dataset.name == "toy"
    assert_array_equal(dataset.X.toarray(), [[2.5, 0], [0, 0]])
    for damaged in (whole[:-9], whole[:30] + b"\xff\xff" + whole[32:], b"@data"):
        path.write_bytes(damaged)
        with pytest.raises(DatasetFormatError, match=f"{path.name}: compressed data must be whole"):
            read_arff(path, labels=["p", "q"])


def test_error_survives_pickling():
    # joblib sends errors of its workers through pickle.
    error = DatasetFormatError.at("f.arff", 3, "a rule", "x" * 200, "A remedy.")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is DatasetFormatError
    assert str(copy) == str(error)
    assert len(str(error)) < 150


# Real files against independent readers.


def naive_sparse_rows(path):
    """Read a sparse ARFF file the slow way: column, value pairs of each row."""
    lines = path.read_text().splitlines()
    rows = [line.strip()[1:-1] for line in lines[lines.index("@data") + 1 :]]
    return [[(int(i), float(v)) for i, v in (entry.split() for entry in row.split(","))] for row in rows]


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["bibtex", "corel5k", "delicious", "enron"])
def test_real_sparse_file_equals_a_naive_reader(mulan, mulan_home, name):
    # In these files all features come before all labels.
    path = mulan_home / name / mulan_entries()[name].test.name
    rows = naive_sparse_rows(path)
    X, Y = mulan(name).test
    assert X.shape[0] == len(rows)
    both = sparse.hstack([X, Y], format="csr")
    triples = [(row, column, value) for row, entries in enumerate(rows) for column, value in entries]
    row, column, value = (np.array(part) for part in zip(*triples, strict=True))
    expected = sparse.csr_array((value, (row, column)), shape=both.shape)
    assert (both != expected).nnz == 0


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["emotions", "yeast"])
def test_real_dense_file_equals_scipy(mulan, mulan_home, name):
    records, _ = loadarff(mulan_home / name / mulan_entries()[name].train.name)
    X, Y = mulan(name).train
    assert_array_equal(np.hstack([X, Y]), np.array([list(map(float, record)) for record in records]))
