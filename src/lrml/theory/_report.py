"""Every bound for one fitted model, as a table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lrml._arrays import thin_svd
from lrml.theory._bounds import local_bound, local_dual_bound
from lrml.theory._data import Ball, Spectrum, check_count, check_positive
from lrml.theory._fixed_point import local_rate
from lrml.theory._global import global_bound, global_complexity, printed_trace_bound
from lrml.theory._local import local_complexity
from lrml.theory._printed import printed_assumption, printed_local_bound
from lrml.theory._records import Bound, LocalComplexity, MonteCarlo, Vector
from lrml.theory._risk import theorem1, theorem2

Row = dict[str, Any]
_ANY_X = "any X"
_PRINTED = "L·uⱼᵀSuⱼ ≤ σⱼ² and shared uⱼ"
_COLUMNS = ("bound", "value", "measured", "terms", "holds for", "here")


@dataclass(frozen=True)
class BoundReport:
    """Bounds for a fitted model.

    Parameters
    ----------
    facts : dict
        n_examples, n_labels, theta, rank, the norms of W, its tail sum, the second moment r and tr S.
    rows : list of dict
        One per bound: ``bound`` (its name), ``value``, ``terms`` (what adds up to it), ``lower`` and
        ``upper`` (Monte-Carlo estimates between which lies what it bounds, or None), ``standard_error``,
        ``holds_for`` (its assumption) and ``holds_here`` (whether that assumption was found to hold; None
        where it was not looked at: a loss in [0, 1], for which a bound of 1 or more says nothing).
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


@dataclass(frozen=True, eq=False)
class _Fitted:
    """What the bounds need of a model and of data."""

    spectrum: Spectrum
    sigma: Vector
    left: Any
    n_labels: int
    theta: int

    @property
    def r(self) -> float:
        """Mean of ‖Wᵀx_i‖²: V is orthonormal, so XU diag(σ) has the same norm as XW."""
        scores = np.asarray(self.spectrum.rows @ self.left) * self.sigma
        return float(np.sum(scores**2)) / self.spectrum.n_examples

    @property
    def tail(self) -> float:
        return float(self.sigma[self.theta :].sum())

    def norm(self, ball: Ball) -> float:
        orders = {"frobenius": 2, "trace": 1, "operator": np.inf}
        return float(np.linalg.norm(self.sigma, orders[ball]))


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
    random_state: int = 0,
) -> BoundReport:
    """Return every bound for the smallest classes that hold a fitted model, with Monte-Carlo values beside.

    The classes have the model's own size: its norm is their λ, its second moment ‖XW‖²_F/n their r, its tail
    sum their τ. A bound that is promised *before* seeing data needs sizes fixed before, or a union over a
    grid of sizes; the numbers here show which term is large. Intercepts are left out; pass X − mean for
    models that were fitted with one.

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
    random_state : int, default=0

    Returns
    -------
    BoundReport
        ``print(report)`` shows the table.
    """
    fitted = _fitted(estimator, X, theta)
    measure = partial(global_complexity, n_draws=n_draws, random_state=random_state)
    spectrum, n, labels = fitted.spectrum, fitted.spectrum.n_examples, fitted.n_labels
    balls: tuple[Ball, ...] = ("frobenius", "trace", "operator")
    rows, measured = [], {}
    for ball in balls:
        radius = fitted.norm(ball)
        measured[ball] = measure(spectrum.rows, labels, ball=ball, radius=radius)
        bound = global_bound(spectrum.eigenvalues, n, labels, ball=ball, radius=radius)
        rows.append(_row(f"global, {ball} ball", bound, measured[ball], _ANY_X, True))
    rows.append(_printed_trace_row(fitted, measured["trace"]))
    least = min(row["value"] for row in rows[:3])
    local = _local_rows(fitted, n_local_draws, random_state)
    rows += [*local, *_printed_rows(fitted, measured["trace"])]
    contraction = math.sqrt(2) * check_positive("lipschitz", lipschitz, "Use 1.0.")
    rate = Bound({"r*": local_rate(spectrum.eigenvalues, n, labels, fitted.norm("frobenius"))})
    best_local = min(row["value"] for row in local)
    losses = "losses in [0, 1], minimiser"
    rows += [
        _row("Theorem 1", theorem1(contraction * least, n, delta), None, losses, None),
        _row("Theorem 2", theorem2(contraction * best_local, n, loss_moment, delta), None, losses, None),
        _row("fixed point", rate, None, "any X; a rate, no constant", True),
    ]
    return BoundReport(_facts(fitted), rows)


