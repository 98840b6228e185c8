from __future__ import annotations

import gzip
import importlib.util
import io
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lrml.datasets import load_yeast

DATA = resources.files("lrml.datasets").joinpath("data")
SCRIPT = Path(__file__).parents[2] / "scripts" / "make_yeast.py"


@pytest.fixture(scope="module")
def make_yeast():
    spec = importlib.util.spec_from_file_location("make_yeast", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def csv_of(dataset):
    """Write a dataset as river ships it: test rows first, decimals without trailing zeros."""
    lines = [",".join(dataset.feature_names + dataset.label_names)]
    for X, Y in (dataset.test, dataset.train):
        for x, y in zip(X.tolist(), Y.tolist(), strict=True):
            lines.append(
                ",".join([f"{value:.6f}".rstrip("0").rstrip(".") for value in x] + [str(v) for v in y])
            )
    return "\n".join(lines) + "\n"


@pytest.mark.real_data
def test_equals_the_arff_files_bit_for_bit(mulan):
    embedded, original = load_yeast(), mulan("yeast")
    assert embedded.X.tobytes() == original.X.tobytes()
    assert embedded.Y.tobytes() == original.Y.tobytes()
    assert embedded.feature_names == original.feature_names
    assert embedded.label_names == original.label_names
    assert embedded.n_train == original.n_train


def test_each_call_returns_its_own_arrays():
    load_yeast().X[:] = 0
    assert load_yeast().X.any()


def test_script_reproduces_the_embedded_arrays(make_yeast):
    arrays = make_yeast.convert(gzip.compress(csv_of(load_yeast()).encode()))
    with np.load(io.BytesIO(DATA.joinpath("yeast.npz").read_bytes()), allow_pickle=False) as embedded:
        assert list(arrays) == list(embedded)
        for name in embedded:
            assert arrays[name].dtype == embedded[name].dtype
            assert_array_equal(arrays[name], embedded[name])
