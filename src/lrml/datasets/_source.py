"""Rows of something in blocks, any number of times and from any block on: files, a name, standard input."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import sys
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lrml._files import pattern_of
from lrml._shown import did_you_mean, shown
from lrml.datasets._arff import ArffReader
from lrml.datasets._dataset import (
    Dataset,
    NumberedNames,
    Schema,
    TextDataset,
    indicator,
    joined,
    placed,
    places_of,
)
from lrml.datasets._fetch import EMBEDDED, dataset_status, fetch_mulan, load_yeast, mulan_entries
from lrml.datasets._formats import format_of
from lrml.datasets._lines import DatasetFormatError, numbered_lines
from lrml.datasets._pairs import PairReader, is_xmc_header
from lrml.datasets._roles import Roles
from lrml.datasets._tables import TableReader

Rows = Dataset | TextDataset

_READERS: dict[str, tuple[Any, tuple[str, ...]]] = {  # and their options
    "arff": (ArffReader, ("xml",)),
    "xmc": (partial(PairReader, header=True), ("feature_names", "label_names")),
    "svmlight": (
        partial(PairReader, header=False),
        ("n_features", "n_labels", "feature_names", "label_names"),
    ),
    "csv": (TableReader, ("sparse",)),
    "jsonl": (TableReader, ()),
    "parquet": (TableReader, ("sparse",)),
    "text": (TableReader, ()),
}
_ROLES = tuple(one.name for one in fields(Roles) if one.name not in ("kind", "format", "reasons"))


class Source(ABC):
    r"""Rows in blocks that all have the same columns; what ``fit_blocks`` of the estimators takes.

    Attributes
    ----------
    name : str
        Name of the data.
    roles : Roles
        Which column is what, said or guessed when the source was opened.
    rows : int
        Rows of a block.
    n_rows, n_blocks : int or None
        How many there are; None until all have been read.

    Examples
    --------
    >>> from lrml.datasets import open_source
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "toy.svm")
    ...     _ = path.write_text("0,2 1:0.5 4:1\n 2:2\n1 3:1\n")
    ...     source = open_source(path, rows=2)
    ...     for block in source:
    ...         print(block)
    ...     print(*source.blocks(start=1))
    <Dataset toy: X (2, 4) sparse, Y (2, 3) sparse, no split>
    <Dataset toy: X (1, 4) sparse, Y (1, 3) sparse, no split>
    <Dataset toy: X (1, 4) sparse, Y (1, 3) sparse, no split>
    """

    name: str
    roles: Roles
    rows: int = 10_000
    n_rows: int | None = None
    n_blocks: int | None = None
    has_first_pass = False
    has_split = False

    @property
    @abstractmethod
    def schema(self) -> Schema:
        """The names of the columns; finding them may need a pass over the rows."""

    @abstractmethod
    def blocks(self, rows: int | None = None, start: int = 0) -> Iterator[Any]:
        """Yield the blocks from one on, counted from 0; rows before it are skipped, not converted.

        A block is a `Dataset`, or a `TextDataset`; with other ``rows`` than `rows`, blocks have another size.
        """

    @abstractmethod
    def raw_blocks(self, rows: int) -> Iterator[Any]:
        """Yield blocks with the columns that each says it has, without a pass to find those of all."""

    @abstractmethod
    def read(self) -> Any:
        """Return all rows, as a `Dataset` or a `TextDataset`."""

    @abstractmethod
    def identity(self) -> str:
        """Return a text that is another for other rows, blocks or columns, by which a checkpoint is known."""

    @property
    def train(self) -> Source:
        """The rows to learn from: all, unless there is a split."""
        return self._part(0) if self.has_split else self

    @property
    def test(self) -> Source:
        """The rows to judge by: all, unless there is a split."""
        return self._part(1) if self.has_split else self

    def _part(self, place: int) -> Source:
        whole = self.read()
        cuts = [slice(0, whole.n_train), slice(whole.n_train, None)]
        return MemorySource(whole.rows(cuts[place]), self.roles)

    def parts(self) -> list[Source]:
        """Return the same rows as sources for several processes, with the columns of all."""
        return [self]

    def aligned(self, schema: Schema) -> AlignedSource:
        """Return the rows in the columns that a model knows, see `AlignedSource`."""
        return AlignedSource(self, schema)

    def __iter__(self) -> Iterator[Any]:
        return self.blocks()


class MemorySource(Source):
    """Rows that are in memory."""

    def __init__(self, dataset: Rows, roles: Roles | None = None) -> None:
        self._dataset, self.name = dataset, dataset.name
        kind = "text" if isinstance(dataset, TextDataset) else "numbers"
        self.roles = roles or Roles(kind=kind, format="a dataset")  # type: ignore[arg-type]
        self.has_split = getattr(dataset, "n_train", None) is not None

    @property
    def schema(self) -> Schema:
        return self._dataset.schema if isinstance(self._dataset, Dataset) else Schema(None, None)

    def blocks(self, rows: int | None = None, start: int = 0) -> Iterator[Any]:
        size, n = check_rows(rows or self.rows), len(self._dataset)
        for first in range(start * size, n, size):
            yield self._dataset.rows(slice(first, min(first + size, n)))
        self.n_rows, self.n_blocks = n, -(-n // size)

    def raw_blocks(self, rows: int) -> Iterator[Any]:
        return self.blocks(rows)

    def read(self) -> Any:
        return self._dataset

    def identity(self) -> str:
        digest = hashlib.sha256(repr((self.name, self.rows, self.schema)).encode())
        parts: list[Any] = [self._dataset.X, self._dataset.targets]
        for part in parts:
            matrix = part if isinstance(part, np.ndarray) else getattr(part, "data", part)
            digest.update(matrix.tobytes() if hasattr(matrix, "tobytes") else repr(matrix).encode())
        return digest.hexdigest()


class FileSource(Source):
    """The rows of one or more files of one format, one after the other; a block ends where its file ends."""

    def __init__(self, paths: Sequence[Path], opened: partial[Any], rows: int, name: str | None) -> None:
        self.paths, self.rows, self._opened = tuple(paths), check_rows(rows), opened
        self._readers = [opened(path) for path in paths]
        first = self._readers[0]
        self.name, self.roles = name or first.name, first.roles
        self._states = {path: _state(path) for path in self._files()}
        self.has_split = any(reader.has_split for reader in self._readers)
        self.has_first_pass = any(reader.has_first_pass for reader in self._readers)
        self._labelled = not opened.keywords["roles"].unlabelled
        self._listed = bool(self.roles.tags)

    def __repr__(self) -> str:
        others = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"<Source {self.paths[0].name}{others}: {self.roles.format}, blocks of {self.rows} rows>"

    @cached_property
    def schema(self) -> Schema:
        def together(first: Schema, other: Schema) -> Schema:
            if first.features is None:
                return first
            labels = joined("labels", first.labels, other.labels, self._listed)
            return Schema(joined("features", first.features, other.features, False), labels)

        found = reduce(together, (reader.schema for reader in self._readers))
        for path in self.paths:
            self._check_unchanged(path)
        return found if self._labelled else Schema(found.features, None)

    def blocks(self, rows: int | None = None, start: int = 0) -> Iterator[Any]:
        size = check_rows(rows or self.rows)
        before = first_row = 0  # blocks and rows of the files so far
        for place in range(len(self.paths)):
            skip = max(start - before, 0) * size
            count = yield from self._blocks_of(place, size, skip, first_row, self.schema)
            first_row += count
            before += -(-count // size)
        self.n_rows, self.n_blocks = first_row, before

    def _blocks_of(
        self, place: int, size: int | None, skip: int, first_row: int, schema: Schema | None
    ) -> Generator[Any, None, int]:
        """Yield the blocks of a file, numbered on; return how many rows it has."""
        self._check_unchanged(self.paths[place])
        blocks = self._readers[place].blocks(size, skip, schema, self._labelled)
        while True:
            try:
                block = next(blocks)
            except StopIteration as end:
                self._check_unchanged(self.paths[place])
                return int(end.value)
            self._check_unchanged(self.paths[place])
            if isinstance(block, Dataset):
                block = replace(block, first_row=block.first_row + first_row, name=self.name)
            yield block

    def raw_blocks(self, rows: int) -> Iterator[Any]:
        for place in range(len(self.paths)):
            yield from self._blocks_of(place, rows, 0, 0, None)

    def read(self) -> Any:
        parts = [next(self._blocks_of(place, None, 0, 0, None)) for place in range(len(self.paths))]
        if isinstance(parts[0], TextDataset):
            tags = None if parts[0].tags is None else [row for part in parts for row in part.tags or ()]
            texts = [text for part in parts for text in part.texts]
            if not any(text and not text.isspace() for text in texts):
                message = f"All {len(texts)} texts are empty. Pass the column that holds the text, as text."
                raise DatasetFormatError.at(self.paths[0], None, message)
            return replace(parts[0], name=self.name, texts=texts, tags=tags)
        whole = replace(Dataset.concat(parts, listed=self._listed), name=self.name, first_row=0)
        if not self.has_split:
            return whole
        try:
            return replace(whole, n_train=self._readers[0].split_of(len(whole)))
        except ValueError as error:
            raise DatasetFormatError.at(self.paths[0], None, str(error)) from error

    def parts(self) -> list[Source]:
        found: list[Source] = []
        for path in self.paths:  # workers may be in another folder
            part = FileSource([path.absolute()], self._opened, self.rows, self.name)
            part.schema = self.schema
            found.append(part)
        return found

    def identity(self) -> str:
        """Return a text of names, sizes and times of change, which a folder that is moved keeps."""
        states = [(path.name, *self._states[path]) for path in (*self.paths, *self._states)]
        options = {k: v for k, v in self._opened.keywords.items() if k not in ("roles", "xml")}
        columns = [self.roles.kept(), self._labelled, self.rows, options, states]
        return hashlib.sha256(json.dumps(columns, sort_keys=True, default=_plain).encode()).hexdigest()

    def _files(self) -> Iterator[Path]:
        """Yield all files that say what the blocks are."""
        yield from self.paths
        for reader in self._readers:
            if getattr(reader, "xml", None) is not None:
                yield Path(reader.xml)

    def _check_unchanged(self, path: Path) -> None:
        if _state(path) != self._states[path]:
            message = "The file has changed while it was read. Wait until it is complete, and start anew."
            raise DatasetFormatError.at(path, None, message)


class StreamSource(Source):
    """Lines of an open stream, such as standard input, which can be read once."""

    def __init__(self, reader: TableReader) -> None:
        self._reader, self.name, self.roles = reader, reader.name, reader.roles

    @property
    def schema(self) -> Schema:
        return self._reader.schema

    def blocks(self, rows: int | None = None, start: int = 0) -> Iterator[Any]:
        return self._reader.blocks(rows or self.rows, start * (rows or self.rows), None, True)

    def raw_blocks(self, rows: int) -> Iterator[Any]:
        return self.blocks(rows)

    def read(self) -> Any:
        return next(self._reader.blocks(None, 0, None, True))

    def identity(self) -> str:
        raise ValueError("A stream can be read only once. Write it to a file first.")


class SplitSource(MemorySource):
    """A training set and a test set in sources of their own."""

    def __init__(self, train: Source, test: Source) -> None:
        self._halves = train, test
        self.name = re.sub(r"[-_.]train$", "", train.name, flags=re.IGNORECASE)
        self.roles, self.has_split = train.roles, True

    @cached_property
    def _dataset(self) -> Dataset:  # type: ignore[override]
        listed = bool(self.roles.tags)
        parts = [half.read() for half in self._halves]
        return replace(Dataset.concat(parts, split=True, listed=listed), name=self.name)

    def _part(self, place: int) -> Source:
        return self._halves[place]


class Aligned(NamedTuple):
    """Some rows for a model: texts, or its features in its order; and its labels, if there are any."""

    X: Any
    Y: sparse.csr_array | None


class AlignedSource:
    """Rows in the columns of a model, in blocks: matched by name where both sides have names, else by number.

    What the model does not know is left out, and counted by name in ``unknown_features`` and
    ``unknown_labels``, in how many cells.
    """

    def __init__(self, source: Source, schema: Schema) -> None:
        self.source, self.schema, self.roles = source, schema, source.roles
        self.unknown_features: Counter[str] = Counter()
        self.unknown_labels: Counter[str] = Counter()

    def blocks(self, rows: int = 1000) -> Iterator[Aligned]:
        """Yield blocks."""
        for block in self.source.raw_blocks(check_rows(rows)):
            if isinstance(block, TextDataset):
                labels = self.schema.labels or ()
                known, Y = set(labels), None
                if block.tags is not None:
                    self.unknown_labels.update(t for tags in block.tags for t in tags if t not in known)
                    Y = indicator(block.tags, labels)
                yield Aligned(list(block.texts), Y)
            else:
                yield Aligned(self._features(block), self._labels(block))

    def __iter__(self) -> Iterator[Aligned]:
        return self.blocks()

    def _features(self, block: Dataset) -> Any:
        wanted, names = self.schema.features, block.feature_names
        if wanted is None:
            raise ValueError(f"The model takes texts, but {self.source.name!r} has numbers. Pass texts.")
        by_number = isinstance(wanted, NumberedNames) or isinstance(names, NumberedNames)
        if isinstance(wanted, NumberedNames) and isinstance(names, NumberedNames):
            wanted = replace(wanted, start=names.start)  # a model has not kept from where it counts
        missing: Sequence[str] = ()
        if not by_number:
            known = set(names)
            missing = [name for name in wanted if name not in known]
        if missing or (by_number and isinstance(block.X, np.ndarray) and len(names) != len(wanted)):
            which = f"has no {shown(missing[0])}" if missing else f"has {len(names)}"
            more = f" ({len(missing)} are missing)" if len(missing) > 1 else ""
            raise ValueError(
                f"DATA must have all {len(wanted)} features of the model, but {self.source.name!r} {which}"
                f"{more}. Check the columns and their names."
            )
        return self._counted(block.X, names, wanted, self.unknown_features)

    def _labels(self, block: Dataset) -> sparse.csr_array | None:
        if block.Y is None or self.schema.labels is None:
            return None
        found: sparse.csr_array = self._counted(
            sparse.csr_array(block.Y), block.label_names, self.schema.labels, self.unknown_labels
        )
        return found

    def _counted(
        self, matrix: Any, names: Sequence[str], wanted: Sequence[str], unknown: Counter[str]
    ) -> Any:
        places = places_of(names, wanted)
        if places is not None and (places < 0).any():
            cells = sparse.csr_array(matrix[:, places < 0]) if isinstance(matrix, np.ndarray) else matrix
            gone = np.flatnonzero(places < 0) if isinstance(matrix, np.ndarray) else np.arange(len(names))
            columns = gone[cells.indices[cells.data != 0]]
            for column, count in zip(
                *np.unique(columns[places[columns] < 0], return_counts=True), strict=True
            ):
                unknown[names[column]] += int(count)
        return placed(matrix, places, len(wanted))


def open_source(
    paths: Any,
    *,
    roles: Roles | None = None,
    format: str | None = None,
    test: str | os.PathLike[str] | None = None,
    rows: int = 10_000,
    name: str | None = None,
    data_home: str | os.PathLike[str] | None = None,
    **options: Any,
) -> Source:
    r"""Open data, and decide which column is what.

    Parameters
    ----------
    paths : path-like or sequence of path-like, or binary stream
        A file, perhaps compressed (``.gz``, ``.bz2``, ``.xz``); several of one format and with the same
        columns, or a pattern such as ``"folder/*.parquet"``; the name of a dataset, see `fetch_mulan`; or
        ``"-"`` or an open stream, of which each line is a text.
    roles : Roles, default=None
        What is known of the columns. What it leaves open is guessed from the names of the columns and the
        first 1000 rows; which columns of a table of numbers are labels is never guessed, unless one lists
        them.
    format : str, default=None
        One of `FORMATS`; None takes it from the suffix.
    test : path-like, default=None
        A test set that belongs to the file: a split of two sources, `Source.train` and `Source.test`.
    rows : int, default=10_000
        Rows of a block; the last of a file may have fewer.
    name : str, default=None
        Name of the data; None takes the file name without its suffix, or what MEKA's header says.
    data_home : path-like, default=None
        Where datasets with a name are, see `fetch_mulan`.
    **options
        Fields of `Roles`, such as ``labels=-6``, ``tags="tags"`` or ``unlabelled=True``; and those of a
        format: ``xml`` of ARFF; ``n_features`` and ``n_labels`` of svmlight; ``feature_names`` and
        ``label_names`` of both (names, or a file with one a line) and of XMC; ``sparse`` of CSV and Parquet.

    Returns
    -------
    Source
        Blocks of `Dataset` or `TextDataset`; `Source.read` gives all rows.

    Raises
    ------
    DatasetFormatError
        If a file breaks a rule of its format, or if it is not clear which column is what.
    """
    options = {key: value for key, value in options.items() if value is not None}
    asked = {key: options.pop(key) for key in _ROLES if key in options}
    said = (roles or Roles()) if not asked else _merged(roles, asked)
    if hasattr(paths, "read") or paths == "-":
        stream: Any = sys.stdin and sys.stdin.buffer if isinstance(paths, str) else paths
        if stream is None:
            raise ValueError("Standard input is closed. Pass a file.")
        return StreamSource(
            TableReader("standard input", replace(said, format=format or "text"), stream=stream, **options)
        )
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if len(listed) == 1 and str(listed[0]) in mulan_entries():
        if asked or options or format or test or name:
            said_too = {"format": format, "test": test, "name": name}
            given = next(key for key, value in (asked | options | said_too).items() if value is not None)
            raise ValueError(
                f"{given} is for data files, but {listed[0]!r} is a dataset. Leave it out, or pass a path "
                f"such as ./{listed[0]} if a file is meant."
            )
        return MemorySource(_named(str(listed[0]), data_home))
    files = [Path(path) for each in listed for path in _matching(each)]
    if not files:
        raise ValueError("There is no file. Pass the path of a data file, or several.")
    kinds = [_kind_of(path, format) for path in files]
    if len(set(kinds)) > 1:
        raise ValueError(f"The files are of the formats {', '.join(sorted(set(kinds)))}. Read one at a time.")
    if kinds[0] == "npz":
        source: Source = MemorySource(Dataset.load(files[0]))
    else:
        opener, known = _READERS[kinds[0]]
        every = (*known, *_ROLES)
        strange = next((key for key in options if key not in known), None)
        if strange is not None:
            raise ValueError(
                f"{kinds[0]} files have no option {shown(strange)}. "
                f"{did_you_mean(strange, every)}Options are: {', '.join(every)}."
            )
        said = replace(said, format=kinds[0])
        source = FileSource(files, partial(opener, roles=said, **options), rows, name)
    if test is None:
        return source
    return SplitSource(source, open_source(test, roles=replace(said, format=None), format=format, **options))


def _named(name: str, data_home: str | os.PathLike[str] | None) -> Dataset:
    """Return a dataset by its name; the one of this package needs no file."""
    if name == EMBEDDED and dataset_status(name, data_home).state == "missing":
        return load_yeast()
    return fetch_mulan(name, data_home=data_home)


def read_dataset(paths: Any, **options: Any) -> Any:
    """Return all rows of data, as a `Dataset` or a `TextDataset`: ``open_source(paths, **options).read()``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from lrml.datasets import load_yeast, read_dataset, write_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_dataset(load_yeast(), pathlib.Path(folder, "yeast.npz"))
    ...     read_dataset(pathlib.Path(folder, "yeast.npz"))
    <Dataset yeast: X (2417, 103) dense, Y (2417, 14) dense, train 1500 / test 917>
    """
    return open_source(paths, **options).read()


def _kind_of(path: Path, chosen: str | None) -> str:
    """Return the format of a file; a .txt file may be XMC."""
    kind = format_of(path, chosen)
    if kind == "text" and chosen is None:
        _, first = next(numbered_lines(path), (1, b""))
        return "xmc" if is_xmc_header(first) else kind
    return kind


def check_rows(rows: Any) -> int:
    """Refuse a number of rows that no block can have."""
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise ValueError(f"rows is {shown(rows)}. Pass a positive number, such as rows=10_000.")
    return int(rows)


def _merged(roles: Roles | None, asked: Mapping[str, Any]) -> Roles:
    """Return known roles with what the caller says now, which has precedence."""
    if roles is None:
        return Roles(**asked)
    if asked.get("tags") or asked.get("labels"):
        roles = replace(roles, tags=None, labels=(), tag_separator=None)
    return replace(roles, **asked)


def _plain(value: Any) -> Any:
    """Return an option as JSON can write it, all of it: `repr` leaves out the middle of long arrays."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def _matching(path: str | os.PathLike[str]) -> list[str]:
    """Return a path, or all files of a pattern, unless it is the name of a file."""
    name = os.fspath(path)
    if os.path.isdir(name):
        raise FileNotFoundError(
            f"{name!r} is a folder. Name its files, as a list or a pattern: {pattern_of(name)!r}."
        )
    if os.path.exists(name):
        return [name]
    found = sorted(glob.glob(name))
    if not found:
        raise FileNotFoundError(f"There is no file {name!r}. Check the path.")
    return found


def _state(path: Path) -> tuple[int, int]:
    """Return size and time of change of a file."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns
