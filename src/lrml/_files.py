"""Files that are written under a temporary name and then moved into place; files of arrays."""

# ruff: noqa: PLC0415 - the command line, which starts without NumPy, takes files from here

from __future__ import annotations

import os
import secrets
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


class OutputError(OSError):
    """A result cannot be written; the message names the place, the reason and a remedy."""


def writable_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder if needed and make sure, before any work is done, that files can be written into it."""
    folder = Path(path)
    if folder.is_file():
        raise OutputError(f"{os.fspath(path)!r} is a file. Choose a folder for the output.")
    with output_errors(path):
        folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder / "file")
    return folder


def check_writable(path: str | os.PathLike[str]) -> None:
    """Make sure, before any work is done, that a file can be written, beside what is in its folder."""
    with output_errors(path):
        with suppress(FileNotFoundError):
            os.lstat(path)  # refuses a name that is too long
        with tempfile.TemporaryFile(dir=Path(path).parent):
            pass


@contextmanager
def output_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let system errors, while a file is written, name the place, the reason and a remedy."""
    try:
        yield
    except OutputError:
        raise  # of a second file that was written inside this one: it names the right place
    except OSError as error:
        raise OutputError(
            f"{os.fspath(path)!r} cannot be written ({error.strerror}). Free some space or choose another "
            "folder, and run again."
        ) from error


@contextmanager
def staged_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that appears whole or not at all; system errors are passed on.

    The bytes go to an unguessable new name in the same folder, which is then renamed over ``path``: a failure
    leaves an older file as it was, nothing that others placed there is written through, and of several
    writers the last one stays. A file that replaces another keeps its permissions, but for those to run as
    its owner; a new one follows the umask. A symbolic link is replaced, not what it points to.
    """
    target = Path(path)
    if not target.name:
        raise OutputError(f"{os.fspath(path)!r} names no file. Pass a path that ends in a file name.")
    # The beginning of a long name is enough for readers, and leaves room for the rest.
    temporary = target.with_name(f".{target.name[:50]}.{secrets.token_hex(8)}.part")
    found = target.lstat().st_mode if os.path.lexists(target) else 0
    mode = found & 0o777 if stat.S_ISREG(found) else 0o666
    try:
        # Never more permissions than that, even for a moment.
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as stream:
            if stat.S_ISREG(found):
                with suppress(OSError):  # some file systems have no permissions
                    temporary.chmod(mode)  # what the umask took away
            yield stream
        os.replace(temporary, target)
    finally:
        with suppress(OSError):  # usually: it has been moved, or could not be created
            temporary.unlink()


def remove_remains(folder: Path) -> None:
    """Remove temporary files of a killed process; the caller knows that no other is writing."""
    for remains in folder.glob(".*.part"):
        remains.unlink()


@contextmanager
def atomic_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file as `staged_file` does, with errors that name the place, the reason and a remedy."""
    with output_errors(path), staged_file(path) as stream:
        yield stream


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write all bytes of a file, or none: see `atomic_file`."""
    with atomic_file(path) as stream:
        stream.write(content)


def save_arrays(path: str | os.PathLike[str], kind: str, arrays: Mapping[str, Any]) -> None:
    """Write NumPy arrays to one file, which says of what kind it is, whole or not at all."""
    import numpy as np

    with atomic_file(path) as stream:
        try:
            np.savez(stream, kind=np.asarray(kind), **arrays)
        except ValueError as error:
            # Ctrl-C in the middle of an array leaves it open, and closing the archive then hides Ctrl-C.
            signal = error.__context__
            raise error if signal is None or isinstance(signal, Exception) else signal from None


def load_arrays(path: str | os.PathLike[str], kind: str) -> dict[str, Any]:
    """Read the arrays of a file of this kind; refuse others, and damaged ones."""
    import numpy as np

    with open(path, "rb") as stream:  # outside, as there is nothing to say of a file that is not there
        try:
            with np.load(stream, allow_pickle=False) as stored:
                arrays = {name: stored[name] for name in stored.files}
            found = str(arrays.pop("kind"))
        except Exception as error:  # NumPy, zipfile and zlib raise a dozen kinds
            raise ValueError(
                f"{os.fspath(path)!r} is damaged, or no file of arrays. Delete it, or name another file."
            ) from error
    if found != kind:
        raise ValueError(f"{os.fspath(path)!r} is a file of {found!r}, not of {kind!r}. Name another.")
    return arrays
