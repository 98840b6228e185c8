"""What a metric is: a formula for blocks of rows, of which functions, evaluations and searches are made."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, Literal

import numpy.typing as npt

from lrml._door import check_label_names, split_unknown
from lrml._ranking import (
    Counts,
    LabelledScores,
    Matrix,
    TopK,
    Vector,
    check_labelled_scores,
    check_threshold,
    count,
    ratio,
    top_rows,
)
from lrml._shown import did_you_mean, shown
from lrml.core.arrays import Place, namespace, to_numpy
from lrml.core.checks import check_integer


@dataclass(frozen=True)
class Measure:
    """A metric: a formula for a block of rows.

    Attributes
    ----------
    name : str
    formula : callable
        Takes a block (and k, for a name in "_at_k") and returns a value for each row; or, with ``finish``,
        the counts of each label, which are added up over the blocks.
    finish : callable or None
        Makes a number of the counts.
    over : {"rows", "labels", "cells"}
        What is ranked: the labels of each row, the rows of each label, or all cells in one.
    needs_cut, lower_is_better, of_probabilities : bool
    k : int or None
        How many labels of each row it looks at, at least.
    """

    name: str
    formula: Callable[..., Any]
    finish: Callable[[Counts], Any] | None = None
    over: Literal["rows", "labels", "cells"] = "rows"
    needs_cut: bool = False
    lower_is_better: bool = False
    of_probabilities: bool = False
    k: int | None = None

    def at(self, k: int) -> Measure:
        """Return the same for a number in place of k."""
        return replace(self, name=self.name[:-1] + str(k), formula=_at(self.formula, k), k=k)

    @property
    def by_row(self) -> bool:
        """Whether every row has a value."""
        return self.finish is None and self.over == "rows"

    def values(self, data: LabelledScores) -> Vector:
        """Return the value of each row, or of each label."""
        if self.finish is not None:
            raise ValueError(f"{self.name} has one value for all rows together. Leave out per_example.")
        return namespace(data.scores).concat([self.formula(b) for b in data.over(self.over).blocks()])

    def value(self, data: LabelledScores) -> float:
        """Return the metric."""
        if self.finish is not None:
            return float(self.finish(Counts.total(map(self.formula, data.blocks()))))
        return means_of({self.name: self.values(data)})[self.name]


@cache
def _at(formula: Callable[..., Any], k: int) -> Callable[[Any], Any]:
    """Return one function for each k, by which metrics know what they share."""
    return partial(formula, k=k)


METRICS: dict[str, Measure] = {}
"""All metrics by name. Those in "_at_k" take any number in place of k."""


def metric(**kind: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare a metric by a formula for a block of rows, and perhaps k; it becomes a public function."""
    return lambda formula: declared(Measure(formula.__name__, formula, **kind), formula.__doc__)


def declared(measure: Measure, words: str | None) -> Callable[..., Any]:
    """Enter a metric, and return the function that computes it."""

    def ranking(Y: Matrix, S: Matrix, *, per_example: bool = False) -> float | Vector:
        data = labelled(Y, S)
        return measure.values(data) if per_example else measure.value(data)

    def decisions(
        Y: Matrix, S: Matrix, threshold: npt.ArrayLike | None = None, *, per_example: bool = False
    ) -> float | Vector:
        data = labelled(Y, S, threshold, needs_cut=True)
        return measure.values(data) if per_example else measure.value(data)

    def at_k(Y: Matrix, S: Matrix | TopK, k: int, *, per_example: bool = False) -> float | Vector:
        parts = of_best(Y, S, k, measure.formula)
        if measure.finish is not None:
            return float(measure.finish(Counts.total(parts)))
        values = (
            Place.of(S.scores).asarray(parts[0]) if isinstance(S, TopK) else namespace(parts[0]).concat(parts)
        )
        return values if per_example else means_of({measure.name: values})[measure.name]

    takes_k = measure.name.endswith("_at_k")
    function = at_k if takes_k else decisions if measure.needs_cut else ranking
    METRICS[measure.name] = measure
    function.__name__ = function.__qualname__ = measure.name
    function.__doc__ = words
    return function


