"""Decision thresholds that are best on given labels and scores.

A label is predicted where its score is at or above a cut. Choose the cut on rows that the model was not
fitted on: scores of training rows fit their labels too well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from lrml._ranking import Counts, Matrix, check_labelled_scores
from lrml._shown import shown
from lrml.core.arrays import Place, to_host
from lrml.core.checks import check_choice, check_flag, check_number, is_real

__all__ = ["Cut", "Threshold", "best_threshold"]


MetricName: TypeAlias = Literal["f1_micro", "f1_macro", "hamming_loss"]
_Bools: TypeAlias = npt.NDArray[np.bool_]
_Scores: TypeAlias = npt.NDArray[Any]
_Sweep: TypeAlias = tuple[_Scores, npt.NDArray[Any], npt.NDArray[Any], float]


@dataclass(frozen=True)
class Cut:
    """What a threshold is chosen for: the metric that it makes best, and whether each label has its own.

    The metric is "f1_micro", "f1_macro" or "hamming_loss". Thresholds of labels with few positive examples
    easily overfit; ``prior``, as in `best_threshold`, draws them towards the one that is best for all.

    >>> Cut("f1_macro", per_label=True)
    Cut(metric='f1_macro', per_label=True, prior=10.0)
    """

    metric: MetricName = "f1_micro"
    per_label: bool = False
    prior: float = 10.0

    def __post_init__(self) -> None:
        check_choice("metric", self.metric, get_args(MetricName))
        check_flag("per_label", self.per_label)
        check_number("prior", self.prior)


CutLike: TypeAlias = float | npt.NDArray[np.floating[Any]] | str | Cut | None
"""What estimators take as threshold: where to cut, or what the cut is chosen for."""


class Threshold(NamedTuple):
    """The cut, a number or one per label where S is, and the metric there, on the data it was chosen on."""

    cut: float | npt.NDArray[Any]
    value: float


def best_threshold(
    Y: Matrix,
    S: Matrix,
    metric: MetricName = "f1_micro",
    *,
    per_label: bool = False,
    prior: float = 0.0,
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
        Finite scores, with the labels in the order of Y; from a device they are copied to the host.
    metric, per_label
        As in `Cut`.
    prior : float, default=0.0
        With ``per_label``, so many positive examples, and the negative ones that go with them, are added to
        each label: all cells, each counted as prior over the number of positive cells. The optimum is then
        that of the counts with these, among the cuts just below the label's own positive examples, one above
        all its scores, and the cut that is best for all labels. 0 is each label alone; the larger, the nearer
        to one cut for all.
    natural : float, default=0.5
        Among equally good thresholds the nearest to this one wins, and the higher of two.
    known : array of bool of shape (n, L), optional
        The cells that count, all by default. The others must hold valid labels and scores too, such as 0.

    Notes
    -----
    A cut lies halfway between the two scores that it separates. For F1 without any positive example it lies
    just above the largest score. A label without known cells gets the natural threshold, and 0 in macro-F1.

    Examples
    --------
    >>> Y = [[1, 0], [1, 0], [0, 1], [0, 0]]
    >>> S = [[0.4, 0.2], [0.3, 0.0], [0.2, 0.1], [0.1, 0.0]]
    >>> best_threshold(Y, S, "hamming_loss")
    Threshold(cut=0.25, value=0.125)
    >>> best_threshold(Y, S, "f1_micro", per_label=True)
    Threshold(cut=array([0.25, 0.05]), value=0.8571428571428571)
    """
    Cut(metric, per_label, prior)  # checks them
    cells = _Cells.of(Y, S, known)
    dtype = cells.scores.dtype
    if not is_real(natural) or not abs(natural) <= np.finfo(dtype).max:
        raise ValueError(f"natural is {shown(natural)}, not a finite {dtype}. Pass 0.5 or 0, for example.")
    if metric == "f1_macro" and not per_label and cells.relevant.any():
        cuts = np.array([_nearest(_best_for_f1_macro(cells), natural)], dtype=dtype)
    else:
        common: Any = None
        if per_label and prior and cells.relevant.any():
            common = best_threshold(Y, S, metric, natural=natural, known=known).cut
            natural = common
        sweeps = [_sweep(*pool, natural, common) for pool in cells.pools(per_label)]
        if common is not None:
            sweeps = _joined(sweeps, *next(cells.pools(per_label=False)), prior)
        pairs = zip(sweeps, _goodness(sweeps, metric), strict=True)
        cuts = np.array([_nearest(tried[good == good.max()], natural) for (tried, *_), good in pairs], dtype)
    counts = Counts.of(cells.relevant, (cells.scores >= cuts) & cells.known)
    if metric == "hamming_loss":
        value = np.sum(counts.wrong) / np.count_nonzero(cells.known)
    else:
        value = counts.together.f1 if metric == "f1_micro" else np.mean(counts.f1)
    return Threshold(Place.of(S).asarray(cuts) if per_label else float(cuts[0]), float(value))


