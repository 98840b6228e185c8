from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import brentq

from lrml.datasets import make_low_rank_multilabel
from lrml.datasets._synthetic import LowRankTruth


def same(a, b):
    """Whether two matrices have the same storage, shape and values."""
    if sparse.issparse(a):
        return sparse.issparse(b) and a.shape == b.shape and (a != b).nnz == 0
    return np.array_equal(a, b)


# ---- the truth ----


@pytest.mark.parametrize("decay", [0.5, 0.0])
@pytest.mark.parametrize("density", [None, 0.2])
def test_coefficients_have_the_rank_and_the_spectrum_asked_for(decay, density):
    dataset, truth = make_low_rank_multilabel(
        200, 30, 20, rank=4, decay=decay, density=density, random_state=0
    )
    assert isinstance(truth, LowRankTruth)
    assert truth.coef.shape == (20, 30)
    found = np.linalg.svd(truth.coef, compute_uv=False)
    assert np.allclose(found[4:], 0, atol=1e-12)
    assert np.allclose(found[:4], truth.s)
    assert np.allclose(found[:4] / found[0], np.exp(-decay * np.arange(4)))
    assert np.allclose(truth.U.T @ truth.U, np.eye(4))
    assert np.allclose(truth.V.T @ truth.V, np.eye(4))
    assert np.allclose(truth.scores(dataset.X), dataset.X @ truth.coef.T + truth.intercept)


@settings(max_examples=30)
@given(
    st.integers(1, 60),
    st.integers(1, 12),
    st.integers(1, 12),
    st.sampled_from([None, 0.3, 1.0]),
    st.integers(0, 999),
    st.data(),
)
def test_clean_labels_are_where_the_scores_are_positive(n, d, n_labels, density, seed, data):
    rank = data.draw(st.integers(1, min(d, n_labels)))
    cardinality = data.draw(st.floats(0.01, 0.9)) * n_labels
    dataset, truth = make_low_rank_multilabel(
        n, d, n_labels, rank=rank, cardinality=cardinality, density=density, random_state=seed
    )
    scores = truth.scores(dataset.X)
    certain = np.abs(scores) > 1e-9  # rows of a tiny sparse X may be alike, and then tie with a threshold
    assert density is not None or np.all(certain)
    assert np.array_equal((scores > 0)[certain], truth.Y_clean.toarray()[certain])
    assert same(dataset.Y, truth.Y_clean)
    assert dataset.unknown is None


# ---- labels ----


@settings(max_examples=25)
@given(st.integers(1, 300), st.floats(0.001, 0.9), st.integers(1, 40), st.floats(0, 3), st.integers(0, 99))
def test_number_of_labels_is_exact_without_noise(n, share, n_labels, imbalance, seed):
    dataset, _ = make_low_rank_multilabel(
        n, 45, n_labels, rank=1, cardinality=share * n_labels, imbalance=imbalance, random_state=seed
    )
    assert dataset.Y.sum() == pytest.approx(share * n_labels * n, abs=0.5 + 1e-6)


@pytest.mark.parametrize("noise", [0.25, 1.0, 3.0])
def test_agreement_with_clean_labels_is_that_of_correlated_normals(noise):
    # Scores with and without noise correlate by ρ = 1 / √(1 + noise²). For two standard normals and labels
    # that apply to half of the rows, the signs agree with probability 1 − arccos(ρ) / π.
    dataset, truth = make_low_rank_multilabel(
        20_000, 20, 10, cardinality=5.0, imbalance=0.0, noise=noise, random_state=0
    )
    assert dataset.Y.mean() * 10 == pytest.approx(5.0, rel=0.01)
    assert truth.scores(dataset.X).var(axis=0).mean() == pytest.approx(1, rel=0.05)
    agree = 1 - (truth.Y_clean != dataset.Y).nnz / (20_000 * 10)
    assert agree == pytest.approx(1 - np.arccos(1 / np.hypot(1, noise)) / np.pi, abs=0.01)


# ---- features ----


@pytest.mark.parametrize("density", [0.005, 0.02, 0.3, 1.0])
def test_sparse_features_look_like_text(density):
    X = make_low_rank_multilabel(3000, 300, 10, density=density, random_state=0)[0].X
    assert isinstance(X, sparse.csr_array)
    assert X.indices.dtype == np.int32
    assert X.data.min() > 0
    assert X.nnz / X.shape[0] == pytest.approx(density * 300, rel=0.05)
    norms = np.sqrt(X.multiply(X).sum(axis=1))
    assert np.all(np.isclose(norms, 1) | (norms == 0))
    occurs = np.diff(X.tocsc().indptr) / X.shape[0]
    if density < 1:  # Zipf: min(0.999, c / f) for feature f = 1, 2, …
        features = np.arange(1, 301)
        c = brentq(lambda c: np.minimum(0.999, c / features).mean() - density, 1e-9, 1e9)
        assert np.allclose(occurs, np.minimum(0.999, c / features), atol=0.045)  # five standard errors


# ---- repeatable ----

OPTIONS = {
    "dense": {},
    "noisy": {"noise": 0.5, "missing": 0.1},
    "sparse": {"density": 0.05, "noise": 0.5, "missing": 0.1},
}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("cells", [1, 777, 10**5])
def test_data_do_not_depend_on_the_size_of_a_block(monkeypatch, name, cells):
    expected, expected_truth = make_low_rank_multilabel(300, 80, 25, random_state=4, **OPTIONS[name])
    monkeypatch.setattr("lrml.datasets._synthetic._BLOCK_CELLS", cells)
    dataset, truth = make_low_rank_multilabel(300, 80, 25, random_state=4, **OPTIONS[name])
    assert same(dataset.X, expected.X)
    assert same(dataset.Y, expected.Y)
    assert same(truth.Y_clean, expected_truth.Y_clean)
    assert dataset.unknown is expected.unknown is None or same(dataset.unknown, expected.unknown)
    assert np.allclose(truth.intercept, expected_truth.intercept)


def test_seeds():
    first, truth = make_low_rank_multilabel(random_state=3)
    again, _ = make_low_rank_multilabel(random_state=np.random.RandomState(3))
    other, _ = make_low_rank_multilabel(random_state=4)
    assert same(first.X, again.X)
    assert same(first.Y, again.Y)
    assert not same(first.X, other.X)
    first.Y.data[:] = 0  # the record and the truth share no memory
    assert truth.Y_clean.sum() == 3000


# ---- errors ----

BAD = [
    *({"n_samples": 0}, {"n_features": 2.5}, {"n_labels": True}, {"rank": 0}, {"rank": 51}),
    *({"decay": -1}, {"decay": 100.0}, {"decay": float("nan")}, {"decay": "much"}),
    *({"cardinality": 0}, {"cardinality": 46}, {"imbalance": -0.1}, {"imbalance": 11}, {"imbalance": True}),
    *({"noise": -1}, {"missing": 1.0}, {"missing": -0.5}, {"density": 0.0}, {"density": 1.5}),
]


@pytest.mark.parametrize("options", BAD, ids=str)
def test_bad_parameters(options):
    ((name, value),) = options.items()
    with pytest.raises(
        (ValueError, TypeError), match=name.removeprefix("n_").replace("samples", "rows")
    ) as caught:
        make_low_rank_multilabel(**options)
    assert str(value) in str(caught.value)
