"""The container: a safetensors file whose metadata carry one JSON document and a checksum of everything.

Its one entry, "lrml", is the checksum in 64 digits, a space, and ``{"format", "version", "document"}``.

The library of that name reads and writes it: it compares what a header declares with the size of the file
before anything is allocated. What it does not promise is added here: a limit on the header and on the values
of the document, which JSON unfolds to many times its length, and a checksum.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from lrml._files import write_atomically
from lrml._shown import shown
from lrml._version import __version__

Tensors = Mapping[str, npt.NDArray[Any]]

FORMAT = "1"
"""The format that is written; no other can be read."""
DTYPES = ("float64", "float32", "int64", "int32", "uint8", "bool")
"""The types of tensors."""
_NAMES = dict(zip(DTYPES, ("F64", "F32", "I64", "I32", "U8", "BOOL"), strict=True))  # of safetensors
# Bytes of the header; numbers and long texts are tensors, so it is short.
_MOST_HEADER = 32 << 20
# Brackets and commas of the document, in texts too: an empty list of 3 bytes takes 64 of memory.
_MOST_MARKS = 500_000
AGAIN = "Save the model again, or fetch a new copy of the file."


class ModelFileError(ValueError):
    """A file is not a model that can be loaded; the message says what was found and what to do."""


class Header(NamedTuple):
    """What a file says of itself."""

    lrml_version: str
    document: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    nbytes: int


def write(path: str | os.PathLike[str], document: Mapping[str, Any], tensors: Tensors) -> None:
    """Write a document and tensors, whole or not at all."""
    whole = {"format": FORMAT, "version": __version__, "document": document}
    try:
        text = json.dumps(whole, allow_nan=False, separators=(",", ":"))
    except RecursionError:
        text = "[" * _MOST_MARKS + "]"
    if len(text) > _MOST_HEADER or _marks(text) > _MOST_MARKS:
        raise ValueError(
            f"What is not an array takes {len(text) / 2**20:.0f} MiB of JSON with {_marks(text):,d} "
            f"values; a model file has room for {_MOST_HEADER >> 20} MiB and {_MOST_MARKS:,d}. Pass a "
            "shorter summary."
        )
    tensors = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    write_atomically(path, to_bytes(tensors, {"lrml": f"{_digest(text, tensors)} {text}"}))


def read_header(path: str | os.PathLike[str]) -> Header:
    """Read what a file says of itself, and no number."""
    with _opened(path) as (stream, nbytes):
        _, text = _said(stream)
        version, document = _parsed(text)
        shapes = {name: tuple(stream.get_slice(name).get_shape()) for name in stream.keys()}  # noqa: SIM118
        return Header(version, document, shapes, nbytes)


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read the document and all tensors, and compare the checksum."""
    with _opened(path) as (stream, _):
        digest, text = _said(stream)
        _, document = _parsed(text)
        names = list(stream.keys())
        for name in names:
            if (kind := stream.get_slice(name).get_dtype()) not in _NAMES.values():
                raise ModelFileError(f"Tensor {shown(name)} is of type {kind}. {AGAIN}")
        tensors = {name: stream.get_tensor(name) for name in names}
    if _digest(text, tensors) != digest:
        raise ModelFileError(f"The checksum is wrong: the file was damaged or changed. {AGAIN}")
    for name, tensor in tensors.items():
        if tensor.dtype == np.bool_ and np.any(tensor.view(np.uint8) > 1):
            raise ModelFileError(f"Tensor {shown(name)} holds more than true and false. {AGAIN}")
    return document, tensors


def _digest(text: str, tensors: Tensors) -> str:
    """SHA-256 of the JSON text, and of name, type, shape and numbers of all tensors, by name."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"{name}\0{tensor.dtype.name}\0{tensor.shape}\0".encode())
        digest.update(tensor.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[tuple[Any, int]]:
    """Open a regular file of the size that it declares."""
    if not os.path.exists(path):
        raise FileNotFoundError(f"There is no file {os.fspath(path)!r}. Check the path.")
    if not stat.S_ISREG(os.stat(path).st_mode):  # asked first, as opening a pipe would wait
        raise ModelFileError(f"{os.fspath(path)!r} is not a regular file. Pass a .lrml file.")
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        start = file.read(8)
    length = int.from_bytes(start, "little")
    remedy = "Pass a file that lrml.save, lrml fit or lrml tune has written, whole."
    if not 0 < length <= min(size - 8, _MOST_HEADER):
        raise ModelFileError(
            f"This is no model file, or not all of it: it begins with {shown(start)}. {remedy}"
        )
    try:
        with safe_open(path, framework="numpy") as stream:
            yield stream, size
    except SafetensorError as error:
        raise ModelFileError(f"This is no model file, or not all of it ({error}). {remedy}") from None


def _said(stream: Any) -> tuple[str, str]:
    """Return the checksum and the JSON text of a file."""
    digest, _, text = (stream.metadata() or {}).get("lrml", "").partition(" ")
    if not text:
        raise ModelFileError(
            "This safetensors file is no model of lrml. Pass one that lrml.save has written."
        )
    return digest, text


def _parsed(text: str) -> tuple[str, dict[str, Any]]:
    """Return version and document: no key twice, no NaN, and neither too many values nor too many levels."""
    if (marks := _marks(text)) > _MOST_MARKS:
        raise ModelFileError(f"Its JSON has {marks:,d} brackets and commas; {_MOST_MARKS:,d} are allowed.")
    try:
        found = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refused)
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as error:
        reason = "it is too deep" if isinstance(error, RecursionError) else error
        raise ModelFileError(f"Its text is not JSON: {reason}. {AGAIN}") from None
    whole = isinstance(found, dict) and found.keys() >= {"format", "version", "document"}
    if whole and found["format"] != FORMAT:
        raise ModelFileError(
            f"The file has format {shown(found['format'])}, written by lrml {shown(found['version'])}; lrml "
            f"{__version__} reads format {FORMAT}. Install that version of lrml, or save the model again."
        )
    if not whole or not isinstance(found["document"], dict):
        raise ModelFileError(f"Its JSON is {shown(found)}, with no document. {AGAIN}")
    return found["version"], found["document"]


def _marks(text: str) -> int:
    """Return an upper bound of the number of values in JSON, without reading it."""
    return sum(map(text.count, "[{,"))


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ModelFileError(f"A key occurs twice in the document. {AGAIN}")
    return found


def _refused(name: str) -> Any:
    raise ModelFileError(f"The document has the number {name}. {AGAIN}")


def sound(read: Callable[[], Any]) -> Any:
    """Return what is read from a document; any error on the way means that the model is not sound."""
    try:
        return read()
    except ModelFileError:
        raise
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise ModelFileError(f"The model is not sound: {shown(str(error))}. {AGAIN}") from error
