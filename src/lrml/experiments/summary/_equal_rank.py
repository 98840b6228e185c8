"""LRML, LEML and CPLST with the same allowed rank."""

from __future__ import annotations

import numpy as np

from lrml.experiments._spec import Experiment
from lrml.experiments.summary._columns import (
    METHODS,
    METRICS,
    Row,
    Table,
    capped_notes,
    column,
    how_chosen,
    how_measured,
    listed,
    protocol_notes,
    rounded,
    span,
    table,
)
from lrml.experiments.summary._entries import Entry, datasets_of, equal_rank_entries, protocols_of
from lrml.experiments.summary._results import Results
from lrml.experiments.summary._table2 import against_lrml, mark_notes

_COLUMNS = [
    column("dataset", "dataset"),
    column("percent", "% of labels", "integer"),
    column("allowed", "allowed rank", "integer", explanation="this share of the labels, at most min(d, L)"),
    column("method", "method"),
    column("theta", "theta", explanation="of LRML, as chosen; a range where seeds differ"),
    column("rank", "rank", "number", 1, "of the model, mean over the seeds"),
    column("largest_rank", "largest rank", "integer", explanation="over the seeds"),
    column("metric", "metric"),
    column("ours", "value", "number", 4, "test value, mean over the seeds"),
    column("spread", "spread", "number", 4, "standard deviation of the test value over the seeds"),
    column("lrml_minus", "LRML − method", "number", 4, "mean over test rows of the paired differences"),
    column("standard_error", "standard error", "number", 4, "of LRML − method, by the choice of test rows"),
    column("mark", "mark", explanation="paired t-test at 5 %"),
    column("mark_holm", "mark (Holm)", explanation="the same after Holm's correction"),
]


def equal_rank(results: Results) -> list[Table]:
    """Compare LRML, held to the rank that LEML and CPLST are given, with both."""
    entries = equal_rank_entries(results)
    if not entries:
        return []
    experiment = results.experiments["equal_rank"]
    measured = how_measured(datasets_of(entries), (entry.n_seeds for entry in entries), experiment)
    return table(
        "equal_rank",
        "At equal rank",
        "In Table 2 the theta of LRML is no limit on its rank: singular values beyond theta are penalised, "
        "not removed. Here LRML may have no larger rank than LEML and CPLST. Protocol "
        f"{listed(protocols_of(entries))}. {measured} {how_chosen(experiment)}",
        _COLUMNS,
        [_row(results, entry) for entry in entries],
        ["dataset", "method", "metric"],
        [
            *_how_held(experiment, entries),
            *mark_notes(entries, "of this table"),
            *protocol_notes(results, protocols_of(entries)),
            *capped_notes(results, experiment, protocols_of(entries), datasets_of(entries)),
        ],
    )


def _row(results: Results, entry: Entry) -> Row:
    theta = None
    if entry.method == "LRML":
        cell = results.cell(entry.dataset, entry.protocol, "LRML", entry.percent, "equal_rank")
        theta = span(cell.chosen("theta")) if cell else None
    return {
        "dataset": entry.dataset,
        "percent": entry.percent,
        "allowed": entry.theta,
        "method": METHODS[entry.method],
        "theta": theta,
        "rank": rounded(float(np.mean(entry.ranks))),
        "largest_rank": max(entry.ranks),
        "metric": METRICS[entry.metric],
        "ours": rounded(entry.ours),
        "spread": rounded(entry.spread),
    } | against_lrml(entry)


def _how_held(experiment: Experiment, entries: tuple[Entry, ...]) -> list[str]:
    shares = " or ".join(f"{100 * share:g} %" for share in experiment.options["theta_shares"])
    notes = [
        f"How LRML was held to the rank: its theta was {shares} of the allowed rank (rounded, at "
        "least 1). Of theta, alpha and ridge, the best on the validation rows was taken among those whose "
        "model, fitted without these rows, had an allowed rank. If the fit on the whole training set had a "
        "larger rank, alpha was raised, by a quarter at a time, until the rank was allowed.",
        "LRML has the squared loss here. Where Table 2 gives LEML a choice of losses, it keeps it.",
    ]
    over = [entry for entry in entries if entry.method == "LRML" and max(entry.ranks) > entry.theta]
    if over:
        where = dict.fromkeys(f"{entry.dataset} at {entry.percent} %" for entry in over)
        notes.insert(1, f"The rank of LRML is larger than allowed, so not comparable, on: {listed(where)}.")
    return notes
