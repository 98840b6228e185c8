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
from threading import Lock, current_thread, get_ident
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
# Processes per core, over the last minute, beyond which a second thread of BLAS waits more than it works.
_BUSY = 1.5
_N_CORES = os.cpu_count() or 1  # asking takes longer than the load does
_WORKER = "lrml block"  # how the names of threads begin that work for `map_in_threads`


@cache
def _blas_libraries() -> tuple[Any, ...]:
    """Return the BLAS libraries of the process; finding them takes a millisecond."""
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


class _OneThread:
    """A context in which BLAS uses one thread; may be nested, and entered by several Python threads.

    The number of threads belongs to the process, and threadpoolctl lets only one Python thread change it. So
    the first thread that enters sets it, and restores it when it leaves; for others inside at that time, the
    limit ends early. Takes about 10 µs, 1 µs if nested.
    """

    def __init__(self) -> None:
        self.before: list[int] = []  # the numbers of threads that will be restored; none without a limit
        self._lock = Lock()
        self._owner: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._owner is None:
                self._owner = get_ident()
                self.before = [library.num_threads or 1 for library in _blas_libraries()]
                for library in _blas_libraries():
                    library.set_num_threads(1)
            self._depth += self._owner == get_ident()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._owner != get_ident():
                return
            self._depth -= 1
            if self._depth == 0:
                for library, number in zip(_blas_libraries(), self.before, strict=True):
                    library.set_num_threads(number)
                    # In newer versions of threadpoolctl: others may set it now.
                    getattr(library, "clear_controlling_thread", bool)()
                self._owner, self.before = None, []


one_blas_thread = _OneThread()


def one_blas_thread_if(limited: bool) -> AbstractContextManager[None]:
    """Return the context `one_blas_thread` if it is wanted, or if other processes keep the cores busy.

    This process alone, with as many threads as there are cores, does not. Not every system tells.
    """
    if limited or (hasattr(os, "getloadavg") and os.getloadavg()[0] > _BUSY * _N_CORES):
        return one_blas_thread
    return nullcontext()


def threads_to_share() -> int:
    """Return how many threads may work side by side: as many as BLAS has, were it not limited here.

    A thread that works for `map_in_threads` has none to share.
    """
    if current_thread().name.startswith(_WORKER):
        return 1
    return max(
        one_blas_thread.before or [library.num_threads or 1 for library in _blas_libraries()], default=1
    )


def map_in_threads(
    function: Callable[[_Item], _Result], items: Sequence[_Item], *, ahead: int = 1, small: bool = False
) -> Iterator[_Result]:
    """Yield ``function(item)`` for every item, in order, computed by as many threads as BLAS has.

    NumPy's elementwise functions use one core; blocks side by side use all of them, and BLAS then needs no
    threads of its own. Results come in the order of the items, so sums over them do not depend on the number
    of threads. At most ``ahead`` items beyond the number of threads are started early, so that large results
    do not pile up. Small items are mostly overhead of Python, which threads cannot share; they are computed
    one after the other, with BLAS on one thread.
    """
    threads = 1 if small or len(items) <= 1 else threads_to_share()
    if threads == 1:
        with one_blas_thread if small else nullcontext():
            yield from map(function, items)
        return
    with one_blas_thread, ThreadPoolExecutor(threads, thread_name_prefix=_WORKER) as pool:
        pending: deque[Future[_Result]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= threads + ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
