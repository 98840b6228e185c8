"""Tables of numbers: CSV and Parquet as other programs write them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from lrml.datasets import Columns, DatasetFormatError, NumberedNames, open_source, read_dataset
from model_checks import dense


@pytest.mark.parametrize(
    ("text", "X", "Y"),
    [
        ("x,y\n1,yes\n,no\nNA,TRUE\n", [[1], [np.nan], [np.nan]], [[1], [0], [1]]),
        ("x,y\ntrue,1\nno,0\nYes,1\n", [[1], [0], [1]], [[1], [0], [1]]),
        ('x,y\n"1e3",1\n"-2", 0\n', [[1000], [-2]], [[1], [0]]),
        ("\ufeffx,y\r\n1,0\r\n\r\n2,1\r\n", [[1], [2]], [[0], [1]]),
        ("x;y\n1;0\n2;1\n", [[1], [2]], [[0], [1]]),
        ("x\ty\n1\t0\n2\t1\n", [[1], [2]], [[0], [1]]),
        (",x,y\n0,1,0\n1,2,1\n", [[1], [2]], [[0], [1]]),  # the index of a frame
        ('x,y,"a\nb"\n1,0,2\n', [[1, 2]], [[0]]),
        ("0,y\n1,0\n", [[1]], [[0]]),
    ],
)
def test_csv_as_people_write_it(write, text, X, Y):
    found = read_dataset(write(text), labels=["y"])
    assert_array_equal(found.X, X)
    assert_array_equal(found.Y, Y)


@pytest.mark.parametrize("name", ["toys.csv", "toys.parquet"])
def test_unknown_labels(write, name):
    path = write(pd.DataFrame({"x": [1, 2], "p": [1.0, np.nan], "q": [np.nan, 0.0]}), name)
    for is_sparse in (True, False):
        found = read_dataset(path, labels=["p", "q"], sparse=is_sparse)
        assert_array_equal(dense(found.Y), [[1, 0], [0, 0]])
        assert_array_equal(found.unknown.toarray(), [[0, 1], [1, 0]])
        assert_array_equal(dense(found.targets), [[1, np.nan], [np.nan, 0]])
        assert np.isnan(
            dense(next(open_source(path, labels=-2, sparse=is_sparse).blocks(1, 1)).targets[0, 0])
        )


@pytest.mark.parametrize(
    ("tags", "separator", "expected"),
    [
        (["red, round", "", "round,red, red"], None, [("red", "round"), (), ("red", "round")]),
        (["b|a", None, "a"], None, [("a", "b"), (), ("a",)]),
        (["10 9", "9", ""], " ", [("10", "9"), ("9",), ()]),
        (['["x, y", "z"]', "[]", '["z"]'], None, [("x, y", "z"), (), ("z",)]),
    ],
)
def test_a_column_that_lists_labels(write, tags, separator, expected):
    for name in ("toys.csv", "toys.parquet"):
        path = write(pd.DataFrame({"x": [1, 2, 3], "tags": tags}), name)
        found = read_dataset(path, tags="tags", tag_separator=separator)
        names = tuple(sorted({tag for row in expected for tag in row}))
        assert found.label_names == names
        assert_array_equal(found.Y.toarray(), [[name in row for name in names] for row in expected])


def test_columns_that_are_asked_for(write):
    path = write("id,a,b,p,q\nr1,1,2,0,1\nr2,3,4,1,1\n")
    found = read_dataset(path, labels=-2, ignore=["id"])
    assert (found.feature_names, found.label_names) == (("a", "b"), ("p", "q"))
    found = read_dataset(path, labels=["q"], features=["b", "a"])
    assert_array_equal(found.X, [[2, 1], [4, 3]])
    assert read_dataset(path, labels=["p"], features=[]).shape == (2, 0, 1)
    roles = open_source(path, labels=-2, ignore=["id"]).roles
    assert roles.explain() == [
        'tags: columns "p", "q", 0 or 1 each',
        'features: columns "a", "b"',
        'ignored: column "id"',
    ]
    again = open_source(path, roles=type(roles).of(roles.kept()))
    assert (again.roles.labels, again.roles.features) == (("p", "q"), ("a", "b"))


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("x,y\n1,0\n2,one\n", {"labels": ["y"]}, "line 3: .*'one'.*'y'"),
        ("x,y\n1,0\n2,7\n", {"labels": ["y"]}, "line 3: 7.*'y'"),
        ("x,y\n1,0\n" + "2,0\n" * 3000 + "abc,1\n", {"labels": ["y"]}, "line 3003: .*'abc'.*'x'"),
        ("x,y\n1,0\ninf,1\n", {"labels": ["y"]}, "line 3: inf.*'x'"),
        ("x,y\n1,0\n" + "2,0\n" * 3000 + "2\n", {"labels": ["y"]}, "line 3003: "),
        ("x,x\n1,0\n", {"labels": ["x"]}, "'x' is there twice"),
        ("x|y\n1|0\n", {"labels": ["y"]}, r'"x\|y"'),
        ("5,2\n3,1\n", {"labels": -1}, "header"),
        ("x,y\n", {"labels": ["y"]}, "no rows"),
        ("x,y\n1,0\n", {"labels": ["z"]}, '\'z\'.*"x", "y"'),
        ("x,y\n1,0\n", {"labels": 5}, "5 of 2"),
        ("x,y\n1,0\n", {"labels": ["x", "y"]}, "feature"),
        ("x,y\n1,0\n", {"labels": ["y"], "features": ["y"]}, "'y'"),
        (",x,y\n7,1,0\n", {"labels": ["y"]}, "no name"),
        ("x,y\n1,\n", {"tags": "y"}, "no label"),
    ],
)
def test_wrong_tables(write, text, options, message):
    with pytest.raises(DatasetFormatError, match=rf"toys\.csv.*{message}"):
        read_dataset(write(text), **options)


_CELLS = st.one_of(st.floats(allow_infinity=False), st.integers(-(2**53), 2**53), st.sampled_from([0, 1]))
_NAMES = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6).map("n".__add__)


@given(st.data(), st.integers(1, 4), st.integers(1, 2), st.integers(1, 8), st.sampled_from([",", ";", "\t"]))
def test_any_numbers_are_read_as_pandas_wrote_them(tmp_path_factory, data, d, n_labels, n, delimiter):
    names = data.draw(st.lists(_NAMES, min_size=d + n_labels, max_size=d + n_labels, unique=True))
    X, Y = (
        np.array(data.draw(st.lists(cells, min_size=n * width, max_size=n * width)), float).reshape(n, width)
        for cells, width in ((_CELLS, d), (st.integers(0, 1), n_labels))
    )
    frame = pd.DataFrame(np.hstack([X, Y]), columns=names)
    folder = tmp_path_factory.mktemp("any")
    frame.to_csv(folder / "any.csv", index=False, sep=delimiter)
    frame.to_parquet(folder / "any.parquet")
    for name, options in (("any.csv", {"delimiter": delimiter}), ("any.parquet", {})):
        source = open_source(folder / name, labels=-n_labels, **options)
        found = source.read()
        assert_array_equal(found.X, X)
        assert_array_equal(found.Y, Y)
        assert_array_equal(np.vstack([block.X for block in source.blocks(3)]), X)


# Features in NumPy files, beside a table.

N = 7
X = np.round(np.random.default_rng(0).normal(size=(N, 4)), 3)
Y = np.eye(N, 3, dtype=int) + np.eye(N, 3, -4, dtype=int)
ARRAYS = {
    "a.npy": lambda path: np.save(path, X.astype(np.float32)),
    "a.npz": lambda path: np.savez(path, X),
    "sparse.npz": lambda path: sparse.save_npz(path, sparse.csr_matrix(X)),
}
TABLES = {
    "listed.csv": pd.DataFrame({"id": range(N), "tags": ["|".join(np.array(list("pqr"))[y > 0]) for y in Y]}),
    "alone.csv": pd.DataFrame({"tags": ["|".join(np.array(list("pqr"))[y > 0]) for y in Y]}),
    "flags.parquet": pd.DataFrame(Y, columns=list("pqr")).assign(id=range(N)),
}


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("table", TABLES)
def test_embeddings_beside_a_table_of_labels(tmp_path, write, array, table):
    path, beside = tmp_path / array, write(TABLES[table], table)
    ARRAYS[array](path)
    source = open_source([path, beside], rows=3)
    for found, rows in (
        (source.read(), slice(None)),
        *((b, slice(3 * k, 3 * k + 3)) for k, b in enumerate(source)),
    ):
        assert_array_equal(dense(found.X), dense(X.astype(np.float32) if array == "a.npy" else X)[rows])
        assert_array_equal(dense(found.Y), Y[rows])
        assert (found.name, found.label_names, found.X.dtype) == (path.stem, ("p", "q", "r"), np.float64)
        assert sparse.issparse(found.X) == (array == "sparse.npz")
    assert [block.first_row for block in source.blocks(start=1)] == [3, 6]
    assert [part.identity() for part in source.parts()] == [source.identity()]
    (_, known), *_ = source.aligned(Columns(NumberedNames("feature", 4), ("r", "p")))
    assert_array_equal(dense(known), Y[:3, [2, 0]])
    alone = open_source(path, roles=source.roles, unlabelled=True)  # to predict
    assert [block.shape for block in alone.blocks(4)] == [(4, 4, 0), (3, 4, 0)]
    twice = open_source([path, path, beside, beside])
    assert twice.read().shape == (2 * N, 4, 3)
    with pytest.raises(ValueError, match="a table of labels for each"):
        open_source([path, path, beside])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (X[0], r"a\.npy: "),
        (X.astype(str), r"a\.npy: "),
        (X[:-1], r"a\.npy: .*6 rows"),
        (np.vstack([X, X]), r"a\.npy: .*14 rows.* 7 "),
        (np.where(X[4, 1] == X, np.inf, X), r"a\.npy, line 5: inf"),
    ],
)
def test_wrong_embeddings(tmp_path, write, array, message):
    np.save(tmp_path / "a.npy", array)
    with pytest.raises(DatasetFormatError, match=message):
        open_source([tmp_path / "a.npy", write(TABLES["listed.csv"], "listed.csv")]).read()
