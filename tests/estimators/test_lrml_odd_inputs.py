"""Odd but legal data: few rows, columns and labels that do not vary, weights, symmetries."""

import numpy as np
import pytest
import scipy.sparse as sp

from lrml import LRML
from model_checks import FORMS, TIGHT, assert_same_model, lrml


@pytest.fixture(scope="module")
def data(make_problem):
    return make_problem(50, 6, 4, seed=21)


# Shapes


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_one_label(make_problem, fit_intercept, oracle):
    X, Y = make_problem(40, 5, 1, seed=1)
    problem = oracle(X, Y, 0, 3.0, fit_intercept=fit_intercept)
    model = LRML(theta=0, alpha=3.0, fit_intercept=fit_intercept, tol=1e-20).fit(X, Y)
    # The only singular value of one column is its length, so ∇f(w) = −alpha · w/‖w‖ at the minimum.
    A, y = problem.rows
    w = model.coef_.ravel()
    np.testing.assert_allclose(2 * A.T @ (A @ w - y.ravel()), -3.0 * w / np.linalg.norm(w), rtol=1e-6)
    assert model.decision_function(X).shape == model.predict(X).shape == (40, 1)
    np.testing.assert_array_equal(model.predict_top_k(X, 1).labels, np.zeros((40, 1)))


