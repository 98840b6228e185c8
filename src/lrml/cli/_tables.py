"""Records of results as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.table import Table


def report_table(table: dict[str, Any]) -> Table:
    """Show a table of a report."""
    columns = table["columns"]
    # Words below each other: a wide table had better have high headings.
    headings = {column["key"]: column["title"].replace(" ", "\n") for column in columns}
    text = [headings[column["key"]] for column in columns if column["kind"] == "text"]
    shown = plain_table(table["title"], list(headings.values()), text=text)
    for row in table["rows"]:
        shown.add_row(*(_cell(row[column["key"]], column) for column in columns))
    return shown


def _cell(value: Any, column: dict[str, Any]) -> str:
    if value is None:
        return "-"
    if column["kind"] in ("number", "seconds"):
        return f"{value:z.{column['digits']}f}"  # "z" turns a rounded -0.0000 into 0.0000
    return str(value)


def plain_table(title: str | None, headings: Sequence[str], *, text: Sequence[str]) -> Table:
    """Make a table of numbers; the columns named in ``text`` hold words."""
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading in text else "right", no_wrap=True)
    return table
