"""Estimators and records in a model file.

An estimator is its class by name, its parameters and its fitted attributes; a record, above all
`lrml.estimators.Fitted`, which is what a fit has found, its fields::

    {"kind": "LRML", "params": {name: value}, "fitted": {name: value}}
    {"record": "Kernel", "fields": {name: value}}

The names stand for the classes of the tables below; nothing is imported by a name from a file. On the way
back every parameter passes the checks of its own class, and every part of a fit has to fit the others.
"""

from __future__ import annotations

import re
import warnings
from copy import copy
from dataclasses import fields as fields_of
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import MaxAbsScaler, Normalizer, StandardScaler
from sklearn.utils.validation import check_is_fitted

from lrml import estimators, penalties
from lrml._shown import shown
from lrml.core.arrays import is_sparse
from lrml.core.checks import is_integer, is_real
from lrml.core.losses import LOSSES
from lrml.core.rows import Schema
from lrml.estimators import Fitted, Kernel, LowRankModel
from lrml.solvers import Factors
from lrml.storage._container import AGAIN, ModelFileError, Tensors
from lrml.storage._values import Reader, Writer
from lrml.text import TextTagger
from lrml.thresholds import Cut

MODELS: dict[str, Any] = {
    name: found
    for name in estimators.__all__
    if isinstance(found := getattr(estimators, name), type) and issubclass(found, LowRankModel)
}
"""Estimators of labels or targets."""
del MODELS["LowRankModel"]
_TEXTS: tuple[Any, ...] = (CountVectorizer, HashingVectorizer, TfidfVectorizer)
_TRANSFORMERS: tuple[Any, ...] = (
    *(*_TEXTS, TfidfTransformer, StandardScaler, MaxAbsScaler, Normalizer, TruncatedSVD, PCA),
    *(Pipeline, FeatureUnion),
)
_CLASSES = MODELS | {one.__name__: one for one in (TextTagger, *_TRANSFORMERS)}
RECORDS: dict[str, Any] = {one.__name__: one for one in (Fitted, Schema, Factors, Kernel, Cut)}
RECORDS |= {name: found for name in penalties.__all__ if is_dataclass(found := getattr(penalties, name))}
"""Records that a file may name."""
# What a pipeline is tried with must fit into memory.
_MOST_COLUMNS = 1 << 24


def model_of(estimator: Any) -> Any:
    """Return the estimator of labels or targets: itself, that of a tagger, or the last step of a pipeline."""
    if type(estimator) is Pipeline:
        estimator = estimator.steps[-1][1]
    return getattr(estimator, "model_", None) if type(estimator) is TextTagger else estimator


def check_saveable(estimator: Any) -> None:
    """Refuse, before any file is opened, what is not a fitted model of this library."""
    model = model_of(estimator)
    if type(estimator) is TextTagger:
        check_is_fitted(estimator)
    if MODELS.get(type(model).__name__) is not type(model):
        raise TypeError(
            f"{shown(estimator)} is no model of lrml ({', '.join(MODELS)}), no TextTagger, and no Pipeline "
            "that ends with one. Save a model of a class of your own with skops or joblib."
        )
    check_is_fitted(model, "fitted_")
    others = [key for key in vars(model) if _is_state(model, key) and key != "fitted_"]
    if others and "best_estimator_" not in others:
        raise TypeError(f"{others[0]} is no attribute of a fit. Delete it before you save the model.")


