"""Fits, predictions and scores on a cluster of Dask: what one machine's memory cannot hold.

Everything that a fit needs of the rows is a sum over them. The workers read blocks of rows and sum them up;
sums, never rows, travel to this process, which solves. Four neighbours are added at a time, by their place in
the data, until one is left: which worker did what, how many there were and which of them were lost makes no
difference, not even to the last bit. See ``docs/cluster.md``.

Needs ``dask[distributed]``: ``pip install "lrml[dask]"``.
"""

# mypy: allow-untyped-calls
# Dask has few annotations.

from __future__ import annotations

import hashlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from copy import copy, deepcopy
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.utils.validation import check_is_fitted

try:
    import dask
    import dask.array as da
    from dask.bag import Bag
    from dask.delayed import Delayed, delayed
    from distributed import Client, KilledWorker, LocalCluster
    from distributed.comm.addressing import resolve_address
    from distributed.scheduler import NoWorkerError
except ModuleNotFoundError as error:
    if error.name is None or error.name.partition(".")[0] not in ("dask", "distributed"):
        raise
    raise ImportError(
        f"A cluster needs Dask, and {error.name} cannot be imported. Install it with: pip install "
        '"lrml[dask]"'
    ) from error

from lrml._ranking import check_k
from lrml._shown import shown
from lrml._targets import check_label_names
from lrml.blocks import BlockError, BlockSource, Checkpoint, Door, Kept, RowBlock, digest_of
from lrml.core.arrays import is_sparse
from lrml.core.columns import Schema
from lrml.core.rows import added
from lrml.core.threads import one_blas_thread
from lrml.datasets import BlockFile
from lrml.estimators import TopK
from lrml.metrics import average_precision

__all__ = [
    "ClusterError",
    "DaskBlocks",
    "connect",
    "decision_function",
    "fit",
    "predict",
    "predict_top_k",
    "score",
]


def __dir__() -> list[str]:
    return __all__


_Model = TypeVar("_Model")
_Total = TypeVar("_Total")
# How many sums one task adds, and how many leaves a sum has that goes into a checkpoint.
_FAN_IN, _GROUP = 4, 16
_RETRIES = 3
# Of local clusters. Every task on a worker that dies counts as a suspect, and three deaths are soon reached.
_ALLOWED_FAILURES, _PATIENCE = 10, "30 s"
_ALIGNMENT = 64  # bytes of the widest registers, and of a line of the cache


class ClusterError(RuntimeError):
    """The cluster cannot go on: it has no scheduler, no workers, or blocks that kill them; and what to do."""


@contextmanager
def connect(client: Client | str | None = None, **options: Any) -> Iterator[Client]:
    """Yield a client of a cluster: what is given, else the current one, else one of a new local cluster.

    Inside the ``with`` block Dask uses it: ``X.persist()``, and `fit` without a client.

    Parameters
    ----------
    client : distributed.Client or str, optional
        A client, which stays open, or the address of a scheduler, such as ``"tcp://10.0.0.1:8786"``.
    **options
        Of `distributed.LocalCluster`, if one is started: by default one process per core, each with one
        thread.

    Examples
    --------
    >>> from lrml.engines.dask import connect
    >>> with connect(n_workers=1, processes=False) as client:
    ...     client.submit(sum, [1, 2]).result()
    3
    """
    client = _current_client() if client is None else client
    if isinstance(client, Client):
        with client.as_current():
            yield client
        return
    if client is None:
        patience = dask.config.get("distributed.scheduler.no-workers-timeout", None) or _PATIENCE
        settings = {"allowed-failures": _ALLOWED_FAILURES, "no-workers-timeout": patience}
        with (
            dask.config.set({f"distributed.scheduler.{name}": value for name, value in settings.items()}),
            LocalCluster(**{"threads_per_worker": 1, "dashboard_address": ":0"} | options) as cluster,
            Client(cluster, set_as_default=False) as own,
            own.as_current(),
        ):
            yield own
        return
    if not isinstance(client, str):
        raise TypeError(
            f"client is a {type(client).__name__}, not a distributed.Client or the address of a scheduler. "
            "Use: with lrml.engines.dask.connect(address) as client."
        )
    try:
        resolve_address(client)  # a client of an address in the wrong form would never let go
        own = Client(client, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"No scheduler answers at {shown(client)} ({error}). Start one with `dask scheduler`, and pass "
            "the address that it prints."
        ) from error
    with own, own.as_current():
        yield own


