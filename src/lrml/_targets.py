"""Checks of data as it comes in: features, labels, masks of known labels and weights; and of thresholds.

`checked_rows` makes `Rows` of all the data, or of one block of it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from lrml._shown import shortened, shown
from lrml._unknown import host_matrix, split_unknown
from lrml.core.arrays import (
    HOST,
    Array,
    Place,
    dtype_name,
    is_host,
    is_sparse,
    namespace,
    plain,
    to_host,
)
from lrml.core.rows import Mask, Rows, Schema

# Squares of sums of real targets must be finite.
_LARGEST = 1e100
_BINARY_REMEDY = "Encode the labels with MultiLabelBinarizer"
_REAL_REMEDY = "or fit real values with SpectralRegressor"
_CLASSES_REMEDY = (
    "Wrap the model in OneVsRestClassifier, or encode lists of labels with MultiLabelBinarizer. If a block "
    "lacks one of two classes, pass both as classes=."
)


class Targets(NamedTuple):
    """Validated label matrix: CSR or dense, with the mask of known labels.

    ``names`` are those of the columns of a frame, or the two classes if Y was ``flat``: one label, in 1-D.
    """

    values: Any
    names: npt.NDArray[Any] | None
    mask: Mask | None = None
    flat: bool = False


def checked_rows(
    X: Any,
    Y: Any,
    sample_weight: Any = None,
    observed: Any = None,
    *,
    targets: str = "binary",
    classes: npt.NDArray[Any] | None = None,
    allow_flat: bool = True,
    whole: bool = True,
    precomputed: bool = False,
    estimator: str | None = None,
) -> Rows:
    """Check data, and return its rows where X lives; the rest follows there.

    Parameters
    ----------
    X, Y, sample_weight, observed
        As ``fit`` takes them; Y may have NaN.
    targets : {"binary", "real"}
    classes : array of shape (2,), optional
        Those of a 1-D Y; by default the two that it has.
    allow_flat : bool, default=True
        Whether Y may be 1-D.
    whole : bool, default=True
        False for a block, of which there are others: it may have no rows, no weight and no known label.
    precomputed : bool, default=False
        Whether X has kernel values, which must be dense.
    estimator : str, optional
        Who takes the data, for messages.
    """
    validate = partial(check_array, ensure_min_samples=int(whole), input_name="X", estimator=estimator)
    seen, features = BaseEstimator(), check_features(X, validate, precomputed=precomputed)
    if hasattr(X, "columns"):
        validate_data(seen, X, skip_check_array=True)  # which tells it their names
    X, place = features.tocsr() if is_sparse(features) else features, Place.of(features)
    given, sample_weight, observed = following(place, Y=Y, sample_weight=sample_weight, observed=observed)
    Y, names, mask, flat = check_targets(
        given,
        targets,
        allow_unknown=True,
        observed=observed,
        allow_flat=allow_flat,
        classes=classes,
        whole=whole,
        place=place,
    )
    if X.shape[0] != Y.shape[0]:
        raise ValueError(
            f"X and Y must have the same number of rows, got {X.shape[0]} and {Y.shape[0]}. Pass a Y of "
            f"{X.shape[0]} rows instead of {Y.shape[0]}."
        )
    weights = check_sample_weight(sample_weight, X.shape[0], place, whole=whole)
    schema = Schema(
        X.shape[1],
        Y.shape[1],
        feature_names=getattr(seen, "feature_names_in_", None),
        label_names=names,
        dtype=np.dtype(dtype_name(X)),
        sparse_features=is_sparse(X),
        sparse_labels=is_sparse(Y) or is_sparse(given),
        flat=flat,
        targets=targets,
    )
    return Rows(X, Y, mask, weights, schema=schema)


def check_features(X: Any, validate: Callable[..., Any], *, precomputed: bool = False) -> Any:
    """Return X as ``validate``, a function of scikit-learn's, has it: of floats, dense, CSR or CSC."""
    check_frame(X, "X")
    X = plain(X, "X")
    place = place_of(X, "X")
    if not place.is_host and place.xp.isdtype(X.dtype, "complex floating"):
        raise ValueError("Complex data not supported: X must be real, got complex numbers. Pass their parts.")
    types = [place.xp.float64, place.xp.float32]
    try:
        return validate(X, accept_sparse=False if precomputed else ["csr", "csc"], dtype=types)
    except ValueError as error:
        _, _, text = str(error).partition("could not convert string to float: ")
        if not text:
            raise
        text = shortened(text.removeprefix("np.str_(").removesuffix(")"))
        raise ValueError(
            f"X must hold numbers, got the text {text}. Use lrml.TextTagger for texts, or make "
            "numbers of them, for example with TfidfVectorizer or OneHotEncoder."
        ) from None


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
    graph, what, remedy = getattr(frame, "__dask_graph__", None), None, ""
    if graph is not None and graph() is not None:
        what = f"Dask {type(frame).__name__}"
        remedy = (
            "Use fit(model, X, y) and predict(model, X) of lrml.engines.dask, which take it block by block, "
            f"or pass {name}.compute() if it fits into memory."
        )
    elif hasattr(frame, "collect") and hasattr(frame, "collect_schema"):
        what, remedy = "polars LazyFrame", f"Pass {name}.collect()."
    if what is not None:
        raise TypeError(
            f"{name} must be an array, sparse matrix or frame with its values at hand, got a {what}. {remedy}"
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
    values = {name: plain(value, name) for name, value in given.items() if value is not None}
    for name, value in values.items():
        there = place_of(value, name)
        if not there.is_host and there != place:
            rest = "" if place.is_host else f", or pass {name} as a NumPy array, which follows X"
            raise ValueError(
                f"X and {name} must live in the same place, got X with {place} and {name} with {there}. Move "
                f"one of them{rest}."
            )
    return [values.get(name) for name in given]


def check_targets(
    Y: Any,
    targets: str,
    *,
    allow_unknown: bool = False,
    observed: Any = None,
    allow_flat: bool = False,
    classes: npt.NDArray[Any] | None = None,
    whole: bool = True,
    place: Place = HOST,
) -> Targets:
    """Validate a label matrix: 2-D, at least one label, finite, and 0/1 if ``targets`` is "binary".

    NaN marks an unknown label if ``allow_unknown``; ``observed`` marks the known ones, of which there must be
    one if this is the ``whole`` of Y. Unknown labels are 0 in the matrix that is returned, and the mask is
    None if there are none. If ``allow_flat``, a 1-D Y is one label, and may then have any two classes. The
    result lives in the given place; a plain matrix that is there already is not copied to the host.
    """
    if Y is None:
        raise ValueError(
            "This estimator requires y to be passed, but the target y is None. Pass a label matrix."
        )
    check_frame(Y, "Y")
    columns = getattr(Y, "columns", None)
    names = None if columns is None else np.asarray(columns, dtype=object)
    stays = not place.is_host and Place.of(Y) == place and Y.ndim == 2 and observed is None
    values, observed = Y if stays else host_matrix(Y), None if observed is None else to_host(observed)
    flat = allow_flat and not stays and _is_flat(values)
    if flat:
        values, names = (values, None) if targets == "real" else _as_zero_one(values, classes)
        values = values[:, None]
        observed = observed if np.ndim(observed) != 1 else np.asarray(observed)[:, None]
    values, mask = _numeric_matrix(values), None
    if values.shape[1] == 0:
        raise ValueError("Y must have at least one label (column), got 0. Pass one column per label.")
    if allow_unknown:
        check_names("observed", getattr(observed, "columns", None), "Y", names)
        values, mask = split_unknown(values, observed, whole=whole)
    stored = values.data if is_sparse(values) else values
    wrong = are_no_labels(stored, targets)
    if bool(namespace(stored).any(wrong)):
        raise _no_label(float(stored[wrong][0]), targets)
    return Targets(
        place.asarray(values) if not place.is_host else values, names, mask and mask.at(place), flat
    )


def are_no_labels(numbers: Array, targets: str) -> Array:
    """Return where numbers are no labels; NaN and infinity never are."""
    xp = namespace(numbers)
    if xp.isdtype(numbers.dtype, "bool" if targets == "binary" else ("bool", "integral")):
        return xp.zeros_like(numbers, dtype=xp.bool)
    if targets == "binary":
        return ~((numbers == 0) | (numbers == 1))
    return ~(xp.abs(numbers) <= min(_LARGEST, float(xp.finfo(numbers.dtype).max)))


def _no_label(value: float, targets: str) -> ValueError:
    """Return the error for a value that is no label."""
    if not math.isfinite(value):
        found = "NaN" if math.isnan(value) else "infinity"
        return ValueError(
            f"Input Y contains {found}; every label must be a finite number. Impute or drop those rows."
        )
    if targets == "real":
        return ValueError(
            f"real targets must stay below {_LARGEST:.0e}, as squares of sums of them must be finite, got "
            f"{value:.1e}. Divide Y by a constant."
        )
    kind = "" if value.is_integer() else "the continuous value "
    return ValueError(
        f"Only binary classification is supported: Y must hold only 0 and 1, got {kind}{value:g}. "
        f"{_BINARY_REMEDY}, {_REAL_REMEDY}."
    )


def _is_flat(values: Any) -> bool:
    """Whether an array is 1-D, and has no lists or sets of labels."""
    if is_sparse(values) or values.ndim != 1:
        return False
    return values.dtype != object or all(value is None or np.isscalar(value) for value in values)


def _as_zero_one(
    y: npt.NDArray[Any], classes: npt.NDArray[Any] | None
) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None]:
    """Return a 1-D y as 0, 1 and NaN, and its two classes, of which the second one is 1."""
    if y.dtype == object and not any(isinstance(value, str | bytes) for value in y):
        y = np.asarray(y, dtype=np.float64)
    if y.dtype.kind == "c" or (y.dtype.kind == "f" and np.isinf(y).any()):
        return y, None  # refused as in a matrix
    rule = "Only binary classification is supported: a 1-D y must hold two classes"
    known = y == y  # noqa: PLR0124  # NaN does not equal itself
    if classes is None:
        if y.dtype.kind in "biuf" and np.isin(y[known], (0, 1)).all():
            return y, np.array([0, 1], dtype=y.dtype)
        try:
            found = np.unique(y[known])
        except TypeError:
            raise ValueError(
                f"{rule}, got some that have no order. Pass only numbers, or only text."
            ) from None
        broken = [value for value in found.tolist() if isinstance(value, float) and not value.is_integer()]
        if broken:
            raise ValueError(f"{rule}, got the continuous value {broken[0]}. Use SpectralRegressor.")
    else:
        found, strange = classes, y[known & ~np.isin(y, classes)]
        if strange.size:
            raise ValueError(
                f"{rule}, {shown(classes.tolist())}, got {shown(strange.tolist()[0])}. {_CLASSES_REMEDY}"
            )
    if len(found) != 2:
        some = ", ".join(shown(value) for value in found[:3].tolist())
        more = ", …" if len(found) > 3 else ""
        raise ValueError(f"{rule}, got {len(found)} ({some}{more}). {_CLASSES_REMEDY}")
    return np.where(known, y == found[1], np.nan), found


