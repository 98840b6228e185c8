"""Columns of a table, CSV or Parquet: which of them is what, and how blocks of rows become X and Y."""

from __future__ import annotations

import difflib
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml._shown import shown
from lrml.core.checks import is_integer
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._formats import stem
from lrml.datasets._lines import GrowingCSR
from lrml.datasets._record import Block, LabelMatrix, MultiLabelDataset

Tag: TypeAlias = str | int  # a label in a list of labels
_Refuse: TypeAlias = Callable[[str, object, str], DatasetFormatError]  # rule, got, remedy

_TEXT_TYPES = frozenset({"type string", "type large_string", "type string_view"})  # of pyarrow, in messages
_ROWS_AT_ONCE = 10_000  # where only labels are looked for
_SEARCHED_NAMES = 10_000  # comparing names is slow; a table with more columns gets hints from the first ones
_WEIGHT_OF_LABEL = 16  # memory of a label in a list, relative to a number
_WEIGHT_OF_STORED = 3  # the same for an entry of a sparse matrix, including one copy


@dataclass(frozen=True)
class Request:
    """What the user asked for, with the parameters of `read_csv`; checked before any file is opened."""

    labels: Sequence[str] | int | None
    label_column: str | None
    label_separator: str
    features: Sequence[str] | None
    ignore: Sequence[str]
    sparse: bool
    labels_needed: bool = True
    unlabelled: bool = False  # leave labels out, where the file has them

    def __post_init__(self) -> None:
        if (self.labels is None) == (self.label_column is None) and (self.labels_needed or self.labels):
            raise ValueError(
                "exactly one of labels (names of 0/1 columns, or their number) and label_column (one column "
                f"with a list of labels) must be given, got {'neither' if self.labels is None else 'both'}. "
                "Give the one that fits the file."
            )
        if self.label_column is not None and not isinstance(self.label_column, str):
            raise ValueError(
                f"label_column must be the name of one column, got {shown(self.label_column)}. "
                "Name columns of 0 and 1 in labels instead."
            )
        if not isinstance(self.label_separator, str) or not self.label_separator:
            raise ValueError(
                "label_separator must be a text of at least one character, got "
                f'{shown(self.label_separator)}. Pass what stands between two labels, such as ",".'
            )
        for key in ("labels", "features", "ignore"):
            value = getattr(self, key)
            if key == "labels" and is_integer(value):
                object.__setattr__(self, key, int(value))
            elif value is not None:
                object.__setattr__(self, key, _check_list(key, value))

    def without_index(self) -> Request:
        """Leave out a first column without a name, unless it is asked for."""
        labels = self.labels or ()
        first = labels > 0 if isinstance(labels, int) else "" in labels
        if first or "" in (*(self.features or ()), *self.ignore, self.label_column):
            return self
        return replace(self, ignore=[*self.ignore, ""])


def _check_list(key: str, value: object) -> tuple[str, ...]:
    """Return a parameter that must be a list of distinct names."""
    names = tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else None
    if names is None or not all(isinstance(name, str) for name in names):
        form = "a list of column names" + (", or their number" if key == "labels" else "")
        raise ValueError(
            f'{key} must be {form}, got {shown(value)}. Pass a list such as ["a", "b"], even for one name.'
        )
    if key == "labels" and not names:
        raise ValueError("labels must name a column, got an empty list. Name the label columns.")
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise ValueError(f"{key} must not name a column twice, got {shown(twice[0])}. Delete one of the two.")
    return names


