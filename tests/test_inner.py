"""Predictions of models, taggers, pipelines and searches."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from lrml import LRML, MLFro, SpectralRegressor, TextTagger
from lrml._inner import Prediction, inner_model
from lrml.datasets import load_yeast

(X, Y), (X_TEST, _) = load_yeast().train, load_yeast().test
TEXTS, TAGS = ["red apple", "green apple", "blue sky"] * 2, [["fruit"], ["fruit", "green"], ["air"]] * 2

MODELS = {
    "member": LRML(3, 20.0),
    "logistic": MLFro(1.0, loss="logistic"),
    "a cut for each": MLFro(1.0, threshold=np.linspace(0.1, 0.6, 14)),
    "nested": make_pipeline(StandardScaler(), make_pipeline(StandardScaler(), LRML(3, 20.0))),
    "search": GridSearchCV(make_pipeline(StandardScaler(), MLFro()), {"mlfro__alpha": [1.0]}, cv=2),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_is_assigned_is_what_predict_gives(name):
    model = MODELS[name].fit(X, Y)
    found = Prediction.of(model, X_TEST, 14)
    decided = np.take_along_axis(np.asarray(model.predict(X_TEST)), found.tags, axis=1)
    np.testing.assert_array_equal(found.assigned, decided)
    scores = np.take_along_axis(model.decision_function(X_TEST), found.tags, axis=1)
    np.testing.assert_allclose(found.scores, scores, atol=1e-12)
    assert (found.probabilities is not None) == (name == "logistic")
    if found.probabilities is not None:
        np.testing.assert_allclose(found.probabilities, 1 / (1 + np.exp(-scores)))
    np.testing.assert_array_equal(
        Prediction.of(model, X_TEST, 3, threshold=0.4).assigned, scores[:, :3] >= 0.4
    )
    np.testing.assert_allclose(
        inner_model(model, "test").model.decision_function(inner_model(model, "test").features(X_TEST)),
        model.decision_function(X_TEST),
    )


def test_calibrated_probabilities_set_the_order():
    model = MLFro(1.0, calibrate="isotonic", threshold=np.linspace(0.1, 0.6, 14)).fit(X, Y)
    found, best = Prediction.of(model, X_TEST, 5), model.predict_top_k(X_TEST, 5).labels
    np.testing.assert_array_equal(np.sort(found.tags), np.sort(best))
    assert np.any(found.tags != best)
    assert np.all(np.diff(found.probabilities) <= 0)
    for part, whole in (
        (found.scores, model.decision_function(X_TEST)),
        (found.probabilities, model.predict_proba(X_TEST)),
        (found.assigned, model.predict(X_TEST)),
    ):
        np.testing.assert_allclose(part, np.take_along_axis(whole, found.tags, axis=1), atol=1e-12)


def test_tags_of_texts():
    tagger = TextTagger(MLFro(0.1, threshold=[0.9, 0.0, 0.5])).fit(TEXTS, TAGS)
    found = Prediction.of(tagger, ["a red apple", ""], 3)
    kept = [set(tags[keep]) for tags, keep in zip(found.tags, found.assigned, strict=True)]
    assert kept == [set(tags) for tags in tagger.predict(["a red apple", ""])]
    inner = inner_model(tagger, "test")
    assert inner.reads_texts
    assert "apple" in inner.feature_names


def test_words_keep_their_names_through_scalings():
    pipeline = make_pipeline(TfidfVectorizer(), "passthrough", MaxAbsScaler(), MLFro(0.1))
    pipeline.fit(TEXTS, np.eye(6, 3))
    assert inner_model(pipeline, "test").feature_names.tolist() == ["apple", "blue", "green", "red", "sky"]


def test_real_targets_have_no_best_labels():
    with pytest.raises(TypeError):
        Prediction.of(SpectralRegressor().fit(X, Y), X_TEST)
