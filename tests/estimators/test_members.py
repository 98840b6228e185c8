"""Members of the family against independent oracles: convex programs, the papers, Eckart and Young."""

from __future__ import annotations

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp

from lrml import CPLST, LEML, LRML, MLTrace
from lrml.core.losses import LOSSES
from lrml.solvers import Algorithm1, Status

INTERCEPT = pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
SHAPES = pytest.mark.parametrize(
    "shape", [(50, 6, 5), (40, 4, 9), (12, 20, 5)], ids=["plain", "many labels", "few rows"]
)
RIDGE = pytest.mark.parametrize("ridge", [0.0, 0.8])
EACH = pytest.mark.parametrize("loss", LOSSES)


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(80, 7, 6, seed=3)


def mask_like(Y, share=0.6):
    observed = np.random.default_rng(0).random(Y.shape) < share
    observed[:4] = True
    return observed


def centred(X, Y, weights=None):
    """Rows without their means, times √weight, and the means."""
    w = np.ones(len(X)) if weights is None else weights
    x_mean, y_mean = np.average(X, axis=0, weights=w), np.average(Y, axis=0, weights=w)
    return np.sqrt(w)[:, None] * (X - x_mean), np.sqrt(w)[:, None] * (Y - y_mean), x_mean, y_mean


def of_low_rank(A, B, rank, ridge=0.0):
    """The least Σ (B − AW)² + ridge ‖W‖² over W of a rank (Eckart and Young), and the fitted rows."""
    A = np.vstack([A, np.sqrt(ridge) * np.eye(A.shape[1])])
    B = np.vstack([B, np.zeros((A.shape[1], B.shape[1]))])
    full = np.linalg.lstsq(A, B, rcond=1e-10)[0]
    U, s, Vt = np.linalg.svd(A @ full, full_matrices=False)
    return np.sum((B - A @ full) ** 2) + np.sum(s[rank:] ** 2), A, (U[:, :rank] * s[:rank]) @ Vt[:rank]


# MLTrace


def convex_optimum(X, Y, alpha, *, ridge=0.0, fit_intercept=True, loss="squared", known=None):
    """The least objective, from a general solver of convex programs."""
    W, b = cp.Variable((X.shape[1], Y.shape[1])), cp.Variable((1, Y.shape[1]))
    scores = X @ W + (np.ones((len(X), 1)) @ b if fit_intercept else 0)
    margins = cp.multiply(2.0 * Y - 1, scores)
    terms = {
        "squared": lambda: cp.square(Y - scores),
        "logistic": lambda: cp.logistic(-margins),
        "squared_hinge": lambda: cp.square(cp.pos(1 - margins)),
    }[loss]()
    known = np.ones(Y.shape) if known is None else known.astype(float)
    total = cp.sum(cp.multiply(known, terms)) + alpha * cp.normNuc(W) + ridge * cp.sum_squares(W)
    return cp.Problem(cp.Minimize(total)).solve(solver=cp.CLARABEL)


@INTERCEPT
@EACH
@pytest.mark.parametrize(
    ("shape", "ridge", "masked"),
    [((30, 5, 4), 0.0, False), ((8, 9, 3), 0.7, False), ((25, 3, 5), 0.1, True)],
    ids=["plain", "few rows", "unknown labels"],
)
def test_the_trace_norm_reaches_the_optimum_and_the_gap_bounds_it(
    make_problem, shape, ridge, masked, fit_intercept, loss
):
    X, Y = make_problem(*shape, seed=shape[1])
    known = mask_like(Y) if masked else None
    params = {"ridge": ridge, "fit_intercept": fit_intercept, "loss": loss}
    if loss != "squared":
        params["ridge"] = max(ridge, 0.1)  # labels of few rows can be separated
    optimum = convex_optimum(X, Y, 1.5, **params, known=known)
    for tol in (None, 1e-2, 1e-9):
        model = MLTrace(1.5, tol=tol, **params).fit(X, Y, observed=known)
        assert model.converged_
        if loss == "squared" and not masked:
            assert model.gap_ <= (1e-4 if tol is None else tol)
            assert (model.objective_ - optimum) / model.objective_ <= model.gap_ + 1e-7
    assert model.objective_ == pytest.approx(optimum, rel=1e-6)
    tail = LRML(0, 1.5, tol=1e-9, **params).fit(X, Y, observed=known)
    assert tail.objective_ == pytest.approx(model.objective_, rel=1e-6)


