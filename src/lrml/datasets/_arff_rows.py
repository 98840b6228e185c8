"""The data section of an ARFF file: rows of text to matrices, many rows at a time."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lrml.datasets._errors import DatasetFormatError
from lrml.datasets._growing import GrowingCSR
from lrml.datasets._lines import Row
from lrml.datasets._record import FeatureMatrix, LabelMatrix

# Row within the chunk, attribute and value of each entry of sparse rows, in file order.
_Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]

# Possessive quantifiers: the grammar is unambiguous, so backtracking could only cost time.
_NUMBER = rb"[-+]?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?+\d++)?+"
_ENTRY = rb"[ \t]*+\d++[ \t]++" + _NUMBER + rb"[ \t]*+"
_NUMBER_PATTERN = re.compile(_NUMBER)
_ENTRY_PATTERN = re.compile(_ENTRY)
_SPARSE_ROW = re.compile(rb"\{(?:" + _ENTRY + rb"(?:," + _ENTRY + rb")*+|[ \t]*+)\}")


@dataclass(frozen=True, eq=False)
class Layout:
    """Which attribute goes where.

    Parameters
    ----------
    path : path-like
        The file, for error messages.
    names : tuple of str
        Names of all attributes in file order.
    is_label : ndarray of bool
        Whether an attribute is a label.
    is_binary : ndarray of bool
        Whether an attribute may only be 0 or 1.
    """

    path: str | os.PathLike[str]
    names: tuple[str, ...]
    is_label: NDArray[np.bool_]
    is_binary: NDArray[np.bool_]

    def error(self, line: int, rule: str, got: object, remedy: str) -> DatasetFormatError:
        """Build an error about a line of the file."""
        return DatasetFormatError.at(self.path, line, rule, got, remedy)

    def is_wrong(self, columns: NDArray[np.int64], values: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Say which values are not finite, or not 0 or 1 where they have to be."""
        not_binary: NDArray[np.bool_] = self.is_binary[columns] & (values != 0) & (values != 1)
        return not_binary | ~np.isfinite(values)

    def wrong_value(self, line: int, column: int, value: float) -> DatasetFormatError:
        """Build the error for a value that `is_wrong` has found."""
        rule = "0 or 1" if self.is_binary[column] else "finite"
        return self.error(
            line, f"attribute {self.names[column]!r} must be {rule}", value, "Correct the value."
        )

    def wrong_text(self, line: int, value: bytes) -> DatasetFormatError:
        """Build the error for a value that is not a number."""
        if value == b"?":
            remedy = "Missing values are not supported: fill them in, or drop the row."
        else:
            remedy = "Write numbers such as 1, -0.5 or 2e-3, without quotes."
        return self.error(line, "a value must be a finite number", value, remedy)

    def mixed(self, line: int, text: bytes) -> DatasetFormatError:
        """Build the error for a dense row in a sparse file, or the other way round."""
        rule = "all rows must be of one kind, sparse {index value, ...} or dense"
        return self.error(line, rule, text, "Convert the file to one of the two.")


class RowReader(Protocol):
    """What turns chunks of rows into matrices."""

    def add(self, rows: list[Row]) -> None:
        """Read a chunk of rows."""

    def finish(self) -> tuple[FeatureMatrix, LabelMatrix]:
        """Return features and labels of all rows added so far."""


