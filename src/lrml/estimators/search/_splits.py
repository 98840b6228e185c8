"""The rows on which a search fits candidates, and those on which it compares them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import KFold, ShuffleSplit

from lrml import _checks as check
from lrml._shown import shown
from lrml.estimators._fitting import TrainingData, take
from lrml.model_selection import MultilabelStratifiedKFold, iterative_train_test_split
from lrml.statistics import Statistics

_Rows = npt.NDArray[np.int64]
# If all rows exceed a training part by more than this factor, a subtraction would lose too many digits.
_MOST_CANCELLED = 1e4


class Split(NamedTuple):
    """Row numbers of one training and one held-out part."""

    train: _Rows
    test: _Rows


def check_cv(cv: Any) -> Any:
    """Refuse a ``cv`` that gives no splits for any data."""
    if check.is_integer(cv):
        if cv < 2:
            raise ValueError(
                f"an int cv must be at least 2 and at most the number of rows, got {cv}. "
                "Pass a number of folds in that range, or a held-out share such as 0.25."
            )
    elif check.is_real(cv):
        if not 0 < cv < 1:
            raise ValueError(
                f"a float cv must be a held-out share in (0, 1), got {cv}. Pass cv=0.25, or cv=5."
            )
    elif isinstance(cv, str | bytes) or not (hasattr(cv, "split") or _is_iterable(cv)):
        raise TypeError(
            "cv must be a number of folds, a held-out share in (0, 1), a splitter or an iterable of "
            f"(train, test) row numbers, got {shown(cv)}. Pass cv=5."
        )
    return cv


def _is_iterable(cv: Any) -> bool:
    """Whether a value can be iterated over; an array without dimensions claims so, but cannot."""
    return isinstance(cv, Iterable) and not (isinstance(cv, np.ndarray) and cv.ndim == 0)


def make_splits(cv: Any, data: TrainingData, random_state: Any) -> list[Split]:
    """Make the splits of a checked ``cv``: folds, a held-out share, a splitter's, or those given."""
    n_rows = data.X.shape[0]
    if n_rows < 2:
        raise ValueError(f"a search must have rows to hold out, got n_samples = {n_rows}. Pass more rows.")
    if check.is_integer(cv):
        if cv > n_rows:
            raise ValueError(
                f"an int cv must be in [2, {n_rows}] (the number of rows), got {cv}. "
                "Pass a number of folds in that range, or a held-out share such as 0.25."
            )
        cv = (
            MultilabelStratifiedKFold(int(cv), random_state=random_state)
            if data.targets == "binary"
            else KFold(int(cv), shuffle=True, random_state=random_state)
        )
    elif check.is_real(cv) and data.targets == "real":
        cv = ShuffleSplit(1, test_size=float(cv), random_state=random_state)
    elif check.is_real(cv):
        parts = iterative_train_test_split(
            np.arange(n_rows), data.Y, test_size=float(cv), random_state=random_state
        )
        cv = [parts[:2]]
    pairs = cv.split(np.zeros(n_rows), data.Y) if hasattr(cv, "split") else cv
    splits = [_check_split(pair, number, n_rows) for number, pair in enumerate(pairs)]
    if not splits:
        raise ValueError("cv must give at least one split, got none. Pass cv=5.")
    for number, split in enumerate(splits):
        if data.weights is not None and not np.any(data.weights[split.train] > 0):
            raise ValueError(
                "sample_weight must be positive for some row that a split fits on, got none in split "
                f"{number}. Drop the rows that should not count, or pass other splits."
            )
    return splits


def _check_split(pair: Any, number: int, n_rows: int) -> Split:
    """Return a pair of row numbers that can be fitted on and held out."""
    try:
        train, test = (np.asarray(rows) for rows in pair)
    except (TypeError, ValueError):
        raise ValueError(
            f"every split must be a pair (train, test) of row numbers, got {shown(pair)} as split {number}. "
            "Check cv."
        ) from None
    for rows in (train, test):
        if rows.ndim != 1 or len(rows) == 0 or not np.issubdtype(rows.dtype, np.integer):
            raise ValueError(
                "every split must have row numbers to fit on and to hold out, got "
                f"shape {rows.shape} and dtype {rows.dtype} in split {number}. "
                "Check cv; np.flatnonzero makes row numbers of a mask."
            )
        if rows.min() < 0 or rows.max() >= n_rows:
            raise ValueError(
                f"row numbers must be in [0, {n_rows - 1}], got {rows.min()} to {rows.max()} in split "
                f"{number}. Check that cv was made for this data."
            )
    return Split(train.astype(np.int64), test.astype(np.int64))


def split_statistics(data: TrainingData, splits: list[Split]) -> tuple[Statistics, list[Statistics]]:
    """Statistics of all rows, and of every training part, reading each row once if possible.

    If the held-out parts do not overlap and each training part is the rest, as in cross-validation, the
    statistics of the held-out parts add up to the total, and are subtracted from it.
    """
    X, Y, weights = data.X, data.Y, data.weights

    def summarise(rows: _Rows) -> Statistics:
        chosen = None if weights is None else weights[rows]
        return Statistics.from_arrays(take(X, rows), take(Y, rows), chosen)

    n_rows = X.shape[0]
    held_out = np.concatenate([split.test for split in splits])
    if len(np.unique(held_out)) < len(held_out) or not all(_is_complement(split, n_rows) for split in splits):
        return Statistics.from_arrays(X, Y, weights), [summarise(split.train) for split in splits]
    parts = [summarise(split.test) for split in splits]
    others = np.setdiff1d(np.arange(n_rows), held_out)
    total = sum(parts[1:], parts[0])
    if len(others):
        total = total + summarise(others)
    training = []
    for split, part in zip(splits, parts, strict=True):
        counted = np.zeros(n_rows)
        counted[split.train] = 1.0 if weights is None else weights[split.train] > 0
        seen = (np.asarray(Y.T @ counted) > 0) | (data.targets == "real")
        rest = _difference(total, part, seen)
        training.append(summarise(split.train) if rest is None else rest)
    return total, training


def _difference(total: Statistics, part: Statistics, seen: npt.NDArray[np.bool_]) -> Statistics | None:
    """Subtract a part; return None if the rest would be lost in rounding."""
    if total.weight > _MOST_CANCELLED * (total.weight - part.weight):
        return None
    rest = total - part
    if np.trace(total.xx) > _MOST_CANCELLED * np.trace(rest.xx):
        return None
    # For a label without positive examples a subtraction leaves rounding noise; it must count as unseen.
    return replace(rest, y_mean=np.where(seen, rest.y_mean, 0.0), xy=np.where(seen, rest.xy, 0.0))


def _is_complement(split: Split, n_rows: int) -> bool:
    """Whether the training part has every row that is not held out, exactly once."""
    counts = np.bincount(split.train, minlength=n_rows) + np.bincount(split.test, minlength=n_rows)
    return bool((counts == 1).all())
