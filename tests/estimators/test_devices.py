"""Fits where X lives, or on a device by name: same models as NumPy, and errors that say what to do."""

from __future__ import annotations

import pickle
from contextlib import nullcontext
from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from lrml import CPLST, LEML, LRML, PLST, MLFro, MLFroCV, MLTrace, lrml_path
from lrml.blocks import BlockError
from lrml.core.arrays import HOST, Place
from lrml.core.moments import Statistics
from lrml.metrics import average_precision, label_propensities
from lrml.thresholds import Cut
from namespaces import assert_same, dispatching, place_named, places, put

MODELS = [
    LRML(2, 3.0),
    LRML("auto", 2.0, ridge=0.1),
    LRML(2, 3.0, fit_intercept=False),
    MLTrace(2.0),
    MLFro(0.5),
    CPLST(2),
    PLST(2, ridge=0.1),
]
DEVICES = [name.id for name in places() if name.id != "numpy"]
on_devices = pytest.mark.parametrize("place", places(*DEVICES), indirect=True)
FITTED = ("coef_", "intercept_", "singular_values_")


@pytest.fixture(scope="module")
def data():
    """More rows than features, and the reverse; the last label has no example."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 70)) * np.geomspace(3, 0.3, 70) + 0.5
    Y = (X[:, :8] @ rng.standard_normal((8, 5)) > 1.0).astype(np.int64)
    Y[:, -1] = 0
    weights = rng.uniform(0.5, 2.0, 60)
    weights[3] = 0.0
    return {"long": (X[:, :12], Y, weights), "wide": (X, Y, weights)}


@on_devices
@pytest.mark.parametrize("shape", ["long", "wide"])
@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_a_fit_of_device_arrays_is_that_of_numpy_and_stays_there(model, shape, data, place):
    X, Y, weights = data[shape]
    expected = clone(model).fit(X, Y, weights)
    with dispatching():
        found = clone(model).fit(put(place, X), put(place, Y), put(place, weights))
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    assert (found.rank_, found.n_iter_, found.status_) == (expected.rank_, expected.n_iter_, expected.status_)
    for name in FITTED:
        assert_same(getattr(found, name), getattr(expected, name), place, rtol=1e-6)
    assert_same(found.unseen_labels_, expected.unseen_labels_, place, dtype="bool")
    assert found.history_["objective"] == pytest.approx(expected.history_["objective"], rel=1e-9)


@on_devices
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("model", [LRML(2, 3.0), CPLST(2)], ids=repr)
def test_a_device_by_name_takes_numpy_and_gives_numpy_back(model, form, data, place):
    X, Y, weights = data["long"]
    X = X * (np.abs(X) > 0.8)  # so that there is something to leave out
    expected = clone(model).fit(X, Y, weights)
    found = clone(model).set_params(device=place).fit(form(X), form(Y), weights)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    for name in FITTED:
        assert_same(getattr(found, name), getattr(expected, name), HOST, rtol=1e-6)
    assert sp.issparse(found.predict(form(X))) == sp.issparse(form(X))


@on_devices
def test_single_precision_gives_a_model_of_single_precision(data, place):
    X, Y, _ = data["long"]
    expected = LRML(2, 3.0).fit(X.astype(np.float32), Y)
    with dispatching():
        found = LRML(2, 3.0).fit(put(place, X.astype(np.float32)), put(place, Y))
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)  # sums are in double precision
    assert_same(found.coef_, expected.coef_, place, dtype="float32", rtol=1e-6)


@on_devices
@pytest.mark.parametrize(
    "form",
    [
        lambda A: A[::-1][::-1],
        lambda A: A.astype(A.dtype.newbyteorder(">")),
        lambda A: A.astype(np.longdouble),
        lambda A: sp.csr_array(A.astype(np.uint16)),
    ],
    ids=["negative strides", "big endian", "long double", "unsigned"],
)
def test_labels_of_types_that_others_do_not_have(form, data, place):
    X, Y, _ = data["long"]
    expected = LRML(2, 3.0).fit(X, Y)
    flipped = X[::-1]
    by_name = LRML(2, 3.0, device=place).fit(flipped[::-1], form(Y))
    with dispatching():
        found = LRML(2, 3.0).fit(put(place, X), form(Y))
    for model in (by_name, found):
        assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)


@on_devices
def test_labels_of_numpy_follow_x_and_keep_their_names(data, place):
    pd = pytest.importorskip("pandas")
    X, Y, _ = data["long"]
    frame = pd.DataFrame(Y, columns=list("abcde"))
    with dispatching():
        found = LRML(2, 3.0).fit(put(place, X), frame)
        flat = LRML(1, 3.0).fit(put(place, X), np.where(Y[:, 0], "yes", "no"))
    assert list(found.classes_) == list("abcde")
    assert list(flat.classes_) == ["no", "yes"]
    assert_same(found.coef_, LRML(2, 3.0).fit(X, Y).coef_, place, rtol=1e-6)


@on_devices
@pytest.mark.parametrize("form", ["nan", "observed"])
def test_unknown_labels(form, data, place):
    X, Y, _ = data["long"]
    known = np.random.default_rng(0).random(Y.shape) < 0.7
    model = LRML(2, 3.0, tol=1e-8)
    expected = clone(model).fit(X, Y, observed=known)
    with dispatching():
        if form == "nan":
            found = clone(model).fit(put(place, X), put(place, np.where(known, Y, np.nan)))
        else:
            found = clone(model).fit(put(place, X), put(place, Y), observed=put(place, known))
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    assert_same(found.coef_, expected.coef_, place, rtol=1e-4)


@on_devices
def test_warm_starts_go_on_from_the_model_on_the_device(data, place):
    X, Y, _ = data["long"]
    model = LRML(2, 3.0, warm_start=True)
    with dispatching():
        given = put(place, X), put(place, Y)
        once = model.fit(*given).objective_
        assert model.fit(*given).objective_ == pytest.approx(once, rel=1e-6)
    assert model.n_iter_ <= 2


def test_rows_beyond_the_memory_of_a_device_are_summed_block_by_block(data, monkeypatch):
    place, (X, Y, weights) = place_named("strict-device1"), data["long"]
    expected = LRML(2, 3.0).fit(X, Y, weights)
    monkeypatch.setattr(Place, "memory", 4000.0)
    monkeypatch.setattr("lrml.core.moments._DEVICE_ENTRIES", 40 * 17)
    found = LRML(2, 3.0, device=place).fit(sp.csr_array(X), Y, weights)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    with pytest.raises(ValueError, match=r"rows must fit into 50% of the memory .* 60 rows, 12 features"):
        LRML(2, 3.0, device=place, loss="logistic").fit(X, Y)


# Held-out fits, searches and warm starts


@on_devices
@pytest.mark.parametrize("form", ["device", "dense", "sparse"])
@pytest.mark.parametrize(
    "model",
    [MLTrace(2.0, loss="logistic"), LEML(2, ridge=1.0), MLTrace(2.0)],
    ids=repr,
)
def test_a_threshold_for_each_label_lives_with_the_model(model, form, data, place):
    if model.loss == "logistic" and "strict" in str(place):
        pytest.skip("takes seconds there")
    X, Y, weights = data["long"]
    model = clone(model).set_params(threshold=Cut(per_label=True))
    expected = clone(model).fit(X, Y, weights).threshold_
    if form == "device":
        with dispatching():
            found = clone(model).fit(put(place, X), put(place, Y), put(place, weights))
    else:
        model.set_params(device=place)
        found = model.fit(sp.csr_array(X) if form == "sparse" else X, Y, weights)
    assert_same(found.threshold_, expected, place if form == "device" else HOST, str(expected.dtype), 1e-4)


@on_devices
@pytest.mark.parametrize(
    ("model", "form"),
    [(LRML(2, 3.0), form) for form in ("nan", "observed", "by name")]
    + [(MLFroCV([0.5, 5.0], random_state=0), form) for form in ("nan", "by name")],
    ids=repr,
)
def test_a_threshold_and_a_search_with_unknown_labels(model, form, data, place):
    X, Y = (matrix[:40, :4] for matrix in data["long"][:2])
    known = np.random.default_rng(0).random(Y.shape) < 0.8
    model = clone(model).set_params(threshold="auto", tol=1e-7)
    expected = clone(model).fit(X, Y, observed=known)
    with dispatching():
        if form == "nan":
            found = clone(model).fit(put(place, X), put(place, np.where(known, Y, np.nan)))
        elif form == "observed":
            found = clone(model).fit(put(place, X), put(place, Y), observed=put(place, known))
        else:
            found = clone(model).set_params(device=place).fit(X, sp.csr_array(Y), observed=known)
    assert found.threshold_ == pytest.approx(expected.threshold_, abs=1e-4)
    if hasattr(expected, "best_score_"):
        assert found.best_params_ == expected.best_params_
        assert found.best_score_ == pytest.approx(expected.best_score_, rel=1e-6)


@on_devices
@pytest.mark.parametrize("first", ["here", "there", "pickled"])
def test_warm_starts_with_a_kernel_where_x_has_moved(first, data, place):
    X, Y, _ = data["long"]
    model = LRML(2, 3.0, kernel="rbf", ridge=0.5, warm_start=True)
    once = clone(model).fit(X, Y).objective_
    here, there = (X, Y), (put(place, X), put(place, Y))
    with dispatching():
        model.fit(*(here if first == "here" else there))
        model = pickle.loads(pickle.dumps(model)) if first == "pickled" else model
        model.fit(*(here if first == "there" else there))
    assert model.objective_ == pytest.approx(once, rel=1e-4)
    assert model.n_iter_ <= 2


@on_devices
def test_a_kernel_model_keeps_sparse_rows_as_they_were_given(data, place):
    X, Y, _ = data["long"]
    X = sp.csr_array(X * (np.abs(X) > 0.8))
    expected = MLFro(0.5, kernel="rbf").fit(X, Y)
    found = MLFro(0.5, kernel="rbf", device=place, threshold="auto").fit(X, Y)
    assert sp.issparse(found.X_fit_)
    assert found.nbytes_ == expected.nbytes_
    assert_same(found.decision_function(X), expected.decision_function(X), HOST, rtol=1e-6)


# Sums over rows


@on_devices
@pytest.mark.parametrize("model", [LRML(2, 3.0, tol=1e-8), MLFro(0.5), CPLST(2)], ids=repr)
def test_a_fit_of_sums_lives_where_they_do_and_goes_on_at_home(model, data, place):
    X, Y, weights = data["long"]
    sums = Statistics.from_arrays(put(place, X), put(place, Y), put(place, weights))
    found, expected = clone(model).fit_statistics(sums), clone(model).fit(X, Y, weights)
    for name in FITTED:
        assert_same(getattr(found, name), getattr(expected, name), place, rtol=1e-6)
    for one in (found, expected):
        one.partial_fit(X[:30], 1 - Y[:30])
    for name in FITTED:
        assert_same(getattr(found, name), getattr(expected, name), HOST, rtol=1e-6)


@on_devices
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_fit_by_name_keeps_its_sums_for_further_rows(form, data, place):
    X, Y, weights = data["long"]
    models = MLFro(0.5, device=place).fit(form(X), form(Y), weights), MLFro(0.5).fit(X, Y, weights)
    found, expected = (model.partial_fit(X[:30], 1 - Y[:30]) for model in models)
    assert_same(found.coef_, expected.coef_, HOST, rtol=1e-9)
    assert found.sparse_output_ == (form is sp.csr_array)


@on_devices
def test_rows_on_a_device_are_not_summed_in_blocks(data, place):
    X, Y, weights = data["long"]
    there = [put(place, array) for array in (X, Y, weights)]
    rule = "on the host, but {} is an array of .* Pass NumPy arrays"
    with dispatching():
        for name, block in (
            ("X", (there[0], Y, weights)),
            ("Y", (X, there[1], weights)),
            ("sample_weight", (X, Y, there[2])),
        ):
            with pytest.raises(BlockError, match=rule.format(name)):
                LRML(2, 3.0).fit_blocks([block])
        with pytest.raises(ValueError, match=r"partial_fit sums rows on the host, got a model .* arrays of"):
            LRML(2, 3.0).fit(*there).partial_fit(X, Y)


@on_devices
def test_sparse_labels_are_remembered_for_a_model_that_comes_home(data, place):
    X, Y, _ = data["long"]
    expected = MLFro(0.5).fit(X, Y).predict(X)
    with dispatching():
        found = MLFro(0.5).fit(put(place, X), sp.csr_array(Y))
        assert_same(found.predict(put(place, X)), expected, place, dtype="int64")
    home = found.to_numpy().predict(X)
    assert sp.issparse(home)
    np.testing.assert_array_equal(home.toarray(), expected)


# Errors: rule, value, remedy; and the estimator as it was


def refused(model, error, match, *given, dispatch=True, **more):
    before = dict(vars(model))
    with pytest.raises(error, match=match), dispatching() if dispatch else nullcontext():
        model.fit(*given, **more)
    assert vars(model) == before


@pytest.mark.parametrize("name", ["Y", "sample_weight", "observed"])
@pytest.mark.parametrize("home", ["numpy", "strict-device1"])
def test_x_and_what_belongs_to_it_in_different_places(home, name, data):
    X, Y, weights = data["long"]
    here, there = place_named(home), place_named("strict-cpu")
    given = {"Y": Y, "sample_weight": weights, "observed": Y >= 0}
    given = {key: put(there if key == name else here, value) for key, value in given.items()}
    labels, X = given.pop("Y"), put(here, X)
    shown = str(here).replace("(", r"\(").replace(")", r"\)")
    rule = (
        f"X and {name} must live in the same place, got X with {shown} and {name} with .*CPU_DEVICE.*Move one"
    )
    refused(LRML(), ValueError, rule, X, labels, **given)
    with dispatching():
        model = MLFro(0.5).fit(X, put(here, Y))
        with pytest.raises(ValueError, match=rule):
            model.score(X, labels, **given)


def test_a_device_beside_arrays_that_live_on_another(data):
    X, Y, _ = data["long"]
    here, there = place_named("strict-device1"), place_named("strict-cpu")
    refused(
        LRML(device=there), ValueError, "device must be that of X.*device=None", put(here, X), put(here, Y)
    )


def test_device_arrays_without_dispatch(data):
    X, Y, _ = data["long"]
    place = place_named("strict-device1")
    rule = r"X must be a NumPy array .* got an array of .*device1.*array_api_dispatch=True"
    refused(LRML(), TypeError, rule, put(place, X), Y, dispatch=False)


def test_a_subspace_on_a_device(data):
    X, Y, _ = data["long"]
    place = place_named("strict-device1")
    refused(
        LRML(solver="compressed"),
        ValueError,
        "works with NumPy arrays on the host",
        put(place, X),
        put(place, Y),
    )


@pytest.mark.parametrize("where", ["space", "store"])
def test_a_device_without_memory(where, data, monkeypatch):
    class OutOfMemoryError(RuntimeError):
        """As torch's."""

    def fail(*args, **kwargs):
        raise OutOfMemoryError("Tried to allocate 99 GiB")

    X, Y, _ = data["long"]
    place = place_named("strict-device1")
    if where == "space":
        monkeypatch.setattr("lrml.estimators._fit.coordinates_of", fail)
    else:
        monkeypatch.setattr("lrml.estimators._fit._record", fail)
    rule = r"must fit into the memory of the device .*60 rows, 12 features and 5 labels.*device=None"
    refused(LRML(2, 3.0), MemoryError, rule, put(place, X), put(place, Y))
    with pytest.raises(OutOfMemoryError):  # on the host, errors are as they are
        LRML(2, 3.0).fit(X, Y)


