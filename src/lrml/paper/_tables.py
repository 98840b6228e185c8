"""The tables: our values beside the published ones, and which differences are more than chance.

Two methods are compared on the same test examples by a paired t-test (`lrml._significance`), on values that
are averaged over the seeds first. The test covers the choice of the test examples, not that of the training
rows, so another training set may well reverse a mark. For values that are 0 or 1, such as top-1 accuracy, the
t distribution is an approximation, which is good for hundreds of rows.

A plain mark, as in the paper, has 5 % of the differences between equals. After Holm's correction over all
comparisons of one protocol in a table, the chance of even one false mark is below 5 %.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from lrml._significance import LEVEL, Difference, holm, paired_difference
from lrml.paper._cells import Result
from lrml.paper._plan import METHODS, PROTOCOLS, WITH_THETA, Plan, place_of, theta_of
from lrml.paper._published import published_table1, published_table2
from lrml.report import column, table

METRICS = {
    "precision_at_1": "top-1 accuracy",
    "precision_at_3": "top-3 accuracy",
    "precision_at_5": "top-5 accuracy",
    "hamming_loss": "Hamming loss",
    "roc_auc_samples": "average AUC",
    "label_ranking_average_precision": "average precision",
}
"""Metrics in order, and their names in text: the paper's."""
RIVALS = ("LEML", "CPLST")
_MARKS = {"better": "•", "worse": "∘"}
_PRINTED_DIGITS = 4
_SECONDS = ("fit_seconds", "search_seconds")
_CHOSEN = ("model_rank", "alpha", "ridge", "loss", "theorem3")


class Models:
    """The models of a run, by kind, protocol, dataset, method and theta; several seeds are one model."""

    def __init__(self, plan: Plan, results: Iterable[Result]) -> None:
        self.plan = plan
        self._found: dict[tuple[Any, ...], list[Result]] = {}
        for result in (one for found in results for one in members_of(found)):
            place = (result.cell.get(key) for key in ("kind", "protocol", "dataset", "method", "theta"))
            self._found.setdefault(tuple(place), []).append(result)

    def at(
        self, protocol: str, dataset: str, method: str, theta: int | None, kind: str = "models"
    ) -> list[Result]:
        """Return the results of all seeds; none if they failed or were not asked for."""
        return self._found.get((kind, protocol, dataset, method, theta if method in WITH_THETA else None), [])

    def over_theta(self, protocol: str, dataset: str) -> dict[int, list[Result]]:
        """Return the LRML of each theta of Figure 2; small shares of few labels are the same theta."""
        asked = self.plan.experiments.get("fig2", {"protocols": ()})
        percents = asked["percents"] if protocol in asked["protocols"] else ()
        thetas = [theta_of(dataset, percent, self.plan.protocols[protocol]) for percent in percents]
        found = {theta: self.at(protocol, dataset, "LRML", theta) for theta in thetas}
        return {theta: own for theta, own in found.items() if own}

    def chosen(self) -> Iterator[dict[str, Any]]:
        """Yield what average precision chose in every result, and the times."""
        for (kind, *_), found in self._found.items():
            for cell, values, _ in found if kind == "models" else ():
                largest = theta_of(cell["dataset"], 100, self.plan.protocols[cell["protocol"]])
                missing = sum(not choice["converged"] for choice in values["chosen"].values())
                place = {key: cell[key] for key in ("protocol", "dataset", "method", "theta")}
                times = {key: values[key] for key in _SECONDS}
                own = {key: values["chosen"]["label_ranking_average_precision"].get(key) for key in _CHOSEN}
                yield place | own | times | {"largest": largest, "missing": missing}


def members_of(result: Result) -> Iterator[Result]:
    """Yield the results of a cell of all members as if each had a cell of its own; others as they are."""
    if "members" not in result.values:
        yield result
    for member in result.values.get("members", ()):
        own = {"kind": "models" if result.cell["kind"] == "family" else result.cell["kind"]}
        own |= {key: member[key] for key in ("method", "space", "theta")}
        values = {"fit_seconds": np.nan, "search_seconds": result.values["search_seconds"]}
        arrays = {
            metric: result.arrays[name] for metric, name in member["arrays"].items() if name in result.arrays
        }
        yield Result(result.cell | own, values | {key: member[key] for key in ("metrics", "chosen")}, arrays)


