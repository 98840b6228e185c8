"""Fitted models of every kind for the tests of model files."""

import numpy as np
import scipy.sparse as sp
from sklearn.base import is_classifier

from lrml import (
    CPLST,
    CPLSTCV,
    LEML,
    LEMLCV,
    LRML,
    LRMLCV,
    MLFro,
    MLFroCV,
    MLTrace,
    MLTraceCV,
    SpectralRegressor,
    SpectralRegressorCV,
)
from lrml.thresholds import Cut

_RANDOM = np.random.default_rng(0)
X = _RANDOM.normal(size=(60, 6))
Y = (X @ _RANDOM.normal(size=(6, 4)) + _RANDOM.normal(size=(60, 4)) > 0.5).astype(float)
X_NEW = _RANDOM.normal(size=(25, 6))
SQUARES = X @ X.T

MEMBERS = {
    "LRML": LRML(1, 2.0),
    "LRML auto": LRML("auto", np.float64(2.0), threshold=np.array([0.1, 0.2, 0.3, 0.4])),
    "LRML logistic": LRML(1, 2.0, ridge=0.1, loss="logistic"),
    "SpectralRegressor": SpectralRegressor(1, 2.0),
    "SpectralRegressor ridges": SpectralRegressor(alpha=0.0, ridge=np.array([0.1, 1.0, 2.0, 3.0])),
    "LRML rbf": LRML(1, 0.1, ridge=0.1, kernel="rbf", gamma=0.3),
    "LRML poly": LRML(1, 0.1, ridge=0.1, kernel="poly", degree=2, coef0=0.5, gamma=0.1),
    "LRML bare": LRML(0, 1e6),
    "MLTrace": MLTrace(2.0, ridge=0.1),
    "MLFro": MLFro(np.float32(1.0)),
    "MLFro cut": MLFro(1.0, threshold=Cut(per_label=True)),
    "MLFro isotonic": MLFro(1.0, calibrate="isotonic"),
    "MLFro pruned": MLFro(1.0, prune=10),
    "MLFro hinge": MLFro(1.0, loss="squared_hinge"),
    "LEML": LEML(2),
    "LEML logistic": LEML(0.5, 0.1, loss="logistic"),
    "CPLST": CPLST(2),
    "LRMLCV": LRMLCV(random_state=0),
    "LRMLCV grid": LRMLCV(
        LRML(threshold="auto"), thetas=[0, 1], alphas=[0.1, 1.0], ridges=[0.1], cv=3, random_state=0
    ),
    "LRMLCV several": LRMLCV(
        scoring=["label_ranking_average_precision", "f1_micro"], random_state=0, rule="smallest"
    ),
    "LRMLCV pruned": LRMLCV(LRML(prune=7), scoring=["f1_micro", "precision_at_1"], random_state=0),
    "LRMLCV rbf": LRMLCV(LRML(kernel="rbf"), random_state=0),
    "LRMLCV logistic": LRMLCV(LRML(loss="logistic"), alphas=[1.0], ridges=[0.1], cv=2, random_state=0),
    "MLTraceCV": MLTraceCV(MLTrace(threshold=Cut(per_label=True), calibrate="sigmoid"), cv=2, random_state=0),
    "MLFroCV": MLFroCV(alphas=np.array([0.1, 1.0, 10.0]), scoring="f1_micro", cv=2, random_state=0),
    "LEMLCV": LEMLCV(random_state=0, cv=2),
    "CPLSTCV": CPLSTCV(random_state=0, cv=2),
    "SpectralRegressorCV": SpectralRegressorCV(cv=2, random_state=0),
}


def scores(model, rows=X_NEW):
    """Scores, whether of labels or of real targets."""
    return model.decision_function(rows) if is_classifier(model) else model.predict(rows)


FORMS = {"array": np.asarray, "float32": np.float32, "csr": sp.csr_array, "csc_matrix": sp.csc_matrix}


def public(model):
    """Every fitted attribute that users see, by name; the record behind them and its sums are not."""
    names = (name for name in dir(model) if name.endswith("_") and not name.startswith("_"))
    passing = ("fitted_", "statistics_")
    return {name: getattr(model, name) for name in names if name not in passing and hasattr(model, name)}


def assert_equal(one, other, path=""):
    """The same value of the same type, but for numbers of NumPy and forms of sparse matrices."""
    if isinstance(other, np.generic):
        other = other.item()
    assert type(one) is type(other) or (sp.issparse(one) and sp.issparse(other)), path
    if isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, path
        np.testing.assert_array_equal(one, other, err_msg=path)
    elif sp.issparse(one):
        assert (one.shape, one.dtype, (one != other).nnz) == (other.shape, other.dtype, 0), path
    elif isinstance(one, dict):
        assert list(one) == list(other), path
        for key in one:
            assert_equal(one[key], other[key], f"{path}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), path
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_equal(a, b, f"{path}[{place}]")
    elif hasattr(one, "get_params"):
        assert_equal(one.get_params(deep=False), other.get_params(deep=False), f"{path}.params")
        ours, theirs = public(one), public(other)
        assert ours.keys() == theirs.keys(), path
        for key in ours:
            assert_equal(ours[key], theirs[key], f"{path}.{key}")
    else:
        assert one == other or (np.isnan(one) and np.isnan(other)), path
