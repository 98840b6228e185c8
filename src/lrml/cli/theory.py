"""``lrml theory``: Rademacher complexities and bounds for a model of some data."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrml.cli._options import Data, Json, count_or_share, option, takes_data

if TYPE_CHECKING:
    from lrml import LRML

_THETA = "Free singular values: a count, a share of the labels such as 0.2, or auto."
_HELD_OUT = 0.2


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
    texts. A model file in place of the data shows what its singular values tell without any rows.
    """
    from sklearn.preprocessing import normalize

    from lrml.cli._console import answer
    from lrml.cli._data import check_complete, opened
    from lrml.theory import bound_report

    data.check()
    if data.name.endswith(".lrml"):  # a model file
        _spectrum(data.name, as_json=as_json)
        return
    found, summary = (None, {}) if model is None else opened(model)
    used = getattr(found, "model_", found)
    name, Y = Path(data.name).stem, None
    if used is found:
        name, X, Y = _rows(data)
    else:
        X = _features(data, found, summary)
    check_complete(X)
    if used is None:
        X = X if raw else normalize(X)  # a model's own rows are what it was fitted to
        used = _fitted(X, Y, theta, alpha, ridge)
    report = bound_report(used, X, n_draws=draws, random_state=seed)
    known = {key: getattr(used, f"{key}_", getattr(used, key, None)) for key in ("alpha", "ridge")}
    given = {"theta": report.facts["theta"]} | {key: one for key, one in known.items() if one is not None}
    words = ", ".join(f"{key} {value:.4g}" for key, value in given.items())
    answer(
        {"dataset": name, "model": given, "facts": report.facts, "bounds": report.rows},
        f"{type(used).__name__} on {name}: {words}.",
        str(report),
        "A bound of 1 or more says nothing about a loss in [0, 1]. docs/theory.md explains the rows.",
        as_json=as_json,
    )


def _features(data: Data, tagger: Any, summary: dict[str, Any]) -> Any:
    """Return the features that a model of texts makes of texts, read as those of its training."""
    from scipy import sparse

    from lrml.cli._data import RowsForModel

    rows = RowsForModel(tagger, data, summary, labelled=False).answers(lambda model, X: model.transform(X))
    return sparse.csr_array(sparse.vstack([X for X, _ in rows]))


def _rows(data: Data) -> tuple[str, Any, Any]:
    """Return the name of the data, and the features and labels of its training rows."""
    source = data.open()
    if source.roles.kind == "text":
        raise ValueError(
            f"{data.name!r} has texts, and the theory takes features. Fit a model to them first (lrml fit "
            f"{data.name} -o model.lrml), and pass it with --model, or pass features with labels."
        )
    dataset = source.read()
    return (dataset.name, *(dataset.train if dataset.n_train else (dataset.X, dataset.Y)))


def _spectrum(path: str, *, as_json: bool) -> None:
    """Print what the theory needs of a model; the rest of it needs rows."""
    from lrml.cli._console import answer
    from lrml.cli._data import opened

    model, _ = opened(path)
    model = getattr(model, "model_", model)
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
    answer(
        {"model": {"kind": type(model).__name__}, "facts": facts},
        f"{type(model).__name__} in {path}:",
        ", ".join(f"{key} {value:.4g}" for key, value in facts.items()),
        f"The bounds also need rows: lrml theory DATA --model {path}",
        as_json=as_json,
    )


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
