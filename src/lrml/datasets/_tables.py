"""Tables of texts or of numbers: CSV and Parquet beside the lines of `_texts`."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import IO, Any

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
    open_bytes,
)
from lrml.datasets._roles import Roles, counts_rows, find_roles, flag_of, guess_separator, tags_in
from lrml.datasets._texts import SAMPLE_ROWS, JsonLines, Lines, PlainText

_BATCH_CELLS = 1 << 20  # numbers of a Parquet file that are read at a time
_DELIMITERS = ",;\t"
_BINARY = "0 or 1, as labels are. Correct it; for real targets pass arrays to SpectralRegressor."
_BAD_ROW = re.compile(r"(?:In CSV column #(\d+): )?(?:CSV parse error: )?Row #(\d+): (.*)", re.DOTALL)


def import_pyarrow() -> Any:
    """Return pyarrow, with the modules that are needed here."""
    try:
        for module in ("compute", "csv", "parquet"):
            import_module(f"pyarrow.{module}")
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError(f'This file needs pyarrow ({error}). Run: pip install "lrml[tables]"') from error


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
        self._table: Any = _TABLES[roles.format or ""](path, roles, stream)
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
            found.update(part.label_names)
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
                cell = shown(record.get(name))
                raise self._error(line, f"{cell} in column {shown(name)} is not {_BINARY}")
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
        waiting: list[Dataset] = []
        ready = count = 0
        for found in self._parts(self.roles, labelled):
            part = found if schema is None else found.with_columns(schema)
            start = min(skip, len(part))
            skip, count = skip - start, count + len(part)
            while start < len(part):
                stop = len(part) if rows is None else min(len(part), start + rows - ready)
                waiting.append(part.rows(slice(start, stop)))
                start, ready = stop, ready + stop - start
                if ready == rows:
                    yield self._joined(waiting)
                    waiting, ready = [], 0
        if waiting:
            last = self._joined(waiting)
            if rows is None and last.Y is not None and not last.label_names:
                raise self._error(None, f"Column {shown(self.roles.tags)} lists no label in any row.")
            yield last
        return count

    def _joined(self, parts: list[Dataset]) -> Dataset:
        return Dataset.concat(parts, listed=bool(self.roles.tags))

    def _parts(self, roles: Roles, labelled: bool = True) -> Iterator[Dataset]:
        """Yield the rows batch by batch; labels in lists are those of each batch."""
        features, labels = roles.features or (), roles.labels if not roles.tags else ()
        names, count = [*features, *labels], 0
        known: dict[str, Tags] = {}
        stored: Any = sparse.csr_array if self._sparse else np.asarray
        for batch in self._table.batches([*names, *([roles.tags] if roles.tags else [])]):
            values = np.empty((len(names), batch.num_rows))
            for place, column in enumerate(values):
                column[:] = self._table.numbers(batch.column(place), names[place], count)
            wrong, found = np.isinf(values), values[len(features) :]
            wrong[len(features) :] |= (found != 0) & (found != 1) & ~np.isnan(found)
            if wrong.any():
                row, place = np.argwhere(wrong.T)[0]
                kind = "finite. Correct it." if place < len(features) else _BINARY
                message = f"{values[place, row]:g} in column {shown(names[place])} is not {kind}"
                raise self._error(self._table.line_of(count + row), message)
            Y: Any = None
            unknown: Any = sparse.csr_array(np.isnan(found.T))
            if roles.tags and labelled:
                cells = enumerate(batch.column(len(names)).to_pylist(), count)
                tags = [self._tags(self._table.line_of(k), {roles.tags: cell}, known) for k, cell in cells]
                labels, unknown = tuple(sorted(set().union(*tags))), None
                Y = indicator(tags, labels)
            elif roles.labels and labelled:
                Y = stored(np.nan_to_num(found.T).astype(np.uint8))
            source = os.path.basename(self.path)
            marks = unknown if Y is not None and unknown is not None and unknown.nnz else None
            X = stored(values[: len(features)].T)
            given = None if Y is None else labels
            yield Dataset(self.name, X, Y, features, given, None, source, marks, count)
            count += batch.num_rows


class _Csv(Lines):
    """Cells between delimiters, with a header."""

    has_numbers = True
    _quoting: Any = csv.QUOTE_MINIMAL

    def _find(self, roles: Roles) -> Roles:
        usual = "\t" if Path(plain_name(self.path)).suffix.lower() == ".tsv" else ","
        mark, reasons = roles.delimiter or usual, {}
        if roles.delimiter is None and usual == "," and (found := self._seen()) not in (None, ","):
            mark, reasons = str(found), {"delimiter": "by the first rows"}
        self._mark = mark
        rows = self._rows(iter(self._head), whole=False)
        self._header_line, self.names = next(rows, (0, []))
        if self._is_of_annif():  # without a header, and quotes are letters
            self._header_line, self.names, self._quoting = 0, ["text", "subjects"], csv.QUOTE_NONE
            rows = self._rows(iter(self._head), whole=False)
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

    def _is_of_annif(self) -> bool:
        return len(self.names) == 2 and guess_separator(self.names[1:]) == "<>"

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
            for row in csv.reader(text(), delimiter=self._mark, strict=True, quoting=self._quoting):
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
        if self._header_line:
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
        with _told(self.path), arrow.parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            index = (schema.pandas_metadata or {}).get("index_columns", ())
            self.names = [name for name in schema.names if name not in index]
            sample = next(file.iter_batches(SAMPLE_ROWS, columns=self.names), None)
        if sample is None or not sample.num_rows:
            raise DatasetFormatError.at(path, None, "There is no row. Is the file complete?")
        rows = list(zip(*(_plain(column).to_pylist() for column in sample.columns), strict=True))
        self.roles = find_roles(path, self.names, rows, roles)

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the columns in record batches."""
        arrow = import_pyarrow()
        with _told(self.path), arrow.parquet.ParquetFile(self.path) as file:
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


@contextmanager
def _told(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of pyarrow about the content of a file into one kind of error."""
    try:
        yield
    except DatasetFormatError:
        raise
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # a fault of the disk, or no such file
            raise
        found = " ".join(str(error).split())
        message = f"This is no Parquet file, or a damaged one ({found}). Get it again."
        raise DatasetFormatError.at(path, None, message) from error


def _to_numpy(array: Any) -> NDArray[np.float64]:
    found: NDArray[np.float64] = array.to_numpy(zero_copy_only=False)
    return found


def _plain(array: Any) -> Any:
    """Return an array of values, where it has codes and their meaning."""
    return array.dictionary_decode() if hasattr(array, "dictionary") else array


_TABLES: dict[str, Any] = {"csv": _Csv, "jsonl": JsonLines, "parquet": _Parquet, "text": PlainText}
