"""Fits where X lives, or on a device by name: the models of NumPy, and errors that name place and value."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels

from lrml import (
    CPLST,
    CPLSTCV,
    LEML,
    LEMLCV,
    LRML,
    LRMLCV,
    MLFro,
    MLFroCV,
    MLTrace,
    MLTraceCV,
    SpectralRegressor,
    SpectralRegressorCV,
)
from lrml.core.arrays import HOST, Place
from lrml.estimators import Kernel
from lrml.penalties import MCP
from namespaces import assert_same, dispatching, place_named, places, put

on_devices = pytest.mark.parametrize("place", [p for p in places() if p.id != "numpy"], indirect=True)
FITTED = ("coef_", "intercept_", "singular_values_")


@pytest.fixture(scope="module")
def data():
    """More rows than features, the reverse, labels that are not all known, and some that hardly follow X.

    One label has no example.
    """
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 70)) * np.geomspace(3, 0.3, 70) + 0.5
    Y = (X[:, :8] @ rng.standard_normal((8, 5)) > 1.0).astype(np.int64)
    Y[:, -1] = 0
    weights = rng.uniform(0.5, 2.0, 60)
    weights[3] = 0.0
    gappy = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
    long = X[:, :12]
    few = rng.standard_normal((60, 8)) * np.geomspace(1, 0.3, 8) + rng.standard_normal(8)
    scores = few @ rng.standard_normal((8, 3)) @ rng.standard_normal((3, 5))
    noisy = (scores + 2 * rng.standard_normal(scores.shape) > np.median(scores, axis=0)).astype(int)
    noisy[:, 2] = 0
    return {
        "long": (long, Y, weights),
        "wide": (X, Y, weights),
        "real": (long, Y + 0.3 * long[:, :5], weights),
        "unknown": (long, gappy, weights),
        "noisy": (few, noisy, weights),
    }


def there(place, model, *given, **more):
    """Fit to arrays in a place."""
    with dispatching():
        return clone(model).fit(*(put(place, part) for part in given), **more)


def assert_same_model(found, expected, place, dtype="float64", objective=1e-9, rtol=1e-6):
    assert found.objective_ == pytest.approx(expected.objective_, rel=objective)
    assert (found.rank_, found.n_iter_, found.status_) == (expected.rank_, expected.n_iter_, expected.status_)
    for name in FITTED if not hasattr(expected, "X_fit_") else FITTED[1:]:
        assert_same(getattr(found, name), getattr(expected, name), place, dtype=dtype, rtol=rtol)
    assert_same(found.unseen_labels_, expected.unseen_labels_, place, dtype="bool")
    assert hasattr(found, "gap_") == hasattr(expected, "gap_")


# Fits

SQUARED = [
    LRML(2, 3.0),
    LRML("auto", 2.0, ridge=0.1),
    LRML(2, 3.0, fit_intercept=False),
    MLTrace(2.0),
    MLFro(0.5),
    CPLST(2),
    LEML(3, 2.0, ridge=0.5, tol=1e-7),
    LEML(2),
]
BY_ROWS = [
    LRML(loss="logistic"),
    LRML(2, 2.0, ridge=0.1, loss="squared_hinge", fit_intercept=False, tol=1e-6),
    MLTrace(2.0, loss="logistic", tol=1e-6),
    LEML(3, 2.0, ridge=0.5, loss="logistic", tol=1e-7),
]
REAL = [
    SpectralRegressor(target_weights=np.linspace(0.5, 2.0, 5), max_rank=2),
    SpectralRegressor(alpha=0.0, ridge=np.linspace(0.5, 2.0, 5)),
    SpectralRegressor(penalty=MCP(0.5, 3.0)),
]
CASES = [
    *((model, "long") for model in SQUARED),
    *((model, "real") for model in REAL),
    (REAL[0], "long"),  # whole numbers
    *((model, "wide") for model in SQUARED[::4]),
    *((model, "noisy") for model in BY_ROWS),
    *(
        (model, "unknown")
        for model in (LRML(2, 3.0, tol=1e-8), LEML(3, 2.0, tol=1e-7), SpectralRegressor(tol=1e-8))
    ),
]


@on_devices
@pytest.mark.parametrize(("model", "shape"), CASES, ids=repr)
def test_a_fit_of_device_arrays_is_that_of_numpy_and_stays_there(model, shape, data, place):
    given = data[shape]
    expected, found = clone(model).fit(*given), there(place, model, *given)
    loose = model in BY_ROWS and (model.tol is None or model.tol > 1e-5)
    close = {"objective": 1e-6, "rtol": 1e-3} if loose else {"rtol": 1e-4 if shape == "unknown" else 1e-6}
    assert_same_model(found, expected, place, **close)
    ours, theirs = found.history_["objective"], expected.history_["objective"]
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@on_devices
@pytest.mark.parametrize("form", [np.asarray, sp.csc_array])
@pytest.mark.parametrize(
    ("model", "shape"),
    [(CPLST(2), "long"), (LRML(2, 2.0, ridge=0.1, tol=1e-6), "unknown")],
    ids=repr,
)
def test_a_device_by_name_takes_numpy_and_gives_numpy_back(model, shape, form, data, place):
    X, Y, weights = data[shape]
    X = X * (np.abs(X) > 0.8)  # so that there is something to leave out
    expected = clone(model).fit(X, Y, weights)
    found = clone(model).set_params(device=place).fit(form(X), form(Y), weights)
    assert_same_model(found, expected, HOST, rtol=1e-5)
    assert sp.issparse(found.predict(form(X))) == sp.issparse(form(X))


@on_devices
def test_labels_of_numpy_follow_x_and_keep_their_names(data, place):
    pd = pytest.importorskip("pandas")
    X, Y, _ = data["long"]
    with dispatching():
        found = LRML(2, 3.0).fit(put(place, X), pd.DataFrame(Y, columns=list("abcde")))
        flat = LRML(1, 3.0).fit(put(place, X), np.where(Y[:, 0], "yes", "no"))
        sparse = MLFro(0.5).fit(put(place, X), sp.csr_array(Y))
        decided = sparse.predict(put(place, X))
    assert (list(found.classes_), list(flat.classes_)) == (list("abcde"), ["no", "yes"])
    assert_same(found.coef_, LRML(2, 3.0).fit(X, Y).coef_, place, rtol=1e-6)
    # Sparse labels are remembered for a model that comes home.
    expected = MLFro(0.5).fit(X, Y).predict(X)
    assert_same(decided, expected, place, dtype="int64")
    home = sparse.to_numpy().predict(X)
    assert sp.issparse(home)
    np.testing.assert_array_equal(home.toarray(), expected)


def test_rows_beyond_the_memory_of_a_device_are_summed_block_by_block(data, monkeypatch):
    place, (X, Y, weights) = place_named("strict-device1"), data["long"]
    expected = LRML(2, 3.0).fit(X, Y, weights)
    monkeypatch.setattr(Place, "memory", 4000.0)
    monkeypatch.setattr("lrml.core.moments._DEVICE_ENTRIES", 40 * 17)
    found = LRML(2, 3.0, device=place).fit(sp.csr_array(X), Y, weights)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    with pytest.raises(ValueError, match="60 rows, 12 features"):
        LRML(2, 3.0, device=place, loss="logistic").fit(X, Y)


# Thresholds, searches, leave-one-out scores, paths


SEARCHES = {
    "kernel, gammas": MLTraceCV(MLTrace(kernel="rbf"), gammas=[0.1, 1.0]),
    "threshold": LRMLCV(LRML(threshold="auto")),
    "smallest": LRMLCV(LRML(), rule="smallest"),
    "ranks": CPLSTCV(CPLST(), ranks=[1, 3]),
    "leml": LEMLCV(LEML(), ranks=[1, 3], ridges=[1.0, 30.0]),
    "folds": LRMLCV(LRML(), cv=3, thetas=[1], alphas=[0.3, 3.0], ridges=[0.1]),
    "scorers": MLFroCV(MLFro(), scoring=["label_ranking_average_precision", "f1_micro"]),
    "a function": MLFroCV(MLFro(), scoring=lambda Y, S: -float(np.mean((np.asarray(Y) - S) ** 2))),
    "real": SpectralRegressorCV(SpectralRegressor(kernel="rbf"), gammas=0.5, ridges=[1.0, 3.0]),
    "rows": MLFroCV(MLFro(loss="logistic", tol=1e-10), alphas=[1.0, 10.0], cv=2),
}


@on_devices
@pytest.mark.parametrize(
    ("search", "weighted", "by_name"),  # in turn
    [pytest.param(each, i % 2, i % 3 == 0, id=name) for i, (name, each) in enumerate(SEARCHES.items())],
)
def test_a_search_on_a_device_chooses_as_with_numpy(search, weighted, by_name, labels_of_few, place):
    X, Y, weights = labels_of_few
    Y = Y + 0.3 * X[:, :5] if search._targets == "real" else Y
    given = (X, Y, weights) if weighted else (X, Y)
    model = clone(search).set_params(random_state=0)
    expected = clone(model).fit(*given)
    if by_name:
        found, home = clone(model).set_params(estimator__device=place).fit(*given), HOST
        assert found.best_estimator_.device == place
    else:
        found, home = there(place, model, *given), place
    assert found.best_index_ == expected.best_index_
    assert found.best_params_ == pytest.approx(expected.best_params_, rel=1e-6)
    for name, values in expected.cv_results_.items():
        if name.startswith("mean_test"):
            assert found.cv_results_[name] == pytest.approx(values, abs=1e-6, nan_ok=True)
    # For rows there is another solver than with NumPy, to its tolerance.
    rtol = 1e-4 if search.loss != "squared" else 1e-6
    assert_same(found.intercept_, expected.intercept_, home, rtol=rtol)
    assert Place.of(found.best_estimator_.factors_.U) == home
    if search.threshold == "auto":
        assert float(found.threshold_) == pytest.approx(float(expected.threshold_), rel=1e-5)


@pytest.fixture(scope="module")
def labels_of_few():
    """Rows far from zero; a label of one row, one of none, and three to learn: no choice is a tie."""
    rng = np.random.default_rng(5)
    X = np.abs(rng.standard_normal((60, 6))) + 3.0
    scores = X[:, :4] @ rng.standard_normal((4, 5)) + rng.standard_normal((60, 5))
    Y = (scores > np.median(scores, axis=0)).astype(np.int64)
    Y[:, 3], Y[:, 4], Y[11, 3] = 0, 0, 1
    weights = rng.uniform(0.5, 2.0, 60)
    weights[3] = 0.0
    return X, Y, weights


@on_devices
@pytest.mark.parametrize(
    "model", [MLFro(0.5), MLFro(0.5, kernel="rbf", gamma=0.1), LRML(1, 3.0)], ids=["linear", "rbf", "LRML"]
)
@pytest.mark.parametrize("flat", [False, True], ids=["matrix", "1-D"])
def test_leave_one_out_scores(model, flat, labels_of_few, place):
    X, Y, _ = labels_of_few
    y = Y[:, 0] if flat else Y
    expected = clone(model).leave_one_out_scores(X, y)
    with dispatching():
        found = clone(model).leave_one_out_scores(put(place, X), put(place, y))
    assert_same(found, expected, place, rtol=1e-6)
    home = clone(model).set_params(device=place).leave_one_out_scores(X, y)
    np.testing.assert_allclose(home, expected, rtol=0, atol=1e-6)


# Kernels


@on_devices
@pytest.mark.parametrize("name", ["cosine", "linear", "poly", "rbf", "sigmoid"])
def test_kernel_values_are_those_of_scikit_learn(name, labels_of_few, place):
    X = labels_of_few[0].astype(np.float32)
    for options in ({"gamma": 0.2, "degree": 2, "coef0": 0.5}, {"degree": 3, "coef0": 1}):
        kernel = Kernel(name, **options if name != "cosine" else {})
        expected = pairwise_kernels(X.astype(float), X.astype(float), name, filter_params=True, **options)
        given = put(place, X)
        assert_same(kernel.matrix(given), expected, place, rtol=1e-12)
        assert_same(kernel(put(place, X[:7]), given), expected[:7], place, rtol=1e-12)
        if name == "rbf":  # no row has a distance from itself, though distances come from products
            assert bool(place.xp.all(place.xp.linalg.diagonal(kernel.matrix(given)) == 1.0))
