"""Table 2 of the paper in long form and in the paper's own layout."""

from __future__ import annotations

from collections.abc import Sequence

from lrml.experiments._cells import WITH_THETA
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
    table,
)
from lrml.experiments.summary._entries import (
    Entry,
    datasets_of,
    n_comparisons,
    protocols_of,
    table2_entries,
)
from lrml.experiments.summary._results import Results

REACHED, MISSED = "at or above", "below"
"""Verdicts on a value, in the sense of good: for Hamming loss, at or above means no larger."""

_COLUMNS = [
    column("dataset", "dataset"),
    column("protocol", "protocol"),
    column("percent", "% of labels", "integer", explanation="theta of LRML, or the rank of LEML and CPLST"),
    column("theta", "theta or rank", "integer", explanation="the same as a count, at most min(d, L)"),
    column("metric", "metric"),
    column("method", "method"),
    column("ours", "ours", "number", 4, "test value, mean over the seeds"),
    column("spread", "spread", "number", 4, "standard deviation of the test value over the seeds"),
    column("seeds", "seeds", "integer", explanation="how many of them did not fail"),
    column("published", "paper", "number", 4, "as the paper's Table 2 prints it"),
    column("difference", "ours − paper", "number", 4),
    column("verdict", "verdict", explanation="ours beside the paper's, both with four decimals"),
    column("lrml_minus", "LRML − method", "number", 4, "mean over test rows of the paired differences"),
    column("standard_error", "standard error", "number", 4, "of LRML − method, by the choice of test rows"),
    column("mark", "mark", explanation="paired t-test at 5 %"),
    column("mark_holm", "mark (Holm)", explanation="the same after Holm's correction"),
    column("mark_published", "mark (paper)", explanation="what the paper prints"),
]


def table2(results: Results) -> list[Table]:
    """Make Table 2 in long form: one row per protocol, dataset, percent, metric and method."""
    entries = table2_entries(results)
    if not entries:
        return []
    experiment = results.experiments["table2"]
    caption = (
        f"{_measured(entries, experiment)} The paper prints values for bibtex and "
        "delicious, and none for average precision."
    )
    notes = [
        'Verdict: "at or above" means at least as good as the paper when both have four decimals, so for '
        "Hamming loss no larger.",
        "A spread of 0 says that all seeds chose the same parameters, or that there was nothing to choose.",
        *mark_notes(entries, "of this table"),
        *protocol_notes(results, protocols_of(entries)),
        *capped_notes(results, experiment, protocols_of(entries), datasets_of(entries)),
    ]
    filters = ["dataset", "protocol", "method", "metric"]
    rows = [_row(entry) for entry in entries]
    return table("table2", "Table 2: every value", caption, _COLUMNS, rows, filters, notes)


def _row(entry: Entry) -> Row:
    return {
        "dataset": entry.dataset,
        "protocol": entry.protocol,
        "percent": entry.percent,
        "theta": entry.theta,
        "metric": METRICS[entry.metric],
        "method": METHODS[entry.method],
        "ours": rounded(entry.ours),
        "spread": rounded(entry.spread),
        "seeds": entry.n_seeds,
        "published": entry.published,
        "difference": None if entry.published is None else rounded(entry.ours - entry.published),
        "verdict": {True: REACHED, False: MISSED, None: ""}[entry.reached],
        "mark_published": entry.published_mark,
        "_class": {True: "better", False: "worse", None: None}[entry.reached],
    } | against_lrml(entry)


def _measured(entries: Sequence[Entry], experiment: Experiment) -> str:
    seeds = (entry.n_seeds for entry in entries)
    return f"{how_measured(datasets_of(entries), seeds, experiment)} {how_chosen(experiment)}"


def against_lrml(entry: Entry) -> Row:
    """Return the part of a row that compares LRML with the row's method."""
    return {
        "lrml_minus": rounded(entry.against.mean) if entry.against else None,
        "standard_error": rounded(entry.against.standard_error) if entry.against else None,
        "mark": entry.plain_mark,
        "mark_holm": entry.corrected_mark,
    }


def table2_like_paper(results: Results) -> list[Table]:
    """Make, for every protocol that was run, a table in the layout of the paper's Table 2."""
    entries = table2_entries(results)
    return [made for protocol in protocols_of(entries) for made in _wide(results, protocol, entries)]


def _wide(results: Results, protocol: str, all_entries: Sequence[Entry]) -> list[Table]:
    entries = [entry for entry in all_entries if entry.protocol == protocol]
    datasets = datasets_of(entries)
    cells = {(e.metric, e.percent, e.dataset, e.method): _cell_text(e) for e in entries}
    lines = sorted({(list(METRICS).index(e.metric), e.percent, e.metric) for e in entries})
    rows = [
        {"metric": METRICS[metric], "percent": percent}
        | {
            f"{dataset}_{method}": cells.get((metric, percent, dataset, method))
            for dataset in datasets
            for method in WITH_THETA
        }
        for _, percent, metric in lines
    ]
    columns = [column("metric", "metric"), column("percent", "% of labels", "integer")]
    columns += [
        column(f"{dataset}_{method}", f"{dataset}: {METHODS[method]}")
        for dataset in datasets
        for method in WITH_THETA
    ]
    experiment = results.experiments["table2"]
    notes = [
        "• after a value of LEML or CPLST: LRML is significantly better than this method; ∘: significantly "
        "worse (paired t-test over the test rows at 5 %, not corrected for the number of comparisons; the "
        "long table has both marks).",
        *protocol_notes(results, [protocol]),
        *capped_notes(results, experiment, [protocol], datasets),
    ]
    if any(entry.published is not None for entry in entries):
        notes.insert(0, "In parentheses: what the paper prints.")
    return table(
        f"table2_{protocol}",
        f"Table 2 in the paper's layout, protocol {protocol}",
        _measured(entries, experiment),
        columns,
        rows,
        ["metric"],
        notes,
    )


def _cell_text(entry: Entry) -> str:
    """For example ``0.6493 • (0.5833)``."""
    published = "" if entry.published is None else f"({entry.published:.4f})"
    return " ".join(part for part in (f"{entry.ours:.4f}", entry.plain_mark, published) if part)


def mark_notes(entries: tuple[Entry, ...], where: str) -> list[str]:
    """Explain the marks, and what they do not say."""
    counts = n_comparisons(entries)
    if not counts:
        return []
    numbers = listed(f"{count} ({protocol})" for protocol, count in counts.items())
    return [
        "• LRML is significantly better than the method of the row, ∘ significantly worse, by a paired "
        "t-test over the test rows at 5 %, two-sided; rows on which a metric is not defined are left out.",
        f"Mark (Holm): what is left of the marks after Holm's correction over all comparisons {where} under "
        f"one protocol: {numbers}. Without it, about one in twenty comparisons of equals is marked.",
        "The test covers the choice of the test rows. It does not cover the choice of the training rows, and "
        "for values that are 0 or 1 (top-1 accuracy) the t distribution is an approximation.",
    ]
