"""Scores of candidates on held-out rows: who leads whom by how much, and which one a rule takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

_Float64 = npt.NDArray[np.float64]


class ScoreTable:
    """The values of one criterion for candidates on splits: one per row, or a single number.

    ``weights`` are those of the held-out rows of each split; None stands for ones.
    """

    def __init__(self, weights: Sequence[Any], *, by_row: bool) -> None:
        self.weights, self.by_row = list(weights), by_row
        self.scores: _Float64 = np.empty((0, len(weights)))
        self.values: list[list[Any]] = []  # by candidate and split, if there is one for every row

    def add(self, values: Sequence[Any]) -> None:
        """Enter the values of another candidate on all splits."""
        scores = values
        if self.by_row:
            self.values.append([np.asarray(part, dtype=np.float32) for part in values])
            scores = [mean_of(*pair) for pair in zip(values, self.weights, strict=True)]
        self.scores = np.vstack([self.scores, np.asarray(scores, dtype=np.float64)])

    @property
    def means(self) -> _Float64:
        """Mean scores over the splits that tell; −∞ for candidates without one."""
        told = np.isfinite(self.scores)
        sums = np.where(told, self.scores, 0.0).sum(axis=1)
        return np.where(told.any(axis=1), sums / np.maximum(told.sum(axis=1), 1), -np.inf)

    def lead(
        self, one: int | Sequence[int], other: int, splits: Sequence[int] | None = None
    ) -> tuple[float, float]:
        """By how much a candidate is better than another on some splits, and the standard error of that.

        On every split it may be another one. Without values for the rows a single split does not tell the
        error; 1 % of the score stands for it. Splits without a score say nothing.
        """
        numbers = range(self.scores.shape[1]) if splits is None else splits
        ones = dict(zip(numbers, [one] * len(numbers) if isinstance(one, int) else one, strict=True))
        told = [i for i in numbers if np.isfinite(self.scores[[ones[i], other], i]).all()]
        if not told:
            return 0.0, 0.0
        first = [ones[i] for i in told]
        gains = self.scores[first, told] - self.scores[other, told]
        gain = float(gains.mean())
        if not self.by_row:
            usual = 0.01 * abs(float(self.scores[first[0], told[0]]))
            spread = float(gains.std(ddof=1)) if len(told) > 1 else usual
            return gain, spread / float(np.sqrt(len(told)))
        values = np.concatenate([self.values[ones[i]][i].astype(float) - self.values[other][i] for i in told])
        weights = None if self.weights[0] is None else np.concatenate([self.weights[i] for i in told])
        return mean_and_error(values, weights)

    def n_counted(self, candidate: int, sizes: Sequence[int]) -> float:
        """Return how many rows tell about a candidate: (Σ w)² / Σ w² of those that have a value, or all."""
        if not self.by_row:
            return float(sum(sizes))
        counted = np.isfinite(np.concatenate(self.values[candidate]))
        weights = counted if self.weights[0] is None else counted * np.concatenate(self.weights)
        shares = weights / max(weights.max(), 1e-300)
        return float(np.sum(shares) ** 2 / max(np.sum(shares**2), 1e-300))

    def near(self, best: int, among: Sequence[int]) -> list[int]:
        """Return who is within one standard error of the paired difference to the best."""
        told = np.isfinite(self.scores).sum(axis=1)
        leads = {one: self.lead(best, one) for one in among if told[one] >= told[best]}
        return [one for one, (gain, error) in leads.items() if gain <= error]

    def columns(self, name: str, reference: int) -> dict[str, _Float64]:
        """Return the columns of ``cv_results_``; errors are those of the difference to one candidate."""
        found = {f"split{i}_test_{name}": self.scores[:, i] for i in range(self.scores.shape[1])}
        errors = [self.lead(reference, place)[1] for place in range(len(self.scores))]
        return found | {
            f"mean_test_{name}": np.where(np.isfinite(self.means), self.means, np.nan),
            f"std_test_{name}": self.scores.std(axis=1),
            f"error_test_{name}": np.array(errors),
        }


def ranked(means: _Float64) -> npt.NDArray[np.int32]:
    """Return places from 1 on, best first; ties share the better place."""
    return rankdata(-np.nan_to_num(means, nan=-np.inf), method="min").astype(np.int32)


def mean_of(values: _Float64, weights: _Float64 | None) -> float:
    """Weighted mean over the rows that have a value; NaN if none has."""
    counted = np.isfinite(values) if weights is None else np.isfinite(values) & (weights > 0)
    if not counted.any():
        return float("nan")
    return float(np.average(values[counted], weights=None if weights is None else weights[counted]))


def mean_and_error(values: _Float64, weights: _Float64 | None) -> tuple[float, float]:
    """Weighted mean over the rows that have a value, and its standard error.

    With the shares p = w / Σ w the error is √(Σ p²(v − v̄)² / (1 − Σ p²)); for equal weights this is the
    sample standard deviation over √n. A single row does not tell.
    """
    w = np.isfinite(values) * (1.0 if weights is None else weights / max(weights.max(), 1e-300))
    if np.count_nonzero(w) < 2:
        return mean_of(values, weights), 0.0
    shares, values = w[w > 0] / w.sum(), values[w > 0]
    mean, freedom = float(values @ shares), 1.0 - float(shares @ shares)
    return mean, float(np.sqrt((values - mean) ** 2 @ shares**2 / (freedom if freedom > 0 else np.inf)))
