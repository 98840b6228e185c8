"""Tables of texts or of numbers: CSV and Parquet by pyarrow, and arrays of features beside such a table."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml._shown import shown
from lrml.datasets._dataset import Columns, Dataset, NumberedNames, Tags, TextDataset, indicator
from lrml.datasets._lines import DatasetFormatError, FileReader, damage_told, format_of, open_bytes
from lrml.datasets._roles import FLAGS, Roles, find_roles, flag_of, is_number, tags_in
from lrml.datasets._source import MemoryReader, mapped
from lrml.datasets._texts import SAMPLE_ROWS, CsvLines, JsonLines, PlainText

_BATCH_CELLS = 1 << 20  # numbers of a Parquet file that are read at a time
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

    bulk = 1 << 16

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
            raise self.error(None, "Tables of numbers are CSV or Parquet. Write the rows as one of them.")

    @cached_property
    def columns(self) -> Columns:
        """The names of the columns; those that a column of lists names are found by reading it once."""
        roles = self.roles
        if roles.kind == "text":
            return Columns(None, None)
        if not roles.tags:
            return Columns(roles.features, roles.labels or None)
        found: set[str] = set()
        for batch in self._table.batches([roles.tags]):
            found.update(*self._lists(batch.column(0), 0))
        return Columns(roles.features, tuple(sorted(found)))

    # Texts.

    def records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the rows of texts with the number of their line."""
        roles = self.roles
        found: Iterator[Any] = self._table.records(
            [*roles.text, *([roles.tags] if roles.tags else roles.labels)]
        )
        return found

    def dataset(self, records: list[Any], columns: Any, first_row: int) -> TextDataset:
        """Return texts with their tags."""
        labelled = self.roles.has_labels and not self.roles.unlabelled
        tags = [self._tags(line, record) for line, record in records] if labelled else None
        texts = [self._text(line, record) for line, record in records]
        return TextDataset(self.name, texts, tags, self.roles, self.path.name)

    def _text(self, line: int, record: dict[str, Any]) -> str:
        parts = []
        for name in self.roles.text:
            value = record.get(name)
            if isinstance(value, bool | list | dict):
                raise self.error(line, f"{shown(value)} in column {shown(name)} is no text. Correct it.")
            parts += [] if value in (None, "") else [str(value)]
        return "\n".join(parts)

    def _tags(self, line: int, record: dict[str, Any]) -> Tags:
        roles = self.roles
        if roles.tags:
            return self._list(line, record.get(roles.tags))
        flags = {name: flag_of(record.get(name)) for name in roles.labels}
        for name, flag in flags.items():
            if flag is None:
                message = f"{shown(record.get(name))} in column {shown(name)} is not {_BINARY}"
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

    def blocks(self, rows: int, skip: int, columns: Any) -> Generator[Any, None, int]:
        """Yield so many rows at a time; without columns, labels in lists are those of each block."""
        if self.roles.kind == "text":
            return (yield from super().blocks(rows, skip, columns))
        roles, arrow, count = self.roles, import_pyarrow(), 0
        names = [*(roles.features or ()), *([roles.tags] if roles.tags else roles.labels)]
        rest: Any = None
        for batch in self._table.batches(names):
            table = arrow.Table.from_batches([batch])
            rest = table if rest is None else arrow.concat_tables([rest, table])
            count += batch.num_rows
            gone = min(skip, rest.num_rows)
            rest, skip = rest.slice(gone), skip - gone
            while rest.num_rows >= rows:
                yield self._numbers(rest.slice(0, rows), columns, count - rest.num_rows)
                rest = rest.slice(rows)
        if rest is not None and rest.num_rows:
            yield self._numbers(rest, columns, count - rest.num_rows)
        if not count:
            raise self.error(None, "There are no rows. Is the file complete?")
        return count

    def _numbers(self, table: Any, columns: Columns | None, first_row: int) -> Dataset:
        """Convert rows of a pyarrow table, whose columns are features, then labels or a list of them."""
        roles, features = self.roles, self.roles.features or ()
        labels: Any = None if roles.unlabelled else () if roles.tags else roles.labels or None
        names = [*features, *(labels or ())]
        values = np.empty((len(names), table.num_rows))
        for place, name in enumerate(names):
            values[place] = self._floats(table.column(place), name)
        X, flags = values[: len(features)].T, values[len(features) :].T
        wrong = np.isinf(values.T)
        wrong[:, len(features) :] |= (flags != 0) & (flags != 1) & ~np.isnan(flags)
        if wrong.any():
            row, place = np.argwhere(wrong)[0]
            kind = "finite. Correct it." if place < len(features) else _BINARY
            message = f"{values[place, row]:g} in column {shown(names[place])} is not {kind}"
            raise self.error(self._table.line_of(first_row + row), message)
        stored: Any = sparse.csr_array if self._sparse else np.asarray
        Y = unknown = None
        if roles.tags and labels is not None:
            lists = self._lists(table.column(len(features)), first_row)
            labels = tuple(sorted(set().union(*lists))) if columns is None else columns.labels
            Y = indicator(lists, labels)
        elif labels is not None:
            Y = stored(np.nan_to_num(flags).astype(np.uint8))
            unknown = sparse.csr_array(np.isnan(flags)) if np.isnan(flags).any() else None
        part = Dataset(self.name, stored(X), Y, features, labels, None, self.path.name, unknown, first_row)
        return part if columns is None else part.with_columns(columns)

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

    def _lists(self, column: Any, first_row: int) -> list[Tags]:
        cells = enumerate(_plain(column).to_pylist(), first_row)
        return [self._list(self._table.line_of(row), cell) for row, cell in cells]


