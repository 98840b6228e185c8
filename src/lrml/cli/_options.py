"""What commands share: their decorator and options, what they print, and the data that they select."""

from __future__ import annotations

import functools
import inspect
import json
import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, get_args

import typer

from lrml._files import check_writable
from lrml._shown import counted, did_you_mean, printable
from lrml.datasets import FORMATS

if TYPE_CHECKING:
    from lrml.datasets import Roles, Source

# Wide enough for every table that the program prints. A file or a pipe has no width; a narrow terminal breaks
# the lines of a table, which is better than cutting off or folding digits.
_WIDTH, _NARROW = 200, 80

Table: TypeAlias = Mapping[str, Any]
"""Options by name, of which a command gets a dict of those that were given."""


def one_of(choices: Collection[str]) -> Callable[[str], str]:
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


def option(metavar: str, words: str, parser: Callable[[str], Any] | None = None) -> Any:
    """Return an option with a value; ``words`` is its help."""
    return typer.Option(metavar=metavar, help=words, parser=parser)


def table_of(text: str) -> dict[str, Any]:
    """Return options by name, all optional; of each the text has name, metavar (a flag: none, -) and help.

    Numbers and lists are read by `value`, and names of columns by `names`.
    """
    found: dict[str, Any] = {}
    for entry in re.split(r"\n(?=\S)", inspect.cleandoc(text)):
        name, metavar, words = " ".join(entry.split()).split(" ", 2)
        if metavar == "-":
            found[name] = Annotated[bool | None, typer.Option(f"--{name}", help=words)]
            continue
        of_numbers = {"N", "X", "SHARE", "LIST"} & set(metavar.split("|"))
        found[name] = Annotated[
            str | None, option(metavar, words, names if metavar == "NAMES" else value if of_numbers else None)
        ]
    return found


