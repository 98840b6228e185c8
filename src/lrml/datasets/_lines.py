"""Lines of a data file, plain or compressed, one at a time."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any, TypeAlias

from lrml.datasets._errors import DatasetFormatError, Words

Row: TypeAlias = tuple[int, bytes]  # line number, text without surrounding white space

# A line is the unit that a reader holds in memory; without a limit a small compressed file could fill it.
LONGEST_LINE = 1 << 26
_CHUNK_BYTES = 1 << 20  # enough rows to make bulk conversion pay, few enough to keep memory flat
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_MAGIC = {  # how a file begins: what it is then, and what to do
    b"\x1f\x8b": ("gzip", "Rename the file so that it ends with .gz."),
    b"BZh91AY&SY": ("bzip2", "Rename the file so that it ends with .bz2."),
    b"\xfd7zXZ\x00": ("xz", "Rename the file so that it ends with .xz."),
    b"PK\x03\x04": ("zip", "Unpack the archive."),
    b"\x28\xb5\x2f\xfd": ("zstd", "Unpack the file."),
}
_DAMAGED = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)


def plain_name(path: str | os.PathLike[str]) -> str:
    """Return the file name without its suffix for compression."""
    whole = Path(path)
    return whole.stem if whole.suffix.lower() in _OPENERS else whole.name


def stem(path: str | os.PathLike[str]) -> str:
    """Return the file name without its suffixes for compression and format."""
    return Path(plain_name(path)).stem


def open_source(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file for reading bytes; ``.gz``, ``.bz2`` and ``.xz`` are decompressed on the way."""
    opener = _OPENERS.get(Path(path).suffix.lower(), open)
    stream: IO[bytes] = opener(path, "rb")
    return stream


def compressor(path: str | os.PathLike[str], stream: IO[bytes]) -> AbstractContextManager[Any]:
    """Return what compresses the bytes written to a stream, as the suffix of its file asks for."""
    suffix = Path(path).suffix.lower()
    if suffix == ".gz":  # without name and time, so that equal data give equal files
        return gzip.GzipFile("", "wb", 6, stream, mtime=0)
    if suffix == ".bz2":
        return bz2.BZ2File(stream, "wb")
    return lzma.LZMAFile(stream, "wb") if suffix == ".xz" else nullcontext(stream)


def check_is_file(path: str | os.PathLike[str], what: str) -> None:
    """Raise an error that names the rule, the value and a remedy unless there is a file to read."""
    place = Path(path)
    if not place.exists() or place.is_dir():
        got = f"{os.fspath(path)!r}, {'which is a folder' if place.is_dir() else 'which does not exist'}"
        raise FileNotFoundError(f"{what} must be a file, got {got}. Check the path.")


def numbered_lines(path: str | os.PathLike[str], digest: Any = None) -> Iterator[tuple[int, bytes]]:
    """Yield each line of a file with its number, counted from 1, and with its line end.

    Parameters
    ----------
    path : path-like
        The file.
    digest : hash object, default=None
        If given, updated with the uncompressed bytes of each line.

    Raises
    ------
    DatasetFormatError
        If a line is longer than 64 MiB, compressed data is damaged, or its suffix does not say that it is
        compressed.
    """
    number = 0
    with open_source(path) as stream:
        try:
            while line := stream.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    raise DatasetFormatError.at(
                        path,
                        number,
                        f"a line must not be longer than {LONGEST_LINE} bytes",
                        line[:40],
                        "Check that this is a text file with one example per line.",
                    )
                if digest is not None:
                    digest.update(line)
                if number == 1:
                    _check_text(path, line)
                    line = line.removeprefix(codecs.BOM_UTF8)
                yield number, line
        except _DAMAGED as error:
            raise _damaged(path, number + 1, error) from error
        except OSError as error:
            if error.errno is not None:  # a fault of the disk, not of the data: bz2 sets no errno
                raise
            raise _damaged(path, number + 1, error) from error


def _check_text(path: str | os.PathLike[str], line: bytes) -> None:
    """Refuse a file that is no text, by its first bytes."""
    for magic, (kind, remedy) in _MAGIC.items():
        if line.startswith(magic):
            raise DatasetFormatError.at(path, 1, "the file must hold text", Words(f"{kind} data"), remedy)


def _damaged(path: str | os.PathLike[str], line: int, error: Exception) -> DatasetFormatError:
    return DatasetFormatError.at(
        path,
        line,
        "compressed data must be whole",
        str(error),
        "Get the file again; if it is not compressed, rename it without the suffix.",
    )


def chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Group rows into lists of about a megabyte, for readers that convert many rows at once."""
    group: list[Row] = []
    size = 0
    for row in rows:
        group.append(row)
        size += len(row[1])
        if size >= _CHUNK_BYTES:
            yield group
            group, size = [], 0
    if group:
        yield group
