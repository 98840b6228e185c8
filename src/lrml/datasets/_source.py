"""Rows of something in blocks, any number of times and from any block on; and how they are opened."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from lrml._shown import did_you_mean, shown
from lrml.core.checks import check_integer
from lrml.datasets._arff import ArffReader
from lrml.datasets._arrays import ArrayReader, MemoryReader
from lrml.datasets._dataset import Columns, Dataset, NumberedNames, TextDataset, placed, places_of
from lrml.datasets._fetch import EMBEDDED, dataset_status, fetch_mulan, load_yeast, mulan_entries
from lrml.datasets._lines import DatasetFormatError, format_of, numbered_lines
from lrml.datasets._pairs import PairReader, is_xmc_header
from lrml.datasets._roles import Roles
from lrml.datasets._tables import CsvReader, FolderReader, JsonLines, ParquetReader, PlainText
from lrml.datasets._write import RecordWriter

_NAMES = ("feature_names", "label_names")
_READERS: dict[str, tuple[Any, tuple[str, ...]]] = {  # and the options that are theirs
    "arff": (ArffReader, ("xml",)),
    "xmc": (partial(PairReader, header=True), _NAMES),
    "svmlight": (partial(PairReader, header=False), ("n_features", "n_labels", *_NAMES)),
    "csv": (CsvReader, ("sparse",)),
    "jsonl": (JsonLines, ()),
    "parquet": (ParquetReader, ("sparse",)),
    "text": (PlainText, ()),
    "npy": (ArrayReader, ()),
    "npz": (ArrayReader.of_npz, ()),
    "folder": (FolderReader, ()),
}
_ARRAYS = ("npy", "npz")
_ROLES = tuple(one.name for one in fields(Roles) if one.name not in ("kind", "format"))


class Source:
    r"""Rows in blocks that all have the same columns; what ``fit_blocks`` of the estimators takes.

    `open_source` makes them. Iterating yields the blocks, each a `Dataset` or a `TextDataset`.

    Attributes
    ----------
    name : str
        Name of the data.
    roles : Roles
        Which column is what, said or guessed when the source was opened.
    columns : Columns
        The names of the columns; unless all rows have been read, finding them may need a pass over them
        (``has_first_pass``).
    rows : int
        Rows of a block; the last of a file may have fewer.
    has_split : bool
        Whether some rows are a test set; then `train` and `test` are sources of their own.
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

    def __init__(
        self, readers: Sequence[Any], rows: int = 10_000, name: str | None = None, n_train_readers: int = 0
    ) -> None:
        self.rows = check_integer("rows", rows)
        self._readers, self._n_train_readers = list(readers), n_train_readers
        first = self._readers[0]
        self.name, self.roles = name or first.name, first.roles
        self.has_split = bool(n_train_readers) or any(reader.has_split for reader in self._readers)
        self.has_first_pass = any(reader.known is None for reader in self._readers)
        self._states = {path: _state(path) for reader in self._readers for path in reader.files}
        self.n_rows: int | None = None
        self.n_blocks: int | None = None

    def __repr__(self) -> str:
        return f"<Source {self.name}: {self.roles.format}, blocks of {self.rows} rows>"

    def __iter__(self) -> Iterator[Any]:
        return self.blocks()

    @cached_property
    def columns(self) -> Columns:
        """The names of the columns."""
        join = partial(Columns.joined, listed=bool(self.roles.tags))
        features, labels = reduce(join, (reader.columns for reader in self._readers))
        return Columns(features, None if self.roles.unlabelled else labels or None)

    def blocks(self, rows: int | None = None, start: int = 0) -> Iterator[Any]:
        """Yield the blocks from one on, counted from 0; rows before it are skipped, not converted.

        With other ``rows`` than `rows`, blocks have another size. A block ends where its file ends.
        """
        size = check_integer("rows", self.rows if rows is None else rows)
        before = first_row = 0  # blocks and rows of the files so far
        for reader in self._readers:
            for block in reader.blocks(size, max(start - before, 0) * size):
                if isinstance(block, TextDataset):  # which has no columns, and is not numbered
                    yield block
                    continue
                found = block.with_columns(self.columns)
                yield replace(found, first_row=found.first_row + first_row) if first_row else found
            first_row += reader.n_rows
            before += -(-reader.n_rows // size)
        self.n_rows, self.n_blocks = first_row, before

    def raw_blocks(self) -> Iterator[Any]:
        """Yield blocks with the columns that each says it has, without a pass to find those of all."""
        for reader in self._readers:
            yield from reader.blocks(self.rows)

    def read(self) -> Any:
        """Return all rows, as a `Dataset` or a `TextDataset`: the concatenation of its blocks."""
        files = [list(reader.blocks(reader.bulk)) for reader in self._readers]
        parts = [block for blocks in files for block in blocks]
        n_train = sum(len(block) for blocks in files[: self._n_train_readers] for block in blocks) or None
        place = self._readers[0].path
        if isinstance(parts[0], TextDataset):
            whole = replace(TextDataset.concat(parts), name=self.name, n_train=n_train)
            if whole.n_empty == len(whole):
                message = f"all {len(whole)} texts are empty. Pass the column that holds the text, as text."
                raise DatasetFormatError.at(place, None, message)
            return whole
        found = Dataset.concat(parts, listed=bool(self.roles.tags))
        if found.label_names is not None and not len(found.label_names):
            if self.roles.tags:
                raise DatasetFormatError.at(place, None, f"Column {shown(self.roles.tags)} lists no label.")
            found = replace(found, Y=None, label_names=None)
        try:
            self.columns = found.columns
            n_train = n_train or (self._readers[0].split_of(len(found)) if self.has_split else None)
            return replace(found, name=self.name, n_train=n_train)
        except ValueError as error:  # a header that declares a split of other rows
            raise DatasetFormatError.at(place, None, str(error)) from error

    def records(self) -> list[dict[str, Any]] | None:
        """Return the rows of a CSV, JSON lines or text file with all columns that they have there."""
        if not hasattr(self._readers[0], "dialect"):
            return None
        return [record for reader in self._readers for _, record in reader.records()]

    def write(self, records: Sequence[dict[str, Any]], path: str | os.PathLike[str]) -> None:
        """Write some of the `records` to a file of the same format."""
        kind, dialect = self.roles.format, self._readers[0].dialect
        with RecordWriter(path, list(records[0]), format=kind, **dialect) as out:
            out.write(records)

    @property
    def files(self) -> list[list[Any]]:
        """Name, size and time of change of each file, by which they are known again."""
        return [[path.name, *state] for path, state in self._states.items()]

    @property
    def train(self) -> Source:
        """The rows to learn from: all, unless there is a split, whose halves are in memory."""
        return self._half("train")

    @property
    def test(self) -> Source:
        """The rows to judge by: all, unless there is a split."""
        return self._half("test")

    def _half(self, part: str) -> Source:
        if not self.has_split:
            return self
        whole = self.read()
        rows = slice(0, whole.n_train) if part == "train" else slice(whole.n_train, None)
        return Source([MemoryReader(whole.rows(rows), self.roles)], self.rows, self.name)

    def parts(self) -> list[Source]:
        """Return the rows of each file as a source for another process, with the columns of all."""
        found = [Source([reader.moved()], self.rows, self.name) for reader in self._readers]
        for part in found:
            part.columns = self.columns
        return found

    def aligned(self, columns: Columns) -> AlignedSource:
        """Return the rows in the columns that a model knows, see `AlignedSource`."""
        return AlignedSource(self, columns)

    def identity(self) -> str:
        """Return a text that is another for other rows, blocks or columns, by which a checkpoint is known.

        Files are known by name, size and time of change: a folder that is moved with its files keeps it.
        """
        facts: list[Any] = [self.roles.kept(), self.roles.unlabelled, self.rows]
        for reader in self._readers:
            facts += [(path.name, *self._states[path]) for path in reader.files]
            facts.append({**reader.options, "xml": None, "table": None} if reader.files else reader.digest())
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=_plain).encode()).hexdigest()


