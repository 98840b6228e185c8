"""Models on a device come home: copies, files, pickles and graphs hold NumPy arrays."""

import copy
import dataclasses
import pickle

import numpy as np
import pytest
import skops.io
from sklearn.base import BaseEstimator, clone

import lrml
from lrml.core.arrays import Place
from lrml.estimators import Fitted
from lrml.storage import SKOPS_TRUSTED_TYPES
from namespaces import moved, places
from storage.model_makers import MEMBERS, X_NEW, X, Y, assert_equal, scores

DEVICE = pytest.mark.parametrize(
    "place", places("strict-device1", "torch-cpu", "torch-cuda", "cupy-cuda"), indirect=True
)
NAMES = ["LRML", "LRML rbf", "LRML logistic", "MLFro cut", "LEML", "CPLST", "LRMLCV several"]


def on_device(place, model):
    """A copy of a fitted model with all its arrays elsewhere, as if it had been fitted there."""
    twin = copy.copy(model)
    for name, value in vars(model).items():
        if isinstance(value, BaseEstimator):
            setattr(twin, name, on_device(place, value))
        elif name == "best_estimators_":
            setattr(twin, name, {key: on_device(place, one) for key, one in value.items()})
        elif name == "fitted_":
            names = ("factors", "intercept", "unseen", "X_fit", "cut")
            parts = {part: moved(place, getattr(value, part)) for part in names}
            twin.fitted_ = dataclasses.replace(value, **parts)
    return twin


def assert_all_at_home(value, path="model"):
    """No array of another library, however deep."""
    assert Place.of(value).is_host, path
    if isinstance(value, BaseEstimator | Fitted):
        value = vars(value)
    if isinstance(value, dict):
        for name, one in value.items():
            assert_all_at_home(one, f"{path}.{name}")
    elif isinstance(value, list | tuple):
        for index, one in enumerate(value):
            assert_all_at_home(one, f"{path}[{index}]")


def through_skops(model, _):
    return skops.io.loads(skops.io.dumps(model), trusted=SKOPS_TRUSTED_TYPES)


def through_a_file(model, path):
    lrml.save(model, path)
    return lrml.load(path)


WAYS = {
    "to_numpy": lambda model, _: model.to_numpy(),
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "save": through_a_file,
    "skops": through_skops,
}


@DEVICE
@pytest.mark.parametrize("name", NAMES)
def test_every_way_home_gives_the_model_of_numpy(place, name, tmp_path):
    expected = clone(MEMBERS[name]).fit(X, Y)
    model = on_device(place, expected)
    before = dict(vars(model))
    for way, bring in WAYS.items():
        if way == "skops" and name != "LRML":  # the slowest, and one does
            continue
        found = bring(model, tmp_path / "model.lrml")
        assert type(found) is type(model)
        assert_all_at_home(found, way)
        np.testing.assert_array_equal(scores(found), scores(expected))
        for attribute in ("factors_", "intercept_", "unseen_labels_", "singular_values_"):
            assert_equal(getattr(found, attribute), getattr(expected, attribute), f"{way}: {attribute}")
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[key] is value for key, value in before.items())  # it stays where it is


def test_a_model_of_a_device_that_is_not_here_is_kept_and_used(tmp_path):
    """The parameter matters to fit only, which says what is missing."""
    model = lrml.LRML(1, 2.0).fit(X, Y).set_params(device="cuda:77")
    for way in ("to_numpy", "pickle", "save"):
        found = WAYS[way](model, tmp_path / "model.lrml")
        assert found.device == "cuda:77"
        np.testing.assert_array_equal(found.decision_function(X_NEW), model.decision_function(X_NEW))
        with pytest.raises(ValueError, match="device"):
            found.fit(X, Y)


def test_pickling_and_copying_leave_the_model_as_it_was():
    """The sums for partial_fit too, which neither takes along."""
    model = lrml.LRML(1, 2.0).fit(X[:40], Y[:40])
    pickle.dumps(model), copy.copy(model), model.to_numpy()
    model.partial_fit(X[40:], Y[40:])
    assert model.statistics_.n_rows == 60
