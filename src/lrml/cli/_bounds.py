"""What ``lrml theory`` does: fit, compute the bounds, print."""

from __future__ import annotations

import argparse
import json
import math
from typing import Any

import numpy as np
from sklearn.preprocessing import normalize

from lrml import LRML, LRMLCV
from lrml._files import writable_folder, write_atomically
from lrml.cli._console import result_console, say
from lrml.cli._dataset_source import check_source, load
from lrml.cli._tables import report_table
from lrml.report import render_figures
from lrml.theory import BoundReport, Spectrum, bound_report, local_bound, local_complexity

_HELD_OUT = 0.2
# Second moments of the figure, as multiples of the model's own, and draws for each.
_MULTIPLES, _FIGURE_DRAWS = np.geomspace(1e-3, 10.0, 9), 3


def run(arguments: argparse.Namespace) -> None:
    """Run the command."""
    check_source(arguments)
    dataset = load(arguments)
    X, Y = dataset.train if dataset.n_train else (dataset.X, dataset.Y)
    if not arguments.raw:
        X = normalize(X)
    model = _fitted(X, Y, arguments)
    report = bound_report(model, X, n_draws=arguments.draws, random_state=arguments.seed)
    figure = _figure(dataset.name, X, Y.shape[1], report) if arguments.out else None
    if figure is not None:
        folder = writable_folder(arguments.out)
        for name, content in render_figures({"figures": [figure]}).items():
            write_atomically(folder / name, content)
    _print(dataset.name, model, report, as_json=arguments.json)


def _fitted(X: Any, Y: Any, arguments: argparse.Namespace) -> LRML:
    """Fit LRML without an intercept, which the theory does not know."""
    if arguments.alpha is not None:
        model = LRML(arguments.theta, arguments.alpha, ridge=arguments.ridge, fit_intercept=False)
        return model.fit(X, Y)
    theta = arguments.theta
    if theta == "auto":
        theta = LRML("auto", 0.0, fit_intercept=False).fit(X, Y).theta_
    search = LRMLCV(thetas=[theta], fit_intercept=False, cv=_HELD_OUT, random_state=0).fit(X, Y)
    best: LRML = search.best_estimator_
    return best


def _print(name: str, model: LRML, report: BoundReport, *, as_json: bool) -> None:
    parameters = {"theta": model.theta_, "alpha": model.alpha, "ridge": model.ridge}
    if as_json:
        document = {"dataset": name, "model": parameters, "facts": report.facts, "bounds": report.rows}
        print(json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False))
        return
    console = result_console(quiet=False)
    given = ", ".join(f"{key} {value:.4g}" for key, value in parameters.items())
    say(console, f"LRML on {name}: {given}.")
    say(console, ", ".join(f"{key} {value:.4g}" for key, value in report.facts.items()))
    console.print(report_table(_table(report)))
    say(
        console, "A bound of 1 or more says nothing about a loss in [0, 1]. docs/theory.md explains the rows."
    )


def _table(report: BoundReport) -> dict[str, Any]:
    titles = {"bound": "bound", "value": "value", "measured": "measured", "terms": "terms"}
    titles |= {"holds_for": "holds for", "here": "here"}
    numbers = {"value"}
    columns = [
        {"key": key, "title": title, "kind": "number" if key in numbers else "text", "digits": 4}
        for key, title in titles.items()
    ]
    return {"title": None, "columns": columns, "rows": [_row(row) for row in report.rows]}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    low, high = row["lower"], row["upper"]
    measured = "" if low is None else f"{low:.4g}"
    if low is not None and high is not None and not math.isclose(low, high, rel_tol=1e-3):
        measured += f" to {high:.4g}"
    if row["standard_error"] is not None:
        measured += f" ± {row['standard_error']:.1g}"
    terms = " + ".join(f"{name} {value:.4g}" for name, value in row["terms"].items())
    here = {True: "yes", False: "no", None: "not looked at"}[row["holds_here"]]
    return row | {"measured": measured, "terms": terms, "here": here}


def _figure(name: str, X: Any, n_labels: int, report: BoundReport) -> dict[str, Any]:
    """Local complexity and its bound over the second moment r, for predictors of the model's norm."""
    spectrum, facts = Spectrum.of(X), report.facts
    radius = facts["frobenius_norm"]
    moments = [float(multiple * facts["r"]) for multiple in _MULTIPLES]
    found = [
        local_complexity(spectrum, n_labels, r, radius=radius, n_draws=_FIGURE_DRAWS, random_state=0)
        for r in moments
    ]
    bounds = [
        local_bound(spectrum.eigenvalues, spectrum.n_examples, n_labels, r, radius=radius) for r in moments
    ]
    series = {"measured": [f.upper.mean for f in found], "bound": [b.value for b in bounds]}
    return {
        "id": f"theory_{name}",
        "columns": 1,
        "panels": [
            {
                "kind": "lines",
                "title": f"{name}: Frobenius ball of radius {radius:.3g}",
                "x": {"label": "second moment r", "scale": "log"},
                "y": {"label": "local Rademacher complexity", "scale": "log"},
                "series": [
                    {"name": key, "x": moments, "y": y, "low": None, "high": None, "style": style}
                    for (key, y), style in zip(series.items(), ("line", "dashed"), strict=True)
                ],
            }
        ],
    }


def _plain(value: Any) -> Any:
    """Make NumPy's numbers plain, and infinite ones None, which JSON lacks."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    return None if isinstance(value, float) and not math.isfinite(value) else value
