"""Any loss, with many known labels: scores are made, used and forgotten block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

import numpy as np

from lrml.losses import Floats, Loss
from lrml.rows import Block, Rows
from lrml.solvers.leml._balance import Float64
from lrml.solvers.leml._terms import Evaluation

_Curved: TypeAlias = Iterable[tuple[slice, Floats]]
# Second derivatives are kept between the steps of conjugate gradients up to 64 MiB, made again beyond that.
_KEEP_BELOW = 1 << 24


class Blocks:
    """Σ w_i ℓ(y_il, s_il) over the known labels; an evaluation costs O(nLk).

    Parameters
    ----------
    rows : Rows
        X is not looked at.
    loss : Loss

    Notes
    -----
    Values and gradients are in double precision, products with the Hessian in single: the conjugate gradients
    that use them are inexact anyway, and twice as fast.
    """

    def __init__(self, rows: Rows, loss: Loss) -> None:
        self.rows, self.loss = rows, loss

    def _at(self, A: Floats, dtype: type[np.floating]) -> Rows:
        """Rows with A in place of X: a block then brings its part of A along."""
        return Rows(A.astype(dtype, copy=False), self.rows.Y, self.rows.mask, self.rows.weights, dtype)

    def evaluate(self, A: Float64, H: Float64, c: Float64) -> Evaluation:
        """Evaluate in one pass."""
        n_labels, rank = H.shape
        values, totals = np.zeros(n_labels), np.zeros(n_labels)
        of_rows, of_labels = np.empty((len(A), rank)), np.zeros((n_labels, rank))

        def scores(block: Block) -> Floats:
            products: Floats = block.X @ H.T
            products += c
            return products

        for block, terms in self._at(A, np.float64).losses(self.loss, scores):
            values += terms.values.sum(axis=0)
            totals += terms.slopes.sum(axis=0)
            of_rows[block.rows] = terms.slopes @ H
            of_labels += terms.slopes.T @ block.X
        return Evaluation(values, of_rows, of_labels, totals)

    def curvature(self, A: Float64, H: Float64, c: Float64) -> BlocksCurvature:
        """Return the second derivatives, stored if there are not too many."""
        H32, c32 = H.astype(np.float32), c.astype(np.float32)
        rows = self._at(A, np.float32)

        def curved() -> Iterator[tuple[slice, Floats]]:
            for block, terms in rows.losses(self.loss, lambda block: block.X @ H32.T + c32):
                yield block.rows, terms.curvatures

        make: Callable[[], _Curved] = curved
        if len(A) * len(H) <= _KEEP_BELOW:
            kept = list(curved())

            def make() -> _Curved:
                return kept

        return BlocksCurvature(rows.X, H32, make, self.rows.total_weight)


class BlocksCurvature:
    """Products with the second derivatives, block by block, in single precision."""

    def __init__(self, A: Floats, H: Floats, curved: Callable[[], _Curved], total: float) -> None:
        self._A, self._H, self._curved = A, H, curved
        sums = sum(C.sum(axis=0, dtype=np.float64) for _, C in curved())
        self.means: Float64 = np.asarray(sums) / total

    def along_rows(self, E: Floats) -> Floats:
        """(C ∘ EHᵀ)H."""
        out, E32 = np.empty_like(E), E.astype(np.float32, copy=False)
        for rows, C in self._curved():
            products = E32[rows] @ self._H.T
            products *= C
            out[rows] = products @ self._H
        return out

    def along_labels(self, D: Float64, e: Float64) -> tuple[Float64, Float64]:
        """SᵀA and Sᵀ1 with S = C ∘ (ADᵀ + 1eᵀ)."""
        D32, e32 = D.astype(np.float32), e.astype(np.float32)
        of_H, of_c = np.zeros(D.shape), np.zeros(len(e))
        for rows, C in self._curved():
            A = self._A[rows]
            products = A @ D32.T
            products += e32
            products *= C
            of_H += products.T @ A
            of_c += products.sum(axis=0, dtype=np.float64)
        return of_H, of_c
