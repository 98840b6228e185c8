"""Leave-one-out scores: against refitting without each row, and the searches that use them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.linear_model import RidgeCV
from sklearn.preprocessing import StandardScaler, normalize

from lrml import CPLST, CPLSTCV, LEML, LEMLCV, LRML, LRMLCV, PLST, MLFro, MLFroCV, MLTrace, MLTraceCV, metrics
from lrml.datasets import load_yeast
from lrml.thresholds import best_threshold


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


@settings(max_examples=60, deadline=None)
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
    model = MLFro(alpha * scale**2, fit_intercept=intercept, targets="real" if real else "binary")
    found = model.leave_one_out_scores(X, Y, weights)
    expected = refitted(model, X, Y, range(n), weights)
    np.testing.assert_allclose(found, expected, atol=1e-8 * (10 if real else 1))


@pytest.mark.parametrize("n_rows", [60, 400], ids=["more features", "more rows"])
def test_ridge_regression_agrees_with_scikit_learn(yeast, n_rows):
    X, Y = yeast.train[0][:n_rows], yeast.train[1][:n_rows].astype(float)
    theirs = RidgeCV([0.7], store_cv_results=True).fit(X, Y).cv_results_[:, :, 0]
    ours = MLFro(0.7, targets="real").leave_one_out_scores(X, Y)
    np.testing.assert_allclose((Y - ours) ** 2, theirs, atol=1e-10)


KERNELS = {
    "rbf": MLFro(0.3, kernel="rbf", gamma=0.4),
    "no intercept": MLFro(0.3, kernel="poly", degree=2, fit_intercept=False),
    "without a penalty": MLFro(0.0, kernel="rbf", gamma=3.0),
    "LRML that penalises nothing": LRML(4, 5.0, ridge=0.3, kernel="rbf", gamma=0.4),
    "CPLST of full rank": CPLST(4, ridge=0.2, kernel="laplacian"),
}


@pytest.mark.parametrize("model", KERNELS.values(), ids=KERNELS)
def test_kernels_in_the_ridge_limit_are_exact(make_problem, model):
    X, Y = make_problem(30, 5, 4)
    exact = model.leave_one_out_scores(X, Y)
    # Without a penalty it is the limit of small ones.
    atol = 1e-6 if model.get_params().get("alpha") == 0 else 1e-8
    np.testing.assert_allclose(exact, refitted(model, X, Y, range(30)), atol=atol)


def test_precomputed_kernels(make_problem):
    X, Y = make_problem(25, 5, 4)
    for model in (MLFro(0.3), LRML(1, 2.0, ridge=0.1)):
        given = clone(model).set_params(kernel="precomputed").leave_one_out_scores(X @ X.T, Y)
        np.testing.assert_allclose(given, model.leave_one_out_scores(X, Y), atol=1e-6)


@pytest.mark.parametrize("road", ["primal", "dual", "compressed"])
@pytest.mark.parametrize("shape", [(30, 50), (50, 30)], ids=["wide", "tall"])
def test_scores_do_not_depend_on_the_road_that_the_fit_takes(make_problem, road, shape):
    X, Y = make_problem(*shape, 3, seed=1)
    model = LRML(1, 2.0, ridge=1.0, tol=1e-10)
    expected = model.leave_one_out_scores(X, Y)
    found = clone(model).set_params(solver=road).leave_one_out_scores(X, Y)
    np.testing.assert_allclose(found, expected, atol=1e-9)
    auto = clone(model).set_params(solver=road, threshold="auto").fit(X, Y)
    assert auto.threshold_ == pytest.approx(best_threshold(Y, expected).cut, abs=1e-4)


def test_least_squares_of_smallest_norm_is_exact_where_it_interpolates(make_problem):
    """More features than rows, no penalty: every row is fitted without error, so residuals say nothing."""
    X, Y = make_problem(12, 30, 3)
    model = MLFro(0.0)
    np.testing.assert_allclose(model.fit(X, Y).decision_function(X), Y, atol=1e-9)
    np.testing.assert_allclose(model.leave_one_out_scores(X, Y), refitted(model, X, Y, range(12)), atol=1e-6)


def test_a_feature_of_one_row_only(make_problem):
    X, Y = make_problem(20, 4, 3)
    X = np.hstack([X, np.eye(20)[:, :1]])
    for alpha in (0.0, 0.5):
        found = MLFro(alpha).leave_one_out_scores(X, Y)
        np.testing.assert_allclose(found, refitted(MLFro(alpha), X, Y, range(20)), atol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 1e-9, 1.0, 100.0])
@pytest.mark.parametrize("d", [1, 3, 11])
@pytest.mark.parametrize("far", [1e3, 1e4])
def test_a_row_far_from_all_others(far, d, alpha):
    """It all but decides its own fitted value: 1 − h is small, and hardly anything is left of residuals."""
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((14, d)), rng.standard_normal((14, 2))
    X[0] *= far
    model = MLFro(alpha, targets="real", fit_intercept=False)
    expected = refitted(model, X, Y, range(14))
    found = model.leave_one_out_scores(X, Y)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_as_many_features_as_rows_and_a_strong_ridge():
    """Without the ridge all rows would be fitted without error; eigenvalues of XᵀX are then inaccurate."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X, Y = rng.standard_normal((20, 20)), 1e4 + rng.standard_normal((20, 2))
        X[:, 0] = X[:, 1] + 1e-5 * X[:, 0]
        model = MLFro(2000.0, targets="real", fit_intercept=False)
        expected = refitted(model, X, Y, range(20))
        np.testing.assert_allclose(model.leave_one_out_scores(X, Y), expected, atol=1e-8 * np.abs(Y).max())


