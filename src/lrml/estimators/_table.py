"""Scores of candidates on held-out rows: who leads whom, by how much, and which one is taken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from lrml.estimators._grid import GridPoint

_Float64 = npt.NDArray[np.float64]
Choice: TypeAlias = tuple[GridPoint, float, dict[str, float]]
"""A candidate, its score, and what is known of the lead over the best ridge."""

# With fewer rows that tell, a lead must be twice as clear.
_FEW_ROWS = 500


class ScoreTable:
    """The values of one criterion for candidates on splits: one per row, or a single number.

    ``weights`` are those of the held-out rows of each split; None stands for ones.
    """

    def __init__(self, weights: Sequence[Any], *, by_row: bool) -> None:
        self.weights, self.by_row = list(weights), by_row
        self.values: dict[GridPoint, list[Any]] = {}  # by split
        self.scores: dict[GridPoint, _Float64] = {}  # means of these

    def add(self, point: GridPoint, values: Sequence[Any]) -> None:
        """Enter the values of another candidate on all splits."""
        self.values[point] = list(values)
        if self.by_row:
            self.values[point] = [np.asarray(part, dtype=np.float32) for part in values]
            values = [mean_and_error(*pair)[0] for pair in zip(values, self.weights, strict=True)]
        self.scores[point] = np.array(values, dtype=np.float64)

    def mean(self, point: GridPoint) -> float:
        """Return the mean over the splits that tell; −∞ if none does."""
        told = self.scores[point][np.isfinite(self.scores[point])]
        return float(told.mean()) if told.size else -math.inf

    def lead(
        self, one: GridPoint | Sequence[GridPoint], other: GridPoint, splits: Sequence[int] | None = None
    ) -> tuple[float, float]:
        """By how much a candidate is better than another on some splits, and the standard error of that.

        On every split it may be another one. Without values for the rows a single split does not tell the
        error; 1 % of the score stands for it. Splits without a score say nothing.
        """
        numbers = range(len(self.weights)) if splits is None else splits
        ones = [one] * len(numbers) if isinstance(one, GridPoint) else one
        pairs = [
            (self.scores[first][i], self.scores[other][i]) for first, i in zip(ones, numbers, strict=True)
        ]
        told = [place for place, pair in enumerate(pairs) if np.isfinite(pair).all()]
        if not told:
            return 0.0, 0.0
        if not self.by_row:
            gains = np.array([pairs[place][0] - pairs[place][1] for place in told])
            spread = float(gains.std(ddof=1)) if len(told) > 1 else 0.01 * abs(pairs[told[0]][0])
            return float(gains.mean()), spread / math.sqrt(len(told))
        at = [(ones[place], numbers[place]) for place in told]
        values = [self.values[first][i].astype(float) - self.values[other][i] for first, i in at]
        weights = None if self.weights[0] is None else np.concatenate([self.weights[i] for _, i in at])
        return mean_and_error(np.concatenate(values), weights)

    def n_counted(self, point: GridPoint, sizes: Sequence[int]) -> float:
        """Return how many rows tell about a candidate: (Σ w)² / Σ w² of those that have a value, or all."""
        if not self.by_row:
            return float(sum(sizes))
        counted = np.isfinite(np.concatenate(self.values[point]))
        weights = counted if self.weights[0] is None else counted * np.concatenate(self.weights)
        shares = weights / max(weights.max(), 1e-300)
        return float(np.sum(shares) ** 2 / max(np.sum(shares**2), 1e-300))

    def near(self, best: GridPoint, among: Iterable[GridPoint]) -> list[GridPoint]:
        """Return who is within one standard error of the paired difference to the best."""
        n_told = {point: np.count_nonzero(np.isfinite(scores)) for point, scores in self.scores.items()}
        found = []
        for point in among:
            gain, error = self.lead(best, point)
            if gain <= error and n_told[point] >= n_told[best]:
                found.append(point)
        return found


def mean_and_error(values: _Float64, weights: _Float64 | None) -> tuple[float, float]:
    """Weighted mean over the rows that have a value, NaN if none has, and its standard error.

    With the shares p = w / Σ w the error is √(Σ p²(v − v̄)² / (1 − Σ p²)); for equal weights this is the
    sample standard deviation over √n. A single row does not tell.
    """
    w = np.isfinite(values) * (1.0 if weights is None else weights / max(weights.max(), 1e-300))
    values, w = values[w > 0], w[w > 0]
    if not w.size:
        return math.nan, 0.0
    shares = w / w.sum()
    mean, freedom = float(np.average(values, weights=w)), 1.0 - float(shares @ shares)
    return mean, float(np.sqrt((values - mean) ** 2 @ shares**2 / freedom)) if freedom > 0 else 0.0


def choice(alone: Any, folds: Any, number: int, rule: str) -> Choice:
    """Choose by one criterion: the best candidate; of what folds judge, only what has proven itself.

    The lead of the luckiest candidate would be too good. So every fold judges what the others choose, and
    these leads together must exceed one standard error of the paired differences, or two with fewer than 500
    rows; otherwise it is the ridge.
    """
    table, bare = alone.tables[number], alone.points if folds is None else alone.bare
    ridge = best_of(alone, bare, number)
    base = table.mean(ridge)
    facts = {"gain": math.nan, "gain_error": math.nan, "gain_rows": math.nan}
    facts |= {"ridge": ridge.ridge, "ridge_score": base}
    new: list[GridPoint] = [] if folds is None else folds.beside
    found, score = ridge, base
    if new:
        judged, splits = folds.tables[number], range(len(folds.splits))

        def leader(numbers: Sequence[int]) -> GridPoint:
            return max([ridge, *new], key=lambda point: judged.lead(point, ridge, numbers)[0])

        picks = [leader([n for n in splits if n != number] or [number]) for number in splits]
        gain, error = judged.lead(picks, ridge)
        n_rows = judged.n_counted(ridge, [len(split.test) for split in folds.splits])
        facts |= {"gain": gain, "gain_error": error, "gain_rows": n_rows}
        clear = 2.0 if n_rows < _FEW_ROWS or len(splits) == 1 else 1.0
        if n_rows >= 2 and gain > clear * error:
            found, score = leader(splits), base + gain
            # Where the metric cannot tell a variant from what it is a variant of, squared error does.
            other: GridPoint = folds.variants.get(found, found)
            gain, error = judged.lead(found, other)
            found = found if gain > 0.5 * error else other
        if rule != "best":
            found = _simplest(folds, judged.near(found, [ridge, *new]), number, rule)
            score = base + judged.lead(found, ridge)[0]
    if rule != "best" and found == ridge:
        found = _simplest(alone, table.near(ridge, bare), number, rule)
        score = table.mean(found)
    return found, score, facts


def best_of(judge: Any, among: Sequence[GridPoint], number: int) -> GridPoint:
    """Return the candidate with the best mean by one criterion, the simplest of equals."""
    means = {point: judge.tables[number].mean(point) for point in among}
    best = max(means.values())
    return _simplest(judge, [point for point in among if means[point] == best], number, "best")


def _simplest(judge: Any, among: Sequence[GridPoint], number: int, rule: str) -> GridPoint:
    """Return that of the least rank and the strongest penalty; or of the fewest bytes, the best of these."""

    def complexity(point: GridPoint) -> tuple[float, ...]:
        usual = judge.ranks[point], -point.alpha, -point.ridge
        if rule != "smallest":
            return usual
        return (float(judge.nbytes([point])[0]), -judge.tables[number].mean(point), *usual)

    return min(among, key=complexity)


def cv_results(alone: Any, folds: Any, titles: Sequence[str], params: Any) -> dict[str, Any]:
    """Return the table of all candidates, in the order of `candidates`; greater scores are better.

    A candidate that was judged on folds while ridges had leave-one-out scores has that of the best ridge plus
    its lead over it. ``params`` makes parameters of a candidate.
    """
    points, new = candidates(alone, folds), folds.beside if folds not in (None, alone) else []
    listed = [params(point) for point in points]
    results: dict[str, Any] = {"params": listed}
    for name in listed[0]:
        results[f"param_{name}"] = np.array([one[name] for one in listed])
    for number, title in enumerate(titles):
        table, best = alone.tables[number], best_of(alone, alone.points, number)
        scores = [table.scores[point] for point in alone.points]
        means = [table.mean(point) for point in alone.points]
        spreads = [one.std() for one in scores]
        errors = [table.lead(best, point)[1] for point in alone.points]
        for point in new:
            gain, error = folds.tables[number].lead(point, best)
            means.append(means[alone.points.index(best)] + gain)
            scores.append(np.array(means[-1:]))
            spreads.append(folds.tables[number].scores[point].std())
            errors.append(error)
        for split, column in enumerate(np.transpose(scores)):
            results[f"split{split}_test_{title}"] = column
        results[f"mean_test_{title}"] = np.where(np.isfinite(means), means, np.nan)
        results[f"std_test_{title}"], results[f"error_test_{title}"] = np.array(spreads), np.array(errors)
        results[f"rank_test_{title}"] = rankdata(-np.array(means), method="min").astype(np.int32)
    ranks = alone.ranks | ({} if folds is None else folds.ranks)
    results["mean_model_rank"] = np.array([ranks[point] for point in points])
    results["mean_model_nbytes"] = alone.comparison.nbytes(results["mean_model_rank"])
    return results


def candidates(alone: Any, folds: Any) -> list[GridPoint]:
    """Return all candidates."""
    return [*alone.points, *(folds.beside if folds not in (None, alone) else [])]