class ModelWriter(Writer):
    """A `Writer` that knows estimators and records; ``dtype`` is that of models, if not their own."""

    def __init__(self, dtype: type[np.floating[Any]] | None = None) -> None:
        super().__init__()
        self.dtype = dtype

    def encode(self, value: Any, name: str) -> Any:
        """Return the JSON for a value; its tensors are named after ``name``."""
        kind = type(value).__name__
        if RECORDS.get(kind) is type(value):
            return {"record": kind, "fields": self._fields(value, name)}
        if isinstance(value, np.dtype):
            return super().encode(value.type, name)
        if not isinstance(value, BaseEstimator):
            return super().encode(value, name)
        if _CLASSES.get(kind) is not type(value):
            raise TypeError(
                f"{name} is {shown(value)}. A model file holds {', '.join(_CLASSES)}; use one of these, or "
                "save with skops or joblib."
            )
        _check_reads_texts(value, TypeError)
        fitted = {key: one for key, one in vars(value).items() if _is_state(value, key)}
        if fitted.get("fitted_") is not None and "best_estimator_" in fitted:
            del fitted["fitted_"]  # that of the best estimator
        state = {key: self.encode(one, f"{name}.{key}".lstrip(".")) for key, one in fitted.items()}
        params = {}
        for key, given in value.get_params(deep=False).items():
            try:
                params[key] = self.encode(given, f"{name}.params.{key}".lstrip("."))
            except TypeError as error:
                raise TypeError(
                    f"{error} If {key} matters to fit only, call set_params to give it another value before "
                    "you save."
                ) from None
        return {"kind": kind, "params": params, "fitted": state}

    def _fields(self, record: Any, name: str) -> dict[str, Any]:
        if isinstance(record, Fitted):
            record = self._narrowed(replace(record, sums=None))
        if isinstance(record, Kernel) and not isinstance(record.metric, str):
            raise TypeError(
                f"The kernel is the function {shown(record.metric)}, and a model file runs no code. Fit with "
                "kernel='precomputed' on the values of your function."
            )
        names = record._fields if isinstance(record, Factors) else [field.name for field in fields_of(record)]
        fields = {key: getattr(record, key) for key in names}
        return {key: self.encode(one, f"{name}.{key}") for key, one in fields.items() if one is not None}

    def _narrowed(self, fitted: Fitted) -> Fitted:
        """Return a fit with its numbers in the wanted precision."""
        if self.dtype is None or fitted.factors.U.dtype == self.dtype:
            return fitted
        if fitted.kernel is not None:
            raise ValueError(
                f"dtype={np.dtype(self.dtype).name!r} is for linear models: the coefficients of "
                f"kernel={fitted.kernel.metric!r} are large and cancel each other. Leave out dtype."
            )
        parts = (*fitted.factors, fitted.intercept)
        with np.errstate(over="ignore"):
            U, s, V, intercept = (part.astype(self.dtype) for part in parts)
        if not all(np.all(np.isfinite(part)) for part in (U, s, V, intercept)):
            raise ValueError(f"Some coefficients are too large for {np.dtype(self.dtype)}. Leave out dtype.")
        components = None if fitted.components is None else fitted.components.astype(self.dtype)
        schema = replace(fitted.schema, dtype=np.dtype(self.dtype))
        changed: Any = {"factors": Factors(U, s, V), "intercept": intercept, "components": components}
        return replace(fitted, schema=schema, **changed)


class ModelReader(Reader):
    """A `Reader` that knows estimators and records, and checks what it makes of them."""

    def __init__(self, tensors: Tensors) -> None:
        super().__init__(tensors)

    def other(self, found: dict[str, Any]) -> Any:
        """Return an estimator or a record."""
        if found.keys() == {"record", "fields"} and found["record"] in RECORDS:
            fields = {key: self.decode(one) for key, one in found["fields"].items()}
            if found["record"] == "Schema":
                fields["dtype"] = np.dtype(fields["dtype"])
            record = RECORDS[found["record"]](**fields)
            if isinstance(record, Fitted):
                _check_fit(record)
            return record
        if found.keys() == {"kind", "params", "fitted"} and found["kind"] in _CLASSES:
            return self._estimator(_CLASSES[found["kind"]], found["params"], found["fitted"])
        if "kind" in found:
            raise ModelFileError(
                f"{shown(found['kind'])} is none of {', '.join(_CLASSES)}. Install a newer lrml if the file "
                "was written by one."
            )
        return super().other(found)

    def _estimator(self, kind: Any, params: dict[str, Any], fitted: dict[str, Any]) -> Any:
        estimator = kind(**{key: self.decode(value) for key, value in params.items()})
        _check_params(estimator)
        for key, value in fitted.items():
            if not _is_state(estimator, key):
                raise ModelFileError(f"{shown(key)} is no attribute of a fitted {kind.__name__}. {AGAIN}")
            vars(estimator)[key] = self.decode(value)
        state = {key for key in vars(estimator) if _is_state(estimator, key)}
        if kind.__name__ in MODELS and state:
            _check_model(estimator, state)
        elif state:
            _check_transformer(estimator)
        return estimator


def _is_state(estimator: Any, key: str) -> bool:
    """Whether a name is that of an attribute that a fit has stored."""
    public = re.fullmatch(r"[A-Za-z]\w*_", key, re.ASCII) and not hasattr(type(estimator), key)
    return bool(public) or (key == "_tfidf" and type(estimator) is TfidfVectorizer)


