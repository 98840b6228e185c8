"""Every bound for one fitted model, as a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lrml._arrays import at_home, thin_svd, to_host
from lrml.theory._data import (
    Ball,
    Bound,
    LocalComplexity,
    Matrix,
    MonteCarlo,
    Spectrum,
    Vector,
    check_count,
    check_positive,
)
from lrml.theory._global import global_bound, global_complexity
from lrml.theory._local import local_bound, local_complexity, local_dual_bound
from lrml.theory._printed import printed_assumption, printed_local_bound, printed_trace_bound
from lrml.theory._rates import local_rate, theorem1, theorem2

Row = dict[str, Any]
_ANY_X = "any X"
_LOSSES = "losses in [0, 1], minimiser"
_PRINTED = "L·uⱼᵀSuⱼ ≤ σⱼ² and shared uⱼ"
_COLUMNS = ("bound", "value", "measured", "terms", "holds for", "here")
_ORDERS: dict[Ball, float] = {"frobenius": 2, "trace": 1, "operator": np.inf}


@dataclass(frozen=True)
class BoundReport:
    """Bounds for a fitted model.

    Parameters
    ----------
    facts : dict
        n_examples, n_labels, theta, rank, the norms of W, its tail sum, the second moment r and tr S.
    rows : list of dict
        One per bound: ``bound`` (its name), ``value``, ``terms`` (what adds up to it), ``lower`` and
        ``upper`` (Monte-Carlo estimates that bracket the bounded quantity, or None), ``standard_error``,
        ``holds_for`` (its assumption) and ``holds_here`` (whether that assumption was found to hold; None if
        not checked: a loss in [0, 1], for which a bound of 1 or more says nothing).
    """

    facts: dict[str, float]
    rows: list[Row]

    def __str__(self) -> str:
        lines = [", ".join(f"{name} {value:.4g}" for name, value in self.facts.items()), ""]
        cells = [_COLUMNS, *(_cells(row) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for line in cells:
            padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            lines.append("  ".join(padded).rstrip())
        return "\n".join(lines)


def _cells(row: Row) -> tuple[str, ...]:
    lower, upper = row["lower"], row["upper"]
    measured = "" if lower is None else f"{lower:.4g}"
    if upper is not None and not math.isclose(lower, upper, rel_tol=1e-3):
        measured += f" to {upper:.4g}"
    measured += "" if lower is None else f" ± {row['standard_error']:.2g}"
    terms = " + ".join(f"{value:.3g} {name}" for name, value in row["terms"].items())
    exceeded = lower is not None and lower - 3 * row["standard_error"] > row["value"]
    verdict = "fails" if exceeded else "not proved"
    if row["holds_here"] is None:
        verdict = "says nothing" if row["value"] >= 1 else "not checked"
    elif row["holds_here"]:
        verdict = "holds"
    return row["bound"], f"{row['value']:.4g}", measured, terms, row["holds_for"], verdict


def bound_report(
    estimator: Any,
    X: Any,
    *,
    theta: int | None = None,
    delta: float = 0.05,
    lipschitz: float = 1.0,
    loss_moment: float = 1.0,
    n_draws: int = 20,
    n_local_draws: int = 4,
    random_state: Any = None,
) -> BoundReport:
    """Return every bound for the smallest classes that contain a fitted model, beside Monte-Carlo values.

    The classes have the model's own size: its norm is their λ, its second moment ‖XW‖²_F/n their r, its tail
    sum their τ. A guarantee made *before* seeing the data needs sizes fixed beforehand. Intercepts are left
    out; pass X − mean for models fitted with one.

    Parameters
    ----------
    estimator : fitted LRML, MLTrace, MLFro, CPLST, PLST or LEML
        Anything with ``factors_``, or with ``coef_`` of shape (L, d).
    X : array or sparse matrix of shape (n, d)
    theta : int, optional
        Singular values that the tail leaves out: ``theta_`` of the model by default, its rank if it has none.
    delta : float, default=0.05
        Theorems 1 and 2 hold with probability 1 − δ.
    lipschitz : float, default=1.0
        Lipschitz constant ℓ of the loss; the loss class has a complexity of at most √2 ℓ times that of the
        predictors.
    loss_moment : float, default=1.0
        Bound on the mean of squared losses for Theorem 2; 1 holds for all losses in [0, 1].
    n_draws, n_local_draws : int, default=20 and 4
        Draws for the global and for the local complexities, with one sign per example and label.
    random_state : int, Generator or None, default=None
        Seed of the signs; pass an int for the same report at every call.

    Returns
    -------
    BoundReport
        ``print(report)`` shows the table.
    """
    contraction = math.sqrt(2) * check_positive("lipschitz", lipschitz)
    left, sigma, labels = _factors(estimator)
    spectrum = Spectrum.of(X)
    if spectrum.rows.shape[1] != len(left):
        raise ValueError(
            f"X must have the {len(left)} features of the model, got {spectrum.rows.shape[1]}. "
            "Pass the data it was fitted on, or other rows of them."
        )
    free = check_count("theta", getattr(estimator, "theta_", sigma.size) if theta is None else theta)
    scores = np.asarray(spectrum.rows @ left) * sigma  # V is orthonormal: the same norm as XW
    n = spectrum.n_examples
    facts: dict[str, float] = {"n_examples": n, "n_labels": labels, "theta": free, "rank": sigma.size}
    facts |= {f"{ball}_norm": float(np.linalg.norm(sigma, order)) for ball, order in _ORDERS.items()}
    facts |= {"tail_sum": float(sigma[free:].sum()), "r": float(np.sum(scores**2)) / n}
    facts |= {"trace_of_S": float(spectrum.eigenvalues.sum())}
    rows, measured = [], {}
    for ball in _ORDERS:
        options: Any = {"ball": ball, "radius": facts[f"{ball}_norm"]}
        measured[ball] = global_complexity(
            spectrum.rows, labels, n_draws=n_draws, random_state=random_state, **options
        )
        bound = global_bound(spectrum.eigenvalues, n, labels, **options)
        rows.append(_row(f"global, {ball} ball", bound, measured[ball], _ANY_X, True))
    printed = printed_trace_bound(n, facts["trace_norm"])
    largest = float(np.max(np.asarray((spectrum.rows * spectrum.rows).sum(axis=1))))
    best_global = min(row["value"] for row in rows)
    local = _local_rows(spectrum, facts, n_local_draws, random_state)
    best_local = min(row["value"] for row in local)
    rate = Bound({"r*": local_rate(spectrum.eigenvalues, n, labels, facts["frobenius_norm"])})
    rows += [
        _row("printed, λ/√n", printed, measured["trace"], "‖xᵢ‖ ≤ 1/√L", largest * labels <= 1.0),
        *local,
        *_printed_rows(spectrum, left, sigma, facts, measured["trace"]),
        _row("Theorem 1", theorem1(contraction * best_global, n, delta), None, _LOSSES, None),
        _row("Theorem 2", theorem2(contraction * best_local, n, loss_moment, delta), None, _LOSSES, None),
        _row("fixed point", rate, None, "any X; a rate, no constant", True),
    ]
    return BoundReport(facts, rows)


def _factors(estimator: Any) -> tuple[Matrix, Vector, int]:
    """Return the left singular vectors, the positive singular values and the number of labels of a model."""
    if getattr(estimator, "kernel_", None) is not None:
        raise ValueError(
            f"estimator must be linear in the features, got {estimator!r}. Fit it with kernel='linear'."
        )
    if hasattr(estimator, "factors_"):
        left, sigma, right = at_home(estimator.factors_)
    elif hasattr(estimator, "coef_"):
        left, sigma, transposed = thin_svd(np.asarray(to_host(estimator.coef_), dtype=np.float64).T)
        right = transposed.T
    else:
        raise ValueError(
            f"estimator must be fitted (with factors_ or coef_), got {estimator!r}. Call fit(X, Y) first."
        )
    positive = np.asarray(sigma) > 0
    if not np.any(positive):
        raise ValueError("the model must not be zero, got singular values that are all 0. Lower its alpha.")
    values = np.asarray(sigma, dtype=np.float64)[positive]
    return np.asarray(left, dtype=np.float64)[:, positive], values, len(right)


def _row(name: str, bound: Bound, measured: Any, holds_for: str, holds: bool | None) -> Row:
    lower = measured.lower if isinstance(measured, LocalComplexity) else measured
    upper = measured.upper if isinstance(measured, LocalComplexity) else measured
    return {
        "bound": name,
        "value": bound.value,
        "terms": dict(bound.terms),
        "lower": None if lower is None else lower.mean,
        "upper": None if upper is None else upper.mean,
        "standard_error": None if upper is None else upper.standard_error,
        "holds_for": holds_for,
        "holds_here": holds,
    }


def _local_rows(spectrum: Spectrum, facts: dict[str, float], n_draws: int, random_state: Any) -> list[Row]:
    s, n, labels = spectrum.eigenvalues, spectrum.n_examples, int(facts["n_labels"])
    r, radius = facts["r"], facts["frobenius_norm"]
    measure = partial(local_complexity, radius=radius, n_draws=n_draws, random_state=random_state)
    tail: Any = {"theta": facts["theta"], "tail": facts["tail_sum"]}
    plain, ranked = measure(spectrum, labels, r), measure(spectrum, labels, r, **tail)
    split = local_bound(s, n, labels, r, radius=radius)
    with_tail = local_bound(s, n, labels, r, radius=radius, **tail)
    dual = local_dual_bound(s, n, labels, r, radius=radius)
    return [
        _row(f"local, split at {split.head_size} axes", split, plain, _ANY_X, True),
        _row("local, dual", dual, plain, _ANY_X, True),
        _row(f"local with tail, split at {with_tail.head_size}", with_tail, ranked, _ANY_X, True),
    ]


def _printed_rows(
    spectrum: Spectrum, left: Matrix, sigma: Vector, facts: dict[str, float], trace_ball: MonteCarlo
) -> list[Row]:
    """Return Theorem 3 for W scaled to Frobenius norm 1 and back.

    Beside it is the value that members of rank one alone reach: √‖WWᵀ‖_F (or the tail sum, if theta is 0 and
    that is less) times E‖XᵀΣ/n‖.
    """
    size, theta = facts["frobenius_norm"], int(facts["theta"])
    unit = sigma / size
    r = float(np.linalg.norm(unit**2))
    reach = size * math.sqrt(r) if theta else min(size * math.sqrt(r), facts["tail_sum"])
    share = reach / facts["trace_norm"]
    found = {"lower": share * trace_ball.mean, "standard_error": share * trace_ball.standard_error}
    assumption = printed_assumption(spectrum, left, unit, int(facts["n_labels"]))
    lines: Any = {"printed, Theorem 3": "theorem", "printed, line of its proof": "proof"}
    rows = []
    for name, line in lines.items():
        bound = printed_local_bound(unit, spectrum.n_examples, r, theta, line=line)
        scaled = Bound({term: size * value for term, value in bound.terms.items()})
        rows.append(_row(name, scaled, None, _PRINTED, assumption.holds) | found)
    return rows
