"""Decision thresholds that are best on given labels and scores.

A model gives scores S ∈ ℝⁿˣᴸ, and a label is predicted where its score is at or above a cut. The best cut
depends on the metric and on the distribution of the scores. `best_threshold` finds it by a sweep over the
sorted scores. Choose it on rows that the model was not fitted on: scores of training rows fit their labels
too well.

References
----------
- W. Dinkelbach. "On Nonlinear Fractional Programming". Management Science 13, 492-498, 1967: how one cut per
  label maximises micro-F1, which is a ratio of sums over labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Real
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from lrml._arrays import Place, to_host
from lrml._ranking import LabelCounts, Matrix, check_labelled_scores

__all__ = ["Threshold", "best_threshold"]


def __dir__() -> list[str]:
    return __all__


MetricName: TypeAlias = Literal["micro_f1", "macro_f1", "hamming_loss"]
_Bools: TypeAlias = npt.NDArray[np.bool_]
_Scores: TypeAlias = npt.NDArray[Any]


class Threshold(NamedTuple):
    """What `best_threshold` returns."""

    cut: float | npt.NDArray[Any]
    """The threshold: a number, or one per label in the type of S and where S is."""
    value: float
    """The metric at this threshold, on the data that it was chosen on."""


def best_threshold(
    Y: Matrix,
    S: Matrix,
    metric: MetricName = "micro_f1",
    *,
    per_label: bool = False,
    natural: float = 0.5,
    known: npt.ArrayLike | None = None,
) -> Threshold:
    """Find the threshold at which a metric is best on given labels and scores.

    ::

        cut = argmax_c  F1(Y, [S ≥ c]),    or    argmin_c  hamming_loss(Y, [S ≥ c])

    over all real c, or all c ∈ ℝᴸ if ``per_label``. The optimum is exact, not restricted to a grid.

    Parameters
    ----------
    Y : array, sparse matrix or frame of shape (n, L)
        Labels, 1 where relevant and 0 elsewhere.
    S : array or frame of shape (n, L)
        Finite scores, with the labels in the order of Y. Take them from rows that the model has not seen.
        Scores and labels on a device are copied to the host, where the sweep is made.
    metric : {"micro_f1", "macro_f1", "hamming_loss"}, default="micro_f1"
        As in `lrml.metrics`. The F1 measures are maximised and the Hamming loss is minimised.
    per_label : bool, default=False
        Choose one threshold for each label. Labels with few positive examples then easily overfit.
    natural : float, default=0.5
        The preferred threshold: among equally good ones the nearest to it wins, and the higher of two at the
        same distance.
    known : array of bool of shape (n, L), optional
        The cells that count; the others are ignored, but must hold valid labels and scores, such as 0. All
        count by default.

    Returns
    -------
    Threshold
        ``cut`` is a float, or an array of shape (L,) if ``per_label``, and always finite. ``value`` is the
        metric there.

    Notes
    -----
    A cut lies halfway between the two different scores that it separates, so small changes of the scores do
    not matter; equal scores are never separated. A cut at the least score predicts everything, and one just
    above the largest score predicts nothing.

    With ``per_label``, nothing is predicted for a label without a positive example; otherwise, nothing at all
    if there is no positive example: F1 is then 0 at every cut. A label without known cells gets the natural
    threshold, and counts as 0 in macro-F1.

    Values of F1 count as equal if they differ only by float64 rounding. Hamming losses are compared exactly.

    Examples
    --------
    >>> Y = [[1, 0], [1, 0], [0, 1], [0, 0]]
    >>> S = [[0.4, 0.2], [0.3, 0.0], [0.2, 0.1], [0.1, 0.0]]
    >>> best_threshold(Y, S, "hamming_loss")
    Threshold(cut=0.25, value=0.125)
    >>> best_threshold(Y, S, "micro_f1", per_label=True)
    Threshold(cut=array([0.25, 0.05]), value=0.8571428571428571)
    """
    if metric not in get_args(MetricName):
        raise ValueError(
            f"metric must be one of {', '.join(get_args(MetricName))}, got {metric!r}. "
            "Pass one of these names, or search for the threshold of another metric yourself."
        )
    cells = _check_cells(Y, S, known)
    anchor = _check_natural(natural, cells.scores.dtype)
    if per_label:
        sweeps = [_sweep(*pool, anchor) for pool in cells.labels()]
        best = _micro_cuts(sweeps, natural) if metric == "micro_f1" else _own_cuts(sweeps, metric, natural)
        cuts = np.array(best, dtype=cells.scores.dtype)
        return Threshold(Place.of(S).asarray(cuts), cells.value(metric, cuts))
    if metric == "macro_f1" and cells.relevant.any():
        cut = float(_common_macro_cut(cells, natural))
    else:
        cut = float(_own_cuts([_sweep(*cells.all(), anchor)], metric, natural)[0])
    return Threshold(cut, cells.value(metric, cut))


class _Cells(NamedTuple):
    """Scores and relevance of the cells; only known ones count."""

    scores: _Scores
    relevant: _Bools
    known: _Bools | None

    @property
    def n_known(self) -> int:
        return int(self.scores.size if self.known is None else np.count_nonzero(self.known))

    def all(self) -> tuple[_Scores, _Bools]:
        if self.known is None:
            return self.scores.ravel(), self.relevant.ravel()
        return self.scores[self.known], self.relevant[self.known]

    def labels(self) -> Iterator[tuple[_Scores, _Bools]]:
        for label in range(self.scores.shape[1]):
            keep = slice(None) if self.known is None else self.known[:, label]
            yield self.scores[keep, label], self.relevant[keep, label]

    def value(self, metric: MetricName, cut: float | npt.NDArray[Any]) -> float:
        predicted = self.scores >= cut
        if self.known is not None:
            predicted &= self.known
        counts = LabelCounts.of(self.relevant, predicted)
        if metric == "micro_f1":
            return counts.micro_f1
        if metric == "macro_f1":
            return counts.macro_f1
        return counts.wrong / self.n_known


class _Sweep(NamedTuple):
    """The candidate cuts of some cells, ascending, and what they predict."""

    cuts: _Scores
    hits: npt.NDArray[np.intp]
    predicted: npt.NDArray[np.intp]


def _sweep(scores: _Scores, relevant: _Bools, anchor: _Scores) -> _Sweep:
    """List the cuts whose least predicted score belongs to a positive example, and the cut above all scores.

    Any other cut predicts negative examples that the next higher one of these does not, and no more positive
    ones. That is worse for the Hamming loss, and for F1 if anything is hit.
    """
    ascending = np.sort(scores)
    positive = np.sort(scores[relevant])
    least, first_positive = np.unique(positive, return_index=True)
    first = np.searchsorted(ascending, least)
    lower = ascending[np.maximum(first - 1, 0)]  # the least score itself, if there is no lower one
    above = np.nextafter(ascending[-1:], np.inf, dtype=scores.dtype) if scores.size else anchor.reshape(1)
    return _Sweep(
        np.append(_between(lower, least), above),
        np.append(len(positive) - first_positive, 0),
        np.append(len(scores) - first, 0),
    )


def _between(lower: _Scores, higher: _Scores) -> _Scores:
    """Return the midpoint of scores, or the higher one if rounding puts the midpoint at the lower one."""
    middle = lower / 2 + higher / 2  # the sum of both could overflow
    return np.where((lower < middle) & (middle <= higher), middle, higher)


def _nearest(cuts: _Scores, natural: float) -> Any:
    """Return the one of ascending cuts that is nearest to the natural one, the higher of two."""
    distance = np.abs(cuts[::-1].astype(np.float64) - natural)
    return cuts[::-1][np.argmin(distance)]


def _own_cuts(sweeps: list[_Sweep], metric: MetricName, natural: float) -> list[Any]:
    """Return the best cut of each sweep on its own."""
    best = []
    goodness: npt.NDArray[Any]
    for cuts, hits, predicted in sweeps:
        if metric == "hamming_loss":
            goodness = 2 * hits - predicted  # the number of positives minus that of errors
        else:
            # Cuts from the lowest up: the first hits all positives. Without any, 1 stands for 0/0.
            goodness = hits / (predicted + max(int(hits[0]), 1))
        best.append(_nearest(cuts[goodness == goodness.max()], natural))
    return best


def _micro_cuts(sweeps: list[_Sweep], natural: float) -> list[Any]:
    """Maximise 2 Σ hits / Σ (predicted + positives) by a cut for each sweep (Dinkelbach's method).

    If q is the maximum, then Σ [2 hits − q (predicted + positives)] has the maximum 0, attained at the same
    cuts, and it separates over the labels. From a q below, the ratio at the maximiser is a better q, or q is
    the maximum. With q a fraction everything is an integer, so the maximum and its ties are exact.
    """
    positives = sum(int(sweep.hits[0]) for sweep in sweeps)
    top, bottom = 0, 1
    while True:
        # The number of positives is the same at all cuts of a label, so it does not affect the best one.
        gains = [2 * bottom * hits - top * predicted for _, hits, predicted in sweeps]
        chosen = [int(np.argmax(gain)) for gain in gains]
        hits = sum(int(sweep.hits[i]) for sweep, i in zip(sweeps, chosen, strict=True))
        predicted = sum(int(sweep.predicted[i]) for sweep, i in zip(sweeps, chosen, strict=True))
        previous = top, bottom
        top, bottom = 2 * hits, predicted + positives
        if top * previous[1] == previous[0] * bottom:
            pairs = zip(sweeps, gains, strict=True)
            return [_nearest(sweep.cuts[gain == gain.max()], natural) for sweep, gain in pairs]


def _common_macro_cut(cells: _Cells, natural: float) -> Any:
    """Sweep one cut down all scores; each cell that it passes changes the F1 of its label.

    The F1 are integer multiples of a unit, so that the sum of any number of steps has no rounding error.
    """
    n_labels = cells.scores.shape[1]
    unit = 2.0 ** min(52, 62 - n_labels.bit_length())  # the sum over labels fits into 64 bits
    pooled = np.empty(cells.n_known, dtype=cells.scores.dtype)
    steps = np.empty(cells.n_known, dtype=np.int64)
    start = 0
    for scores, relevant in cells.labels():
        order = np.argsort(scores)[::-1]
        hits = np.cumsum(relevant[order])
        size = np.arange(1, len(order) + 1) + max(int(np.count_nonzero(relevant)), 1)
        level = np.rint(2 * hits / size * unit).astype(np.int64)
        stop = start + len(order)
        pooled[start:stop] = scores[order]
        steps[start:stop] = np.diff(level, prepend=0)
        start = stop
    order = np.argsort(pooled)
    pooled = pooled[order]
    total = np.cumsum(steps[order[::-1]])[::-1]
    # The sum is valid only where a run of equal scores begins.
    first = np.flatnonzero(np.append(True, pooled[1:] != pooled[:-1]))
    # Each F1 is off by less than one unit. To predict nothing is never best, as there is a positive example.
    good = first[total[first] >= total[first].max() - 2 * n_labels]
    return _nearest(_between(pooled[np.maximum(good - 1, 0)], pooled[good]), natural)


def _check_cells(Y: Matrix, S: Matrix, known: npt.ArrayLike | None) -> _Cells:
    data = check_labelled_scores(to_host(Y), to_host(S))
    relevant = np.concatenate([block.relevant for block in data.blocks()])
    scores = data.scores
    if scores.dtype.itemsize > 8:  # a cut is a float and could fall on the wrong side of a more precise score
        scores = scores.astype(np.float64)
    largest = np.finfo(scores.dtype).max
    if scores.max() == largest:
        raise ValueError(
            f"S must be less than {largest}, the largest {scores.dtype}, or no threshold is above it, "
            "got this score. Scale S down."
        )
    if known is None:
        return _Cells(scores, relevant, None)
    mask: npt.NDArray[Any] = np.asarray(to_host(known))
    if mask.shape != scores.shape or mask.dtype != np.bool_:
        raise ValueError(
            f"known must be a dense array of bool of the shape of S, {scores.shape}, "
            f"got a {type(known).__name__} of dtype {mask.dtype} and shape {mask.shape}. "
            "Pass True for each cell that counts."
        )
    if not mask.any():
        raise ValueError("known must be True somewhere, got no known cell. Check the mask, or leave it out.")
    return _Cells(scores, relevant & mask, mask)


def _check_natural(natural: Any, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if not isinstance(natural, Real) or not abs(float(natural)) <= np.finfo(dtype).max:
        raise ValueError(f"natural must be a finite {dtype}, got {natural!r}. Pass 0.5 or 0, for example.")
    return np.asarray(natural, dtype=dtype)
