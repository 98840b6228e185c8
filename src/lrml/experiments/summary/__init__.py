"""From records to the plain dictionary that reports are made of."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from lrml.experiments.runner import machine, versions
from lrml.experiments.summary._figures import FIGURES
from lrml.experiments.summary._records import MethodRecords, Records
from lrml.experiments.summary._tables import TABLES
from lrml.experiments.summary._text import listed
from lrml.experiments.summary._verdict import verdict

__all__ = ["MethodRecords", "Records", "summarise"]


def summarise(records: Records, left_out: Sequence[str] = ()) -> dict[str, Any]:
    """Make tables, figures and sentences of all records.

    Parameters
    ----------
    records : Records
    left_out : sequence of str
        What was not computed, why, and how to have it.

    Returns
    -------
    dict
        Plain data: title, about, summary, left_out, tables, figures, failures.
    """
    tables = [table for make in TABLES for table in make(records)]
    figures = [figure for make in FIGURES for figure in make(records)]
    return {
        "title": "Local Rademacher complexity for multi-label learning: a reproduction",
        "about": _about(records),
        "summary": list(verdict(records, tables, figures)),
        "left_out": list(left_out),
        "tables": tables,
        "figures": figures,
        "failures": [
            {"cell": record["key"], "error": record["error"]}
            for record in sorted(records.failures, key=itemgetter("key"))
        ],
    }


def _about(records: Records) -> list[list[str]]:
    seeds = {seed for experiment in records.experiments.values() for seed in experiment.seeds}
    rows = [
        [
            "Paper",
            "C. Xu, T. Liu, D. Tao, C. Xu. Local Rademacher Complexity for Multi-label Learning. IEEE "
            "Transactions on Image Processing 25(3), 2016.",
        ],
    ]
    if records.datasets:
        rows.append(["Data", f"{listed(records.datasets)}, in Mulan's split into training and test set"])
    rows += [[f"Protocol {name}", protocol.summary] for name, protocol in records.protocols.items()]
    if seeds:
        with_seeds = f"chosen from the training set with the seeds {listed(map(str, sorted(seeds)))}"
        rows.append(["Validation rows", with_seeds])
    known = ((key, value) for key, value in machine().items() if value is not None)
    rows.append(["Machine", ", ".join(f"{key.replace('_gib', ' in GiB')} {value}" for key, value in known)])
    rows.append(["Versions", ", ".join(f"{name} {version}" for name, version in versions().items())])
    return rows