def test_labels_of_a_single_row_are_unseen_without_it(make_problem):
    X, Y = make_problem(20, 4, 3)
    Y[:, 1] = 0
    Y[7, 1] = 1
    found = MLFro(0.5).leave_one_out_scores(X, Y)
    np.testing.assert_allclose(found, refitted(MLFro(0.5), X, Y, range(20)), atol=1e-9)
    assert found[7, 1] == -1.0


# Penalties on singular values: estimates


def tabular(load):
    """A real table as a multi-label problem: its classes, and whether some columns exceed their quartiles."""
    X, y = load(return_X_y=True)
    hidden = X[:, ::4]
    labels = [y[:, None] == np.unique(y)] + [
        hidden > np.quantile(hidden, q, axis=0) for q in (0.25, 0.5, 0.75)
    ]
    X = StandardScaler().fit_transform(np.delete(X, np.s_[::4], axis=1))
    return X[::2], np.hstack(labels)[::2].astype(float)


MODELS = {
    "LRML": LRML(2, 20.0, ridge=0.1, tol=1e-8),
    "LRML, strong": LRML(1, 60.0, tol=1e-8),
    "MLTrace": MLTrace(25.0, ridge=1.0, tol=1e-8),
    "CPLST": CPLST(3, ridge=1.0),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("name", ["yeast", "wine", "breast cancer", "emotions", "enron"])
def test_estimates_are_far_closer_to_refitting_than_training_scores(request, yeast, name, model):
    if name == "yeast":
        X, Y = yeast.train[0][:500], yeast.train[1][:500]
        X = StandardScaler().fit_transform(X)
    elif name in ("emotions", "enron"):
        X, Y = (M.toarray() if sp.issparse(M) else M for M in request.getfixturevalue("mulan")(name).train)
        X = StandardScaler().fit_transform(X[:300, :300])
        Y = Y[:300]
    else:
        X, Y = tabular(load_wine if name == "wine" else load_breast_cancer)
    rows = np.random.default_rng(0).choice(len(X), 12, replace=False)
    expected = refitted(model, X, Y, rows)
    estimated = clone(model).leave_one_out_scores(X, Y)[rows]
    trained = clone(model).fit(X, Y).decision_function(X[rows])
    error, naive = (np.sqrt(np.mean((S - expected) ** 2)) for S in (estimated, trained))
    assert error < 0.2 * naive


@pytest.mark.parametrize("name", ["yeast", "breast cancer"])
def test_a_strong_trace_norm_of_rank_one(yeast, name):
    """The penalty is linear in the only singular value too: along it, nothing but the loss curves."""
    X, Y = tabular(load_breast_cancer)
    if name == "yeast":
        X, Y = StandardScaler().fit_transform(yeast.train[0][:500]), yeast.train[1][:500]
    X, rows = X - X.mean(axis=0), np.arange(0, len(X), 20)
    model = MLTrace(0.8 * 2 * np.linalg.norm(X.T @ Y, 2), tol=1e-9).fit(X, Y)
    assert model.rank_ == 1
    expected, trained = refitted(model, X, Y, rows), model.decision_function(X[rows])
    error, naive = (
        np.sqrt(np.mean((S - expected) ** 2)) for S in (model.leave_one_out_scores(X, Y)[rows], trained)
    )
    assert error < 0.15 * naive


def test_the_turn_of_the_label_directions_counts(make_problem):
    """With alpha beyond alpha_max nothing is fitted but the means, and these move when a row is left out."""
    X, Y = make_problem(30, 5, 4)
    model = MLTrace(1e6)
    np.testing.assert_allclose(model.leave_one_out_scores(X, Y), refitted(model, X, Y, range(30)), atol=1e-9)


def test_who_has_leave_one_out_scores(make_problem):
    X, Y = make_problem(30, 5, 4)
    for model in (LRML(), MLTrace(), MLFro(), LEML(2), CPLST(2), PLST(2), MLFroCV().fit(X, Y)):
        assert np.isfinite(model.leave_one_out_scores(X, Y)).all()
    with pytest.raises(ValueError, match=r"need loss='squared' .* got loss='logistic'\. Use"):
        LRML(loss="logistic").leave_one_out_scores(X, Y)
    unknown = Y.astype(float)
    unknown[0, 0] = np.nan
    with pytest.raises(ValueError, match="and unknown labels"):
        LRML().leave_one_out_scores(X, unknown)


# Searches


def test_leave_one_out_scores_of_a_fitted_model_need_its_columns(make_problem):
    pd = pytest.importorskip("pandas")
    X, Y = make_problem(30, 5, 4)
    frame = pd.DataFrame(Y, columns=list("abcd"))
    model = MLFro(1.0).fit(X, frame)
    np.testing.assert_allclose(model.leave_one_out_scores(X, frame), MLFro(1.0).leave_one_out_scores(X, Y))
    with pytest.raises(ValueError, match="4 features"):
        model.leave_one_out_scores(X[:, :4], frame)
    with pytest.raises(ValueError, match="named and ordered as in fit"):
        model.leave_one_out_scores(X, frame[list("dcba")])


def test_a_search_judges_by_leave_one_out_scores(make_problem):
    X, Y = make_problem(60, 5, 4)
    search = MLFroCV([0.1, 3.0, 90.0], cv="loo").fit(X, Y)
    expected = [
        metrics.average_precision(Y, MLFro(alpha).leave_one_out_scores(X, Y)) for alpha in (0.1, 3.0, 90.0)
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], expected, rtol=1e-6)
    assert search.n_splits_ == 1
    assert search.best_score_ == pytest.approx(max(expected))
    assert MLFroCV([0.1, 3.0, 90.0]).fit(X, Y).best_params_ == search.best_params_


