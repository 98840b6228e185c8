"""Wrong texts, tags and parts: rule, value, remedy; and a fitted tagger stays as it was."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from lrml import CPLST, LRML, MLFro, SpectralRegressor, TextTagger

TWO = ["one text", "one more"]


def fitted(model=None, tags=(["a"], ["b"])):
    return TextTagger(model or MLFro(), vectorizer=TfidfVectorizer()).fit(TWO, list(tags))


@pytest.mark.parametrize(
    ("texts", "error", "where"),
    [
        ("one text", TypeError, r"^texts .*'one text'"),
        ({"one": 1}, TypeError, r"^texts .*'one': 1"),
        ([b"one", "two"], TypeError, "row 0 .*'one'"),
        (["a", np.nan, np.nan], TypeError, "row 1 .*nan"),
        (pl.Series(["one", None]), TypeError, "row 1 .*None"),
        ([["one", "text"], ["two"]], TypeError, r"row 0 .*\['one', 'text'\]"),
        ([], ValueError, "no texts"),
        (sp.eye_array(2).tocsr(), TypeError, "^texts .*Sparse Row"),
        (pl.LazyFrame({"text": TWO}), TypeError, "^texts .*LazyFrame"),
    ],
)
@pytest.mark.filterwarnings("ignore::polars.exceptions.PerformanceWarning")
def test_texts(texts, error, where):
    tagger = TextTagger(MLFro())
    with pytest.raises(error, match=where):
        tagger.fit(texts, [["a"], ["b"]])
    assert not hasattr(tagger, "vectorizer_")
    known = fitted()
    for method in (known.transform, known.predict, lambda texts: known.score(texts, [["a"], ["b"]])):
        with pytest.raises(error, match=where):
            method(texts)


@pytest.mark.parametrize(
    ("tags", "error", "where"),
    [
        (None, ValueError, r"y .*None"),
        ("a, b", TypeError, r"^tags .*'a, b'"),
        ({"a": 1}, TypeError, r"^tags .*'a': 1"),
        (["a, b", "c"], TypeError, "row 0 .*'a, b'"),
        ([["a"], None], TypeError, "row 1 .*None"),
        ([["a"], {"b": 1}], TypeError, r"row 1 .*{'b': 1}"),
        ([["a"], ["b", 1]], TypeError, "row 1 .*1"),
        ([["a"], [""]], ValueError, "row 1 .*''"),
        ([[], []], ValueError, "2 texts has a tag"),
        ([["a"]], ValueError, "2 texts and 1 rows"),
        ([[1, 2], [3, 4]], TypeError, "row 0 .*1"),
        ([[0], [2]], TypeError, "row 0 .*0"),
        (pd.DataFrame({"tags": [["a"], ["b"]]}), ValueError, r"tags .*\['a'\]"),
        (np.array([["a", "b"], ["c", "d"]]), ValueError, r"tags .*'a'"),
    ],
)
def test_tags(tags, error, where):
    tagger = fitted()
    before = dict(vars(tagger))
    with pytest.raises(error, match=where):
        tagger.fit(TWO, tags)
    assert vars(tagger) == before


@pytest.mark.parametrize(
    ("params", "error", "where"),
    [
        ({"model": LogisticRegression()}, TypeError, r"^model .*LogisticRegression"),
        ({"model": MLFro}, TypeError, r"^model "),
        ({"model": SpectralRegressor()}, ValueError, r"^model .*SpectralRegressor"),
        ({"model": LRML(kernel="precomputed")}, ValueError, r"^model .*precomputed"),
        ({"model": LRML(alpha=-1)}, ValueError, r"^alpha .*-1"),
        ({"model": CPLST(1), "prune": 9}, ValueError, "prune.* CPLST"),
        ({"model": MLFro(kernel="rbf"), "prune": 9}, ValueError, "^prune=9 .*kernel"),
        ({"vectorizer": LogisticRegression()}, TypeError, r"^vectorizer .*LogisticRegression"),
        ({"vectorizer": TfidfVectorizer}, TypeError, r"^vectorizer "),
        ({"vectorizer": TfidfVectorizer(min_df=-5)}, ValueError, "min_df"),
        ({"vectorizer": TfidfVectorizer(min_df=5)}, ValueError, "no word of 2 texts"),
        ({"vectorizer": TfidfVectorizer(vocabulary=["y", "y"])}, ValueError, "Duplicate"),
    ],
)
def test_parts(params, error, where):
    tagger = fitted().set_params(**params)
    before = dict(vars(tagger))
    with pytest.raises(error, match=where):
        tagger.fit(TWO, [["a"], ["b"]])
    assert vars(tagger) == before


def test_matrices_after_fit_have_the_same_columns():
    tagger = fitted()
    for call in (tagger.binarize, lambda Y: tagger.score(TWO, Y)):
        with pytest.raises(ValueError, match=r"3 columns|\(2, 3\)"):
            call(np.ones((2, 3)))
        with pytest.raises(ValueError, match=r"'b' where .*'a'"):
            call(pd.DataFrame(np.eye(2), columns=["b", "a"]))


def test_explanations_need_a_text_and_a_known_tag():
    tagger = fitted(tags=(["game"], ["text"]))
    with pytest.raises(ValueError, match=r"^label 'gam'.* game"):
        tagger.explain(TWO[0], "gam")
    with pytest.raises(TypeError, match=r"^text "):
        tagger.explain(TWO, "game")
    for n in (0, 2.5, True):
        with pytest.raises(ValueError, match=f"^n .*{n}"):
            tagger.explain(TWO[0], "game", n)
    with pytest.raises(ValueError, match="rbf"):
        fitted(LRML(1, 1.0, kernel="rbf")).explain(TWO[0], "a")


def test_words_of_a_single_text_will_do_if_there_are_no_others():
    tagger = TextTagger(MLFro(0.1)).fit(["image viewer", "chess engine"], [["graphics"], ["game"]])
    assert tagger.vectorizer_.min_df == 1
    assert tagger.predict(["chess"]) == [["game"]]
    with pytest.raises(ValueError, match="no word of 2 texts"):
        TextTagger(MLFro()).fit(["", "the"], [["a"], ["b"]])
