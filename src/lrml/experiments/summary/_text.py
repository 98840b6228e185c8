"""Names, numbers and phrases that tables, figures and sentences of the summary share."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

from lrml.datasets import mulan_entries
from lrml.experiments._plan import theta_of
from lrml.experiments._specs import Experiment
from lrml.experiments.summary._records import Records

METRICS = {
    "precision_at_1": "top-1 accuracy",
    "precision_at_3": "top-3 accuracy",
    "precision_at_5": "top-5 accuracy",
    "hamming_loss": "Hamming loss",
    "average_auc": "average AUC",
    "average_precision": "average precision",
}
"""Metrics in order, and their names in text: the paper's."""

METHODS = {"LRML": "LRML", "LEML": "LEML", "CPLST": "CPLST", "MLTrace": "ML-trace", "MLFro": "ML-Fro"}
"""Methods in order, and their names in text."""

LOWER_IS_BETTER = frozenset({"hamming_loss"})


def listed(texts: Iterable[str]) -> str:
    """Join texts as in a sentence.

    Examples
    --------
    >>> listed(["yeast", "bibtex", "delicious"])
    'yeast, bibtex and delicious'
    """
    *first, last = texts
    return f"{', '.join(first)} and {last}" if first else last


def span(values: Iterable[Any]) -> str | None:
    """Write values of several seeds as one text: the value, the range of numbers, or all of the texts.

    Examples
    --------
    >>> span([1.0, 3.0, 1.0]), span([2.0, 2.0]), span(["squared", "logistic"]), span([None])
    ('1 to 3', '2', 'logistic, squared', None)
    """
    known = sorted({value for value in values if value is not None})
    if not known:
        return None
    if isinstance(known[0], str):
        return ", ".join(known)
    low, high = f"{known[0]:.3g}", f"{known[-1]:.3g}"
    return low if low == high else f"{low} to {high}"


def how_measured(datasets: Iterable[str], n_seeds: Iterable[int], experiment: Experiment) -> str:
    """Say on which rows values were measured, and what a seed is."""
    counts, entries = set(n_seeds), mulan_entries()
    rows = (f"{name} {entries[name].n_instances - entries[name].n_train}" for name in datasets)
    return (
        f"Values are of the test set of Mulan's split (rows: {', '.join(rows)}), means over "
        f"{span(counts)} {'seed' if counts == {1} else 'seeds'}. A seed is one random choice of validation "
        f"rows, {100 * experiment.held_out:g} % of the training set. They choose the parameters; the model "
        "is then fitted on the whole training set."
    )


def how_chosen(experiment: Experiment) -> str:
    """Say by which criterion the model of every metric was chosen."""
    by_criterion: dict[str, list[str]] = {}
    for metric, title in METRICS.items():
        if metric in experiment.criteria:
            by_criterion.setdefault(experiment.criteria[metric], []).append(title)
    parts = [
        f"{listed(metrics)}: the model with the best {METRICS[criterion]}"
        for criterion, metrics in by_criterion.items()
    ]
    return f"Which model a value is of, by its score on the validation rows: {'; '.join(parts)}."


def protocol_notes(records: Records, protocols: Iterable[str]) -> list[str]:
    """Say what every protocol is, and where it does not treat methods alike."""
    notes = []
    for name in dict.fromkeys(protocols):
        protocol = records.protocols[name]
        unequal = " CPLST centres the data by definition, so it alone has an intercept here."
        notes.append(f"Protocol {name}: {protocol.summary}.{'' if protocol.fit_intercept else unequal}")
    return notes


def capped_notes(
    records: Records, experiment: Experiment, protocols: Iterable[str], datasets: Iterable[str]
) -> list[str]:
    """Say which shares of the labels are more than a rank can be, so that several are the same model."""
    notes = []
    for name, dataset in product(protocols, datasets):
        most = theta_of(dataset, 100, records.protocols[name])
        n_labels = mulan_entries()[dataset].n_labels
        capped = [f"{percent} %" for percent in experiment.percents if percent / 100 * n_labels > most]
        if capped:
            notes.append(
                f"{dataset}, protocol {name}: {listed(capped)} of the {n_labels} labels is more than the "
                f"largest possible rank and counts as {most}; equal values are of one model."
            )
    return notes
