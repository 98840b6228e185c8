"""The values of Table 2 and of the comparison at equal rank, and which differences are more than chance.

Two methods are compared on the same test examples, each with one value of a metric per example. With dᵢ the
difference on example i, t = mean(d) / (sd(d)/√n) is compared with Student's distribution with n − 1 degrees
of freedom, on both sides.

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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr

from lrml.experiments._plan import theta_of
from lrml.experiments._published import published_cells
from lrml.experiments._specs import WITH_THETA, Experiment
from lrml.experiments.summary._records import MethodRecords, Records
from lrml.experiments.summary._text import LOWER_IS_BETTER, METRICS

LEVEL = 0.05
"""Below this p-value a difference is called significant."""

BETTER, WORSE, NEITHER = "•", "∘", ""
"""Marks of the paper: LRML is significantly better, significantly worse, or neither."""

PRINTED_DIGITS = 4
"""Decimals of Table 2."""

_PUBLISHED_MARKS = {"better": BETTER, "worse": WORSE}
_CLEAR = 2.0  # standard errors
# Values per example are means over a few seeds, so equal ones can differ in their last bits. They are
# stored in single precision, so no difference of any weight is as small as this.
_NOISE = 1e-9


@dataclass(frozen=True)
class Difference:
    """Mean of paired differences, its standard error, and the p-value of the t-test on both sides.

    The mean is NaN without examples, the standard error for fewer than two. The p-value is 1 if all
    differences are zero, or if there are fewer than two; 0 if they are one and the same other number.
    """

    mean: float
    standard_error: float
    p_value: float

    @property
    def clear_sign(self) -> int:
        """1 or −1 if the mean is more than two standard errors away from zero, else 0."""
        clear = abs(self.mean) > _CLEAR * self.standard_error
        return int(np.sign(self.mean)) if clear else 0


def paired_difference(first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> Difference:
    """Compare the values of two methods on the same examples; those on which either is NaN are left out.

    Examples
    --------
    >>> found = paired_difference(np.array([1.0, 0.0, np.nan]), np.array([0.0, 0.0, 1.0]))
    >>> found.mean, found.standard_error, round(found.p_value, 6)
    (0.5, 0.5, 0.5)
    """
    d = first - second
    d = d[~np.isnan(d)]
    d[np.abs(d) < _NOISE] = 0.0
    if d.size < 2:
        return Difference(float(d[0]) if d.size else np.nan, np.nan, 1.0)
    mean, deviation = float(d.mean()), float(d.std(ddof=1))
    if np.ptp(d) < _NOISE:  # one and the same number, up to its last bits
        return Difference(mean, 0.0, 1.0 if mean == 0.0 else 0.0)
    standard_error = deviation / float(np.sqrt(d.size))
    p_value = 2.0 * float(stdtr(d.size - 1, -abs(mean / standard_error)))
    return Difference(mean, standard_error, p_value)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number, by Holm's step-down method.

    With p₁ ≤ p₂ ≤ … ≤ p_m, the corrected p_k is the largest of (m − j + 1) p_j over j ≤ k, and at most 1.
    Calling those below 5 % significant keeps the chance of any false call below 5 %, however the tests depend
    on each other.

    Examples
    --------
    >>> holm([0.01, 0.5, 0.02])
    [0.03, 0.5, 0.04]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1))
    corrected = np.empty_like(p)
    corrected[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in corrected]


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
