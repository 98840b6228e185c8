"""Values as JSON, with tensors for what is an array.

Plain JSON values are themselves; a name is that of a tensor::

    {"array": name}, {"transposed": name}     an array, in the order in memory that it had
    {"texts": name, "as": "object"}           name.bytes and name.offsets; "list", "str"; "dict": name.values
    {"sparse": ["csr", [n, d], name]}         name.data, name.indices, name.indptr; "csc", "csr_matrix", …
    {"objects": […]}, {"tuple": […]}, {"dict": {…}}
    {"scalar": ["float32", 0.5]}, {"type": "float64"}, {"float": "nan"}

Nothing else is written, and nothing else is read, but what `lrml.storage._models` adds.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lrml._shown import shown
from lrml.storage._container import AGAIN, DTYPES, ModelFileError, Tensors

_TYPES = (*DTYPES[:-1], "float16", "int16", "int8", "uint16", "uint32", "uint64")
# A list of more texts than this, or a dictionary of more numbers, such as a vocabulary, goes to tensors.
_LARGE = 1000
# An array of texts gives every one the room of the longest: at most so many bytes, or so many times the text.
_ROOM, _ROOM_FACTOR = 64 << 20, 256
_SPARSE: dict[str, Callable[..., Any]] = {
    "csr": sp.csr_array,
    "csc": sp.csc_array,
    "csr_matrix": sp.csr_matrix,
    "csc_matrix": sp.csc_matrix,
}


class Writer:
    """Turns values into JSON, and collects the tensors that it refers to; an array is stored once."""

    def __init__(self) -> None:
        self.tensors: dict[str, npt.NDArray[Any]] = {}
        self._known: dict[int, Any] = {}  # what has been stored; holds the arrays, so that ids stay theirs

    def encode(self, value: Any, name: str) -> Any:
        """Return the JSON for a value; its tensors are named after ``name``."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            if id(value) not in self._known:
                self._known[id(value)] = self._array(value, name), value
            return self._known[id(value)][0]
        if isinstance(value, np.generic) and value.dtype.name in (*_TYPES, "bool"):
            return {"scalar": [value.dtype.name, self.encode(value.item(), name)]}
        if isinstance(value, type) and issubclass(value, np.generic) and np.dtype(value).name in _TYPES:
            return {"type": np.dtype(value).name}
        return self._sparse(value, name) if sp.issparse(value) else self._collection(value, name)

    def _collection(self, value: Any, name: str) -> Any:
        if type(value) in (tuple, list):
            if type(value) is list and len(value) > _LARGE and all(type(one) is str for one in value):
                return self._texts(value, name, "list")
            listed = [self.encode(one, f"{name}.{place}") for place, one in enumerate(value)]
            return listed if type(value) is list else {"tuple": listed}
        if isinstance(value, Mapping) and all(type(key) is str for key in value):
            if len(value) > _LARGE and all(type(one) is int for one in value.values()):
                self._add(f"{name}.values", np.fromiter(value.values(), np.int64, len(value)))
                return self._texts(list(value), name, "dict")
            return {"dict": {key: self.encode(one, f"{name}.{key}") for key, one in value.items()}}
        raise TypeError(
            f"{name} is {shown(value)}. A model file holds numbers, texts, arrays, and lists and "
            "dictionaries of these."
        )

    def _array(self, value: npt.NDArray[Any], name: str) -> Any:
        if value.dtype.kind in "OU" and value.ndim == 1:
            listed = value.tolist()
            if not all(type(one) is str for one in listed):
                return {"objects": [self.encode(one, f"{name}.{i}") for i, one in enumerate(listed)]}
            fits = value.dtype.kind == "U" and value.nbytes <= _most_room(sum(map(len, listed)))
            return self._texts(listed, name, "str" if fits else "object")
        stored = value.dtype.newbyteorder("<")
        if stored.name not in DTYPES or value.ndim > 2:
            raise TypeError(
                f"{name} is an array of {value.dtype} with {value.ndim} sides. A model file holds "
                f"{', '.join(DTYPES)} with at most two; convert it with astype."
            )
        value = value.astype(stored, copy=False)
        # Products of the same numbers in another order in memory may differ in the last digit.
        if value.ndim == 2 and value.flags.f_contiguous and not value.flags.c_contiguous:
            return {"transposed": self._add(name, value.T)}
        return {"array": self._add(name, value)}

    def _texts(self, listed: list[str], name: str, kind: str) -> Any:
        encoded = [text.encode() for text in listed]
        self._add(f"{name}.offsets", np.cumsum([0, *map(len, encoded)], dtype=np.int64))
        stored = self._add(f"{name}.bytes", np.frombuffer(b"".join(encoded), dtype=np.uint8))
        return {"texts": stored.removesuffix(".bytes"), "as": kind}

    def _sparse(self, value: Any, name: str) -> Any:
        kind = str(value.format) + ("" if isinstance(value, sp.sparray) else "_matrix")
        if kind not in _SPARSE:
            raise TypeError(f"{name} is a sparse matrix of the form {kind}. Convert it to CSR or CSC.")
        names = [self._add(f"{name}.{part}", getattr(value, part)) for part in ("data", "indices", "indptr")]
        return {"sparse": [kind, [int(side) for side in value.shape], names[0].removesuffix(".data")]}

    def _add(self, name: str, tensor: npt.NDArray[Any]) -> str:
        name = re.sub(r"[^A-Za-z0-9_.\-]", "_", name)[-150:]
        while name in self.tensors:  # names that were alike but for what could not be kept
            name = f"_{name}"
        self.tensors[name] = tensor
        return name


