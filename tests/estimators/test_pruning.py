"""Pruned models: the largest coefficients of the whole matrix, found afterwards, or in the fit."""

import pickle
import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

from lrml import LRML, LRMLCV, MLFro, MLFroCV, TextTagger, metrics, predict_top_k
from lrml.estimators._pruning import Largest, blocks_of, largest, threshold_for
from lrml.inspection import describe_model, explain
from lrml.solvers import separable

RANDOM = np.random.default_rng(0)
X = sp.random_array((300, 80), density=0.2, rng=RANDOM, format="csr")
Y = (X @ RANDOM.normal(size=(80, 30)) + RANDOM.normal(size=(300, 30)) > 1.5).astype(int)
Y[:, 3], Y[:, 5] = 0, 1  # a label that none has, and one that all have
MODELS = {
    "ridge": MLFro(1.0),
    "low rank": LRML(2, 20.0),
    "search": LRMLCV(random_state=0),
    "several": LRMLCV(scoring=["f1_micro", "precision_at_1"], alphas=0.0, random_state=0),
}


def cut_off(W, count):
    """All but the largest numbers replaced by 0, by sorting them."""
    return np.where(np.abs(W) > np.sort(np.abs(W), axis=None)[-count - 1], W, 0.0)


@pytest.mark.parametrize("name", MODELS)
def test_the_largest_coefficients_are_kept_and_score_rows(name):
    model = MODELS[name].fit(X, Y)
    small = model.pruned(300)
    W = cut_off(model.coef_, 300)
    np.testing.assert_allclose(small.coef_.toarray(), W, rtol=1e-12)
    assert (small.n_weights_, small.coef_.shape) == (300, (30, 80))
    assert small.nbytes_ == small.coef_.nnz * 12 + 81 * 4 + 30 * 8
    expected = X @ W.T + model.intercept_
    for rows in (X, X.toarray(), sp.csc_array(X)):
        np.testing.assert_allclose(small.decision_function(rows), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_array_equal(small.predict(X), expected >= model.threshold_)
    best = np.argsort(np.where(small.unseen_labels_, np.inf, -expected), axis=1, kind="stable")[:, :4]
    np.testing.assert_array_equal(predict_top_k(small, X, 4).labels, best)
    of_row = explain(small, X[[0]], 7, n=None)
    assert sum(value for _, value in of_row) == pytest.approx(expected[0, 7] - model.intercept_[7])
    again = pickle.loads(pickle.dumps(small))
    np.testing.assert_array_equal(again.decision_function(X), small.decision_function(X))
    assert np.count_nonzero(model.coef_) > 300  # as it was
    for gone in ("factors_", "rank_", "singular_values_"):
        assert (hasattr(model, gone), hasattr(small, gone)) == (True, False)


def test_a_pruned_model_is_described_by_its_own_coefficients():
    small = MLFro(1.0).fit(X, Y).pruned(300)
    W = small.coef_.toarray()
    found = describe_model(small, n_labels=30, n_features=80)
    assert (found.singular_values, found.fitted["weights"]) == ([], 300)
    norms = {one["name"]: one["norm"] for one in found.labels}
    for place, row in enumerate(W):
        assert norms.get(str(place), 0.0) == pytest.approx(np.linalg.norm(row))
    pair = found.pairs[0]
    one, other = W[int(pair["first"])], W[int(pair["second"])]
    assert pair["cosine"] == pytest.approx(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@given(
    W=st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed).standard_t(2, size=(9, 14))),
    share=st.floats(0.0, 0.99),
    count=st.integers(1, 130),
    width=st.integers(1, 14),
)
def test_so_many_are_kept_or_so_much_is_left_out(W, share, count, width):
    def blocks():
        return blocks_of(W, most=9 * width)

    expected = cut_off(W, count) if count < W.size else W
    np.testing.assert_array_equal(largest(blocks, W.shape, n_weights=count).toarray(), expected)
    kept = largest(blocks, W.shape, loss=share).toarray()
    left, squares = np.sort(np.abs(W[kept == 0])), np.sum(W**2)
    assert np.sum(left**2) <= share * squares * (1 + 1e-12)
    # A binary digit further, too much would be left out.
    edge = np.abs(kept[kept != 0]).min(initial=np.inf)
    assert np.sum(W[np.abs(W) <= edge * (1 + 2**-6)] ** 2) > share * squares * (1 - 1e-12)


@pytest.mark.parametrize("scale", [2.0**-660, 2.0**-200, 2.0**200, 2.0**660])
def test_the_share_of_squares_has_no_scale(scale):
    W = RANDOM.standard_normal((9, 14))
    kept = largest(lambda: blocks_of(scale * W), W.shape, loss=0.3).toarray()
    np.testing.assert_array_equal(kept != 0, largest(lambda: blocks_of(W), W.shape, loss=0.3).toarray() != 0)


