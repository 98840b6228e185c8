"""Several models on the same rows: their metrics side by side, and which differences are more than chance.

Metrics that are means over rows are compared by a paired t-test. The two F1 have no values per row; their
difference over its bootstrap standard error is compared with the normal distribution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from lrml._ranking import Matrix
from lrml._shown import shown
from lrml._significance import LEVEL, holm, paired_difference
from lrml.evaluation._measured import (
    LOWER_IS_BETTER,
    Floats,
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
from lrml.report import column, dots, figure, page, rounded, series, table


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What `compare` returns.

    Attributes
    ----------
    methods : dict of str to dict of str to Interval
        The metrics of each method, as in `Assessment`.
    tests : list of dict
        For every metric and pair: ``metric``, ``first``, ``second``, ``difference`` (first − second), ``low``
        and ``high`` of its bootstrap interval, ``p_value``, ``corrected`` (by Holm's method, over all tests
        of the list) and ``better``: the method that is better at 5 % after the correction, or None.
    labels : list of dict
        For every label its ``name``, ``support``, and the F1 of each method under ``f1``.
    left_out : dict of str to int
        As in `Assessment`; the same for all methods.
    thresholds : dict of str to float or list of float
        Those that were used, by method.
    n_rows, n_bootstrap, level
        As in `Assessment`.
    """

    methods: dict[str, dict[str, Interval]]
    tests: list[dict[str, Any]]
    labels: list[dict[str, Any]]
    left_out: dict[str, int]
    thresholds: dict[str, float | list[float]]
    n_rows: int
    n_bootstrap: int
    level: float

    @property
    def absent_labels(self) -> int:
        """Number of labels without a relevant row; each counts as 0 in macro-F1."""
        return sum(label["support"] == 0 for label in self.labels)

    @property
    def macro_f1_of_occurring(self) -> dict[str, float]:
        """Macro-F1 of each method over the labels that occur; NaN if none does."""
        return {
            method: of_occurring_labels(self.labels, [label["f1"][method] for label in self.labels])
            for method in self.methods
        }

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data that JSON can hold; None stands for what has no value."""
        plain: dict[str, Any] = rounded(
            {
                "n_rows": self.n_rows,
                "n_labels": len(self.labels),
                "absent_labels": self.absent_labels,
                "macro_f1_of_occurring": self.macro_f1_of_occurring,
                "thresholds": self.thresholds,
                "level": self.level,
                "n_bootstrap": self.n_bootstrap,
                "methods": {
                    method: {name: found._asdict() for name, found in metrics.items()}
                    for method, metrics in self.methods.items()
                },
                "tests": self.tests,
                "left_out": self.left_out,
                "labels": self.labels,
            }
        )
        return plain

    def summary(self, title: str, *, about: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Return the plain data that `lrml.report.render_html` makes a page of.

        Parameters
        ----------
        title : str
        about : sequence of pairs of str, default=()
            What else to say about the data and the models.
        """
        return _page(self, title, about)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.methods)}; {len(self.tests)} tests)"


