"""Tables of texts or of numbers: CSV, Parquet, JSON lines, plain lines, and folders of texts."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml._shown import how_to_install, shown
from lrml.datasets._dataset import Columns, Dataset, Tags, TextDataset, indicator
from lrml.datasets._lines import (
    BINARY,
    DatasetFormatError,
    FileReader,
    Row,
    damage_told,
    decoded,
    numbered_lines,
    open_bytes,
    plain_name,
)
from lrml.datasets._roles import (
    FLAGS,
    Roles,
    counts_rows,
    find_roles,
    flag_of,
    guess_separator,
    is_number,
    tags_in,
)

_SAMPLE_ROWS = 1000  # that roles are guessed from
_BATCH_CELLS = 1 << 20  # numbers of a Parquet file that are read at a time
_DELIMITERS = ",;\t"
_BAD_ROW = re.compile(r"(?:In CSV column #(\d+): )?(?:CSV parse error: )?Row #(\d+): (.*)", re.DOTALL)


def import_pyarrow() -> Any:
    """Return pyarrow, with the modules that are needed here."""
    try:
        for module in ("compute", "csv", "parquet"):
            import_module(f"pyarrow.{module}")
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError(f"This file needs pyarrow ({error}). {how_to_install('tables')}") from error


class TableReader(FileReader):
    """Reads a table, whose roles are found first; or a stream, which can be read only once.

    X and Y of numbers are ``sparse`` if asked for.
    """

    bulk = 1 << 16
    has_numbers = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        roles: Roles,
        *,
        sparse: bool = False,
        stream: IO[bytes] | None = None,
    ) -> None:
        super().__init__(path, roles, sparse=sparse)
        if stream is not None:
            self.files = ()
        self._sparse, self._stream = sparse, stream
        self.roles = roles = self._found(roles)
        if roles.kind == "text":
            self.known = Columns(None, None)
        elif not self.has_numbers:
            raise self.error(None, "Tables of numbers are CSV or Parquet. Write the rows as one of them.")
        elif not roles.tags:  # else reading the lists says which labels there are
            self.known = Columns(roles.features, roles.labels or None)

    def _found(self, roles: Roles) -> Roles:
        """Return what is said of the columns, and what the first rows tell."""
        raise NotImplementedError

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield some columns in record batches of pyarrow."""
        raise NotImplementedError

    def line_of(self, row: int) -> int:
        """Return the line of a row, counted from 0."""
        return row + 1

    # Texts.

    def dataset(self, records: list[Any], first_row: int) -> TextDataset:
        """Return texts with their tags."""
        labelled = self.roles.has_labels and not self.roles.unlabelled
        tags = [self._tags(line, record) for line, record in records] if labelled else None
        texts = [self._text(line, record) for line, record in records]
        return TextDataset(self.name, texts, tags, self.path.name)

    def _text(self, line: int, record: dict[str, Any]) -> str:
        parts = []
        for name in self.roles.text:
            value = record.get(name)
            if isinstance(value, bool | list | dict):
                raise self.error(line, f"{shown(value)} in column {shown(name)} is no text. Correct it.")
            parts += [] if value in (None, "") else [str(value)]
        return "\n".join(parts)

    def _tags(self, line: int, record: dict[str, Any]) -> Tags:
        if self.roles.tags:
            return self._list(line, record.get(self.roles.tags))
        flags = {name: flag_of(record.get(name)) for name in self.roles.labels}
        for name, flag in flags.items():
            if flag is None:
                message = f"{shown(record.get(name))} in column {shown(name)} is not {BINARY}"
                raise self.error(line, message)
        return tuple(name for name, flag in flags.items() if flag)

    def _list(self, line: int, value: Any) -> Tags:
        """Return the tags that a cell lists."""
        try:
            return tags_in(value, self.roles.tag_separator)
        except ValueError as error:
            column = shown(self.roles.tags)
            message = f"{shown(value)} in column {column} lists no tags: {error}. Correct it, or pass "
            raise self.error(line, f"{message}tag_separator.") from error

    # Numbers.

    def blocks(self, rows: int, skip: int = 0) -> Iterator[Any]:
        """Yield so many rows at a time; labels in lists are those of each block."""
        if self.roles.kind == "text":
            yield from super().blocks(rows, skip)
            return
        roles, arrow, count = self.roles, import_pyarrow(), 0
        names = [*(roles.features or ()), *([roles.tags] if roles.tags else roles.labels)]
        rest: Any = None
        for batch in self.batches(names):
            table = arrow.Table.from_batches([batch])
            rest = table if rest is None else arrow.concat_tables([rest, table])
            count += batch.num_rows
            gone = min(skip, rest.num_rows)
            rest, skip = rest.slice(gone), skip - gone
            while rest.num_rows >= rows:
                yield self._numbers(rest.slice(0, rows), count - rest.num_rows)
                rest = rest.slice(rows)
        if rest is not None and rest.num_rows:
            yield self._numbers(rest, count - rest.num_rows)
        if not count:
            raise self.error(None, "There are no rows. Is the file complete?")
        self.n_rows = count

    def _numbers(self, table: Any, first_row: int) -> Dataset:
        """Convert rows of a pyarrow table, whose columns are features, then labels or a list of them."""
        roles, features = self.roles, self.roles.features or ()
        labels: Any = None if roles.unlabelled else () if roles.tags else roles.labels or None
        names = [*features, *(labels or ())]
        values = np.empty((len(names), table.num_rows))
        for place, name in enumerate(names):
            values[place] = self._floats(table.column(place), name)
        X, flags = values[: len(features)].T, values[len(features) :].T
        stored: Any = sparse.csr_array if self._sparse else np.asarray
        Y = unknown = None
        if roles.tags and labels is not None:
            cells = enumerate(_plain(table.column(len(features))).to_pylist(), first_row)
            lists = [self._list(self.line_of(row), cell) for row, cell in cells]
            labels = tuple(sorted(set().union(*lists)))
            Y = indicator(lists, labels)
        elif labels is not None:
            Y = stored(np.nan_to_num(flags, posinf=np.inf))
            unknown = sparse.csr_array(np.isnan(flags)) if np.isnan(flags).any() else None
        with self.cells_told(lambda row: self.line_of(first_row + row)):
            found = (stored(X), Y, features, labels, None, self.path.name, unknown, first_row)
            return Dataset(self.name, *found)

    def _floats(self, column: Any, name: str) -> NDArray[np.float64]:
        """Return a column as numbers, with NaN for null."""
        arrow, values = import_pyarrow(), _plain(column)
        try:
            if arrow.types.is_string(values.type) or arrow.types.is_large_string(values.type):
                raise ValueError("text")
            found: NDArray[np.float64] = values.cast(arrow.float64(), safe=False).to_numpy()
        except (arrow.ArrowException, ValueError) as error:
            message = f"Column {shown(name)} is of type {column.type}, not of numbers. Convert or ignore it."
            raise self.error(None, message) from error
        return found


