"""The container: a safetensors file whose header carries one JSON document and a checksum of the whole file.

The layout is that of safetensors, so that any of its readers, in any language, can open a model::

    8 bytes   length N of the header, little-endian
    N bytes   header, JSON: {"__metadata__": {text: text}, name: {"dtype", "shape", "data_offsets"}, …}
    the rest  the numbers of all tensors, one after the other, without gaps

The library of that name is not used, for three things that it does not promise: a header without repeated
keys, a checksum that is taken in the same pass as the numbers are read, and tensors that go to disk without
a copy in memory.

What a header declares is compared with the size of the file before anything is allocated, and the marks of
its JSON are counted before it is parsed, so a load takes about as much memory as the file is long.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from lrml._files import atomic_file
from lrml._shown import shown

Tensors = Mapping[str, npt.NDArray[Any]]

DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "|u1", "BOOL": "|b1"}
"""The types of tensors: safetensors' name and NumPy's."""
_NAMES = {np.dtype(code): name for name, code in DTYPES.items()}

MOST_HEADER = 32 << 20
"""Bytes that a header may have; numbers and long texts are tensors, so it is short."""
MOST_MARKS = 500_000
"""Brackets and commas that JSON may have, in texts too: an empty list of 3 bytes takes 64 of memory."""
MOST_DEPTH = 100
"""Levels of lists and objects inside each other; a model has about ten, and a summary some of its own."""
_MOST_DIMENSIONS = 2
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,200}")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_NO_DIGEST = "0" * 64
_KEYS = {"document", "lrml_format", "lrml_version", "sha256"}
# What other files begin with.
_OTHERS = {
    b"PK\x03\x04": "a zip archive, such as .npz and .skops files are",
    b"PK\x05\x06": "an empty zip archive",
    b"\x80\x02": "a pickle",
    b"\x80\x03": "a pickle",
    b"\x80\x04": "a pickle",
    b"\x80\x05": "a pickle",
    b"\x1f\x8b": "a gzip file",
    b"\x93NUMPY": "a .npy file",
    b"\x08": "what may be an ONNX file",
}


class ModelFileError(ValueError):
    """A file is not a model that can be loaded; the message names the rule, what was found and a remedy."""


@dataclass(frozen=True)
class Header:
    """What a file declares, checked against its size."""

    major: int
    minor: int
    lrml_version: str
    document: str  # JSON
    tensors: dict[str, tuple[str, tuple[int, ...], int]]  # type, shape and place of the first byte
    sha256: str
    raw: bytes  # the length and the header, as they are in the file
    nbytes: int  # of the file


def write(
    path: str | os.PathLike[str], document: Mapping[str, Any], tensors: Tensors, version: tuple[str, str]
) -> None:
    """Write a document and tensors under a temporary name, and rename; ``version``: of format and library."""
    metadata = {
        "document": json.dumps(document, allow_nan=False, separators=(",", ":")),
        "lrml_format": version[0],
        "lrml_version": version[1],
        "sha256": _NO_DIGEST,
    }
    header: dict[str, Any] = {"__metadata__": metadata}
    # The widest types first, so that every number lies at a multiple of its size.
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    ordered = {name: np.ascontiguousarray(tensors[name]) for name in names}
    place = 0
    for name, tensor in ordered.items():
        end = place + tensor.nbytes
        kind = _NAMES[tensor.dtype]
        header[name] = {"dtype": kind, "shape": list(tensors[name].shape), "data_offsets": [place, end]}
        place = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MOST_HEADER:
        raise ValueError(
            f"what is not an array must fit into {MOST_HEADER >> 20} MiB, got {len(text) / 2**20:.0f} MiB. "
            "Pass a shorter summary."
        )
    if _marks(text) > MOST_MARKS or _is_deep(document):
        raise ValueError(
            f"what is not an array may have {MOST_MARKS:,d} values and {MOST_DEPTH} levels of lists and "
            "dictionaries, got more. Pass a shorter or flatter summary."
        )
    raw = len(text).to_bytes(8, "little") + text
    digest = hashlib.sha256(raw)
    for tensor in ordered.values():
        digest.update(_bytes_of(tensor))
    with atomic_file(path) as stream:
        stream.write(_with_digest(raw, _NO_DIGEST, digest.hexdigest()))
        for tensor in ordered.values():
            stream.write(_bytes_of(tensor))


def _bytes_of(tensor: npt.NDArray[Any]) -> memoryview:
    return tensor.reshape(-1).view(np.uint8).data


def _with_digest(raw: bytes, old: str, new: str) -> bytes:
    """Replace the checksum in a header, where it must be found once."""
    marked, place = b'"sha256":"%s"', raw.count(b'"sha256":"%s"' % old.encode())
    if place != 1:
        raise ModelFileError(f"a model file must name its checksum once, got {place} times. {_AGAIN}")
    return raw.replace(marked % old.encode(), marked % new.encode())


_AGAIN = "Save the model again, or fetch a new copy of the file."


@contextmanager
def opened(path: str | os.PathLike[str]) -> Iterator[tuple[IO[bytes], int]]:
    """Open a regular file for reading; also give its size."""
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"a model file must be a file of lrml.save, lrml fit or lrml tune, got {os.fspath(path)!r}, "
            "which does not exist. Check the path."
        )
    if not stat.S_ISREG(os.stat(path).st_mode):  # asked first, as opening a pipe would wait
        raise ModelFileError(f"a model must be a regular file, got {os.fspath(path)!r}. Pass a .lrml file.")
    with open(path, "rb") as stream:
        yield stream, os.fstat(stream.fileno()).st_size


def read_header(stream: IO[bytes], size: int) -> Header:
    """Read and check the header; no number is read."""
    start = stream.read(8)
    length = int.from_bytes(start, "little")
    if len(start) < 8 or not 2 <= length <= min(size - 8, MOST_HEADER):
        what = next((words for mark, words in _OTHERS.items() if start.startswith(mark)), None)
        if what is None:
            what = "an empty file" if size == 0 else f"{size} bytes that begin with {shown(start)}"
        raise ModelFileError(
            "this is no model file of lrml, or not all of it: a model file must begin with the length of its "
            f"header, got {what}. Pass a file that lrml.save, lrml fit or lrml tune has written, whole."
        )
    text = stream.read(length)
    header = parse(text, "the header")
    metadata = header.pop("__metadata__", None)
    if not isinstance(metadata, dict) or "lrml_format" not in metadata:
        raise ModelFileError(
            "a model file must name its lrml_format, got a safetensors file without one. "
            "Pass a file that lrml.save has written."
        )
    strange = [key for key, value in metadata.items() if not isinstance(value, str)]
    if strange or not metadata.keys() >= _KEYS:
        raise ModelFileError(
            f"the metadata of a model file must be texts named {', '.join(sorted(_KEYS))}, got "
            f"{shown(sorted(metadata))}. {_AGAIN}"
        )
    found = re.fullmatch(r"(\d{1,4})\.(\d{1,4})", metadata["lrml_format"], re.ASCII)
    if found is None or not _DIGEST.fullmatch(metadata["sha256"]):
        raise ModelFileError(
            "a model file must have a format such as 1.0 and a checksum of 64 digits, got "
            f"{shown(metadata['lrml_format'])} and {shown(metadata['sha256'])}. {_AGAIN}"
        )
    return Header(
        int(found[1]),
        int(found[2]),
        metadata["lrml_version"],
        metadata["document"],
        _checked_tensors(header, size - 8 - length),
        metadata["sha256"],
        start + text,
        size,
    )


def _checked_tensors(declared: dict[str, Any], room: int) -> dict[str, tuple[str, tuple[int, ...], int]]:
    """Check names, types, shapes and places of tensors, which must fill the rest of the file exactly."""
    found, spans = {}, []
    for name, entry in declared.items():
        if not _NAME.fullmatch(name):
            raise ModelFileError(
                f"names of tensors must be letters, digits, '_', '.' and '-', got {shown(name)}. {_AGAIN}"
            )
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise ModelFileError(
                f"tensor {name} must have a dtype, a shape and data_offsets, got {shown(entry)}. {_AGAIN}"
            )
        kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not isinstance(kind, str) or kind not in DTYPES:
            raise ModelFileError(
                f"tensor {name} must have one of the types {', '.join(DTYPES)}, got {shown(kind)}. {_AGAIN}"
            )
        if not _are_counts(shape) or len(shape) > _MOST_DIMENSIONS:
            raise ModelFileError(
                f"tensor {name} must have at most {_MOST_DIMENSIONS} sides that are counts, got "
                f"{shown(shape)}. {_AGAIN}"
            )
        nbytes = math.prod(shape) * np.dtype(DTYPES[kind]).itemsize
        if not _are_counts(offsets) or len(offsets) != 2 or offsets[1] - offsets[0] != nbytes:
            raise ModelFileError(
                f"tensor {name} must take {nbytes} bytes, as its shape {shown(shape)} says, got the places "
                f"{shown(offsets)}. {_AGAIN}"
            )
        found[name] = (DTYPES[kind], tuple(shape), offsets[0])
        spans.append((offsets[0], offsets[1], name))
    place = 0
    for start, end, name in sorted(spans):
        if start != place:
            raise ModelFileError(
                f"tensors must follow each other without gap or overlap, got {name} at {start} in place of "
                f"{place}. {_AGAIN}"
            )
        place = end
    if place != room:
        raise ModelFileError(
            f"the numbers must take {place} bytes, as declared, got {room}: the file is "
            f"{'cut off' if room < place else 'too long'}. {_AGAIN}"
        )
    return found


def _are_counts(values: Any) -> bool:
    """Whether a value is a list of whole numbers that could be a number of bytes."""
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 1 << 48 for value in values)


def read_tensors(stream: IO[bytes], header: Header) -> dict[str, npt.NDArray[Any]]:
    """Read all tensors, behind the header, and compare the checksum of the file."""
    digest = hashlib.sha256(_with_digest(header.raw, header.sha256, _NO_DIGEST))
    tensors = {}
    for name, (dtype, shape, _) in sorted(header.tensors.items(), key=lambda item: (item[1][2], item[0])):
        tensor = np.empty(shape, dtype=dtype)
        view = _bytes_of(tensor)
        if view.nbytes and stream.readinto(view) != view.nbytes:  # type: ignore[attr-defined]
            raise ModelFileError(f"tensor {name} must be whole, got the end of the file. {_AGAIN}")
        digest.update(view)
        tensors[name] = tensor
    if digest.hexdigest() != header.sha256:
        raise ModelFileError(
            f"the SHA-256 checksum of a model file must be the one it names, {header.sha256}, got "
            f"{digest.hexdigest()}: it has been damaged or changed. {_AGAIN}"
        )
    for name, tensor in tensors.items():
        if tensor.dtype == np.bool_ and np.any(tensor.view(np.uint8) > 1):
            raise ModelFileError(f"tensor {name} must hold true and false only. {_AGAIN}")
    return tensors


def parse(text: str | bytes, what: str) -> dict[str, Any]:
    """Read a JSON object: no key twice, no NaN, and neither too many values nor too many levels of them."""
    if (marks := _marks(text)) > MOST_MARKS:
        raise ModelFileError(
            f"{what} of a model file may have {MOST_MARKS:,d} brackets and commas, got {marks:,d}. {_AGAIN}"
        )
    try:
        text = text.decode() if isinstance(text, bytes) else text  # JSON itself would accept UTF-16 too
        found = json.loads(text, object_pairs_hook=_without_repetition, parse_constant=_refuse_constant)
    except ModelFileError:
        raise
    except (ValueError, RecursionError) as error:
        reason = "too deep" if isinstance(error, RecursionError) else str(error)
        raise ModelFileError(f"{what} of a model file must be JSON, got {reason}. {_AGAIN}") from None
    if not isinstance(found, dict):
        raise ModelFileError(f"{what} of a model file must be a JSON object, got {shown(found)}. {_AGAIN}")
    if _is_deep(found):
        raise ModelFileError(f"{what} of a model file may have {MOST_DEPTH} levels, got more. {_AGAIN}")
    return found


def _marks(text: str | bytes) -> int:
    """Return an upper bound of the number of values in JSON, without reading it."""
    marks: tuple[Any, ...] = (b"[", b"{", b",") if isinstance(text, bytes) else ("[", "{", ",")
    return sum(text.count(mark) for mark in marks)


def _is_deep(document: Any) -> bool:
    """Whether lists and dictionaries lie in each other on more levels than may be; itself not recursive."""
    level = [document]
    for _ in range(MOST_DEPTH):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return bool(level)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ModelFileError(f"no key may occur twice in a model file, got one that does. {_AGAIN}")
    return found


def _refuse_constant(name: str) -> Any:
    raise ModelFileError(f"numbers in a model file must be finite, got {name}. {_AGAIN}")
