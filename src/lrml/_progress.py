"""Progress on standard error: a bar in a terminal or notebook, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from time import monotonic
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from lrml._shown import counted

# Lines are so many seconds apart, and time left is told after as many.
_SECONDS = 5.0
# Lines about blocks of rows: each time that so much more time has passed.
_GROWTH = 1.1


class Report(NamedTuple):
    """Where a long computation tells how far it is."""

    say: Callable[[str], None]
    """Write a line of its own."""
    update: Callable[..., None]
    """Tell how much is done, of how much, and perhaps in a few words how it looks."""


def tell(title: str, sentence: str) -> None:
    """Write a line about what begins now and cannot be counted."""
    if sys.stderr is not None:  # a program without a console has none
        print(f"{title}: {sentence}", file=sys.stderr, flush=True)


class Reading:
    """Lines about rows that are read in blocks, perhaps several times; ``write`` gets each, None none."""

    def __init__(self, write: Callable[[str], None] | None = None) -> None:
        self._write, self.passes = write, 0

    def say(self, line: str) -> None:
        """Write a line."""
        if self._write is not None:
            self._write(line)

    def begin(self) -> None:
        """Tell that the first block comes next."""
        self.passes += 1
        self._start, self._pause, self._rows = monotonic(), _SECONDS, 0

    def update(self, n_blocks: int, n_rows: int, more: int) -> None:
        """Tell of blocks and rows so far, and of those that are new, unless that was a moment ago."""
        self._rows += more
        seconds = monotonic() - self._start
        if seconds < self._pause:
            return
        self._pause = max(seconds * _GROWTH, seconds + _SECONDS)
        which = f"pass {self.passes}: " if self.passes > 1 else ""
        speed = round(self._rows / seconds)
        self.say(f"{which}{n_rows:,d} rows in {counted(n_blocks, 'block')}, {speed:,d} rows a second")


@contextmanager
def progress(title: str, unit: str, *, at_most: bool = False) -> Iterator[Report]:
    """Yield a report of what is done, in units such as "iterations"; with ``at_most`` it may end early.

    Where standard error is a file, or a notebook lacks the widgets for a bar, it writes lines.
    """
    console = Console(stderr=True, highlight=False)
    if console.is_terminal or (console.is_jupyter and find_spec("ipywidgets")):
        last = TimeElapsedColumn() if at_most else TimeRemainingColumn()
        done = f"{{task.completed:.0f}}/{{task.total:.0f}} {unit}{' at most' if at_most else ''}"
        columns = TextColumn(title), BarColumn(), TextColumn(done), TextColumn("{task.fields[words]}"), last
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("", total=0, words="", visible=False)  # until there is something to show
            show = partial(bar.update, task, visible=True)
            yield Report(
                bar.console.print,
                lambda done, total, words="": show(completed=done, total=total, words=words),
            )
        return
    lines = _Lines(title, unit, at_most=at_most)
    try:
        yield Report(partial(tell, title), lines.update)
    finally:
        lines.write()


class _Lines:
    def __init__(self, title: str, unit: str, *, at_most: bool) -> None:
        self._title, self._unit, self._at_most = title, unit, at_most
        self._start = self._last = monotonic()
        self._state: tuple[int, int, str] | None = None  # what is not written yet

    def update(self, done: int, total: int, words: str = "") -> None:
        self._state = done, total, words
        if monotonic() - self._last >= _SECONDS:
            self.write()

    def write(self) -> None:
        """Write the state, unless that has been done."""
        if self._state is None:
            return
        done, total, words = self._state
        self._state, self._last = None, monotonic()
        seconds = self._last - self._start
        parts = [f"{done} of {'at most ' if self._at_most else ''}{total} {self._unit}", words]
        if self._at_most or done >= total or not done:
            parts.append(f"{seconds:.1f} s")
        else:
            parts.append(f"about {timedelta(seconds=round(seconds / done * (total - done)))} left")
        tell(self._title, ", ".join(part for part in parts if part))
