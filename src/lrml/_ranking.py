"""Checked labels and scores in blocks, the ranks and counts that metrics share, and `TopK`.

Everything follows the scores: a block lives in their namespace and on their device.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml._shown import shown
from lrml.core.arrays import (
    Array,
    Place,
    as_matrix,
    dense,
    is_host,
    is_sparse,
    namespace,
    plain,
    to_host,
    to_numpy,
)
from lrml.core.checks import check_integer

Matrix: TypeAlias = Any
"""A dense array on any device, a SciPy sparse matrix or array, or a pandas or polars frame."""
Vector: TypeAlias = Array
"""One float64 per example, where the scores are."""
_Counts: TypeAlias = npt.NDArray[np.intp]

# Scores in one block of rows: few enough to stay near the cache, enough for its overhead not to matter.
_BLOCK_ENTRIES = 1 << 18
# On a device: enough to keep it busy, few enough for the dozen arrays of a block to fit into a gigabyte.
_DEVICE_BLOCK_ENTRIES = 1 << 23


class _LabelsAndScores(NamedTuple):
    labels: Array
    scores: Array


class TopK(_LabelsAndScores):
    """The k best labels of every row, best first: a pair of names (or column numbers) and their scores.

    Attributes
    ----------
    labels, scores : array of shape (n, k)
        Scores, and labels unless they are names, live on the device of the rows that were predicted.
    classes : array of shape (L,) or None
        Names of all labels, in the order of their columns, by which metrics find the columns of ``labels``;
        None if these are column numbers.
    """

    classes: npt.NDArray[Any] | None

    def __new__(cls, labels: Array, scores: Array, classes: npt.NDArray[Any] | None = None) -> TopK:
        """Make a pair; the classes are no part of it."""
        found = super().__new__(cls, labels, scores)
        found.classes = classes
        return found

    def _replace(self, **changed: Any) -> TopK:
        return TopK(**(self._asdict() | changed), classes=self.classes)

    def to_frame(self) -> Any:
        """Return a pandas frame, a line for each label: ``row``, ``rank`` (from 1), ``label``, ``score``."""
        import pandas  # noqa: PLC0415 - not needed otherwise

        row, rank = np.indices(self.scores.shape)
        columns = {
            "row": row,
            "rank": rank + 1,
            "label": to_numpy(self.labels),
            "score": to_numpy(self.scores),
        }
        return pandas.DataFrame({name: column.ravel() for name, column in columns.items()})


def float64(array: Array) -> Array:
    """Return an array in double precision; the standard divides no integers."""
    xp = namespace(array)
    return xp.astype(array, xp.float64, copy=False)


def count(which: Array, axis: int) -> Array:
    """How many entries are true along an axis."""
    return namespace(which).count_nonzero(which, axis=axis)


def ratio(numerator: Array, denominator: Array | int) -> Vector:
    """Quotient in float64, NaN where the denominator is 0."""
    if isinstance(denominator, int):
        return float64(numerator) / denominator
    xp, below = namespace(numerator), float64(denominator)
    return float64(numerator) / xp.where(below > 0, below, xp.nan)


class Block:
    """Some rows of Y and S, with the sort that the ranking metrics share, in any namespace and on any device.

    A cell is a place in the sorted rows, counted through the whole block.
    """

    def __init__(self, relevant: Array, scores: Array, known: Array | None = None, cut: Any = None) -> None:
        self.relevant = relevant
        self.scores = scores
        self.known = known  # None if all labels are
        self.cut = cut
        self.n_relevant = count(relevant, axis=1)

    @property
    def n_known(self) -> Any:
        """How many labels of each row are known: one number if all are."""
        return self.scores.shape[1] if self.known is None else count(self.known, axis=1)

    def answered(self, values: Vector) -> Vector:
        """Return values of the rows, NaN for a row without known labels."""
        if self.known is None:
            return values
        xp = namespace(values)
        return xp.where(self.n_known > 0, values, xp.nan)

    @cached_property
    def predicted(self) -> Array:
        """Which of the known labels are predicted: those whose scores reach the cut."""
        return self._known_ones(self.scores >= self.cut)

    @cached_property
    def row_counts(self) -> Counts:
        """The counts of each row."""
        return Counts.of(self.relevant, self.predicted, axis=1)

    @cached_property
    def columns(self) -> Array:
        """Columns by decreasing score, the lower one first among equals."""
        # The sum makes one zero of both, which a sort by bits would tell apart.
        xp = namespace(self.scores)
        return xp.argsort(self.scores + 0.0, axis=1, descending=True, stable=True)

    def top(self, k: int) -> Array:
        """Which of the known labels are among the k with the largest scores."""
        place = namespace(self.columns).argsort(self.columns, axis=1)
        return self._known_ones(place < k)

    def counts_at(self, k: int) -> Counts:
        """Count for each label what the k with the largest scores in every row come to."""
        return Counts.of(self.relevant, self.top(k), axis=0)

    def _known_ones(self, cells: Array) -> Array:
        return cells if self.known is None else cells & self.known

    @cached_property
    def by_score(self) -> tuple[Array, Array]:
        """Relevance by decreasing score, in any order among equals; and where a new score begins."""
        xp = namespace(self.scores)
        descending = xp.take_along_axis(self.scores, self.columns, axis=1)
        begins = xp.ones_like(self.relevant)
        begins[:, 1:] = descending[:, 1:] != descending[:, :-1]
        return xp.take_along_axis(self.relevant, self.columns, axis=1), begins

    @cached_property
    def hits(self) -> Array:
        """Relevance by decreasing score, lower index first among equals."""
        return self.by_score[0]

    @cached_property
    def _cells(self) -> Array:
        xp, device = Place.of(self.scores)
        return xp.arange(self.scores.shape[0] * self.scores.shape[1], dtype=xp.int64, device=device)

    def sum_over_relevant(self, values: Array) -> Vector:
        """Sum, for each row, what the relevant labels have in an array of the form of the ranks."""
        xp, (hits, _) = namespace(values), self.by_score
        return xp.sum(xp.reshape(values, hits.shape) * float64(hits), axis=1)

    @cached_property
    def ranks(self) -> tuple[Array, Array, Array]:
        """Three ranks of each label, from 1, as `sum_over_relevant` takes them, row by row and descending.

        Among the relevant labels of its row, and the first and the last among the labels of equal score.
        """
        xp, device = Place.of(self.scores)
        hits, begins = (xp.reshape(part, (-1,)) for part in self.by_score)
        end = xp.asarray([hits.shape[0]], dtype=xp.int64, device=device)
        # A new score begins with every row, so no tie spans two.
        bounds = xp.concat([xp.astype(xp.nonzero(begins)[0], xp.int64), end])
        tie = self._count_before(begins, self._cells + 1)
        first, stop = xp.take(bounds, tie - 1), xp.take(bounds, tie)
        row = self._cells // self.scores.shape[1]
        row_start = row * self.scores.shape[1]
        found = self._count_before(hits, stop) - xp.take(
            xp.cumulative_sum(self.n_relevant) - self.n_relevant, row
        )
        return float64(found), float64(first - row_start + 1), float64(stop - row_start)

    def _count_before(self, which: Array, places: Array) -> Array:
        """How many entries are true before each place."""
        xp = namespace(which)
        running = xp.cumulative_sum(xp.astype(which, xp.uint8), dtype=xp.int64, include_initial=True)
        return xp.take(running, places)


class HostBlock(Block):
    """Some rows in NumPy, where few entries cost less than whole arrays: only relevant cells have ranks."""

    @cached_property
    def by_score(self) -> tuple[Array, Array]:
        if self.scores.dtype == np.float32:
            # Sorting numbers takes less time than sorting places: relevance goes along as their last bit.
            bits = (0.0 - self.scores).view(np.int32)  # a difference is never −0
            bits ^= bits >> 31 & np.iinfo(np.int32).max  # of negative numbers, the larger ones come first
            ascending = bits.astype(np.int64)
            ascending <<= 1
            ascending |= self.relevant
            ascending.sort(axis=1)
            hits = (ascending & 1).astype(np.bool_)
            ascending >>= 1
        else:
            order = np.argsort(-self.scores, axis=1)
            ascending = np.take_along_axis(-self.scores, order, axis=1)
            hits = np.take_along_axis(self.relevant, order, axis=1)
        begins = np.ones(hits.shape, dtype=np.bool_)
        np.not_equal(ascending[:, 1:], ascending[:, :-1], out=begins[:, 1:])
        return hits, begins

    @cached_property
    def hits(self) -> Array:
        hits, begins = self.by_score
        # A stable sort takes at least twice as long as the default one, and only rows with ties need it.
        tied = ~begins.all(axis=1)
        order = np.argsort(-self.scores[tied], axis=1, kind="stable")
        hits = hits.copy()
        hits[tied] = np.take_along_axis(self.relevant[tied], order, axis=1)
        return hits

    @cached_property
    def _cells(self) -> Array:
        return np.flatnonzero(self.by_score[0])

    def _count_before(self, which: Array, places: Array) -> Array:
        return places if which.all() else np.searchsorted(np.flatnonzero(which), places)

    def sum_over_relevant(self, values: Array) -> Vector:
        row = np.repeat(np.arange(len(self.n_relevant)), self.n_relevant)
        return np.bincount(row, weights=values, minlength=len(self.n_relevant))


class TopRows:
    """Rows of which only the best labels are known, as a block for metrics at k, on the host."""

    def __init__(self, relevant: Any, columns: _Counts, hits: npt.NDArray[np.bool_]) -> None:
        self.relevant = relevant  # dense or CSR
        self.columns = columns
        self.hits = hits
        self.n_relevant = np.asarray((relevant != 0).sum(axis=1)).ravel()

    def answered(self, values: Vector) -> Vector:
        """Return values of the rows: all labels are known."""
        return values

    def counts_at(self, k: int) -> Counts:
        """Count for each label what the k best ones in every row come to."""
        columns, n_labels = self.columns[:, :k], self.relevant.shape[1]
        hits, predicted = (
            np.bincount(c, minlength=n_labels) for c in (columns[self.hits[:, :k]], columns.ravel())
        )
        return Counts(hits, predicted, np.asarray((self.relevant != 0).sum(axis=0)).ravel())


class LabelledScores(NamedTuple):
    """Labels (dense or CSR), 0 where unknown, dense scores of the same shape, and where they are cut."""

    labels: Any
    scores: Array
    unknown: Any = None  # None if all are known, else of bool, dense or CSR
    cut: Any = None

    @property
    def n_labels(self) -> int:
        return int(self.scores.shape[1])

    def over(self, what: str) -> LabelledScores:
        """Return the same cells with a row for each row, for each label, or with one for all "cells"."""
        if what == "rows":
            return self
        cells = self[:3]
        if what == "labels":
            return LabelledScores(*(part if part is None else _csr_or_dense(part.T) for part in cells))
        shape = 1, math.prod(self.scores.shape)
        return LabelledScores(*(None if part is None else _reshaped(part, shape) for part in cells))

    def blocks(self) -> Iterator[Block]:
        """Check and yield blocks of rows, the only place where sparse labels become dense."""
        place = Place.of(self.scores)
        kind, entries = (HostBlock, _BLOCK_ENTRIES) if place.is_host else (Block, _DEVICE_BLOCK_ENTRIES)
        n_rows, size = self.scores.shape[0], max(1, entries // self.n_labels)
        for start in range(0, n_rows, size):
            rows = slice(start, min(start + size, n_rows))
            labels, scores = self.labels[rows, :], self.scores[rows, :]
            relevant = _check_binary(dense(labels), start)
            _check_cells(place.xp.isfinite(scores), scores, start, "S must be finite", "Impute or drop it.")
            known = None if self.unknown is None else ~place.asarray(dense(self.unknown[rows, :]))
            if known is not None:  # ranked below all others, they push no other label down
                scores = place.xp.where(known, scores, -np.inf)
            yield kind(place.asarray(relevant), scores, known, self.cut)


def _csr_or_dense(matrix: Any) -> Any:
    return matrix.tocsr() if is_sparse(matrix) else matrix


def _reshaped(matrix: Any, shape: tuple[int, int]) -> Any:
    if is_sparse(matrix):
        return matrix.tocoo().reshape(shape).tocsr()
    return namespace(matrix).reshape(matrix, shape)


class Counts(NamedTuple):
    """How many cells are hits, predicted and relevant: of each row, of each label, or of all together.

    Shares of nothing are 0, as with scikit-learn's ``zero_division=0``.
    """

    hits: Any
    predicted: Any
    relevant: Any

    @classmethod
    def of(cls, relevant: Array, predicted: Array, axis: int = 0) -> Counts:
        return cls(*(count(cells, axis=axis) for cells in (relevant & predicted, predicted, relevant)))

    @classmethod
    def total(cls, parts: Iterable[Counts]) -> Counts:
        """Add up the counts of blocks, and bring the sums to the host."""
        return cls(*to_numpy(sum((namespace(*part).stack(part) for part in parts), start=0)))

    @property
    def together(self) -> Counts:
        """The counts of all labels together."""
        return Counts(*(part.sum(axis=0) for part in self))

    @property
    def precision(self) -> Any:
        return _share(self.hits, self.predicted)

    @property
    def recall(self) -> Any:
        return _share(self.hits, self.relevant)

    @property
    def f1(self) -> Any:
        return _share(2 * self.hits, self.predicted + self.relevant)

    @property
    def jaccard(self) -> Any:
        return _share(self.hits, self.predicted + self.relevant - self.hits)

    @property
    def wrong(self) -> Any:
        """False positives and false negatives."""
        return self.predicted + self.relevant - 2 * self.hits


def _share(part: Any, whole: Any) -> Any:
    xp, below = namespace(part), float64(whole)
    return float64(part) / xp.where(below > 0, below, 1.0)


def top_rows(Y: Matrix, top: TopK, k: int) -> TopRows:
    """Return the k best labels of every row beside the labels of these rows, on the host."""
    columns, labels = np.asarray(to_host(top.labels)), as_labels(Y)
    if labels.ndim != 2 or columns.ndim != 2 or len(columns) != labels.shape[0] or columns.size == 0:
        raise ValueError(
            f"Y is {tuple(labels.shape)}, best labels {columns.shape}. Pass labels of the same rows."
        )
    n_labels = labels.shape[1]
    if check_integer("k", k, 1, n_labels) > columns.shape[1]:
        raise ValueError(f"k is {k}, but only {columns.shape[1]} were predicted. Call predict_top_k(X, {k}).")
    names = _names_of_columns(top, getattr(Y, "columns", None), n_labels)
    if names is not None:
        place = {name: column for column, name in enumerate(names)}
        columns = np.array([[place.get(name, -1) for name in row] for row in columns.tolist()])
    if columns.dtype.kind not in "iu" or columns.min() < 0 or columns.max() >= n_labels:
        one = shown(to_host(top.labels).ravel()[0])
        rule = f"by name or by a number below {n_labels}. Pass the Y, or the frame, that the model knows"
        raise ValueError(f"the best labels, such as {one}, are not all columns of Y, {rule}.")
    chosen, home = columns[:, :k], Place.of(labels)
    if home.is_host:
        found = labels[np.arange(len(chosen))[:, None], chosen]
        found = found.toarray() if is_sparse(found) else found
    else:
        found = to_numpy(home.xp.take_along_axis(labels, home.asarray(chosen, "int64"), axis=1))
    return TopRows(to_host(labels), chosen, _check_binary(found, 0))


def _names_of_columns(top: TopK, frame: Any, n_labels: int) -> list[Any] | None:
    """Return what the columns of Y are called, in a frame or else by the model; None if by their numbers."""
    classes = None if top.classes is None else np.asarray(to_host(top.classes)).tolist()
    if classes == list(range(n_labels)) or (classes is None and to_host(top.labels).dtype.kind in "iu"):
        return None
    names = [] if frame is None else list(frame)
    if classes is None or set(classes) <= set(names) or any(isinstance(name, str) for name in names):
        return names
    return classes if len(classes) == n_labels else []


def _check_binary(labels: Array, start: int) -> Array:
    """Return which of the labels of some rows are 1; the others are 0."""
    relevant = labels == 1
    _check_cells(relevant | (labels == 0), labels, start, "Y must hold only 0 and 1", "Binarise it.")
    return relevant


def _check_cells(valid: Array, values: Array, start: int, rule: str, remedy: str) -> None:
    xp = namespace(valid)
    if not xp.all(valid):
        row, column = (int(places[0]) for places in xp.nonzero(~valid))
        found = to_numpy(values[row, column])
        raise ValueError(f"{rule}, got {found} at row {start + row}, column {column}. {remedy}")


def check_labelled_scores(Y: Matrix, S: Matrix) -> LabelledScores:
    if is_sparse(S):
        raise TypeError(f"S is a sparse {type(S).__name__}. Pass S.toarray().")
    labels, scores = as_labels(Y), _as_array(S, "S")
    if labels.shape != scores.shape or scores.ndim != 2 or 0 in scores.shape:
        shapes = f"{tuple(labels.shape)} and {tuple(scores.shape)}"
        raise ValueError(f"Y and S have the shapes {shapes}. Pass one row per example, one column per label.")
    floating = namespace(scores).isdtype(scores.dtype, "real floating")
    return LabelledScores(labels, scores if floating else float64(scores))


def as_labels(Y: Matrix) -> Any:
    """Return labels as a CSR matrix or as an array, where they are."""
    Y = plain(Y, "Y")
    Y = as_matrix(Y) if is_host(Y) else Y
    return Y.tocsr() if is_sparse(Y) else _as_array(Y, "Y")


def _as_array(value: Matrix, name: str) -> Array:
    array = np.asarray(value) if is_host(value) else plain(value, name)
    if is_host(array) and array.dtype.kind == "O":  # nullable columns of a frame
        with suppress(TypeError, ValueError):
            array = array.astype(np.float64)
    xp = namespace(array)
    if xp.isdtype(array.dtype, "bool"):
        return xp.astype(array, xp.uint8)  # the standard compares no truth value with 0 or 1
    if not xp.isdtype(array.dtype, ("integral", "real floating")):
        raise TypeError(f"{name} has the dtype {array.dtype}. Fill missing values, and convert to float.")
    return array


def check_threshold(threshold: Any, data: LabelledScores) -> Array:
    """Return a threshold where the scores are, and in their precision, which NumPy may lack.

    None is 0.5 for scores in [0, 1]; others have no cut of their own.
    """
    place = Place.of(data.scores)
    if threshold is None:
        xp, threshold = place.xp, 0.5
        low, high = (float(end) for end in (xp.min(data.scores), xp.max(data.scores)))
        if math.isfinite(high - low) and (low < 0 or high > 1):
            raise ValueError(
                f"threshold is not given, but scores from {low:.4g} to {high:.4g} are no probabilities, and "
                "where to cut them is for the model to say. Pass the model and its rows, "
                "evaluate(model, X, Y), or threshold=model.threshold_."
            )
    cut: npt.NDArray[Any] = np.asarray(to_host(threshold), data.scores.dtype if place.is_host else np.float64)
    if cut.shape not in ((), (data.n_labels,)) or np.isnan(cut).any():
        raise ValueError(
            f"threshold is {shown(threshold)}. Pass a number, or {data.n_labels}, none of them NaN."
        )
    return place.xp.astype(place.asarray(cut), data.scores.dtype, copy=False)