def test_of_nothing_nothing_is_left_out():
    small = MLFro(1.0).fit(X, 0 * Y).pruned(loss=0.1)
    assert (small.n_weights_, small.coef_.shape) == (0, (30, 80))


def test_equal_numbers_at_the_threshold_go_together_in_any_order():
    W = np.array([[3.0, 1.0, 1.0], [1.0, 2.0, -1.0]])
    for order in ([0, 1, 2], [2, 1, 0]):
        kept = Largest(4)
        for column in order:
            kept.add(np.array([column]), W[:, [column]])
        np.testing.assert_array_equal(kept.matrix(W.shape).toarray(), [[3.0, 0, 0], [0, 2.0, 0]])


@pytest.mark.parametrize("model", [MLFro(0.5, tol=1e-10), LRML(alpha=0.0, ridge=0.5, tol=1e-10)])
@pytest.mark.parametrize("loss", ["squared", "squared_hinge", "logistic"])
def test_pruned_as_it_is_fitted(model, loss, monkeypatch):
    """In several groups of labels, with names and labels that need no coefficients, as afterwards."""
    whole = model.set_params(loss=loss, prune=None).fit(X, Y)
    monkeypatch.setattr(separable, "_SCORES_IN_WORK", 300 * 7)
    small = model.set_params(prune=200).fit(X, Y)
    np.testing.assert_allclose(small.coef_.toarray(), whole.pruned(200).coef_.toarray(), atol=1e-5)
    np.testing.assert_allclose(small.intercept_, whole.intercept_, atol=1e-5)
    assert small.n_weights_ == 200
    assert small.objective_ == pytest.approx(whole.objective_, rel=1e-6)


def test_coefficients_never_exist_as_a_whole():
    """6,000 features and 2,000 labels, which would take 48 MB; ridge regression by scikit-learn agrees."""
    random = np.random.default_rng(1)
    rows = sp.random_array((3100, 6000), density=0.002, rng=random, format="csr", dtype=np.float32)
    labels = sp.random_array((3100, 2000), density=0.001, rng=random, format="csr")
    labels.data[:] = 1.0
    first = labels[:, :40]
    MLFro(0.5, prune=10, tol=0.1).fit(rows, first)  # imports and all
    tracemalloc.start()
    model = MLFro(0.5, prune=4000, tol=0.1).fit(rows, labels[:, :600])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.n_weights_ == 4000
    assert peak < 200e6
    small = MLFro(0.5, prune=1000, tol=1e-9).fit(rows, first)
    W = Ridge(0.5, solver="sparse_cg", tol=1e-10).fit(rows.astype(np.float64), first.toarray()).coef_
    assert abs(small.coef_ - cut_off(W, 1000)).max() < 1e-4


def test_as_few_as_change_next_to_nothing():
    random = np.random.default_rng(2)
    words = random.integers(1400, size=(100, 5))  # of every label
    of_row = random.integers(100, size=(2000, 2))
    labels, rows = np.zeros((2000, 100), int), np.zeros((2000, 1400))
    heard = random.integers(1, 5, size=2000)  # words of each label that are said
    for row, both in enumerate(of_row):
        labels[row, both] = 1
        rows[row, random.permuted(words[both], axis=1)[:, : heard[row]].ravel()] = 1.0
        rows[row, random.integers(1400)] = 1.0
    rows = sp.csr_array(rows / 4.0)
    train, test = slice(0, 1400), slice(1400, None)
    whole = MLFro(0.3).fit(rows[train], labels[train])
    small = MLFro(0.3, prune="auto").fit(rows[train], labels[train])
    assert 0 < small.n_weights_ < 140_000 / 4
    np.testing.assert_allclose(small.coef_.toarray(), cut_off(whole.coef_, small.n_weights_), atol=1e-12)
    quality = [
        metrics.label_ranking_average_precision(
            labels[test], model.decision_function(rows[test]), per_example=True
        )
        for model in (whole, small)
    ]
    change = quality[1] - quality[0]
    assert abs(np.nanmean(change)) < 0.5 * np.nanstd(quality[0]) / np.sqrt(600)
    search = LRMLCV(LRML(loss="squared_hinge", prune="auto"), alphas=0.0, ridges=0.3, cv=0.2, random_state=0)
    chosen = search.fit(rows[train], labels[train])
    assert chosen.best_estimator_.n_weights_ == chosen.n_weights_ < 140_000 / 4
    # Words that only come together have equal coefficients, perhaps just where it begins to look.
    size, W = np.sort(np.abs(whole.coef_), axis=None)[::-1], whole.coef_.T.copy()
    alike = (np.abs(W) < size[34_900]) & (np.abs(W) > size[35_100])
    W[alike] = size[35_000]
    fit = replace(whole.fitted_, factors=None, weights=sp.csr_array(W))
    assert fit.pruned(n_weights=35_000).n_weights < 35_000
    assert threshold_for(fit, rows[test], labels[test]) > 0
    # Dense features, and what is small, stay as they are.
    assert MLFro(0.3, prune="auto").fit(rows[train].toarray(), labels[train]).rank_ == 100
    assert MLFro(0.3, prune="auto").fit(rows[train][:, :200], labels[train][:, :9]).rank_ == 9


