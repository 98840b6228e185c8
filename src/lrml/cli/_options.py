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
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

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
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of everything that is drawn.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model file of lrml fit or lrml tune.")]
Html = Annotated[str | None, option("FILE", "Write a page with figures and tables.")]
Bootstrap = Annotated[int, option("N", "Resamples of the rows for the intervals.")]
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
            raise typer.BadParameter(
                f"{text!r} is none of {', '.join(choices)}. {did_you_mean(text, choices)}Check the spelling."
            )
        return text

    return parse


def number_of(what: str, parse: Callable[[str], Any], example: str) -> Callable[[str], Any]:
    """Return the parser of an option that takes numbers; ``what`` they are, and an example."""

    def parsed(text: str) -> Any:
        try:
            return parse(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not {what}. Write for example {example}.") from None

    return parsed


count_or_share = number_of(
    "a count, a share or auto",
    lambda text: text if text == "auto" else (int if text.isdecimal() else float)(text),
    "3, 0.1 or auto",
)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",")]


def _one_or_more(text: str) -> str | list[str]:
    names = _names(text)
    return names if len(names) > 1 else text


def _labels(text: str) -> int | list[str]:
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else _names(text)


# Options of which a command gets those that were given, in one mapping: placeholder, parser and help.
Table: TypeAlias = Mapping[str, tuple[str, Callable[[str], Any] | None, str]]

_READING: Table = {
    "format": ("|".join(FORMATS), one_of(tuple(FORMATS)), "Files: format, if the suffix does not say it."),
    "test": ("PATH", None, "Files: a second one, the test set that belongs to the first."),
    "text": ("LIST", _names, "Texts: their column; several are joined (default: guessed, and shown)."),
    "tags": ("LIST", _one_or_more, "Tables: the column that lists tags or labels, or columns of 0 and 1."),
    "tag_separator": ("TEXT", None, "Tables: what separates tags (guessed, too)."),
    "labels": ("LIST|N", _labels, "Numbers: names of the label columns; N or -N for the first or last N."),
    "ignore": ("LIST", _names, "Numbers: columns to leave out."),
    "delimiter": ("CHAR", None, "CSV: what separates cells (default: seen from the first rows)."),
    "read": ("KEY=VALUE", None, "More of how files are read, such as n_features=1000; may come again."),
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
                f"--read {setting} sets none of {', '.join(_RARE)}. "
                f"{did_you_mean(key, _RARE)}Write for example --read n_features=1000."
            )
        found[key] = _names(value) if key == "features" else value
        if key in ("sparse", "zero_based"):
            if value not in ("true", "false"):
                raise ValueError(f"--read {key} must be true or false, got {value!r}.")
            found[key] = value == "true"
        elif key.startswith("n_"):
            if not value.isdecimal():
                raise ValueError(f"--read {key} must be a whole number, got {value!r}.")
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
                    f"{name!r} is neither a file nor one of {', '.join(known)}. "
                    f"{did_you_mean(name, known)}Check the spelling, or see: lrml datasets."
                )
        if self.name in known and self.reading:
            raise ValueError(
                f"{_flag(next(iter(self.reading)))} is for data files, and {self.name!r} is a dataset. "
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
                    f"[data] has the key {key!r}, which is none of {', '.join(known)}. "
                    f"{did_you_mean(key, known)}Check the spelling."
                )
        return replace(self, reading={**options, **self.reading})


def takes_data(
    *, several: bool = False, metavar: str = "NAME|PATH", **tables: Table
) -> Callable[[Any], Callable[..., Any]]:
    """Give a command an argument NAME|PATH and the options about data, as its parameter ``data``.

    Its parameter of the name of a table gets a dict of the options there that were given.
    """
    words = "A dataset that lrml knows, or a data file."
    if several:
        words, metavar = f"{words[:-1]}, or several to be read with --blocks.", f"{metavar}..."

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        every: Any = list[str] if several else str
        parameters = []
        for name, own in inspect.signature(command, eval_str=True).parameters.items():
            if name == "data":
                argument = Annotated[every, typer.Argument(metavar=metavar, help=words)]
                parameters.append(_parameter("source", argument, inspect.Parameter.empty))
            elif name in tables:
                parameters += _parameters(tables[name])
            else:
                parameters.append(_parameter(name, own.annotation, own.default))
        parameters += [*_parameters(_READING), _parameter("data_home", DataHome)]

        @functools.wraps(command)
        def run(source: str | list[str], data_home: str | None, **values: Any) -> Any:
            name, *others = [source] if isinstance(source, str) else source
            given = {
                kind: {key: value for key in table if (value := values.pop(key, None)) is not None}
                for kind, table in (tables | {"": _READING}).items()
            }
            reading = given.pop("")
            with user_errors():
                reading |= _rare(reading.pop("read", ()))
                return command(data=Data(name, data_home, reading, tuple(others)), **given, **values)

        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _parameters(table: Table) -> list[inspect.Parameter]:
    found = []
    for key, (metavar, parse, words) in table.items():
        kind: Any = list[str] if key == "read" else str
        details: Any = {} if key == "read" else {"parser": parse}
        choice = typer.Option(_flag(key), metavar=metavar, help=words, **details)
        found.append(_parameter(key, Annotated[kind | None, choice]))
    return found


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _flag(key: str) -> str:
    """Return the option that sets a key of a reader."""
    return {"format": "--from"}.get(key, f"--{'read' if key in _RARE else key.replace('_', '-')}")


def check_new_file(path: str | os.PathLike[str] | None, force: bool, what: str, *others: Path) -> None:
    """Make sure, before anything is read, that a file, if any, and others beside it may be written."""
    if path is None:
        return
    place = Path(path)
    if not place.parent.is_dir():
        raise ValueError(
            f"there is no folder {os.fspath(place.parent)!r} for {what}. Make it first, or choose another."
        )
    if place.exists() and not place.is_file():
        kind = "a folder. Add a file name." if place.is_dir() else "a device. Choose a file name."
        raise ValueError(f"{what} is {os.fspath(path)!r}, {kind}")
    there = [os.fspath(file) for file in (place, *others) if file.exists() or file.is_symlink()]
    if there and not force:
        raise ValueError(
            f"{what}: {' and '.join(map(repr, there))} exists already. Choose another name, or replace what "
            "is there with --force."
        )
    check_writable(place)


def check_other_file(path: str, what: str, *sources: str) -> None:
    """Refuse to write over a file that a command reads, even if forced."""
    for source in sources:
        if os.path.exists(path) and os.path.exists(source) and os.path.samefile(path, source):
            raise ValueError(f"{what} is {path!r}, the file that is read. Choose another name.")