def test_a_cut_that_fails_leaves_the_last_model(data, monkeypatch):
    X, Y, _ = data["long"]
    model = LRML(2, 3.0, threshold="auto").fit(X, Y)
    before = dict(vars(model))
    monkeypatch.setattr("lrml.estimators._member.automatic_cut", lambda *given: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.fit(X[:40], Y[:40])
    assert vars(model) == before


def test_infinity_in_single_precision(data):
    place, (X, Y, _) = place_named("strict-device1"), data["long"]
    real = np.where(np.eye(60, 5), np.inf, Y).astype(np.float32)
    refused(MLFro(targets="real"), ValueError, "contains infinity", put(place, X), put(place, real))


@pytest.mark.parametrize(
    ("labels", "rule"),
    [
        (np.full((60, 5), 0.5), "Y must hold only 0 and 1"),
        (np.full((60, 5), np.inf), "contains infinity"),
        (np.zeros((59, 5)), "same number of rows, got 60 and 59"),
        (np.zeros((60, 0)), "at least one label"),
        (np.zeros((60, 5, 2)), "must be 2-D"),
    ],
)
def test_wrong_labels_on_a_device(labels, rule, data):
    place = place_named("strict-device1")
    refused(LRML(), ValueError, rule, put(place, data["long"][0]), put(place, labels))


@pytest.mark.parametrize("weights", [np.zeros(60), -np.ones(60), np.ones(59), np.full(60, np.nan)])
def test_wrong_weights_on_a_device(weights, data):
    place, (X, Y, _) = place_named("strict-device1"), data["long"]
    rule = "sample_weight must"
    refused(LRML(), ValueError, rule, put(place, X), put(place, Y), put(place, weights))


def test_a_device_without_numbers_and_half_precision():
    torch = pytest.importorskip("torch")
    refused(
        LRML(device="meta"),
        ValueError,
        "has float64 and eigh, got 'meta'",
        np.eye(3),
        np.eye(3),
        dispatch=False,
    )
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4)).astype(np.float16)
    Y = (rng.random((30, 3)) < 0.5).astype(np.float64)
    with dispatching():
        half = LRML(1, 2.0).fit(torch.asarray(X), torch.asarray(Y))
    assert half.objective_ == pytest.approx(LRML(1, 2.0).fit(X, Y).objective_, rel=1e-9)


