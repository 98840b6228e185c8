"""One limited-memory BFGS model of the Hessian per label, for losses that are sums over labels.

From a diagonal B₀ and pairs of steps s_k and changes of the gradient y_k with s_kᵀ y_k = 1, the oldest first,
every pair changes two rank-one parts:

::

    B_(k+1) = B_k + y_k y_kᵀ − a_k a_kᵀ,    a_k = B_k s_k / √(s_kᵀ B_k s_k).

As a_k a_kᵀ ≤ B_k, no part is much larger than B itself, so single precision is enough for them; the compact
form of Byrd, Nocedal and Schnabel (1994) would need the inverse of a matrix that is nearly singular if steps
are nearly parallel. Every label has its own pairs; all labels are handled together. Arrays here have one row
per label.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.losses import Floats

_Float64 = npt.NDArray[np.float64]
# A pair whose curvature is below this share of that of the diagonal is rounding noise, or the loss is flat.
_LEAST_CURVATURE = 1e-8
# Numbers of the vectors of labels that are handled together.
_CHUNK = 1 << 17


class Secants:
    """The last pairs of steps and changes of the gradient of every label.

    Parameters
    ----------
    n_labels, size : int
        A step of one label has ``size`` numbers.
    memory : int
        How many pairs are kept.
    dtype : type
        Precision of the pairs: most of the time goes into reading them.
    """

    def __init__(
        self, n_labels: int, size: int, memory: int = 6, dtype: type[np.floating[Any]] = np.float64
    ) -> None:
        # The newest is the last.
        self.S, self.Y = (np.zeros((n_labels, memory, size), dtype=dtype) for _ in range(2))
        self.memory, self.count = memory, 0

    def add(self, steps: _Float64, changes: _Float64, diagonal: _Float64) -> None:
        """Add one pair for every label that has moved and shown curvature; the others keep a gap."""
        shown = np.einsum("lp,lp->l", steps, changes)
        expected = np.einsum("lp,lp,lp->l", steps, diagonal, steps)
        valid = (expected > 0.0) & (shown > _LEAST_CURVATURE * expected)
        # The model does not depend on the length of a pair.
        unit = np.where(valid, 1.0 / np.sqrt(np.where(valid, shown, 1.0)), 0.0)[:, None]
        for kept, new in ((self.S, steps), (self.Y, changes)):
            for place in range(self.memory - 1):
                kept[:, place] = kept[:, place + 1]
            np.multiply(new, unit, out=kept[:, -1], casting="same_kind")
        self.count += 1

    def matrix(self, diagonal: _Float64, ridge: _Float64, damping: float = 0.0) -> SecantMatrix:
        """Return the model on top of a positive B₀ (one row per label), plus diag(ridge) and damping · B₀."""
        known = min(self.count, self.memory)
        S, Y = self.S[:, self.memory - known :], self.Y[:, self.memory - known :]
        A = np.empty_like(S)
        for place in range(known):
            s = S[:, place]
            bent = diagonal * s
            if place:
                _add_outer(Y[:, :place], s, bent)
                _add_outer(A[:, :place], s, bent, sign=-1.0)
            length = np.einsum("lp,lp->l", s, bent)
            # 0 where there is a gap instead of a pair.
            unit = np.where(length > 0.0, 1.0 / np.sqrt(np.where(length > 0.0, length, 1.0)), 0.0)
            np.multiply(bent, unit[:, None], out=A[:, place], casting="same_kind")
        return SecantMatrix((1.0 + damping) * diagonal, ridge, Y, A)


@dataclass(frozen=True, eq=False)
class SecantMatrix:
    """B = B₀ + diag(ridge) + Σ_k y_k y_kᵀ − Σ_k a_k a_kᵀ for every label; valid until a pair is added."""

    diagonal: _Float64
    ridge: _Float64
    Y: Floats
    A: Floats

    def low_rank(self, E: Floats) -> Floats:
        """Multiply e by what B has beyond its diagonal, for every label."""
        E = E.astype(self.Y.dtype, copy=False)
        product = np.zeros_like(E)
        _add_outer(self.Y, E, product)
        _add_outer(self.A, E, product, sign=-1.0)
        return product

    def product(self, E: _Float64) -> _Float64:
        """B e for every label."""
        product: _Float64 = (self.diagonal + self.ridge) * E + self.low_rank(E)
        return product

    def solve(self, G: _Float64) -> _Float64:
        """B⁻¹ g for every label, by Woodbury's formula, in double precision: it subtracts large parts."""
        T = self.diagonal + self.ridge
        solution = np.empty_like(T)
        signs = np.repeat([1.0, -1.0], self.Y.shape[1])
        for some in _chunks(self.Y):
            U = np.concatenate([self.Y[some], self.A[some]], axis=1, dtype=np.float64)
            over_T = U / T[some, None]
            inner = over_T @ U.transpose(0, 2, 1) + np.diag(signs)
            found = np.linalg.solve(inner, over_T @ G[some, :, None])
            solution[some] = G[some] / T[some] - (found.transpose(0, 2, 1) @ over_T)[:, 0]
        return solution


def _add_outer(V: Floats, E: Floats, out: Floats, *, sign: float = 1.0) -> None:
    """Add ± Σ_k v_k v_kᵀ e for every label."""
    for some in _chunks(V):
        # Products of tiny matrices in single precision sometimes report an invalid value though all numbers
        # are finite: the processor adds numbers beside the matrices as well, and their sums are not used.
        with np.errstate(invalid="ignore"):
            part = (V[some] @ E[some, :, None]).transpose(0, 2, 1) @ V[some]
        out[some] += sign * part[:, 0]


def _chunks(V: Floats) -> list[slice]:
    """Labels that are handled together: their vectors stay in the cache."""
    step = max(1, _CHUNK // max(V[0].size, 1))
    return [slice(start, start + step) for start in range(0, len(V), step)]
