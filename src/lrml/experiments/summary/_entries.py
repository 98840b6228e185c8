"""The values of Table 2 and of the comparison at equal rank: ours, the paper's, and LRML against rivals."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from lrml.experiments._cells import WITH_THETA, theta_of
from lrml.experiments._published import published_cells
from lrml.experiments._spec import Experiment
from lrml.experiments.summary._columns import LOWER_IS_BETTER, METRICS
from lrml.experiments.summary._results import Cell, Results
from lrml.experiments.summary._significance import (
    BETTER,
    NEITHER,
    WORSE,
    Difference,
    holm,
    mark,
    paired_difference,
    standard_error,
)

PRINTED_DIGITS = 4
"""Decimals of Table 2."""

_MARKS = {"better": BETTER, "worse": WORSE}


@dataclass(frozen=True)
class Entry:
    """A method's value of one metric, at one theta.

    Attributes
    ----------
    protocol, dataset, metric, method : str
    percent, theta : int
        theta of LRML, or the rank of the others: as a share of the labels and as a count.
    n_seeds : int
    ours, spread : float
        Mean of the test value over the seeds, and its standard deviation.
    error : float
        Standard error of our value, by the choice of test examples.
    ranks : tuple of int
        Of the models chosen by average precision, one per seed.
    published : float or None
        The paper's value, if it prints one.
    published_mark : str
    against : Difference or None
        LRML − method, for methods other than LRML.
    corrected : float
        The p-value of ``against`` after Holm's correction over the distinct comparisons of the protocol.
    """

    protocol: str
    dataset: str
    percent: int
    theta: int
    metric: str
    method: str
    n_seeds: int
    ours: float
    spread: float
    error: float
    ranks: tuple[int, ...]
    published: float | None
    published_mark: str
    against: Difference | None
    corrected: float = 1.0

    @property
    def lower_is_better(self) -> bool:
        """Whether the metric is a loss."""
        return self.metric in LOWER_IS_BETTER

    @property
    def reached(self) -> bool | None:
        """Whether our value, with four decimals as printed, is at least as good as the published one."""
        if self.published is None:
            return None
        ours = round(self.ours, PRINTED_DIGITS)
        return ours <= self.published if self.lower_is_better else ours >= self.published

    @property
    def plain_mark(self) -> str:
        """Mark of the plain test at 5 %."""
        return self._mark(self.against.p_value if self.against else 1.0)

    @property
    def corrected_mark(self) -> str:
        """Mark after Holm's correction."""
        return self._mark(self.corrected)

    def _mark(self, p_value: float) -> str:
        return mark(self.against.mean, p_value, self.lower_is_better) if self.against else NEITHER


@lru_cache(maxsize=2)
def table2_entries(results: Results) -> tuple[Entry, ...]:
    """Return all values of Table 2 that were computed; empty if it was not asked for."""
    experiment = results.experiments.get("table2")
    return _entries(results, experiment, {}) if experiment else ()


@lru_cache(maxsize=2)
def equal_rank_entries(results: Results) -> tuple[Entry, ...]:
    """Return the values of LRML held to the rank of its rivals, and theirs."""
    experiment = results.experiments.get("equal_rank")
    return _entries(results, experiment, {"LRML": "equal_rank"}) if experiment else ()


def _entries(results: Results, experiment: Experiment, kinds: Mapping[str, str]) -> tuple[Entry, ...]:
    found: list[Entry] = []
    for protocol in (name for name in experiment.protocols if name in results.protocols):
        made = [
            entry
            for dataset in results.datasets
            if dataset in experiment.datasets
            for percent in experiment.percents
            for entry in _entries_at(results, experiment, kinds, (protocol, dataset, percent))
        ]
        found += _corrected(made)
    return tuple(found)


def _entries_at(
    results: Results, experiment: Experiment, kinds: Mapping[str, str], place: tuple[str, str, int]
) -> Iterator[Entry]:
    protocol, dataset, percent = place
    cells = {
        method: results.cell(dataset, protocol, method, percent, kinds.get(method, "model"))
        for method in WITH_THETA
    }
    own = cells["LRML"]
    if own is None and kinds:
        return  # at equal rank there is nothing to see without LRML
    for metric in (name for name in METRICS if name in experiment.criteria):
        for method, cell in cells.items():
            if cell is None:
                continue
            published, word = published_cells().get((dataset, percent, metric, method), (None, ""))
            yield Entry(
                protocol=protocol,
                dataset=dataset,
                percent=percent,
                theta=theta_of(dataset, percent, results.protocols[protocol]),
                metric=metric,
                method=method,
                n_seeds=len(cell.records),
                ours=cell.mean(metric),
                spread=cell.spread(metric),
                error=standard_error(cell.per_example(metric)),
                ranks=tuple(cell.chosen("model_rank")),
                published=published,
                published_mark=_MARKS.get(word, NEITHER),
                against=_against(own, cell, metric) if method != "LRML" else None,
            )


def _against(own: Cell | None, cell: Cell, metric: str) -> Difference | None:
    if own is None:
        return None
    return paired_difference(own.per_example(metric), cell.per_example(metric))


def _corrected(entries: list[Entry]) -> list[Entry]:
    """Correct for all comparisons of a protocol; one that appears twice, for a capped theta, counts once."""
    p_values = {_comparison(entry): entry.against.p_value for entry in entries if entry.against is not None}
    corrected = dict(zip(p_values, holm(list(p_values.values())), strict=True))
    return [replace(entry, corrected=corrected.get(_comparison(entry), 1.0)) for entry in entries]


def _comparison(entry: Entry) -> tuple[str, int, str, str]:
    return entry.dataset, entry.theta, entry.metric, entry.method


def n_comparisons(entries: tuple[Entry, ...]) -> dict[str, int]:
    """Return, for every protocol, of how many distinct comparisons Holm's correction takes account."""
    found: dict[str, set[tuple[str, int, str, str]]] = {}
    for entry in entries:
        if entry.against is not None:
            found.setdefault(entry.protocol, set()).add(_comparison(entry))
    return {protocol: len(comparisons) for protocol, comparisons in found.items()}


def protocols_of(entries: Iterable[Entry]) -> list[str]:
    """Return the protocols that were run, in order."""
    return list(dict.fromkeys(entry.protocol for entry in entries))


def datasets_of(entries: Iterable[Entry]) -> list[str]:
    """Return the datasets that there are values for, in order."""
    return list(dict.fromkeys(entry.dataset for entry in entries))
