"""Least squares with all labels known: sweeps in closed form on the second moments.

In the coordinates of `lrml.problem.SpectralProblem`, XᵀX = Λ is diagonal, and with C = XᵀY

::

    F(Z, H) = ‖Y‖² − 2⟨Z, CH⟩ + ⟨ΛZ, Z HᵀH⟩ + ½ alpha (‖Z‖² + ‖H‖²).

For balanced factors HᵀH = diag(s), so the best Z for a given H is an elementwise quotient,
z_ij = (CH)_ij / (λ_i s_j + alpha/2), and the best H for a given Z is CᵀZ (ZᵀΛZ + alpha/2)⁻¹. A sweep costs
two products with C, O(dLk), whatever the number of examples.
"""

from __future__ import annotations

import math
from typing import Any

from scipy.linalg import cho_factor, cho_solve

from lrml import subspace
from lrml._arrays import Array, Place, inner, is_host, namespace
from lrml.problem import SpectralProblem
from lrml.solvers._result import Factors
from lrml.solvers.leml._design import EIGEN, features_cost, gram_cost
from lrml.solvers.leml._factors import (
    EPS,
    LemlResult,
    Limits,
    alternate,
    balance,
    closed_form,
    relative_gradient,
)
from lrml.solvers.reduced_rank import strongest_slope

# Numbers of features: below the first a Gram matrix and its decomposition are cheap; the second takes 200 MB.
_FEW_FEATURES, _MOST_FEATURES = 500, 5000
# A fit by rows takes about this many products with a Hessian.
_PRODUCTS = 100


def prefers_moments(X: Any, n_labels: int, rank: int, alpha: float = 0.0) -> bool:
    """Whether a fit of least squares with all labels known should go through spectral coordinates.

    Without alpha it is a closed form there, and a subspace will do where n and d are both large.
    """
    n, d = X.shape
    by_rows = _PRODUCTS * (features_cost(X, rank) + 4.0 * n * rank**2)
    if alpha == 0 and not is_host(X):  # no subspace there
        return bool(float(n) * d * min(n, d) + EIGEN * float(min(n, d)) ** 3 <= by_rows)
    if alpha == 0:
        entries = features_cost(X, 1) / 4.0
        return bool(
            min(n, d) <= _FEW_FEATURES or subspace.cost(min(n, d), entries, n_labels, rank) <= by_rows
        )
    if d <= _FEW_FEATURES or d > _MOST_FEATURES:
        return bool(d <= _FEW_FEATURES)
    return bool(gram_cost(X) + float(d) ** 2 * n_labels <= by_rows)


def solve_moments(
    problem: SpectralProblem, alpha: float, rank: int, limits: Limits, start: Array | None = None
) -> LemlResult:
    """Minimise F for the squared loss with all labels known.

    ``start`` is a Z in the coordinates of the problem (r × k); by default a reduced-rank ridge regression.
    """
    xp, place = namespace(problem.cross), Place.of(problem.cross)
    rank = min(rank, *problem.shape)
    constants = place.zeros(problem.shape[1])
    slope = strongest_slope(problem, xp.zeros_like(problem.cross))
    if alpha >= slope:  # the penalty exceeds any gain
        zero = Factors(*(place.asarray(factor) for factor in Factors.zero(problem.shape)))
        return closed_form(zero, constants, problem.target, limits)
    if alpha == 0:
        left, V, gains = problem.reduced_rank_factors(rank)
        U, s, mix = xp.linalg.svd(left, full_matrices=False)
        kept = s > max(left.shape) * EPS * s[0]
        factors = Factors(U.T[kept].T, s[kept], (V @ mix.T).T[kept].T)
        return closed_form(factors, constants, problem.target - float(xp.sum(gains)), limits)
    return alternate(_MomentAlternation(problem, alpha, rank, slope, start), limits)


class _MomentAlternation:
    """Alternating least squares on the moments; ``unit`` is ‖∇f(0)‖₂, the unit of the residual."""

    def __init__(
        self, problem: SpectralProblem, alpha: float, rank: int, unit: float, start: Array | None
    ) -> None:
        self.problem, self.alpha, self.unit = problem, alpha, unit
        self.c = Place.of(problem.cross).zeros(problem.shape[1])
        self._settle(_reduced_rank_start(problem, alpha, rank) if start is None else start)

    def sweep(self) -> None:
        """Best Z for H, best H for that Z, balanced."""
        spread = self.problem.curvature[:, None] * self.sigma + 0.5 * self.alpha
        self._settle(self.cross_H / spread)

    def _settle(self, Z: Array) -> None:
        """Find the best H for Z, balance, and evaluate."""
        problem, alpha = self.problem, self.alpha
        cross_Z = problem.cross.T @ Z
        H = _solve_shifted(Z.T @ (problem.curvature[:, None] * Z), 0.5 * alpha, cross_Z.T).T
        self.Z, self.H, self.sigma, left, _ = balance(Z, H)
        self.cross_H = problem.cross @ self.H
        scaled_Z = problem.curvature[:, None] * self.Z
        curved = scaled_Z * self.sigma  # Λ Z HᵀH
        slope_Z = 2.0 * (curved - self.cross_H) + alpha * self.Z
        slope_H = 2.0 * (self.H @ (self.Z.T @ scaled_Z) - cross_Z @ left) + alpha * self.H
        loss = problem.target + inner(self.Z, curved - 2.0 * self.cross_H)
        self.objective = max(loss, 0.0) + alpha * float(namespace(self.sigma).sum(self.sigma))
        self.residual = relative_gradient((slope_Z, slope_H), (self.Z, self.H), self.unit)


def _solve_shifted(gram: Array, shift: float, right: Array) -> Array:
    """Solve (G + shift) E = R for a symmetric G, which may be overwritten."""
    if is_host(gram):
        gram.flat[:: len(gram) + 1] += shift
        return cho_solve(cho_factor(gram), right)
    xp = namespace(gram)
    return xp.linalg.solve(gram + shift * xp.eye(gram.shape[0], dtype=gram.dtype, device=gram.device), right)


def _reduced_rank_start(problem: SpectralProblem, alpha: float, rank: int) -> Array:
    """Left factor of the reduced-rank ridge regression that is closest to the problem; deterministic.

    ‖W‖_* ≤ Σ (σ²/τ + τ)/2 is tight where the singular values σ are τ: the trace norm is then a ridge of
    alpha/(2τ). τ is the mean size of the singular values of C/λ₁.
    """
    xp = namespace(problem.cross)
    typical = math.sqrt(inner(problem.cross, problem.cross)) / (float(problem.curvature[0]) * math.sqrt(rank))
    ridge = 0.5 * alpha / typical if typical > 0 else 0.0
    left = problem.with_ridge(problem.ridge + ridge).reduced_rank_factors(rank).left
    # As V is orthonormal, columns of the length √σ are about balanced.
    lengths = xp.linalg.vector_norm(left, axis=0)
    return left / xp.sqrt(xp.where(lengths > 0, lengths, 1.0))
