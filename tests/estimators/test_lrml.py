"""What LRML computes: exact limits, certificates of optimality, and an honest record of the way there."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from lrml import LRML
from lrml.solvers import Status

INTERCEPT = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
# Plain data, fewer rows than features, more labels than features.
SHAPES = pytest.mark.parametrize("shape", [(40, 6, 5), (9, 15, 4), (30, 3, 8)], ids=str)
SOLVERS = pytest.mark.parametrize("solver", ["auto", "apg", "pg"])


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(60, 7, 5, seed=31)


def some_weights(n, weighted):
    return np.random.default_rng(7).uniform(0.2, 2.0, n) if weighted else None


def stopping_after(iteration):
    return None if iteration is None else lambda info: info.iteration >= iteration


# Least squares and ridge regression


@INTERCEPT
def test_no_penalty_is_the_least_squares_solution_of_smallest_norm(make_problem, fit_intercept):
    """Of repeated columns and sums of columns."""
    X, Y = make_problem(40, 4, 3, seed=2)
    X = np.c_[X, X[:, 0], X[:, 1] + X[:, 2]]
    model = LRML(0, 0.0, fit_intercept=fit_intercept).fit(X, Y)
    x_mean, y_mean = (X.mean(axis=0), Y.mean(axis=0)) if fit_intercept else (0.0, 0.0)
    solution = np.linalg.pinv(X - x_mean, rcond=1e-10) @ (Y - y_mean)
    np.testing.assert_allclose(model.coef_, solution.T, rtol=1e-7, atol=1e-10)


# What the fitted attributes claim


def assert_svd(model):
    U, s, V = model.factors_
    sigma = np.linalg.svd(model.coef_, compute_uv=False)
    scale = sigma[0]
    assert model.rank_ == len(s) == U.shape[1] == V.shape[1]
    np.testing.assert_array_equal(model.singular_values_, s)
    np.testing.assert_allclose(s, sigma[: len(s)], rtol=1e-7, atol=1e-12 * scale)
    np.testing.assert_allclose(sigma[len(s) :], 0, atol=1e-12 * scale)
    assert np.all(np.diff(s) <= 0)
    np.testing.assert_allclose((U * s) @ V.T, model.coef_.T, atol=1e-12 * max(scale, 1.0))
    np.testing.assert_allclose(U.T @ U, np.eye(len(s)), atol=1e-8)
    np.testing.assert_allclose(V.T @ V, np.eye(len(s)), atol=1e-8)


@pytest.mark.parametrize(
    ("shape", "theta", "fit_intercept", "weighted"),
    [((40, 6, 5), 2, True, True), ((9, 15, 4), 0, True, False), ((30, 3, 8), 2, False, True)],
    ids=str,
)
@SOLVERS
@pytest.mark.parametrize("stop_after", [0, 3, None])
def test_claims_are_those_of_the_definition_also_after_an_early_stop(
    make_problem, oracle, shape, fit_intercept, weighted, theta, solver, stop_after
):
    X, Y = make_problem(*shape, seed=shape[0])
    weights = some_weights(len(X), weighted)
    params = {"theta": theta, "alpha": 1.0, "ridge": 0.5 * weighted, "fit_intercept": fit_intercept}
    options = {"solver": solver, "callback": stopping_after(stop_after), "tol": 1e-5, "max_iter": 50_000}
    model = LRML(**params, **options).fit(X, Y, sample_weight=weights)
    problem = oracle(X, Y, weights=weights, **params)
    assert model.objective_ == pytest.approx(problem.objective(model.coef_, model.intercept_), rel=1e-8)
    assert model.residual_ == pytest.approx(problem.residual(model.coef_), rel=1e-5, abs=1e-10)
    assert_svd(model)
    if stop_after is None:
        assert model.residual_ <= 1e-2
    elif stop_after == 0:
        assert model.residual_ > 1e-4


# The record, callbacks, progress


def test_history_and_callback(data):
    class Watcher:
        """It cannot be copied."""

        def __init__(self):
            self.lock, self.seen = threading.Lock(), []

        def __call__(self, info):
            with self.lock:
                self.seen.append(info)

    watcher = Watcher()
    model = LRML(1, 3.0, tol=1e-12, callback=watcher).fit(*data)
    history = model.history_
    assert set(history) == {"iteration", "phase", "objective", "gap", "residual", "rank", "seconds"}
    for name, column in history.items():
        assert [getattr(info, name) for info in watcher.seen] == column.tolist()
    np.testing.assert_array_equal(history["iteration"], np.arange(model.n_iter_ + 1))
    assert history["phase"][0] == "start"
    assert np.all(np.diff(history["seconds"]) >= 0)
    assert history["objective"][-1] == pytest.approx(model.objective_, rel=1e-12)
    assert model.objective_ < history["objective"][0]
    assert history["gap"][-1] <= 1e-12
    assert history["rank"][-1] == model.rank_


@pytest.mark.parametrize("last", [0, 1, 4])
def test_callback_can_stop(data, last):
    model = LRML(1, 3.0, tol=1e-18, callback=lambda info: info.iteration == last).fit(*data)
    assert (model.n_iter_, model.status_) == (last, Status.STOPPED.value)
    assert model.objective_ == pytest.approx(model.history_["objective"].min(), rel=1e-12)


def test_progress_goes_to_standard_error(data, capfd):
    calls = []
    loud = LRML(1, 3.0, verbose=1, callback=calls.append).fit(*data)
    out, err = capfd.readouterr()
    assert out == ""
    assert all(part in err for part in ("LRML", f"{loud.n_iter_} ", f"{loud.objective_:.6g}"))
    assert "nan" not in err
    assert len(calls) == loud.n_iter_ + 1
    quiet = LRML(1, 3.0).fit(*data)
    assert capfd.readouterr() == ("", "")
    np.testing.assert_array_equal(loud.coef_, quiet.coef_)


@SOLVERS
def test_too_few_iterations_warn_where_the_fit_was_called(data, solver):
    model = LRML(1, 3.0, tol=1e-18, max_iter=1, solver=solver)
    with pytest.warns(ConvergenceWarning, match="max_iter") as caught:
        model.fit(*data)
    assert [entry.filename for entry in caught] == [__file__]
    assert model.status_ in str(caught[0].message)
    assert (model.n_iter_, model.converged_) == (1, False)
    assert model.residual_ > 1e-9


# Warm starts


@SOLVERS
@pytest.mark.parametrize("seed", [3, 35])
@SHAPES
def test_warm_start_from_a_solution_begins_there_and_ends_at_once(make_problem, solver, seed, shape):
    """Even though no point can be better than the start, and rounding makes most of them look worse."""
    X, Y = make_problem(*shape, seed=seed)
    X = X / np.linalg.norm(X, axis=0)
    model = LRML(1, 0.5, ridge=0.1, tol=1e-15, warm_start=True, solver=solver, max_iter=50_000).fit(X, Y)
    best, before = model.objective_, model.coef_
    model.set_params(tol=1e-3).fit(X, Y)
    assert model.history_["objective"][0] == pytest.approx(best, rel=1e-10)
    assert model.objective_ == pytest.approx(best, rel=1e-10)
    assert model.status_ == Status.CONVERGED.value
    assert model.n_iter_ <= 3
    np.testing.assert_allclose(model.coef_, before, atol=1e-5)
