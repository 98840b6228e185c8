"""Exported graphs, run by onnxruntime: scores, probabilities, top-k and the way from texts to features."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import MaxAbsScaler, Normalizer, QuantileTransformer, StandardScaler

import lrml
from lrml import CPLST, LEML, LRML, LRMLCV, MLFro, MLFroCV, MLTrace, TextTagger
from lrml.datasets import load_yeast
from lrml.thresholds import Cut

onnx = pytest.importorskip("onnx", reason="onnx is not installed")
onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

TEXTS = [
    "Fast image viewer, fast and small",
    "edit photos & images in the browser",
    "A chess engine; plays blitz",
    "play chess on-line with friends",
    "",
    "Café and crêpes: été à la française",
    "日本語 テスト 東京",
    "fast chess engine",
]
TAGS = [["graphics"], ["graphics", "web"], ["game"], ["game", "web"], [], ["food"], ["text"], ["game"]]


def session(model: Any, **options: Any) -> Any:
    exported = lrml.to_onnx(model, **options)
    onnx.checker.check_model(exported, full_check=True)
    return onnxruntime.InferenceSession(exported.SerializeToString(), providers=["CPUExecutionProvider"])


def run(running: Any, rows: Any) -> dict[str, Any]:
    name = running.get_inputs()[0].name
    rows = np.array(rows, dtype=object) if name == "text" else rows
    return dict(
        zip([output.name for output in running.get_outputs()], running.run(None, {name: rows}), strict=True)
    )


def assert_ranked(found: dict[str, Any], scores: Any, k: int, classes: Any = None) -> None:
    """Check the best labels of a graph by the scores of Python; scores that are close may change places."""
    best = -np.sort(-scores, axis=1)[:, :k]
    np.testing.assert_allclose(found["top_scores"], best, rtol=0, atol=1e-5)
    places = found["top_indices"]
    np.testing.assert_allclose(np.take_along_axis(scores, places, axis=1), best, rtol=0, atol=1e-5)
    assert all(len(set(row)) == k for row in places.tolist())
    names = places if classes is None else np.asarray(classes)[places]
    assert found["top_labels"].tolist() == names.tolist()


FAMILY = [
    MLFro(1.0, prune=300),
    LRMLCV(LRML(loss="logistic", prune=500), alphas=0.0, ridges=0.1, cv=0.2, random_state=0),
    LRML(2, 1.0),
    LRML(2, 0.01, loss="logistic"),
    LRML(2, 0.1, loss="squared_hinge"),
    LRMLCV(thetas=[2], cv=0.2, random_state=0),
    MLTrace(5.0),
    MLFro(1.0, calibrate="sigmoid"),
    MLFroCV(),
    LEML(3),
    CPLST(4),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "model", FAMILY, ids=lambda model: f"{type(model).__name__}-{getattr(model, 'loss', '')}"
)
def test_scores_and_the_best_labels_are_those_of_the_model(model: Any, dtype: Any) -> None:
    yeast = load_yeast()
    X, Y = yeast.train
    rows = np.asarray(yeast.test[0], dtype=dtype)
    model.fit(np.asarray(X, dtype=dtype), Y)
    found = run(session(model, top_k=4), rows)
    assert found["scores"].dtype == dtype
    products = sum(node.op_type == "MatMul" for node in lrml.to_onnx(model).graph.node)
    by_factors = hasattr(model, "rank_") and model.rank_ * (103 + 14) < 103 * 14
    assert products == (2 if by_factors else 1)  # factors, where these are smaller
    np.testing.assert_allclose(found["scores"], model.decision_function(rows), rtol=0, atol=1e-5)
    assert not model.unseen_labels_.any()
    assert_ranked(found, model.decision_function(rows), 4)  # labels without names are numbers
    assert ("probabilities" in found) == hasattr(model, "predict_proba")
    if "probabilities" in found:
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(rows), rtol=0, atol=1e-5)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_ties_go_to_the_first_label_and_unseen_labels_come_last(data: st.DataObject) -> None:
    n_labels = data.draw(st.integers(2, 7))
    k = data.draw(st.integers(1, n_labels))
    model = MLFro(1.0).fit(np.eye(3), np.ones((3, n_labels), dtype=int))
    # The scores of the only feature's row are the coefficients: small whole numbers, so that many are equal.
    scores = np.array(
        data.draw(st.lists(st.integers(-2, 2), min_size=n_labels, max_size=n_labels)), dtype=float
    )
    unseen = np.array(data.draw(st.lists(st.booleans(), min_size=n_labels, max_size=n_labels)))
    nothing = model.factors_._replace(U=np.zeros((3, 1)), s=np.zeros(1), V=np.zeros((n_labels, 1)))
    model.fitted_ = replace(model.fitted_, factors=nothing, intercept=scores, unseen=unseen)
    found = run(session(model, top_k=k), np.ones((2, 3)))
    order = sorted(
        range(n_labels),
        key=lambda j: (model.unseen_labels_[j], 0 if model.unseen_labels_[j] else -scores[j], j),
    )
    np.testing.assert_array_equal(found["top_indices"], [order[:k]] * 2)
    np.testing.assert_array_equal(found["top_scores"], [scores[order[:k]]] * 2)
    np.testing.assert_array_equal(found["top_labels"], model.predict_top_k(np.ones((2, 3)), k).labels)


def tagger(vectorizer: Any = None, **options: Any) -> TextTagger:
    vectorizer = TfidfVectorizer(**options) if vectorizer is None else vectorizer
    return TextTagger(MLFro(0.1), vectorizer=vectorizer).fit(TEXTS, TAGS)


VECTORIZERS = [
    TfidfVectorizer(),
    TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2)),
    TfidfVectorizer(dtype=np.float32, ngram_range=(1, 3), sublinear_tf=True),
    TfidfVectorizer(norm="l1", use_idf=False, lowercase=False),
    TfidfVectorizer(norm=None, binary=True),
    TfidfVectorizer(stop_words=["fast", "the"], token_pattern=r"(?u)\b\w+\b"),
    TfidfVectorizer(stop_words="english", ngram_range=(1, 2)),
    CountVectorizer(ngram_range=(2, 3), stop_words=["fast", "don't", "on line", "été"]),
    CountVectorizer(binary=True),
]


@pytest.mark.parametrize("vectorizer", VECTORIZERS, ids=repr)
def test_texts_get_the_scores_of_the_tagger(vectorizer: Any) -> None:
    model = tagger(vectorizer)
    texts = [
        *TEXTS,
        "new words, fast fast fast CHESS",
        "!?",
        "été ÉTÉ Crêpes",
        "fast\nimage\tviewer",
        "x" * 5000,
    ]
    found = run(session(model, top_k=3), texts)
    np.testing.assert_allclose(found["scores"], model.decision_function(texts), rtol=0, atol=1e-5)
    assert_ranked(found, model.decision_function(texts), 3, model.classes_)
    alone = run(session(model), ["", ""])  # no token in the whole batch
    np.testing.assert_allclose(alone["scores"], model.decision_function(["", ""]), rtol=0, atol=1e-5)


# What Python and the C library put into lower case differently: İ becomes two letters in one of them, and a
# sigma has another form at the end of a word.
SAME_LOWER_CASE = st.characters(exclude_characters="İΣς", exclude_categories=["Cs", "Cn", "Co"])


@pytest.fixture(scope="module")
def exported_tagger() -> tuple[TextTagger, Any]:
    model = tagger(sublinear_tf=True, stop_words="english", ngram_range=(1, 2))
    return model, session(model)


@settings(max_examples=50, deadline=None)
@given(
    texts=st.lists(
        st.one_of(
            st.text(SAME_LOWER_CASE, max_size=20),
            st.lists(
                st.sampled_from([*" ".join(TEXTS).split(), "É", "_", "-", "of", "The", "a", "Ⅷ", "²", "😀"]),
                max_size=8,
            ).map(" ".join),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_any_text_is_cut_into_words_as_scikit_learn_does(exported_tagger: Any, texts: list[str]) -> None:
    model, running = exported_tagger
    np.testing.assert_allclose(
        run(running, texts)["scores"], model.decision_function(texts), rtol=0, atol=1e-5
    )


@pytest.mark.parametrize(
    ("vectorizer", "words"),
    [
        (HashingVectorizer(n_features=64), "HashingVectorizer"),
        (TfidfVectorizer(analyzer="char_wb"), "analyzer='char_wb'"),
        (TfidfVectorizer(strip_accents="unicode"), "strip_accents='unicode'"),
        (TfidfVectorizer(tokenizer=str.split, token_pattern=None), "tokenizer="),
        (TfidfVectorizer(token_pattern=r"[a-z]+"), r"token_pattern='\[a-z\]\+'"),
    ],
)
def test_what_onnx_cannot_repeat_is_refused_with_a_way_out(vectorizer: Any, words: str) -> None:
    model = tagger(vectorizer)
    with pytest.raises(ValueError, match=words) as refused:
        lrml.to_onnx(model)
    assert "Pass text=False" in str(refused.value)
    found = run(session(model, text=False), model.transform(TEXTS).toarray())
    np.testing.assert_allclose(found["scores"], model.decision_function(TEXTS), rtol=0, atol=1e-5)


def test_the_metadata_name_labels_features_and_version() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    X = pandas.DataFrame(np.eye(4), columns=["a", "b", "c", "d"])
    Y = pandas.DataFrame({"süß": [0, 1, 0, 1], "<b>": [1, 0, 0, 1]})
    running = session(MLFro(1.0).fit(X, Y), top_k=1)
    metadata = running.get_modelmeta().custom_metadata_map
    assert json.loads(metadata["labels"]) == ["süß", "<b>"]
    assert json.loads(metadata["features"]) == ["a", "b", "c", "d"]
    assert (metadata["model"], metadata["lrml_version"]) == ("MLFro", lrml.__version__)
    # The other two rows have both labels, or none: their scores are equal but for rounding.
    assert run(running, np.eye(4)[:2])["top_labels"].tolist() == [["<b>"], ["süß"]]
    tagged = session(tagger()).get_modelmeta().custom_metadata_map
    assert json.loads(tagged["labels"]) == ["food", "game", "graphics", "text", "web"]
    assert tagged["model"] == "TextTagger(MLFro)"


@pytest.mark.parametrize(
    "threshold", [None, 0.3, "auto", np.linspace(0.1, 0.6, 14), Cut("f1_macro", per_label=True)]
)
def test_the_threshold_comes_along(threshold: Any) -> None:
    X, Y = load_yeast().train
    model = LRML(threshold=threshold).fit(X, Y)
    running = session(model)
    np.testing.assert_array_equal(run(running, X)["assigned"], model.predict(X) > 0)
    told = json.loads(running.get_modelmeta().custom_metadata_map["threshold"])
    np.testing.assert_allclose(told, model.threshold_, rtol=1e-12)


def test_what_operators_cannot_calibrate_stands_in_the_metadata() -> None:
    X, Y = load_yeast().train
    model = MLFro(1.0, calibrate="isotonic").fit(X, Y)
    running = session(model)
    scores = run(running, X)
    assert "probabilities" not in scores
    told = json.loads(running.get_modelmeta().custom_metadata_map["calibration"])
    curve = np.interp(scores["scores"], told["knots"], told["heights"])
    found = 1 / (1 + np.exp(-(np.array(told["slopes"]) * curve + told["offsets"])))
    np.testing.assert_allclose(found, model.predict_proba(X), atol=1e-5)


TRANSFORMERS = {
    "scaled": make_pipeline(StandardScaler(), MLFro(1.0)),
    "not centred": make_pipeline(StandardScaler(with_mean=False), MaxAbsScaler(), MLFro(1.0)),
    "not scaled": make_pipeline("passthrough", StandardScaler(with_std=False), None, MLFro(1.0)),
    "nothing": make_pipeline("passthrough", MLFro(1.0)),
    **{f"norm {norm}": make_pipeline(Normalizer(norm), MLFro(1.0)) for norm in ("l1", "l2", "max")},
    "tf-idf": make_pipeline(MaxAbsScaler(), TfidfTransformer(sublinear_tf=True), MLFro(1.0)),
    "svd": make_pipeline(StandardScaler(), make_pipeline(TruncatedSVD(5, random_state=0), LRML(2, 1.0))),
    "pca": make_pipeline(PCA(6, whiten=True), PCA(4), MLFro(1.0, loss="logistic")),
    "union": make_pipeline(
        make_union(StandardScaler(), make_pipeline(Normalizer(), PCA(3)), "drop"), MLFro(1.0)
    ),
    "search": GridSearchCV(make_pipeline(StandardScaler(), MLFro()), {"mlfro__alpha": [1.0]}, cv=2),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", TRANSFORMERS)
def test_transformers_do_what_scikit_learn_does(name: str, dtype: Any) -> None:
    (X, Y), (new, _) = load_yeast().train, load_yeast().test
    X, new = (np.abs(rows[:200, :30]).astype(dtype) * (rows[:200, 30:60] > 0) for rows in (X, new))
    new[0] = 0  # a row without a length
    model = clone(TRANSFORMERS[name]).fit(X, Y[:200])
    found = run(session(model, top_k=3), new)
    np.testing.assert_allclose(
        found["scores"], model.decision_function(new), rtol=0, atol=2e-4 if dtype == np.float32 else 1e-9
    )
    assert_ranked(found, found["scores"], 3)


def test_a_pruned_model_is_a_small_graph() -> None:
    X, Y = load_yeast().train
    model = MLFro(1.0).fit(X, Y)
    whole, small = (len(lrml.to_onnx(one).SerializeToString()) for one in (model, model.pruned(100)))
    assert whole - small > 103 * 14 * 8 - 100 * 16 - 200


def test_what_cannot_be_exported_is_refused() -> None:
    X, Y = load_yeast().train
    model = MLFro(1.0).fit(X[:50], Y[:50])
    with pytest.raises(ValueError, match="top_k is 15"):
        lrml.to_onnx(model, top_k=15)
    with pytest.raises(TypeError, match="text must be True or False, got 'no'"):
        lrml.to_onnx(model, text="no")
    with pytest.raises(ValueError, match="kernel='rbf'"):
        lrml.to_onnx(MLFro(1.0, kernel="rbf").fit(X[:50], Y[:50]))
    with pytest.raises(TypeError, match="LogisticReg"):
        lrml.to_onnx(LogisticRegression())
    with pytest.raises(ValueError, match="1-D y"):
        lrml.to_onnx(MLFro(1.0).fit(X[:50], Y[:50, 0]))
    with pytest.raises(ValueError, match="QuantileTransformer"):
        lrml.to_onnx(make_pipeline(QuantileTransformer(n_quantiles=20), MLFro(1.0)).fit(X[:50], Y[:50]))
    for unfitted in (MLFro(), TextTagger()):
        with pytest.raises(NotFittedError):
            lrml.to_onnx(unfitted)
