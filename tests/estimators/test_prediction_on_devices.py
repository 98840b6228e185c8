"""Answers of models on a device: those of the same model in NumPy, and arrays where X is."""

from __future__ import annotations

import warnings
from copy import copy
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from lrml import LRML, MLFro
from lrml.estimators import _fitted
from lrml.metrics import precision_at_k
from lrml.solvers import Factors
from namespaces import assert_same, dispatching, place_named, places, put

elsewhere = pytest.mark.parametrize(
    "place", places("strict-device1", "torch-cpu", "torch-cuda", "cupy-cuda"), indirect=True
)


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


@pytest.fixture(params=["coefficients", "factors", "float32", "rbf"])
def models(request, data, place, monkeypatch):
    """A model in NumPy, the same one elsewhere, and rows to predict, of either precision."""
    X, Y, X_new, _ = data
    if request.param == "rbf":
        model = LRML(2, 1.0, kernel="rbf").fit(X, Y)
    else:
        kind = np.float32 if request.param == "float32" else np.float64
        model = LRML(1, 30.0).fit(X.astype(kind), Y)
        X_new = X_new.astype(kind)
    if request.param == "factors":
        monkeypatch.setattr(_fitted, "_MOST_COEFFICIENTS", 0)
    return model, moved(model, place), X_new


@elsewhere
def test_scores_and_decisions(models, place):
    model, twin, X = models
    kind = X.dtype.name
    with dispatching():
        scores = twin.decision_function(put(place, X))
        assert_same(
            scores, model.decision_function(X), place, dtype=kind, rtol=1e-6 if kind == "float32" else 1e-12
        )
        assert_same(twin.predict(put(place, X)), model.predict(X), place, dtype="int64")
        twin.threshold = put(place, np.linspace(0.1, 0.6, 7))
        expected = (model.decision_function(X) >= np.linspace(0.1, 0.6, 7)).astype(int)
        assert_same(twin.predict(put(place, X)), expected, place, dtype="int64")


@elsewhere
@pytest.mark.parametrize("k", [None, 1, 7])
def test_best_labels(models, place, k):
    model, twin, X = models
    kind = X.dtype.name
    expected = model.predict_top_k(X, k)
    with dispatching():
        found = twin.predict_top_k(put(place, X), k)
    assert_same(found.labels, expected.labels, place, dtype="int64")
    assert_same(found.scores, expected.scores, place, dtype=kind, rtol=1e-5 if kind == "float32" else 1e-12)
    if k == 7:
        assert np.all(expected.labels[:, -1] == 6)  # the label without an example is last


@elsewhere
def test_blocks_of_rows_and_labels_are_put_together(data, place, monkeypatch):
    X, Y, X_new, _ = data
    model = LRML(1, 30.0).fit(X, Y)
    monkeypatch.setattr(_fitted, "_MOST_COEFFICIENTS", 0)  # the factors, which may come in blocks of labels
    twin, there = moved(model, place), put(place, X_new)
    monkeypatch.setattr(_fitted, "_LEAST_ROWS", 8)
    for size in (3 * 7, 8 * 2):  # whole rows; then two labels at a time
        monkeypatch.setattr(_fitted, "_DEVICE_BLOCK_SCORES", size)
        monkeypatch.setattr(_fitted, "_LEAST_ROWS", 1 if size == 21 else 8)
        with dispatching():
            assert_same(twin.decision_function(there), model.decision_function(X_new), place, rtol=1e-12)
            for k in (1, 3, 7):
                found, expected = twin.predict_top_k(there, k), model.predict_top_k(X_new, k)
                assert_same(found.labels, expected.labels, place, dtype="int64")
                assert_same(found.scores, expected.scores, place, rtol=1e-12)


@elsewhere
def test_ties_go_to_the_first_label(place):
    X, Y = np.eye(4), np.eye(4, dtype=int)[:, [0, 1, 2, 3, 0, 1]]  # of full rank: no factors
    model = MLFro(1.0, fit_intercept=False).fit(X, Y)
    scores = np.tile([0.0, 1.0, -0.0, 1.0, -2.0, 0.0], (4, 1))
    eye, zeros = np.eye(4), np.zeros(6)
    model.fitted_ = replace(model.fitted_, factors=Factors(eye, np.ones(4), scores.T.copy()), intercept=zeros)
    with dispatching():
        found = moved(model, place).predict_top_k(put(place, X), 6)
        np.testing.assert_array_equal(model.decision_function(X), scores)
    assert_same(found.labels, np.tile([1, 3, 0, 2, 5, 4], (4, 1)), place, dtype="int64")


@elsewhere
def test_names_are_on_the_host_and_scores_are_not(data, place):
    pd = pytest.importorskip("pandas")
    X, Y, X_new, Y_new = data
    model = LRML(2, 1.0).fit(X, pd.DataFrame(Y, columns=list("abcdefg")))
    expected = model.predict_top_k(X_new, 3)
    with dispatching():
        found = moved(model, place).predict_top_k(put(place, X_new), 3)
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert_same(found.scores, expected.scores, place, rtol=1e-12)
    precision = precision_at_k(put(place, Y_new), found, 2, per_example=True)
    assert_same(precision, precision_at_k(Y_new, expected, 2, per_example=True), place)


