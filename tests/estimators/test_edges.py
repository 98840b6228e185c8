"""Numbers at the edge: a fit is right, or refused in our words; NaN and warnings of NumPy are neither."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from lrml import (
    CPLST,
    LEML,
    LRML,
    LRMLCV,
    MLFro,
    MLTrace,
    SpectralRegressor,
    SpectralRegressorCV,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 6))
TARGETS = X @ RNG.standard_normal((6, 4)) + RNG.standard_normal((40, 4))
Y = (TARGETS > 0.3).astype(float)
# Strengths of these follow the data, so that the scale of X changes nothing.
FREE = [
    LRML(),
    LRML(loss="logistic"),
    LRML(loss="squared_hinge"),
    MLFro(),
    MLFro(loss="logistic"),
    LEML(),
    LRMLCV(random_state=0),
    SpectralRegressorCV(random_state=0),
]
GIVEN = [LRML(1, 1.0), LRML(1, 1.0, ridge=0.1), MLTrace(), MLFro(1.0), CPLST(1), LRML(kernel="rbf")]
MODELS = pytest.mark.parametrize(
    "model", [*FREE, *GIVEN, SpectralRegressor(), LRML(threshold="auto")], ids=repr
)
REGRESSORS = (SpectralRegressor, SpectralRegressorCV)


def scores(model, rows, targets):
    """Fit, and return finite scores of the same rows; of a regressor those of real targets."""
    found = clone(model).fit(rows, targets)
    answer = found.predict(rows) if isinstance(model, REGRESSORS) else found.decision_function(rows)
    assert np.isfinite(answer).all()
    assert np.isfinite(found.objective_)
    return answer


def targets_of(model, labels=Y):
    return TARGETS[: len(labels), : labels.shape[1]] if isinstance(model, REGRESSORS) else labels


@pytest.mark.parametrize("scale", [1e-150, 1e-149, 1e-30, 1e30, 1e150])
@pytest.mark.parametrize("model", FREE, ids=repr)
def test_any_scale_of_the_features(model, scale):
    targets = targets_of(model)
    wanted = scores(model, X, targets)
    np.testing.assert_allclose(scores(model, scale * X, targets), wanted, atol=1e-3 * np.ptp(wanted))


@pytest.mark.parametrize("scale", [0.0, 1e-310, 1e-160, 1e155, 1e300])
@MODELS
def test_what_squares_cannot_hold_is_refused(model, scale):
    """But for zeros, which are constants, and a Gaussian kernel, to which tiny rows are all alike."""
    if scale == 0.0 or (getattr(model, "kernel", "") == "rbf" and scale < 1):
        assert np.ptp(scores(model, scale * X, targets_of(model)), axis=0) == pytest.approx(0.0, abs=1e-9)
    else:
        with pytest.raises(ValueError, match="X"):
            scores(model, scale * X, targets_of(model))


@pytest.mark.parametrize(
    "rows", [np.full((40, 6), 3.0), np.repeat(X[:1], 40, axis=0)], ids=["columns", "rows"]
)
@MODELS
def test_features_that_do_not_vary_leave_the_best_constants(model, rows):
    targets = targets_of(model)
    found = scores(model, rows, targets)
    np.testing.assert_allclose(found, np.broadcast_to(found[0], found.shape), atol=1e-9)
    if getattr(model, "loss", "squared") == "squared":
        np.testing.assert_allclose(found[0], targets.mean(axis=0), atol=1e-6)


@MODELS
def test_features_of_rank_one(model):
    """All columns are multiples of one: scores are a straight line in it, or a curve with a kernel."""
    found = scores(model, np.outer(X[:, 0], np.arange(1.0, 7.0)), targets_of(model))
    if getattr(model, "kernel", "linear") == "linear":
        line = np.column_stack([np.ones(40), X[:, 0]])
        np.testing.assert_allclose(line @ np.linalg.lstsq(line, found)[0], found, atol=1e-8)


@MODELS
def test_one_row_one_column_one_label(model):
    assert scores(model, X[:, :1], targets_of(model)).shape == (40, 4)
    one = targets_of(model, Y[:, :1])
    assert scores(model, X, one).shape == one.shape
    if isinstance(model, (LRMLCV, SpectralRegressorCV)):
        with pytest.raises(ValueError, match="n_samples = 1"):
            scores(model, X[:1], targets_of(model, Y[:1]))
    else:
        known = targets_of(model, Y[:1])
        np.testing.assert_allclose(clone(model).fit(X[:1], known).predict(X[:1]), known, atol=1e-9)


@pytest.mark.parametrize("every", [0.0, 1.0])
@MODELS
def test_labels_that_are_all_alike(model, every):
    if isinstance(model, REGRESSORS):
        np.testing.assert_allclose(scores(model, X, np.full((40, 4), every)), every, atol=1e-9)
    elif isinstance(model, LRMLCV) and not every:
        with pytest.raises(ValueError, match="scoring"):
            scores(model, X, np.zeros((40, 4)))
    else:
        assert (clone(model).fit(X, np.full((40, 4), every)).predict(X) == every).all()
