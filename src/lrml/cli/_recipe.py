"""What to fit: a method and its parameters, from options and a configuration file."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lrml._shown import did_you_mean, shown
from lrml.cli._options import Table, value, values

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
    "thetas": ("LIST", values, "LRML: values of theta to try."),
    "ranks": ("LIST", values, "LEML, CPLST: ranks to try."),
    "alphas": ("LIST", values, "Values of alpha to try."),
    "ridges": ("LIST", values, "Values of the ridge to try."),
    **_LOSS,
    "gammas": ("LIST", values, "Kernels: widths to try."),
    "cv": ("N|SHARE", value, "Folds, or the share of rows held out (default: what suits the data)."),
    "scoring": ("NAME", None, "What to judge by, such as average_precision, precision_at_1 or micro_f1."),
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

        member, texts = METHODS[self.method], n_texts is not None
        names = {False: member, True: f"{member}CV"}
        own_default = n_texts is not None and names[search] == "LRMLCV"
        model: Any = default_model(n_texts or 0) if own_default else getattr(lrml, names[search])()
        defaults: dict[str, Any] = {"random_state": seed, "verbose": int(verbose)}
        # What a search chooses is none of the parameters of its model that one may give.
        known = {key: key for key in model.get_params(deep=False) if key != "estimator"}
        if search:
            if model.estimator is None:
                model.set_params(estimator=getattr(lrml, member)())
            if texts and {"thetas", "alphas"} & set(self.params):
                model.set_params(**{key: None for key in ("thetas", "alphas") if key in known})
            chosen = (*model._names, "gamma", "random_state", "verbose", "warm_start", "callback")
            inner = (key for key in model.estimator.get_params() if key not in chosen)
            known = {key: f"estimator__{key}" for key in inner} | known
            defaults["threshold"] = "auto"
            if "verbose" in model.estimator.get_params():
                model.set_params(estimator__verbose=int(verbose))  # of the fit to all rows
        elif texts and self.params.get("loss", "squared") == "squared":
            defaults["ridge"] = _RIDGE_FOR_TEXTS
        other = getattr(lrml, names[not search])().get_params()
        elsewhere = f"a parameter of lrml {'fit' if search else 'tune'} ({names[not search]})"
        _check_known(names[search], self.params, known, dict.fromkeys(other, elsewhere))
        given = {key: value for key, value in defaults.items() if key in known} | dict(self.params)
        model.set_params(**{known[key]: value for key, value in given.items()})
        model._check_params()
        if not texts:
            return model
        words, settings = default_vectorizer(), dict(self.text)
        if isinstance(settings.get("ngram_range"), list):
            settings["ngram_range"] = tuple(settings["ngram_range"])
        _check_known(f"{type(words).__name__} in [text]", settings, words.get_params())
        return lrml.TextTagger(model).set_params(**{f"vectorizer__{key}": v for key, v in settings.items()})


def _check_known(
    owner: str, given: Iterable[str], known: Iterable[str], elsewhere: Mapping[str, str] | None = None
) -> None:
    """Refuse parameters that are not known; some may be those of another command."""
    for key in given:
        if key not in known:
            there = (elsewhere or {}).get(key)
            where = f"It is {there}: use that" if there else f"It has {', '.join(known)}. Choose one of these"
            raise ValueError(
                f"{owner} has no parameter {key!r}. {did_you_mean(key, known)}{where}, or leave it out."
            )


def _read_config(path: str) -> dict[str, Any]:
    """Return the settings of a file, of which the names at the top are checked."""
    try:
        found = tomllib.loads(Path(path).read_text("utf-8-sig"))
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
