"""Properties of the XMC and svmlight readers and writers that hold for all inputs."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from lrml.datasets import (
    DatasetFormatError,
    MultiLabelDataset,
    NumberedNames,
    read_svmlight,
    read_xmc,
    write_svmlight,
    write_xmc,
)

FORMATS = {
    "xmc": (write_xmc, read_xmc),
    "from 1": (write_svmlight, read_svmlight),
    "from 0": (partial(write_svmlight, zero_based=True), read_svmlight),
}

# Numbers: Python's float is the oracle, which rounds correctly.

_DECIMALS = st.from_regex(r"-?([0-9]{1,25}(\.[0-9]{0,25})?|\.[0-9]{1,25})(e[-+]?[0-9]{1,3})?", fullmatch=True)


@settings(max_examples=150, deadline=None)
@given(st.lists(_DECIMALS | st.floats().map(abs).map(repr).filter("inf".__ne__), min_size=1, max_size=6))
def test_numbers_are_rounded_correctly(tmp_path_factory, texts):
    texts = [text for text in texts if not np.isinf(float(text))]
    path = tmp_path_factory.getbasetemp() / "numbers.svm"
    path.write_text("".join(f"0 1:1 2:{text}\n" for text in ["1", *texts]))
    found = read_svmlight(path).X[1:].toarray()[:, 1]
    expected = [float(text) + 0.0 for text in texts]  # a written zero, of either sign, is not stored
    assert found.tobytes() == np.array(expected).tobytes()


# Rows in the usual form are converted all at once. Beside a row with a tabulator they are checked one by one.

_USUAL = st.lists(
    st.tuples(
        st.lists(st.integers(0, 9).map(str), max_size=3, unique=True).map(",".join),
        st.sampled_from([" ", " ", "", "  "]),
        st.lists(
            st.tuples(st.integers(0, 9), st.from_regex(r"-?[0-9]{1,3}(\.[0-9]{1,24})?", fullmatch=True)),
            max_size=3,
        ).map(lambda pairs: " ".join(f"{index}:{value}" for index, value in pairs)),
    ).map("".join),
    max_size=4,
).map("\n".join)
_NEARLY_USUAL = st.builds(
    lambda text, place, mark: text[:place] + mark + text[place:],
    *(_USUAL, st.integers(0, 30), st.sampled_from([*"0:, .-\n", "", "::", "0.0"])),
)


@settings(max_examples=75, deadline=None)
@given(_NEARLY_USUAL | st.text("01:, .\n", max_size=12))
def test_rows_in_usual_form_are_read_like_others(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "usual.xmc"
    found = []
    for extra in ("5 5:5", "5\t5:5"):
        rows = f"{text}\n{extra}\n"
        path.write_text(f"{rows.count(chr(10))} 10 10\n{rows}")
        try:
            dataset = read_xmc(path)
        except DatasetFormatError as error:
            found.append(str(error))
        else:
            found.append((dataset.X.toarray().tobytes(), dataset.Y.toarray().tobytes()))
    assert found[0] == found[1]


# Round trip: nothing is lost, whatever the format and the size of the chunks.

_TEXT = st.text(st.characters(codec="utf-8"), max_size=6)
_FLOATS = st.floats(allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.0, 0.5, 1e16, 5e-324])


@st.composite
def names(draw, count):
    if draw(st.booleans()):
        return NumberedNames(
            draw(st.sampled_from(["feature", "label", "x1", ""])), count, draw(st.integers(-1, 2))
        )
    return tuple(draw(st.lists(_TEXT, min_size=count, max_size=count, unique=True)))


@st.composite
def datasets(draw):
    n, d, n_labels = (draw(st.integers(1, 5)) for _ in range(3))
    X = draw(arrays(np.float64, (n, d), elements=_FLOATS, fill=st.just(0.0)))
    X[np.isnan(X)] = np.nan  # the payload is not kept
    Y = draw(arrays(draw(st.sampled_from([np.int8, np.uint8])), (n, n_labels), elements=st.integers(0, 1)))
    unknown = draw(st.none() | arrays(np.bool_, (n, n_labels)))
    return MultiLabelDataset(
        name=draw(_TEXT),
        X=draw(st.sampled_from([np.asarray, np.asfortranarray, sparse.csr_array]))(X),
        Y=draw(st.sampled_from([np.asarray, sparse.csr_array]))(Y),
        feature_names=draw(names(d)),
        label_names=draw(names(n_labels)),
        n_train=draw(st.none() | st.integers(1, n - 1)) if n > 1 else None,
        provenance=draw(_TEXT),
        unknown=None if unknown is None else sparse.csr_array(unknown & (Y == 0)),
    )


def assert_same_matrix(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()  # both in row order; the signs of zeros count
    elif expected is not None:
        assert found.shape == expected.shape
        for key in ("data", "indices", "indptr"):
            assert_same_matrix(getattr(found, key), getattr(expected, key))


@settings(max_examples=100, deadline=None)
@given(
    datasets(),
    st.sampled_from(sorted(FORMATS)),
    st.sampled_from([1, 40, 1 << 20]),
    st.sampled_from(["", ".gz"]),
)
def test_round_trip(tmp_path_factory, limits, dataset, kind, chunk_bytes, suffix):
    write, read = FORMATS[kind]
    path = tmp_path_factory.getbasetemp() / f"round trip{suffix}"
    write(dataset, path)
    with limits(_CHUNK_BYTES=chunk_bytes):
        found = read(path)
    for key in ("X", "Y", "unknown"):
        assert_same_matrix(getattr(found, key), getattr(dataset, key))
    for key in ("name", "feature_names", "label_names", "n_train", "provenance"):
        assert getattr(found, key) == getattr(dataset, key)


def test_round_trip_of_many_rows(tmp_path):
    """More rows than the writer and the reader take at once."""
    rng = np.random.default_rng(0)
    X = sparse.random_array((3000, 500), density=0.1, format="csr", rng=rng)
    Y = (rng.random((3000, 30)) < 0.1).astype(np.uint8)
    dataset = MultiLabelDataset("many", X, Y, NumberedNames("feature", 500), NumberedNames("label", 30))
    for write, read in FORMATS.values():
        write(dataset, tmp_path / "many")
        assert (tmp_path / "many").stat().st_size > 1 << 21
        found = read(tmp_path / "many")
        assert_same_matrix(found.X, X)
        assert_same_matrix(found.Y, Y)


def test_rows_are_sorted_whatever_their_order(tmp_path):
    rng = np.random.default_rng(0)
    lines, dense = ["50 40 20"], np.zeros((50, 60))
    for row in dense:
        labels, index = rng.permutation(20)[:5], rng.permutation(40)[:9]
        row[index], row[40 + labels] = index + 0.25, 1
        lines.append(",".join(map(str, labels)) + "".join(f" {j}:{j}.25" for j in index))
    (tmp_path / "d").write_text("\n".join(lines))
    found = read_xmc(tmp_path / "d")
    np.testing.assert_array_equal(sparse.hstack([found.X, found.Y]).toarray(), dense)
    assert found.X.has_canonical_format
    assert found.Y.has_canonical_format


# Whatever the bytes, the answer is a dataset or a DatasetFormatError that names the file.

_PIECES = [b"\n", b"\r", b"\x0b", b"\x00", b"\xff", b"\xc2\xa0", b"\xd9\xa3", b"9" * 400, b"\t", b" ", b"  "]
_PIECES += b": , # - + . e _ -1 1e999 nan inf 0x1 1_0 qid:1 2147483647 2147483648 4294967297:1".split()
_FILES = {
    "xmc": b"4 6 3\n0,2 1:0.5 4:1\n 0:2\n\n1 5:-2e-3 2:nan\n\n",
    "from 1": b"0,2 1:0.5 4:1 # note\n 2:2\n\n1 5:-2e-3 2:nan\n\n",
}
_TOY = MultiLabelDataset(
    name="toy",
    X=np.array([[0.5, -0.0, 2]]).repeat(4, 0),
    Y=sparse.csr_array(np.eye(4, 3, dtype=np.int8)),
    feature_names=("é", "", "\n"),
    label_names=NumberedNames("tag", 3, 5),
    n_train=2,
    unknown=sparse.csr_array(np.eye(4, 3, k=1, dtype=bool)),
)


@st.composite
def damaged(draw, content):
    """Replace some stretches of bytes."""
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(content)))
        stop = start + draw(st.integers(0, 4))
        content = content[:start] + draw(st.sampled_from(_PIECES) | st.binary(max_size=4)) + content[stop:]
    return content


def read_or_reject(path, kind):
    dataset, message = None, ""
    try:
        dataset = FORMATS[kind][1](path)
    except DatasetFormatError as error:
        message = str(error)
    if dataset is None:
        assert message.startswith(str(path))
    else:
        assert not np.isinf(sparse.csr_array(dataset.X).data).any()
        assert dataset.X.shape == (dataset.shape[0], len(dataset.feature_names))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(_FILES)), st.data())
def test_any_bytes_as_data(tmp_path_factory, kind, data):
    path = tmp_path_factory.getbasetemp() / "any data"
    path.write_bytes(data.draw(damaged(_FILES[kind]) | st.binary(max_size=60)))
    read_or_reject(path, kind)


@settings(max_examples=50, deadline=None)
@given(damaged(b"a\nb\nc\n") | st.binary(max_size=9))
def test_any_bytes_as_names(tmp_path_factory, content):
    folder = tmp_path_factory.getbasetemp()
    (folder / "named").write_bytes(_FILES["xmc"])
    (folder / "names").write_bytes(content)
    labels, message = (), ""
    try:
        labels = read_xmc(folder / "named", label_names=folder / "names").label_names
    except DatasetFormatError as error:
        message = str(error)
    assert len(set(labels)) == 3 or message.startswith(str(folder / "names"))


_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
_JSON = st.recursive(
    _SCALARS | st.integers(0, 5) | st.sampled_from([10**12, 2**31 - 1, "\ud800", "int8", "xmc"]),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.sampled_from(["prefix", "start"]), part),
    max_leaves=8,
)
_KEYS = ["version", "format", "name", "provenance", "shape", "entries", "dense_features", "dense_labels"]
_KEYS += ["label_dtype", "n_train", "feature_names", "label_names", "unknown", "zero_based"]


@settings(max_examples=125, deadline=None)
@given(st.sampled_from(sorted(FORMATS)), st.data())
def test_any_sidecar(tmp_path_factory, kind, data):
    path = tmp_path_factory.getbasetemp() / "with sidecar"
    FORMATS[kind][0](_TOY, path)
    sidecar = path.with_name(f"{path.name}.meta.json")
    content = sidecar.read_bytes()
    changes = data.draw(st.dictionaries(st.sampled_from(_KEYS), _JSON, min_size=1, max_size=3))
    changed = json.dumps({**json.loads(content), **changes}).encode()
    sidecar.write_bytes(data.draw(st.just(changed) | damaged(content) | st.binary(max_size=40)))
    read_or_reject(path, kind)
