"""Checks of what users pass in. Every message names the rule, the value received and the remedy."""

from __future__ import annotations

import math
import numbers
from collections import Counter
from copy import copy
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lrml._arrays import as_matrix, is_sparse
from lrml._shown import shown
from lrml._unknown import split_unknown
from lrml.rows import Mask
from lrml.solvers import SOLVERS, Callback, Phase

_BINARY_REMEDY = "Encode the labels with MultiLabelBinarizer"
_REAL_REMEDY = ", or pass targets='real' to fit real values"


class Targets(NamedTuple):
    """Validated label matrix: CSR or dense, the column names if it came as a frame, what is known of it."""

    values: Any
    names: npt.NDArray[Any] | None
    mask: Mask | None = None


def _is_integer(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _is_real(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def check_theta(theta: Any, n_features: int, n_labels: int) -> int:
    """Resolve theta to a count: an int as it is, a float in [0, 1] as a share of the labels (Table 2).

    A share of the labels may exceed the number of features; the count then stops at min(d, L), the most
    singular values that W has.
    """
    most = min(n_features, n_labels)
    if _is_integer(theta):
        if not 0 <= theta <= most:
            raise ValueError(
                f"theta must be in [0, {most}] (the smaller of {n_features} features and {n_labels} labels), "
                f"got {theta}. Choose a count in that range, or pass a fraction such as 0.5."
            )
        return int(theta)
    if _is_real(theta):
        if not 0.0 <= theta <= 1.0:
            raise ValueError(
                f"a float theta must be in [0, 1] (a share of the labels), got {theta}. "
                f"Pass an int, such as theta={min(most, 5)}, to count singular values."
            )
        return min(most, round(float(theta) * n_labels))
    raise TypeError(
        "theta must be an int (a count), a float (a share of the labels) or, in LRML alone, 'auto', "
        f"got {shown(theta)}. Pass a number."
    )


def check_rank(count: Any, n_features: int, n_labels: int, name: str = "rank") -> int:
    """Resolve a rank to a count of at least 1: an int as it is, a float in (0, 1] as a share of labels."""
    most = min(n_features, n_labels)
    if _is_integer(count):
        if not 1 <= count <= most:
            raise ValueError(
                f"{name} must be in [1, {most}] (the smaller of {n_features} features and {n_labels} "
                f"labels), got {count}. Choose a count in that range, or pass a fraction such as 0.5."
            )
        return int(count)
    if _is_real(count):
        if not 0.0 < count <= 1.0:
            raise ValueError(
                f"a float {name} must be in (0, 1] (a share of the labels), got {count}. "
                f"Pass an int, such as {name}={min(most, 5)}, to count."
            )
        return min(most, max(1, round(float(count) * n_labels)))
    raise TypeError(
        f"{name} must be an int (a count) or a float (a share of the labels), got {shown(count)}. "
        "Pass a number."
    )


def check_nonnegative(name: str, value: Any, remedy: str) -> float:
    """Return a finite number that is at least 0."""
    if not _is_real(value):
        raise TypeError(f"{name} must be a number, got {shown(value)}. {remedy}")
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} must be finite and at least 0, got {value}. {remedy}")
    return float(value)


def check_flag(name: str, value: Any) -> bool:
    """Return True or False; a string such as "no" would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False, got {shown(value)}. Pass a bool.")
    return bool(value)


def check_max_iter(max_iter: Any) -> int:
    """Return a positive iteration limit."""
    if not _is_integer(max_iter) or max_iter < 1:
        raise ValueError(
            f"max_iter must be an int of at least 1, got {shown(max_iter)}. Leave it out for the default."
        )
    return int(max_iter)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> str:
    """Return a string that is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        listed = ", ".join(map(repr, choices))
        raise ValueError(
            f"{name} must be one of {listed}, got {shown(value)}. Use {choices[0]!r} if in doubt."
        )
    return str(value)


def check_solver(solver: Any) -> str | Phase:
    """Return the name of a solver, or a copy of a solver object, which keeps its state to itself."""
    if isinstance(solver, str):
        return check_choice("solver", solver, SOLVERS)
    if not all(hasattr(solver, name) for name in ("name", "seeks_tolerance", "start", "step")):
        listed = ", ".join(map(repr, SOLVERS))
        raise ValueError(
            f"solver must be one of {listed} or a solver object, got {shown(solver)}. Use 'auto' if in doubt."
        )
    phase: Phase = copy(solver)
    return phase


def check_callback(callback: Any) -> Callback | None:
    """Return something that can be called, or None."""
    if callback is not None and not callable(callback):
        raise TypeError(
            f"callback must be callable or None, got {shown(callback)}. Pass a function of one argument."
        )
    checked: Callback | None = callback
    return checked


def check_threshold(threshold: Any, n_labels: int, natural: float) -> npt.NDArray[np.float64]:
    """Return a scalar or one finite cut per label; None stands for the natural one of the loss."""
    cut = _as_floats(natural if threshold is None else threshold)
    if cut is None or cut.shape not in ((), (n_labels,)) or not np.all(np.isfinite(cut)):
        raise ValueError(
            f"threshold must be a finite number or one per label ({n_labels}), got {shown(threshold)}. "
            "Use None for the cut that belongs to the loss."
        )
    return cut


def _as_floats(value: Any) -> npt.NDArray[np.float64] | None:
    """Return an array of floats, None if the value is not made of numbers."""
    try:
        return np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def check_unique_columns(frame: Any, name: str) -> None:
    """Reject a frame two of whose columns have the same name."""
    counts = Counter(getattr(frame, "columns", ()))
    repeated = [(column, times) for column, times in counts.items() if times > 1]
    if repeated:
        column, times = repeated[0]
        raise ValueError(
            f"the columns of {name} must have different names, got {shown(column)} {times} times. "
            "Rename or drop the repeated columns."
        )


def check_targets(
    Y: Any,
    targets: str,
    *,
    allow_unknown: bool = False,
    observed: Any = None,
    offers_real: bool = True,
) -> Targets:
    """Validate a label matrix: 2-D, at least one label, finite, and 0/1 if ``targets`` is "binary".

    NaN marks an unknown label if ``allow_unknown``; ``observed`` marks the known ones. Unknown labels are 0
    in the matrix that is returned, and the mask is None if there are none.
    """
    if Y is None:
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None. Pass a label matrix."
        )
    check_unique_columns(Y, "Y")
    columns = getattr(Y, "columns", None)
    names = None if columns is None else np.asarray(columns, dtype=object)
    remedy = f"{_BINARY_REMEDY}{_REAL_REMEDY if offers_real else ''}."
    values = _numeric_matrix(Y, remedy)
    if values.shape[1] == 0:
        raise ValueError("Y must have at least one label (column), got 0. Pass one column per label.")
    mask = None
    if allow_unknown:
        _check_same_columns(names, observed)
        values, mask = split_unknown(values, observed)
    stored = values.data if is_sparse(values) else values
    if not np.all(np.isfinite(stored)):
        found = "NaN" if np.any(np.isnan(stored)) else "infinity"
        raise ValueError(
            f"Input Y contains {found}; every label must be a finite number. Impute or drop those rows."
        )
    if targets == "binary":
        strange = stored[(stored != 0) & (stored != 1)]
        if strange.size:
            kind = "" if float(strange.flat[0]).is_integer() else "the continuous value "
            raise ValueError(
                "Only binary classification is supported: Y must hold only 0 and 1, "
                f"got {kind}{strange.flat[0]!s}. {remedy}"
            )
    return Targets(values, names, mask)