def test_other_solvers_and_both_ends_of_the_penalty(data):
    X, Y = data
    best = MLTrace(3.0, tol=1e-7).fit(X, Y).objective_
    for solver in ("apg", "pg"):
        model = MLTrace(3.0, solver=solver, tol=1e-5, max_iter=20_000).fit(X, Y)
        assert (model.converged_, model.gap_ <= 1e-5) == (True, True)
        assert model.objective_ == pytest.approx(best, rel=2e-5)
    model = MLTrace(3.0, solver=Algorithm1(), max_iter=20).fit(X, Y)
    assert (model.status_, model.gap_ > 0) == (Status.ALL_STEPS.value, True)
    free = MLTrace(0.0).fit(X, Y)
    assert (free.gap_, free.n_iter_, free.rank_) == (0.0, 0, 6)
    A, B, *_ = centred(X, Y)
    edge = 2 * np.linalg.norm(A.T @ B, 2)  # W = 0 is the optimum exactly from this alpha on
    for kind in (MLTrace, lambda alpha, **tol: LEML(3, alpha, **tol)):
        nothing = kind(1.001 * edge, tol=1e-6).fit(X, Y)
        assert (nothing.rank_, nothing.coef_.any()) == (0, False)
        np.testing.assert_allclose(nothing.decision_function(X), np.tile(Y.mean(axis=0), (len(X), 1)))
        assert kind(0.99 * edge, tol=1e-8).fit(X, Y).rank_ == 1


# CPLST


def by_the_book(X, Y, k, ridge=0.0, weights=None):
    """Scores: codes ZV are regressed on the features, decoded with Vᵀ, and the mean is added.

    V has the top eigenvectors of ZᵀHZ with the hat matrix H (Chen and Lin 2012).
    """
    A, Z, x_mean, y_mean = centred(X, Y, weights)
    inverse = np.linalg.pinv(A.T @ A + ridge * np.eye(A.shape[1]), rcond=1e-12, hermitian=True)
    H = A @ inverse @ A.T
    V = np.linalg.eigh(Z.T @ H @ Z)[1][:, ::-1][:, :k]
    return (X - x_mean) @ (inverse @ A.T @ Z @ V) @ V.T + y_mean


@SHAPES
@RIDGE
@pytest.mark.parametrize(("form", "weighted"), [(np.asarray, False), (sp.csr_array, True)])
@pytest.mark.parametrize("k", [1, 3])
def test_scores_are_those_of_the_paper(make_problem, shape, ridge, weighted, form, k):
    X, Y = make_problem(*shape, seed=shape[0])
    weights = np.random.default_rng(7).uniform(0.2, 2.0, len(X)) if weighted else None
    model = CPLST(k, ridge=ridge).fit(form(X), form(Y), sample_weight=weights)
    expected = by_the_book(X, Y, k, ridge, weights)
    np.testing.assert_allclose(model.decision_function(form(X)), expected, atol=1e-8)
    assert np.ptp(expected) > 0.1
    assert model.rank_ == k
    assert (model.status_, model.converged_, model.n_iter_) == (Status.EXACT.value, True, 0)
    assert model.residual_ < 1e-12
    assert model.history_["objective"].tolist() == [model.objective_]


@SHAPES
@RIDGE
@pytest.mark.parametrize("k", [1, 2, 4])
def test_cplst_is_reduced_rank_regression_the_limit_of_lrml_and_leml(make_problem, oracle, shape, ridge, k):
    X, Y = make_problem(*shape, seed=shape[0])
    best, A, fitted = of_low_rank(*centred(X, Y)[:2], k, ridge)
    models = CPLST(k, ridge=ridge), LRML(k, 1e12, ridge=ridge), LEML(k, 0.0, ridge=ridge)
    for model in models:
        model.fit(X, Y)
        assert model.objective_ == pytest.approx(best, rel=1e-8, abs=1e-9)
        np.testing.assert_allclose(A @ model.coef_.T, fitted, atol=1e-6)
        recomputed = oracle(X, Y, k, 0.0, ridge=ridge).objective(model.coef_, model.intercept_)
        assert model.objective_ == pytest.approx(recomputed, rel=1e-8, abs=1e-9)


def test_counts_low_rank_and_what_cannot_be_encoded(make_problem, fitted):
    X, Y = make_problem(50, 4, 5, seed=1)
    shares = [(0.2, 1), (0.5, 2), (0.01, 1), (1.0, 4), (2, 2)]
    assert [CPLST(share).fit(X, Y).rank_ for share, _ in shares] == [count for _, count in shares]
    unknown, model = np.where(np.eye(50, 5) > 0, np.nan, Y), CPLST(2)
    for form in (np.asarray, sp.csr_array):
        with pytest.raises(ValueError, match="CPLST"):
            model.fit(X, form(unknown))
    assert fitted(model) == {}
    X[:, 2:] = X[:, :2]
    Y[:, 3] = 0
    expected = by_the_book(X, Y, 2)
    expected[:, 3] = -1
    np.testing.assert_allclose(model.fit(X, Y).decision_function(X), expected, atol=1e-8)
    assert model.rank_ == np.linalg.matrix_rank(model.coef_) == 2 == CPLST(4).fit(X, Y).rank_
    constant = CPLST(1).fit(np.full((50, 2), 0.3), Y)
    assert not constant.coef_.any()
    np.testing.assert_allclose(constant.intercept_, np.where(Y.any(axis=0), Y.mean(axis=0), -1))
