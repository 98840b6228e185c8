"""Table 1 of the paper: what the data are, counted and as published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lrml.experiments._published import published_table1
from lrml.experiments.summary._columns import Row, Table, column, rounded, table
from lrml.experiments.summary._results import Results

# Statistic, title, decimals of the paper (None for counts), and what it is.
STATISTICS: tuple[tuple[str, str, int | None, str], ...] = (
    ("instances", "instances", None, "rows of the training and the test set together"),
    ("attributes", "attributes", None, "features"),
    ("labels", "labels", None, "labels"),
    ("cardinality", "cardinality", 3, "mean number of labels of a row"),
    ("density", "density", 3, "cardinality divided by the number of labels"),
    ("distinct_label_sets", "distinct label sets", None, "different rows of the label matrix"),
)


def table1(results: Results) -> list[Table]:
    """Make Table 1: for every dataset each statistic as counted here, and as the paper prints it."""
    experiment = results.experiments.get("table1")
    if experiment is None:
        return []
    rows = []
    for dataset in (name for name in results.datasets if name in experiment.datasets):
        for record in results.plain("statistics", dataset):
            rows.append(_row(dataset, record["result"], published_table1(dataset)))
    columns = [column("dataset", "dataset"), column("domain", "domain")]
    for name, title, digits, explanation in STATISTICS:
        kind = "integer" if digits is None else "number"
        columns += [
            column(name, title, kind, digits, explanation),
            column(f"{name}_paper", f"{title} (paper)", kind, digits),
        ]
    columns.append(column("agrees", "agrees", explanation="whether all six numbers agree, as printed"))
    return table(
        "table1",
        "Table 1: the data",
        "Counts over all rows of Mulan's files, training and test set together, and beside each what the "
        "paper's Table 1 prints. Numbers agree if they are the same with the paper's number of decimals.",
        columns,
        rows,
    )


def _row(dataset: str, counted: Mapping[str, Any], printed: Mapping[str, str]) -> Row:
    row: Row = {"dataset": dataset, "domain": printed["domain"]}
    wrong = []
    for name, title, digits, _ in STATISTICS:
        is_count = digits is None
        row[name] = int(counted[name]) if is_count else rounded(counted[name])
        row[f"{name}_paper"] = int(printed[name]) if is_count else float(printed[name])
        if f"{counted[name]:.{digits or 0}f}" != printed[name]:
            wrong.append(title)
    row["agrees"] = f"no: {', '.join(wrong)}" if wrong else "yes"
    row["_class"] = "worse" if wrong else None
    return row
