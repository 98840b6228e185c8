"""Where the numeric core is tested: NumPy, the strict reference library, torch, and CUDA where there is one.

A test that takes the fixture ``place`` runs in all of them. On ``strict-device1`` every conversion to NumPy
that is not asked for raises, so that it finds what would be a hidden copy from a GPU to the host.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import array_api_strict
import numpy as np
import pytest
import sklearn

from lrml.core.arrays import HOST, Place, dtype_name, namespace, to_numpy

# The newest version of the standard that is no draft, whatever the environment says.
array_api_strict.reset_array_api_strict_flags()

# Library and device of each; a place of a library that is not installed is left out.
_PLACES = {
    "numpy": ("numpy", None),
    "strict-cpu": ("array_api_strict", "CPU_DEVICE"),
    "strict-device1": ("array_api_strict", "device1"),
    "torch-cpu": ("torch", "cpu"),
    "torch-cuda": ("torch", "cuda"),
    "cupy-cuda": ("cupy", "cuda"),
}
# The reference library is slow, and its "CPU_DEVICE" finds nothing that "device1" does not.
_USUAL = tuple(name for name in _PLACES if name != "strict-cpu")


def places(*names: str) -> list[object]:
    """Parameters of the fixture ``place``: the usual places, or those that are named, as far as installed.

    Use as ``@pytest.mark.parametrize("place", places("strict-device1"), indirect=True)``.
    """
    return [
        pytest.param(name, id=name, marks=[pytest.mark.device] if name.endswith("cuda") else [])
        for name in names or _USUAL
        if find_spec(_PLACES[name][0]) is not None
    ]


@cache
def place_named(name: str) -> Place:
    """The place of a name; the test is skipped if it needs a GPU and there is none."""
    library, device = _PLACES[name]
    if library == "numpy":
        return HOST
    if library == "array_api_strict":
        return Place(array_api_strict, array_api_strict.Device(device))
    module = import_module(library)  # seconds, so only where a test needs it
    if device == "cuda":
        found = module.cuda.is_available() if library == "torch" else module.cuda.runtime.getDeviceCount()
        if not found:
            pytest.skip("needs a CUDA device")
        example = module.zeros(1, device="cuda") if library == "torch" else module.zeros(1)
    else:
        example = module.zeros(1)
    return Place.of(example)


def put(place: Place, array: Any) -> Any:
    """Copy what NumPy can read to a place, with its type."""
    held = np.array(array)  # a copy: torch would share the memory
    return held if place.is_host else place.xp.asarray(held, device=place.device)


def assert_same(actual, expected, place, dtype="float64", rtol=1e-9, atol=None):
    """Assert place (namespace and device), type, shape, and values within ``rtol`` of the largest one."""
    expected = np.asarray(expected)
    assert namespace(actual) is place.xp, f"namespace {namespace(actual)}"
    assert Place.of(actual).device == place.device, f"device {Place.of(actual).device}"
    assert dtype_name(actual) == dtype
    assert tuple(actual.shape) == expected.shape
    scale = np.max(np.abs(expected), initial=0.0) if expected.dtype.kind in "iuf" else 0.0
    np.testing.assert_allclose(
        to_numpy(actual), expected, rtol=0, atol=rtol * scale if atol is None else atol
    )


def moved(place: Place, record: Any) -> Any:
    """Copy a record, a dataclass or a named tuple, with its arrays in another place."""
    if isinstance(record, np.ndarray):
        return put(place, record)
    if dataclasses.is_dataclass(record):
        values = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
        return dataclasses.replace(record, **{name: moved(place, value) for name, value in values.items()})
    if isinstance(record, tuple):
        parts = [moved(place, part) for part in record]
        return type(record)(*parts) if hasattr(record, "_fields") else tuple(parts)
    return record


@contextmanager
def dispatching() -> Iterator[None]:
    """Switch on scikit-learn's ``array_api_dispatch``.

    It insists on the environment variable by which SciPy decides at import whether to handle arrays of other
    libraries. Set here, it comes too late for SciPy, which is well: nothing else in this process changes, and
    no estimator may depend on it.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCIPY_ARRAY_API", "1")
        with sklearn.config_context(array_api_dispatch=True):
            yield
