"""MLTrace: the optimum of the trace norm, and a gap that bounds the distance from it."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from lrml import LRML, MLTrace
from lrml.core.losses import LOSSES
from lrml.solvers import Algorithm1, Status

INTERCEPT = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
SHAPES = pytest.mark.parametrize(
    ("n", "d", "n_labels"), [(30, 5, 4), (8, 12, 3), (30, 3, 6)], ids=["plain", "few rows", "many labels"]
)


def convex_optimum(X, Y, alpha, *, ridge=0.0, fit_intercept=True, loss="squared", known=None):
    """The least objective, from a general solver of convex programs."""
    (n, d), n_labels = X.shape, Y.shape[1]
    W, b = cp.Variable((d, n_labels)), cp.Variable((1, n_labels))
    scores = X @ W + (np.ones((n, 1)) @ b if fit_intercept else 0)
    signs = 2.0 * Y - 1
    if loss == "squared":
        terms = cp.square(Y - scores)
    elif loss == "logistic":
        terms = cp.logistic(-cp.multiply(signs, scores))
    else:
        terms = cp.square(cp.pos(1 - cp.multiply(signs, scores)))
    known = np.ones(Y.shape) if known is None else known.astype(float)
    total = cp.sum(cp.multiply(known, terms)) + alpha * cp.normNuc(W) + ridge * cp.sum_squares(W)
    return cp.Problem(cp.Minimize(total)).solve(solver=cp.CLARABEL)


@SHAPES
@INTERCEPT
@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_objective_is_the_optimum_and_the_gap_bounds_it(make_problem, n, d, n_labels, fit_intercept, ridge):
    X, Y = make_problem(n, d, n_labels, seed=d)
    optimum = convex_optimum(X, Y, 3.0, ridge=ridge, fit_intercept=fit_intercept)
    for tol in (None, 1e-2, 1e-8):
        model = MLTrace(3.0, ridge=ridge, fit_intercept=fit_intercept, tol=tol).fit(X, Y)
        assert model.gap_ <= (1e-4 if tol is None else tol)
        assert model.converged_
        excess = (model.objective_ - optimum) / model.objective_
        assert excess <= model.gap_ + 1e-7
    assert model.objective_ == pytest.approx(optimum, rel=1e-6)


@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
@pytest.mark.parametrize(("n", "d", "n_labels"), [(25, 4, 3), (20, 3, 5)])
@INTERCEPT
def test_other_losses_reach_the_optimum(make_problem, loss, n, d, n_labels, fit_intercept):
    X, Y = make_problem(n, d, n_labels, seed=d)
    params = {"ridge": 0.1, "fit_intercept": fit_intercept, "loss": loss}
    model = MLTrace(1.0, tol=1e-12, **params).fit(X, Y)
    assert model.objective_ == pytest.approx(convex_optimum(X, Y, 1.0, **params), rel=1e-6)
    assert model.status_ == Status.CONVERGED.value
    assert model.gap_ < 1e-6
    loose = MLTrace(1.0, **params).fit(X, Y)
    assert model.objective_ <= loose.objective_ * (1 + 1e-6) <= 1.05 * model.objective_


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_unknown_labels_reach_the_optimum(make_problem, loss):
    X, Y = make_problem(25, 4, 3, seed=4)
    known = np.random.default_rng(0).random(Y.shape) < 0.7
    model = MLTrace(1.0, ridge=0.1, loss=loss, tol=1e-7).fit(X, Y, observed=known)
    optimum = convex_optimum(X, Y, 1.0, ridge=0.1, loss=loss, known=known)
    assert model.objective_ == pytest.approx(optimum, rel=1e-6)


@SHAPES
@pytest.mark.parametrize("loss", ["squared", "logistic", "squared_hinge"])
def test_it_is_lrml_without_free_values(make_problem, n, d, n_labels, loss):
    X, Y = make_problem(n, d, n_labels, seed=d)
    trace = MLTrace(2.0, ridge=0.1, loss=loss, tol=1e-7).fit(X, Y)
    tail = LRML(0, 2.0, ridge=0.1, loss=loss, tol=1e-7).fit(X, Y)
    assert trace.objective_ == pytest.approx(tail.objective_, rel=1e-6)
    np.testing.assert_allclose(trace.coef_, tail.coef_, atol=2e-3)


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(st.integers(3, 25), st.integers(1, 7), st.integers(1, 7)),
    seed=st.integers(0, 500),
    alpha=st.sampled_from([1e-3, 0.5, 5.0, 1e3]),
    ridge=st.sampled_from([0.0, 0.3]),
    fit_intercept=st.booleans(),
    stop_after=st.integers(0, 6),
)
def test_gap_of_any_point_is_a_bound(
    make_problem, oracle, shape, seed, alpha, ridge, fit_intercept, stop_after
):
    """Also of points that are far from the optimum: what a callback leaves behind."""
    X, Y = make_problem(*shape, seed=seed)
    params = {"ridge": ridge, "fit_intercept": fit_intercept, "targets": "real"}
    best = MLTrace(alpha, tol=1e-9, **params).fit(X, Y)
    early = MLTrace(alpha, tol=1e-9, callback=lambda info: info.iteration >= stop_after, **params).fit(X, Y)
    slack = 1e-9 * max(1.0, np.sum(Y**2))
    assert early.objective_ - best.objective_ <= early.gap_ * early.objective_ + slack
    assert 0 <= early.gap_ <= 1
    assert 0 <= best.gap_ <= 1e-6
    problem = oracle(X, Y, 0, alpha, ridge=ridge, fit_intercept=fit_intercept)
    assert problem.objective(early.coef_, early.intercept_) == pytest.approx(early.objective_, abs=slack)


@INTERCEPT
def test_gap_is_not_above_that_of_the_scaled_residual(make_problem, oracle, fit_intercept):
    """The dual point is the best multiple of the residual; the oracle's is one of them."""
    X, Y = make_problem(40, 6, 4, seed=1)
    for stop_after in (1, 2, 4):
        model = MLTrace(
            5.0,
            fit_intercept=fit_intercept,
            tol=1e-9,
            callback=lambda info, k=stop_after: info.iteration >= k,
        )
        model.fit(X, Y)
        gap = oracle(X, Y, 0, 5.0, fit_intercept=fit_intercept).duality_gap(model.coef_)
        assert model.gap_ * model.objective_ <= gap * (1 + 1e-9)
        assert model.gap_ > 0


