"""What a model file holds: values, records and estimators as JSON, with tensors for what is an array.

Plain JSON values are themselves; a name is that of a tensor::

    {"array": name}, {"transposed": name}     an array, in the order in memory that it had
    {"texts": name, "as": "object"}           UTF-8, each text ended by a byte 255; also "str", "places"
    {"sparse": [n, d], "data": …, "indices": …, "indptr": …}
    {"objects": […]}, {"tuple": […]}, {"dict": {…}}, {"float": "nan"}, {"type": "float64"}
    {"record": "Kernel", "fields": {name: value}}
    {"kind": "LRML", "params": {name: value}, "fitted": {name: value}}

The last two stand for the classes of the tables below: nothing is imported by a name from a file. An
estimator is its parameters and what a fit has found, above all the record `lrml.estimators.Fitted`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn import decomposition, feature_extraction, pipeline, preprocessing

from lrml import estimators, penalties
from lrml._shown import shown
from lrml.core import Statistics
from lrml.core.rows import Schema
from lrml.estimators import Calibration, Fitted, Kernel, LowRankModel
from lrml.solvers import Factors
from lrml.storage._checks import MOST_NUMBERS, are_places, check_estimator, check_record
from lrml.storage._container import Tensors
from lrml.text import TextTagger
from lrml.thresholds import Cut

_OF_LRML = [getattr(estimators, name) for name in estimators.__all__ if name != "LowRankModel"]
_MODELS = [one for one in _OF_LRML if isinstance(one, type) and issubclass(one, LowRankModel)]
_TEXT, _SCALING = feature_extraction.text, preprocessing
_TRANSFORMERS = [
    *(_TEXT.CountVectorizer, _TEXT.HashingVectorizer, _TEXT.TfidfVectorizer, _TEXT.TfidfTransformer),
    *(_SCALING.StandardScaler, _SCALING.MaxAbsScaler, _SCALING.Normalizer),
    *(decomposition.TruncatedSVD, decomposition.PCA, pipeline.Pipeline, pipeline.FeatureUnion),
]
_CLASSES: dict[str, Any] = {one.__name__: one for one in (*_MODELS, TextTagger, *_TRANSFORMERS)}
_PENALTIES: list[Any] = [one for one in map(vars(penalties).get, penalties.__all__) if is_dataclass(one)]
_RECORDS: dict[str, Any] = {
    one.__name__: one for one in (Fitted, Schema, Factors, Kernel, Calibration, Cut, Statistics, *_PENALTIES)
}
_TYPES = tuple(f"{kind}{bits}" for kind in ("float", "int", "uint") for bits in (64, 32, 16))
# A vocabulary of more words goes to a tensor.
_LARGE = 1000
_SPARSE = (sp.csr_array, sp.csc_array, sp.csr_matrix, sp.csc_matrix)  # training rows of a kernel
SKOPS_TRUSTED_TYPES: list[str] = sorted(
    f"{kind.__module__}.{kind.__qualname__}"
    for kind in (*_MODELS, *_RECORDS.values(), TextTagger, np.dtype, *_SPARSE)
)
"""Types that skops, and MLflow through it, must be told to trust; all hold data, and do nothing when made."""


class Writer:
    """Turns values into JSON, and collects the tensors that it refers to; an array is stored once.

    ``dtype`` is the precision of linear models, if not their own.
    """

    def __init__(self, dtype: str | None = None) -> None:
        self.dtype = dtype
        self.tensors: dict[str, npt.NDArray[Any]] = {}
        self._known: dict[int, Any] = {}  # what has been stored; holds the arrays, so that ids stay theirs

    def encode(self, value: Any, name: str) -> Any:  # noqa: C901, PLR0911, PLR0912 - a case for each kind
        """Return the JSON for a value; its tensors are named after ``name``."""
        kind, other = type(value).__name__, cast(Any, value)
        match value:
            case np.generic():
                return self.encode(value.item(), name)
            case None | bool() | int() | str():
                return value
            case float():
                return value if math.isfinite(value) else {"float": repr(value)}
            case np.ndarray():
                if id(value) not in self._known:
                    self._known[id(value)] = self._array(value, name), value
                return self._known[id(value)][0]
            case list():
                return [self.encode(one, f"{name}.{place}") for place, one in enumerate(value)]
            case Factors():
                return {"record": "Factors", "fields": self._named(value._asdict(), name)}
            case tuple():
                return {"tuple": self.encode([*value], name)}
            case dict() if len(value) > _LARGE and are_places(value):
                return self._texts(sorted(value, key=value.__getitem__), name, "places")
            case dict() if all(type(key) is str for key in value):
                return {"dict": self._named(value, name)}
            case np.dtype():
                return {"type": value.name}
            case type() if issubclass(value, np.generic):
                return {"type": np.dtype(value).name}
            case Fitted() if value.sums is not None or self.dtype not in (None, value.intercept.dtype.name):
                return self.encode(self._in_precision(replace(value, sums=None)), name)
        if sp.issparse(value):
            rows = other.tocsr()
            # Column numbers are most of what coefficients take: half of it, mostly, as small a type as does.
            small = np.min_scalar_type(max(rows.shape[1] - 1, 0))
            content = {"data": rows.data, "indices": rows.indices.astype(small), "indptr": rows.indptr}
            return {"sparse": [*map(int, rows.shape)], **self._named(content, name)}
        if _RECORDS.get(kind) is type(other):
            parts = {field.name: getattr(other, field.name) for field in fields(other)}
            known = {key: one for key, one in parts.items() if one is not None}
            return {"record": kind, "fields": self._named(known, name)}
        if _CLASSES.get(kind) is type(other):
            check_estimator(other)
            state = {key: one for key, one in vars(other).items() if _is_state(other, key)}
            if "best_estimator_" in state:
                del state["fitted_"]  # that of the best estimator
            params = self._named(other.get_params(deep=False), f"{name}.params")
            return {"kind": kind, "params": params, "fitted": self._named(state, name)}
        remedy = (
            " Instead of a kernel of your own, fit with kernel='precomputed'." if "kernel" in name else ""
        )
        raise TypeError(
            f"{name.lstrip('.')} is {shown(value)}. A model file holds data, lrml's estimators and "
            f"penalties, of scikit-learn {', '.join(one.__name__ for one in _TRANSFORMERS)}. What matters "
            f"to fit only can get its default by set_params before you save.{remedy}"
        )

    def _named(self, values: Mapping[str, Any], name: str) -> dict[str, Any]:
        return {key: self.encode(one, f"{name}.{key}".lstrip(".")) for key, one in values.items()}

    def _in_precision(self, fit: Fitted) -> Fitted:
        """Return a fit with its numbers in the wanted precision."""
        if self.dtype is not None and fit.kernel is not None:
            raise ValueError(
                f"dtype={self.dtype!r} is for linear models: coefficients of kernel={fit.kernel.metric!r} "
                "are large and cancel each other. Leave out dtype."
            )
        try:
            return fit.in_precision(self.dtype)
        except FloatingPointError:
            raise ValueError(f"Some coefficients are too large for {self.dtype}. Leave out dtype.") from None

    def _array(self, value: npt.NDArray[Any], name: str) -> Any:
        if value.dtype.kind in "OU" and value.ndim == 1:
            listed = value.tolist()
            if not all(type(one) is str for one in listed):
                return {"objects": self.encode(listed, name)}
            compact = value.dtype.kind == "U" and _fits(listed)
            return self._texts(listed, name, "str" if compact else "object")
        if value.dtype.kind not in "biuf":
            raise TypeError(
                f"{name} is an array of {value.dtype}. Convert it to numbers or texts with astype."
            )
        # Products of the same numbers in another order in memory may differ in the last digit.
        if value.ndim == 2 and value.flags.f_contiguous and not value.flags.c_contiguous:
            return {"transposed": self._add(name, value.T)}
        return {"array": self._add(name, value)}

    def _texts(self, listed: list[str], name: str, kind: str) -> Any:
        content = b"\xff".join([*map(str.encode, listed), b""])
        return {"texts": self._add(name, np.frombuffer(content, dtype=np.uint8)), "as": kind}

    def _add(self, name: str, tensor: npt.NDArray[Any]) -> str:
        while name in self.tensors:  # a key with a dot in it may make another's name
            name += "_"
        self.tensors[name] = tensor
        return name


class Reader:
    """Turns JSON and tensors back into values, and checks what it makes; any error means: not sound."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self._known: dict[Any, Any] = {}

    def decode(self, found: Any) -> Any:  # noqa: C901, PLR0911, PLR0912 - a case for each kind
        """Return the value that JSON stands for."""
        match found:
            case None | bool() | int() | float() | str():
                return found
            case list():
                return [self.decode(one) for one in found]
            case {"array": name}:
                return self._tensors[name]
            case {"transposed": name}:
                return self._tensors[name].T
            case {"texts": name, "as": kind}:
                if name not in self._known:  # models share their names
                    self._known[name] = _texts(self._tensors[name].tobytes(), kind)
                return self._known[name]
            case {"sparse": [int(n_rows), int(n_columns)], "data": _, "indices": _, "indptr": _}:
                content = [self.decode(found[part]) for part in ("data", "indices", "indptr")]
                return _sparse((n_rows, n_columns), *content)
            case {"objects": list(listed)}:
                return _of_objects(self.decode(listed))
            case {"tuple": list(listed)}:
                return tuple(self.decode(listed))
            case {"dict": dict(named)}:
                return self._named(named)
            case {"float": "nan" | "inf" | "-inf" as number}:
                return float(number)
            case {"type": kind} if kind in _TYPES:
                return np.dtype(kind).type
            case {"record": kind, "fields": dict(named)} if kind in _RECORDS:
                parts = self._named(named)
                if kind == "Schema":
                    parts["dtype"] = np.dtype(parts["dtype"])
                record = _RECORDS[kind](**parts)
                check_record(record)
                return record
            case {"kind": kind, "params": dict(params), "fitted": dict(state)} if kind in _CLASSES:
                return self._estimator(_CLASSES[kind](**self._named(params)), self._named(state))
        raise ValueError(f"{shown(found)} is no value that this version of lrml knows")

    def _named(self, found: dict[str, Any]) -> dict[str, Any]:
        return {key: self.decode(one) for key, one in found.items()}

    def _estimator(self, estimator: Any, state: dict[str, Any]) -> Any:
        for key, value in state.items():
            if not _is_state(estimator, key):
                raise ValueError(f"{shown(key)} is no attribute of a fitted {type(estimator).__name__}")
            vars(estimator)[key] = value
        if "best_estimator_" in state:
            estimator.fitted_ = state["best_estimator_"].fitted_
        check_estimator(estimator)
        return estimator


