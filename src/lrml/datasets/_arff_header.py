"""The header of an ARFF file: its relation and its attributes."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from lrml._shown import shown
from lrml.datasets._arff_words import QUOTED, dense_words, unquote
from lrml.datasets._errors import DatasetFormatError, Words
from lrml.datasets._lines import Row

# Quoted names may hold anything, with backslash escapes; a bare name ends at white space or at a "{".
_ATTRIBUTE = re.compile(
    rb"(?P<name>" + QUOTED + rb"""|[^\s{'"][^\s{]*+)(?=[\s{])\s*+(?P<kind>\S.*+)""", re.DOTALL
)
_RELATION = re.compile(QUOTED)
_NUMERIC = frozenset({b"numeric", b"real", b"integer"})


@dataclass(frozen=True)
class Attribute:
    """One declared column.

    Parameters
    ----------
    name : str
        Name without quotes, escapes resolved.
    line : int
        Line of its declaration.
    domain : tuple of str or None
        The values of a nominal attribute in order; None for a numeric one.
    """

    name: str
    line: int
    domain: tuple[str, ...] | None

    @property
    def is_binary(self) -> bool:
        """Whether it is nominal and its values are 0 and 1, or one of them."""
        return self.domain is not None and {"0", "1"}.issuperset(self.domain)


@dataclass(frozen=True)
class Header:
    """What comes before the data.

    Parameters
    ----------
    relation : bytes
        Text of the ``@relation`` line, without quotes; empty if there is none.
    line : int or None
        Line of the ``@relation``.
    attributes : tuple of Attribute
        The attributes in file order.
    """

    relation: bytes
    line: int | None
    attributes: tuple[Attribute, ...]


def read_header(path: str | os.PathLike[str], lines: Iterator[Row]) -> Header:
    """Read the declarations up to and including the ``@data`` line.

    Parameters
    ----------
    path : path-like
        The file, for error messages.
    lines : iterator of (int, bytes)
        Numbered lines without comments, blank lines and surrounding white space. It is left at the first
        data row.

    Returns
    -------
    Header
        Relation and attributes.
    """
    attributes: dict[str, Attribute] = {}
    relation, relation_line = b"", None
    for number, raw in lines:
        keyword, *rest = raw.split(maxsplit=1)
        text = b"".join(rest)
        match keyword.lower():
            case b"@attribute":
                attribute = _parse_attribute(path, number, text)
                if attribute.name in attributes:
                    raise DatasetFormatError.at(
                        path, number, "attribute names must be unique", attribute.name, "Rename one of them."
                    )
                attributes[attribute.name] = attribute
            case b"@data":
                return Header(relation, relation_line, tuple(attributes.values()))
            case b"@relation":
                relation = unquote(text) if _RELATION.fullmatch(text) else text
                relation_line = number
            case _:
                raise DatasetFormatError.at(
                    path,
                    number,
                    "a header line must start with @relation, @attribute, @data or %",
                    raw,
                    "Check that this is an ARFF file.",
                )
    raise DatasetFormatError.at(
        path, None, "an ARFF file must have an @data line", Words("none"), "Check that the file is complete."
    )


def _parse_attribute(path: str | os.PathLike[str], number: int, declaration: bytes) -> Attribute:
    match = _ATTRIBUTE.fullmatch(declaration)
    if match is None:
        raise DatasetFormatError.at(
            path,
            number,
            "an attribute must be declared as @attribute name type",
            declaration,
            "Quote a name that holds spaces or braces.",
        )
    # Escapes belong to quoted names. Mulan's delicious has the bare names TAG_m\'usica and TAG_dise\~no,
    # with the backslash in the ARFF and in the XML file alike: there it is a part of the name.
    name = _decode(path, number, unquote(match["name"]))
    kind = match["kind"].strip()
    if kind.lower() in _NUMERIC:
        return Attribute(name, number, None)
    if kind.startswith(b"{"):
        return Attribute(name, number, _parse_domain(path, number, name, kind))
    raise DatasetFormatError.at(
        path,
        number,
        f"attribute {shown(name)} must be numeric or nominal",
        kind,
        "String, date and relational attributes are not supported: encode them as numbers, or drop them.",
    )


def _parse_domain(path: str | os.PathLike[str], number: int, name: str, kind: bytes) -> tuple[str, ...]:
    """Read the values between braces."""
    if kind == b"{0,1}":  # nearly all of them, in files with thousands
        return ("0", "1")
    words = dense_words(kind[1:-1]) if kind.endswith(b"}") else None
    if words is None or b"" in words or None in words:
        raise DatasetFormatError.at(
            path,
            number,
            f"attribute {shown(name)} must declare its values as {{first,second,...}}",
            kind,
            "Quote values that hold commas or begin with a quote or are '?', and close all quotes.",
        )
    domain = tuple(_decode(path, number, word) for word in words if word is not None)
    if len(set(domain)) != len(domain):
        twice = Counter(domain).most_common(1)[0][0]
        raise DatasetFormatError.at(
            path,
            number,
            f"attribute {shown(name)} must declare each value once",
            twice,
            "Delete one of the two.",
        )
    return domain


def _decode(path: str | os.PathLike[str], number: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DatasetFormatError.at(
            path, number, "names and values must be UTF-8 text", raw, "Save the file in that encoding."
        ) from error
