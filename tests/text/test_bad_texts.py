"""Wrong texts, tags and parts: rule, value, remedy; and a fitted tagger stays as it was."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from lrml import LRML, MLFro, TextTagger

TWO = ["one text", "one more"]


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        ("one text", TypeError, r"several texts, got one: 'one text'. Pass a list"),
        (b"one text", TypeError, "several texts, got one"),
        ([b"one", "two"], TypeError, r"must be a str, got bytes in row 0 .*text.decode\('utf8'\)"),
        (["one", None], TypeError, r"got None in row 1 \(counted from 0\). Drop such rows, or put ''"),
        (["a", np.nan, np.nan], TypeError, "got nan in row 1 .*and 1 more such rows. Drop such rows"),
        (pd.Series(["one", pd.NA], dtype="string"), TypeError, "got <NA> in row 1"),
        (pd.Series(["one", None]), TypeError, "got (None|nan) in row 1 "),
        (pl.Series(["one", None]), TypeError, "got None in row 1 "),
        (["one", 2], TypeError, "got 2 in row 1 .*numbers go to an estimator such as LRMLCV"),
        ([["one", "text"], ["two"]], TypeError, r"got \['one', 'text'\] in row 0 .*Join its words"),
        ([], ValueError, "at least one text, got none"),
        (3, TypeError, "list, array or column of str, got 3"),
        ({"one": 1}, TypeError, "list, array or column of str, got {'one': 1}"),
        ({"one"}, TypeError, "list, array or column of str, got {'one'}"),
        (
            np.eye(2),
            ValueError,
            r"got a ndarray of shape \(2, 2\).*numbers go to an estimator such as LRMLCV",
        ),
        (np.array("one text"), ValueError, r"got a ndarray of shape \(\)"),
        (sp.eye_array(2).tocsr(), ValueError, r"got a csr_array of shape \(2, 2\)"),
        (pd.DataFrame({"text": TWO}), ValueError, r"got a DataFrame of shape \(2, 1\).*frame\['text'\]"),
        (pl.DataFrame({"text": TWO}), ValueError, r"frame\['text'\]"),
        (pl.LazyFrame({"text": TWO}), ValueError, r"got a LazyFrame"),
    ],
)
@pytest.mark.filterwarnings("ignore::polars.exceptions.PerformanceWarning")
def test_texts(texts, error, message):
    tagger = TextTagger(MLFro())
    with pytest.raises(error, match=message):
        tagger.fit(texts, [["a"], ["b"]])
    assert not hasattr(tagger, "vectorizer_")
    fitted = TextTagger(MLFro(), vectorizer=TfidfVectorizer()).fit(TWO, [["a"], ["b"]])
    for method in (fitted.transform, fitted.predict, fitted.predict_top_k, fitted.decision_function):
        with pytest.raises(error, match=message):
            method(texts)
    with pytest.raises(error, match=message):
        fitted.score(texts, [["a"], ["b"]])


@pytest.mark.parametrize(
    ("tags", "error", "message"),
    [
        (None, ValueError, "requires y to be passed"),
        ("a, b", TypeError, "list of tags for every text, got 'a, b'"),
        (["a, b", "c"], TypeError, r"got the str 'a, b' in row 0 .*row.split\(\",\"\)"),
        (np.array(["a", "b"]), TypeError, r"got the str 'a' in row 0 .*Split them"),
        (pd.Series(["a", "b"]), TypeError, r"got the str 'a' in row 0 .*Split them"),
        ([["a"], "b"], TypeError, "got the str 'b' in row 1"),
        ([["a"], None], TypeError, r"list of tags, got None in row 1 .*Pass \[\] if it has none"),
        (pd.Series([["a"], np.nan]), TypeError, "list of tags, got nan in row 1"),
        ([["a"], b"b"], TypeError, "list of tags, got 'b' in row 1"),
        ([["a"], {"b": 1}], TypeError, "list of tags, got {'b': 1} in row 1"),
        ([["a"], [1]], TypeError, r"every tag must be a str, got 1 in row 1 .*str\(tag\), or a 0/1 matrix"),
        ([["a"], [None]], TypeError, "every tag must be a str, got None in row 1"),
        ([["a"], [""]], ValueError, r"must not be empty, got '' in row 1 .*Pass \[\]"),
        ([[], []], ValueError, "at least one tag, got 2 empty lists"),
        ([["a"]], ValueError, "same length, got 2 texts and 1 rows of tags"),
        (np.eye(3), ValueError, "same length, got 2 texts and 3 rows of tags"),
        ({"a": 1}, TypeError, "list of tag lists, got {'a': 1}"),
        (7, TypeError, "list of tags for every text, got 7"),
        ([1, 0], TypeError, "list of tags, got 1 in row 0"),
        ([[1, 2], [3, 4]], ValueError, "Y must hold only 0 and 1, got 2"),
        (pd.DataFrame({"tags": [["a"], ["b"]]}), ValueError, r"hold 0 and 1, got \['a'\].*frame\['tags'\]"),
        (pd.DataFrame({"tag": ["a", "b"]}), ValueError, "hold 0 and 1, got 'a'"),
        (pl.DataFrame({"tag": ["a", "b"]}), ValueError, "hold 0 and 1, got 'a'"),
        (np.array([["a", "b"], ["c", "d"]]), ValueError, "hold 0 and 1, got (np.str_.)?'a'"),
    ],
)
def test_tags(tags, error, message):
    tagger = TextTagger(MLFro(), vectorizer=TfidfVectorizer()).fit(TWO, [["a"], ["b"]])
    before = dict(vars(tagger))
    with pytest.raises(error, match=message):
        tagger.fit(TWO, tags)
    assert vars(tagger) == before


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"model": LogisticRegression()}, TypeError, "an estimator of lrml such as .*make_pipeline"),
        ({"model": "lrml"}, TypeError, "an estimator of lrml such as .*got 'lrml'"),
        ({"model": MLFro}, TypeError, "an estimator of lrml such as"),
        ({"model": LRML(targets="real")}, ValueError, "targets='binary', got 'real'"),
        ({"model": LRML(kernel="precomputed")}, ValueError, "got kernel='precomputed'"),
        ({"model": LRML(alpha=-1)}, ValueError, "alpha must be finite and at least 0, got -1"),
        ({"vectorizer": LogisticRegression()}, TypeError, "vectorizer must turn .*got LogisticRegression"),
        ({"vectorizer": TfidfVectorizer}, TypeError, "vectorizer must turn .*got"),
        ({"vectorizer": TfidfVectorizer(min_df=-5)}, ValueError, "The 'min_df' parameter of TfidfVectorizer"),
        ({"vectorizer": TfidfVectorizer(min_df=5)}, ValueError, "words that the vectorizer keeps.*min_df=1"),
    ],
)
def test_parts(params, error, message):
    tagger = TextTagger(MLFro(), vectorizer=TfidfVectorizer()).fit(TWO, [["a"], ["b"]])
    tagger.set_params(**params)
    before = dict(vars(tagger))
    with pytest.raises(error, match=message):
        tagger.fit(TWO, [["a"], ["b"]])
    assert vars(tagger) == before


@pytest.mark.parametrize("texts", [["the of and", "is a"], ["", ""], ["!?", "x"]])
def test_texts_without_words(texts):
    with pytest.raises(ValueError, match="words that the vectorizer keeps, got 2 texts without any"):
        TextTagger(MLFro(), vectorizer=TfidfVectorizer(stop_words="english")).fit(texts, [["a"], ["b"]])


def test_matrices_after_fit_have_the_same_columns():
    tagger = TextTagger(MLFro(), vectorizer=TfidfVectorizer()).fit(TWO, [["a"], ["b"]])
    for call in (tagger.binarize, lambda Y: tagger.score(TWO, Y)):
        with pytest.raises(
            ValueError, match=r"2 columns, as in fit, got 3|\(2, 2\).*\(2, 3\)|\(2, 3\).*\(2, 2\)"
        ):
            call(np.ones((2, 3)))
        with pytest.raises(ValueError, match="named and ordered as in fit, got 'b' where 'a'"):
            call(pd.DataFrame(np.eye(2), columns=["b", "a"]))


def test_explanations_need_a_text_and_a_known_tag():
    tagger = TextTagger(MLFro(), vectorizer=TfidfVectorizer()).fit(TWO, [["game"], ["text"]])
    with pytest.raises(ValueError, match=r"one of the 2 in classes_, got 'gam'. Did you mean game\?"):
        tagger.explain(TWO[0], "gam")
    with pytest.raises(TypeError, match="text must be one str, got"):
        tagger.explain(TWO, "game")
    for n in (0, 2.5, True):
        with pytest.raises(ValueError, match="n must be an int of at least 1 or None, got"):
            tagger.explain(TWO[0], "game", n)
    kernel = TextTagger(LRML(1, 1.0, kernel="rbf"), vectorizer=TfidfVectorizer()).fit(TWO, [["a"], ["b"]])
    with pytest.raises(ValueError, match="explain needs a model with kernel='linear'"):
        kernel.explain(TWO[0], "a")


def test_k_is_checked():
    tagger = TextTagger(MLFro(), vectorizer=TfidfVectorizer()).fit(TWO, [["a"], ["b"]])
    with pytest.raises(ValueError, match=r"^k .*3"):
        tagger.predict_top_k(TWO, 3)


def test_words_of_a_single_text_will_do_if_there_are_no_others():
    tagger = TextTagger(MLFro(0.1)).fit(["image viewer", "chess engine"], [["graphics"], ["game"]])
    assert tagger.vectorizer_.min_df == 1
    assert tagger.predict(["chess"]) == [["game"]]
    with pytest.raises(ValueError, match="words that the vectorizer keeps"):
        TextTagger(MLFro()).fit(["", "the"], [["a"], ["b"]])
