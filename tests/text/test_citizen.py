"""A tagger among the tools of scikit-learn, and top-k labels through them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, RandomizedSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.validation import check_is_fitted

from lrml import LRML, MLFro, TextTagger, predict_top_k
from lrml.thresholds import Cut

FOLDS = KFold(4, shuffle=True, random_state=0)
NEW = ["chess for two", "an editor for images"]


def test_clones_and_copies_are_the_same(documents):
    tagger = TextTagger(LRML(2, 0.1), vectorizer=TfidfVectorizer(min_df=2)).fit(*documents)
    assert not hasattr(tagger.model, "coef_")  # fit leaves its parts alone
    assert not hasattr(tagger.vectorizer, "vocabulary_")
    again = clone(tagger)
    assert again.model is not tagger.model
    assert again.get_params()["model__theta"] == 2
    assert again.get_params()["vectorizer__min_df"] == 2
    with pytest.raises(NotFittedError):
        check_is_fitted(again)
    with pytest.raises(NotFittedError):
        again.predict(NEW)
    for same in (again.fit(*documents), pickle.loads(pickle.dumps(tagger))):
        check_is_fitted(same)
        np.testing.assert_array_equal(same.decision_function(NEW), tagger.decision_function(NEW))
        assert same.predict_top_k(NEW).labels.tolist() == tagger.predict_top_k(NEW).labels.tolist()


def test_parameters_of_default_parts_can_be_set():
    tagger = TextTagger()
    assert tagger.get_params() == {"model": None, "vectorizer": None, "prune": "auto"}
    tagger.set_params(model__estimator__loss="squared_hinge", vectorizer__min_df=3)
    assert tagger.model.estimator.loss == "squared_hinge"
    assert tagger.model.estimator.threshold == Cut(per_label=True)
    assert (tagger.vectorizer.min_df, tagger.vectorizer.sublinear_tf) == (3, True)
    tagger.set_params(model=MLFro(), model__alpha=3.0)
    assert tagger.model.alpha == 3.0
    with pytest.raises(ValueError, match="Invalid parameter 'alpha_'"):
        TextTagger().set_params(model__alpha_=3)


def test_top_k_through_pipelines_and_searches(documents):
    Y = TextTagger(MLFro(0.1)).fit(*documents).binarize(documents.tags).toarray()
    words, model = TfidfVectorizer(), MLFro(0.1)
    direct = model.fit(words.fit_transform(documents.texts), Y).predict_top_k(words.transform(NEW), 3)
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = make_pipeline(TfidfVectorizer(), MLFro(0.1))
    grid = {"mlfro__alpha": [0.1]}
    for estimator in (
        pipeline,
        Pipeline([("nothing", "passthrough"), ("inner", pipeline)]),
        GridSearchCV(pipeline, grid, cv=FOLDS),
        make_pipeline(lower, RandomizedSearchCV(pipeline, grid, n_iter=1, cv=FOLDS)),
        TextTagger(MLFro(0.1), vectorizer=TfidfVectorizer()),
    ):
        top = predict_top_k(estimator.fit(documents.texts, Y), NEW, 3)
        assert top.labels.tolist() == direct.labels.tolist()
        np.testing.assert_allclose(top.scores, direct.scores, rtol=1e-9)


@pytest.mark.parametrize(
    "estimator",
    [
        OneVsRestClassifier(LogisticRegression()),
        make_pipeline(TfidfVectorizer(), LogisticRegression()).set_params(tfidfvectorizer="passthrough"),
        GridSearchCV(MLFro(), {"alpha": [1.0]}),
        Pipeline([("nothing", "passthrough")]),
    ],
)
def test_top_k_says_what_it_needs(estimator):
    with pytest.raises(TypeError, match="lrml"):
        predict_top_k(estimator, np.eye(2))
