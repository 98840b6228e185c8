"""The parts of a search, each alone: splits and their statistics, the board, the criteria, the table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata
from sklearn.model_selection import KFold, ShuffleSplit

from lrml import LRMLCV
from lrml.estimators.search import _search
from lrml.estimators.search._criterion import check_scoring, weighted_mean
from lrml.estimators.search._held_out import HeldOut
from lrml.estimators.search._race import Board
from lrml.estimators.search._results import cv_results
from lrml.estimators.search._splits import Split, make_splits, split_statistics
from lrml.model_selection import MultilabelStratifiedKFold, iterative_train_test_split
from lrml.statistics import Statistics

FIELDS = ("weight", "x_mean", "y_mean", "xx", "xy", "yy")


def random_labels(n, n_labels=3, seed=0):
    return (np.random.default_rng(seed).random((n, n_labels)) < 0.4).astype(np.int64)


def assert_same_splits(found, expected):
    expected = list(expected)
    assert len(found) == len(expected)
    for split, (train, test) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(split.train, train)
        np.testing.assert_array_equal(split.test, test)


# Splits


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("cv", [3, np.int64(3)], ids=["int", "numpy int"])
def test_a_number_of_folds_is_stratified(form, cv):
    Y = random_labels(31)
    found = make_splits(cv, np.zeros((31, 2)), form(Y), 7)
    assert_same_splits(found, MultilabelStratifiedKFold(3, random_state=7).split(Y, Y))
    other = make_splits(cv, np.zeros((31, 2)), form(Y), 8)
    assert any(not np.array_equal(a.test, b.test) for a, b in zip(found, other, strict=True))


@pytest.mark.parametrize("cv", [0.3, np.float32(0.5)])
def test_a_share_is_held_out_once(cv):
    Y = random_labels(40)
    (split,) = make_splits(cv, np.zeros((40, 2)), Y, 1)
    expected = iterative_train_test_split(np.arange(40), Y, test_size=float(cv), random_state=1)[:2]
    assert_same_splits([split], [expected])
    assert len(split.test) == round(40 * float(cv))


@pytest.mark.parametrize(
    "splitter",
    [KFold(4), ShuffleSplit(3, test_size=0.4, random_state=0), MultilabelStratifiedKFold(2, random_state=3)],
    ids=["KFold", "ShuffleSplit", "stratified"],
)
def test_splitters_and_pairs_are_taken_as_they_are(splitter):
    Y = random_labels(25)
    expected = list(splitter.split(Y, Y))
    for cv in (splitter, expected, iter(expected), [(list(a), b.astype(np.int32)) for a, b in expected]):
        assert_same_splits(make_splits(cv, np.zeros((25, 1)), Y, 0), expected)


@pytest.mark.parametrize(
    ("cv", "message"),
    [
        (1, r"an int cv must be in \[2, 10\] .*, got 1\."),
        (11, r"an int cv must be in \[2, 10\] .*, got 11\."),
        (0.0, r"held-out share in \(0, 1\), got 0"),
        (1.0, r"held-out share in \(0, 1\), got 1"),
        (float("nan"), r"held-out share in \(0, 1\), got nan"),
        ("five", "cv must be a number of folds, .* got 'five'"),
        (True, "cv must be a number of folds, .* got True"),
        (None, "cv must be a number of folds, .* got None"),
        ([], "at least one split, got none"),
        ([1, 2], "must be a pair .* got 1 as split 0"),
        ([([0, 1], [2]), ([0], [1], [2])], "must be a pair .* as split 1"),
        ([([0, 1], [])], "row numbers to fit on and to hold out, got shape"),
        ([(np.arange(10) < 5, np.arange(10) >= 5)], "dtype bool in split 0.*flatnonzero"),
        ([([0.5, 1.0], [2])], "dtype float64"),
        ([([0, 1], [-1])], r"must be in \[0, 9\], got -1 to -1"),
        ([([0, 10], [1])], r"must be in \[0, 9\], got 0 to 10"),
    ],
)
def test_bad_splits_are_named(cv, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make_splits(cv, np.zeros((10, 2)), random_labels(10), 0)


# Statistics of the training parts

SPLITTERS = {
    "folds": lambda n, seed: KFold(min(4, n), shuffle=True, random_state=seed).split(np.zeros(n)),
    "one": lambda n, seed: [(np.arange(n)[n // 3 :], np.arange(n)[: n // 3])],
    "overlapping": lambda n, seed: ShuffleSplit(3, test_size=0.4, random_state=seed).split(np.zeros(n)),
    "some held out": lambda n, seed: list(KFold(4).split(np.zeros(n)))[:2],
    "repeated": lambda n, seed: [(np.r_[2:n, 2], [0])],  # as many rows as if it were the complement
    "incomplete": lambda n, seed: [(np.arange(3, n), [0, 1])],
}


@settings(max_examples=80, deadline=None)
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
    splits = [Split(np.asarray(a), np.asarray(b)) for a, b in SPLITTERS[kind](n, seed)]
    form = sp.csr_array if sparse else np.asarray
    total, parts = split_statistics(form(X), form(Y), weights, splits)
    rows = [np.arange(n), *(split.train for split in splits)]
    for found, chosen in zip([total, *parts], rows, strict=True):
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


def test_each_row_is_read_once(monkeypatch):
    read = []
    original = Statistics.from_arrays.__func__

    def count(cls, X, Y, sample_weight=None):
        read.append(X.shape[0])
        return original(cls, X, Y, sample_weight)

    monkeypatch.setattr(Statistics, "from_arrays", classmethod(count))
    X, Y = np.random.default_rng(0).standard_normal((20, 3)), random_labels(20)
    split_statistics(X, Y, None, make_splits(5, X, Y, 0))
    assert sum(read) == 20


# The board


def filled_board(values, weights=None):
    board = Board(len(values), [values.shape[1]], [weights])
    board.open_split(0, by_row=True)
    for candidate, row in enumerate(values):
        board.record(candidate, 0, row, candidate)
    return board


@settings(max_examples=100, deadline=None)
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
    kept = filled_board(values, w if weighted else None).hopeful(0, with_margin=with_margin)
    means = np.average(values, axis=1, weights=w)
    leader = int(np.argmax(means))
    assert leader in kept

    def error_of(row):
        """Standard error of a weighted mean, Σ w² (v − v̄)² / (Σ w)², made unbiased as by n/(n − 1)."""
        middle = np.average(row, weights=w)
        raw = sum(wi**2 * (v - middle) ** 2 for wi, v in zip(w, row, strict=True))
        return np.sqrt(raw / (w.sum() ** 2 - np.sum(w**2)))

    margin = error_of(values[leader]) if with_margin else 0.0
    for candidate in range(6):
        lead = means[leader] - means[candidate]
        limit = margin + 3 * error_of(values[leader] - values[candidate])
        if abs(lead - limit) > 1e-6:
            assert (candidate in kept) == (lead <= limit)


def test_few_rows_condemn_nobody():
    values = np.array([[1.0] * 30, [0.0] * 30])
    assert filled_board(values).hopeful(0, with_margin=False) == [0]
    assert filled_board(values[:, :29]).hopeful(0, with_margin=False) == [0, 1]
    without_value = values.copy()
    without_value[:, 3] = np.nan
    assert filled_board(without_value).hopeful(0, with_margin=False) == [0, 1]
    weightless = np.minimum(np.arange(30.0), 1.0)
    assert filled_board(values, weightless).hopeful(0, with_margin=False) == [0, 1]


def test_rows_without_weight_condemn_nobody():
    """Equal where it counts: what happens on rows without weight says nothing."""
    values = np.zeros((2, 80))
    values[0, 40:] = 1.0
    weights = np.r_[np.ones(40), np.zeros(40)]
    assert filled_board(values, weights).hopeful(0, with_margin=False) == [0, 1]
    assert len(filled_board(values).hopeful(0, with_margin=False)) == 1


def test_best_breaks_ties_by_rank_and_then_by_strength():
    board = Board(5, [1, 1], [None, None])
    for candidate, (score, rank) in enumerate([(0.7, 3), (0.7, 2), (0.7, 2), (0.6, 1), (0.7, 2)]):
        for split in range(2):
            board.record(candidate, split, score, rank)
    strengths = np.array([[9.0, 0.0], [1.0, 5.0], [2.0, 0.0], [9.0, 9.0], [2.0, 1.0]])
    assert board.best(one_standard_error=False, strengths=strengths) == 4
    board.scores[4, 1] = np.nan  # who did not see every split cannot win
    assert board.best(one_standard_error=False, strengths=strengths) == 2


def test_threads_change_nothing(monkeypatch, make_problem):
    X, Y = make_problem(60, 5, 4)
    model = LRMLCV([0, 1], n_alphas=5, cv=3)
    alone = model.fit(X, Y).cv_results_

    def in_disorder(function, items, *, ahead):
        with ThreadPoolExecutor(3) as pool:
            return list(pool.map(function, items[::-1]))

    monkeypatch.setattr(_search, "map_in_threads", in_disorder)
    np.testing.assert_equal(model.fit(X, Y).cv_results_, alone)


# Criteria


@pytest.mark.parametrize(
    "scoring",
    ["f1", "precision_at_0", "top", "top-1", "precision_at_01", "", None, 3, ["precision_at_1"]],
    ids=repr,
)
def test_unknown_criteria_are_named(scoring):
    with pytest.raises(ValueError, match=r"scoring must be one of precision_at_1, .*Use 'average_precision'"):
        check_scoring(scoring)


@pytest.mark.parametrize("by_row", [True, False])
def test_unknown_labels_are_neither_hits_nor_mistakes(by_row):
    """Scores far above the cut must not make a prediction of what is not known."""
    Y = np.array([[1, 0, 0], [0, 1, 1]])
    known = np.array([[True, False, True], [True, True, True]])
    scores = np.array([[5.0, 9.0, 4.0], [4.0, 6.0, 7.0]])
    held_out = HeldOut(np.zeros((2, 1)), Y, known)
    criterion = check_scoring("hamming_loss" if by_row else "micro_f1")
    (found,) = held_out.judge([criterion], 0.5, lambda rows: scores[rows])
    if by_row:
        np.testing.assert_allclose(found, [-1 / 3, -1 / 3])
    else:
        assert found == pytest.approx(2 * 3 / (2 * 3 + 2))


def test_weighted_mean_leaves_out_rows_without_value_or_weight():
    values = np.array([1.0, np.nan, 4.0, 7.0])
    assert weighted_mean(values, None) == 4.0
    assert weighted_mean(values, np.array([1.0, 5.0, 3.0, 0.0])) == pytest.approx(13 / 4)
    assert np.isnan(weighted_mean(values, np.array([0.0, 1.0, 0.0, 0.0])))


# The table


def test_table_of_results_ranks_equals_alike_and_the_abandoned_last():
    board = Board(5, [1, 1, 1], [None] * 3)
    board.scores = np.array(
        [[0.5, 0.5, 0.5], [0.9, 0.1, 0.5], [0.2, 0.2, 0.2], [0.1, np.nan, np.nan], [0.3, np.nan, np.nan]]
    )
    board.ranks = np.where(np.isnan(board.scores), np.nan, [[2], [4], [6], [1], [3]])
    found = cv_results([{"alpha": float(i)} for i in range(5)], {"score": board})
    assert found["n_splits_seen"].tolist() == [3, 3, 3, 1, 1]
    np.testing.assert_allclose(found["mean_test_score"], np.nanmean(board.scores, axis=1))
    np.testing.assert_allclose(found["std_test_score"], np.nanstd(board.scores, axis=1), atol=1e-12)
    keys = np.where(found["n_splits_seen"] == 3, found["mean_test_score"], found["mean_test_score"] - 10)
    assert found["rank_test_score"].tolist() == rankdata(-keys, method="min").tolist() == [1, 1, 3, 5, 4]
    np.testing.assert_array_equal(found["mean_model_rank"], [2, 4, 6, 1, 3])
    np.testing.assert_array_equal(found["param_alpha"], np.arange(5.0))
