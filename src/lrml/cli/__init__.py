"""The ``lrml`` program.

A command is a module of this package: it declares its options with typer, imports slow modules inside its
function, calls the library and prints. A new one is registered in `_program`.

This module imports almost nothing: the rest takes a third of a second, in which the user may already stop it.
Signals that end the program unwind it, so that no temporary file stays behind.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence

__all__ = ["INTERRUPTED", "Terminated", "main", "stopped"]

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 + SIGINT, as shells report it."""


class _Interrupted(KeyboardInterrupt):
    """Ctrl-C; once a plain KeyboardInterrupt has left an ``exec`` of text, Python ignores our exit code.

    ``python -m`` then ends itself with SIGINT, although the error was caught. Imports are full of such texts:
    those of dataclasses and named tuples.
    """


class Terminated(BaseException):
    """The process was asked to end; raised so that temporary files are removed on the way out."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, 1 for partial results, 2 for wrong usage, 130 for Ctrl-C."""
    try:
        _unwind_when_stopped()
        from lrml.cli._program import run  # noqa: PLC0415 - slow

        return run(argv)
    except (KeyboardInterrupt, Terminated) as stop:  # before the command, or after it
        return stopped("lrml", stop)


def _unwind_when_stopped() -> None:
    """Let SIGTERM and SIGHUP unwind the program as Ctrl-C does; a command may set handlers of its own."""

    def interrupt(number: int, frame: object) -> None:
        raise _Interrupted

    def terminate(number: int, frame: object) -> None:
        raise Terminated(number)

    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # nohup ignores SIGHUP, and means it
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, terminate)


def stopped(name: str, stop: KeyboardInterrupt | Terminated) -> int:
    """Say that a command did not end by itself; return the exit code."""
    word = "stopped" if isinstance(stop, Terminated) else "interrupted"
    print(f"{name}: {word}; no file is half-written.", file=sys.stderr)
    return 128 + stop.number if isinstance(stop, Terminated) else INTERRUPTED