@dataclass(frozen=True)
class Columns:
    """Which column of the file at `path` is what, by its number in the file.

    `features` and `labels` are in the order of X and Y; `tags` is the one column that lists labels, if any.
    """

    path: str | os.PathLike[str]
    names: tuple[str, ...]
    features: tuple[int, ...]
    labels: tuple[int, ...]
    tags: int | None

    @property
    def numeric(self) -> tuple[int, ...]:
        """The columns that hold numbers, in the order of a block of values: features, then labels."""
        return self.features + self.labels

    @property
    def wanted(self) -> tuple[int, ...]:
        """The columns that are read: numeric ones, then the one that lists labels."""
        return self.numeric if self.tags is None else (*self.numeric, self.tags)

    def first_wrong(self, values: NDArray[np.float64]) -> tuple[int, int] | None:
        """Find the first value that is infinite, or neither 0 nor 1 nor NaN in a label column."""
        wrong = np.isinf(values)
        labels = values[:, len(self.features) :]
        wrong[:, len(self.features) :] |= (labels != 0) & (labels != 1) & ~np.isnan(labels)
        if not wrong.any():
            return None
        row, position = np.argwhere(wrong)[0]
        return int(row), int(position)

    def wrong_value(
        self, position: int, got: object, *, line: int | None = None, place: str = "", finite: bool = False
    ) -> DatasetFormatError:
        """Build the error for a value in a numeric column; if `finite`, it is a number of the wrong size."""
        name = shown(self.names[self.numeric[position]])
        if position >= len(self.features):
            rule = f"label column {name} must hold 0 or 1, true or false, or be empty where unknown{place}"
            remedy = "Correct the value, or leave the column out of labels."
        elif finite:
            rule = f"column {name} must hold finite numbers{place}"
            remedy = "Correct the value, or leave it empty if it is missing."
        else:
            rule = f"column {name} must hold numbers, true or false, or be empty where one is missing{place}"
            remedy = "Encode the column as numbers, or list it in ignore."
            if str(got) in _TEXT_TYPES or len(str(got).split()) > 1:
                remedy += " Texts with tags are for lrml.datasets.read_texts and lrml.TextTagger."
        return DatasetFormatError.at(self.path, line, rule, got, remedy)


def choose_columns(
    path: str | os.PathLike[str], names: Sequence[str], request: Request, *, line: int | None = None
) -> Columns:
    """Decide which column is what; refuse names that the table does not have, and contradictions."""
    refuse: _Refuse = partial(DatasetFormatError.at, path, line)
    index = {name: column for column, name in enumerate(names)}
    if request.unlabelled:  # rows to predict: columns that are left out anyway may be missing
        left_out = [*request.ignore, *([] if isinstance(request.labels, int) else request.labels or ())]
        left_out += [] if request.label_column is None else [request.label_column]
        ignore = [name for name in dict.fromkeys(left_out) if name in index]
        request = replace(request, labels=None, label_column=None, ignore=ignore)
    if len(index) < len(names):
        twice = Counter(names).most_common(1)[0][0]
        raise refuse("the names of columns must be unique", twice, "Rename one of the columns.")
    single = request.label_column is not None
    labels = [request.label_column or ""] if single else _label_names(names, request, refuse)
    groups = {
        "label_column" if single else "labels": labels,
        "features": request.features or (),
        "ignore": request.ignore,
    }
    taken: dict[str, str] = {}
    for key, group in groups.items():
        _check_known(index, key, group, refuse)
        for name in group:
            other = taken.setdefault(name, key)
            if other != key:
                rule = f"a column must not be in both {other} and {key}"
                raise refuse(rule, name, "Take it out of one of the two.")
    features = request.features
    if features is None:
        features = [name for name in names if name not in taken]
        # A column without a name most often holds the numbers of the rows: pandas writes them so.
        if "" in features:
            remedy = (
                'Pass ignore=[""] (on the command line: --ignore "") if it numbers the rows, else name it.'
            )
            raise refuse("a feature must have a name", "", remedy)
    if not features and request.features is None:
        got = Words(f"{len(names)} columns and no feature")
        rule = "some column must be a feature, so neither a label nor ignored"
        remedy = "Name fewer columns in labels or ignore, or pass features=[] to read labels alone."
        raise refuse(rule, got, remedy)
    found = tuple(index[name] for name in labels)
    return Columns(
        path,
        tuple(names),
        features=tuple(index[name] for name in features),
        labels=() if single else found,
        tags=found[0] if single else None,
    )


def _label_names(names: Sequence[str], request: Request, refuse: _Refuse) -> Sequence[str]:
    """Return the names of the label columns, which may be asked for by their number."""
    labels = request.labels
    if not isinstance(labels, int):
        return labels or ()
    if not 0 < abs(labels) < len(names) + (request.features == ()):
        rule = (
            f"labels must be n for the first n or -n for the last n of {len(names)} columns, n at least 1, "
            "and leave a feature"
        )
        raise refuse(rule, labels, "Pass another number, or the names of the label columns.")
    return names[:labels] if labels > 0 else names[labels:]


