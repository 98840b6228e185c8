"""The values of Table 2 and of the comparison at equal rank, and which differences are more than chance.

Two methods are compared on the same test examples by a paired t-test (`lrml._significance`).

The test covers the choice of the test examples. It does not cover the choice of the training rows: both
models are fixed, and values are averaged over the seeds first, so another training set may well reverse a
mark. It works for metrics that are means over examples, as all of Table 2 are. For values that are 0 or 1,
such as top-1 accuracy, the t distribution is an approximation, which is good for the hundreds of rows that a
test set has.

A table makes many comparisons, and 5 % of those without a true difference get a mark. So two marks are given:
a plain one, as in the paper, and one after Holm's correction over all comparisons of one protocol in the
table, which keeps the chance of even one false mark below 5 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from lrml._significance import LEVEL, Difference, holm, paired_difference
from lrml.experiments._plan import theta_of
from lrml.experiments._published import published_cells
from lrml.experiments._specs import WITH_THETA, Experiment
from lrml.experiments.summary._records import MethodRecords, Records
from lrml.experiments.summary._text import LOWER_IS_BETTER, METRICS

BETTER, WORSE, NEITHER = "•", "∘", ""
"""Marks of the paper: LRML is significantly better, significantly worse, or neither."""

PRINTED_DIGITS = 4
"""Decimals of Table 2."""

_PUBLISHED_MARKS = {"better": BETTER, "worse": WORSE}


def mark(difference: float, p_value: float, lower_is_better: bool = False) -> str:
    """Return the paper's mark of a difference, LRML minus the other method.

    Examples
    --------
    >>> mark(0.02, 0.01), mark(0.02, 0.01, lower_is_better=True), mark(0.02, 0.5)
    ('•', '∘', '')
    """
    if not p_value < LEVEL or difference == 0.0:
        return NEITHER
    return BETTER if (difference < 0.0) == lower_is_better else WORSE


@dataclass(frozen=True)
class Value:
    """A method's value of one metric, at one theta (of LRML) or rank (of the others).

    ``ours`` and ``spread`` are mean and standard deviation of the test value over the seeds, ``error`` is the
    standard error of our value by the choice of test examples, ``ranks`` are those of the models chosen by
    average precision, one per seed. ``against`` is LRML − method, for methods other than LRML, and
    ``corrected`` its p-value after Holm's correction over the distinct comparisons of the protocol.
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

    @property
    def comparison(self) -> tuple[str, int, str, str]:
        """The key of a comparison within a protocol: two percents with one theta are one comparison."""
        return self.dataset, self.theta, self.metric, self.method


@lru_cache(maxsize=2)
def table2_values(records: Records) -> tuple[Value, ...]:
    """Return all values of Table 2 that were computed; empty if it was not asked for."""
    experiment = records.experiments.get("table2")
    return _values(records, experiment, {}) if experiment else ()


@lru_cache(maxsize=2)
def equal_rank_values(records: Records) -> tuple[Value, ...]:
    """Return the values of LRML held to the rank of its rivals, and theirs."""
    experiment = records.experiments.get("equal_rank")
    return _values(records, experiment, {"LRML": "equal_rank"}) if experiment else ()


def _values(records: Records, experiment: Experiment, kinds: Mapping[str, str]) -> tuple[Value, ...]:
    found: list[Value] = []
    for protocol in (name for name in experiment.protocols if name in records.protocols):
        made = [
            value
            for dataset in records.datasets
            if dataset in experiment.datasets
            for percent in experiment.percents
            for value in _values_at(records, experiment, kinds, (protocol, dataset, percent))
        ]
        # A comparison that appears twice, for a capped theta, counts once.
        p_values = {value.comparison: value.against.p_value for value in made if value.against is not None}
        corrected = dict(zip(p_values, holm(list(p_values.values())), strict=True))
        found += [replace(value, corrected=corrected.get(value.comparison, 1.0)) for value in made]
    return tuple(found)


def _values_at(
    records: Records, experiment: Experiment, kinds: Mapping[str, str], place: tuple[str, str, int]
) -> Iterator[Value]:
    protocol, dataset, percent = place
    methods = {
        method: records.of_method(dataset, protocol, method, percent, kinds.get(method, "model"))
        for method in WITH_THETA
    }
    own = methods["LRML"]
    if own is None and kinds:
        return  # at equal rank there is nothing to compare without LRML
    for metric in (name for name in METRICS if name in experiment.criteria):
        for method, found in methods.items():
            if found is None:
                continue
            published, word = published_cells().get((dataset, percent, metric, method), (None, ""))
            per_example = found.per_example(metric)
            yield Value(
                protocol=protocol,
                dataset=dataset,
                percent=percent,
                theta=theta_of(dataset, percent, records.protocols[protocol]),
                metric=metric,
                method=method,
                n_seeds=len(found.records),
                ours=found.mean(metric),
                spread=found.spread(metric),
                error=paired_difference(per_example, np.zeros_like(per_example)).standard_error,
                ranks=tuple(found.chosen("model_rank")),
                published=published,
                published_mark=_PUBLISHED_MARKS.get(word, NEITHER),
                against=compared(own, found, metric) if own and method != "LRML" else None,
            )


def compared(first: MethodRecords, second: MethodRecords, metric: str) -> Difference:
    """Return the difference first − second of a metric, paired over the test examples."""
    return paired_difference(first.per_example(metric), second.per_example(metric))


def n_comparisons(values: Iterable[Value]) -> dict[str, int]:
    """Return, for every protocol, over how many distinct comparisons Holm's correction goes."""
    found: dict[str, set[tuple[str, int, str, str]]] = {}
    for value in values:
        if value.against is not None:
            found.setdefault(value.protocol, set()).add(value.comparison)
    return {protocol: len(comparisons) for protocol, comparisons in found.items()}


def protocols_of(values: Iterable[Value]) -> list[str]:
    """Return the protocols that were run, in order."""
    return list(dict.fromkeys(value.protocol for value in values))


def datasets_of(values: Iterable[Value]) -> list[str]:
    """Return the datasets that there are values for, in order."""
    return list(dict.fromkeys(value.dataset for value in values))