@pytest.mark.parametrize("solver", ["apg", "pg"])
def test_other_solvers_stop_on_the_gap(make_problem, solver):
    X, Y = make_problem(40, 5, 4, seed=2)
    model = MLTrace(3.0, solver=solver, tol=1e-5, max_iter=20_000).fit(X, Y)
    assert model.gap_ <= 1e-5
    assert model.converged_
    assert model.objective_ == pytest.approx(MLTrace(3.0, tol=1e-7).fit(X, Y).objective_, rel=2e-5)


def test_algorithm_1_reports_its_gap(make_problem):
    X, Y = make_problem(40, 5, 4, seed=2)
    model = MLTrace(3.0, solver=Algorithm1(), max_iter=20).fit(X, Y)
    assert model.status_ == Status.ALL_STEPS.value
    assert model.gap_ > 0


def test_no_penalty_is_exact_and_a_strong_one_leaves_nothing(make_problem):
    X, Y = make_problem(40, 5, 4, seed=2)
    free = MLTrace(0.0).fit(X, Y)
    assert (free.gap_, free.n_iter_, free.rank_) == (0.0, 0, 4)
    strong = MLTrace(1e4).fit(X, Y)
    assert (strong.rank_, strong.coef_.any()) == (0, False)
    assert strong.gap_ <= 1e-4
    A, B = X - X.mean(axis=0), Y - Y.mean(axis=0)
    edge = 2 * np.linalg.norm(A.T @ B, 2)  # W = 0 is the optimum exactly from this alpha on
    assert MLTrace(1.001 * edge, tol=1e-6).fit(X, Y).rank_ == 0
    assert MLTrace(0.99 * edge, tol=1e-8).fit(X, Y).rank_ == 1


def test_yeast(yeast):
    X, Y = yeast
    for alpha in (1.0, 20.0):
        model = MLTrace(alpha).fit(X, Y)
        tight = MLTrace(alpha, tol=1e-8).fit(sp.csr_array(X), sp.csr_array(Y))
        assert 0 <= model.objective_ - tight.objective_ <= 1e-4 * model.objective_
        assert tight.gap_ <= 1e-8
        np.testing.assert_allclose(model.coef_, tight.coef_, atol=0.05 * np.abs(tight.coef_).max())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("ridge", [0.0, 0.5])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("hidden", [0.0, 0.3])
def test_the_gap_of_every_loss_bounds_the_distance_to_the_optimum(
    make_problem, loss, ridge, fit_intercept, hidden
):
    X, Y = make_problem(60, 5, 4, seed=2)
    Y = np.where(np.random.default_rng(0).random(Y.shape) < hidden, np.nan, Y)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 60)

    def fit(tol):
        model = MLTrace(2.0, ridge=ridge, loss=loss, fit_intercept=fit_intercept, tol=tol, max_iter=20_000)
        return model.fit(X, Y, sample_weight=weights)

    rough, best = fit(0.1), fit(1e-12)
    assert best.gap_ < 1e-5
    assert rough.gap_ >= (rough.objective_ - best.objective_) / rough.objective_ - 1e-6
    assert best.gap_ <= rough.gap_ + 1e-9
