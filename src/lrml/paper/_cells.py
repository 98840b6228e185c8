"""Cells of a run, each computed once: one file per cell, named by a hash of all that determines it.

A worker writes its file itself, whole or not at all. So a run may be killed at any moment, and the next one
goes on with the cells that have no file. Nothing else is kept: no list of what is finished, and no lock.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from multiprocessing import active_children, get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from lrml._files import remove_remains, writable_folder, write_atomically
from lrml.paper._plan import Cell

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]
Work: TypeAlias = Callable[[Cell], tuple[Mapping[str, Any], Mapping[str, npt.NDArray[Any]]]]

_START: Literal["spawn"] = "spawn"  # the same everywhere, and nothing of the parent is inherited
_NAMED = ("kind", "dataset", "protocol", "axis", "method", "theta", "alpha", "seed")
_ABSENT_OR_DAMAGED = (FileNotFoundError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error)
_DIED = "The worker process died. It may have run out of memory."
_MOST_DEATHS = 3  # more say something about the machine, or the program, and not about cells


class Result(NamedTuple):
    """A finished cell: what it is of, plain data, and arrays."""

    cell: Cell
    values: dict[str, Any]
    arrays: Arrays


def name_of(cell: Cell) -> str:
    """Return the name of a cell's file: in words what it is of, and a hash of all that determines it."""
    words = [Path(str(cell[key])).name for key in _NAMED if cell.get(key) is not None]  # data may be a file
    digest = hashlib.sha256(json.dumps(cell, sort_keys=True).encode()).hexdigest()
    return f"{'-'.join(words)}-{digest[:12]}"


def run_cells(
    cells: Sequence[Cell],
    work: Work,
    folder: str | os.PathLike[str],
    *,
    n_workers: int,
    tell: Callable[[int, int, Cell], None] | None = None,
) -> tuple[list[Result], dict[str, str]]:
    """Compute the cells that have no file yet; return all results, and by name what went wrong elsewhere.

    Cells are plain data that JSON can hold, and are begun in their order. ``work``, at the top level of a
    module, returns plain data and arrays of one. One run at a time works in a folder, with so many processes,
    each of one thread for linear algebra; results do not depend on their number. ``tell`` is told how many
    cells are done, of how many, and which was the last. What failed is tried again by the next run.
    """
    named = {name_of(cell): cell for cell in cells}
    home = writable_folder(folder)
    remove_remains(home)
    paths = {name: home / f"{name}.npz" for name in named}
    failures: dict[str, str] = {}
    alone = False
    while waiting := {
        name: cell for name, cell in named.items() if name not in failures and _read(paths[name]) is None
    }:
        done = len(named) - len(waiting) - len(failures)
        # Cells are begun in order, so a worker that died had one of the first.
        begun = dict(islice(waiting.items(), n_workers)) if alone else waiting
        try:
            for name, error in _computed(begun, work, paths, 1 if alone else n_workers):
                if error is None:
                    done += 1
                else:
                    failures[name] = error
                if tell is not None:
                    tell(done, len(named), named[name])
            alone = False
        except BrokenProcessPool as error:  # a worker was killed; of several, nobody knows which cell it had
            if alone or n_workers == 1:
                failures[next(name for name in waiting if _read(paths[name]) is None)] = _DIED
            if list(failures.values()).count(_DIED) >= _MOST_DEATHS:
                raise OSError(
                    "Worker processes die again and again. Free some memory, or run one at a time, --jobs 1, "
                    "and run again: what is finished is kept."
                ) from error
            alone = True  # with all of the memory
    found = [(cell, _read(paths[name])) for name, cell in named.items()]
    return [Result(cell, *content) for cell, content in found if content is not None], failures


def _computed(
    cells: Mapping[str, Cell], work: Work, paths: Mapping[str, Path], n_workers: int
) -> Iterator[tuple[str, str | None]]:
    """Yield names of cells as they are finished, with what went wrong; leaving this ends all workers."""
    before = set(active_children())
    context = get_context(_START)
    pool = ProcessPoolExecutor(min(n_workers, len(cells)), context, initializer=_begin, initargs=(work,))
    try:
        tasks = {pool.submit(_attempt, work, cell, paths[name]): name for name, cell in cells.items()}
        for task in as_completed(tasks):
            yield tasks[task], task.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(active_children()) - before:
            worker.kill()  # it owns nothing that needs cleaning up
            worker.join()


def _read(path: Path) -> tuple[dict[str, Any], Arrays] | None:
    """Return values and arrays of a cell; None if it has no file, or a damaged one."""
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = dict(stored)
        return json.loads(str(arrays.pop("values"))), arrays
    except _ABSENT_OR_DAMAGED:
        return None


# Inside a worker process


def _begin(work: Work) -> None:
    """Prepare a worker, which has imported the module of ``work``, and with it NumPy, to get here."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the terminal sends it to all; the parent decides
    warnings.simplefilter("ignore")  # the values say what did not converge
    threadpool_limits(1)  # parallelism comes from the number of workers
    Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _attempt(work: Work, cell: Cell, path: Path) -> str | None:
    """Compute a cell and write its file; return what went wrong, which is no reason to end the run."""
    try:
        values, arrays = work(cell)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    content = io.BytesIO()
    text = json.dumps(values, ensure_ascii=False, default=lambda number: number.item())  # NumPy's scalars
    named: dict[str, Any] = {"values": np.array(text), **arrays}
    np.savez_compressed(content, **named)
    write_atomically(path, content.getvalue())
    return None
