from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import brentq

from lrml.datasets import make_low_rank_multilabel


def same(a, b):
    """Whether two matrices have the same storage, shape and values."""
    if sparse.issparse(a):
        return sparse.issparse(b) and a.shape == b.shape and (a != b).nnz == 0
    return np.array_equal(a, b)


def frequencies(Y):
    return np.asarray(Y.sum(axis=0)) / Y.shape[0]


@pytest.mark.parametrize("density", [None, 0.2])
def test_coefficients_have_the_rank_and_the_spectrum_asked_for(density):
    dataset, truth = make_low_rank_multilabel(200, 30, 20, rank=4, density=density, random_state=0)
    assert truth.coef.shape == (20, 30)
    found = np.linalg.svd(truth.coef, compute_uv=False)
    assert np.allclose(found[4:], 0, atol=1e-12)
    assert np.allclose(found[:4], truth.s)
    assert np.allclose(found[:4] / found[0], np.exp(-np.arange(4) / 4))
    assert np.allclose(truth.U.T @ truth.U, np.eye(4))
    assert np.allclose(truth.V.T @ truth.V, np.eye(4))
    scores = truth.scores(dataset.X)
    assert np.allclose(scores, dataset.X @ truth.coef.T + truth.intercept)
    assert scores.var(axis=0).mean() == pytest.approx(1)


@settings(max_examples=30)
@given(
    st.integers(1, 60),
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from([None, 0.3, 0.99]),
    st.integers(0, 999),
    st.data(),
)
def test_without_noise_labels_are_where_the_scores_are_positive(n, d, n_labels, density, seed, data):
    rank = data.draw(st.integers(1, min(d, n_labels)))
    cardinality = data.draw(st.floats(0.01, 0.89)) * n_labels
    dataset, truth = make_low_rank_multilabel(
        n, d, n_labels, rank=rank, cardinality=cardinality, density=density, random_state=seed
    )
    scores = truth.scores(dataset.X)
    certain = np.abs(scores) > 1e-9  # a single row, or rows that are alike, tie with the threshold
    assert np.array_equal((scores > 0)[certain], dataset.Y.toarray()[certain])


def test_noisy_labels_agree_with_clean_ones_as_correlated_normals():
    # Scores with and without noise correlate by ρ = 1 / √(1 + noise²). For two standard normals and labels
    # that apply to half of the rows, the signs agree with probability 1 − arccos(ρ) / π.
    for noise in (0.25, 1.0, 3.0):
        dataset, truth = make_low_rank_multilabel(
            20_000, 20, 1, rank=1, cardinality=0.5, noise=noise, random_state=0
        )
        assert dataset.Y.mean() == pytest.approx(0.5, rel=0.03)
        agree = ((truth.scores(dataset.X) > 0) == dataset.Y.toarray()).mean()
        assert agree == pytest.approx(1 - np.arccos(1 / np.hypot(1, noise)) / np.pi, abs=0.015)


@pytest.mark.parametrize("cardinality", [1.0, 5.0, 8.9])
@pytest.mark.parametrize("noise", [0.0, 0.7])
def test_frequencies_follow_the_power_law_up_to_nine_tenths(cardinality, noise):
    dataset, _ = make_low_rank_multilabel(
        20_000, 20, 10, cardinality=cardinality, noise=noise, random_state=0
    )
    law = np.arange(1, 11) ** -0.8
    c = brentq(lambda c: np.minimum(0.9, c * law).sum() - cardinality, 1e-9, 1e9)
    expected = np.minimum(0.9, c * law)
    assert np.allclose(frequencies(dataset.Y), expected, atol=0.018)  # five standard errors


def test_rare_labels_of_texts_are_rare():
    dataset, _ = make_low_rank_multilabel(20_000, 200, 3_000, cardinality=2.0, density=0.05, random_state=3)
    assert dataset.Y.sum() / 20_000 == pytest.approx(2.0, rel=0.1)


@pytest.mark.parametrize("density", [0.005, 0.02, 0.3, 0.99])
def test_sparse_features_look_like_text(density):
    X = make_low_rank_multilabel(3000, 300, 10, density=density, random_state=0)[0].X
    assert isinstance(X, sparse.csr_array)
    assert X.indices.dtype == np.int32
    assert X.data.min() > 0
    norms = np.sqrt(X.multiply(X).sum(axis=1))
    assert np.all(np.isclose(norms, 1) | (norms == 0))
    occurs = np.diff(X.tocsc().indptr) / X.shape[0]
    expected = np.full(300, 0.9)
    if density < 0.9:  # Zipf: min(.9, c / f) for feature f = 1, 2, …
        features = np.arange(1, 301)
        c = brentq(lambda c: np.minimum(0.9, c / features).mean() - density, 1e-9, 1e9)
        expected = np.minimum(0.9, c / features)
    assert np.allclose(occurs, expected, atol=0.045)  # five standard errors


def test_sparse_values_are_tf_idf():
    X = make_low_rank_multilabel(20_000, 200, 10, density=0.05, random_state=0)[0].X
    idf = 1 - np.log(np.diff(X.tocsc().indptr) / X.shape[0])
    # Up to the norm of its row each value is a count times idf: ratios within a row are ratios of integers.
    row = X[[7]]
    counts = row.data / idf[row.indices]
    counts /= counts.min()
    assert np.allclose(counts, np.round(counts), atol=0.2)


@pytest.mark.parametrize("options", [{}, {"noise": 0.5}, {"noise": 0.5, "density": 0.05}], ids=str)
def test_data_depend_on_the_seed_and_not_on_the_size_of_a_block(monkeypatch, options):
    expected, _ = make_low_rank_multilabel(300, 80, 25, random_state=4, **options)
    other, _ = make_low_rank_multilabel(300, 80, 25, random_state=5, **options)
    assert not same(other.X, expected.X)
    for cells in (1, 777, 10**5):
        monkeypatch.setattr("lrml.datasets._synthetic._BLOCK_CELLS", cells)
        seed = np.random.RandomState(4)
        dataset, _ = make_low_rank_multilabel(300, 80, 25, random_state=seed, **options)
        assert same(dataset.X, expected.X)
        assert same(dataset.Y, expected.Y)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("n_samples", 0), ("n_features", 2.5), ("n_labels", True), ("rank", 0), ("rank", 51)),
        *(("cardinality", 0), ("cardinality", 46), ("noise", -1), ("density", 0.0), ("density", 1.5)),
    ],
)
def test_bad_parameters(name, value):
    with pytest.raises(ValueError, match=f"{name} is {value}"):
        make_low_rank_multilabel(**{name: value})