def _check_same_columns(names: npt.NDArray[Any] | None, observed: Any) -> None:
    """Reject a frame of observed entries whose columns are not those of Y, in the same order."""
    columns = getattr(observed, "columns", None)
    if names is not None and columns is not None and list(columns) != list(names):
        raise ValueError(
            f"the columns of observed must be those of Y, {shown(list(names)[:3])} …, got "
            f"{shown(list(columns)[:3])} …. Reorder them with observed[Y.columns]."
        )


def check_label_names(names: npt.NDArray[Any] | None, fitted: npt.NDArray[Any]) -> None:
    """Reject label columns that are named, but not as in ``fit`` or in another order."""
    if names is None or fitted.dtype.kind != "O" or list(names) == list(fitted):
        return
    expected, got = next(
        ((a, b) for a, b in zip(fitted, names, strict=False) if a != b), (len(fitted), len(names))
    )
    raise ValueError(
        f"the columns of Y must be named and ordered as in fit, got {shown(got)} where {shown(expected)} "
        "was. Reorder them with Y[list(model.classes_)]."
    )


def _numeric_matrix(Y: Any, remedy: str) -> Any:
    """Return Y as CSR or as a dense 2-D array of numbers, without changing its values."""
    try:
        values = as_matrix(Y)
    except ValueError:  # lists of unequal length
        values = np.empty(len(Y), dtype=object)
    if values.ndim != 2:
        raise ValueError(
            f"Y must be 2-D (rows × labels), got shape {values.shape}. Use Y.reshape(-1, 1) for a single "
            "label, or MultiLabelBinarizer for lists of labels."
        )
    if values.dtype.kind == "c":
        raise ValueError("Complex data not supported: Y must be real, got complex numbers. Pass 0 and 1.")
    if is_sparse(values):
        values = values.tocsr()
        if not values.has_canonical_format:  # the same cell twice means the sum of the two
            values = values.copy()
            values.sum_duplicates()
        return values
    if values.dtype.kind in "biuf":
        return values
    numbers_only = _as_floats(values)
    if numbers_only is None:
        raise ValueError(
            f"Unknown label type: Y must hold numbers, got {shown(str(values.flat[0]))}. {remedy}"
        )
    return numbers_only


def check_sample_weight(sample_weight: Any, n_rows: int) -> npt.NDArray[np.float64] | None:
    """Validate weights: one per row, finite, not negative, not all zero."""
    if sample_weight is None:
        return None
    weights = _as_floats(sample_weight)
    if weights is None or weights.shape != (n_rows,):
        received = shown(sample_weight) if weights is None else f"shape {weights.shape}"
        raise ValueError(
            f"sample_weight must have shape ({n_rows},), one number per row, got {received}. "
            "Pass a 1-D array as long as X."
        )
    if not np.all(np.isfinite(weights)) or np.any(weights < 0) or not np.any(weights > 0):
        raise ValueError(
            "sample_weight must be finite, not negative and not all zero, got values from "
            f"{weights.min()} to {weights.max()}. Drop the rows that should not count."
        )
    return weights
