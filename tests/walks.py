"""How much of the library a call crosses: what somebody has to read who wants to follow it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lrml

_SOURCE = str(Path(lrml.__file__).parent)


class Walk(NamedTuple):
    """Files of the library, and functions in them, that a call has entered."""

    files: frozenset[str]
    functions: frozenset[tuple[str, str, int]]


def walk(call: Callable[[], Any]) -> Walk:
    """Run a call, and return what it entered: each file and function once, in this thread.

    Lambdas count as functions, and so do comprehensions, up to Python 3.11. What is imported late counts on
    the first call only, so call once before.
    """
    entered = set()

    def keep(frame: Any, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(_SOURCE):
            entered.add((code.co_filename, code.co_qualname, code.co_firstlineno))

    before = sys.getprofile()
    sys.setprofile(keep)
    try:
        call()
    finally:
        sys.setprofile(before)
    return Walk(frozenset(file for file, *_ in entered), frozenset(entered))
