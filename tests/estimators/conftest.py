"""Random problems and independent oracles for the estimators: everything by definition, in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from lrml.datasets import load_yeast


@dataclass(frozen=True)
class Oracle:
    """The objective of LRML written out with dense arrays, explicit centring and a full SVD."""

    X: np.ndarray
    Y: np.ndarray
    theta: int
    alpha: float
    ridge: float = 0.0
    fit_intercept: bool = True
    weights: np.ndarray | None = None

    @property
    def rows(self) -> tuple[np.ndarray, np.ndarray]:
        """Data whose plain least squares are those of the problem: centred if need be, times √weight."""
        w = np.ones(len(self.X)) if self.weights is None else np.asarray(self.weights, dtype=float)
        X, Y = np.asarray(self.X, dtype=float), np.asarray(self.Y, dtype=float)
        if self.fit_intercept:
            X, Y = X - np.average(X, axis=0, weights=w), Y - np.average(Y, axis=0, weights=w)
        return np.sqrt(w)[:, None] * X, np.sqrt(w)[:, None] * Y

    def objective(self, coef: np.ndarray, intercept: np.ndarray) -> float:
        """Return ‖Y − 1bᵀ − XW‖² (weighted) + alpha · Σ_{j > theta} σ_j(W) + ridge · ‖W‖²."""
        w = np.ones(len(self.X)) if self.weights is None else self.weights
        errors = np.asarray(self.Y, dtype=float) - intercept - self.X @ coef.T
        sigma = np.linalg.svd(coef, compute_uv=False)
        return float(
            np.sum(w[:, None] * errors**2)
            + self.alpha * sigma[self.theta :].sum()
            + self.ridge * np.sum(coef**2)
        )

    def residual(self, coef: np.ndarray) -> float:
        """Length of a proximal gradient step with the step 1/L, times L, relative to ‖∇f(0)‖."""
        X, Y = self.rows
        W = coef.T
        lipschitz = 2 * (np.linalg.norm(X, 2) ** 2 + self.ridge)
        gradient = 2 * X.T @ (X @ W - Y) + 2 * self.ridge * W
        U, sigma, Vt = np.linalg.svd(W - gradient / lipschitz, full_matrices=False)
        sigma[self.theta :] = np.maximum(sigma[self.theta :] - self.alpha / lipschitz, 0)
        return float(lipschitz * np.linalg.norm(W - (U * sigma) @ Vt) / np.linalg.norm(2 * X.T @ Y))

    def duality_gap(self, coef: np.ndarray) -> float:
        """Primal minus dual objective of the trace-norm problem (theta = 0, no ridge); never negative.

        The dual is max ⟨A, Y⟩ − ‖A‖²/4 over ‖XᵀA‖₂ ≤ alpha; the scaled residual is a feasible A.
        """
        X, Y = self.rows
        errors = Y - X @ coef.T
        primal = np.sum(errors**2) + self.alpha * np.linalg.norm(coef, "nuc")
        A = 2 * errors * min(1.0, self.alpha / np.linalg.norm(2 * X.T @ errors, 2))
        return float(primal - (np.sum(A * Y) - np.sum(A**2) / 4))


@pytest.fixture(scope="session")
def oracle() -> type[Oracle]:
    return Oracle


def random_problem(
    n: int = 40, d: int = 6, n_labels: int = 4, *, seed: int = 0, density: float = 0.4
) -> tuple[np.ndarray, np.ndarray]:
    """Features of unequal scales and correlated 0/1 labels, each of which some rows have and some lack."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d)) @ np.diag(np.geomspace(1.0, 0.2, d)) + rng.standard_normal(d)
    logits = X @ rng.standard_normal((d, n_labels)) + 0.5 * rng.standard_normal((n, n_labels))
    Y = (logits >= np.quantile(logits, 1 - density, axis=0)).astype(np.int64)
    if n > 1:
        rows, labels = rng.permutation(n), np.arange(n_labels)
        Y[rows[labels % n], labels], Y[rows[(labels + 1) % n], labels] = 1, 0
    return X, Y


@pytest.fixture(scope="session")
def make_problem() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    return random_problem


@pytest.fixture(scope="session")
def yeast() -> tuple[Any, Any]:
    """The embedded training set."""
    return load_yeast().train


def fitted_state(model: Any) -> dict[str, Any]:
    """Every fitted attribute of an estimator (those that end in an underscore)."""
    return {name: value for name, value in vars(model).items() if name.endswith("_")}


@pytest.fixture(scope="session")
def fitted() -> Callable[[Any], dict[str, Any]]:
    return fitted_state
