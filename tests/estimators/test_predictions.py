"""A penalty on the predictions: its closed form against definitions that are written in NumPy."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from lrml import CPLST, LRML, MLFro, MLTrace, SpectralRegressor
from lrml.core.moments import Statistics

EVERY_SIZE = pytest.mark.parametrize("data", ["long", "wide", "many labels"], indirect=True)


def predictive(theta=2, alpha=3.0, ridge=0.5, **params):
    return LRML(theta, alpha, ridge=ridge, space="predictions", **params)


@pytest.fixture(scope="module")
def data(request, make_problem):
    """More rows than features, fewer, and more labels than either."""
    sizes = {"long": (45, 7, 5), "wide": (30, 50, 6), "many labels": (40, 6, 25)}
    return make_problem(*sizes[getattr(request, "param", "long")], seed=8)


def close(found, expected, rtol=1e-9):
    np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * np.abs(expected).max())


def extended(X, Y, ridge, weights=None):
    """X̃ = [√w X_c; √ridge I] and [√w Y_c; 0]: the objective is ‖Ỹ − X̃W‖² + Ω(σ(X̃W))."""
    w = np.ones(len(X)) if weights is None else weights
    X, Y = X - np.average(X, axis=0, weights=w), Y - np.average(Y, axis=0, weights=w)
    d, roots = X.shape[1], np.sqrt(w)[:, None]
    return np.r_[roots * X, np.sqrt(ridge) * np.eye(d)], np.r_[roots * Y, np.zeros((d, Y.shape[1]))]


# The minimum


@EVERY_SIZE
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_ends_of_the_family_are_known(data, kernel):
    X, Y = data
    same = {"kernel": kernel}
    pairs = [
        (predictive(2, 0.0, **same), MLFro(0.5, **same)),
        (predictive(1.0, 3.0, **same), MLFro(0.5, **same)),
        (predictive(2, 1e4, **same), CPLST(2, ridge=0.5, **same)),
        (predictive(0, 3.0, **same), MLTrace(3.0, ridge=0.5, space="predictions", **same)),
    ]
    for model, known in pairs:
        close(model.fit(X, Y).decision_function(X), known.fit(X, Y).decision_function(X))
        assert model.rank_ == known.rank_
        assert model.n_iter_ == 0
        assert model.converged_
    assert known.gap_ == 0.0
    assert predictive(0, 1e4, **same).fit(X, Y).rank_ == 0


@EVERY_SIZE
@pytest.mark.parametrize("kind", [predictive(), MLTrace(2.0, ridge=0.5, space="predictions")], ids=repr)
def test_every_road_and_form_gives_the_same_model(data, kind):
    X, Y = data
    expected = clone(kind).fit(X, Y)
    parts = [(X[:9], Y[:9]), (X[9:10], Y[9:10]), (X[10:], Y[10:])]
    grown = clone(kind)
    for part in parts:
        grown.partial_fit(*part)
    ways = [clone(kind).set_params(solver=road).fit(X, Y) for road in ("primal", "dual", "compressed")]
    ways += [clone(kind).fit(sp.csr_array(X), sp.csr_array(Y)), clone(kind).fit(sp.csc_matrix(X), Y), grown]
    ways += [clone(kind).fit_blocks(parts), clone(kind).fit_statistics(Statistics.from_arrays(X, Y))]
    ways += [clone(kind).set_params(warm_start=True).fit(X, 1 - Y).fit(X, Y)]
    for model in ways:
        close(model.coef_, expected.coef_)
        close(model.intercept_, expected.intercept_)
        assert model.rank_ == expected.rank_
        assert model.objective_ == pytest.approx(expected.objective_, rel=1e-9)
    through = clone(kind).set_params(kernel="precomputed").fit(X @ X.T, Y)
    fresh = np.random.default_rng(0).standard_normal((5, X.shape[1]))
    close(through.decision_function(fresh @ X.T), expected.decision_function(fresh))
    close(through.singular_values_, expected.singular_values_)


# Defaults, refusals, files


def test_by_default_least_squares_penalise_the_predictions(data):
    X, Y = data
    model = LRML().fit(X, Y)
    same = predictive(0.05, model.alpha_, model.ridge_).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, same.coef_)
    noise = np.linalg.norm(Y - Y.mean(axis=0)) * np.sqrt(2 / len(X))
    assert model.alpha_ == pytest.approx(0.5 * noise)
    assert model.ridge_ > 0
    scores = model.decision_function(X)
    for scale in (1e-5, 1e5):
        scaled = LRML().fit(scale * X, Y)
        assert scaled.alpha_ == pytest.approx(model.alpha_)
        assert scaled.ridge_ == pytest.approx(scale**2 * model.ridge_)
        close(scaled.decision_function(scale * X), scores)
        real = SpectralRegressor().fit(X, scale * Y)
        assert real.alpha_ == pytest.approx(scale * model.alpha_)
        assert real.ridge_ == pytest.approx(model.ridge_)
        close(real.predict(X), scale * scores)


def test_a_given_alpha_and_rows_that_must_be_read_keep_the_objective_of_the_paper(data):
    X, Y = data
    hidden = np.where(np.random.default_rng(0).random(Y.shape) < 0.1, np.nan, Y)
    for model, labels, space in (
        (LRML(1, 2.0), Y, "coefficients"),
        (LRML(loss="logistic"), Y, "coefficients"),
        (LRML(), hidden, "predictions"),
        (LRML(solver="compressed"), hidden, "coefficients"),
    ):
        plain, given = (clone(model).set_params(space=s).fit(X, labels) for s in (None, space))
        assert plain.n_iter_ > 0
        assert plain.space_ == space
        np.testing.assert_array_equal(plain.coef_, given.coef_)
    assert LRML(solver="apg").fit(X, Y).n_iter_ > 0


@pytest.mark.filterwarnings("ignore:Solution may be inaccurate")
@pytest.mark.parametrize(
    ("data", "loss"),
    [("long", "squared"), ("wide", "logistic"), ("many labels", "squared_hinge")],
    indirect=["data"],
)
def test_other_losses_and_unknown_labels_reach_the_minimum_by_iterations(data, loss):
    """Of the definition, by a general solver of convex programs."""
    X, Y = data[0][:25, :9], data[1][:25, :6]
    known = np.random.default_rng(0).random(Y.shape) < 0.8
    W, b = cp.Variable((X.shape[1], Y.shape[1])), cp.Variable((1, Y.shape[1]))
    scores = X @ W + np.ones((len(X), 1)) @ b
    terms = {
        "squared": lambda: cp.square(Y - scores),
        "logistic": lambda: cp.logistic(-cp.multiply(2.0 * Y - 1, scores)),
        "squared_hinge": lambda: cp.square(cp.pos(1 - cp.multiply(2.0 * Y - 1, scores))),
    }[loss]()
    tall, _ = extended(X, Y, 0.7)
    penalties = 2.0 * cp.normNuc(tall @ W) + 0.7 * cp.sum_squares(W)
    total = cp.sum(cp.multiply(known.astype(float), terms)) + penalties
    best = cp.Problem(cp.Minimize(total)).solve(solver=cp.CLARABEL)
    for solver in ("auto", "primal", "dual"):
        model = predictive(0, 2.0, 0.7, loss=loss, solver=solver, tol=1e-9)
        assert model.fit(X, Y, observed=known).objective_ == pytest.approx(best, rel=1e-5)
    warm = model.set_params(warm_start=True).fit(X, Y, observed=known)
    assert warm.n_iter_ <= 2


@pytest.mark.parametrize("kind", [LRML, MLTrace])
def test_what_has_no_use_for_the_space_is_refused(data, kind):
    X, Y = data
    hidden = np.where(np.arange(Y.size).reshape(Y.shape) == 3, np.nan, Y)
    refused = [({"solver": solver}, Y) for solver in ("apg", "pg", "paper")]
    for params, labels in [*refused, ({"solver": "compressed"}, hidden), ({"space": "x"}, Y)]:
        model = kind(**{"space": "predictions"} | params)
        with pytest.raises(ValueError, match="space"):
            model.fit(X, labels)
        assert not hasattr(model, "coef_")