def metric_values(models: Sequence[Result], metric: str) -> npt.NDArray[np.float64]:
    """Return the test value of each seed."""
    return np.array([model.values["metrics"][metric] for model in models], dtype=np.float64)


def compared(first: Sequence[Result], second: Sequence[Result], metric: str) -> Difference:
    """Return first − second, paired over the test examples; the values of each are means over the seeds."""
    return paired_difference(_per_example(first, metric), _per_example(second, metric))


def _per_example(models: Sequence[Result], metric: str) -> npt.NDArray[np.float64]:
    rows = [model.arrays[metric].astype(np.float64) for model in models]
    mean: npt.NDArray[np.float64] = np.mean(rows, axis=0)
    return mean


def mark(difference: float, p_value: float, lower_is_better: bool = False) -> str:
    """Return the paper's mark of a difference, LRML minus the other method.

    Examples
    --------
    >>> mark(0.02, 0.01), mark(0.02, 0.01, lower_is_better=True), mark(0.02, 0.5)
    ('•', '∘', '')
    """
    if not p_value < LEVEL or difference == 0.0:
        return ""
    return _MARKS["better" if (difference < 0.0) == lower_is_better else "worse"]


# The values of Table 2, and of the same comparison at equal rank


@lru_cache(maxsize=4)
def table2_values(models: Models, experiment: str = "table2") -> pd.DataFrame:
    """Return one row per protocol, dataset, percent, metric and method.

    With the experiment "equal_rank", LRML is held to the rank that its rivals are given.
    """
    rows = [
        row
        for protocol in models.plan.experiments.get(experiment, {}).get("protocols", ())
        if protocol in models.plan.protocols
        for dataset in models.plan.datasets
        for percent in models.plan.experiments[experiment]["percents"]
        for row in _values_at(models, experiment, protocol, dataset, percent)
    ]
    frame = pd.DataFrame(rows)
    if frame.empty:
        return frame
    # Two percents with one theta are one comparison, which counts once.
    comparison = ["protocol", "dataset", "theta", "metric", "method"]
    tests = frame.dropna(subset="p_value").drop_duplicates(comparison)
    corrected = tests.groupby("protocol")["p_value"].transform(lambda p: holm(p.tolist()))
    frame = frame.merge(tests[comparison].assign(p_holm=corrected), on=comparison, how="left")
    lower = frame["metric"] == METRICS["hamming_loss"]
    for name, p_value in (("mark", "p_value"), ("mark_holm", "p_holm")):
        frame[name] = [mark(*one) for one in zip(frame["lrml_minus"], frame[p_value], lower, strict=True)]
    frame["difference"] = frame["ours"] - frame["published"]
    behind = np.where(lower, 1.0, -1.0) * (frame["ours"].round(_PRINTED_DIGITS) - frame["published"]) > 1e-9
    frame["verdict"] = np.where(frame["published"].isna(), "", np.where(behind, "below", "at or above"))
    return frame


def _values_at(
    models: Models, experiment: str, protocol: str, dataset: str, percent: int
) -> Iterable[dict[str, Any]]:
    theta = theta_of(dataset, percent, models.plan.protocols[protocol])
    found = {method: models.at(protocol, dataset, method, theta) for method in WITH_THETA}
    if experiment == "equal_rank":
        found["LRML"] = models.at(protocol, dataset, "LRML", theta, "equal_rank")
        if not found["LRML"]:
            return
    for metric in (name for name in METRICS if name in models.plan.experiments[experiment]["criteria"]):
        for method, own in ((method, own) for method, own in found.items() if own):
            values, per_example = metric_values(own, metric), _per_example(own, metric)
            published, word = published_table2().get((dataset, percent, metric, method), (np.nan, ""))
            test = compared(found["LRML"], own, metric) if method != "LRML" and found["LRML"] else None
            ranks = _chosen(own, "model_rank")
            yield {
                "dataset": dataset,
                "protocol": protocol,
                "percent": percent,
                "theta": theta,
                "metric": METRICS[metric],
                "method": METHODS[method],
                "ours": values.mean(),
                "spread": values.std() if len(values) > 1 else np.nan,
                "error": paired_difference(per_example, np.zeros_like(per_example)).standard_error,
                "seeds": len(own),
                "published": published,
                "lrml_minus": test.mean if test else np.nan,
                "standard_error": test.standard_error if test else np.nan,
                "p_value": test.p_value if test else np.nan,
                "mark_published": _MARKS.get(word, ""),
                "chosen_theta": span(_chosen(own, "theta")) if method == "LRML" else None,
                "rank": float(np.mean(ranks)),
                "largest_rank": max(ranks),
            }


