"""The rows on which a search fits candidates, and those on which it compares them; or sums of folds.

Over blocks, sums of folds and a sample of the rows are taken in one pass. The rows of block i get two random
numbers each, drawn by the generator that is started at (seed, i). The k rows with the smallest first ones are
the sample. The second one lies in [0, 1), and so in a fold. Both depend on the seed and the place of a row in
the blocks alone: not on the order in which these are summed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.utils import check_random_state

from lrml._shown import shown
from lrml.blocks import RowBlock
from lrml.core import checks as check
from lrml.core.arrays import dense, is_sparse, namespace, take, to_host
from lrml.core.coordinates import road_of
from lrml.core.moments import Statistics
from lrml.core.rows import Rows, Schema
from lrml.model_selection import MultilabelStratifiedKFold, iterative_train_test_split

_Rows = npt.NDArray[np.int64]
# If all rows exceed a training part by more than this factor, by weight or in the squares of a feature, a
# subtraction would lose too many digits.
_MOST_CANCELLED = 1e4

# Leave-one-out scores are compared on so many rows and scores at most: more would hardly change the choice.
_LEAST_JUDGED, _MOST_SCORES = 1500, 1 << 19
# On folds, so many in all.
_MOST_ROWS, _MOST_FOLD_SCORES = 3000, 1 << 21
_Float64 = npt.NDArray[np.float64]
_Arrays = dict[str, npt.NDArray[Any]]
_CSR = "data", "indices", "indptr", "shape"

# The sample has so many numbers at most if X and Y are dense, but at least so many rows.
_MOST_NUMBERS, _LEAST_ROWS = 1 << 23, 7500


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
            f"cv is {shown(cv)}. Pass two or more folds, such as 5, or a share such as 0.25; in "
            "Python also a splitter, or pairs (train, test) of row numbers."
        )
    return cv


def make_splits(cv: Any, data: Rows, random_state: Any) -> list[Split]:
    """Make the splits of a checked ``cv``: folds, a held-out share, a splitter's, or those given.

    Each must have rows to judge, and weight to fit to.
    """
    n_rows = data.X.shape[0]
    labels = to_host(data.Y)  # folds are made on the host
    binary, drawn = data.schema.targets == "binary", {"random_state": random_state}
    if isinstance(data, SampledRows):
        splits = _sampled_folds(data)[: int(cv) if check.is_integer(cv) else 1]
    elif check.is_integer(cv) and cv > n_rows:
        raise ValueError(f"cv is {cv} folds of {n_rows} rows. Pass fewer, or a share such as 0.25.")
    elif not binary and isinstance(cv, MultilabelStratifiedKFold):
        raise ValueError(
            "cv=MultilabelStratifiedKFold(…) deals out rows by 0/1 labels, but the targets are real. Pass "
            f"cv={cv.n_splits}, or KFold of scikit-learn."
        )
    else:
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
    counted = data.counted
    for number, split in enumerate(splits):
        if not len(split.test) or not np.isin(split.train, counted).any():
            raise ValueError(
                f"Split {number} of cv has no row to hold out, or none with a sample_weight above 0 to fit "
                "to. Pass other splits, or drop rows without weight."
            )
    return splits


def _checked(pair: Any, number: int, n_rows: int) -> Split:
    """Return the row numbers of a pair, also of two masks."""
    with suppress(TypeError, ValueError, IndexError):
        train, test = (np.arange(n_rows)[rows] for rows in pair)
        if train.ndim == test.ndim == 1:
            return Split(train, test)
    raise ValueError(
        f"Split {number} of cv is {shown(pair)}. It must be a pair (train, test) of row numbers from 0 to "
        f"{n_rows - 1}, or of masks."
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
    counted, everyone = data.counted, np.arange(data.X.shape[0])
    if isinstance(data, SampledRows):
        splits = _sampled_folds(data)
        return splits if all(np.isin(split.test, counted).any() for split in splits) else []
    if len(counted) < n_folds:
        return []
    drawn = KFold(n_folds, shuffle=True, random_state=random_state).split(counted)
    return [Split(np.delete(everyone, counted[test]), counted[test]) for _, test in drawn]


def training_part(data: Rows, split: Split) -> Rows:
    """Return the rows to fit on, or their moments by subtracting those of the held-out rows, if possible."""
    if split.is_leave_one_out:
        return data
    if isinstance(data, SampledRows) and split.fold is not None:
        return replace(data, sums=data.without(split.fold))
    (n_rows, d, _), left_out = data.shape, split.test if split.left_out is None else split.left_out
    counts = np.bincount(split.train, minlength=n_rows) + np.bincount(left_out, minlength=n_rows)
    found = None
    if (counts == 1).all() and road_of(data) == "primal" and len(split.train) >= d:
        found = _without(data, left_out)
    return data.some(split.train) if found is None else found


def _without(data: Rows, left_out: _Rows) -> Rows | None:
    """Return the moments of the other rows; None if these weigh nothing, or would be lost in rounding."""
    held_out, total = data.some(left_out), data.statistics
    part = held_out.statistics
    if part.weight == 0 or total.weight > _MOST_CANCELLED * (total.weight - part.weight):
        return None
    rest = total - part
    xp = namespace(rest.xx)
    squares, left = xp.linalg.diagonal(total.xx), xp.linalg.diagonal(rest.xx)
    if bool(xp.any(squares > _MOST_CANCELLED * left)):  # of any feature, whatever the units of the others
        return None
    # For a label without positive examples a subtraction leaves rounding noise; it must count as unseen.
    seen = (data.positive_counts > held_out.positive_counts) | (data.schema.targets == "real")
    rest = replace(rest, y_mean=xp.where(seen, rest.y_mean, 0.0), xy=xp.where(seen, rest.xy, 0.0))
    return Rows.of_sums(rest, data.schema)


# Sums of folds over blocks


@dataclass(frozen=True)
class Folds:
    """How rows are drawn: a seed, where folds but the first begin in [0, 1), and the size of the sample."""

    seed: int
    bounds: tuple[float, ...]
    most_rows: int

    @classmethod
    def of(cls, cv: float, seed: int, columns: Schema) -> Folds:
        """Draw ``cv`` folds of one size, or a held-out share, and max(7,500, 2²³ / (d + L)) sampled rows."""
        bounds = tuple(place / cv for place in range(1, int(cv))) if cv >= 2 else (float(cv),)
        most = max(_LEAST_ROWS, _MOST_NUMBERS // (columns.n_features + columns.n_labels))
        return cls(seed, bounds, most)


class RowSample(NamedTuple):
    """Some rows: the numbers by which they were drawn, their folds and weights, X and Y."""

    order: _Float64
    fold: npt.NDArray[np.intp]
    weights: _Float64
    X: Any
    Y: Any

    @staticmethod
    def joined(samples: Sequence[RowSample], most: int) -> RowSample:
        """Return the rows of all samples with the smallest numbers, in the order they came."""
        whole = RowSample(*(_stacked(parts) for parts in zip(*samples, strict=True)))
        if len(whole.order) <= most:
            return whole
        chosen = np.sort(np.argpartition(whole.order, most - 1)[:most])
        return RowSample(*(take(part, chosen) for part in whole))


def _stacked(parts: Sequence[Any]) -> Any:
    return sp.csr_array(sp.vstack(parts, format="csr")) if is_sparse(parts[0]) else np.concatenate(parts)


@dataclass(eq=False)
class FoldSums:
    """Second moments of every fold and a sample of the rows, a sum over blocks."""

    folds: Folds
    parts: list[Statistics]
    positives: _Float64  # rows with weight that have each label
    samples: list[RowSample]  # joined once they have half as many rows again as wanted

    def absorb(self, other: FoldSums) -> FoldSums:
        """Return the sum, in the arrays of ``self``; the other stays as it is."""
        self.check_same(other.folds)
        self.parts = [mine.absorb(theirs) for mine, theirs in zip(self.parts, other.parts, strict=True)]
        self.positives += other.positives
        self.samples += other.samples
        if sum(len(sample.order) for sample in self.samples) > 1.5 * self.folds.most_rows:
            self.samples = [self.sample]
        return self

    def check_same(self, folds: Folds) -> None:
        """Refuse other folds; those of a checkpoint may be."""
        if self.folds != folds:
            raise ValueError(
                f"the checkpoint has other folds or another sample, {self.folds} instead of {folds}. Pass "
                "the same cv and an int as random_state, or delete it to start anew."
            )

    @property
    def sample(self) -> RowSample:
        """The rows of the sample, in the order of the stream."""
        return RowSample.joined(self.samples, self.folds.most_rows)

    @property
    def total(self) -> Statistics:
        """Moments of all rows."""
        return reduce(Statistics.__add__, self.parts)

    def to_arrays(self) -> _Arrays:
        """Return all numbers as arrays, by name."""
        arrays = {name: np.asarray(value) for name, value in vars(self.folds).items()}
        arrays["positives"] = self.positives
        for place, part in enumerate(self.parts):
            arrays |= {f"fold{place}_{name}": array for name, array in part.to_arrays().items()}
        for name, matrix in self.sample._asdict().items():
            if is_sparse(matrix):
                arrays |= {f"sample_{name}_{part}": np.asarray(getattr(matrix, part)) for part in _CSR}
            else:
                arrays[f"sample_{name}"] = matrix
        return arrays

    @classmethod
    def from_stored(cls, arrays: Mapping[str, npt.NDArray[Any]], path: str | os.PathLike[str]) -> FoldSums:
        """Undo `to_arrays`."""
        if "bounds" not in arrays:
            raise ValueError(
                f"{os.fspath(path)!r} is a checkpoint of a fit, not of a search. Name another file."
            )
        folds = Folds(int(arrays["seed"]), tuple(arrays["bounds"].tolist()), int(arrays["most_rows"]))
        numbers = range(len(folds.bounds) + 1)
        parts = [Statistics.from_stored(_under(arrays, f"fold{number}_"), path) for number in numbers]
        sample = RowSample(*(_matrix(arrays, f"sample_{name}") for name in RowSample._fields))
        return cls(folds, parts, arrays["positives"], [sample])


def _under(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> _Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _matrix(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> Any:
    """Return an array of this name, perhaps a sparse one that was stored in parts."""
    if name in arrays:
        return arrays[name]
    *stored, shape = (arrays[f"{name}_{part}"] for part in _CSR)
    return cast(Any, sp.csr_array(tuple(stored), shape=tuple(shape.tolist())))


def fold_sums(block: RowBlock, folds: Folds, columns: Schema) -> FoldSums:
    """Return the sums of one block, and those of its rows that may be in the sample."""
    block.check_known()
    random = np.random.default_rng([folds.seed, block.index, block.piece])
    order, fold = random.random(len(block)), np.searchsorted(folds.bounds, random.random(len(block)), "right")
    weights = np.ones(len(block)) if block.weights is None else block.weights
    numbers = range(len(folds.bounds) + 1)
    parts = [_moments(block, np.flatnonzero(fold == number)) for number in numbers]
    # All blocks in the form of the first one: dense or sparse, and in its precision.
    X = _in_form(block.X, sparse=columns.sparse_features).astype(columns.dtype, copy=False)
    whole = RowSample(order, fold, weights, X, _in_form(block.Y, sparse=columns.sparse_labels))
    positives = np.asarray(block.Y.T @ (weights > 0).astype(np.float64), dtype=np.float64).ravel()
    return FoldSums(folds, parts, positives, [RowSample.joined([whole], folds.most_rows)])


def _moments(block: RowBlock, places: npt.NDArray[np.intp]) -> Statistics:
    """Return the moments of some rows of a block, perhaps of none."""
    if not len(places):  # a row without weight adds nothing
        return replace(Statistics.from_arrays(block.X[:1], block.Y[:1], np.zeros(1)), n_rows=0)
    rows = slice(None) if len(places) == len(block) else places
    return Statistics.from_arrays(
        block.X[rows], block.Y[rows], None if block.weights is None else block.weights[rows]
    )


def _in_form(matrix: Any, *, sparse: bool) -> Any:
    return sp.csr_array(matrix) if sparse else dense(matrix)


@dataclass(frozen=True, eq=False)
class SampledRows(Rows):
    """A sample of the rows, and the sums of all of them, by folds."""

    parts: tuple[Statistics, ...] = ()  # of the folds
    fold: Any = ()  # of every row of the sample
    positive_counts: Any = ()  # how many of all rows, among those with weight, have each label

    @classmethod
    def of_folds(cls, sums: FoldSums, schema: Schema) -> SampledRows:
        """Return rows for a fit to the sums."""
        sample, total = sums.sample, sums.total
        return cls(
            sample.X,
            sample.Y,
            weights=None if np.all(sample.weights == 1.0) else sample.weights,
            schema=schema,
            sums=total,
            only_sums=True,
            parts=tuple(sums.parts),
            fold=sample.fold,
            positive_counts=sums.positives,
        )

    def without(self, fold: int) -> Statistics:
        """Moments of all rows but those of one fold, without a subtraction, which would lose digits."""
        return reduce(Statistics.__add__, self.parts[:fold] + self.parts[fold + 1 :])