def _current_client() -> Client | None:
    try:
        return Client.current()  # type: ignore[no-any-return]
    except ValueError:
        return None


@contextmanager
def _explaining_errors(client: Client) -> Iterator[None]:
    """Let Dask use this client, and say what to do if workers keep dying, are absent, or nobody answers."""
    try:
        with client.as_current():
            yield
    except (KilledWorker, MemoryError) as error:
        raise ClusterError(
            f"A block and its sum do not fit into the memory of a worker ({type(error).__name__}: {error}). "
            "Use smaller blocks (X.rechunk, fewer rows) or larger workers. If workers died of something "
            "else, raise distributed.scheduler.allowed-failures to 10."
        ) from error
    except NoWorkerError as error:
        raise ClusterError(
            "The cluster has no workers. Start some (`dask worker ADDRESS`, or cluster.scale(2)); "
            "distributed.scheduler.no-workers-timeout says how long it waits for them."
        ) from error
    except (CancelledError, OSError, RuntimeError) as error:
        if client.status == "running" and not isinstance(error, CancelledError | OSError):
            raise
        raise ClusterError(
            f"The connection to the scheduler was lost ({type(error).__name__}). Start it and repeat the "
            "call, which goes on from where it was if it has a checkpoint."
        ) from error


@dataclass(frozen=True, eq=False)
class _Work:
    """What to do with every block in one round, sent once; without a part, blocks are only hashed."""

    door: Door
    part: Callable[..., Any] | None = None
    arguments: tuple[Any, ...] = ()
    hashed: bool = False


@dataclass(frozen=True, eq=False)
class _Sum:
    """The sum over consecutive leaves, None if it is empty, and a hash of them, up to the first bad block."""

    total: Any
    digest: bytes
    error: BlockError | None = None

    def __sizeof__(self) -> int:  # Dask places tasks and spills results by it
        arrays = self.total.to_arrays().values() if hasattr(self.total, "to_arrays") else [self.total]
        return sum(getattr(array, "nbytes", 0) for array in arrays) or sys.getsizeof(self.total)


def _blocks_of(leaf: Any) -> Iterable[Any]:
    return leaf if isinstance(leaf, BlockFile) else [leaf]


def _columns_of(leaf: Any, number: int, door: Door) -> Schema | None:
    """Return the columns of the first block of a leaf; None if it has no block."""
    return next((door.check(raw, number, 0)[1] for raw in _blocks_of(leaf)), None)


def _sum_leaf(leaf: Any, number: int, work: _Work) -> _Sum:
    """Sum the blocks of a leaf. An error is part of the result: so the first bad block is known for sure."""
    total, digest, n_rows = None, b"", 0
    try:
        with one_blas_thread:  # other numbers of threads would give other last digits
            for piece, raw in enumerate(_blocks_of(leaf)):
                block, _ = work.door.check(raw, number, n_rows)
                if work.part is not None and len(block):
                    block = replace(block, X=_in_place(block.X), Y=_in_place(block.Y), piece=piece)
                    total = added(total, work.part(block, *work.arguments))
                digest = digest_of(block, digest) if work.hashed else digest
                n_rows += len(block)
    except BlockError as error:
        return _Sum(total, digest, error)
    return _Sum(total, digest)


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


def _merged(parts: Sequence[_Sum]) -> _Sum:
    """Add up sums of neighbours, in order, until one of them ends with an error."""
    total = None
    for part in parts:
        # The first is copied: the cluster may need it again if this task is lost.
        total = deepcopy(part.total) if total is None else _plus(total, part.total)
        if part.error is not None:
            break
    return _Sum(total, _joined(b"", *parts), part.error)


def _plus(total: Any, more: Any) -> Any:
    return total if more is None else added(total, more)