def _chosen(models: Sequence[Result], name: str) -> list[Any]:
    """Return what average precision chose, per seed: alpha, ridge, loss, threshold, model_rank."""
    return [model.values["chosen"]["label_ranking_average_precision"].get(name) for model in models]


def span(values: Iterable[Any]) -> str | None:
    """Write values of several seeds as one text: the value, the range of numbers, or all of the texts.

    Examples
    --------
    >>> span([1.0, 3.0, 1.0]), span([2.0, 2.0]), span(["squared", "logistic"]), span([None])
    ('1 to 3', '2', 'logistic, squared', None)
    """
    known = sorted({value for value in values if pd.notna(value)})
    if not known or isinstance(known[0], str):
        return ", ".join(known) or None
    low, high = f"{known[0]:.3g}", f"{known[-1]:.3g}"
    return low if low == high else f"{low} to {high}"


# What the columns are, in every table that has them

_COLUMNS = {
    entry["key"]: entry
    for entry in (
        *(column(key, key) for key in ("dataset", "domain", "protocol", "metric", "method", "loss")),
        column("percent", "% of labels", "integer"),
        column("theta", "theta or rank", "integer", None, "this share of the labels, at most min(d, L)"),
        column("ours", "ours", "number", 4, "test value, mean over the seeds"),
        column("spread", "spread", "number", 4, "standard deviation of the test value over the seeds"),
        column("seeds", "seeds", "integer", None, "how many of them did not fail"),
        column("published", "paper", "number", 4, "as the paper's Table 2 prints it"),
        column("difference", "ours − paper", "number", 4),
        column("verdict", "verdict", explanation="ours beside the paper's, both with four decimals"),
        column("lrml_minus", "LRML − method", "number", 4, "mean over test rows of the paired differences"),
        column("standard_error", "error", "number", 4, "standard error of LRML − method, over test rows"),
        column("mark", "mark", explanation="• LRML is better, ∘ worse, by a paired t-test at 5 %"),
        column("mark_holm", "mark (Holm)", explanation="the same after Holm's correction"),
        column("mark_published", "mark (paper)", explanation="what the paper prints"),
        column("error", "error", "number", 4, "standard error of our value, by the choice of test rows"),
        column("chosen_theta", "theta", explanation="of LRML, as chosen; a range where seeds differ"),
        column("rank", "rank", "number", 1, "rank of the model, mean over the seeds"),
        column("largest_rank", "largest rank", "integer", None, "over the seeds"),
        column("largest", "min(d, L)", "integer", None, "the largest rank that is possible"),
        column("alpha", "alpha", explanation="strength of the penalty, another one in every method"),
        column("ridge", "ridge", explanation="strength of the squared norm beside it"),
        column("theorem3", "Theorem 3", "number", 3, "the local bound as printed, which need not hold"),
        column("converged", "converged", explanation="all chosen models, of all seeds and criteria"),
        column("searches", "searches", "integer", None, "how many the medians are over"),
        column("fit_seconds", "final fit", "seconds", 3, "on the whole training set, parameters chosen"),
        column("search_seconds", "whole search", "seconds", 3, "all candidates, all criteria, final fits"),
        column("cells", "values", "integer", None, "published values that we have a value for"),
        column("reached", "reached", "integer", None, "ours is at least as good, with four decimals"),
        *(column(name, name, "integer", None) for name in METRICS.values()),
        column("compared", "comparisons", "integer", None, "of LRML with this method"),
        column("better", "• better", "integer", None, "LRML is better, after Holm's correction"),
        column("worse", "∘ worse", "integer", None, "LRML is worse, after Holm's correction"),
    )
}


def _made(
    name: str,
    title: str,
    caption: str,
    frame: pd.DataFrame,
    keys: Sequence[str],
    columns: Mapping[str, dict[str, Any]] = _COLUMNS,
) -> list[dict[str, Any]]:
    """Return a list with the table of some columns of a frame; what is missing there is None."""
    shown = frame.reindex(columns=[*keys, *(["_best"] if "_best" in frame else [])])
    counts = {
        key: "Int64" for key in keys if columns[key]["kind"] == "integer"
    }  # with values that are missing
    shown = shown.astype(counts).astype(object)
    rows = shown.where(shown.notna(), None).to_dict("records")
    return table(name, title, caption, [columns[key] for key in keys], rows)


