"""Rows that come in blocks, from a stream, from files or on a cluster, and sums over them.

Everything that a fit needs of the rows is a sum over them: second moments, the value and gradient of a loss,
a product with XᵀX. So a source of blocks has one method, `BlockSource.sum`: it applies a function to every
block and adds up what that returns, in a fixed order. The blocks themselves never exist all at once. A sum
over the first ones may be kept in a file, so that a run that was killed goes on from there.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml._door import are_no_labels, check_names, checked_rows
from lrml._files import OutputError, load_arrays, output_errors, save_arrays
from lrml._progress import Reading
from lrml._shown import counted, shown
from lrml.core.arrays import as_matrix, is_host, is_sparse
from lrml.core.moments import Statistics
from lrml.core.rows import Rows, Schema, added

__all__ = ["BlockError", "BlockSource", "Checkpoint", "LocalBlocks", "RowBlock", "as_source"]


_Sum = TypeVar("_Sum")
# What a checkpoint says of itself.
_FORMAT = "lrml checkpoint 1"
_NO_BLOCKS = "There is no block of rows. Pass at least one (X, Y) pair."


class BlockError(ValueError):
    """A block breaks a rule; the message says which block and, where one row is to blame, which row.

    Attributes
    ----------
    block : int
        Number of the block, from 0.
    row : int or None
        Number of the row, from 0: in the whole stream, or on a cluster in its block.
    sums : object or None
        What was summed before this block, such as `Statistics`, which stays usable:
        ``model.fit_statistics(error.sums)``.
    """

    def __init__(self, message: str, block: int, row: int | None = None, sums: Any = None) -> None:
        super().__init__(message)
        self.block, self.row, self.sums = block, row, sums

    def __reduce__(self) -> Any:  # an exception of a worker process reaches the caller whole
        return type(self), (str(self), self.block, self.row, self.sums)


class UnknownLabelsError(BlockError):
    """A block has unknown labels, which second moments cannot do without."""


@dataclass(frozen=True, eq=False)
class RowBlock(Rows):
    """Consecutive rows of a source, checked: what the functions that are summed up get."""

    index: int = 0  # number of the block
    first_row: int = 0  # number of its first row in the whole stream; on a cluster, in its block
    piece: int = 0  # which part of the block: a file is one block of a cluster, and is read part by part

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def check_known(self) -> None:
        """Refuse unknown labels."""
        if self.mask is not None:
            raise UnknownLabelsError(
                f"block {self.index} (from row {self.first_row}): sums over rows need to know all labels, "
                "and some are NaN. Pass blocks that can be read several times to fit_blocks of LRML, "
                "MLTrace, MLFro or LEML.",
                self.index,
            )


@dataclass(frozen=True, eq=False)
class Door:
    """Checks that every block passes, wherever it is read: those of ``fit``, and of its columns."""

    targets: str = "binary"  # or "real"
    classes: npt.NDArray[Any] | None = None  # names of the labels, or the two classes of a 1-D y
    columns: Schema | None = None  # those of the first block, which all others must have

    def check(self, raw: Any, index: int, first_row: int) -> tuple[RowBlock, Schema]:
        """Return a block as the functions get it, and its columns."""
        X = Y = None
        first, classes = self.columns, self.classes
        if classes is None and first is not None and first.flat:
            classes = first.label_names  # a block may lack one of them
        try:
            X, Y, weights, names = _parts(raw)
            rows = checked_rows(X, Y, weights, targets=self.targets, classes=classes, whole=False)
            if not rows.home.is_host:
                raise TypeError(f"X is an array of {rows.home}. Blocks are summed on the host: pass NumPy's.")
            columns = self._named(rows.schema, rows.schema.label_names if names is None else names)
        except (ValueError, TypeError) as error:
            found = (_bad_row(X), _bad_row(Y, self.targets))
            row = next((first_row + bad for bad in found if bad is not None), None)
            where = f" (from row {first_row})" if row is None else f", row {row}"
            raise BlockError(f"block {index}{where}: {error}", index, row) from error
        parts = rows.X, rows.Y, rows.mask, rows.weights
        return RowBlock(*parts, schema=columns, index=index, first_row=first_row), columns

    def _named(self, found: Schema, names: Any) -> Schema:
        """Return the columns of a block with the names of its labels; refuse others than expected."""
        first = self.columns
        if self.classes is not None and not found.flat:
            if len(self.classes) != found.n_labels:
                raise ValueError(f"Y has {found.n_labels} labels, but classes names {len(self.classes)}.")
            check_names("Y", names, "classes", self.classes)
            names = self.classes
        if first is not None:
            here, there = ((one.n_features, one.n_labels) for one in (found, first))
            if here != there:
                raise ValueError(
                    f"it has {here[0]} features, {here[1]} labels; the first block {there[0]} and {there[1]}."
                )
            check_names("X", found.feature_names, "the first block", first.feature_names)
            check_names("Y", names, "the first block", first.label_names)
        return replace(found, label_names=names)


def _parts(raw: Any) -> tuple[Any, Any, Any, Any]:
    """Return X, Y, weights and label names of what a user, or a `lrml.datasets.Source`, yields."""
    if isinstance(raw, tuple | list) and len(raw) in (2, 3):
        return *[*raw, None][:3], None
    if not (hasattr(raw, "X") and hasattr(raw, "targets")):
        raise TypeError(f"it is a {type(raw).__name__}, not (X, Y) or (X, Y, sample_weight).")
    if raw.targets is None:
        raise ValueError(
            "no column of the file was named as a label. Pass labels=[…] with their columns, or "
            "tags=… with the one that lists them."
        )
    listed = isinstance(raw.label_names, tuple | list)  # names that are mere numbers are left out
    return raw.X, raw.targets, None, np.array(raw.label_names, dtype=object) if listed else None


def _bad_row(value: Any, targets: str | None = None) -> int | None:
    """Return the first row of X, or of labels if ``targets`` says of what kind, that has a bad number."""
    if not is_host(value):
        return None
    try:
        matrix = as_matrix(value)
        entries = sp.coo_array(matrix if is_sparse(matrix) else matrix.astype(np.float64, copy=False))
    except (TypeError, ValueError):  # no matrix, or not of numbers
        return None
    if targets is None:
        bad = ~np.isfinite(entries.data)
    else:  # the classes of a 1-D y may be any numbers
        kind = "real" if entries.ndim == 1 else targets
        bad = are_no_labels(entries.data, kind) & ~np.isnan(entries.data)
    rows = entries.coords[0][bad]
    return int(rows.min()) if rows.size else None


# Checkpoints


def digest_of(block: Rows, before: bytes) -> bytes:
    """Return a hash of this block and all before it."""
    found = hashlib.blake2b(before, digest_size=16)
    unknown = None if block.mask is None else block.mask.pattern
    parts: tuple[Any, ...] = (block.X, block.Y, block.weights, unknown)
    for matrix in parts:
        if matrix is None:
            found.update(b"none")
            continue
        # The same bytes may be another matrix in another shape.
        found.update(f"{matrix.shape} {matrix.dtype.str} {is_sparse(matrix)}".encode())
        for array in (matrix.indptr, matrix.indices, matrix.data) if is_sparse(matrix) else (matrix,):
            contiguous: Any = np.ascontiguousarray(array)
            found.update(contiguous)
    return found.digest()


@dataclass(frozen=True, eq=False)
class Kept:
    """A sum over the first blocks: how many, a hash of them, and the sum."""

    n_blocks: int = 0
    digest: bytes = b""
    total: Any = None


class Checkpoint:
    """A file that keeps the sum over the blocks so far, so that a run that was killed can go on.

    The run that goes on adds the remaining blocks in the same order, and ends with the same bits.

    Parameters
    ----------
    path : path-like
        The file. It appears whole or not at all, and stays until the caller removes it.
    kind : type, default=Statistics
        What is summed: a class with ``absorb``, ``to_arrays`` and ``from_stored``.
    seconds : float, default=30
        Least time between two writes; 0 writes after every block.
    """

    def __init__(self, path: str | os.PathLike[str], kind: Any = Statistics, seconds: float = 30.0) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"checkpoint is {shown(path)}. Pass the path of a file, or a Checkpoint.")
        self.path, self.kind, self.seconds = Path(path), kind, seconds
        self._last, self._written, self._failed = monotonic(), 0, False

    @classmethod
    def of(cls, given: Any, kind: Any = Statistics) -> Checkpoint | None:
        """Return a checkpoint of such sums for a path or another checkpoint; None for None."""
        if isinstance(given, Checkpoint):
            return cls(given.path, kind, given.seconds)
        return None if given is None else cls(given, kind)

    def start(self) -> Kept:
        """Return what the file has, or an empty sum; refuse a place where it cannot be written."""
        self._last, self._written = monotonic(), 0
        if self.path.is_dir():
            raise IsADirectoryError(
                f"the checkpoint {os.fspath(self.path)!r} is a folder. Name a file in it."
            )
        if not self.path.exists():
            with output_errors(self.path), tempfile.TemporaryFile(dir=self.path.parent):
                return Kept()
        arrays = load_arrays(self.path, _FORMAT)
        self._written, digest = int(arrays.pop("n_blocks")), arrays.pop("digest").tobytes()
        return Kept(self._written, digest, self.kind.from_stored(arrays, self.path))

    def compare(self, kept: Kept, digest: bytes) -> None:
        """Refuse a checkpoint of other blocks than those at hand."""
        if digest != kept.digest:
            raise ValueError(
                f"the checkpoint {os.fspath(self.path)!r} has {counted(kept.n_blocks, 'block')} of other "
                "rows. Pass the same data, in the same blocks and with the same options, or delete it."
            )

    def keep(self, state: Kept, *, at_once: bool = False) -> None:
        """Write the state, unless the last write was a moment ago or had the same, or there is no sum.

        Where that fails, a warning says so, and the next attempt is made as usual: a full disk does not end a
        fit.
        """
        late = at_once or monotonic() - self._last >= self.seconds
        if state.total is None or state.n_blocks == self._written or not late:
            return
        digest = np.frombuffer(state.digest, dtype=np.uint8)
        arrays = {"n_blocks": np.asarray(state.n_blocks), "digest": digest} | state.total.to_arrays()
        try:
            save_arrays(self.path, _FORMAT, arrays)
            self._failed, self._written = False, state.n_blocks
        except OutputError as error:
            if not self._failed:
                self._failed = True
                reason = getattr(error.__cause__, "strerror", error)
                warnings.warn(
                    f"the checkpoint {os.fspath(self.path)!r} cannot be written ({reason}). The fit goes on "
                    "and tries again later. Free some space, or a stop loses its sums.",
                    RuntimeWarning,
                    stacklevel=2,
                )
        self._last = monotonic()


# Sources


class BlockSource(ABC):
    """Rows in blocks, which are read as often as needed; subclasses define where the blocks are."""

    door: Door = Door()
    told: Reading | None = None  # where it is told how far the reading is

    def checked(self, **changes: Any) -> Self:
        """Return the same source with another `Door`: ``targets``, ``classes``."""
        other = copy(self)
        other.door = replace(self.door, **changes)
        return other

    @property
    def columns(self) -> Schema:
        """What all blocks have in common; reads the first one, once."""
        if self.door.columns is None:
            self.door = replace(self.door, columns=self._first_columns())
        assert self.door.columns is not None
        return self.door.columns

    @abstractmethod
    def _first_columns(self) -> Schema:
        """Read the first block; refuse a source without one."""

    def sum(self, part: Callable[..., _Sum], *arguments: Any, checkpoint: Checkpoint | None = None) -> _Sum:
        """Return ``Σ part(block, *arguments)`` over all blocks, always added in the same order.

        Parameters
        ----------
        part : callable
            Gets a `RowBlock` and the arguments, and returns a new object that `added` can add. It must be
            importable by name, as another process may run it.
        *arguments
            The same for all blocks.
        checkpoint : Checkpoint, optional
            Where to keep the sum so far, and to go on from.
        """
        state = Kept() if checkpoint is None else checkpoint.start()
        try:
            with closing(self._sums(part, arguments, state, checkpoint)) as sums:
                for more in sums:
                    total, state = state.total, Kept()  # an addition that is interrupted leaves no sound sum
                    state = replace(more, total=added(total, more.total))
                    if checkpoint is not None:
                        checkpoint.keep(state)
        except BlockError as error:
            error.sums = added(deepcopy(state.total), error.sums)
            raise
        finally:  # whatever has happened, Ctrl-C too: what was summed is worth as much
            if checkpoint is not None:
                checkpoint.keep(state, at_once=True)
        if state.total is None:
            raise ValueError(_NO_BLOCKS)
        found: _Sum = state.total
        return found

    @abstractmethod
    def _sums(
        self, part: Callable[..., Any], arguments: Any, kept: Kept, checkpoint: Checkpoint | None
    ) -> Generator[Kept, None, None]:
        """Yield what the next blocks give, in order, with their number and hash, after those of a checkpoint.

        A `BlockError` has in ``sums`` what was summed since the last one.
        """


class LocalBlocks(BlockSource):
    """Blocks that are read one after the other in this process.

    Parameters
    ----------
    blocks : iterable, or callable that returns one
        Of ``(X, Y)`` or ``(X, Y, sample_weight)``, or of what a `lrml.datasets.Source` yields. A fit that
        reads the rows several times needs a list, a callable or another iterable that can start again. One
        with the methods ``blocks`` and ``identity``, as a `lrml.datasets.Source` has them, goes on from a
        checkpoint without reading the blocks before it.
    """

    def __init__(self, blocks: Any) -> None:
        iterable = callable(blocks) or hasattr(blocks, "__iter__")
        if not iterable or isinstance(blocks, str | os.PathLike) or hasattr(blocks, "shape"):
            raise TypeError(
                f"blocks is {shown(blocks)}. Pass (X, Y) pairs or a function that returns them, for a file "
                "lrml.datasets.open_source(path); or X and y to fit, those of Dask to lrml.engines.dask.fit."
            )
        self.blocks = blocks
        self._begun: dict[str, Iterator[Any]] = {}  # copies share it

    def _begin(self) -> Iterator[Any]:
        """Return an iterator over all blocks; one whose first block was put back goes on."""
        if "put back" in self._begun:
            return self._begun.pop("put back")
        found: Iterator[Any] = iter(self.blocks() if callable(self.blocks) else self.blocks)
        if found is self._begun.get("last"):
            raise ValueError(
                "the rows are needed again, but an iterator can be read only once. Pass a list, or a "
                "function that returns a new iterator: lambda: make_blocks()."
            )
        self._begun["last"] = found
        return found

    def _first_columns(self) -> Schema:
        for index, raw in _numbered(self._begin()):
            self._begun["put back"] = chain([raw], self._begun["last"])
            return self.door.check(raw, index, 0)[1]
        raise ValueError(_NO_BLOCKS)

    def _sums(
        self, part: Callable[..., Any], arguments: Any, kept: Kept, checkpoint: Checkpoint | None
    ) -> Generator[Kept, None, None]:
        """Sum block by block.

        Files are known again by size and time, and their first blocks need not be read once more.
        """
        told, door = self.told or Reading(), replace(self.door, columns=self.columns)
        told.begin()
        skips, done, first_row = hasattr(self.blocks, "identity"), kept.n_blocks, 0
        seen, digest = (done, self.blocks.identity().encode()) if skips else (0, b"")
        for index, raw in _numbered(self.blocks.blocks(start=seen) if skips else self._begin(), seen):
            if checkpoint is not None and index == done > 0:
                checkpoint.compare(kept, digest)
                told.say(f"going on from block {done:,d}")
            block, found = door.check(raw, index, raw.first_row if skips else first_row)
            if found.dtype > self.columns.dtype:  # one block in double precision: their order must not matter
                self.door = replace(self.door, columns=replace(self.columns, dtype=found.dtype))
            seen, first_row = index + 1, block.first_row + len(block)
            digest = digest_of(block, digest) if checkpoint is not None and not skips else digest
            if index >= done and len(block):
                yield Kept(index + 1, digest, part(block, *arguments))
            told.update(seen, first_row, len(block))
        if checkpoint is not None and seen <= done > 0:
            checkpoint.compare(kept, digest)
            told.say(f"all {counted(done, 'block')} are in {os.fspath(checkpoint.path)}")


def _numbered(blocks: Iterator[Any], index: int = 0) -> Iterator[tuple[int, Any]]:
    """Yield blocks with their numbers; an error of their iterator stays what it is, but gets a note."""
    try:
        for raw in blocks:
            yield index, raw
            index += 1
    except Exception as error:
        error.add_note(f"It was raised while block {index} was read.")
        raise


def as_source(blocks: Any) -> BlockSource:
    """Return blocks as a source; a source as it is."""
    return blocks if isinstance(blocks, BlockSource) else LocalBlocks(blocks)


def statistics_of(block: RowBlock) -> Statistics:
    """Return the second moments of a block; all its labels must be known."""
    block.check_known()
    return Statistics.from_arrays(block.X, block.Y, block.weights)
