"""The container: a safetensors file whose metadata carry one JSON document and a checksum of everything.

Its one entry, "lrml", is the checksum in 64 digits, a space, and the document.

The library of that name reads and writes it: it compares what a header declares with the size of the file
before anything is allocated. What it does not promise is added here: a limit on the values of the header,
which JSON unfolds to many times their length, and a checksum.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from lrml._files import write_atomically
from lrml._shown import printable, shortened, shown
from lrml._version import __version__

Tensors = Mapping[str, npt.NDArray[Any]]

FORMAT = "1"
"""The format that is written; no other can be read."""
# Bytes of the header, and brackets and commas in it: an empty list of 3 bytes takes 64 of memory.
_MOST_HEADER, _MOST_MARKS = 32 << 20, 500_000


class ModelFileError(ValueError):
    """A file is not a model that can be loaded; the message says what was found and what to do."""


@contextmanager
def sound(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let whatever goes wrong while a file is read mean that it holds no sound model."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(f"There is no file {os.fspath(path)!r}. Check the path.") from error
    except (OSError, MemoryError, ModelFileError):
        raise
    except Exception as error:  # a forged file may lead to any
        reason = shortened(printable(str(error)))
        raise ModelFileError(
            f"{os.fspath(path)!r} is no sound model file: {reason}. Pass one that lrml.save or lrml fit has "
            "written, or save the model again."
        ) from error


def write(path: str | os.PathLike[str], document: Mapping[str, Any], tensors: Tensors) -> None:
    """Write a document and tensors, whole or not at all."""
    try:
        text = json.dumps({"format": FORMAT, "lrml_version": __version__, **document}, allow_nan=False)
        tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
        content = to_bytes(tensors, {"lrml": f"{_digest(text, tensors)} {text}"})
        _check_header(io.BytesIO(content))
    except (SafetensorError, RecursionError, ValueError) as error:
        raise ValueError(f"The model does not fit into a file: {error}. Pass a shorter summary.") from error
    write_atomically(path, content)


def read(
    path: str | os.PathLike[str], *, numbers: bool = True
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read the document and, unless only that is wanted, all tensors, whose checksum is compared."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # asked first, as opening a pipe would wait
        raise ModelFileError(f"{os.fspath(path)!r} is not a regular file. Pass a .lrml file.")
    with open(path, "rb") as file:
        _check_header(file)
    with safe_open(path, framework="numpy") as stream:
        digest, _, text = (stream.metadata() or {}).get("lrml", "").partition(" ")
        if not text:
            raise ValueError("no document of lrml is in its metadata")
        document = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refused)
        if document["format"] != FORMAT:
            made = f"lrml {shown(document['lrml_version'])} (format {shown(document['format'])})"
            raise ValueError(f"it is one of {made}, which you may install to read it")
        tensors = {name: stream.get_tensor(name) for name in stream.keys()} if numbers else {}  # noqa: SIM118
    if numbers and _digest(text, tensors) != digest:
        raise ValueError("its checksum is wrong, so it was damaged or changed")
    for name, tensor in tensors.items():
        if tensor.dtype == np.bool_ and np.any(tensor.view(np.uint8) > 1):
            raise ValueError(f"{name} holds more than true and false")
    return document, tensors


def _digest(text: str, tensors: Tensors) -> str:
    """SHA-256 of the JSON text, and of name, type, shape and numbers of all tensors, by name."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}\0{tensor.dtype.name}\0{tensor.shape}\0".encode())
        digest.update(tensor.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _check_header(file: IO[bytes]) -> None:
    """Refuse a header that is too long or has too many values, of which these marks are an upper bound."""
    start = file.read(8)
    length = int.from_bytes(start, "little")
    if not 0 < length <= _MOST_HEADER:
        raise ValueError(f"it begins with {shown(start)}, which is not the length of a header")
    header = file.read(length)
    marks = sum(map(header.count, (b"[", b"{", b",")))
    if marks > _MOST_MARKS:
        raise ValueError(f"its header has {marks:,d} brackets and commas, not at most {_MOST_MARKS:,d}")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice in its document")
    return found


def _refused(name: str) -> Any:
    raise ValueError(f"its document has the number {name}")
