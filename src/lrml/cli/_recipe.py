"""What to fit: a method and its parameters, from options and a configuration file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lrml._shown import did_you_mean, shown
from lrml.cli._options import Table, value

METHODS = {"lrml": "LRML", "ml-trace": "MLTrace", "ml-fro": "MLFro", "leml": "LEML", "cplst": "CPLST"}
"""Names of the methods on the command line, and their estimators."""

_TABLES = ("model", "text", "data")
# Rows of texts have unit length. Without a ridge the free singular values would fit every rare word.
_RIDGE_FOR_TEXTS = 1.0
_METHOD: Table = {"method": ("|".join(METHODS), None, "The method (default: lrml).")}
_LOSS: Table = {
    "loss": ("squared|logistic|squared_hinge", None, "Loss (default: that of the method)."),
    "kernel": ("linear|rbf|poly|sigmoid|laplacian|cosine", None, "Kernel (default: linear)."),
}
_PLACE: Table = {
    "device": ("NAME", None, "Where to compute, such as cuda (needs torch or CuPy; default: here)."),
    "config": ("FILE.toml", None, "Settings: method, tables [model], [text], [data]; options come first."),
}
_THETA = "LRML: free singular values, a count or a share (default: 0.05; with --alpha 0.2; other losses 0.1)."
_RIDGE = "Ridge beside it (default: that of the method, or 1 for texts, squared loss)."
_ASSIGNED = "Score from which on a tag is assigned"
FIT: Table = {
    **_METHOD,
    "theta": ("N|SHARE|auto", value, _THETA),
    "rank": ("N|SHARE", value, "LEML, CPLST: the rank, a count or a share of the labels."),
    "alpha": ("X", value, "Strength of the penalty (default: that of the method; lrml: on predictions)."),
    "ridge": ("X", value, _RIDGE),
    **_LOSS,
    "gamma": ("X", value, "Kernels: their width (default: 1/features)."),
    "threshold": ("X|auto", value, f"{_ASSIGNED} (default: that of the loss)."),
    **_PLACE,
}
TUNE: Table = {
    **_METHOD,
    "thetas": ("LIST", value, "LRML: values of theta to try."),
    "ranks": ("LIST", value, "LEML, CPLST: ranks to try."),
    "alphas": ("LIST", value, "Values of alpha to try."),
    "ridges": ("LIST", value, "Values of the ridge to try."),
    **_LOSS,
    "gammas": ("LIST", value, "Kernels: widths to try."),
    "cv": ("N|SHARE", value, "Folds, or the share of rows held out (default: what suits the data)."),
    "scoring": (
        "NAME",
        None,
        "What to judge by, such as label_ranking_average_precision, precision_at_1 or f1_micro.",
    ),
    "rule": ("NAME", None, "best (default), one_standard_error, or smallest in bytes within one such error."),
    "threshold": ("X|auto", value, f"{_ASSIGNED} (default: auto, for micro-F1)."),
    **_PLACE,
}


def check_method(name: Any) -> str:
    """Return the name of a method; refuse others."""
    if name not in METHODS:
        raise ValueError(
            f"There is no method {shown(name)}, only {', '.join(METHODS)}. {did_you_mean(name, METHODS)}"
            "Check the spelling."
        )
    return str(name)


@dataclass(frozen=True)
class Recipe:
    """A method of the family, with the parameters that were given."""

    method: str = "lrml"
    params: Mapping[str, Any] = field(default_factory=dict)
    text: Mapping[str, Any] = field(default_factory=dict)  # of TfidfVectorizer
    data: Mapping[str, Any] = field(default_factory=dict)  # of the reader

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Recipe:
        """Return what options and a configuration file say together; options take precedence."""
        options = dict(given)
        said = _read_config(options.pop("config")) if "config" in options else {}
        method = check_method(options.pop("method", said.get("method", "lrml")))
        model, text, data = (said.get(name, {}) for name in _TABLES)
        return cls(method, model | options, text, data)

    def estimator(self, *, search: bool, n_texts: int | None, seed: int, verbose: bool) -> Any:
        """Return the estimator, or the search for its parameters, with all parameters checked.

        A default search for texts depends on how many there are; None means numbers.
        """
        import lrml  # noqa: PLC0415 - scikit-learn takes a second to import
        from lrml.text import default_model, default_vectorizer  # noqa: PLC0415

        model: Any = getattr(lrml, METHODS[self.method])()
        own: dict[str, Any] = {"random_state": seed, "verbose": int(verbose)}
        place: dict[str, str] = {}  # of parameters of the estimator in a search
        if search:
            bare, name = model, f"{METHODS[self.method]}CV"
            model = getattr(lrml, name)() if n_texts is None or name != "LRMLCV" else default_model(n_texts)
            if model.estimator is None:
                model.set_params(estimator=bare)
            if n_texts is not None and {"thetas", "alphas"} & set(self.params):
                model.set_params(**{key: None for key in ("thetas", "alphas") if hasattr(model, key)})
            chosen = {*model._names, "gamma"}  # by the search
            place = {key: f"estimator__{key}" for key in bare.get_params() if key not in chosen}
            own |= {"estimator__threshold": "auto", "estimator__verbose": int(verbose)}
        elif n_texts is not None and self.params.get("loss", "squared") == "squared":
            own["ridge"] = _RIDGE_FOR_TEXTS
        place |= {key: key for key in model.get_params() if "__" not in key and key != "estimator"}
        _check_known(model, self.params, place, told=TUNE if search else FIT)
        usual = {key: one for key, one in own.items() if key in model.get_params()}
        model.set_params(**usual | {place[key]: one for key, one in self.params.items()})
        model._check_params()
        if n_texts is None:
            return model
        words = default_vectorizer()
        _check_known(words, self.text, words.get_params())
        settings = {key: tuple(one) if isinstance(one, list) else one for key, one in self.text.items()}
        return lrml.TextTagger(model, vectorizer=words.set_params(**settings))


def _check_known(owner: Any, given: Iterable[str], known: Iterable[str], told: Table | None = None) -> None:
    """Refuse parameters that are not known; the message lists those among ``told`` that are, or all."""
    for key in given:
        if key not in known:
            listed = known if told is None else [one for one in told if one in known]
            raise ValueError(
                f"{type(owner).__name__} has no parameter {key!r}. {did_you_mean(key, known)}It has "
                f"{', '.join(listed)}: choose one of these, or leave it out."
            )


def _read_config(path: str) -> dict[str, Any]:
    """Return the settings of a file, of which the names at the top are checked."""
    try:
        found = tomllib.loads(Path(path).read_text("utf-8-sig"))
    except FileNotFoundError as error:
        raise ValueError(f"--config: there is no file {path!r}. Check the path.") from error
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"--config {path!r} cannot be read as TOML ({error}). Write lines such as method = "
            '"lrml", and tables [model], [text] and [data].'
        ) from error
    for key, setting in found.items():
        if key not in ("method", *_TABLES) or (key in _TABLES) != isinstance(setting, dict):
            raise ValueError(
                f"--config {path!r} has {key} = {shown(setting)} at the top, where only method and the "
                f"tables {', '.join(_TABLES)} may stand. Put parameters of the method under [model]."
            )
    return found
