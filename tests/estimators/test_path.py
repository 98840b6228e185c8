"""Paths: every model against its definition, the ends against closed forms, all against single fits."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lrml import LRML, lrml_path
from lrml.core.moments import Statistics
from lrml.estimators import LRMLPath

# Plain, weighted, and without an intercept.
OPTIONS = [
    {"fit_intercept": True},
    {"fit_intercept": True, "weights": "some"},
    {"fit_intercept": False, "weights": "some"},
]
EVERY_OPTION = pytest.mark.parametrize("options", OPTIONS, ids=str)


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(60, 7, 5, seed=31)


def given_options(options, n):
    """Return options as a path takes them, and as the oracle does."""
    weights = np.random.default_rng(7).uniform(0.2, 2.0, n) if "weights" in options else None
    common = {"fit_intercept": options["fit_intercept"]}
    return {"estimator": LRML(tol=1e-11, **common), "sample_weight": weights}, common | {"weights": weights}


def stacked(case):
    """Rows whose plain least squares are those of the problem, the ridge included."""
    X, Y = case.rows
    d, n_labels = X.shape[1], Y.shape[1]
    return np.r_[X, np.sqrt(case.ridge) * np.eye(d)], np.r_[Y, np.zeros((d, n_labels))]


def reduced_rank(case):
    """Least squares of rank theta: project the fitted values on their leading right singular vectors."""
    A, B = stacked(case)
    W = np.linalg.lstsq(A, B, rcond=1e-12)[0]
    V = np.linalg.svd(A @ W, full_matrices=False)[2][: case.theta].T
    return W @ V @ V.T


def slope(case, W):
    A, B = stacked(case)
    return 2 * A.T @ (A @ W - B)


def distance(case, coef):
    """Distance of 0 from the subdifferential at a W with σ_theta > σ_{theta+1}, relative to ‖∇f(0)‖.

    It is that of −∇f from alpha · (U_tail V_tailᵀ + U_⊥ M V_⊥ᵀ) over all ‖M‖₂ ≤ 1: what lies in the
    complement is clipped at alpha. No proximal map and no step size come in.
    """
    W = coef.T
    U, s, Vt = np.linalg.svd(W)
    rank = int(np.count_nonzero(s > 1e-9 * max(s[0], 1e-12)))
    rest = -slope(case, W)
    rest -= case.alpha * U[:, case.theta : rank] @ Vt[case.theta : rank]
    left, t, right = np.linalg.svd(U[:, rank:].T @ rest @ Vt[rank:].T, full_matrices=False)
    rest -= U[:, rank:] @ (left * np.minimum(t, case.alpha)) @ right @ Vt[rank:]
    return np.linalg.norm(rest) / np.linalg.norm(slope(case, np.zeros_like(W)))


def check_model(model, case, tol):
    """One model: objective, stationarity, factors and scores are what their definitions say."""
    coef, intercept = model.coef_, model.intercept_
    assert model.objective_ == pytest.approx(case.objective(coef, intercept), rel=1e-9)
    assert model.residual_ <= tol
    assert distance(case, coef) <= tol * (1 + 1e-6)
    U, s, V = model.factors_
    assert model.rank_ == len(s) == len(model.singular_values_)
    for side in (U, V):
        assert_allclose(side.T @ side, np.eye(model.rank_), atol=1e-9)
    assert np.all(np.diff(s) <= 0)
    assert np.all(s > 0)
    assert_allclose((V * s) @ U.T, coef, atol=1e-12 * max(1.0, np.abs(coef).max()))
    scores = model.decision_function if hasattr(model, "decision_function") else model.predict
    assert_allclose(scores(case.X), case.X @ coef.T + intercept, atol=1e-10)


def assert_same(path, other, atol=1e-7):
    assert len(path) == len(other)
    for model, twin in zip(path, other, strict=True):
        assert (model.theta, model.ridge) == (twin.theta, twin.ridge)
        assert model.alpha == pytest.approx(twin.alpha, rel=1e-7)
        assert_allclose(model.coef_, twin.coef_, atol=atol)
        assert_allclose(model.intercept_, twin.intercept_, atol=atol)


# Where a grid begins


def first_alpha(data, theta, **options):
    (model,) = lrml_path(*data, theta, n_alphas=1, **options)
    return model.alpha_


@EVERY_OPTION
@pytest.mark.parametrize("ridge", [0.0, 3.0])
@pytest.mark.parametrize("theta", [0, 1, 3, 0.4])
def test_a_grid_begins_at_the_slope_at_reduced_rank_regression(data, oracle, options, ridge, theta):
    for_path, for_oracle = given_options(options, 60)
    case = oracle(*data, 2 if theta == 0.4 else theta, 0.0, ridge, **for_oracle)
    expected = np.linalg.norm(slope(case, reduced_rank(case)), 2)
    assert first_alpha(data, theta, ridges=ridge, **for_path) == pytest.approx(expected, rel=1e-8)


def test_where_nothing_is_penalised_there_is_no_alpha(make_problem):
    for shape in ((30, 3, 6), (5, 8, 7)):
        assert first_alpha(make_problem(*shape), min(shape[1:])) == 0.0


# Every model of a path


SHAPES = {
    "plain": (60, 7, 5),
    "more labels than features": (40, 4, 9),
    "fewer rows than features": (9, 15, 5),
    "one label": (30, 6, 1),
    "one feature": (30, 1, 4),
}


@EVERY_OPTION
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_every_model_is_what_it_says(make_problem, oracle, shape, options):
    X, Y = make_problem(*shape, seed=3)
    for_path, for_oracle = given_options(options, len(X))
    for model in lrml_path(X, Y, ridges=[0.0, 0.5], n_alphas=6, **for_path):
        check_model(model, oracle(X, Y, model.theta, model.alpha, model.ridge, **for_oracle), 1e-4)


# What is in a path, and in which order


def test_defaults_are_five_thetas_and_twenty_alphas(make_problem):
    X, Y = make_problem(50, 22, 20, seed=1)
    path = lrml_path(X, Y)
    columns = path.as_dict()
    names = "theta alpha ridge rank nbytes objective gap converged n_iter"
    assert list(columns) == names.split()
    assert_array_equal(columns["theta"], np.repeat([0, 1, 2, 4, 8], 20))
    for theta, alphas in zip([0, 1, 2, 4, 8], columns["alpha"].reshape(5, 20), strict=True):
        largest = first_alpha((X, Y), theta)
        assert_allclose(alphas, np.geomspace(largest, largest / 1000, 20), rtol=1e-8)
    for name, column in columns.items():
        own = [getattr(model, f"{name}_") for model in path if name != "gap"]
        assert_allclose(column, own or column, rtol=1e-12)
    few = lrml_path(*make_problem(50, 6, 4), n_alphas=2)  # thetas that coincide count once
    assert [model.theta_ for model in few[::2]] == [0, 1, 2]


def test_a_path_is_a_sequence_by_ridge_by_theta_and_by_descending_alpha(data):
    path = lrml_path(*data, [2, 0.4, 0, np.int64(2)], [0.5, 8.0, 2.0, 0.5], np.array([1.0, 0.0, 1.0]))
    found = [(model.ridge_, model.theta_, model.alpha_) for model in path]
    assert found == [(r, t, a) for r in (1.0, 0.0) for t in (2, 0) for a in (8.0, 2.0, 0.5)]
    (model,) = lrml_path(*data, 2, np.array(0.5), 1)
    assert (model.theta_, model.alpha_, model.ridge_) == (2, 0.5, 1.0)
    assert repr(path) == "LRMLPath(12 models)"
    assert path[-1] is path[11]
    part = path[1:5:2]
    assert isinstance(part, LRMLPath)
    assert [(model.theta, model.alpha) for model in part] == [(2, 2.0), (0, 8.0)]
    assert all(len(column) == 2 for column in part.as_dict().values())


# Forms of data


def test_every_form_of_the_data_gives_the_same_models(data):
    X, Y = np.where(np.abs(data[0]) > 0.5, data[0], 0.0), data[1]
    times = np.random.default_rng(5).integers(0, 4, len(X))
    grid = {"thetas": [0, 2], "ridges": [0.0, 1.0], "n_alphas": 4}
    path = lrml_path(X, Y, **grid)
    assert_same(path, lrml_path(Statistics.from_arrays(X, Y), **grid), atol=0)
    halves = Statistics.from_arrays(X[:20], Y[:20]) + Statistics.from_arrays(X[20:], Y[20:])
    assert_same(path, lrml_path(halves, **grid))
    assert_same(path, lrml_path(sp.csr_array(X), sp.csc_matrix(Y), **grid))
    repeated = lrml_path(np.repeat(X, times, axis=0), np.repeat(Y, times, axis=0), **grid)
    assert_same(lrml_path(X, Y, **grid, sample_weight=times), repeated)
    assert lrml_path(X.astype(np.float32), Y, **grid)[0].coef_.dtype == np.float32
    framed = lrml_path(pd.DataFrame(X, columns=list("abcdefg")), pd.DataFrame(Y), **grid)
    assert_same(path, framed, atol=1e-12)
    assert list(framed[0].feature_names_in_) == list("abcdefg")


@pytest.mark.parametrize("estimator", [LRML(space="predictions"), LRML(space="predictions", kernel="rbf")])
def test_models_on_the_predictions_and_of_a_kernel_are_single_fits(data, estimator):
    for grid in ({"ridges": [0.5, 2.0], "n_alphas": 3}, {"alphas": [9.0, 0.0], "ridges": 1.0}):
        path = lrml_path(*data, [0, 2], **grid, estimator=estimator)
        for model in path:
            assert type(model) is LRML
            single = clone(model).fit(*data)
            assert (model.rank_, model.status_) == (single.rank_, single.status_)
            assert model.objective_ == pytest.approx(single.objective_, rel=1e-9)
            assert_allclose(model.decision_function(data[0]), single.decision_function(data[0]), atol=1e-9)
    assert path[0].rank_ < path[1].rank_


# Warnings and errors (parameters: test_door.py)


def test_what_did_not_converge_is_told_where_the_path_was_asked_for(yeast, data):
    with pytest.warns(ConvergenceWarning, match="max_iter") as record:
        path = lrml_path(*yeast, [0, 3], n_alphas=6, estimator=LRML(max_iter=1, tol=1e-10))
    late = sum(model.residual_ > 1e-5 for model in path)
    assert str(record[0].message).startswith(f"{late} of 12 models")
    assert record[0].filename == __file__
    with pytest.warns(ConvergenceWarning, match="tol"):  # below rounding
        lrml_path(*data, 0, [20.0, 10.0], estimator=LRML(max_iter=100_000, tol=0.0))


def test_bad_data_is_named(data):
    X, Y = data
    unknown = np.where(np.eye(60, 5), np.nan, Y)
    for A, B, more, shown in (
        (X, Y[:-1], {}, "60 .* 59"),
        (X, unknown, {}, "NaN"),
        (X, Y, {"sample_weight": np.ones(3)}, r"sample_weight .*\(60,\)"),
        (Statistics.from_arrays(X, Y), Y, {}, "Statistics"),
        (X, Y, {"estimator": LRML(loss="logistic")}, "logistic"),
        (X, Y, {"estimator": LRML(prune=5)}, "prune"),
        (X, Y, {"estimator": LRML(calibrate="sigmoid")}, "calibrate"),
        (X, Y, {"estimator": LRML(threshold="auto")}, "threshold"),
    ):
        with pytest.raises(ValueError, match=shown):
            lrml_path(A, B, **more)
    (model,) = lrml_path(X, Y, 2, 1.0)
    with pytest.raises(ValueError, match=r"X .*6 .*7"):
        model.decision_function(X[:, :6])
