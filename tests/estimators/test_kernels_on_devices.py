"""Kernels, leave-one-out scores, searches and paths where X lives: the same as with NumPy, and there."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.metrics.pairwise import pairwise_kernels

from lrml import CPLST, CPLSTCV, LRML, LRMLCV, MLFro, MLFroCV, MLTraceCV, lrml_path
from lrml.core.arrays import HOST, Place
from lrml.estimators import KERNELS, Kernel, alpha_max, ml_fro_path
from namespaces import assert_same, dispatching, place_named, places, put

DEVICES = [name.id for name in places() if name.id != "numpy"]
on_devices = pytest.mark.parametrize("place", places(*DEVICES), indirect=True)
EASY = ("rbf", "poly", "laplacian", "cosine")


@pytest.fixture(scope="module")
def data():
    """Rows far from zero; a label of one row, and one of none."""
    rng = np.random.default_rng(5)
    X = np.abs(rng.standard_normal((60, 6))) + 3.0
    Y = (X[:, :4] @ rng.standard_normal((4, 5)) > 0.5).astype(np.int64)
    Y[:, 3], Y[:, 4] = 0, 0
    Y[11, 3] = 1
    weights = rng.uniform(0.5, 2.0, 60)
    weights[3] = 0.0
    return X, Y, weights


# Kernels


@on_devices
@pytest.mark.parametrize("name", [name for name in KERNELS if name != "precomputed"])
def test_kernel_values_are_those_of_scikit_learn(name, data, place, monkeypatch):
    monkeypatch.setattr("lrml.estimators._kernels._DEVICE_VALUES", 900)  # several blocks
    X = data[0].astype(np.float32)
    kernel = Kernel(name, gamma=None if name in ("cosine", "additive_chi2") else 0.2, degree=2, coef0=0.5)
    options = {"gamma": 0.2, "degree": 2, "coef0": 0.5}
    expected = pairwise_kernels(X.astype(float), X.astype(float), name, filter_params=True, **options)
    given = put(place, X)
    tight = {"rtol": 1e-12}
    assert_same(kernel.matrix(given), expected, place, **tight)
    assert_same(kernel(put(place, X[:7]), given), expected[:7], place, **tight)
    if name == "rbf":  # no row has a distance from itself, though distances come from products
        assert bool(place.xp.all(place.xp.linalg.diagonal(kernel.matrix(given)) == 1.0))


@on_devices
@pytest.mark.parametrize("name", ["rbf", "laplacian", "chi2", "poly"])
def test_gamma_has_the_default_of_each_kernel(name, data, place):
    X = data[0]
    expected = pairwise_kernels(X, X, name, filter_params=True, degree=3, coef0=1)
    assert_same(Kernel(name).matrix(put(place, X)), expected, place, rtol=1e-12)


def test_kernels_that_a_device_cannot_compute(data):
    X, Y, _ = data
    place = place_named("strict-device1")
    refusals = {
        "must have a name, one of .*'rbf'.*got a function.*kernel='precomputed'": (np.dot, X),
        "needs an X without negative values, got -4.*MinMaxScaler": ("chi2", X - 4.0 - X.min()),
        "kernel values must be finite, got inf for the rows 0 and 0.*scale X": ("poly", 1e120 * X),
    }
    for message, (kernel, rows) in refusals.items():
        model = LRML(1, 1.0, kernel=kernel, gamma=1.0)
        with pytest.raises(ValueError, match=message), dispatching():
            model.fit(put(place, rows), put(place, Y))
        assert not hasattr(model, "factors_")


@on_devices
@pytest.mark.parametrize("model", [LRML(2, 1.0, ridge=0.1), MLFro(0.5), CPLST(2, ridge=0.1)], ids=repr)
@pytest.mark.parametrize("kernel", [*EASY, "precomputed"])
def test_a_kernel_fit_is_that_of_numpy(model, kernel, data, place):
    X, Y, weights = data
    if kernel == "precomputed":
        X = pairwise_kernels(X, X, "rbf", gamma=0.1)
    model = clone(model).set_params(kernel=kernel)
    expected = clone(model).fit(X, Y, weights)
    with dispatching():
        found = clone(model).fit(put(place, X), put(place, Y), put(place, weights))
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    assert_same(found.intercept_, expected.intercept_, place, rtol=1e-6)
    assert_same(found.singular_values_, expected.singular_values_, place, rtol=1e-6)
    if kernel != "precomputed":
        assert Place.of(found.X_fit_) == place


# Searches

SEARCHES = {
    "kernel": LRMLCV(kernel="rbf"),
    "kernel, gammas": MLTraceCV(kernel="laplacian", gammas=[0.1, 1.0]),
    "kernel, poly": MLFroCV(kernel="poly"),
    "leave one out": LRMLCV(),
    "threshold": LRMLCV(threshold="auto"),
    "smallest": LRMLCV(rule="smallest"),
    "ranks": CPLSTCV(ranks=[1, 3]),
    "grid": LRMLCV(thetas=[0, 1], n_alphas=3, ridges=[0.1, 1.0]),
    "folds": LRMLCV(cv=3, thetas=[1], alphas=[0.3, 3.0], ridges=[0.1]),
    "share": MLFroCV(cv=0.3),
    "scorers": MLFroCV(scoring=["average_precision", "f1_micro"]),
    "a function": MLFroCV(scoring=lambda Y, S: -float(np.mean((np.asarray(Y) - S) ** 2))),
    "real": MLFroCV(targets="real", kernel="rbf", gammas=0.5),
    "rows": MLFroCV(loss="logistic", alphas=[1.0, 10.0], cv=2),
}


def same_choice(found, expected):
    """Whether the same candidates were tried, with the same scores, and the same one chosen."""
    assert found.best_index_ == expected.best_index_
    assert found.best_params_ == pytest.approx(expected.best_params_, rel=1e-6)
    assert found.best_score_ == pytest.approx(expected.best_score_, abs=1e-9)
    for name, values in expected.cv_results_.items():
        if name.startswith(("mean_test", "confirmed")):
            assert found.cv_results_[name] == pytest.approx(values, abs=1e-6, nan_ok=True)


@on_devices
@pytest.mark.parametrize(
    ("search", "weighted"),  # in turn
    [pytest.param(search, number % 2, id=name) for number, (name, search) in enumerate(SEARCHES.items())],
)
def test_a_search_on_a_device_chooses_as_with_numpy(search, weighted, data, place):
    X, Y, weights = data
    if search.targets == "real":
        Y = Y + 0.3 * X[:, :5]
    more = {"sample_weight": weights} if weighted else {}
    model = clone(search).set_params(random_state=0)
    expected = clone(model).fit(X, Y, **more)
    with dispatching():
        found = clone(model).fit(
            put(place, X), put(place, Y), **{name: put(place, w) for name, w in more.items()}
        )
    same_choice(found, expected)
    by_rows = (
        vars(search).get("loss", "squared") != "squared"
    )  # another solver than with NumPy, to its tolerance
    assert_same(found.intercept_, expected.intercept_, place, rtol=1e-4 if by_rows else 1e-6)
    assert Place.of(found.best_estimator_.factors_.U) == place
    if search.threshold == "auto":
        assert float(found.threshold_) == pytest.approx(float(expected.threshold_), rel=1e-5)


@on_devices
@pytest.mark.parametrize("search", [LRMLCV(kernel="rbf"), LRMLCV()], ids=["kernel", "linear"])
def test_a_search_on_a_device_by_name_brings_its_model_home(search, data, place):
    X, Y, _ = data
    expected = clone(search).set_params(random_state=0).fit(X, Y)
    found = clone(search).set_params(random_state=0, device=place).fit(sp.csr_array(X), sp.csr_array(Y))
    same_choice(found, expected)
    assert_same(found.intercept_, expected.intercept_, HOST, rtol=1e-6)
    assert found.best_estimator_.device == place


@on_devices
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_leave_one_out_scores_on_a_device_are_those_of_refitting(kernel, data, place):
    X, Y, _ = data
    model = MLFro(0.5, kernel=kernel, gamma=0.1) if kernel != "linear" else MLFro(0.5)
    rows = [0, 7, 11, 40]
    refitted = [
        clone(model).fit(np.delete(X, row, 0), np.delete(Y, row, 0)).decision_function(X[[row]])[0]
        for row in rows
    ]
    with dispatching():
        scores = model.leave_one_out_scores(put(place, X), put(place, Y))
    assert Place.of(scores) == place
    assert_same(place.xp.take(scores, put(place, np.array(rows)), axis=0), refitted, place, rtol=1e-8)


# Paths


@on_devices
@pytest.mark.parametrize("by_name", [False, True])
def test_paths_on_a_device(by_name, data, place):
    X, Y, weights = data
    grid = {"thetas": [0, 2], "n_alphas": 3, "ridges": [0.1], "sample_weight": weights}
    expected = lrml_path(X, Y, **grid)
    coefs, intercepts = ml_fro_path(X, Y, [0.1, 1.0])
    if by_name:
        home, rows = HOST, X
        found = lrml_path(X, Y, **grid, device=place)
        ridges = ml_fro_path(X, Y, [0.1, 1.0], device=place)
    else:
        home, rows = place, put(place, X)
        with dispatching():
            found = lrml_path(rows, put(place, Y), **grid | {"sample_weight": put(place, weights)})
            ridges = ml_fro_path(rows, put(place, Y), [0.1, 1.0])
            assert alpha_max(rows, put(place, Y), 1) == pytest.approx(alpha_max(X, Y, 1), rel=1e-9)
    for one, other in zip(found, expected, strict=True):
        assert one.objective == pytest.approx(other.objective, rel=1e-9)
        assert one.residual == pytest.approx(other.residual, abs=1e-6)
        assert (one.rank, one.nbytes) == (other.rank, other.nbytes)
        for name in ("coef", "intercept", "singular_values"):
            assert_same(getattr(one, name), getattr(other, name), home, rtol=1e-6)
    with dispatching():
        scores = found[-1].decision_function(rows)
    assert_same(scores, expected[-1].decision_function(X), home, rtol=1e-6)
    assert_same(ridges.coefs, coefs, home)
    assert_same(ridges.intercepts, intercepts, home)
