"""Errors of the command line."""

from __future__ import annotations


class CommandError(Exception):
    """A command cannot be carried out; the message is for the user."""


def printable(text: str) -> str:
    """Return a text in which control characters, of a file name or of data, are written as escapes."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
