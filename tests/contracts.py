"""What every solver must do, written once."""

import numpy as np

from lrml.core.moments import Statistics
from lrml.core.quadratic import SpectralProblem


def make_problem(seed=0, n=80, d=12, n_labels=7, decay=1.0, ridge=0.0):
    """A planted low-rank problem with badly conditioned features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(1, 10.0**-decay, d)
    truth = rng.normal(size=(d, 3)) @ rng.normal(size=(3, n_labels))
    Y = (X @ truth + 0.5 * rng.normal(size=(n, n_labels)) > 0.5).astype(float)
    return SpectralProblem.from_moments(Statistics.from_arrays(X, Y).moments(fit_intercept=False), ridge)


def objective_by_svd(problem, penalty, factors):
    """F(W) in the given coordinates from the definition, by a full SVD."""
    W = problem.compress(problem.features.T @ (factors.U * factors.s), factors.V)
    return problem.value(W) + penalty.value(np.linalg.svd(W, compute_uv=False)), W


def residual_by_svd(problem, penalty, W):
    """The stationarity residual from its definition, by a full SVD."""
    L = 2 * float(problem.curvature[0])
    U, s, Vt = np.linalg.svd(W - problem.gradient(W) / L, full_matrices=False)
    moved = (U * penalty.prox(s, 1 / L)) @ Vt
    return L * np.linalg.norm(W - moved) / np.linalg.norm(problem.gradient(np.zeros_like(W)))


def row_arrays(n, d, n_labels, seed=0):
    """Features off centre, labels that depend on them, which of these are known, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) * np.geomspace(1, 0.3, d) + rng.standard_normal(d)
    scores = X @ rng.standard_normal((d, 2)) @ rng.standard_normal((2, n_labels))
    Y = (scores + 2 * rng.standard_normal(scores.shape) > np.median(scores, axis=0)).astype(float)
    return X, Y, rng.random(Y.shape) < 0.65, rng.uniform(0.2, 2.0, n)
