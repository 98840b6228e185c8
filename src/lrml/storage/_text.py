"""Vectorizers of scikit-learn and the text tagger in a model file."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils.validation import check_is_fitted

from lrml._shown import shown
from lrml.core.checks import is_integer
from lrml.storage._container import ModelFileError
from lrml.storage._models import encode_params, new_estimator, parts
from lrml.storage._values import Reader, Writer

_VECTORIZERS: dict[str, Any] = {
    one.__name__: one for one in (CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer)
}
_CHAINS: dict[str, tuple[Any, str]] = {
    "FeatureUnion": (FeatureUnion, "transformer_list"),
    "Pipeline": (Pipeline, "steps"),
}
_KINDS = (*_VECTORIZERS, *_CHAINS)
_AGAIN = "Save the model again."


def encode_vectorizer(writer: Writer, vectorizer: Any, name: str, *, fitted: bool = True) -> dict[str, Any]:
    """Return the JSON for a vectorizer, or for a chain or union of them."""
    kind = type(vectorizer).__name__
    if kind in _CHAINS and type(vectorizer) is _CHAINS[kind][0]:
        steps = getattr(vectorizer, _CHAINS[kind][1])
        weights = getattr(vectorizer, "transformer_weights", None)
        listed = [
            [step, encode_vectorizer(writer, one, f"{name}{step}.", fitted=fitted)] for step, one in steps
        ]
        settings = {} if weights is None else {"transformer_weights": writer.encode(dict(weights), name)}
        return {"kind": kind, "params": settings, "fitted": {"steps": listed}}
    if _VECTORIZERS.get(kind) is not type(vectorizer):
        raise TypeError(
            f"a model file holds vectorizers of scikit-learn ({', '.join(_KINDS)}), got {shown(vectorizer)}. "
            "Use one of these, or save with skops or joblib."
        )
    _check_reads_texts(vectorizer, TypeError)
    found = {"kind": kind, "params": encode_params(writer, vectorizer, name), "fitted": {}}
    if not fitted:
        return found
    attributes: dict[str, Any] = {}
    if isinstance(vectorizer, CountVectorizer):
        check_is_fitted(vectorizer, "vocabulary_")
        attributes["vocabulary_"] = {word: int(place) for word, place in vectorizer.vocabulary_.items()}
        attributes["fixed_vocabulary_"] = vectorizer.fixed_vocabulary_
    if isinstance(vectorizer, TfidfTransformer):
        check_is_fitted(vectorizer)
        attributes = {
            key: vars(vectorizer)[key] for key in ("n_features_in_", "idf_") if key in vars(vectorizer)
        }
    encoded = {key: writer.encode(value, f"{name}{key}") for key, value in attributes.items()}
    if isinstance(vectorizer, TfidfVectorizer):
        encoded["weights"] = encode_vectorizer(writer, vectorizer._tfidf, f"{name}weights.")
    return found | {"fitted": encoded}


def decode_vectorizer(
    reader: Reader, found: Any, *, newer: bool, fitted: bool = True
) -> tuple[Any, int | None]:
    """Return a vectorizer and its number of columns, None if it takes any number."""
    kind, params, attributes = parts(found, _KINDS)
    if kind in _CHAINS:
        return _decode_chain(reader, kind, params, attributes, newer=newer, fitted=fitted)
    vectorizer = new_estimator(reader, _VECTORIZERS[kind], params, newer=newer)
    try:
        vectorizer._validate_params()
        _check_what_scikit_learn_does_not(vectorizer)
        if (pattern := getattr(vectorizer, "token_pattern", None)) is not None:
            re.compile(pattern)
    except (TypeError, ValueError, re.error, OverflowError, RecursionError) as error:
        raise ModelFileError(f"parameters of {kind} must pass its own checks, got: {error}") from None
    _check_reads_texts(vectorizer, ModelFileError)
    if not fitted:
        return vectorizer, None
    decoded = {key: reader.decode(value) for key, value in attributes.items() if key != "weights"}
    if isinstance(vectorizer, HashingVectorizer):
        return vectorizer, vectorizer.n_features
    if isinstance(vectorizer, TfidfTransformer):
        return vectorizer, _set_weights(vectorizer, decoded.get("n_features_in_"), decoded.get("idf_"))
    vectorizer.vocabulary_ = _checked_vocabulary(decoded.get("vocabulary_"))
    vectorizer.fixed_vocabulary_ = decoded.get("fixed_vocabulary_") is True
    width = len(vectorizer.vocabulary_)
    if isinstance(vectorizer, TfidfVectorizer):
        weights, columns = decode_vectorizer(reader, attributes.get("weights"), newer=newer)
        if not isinstance(weights, TfidfTransformer) or columns != width:
            raise ModelFileError(f"{kind} must have one weight per word, {width}, got {columns}. {_AGAIN}")
        vectorizer._tfidf = weights
    return vectorizer, width


def _check_what_scikit_learn_does_not(vectorizer: Any) -> None:
    """Check the parameters that scikit-learn takes as they are."""
    lengths = getattr(vectorizer, "ngram_range", (1, 1))
    if not (len(lengths) == 2 and all(map(is_integer, lengths)) and 1 <= lengths[0] <= lengths[1]):
        raise ValueError(f"ngram_range must be two rising counts, got {shown(lengths)}")
    dtype = getattr(vectorizer, "dtype", np.float64)
    if not (isinstance(dtype, type) and issubclass(dtype, np.generic)):
        raise ValueError(f"dtype must be a NumPy type, got {shown(dtype)}")


def _set_weights(transformer: TfidfTransformer, width: Any, idf: Any) -> int:
    """Set the fitted attributes of a transformer; return its number of columns."""
    if not is_integer(width) or not 0 < width < 1 << 48:
        raise ModelFileError(f"n_features_in_ must be a count, got {shown(width)}. {_AGAIN}")
    transformer.n_features_in_ = int(width)
    if transformer.use_idf:
        sound = isinstance(idf, np.ndarray) and idf.dtype.kind == "f" and idf.shape == (width,)
        if not sound or not np.all(np.isfinite(idf)):
            raise ModelFileError(f"idf_ must be {width} finite numbers, got {shown(idf)}. {_AGAIN}")
        transformer.idf_ = idf
    return int(width)


def _decode_chain(
    reader: Reader, kind: str, params: Any, attributes: Any, *, newer: bool, fitted: bool
) -> tuple[Any, int | None]:
    steps = attributes.get("steps")
    sound = (
        isinstance(steps, list) and steps and all(isinstance(one, list) and len(one) == 2 for one in steps)
    )
    if not sound or not all(isinstance(name, str) for name, _ in steps):
        raise ModelFileError(f"{kind} must have steps, got {shown(steps)}. {_AGAIN}")
    found = [(name, *decode_vectorizer(reader, one, newer=newer, fitted=fitted)) for name, one in steps]
    cls, argument = _CHAINS[kind]
    settings = {key: reader.decode(params[key]) for key in params if key == "transformer_weights"}
    chain = cls(**{argument: [(name, one) for name, one, _ in found]}, **settings)
    widths = [width for *_, width in found]
    if not fitted:
        return chain, None
    if kind == "FeatureUnion":
        return chain, sum(width or 0 for width in widths)
    if len(set(widths)) != 1:
        raise ModelFileError(f"the steps of a chain must have as many columns, got {widths}. {_AGAIN}")
    return chain, widths[0]


def _checked_vocabulary(vocabulary: Any) -> dict[str, int]:
    """Return words and their columns: every column once."""
    if not isinstance(vocabulary, dict) or not all(type(place) is int for place in vocabulary.values()):
        raise ModelFileError(
            f"vocabulary_ must be words and their columns, got {shown(vocabulary)}. {_AGAIN}"
        )
    if sorted(vocabulary.values()) != list(range(len(vocabulary))):
        raise ModelFileError(f"vocabulary_ must number its words 0, 1, …, got other numbers. {_AGAIN}")
    return vocabulary


def _check_reads_texts(vectorizer: Any, error: type[Exception]) -> None:
    """Refuse a vectorizer that takes its texts for names of files, and would read these."""
    if getattr(vectorizer, "input", "content") != "content":
        raise error(
            f"a vectorizer in a model file must have input='content', got {shown(vectorizer.input)}, which "
            "would open files that the texts name. Read the files first."
        )
