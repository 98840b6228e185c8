"""Leave-one-out scores: against refitting without each row, and the searches that use them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import StandardScaler

from lrml import (
    CPLST,
    CPLSTCV,
    LEML,
    LRML,
    LRMLCV,
    MLFro,
    MLFroCV,
    MLTrace,
    MLTraceCV,
    SpectralRegressor,
    SpectralRegressorCV,
    metrics,
)
from lrml.datasets import load_yeast
from lrml.thresholds import Cut, best_threshold
from model_checks import table


@pytest.fixture(scope="module")
def yeast():
    return load_yeast()


def refitted(model, X, Y, rows, weights=None):
    """Scores of rows by fits without them."""
    found = []
    for row in rows:
        others = np.arange(X.shape[0]) != row
        w = None if weights is None else weights[others]
        fitted = clone(model).fit(X[others], Y[others], sample_weight=w)
        found.append(fitted._scores(fitted._validated(X[[row]]))[0])
    return np.array(found)


# Closed forms: exact


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 14),
    d=st.integers(1, 20),
    n_labels=st.integers(1, 18),
    alpha=st.sampled_from([0.05, 1.0, 30.0]),
    scale=st.sampled_from([1e-4, 1.0, 1e4]),
    weighted=st.booleans(),
    intercept=st.booleans(),
    forms=st.tuples(st.booleans(), st.booleans()),
    real=st.booleans(),
)
def test_ridge_regression_is_exact(seed, n, d, n_labels, alpha, scale, weighted, intercept, forms, real):
    rng = np.random.default_rng(seed)
    X, Y = scale * (rng.standard_normal((n, d)) + 1.0), (rng.random((n, n_labels)) < 0.5).astype(float)
    if real:
        Y = 3.0 + rng.standard_normal((n, n_labels))
    weights = rng.integers(0, 3, n) + 0.5 * (rng.random(n) < 0.5) if weighted else None
    if weighted and np.count_nonzero(weights) < 3:
        weights = np.ones(n)
    X, Y = (sp.csr_array(M) if sparse else M for M, sparse in zip((X, Y), forms, strict=True))
    model = MLFro(alpha * scale**2, fit_intercept=intercept)
    if real:
        model = SpectralRegressor(alpha=0.0, ridge=alpha * scale**2, fit_intercept=intercept)
    found = model.leave_one_out_scores(X, Y, weights)
    expected = refitted(model, X, Y, range(n), weights)
    np.testing.assert_allclose(found, expected, atol=1e-8 * (10 if real else 1))


EXACT = {
    "rbf": MLFro(0.3, kernel="rbf", gamma=0.4),
    "no intercept": MLFro(0.3, kernel="poly", degree=2, fit_intercept=False),
    "without a penalty": MLFro(0.0, kernel="rbf", gamma=3.0),
    "LRML that penalises nothing": LRML(4, 5.0, ridge=0.3, kernel="rbf", gamma=0.4),
    "CPLST of full rank": CPLST(4, ridge=0.2, kernel="laplacian"),
    # With alpha beyond alpha_max nothing is fitted but the means, and these move when a row is left out.
    "nothing but the means": MLTrace(1e6),
}


@pytest.mark.parametrize("model", EXACT.values(), ids=EXACT)
def test_limits_of_ridge_regression_are_exact(make_problem, model):
    X, Y = make_problem(30, 5, 4)
    # Without a penalty it is the limit of small ones.
    atol = 1e-6 if model.get_params().get("alpha") == 0 else 1e-8
    np.testing.assert_allclose(model.leave_one_out_scores(X, Y), refitted(model, X, Y, range(30)), atol=atol)


@pytest.mark.parametrize("road", ["primal", "dual", "compressed", "precomputed"])
@pytest.mark.parametrize("shape", [(30, 50), (50, 30)], ids=["wide", "tall"])
def test_scores_do_not_depend_on_the_road_that_the_fit_takes(make_problem, road, shape):
    X, Y = make_problem(*shape, 3, seed=1)
    model = LRML(1, 2.0, ridge=1.0, tol=1e-10)
    expected, twin = model.leave_one_out_scores(X, Y), clone(model)
    if road == "precomputed":
        X = X @ X.T
        twin.set_params(kernel=road)
    else:
        twin.set_params(solver=road)
    np.testing.assert_allclose(twin.leave_one_out_scores(X, Y), expected, atol=1e-6)
    auto = twin.set_params(threshold="auto").fit(X, Y)
    assert auto.threshold_ == pytest.approx(best_threshold(Y, expected).cut, abs=1e-4)


@pytest.mark.parametrize("alpha", [0.0, 1e-9, 1.0, 100.0])
@pytest.mark.parametrize("d", [1, 3, 11])
@pytest.mark.parametrize("far", [1e3, 1e4])
def test_a_row_far_from_all_others(far, d, alpha):
    """It all but decides its own fitted value: 1 − h is small, and hardly anything is left of residuals."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((14, d)), rng.standard_normal((14, 2))
    X[0] *= far
    model = SpectralRegressor(alpha=0.0, ridge=alpha, fit_intercept=False)
    expected = refitted(model, X, Y, range(14))
    np.testing.assert_allclose(model.leave_one_out_scores(X, Y), expected, rtol=1e-5, atol=1e-6)


