"""What commands share: options, the data that they select, and errors that become one message."""

from __future__ import annotations

import functools
import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from lrml._files import check_writable
from lrml._shown import counted, did_you_mean
from lrml.datasets import FORMATS

if TYPE_CHECKING:
    from lrml.datasets import Roles, Source


def option(metavar: str, words: str, parser: Callable[[str], Any] | None = None) -> Any:
    """Return an option with a value; ``words`` is its help."""
    return typer.Option(metavar=metavar, help=words, parser=parser)


_HOME = "Folder with one folder per dataset (default: LRML_DATA_HOME, then the cache)."
DataHome = Annotated[str | None, option("DIR", _HOME)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of everything that is drawn.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model file of lrml fit or lrml tune.")]
Html = Annotated[str | None, option("FILE", "Write a page with figures and tables.")]
Bootstrap = Annotated[int, typer.Option(metavar="N", min=2, help="Resamples of the rows for the intervals.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress; of reproduce, errors only.")]


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


def names(text: str) -> list[str]:
    """Return names that stand between commas."""
    return [name.strip() for name in text.split(",")]


def value(text: str) -> Any:
    """Return what a text stands for: a number, true or false, a list with commas, or itself, such as auto.

    Whether it suits a parameter is checked where all parameters are.
    """
    if "," in text:
        return [value(part) for part in names(text)]
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return {"true": True, "false": False}.get(text, text)


# Options of which a command gets those that were given, in one mapping: placeholder (none of a flag),
# parser and help.
Table: TypeAlias = Mapping[str, tuple[str, Callable[[str], Any] | None, str]]

_READING: Table = {
    "format": ("|".join(FORMATS), None, "Files: format, if the suffix does not say it."),
    "test": ("PATH", None, "Files: a second one, the test set that belongs to the first."),
    "text": ("LIST", names, "Texts: their column; several are joined (default: guessed, and shown)."),
    "tags": ("LIST", value, "Tables: the column that lists tags or labels, or columns of 0 and 1."),
    "tag_separator": ("TEXT", None, "Tables: what separates tags (guessed, too)."),
    "labels": ("LIST|N", value, "Numbers: names of the label columns; N or -N for the first or last N."),
    "ignore": ("LIST", names, "Numbers: columns to leave out."),
    "delimiter": ("CHAR", None, "CSV: what separates cells (default: seen from the first rows)."),
    "read": ("KEY=VALUE", None, "More of how files are read, such as n_features=1000; may come again."),
    "data_home": ("DIR", None, _HOME),
}
_TEXTS = ("name", "xml", "feature_names", "label_names")


def _settings(given: Sequence[str]) -> dict[str, Any]:
    """Return the settings of ``--read``; which there are, the readers know."""
    found = {}
    for setting in given:
        key, _, text = setting.partition("=")
        if not text:
            raise ValueError(f"--read {setting} has no value. Write for example --read n_features=1000.")
        found[key] = names(text) if key == "features" else text if key in _TEXTS else value(text)
        if isinstance(found[key], str) and key not in _TEXTS:
            raise ValueError(f"--read {setting}: {text!r} is neither a number nor true or false. Correct it.")
    return found


@dataclass(frozen=True)
class Data:
    """What a command is to read: a known name, or files, and what was said of them."""

    paths: tuple[str, ...]
    reading: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The name, or the first file."""
        return self.paths[0]

    @property
    def told(self) -> str:
        """The name for people, who learn how many more files there are."""
        more = len(self.paths) - 1
        return f"{self.name} and {counted(more, 'more file')}" if more else self.name

    def open(self, roles: Roles | None = None, **options: Any) -> Source:
        """Open the data, and decide which column is what; ``roles`` are those that a model knows."""
        from lrml.datasets import open_source  # noqa: PLC0415 - help needs no NumPy

        paths = self.name if len(self.paths) == 1 else list(self.paths)
        return open_source(paths, roles=roles, **{**self.reading, **options})

    def with_defaults(self, options: Mapping[str, Any]) -> Data:
        """Return the same with options of a configuration file, where none were given."""
        return replace(self, reading={**options, **self.reading})


def takes_data(
    metavar: str = "NAME|PATH",
    words: str = "A dataset that lrml knows, or a data file; several are read as one.",
    **tables: Table,
) -> Callable[[Any], Callable[..., Any]]:
    """Give a command an argument and the options about data, as its parameter ``data``.

    Its parameter of the name of a table gets a dict of the options there that were given.
    """
    source = Annotated[list[str], typer.Argument(metavar=metavar, help=words)]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        parameters = []
        for name, own in inspect.signature(command, eval_str=True).parameters.items():
            if name == "data":
                parameters.append(_parameter("source", source, inspect.Parameter.empty))
            elif name in tables:
                parameters += _parameters(tables[name])
            else:
                parameters.append(_parameter(name, own.annotation, own.default))
        parameters += _parameters(_READING)

        @functools.wraps(command)
        def run(source: list[str], **given: Any) -> Any:
            def taken(table: Table) -> dict[str, Any]:
                return {key: one for key in table if (one := given.pop(key, None)) is not None}

            reading = taken(_READING)
            chosen = {name: taken(table) for name, table in tables.items()}
            with user_errors():
                reading |= _settings(reading.pop("read", ()))
                return command(data=Data(tuple(source), reading), **chosen, **given)

        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _parameters(table: Table) -> list[inspect.Parameter]:
    found = []
    for key, (metavar, parse, words) in table.items():
        flag = {"format": "--from"}.get(key, f"--{key.replace('_', '-')}")
        kind: Any = list[str] if key == "read" else str if metavar else bool
        details: Any = {"metavar": metavar, "parser": parse} if metavar else {}
        found.append(_parameter(key, Annotated[kind | None, typer.Option(flag, help=words, **details)]))
    return found


def _parameter(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def check_output(
    path: str | os.PathLike[str] | None,
    what: str,
    *,
    force: bool = False,
    beside: Sequence[Path] = (),
    other: Sequence[str] = (),
    suffixes: Sequence[str] = (),
) -> None:
    """Make sure, before anything is read, that a file, if any, and others ``beside`` it may be written.

    What the command reads or writes under ``other`` names is not written over, even if forced. Its suffix is
    one of some, if any are given.
    """
    if path is None:
        return
    place, shown, wrong = Path(path), repr(os.fspath(path)), None
    if suffixes and place.suffix.lower() not in suffixes:
        wrong = f"{shown} does not end with one of {', '.join(suffixes)}. Choose another name."
    elif not place.parent.is_dir():
        wrong = f"there is no folder {os.fspath(place.parent)!r}. Make it, or choose another."
    elif place.exists() and not place.is_file():
        wrong = f"{shown} is {'a folder' if place.is_dir() else 'a device'}. Pass the name of a file."
    elif os.path.realpath(place) in map(os.path.realpath, other):
        wrong = f"this command needs {shown} for something else. Choose another name."
    there = [os.fspath(file) for file in (place, *beside) if file.exists() or file.is_symlink()]
    if wrong is None and there and not force:
        wrong = f"{' and '.join(map(repr, there))} exists already. Choose another name, or pass --force."
    if wrong is not None:
        raise ValueError(f"{what}: {wrong}")
    check_writable(place)
