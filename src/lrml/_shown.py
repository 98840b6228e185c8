"""How values of users and files are shown in messages, and which line a warning is about."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable


def shown(value: object) -> str:
    """Return the ``repr`` of a value, shortened: a column name may be as long as a file."""
    if not isinstance(value, bytes):
        return shortened(repr(value))
    try:
        return shortened(repr(value.decode()))
    except UnicodeDecodeError:  # a cut through a letter, or no text at all: all bytes beyond ASCII as numbers
        return shortened(repr(value).removeprefix("b"))


def shortened(text: str, limit: int = 80) -> str:
    """Return a text, shortened near its end if it would flood the screen."""
    return text if len(text) <= limit else f"{text[: limit - 13]}...{text[-10:]}"


def did_you_mean(name: object, known: Iterable[str]) -> str:
    """Return a question that suggests names like a wrong one, or that have it in them; empty without any."""
    by_lower = {other.lower(): other for other in known}
    asked = str(name).lower()
    close = difflib.get_close_matches(asked, by_lower)
    close = close or [other for other in by_lower if asked and asked in other][:3]
    guess = " or ".join(shortened(by_lower[other], 60) for other in close)
    return f"Did you mean {guess}? " if close else ""


def printable(text: str) -> str:
    """Return a text in which control characters, of a file name or of data, are written as escapes."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)


def counted(number: int, unit: str) -> str:
    """Return a number of things, such as "1 block" or "1,200 blocks"."""
    return f"{number:,d} {unit}{'' if number == 1 else 's'}"


_NOT_THE_USERS = ("lrml.", "sklearn.callback.")


def level_of_user() -> int:
    """Return the ``stacklevel`` of the line outside this package that called, for a warning there.

    What scikit-learn wraps around a fit for its callbacks is not the user's either.
    """
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_NOT_THE_USERS):
        level, frame = level + 1, frame.f_back
    return level


def how_to_install(extra: str) -> str:
    """Return how to get the packages of an extra: lrml is installed from its folder, no index has it."""
    return f"Run pip install '.[{extra}]' in the folder of lrml."
