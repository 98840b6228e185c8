"""Bytes of models beside their quality: fitted models, paths, searches, and the choice of the smallest."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.model_selection import KFold

from low_rank_data import make_low_rank_labels
from lrml import CPLST, CPLSTCV, LEML, LRML, LRMLCV, MLFro, MLTrace, metrics

MODELS = {
    "LRML, low rank": LRML(2, 1e6, ridge=0.1),
    "LRML, full rank": LRML(0, 0.0, ridge=0.1),
    "LRML, logistic": LRML(1, 3.0, loss="logistic", tol=1e-2),
    "MLTrace": MLTrace(8.0),
    "MLFro": MLFro(1.0),
    "CPLST": CPLST(3),
    "LEML": LEML(2, 1.0),
    "LRMLCV": LRMLCV(thetas=[0, 2], random_state=0),
}


@pytest.fixture(scope="module")
def rows():
    made = make_low_rank_labels(120, 15, 9, rank=3, noise=0.3, random_state=0)
    return made.X, made.Y


def stored_bytes(*arrays):
    """Bytes of the numbers of arrays and sparse matrices, written out."""
    parts = [
        part
        for array in arrays
        for part in ((array.data, array.indices, array.indptr) if sp.issparse(array) else (array,))
    ]
    return sum(len(np.ascontiguousarray(part).tobytes()) for part in parts)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_bytes_are_those_of_the_smaller_form(rows, model, dtype):
    X, Y = rows
    model.fit(X.astype(dtype), Y)
    as_factors = stored_bytes(*model.factors_, model.intercept_)
    as_coefficients = stored_bytes(model.coef_, model.intercept_)
    assert model.nbytes_ == min(as_factors, as_coefficients)
    assert (as_factors < as_coefficients) == (model.rank_ * (15 + 9 + 1) < 15 * 9)
    assert as_factors == (model.rank_ * (15 + 9 + 1) + 9) * np.dtype(dtype).itemsize


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_a_kernel_model_keeps_its_rows(rows, form):
    X, Y = rows
    X = form(X.astype(np.float32))
    model = LRML(2, 1e6, ridge=0.1, kernel="rbf").fit(X, Y)
    assert model.rank_ == 2
    assert model.nbytes_ == stored_bytes(*model.factors_, model.intercept_, X)
    assert model.factors_.U.dtype == np.float64
    given = MLFro(1.0, kernel="precomputed").fit(X @ X.T, Y) if form is np.asarray else None
    assert given is None or given.nbytes_ == stored_bytes(given.dual_coef_, given.intercept_)
    assert not hasattr(LRML(), "nbytes_")


def mean_and_error(values):
    values = values[np.isfinite(values)]
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


@pytest.mark.parametrize("seed", range(2))
def test_on_folds_the_rule_is_that_of_brute_force(seed):
    made = make_low_rank_labels(150, 12, 8, rank=3, noise=0.5, random_state=seed)
    X, Y = made.X, made.Y
    folds = KFold(3, shuffle=True, random_state=0)
    grid = {"ranks": [1, 2, 3, 4, 5, 6, 8], "ridges": [0.1, 5.0], "cv": folds}
    found = CPLSTCV(**grid, rule="smallest").fit(X, Y)
    quality, sizes, values = [], [], []
    for params in found.cv_results_["params"]:
        scores = np.empty(Y.shape)
        for train, test in folds.split(X):
            scores[test] = CPLST(**params).fit(X[train], Y[train]).decision_function(X[test])
        by_row = metrics.label_ranking_average_precision(Y, scores, per_example=True)
        means = [np.nanmean(by_row[test]) for _, test in folds.split(X)]
        values.append(by_row)
        quality.append((np.mean(means), mean_and_error(by_row)[1]))
        sizes.append(CPLST(**params).fit(X, Y).nbytes_)
    np.testing.assert_array_equal(found.cv_results_["mean_model_nbytes"], sizes)
    best = int(np.argmax([mean for mean, _ in quality]))
    leads = [mean_and_error(values[best] - row)[0] for row in values]
    near = [place for place, lead in enumerate(leads) if lead <= quality[best][1]]
    least = min(sizes[place] for place in near)
    among = [place for place in near if sizes[place] == least]
    assert found.best_index_ == max(among, key=lambda place: quality[place][0])
    assert found.nbytes_ == sizes[found.best_index_] < max(sizes)
