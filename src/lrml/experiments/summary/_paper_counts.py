"""How many of the paper's values are reached, and by how much the others are missed."""

from __future__ import annotations

from collections.abc import Sequence

from lrml.experiments._cells import WITH_THETA
from lrml.experiments.summary._columns import (
    METHODS,
    METRICS,
    Row,
    Table,
    column,
    how_measured,
    listed,
    protocol_notes,
    rounded,
    table,
)
from lrml.experiments.summary._entries import Entry, datasets_of, protocols_of, table2_entries
from lrml.experiments.summary._results import Results

_PUBLISHED_METRICS = tuple(name for name in METRICS if name != "average_precision")


def counts(results: Results) -> list[Table]:
    """Count, for every protocol and method, the published values that ours are at least as good as."""
    entries = _published_entries(results)
    if not entries:
        return []
    rows = [
        row
        for protocol in protocols_of(entries)
        for method in WITH_THETA
        for row in _count([e for e in entries if (e.protocol, e.method) == (protocol, method)])
    ]
    columns = [
        column("protocol", "protocol"),
        column("method", "method"),
        column("cells", "values", "integer", explanation="published values that we have a value for"),
        column("reached", "reached", "integer", explanation="ours is at least as good, with four decimals"),
    ]
    columns += [
        column(f"reached_{name}", METRICS[name], "integer", explanation="how many of its values are reached")
        for name in _PUBLISHED_METRICS
    ]
    return table(
        "counts",
        "How many of the paper's values are reached",
        "Of the values that the paper's Table 2 prints for a method "
        f"({listed(datasets_of(entries))}; four shares of the labels, five metrics) those "
        "that our implementation of the same method reaches on the same test set. The last five columns are "
        "counts by metric; every metric has a fifth of the values. A value is reached if ours is at least as "
        "good when both have four decimals; chance is not taken account of.",
        columns,
        rows,
        ["protocol", "method"],
        [
            "Protocols are counted apart: to take the best of several for each value would be a choice on "
            "the test set.",
            *protocol_notes(results, protocols_of(entries)),
        ],
    )


def _count(entries: Sequence[Entry]) -> list[Row]:
    if not entries:
        return []
    reached = [entry.metric for entry in entries if entry.reached]
    return [
        {
            "protocol": entries[0].protocol,
            "method": METHODS[entries[0].method],
            "cells": len(entries),
            "reached": len(reached),
        }
        | {f"reached_{name}": reached.count(name) for name in _PUBLISHED_METRICS}
    ]


def misses(results: Results) -> list[Table]:
    """List every published value of LRML that ours does not reach."""
    entries = [entry for entry in _published_entries(results) if entry.method == "LRML"]
    missed = [entry for entry in entries if not entry.reached]
    if not missed:
        return []
    experiment = results.experiments["table2"]
    columns = [
        column("protocol", "protocol"),
        column("dataset", "dataset"),
        column("percent", "% of labels", "integer"),
        column("metric", "metric"),
        column("published", "paper", "number", 4),
        column("ours", "ours", "number", 4),
        column("gap", "gap", "number", 4, "how much worse ours is, in the direction of the metric"),
        column("standard_error", "standard error", "number", 4, "of our value, by the choice of test rows"),
        column("gap_in_errors", "gap / standard error", "number", 1),
    ]
    measured = how_measured(datasets_of(entries), (entry.n_seeds for entry in entries), experiment)
    return table(
        "misses",
        "Values of LRML that are not reached",
        f"The {len(missed)} of {len(entries)} published values of LRML (all protocols together) that ours "
        f"does not reach with four decimals. {measured}",
        columns,
        [_miss(entry) for entry in missed],
        ["protocol", "dataset", "metric"],
        [
            "The standard error is sd/√n of our values per test row (means over the seeds). It tells how "
            "much our value would vary with other test rows. The paper has the same test rows (Mulan's "
            "split), so a gap of less than a standard error can still be a true difference of two models."
        ],
    )


def _miss(entry: Entry) -> Row:
    assert entry.published is not None
    gap = (entry.ours - entry.published) * (1 if entry.lower_is_better else -1)
    return {
        "protocol": entry.protocol,
        "dataset": entry.dataset,
        "percent": entry.percent,
        "metric": METRICS[entry.metric],
        "published": entry.published,
        "ours": rounded(entry.ours),
        "gap": rounded(gap),
        "standard_error": rounded(entry.error),
        "gap_in_errors": rounded(gap / entry.error) if entry.error > 0 else None,
        "_class": "worse",
    }


def _published_entries(results: Results) -> list[Entry]:
    return [entry for entry in table2_entries(results) if entry.published is not None]