def _joined(digest: bytes, *parts: _Sum) -> bytes:
    return hashlib.blake2b(digest + b"".join(part.digest for part in parts), digest_size=16).digest()


def _tree(nodes: list[Delayed]) -> Delayed:
    """Return the sum of nodes, of which four neighbours are merged at a time."""
    while len(nodes) > 1:
        groups = [nodes[start : start + _FAN_IN] for start in range(0, len(nodes), _FAN_IN)]
        nodes = [delayed(_merged, pure=False)(group) if len(group) > 1 else group[0] for group in groups]
    return nodes[0]


def _literal(value: Any) -> Delayed:
    """Return a task whose result is a value; the scheduler repeats it if all copies are lost."""
    return delayed(value, name=f"lrml-{uuid4().hex}", traverse=False)  # type: ignore[no-any-return]


class DaskBlocks(BlockSource):
    """Blocks of rows that the workers of a cluster read, each time they are needed.

    Made by `from_arrays`, `from_dataframes`, `from_delayed` and `from_files`.

    Parameters
    ----------
    leaves : sequence of Delayed
        What one task reads: ``(X, Y)`` or ``(X, Y, sample_weight)``, or a `lrml.datasets.BlockFile`.
    client : distributed.Client, optional
        By default the current one.
    """

    def __init__(self, leaves: Sequence[Delayed], client: Client | None = None) -> None:
        if not len(leaves):
            raise ValueError("There is no block of rows. Pass at least one (X, Y) pair.")
        if not (client is None or isinstance(client, Client)):
            raise TypeError(
                f"client is {shown(client)}, not a distributed.Client or None. Use: with "
                "lrml.engines.dask.connect(address) as client."
            )
        self.leaves, self.client = list(leaves), client

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
                    f"{name} is a {type(array).__name__}, but X is a Dask array. Pass "
                    f"dask.array.from_array({name}, chunks=...)."
                )
            if any(math.isnan(size) for size in array.shape):
                raise ValueError(
                    f"The sizes of the chunks of {name} are not known (shape {array.shape}). Call "
                    f"{name}.compute_chunk_sizes() first."
                )
            if array.shape[0] != X.shape[0]:
                raise ValueError(
                    f"X has {X.shape[0]} rows, but {name} has {array.shape[0]}. Pass one row of {name} for "
                    "every row of X."
                )
        return cls._zipped([_row_chunks(array, X.chunks[0]) for array in arrays.values()], client)

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
            raise TypeError("y is None. Pass the names of the label columns of X, or a Dask dataframe.")
        rest = [
            list(part) if isinstance(part, tuple) else part for part in (y, sample_weight) if part is not None
        ]
        named = [part for part in rest if isinstance(part, str | list)]
        taken = [column for part in named for column in ([part] if isinstance(part, str) else part)]
        absent = [column for column in taken if column not in list(X.columns)]
        if absent:
            raise ValueError(
                f"The dataframe has no column {shown(absent[0])}. Choose among {shown(list(X.columns))}."
            )
        parts = [X[[column for column in X.columns if column not in taken]]]
        parts += [X[part] if isinstance(part, str | list) else part for part in rest]
        columns = [_row_chunks(part) for part in parts]
        if len({len(column) for column in columns}) > 1:
            raise ValueError(
                f"X and y have other partitions, {' and '.join(str(len(c)) for c in columns)} of them. Use "
                "y.repartition(divisions=X.divisions), or name the label columns of one dataframe."
            )
        return cls._zipped(columns, client)

    @classmethod
    def _zipped(cls, columns: list[list[Delayed]], client: Client | None) -> DaskBlocks:
        return cls([delayed(tuple)(list(parts)) for parts in zip(*columns, strict=True)], client)

    @classmethod
    def from_delayed(cls, blocks: Sequence[Delayed], *, client: Client | None = None) -> DaskBlocks:
        """Take Delayed objects, each of which gives ``(X, Y)`` or ``(X, Y, sample_weight)``."""
        strange = next((block for block in blocks if not isinstance(block, Delayed)), None)
        if strange is not None:
            raise TypeError(
                f"A block is a {type(strange).__name__}, not a Delayed object. Wrap the function that reads "
                "a block in dask.delayed."
            )
        return cls(list(blocks), client)

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
        names = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        whole = BlockFile([os.path.abspath(name) for name in names], rows=rows, format=format, **options)
        return cls([_literal(file) for file in whole.split()], client)

    @property
    def _client(self) -> Client:
        client = _current_client() if self.client is None else self.client
        if client is None:
            raise ClusterError(
                "There is no current client of a cluster. Use: with lrml.engines.dask.connect() as client."
            )
        return client

    def _compute(self, tasks: list[Delayed], **options: Any) -> list[Any]:
        """Ask for tasks; return their futures."""
        with _explaining_errors(self._client):
            return self._client.compute(tasks, **options)  # type: ignore[no-any-return]

    def _result(self, future: Any) -> Any:
        with _explaining_errors(self._client):
            return future.result()

    def _first_columns(self) -> Schema:
        for number, leaf in enumerate(self.leaves):
            (future,) = self._compute([delayed(_columns_of, pure=False)(leaf, number, _literal(self.door))])
            found: Schema | None = self._result(future)
            if found is not None:
                return found
        raise ValueError("There is no block of rows. Pass at least one (X, Y) pair.")

    def _sums(self, work: _Work, groups: Sequence[range]) -> Iterator[_Sum]:
        """Yield the sum over each group of leaves, in order, while the cluster works on the next few."""
        (sent,) = self._compute([_literal(work)])
        leaf_sum, futures = delayed(_sum_leaf, pure=False), []
        ahead = max(1, 2 * sum(self._client.nthreads().values()) // _GROUP)
        for group in groups:
            tree = _tree([leaf_sum(self.leaves[number], number, sent) for number in group])
            futures += self._compute([tree], retries=_RETRIES)
            if len(futures) > ahead:
                yield self._result(futures.pop(0))
        while futures:
            yield self._result(futures.pop(0))

    def sum(
        self, part: Callable[..., _Total], *arguments: Any, checkpoint: Checkpoint | None = None
    ) -> _Total:
        """Return the sum, a tree of sums of four neighbours; see `BlockSource.sum`.

        With a checkpoint, the sums of groups of 16 leaves come to this process, which adds them up in order
        and keeps them. The last digits may be others then.
        """
        self.columns  # noqa: B018  # now the door knows them
        work = _Work(self.door, part, arguments, hashed=checkpoint is not None)
        if checkpoint is None:
            (found,) = self._sums(work, [range(len(self.leaves))])
        else:
            found = self._added_to(checkpoint, work)
        if found.error is not None:
            found.error.sums = found.total
            raise found.error
        if found.total is None:
            raise ValueError("The blocks have no rows. Pass some data.")
        total: _Total = found.total
        return total

    def _added_to(self, checkpoint: Checkpoint, work: _Work) -> _Sum:
        """Go on from a checkpoint, and keep the sum of more and more leaves in it."""
        kept, n_leaves = checkpoint.start(), len(self.leaves)
        state = Kept(0, b"", None) if kept is None else kept
        groups = [range(start, min(start + _GROUP, n_leaves)) for start in range(0, n_leaves, _GROUP)]
        n_done = sum(group.stop <= state.n_blocks for group in groups)
        digest = b""
        for again in self._sums(replace(work, part=None), groups[:n_done]):
            digest = _joined(digest, again)
        if digest != state.digest:
            raise checkpoint.of_others(state.n_blocks)
        error, total = None, state.total
        try:
            for group, more in zip(groups[n_done:], self._sums(work, groups[n_done:]), strict=True):
                error = more.error
                if error is not None:
                    checkpoint.keep(state, at_once=True)
                    return _Sum(_plus(total, more.total), b"", error)
                total = _plus(total, more.total)
                state = Kept(group.stop, _joined(state.digest, more), total)
                checkpoint.keep(state)
        except ClusterError as lost:
            checkpoint.keep(state, at_once=True)
            content = f"has the sum of the first {state.n_blocks} of {n_leaves} blocks"
            if state.total is None:
                content = "was not written, as the first group of blocks was not complete"
            raise ClusterError(f"{lost} The checkpoint {os.fspath(checkpoint.path)!r} {content}.") from lost
        checkpoint.keep(state, at_once=True)
        return _Sum(total, state.digest)


def _row_chunks(collection: Any, n_rows: tuple[int, ...] | None = None) -> list[Delayed]:
    """Return the chunks of rows of a Dask array, of these sizes if any are given, or those of a dataframe."""
    if hasattr(collection, "chunks"):
        widths = dict.fromkeys(range(1, collection.ndim), -1)
        collection = collection.rechunk(widths | ({} if n_rows is None else {0: n_rows}))
        return list(collection.to_delayed().ravel())
    return list(collection.to_delayed())


@contextmanager
def _as_source(
    X: Any, y: Any = None, sample_weight: Any = None, *, client: Client | str | None
) -> Iterator[DaskBlocks]:
    """Yield whatever Dask has of rows as a source, which keeps its own client, if it has one."""
    if isinstance(X, DaskBlocks) and not (y is None and sample_weight is None):
        given = "y" if sample_weight is None else "sample_weight"
        raise TypeError(
            f"DaskBlocks have labels and weights of their own, and {given} was given as well. Leave {given} "
            "out, and give it to DaskBlocks.from_arrays or another of its constructors."
        )
    if isinstance(X, DaskBlocks) and X.client is not None:
        yield X
        return
    with connect(client) as connected:
        if isinstance(X, DaskBlocks):
            source = copy(X)
            source.client = connected
        elif hasattr(X, "__dask_graph__") and hasattr(X, "chunks"):
            source = DaskBlocks.from_arrays(X, y, sample_weight, client=connected)
        elif hasattr(X, "__dask_graph__") and hasattr(X, "columns"):
            source = DaskBlocks.from_dataframes(X, y, sample_weight, client=connected)
        else:
            items = connected.compute(X).result() if isinstance(X, Bag) else X
            items = [items] if isinstance(items, str | os.PathLike) else items
            listed = isinstance(items, list | tuple) and y is None and sample_weight is None
            if listed and all(isinstance(item, str | os.PathLike) for item in items):
                source = DaskBlocks.from_files(items, client=connected)
            elif listed and all(isinstance(item, Delayed) for item in items):
                source = DaskBlocks.from_delayed(items, client=connected)
            else:
                raise TypeError(
                    f"X is a {type(X).__name__} and y a {type(y).__name__}, not Dask arrays, dataframes, "
                    "Delayed (X, Y) pairs or names of files. For data in memory, use model.fit."
                )
        yield source


def fit(
    model: _Model,
    X: Any,
    y: Any = None,
    *,
    sample_weight: Any = None,
    client: Client | str | None = None,
    checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    classes: Any = None,
) -> _Model:
    """Fit a model to rows on a cluster: ``model.fit_blocks`` on `DaskBlocks`.

    Parameters
    ----------
    model : estimator
        One with ``fit_blocks``: `LRML`, `MLTrace`, `MLFro`, `CPLST` or `LRMLCV`.
    X : Dask array or dataframe, bag or list of files, list of Delayed objects, or DaskBlocks
        Files and Delayed objects have the labels too; see `DaskBlocks`.
    y : Dask array, dataframe or series, or list of str, optional
        Labels; or the columns of the dataframe X that are labels.
    sample_weight : Dask array or series, or str, optional
    client : distributed.Client or str, optional
        A client, or the address of a scheduler. By default the current client or, if there is none, a local
        cluster with a process per core, which is closed afterwards.
    checkpoint : path-like or Checkpoint, optional
        A file that keeps the sum so far. If the scheduler is lost, the same call goes on from there.
    classes : sequence, optional
        As in ``fit_blocks``.

    Returns
    -------
    model
        Fitted.

    Raises
    ------
    BlockError
        If a block breaks a rule: which one, which of its rows, and the sum of all blocks before it.
    ClusterError
        If the scheduler is lost, there are no workers, or a block ends every worker that it is given to.
    """
    fit_blocks: Any = getattr(model, "fit_blocks", None)
    if fit_blocks is None:
        raise TypeError(
            f"{type(model).__name__} has no fit_blocks, which a fit on a cluster needs. Use LRML, MLTrace, "
            "MLFro, CPLST or LRMLCV."
        )
    with _as_source(X, y, sample_weight, client=client) as source:
        fit_blocks(source, classes=classes, checkpoint=checkpoint)
    return model


def predict(model: Any, X: Any) -> Any:
    """Labels of every row, as ``model.predict`` gives them, as a lazy Dask array.

    Parameters
    ----------
    model : fitted estimator
        Sent once, however many blocks there are.
    X : dask.array.Array, dask.dataframe.DataFrame or sequence of Delayed
        Rows, in any number of blocks; those of Delayed objects are arrays, sparse matrices or frames.

    Returns
    -------
    dask.array.Array of shape (n, L), or (n,) if the model was fitted on a 1-D y
        With a chunk per block, sparse if the model was fitted on a sparse Y.
    """
    if _is_real(model):
        return _lazily(model, X, "predict", _score_type(model, X))
    meta: Any = (
        np.empty((0,), dtype=model.classes_.dtype) if _is_flat(model) else np.empty((0, 0), dtype=np.int64)
    )
    sparse = bool(model.sparse_output_) and meta.ndim == 2
    return _lazily(model, X, "predict", sp.csr_array(meta) if sparse else meta)


def decision_function(model: Any, X: Any) -> Any:
    """Scores of every row and label, as a lazy Dask array; ``model`` and ``X`` are those of `predict`."""
    return _lazily(model, X, "decision_function", _score_type(model, X))


def predict_top_k(model: Any, X: Any, k: int | None = None) -> TopK:
    """Return the k best labels of every row, best first, and their scores, as two lazy Dask arrays.

    Compute both at once, ``dask.compute(*top)``: scores are then made once. A metric takes
    ``TopK(*dask.compute(*top), top.classes)``. ``model`` and ``X`` are those of `predict`; k is min(5, L) by
    default.
    """
    n_labels = len(model.intercept_)
    k = min(5, n_labels) if k is None else check_k(k, n_labels, "k")
    chunks, n_rows = _chunks(X)
    sent = _literal(model)
    best = [delayed(_answer)(sent, chunk, "predict_top_k", k) for chunk in chunks]
    metas = np.empty((0, k), dtype=model.classes_.dtype), _score_type(model, X)
    labels, scores = (_stacked([pair[i] for pair in best], n_rows, k, metas[i]) for i in range(2))
    return TopK(labels, scores, model.classes_)


def _answer(model: Any, chunk: Any, method: str, *arguments: Any) -> Any:
    answer = getattr(model, method)
    if not hasattr(chunk, "shape") or chunk.shape[0]:
        return answer(chunk, *arguments)
    # Models refuse to answer for no row: so ask for one of zeros, and drop the answer.
    shape = (1, chunk.shape[1])
    if is_sparse(chunk):
        zeros = type(chunk)(shape, dtype=chunk.dtype)
    elif hasattr(chunk, "columns"):
        zeros = type(chunk)(np.zeros(shape), columns=chunk.columns).astype(chunk.dtypes)
    else:
        zeros = np.zeros(shape, dtype=chunk.dtype)
    found = answer(zeros, *arguments)
    return tuple(part[:0] for part in found) if isinstance(found, tuple) else found[:0]


def _is_flat(model: Any) -> bool:
    check_is_fitted(model)
    return bool(getattr(model, "flat_output_", False))


def _is_real(model: Any) -> bool:
    return bool(getattr(model, "targets", "binary") == "real")


def _score_type(model: Any, X: Any) -> npt.NDArray[Any]:
    """Return an empty array of the type that scores will have, as far as the type of X is known."""
    dtype = getattr(X, "dtype", np.float64)
    dtype = dtype if dtype == np.float32 else np.float64
    return np.empty((0,) if _is_flat(model) else (0, 0), dtype=np.result_type(dtype, model.intercept_.dtype))


def _lazily(model: Any, X: Any, method: str, meta: Any) -> Any:
    chunks, n_rows = _chunks(X)
    sent = _literal(model)
    answers = [delayed(_answer)(sent, chunk, method) for chunk in chunks]
    return _stacked(answers, n_rows, None if meta.ndim == 1 else len(model.intercept_), meta)


def _chunks(X: Any) -> tuple[list[Delayed], Iterable[float]]:
    """Return rows as Delayed objects, and how many there are in each; NaN if that is not known."""
    if isinstance(X, list | tuple) and X and all(isinstance(chunk, Delayed) for chunk in X):
        return list(X), [math.nan] * len(X)
    if not (hasattr(X, "chunks") or hasattr(X, "to_delayed")):
        raise TypeError(
            f"X is {shown(X)}, not a Dask array or dataframe or a list of Delayed objects. For data in "
            "memory, call the method of the model."
        )
    chunks = _row_chunks(X)
    return chunks, X.chunks[0] if hasattr(X, "chunks") else [math.nan] * len(chunks)


def _stacked(answers: list[Delayed], n_rows: Iterable[float], width: int | None, meta: Any) -> Any:
    shapes = ((rows,) if width is None else (rows, width) for rows in n_rows)
    return da.concatenate(
        [da.from_delayed(answer, shape, meta=meta) for answer, shape in zip(answers, shapes, strict=True)],
        allow_unknown_chunksizes=True,
    )


def score(model: Any, X: Any, y: Any = None, *, client: Client | str | None = None) -> float:
    """Return what ``model.score`` returns: average precision; R² of real targets; accuracy of a 1-D y.

    Parameters
    ----------
    model : fitted estimator
    X, y, client
        As in `fit`; all labels must be known.
    """
    flat, real = _is_flat(model), _is_real(model)
    with _as_source(X, y, client=client) as given:
        source = given.checked(targets="real" if real else "binary", classes=model.classes_ if flat else None)
        bare = _for_arrays(model, source.columns)
        if not real:
            total, count = source.sum(_right_classes if flat else _precisions, bare)
            if not count:
                raise ValueError("No row has a label, so there is no average precision. Check y.")
            return float(total / count)
        count, totals = source.sum(_target_sums)
        residual, spread = source.sum(_squared_errors, bare, totals / count)
    # As in scikit-learn: a constant target counts 1 if it is met, and 0 otherwise.
    share = np.where(spread > 0, residual / np.where(spread > 0, spread, 1.0), residual > 0)
    return float(np.mean(1.0 - share))


def _for_arrays(model: Any, columns: Schema) -> Any:
    """Return a model that takes blocks, which are arrays: names of columns are checked here, once."""
    check_label_names(columns.label_names, model.classes_)
    expected, got = getattr(model, "feature_names_in_", None), columns.feature_names
    if expected is not None and got is not None and list(expected) != list(got):
        raise ValueError(
            f"The features are {shown(list(got)[:3])} …, but those of fit were {shown(list(expected)[:3])} "
            "…. Reorder the columns."
        )
    return model._unnamed()


def _precisions(block: RowBlock, model: Any) -> tuple[float, int]:
    """Return the sum of the rows' average precisions, and how many rows have one."""
    values = average_precision(block.Y, model.decision_function(block.X), per_example=True)
    return float(np.nansum(values)), int(np.count_nonzero(~np.isnan(values)))


def _right_classes(block: RowBlock, model: Any) -> tuple[int, int]:
    positive = model.predict(block.X) == model.classes_[1]
    return int(np.count_nonzero(positive == (np.ravel(block.Y) == 1))), len(block)


def _target_sums(block: RowBlock) -> tuple[int, npt.NDArray[np.float64]]:
    return len(block), np.asarray(block.Y.sum(axis=0), dtype=np.float64).ravel()


def _squared_errors(
    block: RowBlock, model: Any, mean: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return sums, for each target, of squared residuals and of squares about the mean."""
    Y = block.Y.toarray() if is_sparse(block.Y) else block.Y
    residual = Y - model.predict(block.X).reshape(Y.shape)
    return np.sum(residual**2, axis=0), np.sum((Y - mean) ** 2, axis=0)
