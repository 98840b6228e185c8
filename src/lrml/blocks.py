"""Rows that come in blocks, from a stream, from files or on a cluster, and sums over them.

Everything that a fit needs of the rows is a sum over them: second moments, the value and gradient of a loss,
a product with XᵀX. So a source of blocks has one method, `BlockSource.sum`: it applies a function to every
block and adds up what that returns, in a fixed order. The blocks themselves never exist all at once.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from time import monotonic
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array

from lrml._files import OutputError, load_arrays, output_errors, save_arrays
from lrml._progress import Reading
from lrml._shown import counted, shown
from lrml._targets import Targets, check_frame, check_sample_weight, check_targets, place_of
from lrml.core.arrays import as_matrix, is_host, is_sparse, plain, to_host
from lrml.core.columns import Schema
from lrml.core.moments import CHECKPOINT_FORMAT, Statistics
from lrml.core.rows import Rows, added

__all__ = ["BlockError", "BlockSource", "Checkpoint", "LocalBlocks", "RowBlock", "as_source"]


def __dir__() -> list[str]:
    return __all__


_Sum = TypeVar("_Sum")
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
    """Consecutive rows of a source, checked: what the functions that are summed up get.

    Attributes
    ----------
    index : int
        Number of the block.
    first_row : int
        Number of its first row in the whole stream; on a cluster, in its block.
    piece : int
        Which part of the block this is: a file is one block of a cluster, and is read part by part.
    """

    index: int = 0
    first_row: int = 0
    piece: int = 0

    def __len__(self) -> int:
        return int(self.X.shape[0])


@dataclass(frozen=True, eq=False)
class Door:
    """Checks that every block passes, wherever it is read: those of ``fit``, and that columns stay the same.

    Parameters
    ----------
    targets : {"binary", "real"}
    allow_unknown : bool
        Whether labels may be unknown (NaN).
    classes : sequence or None
        Names of the labels, or the two classes of a 1-D y.
    columns : Schema or None
        Those of the first block, which all others must have.
    """

    targets: str = "binary"
    allow_unknown: bool = False
    classes: npt.NDArray[Any] | None = None
    columns: Schema | None = None

    def check(self, raw: Any, index: int, first_row: int) -> tuple[RowBlock, Schema]:
        """Return a block as the functions get it, and its columns."""
        X = Y = None
        try:
            X, Y, weights, label_names = _parts(raw)
            block, columns = self._checked(X, Y, weights, label_names)
        except (ValueError, TypeError) as error:
            bad = _bad_row(X, lambda values: ~np.isfinite(values))
            bad = _bad_row(Y, self._are_no_labels) if bad is None else bad
            row = None if bad is None else first_row + bad
            where = f" (from row {first_row})" if row is None else f", row {row}"
            raise BlockError(f"block {index}{where}: {error}", index, row) from error
        if block.mask is not None and not self.allow_unknown:
            raise unknown_labels(index, first_row)
        return replace(block, index=index, first_row=first_row), columns

    def _checked(self, X: Any, Y: Any, weights: Any, label_names: Any) -> tuple[RowBlock, Schema]:
        check_frame(X, "X")
        X, Y, weights = (_on_host(*part) for part in ((X, "X"), (Y, "Y"), (weights, "sample_weight")))
        feature_names = _text_columns(X)
        types = [np.float64, np.float32]
        X = check_array(X, accept_sparse=["csr", "csc"], dtype=types, ensure_min_samples=0, input_name="X")
        X = X.tocsr() if is_sparse(X) else X
        Y, names, mask, flat = self._targets(Y)
        if Y.shape[0] != X.shape[0]:
            raise ValueError(
                f"X has {X.shape[0]} rows, but Y has {Y.shape[0]}. Pass one row of Y for every row of X."
            )
        if weights is not None:  # in a block, other than in all rows, they may all be 0
            nothing = np.shape(weights) == (X.shape[0],) and not np.any(weights)
            weights = np.zeros(X.shape[0]) if nothing else check_sample_weight(weights, X.shape[0])
        label_names = names if label_names is None else label_names
        if self.classes is not None:
            if not flat and len(self.classes) != Y.shape[1]:
                raise ValueError(
                    f"classes names {len(self.classes)} labels, but Y has {Y.shape[1]} columns. Pass one "
                    "name per column."
                )
            if not flat and label_names is not None:
                _check_same(self.classes, label_names, "classes")
            label_names = self.classes
        kinds = is_sparse(X), is_sparse(Y), flat, self.targets
        columns = Schema(X.shape[1], Y.shape[1], feature_names, label_names, X.dtype, *kinds)
        self._check_columns(columns)
        return RowBlock(X, Y, mask, weights, schema=columns), columns

    def _targets(self, Y: Any) -> Targets:
        """Check labels; a 1-D y of text needs to be told its classes, as a block may lack one of them."""
        checks: dict[str, Any] = {"allow_unknown": True, "allow_flat": True, "some_known": False}
        flat = getattr(Y, "ndim", np.ndim(Y) if isinstance(Y, list | tuple) else 2) == 1
        classes = self.classes
        if classes is None and self.columns is not None and self.columns.flat:
            classes = self.columns.label_names  # those of the first block
        if not flat or self.targets == "real":
            return check_targets(Y, self.targets, **checks)
        if classes is None:
            try:
                return check_targets(Y, "binary", **checks)
            except ValueError as error:
                raise ValueError(f"{error} A block may lack one of them: pass both as classes=.") from error
        values = np.asarray(Y)
        known = values == values  # noqa: PLR0124  # NaN does not equal itself
        strange = values[known & ~np.isin(values, classes)]
        if strange.size or len(classes) != 2:
            got = shown(strange[:1].tolist()[0]) if strange.size else f"{len(classes)} classes"
            raise ValueError(
                f"a 1-D y must hold two classes, {shown(classes.tolist())}, got {got}. Pass both as classes=."
            )
        positive = np.where(known, values == classes[1], np.nan)[:, None]
        return check_targets(positive, "binary", **checks)._replace(flat=True, names=classes)

    def _are_no_labels(self, values: Any) -> Any:
        binary = (values == 0) | (values == 1) | (self.targets == "real")
        return np.isinf(values) | ~(binary | np.isnan(values))

    def _check_columns(self, found: Schema) -> None:
        """Refuse columns that are not those of the first block."""
        first = self.columns
        if first is None:
            return
        for what, name in (("features", "n_features"), ("labels", "n_labels")):
            expected, got = getattr(first, name), getattr(found, name)
            if expected != got:
                raise ValueError(
                    f"it has {got} {what}, but the first block has {expected}. Give every block the same "
                    "columns, in the same order."
                )
        for name in ("feature_names", "label_names"):
            expected, got = getattr(first, name), getattr(found, name)
            if expected is not None and got is not None and expected is not got:
                _check_same(expected, got, "the first block")


def _check_same(expected: Any, got: Any, where: str) -> None:
    """Refuse names that are not the expected ones, in their order."""
    for ours, theirs in zip(expected, got, strict=False):
        if ours != theirs:
            raise ValueError(
                f"it has a column {shown(theirs)} where {where} has {shown(ours)}. Reorder the columns."
            )


def unknown_labels(index: int, first_row: int) -> UnknownLabelsError:
    """Return the error for a block whose labels are not all known."""
    return UnknownLabelsError(
        f"block {index} (from row {first_row}): sums over rows need to know all labels, and some are NaN. "
        "Impute them or drop those rows, or use LRML.fit_blocks with blocks that can be read several times.",
        index,
    )


def _parts(raw: Any) -> tuple[Any, Any, Any, npt.NDArray[Any] | None]:
    """Return X, Y, weights and label names of what a user, or `lrml.datasets.iter_blocks`, yields."""
    if isinstance(raw, tuple | list) and len(raw) in (2, 3):
        return raw[0], raw[1], raw[2] if len(raw) == 3 else None, None
    if hasattr(raw, "X") and hasattr(raw, "targets"):  # names that are mere numbers are left out
        if raw.targets is None:
            raise ValueError(
                "no column of the file was named as a label. Pass labels=[…] with their columns, or "
                "label_column=… with the one that lists them."
            )
        names = raw.label_names if isinstance(raw.label_names, tuple | list) else None
        return raw.X, raw.targets, None, None if names is None else np.array(names, dtype=object)
    raise TypeError(
        f"it is a {type(raw).__name__}, not (X, Y) or (X, Y, sample_weight). Yield tuples of arrays, sparse "
        "matrices or frames."
    )


def _on_host(value: Any, name: str) -> Any:
    """Return a part of a block; refuse an array that lives elsewhere, as rows are summed on the host."""
    value = plain(value, name)
    place = place_of(value, name)
    if place.is_host:
        return to_host(value)
    raise TypeError(
        f"rows of blocks are summed on the host, but {name} is an array of {place}. Pass NumPy arrays, such "
        "as X.cpu().numpy(), or all rows to fit."
    )


def _text_columns(X: Any) -> npt.NDArray[Any] | None:
    """Return the column names of a frame, if all are text, as scikit-learn does."""
    columns = list(getattr(X, "columns", ()))
    return np.array(columns, dtype=object) if columns and all(isinstance(c, str) for c in columns) else None


def _bad_row(value: Any, is_bad: Callable[[Any], Any]) -> int | None:
    """Return the first row of a matrix with a bad number; None if there is none, or if it has no numbers."""
    if not is_host(value):
        return None
    try:
        matrix = as_matrix(value)
        matrix = matrix.tocsr() if is_sparse(matrix) else matrix
        numbers = matrix.data if is_sparse(matrix) else matrix
        bad = is_bad(numbers.astype(np.float64, copy=False))
    except (TypeError, ValueError):
        return None
    if matrix.ndim == 0 or not bad.any():
        return None
    first = int(np.flatnonzero(bad)[0])
    if is_sparse(matrix):
        return int(np.searchsorted(matrix.indptr, first, side="right")) - 1
    return int(first // (bad.size // len(bad)))


class BlockSource(ABC):
    """Rows in blocks, which are read as often as needed.

    Subclasses define where the blocks are. ``door`` says how they are checked, ``told`` where it is told how
    far the reading is; None means nowhere.
    """

    door: Door = Door()
    told: Reading | None = None

    def checked(self, **changes: Any) -> Self:
        """Return the same source with another `Door`: ``targets``, ``allow_unknown``, ``classes``."""
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

    @abstractmethod
    def sum(self, part: Callable[..., _Sum], *arguments: Any, checkpoint: Checkpoint | None = None) -> _Sum:
        """Return Σ part(block, *arguments) over all blocks, always added in the same order.

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


