"""Rows of something in blocks, any number of times and from any block on."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial, reduce
from typing import Any

import numpy as np
from scipy import sparse

from lrml._shown import shown
from lrml.core.checks import check_integer
from lrml.datasets._dataset import (
    Columns,
    Dataset,
    NumberedNames,
    TextDataset,
    placed,
    places_of,
)
from lrml.datasets._lines import DatasetFormatError, FileReader
from lrml.datasets._roles import Roles


class MemoryReader(FileReader):
    """Reads rows that are in memory."""

    def __init__(self, dataset: Any, roles: Roles | None = None) -> None:
        super().__init__(dataset.name, roles)
        self._dataset, self.name, self.files = dataset, dataset.name, ()
        is_text = isinstance(dataset, TextDataset)
        self.roles = roles or Roles("text" if is_text else "numbers", "memory")
        self.columns = Columns(None, None) if is_text else dataset.columns
        self.has_split, self.n_rows = dataset.n_train is not None, len(dataset)

    def blocks(self, rows: int, skip: int = 0) -> Iterator[Any]:
        """Yield so many rows at a time."""
        for start in range(skip, len(self._dataset), rows):
            yield self._dataset.rows(slice(start, start + rows))

    def split_of(self, n: int) -> int | None:
        """Return how many rows are the training set."""
        found: int | None = self._dataset.n_train
        return found

    def moved(self) -> MemoryReader:
        """Return itself: nothing is opened."""
        return self

    def digest(self) -> str:
        """Return a hash of the rows."""
        found = hashlib.sha256(repr(self.columns).encode())
        for part in (self._dataset.X, self._dataset.targets):
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
        self.has_first_pass = any(reader.has_first_pass for reader in self._readers)
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
        if not hasattr(self._readers[0], "written"):
            return None
        return [record for reader in self._readers for _, record in reader.records()]

    def written(self, records: list[dict[str, Any]]) -> bytes:
        """Return the content of a file with some of the `records`, of the same format."""
        # Half a letter, which only JSON can hold, becomes its escape there.
        return "".join(self._readers[0].written(records)).encode(errors="backslashreplace")

    @property
    def train(self) -> Source:
        """The rows to learn from: all, unless there is a split."""
        return self._half(slice(0, self._n_train_readers), 0)

    @property
    def test(self) -> Source:
        """The rows to judge by: all, unless there is a split."""
        return self._half(slice(self._n_train_readers, None), 1)

    def _half(self, readers: slice, place: int) -> Source:
        if self._n_train_readers:
            return Source(self._readers[readers], self.rows, self.name)
        if not self.has_split:
            return self
        whole = self.read()
        cut = (slice(0, whole.n_train), slice(whole.n_train, None))[place]
        return Source([MemoryReader(whole.rows(cut), self.roles)], self.rows, self.name)

    def parts(self) -> list[Source]:
        """Return the rows of each file as a source for another process, with the columns of all."""
        found = []
        for reader in self._readers:
            part = Source([reader.moved()], self.rows, self.name)
            part.columns = self.columns
            found.append(part)
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


class AlignedSource:
    """Rows in the columns of a model, in blocks: matched by name where both sides have names, else by number.

    What the model does not know is left out, and counted by name in ``unknown_features`` and
    ``unknown_labels``, in how many cells.
    """

    def __init__(self, source: Source, columns: Columns) -> None:
        self.source, self.columns, self.roles = source, columns, source.roles
        self.unknown_features: Counter[str] = Counter()
        self.unknown_labels: Counter[str] = Counter()
        self._first: int | None = None  # from where numbered features are counted

    def __iter__(self) -> Iterator[tuple[Any, sparse.csr_array | None]]:
        """Yield blocks: texts or features, and labels, NaN where unknown, if there are any."""
        labels = self.columns.labels
        for block in self.source.raw_blocks():
            X = list(block.texts) if isinstance(block, TextDataset) else self._features(block)
            Y = None
            if block.Y is not None and labels is not None:
                Y = block.Y if isinstance(block, TextDataset) else block.targets
                Y = _known(sparse.csr_array(Y), block.label_names, labels, self.unknown_labels)
            yield X, Y

    def _features(self, block: Dataset) -> Any:
        wanted, names = self.columns.features, block.feature_names
        if wanted is None:
            raise ValueError(f"The model takes texts, but {self.source.name!r} has numbers. Pass texts.")
        by_number = isinstance(wanted, NumberedNames) or isinstance(names, NumberedNames)
        if isinstance(wanted, NumberedNames) and isinstance(names, NumberedNames):
            # A model has not kept from where it counts; if the file does not say it, the first rows do.
            self._first = names.start if self._first is None else self._first
            if names.start < self._first:
                raise ValueError(f"{self.source.name!r} has a feature 0 after all. Pass zero_based=True.")
            wanted = replace(wanted, start=self._first)
        known = frozenset() if by_number else frozenset(names)
        missing = [] if by_number else [name for name in wanted if name not in known]
        if missing or (by_number and isinstance(block.X, np.ndarray) and len(names) != len(wanted)):
            which = f"has no {shown(missing[0])}" if missing else f"has {len(names)}"
            more = f" ({len(missing)} are missing)" if len(missing) > 1 else ""
            raise ValueError(
                f"{self.source.name!r} {which}{more}, but the model needs all of its {len(wanted)} features. "
                "Check the columns and their names."
            )
        return _known(block.X, names, wanted, self.unknown_features)


def _known(matrix: Any, names: Sequence[str], wanted: Sequence[str], unknown: Counter[str]) -> Any:
    """Return the columns that are wanted, in their order; count the nonzero cells of others by name."""
    places = places_of(names, wanted)
    if places is not None and (places < 0).any():
        gone = np.flatnonzero(places < 0)
        cells = sparse.csr_array(matrix)
        columns = cells.indices[np.nan_to_num(cells.data) != 0]
        counts = np.bincount(columns[places[columns] < 0], minlength=len(names))[gone]
        pairs = zip(gone.tolist(), counts.tolist(), strict=True)
        unknown.update({names[place]: count for place, count in pairs if count})
    return placed(matrix, places, len(wanted))


def _plain(value: Any) -> Any:
    """Return an option as JSON can write it, all of it: `repr` leaves out the middle of long arrays."""
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def _state(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Return size and time of change of a file."""
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns
