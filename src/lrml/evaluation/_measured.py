"""One model's metrics on some rows, and the same metrics on resamples of these rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml._ranking import LabelCounts, LabelledScores, Matrix, check_labelled_scores, check_threshold
from lrml._shown import shown
from lrml.core.arrays import to_host
from lrml.core.checks import is_integer
from lrml.metrics import row_measures

Floats: TypeAlias = npt.NDArray[np.float64]

LOWER_IS_BETTER = frozenset({"hamming_loss"})
F1 = ("micro_f1", "macro_f1")
_TITLES = {"average_auc": "average AUC", "hamming_loss": "Hamming loss"}
NATURAL = 0.5
"""The threshold of scores that estimate 0/1, and of probabilities."""

# Weights in one chunk of resamples, 16 MiB in single precision: a chunk shares a pass over the counts.
_CHUNK = 1 << 22
# A block of counts is kept sparse if fewer than this share of its entries are not zero.
_SPARSE = 1 / 8


class Interval(NamedTuple):
    """A value, and the ends of its confidence interval; NaN where there is no value."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, eq=False)
class Measured:
    """The metrics of scores, and what it takes to compute them on a resample."""

    data: LabelledScores
    cut: npt.NDArray[Any]
    per_example: dict[str, Floats]
    counts: LabelCounts
    _cells: list[Any]  # blocks of rows: hits, and relevant + predicted; sparse or of bytes

    @classmethod
    def of(cls, Y: Matrix, S: Matrix, threshold: npt.ArrayLike | None, ks: Iterable[int] | None) -> Measured:
        """Check the input and measure it, block by block and with one sort."""
        data = check_labelled_scores(to_host(Y), to_host(S))
        cut = check_threshold(NATURAL if threshold is None else threshold, data)
        measures = row_measures(data.n_labels, ks, cut)
        values, cells = [], []
        counts = np.zeros((len(LabelCounts._fields), data.n_labels), dtype=np.intp)
        for block in data.blocks():
            predicted = block.scores >= cut
            values.append([measure(block) for measure in measures.values()])
            counts += LabelCounts.of(block.relevant, predicted)
            both = block.relevant & predicted, block.relevant.astype(np.uint8) + predicted
            cells.append(_compact(np.hstack(both)))
        columns = (np.concatenate(column) for column in zip(*values, strict=True))
        return cls(data, cut, dict(zip(measures, columns, strict=True)), LabelCounts(*counts), cells)

    @property
    def n_rows(self) -> int:
        return len(self.data.scores)

    @property
    def left_out(self) -> dict[str, int]:
        """Rows without a value, for metrics that are means over rows."""
        return {name: int(np.isnan(values).sum()) for name, values in self.per_example.items()}

    @property
    def values(self) -> dict[str, float]:
        """All metrics; NaN if no row has a value."""
        once = self.resampled(np.ones((self.n_rows, 1), dtype=np.float32))
        return {name: float(value[0]) for name, value in once.items()}

    def resampled(self, weights: npt.NDArray[np.float32]) -> dict[str, Floats]:
        """All metrics, if row i counts weights[i, b] times, for each b."""
        found = {}
        for name, values in self.per_example.items():
            counted = np.isfinite(values)
            top = np.where(counted, values, 0.0) @ weights
            found[name] = ratio(top, counted.astype(np.float64) @ weights)
        hits, both = np.split(self._label_sums(weights), 2)
        # Where there is nothing relevant and nothing predicted, 1 in place of 0 makes F1 0.
        found["micro_f1"] = 2 * hits.sum(axis=0) / np.maximum(both.sum(axis=0), 1)
        found["macro_f1"] = np.mean(2 * hits / np.maximum(both, 1), axis=0)
        return found

    def _label_sums(self, weights: npt.NDArray[np.float32]) -> Floats:
        total = np.zeros((2 * self.data.n_labels, weights.shape[1]))
        start = 0
        for cells in self._cells:
            stop = start + cells.shape[0]
            total += cells.T.astype(np.float32) @ weights[start:stop]  # exact: small integers
            start = stop
        return total


def _compact(cells: npt.NDArray[np.uint8]) -> Any:
    return sp.csr_array(cells) if np.count_nonzero(cells) < _SPARSE * cells.size else cells


