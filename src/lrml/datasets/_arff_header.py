"""The header of an ARFF file: its attributes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from lrml.datasets._errors import DatasetFormatError

# Quoted names may hold anything, with backslash escapes; a bare name ends at white space or at a "{".
_ATTRIBUTE = re.compile(
    r"""(?: '(?P<single>(?:[^'\\]|\\.)*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<bare>[^\s{'"][^\s{]*) )
        (?=[\s{]) \s* (?P<type>\S.*)""",
    re.VERBOSE | re.ASCII,
)
_ESCAPE = re.compile(r"\\([\\'\"%ntr])")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_NUMERIC = frozenset({"numeric", "real", "integer"})
_BINARY_DOMAINS = frozenset({("0", "1"), ("1", "0"), ("0",), ("1",)})


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


def unescape(text: str) -> str:
    r"""Resolve the escapes of a quoted ARFF name; an unknown one such as ``\~`` stays as it is."""
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), text)


def read_header(path: str | os.PathLike[str], lines: Iterator[tuple[int, bytes]]) -> list[Attribute]:
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
    list of Attribute
        The attributes in file order.
    """
    attributes: dict[str, Attribute] = {}
    for number, raw in lines:
        keyword, *rest = raw.split(maxsplit=1)
        match keyword.lower():
            case b"@attribute":
                attribute = _parse_attribute(path, number, _decode(path, number, b"".join(rest)))
                if attribute.name in attributes:
                    raise DatasetFormatError.at(
                        path, number, "attribute names must be unique", attribute.name, "Rename one of them."
                    )
                attributes[attribute.name] = attribute
            case b"@data":
                return list(attributes.values())
            case b"@relation":
                pass
            case _:
                raise DatasetFormatError.at(
                    path,
                    number,
                    "a header line must start with @relation, @attribute, @data or %",
                    raw,
                    "Check that this is an ARFF file.",
                )
    raise DatasetFormatError.at(
        path, None, "an ARFF file must have an @data line", "none", "Check that the file is complete."
    )


def _decode(path: str | os.PathLike[str], number: int, raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DatasetFormatError.at(
            path, number, "attribute names must be UTF-8 text", raw, "Save the file in that encoding."
        ) from error


def _parse_attribute(path: str | os.PathLike[str], number: int, declaration: str) -> Attribute:
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
    quoted = match["single"] if match["single"] is not None else match["double"]
    name = match["bare"] if quoted is None else unescape(quoted)
    kind = match["type"].strip()
    if kind.lower() in _NUMERIC:
        return Attribute(name, number, None)
    if kind.startswith("{") and kind.endswith("}"):
        domain = tuple(value.strip() for value in kind[1:-1].split(","))
        if domain in _BINARY_DOMAINS:
            return Attribute(name, number, domain)
    raise DatasetFormatError.at(
        path,
        number,
        f"attribute {name!r} must be numeric or nominal with the values {{0,1}}",
        kind,
        "Encode other attributes as 0/1 columns, or drop them.",
    )
