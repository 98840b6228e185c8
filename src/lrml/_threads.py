"""Work on blocks in parallel, with one BLAS thread each."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from threadpoolctl import ThreadpoolController

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_in_threads(
    function: Callable[[_Item], _Result], items: Sequence[_Item], *, ahead: int = 1
) -> Iterator[_Result]:
    """Yield ``function(item)`` for every item, in order, computed by as many threads as BLAS would use.

    NumPy's elementwise functions use one core; blocks side by side use all of them, and BLAS then needs no
    threads of its own. Results come in the order of the items, so sums over them do not depend on the number
    of threads. A result is kept until its turn comes; at most ``ahead`` items beyond the number of threads
    are started early, so that large results do not pile up.
    """
    if len(items) < 2:  # small data: nothing to share, and asking for the threads takes longer than the work
        yield from map(function, items)
        return
    controller = ThreadpoolController().select(user_api="blas")
    threads = max((library["num_threads"] for library in controller.info()), default=1)
    if threads == 1:
        yield from map(function, items)
        return
    with controller.limit(limits=1), ThreadPoolExecutor(threads) as pool:
        pending: deque[Future[_Result]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= threads + ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
