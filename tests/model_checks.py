"""What tests of models and of data share."""

from itertools import pairwise

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

WEIGHTS = {
    "unweighted": lambda n: None,
    "weighted": lambda n: np.linspace(0.2, 2.0, n),
    "some without weight": lambda n: np.where(np.arange(n) % 4 == 0, 0.0, np.linspace(0.2, 2.0, n)),
}


def dense(matrix):
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


def blocks_of(data, edges):
    """Cut arrays at some rows."""
    return [tuple(part[a:b] for part in data) for a, b in pairwise([0, *edges, data[0].shape[0]])]


def table(load):
    """A table of scikit-learn as multi-label data: its classes, and every fourth column in three steps."""
    X, target = load(return_X_y=True)
    held, X = X[:, ::4], np.delete(X, np.s_[::4], axis=1)
    steps = [held > np.quantile(held, q, axis=0) for q in (0.25, 0.5, 0.75)]
    return X, np.hstack([target[:, None] == np.unique(target), *steps]).astype(float)


def squared_error(Y, S):
    """A score that depends on every entry smoothly, unlike the metrics that only see their order."""
    return -float(np.mean((dense(Y) - S) ** 2))


def lrml(**params):
    return LRML(**{"theta": 1, "alpha": 2.0, "tol": 1e-18, **params})


def assert_same_model(model, reference, **tolerance):
    tolerance = tolerance or TIGHT
    np.testing.assert_allclose(model.coef_, reference.coef_, **tolerance)
    np.testing.assert_allclose(model.intercept_, reference.intercept_, **tolerance)
    assert model.rank_ == reference.rank_
    assert np.abs(reference.coef_).max() > 0.01  # two models that learnt nothing would agree, too