@elsewhere
@pytest.mark.parametrize("classes", [[0, 1], [3, 8], ["no", "yes"]], ids=str)
def test_one_label_in_1d(data, place, classes):
    X, Y, X_new, Y_new = data
    y, y_new = (np.asarray(classes)[labels[:, 0]] for labels in (Y, Y_new))
    model = LRML(1, 0.1, threshold=0.4).fit(X, y)
    twin = moved(model, place)
    with dispatching():
        assert_same(twin.decision_function(put(place, X_new)), model.decision_function(X_new), place)
        found = twin.predict(put(place, X_new))
        assert twin.score(put(place, X_new), y_new) == model.score(X_new, y_new)
    if isinstance(classes[0], str):
        np.testing.assert_array_equal(found, model.predict(X_new))
    else:
        assert_same(found, model.predict(X_new), place, dtype="int64")


@elsewhere
@pytest.mark.parametrize("here", [True, False], ids=["labels there", "labels of NumPy"])
def test_score(data, place, here):
    X, Y, X_new, Y_new = data
    model, weights = LRML(2, 1.0).fit(X, Y), np.linspace(0, 1, 30)
    twin, there = moved(model, place), put(place, X_new)
    unknown = Y_new.astype(float)
    unknown[::3, 2] = np.nan

    def given(array):
        return put(place, array) if here else array

    with dispatching():
        for labels in (Y_new, unknown):
            found = twin.score(there, given(labels)), twin.score(there, given(labels), given(weights))
            expected = model.score(X_new, labels), model.score(X_new, labels, weights)
            assert found == pytest.approx(expected, rel=1e-12)


@elsewhere
def test_r_squared(data, place):
    X, _, X_new, _ = data
    model = MLFro(0.1, targets="real").fit(X, X[:, :3] ** 2)
    target = X_new[:, :3] ** 2
    with dispatching():
        found = moved(model, place).score(put(place, X_new), put(place, target))
        assert_same(moved(model, place).predict(put(place, X_new)), model.predict(X_new), place)
    assert found == pytest.approx(model.score(X_new, target), rel=1e-10)


@elsewhere
def test_a_sparse_y_makes_answers_on_a_device_no_sparser(data, place):
    X, Y, X_new, _ = data
    model = LRML(2, 1.0).fit(X, sp.csr_array(Y))
    with dispatching():
        found = moved(model, place).predict(put(place, X_new))
    assert_same(found, model.predict(X_new).toarray(), place, dtype="int64")


@elsewhere
def test_coefficients_are_made_there(data, place):
    X, Y, _, _ = data
    model = LRML(2, 1.0).fit(X, Y)
    twin = moved(model, place)
    assert_same(twin.coef_, model.coef_, place, rtol=1e-12)
    kernel = LRML(2, 1.0, kernel="rbf").fit(X, Y)
    assert_same(moved(kernel, place).dual_coef_, kernel.dual_coef_, place, rtol=1e-12)
    assert twin.nbytes_ == model.nbytes_


@pytest.mark.parametrize("method", ["predict", "decision_function", "predict_top_k"])
def test_x_and_model_in_different_places(data, method):
    X, Y, X_new, _ = data
    place, other = place_named("strict-device1"), place_named("strict-cpu")
    model = LRML(2, 1.0).fit(X, Y)
    cases = [
        (moved(model, place), X_new, r"got X with numpy and a model with .*device1.*to_numpy\(\) for NumPy"),
        (moved(model, place), sp.csr_array(X_new), r"got X with numpy and a model with .*device1"),
        (moved(model, place), put(other, X_new), r"got X with .*CPU_DEVICE.* and a model with .*device1"),
        (model, put(place, X_new), r"got X with .*device1.* and a model with numpy\. Move X\."),
    ]
    for asked, rows, words in cases:
        with dispatching(), pytest.raises(ValueError, match=f"^X must live where the model does, {words}"):
            getattr(asked, method)(rows)


def test_nothing_but_answers_is_made(data):
    """With the strict library, a hidden copy to the host raises; warnings are errors."""
    X, Y, X_new, _ = data
    place = place_named("strict-device1")
    with dispatching(), warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LRML(2, 1.0).fit(put(place, X), put(place, Y))
        found = model.decision_function(put(place, X_new))
    assert_same(found, LRML(2, 1.0).fit(X, Y).decision_function(X_new), place, rtol=1e-6)


@elsewhere
@pytest.mark.parametrize("flat", [False, True], ids=["matrix", "1-D"])
def test_probabilities(data, place, flat):
    X, Y, X_new, _ = data
    model = MLFro(0.1, loss="logistic").fit(X, Y[:, 0] if flat else Y)
    with dispatching():
        found = moved(model, place).predict_proba(put(place, X_new))
    assert_same(found, model.predict_proba(X_new), place, rtol=1e-12)


@elsewhere
@pytest.mark.parametrize("flat", [False, True], ids=["matrix", "1-D"])
def test_leave_one_out_scores(data, place, flat):
    X, Y, _, _ = data
    y = Y[:, 0] if flat else Y
    expected = LRML(1, 3.0).leave_one_out_scores(X, y)
    with dispatching():
        found = LRML(1, 3.0).leave_one_out_scores(put(place, X), put(place, y))
    assert_same(found, expected, place, rtol=1e-6)
    home = LRML(1, 3.0, device=place).leave_one_out_scores(X, y)
    np.testing.assert_allclose(home, expected, rtol=0, atol=1e-6)