def _check_params(estimator: Any) -> None:
    """Check the parameters of an estimator, except whether there is a device of that name: fits need it."""
    try:
        if isinstance(estimator, LowRankModel):
            inner = vars(estimator).get("estimator") or estimator
            if isinstance(vars(inner).get("device"), str):
                inner = copy(inner).set_params(device=None)
                estimator = inner if "estimator" not in vars(estimator) else type(estimator)(inner)
            estimator._check_params()
        elif not isinstance(estimator, TextTagger | Pipeline | FeatureUnion):
            estimator._validate_params()
            _check_reads_texts(estimator, ModelFileError)
            re.compile(getattr(estimator, "token_pattern", None) or "")
            _check_what_scikit_learn_does_not(estimator)
    except (TypeError, ValueError, re.error, OverflowError, RecursionError) as error:
        raise ModelFileError(f"A parameter of {type(estimator).__name__} is wrong: {error} {AGAIN}") from None


def _check_what_scikit_learn_does_not(estimator: Any) -> None:
    """Check the parameters that scikit-learn takes as they are."""
    first, last = getattr(estimator, "ngram_range", (1, 1))
    if not (is_integer(first) and is_integer(last) and 1 <= first <= last):
        raise ValueError(f"ngram_range is {shown(estimator.ngram_range)}, not two rising counts.")
    dtype = getattr(estimator, "dtype", np.float64)
    if not (isinstance(dtype, type) and issubclass(dtype, np.generic)):
        raise ValueError(f"dtype is {shown(dtype)}, not a type of NumPy.")


def _check_reads_texts(estimator: Any, error: type[Exception]) -> None:
    """Refuse a vectorizer that takes its texts for names of files, and would read these."""
    if isinstance(estimator, _TEXTS) and estimator.input != "content":
        raise error(
            f"A vectorizer has input={shown(estimator.input)}, which opens files that the texts name. Read "
            "the files first, and use input='content'."
        )


def _check_model(model: Any, state: set[str]) -> None:
    """Check that the attributes of a fit, or of a search, belong together."""
    best = vars(model).get("best_estimator_")
    if best is None:
        if state != {"fitted_"} or not isinstance(model.fitted_, Fitted):
            raise ModelFileError(f"{type(model).__name__} has {', '.join(sorted(state))}. {AGAIN}")
    else:
        others = vars(model).get("best_estimators_", {})
        for one in (best, *others.values()):
            if not isinstance(one, LowRankModel) or "best_estimator_" in vars(one):
                raise ModelFileError(f"A search has found {shown(one)}, which is no model. {AGAIN}")
            sides = [(m.fitted_.n_labels, m.fitted_.schema.n_features) for m in (one, best)]
            if sides[0] != sides[1]:
                raise ModelFileError(f"The fits of a search have other features or labels. {AGAIN}")
        if not all(isinstance(model_table, dict) for model_table in (model.best_params_, model.cv_results_)):
            raise ModelFileError(f"A search has no table of results. {AGAIN}")
        if not _is_table(model.cv_results_) or not is_integer(model.best_index_):
            raise ModelFileError(f"The columns of cv_results_ differ in length. {AGAIN}")
        model.fitted_ = best.fitted_
    if model.fitted_.schema.targets == "binary":
        model._cut  # noqa: B018  # a threshold for these labels, or an error


def _check_transformer(estimator: Any) -> None:
    """Check what transformers of scikit-learn rely on without a look; then try them."""
    if isinstance(estimator, CountVectorizer):
        words = estimator.vocabulary_
        if not all(type(word) is str for word in words) or sorted(words.values()) != list(range(len(words))):
            raise ModelFileError(f"vocabulary_ does not number its words 0, 1, …. {AGAIN}")
        weights = vars(estimator).get("_tfidf", words)
        if len(words if weights is words or not weights.use_idf else weights.idf_) != len(words):
            raise ModelFileError(f"TfidfVectorizer does not have one weight per word. {AGAIN}")
    if isinstance(estimator, TextTagger):
        check_columns(estimator.vectorizer_, estimator.model_, ["text"])


