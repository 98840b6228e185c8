"""Tables of ``lrml datasets`` for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from lrml.cli._tables import plain_table
from lrml.datasets import Description
from lrml.experiments import published_table1

_STATES = {"missing": "yellow", "damaged": "red"}

# Statistic → what it is called, its format, and whether it is left out when zero or absent.
_STATISTICS = {
    "instances": ("instances", ",d", False),
    "attributes": ("attributes", ",d", False),
    "labels": ("labels", ",d", False),
    "cardinality": ("labels per instance (cardinality)", ".3f", False),
    "density": ("cardinality / labels (density)", ".3f", False),
    "distinct_label_sets": ("distinct label sets", ",d", False),
    "rows_without_label": ("instances without a label", ",d", False),
    "labels_without_positive": ("labels without an instance", ",d", False),
    "labels_without_positive_in_train": ("  in the training set", ",d", True),
    "labels_without_positive_in_test": ("  in the test set", ",d", True),
    "nonzeros": ("nonzero features", ",d", False),
    "missing_values": ("missing features", ",d", True),
    "unknown_labels": ("unknown labels", ",d", True),
}


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
    published = _published(description)
    headings = [description.name, "computed", *(["published"] if published else [])]
    table = plain_table(None, headings, text=(description.name,))
    values = description.as_dict()
    for key, (title, spec, optional) in _STATISTICS.items():
        value = values[key]
        if value is None or (optional and key in ("missing_values", "unknown_labels") and value == 0):
            continue
        row = [title, format(value, spec)]
        if published:
            row.append(_as_printed(published.get(key), spec))
        table.add_row(*row)
    return table


def _published(description: Description) -> Mapping[str, str]:
    try:
        return published_table1(description.name)
    except ValueError:
        return {}


def _as_printed(value: str | None, spec: str) -> str:
    if value is None:
        return ""
    return format(int(value), spec) if spec.endswith("d") else value
