"""What commands share: error handling, and the options that select the data."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import lrml.datasets
from lrml._shown import did_you_mean
from lrml.datasets import READ_FORMATS, dataset_status, mulan_entries

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


class CommandError(Exception):
    """A command cannot be carried out; the message is for the user."""


@contextmanager
def user_errors() -> Iterator[None]:
    """Turn errors of files, networks and values into one message; also a decorator."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of the output has closed it
    except (OSError, ValueError, TypeError, ImportError) as error:
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


def _labels(text: str) -> int | list[str]:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else _names(text)


def _zero_based(text: str) -> str | bool:
    return {"true": True, "false": False}.get(text, one_of(("auto", "true", "false"))(text))


# The options of the readers: placeholder, parser and help.
_READING: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "format": ("|".join(READ_FORMATS), one_of(READ_FORMATS), "Files: format, if the suffix does not say it."),
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
    "delimiter": ("CHAR", str, "CSV: what separates cells (default: a comma; a tabulator in .tsv)."),
    "sparse": ("", bool, "CSV, Parquet: store sparse matrices."),
    "n_features": ("N", int, "svmlight: number of features (default: as occur)."),
    "n_labels": ("N", int, "svmlight: number of labels (default: as occur)."),
    "zero_based": (
        "auto|true|false",
        _zero_based,
        "svmlight: whether features are counted from 0 (default: auto, if 0 occurs).",
    ),
}


def _name(key: str) -> str:
    return "--from" if key == "format" else f"--{key.replace('_', '-')}"


@dataclass(frozen=True)
class Source:
    """The dataset for a command: a known name, or a file with the options of its reader."""

    name: str
    data_home: str | None
    reading: dict[str, Any]

    def check(self) -> None:
        """Refuse a source that cannot be read, or options that do not fit to it."""
        known = mulan_entries()
        if self.name not in known and not Path(self.name).exists():
            raise ValueError(
                f"NAME|PATH must be one of {', '.join(known)} or a file, got {self.name!r}. "
                f"{did_you_mean(self.name, known)}Check the spelling, or see: lrml datasets."
            )
        if self.name in known and self.reading:
            raise ValueError(
                f"{_name(next(iter(self.reading)))} is for data files, got the dataset {self.name!r}. "
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


def takes_source(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command with the parameter ``data: Source`` an argument NAME|PATH and the options of readers."""
    argument = typer.Argument(metavar="NAME|PATH", help="A dataset that lrml knows, or a data file.")
    own = inspect.signature(command, eval_str=True).parameters
    parameters = [_parameter("source", Annotated[str, argument], inspect.Parameter.empty)]
    parameters += [_parameter(name, p.annotation, p.default) for name, p in own.items() if name != "data"]
    for key, (metavar, parse, words) in _READING.items():
        plain = parse in (int, bool)
        details: Any = {} if plain else {"parser": parse}
        choice = typer.Option(_name(key), metavar=metavar or None, help=words, **details)
        parameters.append(_parameter(key, Annotated[(parse if plain else str) | None, choice]))  # type: ignore[operator]
    parameters.append(_parameter("data_home", DataHome))

    @functools.wraps(command)
    def run(source: str, data_home: str | None, **values: Any) -> Any:
        reading = {key: values.pop(key) for key in _READING}
        given = {key: value for key, value in reading.items() if value is not None}
        with user_errors():
            return command(data=Source(source, data_home, given), **values)

    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