def check_names(what: str, names: Any, where: str, expected: Any) -> None:
    """Refuse columns whose names are not the expected ones, in their order; None has no names."""
    if names is None or expected is None or names is expected or list(names) == list(expected):
        return
    different = ((ours, theirs) for ours, theirs in zip(expected, names, strict=False) if ours != theirs)
    ours, theirs = next(different, (len(expected), len(names)))
    raise ValueError(
        f"the columns of {what} must be those of {where}, in the same order: got {shown(theirs)} where "
        f"{where} has {shown(ours)}. Reorder the columns."
    )


def check_label_names(names: npt.NDArray[Any] | None, fitted: npt.NDArray[Any]) -> None:
    """Refuse label columns that are named, but not as in ``fit`` or in another order."""
    if is_host(fitted) and fitted.dtype.kind == "O":
        check_names("Y", names, "the fit", fitted)


def _numeric_matrix(values: Any) -> Any:
    """Return a matrix as CSR or as a dense 2-D array of numbers, without changing its values."""
    if values.ndim != 2:
        raise ValueError(
            f"Y must be 2-D (rows × labels), got shape {values.shape}. Use Y.reshape(-1, 1) for a single "
            "label, or MultiLabelBinarizer for lists of labels."
        )
    values = values.tocsr() if is_sparse(values) else values
    if "complex" in str(values.dtype):
        raise ValueError("Complex data not supported: Y must be real, got complex numbers. Pass 0 and 1.")
    if is_sparse(values):
        if not values.has_canonical_format:  # the same cell twice means the sum of the two
            values = values.copy()
            values.sum_duplicates()
        return values
    if not is_host(values) or values.dtype.kind in "biuf":
        return values
    numbers_only = _as_floats(values)
    if numbers_only is None:
        raise ValueError(
            f"Unknown label type: Y must hold numbers, got {shown(str(values.flat[0]))}. {_BINARY_REMEDY}."
        )
    return numbers_only


def check_sample_weight(
    sample_weight: Any, n_rows: int, place: Place = HOST, *, whole: bool = True
) -> Array | None:
    """Validate weights: one per row, finite, not negative; of the whole data not all zero. They are moved."""
    if sample_weight is None:
        return None
    stays = not place.is_host and Place.of(sample_weight) == place
    weights = sample_weight if stays else _as_floats(to_host(sample_weight))
    if weights is None or tuple(weights.shape) != (n_rows,):
        received = shown(sample_weight) if weights is None else f"shape {tuple(weights.shape)}"
        raise ValueError(
            f"sample_weight must have shape ({n_rows},), one number per row, got {received}. "
            "Pass a 1-D array as long as X."
        )
    xp, weights = place.xp, place.asarray(weights, "float64")
    right = bool(xp.all(xp.isfinite(weights) & (weights >= 0)))
    if not right or (whole and not bool(xp.any(weights > 0))):
        raise ValueError(
            "sample_weight must be finite, not negative and not all zero, got values from "
            f"{float(xp.min(weights))} to {float(xp.max(weights))}. Drop the rows that should not count."
        )
    return weights
