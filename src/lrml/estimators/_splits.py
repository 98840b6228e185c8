"""The rows on which a search fits candidates, and those on which it compares them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.utils import check_random_state

from lrml._shown import shown
from lrml.core import checks as check
from lrml.core.arrays import Array, namespace, to_host
from lrml.core.coordinates import road_of
from lrml.core.moments import Statistics
from lrml.core.rows import Rows
from lrml.estimators._fold_sums import SampledRows
from lrml.model_selection import MultilabelStratifiedKFold, iterative_train_test_split

_Rows = npt.NDArray[np.int64]
# If all rows exceed a training part by more than this factor, by weight or in the squares of a feature, a
# subtraction would lose too many digits.
_MOST_CANCELLED = 1e4

# Leave-one-out scores are compared on so many rows and scores at most: more would hardly change the choice.
_LEAST_JUDGED, _MOST_SCORES = 1500, 1 << 19
# On folds, so many in all.
_MOST_ROWS, _MOST_FOLD_SCORES = 3000, 1 << 21


class Split(NamedTuple):
    """Row numbers of one training and one held-out part."""

    train: _Rows
    test: _Rows  # those that are judged
    left_out: _Rows | None = None  # all that are held out, if only some are judged
    fold: int | None = None  # the one held out, where the rows are a sample of those summed up in folds
    is_leave_one_out: bool = False  # whether each judged row is held out alone


def check_cv(cv: Any) -> Any:
    """Refuse a ``cv`` that gives no splits for any data."""
    number = check.is_real(cv) and (cv >= 2 if check.is_integer(cv) else 0 < cv < 1)
    several = hasattr(cv, "split") or (isinstance(cv, Iterable) and getattr(cv, "ndim", 1) > 0)
    if not (number or (several and not isinstance(cv, str | bytes))):
        raise (ValueError if check.is_real(cv) else TypeError)(
            f"cv is {shown(cv)}. Pass a number of folds such as 5, a share such as 0.25, a splitter, or "
            "pairs (train, test) of row numbers."
        )
    return cv


def make_splits(cv: Any, data: Rows, random_state: Any) -> list[Split]:
    """Make the splits of a checked ``cv``: folds, a held-out share, a splitter's, or those given."""
    n_rows = data.X.shape[0]
    if isinstance(data, SampledRows):
        splits = _sampled_folds(data)[: int(cv) if check.is_integer(cv) else 1]
        return _with_weight(splits, data)
    labels = to_host(data.Y)  # folds are made on the host
    binary, drawn = data.schema.targets == "binary", {"random_state": random_state}
    if check.is_integer(cv) and cv > n_rows:
        raise ValueError(f"cv is {cv} folds of {n_rows} rows. Pass fewer, or a share such as 0.25.")
    if check.is_integer(cv):
        kind = MultilabelStratifiedKFold if binary else partial(KFold, shuffle=True)
        cv = kind(int(cv), **drawn)
    elif check.is_real(cv) and not binary:
        cv = ShuffleSplit(1, test_size=float(cv), **drawn)
    elif check.is_real(cv):
        cv = [iterative_train_test_split(np.arange(n_rows), labels, test_size=float(cv), **drawn)[:2]]
    pairs = cv.split(np.zeros(n_rows), labels) if hasattr(cv, "split") else cv
    splits = [_checked(pair, number, n_rows) for number, pair in enumerate(pairs)]
    if not splits:
        raise ValueError("cv gives no split. Pass cv=5.")
    return _with_weight(splits, data)


def _with_weight(splits: list[Split], data: Rows) -> list[Split]:
    """Refuse splits without rows to judge, or without weight to fit to."""
    counted = data.counted
    for number, split in enumerate(splits):
        if not len(split.test) or not np.isin(split.train, counted).any():
            raise ValueError(
                f"Split {number} has no row to hold out, or none with a sample_weight above 0 to fit to. "
                "Pass other splits, or drop rows without weight."
            )
    return splits


