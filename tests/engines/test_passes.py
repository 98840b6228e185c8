"""Fits that read the rows several times, on a cluster: one round per pass."""

from itertools import pairwise

import numpy as np
import pytest
from sklearn.base import clone

pytest.importorskip("distributed", reason="Dask is not installed")

import dask.array as da

from lrml import LRML
from lrml.engines.dask import fit

MODELS = [
    LRML(1, 2.0, ridge=0.5, loss="logistic", tol=1e-3),  # and unknown labels
    LRML(1, 2.0, ridge=0.5, solver="compressed", tol=1e-6),
]


@pytest.mark.parametrize("model", MODELS, ids=["logistic", "wide"])
def test_rounds_of_a_cluster_are_passes_over_blocks(client, model):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 30))
    Y = (X @ rng.standard_normal((30, 4)) > 1.0).astype(float)
    if model.loss == "logistic":
        Y[50:70, 1] = np.nan
    edges = [0, 30, 35, 90, 110, 115, 120]
    blocks = [(X[a:b], Y[a:b]) for a, b in pairwise(edges)]
    local = clone(model).fit_blocks(blocks)
    rows = tuple(np.diff(edges).tolist())
    found = fit(clone(model), da.from_array(X, (rows, -1)), da.from_array(Y, (rows, -1)), client=client)
    assert found.n_passes_ == local.n_passes_ > 3
    np.testing.assert_allclose(found.coef_, local.coef_, rtol=0, atol=1e-6 * np.abs(local.coef_).max())
