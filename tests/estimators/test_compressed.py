"""Many rows and many features: fits in a subspace end where exact ones do, and know what they miss."""

from __future__ import annotations

import pickle
import tracemalloc
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge

from lrml import CPLST, LEML, LEMLCV, LRML, LRMLCV, PLST, MLFro, MLFroCV, MLTrace, lrml_path
from lrml.core.arrays import Place
from lrml.core.coordinates import DualLift, RidgeRegressions, coordinates_of, road_of
from lrml.core.moments import Statistics
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Rows
from lrml.estimators import _fitted
from lrml.solvers import Factors, solve
from roads import always, take_road


def text_like(n=300, d=700, n_labels=20, *, seed=0, dense=False):
    """Sparse rows of unit length whose labels follow a few hidden topics."""
    rng = np.random.default_rng(seed)
    topics = rng.random((12, d)) ** 8
    mixture = rng.dirichlet(np.full(12, 0.2), n)
    X = rng.poisson(0.6 * mixture @ topics).astype(float)
    X[np.arange(n), rng.integers(0, d, n)] += 1.0
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    Y = (rng.random((n, n_labels)) < 0.6 * mixture @ (rng.random((12, n_labels)) ** 4)).astype(np.int64)
    return (X if dense else sp.csr_array(X)), Y


@pytest.fixture
def always_compressed(monkeypatch):
    """Take the compressed road whatever the size."""

    def compressed(rows, wanted, usual):
        free = wanted == "auto" and not (rows.only_exact or rows.only_sums)
        return "compressed" if free else usual(rows, wanted)

    take_road(monkeypatch, compressed)


@pytest.fixture
def no_gram_matrix(monkeypatch):
    """Whoever makes a d × d or an n × n matrix fails the test."""

    def refuse(*args, **kwargs):
        pytest.fail("a Gram matrix was made")

    monkeypatch.setattr(Statistics, "from_arrays", refuse)
    monkeypatch.setattr("lrml.core.coordinates.row_kernel", refuse)


WEIGHTS = {
    "unweighted": lambda n: None,
    "weighted": lambda n: np.linspace(0.2, 2.0, n),
    "some without weight": lambda n: np.where(np.arange(n) % 4 == 0, 0.0, 1.5),
}
PENALTIES = [(0, 1.0, 0.0), (4, 1.0, 0.1), (4, 3.0, 0.5), (0, 0.5, 1.0)]


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", [(300, 700), (700, 300)], ids=["dual", "primal"])
def test_compressed_fits_end_at_the_exact_objective(
    no_gram_matrix, monkeypatch, shape, fit_intercept, weights
):
    X, Y = text_like(*shape)
    w = weights(shape[0])
    for theta, alpha, ridge in PENALTIES:
        model = LRML(theta, alpha, ridge=ridge, fit_intercept=fit_intercept, tol=1e-8)
        found = model.set_params(solver="compressed").fit(X, Y, w)
        monkeypatch.undo()
        exact = LRML(theta, alpha, ridge=ridge, fit_intercept=fit_intercept, tol=1e-8).fit(X, Y, w)
        assert not hasattr(exact, "compression_gap_")
        excess = found.objective_ / exact.objective_ - 1
        assert excess < 1e-3
        if theta == 0:  # convex: the certificate bounds what the subspace costs
            assert -1e-7 < excess <= found.compression_gap_ + 1e-7
        U, s, V = found.factors_
        np.testing.assert_allclose(U.T @ U, np.eye(len(s)), atol=1e-6)
        scores = X @ (U * s) @ V.T + found.intercept_
        np.testing.assert_allclose(found.decision_function(X), scores, atol=1e-8)


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("shape", [(300, 700), (700, 300)], ids=["dual", "primal"])
def test_ridge_regression_in_a_subspace(always_compressed, shape, dense):
    X, Y = text_like(*shape, dense=dense)
    found = MLFro(0.3).fit(X, Y)
    expected = Ridge(0.3, solver="cholesky" if dense else "sparse_cg", tol=1e-10).fit(X, Y)
    seen = Y.any(axis=0)
    error = found.decision_function(X) - expected.predict(X)
    assert found.compression_gap_ <= 5e-4
    assert np.linalg.norm(error[:, seen]) < 0.02 * np.linalg.norm(expected.predict(X))


