"""``lrml theory``: Rademacher complexities and bounds for a model of some data."""

# ruff: noqa: PLC0415 - help and wrong usage need neither NumPy nor rich

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrml.cli._options import DATA, Data, command, option, value
from lrml.cli._rows import RowsForModel, opened
from lrml.cli.learn import Training

if TYPE_CHECKING:
    from lrml import LRML

_THETA = "Free singular values: a count, a share of the labels such as 0.2, or auto."
_HELD_OUT = 0.2


@command(data=DATA)
def theory(
    data: Data,
    theta: Annotated[str, option("N|SHARE|auto", _THETA, value)] = "auto",
    alpha: Annotated[float | None, option("X", "Strength of the penalty (default: chosen).")] = None,
    ridge: Annotated[float, option("X", "Ridge, if alpha is given.")] = 0.0,
    raw: Annotated[bool, typer.Option("--raw", help="Leave rows as they are, not of unit length.")] = False,
    draws: Annotated[int, option("N", "Draws of random signs.")] = 20,
    seed: Annotated[int, option("N", "Seed of the signs.")] = 0,
    model: Annotated[
        str | None, option("MODEL", "A model file, in place of a new fit; implies --raw.")
    ] = None,
) -> Any:
    """Compute complexities and generalisation bounds on a dataset.

    Fit LRML to the training rows and print every bound of lrml.theory for it, beside Monte-Carlo estimates of
    what it bounds. The theory knows no intercept, so the model has none. Without --alpha, alpha and ridge are
    chosen on held-out rows. With --model, the bounds are those of a model of lrml.save, less its intercept; a
    model of texts reads texts.
    """
    import numpy as np
    from scipy import sparse
    from sklearn.preprocessing import normalize

    from lrml.theory import bound_report

    if model is None:
        source = data.open()
        if source.roles.kind == "text":
            raise ValueError(
                f"{data.name!r} has texts, and the theory takes features. Fit a model first (lrml fit "
                f"{data.name} -o model.lrml), and pass it with --model, or pass features with labels."
            )
        name, rows = source.name, Training.read(source).rows
        X = rows.X if raw else normalize(rows.X)
        fitted: Any = _fitted(X, rows.Y, theta, alpha, ridge)
    else:
        found, summary = opened(model)
        rows = RowsForModel(found, data, summary, part="train")
        fitted, name = rows.inner.model, rows.source.name
        parts = [X for X, *_ in rows.answers(lambda model, X: X)]
        X = sparse.csr_array(sparse.vstack(parts)) if sparse.issparse(parts[0]) else np.vstack(parts)
    report = bound_report(fitted, X, n_draws=draws, random_state=seed)
    known = {key: getattr(fitted, f"{key}_", getattr(fitted, key, None)) for key in ("alpha", "ridge")}
    given = {"theta": report.facts["theta"]} | {key: one for key, one in known.items() if one is not None}
    words = ", ".join(f"{key} {one:.4g}" for key, one in given.items())
    return (
        {"dataset": name, "model": given, "facts": report.facts, "bounds": report.rows},
        f"{type(fitted).__name__} on {name}: {words}.",
        str(report),
        "A bound of 1 or more says nothing about a loss in [0, 1]. docs/theory.md explains the rows.",
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
