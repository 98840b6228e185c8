"""Sums over the first blocks, in a file: a run that was killed goes on from there."""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import numpy as np

from lrml._files import OutputError, load_arrays, output_errors, save_arrays
from lrml._shown import counted, shown
from lrml.core.arrays import is_sparse
from lrml.core.moments import Statistics
from lrml.core.rows import Rows

# What a checkpoint says of itself.
_FORMAT = "lrml checkpoint 1"


def digest_of(block: Rows, before: bytes) -> bytes:
    """Return a hash of this block and all before it."""
    found = hashlib.blake2b(before, digest_size=16)
    unknown = None if block.mask is None else block.mask.pattern
    parts: tuple[Any, ...] = (block.X, block.Y, block.weights, unknown)
    for matrix in parts:
        if matrix is None:
            found.update(b"none")
            continue
        # The same bytes may be another matrix in another shape.
        found.update(f"{matrix.shape} {matrix.dtype.str} {is_sparse(matrix)}".encode())
        for array in (matrix.indptr, matrix.indices, matrix.data) if is_sparse(matrix) else (matrix,):
            contiguous: Any = np.ascontiguousarray(array)
            found.update(contiguous)
    return found.digest()


@dataclass(frozen=True, eq=False)
class Kept:
    """A sum over the first blocks: how many, a hash of them, and the sum."""

    n_blocks: int = 0
    digest: bytes = b""
    total: Any = None


class Checkpoint:
    """A file that keeps the sum over the blocks so far, so that a run that was killed can go on.

    The run that goes on adds the remaining blocks in the same order, and ends with the same bits.

    Parameters
    ----------
    path : path-like
        The file. It appears whole or not at all, and stays until the caller removes it.
    kind : type, default=Statistics
        What is summed: a class with ``absorb``, ``to_arrays`` and ``from_stored``.
    seconds : float, default=30
        Least time between two writes; 0 writes after every block.
    """

    def __init__(self, path: str | os.PathLike[str], kind: Any = Statistics, seconds: float = 30.0) -> None:
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"checkpoint is {shown(path)}. Pass the path of a file, or a Checkpoint.")
        self.path, self.kind, self.seconds = Path(path), kind, seconds
        self._last, self._written, self._failed = monotonic(), 0, False

    @classmethod
    def of(cls, given: Any, kind: Any = Statistics) -> Checkpoint | None:
        """Return a checkpoint of such sums for a path or another checkpoint; None for None."""
        if isinstance(given, Checkpoint):
            return cls(given.path, kind, given.seconds)
        return None if given is None else cls(given, kind)

    def start(self) -> Kept:
        """Return what the file has, or an empty sum; refuse a place where it cannot be written."""
        self._last, self._written = monotonic(), 0
        if self.path.is_dir():
            raise IsADirectoryError(
                f"the checkpoint {os.fspath(self.path)!r} is a folder. Name a file in it."
            )
        if not self.path.exists():
            with output_errors(self.path), tempfile.TemporaryFile(dir=self.path.parent):
                return Kept()
        arrays = load_arrays(self.path, _FORMAT)
        self._written, digest = int(arrays.pop("n_blocks")), arrays.pop("digest").tobytes()
        return Kept(self._written, digest, self.kind.from_stored(arrays, self.path))

    def compare(self, kept: Kept, digest: bytes) -> None:
        """Refuse a checkpoint of other blocks than those at hand."""
        if digest != kept.digest:
            raise ValueError(
                f"the checkpoint {os.fspath(self.path)!r} has {counted(kept.n_blocks, 'block')} of other "
                "rows. Pass the same data, in the same blocks and with the same options, or delete it."
            )

    def keep(self, state: Kept, *, at_once: bool = False) -> None:
        """Write the state, unless the last write was a moment ago or had the same, or there is no sum.

        Where that fails, a warning says so, and the next attempt is made as usual: a full disk does not end a
        fit.
        """
        late = at_once or monotonic() - self._last >= self.seconds
        if state.total is None or state.n_blocks == self._written or not late:
            return
        digest = np.frombuffer(state.digest, dtype=np.uint8)
        arrays = {"n_blocks": np.asarray(state.n_blocks), "digest": digest} | state.total.to_arrays()
        try:
            save_arrays(self.path, _FORMAT, arrays)
            self._failed, self._written = False, state.n_blocks
        except OutputError as error:
            if not self._failed:
                self._failed = True
                reason = getattr(error.__cause__, "strerror", error)
                warnings.warn(
                    f"the checkpoint {os.fspath(self.path)!r} cannot be written ({reason}). The fit goes on "
                    "and tries again later. Free some space, or a stop loses its sums.",
                    RuntimeWarning,
                    stacklevel=2,
                )
        self._last = monotonic()
