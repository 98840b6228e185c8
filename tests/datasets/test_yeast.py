from __future__ import annotations

import pytest

from lrml.datasets import load_yeast


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
