"""Blocks and sums for tests on a cluster: a module of its own, because the workers import it by name."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from lrml.blocks import RowBlock

N_FEATURES, N_LABELS, N_ROWS = 12, 5, 30


def make(number: int, rows: int = N_ROWS) -> tuple[Any, Any]:
    """Return a block of rows that depends on its number alone."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(rows, N_FEATURES)) + 1.0
    scores = X @ np.random.default_rng(0).normal(size=(N_FEATURES, N_LABELS))
    return X, (scores + rng.normal(size=scores.shape) > 1.0).astype(np.float64)


def everything(n_blocks: int) -> tuple[Any, Any]:
    """Return all blocks as one."""
    X, Y = zip(*map(make, range(n_blocks)), strict=True)
    return np.vstack(X), np.vstack(Y)


def weights(rows: int) -> Any:
    """Return a weight for each of the first rows."""
    return 0.5 + np.arange(rows) % 7


def sparse(number: int) -> tuple[Any, Any, Any]:
    """Return a sparse block with weights."""
    X, Y = make(number)
    return sp.csr_array(X), sp.csr_array(Y), weights(N_ROWS * (number + 1))[-N_ROWS:]


def spoiled(number: int, row: int) -> tuple[Any, Any]:
    """Return a block with a missing value."""
    X, Y = make(number)
    X[row, 3] = np.nan
    return X, Y


def _first_time(folder: str, event: str) -> bool:
    try:
        Path(folder, event).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def killing(number: int, folder: str) -> tuple[Any, Any]:
    """Kill the process that reads the block for the first time."""
    if _first_time(folder, f"killed {number}"):
        os.kill(os.getpid(), signal.SIGKILL)
    return make(number)


def short_of_memory(number: int, folder: str | None) -> tuple[Any, Any]:
    """Raise MemoryError the first time, or every time if there is no folder."""
    if folder is None or _first_time(folder, f"short {number}"):
        raise MemoryError("no room for this block")
    return make(number)


def killing_scheduler(number: int, pid: int, checkpoint: str) -> tuple[Any, Any]:
    """Kill the scheduler at block 35, when the first groups of 16 blocks are summed up, or almost."""
    if number == 35:
        while not Path(checkpoint).exists():
            time.sleep(0.02)
        time.sleep(0.5)  # nothing is on its way then
        os.kill(pid, signal.SIGKILL)
        time.sleep(300)
    return make(number)


@dataclass(frozen=True)
class Trail:
    """The order in which blocks were added."""

    steps: tuple[Any, ...]

    def absorb(self, other: Trail) -> Trail:
        return Trail(self.steps + other.steps)


def trail(block: RowBlock, factor: Any) -> Trail:
    """Return the number of a block times a factor, and which part of it this is."""
    return Trail(((block.index * int(factor.sum()), block.piece),))
