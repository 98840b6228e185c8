"""Sums of folds and a sample of the rows, in one pass over blocks: what a search decides by.

The rows of block i get two random numbers each, drawn by the generator that is started at (seed, i). The k
rows with the smallest first ones are the sample. The second one lies in [0, 1), and so in a fold. Both depend
on the seed and the place of a row in the blocks alone: not on the order in which these are summed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml.blocks import RowBlock
from lrml.core.arrays import dense, is_sparse, take
from lrml.core.moments import Statistics
from lrml.core.rows import Rows, Schema

_Float64 = npt.NDArray[np.float64]
_Arrays = dict[str, npt.NDArray[Any]]
_CSR = "data", "indices", "indptr", "shape"

# The sample has so many numbers at most if X and Y are dense, but at least so many rows.
_MOST_NUMBERS, _LEAST_ROWS = 1 << 23, 7500


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
