"""Readers of tables, by pyarrow: CSV and Parquet differ only in how batches of rows are opened."""

from __future__ import annotations

import io
import lzma
import os
import re
import zlib
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lrml._shown import shown
from lrml.datasets._columns import (
    Columns,
    Request,
    Tag,
    choose_columns,
    is_list,
    listed_labels,
    read_batches,
    table_blocks,
)
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._lines import (
    LONGEST_ROW,
    CsvStart,
    check_width,
    csv_cells,
    numbered_lines,
    numbers_rows,
    open_source,
)
from lrml.datasets._record import Block, MultiLabelDataset

# CSV: bytes that are read at a time, and parsed in parts.
_BLOCK_BYTES = 1 << 23
_PART_BYTES = 1 << 20
_WORDS = {"": nan, "na": nan, "null": nan, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
_MISSING = [form for word in ("", "na", "null") for form in {word, word.title(), word.upper()}]
# What float() accepts, less underscores and the digits of other scripts.
_NUMBER = re.compile(
    r"[-+]?+(?:(?:\d++(?:\.\d*+)?+|\.\d++)(?:e[-+]?+\d++)?+|nan|inf(?:inity)?+)", re.ASCII | re.IGNORECASE
)
_NAN_WITH_WORDS = re.compile(rb"nan\(", re.IGNORECASE)

# Parquet.
_BATCH_CELLS = 1 << 22  # numbers in memory at a time, 32 MiB
_BATCH_ROWS = 1 << 16
_BATCH_ROWS_WITH_LISTS = 1 << 13  # they may be long
# A few bytes can repeat a value billions of times, or claim to. Real tables stay below this many values per
# byte of the file; up to the second number of values (256 MiB) there is no limit.
_VALUES_PER_BYTE = 1 << 6
_VALUES_ALWAYS = 1 << 25
_MOST_IN_A_LIST = 1_000_000  # of the footer, as pyarrow has it
WEIGHT_OF_BYTE = 1 / 8  # memory of a byte of a page, relative to a number


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
    block by block. Exactly one of `labels` and `label_column` says where the labels are. This needs pyarrow:
    ``pip install "lrml[tables]"``.

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
        neither labels nor in `ignore`, and an empty list reads labels alone, with an X of no columns.
    ignore : sequence of str, default=()
        Names of columns to leave out, such as identifiers and text. A first column without a name is left out
        by itself if it counts the first rows from 0 or 1, as the index of a pandas frame does.
    delimiter : str, default=None
        The character between two cells. None is a tabulator for ``.tsv`` files (also compressed), else a
        semicolon or a tabulator if only this splits the first rows into the same number of cells, else a
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
    ImportError
        If pyarrow is not installed.
    DatasetFormatError
        If the file breaks a rule of the format, a feature is not a finite number, a named column is
        not there, or the header seems to be missing. The message names the line; for a row that spans
        several lines, the last of them.

    Notes
    -----
    A first line of numbers only is taken for a row of a file without a header, and refused, unless they
    count the columns from 0 or 1, as pandas does for columns without names.

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
    return next(read_batches(_CsvTable(path, request, delimiter), request)).finish(name)


def read_parquet(
    path: str | os.PathLike[str],
    *,
    labels: Sequence[str] | int | None = None,
    label_column: str | None = None,
    label_separator: str = ",",
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    sparse: bool = False,
    name: str | None = None,
) -> MultiLabelDataset:
    """Read a multi-label dataset from a Parquet file.

    The file is read in batches of rows, and only the columns that are needed. Exactly one of `labels` and
    `label_column` says where the labels are. This needs pyarrow: ``pip install "lrml[tables]"``.

    Parameters
    ----------
    path : path-like
        The file.
    labels, label_column, label_separator, features, ignore, sparse, name
        As for `read_csv`, with these differences. Values of label columns are 0 or 1, or true or false; null
        means that it is unknown whether the label applies. `label_column` holds text such as
        ``"red, round"``, or lists of text or of integers; an empty text or list and null mean no label.
        Integer labels are sorted by size.

    Returns
    -------
    MultiLabelDataset
        The dataset, without a split. In X, null is NaN.

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    DatasetFormatError
        If the file is damaged, declares more values than its size makes credible, a column has a type
        that is not supported, a feature is infinite, or a named column is not there.

    Notes
    -----
    The index of a pandas frame is not a column of the table. To guard against damaged and malicious files, a
    file may have at most 64 values per byte (or 2**25 values, if that is more), and may not declare pages of
    more bytes than so many numbers have. Memory is bounded by what is read and by one row group as it is in
    the file, except that the list of labels of one row is read as a whole.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import pandas as pd
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "toys.parquet")
    ...     pd.DataFrame({"size": [2.5, None], "red": [1, 0], "round": [1, 1]}).to_parquet(path)
    ...     toys = read_parquet(path, labels=["red", "round"])
    >>> toys
    <MultiLabelDataset toys: X (2, 1) dense, Y (2, 2) dense, no split>
    >>> toys.X
    array([[2.5],
           [nan]])
    """
    request = Request(labels, label_column, label_separator, features, ignore, sparse)
    arrow = import_pyarrow("Parquet")
    with damage_reported(path, arrow), arrow.OSFile(os.fspath(path)) as source:
        builder = next(read_batches(_ParquetTable(path, request, arrow, source), request))
    return builder.finish(name)


def csv_blocks(
    path: str | os.PathLike[str],
    rows: int,
    *,
    labels: Sequence[str] | int | None = None,
    label_column: str | None = None,
    label_separator: str = ",",
    label_names: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    delimiter: str | None = None,
    sparse: bool = False,
    labelled: bool = True,
    skip: int = 0,
) -> Generator[Block, None, int]:
    """Read a CSV file block by block; see `iter_blocks`."""
    request = Request(labels, label_column, label_separator, features, ignore, sparse, False, not labelled)
    table = _CsvTable(path, request, delimiter)
    return table_blocks(table, request, label_names, rows, skip)


def parquet_blocks(
    path: str | os.PathLike[str],
    rows: int,
    *,
    labels: Sequence[str] | int | None = None,
    label_column: str | None = None,
    label_separator: str = ",",
    label_names: Sequence[str] | None = None,
    features: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    sparse: bool = False,
    labelled: bool = True,
    skip: int = 0,
) -> Generator[Block, None, int]:
    """Read a Parquet file block by block; see `iter_blocks`."""
    request = Request(labels, label_column, label_separator, features, ignore, sparse, False, not labelled)
    arrow = import_pyarrow("Parquet")
    with damage_reported(path, arrow), arrow.OSFile(os.fspath(path)) as source:
        table = _ParquetTable(path, request, arrow, source)
        return (yield from table_blocks(table, request, label_names, rows, skip))


def labels_listed(
    path: str | os.PathLike[str],
    kind: str,
    label_column: str,
    label_separator: str = ",",
    delimiter: str | None = None,
    **_: object,
) -> set[Tag]:
    """Return all labels that occur in the label column of a table; other columns are not converted."""
    request = Request(None, label_column, label_separator, [], [], False)
    if kind == "csv":
        return listed_labels(_CsvTable(path, request, delimiter), request)
    arrow = import_pyarrow("Parquet")
    with damage_reported(path, arrow), arrow.OSFile(os.fspath(path)) as source:
        return listed_labels(_ParquetTable(path, request, arrow, source), request)


def import_pyarrow(kind: str) -> Any:
    """Return pyarrow, with the modules that are needed here."""
    try:
        for module in ("compute", "csv", "parquet"):
            import_module(f"pyarrow.{module}")
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError(
            f'reading {kind} files needs pyarrow, got "{error}". Install it: pip install "lrml[tables]".'
        ) from error


# CSV.


def check_delimiter(path: str | os.PathLike[str], delimiter: str | None) -> str:
    """Return the delimiter to use, as far as the name of the file says it."""
    if delimiter is None:
        suffixes = [suffix.lower() for suffix in Path(path).suffixes[-2:]]
        is_tsv = suffixes[-1:] == [".tsv"] or suffixes in ([".tsv", s] for s in (".gz", ".bz2", ".xz"))
        return "\t" if is_tsv else ","
    if delimiter == "\\t":  # as it is typed in a shell
        return "\t"
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n':
        raise ValueError(
            "delimiter must be one character, neither a double quote nor a line end, got "
            f'{shown(delimiter)}. Pass what stands between two cells, such as ";".'
        )
    return delimiter


def find_delimiter(path: str | os.PathLike[str], delimiter: str | None, start: CsvStart) -> tuple[str, bool]:
    """Return the delimiter to use, and whether the first rows say it rather than the caller or the name."""
    usual = check_delimiter(path, delimiter)
    found = start.delimiter() if delimiter is None and usual == "," else None
    return (usual, False) if found in (None, usual) else (found, True)


def say_delimiter(mark: str) -> str:
    """Return the remedy for a table whose cells are separated otherwise."""
    typed = {"\t": "\\t"}.get(mark, mark)
    return f'Pass delimiter="{typed}" (on the command line: --delimiter "{typed}")'


def _number(cell: str) -> float | None:
    """Convert a cell; return None if it is not a number."""
    text = cell.strip()
    return float(text) if _NUMBER.fullmatch(text) is not None else _WORDS.get(text.lower())


class _Block(NamedTuple):
    """Rows of a CSV file: text, first line, whether it is strictly CSV, and whether rows may span lines."""

    text: bytes
    line: int
    strict: bool
    spans: bool = True


class _CsvTable:
    """A CSV file, parsed by pyarrow block by block.

    A block that pyarrow refuses, or might read otherwise than a strict parser, is parsed by the standard
    library instead. That is slow, but accepts more than pyarrow (blanks for a missing number, lines of
    blanks) and names the line of an error.
    """

    def __init__(self, path: str | os.PathLike[str], request: Request, delimiter: str | None) -> None:
        check_delimiter(path, delimiter)
        self.arrow = import_pyarrow("CSV")
        head = CsvStart(numbered_lines(path))
        delimiter, _ = find_delimiter(path, delimiter, head)
        self._path, self._delimiter = path, delimiter
        self._header_line, header = self._header(head)
        if header[0] == "" and numbers_rows(row[0] for row in head.rows(delimiter)[1:]):
            request = request.without_index()
        self.columns = choose_columns(path, header, request, line=self._header_line)
        self._words = set[int]()  # numeric columns, by position, that have words such as true
        self._block, self._ahead = _Block(b"", 0, False), 0  # at present, and rows of it ahead of a batch
        self.skipped = 0
        # Whole rows. A quote that opens a cell must have its match before a delimiter or a line end: pyarrow
        # would read "1"2 as 12.
        mark = re.escape(delimiter.encode())
        start = rb"(?:\A|(?<=\n)|(?<=%s))" % mark
        quoted = rb'%s"(?:[^"]++|"")*+"(?=\r|\n|%s)' % (start, mark)
        self._strict_rows = re.compile(rb'(?:(?:[^"\n]++|%s|(?!%s)")*+\n)*+' % (quoted, start))

    def check_size(self, count: int, weight: float) -> None:
        """Check nothing: text is about as long as the numbers it becomes."""

    def batches(self, skip: int = 0) -> Iterator[Any]:
        """Yield the rows after the header."""
        for block in self._blocks():
            self._block, self._ahead = block, 0
            if skip and (count := self._n_rows()) <= skip:
                skip -= count
                self.skipped += count
                continue
            for batch in self._parsed() if block.strict else [self._looked_at()]:
                self._ahead += (cut := min(skip, batch.num_rows))
                self.skipped, skip = self.skipped + cut, skip - cut
                yield batch.slice(cut)
                self._ahead += batch.num_rows - cut

    def wrong_value(self, row: int, position: int, value: float) -> DatasetFormatError:
        """Look for the line of a number that is infinite, or is no label."""
        line, cells = list(self._rows())[self._ahead + row]
        cell = cells[self.columns.numeric[position]]
        return self.columns.wrong_value(position, cell, line=line, finite=True)

    def _blocks(self) -> Iterator[_Block]:
        """Yield the file after the header in blocks of whole rows."""
        try:
            with open_source(self._path) as stream:
                for _ in range(self._header_line):
                    stream.readline()
                line, rest, piece = self._header_line + 1, b"", b"-"
                while piece:
                    piece = stream.read(_BLOCK_BYTES)
                    if not piece.endswith(b"\n"):  # whole lines are seldom cut again, which would copy them
                        piece += stream.readline(LONGEST_ROW)
                    if rest and not piece and not rest.endswith(b"\n"):
                        rest += b"\n"
                    rest += piece
                    block = self._whole_rows(rest, line)
                    rest = rest[len(block.text) :]
                    if block.text:
                        yield block
                        # Faster than bytes.count.
                        line += int(np.count_nonzero(np.frombuffer(block.text, np.uint8) == ord("\n")))
                    if rest and (not piece or len(rest) > LONGEST_ROW):  # a row that never ends, or is wrong
                        yield _Block(rest, line, strict=False)
                        line, rest = line + rest.count(b"\n"), b""
        except (OSError, EOFError, zlib.error, lzma.LZMAError):
            deque(numbered_lines(self._path), maxlen=0)  # says what is wrong with compressed data
            raise

    def _whole_rows(self, text: bytes, line: int) -> _Block:
        """Cut off what follows the last whole row; say whether the rest is strictly CSV, in UTF-8."""
        end, spans = self._end_of_quoted_rows(text) if b'"' in text else (text.rfind(b"\n") + 1, False)
        text = text[:end]
        # pyarrow would take a single \r for a line end, and nan(1), which C knows, for a missing number.
        strict = b"\r" not in text or text.count(b"\r") == text.count(b"\r\n")
        if b"(" in text and _NAN_WITH_WORDS.search(text) is not None:
            strict = False
        if not text.isascii():
            try:
                text.decode()
            except UnicodeDecodeError:
                strict = False
        return _Block(text, line, strict, spans)

    def _end_of_quoted_rows(self, text: bytes) -> tuple[int, bool]:
        """Return where the last whole row ends that is strictly CSV, and whether some row may span lines."""
        data, mark = np.frombuffer(text, np.uint8), self._delimiter.encode()
        quotes, ends = np.flatnonzero(data == ord('"')), np.flatnonzero(data == ord("\n"))
        outside = ends[np.searchsorted(quotes, ends) % 2 == 0]
        end = int(outside[-1]) + 1 if outside.size else 0
        quotes = quotes[: np.searchsorted(quotes, end)]
        before, after = data[quotes[::2] - 1], data[quotes[1::2] + 1]
        before[quotes[::2] == 0] = ord("\n")
        around = np.frombuffer(mark + b'"\n', np.uint8), np.frombuffer(mark + b'"\r\n', np.uint8)
        if len(mark) == 1 and np.isin(before, around[0]).all() and np.isin(after, around[1]).all():
            return end, outside.size < np.searchsorted(ends, end)
        found = self._strict_rows.match(text)  # slower, but it knows quotes in the middle of a cell
        return found.end() if found else 0, True

    def _n_rows(self) -> int:
        """Count the rows of the block; pyarrow finds all cells, but converts one column only."""
        if self._block.strict:
            with suppress(ValueError):
                return int(self._table([self.arrow.string()]).num_rows)
        return sum(1 for _ in self._rows())

    def _parsed(self) -> list[Any]:
        """Parse the block, by pyarrow if possible."""
        with suppress(ValueError):  # pyarrow's own error is one
            try:
                return list(self._with_words().to_batches())
            except ValueError:
                if self._find_words():
                    return list(self._with_words().to_batches())
        return [self._looked_at()]

    def _with_words(self) -> Any:
        """Let pyarrow parse the block; columns with words are converted by their distinct words."""
        arrow, numeric = self.arrow, len(self.columns.numeric)
        text = arrow.dictionary(arrow.int32(), arrow.string())
        table = self._table(
            [
                text if position in self._words or position >= numeric else arrow.float64()
                for position in range(len(self.columns.wanted))
            ]
        )
        for position in self._words:
            column = table.column(position).combine_chunks()
            values = [_number(word) for word in column.dictionary.to_pylist()]
            if None in values:
                raise ValueError("a word that is no number")
            array = arrow.array(np.array(values, np.float64)[column.indices.to_numpy()])
            table = table.set_column(position, str(position), array)
        return table

    def _find_words(self) -> bool:
        """Find columns of the block that have words; say whether there are any that were not known."""
        arrow, before = self.arrow, len(self._words)
        table = self._table([arrow.string()] * len(self.columns.wanted), strings_can_be_null=True)
        for position in range(len(self.columns.numeric)):
            try:
                table.column(position).cast(arrow.float64())
            except arrow.ArrowInvalid:
                self._words.add(position)
        return len(self._words) > before

    def _table(self, types: list[Any], **options: Any) -> Any:
        """Let pyarrow parse the wanted columns of the block, as columns of the types, as far as given."""
        parser, names = self.arrow.csv, [str(column) for column in range(len(self.columns.names))]
        wanted = [names[column] for column in self.columns.wanted[: len(types)]]
        part = max(_PART_BYTES, 512 * len(names))
        return parser.read_csv(
            self.arrow.BufferReader(self._block.text),
            # Threads of pyarrow sometimes abort a program that ends soon after they have worked.
            parser.ReadOptions(column_names=names, block_size=part, use_threads=False),
            parser.ParseOptions(delimiter=self._delimiter, newlines_in_values=self._block.spans),
            parser.ConvertOptions(
                include_columns=wanted,
                column_types=dict(zip(wanted, types, strict=True)),
                null_values=_MISSING,
                **options,
            ),
        )

    def _looked_at(self) -> Any:
        """Convert the block row by row; refuse what is wrong, with its line."""
        columns, lines, cells = self.columns, list[int](), list[list[str]]()
        for line, row in self._rows():
            lines.append(line)
            cells.append([row[column] for column in columns.wanted])
        values = np.empty((len(columns.numeric), len(cells)))
        for index, row in enumerate(cells):
            for position in range(len(values)):
                value = _number(row[position])
                if value is None:
                    raise columns.wrong_value(position, row[position], line=lines[index])
                values[position, index] = value
        arrays = [self.arrow.array(column) for column in values]
        if columns.tags is not None:
            arrays.append(self.arrow.array([row[-1] for row in cells], self.arrow.string()))
        return self.arrow.RecordBatch.from_arrays(arrays, names=[str(n) for n in range(len(arrays))])

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows of the block as the standard library reads them, each with its last line."""
        width = len(self.columns.names)
        lines = enumerate(io.BytesIO(self._block.text), self._block.line)
        for line, row in csv_cells(self._path, lines, self._delimiter):
            check_width(self._path, line, row, width, self._delimiter)
            yield line, row

    def _header(self, start: CsvStart) -> tuple[int, list[str]]:
        """Return the first row that is not blank, and its last line."""
        line, header = next(csv_cells(self._path, start.lines, self._delimiter), (None, None))
        if line is None or header is None:
            rule, remedy = "a table must have a header", "Check that the file is complete."
            raise DatasetFormatError.at(self._path, None, rule, Words("an empty file"), remedy)
        counted = [[str(start + column) for column in range(len(header))] for start in (0, 1)]
        if len(header) == 1:
            rule = f"a table must have two columns or more, separated by {self._delimiter!r}"
            other = next((mark for mark in ";\t|" if mark in header[0]), ";")
            remedy = f"{say_delimiter(other)} if the columns are separated so."
        elif header not in counted and all(_NUMBER.fullmatch(name.strip()) for name in header):
            rule = "the first line must name the columns"
            remedy = "It has numbers only, as if the header was missing: put a line with names first."
        else:
            return line, header
        raise DatasetFormatError.at(self._path, line, rule, header[0], remedy)


# Parquet.


class ParquetFile:
    """A Parquet file, within what its size makes credible; `names` leaves out the index of a pandas frame."""

    def __init__(self, path: str | os.PathLike[str], arrow: Any, source: Any) -> None:
        self.path, self.arrow, self.ahead = path, arrow, 0  # rows ahead of a batch
        self.skipped = 0
        self._source = source
        self._options = {
            "pre_buffer": False,
            "page_checksum_verification": True,
            "arrow_extensions_enabled": False,
            # pyarrow allocates a list for as many elements as it claims to have, up to 700 bytes each, before
            # it reads the first. Each takes at least a byte of the footer, whose length the file states.
            "thrift_container_size_limit": min(max(_footer_bytes(source), 1), _MOST_IN_A_LIST),
        }
        file = arrow.parquet.ParquetFile(source, **self._options)
        self.schema, self.metadata = file.schema_arrow, file.metadata
        index = _index_of_frame(self.schema)
        self.names = [name for name in self.schema.names if name not in index]
        # The footer's data on single columns would tell more, but if damaged, pyarrow aborts the process. So
        # two lies are detected late: a page may be decompressed to 2 GiB, whatever the footer says of its row
        # group, and each column may claim, and read, the whole file.
        groups = range(self.metadata.num_row_groups)
        self._unpacked = sum(self.metadata.row_group(group).total_byte_size for group in groups)

    def check_size(self, count: int, weight: float = 1, what: str = "values in the columns to read") -> None:
        """Refuse a file that declares, or turns out to have, far more values than its size makes credible."""
        size = os.stat(self.path).st_size
        limit = int(max(_VALUES_ALWAYS, size * _VALUES_PER_BYTE) / weight)
        if count > limit:
            raise DatasetFormatError.at(
                self.path,
                None,
                f"a file of {size} bytes must not have more than {limit} {what}",
                count,
                "Get the file again if it may be damaged; else name fewer features, or do not compress it.",
            )

    def read(self, names: Sequence[str], rows: int, text: Sequence[str] = (), skip: int = 0) -> Iterator[Any]:
        """Yield batches of the named columns that are sound: pyarrow does not check text or offsets itself.

        Columns in `text` come as codes and their meaning, so that a long text that is often repeated is held
        once.
        """
        self.check_size(self.metadata.num_rows * len(names))
        self.check_size(self._unpacked, WEIGHT_OF_BYTE, "bytes in its pages")
        # There is no buffer_size: for a page that claims to have 2 GiB the buffer would grow to 2 GiB, while
        # a column that is read at once (pyarrow checks that the file has so many bytes) shows that it lies.
        schema = self.metadata.schema
        paths = [schema.column(leaf).path for leaf in range(len(schema))] if text else []
        leaves = [  # the path of a list in the file is longer than its name
            leaf for leaf in paths if any(f"{leaf}.".startswith(f"{name}.") for name in text)
        ]
        file = self.arrow.parquet.ParquetFile(
            self._source, metadata=self.metadata, read_dictionary=leaves, **self._options
        )
        # One row group at a time: pyarrow cannot join lists of codes that have different meanings.
        for group in range(file.num_row_groups):
            count = self.metadata.row_group(group).num_rows
            if skip - self.skipped >= count:
                self.skipped += count
                self.ahead += count
                continue
            options = {"row_groups": [group], "columns": list(names), "use_threads": False}
            for batch in file.iter_batches(batch_size=rows, **options):
                batch.validate(full=True)
                cut = min(skip - self.skipped, batch.num_rows)
                self.skipped += cut
                self.ahead += cut
                yield batch.select(list(names)).slice(cut)
                self.ahead += batch.num_rows - cut
        declared = self.metadata.num_rows
        if self.ahead != declared:
            rule = f"the file must have the {declared} rows that it declares"
            raise DatasetFormatError.at(self.path, None, rule, self.ahead, "Get the file again.")


class _ParquetTable(ParquetFile):
    """The columns of a Parquet file that a request names, as numbers and lists of labels."""

    def __init__(self, path: str | os.PathLike[str], request: Request, arrow: Any, source: Any) -> None:
        super().__init__(path, arrow, source)
        self.columns = choose_columns(path, self.names, request)
        _check_types(self.columns, self.schema, arrow.types)
        self.check_size(self.metadata.num_rows * len(self.columns.numeric))

    def batches(self, skip: int = 0) -> Iterator[Any]:
        """Yield batches that are small."""
        columns = self.columns
        names = [columns.names[column] for column in columns.wanted]
        most = _BATCH_ROWS if columns.tags is None else _BATCH_ROWS_WITH_LISTS
        rows = min(max(_BATCH_CELLS // len(names), 1), most)
        return self.read(names, rows, names[len(columns.numeric) :], skip)

    def wrong_value(self, row: int, position: int, value: float) -> DatasetFormatError:
        """Build the error for a number that is infinite, or is no label."""
        place = f" (row {self.ahead + row + 1})"
        return self.columns.wrong_value(position, value, place=place, finite=True)


@contextmanager
def damage_reported(path: str | os.PathLike[str], arrow: Any) -> Iterator[None]:
    """Turn all errors of pyarrow about the content of a file into one kind of error."""
    try:
        yield
    except DatasetFormatError:
        raise
    except (OSError, arrow.lib.ArrowException, ValueError, OverflowError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # a fault of the disk, or no such file
            raise
        rule, remedy = "the file must be whole and in Parquet format", "Get the file again, or write it anew."
        got = " ".join(str(error).split())
        raise DatasetFormatError.at(path, None, rule, got, remedy) from error


def _footer_bytes(source: Any) -> int:
    """Return how long a file says that its footer is; 0 for a file that is too short to have one."""
    tail: bytes = source.read_at(8, max(source.size() - 8, 0))
    return int.from_bytes(tail[:-4], "little")


def _index_of_frame(schema: Any) -> set[str]:
    """Return the names of the columns that hold the index of a pandas frame."""
    try:
        return {name for name in schema.pandas_metadata["index_columns"] if isinstance(name, str)}
    except (TypeError, KeyError, ValueError, RecursionError):  # not by pandas, or not as pandas writes it
        return set()


def _check_types(columns: Columns, schema: Any, types: Any) -> None:
    """Refuse columns whose type cannot be read."""
    for position, column in enumerate(columns.numeric):
        kind = schema.field(columns.names[column]).type
        inner = kind.value_type if types.is_dictionary(kind) else kind
        checks = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
        if not any(check(inner) for check in checks):
            raise columns.wrong_value(position, Words(f"type {kind}"))
    if columns.tags is None:
        return
    name = columns.names[columns.tags]
    kind = schema.field(name).type
    inner = kind.value_type if is_list(kind, types) else kind
    text = inner.value_type if types.is_dictionary(inner) else inner
    is_text = types.is_string(text) or types.is_large_string(text) or types.is_string_view(text)
    if not (is_text or (inner is not kind and types.is_integer(inner))):
        rule = f"label column {shown(name)} must hold text, or lists of text or of integers"
        remedy = "Convert the column, or name columns of 0 and 1 in labels."
        raise DatasetFormatError.at(columns.path, None, rule, Words(f"type {kind}"), remedy)
