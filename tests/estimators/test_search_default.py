"""The search by itself: what it computes, by brute force, and whether it pays."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

from lrml import (
    CPLSTCV,
    LEMLCV,
    LRML,
    LRMLCV,
    MLFro,
    MLFroCV,
    MLTrace,
    MLTraceCV,
    SpectralRegressorCV,
)
from lrml.metrics import label_ranking_average_precision

SEARCH = LRMLCV(random_state=0)
FOLDS = KFold(5, shuffle=True, random_state=0)


def plain(**params):
    return LRML(space="predictions", **params)


def low_rank(seed, n=200, d=60, n_labels=40, rank=3, signal=0.5):
    """Targets with noise of variance 1, and the coefficients behind them."""
    rng = np.random.default_rng(seed)
    X, W = rng.standard_normal((n, d)), rng.standard_normal((d, rank)) @ rng.standard_normal((rank, n_labels))
    W *= np.sqrt(signal / np.mean(np.sum(W**2, axis=0)))
    return X, X @ W + rng.standard_normal((n, n_labels)), W


@pytest.fixture(scope="module")
def data():
    """Labels behind which there are few directions, and much noise."""
    X, Y, _ = low_rank(2, 200, 30, 30)
    return X, (Y > 1.0).astype(float)


@pytest.fixture(scope="module")
def found(data):
    return clone(SEARCH).fit(*data)


def assert_consistent(model):
    table, facts = model.cv_results_, model.search_
    best = {name: value for name, value in model.best_params_.items() if name != "gamma"}
    assert best == table["params"][model.best_index_]
    if best["alpha"] > 0 and model.rule == "best":
        assert model.best_score_ == facts["ridge_score"] + facts["gain"]
        assert facts["gain"] > facts["gain_error"]
    else:
        assert model.best_score_ == pytest.approx(table["mean_test_score"][model.best_index_])
    assert model.n_splits_ == 1
    assert model.best_estimator_.n_iter_ == 0


# What it computes


def test_scores_are_leave_one_out_scores_plus_leads_on_folds(data, found):
    X, Y = data
    table, params = found.cv_results_, found.cv_results_["params"]
    alone = [place for place, one in enumerate(params) if one["alpha"] == 0.0]
    exact = [
        label_ranking_average_precision(Y, MLFro(params[i]["ridge"]).leave_one_out_scores(X, Y))
        for i in alone
    ]
    np.testing.assert_allclose(table["mean_test_score"][alone], exact, atol=1e-6)
    rival, base = alone[int(np.argmax(exact))], max(exact)

    def scores(place):
        model = plain(**params[place])
        pairs = ((model.fit(X[train], Y[train]), test) for train, test in FOLDS.split(X))
        return np.array(
            [
                label_ranking_average_precision(Y[test], model.decision_function(X[test]), per_example=True)
                for model, test in pairs
            ]
        )

    others = [place for place in range(len(params)) if place not in alone]
    # Candidate × fold × row; rows without labels say nothing.
    leads = np.array([scores(place) - scores(rival) for place in others])
    estimates = base + np.nanmean(leads, axis=(1, 2))
    np.testing.assert_allclose(table["mean_test_score"][others], estimates, atol=1e-6)
    # What is chosen is worth what choosing is worth: each fold judges the choice of the others.
    means = [np.nanmean(np.delete(leads, fold, axis=1), axis=(1, 2)) for fold in range(5)]
    apart = np.array([leads[np.argmax(means[fold]), fold] for fold in range(5)])
    facts, choice = found.search_, others[int(np.argmax(estimates))]
    assert (facts["ridge"], facts["ridge_score"]) == (params[rival]["ridge"], pytest.approx(base, abs=1e-6))
    assert facts["gain"] == pytest.approx(np.nanmean(apart), abs=1e-6)
    assert facts["gain_rows"] == np.isfinite(apart).sum()
    error = np.nanstd(apart, ddof=1) / np.sqrt(facts["gain_rows"])
    assert facts["gain_error"] == pytest.approx(error, abs=1e-6)
    assert found.best_index_ == choice  # it leads by far
    assert_consistent(found)
    np.testing.assert_array_equal(found.coef_, plain(**found.best_params_).fit(X, Y).coef_)


# What it tries


def test_given_values_are_kept_to(data):
    X, Y = data
    cases = [
        (LRMLCV(thetas=[0, 2]), {"theta": {0, 2}}),
        (LRMLCV(thetas=[3], rule="smallest"), {"theta": {0, 3}}),  # 0 where there is no alpha
        (LRMLCV(ridges=2.0), {"ridge": {2.0}}),
        (MLTraceCV(MLTrace(space="predictions"), ridges=0), {"ridge": {0.0}}),
        (MLTraceCV(ridges=0), {"ridge": {0.0}}),
        (LRMLCV(LRML(space="coefficients"), thetas=[0, 4]), {"theta": {0, 4}}),
    ]
    for model, given in cases:
        table = model.set_params(random_state=0).fit(X, Y).cv_results_
        for name, values in given.items():
            assert set(table[f"param_{name}"]) == values
        assert np.any(table["param_alpha"] > 0)
        assert len({tuple(one.items()) for one in table["params"]}) == len(table["params"])
    trace = MLTraceCV(MLTrace(space="predictions"), ridges=None, random_state=0).fit(X, Y)
    expected = MLTrace(space="predictions", **trace.best_params_).fit(X, Y)
    np.testing.assert_array_equal(trace.coef_, expected.coef_)


@pytest.mark.parametrize("rule", ["best", "smallest", "one_standard_error"])
def test_odd_data(data, rule):
    X, Y = data
    lone = np.zeros((20, 2))
    lone[19, 0] = 1.0
    for A, B in [
        *((X[:n], Y[:n]) for n in (2, 4, 5)),
        *((X[:60], Y[:60, 0]), (X[:60], Y[:60, :2])),
        *((np.ones((40, 3)), Y[:40]), (X[:20], lone), (X[:60, :1], Y[:60])),
    ]:
        model = clone(SEARCH).set_params(rule=rule).fit(A, B)
        assert_consistent(model)
        assert np.isfinite(model.decision_function(A)).all()
        assert len(A) >= 5 or model.best_params_["alpha"] == 0.0  # too few rows for folds
    with pytest.raises(ValueError, match="value on every split"):
        clone(SEARCH).set_params(rule=rule).fit(X, np.zeros_like(Y))


# Whether it pays


def risk(model, W):
    return np.sum((model.coef_.T - W) ** 2)


@pytest.mark.parametrize("seed", range(2))
def test_low_rank_is_found(seed):
    X, Y, W = low_rank(seed)
    searches = ({}, {"alphas": 0}, {"ranks": range(1, 41)})
    found, ridge, reduced = (SpectralRegressorCV(**given, random_state=0).fit(X, Y) for given in searches)
    assert risk(found, W) < 0.6 * risk(ridge, W)
    assert risk(found, W) < 1.25 * risk(reduced, W)
    assert_consistent(found)
    for scale, shift in ((1.0, 1e8), (1e30, 0.0)):
        far = SpectralRegressorCV(random_state=0).fit(X, scale * Y + shift)
        np.testing.assert_allclose(far.predict(X), scale * found.predict(X) + shift, atol=1e-5 * scale)
    blocks = [(X[a : a + 70], Y[a : a + 70]) for a in (0, 70, 140)]
    streamed = SpectralRegressorCV(random_state=0).fit_blocks(blocks)
    assert streamed.best_params_["alpha"] > 0
    assert risk(streamed, W) < 0.6 * risk(ridge, W)
    assert_consistent(streamed)


def test_ranks_beside_alphas_and_other_ridges_at_the_largest_rank():
    X, Y, W = low_rank(0, 60, 8, 4)
    grid = SpectralRegressorCV(ranks=[1, 2], alphas=[0.0, 5.0], cv=3, random_state=0).fit(X, Y)
    tried = {(one["alpha"], one["ridge"]) for one in grid.cv_results_["params"]}
    ridges = {ridge for _, ridge in tried}
    assert tried == {(alpha, ridge) for alpha in (0.0, 5.0) for ridge in ridges}
    assert (min(ridges), len(ridges)) == (0.0, 5)
    limited = SpectralRegressorCV(ranks=[1, 3], cv=3, random_state=0).fit(X, X @ W)  # no ridge is best
    assert limited.best_params_["max_rank"] == 3
    assert limited.best_params_["ridge"] == 0.0


@pytest.mark.parametrize("search", [LRMLCV, MLFroCV, LEMLCV, CPLSTCV, SpectralRegressorCV])
@pytest.mark.parametrize(("cv", "d"), [(None, 30), (3, 8)])
def test_constant_labels_add_nothing_to_the_rank(search, cv, d):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((60, d)), np.zeros((60, 12))
    Y[:, :4], Y[:, 6:] = rng.random((60, 4)) < 0.4, 1.0
    model = search(cv=cv, random_state=0).fit(X, Y)
    assert model.rank_ <= model.cv_results_["mean_model_rank"].max() == 4
