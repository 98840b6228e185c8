"""Properties of the ARFF reader that hold for all inputs."""

from __future__ import annotations

import gzip
import re
from xml.sax.saxutils import quoteattr

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from scipy import sparse

from lrml.datasets import DatasetFormatError, read_arff

# Round trip: what a writer wrote comes back, whatever the layout and the size of the chunks.

_NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), min_size=1, max_size=6)
_FLOATS = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, 1.0, 0.5])


@st.composite
def datasets(draw):
    n, d, n_labels = (draw(st.integers(1, 5)) for _ in range(3))
    names = draw(st.lists(_NAMES, min_size=d + n_labels, max_size=d + n_labels, unique=True))
    values = draw(arrays(np.float64, (n, d), elements=_FLOATS))
    if draw(st.booleans()):  # only ones, which the reader treats separately
        values = (values > 0).astype(np.float64)
    labels = draw(arrays(np.uint8, (n, n_labels), elements=st.integers(0, 1)))
    order = draw(st.permutations(range(d + n_labels)))
    return names[:d], names[d:], values, labels, order


def quote(name):
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def write_arff(dataset, is_sparse):
    feature_names, label_names, X, Y, order = dataset
    names, columns = [*feature_names, *label_names], np.hstack([X, Y])
    d = X.shape[1]
    lines = [f"@attribute {quote(names[j])} {'numeric' if j < d else '{0,1}'}" for j in order]
    lines.append("@data")
    for row in columns[:, order].tolist():
        texts = [str(int(value)) if value in (0, 1) else repr(value) for value in row]
        if is_sparse:
            entries = [f"{index} {text}" for index, text in enumerate(texts) if text != "0"]
            lines.append("{" + ",".join(entries) + "}")
        else:
            lines.append(",".join(texts))
    return "\n".join(lines)


def write_xml(label_names):
    return "<labels>" + "".join(f"<label name={quoteattr(name)}/>" for name in label_names) + "</labels>"


@settings(max_examples=75, deadline=None)
@given(datasets(), st.booleans(), st.sampled_from([1, 40, 1 << 20]))
def test_round_trip(tmp_path_factory, limits, dataset, is_sparse, chunk_bytes):
    feature_names, label_names, X, Y, order = dataset
    folder = tmp_path_factory.mktemp("arff")
    (folder / "d.arff").write_text(write_arff(dataset, is_sparse), "utf-8", newline="\n")
    (folder / "d.xml").write_text(write_xml(label_names), "utf-8")
    with limits(_CHUNK_BYTES=chunk_bytes):
        found = read_arff(folder / "d.arff", folder / "d.xml")
    d = X.shape[1]
    features, labels = [j for j in order if j < d], [j - d for j in order if j >= d]
    assert found.feature_names == tuple(feature_names[j] for j in features)
    assert found.label_names == tuple(label_names[j] for j in labels)
    for matrix, expected in ((found.X, X[:, features]), (found.Y, Y[:, labels])):
        assert isinstance(matrix, sparse.csr_array if is_sparse else np.ndarray)
        assert_array_equal(matrix.toarray() if is_sparse else matrix, expected)


# Nominal attributes: any values, dense or sparse, against a comparison of strings.

_VALUES = st.text("ab'\"\\{}%?, \té01", min_size=1, max_size=4)


@st.composite
def nominal_tables(draw):
    domains = draw(st.lists(st.lists(_VALUES, min_size=1, max_size=4, unique=True), min_size=1, max_size=4))
    domains = [domain for domain in domains if not {"0", "1"}.issuperset(domain)]
    rows = [
        [draw(st.none() | st.sampled_from(domain)) for domain in domains]
        for _ in range(draw(st.integers(1, 4)))
    ]
    return domains, rows


@settings(max_examples=75, deadline=None)
@given(nominal_tables(), st.booleans())
def test_nominal_attributes(tmp_path_factory, table, is_sparse):
    domains, rows = table
    lines = [f"@attribute {j} {{{', '.join(map(quote, domain))}}}" for j, domain in enumerate(domains)]
    lines += ["@attribute n numeric", "@attribute l {0,1}", "@data"]
    for row in rows:
        words = ["?" if value is None else quote(value) for value in row]
        if is_sparse:
            cells = [
                f"{j} {word}" for j, word in enumerate(words) if row[j] is None or row[j] != domains[j][0]
            ]
            lines.append("{" + ", ".join([*cells, f"{len(row)} 2.5"]) + "}")
        else:
            lines.append(", ".join([*words, "2.5", "0"]))
    path = tmp_path_factory.getbasetemp() / "n.arff"
    path.write_text("\n".join(lines), "utf-8", newline="\n")
    found = read_arff(path, labels=-1)
    names = [f"{j}={value}" for j, domain in enumerate(domains) for value in domain[1:]]
    expected = [
        [
            np.nan if row[j] is None else float(row[j] == value)
            for j, domain in enumerate(domains)
            for value in domain[1:]
        ]
        for row in rows
    ]
    assert found.feature_names == (*names, "n")
    X = found.X.toarray() if is_sparse else found.X
    assert_array_equal(X, [[*row, 2.5] for row in expected])