class LocalBlocks(BlockSource):
    """Blocks that are read one after the other in this process.

    Parameters
    ----------
    blocks : iterable, or callable that returns one
        Of ``(X, Y)`` or ``(X, Y, sample_weight)``, or of what `lrml.datasets.iter_blocks` yields. A fit that
        reads the rows several times needs a list, a callable or another iterable that can start again. One
        with the methods ``starting_at`` and ``identity``, as `lrml.datasets.BlockFile` has them, goes on from
        a checkpoint without reading the blocks before it.
    """

    def __init__(self, blocks: Any) -> None:
        remedy = None if callable(blocks) or hasattr(blocks, "__iter__") else "a list, a generator"
        if isinstance(blocks, str | os.PathLike):
            remedy = "lrml.datasets.BlockFile(path)"
        elif hasattr(blocks, "__dask_graph__"):
            remedy = "X and y to lrml.engines.dask.fit(model, X, y)"
        elif hasattr(blocks, "shape"):
            remedy = "[(X, y)], or X and y to fit"
        if remedy is not None:
            raise TypeError(
                f"blocks is {shown(blocks)}, not an iterable of (X, Y) pairs or a function that returns one. "
                f"Pass {remedy}."
            )
        self.blocks = blocks
        self._iterators = _Iterators(blocks)
        self._count: tuple[int, int] | None = None  # blocks and rows of the first pass

    def _first_columns(self) -> Schema:
        for index, raw in _numbered(self._iterators.start()):
            self._iterators.put_back(raw)
            return self.door.check(raw, index, 0)[1]
        raise ValueError(_NO_BLOCKS)

    def sum(self, part: Callable[..., _Sum], *arguments: Any, checkpoint: Checkpoint | None = None) -> _Sum:
        """Return the sum, added block by block; see `BlockSource.sum`."""
        kept = None if checkpoint is None else checkpoint.start()
        state, whole = kept, True
        try:
            for block, digest in self._after(kept, checkpoint):
                more = part(block, *arguments)
                whole = False  # where an addition in place is interrupted, the sums are of no use
                total = added(None if state is None else state.total, more)
                state, whole = Kept(block.index + 1, digest, total), True
                if checkpoint is not None:
                    checkpoint.keep(state)
        except BaseException as error:  # Ctrl-C, too: what was summed is worth as much
            if checkpoint is not None and state is not None and whole:
                with suppress(Exception):
                    checkpoint.keep(state, at_once=True)
            if isinstance(error, BlockError):
                error.sums = state.total if state is not None and whole else None
            raise
        if state is None:
            raise ValueError(_NO_BLOCKS)
        if checkpoint is not None:
            checkpoint.keep(state, at_once=True)
        found: _Sum = state.total
        return found

    def _after(self, kept: Kept | None, checkpoint: Checkpoint | None) -> Iterator[tuple[RowBlock, bytes]]:
        """Yield the blocks that a checkpoint does not have, checked, each with a hash up to there.

        Files are known again by size and time, and their first blocks need not be read once more.
        """
        door = replace(self.door, columns=self.columns)
        done = 0 if kept is None else kept.n_blocks
        skips = hasattr(self.blocks, "starting_at")
        digest = self.blocks.identity().encode() if skips else b""
        first_row, seen = 0, done if skips else 0
        told = Reading() if self.told is None else self.told
        told.begin()
        _check_kept(kept, checkpoint, digest, skips)
        raws = self.blocks.starting_at(done) if skips else self._iterators.start()
        for index, raw in _numbered(raws, seen):
            _check_kept(kept, checkpoint, digest, seen == done)
            block, found = door.check(raw, index, raw.first_row if skips else first_row)
            self._widen(found.dtype)
            first_row, seen = first_row + len(block), index + 1
            if checkpoint is not None and not skips:
                digest = digest_of(block, digest)
            if done and seen == done + 1:
                told.say(f"going on from block {done:,d}")
            if seen > done and len(block):
                yield block, digest
            told.update(seen, block.first_row + len(block), len(block))
        _check_kept(kept, checkpoint, digest, seen <= done)
        if kept is None:
            self._check_count(seen, first_row)
        elif checkpoint is not None and seen <= done:
            told.say(f"all {counted(done, 'block')} are in {os.fspath(checkpoint.path)}")

    def _widen(self, dtype: np.dtype[Any]) -> None:
        """Note that one block at least is in double precision: the order of blocks must not matter."""
        columns = self.columns
        if columns.dtype != dtype == np.float64:
            self.door = replace(self.door, columns=replace(columns, dtype=dtype))

    def _check_count(self, n_blocks: int, n_rows: int) -> None:
        """Refuse a pass that has read more or less than the first one."""
        self._count = self._count or (n_blocks, n_rows)
        if self._count != (n_blocks, n_rows):
            raise ValueError(
                f"a pass over the blocks read {n_rows} rows in {n_blocks} blocks, but the first one "
                f"{self._count[1]} in {self._count[0]}. Pass a list, or a function that starts anew with "
                "every call, over data that does not change."
            )