# Penalties on singular values: estimates


MODELS = {
    "LRML": LRML(2, 20.0, ridge=0.1, tol=1e-8),
    "LRML, strong": LRML(1, 60.0, tol=1e-8),
    "MLTrace": MLTrace(25.0, ridge=1.0, tol=1e-8),
    "CPLST": CPLST(3, ridge=1.0),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_estimates_are_far_closer_to_refitting_than_training_scores(model):
    X, Y = (part[::2] for part in table(load_wine))
    X = StandardScaler().fit_transform(X)
    model, rows = clone(model), np.random.default_rng(0).choice(len(X), 7, replace=False)
    expected = refitted(model, X, Y, rows)
    estimated, trained = model.leave_one_out_scores(X, Y)[rows], model.fit(X, Y).decision_function(X[rows])
    error, naive = (np.sqrt(np.mean((S - expected) ** 2)) for S in (estimated, trained))
    assert error < 0.2 * naive


def test_who_has_leave_one_out_scores_and_of_which_columns(make_problem):
    pd = pytest.importorskip("pandas")
    X, Y = make_problem(30, 5, 4)
    for model in (LRML(), MLTrace(), MLFro(), LEML(2), CPLST(2), MLFroCV().fit(X, Y)):
        assert np.isfinite(model.leave_one_out_scores(X, Y)).all()
    unknown = np.where(np.eye(30, 4), np.nan, Y)
    for model, labels, shown in ((LRML(loss="logistic"), Y, "logistic"), (LRML(), unknown, "unknown")):
        with pytest.raises(ValueError, match=rf"got [^ ]*{shown}[^ ]*( labels)?\. "):
            model.leave_one_out_scores(X, labels)
    frame = pd.DataFrame(Y, columns=list("abcd"))
    model = MLFro(1.0).fit(X, frame)
    np.testing.assert_allclose(model.leave_one_out_scores(X, frame), MLFro(1.0).leave_one_out_scores(X, Y))
    for rows, labels in ((X[:, :4], frame), (X, frame[list("dcba")])):
        with pytest.raises(ValueError, match=r"4 features|'d'"):
            model.leave_one_out_scores(rows, labels)


# Searches


def test_a_search_judges_by_leave_one_out_scores(make_problem):
    X, Y = make_problem(60, 5, 4)
    search = MLFroCV(alphas=[0.1, 3.0, 90.0]).fit(X, Y)
    scores = [MLFro(alpha).leave_one_out_scores(X, Y) for alpha in (0.1, 3.0, 90.0)]
    expected = [metrics.label_ranking_average_precision(Y, S) for S in scores]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, rtol=1e-6)
    assert (search.n_splits_, search.best_score_) == (1, pytest.approx(max(expected)))
    search = MLFroCV(MLFro(threshold=Cut("hamming_loss", per_label=True, prior=0.0)), alphas=[3.0]).fit(X, Y)
    cut = best_threshold(Y, scores[1], "hamming_loss", per_label=True).cut
    np.testing.assert_array_equal(scores[1] >= search.threshold_, scores[1] >= cut)


