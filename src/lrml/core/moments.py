"""Additive sufficient statistics: all that a squared-loss fit needs from the data.

For examples x_i with label vectors y_i and weights w_i, `Statistics` holds

::

    weight = Σ w_i                     x_mean, y_mean
    xx = Σ w_i (x_i − x̄)(x_i − x̄)ᵀ     xy = Σ w_i (x_i − x̄)(y_i − ȳ)ᵀ     yy = Σ w_i ‖y_i − ȳ‖²

that is, the *centred* scatter: raw sums would lose digits when the means are subtracted. Blocks of rows add
up by the parallel-variance formula of Chan, Golub and LeVeque (1983), so data on disk, in a stream or on a
cluster is summed block by block. The size is d² + dL for any number of rows.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import reduce
from itertools import starmap
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml.core.arrays import HOST, Array, Place, as_matrix, is_host, is_sparse, namespace, take

Matrix: TypeAlias = Any
"""A dense array of any namespace, a SciPy sparse matrix or array, or a pandas or polars frame."""

# Numbers in one block of rows: 32 MiB are small beside any d × d matrix that needs blocking, and enough for a
# matrix product at full speed. On a device, where large products and few copies count, 1 GiB.
_BLOCK_ENTRIES, _DEVICE_ENTRIES = 1 << 22, 1 << 27
# Numbers of a product of means that are made at a time while blocks are added.
_PANEL_ENTRIES = 1 << 20

# With at least so many features and at most this share of nonzeros, a sparse Y is faster than a dense one.
_MANY_FEATURES, _FEW_NONZEROS = 256, 0.05
# Least share of the spread of a sparse column in its sum of squares: three digits are lost then.
_FAR = 1e-3


class Moments(NamedTuple):
    """Second moments XᵀX, XᵀY and ‖Y‖²_F."""

    gram: Array
    cross: Array
    target: float


@dataclass(frozen=True, eq=False)
class CentredRows:
    """Rows about their means, in float64; sparse ones stay sparse, with a mean still to be subtracted.

    ``X − 1 x_offsetᵀ`` and ``Y − 1 y_offsetᵀ`` are the centred rows. Offsets of dense arrays are zero.
    Products with these rows say X̂ = D^(1/2)(X − 1 x_offsetᵀ), D the weights.
    """

    X: Matrix
    Y: Matrix
    weights: Array
    x_mean: Array
    y_mean: Array
    x_offset: Array
    y_offset: Array
    x_varies: Array
    yy: float

    @classmethod
    def of(cls, X: Matrix, Y: Matrix, weights: Array | None) -> CentredRows:
        """Subtract the means of dense columns, and of sparse ones that are far from zero."""
        place = Place.of(X)
        w = place.ones(X.shape[0]) if weights is None else weights
        total = float(place.xp.sum(w))
        X, Y = _doubled(X), _doubled(Y)
        low, high = extremes(X)
        x_varies = low != high
        # Exact where a column is constant.
        x_mean = place.xp.where(x_varies, _column_sums(X, w) / (total or 1.0), high)
        y_mean = _column_sums(Y, w) / (total or 1.0)
        with np.errstate(over="ignore", invalid="ignore"):  # checked by `check_range`
            X, x_offset = _centred(X, w, x_mean)
            Y, y_offset = _centred(Y, w, y_mean)
        squares = float(place.xp.sum(_column_squares(Y, w)))
        yy = max(squares - total * float(y_offset @ y_offset), 0.0)
        return cls(X, Y, w, x_mean, y_mean, x_offset, y_offset, x_varies, yy)

    def uncentred(self, X: Matrix, Y: Matrix) -> CentredRows:
        """Return the same rows, X and Y, as they are: for a model without intercept."""
        return replace(
            self,
            X=_doubled(X),
            Y=_doubled(Y),
            x_offset=0.0 * self.x_mean,
            y_offset=0.0 * self.y_mean,
            x_varies=self.x_varies | (self.x_mean != 0),
            yy=self.yy + self.weight * float(self.y_mean @ self.y_mean),
        )

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        return float(namespace(self.weights).sum(self.weights))

    @property
    def n_eigenvalues(self) -> int:
        """How many eigenvalues of X̂ᵀX̂ may differ from 0: min(n, d)."""
        return int(min(self.X.shape))

    @property
    def scatter(self) -> Array:
        """Σ w (x − x̄)² of every column, checked for overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            found = _column_squares(self.X, self.weights) - self.weight * self.x_offset**2
        check_range(found, self.x_varies, self.weight)
        return found

    @property
    def variation(self) -> Array:
        """The same about the means, for a model without intercept too, up to rounding."""
        mean = (self.X.T @ self.weights) / self.weight
        return self.scatter + self.weight * (self.x_offset**2 - mean**2)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Weighted count, means and centred scatter of a data set (X, Y); see the module's docstring.

    Examples
    --------
    >>> import numpy as np
    >>> X, Y = np.arange(12.0).reshape(6, 2), np.eye(6)[:, :3]
    >>> Statistics.from_arrays(X[:2], Y[:2]) + Statistics.from_arrays(X[2:], Y[2:])
    Statistics(n_rows=6, n_features=2, n_labels=3, weight=6)
    """

    n_rows: int
    weight: float
    x_mean: Array
    y_mean: Array
    xx: Array
    xy: Array
    yy: float

    @classmethod
    def from_arrays(
        cls, X: Matrix, Y: Matrix, sample_weight: Array | None = None, *, place: Place | None = None
    ) -> Statistics:
        """Summarise arrays in one pass over blocks of rows; sparse ones are never made dense.

        X (n × d) and Y (n × L) are arrays, sparse matrices or frames; weights are not negative. All sums are
        in float64, as the spectrum of XᵀX spans the square of the range of that of X. ``place`` is where to
        sum, and where the sums live: where X is by default.
        """
        place = Place.of(X) if place is None else place
        X, Y = as_matrix(X) if is_host(X) else X, as_matrix(Y) if is_host(Y) else Y
        (n_rows, d), L = X.shape, Y.shape[1]
        if n_rows != Y.shape[0] or n_rows == 0:
            raise ValueError(
                f"X has {n_rows} rows and Y has {Y.shape[0]}. Pass one row of Y for every row of X, and some."
            )
        w = None if sample_weight is None else Place.of(X).asarray(sample_weight, "float64")
        if place.is_host and not is_sparse(Y) and d >= _MANY_FEATURES:
            # XᵀY takes less time if Y is sparse then: half, with 500 features and 2 % positives.
            Y = sp.csr_array(Y) if np.count_nonzero(Y) <= _FEW_NONZEROS * Y.size else Y
        if w is not None:
            X, Y, w = without_weightless(X, Y, w)
            if not bool(namespace(w).any(w > 0)):  # means of 0 and no weight: they add nothing to others
                means = place.zeros(d), place.zeros(L)
                return cls(n_rows, 0.0, *means, place.zeros((d, d)), place.zeros((d, L)), 0.0)
        return reduce(cls.absorb, starmap(cls._of_block, _blocks(X, Y, w, place)))

    @classmethod
    def _of_block(cls, X: Matrix, Y: Matrix, weights: Array | None) -> Statistics:
        rows = CentredRows.of(X, Y, weights)
        total, X, Y = float(namespace(rows.weights).sum(rows.weights)), rows.X, rows.Y
        with np.errstate(over="ignore", invalid="ignore"):  # checked below, with a remedy
            root = X
            if weights is not None:
                root, Y = scaled_rows(X, namespace(weights).sqrt(weights)), scaled_rows(Y, weights)
            if is_sparse(X):
                # Scatter about the mean by Σ w x xᵀ − (Σ w) x̄ x̄ᵀ: X itself stays as it is.
                xx = dense_product(root.T, root) - total * np.outer(rows.x_offset, rows.x_offset)
                xy = dense_product(X.T, Y) - total * np.outer(rows.x_offset, rows.y_offset)
            else:
                # Σ w (x − x̄) offsetᵀ = 0: the offset of a sparse Y, which must be the left factor, cancels.
                xx = root.T @ root
                xy = np.ascontiguousarray((Y.T @ X).T) if is_host(X) else X.T @ Y
        check_range(namespace(xx).linalg.diagonal(xx), rows.x_varies, total)
        return cls(X.shape[0], total, rows.x_mean, rows.y_mean, xx, xy, rows.yy)

    def __repr__(self) -> str:
        shape = f"n_features={self.n_features}, n_labels={self.n_labels}"
        return f"Statistics(n_rows={self.n_rows}, {shape}, weight={self.weight:g})"

    @property
    def n_features(self) -> int:
        """Number of features d."""
        return int(self.x_mean.shape[0])

    @property
    def n_labels(self) -> int:
        """Number of labels L."""
        return int(self.y_mean.shape[0])

    @property
    def place(self) -> Place:
        """Where the sums live."""
        return Place.of(self.xx)

    def at(self, place: Place) -> Statistics:
        """Return the same sums, in another place."""
        if self.place == place:
            return self
        arrays = ("x_mean", "y_mean", "xx", "xy")
        return replace(self, **{name: place.asarray(getattr(self, name)) for name in arrays})

    def __add__(self, other: Statistics) -> Statistics:
        """Statistics of the rows of both; exact up to rounding, in any order and grouping."""
        return replace(self, xx=self.xx + 0.0, xy=self.xy + 0.0).absorb(other)

    def __sub__(self, other: Statistics) -> Statistics:
        """Statistics of the rows of ``self`` without those of ``other``, which must be among them."""
        return replace(self, xx=self.xx + 0.0, xy=self.xy + 0.0).absorb(other, -1)

    def absorb(self, other: Statistics, sign: int = 1) -> Statistics:
        """Return ``self + other``, bit for bit, in the arrays of ``self``, which nobody may use any more.

        By the parallel formula: S = S₁ ± S₂ + between · δδᵀ with δ = mean₂ − mean₁.
        """
        mine, theirs = (self.n_features, self.n_labels), (other.n_features, other.n_labels)
        if mine != theirs:
            raise ValueError(
                f"(features, labels) are {mine} here and {theirs} there. Give every block the same columns."
            )
        n_rows, weight = self.n_rows + sign * other.n_rows, self.weight + sign * other.weight
        if sign < 0 and (n_rows < 1 or weight <= 0):
            raise ValueError(
                f"{self.n_rows} − {other.n_rows} rows (weight {weight:g}) leave nothing. Subtract fewer rows."
            )
        share = sign * other.weight / weight if weight > 0 else 0.0
        between = self.weight * share
        dx, dy = other.x_mean - self.x_mean, other.y_mean - self.y_mean
        for total, part, delta in ((self.xx, other.xx, dx), (self.xy, other.xy, dy)):
            step = max(1, _PANEL_ENTRIES // max(delta.shape[0], 1))
            for start in range(0, total.shape[0], step):
                rows = slice(start, min(start + step, total.shape[0]))
                panel = total[rows, :]
                panel += part[rows, :] if sign > 0 else -part[rows, :]
                panel += between * (dx[rows, None] * delta)
        x_mean, y_mean = self.x_mean + share * dx, self.y_mean + share * dy
        yy = max(self.yy + sign * other.yy + between * float(dy @ dy), 0.0)
        return Statistics(n_rows, weight, x_mean, y_mean, self.xx, self.xy, yy)

    def moments(self, *, fit_intercept: bool = True) -> Moments:
        """Second moments about the means, or raw ones, XᵀX, XᵀY and ‖Y‖², for a model without intercept."""
        if fit_intercept:
            return Moments(self.xx, self.xy, self.yy)
        sums, y = self.weight * self.x_mean[:, None], self.y_mean
        return Moments(self.xx + sums * self.x_mean, self.xy + sums * y, self.yy + self.weight * float(y @ y))

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all numbers as arrays, by name."""
        return {field.name: np.asarray(getattr(self.at(HOST), field.name)) for field in fields(self)}

    @classmethod
    def from_stored(cls, arrays: Mapping[str, npt.NDArray[Any]], path: str | os.PathLike[str]) -> Statistics:
        """Undo `to_arrays`; a lack of arrays is an error with the path."""
        if missing := {field.name for field in fields(cls)} - set(arrays):
            raise ValueError(
                f"{os.fspath(path)!r} lacks {', '.join(sorted(missing))}, as a checkpoint of a search does. "
                "Take one of fit_blocks or lrml fit."
            )
        found: dict[str, Any] = {field.name: arrays[field.name] for field in fields(cls)}
        return cls(**found | {name: found[name].item() for name in ("n_rows", "weight", "yy")})


