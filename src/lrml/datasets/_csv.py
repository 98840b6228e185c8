"""Reader of CSV tables, by the parser of the standard library and bulk conversion of the cells."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from math import nan
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lrml.datasets._errors import DatasetFormatError
from lrml.datasets._lines import numbered_lines
from lrml.datasets._record import MultiLabelDataset
from lrml.datasets._table import TableBuilder
from lrml.datasets._table_columns import Columns, Request, choose_columns

_CHUNK_BYTES = 1 << 20  # enough rows to make bulk conversion pay, few enough to keep memory flat
# A row may span lines, inside quotes; without a limit one stray quote could take all memory. Cells are
# limited as well, by csv.field_size_limit().
_LONGEST_ROW = 1 << 24
_MOST_KNOWN = 1 << 17  # cells that are remembered

_WORDS = {"": nan, "na": nan, "null": nan, "true": 1.0, "false": 0.0}
_SPELLINGS = {form: value for word, value in _WORDS.items() for form in (word, word.title(), word.upper())}
# What float() accepts, less underscores and the digits of other scripts.
_NUMBER = re.compile(
    r"[-+]?+(?:(?:\d++(?:\.\d*+)?+|\.\d++)(?:e[-+]?+\d++)?+|nan|inf(?:inity)?+)", re.ASCII | re.IGNORECASE
)


def read_csv(
    path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | int | None = None,
    label_column: str | None = None,
    label_separator: str = ",",
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    delimiter: str | None = None,
    sparse: bool = False,
    name: str | None = None,
) -> MultiLabelDataset:
    r"""Read a multi-label dataset from a CSV file.

    The file is in UTF-8 and has a header; cells may be in double quotes, with newlines inside. It is read
    in chunks. Exactly one of `labels` and `label_column` says where the labels are.

    Parameters
    ----------
    path : path-like
        The file; ``.gz``, ``.bz2`` and ``.xz`` files are decompressed on the way.
    labels : sequence of str, or int, default=None
        Names of the columns that are labels, one column per label, in the order wanted; or n for the first
        n columns of the file, -n for the last n. Cells are 0 or 1, or true or false; an empty cell means
        that it is unknown whether the label applies.
    label_column : str, default=None
        Name of one column that lists the labels of a row, such as ``"red, round"``. Blanks around a label
        are dropped, an empty cell means no label, a label twice in a row counts once. The labels are
        sorted by code points, and Y is sparse.
    label_separator : str, default=","
        What separates two labels in `label_column`.
    features : sequence of str, default=None
        Names of the columns that are features, in the order wanted; None takes all columns that are
        neither labels nor in `ignore`.
    ignore : sequence of str, default=()
        Names of columns to leave out, such as identifiers and text.
    delimiter : str, default=None
        The character between two cells; None is a tabulator for ``.tsv`` files (also compressed), else a
        comma.
    sparse : bool, default=False
        Whether X, and Y, are sparse; nothing is made dense as a whole on the way.
    name : str, default=None
        Name of the dataset; None takes the file name without its suffix.

    Returns
    -------
    MultiLabelDataset
        The dataset, without a split. In X, empty cells, NaN, NA and null are NaN; true is 1, false is 0.

    Raises
    ------
    DatasetFormatError
        If the file breaks a rule of the format, a feature is not a finite number, or a named column is
        not there. The message names the line; for a row that spans several lines, the last of them.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "toys.csv")
    ...     _ = path.write_text('id,size,tags\na,2.5,"red, round"\nb,,round\n')
    ...     toys = read_csv(path, label_column="tags", ignore=["id"])
    >>> toys
    <MultiLabelDataset toys: X (2, 1) dense, Y (2, 2) sparse, no split>
    >>> toys.label_names
    ('red', 'round')
    >>> toys.X
    array([[2.5],
           [nan]])
    """
    request = Request(labels, label_column, label_separator, features, ignore, sparse)
    table = _Rows(path, _check_delimiter(path, delimiter))
    columns = choose_columns(path, table.header, request, line=table.header_line)
    builder = TableBuilder(columns, request)
    converter, tags = _Converter(columns), columns.tags
    for chunk in table.chunks():
        values = converter.values(chunk)
        builder.add(values, () if tags is None else (request.split(row[tags]) for row in chunk.rows))
    return builder.finish(name)


def _check_delimiter(path: str | os.PathLike[str], delimiter: str | None) -> str:
    """Return the delimiter to use."""
    if delimiter is None:
        suffixes = [suffix.lower() for suffix in Path(path).suffixes[-2:]]
        is_tsv = suffixes[-1:] == [".tsv"] or suffixes in ([".tsv", s] for s in (".gz", ".bz2", ".xz"))
        return "\t" if is_tsv else ","
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(
            f"delimiter must be one character, neither a double quote nor a line end, got {delimiter!r}. "
            'Pass what stands between two cells, such as ";".'
        )
    return delimiter


class _Chunk(NamedTuple):
    """Some rows, and the line on which each of them ends."""

    rows: list[list[str]]
    lines: list[int]


class _Rows:
    """The rows of a file; the first one that is not blank is the header."""

    def __init__(self, path: str | os.PathLike[str], delimiter: str) -> None:
        self._path, self._delimiter = path, delimiter
        self._row_bytes = 0  # of the row being read
        self._reader = csv.reader(self._text(), delimiter=delimiter, strict=True)
        header = next(self._cells(), None)
        if header is None:
            raise self._error("a table must have a header", "nothing", "Check that the file is complete.")
        if len(header) == 1:
            raise self._error(
                f"a table must have two columns or more, separated by {delimiter!r}",
                header[0],
                "Pass another delimiter if the columns are separated otherwise.",
            )
        self.header, self.header_line = header, self._reader.line_num

    def chunks(self) -> Iterator[_Chunk]:
        """Yield the rows after the header."""
        rows, lines, size, width = list[list[str]](), list[int](), 0, len(self.header)
        for row in self._cells():
            if len(row) != width:
                raise self._error(
                    f"a row must have {width} cells, as the header has, separated by {self._delimiter!r}",
                    f"{len(row)} cells",
                    "Complete the row; put cells that contain the delimiter in double quotes.",
                )
            rows.append(row)
            lines.append(self._reader.line_num)
            size += self._row_bytes
            if size >= _CHUNK_BYTES:
                yield _Chunk(rows, lines)
                rows, lines, size = [], [], 0
        if rows:
            yield _Chunk(rows, lines)

    def _cells(self) -> Iterator[list[str]]:
        """Yield the cells of each row that is not blank."""
        try:
            for row in self._reader:
                if len(row) > 1 or (row and row[0].strip()):
                    yield row
                self._row_bytes = 0
        except csv.Error as error:
            raise self._error(
                "rows must be in CSV form",
                str(error),
                "Check quotes and line ends from here; for a very long cell, raise csv.field_size_limit().",
            ) from error

    def _text(self) -> Iterator[str]:
        """Yield the lines of the file as text."""
        for number, line in numbered_lines(self._path):
            self._row_bytes += len(line)
            if self._row_bytes > _LONGEST_ROW:
                rule = f"a row must not be longer than {_LONGEST_ROW} bytes"
                remedy = "Check that no double quote is left open."
                raise DatasetFormatError.at(self._path, number, rule, line[:40], remedy)
            try:
                yield line.decode()
            except UnicodeDecodeError as error:
                rule, remedy = "text must be in UTF-8", "Save the file in UTF-8."
                got = line[max(error.start - 20, 0) : error.start + 20]
                raise DatasetFormatError.at(self._path, number, rule, got, remedy) from error

    def _error(self, rule: str, got: object, remedy: str) -> DatasetFormatError:
        return DatasetFormatError.at(self._path, self._reader.line_num or None, rule, got, remedy)


class _Converter:
    """Takes the numeric columns out of rows of text, and turns them into checked numbers."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._known: _KnownNumbers | None = _KnownNumbers()

    def values(self, chunk: _Chunk) -> NDArray[np.float64]:
        """Return features, then labels, of each row."""
        columns, width = self._columns, len(self._columns.numeric)
        cells = self._cells(chunk.rows)
        flat = self._numbers(cells)
        if flat is None:
            flat = np.empty(len(cells))
            for index, cell in enumerate(cells):
                value = _number(cell)
                if value is None:
                    raise columns.wrong_value(index % width, cell, line=chunk.lines[index // width])
                flat[index] = value
        values = flat.reshape(len(chunk.rows), width)
        wrong = columns.first_wrong(values)
        if wrong is not None:
            (row, position), line = wrong, chunk.lines[wrong[0]]
            raise columns.wrong_value(position, cells[row * width + position], line=line, finite=True)
        return values

    def _cells(self, rows: list[list[str]]) -> list[str]:
        """Return the cells of the numeric columns, row by row."""
        wanted = self._columns.numeric
        if wanted == tuple(range(len(self._columns.names))):
            return list(chain.from_iterable(rows))
        if len(wanted) == 1:  # itemgetter would return the cell instead of a tuple
            return [row[wanted[0]] for row in rows]
        return list(chain.from_iterable(map(itemgetter(*wanted), rows)))

    def _numbers(self, cells: list[str]) -> NDArray[np.float64] | None:
        """Convert all cells at once; return None if some cell is unusual, or wrong.

        Whatever this accepts, `_number` accepts with the same value.
        """
        known = self._known
        if known is None:
            return _parsed(cells)
        before = len(known)
        try:
            values = np.fromiter(map(known.__getitem__, cells), np.float64, len(cells))
        except ValueError:
            return None
        # Looking up is faster than parsing only as long as most cells have been seen before.
        if len(known) - before > len(cells) // 4:
            self._known = None
        elif len(known) > _MOST_KNOWN:
            known.clear()
        return values


class _KnownNumbers(dict[str, float]):
    """Cells that have been seen, and their values; a new one is converted on the way."""

    def __missing__(self, cell: str) -> float:
        value = _number(cell)
        if value is None:
            raise ValueError(cell)
        self[cell] = value
        return value


def _parsed(cells: list[str]) -> NDArray[np.float64] | None:
    """Convert cells by float(), the fastest way for numbers that are all different."""
    text = "".join(cells)
    if "_" in text or not text.isascii():  # float() would take 1_000 and the digits of other scripts
        return None
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        pass
    try:
        return np.fromiter((float(_SPELLINGS.get(cell, cell)) for cell in cells), np.float64, len(cells))
    except ValueError:
        return None


def _number(cell: str) -> float | None:
    """Convert a cell; return None if it is not a number."""
    text = cell.strip()
    if _NUMBER.fullmatch(text) is not None:
        return float(text)
    return _WORDS.get(text.lower())
