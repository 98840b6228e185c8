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

_SECONDS = 5.0  # between two lines


class Report(NamedTuple):
    """Where a long computation tells how far it is: ``say(line)``, and ``update(done, total, words="")``."""

    say: Callable[[str], None]
    update: Callable[..., None]


def tell(title: str, sentence: str) -> None:
    """Write a line about what begins now and cannot be counted."""
    if sys.stderr is not None:  # a program without a console has none
        print(f"{title}: {sentence}", file=sys.stderr, flush=True)


class Reading:
    """Lines about rows that are read in blocks, perhaps several times; ``say`` writes each, None none."""

    def __init__(self, say: Callable[[str], None] | None = None) -> None:
        self.say, self.passes = say or (lambda line: None), 0

    def begin(self) -> None:
        """Tell that the first block comes next."""
        self.passes += 1
        self._start, self._pause, self._rows = monotonic(), _SECONDS, 0

    def update(self, n_blocks: int, n_rows: int, more: int) -> None:
        """Tell of blocks and rows so far, and of those that are new, unless that was a moment ago."""
        self._rows += more
        seconds = monotonic() - self._start
        if seconds >= self._pause:
            self._pause = max(1.1 * seconds, seconds + _SECONDS)  # rarer and rarer
            which = f"pass {self.passes}: " if self.passes > 1 else ""
            speed = round(self._rows / seconds)
            self.say(f"{which}{n_rows:,d} rows in {counted(n_blocks, 'block')}, {speed:,d} rows a second")


@contextmanager
def progress(title: str, unit: str, *, at_most: bool = False, verbose: int = 1) -> Iterator[Report]:
    """Yield a report of what is done, in units such as "iterations"; with ``at_most`` it may end early.

    Where standard error is a file, or a notebook lacks the widgets for a bar, it writes lines; unless
    ``verbose``, nothing.
    """
    console = Console(stderr=True, highlight=False)
    if not verbose:
        yield Report(lambda line: None, lambda *_: None)
    elif console.is_terminal or (console.is_jupyter and find_spec("ipywidgets")):
        clock = TimeElapsedColumn() if at_most else TimeRemainingColumn()
        done = f"{{task.completed:.0f}}/{{task.total:.0f}} {unit}{' at most' if at_most else ''}"
        columns = TextColumn(title), BarColumn(), TextColumn(done), TextColumn("{task.fields[words]}"), clock
        with Progress(*columns, console=console) as bar:
            task = bar.add_task("", total=0, words="", visible=False)  # until there is something to show
            show = partial(bar.update, task, visible=True)
            yield Report(bar.console.print, lambda n, of, words="": show(completed=n, total=of, words=words))
    else:
        start = last = monotonic()
        waiting: list[tuple[str, int, int]] = []  # the latest state, if it is not written yet

        def write(ended: bool) -> None:
            nonlocal last
            words, done, total = waiting.pop()
            last = monotonic()
            left = timedelta(seconds=round((last - start) * (total - done) / max(done, 1)))
            limit = "at most " if at_most else ""
            time = f"{last - start:.1f} s" if ended else f"{limit or 'about '}{left} left"
            parts = f"{done} of {limit}{total} {unit}", words, time
            tell(title, ", ".join(part for part in parts if part))

        def update(done: int, total: int, words: str = "") -> None:
            waiting[:] = [(words, done, total)]
            if monotonic() - last >= _SECONDS:
                write(ended=done >= total)

        try:
            yield Report(partial(tell, title), update)
        finally:
            if waiting:
                write(ended=True)
