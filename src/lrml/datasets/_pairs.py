"""The svmlight and XMC formats: rows of labels and ``index:value`` pairs."""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml._shown import shown
from lrml.datasets._dataset import Dataset, NumberedNames, Schema
from lrml.datasets._lines import (
    DatasetFormatError,
    FileReader,
    GrowingCSR,
    Row,
    chunks,
    decoded,
    numbered_lines,
    numbers_in,
    significant_lines,
)
from lrml.datasets._roles import Roles

_MOST = 2**31 - 1  # column indices are stored in 32 bits
_TO_BLANKS = bytes.maketrans(b":,\n\t\r", b"     ")
# The structure of rows; what stands for a number is checked when it is converted.
_PART = rb"[^\s:,]++"
_PAIR = _PART + rb":" + _PART
_LABELS = _PART + rb"(?:," + _PART + rb")*+(?=\s)"
_ROW = rb"(?:" + _LABELS + rb")?+[ \t]*+(?:" + _PAIR + rb"(?:[ \t]++" + _PAIR + rb")*+)?+[ \t\r]*+\n"
_ROWS = re.compile(rb"(?:" + _ROW + rb")*+")
_HEADER = re.compile(rb"\s*(\d{1,10})[ \t]+(\d{1,10})[ \t]+(\d{1,10})\s*")


def is_xmc_header(line: bytes) -> bool:
    """Whether a first line is ``n d L``, as in XMC."""
    return _HEADER.fullmatch(line) is not None


