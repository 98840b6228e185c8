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
        known, xp = min(self.count, self.memory), namespace(self.S)
        parts = SignedSquares.empty(self.Y[:, :1, :], 2 * known)
        vectors = parts.vectors  # y₁, a₁, y₂, a₂, …
        for place in range(known):
            pair = place - known  # counted from the newest
            s = self.S[:, pair, :]
            # B_k s_k
            bent = diagonal * s + parts.first(2 * place).product(s)
            length = row_dots(xp.astype(s, bent.dtype, copy=False), bent)
            vectors[:, 2 * place, :] = self.Y[:, pair, :]
            # 0 where there is a gap instead of a pair.
            a = bent * _inverse_roots(length, length > 0.0)
            vectors[:, 2 * place + 1, :] = xp.astype(a, vectors.dtype, copy=False)
        return SecantMatrix((1.0 + damping) * diagonal, ridge, parts)


@dataclass(frozen=True, eq=False)
class SignedSquares:
    """Σ_k ± v_k v_kᵀ for every label; ``vectors`` has the shape (L, k, size), ``signs`` (k,)."""

    vectors: Array
    signs: Array

    @staticmethod
    def empty(like: Array, count: int) -> SignedSquares:
        """Return room for vectors of the same labels, size and precision, their signs alternating."""
        xp = namespace(like)
        vectors = xp.empty((like.shape[0], count, like.shape[2]), dtype=like.dtype, device=like.device)
        places = xp.arange(count, dtype=like.dtype, device=like.device)
        return SignedSquares(vectors, 1.0 - 2.0 * (places % 2.0))

    def first(self, count: int) -> SignedSquares:
        """Return the sum of the first few."""
        return SignedSquares(self.vectors[:, :count, :], self.signs[:count])

    def product(self, E: Array) -> Array:
        """Multiply the vector of every label, a row of E."""
        xp, V = namespace(E), self.vectors
        E = xp.astype(E, V.dtype, copy=False)
        product = xp.zeros_like(E)
        if V.shape[1] == 0:
            return product
        for some in _chunks(V):
            # Products of tiny matrices in single precision sometimes report an invalid value though all
            # numbers are finite: the processor adds numbers beside the matrices, whose sums are not used.
            with np.errstate(invalid="ignore"):
                along = (V[some, ...] @ E[some, :, None]).mT * self.signs
                product[some, :] = (along @ V[some, ...])[:, 0, :]
        return product


@dataclass(frozen=True, eq=False)
class SecantMatrix:
    """B = B₀ + diag(ridge) + Σ_k (y_k y_kᵀ − a_k a_kᵀ) for every label."""

    diagonal: Array
    ridge: Array
    low_rank: SignedSquares

    def product(self, E: Array) -> Array:
        """B e for every label."""
        return (self.diagonal + self.ridge) * E + self.low_rank.product(E)

    def solve(self, G: Array) -> Array:
        """B⁻¹ g for every label, by Woodbury's formula, in double precision: it subtracts large parts."""
        xp, T = namespace(G), self.diagonal + self.ridge
        solution = xp.empty_like(T)
        vectors, signs = self.low_rank.vectors, xp.astype(self.low_rank.signs, T.dtype)
        identity = xp.eye(signs.shape[0], dtype=T.dtype, device=T.device)
        for some in _chunks(vectors):
            U = xp.astype(vectors[some, ...], T.dtype, copy=False)
            over_T = U / T[some, None, :]
            inner = over_T @ U.mT + signs * identity
            found = xp.linalg.solve(inner, over_T @ G[some, :, None])
            solution[some, :] = G[some, :] / T[some, :] - (found.mT @ over_T)[:, 0, :]
        return solution


def _inverse_roots(squares: Array, valid: Array) -> Array:
    """Return 1/√ of some numbers, as a column, and 0 for those that are not valid."""
    xp = namespace(squares)
    return xp.where(valid, 1.0 / xp.sqrt(xp.where(valid, squares, 1.0)), 0.0)[:, None]


def _chunks(V: Array) -> list[slice]:
    """Labels that are handled together."""
    n_labels, chunk = V.shape[0], _CHUNK if isinstance(V, np.ndarray) else _DEVICE_CHUNK
    step = max(1, chunk // max(V.shape[1] * V.shape[2], 1))
    return [slice(start, min(start + step, n_labels)) for start in range(0, n_labels, step)]
