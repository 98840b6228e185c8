"""Splits of label matrices against the published algorithm, and what they promise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.experimental import enable_halving_search_cv  # noqa: F401

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


# ---- the published algorithm, row by row ----


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
    parts = [Fraction(int(share), int(sum(shares))) for share in shares]

    def allowed(label, room, wanted):
        candidates = range(len(parts))
        if label is not None:
            wants = wanted[label].__getitem__
            if spare_full:
                candidates = best(best(candidates, lambda j: math.ceil(wants(j))), lambda j: room[j] > 0)
            candidates = best(candidates, wants)
        return best(candidates, room.__getitem__)

    def visit(todo, room, wanted):
        left = [sum(int(Y[row, i]) for row in todo) for i in range(n_labels)]
        tied = [i for i in range(n_labels) if left[i] == min(filter(None, left), default=None)]
        return any(
            after(label, todo, list(room), [list(one) for one in wanted])
            for label in (tied if any_label else tied[:1]) or [None]
        )

    def after(label, todo, room, wanted):
        rows = {row for row in todo if label is None or Y[row, label]}
        rest = [row for row in todo if row not in rows]
        while rows:
            fits = (row for row in sorted(rows) if subsets[row] in allowed(label, room, wanted))
            row = next(fits, None)
            if row is None:
                return False
            rows.remove(row)
            room[subsets[row]] -= 1
            for i in range(n_labels):
                wanted[i][subsets[row]] -= int(Y[row, i])
        return not rest or visit(rest, room, wanted)

    wanted = [[int(Y[:, i].sum()) * part for part in parts] for i in range(n_labels)]
    return visit(list(range(n)), [n * part for part in parts], wanted)


@given(label_matrices, st.data())
def test_folds_are_an_outcome_of_the_published_pseudo_code(Y, data):
    n_splits = data.draw(st.integers(2, len(Y)))
    ones = [1] * n_splits
    ordered = fold_of_row(Y, n_splits, shuffle=False)
    assert set(ordered) == set(range(n_splits))  # no fold is empty
    assert is_possible_outcome(Y, ones, ordered, spare_full=False, any_label=False)
    chance = fold_of_row(Y, n_splits, random_state=data.draw(st.integers(0, 1000)))
    assert is_possible_outcome(Y, ones, chance, spare_full=False, any_label=True)


# ---- what is guaranteed ----


@given(st.integers(2, 300), st.floats(0.02, 0.999), st.integers(0, 99))
def test_labels_with_one_row_leave_the_sizes_exact(n, share, seed):
    rows, Y = np.arange(n), sparse.eye_array(n)
    _, test, *_ = iterative_train_test_split(rows, Y, test_size=share, random_state=seed)
    assert len(test) == min(math.ceil(share * n), n - 1)


# ---- formats ----

Y_SMALL = (np.random.default_rng(5).random((40, 6)) < 0.3).astype(np.int64)


def with_zeros_and_duplicates(Y):
    rows, columns = np.nonzero(np.ones_like(Y))
    values = Y.ravel() / 2  # each cell twice, zeros stored
    twice = np.concatenate
    return sparse.coo_array((twice([values] * 2), (twice([rows] * 2), twice([columns] * 2))), shape=Y.shape)


FORMATS = {
    "bool": lambda Y: Y.astype(bool),
    "list": lambda Y: Y.tolist(),
    "matrix": sparse.coo_matrix,
    "odd": with_zeros_and_duplicates,
    "pandas": pd.DataFrame,
    "sparse pandas": lambda Y: pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(Y)),
    "polars": lambda Y: pl.DataFrame(Y, schema=[f"y{i}" for i in range(Y.shape[1])]),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_folds(name):
    folds = MultilabelStratifiedKFold(4, random_state=3)
    expected = list(folds.split(Y_SMALL, Y_SMALL))
    Y = FORMATS[name](Y_SMALL)
    before = (Y.nnz, Y.data.copy()) if sparse.issparse(Y) else None
    for found, fold in zip(folds.split(np.zeros(len(Y_SMALL)), Y), expected, strict=True):
        assert all(map(np.array_equal, found, fold))
    if before is not None:
        assert Y.nnz == before[0]
        assert np.array_equal(Y.data, before[1])


def test_parts_keep_type_order_and_row():
    n = len(Y_SMALL)
    rows = np.arange(n)
    inputs = [
        rows.reshape(-1, 1) * np.ones(3),
        FORMATS["polars"](Y_SMALL),
        sparse.csc_array(rows.reshape(-1, 1)),
        pd.DataFrame({"a": rows}, index=rows + 1000),
        pd.Series(rows),
        pl.Series(rows),
        [str(row) for row in rows],
        tuple(rows),
    ]
    parts = iterative_train_test_split(*inputs, test_size=10, random_state=0)
    for part in (0, 1):
        X, Y, matrix, frame, series, polars_series, names, numbers = parts[part::2]
        found = X[:, 0].astype(int)
        assert np.all(np.diff(found) > 0)
        assert isinstance(Y, pl.DataFrame)
        assert np.array_equal(Y.to_numpy(), Y_SMALL[found])
        assert np.array_equal(matrix.toarray()[:, 0], found)
        assert frame.index.tolist() == (found + 1000).tolist()
        assert series.tolist() == polars_series.to_list() == found.tolist()
        assert names == [str(row) for row in found]
        assert list(numbers) == found.tolist()
    assert len(parts[0]) + len(parts[1]) == n


# ---- with scikit-learn ----


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_unknown_labels_count_as_zero(convert):
    unknown = np.random.default_rng(6).random(Y_SMALL.shape) < 0.2
    marked, cleared = np.where(unknown, np.nan, Y_SMALL), np.where(unknown, 0, Y_SMALL)
    folds = MultilabelStratifiedKFold(3, random_state=0)
    both = zip(folds.split(Y_SMALL, convert(marked)), folds.split(Y_SMALL, cleared), strict=True)
    assert all(np.array_equal(found[1], expected[1]) for found, expected in both)
    rows = np.arange(len(Y_SMALL))
    train, test, Y_train, Y_test = iterative_train_test_split(rows, convert(marked), random_state=0)
    np.testing.assert_array_equal(test, iterative_train_test_split(rows, cleared, random_state=0)[1])
    for part, kept in ((train, Y_train), (test, Y_test)):
        dense = kept.toarray() if sparse.issparse(kept) else np.asarray(kept)
        np.testing.assert_array_equal(dense, marked[part])  # the marks stay


# ---- errors ----


@pytest.mark.parametrize(
    ("options", "kind", "where"),
    [
        *(({"n_splits": wrong}, ValueError, "^n_splits") for wrong in (1, 2.0, True)),
        ({"shuffle": "no"}, TypeError, "^shuffle .*'no'"),
        ({"shuffle": False, "random_state": 3}, ValueError, "^random_state=3"),
    ],
)
def test_wrong_parameters(options, kind, where):
    with pytest.raises(kind, match=where):
        MultilabelStratifiedKFold(**options)


@pytest.mark.parametrize(
    ("Y", "found"),
    [
        (None, "None"),
        (np.full((4, 2), 2), "Y holds 2"),
        (np.full((4, 2), 0.5), "Y holds 0.5"),
        (sparse.csr_array(np.full((4, 2), 3)), "Y holds 3"),
        (np.full((4, 2), np.nan), "label"),
        (np.ones((4, 0)), "label"),
        (np.ones((5, 2)), "4, 5"),
    ],
)
def test_bad_labels(Y, found):
    with pytest.raises(ValueError, match=found):
        next(MultilabelStratifiedKFold(2).split(np.zeros((4, 1)), Y))
    with pytest.raises(ValueError, match=found):
        iterative_train_test_split(np.zeros((4, 1)), Y)


@pytest.mark.parametrize("test_size", [0, 4, 1.0, float("nan"), True, "half"])
def test_test_size_must_leave_both_parts(test_size):
    with pytest.raises(ValueError, match=f"^test_size .*{test_size}"):
        iterative_train_test_split(np.zeros(4), np.ones((4, 2)), test_size=test_size)


def test_wrong_numbers_of_rows():
    with pytest.raises(ValueError, match="n_splits is 5, but there are 4 rows"):
        next(MultilabelStratifiedKFold(5).split(np.zeros(4), np.ones((4, 2))))
    with pytest.raises(ValueError, match="at least 2 rows, got 1"):
        iterative_train_test_split([0], [[1]])
    with pytest.raises(ValueError, match="4, 4, 3"):
        iterative_train_test_split(np.zeros(4), np.ones((4, 2)), [1, 2, 3])
    with pytest.raises(TypeError):  # test_size by position
        iterative_train_test_split(Y_SMALL, Y_SMALL, 0.3)
    with pytest.warns(UserWarning, match="groups"):
        next(MultilabelStratifiedKFold(2).split(Y_SMALL, Y_SMALL, groups=np.zeros(40)))


# ---- the same folds at every call ----


def test_seed_decides_and_nothing_else():
    def folds(**options):
        return tuple(fold_of_row(Y_SMALL, 4, **options))

    assert folds(random_state=7) == folds(random_state=7) != folds(random_state=8)
    assert folds(random_state=np.random.RandomState(7)) == folds(random_state=np.random.RandomState(7))
    assert len({folds() for _ in range(6)}) > 1  # without a seed
    once = MultilabelStratifiedKFold(4)
    for same in (once, eval(repr(once))):  # every call gives the same folds, and the repr tells the seed
        for (_, one), (_, other) in zip(
            once.split(Y_SMALL, Y_SMALL), same.split(Y_SMALL, Y_SMALL), strict=True
        ):
            assert np.array_equal(one, other)
