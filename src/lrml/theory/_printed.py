"""Bounds as the paper prints them, and the assumption under which its local bound holds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from lrml._arrays import to_host
from lrml._checks import check_choice, check_nonnegative
from lrml.theory._data import Bound, Matrix, Spectrum, Vector, check_count, check_positive, check_rows


def printed_trace_bound(n_examples: int, radius: float = 1.0) -> Bound:
    """Bound λ/√n on the complexity of the trace-norm ball, as the paper prints it.

    It depends on neither X nor L. It holds for ‖x_i‖ ≤ 1/√L: then √(L tr S / n) ≤ 1/√n. With ‖x_i‖ ≤ 1 alone
    it is wrong for L > 1: one example of norm 1 has the complexity λ√L in both readings of the signs. Up to a
    constant it holds, with one sign per example and label, where L s₁ ≤ 1; see `global_bound`.

    Examples
    --------
    >>> printed_trace_bound(100, radius=2.0).value
    0.2
    """
    n = check_count("n_examples", n_examples)
    return Bound({"trace norm": check_positive("radius", radius) / math.sqrt(n)})


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

    It does *not* hold for ‖W‖ ≤ 1 and ‖WWᵀ‖ ≤ r alone (docs/theory.md has counter-examples). It holds under

    1. one orthonormal basis u_1, u_2, … holds the left singular vectors of every W of the class;
    2. along it the data have L · u_jᵀSu_j ≤ σ_j², S = XᵀX/n and σ_j the numbers of the bound;
    3. ‖W‖_F ≤ 1 and Σ_{j≤theta} σ_j² σ_j(W)² ≤ r², which is implied by ‖WWᵀ‖_F ≤ r if σ_j(W) = σ_j.

    With u_j the principal axes of the data and σ_j = √(L s_j), the first condition is not needed, and r has
    to be √L times the root mean square of the scores: this is `local_bound`.

    Parameters
    ----------
    singular_values : array of shape (k,)
        σ_j, descending.
    n_examples : int
    r : float
        The printed bound on ‖WWᵀ‖.
    theta : int
    line : {"theorem", "proof"}, default="theorem"

    Examples
    --------
    >>> printed_local_bound([1.0, 0.5, 0.25], n_examples=100, r=0.5, theta=1).terms
    {'head': 0.05, 'tail of W': 0.075}
    """
    sigma = np.asarray(to_host(singular_values), dtype=np.float64)
    moment = check_nonnegative("r", r, "Pass the bound on the norm of WWᵀ.")
    root = math.sqrt(check_count("n_examples", n_examples))
    rest = sigma[check_count("theta", theta) :]
    theorem = check_choice("line", line, ("theorem", "proof")) == "theorem"
    tail = float(rest.sum()) if theorem else math.sqrt(float(np.sum(rest**2)))
    return Bound({"head": moment * math.sqrt(theta) / root, "tail of W": tail / root})


@dataclass(frozen=True)
class PrintedAssumption:
    """Whether data and predictor satisfy L · u_jᵀSu_j ≤ σ_j², which the printed proof assumes.

    Parameters
    ----------
    holds : bool
    worst_ratio : float
        The largest L · u_jᵀSu_j / σ_j² over the singular pairs of W with σ_j > 0.
    outside : float
        Share of tr S in directions where W is zero; σ_j is 0 there, so it has to be 0.
    """

    holds: bool
    worst_ratio: float
    outside: float


def printed_assumption(X: Any, left: Matrix, singular_values: Vector, n_labels: int) -> PrintedAssumption:
    """Compare the second moments of X along the left singular vectors of W with its singular values.

    Parameters
    ----------
    X : array, sparse matrix or Spectrum
    left : array of shape (d, k)
        Left singular vectors u_j of W.
    singular_values : array of shape (k,)
        σ_j > 0.
    n_labels : int
    """
    rows = X.rows if isinstance(X, Spectrum) else check_rows(X)
    left, sigma = to_host(left), to_host(singular_values)
    moments = np.sum(np.asarray(rows @ left) ** 2, axis=0) / rows.shape[0]
    total = float(np.asarray((rows * rows).sum())) / int(rows.shape[0])
    worst = float(np.max(n_labels * moments / np.square(sigma), initial=0.0))
    outside = max(0.0, 1.0 - float(moments.sum()) / total) if total > 0 else 0.0
    return PrintedAssumption(worst <= 1.0 + 1e-12 and outside <= 1e-12, worst, outside)
