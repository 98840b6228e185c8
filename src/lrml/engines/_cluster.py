"""One round of a cluster of Dask: a sum over the leaves of some data, whoever computes what.

Each leaf is read and summed by a task of its own, and sums of four neighbours are merged, by their place in
the data, until one is left. Which worker did what, how many there were and which of them were lost makes no
difference, not even to the last bit. Only sums travel.
"""

# mypy: allow-untyped-calls
# Dask has few annotations.

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from functools import partial
from itertools import islice
from time import monotonic, sleep
from typing import Any, NamedTuple, TypeAlias
from uuid import uuid4

import dask
from dask.base import optimize
from dask.delayed import Delayed, delayed
from dask.utils import parse_timedelta
from distributed import Client, KilledWorker, LocalCluster, wait
from distributed.comm.addressing import resolve_address
from distributed.comm.core import CommClosedError

from lrml._shown import shown
from lrml.engines._workers import Summed, Work, joined, merged, outline_of, panel_of, sum_leaf

# A sum on the cluster, or all panels of one, as futures or as what is to be computed.
Node: TypeAlias = list[Any]
# First and last row of each panel; none, if a sum is one panel.
Panels: TypeAlias = Sequence[tuple[int, int]]
# How many sums one task merges.
_FAN_IN = 4
# Leaves whose sum is asked for at a time, at least: a power of the number above.
_GROUP = _FAN_IN**2
# Seconds between two looks at the workers, and how long there may be none; a setting of Dask may change that.
_PAUSE, _PATIENCE, _PATIENCE_SETTING = 1.0, 30.0, "lrml.worker-timeout"
# How often a group is tried whose workers die, and how often the scheduler of `connect` tries a task.
_ATTEMPTS, _ALLOWED_FAILURES = 3, 10
# Seconds before a group is tried again.
_BEFORE_AGAIN = 0.2


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
    client = current_client() if client is None else client
    if isinstance(client, Client):
        with client.as_current():
            yield client
    elif client is None:
        with (
            _local_cluster(options) as cluster,
            Client(cluster, set_as_default=False) as own,
            own.as_current(),
        ):
            yield own
    elif not isinstance(client, str):
        raise TypeError(
            "client must be a distributed.Client or the address of a scheduler, got "
            f"{type(client).__name__}. Use: with lrml.engines.dask.connect(address) as client."
        )
    else:
        try:
            resolve_address(client)  # a client of an address in the wrong form would never let go
            own = Client(client, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ClusterError(
                f"a scheduler must answer at its address, got {shown(client)}, where none does ({error}). "
                "Start one with `dask scheduler`, and pass the address that it prints."
            ) from error
        with own, own.as_current():
            yield own


def current_client() -> Client | None:
    """Return the client that Dask would use; None if there is none."""
    try:
        return Client.current()  # type: ignore[no-any-return]
    except ValueError:
        return None


@contextmanager
def _local_cluster(options: dict[str, Any]) -> Iterator[LocalCluster]:
    usual: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": ":0"}
    # Every task on a worker that dies counts as a suspect, and three deaths are soon reached.
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": _ALLOWED_FAILURES}),
        LocalCluster(**usual | options) as cluster,
    ):
        yield cluster


class Leaf(NamedTuple):
    """What one task reads, and its first block and row in the whole; None if the rows are not counted."""

    blocks: Delayed
    first_block: int
    first_row: int | None


class Group(NamedTuple):
    """The sum of some leaves: the number of the next leaf, the sum on the cluster, and all but the sum."""

    start: int
    stop: int
    node: Node
    outline: Summed