def _check_known(index: dict[str, int], key: str, group: Sequence[str], refuse: _Refuse) -> None:
    unknown = [name for name in group if name not in index]
    if not unknown:
        return
    names = list(index)[:_SEARCHED_NAMES]
    close = difflib.get_close_matches(unknown[0], names)
    if close:
        remedy = f"Close matches: {', '.join(map(shown, close))}."
    else:
        first = ", ".join(map(shown, names[:5])) + (", ..." if len(index) > 5 else "")
        remedy = f"The columns are {first} ({len(index)} in all)."
    rule = f"{key} must name columns of the file ({len(unknown)} of {len(group)} names do not)"
    raise refuse(rule, unknown[0], remedy)


class _DenseBlocks:
    """An array that grows by blocks of rows.

    When its buffer is full, it grows by a quarter. The system moves large buffers without copying, so memory
    is not doubled, as it would be by joining blocks at the end.
    """

    def __init__(self, dtype: type[np.float64] | type[np.uint8], columns: int) -> None:
        self._buffer: NDArray[np.float64 | np.uint8] = np.empty((0, columns), dtype)
        self._rows = 0

    def add(self, block: NDArray[np.float64]) -> None:
        start, self._rows = self._rows, self._rows + len(block)
        if self._rows > len(self._buffer):
            self._resize(max(self._rows, len(self._buffer) * 5 // 4))
        self._buffer[start : self._rows] = block

    def matrix(self) -> NDArray[np.float64 | np.uint8]:
        self._resize(self._rows)
        return self._buffer

    def _resize(self, rows: int) -> None:
        # No other code has seen the buffer yet, even if a debugger holds references.
        self._buffer.resize((rows, self._buffer.shape[1]), refcheck=False)


class _SparseBlocks:
    """A CSR matrix that grows by dense blocks of rows; zeros are not stored, NaN is."""

    def __init__(self, dtype: type[np.float64] | type[np.uint8], columns: int) -> None:
        self._csr, self._columns = GrowingCSR(dtype), columns

    def add(self, block: NDArray[np.float64]) -> None:
        block = np.ascontiguousarray(block)
        row, column = np.nonzero(block)
        counts = np.bincount(row, minlength=len(block))
        self._csr.append(counts, column.astype(np.int32), block[row, column])

    def matrix(self) -> sparse.csr_array:
        return self._csr.matrix(self._columns)


class _TagRows:
    """Labels given as a list per row; their names are known only at the end."""

    def __init__(self) -> None:
        self.known: dict[Tag, int] = {}  # and their codes
        self._csr = GrowingCSR(np.uint8)

    def add(self, tags: Sequence[Tag], listed: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Add rows that list `counts` labels each, by place in `tags`, "" never; twice in a row is once."""
        known = self.known
        codes = np.array([-1 if tag == "" else known.setdefault(tag, len(known)) for tag in tags], np.int64)
        width = max(len(known), 1)
        cells = np.unique(np.repeat(np.arange(len(counts)), counts) * width + codes[listed])
        rows, columns = np.divmod(cells, width)
        self._csr.append(
            np.bincount(rows, minlength=len(counts)), columns.astype(np.int32), np.ones(len(rows))
        )

    def finish(self, known: dict[str, int] | None = None) -> tuple[sparse.csr_array, tuple[str, ...]]:
        """Return Y and the names of its columns, sorted: text by code points, integers by size.

        If names are `known`, with their columns, those are the columns; another name is a `KeyError`.
        """
        names = sorted(self.known) if known is None else tuple(known)  # a file has either text or integers
        rank = np.empty(len(self.known), np.int32)
        for tag, code in self.known.items():
            rank[code] = 0 if known is None else known[str(tag)]
        if known is None:
            rank[[self.known[name] for name in names]] = np.arange(len(names))
        # Labels were numbered as they came, so the columns of a row are in order only now.
        raw = self._csr.matrix(len(names))
        Y = sparse.csr_array((raw.data, rank[raw.indices], raw.indptr), raw.shape)
        Y.sort_indices()
        return Y, tuple(map(str, names))


class TableBuilder:
    """Makes a record of blocks of rows; `rows` and `listed` count rows and listed labels so far."""

    def __init__(self, columns: Columns, request: Request, first_row: int = 0) -> None:
        self.columns, self.request, self.rows, self.listed = columns, request, 0, 0
        self.first_row, self.stored = first_row, 0
        kind: Any = _SparseBlocks if request.sparse else _DenseBlocks
        self._X = kind(np.float64, len(columns.features))
        self._Y = kind(np.uint8, len(columns.labels))
        self._unknown: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []  # rows, columns
        self.tags = _TagRows()

    def add(self, values: NDArray[np.float64]) -> None:
        """Add rows that passed `Columns.first_wrong`: features, then labels; unknown ones are set to 0."""
        d = len(self.columns.features)
        start, self.rows = self.rows, self.rows + len(values)
        self._X.add(values[:, :d])
        if self.columns.tags is not None:
            return
        row, column = np.nonzero(np.isnan(values[:, d:]))
        if row.size:
            values[row, d + column] = 0
            self._unknown.append((row + start, column))
        self._Y.add(values[:, d:])

    def check_rows(self) -> None:
        """Refuse a table without rows."""
        if not self.rows:
            rule, remedy = "a table must have a row", "Check that the file is complete."
            raise DatasetFormatError.at(self.columns.path, None, rule, Words("none"), remedy)

    def finish(self, name: str | None) -> MultiLabelDataset:
        """Return the record of all rows; None as `name` takes the file name without its suffix."""
        columns, refuse = self.columns, partial(DatasetFormatError.at, self.columns.path, None)
        self.check_rows()
        Y, labels = self._labels()
        source = f"{Path(columns.path).name} with "
        if columns.tags is None:
            source += f"{len(labels)} label column{'' if len(labels) == 1 else 's'}"
        else:
            source += f"the labels listed in column {columns.names[columns.tags]!r}"
        if not labels:
            rule = f"label column {shown(self.request.label_column)} must list a label in some row"
            raise refuse(rule, Words("none"), "Check label_column and label_separator.")
        return MultiLabelDataset(
            name=stem(columns.path) if name is None else name,
            X=self._X.matrix(),
            Y=Y,
            feature_names=tuple(columns.names[column] for column in columns.features),
            label_names=labels,
            provenance=source,
            unknown=self._unknown_labels(),
        )

    def block(self, features: Sequence[str], labels: dict[str, int] | None) -> Block:
        """Return the rows as a block; `labels` are the columns of all that a list may name, if known."""
        names: Sequence[str] | None = None
        Y: LabelMatrix | None = None
        if self.columns.tags is not None:
            try:
                Y, names = self.tags.finish(labels)
            except KeyError as error:
                place = f"(rows {self.first_row + 1} to {self.first_row + self.rows})"
                rule = (
                    f"label column {shown(self.request.label_column)} must list labels of label_names {place}"
                )
                remedy = "Name it in label_names, or list the column in ignore."
                raise DatasetFormatError.at(self.columns.path, None, rule, error.args[0], remedy) from error
        elif self.columns.labels:
            Y, names = self._labels()
        return Block(self._X.matrix(), Y, features, names, self.first_row, self._unknown_labels())

    def _labels(self) -> tuple[LabelMatrix, Sequence[str]]:
        """Return Y and the names of the labels."""
        if self.columns.tags is not None:
            return self.tags.finish()
        return self._Y.matrix(), tuple(self.columns.names[column] for column in self.columns.labels)

    def _unknown_labels(self) -> sparse.csr_array | None:
        if not self._unknown:
            return None
        row, column = map(np.concatenate, zip(*self._unknown, strict=True))
        shape = (self.rows, len(self.columns.labels))
        return sparse.csr_array((np.ones(len(row), np.bool_), (row, column)), shape)


class Table(Protocol):
    """An open file: its columns, and its rows in batches that have the wanted columns in their order."""

    columns: Columns
    arrow: Any
    skipped: int  # rows, so far

    def batches(self, skip: int = 0) -> Iterator[Any]:
        """Yield record batches of pyarrow, without the first ``skip`` rows."""

    def check_size(self, count: int, weight: float) -> None:
        """Refuse more values than the size of the file makes credible."""

    def wrong_value(self, row: int, position: int, value: float) -> DatasetFormatError:
        """Build the error for a number in the batch that was last yielded."""


def read_batches(
    table: Table, request: Request, rows: int | None = None, skip: int = 0
) -> Iterator[TableBuilder]:
    """Yield all rows put together, or so many at a time; a batch has the wanted columns, in their order."""
    columns, builder = table.columns, TableBuilder(table.columns, request, skip)
    for batch in table.batches(skip):
        values = _values(batch, len(columns.numeric), table.arrow)
        wrong = columns.first_wrong(values)
        if wrong is not None:
            raise table.wrong_value(*wrong, float(values[wrong]))
        start = 0
        while start < len(values):
            stop = len(values) if rows is None else min(len(values), start + rows - builder.rows)
            part = values[start:stop]
            if request.sparse:
                builder.stored += int(np.count_nonzero(part))
                table.check_size(builder.stored, _WEIGHT_OF_STORED)
            if columns.tags is not None:
                _add_tags(table, batch.column(len(columns.numeric)).slice(start, len(part)), builder)
            builder.add(part)
            start = stop
            if builder.rows == rows:
                yield builder
                builder = TableBuilder(columns, request, builder.first_row + builder.rows)
    if builder.rows or not builder.first_row:
        yield builder


def table_blocks(
    table: Table, request: Request, label_names: Sequence[str] | None, rows: int, skip: int
) -> Generator[Block, None, int]:
    """Yield the rows of a table in blocks; `label_names` are those that a column of lists may have."""
    names = None if label_names is None else _check_list("label_names", label_names)
    labels = None if names is None else {name: column for column, name in enumerate(names)}
    features = tuple(table.columns.names[column] for column in table.columns.features)
    read = 0
    for builder in read_batches(table, request, rows, skip):
        builder.check_rows()
        yield builder.block(features, labels)
        read += builder.rows
    return table.skipped + read


def listed_labels(table: Table, request: Request) -> set[Tag]:
    """Return all labels that a column of a table lists."""
    found: set[Tag] = set()
    for builder in read_batches(table, request, _ROWS_AT_ONCE):
        found.update(builder.tags.known)
    return found


def _values(batch: Any, count: int, arrow: Any) -> NDArray[np.float64]:
    """Return the first columns of a batch as numbers, with NaN for null."""
    values, wanted = np.empty((count, batch.num_rows)), arrow.float64()
    for position, column in enumerate(values):
        array = batch.column(position)
        if array.type != wanted:
            array = array.cast(wanted, safe=False)  # an integer beyond 2**53 becomes the nearest float
        column[:] = array.to_numpy(zero_copy_only=False)
    return values.T


def _add_tags(table: Table, array: Any, builder: TableBuilder) -> None:
    """Add the labels that a column lists, as lists or as text; each distinct text is split once."""
    request, arrow = builder.request, table.arrow
    lists = is_list(array.type, arrow.types)
    if not lists:
        texts, rows = _distinct(array, arrow)
        array = arrow.compute.split_pattern(texts, request.label_separator)
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    distinct, listed = _distinct(array.flatten(), arrow)
    words = distinct.to_pylist()
    owners = np.repeat(np.arange(len(lengths)), lengths)
    if None in words:
        row = builder.first_row + builder.rows + int(owners[np.argmax(listed == words.index(None))])
        rule = f"label column {shown(request.label_column)} must not list null (row {row + 1})"
        raise DatasetFormatError.at(table.columns.path, None, rule, None, "Remove it from the list.")
    tags = [word if isinstance(word, int) else word.strip() for word in words]
    real = np.array([tag != "" for tag in tags], np.bool_)[listed]
    listed, counts = listed[real], np.bincount(owners[real], minlength=len(lengths))
    total = int((counts if lists else counts[rows]).sum())
    builder.listed += total
    table.check_size(builder.listed, _WEIGHT_OF_LABEL)  # before long, often repeated texts are expanded
    if not lists:
        starts, counts = (np.cumsum(counts) - counts)[rows], counts[rows]
        listed = listed[np.repeat(starts - (np.cumsum(counts) - counts), counts) + np.arange(total)]
    builder.tags.add(tags, listed, counts)


def _distinct(array: Any, arrow: Any) -> tuple[Any, NDArray[np.int64]]:
    """Return the distinct values of an array, null among them, and for each element which of them it is."""
    if not arrow.types.is_dictionary(array.type):
        array = array.dictionary_encode()
    codes = array.indices.cast(arrow.int64()).fill_null(len(array.dictionary)).to_numpy(zero_copy_only=False)
    used = np.zeros(len(array.dictionary) + 1, np.bool_)
    used[codes] = True
    places = np.flatnonzero(used)
    values = array.dictionary.take(arrow.array(places, mask=places == len(array.dictionary)))
    return values, (np.cumsum(used) - 1)[codes]


def is_list(kind: Any, types: Any) -> bool:
    """Say whether a type is one of pyarrow's lists."""
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))
