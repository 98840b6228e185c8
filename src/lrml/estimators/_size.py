"""How many bytes a model takes: what quality is weighed against if features or labels are many."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml._arrays import dtype_name, is_sparse


def model_nbytes(rank: Any, shape: tuple[int, int], dtype: npt.DTypeLike, rows: Any = None) -> Any:
    """Bytes that scores need: (min(k (d + L + 1), d L) + L) · itemsize, and the training rows of a kernel.

    The factors U (d × k), s and V (L × k) have k (d + L + 1) numbers. From k = dL / (d + L + 1) on, their
    product has fewer. For a kernel, d is the number of training rows. Several ranks give an array.
    """
    d, n_labels = shape
    numbers = np.minimum(np.asarray(rank) * (d + n_labels + 1), d * n_labels) + n_labels
    found = numbers * np.dtype(dtype).itemsize + (0 if rows is None else _nbytes(rows))
    return int(found) if np.ndim(rank) == 0 else found


def _nbytes(rows: Any) -> int:
    """Bytes of an array, or of the three arrays of a CSR or CSC matrix."""
    parts = (rows.data, rows.indices, rows.indptr) if is_sparse(rows) else (rows,)
    return sum(math.prod(part.shape) * np.dtype(dtype_name(part)).itemsize for part in parts)
