"""Places of arrays: where they are, and the ways there and back."""

import numpy as np
import pytest
import scipy.sparse as sp

from lrml.core.arrays import HOST, Place, at_home, is_host, to_numpy
from lrml.core.linalg import descending_eigh, thin_svd
from namespaces import assert_same, put


@pytest.mark.parametrize("dtype", ["float64", "float32", "int64", "bool"])
def test_arrays_come_and_go_unchanged(place, dtype):
    values = np.arange(6).reshape(2, 3).astype(dtype)
    there = put(place, values)
    assert Place.of(there) == place
    assert is_host(there) == place.is_host == (place == HOST)
    assert_same(there, values, place, dtype)
    back = to_numpy(there)
    assert type(back) is np.ndarray
    assert back.dtype == dtype
    np.testing.assert_array_equal(back, values)
    for given in (values, sp.csr_array(values), there, values.tolist()):
        assert_same(place.asarray(given, dtype), values, place, dtype)
    assert place.asarray(there) is there
    assert_same(place.asarray(there, "float64"), values, place)
    assert_same(HOST.asarray(there), values, HOST, dtype)
    assert_same(place.zeros((2, 3), dtype), np.zeros((2, 3)), place, dtype)
    assert_same(place.ones(3, dtype), np.ones(3), place, dtype)
    frozen = values.copy()
    frozen.flags.writeable = False
    assert_same(place.asarray(frozen), values, place, dtype)


@pytest.mark.parametrize("size", [3, 50])
def test_decompositions_are_descending_and_give_the_matrix_back(place, size):
    root = np.random.default_rng(0).normal(size=(size, size + 2))
    gram = root @ root.T
    values, vectors = descending_eigh(put(place, gram))
    assert_same((vectors * values) @ vectors.T, gram, place)
    U, s, Vt = thin_svd(put(place, root))
    assert_same((U * s) @ Vt, root, place)
    for found in (values, s**2):
        assert_same(found, np.sort(np.linalg.eigvalsh(gram))[::-1], place)


def test_what_is_at_home_stays_and_an_array_that_is_held_twice_is_copied_once(place):
    there = put(place, np.ones(3))
    value = {"a": [there, (there, "b")], "c": np.zeros(2)}
    found = at_home(value)
    assert (found is value) == place.is_host
    first, (second, word) = found["a"]
    assert first is second
    assert (type(first), word, found["c"] is value["c"]) == (np.ndarray, "b", True)
