"""Checks of label matrices, masks of known labels, weights and thresholds."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn import get_config

from lrml._shown import shown
from lrml.core.arrays import HOST, Array, Place, as_matrix, is_host, is_sparse, namespace, plain
from lrml.core.rows import Mask

_LARGEST = 1e100
_BINARY_REMEDY = "Encode the labels with MultiLabelBinarizer"
_REAL_REMEDY = ", or pass targets='real' to fit real values"
_CLASSES_REMEDY = "Wrap the model in OneVsRestClassifier, or encode lists of labels with MultiLabelBinarizer"


class Targets(NamedTuple):
    """Validated label matrix: CSR or dense, with the mask of known labels.

    ``names`` are those of the columns of a frame, or the two classes if Y was ``flat``: one label, in 1-D.
    """

    values: Any
    names: npt.NDArray[Any] | None
    mask: Mask | None = None
    flat: bool = False


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
    except (TypeError, ValueError, OverflowError):
        return None


def check_frame(frame: Any, name: str) -> None:
    """Reject data that is still to be computed, and a frame two of whose columns have the same name."""
    graph = getattr(frame, "__dask_graph__", None)
    if graph is not None and graph() is not None:
        raise TypeError(
            f"{name} must be an array, sparse matrix or frame with its values at hand, got a Dask "
            f"{type(frame).__name__}. Use fit(model, X, y) and predict(model, X) of lrml.engines.dask, which "
            f"take it block by block, or pass {name}.compute() if it fits into memory."
        )
    if hasattr(frame, "collect") and hasattr(frame, "collect_schema"):
        raise TypeError(
            f"{name} must be an array, sparse matrix or frame with its values at hand, got a polars "
            f"LazyFrame. Pass {name}.collect()."
        )
    counts = Counter(getattr(frame, "columns", ()))
    repeated = [(column, times) for column, times in counts.items() if times > 1]
    if repeated:
        column, times = repeated[0]
        raise ValueError(
            f"the columns of {name} must have different names, got {shown(column)} {times} times. "
            "Rename or drop the repeated columns."
        )


def place_of(value: Any, name: str) -> Place:
    """Return where an array lives, as scikit-learn sees it: those of other namespaces need its dispatch."""
    place = Place.of(value)
    if place.is_host or get_config()["array_api_dispatch"]:
        return place
    try:
        np.asarray(value)
    except Exception as error:
        raise needs_dispatch(name, place) from error
    return HOST


def needs_dispatch(
    name: str, place: Place, instead: str = "pass a NumPy array, with device='cuda' for a fit there"
) -> TypeError:
    """Return the error for an array of another namespace without scikit-learn's dispatch."""
    return TypeError(
        f"{name} must be a NumPy array or sparse matrix unless scikit-learn's array API dispatch is on, got "
        f"an array of {place}. Set SCIPY_ARRAY_API=1 in the environment and call "
        f"sklearn.set_config(array_api_dispatch=True), or {instead}."
    )


def following(place: Place, **given: Any) -> list[Any]:
    """Return what can follow X to its place: labels, masks or weights of NumPy, or there already."""
    values = [plain(value, name) for name, value in given.items()]
    for name, value in zip(given, values, strict=True):
        there = place_of(value, name)
        if not there.is_host and there != place:
            rest = "" if place.is_host else f", or pass {name} as a NumPy array, which follows X"
            raise ValueError(
                f"X and {name} must live in the same place, got X with {place} and {name} with {there}. Move "
                f"one of them{rest}."
            )
    return values


