"""All metrics of one model with intervals, its labels one by one, and how far its scores can be relied on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml._measures import METRICS, Measure, labelled, labels_and_scores, measures_named
from lrml._progress import progress
from lrml._ranking import Counts, LabelledScores, ratio
from lrml.core.arrays import to_host
from lrml.core.checks import check_integer, check_number
from lrml.evaluation._cells import Floats, Reliability, by_support, curve_of, errors_of, records
from lrml.evaluation._pages import assessment_page
from lrml.report import rounded

_CHUNK = 1 << 22  # weights of resamples in one pass over the rows: 16 MiB in single precision
_SPARSE = 1 / 8  # a block of counts is kept sparse if a smaller share of its entries is not zero


class Interval(NamedTuple):
    """A value, and the ends of its confidence interval; NaN where there is no value."""

    value: float
    low: float
    high: float

    @classmethod
    def around(cls, value: float, resampled: Floats, level: float, least: float = 0.0) -> Interval:
        """Percentiles of the resamples, moved so that their mean is the value; in [least, 1] and around it.

        Resamples without a value do not count.
        """
        known = resampled[np.isfinite(resampled)]
        if not known.size:
            return cls(value, np.nan, np.nan)
        low, high = value - known.mean() + np.quantile(known, [(1 - level) / 2, (1 + level) / 2])
        return cls(value, min(value, max(least, float(low))), max(value, min(1.0, float(high))))


@dataclass(frozen=True, eq=False, repr=False)
class Assessment:
    """What `assess` returns.

    Attributes
    ----------
    metrics : dict of str to Interval
        Value, low and high of every metric, in the order of `lrml.metrics.evaluate`.
    left_out : dict of str to int
        Rows without a value, which the mean of a metric leaves out.
    labels : list of dict
        For every label its ``name``, ``support`` (relevant rows), ``predicted`` (rows), ``precision``,
        ``recall``, ``f1``, ``auc`` and ``average_precision``. What has no value is NaN: the precision of one
        that is never predicted, the recall of one that is never relevant, and F1 where both hold.
    by_support : list of dict
        Labels with 1 to 9 relevant rows (``least``, ``most``), with 10 to 99, and so on: how many ``labels``,
        those ``never`` predicted, ``f1_macro``, and the ``precision``, ``recall`` and ``f1`` of their cells.
    errors : dict of str to list of dict
        The ten rows with the worst ``misses``, relevant labels that are not predicted, and the worst
        ``false_alarms``, the opposite: of each the label whose ``score`` is furthest on the wrong side of the
        threshold, by its ``margin``.
    curve : dict of str to list
        ``precision`` against ``recall`` of all cells, for one cut after another; at the ``threshold`` both.
    reliability : Reliability or None
        Of the probabilities, if there are any.
    n_rows, n_labels, absent_labels, n_unknown, n_bootstrap : int
        A label is absent if no row has it; each of these counts as 0 in macro-F1. Cells of Y that are unknown
        count nowhere.
    f1_macro_of_occurring : float
        Macro-F1 over the labels that occur; NaN if none does.
    threshold : float or list of float
    level : float
        Coverage of the intervals.
    per_example : dict of str to array
        The values that metrics are means of.
    resampled : dict of str to array of shape (n_bootstrap,)
        Every metric on the resamples.
    """

    metrics: dict[str, Interval]
    left_out: dict[str, int]
    labels: list[dict[str, Any]]
    by_support: list[dict[str, Any]]
    errors: dict[str, list[dict[str, Any]]]
    curve: dict[str, list[float]]
    reliability: Reliability | None
    n_rows: int
    n_labels: int
    absent_labels: int
    n_unknown: int
    n_bootstrap: int
    f1_macro_of_occurring: float
    threshold: float | list[float]
    level: float
    per_example: dict[str, Floats]
    resampled: dict[str, Floats]

    def worst_labels(self, n: int = 10, *, least_support: int = 5) -> list[dict[str, Any]]:
        """Return the labels with the lowest F1, the more frequent ones first among equals.

        Those with fewer relevant rows than ``least_support`` do not count: a single row decides their F1.
        """
        known = [label for label in self.labels if label["support"] >= max(1, least_support)]
        return sorted(known, key=lambda label: (label["f1"], -label["support"]))[:n]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data that JSON can hold; None stands for what has no value."""
        arrays = ("per_example", "resampled")
        plain: dict[str, Any] = rounded({key: one for key, one in vars(self).items() if key not in arrays})
        return plain

    def summary(
        self, title: str, *, about: Sequence[tuple[str, str]] = (), model: Any = None, X: Any = None
    ) -> dict[str, Any]:
        """Return the plain data that `lrml.report.render_html` makes a page of.

        ``about`` is what else to say of the data and the model: pairs such as ("Model", "tags.lrml"). With
        the model and the rows it shows the worst errors, and the features that spoke for them.
        """
        return assessment_page(self, title, about, model, X)

    def __repr__(self) -> str:
        return f"Assessment({', '.join(f'{name}={own.value:.4g}' for name, own in self.metrics.items())})"


