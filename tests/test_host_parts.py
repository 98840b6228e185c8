"""Parts that compute on the host: from device arrays and models, the results of NumPy, in NumPy arrays.

On array-api-strict's device every copy that is not asked for raises.
"""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pytest

from lrml import LRML, SpectrumDisplay, theory
from lrml.completion import LowRankImputer, complete, select_alpha
from lrml.core.penalties import TailSum
from lrml.inspection import low_rank_gain
from lrml.model_selection import MultilabelStratifiedKFold
from namespaces import dispatching, places, put

pytestmark = pytest.mark.parametrize(
    "place", places(*(name.id for name in places() if name.id != "numpy")), indirect=True
)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 6))
    Y = (X @ rng.standard_normal((6, 4)) > 0.5).astype(np.int64)
    return X, Y


@pytest.fixture(autouse=True)
def _closed_figures():
    yield
    plt.close("all")


def _same(found, expected):
    """Assert equal values and types, through lists, dictionaries and records."""
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected)
    elif dataclasses.is_dataclass(expected):
        for field in dataclasses.fields(expected):
            _same(getattr(found, field.name), getattr(expected, field.name))
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for key in expected:
            _same(found[key], expected[key])
    elif isinstance(expected, list | tuple):
        for one, other in zip(found, expected, strict=True):
            _same(one, other)
    else:
        assert found == expected


def _with_gaps(X):
    return np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, np.nan, X)


EIGENVALUES = np.array([2.0, 0.5, 0.25])
# Functions of `move`, which puts arrays into a place, and of NumPy data.
CALLS = {
    "spectrum": lambda move, X, Y: theory.Spectrum.of(move(X)),
    "global complexity": lambda move, X, Y: theory.global_complexity(move(X), 4, n_draws=3, random_state=0),
    "local complexity": lambda move, X, Y: theory.local_complexity(
        move(X), 4, r=0.5, theta=1, tail=0.1, n_draws=2, random_state=0
    ),
    "global bound": lambda move, X, Y: theory.global_bound(move(EIGENVALUES), 40, 4),
    "local bound": lambda move, X, Y: theory.local_bound(move(EIGENVALUES), 40, 4, r=0.5, theta=1, tail=0.1),
    "local rate": lambda move, X, Y: theory.local_rate(move(EIGENVALUES), 40, 4),
    "printed bound": lambda move, X, Y: theory.printed_local_bound(move(EIGENVALUES), 40, 0.5, 1),
    "completion": lambda move, X, Y: complete(move(_with_gaps(X)), TailSum(1, 0.5)).dense(),
    "entries": lambda move, X, Y: complete(_with_gaps(X), TailSum(1, 0.5)).values(
        move(np.array([0, 3])), move(np.array([1, 2]))
    ),
    "strength": lambda move, X, Y: select_alpha(move(_with_gaps(X)), 1, random_state=0),
    "imputer": lambda move, X, Y: LowRankImputer(1, 0.1).fit(move(X)).transform(move(_with_gaps(X))),
    "folds": lambda move, X, Y: list(MultilabelStratifiedKFold(3, random_state=0).split(move(X), move(Y))),
    "spectrum display": lambda move, X, Y: SpectrumDisplay(move(EIGENVALUES)).plot().singular_values,
    "gain of low rank": lambda move, X, Y: repr(low_rank_gain(move(X), move(Y))),
    "threshold": lambda move, X, Y: (
        LRML(1, 1.0, threshold=move(np.array([0.1, 0.2, 0.3, 0.4]))).fit(X, Y).predict(X)
    ),
}


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dispatch", [False, True], ids=["", "dispatch"])
def test_device_arrays_give_the_results_of_numpy(name, dispatch, data, place):
    expected = CALLS[name](np.asarray, *data)
    with dispatching() if dispatch else nullcontext():
        _same(CALLS[name](partial(put, place), *data), expected)
