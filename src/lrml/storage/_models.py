"""Estimators in a model file: parameters and fitted attributes by name, each checked on the way back.

::

    {"kind": "LRML", "params": {name: value}, "fitted": {name: value}}

A fit is one record, `lrml.estimators.Fitted`, whose parts go by the names of the public attributes. A search
has its own attributes and the models that it has chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from lrml import estimators
from lrml._door import check_threshold
from lrml._shown import shown
from lrml.core.arrays import is_sparse
from lrml.core.checks import is_integer
from lrml.core.losses import LOSSES
from lrml.core.rows import Schema
from lrml.solvers import Factors
from lrml.storage._container import ModelFileError
from lrml.storage._values import Reader, Writer
from lrml.thresholds import Cut

_MEMBERS = ("CPLST", "LEML", "LRML", "MLFro", "MLTrace", "PLST", "SpectralRegressor")
_SEARCHES = ("CPLSTCV", "LEMLCV", "LRMLCV", "MLFroCV", "MLTraceCV")
MODELS: dict[str, Any] = {name: getattr(estimators, name) for name in (*_MEMBERS, *_SEARCHES)}
"""The classes that a file may name; nothing is imported by a name from a file."""

_AGAIN = "Save the model again."


class Sides(NamedTuple):
    """Numbers that the shapes of all attributes follow from."""

    rows: int  # of U: features, or training rows of a kernel
    rank: int
    labels: int
    features: int


Rule = Callable[[Any, Sides], bool]


def _vector(side: str) -> Rule:
    return lambda value, sides: _is_array(value, "f", (getattr(sides, side),))


def _is_array(value: Any, kinds: str, shape: tuple[int, ...]) -> bool:
    """Whether a value is an array of this shape, finite if of floats."""
    if not isinstance(value, np.ndarray) or value.dtype.kind not in kinds or value.shape != shape:
        return False
    return value.dtype.kind != "f" or bool(np.all(np.isfinite(value)))


def _is_count(value: Any, sides: Sides) -> bool:
    return is_integer(value) and 0 <= value < 1 << 48


def _is_number(value: Any, sides: Sides) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _is_bool(value: Any, sides: Sides) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_names(value: Any, count: int, kinds: str) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in kinds and value.shape == (count,)


def _is_table(value: Any, sides: Sides) -> bool:
    """Whether a value is a dictionary of columns of equal length; one of them may be a list."""
    if not isinstance(value, dict):
        return False
    columns = list(value.values())
    listed = all(isinstance(one, list) or (isinstance(one, np.ndarray) and one.ndim == 1) for one in columns)
    return listed and len({len(one) for one in columns}) <= 1


def _is_threshold(value: Any, sides: Sides) -> bool:
    return value is None or _is_number(value, sides) or _is_array(value, "f", (sides.labels,))


def _is_rows(value: Any, shape: tuple[int, int]) -> bool:
    return bool(value.shape == shape) if is_sparse(value) else _is_array(value, "f", shape)


def _is_settings(value: Any, sides: Sides) -> bool:
    return isinstance(value, dict)


def _is_text(value: Any, sides: Sides) -> bool:
    return isinstance(value, str)


_RULES: dict[str, Rule] = {
    "alpha_": _is_number,
    "best_index_": _is_count,
    "best_indices_": _is_settings,
    "best_params_": _is_settings,
    "best_score_": _is_number,
    # Two of any kind for a 1-D y, see `_check_attributes`.
    "classes_": lambda value, sides: (
        _is_names(value, sides.labels, "OUi") or (sides.labels == 1 and _is_names(value, 2, "OUiufb"))
    ),
    "components_": lambda value, sides: (
        isinstance(value, np.ndarray)
        and value.ndim == 2
        and _is_array(value, "f", (len(value), sides.labels))
    ),
    "compression_gap_": _is_number,
    "converged_": _is_bool,
    "cv_results_": _is_table,
    "flat_output_": _is_bool,
    "feature_names_in_": lambda value, sides: _is_names(value, sides.features, "O"),
    "gamma_results_": _is_table,
    "gap_": _is_number,
    "history_": _is_table,
    "intercept_": _vector("labels"),
    "kernel_gap_": _is_number,
    "loss_": lambda value, sides: isinstance(value, str) and value in LOSSES,
    "n_features_in_": lambda value, sides: value == sides.features,
    "n_iter_": _is_count,
    "n_passes_": _is_count,
    "n_splits_": _is_count,
    "objective_": _is_number,
    "refit_time_": _is_number,
    "residual_": _is_number,
    "ridge_": lambda value, sides: _is_number(value, sides) or _vector("labels")(value, sides),
    "space_": lambda value, sides: value in ("coefficients", "predictions"),
    "sparse_output_": _is_bool,
    "status_": _is_text,
    "theta_": _is_count,
    "threshold_": _is_threshold,
    "unseen_labels_": lambda value, sides: _is_array(value, "b", (sides.labels,)),
    "X_fit_": lambda value, sides: _is_rows(value, (sides.rows, sides.features)),
}
# Parts of the record of a fit by the names of attributes, and those that are about its columns.
_OF_FIT = {
    **{f"{name}_": name for name in ("alpha", "compression_gap", "components", "converged", "factors")},
    **{f"{name}_": name for name in ("gap", "history", "intercept", "kernel", "kernel_gap", "n_iter")},
    **{
        f"{name}_": name
        for name in ("n_passes", "objective", "residual", "ridge", "space", "status", "theta", "X_fit")
    },
    "loss_": "loss_name",
    "threshold_": "cut",
    "unseen_labels_": "unseen",
}
_OF_COLUMNS = {
    "classes_": "label_names",
    "feature_names_in_": "feature_names",
    "flat_output_": "flat",
    "n_features_in_": "n_features",
    "sparse_output_": "sparse_labels",
}
_OF_SEARCH = (
    *("best_estimator_", "best_estimators_", "best_index_", "best_indices_", "best_params_", "best_score_"),
    *("cv_results_", "gamma_results_", "n_splits_", "refit_time_"),
)
# Parts that every fit has.
_REQUIRED = (
    *("converged_", "flat_output_", "history_", "intercept_", "loss_", "n_features_in_", "n_iter_"),
    *("objective_", "residual_", "sparse_output_", "status_", "unseen_labels_"),
)
_NARROW = ("intercept_", "components_")


def check_saveable(estimator: Any) -> None:
    """Refuse, before any file is opened, what is not a fitted estimator of this library."""
    if MODELS.get(type(estimator).__name__) is not type(estimator):
        raise TypeError(
            f"a model file holds an estimator of lrml ({', '.join(MODELS)}), got {shown(estimator)}. Save a "
            "model of a class of your own with skops or joblib."
        )
    check_is_fitted(estimator, "fitted_")
    _check_params(estimator)


def _check_params(estimator: Any) -> None:
    """Check the parameters of a model, except whether there is a device of that name: fits alone need it."""
    device = vars(estimator).get("device")
    if device is None or isinstance(device, str):
        estimator = copy(estimator).set_params(**({} if device is None else {"device": None}))
    estimator._check_params()


def encode_model(writer: Writer, estimator: Any, name: str) -> dict[str, Any]:
    """Return the JSON for a fitted estimator, brought home from its device."""
    check_saveable(estimator)
    record: estimators.Fitted = estimator.fitted_
    kernel = record.kernel
    if kernel is not None and not isinstance(kernel.metric, str):
        raise TypeError(
            f"a model file holds kernels by name, got the function {shown(kernel.metric)}, which a file that "
            "runs no code cannot hold. Fit with kernel='precomputed' on the values of your function."
        )
    if kernel is not None and writer.dtype is not None:
        raise ValueError(
            f"dtype={np.dtype(writer.dtype).name!r} is for linear models, got kernel={kernel.metric!r}, "
            "whose coefficients are large and cancel each other. Leave out dtype."
        )
    for key in vars(estimator):
        if key.endswith("_") and not key.startswith("_") and key not in ("fitted_", *_OF_SEARCH):
            raise TypeError(
                f"a model file holds the attributes of fits by this version of lrml, got {key}. Delete it, "
                "or fit again."
            )
    if type(estimator).__name__ in _SEARCHES:
        fitted = {key: vars(estimator)[key] for key in _OF_SEARCH if key in vars(estimator)}
    else:
        fitted = {key: getattr(record, part) for key, part in _OF_FIT.items()}
        fitted |= {key: getattr(record.schema, part) for key, part in _OF_COLUMNS.items()}
    return {
        "kind": type(estimator).__name__,
        "params": encode_params(writer, estimator, name),
        "fitted": {
            key: _encode_attribute(writer, key, value, f"{name}{key}")
            for key, value in fitted.items()
            if value is not None
        },
    }


def encode_params(writer: Writer, estimator: Any, name: str) -> dict[str, Any]:
    """Return the JSON for the parameters of an estimator; a function is refused."""
    found = {}
    for key, value in estimator.get_params(deep=False).items():
        try:
            plain = asdict(value) if isinstance(value, Cut) else value
            found[key] = writer.encode(plain, f"{name}params.{key}")
        except TypeError as error:
            default = type(estimator)().get_params(deep=False)[key]
            raise TypeError(
                f"{error} Use settings that are not functions or objects, or, if it matters to fit "
                f"only, set_params({key}={default!r}) before you save."
            ) from None
    return found


def _encode_attribute(writer: Writer, key: str, value: Any, name: str) -> Any:
    if key == "factors_":
        return {
            part: writer.array(one, f"{name}.{part}", narrow=True) for part, one in value._asdict().items()
        }
    if key == "kernel_":
        return {part: writer.encode(getattr(value, part), name) for part in value.__dataclass_fields__}
    if key == "best_estimator_":
        return encode_model(writer, value, f"{name}.")
    if key == "best_estimators_":
        return {metric: encode_model(writer, one, f"{name}.{metric}.") for metric, one in value.items()}
    if key in _NARROW:
        return writer.array(value, name, narrow=True)
    return writer.encode(value, name)


def decode_model(reader: Reader, found: Any, *, newer: bool, kinds: tuple[str, ...] = tuple(MODELS)) -> Any:
    """Return the estimator that JSON stands for; ``newer``: names that we do not know are left out."""
    kind, params, fitted = parts(found, kinds)
    model = new_estimator(reader, MODELS[kind], params, newer=newer)
    try:
        _check_params(model)
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"parameters of {kind} must pass its own checks, got: {error}") from None
    attributes = {
        key: _decode_attribute(reader, kind, key, value, newer=newer)
        for key, value in fitted.items()
        if not newer or key in _RULES or key in _SPECIAL
    }
    vars(model).update(_of_search(kind, attributes) if kind in _SEARCHES else _of_fit(kind, attributes))
    _check_threshold(model)
    return model


def _of_fit(kind: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a fit, all parts of which belong together."""
    _check_attributes(kind, attributes)
    n_labels = _sides(attributes).labels
    found: Any = {part: attributes.get(key) for key, part in _OF_FIT.items()}
    columns: Any = {part: attributes.get(key) for key, part in _OF_COLUMNS.items()}
    dtype = attributes["factors_"].U.dtype
    schema = Schema(**columns, n_labels=n_labels, dtype=dtype, sparse_features=False)
    largest = [float(np.max(np.abs(factor), initial=0.0)) for factor in attributes["factors_"]]
    with np.errstate(over="ignore"):
        if not np.prod(largest) * max(1, attributes["factors_"].s.size) < np.finfo(dtype).max:
            raise ModelFileError(f"coefficients must be finite, got factors with a larger product. {_AGAIN}")
    return {"fitted_": estimators.Fitted(schema=schema, **found)}


