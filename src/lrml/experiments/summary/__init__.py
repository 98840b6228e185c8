"""From records to the plain dictionary that reports are made of."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from lrml.experiments.runner import machine, versions
from lrml.experiments.summary._columns import listed
from lrml.experiments.summary._equal_rank import equal_rank
from lrml.experiments.summary._figure1 import figure1
from lrml.experiments.summary._figure2 import figure2
from lrml.experiments.summary._figure3 import figure3
from lrml.experiments.summary._figure4 import figure4
from lrml.experiments.summary._more_tables import ranks, times
from lrml.experiments.summary._paper_counts import counts, misses
from lrml.experiments.summary._results import Cell, Results
from lrml.experiments.summary._table1 import table1
from lrml.experiments.summary._table2 import table2, table2_like_paper
from lrml.experiments.summary._verdict import verdict
from lrml.experiments.summary._whole import is_whole

__all__ = ["Cell", "Results", "is_whole", "summarise"]

_TABLES = (table1, counts, table2_like_paper, misses, table2, equal_rank, ranks, times)


def summarise(results: Results, left_out: Sequence[str] = ()) -> dict[str, Any]:
    """Make tables, figures and sentences of all records.

    Parameters
    ----------
    results : Results
    left_out : sequence of str
        What was not computed, why, and how to have it.

    Returns
    -------
    dict
        Plain data: title, about, summary, left_out, tables, figures, failures.
    """
    tables = [table for make in _TABLES for table in make(results)]
    figures = _figures(results)
    return {
        "title": "Local Rademacher complexity for multi-label learning: a reproduction",
        "about": _about(results),
        "summary": verdict(results, tables, figures),
        "left_out": list(left_out),
        "tables": tables,
        "figures": figures,
        "failures": [
            {"cell": record["key"], "error": record["error"]}
            for record in sorted(results.failures, key=itemgetter("key"))
        ],
    }


def _figures(results: Results) -> list[dict[str, Any]]:
    figures = [figure1(results.experiments["fig1"])] if "fig1" in results.experiments else []
    figures += figure2(results) + figure3(results)
    if "table2" in results.experiments:
        drawn = (figure4(results, protocol) for protocol in results.protocols)
        figures += [figure for figure in drawn if figure is not None]
    return figures


def _about(results: Results) -> list[list[str]]:
    seeds = {seed for experiment in results.experiments.values() for seed in experiment.seeds}
    host = machine()
    rows = [
        [
            "Paper",
            "C. Xu, T. Liu, D. Tao, C. Xu. Local Rademacher Complexity for Multi-label Learning. IEEE "
            "Transactions on Image Processing 25(3), 2016.",
        ],
    ]
    if results.datasets:
        rows.append(["Data", f"{listed(results.datasets)}, in Mulan's split into training and test set"])
    rows += [[f"Protocol {name}", protocol.summary] for name, protocol in results.protocols.items()]
    if seeds:
        with_seeds = f"chosen from the training set with the seeds {listed(map(str, sorted(seeds)))}"
        rows.append(["Validation rows", with_seeds])
    rows += [
        ["Machine", ", ".join(f"{key} {value}" for key, value in host.items() if value is not None)],
        ["Versions", ", ".join(f"{name} {version}" for name, version in versions().items())],
    ]
    return rows