def check_targets(
    Y: Any,
    targets: str,
    *,
    allow_unknown: bool = False,
    observed: Any = None,
    offers_real: bool = True,
    allow_flat: bool = False,
    some_known: bool = True,
    place: Place = HOST,
) -> Targets:
    """Validate a label matrix: 2-D, at least one label, finite, and 0/1 if ``targets`` is "binary".

    NaN marks an unknown label if ``allow_unknown``; ``observed`` marks the known ones, of which there must be
    one if ``some_known``. Unknown labels are 0 in the matrix that is returned, and the mask is None if there
    are none. If ``allow_flat``, a 1-D Y is one label, and may then have any two classes. The result lives in
    the given place, where Y may be already.
    """
    if not place.is_host:
        given = {"allow_unknown": allow_unknown, "observed": observed, "allow_flat": allow_flat}
        return _check_elsewhere(Y, targets, place, **given, offers_real=offers_real, some_known=some_known)
    if Y is None:
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None. Pass a label matrix."
        )
    check_frame(Y, "Y")
    columns = getattr(Y, "columns", None)
    names = None if columns is None else np.asarray(columns, dtype=object)
    flat = _flat_values(Y) if allow_flat else None
    if flat is not None:
        Y, names = (flat, None) if targets == "real" else _as_zero_one(flat)
        Y = Y[:, None]
        observed = observed if np.ndim(observed) != 1 else np.asarray(observed)[:, None]
    remedy = f"{_BINARY_REMEDY}{_REAL_REMEDY if offers_real else ''}."
    values = _numeric_matrix(Y)
    if values.shape[1] == 0:
        raise ValueError("Y must have at least one label (column), got 0. Pass one column per label.")
    mask = None
    if allow_unknown:
        _check_same_columns(names, observed)
        values, mask = split_unknown(values, observed, some_known=some_known)
    stored = values.data if is_sparse(values) else values
    if not np.all(np.isfinite(stored)):
        found = "NaN" if np.any(np.isnan(stored)) else "infinity"
        raise ValueError(
            f"Input Y contains {found}; every label must be a finite number. Impute or drop those rows."
        )
    largest = np.max(np.abs(stored), initial=0.0) if targets == "real" else 0.0
    if largest > _LARGEST:
        raise ValueError(
            f"real targets must stay below {_LARGEST:.0e}, as squares of sums of them must be finite, got "
            f"{largest:.1e}. Divide Y by a constant."
        )
    if targets == "binary":
        strange = stored[(stored != 0) & (stored != 1)]
        if strange.size:
            kind = "" if float(strange.flat[0]).is_integer() else "the continuous value "
            raise ValueError(
                "Only binary classification is supported: Y must hold only 0 and 1, "
                f"got {kind}{strange.flat[0]!s}. {remedy}"
            )
    return Targets(values, names, mask, flat is not None)


def _check_elsewhere(Y: Any, targets: str, place: Place, *, observed: Any, **options: Any) -> Targets:
    """Validate labels for a place on a device; what is in order there is not copied to the host."""
    there = Place.of(Y)
    if not there.is_host and observed is None:
        found = _plain_matrix(Y, targets, allow_unknown=options["allow_unknown"])
        if found is not None:
            return found
    # The rare cases, and all errors, are left to the checks of NumPy arrays.
    host = Y if there.is_host else HOST.asarray(Y)
    observed = observed if Place.of(observed).is_host else HOST.asarray(observed)
    values, names, mask, flat = check_targets(host, targets, observed=observed, **options)
    if mask is not None:
        mask = Mask(place.asarray(mask.pattern), mask.marks_known)
    return Targets(place.asarray(values), names, mask, flat)


def _plain_matrix(Y: Array, targets: str, *, allow_unknown: bool) -> Targets | None:
    """Return a 2-D matrix of 0/1 or moderate real numbers, some of them NaN; None for all else."""
    xp = namespace(Y)
    if Y.ndim != 2 or Y.shape[1] == 0 or xp.isdtype(Y.dtype, "complex floating"):
        return None
    if xp.isdtype(Y.dtype, "bool") or (targets == "real" and xp.isdtype(Y.dtype, "integral")):
        return Targets(Y, None)
    if targets == "real":
        right = xp.abs(Y) <= min(_LARGEST, float(xp.finfo(Y.dtype).max))  # single precision ends before
    else:
        right = (Y == 0) | (Y == 1)  # NaN is neither
    if bool(xp.all(right)):
        return Targets(Y, None)
    if not (allow_unknown and xp.isdtype(Y.dtype, "real floating")):
        return None
    unknown = xp.isnan(Y)
    if not bool(xp.all(right | unknown) & xp.any(right)):
        return None
    return Targets(xp.where(unknown, xp.zeros_like(Y), Y), None, Mask(unknown, marks_known=False))


def _flat_values(Y: Any) -> npt.NDArray[Any] | None:
    """Return 1-D targets as an array; None for a matrix, and for lists of labels."""
    if is_sparse(Y):
        return None
    try:
        values = as_matrix(Y)
    except ValueError:  # lists of unequal length
        return None
    if is_sparse(values) or values.ndim != 1:
        return None
    scalar = values.dtype != object or all(value is None or np.isscalar(value) for value in values)
    return values if scalar else None


