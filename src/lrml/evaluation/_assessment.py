"""All metrics of one model with intervals, its labels one by one, and how far its scores can be relied on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml._ranking import LabelledScores, Matrix, measure
from lrml.core.arrays import is_sparse
from lrml.evaluation._measured import (
    Interval,
    Measured,
    absent_sentence,
    bootstrap,
    check_resampling,
    interval,
    metric_title,
    names_of_labels,
    of_occurring_labels,
    ratio,
    said_threshold,
)
from lrml.metrics import row_measures
from lrml.report import column, dots, figure, lines, page, rounded, series, table

_N_BINS = 10
_BLOCK = 1 << 18  # scores that are sorted into bins at once
# A label with fewer relevant rows has an F1 that a single row decides about.
_FEW_ROWS = 5


@dataclass(frozen=True, eq=False)
class Reliability:
    """How often a label is relevant, by its score.

    Attributes
    ----------
    probabilities : bool
        Whether all scores are in [0, 1]. Then there are ten bins of equal width, and a reliable model has a
        frequency near the mean score in each. Other scores have no such scale: their bins end at the deciles
        of the scores of relevant cells, so each holds a tenth of these, and only the order of the frequencies
        means something.
    bins : list of dict
        ``low``, ``high`` (edges), ``score`` (mean), ``count`` (cells) and ``frequency`` (share of relevant
        ones), for bins that are not empty, ascending.
    error : float
        Expected calibration error: the mean distance of score and frequency over the bins, weighted by their
        counts; NaN unless the scores are probabilities.
    """

    probabilities: bool
    bins: list[dict[str, Any]]
    error: float


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
    reliability : Reliability
    n_rows, n_bootstrap : int
    threshold : float or list of float
    level : float
        Coverage of the intervals.
    """

    metrics: dict[str, Interval]
    left_out: dict[str, int]
    labels: list[dict[str, Any]]
    reliability: Reliability
    n_rows: int
    n_bootstrap: int
    threshold: float | list[float]
    level: float

    @property
    def absent_labels(self) -> int:
        """Number of labels without a relevant row; each counts as 0 in macro-F1."""
        return sum(label["support"] == 0 for label in self.labels)

    @property
    def macro_f1_of_occurring(self) -> float:
        """Macro-F1 over the labels that occur; NaN if none does."""
        return of_occurring_labels(self.labels, [label["f1"] for label in self.labels])

    def worst_labels(self, n: int = 10, *, least_support: int = _FEW_ROWS) -> list[dict[str, Any]]:
        """Return the labels with the lowest F1, the more frequent ones first among equals.

        Parameters
        ----------
        n : int, default=10
        least_support : int, default=5
            Labels with fewer relevant rows do not count.
        """
        known = [label for label in self.labels if label["support"] >= max(1, least_support)]
        return sorted(known, key=lambda label: (label["f1"], -label["support"]))[:n]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data that JSON can hold; None stands for what has no value."""
        plain: dict[str, Any] = rounded(
            {
                "n_rows": self.n_rows,
                "n_labels": len(self.labels),
                "absent_labels": self.absent_labels,
                "macro_f1_of_occurring": self.macro_f1_of_occurring,
                "threshold": self.threshold,
                "level": self.level,
                "n_bootstrap": self.n_bootstrap,
                "metrics": {name: found._asdict() for name, found in self.metrics.items()},
                "left_out": self.left_out,
                "labels": self.labels,
                "reliability": {
                    "probabilities": self.reliability.probabilities,
                    "error": self.reliability.error,
                    "bins": self.reliability.bins,
                },
            }
        )
        return plain

    def summary(self, title: str, *, about: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Return the plain data that `lrml.report.render_html` makes a page of.

        Parameters
        ----------
        title : str
        about : sequence of pairs of str, default=()
            What else to say about the data and the model, such as ("Model", "tags.lrml").
        """
        return _page(self, title, about)

    def __repr__(self) -> str:
        values = (
            f"{name}={found.value:.4g} [{found.low:.4g}, {found.high:.4g}]"
            for name, found in self.metrics.items()
        )
        return f"Assessment({', '.join(values)})"