@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("shape", [(300, 700), (700, 300)], ids=["dual", "primal"])
def test_leml_in_a_subspace_is_reduced_rank_regression(always_compressed, shape, fit_intercept, weights):
    """Eckart and Young, for the ridge regression of Y with its rows and √ridge·I as examples."""
    X, Y = text_like(*shape)
    w = np.ones(shape[0]) if weights(shape[0]) is None else weights(shape[0])
    found = LEML(5, ridge=0.3, fit_intercept=fit_intercept).fit(X, Y, weights(shape[0]))
    centred, targets = (
        np.sqrt(w)[:, None] * (M - fit_intercept * np.average(M, axis=0, weights=w)) for M in (X.toarray(), Y)
    )
    A, B = (
        np.vstack([centred, np.sqrt(0.3) * np.eye(shape[1])]),
        np.vstack([targets, np.zeros((shape[1], 20))]),
    )
    Q = np.linalg.qr(A)[0]
    expected = np.sum(B**2) - np.sum(np.linalg.svd(Q.T @ B, compute_uv=False)[:5] ** 2)
    assert found.rank_ == 5
    assert found.converged_
    assert 1 - 1e-9 < found.objective_ / expected < 1 + found.compression_gap_ + 1e-7
    U, s, V = found.factors_
    np.testing.assert_allclose(U.T @ U, np.eye(5), atol=1e-6)
    coef = (U * s) @ V.T
    scores = np.sqrt(w)[:, None] * (X @ coef + found.intercept_ * (Y[w > 0].any(axis=0)))
    errors = np.sqrt(w)[:, None] * Y - scores
    assert np.sum(errors**2) + 0.3 * np.sum(coef**2) == pytest.approx(found.objective_, rel=1e-6)


def test_wide_text_needs_most_of_the_directions_of_its_labels():
    """A rank of 40 % of the labels, the former default, was not enough."""
    X, Y = text_like(2600, 900, 330)
    (X, Y), (X_new, Y_new) = (X[:1600], Y[:1600]), (X[1600:], Y[1600:])
    best = max(MLFro(ridge).fit(X, Y).score(X_new, Y_new) for ridge in np.geomspace(0.3, 30.0, 7))
    assert LEML().fit(X, Y).score(X_new, Y_new) > best - 0.003


@pytest.mark.parametrize("shape", [(500, 900), (900, 500)], ids=["dual", "primal"])
def test_a_search_of_leml_in_a_subspace(no_gram_matrix, always_compressed, shape):
    X, Y = text_like(*shape, 30)
    model = LEMLCV([5, 30], random_state=0).fit(X, Y)
    assert model.n_splits_ == 1
    assert model.compression_gap_ <= 1e-3
    assert len(model.cv_results_["param_rank"]) >= 6
    assert np.all(model.cv_results_["mean_test_score"] <= model.best_score_)


@example(118923, True, 0.5, 0.0)
@given(st.integers(0, 10**6), st.booleans(), st.floats(0.05, 3.0), st.floats(0.0, 1.0))
def test_the_certificate_tells_what_the_subspace_costs(seed, dual, alpha, ridge):
    """In a poor subspace the certificate, a Newton step, is at most a little below the true excess.

    Its vectors remove most of that.
    """
    X, Y = text_like(*((60, 90) if dual else (90, 60)), 6, seed=seed)
    good = coordinates_of(Rows(X, Y), fit_intercept=True, ridge=1.0, road="compressed", bare=True)
    assert isinstance(good.lift, DualLift) == dual
    inside = good.subspace
    inside = replace(
        inside, basis=inside.basis[:, :40], eigenvalues=inside.eigenvalues[:40], cross=inside.cross[:40]
    )
    problem = SpectralProblem.from_coordinates(inside.coordinates, good.problem.target)
    poor = replace(good, problem=problem, subspace=inside)
    penalty = TailSum(0, alpha)
    result = solve(problem.with_ridge(ridge), penalty, tol=1e-11)
    U, s, V = Factors.of(result.solution)
    kept = s > 1e-9 * max(s[0], 1e-300)
    extra = 0.5 * penalty.slopes(s)[kept] / s[kept]
    solution = RidgeRegressions(U[:, kept] * s[kept], V[:, kept], ridge, extra)
    gap, further, _ = poor.missed(solution, alpha, 0.0)
    exact = coordinates_of(Rows(X, Y), fit_intercept=True, road="dual" if dual else "primal")
    best = solve(exact.problem.with_ridge(ridge), penalty, tol=1e-11).objective
    excess = result.objective - best
    assert excess <= 1.1 * gap + 1e-6 * best  # 1.053 where the excess is 60 % of the objective
    if further is not None:
        larger = poor.within(poor.subspace.extended(further))
        better = solve(larger.problem.with_ridge(ridge), penalty, tol=1e-11).objective
        assert best * (1 - 1e-6) <= better <= result.objective * (1 + 1e-9)
        assert better - best <= 0.5 * excess + 1e-5 * best


