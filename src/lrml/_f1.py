"""Micro- and macro-F1 from counts per label, which add up over blocks of rows."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml._ranking import Matrix, check_labelled_scores, check_threshold

_Integers: TypeAlias = npt.NDArray[np.intp]


class LabelCounts(NamedTuple):
    """Cells of each label: what the F1 measures and the Hamming loss need to know of a prediction."""

    hits: _Integers  # true positives
    predicted: _Integers  # true and false positives
    positives: _Integers  # true positives and false negatives

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
        # Hits are 0 where the denominator is, so that 1 in its place makes the quotient 0.
        return float(2 * self.hits.sum() / max(int(self.predicted.sum() + self.positives.sum()), 1))

    @property
    def macro_f1(self) -> float:
        return float(np.mean(2 * self.hits / np.maximum(self.predicted + self.positives, 1)))


def micro_f1(Y: Matrix, S: Matrix, threshold: npt.ArrayLike = 0.5) -> float:
    """F1 of all cells of the label matrix taken together, once the scores are cut at a threshold.

    ::

        micro-F1 = 2 TP / (2 TP + FP + FN),    counted over all rows and labels

    Frequent labels weigh more than rare ones. No average over rows is involved.

    Parameters
    ----------
    Y : array, sparse matrix or frame of shape (n, L)
        Labels, 1 where relevant and 0 elsewhere.
    S : array or frame of shape (n, L)
        Finite scores, with the labels in the order of Y.
    threshold : float or array of shape (L,), default=0.5
        A label is predicted where its score is at or above the threshold: one for all labels, or one per
        label. It is compared in the precision of S. `lrml.thresholds.best_threshold` finds the best one.

    Returns
    -------
    float
        In [0, 1]; higher is better. It is 0 if nothing is relevant and nothing predicted, as in
        ``sklearn.metrics.f1_score(..., average="micro", zero_division=0)``.

    Examples
    --------
    >>> micro_f1([[1, 0], [0, 1]], [[0.9, 0.6], [0.2, 0.7]])
    0.8
    """
    return _count(Y, S, threshold).micro_f1


def macro_f1(Y: Matrix, S: Matrix, threshold: npt.ArrayLike = 0.5) -> float:
    """Mean of the F1 of each label, once the scores are cut at a threshold.

    ::

        macro-F1 = (1/L) Σ_j 2 TP_j / (2 TP_j + FP_j + FN_j),    counted over the rows of label j

    A rare label weighs as much as a frequent one.

    Parameters
    ----------
    Y, S, threshold
        As in `micro_f1`.

    Returns
    -------
    float
        In [0, 1]; higher is better. A label that is neither relevant nor predicted in any row has no F1. It
        counts as 0 and stays in the mean, as in
        ``sklearn.metrics.f1_score(..., average="macro", zero_division=0)``.

    Examples
    --------
    >>> macro_f1([[1, 0], [0, 1]], [[0.9, 0.6], [0.2, 0.7]]) == (1 + 2 / 3) / 2
    True
    """
    return _count(Y, S, threshold).macro_f1


def _count(Y: Matrix, S: Matrix, threshold: npt.ArrayLike) -> LabelCounts:
    data = check_labelled_scores(Y, S)
    cut = check_threshold(threshold, data)
    total = np.zeros((len(LabelCounts._fields), data.n_labels), dtype=np.intp)
    for block in data.blocks():
        total += LabelCounts.of(block.relevant, block.scores >= cut)
    return LabelCounts(*total)
