"""Defaults that follow the data: ridges, alphas and theta of fits, grids of searches of single fits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import brentq
from sklearn.base import clone

from lrml import LEML, LRML, MLFro, MLTrace, SpectralRegressor
from lrml.core.moments import Statistics

LOSS_NAMES = ["squared", "logistic", "squared_hinge"]


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(90, 12, 6, seed=5, density=0.3)


def ridge_by_definition(X, share, weights=1.0):
    """The root of (1/r) Σ λ_i / (λ_i + ρ) = share over the eigenvalues of the centred XᵀX."""
    w = np.broadcast_to(weights, len(X))
    centred = np.sqrt(w)[:, None] * (X - np.average(X, axis=0, weights=w))
    values = np.linalg.svd(centred, compute_uv=False) ** 2
    values = values[values > 1e-10 * values[0]]

    def excess(log_ridge):
        return np.mean(values / (values + np.exp(log_ridge))) - share

    return np.exp(brentq(excess, np.log(values[-1]) - 20, np.log(values[0]) + 20))


def slopes_by_definition(Y, loss, known, weights):
    """Derivatives at the best constants: p itself, the log odds of p, and 2p − 1."""
    w = weights[:, None] * known
    p = (w * Y).sum(axis=0) / w.sum(axis=0)
    signs = 2 * Y - 1
    return (
        known
        * {
            "squared": 2 * (p - Y),
            "logistic": p - Y,
            "squared_hinge": -2 * signs * np.maximum(0, 1 - signs * (2 * p - 1)),
        }[loss]
    )


# LEML


def validation_by_definition(X, slopes, weights, ridges):
    """GCV of each ridge with the hat matrix P diag(λ/(λ + ρ)) Pᵀ; its trace counts 1.05 times.

    Ridges that leave the residuals less than a tenth of all degrees of freedom count as useless.
    """
    root = np.sqrt(weights)[:, None]
    P, s, _ = np.linalg.svd(root * (X - np.average(X, axis=0, weights=weights)), full_matrices=False)
    target, rows = root * slopes, weights.sum() - 1
    values = []
    for ridge in np.atleast_1d(ridges):
        kept = s**2 / (s**2 + ridge)
        left = target - P @ (kept[:, None] * (P.T @ target))
        free = rows - 1.05 * kept.sum() if kept.sum() <= 0.9 * rows else 0.0
        values.append(np.sum(left**2) / free**2 if free > 0 else np.inf)
    return np.array(values)


@pytest.mark.parametrize("form", ["plain", "weighted", "masked"])
@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_ridge_minimises_generalised_cross_validation(data, loss, form):
    X, Y = data
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.5, 2.0, len(X)) if form == "weighted" else np.ones(len(X))
    known = rng.random(Y.shape) < 0.6 if form == "masked" else np.ones(Y.shape, dtype=bool)
    model = LEML(3, loss=loss).fit(X, Y, sample_weight=weights, observed=known)
    slopes = slopes_by_definition(Y, loss, known, weights)
    w = weights[:, None] * known
    scale = bend_by_definition(Y, loss, w / weights.sum() * len(Y))
    ends = [ridge_by_definition(X, share, weights) for share in (0.9, 0.01)]
    tried = validation_by_definition(X, slopes, weights, np.geomspace(*ends, 200))
    found = validation_by_definition(X, slopes, weights, 2.0 * model.ridge_ / scale)[0]
    assert found == pytest.approx(tried.min(), rel=1e-3)
    assert tried.max() > 1.1 * tried.min()
    assert model.alpha_ == 0.0
    if loss == "squared":  # real targets: the ridge follows their noise
        clean = X @ rng.standard_normal((12, 4)) + 3.0
        noise = rng.standard_normal((90, 4))
        weak, strong = (SpectralRegressor(max_rank=2).fit(X, clean + c * noise).ridge_ for c in (0.1, 10.0))
        assert strong > 10 * weak > 0


# LRML and ML-trace


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("theta", [0, 2])
def test_members_share_a_default_ridge_beside_free_values(data, theta, loss, masked):
    X, Y = data
    known = np.random.default_rng(0).random(Y.shape) < 0.6 if masked else None
    model = LRML(theta, loss=loss, space="coefficients").fit(X, Y, observed=known)
    usual = LEML(3, loss=loss).fit(X, Y, observed=known).ridge_
    assert model.ridge_ == (0.0 if theta == 0 else usual)
    assert MLFro(loss=loss).fit(X, Y, observed=known).alpha_ == usual
    twin = LRML(theta, model.alpha_, loss=loss, ridge=model.ridge_).fit(X, Y, observed=known)
    assert strengths(twin) == strengths(model)
    np.testing.assert_array_equal(twin.coef_, model.coef_)


def strengths(model):
    return model.alpha_, model.ridge_


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", [LRML, MLTrace, LEML])
def test_beside_a_given_alpha_there_is_no_ridge_but_a_given_one(data, kind, masked):
    X, Y = data
    known = np.random.default_rng(0).random(Y.shape) < 0.6 if masked else None
    assert strengths(kind(alpha=1.5).fit(X, Y, observed=known)) == (1.5, 0.0)
    assert strengths(kind(alpha=1.5, ridge=0.5).fit(X, Y, observed=known)) == (1.5, 0.5)
    if kind is LEML:
        assert strengths(kind(alpha=0.0).fit(X, Y, observed=known)) == (0.0, 0.0)


@pytest.mark.parametrize("form", ["plain", "weighted", "masked"])
@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("kind", [LRML, MLTrace])
def test_the_default_alpha_is_the_noise_along_the_best_ridge(data, kind, loss, form):
    X, Y = data
    rng = np.random.default_rng(0)
    weights = rng.uniform(0.05, 0.2, len(X)) if form == "weighted" else np.ones(len(X))
    known = rng.random(Y.shape) < 0.6 if form == "masked" else np.ones(Y.shape, dtype=bool)
    given = {"sample_weight": weights, "observed": known}
    bend = bend_by_definition(Y, loss, weights[:, None] * known / weights.sum() * len(Y))
    ridge = 2.0 * LEML(3, loss=loss).fit(X, Y, **given).ridge_ / bend
    energy = np.sum(weights[:, None] * slopes_by_definition(Y, loss, known, weights) ** 2)
    n_rows = weights.sum() ** 2 / np.sum(weights**2)
    model = kind(loss=loss, space="coefficients")
    assert model.fit(X, Y, **given).alpha_ == pytest.approx(np.sqrt(energy * ridge / n_rows))


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("kind", [LRML, MLTrace, LEML])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_blocks_and_sums_have_the_default_strengths_of_all_their_rows(data, kind, loss, fit_intercept):
    X, Y = data
    # Sums tell the number of rows instead of Σ w².
    w = np.random.default_rng(1).uniform(0, 0.1, len(X)) if loss != "squared" else np.full(len(X), 0.1)
    model = kind(loss=loss, fit_intercept=fit_intercept, tol=0.1)
    expected = pytest.approx(strengths(clone(model).fit(X, Y, sample_weight=w)))
    blocks = [(X[:30], Y[:30], w[:30]), (X[30:], Y[30:], w[30:])]
    assert strengths(clone(model).fit_blocks(blocks)) == expected
    if loss == "squared":
        assert strengths(clone(model).fit_statistics(Statistics.from_arrays(X, Y, w))) == expected


@pytest.mark.parametrize("theta", ["auto", 6, 2])
@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_separable_labels_have_a_solution_by_default(theta, alpha):
    """Without a ridge their coefficients grow without limit."""
    X = np.random.default_rng(0).standard_normal((50, 8))
    model = LRML(theta, alpha, loss="logistic", tol=1e-6).fit(X, X[:, :6] > 0)
    tighter = LRML(theta, alpha, loss="logistic", tol=1e-9, max_iter=3000).fit(X, X[:, :6] > 0)
    assert model.converged_
    assert tighter.converged_
    np.testing.assert_allclose(model.singular_values_, tighter.singular_values_, rtol=0.02, atol=0.02)


def bend_by_definition(Y, loss, known):
    """Half the curvature at the best constants times the share known, as a mean over the positive labels."""
    n_known = known.sum(axis=0)
    p = (Y * known).sum(axis=0) / n_known
    curvatures = {"squared": 2.0, "logistic": p * (1 - p), "squared_hinge": 2.0}[loss]
    return np.average(0.5 * curvatures * n_known / len(Y), weights=(Y * known).sum(axis=0))


# theta="auto"


def plane(n=120, d=12, n_labels=9, rank=4, noise=0.01):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    # Orthonormal factors: all planted directions count alike.
    left, right = (np.linalg.qr(rng.normal(size=(size, rank)))[0] for size in (d, n_labels))
    return X, X @ left @ right.T + noise * rng.normal(size=(n, n_labels))


def below_the_line(energies):
    """How far each theta is below the line from (0, 1) to (m, 0)."""
    m = len(energies)
    return [1 - theta / m - energies[theta:].sum() / energies.sum() for theta in range(m + 1)]


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_theta_is_the_elbow_of_the_energy_of_the_predictions(fit_intercept):
    for rank in (1, 3, 5):
        model = SpectralRegressor("auto", 5.0, ridge=0.0, fit_intercept=fit_intercept).fit(*plane(rank=rank))
        assert (model.theta_, model.theta) == (rank, "auto")
    X, Y = plane(noise=3.0)
    A, B, ridge = X - fit_intercept * X.mean(0), Y - fit_intercept * Y.mean(0), 7.0
    # Ridge regression is least squares on rows √ridge · I below X.
    A, B = np.vstack([A, np.sqrt(ridge) * np.eye(12)]), np.vstack([B, np.zeros((12, 9))])
    energies = np.linalg.svd(A @ np.linalg.lstsq(A, B, rcond=None)[0], compute_uv=False) ** 2
    model = SpectralRegressor("auto", 1.0, ridge=ridge, fit_intercept=fit_intercept).fit(X, Y)
    assert model.theta_ == int(np.argmax(below_the_line(energies)))


@given(arrays(float, st.integers(1, 20), elements=st.floats(0, 1e6)).map(lambda a: np.sort(a)[::-1]))
def test_no_theta_is_farther_below_the_line(energies):
    """With X = I, least squares predicts Y itself: the energies are the squares of its diagonal."""
    Y = np.diag(np.sqrt(energies))
    found = (
        SpectralRegressor("auto", 1.0, ridge=0.0, fit_intercept=False).fit(np.eye(len(energies)), Y).theta_
    )
    if energies.sum() == 0:
        assert found == 0
    else:
        below = below_the_line(energies)
        assert below[found] >= max(below) - 1e-9


def test_theta_auto_is_the_same_as_passing_the_count_and_for_all_losses_that_of_squares(yeast):
    X, Y = (part[:300] for part in yeast)
    auto = LRML("auto", 5.0, ridge=1.0).fit(X, Y)
    plain = clone(auto).set_params(theta=auto.theta_).fit(X, Y)
    np.testing.assert_array_equal(auto.coef_, plain.coef_)
    assert 0 < auto.theta_ < 14
    for loss in LOSS_NAMES[1:]:
        assert clone(auto).set_params(loss=loss, tol=0.1).fit(X, Y).theta_ == auto.theta_
    assert LRML("auto", 1.0).fit(np.eye(6), np.zeros((6, 3))).theta_ == 0
    with pytest.raises(TypeError, match="'all'"):
        LRML("all").fit(X, Y)
