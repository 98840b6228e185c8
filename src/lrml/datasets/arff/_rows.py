"""The data section of an ARFF file: rows of text to matrices, many rows at a time."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml._shown import shown
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._lines import LONGEST_LINE, GrowingCSR, Row, entry_order, to_numbers
from lrml.datasets._record import FeatureMatrix, LabelMatrix
from lrml.datasets.arff._header import QUOTED, Attribute, Word, dense_words, to_word

# Features, labels, and where it is unknown whether a label applies.
Matrices: TypeAlias = tuple[FeatureMatrix, LabelMatrix, sparse.csr_array | None]
# Row within the chunk, attribute and number of each entry of sparse rows, in file order.
_Entries: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]

# Two-valued labels that are not 0 and 1: what says no, and what says yes.
_YES_OF_NO = {"false": "true", "no": "yes", "n": "y", "f": "t"}
_NUMBER = rb"[-+]?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?+\d++)?+"
_NUMBER_PATTERN = re.compile(_NUMBER)
_WEIGHT = re.compile(rb"\s*+,?+\s*+\{\s*+" + _NUMBER + rb"\s*+\}")
_LONE_QUESTION_MARK = re.compile(rb"(?<![^,\s])\?(?![^,\s])")
_ENTRY = rb"[ \t]*+\d++[ \t]++(?:" + _NUMBER + rb"|\?)[ \t]*+"
_SPARSE_NUMBERS = re.compile(rb"\{(?:" + _ENTRY + rb"(?:," + _ENTRY + rb")*+|[ \t]*+)\}")
_EMPTY_ROW = re.compile(rb"\{\s*+\}")
_WORD_ENTRY = re.compile(
    rb"""\s*+(?P<index>\d++)\s++(?P<word>""" + QUOTED + rb"""|[^,{}'"\s][^,{}]*+)\s*+(?P<end>[,}])"""
)


class Layout:
    """Which attribute becomes which columns, and what its values may be.

    A numeric attribute, a label, and a nominal attribute whose values are 0 and 1 are one column each. Any
    other nominal attribute of k values is k-1 columns of 0 and 1, one for each value but the first declared
    one; while rows are read it is one number, the place of its value in the declaration.

    Attributes
    ----------
    words : dict of int to dict of bytes or None to float
        For each attribute that is read by its words, not as a number: the number of each word.
    is_nominal : ndarray of bool
        Which attributes are such places in a declaration.
    first, span : ndarray of int
        First column of an attribute, counted among features or labels, and how many columns it has.
    feature_names, label_names : tuple of str
        Names of the columns.
    """

    def __init__(
        self, path: str | os.PathLike[str], attributes: tuple[Attribute, ...], is_label: NDArray[np.bool_]
    ) -> None:
        self.path, self.attributes, self.is_label = path, attributes, is_label
        self.words: dict[int, dict[Word, float]] = {}
        self.is_nominal = np.zeros(len(attributes), dtype=np.bool_)
        self.span = np.ones(len(attributes), dtype=np.int64)
        self._allowed = np.full((2, len(attributes)), np.nan)  # NaN: any finite number
        for index, attribute in enumerate(attributes):
            self._plan(index, attribute)
        self._is_restricted = ~np.isnan(self._allowed[0])
        ends = np.where(is_label, np.cumsum(self.span * is_label), np.cumsum(self.span * ~is_label))
        self.first = ends - self.span
        self.label_names = tuple(a.name for a, label in zip(attributes, is_label, strict=True) if label)
        self.feature_names = self._name_features()

    def _plan(self, index: int, attribute: Attribute) -> None:
        """Decide how one attribute is read."""
        domain, label = attribute.domain, bool(self.is_label[index])
        if domain is None:
            if label:
                self._allowed[:, index] = 0, 1
        elif {"0", "1"}.issuperset(domain):
            self._allowed[:, index] = float(domain[0]), float(domain[-1])
        elif label:
            yes = self._positive_value(attribute)
            self.words[index] = {None: np.nan} | {value.encode(): float(value == yes) for value in domain}
        else:
            places = {value.encode(): float(place) for place, value in enumerate(domain)}
            self.words[index] = {None: np.nan} | places
            self.is_nominal[index] = True
            self.span[index] = len(domain) - 1

    def _positive_value(self, attribute: Attribute) -> str:
        """Return which of two values says that a label applies."""
        domain = attribute.domain or ()
        for no, yes in (domain, domain[::-1]) if len(domain) == 2 else ():
            if _YES_OF_NO.get(no.lower()) == yes.lower():
                return yes
        rule = f"label {shown(attribute.name)} must be numeric or have two values, such as {{0,1}} or "
        remedy = "Targets of several values are not supported: encode each value as a label of its own."
        got = f"{{{','.join(domain[:9])}}}"
        raise self.error(attribute.line, rule + "{false,true}", got, remedy)

    def _name_features(self) -> tuple[str, ...]:
        """Name the columns of the features; those of a nominal attribute are ``attribute=value``."""
        size = 0
        names: list[str] = []
        taken = {attribute.name for attribute in self.attributes} if self.is_nominal.any() else set()
        for index in np.flatnonzero(~self.is_label):
            attribute = self.attributes[index]
            if not self.is_nominal[index]:
                names.append(attribute.name)
                continue
            # A long name times many values could exhaust memory.
            size += int(self.span[index]) * len(attribute.name)
            if size > LONGEST_LINE:
                rule = f"the names of nominal columns must not take more than {LONGEST_LINE} bytes"
                remedy = "Shorten the name of the attribute, or drop it."
                raise self.error(attribute.line, rule, size, remedy)
            for value in (attribute.domain or ())[1:]:
                name = f"{attribute.name}={value}"
                if name in taken:
                    rule = "the column attribute=value of a nominal attribute must have a name of its own"
                    raise self.error(attribute.line, rule, name, "Rename one of the two attributes.")
                taken.add(name)
                names.append(name)
        if not names:
            rule = "some attribute must be a feature that can take two values"
            raise self.error(None, rule, Words("none"), "Check the declarations.")
        return tuple(names)

    @property
    def ones_allowed(self) -> bool:
        """Whether each attribute is a number that may be 1."""
        return not self.words and not np.any(self._allowed[1] == 0)

    def check_defaults(self) -> None:
        """Refuse attributes whose omitted value, in a sparse row, would be 1 where 0 is meant."""
        for index, attribute in enumerate(self.attributes):
            if attribute.domain is None or self.is_nominal[index]:
                continue
            no = next((value for value in attribute.domain if value.lower() in {"0", *_YES_OF_NO}), "0")
            if attribute.domain[0] != no:
                rule = (
                    f"{shown(attribute.name)} must declare {no} first, as an omitted value of a sparse row "
                    "means the first value declared"
                )
                remedy = f"Swap the values if omitted ones are meant to be {no}."
                raise self.error(attribute.line, rule, f"{{{','.join(attribute.domain)}}}", remedy)

    def read(self, line: int, index: int, word: Word) -> float:
        """Return the number of a word: its value, its place in the declaration, or NaN if it is missing."""
        if word is None:
            return np.nan
        words = self.words.get(index)
        if words is None:
            if _NUMBER_PATTERN.fullmatch(word) is None:
                remedy = "Write numbers such as 1, -0.5 or 2e-3, and ? for a missing value."
                raise self.error(line, "a value must be a finite number", word, remedy)
            return float(word)
        number = words.get(word)
        if number is None:
            name, domain = self.attributes[index].name, self.attributes[index].domain or ()
            rule = f"attribute {shown(name)} must have one of its {len(domain)} declared values"
            raise self.error(line, rule, word, "Correct the value, or declare it.")
        return number

    def read_column(self, index: int, words: Sequence[Word]) -> list[float] | None:
        """Do what `read` does for many words of one attribute, faster; None if one of them is wrong."""
        table = self.words.get(index)
        try:
            if table is not None:
                return [table[word] for word in words]
            # With these characters only, float accepts exactly the numbers of ARFF.
            joined = b"".join([word for word in words if word is not None])
            if joined.translate(None, b"0123456789+-.eE"):
                return None
            return [np.nan if word is None else float(word) for word in words]
        except (KeyError, ValueError):
            return None

    def check(self, rows: list[Row], row: Any, index: Any, values: NDArray[np.float64]) -> None:
        """Refuse numbers that are not finite, or not 0 or 1 where they have to be; NaN is a missing value.

        `row`, within the chunk, and `index` of the attribute are arrays that broadcast to `values`.
        """
        not_allowed = (values != self._allowed[0][index]) & (values != self._allowed[1][index])
        wrong = (self._is_restricted[index] & not_allowed & ~np.isnan(values)) | np.isinf(values)
        if not wrong.any():
            return
        first = int(np.argmax(wrong))
        place, attribute = (int(np.broadcast_to(part, wrong.shape).flat[first]) for part in (row, index))
        rule = "finite"
        if self._is_restricted[attribute]:
            rule = " or ".join(f"{number:.0f}" for number in np.unique(self._allowed[:, attribute]))
        rule = f"attribute {shown(self.attributes[attribute].name)} must be {rule}"
        raise self.error(rows[place][0], rule, float(values.flat[first]), "Correct the value.")

    def mixed(self, line: int, text: bytes) -> DatasetFormatError:
        """Build the error for a dense row in a sparse file, or the other way round."""
        rule = "all rows must be of one kind, sparse {index value, ...} or dense"
        return self.error(line, rule, text, "Convert the file to one of the two.")

    def weighted(self, line: int, weight: bytes) -> DatasetFormatError:
        """Build the error for a row that is followed by a weight."""
        remedy = "Instance weights are not supported: delete them, or repeat rows."
        return self.error(line, "a row must not have a weight", weight, remedy)

    def error(self, line: int | None, rule: str, got: object, remedy: str) -> DatasetFormatError:
        """Build an error about a line of the file."""
        return DatasetFormatError.at(self.path, line, rule, got, remedy)


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
        layout.check(rows, np.arange(len(rows))[:, None], np.arange(values.shape[1]), values)
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
        texts = [text for _, text in rows]
        # NumPy would take the words nan and inf for numbers.
        if self._layout.words or any(b"n" in text or b"N" in text for text in texts):
            return None
        if any(b"?" in text for text in texts):
            texts = [_LONE_QUESTION_MARK.sub(b"nan", text) for text in texts]
        try:
            values = np.loadtxt(texts, delimiter=",", comments=None, ndmin=2)
        except ValueError:
            return None
        return values if values.shape == (len(rows), len(self._layout.attributes)) else None

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
        return values

    def _split(self, line: int, text: bytes) -> list[Word]:
        layout, width = self._layout, len(self._layout.attributes)
        if text.startswith(b"{"):
            raise layout.mixed(line, text)
        words = dense_words(text)
        if words is None:
            rule = "a quoted value must end with its quote, followed by a comma"
            raise layout.error(line, rule, text, "Write a quote inside of quotes as \\'.")
        if len(words) == width + 1 and _WEIGHT.fullmatch(words[-1] or b""):
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
        entries = self._read_ones(rows)
        if entries is None:
            entries = self._read_numbers(rows) or self._read_words(rows)
            layout.check(rows, *entries)
        row, index, values = self._sort(rows, entries)
        nonzero, is_label, missing = values != 0, layout.is_label[index], np.isnan(values)
        keep = nonzero & ~is_label
        self._add_features(len(rows), (row[keep], index[keep], values[keep]))
        for part, keep in ((self._Y, nonzero & is_label & ~missing), (self._unknown, is_label & missing)):
            counts = np.bincount(row[keep], minlength=len(rows))
            part.append(counts, self._first[index[keep]], values[keep])

    def finish(self) -> Matrices:
        """Return features (float64) and labels (uint8) in CSR form, and unknown labels if there are any."""
        n_labels = len(self._layout.label_names)
        unknown = self._unknown.matrix(n_labels)
        X = self._X.matrix(len(self._layout.feature_names))
        return X, self._Y.matrix(n_labels), unknown if unknown.nnz else None

    def _add_features(self, n_rows: int, entries: _Entries) -> None:
        """Add the entries of features; the place of a nominal value says which of its columns is 1."""
        row, index, values = entries
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
        row, index, _ = entries
        order, twice = entry_order(row, index)
        if twice is not None:
            rule, line = "an index must not occur twice in a row", rows[row[twice]][0]
            raise self._layout.error(line, rule, int(index[twice]), "Delete one of the two entries.")
        return entries if order is None else (row[order], index[order], entries[2][order])

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
        if self._layout.words or any(_SPARSE_NUMBERS.fullmatch(text) is None for _, text in rows):
            return None
        bodies = [text[1:-1].strip() for _, text in rows]
        counts = [body.count(b",") + 1 if body else 0 for body in bodies]
        row = np.repeat(np.arange(len(rows)), counts)
        index, values = to_numbers(b" ".join(bodies).replace(b"?", b"nan")).reshape(-1, 2).T
        beyond = np.flatnonzero(index >= len(self._layout.attributes))
        if beyond.size:
            raise self._beyond(rows[row[beyond[0]]][0], f"{index[beyond[0]]:.0f}")
        return row, index.astype(np.int64), values

    def _read_words(self, rows: list[Row]) -> _Entries:
        """Read rows with words or quotes; a row that breaks a rule is an error."""
        row: list[int] = []
        indices: list[int] = []
        values: list[float] = []
        for place, (line, text) in enumerate(rows):
            entries, stop = _sparse_words(text)
            if stop < len(text) or not text.endswith(b"}"):
                raise self._explain(line, text, stop)
            for written, word in entries:
                index = self._index.get(written.lstrip(b"0") or b"0")
                if index is None:
                    raise self._beyond(line, written.decode())
                row.append(place)
                indices.append(index)
                values.append(self._layout.read(line, index, word))
        return np.array(row, dtype=np.int64), np.array(indices, dtype=np.int64), np.array(values)

    def _beyond(self, line: int, index: str) -> DatasetFormatError:
        rule = f"an index must be below {len(self._layout.attributes)}, the number of attributes"
        return self._layout.error(line, rule, index, "Count attributes from 0.")

    def _explain(self, line: int, text: bytes, stop: int) -> DatasetFormatError:
        """Find out what is wrong with a row that could be read up to `stop`."""
        layout, rest = self._layout, text[stop:]
        if not text.startswith(b"{"):
            return layout.mixed(line, text)
        if _WEIGHT.fullmatch(rest):
            return layout.weighted(line, rest)
        if not text.endswith(b"}"):
            return layout.error(line, "a sparse row must end with }", text, "Check that the row is complete.")
        rule = 'an entry of a sparse row must be "index value"'
        entry = rest.partition(b",")[0].removesuffix(b"}")
        return layout.error(line, rule, entry, "Separate entries by commas, and close all quotes.")


def _sparse_words(text: bytes) -> tuple[list[tuple[bytes, Word]], int]:
    """Split a row ``{index word, ...}`` into entries; also say where reading stopped."""
    entries: list[tuple[bytes, Word]] = []
    empty = _EMPTY_ROW.match(text)
    if empty is not None:
        return entries, empty.end()
    position = 1 if text.startswith(b"{") else 0
    while (match := _WORD_ENTRY.match(text, position)) is not None:
        entries.append((match["index"], to_word(match["word"])))
        position = match.end()
        if match["end"] == b"}":
            break
    return entries, position
