"""The pages of an assessment and of a comparison: what `lrml.report` shows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations
from math import isfinite
from textwrap import shorten
from typing import Any, TypeAlias

from lrml._inner import Inner, inner_model
from lrml._measures import measure_named
from lrml._shown import counted
from lrml.report import column, draw_dots, figure, legend_below, page, panel, table

_Plain: TypeAlias = dict[str, Any]
_About: TypeAlias = Sequence[tuple[str, str]]

_TITLES = {
    "roc_auc_samples": "average AUC",
    "hamming_loss": "Hamming loss",
    "f1_micro": "micro-F1",
    "f1_macro": "macro-F1",
}
_N_WORST, _N_WORDS, _DIGITS = 15, 5, 4
_LONGEST_TEXT = 300  # characters of a text beside its errors
# The metrics of the first rows of a page.
_FIRST = ("precision_at_1", "label_ranking_average_precision", "f1_micro", "f1_macro", "hamming_loss")
# As shapes, more points than this would be most of the page.
_MANY_POINTS = 1_000


def lower_is_better(metric: str) -> bool:
    """Whether small values of a metric are good."""
    found = measure_named(metric)
    return found is not None and found.lower_is_better


def _number(key: str, title: str, digits: int = _DIGITS, explanation: str | None = None) -> _Plain:
    return column(key, title, "number", digits, explanation)


_SUPPORT = column("support", "support", "integer", None, "rows in which the label is relevant")
_SHARES = [
    _number("precision", "precision", 3, "share of predicted rows that are relevant"),
    _number("recall", "recall", 3, "share of relevant rows that are predicted"),
    _number("f1", "F1", 3, "harmonic mean of precision and recall"),
]
_LABELS = [
    column("name", "label"),
    _SUPPORT,
    column("predicted", "predicted", "integer", None, "rows in which it is predicted"),
    *_SHARES,
    _number("auc", "AUC", 3, "share of pairs of a relevant and another row in the right order"),
    _number("average_precision", "average precision", 3, "of the rows, ranked by the score"),
]
_BANDS = [
    column("band", "support"),
    column("labels", "labels", "integer"),
    column("never", "never predicted", "integer"),
    *_SHARES,
    _number("f1_macro", "macro-F1", 3, "mean of the labels' own F1"),
]
_BINS = [
    *(_number("low", "from", 1), _number("high", "to", 1), _number("score", "mean probability", 3)),
    *(column("count", "cells", "integer"), _number("frequency", "share relevant", 3)),
]


def assessment_page(found: Any, title: str, about: _About, model: Any = None, X: Any = None) -> _Plain:
    """Return the page of one model; with the model and the rows also texts and words behind its errors."""
    never = sum(label["support"] > 0 and label["predicted"] == 0 for label in found.labels)
    known = [
        *about,
        *_known(found),
        ("Never predicted", f"{never:,} of the labels that occur"),
        ("Macro-F1 of labels that occur", f"{found.f1_macro_of_occurring:.{_DIGITS}f}"),
        ("Threshold", _said(found.threshold)),
    ]
    level, one = f"{found.level:.0%} interval", {"the model": found}
    figures = [_metrics_figure(one, f"Dots are values, bars {level}s."), _curve_figure(one)]
    figures.append(_labels_figure(found.labels))
    reliable = found.reliability
    if reliable is not None:
        off = f"probabilities are off by {reliable.error:.4f} on average; Brier score {reliable.brier:.4f}"
        known.append(("Calibration", off))
        figures.append(_reliability_figure(reliable.bins))
    left_out = column("left_out", "rows left out", "integer", None, "rows on which the metric has no value")
    columns = [column("metric", "metric"), *(_number(key, key) for key in ("value", "low", "high")), left_out]
    rows = [
        {"metric": _titled(name), **own._asdict(), "left_out": found.left_out.get(name, 0)}
        for name, own in found.metrics.items()
    ]
    worst = found.worst_labels(_N_WORST) if found.n_labels > _N_WORST else []  # else all are in sight
    bands = [band | {"band": f"{band['least']:,} to {band['most']:,}"} for band in found.by_support]
    few = "Lowest F1 among labels with at least 5 relevant rows."
    cells = "Precision, recall and F1 of the labels of a band together."
    tables = [
        *table("metrics", "Metrics", "", columns, rows),
        *_error_tables(found.errors, model, X),
        *table("worst", "Worst labels", few, _LABELS, worst),
        *table("bands", "Labels by support", cells, _BANDS, bands),
        *table("reliability", "Reliability", _BINS_SAY, _BINS, reliable.bins if reliable else []),
        *table("labels", "All labels", "", _LABELS, found.labels),
    ]
    first = [
        (_titled(name), f"{own.value:.{_DIGITS}f}", f"{own.low:.{_DIGITS}f} to {own.high:.{_DIGITS}f}")
        for name, own in found.metrics.items()
        if name in _FIRST
    ]
    return page(title, [], figures, tables, known, numbers=[("", "value", level), *first])


def _error_tables(errors: Mapping[str, list[_Plain]], model: Any, X: Any) -> list[_Plain]:
    """Return tables of the worst errors, with texts and with the features that contributed most."""
    columns = [column("label", "label"), _number("score", "score", 3)]
    inner = None if model is None else inner_model(model, "summary")
    if inner is not None and not hasattr(inner.model, "kernel_"):
        columns.append(column("words", "what spoke", explanation="largest contributions to the score"))
    columns.append(column("text", "text" if inner is not None and inner.reads_texts else "row"))
    tables = []
    for kind, title, said in (
        ("misses", "Worst misses", "Relevant labels furthest below the threshold"),
        ("false_alarms", "Worst false alarms", "Labels that are not relevant, furthest above the threshold"),
    ):
        rows = [{"text": f"{one['row']:,}"} | one for one in errors[kind]]
        if inner is not None:
            rows = [row | _told(inner, X, row) for row in rows]
        tables += table(kind, title, f"{said}, one of each row.", columns, rows)
    return tables


def _told(inner: Inner, X: Any, error: _Plain) -> _Plain:
    """Return the text of a row, where it is one, and the features that contributed most to an error."""
    place, names, inner = error["row"], inner.feature_names, inner.unnamed()
    given = X.iloc[[place]].to_numpy() if hasattr(X, "iloc") else X[place : place + 1]
    told = {}
    if inner.reads_texts:
        given = list(given.ravel() if hasattr(given, "ravel") else given)
        told["text"] = shorten(given[0], _LONGEST_TEXT, placeholder=" …")
    if not hasattr(inner.model, "kernel_"):
        found = inner.contributions(inner.features(given), error["column"], _N_WORDS)
        parts = (f"{j if names is None else names[j]} {value:+.2f}" for j, value in found)
        told["words"] = ", ".join(parts).replace("-", "−")
    return told


def comparison_page(found: Any, title: str, about: _About) -> _Plain:
    """Return the page of several models."""
    first = next(iter(found.methods.values()))
    cuts = [(f"Threshold of {method}", _said(own.threshold)) for method, own in found.methods.items()]
    caption = (
        f"Dots are values, bars {first.level:.0%} intervals of each by itself. Differences are judged row by "
        "row, so bars may overlap although a difference is clear."
    )
    # A method may be called as a column is.
    keys = {method: f"method{place}" for place, method in enumerate(found.methods)}
    columns = [
        column("metric", "metric"),
        *(_number(key, method) for method, key in keys.items()),
        column("best", "best"),
        column("verdict", "clearly better than", explanation="after Holm's correction, at 5 %"),
    ]
    side_by_side = [_side_by_side(found, name, keys) for name in first.metrics]
    f1 = [column("name", "label"), _SUPPORT, *(_number(key, name, 3) for name, key in keys.items())]
    labels = [
        {**own[0], **{key: label["f1"] for key, label in zip(keys.values(), own, strict=True)}}
        for own in zip(*(method.labels for method in found.methods.values()), strict=True)
    ]
    tables = [
        *table("metrics", "Side by side", "", columns, side_by_side),
        *_tests_table(found, first.level),
        *table("labels", "F1 of each label", "", f1, labels),
    ]
    rows = [
        (_titled(name), *(f"{own.metrics[name].value:.{_DIGITS}f}" for own in found.methods.values()))
        for name in first.metrics
        if name in _FIRST
    ]
    alike = [f"{', '.join(group[:-1])} and {group[-1]}" for group in found.alike]
    known = [*about, *_known(first), *(("Same predictions", names) for names in alike), *cuts]
    words = [f"{names} made the same predictions: no metric tells them apart on any row." for names in alike]
    figures = [_metrics_figure(found.methods, caption), _curve_figure(found.methods)]
    return page(title, words, figures, tables, known, numbers=[("", *found.methods), *rows])


def _tests_table(found: Any, level: float) -> list[_Plain]:
    columns = [
        *(column(key, key) for key in ("metric", "first", "second")),
        _number("difference", "first − second"),
        _number("low", "low", explanation=f"of the {level:.0%} interval of the difference"),
        _number("high", "high"),
        column("p_value", "p-value", "p_value", 4, "paired t-test; for F1 by the bootstrap's error"),
        column("corrected", "corrected", "p_value", 4, "p-value after Holm's correction over all rows"),
        column("better", "clearly better"),
    ]
    pairs = {pair for group in found.alike for pair in permutations(group, 2)}
    rows = [
        {**test, "metric": _titled(test["metric"])}
        for test in found.tests
        if (test["first"], test["second"]) not in pairs
    ]
    rest = ", but for pairs that made the same predictions" if pairs else ""
    return table("tests", "Pairs", f"Every pair of models by every metric{rest}.", columns, rows)


def _known(found: Any) -> list[tuple[str, str]]:
    """Say what all models on some rows share."""
    absent = f", of which {found.absent_labels:,} do not occur and count as 0 in macro-F1"
    intervals = f"{found.level:.0%}, {found.n_bootstrap:,} resamples of the rows, centred percentiles"
    unknown = f"{counted(found.n_unknown, 'cell')} of the labels, left out"
    return [
        ("Rows", f"{found.n_rows:,}"),
        ("Labels", f"{found.n_labels:,}{absent if found.absent_labels else ''}"),
        *([("Unknown", unknown)] if found.n_unknown else []),
        ("Intervals", intervals),
    ]


def _said(threshold: float | list[float]) -> str:
    if isinstance(threshold, list):
        return f"{min(threshold):.4g} to {max(threshold):.4g}, one per label"
    return f"{threshold:.4g}"


def _titled(metric: str) -> str:
    title = _TITLES.get(metric, metric.replace("_", " "))
    return f"{title} (lower is better)" if lower_is_better(metric) else title


def _side_by_side(found: Any, metric: str, keys: Mapping[str, str]) -> _Plain:
    """Return a row: the values, the methods that are best as shown, and those that all of these beat."""
    values = {method: own.metrics[metric].value for method, own in found.methods.items()}
    sign = -1 if lower_is_better(metric) else 1
    ranked = {method: sign * round(value, _DIGITS) for method, value in values.items() if isfinite(value)}
    best = [method for method, value in ranked.items() if value == max(ranked.values())]
    clear = {
        (test["better"], *({test["first"], test["second"]} - {test["better"]}))
        for test in found.tests
        if test["metric"] == metric and test["better"]
    }
    beaten = [other for other in values if best and all((one, other) in clear for one in best)]
    tied = len(best) == len(values)
    verdict = {"best": "all" if tied else ", ".join(best) or None, "verdict": ", ".join(beaten) or None}
    row = {"metric": _titled(metric), **{keys[m]: value for m, value in values.items()}, **verdict}
    return row | {"_best": [] if tied else [keys[method] for method in best]}


# Figures

_BINS_SAY = "Ten bins of equal width. On the dashed line, probabilities are as good as frequencies."


def _metrics_figure(methods: Mapping[str, Any], caption: str) -> _Plain:
    metrics = list(next(iter(methods.values())).metrics)
    drawn = {
        method: [list(ends) for ends in zip(*(found.metrics[name] for name in metrics), strict=True)]
        for method, found in methods.items()
    }
    names, alt = [_titled(name) for name in metrics], "One dot with its interval per metric."
    return figure("figure-metrics", "All metrics", caption, alt, lambda: draw_dots(names, drawn, "value"))


def _curve_figure(methods: Mapping[str, Any]) -> _Plain:
    def draw(axes: Any) -> None:
        for name, found in methods.items():
            (line,) = axes.plot(found.curve["recall"], found.curve["precision"], label=name)
            precision, recall = found.curve["threshold"]
            axes.plot(recall, precision, "o", color=line.get_color(), markersize=6)
        legend_below(axes.figure, len(methods))

    said = "Of all labels of all rows together, if the threshold moves; the dot is the threshold."
    words = "figure-curve", "Precision against recall", said, "Precision falls as recall rises."
    return panel(*words, draw, xlabel="recall", ylabel="precision", xlim=(0, 1.02), ylim=(0, 1.02))


def _labels_figure(labels: Sequence[_Plain]) -> _Plain:
    shown = [label for label in labels if label["support"] > 0]
    support, f1 = ([label[key] for label in shown] for key in ("support", "f1"))

    def draw(axes: Any) -> None:
        axes.plot(support, f1, "o", alpha=0.6, markeredgewidth=0, rasterized=len(f1) > _MANY_POINTS)
        axes.set_xscale("log", subs=(2, 5))
        axes.xaxis.set_major_formatter("{x:g}")
        # 20 and 50 have room beside 10 and 100 if there are few such numbers.
        few = max(support, default=1) < 100 * min(support, default=1)
        axes.tick_params(axis="x", which="both", length=3.0)
        axes.xaxis.set_minor_formatter("{x:g}" if few else "")

    alt = "F1 of the labels by their number of relevant rows."
    words = "figure-labels", "F1 of each label", "By the number of relevant rows.", alt
    return panel(*words, draw, xlabel="relevant rows", ylabel="F1")


def _reliability_figure(bins: Sequence[_Plain]) -> _Plain:
    def draw(axes: Any) -> None:
        axes.plot([0, 1], [0, 1], "--", color="0.5", linewidth=1)
        axes.plot([one["score"] for one in bins], [one["frequency"] for one in bins], "o-")

    words = (
        "figure-reliability",
        "Reliability",
        _BINS_SAY,
        "How often a label is relevant, by its probability.",
    )
    return panel(*words, draw, xlabel="mean probability in a bin", ylabel="share of relevant labels")
