"""Tables of texts or of numbers: CSV, JSON lines, Parquet and plain lines."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml._shown import shown
from lrml.datasets._dataset import Dataset, Schema, Tags, TextDataset, indicator
from lrml.datasets._formats import plain_name
from lrml.datasets._lines import (
    DatasetFormatError,
    FileReader,
    Row,
    damaged,
    decoded,
    numbered_lines,
    open_bytes,
)
from lrml.datasets._roles import Roles, counts_rows, find_roles, flag_of, tags_in

_SAMPLE_ROWS, _SAMPLE_BYTES = 1000, 1 << 20  # what roles are guessed from
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
        raise ImportError(f'This file needs pyarrow ({error}). Run: pip install "lrml[tables]"') from error


class _Part(NamedTuple):
    """Some rows of a table of numbers; labels are a matrix with NaN where unknown, or lists."""

    X: Any
    Y: Any
    tags: list[Tags]

    def __len__(self) -> int:
        return int(self.X.shape[0])


class TableReader(FileReader):
    """Reads a table, whose roles are found first.

    Parameters
    ----------
    path : path-like
        The file, or a name for a stream.
    roles : Roles
        What is said of the columns, with the format.
    sparse : bool
        Whether X and Y of numbers are sparse.
    stream : binary stream, optional
        What to read instead of the file; it can be read only once.
    """

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
        self._sparse = sparse
        self._table: _Lines | _Parquet = _TABLES[roles.format or ""](path, roles, stream)
        self.roles = self._table.roles
        self.has_first_pass = self.roles.kind == "numbers" and bool(self.roles.tags)
        if self.roles.kind == "numbers" and not self._table.has_numbers:
            raise self._error(None, "Tables of numbers are CSV or Parquet. Write the rows as one of them.")

    @cached_property
    def schema(self) -> Schema:
        """The names of the columns; those that a column of lists names are found by reading it once."""
        roles = self.roles
        if roles.kind == "text":
            return Schema(None, None)
        if not roles.tags:
            return Schema(roles.features, roles.labels or None)
        found: set[str] = set()
        for part in self._parts(replace(roles, features=())):
            found.update(*part.tags)
        return Schema(roles.features, tuple(sorted(found)))

    def blocks(
        self, rows: int | None, skip: int, schema: Schema | None, labelled: bool
    ) -> Generator[Any, None, int]:
        """Yield so many rows at a time; without a schema, labels in lists are those of each block."""
        read = self._texts if self.roles.kind == "text" else self._numbers
        count = yield from read(rows, skip, schema, labelled)
        if not count:
            raise self._error(None, "There are no rows. Is the file complete?")
        return count

    # Texts.

    def _texts(
        self, rows: int | None, skip: int, schema: Schema | None, labelled: bool
    ) -> Generator[TextDataset, None, int]:
        roles = self.roles
        columns = [*roles.text, *([roles.tags] if roles.tags else roles.labels)]
        records = self._table.records(columns)
        count = sum(1 for _ in islice(records, skip))
        known: dict[str, Tags] = {}  # lists of tags come again and again
        while block := list(islice(records, rows)):
            texts = [self._text(line, record) for line, record in block]
            tags = None
            if labelled and roles.has_labels:
                tags = [self._tags(line, record, known) for line, record in block]
            known = known if len(known) < 100_000 else {}
            yield TextDataset(self.name, texts, tags, roles, os.path.basename(self.path))
            count += len(texts)
        return count

    def _text(self, line: int, record: dict[str, Any]) -> str:
        parts = []
        for name in self.roles.text:
            value = record.get(name)
            if isinstance(value, bool | list | dict):
                raise self._error(line, f"{shown(value)} in column {shown(name)} is no text. Correct it.")
            parts += [] if value in (None, "") else [str(value)]
        return "\n".join(parts)

    def _tags(self, line: int, record: dict[str, Any], known: dict[str, Tags]) -> Tags:
        roles = self.roles
        if not roles.tags:
            flags = {name: flag_of(record.get(name)) for name in roles.labels}
            if None in flags.values():
                name = next(name for name, flag in flags.items() if flag is None)
                raise self._error(line, f"{shown(record.get(name))} in column {shown(name)} is not 0 or 1.")
            return tuple(name for name, flag in flags.items() if flag)
        value = record.get(roles.tags)
        if isinstance(value, str) and value in known:
            return known[value]
        try:
            found = tags_in(value, roles.tag_separator)
        except ValueError as error:
            raise self._error(
                line,
                f"{shown(value)} in column {shown(roles.tags)} lists no tags: {error}. Correct it, or pass "
                "tag_separator.",
            ) from error
        if isinstance(value, str):
            known[value] = found
        return found

    # Numbers.

    def _numbers(
        self, rows: int | None, skip: int, schema: Schema | None, labelled: bool
    ) -> Generator[Dataset, None, int]:
        waiting: list[_Part] = []
        first, ready, count = skip, 0, 0
        for found in self._parts(self.roles):
            count += len(found)
            part = _sliced(found, min(skip, len(found)), None)
            skip -= len(found) - len(part)
            while rows is not None and ready + len(part) >= rows:
                missing = rows - ready
                yield self._dataset([*waiting, _sliced(part, 0, missing)], first, schema, labelled)
                part = _sliced(part, missing, None)
                waiting, ready, first = [], 0, first + rows
            if len(part):
                waiting.append(part)
                ready += len(part)
        if waiting:
            yield self._dataset(waiting, first, schema, labelled)
        return count

    def _dataset(self, parts: list[_Part], first_row: int, schema: Schema | None, labelled: bool) -> Dataset:
        stack: Any = sparse.vstack if self._sparse else np.vstack
        options = {"format": "csr"} if self._sparse else {}
        X = stack([part.X for part in parts], **options)
        roles = self.roles
        Y: Any = None
        unknown: Any = None
        names: Sequence[str] | None = None
        if labelled and roles.tags:
            tags = list(chain.from_iterable(part.tags for part in parts))
            names = tuple(sorted(set().union(*tags))) if schema is None else schema.labels or ()
            if not names and schema is None:
                raise self._error(None, f"Column {shown(roles.tags)} lists no label in any row.")
            Y = indicator(tags, names)
        elif labelled and roles.labels:
            names, Y = roles.labels, stack([part.Y for part in parts], **options)
            holes = np.isnan(Y.data if self._sparse else Y)
            if holes.any():
                cells = Y.copy() if self._sparse else sparse.csr_array(np.where(holes, np.nan, 0.0))
                cells.data = np.isnan(cells.data)
                cells.eliminate_zeros()
                unknown = cells.astype(np.bool_)
                (Y.data if self._sparse else Y)[holes] = 0.0
            Y = Y.astype(np.uint8)
            if self._sparse:
                Y.eliminate_zeros()
        source = os.path.basename(self.path)
        return Dataset(self.name, X, Y, roles.features, names, None, source, unknown, first_row)

    def _parts(self, roles: Roles) -> Iterator[_Part]:
        """Yield the rows as numbers, batch by batch."""
        features, labels = roles.features or (), roles.labels if not roles.tags else ()
        names, count = [*features, *labels], 0
        known: dict[str, Tags] = {}
        for batch in self._table.batches([*names, *([roles.tags] if roles.tags else [])]):
            values = np.empty((len(names), batch.num_rows))
            for place, column in enumerate(values):
                column[:] = self._table.numbers(batch.column(place), names[place], count)
            wrong = np.isinf(values)
            found = values[len(features) :]
            wrong[len(features) :] |= (found != 0) & (found != 1) & ~np.isnan(found)
            if wrong.any():
                row, place = np.argwhere(wrong.T)[0]
                kind = "finite" if place < len(features) else "0 or 1"
                message = f"{values[place, row]:g} in column {shown(names[place])} is not {kind}. Correct it."
                raise self._error(self._table.line_of(count + row), message)
            tags: list[Tags] = []
            if roles.tags:
                cells = enumerate(batch.column(len(names)).to_pylist(), count)
                tags = [
                    self._tags(self._table.line_of(row), {roles.tags: cell}, known) for row, cell in cells
                ]
            stored: Any = sparse.csr_array if self._sparse else np.asarray
            yield _Part(stored(values[: len(features)].T), stored(found.T), tags)
            count += batch.num_rows


def _sliced(part: _Part, start: int, stop: int | None) -> _Part:
    return _Part(part.X[start:stop], part.Y[start:stop], part.tags[start:stop])


class _Lines:
    """A table that is read line by line; the first rows are read twice, or kept where that is impossible."""

    has_numbers = False

    def __init__(self, path: str | os.PathLike[str], roles: Roles, stream: IO[bytes] | None) -> None:
        self.path, self._stream = path, stream
        lines, size = numbered_lines(path, stream), 0
        self._head: list[Row] = []
        most = 1 if isinstance(self, _Plain) else _SAMPLE_ROWS  # nobody who types a text waits for an answer
        for row in islice(lines, most):
            self._head.append(row)
            size += len(row[1])
            if size > _SAMPLE_BYTES:
                break
        self.roles = self._find(roles)
        self._rest = lines if stream is not None else None
        if stream is None:
            self._head = []

    def _lines(self) -> Iterator[Row]:
        if self._stream is None:
            return numbered_lines(self.path)
        head, self._head = self._head, []
        return chain(head, self._rest or ())

    def _find(self, roles: Roles) -> Roles:
        raise NotImplementedError

    def records(self, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield rows that have at least the named columns, each with its line."""
        raise NotImplementedError

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the columns in record batches of pyarrow."""
        raise NotImplementedError

    def numbers(self, array: Any, name: str, row: int) -> NDArray[np.float64]:
        """Return a column of a batch as numbers, with NaN for null."""
        raise NotImplementedError

    def line_of(self, row: int) -> int:
        """Return the line of a row, counted from 0."""
        return row + 1

    def _error(self, line: int | None, message: str) -> DatasetFormatError:
        return DatasetFormatError.at(self.path, line, message)


class _Plain(_Lines):
    """One text a line."""

    def _find(self, roles: Roles) -> Roles:
        return Roles(kind="text", format="text", text=("",))

    def records(self, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, text in self._lines():
            yield line, {"": decoded(self.path, line, text).rstrip("\r\n")}


class _JsonLines(_Lines):
    """An object a line."""

    def _find(self, roles: Roles) -> Roles:
        sample = [record for _, record in self._objects(self._head)]
        if not sample:
            raise self._error(None, "There is no row. Is the file complete?")
        names = list(dict.fromkeys(chain.from_iterable(sample)))  # objects may have different keys
        rows = [[record.get(name) for name in names] for record in sample]
        return find_roles(self.path, names, rows, roles)

    def _objects(self, lines: Iterable[Row]) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, text in lines:
            if not text.strip():
                continue
            try:
                record = json.loads(decoded(self.path, line, text))
            except (json.JSONDecodeError, RecursionError) as error:
                message = f"{shown(text[:40])} is no JSON ({error}). Write one object a line."
                raise self._error(line, message) from error
            if not isinstance(record, dict):
                message = f'{shown(text[:40])} is no JSON object. Write {{"text": "...", "tags": []}}.'
                raise self._error(line, message)
            yield line, record

    def records(self, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        return self._objects(self._lines())


class _Csv(_Lines):
    """Cells between delimiters, with a header."""

    has_numbers = True

    def _find(self, roles: Roles) -> Roles:
        usual = "\t" if Path(plain_name(self.path)).suffix.lower() == ".tsv" else ","
        mark, reasons = roles.delimiter or usual, {}
        if roles.delimiter is None and usual == "," and (found := self._seen()) not in (None, ","):
            mark, reasons = str(found), {"delimiter": "by the first rows"}
        self._mark = mark
        rows = self._rows(iter(self._head), whole=False)
        self._header_line, self.names = next(rows, (0, []))
        if not self.names:
            raise self._error(None, "There is no header. Is the file complete?")
        if all(map(_is_number, self.names)) and not counts_rows(self.names):
            raise self._error(1, "There are numbers only where a header should name the columns. Add one.")
        self._sample: list[list[str]] = []
        self._sample.extend(cells for _, cells in rows)
        roles = replace(roles, delimiter=mark, reasons=reasons)
        if len(self.names) == 1 and (roles.labels or roles.kind == "numbers"):
            raise self._error(self._header_line, self._one_column())
        return find_roles(self.path, self.names, self._sample, roles)

    def _one_column(self) -> str:
        other = next((mark for mark in ";\t|" if mark in self.names[0]), ";").replace("\t", "\\t")
        return (
            f"There is one column, {shown(self.names[0])}, as cells are separated by {self._mark!r}. Pass "
            f'delimiter="{other}" (on the command line: --delimiter "{other}") if columns are separated so.'
        )

    def _seen(self) -> str | None:
        """Return what separates cells if it is clear: one mark only splits the first rows alike."""
        texts = [line.decode(errors="replace") for _, line in self._head[:100]]
        clear = []
        for mark in _DELIMITERS:
            try:
                rows = [
                    row for row in csv.reader(texts, delimiter=mark) if len(row) > 1 or "".join(row).strip()
                ]
            except csv.Error:
                continue
            whole = rows[:-1] if len(self._head) > 100 and len(rows) > 1 else rows
            if len(widths := {len(row) for row in whole}) == 1 and widths.pop() > 1:
                clear.append(mark)
        return clear[0] if len(clear) == 1 else None

    def _rows(self, lines: Iterator[Row], *, whole: bool = True) -> Iterator[tuple[int, list[str]]]:
        """Yield the cells of each row that is not blank, and its last line."""
        number, width = 0, 0

        def text() -> Iterator[str]:
            nonlocal number
            for number, line in lines:
                yield decoded(self.path, number, line)

        try:
            for row in csv.reader(text(), delimiter=self._mark, strict=True):
                if len(row) > 1 or (row and (width == 1 or row[0].strip())):
                    width = width or len(row)
                    if len(row) != width:
                        message = f"There are {len(row)} cells, but {width} in the header. Complete the row."
                        raise self._error(number, message)
                    yield number, row
        except csv.Error as error:
            if not whole:
                return  # the sample may end inside of quotes
            raise self._error(number, f"This is no CSV ({error}). Check quotes from here on.") from error

    def records(self, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        rows = self._rows(self._lines())
        next(rows)
        for line, cells in rows:
            yield line, dict(zip(self.names, cells, strict=True))

    def line_of(self, row: int) -> int:
        return self._header_line + row + 1

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        arrow = import_pyarrow()
        parser, place = arrow.csv, {name: k for k, name in enumerate(self.names)}
        words = {
            n for n in columns if any(not _is_number(row[place[n]]) for row in self._sample if row[place[n]])
        }
        text = arrow.dictionary(arrow.int32(), arrow.string())
        types = {name: text if name in words else arrow.float64() for name in columns}
        if self.roles.tags in types:
            types[self.roles.tags] = arrow.string()
        try:
            with (
                open_bytes(self.path) as stream,
                parser.open_csv(
                    stream,
                    # Threads of pyarrow gain nothing here, and without them errors name the row.
                    parser.ReadOptions(use_threads=False, block_size=max(1 << 20, 512 * len(self.names))),
                    parser.ParseOptions(delimiter=self._mark, newlines_in_values=True),
                    parser.ConvertOptions(include_columns=list(columns), column_types=types),
                ) as batches,
            ):
                yield from batches
        except DatasetFormatError:
            raise
        except (arrow.ArrowException, ValueError) as error:
            raise self._explained(error) from error
        except (EOFError, OSError) as error:
            raise damaged(self.path, error) from error

    def _explained(self, error: Exception) -> DatasetFormatError:
        found = _BAD_ROW.match(str(error))
        if found is None:
            return self._error(None, f"{error}. Correct the file.")
        column = "" if found[1] is None else f" in column {shown(self.names[int(found[1])])}"
        what = found[3].replace("CSV conversion error to double: invalid value ", "no number: ")
        return self._error(
            int(found[2]),
            f"{what}{column}. Correct it, or ignore the column (on the command line: --ignore). Texts with "
            "tags need a column of texts: pass text.",
        )

    def numbers(self, array: Any, name: str, row: int) -> NDArray[np.float64]:
        if hasattr(array, "dictionary"):
            words = [_number(word) for word in array.dictionary.to_pylist()]
            if None in words:
                codes = array.indices.to_pylist()
                at = codes.index(words.index(None))
                message = f"no number: {shown(array.dictionary[words.index(None)].as_py())}"
                raise self._error(self.line_of(row + at), f"{message} in column {shown(name)}. Correct it.")
            codes = array.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
            found: NDArray[np.float64] = np.array([*words, np.nan], np.float64)[codes]
            return found
        return _to_numpy(array)


def _number(word: str) -> float | None:
    """Return the number that a cell stands for, a word such as "true" too."""
    text = word.strip()
    if text.lower() in ("", "na", "nan", "null"):
        return np.nan
    flag = flag_of(text)
    try:
        return float(text) if flag is None else flag
    except ValueError:
        return None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


class _Parquet:
    """A Parquet file, without the index of a pandas frame."""

    has_numbers = True

    def __init__(self, path: str | os.PathLike[str], roles: Roles, stream: IO[bytes] | None) -> None:
        if stream is not None:
            raise ValueError("A stream cannot be Parquet. Pass the path of a file.")
        self.path, arrow = path, import_pyarrow()
        with self._told(), arrow.parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            index = (schema.pandas_metadata or {}).get("index_columns", ())
            self.names = [name for name in schema.names if name not in index]
            sample = next(file.iter_batches(_SAMPLE_ROWS, columns=self.names), None)
        if sample is None or not sample.num_rows:
            raise DatasetFormatError.at(path, None, "There is no row. Is the file complete?")
        rows = list(zip(*(_plain(column).to_pylist() for column in sample.columns), strict=True))
        self.roles = find_roles(path, self.names, rows, roles)

    def _told(self) -> Any:
        return _Told(self.path)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the columns in record batches."""
        arrow = import_pyarrow()
        with self._told(), arrow.parquet.ParquetFile(self.path) as file:
            rows = min(max(_BATCH_CELLS // max(len(columns), 1), 1), 1 << 16)
            for batch in file.iter_batches(rows, columns=list(columns), use_threads=False):
                yield batch.select(list(columns))

    def records(self, columns: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield rows with the named columns, each with its number."""
        number = 0
        for batch in self.batches(columns):
            rows = zip(*(_plain(column).to_pylist() for column in batch.columns), strict=True)
            for number, row in enumerate(rows, number + 1):  # noqa: B020
                yield number, dict(zip(columns, row, strict=True))

    def numbers(self, array: Any, name: str, row: int) -> NDArray[np.float64]:
        """Return a column of a batch as numbers, with NaN for null."""
        arrow = import_pyarrow()
        try:
            kind = _plain(array).type
            if arrow.types.is_string(kind) or arrow.types.is_large_string(kind):
                raise ValueError("text")
            return _to_numpy(_plain(array).cast(arrow.float64(), safe=False))
        except (arrow.ArrowException, ValueError) as error:
            message = f"Column {shown(name)} is of type {array.type}, not of numbers. Convert or ignore it."
            raise DatasetFormatError.at(self.path, None, message) from error

    def line_of(self, row: int) -> int:
        """Return the number of a row, from 1."""
        return row + 1


class _Told:
    """Turns errors of pyarrow about the content of a file into one kind of error."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = path

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, ValueError | OSError) and not isinstance(error, DatasetFormatError):
            if isinstance(error, OSError) and error.errno is not None:  # a fault of the disk, or no such file
                return
            found = " ".join(str(error).split())
            message = f"This is no Parquet file, or a damaged one ({found}). Get it again."
            raise DatasetFormatError.at(self.path, None, message) from error


def _to_numpy(array: Any) -> NDArray[np.float64]:
    found: NDArray[np.float64] = array.to_numpy(zero_copy_only=False)
    return found


def _plain(array: Any) -> Any:
    """Return an array of values, where it has codes and their meaning."""
    return array.dictionary_decode() if hasattr(array, "dictionary") else array


_TABLES: dict[str, Any] = {"csv": _Csv, "jsonl": _JsonLines, "parquet": _Parquet, "text": _Plain}
