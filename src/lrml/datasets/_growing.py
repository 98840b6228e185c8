"""A CSR matrix that grows by chunks of rows, as a file is read."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


class GrowingCSR:
    """Collects rows chunk by chunk; nothing is copied until the matrix is asked for.

    Parameters
    ----------
    dtype : type
        Type of the stored values.
    """

    def __init__(self, dtype: type[np.float64] | type[np.uint8] | type[np.bool_]) -> None:
        self._dtype = dtype
        self._counts: list[NDArray[np.int64]] = []
        self._indices: list[NDArray[np.int32]] = []
        self._data: list[NDArray[np.float64 | np.uint8 | np.bool_]] = []

    def append(
        self, counts: NDArray[np.int64], indices: NDArray[np.int32], data: NDArray[np.float64]
    ) -> None:
        """Add rows with `counts` entries each, whose column `indices` ascend within a row."""
        self._counts.append(counts)
        self._indices.append(indices)
        self._data.append(data.astype(self._dtype))

    def matrix(self, columns: int) -> sparse.csr_array:
        """Return the matrix of all rows so far."""
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(self._counts))])
        # 32-bit indices wherever they suffice: half the memory, and scikit-learn's solvers want them.
        index_dtype = np.int32 if indptr[-1] <= np.iinfo(np.int32).max else np.int64
        indices = np.concatenate(self._indices).astype(index_dtype, copy=False)
        shape = (len(indptr) - 1, columns)
        return sparse.csr_array((np.concatenate(self._data), indices, indptr.astype(index_dtype)), shape)