def assess(
    Y: Matrix,
    scores: Matrix,
    *,
    threshold: npt.ArrayLike | None = None,
    probabilities: bool | None = None,
    label_names: Sequence[Any] | None = None,
    ks: Iterable[int] | None = None,
    n_bootstrap: int = 1000,
    level: float = 0.95,
    random_state: int = 0,
) -> Assessment:
    """Judge scores by all metrics, with bootstrap intervals, for all labels together and one by one.

    Parameters
    ----------
    Y : array, sparse matrix or frame of shape (n, L)
        Labels, 1 where relevant and 0 elsewhere. A sparse Y is made dense in blocks of rows or labels only.
    scores : array or frame of shape (n, L)
        Finite scores of rows that the model has not seen, with the labels in the order of Y. What is on a
        device is copied to the host.
    threshold : float or array of shape (L,), optional
        A label is predicted where its score is at or above it; 0.5 by default. Pass the one of the model
        if it has another: 0 for margins and log odds.
    probabilities : bool, optional
        Whether scores are meant as probabilities; by default, whether all of them are in [0, 1].
    label_names : sequence of length L, optional
        By default the columns of Y if it is a frame, else their numbers.
    ks : iterable of int, optional
        As in `lrml.metrics.evaluate`.
    n_bootstrap : int, default=1000
        Number of resamples; 0 for none, and intervals of NaN.
    level : float, default=0.95
        Coverage of the intervals, below 1.
    random_state : int, default=0
        Seed of the resamples.

    Returns
    -------
    Assessment

    Notes
    -----
    Memory is needed for the cells that are predicted or relevant, and 16 MiB for resamples.

    Examples
    --------
    >>> found = assess([[1, 0], [0, 1], [1, 1]], [[0.9, 0.2], [0.6, 0.7], [0.3, 0.8]], n_bootstrap=200)
    >>> [round(end, 3) for end in found.metrics["micro_f1"]]
    [0.75, 0.663, 0.997]
    >>> found.labels[0]["precision"], found.labels[0]["support"], found.left_out["average_auc"]
    (0.5, 2, 1)
    """
    check_resampling(n_bootstrap, level)
    measured = Measured.of(Y, scores, threshold, ks)
    names = names_of_labels(Y, label_names, measured.data.n_labels)
    (resampled,) = bootstrap([measured], n_bootstrap, random_state)
    return Assessment(
        metrics={name: interval(value, resampled[name], level) for name, value in measured.values.items()},
        left_out=measured.left_out,
        labels=_labels(measured, names),
        reliability=_reliability(measured.data, probabilities),
        n_rows=measured.n_rows,
        n_bootstrap=n_bootstrap,
        threshold=measured.cut.astype(np.float64).tolist(),
        level=level,
    )


