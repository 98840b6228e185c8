"""Tables with named columns, whatever their format: blocks of rows to the record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml._shown import shown
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._formats import stem
from lrml.datasets._lines import GrowingCSR
from lrml.datasets._record import MultiLabelDataset
from lrml.datasets._record_checks import FeatureMatrix, LabelMatrix
from lrml.datasets._table_columns import Columns, Request

Tag: TypeAlias = str | int  # a label in a list of labels


class _Growing(Protocol):
    """A matrix that grows by blocks of rows."""

    def add(self, block: NDArray[np.float64]) -> None:
        """Add rows."""

    def matrix(self) -> Any:
        """Return all rows, an array or a csr_array; called once."""


class _DenseBlocks:
    """An array that grows by blocks of rows.

    One buffer is enlarged by a quarter when it is full: the system moves large ones without copying, so that
    memory is not doubled, as it would be by joining blocks at the end.
    """

    def __init__(self, dtype: type[np.float64] | type[np.uint8], columns: int) -> None:
        self._buffer: NDArray[np.float64 | np.uint8] = np.empty((0, columns), dtype)
        self._rows = 0

    def add(self, block: NDArray[np.float64]) -> None:
        """Add rows."""
        start, self._rows = self._rows, self._rows + len(block)
        if self._rows > len(self._buffer):
            self._resize(max(self._rows, len(self._buffer) * 5 // 4))
        self._buffer[start : self._rows] = block

    def matrix(self) -> NDArray[np.float64 | np.uint8]:
        """Return all rows."""
        self._resize(self._rows)
        return self._buffer

    def _resize(self, rows: int) -> None:
        # Nobody else has seen the buffer yet, whatever the number of references may be in a debugger.
        self._buffer.resize((rows, self._buffer.shape[1]), refcheck=False)


class _SparseBlocks:
    """A CSR matrix that grows by dense blocks of rows; zeros are not stored, NaN is."""

    def __init__(self, dtype: type[np.float64] | type[np.uint8], columns: int) -> None:
        self._csr, self._columns = GrowingCSR(dtype), columns

    def add(self, block: NDArray[np.float64]) -> None:
        """Add rows."""
        row, column = np.nonzero(block)
        counts = np.bincount(row, minlength=len(block))
        self._csr.append(counts, column.astype(np.int32), block[row, column])

    def matrix(self) -> sparse.csr_array:
        """Return all rows."""
        return self._csr.matrix(self._columns)


class _TagRows:
    """Labels given as a list per row; their names are known only at the end."""

    def __init__(self) -> None:
        self._codes: dict[Tag, int] = {}
        self._csr = GrowingCSR(np.uint8)

    def add(self, rows: Iterable[Iterable[Tag]]) -> int:
        """Add rows, and return how many labels they have; a label twice in a row counts once."""
        codes = self._codes
        found = [[codes.setdefault(tag, len(codes)) for tag in dict.fromkeys(row)] for row in rows]
        counts = np.fromiter(map(len, found), np.int64, len(found))
        indices = np.fromiter((code for row in found for code in row), np.int32, int(counts.sum()))
        self._csr.append(counts, indices, np.ones(len(indices)))
        return len(indices)

    def finish(self) -> tuple[sparse.csr_array, tuple[str, ...]]:
        """Return Y and the names of its columns, sorted: text by code points, integers by size."""
        names = sorted(self._codes)  # a file has either text or integers
        rank = np.empty(len(names), np.int32)
        rank[[self._codes[name] for name in names]] = np.arange(len(names))
        # Labels were numbered as they came, so that the columns of a row are in order only now.
        raw = self._csr.matrix(len(names))
        Y = sparse.csr_array((raw.data, rank[raw.indices], raw.indptr), raw.shape)
        Y.sort_indices()
        return Y, tuple(map(str, names))


class TableBuilder:
    """Makes a record of blocks of rows.

    Parameters
    ----------
    columns : Columns
        Which column is what.
    request : Request
        What the user asked for.

    Attributes
    ----------
    rows, listed : int
        Number of rows, and of labels that they list in a label column, so far.
    """

    def __init__(self, columns: Columns, request: Request) -> None:
        self.columns, self.rows, self.listed = columns, 0, 0
        d, n_labels = len(columns.features), len(columns.labels)
        self._X: _Growing = _SparseBlocks(np.float64, d) if request.sparse else _DenseBlocks(np.float64, d)
        self._Y: _Growing = (
            _SparseBlocks(np.uint8, n_labels) if request.sparse else _DenseBlocks(np.uint8, n_labels)
        )
        self._unknown: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []  # rows, columns
        self._tags = _TagRows()

    def add(self, values: NDArray[np.float64], tags: Iterable[Iterable[Tag]] = ()) -> None:
        """Add rows that have been checked by `Columns.first_wrong`.

        Parameters
        ----------
        values : ndarray of shape (rows, number of numeric columns)
            Features, then labels; NaN is missing or unknown. Unknown labels are set to 0 in place.
        tags : iterable of iterables of str or int, default=()
            The labels of each row, if there is a label column.
        """
        d = len(self.columns.features)
        start, self.rows = self.rows, self.rows + len(values)
        self._X.add(values[:, :d])
        if self.columns.tags is not None:
            self.listed += self._tags.add(tags)
            return
        row, column = np.nonzero(np.isnan(values[:, d:]))
        if row.size:
            values[row, d + column] = 0
            self._unknown.append((row + start, column))
        self._Y.add(values[:, d:])

    def finish(self, name: str | None) -> MultiLabelDataset:
        """Return the record of all rows; None as `name` takes the file name without its suffix."""
        columns = self.columns
        if not self.rows:
            raise DatasetFormatError.at(
                columns.path,
                None,
                "a table must have a row",
                Words("none"),
                "Check that the file is complete.",
            )
        Y, label_names, unknown = self._labels()
        X: FeatureMatrix = self._X.matrix()
        source = Path(columns.path).name
        if columns.tags is None:
            plural = "" if len(label_names) == 1 else "s"
            provenance = f"{source} with {len(label_names)} label column{plural}"
        else:
            provenance = f"{source} with the labels listed in column {columns.names[columns.tags]!r}"
        return MultiLabelDataset(
            name=stem(columns.path) if name is None else name,
            X=X,
            Y=Y,
            feature_names=tuple(columns.names[column] for column in columns.features),
            label_names=label_names,
            provenance=provenance,
            unknown=unknown,
        )

    def _unknown_labels(self) -> sparse.csr_array | None:
        if not self._unknown:
            return None
        row, column = map(np.concatenate, zip(*self._unknown, strict=True))
        shape = (self.rows, len(self.columns.labels))
        return sparse.csr_array((np.ones(len(row), np.bool_), (row, column)), shape)

    def _labels(self) -> tuple[LabelMatrix, Sequence[str], sparse.csr_array | None]:
        """Return Y, the names of the labels, and where they are unknown."""
        columns = self.columns
        if columns.tags is None:
            names = tuple(columns.names[column] for column in columns.labels)
            return self._Y.matrix(), names, self._unknown_labels()
        Y, names = self._tags.finish()
        if not names:
            rule = f"label column {shown(columns.names[columns.tags])} must list a label in some row"
            raise DatasetFormatError.at(
                columns.path, None, rule, Words("none"), "Check label_column and label_separator."
            )
        return Y, names, None
