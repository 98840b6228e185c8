"""Files that are written under a temporary name and then moved into place."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


class OutputError(OSError):
    """A result cannot be written; the message names the rule, the place and a remedy."""


def writable_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder if needed and make sure, before any work is done, that files can be written into it."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = "it is a file" if folder.is_file() else error.strerror
        raise OutputError(
            f"the output must be a folder that can be written, got {os.fspath(path)!r} ({reason}). "
            "Choose another folder."
        ) from error
    return folder


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file such that it is there as a whole or not at all.

    The bytes go to a temporary name in the same folder, which is then renamed over ``path``. If anything
    fails on the way, an older file of that name stays as it was and the temporary one is removed.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as stream:
            yield stream
        os.replace(temporary, target)
    except OutputError:
        raise  # of a second file that was written inside this one: it names the right place
    except OSError as error:
        raise OutputError(
            f"a result must be written to {os.fspath(path)!r}, got an error ({error.strerror}). "
            "Free some space or choose another folder, and run again."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write all bytes of a file, or none: see `atomic_file`."""
    with atomic_file(path) as stream:
        stream.write(content)
