"""SpectralRegressor: its closed form against an oracle in NumPy, its limits against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import Ridge

from lrml import CPLST, SpectralRegressor
from lrml.core.penalties import TailSum
from lrml.penalties import MCP, SCAD, Capped, OptimalShrinker, Rank

SIZES = {"long": (45, 7, 5), "wide": (25, 40, 6), "many targets": (40, 6, 25)}


@pytest.fixture(scope="module", params=SIZES.values(), ids=SIZES)
def data(request):
    return draw(*request.param)


def draw(n, d, n_targets, seed=0):
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((d, 2)) @ rng.standard_normal((2, n_targets))
    X = rng.standard_normal((n, d)) + 1.0
    return X, 3.0 + X @ W + rng.standard_normal((n, n_targets))


def tail(theta, alpha):
    """The proximal map of half of a tail sum."""
    return lambda d: np.where(np.arange(len(d)) < theta, d, np.maximum(d - alpha / 2, 0.0))


def oracle(X, Y, ridge, prox, weights=None, D=None):
    """Coefficients (L × d) and intercepts: one proximal step on the predictions of the ridge regression."""
    w, D = np.ones(len(X)) if weights is None else weights, np.ones(Y.shape[1]) if D is None else D
    means, d = (np.average(X, axis=0, weights=w), np.average(Y, axis=0, weights=w)), X.shape[1]
    tall = np.vstack([np.sqrt(w)[:, None] * (X - means[0]), np.sqrt(ridge) * np.eye(d)])
    targets = np.vstack([np.sqrt(w)[:, None] * (Y - means[1]), np.zeros((d, len(D)))]) * np.sqrt(D)
    U, s, Vt = np.linalg.svd(tall @ np.linalg.lstsq(tall, targets)[0], full_matrices=False)
    W = np.linalg.lstsq(tall, (U * prox(s)) @ Vt)[0] / np.sqrt(D)
    return W.T, means[1] - means[0] @ W


def assert_close(model, coef, intercept, rtol=1e-9):
    np.testing.assert_allclose(model.coef_, coef, rtol=0, atol=rtol * np.abs(coef).max())
    np.testing.assert_allclose(model.intercept_, intercept, rtol=0, atol=10 * rtol * np.abs(intercept).max())


# The closed form


@given(
    size=st.sampled_from(list(SIZES.values())),
    theta=st.integers(0, 3),
    alpha=st.sampled_from([0.0, 2.0, 40.0, math.inf]),
    ridge=st.sampled_from([0.2, 5.0]),
    weighted=st.booleans(),
    by_target=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_the_solution_is_that_of_the_oracle(size, theta, alpha, ridge, weighted, by_target, seed):
    X, Y = draw(*size, seed=seed)
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 2.0, len(X)) if weighted else None
    D = rng.uniform(0.1, 3.0, Y.shape[1]) if by_target else None
    model = SpectralRegressor(theta, alpha, ridge=ridge, target_weights=D).fit(X, Y, sample_weight=weights)
    assert_close(model, *oracle(X, Y, ridge, tail(theta, alpha), weights, D))
    assert (model.n_iter_, model.status_) == (0, "Solved in closed form.")
    U, s, V = model.factors_  # of W itself, whatever the weights of the targets
    np.testing.assert_allclose(U.T @ U, np.eye(model.rank_), atol=1e-9)
    np.testing.assert_allclose(V.T @ V, np.eye(model.rank_), atol=1e-9)
    np.testing.assert_allclose((V * s) @ U.T, model.coef_, atol=1e-9 * (1 + np.abs(model.coef_).max()))


def test_limits(data):
    X, Y = data
    for rank in (1, 3):
        reduced = SpectralRegressor(max_rank=rank, ridge=2.0).fit(X, Y)
        assert_close(reduced, *oracle(X, Y, 2.0, lambda d, k=rank: np.where(np.arange(len(d)) < k, d, 0.0)))
        assert_close(
            SpectralRegressor(rank, math.inf, ridge=2.0).fit(X, Y), reduced.coef_, reduced.intercept_
        )
        assert reduced.rank_ == rank
    labels = (Y > 3.5).astype(float)
    encoded = CPLST(2, ridge=0.3).fit(X, labels)
    np.testing.assert_allclose(
        SpectralRegressor(2, math.inf, ridge=0.3).fit(X, labels).predict(X),
        encoded.decision_function(X),
        atol=1e-9,
    )
    plain = Ridge(2.0).fit(X, Y)
    assert_close(SpectralRegressor(alpha=0.0, ridge=2.0).fit(X, Y), plain.coef_, plain.intercept_)
    ridges = np.random.default_rng(0).uniform(0.1, 30.0, Y.shape[1])
    plain = Ridge(ridges).fit(X, Y, sample_weight=np.arange(len(X)))
    one_each = SpectralRegressor(alpha=0.0, ridge=ridges).fit(X, Y, sample_weight=np.arange(len(X)))
    assert_close(one_each, plain.coef_, plain.intercept_)
    np.testing.assert_array_equal(one_each.ridge_, ridges)
    said = np.arange(len(X)) @ (Y - one_each.predict(X)) ** 2
    assert one_each.objective_ == pytest.approx(said.sum() + ridges @ (one_each.coef_**2).sum(axis=1))


# Penalties


class Hard:
    """Keep what is larger than a limit: a user's own, with no more than the closed form needs."""

    def __init__(self, limit):
        self.limit = limit

    def value(self, sigma):
        return self.limit**2 * float(np.count_nonzero(sigma))

    def prox(self, sigma, step):
        return np.where(sigma > np.sqrt(2.0 * step) * self.limit, sigma, 0.0)


