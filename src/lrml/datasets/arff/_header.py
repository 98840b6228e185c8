"""The header of an ARFF file: its words, its attributes, and MEKA's options in the name of the relation.

All patterns are possessive and unambiguous, so that a line is read in time linear in its length.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from lrml._shown import shown
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._lines import Row

_Error: TypeAlias = Callable[[str, object, str], DatasetFormatError]  # of rule, value and remedy
Word: TypeAlias = bytes | None  # without quotes, escapes resolved; None is a missing value, a bare "?"

QUOTED = rb"""(?:'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+")"""
_QUOTED_TEXT = re.compile(QUOTED)
# A bare word may hold spaces and, after its first character, quotes: "it's".
_DENSE_WORD = re.compile(rb"""(\s*+(""" + QUOTED + rb"""|[^,'"\s][^,]*+|)\s*+,)""")
_ESCAPE = re.compile(r"\\([\\'\"%ntr])")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/+=-]*+")
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", "\t": r"\t", "\r": r"\r"})

# Quoted names may hold anything, with backslash escapes; a bare name ends at white space or at a "{".
_ATTRIBUTE = re.compile(
    rb"(?P<name>" + QUOTED + rb"""|[^\s{'"][^\s{]*+)(?=[\s{])\s*+(?P<kind>\S.*+)""", re.DOTALL
)
_NUMERIC = frozenset({b"numeric", b"real", b"integer"})

# The last colon that is followed by an option: a name may hold colons itself.
_MEKA_RELATION = re.compile(rb"(?P<name>.*):\s*+(?P<options>-.*+)", re.DOTALL)
_MEKA_OPTIONS = frozenset({b"-C", b"-split-number", b"-split-percentage"})
_INTEGER = re.compile(rb"[-+]?+\d{1,18}+")
_PERCENTAGE = re.compile(rb"\d{1,18}+(?:\.\d{0,18}+)?+")


def unescape(text: str) -> str:
    r"""Resolve the escapes of a quoted ARFF name; an unknown one such as ``\~`` stays as it is."""
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)


def unquote(word: bytes) -> bytes:
    """Return what a word stands for: quotes and escapes resolved, or the bare word as it is."""
    if not word.startswith((b"'", b'"')):
        return word
    if b"\\" not in word:
        return word[1:-1]
    # Escapes are ASCII, and latin-1 maps any bytes to characters and back.
    return unescape(word[1:-1].decode("latin-1")).encode("latin-1")


def quote(name: str) -> str:
    r"""Write a name such that `unquote` returns it, with as few quotes and escapes as possible.

    Other readers know fewer escapes than this one; so the kind of quotes is chosen to avoid them.

    Examples
    --------
    >>> print(quote("size"), quote("two words"), quote("it's"), quote("'\""))
    size 'two words' "it's" '\'"'
    """
    if _PLAIN_NAME.fullmatch(name):
        return name
    mark = '"' if "'" in name and '"' not in name else "'"
    return mark + name.translate(_ESCAPES).replace(mark, f"\\{mark}") + mark


def to_word(text: bytes) -> Word:
    """Return what a bare or quoted text stands for; None for a bare question mark."""
    text = text.rstrip()
    return None if text == b"?" else unquote(text)


def dense_words(text: bytes) -> list[Word] | None:
    """Split a row of comma-separated words; None if a quote is not closed, or something follows it."""
    if b"'" not in text and b'"' not in text:
        return [None if word == b"?" else word for word in map(bytes.strip, text.split(b","))]
    found = _DENSE_WORD.findall(text + b",")
    if sum(len(piece) for piece, _ in found) != len(text) + 1:  # something was skipped
        return None
    return [to_word(word) for _, word in found]


@dataclass(frozen=True)
class Attribute:
    """One declared column: its name, the line, and the values of a nominal one (None: it is numeric)."""

    name: str
    line: int
    domain: tuple[str, ...] | None


@dataclass(frozen=True)
class Header:
    """What comes before the data: the attributes, and the relation, such as ``'Music: -C 6'``.

    `name` is what comes before MEKA's options, and `options` has the values of those that matter here, as
    they are written. `line` is that of the relation, None if there is none.
    """

    path: str | os.PathLike[str]
    attributes: tuple[Attribute, ...]
    line: int | None
    name: bytes
    options: dict[bytes, bytes]

    @property
    def n_labels(self) -> int | None:
        """Value of ``-C``: how many attributes are labels, at the beginning, or if negative at the end."""
        return self._integer(b"-C")

    @property
    def meka_name(self) -> str | None:
        """The name of the dataset in a header of MEKA; None in any other."""
        if b"-C" not in self.options:
            return None
        try:
            return self.name.decode("utf-8")
        except UnicodeDecodeError as error:
            rule = "the name of the relation must be UTF-8 text"
            raise self._error(rule, self.name, "Save the file in that encoding.") from error

    def n_train(self, n: int) -> int | None:
        """Return how many of `n` rows are the training set; None if there is no split."""
        number, percentage = self.options.get(b"-split-number"), self.options.get(b"-split-percentage")
        if number is not None and percentage is not None:
            rule = "MEKA's header must have one of -split-number and -split-percentage"
            raise self._error(rule, "both", "Delete one of the two.")
        n_train = self._integer(b"-split-number")
        if percentage is not None:
            if _PERCENTAGE.fullmatch(percentage) is None:
                rule = "-split-percentage must be a number between 0 and 100"
                raise self._error(rule, percentage, "Correct the @relation line.")
            # MEKA rounds halves up, and so in favour of the training set.
            n_train = math.floor(n * (float(percentage) / 100) + 0.5)
        if n_train is not None and not 0 < n_train < n:
            rule = f"the split of MEKA's header must leave training and test rows, of {n} in all"
            remedy = "Correct the @relation line, or delete the option there."
            raise self._error(rule, number or percentage, remedy)
        return n_train

    def _integer(self, option: bytes) -> int | None:
        value = self.options.get(option)
        if value is None:
            return None
        if _INTEGER.fullmatch(value) is None:
            rule = f"{option.decode()} of MEKA's header must be an integer"
            raise self._error(rule, value, "Correct the @relation line.")
        return int(value)

    def _error(self, rule: str, got: object, remedy: str) -> DatasetFormatError:
        return DatasetFormatError.at(self.path, self.line, rule, got, remedy)


