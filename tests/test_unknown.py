"""Which labels are known: NaN in Y, or a matrix beside it, in every form."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lrml import MLFro
from lrml._door import split_unknown
from model_checks import SPARSE_FORMATS, dense

Y = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]], dtype=float)
KNOWN = np.array([[1, 1, 0], [1, 0, 1], [0, 0, 0], [1, 1, 1]], dtype=bool)
FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
OBSERVED = {
    "dense": np.asarray,
    "list": lambda known: known.tolist(),
    "0 and 1": lambda known: known.astype(int),
    "pandas": pd.DataFrame,
    "pandas, sparse": lambda known: pd.DataFrame.sparse.from_spmatrix(sp.csr_array(known)),
    "polars": lambda known: pl.DataFrame(known, schema=list("abc")),
    **SPARSE_FORMATS,
}


def check(outcome, sparse, labels=Y, known=KNOWN):
    found, mask = outcome
    assert sp.issparse(found) == sparse
    np.testing.assert_array_equal(dense(found), np.where(known, labels, 0))
    if known.all():
        assert mask is None
        return
    np.testing.assert_array_equal(mask.block(slice(None), np.float64).astype(bool), known)


@FORMS
@pytest.mark.parametrize("make", OBSERVED.values(), ids=OBSERVED.keys())
def test_observed(form, make):
    check(split_unknown(form(Y), make(KNOWN)), form is sp.csr_array)


@settings(max_examples=40, deadline=None)
@given(
    known=arrays(bool, st.tuples(st.integers(1, 5), st.integers(1, 5))).filter(np.any),
    under=st.sampled_from([np.nan, np.inf, -7.0, 1e300]),
    seed=st.integers(0, 99),
)
def test_all_ways_to_say_it_agree_whatever_lies_under_an_unknown_entry(known, under, seed):
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, known.shape).astype(float)
    holes, hidden = np.where(known, labels, np.nan), np.where(known, labels, under)
    some = known | (random.random(known.shape) < 0.5)  # known is what neither calls unknown
    for matrix, observed in (
        *((holes, one) for one in (None, known, some, sp.csr_array(some))),
        *((hidden, one) for one in (known, sp.csc_array(known), sp.coo_array(known))),
    ):
        for form in (np.asarray, sp.csr_array):
            before = form(matrix)
            check(split_unknown(before, observed), form is sp.csr_array, labels, known)
            np.testing.assert_array_equal(dense(before), matrix)


@FORMS
def test_types_stay_and_what_is_all_known_is_not_copied(form):
    for dtype in (bool, np.uint8, np.int64, np.float32):
        assert split_unknown(form(Y.astype(dtype)), KNOWN)[0].dtype == dtype
    matrix = form(Y)
    for observed in (None, np.ones_like(KNOWN), sp.csr_array(np.ones_like(KNOWN))):
        assert split_unknown(matrix, observed) == (matrix, None)


@FORMS
@pytest.mark.parametrize(
    ("observed", "got"),
    [
        (KNOWN.T, "(3, 4)"),
        (KNOWN[:, 0], "(4,)"),
        (sp.csr_array(KNOWN[:, :2]), "(4, 2)"),
        ("all", "()"),
        (np.where(KNOWN, "yes", "no"), "U3"),
        (2 * KNOWN, "int64"),
        (np.where(KNOWN, 1.0, np.nan), "float64"),
        (sp.csr_array(3 * KNOWN), "int64"),
    ],
)
def test_bad_masks(form, observed, got):
    with pytest.raises(ValueError, match="observed") as caught:
        split_unknown(form(Y), observed)
    assert got in str(caught.value)


@FORMS
@pytest.mark.parametrize(
    "observed", [None, np.zeros_like(KNOWN), sp.csr_array(KNOWN.shape, dtype=bool), ~KNOWN]
)
def test_some_label_must_be_known_but_not_in_every_block(form, observed):
    holes = form(np.where(KNOWN & (observed is not None), Y, np.nan))
    with pytest.raises(ValueError, match="label"):
        split_unknown(holes, observed)
    labels, mask = split_unknown(holes, observed, whole=False)
    assert not dense(labels).any()
    assert not mask.known().any()


def test_nullable_columns_of_pandas_hold_unknown_labels():
    Y = pd.DataFrame({"a": [1, None, 0, 1], "b": [0, 1, 1, 0]}, dtype="Int64")
    X = np.arange(8.0).reshape(4, 2) ** 2
    expected = MLFro(1.0, tol=1e-16).fit(X, Y.to_numpy(dtype=float, na_value=np.nan))
    known = Y.notna().astype("boolean")
    for found in (MLFro(1.0, tol=1e-16).fit(X, Y), MLFro(1.0, tol=1e-16).fit(X, Y.fillna(0), observed=known)):
        np.testing.assert_allclose(found.coef_, expected.coef_)
    with pytest.raises(ValueError, match=r"observed.*'b'.*'a'"):
        MLFro().fit(X, Y, observed=known[["b", "a"]])


@FORMS
@pytest.mark.parametrize("marks", [[1, 1, 0, 0], [1, 1, 1, 0]], ids=["known", "unknown"])
def test_a_label_that_no_row_knows_is_named(form, marks):
    known = np.tile(np.array(marks, dtype=bool), (5, 1)).T @ np.ones((5, 3), dtype=bool)
    known[:, 1] = False
    X = np.arange(8.0).reshape(4, 2) ** 2
    with pytest.warns(UserWarning, match="label.* 1 of Y"):
        MLFro(1.0).fit(X, form(np.where(known, Y, np.nan)))
    frame = pd.DataFrame(np.where(known, Y, np.nan), columns=["a", "b", "c"])
    with pytest.warns(UserWarning, match="'b' of Y"):
        MLFro(1.0).fit(X, frame)
