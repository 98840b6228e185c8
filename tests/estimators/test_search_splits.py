"""The rows that searches fit to and judge by: splits, sums of training parts, unknown labels."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from lrml import MLFro, MLFroCV, SpectralRegressorCV, metrics
from lrml.model_selection import MultilabelStratifiedKFold, iterative_train_test_split
from model_checks import squared_error


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
        *([([0.5, 1.0], [2])], [([[0, 1]], [[2]])], [([0, 10], [1])]),
    ],
    ids=str,
)
def test_bad_splits_are_refused(cv):
    with pytest.raises(ValueError, match="cv"):
        held_out_scores(cv, random_labels(10))


def test_masks_are_splits():
    Y, rows = random_labels(40), np.arange(40)
    masks = [(rows >= 15, rows < 15), (rows % 2 == 0, rows % 2 == 1)]
    assert_these_splits(held_out_scores(masks, Y), Y, [tuple(map(np.flatnonzero, pair)) for pair in masks])


def test_real_targets_are_not_stratified_by_labels():
    X = np.random.default_rng(0).standard_normal((12, 4))
    with pytest.raises(ValueError, match=r"cv=MultilabelStratifiedKFold.*KFold"):
        SpectralRegressorCV(cv=MultilabelStratifiedKFold(3)).fit(X, X)


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
