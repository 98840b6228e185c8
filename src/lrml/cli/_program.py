"""Runs a command, and reports an error as one line and an exit code. All commands are registered here."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from lrml._files import OutputError
from lrml._shown import printable
from lrml.cli import (
    Terminated,
    datasets,
    export,
    judge,
    learn,
    predict,
    reproduce,
    serve,
    split,
    stopped,
    theory,
)
from lrml.cli._options import CommandError

_USAGE_ERROR = 2
_BROKEN_PIPE = 141  # 128 + SIGPIPE


def run(argv: Sequence[str] | None) -> int:
    """Run a command and return its exit code: see `lrml.cli.main`."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = " ".join(["lrml", *(word for word in words[:1] if not word.startswith("-"))])
    try:
        program = typer.main.get_command(_app())
        with program.make_context("lrml", words) as context:
            code: int | None = program.invoke(context)
        if sys.stdout is not None:  # as it is where the caller has closed it
            sys.stdout.flush()
    except typer.Exit as end:
        return end.exit_code
    except typer.TyperException as error:
        where = getattr(error, "ctx", None)
        if where is not None:
            print(where.get_usage(), file=sys.stderr)
            name = where.command_path
        print(f"{name}: error: {printable(error.format_message())}", file=sys.stderr)
        return _USAGE_ERROR
    except (OutputError, CommandError) as error:
        print(f"{name}: error: {printable(str(error))}", file=sys.stderr)
        return _USAGE_ERROR
    except BrokenPipeError:  # Python would complain once more when it flushes standard output at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except (KeyboardInterrupt, Terminated) as stop:
        return stopped(name, stop)
    return code or 0


def _app() -> typer.Typer:
    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help, which needs no rich
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    for command in (
        *(learn.fit, learn.tune, predict.predict, judge.evaluate, judge.compare, judge.inspect),
        *(serve.serve, split.split, export.export, theory.theory, reproduce.reproduce),
    ):
        app.command()(command)
    app.add_typer(datasets.app, name="datasets")
    return app


def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    """Low-rank multi-label learning that penalises only the tail of the spectrum."""
    if version:
        from lrml import __version__  # noqa: PLC0415 - takes as long as all else in a short command

        print(f"lrml {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(_USAGE_ERROR)
