"""Bounds on complexities through eigenvalues of the data, as the paper prints them, and on the risk."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from lrml.core.arrays import to_host
from lrml.core.checks import check_choice, check_number
from lrml.theory._complexity import Ball, LocalBall, Signs, Vector, checked

_GAUSS = math.sqrt(math.pi / 2)  # signs are at most this many times as large as Gaussians


@dataclass(frozen=True)
class Bound:
    """An upper bound that is a sum of named terms; ``head_size`` axes of the data are in its head, if any."""

    terms: Mapping[str, float]
    head_size: int | None = None

    @property
    def value(self) -> float:
        """Sum of the terms."""
        return float(sum(self.terms.values()))


def descending(given: Any, name: str = "eigenvalues") -> Vector:
    """Return eigenvalues or singular values in descending order."""
    values = np.asarray(to_host(given), dtype=np.float64)
    if values.ndim != 1 or not np.all(np.isfinite(values) & (values >= 0)):
        raise ValueError(f"{name} are {given!r:.80}. Pass finite numbers of at least 0, in a row.")
    return np.sort(values)[::-1]


def _chevet(total: Any, largest: Any, n_examples: int, n_labels: int) -> tuple[Any, Any]:
    """Two terms of a bound on E‖XᵀΣ/n‖, from the sum and the largest of the s_j."""
    return _GAUSS * np.sqrt(total / n_examples), _GAUSS * np.sqrt(n_labels * largest / n_examples)


def _sums_beyond(s: Vector) -> Vector:
    """Σ_{j>h} s_j for h = 0, 1, … , len(s)."""
    return np.append(np.cumsum(s[::-1])[::-1], 0.0)


def _best_split(head: Vector, rest: Vector, **tail: float) -> Bound:
    """Choose the h with the least sum of a head of h axes and the rest."""
    h = int(np.argmin(head + rest))
    return Bound({"head": float(head[h]), "rest of the data": float(rest[h])} | tail, h)


def global_bound(
    eigenvalues: Any,
    n_examples: int,
    n_labels: int,
    *,
    ball: Ball = "trace",
    radius: float = 1.0,
    signs: Signs = "entry",
) -> Bound:
    """Upper bound on `global_complexity` that holds for every X, through the eigenvalues s_j of XᵀX/n.

    ::

        frobenius   λ √(L tr S / n)
        trace       λ min{ √(L tr S / n),  √(π/2) (√(tr S / n) + √(L s₁ / n)) }
        operator    λ min{ √(L/n) Σ_j √s_j,  L √(tr S / n) }

    With ``signs="example"`` XᵀΣ has rank one, and the first line serves all. Zeros among the s_j may be left
    out; the other parameters are those of `global_complexity`.
    """
    check_choice("ball", ball, get_args(Ball))
    s = descending(eigenvalues)
    n, labels, scale = checked(n_examples=n_examples, n_labels=n_labels, radius=radius)
    total = float(s.sum())
    frobenius = Bound({"all eigenvalues": scale * math.sqrt(labels * total / n)})
    if ball == "frobenius" or signs == "example":
        return frobenius
    if ball == "operator":
        norm = min(math.sqrt(labels / n) * float(np.sqrt(s).sum()), labels * math.sqrt(total / n))
        return Bound({"all eigenvalues": scale * norm})
    spread, peak = _chevet(total, s.max(initial=0.0), n, labels)
    operator = Bound({"all eigenvalues": float(scale * spread), "largest eigenvalue": float(scale * peak)})
    return min(frobenius, operator, key=lambda bound: bound.value)


def local_bound(
    eigenvalues: Any,
    n_examples: int,
    n_labels: int,
    r: float,
    *,
    radius: float = 1.0,
    theta: int = 0,
    tail: float = math.inf,
    signs: Signs = "entry",
) -> Bound:
    """Bound `local_complexity` by the eigenvalues s_j of S = XᵀX/n, for every X.

    The second line needs a tail limited to τ; the least value of all h counts ::

        E sup ≤ √(r h L / n) + λ √((L/n) Σ_{j>h} s_j)
        E sup ≤ √(r/n) min{√(hL), c_h} + λ min{√((L/n) Σ_{j>h} s_j), √theta G(s_{h+1}, …)} + τ G(s_1, s_2, …)

    with G `global_bound` of the trace-norm ball and c_h = √(theta π/2) (√h + √L).

    >>> bound = local_bound([1.0, 0.01], n_examples=100, n_labels=1, r=0.16)
    >>> bound.head_size, {name: round(term, 6) for name, term in bound.terms.items()}
    (1, {'head': 0.04, 'rest of the data': 0.01})
    """
    s = descending(eigenvalues)
    n, labels, scale, moment = checked(n_examples=n_examples, n_labels=n_labels, radius=radius, r=r)
    free, most = checked(theta=theta, tail=tail)
    root = math.sqrt(free)
    sizes, beyond = np.arange(len(s) + 1), _sums_beyond(s)
    head, frobenius = np.sqrt(moment * sizes * labels / n), np.sqrt(labels * beyond / n)
    plain = _best_split(head, scale * frobenius)
    if most == math.inf:
        return plain
    trace = frobenius
    if signs == "entry":
        trace = np.minimum(frobenius, sum(_chevet(beyond, np.append(s, 0.0), n, labels)))
        # The top theta directions of W have rank theta.
        head = np.minimum(head, root * _GAUSS * np.sqrt(moment / n) * (np.sqrt(sizes) + math.sqrt(labels)))
    rest = scale * np.minimum(frobenius, root * trace)
    ranked = _best_split(head if root else 0.0 * head, rest, **{"tail of W": most * float(trace[0])})
    return min(plain, ranked, key=lambda bound: bound.value)


def local_dual_bound(
    eigenvalues: Any, n_examples: int, n_labels: int, r: float, *, radius: float = 1.0
) -> Bound:
    """Tightest bound of its kind on the local complexity of the Frobenius ball, for every X.

    ::

        E sup ≤ min_{0≤t≤1} √((L/n) Σ_j s_j / (t/λ² + (1−t) s_j/r)) ≤ √((2L/n) Σ_j min(r, λ² s_j))

    Never above `local_bound` without a tail; parameters as there.
    """
    s = descending(eigenvalues)
    s = s[s > 0]
    n, labels, scale, moment = checked(n_examples=n_examples, n_labels=n_labels, radius=radius, r=r)
    # Jensen's inequality: the squared coordinates of XᵀΣ/n are replaced by their means.
    means = s * (labels / n)
    support, _ = LocalBall(s, scale, moment).support(means[None, :])
    return Bound({"ball and second moment": float(support[0])})


def local_rate(eigenvalues: Any, n_examples: int, n_labels: int = 1, radius: float = 1.0) -> float:
    """Return the positive fixed point r* of the local complexity's bound: the rate of the excess risk.

    ::

        ψ(r) = √((2L/n) Σ_j min(r, λ² s_j)) = min_h √((2L/n) (h r + λ² Σ_{j>h} s_j)),      ψ(r*) = r*

    so r* is the least of the fixed points for every h, the roots of quadratic equations.

    >>> local_rate([1.0, 1.0], n_examples=400)  # 2 · rank / n
    0.01
    """
    n, labels, scale = checked(n_examples=n_examples, n_labels=n_labels, radius=radius)
    scaled, factor = scale**2 * descending(eigenvalues), 2 * labels / n
    half = factor * np.arange(len(scaled) + 1) / 2
    return float(np.min(half + np.sqrt(half**2 + factor * _sums_beyond(scaled))))


def prediction_bound(
    eigenvalues: Any,
    n_examples: int,
    n_labels: int,
    r: float,
    *,
    theta: int = 0,
    tail: float = math.inf,
    ridge: float = 0.0,
    signs: Signs = "entry",
) -> Bound:
    """Bound the complexity of a ball in the space of predictions, as Theorem 2 has it, for every X.

    The class has (‖XW‖²_F + ridge ‖W‖²_F)/n ≤ r, that is, E g² ≤ r without a ridge, and Σ_{j>theta} λ_j ≤ τ
    for the singular values λ_j of X̃W/√n, X̃ = [X; √ridge I]. With a_j = s_j/(s_j + ridge/n) ::

        E sup ≤ √r √((L/n) Σ a_j)
        E sup ≤ (√(r theta) + τ) G(a_1, a_2, …),     G ≤ √(π/2n) (√Σ a_j + √(L a_1))

    G is `global_bound` of the trace-norm ball. This is Theorem 3 with √r for r, and G for 1/√n, as the
    singular vectors may follow the signs. Without a ridge only the rank of X counts. `local_complexity` of
    ``Spectrum.of_predictions(X, ridge)`` with the radius √r is what is bounded.

    >>> round(prediction_bound([5.0, 0.1], n_examples=200, n_labels=1, r=0.16).value, 6)  # √(r · rank / n)
    0.04
    """
    s = descending(eigenvalues)
    s = s[s > 0]
    n, moment, free, most, rho = checked(n_examples=n_examples, r=r, theta=theta, tail=tail, ridge=ridge)
    ball, shares = math.sqrt(moment), s / (s + rho / n)
    whole, norm = (
        global_bound(shares, n_examples, n_labels, ball=one, signs=signs).value
        for one in ("frobenius", "trace")
    )
    ranked = Bound({"free directions": ball * min(whole, math.sqrt(free) * norm), "tail of XW": most * norm})
    return min(Bound({"ball": ball * whole}), ranked, key=lambda bound: bound.value)


def printed_local_bound(
    singular_values: Any,
    n_examples: int,
    r: float,
    theta: int,
    *,
    line: Literal["theorem", "proof", "predictions"] = "theorem",
) -> Bound:
    """Local bound of Theorem 3 of Xu et al., from the singular values σ_j of W, or λ_j of XW/√n.

    ::

        line="theorem"        r √(theta/n) + (1/√n) Σ_{j>theta} σ_j
        line="proof"          r √(theta/n) + √((1/n) Σ_{j>theta} σ_j²)   (the last line but one of the proof)
        line="predictions"    √(r theta/n) + (1/√n) Σ_{j>theta} λ_j

    The first two do *not* hold for ‖W‖ ≤ 1 and ‖WWᵀ‖ ≤ r alone; docs/theory.md says when they do. The third
    holds for predictions with fixed singular vectors, E g² ≤ r in the first theta of them and values of at
    most λ_j in the others; `prediction_bound` needs no fixed vectors.
    """
    moment, (n, free) = check_number("r", r), checked(n_examples=n_examples, theta=theta)
    rest = descending(singular_values, "singular_values")[free:]
    kind = check_choice("line", line, ("theorem", "proof", "predictions"))
    tail = float(np.linalg.norm(rest, 2 if kind == "proof" else 1))
    head, name = moment, "tail of W"
    if kind == "predictions":
        head, name = math.sqrt(moment), "tail of XW"
    return Bound({"head": head * math.sqrt(free / n), name: tail / math.sqrt(n)})


def theorem1(complexity: float, n_examples: int, delta: float = 0.05) -> Bound:
    """Excess risk by the global complexity (Theorem 1 of Xu et al.).

    ::

        E[ĝ] − inf E[g] ≤ 4 R_n(G) + √(2 log(2/δ) / n)      with probability at least 1 − δ

    For independent examples, losses in [0, 1] and ĝ the empirical risk minimiser. R_n(G), the ``complexity``,
    is that of the *loss* class: for an ℓ-Lipschitz loss at most √2 ℓ times that of predictors with signs per
    entry.
    """
    deviation, size = _deviation(n_examples, delta), check_number("complexity", complexity)
    return Bound({"complexity": 4 * size, "confidence": math.sqrt(2 * deviation)})


def theorem2(complexity: float, n_examples: int, r: float, delta: float = 0.05) -> Bound:
    """Excess risk by the complexity of a class with E[g²] ≤ r (Theorem 2 of Xu et al.), else as `theorem1`.

    ::

        E[ĝ] − inf E[g] ≤ 8 R_n(G) + √(8 r log(2/δ) / n) + 3 log(2/δ) / n      with probability ≥ 1 − δ
    """
    deviation, size = _deviation(n_examples, delta), check_number("complexity", complexity)
    spread = math.sqrt(8 * check_number("r", r) * deviation)
    return Bound({"complexity": 8 * size, "second moment": spread, "confidence": 3 * deviation})


def _deviation(n_examples: int, delta: float) -> float:
    """log(2/δ)/n."""
    n, most = checked(n_examples=n_examples, delta=delta)
    return math.log(2 / most) / float(n)
