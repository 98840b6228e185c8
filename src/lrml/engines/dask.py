"""Fits, predictions and scores on a cluster of Dask: what one machine's memory cannot hold.

Workers sum up blocks of rows; sums, never rows, travel to this process, which solves. Four neighbours are
added at a time: which worker did what, and which were lost, changes no bit of the result (docs/cluster.md).
"""

# mypy: allow-untyped-calls
# Dask has few annotations.

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import closing, contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from lrml._shown import how_to_install, shown

try:
    import dask
    import dask.array as da
    from dask.delayed import Delayed, delayed
    from dask.sizeof import sizeof
    from distributed import Client, KilledWorker
    from distributed.comm.addressing import resolve_address
    from distributed.scheduler import NoWorkerError
except ModuleNotFoundError as error:
    raise ImportError(f"A cluster needs Dask ({error}). {how_to_install('dask')}") from error

from lrml._door import check_names
from lrml.blocks import BlockError, BlockSource, Checkpoint, Door, Kept, RowBlock, digest_of
from lrml.core.arrays import is_sparse, one_blas_thread
from lrml.core.rows import Schema, Spread, added
from lrml.datasets import Source
from lrml.estimators import TopK
from lrml.metrics import label_ranking_average_precision

__all__ = ["ClusterError", "DaskBlocks", "connect", "decision_function", "fit"]
__all__ += ["predict", "predict_top_k", "score"]


_FAN_IN, _GROUP = 4, 16  # sums that one task adds; leaves whose sum goes into a checkpoint


class ClusterError(RuntimeError):
    """The cluster cannot go on: it has no scheduler, no workers, or blocks that kill them; and what to do."""


@contextmanager
def connect(client: Client | str | None = None, **options: Any) -> Iterator[Client]:
    """Yield a client of a cluster, the current one of Dask inside the ``with`` block.

    Parameters
    ----------
    client : distributed.Client or str, optional
        A client, which stays open, or the address of a scheduler, such as ``"tcp://10.0.0.1:8786"``. By
        default the current client or, if there is none, one of a new local cluster.
    **options
        Of `distributed.LocalCluster`, if one is started: by default a process per core, with a thread each.
    """
    if client is None:
        with suppress(ValueError):
            client = Client.current()
    if isinstance(client, Client):
        with client.as_current():
            yield client
        return
    patience = "distributed.scheduler.no-workers-timeout"
    # Every task on a worker that dies is a suspect, so the default of three deaths is soon reached.
    settings = {"distributed.scheduler.allowed-failures": 10, patience: dask.config.get(patience) or "30 s"}
    try:
        if client is None:
            options = {"threads_per_worker": 1, "dashboard_address": ":0"} | options
        else:
            resolve_address(client)  # a client of an address in the wrong form would never let go
        with dask.config.set(settings):
            own = Client(client, set_as_default=False, **options)
    except (OSError, ValueError) as error:
        raise ClusterError(f"No scheduler answers at {client!r}: start one. {error}") from error
    with own, own.as_current():
        yield own


@dataclass(frozen=True, eq=False)
class _Sum:
    """A sum over consecutive leaves, a hash of them, and the error of the first bad block, where it ends."""

    total: Any = None
    digest: bytes = b""
    error: BlockError | None = None

    def absorb(self, more: _Sum) -> _Sum:
        """Return the sum of both, in the arrays of this one."""
        if self.error is not None:
            return self
        total = added(self.total, more.total)
        return _Sum(total, _joined(self.digest, more.digest), more.error)

    def __sizeof__(self) -> int:  # Dask places tasks and spills results by it
        return int(sizeof(self.total.to_arrays() if hasattr(self.total, "to_arrays") else self.total))


def _joined(digest: bytes, more: bytes) -> bytes:
    """Return a hash of two hashes."""
    return hashlib.blake2b(digest + more, digest_size=16).digest()


def _blocks_of(leaf: Any) -> Iterable[Any]:
    return leaf if isinstance(leaf, Source) else [leaf]


def _columns_of(leaf: Any, number: int, door: Door) -> Schema | None:
    """Return the columns of the first block of a leaf; None if it has no block."""
    return next((door.check(raw, number, 0)[1] for raw in _blocks_of(leaf)), None)


def _sum_of(leaf: Any, number: int, work: tuple[Door, Any, tuple[Any, ...], bool]) -> _Sum:
    """Sum the blocks of a leaf; without a part, they are only hashed."""
    door, part, arguments, hashed = work
    total, digest, n_rows = None, b"", 0
    try:
        with one_blas_thread:  # other numbers of threads would give other last digits
            for piece, raw in enumerate(_blocks_of(leaf)):
                block, _ = door.check(raw, number, n_rows)
                if part is not None and len(block):
                    # Row by row: what a worker has read, and what another has sent, may lie in any order.
                    X, Y = (M if is_sparse(M) else np.ascontiguousarray(M) for M in (block.X, block.Y))
                    block = replace(block, X=X, Y=Y, piece=piece)
                    total = added(total, part(block, *arguments))
                digest = digest_of(block, digest) if hashed else digest
                n_rows += len(block)
    except BlockError as error:
        return _Sum(total, digest, error)
    return _Sum(total, digest)