def compare(
    Y: Matrix,
    scores: Mapping[str, Matrix],
    *,
    threshold: npt.ArrayLike | Mapping[str, npt.ArrayLike | None] | None = None,
    label_names: Sequence[Any] | None = None,
    ks: Iterable[int] | None = None,
    n_bootstrap: int = 1000,
    level: float = 0.95,
    random_state: int = 0,
) -> Comparison:
    """Compare the scores of several models on the same rows.

    Parameters
    ----------
    Y : array, sparse matrix or frame of shape (n, L)
        Labels, 1 where relevant and 0 elsewhere.
    scores : mapping of str to array or frame of shape (n, L)
        The scores of each model, by its name; at least two.
    threshold : float, array of shape (L,), or mapping of str to either, optional
        As in `assess`; one for all models, or one for each name.
    label_names, ks, n_bootstrap, level, random_state
        As in `assess`.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.integers(2, size=(200, 5))
    >>> found = compare(Y, {"good": Y + rng.normal(size=Y.shape), "chance": rng.normal(size=Y.shape)})
    >>> {test["metric"]: test["better"] for test in found.tests}["average_precision"]
    'good'
    """
    check_resampling(n_bootstrap, level)
    if not isinstance(scores, Mapping) or len(scores) < 2:
        raise ValueError(
            f"scores must be a mapping of at least two names to scores, got {shown(scores)}. "
            'Pass {"one": scores, "other": other_scores}, or use assess for one model.'
        )
    cuts = threshold if isinstance(threshold, Mapping) else dict.fromkeys(scores, threshold)
    depths = None if ks is None else list(ks)
    measured = {name: Measured.of(Y, own, cuts.get(name), depths) for name, own in scores.items()}
    first = next(iter(measured.values()))
    names = names_of_labels(Y, label_names, first.data.n_labels)
    resampled = dict(
        zip(measured, bootstrap(list(measured.values()), n_bootstrap, random_state), strict=True)
    )
    f1 = {
        name: ratio(2 * own.counts.hits, own.counts.predicted + own.counts.positives).tolist()
        for name, own in measured.items()
    }
    return Comparison(
        methods={
            name: {
                metric: interval(value, resampled[name][metric], level)
                for metric, value in own.values.items()
            }
            for name, own in measured.items()
        },
        tests=_tests(measured, resampled, level),
        labels=[
            {"name": name, "support": support, "f1": {method: own[place] for method, own in f1.items()}}
            for place, (name, support) in enumerate(zip(names, first.counts.positives.tolist(), strict=True))
        ],
        left_out=first.left_out,
        thresholds={name: own.cut.astype(np.float64).tolist() for name, own in measured.items()},
        n_rows=first.n_rows,
        n_bootstrap=n_bootstrap,
        level=level,
    )


def _tests(
    measured: Mapping[str, Measured], resampled: Mapping[str, Mapping[str, Floats]], level: float
) -> list[dict[str, Any]]:
    values = {name: own.values for name, own in measured.items()}
    tests: list[dict[str, Any]] = []
    for metric in next(iter(values.values())):
        for one, other in combinations(measured, 2):
            difference = values[one][metric] - values[other][metric]
            spread = resampled[one][metric] - resampled[other][metric]
            _, low, high = interval(difference, spread, level, least=-1.0)
            if metric in measured[one].per_example:
                pair = (measured[name].per_example[metric] for name in (one, other))
                p_value = paired_difference(*pair).p_value
            else:
                p_value = _p_value(difference, spread)
            tests.append(
                {
                    "metric": metric,
                    "first": one,
                    "second": other,
                    "difference": difference,
                    "low": low,
                    "high": high,
                    "p_value": p_value,
                }
            )
    for test, corrected in zip(tests, holm([test["p_value"] for test in tests]), strict=True):
        test["corrected"] = corrected
        first_is_better = (test["difference"] < 0) == (test["metric"] in LOWER_IS_BETTER)
        clear = corrected < LEVEL and test["difference"] != 0
        test["better"] = (test["first"] if first_is_better else test["second"]) if clear else None
    return tests


def _p_value(difference: float, spread: Floats) -> float:
    """Return the p-value of a difference on both sides, by its standard error over the resamples."""
    error = float(spread.std(ddof=1)) if spread.size > 1 else 0.0
    return 2 * float(ndtr(-abs(difference) / error)) if error > 0 else 1.0


# The page

_DIGITS = 4


