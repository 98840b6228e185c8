"""Save, load, and look into a model file."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import sklearn
from sklearn.utils.validation import check_is_fitted

from lrml._shown import shown
from lrml._version import __version__
from lrml.core.arrays import at_home
from lrml.storage import _container as container
from lrml.storage._container import ModelFileError
from lrml.storage._models import (
    MODELS,
    check_saveable,
    decode_model,
    encode_model,
    encode_params,
    new_estimator,
    parts,
)
from lrml.storage._text import decode_vectorizer, encode_vectorizer
from lrml.storage._values import Reader, Writer
from lrml.text import TextTagger

FORMAT = (1, 0)
"""Major and minor number of the format that is written; any minor of this major can be read."""

_TAGGER = "TextTagger"
_DTYPES: dict[str, type[np.floating[Any]]] = {"float32": np.float32, "float64": np.float64}
_AGAIN = "Save the model again."


def save(
    estimator: Any,
    path: str | os.PathLike[str],
    *,
    summary: Mapping[str, Any] | None = None,
    dtype: str | None = None,
) -> None:
    """Write a fitted estimator to a file that holds data only.

    Parameters
    ----------
    estimator : fitted estimator
        `LRML`, `MLTrace`, `MLFro`, `LEML`, `CPLST`, `PLST`, their searches (`LRMLCV`, …), or a `TextTagger`
        with vectorizers of scikit-learn. Functions among the parameters, such as a kernel or a callback, are
        refused.
    path : str or path
        By convention ``….lrml``. A file of that name is replaced, all at once; if anything fails, it stays.
    summary : dict, optional
        What you want to be known about the training: data, options, scores; numbers, texts, lists and dicts.
        Numbers that are not finite become None.
    dtype : {"float32", "float64"}, optional
        Precision of the coefficients, as they are by default. "float32" halves the file and the memory of
        the model; scores then have about six digits. For linear models only.

    Examples
    --------
    >>> import tempfile, pathlib, lrml
    >>> from lrml.datasets import load_yeast
    >>> yeast = load_yeast()
    >>> model = lrml.MLFro(10.0).fit(*yeast.train)
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "yeast.lrml"
    >>> lrml.save(model, path, summary={"data": "yeast"})
    >>> lrml.load(path).score(*yeast.test) == model.score(*yeast.test)
    True
    """
    if dtype is not None and dtype not in _DTYPES:
        raise ValueError(
            f"dtype must be 'float32', 'float64' or None, got {shown(dtype)}. Leave it out for all digits."
        )
    _check_saveable(estimator)
    estimator = at_home(estimator)
    model = estimator.model_ if type(estimator) is TextTagger else estimator
    writer = Writer(None if dtype is None else _DTYPES[dtype])
    document = {
        "kind": type(estimator).__name__,
        "n_features": int(model.n_features_in_),
        "n_labels": len(model.intercept_),
        "rank": len(model.factors_.s),
        "summary": _plain_summary(summary),
        "made_with": {"numpy": np.__version__, "scikit-learn": sklearn.__version__},
        "model": encode_model(writer, estimator, "")
        if model is estimator
        else _encode_tagger(writer, estimator),
    }
    container.write(path, document, writer.tensors, (".".join(map(str, FORMAT)), __version__))


def _check_saveable(estimator: Any) -> None:
    """Refuse what is neither a fitted estimator of this library nor a fitted tagger with one."""
    if type(estimator) is TextTagger:
        check_is_fitted(estimator)
        estimator = estimator.model_
    check_saveable(estimator)


def _plain_summary(summary: Mapping[str, Any] | None) -> Any:
    """Return a summary in plain JSON: NumPy's numbers as Python's, and None for those that are not finite."""
    if summary is not None and not isinstance(summary, Mapping):
        raise TypeError(f"summary must be a dictionary or None, got {shown(summary)}. Pass {{'data': …}}.")
    return _plain(summary)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(one) for key, one in value.items()}
    raise TypeError(
        f"a summary must be made of numbers, texts, lists and dictionaries with texts as keys, got "
        f"{shown(value)}. Convert it with str()."
    )


def load(path: str | os.PathLike[str]) -> Any:
    """Read an estimator from a file that `save` has written.

    Nothing in the file is executed or imported by name. Sizes, checksum, shapes and parameters are checked,
    and a file that is not sound is refused; see ``docs/models.md`` for what is checked when.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    estimator
        With the parameters and fitted attributes of the one that was saved. Its scores are the same to the
        last digit on the same machine, unless it was fitted or saved in single precision: then to about six.

    Raises
    ------
    ModelFileError
        If the file is not a sound model, or of a newer major format.
    OSError
        If it cannot be read.
    """
    with container.opened(path) as (stream, size):
        header = container.read_header(stream, size)
        document, newer = _document(header)
        tensors = container.read_tensors(stream, header)
    reader = Reader(tensors)
    try:
        model = _decode(reader, document, newer=newer)
    except ModelFileError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ModelFileError(
            f"a model file must hold a sound model, got one with an error: {shown(str(error))}. {_AGAIN}"
        ) from error
    if not newer and (rest := header.tensors.keys() - reader.used):
        raise ModelFileError(
            f"a model file must use all its tensors, got {shown(min(rest))} unused. {_AGAIN}"
        )
    return model


def _document(header: container.Header) -> tuple[dict[str, Any], bool]:
    """Return the document, and whether it is of a newer minor format; refuse a newer major one."""
    major, minor = FORMAT
    if header.major != major:
        raise ModelFileError(
            f"lrml {__version__} reads model files of format {major}, got {header.major}.{header.minor}, "
            f"written by lrml {shown(header.lrml_version)}. Install that version of lrml or a later one, or "
            "save the model again with this one."
        )
    return container.parse(header.document, "the document"), header.minor > minor


def _decode(reader: Reader, document: dict[str, Any], *, newer: bool) -> Any:
    found = document.get("model")
    kind = document.get("kind")
    if not isinstance(found, dict) or found.get("kind") != kind:
        raise ModelFileError(f"a model file must name the kind of its model, got {shown(kind)}. {_AGAIN}")
    if kind == _TAGGER:
        estimator = _decode_tagger(reader, found, newer=newer)
        model = estimator.model_
    else:
        estimator = model = decode_model(reader, found, newer=newer)
    facts = {
        "n_features": model.n_features_in_,
        "n_labels": len(model.intercept_),
        "rank": len(model.factors_.s),
    }
    if any(document.get(key) != value for key, value in facts.items()):
        raise ModelFileError(f"a model must have the sizes that its header names, got {facts}. {_AGAIN}")
    return estimator


def _encode_tagger(writer: Writer, tagger: Any) -> dict[str, Any]:
    """Return the JSON for a fitted tagger."""
    params: dict[str, Any] = {"model": None, "vectorizer": None}
    if tagger.model is not None:
        settings = encode_params(writer, tagger.model, "params.model.")
        params["model"] = {"kind": type(tagger.model).__name__, "params": settings, "fitted": {}}
    if tagger.vectorizer is not None:
        params["vectorizer"] = encode_vectorizer(
            writer, tagger.vectorizer, "params.vectorizer.", fitted=False
        )
    fitted = {
        "model_": encode_model(writer, tagger.model_, "model_."),
        "vectorizer_": encode_vectorizer(writer, tagger.vectorizer_, "vectorizer_."),
    }
    return {"kind": _TAGGER, "params": params, "fitted": fitted}


def _decode_tagger(reader: Reader, found: dict[str, Any], *, newer: bool) -> Any:
    """Return a tagger; its vectorizer must make as many columns as its model takes."""
    _, params, fitted = parts(found, (_TAGGER,))
    model, vectorizer = params.get("model"), params.get("vectorizer")
    if model is not None:
        kind, settings, _ = parts(model, tuple(MODELS))
        model = new_estimator(reader, MODELS[kind], settings, newer=newer)
        model._check_params()
    if vectorizer is not None:
        vectorizer, _ = decode_vectorizer(reader, vectorizer, newer=newer, fitted=False)
    tagger = TextTagger(model, vectorizer=vectorizer)
    tagger.model_ = decode_model(reader, fitted.get("model_"), newer=newer)
    tagger.vectorizer_, width = decode_vectorizer(reader, fitted.get("vectorizer_"), newer=newer)
    if width != tagger.model_.n_features_in_:
        raise ModelFileError(
            f"the model must take the {width} columns of the vectorizer, got {tagger.model_.n_features_in_}. "
            f"{_AGAIN}"
        )
    tagger.classes_ = tagger.model_.classes_
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of stop words, which were told at fit
        columns = tagger.transform(["text"]).shape[
            1
        ]  # so that settings that do not work together show up now
    if columns != width:
        raise ModelFileError(f"a vectorizer must make the {width} columns it names, got {columns}. {_AGAIN}")
    return tagger


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Tell what is in a model file, without reading its numbers.

    The checksum covers the whole file, so only `load` compares it.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    dict
        ``format`` ("1.0"), ``lrml_version``, ``kind`` (the class), ``params``, ``n_features``, ``n_labels``,
        ``rank``, ``nbytes`` (of the file), ``summary`` (what the caller of `save` said, or None). An array
        among the parameters is a text that tells its shape.
    """
    with container.opened(path) as (stream, size):
        header = container.read_header(stream, size)
    document, _ = _document(header)
    found = document.get("model")
    _, params, _ = parts(found, (*MODELS, _TAGGER))
    return {
        "format": f"{header.major}.{header.minor}",
        "lrml_version": header.lrml_version,
        "kind": document.get("kind"),
        "params": {key: _in_words(header, value) for key, value in params.items()},
        "n_features": document.get("n_features"),
        "n_labels": document.get("n_labels"),
        "rank": document.get("rank"),
        "nbytes": header.nbytes,
        "summary": document.get("summary"),
    }


def _in_words(header: container.Header, value: Any) -> Any:  # noqa: PLR0911 - one per kind of value
    """Return a parameter for people: what is in tensors is told by its size."""
    if isinstance(value, list):
        return [_in_words(header, one) for one in value]
    if not isinstance(value, dict) or not value:
        return value
    if "kind" in value:
        inner = value.get("params")
        plain = {key: _in_words(header, one) for key, one in inner.items()} if isinstance(inner, dict) else {}
        return {"kind": value["kind"], "params": plain}
    key, inner = next(iter(value.items()))
    if key == "dict" and isinstance(inner, dict):
        return {name: _in_words(header, one) for name, one in inner.items()}
    if key == "scalar" and isinstance(inner, list):
        return _in_words(header, inner[-1])
    if key in ("array", "transposed", "texts"):
        _, shape, _ = header.tensors.get(f"{inner}.offsets" if key == "texts" else inner, ("", (), 0))
        return f"{key} of shape {shape[::-1] if key == 'transposed' else shape}"
    return _in_words(header, inner)
