"""The array namespace behind the numeric core: NumPy, torch, CuPy, JAX or any other Array API library.

This is the only module that imports ``array_api_compat``. The numeric core asks once for the namespace of
its arrays and then speaks the Array API standard, so the same solver runs on any of these libraries.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import os
import textwrap
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import array_api_compat
import array_api_compat.numpy
import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse as sp

from lrml._shown import shown
from lrml.core.threads import one_blas_thread_if

# How the libraries of a device say that its memory is used up.
_NO_MEMORY = ("OutOfMemoryError", "out of memory", "ALLOC_FAILED")
# So many characters of what a library says about a device are shown.
_LONGEST = 120
# From this size on, memory counts more than threads.
_LARGE = 2000

Array: TypeAlias = Any
"""An array of any Array API library; the standard has no static type yet."""

# Sizes of matrices that two BLAS threads decompose no faster than one; OpenBLAS uses one for those below.
_ONE_THREAD = range(40, 257)


def is_sparse(matrix: Any) -> bool:
    """Whether a matrix is a SciPy sparse matrix or array."""
    return bool(sp.issparse(matrix))


def as_matrix(value: Any) -> Any:
    """Return a sparse matrix as it is, a pandas frame of sparse columns as CSR, and all else as an array."""
    if is_sparse(value):
        return value
    sparse_columns = getattr(value, "sparse", None)  # the accessor that only frames of sparse columns have
    if sparse_columns is not None and hasattr(sparse_columns, "to_coo"):
        return sparse_columns.to_coo().tocsr()
    array = np.asarray(value)
    if array.dtype == object and hasattr(value, "to_numpy"):
        # pandas' nullable columns: numbers with NA, which are NaN here.
        try:
            return value.to_numpy(dtype=np.float64, na_value=np.nan)
        except (TypeError, ValueError):
            return array
    return array


def namespace(*arrays: Array) -> Any:
    """Return the Array API namespace that the arrays share."""
    for array in arrays:  # the check of any library takes ten times as long, and a generator three times
        if type(array) is not np.ndarray:
            return array_api_compat.array_namespace(*arrays)
    return array_api_compat.numpy


def to_numpy(array: Array) -> npt.NDArray[Any]:
    """Copy an array to host memory as a NumPy array (no copy when it is one already).

    The only way from a device to the host for more than a single number.
    """
    if isinstance(array, np.ndarray):
        return array
    if array_api_compat.is_torch_array(array):  # torch refuses to convert device tensors implicitly
        return np.asarray(array.detach().cpu())
    if array_api_compat.is_cupy_array(array):  # so does CuPy
        return np.asarray(array.get())
    xp = namespace(array)
    if array_api_compat.is_array_api_strict_namespace(xp):
        return np.asarray(array_api_compat.to_device(array, xp.Device("CPU_DEVICE")))
    return np.asarray(array)


def to_host(value: Any) -> Any:
    """Return an array on a device as a NumPy array, and lists, frames and sparse matrices as they are."""
    return value if is_host(value) else to_numpy(value)


def at_home(value: Any, known: dict[int, Any] | None = None) -> Any:
    """Return a value with every array in it as NumPy's, through records, lists, dictionaries and models.

    What holds none of another library is returned itself. An array that is held twice is copied once, for
    which ``known`` remembers what was found, by identity. A model has a method ``_at_home(known)``.
    """
    known = {} if known is None else known
    if id(value) not in known:
        known[id(value)] = _brought_home(value, known)
    return known[id(value)]


def _brought_home(value: Any, known: dict[int, Any]) -> Any:
    found = value
    if array_api_compat.is_array_api_obj(value):
        found = value if isinstance(value, np.ndarray | np.generic) else to_numpy(value)
    elif hasattr(type(value), "_at_home"):
        found = value._at_home(known)
    elif isinstance(value, dict):
        parts = {key: at_home(one, known) for key, one in value.items()}
        found = value if all(parts[key] is one for key, one in value.items()) else parts
    elif isinstance(value, list | tuple):
        listed = [at_home(one, known) for one in value]
        if any(new is not old for new, old in zip(listed, value, strict=True)):
            found = type(value)(*listed) if hasattr(value, "_fields") else type(value)(listed)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        parts = _brought_home(fields, known)
        found = value if parts is fields else dataclasses.replace(value, **parts)
    return found


class Place(NamedTuple):
    """Where arrays live: an Array API namespace and one of its devices.

    ``HOST`` is that of NumPy arrays and of SciPy's sparse ones.
    """

    xp: Any
    device: Any

    @classmethod
    def of(cls, array: Any) -> Place:
        """Return where an array lives; lists, frames and sparse matrices live with NumPy."""
        if isinstance(array, np.ndarray) or not array_api_compat.is_array_api_obj(array):
            return HOST
        return cls(array_api_compat.array_namespace(array), array_api_compat.device(array))

    @classmethod
    def named(cls, device: Any) -> Place:
        """Return the place of a device's name: "cpu" is NumPy's, others are torch's, or else CuPy's."""
        if isinstance(device, Place):
            return device
        name = device if isinstance(device, str) else str(device)
        if isinstance(device, str) and name == "cpu":
            return HOST
        is_name = isinstance(device, str) or type(device).__module__.partition(".")[0] == "torch"
        if not is_name or not name:
            raise ValueError(
                "device must be None or the name of a device, such as 'cuda' or 'cuda:1', got "
                f"{shown(device)}. Use None to compute where X is."
            )
        place = _torch_place(name) or _cupy_place(name)
        if place is None:
            raise ValueError(
                f"device={name!r} needs torch or CuPy, got an environment without them. Install torch, or "
                "leave device out to compute on the host."
            )
        return place

    def __reduce__(self) -> tuple[Any, ...]:
        return _place_in, (self.xp.__name__, self.device)  # a module has no pickle, but a name

    @property
    def is_host(self) -> bool:
        """Whether arrays are NumPy's."""
        return self.xp is HOST.xp

    def __deepcopy__(self, memo: dict[int, Any]) -> Place:
        return self  # a namespace is a module, which cannot be copied

    def __str__(self) -> str:
        name = self.xp.__name__.removeprefix("array_api_compat.")
        return name if self.is_host else f"{name} on {self.device}"

    @property
    def memory(self) -> float:
        """Bytes of memory, of a GPU those that are free; infinity where nothing tells."""
        if array_api_compat.is_torch_namespace(self.xp) and self.device.type == "cuda":
            torch = importlib.import_module("torch")
            free, _ = torch.cuda.mem_get_info(self.device)
            held = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)
            return float(free + held)
        if array_api_compat.is_cupy_namespace(self.xp):
            cupy = importlib.import_module("cupy")
            with self.device:
                return float(cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes())
        try:
            return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):
            return math.inf

    @contextmanager
    def explaining_errors(self, needs: str) -> Iterator[None]:
        """Turn a device's lack of memory into an error that says what to do; ``needs`` says what needs it."""
        try:
            yield
        except Exception as error:
            words = f"{type(error).__name__} {error}"
            if self.is_host or not any(sign in words for sign in _NO_MEMORY):
                raise
            present = self.memory
            raise MemoryError(
                f"the arrays of a fit must fit into the memory of the device ({self}), got {needs}, which do "
                f"not fit beside what is there ({present / 1e9:.1f} GB free). Pass fewer rows or features, "
                "free memory, or compute on the host: device=None with NumPy arrays."
            ) from error

    def asarray(self, value: Any, dtype: Any = None) -> Array:
        """Return a value as a dense array here, of a type given by name; copied only if it must be."""
        if isinstance(value, np.ndarray) and self.is_host:
            return value if dtype is None else value.astype(dtype, copy=False)
        if is_sparse(value):
            return self._dense(value, dtype)
        wanted = None if dtype is None else getattr(self.xp, np.dtype(dtype).name)
        there = Place.of(value)
        if there == self:
            value = np.asarray(value) if self.is_host else value  # a list, a frame
            return value if wanted is None else self.xp.astype(value, wanted, copy=False)
        if there.xp is self.xp:
            moved = array_api_compat.to_device(value, self.device)
        else:
            held = np.asarray(to_numpy(value) if not there.is_host else value)
            moved = self.xp.asarray(held if self.is_host else _as_others_take_it(held), device=self.device)
        return moved if wanted is None else self.xp.astype(moved, wanted, copy=False)

    def _dense(self, matrix: Any, dtype: Any) -> Array:
        """Return a sparse matrix as a dense array here; where possible, only what it stores travels."""
        dtype = _common_type(np.dtype(matrix.dtype if dtype is None else dtype)).name
        by_places = array_api_compat.is_torch_namespace(self.xp) or array_api_compat.is_cupy_namespace(
            self.xp
        )
        if not by_places:  # the standard cannot write to scattered places
            return self.asarray(matrix.toarray(), dtype)
        stored = matrix.tocsr().tocoo()
        stored.sum_duplicates()
        row, column = (np.asarray(index, dtype=np.int64) for index in (stored.row, stored.col))
        dense = self.zeros(math.prod(matrix.shape), dtype)
        dense[self.asarray(row * matrix.shape[1] + column)] = self.asarray(stored.data, dtype)
        return self.xp.reshape(dense, tuple(matrix.shape))

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = "float64") -> Array:
        """Return an array of zeros here."""
        return self.xp.zeros(shape, dtype=getattr(self.xp, np.dtype(dtype).name), device=self.device)

    def ones(self, shape: int | tuple[int, ...], dtype: Any = "float64") -> Array:
        """Return an array of ones here."""
        return self.xp.ones(shape, dtype=getattr(self.xp, np.dtype(dtype).name), device=self.device)


