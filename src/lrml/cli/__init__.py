"""The ``lrml`` program.

A command is a module of this package: it declares its options with typer, imports slow modules inside its
function, calls the library and prints. A new one is registered in `_program`.

This module imports almost nothing: the rest takes a third of a second, in which the user may already stop it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lrml.cli._stops import Terminated, stopped, unwind_when_stopped

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, 1 for partial results, 2 for wrong usage, 130 for Ctrl-C."""
    try:
        unwind_when_stopped()
        from lrml.cli._program import run  # noqa: PLC0415 - slow

        return run(argv)
    except (KeyboardInterrupt, Terminated) as stop:  # before the command, or after it
        return stopped("lrml", stop)