def without_weightless(X: Matrix, Y: Matrix, w: Array | None) -> tuple[Matrix, Matrix, Any]:
    """Drop the rows without weight, unless there are no others."""
    if w is None:
        return X, Y, w
    kept = namespace(w).nonzero(w > 0)[0]
    if kept.shape[0] in (0, w.shape[0]):
        return X, Y, w
    return take(X, kept), take(Y, kept), take(w, kept)


def _blocks(X: Matrix, Y: Matrix, w: Array | None, place: Place) -> Iterator[tuple[Any, ...]]:
    """Blocks of about `_BLOCK_ENTRIES` stored numbers each, and of at least 3d rows, so that they pay off.

    They move to a device one by one, and are dense there.
    """
    (n_rows, d), most = X.shape, _BLOCK_ENTRIES if place.is_host else _DEVICE_ENTRIES
    entries = n_rows * (d + Y.shape[1])
    for M in (X, Y):
        entries -= math.prod(M.shape) - M.nnz if place.is_host and is_sparse(M) else 0
    step = max(3 * d, int(most * n_rows / max(entries, 1)), 1)
    if step >= n_rows and place.is_host:
        yield X, Y, w
        return
    X, Y = (M.tocsr() if is_sparse(M) else M for M in (X, Y))  # other formats have no rows
    for start in range(0, n_rows, step):
        rows = slice(start, min(start + step, n_rows))
        block = [None if M is None else M[rows, ...] for M in (X, Y, w)]
        yield tuple(M if M is None or place.is_host else place.asarray(M, "float64") for M in block)


