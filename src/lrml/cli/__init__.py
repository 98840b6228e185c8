"""The ``lrml`` program.

A command is a function with the decorator of `_options`, in a module of this package; it imports slow modules
when it runs, calls the library, and returns what is to be printed. All are registered here.

Until the program runs, almost nothing is imported: the rest takes a third of a second, in which the user may
already stop it. Signals that end the program unwind it, so that no temporary file stays behind.
"""

# ruff: noqa: PLC0415 - see above

import os
import signal
import sys
import threading
from collections.abc import Sequence
from functools import cache
from typing import Any

__all__ = ["INTERRUPTED", "main"]

INTERRUPTED = 130
"""The exit code after Ctrl-C: 128 + SIGINT, as shells report it."""
_USAGE_ERROR = 2
_BROKEN_PIPE = 141  # 128 + SIGPIPE


class _Interrupted(KeyboardInterrupt):
    """Ctrl-C; once a plain KeyboardInterrupt has left an ``exec`` of text, Python ignores our exit code.

    ``python -m`` then ends itself with SIGINT, although the error was caught. Imports are full of such texts:
    those of dataclasses and named tuples.
    """


class _Terminated(BaseException):
    """The process was asked to end by a signal; raised so that temporary files are removed on the way out."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, 1 for partial results, 2 for wrong usage, 130 for Ctrl-C."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = " ".join(["lrml", *(word for word in words[:1] if not word.startswith("-"))])
    try:
        _unwind_when_stopped()
        return _run(name, words)
    except BrokenPipeError:  # Python would complain once more when it flushes standard output at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except (KeyboardInterrupt, _Terminated) as stop:
        word, code = ("interrupted", INTERRUPTED)
        if isinstance(stop, _Terminated):
            word, code = "stopped", 128 + stop.args[0]
        print(f"{name}: {word}; no file is half-written.", file=sys.stderr)
        return code


def _unwind_when_stopped() -> None:
    """Let SIGTERM and SIGHUP unwind the program as Ctrl-C does; a command may set handlers of its own."""

    def interrupt(number: int, frame: object) -> None:
        raise _Interrupted

    def terminate(number: int, frame: object) -> None:
        raise _Terminated(number)

    if threading.current_thread() is not threading.main_thread():
        return
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        # nohup ignores SIGHUP, and means it
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, terminate)


def _run(name: str, words: Sequence[str]) -> int:
    """Run a command; an error becomes one line, and an exit code."""
    from typer import Exit, TyperException

    from lrml._shown import printable
    from lrml.cli._options import CommandError, user_errors, warnings_told

    try:
        with warnings_told(name), user_errors(), _program().make_context("lrml", list(words)) as context:
            code: int | None = _program().invoke(context)
            if sys.stdout is not None:  # as it is where the caller has closed it
                sys.stdout.flush()
        return code or 0
    except Exit as end:
        return end.exit_code
    except TyperException as error:
        where, message = getattr(error, "ctx", None), error.format_message()
        if where is not None:
            print(where.get_usage(), file=sys.stderr)
            name = where.command_path
    except CommandError as error:
        message = str(error)
    print(f"{name}: error: {printable(message)}", file=sys.stderr)
    return _USAGE_ERROR


@cache
def _program() -> Any:
    """Return the program with all its commands."""
    import typer

    from lrml.cli import datasets, export, judge, learn, predict, reproduce, serve, split, theory

    app = typer.Typer(
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # plain help, which needs no rich
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    version_given = typer.Option(False, "--version", help="Print the version and exit.")

    @app.callback(invoke_without_command=True)
    def root(context: typer.Context, version: bool = version_given) -> None:
        """Low-rank multi-label learning that penalises only the tail of the spectrum."""
        if version:
            from lrml import __version__  # takes as long as all else in a short command

            print(f"lrml {__version__}")
            raise typer.Exit
        if context.invoked_subcommand is None:
            print(context.get_help(), file=sys.stderr)
            raise typer.Exit(_USAGE_ERROR)

    for command in (
        *(learn.fit, learn.tune, predict.predict, judge.evaluate, judge.compare, judge.inspect),
        *(serve.serve, split.split, export.export, theory.theory, reproduce.reproduce, reproduce.study),
    ):
        app.command()(command)
    app.add_typer(datasets.app, name="datasets")
    return typer.main.get_command(app)
