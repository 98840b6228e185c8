"""Which rows a search fits on, and which it compares candidates on."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import BaseCrossValidator

from lrml._arrays import is_sparse
from lrml.model_selection import MultilabelStratifiedKFold, iterative_train_test_split
from lrml.statistics import Statistics

_Rows = npt.NDArray[np.int64]


class Split(NamedTuple):
    """Row numbers of one training and one held-out part."""

    train: _Rows
    test: _Rows


def make_splits(cv: Any, X: Any, Y: Any, random_state: Any) -> list[Split]:
    """Resolve ``cv``: a number of folds, a held-out share, a splitter, or the splits themselves."""
    n_rows = X.shape[0]
    if isinstance(cv, numbers.Real) and not isinstance(cv, numbers.Integral):
        train, test = iterative_train_test_split(
            np.arange(n_rows), Y, test_size=float(cv), random_state=random_state
        )[:2]
        return [Split(train, test)]
    if isinstance(cv, numbers.Integral) and cv is not True and cv is not False:
        cv = MultilabelStratifiedKFold(int(cv), random_state=random_state)
    if isinstance(cv, BaseCrossValidator) or hasattr(cv, "split"):
        pairs: Iterable[Any] = cv.split(np.zeros(n_rows), Y)
    elif isinstance(cv, Iterable) and not isinstance(cv, str):
        pairs = cv
    else:
        raise TypeError(
            "cv must be a number of folds, a held-out share in (0, 1), a splitter or an iterable of "
            f"(train, test) row numbers, got {cv!r}. Pass cv=5."
        )
    splits = [Split(*(np.asarray(rows).astype(np.int64) for rows in pair)) for pair in pairs]
    for number, split in enumerate(splits):
        if len(split.train) == 0 or len(split.test) == 0 or max(map(np.max, split)) >= n_rows:
            raise ValueError(
                f"every split must have rows to fit on and to hold out, among {n_rows}, got "
                f"{len(split.train)} and {len(split.test)} in split {number}. Check cv."
            )
    if not splits:
        raise ValueError("cv must give at least one split, got none. Pass cv=5.")
    return splits


def take(matrix: Any, rows: _Rows) -> Any:
    """Rows of an array or sparse matrix."""
    return matrix.tocsr()[rows] if is_sparse(matrix) else matrix[rows]


def split_statistics(
    X: Any, Y: Any, weights: npt.NDArray[np.float64] | None, splits: list[Split]
) -> tuple[Statistics, list[Statistics]]:
    """Statistics of all rows, and of every training part, reading each row once where that is possible.

    If the held-out parts do not overlap and each training part is the rest, as in cross-validation, the
    statistics of the held-out parts add up to the total, and are subtracted from it.
    """

    def summarise(rows: _Rows) -> Statistics:
        chosen = None if weights is None else weights[rows]
        return Statistics.from_arrays(take(X, rows), take(Y, rows), chosen)

    n_rows = X.shape[0]
    held_out = np.concatenate([split.test for split in splits])
    complements = all(
        len(split.train) + len(split.test) == n_rows and not np.isin(split.train, split.test).any()
        for split in splits
    )
    if complements and len(np.unique(held_out)) == len(held_out):
        parts = [summarise(split.test) for split in splits]
        rest = np.setdiff1d(np.arange(n_rows), held_out)
        total = sum(parts[1:], parts[0])
        if len(rest):
            total = total + summarise(rest)
        return total, [total - part for part in parts]
    return Statistics.from_arrays(X, Y, weights), [summarise(split.train) for split in splits]
