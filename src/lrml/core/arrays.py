"""Arrays of NumPy, torch, CuPy, JAX or any other Array API library, where they live, and threads for them.

This is the only module that imports ``array_api_compat``. The numeric core asks once for the namespace of
its arrays and then speaks the Array API standard, so the same solver runs on any of these libraries.

The threads of OpenBLAS wait for each other by spinning. Where another process holds a core, small matrices
take 100 times as long on two threads as on one, and on idle cores no less: few threads are the rule.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
import os
import textwrap
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from threading import Lock, current_thread, get_ident
from typing import Any, NamedTuple, TypeAlias, TypeVar

import array_api_compat
import array_api_compat.numpy
import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from threadpoolctl import ThreadpoolController

from lrml._shown import shown

Array: TypeAlias = Any
"""An array of any Array API library; the standard has no static type yet."""
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# How the libraries of a device say that its memory is used up.
_NO_MEMORY = ("OutOfMemoryError", "out of memory", "ALLOC_FAILED")
# Sizes of matrices that two BLAS threads decompose no faster than one; OpenBLAS uses one for those below.
_ONE_THREAD = range(40, 257)
# Processes per core, over the last minute, beyond which a second thread of BLAS waits more than it works.
_BUSY = 1.5
_N_CORES = os.cpu_count() or 1  # asking takes longer than the load does
_WORKER = "lrml block"  # how the names of threads begin that work for `map_in_threads`


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
        with suppress(TypeError, ValueError):  # pandas' nullable columns: numbers with NA, which are NaN here
            return value.to_numpy(dtype=np.float64, na_value=np.nan)
    return array


def namespace(*arrays: Array) -> Any:
    """Return the Array API namespace that the arrays share."""
    for array in arrays:  # the check of any library takes ten times as long, and a generator three times
        if type(array) is not np.ndarray:
            return array_api_compat.array_namespace(*arrays)
    return array_api_compat.numpy


def to_numpy(array: Array) -> npt.NDArray[Any]:
    """Return an array as NumPy's; it is copied only if it is another library's.

    The only way from a device to the host for more than a single number.
    """
    if isinstance(array, np.ndarray):
        return array
    xp = namespace(array)  # torch and CuPy refuse to convert what is on a device implicitly
    host = xp.Device("CPU_DEVICE") if array_api_compat.is_array_api_strict_namespace(xp) else "cpu"
    return np.asarray(array_api_compat.to_device(array, host))


def to_host(value: Any) -> Any:
    """Return an array on a device as a NumPy array, and lists, frames and sparse matrices as they are."""
    return value if is_host(value) else to_numpy(value)


def dense(matrix: Any) -> Array:
    """Return a sparse matrix as an array, and an array as it is."""
    return matrix.toarray() if is_sparse(matrix) else matrix


def at_home(value: Any, known: dict[int, Any] | None = None) -> Any:
    """Return a value with every array in it as NumPy's, through records, lists, dictionaries and models.

    What holds none of another library is returned itself. An array that is held twice is copied once, for
    which ``known`` remembers what was found, by identity. A model has a method ``_at_home(known)``.
    """
    known = {} if known is None else known
    if id(value) in known:
        return known[id(value)]
    found = value
    is_record = dataclasses.is_dataclass(value) and not isinstance(value, type)
    if array_api_compat.is_array_api_obj(value):
        found = value if isinstance(value, np.ndarray | np.generic) else to_numpy(value)
    elif hasattr(type(value), "_at_home"):
        found = value._at_home(known)
    elif isinstance(value, list | tuple):
        listed = [at_home(one, known) for one in value]
        if any(new is not old for new, old in zip(listed, value, strict=True)):
            found = type(value)(*listed) if hasattr(value, "_fields") else type(value)(listed)
    elif isinstance(value, dict) or is_record:
        names = [one.name for one in dataclasses.fields(value)] if is_record else list(value)
        named = {name: getattr(value, name) for name in names} if is_record else value
        parts = {name: at_home(named[name], known) for name in names}
        if any(parts[name] is not named[name] for name in names):
            found = dataclasses.replace(value, **parts) if is_record else parts
    known[id(value)] = found
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
        is_name = isinstance(device, str) or type(device).__module__.partition(".")[0] == "torch"
        if not is_name or not str(device):
            raise ValueError(
                f"device is {shown(device)}. Pass the name of a device, such as 'cuda' or 'cuda:1', or None "
                "to compute where X is."
            )
        return HOST if isinstance(device, str) and device == "cpu" else _place_named(str(device))

    @property
    def is_host(self) -> bool:
        """Whether arrays are NumPy's."""
        return self.xp is HOST.xp

    def __reduce__(self) -> tuple[Any, ...]:
        return _place_in, (self.xp.__name__, self.device)  # a module cannot be pickled

    def __str__(self) -> str:
        name = self.xp.__name__.removeprefix("array_api_compat.")
        return name if self.is_host else f"{name} on {self.device}"

    @property
    def memory(self) -> float:
        """Bytes of memory, of a GPU those that are free; infinity where nothing tells."""
        if array_api_compat.is_torch_namespace(self.xp) and self.device.type == "cuda":
            cuda = importlib.import_module("torch").cuda
            held = cuda.memory_reserved(self.device) - cuda.memory_allocated(self.device)
            return float(cuda.mem_get_info(self.device)[0] + held)
        if array_api_compat.is_cupy_namespace(self.xp):
            with self.device:
                pool = importlib.import_module("cupy").get_default_memory_pool()
                return float(self.device.mem_info[0] + pool.free_bytes())
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
            if self.is_host or not any(sign in f"{type(error).__name__} {error}" for sign in _NO_MEMORY):
                raise
            raise MemoryError(
                f"{needs} do not fit into the memory of the device ({self}), beside what is there "
                f"({self.memory / 1e9:.1f} GB free). Pass fewer rows or features, free memory, or compute on "
                "the host: device=None with NumPy arrays."
            ) from error

    def asarray(self, value: Any, dtype: Any = None) -> Array:
        """Return a value as a dense array here, of a type given by name; copied only if it must be."""
        if isinstance(value, np.ndarray) and self.is_host:
            return value if dtype is None else value.astype(dtype, copy=False)
        if is_sparse(value):
            return self._dense(value, dtype)
        there = Place.of(value)
        if there == self:
            moved = np.asarray(value) if self.is_host else value  # a list, a frame
        elif there.xp is self.xp:
            moved = array_api_compat.to_device(value, self.device)
        elif self.is_host:
            moved = to_numpy(value)
        else:
            held = np.asarray(value) if there.is_host else to_numpy(value)
            # Others have native bytes in plain order, no long doubles, and small unsigned integers only.
            kind = np.dtype(held.dtype.newbyteorder("="))
            if kind.itemsize > {"f": 8, "u": 1}.get(kind.kind, kind.itemsize):
                kind = np.dtype(np.float64 if kind.kind == "f" else np.int64)
            moved = self.xp.asarray(np.require(held, kind, ["C", "W"]), device=self.device)
        if dtype is None:
            return moved
        return self.xp.astype(moved, getattr(self.xp, np.dtype(dtype).name), copy=False)

    def _dense(self, matrix: Any, dtype: Any) -> Array:
        """Return a sparse matrix as a dense array here; where possible, only what it stores travels."""
        if not (array_api_compat.is_torch_namespace(self.xp) or array_api_compat.is_cupy_namespace(self.xp)):
            return self.asarray(matrix.toarray(), dtype)  # the standard cannot write to scattered places
        stored = matrix.tocsr().tocoo()
        stored.sum_duplicates()
        values = self.asarray(stored.data, dtype)
        dense = self.zeros(matrix.shape, dtype_name(values))
        dense[self.asarray(stored.row, "int64"), self.asarray(stored.col, "int64")] = values
        return dense

    def zeros(self, shape: int | tuple[int, ...], dtype: Any = "float64") -> Array:
        """Return an array of zeros here."""
        return self.xp.zeros(shape, dtype=getattr(self.xp, np.dtype(dtype).name), device=self.device)

    def ones(self, shape: int | tuple[int, ...], dtype: Any = "float64") -> Array:
        """Return an array of ones here."""
        return self.xp.ones(shape, dtype=getattr(self.xp, np.dtype(dtype).name), device=self.device)


HOST = Place(array_api_compat.numpy, "cpu")


def _place_in(library: str, device: Any) -> Place:
    return Place(importlib.import_module(library), device)


@cache
def _place_named(name: str) -> Place:
    """Return the place of a device of torch, or of CuPy where torch is not installed."""
    for library in ("torch", "cupy"):
        try:
            module = importlib.import_module(library)
        except ImportError:
            continue
        try:
            if library == "torch":
                tried = module.linalg.eigvalsh(module.ones((1, 1), dtype=module.float64, device=name))
                float(tried[0])
                device = tried.device  # "cuda" has become "cuda:0"
            else:
                device = module.cuda.Device(int(name.removeprefix("cuda").removeprefix(":") or 0))
                device.compute_capability  # noqa: B018  # fails if it is not there
        except Exception as error:  # a name that is not known and a driver that lacks have no common type
            said = str(error).strip().partition("\n")[0].partition(". ")[0].rstrip(".")
            said = textwrap.shorten(said or type(error).__name__, 120, placeholder=" …")
            raise ValueError(
                f"device={name!r} is not there, or has no float64 or eigh ({said}). Leave it out to compute "
                "on the host, or name another device."
            ) from error
        return _place_in(f"array_api_compat.{library}", device)
    raise ValueError(
        f"device={name!r} needs torch or CuPy, and neither is installed. Install torch, or leave device out "
        "to compute on the host."
    )


def plain(value: Any, name: str) -> Any:
    """Return a tensor without its record of gradients, and all else as it is; refuse one without numbers.

    Labels that are masked are NaN; other masked entries are refused.
    """
    if isinstance(value, np.ma.MaskedArray):
        if not np.ma.is_masked(value):
            return np.asarray(value.data)
        if name != "Y":
            impute = "Impute them" if name == "X" else "Fill them"
            raise ValueError(f"{name} is a masked array with masked entries. {impute}, or drop those rows.")
        masked: Any = value.astype(value.dtype if value.dtype.kind == "f" else object)
        return masked.filled(np.nan)
    if isinstance(value, np.ndarray) or not array_api_compat.is_torch_array(value):
        return value
    if str(value.layout) != "torch.strided":
        raise TypeError(
            f"{name} is a tensor with the layout {value.layout}. Pass {name}.to_dense(); X may also be a "
            "SciPy sparse matrix, with device='cuda' for a fit there."
        )
    if value.device.type == "meta":
        raise TypeError(f"{name} is a tensor on the device 'meta', which has no numbers. Pass another one.")
    return value.detach()


def is_host(array: Any) -> bool:
    """Whether an array is NumPy's or SciPy's, so that code of NumPy alone may handle it."""
    # Arrays of NumPy are told by their type: small fits ask very often.
    return type(array) is np.ndarray or Place.of(array).is_host


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


def beside(values: npt.NDArray[Any], array: Array) -> Array:
    """Return a small vector of the host where an array lives, in its type."""
    return values if type(array) is np.ndarray else Place.of(array).asarray(values, dtype_name(array))


def floats(*numbers: Array) -> list[float]:
    """Return arrays without axes as Python floats, copied from a device at once."""
    if isinstance(numbers[0], float):  # NumPy's are
        return list(map(float, numbers))
    found: list[float] = to_numpy(namespace(*numbers).stack(numbers)).tolist()
    return found


def frobenius(array: Array) -> float:
    """Frobenius norm as a Python float."""
    return float(namespace(array).linalg.vector_norm(array))


def dot(a: Array, b: Array) -> Array:
    """Inner product ⟨A, B⟩ = Σ a_ij b_ij, as an array without axes: sums are copied to the host once."""
    if isinstance(a, np.ndarray):
        return np.vdot(a, b)
    xp = namespace(a)
    return xp.vecdot(xp.reshape(a, (-1,)), xp.reshape(b, (-1,)))


