"""Scores of candidates on held-out rows: which are hopeless, which is best, and the table of all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

_Float64 = npt.NDArray[np.float64]

# A candidate is abandoned when the leader beats it by this many standard errors of the paired difference.
# With fewer rows than this, no candidate is abandoned.
_HOPELESS, _LEAST_ROWS = 3.0, 30


class ScoreTable:
    """The values of one criterion for every candidate on every split; candidates may be added."""

    def __init__(self, sizes: list[int], weights: list[Any], *, by_row: bool) -> None:
        self.sizes, self.weights, self.by_row = sizes, weights, by_row
        self.scores: _Float64 = np.empty((0, len(sizes)))
        self.ranks: _Float64 = np.empty((0, len(sizes)))
        # One value per row, for criteria that have them.
        self.values = [np.empty((0, size), dtype=np.float32) for size in sizes] if by_row else []

    def add(self, count: int) -> None:
        """Make room for more candidates."""
        self.scores, self.ranks = _longer(self.scores, count), _longer(self.ranks, count)
        self.values = [_longer(values, count) for values in self.values]

    def record(self, candidate: int, split: int, values: Any, rank: int) -> None:
        """Enter the values of a criterion: one per row, or a single number."""
        self.ranks[candidate, split] = rank
        if self.by_row:
            self.values[split][candidate] = values
            values = weighted_mean(values, self.weights[split])
        self.scores[candidate, split] = float(values)

    def lead(self, one: int, other: int, splits: Sequence[int] = (0,)) -> tuple[float, float]:
        """By how much a candidate is better than another on some splits, and the standard error of that.

        Without values for the rows, a single split does not tell the error; 1 % of the score stands for it.
        Splits without a score say nothing.
        """
        chosen = [split for split in splits if np.isfinite(self.scores[[one, other], split]).all()]
        if not chosen:
            return 0.0, 0.0
        gains = self.scores[one, chosen] - self.scores[other, chosen]
        gain = float(gains.mean())
        if not self.by_row:
            size = abs(float(self.scores[one, chosen[0]]))
            spread = float(gains.std(ddof=1)) if len(chosen) > 1 else 0.01 * size
            return gain, spread / float(np.sqrt(len(chosen)))
        values = np.concatenate([self.values[i][one].astype(float) - self.values[i][other] for i in chosen])
        weights = None if self.weights[0] is None else np.concatenate([self.weights[i] for i in chosen])
        counted: Any = np.isfinite(values) & (True if weights is None else weights > 0)
        if np.count_nonzero(counted) < 2:
            return gain, 0.0
        weights = None if weights is None else weights[counted]
        return gain, float(mean_and_error(values[None, counted], weights)[1][0])

    @property
    def complete(self) -> npt.NDArray[np.bool_]:
        """Candidates with a score on every split."""
        return np.asarray(np.isfinite(self.scores).all(axis=1))

    def hopeful(self, split: int, *, with_margin: bool) -> list[int]:
        """Candidates that may still win after a split; all, if there are too few rows to tell.

        With a margin, candidates that may still be within a standard error of the winner stay too.
        """
        everyone = list(range(len(self.scores)))
        if not self.by_row or not np.isfinite(self.scores[:, split]).any():
            return everyone
        values = self.values[split]
        leader = int(np.nanargmax(self.scores[:, split]))
        counted = np.isfinite(values[leader])
        weights = self.weights[split]
        if weights is not None:
            counted &= weights > 0
            weights = weights[counted]
        if counted.sum() < _LEAST_ROWS:
            return everyone
        lead = values[leader, counted].astype(np.float64) - values[:, counted]
        mean, error = mean_and_error(lead, weights)
        margin = mean_and_error(values[leader : leader + 1, counted], weights)[1] if with_margin else 0.0
        return [int(i) for i in np.flatnonzero(~(mean > margin + _HOPELESS * error))]

    def best(self, *, one_standard_error: bool, strengths: npt.NDArray[np.float64]) -> int:
        """Best mean; or the simplest candidate that is within one standard error of it.

        The simplest has the least rank, and among those of equal rank the strongest penalties, compared in
        the order of the columns of ``strengths``. The same order breaks ties.
        """
        means = np.where(
            self.complete, np.where(self.complete[:, None], self.scores, 0.0).mean(axis=1), -np.inf
        )
        top = int(np.argmax(means))
        limit = means[top]
        if one_standard_error:
            limit = limit - self._standard_error(top)
        eligible = np.flatnonzero(means >= limit)
        mean_rank = np.nan_to_num(self.ranks[eligible].mean(axis=1))
        keys = [-strengths[eligible, column] for column in reversed(range(strengths.shape[1]))]
        return int(eligible[np.lexsort([*keys, mean_rank])[0]])

    def _standard_error(self, candidate: int) -> float:
        """Return that of the mean score: from the rows if they have values, else from the splits."""
        if not self.by_row:
            scores = self.scores[candidate]
            return float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else 0.0
        values = np.concatenate([known[candidate] for known in self.values])
        weights = None if self.weights[0] is None else np.concatenate(self.weights)
        counted = np.isfinite(values)
        weights = None if weights is None else weights[counted]
        return float(mean_and_error(values[None, counted], weights)[1][0])


def _longer(known: npt.NDArray[Any], count: int) -> npt.NDArray[Any]:
    return np.concatenate([known, np.full((count, known.shape[1]), np.nan, dtype=known.dtype)])


def weighted_mean(values: _Float64, weights: _Float64 | None) -> float:
    """Mean over the rows that have a value."""
    counted = np.isfinite(values) if weights is None else np.isfinite(values) & (weights > 0)
    if not counted.any():
        return float("nan")
    return float(np.average(values[counted], weights=None if weights is None else weights[counted]))


def mean_and_error(values: npt.NDArray[Any], weights: _Float64 | None) -> tuple[_Float64, _Float64]:
    """Weighted means of the rows of a matrix and their standard errors.

    With the shares p = w / Σ w the error is √(Σ p²(v − v̄)² / (1 − Σ p²)); for equal weights this is the
    sample standard deviation over √n.
    """
    w = np.ones(values.shape[1]) if weights is None else weights
    shares = w / w.sum()
    means = values @ shares
    freedom = 1.0 - float(shares @ shares)  # 0 if a single row has all the weight: then there is no estimate
    return means, np.sqrt((values - means[:, None]) ** 2 @ shares**2 / (freedom if freedom > 0 else np.inf))


def cv_results(candidates: list[dict[str, Any]], tables: Mapping[str, ScoreTable]) -> dict[str, Any]:
    """Table of all candidates, greater scores being better.

    One metric is called "score"; several have their own names: mean_test_average_auc, …

    An abandoned candidate has NaN on the splits that it did not see; its mean is over those that it saw, and
    it ranks behind all candidates that saw every split.
    """
    results: dict[str, Any] = {"params": candidates}
    for name in candidates[0]:
        results[f"param_{name}"] = np.array([candidate[name] for candidate in candidates])
    for name, table in tables.items():
        results |= _scores(name, table)
    first = next(iter(tables.values()))
    count = np.isfinite(first.scores).sum(axis=1)
    results["n_splits_seen"] = count
    results["mean_model_rank"] = np.nan_to_num(first.ranks).sum(axis=1) / np.maximum(count, 1)
    return results


def _scores(name: str, table: ScoreTable) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for split in range(table.scores.shape[1]):
        results[f"split{split}_test_{name}"] = table.scores[:, split]
    seen = np.isfinite(table.scores)
    count = seen.sum(axis=1)
    filled = np.where(seen, table.scores, 0.0)
    means = filled.sum(axis=1) / np.maximum(count, 1)
    results[f"mean_test_{name}"] = np.where(count > 0, means, np.nan)
    spread = np.where(seen, (table.scores - means[:, None]) ** 2, 0.0).sum(axis=1) / np.maximum(count, 1)
    results[f"std_test_{name}"] = np.sqrt(spread)
    # Candidates that saw more splits rank first; ties share the better place.
    _, order = np.unique(np.stack([-count, -means], axis=1), axis=0, return_inverse=True)
    places = rankdata(order, method="min").astype(np.int32)
    results[f"rank_test_{name}"] = places
    return results