def test_which_road_is_taken(monkeypatch):
    def road(n, d, n_labels=20, nonzeros=50, **more):
        X = sp.csr_array(
            (np.ones(nonzeros * n), np.arange(nonzeros * n) % d, np.arange(n + 1) * nonzeros), (n, d)
        )
        Y = sp.csr_array((n, n_labels))
        return road_of(Rows(X, Y, **more))

    assert road(2000, 50_000) == "dual"
    assert road(50_000, 2000) == "primal"
    assert road(15_000, 50_000) == "compressed"
    assert road(50_000, 15_000) == "compressed"
    assert road(15_000, 50_000, only_exact=True) == "dual"
    # Few rows beyond the limit, and very many labels: a decomposition is cheaper.
    assert road(3100, 200_000, n_labels=500, nonzeros=2000) == "dual"
    monkeypatch.setattr(Place, "memory", 1e8)
    assert road(3100, 200_000, n_labels=500, nonzeros=2000) == "compressed"


def hardly_any(n_rows, n_features):
    places = np.arange(3000)
    X = sp.csr_array((np.ones(3000), (places, places % 50)), shape=(n_rows, n_features))
    return X, sp.csr_array((np.ones(3000, dtype=np.int64), (places, places % 2)), shape=(n_rows, 2))


def test_no_size_is_refused():
    """Neither refused nor out of memory: only what is in the data takes room."""
    X, Y = hardly_any(60_000, 100_000)
    assert LRML().fit(X, Y).predict_top_k(X[:10], k=1).labels.shape == (10, 1)


@pytest.mark.parametrize("make", [MLTrace, MLFro, CPLST, LEML])
def test_no_size_is_refused_with_little_memory(make, monkeypatch):
    memory = 1e8
    monkeypatch.setattr(Place, "memory", memory)
    X, Y = hardly_any(6000, 10_000)  # neither Gram matrix has room: 288 and 800 MB
    tracemalloc.start()
    try:
        model = make().fit(X, Y)
        assert tracemalloc.get_traced_memory()[1] < memory
    finally:
        tracemalloc.stop()
    assert model.predict_top_k(X[:10], k=1).labels.shape == (10, 1)


def test_a_road_that_does_not_fit_is_refused():
    X = sp.csr_array((np.ones(3), ([0, 1, 2], [0, 1, 2])), shape=(1_000_000, 10_000_000))
    Y = np.eye(1_000_000, 2, dtype=int)
    with pytest.raises(ValueError, match="n = 1000000 "):
        LRML(solver="dual").fit(X, Y)
    with pytest.raises(ValueError, match="d = 10000000 "):
        LRML(solver="primal").fit(X, Y)


@pytest.mark.parametrize("road", ["primal", "dual", "compressed"])
@pytest.mark.parametrize("make", [LRML, MLTrace])
def test_kernels_have_no_choice_of_a_road(make, road):
    with pytest.raises(ValueError, match=rf"solver='{road}' needs kernel='linear', got kernel='rbf'.*'auto'"):
        make(kernel="rbf", solver=road).fit(*text_like(20, 30, 3, dense=True))


def test_wide_models_make_coefficients_on_demand(monkeypatch):
    X, Y = text_like(dense=True)
    small = LRML(2, 1.0).fit(X, Y)
    assert small.coef_ is small.coef_
    monkeypatch.setattr(_fitted, "_MOST_COEFFICIENTS", 100)
    large = LRML(2, 1.0).fit(X, Y)
    assert large.coef_ is not large.coef_
    np.testing.assert_allclose(large.coef_, small.coef_)
    np.testing.assert_allclose(large.decision_function(X), small.decision_function(X), atol=1e-10)
    assert pickle.loads(pickle.dumps(large)).coef_.shape == (20, 700)


def test_searches_hold_rows_out_where_leave_one_out_scores_are_too_expensive(
    always_compressed, no_gram_matrix
):
    X, Y = text_like(600, 900)
    search = LRMLCV(random_state=0).fit(X, Y)
    assert search.n_splits_ == 1
    assert search.compression_gap_ <= 1e-3
    assert MLFroCV(random_state=0).fit(X, Y).n_splits_ == 1


def test_leave_one_out_scores_take_an_exact_road(always_compressed):
    X, Y = text_like(80, 120, 5)
    scores = MLFro(0.3).leave_one_out_scores(X, Y)
    others = np.arange(1, 80)
    seen = Y[1:].any(axis=0)
    refitted = Ridge(0.3, solver="lsqr", tol=1e-12).fit(X[others], Y[others]).predict(X[:1])
    np.testing.assert_allclose(scores[:1, seen], refitted[:, seen], atol=1e-5)
    assert LRMLCV(cv="loo", random_state=0).fit(X, Y).n_splits_ == 1


