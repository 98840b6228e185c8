"""Tables of all candidates, in the form of scikit-learn's searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from lrml.estimators.search._race import Board


def cv_results(candidates: list[dict[str, Any]], boards: Mapping[str, Board]) -> dict[str, Any]:
    """Table of all candidates, greater scores being better.

    One metric is called "score"; several have their own names: mean_test_average_auc, …

    A candidate that was abandoned has NaN on the splits that it did not see, its mean is over those that it
    saw, and it ranks behind all that saw every split.
    """
    results: dict[str, Any] = {"params": candidates}
    for name in candidates[0]:
        results[f"param_{name}"] = np.array([candidate[name] for candidate in candidates])
    for name, board in boards.items():
        results |= _scores(name, board)
    first = next(iter(boards.values()))
    count = np.isfinite(first.scores).sum(axis=1)
    results["n_splits_seen"] = count
    results["mean_model_rank"] = np.nan_to_num(first.ranks).sum(axis=1) / np.maximum(count, 1)
    return results


def _scores(name: str, board: Board) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for split in range(board.scores.shape[1]):
        results[f"split{split}_test_{name}"] = board.scores[:, split]
    seen = np.isfinite(board.scores)
    count = seen.sum(axis=1)
    filled = np.where(seen, board.scores, 0.0)
    means = filled.sum(axis=1) / np.maximum(count, 1)
    results[f"mean_test_{name}"] = np.where(count > 0, means, np.nan)
    spread = np.where(seen, (board.scores - means[:, None]) ** 2, 0.0).sum(axis=1) / np.maximum(count, 1)
    results[f"std_test_{name}"] = np.sqrt(spread)
    order = np.lexsort([-means, -count])
    places = np.empty(len(order), dtype=np.int32)
    places[order] = np.arange(1, len(order) + 1)
    for rank, index in enumerate(order):  # equals share the better place
        before = order[rank - 1]
        if rank and count[before] == count[index] and means[before] == means[index]:
            places[index] = places[before]
    results[f"rank_test_{name}"] = places
    return results
