"""What is loaded is what was saved, for every estimator."""

import os
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler

import lrml
from lrml import LRML, LRMLCV, MLFro, SpectralRegressor
from lrml._files import OutputError
from lrml.penalties import MCP, SCAD
from lrml.storage import read_header
from storage.model_makers import FORMS, MEMBERS, X_NEW, X, Y, assert_equal, scores


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.lrml"


def fitted(name, rows=X, labels=Y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return clone(MEMBERS[name]).fit(rows, labels)


@pytest.mark.parametrize("name", MEMBERS)
def test_every_member_comes_back_with_every_attribute(name, path):
    model = fitted(name)
    lrml.save(model, path)
    loaded = lrml.load(path)
    assert_equal(loaded, model)
    np.testing.assert_array_equal(scores(loaded), scores(model))
    np.testing.assert_array_equal(loaded.predict(X_NEW), model.predict(X_NEW))
    if hasattr(model, "predict_top_k"):
        top, expected = (one.predict_top_k(X_NEW, 3).labels for one in (loaded, model))
        np.testing.assert_array_equal(top, expected)
    assert loaded.score(X, Y) == model.score(X, Y)
    header = read_header(path)
    assert header["kind"] == type(model).__name__
    size = "rank" if hasattr(model, "rank_") else "n_weights"
    assert (header["n_features"], header["n_labels"], header[size]) == (6, 4, getattr(model, f"{size}_"))
    assert header["nbytes"] == os.path.getsize(path)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ["LRML", "LRML rbf", "LEML", "MLFro hinge"])
def test_every_form_of_input(name, form, path):
    rows = FORMS[form](X)
    model = fitted(name, rows, sp.csr_array(Y))
    lrml.save(model, path)
    loaded = lrml.load(path)
    predicted = loaded.predict(FORMS[form](X_NEW))
    assert isinstance(predicted, sp.csr_array)
    assert (predicted != model.predict(FORMS[form](X_NEW))).nnz == 0
    # Coefficients in single precision are made of factors in single precision.
    tolerance = {"rtol": 1e-5, "atol": 1e-5} if form == "float32" else {"rtol": 0, "atol": 0}
    np.testing.assert_allclose(scores(loaded), scores(model), **tolerance)
    assert_equal(loaded, model)


@pytest.mark.parametrize("classes", [[0, 1], ["no", "yes"], [False, True], [-1.0, 1.0]], ids=repr)
@pytest.mark.parametrize("name", ["LRML", "MLFro cut", "MLFroCV", "LEML logistic", "SpectralRegressor"])
def test_one_label_in_one_dimension(name, classes, path):
    model = clone(SpectralRegressor() if name == "SpectralRegressor" else MEMBERS[name])
    y = Y[:, 0] if name == "SpectralRegressor" else np.array(classes)[Y[:, 0].astype(int)]
    if name == "LEML logistic":
        model.set_params(rank=1)
    lrml.save(model.fit(X, y), path)
    loaded = lrml.load(path)
    assert_equal(loaded, model)
    assert loaded.predict(X_NEW).shape == (25,)
    np.testing.assert_array_equal(loaded.predict(X_NEW), model.predict(X_NEW))
    np.testing.assert_array_equal(scores(loaded), scores(model))


def test_names_of_features_and_labels(path):
    names = ["plain", "", "größe", "日本", "with space/../slash", "\0nul"]
    frame = pd.DataFrame(X, columns=names)
    model = LRML(1, 2.0).fit(frame, pd.DataFrame(Y, columns=["a", 7, ("b", 1), "c"]))
    lrml.save(model, path)
    loaded = lrml.load(path)
    assert list(loaded.feature_names_in_) == names
    assert_equal(loaded.classes_, model.classes_)
    top = loaded.predict_top_k(pd.DataFrame(X_NEW, columns=names), 2)
    assert_equal(top.labels, model.predict_top_k(pd.DataFrame(X_NEW, columns=names), 2).labels)


def test_the_same_model_makes_the_same_bytes(path, tmp_path):
    model = fitted("LRMLCV several")
    lrml.save(model, path)
    lrml.save(lrml.load(path), tmp_path / "again.lrml")
    assert path.read_bytes() == (tmp_path / "again.lrml").read_bytes()


def test_single_precision_halves_the_file(path, tmp_path):
    random = np.random.default_rng(0)
    rows = random.normal(size=(80, 400))
    labels = (rows[:, :30] + random.normal(size=(80, 30)) > 0.5).astype(float)
    model = LRML(5, 1.0, ridge=1.0).fit(rows, labels)
    lrml.save(model, path)
    lrml.save(model, tmp_path / "half.lrml", dtype="float32")
    loaded = lrml.load(tmp_path / "half.lrml")
    assert loaded.factors_.U.dtype == loaded.coef_.dtype == loaded.intercept_.dtype == np.float32
    small, large = (tmp_path / "half.lrml").stat().st_size, path.stat().st_size
    assert small < 0.55 * large
    difference = np.abs(loaded.decision_function(rows) - model.decision_function(rows)).max()
    assert 0 < difference < 1e-5
    with pytest.raises(ValueError, match=r"dtype='float32'.*kernel='rbf'"):
        lrml.save(fitted("LRML rbf"), path, dtype="float32")
    path.unlink()
    for other, dtype in ((model, "int8"), (MLFro(1e-300).fit(X * 1e-60, Y), "float32")):
        with pytest.raises(ValueError, match=dtype):
            lrml.save(other, path, dtype=dtype)
    assert not path.exists()