def test_a_path_in_a_subspace(always_compressed):
    X, Y = text_like()
    path = lrml_path(X, Y, thetas=[0, 4], n_alphas=4, ridges=0.1)
    for model in path.models:
        exact = LRML(model.theta, model.alpha, ridge=0.1, solver="dual").fit(X, Y)
        assert model.objective <= exact.objective_ * 1.002


def test_a_warm_start_in_a_subspace(always_compressed):
    X, Y = text_like()
    model = LRML(3, 1.0, ridge=0.1, warm_start=True).fit(X, Y)
    first = model.objective_
    assert model.fit(X, Y).objective_ == pytest.approx(first, rel=1e-3)


@pytest.mark.parametrize(
    "model", [MLFro(1e-9), CPLST(5, ridge=1e-9), PLST(5, ridge=1e-9), LEML(5, ridge=1e-9)], ids=repr
)
def test_a_subspace_that_cannot_be_good_enough_warns(always_compressed, model):
    """Least squares without a ridge and with features of very different scales."""
    X, Y = text_like(400, 300)
    scales = np.geomspace(1e-2, 1e4, 300)
    scaled = sp.csr_array(X @ sp.diags_array(scales))
    with pytest.warns(ConvergenceWarning, match="subspace"):
        model.fit(scaled, Y)


@pytest.mark.parametrize("shape", [(30, 50), (50, 30), (3, 50), (2, 2), (1, 5)])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("values", ["zero", "constant", "sparse zero", "some"])
def test_little_to_learn(values, fit_intercept, shape):
    """Neither constant features, nor a penalty that leaves nothing, stop a fit in a subspace."""
    X, Y = text_like(*shape, 4)
    X = {
        "zero": np.zeros(shape),
        "constant": np.full(shape, 1 / 3),
        "sparse zero": sp.csr_array(shape),
        "some": X,
    }[values]
    for theta, alpha, ridge in [(0, 1e9, 0.0), (0, 0.0, 0.0), (2, 1.0, 0.1), (0, 0.3, 1e9)]:
        settings = {"ridge": ridge, "fit_intercept": fit_intercept}
        exact = LRML(theta, alpha, **settings).fit(X, Y)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            found = LRML(theta, alpha, solver="compressed", **settings).fit(X, Y)
        assert found.objective_ == pytest.approx(exact.objective_, rel=1e-3, abs=1e-8)
        assert np.isfinite(found.coef_).all()


@pytest.mark.parametrize(("theta", "alpha", "ridge"), [(0, 1.0, 0.0), (0, 0.0, 0.1), (2, 1.0, 0.1)])
def test_a_feature_that_outweighs_all_others_hides_no_gap(theta, alpha, ridge):
    """Most of a residual may lie along one large eigenvalue; what is left of it still counts."""
    X, Y = text_like(260, 150, 8)
    scaled = sp.csr_array(X @ sp.diags_array(np.where(np.arange(150) == 3, 1e4, 1.0)))
    for Z, fit_intercept in [(scaled, True), (X.toarray() + 1e3, False)]:
        model = LRML(theta, alpha, ridge=ridge, fit_intercept=fit_intercept, tol=1e-6)
        exact = clone(model).fit(Z, Y)
        found = clone(model).set_params(solver="compressed").fit(Z, Y)
        residual = Y - found.decision_function(Z)
        tail = np.linalg.svd(found.coef_, compute_uv=False)[theta:]
        reached = (residual**2).sum() + ridge * (found.coef_**2).sum() + alpha * tail.sum()
        assert abs(reached / exact.objective_ - 1) <= found.compression_gap_ + 1e-5 < 1e-3


def test_a_perfect_fit_is_one(always_compressed):
    """The objective is rounding then, sometimes below zero, and no unit of what a subspace costs."""
    X, Y = text_like(150, 260, 8)
    found = LRML(2, 1.0, ridge=0.1).fit(X, Y, np.full(150, 1e12))
    assert found.compression_gap_ <= 1e-3
    np.testing.assert_allclose(found.decision_function(X)[:, Y.any(axis=0)], Y[:, Y.any(axis=0)], atol=1e-4)


