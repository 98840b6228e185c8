"""What to fit: a method and its parameters, from options and a configuration file."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from lrml._shown import did_you_mean, shown
from lrml.cli._options import one_of, option

METHODS = {"lrml": "LRML", "ml-trace": "MLTrace", "ml-fro": "MLFro", "leml": "LEML", "cplst": "CPLST"}
"""Names of the methods on the command line, and their estimators."""

_LOSSES = ("squared", "logistic", "squared_hinge")
_KERNELS = ("linear", "rbf", "poly", "sigmoid", "laplacian", "cosine")
_TABLES = ("model", "text", "data")
# Rows of texts have unit length. Without a ridge the free singular values would fit every rare word.
_RIDGE_FOR_TEXTS = 1.0

Method = Annotated[
    str | None, option("|".join(METHODS), "The method (default: lrml).", one_of(tuple(METHODS)))
]
Loss = Annotated[
    str | None, option("|".join(_LOSSES), "Loss (default: that of the method).", one_of(_LOSSES))
]
Kernel = Annotated[str | None, option("|".join(_KERNELS), "Kernel (default: linear).", one_of(_KERNELS))]
Device = Annotated[
    str | None, option("NAME", "Where to compute, such as cuda (needs torch or CuPy; default: here).")
]
Config = Annotated[
    str | None,
    option("FILE.toml", "Settings: method, and tables [model], [text] and [data]; options take precedence."),
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of everything that is drawn.")]


@dataclass(frozen=True)
class Recipe:
    """A method of the family, with the parameters that were given."""

    method: str = "lrml"
    params: Mapping[str, Any] = field(default_factory=dict)
    text: Mapping[str, Any] = field(default_factory=dict)  # of TfidfVectorizer
    data: Mapping[str, Any] = field(default_factory=dict)  # of the reader

    @classmethod
    def of(cls, method: str | None, given: Mapping[str, Any], config: str | None) -> Recipe:
        """Return what options and a configuration file say together; options take precedence."""
        said = {} if config is None else _read_config(config)
        tables = {name: said.pop(name, {}) for name in _TABLES}
        chosen = method or said.pop("method", "lrml")
        if chosen not in METHODS:
            raise ValueError(
                f"method must be one of {', '.join(METHODS)}, got {shown(chosen)}. "
                f"{did_you_mean(chosen, METHODS)}Check the spelling."
            )
        options = {name: value for name, value in given.items() if value is not None}
        return cls(chosen, tables["model"] | options, tables["text"], tables["data"])

    def estimator(self, *, search: bool, n_texts: int | None, seed: int, verbose: bool) -> Any:
        """Return the estimator, or the search for its parameters, with all parameters checked.

        A default search for texts depends on how many there are; None means numbers.
        """
        import lrml  # noqa: PLC0415 - scikit-learn takes a second to import
        from lrml.text import default_model, default_vectorizer  # noqa: PLC0415

        member = METHODS[self.method]
        name, texts = member + ("CV" if search else ""), n_texts is not None
        own_default = n_texts is not None and name == "LRMLCV"
        model: Any = default_model(n_texts or 0) if own_default else getattr(lrml, name)()
        if search and model.estimator is None:
            model.set_params(estimator=getattr(lrml, member)())
        if texts and search and {"thetas", "alphas"} & set(self.params):
            model.set_params(
                **{key: None for key in ("thetas", "alphas") if key in model.get_params(deep=False)}
            )
        # What a search chooses is none of the parameters of its model that one may give.
        known = {key: key for key in model.get_params(deep=False) if key != "estimator"}
        if search:
            chosen = (*model._names, "gamma", "random_state", "verbose", "warm_start", "callback")
            inner = (key for key in model.estimator.get_params() if key not in chosen)
            known = {key: f"estimator__{key}" for key in inner} | known
        other = f"{member}{'' if search else 'CV'}"
        elsewhere = (getattr(lrml, other)().get_params(), f"lrml {'fit' if search else 'tune'} ({other})")
        _check_known(name, self.params, known, "Leave it out, or choose another --method.", elsewhere)
        defaults: dict[str, Any] = {"random_state": seed, "verbose": int(verbose)}
        if search:
            defaults["threshold"] = "auto"
        elif texts and self.params.get("loss", "squared") == "squared":
            defaults["ridge"] = _RIDGE_FOR_TEXTS
        given = {key: value for key, value in defaults.items() if key in known} | dict(self.params)
        model.set_params(**{known[key]: value for key, value in given.items()})
        model._check_params()
        if not texts:
            return model
        tagger = lrml.TextTagger(model)
        if self.text:
            words = default_vectorizer()
            _check_known(f"{type(words).__name__} in [text]", self.text, words.get_params(), "Leave it out.")
            settings = {
                key: tuple(v) if isinstance(v, list) and key == "ngram_range" else v
                for key, v in self.text.items()
            }
            tagger.set_params(**{f"vectorizer__{key}": value for key, value in settings.items()})
        return tagger


def _check_known(
    owner: str,
    given: Mapping[str, Any],
    known: Iterable[str],
    remedy: str,
    elsewhere: tuple[Iterable[str], str] = ((), ""),
) -> None:
    """Refuse parameters that are not known; some may be those of another command."""
    for key in given:
        if key not in known:
            if key in elsewhere[0]:
                raise ValueError(
                    f"{owner} must get parameters that it has, got {key!r}. {did_you_mean(key, known)}"
                    f"It is a parameter of {elsewhere[1]}: use that command, or leave it out."
                )
            raise ValueError(
                f"{owner} must get parameters that it has ({', '.join(known)}), got {key!r}. "
                f"{did_you_mean(key, known)}{remedy}"
            )


def _read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the settings of a file, of which the names at the top are checked."""
    try:
        found = tomllib.loads(Path(path).read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(
            f"--config must be a TOML file, got {os.fspath(path)!r} ({error}). "
            'Write lines such as method = "lrml", and tables [model], [text] and [data].'
        ) from error
    except OSError as error:
        raise ValueError(
            f"--config must be a file that can be read, got {os.fspath(path)!r} ({error.strerror}). "
            "Check the path."
        ) from error
    for key, value in found.items():
        if key not in ("method", *_TABLES) or (key in _TABLES) != isinstance(value, dict):
            raise ValueError(
                f"--config must hold a method and the tables {', '.join(_TABLES)}, got {key} = "
                f"{shown(value)}. Put parameters of the method under [model]."
            )
    return found


def typed_list(parse: Any) -> Any:
    """Return the parser of a list of values between commas."""

    def parse_list(text: str) -> list[Any]:
        try:
            return [parse(part.strip()) for part in text.split(",")]
        except ValueError:
            raise typer.BadParameter(
                f"must be numbers with commas between them, got {text!r}. Write for example 0.1,1,10."
            ) from None

    return parse_list
