"""Features of any scale: default fits end near their optimum, nothing vanishes, or a warning says so."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_wine

from lrml import LEML, LRML, MLFro, MLTrace, lrml_path
from lrml.core.losses import LOSSES
from model_checks import table

SCALINGS = {
    "raw": lambda X: X,
    "unit rows": lambda X: X / np.linalg.norm(X, axis=1, keepdims=True),
    "standardised": lambda X: (X - X.mean(axis=0)) / X.std(axis=0),
    "one column": lambda X: X * np.r_[1e4, np.ones(X.shape[1] - 1)],
    "all scales": lambda X: X * 10 ** np.random.default_rng(0).uniform(-3, 3, X.shape[1]),
}
SCALED = pytest.mark.parametrize("scaling", SCALINGS.values(), ids=SCALINGS)


def noisy(seed, n, d, n_labels):
    """Features of length one, and labels that follow them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, (X @ rng.standard_normal((d, n_labels)) + rng.standard_normal((n, n_labels)) > 0).astype(float)


# Other losses


@SCALED
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_losses_do_not_end_above_a_model_that_is_not_theirs(scaling, loss):
    """On raw features of mixed scales they ended 30 to 240 % above the objective of MLFro's coefficients."""
    X, Y = table(load_wine)
    X = scaling(X)
    reference = MLFro(1e-3, loss=loss, tol=1e-9, max_iter=5000).fit(X, Y)
    sigma = np.linalg.svd(reference.coef_, compute_uv=False)
    misfit = LOSSES[loss].terms(Y, reference.decision_function(X)).values.sum()
    for alpha in (0.1 / sigma[0], 10.0 / sigma[0]):
        model = LRML(2, alpha, ridge=1e-3, loss=loss).fit(X, Y)
        assert model.objective_ <= 1.01 * (misfit + alpha * sigma[2:].sum() + 1e-3 * (sigma**2).sum())


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize("make", [LRML, MLTrace, MLFro], ids=lambda make: make.__name__)
def test_a_label_that_all_examples_have_needs_an_intercept_only(make, loss):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 3)), (rng.random((40, 3)) < 0.4).astype(float)
    options = {"alpha": 0.5, "loss": loss} | ({} if make is MLFro else {"ridge": 0.1})
    model, without = (make(**options).fit(X, labels) for labels in (np.insert(Y, 1, 1.0, axis=1), Y))
    always = 100.0 if loss == "logistic" else 1.0
    assert (model.coef_[1].any(), model.intercept_[1]) == (False, always)
    np.testing.assert_allclose(model.coef_[[0, 2, 3]], without.coef_, atol=1e-10)
    assert np.all(model.predict(X)[:, 1] == 1)
    assert make(**options).fit(X, np.ones((40, 2))).intercept_.tolist() == [always] * 2


@pytest.mark.parametrize("weight", [1e-100, 1e-25, 1e40])
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
@pytest.mark.parametrize(
    "model", [MLFro(1.0), MLTrace(1.0, ridge=1.0), LRML(2, 2.0, ridge=1.0), LEML(2, 1.0, ridge=1.0)], ids=repr
)
def test_the_level_of_weights_and_strengths_changes_nothing(model, loss, weight):
    """Single precision overflowed, or said that it had converged where it had not."""
    X, Y = noisy(0, 60, 8, 4)
    Y[3, 0] = np.nan if loss == "squared" else 0.0
    usual = clone(model).set_params(loss=loss).fit(X, Y)
    names = {"alpha", "ridge"} & set(model.get_params())
    scaled = clone(usual).set_params(**{name: weight * getattr(model, name) for name in names})
    scaled.fit(X, Y, sample_weight=np.full(60, weight))
    assert scaled.objective_ == pytest.approx(weight * usual.objective_, rel=1e-5)
    assert scaled.converged_


# No feature vanishes


@pytest.mark.parametrize("ratio", [1e4, 1e7, 1e8])
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.filterwarnings("ignore::UserWarning")  # the last ratio is on the edge of what may be promised
def test_ridge_regression_uses_features_of_all_scales(ratio, alpha, fit_intercept):
    X, Y = noisy(0, 100, 6, 4)
    X = X * np.r_[ratio, 1.0, 1.0, np.sqrt(ratio), 1.0, 1.0]
    # Least squares for columns of length one, whose ridges differ instead: it cannot lose a column.
    scale = np.linalg.norm(X, axis=0)
    rows = np.vstack([(X - X.mean(axis=0) * fit_intercept) / scale, np.sqrt(alpha) * np.diag(1 / scale)])
    targets = np.vstack([Y - Y.mean(axis=0) * fit_intercept, np.zeros((6, 4))])
    W = np.linalg.lstsq(rows, targets, rcond=None)[0]
    best = ((targets - rows @ W) ** 2).sum()
    for model in (MLFro(alpha), LRML(4, 1.0, ridge=alpha)):
        model.set_params(fit_intercept=fit_intercept).fit(X, Y)
        misfit = ((Y - X @ model.coef_.T - model.intercept_) ** 2).sum()
        assert misfit + alpha * (model.coef_**2).sum() == pytest.approx(best, rel=1e-8)
        assert model.objective_ == pytest.approx(best, rel=1e-8)


def test_beyond_a_hundred_million_a_warning_names_the_columns():
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((40, 4)) * [1e10, 1.0, 1e9, 1e5], rng.random((40, 3)) < 0.4
    names = pd.DataFrame(X, columns=["time", "age", "pay", "size"])
    for fit in (LRML().fit, MLFro().fit, MLFro(loss="logistic").fit):
        with pytest.warns(UserWarning, match=r"'age'.*'time'") as caught:
            fit(names, Y)
        assert all(entry.filename == __file__ for entry in caught)
    with pytest.warns(UserWarning, match=r" 1 .* 0"):
        lrml_path(sp.csr_array(X), Y, 1, [1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LRML().fit(names[["time", "pay", "size"]], Y)
