"""The width of a kernel: chosen before anything else, by ridge regression on some of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics.pairwise import chi2_kernel, manhattan_distances
from sklearn.utils import check_random_state

from lrml.core.arrays import is_sparse, namespace, take
from lrml.core.rows import Rows
from lrml.estimators._judges import Comparison, PathJudge
from lrml.estimators._kernels import compared
from lrml.estimators._plans import BEYOND, FIRST_SHARES, MOST_ROUNDS, follow, ridges_leaving, run
from lrml.estimators._splits import Split
from lrml.estimators._table import GridPoint

WITH_GAMMA = ("rbf", "laplacian", "chi2", "poly", "polynomial", "sigmoid")
# Rows on which widths are compared, and rows whose distances tell the scale.
_MOST_ROWS, _SCALE_ROWS = 2000, 300
# Widths tried first, as multiples of one over the usual distance.
_FIRST = (0.5, 1.0, 2.0)


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
    criterion = comparison.criteria[0]
    table = comparison._replace(data=part).table(criterion, held)

    def judge(gamma: float) -> float:
        wide = replace(part, kernel=replace(part.kernel, gamma=gamma))
        alone = PathJudge(comparison._replace(data=wide, criteria=[criterion]), held)
        ridges = ridges_leaving(alone.problem, FIRST_SHARES)
        best = run(follow(ridges, lambda ridge: GridPoint(0, 0.0, ridge)), alone)
        table.add(gamma, alone.tables[0].values[best])
        return table.mean(gamma)

    usual = _usual_gamma(part, random) if gammas is None else 1.0
    best = max([multiple * usual for multiple in _FIRST] if gammas is None else gammas, key=judge)
    for _ in range(MOST_ROUNDS if gammas is None else 0):
        if best not in (min(table.scores), max(table.scores)):
            break
        last, best = best, best * BEYOND if best == max(table.scores) else best / BEYOND
        if judge(best) <= table.mean(last):
            best = last
            break
    tried = list(table.scores)
    if table.by_row:  # as good as the best, but smoother
        best = min(table.near(best, tried))
    return best, {"gamma": np.array(tried), "mean_test_score": np.array([table.mean(one) for one in tried])}


def _compared_on(
    data: Rows, splits: Sequence[Split] | None, random: np.random.RandomState
) -> tuple[Rows, list[Split]]:
    """Return some rows with weight, and the splits of these: all if one of them would lose a part."""
    n_rows = data.X.shape[0]
    rows = data.counted
    if len(rows) > _MOST_ROWS:
        rows = rows[np.sort(random.permutation(len(rows))[:_MOST_ROWS])]
    if splits is None:
        everyone = np.arange(len(rows))
        return data.some(rows), [Split(everyone, everyone, is_leave_one_out=True)]
    places = np.full(n_rows, -1)
    places[rows] = np.arange(len(rows))
    pairs = [(places[split.train], places[split.test]) for split in splits]
    held = [Split(train[train >= 0], test[test >= 0]) for train, test in pairs]
    if all(len(split.train) and len(split.test) for split in held):
        return data.some(rows), held
    return data, list(splits)


def _usual_gamma(data: Rows, random: np.random.RandomState) -> float:
    """Return one over the median of what gamma multiplies in the kernel, for pairs of different rows."""
    metric = data.kernel.metric
    X = take(data.X, random.permutation(data.X.shape[0])[:_SCALE_ROWS])
    if is_sparse(X):  # few rows have few features
        X = X.tocsc()[:, np.unique(X.indices)].toarray()
    xp = namespace(X)
    X = xp.astype(X, xp.float64, copy=False)
    with np.errstate(over="ignore", invalid="ignore"):  # the kernel will be refused, with a remedy
        if metric == "laplacian":
            values = manhattan_distances(X)
        elif metric == "chi2":
            values = -np.log(np.maximum(chi2_kernel(X, gamma=1.0), np.finfo(np.float64).tiny))
        else:
            values = compared(metric, X, X)
            values = values if metric == "rbf" else xp.linalg.diagonal(values)
    order = xp.sort(values[values > 0])
    n = order.shape[0]
    return 2.0 / float(order[(n - 1) // 2] + order[n // 2]) if n else 1.0