def test_a_tagger_prunes_a_large_model_unless_it_is_told_otherwise():
    random = np.random.default_rng(3)
    words = [f"word{number}" for number in range(3000)]
    texts = [" ".join(random.choice(words, 30)) for _ in range(400)]
    tags = [[text.split()[0][:6], text.split()[1][:5]] for text in texts]
    sizes = {}
    for prune in ("auto", 5000, None):
        tagger = TextTagger(MLFro(1.0), prune=prune).fit(texts, tags)
        sizes[prune] = getattr(tagger.model_, "n_weights_", None)
        assert tagger.model_.prune == prune
    assert (sizes[5000], sizes[None]) == (5000, None)
    assert sizes["auto"] is None or sizes["auto"] <= tagger.model_.coef_.size / 4
    assert TextTagger(MLFro(1.0, prune=77)).fit(texts, tags).model_.n_weights_ == 77
    assert TextTagger(MLFro(1.0, kernel="rbf")).fit(texts, tags).model_.prune is None
    searched = TextTagger(LRMLCV(ridges=1.0, random_state=0), prune=500).fit(texts, tags)
    assert searched.model_.n_weights_ == searched.model_.best_estimator_.n_weights_ == 500


@pytest.mark.parametrize(
    "make", [clone, partial(LRMLCV, random_state=0), partial(LRMLCV, cv=3, random_state=0)]
)
def test_probabilities_and_the_cut_are_those_of_the_pruned_scores(make):
    options = {"calibrate": "sigmoid", "threshold": "auto"}
    model, whole = (make(LRML(prune=prune, **options)).fit(X, Y) for prune in (100, None))
    late = whole.pruned(100)
    found, other = (metrics.brier_score_loss(Y, one.predict_proba(X)) for one in (model, late))
    assert found < 0.97 * other
    assert metrics.f1_micro(Y, model.predict(X)) > metrics.f1_micro(Y, late.predict(X))
    with pytest.raises(ValueError, match="prune=100"):
        model.leave_one_out_scores(X, Y)


@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
def test_a_search_judges_models_with_so_many_coefficients(loss):
    folds = list(KFold(3, shuffle=True, random_state=0).split(X))
    search = MLFroCV(MLFro(prune=60, loss=loss, tol=1e-6), alphas=[0.1, 10.0], cv=folds).fit(X, Y)
    for place, params in enumerate(search.cv_results_["params"]):
        for number, (train, test) in enumerate(folds):
            model = MLFro(prune=60, loss=loss, tol=1e-6, **params).fit(X[train], Y[train])
            found = search.cv_results_[f"split{number}_test_score"][place]
            assert found == pytest.approx(model.score(X[test], Y[test]), abs=2e-3)


def test_what_cannot_be_pruned():
    model = MLFro(1.0).fit(X, Y)
    for wrong in ({}, {"n_weights": 3, "loss": 0.1}, {"n_weights": 0}, {"loss": 1.0}, {"loss": -0.1}):
        with pytest.raises(ValueError, match=r"n_weights|loss"):
            model.pruned(**wrong)
    with pytest.raises(ValueError, match="kernel"):
        MLFro(1.0, kernel="rbf").fit(X, Y).pruned(3)
    with pytest.raises(ValueError, match="kernel"):
        MLFro(1.0, kernel="rbf", prune=3).fit(X, Y)
    with pytest.raises(ValueError, match="prune='auto'"):
        MLFro(1.0, prune="auto").fit_blocks([(X, Y)])
    with pytest.raises(ValueError, match="prune='auto'"):
        LRMLCV(LRML(prune="auto")).fit_blocks([(X, Y)])
    small = model.set_params(warm_start=True).pruned(3)
    np.testing.assert_array_equal(small.fit(X, Y).coef_, model.coef_)  # begins anew, and is whole again
