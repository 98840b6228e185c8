"""Files of results: rendered in memory, written under a temporary name, moved into place."""

from __future__ import annotations

import csv
import io
import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


class OutputError(OSError):
    """A result cannot be written; the message names the rule, the place and a remedy."""


def writable_folder(path: str | os.PathLike[str]) -> Path:
    """Create a folder if needed and make sure, before any work is done, that files can be written into it."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = "it is a file" if folder.is_file() else error.strerror
        raise OutputError(
            f"the output must be a folder that can be written, got {os.fspath(path)!r} ({reason}). "
            "Choose another folder."
        ) from error
    return folder


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file such that it is there as a whole or not at all.

    The bytes go to a temporary name in the same folder, which is then renamed over ``path``. If anything
    fails on the way, an older file of that name stays as it was and the temporary one is removed.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except OSError as error:
        raise OutputError(
            f"a result must be written to {os.fspath(path)!r}, got an error ({error.strerror}). "
            "Free some space or choose another folder, and run again."
        ) from error
    finally:
        temporary.unlink(missing_ok=True)


def to_csv(records: Iterable[Mapping[str, Any]]) -> bytes:
    """Encode records with the same keys as CSV; None becomes an empty cell."""
    rows = [{key: _rounded(value) for key, value in record.items()} for record in records]
    stream = io.StringIO()
    writer = csv.DictWriter(stream, fieldnames=list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue().encode()


def to_json(document: Any) -> bytes:
    """Encode plain data as indented JSON, keys in the order given."""
    text = json.dumps(_rounded(document), indent=2, ensure_ascii=False, allow_nan=False)
    return f"{text}\n".encode()


def _rounded(value: Any) -> Any:
    """Round every float to ten digits: beyond that, machines differ in the order of their sums."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(item) for item in value]
    return value
