"""What commands share: error handling, and the options that select the data."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import lrml.datasets
from lrml._files import check_writable
from lrml._shown import did_you_mean
from lrml.datasets import READ_FORMATS, TEXT_FORMATS, dataset_status, mulan_entries

if TYPE_CHECKING:
    from lrml.datasets import MultiLabelDataset

EMBEDDED = "yeast"


def option(metavar: str, words: str, parser: Callable[[str], Any] | None = None) -> Any:
    """Return an option with a value; ``words`` is its help."""
    return typer.Option(metavar=metavar, help=words, parser=parser)


DataHome = Annotated[
    str | None, option("DIR", "Folder with one folder per dataset (default: LRML_DATA_HOME, then the cache).")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress.")]


class CommandError(Exception):
    """A command cannot be carried out; the message is for the user."""


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn errors of files, networks and values into one message; also a decorator."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of the output has closed it
    except (OSError, ValueError, TypeError, ImportError, OverflowError, re.error) as error:
        raise CommandError(str(error)) from error


def one_of(choices: Sequence[str]) -> Callable[[str], str]:
    """Return the parser of an option that takes one of the choices."""

    def parse(text: str) -> str:
        if text not in choices:
            guess = did_you_mean(text, choices)
            raise typer.BadParameter(
                f"must be one of {', '.join(choices)}, got {text!r}. {guess}Check the spelling."
            )
        return text

    return parse


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _one_or_more(text: str) -> str | list[str]:
    names = _names(text)
    return names if len(names) > 1 else text


def _labels(text: str) -> int | list[str]:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else _names(text)


def _zero_based(text: str) -> str | bool:
    return {"true": True, "false": False}.get(text, one_of(("auto", "true", "false"))(text))


def _format(choices: Sequence[str]) -> tuple[str, Callable[[str], Any], str]:
    return "|".join(choices), one_of(choices), "Files: format, if the suffix does not say it."


# The options of the readers: placeholder, parser and help.
_READING: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "format": _format(READ_FORMATS),
    "name": ("TEXT", str, "Files: name of the dataset (default: from the file)."),
    "test": ("PATH", str, "Files: a second one, the test set that belongs to the first."),
    "xml": ("PATH", str, "ARFF: the XML file that names the labels."),
    "labels": (
        "LIST|N",
        _labels,
        "ARFF, CSV, Parquet: names of the label columns, or N for the first N columns, -N for the last.",
    ),
    "label_column": ("NAME", str, "CSV, Parquet: the column that lists labels."),
    "label_separator": ("TEXT", str, "CSV, Parquet: what separates them (default: a comma)."),
    "features": ("LIST", _names, "CSV, Parquet: the feature columns (default: all others)."),
    "ignore": ("LIST", _names, "CSV, Parquet: columns to leave out."),
    "delimiter": ("CHAR", str, "CSV: what separates cells (default: seen from the first rows)."),
    "sparse": ("", bool, "CSV, Parquet: store sparse matrices."),
    "n_features": ("N", int, "svmlight: number of features (default: as occur)."),
    "n_labels": ("N", int, "svmlight: number of labels (default: as occur)."),
    "zero_based": (
        "auto|true|false",
        _zero_based,
        "svmlight: whether features are counted from 0 (default: auto, if 0 occurs).",
    ),
}


# The same for texts with tags.
_TEXTS: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "text": ("LIST", _names, "Texts: their column; several are joined (default: guessed, and shown)."),
    "tags": (
        "LIST",
        _one_or_more,
        "Texts: the column that lists tags, or columns of 0 and 1 (guessed, too).",
    ),
    "tag_separator": ("TEXT", str, "Texts: what separates tags (guessed, too)."),
}


def _name(key: str) -> str:
    return "--from" if key == "format" else f"--{key.replace('_', '-')}"


@dataclass(frozen=True)
class Source:
    """The dataset for a command: a known name, or a file with the options of its reader."""

    name: str
    data_home: str | None
    reading: dict[str, Any]
    texts: dict[str, Any] = field(default_factory=dict)  # options for texts with tags
    others: tuple[str, ...] = ()  # files that follow the first one

    def check(self) -> None:
        """Refuse a source that cannot be read, or options that do not fit to it."""
        known = mulan_entries()
        for name in (self.name, *self.others):
            if name not in known and not Path(name).exists():
                raise ValueError(
                    f"NAME|PATH must be one of {', '.join(known)} or a file, got {name!r}. "
                    f"{did_you_mean(name, known)}Check the spelling, or see: lrml datasets."
                )
        if self.name in known and (given := {**self.texts, **self.reading}):
            raise ValueError(
                f"{_name(next(iter(given)))} is for data files, got the dataset {self.name!r}. "
                f"Leave it out, or give a path such as ./{self.name} if a file is meant."
            )

    def load(self) -> MultiLabelDataset:
        """Return a known dataset, or one read from files."""
        if self.name in mulan_entries():
            if self.name == EMBEDDED and dataset_status(self.name, self.data_home).state == "missing":
                return lrml.datasets.load_yeast()
            return lrml.datasets.fetch_mulan(self.name, data_home=self.data_home)
        options = dict(self.reading)
        if (test := options.pop("test", None)) is None:
            return lrml.datasets.read_dataset(self.name, **options)
        return lrml.datasets.read_split(self.name, test, **options)

    def with_defaults(self, options: Mapping[str, Any]) -> Source:
        """Return the same source with options of a configuration file, where none were given."""
        known = _READING | _TEXTS
        for key in options:
            if key not in known:
                raise ValueError(
                    f"[data] may have the keys {', '.join(known)}, got {key!r}. "
                    f"{did_you_mean(key, known)}Check the spelling."
                )
        numbers, texts = (
            {key: options[key] for key in options if key in part} for part in (_READING, _TEXTS)
        )
        return replace(self, reading=numbers | self.reading, texts=texts | self.texts)


def takes_source(
    *, texts: bool = False, several: bool = False, metavar: str = "NAME|PATH"
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command with the parameter ``data: Source`` an argument NAME|PATH and the options of readers.

    With ``texts``, also the options for texts with tags; with ``several``, any number of paths.
    """

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        every = {"format": _format(tuple(dict.fromkeys(READ_FORMATS + TEXT_FORMATS)))}
        options = _TEXTS | _READING | every if texts else _READING
        return _with_source(command, options, list[str] if several else str, metavar)

    return decorate


