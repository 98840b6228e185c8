"""What a fit on a device copies to the host."""

import sys

import numpy as np
import pytest
from sklearn.base import clone

from lrml import LEML, LRML, LRMLCV, MLFro, MLTrace
from lrml.core import arrays as _arrays
from namespaces import assert_same, dispatching, places, put


@pytest.fixture
def copied(monkeypatch):
    """Copies from a device to the host, as (name of the calling module, shape)."""
    seen = []
    original = _arrays.to_numpy

    def counting(array):
        found = original(array)
        if found is not array:
            seen.append((sys._getframe(1).f_globals["__name__"], found.shape))
        return found

    for name, module in list(sys.modules.items()):
        if name.startswith("lrml") and getattr(module, "to_numpy", None) is original:
            monkeypatch.setattr(module, "to_numpy", counting)
    return seen


ROWS, FEATURES, LABELS = 150, 40, 30


@pytest.mark.parametrize("place", places("strict-device1", "torch-cpu"), indirect=True)
@pytest.mark.parametrize(
    "model", [LRML(alpha=1.0), LRML(3, 5.0, ridge=0.1), MLTrace(5.0), MLFro(1.0)], ids=str
)
def test_a_fit_copies_singular_values_and_rows_of_andersons_gram_matrix_only(place, copied, model):
    """`float(x)` of a single number is not counted here; on "device1" nothing else gets to the host."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    Y = (X[:, :5] @ rng.normal(size=(5, LABELS)) + rng.normal(size=(ROWS, LABELS)) > 1).astype(float)
    with dispatching():
        model = clone(model).fit(put(place, X), put(place, Y))
    assert all(len(shape) == 1 and shape[0] <= FEATURES for _, shape in copied)
    # Of a step: two spectra, a row, and what is measured; and a few before and after.
    assert len(copied) <= 6 * model.n_iter_ + 12
    expected = clone(model).fit(X, Y)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    assert_same(model.coef_, expected.coef_, place, rtol=1e-5)


@pytest.mark.parametrize("place", places("strict-device1"), indirect=True)
@pytest.mark.parametrize(
    "model",
    [
        LRML(loss="logistic"),
        MLFro(loss="squared_hinge"),
        LEML(5),
        LEML(5, loss="logistic"),
        LRMLCV(thetas=[3], random_state=0),
        LRML(3, 1.0, ridge=0.1, kernel="rbf"),
    ],
    ids=str,
)
def test_other_fits_and_searches_copy_vectors_but_never_a_matrix(place, copied, model):
    """Strengths that follow the data, and what a search compares, are found from a few vectors."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(80, 12))
    Y = (X[:, :5] @ rng.normal(size=(5, 6)) + rng.normal(size=(80, 6)) > 1).astype(float)
    with dispatching():
        found = clone(model).fit(put(place, X), put(place, Y))
    assert all(len(shape) <= 1 for _, shape in copied)
    assert found.objective_ == pytest.approx(clone(model).fit(X, Y).objective_, rel=1e-4)