def _plain(array: Any) -> Any:
    """Return an array of values, where it has codes and their meaning."""
    arrow = import_pyarrow()
    return array.cast(array.type.value_type) if arrow.types.is_dictionary(array.type) else array


class ParquetReader(TableReader):
    """Reads a Parquet file, without the index of a pandas frame."""

    has_numbers = True

    def _found(self, roles: Roles) -> Roles:
        if self._stream is not None:
            raise ValueError("A stream cannot be Parquet. Pass the path of a file.")
        with self._opened() as file:
            index = (file.schema_arrow.pandas_metadata or {}).get("index_columns", ())
            names = [name for name in file.schema_arrow.names if name not in index]
            sample = next(file.iter_batches(_SAMPLE_ROWS, columns=names), None)
        if sample is None or not sample.num_rows:
            raise self.error(None, "There is no row. Is the file complete?")
        rows = list(zip(*(_plain(column).to_pylist() for column in sample.columns), strict=True))
        return find_roles(self.path, names, rows, roles)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        with self._opened() as file:
            rows = min(max(_BATCH_CELLS // max(len(columns), 1), 1), 1 << 16)
            for batch in file.iter_batches(rows, columns=list(columns), use_threads=False):
                yield batch.select(list(columns))

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield rows of texts, each with its number."""
        roles, number = self.roles, 0
        columns = [*roles.text, *([roles.tags] if roles.tags else roles.labels)]
        for batch in self.batches(columns):
            rows = zip(*(_plain(column).to_pylist() for column in batch.columns), strict=True)
            for number, row in enumerate(rows, number + 1):  # noqa: B020
                yield number, dict(zip(columns, row, strict=True))

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """Open the file; errors of pyarrow about its content become one kind of error."""
        arrow = import_pyarrow()
        with damage_told(self.path):
            try:
                with arrow.parquet.ParquetFile(self.path) as file:
                    yield file
            except DatasetFormatError:
                raise
            except ValueError as error:
                found = " ".join(str(error).split())
                message = f"This is no Parquet file, or a damaged one ({found}). Get it again."
                raise self.error(None, message) from error


class LineReader(TableReader):
    """Reads a table line by line; its first lines say which column is what.

    ``dialect`` is what `RecordWriter` has to know to write such a file.
    """

    _n_sample = _SAMPLE_ROWS
    dialect: Any = {}  # noqa: RUF012

    def _found(self, roles: Roles) -> Roles:
        self._rest: Iterator[Row] | None = numbered_lines(self.path, self._stream)
        self._head = list(islice(self._rest, self._n_sample))
        return self._roles_of(self._head, roles)

    def _roles_of(self, head: list[Row], roles: Roles) -> Roles:
        """Decide which column is what, from the first lines."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_head": [], "_rest": None}  # another process opens the file anew

    def _lines(self) -> Iterator[Row]:
        """Return all lines; the first time those that were read to find the roles need no other opening."""
        if self._rest is None and self._stream is None:
            return numbered_lines(self.path)
        head, self._head = self._head, []
        rest, self._rest = self._rest, None
        return chain(head, rest or ())


class PlainText(LineReader):
    """One text a line."""

    _n_sample = 1  # who types a text waits for an answer

    def _roles_of(self, head: list[Row], roles: Roles) -> Roles:
        return Roles(kind="text", format="text", text=("",))

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, text in self._lines():
            yield line, {"": decoded(self.path, line, text).rstrip("\r\n")}


class JsonLines(LineReader):
    """An object a line."""

    def _roles_of(self, head: list[Row], roles: Roles) -> Roles:
        sample = [record for _, record in self._objects(head)]
        if not sample:
            raise self.error(None, "There is no row. Is the file complete?")
        names = list(dict.fromkeys(chain.from_iterable(sample)))  # objects may have different keys
        return find_roles(self.path, names, [[row.get(name) for name in names] for row in sample], roles)

    def _objects(self, lines: Iterable[Row]) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, text in lines:
            if not text.strip():
                continue
            try:
                record = json.loads(decoded(self.path, line, text))
            except (json.JSONDecodeError, RecursionError) as error:
                message = f"{shown(text[:40])} is no JSON ({error}). Write one object a line."
                raise self.error(line, message) from error
            if not isinstance(record, dict):
                message = f'{shown(text[:40])} is no JSON object. Write {{"text": "...", "tags": []}}.'
                raise self.error(line, message)
            yield line, record

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        return self._objects(self._lines())


class CsvReader(LineReader):
    """Reads CSV with a header, or without one Annif's texts and addresses of subjects."""

    has_numbers = True
    _quoting: Any = csv.QUOTE_MINIMAL

    @property
    def dialect(self) -> dict[str, Any]:
        return {"header": bool(self.header_line), "delimiter": self.delimiter, "quoting": self._quoting}

    def _roles_of(self, head: list[Row], roles: Roles) -> Roles:
        usual = "\t" if Path(plain_name(self.path)).suffix.lower() == ".tsv" else ","
        seen = _mark_of(head) if roles.delimiter is None and usual == "," else None
        self.delimiter = roles.delimiter or seen or usual
        rows = self._rows(iter(head))
        self.header_line, self.names = next(rows, (0, []))
        if len(self.names) == 2 and guess_separator(self.names[1:]) == "<>":
            # Annif's corpora have no header, and quotes are letters.
            self.header_line, self.names, self._quoting = 0, ["text", "subjects"], csv.QUOTE_NONE
            rows = self._rows(iter(head))
        if not self.names:
            raise self.error(None, "There is no header. Is the file complete?")
        if all(map(is_number, self.names)) and not counts_rows(self.names):
            raise self.error(1, "There are numbers only where a header should name the columns. Add one.")
        self.sample = [cells for _, cells in rows if len(cells) == len(self.names)]  # the last may be cut off
        roles = replace(roles, delimiter=self.delimiter)
        return find_roles(self.path, self.names, self.sample, roles)

    def _rows(self, lines: Iterator[Row]) -> Iterator[tuple[int, list[str]]]:
        """Yield the cells of each row that is not blank, and its last line."""
        number = 0

        def text() -> Iterator[str]:
            nonlocal number
            for number, line in lines:
                yield decoded(self.path, number, line)

        try:
            for row in csv.reader(text(), delimiter=self.delimiter, quoting=self._quoting):
                if row:
                    yield number, row
        except csv.Error as error:
            raise self.error(number, f"This is no CSV ({error}). Check quotes from here on.") from error

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        rows, width = self._rows(self._lines()), len(self.names)
        for line, cells in islice(rows, 1 if self.header_line else 0, None):
            if len(cells) != width:
                message = f"There are {len(cells)} cells, but {width} in the header. Complete the row."
                raise self.error(line, message)
            yield line, dict(zip(self.names, cells, strict=True))

    def line_of(self, row: int) -> int:
        return self.header_line + row + 1

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the columns in record batches; words such as "yes" are truth values."""
        arrow, place = import_pyarrow(), {name: k for k, name in enumerate(self.names)}
        words = {word for word in FLAGS if not is_number(word)}
        said = {name: {row[place[name]].lower() for row in self.sample} for name in columns}
        types = {name: arrow.bool_() if words & said[name] else arrow.float64() for name in columns}
        if self.roles.tags in types:
            types[self.roles.tags] = arrow.string()
        cases = [(form(word), flag) for word, flag in FLAGS.items() for form in (str, str.title, str.upper)]
        no, yes = ([word for word, flag in cases if flag == value] for value in (0, 1))
        # Threads of pyarrow gain nothing here, and without them errors name the row.
        reading = {"use_threads": False, "block_size": max(1 << 20, 512 * len(self.names))}
        # Of a single column, empty lines are rows without labels.
        parsing = {"newlines_in_values": True, "ignore_empty_lines": len(self.names) > 1}
        converting = {"include_columns": list(columns), "true_values": yes, "false_values": no}
        options = (
            arrow.csv.ReadOptions(**reading),
            arrow.csv.ParseOptions(delimiter=self.delimiter, **parsing),
            arrow.csv.ConvertOptions(column_types=types, **converting),
        )
        try:
            with (
                damage_told(self.path),
                open_bytes(self.path) as stream,
                arrow.csv.open_csv(stream, *options) as batches,
            ):
                yield from batches
        except arrow.ArrowInvalid as error:
            found = _BAD_ROW.match(str(error))
            if found is None:
                raise self.error(None, f"{error}. Correct the file.") from error
            column = "" if found[1] is None else f" in column {shown(self.names[int(found[1])])}"
            raise self.error(
                int(found[2]),
                f"{found[3]}{column}. Correct it, or ignore the column (on the command line: --ignore). "
                "Texts with tags need a column of texts: pass text.",
            ) from error


def _mark_of(head: list[Row]) -> str | None:
    """Return what separates cells if it is clear: one mark only splits the first lines alike."""
    texts, clear = [line.decode(errors="replace") for _, line in head[:100]], []
    for mark in _DELIMITERS:
        try:
            rows = [row for row in csv.reader(texts, delimiter=mark) if "".join(row).strip()]
        except csv.Error:
            continue
        whole = rows[:-1] if len(head) > 100 and len(rows) > 1 else rows
        if len(widths := {len(row) for row in whole}) == 1 and widths.pop() > 1:
            clear.append(mark)
    return clear[0] if len(clear) == 1 else None


class FolderReader(TableReader):
    """Reads a folder of texts, as Annif has them: each ``a.txt`` with its tags in ``a.tsv`` or ``a.key``.

    A line of ``.key`` is a tag; one of ``.tsv`` is the address of a subject in angle brackets, and its name.
    """

    def _found(self, roles: Roles) -> Roles:
        self.name, self._texts = self.path.name, sorted(self.path.glob("*.txt"))
        pairs = (text.with_suffix(end) for text in self._texts for end in (".tsv", ".key"))
        beside = [other for other in pairs if other.exists()]
        self.files = (*self._texts, *beside)
        return replace(roles, kind="text", text=("",), tags="subjects" if beside else None)

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, path in enumerate(self._texts, start=1):
            beside = (path.with_suffix(end) for end in (".tsv", ".key"))
            listed = next((_content(other) for other in beside if other.exists()), "")
            cells = (line.split("\t")[0].strip().strip("<>") for line in listed.splitlines())
            yield number, {"": _content(path), "subjects": [cell for cell in cells if cell]}


def _content(path: Path) -> str:
    return "".join(decoded(path, number, line) for number, line in numbered_lines(path))
