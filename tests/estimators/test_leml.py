"""LEML: against ML-trace, against itself on another path, and as a scikit-learn estimator."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize_scalar
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import Ridge

from lrml import LEML, LRML, MLTrace
from lrml.solvers import leml as core

LOSS_NAMES = ["squared", "logistic", "squared_hinge"]


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(80, 7, 6, seed=3)


@pytest.fixture
def by_rows(monkeypatch):
    """Fits read the rows whatever the sizes."""
    monkeypatch.setattr(core, "prefers_moments", lambda *sizes: False)


@pytest.fixture
def by_moments(monkeypatch):
    monkeypatch.setattr(core, "prefers_moments", lambda *sizes: True)


@pytest.fixture(params=[True, False], ids=["moments", "rows"])
def either_path(request, monkeypatch):
    monkeypatch.setattr(core, "prefers_moments", lambda *sizes: request.param)


def mask_like(Y, share=0.6, seed=0):
    observed = np.random.default_rng(seed).random(Y.shape) < share
    observed[:4] = True
    return observed


def objective_by_definition(model, X, Y, alpha, loss, observed=True, weights=1.0):
    """The losses written out, and the trace norm of coef_ for the penalty."""
    scores = X @ model.coef_.T + model.intercept_
    margins = (2 * Y - 1) * scores
    entries = {
        "squared": (Y - scores) ** 2,
        "logistic": np.logaddexp(0, -margins),
        "squared_hinge": np.maximum(1 - margins, 0) ** 2,
    }[loss]
    total = np.sum(np.reshape(weights, (-1, 1)) * entries * observed)
    return total + alpha * np.linalg.norm(model.coef_, "nuc")


# The optimum


@pytest.mark.parametrize("alpha", [0.5, 20.0])
@pytest.mark.usefixtures("either_path")
def test_with_full_rank_it_is_the_trace_norm(yeast, alpha):
    X, Y = yeast
    model = LEML(rank=14, alpha=alpha, tol=1e-5, random_state=0).fit(X, Y)
    expected = MLTrace(alpha=alpha, tol=1e-6).fit(X, Y).objective_
    assert model.objective_ == pytest.approx(expected, rel=1e-4)
    assert model.objective_ == pytest.approx(objective_by_definition(model, X, Y, alpha, "squared"), rel=1e-9)


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.usefixtures("by_rows")
def test_other_losses_with_full_rank_are_the_trace_norm_too(data, loss, masked):
    X, Y = data
    observed = mask_like(Y) if masked else None
    model = LEML(rank=6, alpha=2.0, loss=loss, tol=1e-5, random_state=0).fit(X, Y, observed=observed)
    expected = MLTrace(alpha=2.0, loss=loss, tol=1e-5).fit(X, Y, observed=observed).objective_
    assert model.objective_ == pytest.approx(expected, rel=1e-4)
    known = True if observed is None else observed
    assert model.objective_ == pytest.approx(objective_by_definition(model, X, Y, 2.0, loss, known), rel=1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.usefixtures("either_path")
def test_with_a_ridge_only_it_is_ridge_regression_of_low_rank(data, fit_intercept):
    X, Y = data
    ridge = Ridge(alpha=3.0, fit_intercept=fit_intercept).fit(X, Y)
    full = LEML(6, ridge=3.0, fit_intercept=fit_intercept, tol=1e-7, random_state=0).fit(X, Y)
    np.testing.assert_allclose(full.coef_, ridge.coef_, atol=1e-4)
    np.testing.assert_allclose(full.intercept_, ridge.intercept_, atol=1e-4)
    # Least squares with the rows √3·I added, cut to rank 2 by Eckart and Young.
    centred, targets = (M - fit_intercept * M.mean(axis=0) for M in (X, Y))
    rows = np.vstack([centred, np.sqrt(3.0) * np.eye(X.shape[1])])
    gains = np.linalg.svd(rows @ ridge.coef_.T, compute_uv=False)[:2] ** 2
    low = LEML(2, ridge=3.0, fit_intercept=fit_intercept, tol=1e-6, max_iter=3000, random_state=0).fit(X, Y)
    assert low.rank_ == 2
    assert low.objective_ == pytest.approx(np.sum(targets**2) - gains.sum(), rel=1e-6)


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.usefixtures("either_path")
def test_both_penalties_with_full_rank_are_those_of_lrml(data, loss):
    X, Y = data
    model = LEML(6, 2.0, ridge=1.5, loss=loss, tol=1e-5, random_state=0).fit(X, Y)
    expected = LRML(0, 2.0, ridge=1.5, loss=loss, tol=1e-6).fit(X, Y).objective_
    assert model.objective_ == pytest.approx(expected, rel=1e-4)
    by_definition = objective_by_definition(model, X, Y, 2.0, loss) + 1.5 * np.sum(model.coef_**2)
    assert model.objective_ == pytest.approx(by_definition, rel=1e-9)


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.usefixtures("by_rows")
def test_gradients_include_the_ridge(data, loss):
    """At a solution of low rank no neighbour is better."""
    X, Y = data
    model = LEML(2, 1.0, ridge=2.0, loss=loss, tol=1e-7, max_iter=3000, random_state=0).fit(X, Y)
    U, s, V = model.factors_
    Z, H, rng = U * np.sqrt(s), V * np.sqrt(s), np.random.default_rng(0)
    neighbour = clone(model).fit(X, Y)
    for _ in range(20):
        W = (Z + 1e-3 * rng.standard_normal(Z.shape)) @ (H + 1e-3 * rng.standard_normal(H.shape)).T
        left, sigma, right = np.linalg.svd(W, full_matrices=False)
        neighbour.factors_ = type(model.factors_)(left[:, :2], sigma[:2], right[:2].T)
        value = objective_by_definition(neighbour, X, Y, 1.0, loss) + 2.0 * np.sum(W**2)
        assert value > model.objective_


@pytest.mark.parametrize("weights", [None, 1e-3])
@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.usefixtures("by_rows")
def test_intercepts_without_coefficients_are_the_best_ones(data, loss, weights):
    """So strong a penalty leaves the intercepts alone; weights scale the objective, not the solution."""
    X, Y = data
    Y = Y.copy()
    Y[:, 1] = 1.0
    weights = None if weights is None else np.full(len(X), weights)
    model = LEML(3, 1e6, loss=loss, random_state=0).fit(X, Y, sample_weight=weights)
    assert not model.coef_.any()
    for label, intercept in enumerate(model.intercept_):

        def total(b, y=Y[:, label]):
            margins = (2 * y - 1) * b
            return {
                "squared": np.sum((y - b) ** 2),
                "logistic": np.logaddexp(0, -margins).sum(),
                "squared_hinge": np.sum(np.maximum(1 - margins, 0) ** 2),
            }[loss]

        best = minimize_scalar(total, bounds=(-200, 200), method="bounded", options={"xatol": 1e-9})
        assert total(intercept) <= best.fun + 1e-10


@pytest.mark.parametrize("alpha", [0.0, 2.0])
@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.usefixtures("by_rows")
def test_a_label_of_all_examples_changes_nothing_for_the_others(data, loss, alpha):
    X, Y = data
    weights = np.random.default_rng(0).uniform(0.1, 1.0, len(X))
    options = {"rank": 3, "alpha": alpha, "loss": loss, "random_state": 0}
    others = LEML(**options).fit(X, Y[:, :4], sample_weight=weights)
    with_it = np.column_stack([Y[:, :4], np.ones(len(X))])
    model = LEML(**options).fit(X, with_it, sample_weight=weights)
    alone = LEML(**options).fit(X, with_it[:, [4, 4, 4]], sample_weight=weights)
    assert model.objective_ == pytest.approx(others.objective_, rel=1e-9)
    np.testing.assert_allclose(model.coef_[:4], others.coef_, atol=1e-8)
    for found in (model, alone):
        assert not found.coef_[-1].any()
        assert found.intercept_[-1] == (100.0 if loss == "logistic" else 1.0)
        assert found.converged_
        assert found.predict(X)[:, -1].all()


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_a_label_of_all_examples_without_an_intercept(data, loss):
    X, Y = data
    Y = Y.copy()
    Y[:, 1] = 1.0
    model = LEML(6, 2.0, loss=loss, tol=1e-5, fit_intercept=False, random_state=0).fit(X, Y)
    expected = MLTrace(alpha=2.0, loss=loss, tol=1e-5, fit_intercept=False).fit(X, Y).objective_
    assert model.coef_[1].any()
    assert model.objective_ == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("rank", [2, 6])
@pytest.mark.parametrize("make", [np.asarray, sp.csr_array])
def test_both_paths_agree(data, monkeypatch, fit_intercept, rank, make):
    X, Y = data
    weights = np.random.default_rng(1).uniform(0.5, 2, len(X))
    fits = []
    for moments in (True, False):
        monkeypatch.setattr(core, "prefers_moments", lambda *sizes, moments=moments: moments)
        model = LEML(rank, 2.0, fit_intercept=fit_intercept, tol=1e-8, random_state=0, max_iter=2000)
        fits.append(model.fit(make(X), make(Y), sample_weight=weights))
    one, other = fits
    assert one.objective_ == pytest.approx(other.objective_, rel=1e-9)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-5)
    np.testing.assert_allclose(one.intercept_, other.intercept_, atol=1e-5)


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("share", [1.0, 0.6, 0.05])
@pytest.mark.usefixtures("by_rows")
def test_objective_never_rises(yeast, loss, share):
    X, Y = yeast
    observed = None if share == 1 else mask_like(Y, share)
    model = LEML(rank=4, alpha=1.0, loss=loss, tol=1e-5, random_state=0).fit(X, Y, observed=observed)
    objectives = model.history_["objective"]
    assert model.converged_
    assert len(objectives) > 3
    assert np.all(np.diff(objectives) <= 1e-10 * objectives[0])
    assert objectives[-1] == model.objective_
    assert model.residual_ == model.history_["residual"][-1] <= 1e-5


@pytest.mark.usefixtures("by_moments")
def test_objective_never_rises_on_the_moments(yeast):
    objectives = LEML(rank=4, alpha=1.0, tol=1e-8).fit(*yeast).history_["objective"]
    assert len(objectives) > 5
    assert np.all(np.diff(objectives) <= 1e-12 * objectives[0])


@pytest.mark.usefixtures("either_path")
def test_residual_by_definition(data):
    X, Y = data
    model = LEML(rank=2, alpha=2.0, tol=1e-3, random_state=0).fit(X, Y)
    U, s, V = model.factors_
    Z, H = U * np.sqrt(s), V * np.sqrt(s)
    centred, targets = X - X.mean(axis=0), Y - Y.mean(axis=0)
    slope = 2 * centred.T @ (centred @ Z @ H.T - targets)
    unit = np.linalg.norm(2 * centred.T @ targets, 2)
    gradients = np.concatenate([(slope @ H + 2.0 * Z).ravel(), (slope.T @ Z + 2.0 * H).ravel()])
    size = np.sqrt(np.sum(Z**2) + np.sum(H**2))
    assert model.residual_ == pytest.approx(np.linalg.norm(gradients) / (unit * size), rel=1e-6)
    assert model.residual_ <= 1e-3


@pytest.mark.usefixtures("either_path")
def test_a_strong_penalty_leaves_the_means(data):
    X, Y = data
    unit = np.linalg.norm(2 * (X - X.mean(axis=0)).T @ (Y - Y.mean(axis=0)), 2)
    nothing = LEML(rank=3, alpha=1.001 * unit).fit(X, Y)
    assert nothing.rank_ == 0
    np.testing.assert_allclose(nothing.decision_function(X), np.tile(Y.mean(axis=0), (len(X), 1)))
    assert nothing.objective_ == pytest.approx(np.sum((Y - Y.mean(axis=0)) ** 2))
    assert LEML(rank=3, alpha=0.99 * unit).fit(X, Y).rank_ > 0


@pytest.mark.usefixtures("by_rows")
def test_without_penalty_the_rows_lead_to_reduced_rank_regression(data):
    X, Y = data
    model = LEML(rank=2, alpha=0.0, tol=1e-6, random_state=0, max_iter=3000).fit(X, Y)
    centred, targets = X - X.mean(axis=0), Y - Y.mean(axis=0)
    fitted = centred @ np.linalg.lstsq(centred, targets, rcond=None)[0]
    best = np.sum(targets**2) - np.sum(np.linalg.svd(fitted, compute_uv=False)[:2] ** 2)
    assert model.objective_ == pytest.approx(best, rel=1e-5)


# Data in other forms


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.usefixtures("by_rows")
def test_everything_observed_is_no_mask_at_all(data, loss):
    X, Y = data
    plain = LEML(2, loss=loss, random_state=0).fit(X, Y)
    masked = LEML(2, loss=loss, random_state=0).fit(X, Y, observed=np.ones(Y.shape, dtype=bool))
    np.testing.assert_array_equal(masked.coef_, plain.coef_)


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("share", [0.6, 0.02])
def test_what_lies_under_unknown_labels_does_not_matter(yeast, loss, share):
    X, Y = yeast
    observed = mask_like(Y, share)
    other = np.where(observed, Y, 1 - Y)
    with_nan = np.where(observed, Y, np.nan)

    def make():
        return LEML(3, loss=loss, random_state=0)

    one = make().fit(X, Y, observed=observed)
    for model in (
        make().fit(X, other, observed=observed),
        make().fit(X, with_nan),
        make().fit(X, sp.csr_array(other), observed=sp.csr_array(observed)),
    ):
        np.testing.assert_allclose(model.coef_, one.coef_, atol=1e-8)
        np.testing.assert_allclose(model.intercept_, one.intercept_, atol=1e-8)
    assert np.any(one.coef_)


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.usefixtures("either_path")
def test_sparse_is_dense(data, loss):
    X, Y = data
    X = np.where(X > 0.5, X, 0.0)
    dense = LEML(3, loss=loss, tol=1e-7, random_state=0, max_iter=3000).fit(X, Y)
    for make in (sp.csr_array, sp.csc_matrix):
        sparse = clone(dense).fit(make(X), make(Y))
        assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-8)
        np.testing.assert_allclose(sparse.decision_function(make(X)), dense.decision_function(X), atol=1e-4)
        assert sp.issparse(sparse.predict(make(X)))


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("share", [1.0, 0.6, 0.05])
@pytest.mark.usefixtures("either_path")
def test_weight_two_is_the_row_twice(data, loss, share):
    X, Y = np.vstack([data[0]] * 2), np.vstack([data[1]] * 2)
    observed = None if share == 1 else mask_like(Y, share, seed=4)
    counts = np.random.default_rng(2).integers(0, 3, len(X))

    def make():
        return LEML(3, loss=loss, tol=1e-7, random_state=0, max_iter=3000)

    weighted = make().fit(X, Y, sample_weight=counts, observed=observed)
    repeated = np.repeat(np.arange(len(X)), counts)
    again = make().fit(X[repeated], Y[repeated], observed=None if observed is None else observed[repeated])
    assert weighted.objective_ == pytest.approx(again.objective_, rel=1e-8)
    np.testing.assert_allclose(weighted.decision_function(X), again.decision_function(X), atol=1e-3)


def test_frames_keep_names(data):
    X, Y = data
    frame = pd.DataFrame(X, columns=[f"f{i}" for i in range(7)])
    labels = pd.DataFrame(Y, columns=list("uvwxyz"))
    model = LEML(3).fit(frame, labels)
    assert model.feature_names_in_.tolist() == list(frame.columns)
    assert model.classes_.tolist() == list("uvwxyz")
    assert set(model.predict_top_k(frame, 2).labels.ravel()) <= set("uvwxyz")
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[frame.columns[::-1]])


@pytest.mark.usefixtures("either_path")
def test_single_precision_stays_single(data):
    X, Y = data
    model = LEML(3).fit(X.astype(np.float32), Y)
    assert {model.coef_.dtype, model.intercept_.dtype, model.decision_function(X.astype("f4")).dtype} == {
        np.dtype(np.float32)
    }


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.usefixtures("either_path")
def test_labels_without_a_positive_example(data, loss):
    X, Y = data
    Y = Y.copy()
    Y[:, 2] = 0
    model = LEML(3, loss=loss, random_state=0).fit(X, Y)
    without = LEML(3, loss=loss, random_state=0).fit(X, np.delete(Y, 2, axis=1))
    assert model.unseen_labels_.tolist() == [False, False, True, False, False, False]
    np.testing.assert_array_equal(model.coef_[2], 0)
    assert model.intercept_[2] == (-1 if loss == "squared" else -100)
    assert model.objective_ == pytest.approx(without.objective_, rel=1e-4)


@pytest.mark.usefixtures("either_path")
def test_no_positive_example_at_all(data):
    X, Y = data
    model = LEML(3).fit(X, np.zeros_like(Y))
    np.testing.assert_array_equal(model.decision_function(X), -1)
    assert model.rank_ == 0


@pytest.mark.usefixtures("by_rows")
def test_label_that_is_never_known(data):
    X, Y = data
    observed = mask_like(Y)
    observed[:, 1] = False
    model = LEML(3, random_state=0).fit(X, Y, observed=observed)
    assert model.unseen_labels_.tolist() == [False, True, False, False, False, False]
    np.testing.assert_array_equal(model.coef_[1], 0)


# What is stored


def test_factors_are_a_thin_svd_and_coef_is_made_of_them(data):
    X, Y = data
    model = LEML(3, 2.0).fit(X, Y)
    U, s, V = model.factors_
    assert model.rank_ == len(s) == 3
    np.testing.assert_allclose(U.T @ U, np.eye(3), atol=1e-10)
    np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-10)
    assert np.all(np.diff(s) <= 0)
    np.testing.assert_allclose(model.coef_, (V * s) @ U.T)
    np.testing.assert_allclose(model.decision_function(X), X @ model.coef_.T + model.intercept_)
    assert "coef_" not in vars(model)
    assert not any(np.shape(value) == (6, 7) for value in vars(model).values() if value is not model.factors_)


def test_coef_of_an_unfitted_model():
    with pytest.raises(NotFittedError):
        _ = LEML().coef_
    assert not hasattr(LEML(), "coef_")


@pytest.mark.parametrize(("rank", "expected"), [(0.5, 3), (0.01, 1), (1.0, 6), (4, 4)])
def test_rank_counts_or_is_a_share(data, rank, expected):
    assert LEML(rank, alpha=1e-3).fit(*data).rank_ == expected


# Starts


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.usefixtures("by_rows")
def test_seeds_decide(data, loss):

    def make(seed):
        return LEML(2, loss=loss, random_state=seed).fit(*data)

    np.testing.assert_array_equal(make(0).coef_, make(0).coef_)
    assert make(0).objective_ == pytest.approx(make(1).objective_, rel=1e-3)


@pytest.mark.usefixtures("by_moments")
def test_moments_need_no_seed(data):
    np.testing.assert_array_equal(
        LEML(2, random_state=0).fit(*data).coef_, LEML(2, random_state=1).fit(*data).coef_
    )


@pytest.mark.usefixtures("either_path")
def test_warm_start_goes_on_where_it_was(yeast):
    cold = LEML(rank=5, alpha=5.0, tol=1e-6, random_state=0).fit(*yeast)
    warm = LEML(rank=5, alpha=5.0, tol=1e-6, random_state=0, warm_start=True).fit(*yeast)
    assert warm.fit(*yeast).n_iter_ <= 1 < cold.n_iter_
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-8)


@pytest.mark.parametrize("kind", [0.0, 1.0])
@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.usefixtures("by_rows")
def test_warm_start_with_a_label_that_was_of_one_kind(data, loss, kind):
    """Its intercept was far away, where the loss is flat or straight."""
    X, Y = data
    last = Y.copy()
    last[:, 1] = kind
    model = LEML(4, 2.0, loss=loss, tol=1e-5, random_state=0, warm_start=True).fit(X, last).fit(X, Y)
    fresh = LEML(4, 2.0, loss=loss, tol=1e-5, random_state=0).fit(X, Y)
    assert model.converged_
    assert model.objective_ == pytest.approx(fresh.objective_, rel=1e-4)


@pytest.mark.usefixtures("either_path")
def test_warm_start_with_another_rank(yeast):
    model = LEML(rank=3, alpha=5.0, tol=1e-5, random_state=0, warm_start=True).fit(*yeast)
    objectives = [model.objective_]
    for rank in (6, 9, 3):
        objectives.append(model.set_params(rank=rank).fit(*yeast).objective_)
        fresh = LEML(rank=rank, alpha=5.0, tol=1e-5, random_state=0).fit(*yeast)
        assert model.rank_ == rank
        assert objectives[-1] == pytest.approx(fresh.objective_, rel=1e-4)
    assert objectives[0] > objectives[1] > objectives[2]


def test_warm_start_needs_the_same_shape(data):
    X, Y = data
    model = LEML(2, warm_start=True).fit(X, Y)
    with pytest.raises(ValueError, match=r"warm_start needs the shape .* got \(5, 7\)"):
        model.fit(X, Y[:, :5])


# Limits and errors


@pytest.mark.usefixtures("either_path")
def test_too_few_sweeps_warn_with_the_remedy(data):
    with pytest.warns(ConvergenceWarning, match="raise max_iter or loosen tol"):
        model = LEML(2, 2.0, tol=1e-12, max_iter=2, random_state=0).fit(*data)
    assert model.n_iter_ == 2
    assert not model.converged_


@pytest.mark.usefixtures("either_path")
def test_callback_stops(data):
    seen = []
    model = LEML(2, 2.0, tol=0.0, callback=lambda info: seen.append(info.objective) or len(seen) == 3)
    model.fit(*data)
    assert model.n_iter_ == 2
    assert seen == list(model.history_["objective"])
    assert "callback" in model.status_


def test_progress_bar_is_for_standard_error_only(data, capfd):
    LEML(2, verbose=1).fit(*data)
    written = capfd.readouterr()
    assert written.out == ""
    assert "objective" in written.err


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"rank": 0}, ValueError, "rank must be at least 1, got 0"),
        ({"rank": 7}, ValueError, r"rank must be in \[1, 6\]"),
        ({"rank": 1.5}, ValueError, r"as a float, rank must be in \(0, 1\]"),
        ({"rank": "all"}, TypeError, "rank must be an int"),
        ({"alpha": -1.0}, ValueError, "alpha must be finite and at least 0"),
        ({"loss": "hinge"}, ValueError, "loss must be one of"),
        ({"tol": -1.0}, ValueError, "tol must be finite"),
        ({"max_iter": 0}, ValueError, "max_iter must be an int of at least 1"),
        ({"fit_intercept": "no"}, TypeError, "fit_intercept must be True or False"),
        ({"warm_start": 1}, TypeError, "warm_start must be True or False"),
        ({"callback": 3}, TypeError, "callback must be callable"),
        ({"threshold": [0.5]}, ValueError, "threshold must be"),
        ({"random_state": "x"}, ValueError, "random_state must be None, an int"),
    ],
)
def test_bad_parameters_leave_the_estimator_unchanged(data, fitted, params, error, message):
    model = LEML(2).fit(*data)
    before = fitted(model)
    with pytest.raises(error, match=message):
        model.set_params(**params).fit(*data)
    assert all(value is before[name] for name, value in fitted(model).items())


def test_bad_data_leaves_the_estimator_unchanged(data, fitted):
    X, Y = data
    model = LEML(2).fit(X, Y)
    before = fitted(model)
    bad = [
        ((X[:5], Y), {}),
        ((X, Y + 1), {}),
        ((np.full_like(X, np.nan), Y), {}),
        ((X, Y), {"observed": np.zeros(Y.shape, dtype=bool)}),
        ((X, Y), {"sample_weight": -np.ones(len(X))}),
    ]
    for arguments, named in bad:
        with pytest.raises(ValueError):  # noqa: PT011  the wording is tested with LRML
            model.fit(*arguments, **named)
        assert all(value is before[name] for name, value in fitted(model).items())


@pytest.mark.usefixtures("by_rows")
def test_features_that_overflow_are_named(data):
    X, Y = data
    with pytest.raises(ValueError, match="squares of X must stay below 1e308"):
        LEML(2).fit(X * 1e200, Y)


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("scale", [1e-9, 1e9])
@pytest.mark.usefixtures("either_path")
def test_units_of_the_features_do_not_matter(data, loss, scale):
    """X times s and alpha times s have the same scores: W shrinks by s."""
    X, Y = data
    one = LEML(3, 2.0, loss=loss, tol=1e-6, random_state=0).fit(X, Y)
    other = LEML(3, 2.0 * scale, loss=loss, tol=1e-6, random_state=0).fit(X * scale, Y)
    assert other.objective_ == pytest.approx(one.objective_, rel=1e-6)
    np.testing.assert_allclose(other.decision_function(X * scale), one.decision_function(X), atol=1e-2)


# scikit-learn


def test_probabilities_belong_to_the_logistic_loss(data):
    X, Y = data
    model = LEML(3, loss="logistic", random_state=0).fit(X, Y)
    np.testing.assert_allclose(model.predict_proba(X), 1 / (1 + np.exp(-model.decision_function(X))))
    np.testing.assert_array_equal(model.predict(X), model.predict_proba(X) >= 0.5)
    assert not hasattr(LEML(), "predict_proba")


def test_pickle_and_clone(data):
    model = LEML(3, 2.0, random_state=0).fit(*data)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(data[0]), model.decision_function(data[0]))
    np.testing.assert_array_equal(clone(model).fit(*data).coef_, model.coef_)


@pytest.mark.real_data
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_bibtex_stays_sparse_and_learns(mulan, loss):
    """Half of the labels hidden, rank 10: the best label is right far more often than the commonest is."""
    (X, Y), (new_X, new_Y) = mulan("bibtex").train, mulan("bibtex").test
    X, Y, new_X = sp.csr_array(X)[:1500], sp.csr_array(Y)[:1500], sp.csr_array(new_X)
    observed = np.random.default_rng(0).random(Y.shape) < 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LEML(10, 3.0 if loss == "squared" else 0.3, loss=loss, max_iter=8, random_state=0)
        model.fit(X, Y, observed=observed)
    truth = new_Y.toarray() if sp.issparse(new_Y) else np.asarray(new_Y)
    best = model.predict_top_k(new_X, 1).labels[:, 0]
    hits = truth[np.arange(len(truth)), best].mean()
    assert hits > 2 * truth.mean(axis=0).max()