def _fitted(estimator: Any, X: Any, theta: int | None) -> _Fitted:
    if hasattr(estimator, "factors_"):
        left, sigma, right = estimator.factors_
    elif hasattr(estimator, "coef_"):
        left, sigma, transposed = thin_svd(np.asarray(estimator.coef_, dtype=np.float64).T)
        right = transposed.T
    else:
        raise ValueError(
            f"estimator must be fitted (with factors_ or coef_), got {estimator!r}. Call fit(X, Y) first."
        )
    spectrum = Spectrum.of(X)
    if spectrum.rows.shape[1] != len(left):
        raise ValueError(
            f"X must have the {len(left)} features of the model, got {spectrum.rows.shape[1]}. "
            "Pass the data it was fitted on, or other rows of them."
        )
    positive = np.asarray(sigma) > 0
    if not np.any(positive):
        raise ValueError("the model must not be zero, got singular values that are all 0. Lower its alpha.")
    values = np.asarray(sigma, dtype=np.float64)[positive]
    free = getattr(estimator, "theta_", values.size) if theta is None else theta
    count = check_count("theta", free, 0, "Leave it out for that of the model.")
    return _Fitted(spectrum, values, np.asarray(left, dtype=np.float64)[:, positive], len(right), count)


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


def _printed_trace_row(fitted: _Fitted, measured: MonteCarlo) -> Row:
    """Return the row of λ/√n; it is proved where every row of X has a norm of at most 1/√L."""
    rows = fitted.spectrum.rows
    largest = float(np.max(np.asarray((rows * rows).sum(axis=1))))
    bound = printed_trace_bound(fitted.spectrum.n_examples, fitted.norm("trace"))
    return _row("printed, λ/√n", bound, measured, "‖xᵢ‖ ≤ 1/√L", largest * fitted.n_labels <= 1.0)


def _local_rows(fitted: _Fitted, n_draws: int, random_state: int) -> list[Row]:
    spectrum, labels, r = fitted.spectrum, fitted.n_labels, fitted.r
    radius = fitted.norm("frobenius")
    s, n = spectrum.eigenvalues, spectrum.n_examples
    measure = partial(local_complexity, radius=radius, n_draws=n_draws, random_state=random_state)
    plain = measure(spectrum, labels, r)
    ranked = measure(spectrum, labels, r, theta=fitted.theta, tail=fitted.tail)
    split = local_bound(s, n, labels, r, radius=radius)
    with_tail = local_bound(s, n, labels, r, radius=radius, theta=fitted.theta, tail=fitted.tail)
    dual = local_dual_bound(s, n, labels, r, radius=radius)
    return [
        _row(f"local, split at {split.head_size} axes", split, plain, _ANY_X, True),
        _row("local, dual", dual, plain, _ANY_X, True),
        _row(f"local with tail, split at {with_tail.head_size}", with_tail, ranked, _ANY_X, True),
    ]


def _printed_rows(fitted: _Fitted, trace_ball: MonteCarlo) -> list[Row]:
    """Return Theorem 3 for W scaled to Frobenius norm 1 and back.

    Beside it stands what the members of rank one alone reach: √‖WWᵀ‖_F (or the tail sum, if theta is 0 and
    that is less) times E‖XᵀΣ/n‖.
    """
    size, n = fitted.norm("frobenius"), fitted.spectrum.n_examples
    r = float(np.linalg.norm(fitted.sigma**2)) / size**2
    reach = size * math.sqrt(r) if fitted.theta else min(size * math.sqrt(r), fitted.tail)
    assumption = printed_assumption(fitted.spectrum, fitted.left, fitted.sigma / size, fitted.n_labels)
    share = reach / fitted.norm("trace")
    unit = partial(printed_local_bound, fitted.sigma / size, n, r, fitted.theta)
    printed = {"printed, Theorem 3": unit(), "printed, line of its proof": unit(line="proof")}
    rows = []
    for name, bound in printed.items():
        scaled = Bound({term: size * value for term, value in bound.terms.items()})
        row = _row(name, scaled, None, _PRINTED, assumption.holds)
        error = share * trace_ball.standard_error
        rows.append(row | {"lower": share * trace_ball.mean, "standard_error": error})
    return rows


def _facts(fitted: _Fitted) -> dict[str, float]:
    return {
        "n_examples": fitted.spectrum.n_examples,
        "n_labels": fitted.n_labels,
        "theta": fitted.theta,
        "rank": fitted.sigma.size,
        "frobenius_norm": fitted.norm("frobenius"),
        "trace_norm": fitted.norm("trace"),
        "operator_norm": fitted.norm("operator"),
        "tail_sum": fitted.tail,
        "r": fitted.r,
        "trace_of_S": float(fitted.spectrum.eigenvalues.sum()),
    }
