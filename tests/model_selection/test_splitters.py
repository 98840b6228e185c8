from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.model_selection import HalvingGridSearchCV, cross_val_predict, cross_validate

from lrml import LRML, MLFro
from lrml.datasets import load_yeast
from lrml.model_selection import MultilabelStratifiedKFold, iterative_train_test_split

# ---- formats ----

Y_SMALL = (np.random.default_rng(5).random((40, 6)) < 0.3).astype(np.int64)


def with_zeros_and_duplicates(Y):
    rows, columns = np.nonzero(np.ones_like(Y))
    values = Y.ravel() / 2  # each cell twice, zeros stored
    twice = np.concatenate
    return sparse.coo_array((twice([values] * 2), (twice([rows] * 2), twice([columns] * 2))), shape=Y.shape)


FORMATS = {
    "bool": lambda Y: Y.astype(bool),
    "float": lambda Y: Y.astype(float),
    "list": lambda Y: Y.tolist(),
    "csr": sparse.csr_array,
    "csc": sparse.csc_array,
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


@pytest.mark.parametrize("name", ["float", "pandas", "polars"])
def test_cross_validate_scores_every_fold(name):
    yeast = load_yeast()
    X, Y = yeast.X[:300], FORMATS[name](yeast.Y[:300])
    folds = MultilabelStratifiedKFold(3, random_state=0)
    found = cross_validate(LRML(2, 10.0), X, Y, cv=folds, return_indices=True)
    assert np.all(found["test_score"] > 0.6)
    for mine, theirs in zip(folds.split(X, Y), found["indices"]["test"], strict=True):
        assert np.array_equal(mine[1], theirs)


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, pd.DataFrame])
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
        *(({"n_splits": wrong}, ValueError, "^n_splits") for wrong in (1, -3, 2.0, True, "5", None)),
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
        (np.ones(4), r"\(4,\)"),
        (np.full((4, 2), 2), "Y holds 2"),
        (np.full((4, 2), -1), "Y holds -1"),
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


@pytest.mark.parametrize("test_size", [0, 4, -1, 0.0, 1.0, 1.5, -0.1, float("nan"), True, "half", None])
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
    for by_position in (0.3, None, np.float64(0.3)):
        with pytest.raises(TypeError, match="test_size"):
            iterative_train_test_split(Y_SMALL, Y_SMALL, by_position)


def test_groups_are_ignored_with_a_warning():
    folds = MultilabelStratifiedKFold(2, random_state=0)
    with pytest.warns(UserWarning, match="groups"):
        found = next(folds.split(Y_SMALL, Y_SMALL, groups=np.zeros(40)))
    assert np.array_equal(found[1], next(folds.split(Y_SMALL, Y_SMALL))[1])


# ---- the same folds at every call ----


def fold_of_row(Y, n_splits, **options):
    fold = np.empty(len(Y), dtype=int)
    for number, (_, test) in enumerate(MultilabelStratifiedKFold(n_splits, **options).split(Y, Y)):
        fold[test] = number
    return fold


def test_seed_decides_and_nothing_else():
    first = fold_of_row(Y_SMALL, 4, random_state=7)
    assert np.array_equal(first, fold_of_row(Y_SMALL, 4, random_state=7))
    one, other = (fold_of_row(Y_SMALL, 4, random_state=np.random.RandomState(7)) for _ in range(2))
    assert np.array_equal(one, other)
    assert not np.array_equal(first, fold_of_row(Y_SMALL, 4, random_state=8))
    ordered = fold_of_row(Y_SMALL, 4, shuffle=False)
    np.random.seed(1)  # noqa: NPY002
    assert np.array_equal(ordered, fold_of_row(Y_SMALL, 4, shuffle=False))
    assert len({tuple(fold_of_row(Y_SMALL, 4)) for _ in range(6)}) > 1  # without a seed


@pytest.mark.parametrize("seed", [None, 7, np.random.RandomState(7)], ids=["None", "int", "RandomState"])
def test_one_object_gives_the_same_folds_at_every_call(seed):
    folds = MultilabelStratifiedKFold(4, random_state=seed)
    first = list(folds.split(Y_SMALL, Y_SMALL))
    for same in (folds, eval(repr(folds))):  # its repr tells the seed
        for (_, one), (_, other) in zip(first, same.split(Y_SMALL, Y_SMALL), strict=True):
            assert np.array_equal(one, other)


def test_successive_halving():
    X, Y = load_yeast().train
    search = HalvingGridSearchCV(
        MLFro(),
        {"alpha": [1e-3, 10.0, 1e5]},
        cv=MultilabelStratifiedKFold(3),
        min_resources=300,
        random_state=0,
    ).fit(X, sparse.csr_array(Y))
    assert search.n_iterations_ == 2
    assert search.best_params_ == {"alpha": 10.0}


def test_sparse_labels_where_scikit_learn_takes_them():
    X, Y = load_yeast().train
    folds = MultilabelStratifiedKFold(3, random_state=0)
    by_dense = cross_val_predict(MLFro(), X, Y, cv=folds)
    assert np.array_equal(cross_val_predict(MLFro(), X, sparse.csr_array(Y), cv=folds).toarray(), by_dense)