@pytest.mark.parametrize("name", ["cuda:99", "mps:7", "nowhere"])
def test_a_device_that_is_not_there(name):
    with pytest.raises(ValueError, match=f"(?is)^device.*{name}.*leave (it|device) out") as caught:
        LRML(device=name).fit(np.eye(3), np.eye(3))
    assert len(str(caught.value)) < 280  # torch lists all its backends


def test_the_host_as_a_device_beside_arrays_of_another_library(data):
    X, Y, _ = data["long"]
    here = place_named("strict-device1")
    rule = r"device must be that of X, or None, .*device1.*, got that of NumPy, the host. Pass device=None"
    refused(LRML(device="cpu"), ValueError, rule, put(here, X), put(here, Y))


@on_devices
def test_complex_features(data, place):
    X, Y, _ = data["long"]
    refused(LRML(), ValueError, "Complex data not supported: X", put(place, X + 0j), put(place, Y))


def test_tensors_with_gradients_give_a_model_without(data):
    torch = pytest.importorskip("torch")
    X, Y, weights = data["long"]
    expected = MLFro(0.5).fit(X, Y, weights)
    given = [torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in (X, Y, weights)]
    with dispatching():
        found = MLFro(0.5).fit(*given)
        kernel = MLFro(0.5, kernel="rbf").fit(*given)
        assert found.score(*given) == pytest.approx(expected.score(X, Y, weights))
        assert not found.decision_function(given[0]).requires_grad
        assert average_precision(given[1][:-1], given[0][:-1, :5]) == average_precision(Y[:-1], X[:-1, :5])
    fitted = found.coef_, found.intercept_, kernel.X_fit_, deepcopy(found).coef_
    assert not any(array.requires_grad for array in fitted)
    assert_same(found.coef_, expected.coef_, place_named("torch-cpu"))
    # Without dispatch they are NumPy's, as other tensors on the CPU are in scikit-learn.
    assert_same(MLFro(0.5).fit(*given).coef_, expected.coef_, HOST)
    assert_same(MLFro(0.5).partial_fit(*given[:2], sample_weight=given[2]).coef_, expected.coef_, HOST)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda tensor: tensor.to_sparse(), r"must be dense on a device, got .*sparse_coo.*{}\.to_dense\(\)"),
        (lambda tensor: tensor.to("meta"), "must hold numbers, got a tensor on the device 'meta'"),
    ],
    ids=["sparse", "meta"],
)
@pytest.mark.parametrize("dispatch", [True, False])
def test_tensors_that_are_no_dense_arrays(made, words, dispatch, data):
    torch = pytest.importorskip("torch")
    X, Y, weights = (torch.tensor(array) for array in data["long"])
    told = {name: f"{name} {words.format(name)}" for name in ("X", "Y", "S", "sample_weight")}
    refused(LRML(), TypeError, told["X"], made(X), Y, dispatch=dispatch)
    refused(LRML(), TypeError, told["Y"], X, made(Y), dispatch=dispatch)
    refused(LRML(), TypeError, told["sample_weight"], X, Y, made(weights), dispatch=dispatch)
    with dispatching() if dispatch else nullcontext():
        model = MLFro(0.5).fit(X, Y)
        for name, call in (
            ("X", lambda: model.predict(made(X))),
            ("Y", lambda: model.score(X, made(Y))),
            ("Y", lambda: average_precision(made(Y), X[:, :5])),
            ("S", lambda: average_precision(Y, made(X[:, :5]))),
            ("Y", lambda: label_propensities(made(Y))),
            ("X", lambda: lrml_path(X, Y, alphas=[3.0], thetas=[1])[0].decision_function(made(X))),
        ):
            with pytest.raises(TypeError, match=told[name]):
                call()


def test_a_model_of_tensors_without_dispatch(data):
    torch = pytest.importorskip("torch")
    X, Y, _ = (torch.tensor(array) for array in data["long"])
    with dispatching():
        model = MLFro(0.5).fit(X, Y)
    rule = r"unless .* dispatch is on, got an array of torch on cpu.*array_api_dispatch=True.*to_numpy"
    with pytest.raises(TypeError, match=rule):
        model.predict(X)
    with pytest.raises(ValueError, match="X with numpy and a model with torch on cpu"):
        model.predict(data["long"][0])
