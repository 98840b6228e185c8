"""The text format of the Extreme Classification repository."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Sequence

from lrml._shown import shown
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._lines import Row, chunks, numbered_lines
from lrml.datasets._pair_files import assemble, row_lines, write_files
from lrml.datasets._pairs import BLANKS, INTEGER_LABEL, MOST_COLUMNS, Limits, PairRows
from lrml.datasets._record import MultiLabelDataset, NumberedNames
from lrml.datasets._sidecar import read_sidecar, sidecar_fields
from lrml.datasets._sidecar_fields import Names

_HEADER = re.compile(rb"(\d{1,10})[ \t]+(\d{1,10})[ \t]+(\d{1,10})")


def read_xmc(
    path: str | os.PathLike[str],
    *,
    feature_names: str | os.PathLike[str] | Sequence[str] | None = None,
    label_names: str | os.PathLike[str] | Sequence[str] | None = None,
    name: str | None = None,
) -> MultiLabelDataset:
    r"""Read a dataset in the text format of the Extreme Classification repository.

    The first line is ``n d L``: the numbers of rows, features and labels. Each of the following n lines is a
    row, ``l1,l2,... index:value index:value ...``, where labels and features are counted from 0. A row
    without labels starts with a space. An empty line is a row without labels and features, but empty lines
    after the last row are ignored.

    Parameters
    ----------
    path : path-like
        The file; it is read line by line. ``.gz``, ``.bz2`` and ``.xz`` are decompressed on the way.
    feature_names, label_names : path-like or sequence of str, default=None
        The names, or a text file in UTF-8 with one name per line, such as the repository's ``Yf.txt``. None
        takes the names of the sidecar, if `write_xmc` has written one, else ``feature0``, ... and
        ``label0``, ..., which take no memory.
    name : str, default=None
        Name of the dataset; None takes that of the sidecar, or the file name without its suffix.

    Returns
    -------
    MultiLabelDataset
        The dataset, with sparse matrices unless the sidecar says otherwise. The value ``nan`` is a missing
        value. A written 0 is not stored.

    Raises
    ------
    DatasetFormatError
        If a file breaks a rule of its format, with the line, or if the sidecar does not belong to the file.

    See Also
    --------
    write_xmc : The counterpart.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from lrml.datasets import read_xmc
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "toy.txt")
    ...     _ = path.write_text("2 5 3\n0,2 1:0.5 4:1\n 0:2\n")
    ...     toy = read_xmc(path, label_names=["red", "round", "sweet"])
    >>> toy
    <MultiLabelDataset toy: X (2, 5) sparse, Y (2, 3) sparse, no split>
    >>> toy.Y.toarray()
    array([[1, 0, 1],
           [0, 0, 0]], dtype=uint8)
    """
    sidecar = read_sidecar(path, "xmc")
    digest = hashlib.sha256()
    lines = numbered_lines(path, None if sidecar is None else digest)
    n, d, n_labels = shape = _read_header(path, lines)
    if sidecar is not None:
        sidecar.check("shape", list(sidecar.shape), list(shape))
    features = _find_names("feature_names", feature_names, d)
    labels = _find_names("label_names", label_names, n_labels)
    if sidecar is not None:
        features, labels = features or sidecar.feature_names, labels or sidecar.label_names
    rows = PairRows(Limits(path, INTEGER_LABEL, first=0, features=d, labels=n_labels))
    for chunk in chunks(_data_lines(path, lines, n)):
        rows.add(chunk)
    X, Y = rows.matrices(d, n_labels, base=0)
    names = (features or NumberedNames("feature", d), labels or NumberedNames("label", n_labels))
    return assemble(path, sidecar, X, Y, names, name, digest.hexdigest())


def write_xmc(dataset: MultiLabelDataset, path: str | os.PathLike[str]) -> None:
    """Write a dataset in the text format of the Extreme Classification repository.

    Values are written with as few digits as give the same number back. What the format cannot hold (names,
    split, provenance, unknown labels, dense storage) goes to a second file, ``<path>.meta.json``, which
    `read_xmc` takes into account; other programs may ignore it. Both files are written, or none.

    Parameters
    ----------
    dataset : MultiLabelDataset
        What to write. A sparse matrix is never made dense; its explicit zeros are left out. The payload of a
        NaN is not kept.
    path : path-like
        The file; ``.gz``, ``.bz2`` and ``.xz`` are compressed.

    Raises
    ------
    ValueError
        If the format cannot hold the dataset: a dimension is 2**31 or more, a name is not valid Unicode, or
        an array of more than 128 MiB is nearly all zeros and should be sparse.
    OutputError
        If the files cannot be written.

    See Also
    --------
    read_xmc : The counterpart.
    """
    fields = sidecar_fields(dataset, "xmc", first=0)
    write_files(path, _blocks(dataset), fields)


def _blocks(dataset: MultiLabelDataset) -> Iterator[bytes]:
    yield b"%d %d %d\n" % dataset.shape
    yield from row_lines(dataset, first=0, empty="")


def _read_header(path: str | os.PathLike[str], lines: Iterator[Row]) -> tuple[int, int, int]:
    _, text = next(lines, (1, b""))
    match = _HEADER.fullmatch(text.strip(BLANKS))
    n, d, n_labels = (0, 0, 0) if match is None else map(int, match.groups())
    if not (0 < n <= MOST_COLUMNS and 0 < d <= MOST_COLUMNS and 0 < n_labels <= MOST_COLUMNS):
        rule = (
            'the first line must be "n d L", the numbers of rows, features and labels, each in '
            f"[1, {MOST_COLUMNS}]"
        )
        remedy = "Put such a line first, or name the format svmlight, which has none."
        raise DatasetFormatError.at(path, 1, rule, text.strip(BLANKS), remedy)
    return n, d, n_labels


def _data_lines(path: str | os.PathLike[str], lines: Iterator[Row], n: int) -> Iterator[Row]:
    """Yield as many lines as the header says; nothing but blank lines may follow."""
    count, number = 0, 1
    rule = f"the file must have {n} rows, as its first line says"
    for number, line in lines:
        count += 1
        if count <= n:
            yield number, line
        elif line.strip(BLANKS):
            remedy = "Correct the first line, or delete the rows from here on."
            raise DatasetFormatError.at(path, number, rule, Words("one more row"), remedy)
    if count < n:
        remedy = "Check that the file is complete, or correct the first line."
        raise DatasetFormatError.at(path, number, rule, count, remedy)


def _find_names(
    field: str, source: str | os.PathLike[str] | Sequence[str] | None, count: int
) -> Names | None:
    """Return the names that the user has asked for, one per column; None if there was no such wish."""
    if source is None:
        return None
    if isinstance(source, str | os.PathLike):
        return _read_names(field, source, count)
    names = source if isinstance(source, NumberedNames) else tuple(source)
    if len(names) != count:
        raise ValueError(
            f"{field} must have {count} names, as the first line of the file says, got {len(names)}. "
            "Pass one name per column, or None to number them."
        )
    if isinstance(names, tuple):
        wrong = next((item for item in names if not isinstance(item, str)), None)
        if wrong is not None or len(set(names)) != count:
            got = "a name twice" if wrong is None else shown(wrong)
            raise ValueError(f"{field} must be different texts, got {got}. Rename it, or pass None.")
    return names


def _read_names(field: str, path: str | os.PathLike[str], count: int) -> tuple[str, ...]:
    """Read a file with one name per line."""
    seen: dict[str, int] = {}
    for line, raw in numbered_lines(path):
        if line > count and not raw.strip(BLANKS):
            continue
        try:
            text = raw.rstrip(b"\r\n").decode("utf-8")
        except UnicodeDecodeError as error:
            remedy = "Convert the file to UTF-8."
            raise DatasetFormatError.at(path, line, "a name must be UTF-8", raw, remedy) from error
        if text in seen:
            rule = f"a name must not occur twice, as on line {seen[text]}"
            remedy = f"Rename one of the two, for example by adding its number, or pass {field}=None."
            raise DatasetFormatError.at(path, line, rule, text, remedy)
        seen[text] = line
    if len(seen) != count:
        rule = f"the file must have {count} lines, one name for each column"
        remedy = f"Check that it belongs to the data file, or pass {field}=None."
        raise DatasetFormatError.at(path, None, rule, len(seen), remedy)
    return tuple(seen)
