"""Text taggers in model files: vectorizers as settings, words and weights."""

import numpy as np
import pytest
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import Binarizer

import lrml
from lrml import MLFro, TextTagger
from lrml.storage import read_header
from storage.model_makers import assert_equal

TEXTS = [
    "fast image viewer",
    "edit photos and images",
    "chess engine with größe",
    "play chess on line",
    "image and photo editor",
    "network chess",
] * 3
TAGS = [
    ["graphics"],
    ["graphics", "editor"],
    ["game"],
    ["game", "network"],
    ["editor"],
    ["network", "game"],
] * 3
NEW = ["a chess image", "größe and photos", "", "nothing known"]

VECTORIZERS = {
    "default": None,
    "tfidf": TfidfVectorizer(sublinear_tf=True, stop_words=["and", "with"], dtype=np.float32),
    "no idf": TfidfVectorizer(use_idf=False, norm="l1", analyzer="char_wb", ngram_range=(2, 3)),
    "count": CountVectorizer(binary=True, max_df=0.9, vocabulary=["chess", "image", "größe"]),
    "hashing": HashingVectorizer(n_features=64, alternate_sign=False),
    "pipeline": make_pipeline(HashingVectorizer(n_features=32), TfidfTransformer()),
    "union": make_union(CountVectorizer(), TfidfVectorizer(analyzer="char", ngram_range=(2, 2))),
}


@pytest.mark.parametrize("name", VECTORIZERS)
def test_taggers_come_back(name, tmp_path):
    tagger = TextTagger(MLFro(0.1), vectorizer=VECTORIZERS[name]).fit(TEXTS, TAGS)
    lrml.save(tagger, tmp_path / "tagger.lrml", summary={"data": "toy"})
    loaded = lrml.load(tmp_path / "tagger.lrml")
    features, expected = loaded.transform(NEW), tagger.transform(NEW)
    assert (features != expected).nnz == 0
    assert features.dtype == expected.dtype
    # Of coefficients in single precision, the last digit depends on the factors having been rounded.
    tolerance = {"rtol": 0, "atol": 1e-6 if expected.dtype == np.float32 else 0}
    np.testing.assert_allclose(loaded.decision_function(NEW), tagger.decision_function(NEW), **tolerance)
    assert loaded.predict(NEW) == tagger.predict(NEW)
    assert_equal(loaded.predict_top_k(NEW, 2).labels, tagger.predict_top_k(NEW, 2).labels)
    assert loaded.score(TEXTS, TAGS) == tagger.score(TEXTS, TAGS)
    header = read_header(tmp_path / "tagger.lrml")
    assert header["kind"] == "TextTagger"
    assert header["model"]["params"]["model"]["kind"] == "MLFro"
    assert header["n_features"] == expected.shape[1]
    if name == "default":
        assert loaded.explain("a chess image", "game") == tagger.explain("a chess image", "game")
        assert_equal(loaded.vectorizer_, tagger.vectorizer_)
    loaded.fit(TEXTS, TAGS)  # with the parameters of the original
    np.testing.assert_array_equal(loaded.decision_function(NEW), tagger.decision_function(NEW))


def test_a_pipeline_of_texts(tmp_path):
    pipeline = make_pipeline(TfidfVectorizer(), TfidfTransformer(), MLFro(0.1))
    pipeline.fit(TEXTS, np.array([["chess" in text, "image" in text] for text in TEXTS], dtype=int))
    lrml.save(pipeline, tmp_path / "pipeline.lrml")
    loaded = lrml.load(tmp_path / "pipeline.lrml")
    np.testing.assert_array_equal(loaded.decision_function(NEW), pipeline.decision_function(NEW))


@pytest.mark.parametrize(
    "vectorizer",
    [
        CountVectorizer(preprocessor=str.lower),
        CountVectorizer(input="filename"),  # it would read files that the texts name
        make_pipeline(CountVectorizer(), Binarizer()),
    ],
)
def test_what_a_file_cannot_hold(vectorizer, tmp_path):
    tagger = TextTagger(MLFro(0.1)).fit(TEXTS, TAGS)
    tagger.vectorizer_ = vectorizer
    with pytest.raises((TypeError, ValueError), match=r"preprocessor|input|Binarizer"):
        lrml.save(tagger, tmp_path / "tagger.lrml")
    assert not (tmp_path / "tagger.lrml").exists()
