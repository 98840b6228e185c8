"""Candidates and their scores on held-out rows: who leads whom, by how much, and which one is taken."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.stats import rankdata

from lrml.core.penalties import TailSum

_Float64 = npt.NDArray[np.float64]

# With fewer rows that tell, a lead must be twice as clear.
_FEW_ROWS = 500


class GridPoint(NamedTuple):
    """One model: the strengths of its penalty, and perhaps a limit of its rank."""

    theta: int
    alpha: float
    ridge: float
    rank: int | None = None

    @property
    def penalty(self) -> TailSum:
        """The penalty; the ridge belongs to the problem."""
        return TailSum(self.theta, self.alpha, max_rank=self.rank)


class ScoreTable:
    """The values of one criterion for candidates on splits: one per row, or one per split.

    ``weights`` are those of the held-out rows of each split.
    """

    def __init__(self, weights: Sequence[_Float64], *, by_row: bool) -> None:
        self.by_row, self.n_rows = by_row, sum(map(len, weights))
        self.weights = list(weights) if by_row else [np.ones(1)] * len(weights)
        self.values: dict[Any, list[npt.NDArray[Any]]] = {}  # by split
        self.scores: dict[Any, _Float64] = {}  # means of these

    def add(self, point: Any, values: Iterable[Any]) -> None:
        """Enter the values of another candidate on all splits."""
        parts = [np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in values]
        means = (mean_and_error(*pair)[0] for pair in zip(parts, self.weights, strict=True))
        self.scores[point] = np.fromiter(means, np.float64)
        self.values[point] = [part.astype(np.float32) for part in parts] if self.by_row else parts

    def mean(self, point: Any) -> float:
        """Return the mean over the splits that tell; −∞ if none does."""
        told = self.scores[point][np.isfinite(self.scores[point])]
        return float(told.mean()) if told.size else -math.inf

    def lead(
        self, one: GridPoint | Sequence[GridPoint], other: Any, splits: Sequence[int] | None = None
    ) -> tuple[float, float]:
        """By how much a candidate is better than another on some splits, and the standard error of that.

        On every split it may be another one. Without values for the rows a single split does not tell the
        error; 1 % of the score stands for it. Splits without a score say nothing.
        """
        numbers = range(len(self.weights)) if splits is None else splits
        ones = one if isinstance(one, list) else [one] * len(numbers)
        pairs = zip(ones, numbers, strict=True)
        gains = np.concatenate(
            [self.values[best][i].astype(float) - self.values[other][i] for best, i in pairs]
        )
        gain, error = mean_and_error(gains, np.concatenate([self.weights[i] for i in numbers]))
        told = np.flatnonzero(np.isfinite(gains))
        if not self.by_row and len(told) == 1:
            error = 0.01 * abs(float(self.scores[ones[told[0]]][numbers[told[0]]]))
        return (gain, error) if len(told) else (0.0, 0.0)

    def n_counted(self, point: GridPoint) -> float:
        """Return how many rows tell about a candidate: (Σ w)² / Σ w² of those that have a value, or all."""
        if not self.by_row:
            return float(self.n_rows)
        weights = np.isfinite(np.concatenate(self.values[point])) * np.concatenate(self.weights)
        shares = weights / max(weights.max(), 1e-300)
        return float(np.sum(shares) ** 2 / max(np.sum(shares**2), 1e-300))

    def near(self, best: Any, among: Iterable[Any]) -> list[Any]:
        """Return who is within one standard error of the paired difference to the best."""
        n_told = {point: np.count_nonzero(np.isfinite(scores)) for point, scores in self.scores.items()}
        leads = {point: self.lead(best, point) for point in among}
        return [
            point for point, (gain, error) in leads.items() if gain <= error and n_told[point] >= n_told[best]
        ]


def mean_and_error(values: _Float64, weights: _Float64) -> tuple[float, float]:
    """Weighted mean over the rows that have a value, NaN if none has, and its standard error.

    With the shares p = w / Σ w the error is √(Σ p²(v − v̄)² / (1 − Σ p²)); for equal weights this is the
    sample standard deviation over √n. A single row does not tell.
    """
    w = np.isfinite(values) * weights / max(weights.max(initial=0.0), 1e-300)
    values, w = values[w > 0], w[w > 0]
    if not w.size:
        return math.nan, 0.0
    shares = w / w.sum()
    mean, freedom = float(np.average(values, weights=w)), 1.0 - float(shares @ shares)
    return mean, float(np.sqrt((values - mean) ** 2 @ shares**2 / freedom)) if freedom > 0 else 0.0


class Contest(NamedTuple):
    """Candidates that are compared with each other, and rivals that have to prove themselves against them.

    A rival is judged beside the best of the others, perhaps by another judge. Without rivals, the best of all
    candidates wins.
    """

    judge: Any  # of the candidates
    candidates: list[GridPoint]
    rivals_judge: Any
    rivals: list[GridPoint]
    variants: dict[GridPoint, GridPoint]  # rivals that are near another one, and that one

    @property
    def points(self) -> list[GridPoint]:
        """All candidates and rivals."""
        return list(dict.fromkeys([*self.judge.points, *self.rivals]))

    def choice(self, number: int, rule: str) -> tuple[GridPoint, float, dict[str, float]]:
        """Return who wins by one criterion, its score, and what is known of the lead of the rivals.

        The lead of the luckiest rival would be too good. So every split judges what the others choose, and
        these leads together must exceed one standard error of the paired differences, or two with fewer than
        500 rows.
        """
        table, judged = self.judge.tables[number], self.rivals_judge.tables[number]
        first = best_of(self.judge, self.candidates, number)
        found, score = first, (base := table.mean(first))
        facts = dict.fromkeys(("gain", "gain_error", "gain_rows"), math.nan)
        facts |= {"ridge": first.ridge, "ridge_score": base}
        if self.rivals:
            splits = range(len(judged.weights))

            def leader(numbers: Sequence[int]) -> GridPoint:
                return max([first, *self.rivals], key=lambda point: judged.lead(point, first, numbers)[0])

            picks = [leader([n for n in splits if n != number] or [number]) for number in splits]
            (gain, error), n_rows = judged.lead(picks, first), judged.n_counted(first)
            facts |= {"gain": gain, "gain_error": error, "gain_rows": n_rows}
            clear = 2.0 if n_rows < _FEW_ROWS or len(splits) == 1 else 1.0
            if n_rows >= 2 and gain > clear * error:
                found, score = leader(splits), base + gain
                # Where the metric cannot tell a variant from what it is a variant of, squared error does.
                other = self.variants.get(found, found)
                gain, error = judged.lead(found, other)
                found = found if gain > 0.5 * error else other
            if rule != "best":
                near = judged.near(found, [first, *self.rivals])
                found = _simplest(self.rivals_judge, near, number, rule)
                score = base + judged.lead(found, first)[0]
        if rule != "best" and found == first:
            found = _simplest(self.judge, table.near(first, self.candidates), number, rule)
            score = table.mean(found)
        return found, score, facts

    def results(self, titles: Sequence[str], params: Any) -> dict[str, Any]:
        """Return the table of all `points`; greater scores are better.

        A rival of another judge has the score of the best candidate plus its lead over it. ``params`` makes
        parameters of a point.
        """
        points, judge = self.points, self.judge
        listed = [params(point) for point in points]
        results: dict[str, Any] = {"params": listed}
        for name in listed[0]:
            results[f"param_{name}"] = np.array([one[name] for one in listed])
        for number, title in enumerate(titles):
            table, best = judge.tables[number], best_of(judge, judge.points, number)
            means, scores, spreads, errors = [], [], [], []
            for point in points:
                own = point in table.scores
                asked = table if own else self.rivals_judge.tables[number]
                gain, error = asked.lead(best, point)
                means.append(table.mean(point) if own else table.mean(best) - gain)
                scores.append(table.scores[point] if own else np.array(means[-1:]))
                spreads.append(asked.scores[point].std())
                errors.append(error)
            for split, column in enumerate(np.transpose(scores)):
                results[f"split{split}_test_{title}"] = column
            results[f"mean_test_{title}"] = np.where(np.isfinite(means), means, np.nan)
            results[f"std_test_{title}"], results[f"error_test_{title}"] = np.array(spreads), np.array(errors)
            results[f"rank_test_{title}"] = rankdata(-np.array(means), method="min").astype(np.int32)
        ranks = self.rivals_judge.ranks | judge.ranks
        results["mean_model_rank"] = np.array([ranks[point] for point in points])
        results["mean_model_nbytes"] = judge.comparison.nbytes(results["mean_model_rank"])
        return results


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
        size = float(judge.comparison.nbytes(np.array([judge.ranks[point]]))[0])
        return (size, -judge.tables[number].mean(point), *usual)

    return min(among, key=complexity)