def _labels(measured: Measured, names: list[str]) -> list[dict[str, Any]]:
    data, counts = measured.data, measured.counts
    # For a label, rows take the place of labels: its AUC and average precision rank the rows.
    by_label = row_measures(data.n_labels, (), measured.cut)
    ranked = by_label["average_auc"], by_label["average_precision"]
    auc, precision = measure(
        LabelledScores(data.labels.T.tocsr() if is_sparse(data.labels) else data.labels.T, data.scores.T),
        *ranked,
    )
    columns = {
        "name": names,
        "support": counts.positives.tolist(),
        "predicted": counts.predicted.tolist(),
        "precision": ratio(counts.hits, counts.predicted).tolist(),
        "recall": ratio(counts.hits, counts.positives).tolist(),
        "f1": ratio(2 * counts.hits, counts.predicted + counts.positives).tolist(),
        "auc": auc.tolist(),
        "average_precision": precision.tolist(),
    }
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _reliability(data: LabelledScores, probabilities: bool | None) -> Reliability:
    relevant = np.concatenate([block.scores[block.relevant] for block in data.blocks()]).astype(np.float64)
    low, high = float(data.scores.min()), float(data.scores.max())
    if probabilities and not (low >= 0 and high <= 1):
        raise ValueError(
            f"probabilities must lie in [0, 1], got scores from {low:.4g} to {high:.4g}. Pass "
            "probabilities=False, or what predict_proba gives."
        )
    probabilities = low >= 0 and high <= 1 if probabilities is None else probabilities
    if probabilities:
        edges = np.linspace(0, 1, _N_BINS + 1)
    else:
        tenths = np.linspace(0, 1, _N_BINS + 1)[1:-1]
        edges = np.unique([low, *(np.quantile(relevant, tenths) if relevant.size else ()), high])
    inside = edges[1:-1]
    n_bins = len(inside) + 1
    hits = np.bincount(np.searchsorted(inside, relevant, side="right"), minlength=n_bins)
    count, total = np.zeros(n_bins), np.zeros(n_bins)
    step = max(1, _BLOCK // data.n_labels)
    for start in range(0, len(data.scores), step):
        block = data.scores[start : start + step].ravel()
        place = np.searchsorted(inside, block, side="right")
        count += np.bincount(place, minlength=n_bins)
        total += np.bincount(place, weights=block, minlength=n_bins)
    filled = np.flatnonzero(count)
    mean, frequency = ratio(total, count), ratio(hits, count)
    bins = [
        {
            "low": float(edges[b]),
            "high": float(edges[b + 1] if len(edges) > 1 else edges[0]),
            "score": float(mean[b]),
            "count": int(count[b]),
            "frequency": float(frequency[b]),
        }
        for b in filled
    ]
    error = float(np.average(np.abs(mean - frequency)[filled], weights=count[filled]))
    return Reliability(probabilities, bins, error if probabilities else float("nan"))


# The page

_N_WORST = 15
_N_NAMED = 5


def _page(found: Assessment, title: str, about: Sequence[tuple[str, str]]) -> dict[str, Any]:
    figures = [_metrics_figure(found), _labels_figure(found), _reliability_figure(found.reliability)]
    worst = found.worst_labels(_N_WORST)
    tables = [
        *table(
            "metrics",
            "Metrics",
            f"Values on {found.n_rows:,} rows, with {found.level:.0%} intervals over {found.n_bootstrap:,} "
            "resamples of the rows.",
            [
                column("metric", "metric"),
                column("value", "value", "number", 4),
                column("low", "low", "number", 4),
                column("high", "high", "number", 4),
                column("left_out", "rows left out", "integer", None, "rows on which the metric has no value"),
            ],
            [
                {"metric": metric_title(name), **one._asdict(), "left_out": found.left_out.get(name, 0)}
                for name, one in found.metrics.items()
            ],
            notes=["The Hamming loss is better if lower; all others are better if higher."],
        ),
        *_labels_table("worst", f"The {len(worst)} worst labels", worst, _worst_caption(found)),
        *_labels_table("labels", "All labels", found.labels, ""),
    ]
    known = [
        *about,
        ("Rows", f"{found.n_rows:,}"),
        ("Labels", f"{len(found.labels):,}"),
        ("Threshold", said_threshold(found.threshold)),
        ("Intervals", f"{found.level:.0%}, {found.n_bootstrap:,} resamples of the rows, centred percentiles"),
    ]
    return page(title, _sentences(found), figures, tables, known)


def _sentences(found: Assessment) -> list[str]:
    def said(name: str) -> str:
        value, low, high = found.metrics[name]
        return f"{value:.3f} ({low:.3f} to {high:.3f})"

    sentences = [
        f"The first label is right for {100 * found.metrics['precision_at_1'].value:.1f} % of the rows.",
        f"Average precision is {said('average_precision')}, micro-F1 {said('micro_f1')}, macro-F1 "
        f"{said('macro_f1')}; in brackets, where they lie with a confidence of {found.level:.0%}.",
    ]
    never = sum(label["support"] > 0 and label["predicted"] == 0 for label in found.labels)
    sentences.append(f"A label is predicted from this score on: {said_threshold(found.threshold)}.")
    if never:
        sentences.append(
            f"{never} of {len(found.labels)} labels occur but are never predicted. A lower threshold "
            "predicts more: --threshold of lrml fit and lrml tune, or threshold of the estimator in Python."
        )
    missed = _missed(found)
    if missed:
        named = ", ".join(f"{label['name']} ({label['support']} rows)" for label in missed[:_N_NAMED])
        few = "" if len(missed) <= _N_NAMED else "the most frequent are "
        sentences.append(
            f"{len(missed)} labels with at least {_FEW_ROWS} relevant rows have an F1 of 0: {few}{named}."
        )
    sentences += absent_sentence(found.absent_labels, len(found.labels), f"{found.macro_f1_of_occurring:.3f}")
    if found.reliability.probabilities:
        sentences.append(
            f"Scores are probabilities, off by {found.reliability.error:.4f} on average (expected "
            "calibration error)."
        )
    return sentences


def _missed(found: Assessment) -> list[dict[str, Any]]:
    """Return the labels whose F1 is 0 although they are not rare, the most frequent first."""
    return [label for label in found.worst_labels(len(found.labels)) if label["f1"] == 0]


def _metrics_figure(found: Assessment) -> dict[str, Any]:
    names = list(found.metrics)
    value, low, high = (list(ends) for ends in zip(*found.metrics.values(), strict=True))
    drawn = [series("value", value, [], "points", low, high)]
    return figure(
        "figure-metrics",
        "All metrics",
        f"Dots are values, bars {found.level:.0%} intervals.",
        "One dot with its interval per metric.",
        [dots("metrics", "value", [metric_title(name) for name in names], drawn)],
    )


def _labels_figure(found: Assessment) -> dict[str, Any]:
    shown = [label for label in found.labels if label["support"] > 0]
    names = [label["name"] for label in shown]
    support = [float(label["support"]) for label in shown]
    points = series("label", support, [label["f1"] for label in shown], "points", names=names)
    panels = [lines("by frequency", "relevant rows", "F1", [points], "log", y_scale="linear")]
    # A column of zeros shows nothing: a sentence names these labels.
    nothing = all(label["f1"] == 0 for label in found.worst_labels(_N_WORST))
    above = " whose F1 is not 0" if nothing else ""
    worst = [label for label in found.worst_labels(len(found.labels)) if label["f1"] > 0 or not nothing]
    caption = "By the number of relevant rows."
    if worst:
        caption = (
            f"Left: by the number of relevant rows. Right: the worst labels{above}, "
            f"with at least {_FEW_ROWS} relevant rows each."
        )
        drawn = [series("label", [label["f1"] for label in worst[:_N_WORST]], [], "points")]
        panels.append(dots("the worst", "F1", [label["name"] for label in worst[:_N_WORST]], drawn))
    return figure(
        "figure-labels",
        "F1 of each label",
        caption,
        "F1 of the labels against their number of relevant rows, and the worst labels by name.",
        panels,
        columns=2,
    )


def _reliability_figure(found: Reliability) -> dict[str, Any]:
    score = [one["score"] for one in found.bins]
    drawn = [series("observed", score, [one["frequency"] for one in found.bins], "line")]
    if found.probabilities:
        drawn.append(series("perfect", [0.0, 1.0], [0.0, 1.0], "dashed"))
        caption = "Ten bins of equal width. On the dashed line, scores are as good as frequencies."
    else:
        caption = (
            "The scores are not probabilities. Each bin holds a tenth of the scores of relevant labels; the "
            "curve should rise, but need not follow the diagonal."
        )
    panel = lines("reliability", "mean score in a bin", "share of relevant labels", drawn)
    return figure(
        "figure-reliability",
        "Reliability of the scores",
        caption,
        "How often a label is relevant, by its score.",
        [panel],
    )


def _worst_caption(found: Assessment) -> str:
    return f"The lowest F1 among labels with at least {_FEW_ROWS} relevant rows, of {len(found.labels)}."


def _labels_table(
    name: str, title: str, labels: Sequence[dict[str, Any]], caption: str
) -> list[dict[str, Any]]:
    columns = [
        column("name", "label"),
        column("support", "support", "integer", None, "rows in which the label is relevant"),
        column("predicted", "predicted", "integer", None, "rows in which it is predicted"),
        column("precision", "precision", "number", 3, "share of predicted rows that are relevant"),
        column("recall", "recall", "number", 3, "share of relevant rows that are predicted"),
        column("f1", "F1", "number", 3, "harmonic mean of precision and recall"),
        column("auc", "AUC", "number", 3, "share of pairs of a relevant and another row in the right order"),
        column("average_precision", "average precision", "number", 3, "of the rows, ranked by the score"),
    ]
    return table(name, title, caption, columns, labels)
