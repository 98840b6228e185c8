"""What the numbers of a table allow to say: paired differences on the test set, and a sentence.

Two methods are compared example by example: with d_i the difference of a metric on test example i, the mean
of d is reported with its standard error sd(d)/√n. That covers the choice of the test examples, not of the
training or held-out rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.experiments._table import REFERENCE, Row

CLEAR = 2.0
"""A difference of more than this many standard errors is called one."""

_CHANCE = 0.05  # how often a normal deviate exceeds CLEAR in size

_LOWER_IS_BETTER = frozenset({"hamming_loss"})


@dataclass(frozen=True)
class Difference:
    """Mean of paired differences and its standard error."""

    mean: float
    standard_error: float

    @classmethod
    def paired(cls, first: npt.NDArray[np.float64], second: npt.NDArray[np.float64]) -> Difference:
        """Compare per-example values; examples on which either is NaN are left out.

        Examples
        --------
        >>> Difference.paired(np.array([1.0, 0.0, np.nan]), np.array([0.0, 0.0, 1.0]))
        Difference(mean=0.5, standard_error=0.5)
        """
        d = first - second
        d = d[~np.isnan(d)]
        return cls(float(d.mean()), float(d.std(ddof=1) / np.sqrt(d.size)))

    @property
    def ratio(self) -> float:
        """Mean in units of the standard error, 0 if there is no difference at all."""
        if self.mean == 0.0:
            return 0.0
        return (
            self.mean / self.standard_error
            if self.standard_error > 0
            else float(np.copysign(np.inf, self.mean))
        )


@dataclass(frozen=True)
class Comparison:
    """LRML minus the reference under the same protocol, for one theta and one metric."""

    protocol: str
    theta: int
    metric: str
    difference: Difference

    @property
    def advantage(self) -> float:
        """The difference in standard errors, with the sign that makes positive good."""
        return -self.difference.ratio if self.metric in _LOWER_IS_BETTER else self.difference.ratio

    def as_dict(self) -> dict[str, Any]:
        """Return the comparison as a flat dictionary."""
        return {
            "protocol": self.protocol,
            "theta": self.theta,
            "metric": self.metric,
            "difference": self.difference.mean,
            "standard_error": self.difference.standard_error,
        }


def compare(rows: Sequence[Row]) -> list[Comparison]:
    """Compare every LRML row with the reference row of its protocol, by every metric."""
    references = {row.protocol: row.evaluation for row in rows if row.method == REFERENCE}
    return [
        Comparison(
            row.protocol,
            row.theta,
            metric,
            Difference.paired(
                row.evaluation.per_example[metric], references[row.protocol].per_example[metric]
            ),
        )
        for row in rows
        if row.theta is not None
        for metric in row.evaluation
    ]


def conclude(rows: Sequence[Row], comparisons: Sequence[Comparison], weakest: float) -> list[str]:
    """Say in one sentence per protocol what theta and the low-rank penalty changed.

    Parameters
    ----------
    rows : sequence of Row
        The whole table.
    comparisons : sequence of Comparison
        What `compare` makes of it.
    weakest : float
        The smallest alpha that could be chosen.
    """
    sentences = []
    for protocol in dict.fromkeys(row.protocol for row in rows):
        lrml = [row for row in rows if row.protocol == protocol and row.method != REFERENCE]
        against = [comparison for comparison in comparisons if comparison.protocol == protocol]
        parts = [_about_theta(lrml), _about_reference(against)]
        if all(row.alpha == weakest for row in lrml):
            parts.append(
                f"the held-out rows chose the weakest penalty (alpha = {weakest:g}) for every theta, so this "
                "is in effect a ridge regression"
            )
        sentences.append(f"{protocol}: {'; '.join(parts)}.")
    return sentences


def _about_theta(rows: Sequence[Row]) -> str:
    ordered = sorted(rows, key=lambda row: row.evaluation["top1"])
    low, high = (row.evaluation.per_example["top1"] for row in (ordered[0], ordered[-1]))
    spread = Difference.paired(high, low)
    if spread.mean == 0.0:
        return "top-1 is the same for every theta"
    verdict = "more than" if spread.ratio > CLEAR else "no more than"
    return (
        f"top-1 varies by {spread.mean:.4f} over theta, {spread.ratio:.1f} standard errors of the paired "
        f"difference, {verdict} chance explains"
    )


def _about_reference(comparisons: Sequence[Comparison]) -> str:
    better = Counter(c.metric for c in comparisons if c.advantage > CLEAR)
    worse = Counter(c.metric for c in comparisons if c.advantage < -CLEAR)
    by_chance = round(_CHANCE * len(comparisons))
    return (
        f"of {len(comparisons)} paired differences from {REFERENCE} (every theta, every metric), LRML is "
        f"better by more than {CLEAR:g} standard errors in {_listed(better)} and worse in {_listed(worse)}, "
        f"where chance alone would give about {by_chance}"
    )


def _listed(counts: Counter[str]) -> str:
    """For example ``5 (hamming_loss 4, average_precision 1)``."""
    if not counts:
        return "none"
    details = ", ".join(f"{metric} {count}" for metric, count in counts.most_common())
    return f"{counts.total()} ({details})"