@pytest.mark.parametrize("shape", [(150, 260), (260, 150)], ids=["dual", "primal"])
@pytest.mark.parametrize("rank", [0, 1, 5])
def test_what_no_coefficients_reach_is_no_gap(always_compressed, rank, shape):
    """Least squares without a ridge, on features of low rank."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    Y = text_like(*shape, 8)[1]
    found = LRML(0, 0.0).fit(X, Y)
    assert found.compression_gap_ <= 1e-3
    assert found.objective_ == pytest.approx(LRML(0, 0.0, solver="primal").fit(X, Y).objective_, rel=1e-5)


@pytest.mark.parametrize("shape", [(60, 90), (90, 60), (90, 2)])
@pytest.mark.parametrize("values", ["zero", "constant", "some"])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_little_to_learn_with_other_losses(loss, values, shape):
    X, Y = text_like(*shape, 4)
    X = {"zero": np.zeros(shape), "constant": np.full(shape, 1 / 3), "some": X}[values]
    for alpha, ridge in [(1e9, 0.1), (0.1, 1e9)]:
        found, exact = (
            LRML(0, alpha, ridge=ridge, loss=loss, solver=road).fit(X, Y) for road in ("compressed", "primal")
        )
        assert found.objective_ == pytest.approx(exact.objective_, rel=1e-3)
        assert np.isfinite(found.coef_).all()


@pytest.mark.parametrize("shape", [(240, 400), (400, 240)], ids=["dual", "primal"])
@pytest.mark.parametrize(
    ("theta", "alpha", "ridge"), [(0, 2.0, 0.1), (3, 1.0, 0.3), (3, 0.1, 0.05), (0, 5.0, 1.0)]
)
@pytest.mark.parametrize(("scale", "weights"), [(1.0, None), (30.0, "some")])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_the_certificate_of_other_losses_is_true(
    monkeypatch, loss, theta, alpha, ridge, scale, weights, shape
):
    """A subspace of few directions costs no more than it says, and a fit that it costs much warns."""
    X, Y = text_like(*shape, 10)
    X, alpha, ridge = scale * X, scale * alpha, scale**2 * ridge  # the same problem
    w = None if weights is None else np.random.default_rng(1).choice([0.0, 0.5, 2.0], shape[0])
    model = LRML(theta, alpha, ridge=ridge, loss=loss, tol=1e-7)
    exact = clone(model).set_params(solver="primal").fit(X, Y, w)
    monkeypatch.setattr("lrml.core.subspace._LEADING", 2)
    gaps = []
    for most_extensions in (0, 1, 8):
        monkeypatch.setattr("lrml.estimators._loss_fit._MOST_EXTENSIONS", most_extensions)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = clone(model).set_params(solver="compressed").fit(X, Y, w)
        gaps.append(found.compression_gap_)
        assert -1e-5 < found.objective_ / exact.objective_ - 1 <= found.compression_gap_ + 1e-5
        assert found.converged_ == (found.compression_gap_ <= 2e-3)
        assert found.converged_ or "subspace" in str(caught[-1].message)
    assert gaps[0] >= gaps[1] >= gaps[2]
    assert gaps[2] <= 1e-3


@pytest.mark.parametrize("road", ["compressed", "dual"])
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge"])
def test_candidates_that_share_coordinates_are_judged_like_fits_of_their_own(loss, road):
    X, Y = text_like(220, 400, 8)
    train, test = np.arange(170), np.arange(170, 220)
    # Convex, so that it does not matter where a fit starts.
    grid = {"thetas": [0], "alphas": [2.0, 0.5, 0.1], "ridges": [0.1, 0.3]}
    shared = {"loss": loss, "tol": 1e-7}
    with pytest.MonkeyPatch.context() as patch:
        take_road(patch, always(road))
        search = LRMLCV(**grid, **shared, cv=[(train, test)], random_state=0).fit(X, Y)
    for params, score in zip(
        search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True
    ):
        alone = LRML(**params, **shared, solver=road).fit(X[train], Y[train])
        assert score == pytest.approx(alone.score(X[test], Y[test]), abs=1e-3 if road == "dual" else 5e-3)


@pytest.mark.parametrize("scale", [1e-20, 1e20, 1e150])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("shape", [(60, 90), (90, 60)], ids=["wide", "tall"])
def test_features_beyond_single_precision_are_refused_with_the_remedy(scale, form, shape):
    rng = np.random.default_rng(0)
    X, Y = rng.random(shape), (rng.random((shape[0], 3)) < 0.3).astype(int)
    with pytest.raises(
        ValueError, match=r"single precision.* must be in \[1e-17, 1e\+18\], got .*Divide X by"
    ):
        LRML(1, ridge=1.0, solver="compressed").fit(form(scale * X), Y)
