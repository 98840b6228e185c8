"""Scores of linear models by the cheaper of two ways, and the best labels of every row of scores."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.metrics import r2_score
from sklearn.pipeline import Pipeline

from lrml._ranking import TopK
from lrml._shown import shown
from lrml.core.arrays import Array, Place, dtype_name, full_precision, is_host, is_sparse, namespace
from lrml.core.coordinates import SPARSE_COST
from lrml.core.linalg import Factors

Scores = Array
"""Real scores, of NumPy or where a model on a device is."""
Parts = Iterable[tuple[slice, Scores]]
"""Scores of some rows, in blocks of labels: those of a slice of the labels, in order."""

# Partition and stable sort take the same time if k is a third to a half of the labels.
_SORT_FROM = 1 / 3


def _cost(X: Any) -> int:
    """Cost of X times one column; a copy of the column in C order counts as one more row."""
    dense = int(X.shape[0]) * int(X.shape[1])
    return min(dense, SPARSE_COST * (int(X.nnz) + int(X.shape[1]))) if is_sparse(X) else dense


@dataclass(frozen=True, eq=False)
class Scorer:
    """Scores X A + 1bᵀ, or (X A) B + 1bᵀ, of blocks of rows."""

    first: Any  # A, d × L or d × k; a sparse array in a pruned model
    second: Scores | None  # B, k × L
    intercept: Scores
    sparse: bool = False  # whether sparse blocks are multiplied as such, not as dense arrays

    @classmethod
    def of(cls, X: Any, W: Factors | sp.csr_array | Scores, coef: Scores | None, intercept: Scores) -> Scorer:
        """Return the cheaper way to score the rows of X: through the factors if k (c + nL) < c L.

        c is the cost of X times one column. ``coef`` is Wᵀ (L × d), or None for a model that keeps only the
        factors U diag(s) Vᵀ of W. A W without factors is multiplied as it is.
        """
        if not isinstance(W, Factors):
            return cls(W, None, intercept, is_sparse(X))
        (U, s, V), column = W, _cost(X)
        factored = coef is None or s.shape[0] * (column + X.shape[0] * V.shape[0]) < column * V.shape[0]
        first = U if factored or coef is None else coef.T
        sparse = is_sparse(X) and column < X.shape[0] * X.shape[1]
        # SciPy copies an array that is not in C order at every product: copy it once for all blocks.
        first = np.ascontiguousarray(first) if sparse else first
        return cls(first, (V * s).T if factored else None, intercept, sparse)

    def __call__(self, block: Any) -> Scores:
        """Return the scores of a block of rows, an array or CSR array of shape (b, d)."""
        if is_sparse(block) and not self.sparse:
            block = block.toarray()
        if not is_host(block):
            with full_precision(block):
                scores = block @ self.first
                return (scores if self.second is None else scores @ self.second) + self.intercept
        # X and the coefficients are finite, but single-precision products of some BLAS still raise the flag
        # for invalid numbers, from unused lanes.
        with np.errstate(invalid="ignore"):
            product = block @ self.first
            scores = product.toarray() if is_sparse(product) else np.asarray(product)
            if self.second is not None:
                scores = scores @ self.second
        scores += self.intercept
        return scores

    def parts(self, block: Any, width: int) -> Iterator[tuple[slice, Scores]]:
        """Yield the scores of a block of rows, at most ``width`` labels at a time if there are factors."""
        n_labels = self.intercept.shape[0]
        if self.second is None or width >= n_labels:
            yield slice(0, n_labels), self(block)
            return
        nothing = Place.of(self.first).zeros(1, dtype_name(self.first))
        codes = Scorer(self.first, None, nothing, self.sparse)(block)
        for start in range(0, n_labels, width):
            labels = slice(start, min(start + width, n_labels))
            yield labels, Scorer(self.second[:, labels], None, self.intercept[labels])(codes)


def best_of_parts(parts: Parts, unseen: Array, k: int) -> tuple[Array, Scores]:
    """Columns of the k largest scores of every row, best first, and these scores; over blocks of labels.

    Ties go to the column that comes first; ``unseen`` columns come last, whatever their scores.
    """
    if not is_host(unseen):
        return _best_of_parts_there(parts, unseen, k)
    best: tuple[npt.NDArray[Any], ...] = ()
    for labels, scores in parts:
        costs = -scores  # less for better labels
        costs[:, unseen[labels]] = np.inf
        rows: Any = slice(None)
        if best and best[0].shape[1] == k:
            # A later label must be better than the last of the best, or that may be NaN.
            rows = np.flatnonzero(~(costs >= best[2][:, -1:]).all(axis=1))
            if len(rows) == 0:
                continue
            costs = costs[rows]
        columns = _least_columns(costs, min(k, costs.shape[1]))
        kept = (np.take_along_axis(part, columns, axis=1) for part in (scores[rows], costs))
        found = (columns + (labels.start or 0), *kept)
        if not best:
            best = found
            continue
        # Earlier labels come first, and the sort is stable.
        joined = [np.hstack([old[rows], new]) for old, new in zip(best, found, strict=True)]
        order = _sorted_columns(joined[2], k)
        joined = [np.take_along_axis(part, order, axis=1) for part in joined]
        if isinstance(rows, slice):
            best = tuple(joined)
            continue
        for old, new in zip(best, joined, strict=True):
            old[rows] = new
    return best[0], best[1]


def _best_of_parts_there(parts: Parts, unseen: Array, k: int) -> tuple[Array, Scores]:
    """As `best_of_parts`, in any namespace, where a sort of whole rows costs little."""
    xp, device = Place.of(unseen)
    best: list[Array] = []
    for labels, scores in parts:
        # The sum makes one zero of both, which a sort by bits would tell apart.
        costs = xp.where(unseen[labels], xp.inf, 0.0 - scores)
        columns = xp.arange(labels.start, labels.stop, dtype=xp.int64, device=device)
        found = [xp.broadcast_to(columns, scores.shape), scores, costs]
        if best:  # earlier labels come first, and the sort is stable
            found = [xp.concat(pair, axis=1) for pair in zip(best, found, strict=True)]
        order = xp.argsort(found[2], axis=1, stable=True)[:, : min(k, found[2].shape[1])]
        best = [xp.take_along_axis(part, order, axis=1) for part in found]
    return best[0], best[1]


def _least_columns(costs: Scores, k: int) -> npt.NDArray[np.intp]:
    """Return the columns of the k least costs of every row, in order; the first of equal ones."""
    n_rows, n_labels = costs.shape
    if k > _SORT_FROM * n_labels:
        return _sorted_columns(costs, k)
    reached = np.partition(costs, k - 1, axis=1)[:, k - 1, None]
    near = ~(costs > reached)  # NaN from an overflow counts as near, makes too many, and is sorted last
    # Several labels may share the k-th place; a partition would choose among them by chance.
    shared = np.count_nonzero(near, axis=1) > k
    near[shared] = False
    columns = (np.flatnonzero(near) % n_labels).reshape(-1, k)
    clear = np.flatnonzero(~shared)
    order = np.argsort(costs[clear[:, None], columns], axis=1, kind="stable")
    best = np.empty((n_rows, k), dtype=np.intp)
    best[clear] = np.take_along_axis(columns, order, axis=1)
    best[shared] = _sorted_columns(costs[shared], k)
    return best


def _sorted_columns(costs: Scores, k: int) -> npt.NDArray[np.intp]:
    return np.argsort(costs, axis=1, kind="stable")[:, :k]


def counted_from(cut: npt.NDArray[np.float64], scores: Scores) -> Scores:
    """Scores of a single label, less its cut, in their own precision."""
    xp = namespace(scores)
    less = xp.astype(scores[:, 0], xp.float64, copy=False) - float(cut.reshape(()))
    return xp.astype(less, scores.dtype, copy=False)


def r_squared(Y: Any, scores: Scores, weights: Any, known: npt.NDArray[np.bool_] | None) -> float:
    """Mean of the targets' R², each over the rows where it is known; one known fewer than twice has none."""
    if known is None:
        return float(r2_score(Y, scores, sample_weight=weights))
    parts = [
        r2_score(
            Y[rows, label], scores[rows, label], sample_weight=None if weights is None else weights[rows]
        )
        for label, rows in enumerate(known.T)
        if np.count_nonzero(rows) > 1
    ]
    return float(np.mean(parts)) if parts else float("nan")


def predict_top_k(estimator: Any, X: Any, k: int | None = None) -> TopK:
    """Return the k best labels of every row, by an estimator of lrml alone or inside a pipeline or a search.

    These pass on only the methods that scikit-learn knows. So this function applies the steps of a pipeline,
    takes the ``best_estimator_`` of a search, in any nesting, and calls ``predict_top_k`` of what is inside.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from lrml import LRML, predict_top_k
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> pipeline = make_pipeline(StandardScaler(), LRML(3, 100.0)).fit(*yeast.train)
    >>> predict_top_k(pipeline, yeast.test[0][:1], k=3).labels
    array([[11, 12,  4]])
    """
    inner = estimator
    while not hasattr(inner, "predict_top_k"):
        if isinstance(inner, Pipeline) and len(inner):
            X = inner[:-1].transform(X) if len(inner) > 1 else X
            inner = inner[-1]
        elif hasattr(inner, "best_estimator_"):
            inner = inner.best_estimator_
        else:
            raise TypeError(
                "predict_top_k needs an estimator of lrml, or a pipeline or fitted search that ends in one, "
                f"got {shown(estimator)}. For other classifiers, sort decision_function(X)."
            )
    top: TopK = inner.predict_top_k(X, k)
    return top
