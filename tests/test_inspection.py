"""Descriptions of models against the coefficients, computed at once."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lrml import LEML, LRML, LRMLCV, MLFro, MLTrace, SpectralRegressorCV, TextTagger
from lrml.inspection import describe_model, explain, low_rank_gain

MODELS = {
    "lrml": LRML(2, 5.0),
    "trace": MLTrace(5.0),
    "fro": MLFro(1.0),
    "leml": LEML(3),
    "search": LRMLCV(thetas=[1, 2], alphas=[1.0, 5.0], ridges=[0.1]),
    "logistic": LRML(2, 5.0, loss="logistic", tol=1e-2),
}


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 9))
    Y = (X @ rng.standard_normal((9, 6)) + rng.standard_normal((120, 6)) > 0.5).astype(int)
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(9)]), pd.DataFrame(Y, columns=list("abcdef"))


@pytest.mark.parametrize("name", ["lrml", "leml", "search", "logistic"])
def test_features_and_related_labels_are_those_of_the_coefficients(data, name):
    model = MODELS[name].fit(*data)
    found = describe_model(model, n_labels=4, n_features=3)
    W = model.coef_  # labels × features
    norms = np.linalg.norm(W, axis=1)
    cosines = W @ W.T / np.outer(norms, norms)
    assert [label["name"] for label in found.labels] == [model.classes_[j] for j in np.argsort(-norms)[:4]]
    for label in found.labels:
        place = list(model.classes_).index(label["name"])
        assert label["norm"] == pytest.approx(norms[place])
        order = np.argsort(-np.abs(W[place]))[:3]
        assert [one["name"] for one in label["features"]] == [f"x{j}" for j in order]
        np.testing.assert_allclose([one["coefficient"] for one in label["features"]], W[place, order])
        nearest = [j for j in np.argsort(-cosines[place]) if j != place and cosines[place, j] > 0][:3]
        assert [one["name"] for one in label["related"]] == [model.classes_[j] for j in nearest]
    pairs = sorted((-cosines[i, j], i, j) for i in range(6) for j in range(i + 1, 6))[:4]
    assert [(one["first"], one["second"]) for one in found.pairs] == [
        (model.classes_[i], model.classes_[j]) for cosine, i, j in pairs if cosine < 0
    ]
    json.dumps(found.as_dict(), allow_nan=False)


def test_what_it_is(data):
    model = MODELS["lrml"].fit(*data)
    found = describe_model(model)
    keys = ("estimator", "features", "labels", "rank", "bytes", "status")
    wanted = ["LRML", 9, 6, model.rank_, model.nbytes_, model.status_]
    assert [found.fitted[key] for key in keys] == wanted
    assert found.objective == model.objective_
    assert found.theta == 2
    assert found.tail == pytest.approx(model.singular_values_[2:].sum())
    assert found.fitted["params"]["alpha"] == 5.0
    assert describe_model(MODELS["trace"].fit(*data)).theta == 0
    assert describe_model(MODELS["fro"].fit(*data)).theta is None
    assert describe_model(MODELS["fro"]).tail is None
    search = MODELS["search"].fit(*data)
    found = describe_model(search)
    told = dict(found.summary("")["about"])["Fitted"]
    for name, value in search.best_params_.items():
        assert f"{name} {value:.4g}" in told


def test_a_search_names_the_score_that_it_chose_by(data):
    X, Y = data
    search = SpectralRegressorCV(random_state=0).fit(X, Y.astype(float))
    found = describe_model(search).fitted
    assert (found["scoring"], found["held_out_score"]) == ("R²", search.best_score_)
    assert describe_model(LRMLCV(random_state=0).fit(X, Y)).fitted["scoring"].endswith("average precision")


def test_labels_that_are_asked_for_stand_alone(data):
    model = MODELS["fro"].fit(*data)
    found = describe_model(model, labels=["c", "a"], n_features=9)
    assert [label["name"] for label in found.labels] == ["c", "a"]
    for label, place in zip(found.labels, (2, 0), strict=True):
        assert (label["intercept"], label["threshold"]) == (model.intercept_[place], 0.5)
        weights = {one["name"]: one["coefficient"] for one in label["features"]}
        assert [weights[f"x{j}"] for j in range(9)] == pytest.approx(model.coef_[place])
    tables = found.summary("")["tables"]
    assert [table["title"].split()[-1] for table in tables] == ["c", "a"]
    assert [len(table["rows"]) for table in tables] == [9, 9]
    with pytest.raises(ValueError, match=r"^label 'A' .* a\?"):
        describe_model(model, labels=["A"])


def test_through_pipelines_and_searches_of_scikit_learn(data):
    X, Y = data
    pipeline = make_pipeline(StandardScaler(), MLFro(1.0)).fit(X, Y)
    plain = MLFro(1.0).fit(StandardScaler().set_output(transform="pandas").fit_transform(X), Y)
    assert describe_model(pipeline).labels == describe_model(plain).labels
    search = GridSearchCV(pipeline, {"mlfro__alpha": [1.0]}, cv=2).fit(X, Y.to_numpy())
    assert describe_model(search).labels[0]["features"] == describe_model(plain).labels[0]["features"]


def test_tagger_names_words_and_tags():
    texts = ["red apple", "green apple", "red car", "fast car"] * 3
    tags = [["fruit"], ["fruit"], ["vehicle"], ["vehicle"]] * 3
    tagger = TextTagger(MLFro(0.1)).fit(texts, tags)
    found = describe_model(tagger, n_features=1)
    assert {label["name"] for label in found.labels} == {"fruit", "vehicle"}
    assert {label["features"][0]["name"] for label in found.labels} <= {"apple", "car"}


@pytest.mark.parametrize("form", ["array", "frame", "pipeline"])
def test_contributions_and_the_intercept_add_up_to_the_score(data, form):
    X, Y = data
    X, names = (X.to_numpy(), [str(j) for j in range(9)]) if form == "array" else (X, [*X.columns])
    model = make_pipeline(StandardScaler(), LRML(2, 5.0)) if form == "pipeline" else LRML(2, 5.0)
    fitted = model.fit(X, Y)
    intercept = (fitted[-1] if form == "pipeline" else fitted).intercept_
    for row in (X[:1], X[5:6]):
        scores = fitted.decision_function(row)[0]
        for place, label in enumerate(Y.columns):
            parts = explain(fitted, row, label, n=None)
            assert intercept[place] + sum(value for _, value in parts) == pytest.approx(scores[place])
            assert {name for name, _ in parts} <= {*names}
            assert explain(fitted, row, label, n=2) == sorted(parts, key=lambda part: -abs(part[1]))[:2]
    if form == "array":
        assert explain(fitted, X[5], "a") == explain(fitted, X[5:6], "a")
    with pytest.raises(ValueError, match=r"^there are 2 rows"):
        explain(fitted, X[:2], "a")


def test_a_kernel_has_no_features(data):
    X, Y = data
    model = LRML(2, 1.0, kernel="rbf").fit(X, Y)
    found = describe_model(model, n_labels=2)
    assert [label["features"] for label in found.labels] == [[], []]
    values = model.kernel_(X.to_numpy(), X.to_numpy())
    inner = model.dual_coef_.T @ values @ model.dual_coef_
    norms = np.sqrt(np.diag(inner))
    cosines = (inner / np.outer(norms, norms))[np.triu_indices(6, 1)]
    assert found.pairs[0]["cosine"] == pytest.approx(cosines.max())


def test_the_spectrum_is_drawn_with_its_tail(data):
    found = describe_model(MODELS["lrml"].fit(*data))
    (axes,) = found.summary("spectrum")["figures"][0]["draw"]().axes
    bars = {bar.get_label(): [patch.get_height() for patch in bar] for bar in axes.containers}
    assert bars["free"] + bars["penalised tail"] == pytest.approx(found.singular_values)
    assert len(bars["free"]) == 2


# Does low rank pay?


def planted(n_rows, n_labels, rank, *, binary, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, 30))
    W = rng.standard_normal((30, rank)) @ rng.standard_normal((rank, n_labels)) / np.sqrt(30 * rank)
    scores = X @ W + rng.standard_normal((n_rows, n_labels))
    return X, (scores > 1).astype(int) if binary else scores


@pytest.mark.parametrize(("binary", "n_rows"), [(True, 600), (False, 200)])
def test_planted_low_rank_pays(binary, n_rows):
    X, Y = planted(n_rows, 60, 2, binary=binary)
    found = low_rank_gain(X, Y)
    assert found.pays
    assert found.gain > 2 * found.standard_error > 0
    assert found.n_above_noise == 2
    assert found.n_rows <= n_rows
    assert repr(found) == found.sentence
    # By the definition: singular values of ridge regression's predictions, with the ridge as extra rows.
    ridge = found.search.best_params_["ridge"]
    centred, targets = X - X.mean(axis=0), Y - Y.mean(axis=0)
    stacked = np.vstack([centred, np.sqrt(ridge) * np.eye(30)])
    said = stacked @ np.linalg.lstsq(stacked, np.vstack([targets, np.zeros((30, 60))]), rcond=None)[0]
    expected = np.linalg.svd(said, compute_uv=False)[:30]
    np.testing.assert_allclose(found.singular_values, expected, rtol=1e-6)
    assert np.all(found.kept <= found.singular_values)


def test_independent_labels_do_not_pay():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((600, 20))
    own = (X + rng.standard_normal((600, 20)) > 1).astype(int)  # each label has a feature of its own
    none = (rng.random((600, 20)) < 0.2).astype(int)
    found = low_rank_gain(X, own)
    assert (found.pays, found.n_above_noise) == (False, 20)
    found = low_rank_gain(X, none)
    assert (found.pays, found.n_above_noise) == (False, 0)
    assert low_rank_gain(X, none, search=found.search).gain == found.gain  # fitted already


def test_refusals(data):
    with pytest.raises(NotFittedError, match="LRML"):
        describe_model(LRML())
    with pytest.raises(TypeError, match="Ridge"):
        describe_model(Ridge())
    with pytest.raises(ValueError, match=r"^n_features .*0"):
        describe_model(MODELS["fro"].fit(*data), n_features=0)


@pytest.mark.parametrize("y", [np.arange(20.0), np.arange(20) % 2], ids=["real", "binary"])
def test_one_target_in_one_dimension_is_refused(y):
    with pytest.raises(ValueError, match=r"\(20,\)"):
        low_rank_gain(np.random.default_rng(0).normal(size=(20, 3)), y)
