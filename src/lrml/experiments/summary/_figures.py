"""The figures of the summary as plain data: panels with series or surfaces, captions, findings.

The alternative texts say what is drawn; the values are in the tables that the page puts behind its plots.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from lrml._significance import Difference
from lrml.datasets import mulan_entries
from lrml.experiments._plan import theta_of
from lrml.experiments._published import published_table2
from lrml.experiments._specs import WITH_THETA
from lrml.experiments.runner import Record
from lrml.experiments.summary._records import MethodRecords, Records
from lrml.experiments.summary._significance import PRINTED_DIGITS, Value, compared, table2_values
from lrml.experiments.summary._text import METHODS, METRICS, listed
from lrml.report import lines, rounded, series

Figure: TypeAlias = dict[str, Any]

# Figure 1: trace norm and tail sum of all completions of a small matrix

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SURFACE_DECIMALS = 9


def _figure1(records: Records) -> list[Figure]:
    """Σ_j σ_j and Σ_{j>theta} σ_j over the two unknown entries, as a surface and a contour panel each."""
    experiment = records.experiments.get("fig1")
    if experiment is None:
        return []
    return [
        rounded(_completion_figure(experiment.title, record, records.load(record["key"])))
        for record in records.of_kind("completion", "matrix")
    ]


def _completion_figure(title: str, record: Record, arrays: Mapping[str, npt.NDArray[Any]]) -> Figure:
    payload, minima = record["payload"], record["result"]["minima"]
    theta, printed, axis = payload["theta"], payload["printed"], arrays["axis"].tolist()
    names = [
        f"M{row + 1}{column + 1}".translate(_SUBSCRIPTS)
        for row, values in enumerate(payload["matrix"])
        for column, value in enumerate(values)
        if value is None
    ]
    norms = {"trace_norm": ("trace norm", 0), "tail_sum": (f"tail sum, theta = {theta}", theta)}
    panels: list[dict[str, Any]] = []
    for norm, (label, n_free) in norms.items():
        heights = np.round(arrays["singular_values"][..., n_free:].sum(-1), _SURFACE_DECIMALS).tolist()
        x, y = minima[norm]["entries"]
        for kind in ("surface", "contour"):
            letter = "abcd"[len(panels)]
            panels.append(
                {
                    "kind": kind,
                    "title": f"({letter}) {label}",
                    "x": {"label": names[0], "values": axis},
                    "y": {"label": names[1], "values": axis},
                    "z": {"label": label, "values": heights},
                    "marks": [{"name": "minimum", "x": x, "y": y, "z": minima[norm]["value"]}],
                }
            )
    trace, tail = minima["trace_norm"], minima["tail_sum"]
    at_trace, at_tail = _at(trace["entries"]), _at(tail["entries"], 0)
    unknown = iter(names)
    rows = (" ".join(next(unknown) if v is None else f"{v:g}" for v in row) for row in payload["matrix"])
    return {
        "id": "figure1",
        "title": title,
        "caption": (
            f"Two norms of the matrix [{'; '.join(rows)}] for all values of {listed(names)} from "
            f"{payload['lowest']:g} to {payload['highest']:g}: the trace norm, which is the sum of all "
            "singular values, in (a) and (b); the sum of those beyond the first theta = "
            f"{theta} in (c) and (d). The trace norm is smallest at {at_trace}, where the singular values "
            f"are {_four_decimals(trace['singular_values'])} and their sum is {trace['value']:.4f}: the rank "
            f"is still {_rank(trace)}. The paper prints {_at(printed['trace_norm']['entries'])} and "
            f"{_four_decimals(printed['trace_norm']['singular_values'])}; the trace norm there is larger by "
            f"{trace['excess_of_printed']:.1g} only, because it is flat around its minimum. The tail sum is "
            f"smallest at {at_tail}, {_as_printed(tail, printed['tail_sum'])}, where the singular values are "
            f"{_four_decimals(tail['singular_values'])}: the rank is {_rank(tail)}, the lowest that a "
            "completion can have."
        ),
        "finding": (
            f"Figure 1: the trace norm is smallest at {at_trace} with rank {_rank(trace)} (the paper prints "
            f"{_at(printed['trace_norm']['entries'])}), the tail sum at {at_tail} with rank {_rank(tail)} "
            f"(printed: {_at(printed['tail_sum']['entries'], 0)})."
        ),
        "alt": (
            f"Four panels, two surfaces and two contour maps, over {listed(names)} from {axis[0]:g} to "
            f"{axis[-1]:g}. The trace norm is a flat bowl with its minimum {trace['value']:.4f} at "
            f"{at_trace}. The tail sum is a curved valley with a sharp tip that touches {tail['value']:g} at "
            f"{at_tail} only."
        ),
        "columns": 2,
        "panels": panels,
    }


def _as_printed(found: Mapping[str, Any], printed: Mapping[str, Any]) -> str:
    ours, theirs = ([*part["entries"], *part["singular_values"]] for part in (found, printed))
    agrees = np.allclose(ours, theirs, atol=5.1e-5)
    return "as the paper prints" if agrees else f"where the paper prints {_at(printed['entries'])}"


def _rank(found: Mapping[str, Any]) -> int:
    return sum(value > 1e-6 for value in found["singular_values"])  # they are rounded to six decimals


def _at(pair: Sequence[float], digits: int = 4) -> str:
    return f"({', '.join(f'{value:.{digits}f}' for value in pair)})"


def _four_decimals(values: Sequence[float]) -> str:
    return ", ".join("0" if value == 0 else f"{value:.4f}" for value in values)


# Figure 2: average precision of LRML over theta, beside the trace and the Frobenius norm

_METRIC = "average_precision"
_LEVELS = {"MLTrace": "dashed", "MLFro": "dotted"}


@dataclass(frozen=True, eq=False)
class _Norms:
    """What a panel shows: LRML by theta, the other methods by name; those that failed are absent."""

    dataset: str
    n_labels: int
    n_asked: int
    thetas: list[int]
    lrml: dict[int, MethodRecords]
    levels: dict[str, MethodRecords]

    @cached_property
    def best(self) -> int:
        """The theta with the highest mean."""
        return max(self.lrml, key=lambda theta: self.lrml[theta].mean(_METRIC))

    def share(self, theta: int) -> float:
        """Theta in percent of the labels."""
        return 100 * theta / self.n_labels


def _figure2(records: Records) -> list[Figure]:
    """One figure per protocol, one panel per dataset with a value of LRML; none without panels."""
    experiment = records.experiments.get("fig2")
    if experiment is None:
        return []
    figures = []
    for protocol in (name for name in experiment.protocols if name in records.protocols):
        datasets = [name for name in records.datasets if name in experiment.datasets]
        shown = [norms for name in datasets if (norms := _norms(records, protocol, name)).lrml]
        if shown:
            paper = protocol == "paper"
            figure = {
                "id": "figure2" if paper else f"figure2_{protocol}",
                "title": experiment.title if paper else f"{experiment.title}, protocol {protocol}",
                "caption": _norms_caption(records, protocol, shown),
                "finding": f"Figure 2, protocol {protocol}: {_claims(shown)}",
                "alt": "Average precision over theta / L, one panel per dataset: a line for LRML, levels for "
                "ML-trace and ML-Fro, which have no theta.",
                "columns": 2,
                "panels": [_norms_panel(norms) for norms in shown],
            }
            figures.append(rounded(figure))
    return figures


def _norms(records: Records, protocol: str, dataset: str) -> _Norms:
    percents = records.experiments["fig2"].percents
    # Small shares of few labels, and shares beyond the number of features, are the same theta.
    by_theta = {theta_of(dataset, percent, records.protocols[protocol]): percent for percent in percents}
    lrml = {theta: records.of_method(dataset, protocol, "LRML", share) for theta, share in by_theta.items()}
    levels = {method: records.of_method(dataset, protocol, method, None) for method in _LEVELS}
    return _Norms(
        dataset,
        mulan_entries()[dataset].n_labels,
        len(percents),
        list(by_theta),
        {theta: found for theta, found in lrml.items() if found is not None},
        {method: found for method, found in levels.items() if found is not None},
    )


def _norms_panel(norms: _Norms) -> dict[str, Any]:
    shares = [norms.share(theta) for theta in norms.thetas]
    drawn = [_with_spread("LRML", shares, [norms.lrml.get(theta) for theta in norms.thetas], "line")]
    for method, found in norms.levels.items():
        ends = [min(shares), max(shares)]
        drawn.append(_with_spread(METHODS[method], ends, [found, found], _LEVELS[method]))
    title = f"{norms.dataset} ({norms.n_labels} labels)"
    return lines(title, "theta / L (%)", METRICS[_METRIC], drawn)


def _with_spread(
    name: str, x: list[float], found: Sequence[MethodRecords | None], style: str
) -> dict[str, Any]:
    """Return means with one standard deviation over the seeds on both sides."""
    y, low, high = (
        [None if one is None else one.mean(_METRIC) + side * one.spread(_METRIC) for one in found]
        for side in (0, -1, 1)
    )
    return series(name, x, y, style, low, high)


def _norms_caption(records: Records, protocol: str, shown: Sequence[_Norms]) -> str:
    found = [one for norms in shown for one in (*norms.lrml.values(), *norms.levels.values())]
    counts = sorted({len(one.records) for one in found})
    seeds = f"{' or '.join(map(str, counts))} seed{'' if counts == [1] else 's'}"
    merged = [norms.dataset for norms in shown if len(norms.thetas) < norms.n_asked]
    said = [
        "Average precision on the test set against theta, the number of singular values that LRML leaves "
        f"free, as a share of the L labels; protocol {protocol} ({records.protocols[protocol].summary}).",
        "ML-trace and ML-Fro have no theta. Bars and bands are one standard deviation over "
        f"{seeds}, each a choice of validation rows. A difference is called clear if it is more than "
        "twice the paired standard error over the test examples.",
    ]
    if merged:
        said.append(f"On {listed(merged)} some of the shares asked for are the same theta, drawn once.")
    return " ".join([*said, *map(_best_of_norms, shown), _claims(shown)])


def _best_of_norms(norms: _Norms) -> str:
    best = norms.lrml[norms.best]
    parts = [
        f"On {norms.dataset} LRML is best at theta = {norms.best} ({norms.share(norms.best):.0f} %) with "
        f"{best.mean(_METRIC):.4f}."
    ]
    parts += [
        f"{METHODS[method]} ({found.mean(_METRIC):.4f}) is {_beside(compared(found, best, _METRIC))}."
        for method, found in norms.levels.items()
    ]
    smallest = min(norms.lrml)
    if smallest == norms.best:
        return " ".join([*parts, "This is the smallest theta tried."])
    difference = _beside(compared(norms.lrml[smallest], best, _METRIC))
    return " ".join([*parts, f"The smallest, theta = {smallest}, is {difference}."])


def _beside(difference: Difference) -> str:
    """Say where something is that was compared with the best LRML."""
    if difference.mean == 0:
        return "equal to that"
    side = "above" if difference.mean > 0 else "below"
    size = f"by {abs(difference.mean):.4f}, with a standard error of {difference.standard_error:.4f}"
    return (
        f"clearly {side} that, {size}" if difference.clear_sign else f"{side} that, but not clearly: {size}"
    )


def _claims(shown: Sequence[_Norms]) -> str:
    """Say on which datasets the two claims of the paper hold, and on which the opposite does."""
    limited = {norms.dataset: _limited(norms) for norms in shown}
    above = {
        norms.dataset: compared(norms.lrml[norms.best], norms.levels["MLTrace"], _METRIC).clear_sign
        for norms in shown
        if "MLTrace" in norms.levels
    }
    claims = f"The paper says that a small theta limits LRML, which is {_where(limited)}"
    if above:
        claims += f", and that the best LRML is above ML-trace, which is {_where(above)}"
    return f"{claims}. The best theta is picked by the test values shown, which favours LRML."


def _limited(norms: _Norms) -> int:
    """Return 1 if the smallest theta is clearly below the best, −1 if clearly above the largest, else 0."""
    smallest, largest, best = (norms.lrml[theta] for theta in (min(norms.lrml), max(norms.lrml), norms.best))
    if compared(smallest, best, _METRIC).clear_sign < 0:
        return 1
    return -1 if compared(smallest, largest, _METRIC).clear_sign > 0 else 0


def _where(signs: Mapping[str, int]) -> str:
    """For example ``clear on bibtex and not clear on yeast``."""
    words = {1: "clear on", 0: "not clear on", -1: "refuted on"}
    groups = {word: [name for name, found in signs.items() if found == sign] for sign, word in words.items()}
    return listed(f"{word} {listed(names)}" for word, names in groups.items() if names)


# Figure 3: how fast the objective falls

_FLOOR = 1e-9  # objectives are stored with ten digits
_MOST_POINTS = 300
_STYLES = ("line", "dashed", "line")  # dots would hide where a curve drops


@dataclass(frozen=True, eq=False)
class _Curves:
    """All runs for one theta and one alpha; that of the default solver is the first."""

    payload: Mapping[str, Any]
    curves: list[Mapping[str, Any]]

    @cached_property
    def best(self) -> Mapping[str, Any]:
        """The run that met the lowest objective; the first of several."""
        return min(self.curves, key=lambda curve: float(min(curve["objective"])))

    def excess(self, curve: Mapping[str, Any]) -> npt.NDArray[np.float64]:
        """F/F_best − 1 after every iteration; F_best is the lowest value that any run met."""
        values: npt.NDArray[np.float64] = np.array(curve["objective"]) / min(self.best["objective"]) - 1.0
        return values

    def final(self, curve: Mapping[str, Any]) -> float:
        """Excess where the default tolerance stops the run, or at its end if it has none."""
        return float(self.excess(curve)[-1 if curve["stop"] is None else curve["stop"]])


def _figure3(records: Records) -> list[Figure]:
    """Show the relative excess F/F_best − 1 over iterations: one figure per alpha, one panel per theta."""
    experiment = records.experiments.get("fig3")
    if experiment is None:
        return []
    (dataset,) = experiment.datasets
    found = [_Curves(r["payload"], r["result"]["curves"]) for r in records.of_kind("convergence", dataset)]
    found.sort(key=lambda curves: int(curves.payload["theta"]))
    figures = []
    for identity, alpha in zip(("figure3", "figure3_strong"), experiment.options["alphas"], strict=True):
        shown = [curves for curves in found if curves.payload["alpha"] == alpha]
        if shown:
            figure = {
                "id": identity,
                "title": f"{experiment.title} on {dataset}, alpha = {alpha:g}",
                "caption": _curves_caption(shown),
                "finding": _curves_finding(shown),
                "alt": "Relative excess of the objective over the best known one against iterations, log "
                "scales, one panel per theta: the default solver with the point where it stops, and "
                "Algorithm 1.",
                "columns": 2,
                "panels": [_curves_panel(curves) for curves in shown],
            }
            figures.append(rounded(figure))
    return figures


def _curves_panel(curves: _Curves) -> dict[str, Any]:
    n_labels = mulan_entries()[curves.payload["dataset"]].n_labels
    drawn = [
        series(curve["method"], *_drawn(curves.excess(curve)), style)
        for curve, style in zip(curves.curves, cycle(_STYLES), strict=False)
    ]
    for curve in curves.curves:
        if curve["stop"] is not None:
            height = max(curves.final(curve), _FLOOR)
            drawn.append(series("default solver stops", [curve["stop"] + 1], [height], "points"))
    title = f"theta = {curves.payload['theta']} of {n_labels}"
    return lines(title, "iteration + 1", "relative excess F / F_best − 1", drawn, "log")


def _drawn(excess: npt.NDArray[np.float64]) -> tuple[list[int], list[float | None]]:
    """Choose points evenly spaced in log(iteration + 1), down to the floor.

    A curve ends where it goes below the floor for good, and this last point is at the floor. A dip below it
    before that is null.
    """
    above = np.flatnonzero(excess >= _FLOOR)
    n_points = min(len(excess), int(above[-1]) + 2 if above.size else 1)
    iterations = np.unique(np.round(np.geomspace(1, n_points, _MOST_POINTS)).astype(int))
    values: list[float | None] = [float(v) if v >= _FLOOR else None for v in excess[iterations - 1]]
    values[-1] = _FLOOR if values[-1] is None else values[-1]
    return iterations.tolist(), values


def _curves_caption(shown: Sequence[_Curves]) -> str:
    payload, (default, *others) = shown[0].payload, _by_method(shown)
    at_once = [str(curves.payload["theta"]) for curves in shown if curves.curves[0]["stop"] == 1]
    ended = "; ".join(f"{o.method}: {_range(o.final)}, residual {_range(o.residual)}" for o in others)
    best = " or ".join(dict.fromkeys(curves.best["method"] for curves in shown))
    if at_once:
        stationary = "the reduced-rank solution, which it tries first, is stationary"
        first = f" (for theta = {listed(at_once)} {stationary})"
    else:
        first = ""
    return (
        f"Relative excess of the objective over the lowest known one on {payload['dataset']}, raw features, "
        f"no intercept, alpha = {payload['alpha']:g}. The leftmost points are the starting points: zero for "
        "Algorithm 1 of the paper, whose t0 is the Lipschitz constant and whose t grows by the factor gamma "
        "in every iteration; a ridge solution for the default solver. The single points are where the "
        f"default tolerance stops the default solver, after {_range(default.stop, str)} iterations and at an "
        f"excess of {_range(default.final)}{first}. Its curve goes on to a tolerance of "
        f"{payload['tol']:g}, and ends at {_FLOOR:g} where it stays below that. After {payload['steps']} "
        f"iterations the excess of the others is: {ended}. The residual says how far a point is from being "
        "stationary. The problem is not convex, so runs may end in different stationary points; F_best is "
        f"the lowest value that any run met for the same theta (here: {best})."
    )


def _curves_finding(shown: Sequence[_Curves]) -> str:
    payload, (default, *others) = shown[0].payload, _by_method(shown)
    return (
        f"Figure 3, alpha = {payload['alpha']:g}: the default solver stops after "
        f"{_range(default.stop, str)} iterations, at most {_amount(max(default.final))} above the best known "
        f"objective; {payload['steps']} iterations of the printed algorithm leave it at "
        f"{listed(f'{_range(other.final)} ({other.method})' for other in others)}."
    )


@dataclass(frozen=True)
class _MethodCurves:
    """What the runs of one method ended with, theta by theta."""

    method: str
    final: list[float]
    residual: list[float]
    stop: list[int]


def _by_method(shown: Sequence[_Curves]) -> list[_MethodCurves]:
    found: dict[str, _MethodCurves] = {}
    for curves in shown:
        for curve in curves.curves:
            one = found.setdefault(curve["method"], _MethodCurves(curve["method"], [], [], []))
            one.final.append(curves.final(curve))
            one.residual.append(curve["residual"])
            one.stop.append(curve["stop"])
    return list(found.values())


def _range(values: Sequence[Any], written: Callable[[Any], str] | None = None) -> str:
    low, high = map(written or _amount, (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _amount(value: float) -> str:
    return f"{value:.1e}" if value >= _FLOOR else f"less than {_FLOOR:g}"


# Figure 4: Table 2 as a picture, our values beside those that the paper prints


def _figure4(records: Records) -> list[Figure]:
    """One figure per protocol, one panel per metric and dataset of which the paper prints values."""
    printed = [value for value in table2_values(records) if value.published is not None]
    return [
        rounded(_table2_figure(protocol.summary, [v for v in printed if v.protocol == name]))
        for name, protocol in records.protocols.items()
        if any(value.protocol == name for value in printed)
    ]


def _table2_figure(protocol: str, values: Sequence[Value]) -> Figure:
    datasets = list(dict.fromkeys(value.dataset for value in values))
    groups: dict[tuple[str, str], list[Value]] = {}
    for value in sorted(values, key=lambda v: (list(METRICS).index(v.metric), datasets.index(v.dataset))):
        groups.setdefault((value.metric, value.dataset), []).append(value)
    percents = sorted({value.percent for value in values})
    return {
        "id": f"figure4_{values[0].protocol}",
        "title": f"Figure 4: Table 2 as a picture, protocol {values[0].protocol}",
        "caption": " ".join(
            [
                "Our values (markers; bars are one standard deviation over seeds) and those that the paper "
                "prints (dotted), over theta or the rank as a share of the labels, on "
                f"{listed(datasets)}. Our protocol: {protocol}. Higher is better, but for Hamming loss. The "
                "scales differ from panel to panel. Shares beyond the largest possible rank are one and the "
                "same model.",
                *(_distance(own) for m in WITH_THETA if (own := [v for v in values if v.method == m])),
                _wins(values),
            ]
        ),
        "alt": "Line plots of the metrics over the share of the labels, ours and the paper's, one panel per "
        "metric and dataset.",
        # Side by side in a row: the same metric on two datasets, or the metrics of one.
        "columns": 2 if len(datasets) > 1 else 3,
        "panels": [_table2_panel(group, percents) for group in groups.values()],
    }


def _table2_panel(values: Sequence[Value], percents: list[int]) -> dict[str, Any]:
    dataset, metric = values[0].dataset, values[0].metric
    ours, published = [], []
    for method in WITH_THETA:
        at = {value.percent: value for value in values if value.method == method}
        means, low, high = (
            [at[share].ours + side * at[share].spread if share in at else None for share in percents]
            for side in (0, -1, 1)
        )
        printed = [published_table2(dataset, method, share)[metric] for share in percents]
        ours.append(series(method, percents, means, "line", low, high))
        published.append(series(f"{method}, paper", percents, printed, "dotted"))
    return lines(f"{dataset}, {METRICS[metric]}", "theta / L (%)", METRICS[metric], ours + published)


def _distance(values: Sequence[Value]) -> str:
    """Say how far our values of a method are from the printed ones."""
    shares = [100 * abs(value.ours / value.published - 1) for value in values if value.published]
    reached = sum(bool(value.reached) for value in values)
    return (
        f"{values[0].method}: {reached} of {len(values)} values are at least as good as printed; the median "
        f"distance is {np.median(shares):.1f} % of the printed value, the largest {max(shares):.1f} %."
    )


def _wins(values: Sequence[Value]) -> str:
    """Count where LRML is the best of the three, in our values and in the printed ones."""
    places: dict[tuple[str, str, int], list[Value]] = {}
    for value in values:
        places.setdefault((value.dataset, value.metric, value.percent), []).append(value)
    complete = [place for place in places.values() if len(place) == len(WITH_THETA)]
    ours, printed = (sum(_lrml_is_best(place, name) for place in complete) for name in ("ours", "published"))
    return (
        f"In {len(complete)} places there are values of all three methods, with four decimals: LRML has the "
        f"best one, or shares it, in {ours} of ours and in {printed} of the paper's."
    )


def _lrml_is_best(place: Sequence[Value], name: str) -> bool:
    numbers = {value.method: round(getattr(value, name), PRINTED_DIGITS) for value in place}
    best = min if place[0].lower_is_better else max
    return bool(numbers["LRML"] == best(numbers.values()))


FIGURES = (_figure1, _figure2, _figure3, _figure4)
"""Functions of the records, in the order of presentation; each returns its figures, or none."""