def _doubled(M: Matrix) -> Matrix:
    """Return a matrix in double precision."""
    return M.astype(np.float64, copy=False) if is_sparse(M) else Place.of(M).asarray(M, "float64")


def extremes(M: Matrix) -> tuple[Array, Array]:
    """Least and largest value of every column, in float64."""
    if is_sparse(M):
        low, high = (found.toarray().ravel() for found in (M.min(axis=0), M.max(axis=0)))
    else:
        xp = namespace(M)
        low, high = xp.min(M, axis=0), xp.max(M, axis=0)
    return _doubled(low), _doubled(high)


def _column_sums(M: Matrix, w: Array) -> Array:
    """Weighted sums of columns, in pairs: exact to the last digits, and the same wherever in memory M is.

    BLAS would give other last digits at other addresses. A device sums in pairs itself.
    """
    if is_sparse(M):
        return M.T @ w
    terms = M * w[:, None]
    if not is_host(M):
        return namespace(M).sum(terms, axis=0)
    while len(terms) > 1:
        half = (len(terms) + 1) // 2
        terms[: len(terms) - half] += terms[half:]
        terms = terms[:half]
    return terms[0]


def _column_squares(M: Matrix, w: Array) -> Array:
    """Σ w m² of every column."""
    return (M.multiply(M) if is_sparse(M) else M * M).T @ w