def _as_zero_one(y: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """Return a 1-D y as 0, 1 and NaN, and its two classes, of which the second one is 1."""
    if y.dtype == object and not any(isinstance(value, str | bytes) for value in y):
        y = np.asarray(y, dtype=np.float64)
    if y.dtype.kind == "c" or (y.dtype.kind == "f" and np.isinf(y).any()):
        return y, None  # refused as in a matrix
    known = ~np.isnan(y) if y.dtype.kind == "f" else np.ones(len(y), dtype=np.bool_)
    if y.dtype.kind in "biuf" and np.isin(y[known], (0, 1)).all():
        return y, np.array([0, 1], dtype=y.dtype)
    rule = "Only binary classification is supported: a 1-D y must hold two classes"
    try:
        classes = np.unique(y[known])
    except TypeError:
        raise ValueError(f"{rule}, got some that have no order. Pass only numbers, or only text.") from None
    broken = [value for value in classes.tolist() if isinstance(value, float) and not value.is_integer()]
    if broken:
        raise ValueError(f"{rule}, got the continuous value {broken[0]}. Pass targets='real' to fit it.")
    if len(classes) != 2:
        found = ", ".join(shown(value) for value in classes[:3].tolist())
        more = ", …" if len(classes) > 3 else ""
        raise ValueError(f"{rule}, got {len(classes)} ({found}{more}). {_CLASSES_REMEDY}.")
    positive = y == classes[1]
    return positive if known.all() else np.where(known, positive, np.nan), classes


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
    if names is None or not is_host(fitted) or fitted.dtype.kind != "O" or list(names) == list(fitted):
        return
    expected, got = next(
        ((a, b) for a, b in zip(fitted, names, strict=False) if a != b), (len(fitted), len(names))
    )
    raise ValueError(
        f"the columns of Y must be named and ordered as in fit, got {shown(got)} where {shown(expected)} "
        "was. Reorder them with Y[list(model.classes_)]."
    )


def _numeric_matrix(Y: Any) -> Any:
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
            f"Unknown label type: Y must hold numbers, got {shown(str(values.flat[0]))}. {_BINARY_REMEDY}."
        )
    return numbers_only


def check_sample_weight(sample_weight: Any, n_rows: int, place: Place = HOST) -> Array | None:
    """Validate weights: one per row, finite, not negative, not all zero; they are moved to a place."""
    if sample_weight is None:
        return None
    if not place.is_host:
        there = Place.of(sample_weight)
        if there == place and sample_weight.shape == (n_rows,):
            xp, weights = place.xp, place.asarray(sample_weight, "float64")
            if bool(xp.all(xp.isfinite(weights) & (weights >= 0)) & xp.any(weights > 0)):
                return weights
        here = sample_weight if there.is_host else HOST.asarray(sample_weight)
        return place.asarray(check_sample_weight(here, n_rows))
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


def split_unknown(Y: Any, observed: Any, *, some_known: bool = True) -> tuple[Any, Mask | None]:
    """Separate a label matrix into labels, 0 where unknown, and the mask of known labels.

    Parameters
    ----------
    Y : array or CSR array of shape (n, L)
        NaN, which a sparse Y may store, marks an unknown label.
    observed : array, sparse matrix or frame of bool of shape (n, L), or None
        True where a label was observed; in a sparse matrix, entries not stored were not.
    some_known : bool, default=True
        Whether to refuse a Y of which nothing is known, which some of the rows may be.

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
        if some_known:
            _check_some_known(Y.shape[0] * Y.shape[1] - int(unknown.sum()))
        return Y, Mask(unknown, marks_known=False)
    known = _check_observed(observed, Y.shape)
    if unknown is not None:
        known = _without(known, unknown)
    n_known = known.count_nonzero() if is_sparse(known) else np.count_nonzero(known)
    if n_known == known.shape[0] * known.shape[1]:
        return Y, None
    if some_known:
        _check_some_known(int(n_known))
    # The value of an unobserved entry must not count, whatever it is.
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
    """Replace NaN by 0; return where it was, in the form of Y, or None if there was none."""
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
