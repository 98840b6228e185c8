"""Convergence: tolerances that are reached, histories, callbacks, progress, warm starts."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from lrml import LRML
from lrml.solvers import Status


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(60, 7, 5, seed=31)


@pytest.mark.parametrize(
    ("theta", "alpha", "fit_intercept"),
    [
        *((theta, 10.0, True) for theta in range(15)),
        *((theta, 10.0, False) for theta in range(15)),
        (3, 20.0, True),  # passes close by a saddle point
    ],
)
def test_tight_tolerance_is_reached_on_yeast(yeast, oracle, theta, alpha, fit_intercept):
    X, Y = yeast
    model = LRML(theta=theta, alpha=alpha, tol=1e-13, fit_intercept=fit_intercept).fit(X, Y)
    assert model.residual_ <= 1e-6
    problem = oracle(X, Y, theta, alpha, fit_intercept=fit_intercept)
    assert problem.residual(model.coef_) <= 1.01e-6
    assert problem.objective(model.coef_, model.intercept_) <= problem.objective(
        np.zeros((14, 103)), Y.mean(axis=0) if fit_intercept else np.zeros(14)
    )


@pytest.mark.parametrize(
    ("shape", "seed", "theta", "alpha", "ridge"),
    [
        ((30, 4, 3), 2, 1, 1.5, 0.2),
        ((15, 20, 6), 16, 2, 6.0, 0.0),
        ((40, 5, 12), 7, 2, 6.0, 0.0),
        *(((20, 8, 5), seed, theta, 1.5, 0.0) for seed in range(8) for theta in (1, 2)),
        *(((60, 6, 6), seed, theta, 0.3, 0.0) for seed in range(8) for theta in (1, 3)),
    ],
)
def test_tight_tolerance_is_reached_on_small_problems(make_problem, oracle, shape, seed, theta, alpha, ridge):
    X, Y = make_problem(*shape, seed=seed)
    model = LRML(theta=theta, alpha=alpha, ridge=ridge, tol=1e-13).fit(X, Y)
    assert oracle(X, Y, theta, alpha, ridge=ridge).residual(model.coef_) <= 1.01e-6
    assert model.status_ == Status.CONVERGED.value


@settings(max_examples=40, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 25), st.integers(1, 8), st.integers(1, 8)),
    seed=st.integers(0, 1000),
    share=st.sampled_from([0.0, 0.2, 0.5, 1.0]),
    alpha=st.sampled_from([0.0, 1e-3, 0.5, 5.0, 1e3]),
    ridge=st.sampled_from([0.0, 0.1]),
    fit_intercept=st.booleans(),
    solver=st.sampled_from(["auto", "apg", "pg"]),
    max_iter=st.sampled_from([1, 3, 50]),
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_never_worse_than_the_start(
    make_problem, oracle, shape, seed, share, alpha, ridge, fit_intercept, solver, max_iter
):
    X, Y = make_problem(*shape, seed=seed)
    X = X.round(3)
    model = LRML(
        theta=share,
        alpha=alpha,
        ridge=ridge,
        fit_intercept=fit_intercept,
        solver=solver,
        max_iter=max_iter,
        targets="real",
    ).fit(X, Y)
    slack = 1e-9 * max(1.0, np.sum(Y**2))
    assert model.objective_ <= model.history_["objective"][0] + slack
    assert (
        model.objective_ <= model.history_["objective"].min() + slack
        or model.status_ == Status.CONVERGED.value
    )
    theta = min(shape[1], shape[2], round(share * shape[2]))
    problem = oracle(X, Y, theta, alpha, ridge=ridge, fit_intercept=fit_intercept)
    assert problem.objective(model.coef_, model.intercept_) == pytest.approx(model.objective_, abs=slack)
    assert model.n_iter_ <= max_iter


def test_history(data):
    model = LRML(theta=1, alpha=3.0, tol=1e-12).fit(*data)
    history = model.history_
    assert list(history) == ["iteration", "phase", "objective", "gap", "residual", "rank", "seconds"]
    assert {len(column) for column in history.values()} == {model.n_iter_ + 1}
    np.testing.assert_array_equal(history["iteration"], np.arange(model.n_iter_ + 1))
    assert history["phase"][0] == "start"
    assert history["seconds"][0] == 0
    assert np.all(np.diff(history["seconds"]) >= 0)
    assert history["seconds"][-1] > 0
    assert history["objective"][-1] == pytest.approx(model.objective_, rel=1e-12)
    assert history["gap"][-1] <= 1e-12
    assert history["rank"][-1] == model.rank_
    assert model.objective_ < history["objective"][0]


@pytest.mark.parametrize("solver", ["apg", "pg"])
def test_proximal_gradient_never_goes_uphill(data, solver):
    history = LRML(theta=2, alpha=3.0, solver=solver, tol=1e-10, max_iter=20_000).fit(*data).history_
    assert len(history["objective"]) > 3
    assert np.all(np.diff(history["objective"]) <= 1e-10)


def test_callback_sees_every_iteration(data):
    seen = []
    model = LRML(theta=1, alpha=3.0, callback=seen.append).fit(*data)
    assert [info.iteration for info in seen] == list(range(model.n_iter_ + 1))
    for name, column in model.history_.items():
        assert [getattr(info, name) for info in seen] == column.tolist()


@pytest.mark.parametrize("last", [0, 1, 4])
def test_callback_can_stop(data, last):
    model = LRML(theta=1, alpha=3.0, tol=1e-18, callback=lambda info: info.iteration == last).fit(*data)
    assert model.n_iter_ == last
    assert model.status_ == Status.STOPPED.value
    assert model.objective_ == pytest.approx(model.history_["objective"].min(), rel=1e-12)
    assert LRML(theta=1, alpha=3.0, tol=1e-18).fit(*data).n_iter_ > 4


def test_callback_may_hold_what_cannot_be_copied(data):
    class Watcher:
        def __init__(self):
            self.lock, self.calls = threading.Lock(), 0

        def __call__(self, info):
            with self.lock:
                self.calls += 1

    watcher = Watcher()
    model = LRML(theta=1, alpha=3.0, callback=watcher).fit(*data)
    assert watcher.calls == model.n_iter_ + 1


def test_progress_goes_to_standard_error(data, capfd):
    calls = []
    loud = LRML(theta=1, alpha=3.0, verbose=1, callback=calls.append).fit(*data)
    out, err = capfd.readouterr()
    assert out == ""
    assert "LRML" in err
    assert f"{loud.n_iter_} of at most 5000 iterations" in err
    assert "nan" not in err
    assert f"objective {loud.objective_:.6g}" in err
    assert f"rank {loud.rank_}" in err
    assert len(calls) == loud.n_iter_ + 1
    quiet = LRML(theta=1, alpha=3.0).fit(*data)
    assert capfd.readouterr() == ("", "")
    np.testing.assert_array_equal(loud.coef_, quiet.coef_)


@pytest.mark.parametrize("solver", ["auto", "apg", "pg"])
def test_too_few_iterations_warn_with_the_remedy(data, solver):
    model = LRML(theta=1, alpha=3.0, tol=1e-18, max_iter=1, solver=solver)
    with pytest.warns(ConvergenceWarning) as caught:
        model.fit(*data)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert caught[0].filename == __file__
    assert model.status_ in message
    assert "after 1 iterations" in message
    assert "raise max_iter or loosen tol" in message
    assert model.n_iter_ == 1
    assert model.residual_ > 1e-9


def test_warm_start_saves_iterations(yeast):
    X, Y = yeast
    params = {"theta": 3, "tol": 1e-10}
    cold = LRML(alpha=10.5, **params).fit(X, Y)
    warm = LRML(alpha=10.0, warm_start=True, **params).fit(X, Y).set_params(alpha=10.5).fit(X, Y)
    assert warm.n_iter_ < 0.7 * cold.n_iter_
    assert warm.status_ == cold.status_ == Status.CONVERGED.value
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-3)


@pytest.mark.parametrize("solver", ["auto", "apg"])
@pytest.mark.parametrize(("n", "d", "n_labels"), [(60, 7, 5), (10, 25, 4), (10, 25, 40), (30, 4, 9)])
def test_warm_start_begins_where_the_last_fit_ended(make_problem, solver, n, d, n_labels):
    X, Y = make_problem(n, d, n_labels, seed=3)
    model = LRML(theta=1, alpha=2.0, tol=1e-16, warm_start=True, solver=solver, max_iter=50_000).fit(X, Y)
    before, objective = model.coef_, model.objective_
    model.fit(X, Y)
    assert model.history_["objective"][0] == pytest.approx(objective, rel=1e-10)
    assert model.n_iter_ <= 3
    np.testing.assert_allclose(model.coef_, before, atol=1e-6)


@pytest.mark.parametrize("solver", ["auto", "apg", "pg"])
@pytest.mark.parametrize("seed", [3, 14, 17, 23, 31, 35])
def test_warm_start_from_a_solution_ends_at_once(make_problem, solver, seed):
    """Even though no point can be better than the start, and rounding makes most of them look worse."""
    X, Y = make_problem(30, 4, 3, seed=seed)
    model = LRML(theta=1, alpha=2.0, tol=1e-16, warm_start=True, solver=solver).fit(X, Y)
    best = model.objective_
    model.set_params(tol=1e-3).fit(X, Y)
    assert model.status_ == Status.CONVERGED.value
    assert model.n_iter_ <= 3
    assert model.objective_ == pytest.approx(best, rel=1e-12)


def test_without_warm_start_the_last_fit_is_forgotten(data):
    X, Y = data
    model = LRML(theta=1, alpha=2.0).fit(X, Y)
    coef = model.coef_
    model.fit(2 * X, Y[::-1]).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, coef)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_the_verdict_follows_the_gap(yeast):
    models = [LRML(theta=theta, alpha=20.0, max_iter=k).fit(*yeast) for theta in (0, 2) for k in range(1, 8)]
    for model in models:
        assert model.converged_ == (model.history_["gap"][-1] <= 1e-4)
        assert (model.status_ == Status.CONVERGED.value) == model.converged_
    assert {model.converged_ for model in models} == {True, False}


def test_converged_is_false_where_the_tolerance_is_missed(yeast):
    with pytest.warns(ConvergenceWarning):
        model = LRML(theta=3, alpha=20.0, max_iter=10, tol=1e-12).fit(*yeast)
    assert not model.converged_
    assert model.residual_ > 1e-6
