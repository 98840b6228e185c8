"""Answers of models on a device: those of the same model in NumPy, and arrays where X is."""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from lrml import LRML
from lrml.estimators import _fitted
from namespaces import assert_same, dispatching, place_named, places, put

elsewhere = pytest.mark.parametrize("place", [p for p in places() if p.id != "numpy"], indirect=True)


def moved(model, place):
    """A copy of a fitted model whose arrays of numbers live elsewhere, as after a fit of such arrays."""
    twin, fitted = copy(model), model.fitted_
    arrays = {
        name: put(place, getattr(fitted, name))
        for name in ("intercept", "unseen", "X_fit", "cut")
        if isinstance(getattr(fitted, name), np.ndarray)
    }
    factors = type(fitted.factors)(*(put(place, part) for part in fitted.factors))
    twin.fitted_ = replace(fitted, factors=factors, **arrays)
    return twin


@pytest.fixture(scope="module")
def data():
    """Rows, labels and further rows; the last label has no example."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((80, 9))
    Y = (X[:, :6] @ rng.standard_normal((6, 7)) > 1.0).astype(np.int64)
    Y[:, -1] = 0
    return X[:50], Y[:50], X[50:], Y[50:]


@elsewhere
@pytest.mark.parametrize("kind", ["coefficients", "factors", "float32", "rbf", "logistic", "sparse Y"])
def test_answers_are_those_of_numpy_and_stay_there(kind, data, place, monkeypatch):
    X, Y, X_new, _ = data
    if kind == "factors":
        monkeypatch.setattr(_fitted, "_MOST_COEFFICIENTS", 0)
    options = {"rbf": {"kernel": "rbf"}, "logistic": {"loss": "logistic", "ridge": 0.1}}.get(kind, {})
    dtype = "float32" if kind == "float32" else "float64"
    Y = sp.csr_array(Y) if kind == "sparse Y" else Y
    model, X_new = LRML(1, 30.0, **options).fit(X.astype(dtype), Y), X_new.astype(dtype)
    twin, rows, rtol = moved(model, place), put(place, X_new), 1e-5 if dtype == "float32" else 1e-12
    decisions = model.predict(X_new)
    cuts = np.linspace(0.1, 0.6, 7)
    with dispatching():
        assert_same(twin.decision_function(rows), model.decision_function(X_new), place, dtype, rtol)
        found = twin.predict(rows)
        assert_same(found, decisions.toarray() if kind == "sparse Y" else decisions, place, "int64")
        if kind == "logistic":
            assert_same(twin.predict_proba(rows), model.predict_proba(X_new), place, rtol=rtol)
        for k in (None, 1, 7):
            best, expected = twin.predict_top_k(rows, k), model.predict_top_k(X_new, k)
            assert_same(best.labels, expected.labels, place, "int64")
            assert_same(best.scores, expected.scores, place, dtype, rtol)
        assert np.all(expected.labels[:, -1] == 6)  # the label without an example is last
        twin.threshold = put(place, cuts)
        expected = (model.decision_function(X_new) >= cuts).astype(int)
        assert_same(twin.predict(rows), expected, place, "int64")
    name = "dual_coef_" if kind == "rbf" else "coef_"
    assert_same(
        getattr(twin, name), getattr(model, name), place, dtype if name == "coef_" else "float64", rtol
    )
    assert twin.nbytes_ == model.nbytes_


@elsewhere
def test_blocks_of_rows_and_labels_are_put_together(data, place, monkeypatch):
    X, Y, X_new, _ = data
    model = LRML(1, 30.0).fit(X, Y)
    monkeypatch.setattr(_fitted, "_MOST_COEFFICIENTS", 0)  # the factors, which may come in blocks of labels
    twin, there = moved(model, place), put(place, X_new)
    for size, least in ((3 * 7, 1), (8 * 2, 8)):  # whole rows; then two labels at a time
        monkeypatch.setattr(_fitted, "_DEVICE_BLOCK_SCORES", size)
        monkeypatch.setattr(_fitted, "_LEAST_ROWS", least)
        with dispatching():
            assert_same(twin.decision_function(there), model.decision_function(X_new), place, rtol=1e-12)
            for k in (1, 3, 7):
                found, expected = twin.predict_top_k(there, k), model.predict_top_k(X_new, k)
                assert_same(found.labels, expected.labels, place, dtype="int64")
                assert_same(found.scores, expected.scores, place, rtol=1e-12)


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_top_k"])
def test_x_and_model_in_different_places(data, method):
    X, Y, X_new, _ = data
    place, other = place_named("strict-device1"), place_named("strict-cpu")
    model = LRML(2, 1.0).fit(X, Y)
    for asked, rows, where in (
        (moved(model, place), X_new, "numpy.*device1"),
        (moved(model, place), sp.csr_array(X_new), "numpy.*device1"),
        (moved(model, place), put(other, X_new), "CPU_DEVICE.*device1"),
        (model, put(place, X_new), "device1.*numpy"),
    ):
        with dispatching(), pytest.raises(ValueError, match=f"^X .*{where}"):
            getattr(asked, method)(rows)
