"""Every bound for one fitted model, as a table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lrml.core.arrays import at_home, dense, to_host
from lrml.core.linalg import thin_svd
from lrml.theory import _bounds as bounds
from lrml.theory._bounds import Bound
from lrml.theory._complexity import (
    Ball,
    Matrix,
    MonteCarlo,
    Spectrum,
    Vector,
    checked,
    global_complexity,
    local_complexity,
)

Row = dict[str, Any]
_COLUMNS = ("bound", "value", "measured", "terms", "holds for", "here")
_ORDERS: dict[Ball, float] = {"frobenius": 2, "trace": 1, "operator": np.inf}
_ROUNDING = 1e-12


@dataclass(frozen=True)
class BoundReport:
    """Bounds for a fitted model; printed, they are a table.

    ``facts`` are sizes, theta, rank, norms, tail sums (of XW/√n for predictions), the second moment r and tr
    S. Each of the ``rows`` has ``bound`` (its name), ``value``, ``terms``, ``lower`` and ``upper``
    (Monte-Carlo estimates that bracket the bounded quantity, or None), ``standard_error``, ``holds_for`` (its
    assumption) and ``holds_here`` (whether that was found to hold; None for losses, not checked).
    """

    facts: dict[str, float]
    rows: list[Row]

    def __str__(self) -> str:
        facts = ", ".join(f"{name} {value:.4g}" for name, value in self.facts.items())
        lines = [_COLUMNS, *(_cells(row) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
        return "\n".join([facts, "", *padded])


def _cells(row: Row) -> tuple[str, ...]:
    lower, upper, measured = row["lower"], row["upper"], ""
    if lower is not None:
        closed = upper is None or math.isclose(lower, upper, rel_tol=1e-3)
        measured = f"{lower:.4g}{'' if closed else f' to {upper:.4g}'} ± {row['standard_error']:.2g}"
    verdict = "holds" if row["holds_here"] else "not proved"
    if row["holds_here"] is None:
        verdict = "says nothing" if row["value"] >= 1 else "not checked"
    elif not row["holds_here"] and lower is not None and lower - 3 * row["standard_error"] > row["value"]:
        verdict = "fails"
    terms = " + ".join(f"{value:.3g} {name}" for name, value in row["terms"].items())
    return row["bound"], f"{row['value']:.4g}", measured, terms, row["holds_for"], verdict


def bound_report(
    estimator: Any,
    X: Any,
    *,
    theta: int | None = None,
    delta: float = 0.05,
    n_draws: int = 20,
    n_local_draws: int = 4,
    random_state: Any = None,
) -> BoundReport:
    """Return every bound for the smallest classes that contain a fitted model, beside Monte-Carlo values.

    The classes have the model's own norms, second moment ‖XW‖²_F/n and tail sums; a guarantee made *before*
    seeing the data needs sizes fixed beforehand. Intercepts are left out: pass X − mean for models with one.

    Parameters
    ----------
    estimator : fitted model
        Anything with ``factors_``, or with ``coef_`` of shape (L, d).
    X : array or sparse matrix of shape (n, d)
    theta : int, optional
        Singular values that the tails leave out: ``theta_`` of the model, or its rank, by default.
    delta : float
        Theorems 1 and 2 hold with probability 1 − δ; here for 1-Lipschitz losses in [0, 1].
    n_draws, n_local_draws, random_state : int
        Draws for the global and for the local complexities, and their seed.
    """
    left, sigma, labels = _factors(estimator)
    (free,) = checked(theta=getattr(estimator, "theta_", sigma.size) if theta is None else theta)
    spectrum = Spectrum.of(X)
    s, n = spectrum.eigenvalues, spectrum.n_examples
    if (d := spectrum.rows.shape[1]) != len(left):
        raise ValueError(f"X has {d} features, the model {len(left)}. Pass rows like those of its training.")
    scores = np.asarray(spectrum.rows @ left) * sigma / math.sqrt(n)  # V is orthonormal: the values of XW/√n
    values = np.linalg.svd(scores, compute_uv=False)
    r, tail, said_tail = float(values @ values), float(sigma[free:].sum()), float(values[free:].sum())
    norms = {ball: float(np.linalg.norm(sigma, order)) for ball, order in _ORDERS.items()}
    facts: dict[str, float] = {"n_examples": n, "n_labels": labels, "theta": free, "rank": sigma.size}
    facts |= {f"{ball}_norm": norm for ball, norm in norms.items()}
    facts |= {"tail_sum": tail, "tail_of_predictions": said_tail, "r": r, "trace_of_S": float(s.sum())}

    sizes: Any = {ball: {"ball": ball, "radius": norm} for ball, norm in norms.items()}
    draws: Any = {"n_draws": n_draws, "random_state": random_state}
    found = {ball: global_complexity(spectrum, labels, **size, **draws) for ball, size in sizes.items()}
    overall = [
        _row(f"global, {ball} ball", bounds.global_bound(s, n, labels, **size), [found[ball]] * 2)
        for ball, size in sizes.items()
    ]
    draws |= {"n_draws": n_local_draws}
    tailed, said_tailed = ({"theta": free, "tail": most} for most in (tail, said_tail))
    local: Any = partial(local_complexity, n_labels=labels, r=r, **draws)
    radius: Any = {"radius": norms["frobenius"]}
    plain, ranked = local(spectrum, **radius), local(spectrum, **radius, **tailed)
    said = local(Spectrum.of_predictions(spectrum), radius=math.sqrt(r), **said_tailed)
    split, short = (bounds.local_bound(s, n, labels, r, **radius, **limits) for limits in ({}, tailed))
    inside = [
        _row(f"local, split at {split.head_size} axes", split, plain),
        _row("local, dual", bounds.local_dual_bound(s, n, labels, r, **radius), plain),
        _row(f"local with tail, split at {short.head_size}", short, ranked),
        _row("local, tail of predictions", bounds.prediction_bound(s, n, labels, r, **said_tailed), said),
    ]
    risks = [math.sqrt(2) * min(row["value"] for row in rows) for rows in (overall, inside)]
    trace = Bound({"trace norm": norms["trace"] / math.sqrt(n)})
    within = float(np.max((spectrum.rows * spectrum.rows).sum(axis=1))) * labels <= 1.0
    losses = "losses in [0, 1], minimiser", None
    rate = Bound({"r*": bounds.local_rate(s, n, labels, **radius)})
    rows = [
        *overall,
        _row("printed, λ/√n", trace, [found["trace"]] * 2, "‖xᵢ‖ ≤ 1/√L", within),
        *inside,
        *_printed_rows(spectrum, left, sigma, labels, free, found["trace"]),
        _row("Theorem 1", bounds.theorem1(risks[0], n, delta), (), *losses),
        _row("Theorem 2", bounds.theorem2(risks[1], n, 1.0, delta), (), *losses),
        _row("fixed point", rate, (), "any X; a rate, no constant"),
    ]
    return BoundReport(facts, rows)


def _factors(estimator: Any) -> tuple[Matrix, Vector, int]:
    """Return the left singular vectors, the positive singular values and the number of labels of a model."""
    if getattr(estimator, "kernel_", None) is not None:
        raise ValueError(f"{estimator!r} must be linear in the features. Fit it with kernel='linear'.")
    if hasattr(estimator, "factors_"):
        U, s, V = at_home(estimator.factors_)
    elif hasattr(estimator, "coef_"):
        V, s, transposed = thin_svd(np.asarray(dense(to_host(estimator.coef_)), dtype=np.float64))
        U = transposed.T
    else:
        raise ValueError(f"{estimator!r} has neither factors_ nor coef_. Call fit(X, Y) first.")
    if not np.any(s > 0):
        raise ValueError("all coefficients of the model are 0. Fit it with a lower alpha.")
    return np.asarray(U, dtype=np.float64)[:, s > 0], np.asarray(s, dtype=np.float64)[s > 0], len(V)


def _row(
    name: str, bound: Bound, measured: Sequence[MonteCarlo], holds_for: str = "any X", holds: Any = True
) -> Row:
    """Return the row of a bound: ``measured`` are lower and upper estimates of what it bounds, if any."""
    lower, upper = [*(one.mean for one in measured), None, None][:2]
    return {
        "bound": name,
        "value": bound.value,
        "terms": dict(bound.terms),
        "lower": lower,
        "upper": upper,
        "standard_error": measured[-1].standard_error if measured else None,
        "holds_for": holds_for,
        "holds_here": holds,
    }


def _printed_rows(
    spectrum: Spectrum, left: Matrix, sigma: Vector, n_labels: int, theta: int, trace_ball: MonteCarlo
) -> list[Row]:
    """Return Theorem 3 for W scaled to Frobenius norm 1 and back, beside what members of rank one reach.

    That is √‖WWᵀ‖_F (or the tail sum, if theta is 0 and that is less) times E‖XᵀΣ/n‖.
    """
    size, total = float(np.linalg.norm(sigma)), float(sigma.sum())
    unit = sigma / size
    r = float(np.linalg.norm(unit**2))
    share = min(size * math.sqrt(r), math.inf if theta else total) / total
    reached = MonteCarlo(share * trace_ball.mean, share * trace_ball.standard_error, trace_ball.n_draws)
    holds = assumption_holds(spectrum.rows, left, unit, n_labels)
    rows, lines = [], (("printed, Theorem 3", "theorem"), ("printed, line of its proof", "proof"))
    for name, line in lines:
        bound = bounds.printed_local_bound(unit, spectrum.n_examples, r, theta, line=line)  # type: ignore[arg-type]
        scaled = Bound({term: size * value for term, value in bound.terms.items()})
        rows.append(_row(name, scaled, [reached], "L·uⱼᵀSuⱼ ≤ σⱼ² and shared uⱼ", holds))
    return rows


def assumption_holds(rows: Any, left: Matrix, sigma: Vector, n_labels: int) -> bool:
    """Whether L · u_jᵀSu_j ≤ σ_j², which the printed proof assumes of data and predictor.

    It has to hold for the left singular vectors u_j of W, and X has to be 0 in directions where W is.
    """
    squares = np.sum(np.asarray(rows @ left) ** 2, axis=0)
    within = np.all(n_labels * squares / rows.shape[0] <= sigma**2 * (1 + _ROUNDING))
    return bool(within and (1 - _ROUNDING) * float((rows * rows).sum()) <= squares.sum())