class _Csv(CsvLines):
    """CSV, whose numbers pyarrow reads."""

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield the columns in record batches; columns of words such as "yes" are truth values."""
        arrow, place = import_pyarrow(), {name: k for k, name in enumerate(self.names)}
        cells = {name: {row[place[name]].lower() for row in self.sample} for name in columns}
        words = {word for word in FLAGS if not is_number(word)}
        types = {name: arrow.bool_() if words & cells[name] else arrow.float64() for name in columns}
        if self.roles.tags in types:
            types[self.roles.tags] = arrow.string()
        cases = [(form(word), flag) for word, flag in FLAGS.items() for form in (str, str.title, str.upper)]
        yes_no = [[word for word, flag in cases if flag == value] for value in (1, 0)]
        try:
            with (
                damage_told(self.path),
                open_bytes(self.path) as stream,
                arrow.csv.open_csv(
                    stream,
                    # Threads of pyarrow gain nothing here, and without them errors name the row.
                    arrow.csv.ReadOptions(use_threads=False, block_size=max(1 << 20, 512 * len(self.names))),
                    arrow.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                    arrow.csv.ConvertOptions(
                        column_types=types,
                        include_columns=list(columns),
                        true_values=yes_no[0],
                        false_values=yes_no[1],
                    ),
                ) as batches,
            ):
                yield from batches
        except arrow.ArrowInvalid as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> DatasetFormatError:
        found = _BAD_ROW.match(str(error))
        if found is None:
            return self._error(None, f"{error}. Correct the file.")
        column = "" if found[1] is None else f" in column {shown(self.names[int(found[1])])}"
        return self._error(
            int(found[2]),
            f"{found[3]}{column}. Correct it, or ignore the column (on the command line: --ignore). Texts "
            "with tags need a column of texts: pass text.",
        )


class _Parquet:
    """A Parquet file, without the index of a pandas frame."""

    has_numbers = True

    def __init__(self, path: str | os.PathLike[str], roles: Roles, stream: IO[bytes] | None) -> None:
        if stream is not None:
            raise ValueError("A stream cannot be Parquet. Pass the path of a file.")
        self.path, arrow = path, import_pyarrow()
        with _told(self.path), arrow.parquet.ParquetFile(path) as file:
            index = (file.schema_arrow.pandas_metadata or {}).get("index_columns", ())
            names = [name for name in file.schema_arrow.names if name not in index]
            sample = next(file.iter_batches(SAMPLE_ROWS, columns=names), None)
        if sample is None or not sample.num_rows:
            raise DatasetFormatError.at(path, None, "There is no row. Is the file complete?")
        rows = list(zip(*(_plain(column).to_pylist() for column in sample.columns), strict=True))
        self.roles = find_roles(path, names, rows, roles)

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

    def line_of(self, row: int) -> int:
        """Return the number of a row, from 1."""
        return row + 1


@contextmanager
def _told(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors of pyarrow about the content of a file into one kind of error."""
    with damage_told(path):
        try:
            yield
        except DatasetFormatError:
            raise
        except ValueError as error:
            found = " ".join(str(error).split())
            message = f"This is no Parquet file, or a damaged one ({found}). Get it again."
            raise DatasetFormatError.at(path, None, message) from error


