"""Oracles for the theory's tests: all sign matrices of a small problem, and a small fitted problem."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest


@pytest.fixture(scope="session")
def every_product() -> Callable[..., np.ndarray]:
    """All matrices XᵀΣ/n of a small X, for each choice of signs: ``every_product(X, n_labels, signs)``."""

    def enumerate_products(X: np.ndarray, n_labels: int, signs: str = "entry") -> np.ndarray:
        n = len(X)
        columns = n_labels if signs == "entry" else 1
        choices = np.array(list(product((-1.0, 1.0), repeat=n * columns))).reshape(-1, n, columns)
        if signs == "example":
            choices = np.repeat(choices, n_labels, axis=2)
        return np.swapaxes(X, 0, 1) @ choices / n

    return enumerate_products
