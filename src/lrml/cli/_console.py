"""Where the command line prints: results on standard output, progress and advice on standard error."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

# Wide enough for every table that the program prints. A file or a pipe has no width; and a narrow terminal
# had better break the lines of a table than have digits cut off or folded.
_WIDTH = 160


def result_console(*, quiet: bool) -> Console:
    """Return the console for results, in which nothing is cut off."""
    return Console(quiet=quiet, highlight=False, width=_WIDTH)


def say(console: Console, text: str) -> None:
    """Print text as it is, broken between words to fit a terminal, and not at all elsewhere."""
    if console.is_terminal:
        text = textwrap.fill(text, shutil.get_terminal_size().columns)
    console.print(text, markup=False, soft_wrap=True)


def advise(text: str) -> None:
    """Print advice on standard error, also in a quiet run."""
    say(Console(stderr=True, highlight=False), text)


@contextmanager
def progress_bar(total: int, *, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Yield a function that advances a bar on standard error by one step; no bar unless it is a terminal."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal) as bar:
        task = bar.add_task("starting", total=total)
        yield lambda description: bar.update(task, advance=1, description=description)