class _Cells(NamedTuple):
    """Scores and relevance of the cells; only known ones count."""

    scores: _Scores
    relevant: _Bools
    known: _Bools

    @classmethod
    def of(cls, Y: Matrix, S: Matrix, known: Any) -> _Cells:
        data = check_labelled_scores(to_host(Y), to_host(S))
        relevant = np.concatenate([block.relevant for block in data.blocks()])
        scores = data.scores.astype(np.float64) if data.scores.dtype.itemsize > 8 else data.scores  # as cuts
        mask = np.ones(scores.shape, np.bool_) if known is None else np.asarray(to_host(known))
        if mask.shape != scores.shape or mask.dtype != np.bool_ or not mask.any():
            found = f"{type(known).__name__} {shown(known)} of dtype {mask.dtype} and shape {mask.shape}"
            raise ValueError(f"known is {found}. Pass bools of the shape of S, {scores.shape}, some True.")
        return cls(scores, relevant & mask, mask)

    def pools(self, per_label: bool) -> Iterator[tuple[_Scores, _Bools]]:
        """Yield scores and relevance of the known cells, label by label or all together."""
        columns = zip(self.scores.T, self.relevant.T, self.known.T, strict=True) if per_label else [self]
        complete = self.known.all()  # no need to pick, which takes as long as a sort
        for scores, relevant, known in columns:
            yield (scores.ravel(), relevant.ravel()) if complete else (scores[known], relevant[known])


def _sweep(scores: _Scores, relevant: _Bools, natural: float, common: Any = None) -> _Sweep:
    """Return the candidate cuts of some cells, ascending, how many they hit and predict, and all positives.

    They are those whose least predicted score belongs to a positive example, one above all scores, and the
    common one, if any. Of the cells themselves each other one predicts more negative examples than the next
    higher one of these, and no more positive ones; beside a prior these few are what labels may choose from.
    """
    if not scores.size:
        return np.array([natural], scores.dtype), np.zeros(1, np.intp), np.zeros(1, np.intp), 0
    ascending, positive = np.sort(scores), np.sort(scores[relevant])
    above = np.nextafter(ascending[-1:], np.inf, dtype=scores.dtype)
    cuts = np.append(_below(ascending, np.searchsorted(ascending, np.unique(positive))), above)
    if common is not None:
        cuts = np.union1d(cuts, scores.dtype.type(common))
    hits, predicted = (len(part) - np.searchsorted(part, cuts) for part in (positive, ascending))
    return cuts, hits, predicted, len(positive)


def _joined(sweeps: list[_Sweep], scores: _Scores, relevant: _Bools, prior: float) -> list[_Sweep]:
    """Return sweeps with what the cells of all labels add to each, so many positives in all."""
    parts = [np.sort(scores[relevant]), np.sort(scores)]
    share = prior / len(parts[0])
    found = []
    for cuts, hits, predicted, positives in sweeps:
        more, wider = (share * (len(part) - np.searchsorted(part, cuts)) for part in parts)
        found.append((cuts, hits + more, predicted + wider, positives + prior))
    return found


