"""Figure 2 as plain data: average precision of LRML over theta, beside the trace and the Frobenius norm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrml.datasets import mulan_entries
from lrml.experiments._cells import theta_of
from lrml.experiments.summary._columns import METHODS, METRICS, all_rounded, listed
from lrml.experiments.summary._results import Cell, Results
from lrml.experiments.summary._significance import Difference, paired_difference

METRIC = "average_precision"
_LEVELS = {"MLTrace": "dashed", "MLFro": "dotted"}
_CLEAR = 2.0  # standard errors


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a panel shows: LRML by theta, the other methods by name; cells that failed are absent."""

    dataset: str
    n_labels: int
    n_asked: int
    thetas: list[int]
    lrml: dict[int, Cell]
    levels: dict[str, Cell]

    @property
    def best(self) -> int:
        """The theta with the highest mean."""
        return max(self.lrml, key=lambda theta: self.lrml[theta].mean(METRIC))

    def share(self, theta: int) -> float:
        """Theta in percent of the labels."""
        return 100 * theta / self.n_labels


def figure2(results: Results) -> list[dict[str, Any]]:
    """Return Figure 2 for every protocol of the experiment ``fig2`` that was run.

    Parameters
    ----------
    results : Results

    Returns
    -------
    list of dict
        Figures of a summary: ``figure2`` for the paper's protocol, ``figure2_{protocol}`` for others. A
        dataset without a value of LRML has no panel, a protocol without a panel no figure.
    """
    experiment = results.experiments.get("fig2")
    if experiment is None:
        return []
    figures = []
    for protocol in (name for name in experiment.protocols if name in results.protocols):
        datasets = [name for name in results.datasets if name in experiment.datasets]
        found = [_comparison(results, protocol, name) for name in datasets]
        comparisons = [comparison for comparison in found if comparison.lrml]
        if comparisons:
            figures.append(_figure(results, protocol, comparisons))
    return figures


def clear_sign(difference: Difference) -> int:
    """Return 1 or −1 if a mean is more than two standard errors away from zero, else 0."""
    clear = abs(difference.mean) > _CLEAR * difference.standard_error
    return int(np.sign(difference.mean)) if clear else 0


def _difference(one: Cell, other: Cell) -> Difference:
    return paired_difference(one.per_example(METRIC), other.per_example(METRIC))


def _comparison(results: Results, protocol: str, dataset: str) -> Comparison:
    percents = results.experiments["fig2"].percents
    # Small shares of few labels, and shares beyond the number of features, are the same theta.
    by_theta = {theta_of(dataset, percent, results.protocols[protocol]): percent for percent in percents}
    lrml = {theta: results.cell(dataset, protocol, "LRML", percent) for theta, percent in by_theta.items()}
    levels = {method: results.cell(dataset, protocol, method, None) for method in _LEVELS}
    return Comparison(
        dataset,
        mulan_entries()[dataset].n_labels,
        len(percents),
        list(by_theta),
        {theta: cell for theta, cell in lrml.items() if cell is not None},
        {method: cell for method, cell in levels.items() if cell is not None},
    )


def _figure(results: Results, protocol: str, comparisons: Sequence[Comparison]) -> dict[str, Any]:
    experiment = results.experiments["fig2"]
    paper = protocol == "paper"
    figure: dict[str, Any] = all_rounded(
        {
            "id": "figure2" if paper else f"figure2_{protocol}",
            "title": experiment.title if paper else f"{experiment.title}, protocol {protocol}",
            "caption": _caption(results, protocol, comparisons),
            "finding": f"Figure 2, protocol {protocol}: {_claims(comparisons)}",
            "alt": _alt(comparisons),
            "columns": 2,
            "panels": [_panel(comparison) for comparison in comparisons],
        }
    )
    return figure


def _panel(shown: Comparison) -> dict[str, Any]:
    shares = [shown.share(theta) for theta in shown.thetas]
    cells = [shown.lrml.get(theta) for theta in shown.thetas]
    series = [_series("LRML", shares, cells, "line")]
    for method, cell in shown.levels.items():
        ends = [min(shares), max(shares)]
        series.append(_series(METHODS[method], ends, [cell, cell], _LEVELS[method]))
    return {
        "kind": "lines",
        "title": f"{shown.dataset} ({shown.n_labels} labels)",
        "x": {"label": "theta / L (%)", "scale": "linear"},
        "y": {"label": METRICS[METRIC], "scale": "linear"},
        "series": series,
    }


