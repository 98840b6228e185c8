"""Rows that are in memory; features in NumPy files, such as embeddings, beside a table of their labels."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
from scipy import sparse

from lrml.datasets._dataset import Columns, Dataset, NumberedNames, TextDataset
from lrml.datasets._lines import FileReader, format_of
from lrml.datasets._roles import Roles
from lrml.datasets._tables import CsvReader, ParquetReader

_TABLES: dict[str, Any] = {"csv": CsvReader, "parquet": ParquetReader}


class MemoryReader(FileReader):
    """Reads rows that are in memory."""

    def __init__(self, dataset: Any, roles: Roles | None = None) -> None:
        super().__init__(dataset.name, roles)
        self._dataset, self.name, self.files = dataset, dataset.name, ()
        kind: Any = "text" if isinstance(dataset, TextDataset) else "numbers"
        self.roles, self.known = roles or Roles(kind, "memory"), dataset.columns
        self.has_split, self.n_rows = dataset.n_train is not None, len(dataset)

    def blocks(self, rows: int, skip: int = 0) -> Iterator[Any]:
        """Yield so many rows at a time."""
        for start in range(skip, len(self._dataset), rows):
            yield self._dataset.rows(slice(start, start + rows))

    def split_of(self, n: int) -> int | None:
        """Return how many rows are the training set."""
        found: int | None = self._dataset.n_train
        return found

    def moved(self) -> MemoryReader:
        """Return itself: nothing is opened."""
        return self

    def digest(self) -> str:
        """Return a hash of the rows."""
        found = hashlib.sha256(repr(self.known).encode())
        for part in (self._dataset.X, self._dataset.targets):
            matrix: Any = getattr(part, "data", part) if sparse.issparse(part) else part
            found.update(matrix.tobytes() if isinstance(matrix, np.ndarray) else repr(matrix).encode())
        return found.hexdigest()


class ArrayReader(FileReader):
    """Reads features from a NumPy file, such as embeddings, and their labels from a table beside it.

    ``.npy`` is not loaded as a whole; ``.npz`` has one array, or a sparse matrix of SciPy. The table is CSV
    or Parquet, and has a row for each of the array: one column lists labels, or each of several is one.
    """

    def __init__(
        self, path: str | os.PathLike[str], roles: Roles, *, table: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__(path, roles, table=table and Path(table).absolute())
        self._X = self._load()
        self.roles, self._table, self.n_rows = replace(roles, kind="numbers"), None, self._X.shape[0]
        if table is not None:
            kind = format_of(table, None)
            if kind not in _TABLES:
                raise ValueError(f"The labels beside {path} are {kind}. Write them as CSV or Parquet.")
            self._table = _TABLES[kind](table, replace(roles, kind="numbers", features=(), format=kind))
            self.roles, self.files = self._table.roles, (self.path, *self._table.files)

    @classmethod
    def of_npz(cls, path: Path, roles: Roles, **options: Any) -> FileReader:
        """Return a reader of features, or of what `Dataset.save` has written."""
        is_saved = False
        if zipfile.is_zipfile(path):
            with (
                suppress(Exception),
                zipfile.ZipFile(path) as archive,
            ):  # a damaged one is named when it is read
                is_saved = "facts.npy" in archive.namelist()
        return MemoryReader(Dataset.load(path)) if is_saved else cls(path, roles, **options)

    def _load(self) -> Any:
        with self.path.open("rb") as stream:
            try:
                found = self._array(stream)
                if found.ndim != 2 or found.dtype.kind not in "biuf":
                    raise ValueError(f"{found.dtype} of shape {found.shape}")
            except Exception as error:  # of a damaged file NumPy and zipfile raise a dozen kinds
                message = f"This is not one array of numbers with rows and columns ({error}). Use numpy.save."
                raise self.error(None, message) from error
        return found

    def _array(self, stream: IO[bytes]) -> Any:
        if self.path.suffix.lower() == ".npy":
            return np.load(self.path, mmap_mode="r")
        with np.load(stream) as arrays:
            if "indptr" in arrays:
                return sparse.csr_array(sparse.load_npz(self.path))
            (found,) = arrays.values()
            return found

    @cached_property
    def _labels(self) -> Dataset:
        """All labels, which are small beside the features."""
        if self._table is None:
            return Dataset(self.name, np.empty((self.n_rows, 0)), None)
        found = Dataset.concat(list(self._table.blocks(self._table.bulk)), listed=bool(self.roles.tags))
        if len(found) != self.n_rows:
            message = (
                f"There are {self.n_rows} rows, but {len(found)} in {self.options['table']}. Pass as many."
            )
            raise self.error(None, message)
        return found

    @cached_property
    def columns(self) -> Columns:
        """The names of the columns."""
        return Columns(NumberedNames("feature", self._X.shape[1]), self._labels.label_names)

    def blocks(self, rows: int, skip: int = 0) -> Iterator[Any]:
        """Yield so many rows at a time."""
        for start in range(skip, self.n_rows, rows):
            part = slice(start, start + rows)
            beside = {"X": self._X[part], "feature_names": None, "provenance": self.path.name}
            with self.cells_told(lambda row: start + row + 1):  # noqa: B023
                found = replace(self._labels.rows(part), name=self.name, **beside)
            yield found