def _below(ascending: _Scores, first: npt.NDArray[np.intp]) -> _Scores:
    """Return cuts halfway between scores and the next lower ones; at a score that is the least."""
    lower, higher = ascending[np.maximum(first - 1, 0)], ascending[first]
    middle = lower / 2 + higher / 2  # the sum of both could overflow, and rounding put it at the lower one
    return np.where((lower < middle) & (middle <= higher), middle, higher)


def _nearest(cuts: _Scores, natural: float) -> Any:
    """Return the one of ascending cuts that is nearest to the natural one, the higher of two."""
    return cuts[::-1][np.argmin(np.abs(cuts[::-1].astype(np.float64) - natural))]


def _goodness(sweeps: list[_Sweep], metric: MetricName) -> list[npt.NDArray[Any]]:
    """Return how good the cuts of each sweep are: in micro-F1 for all sweeps together, else for each alone.

    Let q be the maximum of micro-F1, 2 Σ hits / Σ (predicted + positives), over a cut for each sweep. Then
    Σ [2 hits − q (predicted + positives)] has the maximum 0, attained at the same cuts, and it separates
    over the sweeps (W. Dinkelbach, "On Nonlinear Fractional Programming", Management Science 13, 1967). With
    q a fraction everything is an integer, unless there is a prior, so the maximum and its ties are exact.
    """
    if metric == "f1_macro":  # without any positive, 1 stands for 0/0
        return [hits / (predicted + (positives or 1)) for _, hits, predicted, positives in sweeps]
    every = sum(positives for *_, positives in sweeps)
    top, bottom = int(metric == "hamming_loss"), 1
    while True:
        # The number of positives is the same at all cuts of a label, so it does not affect the best one.
        gains = [2 * bottom * hits - top * predicted for _, hits, predicted, _ in sweeps]
        if metric == "hamming_loss":  # with q = 1 the gain is the number of positives minus that of errors
            return gains
        best = [int(np.argmax(gain)) for gain in gains]
        better = 2 * sum(hits[i].item() for (_, hits, *_), i in zip(sweeps, best, strict=True))
        below = every + sum(predicted[i].item() for (*_, predicted, _), i in zip(sweeps, best, strict=True))
        if better * bottom <= top * below:  # rounding may keep both from being equal
            return gains
        top, bottom = better, below


def _best_for_f1_macro(cells: _Cells) -> _Scores:
    """Sweep one cut down all scores, and return the best ones; each cell it passes moves the F1 of its label.

    The F1 are integer multiples of a unit, so that the sum of any number of steps has no rounding error.
    """
    n_labels = cells.scores.shape[1]
    unit = 2.0 ** min(52, 62 - n_labels.bit_length())  # the sum over labels fits into 64 bits
    passed, steps = [], []
    for scores, relevant in cells.pools(per_label=True):
        order = np.argsort(scores)[::-1]
        hits = np.cumsum(relevant[order])
        size = np.arange(1, len(order) + 1) + max(int(np.count_nonzero(relevant)), 1)
        passed.append(scores[order])
        steps.append(np.diff(np.rint(2 * hits / size * unit).astype(np.int64), prepend=0))
    pooled = np.concatenate(passed)
    order = np.argsort(pooled)
    pooled = pooled[order]
    total = np.cumsum(np.concatenate(steps)[order[::-1]])[::-1]
    # The sum is valid only where a run of equal scores begins.
    first = np.flatnonzero(np.append(True, pooled[1:] != pooled[:-1]))
    # Each F1 is off by less than one unit. To predict nothing is never best, as there is a positive example.
    return _below(pooled, first[total[first] >= total[first].max() - 2 * n_labels])
