"""What commands print: results on standard output, progress and advice on standard error."""

from __future__ import annotations

import json
import shutil
import textwrap
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

# Wide enough for every table that the program prints. A file or a pipe has no width; a narrow terminal breaks
# the lines of a table, which is better than cutting off or folding digits.
_WIDTH, _NARROW = 200, 80


class _ResultConsole(Console):
    def on_broken_pipe(self) -> None:
        """Let `main` end the program, with the exit code that shells know; rich would say 1."""
        raise BrokenPipeError


def _say(console: Console, text: str) -> None:
    """Print text, wrapped between words on a terminal and unwrapped elsewhere."""
    if console.is_terminal:
        text = textwrap.fill(text, shutil.get_terminal_size().columns)
    console.print(text, markup=False, soft_wrap=True)


def advise(text: str) -> None:
    """Print advice on standard error, also in a quiet run."""
    _say(Console(stderr=True, highlight=False), text)


def tell_progress(text: str) -> None:
    """Print how far a command is, on standard error, so that results can be piped on."""
    _say(Console(stderr=True, highlight=False, style="dim"), text)


@contextmanager
def warnings_told(program: str) -> Iterator[None]:
    """Print warnings as sentences for users of a program, each once, without a line of source code."""
    seen: set[str] = set()

    def tell(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in seen:
            seen.add(str(message))
            advise(f"{program}: warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what concerns programmers only
        for kind in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = tell
        yield


def answer(document: Any, *parts: Any, as_json: bool) -> None:
    """Print a document for machines, or for people its parts: lines, tables, and tables of a report."""
    if as_json:  # NumPy's numbers become plain ones
        print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False, default=lambda x: x.item()))
        return
    console = _ResultConsole(highlight=False, width=_WIDTH)
    for part in parts:
        if isinstance(part, str):
            _say(console, part)
        else:
            console.print(part["title"], style="bold", markup=False)
            if part.get("caption"):
                _say(console, part["caption"])
            console.print(report_table(part))


def report_table(table: dict[str, Any]) -> Table:
    """Show a table of a report."""
    from lrml.report import shown_cell  # noqa: PLC0415 - slow

    columns = table["columns"]
    rows = [[shown_cell(row[column["key"]], column) for column in columns] for row in table["rows"]]
    headings = [column["title"] for column in columns]
    if sum(2 + max(map(len, cells)) for cells in zip(headings, *rows, strict=True)) > _NARROW:
        headings = [heading.replace(" ", "\n") for heading in headings]  # one word per line
    shown = Table(box=box.SIMPLE_HEAD)
    shown.padding = (0, 1, 0, 0)
    for heading, column in zip(headings, columns, strict=True):
        shown.add_column(heading, justify="left" if column["kind"] == "text" else "right", no_wrap=True)
    for row in rows:
        shown.add_row(*row)
    return shown
