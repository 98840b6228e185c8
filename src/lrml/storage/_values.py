"""Values in a model file: what Python and NumPy call them, as JSON and tensors, and back.

None, true, false, whole numbers, finite floats, texts and lists are themselves. Everything else is an object
with one key, which says what it is::

    {"float": "nan"}                           also "inf" and "-inf"
    {"dict": {text: value}}   {"tuple": [value]}
    {"scalar": ["float32", value]}             a NumPy scalar
    {"type": "float64"}                        a NumPy type
    {"array": name}                            a tensor
    {"transposed": name}                       the transpose of a tensor
    {"texts": name, "as": "object"}            texts: the tensors name.bytes (UTF-8, one after the other) and
                                               name.offsets (where each begins, and where the last ends);
                                               "as" is "object" or "str" (an array), "list", or "dict":
                                               keys of the tensor name.values
    {"objects": [value]}                       an array of anything else
    {"sparse": ["csr", [rows, columns], name]} name.data, name.indices, name.indptr; "csr_matrix", "csc", …

Nothing else is written, and nothing else is read.
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
from lrml.storage._container import DTYPES, ModelFileError

_STORED = {np.dtype(code) for code in DTYPES.values()}
_TYPES = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32")
_SCALARS = (*_TYPES, "uint64", "bool")
# More texts than this, or a dictionary of more numbers, such as a vocabulary, go to tensors.
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

    def __init__(self, dtype: type[np.floating[Any]] | None = None) -> None:
        self.dtype = dtype  # of model_array, if other than its own
        self.tensors: dict[str, npt.NDArray[Any]] = {}
        self._known: dict[Any, Any] = {}  # what has been stored; holds the arrays, so that ids stay theirs

    def encode(self, value: Any, name: str) -> Any:
        """Return the JSON for a value; its tensors are named after ``name``."""
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if isinstance(value, np.ndarray):
            return self.array(value, name)
        if isinstance(value, np.generic) and value.dtype.name in _SCALARS:
            return {"scalar": [value.dtype.name, self.encode(value.item(), name)]}
        if isinstance(value, type) and issubclass(value, np.generic) and np.dtype(value).name in _TYPES:
            return {"type": np.dtype(value).name}
        return self._collection(value, name)

    def _collection(self, value: Any, name: str) -> Any:
        if sp.issparse(value):
            return self._sparse(value, name)
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
            "a model file holds numbers, texts, arrays, and lists and dictionaries of these, got "
            f"{shown(value)} as {name}."
        )

    def array(self, value: npt.NDArray[Any], name: str, *, narrow: bool = False) -> Any:
        """Store an array, in the precision that was asked for if it belongs to the model."""
        key = id(value), narrow
        if key not in self._known:
            self._known[key] = self._new_array(value, name, narrow=narrow), value
        return self._known[key][0]

    def _new_array(self, value: npt.NDArray[Any], name: str, *, narrow: bool) -> Any:
        if value.dtype.kind in "OU" and value.ndim == 1:
            listed = value.tolist()
            if not all(type(one) is str for one in listed):
                return {"objects": [self.encode(one, f"{name}.{i}") for i, one in enumerate(listed)]}
            fits = value.dtype.kind == "U" and value.nbytes <= _most_room(sum(map(len, listed)))
            return self._texts(listed, name, "str" if fits else "object")
        if narrow and self.dtype is not None:
            with np.errstate(over="ignore"):
                value, given = value.astype(self.dtype), value
            if not np.array_equal(np.isfinite(value), np.isfinite(given)):
                raise ValueError(
                    f"numbers must stay below {np.finfo(self.dtype).max:.0e} to be saved in "
                    f"{np.dtype(self.dtype)}, got larger ones in {name}. Leave out dtype."
                )
        stored = value.dtype.newbyteorder("<")
        if stored not in _STORED or value.ndim > 2:
            raise TypeError(
                f"a model file holds arrays of {', '.join(str(one) for one in _STORED)} with at most two "
                f"sides, got {name} of {value.dtype} and shape {value.shape}. Convert it with astype."
            )
        value = value.astype(stored, copy=False)
        # Products of the same numbers in another order in memory may differ in the last digit.
        if value.ndim == 2 and value.flags.f_contiguous and not value.flags.c_contiguous:
            return {"transposed": self._add(name, value.T)}
        return {"array": self._add(name, value)}

    def _texts(self, listed: list[str], name: str, kind: str) -> Any:
        encoded = [text.encode() for text in listed]
        offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
        np.cumsum([len(one) for one in encoded], out=offsets[1:])
        self._add(f"{name}.offsets", offsets)
        stored = self._add(f"{name}.bytes", np.frombuffer(b"".join(encoded), dtype=np.uint8))
        return {"texts": stored.removesuffix(".bytes"), "as": kind}

    def _sparse(self, value: Any, name: str) -> Any:
        kind = str(value.format) + ("" if isinstance(value, sp.sparray) else "_matrix")
        if kind not in _SPARSE:
            raise TypeError(f"sparse matrices must be CSR or CSC, got {name} as {kind}. Convert it.")
        names = [self._add(f"{name}.{part}", getattr(value, part)) for part in ("data", "indices", "indptr")]
        return {"sparse": [kind, [int(side) for side in value.shape], names[0].removesuffix(".data")]}

    def _add(self, name: str, tensor: npt.NDArray[Any]) -> str:
        name = re.sub(r"[^A-Za-z0-9_.\-]", "_", name)[-150:]
        assert name not in self.tensors, name
        self.tensors[name] = tensor
        return name


class Reader:
    """Turns JSON and tensors back into values; remembers which tensors have been used."""

    def __init__(self, tensors: Mapping[str, npt.NDArray[Any]]) -> None:
        self._tensors = tensors
        self._known: dict[Any, Any] = {}
        self.used: set[str] = set()

    def decode(self, found: Any) -> Any:
        """Return the value that JSON stands for."""
        if found is None or isinstance(found, bool | int | float | str):
            return found
        if isinstance(found, list):
            return [self.decode(one) for one in found]
        if found.keys() == {"texts", "as"}:
            kind = found["as"]
            return self._once(("texts", found["texts"], kind), lambda: self._texts(found["texts"], kind))
        key = next(iter(found)) if len(found) == 1 else ""
        read = getattr(self, _READ[key][1]) if key in _READ else None
        if read is None or not isinstance(found[key], _READ[key][0]):
            raise ModelFileError(
                f"values in a model file must be of a known kind, got {shown(found)}. Install a newer lrml "
                "if the file was written by one."
            )
        return read(found[key])

    def _float(self, inner: str) -> float:
        if inner not in ("nan", "inf", "-inf"):
            raise ModelFileError(
                f"a float must be nan, inf or -inf, got {shown(inner)}. Save the model again."
            )
        return float(inner)

    def _dict(self, inner: dict[str, Any]) -> dict[str, Any]:
        return {name: self.decode(one) for name, one in inner.items()}

    def _tuple(self, inner: list[Any]) -> tuple[Any, ...]:
        return tuple(self.decode(one) for one in inner)

    def _transposed(self, name: str) -> Any:
        return self._once(
            ("transposed", name), lambda: _require(self.tensor(name), f"tensor {name}", "iufb", 2).T
        )

    def _type(self, inner: str) -> Any:
        if inner not in _TYPES:
            raise ModelFileError(
                f"a type must be one of {', '.join(_TYPES)}, got {shown(inner)}. Save the model again."
            )
        return np.dtype(inner).type

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if not all(isinstance(part, str) for part in key):
            raise ModelFileError(
                f"tensors must be referred to by name, got {shown(key)}. Save the model again."
            )
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    def tensor(self, name: Any) -> npt.NDArray[Any]:
        """Return a tensor by name."""
        if not isinstance(name, str) or name not in self._tensors:
            raise ModelFileError(
                f"a model file must hold every tensor that it refers to, got none called {shown(name)}. "
                "Save the model again."
            )
        self.used.add(name)
        return self._tensors[name]

    def _scalar(self, inner: list[Any]) -> Any:
        kind, value = inner if len(inner) == 2 else (None, None)
        value = self.decode(value)
        if kind not in _SCALARS or type(value) not in (bool, int, float):
            raise ModelFileError(
                f"a NumPy scalar must hold a number, got {shown(inner)}. Save the model again."
            )
        try:
            with np.errstate(over="raise"):
                return np.dtype(kind).type(value)
        except (OverflowError, FloatingPointError, ValueError):
            raise ModelFileError(
                f"a number of type {kind} must be within its range, got {shown(value)}. Save the model again."
            ) from None

    def _texts(self, name: str, kind: str) -> Any:
        offsets = _require(self.tensor(f"{name}.offsets"), f"{name}.offsets", "i", 1)
        content = _require(self.tensor(f"{name}.bytes"), f"{name}.bytes", "u", 1).tobytes()
        if not _rises(offsets, len(content)):
            raise ModelFileError(
                f"{name}.offsets must rise from 0 to the number of bytes, {len(content)}, got others. "
                "Save the model again."
            )
        places = offsets.tolist()
        try:
            listed = [content[a:b].decode() for a, b in pairwise(places)]
        except UnicodeDecodeError:
            raise ModelFileError(
                f"{name} must be texts in UTF-8, got other bytes. Save the model again."
            ) from None
        if kind == "list":
            return listed
        if kind == "dict":
            values = _require(self.tensor(f"{name}.values"), f"{name}.values", "i", 1)
            found = dict(zip(listed, values.tolist(), strict=False))
            if not len(found) == len(listed) == len(values):
                raise ModelFileError(f"{name} must have one value per text, each once. Save the model again.")
            return found
        longest = max(map(len, listed), default=0)
        if kind == "object" or (kind == "str" and 4 * longest * len(listed) <= _most_room(len(content))):
            array: npt.NDArray[Any] = np.empty(
                len(listed), dtype=object if kind == "object" else f"<U{longest or 1}"
            )
            array[:] = listed
            return array
        raise ModelFileError(f"{name} must be a list of texts, got {shown(kind)}. Save the model again.")

    def _objects(self, inner: list[Any]) -> npt.NDArray[Any]:
        array = np.empty(len(inner), dtype=object)
        for place, one in enumerate(inner):
            array[place] = self.decode(one)
        return array

    def _sparse(self, inner: list[Any]) -> Any:
        if len(inner) != 3:
            raise ModelFileError(
                f"a sparse matrix has three parts, got {shown(inner)}. Save the model again."
            )
        return self._once(("sparse", inner[2]), lambda: self._new_sparse(*inner))

    def _new_sparse(self, kind: Any, shape: Any, name: str) -> Any:
        parts = [self.tensor(f"{name}.{part}") for part in ("data", "indices", "indptr")]
        data, indices, indptr = (
            _require(part, name, kinds, 1) for part, kinds in zip(parts, ("f", "i", "i"), strict=True)
        )
        sides_ok = (
            isinstance(shape, list) and len(shape) == 2 and all(type(s) is int and s >= 0 for s in shape)
        )
        if kind not in _SPARSE or not sides_ok:
            raise ModelFileError(f"{name} must be CSR or CSC, got {shown(kind)}. Save the model again.")
        major, minor = shape if kind.startswith("csr") else shape[::-1]
        # Compiled code relies on these, and reads beyond its arrays otherwise.
        sound = (
            len(indptr) == major + 1
            and _rises(indptr, len(data))
            and len(data) == len(indices)
            and (len(indices) == 0 or (indices.min() >= 0 and indices.max() < minor))
        )
        if not sound or not np.all(np.isfinite(data)):
            raise ModelFileError(
                f"{name} must be a sound sparse matrix of finite numbers. Save the model again."
            )
        return _SPARSE[kind]((data, indices, indptr), shape=tuple(shape))


# How each kind of value is read: the type of what is stored, and the method of `Reader`.
_READ: dict[str, tuple[type, str]] = {
    "array": (str, "tensor"),
    "dict": (dict, "_dict"),
    "float": (str, "_float"),
    "objects": (list, "_objects"),
    "scalar": (list, "_scalar"),
    "sparse": (list, "_sparse"),
    "transposed": (str, "_transposed"),
    "tuple": (list, "_tuple"),
    "type": (str, "_type"),
}


def _rises(offsets: npt.NDArray[Any], last: int) -> bool:
    """Whether places rise from 0 to the last one."""
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != last:
        return False
    # Within these limits, differences cannot overflow.
    return bool(offsets.min() >= 0 and offsets.max() <= last and not np.any(np.diff(offsets) < 0))


def _most_room(n_bytes: int) -> int:
    return max(_ROOM, _ROOM_FACTOR * n_bytes)


def _require(tensor: npt.NDArray[Any], name: str, kinds: str, ndim: int) -> npt.NDArray[Any]:
    if tensor.dtype.kind not in kinds or tensor.ndim != ndim:
        raise ModelFileError(
            f"{name} must have {ndim} side(s) and a type of kind {kinds!r}, got shape {tensor.shape} and "
            f"{tensor.dtype}. Save the model again."
        )
    return tensor
