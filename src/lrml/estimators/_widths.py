"""The width of a kernel: chosen before anything else, by ridge regression on some of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics.pairwise import chi2_kernel, euclidean_distances, manhattan_distances
from sklearn.utils import check_random_state

from lrml.core.arrays import Array, is_host, is_sparse, namespace, take, to_numpy
from lrml.core.rows import Rows
from lrml.estimators._grid import GridPoint, ridges_leaving
from lrml.estimators._judges import Comparison, FoldJudge, LeaveOneOutJudge
from lrml.estimators._kernels import canonical, compared
from lrml.estimators._plans import FIRST_SHARES, follow, run
from lrml.estimators._splits import Split
from lrml.estimators._table import ScoreTable

WITH_GAMMA = ("rbf", "laplacian", "chi2", "poly", "polynomial", "sigmoid")
# Rows on which widths are compared, and rows whose distances tell the scale.
_MOST_ROWS, _SCALE_ROWS = 2000, 300
# Widths tried first, as multiples of one over the usual distance.
_MULTIPLES = (0.5, 1.0, 2.0)
# A best one on the edge of what was tried is followed beyond it by this factor, at most so many times.
_BEYOND, _MOST_ROUNDS = 4.0, 6


def choose_gamma(
    comparison: Comparison, gammas: list[float] | None, splits: Sequence[Split] | None, random_state: Any
) -> tuple[float, dict[str, npt.NDArray[Any]]]:
    """Return the best gamma, and a table of those tried.

    Each is judged by the first criterion, on leave-one-out scores of the best ridge regression on at most
    2,000 rows, or on the given splits of these. If no gammas are given, they begin around one over the median
    distance of two rows, and go on beyond the edge of what was tried while that is better. Among those within
    one standard error of the best (of the paired difference over the rows), the smallest, which makes the
    smoothest kernel, is chosen.
    """
    random = check_random_state(random_state)
    part, held = _compared_on(comparison.data, splits, random)
    criterion, tried = comparison.criteria[0], dict[float, float]()
    weights = None if part.weights is None else to_numpy(part.weights)
    weighed = [None if weights is None else weights[split.test] for split in held]
    winners = ScoreTable(weighed, by_row=criterion.by_row)  # the width takes the place of a ridge

    def judge(gamma: float) -> float:
        wide = replace(part, kernel=replace(part.kernel, gamma=gamma))
        shared = Comparison(wide, [criterion], comparison.cut, comparison.fit_intercept)
        judge: Any = LeaveOneOutJudge(shared, held[0]) if splits is None else FoldJudge(shared, held)
        ridges = ridges_leaving(judge.problem, FIRST_SHARES)
        run(follow(ridges, lambda ridge: GridPoint(0, 0.0, ridge)), judge)
        table = judge.tables[0]
        best = max(judge.points, key=table.mean)
        winners.add(GridPoint(0, 0.0, gamma), table.values[best])
        tried[gamma] = table.mean(best)
        return tried[gamma]

    if gammas is None:
        with np.errstate(over="ignore", invalid="ignore"):  # the kernel will be refused, with a remedy
            usual = _usual_gamma(part, random)
        best = max([multiple * usual for multiple in _MULTIPLES], key=judge)
        for _ in range(_MOST_ROUNDS):
            if best not in (min(tried), max(tried)):
                break
            last, best = best, best * _BEYOND if best == max(tried) else best / _BEYOND
            if judge(best) <= tried[last]:
                best = last
                break
    else:
        best = max(gammas, key=judge)
    if winners.by_row:  # as good as the best, but smoother
        near = winners.near(GridPoint(0, 0.0, best), list(winners.scores))
        best = min(width for _, _, width, _ in near)
    return best, {"gamma": np.array(list(tried)), "mean_test_score": np.array(list(tried.values()))}


def _compared_on(
    data: Rows, splits: Sequence[Split] | None, random: np.random.RandomState
) -> tuple[Rows, list[Split]]:
    """Return some rows with weight, and the splits of these: all if one of them would lose a part."""
    n_rows = data.X.shape[0]
    rows = np.arange(n_rows) if data.weights is None else np.flatnonzero(to_numpy(data.weights))
    if len(rows) > _MOST_ROWS:
        rows = rows[np.sort(random.permutation(len(rows))[:_MOST_ROWS])]
    if splits is None:
        everyone = np.arange(len(rows))
        return data.some(rows), [Split(everyone, everyone)]
    places = np.full(n_rows, -1)
    places[rows] = np.arange(len(rows))
    pairs = [(places[split.train], places[split.test]) for split in splits]
    held = [Split(train[train >= 0], test[test >= 0]) for train, test in pairs]
    if all(len(split.train) and len(split.test) for split in held):
        return data.some(rows), held
    return data, list(splits)


def _usual_gamma(data: Rows, random: np.random.RandomState) -> float:
    """Return one over the median of what gamma multiplies in the kernel, for pairs of different rows."""
    assert data.kernel is not None
    rows = random.permutation(data.X.shape[0])[:_SCALE_ROWS]
    X, metric = take(data.X, rows), data.kernel.metric
    if not is_host(X):
        return _usual_gamma_on_device(str(metric), X)
    X = canonical(X.astype(np.float64))
    if metric == "rbf":
        values = euclidean_distances(X if is_sparse(X) else X - X.mean(axis=0), squared=True)
    elif metric == "laplacian":
        values = manhattan_distances(X)
    elif metric == "chi2":
        values = -np.log(np.maximum(chi2_kernel(X, gamma=1.0), np.finfo(np.float64).tiny))
    else:
        squares = X.multiply(X).sum(axis=1) if is_sparse(X) else np.einsum("ij,ij->i", X, X)
        values = np.asarray(squares, dtype=np.float64)
    positive = np.asarray(values)[np.asarray(values) > 0]
    return float(1.0 / np.median(positive)) if positive.size else 1.0


def _usual_gamma_on_device(metric: str, X: Array) -> float:
    xp = namespace(X)
    X = xp.astype(X, xp.float64, copy=False)
    values = compared(metric, X, X)
    if metric not in ("rbf", "laplacian", "chi2"):
        values = xp.linalg.diagonal(values)
    order = xp.sort(values[values > 0])
    n = order.shape[0]
    return 2.0 / float(order[(n - 1) // 2] + order[n // 2]) if n else 1.0
