"""Which stationary point a fit ends at, and how far from stationary the models of a path are."""

import numpy as np
import pytest

import contracts
from lrml import SpectralRegressor
from lrml.core.moments import Statistics
from lrml.core.penalties import TailSum
from lrml.core.quadratic import SpectralProblem


@pytest.mark.parametrize(
    ("alpha", "tail"),
    [(200.0, []), (80.0, [(45.0 - 40.0) / 100.0])],
    ids=["the limit is stationary", "the limit is a better start"],
)
def test_the_reduced_rank_solution_keeps_a_fit_from_a_poor_subspace(alpha, tail):
    """Three orthogonal features, a label each. One value is free, and worth most where a long feature has it.

    Least squares has the largest coefficient at the short feature, so that descent from there leaves that one
    free. The penalty then cuts what explains most of Y, and this is stationary.
    """
    X = np.diag([10.0, 1.0, 10.0, 0.0])
    Y = np.diag([5.0, 2.0, 4.5, 1.0])[:, :3]
    Y[3] = 1.0  # nothing explains this row
    model = SpectralRegressor(1, alpha, ridge=0.0, space="coefficients", fit_intercept=False, tol=1e-10).fit(
        X, Y
    )
    np.testing.assert_allclose(model.singular_values_, [0.5, *tail], atol=1e-6)
    explained = 25.0 + sum(100.0 * s**2 for s in tail)
    assert model.objective_ == pytest.approx(np.sum(Y**2) - explained, rel=1e-8)
    # The other point is stationary as well, and clearly worse.
    poor = np.zeros((4, 3))
    poor[1, 1] = 2.0
    poor[0, 0], poor[2, 2] = (max(b - alpha / 2, 0.0) / 100.0 for b in (50.0, 45.0))
    problem = SpectralProblem.from_moments(Statistics.from_arrays(X, Y).moments(fit_intercept=False))
    W, penalty = problem.compress(problem.features.T @ poor), TailSum(1, alpha)
    assert contracts.residual_by_svd(problem, penalty, W) <= 1e-12
    worse = problem.value(W) + penalty.value(np.linalg.svd(W, compute_uv=False))
    assert worse > 1.5 * model.objective_
