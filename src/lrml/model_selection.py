"""Splits of multi-label data that keep the proportion of every label.

Iterative stratification (K. Sechidis, G. Tsoumakas, I. Vlahavas, ECML PKDD 2011): take the label with the
fewest rows left, give each of these rows to the subset that wants the label most, and repeat. That depends on
how many rows of the label each subset has, not on the row, so the rows of one label are assigned together:
O(nnz) work, plus a few array operations per label.
"""

from __future__ import annotations

import heapq
import math
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state

from lrml._door import check_targets
from lrml._shown import shown
from lrml.core.arrays import is_host, is_sparse, take, to_host
from lrml.core.checks import check_flag, check_integer, check_number, is_integer

__all__ = ["MultilabelStratifiedKFold", "iterative_train_test_split"]


_Counts = NDArray[np.int64]


class MultilabelStratifiedKFold(BaseCrossValidator):  # type: ignore[misc]  # scikit-learn has no type stubs
    """Cross-validation folds that keep the proportion of every label, by iterative stratification.

    Parameters
    ----------
    n_splits : int, default=5
        Number of folds, at least 2 and at most the number of rows.
    shuffle : bool, default=True
        Whether choices that the algorithm leaves open are random: which rows of a label go where, and ties
        between labels and between folds. False takes rows, labels and folds in order.
    random_state : int, RandomState instance or None, default=None
        Seed of these choices: an int, or what an int is drawn from when the object is made, so that all calls
        of ``split`` give the same folds. None is the only value allowed without `shuffle`.

    Notes
    -----
    No test set is empty. If no row has more than one label, the counts of each label and the sizes of the
    folds differ by at most one, as in ``StratifiedKFold``. If rows have several labels, the rarest label
    differs by at most one; others and the sizes come close, but without a bound. A sparse Y stays sparse.

    Examples
    --------
    >>> import numpy as np
    >>> from lrml.model_selection import MultilabelStratifiedKFold
    >>> Y = np.array([[1, 0], [1, 0], [1, 1], [1, 1], [0, 0], [0, 0]])
    >>> folds = MultilabelStratifiedKFold(2, random_state=0)
    >>> [Y[test].sum(axis=0).tolist() for _, test in folds.split(Y, Y)]
    [[2, 1], [2, 1]]
    >>> folds
    MultilabelStratifiedKFold(n_splits=2, random_state=0, shuffle=True)
    """

    def __init__(self, n_splits: int = 5, *, shuffle: bool = True, random_state: Any = None) -> None:
        if not check_flag("shuffle", shuffle) and random_state is not None:
            raise ValueError(f"random_state={shown(random_state)} changes nothing without shuffle=True.")
        self.n_splits = check_integer("n_splits", n_splits, 2)
        self.shuffle = shuffle
        self.random_state = random_state
        if shuffle and not is_integer(random_state):
            self.random_state = int(check_random_state(random_state).randint(2**31))

    def split(
        self, X: Any, y: Any, groups: Any = None
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Generate the row numbers of training and test set, ascending, fold by fold.

        Of X only the length counts; y are 0/1 labels, n × L, of which NaN, an unknown label, counts as 0.
        """
        if groups is not None:
            warnings.warn("groups are ignored. Use GroupKFold where they matter.", UserWarning, stacklevel=2)
        Y = _label_matrix(y)
        check_consistent_length(X, Y)
        if self.n_splits > Y.shape[0]:
            raise ValueError(f"n_splits is {self.n_splits}, but there are {Y.shape[0]} rows. Lower it.")
        random = check_random_state(self.random_state) if self.shuffle else None
        folds = _assign_subsets(Y, np.ones(self.n_splits, dtype=np.int64), random)
        for fold in range(self.n_splits):
            yield np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds; the arguments are ignored."""
        return self.n_splits


def iterative_train_test_split(
    X: Any, Y: Any, *arrays: Any, test_size: float | int = 0.25, random_state: Any = None
) -> list[Any]:
    """Split rows into a training and a test set that keep the proportion of every label.

    Parameters
    ----------
    X, *arrays : arrays, sparse matrices, pandas or polars frames, or lists, with n rows
        Features, and what else to split, such as weights.
    Y : array, sparse matrix or frame of shape (n, L)
        0/1 labels. NaN, an unknown label, counts as 0 for the split.
    test_size : float or int, default=0.25
        A float in (0, 1) is the share of the test set, rounded up to whole rows; an int is the number of
        its rows. The size comes close to this; labels take precedence.
    random_state : int, RandomState instance or None, default=None
        Pass an int for the same split at every call.

    Returns
    -------
    list
        ``X_train, X_test, Y_train, Y_test, ...``, as scikit-learn's ``train_test_split`` orders them (the
        function of this name in scikit-multilearn does not), in the types of the input, with rows in order.

    Notes
    -----
    If every row has a rare label, the algorithm as published leaves nothing for the test set. Here, if both
    parts want a label equally often after rounding up, a full part yields. Neither part is ever empty.

    Examples
    --------
    >>> from lrml.datasets import load_yeast
    >>> from lrml.model_selection import iterative_train_test_split
    >>> yeast = load_yeast()
    >>> X_train, X_test, Y_train, Y_test = iterative_train_test_split(yeast.X, yeast.Y, random_state=0)
    >>> int(Y_test[:, 13].sum()), int(yeast.Y[:, 13].sum())  # the rarest label
    (9, 34)
    """
    labels = _label_matrix(Y)
    everything = [X, Y, *arrays]
    check_consistent_length(*everything)
    n_rows = labels.shape[0]
    n_test = _count_test_rows(test_size, n_rows)
    shares = np.array([n_rows - n_test, n_test], dtype=np.int64)
    subsets = _assign_subsets(labels, shares, check_random_state(random_state))
    parts = [np.flatnonzero(subsets == part) for part in (0, 1)]
    return [_take_rows(array, rows) for array in everything for rows in parts]


def _take_rows(array: Any, rows: NDArray[np.int64]) -> Any:
    """Return some rows of an array, sparse matrix, frame, series or sequence, as the same type."""
    return take(array, rows) if is_sparse(array) or not is_host(array) else _safe_indexing(array, rows)


def _label_matrix(Y: Any) -> sparse.csr_array:
    """Return 0/1 labels as a CSR matrix that stores only the ones; unknown labels count as 0."""
    matrix = sparse.csr_array(check_targets(to_host(Y), "binary")[0], copy=True)
    matrix.eliminate_zeros()
    return matrix


def _count_test_rows(test_size: Any, n_rows: int) -> int:
    """Return the number of test rows that leaves at least one row on either side."""
    if n_rows < 2:
        raise ValueError(f"a split needs at least 2 rows, got {n_rows}. Pass more rows.")
    if is_integer(test_size):
        return check_integer("test_size", test_size, 1, n_rows - 1)
    share = check_number("test_size", test_size, below=1.0, above=True)
    return min(math.ceil(share * n_rows), n_rows - 1)


def _assign_subsets(Y: sparse.csr_array, shares: _Counts, random: np.random.RandomState | None) -> _Counts:
    """Return the number of the subset that each row goes to; every stored entry of Y counts as 1.

    ``shares`` are the sizes of the subsets relative to each other. ``random`` makes the open choices; None
    takes rows, labels and subsets in order.
    """
    n, n_labels = Y.shape
    order, names = np.arange(n), np.arange(n_labels)
    if random is not None:  # from here on "the first" is a random one
        random.shuffle(order)
        random.shuffle(names)
        Y = Y[order]
    by_row = sparse.csr_array((np.ones_like(Y.indices), names[Y.indices], Y.indptr), shape=Y.shape)
    by_label = by_row.tocsc()
    totals = np.diff(by_label.indptr).astype(np.int64)
    left = totals.copy()  # rows of each label that have no subset yet
    wanted, room = _round_up(totals[:, None], shares), _round_up(np.array(n), shares)
    subsets = np.full(n, -1, dtype=np.int64)

    def give(rows: Any, wanted: _Counts, surplus: _Counts) -> None:
        """Assign rows without a subset."""
        counts = _deal_out(rows.size, wanted, surplus, room, random)
        subsets[rows] = np.repeat(np.arange(counts.size), counts)
        np.subtract(room, counts, out=room)

    # A label whose count falls is queued once more. Its older entry comes up when nothing of it is left.
    queue: list[int] = (left * n_labels + np.arange(n_labels))[left > 0].tolist()
    heapq.heapify(queue)
    while queue:
        label = heapq.heappop(queue) % n_labels
        if not left[label]:
            continue
        rows = by_label.indices[by_label.indptr[label] : by_label.indptr[label + 1]]
        rows = rows[subsets[rows] < 0]
        give(rows, wanted[label], -totals[label] * shares % shares.sum())
        # All labels of these rows have fewer left, and are wanted less.
        first = by_row.indptr[rows].astype(np.int64)
        lengths = by_row.indptr[rows + 1] - first
        places = np.repeat(first - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        labels = by_row.indices[places]
        np.subtract.at(wanted, (labels, np.repeat(subsets[rows], lengths)), 1)
        np.subtract.at(left, labels, 1)
        labels = np.unique(labels)
        for label in labels[left[labels] > 0].tolist():
            heapq.heappush(queue, int(left[label]) * n_labels + label)
    give(np.flatnonzero(subsets < 0), room, np.zeros_like(room))  # those without a label make the sizes right
    found = np.empty(n, dtype=np.int64)
    found[order] = subsets
    return found


def _round_up(totals: _Counts, shares: _Counts) -> Any:
    """Return ⌈total · share / Σ shares⌉ without rounding errors."""
    return -(-totals * shares // shares.sum())


def _deal_out(
    m: int, wanted: _Counts, surplus: _Counts, room: _Counts, random: np.random.RandomState | None
) -> _Counts:
    """Return how many of m rows each subset gets if each row goes to the subset that wants it most.

    A subset that wants w rows bids w for the first, w − 1 for the second, and so on; the m highest bids win:
    those above the lowest level λ with Σ_j max(0, wanted_j − λ) ≤ m, and some at it. That sum is the largest
    of Σ_{j ≤ q} wanted_j − q λ over q, subsets in the order of what they want. ``wanted`` is rounded up, by
    ``surplus``; ``room`` counts the rows of any kind that each subset still wants.
    """
    highest_first = np.sort(wanted)[::-1]
    level = -((m - np.cumsum(highest_first)) // np.arange(1, wanted.size + 1)).min()
    counts: _Counts = np.maximum(wanted - level, 0)
    left = m - int(counts.sum())
    if left:
        bidders = np.flatnonzero(wanted >= level)
        free = (room - counts)[bidders]
        ties = bidders if random is None else random.random_sample(bidders.size)
        best_first = np.lexsort((ties, -free, surplus[bidders], free <= 0))
        counts[bidders[best_first[:left]]] += 1
    return counts
