"""What readers of tables of texts or of numbers share, and Parquet by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml._shown import shown
from lrml.datasets._dataset import Columns, Dataset, Tags, TextDataset, indicator
from lrml.datasets._lines import BINARY, DatasetFormatError, FileReader, damage_told
from lrml.datasets._roles import RoleFinder, Roles, flag_of, tags_in

SAMPLE_ROWS = 1000  # that roles are guessed from
_BATCH_CELLS = 1 << 20  # numbers of a Parquet file that are read at a time


def import_pyarrow() -> Any:
    """Return pyarrow, with the modules that are needed here."""
    try:
        for module in ("compute", "csv", "parquet"):
            import_module(f"pyarrow.{module}")
        return import_module("pyarrow")
    except ImportError as error:
        raise ImportError(f'This file needs pyarrow ({error}). Run: pip install "lrml[tables]"') from error


class TableReader(FileReader):
    """Reads a table, whose roles are found first; or a stream, which can be read only once.

    X and Y of numbers are ``sparse`` if asked for.
    """

    bulk = 1 << 16
    has_numbers = True

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
        self.roles = self._found(roles)
        self.has_first_pass = self.roles.kind == "numbers" and bool(self.roles.tags)
        if self.roles.kind == "numbers" and not self.has_numbers:
            raise self.error(None, "Tables of numbers are CSV or Parquet. Write the rows as one of them.")

    def _found(self, roles: Roles) -> Roles:
        """Return what is said of the columns, and what the first rows tell."""
        raise NotImplementedError

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Yield some columns in record batches of pyarrow."""
        raise NotImplementedError

    def line_of(self, row: int) -> int:
        """Return the line of a row, counted from 0."""
        return row + 1

    @cached_property
    def columns(self) -> Columns:
        """The names of the columns; those that a column of lists names are found by reading it once."""
        roles = self.roles
        if roles.kind == "text":
            return Columns(None, None)
        if not roles.tags:
            return Columns(roles.features, roles.labels or None)
        found, count = set[str](), 0
        for batch in self.batches([roles.tags]):
            found.update(*self._lists(batch.column(0), count))
            count += batch.num_rows
        return Columns(roles.features, tuple(sorted(found)))

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
        roles = self.roles
        if roles.tags:
            return self._list(line, record.get(roles.tags))
        flags = {name: flag_of(record.get(name)) for name in roles.labels}
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
        wrong = np.isinf(values.T)
        wrong[:, len(features) :] |= (flags != 0) & (flags != 1) & ~np.isnan(flags)
        if wrong.any():
            row, place = np.argwhere(wrong)[0]
            kind = "finite. Correct it." if place < len(features) else BINARY
            message = f"{values[place, row]:g} in column {shown(names[place])} is not {kind}"
            raise self.error(self.line_of(first_row + row), message)
        stored: Any = sparse.csr_array if self._sparse else np.asarray
        Y = unknown = None
        if roles.tags and labels is not None:
            lists = self._lists(table.column(len(features)), first_row)
            labels = tuple(sorted(set().union(*lists)))
            Y = indicator(lists, labels)
        elif labels is not None:
            Y = stored(np.nan_to_num(flags).astype(np.int8))
            unknown = sparse.csr_array(np.isnan(flags)) if np.isnan(flags).any() else None
        return Dataset(self.name, stored(X), Y, features, labels, None, self.path.name, unknown, first_row)

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
        return [self._list(self.line_of(row), cell) for row, cell in cells]


class ParquetReader(TableReader):
    """Reads a Parquet file, without the index of a pandas frame."""

    def _found(self, roles: Roles) -> Roles:
        if self._stream is not None:
            raise ValueError("A stream cannot be Parquet. Pass the path of a file.")
        arrow = import_pyarrow()
        with _told(self.path), arrow.parquet.ParquetFile(self.path) as file:
            index = (file.schema_arrow.pandas_metadata or {}).get("index_columns", ())
            names = [name for name in file.schema_arrow.names if name not in index]
            sample = next(file.iter_batches(SAMPLE_ROWS, columns=names), None)
        if sample is None or not sample.num_rows:
            raise self.error(None, "There is no row. Is the file complete?")
        rows = list(zip(*(_plain(column).to_pylist() for column in sample.columns), strict=True))
        return RoleFinder(self.path, names, rows, roles).roles()

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        arrow = import_pyarrow()
        with _told(self.path), arrow.parquet.ParquetFile(self.path) as file:
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
