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
from model_checks import SPARSE_FORMATS

Y = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 1]], dtype=float)
KNOWN = np.array([[1, 1, 0], [1, 0, 1], [0, 0, 0], [1, 1, 1]], dtype=bool)


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def known_of(mask):
    return mask.block(slice(None), np.float64).astype(bool)


def check(outcome, sparse):
    labels, mask = outcome
    assert sp.issparse(labels) == sparse
    np.testing.assert_array_equal(dense(labels), np.where(KNOWN, Y, 0))
    np.testing.assert_array_equal(known_of(mask), KNOWN)
    chosen = np.array([False, True, True])
    np.testing.assert_array_equal(known_of(mask.select_labels(chosen)), KNOWN[:, chosen])


FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


OBSERVED = {
    "dense": np.asarray,
    "list": lambda known: known.tolist(),
    "0 and 1": lambda known: known.astype(int),
    "float32": lambda known: known.astype(np.float32),
    "pandas": pd.DataFrame,
    "pandas, sparse": lambda known: pd.DataFrame.sparse.from_spmatrix(sp.csr_array(known)),
    "polars": lambda known: pl.DataFrame(known, schema=list("abc")),
    **SPARSE_FORMATS,
}


@FORMS
@pytest.mark.parametrize("make", OBSERVED.values(), ids=OBSERVED.keys())
def test_observed(form, make):
    check(split_unknown(form(Y), make(KNOWN)), form is sp.csr_array)


@FORMS
def test_observed_and_nan_together(form):
    """Known is what neither calls unknown."""
    holes = np.where(KNOWN | (np.arange(3) == 0), Y, np.nan)  # NaN for some of the unknown entries
    for observed in (KNOWN | (np.arange(3) > 0), sp.csr_array(KNOWN | (np.arange(3) > 0))):
        check(split_unknown(form(holes), observed), form is sp.csr_array)


@FORMS
@pytest.mark.parametrize("marks", [np.asarray, sp.csr_array], ids=["dense marks", "sparse marks"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -7.0, 1e300])
def test_what_lies_under_an_unobserved_entry_is_forgotten(form, marks, value):
    labels = np.where(KNOWN, Y, value)
    check(split_unknown(form(labels), marks(KNOWN)), form is sp.csr_array)


@FORMS
@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float32])
def test_type_of_the_labels_stays(form, dtype):
    labels, mask = split_unknown(form(Y.astype(dtype)), KNOWN)
    assert labels.dtype == dtype
    np.testing.assert_array_equal(dense(labels), np.where(KNOWN, Y, 0))
    np.testing.assert_array_equal(known_of(mask), KNOWN)


@FORMS
@pytest.mark.parametrize("observed", [None, np.ones_like(KNOWN), sp.csr_array(np.ones_like(KNOWN))])
def test_all_known_means_no_mask_and_the_same_labels(form, observed):
    matrix = form(Y)
    labels, mask = split_unknown(matrix, observed)
    assert mask is None
    assert labels is matrix


def test_stored_false_is_not_observed():
    stored = sp.csr_array(np.ones(KNOWN.shape))
    stored.data[:] = KNOWN.ravel()
    check(split_unknown(Y, stored), sparse=False)
    assert stored.nnz == KNOWN.size  # the matrix of the caller stays as it was


def test_the_same_observed_entry_twice():
    rows, columns = np.nonzero(KNOWN)
    twice = sp.coo_array(
        (np.ones(2 * len(rows), dtype=bool), (np.r_[rows, rows], np.r_[columns, columns])), shape=KNOWN.shape
    )
    check(split_unknown(sp.csr_array(Y), twice), sparse=True)


@pytest.mark.parametrize(
    ("observed", "got"),
    [
        (KNOWN[:-1], "(3, 3)"),
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
@FORMS
def test_bad_masks(form, observed, got):
    with pytest.raises(ValueError, match="observed") as caught:
        split_unknown(form(Y), observed)
    assert got in str(caught.value)


@FORMS
@pytest.mark.parametrize(
    ("known", "observed"),
    [
        (np.zeros_like(KNOWN), None),
        (np.ones_like(KNOWN), np.zeros_like(KNOWN)),
        (np.ones_like(KNOWN), sp.csr_array(KNOWN.shape, dtype=bool)),
        (~KNOWN, KNOWN),
    ],
    ids=["NaN", "observed", "sparse", "both"],
)
def test_some_label_must_be_known_but_not_in_every_block(form, known, observed):
    holes = form(np.where(known, Y, np.nan))
    with pytest.raises(ValueError, match="label"):
        split_unknown(holes, observed)
    labels, mask = split_unknown(holes, observed, whole=False)
    assert not dense(labels).any()
    assert not known_of(mask).any()


@settings(max_examples=60, deadline=None)
@given(
    known=arrays(bool, st.tuples(st.integers(1, 5), st.integers(1, 5))).filter(np.any),
    seed=st.integers(0, 99),
)
def test_all_ways_to_say_it_agree(known, seed):
    labels = np.random.default_rng(seed).integers(0, 2, known.shape).astype(float)
    holes = np.where(known, labels, np.nan)
    ways = [
        (holes, None),
        (sp.csr_array(holes), None),
        (labels, known),
        (labels, sp.csc_array(known)),
        (sp.csr_array(labels), known),
        (sp.csr_array(labels), sp.coo_array(known)),
    ]
    for matrix, observed in ways:
        before = dense(matrix).copy()
        found, mask = split_unknown(matrix, observed)
        np.testing.assert_array_equal(dense(matrix), before)
        np.testing.assert_array_equal(dense(found), np.where(known, labels, 0))
        if mask is None:
            assert known.all()
        else:
            np.testing.assert_array_equal(known_of(mask), known)


def test_nullable_columns_of_pandas_hold_unknown_labels():
    Y = pd.DataFrame({"a": [1, None, 0, 1], "b": [0, 1, 1, 0]}, dtype="Int64")
    X = np.arange(8.0).reshape(4, 2) ** 2
    found = MLFro(1.0, tol=1e-16).fit(X, Y)
    expected = MLFro(1.0, tol=1e-16).fit(X, Y.to_numpy(dtype=float, na_value=np.nan))
    np.testing.assert_array_equal(found.coef_, expected.coef_)
    known = Y.notna().astype("boolean")
    also = MLFro(1.0, tol=1e-16).fit(X, Y.fillna(0), observed=known)
    np.testing.assert_allclose(also.coef_, expected.coef_)


def test_a_frame_of_observed_entries_must_have_the_same_columns():
    Y = pd.DataFrame(np.eye(4, 2, dtype=int), columns=["a", "b"])
    with pytest.raises(ValueError, match=r"observed.*'b'.*'a'"):
        MLFro().fit(np.eye(4), Y, observed=Y[["b", "a"]] == 0)


def test_the_loss_of_a_fitted_model_stays():
    X, Y = np.random.default_rng(0).normal(size=(30, 3)), np.eye(30, 2, dtype=int)
    model = MLFro(1.0).fit(X, Y)
    before = model.predict(X)
    np.testing.assert_array_equal(model.set_params(loss="logistic").predict(X), before)
