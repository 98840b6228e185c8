"""What write_arff writes comes back, through read_arff and through scipy."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from scipy import sparse
from scipy.io.arff import loadarff

from lrml.datasets import MultiLabelDataset, NumberedNames, load_yeast, read_arff, write_arff
from lrml.datasets.arff import _writer as writer

# Names: anything that UTF-8, and for labels XML 1.0, can hold, with a bias to what has a meaning in ARFF.
_ODD = st.text("'\"\\{}%?,@: \t\n\r=nru\x85\u2028é&<>;#", min_size=1, max_size=5)
_XML_TEXT = st.characters(codec="utf-8", exclude_categories=["Cc"], exclude_characters="\ufffe\uffff")
_LABEL_NAMES = _ODD | st.text(_XML_TEXT, min_size=1, max_size=5)
_FEATURE_NAMES = st.just("") | _ODD | st.text(st.characters(codec="utf-8"), max_size=5)
_FLOATS = st.floats(allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.0, 0.1, 5e-324, 1e22, np.nan])


@st.composite
def datasets(draw):
    n, d, n_labels = (draw(st.integers(1, 4)) for _ in range(3))
    labels = draw(st.lists(_LABEL_NAMES, min_size=n_labels, max_size=n_labels, unique=True))
    others = _FEATURE_NAMES.filter(lambda name: name not in labels)
    X = draw(arrays(np.float64, (n, d), elements=_FLOATS))
    unknown = draw(arrays(np.bool_, (n, n_labels)))
    Y = draw(arrays(np.uint8, (n, n_labels), elements=st.integers(0, 1))) * ~unknown
    is_sparse = draw(st.booleans())
    return MultiLabelDataset(
        name=draw(_FEATURE_NAMES),
        X=sparse.csr_array(X) if is_sparse else X,
        Y=sparse.csr_array(Y) if is_sparse else Y,
        feature_names=draw(st.lists(others, min_size=d, max_size=d, unique=True)),
        label_names=labels,
        n_train=draw(st.none() | st.integers(1, n - 1)) if n > 1 else None,
        unknown=sparse.csr_array(unknown) if unknown.any() else None,
    )


def assert_same(found, expected):
    """Bit for bit, and in the same storage."""
    for matrix, other in ((found.X, expected.X), (found.Y, expected.Y)):
        assert sparse.issparse(matrix) == sparse.issparse(other)
        assert matrix.dtype == other.dtype
        pair = [m.toarray() if sparse.issparse(m) else m for m in (matrix, other)]
        assert_array_equal(*pair)
        if not sparse.issparse(matrix):
            numbers = ~np.isnan(pair[0])
            assert_array_equal(np.signbit(pair[0][numbers]), np.signbit(pair[1][numbers]))
    if expected.unknown is None:
        assert found.unknown is None
    else:
        assert_array_equal(found.unknown.toarray(), expected.unknown.toarray())
    assert tuple(found.feature_names) == tuple(expected.feature_names)
    assert tuple(found.label_names) == tuple(expected.label_names)
    assert (found.n_train, found.name) == (expected.n_train, expected.name)


@settings(max_examples=125, deadline=None)
@given(datasets(), st.sampled_from(["d.arff", "d.arff.gz", "d.arff.xz"]), st.sampled_from([1, 1 << 10]))
def test_round_trip_loses_nothing(tmp_path_factory, dataset, name, block):
    folder = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "_BLOCK_CELLS", block)
        patch.setattr(writer, "_BLOCK_ROWS", block)
        write_arff(dataset, folder / name)
    assert_same(read_arff(folder / name), dataset)
    assert_same(read_arff(folder / name, folder / "d.xml", label_order="xml", name=dataset.name), dataset)


@settings(max_examples=50, deadline=None)
@given(arrays(np.float64, (3, 4), elements=_FLOATS), arrays(np.uint8, (3, 2), elements=st.integers(0, 1)))
def test_scipy_reads_the_same_numbers(tmp_path_factory, X, Y):
    path = tmp_path_factory.getbasetemp() / "s.arff"
    write_arff(MultiLabelDataset("two words", X, Y, ["a", "b b", "c.1", "%d"], ["p", "q r"]), path)
    records, meta = loadarff(path)
    assert meta.names() == ["a", "b b", "c.1", "%d", "p", "q r"]
    rows = np.array([list(map(float, record)) for record in records])
    assert_array_equal(rows, np.hstack([X, Y]))
    assert_array_equal(np.signbit(rows[:, :4][~np.isnan(X)]), np.signbit(X[~np.isnan(X)]))


def test_text_of_a_small_dataset(tmp_path):
    dataset = MultiLabelDataset(
        name="Music",
        X=sparse.csr_array([[0.1, 0, 2], [0, 0, np.nan], [0, 0, 0]]),
        Y=sparse.csr_array(np.array([[0, 1], [1, 0], [0, 0]], dtype=np.uint8)),
        feature_names=["size", "it's", "a b"],
        label_names=["rock & roll", "calm"],
        n_train=2,
        unknown=sparse.csr_array([[True, False], [False, False], [False, False]]),
    )
    write_arff(dataset, tmp_path / "m.arff", tmp_path / "labels.xml")
    assert (tmp_path / "m.arff").read_text() == (
        "@relation 'Music: -C -2 -split-number 2'\n\n@attribute size numeric\n@attribute \"it's\" numeric\n"
        "@attribute 'a b' numeric\n@attribute 'rock & roll' {0,1}\n@attribute calm {0,1}\n\n@data\n"
        "{0 0.1,2 2,3 ?,4 1}\n{2 ?,3 1}\n{}\n"
    )
    root = ElementTree.parse(tmp_path / "labels.xml").getroot()
    assert [label.get("name") for label in root] == ["rock & roll", "calm"]
    assert {label.tag for label in root} == {"{http://mulan.sourceforge.net/labels}label"}
    assert sorted(os.listdir(tmp_path)) == ["labels.xml", "m.arff"]


def test_real_dense_dataset(tmp_path):
    yeast = load_yeast()
    write_arff(yeast, tmp_path / "y.arff")
    found = read_arff(tmp_path / "y.arff")
    assert found.X.tobytes() == yeast.X.tobytes()
    assert_same(found, replace(yeast, Y=yeast.Y.astype(np.uint8)))


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["delicious", "enron"])
def test_real_sparse_dataset(mulan, tmp_path, name):
    dataset = mulan(name)
    write_arff(dataset, tmp_path / "copy.arff")
    for found in (
        read_arff(tmp_path / "copy.arff"),
        read_arff(tmp_path / "copy.arff", tmp_path / "copy.xml"),
    ):
        assert (found.X != dataset.X).nnz == (found.Y != dataset.Y).nnz == 0
        assert (found.label_names, found.n_train) == (dataset.label_names, dataset.n_train)


@pytest.mark.parametrize("x_is_sparse", [True, False])
def test_mixed_storage_follows_the_features(tmp_path, x_is_sparse):
    X, Y = np.array([[1.5, 0], [0, 2]]), np.array([[1], [0]], dtype=np.int8)
    dataset = MultiLabelDataset(
        "mixed",
        sparse.csr_array(X) if x_is_sparse else X,
        Y if x_is_sparse else sparse.csr_array(Y),
        NumberedNames("x", 2),
        NumberedNames("y", 1),
        unknown=sparse.csr_array([[False], [True]]),
    )
    write_arff(dataset, tmp_path / "m.arff")
    found = read_arff(tmp_path / "m.arff")
    expected = (sparse.csr_array(X), sparse.csr_array(Y)) if x_is_sparse else (X, Y)
    assert_same(found, replace(dataset, X=expected[0], Y=expected[1].astype(np.uint8)))


def test_stored_zeros_and_unmarked_labels_do_not_matter(tmp_path):
    X = sparse.csr_array((np.array([0.0, 3.0]), ([0, 0], [0, 1])), shape=(1, 2))
    unknown = sparse.csr_array((np.array([False]), ([0], [0])), shape=(1, 1))
    dataset = MultiLabelDataset(
        "z", X, sparse.csr_array(np.ones((1, 1), np.uint8)), "ab", "l", unknown=unknown
    )
    write_arff(dataset, tmp_path / "z.arff")
    assert (tmp_path / "z.arff").read_text().endswith("@data\n{1 3,2 1}\n")
    found = read_arff(tmp_path / "z.arff")
    assert found.unknown is None
    assert_array_equal(found.X.toarray(), [[0, 3]])
    assert_array_equal(found.Y.toarray(), [[1]])


def test_the_same_dataset_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write_arff(load_yeast(), tmp_path / name / "y.arff.gz")
    assert (tmp_path / "a/y.arff.gz").read_bytes() == (tmp_path / "b/y.arff.gz").read_bytes()
    assert sorted(os.listdir(tmp_path / "a")) == ["y.arff.gz", "y.xml"]


TOY = MultiLabelDataset("toy", np.eye(2), np.eye(2, dtype=np.uint8), ["a", "b"], ["p", "q"])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"label_names": ["p", "q\x00"]}, r"a label name must be text that XML can hold, got 'q\\x00'"),
        ({"label_names": ["p", "q\x0b"]}, r"a label name must be text that XML can hold, got 'q\\x0b'"),
        ({"label_names": ["p", "\ufffe"]}, r"a label name must be text that XML can hold, got '\\ufffe'"),
        ({"label_names": ["p", ""]}, "a label name must be text that XML can hold, got ''"),
        ({"label_names": ["p", "\ud800"]}, r"a label name must be text that UTF-8 can hold, got '\\ud800'"),
        ({"feature_names": ["a", "\udfff"]}, r"a feature name must be text that UTF-8 can hold, got"),
        ({"name": "\ud800"}, r"a dataset name must be text that UTF-8 can hold, got '\\ud800'"),
        ({"feature_names": ["a", "q"]}, "features and labels .* must have different names, got 'q' for both"),
    ],
)
def test_names_that_cannot_be_written(tmp_path, change, message):
    with pytest.raises(ValueError, match=message):
        write_arff(replace(TOY, **change), tmp_path / "t.arff")
    assert not os.listdir(tmp_path)


def test_one_file_for_both(tmp_path):
    with pytest.raises(ValueError, match=r"must be two files, got '.*t.xml' for both"):
        write_arff(TOY, tmp_path / "t.xml")
    with pytest.raises(ValueError, match="must be two files"):
        write_arff(TOY, tmp_path / "t.arff", tmp_path / "x" / ".." / "t.arff")
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("name", ["arff", "xml"])
def test_error_names_the_file_that_cannot_be_written(tmp_path, name):
    places = {"arff": tmp_path / "t.arff", "xml": tmp_path / "t.xml"} | {name: tmp_path / "no" / "file"}
    with pytest.raises(OSError, match=r"must be written to '.*no/file', got an error \(No such file"):
        write_arff(TOY, places["arff"], places["xml"])
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("part", ["_dense_rows", "_label_list"])
def test_a_failure_on_the_way_leaves_both_old_files(tmp_path, monkeypatch, part):
    for name in ("t.arff", "t.xml"):
        (tmp_path / name).write_text("old")

    def fail(*_):
        yield "x" * 100_000
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, part, fail)
    with pytest.raises(OSError, match="No space left on device"):
        write_arff(TOY, tmp_path / "t.arff")
    assert {path: Path(tmp_path, path).read_text() for path in os.listdir(tmp_path)} == {
        "t.arff": "old",
        "t.xml": "old",
    }


def test_lines_too_long_to_be_read_back(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "LONGEST_LINE", 30)
    with pytest.raises(ValueError, match=r"must not be longer than 30 bytes, got .* Write fewer columns"):
        write_arff(replace(TOY, feature_names=["a", "b" * 30]), tmp_path / "t.arff")
    assert not os.listdir(tmp_path)