def test_real_targets_are_judged_by_r2(make_problem):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 6))
    Y = 1e6 + X @ rng.standard_normal((6, 3)) + 0.5 * rng.standard_normal((80, 3))
    theirs = RidgeCV([0.1, 1.0, 10.0, 100.0], store_cv_results=True).fit(X, Y)
    ours = MLFroCV([0.1, 1.0, 10.0, 100.0], targets="real").fit(X, Y)
    errors = theirs.cv_results_.mean(axis=0)
    expected = 1.0 - np.mean(errors / Y.var(axis=0)[:, None], axis=0)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], expected, atol=1e-6)


def test_thresholds_come_from_leave_one_out_scores(make_problem):
    X, Y = make_problem(60, 5, 4)
    options = {"threshold_scoring": "hamming_loss", "threshold_per_label": True}
    search = MLFroCV([1.0], threshold="auto", **options).fit(X, Y)
    scores = MLFro(1.0).leave_one_out_scores(X, Y)
    cut = best_threshold(Y, scores, "hamming_loss", per_label=True).cut
    np.testing.assert_array_equal(scores >= search.threshold_, scores >= cut)


SEARCHES = {
    "LRMLCV": LRMLCV(random_state=0),
    "MLTraceCV": MLTraceCV(random_state=0),
    "MLFroCV": MLFroCV(random_state=0),
    "CPLSTCV": CPLSTCV(random_state=0),
}


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
@pytest.mark.parametrize("n_rows", [90, 1500])
def test_leave_one_out_chooses_as_well_as_folds(yeast, search, n_rows):
    (X, Y), (X_test, Y_test) = yeast.train, yeast.test
    X, Y = X[:n_rows], Y[:n_rows]
    by_folds = clone(search).set_params(cv=5).fit(X, Y).score(X_test, Y_test)
    without = clone(search).fit(X, Y).score(X_test, Y_test)
    assert without > by_folds - (0.02 if n_rows < 100 else 0.004)


