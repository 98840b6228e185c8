"""The svmlight and XMC formats: rows of labels and ``index:value`` pairs."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrml._shown import shown
from lrml.core.checks import check_integer
from lrml.datasets._dataset import Columns, Dataset, NumberedNames, csr_of, place_twice
from lrml.datasets._lines import FileReader, Row, decoded, numbered_lines, significant_lines
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
    """Reads a file of XMC, whose first line (``header``) says its size, or of svmlight.

    Features of svmlight are counted from 1, unless the roles say ``zero_based``; there are as many columns as
    the highest index and label of all rows say, unless ``n_features`` and ``n_labels``, or names, say more.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        roles: Roles,
        *,
        header: bool,
        n_features: int | None = None,
        n_labels: int | None = None,
        feature_names: Any = None,
        label_names: Any = None,
    ) -> None:
        given = {"feature_names": feature_names, "label_names": label_names}
        super().__init__(path, roles, header=header, n_features=n_features, n_labels=n_labels, **given)
        self.roles, self._header = replace(roles, kind="numbers"), header
        sizes = {"n_features": n_features, "n_labels": n_labels}
        widths: Any = [one if one is None else check_integer(key, one, 0) for key, one in sizes.items()]
        if header:
            _, first = next(numbered_lines(path), (1, b""))
            match = _HEADER.fullmatch(first)
            if match is None or not all(0 < int(size) <= _MOST for size in match.groups()[:2]):
                raise self.error(
                    1,
                    f'{shown(first.strip())} is not "n d L", the numbers of rows, features and labels. Put '
                    "such a line first, or read the file as svmlight, which has none.",
                )
            self._n_rows, *widths = map(int, match.groups())
        self._names = [_names(source) for source in given.values()]
        for place, (key, names) in enumerate(zip(given, self._names, strict=True)):
            if names is not None and len(names) != (widths[place] or len(names)):
                raise ValueError(f"{path} has {widths[place]} columns for {len(names)} {key}. Pass one each.")
            widths[place] = widths[place] if names is None else len(names)
        self._d, self._n_labels = widths
        self._base = 0 if header or roles.zero_based else 1
        if None not in widths:
            self.known = self._columns(0, 0)

    def _columns(self, d: int, n_labels: int) -> Columns:
        """Return the columns; ``d`` and ``n_labels`` count where the file does not say how many."""
        labels = NumberedNames("label", n_labels if self._n_labels is None else self._n_labels)
        features = self._names[0] or NumberedNames("feature", d if self._d is None else self._d, self._base)
        return Columns(features, None if self._n_labels == 0 else self._names[1] or labels)

    def records(self) -> Iterator[Row]:
        """Yield the lines of rows; of XMC so many as the first line says."""
        if not self._header:
            yield from significant_lines(self.path, b"#")
            return
        count, number, n = 0, 1, self._n_rows
        for number, line in islice(numbered_lines(self.path), 1, None):
            if count < n:
                yield number, line.rstrip()
                count += 1
            elif line.strip():  # an empty line is a row, but not after the last one
                message = f"There are more rows than the {n} that the first line says. Correct it."
                raise self.error(number, message)
        if count < n:
            message = f"The file ends after {count} rows, but its first line says {n}. Is it complete?"
            raise self.error(number, message)

    def dataset(self, records: list[Row], first_row: int) -> Dataset:
        """Convert rows, as wide as they are if the file does not say it."""
        (row, index, values), (label_row, label) = self._cells(records)
        index -= self._base
        features, labels = self._columns(*(int(numbers.max(initial=-1)) + 1 for numbers in (index, label)))
        assert features is not None
        Y = None
        if labels is not None and not self.roles.unlabelled:
            Y = csr_of((len(records), len(labels)), label_row, label, np.ones(len(label), np.int8))
        return Dataset(
            self.name,
            csr_of((len(records), len(features)), row, index, values),
            Y,
            features,
            None if Y is None else labels,
            provenance=self.path.name,
            first_row=first_row,
        )

    def _cells(self, rows: list[Row]) -> tuple[tuple[Any, Any, Any], tuple[Any, Any]]:
        """Return row, index and value of each pair, and row and number of each label.

        The structure of all rows is checked first; then all numbers are converted at once.
        """
        text = b"\n".join([row for _, row in rows] + [b""])
        try:
            if _ROWS.fullmatch(text) is None:
                raise ValueError("structure")
            numbers = numbers_in(text.translate(_TO_BLANKS))
        except ValueError as error:
            self._explain(rows)
            message = "This row, or one after it, is not labels and pairs as in 1,5 3:0.5 17:1. Correct it."
            raise self.error(rows[0][0], message) from error
        n_pairs = np.array([row.count(b":") for _, row in rows])
        n_labels = np.array([_n_labels(row) for _, row in rows])
        sizes = np.column_stack([n_labels, 2 * n_pairs]).ravel()
        is_pair = np.repeat(np.tile([False, True], len(rows)), sizes)
        pairs, places = numbers[is_pair].reshape(-1, 2), np.arange(len(rows))
        row, label_row = np.repeat(places, n_pairs), np.repeat(places, n_labels)
        first = self._base
        last = _MOST - 1 if self._d is None else first + self._d - 1
        index = self._whole("index", rows, row, pairs[:, 0], first, last)
        last = _MOST - 1 if self._n_labels is None else self._n_labels - 1
        label = self._whole("label", rows, label_row, numbers[~is_pair], 0, last)
        return (row, index, pairs[:, 1]), (label_row, label)

    def _whole(
        self, what: str, rows: list[Row], row: Any, found: NDArray[np.float64], first: int, last: int
    ) -> NDArray[np.int64]:
        """Return indices or labels as integers; refuse others, and one that is in a row twice."""
        wrong = (found < first) | (found > last) | (found != np.floor(found))
        if wrong.any():
            at = int(np.argmax(wrong))
            message = f"{what} {found[at]:.17g} is not an integer from {first} to {last}. Correct it"
            counts_from_0 = what == "index" and not self._header and found[at] == 0
            hint = ", or pass zero_based=True (--read zero_based=true)" if counts_from_0 else ""
            raise self.error(rows[row[at]][0], f"{message}{hint}.")
        whole = found.astype(np.int64)
        if (at_ := place_twice(row, whole)) is not None:
            message = f"{what} {whole[at_]} is there twice. Delete one of the two."
            raise self.error(rows[row[at_]][0], message)
        return whole

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
                    raise self.error(
                        line,
                        f'{shown(part)} is neither a list of labels in front, like "0,4", nor an index and '
                        'a number, such as "3:0.5". Correct it.',
                    ) from None


def _n_labels(row: bytes) -> int:
    """Return how many labels stand in front: commas are only between them."""
    if row[:1] in (b" ", b"\t", b""):
        return 0
    commas = row.count(b",")
    return commas + 1 if commas or b":" not in row.split(None, 1)[0] else 0


def _names(source: Any) -> Sequence[str] | None:
    """Return names, or those in a file with one a line."""
    if isinstance(source, str | os.PathLike):
        return tuple(decoded(source, number, line).rstrip("\r\n") for number, line in numbered_lines(source))
    return source if source is None or isinstance(source, NumberedNames) else tuple(source)


def numbers_in(text: bytes, dtype: Any = np.float64) -> NDArray[Any]:
    """Return the numbers that are separated by blanks in a text; a `ValueError` if there is anything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # how NumPy before 2.4 refuses other text
        try:
            return np.fromstring(text, dtype, sep=" ") if text.strip() else np.empty(0, dtype)
        except DeprecationWarning as error:
            raise ValueError(str(error)) from error
