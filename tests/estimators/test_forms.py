"""The same numbers in any type, layout, format or frame give the same model; and what theta and k mean."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from model_checks import SPARSE_FORMATS, TIGHT, assert_same_model, lrml

FEATURES, LABELS = list("abcdef"), ["red", "green", "blue", "grey"]


@pytest.fixture(scope="module")
def data(make_problem):
    """Features that are often 0, and whole numbers that all types have."""
    X, Y = make_problem(50, 6, 4, seed=21)
    return np.where(np.abs(X) > 0.5, np.rint(np.clip(4 * X, -90, 90)), 0.0), Y


@pytest.fixture(scope="module")
def reference(data):
    return lrml().fit(*data)


def in_halves(M):
    rows, columns = np.indices(M.shape).reshape(2, -1)
    return sp.coo_array((np.r_[M.ravel(), M.ravel()] / 2, (np.r_[rows, rows], np.r_[columns, columns])))


def with_stored_zeros(M):
    stored = sp.csr_array(np.ones(M.shape))
    stored.data[:] = M.ravel()
    return stored


def out_of_order(M):
    stored = with_stored_zeros(M)
    stored.indices, stored.data = stored.indices[::-1].copy(), M[:, ::-1].ravel().copy()
    stored.indices = np.tile(np.arange(M.shape[1])[::-1], len(M)).astype(np.int32)
    return stored


def read_only(form):
    def make(M):
        made = form(M.copy())
        for array in (made,) if isinstance(made, np.ndarray) else (made.data, made.indices, made.indptr):
            array.flags.writeable = False
        return made

    return make


ANY = {
    "fortran": lambda M: np.asfortranarray(M.copy()),
    "strided": lambda M: np.repeat(M, 2, axis=1)[:, ::2],
    "list": lambda M: M.tolist(),
    "memoryview": lambda M: memoryview(np.ascontiguousarray(M)),
    "read-only": read_only(np.asarray),
    "read-only sparse": read_only(sp.csr_array),
    "entries in two parts": in_halves,
    "stored zeros": with_stored_zeros,
    "indices out of order": out_of_order,
    "pandas": pd.DataFrame,
    "pandas, sparse columns": lambda M: pd.DataFrame.sparse.from_spmatrix(sp.csr_array(M)),
    "polars": lambda M: pl.DataFrame(M, schema=[f"c{j}" for j in range(M.shape[1])]),
    **SPARSE_FORMATS,
}
FORMS = {
    **{("X", name): make for name, make in ANY.items()},
    **{("Y", name): make for name, make in ANY.items()},
    **{("X", str(kind)): lambda M, kind=kind: M.astype(kind) for kind in ("int8", "int64", "f2", "f4")},
    **{("Y", str(kind)): lambda M, kind=kind: M.astype(kind) for kind in (bool, "u1", "i1", "f2", object)},
    **{
        ("Y", f"sparse {kind}"): lambda M, kind=kind: sp.csr_array(M.astype(kind))
        for kind in ("bool", "u1", "f4")
    },
    **{
        ("Y", f"pandas {kind}"): lambda M, kind=kind: pd.DataFrame(M).astype(kind)
        for kind in ("boolean", "Int64", "float32")
    },
}


def snapshot(M):
    """Everything that a matrix stores."""
    parts = [
        getattr(M, name) for name in ("data", "indices", "indptr") if sp.issparse(M) and hasattr(M, name)
    ]
    return [np.array(part) for part in parts or [M.toarray() if sp.issparse(M) else M]]


@pytest.mark.parametrize(("place", "name"), FORMS, ids=lambda value: value)
def test_a_form_of_the_same_numbers_gives_the_same_model_and_stays_as_it_is(data, reference, place, name):
    X, Y = data
    form = FORMS[place, name]
    given = (form(X), Y) if place == "X" else (X, form(Y))
    before = [snapshot(M) for M in given]
    model = lrml().fit(*given)
    loose = {"rtol": 1e-4, "atol": 1e-5} if model.coef_.dtype == np.float32 else {}
    assert_same_model(model, reference, **loose)
    scores = model.decision_function(given[0])
    np.testing.assert_allclose(scores, reference.decision_function(X), **loose or TIGHT)
    decisions = model.predict(given[0])
    assert sp.issparse(decisions) == (place == "Y" and (sp.issparse(given[1]) or "sparse" in name))
    decisions = decisions.toarray() if sp.issparse(decisions) else decisions
    np.testing.assert_array_equal(decisions, reference.predict(X))
    assert decisions.dtype == np.int64
    for M, saved in zip(given, before, strict=True):
        for one, other in zip(snapshot(M), saved, strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype


@pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
def test_frames_keep_their_names_until_the_next_fit(data, reference, library):
    X, Y = data
    if library is pd:
        A, B = (pd.DataFrame(M, columns=names) for M, names in ((X, FEATURES), (Y, LABELS)))
    else:
        A, B = (pl.DataFrame(M, schema=names) for M, names in ((X, FEATURES), (Y, LABELS)))
    model = lrml().fit(A, B)
    assert model.classes_.tolist() == LABELS
    assert model.feature_names_in_.tolist() == FEATURES
    named, numbered = model.predict_top_k(A, 2), reference.predict_top_k(X, 2)
    np.testing.assert_array_equal(named.labels, np.array(LABELS, dtype=object)[numbered.labels])
    assert model.score(A, B) == pytest.approx(reference.score(X, Y))
    model.fit(X, Y)
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.classes_, np.arange(4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(X)
    assert lrml().fit(X, pd.DataFrame(Y, columns=[10, 20, 30, 40])).classes_.tolist() == [10, 20, 30, 40]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_single_precision_stays_single_but_its_sums_are_double(make_problem, form):
    """Sums in float32 would lose all of the variance: (1000 ± 1)² has seven digits."""
    X, Y = make_problem(400, 4, 3, seed=9)
    shifted = (X + 1000).astype(np.float32)
    model, reference = lrml().fit(form(shifted), Y), lrml().fit(shifted.astype(float) - 1000, Y)
    arrays = (model.coef_, model.intercept_, model.singular_values_, *model.factors_)
    assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
    assert model.decision_function(form(shifted)).dtype == np.float32
    assert reference.decision_function(X).dtype == np.float64
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-5, atol=1e-6)