@pytest.mark.parametrize("n_labels", [1, 3])
@pytest.mark.parametrize("theta", [0, 1, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_one_row(theta, fit_intercept, n_labels):
    X, Y = np.array([[3.0, 4.0]]), np.array([[1, 1, 0]])[:, :n_labels]
    model = LRML(theta=theta, alpha=2.0, fit_intercept=fit_intercept, tol=1e-20).fit(X, Y)
    if fit_intercept:  # a single row varies in nothing
        np.testing.assert_allclose(model.coef_, 0, atol=1e-12)
        np.testing.assert_allclose(model.decision_function(X), np.where(Y, 1.0, -1.0))
        return
    # W = x yᵀ c has the one singular value s = ‖x‖‖y‖c: minimise (‖y‖ − ‖x‖ s)² + [theta = 0] alpha · s.
    length, weight = 5.0, np.sqrt(Y.sum())
    s = (weight - (1.0 / length if theta == 0 else 0.0)) / length
    np.testing.assert_allclose(model.coef_, s / (length * weight) * Y.T @ X, atol=1e-9)


@pytest.mark.parametrize(
    ("n", "d", "n_labels"), [(8, 20, 3), (8, 20, 30), (30, 4, 12), (5, 9, 9), (40, 1, 3)]
)
@pytest.mark.parametrize("theta", [0, 1])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_wide_data_and_more_labels_than_features(make_problem, oracle, n, d, n_labels, theta, fit_intercept):
    X, Y = make_problem(n, d, n_labels, seed=n + d)
    model = LRML(theta=theta, alpha=1.0, fit_intercept=fit_intercept, tol=1e-12).fit(X, Y)
    problem = oracle(X, Y, theta, 1.0, fit_intercept=fit_intercept)
    assert model.coef_.shape == (n_labels, d)
    assert problem.residual(model.coef_) <= 1.1e-6
    assert problem.objective(model.coef_, model.intercept_) == pytest.approx(model.objective_, rel=1e-10)


# Columns that do not vary


CONSTANTS = [0.1, 1.0, 1 / 3, -1e6 - 0.1]


@FORMS
@pytest.mark.parametrize("n", [3, 53, 57, 1000])
@pytest.mark.parametrize("constant", CONSTANTS)
def test_constant_columns_are_ignored_by_a_model_with_intercept(make_problem, form, n, constant):
    X, Y = make_problem(n, 3, 3, seed=n)
    wide = np.insert(X, [0, 2], [constant, 0.0], axis=1)
    model, reference = lrml().fit(form(wide), Y), lrml().fit(X, Y)
    np.testing.assert_allclose(model.coef_[:, [0, 3]], 0, atol=1e-13)
    np.testing.assert_allclose(model.coef_[:, [1, 2, 4]], reference.coef_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(
        model.decision_function(form(wide)), reference.decision_function(X), rtol=1e-6, atol=1e-8
    )


@FORMS
@pytest.mark.parametrize("constant", [0.1, 0.3, 1 / 3, 0.7])
def test_constant_column_of_many_rows(make_problem, form, constant):
    """Rounding grows with the number of rows, and must not be taken for variance."""
    X, Y = make_problem(5000, 2, 3, seed=0)
    wide = np.c_[X, np.full(len(X), constant)]
    model, reference = lrml(tol=1e-12).fit(form(wide), Y), lrml(tol=1e-12).fit(X, Y)
    np.testing.assert_allclose(model.coef_[:, 2], 0, atol=1e-13)
    np.testing.assert_allclose(model.coef_[:, :2], reference.coef_, rtol=1e-6)


@FORMS
def test_zero_columns_are_ignored_without_intercept(data, form):
    X, Y = data
    wide = np.insert(X, [0, 3], 0.0, axis=1)
    model, reference = lrml(fit_intercept=False).fit(form(wide), Y), lrml(fit_intercept=False).fit(X, Y)
    np.testing.assert_allclose(model.coef_[:, [0, 4]], 0, atol=1e-13)
    np.testing.assert_allclose(np.delete(model.coef_, [0, 4], axis=1), reference.coef_, **TIGHT)


@FORMS
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n", [2, 7, 30, 55])
@pytest.mark.parametrize("constant", [0.0, *CONSTANTS])
def test_nothing_but_constant_columns(make_problem, form, constant, n, weighted):
    _, Y = make_problem(n, 3, 3, seed=n)
    X = np.full((n, 3), constant)
    weights = np.random.default_rng(n).uniform(0.5, 2, n) if weighted else None
    for theta in (0, 1, 1.0):
        model = lrml(theta=theta).fit(form(X), Y, sample_weight=weights)
        np.testing.assert_array_equal(model.coef_, 0)
        np.testing.assert_allclose(model.intercept_, np.average(Y, axis=0, weights=weights), rtol=1e-12)
        assert model.rank_ == 0


@FORMS
@pytest.mark.parametrize("constant", CONSTANTS)
def test_constant_columns_stand_in_for_the_intercept_without_one(make_problem, form, constant):
    _, Y = make_problem(30, 3, 3, seed=4)
    X = np.full((30, 3), constant)
    model = LRML(theta=1.0, alpha=1.0, fit_intercept=False).fit(form(X), Y)
    # All three columns share the work: the least-squares solution of smallest norm.
    np.testing.assert_allclose(model.coef_, np.outer(Y.mean(axis=0), np.ones(3)) / (3 * constant), rtol=1e-8)


# Labels that do not vary


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("theta", [0, 1, 1.0])
@pytest.mark.parametrize(("n", "d", "n_labels"), [(60, 4, 6), (60, 5, 2), (10, 15, 6)])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_a_label_without_examples_comes_last(make_problem, n, d, n_labels, theta, fit_intercept, form):
    X, Y = make_problem(n, d, n_labels, seed=5)
    Y[:, 1] = 0
    model = lrml(theta=theta, fit_intercept=fit_intercept, tol=1e-10).fit(X, form(Y))
    scores = model.decision_function(X)
    np.testing.assert_array_equal(model.unseen_labels_, np.arange(n_labels) == 1)
    np.testing.assert_allclose(scores[:, 1], -1, rtol=1e-9)
    assert np.all(scores[:, 1] < np.delete(scores, 1, axis=1).min())
    assert np.all(model.predict_top_k(X, n_labels).labels[:, -1] == 1)
    predicted = model.predict(X)
    assert predicted[:, [1]].sum() == 0


def test_a_label_without_examples_comes_last_whatever_the_scores(make_problem):
    X, Y = make_problem(30, 3, 4, seed=5)
    Y[:, 0] = 0
    model = lrml(theta=1.0).fit(X, Y)
    far = 1e3 * X
    assert model.decision_function(far).min() < -1
    best = model.predict_top_k(far, 4)
    np.testing.assert_array_equal(best.labels[:, -1], 0)
    np.testing.assert_allclose(best.scores[:, -1], -1, rtol=1e-9)
    assert np.all(np.diff(best.scores[:, :-1], axis=1) <= 0)


def test_positive_examples_of_weight_zero_do_not_count(make_problem):
    X, Y = make_problem(30, 3, 3, seed=6)
    weights = 1.0 - Y[:, 0]
    model = lrml().fit(X, Y, sample_weight=weights)
    np.testing.assert_array_equal(model.unseen_labels_, [True, False, False])


def test_no_labels_at_all(make_problem):
    X, Y = make_problem(30, 3, 3, seed=6)
    model = lrml().fit(X, 0 * Y)
    np.testing.assert_allclose(model.decision_function(X), -1, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), 0)
    assert model.rank_ == 0
    assert model.objective_ == 0


def test_zero_is_a_real_target_like_any_other(make_problem):
    X, Y = make_problem(30, 3, 3, seed=6)
    Y[:, 1] = 0
    model = lrml(targets="real").fit(X, Y)
    assert not model.unseen_labels_.any()
    np.testing.assert_allclose(model.predict(X)[:, 1], 0, atol=1e-12)


@pytest.mark.parametrize("theta", [0, 1, 1.0])
def test_a_label_that_every_row_has(make_problem, theta):
    X, Y = make_problem(40, 4, 3, seed=7)
    Y[:, 2] = 1
    model = lrml(theta=theta).fit(X, Y)
    np.testing.assert_allclose(model.coef_[2], 0, atol=1e-12)
    np.testing.assert_allclose(model.decision_function(X)[:, 2], 1, rtol=1e-12)
    assert model.predict(X)[:, 2].all()


# Weights


@pytest.mark.parametrize("theta", [0, 1, 1.0])
@pytest.mark.parametrize("fit_intercept", [True, False])
@FORMS
def test_integer_weights_are_repeated_rows(data, theta, fit_intercept, form):
    X, Y = data
    weights = np.random.default_rng(0).integers(0, 4, len(X))
    params = {"theta": theta, "fit_intercept": fit_intercept, "ridge": 0.3}
    weighted = lrml(**params).fit(form(X), Y, sample_weight=weights)
    repeated = lrml(**params).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights, axis=0))
    assert_same_model(weighted, repeated, **TIGHT)
    assert weighted.objective_ == pytest.approx(repeated.objective_, rel=1e-9)
    assert not np.allclose(weighted.coef_, lrml(**params).fit(X, Y).coef_, rtol=1e-2)


