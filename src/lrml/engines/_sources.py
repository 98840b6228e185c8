"""Blocks of rows on a cluster of Dask, and sums over them.

Every sum is one round: each leaf is read and summed by a task of its own, and sums of four neighbours are
merged, by their place in the data, until one is left. Which worker did what, how many there were and which of
them were lost makes no difference, not even to the last bit. Only sums travel.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, TypeAlias, TypeVar
from uuid import uuid4

import dask
from dask.bag import Bag
from dask.delayed import Delayed, delayed
from distributed import Client, Future, KilledWorker, LocalCluster, default_client, wait

from lrml._shown import shown
from lrml.blocks import BlockError, BlockSource, Checkpoint, Columns, Kept, added, statistics_of
from lrml.engines._workers import (
    FileBlocks,
    Read,
    RowsNotCountedError,
    Summed,
    Work,
    first_columns,
    joined,
    merged,
    outline_of,
    panel_of,
    panels,
    sum_leaf,
    together,
)

_Sum = TypeVar("_Sum")
# A sum, or all panels of one, on the cluster.
_Node: TypeAlias = list[Any]
# The first block and row of every leaf.
_Starts: TypeAlias = Sequence[tuple[int, int | None]]
# How many sums one task merges.
_FAN_IN = 4
# Leaves whose sum is asked for at a time, at least: a power of the number above.
_GROUP = _FAN_IN**2
# How often a group is tried whose workers die, and how often the scheduler of `connect` tries a task.
_ATTEMPTS, _ALLOWED_FAILURES = 3, 10
_PANEL_BYTES = 1 << 26


class ClusterError(RuntimeError):
    """The cluster cannot go on: its scheduler is lost, or blocks kill its workers. The message has a remedy."""


@contextmanager
def connect(client: Client | str | None = None, **options: Any) -> Iterator[Client]:
    """Yield a client of a cluster: what is given, else the current one, else one of a new local cluster.

    Parameters
    ----------
    client : Client or str, optional
        A client, which stays open, or the address of a scheduler, such as ``"tcp://10.0.0.1:8786"``.
    **options
        Of `distributed.LocalCluster`, if one is started: one process per core, each with one thread.

    Examples
    --------
    >>> from lrml.engines.dask import connect
    >>> with connect(n_workers=1, processes=False) as client:
    ...     client.submit(sum, [1, 2]).result()
    3
    """
    if isinstance(client, Client):
        yield client
        return
    if client is None:
        try:
            client = default_client()
        except ValueError:  # there is none
            with _local_cluster(options) as cluster, Client(cluster, set_as_default=False) as own:
                yield own
            return
        yield client
        return
    try:
        own = Client(client, set_as_default=False)
    except (OSError, ValueError, TypeError) as error:
        raise ClusterError(
            f"a scheduler must answer at its address, got {shown(client)}, where none does ({error}). Start "
            "one with `dask scheduler`, and pass the address that it prints."
        ) from error
    with own:
        yield own


@contextmanager
def _local_cluster(options: dict[str, Any]) -> Iterator[LocalCluster]:
    usual = {"threads_per_worker": 1, "dashboard_address": None}
    # Every task on a worker that dies counts as a suspect, and three deaths are soon reached.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": _ALLOWED_FAILURES}),
        LocalCluster(**usual | options) as cluster,
    ):
        yield cluster


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
        self.leaves, self._client, self.panel_bytes = list(leaves), client, panel_bytes
        known = [None] * len(self.leaves) if n_rows is None else [Read(1, rows) for rows in n_rows]
        self._read: list[Read | None] = known  # filled in by the first round

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
        rest = [name for name in (y, sample_weight) if name is not None]
        names = [name for name in rest if isinstance(name, str | list | tuple)]
        taken = [column for name in names for column in ([name] if isinstance(name, str) else name)]
        absent = [column for column in taken if column not in list(X.columns)]
        if absent:
            raise ValueError(
                f"labels and weights must be columns of the dataframe, got {shown(absent[0])}, which is "
                f"none. Choose among {shown(list(X.columns))}."
            )
        parts = [X[[column for column in X.columns if column not in taken]]]
        parts += [
            X[list(name) if isinstance(name, tuple) else name] if name in names else name for name in rest
        ]
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
        """Take files that every worker can read; a task reads one file, block by block.

        A worker has one block in memory, however large the file. Several workers share the work only if there
        are several files: split a large one, or read it with `dask.dataframe`.

        Parameters
        ----------
        paths : path-like, or sequence of them
        rows, format, **options
            As in `lrml.datasets.iter_blocks`.
        """
        names = [os.fspath(paths)] if isinstance(paths, str | os.PathLike) else [os.fspath(p) for p in paths]
        files = [FileBlocks(os.path.abspath(name), rows, format, options) for name in names]
        return cls([literal(file) for file in files], client)

    @property
    def client(self) -> Client:
        """The client of the cluster."""
        if self._client is not None:
            return self._client
        try:
            return default_client()
        except ValueError:
            raise ClusterError(
                "a cluster must be at hand, got no current client. Use: with lrml.engines.dask.connect() as "
                "client."
            ) from None

    def _first_columns(self) -> Columns:
        work = self._send(Work(self.door))
        for leaf in self.leaves:
            with self._errors():
                found: Columns | None = self.client.compute(delayed(first_columns)(leaf, work)).result()
            if found is not None:
                return found
        raise ValueError("blocks must hold at least one (X, Y) pair, got none. Pass some data.")

    def sum(self, part: Callable[..., _Sum], *arguments: Any, checkpoint: Checkpoint | None = None) -> _Sum:
        """Return the sum, a tree of sums of four neighbours; see `BlockSource.sum`.

        With a checkpoint, the sums of groups of blocks (16, or more if there are more than 256 blocks) come to
        the client, which adds them up in order and keeps them.
        """
        self.columns  # noqa: B018  # the door of the workers knows them
        try:
            summed = self._round(part, arguments, checkpoint)
        except RowsNotCountedError:
            summed = self._round(None, (), None)
            if summed.error is None:
                summed = self._round(part, arguments, checkpoint)
        if summed.error is not None:
            raise self._placed(summed.error, summed.total)
        if summed.total is None:
            raise ValueError("blocks must hold at least one (X, Y) pair, got none. Pass some data.")
        total: _Sum = summed.total
        return total

    def _round(
        self, part: Callable[..., Any] | None, arguments: tuple[Any, ...], checkpoint: Checkpoint | None
    ) -> Summed:
        """Sum over all leaves, or only read them if ``part`` is None."""
        rows: list[tuple[int, int]] = []
        if part is statistics_of:
            rows = panels(self.columns.n_features, self.columns.n_labels, self.panel_bytes)
        work = Work(self.door, part, arguments, hashed=checkpoint is not None)
        if checkpoint is not None:
            return self._folded(work, rows, checkpoint)
        tree = _Tree(self._merged)
        for _, node, outline in self._groups(range(len(self.leaves)), work, rows):
            tree.push(node)
            if outline.error is not None:
                break
        return self._fetched(tree.root())

    def _folded(self, work: Work, rows: list[tuple[int, int]], checkpoint: Checkpoint) -> Summed:
        """Go on from a checkpoint, and keep the sum of more and more leaves in it."""
        kept = checkpoint.start()
        if kept is not None:
            self._check_kept(kept, work, checkpoint)
        state = Kept(0, b"", None) if kept is None else kept
        try:
            for stop, node, outline in self._groups(range(state.n_blocks, len(self.leaves)), work, rows):
                more = self._fetched(node)
                if outline.error is not None:
                    _keep(checkpoint, state, now=True)
                    return Summed((), _sum(state.total, more.total), outline.error)
                state = Kept(stop, _chained(state.digest, outline.read), _sum(state.total, more.total))
                _keep(checkpoint, state)
        except ClusterError as error:
            _keep(checkpoint, state, now=True)
            raise ClusterError(
                f"{error} The checkpoint {os.fspath(checkpoint.path)!r} has the sum of the first "
                f"{state.n_blocks} of {len(self.leaves)} blocks."
            ) from error
        return Summed((), state.total)

    def _check_kept(self, kept: Kept, work: Work, checkpoint: Checkpoint) -> None:
        """Read the leaves of a checkpoint again, and refuse one of others."""
        digest = b""
        if kept.n_blocks <= len(self.leaves):
            for _, _, outline in self._groups(range(kept.n_blocks), replace(work, part=None), []):
                digest = _chained(digest, outline.read)
        if digest != kept.digest:
            raise checkpoint.of_others(kept.n_blocks)

    def _groups(
        self, numbers: range, work: Work, rows: list[tuple[int, int]]
    ) -> Iterator[tuple[int, _Node, Summed]]:
        """Yield, group by group, the number of the next leaf, the sum on the cluster, and its outline.

        A few groups are under way at a time, so that neither tasks nor sums pile up.
        """
        size = _FAN_IN ** math.ceil(math.log(max(_GROUP, math.sqrt(len(self.leaves))), _FAN_IN) - 1e-9)
        with self._errors():
            order = self._send(work)
            ahead = max(2, math.ceil(2 * sum(self.client.nthreads().values()) / size))
        starts = list(self._starts())
        stops = [min(start + size, numbers.stop) for start in range(numbers.start, numbers.stop, size)]
        upcoming = iter(zip([numbers.start, *stops], stops, strict=False))
        running: deque[tuple[tuple[int, int], list[Future]]] = deque()
        while True:
            for start, stop in islice(upcoming, ahead - len(running)):
                running.append(((start, stop), self._submitted(range(start, stop), starts, order, rows)))
            if not running:
                return
            (start, stop), futures = running.popleft()
            again = partial(self._submitted, range(start, stop), starts, order, rows)
            *node, last = self._settled(futures, again)
            with self._errors():
                outline: Summed = last.result()
            whole = len(outline.read) - (outline.error is not None)  # the last one may have ended early
            self._read[start : start + whole] = outline.read[:whole]
            yield stop, node, outline

    def _submitted(
        self, numbers: range, starts: _Starts, order: Future, rows: list[tuple[int, int]]
    ) -> list[Future]:
        """Ask for the sum of some leaves, in panels if there are ``rows`` of any, and its outline."""
        tree = _Tree(lambda nodes: [delayed(merged, pure=False)(list(part)) for part in zip(*nodes)])
        for number in numbers:
            leaf = delayed(sum_leaf, pure=False)(self.leaves[number], *starts[number], order)
            tree.push([delayed(panel_of, pure=False)(leaf, *ends) for ends in rows] or [leaf])
        node = tree.root()
        with self._errors():
            futures: list[Future] = self.client.compute([*node, delayed(outline_of, pure=False)(node[0])])
        return futures

    def _settled(self, futures: list[Future], again: Callable[[], list[Future]]) -> list[Future]:
        """Wait for futures; ask again for those that ended because workers died, but not for ever."""
        for attempt in range(1, _ATTEMPTS + 1):
            with self._errors():
                wait(futures)
            failed = next((future for future in futures if future.status == "error"), None)
            if failed is None:
                break
            error = failed.exception()
            if not isinstance(error, KilledWorker | MemoryError):
                raise error
            if attempt == _ATTEMPTS:
                raise _too_large(error) from error
            futures = again()
        return futures

    def _merged(self, nodes: Sequence[_Node]) -> _Node:
        with self._errors():
            return [self.client.submit(merged, list(part), pure=False) for part in zip(*nodes, strict=True)]

    def _fetched(self, node: _Node) -> Summed:
        """Bring a sum to this process, one panel at a time."""
        with self._errors():
            return joined(future.result() for future in node)

    def _send(self, work: Work) -> Future:
        """Send what all tasks of a round need, once.

        It is a task, which the scheduler repeats if all workers that have its result are lost; what is
        scattered would be gone.
        """
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.client.compute(literal(work))

    def _starts(self) -> Iterator[tuple[int, int | None]]:
        """Yield the first block and row of every leaf; None for rows that have not been counted."""
        block, row = 0, 0
        counted = True
        for read in self._read:
            yield block, row if counted else None
            counted = counted and read is not None
            block, row = block + (read.blocks if read else 1), row + (read.rows if read else 0)

    def _placed(self, error: BlockError, total: Any) -> BlockError:
        """Return the error of a block with its place in the whole, and the sum of all blocks before it."""
        if None in self._read:  # the first leaf that is not counted is the one to blame
            leaf = self._read.index(None)
            start = list(self._starts())[leaf]
            order = self._send(Work(self.door))
            task = delayed(sum_leaf, pure=False)(self.leaves[leaf], *start, order)
            with self._errors():
                error = self.client.compute(task).result().error or error
        error.sums = total
        return error

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Say what to do if the scheduler is lost, or workers die again and again."""
        try:
            yield
        except KilledWorker as error:
            raise _too_large(error) from error
        except (CancelledError, OSError, RuntimeError) as error:
            if isinstance(error, ClusterError) or self.client.status == "running":
                raise
            raise ClusterError(
                f"the scheduler must stay up, got a lost connection ({type(error).__name__}). Start it and "
                "repeat the call, which goes on from where it was if it is given a checkpoint."
            ) from error