HOST = Place(array_api_compat.numpy, "cpu")


def _as_others_take_it(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array whose memory other libraries can share: of a common type, in plain order, writable."""
    array = array.astype(_common_type(array.dtype), copy=False)
    plain = array.flags.writeable and all(stride >= 0 for stride in array.strides)
    return array if plain else array.copy()


def _common_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a type that every library has: native bytes, no long doubles, small unsigned integers only."""
    if dtype.kind == "f" and dtype.itemsize > 8:
        return np.dtype(np.float64)
    if dtype.kind == "u" and dtype.itemsize > 1:
        return np.dtype(np.int64)
    return dtype.newbyteorder("=")


def _place_in(library: str, device: Any) -> Place:
    return Place(importlib.import_module(library), device)


@cache
def _torch_place(name: str) -> Place | None:
    """Return the place of one of torch's devices; None without torch."""
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    xp = importlib.import_module("array_api_compat.torch")
    try:
        tried = torch.linalg.eigvalsh(torch.ones((1, 1), dtype=torch.float64, device=name))
        float(tried[0])
    except Exception as error:  # torch has no common type for a name it does not know and a driver it lacks
        raise ValueError(
            f"device must be one that is there and has float64 and eigh, got {name!r} "
            f"({_first_sentence(error)}). Leave it out to compute on the host, or name another device."
        ) from error
    return Place(xp, tried.device)  # "cuda" has become "cuda:0"


def _cupy_place(name: str) -> Place | None:
    """Return the place of one of CuPy's devices; None without CuPy."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        return None
    kind, _, number = name.partition(":")
    try:
        if kind != "cuda":
            raise ValueError("CuPy has only CUDA devices")
        device = cupy.cuda.Device(int(number or 0))
        device.compute_capability  # noqa: B018  # fails if it is not there
    except Exception as error:
        raise ValueError(
            f"device must be one that is there, got {name!r} ({_first_sentence(error)}). Leave it "
            "out to compute on the host, or name another device."
        ) from error
    return Place(importlib.import_module("array_api_compat.cupy"), device)


def _first_sentence(error: Exception) -> str:
    """Return what an error says first: libraries go on with lists of all their backends."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return textwrap.shorten(line.partition(". ")[0].rstrip("."), _LONGEST, placeholder=" …")


def plain(value: Any, name: str) -> Any:
    """Return a tensor without its record of gradients; refuse one that is no dense array of numbers.

    Everything else is returned as it is.
    """
    if isinstance(value, np.ndarray) or not array_api_compat.is_torch_array(value):
        return value
    if str(value.layout) != "torch.strided":
        raise TypeError(
            f"{name} must be dense on a device, got a tensor with the layout {value.layout}. Pass "
            f"{name}.to_dense(); X may also be a SciPy sparse matrix, with device='cuda' for a fit there."
        )
    if value.device.type == "meta":
        raise TypeError(
            f"{name} must hold numbers, got a tensor on the device 'meta', which has a shape only. Pass a "
            "tensor on another device."
        )
    return value.detach()


def is_host(*arrays: Any) -> bool:
    """Whether arrays are NumPy's or SciPy's, so that code of NumPy alone may handle them."""
    # Arrays of NumPy are told by their type: small fits ask very often.
    return all(type(array) is np.ndarray or Place.of(array).is_host for array in arrays)


def take(matrix: Any, places: Any, axis: int = 0) -> Any:
    """Rows of a vector, array or sparse matrix, or columns (``axis=1``) of an array, by their numbers."""
    if is_sparse(matrix):
        return matrix.tocsr()[places]
    place = Place.of(matrix)
    if place.is_host:
        return matrix[places] if axis == 0 else matrix[:, places]
    return place.xp.take(matrix, place.asarray(places, "int64"), axis=axis)


def dtype_name(array: Array) -> str:
    """Name of the type of an array's numbers, such as "float32"."""
    return str(array.dtype).rpartition(".")[2]


def descending_eigh(gram: Array, *, overwrite: bool = False) -> tuple[Array, Array]:
    """Eigenvalues of a symmetric matrix in descending order, and the eigenvectors as columns.

    A large NumPy matrix that may be overwritten takes room for two further ones, instead of four.
    """
    xp = namespace(gram)
    with few_threads(gram):
        if overwrite and gram.shape[0] >= _LARGE and is_host(gram):
            # LAPACK, as in NumPy; the transpose is in its order, so that nothing is copied. But SciPy has
            # threads of its own, which wait for those of NumPy: small matrices would take ten times as long.
            values, vectors = scipy.linalg.eigh(gram.T, overwrite_a=True, check_finite=False, driver="evd")
        else:
            values, vectors = xp.linalg.eigh(gram)
    return xp.flip(values, axis=0), xp.flip(vectors, axis=1)


def descending_eigvalsh(gram: Array) -> Array:
    """Eigenvalues of a symmetric matrix in descending order."""
    xp = namespace(gram)
    with few_threads(gram):
        values = xp.linalg.eigvalsh(gram)
    return xp.flip(values, axis=0)


def thin_svd(matrix: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition U, s, Vᵀ, s descending.

    LAPACK's divide and conquer, which is what NumPy calls, gives up on a few harmless matrices; then the
    slower QR iteration is used.
    """
    xp = namespace(matrix)
    with few_threads(matrix):
        try:
            U, s, Vt = xp.linalg.svd(matrix, full_matrices=False)
        except np.linalg.LinAlgError:  # raised for NumPy arrays only
            U, s, Vt = scipy.linalg.svd(matrix, full_matrices=False, lapack_driver="gesvd")
    return U, s, Vt


def few_threads(matrix: Array) -> AbstractContextManager[None]:
    """Limit BLAS to one thread while a small NumPy matrix is decomposed."""
    return one_blas_thread_if(max(matrix.shape) in _ONE_THREAD and array_api_compat.is_numpy_array(matrix))


def frobenius(array: Array) -> float:
    """Frobenius norm as a Python float."""
    xp = namespace(array)
    return float(xp.linalg.vector_norm(array))


def inner(a: Array, b: Array) -> float:
    """Inner product ⟨A, B⟩ = Σ a_ij b_ij as a Python float."""
    return float(dot(a, b))


def dot(a: Array, b: Array) -> Array:
    """Inner product ⟨A, B⟩ as an array without axes, for sums that are copied to the host once."""
    if isinstance(a, np.ndarray):
        return np.vdot(a, b)
    xp = namespace(a, b)
    return xp.vecdot(xp.reshape(a, (-1,)), xp.reshape(b, (-1,)))


def row_dots(first: Array, *others: Array) -> Array:
    """Return the sums of the products of matrices, entry by entry, along their rows."""
    if isinstance(first, np.ndarray):
        return np.einsum(",".join(["ij"] * (1 + len(others))) + "->i", first, *others)
    *further, last = others
    for factor in further:
        first = first * factor
    return namespace(first).vecdot(first, last)


@contextmanager
def full_precision(array: Array) -> Iterator[None]:
    """Multiply matrices of float32 with all their digits, even if the user has allowed torch to use fewer.

    TF32 on CUDA keeps 10 of the 23 bits of a mantissa, bfloat16 on a CPU 7. The setting belongs to the
    process, and is restored at the end. CuPy uses TF32 only if the environment says CUPY_TF32=1.
    """
    if not array_api_compat.is_torch_array(array):
        yield
        return
    torch = importlib.import_module("torch")
    # Up to torch 2.8 the first setting is the only one. Since then it is an older name of the others, and
    # reading it fails if the others contradict it.
    try:
        setting = torch.get_float32_matmul_precision()
    except RuntimeError:
        setting = "highest"
    backends = torch.backends.cuda, torch.backends.mkldnn
    products = [part.matmul for part in backends if hasattr(getattr(part, "matmul", None), "fp32_precision")]
    found = [part.fp32_precision for part in products]
    if setting == "highest" and not {"tf32", "bf16"}.intersection(found):
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(setting)
        for part, precision in zip(products, found, strict=True):
            part.fp32_precision = "none"  # as that of all backends
            if part.fp32_precision != precision:
                part.fp32_precision = precision