@contextmanager
def full_precision(array: Array) -> Iterator[None]:
    """Multiply matrices of float32 with all their digits, even if the user has allowed torch to use fewer.

    TF32 on CUDA keeps 10 of the 23 bits of a mantissa, bfloat16 on a CPU 7. The setting, one per process, is
    restored at the end.
    """
    if not array_api_compat.is_torch_array(array):
        yield
        return
    torch = importlib.import_module("torch")
    try:  # since torch 2.9 an older name of the settings of the backends, which fails if they contradict it
        setting = torch.get_float32_matmul_precision()
    except RuntimeError:
        setting = "highest"
    parts: Any = [getattr(each, "matmul", None) for each in (torch.backends.cuda, torch.backends.mkldnn)]
    found = [(part, part.fp32_precision) for part in parts if hasattr(part, "fp32_precision")]
    if setting == "highest" and not {"tf32", "bf16"}.intersection(precision for _, precision in found):
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(setting)
        for part, precision in found:
            part.fp32_precision = "none"  # as that of all backends
            if part.fp32_precision != precision:
                part.fp32_precision = precision


# Threads


@cache
def _blas_libraries() -> tuple[Any, ...]:
    """Return the BLAS libraries of the process; finding them takes a millisecond."""
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


class _OneThread:
    """A context in which BLAS uses one thread; may be nested, and entered by several Python threads.

    threadpoolctl lets only one Python thread change the number, which belongs to the process: the first that
    enters sets it and restores it when it leaves, perhaps too early for others inside. 10 µs, 1 µs if nested.
    """

    def __init__(self) -> None:
        self.before: list[int] = []  # the numbers of threads that will be restored; none without a limit
        self._lock = Lock()
        self._owner: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        with self._lock:
            if self._owner is None:
                self._owner = get_ident()
                for library in _blas_libraries():
                    self.before.append(library.num_threads or 1)
                    library.set_num_threads(1)
            self._depth += self._owner == get_ident()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._owner != get_ident():
                return
            self._depth -= 1
            if self._depth == 0:
                for library, number in zip(_blas_libraries(), self.before, strict=True):
                    library.set_num_threads(number)
                    # In newer versions of threadpoolctl: others may set it now.
                    getattr(library, "clear_controlling_thread", bool)()
                self._owner, self.before = None, []


one_blas_thread = _OneThread()


def one_blas_thread_if(limited: bool) -> AbstractContextManager[None]:
    """Return the context `one_blas_thread` if it is wanted, or if other processes keep the cores busy.

    This process alone, with as many threads as there are cores, does not. Not every system tells.
    """
    if limited or (hasattr(os, "getloadavg") and os.getloadavg()[0] > _BUSY * _N_CORES):
        return one_blas_thread
    return nullcontext()


def few_threads(matrix: Array) -> AbstractContextManager[None]:
    """Limit BLAS to one thread while a small NumPy matrix is decomposed."""
    return one_blas_thread_if(type(matrix) is np.ndarray and max(matrix.shape) in _ONE_THREAD)


def threads_to_share() -> int:
    """Return how many threads may work side by side: as many as BLAS has, were it not limited here.

    A thread that works for `map_in_threads` has none to share.
    """
    if current_thread().name.startswith(_WORKER):
        return 1
    return max(
        one_blas_thread.before or [library.num_threads or 1 for library in _blas_libraries()], default=1
    )


def map_in_threads(
    function: Callable[[_Item], _Result], items: Sequence[_Item], *, ahead: int = 1, small: bool = False
) -> Iterator[_Result]:
    """Yield ``function(item)`` for every item, in order, computed by as many threads as BLAS has.

    BLAS then needs no threads of its own. Results come in the order of the items, so sums over them do not
    depend on the number of threads. At most ``ahead`` items beyond that number are started early, so that
    large results do not pile up. Small items, mostly overhead of Python, are computed one after the other,
    with BLAS on one thread.
    """
    threads = 1 if small or len(items) <= 1 else threads_to_share()
    if threads == 1:
        with one_blas_thread if small else nullcontext():
            yield from map(function, items)
        return
    with one_blas_thread, ThreadPoolExecutor(threads, thread_name_prefix=_WORKER) as pool:
        pending: deque[Future[_Result]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= threads + ahead:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