# The tables


def tables(models: Models, statistics: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return all tables of a run, in order; ``statistics`` are those of Table 1, by dataset."""
    values, equal = table2_values(models), table2_values(models, "equal_rank")
    made = _table1(statistics)
    if not values.empty:
        made += _counts(values) + _like_paper(values)
    if not equal.empty:
        made += _made(
            "equal_rank",
            "At equal rank",
            "In Table 2 the theta of LRML is no limit on its rank: singular values beyond theta are "
            "penalised, not removed. Here LRML may have no larger rank than LEML and CPLST: its candidates "
            "are those whose model, fitted without the validation rows, had an allowed rank, and alpha is "
            "raised until the final fit has one.",
            equal.rename(columns={"theta": "allowed"}).rename(columns={"chosen_theta": "theta"}),
            [
                *("dataset", "percent", "allowed", "method", "theta", "rank", "largest_rank", "metric"),
                *("ours", *(["spread"] if models.plan.n_seeds > 1 else [])),
                *("lrml_minus", "standard_error", "mark", "mark_holm"),
            ],
            _COLUMNS
            | {
                "allowed": column("allowed", "allowed rank", "integer", None, "this share of the labels"),
                "theta": column("theta", "theta", explanation="of LRML, as chosen"),
            },
        )
    return made + _chosen_models(models)


def table2_long(models: Models) -> list[dict[str, Any]]:
    """Return every value of Table 2, for a file: one row for each, with all that is known of it."""
    keys = ["dataset", "protocol", "percent", "theta", "metric", "method", "ours", "spread", "error", "seeds"]
    keys += ["published", "difference", "verdict", "lrml_minus", "standard_error"]
    keys += ["mark", "mark_holm", "mark_published"]
    values = table2_values(models)
    return [] if values.empty else _made("table2", "Table 2: every value", "", values, keys)


# The statistics, and their decimals in the paper.
_STATISTICS = {
    "instances": 0,
    "attributes": 0,
    "labels": 0,
    "cardinality": 3,
    "density": 3,
    "distinct_label_sets": 0,
}


def agreeing(counted: Mapping[str, Any], printed: Mapping[str, str]) -> list[str]:
    """Return the statistics that are the same with the paper's number of decimals."""
    return [name for name, digits in _STATISTICS.items() if f"{counted[name]:.{digits}f}" == printed[name]]


def _table1(statistics: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for dataset, counted in statistics.items():
        printed = published_table1(dataset)
        agree = agreeing(counted, printed)
        row: dict[str, Any] = {"dataset": dataset, "domain": printed["domain"]}
        for name, digits in _STATISTICS.items():
            number = float if digits else int
            row |= {name: number(counted[name]), f"{name}_paper": number(printed[name])}
        rows.append(row | {"agrees": "yes" if len(agree) == len(_STATISTICS) else "no"})
    columns = [_COLUMNS["dataset"], _COLUMNS["domain"]]
    for name, digits in _STATISTICS.items():
        kind, title = "number" if digits else "integer", name.replace("_", " ")
        columns += [column(name, title, kind, digits), column(f"{name}_paper", "paper", kind, digits)]
    columns.append(column("agrees", "agrees"))
    return table(
        "table1",
        "Table 1: the data",
        "Counts over training and test set together, and beside each what the paper prints.",
        columns,
        rows,
    )


def _counts(values: pd.DataFrame) -> list[dict[str, Any]]:
    """For every protocol and method, how many published values we reach, and how LRML compares."""
    rows = []
    for (protocol, method), own in values.groupby(["protocol", "method"], sort=False):
        printed, row = own.dropna(subset="published"), {"protocol": protocol, "method": method}
        reached = printed[printed["verdict"] == "at or above"]["metric"]
        if len(printed):
            row |= {"cells": len(printed), "reached": len(reached)}
            row |= {metric: (reached == metric).sum() for metric in printed["metric"].unique()}
        if method in RIVALS:
            row |= {"compared": own["p_value"].notna().sum()}
            row |= {word: (own["mark_holm"] == sign).sum() for word, sign in _MARKS.items()}
        if len(printed) or method in RIVALS:  # else there is nothing to count
            rows.append(row)
    frame = pd.DataFrame(rows)
    keys = [key for key in ("protocol", "method", "cells", "reached", *METRICS.values()) if key in frame]
    return _made(
        "counts",
        "How many of the paper's values are reached, and how LRML compares",
        "Protocols are counted apart: to take the best of several for each value would be a choice on the "
        "test set. A value is reached if ours is at least as good when both have four decimals.",
        frame,
        [*keys, "compared", *_MARKS],
    )


def _like_paper(values: pd.DataFrame) -> list[dict[str, Any]]:
    """Return one table per protocol: the methods side by side, the best value of a row marked."""
    made, what = [], "Means over the seeds, on" if values["seeds"].max() > 1 else "Values on"
    for protocol, own in values.groupby("protocol", sort=False):
        rows = []
        for (dataset, metric, percent), group in own.groupby(["dataset", "metric", "percent"], sort=False):
            row = {"dataset": dataset, "metric": metric, "percent": percent}
            for one in group.itertuples():
                row |= {one.method: one.ours, f"{one.method}_mark": one.mark}
                row |= {f"{one.method}_paper": one.published}
            shown = group["ours"].round(_PRINTED_DIGITS)
            best = shown.min() if metric == METRICS["hamming_loss"] else shown.max()
            rows.append(row | {"_best": list(group["method"][shown == best])})
        order = list(METRICS.values())
        frame = pd.DataFrame(
            sorted(
                rows, key=lambda row: (place_of(row["dataset"]), row["dataset"], order.index(row["metric"]))
            )
        )
        columns = dict(_COLUMNS)
        keys = ["dataset", "metric", "percent"]
        for method in (name for name in WITH_THETA if name in frame):
            columns[method] = column(method, method, "number", _PRINTED_DIGITS)
            columns[f"{method}_mark"] = column(f"{method}_mark", "")
            columns[f"{method}_paper"] = column(f"{method}_paper", "paper", "number", _PRINTED_DIGITS)
            keys += [method, *([f"{method}_mark"] if method in RIVALS else [])]
            keys += [f"{method}_paper"] if frame[f"{method}_paper"].notna().any() else []
        made += _made(
            f"table2_{protocol}",
            f"Table 2, protocol {protocol}",
            f"{what} the test rows; the best of a row in bold. • after a value: LRML is significantly better "
            "than this method, ∘ worse (paired t-test over the test rows at 5 %, not corrected for the "
            "number of comparisons).",
            frame,
            keys,
            columns,
        )
    return made


def _chosen_models(models: Models) -> list[dict[str, Any]]:
    """Return what was chosen, and how long it took; the times are not the same in a second run."""
    place = ["protocol", "dataset", "method"]
    found = pd.DataFrame(models.chosen())
    if found.empty:
        return []
    found["theorem3"] = found["theorem3"].astype(float)
    datasets = sorted(set(found["dataset"]), key=lambda name: (place_of(name), name))
    orders = dict(zip(place, (PROTOCOLS, datasets, list(METHODS)), strict=True))
    found = found.sort_values(
        [*place, "theta"], key=lambda one: one.map(orders[one.name].index) if one.name in orders else one
    )
    found["method"] = found["method"].map(METHODS)
    ranks = found.groupby([*place, "theta"], sort=False, dropna=False).agg(
        rank=("model_rank", "mean"),
        largest=("largest", "first"),
        theorem3=("theorem3", "mean"),
        missing=("missing", "sum"),
        **{name: (name, span) for name in ("alpha", "ridge", "loss")},
    )
    ranks["converged"] = [f"no: {missing} did not" if missing else "yes" for missing in ranks["missing"]]
    times = found.groupby(place, sort=False)[list(_SECONDS)].median()
    times["searches"] = found.groupby(place, sort=False).size()
    return _made(
        "ranks",
        "What was chosen, and the ranks",
        "The models with the best average precision on the validation rows, fitted on the whole training "
        "set. Parameters are given as a range where the seeds chose different ones. ML-trace and ML-Fro have "
        "no theta; where theta is min(d, L), LRML has no penalty but the ridge.",
        ranks.reset_index(),
        [*place, "theta", "rank", "largest", "alpha", "ridge", "loss", "theorem3", "converged"],
    ) + _made(
        "times",
        "Times",
        "Median seconds over theta and the seeds. The final fit uses the sums that the search has made, "
        "grids differ in size, and other searches ran at the same time: this tells what a run costs, and is "
        "no benchmark.",
        times.reset_index(),
        [*place, "searches", *_SECONDS],
    )