def read_header(path: str | os.PathLike[str], lines: Iterator[Row]) -> Header:
    """Read the declarations up to and including the ``@data`` line; `lines` is left at the first row."""
    attributes: dict[str, Attribute] = {}
    relation, relation_line = b"", None
    for number, raw in lines:
        keyword, *rest = raw.split(maxsplit=1)
        text, error = b"".join(rest), partial(DatasetFormatError.at, path, number)
        match keyword.lower():
            case b"@attribute":
                attribute = _parse_attribute(error, number, text)
                if attribute.name in attributes:
                    raise error("attribute names must be unique", attribute.name, "Rename one of them.")
                attributes[attribute.name] = attribute
            case b"@data":
                name, options = _meka_options(path, relation_line, relation)
                return Header(path, tuple(attributes.values()), relation_line, name, options)
            case b"@relation":
                relation = unquote(text) if _QUOTED_TEXT.fullmatch(text) else text
                relation_line = number
            case _:
                rule = "a header line must start with @relation, @attribute, @data or %"
                raise error(rule, raw, "Check that this is an ARFF file.")
    rule = "an ARFF file must have an @data line"
    raise DatasetFormatError.at(path, None, rule, Words("none"), "Check that the file is complete.")


def _meka_options(
    path: str | os.PathLike[str], line: int | None, relation: bytes
) -> tuple[bytes, dict[bytes, bytes]]:
    """Split a relation into its name and MEKA's options; without options it is all name."""
    match = _MEKA_RELATION.fullmatch(relation)
    if match is None:
        return relation, {}
    words = match["options"].split()
    options: dict[bytes, bytes] = {}
    for option, value in zip(words, [*words[1:], b""], strict=True):
        if option in _MEKA_OPTIONS:
            if option in options:
                rule = "an option of MEKA's header must be given once"
                raise DatasetFormatError.at(path, line, rule, option, "Delete one of the two.")
            options[option] = value
    return match["name"], options


def _parse_attribute(error: _Error, number: int, declaration: bytes) -> Attribute:
    match = _ATTRIBUTE.fullmatch(declaration)
    if match is None:
        rule = "an attribute must be declared as @attribute name type"
        raise error(rule, declaration, "Quote a name that holds spaces or braces.")
    # Escapes belong to quoted names. Mulan's delicious has the bare names TAG_m\'usica and TAG_dise\~no,
    # with the backslash in the ARFF and in the XML file alike: there it is a part of the name.
    name = _decode(error, unquote(match["name"]))
    kind = match["kind"].strip()
    if kind.lower() in _NUMERIC:
        return Attribute(name, number, None)
    if kind.startswith(b"{"):
        return Attribute(name, number, _parse_domain(error, name, kind))
    rule = f"attribute {shown(name)} must be numeric or nominal"
    remedy = "String, date and relational attributes are not supported: encode them as numbers, or drop them."
    raise error(rule, kind, remedy)


def _parse_domain(error: _Error, name: str, kind: bytes) -> tuple[str, ...]:
    """Read the values between braces."""
    if kind == b"{0,1}":  # nearly all of them, in files with thousands
        return ("0", "1")
    words = dense_words(kind[1:-1]) if kind.endswith(b"}") else None
    if words is None or b"" in words or None in words:
        rule = f"attribute {shown(name)} must declare its values as {{first,second,...}}"
        remedy = "Quote values that hold commas or begin with a quote or are '?', and close all quotes."
        raise error(rule, kind, remedy)
    domain = tuple(_decode(error, word) for word in words if word is not None)
    if len(set(domain)) != len(domain):
        twice = Counter(domain).most_common(1)[0][0]
        raise error(f"attribute {shown(name)} must declare each value once", twice, "Delete one of the two.")
    return domain


def _decode(error: _Error, raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as wrong:
        rule = "names and values must be UTF-8 text"
        raise error(rule, raw, "Save the file in that encoding.") from wrong
