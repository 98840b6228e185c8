"""What was chosen and of which rank the models are, and how long it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from lrml.experiments._cells import WITH_THETA
from lrml.experiments._spec import METHODS as METHOD_ORDER
from lrml.experiments.summary._columns import (
    METHODS,
    Row,
    Table,
    column,
    largest_rank,
    protocol_notes,
    rounded,
    span,
    table,
)
from lrml.experiments.summary._results import Cell, Results


class _Place(NamedTuple):
    protocol: str
    dataset: str
    method: str
    percents: tuple[int | None, ...]


def _places(results: Results, every_percent: bool) -> Iterator[_Place]:
    """Yield what models there may be, by all experiments together.

    Experiments differ in their percents. With ``every_percent`` all are given, otherwise those of the first
    experiment that has the method, so that methods have the same ones.
    """
    experiments = [entry for entry in results.experiments.values() if entry.kind == "models"]
    for protocol in results.protocols:
        for dataset in results.datasets:
            for method in METHOD_ORDER:
                asked = [
                    entry.percents
                    for entry in experiments
                    if protocol in entry.protocols and dataset in entry.datasets and method in entry.methods
                ]
                if not asked:
                    continue
                percents = sorted({percent for percents in asked for percent in percents})
                if method not in WITH_THETA:
                    yield _Place(protocol, dataset, method, (None,))
                else:
                    yield _Place(protocol, dataset, method, tuple(percents if every_percent else asked[0]))


def ranks(results: Results) -> list[Table]:
    """List, for every model, what was asked for, the rank it has, and the parameters that were chosen."""
    rows = []
    for place in _places(results, every_percent=True):
        for percent in place.percents:
            cell = results.cell(place.dataset, place.protocol, place.method, percent)
            if cell is not None:
                rows.append(_rank_row(results, place, percent, cell))
    columns = [
        column("protocol", "protocol"),
        column("dataset", "dataset"),
        column("method", "method"),
        column("percent", "% of labels", "integer"),
        column(
            "theta", "theta or rank asked", "integer", explanation="theta of LRML, rank of LEML and CPLST"
        ),
        column("rank", "rank", "number", 1, "rank of the model, mean over the seeds"),
        column("largest", "min(d, L)", "integer", explanation="the largest rank that is possible"),
        column("alpha", "alpha", explanation="strength of the penalty"),
        column("ridge", "ridge", explanation="strength of the squared norm beside it"),
        column("loss", "loss"),
        column(
            "theorem3", "Theorem 3", "number", 3, "the printed local bound for this W, mean over the seeds"
        ),
        column("converged", "converged", explanation="all chosen models, of all seeds and criteria"),
    ]
    return table(
        "ranks",
        "What was chosen, and the ranks",
        "The models with the best average precision on the validation rows, fitted on the whole training set "
        "of Mulan's split. The rank is the mean over the seeds; parameters are given as a range where the "
        "seeds chose different ones.",
        columns,
        rows,
        ["protocol", "dataset", "method"],
        [
            "ML-trace and ML-Fro have no theta. alpha is the strength of another penalty in every method: on "
            "singular values beyond theta (LRML), on all of them (ML-trace), on squared norms (LEML and "
            "ML-Fro). CPLST has none.",
            "Theorem 3 of the paper is given as printed, r √(theta/n) + Σ_{j>theta} σ_j/√n, with W scaled to "
            "Frobenius norm 1 and back and r = ‖WWᵀ‖_F. It does not hold in general (see lrml.theory).",
            "Where theta is min(d, L), LRML has no penalty but the ridge, and its alpha has no effect.",
            *protocol_notes(results, dict.fromkeys(row["protocol"] for row in rows)),
        ],
    )


def _rank_row(results: Results, place: _Place, percent: int | None, cell: Cell) -> Row:
    converged = [
        choice["converged"] for record in cell.records for choice in record["result"]["chosen"].values()
    ]
    missing = len(converged) - sum(converged)
    return {
        "protocol": place.protocol,
        "dataset": place.dataset,
        "method": METHODS[place.method],
        "percent": percent,
        "theta": cell.records[0]["payload"]["theta"],
        "rank": rounded(cell.rank()),
        "largest": largest_rank(place.dataset, results.protocols[place.protocol]),
        "alpha": span(cell.chosen("alpha")),
        "ridge": span(cell.chosen("ridge")),
        "loss": span(cell.chosen("loss")),
        "theorem3": _mean(cell.chosen("theorem3")),
        "converged": f"no: {missing} of {len(converged)} did not" if missing else "yes",
        "_class": "failed" if missing else None,
    }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return rounded(sum(known) / len(known)) if known else None


def times(results: Results) -> list[Table]:
    """Give median times of fits and searches; the only table that is not the same after every run."""
    rows = []
    for place in _places(results, every_percent=False):
        found: dict[str, dict[str, Any]] = {}  # by key: several percents can be one model
        for percent in place.percents:
            cell = results.cell(place.dataset, place.protocol, place.method, percent)
            found |= {record["key"]: record["result"] for record in cell.records} if cell else {}
        if found:
            rows.append(
                {
                    "protocol": place.protocol,
                    "dataset": place.dataset,
                    "method": METHODS[place.method],
                    "cells": len(found),
                    "fit_seconds": _median(found, "fit_seconds"),
                    "search_seconds": _median(found, "search_seconds"),
                }
            )
    columns = [
        column("protocol", "protocol"),
        column("dataset", "dataset"),
        column("method", "method"),
        column("cells", "searches", "integer", explanation="how many the medians are over"),
        column("fit_seconds", "final fit", "seconds", 3, "on the whole training set, parameters chosen"),
        column("search_seconds", "whole search", "seconds", 3, "all candidates, all criteria, final fits"),
    ]
    return table(
        "times",
        "Times",
        "Median seconds over theta and the seeds: of the final fit of the model with the best average "
        "precision, and of the whole search with every candidate and the final fits for all criteria.",
        columns,
        rows,
        ["protocol", "dataset", "method"],
        [
            "What the search has summed up of the training rows is not summed up again, so a fit from "
            "nothing takes longer than the final fit.",
            "Methods have grids of different sizes, and other searches ran at the same time: these times "
            "tell what a run costs, and are no benchmark. They are not the same in a second run.",
        ],
    )


def _median(results: dict[str, dict[str, Any]], name: str) -> float | None:
    return rounded(float(np.median([result[name] for result in results.values()])))
