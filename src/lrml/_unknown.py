"""Unknown labels: NaN in Y, or a matrix that says which entries were observed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from lrml._arrays import as_matrix, is_sparse
from lrml.rows import Mask


def split_unknown(Y: Any, observed: Any) -> tuple[Any, Mask | None]:
    """Separate a label matrix into labels, 0 where unknown, and the mask of what is known.

    Parameters
    ----------
    Y : array or CSR array of shape (n, L)
        NaN, which a sparse Y may store, marks an unknown label.
    observed : array, sparse matrix or frame of bool of shape (n, L), or None
        True where a label was observed; in a sparse matrix what is not stored was not.

    Returns
    -------
    Y : array or CSR array
    mask : Mask or None
        None if every label is known.
    """
    Y, unknown = _take_out_nan(Y)
    if observed is None and unknown is None:
        return Y, None
    if observed is None:
        _check_some_known(Y.shape[0] * Y.shape[1] - int(unknown.sum()))
        return Y, Mask(unknown, marks_known=False)
    known = _check_observed(observed, Y.shape)
    if unknown is not None:
        known = _without(known, unknown)
    n_known = known.count_nonzero() if is_sparse(known) else np.count_nonzero(known)
    if n_known == known.shape[0] * known.shape[1]:
        return Y, None
    _check_some_known(int(n_known))
    # What lies under an unobserved entry must not count, whatever it is.
    Y = _only_known(Y, known) if is_sparse(Y) else np.where(_dense(known), Y, 0).astype(Y.dtype)
    return Y, Mask(known)


def _only_known(Y: Any, known: Any) -> Any:
    """Return the stored entries of a sparse Y that are known; a product would turn infinity into NaN."""
    rows, columns = Y.tocoo().coords
    keep = np.asarray(_dense(known[rows, columns])).ravel()
    return sp.csr_array((Y.data[keep], (rows[keep], columns[keep])), shape=Y.shape)


def _check_some_known(n_known: int) -> None:
    if n_known == 0:
        raise ValueError("some label must be known, got a Y of which nothing is. Check the mask, or drop Y.")


def _take_out_nan(Y: Any) -> tuple[Any, Any]:
    """Replace NaN by 0; return where it was, in the form of Y, or None if it was nowhere."""
    stored = Y.data if is_sparse(Y) else Y
    if stored.dtype.kind != "f":
        return Y, None
    missing = np.isnan(stored)
    if not missing.any():
        return Y, None
    if not is_sparse(Y):
        return np.where(missing, 0.0, Y), missing
    # Copies, as eliminate_zeros works in place.
    pattern = sp.csr_array((missing.copy(), Y.indices.copy(), Y.indptr.copy()), shape=Y.shape)
    pattern.eliminate_zeros()
    clean = sp.csr_array((np.where(missing, 0.0, Y.data), Y.indices.copy(), Y.indptr.copy()), shape=Y.shape)
    clean.eliminate_zeros()
    return clean, pattern


def _check_observed(observed: Any, shape: tuple[int, int]) -> Any:
    try:
        known = as_matrix(observed)
    except ValueError:  # lists of unequal length
        known = np.empty(len(observed), dtype=object)
    if is_sparse(known):
        known = known.tocsr()  # the values of some formats are not an array
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
    if is_sparse(known):
        pattern = sp.csr_array(known.astype(np.bool_))
        pattern.sum_duplicates()
        pattern.eliminate_zeros()
        return pattern
    return known.astype(np.bool_)


def _without(known: Any, unknown: Any) -> Any:
    """Return the known entries that are not marked as unknown as well."""
    if not is_sparse(known):
        return known & ~_dense(unknown)
    both = known.multiply(sp.csr_array(unknown))
    rest = sp.csr_array(known.astype(np.int8) - both.astype(np.int8))
    rest.eliminate_zeros()
    return rest.astype(np.bool_)


def _dense(matrix: Any) -> Any:
    return matrix.toarray() if is_sparse(matrix) else matrix
