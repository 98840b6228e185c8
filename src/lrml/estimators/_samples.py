"""Sums of folds and a sample of the rows, in one pass over blocks: what a search decides by.

Row i of a stream gets two numbers of 64 bits, the outputs 2i and 2i + 1 of the generator SplitMix64 (Steele,
Lea and Flood, 2014), started at a seed. The k rows with the smallest first ones are the sample. The second
one, divided by 2⁶⁴, is a place in [0, 1), and so in a fold. Both depend on the number of the row only: not on
how the rows are cut into blocks, on the order of these, or on the machine.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml._arrays import is_sparse, take
from lrml.blocks import Columns, RowBlock
from lrml.estimators._blocks import SummedData
from lrml.statistics import Statistics

_Float64 = npt.NDArray[np.float64]
_Arrays = dict[str, npt.NDArray[Any]]

# The sample has so many numbers at most if X and Y are dense, but at least so many rows.
_MOST_NUMBERS, _LEAST_ROWS = 1 << 23, 7500
# A block leaves out rows that would be in the sample by a deviation of so many standard errors only: never.
_FAR_OUT = 8.0


def split_mix(seed: int, places: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return outputs of SplitMix64, counted from 0, all at once."""
    z = np.uint64(seed) + (places + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@dataclass(frozen=True)
class Folds:
    """In which fold every row is, and which rows are in the sample.

    Attributes
    ----------
    seed : int
    bounds : tuple of int
        Where the folds but the first begin, times 2⁶⁴.
    most_rows : int
        Rows of the sample.
    """

    seed: int
    bounds: tuple[int, ...]
    most_rows: int

    @staticmethod
    def equal(count: int, apart: int | None = None) -> tuple[int, ...]:
        """Return the bounds of folds of one size; those from ``apart`` on are taken together."""
        return tuple((place << 64) // count for place in range(1, count if apart is None else apart + 1))

    @staticmethod
    def share(held_out: float) -> tuple[int, ...]:
        """Return the bound of a held-out share, and the rest."""
        return (int(held_out * 2.0**64),)

    @staticmethod
    def rows_kept(columns: Columns) -> int:
        """Return how many rows the sample of such data has: max(7,500, 2²³ / (d + L))."""
        return max(_LEAST_ROWS, _MOST_NUMBERS // (columns.n_features + columns.n_labels))

    @property
    def count(self) -> int:
        """Number of folds."""
        return len(self.bounds) + 1

    def order(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
        """Return the numbers of which the smallest make the sample; no two are equal."""
        return split_mix(self.seed, 2 * rows.astype(np.uint64))

    def of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
        """Return the fold of every row."""
        found = split_mix(self.seed, 2 * rows.astype(np.uint64) + np.uint64(1))
        return np.searchsorted(np.array(self.bounds, dtype=np.uint64), found, side="right")

    def sampled(self, order: npt.NDArray[np.uint64], n_before: int) -> npt.NDArray[np.bool_]:
        """Say which rows of a block may be in the sample, given the number of rows up to its end.

        So the blocks of a cluster send few rows: k (1 + log(n / k)) in all.
        """
        share = (self.most_rows + _FAR_OUT * math.sqrt(self.most_rows)) / max(n_before, 1)
        if share >= 1.0:
            return np.ones(len(order), dtype=np.bool_)
        return order < np.uint64(int(share * 2.0**64))


@dataclass(frozen=True, eq=False)
class RowSample:
    """Some rows, with their numbers in the stream."""

    rows: npt.NDArray[np.int64]
    order: npt.NDArray[np.uint64]
    weights: _Float64
    X: Any
    Y: Any

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, places: npt.NDArray[Any]) -> RowSample:
        """Return copies of some of the rows."""
        return RowSample(
            *(self.rows[places], self.order[places], self.weights[places]),
            *(take(self.X, places), take(self.Y, places)),
        )

    @staticmethod
    def joined(samples: Sequence[RowSample], most: int) -> RowSample:
        """Return the rows with the smallest numbers of all samples, in the order of the stream."""
        whole = samples[0]
        if len(samples) > 1:
            names = ("rows", "order", "weights", "X", "Y")
            whole = RowSample(*(_stacked([getattr(one, name) for one in samples]) for name in names))
        places = np.arange(len(whole))
        if len(whole) > most:
            places = np.argpartition(whole.order, most - 1)[:most]
        places = places[np.argsort(whole.rows[places])]
        return whole if np.array_equal(places, np.arange(len(whole))) else whole.select(places)

    def to_arrays(self) -> _Arrays:
        """Return all numbers as arrays, by name."""
        arrays: _Arrays = {"rows": self.rows, "order": self.order, "weights": self.weights}
        for name, matrix in (("X", self.X), ("Y", self.Y)):
            if is_sparse(matrix):
                arrays |= {f"{name}_{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}
            else:
                arrays[name] = matrix
        return arrays

    @staticmethod
    def from_arrays(arrays: Mapping[str, npt.NDArray[Any]], shape: tuple[int, int]) -> RowSample:
        """Undo `to_arrays`, given the numbers of features and labels."""
        rows, order, weights = arrays["rows"], arrays["order"], arrays["weights"]
        same = rows.shape == order.shape == weights.shape
        if not same or [one.dtype.kind for one in (rows, order, weights)] != ["i", "u", "f"]:
            raise ValueError("rows, order and weights must have one number per row")
        found: list[Any] = []
        for name, n_columns in zip(("X", "Y"), shape, strict=True):
            matrix: Any = arrays.get(name)
            if matrix is None:
                parts = tuple(arrays[f"{name}_{part}"] for part in ("data", "indices", "indptr"))
                matrix = sp.csr_array(parts, shape=(len(rows), n_columns))
                matrix.check_format(full_check=True)
            if matrix.shape != (len(rows), n_columns):
                raise ValueError(f"{name} must have one row for every number of rows")
            found.append(matrix)
        return RowSample(rows, order, weights, *found)


def _stacked(parts: Sequence[Any]) -> Any:
    return sp.csr_array(sp.vstack(parts, format="csr")) if is_sparse(parts[0]) else np.concatenate(parts)


@dataclass(eq=False)
class FoldSums:
    """Second moments of every fold and a sample of the rows; a sum over blocks, see `lrml.blocks.Summand`."""

    folds: Folds
    parts: list[Statistics | None]  # None: no row so far
    positives: _Float64  # rows with weight that have each label
    weighted: bool
    samples: list[RowSample]

    def absorb(self, other: FoldSums) -> FoldSums:
        """Return the sum, in the arrays of ``self``; the other stays as it is."""
        self.check_same(other.folds)
        for place, part in enumerate(other.parts):
            mine = self.parts[place]
            if part is not None:
                self.parts[place] = deepcopy(part) if mine is None else mine.absorb(part)
        self.positives += other.positives
        self.weighted |= other.weighted
        self.samples += other.samples
        if sum(map(len, self.samples)) > 1.5 * self.folds.most_rows:
            self.samples = [self.sample]
        return self

    def check_same(self, folds: Folds) -> None:
        """Refuse other folds; those of a checkpoint may be."""
        if self.folds != folds:
            raise ValueError(
                f"a checkpoint must have the same folds and sample, {folds}, got {self.folds}. Pass the same "
                "cv and an int as random_state, or delete it to start anew."
            )

    @property
    def sample(self) -> RowSample:
        """The rows of the sample, in the order of the stream."""
        return RowSample.joined(self.samples, self.folds.most_rows)

    @property
    def total(self) -> Statistics:
        """Moments of all rows."""
        return summed(self.parts)

    def to_arrays(self) -> _Arrays:
        """Return all numbers as arrays, by name."""
        arrays: _Arrays = {
            "seed": np.asarray(self.folds.seed),
            "bounds": np.array(self.folds.bounds, dtype=np.uint64),
            "most_rows": np.asarray(self.folds.most_rows),
            "positives": self.positives,
            "weighted": np.asarray(self.weighted),
        }
        for place, part in enumerate(self.parts):
            if part is not None:
                arrays |= {f"fold{place}_{name}": array for name, array in part.to_arrays().items()}
        return arrays | {f"sample_{name}": array for name, array in self.sample.to_arrays().items()}

    @classmethod
    def from_stored(cls, arrays: Mapping[str, npt.NDArray[Any]], path: str | os.PathLike[str]) -> FoldSums:
        """Undo `to_arrays`; what cannot be such sums is refused, with the path in the message."""
        try:
            folds = Folds(
                int(arrays["seed"]), tuple(int(bound) for bound in arrays["bounds"]), int(arrays["most_rows"])
            )
            groups = [_under(arrays, f"fold{place}_") for place in range(folds.count)]
            parts = [Statistics.from_stored(group, path) if group else None for group in groups]
            first = next(part for part in parts if part is not None)
            shape = first.n_features, first.n_labels
            sample = RowSample.from_arrays(_under(arrays, "sample_"), shape)
            positives = arrays["positives"].astype(np.float64)
            if positives.shape != shape[1:]:
                raise ValueError("positives must have one number per label")
            return cls(folds, parts, positives, bool(arrays["weighted"]), [sample])
        except (KeyError, TypeError, StopIteration, ValueError) as error:
            raise ValueError(
                "a checkpoint of a search must hold the sums of its folds and a sample, got "
                f"{os.fspath(path)!r}, which does not ({error}). Delete it to start anew."
            ) from error


def _under(arrays: Mapping[str, npt.NDArray[Any]], prefix: str) -> _Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def summed(parts: Iterable[Statistics | None]) -> Statistics:
    """Add up statistics, which stay as they are."""
    first, *others = [part for part in parts if part is not None]
    if not others:
        return first
    total = first + others[0]
    for part in others[1:]:
        total = total.absorb(part)
    return total


def fold_sums(block: RowBlock, folds: Folds, columns: Columns) -> FoldSums:
    """Return the sums of one block, and those of its rows that may be in the sample."""
    rows = np.arange(block.first_row, block.first_row + len(block))
    fold, order = folds.of(rows), folds.order(rows)
    weights = np.ones(len(block)) if block.weights is None else block.weights
    parts: list[Statistics | None] = []
    for number in range(folds.count):
        places = np.flatnonzero(fold == number)
        some = (block.X, block.Y, block.weights)
        if len(places) < len(block):
            some = (block.X[places], block.Y[places], None if block.weights is None else weights[places])
        parts.append(Statistics.from_arrays(*some) if len(places) else None)
    chosen = np.flatnonzero(folds.sampled(order, block.first_row + len(block)))
    # All blocks in the form of the first one: dense or sparse, and in its precision.
    X = _in_form(block.X, sparse=columns.sparse_features).astype(columns.dtype, copy=False)
    whole = RowSample(rows, order, weights, X, _in_form(block.Y, sparse=columns.sparse_labels))
    counted = (weights > 0).astype(np.float64)
    positives = np.asarray(block.Y.T @ counted, dtype=np.float64).ravel()
    return FoldSums(folds, parts, positives, block.weights is not None, [whole.select(chosen)])


def _in_form(matrix: Any, *, sparse: bool) -> Any:
    if sparse:
        return sp.csr_array(matrix)
    return matrix.toarray() if is_sparse(matrix) else matrix


@dataclass(frozen=True, eq=False)
class SampledData(SummedData):
    """Data of which the sums are known, by folds, and a sample of the rows: X, Y and weights."""

    parts: tuple[Statistics | None, ...] = ()  # of the folds; None: without rows
    fold: Any = ()  # of every row of the sample
    positives: Any = ()  # how many of all rows, among those with weight, have each label

    @classmethod
    def of_sums(cls, sums: FoldSums, columns: Columns, targets: str) -> SampledData:
        """Return data for a fit."""
        sample = sums.sample
        data = cls.of(sums.total, columns, targets)
        found: SampledData = replace(
            cast(Any, data),
            X=sample.X,
            Y=sample.Y,
            weights=sample.weights if sums.weighted else None,
            parts=tuple(sums.parts),
            fold=sums.folds.of(sample.rows),
            positives=sums.positives,
        )
        return found

    @property
    def total_weight(self) -> float:
        """Sum of the weights of all rows."""
        return self.statistics.weight

    def positive_counts(self) -> _Float64:
        """How many of all rows, among those with weight, have each label."""
        found: _Float64 = self.positives
        return found

    def without(self, fold: int) -> Statistics:
        """Moments of all rows but those of one fold, without a subtraction, which would lose digits."""
        return summed(self.parts[:fold] + self.parts[fold + 1 :])
