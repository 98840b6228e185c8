"""The door: what users pass becomes `Rows`, or is refused with the reason, before anything is summed."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, validate_data

from lrml._shown import level_of_user, shortened, shown
from lrml.core.arrays import (
    HOST,
    Array,
    Place,
    as_matrix,
    dense,
    dtype_name,
    is_host,
    is_sparse,
    namespace,
    plain,
    to_host,
    to_numpy,
)
from lrml.core.coordinates import road_of
from lrml.core.moments import Statistics
from lrml.core.rows import Mask, Rows, Schema

_LARGEST = 1e100  # squares of sums of real targets, and of weights, must be finite
# Share of a device's memory that rows may take; the rest is for what a fit makes of them.
_SHARE_OF_ROWS = 0.5


# Rows


def moved(rows: Rows, place: Place, *, sums_suffice: bool) -> Rows:
    """Return rows on a device; if they would not fit there and the loss needs no more, only their sums."""
    n, d, n_labels = rows.shape
    needed = n * (d * rows.X.dtype.itemsize + 8 * n_labels)
    given = f"{n} rows, {d} features and {n_labels} labels"
    with place.explaining_errors(given):
        if needed > _SHARE_OF_ROWS * place.memory:
            if sums_suffice and rows.all_known and road_of(rows) == "primal":
                sums = Statistics.from_arrays(rows.X, rows.Y, rows.weights, place=place)
                return replace(rows, sums=sums, only_sums=True)
            raise ValueError(
                f"{given} take {needed / 1e9:.1f} GB, more than {_SHARE_OF_ROWS:.0%} of the memory of the "
                f"device ({place}, {place.memory / 1e9:.1f} GB free). Pass device=None, or fewer rows; sums "
                "alone do for the squared loss with fewer features than rows."
            )
        return replace(
            rows,
            X=place.asarray(rows.X),
            Y=place.asarray(rows.Y),
            mask=None if rows.mask is None else rows.mask.at(place),
            weights=None if rows.weights is None else place.asarray(rows.weights),
            given=rows.X,
        )


def checked_rows(
    X: Any,
    Y: Any,
    sample_weight: Any = None,
    observed: Any = None,
    *,
    targets: str = "binary",
    classes: npt.NDArray[Any] | None = None,
    whole: bool = True,
    precomputed: bool = False,
) -> Rows:
    """Check data as ``fit`` takes it, and return its rows where X lives; the rest follows there.

    A 1-D Y has the ``classes``, by default the two that are in it. What is not the ``whole`` is a block, and
    may have no rows, no weight and no known label. ``precomputed`` kernel values must be dense.
    """
    validate = partial(check_array, ensure_min_samples=int(whole), input_name="X")
    seen, features = BaseEstimator(), check_features(X, validate, precomputed=precomputed)
    if hasattr(X, "columns"):
        validate_data(seen, X, skip_check_array=True)  # which tells it their names
    X, place = features.tocsr() if is_sparse(features) else features, Place.of(features)
    values, names, mask, flat = check_targets(Y, targets, observed, classes=classes, whole=whole, place=place)
    n_rows, n_labels = values.shape
    if X.shape[0] != n_rows:
        raise ValueError(f"X has {X.shape[0]} rows, but Y has {n_rows}. Pass labels for every row.")
    schema = Schema(
        X.shape[1],
        n_labels,
        feature_names=getattr(seen, "feature_names_in_", None),
        label_names=names,
        dtype=np.dtype(dtype_name(X)),
        sparse_features=is_sparse(X),
        sparse_labels=is_sparse(values) or is_sparse(Y),
        flat=flat,
        targets=targets,
    )
    if whole and mask is not None and targets == "binary":  # real targets have to be known
        _warn_of_unknown(mask.nowhere(), names)
    weights = None
    if sample_weight is not None:
        weights = check_sample_weight(sample_weight, n_rows, place, whole=whole)
    return Rows(X, values, mask, weights, schema=schema)


# Features


def taken(value: Any, name: str, home: Place | None = None) -> Any:
    """Return an array, sparse matrix, frame or list that can be read here; on a device it must be ``home``.

    Scikit-learn must know of arrays of other libraries (``array_api_dispatch``), unless NumPy can read them.
    """
    value = plain(value, name)
    graph = getattr(value, "__dask_graph__", None)
    if hasattr(value, "collect_schema") and hasattr(value, "collect"):
        raise TypeError(f"{name} is a LazyFrame of polars. Pass {name}.collect().")
    if graph is not None and graph() is not None:
        raise TypeError(
            f"{name} is a {type(value).__name__} of Dask. Use fit(model, X, y) and predict(model, X) of "
            f"lrml.engines.dask, or pass {name}.compute() if it fits into memory."
        )
    for column, times in Counter(getattr(value, "columns", ())).items():
        if times > 1:
            raise ValueError(f"{name} has the column {shown(column)} {times} times. Rename or drop it.")
    place = Place.of(value)
    if not (place.is_host or get_config()["array_api_dispatch"]):
        try:
            return np.asarray(value)
        except Exception as error:
            raise TypeError(
                f"{name} is an array of {place}, but scikit-learn's array API dispatch is off. Set "
                "SCIPY_ARRAY_API=1 in the environment and call sklearn.set_config(array_api_dispatch=True), "
                "or pass a NumPy array, with device='cuda' for a fit there."
            ) from error
    if home is not None and not place.is_host and place != home:
        raise ValueError(f"{name} is an array of {place}, but X or the model of {home}. Move one of them.")
    return value


def check_features(X: Any, validate: Callable[..., Any], *, precomputed: bool = False) -> Any:
    """Return X as ``validate``, a function of scikit-learn's, has it: of floats, dense, CSR or CSC."""
    X = taken(X, "X")
    xp = Place.of(X).xp
    sparse = False if precomputed else ["csr", "csc"]
    try:
        return validate(X, accept_sparse=sparse, dtype=[xp.float64, xp.float32])
    except ValueError as error:
        _, _, text = str(error).partition("could not convert string to float: ")
        if not text:
            raise
        text = shortened(text.removeprefix("np.str_(").removesuffix(")"))
        raise ValueError(
            f"X holds texts, such as {text}, not numbers. Use lrml.TextTagger for texts, or TfidfVectorizer "
            "or OneHotEncoder."
        ) from None


