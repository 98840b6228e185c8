"""Scores, decisions and top-k against brute force from the coefficients and a full stable sort."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_limits

from lrml import LEML, LRML
from lrml.estimators import _fitted
from lrml.solvers import Factors

FORMS = {"dense": np.asarray, "fortran": np.asfortranarray, "csr": sp.csr_array, "csc": sp.csc_matrix}


def hand_made(model: Any, U: Any, V: Any, intercept: Any, unseen: Any = None) -> Any:
    """Return a fitted model with coef_ = V Uᵀ (and s = 1) and the given intercepts."""
    model.fit(np.eye(3), np.eye(3, dtype=int))
    dtype = U.dtype
    model.fitted_ = replace(
        model.fitted_,
        schema=replace(model.fitted_.schema, n_features=len(U), n_labels=len(V)),
        factors=Factors(U, np.ones(U.shape[1], dtype=dtype), V),
        intercept=np.asarray(intercept, dtype=dtype),
        unseen=np.zeros(len(V), dtype=bool) if unseen is None else np.asarray(unseen),
    )
    return model


def sparse_labels(model: Any, were_sparse: bool = True) -> Any:
    """Let a model have been fitted on a sparse Y, or on a dense one."""
    schema = replace(model.fitted_.schema, sparse_labels=were_sparse)
    model.fitted_ = replace(model.fitted_, schema=schema)
    return model


def integers(seed: int, *shape: int, high: int = 1, dtype: Any = np.float64) -> np.ndarray:
    """Small integers: products of them are exact, in any order, and often equal."""
    return np.random.default_rng(seed).integers(-high, high, shape, endpoint=True).astype(dtype)


def brute_force(scores: np.ndarray, unseen: np.ndarray, k: int) -> np.ndarray:
    """Seen labels first, those with larger scores before others; else, and if unseen, lower columns first."""
    columns = np.arange(scores.shape[1])
    return np.array([np.lexsort((columns, np.where(unseen, 0, -row), unseen))[:k] for row in scores])


@st.composite
def tied_models(draw: Any) -> tuple[Any, np.ndarray, np.ndarray]:
    """A model with integer scores, rows for it, and these scores by the definition."""
    seed, n = draw(st.integers(0, 10**6)), draw(st.integers(1, 8))
    d, n_labels = draw(st.integers(1, 6)), draw(st.integers(1, 15))
    rank = draw(st.integers(0, min(d, n_labels)))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    X, U = integers(seed, n, d, dtype=dtype), integers(seed + 1, d, rank, dtype=dtype)
    V, intercept = integers(seed + 2, n_labels, rank, dtype=dtype), integers(seed + 3, n_labels, dtype=dtype)
    unseen = np.array(draw(st.lists(st.booleans(), min_size=n_labels, max_size=n_labels)))
    model = hand_made(draw(st.sampled_from([LRML, LEML]))(), U, V, intercept, unseen)
    return model, X, X @ (V @ U.T).T + intercept


@given(case=tied_models(), form=st.sampled_from(sorted(FORMS)), data=st.data())
def test_top_k_of_ties_is_a_stable_sort(case, form, data):
    model, X, scores = case
    k = data.draw(st.integers(1, scores.shape[1]))
    best = model.predict_top_k(FORMS[form](X), k)
    expected = brute_force(scores, model.unseen_labels_, k)
    np.testing.assert_array_equal(best.labels, expected)
    np.testing.assert_array_equal(best.scores, np.take_along_axis(scores, expected, axis=1))
    assert best.scores.dtype == X.dtype


@given(case=tied_models(), form=st.sampled_from(sorted(FORMS)), sparse_output=st.booleans())
def test_scores_and_decisions_are_the_definition(case, form, sparse_output):
    model, X, scores = case
    found = model.decision_function(FORMS[form](X))
    np.testing.assert_array_equal(found, scores)
    assert found.dtype == X.dtype
    sparse_labels(model, sparse_output)
    decisions = model.predict(FORMS[form](X))
    assert (sp.issparse(decisions), decisions.dtype) == (sparse_output, np.int64)
    np.testing.assert_array_equal(decisions.toarray() if sparse_output else decisions, scores >= 0.5)


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scores_beyond_all_numbers_are_refused_with_their_row(form, dtype):
    model = hand_made(LRML(), np.full((3, 1), 4, dtype), np.array([[4], [1], [-4]], dtype), np.zeros(3))
    X = np.zeros((5, 3), dtype)
    X[:, 0] = np.finfo(dtype).max / 64  # each score fits, their sum does not
    assert np.isfinite(model.decision_function(FORMS[form](X))).all()
    X[3, 0] = np.finfo(dtype).max / 2  # the score of the second label is 2 max
    for predict in (model.decision_function, model.predict, model.predict_top_k):
        with pytest.raises(OverflowError, match=rf"must be finite, got others in row 3 .*{np.dtype(dtype)}"):
            predict(FORMS[form](X))


@pytest.mark.parametrize("form", sorted(FORMS))
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("rows", [1, 7, 100])
def test_neither_blocks_nor_threads_change_anything(monkeypatch, form, threads, rows):
    X, U, V = integers(0, 100, 12), integers(1, 12, 3), integers(2, 40, 3)
    unseen = np.arange(40) % 7 == 0
    model = hand_made(LRML(), U, V, integers(3, 40), unseen)
    scores = X @ U @ V.T + model.intercept_
    monkeypatch.setattr(_fitted, "_BLOCK_SCORES", rows * 40)
    with threadpool_limits(threads, user_api="blas"):
        best = model.predict_top_k(FORMS[form](X), 6)
        np.testing.assert_array_equal(best.labels, brute_force(scores, unseen, 6))
        np.testing.assert_array_equal(model.decision_function(FORMS[form](X)), scores)
        np.testing.assert_array_equal(model.predict(FORMS[form](X)), scores >= 0.5)
        sparse_labels(model)
        np.testing.assert_array_equal(model.predict(FORMS[form](X)).toarray(), scores >= 0.5)


def test_top_k_of_many_rows_needs_little_memory():
    n, d, n_labels = 100_000, 300, 1000
    rng = np.random.default_rng(0)
    X = sp.csr_array((np.ones(3 * n, np.float32), rng.integers(0, d, 3 * n), np.arange(0, 3 * n + 1, 3)))
    U, V = integers(1, d, 4, dtype=np.float32), integers(2, n_labels, 4, dtype=np.float32)
    model = hand_made(LRML(), U, V, rng.standard_normal(n_labels))
    sparse_labels(model).threshold = 100.0
    tracemalloc.start()
    try:
        with threadpool_limits(2, user_api="blas"):
            best, decisions = model.predict_top_k(X, 5), model.predict(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert best.labels.shape == (n, 5)
    assert decisions.shape == (n, n_labels)
    assert peak < n * n_labels * 4 / 10
