"""Columns: what is known of them before any row is summed, and what a look at every row tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import Array
from lrml.core.moments import CentredRows, extremes, without_weightless


@dataclass(frozen=True, eq=False)
class Schema:
    """What is known of the columns before any row is summed: found at the door, kept in a fitted model.

    Attributes
    ----------
    n_features, n_labels : int
    feature_names, label_names : array of str or None
        Columns of frames; for a 1-D y, ``label_names`` are its two classes.
    dtype : dtype
        float32 or float64, that of X.
    sparse_features, sparse_labels, flat : bool
        Whether X and Y are sparse, and Y 1-D.
    targets : {"binary", "real"}
    """

    n_features: int
    n_labels: int
    feature_names: npt.NDArray[Any] | None = None
    label_names: npt.NDArray[Any] | None = None
    dtype: np.dtype[Any] = np.dtype(np.float64)  # noqa: RUF009  # a constant
    sparse_features: bool = False
    sparse_labels: bool = False
    flat: bool = False
    targets: str = "binary"


@dataclass(frozen=True, eq=False)
class Spread:
    """Means, Σ w (m − m̄)² and least and largest values of columns; those of blocks add up by `absorb`."""

    weight: float
    mean: Array
    scatter: Array
    low: Array
    high: Array

    @classmethod
    def of(cls, M: Any, weights: Array | None) -> Spread:
        """Look at the columns of a matrix."""
        M, nothing, weights = without_weightless(M, M[:, :0], weights)
        centred = CentredRows.of(M, nothing, weights)
        return cls(centred.weight, centred.x_mean, centred.scatter, *extremes(M))

    def absorb(self, other: Spread) -> Spread:
        """Return that of the rows of both, by the parallel formula of `Statistics`."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0 else 0.0
        moved = other.mean - self.mean
        return Spread(
            weight,
            self.mean + share * moved,
            self.scatter + other.scatter + self.weight * share * moved**2,
            np.minimum(self.low, other.low),
            np.maximum(self.high, other.high),
        )


class Census(NamedTuple):
    """What a look at every row of a block tells, column by column; the parts of blocks add up.

    Attributes
    ----------
    n_rows : int
        Those with a positive weight.
    squared_weights : float
    known, positive, squares : array of shape (L,)
        Weighted number of known examples of every label, and weighted sums of its values and their squares.
    features, labels : Spread
        Unknown labels count as 0.
    """

    n_rows: int
    squared_weights: float
    known: Array
    positive: Array
    squares: Array
    features: Spread
    labels: Spread

    @classmethod
    def of(cls, rows: Any) -> Census:
        """Look at the `Rows` of a block, on the host."""
        n_rows = rows.X.shape[0] if rows.weights is None else int(np.count_nonzero(rows.weights))
        spreads = Spread.of(rows.X, rows.weights), Spread.of(rows.Y, rows.weights)
        squares = rows.label_squares + 0.0  # its own array, as sums are made in place
        known, positive = rows.label_totals()
        return cls(n_rows, rows.squared_weights, known, positive, squares, *spreads)
