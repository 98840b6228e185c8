"""The sum of a loss over rows: against a naive loop, by finite differences, whatever the blocks."""

import numpy as np
import pytest
import scipy.sparse as sp

from lrml.core import rows as rows_module
from lrml.core.loss_problem import RowProblem
from lrml.core.losses import LOSSES
from lrml.core.rows import Mask, Rows

EACH = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
MASKS = {
    "all known": lambda known: None,
    "dense": Mask,
    "sparse": lambda known: Mask(sp.csr_array(known)),
    "dense unknown": lambda known: Mask(~known, marks_known=False),
    "sparse unknown": lambda known: Mask(sp.csr_array(~known), marks_known=False),
}
EACH_MASK = pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS.keys())


def arrays(n=14, d=4, n_labels=3, seed=0):
    """Features off centre, labels, known entries (some in every column), weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.geomspace(1, 0.3, d) + rng.standard_normal(d)
    X[rng.random(X.shape) < 0.3] = 0.0
    Y = (rng.random((n, n_labels)) < 0.4).astype(float)
    Y[:2] = [[0], [1]]
    known = rng.random(Y.shape) < 0.6
    known[:2] = True
    return X, Y, known, rng.uniform(0.2, 2.0, n)


def loop(loss, X, Y, known, weights, coef, intercept, ridge):
    """The objective with one Python loop per row and label."""
    total = ridge * float(np.sum(coef**2))
    for i in range(len(X)):
        for j in range(Y.shape[1]):
            if known[i, j]:
                score = np.array([[X[i] @ coef[:, j] + intercept[j]]])
                total += weights[i] * float(loss.terms(Y[i : i + 1, j : j + 1], score).values[0, 0])
    return total


def difference(f, V, h=1e-5):
    """Gradient of f by central differences."""
    out = np.empty_like(V)
    for place in np.ndindex(*V.shape):
        step = np.zeros_like(V)
        step[place] = h
        out[place] = (f(V + step) - f(V - step)) / (2 * h)
    return out


def some_point(problem, seed=3):
    V = np.random.default_rng(seed).standard_normal(problem.shape)
    if not problem.fit_intercept:
        V[0] = 0
    return V


def in_original_space(problem, V):
    return problem.features @ V[1:], problem.intercept(V)


# Value and gradient


@EACH
@EACH_MASK
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("fit_intercept", [True, False], ids=["intercept", "no intercept"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_value_is_the_sum_over_known_labels_and_the_gradient_its_derivative(
    loss, mask, weighted, fit_intercept, form
):
    X, Y, known, w = arrays()
    if mask(known) is None:
        known = np.ones_like(known)
    rows = Rows(form(X), form(Y * known), mask(known), w if weighted else None)
    problem = RowProblem(rows, loss, ridge=0.3, fit_intercept=fit_intercept)
    V = some_point(problem)
    expected = loop(
        loss, X, Y, known, w if weighted else np.ones(len(X)), *in_original_space(problem, V), 0.3
    )
    assert problem.value(V) == pytest.approx(expected, rel=1e-12)
    by_difference = difference(problem.value, V)
    if not fit_intercept:
        by_difference[0] = 0  # the intercept is not a variable
    np.testing.assert_allclose(problem.gradient(V), by_difference, rtol=1e-5, atol=1e-5)
    assert np.abs(problem.gradient(V)).max() > 0.1


@EACH
@pytest.mark.parametrize("rows_at_once", [1, 3, 14])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_blocks_do_not_matter(loss, rows_at_once, form, monkeypatch):
    X, Y, known, w = arrays()
    rows = Rows(form(X), form(Y * known), Mask(form(known)), w)
    whole = RowProblem(rows, loss)
    assert len(list(rows.map(lambda block: block.X))) == 1
    monkeypatch.setattr(rows_module, "_BLOCK_SCORES", 3 * rows_at_once)
    monkeypatch.setattr(rows_module, "_LEAST_ROWS", 1)
    assert len(list(rows.map(lambda block: block.X))) == -(-14 // rows_at_once)
    parts = RowProblem(rows, loss)
    V = some_point(whole)
    one, other = whole.evaluate(V), parts.evaluate(V)
    assert other.value == pytest.approx(one.value, rel=1e-13)
    np.testing.assert_allclose(other.gradient, one.gradient, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(other.curvatures, one.curvatures, rtol=1e-12)
    np.testing.assert_allclose(parts.origin, whole.origin, rtol=1e-13)


# Totals, labels, coordinates


@EACH_MASK
def test_label_totals(mask):
    X, Y, known, w = arrays()
    seen = np.ones_like(known) if mask(known) is None else known
    for weights in (None, w):
        u = np.ones(len(X)) if weights is None else weights
        totals = Rows(X, Y * seen, mask(known), weights).label_totals
        np.testing.assert_allclose(totals[0], u @ seen)
        np.testing.assert_allclose(totals[1], u @ (seen * Y))


# Curvature


@pytest.mark.parametrize(("name", "at_origin"), [("squared", False), ("logistic", True)])
def test_hessian_model_is_exact(name, at_origin):
    """For the squared loss with full labels everywhere; for others where all scores are equal."""
    X, Y, _, w = arrays()
    problem = RowProblem(Rows(X, Y, None, w), LOSSES[name], ridge=0.4)
    V = problem.origin if at_origin else some_point(problem)
    model = problem.hessian_model(problem.evaluate(V).curvatures)
    for place in np.ndindex(*V.shape):
        step = np.zeros_like(V)
        step[place] = 1e-5
        column = (problem.gradient(V + step) - problem.gradient(V - step)) / 2e-5
        expected = np.zeros_like(V)
        expected[place] = model[place]
        np.testing.assert_allclose(column, expected, atol=1e-5 * model.max())


@EACH
@EACH_MASK
def test_lipschitz_constant(loss, mask):
    X, Y, known, w = arrays()
    problem = RowProblem(Rows(X, Y * known, mask(known), w), loss, ridge=0.4)
    rng = np.random.default_rng(0)
    for scale in (1e-3, 1.0, 10.0):
        A, B = (scale * rng.standard_normal(problem.shape) for _ in range(2))
        rise = np.linalg.norm(problem.gradient(A) - problem.gradient(B))
        assert rise <= problem.lipschitz * np.linalg.norm(A - B) * (1 + 1e-9)
