"""The data section of an ARFF file: rows of text to matrices, many rows at a time."""

from __future__ import annotations

import re
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml.datasets._arff_layout import Layout
from lrml.datasets._arff_words import NUMBER, Word, dense_words
from lrml.datasets._growing import GrowingCSR
from lrml.datasets._lines import Row
from lrml.datasets._record import FeatureMatrix, LabelMatrix

# Features, labels, and where it is unknown whether a label applies.
Matrices: TypeAlias = tuple[FeatureMatrix, LabelMatrix, sparse.csr_array | None]

WEIGHT = re.compile(rb"\s*+,?+\s*+\{\s*+" + NUMBER + rb"\s*+\}")


class RowReader(Protocol):
    """What turns chunks of rows into matrices."""

    def add(self, rows: list[Row]) -> None:
        """Read a chunk of rows."""

    def finish(self) -> Matrices:
        """Return the matrices of all rows added so far."""


class DenseRows:
    """Rows of comma-separated values."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._X: list[NDArray[np.float64]] = []
        self._Y: list[NDArray[np.uint8]] = []
        self._unknown = GrowingCSR(np.bool_)

    def add(self, rows: list[Row]) -> None:
        """Read a chunk of rows."""
        layout = self._layout
        values = self._read_numbers(rows)
        if values is None:
            values = self._read_words(rows)
        self._X.append(self._expand(values) if layout.is_nominal.any() else values[:, ~layout.is_label])
        labels = values[:, layout.is_label]
        unknown = np.isnan(labels)
        labels[unknown] = 0
        self._Y.append(labels.astype(np.uint8))
        columns = np.nonzero(unknown)[1]
        self._unknown.append(unknown.sum(axis=1), columns.astype(np.int32), np.ones(len(columns)))

    def finish(self) -> Matrices:
        """Return dense features (float64) and labels (uint8), and unknown labels if there are any."""
        Y = np.vstack(self._Y)
        unknown = self._unknown.matrix(Y.shape[1])
        return np.vstack(self._X), Y, unknown if unknown.nnz else None

    def _read_numbers(self, rows: list[Row]) -> NDArray[np.float64] | None:
        """Read rows of bare numbers and question marks, all at once; None if some row looks different."""
        if self._layout.words:
            return None
        texts = [text for _, text in rows]
        missing = any(b"?" in text for text in texts)
        if missing:
            if any(b"n" in text or b"N" in text for text in texts):  # would pass for missing, too
                return None
            texts = [_question_marks_to_nan(text) for text in texts]
        try:
            values = np.loadtxt(texts, delimiter=",", comments=None, ndmin=2)
        except ValueError:
            return None
        if values.shape != (len(rows), len(self._layout.attributes)):
            return None
        return self._check(rows, values, missing=missing)

    def _read_words(self, rows: list[Row]) -> NDArray[np.float64]:
        """Read rows with words or quotes; a row that breaks a rule is an error."""
        layout = self._layout
        table = [self._split(line, text) for line, text in rows]
        values = np.empty((len(rows), len(layout.attributes)))
        for index, words in enumerate(zip(*table, strict=True)):
            column = layout.read_column(index, words)
            if column is None:  # read by rows, to report the first error of the file
                for place, ((line, _), row) in enumerate(zip(rows, table, strict=True)):
                    values[place] = [layout.read(line, i, word) for i, word in enumerate(row)]
                break
            values[:, index] = column
        return self._check(rows, values, missing=True)

    def _check(self, rows: list[Row], values: NDArray[np.float64], *, missing: bool) -> NDArray[np.float64]:
        """Return the values; NaN is allowed only if it is known to stand for missing values."""
        is_wrong = self._layout.is_wrong(np.arange(values.shape[1]), values)
        wrong = np.argwhere(is_wrong & ~np.isnan(values) if missing else is_wrong)
        if wrong.size:
            row, index = map(int, wrong[0])
            raise self._layout.wrong_value(rows[row][0], index, float(values[row, index]))
        return values

    def _split(self, line: int, text: bytes) -> list[Word]:
        layout, width = self._layout, len(self._layout.attributes)
        if text.startswith(b"{"):
            raise layout.mixed(line, text)
        words = dense_words(text)
        if words is None:
            rule = "a quoted value must end with its quote, followed by a comma"
            raise layout.error(line, rule, text, "Write a quote inside of quotes as \\'.")
        if len(words) == width + 1 and WEIGHT.fullmatch(words[-1] or b""):
            raise layout.weighted(line, words[-1] or b"")
        if len(words) != width:
            rule = f"a row must have {width} values, one per attribute"
            remedy = "Separate values by commas; check that the row is complete."
            raise layout.error(line, rule, len(words), remedy)
        return words

    def _expand(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Spread the places of nominal values over columns of 0 and 1."""
        layout = self._layout
        X = np.zeros((len(values), len(layout.feature_names)))
        plain = ~layout.is_label & ~layout.is_nominal
        X[:, layout.first[plain]] = values[:, plain]
        for index in np.flatnonzero(layout.is_nominal):
            place, first = values[:, index], layout.first[index]
            X[np.isnan(place), first : first + layout.span[index]] = np.nan
            rows = np.flatnonzero(place > 0)
            X[rows, first - 1 + place[rows].astype(np.int64)] = 1
        return X


def _question_marks_to_nan(text: bytes) -> bytes:
    """Replace the question marks that are values; any other stays, and is not a number."""
    if b" " in text or b"\t" in text:
        text = b",".join(map(bytes.strip, text.split(b",")))
    if text.count(b"?") == (b"," + text).count(b",?") == (text + b",").count(b"?,"):
        return text.replace(b"?", b"nan")
    return text
