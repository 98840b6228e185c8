"""Rows of labels and scores in blocks, validated, with the ranks that the metrics share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml._arrays import as_matrix, is_sparse
from lrml._checks import is_integer
from lrml._shown import shown

Matrix: TypeAlias = Any
"""A dense array, a SciPy sparse matrix or array, or a pandas or polars frame."""

Vector: TypeAlias = npt.NDArray[np.float64]
_Bools: TypeAlias = npt.NDArray[np.bool_]
_Counts: TypeAlias = npt.NDArray[np.intp]

# Scores in one block of rows: few enough to stay near the cache through the sort and later passes, enough for
# the overhead of a block not to matter.
_BLOCK_ENTRIES = 1 << 18


class _LabelsAndScores(NamedTuple):
    labels: npt.NDArray[Any]
    scores: npt.NDArray[np.floating[Any]]


class TopK(_LabelsAndScores):
    """The k best labels of every row, best first: a pair of names (or column numbers) and their scores.

    Attributes
    ----------
    labels, scores : array of shape (n, k)
    classes : array of shape (L,) or None
        Names of all labels, in the order of their columns, by which metrics find the columns of ``labels``;
        None if these are column numbers.
    """

    classes: npt.NDArray[Any] | None

    def __new__(
        cls,
        labels: npt.NDArray[Any],
        scores: npt.NDArray[np.floating[Any]],
        classes: npt.NDArray[Any] | None = None,
    ) -> TopK:
        """Make a pair; the classes are no part of it."""
        found = super().__new__(cls, labels, scores)
        found.classes = classes
        return found

    def _replace(self, **changed: Any) -> TopK:
        return TopK(**(self._asdict() | changed), classes=self.classes)


class Ranks(NamedTuple):
    """One entry per relevant label of a block, row by row and by decreasing score; ranks count from 1."""

    row: _Counts
    found: _Counts  # relevant labels of the row that score as much or more
    best: _Counts  # first rank among the labels of equal score
    worst: _Counts  # last rank among the labels of equal score


class Block:
    """Some rows of Y and S, with the sort that the ranking metrics share."""

    def __init__(self, relevant: _Bools, scores: npt.NDArray[Any]) -> None:
        self.relevant = relevant
        self.scores = scores
        self.n_relevant: _Counts = np.count_nonzero(relevant, axis=1)

    @cached_property
    def by_score(self) -> tuple[_Bools, _Bools]:
        """Relevance by decreasing score, lower index first among equals; and where a new score begins."""
        negated = -self.scores
        order = np.argsort(negated, axis=1)
        ascending = np.take_along_axis(negated, order, axis=1)
        begins = np.ones(order.shape, dtype=np.bool_)
        np.not_equal(ascending[:, 1:], ascending[:, :-1], out=begins[:, 1:])
        # A stable sort takes at least twice as long as the default one, and only rows with ties need it.
        tied = ~begins.all(axis=1)
        order[tied] = np.argsort(negated[tied], axis=1, kind="stable")
        return np.take_along_axis(self.relevant, order, axis=1), begins

    @cached_property
    def ranks(self) -> Ranks:
        """Ranks of the relevant labels."""
        # Cells are counted through the whole block. A new score begins with every row, so no tie spans two.
        n_labels = self.scores.shape[1]
        row = np.repeat(np.arange(len(self.n_relevant)), self.n_relevant)
        in_earlier_rows = np.cumsum(self.n_relevant) - self.n_relevant
        if self.scores.dtype == np.float32:
            # Sorting numbers takes a fraction of sorting places; with rows in front, one search is enough.
            negated = -self.scores
            relevant = np.sort(_row_and_order(negated[self.relevant], row))
            negated.sort(axis=1)
            keys = _row_and_order(negated, np.arange(len(negated))[:, None]).ravel()
            first, stop = (np.searchsorted(keys, relevant, side=side) for side in ("left", "right"))
            found = np.searchsorted(relevant, relevant, side="right")
        else:
            hits, begins = self.by_score
            cells = np.flatnonzero(hits)
            bounds = np.append(np.flatnonzero(begins), hits.size)
            tie = np.searchsorted(bounds, cells, side="right")
            first, stop = bounds[tie - 1], bounds[tie]
            found = np.searchsorted(cells, stop)
        before = row * n_labels
        return Ranks(row, found - in_earlier_rows[row], first - before + 1, stop - before)


def _row_and_order(scores: npt.NDArray[np.float32], row: _Counts) -> npt.NDArray[np.int64]:
    """Return integers in the order of the rows and, within each, in the order of the scores."""
    bits = (scores + np.float32(0.0)).view(np.int32).astype(np.int64)  # the sum makes one zero of both
    order = np.where(bits < 0, np.int64(np.iinfo(np.int32).min) - bits, bits)
    order += row << 33
    return order


def ratio(numerator: npt.NDArray[Any], denominator: _Counts | int) -> Vector:
    """Quotient in float64, NaN where the denominator is 0."""
    quotient = np.full(len(numerator), np.nan)
    np.divide(numerator, denominator, out=quotient, where=np.greater(denominator, 0))
    return quotient


class LabelledScores(NamedTuple):
    """Labels (dense or CSR) and dense scores of the same shape."""

    labels: Any
    scores: npt.NDArray[Any]

    @property
    def n_labels(self) -> int:
        return int(self.scores.shape[1])

    def blocks(self) -> Iterator[Block]:
        """Check and yield blocks of rows, the only place where sparse labels become dense."""
        size = max(1, _BLOCK_ENTRIES // self.n_labels)
        for start in range(0, len(self.scores), size):
            labels, scores = self.labels[start : start + size], self.scores[start : start + size]
            if is_sparse(self.labels):
                labels = labels.toarray()
            relevant = labels == 1
            _check_cells(relevant | (labels == 0), labels, start, "Y must hold only 0 and 1", "Binarise it.")
            _check_cells(np.isfinite(scores), scores, start, "S must be finite", "Impute or drop it.")
            yield Block(relevant, scores)


Measure: TypeAlias = Callable[[Block], Vector]


def measure(data: LabelledScores, *measures: Measure) -> list[Vector]:
    """Per-example values of each measure, over all the blocks."""
    values = [[measure(block) for measure in measures] for block in data.blocks()]
    return [np.concatenate(column) for column in zip(*values, strict=True)]


class LabelCounts(NamedTuple):
    """Counts per label: what the F1 measures and the Hamming loss need from a prediction."""

    hits: _Counts  # true positives
    predicted: _Counts  # true and false positives
    positives: _Counts  # true positives and false negatives

    @classmethod
    def of(cls, relevant: npt.NDArray[np.bool_], predicted: npt.NDArray[np.bool_]) -> LabelCounts:
        cells = relevant & predicted, predicted, relevant
        return cls(*(np.count_nonzero(which, axis=0) for which in cells))

    @property
    def wrong(self) -> int:
        """False positives and false negatives over all labels."""
        return int(np.sum(self.predicted + self.positives - 2 * self.hits))

    @property
    def micro_f1(self) -> float:
        # If the denominator is 0, so are the hits: 1 in its place makes the quotient 0.
        return float(2 * self.hits.sum() / max(int(self.predicted.sum() + self.positives.sum()), 1))

    @property
    def macro_f1(self) -> float:
        return float(np.mean(2 * self.hits / np.maximum(self.predicted + self.positives, 1)))


def count_labels(Y: Matrix, S: Matrix, threshold: npt.ArrayLike) -> LabelCounts:
    data = check_labelled_scores(Y, S)
    cut = check_threshold(threshold, data)
    total = np.zeros((len(LabelCounts._fields), data.n_labels), dtype=np.intp)
    for block in data.blocks():
        total += LabelCounts.of(block.relevant, block.scores >= cut)
    return LabelCounts(*total)


def hits_of(Y: Matrix, top: TopK, k: int) -> tuple[_Counts, _Bools]:
    """Return the columns of the k best labels of every row, and whether they are relevant."""
    names = getattr(Y, "columns", None)
    labels, Y = np.asarray(top.labels), as_matrix(Y)
    Y = Y.tocsr() if is_sparse(Y) else _as_array(Y, "Y")
    if Y.ndim != 2 or labels.ndim != 2 or len(labels) != Y.shape[0] or labels.size == 0:
        raise ValueError(
            "Y must have one row for every row of the best labels, and at least one, got shapes "
            f"{Y.shape} and {labels.shape}. Pass the labels of the rows that were predicted."
        )
    if labels.shape[1] < k:
        raise ValueError(
            f"k must be at most {labels.shape[1]}, as many labels as were predicted, got {k}. "
            f"Call predict_top_k(X, {k})."
        )
    order = _order_of(top, names, Y.shape[1])
    if order is not None:
        place = {name: column for column, name in enumerate(order)}
        labels = np.array([[place.get(name, -1) for name in row] for row in labels.tolist()])
    if labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= Y.shape[1]:
        raise ValueError(
            f"the best labels must be columns of Y, by name or by a number below {Y.shape[1]}, got "
            f"{shown(top.labels.ravel()[0])} and others. Pass the Y, or the frame, that the model knows."
        )
    found = Y[np.arange(len(labels))[:, None], labels[:, :k]]
    found = found.toarray() if is_sparse(found) else found
    _check_cells((found == 0) | (found == 1), found, 0, "Y must hold only 0 and 1", "Binarise it.")
    return labels[:, :k], np.asarray(found == 1)


def _order_of(top: TopK, names: Any, n_labels: int) -> list[Any] | None:
    """Return the names of the columns of Y, those of a frame first; None if the best labels are numbers."""
    if top.classes is None and np.asarray(top.labels).dtype.kind in "iu":
        return None
    classes = None if top.classes is None else np.asarray(top.classes).tolist()
    if classes == list(range(n_labels)):
        return None
    named = [] if names is None else list(names)
    if classes is not None and not set(classes) <= set(named) and not any(isinstance(n, str) for n in named):
        return classes if len(classes) == n_labels else []
    return named


def _check_cells(valid: _Bools, values: npt.NDArray[Any], start: int, rule: str, remedy: str) -> None:
    if not valid.all():
        row, column = np.argwhere(~valid)[0]
        raise ValueError(f"{rule}, got {values[row, column]} at row {start + row}, column {column}. {remedy}")


def check_labelled_scores(Y: Matrix, S: Matrix) -> LabelledScores:
    if is_sparse(S):
        raise TypeError(f"S must be dense, got a sparse {type(S).__name__}. Pass S.toarray().")
    Y = as_matrix(Y)
    labels: Any = Y if is_sparse(Y) else _as_array(Y, "Y")
    scores = _as_array(S, "S")
    if labels.shape != scores.shape or scores.ndim != 2 or scores.size == 0:
        raise ValueError(
            "Y and S must be of the same shape (n, L), with at least one row and one label, "
            f"got {labels.shape} and {scores.shape}. Pass one row per example and one column per label."
        )
    if is_sparse(Y):
        labels = labels.tocsr()
    return LabelledScores(labels, scores if scores.dtype.kind == "f" else scores.astype(np.float64))


def _as_array(value: Matrix, name: str) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = np.asarray(value)
    if array.dtype.kind == "O":  # nullable columns of a frame
        with suppress(TypeError, ValueError):
            array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"{name} must hold real numbers and no missing values, got dtype {array.dtype}. "
            "Fill or drop missing values and convert the others with astype(float)."
        )
    return array


def check_k(k: Any, n_labels: int, name: str) -> int:
    if not is_integer(k):
        raise TypeError(
            f"{name} must be an integer in [1, {n_labels}], got {k!r}. Pass a number of labels such as 1."
        )
    if not 1 <= int(k) <= n_labels:
        raise ValueError(
            f"{name} must be in [1, {n_labels}] (the number of labels), got {k}. "
            f"Choose a number of labels in that range, such as {min(5, n_labels)}."
        )
    return int(k)


def check_threshold(threshold: npt.ArrayLike, data: LabelledScores) -> npt.NDArray[Any]:
    cut: npt.NDArray[Any] = np.asarray(threshold, dtype=data.scores.dtype)
    if cut.shape not in ((), (data.n_labels,)) or np.isnan(cut).any():
        raise ValueError(
            f"threshold must be a number or {data.n_labels} numbers (one per label) and not NaN, "
            f"got {shown(threshold)}. Pass 0.5, or one threshold for each column of S."
        )
    return cut
