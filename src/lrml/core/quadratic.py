"""The least-squares problem in spectral coordinates, where its curvature is diagonal.

With XᵀX = Q Λ Qᵀ and B = XᵀY, the change of variables W = Q W̃ leaves every singular value in place and turns

::

    f(W) = ‖Y − XW‖²_F + ridge · ‖W‖²_F
         = ‖Y‖² − 2⟨W̃, QᵀB⟩ + Σ_i (λ_i + ridge) ‖W̃_i‖²

into a sum over rows: a gradient costs O(dL) instead of O(d²L). Directions in which X does not vary (λ_i = 0)
carry no gradient and are left out. If L exceeds the number of rows left, every relevant iterate lies in the
row space of QᵀB, and the labels are rotated into it as well. One decomposition serves all penalties.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from lrml.core.arrays import (
    Array,
    beside,
    dot,
    few_threads,
    floats,
    frobenius,
    is_host,
    namespace,
    to_numpy,
)
from lrml.core.linalg import (
    Eigen,
    Factors,
    check_shrunk,
    right_singular,
    singular_values,
    spectral_coordinates,
    spectral_prox,
)
from lrml.core.moments import Moments
from lrml.core.penalties import OptimalShrinker, Penalty, Values

# Two threads made a path of yeast (r m² = 20,000) slower by half, and one of enron (2.8 million) faster.
_SMALL = 1_000_000


class ShrunkFactors(NamedTuple):
    """W = left diag(s/d) rightᵀ; its predictions have the singular values s, those of ridge regression d."""

    left: Array
    right: Array
    d: Values
    s: Values


class Beyond(NamedTuple):
    """What a Hessian has beyond its diagonal: ½⟨W − W₀, N(W − W₀)⟩ is added to a quadratic.

    N is symmetric, such that the whole Hessian is positive. A least-squares solve takes up to ``refinements``
    conjugate gradient steps, or ends at a share ``accuracy`` of the first error, as they measure it.
    """

    product: Callable[[Array], Array]  # N
    anchor: Array  # W₀
    refinements: int = 2
    accuracy: float = 1e-2

    def solve(
        self, residual: Array, precondition: Callable[[Array], Array], along: Callable[[Array], Array]
    ) -> tuple[Array, Array]:
        """Solve (P + along) X = B by conjugate gradients, P⁻¹ given; return X and what is left of B."""
        xp = namespace(residual)
        X, moved = xp.zeros_like(residual), xp.zeros_like(residual)
        bent = xp.zeros_like(residual)  # P times the last direction
        last, least = math.inf, 0.0
        for _ in range(self.refinements):
            gradient = precondition(residual)
            size = float(dot(gradient, residual))
            if not size > least:
                break
            least = least or self.accuracy**2 * size
            moved = gradient + (size / last) * moved
            bent = residual + (size / last) * bent
            image = bent + along(moved)
            length = size / dot(moved, image)
            X += length * moved
            residual = residual - length * image
            last = size
        return X, residual


@dataclass(eq=False)
class SpectralProblem:
    """A quadratic whose Hessian is diagonal in spectral coordinates, and perhaps something beyond.

    ::

        f(W) = target + Σ_ij (a_i b_j + ridge) W_ij² − 2⟨W, cross⟩ + ½⟨W − W₀, N(W − W₀)⟩

    The squared loss of known labels has b = 1 and no N. For another loss b has the curvatures of the labels
    (or a, if there are more labels than directions), and N corrects it by what the last steps have shown. It
    agrees with the loss at W₀.

    Without N, least squares on either side of W has a closed form (`_simultaneous`). With N, conjugate
    gradient steps follow, preconditioned by that.

    ``diagonal`` is a_i b_j + ridge, half of the diagonal of the Hessian, of the shape of W or one column of
    it; ``curvature`` is the same, or a vector if b is 1. ``lipschitz`` is the Lipschitz constant of the
    gradient of the diagonal part, ``pull`` half of −∇f(0). ``rounding`` is the relative accuracy of the
    objective; objectives below ``least`` are zero up to that.
    """

    rows: Array  # a (r), positive: the eigenvalues of XᵀX, descending, if b is 1
    cross: Array  # QᵀXᵀYR (r × m), r the rank of X and m = min(r, L)
    target: float  # ‖Y‖²
    features: Array = None  # Q (d × r), orthonormal columns
    labels: Array | None = None  # R (L × m), orthonormal columns; None stands for the identity
    ridge: float = 0.0
    columns: Array | None = (
        None  # b (m); None stands for ones; negative only where a_i b_j + ridge is positive
    )
    beyond: Beyond | None = None  # N

    def __post_init__(self) -> None:
        self.shape: tuple[int, int] = (int(self.cross.shape[0]), int(self.cross.shape[1]))
        self.is_small = self.shape[0] * self.shape[1] ** 2 <= _SMALL  # a step is mostly overhead of Python
        columns = 1.0 if self.columns is None else self.columns
        self.diagonal: Array = self.rows[:, None] * columns + self.ridge
        self.curvature: Array = self.diagonal[:, 0] if self.columns is None else self.diagonal
        self.lipschitz = 2.0 * float(namespace(self.rows).max(self.diagonal))
        self.pull: Array = self.cross
        if self.beyond is not None:
            self.pull = self.cross + 0.5 * self.beyond.product(self.beyond.anchor)
        self.rounding = 16.0 * float(namespace(self.cross).finfo(self.cross.dtype).eps)
        self.least = self.rounding * self.target or 1.0

    @classmethod
    def from_moments(cls, moments: Moments, ridge: float = 0.0) -> SpectralProblem:
        """Decompose the moments, once for all penalties and ridges."""
        return cls.from_coordinates(spectral_coordinates(moments), moments.target).with_ridge(ridge)

    @classmethod
    def from_coordinates(cls, coordinates: Eigen, target: float) -> SpectralProblem:
        """Rotate the labels if there are more of them than directions; ``target`` is ‖Y‖²."""
        eigenvalues, features, cross = coordinates
        labels = None
        if cross.shape[1] > cross.shape[0]:
            labels, triangle = namespace(cross).linalg.qr(cross.T, mode="reduced")
            cross = triangle.T
        return cls(eigenvalues, cross, float(target), features, labels)

    def penalised_predictions(self, penalty: Penalty) -> ShrunkFactors:
        """Minimise f plus a penalty on the singular values of the predictions X̃W, X̃ = [X; √ridge I].

        With Ŵ the ridge regression and X̃Ŵ = U diag(d) Vᵀ, f(W) = f(Ŵ) + ‖X̃Ŵ − X̃W‖². So the global minimum
        is W = Ŵ V diag(s/d) Vᵀ with s = prox_{Ω/2}(d), for any penalty: one proximal step in the variable
        (Λ + ridge)^{1/2} W̃, in which the curvature is 1. One decomposition serves all penalties.
        """
        d, V = self._explained
        if isinstance(penalty, OptimalShrinker) and penalty.shape is None:
            n_labels = self.shape[1] if self.labels is None else int(self.labels.shape[0])
            penalty = replace(penalty, shape=(self.shape[0], n_labels))
        s = penalty.prox(d, 0.5)
        if penalty.__module__ != Penalty.__module__:
            check_shrunk(s, d, penalty)
        kept = np.count_nonzero(s > self.rounding * d[0])
        return ShrunkFactors(self.ridge_solution() @ V[:, :kept], V[:, :kept], d[:kept], s[:kept])

    def with_ridge(self, ridge: float) -> SpectralProblem:
        """Return the same problem with another ridge, at no cost."""
        return self if ridge == self.ridge else replace(self, ridge=ridge)

    @cached_property
    def scale(self) -> float:
        """‖∇f(0)‖_F, the unit of the stationarity residual (1 if the gradient vanishes there)."""
        return 2.0 * frobenius(self.cross) or 1.0

    def value(self, W: Array) -> float:
        """f(W)."""
        return self.measures(W)[0]

    def measures(self, W: Array, slope: Array | None = None) -> list[float]:
        """f(W), and for a slope g also ½⟨g, H⁻¹g⟩ with the diagonal H, and ‖g‖: with one copy from a device.

        For g ∈ ∂F(W) and F convex, without N, the second is a bound of F(W) − F*: F is at least as curved as
        f everywhere, so F* ≥ F(W) + min_D ⟨g, D⟩ + ½⟨D, HD⟩.
        """
        xp = namespace(W)
        if self.columns is None:
            bent = self.curvature @ xp.vecdot(W, W)
        else:
            bent = self.rows @ (W * W) @ self.columns + self.ridge * dot(W, W)
        value = self.target + bent - 2.0 * dot(W, self.cross)
        if self.beyond is not None:
            moved = W - self.beyond.anchor
            value = value + 0.5 * dot(moved, self.beyond.product(moved))
        if slope is None:
            return [float(value)]
        squares = xp.vecdot(slope, slope) if self.columns is None else slope * slope
        return floats(value, 0.25 * xp.sum(squares / self.curvature), xp.linalg.vector_norm(slope))

    def gradient(self, W: Array) -> Array:
        """∇f(W) = 2((a b + ridge) ∘ W − B) + N(W − W₀)."""
        gradient = 2.0 * (self.diagonal * W - self.cross)
        if self.beyond is not None:
            gradient += self.beyond.product(W - self.beyond.anchor)
        return gradient

    def ridge_solution(self, extra: float = 0.0) -> Array:
        """Minimiser of f(W) + extra · ‖W‖²_F, without N."""
        return self.cross / (self.diagonal + extra)

    def ridge_leaving(self, share: float) -> float:
        """Return the further ridge ρ that leaves a share in (0, 1) of the *effective directions*.

        The share is (1/r) Σ λ_i / (λ_i + ρ), where the λ_i include the present ridge: 0.9 is a weak ridge and
        0.1 a strong one, whatever the scales of the features. Found by bisection of log ρ, to a thousandth.
        """
        curvature = to_numpy(self.curvature)
        low, high = math.log(curvature[-1]) - 20.0, math.log(curvature[0]) + 20.0
        while high - low > 1e-3:
            middle = 0.5 * (low + high)
            left = float((curvature / (curvature + math.exp(middle))).sum()) / len(curvature)
            low, high = (middle, high) if left > share else (low, middle)
        return math.exp(0.5 * (low + high))

    @property
    def _explained(self) -> tuple[Values, Array]:
        """Singular values and right singular vectors of Λ^{-1/2} B; kept, since chains share them."""
        if "_kept" not in vars(self):  # not a cached_property: Python 3.11 would let one thread in at a time
            scaled = self.cross / namespace(self.cross).sqrt(self.curvature)[:, None]
            vars(self)["_kept"] = right_singular(scaled)
        kept: tuple[Values, Array] = vars(self)["_kept"]
        return kept

    def strongest_slopes(self, ranks: Sequence[int]) -> list[float]:
        """‖∇f(W)‖₂ at the best matrix W of each rank; 0 if that is the best of all.

        ∇f(W) = −2 B V₂ V₂ᵀ, V₂ the right singular vectors of Λ^{-1/2} B beyond the rank.
        """
        below = [rank for rank in ranks if rank < self.shape[1]]
        rotated = self.cross @ self._explained[1] if any(below) else self.cross
        slopes = {rank: 2.0 * float(singular_values(rotated[:, rank:])[0]) for rank in set(below)}
        return [slopes.get(rank, 0.0) for rank in ranks]

    def reduced_rank_solution(self, rank: int) -> tuple[Array, float]:
        """Return the minimiser of f over the matrices of at most the given rank, and f there.

        With M = Λ^{-1/2} B the objective is ‖Λ^{1/2} W − M‖² plus a constant, so Eckart and Young give
        W = Λ^{-1} B V Vᵀ, V the top right singular vectors of M. b must be 1, or the rank no limit.
        """
        if rank <= 0:
            return namespace(self.cross).zeros_like(self.cross), self.target
        W = self.ridge_solution()
        if rank < self.shape[1]:
            V = self._explained[1][:, :rank]
            W = (W @ V) @ V.T
        return W, self.target - float(dot(W, self.cross))

    def solve_left(self, V: Array, weights: Values) -> tuple[Array, float]:
        """Minimise f(R Vᵀ) + Σ_j w_j ‖R_j‖² over R (r × k), for orthonormal columns V; and the minimum.

        If b is 1, R_ij = (B V)_ij / (a_i + ridge + w_j).
        """
        xp, projected = namespace(V), self.cross @ V
        if self.columns is None:
            R = projected / (self.curvature[:, None] + beside(weights, V))
            return R, self.target - float(dot(R, projected))
        E, mu, psi = _simultaneous(V, self.columns, beside(weights + self.ridge, V))
        scales = 1.0 / (self.rows[:, None] * mu + psi)
        R = ((projected @ E) * scales) @ E.T
        if self.beyond is None:
            return R, self.target - float(dot(R, projected))
        product, anchor = self.beyond.product, self.beyond.anchor
        residual = product(anchor - R @ V.T)
        V_, E, scales = (xp.astype(part, residual.dtype, copy=False) for part in (V, E, scales))
        step, slope = self.beyond.solve(
            0.5 * residual @ V_,
            lambda G: ((G @ E) * scales) @ E.T,
            lambda P: 0.5 * product(P @ V_.T) @ V_,
        )
        R += step
        constant = self.target + dot(anchor, self.pull - self.cross)
        return R, float(constant - dot(R, self.pull @ V + slope))

    def solve_right(self, U: Array, weights: Values) -> Array:
        """Minimise f(U K) + Σ_j w_j ‖K_j‖² over K (k × m), for orthonormal columns U."""
        xp = namespace(U)
        if self.columns is None:
            bent = U.T @ (self.curvature[:, None] * U)
            diagonal = xp.eye(len(weights), dtype=U.dtype, device=U.device) * beside(weights, U)
            return xp.linalg.solve(bent + diagonal, U.T @ self.cross)
        E, mu, psi = _simultaneous(U, self.rows, beside(weights + self.ridge, U))
        scales = 1.0 / (psi[:, None] + mu[:, None] * self.columns)
        K = E @ ((E.T @ (U.T @ self.cross)) * scales)
        if self.beyond is None:
            return K
        product = self.beyond.product
        residual = product(self.beyond.anchor - U @ K)
        U, E, scales = (xp.astype(part, residual.dtype, copy=False) for part in (U, E, scales))
        step, _ = self.beyond.solve(
            0.5 * (U.T @ residual),
            lambda G: E @ ((E.T @ G) * scales),
            lambda P: 0.5 * (U.T @ product(U @ P)),
        )
        return K + step

    def prox(self, W: Array, penalty: Penalty, step: float) -> tuple[Array, Values]:
        """Proximal map of the penalty."""
        return spectral_prox(W, penalty, step)

    def factors(self, W: Array, rank: int) -> Factors:
        """Return the factors of W in feature and label space."""
        return self.restored(Factors.of(W, rank))

    def restored(self, found: Factors) -> Factors:
        """Map singular vectors, left (r × k) and right (m × k), back to feature and label space."""
        U, s, V = found
        return Factors(self.features @ U, s, V if self.labels is None else self.labels @ V)

    def in_label_space(self, right: Array | None) -> Array | None:
        """Map a right side (m × k) back to label space; None stands for the identity, in both."""
        if self.labels is None or right is None:
            return right if self.labels is None else self.labels
        return self.labels @ right

    def compress(self, left: Array, right: Array | None = None) -> Array:
        """Return left rightᵀ for a right side in label space (L × k); None stands for the identity."""
        if self.labels is None:
            return left if right is None else left @ right.T
        return left @ (self.labels if right is None else right.T @ self.labels)


def _simultaneous(basis: Array, stretch: Array, diagonal: Array) -> tuple[Array, Array, Array]:
    """Return E, μ, ψ with (x · Vᵀ diag(stretch) V + diag(d))⁻¹ = E diag(1 / (xμ + ψ)) Eᵀ for every x.

    The triangle of √stretch · V keeps digits that its Gram matrix would lose. Where the stretch is zero or
    negative, d is positive, and far from 0.
    """
    xp = namespace(basis)
    low, high = float(xp.min(stretch)), float(xp.max(stretch))
    with few_threads(diagonal):
        if low < 0 or (low <= 1e-12 * high and bool(xp.all(diagonal > 1e-3 * high))):
            root = 1.0 / xp.sqrt(diagonal)
            inside = root[:, None] * basis.T
            mu, S = xp.linalg.eigh((inside * stretch) @ inside.T)
            return root[:, None] * S, mu, xp.ones_like(mu)
        if is_host(basis):
            triangle = np.linalg.qr(np.sqrt(stretch)[:, None] * basis, mode="r")
            inverse = solve_triangular(triangle, np.eye(len(triangle)))
        else:
            triangle = xp.linalg.qr(xp.sqrt(stretch)[:, None] * basis, mode="reduced")[1]
            inverse = xp.linalg.inv(triangle)
        psi, S = xp.linalg.eigh((inverse.T * diagonal) @ inverse)
    return inverse @ S, xp.ones_like(psi), xp.maximum(psi, xp.zeros_like(psi))
