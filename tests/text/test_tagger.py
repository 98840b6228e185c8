"""What a tagger computes: the scores of a pipeline, tags of any form of input, and explanations."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.metrics import label_ranking_average_precision_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MultiLabelBinarizer

from lrml import CPLST, LEML, LRML, LRMLCV, MLFro, MLFroCV, TextTagger
from lrml.text import default_model, default_vectorizer

NEW = ["chess for two", "an editor for images", "text or web server?", "zzz", ""]


@pytest.fixture(scope="module")
def tagger(documents) -> TextTagger:
    return TextTagger(MLFro(0.1)).fit(*documents)


@pytest.mark.parametrize(
    ("model", "vectorizer"),
    [
        (None, None),
        (LRML(2, 0.1, ridge=0.1), CountVectorizer(binary=True)),
        (MLFro(0.1, loss="squared_hinge"), HashingVectorizer(n_features=64)),
        (MLFroCV(MLFro(threshold="auto"), cv=3, random_state=0), TfidfVectorizer(analyzer="char_wb")),
        (CPLST(2), make_pipeline(CountVectorizer(), TfidfTransformer())),
        (LEML(2), TfidfVectorizer(dtype=np.float32)),
        (LRML(2, 1.0, kernel="rbf"), None),
    ],
)
def test_it_is_the_pipeline_that_one_would_write(documents, model, vectorizer):
    tagger = TextTagger(model, vectorizer=vectorizer).fit(*documents)
    binarizer = MultiLabelBinarizer(sparse_output=True)
    Y = binarizer.fit_transform(documents.tags)
    pipeline = make_pipeline(vectorizer or default_vectorizer(), model or default_model())
    pipeline.fit(documents.texts, Y)
    assert list(tagger.classes_) == list(binarizer.classes_)
    # Adding up in another order may change the last digits, no more.
    close = {"rtol": 1e-5, "atol": 1e-6} if tagger.model_.intercept_.dtype == np.float32 else {"rtol": 1e-9}
    np.testing.assert_allclose(tagger.decision_function(NEW), pipeline.decision_function(NEW), **close)
    assert tagger.predict(NEW) == [list(tags) for tags in binarizer.inverse_transform(pipeline.predict(NEW))]
    (top,) = tagger.predict_top_k(NEW[:1], k=3).labels
    assert list(top) == list(tagger.classes_[np.argsort(-pipeline.decision_function(NEW[:1])[0])[:3]])


def test_the_default_is_a_search_with_a_threshold(documents):
    tagger = TextTagger().fit(*documents)
    assert isinstance(tagger.model_, LRMLCV)
    assert tagger.model_.best_params_
    assert tagger.model_.threshold_ is not None
    assert list(tagger.model_.best_estimator_.classes_) == list(tagger.classes_)
    assert isinstance(tagger.vectorizer_, TfidfVectorizer)
    assert tagger.predict_top_k(["a chess program"]).labels.shape == (1, 5)
    assert tagger.predict_top_k(["a chess program"], 1).labels == [["game"]]


@pytest.mark.parametrize(
    "form",
    [
        iter,
        np.array,
        lambda texts: pd.Series(texts, index=range(5, 5 + len(texts)), dtype="string"),
        pl.Series,
        lambda texts: pa.chunked_array([texts[:2], texts[2:]]),
    ],
)
def test_texts_of_any_column(documents, tagger, form):
    same = TextTagger(MLFro(0.1)).fit(form(documents.texts), documents.tags)
    np.testing.assert_array_equal(same.decision_function(form(NEW)), tagger.decision_function(NEW))


@pytest.mark.parametrize(
    "form",
    [
        lambda tags: [set(row) for row in tags],
        lambda tags: [np.array(row + row, dtype=str) for row in tags],
        lambda tags: np.array([*tags, None], dtype=object)[:-1],
        pd.Series,
        pl.Series,
        pa.array,
    ],
)
def test_tags_of_any_column(documents, tagger, form):
    same = TextTagger(MLFro(0.1)).fit(documents.texts, form(documents.tags))
    assert list(same.classes_) == list(tagger.classes_)
    np.testing.assert_array_equal(same.decision_function(NEW), tagger.decision_function(NEW))
    assert same.score(documents.texts, form(documents.tags)) == tagger.score(*documents)


@pytest.mark.parametrize(
    ("form", "named"),
    [
        (lambda Y, names: Y, False),
        (lambda Y, names: Y.tolist(), False),
        (lambda Y, names: sp.coo_matrix(Y), False),
        (lambda Y, names: pd.DataFrame(Y, columns=names), True),
        (lambda Y, names: pl.DataFrame(Y, schema=list(names)), True),
    ],
)
def test_tags_as_a_matrix(documents, tagger, form, named):
    Y = form(tagger.binarize(documents.tags).toarray(), tagger.classes_)
    same = TextTagger(MLFro(0.1)).fit(documents.texts, Y)
    assert list(same.classes_) == (list(tagger.classes_) if named else list(range(len(tagger.classes_))))
    np.testing.assert_allclose(same.decision_function(NEW), tagger.decision_function(NEW), rtol=1e-9)
    names = [[tagger.classes_[tag] for tag in row] for row in same.predict(NEW)] if not named else None
    assert (names or same.predict(NEW)) == tagger.predict(NEW)
    assert same.score(documents.texts, Y) == pytest.approx(tagger.score(*documents))
    np.testing.assert_array_equal(same.binarize(Y).toarray(), tagger.binarize(documents.tags).toarray())


def test_unknown_entries_and_weights_pass_to_the_model(documents, tagger):
    Y = tagger.binarize(documents.tags).toarray().astype(float)
    Y[:4, 0] = np.nan
    weights = np.arange(len(Y)) % 3
    some = TextTagger(MLFro(0.1)).fit(documents.texts, Y, sample_weight=weights)
    X = tagger.transform(documents.texts)
    same = MLFro(0.1).fit(X, Y, weights)
    np.testing.assert_allclose(
        some.decision_function(NEW), same.decision_function(tagger.transform(NEW)), rtol=1e-9
    )
    assert some.score(documents.texts, Y) == pytest.approx(same.score(X, Y))


def test_explanations_add_up_to_the_score(tagger):
    text = "convert a chess server to text"
    for column, tag in enumerate(tagger.classes_):
        parts = tagger.explain(text, tag, n=None)
        sizes = [abs(part) for _, part in parts]
        assert sizes == sorted(sizes, reverse=True)
        total = tagger.model_.intercept_[column] + sum(part for _, part in parts)
        assert total == pytest.approx(tagger.decision_function([text])[0, column])
        assert tagger.explain(text, tag, n=2) == parts[:2]
    assert tagger.explain(text, "game", n=1)[0][0] == "chess"


def test_probabilities_come_with_the_logistic_loss_and_by_default(documents, tagger):
    logistic = TextTagger(MLFro(0.1, loss="logistic"))
    assert hasattr(logistic, "predict_proba")
    logistic.fit(*documents)
    np.testing.assert_allclose(
        logistic.predict_proba(NEW), 1 / (1 + np.exp(-logistic.decision_function(NEW))), rtol=1e-5
    )
    with pytest.raises(AttributeError, match="predict_proba"):
        tagger.predict_proba(NEW)
    usual = TextTagger().fit(*documents)
    assert usual.threshold_.shape == usual.classes_.shape
    found = usual.predict_proba(documents.texts)
    relevant = usual.binarize(documents.tags).toarray() == 1
    assert found[relevant].mean() > found[~relevant].mean() + 0.2


def test_score_is_label_ranking_average_precision(documents, tagger):
    kept = [row for row, tags in enumerate(documents.tags) if tags]  # scikit-learn counts the others as 1
    expected = label_ranking_average_precision_score(
        MultiLabelBinarizer().fit_transform(documents.tags)[kept],
        tagger.decision_function([documents.texts[row] for row in kept]),
    )
    assert tagger.score(*documents) == pytest.approx(expected)


def test_score_counts_the_tags_that_it_leaves_out(tagger):
    texts, known, more = ["chess", "images"], [["game"], ["graphics"]], [["game", "new"], ["graphics", "new"]]
    with pytest.warns(UserWarning, match=r"2 tags .* 1 different .* 'new'"):
        score = tagger.score(texts, more)
    assert score == tagger.score(texts, known)


@settings(max_examples=25)
@given(st.lists(st.lists(st.sampled_from(["game", "text", "editor", "new", "Game"])), min_size=1))
def test_binarize_is_that_of_scikit_learn_for_known_tags(tagger, tags):
    known = [[tag for tag in row if tag in tagger.classes_] for row in tags]
    expected = MultiLabelBinarizer(classes=tagger.classes_).fit_transform(known)
    np.testing.assert_array_equal(tagger.binarize(tags).toarray(), expected)
    unknown = tagger.unknown_tags(tags)
    assert set(unknown) <= {"new", "Game"}
    assert unknown["new"] == sum(row.count("new") for row in tags)
    assert unknown.total() == sum(map(len, tags)) - sum(map(len, known))


def test_many_texts_get_the_squared_hinge(documents, monkeypatch):
    monkeypatch.setattr("lrml.text._MANY_TEXTS", len(documents.texts))
    assert TextTagger().fit(*documents).model_.loss_ == "squared_hinge"
    assert TextTagger().fit(documents.texts[:-1], documents.tags[:-1]).model_.loss_ == "squared"