class _Tree:
    """Nodes that come one by one and are merged with their neighbours, by their numbers alone."""

    def __init__(self, merge: Callable[[Sequence[_Node]], _Node]) -> None:
        self._merge = merge
        self._levels: list[list[_Node]] = []

    def push(self, node: _Node, level: int = 0) -> None:
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(node)
        if len(self._levels[level]) == _FAN_IN:
            full, self._levels[level] = self._levels[level], []
            self.push(self._merge(full), level + 1)

    def root(self) -> _Node:
        """Merge what is left, from the bottom to the top."""
        rest: list[_Node] = []
        for nodes in self._levels:
            rest = [*nodes, *rest]
            rest = [self._merge(rest)] if len(rest) > 1 else rest
        return rest[0]


def _too_large(error: BaseException) -> ClusterError:
    return ClusterError(
        f"a block and its sum must fit into the memory of a worker, got one that ended its workers ({error}). "
        "Use smaller blocks (X.rechunk, or fewer rows) or larger workers; if they died of something else, "
        "raise distributed.scheduler.allowed-failures to 10."
    )


def _keep(checkpoint: Checkpoint, state: Kept, *, now: bool = False) -> None:
    if state.total is not None:
        checkpoint.keep(state, now=now)


def _sum(total: Any, more: Any) -> Any:
    return total if more is None else added(total, more)


