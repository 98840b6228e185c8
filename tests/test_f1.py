"""Micro- and macro-F1 against scikit-learn."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import sklearn.metrics as skm
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lrml import _ranking
from lrml.metrics import macro_f1, micro_f1
from model_checks import SPARSE_FORMATS

METRICS = {"micro": micro_f1, "macro": macro_f1}
each_metric = pytest.mark.parametrize("average", METRICS)


def expected_f1(Y, S, threshold, average):
    """Scikit-learn takes a single column for one binary problem, and wants to be told the labels."""
    predicted = np.greater_equal(S, threshold).astype(int)
    labels = range(1, 2) if Y.shape[1] == 1 else None
    return skm.f1_score(Y, predicted, average=average, labels=labels, zero_division=0)


def make(n_rows, n_labels, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.random((n_rows, n_labels)) < 0.3).astype(int), rng.standard_normal((n_rows, n_labels))


@each_metric
@settings(deadline=None)
@given(st.data())
def test_f1_is_that_of_scikit_learn(average, data):
    shape = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 5)))
    Y = data.draw(hnp.arrays(np.int64, shape, elements=st.integers(0, 1)))
    S = data.draw(hnp.arrays(np.float64, shape, elements=st.integers(-2, 2).map(float)))
    common = data.draw(st.integers(-3, 3))
    own = data.draw(hnp.arrays(np.float64, shape[1], elements=st.integers(-3, 3).map(float)))
    for threshold in (common, own):
        expected = expected_f1(Y, S, threshold, average)
        assert METRICS[average](Y, S, threshold) == pytest.approx(expected, abs=1e-15)


def test_by_hand():
    Y = [[1, 0, 0], [1, 1, 0], [0, 1, 0]]
    S = [[0.5, 0.9, 0.1], [0.4, 0.6, 0.2], [0.1, 0.7, 0.3]]
    # Label 0: 1 hit, 1 missed. Label 1: 2 hits, 1 too many. Label 2 has no F1 and counts as 0.
    assert micro_f1(Y, S) == 6 / 8
    assert macro_f1(Y, S) == pytest.approx((2 / 3 + 4 / 5 + 0) / 3)
    assert micro_f1(Y, S, 0.4) == 8 / 9
    assert isinstance(micro_f1(Y, S), float)
    assert isinstance(macro_f1(Y, S), float)


@each_metric
def test_nothing_relevant_and_nothing_predicted_counts_as_zero(average):
    assert METRICS[average](np.zeros((3, 2)), np.zeros((3, 2))) == 0


@each_metric
@pytest.mark.parametrize("format_", SPARSE_FORMATS)
def test_sparse_labels_and_frames(average, format_):
    Y, S = make(30, 7)
    expected = METRICS[average](Y, S)
    assert METRICS[average](SPARSE_FORMATS[format_](Y), S) == expected
    assert METRICS[average](pd.DataFrame(Y), pd.DataFrame(S)) == expected


@each_metric
@pytest.mark.parametrize("entries", [1, 20, 10_000])
def test_blocks_of_rows_add_up(monkeypatch, average, entries):
    Y, S = make(23, 7)
    monkeypatch.setattr(_ranking, "_BLOCK_ENTRIES", entries)
    assert METRICS[average](sp.csr_array(Y), S) == pytest.approx(expected_f1(Y, S, 0.5, average), rel=1e-14)


@each_metric
def test_threshold_is_compared_in_the_precision_of_the_scores(average):
    S = np.full((2, 2), 0.1, dtype=np.float32)
    assert METRICS[average](np.ones((2, 2)), S, 0.1) == 1
    assert METRICS[average](np.ones((2, 2)), S, [0.1, np.inf]) == pytest.approx(
        2 / 3 if average == "micro" else 0.5
    )


@each_metric
@pytest.mark.parametrize(
    ("Y", "S", "threshold", "message"),
    [
        ([[2, 0]], [[0.1, 0.2]], 0.5, "Y must hold only 0 and 1, got 2 at row 0, column 0"),
        ([[1, 0]], [[0.1, np.nan]], 0.5, "S must be finite, got nan at row 0, column 1"),
        ([[1, 0]], [[0.1]], 0.5, "Y and S must be of the same shape"),
        (
            [[1, 0]],
            [[0.1, 0.2]],
            [0.5, 0.5, 0.5],
            r"threshold must be a number or 2 numbers \(one per label\)",
        ),
    ],
)
def test_refused(average, Y, S, threshold, message):
    with pytest.raises(ValueError, match=message):
        METRICS[average](Y, S, threshold)