@pytest.mark.parametrize("factor", [1e-5, 1e5])
def test_the_best_ridge_is_found_whatever_the_scale(yeast, factor):
    """What is tried follows the data, and goes on beyond its edge where the best is there."""
    X, Y = yeast.train[0][:300], yeast.train[1][:300]
    grid = np.geomspace(1e-3, 1e4, 60)
    best = max(metrics.average_precision(Y, MLFro(a).leave_one_out_scores(X, Y)) for a in grid)
    assert MLFroCV().fit(factor * X, Y).best_score_ > best - 0.005  # half a standard error


def test_the_search_goes_on_beyond_the_edge():
    """Labels that are noise call for a ridge far beyond the first ones; clean ones for almost none."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 40))
    noise = rng.standard_normal((80, 3))
    tried = MLFroCV(targets="real").fit(X, noise).cv_results_["param_alpha"]
    assert tried.max() > 3 * tried[:6].max()
    clean = X @ rng.standard_normal((40, 3))
    tried = MLFroCV(targets="real").fit(X, clean).cv_results_["param_alpha"]
    assert tried.min() < tried[:6].min() / 3


def test_estimates_are_confirmed_on_folds(yeast):
    """A choice with an estimated score competes on folds with the best ridge regression."""
    X, Y = normalize(yeast.train[0][:400]), yeast.train[1][:400]
    search = LRMLCV([0, 2], [0.0, 2.0, 5.0, 10.0], [0.0, 1.0], random_state=0).fit(X, Y)
    confirmed = search.cv_results_["confirmed_test_score"]
    finalists = np.flatnonzero(np.isfinite(confirmed))
    assert len(finalists) == 2
    assert np.count_nonzero(search.cv_results_["param_alpha"][finalists] == 0.0) == 1
    assert search.best_index_ == finalists[np.argmax(confirmed[finalists])]
    assert search.best_score_ == confirmed[search.best_index_]


def test_estimates_for_a_single_target_are_confirmed_too():
    """One direction is all of label space, but a penalty on its singular value is not a ridge."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 10))
    y = X[:, :1] + rng.standard_normal((60, 1))
    search = MLTraceCV([0.0, 10.0, 30.0], targets="real", random_state=0).fit(X, y)
    assert search.cv_results_["param_alpha"][np.isfinite(search.cv_results_["confirmed_test_score"])].any()


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
    for search in (LRMLCV(), CPLSTCV(), MLTraceCV([0.1, 1.0, 0.0])):
        search.set_params(rule=rule, random_state=0).fit(X, Y, weights)
        assert np.isfinite(search.best_score_)