def warn_of_ranges(ranges: Array, names: npt.NDArray[Any] | None = None) -> None:
    """Warn if some features vary so little, compared with others, that rounding may swamp them."""
    xp = namespace(ranges)
    small = (ranges > 0) & (ranges < 1e-8 * xp.max(ranges))
    if bool(xp.any(small)):
        ranges, lost = to_numpy(ranges), np.flatnonzero(to_numpy(small))
        largest = int(np.argmax(ranges))
        places = [*lost[:5].tolist(), largest]
        *few, beside = [shown(place if names is None else names[place]) for place in places]
        more = f" and {len(lost) - 5} more" if len(lost) > 5 else ""
        warnings.warn(
            f"column(s) {', '.join(few)}{more} of X vary up to {ranges[largest] / ranges[lost].min():.0e} "
            f"times less than column {beside}: rounding may decide about them. Scale X, for example with "
            "StandardScaler.",
            UserWarning,
            stacklevel=level_of_user(),
        )


def warn_of_spreads(statistics: Statistics, schema: Schema) -> None:
    """Warn of the same, given sums over rows."""
    xp = statistics.place.xp
    with np.errstate(invalid="ignore", divide="ignore"):
        spreads = xp.sqrt(xp.linalg.diagonal(statistics.xx) / statistics.weight)
    warn_of_ranges(spreads, schema.feature_names)


# Labels