def _checked(pair: Any, number: int, n_rows: int) -> Split:
    """Return a pair of row numbers that can be fitted on and held out."""
    with suppress(TypeError, ValueError):
        train, test = (np.asarray(rows) for rows in pair)
        sound = [
            rows.ndim == 1
            and rows.dtype.kind in "iu"
            and rows.size
            and rows.min() >= 0
            and rows.max() < n_rows
            for rows in (train, test)
        ]
        if all(sound):
            return Split(train.astype(np.int64), test.astype(np.int64))
    raise ValueError(
        f"Split {number} of cv is {shown(pair)}. It must be a pair (train, test) of row numbers from 0 to "
        f"{n_rows - 1}; np.flatnonzero makes row numbers of a mask."
    )


def leave_one_out(data: Rows, random_state: Any) -> Split:
    """Return all rows to fit to, and those that are judged: all, or as many as take little time."""
    n_rows, most = data.X.shape[0], max(_LEAST_JUDGED, _MOST_SCORES // data.Y.shape[1])
    judged = np.arange(n_rows)
    if n_rows > most:
        judged = np.sort(check_random_state(random_state).permutation(n_rows)[:most])
    return Split(np.arange(n_rows), judged, is_leave_one_out=True)


def sampled(splits: list[Split], n_labels: int) -> list[Split]:
    """Judge some of the held-out rows only, the same for all candidates: scoring is what takes time."""
    most = max(_MOST_ROWS, _MOST_FOLD_SCORES // n_labels) // len(splits)
    random = np.random.default_rng
    return [
        split._replace(test=np.sort(random(0).permutation(split.test)[:most]), left_out=split.test)
        if len(split.test) > most
        else split
        for split in splits
    ]


def _sampled_folds(data: SampledRows) -> list[Split]:
    return [
        Split(np.flatnonzero(data.fold != fold), np.flatnonzero(data.fold == fold), fold=fold)
        for fold in range(len(data.parts))
    ]


def random_folds(data: Rows, n_folds: int, random_state: Any) -> list[Split]:
    """Return random folds; none if there are too few rows.

    Rows without weight are in every training part: every fold must have something to fit and to judge.
    """
    counted = data.counted
    if isinstance(data, SampledRows):
        splits = _sampled_folds(data)
        return splits if all(np.isin(split.test, counted).any() for split in splits) else []
    if len(counted) < n_folds:
        return []
    folds = KFold(n_folds, shuffle=True, random_state=random_state).split(counted)
    tests = [counted[test] for _, test in folds]
    return [Split(np.setdiff1d(np.arange(data.X.shape[0]), test), test) for test in tests]


def training_part(data: Rows, split: Split) -> Rows:
    """Return the rows to fit on, their moments by subtracting those of the held-out rows, if possible."""
    if split.is_leave_one_out:
        return data
    if isinstance(data, SampledRows) and split.fold is not None:
        return replace(data, sums=data.without(split.fold))
    part, n_rows = data.some(split.train), data.X.shape[0]
    left_out = split.test if split.left_out is None else split.left_out
    counts = np.bincount(split.train, minlength=n_rows) + np.bincount(left_out, minlength=n_rows)
    if road_of(part) != "primal" or not (counts == 1).all():  # the held-out rows are not all others
        return part
    seen = (part.positive_counts > 0) | (data.schema.targets == "real")
    return replace(part, sums=_difference(data.statistics, data.some(left_out).statistics, seen))


def _difference(total: Statistics, part: Statistics, seen: Array) -> Statistics | None:
    """Subtract a part; return None if it weighs nothing, or if the rest would be lost in rounding."""
    if part.weight == 0 or total.weight > _MOST_CANCELLED * (total.weight - part.weight):
        return None
    rest = total - part
    xp = namespace(rest.xx)
    squares, left = xp.linalg.diagonal(total.xx), xp.linalg.diagonal(rest.xx)
    if bool(xp.any(squares > _MOST_CANCELLED * left)):  # of any feature, whatever the units of the others
        return None
    # For a label without positive examples a subtraction leaves rounding noise; it must count as unseen.
    return replace(rest, y_mean=xp.where(seen, rest.y_mean, 0.0), xy=xp.where(seen, rest.xy, 0.0))