# Whatever the bytes, the answer is a dataset or a DatasetFormatError that names the file.

_PIECES = [b"\n", b"\r", b"\x0b", b"\x1c", b"\x00", b"\xff", b"\xc2\xa0", b"9" * 400, b"@attribute c "]
_PIECES += [
    b"@relation 'm: -C -2'",
    b"@attribute v {x,'y z'}",
    b" -split-number ",
    b" -split-percentage ",
    b": -",
]
_PIECES += rb"""{ } , ' " \ ? '?' % _ # -1 1e999 nan numeric {0,1} {a} {no,yes} @data yes -C x=y""".split()
_HEADER = "@attribute a numeric\n@attribute p {0,1}\n@attribute b {0,1}\n@attribute q {0,1}\n@data\n"
_WORDS = (
    "@relation 'm: -C -2 -split-number 1'\n@attribute a numeric\n@attribute v {x,'y z',\"it's, w\"}\n"
    "@attribute q {no,yes}\n@attribute p {0,1}\n@data\n"
)
_LABELS = b'<labels><label name="q"/><label name="p"/></labels>'
_DATA = {
    "sparse": (_HEADER + "{0 2.5,1 1}\n{3 1}\n").encode(),
    "ones": (_HEADER + "{0 1,1 1}\n{3 1}\n").encode(),
    "dense": (_HEADER + "2.5,1,0,0\n1,0,0,1\n").encode(),
    "sparse missing": (_HEADER + "{0 ?,1 1}\n{2 ?,3 ?}\n").encode(),
    "dense missing": (_HEADER + "?,1,0,0\n1,?,?,1\n").encode(),
    "sparse words": (_WORDS + "{1 'y z',2 yes}\n{0 ?,1 ?,3 ?}\n{1 \"it's, w\"}\n").encode(),
    "dense words": (_WORDS + "1,x,no,0\n?,'y z',?,1\n2,\"it's, w\",yes,?\n").encode(),
}


@st.composite
def damaged(draw, content):
    """Replace some stretches of bytes."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        stop = start + draw(st.integers(0, 4))
        content = content[:start] + draw(st.sampled_from(_PIECES) | st.binary(max_size=4)) + content[stop:]
    return content


def read_or_reject(folder, arff, xml, name="f.arff"):
    """Read the files; a rejection must name one of them, and a line that it has."""
    (folder / name).write_bytes(arff)
    if xml is not None:
        (folder / "f.xml").write_bytes(xml)
    rejection = None
    try:
        dataset = read_arff(folder / name, None if xml is None else folder / "f.xml")
    except DatasetFormatError as error:
        rejection = str(error)
    if rejection is None:
        # All that is NaN, or unknown, comes from a question mark.
        missing = np.isnan(sparse.csr_array(dataset.X).data).any() or dataset.unknown is not None
        assert b"?" in arff or name.endswith(".gz") or not missing
        return
    place = re.match(rf"{re.escape(str(folder))}/(f\S*?)(?:, line (\d+))?: ", rejection)
    assert place is not None, rejection
    assert place[1] in (name, "f.xml")
    if place[2] is not None and place[1] == "f.arff":
        assert 1 <= int(place[2]) <= arff.count(b"\n") + 1


_ANY_ARFF = st.sampled_from(sorted(_DATA)).flatmap(lambda kind: damaged(_DATA[kind])) | st.binary(max_size=60)


@settings(max_examples=250, deadline=None)
@given(_ANY_ARFF, st.booleans())
def test_any_bytes_as_arff(tmp_path_factory, content, with_xml):
    read_or_reject(tmp_path_factory.getbasetemp(), content, _LABELS if with_xml else None)


@settings(max_examples=50, deadline=None)
@given(damaged(gzip.compress(_DATA["dense words"], mtime=0)))
def test_any_bytes_as_compressed_arff(tmp_path_factory, content):
    read_or_reject(tmp_path_factory.getbasetemp(), content, None, "f.arff.gz")


@settings(max_examples=100, deadline=None)
@given(damaged(_LABELS) | st.binary(max_size=60))
def test_any_bytes_as_xml(tmp_path_factory, content):
    read_or_reject(tmp_path_factory.getbasetemp(), _DATA["ones"], content)


@pytest.mark.parametrize("kind", sorted(_DATA))
def test_undamaged_files_are_read(tmp_path, kind):
    # Otherwise the tests above would only see rejections.
    (tmp_path / "f.arff").write_bytes(_DATA[kind])
    (tmp_path / "f.xml").write_bytes(_LABELS)
    assert read_arff(tmp_path / "f.arff", tmp_path / "f.xml").shape[2] == 2
