"""Choices: the best candidate, or one that proves itself on folds, or the simplest that is as good."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from lrml.estimators._grid import GridPoint
from lrml.estimators._judges import FoldJudge, Judge
from lrml.estimators._table import ScoreTable, ranked

Choice: TypeAlias = tuple[GridPoint, float, dict[str, float]]
"""A candidate, its score, and what is known of the lead."""

# With fewer rows that tell, a lead must be twice as clear.
_FEW_ROWS = 500


def choice(alone: Judge, folds: FoldJudge | None, number: int, rule: str) -> Choice:
    """Choose by one criterion: the best candidate; of what folds judge, only what has proven itself.

    Return it, its score, and what is known of the lead.

    The lead of the luckiest candidate would be too good. So every fold judges what the others choose, and
    these leads together must exceed one standard error of the paired differences, or two with fewer than 500
    rows; otherwise it is the ridge.
    """
    table, bare = (
        alone.tables[number],
        [point for point in alone.points if folds is None or alone.is_bare(point)],
    )
    means = table.means
    top = max(means[alone.points.index(point)] for point in bare)
    best = _simplest(alone, [point for point in bare if means[alone.points.index(point)] == top], "best")
    new = [] if folds is None else [point for point in folds.points if not alone.is_bare(point)]
    facts = {"gain": math.nan, "gain_error": math.nan, "gain_rows": math.nan}
    facts |= {"ridge": best.ridge, "ridge_score": float(top)}
    if folds is None or not new:
        if rule != "best":
            best = _simplest(alone, _near(alone, number, best, bare), rule)
        return (best, float(means[alone.points.index(best)]), facts)
    table, splits = folds.tables[number], range(len(folds.splits))
    against, *own = (folds.points.index(point) for point in [best, *new])

    def leader(numbers: Sequence[int]) -> int:
        return max([against, *own], key=lambda place: table.lead(place, against, numbers)[0])

    others = [[n for n in splits if n != number] or [number] for number in splits]
    gain, error = table.lead([leader(numbers) for numbers in others], against)
    n_rows = table.n_counted(against, [len(split.test) for split in folds.splits])
    clear = 2.0 if n_rows < _FEW_ROWS or len(splits) == 1 else 1.0
    facts |= {"gain": gain, "gain_error": error, "gain_rows": n_rows}
    place, score = against, float(top)
    if n_rows >= 2 and gain > clear * error:
        place, score = _told_apart(folds, table, leader(splits)), float(top) + gain
    if rule != "best":
        place = folds.points.index(
            _simplest(folds, _near(folds, number, folds.points[place], [best, *new]), rule)
        )
        score = float(top) + table.lead(place, against)[0]
        if place == against:
            best = _simplest(alone, _near(alone, number, best, bare), rule)
            return (best, float(means[alone.points.index(best)]), facts)
    return (folds.points[place], score, facts)


def best_of(judge: Judge, among: Sequence[GridPoint], number: int) -> GridPoint:
    """Return the candidate with the best mean by one criterion, the simplest of equals."""
    means = {point: judge.tables[number].means[judge.points.index(point)] for point in among}
    return _simplest(judge, [point for point in among if means[point] == max(means.values())], "best")


def _told_apart(folds: FoldJudge, table: ScoreTable, place: int) -> int:
    """Where the metric cannot tell a variant from what it is a variant of, squared error does."""
    point = folds.points[place]
    other = folds.points.index(folds.variants.get(point, point))
    gain, error = table.lead(place, other)
    return place if gain > 0.5 * error else other


def _near(judge: Judge, number: int, best: GridPoint, among: Sequence[GridPoint]) -> list[GridPoint]:
    """Return who is within one standard error of the paired difference to the best."""
    places = [judge.points.index(point) for point in among]
    return [judge.points[place] for place in judge.tables[number].near(judge.points.index(best), places)]


def _simplest(judge: Judge, among: Sequence[GridPoint], rule: str) -> GridPoint:
    """Return that of the least rank and the strongest penalty; or of the fewest bytes, the best of these."""

    def complexity(point: GridPoint) -> tuple[float, ...]:
        place = judge.points.index(point)
        rank, strengths = judge.ranks[place], (-point.alpha, -point.ridge)
        if rule != "smallest":
            return rank, *strengths
        return (
            float(judge.comparison.nbytes(np.array([rank]))[0]),
            -judge.tables[0].means[place],
            rank,
            *strengths,
        )

    return min(among, key=complexity)


def cv_results(
    alone: Judge, folds: Judge | None, titles: Sequence[str], params_of: Callable[[GridPoint], dict[str, Any]]
) -> tuple[list[GridPoint], dict[str, Any]]:
    """Return all candidates, and the table of them; greater scores are better.

    A candidate that was judged on folds while ridges had leave-one-out scores has that of the best ridge plus
    its lead over it.
    """
    new = (
        []
        if folds is None or folds is alone
        else [point for point in folds.points if not alone.is_bare(point)]
    )
    points, ranks = alone.points + new, np.array(alone.ranks)
    if folds is not None and new:
        ranks = np.append(ranks, [folds.ranks[folds.points.index(point)] for point in new])
    candidates = [params_of(point) for point in points]
    results: dict[str, Any] = {"params": candidates}
    for name in candidates[0]:
        results[f"param_{name}"] = np.array([candidate[name] for candidate in candidates])
    for number, title in enumerate(titles):
        table = alone.tables[number]
        best = alone.points.index(best_of(alone, alone.points, number))
        columns = table.columns(title, best)
        if folds is not None and new:
            judged, against = folds.tables[number], folds.points.index(alone.points[best])
            places = [folds.points.index(point) for point in new]
            leads = [judged.lead(place, against) for place in places]
            scores = [table.means[best] + gain for gain, _ in leads]
            more = {
                f"split0_test_{title}": scores,
                f"mean_test_{title}": scores,
                f"std_test_{title}": judged.scores[places].std(axis=1),
                f"error_test_{title}": [error for _, error in leads],
            }
            columns = {name: np.append(values, more[name]) for name, values in columns.items()}
        results |= columns | {f"rank_test_{title}": ranked(columns[f"mean_test_{title}"])}
    results["mean_model_rank"], results["mean_model_nbytes"] = ranks, alone.comparison.nbytes(ranks)
    return points, results
