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

from lrml._arrays import HOST, Array, Place, namespace, row_dots

# A pair whose curvature is below this share of that of the diagonal is rounding noise, or the loss is flat.
_LEAST_CURVATURE = 1e-8
# Numbers of the vectors of labels that are handled together: so that they stay in the cache, and on a device,
# so that few kernels are launched.
_CHUNK, _DEVICE_CHUNK = 1 << 17, 1 << 26


class Secants:
    """The last pairs of steps and changes of the gradient of every label.

    Parameters
    ----------
    n_labels, size : int
        A step of one label has ``size`` numbers.
    memory : int
        How many pairs are kept.
    dtype : type
        Precision of the pairs: most of the time goes into reading them. All else is in double precision.
    place : Place
        Where the pairs are kept.
    """

    def __init__(
        self,
        n_labels: int,
        size: int,
        memory: int = 6,
        dtype: type[np.floating[Any]] = np.float64,
        place: Place = HOST,
    ) -> None:
        # The newest is the last.
        self.S, self.Y = (place.zeros((n_labels, memory, size), dtype) for _ in range(2))
        self.memory, self.count = memory, 0

    def add(self, steps: Array, changes: Array, diagonal: Array) -> None:
        """Add one pair for every label that has moved and shown curvature; the others keep a gap."""
        xp = namespace(steps)
        shown = row_dots(steps, changes)
        expected = row_dots(steps, diagonal, steps)
        # The model does not depend on the length of a pair.
        valid = (expected > 0.0) & (shown > _LEAST_CURVATURE * expected)
        unit = _inverse_roots(shown, valid)
        for kept, new in ((self.S, steps), (self.Y, changes)):
            for place in range(self.memory - 1):
                kept[:, place, :] = kept[:, place + 1, :]
            kept[:, -1, :] = xp.astype(new * unit, kept.dtype, copy=False)
        self.count += 1

    def matrix(self, diagonal: Array, ridge: Array, damping: float = 0.0) -> SecantMatrix:
        """Return the model on top of a positive B₀ (one row per label), plus diag(ridge) and damping · B₀."""
        known = min(self.count, self.memory)
        S, Y = (kept[:, self.memory - known :, :] for kept in (self.S, self.Y))
        xp = namespace(S)
        A = xp.empty_like(S)
        for place in range(known):
            s = S[:, place, :]
            bent = diagonal * s
            if place:
                _add_outer(Y[:, :place, :], s, bent)
                _add_outer(A[:, :place, :], s, bent, sign=-1.0)
            length = row_dots(xp.astype(s, bent.dtype, copy=False), bent)
            # 0 where there is a gap instead of a pair.
            A[:, place, :] = xp.astype(bent * _inverse_roots(length, length > 0.0), A.dtype, copy=False)
        return SecantMatrix((1.0 + damping) * diagonal, ridge, Y, A)


@dataclass(frozen=True, eq=False)
class SecantMatrix:
    """B = B₀ + diag(ridge) + Σ_k y_k y_kᵀ − Σ_k a_k a_kᵀ for every label; valid until a pair is added."""

    diagonal: Array
    ridge: Array
    Y: Array
    A: Array

    def low_rank(self, E: Array) -> Array:
        """Multiply e by what B has beyond its diagonal, for every label."""
        xp = namespace(E)
        E = E if E.dtype == self.Y.dtype else xp.astype(E, self.Y.dtype)
        product = xp.zeros_like(E)
        _add_outer(self.Y, E, product)
        _add_outer(self.A, E, product, sign=-1.0)
        return product

    def product(self, E: Array) -> Array:
        """B e for every label."""
        return (self.diagonal + self.ridge) * E + self.low_rank(E)

    def solve(self, G: Array) -> Array:
        """B⁻¹ g for every label, by Woodbury's formula, in double precision: it subtracts large parts."""
        xp, T = namespace(G), self.diagonal + self.ridge
        solution = xp.empty_like(T)
        known = self.Y.shape[1]
        signs = xp.eye(2 * known, dtype=T.dtype, device=T.device)
        signs[known:, :] *= -1.0
        for some in _chunks(self.Y):
            U = xp.concat(
                [xp.astype(part[some, ...], T.dtype, copy=False) for part in (self.Y, self.A)], axis=1
            )
            over_T = U / T[some, None, :]
            inner = over_T @ U.mT + signs
            found = xp.linalg.solve(inner, over_T @ G[some, :, None])
            solution[some, :] = G[some, :] / T[some, :] - (found.mT @ over_T)[:, 0, :]
        return solution


def _inverse_roots(squares: Array, valid: Array) -> Array:
    """Return 1/√ of some numbers, as a column, and 0 for those that are not valid."""
    xp = namespace(squares)
    return xp.where(valid, 1.0 / xp.sqrt(xp.where(valid, squares, 1.0)), 0.0)[:, None]


def _add_outer(V: Array, E: Array, out: Array, *, sign: float = 1.0) -> None:
    """Add ± Σ_k v_k v_kᵀ e for every label."""
    for some in _chunks(V):
        # Products of tiny matrices in single precision sometimes report an invalid value though all numbers
        # are finite: the processor adds numbers beside the matrices as well, and their sums are not used.
        with np.errstate(invalid="ignore"):
            part = (V[some, ...] @ E[some, :, None]).mT @ V[some, ...]
        out[some, :] += sign * part[:, 0, :]


def _chunks(V: Array) -> list[slice]:
    """Labels that are handled together."""
    n_labels, chunk = V.shape[0], _CHUNK if isinstance(V, np.ndarray) else _DEVICE_CHUNK
    step = max(1, chunk // max(V.shape[1] * V.shape[2], 1))
    return [slice(start, min(start + step, n_labels)) for start in range(0, n_labels, step)]
