"""Small models of sparse text: of the coefficients only the largest are kept, by one threshold over |w|.

A threshold for the whole matrix keeps more of frequent labels, which have more to say, than the best number
of coefficients for each label would. docs/text.md has what that costs and brings.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

from lrml._shown import shown
from lrml.core.arrays import is_sparse
from lrml.core.checks import check_integer, check_number
from lrml.metrics import label_ranking_average_precision

Blocks: TypeAlias = Iterable[tuple[Any, npt.NDArray[Any]]]
"""Columns of a matrix in blocks: which (a slice, or their numbers), and a dense array of them."""
# Bytes of a model that is small anyway; binary digits of |w| that the bins have in which squares are summed.
SMALL, _DIGITS = 1 << 20, 6
# What "auto" may change: the mean, in standard errors, and rows, in standard deviations; one of how many
# coefficients it begins with, and the steps it takes.
_MOST_FALLEN, _MOST_CHANGED, _FIRST, _NEXT = 0.1, 1 / 7, 4, 0.8


class Whole:
    """A matrix that comes in blocks of columns."""

    def __init__(self) -> None:
        self._parts: list[tuple[Any, npt.NDArray[Any]]] = []

    def add(self, columns: Any, block: npt.NDArray[Any]) -> None:
        """Take a block."""
        self._parts.append((columns, block))

    def matrix(self, shape: tuple[int, int]) -> npt.NDArray[Any]:
        """Return the matrix, 0 where no block has come."""
        found = np.zeros(shape, self._parts[0][1].dtype)
        while self._parts:
            columns, block = self._parts.pop()
            found[:, columns] = block
        return found


class Largest:
    """The largest entries of a matrix (d × L) that comes in blocks of columns: at most ``count`` of them.

    Of equal ones at the threshold none is kept, so the order of the blocks does not matter. In memory are
    at most twice as many as are kept, and those of one block.
    """

    def __init__(self, count: int, threshold: float = 0.0) -> None:
        self.count, self.threshold = count, threshold
        self._parts: list[tuple[npt.NDArray[Any], ...]] = []
        self._held = 0

    def add(self, columns: Any, block: npt.NDArray[Any]) -> None:
        """Take the entries of a block beyond the threshold."""
        rows, places = np.nonzero(np.abs(block) > self.threshold)
        numbers = np.arange(columns.start, columns.stop) if isinstance(columns, slice) else columns
        self._parts.append((block[rows, places], rows.astype(np.int32), numbers[places].astype(np.int32)))
        self._held += len(rows)
        if self._held > 2 * self.count:
            self._prune()

    def _prune(self) -> None:
        """Raise the threshold to the first entry that has no room."""
        parts = [np.concatenate(part) for part in zip(*self._parts, strict=True)]
        if len(parts[0]) > self.count:
            size = np.abs(parts[0])
            self.threshold = float(np.partition(size, len(size) - self.count - 1)[-self.count - 1])
            kept = size > self.threshold
            parts = [part[kept] for part in parts]
        self._parts, self._held = [tuple(parts)], len(parts[0])

    def matrix(self, shape: tuple[int, int]) -> sp.csr_array:
        """Return what is kept, by rows."""
        self._prune()
        data, rows, columns = self._parts[0]
        found = sp.csr_array((data, (rows, columns)), shape=shape)
        found.sort_indices()
        return found


def largest(
    blocks: Callable[[], Blocks],
    shape: tuple[int, int],
    n_weights: int | None = None,
    loss: float | None = None,
    threshold: float | None = None,
) -> sp.csr_array:
    """Return the largest entries: so many, as few as leave out this share of the squares, or those beyond."""
    if loss is not None:
        threshold = _threshold(blocks(), loss)
    kept = Largest(n_weights or math.prod(shape), threshold or 0.0)
    for columns, block in blocks():
        kept.add(columns, block)
    return kept.matrix(shape)


def threshold_for(fitted: Any, X: Any, Y: Any, known: Any = None) -> float | None:
    """Return the largest threshold that changes next to nothing on rows that a fit has not seen, or None.

    Their mean label ranking average precision may fall by a tenth of its standard error, and its values for
    the rows may change by a seventh of their standard deviation. (That of the changes counts because metrics
    of decisions suffer where many rows change, even if their mean does not.) Tried are fewer and fewer
    coefficients, from a quarter of all on.
    """

    def quality(fit: Any) -> npt.NDArray[np.float64]:
        scores = fit.scores(X)
        if known is not None:  # ranked below all others, unknown labels neither count nor push one down
            scores = np.where(known, scores, scores.min() - 1.0)
        found: npt.NDArray[np.float64] = label_ranking_average_precision(Y, scores, per_example=True)
        return found[np.isfinite(found)]

    whole, best = quality(fitted), None
    if len(whole) < 2:
        return None
    spread = float(whole.std(ddof=1))

    def changed_little(fit: Any) -> bool:
        change = quality(fit) - whole
        fallen = -float(change.mean()) * math.sqrt(len(whole))
        return fallen <= _MOST_FALLEN * spread and float(change.std(ddof=1)) <= _MOST_CHANGED * spread

    kept = fitted.pruned(n_weights=math.prod(fitted.shape) // _FIRST)
    sizes = np.sort(np.abs(kept.weights.data))[::-1]
    count = len(
        sizes
    )  # fewer than asked for, if some at the threshold are equal: words that only come together
    while count and changed_little(kept):
        best, count = float(np.nextafter(sizes[count - 1], 0.0)), int(_NEXT * count)
        W = kept.weights.copy()
        W.data[np.abs(W.data) < sizes[max(count - 1, 0)]] = 0.0
        W.eliminate_zeros()
        kept = replace(kept, weights=W)
    return best


def _threshold(blocks: Blocks, loss: float) -> float:
    """Return a size such that the entries up to it have at most this share of all squares."""
    shift = np.finfo(np.float64).nmant - _DIGITS
    squares = np.zeros((1 << 63) >> shift)  # in units of their powers of 4, which could overflow or vanish
    for _, block in blocks:
        size = np.abs(block).astype(np.float64).ravel()
        squares += np.bincount(size.view(np.int64) >> shift, np.frexp(size)[0] ** 2, len(squares))
    powers, used = np.arange(len(squares)) >> _DIGITS, np.flatnonzero(squares)
    if not used.size:
        return 0.0
    lost = np.cumsum(np.ldexp(squares, 2 * (powers - powers[used[-1]])))
    last = int(np.searchsorted(lost, loss * lost[-1], side="right"))  # the first bin that is kept
    edge = np.array([last << shift]).view(np.float64)[0]
    return np.nextafter(edge, 0.0)  # type: ignore[no-any-return]  # not a float: one would be rounded to blocks


def blocks_of(matrix: Any, *, right: Any = None, most: int = 1 << 24) -> Iterator[tuple[slice, Any]]:
    """Yield a dense or sparse matrix, or its product with ``right``, in blocks of columns."""
    width = (matrix if right is None else right).shape[1]
    step = max(1, most // matrix.shape[0])
    for start in range(0, width, step):
        columns = slice(start, min(start + step, width))
        block: Any = matrix[:, columns] if right is None else matrix @ right[:, columns]
        yield columns, block.toarray() if is_sparse(block) else block


class Changeable:
    """Copies of a fitted model with another record of the fit: fewer coefficients, other names."""

    def pruned(self: Any, n_weights: int | None = None, *, loss: float | None = None) -> Any:
        """Return a copy of a linear model that keeps only its largest coefficients.

        One threshold over |w| serves the whole matrix. Then ``coef_`` is sparse, there are no factors, and
        scores are sparse products. On sparse text a small share of the coefficients predicts as all of them
        do, where a low rank would not; for dense features take a low rank (docs/text.md). Intercepts, cuts
        and what makes probabilities of scores stay: a fit with ``prune=n_weights`` chooses them anew.

        Parameters
        ----------
        n_weights : int, optional
            At most so many are kept.
        loss : float, optional
            The share of ‖coef_‖²_F, in [0, 1), that may be left out; by as few coefficients as that takes,
            up to a binary digit.

        Examples
        --------
        >>> from lrml import MLFro
        >>> from lrml.datasets import load_yeast
        >>> model = MLFro(10.0).fit(*load_yeast().train).pruned(500)
        >>> model.coef_.nnz, model.coef_.shape
        (500, (14, 103))
        """
        check_is_fitted(self)
        if self.fitted_.kernel is not None:
            raise ValueError(
                f"pruned needs kernel='linear': coefficients of {shown(self.fitted_.kernel.metric)} belong "
                "to rows. Use features of sklearn.kernel_approximation.Nystroem."
            )
        if (n_weights is None) == (loss is None):
            raise ValueError("pruned takes either n_weights or loss. Pass n_weights=1_000_000, or loss=0.1.")
        if n_weights is not None:
            n_weights = check_integer("n_weights", n_weights)
        else:
            loss = check_number("loss", loss, below=1.0)
        return self.to_numpy()._changed(lambda fit: fit.pruned(n_weights, loss))

    def _rename(self: Any, features: Any = None, labels: Any = None) -> None:
        """Give features and labels the names that a fit on frames would have stored."""
        self.__dict__.update(vars(self._changed(lambda fit: fit.named(features, labels))))

    def _unnamed(self: Any) -> Any:
        """Return a copy that takes arrays without a warning about the names of its features."""
        return self._changed(lambda fit: replace(fit, schema=replace(fit.schema, feature_names=None)))

    def _changed(self: Any, change: Callable[[Any], Any]) -> Any:
        """Return a copy with another record of the fit."""
        twin = copy(self)
        twin.fitted_ = change(self.fitted_)
        return twin
