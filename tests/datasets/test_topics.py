"""Synthetic data of the shape of extreme classification."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from lrml.datasets import TopicTruth, make_xmc


@pytest.mark.parametrize("imbalance", [0.0, 0.7, 1.0])
def test_labels_follow_the_power_law_and_have_the_rank_asked_for(imbalance):
    dataset, truth = make_xmc(3000, 400, 150, rank=6, cardinality=3.0, imbalance=imbalance, random_state=0)
    assert isinstance(truth, TopicTruth)
    assert np.linalg.matrix_rank(truth.scores()) == 6
    np.testing.assert_allclose(truth.scores().sum(axis=1), 1.0)
    np.testing.assert_allclose(truth.topics.sum(axis=1), 1.0)
    law = np.arange(1.0, 151) ** -imbalance
    np.testing.assert_allclose(truth.labels.mean(axis=0), law / law.sum(), rtol=0.02)
    # 1 + Poisson(2) draws: a row misses a label of probability p with probability (1 − p) exp(−2p).
    P = truth.scores()
    expected = (1.0 - (1.0 - P) * np.exp(-2.0 * P)).sum(axis=0)
    counts = np.asarray(dataset.Y.sum(axis=0)).ravel()
    assert np.all(np.abs(counts - expected) < 5.0 * np.sqrt(expected) + 1.0)
    assert counts.sum() == pytest.approx(expected.sum(), rel=0.02)


def test_rows_are_texts():
    dataset, _ = make_xmc(500, 2000, 80, rank=4, n_words=30.0, random_state=0)
    X, Y = dataset.X, dataset.Y
    assert sparse.issparse(X)
    assert sparse.issparse(Y)
    assert set(np.unique(Y.data)) == {1}
    assert X.indices.dtype == Y.indices.dtype == np.int32
    np.testing.assert_allclose(sparse.linalg.norm(X, axis=1), 1.0)
    assert X.min() >= 0
    assert 18 < X.nnz / 500 < 30
    assert np.all(np.diff(Y.indptr) >= 1)
    occurs = np.bincount(X.indices, minlength=2000)
    assert occurs[:20].min() > occurs[1000:].max()


def test_a_specific_label_leaves_a_word_of_its_own():
    without, with_words = (
        make_xmc(400, 3000, 60, rank=3, specific=share, random_state=1)[0] for share in (0.0, 1.0)
    )
    for label in (0, 5, 59):
        rows = with_words.Y[:, [label]].toarray().ravel() > 0
        counts = np.diff(with_words.X[rows].tocsc().indptr)
        assert rows.any()
        assert counts.max() == rows.sum()  # some word is in every row that has the label
    assert without.X.nnz < with_words.X.nnz


def test_data_depend_on_the_seed_only():
    first, again, other = (make_xmc(300, 200, 50, rank=3, random_state=seed)[0] for seed in (7, 7, 8))
    for key in ("X", "Y"):
        a, b, c = (getattr(one, key) for one in (first, again, other))
        assert (a != b).nnz == 0
        assert (a != c).nnz > 0


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_samples": 0}, "n_samples must be an int of at least 1, got 0"),
        ({"rank": 21}, "rank must be at most 20"),
        ({"n_words": 0.5}, "n_words must be a number of at least 1, got 0.5"),
        ({"cardinality": "x"}, "cardinality must be a number of at least 1, got 'x'"),
        ({"imbalance": 11}, "imbalance must be at most 10, got 11"),
        ({"specific": 1.5}, "specific must be a share of at most 1, got 1.5"),
    ],
)
def test_bad_values_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        make_xmc(**{"n_samples": 10, "n_features": 30, "n_labels": 20, "rank": 2} | wrong)