def assess(
    *rows: Any,
    metrics: str | Sequence[str] | None = None,
    threshold: npt.ArrayLike | None = None,
    probabilities: Any = None,
    label_names: Sequence[Any] | None = None,
    ks: Sequence[int] | None = None,
    n_bootstrap: int = 1000,
    level: float = 0.95,
    random_state: int = 0,
    verbose: int = 0,
) -> Assessment:
    """Judge scores by all metrics, with bootstrap intervals, for all labels together and one by one.

    Parameters
    ----------
    *rows
        ``model, X, Y`` or ``Y, scores``, of rows that the model has not seen, and NaN in Y where a label is
        unknown, as in `lrml.metrics.evaluate`. What is on a device is copied to the host.
    metrics : sequence of str or "all", optional
        As in `lrml.metrics.evaluate`. Those that rank the rows of a label have no intervals.
    threshold : float or array of shape (L,), optional
        A label is predicted where its score is at or above it; by default that of the model, or 0.5
        for scores in [0, 1].
    probabilities : bool or array of shape (n, L), optional
        Whether scores are meant as probabilities; or these, if scores are something else. By default those
        of a model that has ``predict_proba``, or else scores that are all in [0, 1].
    label_names : sequence of length L, optional
        By default those of the model, the columns of Y if it is a frame, or else their numbers.
    ks : sequence of int, optional
        As in `lrml.metrics.evaluate`.
    n_bootstrap : int, default=1000
        Number of resamples; 0 for none, and intervals of NaN.
    level : float, default=0.95
        Coverage of the intervals, below 1.
    random_state : int, default=0
        Seed of the resamples.
    verbose : int, default=0
        1 tells on standard error how many resamples are done, and the time left.

    Notes
    -----
    Memory is needed for the cells that are predicted or relevant, and 16 MiB for resamples.

    Examples
    --------
    >>> found = assess([[1, 0], [0, 1], [1, 1]], [[0.9, 0.2], [0.6, 0.7], [0.3, 0.8]], n_bootstrap=200)
    >>> [round(end, 3) for end in found.metrics["f1_micro"]]
    [0.75, 0.663, 0.997]
    >>> found.labels[0]["precision"], found.labels[0]["support"], found.left_out["roc_auc_samples"]
    (0.5, 2, 1)
    """
    check_integer("n_bootstrap", n_bootstrap, least=0)
    check_number("level", level, below=1.0, above=True)
    names = rows[0].classes_ if len(rows) == 3 and label_names is None else label_names
    Y, scores, threshold = labels_and_scores(rows, threshold)
    data = labelled(to_host(Y), to_host(scores), threshold, needs_cut=True)
    columns = getattr(Y, "columns", range(data.n_labels)) if names is None else names
    if len(columns) != data.n_labels:
        raise ValueError(
            f"label_names has {len(columns)} names for {data.n_labels} labels. Pass one for each, in the "
            "order of Y."
        )
    if len(rows) == 3 and probabilities is None and hasattr(rows[0], "predict_proba"):
        probabilities = rows[0].predict_proba(rows[1])
    apart = probabilities is not None and not isinstance(probabilities, bool)
    chances = labelled(to_host(Y), to_host(probabilities)) if apart else data
    low, high = chances.scores.min(), chances.scores.max()
    likely = bool(low >= 0 and high <= 1)
    if (apart or probabilities) and not likely:
        raise ValueError(
            f"Values from {low:.4g} to {high:.4g} are no probabilities. Pass probabilities=False, or what "
            "predict_proba gives."
        )
    measures = measures_named(metrics, ks, data.n_labels)
    found = _Measured.of(data, measures)
    once = found.weighted(np.ones((len(data.scores), 1), dtype=np.float32))
    chunks, n_done = [], 0
    with progress("intervals", "resamples", verbose=verbose) as told:
        for weights in _resamples(len(data.scores), n_bootstrap, random_state):
            chunks.append(found.weighted(weights))
            n_done += weights.shape[1]
            told.update(n_done, n_bootstrap)
    resampled = {name: np.concatenate([np.empty(0), *(each[name] for each in chunks)]) for name in once}
    labels = _label_by_label(data, found.counts, list(map(str, columns)))
    occurring = [label["f1"] for label in labels if label["support"] > 0]
    return Assessment(
        metrics={
            one.name: Interval.around(
                float(once[one.name][0]) if one.by_row or one.finish else one.value(data),
                resampled[one.name],
                level,
            )
            for one in measures
        },
        left_out={name: int(np.isnan(values).sum()) for name, values in found.per_example.items()},
        labels=labels,
        by_support=by_support(found.counts),
        errors=errors_of(data, [label["name"] for label in labels]),
        curve=curve_of(data, found.counts.together),
        reliability=Reliability.of(chances) if likely and probabilities is not False else None,
        n_rows=len(data.scores),
        n_labels=data.n_labels,
        absent_labels=data.n_labels - len(occurring),
        n_unknown=0 if data.unknown is None else int(data.unknown.sum()),
        n_bootstrap=n_bootstrap,
        f1_macro_of_occurring=sum(occurring) / len(occurring) if occurring else float("nan"),
        threshold=data.cut.astype(np.float64).tolist(),
        level=level,
        per_example=found.per_example,
        resampled=resampled,
    )


