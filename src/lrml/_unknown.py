"""Which labels are unknown: NaN in Y and a mask of observed ones, as one mask."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml.core.arrays import as_matrix, is_sparse, namespace, to_host
from lrml.core.rows import Mask


def split_unknown(Y: Any, observed: Any, *, whole: bool = True) -> tuple[Any, Mask | None]:
    """Separate a label matrix into labels, 0 where unknown, and the mask of known labels.

    Parameters
    ----------
    Y : array or CSR array of shape (n, L)
        NaN, which a sparse Y may store, marks an unknown label.
    observed : array, sparse matrix or frame of bool of shape (n, L), or None
        True where a label was observed; in a sparse matrix, entries not stored were not.
    whole : bool, default=True
        Whether to refuse a Y of which nothing is known, which a block of it may be.

    Returns
    -------
    Y : array or CSR array
    mask : Mask or None
        None if every label is known.
    """
    Y, unknown = _without_nan(Y)
    n_known, mask = math.prod(Y.shape), None
    if observed is not None:
        known = _check_observed(observed, Y.shape)
        if unknown is not None:
            known = known > sp.csr_array(unknown) if is_sparse(known) else known & ~_dense(unknown)
        n_known = _count(known)
        mask = Mask(known) if n_known < math.prod(Y.shape) else None
        # The value of an unobserved entry must not count, whatever it is.
        if mask is not None and is_sparse(Y):
            Y = _some_stored(Y, np.ravel(_dense(known[Y.tocoo().coords])))
        elif mask is not None:
            Y = np.where(_dense(known), Y, 0).astype(Y.dtype)
    elif unknown is not None:
        n_known, mask = n_known - _count(unknown), Mask(unknown, marks_known=False)
    if whole and mask is not None and n_known == 0:
        raise ValueError("some label must be known, got a Y of which nothing is. Check the mask, or drop Y.")
    return Y, mask


def _count(marks: Any) -> int:
    """Return how many entries are marked; a sparse matrix stores no others."""
    return int(marks.nnz if is_sparse(marks) else namespace(marks).count_nonzero(marks))


def _without_nan(Y: Any) -> tuple[Any, Any]:
    """Replace NaN by 0; return where it was, in the form of Y, or None if there was none."""
    stored = Y.data if is_sparse(Y) else Y
    xp = namespace(stored)
    if not xp.isdtype(stored.dtype, "real floating"):
        return Y, None
    missing = xp.isnan(stored)
    if not bool(xp.any(missing)):
        return Y, None
    if is_sparse(Y):
        return _some_stored(Y, ~missing), _some_stored(Y, missing).astype(np.bool_)
    return xp.where(missing, xp.zeros_like(Y), Y), missing


def _some_stored(matrix: Any, chosen: npt.NDArray[np.bool_]) -> Any:
    """Return the sparse matrix of some of the entries that another one stores, in their order."""
    coords = tuple(part[chosen] for part in matrix.tocoo().coords)
    return sp.csr_array((matrix.data[chosen], coords), shape=matrix.shape)


def _check_observed(observed: Any, shape: tuple[int, int]) -> Any:
    known = host_matrix(observed)
    known = known.tocsr() if is_sparse(known) else known  # the values of some formats are not an array
    if known.shape != shape:
        raise ValueError(
            f"observed must have the shape of Y, {shape}, got {known.shape}. "
            "Pass True or False for every row and label."
        )
    values = known.data if is_sparse(known) else known
    if values.dtype.kind not in "biuf" or not np.all((values == 0) | (values == 1)):
        raise ValueError(
            f"observed must hold True and False, got values of type {values.dtype}. "
            "Pass ~numpy.isnan(Y), for example."
        )
    known = known.astype(np.bool_)
    if is_sparse(known):
        known = sp.csr_array(known)
        known.sum_duplicates()
        known.eliminate_zeros()
    return known


def _dense(matrix: Any) -> Any:
    return matrix.toarray() if is_sparse(matrix) else matrix


def host_matrix(value: Any) -> Any:
    """Return a matrix as an array or sparse; lists of unequal length are an array of lists."""
    value = to_host(value)
    try:
        return as_matrix(value)
    except ValueError:
        found = np.empty(len(value), dtype=object)
        found[:] = value
        return found
