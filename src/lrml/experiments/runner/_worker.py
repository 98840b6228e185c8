"""The inside of a worker process."""

from __future__ import annotations

import os
import pickle
import signal
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from threading import Thread
from typing import Any

from lrml.experiments.runner._jobs import Outcome, Reply, Work
from lrml.experiments.runner._store import packed_arrays, plain_json

# Where these come up depends on what a worker has imported or thrown away before, not on the job.
_NOT_OF_THE_JOB = DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning


def serve(connection: Connection, pickled_work: bytes) -> None:
    """Say "" if all is well, or what is not; then answer each payload with a reply, until there are no more.

    The work function comes pickled, for loading it imports its module, which may take long; Ctrl-C and the
    death of the parent have to be dealt with before.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the parent decides
    Thread(target=_die_with_parent, daemon=True).start()
    with suppress(EOFError, OSError):  # of the pipe: the parent has gone, which is no news for the terminal
        _answer(connection, pickled_work)


def _answer(connection: Connection, pickled_work: bytes) -> None:
    try:
        work = pickle.loads(pickled_work)
    except Exception as error:
        connection.send(_described(error))
        return
    connection.send("")
    while True:
        connection.send(_attempt(work, connection.recv()))


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)  # nothing is left to tell, and no one to tell it to


def _attempt(work: Work, payload: dict[str, Any]) -> Reply:
    """Call the work function; an exception, also one that ends a program, fails this job and no other."""
    texts: set[str] = set()
    start = time.perf_counter()
    try:
        with _warnings_to(texts):
            outcome = work(payload)
        seconds = time.perf_counter() - start
        if not isinstance(outcome, Outcome):
            raise TypeError(
                f"the work function must return an Outcome, got {outcome!r}. Return Outcome(result={{...}})."
            )
        result = plain_json(outcome.result)
        arrays = None if outcome.arrays is None else packed_arrays(outcome.arrays)
    except BaseException as error:
        seconds = time.perf_counter() - start
        return Reply("failed", _described(error), seconds, tuple(sorted(texts)))
    return Reply("ok", None, seconds, tuple(sorted(texts)), result, arrays)


@contextmanager
def _warnings_to(texts: set[str]) -> Iterator[None]:
    """Collect each text once; a list of all warnings could outgrow the memory."""

    def collect(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
        texts.add(f"{category.__name__}: {message}")

    with warnings.catch_warnings():
        warnings.simplefilter("always")  # whatever an earlier job of this worker has met before
        for category in _NOT_OF_THE_JOB:
            warnings.simplefilter("ignore", category)
        warnings.showwarning = collect
        yield


def _described(error: BaseException) -> str:
    """Return type, message and place; of the path only the file name, as folders can tell who ran it."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return (
        f"{type(error).__name__}: {error} ({Path(place.filename).name}, line {place.lineno}, in {place.name})"
    )
