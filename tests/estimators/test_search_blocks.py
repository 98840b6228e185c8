"""Searches over blocks of rows: the same decisions as in memory."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.model_selection import KFold

from lrml import (
    CPLST,
    CPLSTCV,
    LEML,
    LEMLCV,
    LRML,
    LRMLCV,
    MLFro,
    MLFroCV,
    MLTrace,
    MLTraceCV,
    SpectralRegressorCV,
)
from lrml.blocks import BlockError, Checkpoint
from lrml.metrics import label_ranking_average_precision
from model_checks import blocks_of

SEARCHES = [
    LRMLCV(LRML(threshold="auto"), thetas=[0, 2], random_state=3),
    MLTraceCV(MLTrace(threshold="auto"), random_state=3),
    MLFroCV(MLFro(threshold="auto", fit_intercept=False), random_state=3),
    CPLSTCV(CPLST(threshold="auto"), ridges=[0.1, 5.0], random_state=3),
    LEMLCV(LEML(threshold="auto"), ranks=[1, 3, 7], random_state=3),
]


@pytest.fixture(scope="module")
def data():
    """Correlated labels, of which one has no positive example, one a single one that weighs anything."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((400, 9)) * np.geomspace(0.1, 10.0, 9) + 3.0
    W = rng.standard_normal((9, 2)) @ rng.standard_normal((2, 7))
    Y = (X @ W + 8.0 * rng.standard_normal((400, 7)) > 4.0).astype(np.int64)
    Y[:, 5] = 0
    Y[:, 6] = np.isin(np.arange(400), (77, 90))
    weights = rng.uniform(0.1, 2.0, 400)
    weights[80:100] = 0.0
    return X, Y, weights


def draws(edges, seed):
    """Return two numbers for every row: the smallest first ones make the sample, the second ones folds."""
    blocks = enumerate(pairwise([0, *edges, 400]))
    return np.hstack([np.random.default_rng([seed, i, 0]).random((2, b - a)) for i, (a, b) in blocks])


def folds_of(edges, seed, bounds):
    """Return splits, given where the folds in [0, 1) end."""
    fold = np.searchsorted(bounds, draws(edges, seed)[1], side="right")
    return [(np.flatnonzero(fold != number), np.flatnonzero(fold == number)) for number in range(len(bounds))]


def assert_same(search, other, tol=1e-8):
    assert search.cv_results_.keys() == other.cv_results_.keys()
    for name, values in other.cv_results_.items():
        if name == "params":
            for mine, theirs in zip(search.cv_results_[name], values, strict=True):
                assert mine == pytest.approx(theirs, rel=tol)
        else:
            np.testing.assert_allclose(search.cv_results_[name], values, rtol=tol, err_msg=name)
    assert search.best_params_ == pytest.approx(other.best_params_, rel=tol)
    assert search.best_score_ == pytest.approx(other.best_score_, rel=tol)
    np.testing.assert_allclose(search.coef_, other.coef_, atol=tol * np.abs(other.coef_).max())


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
def test_folds_are_drawn_block_by_block(search, data):
    X, Y, w = data
    for cv, bounds, form in ((3, [1 / 3, 2 / 3, 1], np.asarray), (0.3, [0.3], sp.csr_array)):
        blocks = [(form(x), form(y), v) for x, y, v in blocks_of(data, [3, 200, 201])]
        found = clone(search).set_params(cv=cv).fit_blocks(iter(blocks))
        splits = folds_of([3, 200, 201], 3, bounds)
        expected = clone(search).set_params(cv=splits).fit(form(X), form(Y), w)
        assert_same(found, expected)
        assert found.threshold_ == pytest.approx(expected.threshold_, rel=1e-5)
        assert found.n_splits_ == len(bounds)
        assert sp.issparse(found.predict(form(X))) == (form is sp.csr_array)


def test_leave_one_out_scores_are_those_of_all_rows(data):
    X, Y, w = data
    search = MLFroCV(random_state=3)
    assert_same(clone(search).fit_blocks(blocks_of(data, [250])), search.fit(X, Y, w))
    some = np.where(np.arange(400) < 30, 1.0, w)
    mixed = [(X[:30], Y[:30]), (X[30:], Y[30:], w[30:])]
    assert_same(clone(search).fit_blocks(mixed), search.fit(X, Y, some))


def test_more_rows_than_the_sample_holds(data, monkeypatch):
    monkeypatch.setattr("lrml.estimators._splits._LEAST_ROWS", 60)
    monkeypatch.setattr("lrml.estimators._splits._MOST_NUMBERS", 60)
    X, Y, _ = data
    edges = range(20, 400, 20)
    order = np.argsort(draws(edges, 9)[0])
    sample = np.sort(order[:60])
    Y = Y.copy()
    Y[:, 6] = np.isin(np.arange(400), order[[5, 70]])  # alone in the sample, but not in the whole
    blocks = blocks_of((X, Y), edges)
    search = MLFroCV(alphas=[0.5, 5.0], random_state=9).fit_blocks(blocks)
    for alpha, score in zip((0.5, 5.0), search.cv_results_["mean_test_score"], strict=True):
        scores = MLFro(alpha).leave_one_out_scores(X, Y)[sample]
        assert score == pytest.approx(label_ranking_average_precision(Y[sample], scores), rel=1e-9)
    np.testing.assert_allclose(search.coef_, MLFro(**search.best_params_).fit(X, Y).coef_, atol=1e-10)
    folds = MLFroCV(alphas=[0.5, 5.0], cv=2, random_state=9).fit_blocks(blocks)
    train, test = folds_of(edges, 9, [0.5, 1.0])[1]
    test = np.intersect1d(test, sample)
    for alpha, score in zip((0.5, 5.0), folds.cv_results_["split1_test_score"], strict=True):
        scores = MLFro(alpha).fit(X[train], Y[train]).decision_function(X[test])
        assert score == pytest.approx(label_ranking_average_precision(Y[test], scores), rel=1e-9)


