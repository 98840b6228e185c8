"""The ``lrml`` program: choice of the command, and the exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from lrml._files import OutputError
from lrml.cli import _datasets, _reproduce, _theory
from lrml.cli._errors import CommandError, printable

_USAGE_ERROR = 2
_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
_BROKEN_PIPE = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, 1 for partial results, 2 for wrong usage, 130 for Ctrl-C."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help(sys.stderr)
        return _USAGE_ERROR
    try:
        code: int | None = arguments.run(arguments)
    except (OutputError, CommandError) as error:
        print(f"lrml {arguments.command}: error: {printable(str(error))}", file=sys.stderr)
        return _USAGE_ERROR
    except BrokenPipeError:
        # Python would complain once more when it flushes standard output at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        print(f"lrml {arguments.command}: interrupted; no file is half-written.", file=sys.stderr)
        return _INTERRUPTED
    return code or 0


class _Version(argparse.Action):
    """Looks for the version only when it is asked for, which takes as long as all else in a short command."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from lrml import __version__  # noqa: PLC0415 - see above

        print(f"lrml {__version__}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lrml", description="Low-rank multi-label learning that penalises only the tail of the spectrum."
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _reproduce.add_parser(commands)
    _datasets.add_parser(commands)
    _theory.add_parser(commands)
    return parser
