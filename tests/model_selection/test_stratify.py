from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.model_selection import KFold, StratifiedKFold

from lrml.datasets import load_yeast
from lrml.model_selection import MultilabelStratifiedKFold, iterative_train_test_split

label_matrices = hnp.arrays(
    np.int8, st.tuples(st.integers(2, 14), st.integers(1, 5)), elements=st.integers(0, 1)
)


def fold_of_row(Y, n_splits, **options):
    """The number of the test fold of each row; fails unless the folds are a partition."""
    found = np.full(Y.shape[0], -1)
    for fold, (train, test) in enumerate(MultilabelStratifiedKFold(n_splits, **options).split(Y, Y)):
        assert np.all(found[test] == -1)
        found[test] = fold
        assert np.array_equal(np.sort(np.concatenate([train, test])), np.arange(Y.shape[0]))
    assert np.all(found >= 0)
    return found


def counts_by_fold(Y, folds, n_splits):
    """Rows with each label in each fold, and the sizes of the folds in the last row."""
    with_all = np.column_stack([np.asarray(Y), np.ones(len(Y), dtype=int)])
    return np.stack([with_all[folds == fold].sum(axis=0) for fold in range(n_splits)], axis=1)


# ---- the published algorithm, row by row ----


def place(rows, subsets, allowed, give):
    """Visit rows in an order that leads to `subsets`; False if the algorithm allows none."""
    todo = set(rows)
    while todo:
        row = next((row for row in sorted(todo) if subsets[row] in allowed()), None)
        if row is None:
            return False
        give(row, subsets[row])
        todo.remove(row)
    return True


def best(candidates, key):
    candidates = list(candidates)
    most = max(map(key, candidates))
    return [j for j in candidates if key(j) == most]


def is_possible_outcome(Y, shares, subsets, *, spare_full, any_label):
    """Whether the pseudo-code of the paper, a row at a time, can end with these subsets.

    The pseudo-code leaves open in which order the rows of a label come, and ties. `any_label` tries every
    label in a tie, otherwise the first is taken. `spare_full` is our addition for unequal subsets.
    """
    n, n_labels = Y.shape
    k, r = len(shares), [Fraction(int(share), int(sum(shares))) for share in shares]

    def run(todo, c, c_label):
        left = {i: sum(int(Y[row, i]) for row in todo) for i in range(n_labels)}
        left = {i: count for i, count in left.items() if count}
        if not left:
            c = list(c)

            def allowed():
                return best(range(k), lambda j: c[j])

            def give(row, j):
                c[j] -= 1

            return place(todo, subsets, allowed, give)
        tied = [i for i in left if left[i] == min(left.values())]
        return any(
            one_label(todo, list(c), [list(x) for x in c_label], i) for i in tied[: None if any_label else 1]
        )

    def one_label(todo, c, c_label, label):
        def allowed():
            candidates = range(k)
            if spare_full:
                candidates = best(
                    best(candidates, lambda j: math.ceil(c_label[label][j])), lambda j: c[j] > 0
                )
            return best(best(candidates, lambda j: c_label[label][j]), lambda j: c[j])

        def give(row, j):
            c[j] -= 1
            for i in range(n_labels):
                c_label[i][j] -= int(Y[row, i])

        rows = [row for row in todo if Y[row, label]]
        return place(rows, subsets, allowed, give) and run(
            [row for row in todo if row not in rows], c, c_label
        )

    start = [[int(Y[:, i].sum()) * share for share in r] for i in range(n_labels)]
    return run(list(range(n)), [n * share for share in r], start)


@given(label_matrices, st.data())
def test_folds_are_an_outcome_of_the_published_pseudo_code(Y, data):
    n_splits = data.draw(st.integers(2, len(Y)))
    ones = [1] * n_splits
    ordered = fold_of_row(Y, n_splits, shuffle=False)
    assert set(ordered) == set(range(n_splits))  # no fold is empty
    assert is_possible_outcome(Y, ones, ordered, spare_full=False, any_label=False)
    chance = fold_of_row(Y, n_splits, random_state=data.draw(st.integers(0, 1000)))
    assert is_possible_outcome(Y, ones, chance, spare_full=False, any_label=True)