class Cluster:
    """A cluster that adds up sums of leaves."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def groups(
        self, leaves: Sequence[Leaf], numbers: range, work: Work, panels: Panels = ()
    ) -> Iterator[Group]:
        """Yield the sums of one group of leaves after the other.

        A few groups are under way at a time, so that neither tasks nor sums pile up.
        """
        size = group_size(len(leaves))
        with self.errors():
            order = self._sent(work)
            ahead = max(2, math.ceil(2 * sum(self.client.nthreads().values()) / size))
        starts = range(numbers.start, numbers.stop, size)
        upcoming = iter([(start, min(start + size, numbers.stop)) for start in starts])
        running: deque[tuple[int, int, Callable[[], Node], Node]] = deque()
        while True:
            for start, stop in islice(upcoming, ahead - len(running)):
                ask = partial(self._submitted, leaves[start:stop], order, panels)
                running.append((start, stop, ask, ask()))
            if not running:
                return
            start, stop, again, futures = running.popleft()
            *node, outline = self._settled(futures, again)
            found: Summed = self.result(outline)
            yield Group(start, stop, node, found)

    def _submitted(self, leaves: Sequence[Leaf], order: Any, panels: Panels) -> Node:
        """Ask for the sum of some leaves, in panels if there are any, and for its outline."""
        tree = Tree(lambda nodes: [delayed(merged, pure=False)(list(p)) for p in zip(*nodes, strict=True)])
        for leaf in leaves:
            summed = delayed(sum_leaf, pure=False)(*leaf, order)
            tree.push([delayed(panel_of, pure=False)(summed, *rows) for rows in panels] or [summed])
        node = tree.root()
        with self.errors():
            futures: Node = self.client.compute([*node, delayed(outline_of, pure=False)(node[0])])
        return futures

    def _settled(self, futures: Node, again: Callable[[], Node]) -> Node:
        """Wait for futures; ask again for those that ended because workers died, but not for ever."""
        for attempt in range(1, _ATTEMPTS + 1):
            self._wait(futures)
            failed = next((future for future in futures if future.status == "error"), None)
            if failed is None:
                break
            error = failed.exception()
            if not isinstance(error, KilledWorker | MemoryError):
                raise error
            if attempt == _ATTEMPTS:
                raise _too_large(error) from error
            for future in futures:  # or the scheduler would repeat its answer, as it does until it knows
                future.release()
            sleep(_BEFORE_AGAIN * attempt)
            futures = again()
        return futures

    def merged(self, nodes: Sequence[Node]) -> Node:
        """Ask for the sum of some sums."""
        with self.errors():
            return [self.client.submit(merged, list(p), pure=False) for p in zip(*nodes, strict=True)]

    def fetched(self, node: Node) -> Summed:
        """Bring a sum to this process, one panel at a time."""
        return joined(self.result(future) for future in node)

    def called(self, function: Callable[..., Any], *arguments: Any, work: Work) -> Any:
        """Return what a function returns on a worker."""
        with self.errors():
            (task,) = optimize(delayed(function, pure=False)(*arguments, self._sent(work)))
            asked = self.client.compute(task)
        return self.result(asked)

    def result(self, future: Any) -> Any:
        """Bring the result of a future to this process."""
        self._wait([future])
        with self.errors():
            return future.result()

    def _wait(self, futures: Node) -> None:
        """Wait until futures are done, but not for ever if there are no workers."""
        seen = monotonic()
        with self.errors():
            while True:
                try:
                    wait(futures, timeout=_PAUSE)
                except TimeoutError:
                    now, patience = monotonic(), dask.config.get(_PATIENCE_SETTING, _PATIENCE)
                    seen = now if self.client.nthreads() else seen
                    if now - seen >= parse_timedelta(patience):
                        raise _without_workers(now - seen) from None
                else:
                    return

    def _sent(self, work: Work) -> Any:
        """Send what all tasks of a round need, once.

        It is a task, which the scheduler repeats if all workers that have its result are lost; what is
        scattered would be gone.
        """
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self.client.compute(literal(work))

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Let Dask use this client, and say what to do if the scheduler is lost or workers keep dying."""
        try:
            with self.client.as_current():
                yield
        except KilledWorker as error:
            raise _too_large(error) from error
        except (CancelledError, OSError, RuntimeError) as error:
            # A client takes a moment to notice that a connection which was reset belonged to its scheduler.
            lost = isinstance(error, CancelledError | CommClosedError)
            alive = self.client.status == "running" and not lost
            if alive or isinstance(error, ClusterError):
                raise
            raise ClusterError(
                f"the scheduler must stay up, got a lost connection ({type(error).__name__}). Start it and "
                "repeat the call, which goes on from where it was if it is given a checkpoint."
            ) from error


class Tree:
    """Nodes that come one by one and are merged with their neighbours, by their numbers alone."""

    def __init__(self, merge: Callable[[Sequence[Node]], Node]) -> None:
        self._merge = merge
        self._levels: list[list[Node]] = []

    def push(self, node: Node, level: int = 0) -> None:
        """Add the next node."""
        if level == len(self._levels):
            self._levels.append([])
        self._levels[level].append(node)
        if len(self._levels[level]) == _FAN_IN:
            full, self._levels[level] = self._levels[level], []
            self.push(self._merge(full), level + 1)

    def root(self) -> Node:
        """Merge what is left, from the bottom to the top."""
        rest: list[Node] = []
        for nodes in self._levels:
            rest = [*nodes, *rest]
            rest = [self._merge(rest)] if len(rest) > 1 else rest
        return rest[0]


def group_size(n_leaves: int) -> int:
    """Return a power of the fan-in, 16 at least, no less than the number of groups of this size."""
    size = _GROUP
    while size**2 < n_leaves:
        size *= _FAN_IN
    return size


def literal(value: Any) -> Delayed:
    """Return a task whose result is a value, as it is."""
    return delayed(value, name=f"lrml-{uuid4().hex}", traverse=False)  # type: ignore[no-any-return]


def _without_workers(seconds: float) -> ClusterError:
    return ClusterError(
        f"a cluster must have workers, got none for {seconds:.0f} s. Start some (`dask worker ADDRESS`, or "
        "cluster.scale(2)), or let it wait longer for them with dask.config.set({'"
        f"{_PATIENCE_SETTING}': '10 min'}})."
    )


def _too_large(error: BaseException) -> ClusterError:
    return ClusterError(
        "a block and its sum must fit into the memory of a worker, got one that ended its workers "
        f"({type(error).__name__}: {error}). Use smaller blocks (X.rechunk, fewer rows) or larger workers; "
        "if they died of something else, raise distributed.scheduler.allowed-failures to 10."
    )
