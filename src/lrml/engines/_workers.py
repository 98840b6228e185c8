"""What the workers of a cluster run: blocks are read, checked and summed there, and sums are merged.

Nothing here knows the cluster. A *leaf* is what one task reads: a block of rows, or a file of several. A task
returns a `Summed`. An error of a block is part of it, not raised, so that in the end the sum of all blocks
before the first bad one is known, whichever worker was faster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from lrml._arrays import is_sparse
from lrml._threads import one_blas_thread
from lrml.blocks import BlockError, Columns, Door, RowBlock, digest_of
from lrml.datasets import BlockFile
from lrml.rows import added
from lrml.statistics import Statistics

# Bytes: the width of the widest registers, and of a line of the cache.
_ALIGNMENT = 64


def _blocks_of(leaf: Any) -> Iterable[Any]:
    return leaf if isinstance(leaf, BlockFile) else [leaf]


class RowsNotCountedError(Exception):
    """A part asks for the number of a row, but nobody has counted the rows of the leaves before."""


class _Unnumbered(RowBlock):
    """A block that does not know where it is in the whole."""

    def __getattr__(self, name: str) -> Any:
        if name in ("index", "first_row"):
            raise RowsNotCountedError
        raise AttributeError(name)

    @classmethod
    def of(cls, block: RowBlock) -> RowBlock:
        unnumbered = object.__new__(cls)
        unnumbered.__dict__.update(X=block.X, Y=block.Y, mask=block.mask, weights=block.weights)
        return unnumbered


class Read(NamedTuple):
    """What was read of a leaf: how many blocks and rows, and a hash of them if there is a checkpoint."""

    blocks: int
    rows: int
    digest: bytes = b""


@dataclass(frozen=True, eq=False)
class Summed:
    """The sum over consecutive leaves, up to the first block that breaks a rule.

    Attributes
    ----------
    read : tuple of Read
        One per leaf; of the last one, if there is an error, what came before it.
    total : object or None
        The sum; None is an empty one.
    error : BlockError, RowsNotCountedError or None
    """

    read: tuple[Read, ...]
    total: Any
    error: Exception | None = None

    def __sizeof__(self) -> int:  # Dask places tasks and spills results by it
        return _nbytes(self.total)


def _nbytes(total: Any) -> int:
    if isinstance(total, tuple):
        return sum(map(_nbytes, total))
    if hasattr(total, "to_arrays"):
        return sum(array.nbytes for array in total.to_arrays().values())
    return int(getattr(total, "nbytes", 0)) or sys.getsizeof(total)


@dataclass(frozen=True, eq=False)
class Work:
    """What to do with every block in one round of the cluster; it is sent once.

    ``part`` is None if the rows are only to be checked, counted and hashed.
    """

    door: Door
    part: Callable[..., Any] | None = None
    arguments: tuple[Any, ...] = ()
    hashed: bool = False


def sum_leaf(leaf: Any, first_block: int, first_row: int | None, work: Work) -> Summed:
    """Sum the blocks of a leaf; ``first_row`` is None if the rows before it have not been counted."""
    blocks, rows, digest, total = 0, 0, b"", None
    with one_blas_thread:  # other numbers of threads would give other last digits
        for raw in _blocks_of(leaf):
            try:
                block, _ = work.door.check(raw, first_block + blocks, (first_row or 0) + rows)
                if work.part is not None and len(block):
                    total = added(total, work.part(_prepared(block, first_row), *work.arguments))
            except (BlockError, RowsNotCountedError) as error:
                return Summed((Read(blocks, rows, digest),), total, error)
            blocks, rows = blocks + 1, rows + len(block)
            if work.hashed:
                digest = digest_of(block, digest)
    return Summed((Read(blocks, rows, digest),), total)


def _prepared(block: RowBlock, first_row: int | None) -> RowBlock:
    block = replace(block, X=_in_place(block.X), Y=_in_place(block.Y))
    return _Unnumbered.of(block) if first_row is None else block


def _in_place(matrix: Any) -> Any:
    """Return a dense matrix row by row at an even address: products with vectors depend on both.

    What came from another worker, or was cut out of a larger array, has any order and address.
    """
    if is_sparse(matrix) or (matrix.flags.c_contiguous and matrix.ctypes.data % _ALIGNMENT == 0):
        return matrix
    room = np.empty(matrix.nbytes + _ALIGNMENT, dtype=np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    placed = room[start : start + matrix.nbytes].view(matrix.dtype).reshape(matrix.shape)
    placed[...] = matrix
    return placed


def outline_of(summed: Summed) -> Summed:
    """Return all but the sum."""
    return replace(summed, total=None)


def together(*parts: Any) -> tuple[Any, ...]:
    """Return the parts of a block as one."""
    return parts


def first_columns(leaf: Any, work: Work) -> Columns | None:
    """Return the columns of the first block of a leaf; None if it has no block."""
    for raw in _blocks_of(leaf):
        return work.door.check(raw, 0, 0)[1]
    return None


def merged(parts: Sequence[Summed]) -> Summed:
    """Add up sums of consecutive leaves, in order, until one of them ends with an error.

    The first is copied, not changed: the cluster may need it again if this task is lost.
    """
    read: list[Read] = []
    total, error = None, None
    for part in parts:
        read += part.read
        if part.total is not None:
            total = deepcopy(part.total) if total is None else added(total, part.total)
        error = part.error
        if error is not None:
            break
    return Summed(tuple(read), total, error)


@dataclass(frozen=True, eq=False)
class Panel:
    """Some rows of the matrices of `Statistics`, all their vectors: what is added up panel by panel."""

    rows: slice
    part: Statistics

    def absorb(self, other: Panel) -> Panel:
        return Panel(self.rows, self.part.absorb(other.part, self.rows))

    def to_arrays(self) -> dict[str, Any]:
        return self.part.to_arrays()


def panels_of(n_features: int, n_labels: int, nbytes: int) -> list[tuple[int, int]]:
    """Return the rows of each panel of at most so many bytes, one row at least; none if all fit into one."""
    step = max(1, nbytes // (8 * (n_features + n_labels)))
    starts = range(0, n_features, step)
    return [(start, min(start + step, n_features)) for start in starts] if len(starts) > 1 else []


def panel_of(summed: Summed, start: int, stop: int) -> Summed:
    """Return some rows of summed statistics, copied, so that the whole can be freed."""
    whole: Statistics | None = summed.total
    if whole is None:
        return summed
    part = replace(whole, xx=whole.xx[start:stop].copy(), xy=whole.xy[start:stop].copy())
    return replace(summed, total=Panel(slice(start, stop), part))


def joined(parts: Iterable[Summed]) -> Summed:
    """Put panels together; each is freed before the next one is fetched."""
    whole: Any = None
    for part in parts:
        if not isinstance(part.total, Panel):
            return part
        found = part.total.part
        if whole is None:
            d, L = found.n_features, found.n_labels
            whole = replace(part, total=replace(found, xx=np.empty((d, d)), xy=np.empty((d, L))))
        whole.total.xx[part.total.rows], whole.total.xy[part.total.rows] = found.xx, found.xy
    return whole  # type: ignore[no-any-return]