def test_a_pruned_model_is_a_small_file(path):
    """A coefficient takes its own four bytes, and one for the number of its label."""
    random = np.random.default_rng(0)
    rows = sp.random_array((200, 3000), density=0.02, rng=random, format="csr", dtype=np.float32)
    labels = (random.random((200, 250)) < 0.1).astype(int)
    model = MLFro(1.0).fit(rows, labels).pruned(20_000)
    lrml.save(model, path)
    assert 0 < path.stat().st_size - 5 * 20_000 - 4 * 3001 < 6_000
    np.testing.assert_array_equal(lrml.load(path).decision_function(rows), model.decision_function(rows))
    lrml.save(model, path, dtype="float64")
    assert lrml.load(path).coef_.dtype == np.float64


def test_summary(path):
    given = {
        "data": "mine",
        "scores": {"p@1": np.float64(0.5), "bad": np.nan},
        "rows": np.int64(3),
        "list": (1, 2),
    }
    lrml.save(fitted("LRML"), path, summary=given)
    expected = {"data": "mine", "scores": {"p@1": 0.5, "bad": None}, "rows": 3, "list": [1, 2]}
    assert read_header(path)["summary"] == expected
    with pytest.raises(TypeError, match="object at"):
        lrml.save(fitted("LRML"), path, summary={"when": object()})
    with pytest.raises(TypeError, match="summary is 'text'"):
        lrml.save(fitted("LRML"), path, summary="text")


def test_header_tells_parameters_without_reading_numbers(path):
    lrml.save(fitted("LRML auto"), path)
    header = read_header(path)
    params = header["model"]["params"]
    assert (params["theta"], params["alpha"], params["threshold"]) == (
        "auto",
        2.0,
        {"array": "params.threshold"},
    )
    assert header["format"] == "1"
    assert header["lrml_version"] == lrml.__version__
    # Numbers are not looked at: damage there is found by load only.
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert read_header(path) == header


def test_what_cannot_be_saved_is_refused_before_a_file_is_opened(path):
    with pytest.raises(NotFittedError, match="fitted"):
        lrml.save(LRML(), path)
    with pytest.raises(TypeError, match="KFold"):
        lrml.save(KFold(), path)

    class Mine(LRML):
        pass

    with pytest.raises(TypeError, match=r"(?s)Mine(?!.*precomputed)"):  # which is for kernels
        lrml.save(Mine(1, 2.0).fit(X, Y), path)
    with pytest.raises(TypeError, match="kernel='precomputed'"):
        lrml.save(MLFro(kernel=lambda a, b: float(a @ b)).fit(X, Y), path)
    with pytest.raises(TypeError, match=r"params\.callback"):
        lrml.save(LRML(1, 2.0, callback=lambda info: None).fit(X, Y), path)
    with pytest.raises(TypeError, match=r"params\.scoring"):
        lrml.save(LRMLCV(scoring=lambda Y, S: 0.0, random_state=0).fit(X, Y), path)
    with pytest.raises(TypeError, match=r"params\.random_state"):
        lrml.save(LRMLCV(random_state=np.random.RandomState(0)).fit(X, Y), path)
    assert not path.exists()


def test_written_whole_or_not_at_all(path, tmp_path, monkeypatch):
    path.write_bytes(b"old")
    monkeypatch.setattr(
        "os.replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device"))
    )
    with pytest.raises(OutputError, match="No space left"):
        lrml.save(fitted("LRML"), path)
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["model.lrml"]


def test_sums_of_rows(path):
    sums = lrml.core.Statistics.from_arrays(X, Y)
    lrml.save(sums, path)
    again = lrml.load(path)
    assert type(again) is lrml.core.Statistics
    for name, value in vars(sums).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    header = read_header(path)
    assert (header["kind"], header["n_features"], header["n_labels"]) == ("Statistics", 6, 4)


PIPELINES = {
    "standardised": make_pipeline(StandardScaler(), LRML(1, 2.0)),
    "nothing first": make_pipeline("passthrough", StandardScaler(), LRML(1, 2.0)),
    "nothing else": make_pipeline(None, LRML(1, 2.0)),
    "fewer": make_pipeline(MaxAbsScaler(), Normalizer(), PCA(3), LRMLCV(random_state=0)),
    "union": make_pipeline(
        make_union(StandardScaler(), TruncatedSVD(2, random_state=0)), SpectralRegressor(1, 2.0)
    ),
    "penalty": make_pipeline(StandardScaler(), SpectralRegressor(penalty=MCP(2.0, 3.0))),
    "other penalty": make_pipeline(StandardScaler(), SpectralRegressor(penalty=SCAD(2.0))),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_of_transformers_before_a_model(name, path):
    pipeline = clone(PIPELINES[name]).fit(X, Y)
    lrml.save(pipeline, path, summary={"data": "mine"})
    loaded = lrml.load(path)
    assert repr(loaded) == repr(pipeline)
    np.testing.assert_array_equal(loaded.predict(X_NEW), pipeline.predict(X_NEW))
    header = read_header(path)
    assert (header["kind"], header["n_labels"]) == ("Pipeline", 4)
    np.testing.assert_array_equal(clone(loaded).fit(X, Y).predict(X_NEW), pipeline.predict(X_NEW))


def test_pipelines_that_a_file_cannot_hold(path):
    turned = make_pipeline(LRML(1, 2.0), StandardScaler())
    for pipeline in (turned, make_pipeline(MinMaxScaler(), LRML(1, 2.0))):
        pipeline.steps[-1][1].fit(X, Y)
        with pytest.raises(TypeError, match=r"got Pipeline|MinMax.*StandardScaler"):
            lrml.save(pipeline, path)
    assert not path.exists()
