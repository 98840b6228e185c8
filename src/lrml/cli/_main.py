"""The ``lrml`` program: choice of the command, and the exit codes."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import lrml
from lrml._files import OutputError
from lrml.cli import _datasets, _reproduce
from lrml.cli._console import CommandError

_USAGE_ERROR = 2
_INTERRUPTED = 130  # 128 + SIGINT, as shells report it
_BROKEN_PIPE = 141  # 128 + SIGPIPE


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code: 0, or 2 for wrong usage, or 130 after Ctrl-C."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help(sys.stderr)
        return _USAGE_ERROR
    try:
        arguments.run(arguments)
    except (OutputError, CommandError) as error:
        print(f"lrml {arguments.command}: error: {error}", file=sys.stderr)
        return _USAGE_ERROR
    except BrokenPipeError:
        # Python would complain once more when it flushes standard output at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        print(f"lrml {arguments.command}: interrupted; no file is half-written.", file=sys.stderr)
        return _INTERRUPTED
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lrml", description="Low-rank multi-label learning that penalises only the tail of the spectrum."
    )
    parser.add_argument("--version", action="version", version=f"lrml {lrml.__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _reproduce.add_parser(commands)
    _datasets.add_parser(commands)
    return parser
