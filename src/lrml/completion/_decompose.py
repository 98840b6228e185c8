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
        full = (factors.U * factors.s) @ factors.V.T
        full[self.observed.rows, self.observed.cols] += values
        U, s, Vt = thin_svd(full)
        return Factors(U, s, Vt.T)


class TruncatedDecomposition:
    """As many triplets as are needed, by Lanczos's method on products; nothing of size m × n is made.

    How many singular values exceed the threshold is not known before. The count of the last call, and a few
    more, is tried; while all that were found exceed the threshold, half as many again are asked for.
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
        operator = _operator(self.observed, factors, values)
        most = min(self.observed.shape) - 1
        most = most if max_rank is None else min(most, max_rank)
        count = min(most, max(n_free, self.rank) + 3)
        while True:
            U, s, Vt = svds(operator, k=count, v0=self.start, tol=self.accuracy)
            if s[0] <= threshold or count == most:
                break
            count = min(most, count + max(4, count // 2))
        U, s, V = U[:, ::-1], s[::-1], Vt[::-1].T
        self.rank = max(n_free, int(np.count_nonzero(s > threshold)))
        # The leading directions of the last call lead Lanczos to those of this one.
        side = U if operator.shape[0] <= operator.shape[1] else V
        self.start = side[:, : self.rank + 1].sum(axis=1)
        return Factors(U, s, V)


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
