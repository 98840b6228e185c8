"""``lrml theory``: Rademacher complexities and bounds for a model of some data."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrml.cli._options import Data, Json, count_or_share, option, takes_data

if TYPE_CHECKING:
    from lrml import LRML
    from lrml.theory import BoundReport

_THETA = "Free singular values: a count, a share of the labels such as 0.2, or auto."
_HELD_OUT = 0.2
_SUFFIX = ".lrml"  # of model files


@takes_data()
def theory(
    data: Data,
    theta: Annotated[str, option("N|SHARE|auto", _THETA, count_or_share)] = "auto",
    alpha: Annotated[float | None, option("X", "Strength of the penalty (default: chosen).")] = None,
    ridge: Annotated[float, option("X", "Ridge, if alpha is given.")] = 0.0,
    raw: Annotated[bool, typer.Option("--raw", help="Leave rows as they are, not of unit length.")] = False,
    draws: Annotated[int, option("N", "Draws of random signs.")] = 20,
    seed: Annotated[int, option("N", "Seed of the signs.")] = 0,
    as_json: Json = False,
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
    _print(name, used, report, as_json=as_json)


def _features(data: Data, tagger: Any, path: Any) -> Any:
    """Return the features that a model of texts makes of texts, read as those of its training."""
    from scipy import sparse

    from lrml.cli._data import RowsForModel
    from lrml.storage import read_header

    reading = (read_header(path)["summary"] or {}).get("reading", {})
    rows = RowsForModel(tagger, data, reading, labelled=False)
    return sparse.csr_array(sparse.vstack([tagger.transform(texts) for texts, _ in rows]))


def _rows(data: Data) -> tuple[str, Any, Any]:
    """Return the name of the data, and the features and labels of its training rows."""
    source = data.open()
    if source.roles.kind == "text":
        raise ValueError(
            f"the theory takes features, got the texts of {data.name!r}. Fit a model to them first (lrml fit "
            f"{data.name} -o model.lrml), and pass it with --model, or pass features with labels."
        )
    dataset = source.read()
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
    bare = LRML(space="coefficients", fit_intercept=False)
    search = LRMLCV(bare, thetas=[theta], cv=_HELD_OUT, random_state=0).fit(X, Y)
    best: LRML = search.best_estimator_
    return best


def _print(name: str, model: Any, report: BoundReport, *, as_json: bool) -> None:
    from lrml.cli._console import print_json, result_console, say

    known = {name: getattr(model, f"{name}_", getattr(model, name, None)) for name in ("alpha", "ridge")}
    parameters = {"theta": report.facts["theta"]} | {
        key: one for key, one in known.items() if one is not None
    }
    if as_json:
        document = {"dataset": name, "model": parameters, "facts": report.facts, "bounds": report.rows}
        print_json(document)
        return
    console = result_console()
    given = ", ".join(f"{key} {value:.4g}" for key, value in parameters.items())
    say(console, f"{type(model).__name__} on {name}: {given}.")
    console.print(str(report), markup=False, soft_wrap=True)
    say(
        console, "A bound of 1 or more says nothing about a loss in [0, 1]. docs/theory.md explains the rows."
    )
