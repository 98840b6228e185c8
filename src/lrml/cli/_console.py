"""Where the command line prints: results on standard output, progress and advice on standard error."""

from __future__ import annotations

import shutil
import textwrap

from rich.console import Console

# Wide enough for every table that the program prints. A file or a pipe has no width; and a narrow terminal
# had better break the lines of a table than have digits cut off or folded.
_WIDTH = 200


class _ResultConsole(Console):
    def on_broken_pipe(self) -> None:
        """Let `main` end the program, with the exit code that shells know; rich would say 1."""
        raise BrokenPipeError


def result_console(*, quiet: bool) -> Console:
    """Return the console for results, in which nothing is cut off."""
    return _ResultConsole(quiet=quiet, highlight=False, width=_WIDTH)


def say(console: Console, text: str) -> None:
    """Print text as it is, broken between words to fit a terminal, and not at all elsewhere."""
    if console.is_terminal:
        text = textwrap.fill(text, shutil.get_terminal_size().columns)
    console.print(text, markup=False, soft_wrap=True)


def advise(text: str) -> None:
    """Print advice on standard error, also in a quiet run."""
    say(Console(stderr=True, highlight=False), text)
