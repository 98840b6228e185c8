"""What the tests of fitted models share."""

import numpy as np
import pytest
import scipy.sparse as sp

from lrml import LRML

SPARSE_FORMATS = {
    "csr_matrix": sp.csr_matrix,
    "csc_matrix": sp.csc_matrix,
    "coo_matrix": sp.coo_matrix,
    "lil_matrix": sp.lil_matrix,
    "csr_array": sp.csr_array,
    "csc_array": sp.csc_array,
    "coo_array": sp.coo_array,
    "dok_array": sp.dok_array,
    "bsr_array": sp.bsr_array,
    "dia_array": sp.dia_array,
}

# Coefficients of fits with a residual of 1e-9, whose paths differ by rounding only.
TIGHT = {"rtol": 1e-6, "atol": 1e-7}
FORMS = pytest.mark.parametrize(
    "form", [np.asarray, sp.csr_array, sp.csc_matrix], ids=["dense", "csr", "csc"]
)


def lrml(**params):
    return LRML(**{"theta": 1, "alpha": 2.0, "tol": 1e-18, **params})


def assert_same_model(model, reference, **tolerance):
    tolerance = tolerance or TIGHT
    np.testing.assert_allclose(model.coef_, reference.coef_, **tolerance)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, **tolerance)
    assert model.rank_ == reference.rank_
    assert np.abs(reference.coef_).max() > 0.01  # two models that learnt nothing would agree, too
