"""Finished jobs on disk: an append-only file, and a side file for the arrays of each job."""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lrml._files import OutputError, atomic_file, remove_remains, writable_folder

if sys.platform != "win32":
    import fcntl

Record: TypeAlias = dict[str, Any]

_STATUSES = "ok", "failed"
# What every record has, and of which type.
_FIELDS: dict[str, Any] = {
    "key": str,
    "payload": dict,
    "status": str,
    "error": str | None,
    "result": dict,
    "arrays": dict | None,
    "seconds": int | float,
    "warnings": list,
    "versions": dict,
    "machine": dict,
}


class StoreError(OutputError):
    """A results folder cannot be used; the message names the rule, the place and a remedy."""


class Store:
    """Records of finished jobs in a folder.

    ``results.jsonl`` has one JSON line per finished job; a later line replaces an earlier one of the same
    key. ``examples/{key}.npz`` has the arrays of a job, if it gave any. It is in place before the line is
    written, so a line never refers to a missing file.

    Parameters
    ----------
    folder : path
        It is made by the first writer.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.path = self.folder / "results.jsonl"

    def records(self) -> dict[str, Record]:
        """Read the last record of each key; a torn last line, of a process that was killed, is left out."""
        try:
            lines = self.path.read_bytes().split(b"\n")
        except FileNotFoundError:
            return {}
        found = {}
        for number, line in enumerate(
            lines[:-1], start=1
        ):  # what follows the last line break is torn, or empty
            record = self._parsed(line, number)
            found[record["key"]] = record
        return found

    def _parsed(self, line: bytes, number: int) -> Record:
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise self._damaged(number, f"not JSON: {error}") from None
        if not isinstance(record, dict):
            raise self._damaged(number, f"a {type(record).__name__}")
        wrong = [name for name, kind in _FIELDS.items() if not isinstance(record.get(name, ...), kind)]
        if wrong or record["status"] not in _STATUSES:
            raise self._damaged(number, f"no record: see {', '.join(wrong or ['status'])}")
        return record

    def _damaged(self, number: int, reason: str) -> StoreError:
        return StoreError(
            f"every line of {os.fspath(self.path)!r} must be the record of a finished job, got another in "
            f"line {number} ({reason}). Delete this line (its job will run again) or choose another folder."
        )

    def is_intact(self, record: Record) -> bool:
        """Tell whether a record is of a job that went well and whose arrays, if any, are whole on disk."""
        if record["status"] != "ok" or record["arrays"] is None:
            return bool(record["status"] == "ok")
        try:
            content = self.examples_path(record["key"]).read_bytes()
        except OSError:
            return False
        return bool(_fingerprint(content) == record["arrays"])

    def examples_path(self, key: str) -> Path:
        """Return where the arrays of a job are, if there are any."""
        return self.folder / "examples" / f"{key}.npz"

    def arrays(self, key: str) -> dict[str, NDArray[Any]]:
        """Read the arrays of a job."""
        with np.load(self.examples_path(key), allow_pickle=False) as archive:
            return dict(archive)

    @contextmanager
    def writer(self) -> Iterator[Writer]:
        """Open the folder for writing; there is one writer at a time, among all processes."""
        writable_folder(self.folder / "examples")
        with _locked(self.folder):
            remove_remains(self.folder / "examples")  # we have the lock, so no other process is writing
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
            descriptor = os.open(self.path, flags, 0o666)
            try:
                yield Writer(self, descriptor)
            finally:
                os.close(descriptor)


class Writer:
    """The right to add records to a store: see `Store.writer`."""

    def __init__(self, store: Store, descriptor: int) -> None:
        self._store = store
        self._descriptor = descriptor

    def append(self, record: Record, arrays: bytes | None = None) -> Record:
        """Add a record, with arrays packed by `packed_arrays`, and return it as it will be read.

        The record is on disk when this returns. If that fails, the file is as long as it was before.
        """
        record = {**record, "arrays": None if arrays is None else _fingerprint(arrays)}
        line = plain_json(record).encode() + b"\n"
        if arrays is not None:
            with atomic_file(self._store.examples_path(record["key"])) as stream:
                stream.write(arrays)
                stream.flush()
                os.fsync(stream.fileno())  # before the line, also on the disk itself
        length = self._cut_torn_line()
        try:
            written = os.write(self._descriptor, line)
            if written == len(line):
                os.fsync(self._descriptor)
        except OSError as error:
            os.ftruncate(self._descriptor, length)
            raise self._unwritten(error.strerror or "no reason given") from error
        if written < len(line):
            os.ftruncate(self._descriptor, length)
            raise self._unwritten(f"{written} of {len(line)} bytes")
        parsed: Record = json.loads(line)
        return parsed

    def _cut_torn_line(self) -> int:
        """Make the file end with a whole line, so that the next one is not glued to it; return its length."""
        length = os.lseek(self._descriptor, 0, os.SEEK_END)
        if length and self._read(length - 1, 1) != b"\n":
            length = self._read(0, length).rfind(b"\n") + 1
            os.ftruncate(self._descriptor, length)
        return length

    def _read(self, start: int, size: int) -> bytes:
        os.lseek(self._descriptor, start, os.SEEK_SET)
        chunks = []
        while size and (chunk := os.read(self._descriptor, size)):
            chunks.append(chunk)
            size -= len(chunk)
        return b"".join(chunks)

    def _unwritten(self, reason: str) -> StoreError:
        return StoreError(
            f"a record must be written to {os.fspath(self._store.path)!r} as a whole, got {reason}. "
            "Free some space and run again: what is finished stays."
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder; the system releases it when the process ends, however it ends."""
    with (folder / ".lock").open("ab") as stream:  # to append: what a planted link points to is not emptied
        if sys.platform != "win32":  # there are no such locks on Windows: nothing stops a second run there
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(
                    f"only one run may work in a results folder at a time, got {os.fspath(folder)!r}, where "
                    "another run is at work. Wait until it ends, stop it, or choose another folder."
                ) from None
        yield


def _fingerprint(content: bytes) -> dict[str, int]:
    return {"bytes": len(content), "crc32": zlib.crc32(content)}


def plain_json(value: Any) -> str:
    """Encode data on one line; NumPy's scalars become Python's, numbers that are not finite become null."""
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def packed_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Return a compressed npz file without clock times: the same arrays give the same bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in sorted(arrays):
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # otherwise the bytes would differ on Windows
            with archive.open(entry, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(arrays[name]), allow_pickle=False)
    return stream.getvalue()