def _merged(sums: list[_Sum]) -> _Sum:
    """Add up neighbours; the first is copied, as the cluster may need it again if this task is lost."""
    return reduce(added, sums[1:], deepcopy(sums[0]))


def _leaves(rows: Any) -> list[Delayed]:
    """Return rows as Delayed objects, for each file, chunk of an array or partition of a dataframe."""
    if isinstance(rows, Source):
        return [delayed(file) for file in rows.parts()]
    if hasattr(rows, "chunks"):
        return list(rows.rechunk(dict.fromkeys(range(1, rows.ndim), -1)).to_delayed().ravel())
    leaves = list(rows.to_delayed() if hasattr(rows, "to_delayed") else rows)
    if not all(isinstance(leaf, Delayed) for leaf in leaves):
        raise TypeError(f"Rows are {shown(rows)}, not a Dask collection or a list of Delayed objects.")
    return leaves


class DaskBlocks(BlockSource):
    """Blocks of rows that the workers of the current client read, each time they are needed.

    Parameters
    ----------
    X : Dask array or dataframe, list of Delayed objects, Source or DaskBlocks
        A block is a chunk of rows (dense, or one of SciPy's sparse arrays), a partition, or what a Delayed
        object gives. Of a `lrml.datasets.Source` a task reads one file, block by block.
    y, sample_weight : Dask array, dataframe or series, str or list of str, optional
        Or names of columns of the dataframe X. None if X has them: files, or Delayed objects that give
        ``(X, y)`` or ``(X, y, sample_weight)``.
    """

    def __init__(self, X: Any, y: Any = None, sample_weight: Any = None) -> None:
        parts, features = [], X
        for part in (y, sample_weight):
            if isinstance(part, str | list):
                parts.append(_leaves(X[part]))
                features = features.drop(columns=part)
            elif part is not None:
                aligned = da.asarray(part).rechunk({0: X.chunks[0]}) if hasattr(X, "chunks") else part
                parts.append(_leaves(aligned))
        self.leaves: list[Delayed] = X.leaves if isinstance(X, DaskBlocks) else _leaves(features)
        if parts:
            if {len(part) for part in parts} != {len(self.leaves)}:
                raise ValueError("y has other partitions than X. Use y.repartition(divisions=X.divisions).")
            self.leaves = [delayed(leaf) for leaf in zip(self.leaves, *parts, strict=True)]

    def _results(self, tasks: list[Delayed]) -> Generator[Any, None, None]:
        """Yield what tasks give, in order; say what to do if the cluster cannot go on."""
        futures: list[Any] = []
        try:
            for place, task in enumerate(tasks):  # in this order: Dask takes those of one call in any
                futures.append(Client.current().compute(task, retries=3, priority=-place))
            while futures:
                found = futures[0].result()
                del futures[0]  # the cluster may forget it
                yield found
        except (KilledWorker, MemoryError) as error:
            raise ClusterError(f"A block ends workers; use smaller blocks. {error}") from error
        except NoWorkerError as error:
            raise ClusterError("The cluster has no workers. Start some: dask worker ADDRESS") from error
        except (CancelledError, OSError, RuntimeError) as error:
            if futures and futures[0].status == "error":
                raise  # what the task has raised
            raise ClusterError(f"The scheduler was lost. Start it and repeat the call. {error!r}") from error

    def _first_columns(self) -> Schema:
        for number, leaf in enumerate(self.leaves):
            (found,) = self._results([delayed(_columns_of)(leaf, number, self.door)])
            if found is not None:
                return found  # type: ignore[no-any-return]
        raise ValueError("There is no block of rows. Pass at least one.")

    def _trees(self, groups: list[range], *work: Any) -> Generator[_Sum, None, None]:
        """Yield the sum over each group of leaves, in order, a tree of sums of four neighbours."""
        sent, trees = delayed(work, traverse=False), []
        for group in groups:
            nodes = [delayed(_sum_of)(self.leaves[number], number, sent) for number in group]
            while len(nodes) > 1:
                nodes = [delayed(_merged)(nodes[i : i + _FAN_IN]) for i in range(0, len(nodes), _FAN_IN)]
            trees += nodes
        return self._results(trees)

    def _sums(
        self, part: Any, arguments: Any, kept: Kept, checkpoint: Checkpoint | None
    ) -> Generator[Kept, None, None]:
        """Sum all leaves; with a checkpoint groups of 16, and the last digits may be others then."""
        door, n, hashed = replace(self.door, columns=self.columns), len(self.leaves), checkpoint is not None
        size, digest = n if checkpoint is None else _GROUP, b""
        groups = [range(start, min(start + size, n)) for start in range(0, n, size)]
        done = [group for group in groups if group.stop <= kept.n_blocks]
        for again in self._trees(done, door, None, (), hashed):
            digest = _joined(digest, again.digest)
        if checkpoint is not None:
            checkpoint.compare(kept, digest)
        rest = groups[len(done) :]
        with closing(self._trees(rest, door, part, arguments, hashed)) as sums:
            for group, more in zip(rest, sums, strict=True):
                if more.error is not None:
                    more.error.sums = more.total
                    raise more.error
                digest = _joined(digest, more.digest)
                yield Kept(group.stop, digest, more.total)


