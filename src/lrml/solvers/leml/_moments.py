"""Least squares with all labels known: sweeps in closed form on the second moments.

In the coordinates of `lrml.problem.SpectralProblem`, XᵀX = Λ is diagonal, and with C = XᵀY

::

    F(Z, H) = ‖Y‖² − 2⟨Z, CH⟩ + ⟨ΛZ, Z HᵀH⟩ + ½ alpha (‖Z‖² + ‖H‖²).

For balanced factors HᵀH = diag(s), so the best Z for a given H is an elementwise quotient,
z_ij = (CH)_ij / (λ_i s_j + alpha/2), and the best H for a given Z is CᵀZ (ZᵀΛZ + alpha/2)⁻¹. A sweep costs
two products with C, O(dLk), whatever the number of examples.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from lrml._arrays import descending_eigh
from lrml.problem import SpectralProblem
from lrml.solvers.leml._balance import Float64, balance
from lrml.solvers.leml._loop import relative_gradient


class MomentAlternation:
    """Alternating least squares on the moments.

    Parameters
    ----------
    problem : SpectralProblem
        Without ridge, of NumPy arrays.
    alpha : float
        Positive.
    rank : int
        k, at most min(r, m).
    start : array of shape (r, k), optional
        Z in the coordinates of the problem, whose best H is found first; `reduced_rank_start` if not given.
    unit : float
        ‖∇f(0)‖₂, the unit of the residual: see `steepest_slope`.
    """

    def __init__(
        self,
        problem: SpectralProblem,
        alpha: float,
        rank: int,
        *,
        unit: float,
        start: Float64 | None = None,
    ) -> None:
        self.problem, self.alpha, self.unit = problem, alpha, unit
        Z = reduced_rank_start(problem, alpha, rank) if start is None else start
        self._settle(Z)

    def sweep(self) -> None:
        """Best Z for H, best H for that Z, balanced."""
        spread = self.problem.curvature[:, None] * self.sigma + 0.5 * self.alpha
        self._settle(self.cross_H / spread)

    def _settle(self, Z: Float64) -> None:
        """Find the best H for Z, balance, and evaluate."""
        problem, alpha = self.problem, self.alpha
        cross_Z = problem.cross.T @ Z
        gram = Z.T @ (problem.curvature[:, None] * Z)
        gram.flat[:: len(gram) + 1] += 0.5 * alpha
        H = cho_solve(cho_factor(gram), cross_Z.T).T
        self.Z, self.H, self.sigma, left, _ = balance(Z, H)
        self.cross_H: Float64 = problem.cross @ self.H
        scaled_Z = problem.curvature[:, None] * self.Z
        curved = scaled_Z * self.sigma  # Λ Z HᵀH
        slope_Z = 2.0 * (curved - self.cross_H) + alpha * self.Z
        slope_H = 2.0 * (self.H @ (self.Z.T @ scaled_Z) - cross_Z @ left) + alpha * self.H
        loss = problem.target + float(np.vdot(self.Z, curved - 2.0 * self.cross_H))
        self.objective = max(loss, 0.0) + alpha * float(self.sigma.sum())
        self.residual = relative_gradient((slope_Z, slope_H), (self.Z, self.H), self.unit)


def steepest_slope(problem: SpectralProblem) -> float:
    """‖∇f(0)‖₂ = 2‖C‖₂: from this alpha on the solution is zero."""
    cross = problem.cross
    gram = cross.T @ cross if cross.shape[0] >= cross.shape[1] else cross @ cross.T
    eigenvalues, _ = descending_eigh(gram)
    return 2.0 * float(np.sqrt(max(eigenvalues[0], 0.0)))


def best_left_factor(problem: SpectralProblem, ridge: float, rank: int) -> tuple[Float64, Float64]:
    """Factors of the minimiser of f(W) + ridge · ‖W‖² over the matrices of a rank: (Λ + ridge)⁻¹CV, and V.

    V holds the leading right singular vectors of (Λ + ridge)^{-1/2} C: reduced-rank ridge regression.
    """
    curvature = problem.curvature[:, None] + ridge
    scaled = problem.cross / np.sqrt(curvature)
    _, V = descending_eigh(scaled.T @ scaled)
    return (problem.cross / curvature) @ V[:, :rank], V[:, :rank]


def reduced_rank_start(problem: SpectralProblem, alpha: float, rank: int) -> Float64:
    """Left factor of the reduced-rank ridge regression that resembles the problem most; deterministic.

    ‖W‖_* ≤ Σ (σ²/τ + τ)/2 is tight where the singular values σ are τ: the trace norm is then a ridge of
    alpha/(2τ). τ is the mean size of the singular values of C/λ₁.
    """
    typical = float(np.linalg.norm(problem.cross)) / (float(problem.curvature[0]) * np.sqrt(rank))
    ridge = 0.5 * alpha / typical if typical > 0 else 0.0
    left, _ = best_left_factor(problem, ridge, rank)
    # As V is orthonormal, columns of the length √σ are about balanced.
    lengths = np.linalg.norm(left, axis=0)
    return left / np.sqrt(np.where(lengths > 0, lengths, 1.0))
