"""theta="auto": the elbow of the energy of the least-squares predictions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

from lrml import LRML
from lrml.datasets import load_yeast

energies = arrays(float, st.integers(1, 20), elements=st.floats(0, 1e6)).map(lambda a: np.sort(a)[::-1])


def plane(n=200, d=12, n_labels=9, rank=4, noise=0.01, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    # Orthonormal factors: all planted directions count alike.
    left, right = (np.linalg.qr(rng.normal(size=(size, rank)))[0] for size in (d, n_labels))
    Y = X @ left @ right.T
    return X, Y + noise * rng.normal(size=Y.shape)


@pytest.mark.parametrize("rank", [1, 3, 5])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_planted_rank_is_found(rank, fit_intercept):
    X, Y = plane(rank=rank)
    model = LRML("auto", 5.0, targets="real", fit_intercept=fit_intercept).fit(X, Y)
    assert model.theta_ == rank
    assert model.theta == "auto"


def test_the_energies_are_those_of_the_predictions():
    X, Y = plane(noise=3.0)
    X0, Y0 = X - X.mean(0), Y - Y.mean(0)
    ridge = 7.0
    # Ridge regression is least squares on rows √ridge · I below X.
    stacked = np.vstack([X0, np.sqrt(ridge) * np.eye(X.shape[1])])
    W = np.linalg.lstsq(stacked, np.vstack([Y0, np.zeros((X.shape[1], Y.shape[1]))]), rcond=None)[0]
    values = np.linalg.svd(stacked @ W, compute_uv=False) ** 2
    expected = max(
        range(len(values) + 1),
        key=lambda theta: 1 - theta / len(values) - values[theta:].sum() / values.sum(),
    )
    assert LRML("auto", 1.0, ridge=ridge, targets="real").fit(X, Y).theta_ == expected


def test_it_is_the_same_as_passing_the_count():
    X, Y = load_yeast().train
    auto = LRML("auto", 20.0).fit(X, Y)
    plain = clone(auto).set_params(theta=auto.theta_).fit(X, Y)
    np.testing.assert_array_equal(auto.coef_, plain.coef_)
    assert 0 < auto.theta_ < 14


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_other_losses_take_it_from_least_squares(loss):
    X, Y = load_yeast().train
    X, Y = X[:300], Y[:300]
    found = LRML("auto", 5.0, ridge=1.0, loss=loss, tol=0.1).fit(X, Y)
    assert found.theta_ == LRML("auto", 5.0, ridge=1.0).fit(X, Y).theta_


def test_labels_that_never_occur_leave_nothing_free():
    assert LRML("auto", 1.0).fit(np.eye(6), np.zeros((6, 3))).theta_ == 0


@given(energies)
def test_no_theta_is_farther_below_the_line(values):
    """With X = I, least squares predicts Y itself: the energies are the squares of its diagonal."""
    Y, total = np.diag(np.sqrt(values)), values.sum()
    found = LRML("auto", 1.0, targets="real", fit_intercept=False).fit(np.eye(len(values)), Y).theta_
    if total == 0:
        assert found == 0
        return
    below = [1 - k / len(values) - values[k:].sum() / total for k in range(len(values) + 1)]
    assert below[found] >= max(below) - 1e-9


@pytest.mark.parametrize("theta", ["Auto", "all"])
def test_other_words_are_refused(theta):
    with pytest.raises(TypeError, match="'auto'"):
        LRML(theta).fit(np.eye(3), np.eye(3))
