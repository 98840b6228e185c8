r"""The words of an ARFF file: bare or quoted, with escapes.

All patterns are possessive and unambiguous, so that a line is read in time linear in its length.
"""

from __future__ import annotations

import re
from typing import TypeAlias

Word: TypeAlias = bytes | None  # without quotes, escapes resolved; None is a missing value, a bare "?"

QUOTED = rb"""(?:'[^'\\]*+(?:\\.[^'\\]*+)*+'|"[^"\\]*+(?:\\.[^"\\]*+)*+")"""
NUMBER = rb"[-+]?+(?:\d++(?:\.\d*+)?+|\.\d++)(?:[eE][-+]?+\d++)?+"
NUMBER_PATTERN = re.compile(NUMBER)

# A bare word may hold spaces and, after its first character, quotes: "it's".
_DENSE_WORD = re.compile(rb"""(\s*+(""" + QUOTED + rb"""|[^,'"\s][^,]*+|)\s*+,)""")
_SPARSE_ENTRY = re.compile(
    rb"""\s*+(?P<index>\d++)\s++(?P<word>""" + QUOTED + rb"""|[^,{}'"\s][^,{}]*+)\s*+(?P<end>[,}])"""
)
_EMPTY_ROW = re.compile(rb"\{\s*+\}")

_ESCAPE = re.compile(r"\\([\\'\"%ntr])")
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r"}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/+=-]*+")
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", "\t": r"\t", "\r": r"\r"})


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


def dense_words(text: bytes) -> list[Word] | None:
    """Split a row of comma-separated words; None if a quote is not closed, or something follows it."""
    if b"'" not in text and b'"' not in text:
        return [None if word == b"?" else word for word in map(bytes.strip, text.split(b","))]
    found = _DENSE_WORD.findall(text + b",")
    if sum(len(piece) for piece, _ in found) != len(text) + 1:  # something was passed over
        return None
    return [_resolve(word) for _, word in found]


def sparse_words(text: bytes) -> tuple[list[tuple[bytes, Word]], int]:
    """Split a row ``{index word, ...}``.

    Returns
    -------
    entries : list of (bytes, bytes or None)
        Index, as it is written, and word of each entry.
    stop : int
        Where reading stopped: at the end of the text, or before what is not part of such a row.
    """
    entries: list[tuple[bytes, Word]] = []
    empty = _EMPTY_ROW.match(text)
    if empty is not None:
        return entries, empty.end()
    position = 1 if text.startswith(b"{") else 0
    while (match := _SPARSE_ENTRY.match(text, position)) is not None:
        entries.append((match["index"], _resolve(match["word"])))
        position = match.end()
        if match["end"] == b"}":
            break
    return entries, position


def _resolve(word: bytes) -> Word:
    word = word.rstrip()
    return None if word == b"?" else unquote(word)