def fit(
    model: Any, X: Any, y: Any = None, *, sample_weight: Any = None, client: Any = None, **options: Any
) -> Any:
    """Return the model after ``model.fit_blocks(DaskBlocks(X, y, sample_weight), **options)``.

    The client is as for `connect`; a local cluster is closed afterwards. The options are ``classes`` and
    ``checkpoint``: if the scheduler is lost, the same call goes on from there.
    """
    source = DaskBlocks(X, y, sample_weight)
    with connect(client):
        return model.fit_blocks(source, **options)


def predict(model: Any, X: Any) -> Any:
    """Return what ``model.predict`` does, as a lazy Dask array with a chunk per block of rows.

    X is a Dask array or dataframe, or a list of Delayed arrays, sparse matrices or frames. The model is sent
    once, however many blocks there are.
    """
    return _lazily(model, X, "predict")[0]


def decision_function(model: Any, X: Any) -> Any:
    """Return what ``model.decision_function`` does, lazily; see `predict`."""
    return _lazily(model, X, "decision_function")[0]


def predict_top_k(model: Any, X: Any, k: int | None = None) -> TopK:
    """Return what ``model.predict_top_k`` does, as two lazy Dask arrays; see `predict`.

    Compute both at once, so that scores are made once: ``TopK(*dask.compute(*top), top.classes)``.
    """
    labels, scores = _lazily(model, X, "predict_top_k", k)
    return TopK(labels, scores, model.classes_)


def _lazily(model: Any, X: Any, *call: Any) -> list[Any]:
    """Return the answers of a method for every block of rows as lazy Dask arrays."""
    sent = delayed(model)
    answers = [delayed(_answers)(sent, chunk, *call) for chunk in _leaves(X)]
    n_rows = X.chunks[0] if hasattr(X, "chunks") else [np.nan] * len(answers)
    # Types and widths are those of the answers to no row.
    empty = _answers(model, np.empty((0, model.n_features_in_), getattr(X, "dtype", np.float64)), *call)
    found = []
    for place, meta in enumerate(empty):
        pairs = zip(answers, [(rows, *meta.shape[1:]) for rows in n_rows], strict=True)
        parts = [da.from_delayed(answer[place], shape, meta=meta) for answer, shape in pairs]
        found.append(da.concatenate(parts, allow_unknown_chunksizes=True))
    return found


def _answers(model: Any, chunk: Any, method: str, *arguments: Any) -> tuple[Any, ...]:
    """Return what a method answers for a chunk of rows."""
    n_rows, dtype = chunk.shape[0], getattr(chunk, "dtype", np.float64)
    if not n_rows:  # which models refuse: they get a row of zeros
        model, chunk = model._unnamed(), np.zeros((1, model.n_features_in_), dtype)
    found = getattr(model, method)(chunk, *arguments)
    return tuple(part[:n_rows] for part in (found if isinstance(found, tuple) else (found,)))


def score(model: Any, X: Any, y: Any = None, *, client: Client | str | None = None) -> float:
    """Return ``model.score`` of X and y: average precision, R² of real targets, or accuracy of a 1-D y."""
    targets, flat = model._targets, model.flat_output_
    named = flat or model.classes_.dtype.kind == "O"
    source = DaskBlocks(X, y).checked(targets=targets, classes=model.classes_ if named else None)
    with connect(client):
        check_names("X", source.columns.feature_names, "the fit", model.fitted_.schema.feature_names)
        model = model._unnamed()  # blocks are arrays
        if targets == "binary":
            total, count = source.sum(_values, model)
            if not count:
                raise ValueError("No row has a label, so there is no average precision. Check y.")
            return float(total / count)
        residual, seen = source.sum(_errors, model)
    # As in scikit-learn: a constant target counts 1 if it is met, and 0 otherwise.
    share = np.where(seen.scatter > 0, residual / np.where(seen.scatter > 0, seen.scatter, 1.0), residual > 0)
    return float(np.mean(1.0 - share))


def _values(block: RowBlock, model: Any) -> tuple[float, int]:
    """Return a sum over rows, of average precisions or of right classes, and how many have one."""
    block.check_known()
    if model.flat_output_:
        right = (model.predict(block.X) == model.classes_[1]) == (np.ravel(block.Y) == 1)
        return float(np.sum(right)), len(block)
    values = label_ranking_average_precision(block.Y, model.decision_function(block.X), per_example=True)
    return float(np.nansum(values)), int(np.count_nonzero(~np.isnan(values)))


def _errors(block: RowBlock, model: Any) -> tuple[Any, Spread]:
    """Return the sums of squared residuals of each target, and its squares about the mean."""
    block.check_known()
    Y = block.Y.toarray() if is_sparse(block.Y) else block.Y
    residual = Y - model.predict(block.X).reshape(Y.shape)
    return np.sum(residual**2, axis=0), Spread.of(Y, None)
