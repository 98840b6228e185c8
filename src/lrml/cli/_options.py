"""What commands share: error handling, and the options that select the data."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lrml._files import check_writable
from lrml._shown import did_you_mean
from lrml.datasets import FORMATS, mulan_entries

if TYPE_CHECKING:
    from lrml.datasets import Roles, Source


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


# Options about the data: placeholder, parser and help.
_READING: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "format": ("|".join(FORMATS), one_of(tuple(FORMATS)), "Files: format, if the suffix does not say it."),
    "test": ("PATH", str, "Files: a second one, the test set that belongs to the first."),
    "text": ("LIST", _names, "Texts: their column; several are joined (default: guessed, and shown)."),
    "tags": (
        "LIST",
        _one_or_more,
        "Tables: the column that lists tags or labels, or columns of 0 and 1 (guessed, too).",
    ),
    "tag_separator": ("TEXT", str, "Tables: what separates tags (guessed, too)."),
    "labels": (
        "LIST|N",
        _labels,
        "Numbers: names of the label columns, or N for the first N columns, -N for the last.",
    ),
    "ignore": ("LIST", _names, "Numbers: columns to leave out."),
    "delimiter": ("CHAR", str, "CSV: what separates cells (default: seen from the first rows)."),
    "read": ("KEY=VALUE", str, "More of how files are read, such as zero_based=true; may come again."),
}
_RARE = (
    *("name", "xml", "features", "sparse", "zero_based", "n_features", "n_labels"),
    *("feature_names", "label_names"),
)


def _rare(given: Sequence[str]) -> dict[str, Any]:
    """Return the settings of ``--read``."""
    found: dict[str, Any] = {}
    for setting in given:
        key, _, value = setting.partition("=")
        if key not in _RARE or not value:
            raise ValueError(
                f"--read takes one of {', '.join(_RARE)} and a value, got {setting!r}. "
                f"{did_you_mean(key, _RARE)}Write for example --read n_features=1000."
            )
        plain: dict[str, Any] = {"true": True, "false": False}
        found[key] = _names(value) if key == "features" else plain.get(value, value)
        if key.startswith("n_"):
            found[key] = int(value)
    return found


@dataclass(frozen=True)
class Data:
    """What a command is to read: a known name, or files, and what was said of them."""

    name: str
    data_home: str | None
    reading: Mapping[str, Any]
    others: tuple[str, ...] = ()  # files that follow the first one

    def check(self) -> None:
        """Refuse what is not there, or options that do not fit to it."""
        known = mulan_entries()
        for name in (self.name, *self.others):
            if name not in (*known, "-") and not Path(name).exists():
                raise ValueError(
                    f"NAME|PATH must be one of {', '.join(known)} or a file, got {name!r}. "
                    f"{did_you_mean(name, known)}Check the spelling, or see: lrml datasets."
                )
        if self.name in known and self.reading:
            key = next(iter(self.reading))
            flag = "--from" if key == "format" else f"--{'read' if key in _RARE else key.replace('_', '-')}"
            raise ValueError(
                f"{flag} is for data files, got the dataset {self.name!r}. "
                f"Leave it out, or give a path such as ./{self.name} if a file is meant."
            )

    def open(self, roles: Roles | None = None, **options: Any) -> Source:
        """Open the data, and decide which column is what; ``roles`` are those that a model knows."""
        from lrml.datasets import open_source  # noqa: PLC0415 - help needs no NumPy

        self.check()
        paths: Any = [self.name, *self.others] if self.others else self.name
        return open_source(paths, roles=roles, data_home=self.data_home, **{**self.reading, **options})

    def with_defaults(self, options: Mapping[str, Any]) -> Data:
        """Return the same with options of a configuration file, where none were given."""
        known = [*(key for key in _READING if key != "read"), *_RARE]
        for key in options:
            if key not in known:
                raise ValueError(
                    f"[data] may have the keys {', '.join(known)}, got {key!r}. "
                    f"{did_you_mean(key, known)}Check the spelling."
                )
        return replace(self, reading={**options, **self.reading})


def takes_data(*, several: bool = False, metavar: str = "NAME|PATH") -> Callable[[Any], Callable[..., Any]]:
    """Give a command with the parameter ``data: Data`` an argument NAME|PATH and the options about data."""
    words = "A dataset that lrml knows, or a data file."
    if several:
        words, metavar = f"{words[:-1]}, or several to be read with --blocks.", f"{metavar}..."

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        every: Any = list[str] if several else str
        argument = Annotated[every, typer.Argument(metavar=metavar, help=words)]
        parameters = [
            _parameter("source", argument, inspect.Parameter.empty)
            if name == "data"
            else _parameter(name, p.annotation, p.default)
            for name, p in inspect.signature(command, eval_str=True).parameters.items()
        ]
        for key, (placeholder, parse, told) in _READING.items():
            flag = "--from" if key == "format" else f"--{key.replace('_', '-')}"
            details: Any = {} if key == "read" else {"parser": parse}
            choice = typer.Option(flag, metavar=placeholder, help=told, **details)
            kind: Any = list[str] if key == "read" else str
            parameters.append(_parameter(key, Annotated[kind | None, choice]))
        parameters.append(_parameter("data_home", DataHome))

        @functools.wraps(command)
        def run(source: str | list[str], data_home: str | None, **values: Any) -> Any:
            name, *others = [source] if isinstance(source, str) else source
            reading = {key: given for key in _READING if (given := values.pop(key, None)) is not None}
            with user_errors():
                reading |= _rare(reading.pop("read", None) or ())
                return command(data=Data(name, data_home, reading, tuple(others)), **values)

        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


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
        raise ValueError(
            f"{what} must be new, got {' and '.join(map(repr, there))}. Choose another name, or replace what "
            "is there with --force."
        )
    check_writable(place)
