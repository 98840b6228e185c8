"""The tables of the summary: plain data, numbers rounded to ten digits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lrml.experiments._plan import theta_of
from lrml.experiments._published import published_table1
from lrml.experiments._specs import WITH_THETA, Experiment
from lrml.experiments.summary._records import MethodRecords, Records
from lrml.experiments.summary._significance import (
    Value,
    datasets_of,
    equal_rank_values,
    n_comparisons,
    protocols_of,
    table2_values,
)
from lrml.experiments.summary._text import (
    METHODS,
    METRICS,
    capped_notes,
    how_chosen,
    how_measured,
    listed,
    protocol_notes,
    span,
)
from lrml.report import column, table

Table: TypeAlias = dict[str, Any]
Row: TypeAlias = dict[str, Any]

_PUBLISHED_METRICS = tuple(name for name in METRICS if name != "average_precision")


def _named(*keys: str) -> list[dict[str, Any]]:
    """Describe columns of texts that are called like their key."""
    return [column(key, key) for key in keys]


_PERCENT = column("percent", "% of labels", "integer")
_SPREAD = column("spread", "spread", "number", 4, "standard deviation of the test value over the seeds")
# How LRML compares with the method of the row.
_AGAINST_LRML = [
    column("lrml_minus", "LRML − method", "number", 4, "mean over test rows of the paired differences"),
    column("standard_error", "standard error", "number", 4, "of LRML − method, by the choice of test rows"),
    column("mark", "mark", explanation="paired t-test at 5 %"),
    column("mark_holm", "mark (Holm)", explanation="the same after Holm's correction"),
]


# Table 1

# Statistic, title, decimals of the paper (None for counts), and what it is.
_STATISTICS: tuple[tuple[str, str, int | None, str], ...] = (
    ("instances", "instances", None, "rows of the training and the test set together"),
    ("attributes", "attributes", None, "features"),
    ("labels", "labels", None, "labels"),
    ("cardinality", "cardinality", 3, "mean number of labels of a row"),
    ("density", "density", 3, "cardinality divided by the number of labels"),
    ("distinct_label_sets", "distinct label sets", None, "different rows of the label matrix"),
)


def _table1(records: Records) -> list[Table]:
    """For every dataset each statistic as counted here, and as the paper prints it."""
    if "table1" not in records.experiments:
        return []
    rows = [
        _statistics_row(dataset, record["result"], published_table1(dataset))
        for dataset in records.datasets
        for record in records.of_kind("statistics", dataset)
    ]
    columns = _named("dataset", "domain")
    for name, title, digits, explanation in _STATISTICS:
        kind = "integer" if digits is None else "number"
        columns.append(column(name, title, kind, digits, explanation))
        columns.append(column(f"{name}_paper", f"{title} (paper)", kind, digits))
    columns.append(column("agrees", "agrees", explanation="whether all six numbers agree, as printed"))
    return table(
        "table1",
        "Table 1: the data",
        "Counts over all rows of Mulan's files, training and test set together, and beside each what the "
        "paper's Table 1 prints. Numbers agree if they are the same with the paper's number of decimals.",
        columns,
        rows,
    )


def _statistics_row(dataset: str, counted: Mapping[str, Any], printed: Mapping[str, str]) -> Row:
    row: Row = {"dataset": dataset, "domain": printed["domain"]}
    wrong = []
    for name, title, digits, _ in _STATISTICS:
        number = int if digits is None else float
        row |= {name: number(counted[name]), f"{name}_paper": number(printed[name])}
        if f"{counted[name]:.{digits or 0}f}" != printed[name]:
            wrong.append(title)
    agrees = f"no: {', '.join(wrong)}" if wrong else "yes"
    return row | {"agrees": agrees, "_class": "worse" if wrong else None}


# Table 2, every value


def _table2(records: Records) -> list[Table]:
    """One row per protocol, dataset, percent, metric and method."""
    values = table2_values(records)
    if not values:
        return []
    columns = [
        *_named("dataset", "protocol"),
        _PERCENT | {"help": "theta of LRML, or the rank of LEML and CPLST"},
        column("theta", "theta or rank", "integer", explanation="the same as a count, at most min(d, L)"),
        *_named("metric", "method"),
        column("ours", "ours", "number", 4, "test value, mean over the seeds"),
        _SPREAD,
        column("seeds", "seeds", "integer", explanation="how many of them did not fail"),
        column("published", "paper", "number", 4, "as the paper's Table 2 prints it"),
        column("difference", "ours − paper", "number", 4),
        column("verdict", "verdict", explanation="ours beside the paper's, both with four decimals"),
        *_AGAINST_LRML,
        column("mark_published", "mark (paper)", explanation="what the paper prints"),
    ]
    experiment = records.experiments["table2"]
    return table(
        "table2",
        "Table 2: every value",
        f"{_measured(values, experiment)} {how_chosen(experiment)} The paper prints values for bibtex and "
        "delicious, and none for average precision.",
        columns,
        [_value_row(value) for value in values],
        ["dataset", "protocol", "method", "metric"],
        [
            'Verdict: "at or above" means at least as good as the paper when both have four decimals, so '
            "for Hamming loss no larger.",
            "A spread of 0 says that all seeds chose the same parameters, or that there was nothing to "
            "choose.",
            *_mark_notes(values),
            *_place_notes(records, experiment, values),
        ],
    )


def _value_row(value: Value) -> Row:
    """Return all that the tables say about a value; each takes the columns it has."""
    against, printed = value.against, value.published
    gap = None if printed is None else (value.ours - printed) * (1 if value.lower_is_better else -1)
    return {
        "dataset": value.dataset,
        "protocol": value.protocol,
        "percent": value.percent,
        "theta": value.theta,
        "metric": METRICS[value.metric],
        "method": METHODS[value.method],
        "ours": value.ours,
        "spread": value.spread,
        "seeds": value.n_seeds,
        "published": printed,
        "difference": None if printed is None else value.ours - printed,
        "verdict": {True: "at or above", False: "below", None: ""}[value.reached],
        "gap": gap,
        "gap_in_errors": None if gap is None or not value.error > 0 else gap / value.error,
        "lrml_minus": against.mean if against else None,
        "standard_error": against.standard_error if against else None,
        "mark": value.plain_mark,
        "mark_holm": value.corrected_mark,
        "mark_published": value.published_mark,
        "_class": {True: "better", False: "worse", None: None}[value.reached],
    }


def _measured(values: Sequence[Value], experiment: Experiment) -> str:
    return how_measured(datasets_of(values), (value.n_seeds for value in values), experiment)


def _mark_notes(values: Sequence[Value]) -> list[str]:
    """Explain the marks, and what they do not say."""
    counts = n_comparisons(values)
    if not counts:
        return []
    numbers = listed(f"{count} ({protocol})" for protocol, count in counts.items())
    return [
        "• LRML is significantly better than the method of the row, ∘ significantly worse, by a paired "
        "t-test over the test rows at 5 %, two-sided; rows on which a metric is not defined are left out.",
        "Mark (Holm): what is left of the marks after Holm's correction over all comparisons of this table "
        f"under one protocol: {numbers}. Without it, about one in twenty comparisons of equals is marked.",
        "The test covers the choice of the test rows. It does not cover the choice of the training rows, and "
        "for values that are 0 or 1 (top-1 accuracy) the t distribution is an approximation.",
    ]


def _place_notes(records: Records, experiment: Experiment, values: Sequence[Value]) -> list[str]:
    """Explain the protocols, and shares of the labels that are the same model."""
    protocols, datasets = protocols_of(values), datasets_of(values)
    return protocol_notes(records, protocols) + capped_notes(records, experiment, protocols, datasets)


# Table 2 in the paper's layout


def _table2_like_paper(records: Records) -> list[Table]:
    """One table for every protocol that was run."""
    values = table2_values(records)
    groups = [[value for value in values if value.protocol == name] for name in protocols_of(values)]
    return [made for group in groups for made in _wide(records, group)]


def _wide(records: Records, values: Sequence[Value]) -> list[Table]:
    protocol, experiment = values[0].protocol, records.experiments["table2"]
    texts = {(v.metric, v.percent, f"{v.dataset}_{v.method}"): _value_text(v) for v in values}
    titles = {
        f"{dataset}_{method}": f"{dataset}: {METHODS[method]}"
        for dataset in datasets_of(values)
        for method in WITH_THETA
    }
    lines = sorted({(list(METRICS).index(value.metric), value.percent, value.metric) for value in values})
    rows = [
        {"metric": METRICS[metric], "percent": percent}
        | {key: texts.get((metric, percent, key)) for key in titles}
        for _, percent, metric in lines
    ]
    has_published = any(value.published is not None for value in values)
    return table(
        f"table2_{protocol}",
        f"Table 2 in the paper's layout, protocol {protocol}",
        f"{_measured(values, experiment)} {how_chosen(experiment)}",
        [*_named("metric"), _PERCENT, *(column(key, title) for key, title in titles.items())],
        rows,
        ["metric"],
        [
            *(["In parentheses: what the paper prints."] if has_published else []),
            "• after a value of LEML or CPLST: LRML is significantly better than this method; ∘: "
            "significantly worse (paired t-test over the test rows at 5 %, not corrected for the number of "
            "comparisons; the long table has both marks).",
            *_place_notes(records, experiment, values),
        ],
    )


def _value_text(value: Value) -> str:
    """For example ``0.6493 • (0.5833)``."""
    published = "" if value.published is None else f"({value.published:.4f})"
    return " ".join(part for part in (f"{value.ours:.4f}", value.plain_mark, published) if part)


# Published values: how many are reached, and by how much the others are missed


def _counts(records: Records) -> list[Table]:
    """For every protocol and method, the number of published values that ours are at least as good as."""
    values = [value for value in table2_values(records) if value.published is not None]
    if not values:
        return []
    groups: dict[tuple[str, str], list[Value]] = {
        (protocol, method): [] for protocol in protocols_of(values) for method in WITH_THETA
    }
    for value in values:
        groups[value.protocol, value.method].append(value)
    columns = [
        *_named("protocol", "method"),
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
        f"({listed(datasets_of(values))}; four shares of the labels, five metrics) those "
        "that our implementation of the same method reaches on the same test set. The last five columns are "
        "counts by metric; every metric has a fifth of the values. A value is reached if ours is at least as "
        "good when both have four decimals; chance is not taken into account.",
        columns,
        [_count_row(group) for group in groups.values() if group],
        ["protocol", "method"],
        [
            "Protocols are counted apart: to take the best of several for each value would be a choice on "
            "the test set.",
            *protocol_notes(records, protocols_of(values)),
        ],
    )


def _count_row(values: Sequence[Value]) -> Row:
    reached = [value.metric for value in values if value.reached]
    row: Row = {"protocol": values[0].protocol, "method": METHODS[values[0].method]}
    row |= {"cells": len(values), "reached": len(reached)}
    return row | {f"reached_{name}": reached.count(name) for name in _PUBLISHED_METRICS}


def _misses(records: Records) -> list[Table]:
    """Every published value of LRML that ours does not reach."""
    values = [v for v in table2_values(records) if v.published is not None and v.method == "LRML"]
    missed = [value for value in values if not value.reached]
    if not missed:
        return []
    columns = [
        *_named("protocol", "dataset"),
        _PERCENT,
        *_named("metric"),
        column("published", "paper", "number", 4),
        column("ours", "ours", "number", 4),
        column("gap", "gap", "number", 4, "how much worse ours is, in the direction of the metric"),
        column("standard_error", "standard error", "number", 4, "of our value, by the choice of test rows"),
        column("gap_in_errors", "gap / standard error", "number", 1),
    ]
    return table(
        "misses",
        "Values of LRML that are not reached",
        f"The {len(missed)} of {len(values)} published values of LRML (all protocols together) that ours "
        f"does not reach with four decimals. {_measured(values, records.experiments['table2'])}",
        columns,
        [_value_row(value) | {"standard_error": value.error} for value in missed],
        ["protocol", "dataset", "metric"],
        [
            "The standard error is sd/√n of our values per test row (means over the seeds). It tells how "
            "much our value would vary with other test rows. The paper has the same test rows (Mulan's "
            "split), so a gap of less than a standard error can still be a true difference of two models."
        ],
    )


# At equal rank


def _equal_rank(records: Records) -> list[Table]:
    """LRML, held to the rank that LEML and CPLST are given, beside both."""
    values = equal_rank_values(records)
    if not values:
        return []
    experiment = records.experiments["equal_rank"]
    columns = [
        *_named("dataset"),
        _PERCENT,
        column("allowed", "allowed rank", "integer", None, "this share of the labels, at most min(d, L)"),
        *_named("method"),
        column("theta", "theta", explanation="of LRML, as chosen; a range where seeds differ"),
        column("rank", "rank", "number", 1, "of the model, mean over the seeds"),
        column("largest_rank", "largest rank", "integer", explanation="over the seeds"),
        *_named("metric"),
        column("ours", "value", "number", 4, "test value, mean over the seeds"),
        _SPREAD,
        *_AGAINST_LRML,
    ]
    return table(
        "equal_rank",
        "At equal rank",
        "In Table 2 the theta of LRML is no limit on its rank: singular values beyond theta are penalised, "
        "not removed. Here LRML may have no larger rank than LEML and CPLST. Protocol "
        f"{listed(protocols_of(values))}. {_measured(values, experiment)} {how_chosen(experiment)}",
        columns,
        [_equal_rank_row(records, value) for value in values],
        ["dataset", "method", "metric"],
        [
            *_how_held(experiment, values),
            *_mark_notes(values),
            *_place_notes(records, experiment, values),
        ],
    )


def _equal_rank_row(records: Records, value: Value) -> Row:
    theta = None
    if value.method == "LRML":
        found = records.of_method(value.dataset, value.protocol, "LRML", value.percent, "equal_rank")
        theta = span(found.chosen("theta")) if found else None
    ranks = {"rank": float(np.mean(value.ranks)), "largest_rank": max(value.ranks)}
    return _value_row(value) | {"allowed": value.theta, "theta": theta, "_class": None} | ranks


def _how_held(experiment: Experiment, values: Sequence[Value]) -> list[str]:
    shares = " or ".join(f"{100 * share:g} %" for share in experiment.options["theta_shares"])
    notes = [
        f"How LRML was held to the rank: its theta was {shares} of the allowed rank (rounded, at "
        "least 1). Of theta, alpha and ridge, the best on the validation rows was taken among those whose "
        "model, fitted without these rows, had an allowed rank. If the fit on the whole training set had a "
        "larger rank, alpha was raised, by a quarter at a time, until the rank was allowed.",
        "LRML has the squared loss here. Where Table 2 gives LEML a choice of losses, it keeps it.",
    ]
    over = [value for value in values if value.method == "LRML" and max(value.ranks) > value.theta]
    if over:
        where = dict.fromkeys(f"{value.dataset} at {value.percent} %" for value in over)
        notes.insert(1, f"The rank of LRML is larger than allowed, so not comparable, on: {listed(where)}.")
    return notes


# What was chosen, and how long it took


class _Place(NamedTuple):
    protocol: str
    dataset: str
    method: str
    percents: tuple[int | None, ...]

    @property
    def named(self) -> Row:
        """The first columns of a row."""
        return {"protocol": self.protocol, "dataset": self.dataset, "method": METHODS[self.method]}


def _places(records: Records, every_percent: bool) -> Iterator[_Place]:
    """Yield the models of all experiments.

    Experiments differ in their percents. With ``every_percent`` all are given, otherwise those of the first
    experiment that has the method, so that methods have the same ones.
    """
    experiments = [entry for entry in records.experiments.values() if entry.kind == "models"]
    places = ((p, d, m) for p in records.protocols for d in records.datasets for m in METHODS)
    for protocol, dataset, method in places:
        asked = [
            entry.percents
            for entry in experiments
            if protocol in entry.protocols and dataset in entry.datasets and method in entry.methods
        ]
        if asked and method not in WITH_THETA:
            yield _Place(protocol, dataset, method, (None,))
        elif asked:
            every = sorted({percent for percents in asked for percent in percents})
            yield _Place(protocol, dataset, method, tuple(every if every_percent else asked[0]))


def _ranks(records: Records) -> list[Table]:
    """For every model the request, its rank, and the chosen parameters."""
    rows = []
    for place in _places(records, every_percent=True):
        for percent in place.percents:
            found = records.of_method(place.dataset, place.protocol, place.method, percent)
            if found is not None:
                rows.append(_rank_row(records, place, percent, found))
    columns = [
        *_named("protocol", "dataset", "method"),
        _PERCENT,
        column("theta", "theta or rank asked", "integer", None, "theta of LRML, rank of LEML and CPLST"),
        column("rank", "rank", "number", 1, "rank of the model, mean over the seeds"),
        column("largest", "min(d, L)", "integer", explanation="the largest rank that is possible"),
        column("alpha", "alpha", explanation="strength of the penalty"),
        column("ridge", "ridge", explanation="strength of the squared norm beside it"),
        *_named("loss"),
        column("theorem3", "Theorem 3", "number", 3, "the printed local bound for this W, mean over seeds"),
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
            *protocol_notes(records, (row["protocol"] for row in rows)),
        ],
    )


def _rank_row(records: Records, place: _Place, percent: int | None, found: MethodRecords) -> Row:
    chosen = [choice for record in found.records for choice in record["result"]["chosen"].values()]
    missing = sum(not choice["converged"] for choice in chosen)
    bounds = [bound for bound in found.chosen("theorem3") if bound is not None]
    return place.named | {
        "percent": percent,
        "theta": found.records[0]["payload"]["theta"],
        "rank": float(np.mean(found.chosen("model_rank"))),
        "largest": theta_of(place.dataset, 100, records.protocols[place.protocol]),
        "alpha": span(found.chosen("alpha")),
        "ridge": span(found.chosen("ridge")),
        "loss": span(found.chosen("loss")),
        "theorem3": sum(bounds) / len(bounds) if bounds else None,
        "converged": f"no: {missing} of {len(chosen)} did not" if missing else "yes",
        "_class": "failed" if missing else None,
    }


def _times(records: Records) -> list[Table]:
    """Median times of fits and searches; the only table that is not the same after every run."""
    rows = []
    for place in _places(records, every_percent=False):
        found: dict[str, dict[str, Any]] = {}  # by key: several percents can be one model
        for percent in place.percents:
            models = records.of_method(place.dataset, place.protocol, place.method, percent)
            found |= {record["key"]: record["result"] for record in models.records} if models else {}
        if found:
            medians = {
                name: float(np.median([result[name] for result in found.values()]))
                for name in ("fit_seconds", "search_seconds")
            }
            rows.append(place.named | {"cells": len(found)} | medians)
    columns = [
        *_named("protocol", "dataset", "method"),
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
            "The final fit uses the sums that the search has made of the training rows, so a fit from "
            "scratch takes longer.",
            "Methods have grids of different sizes, and other searches ran at the same time: these times "
            "tell what a run costs, and are no benchmark. They are not the same in a second run.",
        ],
    )


TABLES = (_table1, _counts, _table2_like_paper, _misses, _table2, _equal_rank, _ranks, _times)
"""Functions of the records, in the order of presentation; each returns its tables, or none."""