@given(label_matrices, st.data())
def test_unequal_split_follows_the_documented_addition(Y, data):
    n_test = data.draw(st.integers(1, len(Y) - 1))
    train, test, *_ = iterative_train_test_split(np.arange(len(Y)), Y, test_size=n_test, random_state=0)
    subsets = np.zeros(len(Y), dtype=int)
    subsets[test] = 1
    assert 0 < len(test) < len(Y)
    assert sorted([*train, *test]) == list(range(len(Y)))
    assert is_possible_outcome(Y, [len(Y) - n_test, n_test], subsets, spare_full=True, any_label=True)


def test_the_replay_can_say_no():
    Y = np.array([[1], [1], [0], [0]])
    assert is_possible_outcome(Y, [1, 1], np.array([0, 1, 1, 0]), spare_full=False, any_label=True)
    assert not is_possible_outcome(Y, [1, 1], np.array([0, 0, 1, 1]), spare_full=False, any_label=True)


# ---- what is guaranteed ----


@given(st.lists(st.integers(0, 4), min_size=6, max_size=80), st.integers(2, 6), st.integers(0, 99))
def test_at_most_one_label_per_row_is_stratified_like_scikit_learn(classes, n_splits, seed):
    classes = np.array([*classes, *([0, 1, 2, 3, 4] * n_splits)])  # scikit-learn wants n_splits of each
    Y = (classes[:, None] == np.arange(4)).astype(int)  # class 4 is no label at all
    ours = counts_by_fold(Y, fold_of_row(Y, n_splits, random_state=seed), n_splits)
    theirs = np.empty(len(classes), dtype=int)
    for fold, (_, test) in enumerate(StratifiedKFold(n_splits).split(classes, classes)):
        theirs[test] = fold
    expected = counts_by_fold(Y, theirs, n_splits)
    assert np.array_equal(np.sort(ours), np.sort(expected))


def test_rare_labels_do_not_starve_the_test_set():
    # Each row has a label of its own: the algorithm as published gives all of them to the training set.
    frequent = sparse.csr_array(np.random.default_rng(0).random((400, 10)) < 0.2)
    Y = sparse.hstack([sparse.eye_array(400), frequent])
    _, test, *_ = iterative_train_test_split(np.arange(400), Y, random_state=0)
    assert len(test) == pytest.approx(100, abs=5)


# ---- the measure of the paper, on real data ----


def label_deviation(Y, folds, n_splits):
    """The paper's LD: |odds of a label within a fold − odds in all rows|, mean over folds and labels."""
    counts = counts_by_fold(Y, folds, n_splits)
    with np.errstate(divide="raise"):
        odds = counts[:-1] / (counts[-1] - counts[:-1])
    totals = Y.sum(axis=0)
    return np.abs(odds - (totals / (len(Y) - totals))[:, None]).mean()


def test_yeast_folds_are_closer_than_chance():
    Y = load_yeast().Y
    by_chance = np.empty(len(Y), dtype=int)
    for fold, (_, test) in enumerate(KFold(10, shuffle=True, random_state=0).split(Y)):
        by_chance[test] = fold
    ours = fold_of_row(Y, 10, random_state=0)
    assert label_deviation(Y, ours, 10) < 0.7 * label_deviation(
        Y, by_chance, 10
    )  # 0.042 and 0.084 on average
    assert counts_by_fold(Y, ours, 10).min() > 0


# ---- chance and scale ----


def test_rows_of_a_label_go_to_any_fold():
    Y = np.repeat([[1, 0], [0, 1]], 6, axis=0)
    seen = np.array([fold_of_row(Y, 3, random_state=seed) for seed in range(60)])
    for row in seen.T:
        assert np.all(np.bincount(row, minlength=3) >= 8)  # 20 expected, standard deviation 3.7


def test_labels_by_the_hundred_thousand_stay_sparse():
    # 10¹⁰ cells: dense they would not fit into memory.
    rng = np.random.default_rng(0)
    cells = (np.repeat(np.arange(100_000), 2), rng.integers(0, 2000, 200_000) * 50)
    Y = sparse.csr_array((np.ones(200_000), cells), shape=(100_000, 100_000))
    Y.data[:] = 1
    sizes = np.bincount(fold_of_row(Y, 3, random_state=0))
    assert np.ptp(sizes) <= 1000
