"""Records of results as tables for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.table import Table

if TYPE_CHECKING:  # importing these takes time, and the tables of other commands do without
    from lrml.datasets import Description
    from lrml.experiments import Row

# Column of a record → heading and format.
_STATISTICS = {
    "instances": ("instances", "d"),
    "attributes": ("attributes", "d"),
    "labels": ("labels", "d"),
    "cardinality": ("cardinality", ".3f"),
    "density": ("density", ".3f"),
    "distinct_label_sets": ("distinct\nlabel sets", "d"),
}

_RESULTS = {
    "protocol": ("protocol", ""),
    "method": ("method", ""),
    "theta_percent": ("theta\n%", "d"),
    "theta": ("theta", "d"),
    "alpha": ("alpha", ".4g"),
    "ridge": ("ridge", ".4g"),
    "rank": ("rank", "d"),
    "top1": ("top1", ".4f"),
    "top3": ("top3", ".4f"),
    "top5": ("top5", ".4f"),
    "average_precision": ("average\nprecision", ".4f"),
    "average_auc": ("average\nAUC", ".4f"),
    "hamming_loss": ("Hamming\nloss", ".4f"),
    "iterations": ("iterations", "d"),
    "status": ("status", ""),
}


def statistics_table(description: Description, published: Mapping[str, str]) -> Table:
    """Show a dataset's statistics beside the row that the paper prints."""
    headings = ["", *(heading for heading, _ in _STATISTICS.values())]
    table = plain_table(f"Table 1: {description.name}", headings, text=("",))
    computed = description.as_dict()
    table.add_row("computed", *(_cell(computed[key], spec) for key, (_, spec) in _STATISTICS.items()))
    table.add_row("published", *(published[key] for key in _STATISTICS))
    return table


def result_table(name: str, rows: Sequence[Row]) -> Table:
    """Show all rows, with a line between protocols."""
    headings = [heading for heading, _ in _RESULTS.values()]
    table = plain_table(f"Test set of {name}", headings, text=("protocol", "method", "status"))
    for row, following in zip(rows, [*rows[1:], None], strict=True):
        cells = row.as_dict()
        table.add_row(
            *(_cell(cells[key], spec) for key, (_, spec) in _RESULTS.items()),
            end_section=following is not None and following.protocol != row.protocol,
        )
    return table


def _cell(value: Any, spec: str) -> str:
    return "-" if value is None else format(value, spec)


def plain_table(title: str | None, headings: Sequence[str], *, text: Sequence[str]) -> Table:
    """Make a table of numbers; the columns named in ``text`` hold words."""
    table = Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    for heading in headings:
        table.add_column(heading, justify="left" if heading in text else "right", no_wrap=True)
    return table
