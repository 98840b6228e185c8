"""The svmlight and XMC formats: rows of labels and ``index:value`` pairs, from and to files."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml._shown import shown
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._lines import (
    EXACT,
    POWERS,
    GrowingCSR,
    Row,
    chunks,
    entry_order,
    numbered_lines,
    to_numbers,
)
from lrml.datasets._record import Block, FeatureMatrix, LabelMatrix, MultiLabelDataset, NumberedNames
from lrml.datasets._sidecar import (
    MOST_COLUMNS,
    Names,
    Sidecar,
    assemble,
    names_of,
    read_sidecar,
    stored_as,
    write_with_sidecar,
)

# Labels and pairs per row, labels, and pairs.
_Numbers: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]

_BLANKS = b" \t\r\n"
# What rows are usually written with, and which mark may follow which, with digits in between or without.
_PLAIN = b"0123456789,: .-\n"
_TO_BLANKS = bytes.maketrans(b":,\n", b"   ")
_LINE_END, _COMMA, _COLON, _BLANK, _POINT, _MINUS = range(6)
_MARK = np.zeros(256, np.uint8)
_MARK[list(b"\n,: .-")] = range(6)
_FOLLOWS = np.zeros((2, 6, 6), np.bool_)
_FOLLOWS[0, _LINE_END, [_COMMA, _BLANK, _COLON, _LINE_END]] = True
_FOLLOWS[0, _COMMA, [_COMMA, _BLANK, _LINE_END]] = True
_FOLLOWS[0, _BLANK, _COLON] = True
_FOLLOWS[0, _COLON, [_POINT, _BLANK, _LINE_END]] = True
_FOLLOWS[0, _MINUS, [_POINT, _BLANK, _LINE_END]] = True
_FOLLOWS[0, _POINT, [_BLANK, _LINE_END]] = True
_FOLLOWS[1, _LINE_END, [_BLANK, _LINE_END]] = True
_FOLLOWS[1, _COLON, _MINUS] = True
# Possessive quantifiers: the grammar is unambiguous, so backtracking could only cost time.
_INTEGER = rb"\d++"
_NUMBER = rb"[-+]?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?+\d++)?+"
_PAIR = _INTEGER + rb":(?:" + _NUMBER + rb"|[nN][aA][nN])"
_XMC_HEADER = re.compile(rb"(\d{1,10})[ \t]+(\d{1,10})[ \t]+(\d{1,10})")

_ROWS_AT_ONCE = 256  # enough to share the overhead of a block, few enough to keep memory flat
_VALUES_AT_ONCE = 1 << 20  # the same for wide dense rows


def read_svmlight(
    path: str | os.PathLike[str],
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    name: str | None = None,
) -> MultiLabelDataset:
    r"""Read a multi-label dataset in the svmlight / LIBSVM format.

    A row is ``l1,l2,... index:value index:value ... # comment``. Labels are integers from 0; ``3.0`` is read
    as 3. A row without labels starts with a space or with its first pair. Blank lines and comments are
    skipped.

    Parameters
    ----------
    path : path-like
        The file; it is read line by line. ``.gz``, ``.bz2`` and ``.xz`` are decompressed on the way.
    n_features, n_labels : int, default=None
        The numbers of features and labels; None takes those of the sidecar, if `write_svmlight` has written
        one, else the highest index and label that occur. Pass them for a test set, which may lack some.
    zero_based : bool or "auto", default="auto"
        Whether features are counted from 0, not from 1. "auto" follows the sidecar, else it is true if the
        index 0 occurs, as in scikit-learn.
    name : str, default=None
        Name of the dataset; None takes that of the sidecar, or the file name without its suffix.

    Returns
    -------
    MultiLabelDataset
        The dataset, with sparse matrices unless the sidecar says otherwise. Without a sidecar, columns are
        named by their numbers in the file: ``feature1``, ... (``feature0``, ... if zero-based) and
        ``label0``, ... The value ``nan`` is a missing value. A written 0 is not stored.

    Raises
    ------
    DatasetFormatError
        If a file breaks a rule of its format, with the line, or if the sidecar does not belong to the file.

    See Also
    --------
    write_svmlight : The counterpart.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from lrml.datasets import read_svmlight
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "toy.svm")
    ...     _ = path.write_text("0,2 1:0.5 4:1  # a comment\n 2:2\n")
    ...     toy = read_svmlight(path)
    >>> toy
    <MultiLabelDataset toy: X (2, 4) sparse, Y (2, 3) sparse, no split>
    >>> toy.feature_names[0]
    'feature1'
    """
    n_features, n_labels = _checked("n_features", n_features), _checked("n_labels", n_labels)
    _check_zero_based(zero_based)
    sidecar = read_sidecar(path, "svmlight")
    if sidecar is not None:
        zero_based = _agreed(sidecar, n_features, n_labels, zero_based)
    first = 1 if zero_based is False else 0
    features = (n_features or MOST_COLUMNS) + (0 if zero_based is True else 1)
    rows = _PairRows(path, _NUMBER, first, features, n_labels or MOST_COLUMNS)
    digest = hashlib.sha256()
    for chunk in chunks(_significant_lines(path, None if sidecar is None else digest)):
        rows.add(chunk)
    base = int(rows.lowest != 0) if zero_based == "auto" else first
    d, labels = _widths(rows, base, sidecar, n_features, n_labels)
    X, Y = rows.matrices(d, labels, base)
    return assemble(path, sidecar, X, Y, (None, None), name, digest.hexdigest(), base)


def write_svmlight(
    dataset: MultiLabelDataset, path: str | os.PathLike[str], *, zero_based: bool = False
) -> None:
    """Write a dataset in the svmlight / LIBSVM format.

    Values are written with as few digits as give the same number back. What the format cannot hold (shape,
    names, split, provenance, unknown labels, dense storage) goes to a second file, ``<path>.meta.json``,
    which `read_svmlight` takes into account; other programs may ignore it. Both files are written, or none.

    Parameters
    ----------
    dataset : MultiLabelDataset
        What to write. A sparse matrix is never made dense; its explicit zeros are left out. The payload of a
        NaN is not kept. A row without labels and features is written as a 0 of the first feature, as
        readers of this format skip blank lines.
    path : path-like
        The file; ``.gz``, ``.bz2`` and ``.xz`` are compressed.
    zero_based : bool, default=False
        Whether to count features from 0, not from 1.

    Raises
    ------
    ValueError
        If the format cannot hold the dataset: a dimension is 2**31 or more, a name is not valid Unicode, or
        an array of more than 128 MiB is nearly all zeros and should be sparse.
    OutputError
        If the files cannot be written.

    See Also
    --------
    read_svmlight : The counterpart.
    """
    if not isinstance(zero_based, bool):
        raise ValueError(f"zero_based must be True or False, got {shown(zero_based)}. Pass one of them.")
    first = 0 if zero_based else 1

    def blocks(dataset: MultiLabelDataset) -> Iterator[bytes]:
        return _row_lines(dataset, first, empty=f" {first}:0")

    write_with_sidecar(dataset, path, "svmlight", blocks, first, zero_based)


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
        sidecar.check("shape", sidecar.fields["shape"], list(shape))
    names = _find_names("feature_names", feature_names, d), _find_names("label_names", label_names, n_labels)
    rows = _PairRows(path, _INTEGER, 0, d, n_labels)
    for chunk in chunks(_data_lines(path, lines, n)):
        rows.add(chunk)
    X, Y = rows.matrices(d, n_labels, base=0)
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

    def blocks(dataset: MultiLabelDataset) -> Iterator[bytes]:
        yield b"%d %d %d\n" % dataset.shape
        yield from _row_lines(dataset, first=0, empty="")

    write_with_sidecar(dataset, path, "xmc", blocks)


def svmlight_blocks(
    path: str | os.PathLike[str],
    rows: int,
    *,
    n_features: int | None = None,
    n_labels: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    labelled: bool = True,
    skip: int = 0,
) -> Generator[Block, None, int]:
    """Read an svmlight file block by block; see `iter_blocks`."""
    n_features, n_labels = _checked("n_features", n_features), _checked("n_labels", n_labels)
    _check_zero_based(zero_based)
    sidecar = read_sidecar(path, "svmlight")
    if sidecar is not None:
        zero_based = _agreed(sidecar, n_features, n_labels, zero_based)
        _, n_features, n_labels = sidecar.fields["shape"]
    base = 0 if zero_based is True else 1
    digest = None if sidecar is None else hashlib.sha256()
    parser = partial(
        _PairRows, path, _NUMBER, base, (n_features or MOST_COLUMNS - 1) + base, n_labels or MOST_COLUMNS
    )
    known = names_of(sidecar, (n_features or 0, n_labels or 0), (None, None), base)
    names = None if n_features is None else known[0], None if n_labels is None else known[1]
    lines = _significant_lines(path, digest)
    widths = (n_features, n_labels)
    return _pair_blocks(lines, rows, parser, sidecar, widths, names, labelled, base, digest, skip)


def svmlight_shape(path: str | os.PathLike[str], zero_based: bool | str) -> tuple[int, int, bool]:
    """Read a file without a sidecar to find its numbers of features and labels, and whether 0 occurs."""
    lowest, highest, highest_label = MOST_COLUMNS, -1, -1
    for chunk in chunks(_significant_lines(path)):
        rows = _PairRows(path, _NUMBER, int(zero_based is False), MOST_COLUMNS, MOST_COLUMNS)
        rows.add(chunk)
        lowest, highest = min(lowest, rows.lowest), max(highest, rows.highest)
        highest_label = max(highest_label, rows.highest_label)
    from_zero = lowest == 0 if zero_based == "auto" else bool(zero_based)
    return highest + int(from_zero), highest_label + 1, from_zero


def xmc_blocks(
    path: str | os.PathLike[str],
    rows: int,
    *,
    feature_names: str | os.PathLike[str] | Sequence[str] | None = None,
    label_names: str | os.PathLike[str] | Sequence[str] | None = None,
    labelled: bool = True,
    skip: int = 0,
) -> Generator[Block, None, int]:
    """Read an XMC file block by block; see `iter_blocks`."""
    sidecar = read_sidecar(path, "xmc")
    digest = None if sidecar is None else hashlib.sha256()
    lines = numbered_lines(path, digest)
    n, d, n_labels = shape = _read_header(path, lines, fewest_labels=0)
    if sidecar is not None:
        sidecar.check("shape", sidecar.fields["shape"], list(shape))
    given = _find_names("feature_names", feature_names, d), _find_names("label_names", label_names, n_labels)
    parser = partial(_PairRows, path, _INTEGER, 0, d, n_labels)
    names = names_of(sidecar, (d, n_labels), given)
    lines = _data_lines(path, lines, n)
    labelled = labelled and n_labels > 0
    return _pair_blocks(lines, rows, parser, sidecar, (d, n_labels), names, labelled, 0, digest, skip)


def _pair_blocks(
    lines: Iterator[Row],
    rows: int,
    parser: Callable[[], _PairRows],
    sidecar: Sidecar | None,
    widths: tuple[int | None, int | None],
    names: tuple[Names | None, Names | None],
    labelled: bool,
    base: int,
    digest: Any,
    skip: int,
) -> Generator[Block, None, int]:
    """Parse so many lines at a time; what the sidecar says of the whole file is checked at its end.

    Widths that are not known are those of each block.
    """
    count, block = sum(1 for _ in islice(lines, skip)), parser()
    while True:
        for chunk in chunks(islice(lines, rows)):
            block.add(chunk)
        if not block.n_rows:
            break
        d = max(block.highest + 1 - base, 1) if widths[0] is None else widths[0]
        n_labels = max(block.highest_label + 1, 1) if widths[1] is None else widths[1]
        features, labels = names_of(None, (d, n_labels), names, base)
        X, Y, unknown = stored_as(sidecar, *block.matrices(d, n_labels, base), count)
        if labelled:
            yield Block(X, Y, features, labels, count, unknown)
        else:
            yield Block(X, None, features, None, count)
        count, block = count + block.n_rows, parser()
    if not count:
        raise _no_row(block.path)
    if sidecar is not None:
        sidecar.check("n of shape", sidecar.fields["shape"][0], count)
        sidecar.check_hash(digest.hexdigest())
    return count


class _PairRows:
    """Collects rows ``l1,l2,... index:value index:value ...``, chunk by chunk.

    A row without labels starts with a blank or with its first pair. Pairs may come in any order. A `label`
    is a pattern; the lowest index is `first`, all are below `features`, and labels are below `labels`.
    """

    def __init__(
        self, path: str | os.PathLike[str], label: bytes, first: int, features: int, labels: int
    ) -> None:
        self.path = path
        self._label, self._first, self._features, self._labels = label, first, features, labels
        label_list = rb"(" + label + rb"(?:," + label + rb")*+(?=[ \t]|\Z))?+"  # group 1, if there are labels
        self._row = re.compile(label_list + rb"[ \t]*+(?:" + _PAIR + rb"(?:[ \t]++" + _PAIR + rb")*+)?+")
        self._X = GrowingCSR(np.float64)
        self._Y = GrowingCSR(np.uint8)
        self.n_rows = 0
        self.lowest, self.highest = MOST_COLUMNS, -1  # the range of the indices so far, and
        self.highest_label = -1  # the highest label

    def add(self, rows: list[Row]) -> None:
        """Read a chunk of rows: check the grammar, then convert all numbers at once."""
        texts = [raw.rstrip(_BLANKS) for _, raw in rows]
        found = _plain_rows(b"\n".join([*texts, b""]))
        if found is None:
            found = self._row_by_row(rows, texts)
        label_counts, pair_counts, labels, pairs = found
        self._add_labels(rows, label_counts, labels)
        self._add_pairs(rows, pair_counts, pairs)
        self.n_rows += len(rows)

    def _row_by_row(self, rows: list[Row], texts: list[bytes]) -> _Numbers:
        """Check the grammar of each row, and say what is wrong."""
        counts = np.zeros((len(rows), 2), np.int64)
        for position, text in enumerate(texts):
            match = self._row.fullmatch(text)
            if match is None:
                raise self._explain(rows[position][0], text)
            # Commas are only between labels, colons only inside pairs.
            counts[position, 0] = 0 if match.lastindex is None else text.count(b",") + 1
            counts[position, 1] = text.count(b":")
        numbers = to_numbers(b" ".join([text for text in texts if text]))
        is_pair = np.repeat(np.tile([False, True], len(rows)), (counts * np.array([1, 2])).ravel())
        return counts[:, 0], counts[:, 1], numbers[~is_pair], numbers[is_pair].reshape(-1, 2)

    def matrices(self, features: int, labels: int, base: int) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Return features (float64), with all zeros that were written, and labels (uint8)."""
        X = self._X.matrix(features)
        if base:
            X.indices -= base
        return X, self._Y.matrix(labels)

    def _add_labels(self, rows: list[Row], counts: NDArray[np.int64], labels: NDArray[np.float64]) -> None:
        row = np.repeat(np.arange(len(rows)), counts)
        wrong = (labels < 0) | (labels != np.floor(labels))
        self._refuse(rows, row, labels, wrong, *_LABEL_RULE)
        rule = f"a label must be below {self._labels}, the number of labels"
        remedy = "Count labels from 0, and check the number of labels."
        self._refuse(rows, row, labels, labels >= self._labels, rule, remedy)
        columns, _ = self._sorted("a label", rows, row, labels.astype(np.int64))
        self._Y.append(counts, columns.astype(np.int32), np.ones(len(columns)))
        self.highest_label = int(columns.max(initial=self.highest_label))

    def _add_pairs(self, rows: list[Row], counts: NDArray[np.int64], pairs: NDArray[np.float64]) -> None:
        row, index, values = np.repeat(np.arange(len(rows)), counts), pairs[:, 0], pairs[:, 1]
        rule = f"an index must lie in [{self._first}, {self._features - 1}]"
        remedy = f"Count features from {self._first}, and check the number of features."
        self._refuse(rows, row, index, (index < self._first) | (index >= self._features), rule, remedy)
        self._refuse(rows, row, values, np.isinf(values), *_VALUE_RULE)
        columns, order = self._sorted("an index", rows, row, index.astype(np.int64))
        self._X.append(counts, columns.astype(np.int32), values if order is None else values[order])
        self.lowest = int(columns.min(initial=self.lowest))
        self.highest = int(columns.max(initial=self.highest))

    def _refuse(
        self, rows: list[Row], row: NDArray[np.int64], values: Any, wrong: Any, rule: str, remedy: str
    ) -> None:
        """Raise an error about the first value that is wrong, if there is one."""
        if wrong.any():
            first = int(np.argmax(wrong))
            raise DatasetFormatError.at(self.path, rows[row[first]][0], rule, f"{values[first]:.17g}", remedy)

    def _sorted(
        self, what: str, rows: list[Row], row: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """Sort entries by row, then column, and refuse duplicates; the order is None if they are sorted."""
        order, twice = entry_order(row, columns)
        if twice is not None:
            rule, line = f"{what} must not occur twice in a row", rows[row[twice]][0]
            raise DatasetFormatError.at(self.path, line, rule, int(columns[twice]), "Delete one of the two.")
        return columns if order is None else columns[order], order

    def _explain(self, line: int, text: bytes) -> DatasetFormatError:
        """Find out what is wrong with a row that does not fit the grammar."""
        tokens = re.split(rb"[ \t]+", text)
        if b":" not in tokens[0]:
            labels = tokens.pop(0)
            for label in labels.split(b",") if labels else ():
                if re.fullmatch(self._label, label) is None:
                    rule, remedy = _LABEL_RULE
                    return DatasetFormatError.at(self.path, line, rule, label, remedy)
        token = next(token for token in tokens if re.fullmatch(_PAIR, token) is None)
        index, colon, value = token.partition(b":")
        if index == b"qid":
            rule = "a row must not have a qid"
            remedy = "Queries are for ranking; remove the qid fields to read the rest."
        elif re.fullmatch(_INTEGER, index) and colon:
            token, (rule, remedy) = value, _VALUE_RULE
        else:
            rule = 'after the labels, a row must consist of pairs "index:value", separated by spaces'
            remedy = 'Write rows such as "0,4 3:0.5 17:1".'
        return DatasetFormatError.at(self.path, line, rule, token, remedy)


def _plain_rows(text: bytes) -> _Numbers | None:
    """Convert rows that are written in the usual way, all at once; None if there is anything unusual.

    Usual are digits, in values with a point and a minus, one mark after each number, and one blank in front
    of a row without labels. A row is right if each of its marks may follow the one before.
    """
    if text.translate(None, _PLAIN):
        return None
    characters = np.frombuffer(text, np.uint8)
    marks = np.flatnonzero((characters < ord("0")) | (characters > ord("9")))
    kind = _MARK[characters[marks]]
    before, empty = np.empty_like(kind), np.empty(len(kind), np.bool_)
    before[0], before[1:] = _LINE_END, kind[:-1]
    empty[0], empty[1:] = marks[0] == 0, marks[1:] - marks[:-1] == 1  # no digit since the mark before
    if not _FOLLOWS.ravel()[empty * np.uint8(36) + before * np.uint8(6) + kind].all():
        return None
    ends = ~empty & (kind != _POINT)  # of numbers
    points = np.flatnonzero(kind == _POINT)
    digits = marks[points + 1] - marks[points] - 1
    integers = np.fromstring(text.translate(_TO_BLANKS, b".-"), np.int64, sep=" ")
    if digits.max(initial=0) >= len(POWERS) or integers.max(initial=0) >= EXACT:
        return None
    numbers = integers.astype(np.float64)
    number = np.cumsum(ends)  # to which number a mark belongs
    numbers[number[points]] /= POWERS[digits]
    numbers[number[kind == _MINUS]] *= -1
    # A number is a label unless a colon follows, or a mark of a value comes before it.
    is_index = kind == _COLON
    is_label = ends & ~is_index & ((before == _LINE_END) | (before == _COMMA))
    rows = np.flatnonzero(kind == _LINE_END)
    counts = [np.diff(np.cumsum(found)[rows], prepend=0) for found in (is_label, is_index)]
    is_label = is_label[ends]
    return counts[0], counts[1], numbers[is_label], numbers[~is_label].reshape(-1, 2)


_LABEL_RULE = (
    "a label must be a non-negative integer",
    'Number labels from 0 and separate them by commas; classes such as "-1" are not labels.',
)
_VALUE_RULE = (
    "a value must be a finite number, or nan if it is missing",
    "Write numbers such as 1, -0.5 or 2e-3, without spaces around the colon.",
)


# svmlight: what the file does not say.


def _significant_lines(path: str | os.PathLike[str], digest: Any = None) -> Iterator[Row]:
    """Leave out comments and blank lines."""
    for number, line in numbered_lines(path, digest):
        text = line.partition(b"#")[0].strip(_BLANKS)
        if text:
            yield number, text


def _checked(key: str, count: object) -> int | None:
    if count is None:
        return None
    if not isinstance(count, int | np.integer) or isinstance(count, bool) or not 0 < count <= MOST_COLUMNS:
        raise ValueError(
            f"{key} must be None or an integer in [1, {MOST_COLUMNS}], got {shown(count)}. "
            "Pass None to take what occurs in the file."
        )
    return int(count)


def _check_zero_based(zero_based: object) -> None:
    if not (isinstance(zero_based, bool) or zero_based == "auto"):
        raise ValueError(f'zero_based must be True, False or "auto", got {zero_based!r}. Pass one of them.')


def _agreed(sidecar: Sidecar, n_features: int | None, n_labels: int | None, zero_based: bool | str) -> bool:
    """Check the arguments against the sidecar; return whether features are counted from 0."""
    _, d, labels = sidecar.fields["shape"]
    for key, stored, wanted in (("d of shape", d, n_features), ("L of shape", labels, n_labels)):
        if wanted is not None:
            sidecar.check(key, stored, wanted)
    if zero_based != "auto":
        sidecar.check("zero_based", sidecar.fields["zero_based"], zero_based)
    return bool(sidecar.fields["zero_based"])


def _widths(
    rows: _PairRows, base: int, sidecar: Sidecar | None, n_features: int | None, n_labels: int | None
) -> tuple[int, int]:
    """Return the numbers of features and labels."""
    if not rows.n_rows:
        raise _no_row(rows.path)
    d = max(0, rows.highest + 1 - base)
    labels = rows.highest_label + 1
    if sidecar is not None:
        n, stored_d, stored_labels = sidecar.fields["shape"]
        agrees = n == rows.n_rows and d <= stored_d and labels <= stored_labels
        found = f"{rows.n_rows} rows and at least {d} features and {labels} labels"
        sidecar.check("shape", sidecar.fields["shape"], found, agrees)
        return stored_d, stored_labels
    if d > (n_features or MOST_COLUMNS):  # could not be checked before the base was known
        rule = f"an index must lie in [0, {(n_features or MOST_COLUMNS) - 1}], as features are counted from 0"
        remedy = "Give a larger n_features, or say by zero_based that there should be no index 0."
        highest = re.compile(rb"(?:^|[ \t])0*+%d:" % rows.highest)
        line = next(number for number, text in _significant_lines(rows.path) if highest.search(text))
        raise DatasetFormatError.at(rows.path, line, rule, rows.highest, remedy)
    for key, count, wanted in (("n_features", d, n_features), ("n_labels", labels, n_labels)):
        if not (count or wanted):
            rule = f"the file must have some {key.removeprefix('n_')}"
            raise DatasetFormatError.at(rows.path, None, rule, Words("none"), f"Give {key} if this is meant.")
    return n_features or d, n_labels or labels


def _no_row(path: str | os.PathLike[str]) -> DatasetFormatError:
    remedy = "Check that the file is complete."
    return DatasetFormatError.at(path, None, "the file must have a row", Words("none"), remedy)


# XMC: the first line, and files of names.


def _read_header(
    path: str | os.PathLike[str], lines: Iterator[Row], fewest_labels: int = 1
) -> tuple[int, int, int]:
    _, text = next(lines, (1, b""))
    match = _XMC_HEADER.fullmatch(text.strip(_BLANKS))
    n, d, n_labels = (0, 0, 0) if match is None else map(int, match.groups())
    if not (0 < n <= MOST_COLUMNS and 0 < d <= MOST_COLUMNS and fewest_labels <= n_labels <= MOST_COLUMNS):
        rule = (
            'the first line must be "n d L", the numbers of rows, features and labels, each in '
            f"[1, {MOST_COLUMNS}]"
        )
        remedy = "Put such a line first, or name the format svmlight, which has none."
        raise DatasetFormatError.at(path, 1, rule, text.strip(_BLANKS), remedy)
    return n, d, n_labels


def _data_lines(path: str | os.PathLike[str], lines: Iterator[Row], n: int) -> Iterator[Row]:
    """Yield as many lines as the header says; nothing but blank lines may follow."""
    count, number = 0, 1
    rule = f"the file must have {n} rows, as its first line says"
    for number, line in lines:
        count += 1
        if count <= n:
            yield number, line
        elif line.strip(_BLANKS):
            remedy = "Correct the first line, or delete the rows from here on."
            raise DatasetFormatError.at(path, number, rule, Words("one more row"), remedy)
    if count < n:
        remedy = "Check that the file is complete, or correct the first line."
        raise DatasetFormatError.at(path, number, rule, count, remedy)


def _find_names(
    field: str, source: str | os.PathLike[str] | Sequence[str] | None, count: int
) -> Names | None:
    """Return the names that the user gave, one per column; None if there are none."""
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
        if line > count and not raw.strip(_BLANKS):
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


# Writing.


def _row_lines(dataset: MultiLabelDataset, first: int, empty: str) -> Iterator[bytes]:
    """Yield the rows as text, in blocks; `empty` is a row without labels and pairs."""
    n, d, n_labels = dataset.shape
    step = min(_ROWS_AT_ONCE, max(1, _VALUES_AT_ONCE // max(d, n_labels)))
    if sparse.issparse(dataset.X) and sparse.issparse(dataset.Y):
        step = _ROWS_AT_ONCE
    for start in range(0, n, step):
        _, labels, label_ends = _block(dataset.Y, start, start + step)
        values, columns, ends = _block(dataset.X, start, start + step)
        texts = [f"{j + first}:{repr(x).removesuffix('.0')}" for j, x in zip(columns, values, strict=True)]
        lines = []
        for i in range(len(ends) - 1):
            ids = ",".join(map(str, labels[label_ends[i] : label_ends[i + 1]]))
            line = f"{ids} {' '.join(texts[ends[i] : ends[i + 1]])}".rstrip()
            lines.append(line or empty)
        yield "\n".join([*lines, ""]).encode("ascii")


def _block(
    matrix: FeatureMatrix | LabelMatrix, start: int, stop: int
) -> tuple[list[Any], list[int], list[int]]:
    """Return values, columns and row ends of what is written of some rows: not 0, but -0.0 of arrays."""
    if isinstance(matrix, sparse.csr_array):
        rows: sparse.csr_array = matrix[start:stop].copy()
        rows.eliminate_zeros()
        return rows.data.tolist(), rows.indices.tolist(), rows.indptr.tolist()
    block = matrix[start:stop]
    keep = (block != 0) | np.signbit(block)
    ends = np.concatenate([[0], np.cumsum(np.count_nonzero(keep, axis=1))])
    return block[keep].tolist(), np.nonzero(keep)[1].tolist(), ends.tolist()
