"""Largest value of a linear function over a Frobenius ball cut with a second-moment ellipsoid.

In the principal axes of the data the set is {W : ‖W‖²_F ≤ λ², Σ_j s_j ‖w_j‖² ≤ r}, w_j the rows of W. Every
mixture of the two constraints, with weights t and 1 − t, is an ellipsoid around the set:

    Σ_j D_j(t) ‖w_j‖² ≤ 1,    D_j(t) = t/λ² + (1 − t) s_j/r,    0 ≤ t ≤ 1,

so ⟨M, W⟩ ≤ ‖D(t)^(−1/2) M‖_F for every t, and by convex duality the least of these values is attained. If W
has rank at most k, then so has D^(1/2) W, and only the k largest singular values of D(t)^(−1/2) M count. The
square of either is convex in t (an inverse is operator convex), so its least value is found by bisection on
the slope. Whatever t comes out, the value there is an upper bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lrml._arrays import descending_eigh
from lrml.theory._records import Matrix, Vector

_BISECTIONS = 50
_RANK_BISECTIONS = 30  # each takes an eigendecomposition; t is known to 1e-9 then


@dataclass(frozen=True, eq=False)
class LocalBall:
    """The set {W : ‖W‖_F ≤ radius, Σ_j s_j ‖w_j‖² ≤ r} in the principal axes of the data.

    Parameters
    ----------
    eigenvalues : array of shape (k,)
        s_j > 0.
    radius : float
        λ.
    r : float
        Bound on the second moment.
    """

    eigenvalues: Vector
    radius: float
    r: float

    def weights(self, t: float | Matrix) -> Matrix:
        """Return D_j(t)."""
        return np.asarray(t / self.radius**2 + (1.0 - t) * self.eigenvalues / self.r)

    def support(self, squares: Matrix) -> tuple[Vector, Vector]:
        """Return max ⟨M, W⟩ over the set, for many M at once, and the t that proves it.

        Parameters
        ----------
        squares : array of shape (draws, k)
            ‖m_j‖², the squared rows of every M.
        """
        slope = 1.0 / self.radius**2 - self.eigenvalues / self.r
        low, high = np.zeros((len(squares), 1)), np.ones((len(squares), 1))
        for _ in range(_BISECTIONS):
            t = (low + high) / 2
            falling = np.sum(squares * slope / self.weights(t) ** 2, axis=1, keepdims=True) > 0
            low, high = np.where(falling, t, low), np.where(falling, high, t)
        t = (low + high) / 2
        return np.sqrt(np.sum(squares / self.weights(t), axis=1)), t[:, 0]

    def maximiser(self, M: Matrix) -> Matrix:
        """Return a member of the set where ⟨M, W⟩ is largest (to rounding)."""
        _, t = self.support(np.sum(M**2, axis=1)[None, :])
        return self.into(M / self.weights(float(t[0]))[:, None])

    def into(self, W: Matrix) -> Matrix:
        """Scale W so that it touches the border of the set."""
        squares = np.sum(W**2, axis=1)
        size = max(float(squares.sum()) / self.radius**2, float(squares @ self.eigenvalues) / self.r)
        return W / math.sqrt(size) if size > 0 else W

    def rank_support(self, M: Matrix, rank: int) -> tuple[float, Matrix]:
        """Bound ⟨M, W⟩ from above over the members of rank at most ``rank``, and return one that is good.

        Fix the row space V of W: the best W with it is the maximiser for MVVᵀ. The right singular vectors at
        the optimal t are a natural V, and where the singular values number ``rank`` and ``rank`` + 1 differ
        there, a saddle point is reached and the member attains the bound.
        """
        slope = 1.0 / self.radius**2 - self.eigenvalues / self.r
        low, high, best = 0.0, 1.0, math.inf
        V = np.zeros((M.shape[1], 0))
        for _ in range(_RANK_BISECTIONS):
            t = (low + high) / 2
            weights = self.weights(t)
            value, V = _top_right(M / np.sqrt(weights)[:, None], rank)
            best = min(best, value)
            falling = float(np.sum((M @ V) ** 2, axis=1) @ (slope / weights**2)) > 0
            low, high = (t, high) if falling else (low, t)
        return best, self.maximiser(M @ V) @ V.T


def _top_right(A: Matrix, rank: int) -> tuple[float, Matrix]:
    """Return the root of the sum of the ``rank`` largest σ², and their right singular vectors."""
    if A.shape[0] >= A.shape[1]:
        squares, V = descending_eigh(A.T @ A)
        return math.sqrt(max(0.0, float(squares[:rank].sum()))), V[:, :rank]
    squares, U = descending_eigh(A @ A.T)
    kept = min(rank, int(np.count_nonzero(squares > squares[0] * len(squares) * np.finfo(np.float64).eps)))
    roots = np.sqrt(squares[:kept])
    return math.sqrt(max(0.0, float(squares[:rank].sum()))), (A.T @ U[:, :kept]) / roots