def _plain(value: Any) -> Any:
    """Return an option as JSON can write it, all of it: `repr` leaves out the middle of long arrays."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def _state(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return size and time of change of a file."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


class AlignedSource:
    """Rows in the columns of a model, in blocks: matched by name where both sides have names, else by number.

    What the model does not know is left out, and counted by name in ``unknown``, in how many cells.
    """

    def __init__(self, source: Source, columns: Columns) -> None:
        self.source, self.columns, self.roles = source, columns, source.roles
        self.unknown: dict[str, Counter[str]] = {"feature": Counter(), "label": Counter()}

    def __iter__(self) -> Iterator[tuple[Any, sparse.csr_array | None]]:
        """Yield blocks: texts or features, and labels, NaN where unknown, if there are any."""
        labels = self.columns.labels
        for block in self.source.raw_blocks():
            X = list(block.texts) if isinstance(block, TextDataset) else self._features(block)
            Y = None
            if block.Y is not None and labels is not None:
                Y = block.Y if isinstance(block, TextDataset) else block.targets
                Y = _known(sparse.csr_array(Y), block.label_names, labels, self.unknown["label"])
            yield X, Y

    def _features(self, block: Dataset) -> Any:
        wanted, names = self.columns.features, block.feature_names
        if wanted is None:
            raise ValueError(f"The model takes texts, but {self.source.name!r} has numbers. Pass texts.")
        by_number = isinstance(wanted, NumberedNames) or isinstance(names, NumberedNames)
        known = frozenset() if by_number else frozenset(names)
        missing = [] if by_number else [name for name in wanted if name not in known]
        if missing or (by_number and isinstance(block.X, np.ndarray) and len(names) != len(wanted)):
            which = f"has no {shown(missing[0])}" if missing else f"has {len(names)} columns"
            more = f" ({len(missing)} are missing)" if len(missing) > 1 else ""
            raise ValueError(
                f"{self.source.name!r} {which}{more}, but the model needs all of its {len(wanted)} features. "
                "Check the columns and their names."
            )
        return _known(block.X, names, wanted, self.unknown["feature"])


def _known(matrix: Any, names: Sequence[str], wanted: Sequence[str], unknown: Counter[str]) -> Any:
    """Return the columns that are wanted, in their order; count the nonzero cells of others by name."""
    places = places_of(names, wanted)
    if places is not None and (places < 0).any():
        cells = sparse.csr_array(matrix)
        columns = cells.indices[np.nan_to_num(cells.data) != 0]
        counts = np.bincount(columns[places[columns] < 0], minlength=len(names))
        unknown.update({names[place]: int(counts[place]) for place in np.flatnonzero(counts).tolist()})
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
    """Open data, and decide which column is what.

    Parameters
    ----------
    paths : path-like or sequence of path-like, or binary stream
        A file, perhaps compressed (``.gz``, ``.bz2``, ``.xz``), a pattern such as ``"folder/*.parquet"``, or
        several of one format and with the same columns; an array of features and the table of its labels,
        such as ``["embeddings.npy", "tags.csv"]``; the name of a dataset, see `fetch_mulan`; or ``"-"`` or an
        open stream, of which each line is a text.
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
        Fields of `Roles`, such as ``labels=-6``, ``tags="tags"`` or ``unlabelled=True``; ``xml`` of ARFF;
        ``n_features`` and ``n_labels`` of svmlight; ``feature_names`` and ``label_names`` of svmlight and XMC
        (names, or a file with one a line); ``sparse`` of CSV and Parquet.

    Raises
    ------
    DatasetFormatError
        If a file breaks a rule of its format, or if it is not clear which column is what.
    """
    options = {key: value for key, value in options.items() if value is not None}
    asked = {key: options.pop(key) for key in _ROLES if key in options}
    known = roles or Roles()
    if asked.get("tags") or asked.get("labels"):  # said now, which has precedence
        known = replace(known, tags=None, labels=(), tag_separator=None)
    said = replace(known, **asked)
    if hasattr(paths, "read") or paths == "-":
        stream: Any = sys.stdin and sys.stdin.buffer if isinstance(paths, str) else paths
        if stream is None:
            raise ValueError("Standard input is closed. Pass a file.")
        said = replace(said, format=format or "text")
        return Source([_READERS[said.format or ""][0]("standard input", said, stream=stream)], rows, name)
    listed = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    if len(listed) == 1 and str(listed[0]) in mulan_entries():
        given = [*asked, *options, *(["format"] if format else []), *(["test"] if test else [])]
        if given:
            raise ValueError(
                f"{given[0]} is for data files, but {listed[0]!r} is a dataset. Leave it out, or pass a path "
                f"such as ./{listed[0]} if a file is meant."
            )
        of_package = listed[0] == EMBEDDED and dataset_status(EMBEDDED, data_home)[0] == "missing"
        found = load_yeast() if of_package else fetch_mulan(str(listed[0]), data_home=data_home)
        return Source([MemoryReader(found)], rows, name)
    kind, files, tables = _sorted(listed, format)
    opener, known_options = _READERS[kind]
    for key in options:
        if key not in known_options:
            every = (*known_options, *_ROLES)
            guess = did_you_mean(key, every)
            listing = ", ".join(every)
            raise ValueError(f"{kind} files have no option {shown(key)}. {guess}Options are: {listing}.")
    said = replace(said, format=kind)
    readers = [opener(path, said, **options) for path in files if not tables]
    readers += [opener(path, said, table=table) for path, table in zip(files, tables, strict=False)]
    if test is None:
        return Source(readers, rows, name)
    later = open_source(test, roles=said, format=format, rows=rows, **options)
    name = name or re.sub(r"[-_.]train$", "", readers[0].name, flags=re.IGNORECASE)
    return Source([*readers, *later._readers], rows, name, len(readers))


def read_dataset(paths: Any, **options: Any) -> Any:
    """Return all rows of data, as a `Dataset` or a `TextDataset`: ``open_source(paths, **options).read()``.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from lrml.datasets import load_yeast, read_dataset, write_dataset
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = write_dataset(load_yeast(), pathlib.Path(folder, "yeast.npz"))
    ...     read_dataset(pathlib.Path(folder, "yeast.npz"))
    <Dataset yeast: X (2417, 103) dense, Y (2417, 14) dense, train 1500 / test 917>
    """
    return open_source(paths, **options).read()


def _sorted(listed: Sequence[Any], format: str | None) -> tuple[str, list[Path], list[Path]]:
    """Return the one format of some files, the files, and the tables of labels of those that are arrays."""
    found = [(path, _kind_of(path, format)) for each in listed for path in map(Path, _matching(each))]
    arrays = [path for path, kind in found if kind in _ARRAYS]
    tables = [path for path, kind in found if kind not in _ARRAYS] if arrays else []
    files = arrays or [path for path, _ in found]
    kinds = {kind for path, kind in found if path in files}
    if len(kinds) != 1 or len(tables) not in (0, len(files)):
        formats = ", ".join(sorted({kind for _, kind in found}))
        raise ValueError(
            f"{len(found)} files of the formats {formats} do not belong together. Pass files of one format, "
            "or arrays of features and a table of labels for each."
        )
    return kinds.pop(), files, tables


def _kind_of(path: Path, chosen: str | None) -> str:
    """Return the format of a file; a .txt file may be XMC."""
    if path.is_dir():
        return "folder"
    kind = format_of(path, chosen)
    if kind == "text" and chosen is None:
        _, first = next(numbered_lines(path), (1, b""))
        return "xmc" if is_xmc_header(first) else kind
    return kind


def _matching(path: str | os.PathLike[str]) -> list[str]:
    """Return a path, or all files of a pattern, unless it is the name of a file."""
    name = os.fspath(path)
    if os.path.isdir(name) and not glob.glob(os.path.join(glob.escape(name), "*.txt")):
        raise FileNotFoundError(
            f"{name!r} is a folder. Name its files, as a list or a pattern: {os.path.join(name, '*.csv')!r}."
        )
    if os.path.exists(name):
        return [name]
    found = sorted(glob.glob(name))
    if not found:
        guess = did_you_mean(name, mulan_entries())
        raise FileNotFoundError(f"There is no file {name!r}. {guess}Check the path.")
    return found
