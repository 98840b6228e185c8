"""Multi-label ARFF files, in the manner of Mulan and of MEKA, with sparse or dense rows."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from xml.etree import ElementTree

import numpy as np
from numpy.typing import NDArray

from lrml._shown import shown
from lrml.datasets._dataset import Columns, Dataset, csr_of, place_twice
from lrml.datasets._lines import (
    DatasetFormatError,
    FileReader,
    Row,
    decoded,
    significant_lines,
    stem_of,
)
from lrml.datasets._pairs import numbers_in
from lrml.datasets._roles import Roles

Word: TypeAlias = bytes | None  # without quotes and escapes; None is a missing value, a bare "?"
_Entries: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]

_QUOTED = rb"""(?:'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+")"""
_NAME = re.compile(
    rb"(?P<name>" + _QUOTED + rb"""|[^\s{'"][^\s{]*+)(?=[\s{])\s*+(?P<kind>\S.*+)""", re.DOTALL
)
# A bare word may hold spaces and, after its first character, quotes: "it's".
_CELL = re.compile(rb"""(\s*+(""" + _QUOTED + rb"""|[^,'"\s][^,]*+|)\s*+,)""")
_ENTRY = re.compile(rb"""\s*+(\d++)\s++(""" + _QUOTED + rb"""|[^,{}'"\s][^,{}]*+)\s*+,""")
_NUMBER_ENTRIES = re.compile(rb"(?:\s*+\d++\s++[-+.\deE?]++\s*+,)*+")
_LONE_QUESTION_MARK = re.compile(rb"(?<![^,\s])\?(?![^,\s])")
_ESCAPE = re.compile(rb"\\([\\'\"%ntr])")
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}
# The last colon that is followed by an option: a name may hold colons itself.
_MEKA = re.compile(r"(?P<name>.*):\s*+(?P<options>-.*+)", re.DOTALL)
_PART_OF_SPLIT = re.compile(r"(.+?)[-_](?:train|test)(?:[-_].*)?", re.IGNORECASE)


class _Attribute(NamedTuple):
    """A declared column: its name, the line, and the values of a nominal one (None: it is numeric)."""

    name: str
    line: int
    domain: tuple[str, ...] | None


