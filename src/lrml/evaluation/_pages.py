"""The pages of an assessment and of a comparison: what `lrml.report` shows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import permutations
from math import isfinite
from typing import Any, TypeAlias

from lrml._shown import counted
from lrml.report import canvas, column, draw_dots, figure, page, table

_Plain: TypeAlias = dict[str, Any]
_About: TypeAlias = Sequence[tuple[str, str]]

LOWER_IS_BETTER = frozenset({"hamming_loss"})
_TITLES = {
    "roc_auc_samples": "average AUC",
    "hamming_loss": "Hamming loss (lower is better)",
    "f1_micro": "micro-F1",
    "f1_macro": "macro-F1",
}
_N_WORST, _DIGITS = 15, 4
# The metrics of the first rows of a page.
_FIRST = ("precision_at_1", "label_ranking_average_precision", "f1_micro", "f1_macro", "hamming_loss")
# As shapes, more points than this would be most of the page.
_MANY_POINTS = 1_000


def assessment_page(found: Any, title: str, about: _About) -> _Plain:
    """Return the page of one model."""
    reliability = found.reliability
    never = sum(label["support"] > 0 and label["predicted"] == 0 for label in found.labels)
    known = [
        *about,
        *_known(found),
        ("Never predicted", f"{never:,} of the labels that occur"),
        ("Macro-F1 of labels that occur", f"{found.f1_macro_of_occurring:.{_DIGITS}f}"),
        ("Threshold", _said(found.threshold)),
    ]
    if reliability.probabilities:
        known.append(("Calibration", f"probabilities are off by {reliability.error:.4f} on average"))
    caption = f"Dots are values, bars {found.level:.0%} intervals."
    figures = [
        _metrics_figure({"value": found}, caption),
        _labels_figure(found.labels),
        _reliability_figure(reliability),
    ]
    numbers = [_number(key, key) for key in ("value", "low", "high")]
    left_out = column("left_out", "rows left out", "integer", None, "rows on which the metric has no value")
    rows = [
        {"metric": _titled(name), **one._asdict(), "left_out": found.left_out.get(name, 0)}
        for name, one in found.metrics.items()
    ]
    few = "Lowest F1 among labels with at least 5 relevant rows."
    worst = found.worst_labels(_N_WORST) if found.n_labels > _N_WORST else []  # else all are in sight
    tables = [
        *table("metrics", "Metrics", "", [column("metric", "metric"), *numbers, left_out], rows),
        *table("worst", "Worst labels", few, _label_columns(), worst),
        *table(
            "reliability", "Reliability", _said_bins(reliability), _reliability_columns(), reliability.bins
        ),
        *table("labels", "All labels", "", _label_columns(), found.labels),
    ]
    first = [
        (_titled(name), f"{one.value:.{_DIGITS}f}", f"{one.low:.{_DIGITS}f} to {one.high:.{_DIGITS}f}")
        for name, one in found.metrics.items()
        if name in _FIRST
    ]
    heading = "", "value", f"{found.level:.0%} interval"
    return page(title, [], figures, tables, known, numbers=[heading, *first])


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
    tables = [*_metrics_table(found, keys), *_tests_table(found, first.level), *_f1_table(found, keys)]
    figures = [_metrics_figure(found.methods, caption)]
    rows = [
        (_titled(name), *(f"{own.metrics[name].value:.{_DIGITS}f}" for own in found.methods.values()))
        for name in first.metrics
        if name in _FIRST
    ]
    alike = [_listed(group) for group in found.alike]
    known = [*about, *_known(first), *(("Same predictions", names) for names in alike), *cuts]
    words = [f"{names} made the same predictions: no metric tells them apart on any row." for names in alike]
    return page(title, words, figures, tables, known, numbers=[("", *found.methods), *rows])


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _metrics_table(found: Any, keys: Mapping[str, str]) -> list[_Plain]:
    columns = [
        column("metric", "metric"),
        *(_number(key, method) for method, key in keys.items()),
        column("best", "best"),
        column("verdict", "clearly better than", explanation="after Holm's correction, at 5 %"),
    ]
    metrics = next(iter(found.methods.values())).metrics
    return table(
        "metrics", "Side by side", "", columns, [_side_by_side(found, name, keys) for name in metrics]
    )


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


def _f1_table(found: Any, keys: Mapping[str, str]) -> list[_Plain]:
    columns = [column("name", "label"), _support(), *(_number(key, name, 3) for name, key in keys.items())]
    rows = [
        {**own[0], **{key: label["f1"] for key, label in zip(keys.values(), own, strict=True)}}
        for own in zip(*(method.labels for method in found.methods.values()), strict=True)
    ]
    return table("labels", "F1 of each label", "", columns, rows)


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
    return _TITLES.get(metric, metric.replace("_", " "))


def _side_by_side(found: Any, metric: str, keys: Mapping[str, str]) -> _Plain:
    """Return a row: the values, the methods that are best as shown, and those that all of these beat."""
    values = {method: own.metrics[metric].value for method, own in found.methods.items()}
    sign = -1 if metric in LOWER_IS_BETTER else 1
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


# Columns and figures


def _number(key: str, title: str, digits: int = _DIGITS, explanation: str | None = None) -> _Plain:
    return column(key, title, "number", digits, explanation)


def _support() -> _Plain:
    return column("support", "support", "integer", None, "rows in which the label is relevant")


def _label_columns() -> list[_Plain]:
    return [
        column("name", "label"),
        _support(),
        column("predicted", "predicted", "integer", None, "rows in which it is predicted"),
        _number("precision", "precision", 3, "share of predicted rows that are relevant"),
        _number("recall", "recall", 3, "share of relevant rows that are predicted"),
        _number("f1", "F1", 3, "harmonic mean of precision and recall"),
        _number("auc", "AUC", 3, "share of pairs of a relevant and another row in the right order"),
        _number("average_precision", "average precision", 3, "of the rows, ranked by the score"),
    ]


def _reliability_columns() -> list[_Plain]:
    edges = _number("low", "score from", 3), _number("high", "to", 3), _number("score", "mean", 3)
    return [*edges, column("count", "cells", "integer"), _number("frequency", "share relevant", 3)]


def _said_bins(found: Any) -> str:
    if found.probabilities:
        return "Ten bins of equal width. On the dashed line, scores are as good as frequencies."
    return (
        "The scores are not probabilities. Each bin holds a tenth of the scores of relevant labels; the "
        "curve should rise, but need not follow the diagonal."
    )


def _metrics_figure(methods: Mapping[str, Any], caption: str) -> _Plain:
    metrics = list(next(iter(methods.values())).metrics)
    drawn = {
        method: [list(ends) for ends in zip(*(found.metrics[name] for name in metrics), strict=True)]
        for method, found in methods.items()
    }
    names, alt = [_titled(name) for name in metrics], "One dot with its interval per metric."
    return figure("figure-metrics", "All metrics", caption, alt, lambda: draw_dots(names, drawn, "value"))


def _labels_figure(labels: Sequence[_Plain]) -> _Plain:
    shown = [label for label in labels if label["support"] > 0]
    support, f1 = ([label[key] for label in shown] for key in ("support", "f1"))
    alt, draw = "F1 of the labels by their number of relevant rows.", partial(_draw_labels, support, f1)
    return figure("figure-labels", "F1 of each label", "By the number of relevant rows.", alt, draw)


def _draw_labels(support: Sequence[float], f1: Sequence[float]) -> Any:
    drawing = canvas(4.4, 3.2)
    axes = drawing.subplots()
    axes.plot(support, f1, "o", alpha=0.6, markeredgewidth=0, rasterized=len(f1) > _MANY_POINTS)
    axes.set_xscale("log", subs=(2, 5))
    axes.set(xlabel="relevant rows", ylabel="F1")
    axes.xaxis.set_major_formatter("{x:g}")
    # 20 and 50 have room beside 10 and 100 if there are few such numbers.
    axes.tick_params(axis="x", which="both", length=3.0)
    axes.xaxis.set_minor_formatter("{x:g}" if max(support, default=1) < 100 * min(support, default=1) else "")
    return drawing


def _reliability_figure(found: Any) -> _Plain:
    alt = "How often a label is relevant, by its score."
    title, draw = "Reliability of the scores", partial(_draw_reliability, found)
    return figure("figure-reliability", title, _said_bins(found), alt, draw)


def _draw_reliability(found: Any) -> Any:
    drawing = canvas(4.4, 3.2)
    axes = drawing.subplots()
    if found.probabilities:
        axes.plot([0, 1], [0, 1], "--", color="0.5", linewidth=1)
    axes.plot([one["score"] for one in found.bins], [one["frequency"] for one in found.bins], "o-")
    axes.set(xlabel="mean score in a bin", ylabel="share of relevant labels")
    return drawing
