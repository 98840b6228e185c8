"""Global Rademacher complexity of linear multi-label classes: by Monte Carlo, and bounds for every X.

The class is {x ↦ Wᵀx : ‖W‖ ≤ λ} with W of size d × L. Given signs Σ, the supremum of (1/n)⟨XᵀΣ, W⟩ over it
is λ times the dual norm of XᵀΣ/n: the operator norm for the trace-norm ball, the trace norm for the
operator-norm ball, and the Frobenius norm for its own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from lrml._arrays import to_host
from lrml.theory._data import (
    Ball,
    Bound,
    Matrix,
    MonteCarlo,
    Signs,
    Vector,
    check_class,
    check_count,
    check_positive,
    check_rows,
    sign_blocks,
)


def global_complexity(
    X: Any,
    n_labels: int,
    *,
    ball: Ball = "trace",
    radius: float = 1.0,
    signs: Signs = "entry",
    n_draws: int = 100,
    random_state: Any = None,
) -> MonteCarlo:
    """Monte-Carlo estimate of the Rademacher complexity of a norm ball of linear predictors, given X.

    ::

        R(X) = E_Σ sup_{‖W‖ ≤ λ} (1/n) ⟨XᵀΣ, W⟩ = λ E_Σ ‖XᵀΣ‖_dual / n

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        A sparse X stays sparse.
    n_labels : int
        L.
    ball : {"trace", "frobenius", "operator"}, default="trace"
        The norm of the ball.
    radius : float, default=1.0
        λ.
    signs : {"entry", "example"}, default="entry"
        One sign per example and label, as in the contraction inequality for vector-valued functions (Maurer
        2016), or one per example as in the paper: then XᵀΣ = (Xᵀσ)1ᵀ has rank one and the three balls have
        the same complexity.
    n_draws : int, default=100
        At least 2.
    random_state : int, Generator or None, default=None
        Seed of the signs; pass an int for the same result at every call.

    Returns
    -------
    MonteCarlo
        Mean, standard error and number of draws, given this X.

    Examples
    --------
    A single example: XᵀΣ = xΣ has rank one and norm ‖x‖√L whatever the signs.

    >>> global_complexity([[3.0, 4.0]], 4, n_draws=5, random_state=0)
    MonteCarlo(mean=10.0, standard_error=0.0, n_draws=5)
    """
    check_class(ball, signs)
    scale, labels = check_positive("radius", radius), check_count("n_labels", n_labels)
    draws, rows = check_count("n_draws", n_draws), check_rows(X)
    n, d = rows.shape
    columns = 1 if signs == "example" else labels
    # All columns of (Xᵀσ)1ᵀ are the same: one is drawn, and √L makes up for the rest.
    repeated = math.sqrt(labels / columns)
    blocks = sign_blocks(n, columns, d, draws, np.random.default_rng(random_state))
    norms = [_dual_norms(np.asarray(rows.T @ block), columns, ball) for block in blocks]
    return MonteCarlo.of(scale * repeated / n * np.concatenate(norms))


def _dual_norms(products: Matrix, columns: int, ball: Ball) -> Vector:
    """Return the dual norm of each of the matrices of ``columns`` columns that stand side by side."""
    stack = np.moveaxis(products.reshape(len(products), -1, columns), 1, 0)
    if ball == "frobenius" or columns == 1:
        return np.asarray(np.linalg.norm(stack, axis=(1, 2)))
    if ball == "operator":  # through a Gram matrix the small singular values would lose half their digits
        return np.asarray(np.linalg.svd(stack, compute_uv=False).sum(axis=1))
    if stack.shape[1] < stack.shape[2]:
        stack = np.swapaxes(stack, 1, 2)
    squares = np.linalg.eigvalsh(np.swapaxes(stack, 1, 2) @ stack)[:, -1]
    return np.asarray(np.sqrt(squares.clip(min=0.0)))


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

    With ``signs="example"`` XᵀΣ has rank one, and the first line serves all three balls.

    Parameters
    ----------
    eigenvalues : array of shape (k,)
        s_j, in any order; zeros may be left out.
    n_examples, n_labels : int
        n and L.
    ball, radius, signs
        As in `global_complexity`.

    Returns
    -------
    Bound
        Its terms are the contributions of the sum of all s_j and of the largest one, if there are both.

    Notes
    -----
    Assumptions: independent signs, nothing else. Proofs: E‖M‖_F ≤ √(E‖M‖²_F) and E MMᵀ = (L/n) S for
    M = XᵀΣ/n. The trace of a concave function of a matrix is concave, so E‖M‖_* is at most tr √(E MMᵀ) and
    at most tr √(E MᵀM). For the operator norm, signs are at most √(π/2) times as large as Gaussians, for
    which Chevet's inequality is E‖XᵀG‖ ≤ ‖X‖_F + √L ‖X‖.

    Examples
    --------
    >>> global_bound([1.0], n_examples=100, n_labels=4, ball="frobenius").value
    0.2
    """
    check_class(ball, signs)
    s = np.asarray(to_host(eigenvalues), dtype=np.float64)
    scale = check_positive("radius", radius) / math.sqrt(n_examples)
    total, largest = float(s.sum()), float(s.max(initial=0.0))
    frobenius = Bound({"all eigenvalues": scale * math.sqrt(n_labels * total)})
    if ball == "frobenius" or signs == "example":
        return frobenius
    if ball == "operator":
        features = math.sqrt(n_labels) * float(np.sqrt(s).sum())
        return Bound({"all eigenvalues": scale * min(features, n_labels * math.sqrt(total))})
    chevet = scale * math.sqrt(math.pi / 2)
    terms = {
        "all eigenvalues": chevet * math.sqrt(total),
        "largest eigenvalue": chevet * math.sqrt(n_labels * largest),
    }
    return min(frobenius, Bound(terms), key=lambda bound: bound.value)