class ArffReader(FileReader):
    """Reads an ARFF file, whose labels are named by the caller, by Mulan's XML file or in MEKA's header.

    A numeric attribute, a label, and a nominal attribute of 0 and 1 is one column. Any other nominal
    attribute of k values becomes k - 1 columns of 0 and 1, ``attribute=value``, for all values but the first
    declared one. That agrees with sparse files, where an omitted entry means the first declared value.

    A number of labels follows MEKA's rule: the first n attributes, or for -n the last. ``name-train.arff``,
    ``name-test.arff`` and ``name.arff`` use ``name.xml`` beside them, unless ``xml`` is another.
    """

    def __init__(
        self, path: str | os.PathLike[str], roles: Roles, *, xml: str | os.PathLike[str] | None = None
    ) -> None:
        super().__init__(path, roles, xml=xml)
        self.xml = xml if xml is not None or roles.labels else label_file_beside(Path(path))
        self.files += () if self.xml is None else (Path(self.xml),)
        self._read_header()
        named = self._labels(roles)
        self.roles = replace(roles, kind="numbers", labels=tuple(named))
        known = set(named)
        self._is_label = np.array([attribute.name in known for attribute in self._attributes])
        if self._is_label.all():
            raise self.error(None, "There is no feature beside the labels. Name fewer labels.")
        self._plan()
        self.known: Columns = self._columns()

    # The header.

    def _read_header(self) -> None:
        attributes: dict[str, _Attribute] = {}
        relation, self._first_line, lines = "", 0, significant_lines(self.path, b"%")
        for number, raw in lines:
            keyword, *rest = raw.split(None, 1)
            text = b"".join(rest)
            match keyword.lower():
                case b"@attribute":
                    attribute = self._attribute(number, text.strip())
                    if attribute.name in attributes:
                        raise self.error(number, f"{shown(attribute.name)} is there twice. Rename one.")
                    attributes[attribute.name] = attribute
                case b"@relation":
                    relation = decoded(self.path, number, _unquoted(text.strip()))
                case b"@data":
                    self._first_line = number
                    break
                case _:
                    raise self.error(
                        number,
                        f"{shown(raw)} is not @relation, @attribute, @data or %. Is this an ARFF file?",
                    )
        else:
            raise self.error(None, "There is no @data line. Is the file complete?")
        _, first = next(lines, (0, b""))
        if not first:
            raise self.error(None, "There is no row after @data. Is the file complete?")
        self._attributes, self._is_sparse = list(attributes.values()), first.startswith(b"{")
        match_ = _MEKA.fullmatch(relation)
        words = match_["options"].split() if match_ else []
        self._options = dict(zip(words, [*words[1:], ""], strict=False))
        self.has_split = bool({"-split-number", "-split-percentage"} & set(self._options))
        if match_ and "-C" in self._options:
            self.name = match_["name"]

    def _attribute(self, line: int, text: bytes) -> _Attribute:
        found = _NAME.fullmatch(text)
        if found is None:
            raise self.error(line, f"{shown(text)} is no name and type. Quote names with spaces or braces.")
        # Escapes belong to quoted names: Mulan's delicious has the bare name TAG_m\'usica, also in its XML.
        name, kind = decoded(self.path, line, _unquoted(found["name"])), found["kind"].strip()
        if kind.lower() in (b"numeric", b"real", b"integer"):
            return _Attribute(name, line, None)
        if kind == b"{0,1}":  # nearly all of them, in files with thousands
            return _Attribute(name, line, ("0", "1"))
        if not kind.startswith(b"{"):
            message = f"attribute {shown(name)} is {shown(kind)}, neither numeric nor nominal. Leave it out."
            raise self.error(line, message)
        words = _cells(kind[1:-1]) if kind.endswith(b"}") else None
        if words is None or not all(words):
            message = f"attribute {shown(name)} is {shown(kind)}, no list {{first,second,...}}. Close quotes."
            raise self.error(line, message)
        domain = tuple(decoded(self.path, line, word or b"") for word in words)
        if len(set(domain)) < len(domain):
            raise self.error(line, f"attribute {shown(name)} declares a value twice. Delete one.")
        return _Attribute(name, line, domain)

    def _labels(self, roles: Roles) -> list[str]:
        """Return the names of the labels; none if nothing says which they are."""
        names = [attribute.name for attribute in self._attributes]
        count: Any = roles.labels
        if isinstance(count, int) or (not count and self.xml is None and "-C" in self._options):
            count = count or self._option("-C")
            if not 0 < abs(count) < len(names):
                raise self.error(None, f"{count} of {len(names)} attributes cannot be labels. Correct it.")
            return names[:count] if count > 0 else names[count:]
        source: str | os.PathLike[str] = self.path
        chosen, known = list(count or ()), set(names)
        if not chosen and self.xml is not None:  # it may repeat a name as it is written inside of quotes
            source = self.xml
            found = _names_in_xml(self.xml)
            chosen = [name if name in known else _unescaped(name.encode()).decode() for name in found]
        missing = [name for name in chosen if name not in known]
        if missing and not roles.unlabelled:
            message = f"Label {shown(missing[0])} is no attribute of {os.fspath(self.path)}. Correct it."
            raise DatasetFormatError.at(source, None, message)
        return [name for name in chosen if name in known]

    def _option(self, option: str) -> int:
        try:
            return int(self._options[option])
        except ValueError:
            message = f"{option} in the relation is {shown(self._options[option])}, not an integer."
            raise self.error(None, message) from None

    def split_of(self, n: int) -> int | None:
        """Return how many of some rows are the training set, by MEKA's header; None if it does not say."""
        if "-split-number" in self._options:
            return self._option("-split-number")
        if "-split-percentage" in self._options:  # MEKA rounds halves up
            return math.floor(n * (float(self._options["-split-percentage"]) / 100) + 0.5)
        return None

    # Which attribute becomes which columns.

    def _plan(self) -> None:
        """Decide how each attribute is read: by a table of words, or as a number, perhaps only 0 or 1."""
        self._words: dict[int, dict[Word, float]] = {}
        count = len(self._attributes)
        self._span, self._nominal = np.ones(count, np.int64), np.zeros(count, np.bool_)
        for index, attribute in enumerate(self._attributes):
            domain = attribute.domain
            # In a sparse row an omitted value is the first one.
            if domain is None or (
                {"0", "1"}.issuperset(domain) and not (self._is_sparse and domain[0] == "1")
            ):
                continue
            if self._is_label[index]:
                found = f"{shown(attribute.name)} is {{{','.join(domain[:9])}}}"
                raise self.error(attribute.line, f"Label {found}. Write {{0,1}}, and 0 and 1 in the rows.")
            self._words[index] = {None: np.nan} | {value.encode(): k for k, value in enumerate(domain)}
            self._nominal[index], self._span[index] = True, len(domain) - 1
        ends = np.where(
            self._is_label, np.cumsum(self._span * self._is_label), np.cumsum(self._span * ~self._is_label)
        )
        self._first = ends - self._span

    def _columns(self) -> Columns:
        """Return the names of the columns."""
        labels = [a.name for a, label in zip(self._attributes, self._is_label, strict=True) if label]
        features: list[str] = []
        for index in np.flatnonzero(~self._is_label):
            attribute = self._attributes[index]
            nominal = [f"{attribute.name}={value}" for value in (attribute.domain or ())[1:]]
            features += nominal if self._nominal[index] else [attribute.name]
        return Columns(tuple(features), tuple(labels) or None)

    # The rows.

    def records(self) -> Iterator[Row]:
        """Yield the lines of rows."""
        return (row for row in significant_lines(self.path, b"%") if row[0] > self._first_line)

    def dataset(self, records: list[Row], first_row: int) -> Dataset:
        """Convert rows; the first of the file decides whether they are sparse."""
        features, labels = self.known
        row, index, values = self._entries(records)
        self._check(records, row, index)
        of_label, n, width = self._is_label[index], len(records), len(labels or ())
        Y = unknown = None
        if labels is not None and not self.roles.unlabelled:
            cells, found = (row[of_label], self._first[index[of_label]]), values[of_label]
            Y = csr_of((n, width), *cells, np.nan_to_num(found, posinf=np.inf))
            if np.isnan(found).any():
                unknown = csr_of((n, width), *cells, np.isnan(found))
        entries = self._features(*(part[~of_label] for part in (row, index, values)))
        X = csr_of((n, len(features or ())), *entries)
        return Dataset(
            self.name,
            X if self._is_sparse else X.toarray(),
            Y if Y is None or self._is_sparse else Y.toarray(),
            features,
            None if Y is None else labels,
            provenance=self.path.name,
            unknown=unknown,
            first_row=first_row,
        )

    def _features(
        self, row: NDArray[np.int64], index: NDArray[np.int64], values: NDArray[np.float64]
    ) -> _Entries:
        """Return entries of columns for those of attributes, where nominal ones have several columns."""
        columns, nominal = self._first[index], self._nominal[index]
        if not nominal.any():
            return row, columns, values
        missing = nominal & np.isnan(values)  # in all columns
        times = np.where(missing, self._span[index], 1)
        offset = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
        columns = np.repeat(columns + np.where(nominal & ~missing, values - 1, 0), times) + offset
        kept = np.repeat(~(nominal & (values == 0)), times)  # the first declared value has no column
        values = np.repeat(np.where(nominal & ~missing, 1.0, values), times)
        return np.repeat(row, times)[kept], columns[kept].astype(np.int64), values[kept]

    def _number(self, line: int, index: int, word: Word) -> float:
        """Return the number that a word stands for: its value, or its place in the declaration."""
        if index in self._words:
            if word not in self._words[index]:
                name = self._attributes[index].name
                raise self.error(line, f"{shown(word)} is no declared value of {shown(name)}. Correct it.")
            return self._words[index][word]
        if word is None:
            return np.nan
        with suppress(ValueError):
            found = numbers_in(word)
            if found.size == 1 and not np.isnan(found[0]):
                return float(found[0])
        raise self.error(line, f"{shown(word)} is no number. Correct it, or write ? for a missing value.")

    def _check(self, rows: list[Row], row: NDArray[np.int64], index: NDArray[np.int64]) -> None:
        """Refuse unknown or repeated attributes."""
        if np.any(index >= len(self._attributes)):
            at = int(np.argmax(index >= len(self._attributes)))
            message = f"index {index[at]} is beyond the {len(self._attributes)} attributes. Correct it."
            raise self.error(rows[row[at]][0], message)
        twice = place_twice(row, index)
        if twice is not None:
            message = f"index {index[twice]} is there twice. Delete one of the two entries."
            raise self.error(rows[row[twice]][0], message)

    def _entries(self, rows: list[Row]) -> _Entries:
        """Return row, attribute and value of each entry; those that are not given are 0."""
        found = (self._plain_sparse if self._is_sparse else self._plain_dense)(rows)
        if found is None:  # there are words or quotes, or a row breaks a rule
            cells = [
                (place, index, self._number(line, index, word))
                for place, (line, text) in enumerate(rows)
                for index, word in self._words_of(line, text)
            ]
            row, index, values = np.array(cells, np.float64).reshape(-1, 3).T
            found = row.astype(np.int64), index.astype(np.int64), values
        return found

    def _plain_dense(self, rows: list[Row]) -> _Entries | None:
        """Read rows of bare numbers and question marks, all at once; None if some row looks different."""
        texts = [text for _, text in rows]
        if self._words or any(b"n" in text.lower() for text in texts):  # nan and inf would be numbers
            return None
        texts = [_LONE_QUESTION_MARK.sub(b"nan", text) if b"?" in text else text for text in texts]
        try:
            values = np.loadtxt(texts, delimiter=",", comments=None, ndmin=2)
        except ValueError:
            return None
        row, index = values.nonzero()
        is_whole = values.shape == (len(rows), len(self._attributes))
        return (row, index, values[row, index]) if is_whole else None

    def _plain_sparse(self, rows: list[Row]) -> _Entries | None:
        """Read rows such as ``{3 1,17 0.5}``, all at once; None if some row looks different."""
        if self._words or not all(text.startswith(b"{") and text.endswith(b"}") for _, text in rows):
            return None
        bodies = [text[1:-1].strip() for _, text in rows]
        row = np.repeat(np.arange(len(rows)), [body.count(b",") + 1 if body else 0 for body in bodies])
        text = b",".join([body for body in bodies if body] + [b""])
        is_binary = text.count(b" 1,") == len(row)  # as in most files
        if not is_binary and _NUMBER_ENTRIES.fullmatch(text) is None:
            return None
        plain = text.replace(b" 1,", b" ") if is_binary else text.replace(b",", b" ").replace(b"?", b"nan")
        try:
            pairs = numbers_in(plain, np.int64 if is_binary else np.float64).reshape(
                -1, 1 if is_binary else 2
            )
        except ValueError:
            return None
        index = pairs[:, 0].astype(np.int64)
        values = np.ones(len(row)) if is_binary else pairs[:, 1]
        return (row, index, values) if len(index) == len(row) and (index >= 0).all() else None

    def _words_of(self, line: int, text: bytes) -> Iterator[tuple[int, Word]]:
        """Yield index and word of the entries of a row; a row that breaks a rule is an error."""
        count = len(self._attributes)
        if not self._is_sparse:
            words = _cells(text)
            if text.startswith(b"{") or words is None or len(words) != count:
                raise self.error(
                    line,
                    f"{shown(text)} has not one value for each of the {count} attributes. Separate values by "
                    "commas, close all quotes, and leave out weights.",
                )
            yield from enumerate(words)
            return
        body = text[1:-1].strip() + b","
        whole = text.startswith(b"{") and text.endswith(b"}")
        if not whole or (body != b"," and _ENTRY.sub(b"", body)):
            message = f"{shown(text)} is not {{index value, ...}}. Separate entries by commas, close quotes."
            raise self.error(line, message)
        yield from ((int(index), _word(word)) for index, word in _ENTRY.findall(body) if body != b",")