def test_a_standard_error_without_values_of_rows_takes_folds(make_problem):
    X, Y = make_problem(40, 5, 4)
    search = MLFroCV(scoring="micro_f1", random_state=0)
    assert search.fit(X, Y).n_splits_ == 1
    for rule in ("one_standard_error", "smallest"):
        assert search.set_params(rule=rule).fit(X, Y).n_splits_ == 5


def test_leave_one_out_needs_closed_forms(make_problem):
    X, Y = make_problem(30, 5, 4)
    for model in (MLFroCV(cv="loo", loss="logistic"), LRMLCV(cv="loo", loss="squared_hinge")):
        with pytest.raises(ValueError, match=r"cv='loo' needs fits in closed form.*got .*loss=.*Pass cv=5"):
            model.fit(X, Y)
    unknown = Y.astype(float)
    unknown[0, 0] = np.nan
    with pytest.raises(ValueError, match="unknown labels"):
        MLFroCV(cv="loo").fit(X, unknown)
    with pytest.raises(ValueError, match="got LEMLCV, whose fits iterate"):
        LEMLCV(alphas=[1.0], cv="loo").fit(X, Y)
    assert LEMLCV(cv="loo").fit(X, Y).n_splits_ == 1
    assert MLFroCV().fit(X, unknown).n_splits_ == 5


def test_the_width_of_a_kernel_is_chosen(make_problem):
    """Labels that depend on the distance from a few points; a linear model knows nothing about them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (300, 2))
    Y = np.stack([np.sin(2 * X[:, 0]) > 0, np.cos(2 * X[:, 1]) > 0, np.hypot(*X.T) < 2], axis=1).astype(int)
    train, test = slice(0, 200), slice(200, 300)
    search = MLFroCV(kernel="rbf", random_state=0).fit(X[train], Y[train])
    results = search.gamma_results_
    best = np.argmax(results["mean_test_score"])
    assert search.best_params_["gamma"] <= results["gamma"][best]
    at = results["gamma"].tolist().index(search.best_params_["gamma"])
    assert results["mean_test_score"][at] > results["mean_test_score"][best] - 0.01  # smoother, and as good
    assert min(results["gamma"]) < results["gamma"][best] < max(results["gamma"])
    assert search.best_estimator_.gamma == search.best_params_["gamma"]
    assert search.score(X[test], Y[test]) > MLFroCV().fit(X[train], Y[train]).score(X[test], Y[test]) + 0.1
    fixed = MLFroCV(kernel="rbf", gammas=[300.0, 1.0], random_state=0).fit(X[train], Y[train])
    assert fixed.best_params_["gamma"] == 1.0
    assert fixed.gamma_results_["gamma"].tolist() == [300.0, 1.0]
    single = MLFroCV(kernel="rbf", gammas=1.0).fit(X[train], Y[train])
    assert single.best_params_["gamma"] == 1.0
    assert not hasattr(single, "gamma_results_")
    with pytest.raises(ValueError, match=r"gammas needs a kernel that has a gamma.*got kernel='linear'"):
        MLFroCV(gammas=[1.0, 2.0]).fit(X[train], Y[train])


def test_a_given_grid_that_ends_too_early_is_reported(yeast):
    X, Y = yeast.train
    with pytest.warns(UserWarning, match=r"got the smallest of alphas, 100, .*Pass smaller ones too"):
        MLFroCV([100, 200, 400, 800, 1600]).fit(X, Y)
    with pytest.warns(UserWarning, match=r"got the largest of alphas, 0\.6, .*Pass larger ones too"):
        LRMLCV(0, [0.01, 0.03, 0.1, 0.3, 0.6], [0.0]).fit(X[:400], Y[:400])
    MLFroCV([0.1, 1.0, 10.0, 100.0, 1000.0]).fit(X, Y)  # the best lies inside: no warning
