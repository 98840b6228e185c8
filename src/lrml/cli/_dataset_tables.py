"""Tables of ``lrml datasets`` for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.table import Table

from lrml.cli._tables import plain_table
from lrml.datasets import mulan_entries

if TYPE_CHECKING:  # a list of datasets needs no NumPy
    from lrml.datasets import Description

_STATES = {"missing": "yellow", "damaged": "red"}


def list_table(records: Sequence[Mapping[str, Any]]) -> Table:
    """Show the datasets that lrml knows."""
    headings = ["name", "domain", "instances", "attributes", "labels", "train", "size", "status"]
    table = plain_table("Datasets", headings, text=("name", "domain", "status"))
    for record in records:
        style = _STATES.get(record["status"], "green")
        counts = (f"{record[key]:,d}" for key in ("instances", "attributes", "labels", "train"))
        size = f"{record['bytes'] / 1e6:.1f} MB"
        table.add_row(record["name"], record["domain"], *counts, size, f"[{style}]{record['status']}[/]")
    return table


def description_table(description: Description) -> Table:
    """Show the statistics of a dataset, beside the paper's Table 1 where it has a row for it."""
    published = _published(description.name)
    headings = [description.name, "computed", *(["published"] if published else [])]
    table = plain_table(None, headings, text=(description.name,))
    for key, title, value in description.lines():
        table.add_row(title, value, *([_as_printed(published.get(key))] if published else []))
    return table


def _published(name: str) -> Mapping[str, str]:
    if name not in mulan_entries():
        return {}
    from lrml.experiments import published_table1  # noqa: PLC0415 - slow, for few datasets

    try:
        return published_table1(name)
    except ValueError:
        return {}


def _as_printed(value: str | None) -> str:
    return f"{int(value):,d}" if value is not None and value.isdecimal() else value or ""
