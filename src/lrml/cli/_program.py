"""Runs a command, and reports an error as one line and an exit code. All commands are registered here."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from lrml._files import OutputError
from lrml._shown import printable
from lrml.cli import datasets, export, judge, learn, predict, reproduce, serve, split, theory
from lrml.cli._options import CommandError
from lrml.cli._stops import Terminated, stopped

_USAGE_ERROR = 2
_BROKEN_PIPE = 141  # 128 + SIGPIPE


class _Program(TyperGroup):
    """All commands; their errors become one line and an exit code."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        try:
            return super().make_context(*args, **options)  # prints the help of the program
        except BrokenPipeError:
            raise typer.Exit(_broken_pipe()) from None
        except KeyboardInterrupt as stop:  # typer would say nothing
            raise typer.Exit(stopped("lrml", stop)) from None

    def invoke(self, ctx: Any) -> Any:
        try:
            code = super().invoke(ctx)
            if sys.stdout is not None:  # as it is where the caller has closed it
                sys.stdout.flush()
        except (OutputError, CommandError) as error:
            print(f"lrml {ctx.invoked_subcommand}: error: {printable(str(error))}", file=sys.stderr)
            return _USAGE_ERROR
        except BrokenPipeError:
            return _broken_pipe()
        except (KeyboardInterrupt, Terminated) as stop:
            return stopped(f"lrml {ctx.invoked_subcommand}", stop)
        return code


def _broken_pipe() -> int:
    """Return the exit code; Python would complain once more when it flushes standard output at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _BROKEN_PIPE


def run(argv: Sequence[str] | None) -> int:
    """Run a command and return its exit code: see `lrml.cli.main`."""
    try:
        program = typer.main.get_command(_app())
        code: int | None = program.main(argv, prog_name="lrml", standalone_mode=False)
    except typer.TyperException as error:
        context = getattr(error, "ctx", None)
        if context is not None:
            print(context.get_usage(), file=sys.stderr)
        path = "lrml" if context is None else context.command_path
        print(f"{path}: error: {printable(error.format_message())}", file=sys.stderr)
        return _USAGE_ERROR
    return code or 0


def _app() -> typer.Typer:
    app = typer.Typer(
        cls=_Program,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help, which needs no rich
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    app.command("fit")(learn.fit)
    app.command("tune")(learn.tune)
    app.command("predict")(predict.predict)
    app.command("evaluate")(judge.evaluate)
    app.command("compare")(judge.compare)
    app.command("inspect")(judge.inspect)
    app.command("serve")(serve.serve)
    app.command("split")(split.split)
    app.command("export")(export.export)
    app.command("reproduce", cls=reproduce.ListOptions)(reproduce.reproduce)
    app.add_typer(datasets.app, name="datasets")
    app.command("theory")(theory.theory)
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
