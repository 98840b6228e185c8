"""Several models on the same rows: their metrics side by side, and which differences are more than chance.

Metrics that are means over rows are compared by a paired t-test. The two F1 have no values per row; their
difference over its bootstrap standard error is compared with the normal distribution.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from lrml._ranking import Matrix
from lrml._shown import shown
from lrml._significance import LEVEL, holm, paired_difference
from lrml.evaluation._assessment import Assessment, Interval, assess
from lrml.evaluation._cells import Floats
from lrml.evaluation._pages import comparison_page, lower_is_better
from lrml.report import rounded


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """What `compare` returns.

    Attributes
    ----------
    methods : dict of str to Assessment
        Every model by itself, on the same resamples.
    tests : list of dict
        For every metric and pair: ``metric``, ``first``, ``second``, ``difference`` (first − second), ``low``
        and ``high`` of its bootstrap interval, ``p_value``, ``corrected`` (by Holm's method, over all tests
        of the list) and ``better``: the method that is better at 5 % after the correction, or None.
    """

    methods: dict[str, Assessment]
    tests: list[dict[str, Any]]

    @property
    def alike(self) -> list[list[str]]:
        """Groups of methods, each of two or more, that have the same value of every metric on every row."""
        groups: list[list[str]] = []
        for name, found in self.methods.items():
            own = next((group for group in groups if _same(found, self.methods[group[0]])), None)
            if own is None:
                groups.append([name])
            else:
                own.append(name)
        return [group for group in groups if len(group) > 1]

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data that JSON can hold; None stands for what has no value."""
        return {
            "methods": {method: found.as_dict() for method, found in self.methods.items()},
            "tests": rounded(self.tests),
        }

    def summary(self, title: str, *, about: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Return the plain data that `lrml.report.render_html` makes a page of."""
        return comparison_page(self, title, about)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self.methods)}; {len(self.tests)} tests)"


def compare(
    Y: Matrix,
    scores: Mapping[str, Matrix],
    *,
    threshold: npt.ArrayLike | Mapping[str, npt.ArrayLike | None] | None = None,
    **options: Any,
) -> Comparison:
    """Compare the scores of several models on the same rows.

    Parameters
    ----------
    Y : array, sparse matrix or frame of shape (n, L)
        Labels, 1 where relevant and 0 elsewhere, NaN where unknown, as in `assess`.
    scores : mapping of str to array or frame of shape (n, L)
        The scores of each model, by its name; at least two.
    threshold : float, array of shape (L,), or mapping of str to either, optional
        As in `assess`; one for all models, or one for each name.
    **options
        The others of `assess`, the same for all.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Y = rng.integers(2, size=(200, 5))
    >>> found = compare(Y, {"good": Y + rng.normal(size=Y.shape), "luck": rng.random(Y.shape)}, threshold=0.5)
    >>> {test["metric"]: test["better"] for test in found.tests}["label_ranking_average_precision"]
    'good'
    """
    if not isinstance(scores, Mapping) or len(scores) < 2:
        raise ValueError(
            f"scores is {shown(scores)}, and a comparison needs two models or more. Pass "
            '{"one": scores, "other": other_scores}, or use assess for one model.'
        )
    cuts = threshold if isinstance(threshold, Mapping) else dict.fromkeys(scores, threshold)
    methods = {name: assess(Y, own, threshold=cuts.get(name), **options) for name, own in scores.items()}
    tests: list[dict[str, Any]] = [
        {"metric": metric, "first": one, "second": other, **_tested(metric, methods[one], methods[other])}
        for metric, found in next(iter(methods.values())).resampled.items()
        for one, other in combinations(methods, 2)
        if not found.size or not np.isnan(found).all()
    ]
    for test, corrected in zip(tests, holm([test["p_value"] for test in tests]), strict=True):
        first_is_better = (test["difference"] < 0) == lower_is_better(test["metric"])
        clear = corrected < LEVEL and test["difference"] != 0
        test["corrected"] = corrected
        test["better"] = (test["first"] if first_is_better else test["second"]) if clear else None
    return Comparison(methods, tests)


def _same(one: Assessment, other: Assessment) -> bool:
    rows = zip(one.per_example.values(), other.per_example.values(), strict=True)
    alike = all(np.array_equal(*values, equal_nan=True) for values in rows)
    return alike and rounded(one.labels) == rounded(other.labels)


def _tested(metric: str, one: Assessment, other: Assessment) -> dict[str, float]:
    difference = one.metrics[metric].value - other.metrics[metric].value
    spread = one.resampled[metric] - other.resampled[metric]
    _, low, high = Interval.around(difference, spread, one.level, least=-1.0)
    if metric in one.per_example:
        p_value = paired_difference(one.per_example[metric], other.per_example[metric]).p_value
    else:
        p_value = _p_value(difference, spread)
    return {"difference": difference, "low": low, "high": high, "p_value": p_value}


def _p_value(difference: float, spread: Floats) -> float:
    """Return the p-value of a difference on both sides, by its standard error over the resamples."""
    error = float(np.std(spread, ddof=1)) if spread.size > 1 else 0.0
    return 2 * float(ndtr(-abs(difference) / error)) if error > 0 else 1.0
