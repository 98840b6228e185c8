"""The parts of a search: splits and their statistics, the comparison of candidates, the table of results."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from sklearn.model_selection import KFold, ShuffleSplit
from threadpoolctl import threadpool_limits

from lrml import LRMLCV, MLFro, MLFroCV, metrics
from lrml._door import memory_rows
from lrml.core.moments import Statistics
from lrml.estimators.search import _score_table, _splits
from lrml.model_selection import MultilabelStratifiedKFold, iterative_train_test_split

FIELDS = ("weight", "x_mean", "y_mean", "xx", "xy", "yy")


def random_labels(n, n_labels=3, seed=0):
    return (np.random.default_rng(seed).random((n, n_labels)) < 0.4).astype(np.int64)


def squared_error(Y, S):
    return -float(np.mean(((Y.toarray() if sp.issparse(Y) else Y) - S) ** 2))


def held_out_scores(cv, Y, seed=0):
    """What a search finds on its splits: it differs with every row that is fitted on or held out."""
    X = np.random.default_rng(1).standard_normal((Y.shape[0], 2))
    model = MLFroCV([1.0], cv=cv, scoring=squared_error, random_state=seed).fit(X, Y)
    return [model.cv_results_[f"split{i}_test_score"][0] for i in range(model.n_splits_)]


def assert_these_splits(found, Y, pairs):
    X = np.random.default_rng(1).standard_normal((Y.shape[0], 2))
    expected = [
        squared_error(Y[test], MLFro(1.0).fit(X[train], Y[train]).decision_function(X[test]))
        for train, test in pairs
    ]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


# Splits


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
    "splitter",
    [KFold(4), ShuffleSplit(3, test_size=0.4, random_state=0), MultilabelStratifiedKFold(2, random_state=3)],
    ids=["KFold", "ShuffleSplit", "stratified"],
)
def test_splitters_and_pairs_are_taken_as_they_are(splitter):
    Y = random_labels(25)
    expected = list(splitter.split(Y, Y))
    for cv in (splitter, expected, iter(expected), [(list(a), b.astype(np.int32)) for a, b in expected]):
        assert_these_splits(held_out_scores(cv, Y), Y, expected)


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (11, r"\[2, 10\].* 11\."),
        ([], "one split, got none"),
        ([1, 2], "got 1 as split 0"),
        ([([0, 1], [2]), ([0], [1], [2])], "as split 1"),
        ([([0, 1], [])], r"shape \(0,\)"),
        ([(np.arange(10) < 5, np.arange(10) >= 5)], "dtype bool in split 0"),
        ([([0.5, 1.0], [2])], "dtype float64"),
        ([([0, 1], [-1])], r"\[0, 9\], got -1 to -1"),
        ([([0, 10], [1])], r"\[0, 9\], got 0 to 10"),
    ],
)
def test_bad_splits_are_named(cv, message):
    with pytest.raises(ValueError, match=message):
        held_out_scores(cv, random_labels(10))


# Statistics of the training parts

SPLITTERS = {
    "folds": lambda n, seed: KFold(min(4, n), shuffle=True, random_state=seed).split(np.zeros(n)),
    "one": lambda n, seed: [(np.arange(n)[n // 3 :], np.arange(n)[: n // 3])],
    "overlapping": lambda n, seed: ShuffleSplit(3, test_size=0.4, random_state=seed).split(np.zeros(n)),
    "some held out": lambda n, seed: list(KFold(4).split(np.zeros(n)))[:2],
    "repeated": lambda n, seed: [(np.r_[2:n, 2], [0])],  # as many rows as if it were the complement
    "incomplete": lambda n, seed: [(np.arange(3, n), [0, 1])],
}


@settings(max_examples=80)
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
    X[0] *= outlier
    Y[:, 2] = 0
    Y[rng.integers(n), 2] = 1  # without a positive example in some training part
    weights = rng.integers(0, 3, n) + 0.1 * rng.random(n) if weighted else None
    form = sp.csr_array if sparse else np.asarray
    data = memory_rows(form(X), form(Y), weights)
    for chosen, test in SPLITTERS[kind](n, seed):
        found = _splits.training_part(data, _splits.Split(np.asarray(chosen), np.asarray(test))).statistics
        w = np.ones(len(chosen)) if weights is None else weights[chosen]
        A, B = X[chosen], Y[chosen]
        a, b = np.average(A, axis=0, weights=w), np.average(B, axis=0, weights=w)
        root = np.sqrt(w)[:, None]
        C, D = root * (A - a), root * (B - b)
        expected = w.sum(), a, b, C.T @ C, C.T @ D, np.sum(D**2)
        unit = max(np.sum(C**2), np.sum(w[:, None] * A**2) if sparse else 0.0)  # sparse rows are not centred
        scales = w.sum(), np.abs(A).max(), 1, unit, np.sqrt(unit * w.sum()), w.sum()
        for name, value, scale in zip(FIELDS, expected, scales, strict=True):
            np.testing.assert_allclose(getattr(found, name), value, rtol=0, atol=1e-9 * scale, err_msg=name)
        np.testing.assert_array_equal(found.y_mean == 0, B[w > 0].sum(axis=0) == 0)


def test_each_row_is_read_twice_whatever_the_number_of_folds(monkeypatch):
    """Once in all, and once more with its fold, whose moments are subtracted."""
    read, original = [], Statistics.from_arrays.__func__

    def count(cls, X, Y, sample_weight=None):
        read.append(X.shape[0])
        return original(cls, X, Y, sample_weight)

    monkeypatch.setattr(Statistics, "from_arrays", classmethod(count))
    held_out_scores(5, random_labels(20))
    assert sum(read) == 40


# The comparison of candidates


def filled_table(values, weights=None):
    table = _score_table.ScoreTable([values.shape[1]], [weights], by_row=True)
    table.add(len(values))
    for candidate, row in enumerate(values):
        table.record(candidate, 0, row, candidate)
    return table


def table_of(scores, ranks, **params):
    """A table of two splits, given one number or one for each split."""
    table = _score_table.ScoreTable([1, 1], [None, None], by_row=False, **params)
    table.add(len(scores))
    for candidate, (score, rank) in enumerate(zip(scores, ranks, strict=True)):
        for split in range(2):
            table.record(candidate, split, np.broadcast_to(score, 2)[split], rank)
    return table


@given(
    n=st.integers(30, 80),
    seed=st.integers(0, 10**6),
    spread=st.sampled_from([0.01, 0.1, 1.0]),
    weighted=st.booleans(),
    with_margin=st.booleans(),
)
def test_only_what_is_three_standard_errors_behind_is_hopeless(n, seed, spread, weighted, with_margin):
    rng = np.random.default_rng(seed)
    values = rng.random(n) + spread * rng.standard_normal((6, n)) - 0.1 * np.arange(6)[:, None]
    values = values.astype(np.float32).astype(np.float64)
    w = rng.integers(1, 4, n).astype(float) if weighted else np.ones(n)
    kept = filled_table(values, w if weighted else None).hopeful(0, with_margin=with_margin)
    means = np.average(values, axis=1, weights=w)
    leader = int(np.argmax(means))
    assert leader in kept

    def error_of(row):
        """Standard error of a weighted mean, Σ w² (v − v̄)² / (Σ w)², made unbiased as by n/(n − 1)."""
        raw = np.sum(w**2 * (row - np.average(row, weights=w)) ** 2)
        return np.sqrt(raw / (w.sum() ** 2 - np.sum(w**2)))

    margin = error_of(values[leader]) if with_margin else 0.0
    for candidate in range(6):
        lead = means[leader] - means[candidate]
        limit = margin + 3 * error_of(values[leader] - values[candidate])
        if abs(lead - limit) > 1e-6:
            assert (candidate in kept) == (lead <= limit)


def test_few_rows_or_rows_without_weight_condemn_nobody():
    def kept(values, weights=None):
        return filled_table(values, weights).hopeful(0, with_margin=False)

    values = np.array([[1.0] * 30, [0.0] * 30])
    assert kept(values) == [0]
    assert kept(values[:, :29]) == [0, 1]
    assert kept(np.where(np.arange(30) == 3, np.nan, values)) == [0, 1]
    assert kept(values, np.minimum(np.arange(30.0), 1.0)) == [0, 1]
    equal_where_it_counts = np.stack([np.r_[np.zeros(40), np.ones(40)], np.zeros(80)])
    assert kept(equal_where_it_counts, np.r_[np.ones(40), np.zeros(40)]) == [0, 1]
    assert kept(equal_where_it_counts) == [0]


def test_best_breaks_ties_by_rank_and_then_by_strength():
    table = table_of([0.7, 0.7, 0.7, 0.6, 0.7], [3, 2, 2, 1, 2])
    strengths = np.array([[9.0, 0.0], [1.0, 5.0], [2.0, 0.0], [9.0, 9.0], [2.0, 1.0]])
    assert table.in_order("best", strengths) == [4, 2, 1, 0]
    table.scores[4, 1] = np.nan  # who did not see every split cannot win
    assert table.in_order("best", strengths) == [2, 1, 0]


def test_the_smallest_breaks_ties_by_the_mean():
    """From rank 3 on a model takes as many bytes as its coefficients, so rank 9 is no larger than rank 3."""
    scores = [(0.62, 0.58), (0.50, 0.54), (0.59, 0.59), (0.61, 0.59), (0.56, 0.58), (0.56, 0.58)]
    table = table_of(scores, [9, 1, 3, 9, 2, 2], nbytes=lambda ranks: np.minimum(100 * ranks, 250))
    strengths = np.array([[1.0], [9.0], [2.0], [1.5], [3.0], [4.0]])
    # Means .60, .52, .59, .60, .57, .57; the best is the first, its standard error .02.
    assert table.in_order("smallest", strengths) == [3, 0, 2]
    assert table.in_order("one_standard_error", strengths) == [2, 3, 0]
    table.scores[4:] = [[0.57, 0.60], [0.57, 0.60]]
    assert table.in_order("smallest", strengths) == [5, 4, 3, 0, 2]


def test_weighted_mean_leaves_out_rows_without_value_or_weight():
    values = np.array([1.0, np.nan, 4.0, 7.0])
    assert _score_table.weighted_mean(values, None) == 4.0
    assert _score_table.weighted_mean(values, np.array([1.0, 5.0, 3.0, 0.0])) == pytest.approx(13 / 4)
    assert np.isnan(_score_table.weighted_mean(values, np.array([0.0, 1.0, 0.0, 0.0])))


def test_table_of_results_ranks_equals_alike_and_the_abandoned_last():
    table = _score_table.ScoreTable([1, 1, 1], [None] * 3, by_row=False)
    nan = np.nan
    table.scores = np.array([[0.5] * 3, [0.9, 0.1, 0.5], [0.2] * 3, [0.1, nan, nan], [0.3, nan, nan]])
    table.ranks = np.where(np.isnan(table.scores), nan, [[2], [4], [6], [1], [3]])
    found = _score_table.cv_results([{"alpha": float(i)} for i in range(5)], {"score": table})
    assert found["n_splits_seen"].tolist() == [3, 3, 3, 1, 1]
    np.testing.assert_allclose(found["mean_test_score"], np.nanmean(table.scores, axis=1))
    np.testing.assert_allclose(found["std_test_score"], np.nanstd(table.scores, axis=1), atol=1e-12)
    keys = np.where(found["n_splits_seen"] == 3, found["mean_test_score"], found["mean_test_score"] - 10)
    assert found["rank_test_score"].tolist() == rankdata(-keys, method="min").tolist() == [1, 1, 3, 5, 4]
    np.testing.assert_array_equal(found["mean_model_rank"], [2, 4, 6, 1, 3])
    np.testing.assert_array_equal(found["param_alpha"], np.arange(5.0))


# Threads, unknown labels


def test_threads_change_nothing(make_problem):
    results = []
    for threads in (1, 3):
        with threadpool_limits(threads, user_api="blas"):
            model = LRMLCV([0, 1], n_alphas=5, cv=3, random_state=0).fit(*make_problem(60, 5, 4))
            results.append(model.cv_results_)
    np.testing.assert_equal(*results)


@pytest.mark.parametrize("scoring", ["hamming_loss", "micro_f1"])
def test_unknown_labels_are_neither_hits_nor_mistakes(make_problem, scoring):
    """Scores far above the cut must not make a prediction of what is not known."""
    X, Y = make_problem(60, 5, 4)
    known = np.random.default_rng(3).random(Y.shape) < 0.7
    train, test = np.arange(40), np.arange(40, 60)
    search = MLFroCV([1.0], cv=[(train, test)], scoring=scoring, tol=1e-12).fit(X, Y, observed=known)
    plain = MLFro(1.0, tol=1e-12).fit(X[train], Y[train], observed=known[train])
    decisions, labels = plain.predict(X[test]) & known[test], Y[test] & known[test]
    hamming, micro = -np.mean(decisions != labels), metrics.micro_f1(labels, decisions)
    assert search.best_score_ == pytest.approx(micro if scoring == "micro_f1" else hamming, abs=1e-6)
    assert np.any(plain.predict(X[test]) > decisions)