def test_weights_scale_with_the_penalty(data):
    X, Y = data
    one = lrml(ridge=0.5).fit(X, Y)
    ten = lrml(alpha=20.0, ridge=5.0).fit(X, Y, sample_weight=np.full(len(X), 10.0))
    assert_same_model(ten, one, **TIGHT)


# Symmetries


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("theta", [0, 1, 1.0])
def test_order_of_rows_features_and_labels_does_not_matter(data, form, theta):
    X, Y = data
    rng = np.random.default_rng(0)
    rows, features, labels = (rng.permutation(size) for size in (*X.shape, Y.shape[1]))
    reference = lrml(theta=theta).fit(X, Y)
    model = lrml(theta=theta).fit(form(X[rows][:, features]), Y[rows][:, labels])
    np.testing.assert_allclose(model.coef_, reference.coef_[labels][:, features], **TIGHT)
    np.testing.assert_allclose(model.intercept_, reference.intercept_[labels], **TIGHT)


@pytest.mark.parametrize("theta", [0, 1, 1.0])
def test_large_offsets_of_features(data, theta):
    X, Y = data
    offsets = 1e6 * np.array([1, -1, 2, 0.5, -3, 1])
    X = (X + offsets) - offsets  # rounded as the shifted data are
    model, reference = (
        lrml(theta=theta, tol=1e-14).fit(X + offsets, Y),
        lrml(theta=theta, tol=1e-14).fit(X, Y),
    )
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-5, atol=1e-7)
    # Scores of the shifted data lose the digits that 1e6 takes.
    np.testing.assert_allclose(
        model.decision_function(X + offsets), reference.decision_function(X), atol=1e-5
    )
    assert model.objective_ == pytest.approx(reference.objective_, rel=1e-8)


@pytest.mark.parametrize("x_offset", [0.0, 1e6])
def test_large_offsets_of_real_targets(data, x_offset):
    X, Y = data
    Y = Y + 0.3 * np.random.default_rng(0).standard_normal(Y.shape)
    X, Y = (X + 1e6) - 1e6, (Y + 1e6) - 1e6  # rounded as the shifted data are
    model = lrml(targets="real", tol=1e-14).fit(X + x_offset, Y + 1e6)
    reference = lrml(targets="real", tol=1e-14).fit(X, Y)
    np.testing.assert_allclose(model.coef_, reference.coef_, rtol=1e-5, atol=1e-7)
    assert model.objective_ == pytest.approx(reference.objective_, rel=1e-6)


@pytest.mark.parametrize("exponent", [-12, -3.3, 2.7, 12])
@pytest.mark.parametrize("theta", [0, 1, 2])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_scale_of_features(make_problem, exponent, theta, fit_intercept):
    """X → cX with W → W/c leaves the loss alone; alpha → c·alpha and ridge → c²·ridge the penalties."""
    X, Y = make_problem(30, 4, 3, seed=1)
    c = 10.0**exponent
    params = {"theta": theta, "fit_intercept": fit_intercept, "tol": 1e-14}
    reference = LRML(alpha=1.5, ridge=0.2, **params).fit(X, Y)
    model = LRML(alpha=1.5 * c, ridge=0.2 * c**2, **params).fit(c * X, Y)
    np.testing.assert_allclose(
        model.decision_function(c * X), reference.decision_function(X), rtol=1e-5, atol=1e-6
    )
    np.testing.assert_allclose(c * model.coef_, reference.coef_, rtol=1e-4, atol=1e-6)
    assert model.objective_ == pytest.approx(reference.objective_, rel=1e-8)
    assert model.rank_ == reference.rank_


@pytest.mark.parametrize("exponent", [-9, 9])
@pytest.mark.parametrize("theta", [0, 1, 2])
def test_scale_of_real_targets(data, exponent, theta):
    X, Y = data
    c = 10.0**exponent
    reference = lrml(theta=theta, targets="real", tol=1e-14).fit(X, Y)
    model = lrml(theta=theta, alpha=2.0 * c, targets="real", tol=1e-14).fit(X, c * Y)
    np.testing.assert_allclose(model.predict(X) / c, reference.predict(X), rtol=1e-5, atol=1e-6)
    assert model.objective_ == pytest.approx(c**2 * reference.objective_, rel=1e-8)