def test_a_run_that_was_killed_goes_on_with_the_same_bits(data, tmp_path):
    for name, form in (("dense", np.asarray), ("sparse", sp.csr_array)):
        blocks = [(form(x), form(y), v) for x, y, v in blocks_of(data, [2, 150, 300])]
        search, path = LRMLCV(thetas=[0, 2], alphas=[0.0, 5.0], ridges=[0.1, 1.0], cv=3), tmp_path / name

        def interrupted(blocks=blocks):
            yield from blocks[:3]
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            clone(search).fit_blocks(interrupted(), checkpoint=Checkpoint(path, seconds=0))
        again = clone(search).fit_blocks(blocks, checkpoint=path)
        whole = clone(search).fit_blocks(blocks)
        assert np.array_equal(again.coef_, whole.coef_)
        for key, values in whole.cv_results_.items():
            np.testing.assert_array_equal(again.cv_results_[key], values)
        for other in ({"cv": 4}, {"random_state": 1}):
            with pytest.raises(ValueError, match="other folds"):
                clone(search).set_params(**other).fit_blocks(blocks, checkpoint=path)
        LRML().fit_blocks(blocks, checkpoint=tmp_path / f"{name} of another kind")
        with pytest.raises(ValueError, match="of another kind"):
            clone(search).fit_blocks(blocks, checkpoint=tmp_path / f"{name} of another kind")


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (LRMLCV(LRML(loss="logistic")), r"loss='logistic'.*LRML\.fit_blocks"),
        (MLTraceCV(MLTrace(kernel="rbf")), r"kernel='rbf'.*Nystroem"),
        (MLFroCV(cv=KFold(3)), r"cv=.*KFold.*MLFro\.fit_blocks"),
        (CPLSTCV(cv=[([0, 1], [2])]), r"cv=.*\[\(.*cv=5"),
        (LRMLCV(thetas=[8]), r"theta .*8"),
        (MLFroCV(MLFro(threshold=[0.5, 0.5])), r"threshold .*7"),
        (MLFroCV(scoring="precision_at_9"), r"precision_at_9"),
    ],
    ids=repr,
)
def test_what_sums_and_a_sample_cannot_tell_is_refused_before_anything_is_summed(search, message, data):
    def blocks():
        yield data
        pytest.fail("read too far")

    with pytest.raises(ValueError, match=message):
        search.fit_blocks(blocks())
    assert not hasattr(search, "best_params_")


def test_bad_blocks(data):
    X, Y, w = data
    search = MLFroCV(alphas=[1.0, 2.0]).fit(X, Y)
    broken, unknown = X.copy(), Y.astype(float)
    broken[210, 3] = unknown[5, 2] = np.nan
    with pytest.raises(BlockError, match=r"block 2, row 210: .*NaN") as caught:
        search.fit_blocks(blocks_of((broken, Y), [100, 200]))
    sums = MLFro(1.0).fit_statistics(caught.value.sums)
    np.testing.assert_allclose(sums.coef_, MLFro(1.0).fit(X[:200], Y[:200]).coef_, atol=1e-10)
    with pytest.raises(BlockError, match=r"block 0 .*fit_blocks of .*MLFro"):
        search.fit_blocks([(X, unknown)])
    with pytest.raises(ValueError, match=r"sample_weight"):
        search.fit_blocks([(X, Y, 0.0 * w)])
    with pytest.raises(ValueError, match=r"Split \d+ "):
        clone(search).set_params(cv=50).fit_blocks([(X[:20], Y[:20])])
    assert search.n_splits_ == 1  # as before


def test_names_of_columns_one_label_and_real_targets(data):
    X, Y, w = data
    frames = pd.DataFrame(X, columns=list("abcdefghi")), pd.DataFrame(Y, columns=list("tuvwxyz"))
    search = MLFroCV(alphas=[1.0]).fit_blocks(blocks_of(frames, [100]))
    assert list(search.feature_names_in_) == list("abcdefghi")
    assert list(search.classes_) == list(search.best_estimator_.classes_) == list("tuvwxyz")
    flat = np.where(X[:, 8] > 3.0, "yes", "no")
    one = MLFroCV(random_state=0).fit_blocks(blocks_of((X, flat, w), [100]), classes=["no", "yes"])
    assert_same(one, MLFroCV(random_state=0).fit(X, flat, w))
    assert set(one.predict(X)) == {"no", "yes"}
    targets, given = 1e3 + X[:, :3] ** 2, {"alphas": 0, "ridges": [1.0, 5.0]}
    real = SpectralRegressorCV(cv=0.5, **given).fit_blocks(blocks_of((X, targets, w), [100]))
    splits = folds_of([100], 0, [0.5])
    assert_same(real, SpectralRegressorCV(cv=splits, **given).fit(X, targets, w))
    state = np.random.RandomState(4)
    assert MLFroCV(alphas=1.0, random_state=state).fit_blocks([(X, Y)]).n_splits_ == 1
