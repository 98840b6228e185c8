"""Figure 3 as plain data: how fast the objective falls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import cycle
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.datasets import mulan_entries
from lrml.experiments._convergence import DEFAULT_SOLVER
from lrml.experiments.summary._columns import all_rounded, listed
from lrml.experiments.summary._results import Results

FLOOR = 1e-9  # objectives are stored with ten digits
MOST_POINTS = 300
STOPS = "default solver stops"
_IDS = ("figure3", "figure3_strong")
_STYLES = ("line", "dashed", "line")  # dots would hide where a curve drops


@dataclass(frozen=True, eq=False)
class Race:
    """All runs for one theta and one alpha.

    Attributes
    ----------
    record : dict
        Of kind "convergence".
    """

    record: Mapping[str, Any]

    @property
    def theta(self) -> int:
        """Count of free singular values."""
        return int(self.record["payload"]["theta"])

    @property
    def curves(self) -> list[Mapping[str, Any]]:
        """As `lrml.experiments._convergence.convergence` returns them."""
        found: list[Mapping[str, Any]] = self.record["result"]["curves"]
        return found

    @cached_property
    def winner(self) -> Mapping[str, Any]:
        """The run that met the lowest objective; the first of several."""
        return min(self.curves, key=lambda curve: float(min(curve["objective"])))

    def excess(self, curve: Mapping[str, Any]) -> npt.NDArray[np.float64]:
        """F/F_best − 1 after every iteration; F_best is the lowest value that any run met."""
        values: npt.NDArray[np.float64] = np.array(curve["objective"]) / min(self.winner["objective"]) - 1.0
        return values

    def final(self, curve: Mapping[str, Any]) -> float:
        """Excess where the default tolerance stops the run, or at its end if it has none."""
        return float(self.excess(curve)[-1 if curve["stop"] is None else curve["stop"]])


def figure3(results: Results) -> list[dict[str, Any]]:
    """Return Figure 3, the relative excess F/F_best − 1 over the iterations, one figure per alpha.

    Parameters
    ----------
    results : Results

    Returns
    -------
    list of dict
        Figures of a summary: ``figure3`` for the first alpha of the experiment ``fig3``, ``figure3_strong``
        for the second. A theta without a record has no panel, an alpha without a panel no figure.
    """
    experiment = results.experiments.get("fig3")
    if experiment is None:
        return []
    (dataset,) = experiment.datasets
    races = sorted((Race(record) for record in results.plain("convergence", dataset)), key=lambda r: r.theta)
    figures = []
    for identity, alpha in zip(_IDS, experiment.options["alphas"], strict=True):
        chosen = [race for race in races if race.record["payload"]["alpha"] == alpha]
        if chosen:
            figures.append(_figure(chosen, identity, f"{experiment.title} on {dataset}, alpha = {alpha:g}"))
    return figures


def _figure(races: Sequence[Race], identity: str, title: str) -> dict[str, Any]:
    figure: dict[str, Any] = all_rounded(
        {
            "id": identity,
            "title": title,
            "caption": _caption(races),
            "finding": _finding(races),
            "alt": _alt(races),
            "columns": 2,
            "panels": [_panel(race) for race in races],
        }
    )
    return figure


def _panel(race: Race) -> dict[str, Any]:
    n_labels = mulan_entries()[race.record["payload"]["dataset"]].n_labels
    series = [
        _series(curve["method"], *_drawn(race.excess(curve)), style)
        for curve, style in zip(race.curves, cycle(_STYLES), strict=False)
    ]
    series += [
        _series(STOPS, [curve["stop"] + 1], [max(race.final(curve), FLOOR)], "points")
        for curve in race.curves
        if curve["stop"] is not None
    ]
    return {
        "kind": "lines",
        "title": f"theta = {race.theta} of {n_labels}",
        "x": {"label": "iteration + 1", "scale": "log"},
        "y": {"label": "relative excess F / F_best − 1", "scale": "log"},
        "series": series,
    }


def _drawn(excess: npt.NDArray[np.float64]) -> tuple[list[int], list[float | None]]:
    """Choose points evenly spaced in log(iteration + 1), down to the floor.

    A curve ends where it goes below the floor for good, and this last point is at the floor. A dip below it
    before that is null.
    """
    above = np.flatnonzero(excess >= FLOOR)
    n_points = min(len(excess), int(above[-1]) + 2 if above.size else 1)
    iterations = np.unique(np.round(np.geomspace(1, n_points, MOST_POINTS)).astype(int))
    values: list[float | None] = [float(v) if v >= FLOOR else None for v in excess[iterations - 1]]
    values[-1] = FLOOR if values[-1] is None else values[-1]
    return iterations.tolist(), values


def _series(name: str, x: Sequence[float], y: Sequence[float | None], style: str) -> dict[str, Any]:
    return {"name": name, "x": list(x), "y": list(y), "low": None, "high": None, "style": style}


def _caption(races: Sequence[Race]) -> str:
    payload = races[0].record["payload"]
    stops = [race.curves[0]["stop"] for race in races]
    final = _by_method(races, "excess")
    residuals = _by_method(races, "residual")
    others = "; ".join(
        f"{method}: {_range(values)}, residual {_range(residuals[method])}"
        for method, values in final.items()
        if method != DEFAULT_SOLVER
    )
    winners = " or ".join(dict.fromkeys(race.winner["method"] for race in races))
    return (
        f"Relative excess of the objective over the lowest known one on {payload['dataset']}, raw features, "
        f"no intercept, alpha = {payload['alpha']:g}. The leftmost points are the starting points: zero for "
        "Algorithm 1 of the paper, whose t0 is the Lipschitz constant and whose t grows by the factor gamma "
        "in every iteration; a ridge solution for the default solver. The single points are where the "
        f"default tolerance stops the default solver, after {_range(stops, str)} iterations and at an excess "
        f"of {_range(final[DEFAULT_SOLVER])}{_at_once(races)}. Its curve goes on to a tolerance of "
        f"{payload['tol']:g}, and ends at {FLOOR:g} where it stays below that. After {payload['steps']} "
        f"iterations the excess of the others is: {others}. The residual says how far a point is from being "
        "stationary. The problem is not convex, so runs may end in different stationary points; F_best is "
        f"the lowest value that any run met for the same theta (here: {winners})."
    )


def _finding(races: Sequence[Race]) -> str:
    payload = races[0].record["payload"]
    final = _by_method(races, "excess")
    others = listed(f"{_range(values)} ({m})" for m, values in final.items() if m != DEFAULT_SOLVER)
    return (
        f"Figure 3, alpha = {payload['alpha']:g}: the default solver stops after "
        f"{_range([race.curves[0]['stop'] for race in races], str)} iterations, at most "
        f"{_amount(max(final[DEFAULT_SOLVER]))} above the best known objective; {payload['steps']} "
        f"iterations of the printed algorithm leave it at {others}."
    )


def _at_once(races: Sequence[Race]) -> str:
    """Name the thetas for which the first candidate of the default solver is the solution."""
    thetas = [str(race.theta) for race in races if race.curves[0]["stop"] == 1]
    if not thetas:
        return ""
    return f" (for theta = {listed(thetas)} the reduced-rank solution, which it tries first, is stationary)"


def _alt(races: Sequence[Race]) -> str:
    panels = []
    for race in races:
        ends = "; ".join(
            f"{curve['method']}: {_amount(race.final(curve))}"
            + ("" if curve["stop"] is None else f" (after {curve['stop']})")
            for curve in race.curves
        )
        panels.append(f"For theta = {race.theta}, {ends}.")
    steps = races[0].record["payload"]["steps"]
    return (
        "Relative excess of the objective over the best known one, log scales, one panel per theta. Excess "
        f"where the default solver stops (after so many iterations), and of Algorithm 1 after {steps} "
        f"iterations: {' '.join(panels)}"
    )


def _by_method(races: Sequence[Race], what: str) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for race in races:
        for curve in race.curves:
            value = race.final(curve) if what == "excess" else curve["residual"]
            found.setdefault(curve["method"], []).append(value)
    return found


def _range(values: Sequence[Any], written: Callable[[Any], str] | None = None) -> str:
    low, high = map(written or _amount, (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _amount(value: float) -> str:
    return f"{value:.1e}" if value >= FLOOR else f"less than {FLOOR:g}"
