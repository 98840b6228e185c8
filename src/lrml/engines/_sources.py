"""Rows that Dask has, in arrays, dataframes, files or delayed blocks, as a source of blocks."""

# mypy: allow-untyped-calls
# Dask has few annotations.

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

from dask.bag import Bag
from dask.delayed import Delayed, delayed
from distributed import Client

from lrml._shown import shown
from lrml.blocks import BlockError, BlockSource, Checkpoint, Columns, Kept, statistics_of
from lrml.datasets import BlockFile
from lrml.engines._cluster import (
    Cluster,
    ClusterError,
    Leaf,
    Panels,
    Tree,
    connect,
    current_client,
    group_size,
    literal,
)
from lrml.engines._workers import (
    Read,
    RowsNotCountedError,
    Summed,
    Work,
    first_columns,
    panels_of,
    sum_leaf,
    together,
)
from lrml.rows import added

_Sum = TypeVar("_Sum")
_PANEL_BYTES = 1 << 26


class DaskBlocks(BlockSource):
    """Blocks of rows that the workers of a cluster read, each time they are needed.

    Made by `from_arrays`, `from_dataframes`, `from_delayed` and `from_files`.

    Parameters
    ----------
    leaves : sequence of Delayed
        What one task reads: ``(X, Y)`` or ``(X, Y, sample_weight)``.
    client : distributed.Client, optional
        By default the current one.
    n_rows : sequence of int, optional
        Rows of each leaf, where they are known.
    panel_bytes : int, default=2**26
        XᵀX and XᵀY beyond this size are reduced panel by panel, so that no worker merges more than five
        panels at a time and no message is larger. The sum is the same, bit for bit.
    """

    def __init__(
        self,
        leaves: Sequence[Delayed],
        client: Client | None = None,
        *,
        n_rows: Sequence[int] | None = None,
        panel_bytes: int = _PANEL_BYTES,
    ) -> None:
        if not len(leaves):
            raise ValueError("blocks must hold at least one (X, Y) pair, got none. Pass some data.")
        if not (client is None or isinstance(client, Client)):
            raise TypeError(
                f"client must be a distributed.Client or None, got {shown(client)}. Use: with "
                "lrml.engines.dask.connect(address) as client."
            )
        self.leaves, self.client, self.panel_bytes = list(leaves), client, panel_bytes
        # What is known of each leaf; the first round fills it in.
        self._read: list[Read | None] = [None] * len(self.leaves)
        if n_rows is not None:
            self._read = [Read(1, rows) for rows in n_rows]

    @classmethod
    def from_arrays(
        cls, X: Any, y: Any, sample_weight: Any = None, *, client: Client | None = None
    ) -> DaskBlocks:
        """Take Dask arrays; a block is a chunk of rows, of dense arrays or of SciPy's sparse ones.

        Parameters
        ----------
        X : dask.array.Array of shape (n, d)
            Its chunks become as wide as X.
        y : dask.array.Array of shape (n, L) or (n,)
        sample_weight : dask.array.Array of shape (n,), optional
            Both get the chunks of rows that X has.
        """
        arrays = {"X": X, "y": y} | ({} if sample_weight is None else {"sample_weight": sample_weight})
        for name, array in arrays.items():
            if not hasattr(array, "chunks"):
                raise TypeError(
                    f"{name} must be a Dask array, as X is, got {type(array).__name__}. Pass "
                    f"dask.array.from_array({name}, chunks=...)."
                )
            if any(math.isnan(size) for size in array.shape):
                raise ValueError(
                    f"{name} must have chunks of known sizes, got a Dask array of shape {array.shape}. Call "
                    f"{name}.compute_chunk_sizes() first."
                )
            if array.shape[0] != X.shape[0]:
                raise ValueError(
                    f"X and {name} must have the same number of rows, got {X.shape[0]} and {array.shape[0]}. "
                    f"Pass one row of {name} for every row of X."
                )
        n_rows = X.chunks[0]
        columns = [row_chunks(array, n_rows) for array in arrays.values()]
        return cls(_zipped(*columns), client, n_rows=n_rows)

    @classmethod
    def from_dataframes(
        cls, X: Any, y: Any, sample_weight: Any = None, *, client: Client | None = None
    ) -> DaskBlocks:
        """Take Dask dataframes; a block is a partition.

        Parameters
        ----------
        X : dask.dataframe.DataFrame
        y : dask.dataframe.DataFrame, Series or array, or list of str
            With the partitions of X; or the columns of X that are labels, and not features.
        sample_weight : dask.dataframe.Series or array, or str, optional
            The same for weights.
        """
        if y is None:
            raise TypeError(
                "y must be the names of the label columns of X, or a Dask dataframe, got None. Pass one."
            )
        rest = [y] if sample_weight is None else [y, sample_weight]
        rest = [list(part) if isinstance(part, tuple) else part for part in rest]
        named = [part for part in rest if isinstance(part, str | list)]
        taken = [column for part in named for column in ([part] if isinstance(part, str) else part)]
        absent = [column for column in taken if column not in list(X.columns)]
        if absent:
            raise ValueError(
                f"labels and weights must be columns of the dataframe, got {shown(absent[0])}, which is "
                f"none. Choose among {shown(list(X.columns))}."
            )
        parts = [X[[column for column in X.columns if column not in taken]]]
        parts += [X[part] if isinstance(part, str | list) else part for part in rest]
        columns = [row_chunks(part) for part in parts]
        if len({len(column) for column in columns}) > 1:
            raise ValueError(
                f"X and y must have the same partitions, got {' and '.join(str(len(c)) for c in columns)}. "
                "Use y.repartition(divisions=X.divisions), or name the label columns of one dataframe."
            )
        return cls(_zipped(*columns), client)

    @classmethod
    def from_delayed(cls, blocks: Sequence[Delayed], *, client: Client | None = None) -> DaskBlocks:
        """Take Delayed objects, each of which gives ``(X, Y)`` or ``(X, Y, sample_weight)``."""
        blocks = list(blocks)
        strange = next((block for block in blocks if not isinstance(block, Delayed)), None)
        if strange is not None:
            raise TypeError(
                f"blocks must be Delayed objects, got a value of type {type(strange).__name__}. Wrap the "
                "function that reads a block in dask.delayed."
            )
        return cls(blocks, client)

    @classmethod
    def from_files(
        cls,
        paths: Any,
        *,
        rows: int = 10_000,
        format: str | None = None,
        client: Client | None = None,
        **options: Any,
    ) -> DaskBlocks:
        """Take files that this process and every worker can read; a task reads one file, block by block.

        A worker has one block in memory, however large the file. Several workers share the work only if there
        are several files: split a large one, or read it with `dask.dataframe`.

        Parameters
        ----------
        paths : path-like, or sequence of them
        rows, format, **options
            As in `lrml.datasets.BlockFile`, which may read the files once, here, to learn their columns.
        """
        names = [os.fspath(paths)] if isinstance(paths, str | os.PathLike) else [os.fspath(p) for p in paths]
        whole = BlockFile([os.path.abspath(name) for name in names], rows=rows, format=format, **options)
        return cls([literal(file) for file in whole.split()], client)

    @property
    def _cluster(self) -> Cluster:
        client = current_client() if self.client is None else self.client
        if client is None:
            raise ClusterError(
                "a cluster must be at hand, got no current client. Use: with lrml.engines.dask.connect() as "
                "client."
            )
        return Cluster(client)

    def _first_columns(self) -> Columns:
        for leaf in self.leaves:
            found: Columns | None = self._cluster.called(first_columns, leaf, work=Work(self.door))
            if found is not None:
                return found
        raise ValueError("blocks must hold at least one (X, Y) pair, got none. Pass some data.")

    def sum(self, part: Callable[..., _Sum], *arguments: Any, checkpoint: Checkpoint | None = None) -> _Sum:
        """Return the sum, a tree of sums of four neighbours; see `BlockSource.sum`.

        With a checkpoint, the sums of groups of blocks (16, or more if there are more than 256 blocks) come
        to this process, which adds them up in order and keeps them. The last digits may be others then.
        """
        panels: Panels = ()
        columns = self.columns  # now the door knows them too
        if part is statistics_of:
            panels = panels_of(columns.n_features, columns.n_labels, self.panel_bytes)
        work = Work(self.door, part, arguments, hashed=checkpoint is not None)
        summed = self._summed(work, panels, checkpoint)
        if isinstance(summed.error, RowsNotCountedError):
            self._summed(Work(self.door))  # counts them, up to the first bad block
            summed = self._summed(work, panels, checkpoint)
        if summed.error is not None:
            raise self._placed(summed.error, summed.total)
        if summed.total is None:
            raise ValueError("blocks must hold at least one (X, Y) pair, got none. Pass some data.")
        total: _Sum = summed.total
        return total

    def _summed(self, work: Work, panels: Panels = (), checkpoint: Checkpoint | None = None) -> Summed:
        """Sum over all leaves up to the first error, in a tree that grows on the cluster."""
        if checkpoint is not None:
            return self._folded(work, panels, checkpoint)
        cluster = self._cluster
        tree = Tree(cluster.merged)
        for _, node, outline in self._groups(range(len(self.leaves)), work, panels):
            tree.push(node)
            if outline.error is not None:
                break
        return cluster.fetched(tree.root())

    def _folded(self, work: Work, panels: Panels, checkpoint: Checkpoint) -> Summed:
        """Go on from a checkpoint, and keep the sum of more and more leaves in it."""
        kept = checkpoint.start()
        if kept is not None:
            self._check_kept(kept, work, checkpoint)
        state = Kept(0, b"", None) if kept is None else kept
        try:
            for stop, node, outline in self._groups(range(state.n_blocks, len(self.leaves)), work, panels):
                more = self._cluster.fetched(node)
                if outline.error is not None:
                    _keep(checkpoint, state, at_once=True)
                    return Summed((), _sum(state.total, more.total), outline.error)
                state = Kept(stop, _chained(state.digest, outline.read), _sum(state.total, more.total))
                _keep(checkpoint, state)
        except ClusterError as error:
            _keep(checkpoint, state, at_once=True)
            content = f"has the sum of the first {state.n_blocks} of {len(self.leaves)} blocks"
            if state.total is None:
                content = "was not written, as the first group of blocks was not complete"
            raise ClusterError(f"{error} The checkpoint {os.fspath(checkpoint.path)!r} {content}.") from error
        _keep(checkpoint, state, at_once=True)
        return Summed((), state.total)

    def _check_kept(self, kept: Kept, work: Work, checkpoint: Checkpoint) -> None:
        """Read the leaves of a checkpoint again, and refuse one of others."""
        n_leaves, digest = len(self.leaves), b""
        if kept.n_blocks == n_leaves or (
            kept.n_blocks < n_leaves and kept.n_blocks % group_size(n_leaves) == 0
        ):
            for _, _, outline in self._groups(range(kept.n_blocks), replace(work, part=None)):
                digest = _chained(digest, outline.read)
        if digest != kept.digest:
            raise checkpoint.of_others(kept.n_blocks)

    def _groups(
        self, numbers: range, work: Work, panels: Panels = ()
    ) -> Iterator[tuple[int, list[Any], Summed]]:
        """Yield the number of the next leaf, the sum on the cluster, and its outline, group by group."""
        for start, stop, node, outline in self._cluster.groups(self._numbered(), numbers, work, panels):
            whole = len(outline.read) - (outline.error is not None)  # the last one may have ended early
            for place, read in enumerate(outline.read[:whole], start):
                self._check_count(place, read)
                self._read[place] = read
            yield stop, node, outline

    def _check_count(self, place: int, read: Read) -> None:
        """Refuse a leaf that has more or fewer rows than when it was read before."""
        before = self._read[place]
        if before is not None and before.rows != read.rows:
            raise ValueError(
                f"all passes over the blocks must read the same rows, {before.rows} in part {place}, got "
                f"{read.rows}. Leave the data as they are during a fit, and make new DaskBlocks of new data."
            )

    def _numbered(self) -> list[Leaf]:
        """Return the leaves with their first blocks and rows, as far as these have been counted."""
        numbered, block, row = [], 0, 0
        counted = True
        for leaf, read in zip(self.leaves, self._read, strict=True):
            numbered.append(Leaf(leaf, block, row if counted else None))
            counted = counted and read is not None
            block, row = block + (read.blocks if read else 1), row + (read.rows if read else 0)
        return numbered

    def _placed(self, error: Any, total: Any) -> BlockError:
        """Return the error of a block with its place in the whole, and the sum of all blocks before it."""
        if None in self._read:  # the first leaf that is not counted is the one to blame
            leaf = self._numbered()[self._read.index(None)]
            found: Summed = self._cluster.called(sum_leaf, *leaf, work=Work(self.door))
            error = found.error or error
        error.sums = total
        return error  # type: ignore[no-any-return]


