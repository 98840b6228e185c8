"""Model files: `lrml.save` and `lrml.load`.

One file holds one fitted estimator: numbers, names, settings and facts about its training, and nothing that
could run. It is a safetensors file (suffix ``.lrml``) with one JSON document in its header and a SHA-256
checksum of the whole; ``docs/models.md`` describes it, so that others can read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import sklearn

from lrml._files import write_atomically
from lrml._inner import inner_model
from lrml._shown import shown
from lrml.core import Statistics
from lrml.core.arrays import at_home
from lrml.core.checks import check_flag
from lrml.storage import _container as container
from lrml.storage._card import card_of, place_of_card
from lrml.storage._checks import check_columns
from lrml.storage._container import ModelFileError, sound
from lrml.storage._state import SKOPS_TRUSTED_TYPES, Reader, Writer

__all__ = ["SKOPS_TRUSTED_TYPES", "ModelFileError", "load", "read_header", "save"]


def save(
    model: Any,
    path: str | os.PathLike[str],
    *,
    summary: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    card: bool = False,
) -> None:
    """Write a fitted estimator, or the sums of rows, to a file that holds data only.

    Parameters
    ----------
    model : fitted estimator or Statistics
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
    card : bool, default=False
        Also write a model card, README.md in the same folder: what was fitted and how to use it, with the
        front matter that hubs of models read. Another README.md that is there is an error.

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
    if dtype not in (None, "float32", "float64"):
        raise ValueError(
            f"dtype is {shown(dtype)}. Pass 'float32' or 'float64', or leave it out for all digits."
        )
    if summary is not None and not isinstance(summary, Mapping):
        raise TypeError(f"summary is {shown(summary)}, not a dictionary. Pass {{'data': …}}.")
    told = None
    if check_flag("card", card):  # made before anything is written
        told = place_of_card(path), card_of(model, os.path.basename(path), summary or {})
    facts, model, writer = _facts(model), at_home(model), Writer(dtype)
    document = {
        **facts,
        # What is not finite becomes None.
        "summary": json.loads(json.dumps(summary, default=_listed), parse_constant=lambda _: None),
        "made_with": {"numpy": np.__version__, "scikit-learn": sklearn.__version__},
        "model": writer.encode(model, ""),
    }
    container.write(path, document, writer.tensors)
    if told is not None:
        write_atomically(told[0], told[1].encode("utf-8", "replace"))


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` has written, with its parameters and fitted attributes.

    Nothing in the file is executed or imported by name. Sizes, checksum, shapes and parameters are checked,
    and `ModelFileError` is raised if anything is not sound, or of another format; ``docs/models.md`` says
    what is checked when. Scores are the same to the last digit on the same machine, unless the model was
    fitted or saved in single precision: then to about six.
    """
    with sound(path):
        document, tensors = container.read(path)
        model = Reader(tensors).decode(document["model"])
        if {**document, **_facts(model)} != document:
            raise ValueError("the model is another than its header says")
        if not isinstance(model, Statistics):
            check_columns(inner_model(model, "load"))
    return model


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Tell what is in a model file, without reading its numbers, and so without its checksum.

    ``format``, ``lrml_version``, ``made_with``, ``kind`` (the class), ``n_features``, ``n_labels``, ``rank``
    (of a pruned model ``n_weights``), ``nbytes`` (of the file), ``summary`` (what the caller of `save` said,
    or None), and ``model``: parameters and state, where an array is the name of a tensor.
    """
    with sound(path):
        return container.read(path, numbers=False)[0] | {"nbytes": os.path.getsize(path)}


def _facts(model: Any) -> dict[str, Any]:
    """Return what a header says of a model."""
    if isinstance(model, Statistics):
        return {"kind": "Statistics", "n_features": len(model.x_mean), "n_labels": len(model.y_mean)}
    fit = inner_model(model, "save").model.fitted_
    sizes = {"n_features": int(fit.schema.n_features), "n_labels": fit.n_labels}
    sizes |= {"rank": fit.rank} if fit.n_weights is None else {"n_weights": fit.n_weights}
    return {"kind": type(model).__name__, **sizes}


def _listed(value: Any) -> Any:
    """Return numbers of NumPy in a summary as Python's."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(
        f"The summary holds {shown(value)}. It may hold numbers, texts, lists and dictionaries; convert it "
        "with str()."
    )