class DenseRows:
    """Rows of comma-separated values."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._X: list[NDArray[np.float64]] = []
        self._Y: list[NDArray[np.uint8]] = []

    def add(self, rows: list[Row]) -> None:
        """Read a chunk of rows."""
        layout, width = self._layout, len(self._layout.names)
        try:
            values = np.loadtxt([text for _, text in rows], delimiter=",", comments=None, ndmin=2)
        except ValueError as error:
            raise self._explain(rows) from error
        if values.shape[1] != width:
            raise self._explain(rows)
        wrong = np.argwhere(layout.is_wrong(np.arange(width), values))
        if wrong.size:
            row, column = map(int, wrong[0])
            raise layout.wrong_value(rows[row][0], column, float(values[row, column]))
        self._X.append(values[:, ~layout.is_label])
        self._Y.append(values[:, layout.is_label].astype(np.uint8))

    def finish(self) -> tuple[FeatureMatrix, LabelMatrix]:
        """Return dense features (float64) and labels (uint8)."""
        return np.vstack(self._X), np.vstack(self._Y)

    def _explain(self, rows: list[Row]) -> DatasetFormatError:
        """Find the first row that is not a row of numbers; bulk conversion has failed for one of them."""
        layout, width = self._layout, len(self._layout.names)
        for line, text in rows:
            if text.startswith(b"{"):
                return layout.mixed(line, text)
            values = text.split(b",")
            if len(values) != width:
                rule = f"a row must have {width} values, one per attribute"
                return layout.error(
                    line, rule, len(values), "Separate values by commas; check that the row is complete."
                )
            for value in values:
                if _NUMBER_PATTERN.fullmatch(value.strip(b" \t")) is None:
                    return layout.wrong_text(line, value.strip())
        return layout.error(
            rows[0][0], "rows must hold numbers, separated by commas", rows[0][1], "Check the rows from here."
        )


class SparseRows:
    """Rows of ``{index value, ...}``; an index that is left out has the value 0."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        # Column of each attribute inside X or Y: labels and features are counted separately.
        self._position = np.where(
            layout.is_label, np.cumsum(layout.is_label) - 1, np.cumsum(~layout.is_label) - 1
        ).astype(np.int32)
        self._index = {b"%d" % index: index for index in range(len(layout.names))}
        self._X = GrowingCSR(np.float64)
        self._Y = GrowingCSR(np.uint8)

    def add(self, rows: list[Row]) -> None:
        """Read a chunk of rows."""
        layout = self._layout
        entries = self._read_ones(rows)
        row, columns, values = self._read_any(rows) if entries is None else entries
        # One key orders the entries by row, then by attribute; most files are sorted already.
        key = row * len(layout.names) + columns
        if np.any(key[1:] <= key[:-1]):
            order = np.argsort(key, kind="stable")
            key, row, columns, values = key[order], row[order], columns[order], values[order]
            twice = np.flatnonzero(key[1:] == key[:-1])
            if twice.size:
                line, column = rows[row[twice[0]]][0], int(columns[twice[0]])
                rule = "an index must not occur twice in a row"
                raise layout.error(line, rule, column, "Delete one of the two entries.")
        nonzero = values != 0
        for part, chosen in ((self._X, ~layout.is_label), (self._Y, layout.is_label)):
            keep = nonzero & chosen[columns]
            counts = np.bincount(row[keep], minlength=len(rows))
            part.append(counts, self._position[columns[keep]], values[keep])

    def finish(self) -> tuple[FeatureMatrix, LabelMatrix]:
        """Return features (float64) and labels (uint8) in CSR form."""
        n_labels = int(np.count_nonzero(self._layout.is_label))
        return self._X.matrix(len(self._layout.names) - n_labels), self._Y.matrix(n_labels)

    def _read_ones(self, rows: list[Row]) -> _Entries | None:
        """Read rows such as ``{3 1,17 1}``, the usual ones; return None if some row looks different.

        Looking an index up is faster than converting it, and checks it as well: only the plain decimal
        form of a valid index is in the table.
        """
        if not all(text.startswith(b"{") and text.endswith(b" 1}") for _, text in rows):
            return None
        counts = [text.count(b",") + 1 for _, text in rows]
        indices = b" 1,".join([text[1:-3] for _, text in rows]).split(b" 1,")
        try:
            columns = np.fromiter(map(self._index.__getitem__, indices), np.int64, len(indices))
        except KeyError:
            return None
        return np.repeat(np.arange(len(rows)), counts), columns, np.ones(len(indices))

    def _read_any(self, rows: list[Row]) -> _Entries:
        """Read rows with any numbers as values: check the grammar row by row, convert all at once."""
        layout, width = self._layout, len(self._layout.names)
        for line, text in rows:
            if _SPARSE_ROW.fullmatch(text) is None:
                raise self._explain(line, text)
        bodies = [text[1:-1].strip() for _, text in rows]
        counts = [body.count(b",") + 1 if body else 0 for body in bodies]
        row = np.repeat(np.arange(len(rows)), counts)
        joined = b" ".join(bodies).replace(b",", b" ")
        numbers = np.fromstring(joined, sep=" ") if row.size else np.empty(0)
        index, values = numbers.reshape(-1, 2).T
        if np.any(index >= width):
            first = int(np.argmax(index >= width))
            rule = f"an index must be below {width}, the number of attributes"
            raise layout.error(rows[row[first]][0], rule, f"{index[first]:.0f}", "Count attributes from 0.")
        columns = index.astype(np.int64)
        wrong = np.flatnonzero(layout.is_wrong(columns, values))
        if wrong.size:
            first = int(wrong[0])
            raise layout.wrong_value(rows[row[first]][0], int(columns[first]), float(values[first]))
        return row, columns, values

    def _explain(self, line: int, text: bytes) -> DatasetFormatError:
        """Find out what is wrong with a row that is not a sparse row."""
        layout = self._layout
        if not text.startswith(b"{"):
            return layout.mixed(line, text)
        if not text.endswith(b"}"):
            return layout.error(line, "a sparse row must end with }", text, "Check that the row is complete.")
        entry = next(entry for entry in text[1:-1].split(b",") if _ENTRY_PATTERN.fullmatch(entry) is None)
        index, *value = entry.split(maxsplit=1) or [b""]
        if index.isdigit() and value:
            return layout.wrong_text(line, value[0].strip())
        rule = 'an entry of a sparse row must be "index value"'
        return layout.error(line, rule, entry, "Separate entries by commas.")