def _centred(M: Matrix, w: Array, mean: Array) -> tuple[Matrix, Array]:
    """Return M about the means of its columns, and the means that are still to be subtracted.

    Of a sparse M, only columns that are far from zero relative to their spread are centred: Σ w m² − (Σ w) m̄²
    would keep few digits of it. They have hardly any zeros, so the result takes no more memory than M.
    """
    if not is_sparse(M):
        return M - mean, namespace(mean).zeros_like(mean)
    total, squares = float(w.sum()), _column_squares(M, w)
    far = are_far(squares - total * mean**2, squares) | ((squares == 0) & (mean != 0))  # these underflow
    centred, rest = about(M, mean, far)
    return centred, _column_sums(centred, w) / (total or 1.0) if far.any() else rest


def are_far(scatter: Array, squares: Array) -> Array:
    """Whether columns are far from zero relative to their spread, given their centred and raw squares."""
    return ~(scatter >= _FAR * squares)  # true of a constant, too, even if its squares overflow


def about(M: Matrix, mean: Array, far: Array | None) -> tuple[Matrix, Array]:
    """Return M about means, of a sparse one the columns that are far from zero, and the other means."""
    if not is_sparse(M):
        return M - mean, namespace(mean).zeros_like(mean)
    if far is None or not far.any():
        return M, mean
    ones = sp.csc_array(np.ones((M.shape[0], 1)))
    centred = M.tocsc() - ones @ sp.csc_array(np.where(far, mean, 0.0)[None, :])
    return centred, np.where(far, 0.0, mean)


def check_range(scatter: Array, varies: Array, total: float) -> None:
    """Reject features whose squares are beyond float64: they would give NaN, or vanish silently."""
    xp = namespace(scatter)
    if not bool(xp.all(xp.isfinite(scatter))):
        raise ValueError(
            "the squares of X must stay below 1e308, got features that overflow. "
            "Divide X by a constant, or scale it with StandardScaler."
        )
    if total > 0 and bool(xp.any(varies & (scatter < 1e-300 * min(total, 1.0)))):  # those near 0 lose digits
        raise ValueError(
            "the squares of X must not underflow, got a feature that varies by less than 1e-150. "
            "Multiply X by a constant, or scale it with StandardScaler."
        )


def scaled_rows(M: Matrix, w: Array) -> Matrix:
    """Multiply each row of a matrix by its own number."""
    return sp.diags_array(w) @ M if is_sparse(M) else M * w[:, None]


def dense_product(A: Matrix, B: Matrix) -> Array:
    """Return A B as a dense array; either may be sparse."""
    product = A @ B
    return product.toarray() if is_sparse(product) else product
