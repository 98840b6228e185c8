"""Kernels: inner products of rows in another space, in place of those of the features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.metrics.pairwise import PAIRWISE_KERNEL_FUNCTIONS, pairwise_kernels

from lrml._arrays import is_sparse

_Float64 = npt.NDArray[np.float64]
KernelLike: TypeAlias = str | Callable[[Any, Any], float]
"""The name of a kernel, or a function of two rows."""

KERNELS = (*sorted(PAIRWISE_KERNEL_FUNCTIONS), "precomputed")
"""Names of scikit-learn's kernels, and "precomputed"."""

# Kernel values of one block of rows: 16 MiB.
_BLOCK_VALUES = 1 << 21
# Relative to the largest entry: kernel matrices in single precision are that asymmetric.
_ASYMMETRY = 1e-6


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

    def __call__(self, X: Any, Z: Any) -> _Float64:
        """Values k(x, z) for the rows of X (n × d) and of Z (m × d), n × m; X itself if precomputed."""
        alone = Z is X
        X = X.astype(np.float64, copy=False)
        if self.is_precomputed:
            return np.asarray(X)
        if not isinstance(self.metric, str):
            return _checked(pairwise_kernels(X, Z, metric=self.metric))
        options: dict[str, Any] = {"degree": self.degree, "coef0": self.coef0}
        if self.gamma is not None:  # otherwise every kernel has its own
            options["gamma"] = self.gamma
        Z = X if alone else Z.astype(np.float64, copy=False)
        if self.metric == "rbf" and not is_sparse(Z) and not is_sparse(X):
            # ‖x‖² + ‖z‖² − 2xᵀz keeps few digits of the distance of rows that are far from zero.
            centre = Z.mean(axis=0)
            Z = Z - centre
            X = Z if alone else X - centre
        with np.errstate(over="ignore", invalid="ignore"):  # checked below, with a remedy
            values = pairwise_kernels(X, Z, metric=self.metric, filter_params=True, **options)
        return _checked(values.toarray() if is_sparse(values) else values)

    def matrix(self, X: Any) -> _Float64:
        """Values for all pairs of rows, n × n."""
        if not isinstance(self.metric, str):
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
        return 0.5 * (values + values.T)


def _checked(values: Any) -> _Float64:
    found: _Float64 = np.asarray(values, dtype=np.float64)
    if not np.all(np.isfinite(found)):
        i, j = np.argwhere(~np.isfinite(found))[0]
        raise ValueError(
            f"kernel values must be finite, got {found[i, j]} for the rows {i} and {j}. "
            "Check the kernel, or scale X, for example with StandardScaler."
        )
    return found


def kernel_block(n_fit: int) -> int:
    """How many rows to compare with the training rows at a time."""
    return max(1, _BLOCK_VALUES // max(n_fit, 1))


def check_kernel_matrix(kernel: npt.NDArray[Any]) -> None:
    """Refuse a matrix that cannot hold the kernel values of all pairs of rows."""
    n, m = kernel.shape
    if n != m:
        raise ValueError(
            f"kernel='precomputed' needs a square X, k(x_i, x_j) for all pairs of training rows, got {n} × "
            f"{m}. Pass that matrix, or rows of features with a kernel such as 'rbf'."
        )
    largest = float(np.abs(kernel).max(initial=0.0))
    worst = float(np.abs(kernel - kernel.T).max(initial=0.0))
    if worst > _ASYMMETRY * largest:
        raise ValueError(
            "kernel='precomputed' needs a symmetric X, got entries that differ from their mirror images by "
            f"up to {worst:.2g} (the largest entry is {largest:.2g}). Pass (X + X.T) / 2 if you mean that."
        )
