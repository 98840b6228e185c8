"""Kernels: inner products of rows in another space, in place of those of the features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from lrml._shown import shown
from lrml.core.arrays import Array, dense, is_host, is_sparse, namespace

KernelLike: TypeAlias = str | Callable[[Any, Any], float]
"""The name of a kernel, or a function of two rows."""

KERNELS = (*sorted(PAIRWISE_KERNEL_FUNCTIONS), "precomputed")
"""Names of scikit-learn's kernels, and "precomputed"."""

# Kernels that are computed here, of dense rows; the others by scikit-learn.
_OF_ARRAYS = ("cosine", "linear", "poly", "polynomial", "rbf", "sigmoid")
# Kernel values of one block of rows: 16 MiB.
_BLOCK_VALUES = 1 << 21
# Relative to the largest entry: kernel matrices in single precision are that asymmetric.
_ASYMMETRY = 1e-6
# The largest index of 32 bits.
_LONGEST_SHORT = 2**31 - 1


@dataclass(frozen=True)
class Kernel:
    """A kernel k(x, z) with its parameters, which count only where the kernel has them."""

    metric: KernelLike
    gamma: float | None = None
    degree: float = 3
    coef0: float = 1

    @property
    def is_precomputed(self) -> bool:
        """Whether X holds kernel values already."""
        return self.metric == "precomputed"

    def __call__(self, X: Any, Z: Any) -> Array:
        """Values k(x, z) for the rows of X (n × d) and of Z (m × d), n × m; X itself if precomputed."""
        alone, X = Z is X, canonical(X)
        if self.is_precomputed:
            return X
        Z = X if alone else canonical(Z)
        with np.errstate(over="ignore", invalid="ignore"):  # checked below, with a remedy
            if self.metric in _OF_ARRAYS and not (is_sparse(X) or is_sparse(Z)):
                return _checked(self._of_arrays(X, Z))
            if not is_host(X):
                raise ValueError(
                    f"kernel={shown(self.metric)} is none that a device computes: {', '.join(_OF_ARRAYS)}. "
                    "Pass the values of all pairs with kernel='precomputed'."
                )
            if not isinstance(self.metric, str):
                return _checked(pairwise_kernels(X, Z, metric=self.metric))
            options: dict[str, Any] = {"degree": self.degree, "coef0": self.coef0}
            if self.gamma is not None:  # otherwise every kernel has its own
                options["gamma"] = self.gamma
            return _checked(dense(pairwise_kernels(X, Z, metric=self.metric, filter_params=True, **options)))

    def _of_arrays(self, X: Array, Z: Array) -> Array:
        """Return the values for dense rows in any namespace, with more digits than scikit-learn's."""
        xp, values = namespace(X), compared(self.metric, X, Z)
        gamma = 1.0 / X.shape[1] if self.gamma is None else self.gamma
        if self.metric == "rbf":
            values *= -gamma
            return xp.exp(values)
        if self.metric in ("poly", "polynomial", "sigmoid"):
            values *= gamma
            values += self.coef0
        if self.metric == "sigmoid":
            return xp.tanh(values)
        if self.metric in ("poly", "polynomial"):
            values **= self.degree
        return values

    @staticmethod
    def block_of(n_fit: int) -> int:
        """How many rows to compare with the training rows at a time."""
        return max(1, _BLOCK_VALUES // max(n_fit, 1))

    def matrix(self, X: Any) -> Array:
        """Values for all pairs of rows, n × n."""
        if is_host(X) and not isinstance(self.metric, str):
            first = X[[0]] if is_sparse(X) else X[0]
            value = self.metric(first, first)
            if np.ndim(value) != 0 or np.asarray(value).dtype.kind not in "biuf":
                raise ValueError(
                    f"kernel must return one number for two rows, got {type(value).__name__} of shape "
                    f"{np.shape(value)}. Pass a function of two vectors, "
                    "or the values of all pairs with kernel='precomputed'."
                )
        values = self(X, X)
        # Rounding may differ on both sides of the diagonal.
        values = values + values.T
        values *= 0.5
        return values


def canonical(X: Any) -> Any:
    """Return rows in double precision, sparse ones with every entry once, and short indices where they do.

    scikit-learn takes the norms of rows from the stored values, and Σ|x − z| only with short indices.
    """
    if not is_sparse(X):
        return namespace(X).astype(X, namespace(X).float64, copy=False)
    X = X.astype(np.float64, copy=False)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if X.indices.dtype != np.int32 and max(X.nnz, *X.shape) <= _LONGEST_SHORT:
        indices, indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        X = type(X)((X.data, indices, indptr), shape=X.shape)
    return X


def compared(metric: Any, X: Array, Z: Array) -> Array:
    """Return what gamma multiplies in a kernel, for all pairs of dense rows: n × m.

    Squared distances for "rbf", and otherwise inner products, of unit vectors for "cosine".
    """
    xp, alone = namespace(X), Z is X
    if metric == "rbf":
        # ‖x‖² + ‖z‖² − 2xᵀz keeps few digits of the distance of rows that are far from zero.
        centre = xp.mean(Z, axis=0)
        Z = Z - centre
        X = Z if alone else X - centre
    elif metric == "cosine":
        lengths = [xp.linalg.vector_norm(M, axis=1, keepdims=True) for M in (X, Z)]
        X, Z = (M / xp.where(length > 0, length, 1.0) for M, length in zip((X, Z), lengths, strict=True))
    values = X @ Z.T
    if metric != "rbf":
        return values
    # From the same product, so that a row has no distance from itself.
    squares = [xp.linalg.diagonal(values) + 0.0] * 2 if alone else [xp.vecdot(X, X), xp.vecdot(Z, Z)]
    values *= -2.0
    values += squares[0][:, None]
    values += squares[1]
    return xp.clip(values, min=0.0)


def _checked(values: Any) -> Array:
    found = np.asarray(values, dtype=np.float64) if is_host(values) else values
    xp = namespace(found)
    finite = xp.isfinite(found)
    if not bool(xp.all(finite)):
        i, j = (int(places[0]) for places in xp.nonzero(~finite))
        raise ValueError(
            f"kernel values must be finite, got {float(found[i, j])} for the rows {i} and {j}. "
            "Check the kernel, or scale X, for example with StandardScaler."
        )
    return found


def check_kernel_matrix(kernel: Array) -> None:
    """Refuse a matrix that cannot hold the kernel values of all pairs of rows."""
    n, m = kernel.shape
    if n != m:
        raise ValueError(
            f"kernel='precomputed' needs a square X, k(x_i, x_j) for all pairs of training rows, got {n} × "
            f"{m}. Pass that matrix, or rows of features with a kernel such as 'rbf'."
        )
    xp = namespace(kernel)
    largest = float(xp.max(xp.abs(kernel)))
    worst = float(xp.max(xp.abs(kernel - kernel.T)))
    if worst > _ASYMMETRY * largest:
        raise ValueError(
            "kernel='precomputed' needs a symmetric X, got entries that differ from their mirror images by "
            f"up to {worst:.2g} (the largest entry is {largest:.2g}). Pass (X + X.T) / 2 if you mean that."
        )