class Reader:
    """Turns JSON and tensors back into values; remembers which tensors have been used."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self._known: dict[Any, Any] = {}
        self.used: set[str] = set()

    def decode(self, found: Any) -> Any:
        """Return the value that JSON stands for."""
        if isinstance(found, list):
            return [self.decode(one) for one in found]
        if not isinstance(found, dict):
            return found
        if found.keys() == {"texts", "as"}:
            return self._once(found["texts"], found["as"], lambda: self._texts(found["texts"], found["as"]))
        if len(found) != 1 or (key := next(iter(found))) not in _READ:
            return self.other(found)
        return _READ[key](self, found[key])

    def other(self, found: dict[str, Any]) -> Any:
        """Refuse what is of no known kind."""
        raise ModelFileError(f"A value is of no known kind: {shown(found)}. {AGAIN}")

    def _once(self, name: Any, kind: Any, make: Callable[[], Any]) -> Any:
        """Make what a tensor stands for once: models share their numbers."""
        if (name, kind) not in self._known:
            self._known[name, kind] = make()
        return self._known[name, kind]

    def tensor(self, name: Any, kinds: str = "iufb", ndim: int | None = None) -> npt.NDArray[Any]:
        """Return a tensor by name, of some kinds of types."""
        if not isinstance(name, str) or name not in self._tensors:
            raise ModelFileError(f"There is no tensor {shown(name)}. {AGAIN}")
        self.used.add(name)
        tensor = self._tensors[name]
        if tensor.dtype.kind not in kinds or tensor.ndim > 2 or ndim not in (None, tensor.ndim):
            raise ModelFileError(f"{name} has shape {tensor.shape} and type {tensor.dtype}. {AGAIN}")
        return tensor

    def _scalar(self, inner: Any) -> Any:
        kind, value = inner[0], self.decode(inner[1])
        if len(inner) != 2 or kind not in (*_TYPES, "bool") or type(value) not in (bool, int, float):
            raise ModelFileError(f"{shown(inner)} is no number. {AGAIN}")
        with np.errstate(over="raise"):
            return np.dtype(kind).type(value)

    def _texts(self, name: Any, kind: Any) -> Any:
        offsets = self.tensor(f"{name}.offsets", "i", 1)
        content = self.tensor(f"{name}.bytes", "u", 1).tobytes()
        if not _rises(offsets, len(content)):
            raise ModelFileError(f"{name}.offsets do not rise from 0 to {len(content)}. {AGAIN}")
        listed = [content[a:b].decode() for a, b in pairwise(offsets.tolist())]
        if kind == "list":
            return listed
        if kind == "dict":
            return dict(zip(listed, self.tensor(f"{name}.values", "i", 1).tolist(), strict=True))
        longest = max(map(len, listed), default=0)
        if kind == "str" and 4 * longest * len(listed) <= _most_room(len(content)):
            return np.array(listed, dtype=f"<U{longest or 1}")
        if kind != "object":
            raise ModelFileError(f"{name} is no list of texts, but {shown(kind)}. {AGAIN}")
        return _of_objects(listed)

    def _sparse(self, inner: Any) -> Any:
        kind, shape, name = inner
        return self._once(name, kind, lambda: self._new_sparse(kind, shape, name))

    def _new_sparse(self, kind: Any, shape: Any, name: str) -> Any:
        data = self.tensor(f"{name}.data", "f", 1)
        indices, indptr = (self.tensor(f"{name}.{part}", "i", 1) for part in ("indices", "indptr"))
        major, minor = shape if kind in ("csr", "csr_matrix") else shape[::-1]
        # Compiled code relies on these, and reads beyond its arrays otherwise.
        whole = type(major) is int and type(minor) is int and len(indptr) == major + 1
        inside = len(indices) == 0 or (indices.min() >= 0 and indices.max() < minor)
        if not (whole and inside and len(data) == len(indices) and _rises(indptr, len(data))):
            raise ModelFileError(f"{name} is no sound sparse matrix. {AGAIN}")
        if not np.all(np.isfinite(data)):
            raise ModelFileError(f"{name} has numbers that are not finite. {AGAIN}")
        return _SPARSE[kind]((data, indices, indptr), shape=tuple(shape))


def _of_objects(listed: list[Any]) -> npt.NDArray[Any]:
    array = np.empty(len(listed), dtype=object)
    array[:] = listed
    return array


def _nonfinite(inner: Any) -> float:
    return {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[inner]


def _type(inner: Any) -> Any:
    if inner not in _TYPES:
        raise ModelFileError(f"{shown(inner)} is no type of numbers. {AGAIN}")
    return np.dtype(inner).type


# How each kind of value is read.
_READ: dict[str, Callable[[Reader, Any], Any]] = {
    "array": lambda reader, name: reader.tensor(name),
    "dict": lambda reader, inner: {key: reader.decode(one) for key, one in inner.items()},
    "float": lambda reader, inner: _nonfinite(inner),
    "objects": lambda reader, inner: _of_objects([reader.decode(one) for one in inner]),
    "scalar": Reader._scalar,
    "sparse": Reader._sparse,
    "transposed": lambda reader, name: reader._once(name, "T", lambda: reader.tensor(name, ndim=2).T),
    "tuple": lambda reader, inner: tuple(reader.decode(one) for one in inner),
    "type": lambda reader, inner: _type(inner),
}


def _rises(offsets: npt.NDArray[Any], last: int) -> bool:
    """Whether places rise from 0 to the last one; within these limits, differences cannot overflow."""
    ends = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == last
    return bool(ends and offsets.min() >= 0 and offsets.max() <= last and not np.any(np.diff(offsets) < 0))


def _most_room(n_bytes: int) -> int:
    return max(_ROOM, _ROOM_FACTOR * n_bytes)