def test_a_penalty_of_ones_own(data):
    X, Y = data
    model = SpectralRegressor(penalty=Hard(10.0), ridge=0.5)
    assert_close(model.fit(X, Y), *oracle(X, Y, 0.5, lambda d: np.where(d > 10.0, d, 0.0)))
    assert 0 < model.rank_ < min(X.shape[1], Y.shape[1])
    by_default = clone(model).set_params(ridge=None).fit(X, Y)
    assert by_default.ridge_ == SpectralRegressor().fit(X, Y).ridge_
    np.testing.assert_allclose(
        clone(model).leave_one_out_scores(X, Y)[:2],
        np.vstack([clone(model).fit(np.delete(X, i, 0), np.delete(Y, i, 0)).predict(X[[i]]) for i in (0, 1)]),
        atol=0.5 * np.ptp(Y),  # an estimate
    )


@pytest.mark.parametrize("space", ["predictions", "coefficients"])
@pytest.mark.parametrize(
    "made",
    [lambda s: s * np.nan, lambda s: s[:2], lambda s: s - s[0], np.sort, lambda s: 1.0 / (0.0 * s)],
    ids=["NaN", "fewer", "below 0", "ascending", "infinite"],
)
def test_a_wrong_proximal_map_of_ones_own_is_refused(data, space, made):
    class Wrong(MCP):
        def prox(self, sigma, step):
            with np.errstate(divide="ignore"):
                return made(sigma)

    model = SpectralRegressor(penalty=Wrong(5.0, 3.0), ridge=0.5, space=space)
    with pytest.raises(ValueError, match="prox"):
        model.fit(*data)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("penalty", [MCP(5.0, 3.0), Rank(30.0), OptimalShrinker()], ids=repr)
def test_relatives_of_the_tail_sum(data, penalty):
    X, Y = data
    model = SpectralRegressor(penalty=penalty, ridge=0.5).fit(X, Y)
    if not isinstance(penalty, OptimalShrinker):
        assert_close(model, *oracle(X, Y, 0.5, lambda d: penalty.prox(d, 0.5)))
        iterated = clone(model).set_params(space="coefficients").fit(X, Y)
        assert iterated.n_iter_ > 0
    assert 0 < model.rank_ <= min(X.shape[1], Y.shape[1])


# Roads and tools


@pytest.mark.parametrize("space", ["predictions", "coefficients"])
@pytest.mark.parametrize("penalty", [Rank(1e4), Capped(1e4, 0.5), MCP(5.0, 0.1), SCAD(0.1, 3.0)], ids=repr)
def test_penalties_that_are_flat_at_one_count_with_unknown_targets(penalty, space):
    """Where all slopes at σ = 1 are 0, the penalty was taken for none."""
    X, Y = draw(20, 3, 4)
    Y[3, 0] = np.nan
    model = SpectralRegressor(penalty=penalty, ridge=1.0, space=space).fit(X, Y)
    assert (model.rank_ == 0) == (penalty.alpha == 1e4)
    tall = np.vstack([X - X.mean(axis=0), np.eye(3)]) if space == "predictions" else np.eye(3)
    sigma = np.linalg.svd(tall @ model.coef_.T, compute_uv=False)
    prices = penalty.value(np.where(sigma > 1e-9, sigma, 0.0)) + np.sum(model.coef_**2)
    found = np.nansum((Y - model.predict(X)) ** 2) + prices
    assert model.objective_ == pytest.approx(found, rel=1e-6)


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"penalty": TailSum(1, 1.0), "theta": 1}, "theta"),
        ({"penalty": TailSum(1, 1.0), "alpha": 1.0, "max_rank": 2}, "alpha and max_rank"),
        ({"penalty": Hard(1.0), "space": "coefficients"}, "slopes"),
        ({"ridge": np.ones(5)}, "alpha=0"),
        ({"ridge": np.ones(4), "alpha": 0.0}, "4 .* 5"),
        ({"ridge": np.ones(5), "alpha": 0.0, "solver": "compressed"}, "decomposition"),
        ({"target_weights": np.ones(4)}, "4 .* 5"),
        ({"target_weights": np.ones(5)}, "memory"),  # of blocks
    ],
    ids=[
        "twice",
        "and more",
        "no slopes",
        "ridges and a penalty",
        "too few ridges",
        "no decomposition",
        "too few weights",
        "weights of blocks",
    ],
)
def test_what_does_not_go_together_is_refused(params, named):
    X, Y = draw(*SIZES["long"])
    model = SpectralRegressor(**params)
    with pytest.raises(ValueError, match=named):
        model.fit_blocks([(X, Y)]) if named == "memory" else model.fit(X, Y)
    assert not hasattr(model, "coef_")
    with pytest.raises(ValueError, match="Complex"):
        SpectralRegressor().fit(X, Y + 0j)
