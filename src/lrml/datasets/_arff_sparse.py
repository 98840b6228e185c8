"""The data section of a sparse ARFF file."""

from __future__ import annotations

import re
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lrml.datasets._arff_layout import Layout
from lrml.datasets._arff_rows import WEIGHT, Matrices
from lrml.datasets._arff_words import NUMBER, sparse_words
from lrml.datasets._errors import DatasetFormatError
from lrml.datasets._growing import GrowingCSR
from lrml.datasets._lines import Row

# Row within the chunk, attribute and number of each entry, in file order.
_Entries: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]

_ENTRY = rb"[ \t]*+\d++[ \t]++(?:" + NUMBER + rb"|\?)[ \t]*+"
_SPARSE_ROW = re.compile(rb"\{(?:" + _ENTRY + rb"(?:," + _ENTRY + rb")*+|[ \t]*+)\}")


class SparseRows:
    """Rows of ``{index value, ...}``; an index that is left out has the value 0, or the first declared."""

    def __init__(self, layout: Layout) -> None:
        layout.check_defaults()
        self._layout = layout
        self._ones_allowed = layout.ones_allowed
        self._index = {b"%d" % index: index for index in range(len(layout.attributes))}
        self._first = layout.first.astype(np.int32)
        self._X = GrowingCSR(np.float64)
        self._Y = GrowingCSR(np.uint8)
        self._unknown = GrowingCSR(np.bool_)

    def add(self, rows: list[Row]) -> None:
        """Read a chunk of rows."""
        layout = self._layout
        entries = self._read_ones(rows) or self._read_numbers(rows) or self._read_words(rows)
        row, index, values = self._sort(rows, entries)
        nonzero, is_label, missing = values != 0, layout.is_label[index], np.isnan(values)
        self._add_features(len(rows), row, index, values, nonzero & ~is_label)
        for part, keep in ((self._Y, nonzero & is_label & ~missing), (self._unknown, is_label & missing)):
            counts = np.bincount(row[keep], minlength=len(rows))
            part.append(counts, self._first[index[keep]], values[keep])

    def finish(self) -> Matrices:
        """Return features (float64) and labels (uint8) in CSR form, and unknown labels if there are any."""
        n_labels = len(self._layout.label_names)
        unknown = self._unknown.matrix(n_labels)
        X = self._X.matrix(len(self._layout.feature_names))
        return X, self._Y.matrix(n_labels), unknown if unknown.nnz else None

    def _add_features(
        self,
        n_rows: int,
        row: NDArray[np.int64],
        index: NDArray[np.int64],
        values: NDArray[np.float64],
        keep: NDArray[np.bool_],
    ) -> None:
        """Add the entries of features; the place of a nominal value says which of its columns is 1."""
        row, index, values = row[keep], index[keep], values[keep]
        columns = self._first[index]
        nominal = self._layout.is_nominal[index]
        if nominal.any():
            # A missing value is missing in all columns of its attribute.
            missing = nominal & np.isnan(values)
            times = np.where(missing, self._layout.span[index], 1)
            offset = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
            place = np.where(nominal & ~missing, values - 1, 0)
            columns = (np.repeat(columns + place, times) + offset).astype(np.int32)
            row = np.repeat(row, times)
            values = np.repeat(np.where(nominal & ~missing, 1.0, values), times)
        self._X.append(np.bincount(row, minlength=n_rows), columns, values)

    def _sort(self, rows: list[Row], entries: _Entries) -> _Entries:
        """Order the entries by row, then by attribute; most files are sorted already."""
        row, index, values = entries
        key = row * len(self._layout.attributes) + index
        if not np.any(key[1:] <= key[:-1]):
            return entries
        order = np.argsort(key, kind="stable")
        key, row, index, values = key[order], row[order], index[order], values[order]
        twice = np.flatnonzero(key[1:] == key[:-1])
        if twice.size:
            rule, line = "an index must not occur twice in a row", rows[row[twice[0]]][0]
            raise self._layout.error(line, rule, int(index[twice[0]]), "Delete one of the two entries.")
        return row, index, values

    def _read_ones(self, rows: list[Row]) -> _Entries | None:
        """Read rows such as ``{3 1,17 1}``, the usual ones; return None if some row looks different.

        Looking an index up is faster than converting it, and checks it as well: only the plain decimal
        form of a valid index is in the table.
        """
        if not self._ones_allowed:
            return None
        if not all(text.startswith(b"{") and text.endswith(b" 1}") for _, text in rows):
            return None
        counts = [text.count(b",") + 1 for _, text in rows]
        indices = b" 1,".join([text[1:-3] for _, text in rows]).split(b" 1,")
        try:
            index = np.fromiter(map(self._index.__getitem__, indices), np.int64, len(indices))
        except KeyError:
            return None
        return np.repeat(np.arange(len(rows)), counts), index, np.ones(len(indices))

    def _read_numbers(self, rows: list[Row]) -> _Entries | None:
        """Read rows of any numbers and question marks, all at once; None if some row looks different."""
        if self._layout.words or any(_SPARSE_ROW.fullmatch(text) is None for _, text in rows):
            return None
        bodies = [text[1:-1].strip() for _, text in rows]
        counts = [body.count(b",") + 1 if body else 0 for body in bodies]
        row = np.repeat(np.arange(len(rows)), counts)
        joined = b" ".join(bodies).replace(b",", b" ").replace(b"?", b"nan")
        numbers = np.fromstring(joined, sep=" ") if row.size else np.empty(0)
        index, values = numbers.reshape(-1, 2).T
        width = len(self._layout.attributes)
        if np.any(index >= width):
            first = int(np.argmax(index >= width))
            raise self._beyond(rows[row[first]][0], f"{index[first]:.0f}")
        return self._check(rows, (row, index.astype(np.int64), values))

    def _read_words(self, rows: list[Row]) -> _Entries:
        """Read rows with words or quotes; a row that breaks a rule is an error."""
        row: list[int] = []
        indices: list[int] = []
        values: list[float] = []
        for place, (line, text) in enumerate(rows):
            entries, stop = sparse_words(text)
            if stop < len(text) or not text.endswith(b"}"):
                raise self._explain(line, text, stop)
            for written, word in entries:
                index = self._index.get(written.lstrip(b"0") or b"0")
                if index is None:
                    raise self._beyond(line, written.decode())
                row.append(place)
                indices.append(index)
                values.append(self._layout.read(line, index, word))
        columns = np.array(indices, dtype=np.int64)
        return self._check(rows, (np.array(row, dtype=np.int64), columns, np.array(values)))

    def _check(self, rows: list[Row], entries: _Entries) -> _Entries:
        row, index, values = entries
        # The word "nan" is not a number, so what is NaN here was a question mark.
        wrong = np.flatnonzero(self._layout.is_wrong(index, values) & ~np.isnan(values))
        if wrong.size:
            first = int(wrong[0])
            raise self._layout.wrong_value(rows[row[first]][0], int(index[first]), float(values[first]))
        return entries

    def _beyond(self, line: int, index: str) -> DatasetFormatError:
        rule = f"an index must be below {len(self._layout.attributes)}, the number of attributes"
        return self._layout.error(line, rule, index, "Count attributes from 0.")

    def _explain(self, line: int, text: bytes, stop: int) -> DatasetFormatError:
        """Find out what is wrong with a row that could be read up to `stop`."""
        layout, rest = self._layout, text[stop:]
        if not text.startswith(b"{"):
            return layout.mixed(line, text)
        if WEIGHT.fullmatch(rest):
            return layout.weighted(line, rest)
        if not text.endswith(b"}"):
            return layout.error(line, "a sparse row must end with }", text, "Check that the row is complete.")
        rule = 'an entry of a sparse row must be "index value"'
        entry = rest.partition(b",")[0].removesuffix(b"}")
        return layout.error(line, rule, entry, "Separate entries by commas, and close all quotes.")