def _label_by_label(data: LabelledScores, counts: Counts, names: list[str]) -> list[dict[str, Any]]:
    hits, predicted, relevant = counts
    columns = {
        "name": names,
        "support": relevant,
        "predicted": predicted,
        "precision": ratio(hits, predicted),
        "recall": ratio(hits, relevant),
        "f1": ratio(2 * hits, predicted + relevant),
        "auc": METRICS["roc_auc_macro"].values(data),
        "average_precision": METRICS["average_precision_macro"].values(data),
    }
    return records(columns)


def _resamples(n_rows: int, n_bootstrap: int, random_state: int) -> Iterator[npt.NDArray[np.float32]]:
    """Yield chunks of multinomial weights, one column per resample; the same for every size of a chunk."""
    rng = np.random.default_rng(random_state)
    step = max(1, _CHUNK // n_rows)
    for start in range(0, n_bootstrap, step):
        weights = np.empty((n_rows, min(step, n_bootstrap - start)), dtype=np.float32)
        for place in range(weights.shape[1]):
            weights[:, place] = np.bincount(rng.integers(n_rows, size=n_rows), minlength=n_rows)
        yield weights


class _Measured(NamedTuple):
    """What metrics on a resample are made of."""

    measures: list[Measure]
    data: LabelledScores
    per_example: dict[str, Floats]
    counts: Counts  # of each label
    cells: dict[int | None, list[Any]]  # by k, None for the cut: blocks of rows with three columns per label

    @classmethod
    def of(cls, data: LabelledScores, measures: list[Measure]) -> _Measured:
        by_row = [one for one in measures if one.by_row]
        values, counts = list[Any](), np.zeros((len(Counts._fields), data.n_labels), dtype=np.intp)
        cells: dict[int | None, list[Any]] = {one.k: [] for one in measures if one.finish}
        for block in data.blocks():
            values.append([one.formula(block) for one in by_row])
            counts += Counts.of(block.relevant, block.predicted)
            for k, blocks in cells.items():
                predicted = block.predicted if k is None else block.top(k)
                both = np.hstack([block.relevant & predicted, predicted, block.relevant]).astype(np.uint8)
                blocks.append(sp.csr_array(both) if np.count_nonzero(both) < _SPARSE * both.size else both)
        columns = map(np.concatenate, zip(*values, strict=True))
        names = (one.name for one in by_row)
        return cls(measures, data, dict(zip(names, columns, strict=False)), Counts(*counts), cells)

    def weighted(self, weights: npt.NDArray[np.float32]) -> dict[str, Floats]:
        """All metrics, if row i counts weights[i, b] times, for each b; NaN for what ranks rows."""
        totals = {k: _total(blocks, weights) for k, blocks in self.cells.items()}
        found = {}
        for one in self.measures:
            if one.finish is not None:
                found[one.name] = one.finish(totals[one.k])
            elif one.by_row:
                values = self.per_example[one.name]
                counted = np.isfinite(values)
                top = np.where(counted, values, 0.0) @ weights
                found[one.name] = ratio(top, counted.astype(np.float64) @ weights)
            else:
                found[one.name] = np.full(weights.shape[1], np.nan)
        return found


def _total(blocks: list[Any], weights: npt.NDArray[np.float32]) -> Counts:
    """Return the counts of each label in each resample."""
    total, start = np.zeros((blocks[0].shape[1], weights.shape[1])), 0
    for block in blocks:
        stop = start + block.shape[0]
        total += block.T.astype(np.float32) @ weights[start:stop]  # exact: small integers
        start = stop
    return Counts(*np.split(total, len(Counts._fields)))
