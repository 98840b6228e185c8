"""MLFro and its path: ridge regression as scikit-learn does it."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from lrml import MLFro
from lrml.estimators import ml_fro_path
from lrml.solvers import Status

INTERCEPT = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
SHAPES = pytest.mark.parametrize(
    ("n", "d", "n_labels"), [(60, 7, 5), (10, 20, 4), (30, 3, 8)], ids=["plain", "few rows", "many labels"]
)
FORMS = pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
ALPHAS = [1e-3, 1.0, 100.0]


def some_weights(n, weighted):
    return np.random.default_rng(7).uniform(0.2, 2.0, n) if weighted else None


def ridge(X, Y, alpha, fit_intercept, weights):
    model = Ridge(alpha=alpha, fit_intercept=fit_intercept, solver="cholesky")
    return model.fit(X, Y, sample_weight=weights)


@SHAPES
@INTERCEPT
@WEIGHTED
@FORMS
def test_mlfro_and_its_path_are_ridge_regression(make_problem, n, d, n_labels, fit_intercept, weighted, form):
    X, Y = make_problem(n, d, n_labels, seed=n)
    weights = some_weights(n, weighted)
    path = ml_fro_path(form(X), form(Y), iter(ALPHAS), fit_intercept=fit_intercept, sample_weight=weights)
    assert path.coefs.shape == (3, n_labels, d)
    assert path.intercepts.shape == (3, n_labels)
    for place, alpha in enumerate(ALPHAS):
        expected = ridge(X, Y, alpha, fit_intercept, weights)
        model = MLFro(alpha, fit_intercept=fit_intercept).fit(form(X), form(Y), sample_weight=weights)
        for coef, intercept in (
            (model.coef_, model.intercept_),
            (path.coefs[place], path.intercepts[place]),
        ):
            np.testing.assert_allclose(coef, expected.coef_, rtol=1e-6, atol=1e-8)
            np.testing.assert_allclose(
                intercept, np.broadcast_to(expected.intercept_, n_labels), rtol=1e-6, atol=1e-8
            )
        assert (model.n_iter_, model.converged_) == (0, True)


@INTERCEPT
def test_alpha_zero_is_the_solution_of_smallest_norm(make_problem, fit_intercept):
    X, Y = make_problem(9, 15, 4, seed=2)
    X[:, 3] = X[:, 4]
    x_mean, y_mean = (X.mean(axis=0), Y.mean(axis=0)) if fit_intercept else (0.0, 0.0)
    solution = (np.linalg.pinv(X - x_mean, rcond=1e-10) @ (Y - y_mean)).T
    np.testing.assert_allclose(
        MLFro(0.0, fit_intercept=fit_intercept).fit(X, Y).coef_, solution, rtol=1e-7, atol=1e-9
    )
    path = ml_fro_path(X, Y, [0.0], fit_intercept=fit_intercept)
    np.testing.assert_allclose(path.coefs[0], solution, rtol=1e-7, atol=1e-9)


def test_objective(make_problem):
    X, Y = make_problem(40, 5, 4, seed=1)
    model = MLFro(2.5).fit(X, Y)
    errors = Y - X @ model.coef_.T - model.intercept_
    assert model.objective_ == pytest.approx(np.sum(errors**2) + 2.5 * np.sum(model.coef_**2), rel=1e-12)
    assert model.status_ == Status.EXACT.value
    assert model.residual_ <= 1e-12


def test_real_targets(make_problem):
    X, _ = make_problem(40, 5, 4, seed=1)
    targets = X @ np.random.default_rng(0).standard_normal((5, 3)) - 4.0
    model, expected = MLFro(0.3, targets="real").fit(X, targets), Ridge(0.3).fit(X, targets)
    np.testing.assert_allclose(model.predict(X), expected.predict(X), rtol=1e-9)
    path = ml_fro_path(X, targets, [0.3])
    np.testing.assert_allclose(path.coefs[0], expected.coef_, rtol=1e-9)


def test_path_of_frames_and_of_float32(make_problem):
    X, Y = make_problem(40, 5, 4, seed=1)
    expected = ml_fro_path(X, Y, ALPHAS)
    framed = ml_fro_path(pd.DataFrame(X, columns=list("abcde")), pd.DataFrame(Y), ALPHAS)
    np.testing.assert_allclose(framed.coefs, expected.coefs, rtol=1e-10)
    single = ml_fro_path(X.astype(np.float32), Y, ALPHAS)
    np.testing.assert_allclose(single.coefs, expected.coefs, atol=1e-5)
    assert ml_fro_path(X, Y, []).coefs.shape == (0, 4, 5)


@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6])
def test_features_that_do_not_vary(make_problem, constant):
    X, Y = make_problem(40, 5, 4, seed=1)
    wide = np.c_[X, np.full(40, constant)]
    path = ml_fro_path(wide, Y, [0.0, 1.0])
    np.testing.assert_allclose(path.coefs[:, :, 5], 0, atol=1e-12)
    np.testing.assert_allclose(path.coefs[:, :, :5], ml_fro_path(X, Y, [0.0, 1.0]).coefs, atol=1e-9)
    alone = MLFro(1.0).fit(wide[:, 5:], Y)
    assert not alone.coef_.any()
    np.testing.assert_allclose(alone.intercept_, Y.mean(axis=0))


@pytest.mark.parametrize(
    ("change", "error", "says"),
    [
        ({"alphas": [1.0, -1.0]}, ValueError, ("alpha", "at least 0", "-1.0")),
        ({"alphas": ["much"]}, TypeError, ("alpha", "'much'")),
        ({"alphas": 1.0}, TypeError, ("alphas", "1.0", "list")),
        ({"X": np.full((40, 5), np.nan)}, ValueError, ("X contains NaN",)),
        ({"X": np.ones(40)}, ValueError, ("2D array", "Reshape")),
        ({"X": np.ones((39, 5))}, ValueError, ("same number of rows", "39 and 40")),
        (
            {"Y": np.where(np.arange(4) == 2, np.nan, np.ones((40, 4)))},
            ValueError,
            ("contains NaN", "impute"),
        ),
        ({"Y": np.ones(40)}, ValueError, ("2-D", "(40,)")),
        ({"fit_intercept": "no"}, TypeError, ("fit_intercept", "'no'")),
        ({"sample_weight": np.ones(3)}, ValueError, ("sample_weight", "(40,)", "(3,)")),
    ],
)
def test_bad_input_of_the_path(make_problem, change, error, says):
    X, Y = make_problem(40, 5, 4, seed=1)
    with pytest.raises(error) as caught:
        ml_fro_path(**({"X": X, "Y": Y, "alphas": [1.0]} | change))
    assert all(words in str(caught.value) for words in says)


@pytest.mark.parametrize("alpha", [-1.0, np.inf, np.nan, "1"])
def test_bad_alpha(make_problem, alpha, fitted):
    model = MLFro(alpha)
    with pytest.raises((ValueError, TypeError), match="alpha must be"):
        model.fit(*make_problem(20, 3, 2))
    assert fitted(model) == {}