def _of_search(kind: str, attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the attributes of a search, all models of which have the same features and labels."""
    best = attributes.get("best_estimator_")
    if best is None:
        raise ModelFileError(f"a fitted {kind} must have best_estimator_. {_AGAIN}")
    record: estimators.Fitted = best.fitted_
    sides = Sides(0, record.rank, record.n_labels, record.schema.n_features)
    _check_rules(kind, attributes, sides)
    for one in attributes.get("best_estimators_", {}).values():
        if (one.fitted_.n_labels, one.fitted_.schema.n_features) != sides[2:]:
            raise ModelFileError(f"the fits of a search must have its features and labels. {_AGAIN}")
    return attributes | {"fitted_": record}


def parts(found: Any, kinds: tuple[str, ...]) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return kind, parameters and attributes of an estimator in JSON."""
    kind = found.get("kind") if isinstance(found, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        raise ModelFileError(
            f"an estimator in a model file must be one of {', '.join(kinds)}, got {shown(kind)}. Install a "
            "newer lrml if the file was written by one."
        )
    params, fitted = found.get("params"), found.get("fitted")
    if not isinstance(params, dict) or not isinstance(fitted, dict):
        raise ModelFileError(f"{kind} must have parameters and attributes by name. {_AGAIN}")
    return kind, params, fitted


def new_estimator(reader: Reader, kind: Any, params: dict[str, Any], *, newer: bool) -> Any:
    """Return an estimator with parameters from a file; one that is not there has its default."""
    known = kind().get_params(deep=False)
    if unknown := [key for key in params if key not in known and not newer]:
        raise ModelFileError(
            f"parameters of {kind.__name__} must be among {', '.join(known)}, got {shown(unknown[0])}. "
            f"{_AGAIN}"
        )
    found = {key: reader.decode(value) for key, value in params.items() if key in known}
    if isinstance(found.get("threshold"), dict):
        try:
            found["threshold"] = Cut(**found["threshold"])
        except (TypeError, ValueError) as error:
            raise ModelFileError(f"the threshold of {kind.__name__} is none: {error} {_AGAIN}") from None
    return kind(**found)


_SPECIAL = ("factors_", "kernel_", "best_estimator_", "best_estimators_")


def _decode_attribute(reader: Reader, kind: str, key: str, value: Any, *, newer: bool) -> Any:
    if key not in _SPECIAL:
        return reader.decode(value)
    if not isinstance(value, dict):
        raise ModelFileError(f"{key} must be an object, got {shown(value)}. {_AGAIN}")
    if key == "factors_":
        return _decode_factors(reader, value)
    if key == "kernel_":
        return _decode_kernel(value)
    # A search holds fits of its own member, and these hold none.
    member = (kind.removesuffix("CV"),) if kind in _SEARCHES else ()
    if key == "best_estimator_":
        return decode_model(reader, value, newer=newer, kinds=member)
    return {metric: decode_model(reader, one, newer=newer, kinds=member) for metric, one in value.items()}


def _decode_factors(reader: Reader, value: dict[str, Any]) -> Factors:
    if value.keys() != {"U", "s", "V"}:
        raise ModelFileError(f"factors_ must be U, s and V, got {shown(list(value))}. {_AGAIN}")
    U, s, V = (reader.decode(value[part]) for part in ("U", "s", "V"))
    shapes = tuple(np.shape(one) if isinstance(one, np.ndarray) else None for one in (U, s, V))
    rank = len(s) if isinstance(s, np.ndarray) and s.ndim == 1 else -1
    if not all(
        isinstance(one, np.ndarray) and one.ndim == 2 and _is_array(one, "f", (len(one), rank))
        for one in (U, V)
    ):
        raise ModelFileError(
            "factors_ must be finite numbers U (d × k), s (k) and V (L × k), got shapes "
            f"{shown(shapes)}. {_AGAIN}"
        )
    if not _is_array(s, "f", (rank,)) or np.any(s < 0) or not U.dtype == s.dtype == V.dtype:
        raise ModelFileError(f"singular values must be finite and at least 0, got others. {_AGAIN}")
    return Factors(U, s, V)


def _decode_kernel(value: dict[str, Any]) -> estimators.Kernel:
    names = {"metric", "gamma", "degree", "coef0"}
    if value.keys() != names or value["metric"] not in estimators.KERNELS:
        raise ModelFileError(f"kernel_ must be a known kernel, got {shown(value)}. {_AGAIN}")
    numbers = [value[key] for key in ("gamma", "degree", "coef0") if key != "gamma" or value[key] is not None]
    if not all(type(one) in (int, float) for one in numbers):
        raise ModelFileError(f"parameters of kernel_ must be numbers, got {shown(value)}. {_AGAIN}")
    return estimators.Kernel(**value)


def _sides(attributes: Mapping[str, Any]) -> Sides:
    U, s, V = attributes["factors_"]
    return Sides(len(U), len(s), len(V), attributes["n_features_in_"])


def _check_attributes(kind: str, attributes: dict[str, Any]) -> None:
    """Check every attribute against its rule, and shapes against each other."""
    missing = [key for key in ("factors_", *_REQUIRED) if key not in attributes]
    if missing or not _is_count(attributes["n_features_in_"], Sides(0, 0, 0, 0)):
        raise ModelFileError(
            f"a fitted {kind} must have {', '.join(missing or ['n_features_in_'])}. {_AGAIN}"
        )
    sides = _sides(attributes)
    kernel = attributes.get("kernel_")
    if kernel is None or kernel.is_precomputed:
        rows_ok = sides.rows == sides.features and "X_fit_" not in attributes
    else:
        rows_ok = "X_fit_" in attributes
    if not rows_ok:
        raise ModelFileError(
            "the factors must have one row per feature (or per row of X_fit_, for a kernel), got "
            f"{sides.rows} rows and {sides.features} features. {_AGAIN}"
        )
    _check_rules(kind, attributes, sides)
    flat, n_classes = attributes["flat_output_"], len(attributes.get("classes_", range(sides.labels)))
    if (flat and sides.labels != 1) or (n_classes != sides.labels and not flat):
        rule = "one label" if flat else "a name for each label"
        raise ModelFileError(
            f"a fit to {'a 1-D y' if flat else 'a label matrix'} must have {rule}, got {sides.labels} labels "
            f"and {n_classes} classes. {_AGAIN}"
        )


def _check_rules(kind: str, attributes: dict[str, Any], sides: Sides) -> None:
    """Check every attribute against its own rule."""
    for key, value in attributes.items():
        if key not in _SPECIAL and (key not in _RULES or not _RULES[key](value, sides)):
            raise ModelFileError(
                f"{key} of a {kind} with {sides.features} features, {sides.labels} labels and rank "
                f"{sides.rank} must be known and fit to these numbers, got "
                f"{shown(_in_short(value))}. {_AGAIN}"
            )


def _in_short(value: Any) -> Any:
    return f"{value.dtype} of shape {value.shape}" if isinstance(value, np.ndarray) else value


def _check_threshold(model: Any) -> None:
    try:
        record = model.fitted_
        check_threshold(model._decision_threshold, record.n_labels, record.loss.threshold)
    except (TypeError, ValueError, AttributeError) as error:
        raise ModelFileError(f"the threshold must be one for these labels, got: {error}") from None
