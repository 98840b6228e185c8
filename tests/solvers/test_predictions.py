"""A penalty on the singular values of the predictions, where the rows have to be read."""

import cvxpy as cp
import numpy as np
import pytest

from contracts import row_arrays
from lrml.core.loss_problem import RowProblem
from lrml.core.losses import LOSSES
from lrml.core.moments import Statistics
from lrml.core.penalties import TailSum, TraceNorm
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Mask, Rows
from lrml.solvers import solve, solve_rows


def make(X, Y, known=None, ridge=0.0, loss="squared"):
    rows = Rows(X, Y, None) if known is None else Rows(X, Y * known, Mask(known))
    return RowProblem(rows, LOSSES[loss], ridge, space="predictions")


@pytest.mark.parametrize("shape", [(40, 5, 4), (40, 4, 7)], ids=str)
@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_unknown_labels_under_the_trace_norm_end_where_cvxpy_does(shape, ridge):
    X, Y, known, _ = row_arrays(*shape)
    alpha, centred = 3.0, X - X.mean(axis=0)
    W, b = cp.Variable((shape[1], shape[2])), cp.Variable((1, shape[2]))
    scores = centred @ W + np.ones((shape[0], 1)) @ b
    said = cp.vstack([centred @ W, np.sqrt(ridge) * W])
    loss = cp.sum_squares(cp.multiply(known.astype(float), Y - scores)) + ridge * cp.sum_squares(W)
    best = cp.Problem(cp.Minimize(loss + alpha * cp.normNuc(said))).solve(solver="SCS", eps=1e-9)

    problem = make(X, Y, known, ridge)
    found = solve_rows(problem, TraceNorm(alpha), tol=1e-10)
    U, s, V = found.factors
    assert found.objective == pytest.approx(best, rel=1e-6)
    np.testing.assert_allclose((U * s) @ V.T, W.value, atol=1e-3)
    np.testing.assert_allclose(
        problem.intercept(found.solution), (b.value - X.mean(axis=0) @ W.value)[0], atol=1e-3
    )
    np.testing.assert_allclose(U.T @ U, np.eye(len(s)), atol=1e-9)
    # A start in the space of the model is that point.
    again = problem.compress(U * s, V, problem.intercept(found.solution))
    np.testing.assert_allclose(again, found.solution, atol=1e-9)


@pytest.mark.parametrize("theta", [0, 2])
def test_known_labels_end_at_the_closed_form(theta):
    X, Y, _, _ = row_arrays(60, 5, 4)
    penalty, problem = TailSum(theta, 4.0), make(X, Y, ridge=0.5)
    found = solve_rows(problem, penalty, tol=1e-12)
    closed = SpectralProblem.from_moments(Statistics.from_arrays(X, Y).moments(), 0.5)
    exact = solve(closed, penalty, space="predictions")
    assert found.objective == pytest.approx(exact.objective, rel=1e-9)
    np.testing.assert_allclose(
        (found.factors.U * found.factors.s) @ found.factors.V.T,
        (exact.factors.U * exact.factors.s) @ exact.factors.V.T,
        atol=1e-5,
    )
    other = problem.with_ridge(2.0)
    exact = solve(closed.with_ridge(2.0), penalty, space="predictions")
    assert solve_rows(other, penalty, tol=1e-12).objective == pytest.approx(exact.objective, rel=1e-9)