def resamples(n_rows: int, n_bootstrap: int, random_state: int) -> Iterator[npt.NDArray[np.float32]]:
    """Yield chunks of multinomial weights, one column per resample; the same for every size of a chunk."""
    rng = np.random.default_rng(random_state)
    step = max(1, _CHUNK // n_rows)
    for start in range(0, n_bootstrap, step):
        weights = np.empty((n_rows, min(step, n_bootstrap - start)), dtype=np.float32)
        for place in range(weights.shape[1]):
            weights[:, place] = np.bincount(rng.integers(n_rows, size=n_rows), minlength=n_rows)
        yield weights


def bootstrap(measured: Sequence[Measured], n_bootstrap: int, random_state: int) -> list[dict[str, Floats]]:
    """Return the metrics of each model over the same resamples."""
    parts: list[list[dict[str, Floats]]] = [[] for _ in measured]
    for weights in resamples(measured[0].n_rows, n_bootstrap, random_state):
        for own, model in zip(parts, measured, strict=True):
            own.append(model.resampled(weights))
    names = measured[0].values
    return [
        {name: np.concatenate([np.empty(0), *(part[name] for part in own)]) for name in names}
        for own in parts
    ]


def interval(value: float, resampled: Floats, level: float, least: float = 0.0) -> Interval:
    """Percentiles of the resamples, moved so that their mean is the value; within [least, 1] and around it.

    Resamples without a value do not count.
    """
    known = resampled[np.isfinite(resampled)]
    if not known.size:
        return Interval(value, np.nan, np.nan)
    low, high = value - known.mean() + np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
    return Interval(value, min(value, max(least, float(low))), max(value, min(1.0, float(high))))


def of_occurring_labels(labels: Sequence[Mapping[str, Any]], f1: Sequence[float]) -> float:
    """Macro-F1 over the labels with relevant rows; NaN without any."""
    known = [own for label, own in zip(labels, f1, strict=True) if label["support"] > 0]
    return sum(known) / len(known) if known else float("nan")


def said_threshold(threshold: float | list[float]) -> str:
    """Return a threshold as in a text.

    Examples
    --------
    >>> said_threshold(0.5), said_threshold([0.25, 0.125])
    ('0.5', '0.125 to 0.25, one per label')
    """
    if isinstance(threshold, list):
        return f"{min(threshold):.4g} to {max(threshold):.4g}, one per label"
    return f"{threshold:.4g}"


def absent_sentence(n_absent: int, n_labels: int, macro_f1: str) -> list[str]:
    """Say how many labels count as 0 in macro-F1 because no row has them, and what it is without them."""
    if not n_absent:
        return []
    without = f"; over those that occur, it is {macro_f1}" if n_absent < n_labels else ""
    return [
        f"{n_absent} of {n_labels} labels do not occur in these rows and count as 0 in macro-F1{without}."
    ]


def ratio(top: npt.NDArray[Any], bottom: npt.NDArray[Any]) -> Floats:
    """Quotient, NaN where the denominator is 0."""
    quotient = np.full(len(top), np.nan)
    np.divide(top, bottom, out=quotient, where=bottom > 0)
    return quotient


def check_resampling(n_bootstrap: Any, level: Any) -> None:
    if not is_integer(n_bootstrap) or n_bootstrap < 0:
        raise ValueError(
            f"n_bootstrap must be an integer of at least 0, got {shown(n_bootstrap)}. Pass 1000 or 0."
        )
    if not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ValueError(f"level must be between 0 and 1, got {shown(level)}. Pass 0.95 for 95 %.")


def names_of_labels(Y: Matrix, label_names: Sequence[Any] | None, n_labels: int) -> list[str]:
    """Return the given names, else the columns of a frame, else numbers."""
    columns = getattr(Y, "columns", None)
    names = label_names if label_names is not None else range(n_labels) if columns is None else columns
    if len(names) != n_labels:
        raise ValueError(
            f"label_names must have one name for each of the {n_labels} labels, got {len(names)}. "
            "Pass the columns' names in the order of Y."
        )
    return [str(name) for name in names]


def metric_title(name: str) -> str:
    """Return the name of a metric as in a text.

    Examples
    --------
    >>> [metric_title(name) for name in ("precision_at_1", "micro_f1", "average_auc")]
    ['precision at 1', 'micro-F1', 'average AUC']
    """
    if name in F1:
        return f"{name.removesuffix('_f1')}-F1"
    return _TITLES.get(name, name.replace("_", " "))
