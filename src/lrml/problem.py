"""The least-squares problem in spectral coordinates, where its curvature is diagonal.

With XᵀX = Q Λ Qᵀ and B = XᵀY, the change of variables W = Q W̃ leaves every singular value in place and turns

::

    f(W) = ‖Y − XW‖²_F + ridge · ‖W‖²_F
         = ‖Y‖² − 2⟨W̃, QᵀB⟩ + Σ_i (λ_i + ridge) ‖W̃_i‖²

into a sum over rows: a gradient costs O(dL) instead of O(d²L). Directions in which X does not vary (λ_i = 0)
carry no gradient and are left out. When L exceeds the number of rows left, every iterate of interest lives in
the row space of QᵀB, and the labels are rotated into it as well.

One decomposition serves any number of penalties.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from lrml._arrays import Array, descending_eigh, frobenius, inner, namespace
from lrml.penalties import Penalty, SpectralProx, right_singular, spectral_prox
from lrml.statistics import Moments


def spectral_basis(gram: Array) -> tuple[Array, Array]:
    """Positive eigenvalues of XᵀX, descending, and their eigenvectors; at least one pair.

    Eigenvalues below ``d · eps · λ₁`` are rounding noise and are left out, so that the unpenalised limit is
    the least-squares solution of smallest norm. An X that does not vary at all keeps one direction, with the
    eigenvalue 1.
    """
    xp = namespace(gram)
    eigenvalues, Q = descending_eigh(gram)
    floor = gram.shape[0] * xp.finfo(gram.dtype).eps * float(eigenvalues[0])
    rank = int(xp.count_nonzero(eigenvalues > max(floor, 0.0)))
    if rank == 0:
        return xp.ones_like(eigenvalues[:1]), Q[:, :1]
    return eigenvalues[:rank], Q[:, :rank]


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
        gram, cross, target = moments
        xp = namespace(gram, cross)
        curvature, Q = spectral_basis(gram)
        rotated = Q.T @ cross
        if float(xp.max(xp.abs(gram))) == 0.0:  # X does not vary at all: there is nothing to learn
            rotated = xp.zeros_like(rotated)
        labels = None
        if cross.shape[1] > rotated.shape[0]:
            labels, triangle = xp.linalg.qr(rotated.T, mode="reduced")
            rotated = triangle.T
        return cls(curvature, rotated, float(target), Q, labels).with_ridge(ridge)

    def with_ridge(self, ridge: float) -> SpectralProblem:
        """Return the same problem with another ridge, at no cost."""
        return replace(self, curvature=self.curvature + (ridge - self.ridge), ridge=ridge)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (r, m) of the coefficients in these coordinates; m ≤ r."""
        return (int(self.cross.shape[0]), int(self.cross.shape[1]))

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

    def reduced_rank_solution(self, rank: int) -> tuple[Array, float]:
        """Minimiser of f over the matrices of at most the given rank, and f there (reduced-rank regression).

        With M = Λ^{-1/2} B the objective is ‖Λ^{1/2} W − M‖² plus a constant, so Eckart and Young give
        W = Λ^{-1/2} M V Vᵀ = Λ^{-1} B V Vᵀ, V the top right singular vectors of M, and f(W) = ‖Y‖² minus the
        sum of their squared singular values.
        """
        xp = namespace(self.cross)
        if rank <= 0:
            return xp.zeros_like(self.cross), self.target
        sigma, V = right_singular(self.cross / xp.sqrt(self.curvature)[:, None])
        V = V[:, :rank]
        return self.ridge_solution() @ (V @ V.T), self.target - float(xp.sum(sigma[:rank] ** 2))

    def penalised(self, W: Array) -> Array:
        """Return the part of the variable that the penalty sees: all of it."""
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