def label_file_beside(path: Path) -> Path | None:
    """Return the XML file that belongs to an ARFF file by its name; None if there is none."""
    own = stem_of(path)
    part = _PART_OF_SPLIT.fullmatch(own)
    places = (path.with_name(f"{name}.xml") for name in ([own] if part is None else [own, part[1]]))
    return next((place for place in places if place.is_file()), None)


def _names_in_xml(path: str | os.PathLike[str]) -> list[str]:
    """Return the names of the labels in Mulan's XML file; a hierarchy becomes a flat list."""
    try:
        elements = ElementTree.parse(path).getroot().iter()
        names = [element.get("name") for element in elements if element.tag.rpartition("}")[2] == "label"]
    except ElementTree.ParseError as error:
        raise DatasetFormatError.at(path, error.position[0], f"This is no XML ({error}).") from error
    if not names or None in names:
        message = 'There is no list <labels><label name="..."></label>...</labels>, as Mulan writes it.'
        raise DatasetFormatError.at(path, None, message)
    return list(dict.fromkeys(name for name in names if name is not None))


def _unescaped(text: bytes) -> bytes:
    """Resolve the escapes of a quoted text; unknown ones stay as they are."""
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)


def _unquoted(word: bytes) -> bytes:
    if word.startswith((b"'", b'"')) and re.fullmatch(_QUOTED, word, re.DOTALL):
        return _unescaped(word[1:-1])
    return word


def _word(text: bytes) -> Word:
    text = text.strip()
    return None if text == b"?" else _unquoted(text)


def _cells(text: bytes) -> list[Word] | None:
    """Split values between commas; None if a quote is not closed, or something follows it."""
    if b"'" not in text and b'"' not in text:
        return [_word(word) for word in text.split(b",")]
    found = _CELL.findall(text + b",")
    if sum(len(piece) for piece, _ in found) != len(text) + 1:  # something was skipped
        return None
    return [_word(word) for _, word in found]