def _keep(checkpoint: Checkpoint, state: Kept, *, at_once: bool = False) -> None:
    if state.total is not None:
        checkpoint.keep(state, at_once=at_once)


def _sum(total: Any, more: Any) -> Any:
    return total if more is None else added(total, more)


def _chained(digest: bytes, read: Sequence[Read]) -> bytes:
    """Return a hash of what a hash stands for, and of some more leaves."""
    return hashlib.blake2b(digest + b"".join(leaf.digest for leaf in read), digest_size=16).digest()


@contextmanager
def as_blocks(
    X: Any, y: Any = None, sample_weight: Any = None, *, client: Client | str | None
) -> Iterator[DaskBlocks]:
    """Yield whatever Dask has of rows as a source, which keeps its own client, if it has one."""
    if isinstance(X, DaskBlocks) and not (y is None and sample_weight is None):
        given = "y" if sample_weight is None else "sample_weight"
        raise TypeError(
            f"DaskBlocks have labels and weights of their own, got {given} of type "
            f"{type(sample_weight if y is None else y).__name__} as well. Leave {given} out, and give it to "
            "DaskBlocks.from_arrays or another of its constructors."
        )
    if isinstance(X, DaskBlocks) and X.client is not None:
        yield X
        return
    with connect(client) as connected:
        yield _source(X, y, sample_weight, connected)


