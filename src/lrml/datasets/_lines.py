"""Formats and lines of data files, plain or compressed; and what readers of files share."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property, reduce
from itertools import islice
from pathlib import Path
from typing import IO, Any, Self, TypeAlias

Row: TypeAlias = tuple[int, bytes]  # number of the line, and its text

FORMATS = {
    "arff": (".arff",),
    "xmc": (".xmc",),
    "svmlight": (".svm", ".svmlight", ".libsvm"),
    "csv": (".csv", ".tsv"),
    "jsonl": (".jsonl", ".ndjson"),
    "parquet": (".parquet", ".pq"),
    "text": (".txt",),  # or XMC, if the first line is three numbers
    "npy": (".npy",),  # features, such as embeddings
    "npz": (".npz",),  # what `Dataset.save` writes, or features
}
"""Formats and their suffixes; .gz, .bz2 or .xz may follow."""

# What a label and a feature have to be.
BINARY = "0 or 1, as labels are. Correct it; for real targets pass arrays to SpectralRegressorCV in Python."
FINITE = "finite. Correct it, or mark it as missing."
_OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


class DatasetFormatError(ValueError):
    """A data file breaks a rule of its format: the message says where, what was found and what to do."""

    @classmethod
    def at(cls, path: str | os.PathLike[str], line: int | None, message: str) -> DatasetFormatError:
        """Return the error for a line of a file, counted from 1, or for the file as a whole."""
        return cls(f"{os.fspath(path)}{'' if line is None else f', line {line}'}: {message}")


class CellError(ValueError):
    """A cell that rows cannot hold; ``row`` counts from the first of them."""

    def __init__(self, row: int, message: str) -> None:
        super().__init__(message)
        self.row = row


class FileReader:
    """Rows of one file: `records` finds them, `dataset` converts some of them.

    ``roles`` say which column is what; ``known`` are the names of the columns, None if only all rows tell
    them. Once all blocks are read, ``n_rows`` is known. How the file was opened is kept, so that another
    process can open it, too.
    """

    has_split = False
    n_rows = 0
    bulk = 1000  # rows that are converted at a time where all are read
    roles: Any
    known: Any = None

    def __init__(self, path: str | os.PathLike[str], roles: Any, **options: Any) -> None:
        self.path, self._asked, self.options = Path(path), roles, options
        self.files: tuple[Path, ...] = (self.path,)
        self.name = stem_of(path)

    @cached_property
    def columns(self) -> Any:
        """The names of the columns; a pass over the rows finds those that only all rows tell."""
        if self.known is not None:
            return self.known
        found, listed = (block.columns for block in self.blocks(self.bulk)), bool(self.roles.tags)
        return reduce(lambda one, other: one.joined(other, listed=listed), found)

    def records(self) -> Iterator[Any]:
        """Yield the rows as the file has them."""
        raise NotImplementedError

    def dataset(self, records: list[Any], first_row: int) -> Any:
        """Return some rows, in the columns that they tell by themselves."""
        raise NotImplementedError

    def blocks(self, rows: int, skip: int = 0) -> Iterator[Any]:
        """Yield so many rows at a time, after some that are not converted."""
        records = self.records()
        count = sum(1 for _ in islice(records, skip))
        while some := list(islice(records, rows)):
            with self.cells_told(lambda row: some[row][0]):
                found = self.dataset(some, count)
            yield found
            count += len(some)
        if not count:
            raise self.error(None, "There are no rows. Is the file complete?")
        self.n_rows = count

    @contextmanager
    def cells_told(self, line: Callable[[int], int]) -> Iterator[None]:
        """Name a cell that rows cannot hold by its line."""
        try:
            yield
        except CellError as error:
            raise self.error(line(error.row), str(error)) from error

    def split_of(self, n: int) -> int | None:
        """Return how many of n rows the file declares as the training set."""
        return None

    def moved(self) -> Self:
        """Return a reader of the same file by its whole path: another process may be in another folder."""
        return type(self)(self.path.absolute(), self._asked, **self.options)

    def error(self, line: int | None, message: str) -> DatasetFormatError:
        """Return the error for a line of the file."""
        return DatasetFormatError.at(self.path, line, message)


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


@contextmanager
def damage_told(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors about the content of a compressed or binary file into one kind; others are passed on."""
    try:
        yield
    except (zlib.error, lzma.LZMAError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:  # a fault of the disk, or no such file
            raise
        message = f"The file is damaged ({error}). Get it again, or correct its suffix."
        raise DatasetFormatError.at(path, None, message) from error


def numbered_lines(path: str | os.PathLike[str], stream: IO[bytes] | None = None) -> Iterator[Row]:
    """Yield the lines of a file, or of an open stream, with their numbers from 1 and their line ends."""
    with damage_told(path), open_bytes(path) if stream is None else nullcontext(stream) as source:
        for number, line in enumerate(source, 1):
            yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line


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


def format_of(path: str | os.PathLike[str], chosen: str | None) -> str:
    """Return the format that was chosen, or that the suffix of a file says."""
    suffix = Path(plain_name(path)).suffix.lower()
    kind = next((name for name, ends in FORMATS.items() if suffix in ends), "") if chosen is None else chosen
    if kind not in FORMATS:
        what = f"the suffix {suffix!r} of {os.fspath(path)!r}" if chosen is None else repr(chosen)
        ends = ", ".join(end for ends in FORMATS.values() for end in ends)
        raise ValueError(
            f"{what} is no format that lrml knows ({', '.join(FORMATS)}). Use a name that ends with one of "
            f'{ends}, or name it, such as format="csv" (on the command line: --from csv).'
        )
    return kind


def stem_of(path: str | os.PathLike[str]) -> str:
    """Return the name of a file without its suffixes for compression and format."""
    return Path(plain_name(path)).stem


def plain_name(path: str | os.PathLike[str]) -> str:
    """Return the name of a file without its suffix for compression."""
    whole = Path(path)
    return whole.stem if whole.suffix.lower() in (".gz", ".bz2", ".xz") else whole.name