def _with_source(
    command: Callable[..., Any], options: Mapping[str, Any], kind: Any, metavar: str
) -> Callable[..., Any]:
    words = "A dataset that lrml knows, or a data file."
    if kind is not str:
        words, metavar = f"{words[:-1]}, or several to be read with --blocks.", f"{metavar}..."
    argument = Annotated[kind, typer.Argument(metavar=metavar, help=words)]
    parameters = [
        _parameter("source", argument, inspect.Parameter.empty)
        if name == "data"
        else _parameter(name, p.annotation, p.default)
        for name, p in inspect.signature(command, eval_str=True).parameters.items()
    ]
    for key, (placeholder, parse, words) in options.items():
        plain = parse in (int, bool)
        details: Any = {} if plain else {"parser": parse}
        choice = typer.Option(_name(key), metavar=placeholder or None, help=words, **details)
        parameters.append(_parameter(key, Annotated[(parse if plain else str) | None, choice]))
    parameters.append(_parameter("data_home", DataHome))

    @functools.wraps(command)
    def run(source: str | list[str], data_home: str | None, **values: Any) -> Any:
        name, *others = [source] if isinstance(source, str) else source
        numbers, about_texts = (
            {key: value for key in part if (value := values.pop(key, None)) is not None}
            for part in (_READING, _TEXTS)
        )
        with user_errors():
            data = Source(name, data_home, numbers, about_texts, tuple(others))
            return command(data=data, **values)

    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def count_or_share(text: str) -> int | float | str:
    """Parse a number of singular values: a count, a share of the labels, or auto."""
    try:
        return text if text == "auto" else int(text) if text.isdecimal() else float(text)
    except ValueError:
        raise typer.BadParameter(
            f"must be a count, a share in [0, 1] or auto, got {text!r}. Use auto if in doubt."
        ) from None


def check_other_file(path: str, source: str, what: str) -> None:
    """Refuse to write over the file that a command reads, even if forced."""
    if os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source):
        raise ValueError(
            f"{what} must be another file than the one that is read, got {path!r} for both. Choose another "
            "name."
        )


def check_new_file(path: str | os.PathLike[str], force: bool, what: str, *others: Path) -> None:
    """Make sure, before anything is read, that a file (and others beside it) may be written."""
    place = Path(path)
    if not place.parent.is_dir():
        raise ValueError(
            f"{what} must be in a folder that exists, got {os.fspath(path)!r}, and there is no folder "
            f"{os.fspath(place.parent)!r}. Make it first, or choose another."
        )
    if place.exists() and not place.is_file():
        kind = "a folder. Add a file name." if place.is_dir() else "a device. Choose a file name."
        raise ValueError(f"{what} must be a file, got {os.fspath(path)!r}, {kind}")
    there = [os.fspath(file) for file in (place, *others) if file.exists() or file.is_symlink()]
    if there and not force:
        files = f"{what} and the file that belongs to it" if others else what
        raise ValueError(
            f"{files} must be new, got {' and '.join(map(repr, there))}. Choose another name, or "
            "replace what is there with --force."
        )
    check_writable(place)