def _series(name: str, x: list[float], cells: Sequence[Cell | None], style: str) -> dict[str, Any]:
    """Return means with one standard deviation over the seeds on both sides."""
    means = [None if cell is None else cell.mean(METRIC) for cell in cells]
    low, high = (
        [None if cell is None else cell.mean(METRIC) + side * cell.spread(METRIC) for cell in cells]
        for side in (-1, 1)
    )
    return {"name": name, "x": x, "y": means, "low": low, "high": high, "style": style}


def _caption(results: Results, protocol: str, comparisons: Sequence[Comparison]) -> str:
    cells = [cell for shown in comparisons for cell in (*shown.lrml.values(), *shown.levels.values())]
    counts = sorted({len(cell.records) for cell in cells})
    seeds = f"{' or '.join(map(str, counts))} seed{'' if counts == [1] else 's'}"
    merged = [shown.dataset for shown in comparisons if len(shown.thetas) < shown.n_asked]
    said = [
        "Average precision on the test set against theta, the number of singular values that LRML leaves "
        f"free, as a share of the L labels; protocol {protocol} ({results.protocols[protocol].summary}).",
        "ML-trace and ML-Fro have no theta. Bars and bands are one standard deviation over "
        f"{seeds}, each a choice of validation rows. A difference is called clear if it is more than "
        "twice the paired standard error over the test examples.",
    ]
    if merged:
        said.append(f"On {listed(merged)} some of the shares asked for are the same theta, drawn once.")
    said += [_finding(shown) for shown in comparisons]
    return " ".join([*said, _claims(comparisons)])


def _finding(shown: Comparison) -> str:
    best = shown.lrml[shown.best]
    parts = [
        f"On {shown.dataset} LRML is best at theta = {shown.best} ({shown.share(shown.best):.0f} %) with "
        f"{best.mean(METRIC):.4f}."
    ]
    parts += [
        f"{METHODS[method]} ({cell.mean(METRIC):.4f}) is {_compared(_difference(cell, best))}."
        for method, cell in shown.levels.items()
    ]
    smallest = min(shown.lrml)
    if smallest == shown.best:
        return " ".join([*parts, "This is the smallest theta tried."])
    difference = _compared(_difference(shown.lrml[smallest], best))
    return " ".join([*parts, f"The smallest, theta = {smallest}, is {difference}."])


def _compared(difference: Difference) -> str:
    """Say where something is that was compared with the best LRML."""
    if difference.mean == 0:
        return "equal to that"
    side = "above" if difference.mean > 0 else "below"
    size = f"by {abs(difference.mean):.4f}, with a standard error of {difference.standard_error:.4f}"
    return (
        f"clearly {side} that, {size}" if clear_sign(difference) else f"{side} that, but not clearly: {size}"
    )


def _claims(comparisons: Sequence[Comparison]) -> str:
    """Say on which datasets the two claims of the paper hold, and on which the opposite does."""
    limited = {shown.dataset: _limited(shown) for shown in comparisons}
    above = {
        shown.dataset: clear_sign(_difference(shown.lrml[shown.best], shown.levels["MLTrace"]))
        for shown in comparisons
        if "MLTrace" in shown.levels
    }
    claims = f"The paper says that a small theta limits LRML, which is {_where(limited)}"
    if above:
        claims += f", and that the best LRML is above ML-trace, which is {_where(above)}"
    return f"{claims}. The best theta is picked by the test values shown, which favours LRML."


def _limited(shown: Comparison) -> int:
    """Return 1 if the smallest theta is clearly below the best, −1 if clearly above the largest, else 0."""
    smallest, largest = (shown.lrml[choose(shown.lrml)] for choose in (min, max))
    if clear_sign(_difference(smallest, shown.lrml[shown.best])) < 0:
        return 1
    return -1 if clear_sign(_difference(smallest, largest)) > 0 else 0


def _where(signs: Mapping[str, int]) -> str:
    """For example ``clear on bibtex and not clear on yeast``."""
    words = {1: "clear on", 0: "not clear on", -1: "refuted on"}
    groups = {word: [name for name, found in signs.items() if found == sign] for sign, word in words.items()}
    return listed(f"{word} {listed(names)}" for word, names in groups.items() if names)


def _alt(comparisons: Sequence[Comparison]) -> str:
    panels = []
    for shown in comparisons:
        levels = "".join(
            f"; {METHODS[method]} {cell.mean(METRIC):.4f}" for method, cell in shown.levels.items()
        )
        values = ", ".join(
            f"{cell.mean(METRIC):.4f} at {shown.share(theta):.0f} %" for theta, cell in shown.lrml.items()
        )
        panels.append(f"{shown.dataset}: LRML {values}{levels}.")
    return f"Average precision over theta / L, one panel per dataset. {' '.join(panels)}"
