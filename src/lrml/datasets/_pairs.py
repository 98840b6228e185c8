"""Reader of lines of labels and ``index:value`` pairs, which the XMC and svmlight formats share."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml.datasets._errors import DatasetFormatError
from lrml.datasets._growing import GrowingCSR
from lrml.datasets._lines import Row

BLANKS = b" \t\r\n"
MOST_COLUMNS = 2**31 - 1  # column indices are stored in 32 bits

# Possessive quantifiers: the grammar is unambiguous, so backtracking could only cost time.
_NUMBER = rb"[-+]?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?+\d++)?+"
_PAIR = rb"\d++:(?:" + _NUMBER + rb"|[nN][aA][nN])"
_PAIR_PATTERN = re.compile(_PAIR)
INTEGER_LABEL = re.compile(rb"\d++")
NUMBER_LABEL = re.compile(_NUMBER)

_TO_SPACES = bytes.maketrans(b":,\t", b"   ")
_TO_ZEROS = bytes.maketrans(b"eEnNaA", b"000000")  # so that each number stays one run of digits
_EXACT = 2**53  # below it, each integer is a float64
_POWERS = 10.0 ** np.arange(23)  # the powers of ten that are a float64


@dataclass(frozen=True, eq=False)
class Limits:
    """What a file may contain.

    Parameters
    ----------
    path : path-like
        The file, for error messages.
    label : re.Pattern
        How a label is written: `INTEGER_LABEL` or `NUMBER_LABEL`.
    first : int
        The lowest index of a feature.
    features, labels : int
        One more than the highest index of a feature, and of a label.
    """

    path: str | os.PathLike[str]
    label: re.Pattern[bytes]
    first: int
    features: int
    labels: int

    def row_pattern(self) -> re.Pattern[bytes]:
        """Return the grammar of a row; group 1 takes part if the row has labels."""
        label = self.label.pattern
        labels = rb"(" + label + rb"(?:," + label + rb")*+(?=[ \t]|\Z))?+"
        return re.compile(labels + rb"[ \t]*+(?:" + _PAIR + rb"(?:[ \t]++" + _PAIR + rb")*+)?+")


class PairRows:
    """Collects rows ``l1,l2,... index:value index:value ...``, chunk by chunk.

    A row without labels starts with a blank or with its first pair. Pairs may come in any order. Values of
    0 are left out, but those of -0.0 are kept, as a dense matrix may need them.

    Parameters
    ----------
    limits : Limits
        What the file may contain.

    Attributes
    ----------
    n_rows : int
        Rows so far.
    lowest, highest : int or None
        The lowest and highest index of a feature so far; None before the first.
    highest_line : int
        The line of the highest index.
    highest_label : int
        The highest label so far; -1 before the first.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._row = limits.row_pattern()
        self._X = GrowingCSR(np.float64)
        self._Y = GrowingCSR(np.uint8)
        self.n_rows = 0
        self.lowest: int | None = None
        self.highest: int | None = None
        self.highest_line = 0
        self.highest_label = -1

    def add(self, rows: list[Row]) -> None:
        """Read a chunk of rows: check the grammar row by row, then convert all numbers at once."""
        texts, counts = [], np.zeros((len(rows), 2), np.int64)
        for position, (line, raw) in enumerate(rows):
            text = raw.rstrip(BLANKS)
            match = self._row.fullmatch(text)
            if match is None:
                raise self._explain(line, text)
            if text:
                texts.append(text.strip(BLANKS))
                # Commas are only between labels, colons only inside pairs.
                counts[position, 0] = 0 if match.lastindex is None else text.count(b",") + 1
                counts[position, 1] = text.count(b":")
        numbers = _to_numbers(b" ".join(texts))
        is_pair = np.repeat(np.tile([False, True], len(rows)), (counts * np.array([1, 2])).ravel())
        pairs = numbers[is_pair].reshape(-1, 2)
        self._add_labels(rows, counts[:, 0], numbers[~is_pair])
        self._add_pairs(rows, counts[:, 1], pairs[:, 0], pairs[:, 1])
        self.n_rows += len(rows)

    def matrices(self, features: int, labels: int, base: int) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Return features (float64) and labels (uint8); `base` is the index of the first feature."""
        X = self._X.matrix(features)
        if base:
            X.indices -= base
        return X, self._Y.matrix(labels)

    def _add_labels(self, rows: list[Row], counts: NDArray[np.int64], labels: NDArray[np.float64]) -> None:
        limits, row = self._limits, np.repeat(np.arange(len(rows)), counts)
        wrong = np.flatnonzero((labels < 0) | (labels != np.floor(labels)))
        if wrong.size:
            raise _wrong_label(limits.path, rows[row[wrong[0]]][0], f"{labels[wrong[0]]:.17g}")
        wrong = np.flatnonzero(labels >= limits.labels)
        if wrong.size:
            rule = f"a label must be below {limits.labels}, the number of labels"
            got = f"{labels[wrong[0]]:.17g}"
            remedy = "Count labels from 0, and check the number of labels."
            raise DatasetFormatError.at(limits.path, rows[row[wrong[0]]][0], rule, got, remedy)
        row, columns, _ = self._sorted("a label", rows, row, labels.astype(np.int64))
        self._Y.append(counts, columns.astype(np.int32), np.ones(len(columns)))
        self.highest_label = int(columns.max(initial=self.highest_label))

    def _add_pairs(
        self,
        rows: list[Row],
        counts: NDArray[np.int64],
        index: NDArray[np.float64],
        values: NDArray[np.float64],
    ) -> None:
        limits, row = self._limits, np.repeat(np.arange(len(rows)), counts)
        wrong = np.flatnonzero((index < limits.first) | (index >= limits.features))
        if wrong.size:
            rule = f"an index must lie in [{limits.first}, {limits.features - 1}]"
            got = f"{index[wrong[0]]:.17g}"
            remedy = f"Count features from {limits.first}, and check the number of features."
            raise DatasetFormatError.at(limits.path, rows[row[wrong[0]]][0], rule, got, remedy)
        wrong = np.flatnonzero(np.isinf(values))
        if wrong.size:
            raise _wrong_value(limits.path, rows[row[wrong[0]]][0], float(values[wrong[0]]))
        row, columns, order = self._sorted("an index", rows, row, index.astype(np.int64))
        self._see(rows, row, columns)
        values = values if order is None else values[order]
        keep = (values != 0) | np.signbit(values)
        counts = np.bincount(row[keep], minlength=len(rows))
        self._X.append(counts, columns[keep].astype(np.int32), values[keep])

    def _see(self, rows: list[Row], row: NDArray[np.int64], columns: NDArray[np.int64]) -> None:
        """Keep track of the range of indices, written zeros included."""
        if not columns.size:
            return
        lowest, at = int(columns.min()), int(columns.argmax())
        self.lowest = lowest if self.lowest is None else min(self.lowest, lowest)
        if self.highest is None or columns[at] > self.highest:
            self.highest, self.highest_line = int(columns[at]), rows[row[at]][0]

    def _sorted(
        self, what: str, rows: list[Row], row: NDArray[np.int64], columns: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64] | None]:
        """Sort entries by row, then column, and refuse duplicates; the order is None if they are sorted."""
        key = row * 2**31 + columns
        if not np.any(key[1:] <= key[:-1]):  # most files
            return row, columns, None
        order = np.argsort(key, kind="stable")
        key, row, columns = key[order], row[order], columns[order]
        twice = np.flatnonzero(key[1:] == key[:-1])
        if twice.size:
            line, column = rows[row[twice[0]]][0], int(columns[twice[0]])
            rule = f"{what} must not occur twice in a row"
            raise DatasetFormatError.at(self._limits.path, line, rule, column, "Delete one of the two.")
        return row, columns, order

    def _explain(self, line: int, text: bytes) -> DatasetFormatError:
        """Find out what is wrong with a row that does not fit the grammar."""
        path, tokens = self._limits.path, re.split(rb"[ \t]+", text)
        if b":" not in tokens[0]:
            labels = tokens.pop(0)
            for label in labels.split(b",") if labels else ():
                if self._limits.label.fullmatch(label) is None:
                    return _wrong_label(path, line, label)
        token = next(token for token in tokens if _PAIR_PATTERN.fullmatch(token) is None)
        index, colon, value = token.partition(b":")
        if index == b"qid":
            remedy = "Queries are for ranking; remove the qid fields to read the rest."
            return DatasetFormatError.at(path, line, "a row must not have a qid", token, remedy)
        if INTEGER_LABEL.fullmatch(index) and colon:
            return _wrong_value(path, line, value)
        rule = 'after the labels, a row must consist of pairs "index:value", separated by spaces'
        return DatasetFormatError.at(path, line, rule, token, 'Write rows such as "0,4 3:0.5 17:1".')


def _wrong_label(path: str | os.PathLike[str], line: int, got: object) -> DatasetFormatError:
    remedy = 'Number labels from 0 and separate them by commas; classes such as "-1" are not labels.'
    return DatasetFormatError.at(path, line, "a label must be a non-negative integer", got, remedy)


def _wrong_value(path: str | os.PathLike[str], line: int, got: object) -> DatasetFormatError:
    remedy = "Write numbers such as 1, -0.5 or 2e-3, without spaces around the colon."
    return DatasetFormatError.at(
        path, line, "a value must be a finite number, or nan if it is missing", got, remedy
    )


def _to_numbers(text: bytes) -> NDArray[np.float64]:
    """Convert numbers that are separated by blanks, colons and commas, correctly rounded.

    All digits of a number are read as one integer, which is divided by a power of ten. If both are exact in
    float64, the quotient is rounded once. This takes a fifth of the time of a conversion one by one, which
    is left for numbers with many digits or an exponent, and for nan.
    """
    if not text:
        return np.empty(0)
    text = text.translate(_TO_SPACES)
    text = b" ".join(text.split()) if b"  " in text else text
    integers = np.fromstring(text.translate(_TO_ZEROS, b".-+"), np.int64, sep=" ")
    characters = np.frombuffer(text, np.uint8)
    marks = np.flatnonzero((characters < ord("0")) | (characters > ord("9")))
    kind = characters[marks]
    is_space, is_point = kind == ord(" "), kind == ord(".")
    number = np.cumsum(is_space)  # to which number a mark belongs
    digits = np.diff(marks, append=len(text))[is_point] - 1
    numbers = integers.astype(np.float64)
    numbers[number[is_point]] /= _POWERS[np.minimum(digits, len(_POWERS) - 1)]
    numbers[number[kind == ord("-")]] *= -1  # also turns 0.0 into -0.0
    inexact = integers >= _EXACT  # beyond the range of int64, the largest int64 was read
    inexact[number[is_point][digits >= len(_POWERS)]] = True
    inexact[number[kind > ord("9")]] = True
    if inexact.any():
        ends = np.append(marks[is_space], len(text))
        starts = np.append(0, ends[:-1] + 1)
        places = zip(starts[inexact].tolist(), ends[inexact].tolist(), strict=True)
        numbers[inexact] = [float(text[start:end]) for start, end in places]
    return numbers
