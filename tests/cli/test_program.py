"""The program itself: help, arguments, exit codes, and what happens when it is stopped."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from forking import CAN_FORK, Program
from lrml import __version__
from lrml.cli import main
from lrml.cli._options import warnings_told


def console_script():
    script = Path(sys.executable).with_name("lrml.exe" if sys.platform == "win32" else "lrml")
    return script if script.exists() else None


@pytest.mark.skipif(console_script() is None, reason="no lrml beside this Python; install the package")
def test_the_console_script_is_the_same_program():
    found = subprocess.run([console_script(), "--version"], capture_output=True, text=True, check=True)
    assert found.stdout == f"lrml {__version__}\n"


def test_without_a_command_help_is_printed(capsys):
    assert main([]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("Usage: lrml")
    assert "reproduce" in printed.err


@pytest.mark.parametrize("arguments", [["--help"], ["tune", "--help"], ["fit", "--seed", "x"]])
def test_arguments_are_read_without_slow_imports(arguments):
    code = (
        "import sys, atexit\nfrom lrml.cli import main\n"
        "atexit.register(lambda: print({'numpy', 'sklearn', 'rich', 'matplotlib'} & set(sys.modules)))\n"
        f"main({arguments!r})"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stdout.endswith("set()\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("reprodcue", "'reprodcue'.*'reproduce'"),
        ("--wat", "--wat"),
        ("fit data --wat", "--wat"),
        ("predict model data -k x", "'-k'"),
        ("datasets describe", "NAME|PATH"),
    ],
)
def test_wrong_usage(arguments, message, capsys):
    assert main(arguments.split()) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    usage, error = printed.err.splitlines()
    assert usage.startswith("Usage: lrml")
    assert re.match(f"lrml.*: error: .*{message}", error)


def test_a_warning_is_a_sentence_and_told_once(capsys):
    with warnings_told("lrml fit"):
        for _ in range(2):
            warnings.warn("the file is short", stacklevel=1)
            warnings.warn("a word for programmers", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err == "lrml fit: warning: the file is short\n"


@pytest.mark.skipif(not CAN_FORK, reason="needs fork")
def test_a_reader_that_has_seen_enough():
    found = Program("theory", "--help", unread=True).result()
    assert (found.returncode, found.stderr) == (141, "")


@pytest.mark.skipif(sys.platform == "win32", reason="sh is not there")
def test_standard_output_may_be_closed():
    command = ["sh", "-c", '"$0" -m lrml datasets --json >&-', sys.executable]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


# The installed program, interrupted while it imports a package.
_INTERRUPTED_IMPORT = """
import importlib.abc, importlib.metadata, os, signal, sys
_, imported, number = sys.argv
class Interrupt(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == imported:
            os.kill(os.getpid(), getattr(signal, number))
signal.signal(signal.SIGINT, signal.default_int_handler)  # also in the background
sys.meta_path.insert(0, Interrupt())
(entry,) = importlib.metadata.entry_points(group="console_scripts", name="lrml")
sys.argv[1:] = ["datasets"]
sys.exit(entry.load()())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is another thing there")
@pytest.mark.parametrize(
    ("imported", "number", "code", "word"),
    [
        ("typer", "SIGINT", 130, "interrupted"),
        ("lrml.datasets", "SIGTERM", 143, "stopped"),
        ("lrml.cli.learn", "SIGINT", 130, "interrupted"),
        ("rich.console", "SIGTERM", 143, "stopped"),
    ],
)
def test_a_signal_while_the_program_is_imported_is_told_in_a_line(imported, number, code, word):
    command = [sys.executable, "-c", _INTERRUPTED_IMPORT, imported, number]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert (found.returncode, found.stdout) == (code, ""), found.stderr
    assert re.fullmatch(rf"lrml( datasets)?: {word}[^\n]*\n", found.stderr)