def _plain(array: Any) -> Any:
    """Return an array of values, where it has codes and their meaning."""
    arrow = import_pyarrow()
    return array.cast(array.type.value_type) if arrow.types.is_dictionary(array.type) else array


_TABLES: dict[str, Any] = {"csv": _Csv, "jsonl": JsonLines, "parquet": _Parquet, "text": PlainText}


class ArrayReader(FileReader):
    """Reads features from a NumPy file, such as embeddings, and their labels from a table beside it.

    Parameters
    ----------
    path : path-like
        ``.npy``, which is not loaded as a whole, or ``.npz`` with one array or a sparse matrix of SciPy.
    roles : Roles
        What is said of the columns of the table.
    table : path-like, optional
        CSV or Parquet, with a row for each of the array: one column lists labels, or each of several is one.
    """

    def __init__(
        self, path: str | os.PathLike[str], roles: Roles, *, table: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__(path, roles, table=table and Path(table).absolute())
        self._X = self._load()
        self.roles, self._table = replace(roles, kind="numbers"), None
        if table is not None:
            kind = format_of(table, None)
            if kind not in ("csv", "parquet"):
                raise ValueError(f"The labels beside {path} are {kind}. Write them as CSV or Parquet.")
            self._table = TableReader(table, replace(roles, kind="numbers", features=(), format=kind))
            self.roles, self.files = self._table.roles, (self.path, *self._table.files)
            self.has_first_pass = self._table.has_first_pass

    @classmethod
    def of_npz(cls, path: Path, roles: Roles, **options: Any) -> FileReader:
        """Return a reader of features, or of what `Dataset.save` has written."""
        is_saved = False
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                is_saved = "facts.npy" in archive.namelist()
        return MemoryReader(Dataset.load(path)) if is_saved else cls(path, roles, **options)

    def _load(self) -> Any:
        try:
            with damage_told(self.path):
                if self.path.suffix.lower() == ".npy":
                    found: Any = np.load(self.path, mmap_mode="r")
                else:
                    with self.path.open("rb") as stream, np.load(stream) as arrays:
                        if "indptr" in arrays:
                            found = sparse.csr_array(sparse.load_npz(self.path))
                        else:
                            (found,) = arrays.values()
            if found.ndim != 2 or found.dtype.kind not in "biuf":
                raise ValueError(f"{found.dtype} of shape {found.shape}")
        except (ValueError, TypeError, zipfile.BadZipFile) as error:
            if isinstance(error, DatasetFormatError):
                raise
            message = f"This is not one array of numbers with rows and columns ({error}). Use numpy.save."
            raise self.error(None, message) from error
        return found

    @cached_property
    def columns(self) -> Columns:
        """Numbered features, and the labels of the table."""
        labels = None if self._table is None else self._table.columns.labels
        return Columns(NumberedNames("feature", self._X.shape[1]), labels)

    def blocks(self, rows: int, skip: int, columns: Any) -> Generator[Any, None, int]:
        """Yield so many rows at a time."""
        n = self._X.shape[0]
        if self._table is None:
            for start in range(skip, n, rows):
                empty = np.empty((min(rows, n - start), 0))
                yield self._beside(Dataset(self.name, empty, None, first_row=start))
            return int(n)
        labels = None if columns is None else Columns((), columns.labels)
        count = yield from mapped(self._table.blocks(rows, skip, labels), self._beside)
        if count != n:
            raise self._unequal(count)
        return count

    def _beside(self, labels: Dataset) -> Dataset:
        """Return labels with their features."""
        first, last = labels.first_row, labels.first_row + len(labels)
        if last > self._X.shape[0]:
            raise self._unequal("more")
        X = self._X[first:last]
        if np.isinf(X if isinstance(X, np.ndarray) else X.data).any():
            cells = sparse.coo_array(X)
            row = first + int(cells.coords[0][np.argmax(np.isinf(cells.data))])
            raise self.error(row + 1, "There is an infinite number. Write nan if it is missing.")
        return replace(labels, name=self.name, X=X, feature_names=None, provenance=self.path.name)

    def _unequal(self, count: Any) -> DatasetFormatError:
        return self.error(None, f"There are {self._X.shape[0]} rows, but {count} in {self.options['table']}.")