def _page(found: Comparison, title: str, about: Sequence[tuple[str, str]]) -> dict[str, Any]:
    metrics = list(next(iter(found.methods.values())))
    drawn = []
    for method, values in found.methods.items():
        value, low, high = (list(ends) for ends in zip(*values.values(), strict=True))
        drawn.append(series(method, value, [], "points", low, high))
    picture = figure(
        "figure-metrics",
        "All metrics",
        f"Dots are values on {found.n_rows:,} rows, bars {found.level:.0%} intervals of each by itself. "
        "Differences are judged row by row, so bars may overlap although a difference is clear.",
        "One dot with its interval per metric and model.",
        [dots("metrics", "value", [metric_title(name) for name in metrics], drawn)],
    )
    keys = {method: f"method{place}" for place, method in enumerate(found.methods)}
    tables = [
        *table(
            "metrics",
            "Side by side",
            f"Values on {found.n_rows:,} rows.",
            [
                column("metric", "metric"),
                *(column(key, method, "number", _DIGITS) for method, key in keys.items()),
                column("best", "best"),
                column("verdict", "clearly better than", explanation="after Holm's correction, at 5 %"),
            ],
            [_metric_row(found, metric, keys) for metric in metrics],
            notes=["The Hamming loss is better if lower; all others are better if higher."],
        ),
        *table(
            "tests",
            "Pairs",
            "Every pair of models by every metric.",
            [
                column("metric", "metric"),
                column("first", "first"),
                column("second", "second"),
                column("difference", "first − second", "number", 4),
                column("low", "low", "number", 4, f"of the {found.level:.0%} interval of the difference"),
                column("high", "high", "number", 4),
                column("p_value", "p-value", "number", 4, "paired t-test; for F1 by the bootstrap's error"),
                column(
                    "corrected", "corrected", "number", 4, "p-value after Holm's correction over all rows"
                ),
                column("better", "clearly better"),
            ],
            [{**test, "metric": metric_title(test["metric"])} for test in found.tests],
            filters=["metric"] if len(keys) > 2 else [],
        ),
        *table(
            "labels",
            "F1 of each label",
            "",
            [
                column("name", "label"),
                column("support", "support", "integer", None, "rows in which the label is relevant"),
                *(column(key, method, "number", 3) for method, key in keys.items()),
            ],
            [
                {**label, **{key: label["f1"][method] for method, key in keys.items()}}
                for label in found.labels
            ],
        ),
    ]
    known = [
        *about,
        ("Rows", f"{found.n_rows:,}"),
        ("Labels", f"{len(found.labels):,}"),
        ("Thresholds", _said_thresholds(found)),
        ("Intervals", f"{found.level:.0%}, {found.n_bootstrap:,} resamples of the rows, centred percentiles"),
    ]
    return page(title, _sentences(found), [picture], tables, known)


def _said_thresholds(found: Comparison) -> str:
    return "; ".join(f"{method} {said_threshold(own)}" for method, own in found.thresholds.items())


def _best(found: Comparison, metric: str) -> list[str]:
    """Return the best method, and all that tie with it as shown; none if no method has a value."""
    sign = -1 if metric in LOWER_IS_BETTER else 1
    values = {method: sign * round(own[metric].value, _DIGITS) for method, own in found.methods.items()}
    known = {method: value for method, value in values.items() if np.isfinite(value)}
    return [method for method, value in known.items() if value == max(known.values())]


def _beaten(found: Comparison, metric: str, best: Sequence[str]) -> list[str]:
    """Return the methods that all the best ones are clearly better than."""
    clear = {
        (test["better"], test["second"] if test["first"] == test["better"] else test["first"])
        for test in found.tests
        if test["metric"] == metric and test["better"] is not None
    }
    return [other for other in found.methods if best and all((own, other) in clear for own in best)]


def _metric_row(found: Comparison, metric: str, keys: Mapping[str, str]) -> dict[str, Any]:
    best = _best(found, metric)
    values = {key: found.methods[method][metric].value for method, key in keys.items()}
    beaten = ", ".join(_beaten(found, metric, best)) or None
    return {"metric": metric_title(metric), **values, "best": ", ".join(best) or None, "verdict": beaten}


def _sentences(found: Comparison) -> list[str]:
    sentences = []
    for metric in ("precision_at_1", "average_precision", "micro_f1", "macro_f1"):
        if metric not in next(iter(found.methods.values())):
            continue
        best = _best(found, metric)
        if not best:
            continue
        said = f"{metric_title(metric)}, {found.methods[best[0]][metric].value:.3f}"
        if len(best) == len(found.methods):
            sentences.append(f"All have the same {said}.")
            continue
        beaten = _beaten(found, metric, best)
        clear = (
            f"clearly better than {', '.join(beaten)}" if beaten else "but not clearly better than any other"
        )
        holds = f"{best[0]} has" if len(best) == 1 else f"{' and '.join(best)} tie for"
        sentences.append(f"{holds} the best {said}, {clear}.")
    sentences.append(f"A label is predicted from this score on: {_said_thresholds(found)}.")
    without = ", ".join(f"{value:.3f} ({method})" for method, value in found.macro_f1_of_occurring.items())
    return sentences + absent_sentence(found.absent_labels, len(found.labels), without)
