"""LowRankImputer: scikit-learn's contract, and the completion behind it."""

import numpy as np
import pytest
from sklearn.impute import SimpleImputer
from sklearn.utils.estimator_checks import parametrize_with_checks

from lrml.completion import LowRankImputer, complete
from lrml.core.penalties import TailSum


def table(rows=60, columns=12, rank=2, hidden=0.3, seed=0):
    generator = np.random.default_rng(seed)
    full = generator.standard_normal((rows, rank)) @ generator.standard_normal((rank, columns)) + 5.0
    full += 0.05 * generator.standard_normal(full.shape)
    return full, np.where(generator.random(full.shape) < hidden, np.nan, full)


@parametrize_with_checks([LowRankImputer(random_state=0)])
def test_scikit_learns_contract(estimator, check):
    check(estimator)


def test_training_rows_are_those_of_the_completion():
    _, X = table()
    imputer = LowRankImputer(theta=2, alpha=0.5, tol=1e-8, max_iter=2000)
    filled = imputer.fit_transform(X)
    missing = np.isnan(X)
    mean = np.nanmean(X, axis=0)
    expected = complete(X - mean, TailSum(2, 0.5), tol=1e-8).dense() + mean
    np.testing.assert_array_equal(filled[~missing], X[~missing])
    np.testing.assert_allclose(filled[missing], expected[missing], atol=1e-5)


def test_new_rows_are_better_than_the_means():
    full, X = table(rows=80)
    imputer, again = (LowRankImputer(theta=2, random_state=0).fit(X[:60]) for _ in range(2))
    assert imputer.alpha_ == again.alpha_ > 0
    missing = np.isnan(X[60:])
    ours = (imputer.transform(X[60:]) - full[60:])[missing]
    means = (SimpleImputer().fit(X[:60]).transform(X[60:]) - full[60:])[missing]
    assert np.linalg.norm(ours) < 0.2 * np.linalg.norm(means)


def test_new_rows_solve_the_ridge_regression_of_the_docstring():
    _, X = table()
    imputer = LowRankImputer(theta=1, alpha=0.5).fit(X)
    V, s = imputer.components_, imputer.singular_values_
    assert len(s) > 1
    row = X[0].copy()
    row[[1, 5]] = np.nan
    known = ~np.isnan(row)
    weights = np.where(np.arange(len(s)) < 1, 0.0, 0.5 / s)
    stacked = np.vstack([V[known], np.diag(np.sqrt(weights))])
    target = np.concatenate([(row - imputer.mean_)[known], np.zeros(len(s))])
    expected = imputer.mean_ + V @ np.linalg.lstsq(stacked, target, rcond=None)[0]
    np.testing.assert_allclose(imputer.transform(row[None])[0, ~known], expected[~known], rtol=1e-6)
    # A row without values gets the means.
    np.testing.assert_allclose(imputer.transform(np.full((1, 12), np.nan))[0], np.nanmean(X, axis=0))


def test_a_fit_that_fails_changes_nothing():
    _, X = table()
    imputer = LowRankImputer(theta=1, alpha=0.1).fit(X)
    expected = imputer.transform(X)
    with pytest.raises(ValueError, match="theta"):
        imputer.set_params(theta=99).fit(X[:, :3])
    np.testing.assert_array_equal(imputer.transform(X), expected)
