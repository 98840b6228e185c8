"""Additive sufficient statistics: all that a squared-loss fit needs from the data.

For examples x_i with label vectors y_i and weights w_i, `Statistics` holds

::

    weight = Σ w_i                     x_mean, y_mean
    xx = Σ w_i (x_i − x̄)(x_i − x̄)ᵀ     xy = Σ w_i (x_i − x̄)(y_i − ȳ)ᵀ     yy = Σ w_i ‖y_i − ȳ‖²

that is, the *centred* scatter. Storing it instead of raw sums costs nothing and keeps the digits that
subtracting large raw moments would lose; two blocks add up by the parallel-variance formula of Chan, Golub
and LeVeque (1983). The size is d² + dL for any number of rows, so data on disk, in a stream or on a cluster
is summed block by block.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml._files import atomic_file
from lrml.core.arrays import HOST, Array, Place, as_matrix, is_host, is_sparse, namespace, row_dots, take

__all__ = ["Moments", "Statistics"]


def __dir__() -> list[str]:
    return __all__


Matrix: TypeAlias = Any
"""A dense array of any namespace, a SciPy sparse matrix or array, or a pandas or polars frame."""

# Numbers in one block of rows: 32 MiB of float64 is small compared with any d × d matrix that needs blocking,
# and large enough for the matrix product to run at full speed.
_BLOCK_ENTRIES = 1 << 22
# The same on a device, where large products and few copies count: 1 GiB.
_DEVICE_ENTRIES = 1 << 27

# With at least so many features and at most this share of nonzeros, a sparse Y is faster than a dense one.
_MANY_FEATURES, _FEW_NONZEROS = 256, 0.05

# Least share of the spread of a sparse column in its sum of squares: three digits are lost then.
_FAR = 1e-3
# Numbers of a product of means that are made at a time while blocks are added.
_PANEL_ENTRIES = 1 << 20
# What a file of statistics says of itself.
_FORMAT = "lrml statistics 1"
CHECKPOINT_FORMAT = "lrml checkpoint 1"


class Moments(NamedTuple):
    """Second moments XᵀX, XᵀY and ‖Y‖²_F.

    Attributes
    ----------
    gram, cross, target
        Moments of all examples except the one in ``further``.
    further : pair of arrays of shape (d,) and (L,), or None
        One more example (x, y). Raw moments are the centred ones plus that of the means, which may be so
        large that the others would be lost in the sum; so it is kept apart.
    """

    gram: Array
    cross: Array
    target: float
    further: tuple[Array, Array] | None = None

    def summed(self) -> Moments:
        """Return the same moments with ``further`` added to the others."""
        if self.further is None:
            return self
        x, y = self.further
        return Moments(self.gram + x[:, None] * x, self.cross + x[:, None] * y, self.target + float(y @ y))


@dataclass(frozen=True, eq=False)
class CentredRows:
    """Rows about their means, in float64; sparse ones stay sparse, with a mean still to be subtracted.

    ``X − 1 x_offsetᵀ`` and ``Y − 1 y_offsetᵀ`` are the centred rows. Offsets of dense arrays are zero.
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
        X, Y = _as_float64(X), _as_float64(Y)
        x_mean, x_varies = _mean_and_variation(X, w)
        y_mean = _column_sums(Y, w) / (total or 1.0)
        with np.errstate(over="ignore", invalid="ignore"):  # checked by `check_range`
            X, x_offset = _without_far_means(X, w, x_mean)
            Y, y_offset = _without_far_means(Y, w, y_mean)
            Y, y_offset, yy = _centred_targets(Y, w, total, y_offset)
            if not is_sparse(X):
                X, x_offset = X - x_offset, place.xp.zeros_like(x_offset)
        return cls(X, Y, w, x_mean, y_mean, x_offset, y_offset, x_varies, yy)

    def uncentred(self, X: Matrix, Y: Matrix) -> CentredRows:
        """Return the same rows, X and Y, as they are: for a model without intercept."""
        xp = namespace(self.x_mean)
        return replace(
            self,
            X=_as_float64(X),
            Y=_as_float64(Y),
            x_offset=xp.zeros_like(self.x_mean),
            y_offset=xp.zeros_like(self.y_mean),
            x_varies=self.x_varies | (self.x_mean != 0),
            yy=self.yy + self.weight * float(self.y_mean @ self.y_mean),
        )

    @property
    def weight(self) -> float:
        """Sum of the weights."""
        return float(namespace(self.weights).sum(self.weights))

    @property
    def scatter(self) -> Array:
        """Σ w (x − x̄)² of every column, checked for overflow."""
        with np.errstate(over="ignore", invalid="ignore"):
            squares = _flat(_squared(self.X).T @ self.weights) - self.weight * self.x_offset**2
        found = namespace(squares).where(self.x_varies, squares, 0.0)
        check_range(found, self.x_varies, self.weight)
        return found

    @property
    def variation(self) -> Array:
        """The same about the means, for a model without intercept too, up to rounding."""
        mean = _flat(self.X.T @ self.weights) / self.weight
        return self.scatter + self.weight * (self.x_offset**2 - mean**2)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Weighted count, means and centred scatter of a data set (X, Y); see the module's docstring.

    Examples
    --------
    >>> import numpy as np
    >>> X, Y = np.arange(12.0).reshape(6, 2), np.eye(6)[:, :3]
    >>> whole = Statistics.from_arrays(X, Y)
    >>> parts = Statistics.from_arrays(X[:2], Y[:2]) + Statistics.from_arrays(X[2:], Y[2:])
    >>> bool(np.allclose(whole.xx, parts.xx)) and whole.n_rows == parts.n_rows
    True
    >>> whole
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
        """Summarise arrays in one pass over blocks of rows.

        Parameters
        ----------
        X : array, sparse matrix or frame of shape (n, d)
        Y : array, sparse matrix or frame of shape (n, L)
        sample_weight : array of shape (n,), optional
            Not negative, with a positive sum.
        place : Place, optional
            Where to sum, and where the sums live: where X is by default.

        Notes
        -----
        Sums are taken in float64 for every input type: the spectrum of XᵀX spans the square of the range of
        that of X, which float32 cannot hold. Sparse input is centred algebraically and never densified.
        """
        place = Place.of(X) if place is None else place
        X, Y = (M if not is_host(M) else as_matrix(M) for M in (X, Y))
        if X.shape[0] != Y.shape[0]:
            raise ValueError(
                f"X and Y must have the same number of rows, got {X.shape[0]} and {Y.shape[0]}. "
                "Pass one row of Y for every row of X."
            )
        w = None if sample_weight is None else Place.of(X).asarray(sample_weight, "float64")
        if place.is_host:
            Y = _sparse_if_cheaper(Y, X.shape[1])
        X, Y, w = without_weightless(X, Y, w)
        if w is not None and X.shape[0] and not bool(namespace(w).any(w > 0)):
            return cls._of_nothing(X.shape[0], X.shape[1], Y.shape[1], place)
        parts: Iterator[tuple[Any, ...]]
        parts = ((_rows(X, rows), _rows(Y, rows), _rows(w, rows)) for rows in _row_slices(X, Y, place))
        if not place.is_host:
            parts = (
                tuple(None if M is None else place.asarray(M, "float64") for M in part) for part in parts
            )
        return summed(cls._from_block(*part) for part in parts)

    @classmethod
    def _of_nothing(cls, n_rows: int, d: int, n_labels: int, place: Place) -> Statistics:
        """Return those of rows without any weight, which add nothing to others."""
        x_mean, y_mean = place.zeros(d), place.zeros(n_labels)
        return cls(n_rows, 0.0, x_mean, y_mean, place.zeros((d, d)), place.zeros((d, n_labels)), 0.0)

    @classmethod
    def from_blocks(cls, blocks: Iterable[tuple[Matrix, ...]]) -> Statistics:
        """Summarise an iterable of ``(X, Y)`` or ``(X, Y, sample_weight)`` blocks of rows."""
        return summed(cls.from_arrays(*block) for block in blocks)

    @classmethod
    def _from_block(cls, X: Matrix, Y: Matrix, weights: Array | None) -> Statistics:
        rows = CentredRows.of(X, Y, weights)
        total, X, Y = rows.weight, rows.X, rows.Y
        with np.errstate(over="ignore", invalid="ignore"):  # checked below, with a remedy
            if weights is not None:
                Y = scaled_rows(Y, weights)
            xx = _gram(X, weights)
            if is_sparse(X):
                # Scatter about the mean by Σ w x xᵀ − (Σ w) x̄ x̄ᵀ: X itself stays as it is.
                xx -= total * np.outer(rows.x_offset, rows.x_offset)
                xy = dense_product(X.T, Y) - total * np.outer(rows.x_offset, rows.y_offset)
                # In a constant column, what the subtraction leaves is rounding, not variance.
                constant = ~rows.x_varies
                xx[constant, :] = xx[:, constant] = xy[constant, :] = 0.0
            else:
                # Σ w (x − x̄) offsetᵀ = 0: the offset of a sparse Y, which must be the left factor, cancels.
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

    def __add__(self, other: Statistics) -> Statistics:
        """Statistics of the rows of both; exact up to rounding, in any order and grouping."""
        return self._copied().absorb(other)

    def absorb(self, other: Statistics) -> Statistics:
        """Return ``self + other``, bit for bit, in the arrays of ``self``, which must not be used any more.

        A sum of many blocks then takes the memory of two.
        """
        self._check_same_columns(other)
        weight = self.weight + other.weight
        return self._shifted(other, +1, weight, other.weight / weight if weight > 0 else 0.0)

    def __sub__(self, other: Statistics) -> Statistics:
        """Statistics of the rows of ``self`` without those of ``other``, which must be among them."""
        self._check_same_columns(other)
        weight, n_rows = self.weight - other.weight, self.n_rows - other.n_rows
        if n_rows < 1 or weight <= 0:
            raise ValueError(
                f"a subtraction must leave at least one row, got {self.n_rows} − {other.n_rows} rows "
                f"(weight {weight:g} left). Subtract a proper part of the data."
            )
        return self._copied()._shifted(other, -1, weight, -other.weight / weight)

    def _copied(self) -> Statistics:
        xp = namespace(self.xx)
        return replace(self, xx=xp.asarray(self.xx, copy=True), xy=xp.asarray(self.xy, copy=True))

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

    def _shifted(self, other: Statistics, sign: int, weight: float, share: float) -> Statistics:
        """Combine by the parallel formula S = S₁ ± S₂ + between · δδᵀ with δ = mean₂ − mean₁, in place."""
        between = self.weight * share
        dx, dy = other.x_mean - self.x_mean, other.y_mean - self.y_mean
        for mine, theirs, delta in ((self.xx, other.xx, dx), (self.xy, other.xy, dy)):
            step = max(1, _PANEL_ENTRIES // max(delta.shape[0], 1))
            for start in range(0, mine.shape[0], step):
                stop = min(start + step, mine.shape[0])
                panel = mine[start:stop, :]
                if sign > 0:
                    panel += theirs[start:stop, :]
                else:
                    panel -= theirs[start:stop, :]
                panel += between * (dx[start:stop, None] * delta)
        return Statistics(
            self.n_rows + sign * other.n_rows,
            weight,
            self.x_mean + share * dx,
            self.y_mean + share * dy,
            self.xx,
            self.xy,
            max(self.yy + sign * other.yy + between * float(dy @ dy), 0.0),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to a file (NumPy's ``.npz``), whole or not at all.

        Examples
        --------
        >>> import numpy as np, pathlib, tempfile
        >>> sums = Statistics.from_arrays(np.eye(3), np.eye(3)[:, :2])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sums.save(pathlib.Path(folder, "sums.npz"))
        ...     again = Statistics.load(pathlib.Path(folder, "sums.npz"))
        >>> bool(np.array_equal(sums.xx, again.xx))
        True
        """
        save_arrays(path, _FORMAT, self.to_arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Statistics:
        """Read what `save` has written, bit for bit; nothing in the file is ever executed.

        A checkpoint of ``fit_blocks`` or ``lrml fit`` will do as well: it gives the sums over the blocks that
        it has.
        """
        arrays = load_arrays(path, _FORMAT, CHECKPOINT_FORMAT)
        if "bounds" in arrays:
            raise ValueError(
                f"{os.fspath(path)!r} is a checkpoint of a search, which has the sums of its folds. Use one "
                "of fit_blocks or lrml fit."
            )
        return cls.from_stored(arrays, path)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return all numbers as arrays, by name."""
        return {field.name: np.asarray(getattr(self.at(HOST), field.name)) for field in fields(self)}

    @classmethod
    def from_stored(cls, arrays: Mapping[str, npt.NDArray[Any]], path: str | os.PathLike[str]) -> Statistics:
        """Undo `to_arrays`; arrays that are absent or of other sizes are refused, with the path."""
        found: dict[str, Any] = {name: arrays[name] for name in cls.__dataclass_fields__ if name in arrays}
        d, L = (np.size(found.get(name, ())) for name in ("x_mean", "y_mean"))
        shapes = {"x_mean": (d,), "y_mean": (L,), "xx": (d, d), "xy": (d, L)}
        if any(
            name not in found or found[name].shape != shapes.get(name, ())
            for name in cls.__dataclass_fields__
        ):
            raise ValueError(
                f"{os.fspath(path)!r} lacks arrays of statistics, or they have other sizes. Write it again "
                "with Statistics.save."
            )
        return cls(**found | {name: found[name].item() for name in ("n_rows", "weight", "yy")})

    def _check_same_columns(self, other: Statistics) -> None:
        mine, theirs = (self.n_features, self.n_labels), (other.n_features, other.n_labels)
        if mine != theirs:
            raise ValueError(
                f"statistics must agree in (features, labels), got {mine} and {theirs}. "
                "Give every block the same columns."
            )

    def centered(self) -> Moments:
        """Second moments about the means: those of a model with an intercept."""
        return Moments(self.xx, self.xy, self.yy)

    def uncentered(self) -> Moments:
        """Raw second moments XᵀX, XᵀY, ‖Y‖²: those of a model without intercept."""
        root = math.sqrt(self.weight)
        return Moments(self.xx, self.xy, self.yy, (root * self.x_mean, root * self.y_mean))

    def moments(self, *, fit_intercept: bool) -> Moments:
        """Second moments of a model with or without an intercept."""
        return self.centered() if fit_intercept else self.uncentered()


def summed(parts: Iterable[Statistics]) -> Statistics:
    """Add up statistics, each used only here, in the arrays of the first."""
    remaining = iter(parts)
    total = next(remaining, None)
    if total is None:
        raise ValueError("There is no block of rows. Pass at least one (X, Y) pair.")
    for part in remaining:
        total = total.absorb(part)
    return total


def save_arrays(path: str | os.PathLike[str], kind: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write arrays to one file, which says of what kind it is, whole or not at all."""
    with atomic_file(path) as stream:
        named: Any = {"kind": np.asarray(kind), **arrays}
        try:
            np.savez(stream, **named)
        except ValueError as error:
            # Ctrl-C in the middle of an array leaves it open, and closing the archive then hides Ctrl-C.
            signal = error.__context__
            raise error if signal is None or isinstance(signal, Exception) else signal from None


def load_arrays(path: str | os.PathLike[str], *kinds: str) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays of a file of one of these kinds; refuse others, and damaged ones."""
    try:
        with open(path, "rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        found = str(arrays.pop("kind"))
    except OSError:
        raise
    except Exception as error:  # NumPy, zipfile and zlib raise a dozen kinds
        raise ValueError(
            f"{os.fspath(path)!r} is damaged, or no file of sums. Delete it, or name another file."
        ) from error
    if found not in kinds:
        raise ValueError(
            f"{os.fspath(path)!r} is a file of the kind {found!r}, not {kinds[0]!r}. Name another file."
        )
    return arrays


def without_weightless(X: Matrix, Y: Matrix, w: Array | None) -> tuple[Matrix, Matrix, Array | None]:
    """Drop the rows without weight, unless there are no others."""
    if w is None:
        return X, Y, w
    n_weighty = int(namespace(w).count_nonzero(w > 0))
    if n_weighty in (0, w.shape[0]):
        return X, Y, w
    kept = namespace(w).nonzero(w > 0)[0]
    return _rows(X, kept), _rows(Y, kept), _rows(w, kept)


def _row_slices(X: Matrix, Y: Matrix, place: Place = HOST) -> Iterator[slice]:
    """Slices of rows with about `_BLOCK_ENTRIES` stored numbers each; at least 3d rows, so blocks pay off.

    Rows are dense on a device, and blocks are larger.
    """
    n_rows, n_features = X.shape
    if n_rows == 0:
        raise ValueError("X must have at least one row, got 0. Pass some data.")
    dense = not place.is_host
    entries = sum(M.nnz if is_sparse(M) and not dense else math.prod(M.shape) for M in (X, Y))
    most = _DEVICE_ENTRIES if dense else _BLOCK_ENTRIES
    step = max(3 * n_features, int(most * n_rows / max(entries, 1)), 1)
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def _sparse_if_cheaper(Y: Matrix, n_features: int) -> Matrix:
    """Return Y as a sparse array if it has so few nonzeros that this and XᵀY take less time than a dense XᵀY.

    Most label matrices are like that: with 500 features and 2 % of the labels it takes half the time.
    """
    if is_sparse(Y) or n_features < _MANY_FEATURES or np.count_nonzero(Y) > _FEW_NONZEROS * Y.size:
        return Y
    return sp.csr_array(Y)


def _rows(M: Matrix, rows: slice | Array) -> Matrix:
    """Return some rows of a matrix, or of weights, if there are any."""
    if M is None or (isinstance(rows, slice) and rows.start == 0 and rows.stop >= M.shape[0]):
        return M
    if is_sparse(M):
        return (M if M.format in ("csr", "csc") else M.tocsr())[rows]
    if isinstance(rows, slice):
        return M[rows] if M.ndim == 1 else M[rows, :]
    return take(M, rows)


def _squared(M: Matrix) -> Matrix:
    return M.multiply(M) if is_sparse(M) else M * M


def _as_float64(M: Matrix) -> Matrix:
    return M.astype(np.float64) if is_sparse(M) else Place.of(M).asarray(M, "float64")


def _flat(vector: Matrix) -> Array:
    return np.asarray(vector, dtype=np.float64).ravel() if is_host(vector) else vector


def extremes(M: Matrix) -> tuple[Array, Array]:
    """Least and largest value of every column, in float64."""
    if not is_sparse(M):
        place = Place.of(M)
        return place.asarray(place.xp.min(M, axis=0), "float64"), place.asarray(
            place.xp.max(M, axis=0), "float64"
        )
    return _flat(_dense(M.min(axis=0))), _flat(_dense(M.max(axis=0)))


def _mean_and_variation(M: Matrix, w: Array) -> tuple[Array, Array]:
    """Weighted column means, exact where a column is constant, and which columns are not."""
    low, high = extremes(M)
    xp = namespace(w)
    varies = low != high
    return xp.where(varies, _column_sums(M, w) / (float(xp.sum(w)) or 1.0), high), varies


def _column_sums(M: Matrix, w: Array) -> Array:
    """Weighted sums of columns, in pairs: exact to the last digits, and the same for any address of M.

    BLAS would give other last digits for other addresses, and so would a run on another day. A device sums in
    pairs itself.
    """
    if is_sparse(M):
        return _flat(M.T @ w)
    terms = M * w[:, None]
    if not is_host(M):
        return namespace(M).sum(terms, axis=0)
    while len(terms) > 1:
        half = (len(terms) + 1) // 2
        terms[: len(terms) - half] += terms[half:]
        terms = terms[:half]
    return terms[0]


def _without_far_means(M: Matrix, w: Array, mean: Array) -> tuple[Matrix, Array]:
    """Subtract the means of those columns of a sparse M that are far from zero relative to their spread.

    Σ w m² − (Σ w) m̄² would keep few digits of their spread. Such a column has hardly any zeros, so the
    result takes no more memory than M. Also returns the remaining means.
    """
    if not is_sparse(M):
        return M, mean
    total = float(w.sum())
    squares = _flat(_squared(M).T @ w)
    far = are_far(squares - total * mean**2, squares)
    if not far.any():
        return M, mean
    M = without_means(M, mean, far)
    return M, _flat(M.T @ w) / (total or 1.0)


def are_far(scatter: Array, squares: Array) -> Array:
    """Whether columns are far from zero relative to their spread, given their centred and raw squares."""
    return scatter < _FAR * squares


def without_means(M: Matrix, mean: Array, far: Array) -> Matrix:
    """Subtract the means of those columns of a sparse M that are far from zero."""
    M = M.tocsc()
    order = np.concatenate([np.flatnonzero(~far), np.flatnonzero(far)])
    moved = sp.hstack([M[:, ~far], sp.csc_array(M[:, far].toarray() - mean[far])], format="csc")
    return moved[:, np.argsort(order)]


def _centred_targets(Y: Matrix, w: Array, total: float, y_mean: Array) -> tuple[Matrix, Array, float]:
    """Y minus its mean (a sparse Y stays unchanged), the mean still to be subtracted, and Σ w ‖y − ȳ‖²."""
    if is_sparse(Y):
        raw = float(w @ _flat(_squared(Y).sum(axis=1)))
        return Y, y_mean, max(raw - total * float(y_mean @ y_mean), 0.0)
    Y = Y - y_mean
    return Y, namespace(Y).zeros_like(y_mean), float(w @ row_dots(Y, Y))


def _gram(X: Matrix, weights: Array | None) -> Array:
    root = X if weights is None else scaled_rows(X, namespace(weights).sqrt(weights))
    return dense_product(root.T, root)


def check_range(scatter: Array, varies: Array, total: float) -> None:
    """Reject features whose squares are beyond float64: they would give NaN, or vanish silently."""
    xp = namespace(scatter)
    if not bool(xp.all(xp.isfinite(scatter))):
        raise ValueError(
            "the squares of X must stay below 1e308, got features that overflow. "
            "Divide X by a constant, or scale it with StandardScaler."
        )
    if total > 0 and bool(xp.any(varies & (scatter == 0))):
        raise ValueError(
            "the squares of X must not underflow to 0, got a feature that varies by less than 1e-154. "
            "Multiply X by a constant, or scale it with StandardScaler."
        )


def scaled_rows(M: Matrix, w: Array) -> Matrix:
    """Multiply each row of a matrix by its own number."""
    return sp.diags_array(w) @ M if is_sparse(M) else M * w[:, None]


def dense_product(A: Matrix, B: Matrix) -> Array:
    """Return A B as a dense array; either may be sparse."""
    return _dense(A @ B)


def _dense(product: Matrix) -> Array:
    return (
        product.toarray() if is_sparse(product) else product if not is_host(product) else np.asarray(product)
    )
