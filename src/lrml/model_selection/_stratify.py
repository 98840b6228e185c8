"""Iterative stratification: rows dealt out to subsets so that each gets its share of every label.

The algorithm is that of Sechidis, Tsoumakas and Vlahavas (2011): take the label with the fewest rows left,
give each of these rows to the subset that wants the label most, and repeat. Which subset a row goes to
depends on how many rows of the label went where, but not on the row. So the rows of one label are dealt out
together: first how many each subset gets, then which, then all that this changes for the other labels. All
in all that is O(nnz) work, plus a few array operations for each label.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Counts = NDArray[np.int64]
Numbers = NDArray[np.int64] | NDArray[np.int32]


def assign_subsets(
    Y: sparse.csr_array, shares: Counts, random: np.random.RandomState | None
) -> NDArray[np.int64]:
    """Return the number of the subset that each row goes to.

    Parameters
    ----------
    Y : csr_array of shape (n, L)
        Every stored entry counts as 1.
    shares : array of shape (k,), positive integers
        Sizes of the subsets relative to each other: ones for equal subsets.
    random : RandomState or None
        Decides all that is left open: which rows of a label go where, and ties. None takes rows, labels and
        subsets in their order.
    """
    n, n_labels = Y.shape
    rows, labels = np.arange(n), np.arange(n_labels)
    if random is not None:  # from here on "the first" is a random one
        random.shuffle(rows)
        random.shuffle(labels)
        Y = Y[rows]
    deal = _Deal(labels[Y.indices], Y.indptr.astype(np.int64), n_labels, shares, random)
    deal.labelled_rows()
    deal.other_rows()
    subsets = np.empty(n, dtype=np.int64)
    subsets[rows] = deal.subsets
    return subsets


class _LabelQueue:
    """The labels that have rows left, fewest first, then by number.

    A heap of ``count · L + label``. A label whose count falls is pushed once more. Its older entries come to
    the top after the new one, when its rows are all gone, and are passed over.
    """

    def __init__(self, left: Counts) -> None:
        self._left = left
        self._heap = self._keys(np.flatnonzero(left))
        heapq.heapify(self._heap)

    def _keys(self, labels: Counts) -> list[int]:
        keys: list[int] = (self._left[labels] * self._left.size + labels).tolist()
        return keys

    def pop(self) -> int | None:
        """Return the label with the fewest rows left, None if no label has any."""
        while self._heap:
            label = heapq.heappop(self._heap) % self._left.size
            if self._left[label]:
                return label
        return None

    def lower(self, labels: Counts, by: Counts | int = 1) -> None:
        """Take away rows; a label may be named several times."""
        np.subtract.at(self._left, labels, by)
        for key in self._keys(labels[self._left[labels] > 0]):
            heapq.heappush(self._heap, key)


class _Deal:
    """State of the algorithm: who has what, and which subset wants how many more of each label."""

    def __init__(
        self,
        labels: NDArray[np.int64],
        indptr: NDArray[np.int64],
        n_labels: int,
        shares: Counts,
        random: np.random.RandomState | None,
    ) -> None:
        n = indptr.size - 1
        self._labels, self._indptr, self._shares, self._random = labels, indptr, shares, random
        # The transpose: the rows of each label, in their order.
        ones = np.ones(labels.size, dtype=np.int8)
        transposed = sparse.csr_array((ones, labels, indptr), shape=(n, n_labels)).tocsc()
        self._rows, self._first_row = transposed.indices, transposed.indptr.tolist()
        totals = np.bincount(labels, minlength=n_labels)
        self._totals, self._queue = totals, _LabelQueue(totals.copy())
        self._wanted = _round_up(totals[:, None], shares)
        self._room = _round_up(np.array(n), shares)
        self.subsets = np.full(n, -1, dtype=np.int64)

    def labelled_rows(self) -> None:
        """Deal out all rows that have a label."""
        while (label := self._queue.pop()) is not None:
            rows = self._rows[self._first_row[label] : self._first_row[label + 1]]
            rows = rows[self.subsets[rows] < 0]
            surplus = -self._totals[label] * self._shares % self._shares.sum()
            subset_of_row = self._give(rows, self._wanted[label], surplus)
            self._account_for(rows, subset_of_row)

    def other_rows(self) -> None:
        """Deal out the rows without a label, so that the sizes come out right."""
        self._give(np.flatnonzero(self.subsets < 0), self._room, np.zeros_like(self._room))

    def _give(self, rows: Numbers, wanted: Counts, surplus: Counts) -> Counts:
        counts = _deal_out(rows.size, wanted, surplus, self._room, self._random)
        subset_of_row = np.repeat(np.arange(counts.size), counts)
        self.subsets[rows] = subset_of_row
        self._room -= counts
        return subset_of_row

    def _account_for(self, rows: Numbers, subset_of_row: Counts) -> None:
        """Lower what subsets want, and what labels have left, by all labels of these rows."""
        n_labels, k = self._wanted.shape
        first = self._indptr[rows]
        lengths = self._indptr[rows + 1] - first
        places = np.repeat(first - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        labels = self._labels[places]
        cells = labels * k + np.repeat(subset_of_row, lengths)
        if cells.size > n_labels:  # counting all cells once makes for a short list of labels to queue
            given = np.bincount(cells, minlength=n_labels * k).reshape(n_labels, k)
            self._wanted -= given
            by = given.sum(axis=1)
            touched = np.flatnonzero(by)
            self._queue.lower(touched, by[touched])
        else:
            np.subtract.at(self._wanted.reshape(-1), cells, 1)
            self._queue.lower(labels)


def _round_up(totals: Counts, shares: Counts) -> Counts:
    """Return ⌈total · share / Σ shares⌉ without rounding errors."""
    wanted: Counts = -(-totals * shares // shares.sum())
    return wanted


def _deal_out(
    m: int, wanted: Counts, surplus: Counts, room: Counts, random: np.random.RandomState | None
) -> Counts:
    """Return how many of m rows each subset gets if each row goes to the subset that wants it most.

    A subset that wants w rows bids w for the first, w − 1 for the second, and so on; the m highest bids
    win. Those above some level all win, and some of those at the level. A level λ is high enough if
    Σ_j max(0, wanted_j − λ) ≤ m. That sum is the largest of Σ_{j ≤ q} wanted_j − q λ over q, with the subsets
    ordered by what they want, which gives the lowest such λ in closed form.

    Parameters
    ----------
    m : int
        Number of rows.
    wanted, surplus : arrays of shape (k,)
        How many each subset wants, rounded up, and how much was added by that, in any unit.
    room : array of shape (k,)
        How many rows of any kind each subset wants, negative if it has too many.
    random : RandomState or None
        For ties that remain; None takes the first.
    """
    highest_first = np.sort(wanted)[::-1]
    level = -((m - np.cumsum(highest_first)) // np.arange(1, wanted.size + 1)).min()
    counts: Counts = np.maximum(wanted - level, 0)
    left = m - int(counts.sum())
    if left:
        bidders = np.flatnonzero(wanted >= level)
        free = (room - counts)[bidders]
        ties = bidders if random is None else random.random_sample(bidders.size)
        best_first = np.lexsort((ties, -free, surplus[bidders], free <= 0))
        counts[bidders[best_first[:left]]] += 1
    return counts
