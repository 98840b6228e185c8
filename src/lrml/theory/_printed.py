"""The local bound as the paper prints it (Theorem 3), the class it speaks of, and where it fails."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np

from lrml._checks import check_choice, check_nonnegative
from lrml.theory._data import SIGNS, Signs, Spectrum, check_count, check_positive, check_rows, sign_blocks
from lrml.theory._records import Bound, Matrix, MonteCarlo, Vector

_LINES = ("theorem", "proof")


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

    It does *not* hold for ‖W‖ ≤ 1 and ‖WWᵀ‖ ≤ r alone; see `printed_bound_fails_below`. It holds under

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
    sigma = np.asarray(singular_values, dtype=np.float64)
    moment = check_nonnegative("r", r, "Pass the bound on the norm of WWᵀ.")
    root = math.sqrt(check_count("n_examples", n_examples, 1, "Pass the number of rows of X."))
    rest = sigma[check_count("theta", theta, 0, "Use 0 for the trace norm.") :]
    theorem = check_choice("line", line, _LINES) == "theorem"
    tail = float(rest.sum()) if theorem else math.sqrt(float(np.sum(rest**2)))
    return Bound({"head": moment * math.sqrt(theta) / root, "tail of W": tail / root})


def printed_class_complexity(
    X: Any,
    n_labels: int,
    r: float,
    theta: int,
    *,
    tail: float = 0.0,
    signs: Signs = "entry",
    n_draws: int = 100,
    random_state: Any = None,
) -> MonteCarlo:
    """Monte-Carlo complexity of the class that Theorem 3 speaks of: it knows nothing of the data.

    ::

        E sup (1/n) ⟨XᵀΣ, W⟩   over   ‖W‖ ≤ 1,   ‖WWᵀ‖ ≤ r,   Σ_{j>theta} σ_j(W) ≤ τ

    in operator norms, so that no W has a singular value above ρ = min(1, √r). The supremum is exact: by von
    Neumann's trace inequality the best W has the singular vectors of XᵀΣ, ρ for its top theta values, and as
    many more as τ pays for. (Where W has rank one all usual norms agree, and so do the readings.)

    Parameters
    ----------
    X, n_labels, signs, n_draws, random_state
        As in `global_complexity`.
    r, theta
        As in `printed_local_bound`.
    tail : float, default=0.0
        τ.

    Examples
    --------
    One number, one label: the class is |w| ≤ √r, its complexity √r, and the printed bound r.

    >>> printed_class_complexity([[1.0]], 1, r=0.25, theta=1, n_draws=2).mean
    0.5
    """
    rows = check_rows(X)
    largest = math.sqrt(min(1.0, check_positive("r", r, "Pass the bound on the norm of WWᵀ.")))
    limit = check_nonnegative("tail", tail, "Use 0 for predictors of rank theta.")
    labels = check_count("n_labels", n_labels, 1, "Pass the number of columns of Y.")
    draws = check_count("n_draws", n_draws, 2, "Two draws are the least that have a standard error.")
    columns = 1 if check_choice("signs", signs, SIGNS) == "example" else labels
    values = []
    rng = np.random.default_rng(random_state)
    for block in sign_blocks(rows.shape[0], columns, rows.shape[1], draws, rng):
        products = np.asarray(rows.T @ block) / rows.shape[0]
        stack = np.moveaxis(products.reshape(len(products), -1, columns), 1, 0)
        sigma = np.linalg.svd(stack, compute_uv=False)
        values.append(
            math.sqrt(labels / columns) * (sigma @ _best_values(sigma.shape[1], largest, theta, limit))
        )
    return MonteCarlo.of(np.concatenate(values))


def _best_values(count: int, largest: float, theta: int, tail: float) -> Vector:
    """Return the singular values of the best W: ρ for the head, then ρ each until the tail is used up."""
    beyond = np.arange(count) - theta
    return np.where(beyond < 0, largest, np.clip(tail - beyond * largest, 0.0, largest))


@dataclass(frozen=True)
class Scaling:
    """Both sides of the printed bound at one scale of the data or of the predictors."""

    factor: float
    complexity: MonteCarlo
    bound: float


def scale_data(
    X: Any,
    n_labels: int,
    r: float,
    theta: int,
    *,
    tail: float = 0.0,
    factors: Iterable[float] = (1.0, 10.0, 100.0),
    n_draws: int = 100,
    random_state: int = 0,
) -> tuple[Scaling, ...]:
    """Multiply X by numbers: the complexity grows with them, the printed bound does not see them.

    Examples
    --------
    >>> [(row.factor, row.complexity.mean, row.bound) for row in scale_data([[1.0]], 1, 0.25, 1, n_draws=2)]
    [(1.0, 0.5, 0.25), (10.0, 5.0, 0.25), (100.0, 50.0, 0.25)]
    """
    rows = check_rows(X)
    bound = printed_local_bound([0.0] * theta + [tail], rows.shape[0], r, theta).value
    measure = partial(printed_class_complexity, tail=tail, n_draws=n_draws, random_state=random_state)
    return tuple(Scaling(factor, measure(rows * factor, n_labels, r, theta), bound) for factor in factors)


def scale_predictors(
    X: Any,
    n_labels: int,
    r: float,
    *,
    factors: Iterable[float] = (1.0, 0.1, 0.01),
    n_draws: int = 100,
    random_state: int = 0,
) -> tuple[Scaling, ...]:
    """Multiply every W of the class by s, with no tail (theta = min(d, L)): s on the left, s² on the right.

    The class {sW} has ‖WWᵀ‖ ≤ s² r. Its complexity falls like s and the printed bound s² r √(theta/n) faster,
    so it fails for small s, whatever the norm of the data.

    Examples
    --------
    >>> rows = scale_predictors([[1.0]], 1, r=1.0, n_draws=2)
    >>> [(row.factor, round(row.complexity.mean, 9), round(row.bound, 9)) for row in rows]
    [(1.0, 1.0, 1.0), (0.1, 0.1, 0.01), (0.01, 0.01, 0.0001)]
    """
    rows = check_rows(X)
    theta = min(rows.shape[1], n_labels)
    measure = partial(printed_class_complexity, n_draws=n_draws, random_state=random_state)
    return tuple(
        Scaling(
            s,
            measure(rows, n_labels, s**2 * r, theta),
            printed_local_bound([], rows.shape[0], s**2 * r, theta).value,
        )
        for s in factors
    )


def printed_bound_fails_below(X: Any, theta: int) -> float:
    """Return the r below which Theorem 3 fails for rank theta ≥ 1 and this X, whatever ‖·‖ means in it.

    The matrices √r uvᵀ, u and v unit vectors and r ≤ 1, are in the class for every norm that is 1 on uvᵀ, and
    have no tail. So the complexity is at least √r E‖XᵀΣ/n‖ ≥ √r E‖Xᵀσ‖/n ≥ √(r tr S / 2n), the last step by
    Khintchine and Kahane's inequality with its best constant [1]_. This exceeds r √(theta/n) for ::

        r < min(1, tr S / (2 theta)),      tr S = the mean of ‖x_i‖².

    With ‖x_i‖ = 1 these matrices also satisfy E‖Wᵀx‖² ≤ r, should that be what is meant by E[WWᵀ].

    References
    ----------
    .. [1] R. Latała, K. Oleszkiewicz. On the best constant in the Khinchin-Kahane inequality. Studia
       Mathematica 109, 101-104, 1994.

    Examples
    --------
    >>> printed_bound_fails_below([[1.0, 0.0], [0.0, 1.0]], theta=2)
    0.25
    """
    free = check_count("theta", theta, 1, "With theta=0 the bound has no head.")
    rows = check_rows(X)
    total = float(np.asarray((rows * rows).sum())) / int(rows.shape[0])
    return min(1.0, total / (2 * free))


@dataclass(frozen=True)
class PrintedAssumption:
    """Whether data and predictor satisfy L · u_jᵀSu_j ≤ σ_j², which the printed proof takes for granted.

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
    moments = np.sum(np.asarray(rows @ left) ** 2, axis=0) / rows.shape[0]
    total = float(np.asarray((rows * rows).sum())) / int(rows.shape[0])
    worst = float(np.max(n_labels * moments / np.square(singular_values), initial=0.0))
    outside = max(0.0, 1.0 - float(moments.sum()) / total) if total > 0 else 0.0
    return PrintedAssumption(worst <= 1.0 + 1e-12 and outside <= 1e-12, worst, outside)
