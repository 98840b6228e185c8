"""One limited-memory BFGS model of the Hessian per label, for losses that are sums over labels.

The textbook recursion, from a diagonal B₀ and pairs of steps s_k and changes of the gradient y_k,

::

    B_(k+1) = B_k − B_k s_k s_kᵀ B_k / (s_kᵀ B_k s_k) + y_k y_kᵀ / (s_kᵀ y_k),

has a compact form (Byrd, Nocedal, Schnabel 1994): with the pairs as columns of S and Y, the oldest first,

::

    B = B₀ − U M⁻¹ Uᵀ,    U = (B₀S  Y),    M = ( SᵀB₀S   L  ),
                                               (   Lᵀ   −Δ  )

where L is the part of SᵀY strictly below its diagonal Δ. Every label has its own S, Y and M; all labels are
handled together, as stacks of small matrices. Arrays here have one row per label.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_Float64 = npt.NDArray[np.float64]
# A pair whose curvature is below this share of that of the diagonal is rounding noise, or the loss is flat.
_LEAST_CURVATURE = 1e-8


class Secants:
    """The last pairs of steps and changes of the gradient of every label.

    Parameters
    ----------
    n_labels, size : int
        A step of one label has ``size`` numbers.
    memory : int
        How many pairs are kept; the newest overwrites the oldest.
    """

    def __init__(self, n_labels: int, size: int, memory: int = 6) -> None:
        self.S, self.Y = (np.zeros((n_labels, memory, size)) for _ in range(2))
        self.memory, self.count = memory, 0

    def add(self, steps: _Float64, changes: _Float64, diagonal: _Float64) -> None:
        """Add one pair for every label that has moved and shown curvature; the others keep a gap."""
        place = self.count % self.memory
        shown = np.einsum("lp,lp->l", steps, changes)
        expected = np.einsum("lp,lp,lp->l", steps, diagonal, steps)
        valid = (expected > 0.0) & (shown > _LEAST_CURVATURE * expected)
        # The model does not depend on the length of a pair: unit curvature keeps all numbers near one.
        unit = np.where(valid, 1.0 / np.sqrt(np.where(valid, shown, 1.0)), 0.0)[:, None]
        np.multiply(steps, unit, out=self.S[:, place])
        np.multiply(changes, unit, out=self.Y[:, place])
        self.count += 1

    def matrix(self, diagonal: _Float64, ridge: _Float64) -> SecantMatrix:
        """Return the model that begins with a positive B₀ (one row per label), plus diag(``ridge``)."""
        known = min(self.count, self.memory)
        S, Y = self.S[:, :known], self.Y[:, :known]
        order = (np.arange(known) - self.count) % known if known == self.memory else np.arange(known)
        products = S @ Y.transpose(0, 2, 1)
        below = np.where(order[:, None] > order, products, 0.0)
        curved = np.einsum("lkk->lk", products)
        M = np.empty((len(S), 2 * known, 2 * known))
        M[:, :known, :known] = (S * diagonal[:, None]) @ S.transpose(0, 2, 1)
        M[:, :known, known:] = below
        M[:, known:, :known] = below.transpose(0, 2, 1)
        M[:, known:, known:] = 0.0
        place = np.arange(known)
        # Where there is a gap instead of a pair, M has a row and a column of zeros.
        M[:, place, place] += curved == 0.0
        M[:, known + place, known + place] = np.where(curved == 0.0, -1.0, -curved)
        return SecantMatrix(diagonal, ridge, S, Y, M)


@dataclass(frozen=True, eq=False)
class SecantMatrix:
    """B = B₀ + diag(ridge) − U M⁻¹ Uᵀ for every label; valid until another pair is added."""

    diagonal: _Float64
    ridge: _Float64
    S: _Float64
    Y: _Float64
    M: _Float64

    def __post_init__(self) -> None:
        object.__setattr__(self, "_inverse", np.linalg.inv(self.M))

    def low_rank(self, E: _Float64) -> _Float64:
        """U M⁻¹ Uᵀ e for every label."""
        return self._expand((vars(self)["_inverse"] @ self._project(E)[:, :, None])[:, :, 0])

    def product(self, E: _Float64) -> _Float64:
        """B e for every label."""
        product: _Float64 = (self.diagonal + self.ridge) * E - self.low_rank(E)
        return product

    def solve(self, G: _Float64) -> _Float64:
        """B⁻¹ g for every label, by Woodbury's formula."""
        T = self.diagonal + self.ridge
        known, shrunk = self.S.shape[1], self.diagonal / T
        # Uᵀ T⁻¹ U
        S, Y = self.S.transpose(0, 2, 1), self.Y.transpose(0, 2, 1)
        inner = np.empty_like(self.M)
        inner[:, :known, :known] = (self.S * (shrunk * self.diagonal)[:, None]) @ S
        inner[:, :known, known:] = (self.S * shrunk[:, None]) @ Y
        inner[:, known:, :known] = inner[:, :known, known:].transpose(0, 2, 1)
        inner[:, known:, known:] = (self.Y / T[:, None]) @ Y
        scaled = G / T
        found = np.asarray(
            np.linalg.solve(self.M - inner, self._project(scaled)[:, :, None])[:, :, 0], dtype=np.float64
        )
        solution: _Float64 = scaled + self._expand(found) / T
        return solution

    def _project(self, E: _Float64) -> _Float64:
        """Uᵀ e."""
        parts = (self.S @ (self.diagonal * E)[:, :, None], self.Y @ E[:, :, None])
        return np.concatenate(parts, axis=1)[:, :, 0]

    def _expand(self, z: _Float64) -> _Float64:
        """U z."""
        known = self.S.shape[1]
        one, other = z[:, None, :known] @ self.S, z[:, None, known:] @ self.Y
        return self.diagonal * one[:, 0] + other[:, 0]
