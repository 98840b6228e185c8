"""Rows of something in blocks, any number of times and from any block on."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from lrml._shown import shown
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
from lrml.datasets._lines import DatasetFormatError
from lrml.datasets._roles import Roles


class MemoryReader:
    """Reads rows that are in memory."""

    has_first_pass, files = False, ()

    def __init__(self, dataset: Any, roles: Roles | None = None) -> None:
        self.dataset, self.name = dataset, dataset.name
        is_text = isinstance(dataset, TextDataset)
        self.roles = roles or Roles("text" if is_text else "numbers", "memory")
        self.schema = Schema(None, None) if is_text else dataset.schema
        self.has_split = getattr(dataset, "n_train", None) is not None

    @classmethod
    def of_file(cls, path: Path, roles: Roles) -> MemoryReader:
        """Return a reader of what `Dataset.save` has written."""
        return cls(Dataset.load(path))

    def split_of(self, n: int) -> int | None:
        """Return how many rows are the training set."""
        found: int | None = self.dataset.n_train
        return found

    def blocks(
        self, rows: int | None, skip: int, schema: Schema | None, labelled: bool
    ) -> Generator[Any, None, int]:
        """Yield so many rows at a time."""
        n = len(self.dataset)
        for start in range(skip, n, rows or n):
            yield self.dataset.rows(slice(start, start + (rows or n)))
        return n

    def digest(self) -> str:
        """Return a hash of the rows."""
        found = hashlib.sha256(repr(self.schema).encode())
        for part in (self.dataset.X, self.dataset.targets):
            matrix: Any = getattr(part, "data", part) if sparse.issparse(part) else part
            found.update(matrix.tobytes() if isinstance(matrix, np.ndarray) else repr(matrix).encode())
        return found.hexdigest()


class Source:
    r"""Rows in blocks that all have the same columns; what ``fit_blocks`` of the estimators takes.

    `open_source` makes them. Iterating yields the blocks, each a `Dataset` or a `TextDataset`.

    Attributes
    ----------
    name : str
        Name of the data.
    roles : Roles
        Which column is what, said or guessed when the source was opened.
    schema : Schema
        The names of the columns; finding them may need a pass over the rows (``has_first_pass``).
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
        self.rows, self._readers, self._n_train_readers = check_rows(rows), list(readers), n_train_readers
        first = self._readers[0]
        self.name, self.roles = name or first.name, first.roles
        self.has_split = bool(n_train_readers) or any(reader.has_split for reader in self._readers)
        self.has_first_pass = any(reader.has_first_pass for reader in self._readers)
        self._states = {path: _state(path) for reader in self._readers for path in reader.files}
        self.n_rows: int | None = None
        self.n_blocks: int | None = None

    def __repr__(self) -> str:
        return f"<Source {self.name}: {self.roles.format}, blocks of {self.rows} rows>"

    def __iter__(self) -> Iterator[Any]:
        return self.blocks()

    @cached_property
    def schema(self) -> Schema:
        """The names of the columns."""
        schemas = [reader.schema for reader in self._readers]
        if schemas[0].features is None:
            return Schema(None, None)
        features = reduce(partial(joined, "features", listed=False), (each.features for each in schemas))
        labels = reduce(partial(joined, "labels", listed=self._listed), (each.labels for each in schemas))
        self._check_unchanged()
        return Schema(features, None if self.roles.unlabelled else labels)

    @property
    def _listed(self) -> bool:
        return bool(self.roles.tags)

    def blocks(self, rows: int | None = None, start: int = 0) -> Iterator[Any]:
        """Yield the blocks from one on, counted from 0; rows before it are skipped, not converted.

        With other ``rows`` than `rows`, blocks have another size. A block ends where its file ends.
        """
        size = check_rows(rows or self.rows)
        before = first_row = 0  # blocks and rows of the files so far
        for reader in self._readers:
            count = yield from self._read(reader, size, max(start - before, 0) * size, first_row, self.schema)
            first_row += count
            before += -(-count // size)
        self.n_rows, self.n_blocks = first_row, before

    def raw_blocks(self, rows: int) -> Iterator[Any]:
        """Yield blocks with the columns that each says it has, without a pass to find those of all."""
        for reader in self._readers:
            yield from self._read(reader, check_rows(rows), 0, 0, None)

    def read(self) -> Any:
        """Return all rows, as a `Dataset` or a `TextDataset`."""
        place = getattr(self._readers[0], "path", self.name)
        parts = [next(self._read(reader, None, 0, 0, None)) for reader in self._readers]
        n_train = sum(map(len, parts[: self._n_train_readers])) or None
        if isinstance(parts[0], TextDataset):
            tags = None if parts[0].tags is None else [row for part in parts for row in part.tags or ()]
            texts = [text for part in parts for text in part.texts]
            whole = replace(parts[0], name=self.name, texts=texts, tags=tags, n_train=n_train)
            if whole.n_empty == len(whole):
                message = f"all {len(whole)} texts are empty. Pass the column that holds the text, as text."
                raise DatasetFormatError.at(place, None, message)
            return whole
        found = Dataset.concat(parts, listed=self._listed)
        try:
            if n_train is None and self.has_split:
                n_train = self._readers[0].split_of(len(found))
            return replace(found, name=self.name, n_train=n_train)
        except ValueError as error:  # a header that declares a split of other rows
            raise DatasetFormatError.at(place, None, str(error)) from error

    @property
    def train(self) -> Source:
        """The rows to learn from: all, unless there is a split."""
        return self._half(slice(0, self._n_train_readers), slice(0, 1))

    @property
    def test(self) -> Source:
        """The rows to judge by: all, unless there is a split."""
        return self._half(slice(self._n_train_readers, None), slice(1, 2))

    def _half(self, readers: slice, place: slice) -> Source:
        if self._n_train_readers:
            return Source(self._readers[readers], self.rows, self.name)
        if not self.has_split:
            return self
        whole = self.read()
        cuts = [slice(0, whole.n_train), slice(whole.n_train, None)][place]
        return Source([MemoryReader(whole.rows(cut), self.roles) for cut in cuts], self.rows, self.name)

    def parts(self) -> list[Source]:
        """Return the rows of each file as a source for another process, with the columns of all."""
        found = []
        for reader in self._readers:
            part = Source([reader.moved() if reader.files else reader], self.rows, self.name)
            part.schema = self.schema
            found.append(part)
        return found

    def aligned(self, schema: Schema) -> AlignedSource:
        """Return the rows in the columns that a model knows, see `AlignedSource`."""
        return AlignedSource(self, schema)

    def identity(self) -> str:
        """Return a text that is another for other rows, blocks or columns, by which a checkpoint is known.

        Files are known by name, size and time of change: a folder that is moved with its files keeps it.
        """
        paths = [path for reader in self._readers for path in reader.files]
        rows: list[Any] = [(path.name, *self._states[path]) for path in paths]
        rows += [reader.digest() for reader in self._readers if not reader.files]
        facts = [self.roles.kept(), self.roles.unlabelled, self.rows, rows]
        facts += [{**reader.options, "xml": None} for reader in self._readers if reader.files]
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=_plain).encode()).hexdigest()

    def _read(
        self, reader: Any, size: int | None, skip: int, first_row: int, schema: Schema | None
    ) -> Generator[Any, None, int]:
        """Yield the blocks of a reader, numbered on; return how many rows it has."""
        self._check_unchanged()
        blocks = reader.blocks(size, skip, schema, not self.roles.unlabelled)
        while True:
            try:
                block = next(blocks)
            except StopIteration as end:
                self._check_unchanged()
                return int(end.value)
            self._check_unchanged()
            if isinstance(block, Dataset):
                block = replace(block, first_row=block.first_row + first_row)
            yield block

    def _check_unchanged(self) -> None:
        for path, state in self._states.items():
            if _state(path) != state:
                message = "The file has changed while it was read. Wait until it is complete, and start anew."
                raise DatasetFormatError.at(path, None, message)


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


def check_rows(rows: Any) -> int:
    """Refuse a number of rows that no block can have."""
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise ValueError(f"rows is {shown(rows)}. Pass a positive number, such as rows=10_000.")
    return int(rows)


def _plain(value: Any) -> Any:
    """Return an option as JSON can write it, all of it: `repr` leaves out the middle of long arrays."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def _state(path: Path) -> tuple[int, int]:
    """Return size and time of change of a file."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns
