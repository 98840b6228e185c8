"""Bounds on the local Rademacher complexity that hold for every X."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lrml._checks import check_choice, check_nonnegative
from lrml.theory._data import BALLS, SIGNS, Ball, Signs, check_count, check_eigenvalues, check_positive
from lrml.theory._ellipsoid import LocalBall
from lrml.theory._global import global_bound
from lrml.theory._records import Bound, Vector

_CHEVET = math.sqrt(math.pi / 2)


def local_bound(
    eigenvalues: Any,
    n_examples: int,
    n_labels: int,
    r: float,
    *,
    ball: Ball = "frobenius",
    radius: float = 1.0,
    theta: int = 0,
    tail: float = math.inf,
    signs: Signs = "entry",
    head_size: int | None = None,
) -> Bound:
    """Bound the local complexity of linear multi-label predictors by the eigenvalues s_j of S = XᵀX/n.

    The class is {W : ‖W‖ ≤ λ, (1/n)‖XW‖²_F ≤ r}, for the Frobenius, the trace or the operator norm. For every
    number h of leading eigenvalues ::

        E sup ≤ √(r h L / n) + λ G(s_{h+1}, s_{h+2}, …)

    where G is `global_bound` of the unit ball; for the Frobenius ball λ√((L/n) Σ_{j>h} s_j). The best h is
    taken. With the further constraint Σ_{j>theta} σ_j(W) ≤ τ, for the Frobenius ball, also ::

        E sup ≤ √(r/n) min{√(hL), c_h} + λ min{√((L/n) Σ_{j>h} s_j), √theta G_trace(s_{h+1}, …)}
                + τ G_trace(s_1, s_2, …),         c_h = √(theta π/2) (√h + √L),

    which has theta (h + L) where the first line has hL, and the smaller of the two is returned.

    Parameters
    ----------
    eigenvalues : array of shape (k,)
        s_j, in any order; zeros may be left out.
    n_examples, n_labels : int
    r : float
        Bound on the mean of ‖Wᵀx_i‖² over the examples.
    ball : {"frobenius", "trace", "operator"}, default="frobenius"
    radius : float, default=1.0
        λ.
    theta : int, default=0
    tail : float, default=inf
        τ. A finite one needs the Frobenius ball.
    signs : {"entry", "example"}, default="entry"
        With one sign per example, XᵀΣ has rank one and a small theta does not help.
    head_size : int, optional
        h; the best one by default.

    Returns
    -------
    Bound
        With the terms "head", "rest of the data" and, if it is used, "tail of W".

    Notes
    -----
    Assumptions: independent signs; nothing on X. The proof splits XᵀΣ along the *data's* principal axes and
    is sketched in docs/theory.md. It is the argument of [1]_ for kernel classes, and of [2]_ for several
    tasks, written for one X with L labels.

    References
    ----------
    .. [1] S. Mendelson. Geometric Parameters of Kernel Machines. COLT 2002.
    .. [2] N. Yousefi, Y. Lei, M. Kloft, M. Mollaghasemi, G. C. Anagnostopoulos. Local Rademacher
       Complexity-based Learning Guarantees for Multi-Task Learning. JMLR 19, 2018.

    Examples
    --------
    >>> bound = local_bound([1.0, 0.01], n_examples=100, n_labels=1, r=0.16)
    >>> bound.head_size, {name: round(term, 6) for name, term in bound.terms.items()}
    (1, {'head': 0.04, 'rest of the data': 0.01})
    """
    s, norm = check_eigenvalues(eigenvalues), check_choice("ball", ball, BALLS)
    n = check_count("n_examples", n_examples, 1, "Pass the number of rows of X.")
    labels = check_count("n_labels", n_labels, 1, "Pass the number of columns of Y.")
    moment = check_positive("r", r, "Pass the mean square of the scores, ‖XW‖²_F/n.")
    scale = check_positive("radius", radius, "Use 1.0 for the unit ball.")
    if tail != math.inf and norm != "frobenius":
        raise ValueError(f"a finite tail needs ball='frobenius', got ball={ball!r}. Leave tail out.")
    heads = range(s.size + 1) if head_size is None else (_checked_head(head_size, s.size),)
    candidates = []
    for h in heads:
        rest = global_bound(s[h:], n, labels, ball=ball, radius=scale, signs=signs).value
        terms = {"head": math.sqrt(moment * h * labels / n), "rest of the data": rest}
        candidates.append(Bound(terms, h))
    if tail != math.inf:
        free = check_count("theta", theta, 0, "Use 0 for the trace norm.")
        limit = check_nonnegative("tail", tail, "Use math.inf for no limit.")
        rest = global_bound(s, n, labels, ball="trace", signs=signs).value * limit
        candidates += [
            Bound({**_low_rank(s, n, labels, moment, scale, free, signs, h), "tail of W": rest}, h)
            for h in heads
        ]
    return min(candidates, key=lambda bound: bound.value)


def _checked_head(head_size: Any, most: int) -> int:
    h = check_count("head_size", head_size, 0, "Leave it out for the best one.")
    if h > most:
        raise ValueError(
            f"head_size must be in [0, {most}] (the number of eigenvalues), got {h}. "
            "Leave it out for the best one."
        )
    return h


def _low_rank(
    s: Vector, n: int, n_labels: int, r: float, radius: float, theta: int, signs: Signs, h: int
) -> dict[str, float]:
    """Return the head and the rest for predictors of rank at most theta."""
    if theta == 0:
        return {"head": 0.0, "rest of the data": 0.0}
    frobenius = global_bound(s[h:], n, n_labels, ball="frobenius", signs=signs).value
    operator = global_bound(s[h:], n, n_labels, ball="trace", signs=signs).value
    head = math.sqrt(h * n_labels)
    if check_choice("signs", signs, SIGNS) == "entry" and h:
        head = min(head, math.sqrt(theta) * _CHEVET * (math.sqrt(h) + math.sqrt(n_labels)))
    return {
        "head": math.sqrt(r / n) * head,
        "rest of the data": radius * min(frobenius, math.sqrt(theta) * operator),
    }


def local_dual_bound(
    eigenvalues: Any, n_examples: int, n_labels: int, r: float, *, radius: float = 1.0
) -> Bound:
    """Tightest bound of its kind on the local complexity of the Frobenius ball, for every X.

    ::

        E sup ≤ min_{0≤t≤1} √((L/n) Σ_j s_j / (t/λ² + (1−t) s_j/r)) ≤ √((2L/n) Σ_j min(r, λ² s_j))

    It is the supremum with the squared coordinates of XᵀΣ/n replaced by their means L s_j/n, which Jensen's
    inequality allows. It never exceeds `local_bound` without a tail: that one bounds this supremum as well.

    Parameters
    ----------
    eigenvalues, n_examples, n_labels, r, radius
        As in `local_bound`.

    Returns
    -------
    Bound
        One term. Both readings of the signs have the same means, hence the same bound.

    Examples
    --------
    >>> round(local_dual_bound([1.0], n_examples=100, n_labels=1, r=0.04).value, 9)
    0.02
    """
    s = check_eigenvalues(eigenvalues)
    ball = LocalBall(
        s[s > 0],
        check_positive("radius", radius, "Use 1.0 for the unit ball."),
        check_positive("r", r, "Pass the mean square of the scores, ‖XW‖²_F/n."),
    )
    values, _ = ball.support(np.atleast_2d(s[s > 0] * (n_labels / n_examples)))
    return Bound({"ball and second moment": float(values[0])})
