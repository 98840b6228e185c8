"""LEML: against ML-trace, ridge regression of low rank by Eckart and Young, and its own objective."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge

from lrml import CPLST, LEML, LRML, MLFro, MLTrace
from lrml.core.moments import Statistics
from lrml.solvers import Status

LOSS_NAMES = ["squared", "logistic", "squared_hinge"]


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(80, 7, 6, seed=3)


def mask_like(Y, share=0.6, seed=0):
    observed = np.random.default_rng(seed).random(Y.shape) < share
    observed[:4] = True
    return observed


def objective_by_definition(W, intercept, X, Y, alpha, ridge, loss, observed=True):
    """The losses written out, and the penalties of the coefficients (d × L)."""
    scores = X @ W + intercept
    margins = (2 * Y - 1) * scores
    entries = {
        "squared": (Y - scores) ** 2,
        "logistic": np.logaddexp(0, -margins),
        "squared_hinge": np.maximum(1 - margins, 0) ** 2,
    }[loss]
    return np.sum(entries * observed) + alpha * np.linalg.norm(W, "nuc") + ridge * np.sum(W**2)


# The optimum


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("ridge", [0.0, 1.5])
def test_with_full_rank_it_is_the_trace_norm(data, loss, masked, ridge):
    X, Y = data
    observed = mask_like(Y) if masked else None
    options = {"alpha": 2.0, "ridge": ridge, "loss": loss, "tol": 1e-7}
    model = LEML(6, **options).fit(X, Y, observed=observed)
    expected = MLTrace(**options).fit(X, Y, observed=observed)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-6)
    assert (model.alpha_, model.ridge_) == (2.0, ridge)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("rank", [1, 2, 6])
def test_with_a_ridge_only_it_is_ridge_regression_of_low_rank(data, fit_intercept, rank):
    """Least squares with the rows √3·I added, cut to the rank by Eckart and Young."""
    X, Y = data
    model = LEML(rank, ridge=3.0, fit_intercept=fit_intercept).fit(X, Y)
    centred, targets = (M - fit_intercept * M.mean(axis=0) for M in (X, Y))
    coef = Ridge(alpha=3.0, fit_intercept=False).fit(centred, targets).coef_.T
    rows = np.vstack([centred, np.sqrt(3.0) * np.eye(X.shape[1])])
    U, s, Vt = np.linalg.svd(rows @ coef, full_matrices=False)
    expected = np.linalg.lstsq(rows, (U[:, :rank] * s[:rank]) @ Vt[:rank], rcond=None)[0]
    np.testing.assert_allclose(model.coef_.T, expected, atol=1e-9)
    assert model.objective_ == pytest.approx(np.sum(targets**2) - np.sum(s[:rank] ** 2), rel=1e-9)
    assert model.rank_ == rank
    assert model.status_ == Status.EXACT.value
    assert model.n_iter_ == 0


def test_without_any_penalty_it_is_cplst(data):
    np.testing.assert_allclose(LEML(2, 0.0).fit(*data).coef_, CPLST(2).fit(*data).coef_, atol=1e-10)


@pytest.mark.parametrize("penalty", [{"alpha": 1.0}, {"alpha": 1.0, "ridge": 2.0}, {"ridge": 2.0}], ids=str)
@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_no_neighbour_of_low_rank_is_better(data, loss, masked, penalty):
    X, Y = data
    observed = mask_like(Y) if masked else np.ones_like(Y, dtype=bool)
    model = LEML(2, **penalty, loss=loss, tol=1e-9).fit(X, Y, observed=observed)
    strengths = penalty.get("alpha", 0.0), penalty.get("ridge", 0.0)

    def value(Z, H, b):
        return objective_by_definition(Z @ H.T, b, X, Y, *strengths, loss, observed)

    U, s, V = model.factors_
    Z, H = U * np.sqrt(s), V * np.sqrt(s)
    assert model.rank_ == 2
    assert model.objective_ == pytest.approx(value(Z, H, model.intercept_), rel=1e-9)
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-2, 1e-3):
        moved = (part + size * rng.standard_normal(part.shape) for part in (Z, H, model.intercept_))
        assert value(*moved) > model.objective_


def test_a_lower_rank_has_a_higher_objective(yeast):
    objectives = [LEML(rank, 5.0, tol=1e-6).fit(*yeast).objective_ for rank in (1, 2, 4, 8, 14)]
    assert all(np.diff(objectives) < 0)


@pytest.mark.parametrize("loss", LOSS_NAMES)
def test_objective_never_rises(yeast, loss):
    objectives = LEML(rank=4, alpha=1.0, loss=loss, tol=1e-9).fit(*yeast).history_["objective"]
    assert len(objectives) > 3
    assert np.all(np.diff(objectives) <= 1e-6 * objectives[0])


def test_a_strong_penalty_leaves_the_means(data):
    X, Y = data
    unit = np.linalg.norm(2 * (X - X.mean(axis=0)).T @ (Y - Y.mean(axis=0)), 2)
    nothing = LEML(rank=3, alpha=1.001 * unit).fit(X, Y)
    assert nothing.rank_ == 0
    np.testing.assert_allclose(nothing.decision_function(X), np.tile(Y.mean(axis=0), (len(X), 1)))
    assert LEML(rank=3, alpha=0.99 * unit).fit(X, Y).rank_ > 0


# Ranks, defaults, starts


@pytest.mark.parametrize(("rank", "expected"), [(0.5, 3), (0.01, 1), (1.0, 6), (4, 4), (None, 6)])
def test_rank_counts_or_is_a_share(data, rank, expected):
    assert LEML(rank, alpha=1e-3).fit(*data).rank_ == expected


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("penalty", [{"alpha": 5.0}, {"ridge": 5.0}], ids=str)
def test_warm_start_with_another_rank(yeast, loss, penalty):
    """The start of a larger rank is cut to what the model may have."""
    model = LEML(3, **penalty, loss=loss, tol=1e-6, warm_start=True).fit(*yeast)
    for rank in (6, 2):
        model.set_params(rank=rank).fit(*yeast)
        fresh = clone(model).fit(*yeast)
        assert model.rank_ == rank
        assert model.objective_ == pytest.approx(fresh.objective_, rel=1e-4)


@pytest.mark.parametrize("loss", LOSS_NAMES)
@pytest.mark.parametrize("observed", [True, False])
def test_sparse_is_dense(data, loss, observed):
    X, Y = data
    X = np.where(X > 0.5, X, 0.0)
    known = mask_like(Y) if observed else None
    dense = LEML(3, loss=loss, tol=1e-8).fit(X, Y, observed=known)
    sparse = clone(dense).fit(sp.csr_array(X), sp.csr_array(Y), observed=known)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-7)
    np.testing.assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("alpha", [None, 2.0])
def test_it_takes_blocks_and_sums_as_its_family_does(data, alpha):
    X, Y = data
    model = LEML(3, alpha, tol=1e-9).fit(X, Y)
    blocks = [(X[:30], Y[:30]), (X[30:], Y[30:])]
    by_sums = clone(model).fit_statistics(Statistics.from_arrays(X, Y))
    for other in (clone(model).fit_blocks(blocks), by_sums, clone(model).partial_fit(X, Y)):
        assert other.ridge_ == pytest.approx(model.ridge_, rel=1e-9)
        np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-6)


def test_a_default_ridge_is_not_guessed_for_blocks_that_are_too_wide(data, monkeypatch):
    monkeypatch.setattr(LEML, "_has_room", lambda *_: False)
    X, Y = data
    with pytest.raises(ValueError, match="ridge"):
        LEML(3).fit_blocks([(X, Y)])
    wide = LEML(3, ridge=2.0).fit_blocks([(X, Y)])
    assert wide.objective_ == pytest.approx(LEML(3, ridge=2.0).fit(X, Y).objective_, rel=1e-3)


def test_leave_one_out_scores_of_a_full_rank_are_those_of_ridge_regression(data):
    X, Y = data
    expected = MLFro(4.0).leave_one_out_scores(X, Y)
    np.testing.assert_allclose(LEML(6, ridge=4.0).leave_one_out_scores(X, Y), expected, atol=1e-10)


def test_lrml_without_a_tail_is_leml_too(data):
    """theta free values and an alpha that lets no other in: reduced-rank ridge regression."""
    assert LRML(2, 1e4, ridge=3.0).fit(*data).objective_ == pytest.approx(
        LEML(2, ridge=3.0).fit(*data).objective_, rel=1e-9
    )


@pytest.mark.parametrize(
    ("params", "error"),
    [({"rank": 0}, ValueError), ({"rank": 7}, ValueError), ({"rank": "all"}, TypeError)],
)
def test_bad_ranks_leave_the_estimator_unchanged(data, fitted, params, error):
    model = LEML(2).fit(*data)
    before = fitted(model)
    with pytest.raises(error, match="rank"):
        model.set_params(**params).fit(*data)
    assert all(value is before[name] for name, value in fitted(model).items())
