"""Bounds on complexities through eigenvalues of the data, as the paper prints them, and on the risk."""

from __future__ import annotations

import math
from typing import Any, Literal, get_args

import numpy as np

from lrml.core.arrays import to_host
from lrml.core.checks import check_choice, check_nonnegative
from lrml.theory._complexity import LocalBall
from lrml.theory._data import Ball, Bound, Signs, count, descending, limit, positive

_GAUSS = math.sqrt(math.pi / 2)  # signs are at most this many times as large as Gaussians
_COMPLEXITY = "Pass the mean of a MonteCarlo or the value of a Bound."


def _chevet(total: Any, largest: Any, n_examples: int, n_labels: int) -> tuple[Any, Any]:
    """Return two terms that add up to a bound on E‖XᵀΣ/n‖, from the sum and the largest of the s_j."""
    return _GAUSS * np.sqrt(total / n_examples), _GAUSS * np.sqrt(n_labels * largest / n_examples)


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

    With ``signs="example"`` XᵀΣ has rank one, and the first line serves all three balls. docs/theory.md has
    the proofs.

    Parameters
    ----------
    eigenvalues : array of shape (k,)
        s_j, in any order; zeros may be left out.
    n_examples, n_labels : int
        n and L.
    ball, radius, signs
        As in `global_complexity`.

    Examples
    --------
    >>> global_bound([1.0], n_examples=100, n_labels=4, ball="frobenius").value
    0.2
    """
    check_choice("ball", ball, get_args(Ball))
    s, scale = descending(eigenvalues), positive("radius", radius)
    n, labels, total = count("n_examples", n_examples), count("n_labels", n_labels), float(s.sum())
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

    For every number h of leading eigenvalues ::

        E sup ≤ √(r h L / n) + λ √((L/n) Σ_{j>h} s_j)

    and the best h is taken. Where the tail is limited to τ, also ::

        E sup ≤ √(r/n) min{√(hL), c_h} + λ min{√((L/n) Σ_{j>h} s_j), √theta G(s_{h+1}, …)} + τ G(s_1, s_2, …),

    G `global_bound` of the trace-norm ball and c_h = √(theta π/2) (√h + √L). This has theta (h + L) where the
    first line has hL, and the smaller of the two is returned; with one sign per example a small theta does
    not help. docs/theory.md has the proof, after Mendelson (2002) and Yousefi et al. (2018). Parameters as in
    `global_bound` and `local_complexity`.

    Examples
    --------
    >>> bound = local_bound([1.0, 0.01], n_examples=100, n_labels=1, r=0.16)
    >>> bound.head_size, {name: round(term, 6) for name, term in bound.terms.items()}
    (1, {'head': 0.04, 'rest of the data': 0.01})
    """
    s, scale, moment = descending(eigenvalues), positive("radius", radius), positive("r", r)
    n, labels = count("n_examples", n_examples), count("n_labels", n_labels)
    root, most = math.sqrt(count("theta", theta, 0)), limit("tail", tail)
    sizes = np.arange(len(s) + 1)
    beyond = np.append(np.cumsum(s[::-1])[::-1], 0.0)  # Σ_{j>h} s_j
    frobenius = np.sqrt(labels * beyond / n)
    head, rest = np.sqrt(moment * sizes * labels / n), scale * frobenius
    best = int(np.argmin(head + rest))
    plain = Bound({"head": float(head[best]), "rest of the data": float(rest[best])}, best)
    if most == math.inf:
        return plain
    trace = frobenius
    if signs == "entry":
        trace = np.minimum(frobenius, sum(_chevet(beyond, np.append(s, 0.0), n, labels)))
        # The top theta directions of W have rank theta.
        head = np.minimum(head, root * _GAUSS * np.sqrt(moment / n) * (np.sqrt(sizes) + math.sqrt(labels)))
    head, rest = (head if root else 0.0 * head), scale * np.minimum(frobenius, root * trace)
    best = int(np.argmin(head + rest))
    terms = {"head": float(head[best]), "rest of the data": float(rest[best])}
    ranked = Bound(terms | {"tail of W": most * float(trace[0])}, best)
    return min(plain, ranked, key=lambda bound: bound.value)


def local_dual_bound(
    eigenvalues: Any, n_examples: int, n_labels: int, r: float, *, radius: float = 1.0
) -> Bound:
    """Tightest bound of its kind on the local complexity of the Frobenius ball, for every X.

    ::

        E sup ≤ min_{0≤t≤1} √((L/n) Σ_j s_j / (t/λ² + (1−t) s_j/r)) ≤ √((2L/n) Σ_j min(r, λ² s_j))

    The squared coordinates of XᵀΣ/n are replaced by their means L s_j/n (Jensen's inequality), which both
    readings of the signs share. It never exceeds `local_bound` without a tail. Parameters as there.
    """
    s = descending(eigenvalues)
    s = s[s > 0]
    ball = LocalBall(s, positive("radius", radius), positive("r", r))
    means = s * (count("n_labels", n_labels) / count("n_examples", n_examples))
    return Bound({"ball and second moment": float(ball.support(means[None, :])[0][0])})