class _Iterators:
    """The iterators over some blocks, one for each pass; copies of a source share them."""

    def __init__(self, blocks: Any) -> None:
        self.blocks = blocks
        self._last: Any = None  # what was given out, which must not come again
        self._begun: Iterator[Any] | None = None  # one whose first block was put back

    def start(self) -> Iterator[Any]:
        """Return an iterator over all blocks."""
        if self._begun is not None:
            begun, self._begun = self._begun, None
            return begun
        found: Iterator[Any] = iter(self.blocks() if callable(self.blocks) else self.blocks)
        if found is self._last:
            raise ValueError(
                "the rows are needed again, but an iterator can be read only once. Pass a list, or a "
                "function that returns a new iterator: lambda: iter_blocks(path)."
            )
        self._last = found
        return found

    def put_back(self, raw: Any) -> None:
        """Let the next pass begin with the block that was just taken, and go on with the same iterator."""
        self._begun = chain([raw], self._last)


def _numbered(blocks: Iterator[Any], index: int = 0) -> Iterator[tuple[int, Any]]:
    """Yield blocks with their numbers; an error of their iterator stays what it is, but gets a note."""
    try:
        for raw in blocks:
            yield index, raw
            index += 1
    except Exception as error:
        error.add_note(f"It was raised while block {index} was read.")
        raise