def of_best(Y: Matrix, S: Matrix | TopK, k: int, formula: Callable[..., Any]) -> list[Any]:
    """Return what a formula makes of the blocks of rows and k."""
    if isinstance(S, TopK):
        return [formula(top_rows(Y, S, k), k=k)]
    data = labelled(Y, S)
    k = check_integer("k", k, 1, data.n_labels)
    return [formula(block, k=k) for block in data.blocks()]


def labelled(Y: Matrix, S: Matrix, threshold: Any = None, *, needs_cut: bool = False) -> LabelledScores:
    """Return checked labels and scores, which labels are unknown, and the cut if one is needed or given."""
    data = check_labelled_scores(Y, S)
    labels, mask = split_unknown(data.labels, None)
    data = data._replace(labels=labels, unknown=None if mask is None else mask.pattern)
    return data._replace(cut=check_threshold(threshold, data)) if needs_cut or threshold is not None else data


USUAL = (
    *("precision_at_k", "label_ranking_average_precision", "roc_auc_samples"),
    *("hamming_loss", "f1_micro", "f1_macro"),
)
"""What `evaluate` computes by default."""


def measure_named(name: str) -> Measure | None:
    """Return the metric of a name with a number in place of k, such as "ndcg_at_5"; None if there is none."""
    top = re.fullmatch(r"(.+_at_)([1-9]\d*)", name)
    if top:
        found = METRICS.get(f"{top[1]}k")
        return None if found is None else found.at(int(top[2]))
    return None if name.endswith("_at_k") else METRICS.get(name)


def measures_named(
    names: str | Sequence[str] | None, ks: Iterable[int] | None, n_labels: int
) -> list[Measure]:
    """Return metrics by names, "all" of scores or the usual ones; those in "_at_k" once for each of ks."""
    usual = [k for k in (1, 3, 5) if k <= n_labels]
    depths = usual if ks is None else [check_integer("each of ks", k, 1, n_labels) for k in ks]
    found = []
    every = [name for name, one in METRICS.items() if not one.of_probabilities]
    for name in USUAL if names is None else every if names == "all" else names:
        if name in METRICS and name.endswith("_at_k"):
            found += [METRICS[name].at(k) for k in depths]
            continue
        one = measure_named(name)
        if one is None:
            raise ValueError(
                f"there is no metric {shown(name)}. {did_you_mean(name, METRICS)}See lrml.metrics.METRICS."
            )
        check_integer(f"k of {name}", one.k or 1, 1, n_labels)
        found.append(one)
    return found


def labels_and_scores(rows: Sequence[Any], threshold: Any) -> tuple[Any, Any, Any]:
    """Return labels, scores and the cut of ``Y, S``, or of ``model, X, Y``."""
    if len(rows) == 2:
        return *rows, threshold
    if len(rows) != 3 or not hasattr(rows[0], "decision_function"):
        raise TypeError(f"got {shown(rows)}. For labels pass a fitted model, X and Y, or Y and scores.")
    model, X, Y = rows
    inner = model
    while not hasattr(inner, "threshold_"):
        inner = getattr(inner, "best_estimator_", None) or (
            inner.steps[-1][1] if hasattr(inner, "steps") else None
        )
        if inner is None:
            raise TypeError(
                f"{shown(model)} has no threshold_. Pass a fitted model of lrml, or Y and scores."
            )
    if hasattr(inner, "binarize"):
        Y = inner.binarize(Y)
    else:
        check_label_names(getattr(Y, "columns", None), inner.classes_)
    return Y, model.decision_function(X), inner.threshold_ if threshold is None else threshold


def means_of(per_example: Mapping[str, Vector]) -> dict[str, float]:
    """Means over the rows that have a value; those on a device come to the host together."""
    if not per_example:
        return {}
    columns = list(per_example.values())
    xp = namespace(*columns)
    values = xp.stack(columns)
    known = ~xp.isnan(values)
    means = ratio(xp.sum(xp.where(known, values, 0.0), axis=1), count(known, axis=1))
    found = dict(zip(per_example, to_numpy(means).tolist(), strict=True))
    for name, mean in found.items():
        if math.isnan(mean):
            needed = (
                "both a relevant and an irrelevant"
                if name.startswith(("roc_auc", "label_ranking_loss"))
                else "a relevant"
            )
            where = f"none of {values.shape[1]} rows has {needed} label"
            raise ValueError(f"{name} has no value: {where}. Check Y, or ask for per_example=True.")
    return found