def check_columns(transformer: Any, model: Any, rows: Any = None) -> None:
    """Check that a transformer makes as many columns as a model takes."""
    if rows is None:
        width = getattr(transformer, "n_features_in_", 1)
        if not is_integer(width) or not 0 < width <= _MOST_COLUMNS:
            raise ModelFileError(f"A transformer takes {shown(width)} columns. {AGAIN}")
        rows = np.zeros((1, int(width)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of stop words, or of names, which were told at fit
        columns = transformer.transform(rows).shape[1]
    if columns != model.n_features_in_:
        raise ModelFileError(f"The model takes {model.n_features_in_} columns, not {columns}. {AGAIN}")


def _check_fit(fit: Fitted) -> None:
    """Check every part of a fit, and shapes against each other."""
    U, s, V = fit.factors
    schema, kernel, dtype = fit.schema, fit.kernel, U.dtype
    (n_rows, rank), n_labels = U.shape, len(V)
    largest = [float(np.max(np.abs(factor), initial=0.0)) for factor in (U, s, V)]
    linear = kernel is None or kernel.is_precomputed
    numbers = ("alpha", "objective", "residual", "gap", "compression_gap", "kernel_gap")
    needed = ("objective", "residual", "n_iter")
    rules: dict[str, bool] = {
        "factors": all(_are_floats(one, (size, rank)) for one, size in ((U, n_rows), (V, n_labels)))
        and _are_floats(s, (rank,))
        and not np.any(s < 0)
        and bool(np.prod(largest, dtype=np.longdouble) * max(rank, 1) < np.finfo(dtype).max),
        "intercept": _are_floats(fit.intercept, (n_labels,)),
        "unseen": isinstance(fit.unseen, np.ndarray)
        and fit.unseen.dtype == np.bool_
        and fit.unseen.shape == (n_labels,),
        "loss_name": fit.loss_name in LOSSES,
        "status": isinstance(fit.status, str) and isinstance(fit.converged, bool | np.bool_),
        "history": isinstance(fit.history, dict) and _is_table(fit.history),
        "kernel": kernel is None
        or (kernel.metric in estimators.KERNELS and is_real(kernel.degree) and is_real(kernel.coef0)),
        "X_fit": fit.X_fit is None
        if linear
        else _are_floats(fit.X_fit, (n_rows, schema.n_features))
        or _is_sparse_of(fit.X_fit, n_rows, schema.n_features),
        "space": fit.space in (None, "coefficients", "predictions"),
        "components": fit.components is None or _are_floats(fit.components, (len(fit.components), n_labels)),
        "schema": _is_schema(schema, n_rows if linear else schema.n_features, n_labels, dtype),
        **{name: _is_strength(getattr(fit, name), n_labels) for name in ("ridge", "cut")},
        **{name: _is_number(getattr(fit, name), needed=name in needed) for name in numbers},
        **{
            name: _is_count(getattr(fit, name), needed=name in needed)
            for name in ("theta", "n_iter", "n_passes")
        },
    }
    wrong = [name for name, holds in rules.items() if not holds]
    if wrong:
        raise ModelFileError(
            f"A fit with {schema.n_features} features, {n_labels} labels and rank {rank} cannot have this "
            f"{', '.join(wrong)}. {AGAIN}"
        )


def _are_floats(value: Any, shape: tuple[int, ...]) -> bool:
    found = isinstance(value, np.ndarray) and value.dtype.kind == "f" and value.shape == shape
    return found and bool(np.all(np.isfinite(value)))


def _is_sparse_of(value: Any, *shape: int) -> bool:
    return is_sparse(value) and value.shape == shape


def _is_number(value: Any, *, needed: bool = False) -> bool:
    return is_real(value) or (value is None and not needed)


def _is_count(value: Any, *, needed: bool = False) -> bool:
    return (is_integer(value) and value >= 0) or (value is None and not needed)


def _is_strength(value: Any, n_labels: int) -> bool:
    return _is_number(value) or _are_floats(value, (n_labels,))


def _is_table(columns: dict[str, Any]) -> bool:
    """Whether all columns, arrays or lists, are of one length."""
    listed = all(
        isinstance(one, list) or (isinstance(one, np.ndarray) and one.ndim == 1) for one in columns.values()
    )
    return listed and len({len(one) for one in columns.values()}) <= 1


def _is_schema(schema: Schema, n_features: int, n_labels: int, dtype: Any) -> bool:
    names, classes = schema.feature_names, schema.label_names
    flags = (schema.sparse_features, schema.sparse_labels, schema.flat)
    n_classes = n_labels if classes is None else len(classes)
    return (
        (schema.n_features, schema.n_labels) == (n_features, n_labels)
        and all(isinstance(flag, bool | np.bool_) for flag in flags)
        and (names is None or (names.dtype.kind == "O" and names.shape == (n_features,)))
        and (classes is None or (classes.dtype.kind in "OUiufb" and classes.ndim == 1))
        and (n_labels == 1 and n_classes in (1, 2) if schema.flat else n_classes == n_labels)
        and schema.targets in ("binary", "real")
        and schema.dtype.kind == "f"
    )
