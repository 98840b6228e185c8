"""Kernels: inner products of rows in another space, in place of those of the features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from lrml.core.arrays import Array, is_host, is_sparse, namespace

KernelLike: TypeAlias = str | Callable[[Any, Any], float]
"""The name of a kernel, or a function of two rows."""

KERNELS = (*sorted(PAIRWISE_KERNEL_FUNCTIONS), "precomputed")
"""Names of scikit-learn's kernels, and "precomputed"."""

# Kernel values of one block of rows: 16 MiB; and numbers of a temporary array on a device.
_BLOCK_VALUES, _DEVICE_VALUES = 1 << 21, 1 << 24
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

    @property
    def is_thread_safe(self) -> bool:
        """Whether several threads may ask for values at a time; a user's function need not be."""
        return isinstance(self.metric, str)

    def __call__(self, X: Any, Z: Any) -> Array:
        """Values k(x, z) for the rows of X (n × d) and of Z (m × d), n × m; X itself if precomputed."""
        if not is_host(X):
            with np.errstate(over="ignore", invalid="ignore"):  # as below
                return self._on_device(X, Z)
        alone = Z is X
        X = canonical(X.astype(np.float64, copy=False))
        if self.is_precomputed:
            return np.asarray(X)
        if not alone:
            Z = canonical(Z)
        if not isinstance(self.metric, str):
            return _checked(pairwise_kernels(X, Z, metric=self.metric))
        options: dict[str, Any] = {"degree": self.degree, "coef0": self.coef0}
        if self.gamma is not None:  # otherwise every kernel has its own
            options["gamma"] = self.gamma
        Z = X if alone else Z.astype(np.float64, copy=False)
        if self.metric == "laplacian":
            _check_entries(X, Z)
        if self.metric == "rbf" and not is_sparse(Z) and not is_sparse(X):
            # ‖x‖² + ‖z‖² − 2xᵀz keeps few digits of the distance of rows that are far from zero.
            centre = Z.mean(axis=0)
            Z = Z - centre
            X = Z if alone else X - centre
        with np.errstate(over="ignore", invalid="ignore"):  # checked below, with a remedy
            values = pairwise_kernels(X, Z, metric=self.metric, filter_params=True, **options)
        return _checked(values.toarray() if is_sparse(values) else values)

    def _on_device(self, X: Array, Z: Array) -> Array:
        """Return the same values where X is; scikit-learn's kernels are for NumPy."""
        xp = namespace(X)
        double = xp.astype(X, xp.float64, copy=False)
        if self.is_precomputed:
            return double
        if not isinstance(self.metric, str):
            raise ValueError(
                f"a kernel on a device must have a name, one of {', '.join(map(repr, KERNELS))}, got a "
                "function of two rows. Pass the values of all pairs with kernel='precomputed'."
            )
        values = compared(self.metric, double, double if Z is X else xp.astype(Z, xp.float64, copy=False))
        gamma = self.gamma
        if gamma is None:
            gamma = 1.0 if self.metric == "chi2" else 1.0 / X.shape[1]
        for rows in _blocks(values.shape[0], values.shape[1]):  # little beside the values themselves
            part = values[rows, :]
            if self.metric in ("rbf", "laplacian", "chi2"):
                part = xp.exp(-gamma * part)
            elif self.metric == "additive_chi2":
                part = -part
            elif self.metric in ("poly", "polynomial"):
                part = (gamma * part + self.coef0) ** self.degree
            elif self.metric == "sigmoid":
                part = xp.tanh(gamma * part + self.coef0)
            values[rows, :] = part
        return _checked(values)

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
    """Return a sparse matrix with every entry once, and short indices where they do; all else as it is.

    scikit-learn takes the norms of rows from the stored values, and Σ|x − z| only with short indices.
    """
    if not is_sparse(X):
        return X
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if X.indices.dtype != np.int32 and max(X.nnz, *X.shape) <= _LONGEST_SHORT:
        indices, indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        X = type(X)((X.data, indices, indptr), shape=X.shape)
    return X


def _check_entries(*matrices: Any) -> None:
    """Refuse sparse matrices that are too long for the distances Σ|x − z|."""
    for matrix in matrices:
        if is_sparse(matrix) and matrix.indices.dtype != np.int32:
            raise ValueError(
                f"kernel='laplacian' needs at most {_LONGEST_SHORT} entries, rows and columns of a sparse X, "
                f"got {matrix.nnz} entries in the shape {matrix.shape}. Pass fewer rows or features, or use "
                "another kernel, such as 'rbf'."
            )


def compared(metric: str, X: Array, Z: Array) -> Array:
    """Return what gamma multiplies in a kernel, for all pairs of rows on a device: n × m, 0 or more.

    Squared distances for "rbf", Σ|x − z| for "laplacian", Σ(x − z)² / (x + z) for "chi2", and otherwise inner
    products, of unit vectors for "cosine", which may be negative.
    """
    xp = namespace(X)
    alone = Z is X
    if metric in ("laplacian", "chi2", "additive_chi2"):
        return _summed_over_features(metric, X, Z)
    if metric == "rbf":
        # ‖x‖² + ‖z‖² − 2xᵀz keeps few digits of the distance of rows that are far from zero.
        centre = xp.mean(Z, axis=0)
        Z = Z - centre
        X = Z if alone else X - centre
    if metric == "cosine":
        X, Z = _unit_rows(X), _unit_rows(Z)
    values = X @ Z.T
    if metric != "rbf":
        return values
    # From the same product, so that a row has no distance from itself.
    squares = [xp.linalg.diagonal(values) + 0.0] * 2 if alone else [xp.vecdot(X, X), xp.vecdot(Z, Z)]
    values *= -2.0
    values += squares[0][:, None]
    values += squares[1]
    for rows in _blocks(*values.shape):
        values[rows, :] = xp.clip(values[rows, :], min=0.0)
    return values


def _unit_rows(X: Array) -> Array:
    xp = namespace(X)
    length = xp.linalg.vector_norm(X, axis=1, keepdims=True)
    return X / xp.where(length > 0, length, 1.0)


def _summed_over_features(metric: str, X: Array, Z: Array) -> Array:
    """Return Σ|x − z|, or Σ(x − z)² / (x + z) of values that are not negative, for all pairs of rows."""
    xp = namespace(X)
    if metric != "laplacian" and (least := min(float(xp.min(X)), float(xp.min(Z)))) < 0:
        raise ValueError(
            f"kernel={metric!r} needs an X without negative values, got {least:g}. Scale X, for example with "
            "MinMaxScaler, or use another kernel, such as 'rbf'."
        )
    n, m = X.shape[0], Z.shape[0]
    values = xp.empty((n, m), dtype=X.dtype, device=X.device)
    for rows in _blocks(n, m * X.shape[1]):
        terms = X[rows, None, :] - Z[None, :, :]
        if metric == "laplacian":
            terms = xp.abs(terms)
        else:
            total = X[rows, None, :] + Z[None, :, :]
            terms = terms**2 / xp.where(total > 0, total, 1.0)
        values[rows, :] = xp.sum(terms, axis=2)
    return values


def _blocks(n_rows: int, width: int) -> list[slice]:
    """Slices of rows that have so many numbers each, for temporary arrays on a device."""
    step = max(1, _DEVICE_VALUES // max(width, 1))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


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
