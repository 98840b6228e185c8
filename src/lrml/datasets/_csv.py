"""Reader of CSV tables, by the parser of the standard library and bulk conversion of the cells."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from lrml._shown import shown
from lrml.datasets._csv_cells import Chunk, Converter, are_data
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._lines import numbered_lines
from lrml.datasets._record import MultiLabelDataset
from lrml.datasets._table import TableBuilder
from lrml.datasets._table_columns import Request, choose_columns

_CHUNK_BYTES = 1 << 20  # enough rows to make bulk conversion pay, few enough to keep memory flat
# A row may span lines, inside quotes; without a limit one stray quote could take all memory. Cells are
# limited as well, by csv.field_size_limit().
_LONGEST_ROW = 1 << 24


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
        n columns of the file, -n for the last n. Cells are 0 or 1, true or false, or yes or no; an empty
        cell means that it is unknown whether the label applies.
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
        The dataset, without a split. In X, empty cells, NaN, NA and null are NaN; true and yes are
        1, false and no are 0.

    Raises
    ------
    DatasetFormatError
        If the file breaks a rule of the format, a feature is not a finite number, a named column is
        not there, or the header seems to be missing. The message names the line; for a row that spans
        several lines, the last of them.

    Notes
    -----
    A first line of numbers only is taken for a row of a file without a header, and refused, unless they
    count the columns from 0 or 1, as pandas does for columns without names.

    The parser is that of the standard library, so that no other package is needed; pandas and pyarrow are
    several times faster. Convert a large table to Parquet or svmlight once.

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
    converter, tags = Converter(columns), columns.tags
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
            "delimiter must be one character, neither a double quote nor a line end, got "
            f'{shown(delimiter)}. Pass what stands between two cells, such as ";".'
        )
    return delimiter


class _Rows:
    """The rows of a file; the first one that is not blank is the header."""

    def __init__(self, path: str | os.PathLike[str], delimiter: str) -> None:
        self._path, self._delimiter = path, delimiter
        self._row_bytes = 0  # of the row being read
        self._reader = csv.reader(self._text(), delimiter=delimiter, strict=True)
        header = next(self._cells(), None)
        if header is None:
            raise self._error(
                "a table must have a header", Words("an empty file"), "Check that the file is complete."
            )
        if len(header) == 1:
            raise self._error(
                f"a table must have two columns or more, separated by {delimiter!r}",
                header[0],
                "Give the delimiter if the columns are separated otherwise.",
            )
        if are_data(header):
            raise self._error(
                "the first line must name the columns",
                header[0],
                "It has numbers only, as if the header was missing: put a line with names first.",
            )
        self.header, self.header_line = header, self._reader.line_num

    def chunks(self) -> Iterator[Chunk]:
        """Yield the rows after the header."""
        rows, lines, size, width = list[list[str]](), list[int](), 0, len(self.header)
        for row in self._cells():
            if len(row) != width:
                raise self._error(
                    f"a row must have {width} cells, as the header has, separated by {self._delimiter!r}",
                    Words(f"{len(row)} {'cell' if len(row) == 1 else 'cells'}"),
                    "Complete the row; put cells that contain the delimiter in double quotes.",
                )
            rows.append(row)
            lines.append(self._reader.line_num)
            size += self._row_bytes
            if size >= _CHUNK_BYTES:
                yield Chunk(rows, lines)
                rows, lines, size = [], [], 0
        if rows:
            yield Chunk(rows, lines)

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
