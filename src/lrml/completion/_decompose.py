"""Leading singular triplets of "low rank plus sparse", the matrix that every proximal step decomposes."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy.sparse.linalg import LinearOperator, svds

from lrml._arrays import thin_svd
from lrml.completion._observed import Floats, Observed
from lrml.solvers import Factors


class Decomposition(Protocol):
    """Finds the singular triplets of U diag(s) Vᵀ + S that a proximal map may keep.

    ``accuracy`` is the relative one of the triplets; 0 stands for that of the machine.
    """

    accuracy: float

    def leading(
        self, factors: Factors, values: Floats, threshold: float, n_free: int, max_rank: int | None
    ) -> Factors:
        """Return at least the first ``n_free`` triplets and all with a value above ``threshold``.

        ``values`` are the entries of the sparse S at the observed places. ``max_rank`` triplets suffice.
        """


class DenseDecomposition:
    """All triplets, by the SVD of the full matrix: for matrices that fit into memory."""

    def __init__(self, observed: Observed) -> None:
        self.observed = observed
        self.accuracy = 0.0

    def leading(
        self, factors: Factors, values: Floats, threshold: float, n_free: int, max_rank: int | None
    ) -> Factors:
        """Return all triplets."""
        return _all_triplets(self.observed, factors, values)


class TruncatedDecomposition:
    """As many triplets as are needed, by Lanczos's method on products.

    How many singular values exceed the threshold is not known before. The count of the last call, and a few
    more, is tried; while all that were found exceed the threshold, half as many again are asked for. Where
    that comes to all of them, the m × n matrix is made and decomposed: it is smaller than its singular
    vectors, and Lanczos's method cannot find the last triplet.
    """

    def __init__(self, observed: Observed, seed: int = 0) -> None:
        self.observed = observed
        self.accuracy = 0.0
        self.rank = 0
        self.start = np.random.default_rng(seed).standard_normal(min(observed.shape))

    def leading(
        self, factors: Factors, values: Floats, threshold: float, n_free: int, max_rank: int | None
    ) -> Factors:
        """Return ``n_free`` triplets and those above ``threshold``, as far as ``max_rank`` allows."""
        shape = self.observed.shape
        operator = _operator(self.observed, factors, values)
        most = min(shape) if max_rank is None else min(*shape, max_rank)
        count = min(most, max(n_free, self.rank) + 3)
        while True:
            found = self._first(count, operator, factors, values)
            if found.s[-1] <= threshold or count == most:
                break
            count = min(most, count + max(4, count // 2))
        self.rank = max(n_free, int(np.count_nonzero(found.s > threshold)))
        # The leading directions of the last call lead Lanczos to those of this one.
        side = found.U if shape[0] <= shape[1] else found.V
        self.start = side[:, : self.rank + 1].sum(axis=1)
        return found

    def _first(
        self, count: int, operator: LinearOperator[np.float64], factors: Factors, values: Floats
    ) -> Factors:
        """Return ``count`` leading triplets."""
        if count == min(self.observed.shape):
            return _all_triplets(self.observed, factors, values)
        U, s, Vt = svds(operator, k=count, v0=self.start, tol=self.accuracy)
        return Factors(U[:, ::-1], s[::-1], Vt[::-1].T)


def _all_triplets(observed: Observed, factors: Factors, values: Floats) -> Factors:
    """Decompose U diag(s) Vᵀ + S as a full matrix."""
    full = (factors.U * factors.s) @ factors.V.T
    full[observed.rows, observed.cols] += values
    U, s, Vt = thin_svd(full)
    return Factors(U, s, Vt.T)


def _operator(observed: Observed, factors: Factors, values: Floats) -> LinearOperator[np.float64]:
    """Products with U diag(s) Vᵀ + S and with its transpose."""
    sparse = observed.sparse(values)
    transposed = sparse.T.tocsr()
    left, right = factors.U * factors.s, factors.V

    def forward(x: Floats) -> Floats:
        return np.asarray(sparse @ x + left @ (right.T @ x))

    def backward(y: Floats) -> Floats:
        return np.asarray(transposed @ y + right @ (left.T @ y))

    return LinearOperator(
        observed.shape, matvec=forward, rmatvec=backward, matmat=forward, rmatmat=backward, dtype=np.float64
    )