def test_real_targets_are_judged_by_r2_as_scikit_learn_leaves_out():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6))
    Y = 1e6 + X @ rng.standard_normal((6, 3)) + 0.5 * rng.standard_normal((80, 3))
    theirs = RidgeCV([0.1, 1.0, 10.0, 100.0], store_cv_results=True).fit(X, Y)
    ours = SpectralRegressorCV(alphas=0, ridges=[0.1, 1.0, 10.0, 100.0]).fit(X, Y)
    expected = 1.0 - np.mean(theirs.cv_results_.mean(axis=0) / Y.var(axis=0)[:, None], axis=0)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], expected, atol=1e-6)


def test_the_best_ridge_is_found_whatever_the_scale_and_beyond_the_edge(yeast):
    """What is tried follows the data, and goes on where the best is at the edge."""
    X, Y = yeast.train[0][:300], yeast.train[1][:300]
    grid = np.geomspace(1e-3, 1e4, 40)
    best = max(metrics.label_ranking_average_precision(Y, MLFro(a).leave_one_out_scores(X, Y)) for a in grid)
    for factor in (1e-5, 1e5):
        assert MLFroCV().fit(factor * X, Y).best_score_ > best - 0.005  # half a standard error
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 40))
    # Labels that are noise call for a ridge far beyond the first ones; clean ones for almost none.
    tried = SpectralRegressorCV(alphas=0).fit(X, rng.standard_normal((80, 3))).cv_results_["param_ridge"]
    assert tried.max() > 3 * tried[:6].max()
    tried = SpectralRegressorCV(alphas=0).fit(X, X @ rng.standard_normal((40, 3))).cv_results_["param_ridge"]
    assert tried.min() < tried[:6].min() / 3


@pytest.mark.parametrize("rule", ["best", "one_standard_error", "smallest"])
@pytest.mark.parametrize("case", ["rare labels", "few weights"])
def test_folds_without_a_score_confirm_nothing(case, rule):
    """A fold may have no labelled row, or no weight; the score of the choice is a number all the same."""
    rng = np.random.default_rng(2)
    X, Y = rng.standard_normal((40, 3)), np.zeros((40, 5))
    Y[:3] = Y[30:32] = rng.random(5) < 0.5
    Y[0, 0], weights = 1.0, None
    if case == "few weights":
        Y = (X @ rng.standard_normal((3, 5)) > 0).astype(float)
        weights = np.where(np.arange(40) < 6, 1.0, 0.0)
    for search in (LRMLCV(), CPLSTCV(), MLTraceCV(alphas=[0.1, 1.0, 0.0], ridges=0)):
        search.set_params(rule=rule, random_state=0).fit(X, Y, weights)
        assert np.isfinite(search.best_score_)


def test_the_width_of_a_kernel_is_chosen():
    """Labels that depend on the distance from a few points; a linear model knows nothing about them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (300, 2))
    Y = np.stack([np.sin(2 * X[:, 0]) > 0, np.cos(2 * X[:, 1]) > 0, np.hypot(*X.T) < 2], axis=1).astype(int)
    (X, X_test), (Y, Y_test) = (np.split(M, [200]) for M in (X, Y))
    search = MLFroCV(MLFro(kernel="rbf"), random_state=0).fit(X, Y)
    gammas, scores = search.gamma_results_["gamma"], search.gamma_results_["mean_test_score"]
    best, chosen = np.argmax(scores), search.best_params_["gamma"]
    assert chosen <= gammas[best]
    assert scores[list(gammas).index(chosen)] > scores[best] - 0.01  # smoother, and as good
    assert min(gammas) < gammas[best] < max(gammas)
    assert search.best_estimator_.gamma == chosen
    assert search.score(X_test, Y_test) > MLFroCV().fit(X, Y).score(X_test, Y_test) + 0.1
    fixed = MLFroCV(MLFro(kernel="rbf"), gammas=[300.0, 1.0], random_state=0).fit(X, Y)
    assert fixed.best_params_["gamma"] == 1.0
    assert fixed.gamma_results_["gamma"].tolist() == [300.0, 1.0]
    for kept in (MLFroCV(MLFro(kernel="rbf"), gammas=1.0), MLFroCV(MLFro(kernel="rbf", gamma=1.0))):
        assert not hasattr(kept.fit(X, Y), "gamma_results_")
        assert kept.best_params_["gamma"] == kept.best_estimator_.gamma == 1.0
    with pytest.raises(ValueError, match="gammas"):
        MLFroCV(gammas=[1.0, 2.0]).fit(X, Y)
