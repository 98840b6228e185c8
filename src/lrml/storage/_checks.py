"""What must hold of a model that is written, and again of one that was read: files may be forged.

Every parameter passes the checks of its own class, every part of a fit has to fit the others, and
transformers, which look at little themselves, are tried.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from copy import copy
from typing import Any, get_args, get_type_hints

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.pipeline import FeatureUnion, Pipeline

from lrml._inner import Inner, inner_model
from lrml.core import Statistics
from lrml.core.arrays import is_sparse
from lrml.core.checks import is_integer
from lrml.core.losses import LOSSES
from lrml.core.rows import Schema
from lrml.estimators import KERNELS, Calibration, Fitted, Kernel, LowRankModel
from lrml.text import TextTagger

# Sides of the arrays of a fit, and of sums of rows: equal letters are equal lengths.
_SIDES = {
    **{"U": "nk", "s": "k", "V": "Lk", "weights": "fL", "intercept": "L", "unseen": "L", "X_fit": "nf"},
    **{"slopes": "L", "offsets": "L", "knots": "m", "heights": "m"},
    **{"ridge": "L", "cut": "L", "x_mean": "f", "y_mean": "L", "xx": "ff", "xy": "fL", "feature_names": "f"},
}
MOST_NUMBERS = 1 << 24
"""Numbers, or letters, that may be made of a few bytes of a file."""


def check_record(record: Any) -> None:
    """Check the parts of a record against their annotations, and against each other."""
    plain = {bool, int, float, str, type(None)}
    for name, hint in ({} if isinstance(record, tuple) else get_type_hints(type(record))).items():
        kinds = set(get_args(hint)) or {hint}
        kinds |= {int} if float in kinds else set()
        _check(not kinds <= plain or type(getattr(record, name)) in kinds, name)
    rules: dict[str, Any] = {}
    match record:
        case Kernel():
            rules = {"metric": record.metric in KERNELS}
        case Schema():
            _check_sides(vars(record), {"f": record.n_features})
            n_classes = record.n_labels if (names := record.label_names) is None else len(names)
            rules = {
                "label_names": (names is None or names.dtype.kind in "OUiufb")
                and (record.n_labels == 1 >= n_classes - 1 if record.flat else n_classes == record.n_labels),
                "targets": record.targets in ("binary", "real"),
                "dtype": record.dtype.kind == "f",
            }
        case Statistics():
            _check_sides(vars(record), {})
        case Calibration():
            _check_sides(vars(record), {})
            curve = [part for part in (record.knots, record.heights) if part is not None]
            rules = {"knots": len(curve) != 1 and all(np.all(np.diff(part) >= 0) for part in curve)}
        case Fitted():
            linear = record.kernel is None or record.kernel.is_precomputed
            f, n_labels = record.schema.n_features, record.schema.n_labels
            sizes = {"f": f, "L": n_labels} | ({"n": f} if linear else {})
            told = vars(record.calibration) if isinstance(record.calibration, Calibration) else {}
            factors = {} if record.factors is None else record.factors._asdict()
            _check_sides({**vars(record), **told, **factors}, sizes)
            s = factors.get("s", np.zeros(0))
            # No coefficient is larger than this.
            largest = [np.max(np.abs(part), initial=0.0) for part in factors.values()]
            bound = np.prod(largest, dtype=np.longdouble)
            one_form = (record.factors is None) != (record.weights is None)
            rules = {
                "factors": one_form and np.all(s >= 0) and bound * max(len(s), 1) < np.finfo(s.dtype).max,
                "weights": record.weights is None or (record.kernel is None and is_sparse(record.weights)),
                "loss_name": record.loss_name in LOSSES,
                "calibration": isinstance(record.calibration, Calibration | None),
                "space": record.space in (None, "coefficients", "predictions"),
                "X_fit": (record.X_fit is None) == linear,
                "unseen": record.unseen.dtype == np.bool_,
            }
    for name, holds in rules.items():
        _check(holds, name)


def _check_sides(parts: Mapping[str, Any], sizes: dict[str, int]) -> None:
    """Check that arrays hold finite numbers (or names), and that equal letters are equal lengths."""
    for name in parts.keys() & _SIDES.keys():
        value = parts[name]
        if value is None or type(value) in (int, float):  # one ridge for all labels
            continue
        numbers = value.data if is_sparse(value) else value
        kinds = {"unseen": "b", "feature_names": "O"}.get(name, "f")
        finite = numbers.dtype.kind in kinds and (kinds == "O" or np.all(np.isfinite(numbers)))
        sides = zip(_SIDES[name], value.shape, strict=True)
        _check(finite and all(sizes.setdefault(side, length) == length for side, length in sides), name)


def _check(holds: Any, name: str) -> None:
    if not holds:
        raise ValueError(f"{name} is not that of such a model")


def check_estimator(estimator: Any) -> None:
    """Check the parameters of an estimator, and what a fit has found, if there was one."""
    if isinstance(estimator, LowRankModel):
        _without_device(estimator)._check_params()
        if "fitted_" in vars(estimator):
            models = [estimator, *vars(estimator).get("best_estimators_", {}).values()]
            sizes = {(model.fitted_.n_labels, model.n_features_in_) for model in models}
            _check(isinstance(estimator.fitted_, Fitted) and len(sizes) == 1, "fits")
            if estimator.fitted_.schema.targets == "binary":
                estimator._cut  # noqa: B018  # a threshold for these labels, or an error
    elif isinstance(estimator, TextTagger):
        if hasattr(estimator, "model_"):
            _check(np.array_equal(estimator.classes_, estimator.model_.classes_), "classes_")
            _check(inner_model(estimator, "load").reads_texts, "vectorizer_")
    elif not isinstance(estimator, Pipeline | FeatureUnion):
        estimator._validate_params()
    if isinstance(estimator, CountVectorizer | HashingVectorizer):  # what scikit-learn takes as it is
        first, last = estimator.ngram_range
        _check(estimator.input == "content", "input")  # with another, it would open files that texts name
        _check(is_integer(first) and is_integer(last) and 1 <= first <= last, "ngram_range")
        _check(issubclass(estimator.dtype, np.generic), "dtype")
        re.compile(estimator.token_pattern or "")
    if words := vars(estimator).get("vocabulary_"):
        weights = vars(estimator).get("_tfidf")
        weighted = weights is None or not weights.use_idf or len(weights.idf_) == len(words)
        _check(are_places(words) and weighted, "vocabulary_")


def _without_device(estimator: Any) -> Any:
    """Return an estimator that can be checked where there is no such device, which matters to fits only."""
    inner = vars(estimator).get("estimator") or estimator
    if not isinstance(vars(inner).get("device"), str):
        return estimator
    inner = copy(inner).set_params(device=None)
    return inner if "estimator" not in vars(estimator) else type(estimator)(inner)


def are_places(words: Mapping[str, Any]) -> bool:
    """Whether a dictionary numbers its texts 0, 1, …, as a vocabulary does."""
    kinds = set(map(type, words.values()))
    whole = all(issubclass(kind, int | np.integer) and kind is not bool for kind in kinds)
    return whole and set(map(type, words)) <= {str} and sorted(words.values()) == list(range(len(words)))


def check_columns(inner: Inner) -> None:
    """Check that transformers make as many columns as the model after them takes."""
    if not inner.steps:
        return
    rows: Any = ["text"]
    if not inner.reads_texts:
        width = inner.steps[0].n_features_in_
        _check(0 < width <= MOST_NUMBERS, "n_features_in_")
        rows = np.zeros((1, width))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of stop words, or of names, which were told at fit
        columns = inner.features(rows).shape[1]
    _check(columns == inner.model.n_features_in_, "transformer")