_HOME = "Folder with one folder per dataset (default: LRML_DATA_HOME, then the cache)."
DataHome = Annotated[str | None, option("DIR", _HOME)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for machines.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there already.")]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Seed of everything that is drawn.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="A model file of lrml fit or lrml tune.")]
Html = Annotated[str | None, option("FILE", "Write a page with figures and tables.")]
Bootstrap = Annotated[int, typer.Option(metavar="N", min=2, help="Resamples of the rows for the intervals.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Show no progress; of reproduce, errors only.")]


# Errors, and what is printed: results on standard output, progress and advice on standard error


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


@contextmanager
def warnings_told(program: str) -> Iterator[None]:
    """Print warnings as sentences for users of a program, each once, without a line of source code."""
    seen: set[str] = set()

    def tell(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in seen:
            seen.add(str(message))
            advise(f"{program}: warning: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what concerns programmers only
        for kind in (UserWarning, RuntimeWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = tell
        yield


def advise(text: str, *, dim: bool = False) -> None:
    """Print advice on standard error, also in a quiet run."""
    typer.secho(_wrapped(text, sys.stderr), err=True, dim=dim)


def tell_progress(text: str) -> None:
    """Print how far a command is, on standard error, so that results can be piped on."""
    advise(text, dim=True)


def _wrapped(text: str, stream: Any) -> str:
    """Return a text whose lines end between words on a terminal, without characters that control one."""
    lines, width = printable(text).split("\n"), shutil.get_terminal_size().columns
    is_terminal = stream is not None and stream.isatty()
    return "\n".join(textwrap.fill(line, width) if is_terminal else line for line in lines)


def answer(document: Any, *parts: Any, as_json: bool) -> None:
    """Print a document for machines, or for people its parts: lines, and tables of a report."""
    if as_json:  # NumPy's numbers become plain ones
        print(json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False, default=lambda x: x.item()))
        return
    for part in parts:
        if isinstance(part, str):
            print(_wrapped(part, sys.stdout))
            continue
        drawn = _drawn(part)
        if part["title"]:
            typer.secho(part["title"], bold=True)
        if part.get("caption"):
            print(_wrapped(part["caption"], sys.stdout))
        print(drawn)


def _drawn(table: dict[str, Any]) -> str:
    """Return a table of a report for a terminal."""
    from rich import box  # noqa: PLC0415 - slow, as is the next
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table as Drawn  # noqa: PLC0415

    from lrml.report import shown_cell  # noqa: PLC0415

    columns = table["columns"]
    rows = [[shown_cell(row[column["key"]], column) for column in columns] for row in table["rows"]]
    headings = [column["title"] for column in columns]
    if sum(2 + max(map(len, cells)) for cells in zip(headings, *rows, strict=True)) > _NARROW:
        headings = [heading.replace(" ", "\n") for heading in headings]  # one word per line
    drawn = Drawn(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading, column in zip(headings, columns, strict=True):
        drawn.add_column(heading, justify="left" if column["kind"] == "text" else "right", no_wrap=True)
    for row in rows:
        drawn.add_row(*row)
    console = Console(highlight=False, width=_WIDTH)
    with console.capture() as text:
        console.print(drawn)
    return text.get().removesuffix("\n")


# Data


@dataclass(frozen=True)
class Data:
    """What a command is to read: a known name, or files, and what was said of them."""

    paths: tuple[str, ...]
    reading: Mapping[str, Any]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Data:
        """Return what the options of `DATA` say; which settings ``--read`` may have, the readers know."""
        reading = {**given}
        for setting in reading.pop("read", ()):
            key, _, text = setting.partition("=")
            if not text:
                raise ValueError(f"--read {setting} has no value. Write for example --read n_features=1000.")
            reading[key] = names(text) if key == "features" else value(text)
        return cls(tuple(reading.pop("source")), reading)

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


def sources(
    metavar: str = "NAME|PATH",
    words: str = "A dataset that lrml knows, or a data file; several are read as one.",
) -> Table:
    """Return the argument that names data, for a table."""
    return {"source": Annotated[list[str], typer.Argument(metavar=metavar, help=words)]}


_FROM = "Files: format, if the suffix does not say it."
_READ = "More of how files are read, such as n_features=1000; may come again."
DATA: Table = {
    **sources(),
    "format": Annotated[str | None, typer.Option("--from", metavar="|".join(FORMATS), help=_FROM)],
    **table_of(
        """
        test           PATH    Files: a second one, the test set that belongs to the first.
        text           NAMES   Texts: their column; several are joined (default: guessed, and shown).
        tags           LIST    Tables: the column that lists tags or labels, or columns of 0 and 1.
        tag_separator  TEXT    Tables: what separates tags (guessed, too).
        labels         LIST|N  Numbers: names of the label columns; N or -N for the first or last N.
        ignore         NAMES   Numbers: columns to leave out.
        delimiter      CHAR    CSV: what separates cells (default: seen from the first rows).
        """
    ),
    "read": Annotated[list[str] | None, option("KEY=VALUE", _READ)],
    "data_home": DataHome,
}


def command(**tables: Table) -> Callable[[Callable[..., Any]], Callable[..., None]]:
    """Make a function a command, which prints the document and the parts that it returns, if any.

    Its parameters are the options; one with the name of a table gets a dict of the options there that were
    given, and ``data`` the `Data` that they select.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., None]:
        own = inspect.signature(function, eval_str=True).parameters
        listed: dict[str, tuple[Any, Any]] = {}
        last: dict[str, tuple[Any, Any]] = {}
        for name, parameter in own.items():
            if name in tables:
                some = {key: (kind, _default(kind)) for key, kind in tables[name].items()}
                if name == "data":  # whose options come last
                    listed["source"], last = some.pop("source"), some
                    continue
                listed |= some
            else:
                listed[name] = parameter.annotation, parameter.default
        listed = {**listed, **last}
        listed.setdefault("as_json", (Json, False))

        @functools.wraps(function)
        def run(**given: Any) -> None:
            as_json = given["as_json"] if "as_json" in own else given.pop("as_json")
            for name, table in tables.items():
                found = {key: one for key in table if (one := given.pop(key)) is not None}
                given[name] = Data.of(found) if name == "data" else found
            if (told := function(**given)) is not None:
                answer(*told, as_json=as_json)

        parameters = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=usual)
            for name, (kind, usual) in listed.items()
        ]
        run.__annotations__ = {name: kind for name, (kind, _) in listed.items()}
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return run

    return decorate


def _default(kind: Any) -> Any:
    """Return the default of an option in a table: none of one that must be given."""
    return None if type(None) in get_args(get_args(kind)[0]) else inspect.Parameter.empty


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
        exist = "exists" if len(there) == 1 else "exist"
        wrong = f"{' and '.join(map(repr, there))} {exist} already. Choose another name, or pass --force."
    if wrong is not None:
        raise ValueError(f"{what}: {wrong}")
    check_writable(place)
