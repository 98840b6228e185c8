"""Odd but legal data: few rows, columns and labels that do not vary, weights, and symmetries."""

from __future__ import annotations

import numpy as np
import pytest

from lrml import SpectralRegressor
from model_checks import FORMS, TIGHT, lrml

THETAS = pytest.mark.parametrize("theta", [0, 1, 1.0])


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(50, 6, 4, seed=21)


# Columns that do not vary


@FORMS
@pytest.mark.parametrize("constant", [0.1, -1e6 - 0.1])
@pytest.mark.parametrize("n", [3, 57, 5000])
def test_constant_columns_are_ignored(make_problem, form, n, constant):
    """Rounding grows with the number of rows, and must not be taken for variance."""
    X, Y = make_problem(n, 3, 3, seed=n)
    wide = np.insert(X, [0, 2], [constant, 0.0], axis=1)
    model, reference = (lrml(tol=1e-12).fit(M, Y) for M in (form(wide), X))
    np.testing.assert_allclose(model.coef_[:, [0, 3]], 0, atol=1e-13)
    np.testing.assert_allclose(model.coef_[:, [1, 2, 4]], reference.coef_, rtol=1e-6, atol=1e-8)
    wide = np.insert(X, [0, 3], 0.0, axis=1)
    model, reference = (lrml(fit_intercept=False).fit(M, Y) for M in (form(wide), X))
    np.testing.assert_allclose(np.delete(model.coef_, [0, 4], axis=1), reference.coef_, **TIGHT)


# Labels that do not vary


def test_labels_of_no_row_or_of_rows_without_weight(make_problem):
    X, Y = make_problem(30, 3, 3, seed=6)
    model = lrml().fit(X, Y, sample_weight=1.0 - Y[:, 0])
    np.testing.assert_array_equal(model.unseen_labels_, [True, False, False])
    model = lrml().fit(X, 0 * Y)
    np.testing.assert_allclose(model.decision_function(X), -1, rtol=1e-12)
    assert (model.rank_, model.objective_, model.predict(X).sum()) == (0, 0, 0)
    Y[:, 1] = 0  # a real target like any other
    model = SpectralRegressor(1, 2.0).fit(X, Y)
    assert not model.unseen_labels_.any()
    np.testing.assert_allclose(model.predict(X)[:, 1], 0, atol=1e-12)


# Symmetries


@THETAS
@pytest.mark.parametrize(("x_offset", "y_offset"), [(1e6, 0.0), (0.0, 1e6), (1e6, 1e6)])
def test_large_offsets_of_features_and_targets(data, theta, x_offset, y_offset):
    X, Y = data
    offsets = x_offset * np.array([1, -1, 2, 0.5, -3, 1])
    Y = Y + 0.3 * np.random.default_rng(0).standard_normal(Y.shape)
    X, Y = (X + offsets) - offsets, (Y + y_offset) - y_offset  # rounded as the shifted data are
    model, reference = (
        SpectralRegressor(theta, 2.0, ridge=0.5, space="coefficients", tol=1e-14).fit(*rows)
        for rows in ((X + offsets, Y + y_offset), (X, Y))
    )
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-5, atol=1e-7)
    # Scores of the shifted data lose the digits that 1e6 takes.
    scores = model.predict(X + offsets) - y_offset
    np.testing.assert_allclose(scores, reference.predict(X), atol=1e-5)
    assert model.objective_ == pytest.approx(reference.objective_, rel=1e-6)
