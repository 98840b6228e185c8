"""Writer of multi-label ARFF files, for MEKA, Mulan and `read_arff`."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import chain, pairwise
from pathlib import Path
from xml.sax.saxutils import quoteattr

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml._files import atomic_file
from lrml._shown import shown
from lrml.datasets._formats import label_file_of
from lrml.datasets._lines import LONGEST_LINE, compressor, is_unicode
from lrml.datasets._record import MultiLabelDataset, check_dataset, check_has_features
from lrml.datasets.arff._header import quote

_BLOCK_CELLS = 1 << 18  # so much of a dense matrix, and
_BLOCK_ROWS = 1 << 10  # so much of a sparse one, is converted to text at a time
# What XML 1.0 does not allow, not even as a character reference.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_arff(
    dataset: MultiLabelDataset, path: str | os.PathLike[str], xml: str | os.PathLike[str] | None = None
) -> None:
    r"""Write a dataset to an ARFF file, and its label names to an XML file, as :func:`read_arff` reads them.

    Parameters
    ----------
    dataset : MultiLabelDataset
        The dataset.
    path : path-like
        The ARFF file. It is compressed if its suffix is ``.gz``, ``.bz2`` or ``.xz``.
    xml : path-like, default=None
        Mulan's XML file; None takes the name of the ARFF file with the suffix ``.xml``.

    Raises
    ------
    ValueError
        If a name cannot be written. Nothing is written then.
    OutputError
        If a file cannot be written. Both files are written under temporary names and then renamed, so that
        neither is ever there in part.

    See Also
    --------
    lrml.datasets.read_arff : The way back.

    Notes
    -----
    Features come first, as numeric attributes, then the labels, as ``{0,1}``. The relation is in the manner
    of MEKA, ``'name: -C -14 -split-number 1500'``: the ARFF file alone gives the dataset back, with its name
    and its split. Numbers are written such that they are read back bit for bit.

    Rows are sparse if `X` is, and dense otherwise. An ARFF file has only one storage, so that `Y` is read
    back in the storage of `X`, as uint8. Zeros that a sparse matrix stores are not written. The provenance
    is not kept.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from lrml.datasets import load_yeast, read_arff
    >>> from lrml.datasets import write_arff
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "copy.arff")
    ...     write_arff(load_yeast(), path)
    ...     print(path.read_text().partition("\n")[0])
    ...     read_arff(path)
    @relation 'yeast: -C -14 -split-number 1500'
    <MultiLabelDataset yeast: X (2417, 103) dense, Y (2417, 14) dense, train 1500 / test 917>
    """
    check_dataset(dataset)
    check_has_features(dataset)
    arff = Path(path)
    label_file = label_file_of(arff) if xml is None else Path(xml)
    if arff.resolve() == label_file.resolve():
        raise ValueError(
            f"the ARFF and the XML file must be two files, got {os.fspath(arff)!r} for both. "
            "Choose another name for one of them."
        )
    _check_names(dataset)
    X = dataset.X
    rows = _sparse_rows(dataset, X) if isinstance(X, sparse.csr_array) else _dense_rows(dataset, X)
    # Both files are complete before the first is moved into place: the ARFF file, which needs no other.
    with atomic_file(label_file) as xml_stream, atomic_file(arff) as arff_stream:
        with compressor(arff, arff_stream) as stream:
            for line in chain(_header(dataset), rows):
                stream.write(_encode(line))
        for line in _label_list(dataset):
            xml_stream.write(_encode(line))
        xml_stream.flush()


def _check_names(dataset: MultiLabelDataset) -> None:
    """Refuse what the files cannot hold, before anything is written."""
    texts = {"feature": dataset.feature_names, "label": dataset.label_names, "dataset": [dataset.name]}
    for kind, names in texts.items():
        wrong = next((name for name in names if not is_unicode(name)), None)
        if wrong is not None:
            raise ValueError(
                f"a {kind} name must be text that UTF-8 can hold, got {shown(wrong)}. Rename the {kind}."
            )
    for label in dataset.label_names:
        if not label or _NOT_XML.search(label):
            raise ValueError(
                f"a label name must be text that XML can hold, got {shown(label)}. Rename the label, "
                "without control characters."
            )
    labels = set(dataset.label_names)
    both = next((name for name in dataset.feature_names if name in labels), None)
    if both is not None:
        raise ValueError(
            f"features and labels of an ARFF file must have different names, got {shown(both)} for both. "
            "Rename one of them."
        )


def _encode(line: str) -> bytes:
    raw = line.encode("utf-8") + b"\n"
    if len(raw) > LONGEST_LINE:
        raise ValueError(
            f"a line of an ARFF file must not be longer than {LONGEST_LINE} bytes, got {len(raw)} for "
            f"{line[:40]!r}... Write fewer columns."
        )
    return raw


def _header(dataset: MultiLabelDataset) -> Iterator[str]:
    split = "" if dataset.n_train is None else f" -split-number {dataset.n_train}"
    yield f"@relation {quote(f'{dataset.name}: -C -{len(dataset.label_names)}{split}')}"
    yield ""
    for name in dataset.feature_names:
        yield f"@attribute {quote(name)} numeric"
    for name in dataset.label_names:
        yield f"@attribute {quote(name)} {{0,1}}"
    yield ""
    yield "@data"


def _dense_rows(dataset: MultiLabelDataset, X: NDArray[np.float64]) -> Iterator[str]:
    n, d, n_labels = dataset.shape
    for rows in _blocks(n, max(1, _BLOCK_CELLS // (d + n_labels))):
        labels = _labels(dataset, rows).toarray()
        for features, row in zip(X[rows].tolist(), labels.tolist(), strict=True):
            yield ",".join(map(_number, chain(features, row)))


def _sparse_rows(dataset: MultiLabelDataset, X: sparse.csr_array) -> Iterator[str]:
    n, d, _ = dataset.shape
    for rows in _blocks(n, _BLOCK_ROWS):
        labels = _labels(dataset, rows)
        for features, row in zip(_entries(X[rows], 0), _entries(labels, d), strict=True):
            yield "{" + ",".join(features + row) + "}"


def _blocks(n: int, height: int) -> Iterator[slice]:
    return (slice(start, start + height) for start in range(0, n, height))


def _labels(dataset: MultiLabelDataset, rows: slice) -> sparse.csr_array:
    """Return some rows of Y as floats, with NaN where labels are unknown."""
    labels = sparse.csr_array(dataset.Y[rows]).astype(np.float64)
    if dataset.unknown is not None:
        marks = dataset.unknown[rows].astype(np.float64)
        marks.data[marks.data != 0] = np.nan
        labels = labels + marks
    labels.sort_indices()
    return labels


def _entries(matrix: sparse.csr_array, offset: int) -> Iterator[list[str]]:
    """Yield the entries of each row as text, in ascending order as the format asks for."""
    for start, stop in pairwise(matrix.indptr.tolist()):
        cells = zip(matrix.indices[start:stop].tolist(), matrix.data[start:stop].tolist(), strict=True)
        yield [f"{offset + column} {_number(value)}" for column, value in cells if value != 0]


def _number(value: float) -> str:
    """Write a number such that it is read back exactly; whole ones without a point."""
    text = repr(value)
    return "?" if text == "nan" else text.removesuffix(".0")


def _label_list(dataset: MultiLabelDataset) -> Iterator[str]:
    yield '<?xml version="1.0" encoding="utf-8"?>'
    yield '<labels xmlns="http://mulan.sourceforge.net/labels">'
    for name in dataset.label_names:
        yield f"<label name={quoteattr(name)}></label>"
    yield "</labels>"
