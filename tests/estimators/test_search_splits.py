"""The rows that searches fit to and judge by: splits, sums of training parts, unknown labels."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import KFold, ShuffleSplit

from lrml import MLFro, MLFroCV, SpectralRegressorCV, metrics
from lrml.core.rows import Rows
from lrml.estimators import _splits
from lrml.model_selection import MultilabelStratifiedKFold, iterative_train_test_split
from model_checks import squared_error

FIELDS = ("weight", "x_mean", "y_mean", "xx", "xy", "yy")


def random_labels(n, n_labels=3, seed=0):
    return (np.random.default_rng(seed).random((n, n_labels)) < 0.4).astype(np.int64)


def held_out_scores(cv, Y, seed=0):
    """What a search finds on its splits: it differs with every row that is fitted on or held out."""
    X = np.random.default_rng(1).standard_normal((Y.shape[0], 2))
    model = MLFroCV(alphas=[1.0], cv=cv, scoring=squared_error, random_state=seed).fit(X, Y)
    return [model.cv_results_[f"split{i}_test_score"][0] for i in range(model.n_splits_)]


def assert_these_splits(found, Y, pairs):
    X = np.random.default_rng(1).standard_normal((Y.shape[0], 2))
    expected = [
        squared_error(Y[test], MLFro(1.0).fit(X[train], Y[train]).decision_function(X[test]))
        for train, test in pairs
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_numbers_and_shares_are_stratified(form):
    Y = random_labels(40)
    for cv in (3, np.int64(3)):
        found = held_out_scores(cv, form(Y), 7)
        assert_these_splits(found, Y, MultilabelStratifiedKFold(3, random_state=7).split(Y, Y))
    assert not np.allclose(found, held_out_scores(3, form(Y), 8))
    for cv in (0.3, np.float32(0.5)):
        pair = iterative_train_test_split(np.arange(40), Y, test_size=float(cv), random_state=1)[:2]
        assert len(pair[1]) == round(40 * float(cv))
        assert_these_splits(held_out_scores(cv, form(Y), 1), Y, [pair])


@pytest.mark.parametrize(
    "cv",
    [
        *(11, [], [1, 2], [([0, 1], [2]), ([0], [1], [2])], [([0, 1], [])]),
        *([(np.arange(10) < 5, np.arange(10) >= 5)], [([0.5, 1.0], [2])], [([0, 1], [-1])], [([0, 10], [1])]),
    ],
    ids=str,
)
def test_bad_splits_are_refused(cv):
    with pytest.raises(ValueError, match="cv"):
        held_out_scores(cv, random_labels(10))


def test_real_targets_are_not_stratified_by_labels():
    X = np.random.default_rng(0).standard_normal((12, 4))
    with pytest.raises(ValueError, match=r"cv=MultilabelStratifiedKFold.*KFold"):
        SpectralRegressorCV(cv=MultilabelStratifiedKFold(3)).fit(X, X)


SPLITTERS = {
    "folds": lambda n, seed: KFold(min(4, n), shuffle=True, random_state=seed).split(np.zeros(n)),
    "one": lambda n, seed: [(np.arange(n)[n // 3 :], np.arange(n)[: n // 3])],
    "overlapping": lambda n, seed: ShuffleSplit(3, test_size=0.4, random_state=seed).split(np.zeros(n)),
    "some held out": lambda n, seed: list(KFold(4).split(np.zeros(n)))[:2],
    "repeated": lambda n, seed: [(np.r_[2:n, 2], [0])],  # as many rows as if it were the complement
    "incomplete": lambda n, seed: [(np.arange(3, n), [0, 1])],
}


@settings(max_examples=40)
@given(
    kind=st.sampled_from(sorted(SPLITTERS)),
    n=st.integers(6, 40),
    d=st.integers(1, 5),
    seed=st.integers(0, 10**6),
    weighted=st.booleans(),
    sparse=st.booleans(),
    shift=st.sampled_from([0.0, 30.0]),
    outlier=st.sampled_from([1.0, 1e3, 1e8]),
)
def test_training_statistics_are_those_of_the_training_rows(
    kind, n, d, seed, weighted, sparse, shift, outlier
):
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((n, d)) + shift, (rng.random((n, 3)) < 0.3).astype(float)
    X[0, 0] *= outlier
    X *= np.geomspace(1.0, 1e12, d)  # none of them may be lost beside the others
    Y[:, 2] = 0
    Y[rng.integers(n), 2] = 1  # without a positive example in some training part
    weights = rng.integers(0, 3, n) + 0.1 * rng.random(n) if weighted else None
    form = sp.csr_array if sparse else np.asarray
    data = Rows(form(X), form(Y), weights=weights)
    for chosen, test in SPLITTERS[kind](n, seed):
        found = _splits.training_part(data, _splits.Split(np.asarray(chosen), np.asarray(test))).statistics
        w = np.ones(len(chosen)) if weights is None else weights[chosen]
        A, B = X[chosen], Y[chosen]
        a, b = np.average(A, axis=0, weights=w), np.average(B, axis=0, weights=w)
        root = np.sqrt(w)[:, None]
        C, D = root * (A - a), root * (B - b)
        expected = w.sum(), a, b, C.T @ C, C.T @ D, np.sum(D**2)
        squares = np.sum(w[:, None] * (A**2 if sparse else (A - a) ** 2), axis=0)  # sparse: not centred
        root = np.sqrt(squares)[:, None]
        scales = w.sum(), np.abs(A).max(axis=0), 1, root * root.T, root * np.sqrt(w.sum()), w.sum()
        for name, value, scale in zip(FIELDS, expected, scales, strict=True):
            error = np.abs(getattr(found, name) - value)
            assert np.all(error <= 1e-9 * np.asarray(scale)), name
        np.testing.assert_array_equal(found.y_mean == 0, B[w > 0].sum(axis=0) == 0)


@pytest.mark.parametrize("scoring", ["hamming_loss", "f1_micro"])
def test_unknown_labels_are_neither_hits_nor_mistakes(make_problem, scoring):
    """Scores far above the cut must not make a prediction of what is not known."""
    X, Y = make_problem(60, 5, 4)
    known = np.random.default_rng(3).random(Y.shape) < 0.7
    train, test = np.arange(40), np.arange(40, 60)
    search = MLFroCV(MLFro(tol=1e-12), alphas=[1.0], cv=[(train, test)], scoring=scoring).fit(
        X, Y, observed=known
    )
    plain = MLFro(1.0, tol=1e-12).fit(X[train], Y[train], observed=known[train])
    decisions, labels = plain.predict(X[test]) & known[test], Y[test] & known[test]
    hamming, micro = -np.mean(decisions != labels), metrics.f1_micro(labels, decisions)
    assert search.best_score_ == pytest.approx(micro if scoring == "f1_micro" else hamming, abs=1e-6)
    assert np.any(plain.predict(X[test]) > decisions)
