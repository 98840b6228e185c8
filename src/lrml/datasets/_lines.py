"""Lines of a data file, plain or compressed, in chunks; and matrices that grow by such chunks."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lrml.datasets._errors import DatasetFormatError, Words

Row: TypeAlias = tuple[int, bytes]  # line number, text without surrounding white space

# A reader holds one line in memory; without a limit a small compressed file could fill it.
LONGEST_LINE = 1 << 26
# Nor may a small file keep a reader busy for long. Text of real datasets shrinks to a tenth at best; the most
# wasteful form, zeros and ones of Corel5k as CSV, to 1/92 (gzip 88, bzip2 92, xz 69). gzip shrinks a repeated
# line to about 1/1000, the others to far less. Small files have no limit.
MOST_GROWTH = 200
ALWAYS_ALLOWED = 1 << 24  # bytes
# A quoted row of CSV may span lines; without a limit one stray quote could take all memory. Where rows are
# parsed one by one, cells are limited as well, by csv.field_size_limit().
LONGEST_ROW = 1 << 24
# How a table of CSV is written is seen from so many lines, or bytes.
_START_LINES, _START_BYTES = 100, 1 << 20
_DELIMITERS = ",;\t"
_CHUNK_BYTES = 1 << 17  # enough rows to make bulk conversion pay, few enough to stay in the cache
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_MAGIC = {  # how a file begins: what it is then, and what to do
    b"\x1f\x8b": ("gzip", "Rename the file so that it ends with .gz."),
    b"BZh91AY&SY": ("bzip2", "Rename the file so that it ends with .bz2."),
    b"\xfd7zXZ\x00": ("xz", "Rename the file so that it ends with .xz."),
    b"PK\x03\x04": ("zip", "Unpack the archive."),
    b"\x28\xb5\x2f\xfd": ("zstd", "Unpack the file."),
}
_TO_SPACES = bytes.maketrans(b":,\t", b"   ")
_TO_ZEROS = bytes.maketrans(b"eEnNaA", b"000000")  # so that each number stays one run of digits
EXACT = 2**53  # below it, each integer is a float64
POWERS = 10.0 ** np.arange(23)  # the powers of ten that are a float64
_DAMAGED = (gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError)


class _Decompressed(io.RawIOBase):
    """The bytes in a compressed file, unless they are far more than its size makes credible."""

    def __init__(self, file: IO[bytes], opener: Any) -> None:
        self._file, self._stream, self._total = file, opener(file), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill the buffer, unless the data end before."""
        view, filled = memoryview(buffer), 0
        while size := self._stream.readinto(view[filled : filled + _CHUNK_BYTES]):
            filled += size
            self._total += size
            limit = max(ALWAYS_ALLOWED, MOST_GROWTH * self._file.tell())
            if self._total > limit:
                rule = f"beyond {ALWAYS_ALLOWED} bytes compressed data must not grow over {MOST_GROWTH}-fold"
                got = Words(f"{self._total} bytes or more from the first {self._file.tell()}")
                remedy = "If you trust the file, decompress it yourself and read the result."
                raise DatasetFormatError.at(self._file.name, None, rule, got, remedy)
        return filled

    def close(self) -> None:
        self._stream.close()
        self._file.close()
        super().close()