def local_rate(eigenvalues: Any, n_examples: int, n_labels: int = 1, radius: float = 1.0) -> float:
    """Return the positive fixed point r* of the local complexity's bound: the rate of the excess risk.

    ::

        ψ(r) = √((2L/n) Σ_j min(r, λ² s_j)) = min_h √((2L/n) (h r + λ² Σ_{j>h} s_j)),      ψ(r*) = r*

    so r* is the least of the fixed points for every h, the roots of quadratic equations. docs/theory.md says
    what it has to do with the risk. Parameters as in `local_bound`.

    Examples
    --------
    >>> local_rate([1.0, 1.0], n_examples=400)  # 2 · rank / n
    0.01
    """
    scaled = positive("radius", radius) ** 2 * descending(eigenvalues)
    factor = 2 * count("n_labels", n_labels) / count("n_examples", n_examples)
    half = factor * np.arange(len(scaled) + 1) / 2
    beyond = np.append(np.cumsum(scaled[::-1])[::-1], 0.0)
    return float(np.min(half + np.sqrt(half**2 + factor * beyond)))


def printed_local_bound(
    singular_values: Any,
    n_examples: int,
    r: float,
    theta: int,
    *,
    line: Literal["theorem", "proof"] = "theorem",
) -> Bound:
    """Local bound of Theorem 3 of Xu et al., as printed.

    ::

        line="theorem"    r √(theta/n) + (1/√n) Σ_{j>theta} σ_j
        line="proof"      r √(theta/n) + √((1/n) Σ_{j>theta} σ_j²)       (the last line but one of the proof)

    It does *not* hold for ‖W‖ ≤ 1 and ‖WWᵀ‖ ≤ r alone; docs/theory.md has counter-examples, and the
    conditions under which it does. The singular values σ_j of W are descending.

    Examples
    --------
    >>> printed_local_bound([1.0, 0.5, 0.25], n_examples=100, r=0.5, theta=1).terms
    {'head': 0.05, 'tail of W': 0.075}
    """
    moment = check_nonnegative("r", r, "Pass the bound on the norm of WWᵀ.")
    root = math.sqrt(count("n_examples", n_examples))
    rest = np.asarray(to_host(singular_values), dtype=np.float64)[count("theta", theta, 0) :]
    order = 1 if check_choice("line", line, ("theorem", "proof")) == "theorem" else 2
    tail = float(np.linalg.norm(rest, order))
    return Bound({"head": moment * math.sqrt(theta) / root, "tail of W": tail / root})


def theorem1(complexity: float, n_examples: int, delta: float = 0.05) -> Bound:
    """Excess risk by the global complexity (Theorem 1 of Xu et al.).

    ::

        E[ĝ] − inf E[g] ≤ 4 R_n(G) + √(2 log(2/δ) / n)      with probability at least 1 − δ

    Assumptions: independent examples of one distribution, losses in [0, 1], ĝ the empirical risk minimiser of
    G (which the paper does not say), and R_n(G), the ``complexity``, that of the *loss* class, averaged over
    samples. For a loss with Lipschitz constant ℓ (in the Euclidean norm of the scores) it is at most √2 ℓ
    times that of the predictors with one sign per example and label (Maurer 2016).
    """
    R = check_nonnegative("complexity", complexity, _COMPLEXITY)
    return Bound({"complexity": 4 * R, "confidence": math.sqrt(2 * _deviation(n_examples, delta))})


def theorem2(complexity: float, n_examples: int, r: float, delta: float = 0.05) -> Bound:
    """Excess risk by the complexity of a class of small second moment (Theorem 2 of Xu et al.).

    ::

        E[ĝ] − inf E[g] ≤ 8 R_n(G) + √(8 r log(2/δ) / n) + 3 log(2/δ) / n      with probability ≥ 1 − δ

    Assumptions: those of `theorem1`, and E[g²] ≤ r for every g in G; r is at most 1 for losses in [0, 1]. It
    follows from Theorem 2.1 of Bartlett, Bousquet and Mendelson (2005) with α = 1, used on both sides.
    """
    R = check_nonnegative("complexity", complexity, _COMPLEXITY)
    deviation = _deviation(n_examples, delta)
    spread = math.sqrt(8 * check_nonnegative("r", r, "Pass the bound on E[g²].") * deviation)
    return Bound({"complexity": 8 * R, "second moment": spread, "confidence": 3 * deviation})


def _deviation(n_examples: int, delta: float) -> float:
    """Return log(2/δ)/n."""
    return math.log(2 / positive("delta", delta, below=1.0)) / count("n_examples", n_examples)
