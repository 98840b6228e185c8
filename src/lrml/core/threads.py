"""Threads: work on blocks in parallel, and BLAS on one thread where several would gain nothing.

The threads of OpenBLAS wait for each other by spinning. If another process holds a core, each of the many
short steps of a decomposition waits until the scheduler has given that core back: an eigendecomposition of
200 × 200 then takes 100 times as long on two threads as on one, while two idle cores do not make it faster.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from threading import Lock, get_ident, local
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
# Processes per core, over the last minute.
_BUSY = 1.5
_N_CORES = os.cpu_count() or 1  # asking takes longer than the load does


@cache
def _blas_libraries() -> tuple[Any, ...]:
    """Return the BLAS libraries of the process; finding them takes a millisecond."""
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


def threads_to_share() -> int:
    """Return how many threads may work side by side: as many as BLAS has, were it not limited here.

    A thread that works for `map_in_threads` has none to share.
    """
    if getattr(_worker, "busy", False):
        return 1
    now = [library.num_threads or 1 for library in _blas_libraries()]
    return max(one_blas_thread.lifted or now, default=1)


_worker = local()


def _begin_work() -> None:
    _worker.busy = True


class _OneThread:
    """A context in which BLAS uses one thread; may be nested, and entered by several Python threads.

    The number of threads belongs to the process, and threadpoolctl lets only one Python thread change it. So
    the first thread that enters sets it, and restores it when it leaves; for others inside at that time, the
    limit ends early. Takes about 10 µs, 1 µs if nested.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: int | None = None
        self._depth = 0
        self._before: list[int] = []

    @property
    def lifted(self) -> list[int]:
        """The numbers of threads that will be restored; none, if there is no limit now."""
        with self._lock:
            return self._before if self._owner is not None else []

    def __enter__(self) -> None:
        with self._lock:
            if self._owner is None:
                self._owner = get_ident()
                self._before = [library.num_threads for library in _blas_libraries()]
                self._set([1] * len(self._before))
            self._depth += self._owner == get_ident()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._owner != get_ident():
                return
            self._depth -= 1
            if self._depth == 0:
                self._owner = None
                self._set(self._before)
                for library in _blas_libraries():  # newer versions of threadpoolctl: others may set it now
                    getattr(library, "clear_controlling_thread", bool)()

    def _set(self, numbers: list[int]) -> None:
        for library, number in zip(_blas_libraries(), numbers, strict=True):
            library.set_num_threads(number)


one_blas_thread = _OneThread()


def one_blas_thread_if(limited: bool) -> AbstractContextManager[None]:
    """Return the context `one_blas_thread` if it is wanted, or if others keep the cores busy."""
    return one_blas_thread if limited or machine_is_busy() else nullcontext()


def machine_is_busy() -> bool:
    """Whether so many processes want to run that a second thread of BLAS would wait more than it works.

    One process alone, with as many threads as there are cores, does not make it so. False where the system
    does not tell.
    """
    if not hasattr(os, "getloadavg"):
        return False
    return os.getloadavg()[0] > _BUSY * _N_CORES


def map_in_threads(
    function: Callable[[_Item], _Result], items: Sequence[_Item], *, ahead: int = 1, small: bool = False
) -> Iterator[_Result]:
    """Yield ``function(item)`` for every item, in order, computed by as many threads as BLAS has.

    NumPy's elementwise functions use one core; blocks side by side use all of them, and BLAS then needs no
    threads of its own. Results come in the order of the items, so sums over them do not depend on the number
    of threads. A result is kept until its turn comes; at most ``ahead`` items beyond the number of threads
    are started early, so that large results do not pile up. Small items are mostly overhead of Python, which
    threads cannot share; they are computed one after the other, with BLAS on one thread.
    """
    if small:
        with one_blas_thread:
            yield from map(function, items)
        return
    threads = threads_to_share() if len(items) > 1 else 1
    if threads == 1:
        yield from map(function, items)
        return
    with one_blas_thread, ThreadPoolExecutor(threads, initializer=_begin_work) as pool:
        pending: deque[Future[_Result]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= threads + ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