def open_source(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file for reading bytes; ``.gz``, ``.bz2`` and ``.xz`` are decompressed on the way."""
    opener, file = _OPENERS.get(Path(path).suffix.lower()), open(path, "rb")  # noqa: SIM115
    if opener is None:
        return file
    # A file that grows too much is detected while this buffer is filled, before a parser spends time on its
    # first line. Only the filled part takes memory.
    return io.BufferedReader(_Decompressed(file, opener), 2 * ALWAYS_ALLOWED)


def compressor(path: str | os.PathLike[str], stream: IO[bytes]) -> AbstractContextManager[Any]:
    """Return what compresses the bytes written to a stream, as the suffix of its file asks for."""
    suffix = Path(path).suffix.lower()
    if suffix == ".gz":  # without name and time, so that equal data give equal files
        return gzip.GzipFile("", "wb", 6, stream, mtime=0)
    if suffix == ".bz2":
        return bz2.BZ2File(stream, "wb")
    return lzma.LZMAFile(stream, "wb") if suffix == ".xz" else nullcontext(stream)


def is_unicode(text: str) -> bool:
    """Say whether a text is free of lone surrogates, which no file or screen can take."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def numbered_lines(
    path: str | os.PathLike[str], digest: Any = None, *, stream: IO[bytes] | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield each line of a file with its number, counted from 1, and with its line end.

    An open `stream` is read instead of the file, and left open; `path` then is its name in messages. A
    `digest` is updated with the uncompressed bytes of each line. Refused are lines longer than 64 MiB,
    compressed data that is damaged or grows too much, and compressed data without its suffix.
    """
    number = 0
    with open_source(path) if stream is None else nullcontext(stream) as source:
        try:
            while line := source.readline(LONGEST_LINE + 1):
                number += 1
                if len(line) > LONGEST_LINE:
                    rule = f"a line must not be longer than {LONGEST_LINE} bytes"
                    remedy = "Check that this is a text file with one example per line."
                    raise DatasetFormatError.at(path, number, rule, line[:40], remedy)
                if digest is not None:
                    digest.update(line)
                if number == 1:
                    _check_text(path, line)
                    line = line.removeprefix(codecs.BOM_UTF8)
                yield number, line
        except _DAMAGED as error:
            raise _damaged(path, error) from error
        except OSError as error:
            if error.errno is not None:  # a fault of the disk, not of the data: bz2 sets no errno
                raise
            raise _damaged(path, error) from error


def _check_text(path: str | os.PathLike[str], line: bytes) -> None:
    """Refuse a file that is no text, by its first bytes."""
    for magic, (kind, remedy) in _MAGIC.items():
        if line.startswith(magic):
            raise DatasetFormatError.at(path, 1, "the file must hold text", Words(f"{kind} data"), remedy)


def _damaged(path: str | os.PathLike[str], error: Exception) -> DatasetFormatError:
    remedy = "Get the file again; if it is not compressed, rename it without the suffix."
    return DatasetFormatError.at(path, None, "compressed data must be whole", str(error), remedy)


def decoded(path: str | os.PathLike[str], number: int, line: bytes) -> str:
    """Return a line as text; refuse what is not UTF-8."""
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        got = line[max(error.start - 20, 0) : error.start + 20]
        rule, remedy = "text must be in UTF-8", "Save the file in UTF-8."
        raise DatasetFormatError.at(path, number, rule, got, remedy) from error


def csv_cells(
    path: str | os.PathLike[str], lines: Iterable[tuple[int, bytes]], delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row of CSV that is not blank, strictly parsed, and its last line.

    After a header of one cell, a row of one blank cell, such as ``""``, is a row.
    """
    number, size = 0, 0

    def text() -> Iterator[str]:
        nonlocal number, size
        for number, line in lines:
            size += len(line)
            if size > LONGEST_ROW:
                rule = f"a row must not be longer than {LONGEST_ROW} bytes"
                remedy = "Check that no double quote is left open."
                raise DatasetFormatError.at(path, number, rule, line[:40], remedy)
            yield decoded(path, number, line)

    try:
        width = 0
        for row in csv.reader(text(), delimiter=delimiter, strict=True):
            if len(row) > 1 or (row and (width == 1 or row[0].strip())):
                yield number, row
                width = width or len(row)
            size = 0
    except csv.Error as error:
        remedy = "Check quotes and line ends from here; for a very long cell, raise csv.field_size_limit()."
        rule = "rows must be in CSV form"
        raise DatasetFormatError.at(path, number, rule, str(error), remedy) from error


class CsvStart:
    """The first rows of a table of CSV, read leniently to see how it is written; `lines` are all of it."""

    def __init__(self, lines: Iterable[tuple[int, bytes]]) -> None:
        rest = iter(lines)
        head: list[tuple[int, bytes]] = []
        size = 0
        for line in rest:
            head.append(line)
            size += len(line[1])
            if len(head) == _START_LINES or size > _START_BYTES:
                self._cut = True
                break
        else:
            self._cut = False
        self._text = [line.decode(errors="replace") for _, line in head]
        self.lines = chain(head, rest)

    def rows(self, delimiter: str) -> list[list[str]]:
        """Return the rows that are whole; none if this is not CSV."""
        try:
            found = csv.reader(self._text, delimiter=delimiter)
            rows = [row for row in found if len(row) > 1 or "".join(row).strip()]
        except csv.Error:
            return []
        return rows[:-1] if self._cut and len(rows) > 1 else rows

    def delimiter(self) -> str | None:
        """Return what separates cells if it is clear: one mark only splits all rows alike."""
        clear = []
        for mark in _DELIMITERS:
            widths = {len(row) for row in self.rows(mark)}
            if len(widths) == 1 and widths.pop() > 1:
                clear.append(mark)
        return clear[0] if len(clear) == 1 else None


def numbers_rows(values: Iterable[object]) -> bool:
    """Say whether values count 0, 1, 2, ... or 1, 2, 3, ..., as the index of a pandas frame does."""
    found = [str(value).strip() for value in values]
    return any(found == [str(start + row) for row in range(len(found))] for start in (0, 1)) and bool(found)


class CsvText:
    r"""Rows of CSV that a ``csv.writer`` gives, each with one line end.

    With ``\n`` as its own line end, the writer would leave a ``\r`` inside of a cell without quotes.
    """

    def __init__(self) -> None:
        self._rows: list[str] = []

    def write(self, row: str) -> None:
        r"""Add a row that ends with ``\r\n``."""
        self._rows.append(f"{row[:-2]}\n")

    def encoded(self) -> bytes:
        """Return all rows."""
        return "".join(self._rows).encode()


def check_width(path: str | os.PathLike[str], line: int, row: list[str], width: int, delimiter: str) -> None:
    """Refuse a row of CSV that has more or fewer cells than the header."""
    if len(row) != width:
        raise DatasetFormatError.at(
            path,
            line,
            f"a row must have {width} {'cell' if width == 1 else 'cells'}, as the header has, separated by "
            f"{delimiter!r}",
            Words(f"{len(row)} {'cell' if len(row) == 1 else 'cells'}"),
            "Complete the row; put cells that contain the delimiter in double quotes.",
        )


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


def to_numbers(text: bytes) -> NDArray[np.float64]:
    """Convert numbers that are separated by blanks, colons and commas, correctly rounded.

    All digits of a number are read as one integer, which is divided by a power of ten. If both are exact in
    float64, the quotient is rounded once. This takes a fifth of the time of converting one by one, which
    remains for numbers with many digits or an exponent, and for nan.
    """
    text = text.translate(_TO_SPACES).strip()
    if not text:
        return np.empty(0)
    text = b" ".join(text.split()) if b"  " in text else text
    integers = np.fromstring(text.translate(_TO_ZEROS, b".-+"), np.int64, sep=" ")
    characters = np.frombuffer(text, np.uint8)
    marks = np.flatnonzero((characters < ord("0")) | (characters > ord("9")))
    kind = characters[marks]
    is_space, is_point = kind == ord(" "), kind == ord(".")
    number = np.cumsum(is_space)  # to which number a mark belongs
    digits = np.diff(marks, append=len(text))[is_point] - 1
    numbers = integers.astype(np.float64)
    numbers[number[is_point]] /= POWERS[np.minimum(digits, len(POWERS) - 1)]
    numbers[number[kind == ord("-")]] *= -1  # also turns 0.0 into -0.0
    inexact = integers >= EXACT  # beyond the range of int64, the largest int64 was read
    inexact[number[is_point][digits >= len(POWERS)]] = True
    inexact[number[kind > ord("9")]] = True
    if inexact.any():
        ends = np.append(marks[is_space], len(text))
        starts = np.append(0, ends[:-1] + 1)
        places = zip(starts[inexact].tolist(), ends[inexact].tolist(), strict=True)
        numbers[inexact] = [float(text[start:end]) for start, end in places]
    return numbers


def entry_order(
    row: NDArray[np.int64], column: NDArray[np.int64]
) -> tuple[NDArray[np.int64] | None, int | None]:
    """Return the order of entries by row, then column; None if they are sorted; and where one is repeated."""
    key = row * 2**31 + column
    if not np.any(key[1:] <= key[:-1]):  # most files
        return None, None
    order = np.argsort(key, kind="stable")
    twice = np.flatnonzero(np.diff(key[order]) == 0)
    return order, int(order[twice[0]]) if twice.size else None


class GrowingCSR:
    """A CSR matrix that grows by chunks of rows; nothing is copied until the matrix is built."""

    def __init__(self, dtype: type[np.float64] | type[np.uint8] | type[np.bool_]) -> None:
        self._dtype = dtype
        self._counts: list[NDArray[np.int64]] = []
        self._indices: list[NDArray[np.int32]] = []
        self._data: list[NDArray[np.float64 | np.uint8 | np.bool_]] = []

    def append(
        self, counts: NDArray[np.int64], indices: NDArray[np.int32], data: NDArray[np.float64]
    ) -> None:
        """Add rows with `counts` entries each, whose column `indices` ascend within a row."""
        self._counts.append(counts)
        self._indices.append(indices)
        self._data.append(data.astype(self._dtype))

    def matrix(self, columns: int) -> sparse.csr_array:
        """Return the matrix of all rows so far."""
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(self._counts))])
        # 32-bit indices if they suffice: half the memory, and scikit-learn's solvers need them.
        index_dtype = np.int32 if indptr[-1] <= np.iinfo(np.int32).max else np.int64
        indices = np.concatenate(self._indices).astype(index_dtype, copy=False)
        shape = (len(indptr) - 1, columns)
        return sparse.csr_array((np.concatenate(self._data), indices, indptr.astype(index_dtype)), shape)