def _chained(digest: bytes, read: Sequence[Read]) -> bytes:
    """Return a hash of what a hash stands for, and of some more leaves."""
    return hashlib.blake2b(digest + b"".join(leaf.digest for leaf in read), digest_size=16).digest()


def literal(value: Any) -> Delayed:
    """Return a task whose result is a value, as it is."""
    return delayed(value, name=f"lrml-{uuid4().hex}", traverse=False)


def as_blocks(X: Any, y: Any = None, sample_weight: Any = None, *, client: Client) -> DaskBlocks:
    """Return whatever Dask has of rows as a source; a source as it is."""
    if isinstance(X, DaskBlocks):
        return X
    if hasattr(X, "dask") and hasattr(X, "chunks"):
        return DaskBlocks.from_arrays(X, y, sample_weight, client=client)
    if hasattr(X, "dask") and hasattr(X, "columns"):
        return DaskBlocks.from_dataframes(X, y, sample_weight, client=client)
    if isinstance(X, Bag):
        X = client.compute(X).result()
    items = [X] if isinstance(X, str | os.PathLike) else X
    if isinstance(items, list | tuple) and y is None and sample_weight is None:
        if all(isinstance(item, str | os.PathLike) for item in items):
            return DaskBlocks.from_files(items, client=client)
        if all(isinstance(item, Delayed) for item in items):
            return DaskBlocks.from_delayed(items, client=client)
    raise TypeError(
        f"rows on a cluster must be Dask arrays, dataframes, Delayed (X, Y) pairs or names of files, got X of "
        f"type {type(X).__name__} and y of type {type(y).__name__}. For data in memory, use model.fit."
    )


def _zipped(*columns: Sequence[Delayed]) -> list[Delayed]:
    return [delayed(together)(*parts) for parts in zip(*columns, strict=True)]


def row_chunks(collection: Any, n_rows: tuple[int, ...] | None = None) -> list[Delayed]:
    """Return the chunks of rows of a Dask array, of these sizes if any are given, or those of a dataframe."""
    if hasattr(collection, "chunks"):
        widths = {axis: -1 for axis in range(1, collection.ndim)}
        collection = collection.rechunk(widths | ({} if n_rows is None else {0: n_rows}))
        return list(collection.to_delayed().ravel())
    return list(collection.to_delayed())