def _source(X: Any, y: Any, sample_weight: Any, client: Client) -> DaskBlocks:
    if isinstance(X, DaskBlocks):
        source = copy(X)
        source.client = client
        return source
    if hasattr(X, "__dask_graph__") and hasattr(X, "chunks"):
        return DaskBlocks.from_arrays(X, y, sample_weight, client=client)
    if hasattr(X, "__dask_graph__") and hasattr(X, "columns"):
        return DaskBlocks.from_dataframes(X, y, sample_weight, client=client)
    if isinstance(X, Bag):
        X = Cluster(client).result(client.compute(X))
    items = [X] if isinstance(X, str | os.PathLike) else X
    if isinstance(items, list | tuple) and y is None and sample_weight is None:
        if all(isinstance(item, str | os.PathLike) for item in items):
            return DaskBlocks.from_files(items, client=client)
        if all(isinstance(item, Delayed) for item in items):
            return DaskBlocks.from_delayed(items, client=client)
    raise TypeError(
        "rows on a cluster must be Dask arrays, dataframes, Delayed (X, Y) pairs or names of files, got X of "
        f"type {type(X).__name__} and y of type {type(y).__name__}. For data in memory, use model.fit."
    )


def _zipped(*columns: Sequence[Delayed]) -> list[Delayed]:
    return [delayed(together)(*parts) for parts in zip(*columns, strict=True)]


def row_chunks(collection: Any, n_rows: tuple[int, ...] | None = None) -> list[Delayed]:
    """Return the chunks of rows of a Dask array, of these sizes if any are given, or those of a dataframe."""
    if hasattr(collection, "chunks"):
        widths = dict.fromkeys(range(1, collection.ndim), -1)
        collection = collection.rechunk(widths | ({} if n_rows is None else {0: n_rows}))
        return list(collection.to_delayed().ravel())
    return list(collection.to_delayed())
