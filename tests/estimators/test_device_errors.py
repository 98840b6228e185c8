"""Errors on devices name place and value, and leave the estimator as it was; tensors of all kinds."""

from __future__ import annotations

from contextlib import nullcontext
from copy import deepcopy

import numpy as np
import pytest

from lrml import LRML, MLFro, SpectralRegressor, lrml_path
from lrml.core.arrays import HOST
from lrml.metrics import label_propensities, label_ranking_average_precision
from namespaces import assert_same, dispatching, place_named, put


@pytest.fixture(scope="module")
def data():
    """Rows, labels, of which one has no example, and weights."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 12)) * np.geomspace(3, 1, 12) + 0.5
    Y = (X[:, :8] @ rng.standard_normal((8, 5)) > 1.0).astype(np.int64)
    Y[:, -1] = 0
    return X, Y, rng.uniform(0.5, 2.0, 60)


def refused(model, error, shown, *given, dispatch=True, **more):
    before = dict(vars(model))
    with pytest.raises(error) as caught, dispatching() if dispatch else nullcontext():
        model.fit(*given, **more)
    assert vars(model) == before
    for part in (shown,) if isinstance(shown, str) else shown:
        assert part in str(caught.value)
    assert len(str(caught.value)) < 400  # torch lists all its backends


def test_kernels_that_a_device_cannot_compute(data):
    X, Y, _ = data
    place = place_named("strict-device1")
    refusals = [("function", np.dot, X), ("chi2", "chi2", X), ("inf", "poly", 1e120 * X)]
    for shown, kernel, rows in refusals:
        refused(LRML(1, 1.0, kernel=kernel, gamma=1.0), ValueError, shown, put(place, rows), put(place, Y))


@pytest.mark.parametrize("name", ["Y", "sample_weight", "observed"])
@pytest.mark.parametrize("home", ["numpy", "strict-device1"])
def test_x_and_what_belongs_to_it_in_different_places(home, name, data):
    X, Y, weights = data
    here, other = place_named(home), place_named("strict-cpu")
    given = {"Y": Y, "sample_weight": weights, "observed": Y >= 0}
    given = {key: put(other if key == name else here, value) for key, value in given.items()}
    labels, X = given.pop("Y"), put(here, X)
    refused(LRML(), ValueError, (name, str(here), "CPU_DEVICE"), X, labels, **given)
    with dispatching():
        model = MLFro(0.5).fit(X, put(here, Y))
        with pytest.raises(ValueError, match=name):
            model.score(X, labels, **given)


def test_places_that_will_not_do(data):
    X, Y, _ = data
    here, other = place_named("strict-device1"), place_named("strict-cpu")
    rows = put(here, X), put(here, Y)
    refused(LRML(device=other), ValueError, "device", *rows)
    refused(LRML(device="cpu"), ValueError, ("device", "device1", "numpy"), *rows)
    refused(LRML(), TypeError, ("device1", "array_api_dispatch=True"), rows[0], Y, dispatch=False)
    refused(LRML(solver="compressed"), ValueError, "host", *rows)


@pytest.mark.parametrize("where", ["coordinates_of", "record"])
def test_a_device_without_memory(where, data, monkeypatch):
    class OutOfMemoryError(RuntimeError):
        """As torch's."""

    def fail(*args, **kwargs):
        raise OutOfMemoryError("Tried to allocate 99 GiB")

    X, Y, _ = data
    place = place_named("strict-device1")
    monkeypatch.setattr(f"lrml.estimators._fit.{where}", fail)
    refused(LRML(2, 3.0), MemoryError, "60 rows, 12 features and 5 labels", put(place, X), put(place, Y))
    with pytest.raises(OutOfMemoryError):  # on the host, errors are as they are
        LRML(2, 3.0).fit(X, Y)


def test_wrong_numbers_on_a_device(data):
    place, (X, Y, _) = place_named("strict-device1"), data
    rows = put(place, X)
    for labels, shown in ((np.full((60, 5), 0.5), "0 and 1"), (np.zeros((59, 5)), "59")):
        refused(LRML(), ValueError, ("Y", shown), rows, put(place, labels))
    real = np.where(np.eye(60, 5), np.inf, Y).astype(np.float32)
    refused(SpectralRegressor(), ValueError, "inf", rows, put(place, real))
    for weights in (np.zeros(60), np.full(60, np.nan)):
        refused(LRML(), ValueError, "sample_weight", rows, put(place, Y), put(place, weights))


# Tensors


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


def test_tensors_with_gradients_give_a_model_without(torch, data):
    X, Y, weights = data
    expected = MLFro(0.5).fit(X, Y, weights)
    given = [torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in (X, Y, weights)]
    with dispatching():
        found, kernel = MLFro(0.5).fit(*given), MLFro(0.5, kernel="rbf").fit(*given)
        assert found.score(*given) == pytest.approx(expected.score(X, Y, weights))
        assert not found.decision_function(given[0]).requires_grad
        assert label_ranking_average_precision(
            given[1][:-1], given[0][:-1, :5]
        ) == label_ranking_average_precision(Y[:-1], X[:-1, :5])
    fitted = found.coef_, found.intercept_, kernel.X_fit_, deepcopy(found).coef_
    assert not any(array.requires_grad for array in fitted)
    assert_same(found.coef_, expected.coef_, place_named("torch-cpu"))
    # Without dispatch they are NumPy's, as other tensors on the CPU are in scikit-learn.
    assert_same(MLFro(0.5).fit(*given).coef_, expected.coef_, HOST)
    assert_same(MLFro(0.5).partial_fit(*given[:2], sample_weight=given[2]).coef_, expected.coef_, HOST)
    rows = torch.tensor(X)
    with pytest.raises(ValueError, match="dispatch"):
        found.predict(rows)
    with pytest.raises(ValueError, match="numpy"):
        found.predict(X)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda tensor: tensor.to_sparse(), "to_dense()"),
        (lambda tensor: tensor.to("meta"), "'meta'"),
    ],
    ids=["sparse", "meta"],
)
@pytest.mark.parametrize("dispatch", [True, False])
def test_tensors_that_are_no_dense_arrays(torch, made, words, dispatch, data):
    X, Y, weights = (torch.tensor(array) for array in data)
    refused(LRML(), TypeError, ("X", words), made(X), Y, dispatch=dispatch)
    refused(LRML(), TypeError, ("Y", words), X, made(Y), dispatch=dispatch)
    refused(LRML(), TypeError, ("sample_weight", words), X, Y, made(weights), dispatch=dispatch)
    with dispatching() if dispatch else nullcontext():
        model = MLFro(0.5).fit(X, Y)
        for name, call in (
            ("X", lambda: model.predict(made(X))),
            ("Y", lambda: model.score(X, made(Y))),
            ("Y", lambda: label_ranking_average_precision(made(Y), X[:, :5])),
            ("S", lambda: label_ranking_average_precision(Y, made(X[:, :5]))),
            ("Y", lambda: label_propensities(made(Y))),
            ("X", lambda: lrml_path(X, Y, alphas=[3.0], thetas=[1])[0].decision_function(made(X))),
        ):
            with pytest.raises(TypeError, match=f"^{name} "):
                call()
