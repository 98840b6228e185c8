"""The least-squares problem in spectral coordinates, where its curvature is diagonal.

With XᵀX = Q Λ Qᵀ and B = XᵀY, the change of variables W = Q W̃ leaves every singular value in place and turns

::

    f(W) = ‖Y − XW‖²_F + ridge · ‖W‖²_F
         = ‖Y‖² − 2⟨W̃, QᵀB⟩ + Σ_i (λ_i + ridge) ‖W̃_i‖²

into a sum over rows: a gradient costs O(dL) instead of O(d²L). Directions in which X does not vary (λ_i = 0)
carry no gradient and are left out. If L exceeds the number of rows left, every relevant iterate lies in the
row space of QᵀB, and the labels are rotated into it as well.

One decomposition serves any number of penalties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from lrml._arrays import Array, descending_eigh, frobenius, inner, namespace, thin_svd
from lrml.penalties import Penalty, SpectralProx, right_singular, singular_values, spectral_prox
from lrml.statistics import Moments

# If the column lengths of X differ by more than this, an eigendecomposition of XᵀX would lose digits of the
# short ones, because eigenvalues have an error of eps · λ₁.
_WIDE = 1e3
# Two threads made a path of yeast (r m² = 20,000) slower by half, and one of enron (2.8 million) faster.
_SMALL = 1_000_000


class Coordinates(NamedTuple):
    """Eigenvalues Λ of XᵀX, descending and positive, its eigenvectors Q as columns, and QᵀXᵀY."""

    eigenvalues: Array
    features: Array
    cross: Array


def spectral_coordinates(moments: Moments) -> Coordinates:
    """Decompose XᵀX so that every feature counts, whatever its scale; return at least one direction.

    Directions whose eigenvalues are rounding noise are left out, so the unpenalised limit is the
    least-squares solution of smallest norm. A constant X keeps one direction, with the eigenvalue 1 and
    nothing to learn.

    If features have very different scales, write XᵀX = D C D with a diagonal D, and take the eigenvalues Γ
    and eigenvectors P of C, which are as accurate as the data permit. Then A = Γ^(1/2) Pᵀ D is a root of XᵀX,
    and its singular value decomposition is more accurate than the eigendecomposition of AᵀA: with A = U S Qᵀ,
    Λ = S² and QᵀXᵀY = S Uᵀ A^(-T) XᵀY = S Uᵀ Γ^(-1/2) Pᵀ D⁻¹ XᵀY.
    """
    if _is_wide(moments):
        return _from_root(moments)
    gram, cross, _, _ = moments.summed()
    xp = namespace(gram, cross)
    eigenvalues, Q = _positive_part(*descending_eigh(gram))
    if eigenvalues.shape[0] == 0:
        vectors = xp.eye(gram.shape[0], 1, dtype=gram.dtype, device=gram.device)
        return Coordinates(
            xp.ones(1, dtype=gram.dtype, device=gram.device), vectors, xp.zeros_like(cross[:1, :])
        )
    return Coordinates(eigenvalues, Q, Q.T @ cross)


def _is_wide(moments: Moments) -> bool:
    squares = namespace(moments.gram).linalg.diagonal(moments.gram)
    return differ_widely(squares, squares if moments.further is None else squares + moments.further[0] ** 2)


def differ_widely(squares: Array, lengths: Array) -> bool:
    """Whether the longest column of X is beyond comparison with the shortest one that varies.

    ``squares`` are those of the centred columns, ``lengths`` those of the columns as the model sees them.
    """
    xp = namespace(squares)
    varying = squares[squares > 0]
    if varying.shape[0] == 0:
        return False
    return float(xp.max(lengths)) > _WIDE**2 * float(xp.min(varying))


def _from_root(moments: Moments) -> Coordinates:
    gram, cross, _, further = moments
    xp = namespace(gram, cross)
    squares = xp.linalg.diagonal(gram)
    scale = xp.sqrt(xp.where(squares > 0, squares, xp.ones_like(squares)))
    shares, P = _positive_part(*descending_eigh(gram / scale[:, None] / scale))
    roots = xp.sqrt(shares)[:, None]
    A = roots * P.T * scale
    codes = (P.T @ (cross / scale[:, None])) / roots
    if further is not None:
        A = xp.concat([A, further[0][None, :]])
        codes = xp.concat([codes, further[1][None, :]])
    U, s, Qt = thin_svd(A)
    kept = int(xp.count_nonzero(s > max(A.shape) * xp.finfo(s.dtype).eps * s[0]))
    s = s[:kept]
    return Coordinates(s**2, Qt[:kept, :].T, s[:, None] * (U[:, :kept].T @ codes))


def _positive_part(eigenvalues: Array, vectors: Array) -> tuple[Array, Array]:
    """Drop eigenvalues below d · eps · λ₁, which are rounding noise."""
    xp = namespace(eigenvalues)
    floor = vectors.shape[0] * xp.finfo(eigenvalues.dtype).eps * float(eigenvalues[0])
    rank = int(xp.count_nonzero(eigenvalues > max(floor, 0.0)))
    return eigenvalues[:rank], vectors[:, :rank]


class ReducedRankFactors(NamedTuple):
    """Best matrices W_k = left[:, :k] right[:, :k]ᵀ of all ranks k at once.

    Attributes
    ----------
    left : array of shape (r, k)
    right : array of shape (m, k)
        Orthonormal columns.
    gains : array of shape (k,)
        The amount by which each direction lowers f, descending: f(W_k) = ‖Y‖² − Σ_{j ≤ k} gains_j.
    """

    left: Array
    right: Array
    gains: Array


@dataclass(frozen=True, eq=False)
class SpectralProblem:
    """Smooth part of the objective in spectral coordinates.

    Attributes
    ----------
    curvature : array of shape (r,)
        λ_i + ridge, descending and positive; the Hessian is 2 · curvature on every column.
    cross : array of shape (r, m)
        Qᵀ B R, with r the rank of X and m = min(r, L).
    target : float
        ‖Y‖²_F.
    features : array of shape (d, r)
        Q, orthonormal columns.
    labels : array of shape (L, m) or None
        R, orthonormal columns; None stands for the identity.
    ridge : float
        Already part of ``curvature``.
    """

    curvature: Array
    cross: Array
    target: float
    features: Array
    labels: Array | None
    ridge: float = 0.0

    @classmethod
    def from_moments(cls, moments: Moments, ridge: float = 0.0) -> SpectralProblem:
        """Decompose the moments, once for all penalties and ridges."""
        target = moments.target
        if moments.further is not None:
            target = target + float(moments.further[1] @ moments.further[1])
        return cls.from_coordinates(spectral_coordinates(moments), target).with_ridge(ridge)

    @classmethod
    def from_coordinates(cls, coordinates: Coordinates, target: float) -> SpectralProblem:
        """Rotate the labels if there are more of them than directions; ``target`` is ‖Y‖²."""
        eigenvalues, features, cross = coordinates
        labels = None
        if cross.shape[1] > cross.shape[0]:
            labels, triangle = namespace(cross).linalg.qr(cross.T, mode="reduced")
            cross = triangle.T
        return cls(eigenvalues, cross, float(target), features, labels)

    def with_ridge(self, ridge: float) -> SpectralProblem:
        """Return the same problem with another ridge, at no cost."""
        if ridge == self.ridge:
            return self
        return replace(self, curvature=self.curvature + (ridge - self.ridge), ridge=ridge)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (r, m) of the coefficients in these coordinates; m ≤ r."""
        return (int(self.cross.shape[0]), int(self.cross.shape[1]))

    @property
    def is_small(self) -> bool:
        """Whether a step of a solver, O(r m²), is mostly overhead of Python."""
        return self.shape[0] * self.shape[1] ** 2 <= _SMALL

    @property
    def lipschitz(self) -> float:
        """Lipschitz constant of the gradient, 2(λ₁ + ridge)."""
        return 2.0 * float(self.curvature[0])

    @property
    def mean_curvature(self) -> float:
        """Mean eigenvalue of the Hessian, 2 · mean(λ + ridge)."""
        xp = namespace(self.curvature)
        return 2.0 * float(xp.mean(self.curvature))

    @property
    def scale(self) -> float:
        """‖∇f(0)‖_F, the unit of the stationarity residual (1 if the gradient vanishes there)."""
        return 2.0 * frobenius(self.cross) or 1.0

    @property
    def rounding(self) -> float:
        """Relative accuracy of the objective."""
        xp = namespace(self.cross)
        return 16.0 * float(xp.finfo(self.cross.dtype).eps)

    @property
    def least(self) -> float:
        """Objectives below this are zero up to rounding."""
        return self.rounding * self.target or 1.0

    def decrement(self, slope: Array, W: Array | None = None) -> float:
        """½⟨g, H⁻¹g⟩ = Σ_i ‖g_i‖² / 4(λ_i + ridge): for g ∈ ∂F(W), F convex, a bound of F(W) − F*.

        F is at least as curved as f everywhere: F* ≥ F(W) + min_D ⟨g, D⟩ + ½⟨D, HD⟩.
        """
        xp = namespace(slope)
        return 0.25 * float(xp.sum(xp.vecdot(slope, slope) / self.curvature))

    def value(self, W: Array) -> float:
        """f(W) = ‖Y‖² + Σ_i (λ_i + ridge) ‖W_i‖² − 2⟨W, B⟩."""
        xp = namespace(W)
        bent = float(xp.sum(self.curvature * xp.vecdot(W, W)))
        return self.target + bent - 2.0 * inner(W, self.cross)

    def gradient(self, W: Array) -> Array:
        """∇f(W) = 2((Λ + ridge) W − B)."""
        return 2.0 * (self.curvature[:, None] * W - self.cross)

    def ridge_solution(self, extra: float = 0.0) -> Array:
        """Minimiser of f(W) + extra · ‖W‖²_F."""
        return self.cross / (self.curvature[:, None] + extra)

    def ridge_leaving(self, share: float) -> float:
        """Return the further ridge ρ that leaves a share in (0, 1) of the *effective directions*.

        The share is (1/r) Σ λ_i / (λ_i + ρ), where the λ_i include the present ridge. A share of 0.9 is a
        weak ridge and one of 0.1 a strong one, whatever the scales of the features; a multiple of the mean
        has no such meaning. Found by bisection of log ρ, to a thousandth.
        """
        xp = namespace(self.curvature)
        low, high = math.log(float(self.curvature[-1])) - 20.0, math.log(float(self.curvature[0])) + 20.0
        while high - low > 1e-3:
            middle = 0.5 * (low + high)
            left = float(xp.mean(self.curvature / (self.curvature + math.exp(middle))))
            low, high = (middle, high) if left > share else (low, middle)
        return math.exp(0.5 * (low + high))

    @property
    def _explained(self) -> tuple[Array, Array]:
        """Singular values and right singular vectors of Λ^{-1/2} B; kept, since chains share them."""
        if "_kept" not in vars(self):  # not a cached_property: Python 3.11 would let one thread in at a time
            scaled = self.cross / namespace(self.cross).sqrt(self.curvature)[:, None]
            vars(self)["_kept"] = right_singular(scaled)
        kept: tuple[Array, Array] = vars(self)["_kept"]
        return kept

    def strongest_slopes(self, ranks: Sequence[int]) -> list[float]:
        """‖∇f(W)‖₂ at the best matrix W of each rank; 0 if that is the best of all.

        ∇f(W) = −2 B V₂ V₂ᵀ, V₂ the right singular vectors of Λ^{-1/2} B beyond the rank.
        """
        below = [rank for rank in ranks if rank < self.shape[1]]
        rotated = self.cross @ self._explained[1] if any(below) else self.cross
        slopes = {rank: 2.0 * float(singular_values(rotated[:, rank:])[0]) for rank in set(below)}
        return [slopes.get(rank, 0.0) for rank in ranks]

    def reduced_rank_factors(self, rank: int | None = None) -> ReducedRankFactors:
        """Reduced-rank regression: the minimisers of f over the matrices of each rank up to the given one.

        With M = Λ^{-1/2} B the objective is ‖Λ^{1/2} W − M‖² plus a constant, so Eckart and Young give
        W = Λ^{-1/2} M V Vᵀ = Λ^{-1} B V Vᵀ, V the top right singular vectors of M, and f(W) = ‖Y‖² minus the
        sum of their squared singular values. One decomposition serves all ranks.
        """
        sigma, V = self._explained
        V = V[:, : V.shape[1] if rank is None else min(rank, V.shape[1])]
        return ReducedRankFactors(self.ridge_solution() @ V, V, sigma[: V.shape[1]] ** 2)

    def reduced_rank_solution(self, rank: int) -> tuple[Array, float]:
        """Minimiser of f over the matrices of at most the given rank, and f there."""
        xp = namespace(self.cross)
        if rank <= 0:
            return xp.zeros_like(self.cross), self.target
        left, right, gains = self.reduced_rank_factors(rank)
        return left @ right.T, self.target - float(xp.sum(gains))

    def best_of_rank(self, rank: int) -> Array:
        """Minimiser of f over the matrices of at most the given rank, which may be no limit."""
        return self.ridge_solution() if rank >= self.shape[1] else self.reduced_rank_solution(rank)[0]

    def gradient_step(self, rho: float) -> tuple[Array, Array]:
        """Return A and C with W − ∇f(W)/ρ = A ∘ W + C, A of the shape of W or one column of it."""
        return 1.0 - (2.0 / rho) * self.curvature[:, None], (2.0 / rho) * self.cross

    def beyond_diagonal(self, W: Array) -> None:
        """Nothing: the Hessian is diagonal."""

    def solve_left(self, V: Array, weights: Array) -> tuple[Array, float]:
        """Minimise f(R Vᵀ) + Σ_j w_j ‖R_j‖² over R (r × k), for orthonormal columns V; and the minimum.

        R_ij = (B V)_ij / (λ_i + ridge + w_j).
        """
        projected = self.cross @ V
        # In place: the cost of large temporary arrays is mostly their allocation.
        R = self.curvature[:, None] + weights
        R **= -1.0
        R *= projected
        return R, self.target - inner(R, projected)

    def solve_right(self, U: Array, weights: Array) -> Array:
        """Minimise f(U K) + Σ_j w_j ‖K_j‖² over K (k × m), for orthonormal columns U."""
        xp = namespace(U)
        curvature = U.T @ (self.curvature[:, None] * U)
        diagonal = xp.eye(int(weights.shape[0]), dtype=U.dtype, device=U.device) * weights
        return xp.linalg.solve(curvature + diagonal, U.T @ self.cross)

    def penalised(self, W: Array) -> Array:
        """Return the penalised part of the variable: all of it."""
        return W

    def prox(self, W: Array, penalty: Penalty, step: float) -> SpectralProx:
        """Proximal map of the penalty."""
        return spectral_prox(W, penalty, step)

    def restore(self, U: Array, V: Array) -> tuple[Array, Array]:
        """Map left (r × k) and right (m × k) singular vectors back to feature and label space."""
        return self.features @ U, V if self.labels is None else self.labels @ V

    def compress(self, W: Array) -> Array:
        """Map coefficients (d × L) of the original space into these coordinates."""
        inside = self.features.T @ W
        return inside if self.labels is None else inside @ self.labels