def _is_state(estimator: Any, key: str) -> bool:
    """Whether a name is that of an attribute that a fit has stored."""
    public = re.fullmatch(r"[A-Za-z]\w*_", key, re.ASCII) and not hasattr(type(estimator), key)
    return bool(public) or (key == "_tfidf" and type(estimator) is _TEXT.TfidfVectorizer)


def _texts(content: bytes, kind: Any) -> Any:
    *parts, rest = content.split(b"\xff")
    listed = [part.decode() for part in parts]
    match kind:
        case "object" if not rest:
            return _of_objects(listed)
        case "places" if not rest:
            return {text: place for place, text in enumerate(listed)}
        case "str" if not rest and _fits(listed):
            return np.array(listed, dtype=str)
    raise ValueError(f"texts cannot be read as {shown(kind)}")


def _of_objects(listed: list[Any]) -> npt.NDArray[Any]:
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def _fits(listed: list[str]) -> bool:
    """Whether texts may stand in an array that gives each the room of the longest."""
    return max(map(len, listed), default=0) * len(listed) <= MOST_NUMBERS


def _sparse(shape: tuple[int, int], data: Any, indices: Any, indptr: Any) -> sp.csr_array:
    """Return a sparse matrix of parts that fit: compiled code would read beyond its arrays otherwise."""
    rows = indptr.dtype.kind == "i" and indptr.shape == (shape[0] + 1,) and indptr[0] == 0
    rows = rows and np.all(indptr[:-1] <= indptr[1:]) and len(data) == len(indices) == indptr[-1]
    if not (rows and indices.dtype.kind in "iu" and np.all((indices >= 0) & (indices < shape[1]))):
        raise ValueError("a sparse matrix is not sound")
    return sp.csr_array((data, indices.astype(indptr.dtype), indptr), shape=shape)
