"""The family as scikit-learn estimators: the official checks, and the tools that people put around them."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn import config_context, get_config
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import label_ranking_average_precision_score, r2_score
from sklearn.utils.estimator_checks import check_estimator

from lrml import CPLST, LEML, LRML, LRMLCV, MLFro, MLTrace, SpectralRegressor, TextTagger
from sklearn_failures import CUT, NO_STEP, unexpected

# The official checks

# Scores in double precision: weights must be repetitions to seven digits.
DOUBLE = {"tol": 5e-6, "max_iter": 5000}
CHECKED = [
    LRML(),
    SpectralRegressor(),
    CPLST(),
    LEML(),
    MLFro(1.0, kernel="rbf"),
    # Free singular values and labels that can be separated: without a ridge probabilities would end as 1.
    LRML(loss="logistic", ridge=0.1, **DOUBLE),
]


@pytest.mark.parametrize("estimator", CHECKED, ids=repr)
def test_every_check_passes_but_those_that_cannot_apply(estimator):
    squared = estimator.get_params().get("loss", "squared") == "squared"
    expected = [CUT] if squared and is_classifier(estimator) else []
    if squared and type(estimator) in (MLFro, LEML, LRML, SpectralRegressor):
        expected.append(NO_STEP)
    assert not unexpected(check_estimator, estimator, *expected)


def test_the_check_for_many_labels_passes_with_the_cut_it_assumes():
    results = check_estimator(LRML(threshold=0.0), on_skip=None, on_fail=None)
    assert [result["status"] for result in results if result["check_name"] == CUT] == ["passed"]


# Parameters


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(60, 5, 4, seed=3)


def test_kinds_parameters_and_words(data):
    for kind in (LRML, MLTrace, MLFro, LEML, CPLST, SpectralRegressor):
        plain, labels = kind(), kind is not SpectralRegressor
        assert (is_classifier(plain), is_regressor(plain)) == (labels, not labels)
        for name in ("decision_function", "predict_top_k"):
            assert hasattr(plain, name) == labels
        signature = inspect.signature(kind).parameters
        assert plain.get_params() == {name: p.default for name, p in signature.items()}
        assert eval(repr(plain)).get_params() == plain.get_params()
    assert repr(LRML(theta=3, alpha=None, ridge=0.1)) == "LRML(ridge=0.1, theta=3)"
    params = {"theta": 2, "alpha": 3.0, "ridge": 0.5, "fit_intercept": False, "tol": 1e-12}
    one, other = LRML(**params).fit(*data), LRML().set_params(**params).fit(*data)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert not np.allclose(one.coef_, LRML().fit(*data).coef_)
    with pytest.raises(ValueError, match="'C'"):
        LRML().set_params(C=1.0)


# score


def mean_ranking_precision(Y, scores, weights=None):
    """scikit-learn's average over the rows that have a label."""
    labelled = Y.any(axis=1)
    weights = None if weights is None else weights[labelled]
    return label_ranking_average_precision_score(Y[labelled], scores[labelled], sample_weight=weights)


@pytest.mark.parametrize("weighted", [False, True])
def test_score_is_the_label_ranking_average_precision_or_r2(data, weighted):
    X, Y = data
    Y = np.where(np.arange(60)[:, None] < 7, 0, Y)
    weights = np.random.default_rng(0).integers(1, 4, len(X)) if weighted else None
    model = LRML(theta=1).fit(X, Y)
    expected = mean_ranking_precision(Y, model.decision_function(X), weights)
    assert model.score(X, Y, sample_weight=weights) == pytest.approx(expected, rel=1e-12)
    assert expected < 1
    targets = Y + np.random.default_rng(1).standard_normal(Y.shape)
    real = SpectralRegressor(theta=1).fit(X, targets)
    expected = r2_score(targets, X @ real.coef_.T + real.intercept_, sample_weight=weights)
    assert real.score(X, targets, sample_weight=weights) == pytest.approx(expected, rel=1e-12)
    with pytest.raises(ValueError, match="label"):
        model.score(X, np.zeros_like(Y))
    for bad in (np.ones(3), np.full(60, -1.0), np.zeros(60)):
        with pytest.raises(ValueError, match="sample_weight"):
            model.score(X, Y, sample_weight=bad)


# Around the estimator


class Mixin:
    pass


class Narrow(Mixin, LRML):
    """Has few parameters and defaults of its own, and passes on the rest."""

    def __init__(self, alpha=2.0, threshold="auto"):
        super().__init__(theta=1, alpha=alpha, threshold=threshold)


class Choice(LRMLCV):
    def __init__(self, estimator=None):
        super().__init__(estimator, scoring="f1_micro", thetas=[0, 1])


def test_a_subclass_may_have_fewer_parameters():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 5))
    Y = (X @ rng.standard_normal((5, 3)) + rng.standard_normal((60, 3)) > 0.5).astype(int)
    narrow, usual = Narrow().fit(X, Y), LRML(1, 2.0, threshold="auto").fit(X, Y)
    np.testing.assert_array_equal(clone(narrow).fit(X, Y).coef_, usual.coef_)
    assert (narrow.get_params(), narrow.threshold_) == ({"alpha": 2.0, "threshold": "auto"}, usual.threshold_)
    wide = LRMLCV(LRML(1, 2.0, threshold="auto"), scoring="f1_micro", thetas=[0, 1])
    assert Choice(Narrow()).fit(X, Y).best_params_ == wide.fit(X, Y).best_params_
    with pytest.raises(ValueError, match="alpha"):
        Narrow(alpha=-1.0).fit(X, Y)


# What comes out


def test_the_best_labels_as_a_frame():
    names = pd.DataFrame(np.eye(4, dtype=int), columns=list("abcd"))
    best = LRML().fit(np.eye(4), names).predict_top_k(np.eye(4)[:2], k=3)
    table = best.to_frame()
    assert table["row"].tolist() == [0, 0, 0, 1, 1, 1]
    assert table["rank"].tolist() == [1, 2, 3] * 2
    assert table["label"].tolist() == best.labels.ravel().tolist()
    assert table["score"].tolist() == best.scores.ravel().tolist()
    assert table["label"][0] == "a"


@pytest.mark.parametrize("interface", ["sparray", "spmatrix"])
def test_sparse_answers_are_arrays_whatever_scikit_learn_gives(interface):
    if "sparse_interface" not in get_config():
        pytest.skip("scikit-learn 1.8 has no choice")
    texts, tags = ["a fast chess engine", "a photo viewer"] * 3, [["game"], ["image"]] * 3
    with config_context(sparse_interface=interface):
        tagger = TextTagger(MLFro(1.0)).fit(texts, tags)
        X, given = tagger.transform(texts), TfidfVectorizer().fit_transform(texts)
        model = MLFro(1.0).fit(given, sparse.csr_array(np.eye(6, dtype=int)))
        found = [X, model.predict(given)]
        assert all(isinstance(one, sparse.sparray) for one in found)
        assert tagger.predict(texts[:1]) == [["game"]]