def check_targets(
    Y: Any,
    targets: str,
    observed: Any = None,
    *,
    classes: npt.NDArray[Any] | None = None,
    whole: bool = True,
    place: Place = HOST,
) -> tuple[Any, npt.NDArray[Any] | None, Mask | None, bool]:
    """Check a label matrix: 2-D, at least one label, and 0/1, or finite if ``targets`` is "real".

    NaN marks an unknown label; ``observed`` marks the known ones, of which there must be one if this is the
    ``whole`` of Y. A 1-D Y is one label, and may have any two classes. Return the matrix, CSR or dense and 0
    where unknown, names of its columns (of a 1-D Y its two classes), the mask of known labels, None if all
    are, and whether Y was 1-D. They live in the given place; a plain matrix that is there already is not
    copied to the host.
    """
    if Y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None.")
    Y = taken(Y, "Y", place)
    observed = None if observed is None else to_host(taken(observed, "observed", place))
    values, flat, columns = Y, False, getattr(Y, "columns", None)
    names = None if columns is None else np.asarray(columns, dtype=object)
    if place.is_host or Place.of(Y) != place or Y.ndim != 2 or observed is not None:
        try:
            values = as_matrix(to_host(Y))
        except ValueError:
            raise ValueError("Y holds lists of unequal length. Use MultiLabelBinarizer.") from None
        flat = values.ndim == 1 and not is_sparse(values)
        if flat and values.dtype == object:
            flat = not any(isinstance(one, list | tuple | set) for one in values)
        if flat:
            values, names = _two_classes(values, classes) if targets == "binary" else (values, None)
            values = values[:, None]
            observed = observed if np.ndim(observed) != 1 else np.asarray(observed)[:, None]
        values = _numbers(values)
    if values.shape[1] == 0:
        raise ValueError("Y has no column. Pass one for each label.")
    if observed is not None:
        check_names("observed", getattr(observed, "columns", None), "Y", names)
    values, mask = split_unknown(values, observed, whole=whole)
    stored = values.data if is_sparse(values) else values
    wrong = are_no_labels(stored, targets)
    if bool(namespace(stored).any(wrong)):
        value = float(stored[wrong][0])
        if targets == "real":
            raise ValueError(f"Y holds {value:g}, not a number below {_LARGEST:g}. Scale Y, or drop the row.")
        raise ValueError(
            f"Only binary classification is supported: Y holds {value:g}, not only 0 and 1. Encode labels "
            "with MultiLabelBinarizer, or use SpectralRegressor for real targets."
        )
    mask = None if mask is None else mask.at(place)
    return values if place.is_host else place.asarray(values), names, mask, flat


def _warn_of_unknown(labels: npt.NDArray[np.int64], names: npt.NDArray[Any] | None) -> None:
    if len(labels):
        first = ", ".join(shown(place if names is None else names[place]) for place in labels[:5].tolist())
        more = f" and {len(labels) - 5} more" if len(labels) > 5 else ""
        warnings.warn(
            f"label(s) {first}{more} of Y are known in no row, so nothing can be learned of them. Leave them "
            "out, or look where their values went.",
            UserWarning,
            stacklevel=level_of_user(),
        )


def _numbers(values: Any) -> Any:
    """Return a matrix on the host as CSR or as a dense 2-D array of numbers, with the same values."""
    if values.ndim != 2:
        raise ValueError(
            f"Y has the shape {values.shape}, not (rows, labels). Use Y.reshape(-1, 1) for one label, or "
            "MultiLabelBinarizer for lists of labels."
        )
    if values.dtype.kind not in "biuf":
        first = (values.data if is_sparse(values) else values).flat[0]
        if is_sparse(values) or values.dtype.kind == "c":
            raise ValueError(f"Complex data not supported: Y holds {shown(first)}.")
        try:
            values = values.astype(np.float64)
        except (TypeError, ValueError):
            raise ValueError(f"Unknown label type: Y holds {shown(str(first))}, not numbers.") from None
    if is_sparse(values):
        values = values.tocsr()
        if not values.has_canonical_format:  # the same cell twice means the sum of the two
            values = values.copy()
            values.sum_duplicates()
    return values


