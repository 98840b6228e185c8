"""Save, load, and look into a model file."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import sklearn
from sklearn.pipeline import Pipeline

from lrml._shown import shown
from lrml.core.arrays import at_home
from lrml.storage import _container as container
from lrml.storage._container import AGAIN, ModelFileError
from lrml.storage._models import ModelReader, ModelWriter, check_columns, check_saveable, model_of

_DTYPES: dict[str, type[np.floating[Any]]] = {"float32": np.float32, "float64": np.float64}


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
        Any estimator of this library, a `TextTagger`, or a `Pipeline` of scikit-learn that ends with one of
        them. Before it may stand CountVectorizer, HashingVectorizer, TfidfVectorizer, TfidfTransformer,
        StandardScaler, MaxAbsScaler, Normalizer, TruncatedSVD, PCA, and unions of these. Functions among the
        parameters, such as a kernel or a callback, are refused.
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
            f"dtype is {shown(dtype)}. Pass 'float32' or 'float64', or leave it out for all digits."
        )
    check_saveable(estimator)
    estimator = at_home(estimator)
    writer = ModelWriter(None if dtype is None else _DTYPES[dtype])
    found = writer.encode(estimator, "")
    document = {
        **_facts(estimator),
        "summary": _plain_summary(summary),
        "made_with": {"numpy": np.__version__, "scikit-learn": sklearn.__version__},
        "model": found,
    }
    container.write(path, document, writer.tensors)


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
        If the file is not a sound model, or of another format.
    OSError
        If it cannot be read.
    """
    document, tensors = container.read(path)
    reader = ModelReader(tensors)

    def read() -> Any:
        estimator = reader.decode(document["model"])
        if type(estimator) is Pipeline:
            check_columns(estimator[:-1], estimator[-1])
        check_saveable(estimator)
        if any(document.get(key) != fact for key, fact in _facts(estimator).items()):
            raise ModelFileError(f"The model is another than its header says. {AGAIN}")
        return estimator

    estimator = container.sound(read)
    if rest := tensors.keys() - reader.used:
        raise ModelFileError(f"Tensor {shown(min(rest))} is not used. {AGAIN}")
    return estimator


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Tell what is in a model file, without reading its numbers.

    The checksum covers the whole file, so only `load` compares it.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    dict
        ``format``, ``lrml_version``, ``kind`` (the class), ``params``, ``n_features``, ``n_labels``,
        ``rank``, ``nbytes`` (of the file), ``summary`` (what the caller of `save` said, or None). An array
        among the parameters is a text that tells its shape.
    """
    header = container.read_header(path)
    document = header.document
    names = ("kind", "n_features", "n_labels", "rank", "summary")
    return {
        "format": container.FORMAT,
        "lrml_version": header.lrml_version,
        "nbytes": header.nbytes,
        "params": container.sound(lambda: _in_words(header, document["model"])["params"]),
        **{name: document.get(name) for name in names},
    }


def _facts(estimator: Any) -> dict[str, Any]:
    """Return what a header says of a model."""
    record = model_of(estimator).fitted_
    sizes = {"n_features": int(record.schema.n_features), "n_labels": record.n_labels, "rank": record.rank}
    return {"kind": type(estimator).__name__, **sizes}


def _plain_summary(summary: Mapping[str, Any] | None) -> Any:
    """Return a summary in plain JSON: NumPy's numbers as Python's, and None for those that are not finite."""
    if summary is not None and not isinstance(summary, Mapping):
        raise TypeError(f"summary is {shown(summary)}, not a dictionary. Pass {{'data': …}}.")
    return _plain(summary)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(one) for key, one in value.items()}
    raise TypeError(
        f"The summary holds {shown(value)}. It may hold numbers, texts, lists and dictionaries with texts as "
        "keys; convert it with str()."
    )


def _in_words(header: container.Header, value: Any) -> Any:
    """Return a parameter for people: what is in tensors is told by its size."""
    if isinstance(value, list):
        return [_in_words(header, one) for one in value]
    if not isinstance(value, dict) or not value:
        return value
    if "kind" in value:
        return {"kind": value["kind"], "params": _in_words(header, {"dict": value["params"]})}
    key, inner = next(iter(value.items()))
    if key in ("dict", "scalar"):
        return inner[-1] if key == "scalar" else {name: _in_words(header, one) for name, one in inner.items()}
    if key in ("array", "transposed", "texts"):
        shape = header.shapes.get(f"{inner}.offsets" if key == "texts" else inner, ())
        return f"{key} of shape {shape[::-1] if key == 'transposed' else shape}"
    return _in_words(header, inner)
