"""Checks of what a record is made of, and joining of two parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml._shown import shown
from lrml.datasets._names import NumberedNames

FeatureMatrix: TypeAlias = "NDArray[np.float64] | sparse.csr_array"
LabelMatrix: TypeAlias = "NDArray[np.int8] | NDArray[np.uint8] | sparse.csr_array"


def kind(matrix: FeatureMatrix | LabelMatrix) -> str:
    return "sparse" if sparse.issparse(matrix) else "dense"


def check_matrix(key: str, matrix: object, dtypes: tuple[type, ...]) -> None:
    if not isinstance(matrix, np.ndarray | sparse.csr_array) or matrix.ndim != 2:
        shape = getattr(matrix, "shape", None)
        raise ValueError(
            f"{key} must be a two-dimensional numpy array or scipy.sparse.csr_array, got "
            f"{type(matrix).__name__} of shape {shape}. Convert it with numpy.asarray or csr_array."
        )
    if matrix.dtype not in dtypes:
        allowed = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        raise ValueError(
            f"{key} must have dtype {allowed}, got {matrix.dtype}. Convert it with {key}.astype(...)."
        )
    if 0 in matrix.shape:
        raise ValueError(
            f"{key} must have at least one row and one column, got shape {matrix.shape}. "
            "Check that the source of the data is complete."
        )
    # Duplicates would make nnz, and the 0/1 check of Y, lie about the matrix.
    if sparse.issparse(matrix) and not matrix.has_canonical_format:
        raise ValueError(
            f"a sparse {key} must have sorted column indices without duplicates, got a matrix in another "
            f"form. Call {key}.sum_duplicates() first."
        )


def check_no_infinity(X: FeatureMatrix) -> None:
    if np.any(np.isinf(X.data if isinstance(X, sparse.csr_array) else X)):
        raise ValueError(
            "X must hold finite numbers, or NaN for a missing value, got infinity. Replace it by a number."
        )


def check_unknown(unknown: object, Y: LabelMatrix) -> None:
    if not (
        isinstance(unknown, sparse.csr_array)
        and unknown.dtype == np.bool_
        and unknown.shape == Y.shape
        and unknown.has_canonical_format
    ):
        raise ValueError(
            f"unknown must be a csr_array of bool of shape {Y.shape}, like Y, without duplicates, got "
            f"{type(unknown).__name__} of dtype {getattr(unknown, 'dtype', None)} and shape "
            f"{getattr(unknown, 'shape', None)}. Pass None if all labels are known."
        )
    labels: sparse.csr_array = sparse.csr_array(Y).astype(np.bool_)
    both = int(unknown.multiply(labels).count_nonzero())
    if both:
        raise ValueError(
            f"Y must be 0 where it is unknown whether a label applies, got 1 in {both} such places. "
            "Clear Y there, or the mark."
        )


def check_binary(Y: LabelMatrix) -> None:
    values = Y.data if isinstance(Y, sparse.csr_array) else Y
    wrong = values[(values != 0) & (values != 1)]
    if wrong.size:
        raise ValueError(
            f"Y must hold only 0 and 1, got {wrong.flat[0]}. Write 1 where a label applies and 0 elsewhere."
        )


def check_names(field: str, names: Sequence[str], columns: int) -> None:
    if len(names) != columns:
        raise ValueError(
            f"{field} must name each of the {columns} columns, got {len(names)} names. "
            "Pass one name per column."
        )
    if isinstance(names, tuple) and len(set(names)) != columns:
        twice = Counter(names).most_common(1)[0][0]
        raise ValueError(
            f"{field} must be unique, got {shown(twice)} more than once. Rename one of the columns."
        )


def check_same_names(what: str, train: Sequence[str], test: Sequence[str]) -> None:
    if len(train) != len(test):
        raise ValueError(
            f"train and test must have the same {what}, got {len(train)} and {len(test)}. "
            "Check that both come from one dataset."
        )
    if isinstance(train, NumberedNames) and train == test:
        return
    for column, (left, right) in enumerate(zip(train, test, strict=True)):
        if left != right:
            raise ValueError(
                f"train and test must have the same {what} in the same order, got {shown(left)} and "
                f"{shown(right)} in column {column}. Check that both come from one dataset."
            )


def stack(key: str, train: Any, test: Any) -> Any:
    if kind(train) != kind(test) or train.dtype != test.dtype:
        raise ValueError(
            f"{key} of train and test must be stored alike, got {kind(train)} {train.dtype} and "
            f"{kind(test)} {test.dtype}. Convert one of them first."
        )
    if isinstance(train, np.ndarray):
        return np.vstack([train, test])
    blocks: list[sparse.csr_array] = [train, test]
    return sparse.vstack(blocks, format="csr")