def _two_classes(y: npt.NDArray[Any], classes: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return a 1-D y as 0, 1 and NaN where unknown, and its two classes, of which the second one is 1."""
    if y.dtype == object and not any(isinstance(value, str | bytes) for value in y):
        y = y.astype(np.float64)
    known = y == y  # noqa: PLR0124  # NaN does not equal itself
    if classes is None:
        if y.dtype.kind in "biuf" and np.isin(y[known], (0, 1)).all():
            return y, np.array([0, 1], dtype=y.dtype)
        try:
            classes = np.unique(y[known])
        except TypeError:
            kinds = sorted({type(value).__name__ for value in y[known]})
            raise ValueError(
                f"Unknown label type: a 1-D y has values of the types {', '.join(kinds)}. Pass those of one "
                "type; NaN marks an unknown label."
            ) from None
    strange = y[known & ~np.isin(y, classes)]
    if strange.size or len(classes) != 2:
        found = strange[:1].tolist() or f"{len(classes)} of them, {classes[:3].tolist()}"
        raise ValueError(
            f"Only binary classification is supported: a 1-D y has two classes, but this one has {found}. "
            "Wrap the model in OneVsRestClassifier, encode lists of labels with MultiLabelBinarizer, or use "
            "SpectralRegressor for continuous targets. If a block lacks a class, pass both as classes=."
        )
    return np.where(known, y == classes[1], np.nan), classes


def are_no_labels(numbers: Array, targets: str) -> Array:
    """Return where numbers are no labels; NaN and infinity never are."""
    xp = namespace(numbers)
    if xp.isdtype(numbers.dtype, "bool" if targets == "binary" else ("bool", "integral")):
        return xp.zeros_like(numbers, dtype=xp.bool)
    if targets == "binary":
        return (numbers != 0) & (numbers != 1)
    return ~(xp.abs(numbers) <= min(_LARGEST, float(xp.finfo(numbers.dtype).max)))


def split_unknown(Y: Any, observed: Any, *, whole: bool = True) -> tuple[Any, Mask | None]:
    """Separate labels, 0 where unknown, and the mask of known ones; None if all are.

    NaN, which a sparse Y may store, marks an unknown label; in ``observed``, what is not true, or not stored
    in a sparse matrix. Of a ``whole`` Y something must be known.
    """
    stored, unknown, size = Y.data if is_sparse(Y) else Y, None, math.prod(Y.shape)
    xp = namespace(stored)
    missing = xp.isnan(stored) if xp.isdtype(stored.dtype, "real floating") else None
    if missing is not None and bool(xp.any(missing)):
        if is_sparse(Y):
            unknown, Y = _some_stored(Y, missing).astype(np.bool_), _some_stored(Y, ~missing)
        else:
            unknown, Y = missing, xp.where(missing, xp.zeros_like(Y), Y)
    n_unknown, mask = 0 if unknown is None else _count(unknown), None
    if observed is not None:
        known = _observed(observed, Y.shape)
        if unknown is not None:
            known = known > sp.csr_array(unknown) if is_sparse(known) else known & ~dense(unknown)
        n_unknown = size - _count(known)
        # The value of an unobserved entry must not count, whatever it is.
        if n_unknown and is_sparse(Y):
            Y = _some_stored(Y, np.ravel(dense(known[Y.tocoo().coords])))
        elif n_unknown:
            Y = np.where(dense(known), Y, 0).astype(Y.dtype)
        mask = Mask(known) if n_unknown else None
    elif unknown is not None:
        mask = Mask(unknown, marks_known=False)
    if whole and n_unknown == size:
        raise ValueError("No label of Y is known. Check NaN and the mask of observed labels.")
    return Y, mask


def _observed(observed: Any, shape: tuple[int, int]) -> Any:
    """Return the mask that a user has passed, as a dense array or a CSR array of bool."""
    known = as_matrix(observed)
    known = sp.csr_array(known) if is_sparse(known) else known
    if known.shape != shape:
        raise ValueError(f"observed has the shape {known.shape}, but Y has {shape}.")
    values = known.data if is_sparse(known) else known
    if values.dtype.kind not in "biuf" or not np.all((values == 0) | (values == 1)):
        raise ValueError(f"observed holds values of type {values.dtype}, not only True and False.")
    known = known.astype(np.bool_)
    if is_sparse(known):
        known.sum_duplicates()
        known.eliminate_zeros()
    return known


def _some_stored(matrix: Any, chosen: npt.NDArray[np.bool_]) -> Any:
    """Return the sparse matrix of some of the entries that another one stores, in their order."""
    coords = tuple(part[chosen] for part in matrix.tocoo().coords)
    return sp.csr_array((matrix.data[chosen], coords), shape=matrix.shape)


def _count(marks: Any) -> int:
    """Return how many entries are marked; a sparse matrix stores no others."""
    return int(marks.nnz if is_sparse(marks) else namespace(marks).count_nonzero(marks))


# Names, weights, thresholds


def check_names(what: str, names: Any, where: str, expected: Any) -> None:
    """Refuse columns whose names are not the expected ones, in their order; None has no names."""
    if names is None or expected is None or names is expected or list(names) == list(expected):
        return
    different = ((ours, theirs) for ours, theirs in zip(expected, names, strict=False) if ours != theirs)
    ours, theirs = next(different, (len(expected), len(names)))
    raise ValueError(
        f"{what} has the column {shown(theirs)} where {where} has {shown(ours)}. Reorder the columns."
    )


def check_label_names(names: npt.NDArray[Any] | None, fitted: npt.NDArray[Any]) -> None:
    """Refuse label columns that are named, but not as in ``fit`` or in another order."""
    if is_host(fitted) and fitted.dtype.kind == "O":
        check_names("Y", names, "the fit", fitted)


def check_sample_weight(sample_weight: Any, n_rows: int, place: Place = HOST, *, whole: bool = True) -> Array:
    """Check weights: one per row, not negative, of all rows together not all tiny, none huge; move them."""
    given = taken(sample_weight, "sample_weight", place)
    try:
        given = given if Place.of(given) == place else to_host(given)
        given = np.asarray(given) if place.is_host else given
        if "complex" in str(getattr(given, "dtype", "")):  # NumPy would warn, and drop a part
            raise TypeError
        weights = place.asarray(given, "float64")
    except (TypeError, ValueError):
        raise ValueError(f"sample_weight is {shown(sample_weight)}, not an array of real numbers.") from None
    if tuple(weights.shape) != (n_rows,):
        raise ValueError(f"sample_weight has the shape {tuple(weights.shape)}, but X has {(n_rows,)} rows.")
    xp = place.xp
    right = bool(xp.all((weights >= 0) & (weights <= _LARGEST)))
    if not right or (whole and not bool(xp.any(weights >= 1.0 / _LARGEST))):
        raise ValueError(
            f"sample_weight has values from {float(xp.min(weights))} to {float(xp.max(weights))}. None may "
            f"be negative or above {_LARGEST:.0e}, nor all of them zero or below {1.0 / _LARGEST:.0e}."
        )
    return weights


def check_threshold(threshold: Any, n_labels: int | None = None, natural: float = math.nan) -> Any:
    """Return a scalar or one finite cut per label; None stands for the natural one of the loss."""
    cut = np.array(math.nan)
    with suppress(TypeError, ValueError, OverflowError):
        given = np.asarray(natural if threshold is None else to_host(threshold))
        if given.dtype.kind not in "SUcb":  # texts, complex numbers and bools are none
            cut = given.astype(np.float64)
    fits = cut.ndim < 2 and cut.size if n_labels is None else cut.shape in ((), (n_labels,))
    if not (fits and np.all(np.isfinite(cut))):
        each = "each label" if n_labels is None else f"each of {n_labels} labels"
        raise ValueError(
            f"threshold is {shown(threshold)}. Pass a finite number, one for {each}, None for the cut that "
            "belongs to the loss, or 'auto' or a lrml.thresholds.Cut to have it chosen."
        )
    return cut
