"""Lines of a data file, plain or compressed, with their numbers; and matrices that grow by chunks of them."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import IO, Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml.datasets._formats import stem_of

Row: TypeAlias = tuple[int, bytes]  # number of the line, and its text

_CHUNK_BYTES = 1 << 17  # enough rows to make bulk conversion pay, few enough to stay in the cache
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_DAMAGED = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)


class DatasetFormatError(ValueError):
    """A data file breaks a rule of its format: the message says where, what was found and what to do."""

    @classmethod
    def at(cls, path: str | os.PathLike[str], line: int | None, message: str) -> DatasetFormatError:
        """Return the error for a line of a file, counted from 1, or for the file as a whole."""
        return cls(f"{os.fspath(path)}{'' if line is None else f', line {line}'}: {message}")


def open_bytes(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file for reading; ``.gz``, ``.bz2`` and ``.xz`` are decompressed on the way."""
    opened: IO[bytes] = _OPENERS.get(Path(path).suffix.lower(), open)(path, "rb")
    return opened


def compressor(path: str | os.PathLike[str], stream: IO[bytes]) -> AbstractContextManager[Any]:
    """Return what compresses the bytes written to a stream, as the suffix of its file asks for."""
    suffix = Path(path).suffix.lower()
    if suffix == ".gz":  # without name and time, so that equal data give equal files
        return gzip.GzipFile("", "wb", 6, stream, mtime=0)
    if suffix == ".bz2":
        return bz2.BZ2File(stream, "wb")
    return lzma.LZMAFile(stream, "wb") if suffix == ".xz" else nullcontext(stream)


def numbered_lines(path: str | os.PathLike[str], stream: IO[bytes] | None = None) -> Iterator[Row]:
    """Yield the lines of a file, or of an open stream, with their numbers from 1 and their line ends."""
    with open_bytes(path) if stream is None else nullcontext(stream) as source:
        try:
            for number, line in enumerate(source, 1):
                yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
        except _DAMAGED as error:
            raise damaged(path, error) from error
        except OSError as error:
            if error.errno is not None:  # a fault of the disk, not of the data: bz2 sets no errno
                raise
            raise damaged(path, error) from error


def damaged(path: str | os.PathLike[str], error: Exception) -> DatasetFormatError:
    """Return the error for compressed data that cannot be decompressed."""
    return DatasetFormatError.at(
        path, None, f"The compressed data is damaged ({error}). Get the file again, or correct its suffix."
    )


def significant_lines(path: str | os.PathLike[str], comment: bytes) -> Iterator[Row]:
    """Yield lines without blanks around them, leaving out comments to the end of a line and blank lines."""
    within = comment == b"#"  # comments of ARFF are lines of their own
    for number, line in numbered_lines(path):
        text = line.strip()
        if within and comment in text:
            text = text.partition(comment)[0].rstrip()
        if text and text[:1] != comment:
            yield number, text


def decoded(path: str | os.PathLike[str], number: int, line: bytes) -> str:
    """Return a line as text; refuse what is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        found = line[max(error.start - 20, 0) : error.start + 20]
        message = f"{found!r} is not text in UTF-8. Save the file in that encoding."
        raise DatasetFormatError.at(path, number, message) from error


def chunks(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Group rows into lists of about 128 KiB, for readers that convert many rows at once."""
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


def numbers_in(text: bytes, dtype: Any = np.float64) -> NDArray[Any]:
    """Return the numbers that are separated by blanks in a text; a `ValueError` if there is anything else."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)  # how NumPy before 2.4 refuses other text
        try:
            return np.fromstring(text, dtype, sep=" ") if text.strip() else np.empty(0, dtype)
        except DeprecationWarning as error:
            raise ValueError(str(error)) from error


class FileReader:
    """What reads a file of some format; how it was opened is kept, so that it can be opened elsewhere."""

    has_first_pass = has_split = False

    def __init__(self, path: str | os.PathLike[str], roles: Any, **options: Any) -> None:
        self.path, self._asked, self.options = Path(path), roles, options
        self.files: tuple[Path, ...] = (self.path,)
        self.name = stem_of(path)

    def moved(self) -> Self:
        """Return a reader of the same file by its whole path: another process may be in another folder."""
        return type(self)(self.path.absolute(), self._asked, **self.options)

    def _error(self, line: int | None, message: str) -> DatasetFormatError:
        return DatasetFormatError.at(self.path, line, message)


class GrowingCSR:
    """A CSR matrix that grows by chunks of rows; nothing is copied until the matrix is built."""

    def __init__(self, dtype: Any) -> None:
        self._dtype = dtype
        self._counts: list[NDArray[np.int64]] = []
        self._columns: list[NDArray[np.int32]] = []
        self._values: list[NDArray[Any]] = []

    def add(
        self, n_rows: int, row: NDArray[np.int64], column: NDArray[np.int64], values: NDArray[Any]
    ) -> int | None:
        """Add rows by the row, column and value of each entry; return which entry is there twice, if any."""
        key = row * 2**31 + column
        if np.any(key[1:] <= key[:-1]):  # not in most files
            order = np.argsort(key, kind="stable")
            twice = np.flatnonzero(np.diff(key[order]) == 0)
            if twice.size:
                return int(order[twice[0]])
            column, values = column[order], values[order]
        self._counts.append(np.bincount(row, minlength=n_rows))
        self._columns.append(column.astype(np.int32))
        self._values.append(values.astype(self._dtype))
        return None

    def matrix(self, width: int) -> sparse.csr_array:
        """Return all rows, with explicit zeros left out."""
        counts = np.concatenate([np.zeros(1, np.int64), *self._counts])
        ends = np.cumsum(counts)
        if ends[-1] < 2**31:
            ends = ends.astype(np.int32)
        columns = np.concatenate([np.empty(0, np.int32), *self._columns])
        values = np.concatenate([np.empty(0, self._dtype), *self._values])
        found = sparse.csr_array((values, columns, ends), shape=(len(ends) - 1, width))
        found.eliminate_zeros()
        return found
