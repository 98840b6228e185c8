"""Other losses and unknown labels where X lives: the models of NumPy; without a penalty, scikit-learn's."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression

from lrml import LRML, MLFro, MLTrace
from lrml.core.arrays import HOST, to_numpy
from namespaces import assert_same, dispatching, places, put

on_devices = pytest.mark.parametrize("place", [p for p in places() if p.id != "numpy"], indirect=True)
MODELS = [
    LRML(loss="logistic"),
    LRML(2, 2.0, ridge=0.1, loss="squared_hinge", fit_intercept=False, tol=1e-6),
    LRML(2, 2.0, ridge=0.0, loss="logistic", tol=1e-3),  # nothing limits the free values: two fits
    MLTrace(2.0, loss="logistic", tol=1e-6),
    LRML(2, 2.0, tol=1e-6),
]


@pytest.fixture(scope="module")
def data():
    """Features off centre, labels (one that no example has), weights, and the labels with gaps."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 8)) * np.geomspace(1, 0.3, 8) + rng.standard_normal(8)
    scores = X @ rng.standard_normal((8, 3)) @ rng.standard_normal((3, 5))
    Y = (scores + 2 * rng.standard_normal(scores.shape) > np.median(scores, axis=0)).astype(float)
    Y[:, 2] = 0
    return X, Y, rng.uniform(0.2, 2.0, 60), np.where(rng.random(Y.shape) < 0.2, np.nan, Y)


@on_devices
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_model_is_that_of_numpy_and_stays_there(model, data, place):
    X, Y, weights, gappy = data
    Y = gappy if model.loss == "squared" else Y.astype(np.int64)
    expected = clone(model).fit(X, Y, weights)
    with dispatching():
        found = clone(model).fit(*(put(place, part) for part in (X, Y, weights)))
    single = model.tol is None or model.tol >= 1e-5
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-6 if single else 1e-9)
    assert (found.rank_, found.n_iter_, found.status_) == (expected.rank_, expected.n_iter_, expected.status_)
    for name in ("coef_", "intercept_", "singular_values_"):
        assert_same(getattr(found, name), getattr(expected, name), place, rtol=1e-3 if single else 1e-6)
    assert_same(found.unseen_labels_, expected.unseen_labels_, place, dtype="bool")
    if isinstance(model, MLTrace):
        assert found.gap_ == pytest.approx(expected.gap_, rel=1e-4)


@on_devices
def test_more_features_than_rows_and_a_second_fit_from_the_first(data, place):
    X, Y, _, _ = data
    X, Y = np.random.default_rng(1).standard_normal((20, 30)), Y[:20]
    model = LRML(1, 1.0, ridge=0.5, loss="logistic", tol=1e-6, warm_start=True)
    expected = clone(model).fit(X, Y)
    with dispatching():
        found = clone(model).fit(put(place, X), put(place, Y))
        assert_same(found.coef_, expected.coef_, place, rtol=1e-6)
        found.fit(put(place, X), put(place, Y))
    assert found.n_iter_ < expected.n_iter_
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-6)


@on_devices
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
def test_without_a_penalty_it_is_logistic_regression(fit_intercept, data, place):
    X, Y, weights, _ = data
    model = MLFro(0.7, loss="logistic", fit_intercept=fit_intercept, tol=1e-14)
    with dispatching():
        model.fit(*(put(place, part) for part in (X, Y, weights)))
    coef, intercept = to_numpy(model.coef_), to_numpy(model.intercept_)
    for label in (0, 1, 3, 4):
        one = LogisticRegression(C=1 / 1.4, tol=1e-12, solver="newton-cholesky", fit_intercept=fit_intercept)
        one.fit(X, Y[:, label], sample_weight=weights)
        np.testing.assert_allclose(coef[label], one.coef_[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(intercept[label], one.intercept_, rtol=1e-5, atol=1e-6)


@on_devices
@pytest.mark.parametrize("loss", ["logistic", "squared"])
def test_numpy_rows_go_to_a_device_by_name_and_the_model_comes_back(loss, data, place):
    X, Y, weights, gappy = data
    Y = gappy if loss == "squared" else Y
    model = LRML(2, 2.0, ridge=0.1, loss=loss, tol=1e-6)
    expected, found = clone(model), clone(model).set_params(device=place)
    for each in (expected, found):
        each.fit(X, Y, weights)
    assert_same(found.coef_, expected.coef_, HOST, rtol=1e-6)
    assert_same(found.intercept_, expected.intercept_, HOST, rtol=1e-6)


@on_devices
@pytest.mark.parametrize("values", [0.0, 1.0])
def test_labels_of_one_kind_need_no_coefficients(values, data, place):
    X, Y, _, _ = data
    Y = np.full_like(Y, values)
    expected = LRML(loss="logistic").fit(X, Y)
    with dispatching():
        found = LRML(loss="logistic").fit(put(place, X), put(place, Y))
    assert found.rank_ == 0
    assert_same(found.intercept_, expected.intercept_, place)


@on_devices
def test_single_precision_gives_a_model_of_single_precision(data, place):
    X, Y, weights, _ = data
    model = LRML(2, 2.0, ridge=0.1, loss="logistic")
    expected = clone(model).fit(X.astype(np.float32), Y, weights)
    with dispatching():
        found = clone(model).fit(put(place, X.astype(np.float32)), put(place, Y), put(place, weights))
    assert_same(found.coef_, expected.coef_, place, dtype="float32", rtol=1e-4)
    assert_same(found.intercept_, expected.intercept_, place, dtype="float32", rtol=1e-4)
