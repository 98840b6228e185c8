"""``lrml theory``: Rademacher complexities and bounds for a model of some data."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrml.cli._options import Json, Source, count_or_share, option, takes_source

if TYPE_CHECKING:
    from lrml import LRML
    from lrml.theory import BoundReport

_THETA = "Free singular values: a count, a share of the labels such as 0.2, or auto."
_HELD_OUT = 0.2
_SUFFIX = ".lrml"  # of model files
# Second moments of the figure, as multiples of the model's own: from the first to the last, and how many.
_MULTIPLES, _FIGURE_DRAWS = (1e-3, 10.0, 9), 3
_COLUMNS = ("bound", "value", "measured", "terms", "holds for", "here")


@takes_source(texts=True)
def theory(
    data: Source,
    theta: Annotated[str, option("N|SHARE|auto", _THETA, count_or_share)] = "auto",
    alpha: Annotated[float | None, option("X", "Strength of the penalty (default: chosen).")] = None,
    ridge: Annotated[float, option("X", "Ridge, if alpha is given.")] = 0.0,
    raw: Annotated[bool, typer.Option("--raw", help="Leave rows as they are, not of unit length.")] = False,
    draws: Annotated[int, option("N", "Draws of random signs.")] = 20,
    seed: Annotated[int, option("N", "Seed of the signs.")] = 0,
    as_json: Json = False,
    out: Annotated[str | None, option("DIR", "Folder for a figure of the local complexity over r.")] = None,
    model: Annotated[
        str | None, option("MODEL", "A model file, in place of a new fit; implies --raw.")
    ] = None,
) -> None:
    """Compute complexities and generalisation bounds on a dataset.

    Fit LRML to the training rows and print every bound of lrml.theory for it, beside Monte-Carlo estimates of
    what it bounds. The theory knows no intercept, so the model has none. Without --alpha, alpha and ridge are
    chosen on held-out rows.

    With --model, the bounds are those of a model of lrml.save, less its intercept; a model of texts reads
    texts. A model file in place of
    the data shows what its singular values tell without any rows: rank, norms and tail.
    """
    import numpy as np
    from sklearn.preprocessing import normalize

    from lrml._files import writable_folder, write_atomically
    from lrml.report import render_figures
    from lrml.storage import load
    from lrml.theory import bound_report

    data.check()
    if data.name.endswith(_SUFFIX):
        _print_spectrum(data.name, as_json=as_json)
        return
    found = None if model is None else load(model)
    kept = getattr(found, "model_", found)
    name, X, Y = _rows(data) if kept is found else (Path(data.name).stem, _features(data, found, model), None)
    if missing := int(np.isnan(X if isinstance(X, np.ndarray) else X.data).sum()):
        raise ValueError(
            f"the theory needs all features of all rows, got {missing} missing values. Fill them in, for "
            "example with lrml.completion.LowRankImputer, or leave out their columns with --ignore."
        )
    X = X if raw or kept is not None else normalize(X)  # a model's own rows are what it was fitted to
    used = _fitted(X, Y, theta, alpha, ridge) if kept is None else kept
    report = bound_report(used, X, n_draws=draws, random_state=seed)
    if out is not None:
        figure = _figure(name, X, len(used.classes_), report)
        folder = writable_folder(out)
        for file_name, content in render_figures({"figures": [figure]}).items():
            write_atomically(folder / file_name, content)
    _print(name, used, report, as_json=as_json)


def _features(data: Source, tagger: Any, path: Any) -> Any:
    """Return the features that a model of texts makes of texts, read as those of its training."""
    from scipy import sparse

    from lrml.cli._data import RowsForModel
    from lrml.storage import read_header

    reading = (read_header(path)["summary"] or {}).get("reading", {})
    rows = RowsForModel(tagger, data, reading, labelled=False)
    return sparse.csr_array(sparse.vstack([tagger.transform(texts) for texts, _ in rows]))


def _rows(data: Source) -> tuple[str, Any, Any]:
    """Return the name of the data, and the features and labels of its training rows."""
    from lrml.cli._data import plan_reading

    plan = plan_reading(data)
    if plan.texts:
        raise ValueError(
            f"the theory takes features, got the texts of {data.name!r}. Fit a model to them first (lrml fit "
            f"{data.name} -o model.lrml), and pass it with --model, or pass features with labels."
        )
    dataset = plan.source.load()
    return (dataset.name, *(dataset.train if dataset.n_train else (dataset.X, dataset.Y)))


def _loaded(path: str) -> Any:
    """Return the model in a file, or in the tagger there."""
    from lrml.storage import load

    found = load(path)
    return getattr(found, "model_", found)


def _print_spectrum(path: str, *, as_json: bool) -> None:
    """Print what the theory needs of a model; the rest of it needs rows."""
    from lrml.cli._console import print_json, result_console, say

    model = _loaded(path)
    s = model.singular_values_
    theta = int(getattr(model, "theta_", len(s)))
    facts = {
        "theta": theta,
        "rank": len(s),
        "frobenius_norm": float((s @ s) ** 0.5),
        "trace_norm": float(s.sum()),
        "operator_norm": float(s.max(initial=0.0)),
        "tail_sum": float(s[theta:].sum()),
    }
    if as_json:
        print_json({"model": {"kind": type(model).__name__}, "facts": facts})
        return
    say(result_console(), f"{type(model).__name__} in {path}:")
    say(result_console(), ", ".join(f"{key} {value:.4g}" for key, value in facts.items()))
    say(result_console(), f"The bounds also need rows: lrml theory DATA --model {path}")


def _fitted(X: Any, Y: Any, theta: Any, alpha: float | None, ridge: float) -> LRML:
    """Fit LRML without an intercept, which the theory does not cover."""
    from lrml import LRML, LRMLCV

    if alpha is not None:
        return LRML(theta, alpha, ridge=ridge, fit_intercept=False).fit(X, Y)
    if theta == "auto":
        theta = LRML("auto", 0.0, fit_intercept=False).fit(X, Y).theta_
    search = LRMLCV(thetas=[theta], fit_intercept=False, cv=_HELD_OUT, random_state=0).fit(X, Y)
    best: LRML = search.best_estimator_
    return best


def _print(name: str, model: Any, report: BoundReport, *, as_json: bool) -> None:
    from lrml.cli._console import print_json, report_table, result_console, say

    known = {name: getattr(model, f"{name}_", getattr(model, name, None)) for name in ("alpha", "ridge")}
    parameters = {"theta": report.facts["theta"]} | {
        key: one for key, one in known.items() if one is not None
    }
    if as_json:
        document = {"dataset": name, "model": parameters, "facts": report.facts, "bounds": report.rows}
        print_json(document)
        return
    console = result_console()
    given, facts = (
        ", ".join(f"{key} {value:.4g}" for key, value in found.items())
        for found in (parameters, report.facts)
    )
    say(console, f"{type(model).__name__} on {name}: {given}.")
    say(console, facts)
    columns = [
        {"key": title, "title": title, "kind": "number" if title == "value" else "text", "digits": 4}
        for title in _COLUMNS
    ]
    console.print(report_table({"title": None, "columns": columns, "rows": [*map(_row, report.rows)]}))
    say(
        console, "A bound of 1 or more says nothing about a loss in [0, 1]. docs/theory.md explains the rows."
    )


def _row(row: dict[str, Any]) -> dict[str, Any]:
    low, high = row["lower"], row["upper"]
    measured = "" if low is None else f"{low:.4g}"
    if low is not None and high is not None and not math.isclose(low, high, rel_tol=1e-3):
        measured += f" to {high:.4g}"
    if row["standard_error"] is not None:
        measured += f" ± {row['standard_error']:.1g}"
    terms = " + ".join(f"{name} {value:.4g}" for name, value in row["terms"].items())
    here = {True: "yes", False: "no", None: "not looked at"}[row["holds_here"]]
    return row | {"measured": measured, "terms": terms, "holds for": row["holds_for"], "here": here}


def _figure(name: str, X: Any, n_labels: int, report: BoundReport) -> dict[str, Any]:
    """Local complexity and its bound over the second moment r, for predictors of the model's norm."""
    import numpy as np

    from lrml.theory import Spectrum, local_bound, local_complexity

    spectrum, radius = Spectrum.of(X), report.facts["frobenius_norm"]
    s, n, draws = spectrum.eigenvalues, spectrum.n_examples, _FIGURE_DRAWS
    moments = [float(multiple * report.facts["r"]) for multiple in np.geomspace(*_MULTIPLES)]
    found = [
        local_complexity(spectrum, n_labels, r, radius=radius, n_draws=draws, random_state=0) for r in moments
    ]
    bounds = [local_bound(s, n, n_labels, r, radius=radius).value for r in moments]
    curves = (("measured", [one.upper.mean for one in found], "line"), ("bound", bounds, "dashed"))
    series = [
        {"name": key, "x": moments, "y": y, "low": None, "high": None, "style": style}
        for key, y, style in curves
    ]
    panel = {
        "kind": "lines",
        "title": f"{name}: Frobenius ball of radius {radius:.3g}",
        "x": {"label": "second moment r", "scale": "log"},
        "y": {"label": "local Rademacher complexity", "scale": "log"},
        "series": series,
    }
    return {"id": f"theory_{name}", "columns": 1, "panels": [panel]}
