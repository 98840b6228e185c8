"""Scores of candidates on held-out rows: which are hopeless, which is best, and the table of all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

_Float64 = npt.NDArray[np.float64]

# A candidate is abandoned when the leader beats it by this many standard errors of the paired difference.
# With fewer rows than this, no candidate is abandoned.
_HOPELESS, _LEAST_ROWS = 3.0, 30
# Beside exact scores, an estimate is the one to be near only by what it exceeds them by, less so many errors.
_TOO_GOOD = 2.0


class ScoreTable:
    """The values of one criterion for every candidate on every split; candidates may be added.

    ``nbytes`` tells how many bytes models of some ranks take; unless given, rank stands for size.
    """

    def __init__(
        self,
        sizes: list[int],
        weights: list[Any],
        *,
        by_row: bool,
        nbytes: Callable[[Any], Any] = np.asarray,
    ) -> None:
        self.sizes, self.weights, self.by_row, self.nbytes = sizes, weights, by_row, nbytes
        self.scores: _Float64 = np.empty((0, len(sizes)))
        self.ranks: _Float64 = np.empty((0, len(sizes)))
        self.exact: set[int] = set()  # candidates with exact scores, if the others have estimates
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

    def lead(self, one: int | Sequence[int], other: int, splits: Sequence[int] = (0,)) -> tuple[float, float]:
        """By how much a candidate is better than another on some splits, and the standard error of that.

        On every split it may be another one. Without values for the rows, a single split does not tell the
        error; 1 % of the score stands for it. Splits without a score say nothing.
        """
        ones = dict(zip(splits, one if isinstance(one, Sequence) else [one] * len(splits), strict=True))
        chosen = [split for split in splits if np.isfinite(self.scores[[ones[split], other], split]).all()]
        if not chosen:
            return 0.0, 0.0
        first = [ones[split] for split in chosen]
        gains = self.scores[first, chosen] - self.scores[other, chosen]
        gain = float(gains.mean())
        if not self.by_row:
            size = abs(float(self.scores[first[0], chosen[0]]))
            spread = float(gains.std(ddof=1)) if len(chosen) > 1 else 0.01 * size
            return gain, spread / float(np.sqrt(len(chosen)))
        values = np.concatenate(
            [self.values[i][ones[i]].astype(float) - self.values[i][other] for i in chosen]
        )
        weights = None if self.weights[0] is None else np.concatenate([self.weights[i] for i in chosen])
        counted: Any = np.isfinite(values) & (True if weights is None else weights > 0)
        if np.count_nonzero(counted) < 2:
            return gain, 0.0
        means, errors = mean_and_error(values[None, counted], None if weights is None else weights[counted])
        return float(means[0]), float(errors[0])

    def n_counted(self, candidate: int) -> float:
        """Return how many rows tell about a candidate, (Σ w)² / Σ w² of those that have a value."""
        if not self.by_row:
            return float(sum(self.sizes))
        counted = np.isfinite(np.concatenate([values[candidate] for values in self.values]))
        weights = counted if self.weights[0] is None else counted * np.concatenate(self.weights)
        shares = weights / max(weights.max(), 1e-300)
        return float(np.sum(shares) ** 2 / max(np.sum(shares**2), 1e-300))

    @property
    def complete(self) -> npt.NDArray[np.bool_]:
        """Candidates with a score on every split."""
        return np.asarray(np.isfinite(self.scores).all(axis=1))

    def is_near_best(self, candidate: int) -> bool:
        """Whether a candidate is within one standard error of the best on the first split.

        The error is that expected of all splits together. Without values for the rows, 1 % of the score
        stands for it, as in `lead`.
        """
        scores = np.nan_to_num(self.scores[:, 0], nan=-np.inf)
        top = int(np.argmax(scores))
        error = _error_of(self.values[0][top], self.weights[0]) if self.by_row else 0.01 * abs(scores[top])
        error /= np.sqrt(len(self.sizes))
        return bool(np.isfinite(scores[top]) and scores[candidate] >= self._to_be_near(scores, error) - error)

    def _to_be_near(self, means: _Float64, error: float) -> float:
        """Return the best mean; estimates are a little too good, so they count less than exact ones."""
        best = float(means.max())
        if not self.exact:
            return best
        return max(best - _TOO_GOOD * error, float(means[list(self.exact)].max()))

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

    @property
    def _means(self) -> _Float64:
        """Mean scores; −∞ for candidates that did not see every split."""
        complete = self.complete
        return np.where(complete, np.where(complete[:, None], self.scores, 0.0).mean(axis=1), -np.inf)

    @property
    def best_error(self) -> float:
        """Standard error of the best mean."""
        return self._standard_error(int(np.argmax(self._means)))

    def in_order(self, rule: str, strengths: npt.NDArray[np.float64]) -> list[int]:
        """Candidates with the best mean, or within one standard error of it, as the rule prefers them.

        "smallest" goes by bytes, and among equals by the mean. The others, and ties, go by rank, then by the
        strengths of the penalties, compared in the order of the columns of ``strengths``.
        """
        means = self._means
        error = self.best_error
        limit = means.max() if rule == "best" else self._to_be_near(means, error) - error
        eligible = np.flatnonzero(means >= limit)
        ranks = np.nan_to_num(self.ranks[eligible])
        keys = [-strengths[eligible, column] for column in reversed(range(strengths.shape[1]))]
        keys.append(ranks.mean(axis=1))
        if rule == "smallest":
            keys += [-means[eligible], self.nbytes(ranks).mean(axis=1)]
        return [int(place) for place in eligible[np.lexsort(keys)]]

    def _standard_error(self, candidate: int) -> float:
        """Return that of the mean score: from the rows if they have values, else from the splits."""
        if not self.by_row:
            scores = self.scores[candidate]
            return float(scores.std(ddof=1) / np.sqrt(len(scores))) if len(scores) > 1 else 0.0
        values = np.concatenate([known[candidate] for known in self.values])
        return _error_of(values, None if self.weights[0] is None else np.concatenate(self.weights))


def _error_of(values: npt.NDArray[Any], weights: _Float64 | None) -> float:
    """Return the standard error of the mean of those rows that have a value."""
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
    for name, sizes in (("rank", first.ranks), ("nbytes", first.nbytes(first.ranks))):
        results[f"mean_model_{name}"] = np.nan_to_num(sizes).sum(axis=1) / np.maximum(count, 1)
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