class Evaluation(dict[str, float]):
    """What `evaluate` returns: metrics by name, means over the rows on which they have a value.

    ``per_example`` has the values behind each mean, by name; NaN marks a row that is left out.
    """

    def __init__(self, means: Mapping[str, float], per_example: dict[str, Vector]) -> None:
        super().__init__(means)
        self.per_example = per_example

    @property
    def left_out(self) -> dict[str, int]:
        """Number of rows that each mean leaves out."""
        without = {name: namespace(values).isnan(values) for name, values in self.per_example.items()}
        return {name: int(count(rows, axis=0)) for name, rows in without.items()}

    def __repr__(self) -> str:
        return f"Evaluation({', '.join(f'{name}={value:.4g}' for name, value in self.items())})"


def evaluate(
    *rows: Any,
    metrics: str | Sequence[str] | None = None,
    ks: Iterable[int] | None = None,
    threshold: npt.ArrayLike | None = None,
) -> Evaluation:
    """Compute several metrics with one sort of the scores.

    Parameters
    ----------
    *rows
        Either ``model, X, Y``: a fitted model of this library, or a pipeline or search that ends in one, rows
        that it has not seen (texts, for a `TextTagger`), and their labels (or tags); or ``Y, S``: labels and
        scores, as in `precision_at_k`.
    metrics : sequence of str or "all", optional
        Names such as "f1_macro", "ndcg_at_5", or "ndcg_at_k" for all of ks; by default precision at k, label
        ranking average precision, AUC, Hamming loss, and two F1. "brier_score_loss" and "log_loss", which
        "all" leaves out, take the probabilities of the model.
    ks : iterable of int, optional
        By default those of 1, 3 and 5 that do not exceed the number of labels.
    threshold : float or array of shape (L,), optional
        As in `hamming_loss`; by default that of the model.

    Examples
    --------
    >>> from lrml.metrics import evaluate
    >>> result = evaluate([[1, 0, 1], [0, 0, 0]], [[0.9, 0.6, 0.5], [0.3, 0.2, 0.1]], ks=[1])
    >>> result
    Evaluation(precision_at_1=0.5, label_ranking_average_precision=0.8333, roc_auc_samples=0.5,
               hamming_loss=0.1667, f1_micro=0.8, f1_macro=0.6667)
    >>> result["precision_at_1"], result.left_out["roc_auc_samples"]
    (0.5, 1)
    >>> result.per_example["roc_auc_samples"].tolist()
    [0.5, nan]
    """
    Y, S, threshold = labels_and_scores(rows, threshold)
    depths = None if ks is None else list(ks)
    chances = data = labelled(Y, S)
    measures = measures_named(metrics, depths, data.n_labels)
    if any(measure.of_probabilities for measure in measures) and len(rows) == 3:
        chances = labelled(Y, rows[0].predict_proba(rows[1]))
    if any(measure.needs_cut for measure in measures):
        data = data._replace(cut=check_threshold(threshold, data))
    # Metrics of the same counts share them.
    ranked = [one for one in measures if one.over == "rows" and not one.of_probabilities]
    formulas = list(dict.fromkeys(measure.formula for measure in ranked))
    parts = zip(*([formula(block) for formula in formulas] for block in data.blocks()), strict=True)
    of_rows = dict(zip(formulas, parts, strict=True))
    per_example = {m.name: namespace(data.scores).concat(of_rows[m.formula]) for m in ranked if m.by_row}
    per_example |= {m.name: m.values(chances) for m in measures if m.of_probabilities}
    found, totals = dict[str, float](), dict[Any, Counts]()
    for measure in measures:
        if measure.finish is not None:
            if measure.formula not in totals:
                totals[measure.formula] = Counts.total(of_rows[measure.formula])
            found[measure.name] = float(measure.finish(totals[measure.formula]))
        elif measure.over != "rows":
            found[measure.name] = measure.value(data)
    found |= means_of(per_example)
    return Evaluation({measure.name: found[measure.name] for measure in measures}, per_example)
