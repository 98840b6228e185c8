"""Command line: each command parses, calls the library and prints."""

from lrml.cli._main import main

__all__ = ["main"]