class PairReader(FileReader):
    """Reads a file of one of the two formats.

    Parameters
    ----------
    path : path-like
        The file.
    roles : Roles
        Of it, ``zero_based`` says whether svmlight counts features from 0; None: if the index 0 occurs.
    header : bool
        Whether the first line says how many rows and columns there are, as in XMC.
    n_features, n_labels : int, optional
        Of svmlight, whose files do not say it: by default, the highest index and label that occur.
    feature_names, label_names : path-like or sequence of str, optional
        The names of the columns, or a file with one a line.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        roles: Roles,
        *,
        header: bool,
        n_features: int | None = None,
        n_labels: int | None = None,
        feature_names: str | os.PathLike[str] | Sequence[str] | None = None,
        label_names: str | os.PathLike[str] | Sequence[str] | None = None,
    ) -> None:
        names = {"feature_names": feature_names, "label_names": label_names}
        super().__init__(path, roles, header=header, n_features=n_features, n_labels=n_labels, **names)
        self.header = header
        self._base: int | None = 0 if header or roles.zero_based else None
        if roles.zero_based is False:
            self._base = 1
        self.roles, self.n_rows = replace(roles, kind="numbers"), None
        self._widths: Any = [n_features, n_labels]
        if header:
            _, first = next(numbered_lines(path), (1, b""))
            match = _HEADER.fullmatch(first)
            if match is None or not all(0 < int(size) <= _MOST for size in match.groups()[:2]):
                raise DatasetFormatError.at(
                    path,
                    1,
                    f'{shown(first.strip())} is not "n d L", the numbers of rows, features and labels. Put '
                    "such a line first, or read the file as svmlight, which has none.",
                )
            self.n_rows, *self._widths = map(int, match.groups())
        self.has_first_pass = None in self._widths or self._base is None
        self._names = [_names(source) for source in (feature_names, label_names)]

    @cached_property
    def schema(self) -> Schema:
        """The names of the columns; finding them reads a svmlight file once, unless the widths are given."""
        if None in self._widths or self._base is None:
            found = _Pairs(self, self._base)
            for chunk in chunks(self._lines()):
                found.add(chunk, count_only=True)
            return self._schema(found)
        return self._schema(None)

    def _schema(self, found: _Pairs | None) -> Schema:
        """Return the names of the columns, as far as rows tell how many there are."""
        base = self._base if found is None else found.base
        if base is None:
            base = int(found is not None and found.lowest > 0)
        d, n_labels = self._widths
        if found is not None:
            d = max(found.highest + 1 - base, 0) if d is None else d
            n_labels = found.highest_label + 1 if n_labels is None else n_labels
            if found.highest - base >= d:
                raise self._error(
                    None, f"Index {found.highest} is beyond the {d} features. Raise n_features."
                )
            if not d:
                raise self._error(None, "There are no features. Pass n_features.")
        names: list[Sequence[str]] = []
        for what, given, count, start in (
            ("feature", self._names[0], d or 0, base),
            ("label", self._names[1], n_labels or 0, 0),
        ):
            if given is not None and len(given) != count:
                raise ValueError(f"{self.path} has {count} {what}s, but there are {len(given)} {what}_names.")
            names.append(NumberedNames(what, count, start) if given is None else given)
        return Schema(names[0], names[1] if n_labels else None)

    def _lines(self) -> Iterator[Row]:
        if not self.header:
            yield from significant_lines(self.path, b"#")
            return
        count, number, n = 0, 1, self.n_rows or 0
        lines = numbered_lines(self.path)
        next(lines)
        for number, line in lines:  # an empty line is a row, but not after the last one
            if count == n and line.strip():
                message = f"There are more rows than the {n} that the first line says. Correct it."
                raise self._error(number, message)
            if count < n:
                count += 1
                yield number, line.rstrip()
        if count < n:
            message = f"The file ends after {count} rows, but its first line says {n}. Is it complete?"
            raise self._error(number, message)

    def blocks(
        self, rows: int | None, skip: int, schema: Schema | None, labelled: bool
    ) -> Generator[Dataset, None, int]:
        """Yield so many rows at a time; without a schema, a block is as wide as its rows say."""
        lines = self._lines()
        count = sum(1 for _ in islice(lines, skip))
        base = self._base
        if schema is None and rows is not None and base is None:
            base = 1  # one block cannot say it
        while True:
            block = _Pairs(self, base)
            for chunk in chunks(islice(lines, rows)):
                block.add(chunk)
            if not block.n_rows:
                break
            columns = self._schema(block) if schema is None else schema
            yield block.dataset(columns, labelled, count)
            count += block.n_rows
        if not count:
            raise self._error(None, "There are no rows. Is the file complete?")
        return count


class _Pairs:
    """Rows that are collected chunk by chunk."""

    def __init__(self, reader: PairReader, base: int | None) -> None:
        self._reader, self.base, self.n_rows = reader, base, 0
        self._X, self._Y = GrowingCSR(np.float64), GrowingCSR(np.uint8)
        self.lowest, self.highest, self.highest_label = _MOST, -1, -1

    def add(self, rows: list[Row], *, count_only: bool = False) -> None:
        """Read a chunk of rows: check its structure, then convert all numbers at once."""
        text = b"\n".join([row for _, row in rows] + [b""])
        try:
            if _ROWS.fullmatch(text) is None:
                raise ValueError("structure")
            numbers = numbers_in(text.translate(_TO_BLANKS))
        except ValueError:
            self._explain(rows)
            raise
        pair_counts = np.array([row.count(b":") for _, row in rows])
        # Commas are only between labels; a row without any has one if its first part has no colon.
        label_counts = np.array([_n_labels(row) for _, row in rows])
        sizes = np.column_stack([label_counts, 2 * pair_counts]).ravel()
        is_pair = np.repeat(np.tile([False, True], len(rows)), sizes)
        places = np.arange(len(rows))
        label, pairs = numbers[~is_pair], numbers[is_pair].reshape(-1, 2)
        self._add(rows, np.repeat(places, label_counts), label, None, count_only)
        self._add(rows, np.repeat(places, pair_counts), pairs[:, 0], pairs[:, 1], count_only)
        self.n_rows += len(rows)

    def _add(
        self,
        rows: list[Row],
        row: NDArray[np.int64],
        column: NDArray[np.float64],
        values: NDArray[np.float64] | None,
        count_only: bool,
    ) -> None:
        """Check and keep the labels of some rows, or their indices with values."""

        def refuse(at: int, message: str) -> DatasetFormatError:
            return self._reader._error(rows[row[at]][0], message)

        what, first, limit = "label", 0, self._reader._widths[1]
        if values is not None:
            what, first, limit = "index", self.base or 0, self._reader._widths[0]
            if np.isinf(values).any():
                at = int(np.argmax(np.isinf(values)))
                raise refuse(at, f"the value {values[at]} is not finite. Write nan if it is missing.")
            self.lowest = int(column.min(initial=self.lowest))
            self.highest = int(column.max(initial=self.highest))
        else:
            self.highest_label = int(column.max(initial=self.highest_label))
        # Where features may be counted from 0 or 1, the largest index is checked at the end.
        stop = _MOST if limit is None else limit + (1 if values is not None and self.base is None else first)
        wrong = (column < first) | (column >= stop) | (column != np.floor(column))
        if wrong.any():
            at = int(np.argmax(wrong))
            from_1 = what == "index" and (self.base, column[at]) == (0, stop)
            hint = ", or pass zero_based=False" if from_1 else ""
            message = f"{what} {column[at]:.17g} is not an integer from {first} to {stop - 1}"
            raise refuse(at, f"{message}. Correct it{hint}.")
        if not count_only:
            kept = np.ones(len(column), np.uint8) if values is None else values
            matrix = self._Y if values is None else self._X
            twice = matrix.add(len(rows), row, column.astype(np.int64), kept)
            if twice is not None:
                raise refuse(twice, f"{what} {column[twice]:.0f} is there twice. Delete one of the two.")

    def dataset(self, schema: Schema, labelled: bool, first_row: int) -> Dataset:
        """Return the rows."""
        features = schema.features or ()
        base = features.start if isinstance(features, NumberedNames) else self.base or 0
        X = self._X.matrix(len(features) + base)
        if base:
            X = sparse.csr_array((X.data, X.indices - base, X.indptr), shape=(X.shape[0], len(features)))
        Y = self._Y.matrix(len(schema.labels)) if labelled and schema.labels is not None else None
        labels = None if Y is None else schema.labels
        source = os.path.basename(self._reader.path)
        return Dataset(self._reader.name, X, Y, features, labels, None, source, None, first_row)

    def _explain(self, rows: list[Row]) -> None:
        """Say which part of which row is wrong."""
        for line, row in rows:
            for place, part in enumerate(row.split()):
                found = re.fullmatch(rb"(\d+):(.+)", part)
                texts = [found[2]] if found else part.split(b",") if place == 0 and b":" not in part else []
                try:
                    wrong = not texts or any(numbers_in(text).size != 1 for text in texts)
                except ValueError:
                    wrong = True
                if wrong:
                    raise self._reader._error(
                        line,
                        f'{shown(part)} is neither a list of labels in front, like "0,4", nor an index and '
                        'a number, such as "3:0.5". Correct it.',
                    ) from None


def _n_labels(row: bytes) -> int:
    if row[:1] in (b" ", b"\t", b""):
        return 0
    commas = row.count(b",")
    return commas + 1 if commas or b":" not in row.split(None, 1)[0] else 0


def _names(source: Any) -> Sequence[str] | None:
    """Return names, or those in a file with one a line."""
    if source is None or isinstance(source, NumberedNames):
        return source
    if isinstance(source, str | os.PathLike):
        return tuple(decoded(source, number, line).rstrip("\r\n") for number, line in numbered_lines(source))
    return tuple(source)