def digest_of(block: RowBlock, before: bytes) -> bytes:
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

    n_blocks: int
    digest: bytes
    total: Any


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
            raise TypeError(
                f"checkpoint is {shown(path)}, not the path of a file or a Checkpoint. Pass a name such as "
                "'sums.npz'."
            )
        self.path, self.kind, self.seconds = Path(path), kind, seconds
        self._last, self._written, self._failed = monotonic(), 0, False

    def start(self) -> Kept | None:
        """Return what the file has; None if there is none yet. Refuse a place where it cannot be written."""
        self._last, self._written = monotonic(), 0
        if self.path.is_dir():
            raise IsADirectoryError(
                f"the checkpoint {os.fspath(self.path)!r} is a folder. Name a file in it, such as "
                f"{os.fspath(self.path / 'sums.npz')!r}."
            )
        if not self.path.exists():
            with output_errors(self.path), tempfile.TemporaryFile(dir=self.path.parent):
                return None
        arrays = load_arrays(self.path, CHECKPOINT_FORMAT)
        try:
            n_blocks, digest = int(arrays.pop("n_blocks")), arrays.pop("digest").tobytes()
            found = Kept(n_blocks, digest, self.kind.from_stored(arrays, self.path))
        except (KeyError, ValueError) as error:
            raise ValueError(
                f"the checkpoint {os.fspath(self.path)!r} is not one of this kind, but perhaps that of a "
                "search instead of a fit, or the reverse. Name another file, or delete it to start anew."
            ) from error
        self._written = n_blocks
        return found

    def of_others(self, n_blocks: int) -> ValueError:
        """Return the error for a checkpoint of other blocks than those at hand."""
        return ValueError(
            f"the checkpoint {os.fspath(self.path)!r} has the sum of {counted(n_blocks, 'block')} of other "
            "rows: from other files, files that have changed, blocks of another size or order, or with other "
            "options of the reader. Pass the same, or delete it to start anew."
        )

    def keep(self, state: Kept, *, at_once: bool = False) -> None:
        """Write the state, unless the last write was a moment ago or had the same.

        Where that fails, a warning says so, and the next attempt is made as usual: a full disk does not end a
        fit.
        """
        if state.n_blocks == self._written or (monotonic() - self._last < self.seconds and not at_once):
            return
        digest = np.frombuffer(state.digest, dtype=np.uint8)
        arrays = {"n_blocks": np.asarray(state.n_blocks), "digest": digest} | state.total.to_arrays()
        try:
            save_arrays(self.path, CHECKPOINT_FORMAT, arrays)
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


def _check_kept(kept: Kept | None, checkpoint: Checkpoint | None, digest: bytes, there: bool) -> None:
    """Refuse a checkpoint of other blocks, once all of those that it has were read."""
    if kept is not None and checkpoint is not None and there and digest != kept.digest:
        raise checkpoint.of_others(kept.n_blocks)


def as_source(blocks: Any) -> BlockSource:
    """Return blocks as a source; a source as it is."""
    return blocks if isinstance(blocks, BlockSource) else LocalBlocks(blocks)


def statistics_of(block: RowBlock) -> Statistics:
    """Return the second moments of a block; all its labels must be known."""
    if block.mask is not None:
        raise unknown_labels(block.index, block.first_row)
    return Statistics.from_arrays(block.X, block.Y, block.weights)
