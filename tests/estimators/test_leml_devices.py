"""LEML in every namespace and on every device: the same path to the same model, and no hidden copy."""

import numpy as np
import pytest

from lrml import LEML, LEMLCV
from lrml.core.arrays import Place, to_numpy
from namespaces import assert_same, dispatching, places, put

N, D, L = 60, 8, 6
RNG = np.random.default_rng(0)
X = RNG.standard_normal((N, D)) + 1.0
SCORES = X @ RNG.standard_normal((D, 3)) @ RNG.standard_normal((3, L)) + RNG.standard_normal((N, L))
Y = (SCORES > 1.0).astype(np.float64)
Y[:, 1], Y[:, 4] = 0.0, 1.0  # a label that no example has, and one that all have
PARTLY = np.where(RNG.random((N, L)) < 0.3, np.nan, Y)
WEIGHTS = RNG.uniform(0.5, 2.0, N)
DEVICES = pytest.mark.parametrize("place", places("strict-device1", "torch-cpu", "torch-cuda"), indirect=True)


def fitted(place, model, X=X, Y=Y, weights=WEIGHTS):
    with dispatching():
        return model.fit(put(place, X), put(place, Y), sample_weight=put(place, weights))


def assert_same_model(model, reference, place, dtype="float64", rtol=1e-6):
    """Also the path: as many steps, each to the same objective. A small tol asks for double precision."""
    assert model.objective_ == pytest.approx(reference.objective_, rel=1e-8)
    assert model.n_iter_ == reference.n_iter_
    np.testing.assert_allclose(model.history_["objective"], reference.history_["objective"], rtol=1e-6)
    assert model.ridge_ == pytest.approx(reference.ridge_, rel=1e-9)
    assert_same(model.singular_values_, reference.singular_values_, place, dtype, rtol)
    assert_same(model.intercept_, reference.intercept_, place, dtype, rtol)
    assert_same(model.coef_, reference.coef_, place, dtype, rtol)
    assert_same(model.unseen_labels_, reference.unseen_labels_, place, "bool")
    for factor, expected in zip(model.factors_, reference.factors_, strict=True):
        assert Place.of(factor) == place
        np.testing.assert_allclose(np.abs(to_numpy(factor)), np.abs(expected), atol=100 * rtol)


@DEVICES
@pytest.mark.parametrize("labels", [Y, PARTLY], ids=["known", "partly"])
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
@pytest.mark.parametrize("penalty", [{"alpha": 2.0, "ridge": 0.5}, {"fit_intercept": False}], ids=str)
def test_a_device_takes_numpys_path(place, labels, loss, penalty):
    options = {"rank": 3, "loss": loss, "tol": 1e-7} | penalty
    reference = LEML(**options).fit(X, labels, sample_weight=WEIGHTS)
    assert_same_model(fitted(place, LEML(**options), Y=labels), reference, place)


@DEVICES
@pytest.mark.parametrize("options", [{"alpha": 2.0}, {"loss": "logistic"}], ids=str)
def test_warm_starts_of_another_rank(place, options):
    models = [LEML(2, **options, tol=1e-7, warm_start=True) for _ in range(2)]
    for rank in (2, 4, 1):
        reference = models[0].set_params(rank=rank).fit(X, Y, sample_weight=WEIGHTS)
        assert_same_model(fitted(place, models[1].set_params(rank=rank)), reference, place)


@DEVICES
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_single_precision_in_and_out(place, loss):
    options = {"rank": 3, "alpha": 1.0, "loss": loss, "tol": 1e-7}
    reference = LEML(**options).fit(X.astype(np.float32), Y, sample_weight=WEIGHTS)
    model = fitted(place, LEML(**options), X.astype(np.float32))
    assert_same_model(model, reference, place, "float32", rtol=1e-5)


@DEVICES
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_penalty_that_leaves_nothing(place, loss):
    options = {"alpha": 1e6, "loss": loss, "tol": 1e-7}
    reference = LEML(2, **options).fit(X, Y, sample_weight=WEIGHTS)
    assert reference.rank_ == 0
    assert_same_model(fitted(place, LEML(2, **options)), reference, place)


@DEVICES
def test_nothing_to_learn(place):
    reference = LEML(2, loss="logistic").fit(X, Y[:, [1, 4]])
    assert_same_model(fitted(place, LEML(2, loss="logistic"), Y=Y[:, [1, 4]]), reference, place)


@DEVICES
@pytest.mark.parametrize("options", [{}, {"loss": "logistic", "cv": 2, "tol": 1e-7}], ids=str)
def test_search_chooses_the_same(place, options):
    options = {
        "ranks": [1, 3],
        "ridges": [1.0, 30.0],
        "random_state": 0,
        "scoring": "average_precision",
    } | options
    reference = LEMLCV(**options).fit(X, Y, sample_weight=WEIGHTS)
    search = fitted(place, LEMLCV(**options))
    assert search.best_params_ == reference.best_params_
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], reference.cv_results_["mean_test_score"], rtol=1e-6
    )
    assert_same(search.coef_, reference.coef_, place, rtol=1e-6)
