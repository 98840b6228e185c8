"""What a worker computes: features against norms and kernels by hand, curves against plain NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from low_rank_data import make_low_rank_labels
from lrml.datasets import Dataset
from lrml.paper import _work, make_plan
from lrml.paper._work import work

N_TRAIN, GAMMA = 30, 0.3
N_FIT, STEPS = 60, 40
CELL = {
    **{"kind": "convergence", "dataset": "small"},
    **{"gammas": [1.01, 1.0], "steps": STEPS, "tol": 1e-20, "max_iter": 2000},
}
PLACES = [(0, 5.0), (2, 1.0), (2, 20.0), (4, 5.0), (6, 5.0)]
Use = Callable[[Dataset], None]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Iterator[Use]:
    """Let every name be the given dataset."""

    def given(dataset: Dataset) -> None:
        _work.prepare.cache_clear()
        monkeypatch.setattr(_work, "load_dataset", lambda name: dataset)

    yield given
    _work.prepare.cache_clear()


def small() -> Dataset:
    dataset = make_low_rank_labels(50, 6, 5, rank=2, cardinality=1.5, random_state=0)
    return replace(dataset, Y=dataset.Y.toarray(), n_train=N_TRAIN)


def with_other_test_rows(dataset: Dataset) -> Dataset:
    X = dataset.X.copy()
    X[N_TRAIN:] = np.random.default_rng(1).normal(size=X[N_TRAIN:].shape)
    return replace(dataset, X=X)


def unit_rows(X: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.stack([row / np.sqrt((row**2).sum()) for row in X])


def rbf(A: npt.NDArray[np.float64], B: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.array([[np.exp(-GAMMA * ((a - b) ** 2).sum()) for b in B] for a in A])


def assert_same_train(first: _work.TrainTest, second: _work.TrainTest) -> None:
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.Y, second.Y)


# Features


def test_with_all_rows_as_basis_kernel_features_give_the_kernel(use: Use) -> None:
    dataset = small()
    use(dataset)
    data = _work.prepare("small", True, GAMMA, N_TRAIN, 0)
    train, test = unit_rows(dataset.X[:N_TRAIN]), unit_rows(dataset.X[N_TRAIN:])
    np.testing.assert_allclose(data.X @ data.X.T, rbf(train, train), atol=1e-6)
    # Training and test rows are in one space: their products are the kernel between them.
    np.testing.assert_allclose(data.X_test @ data.X.T, rbf(test, train), atol=1e-6)


@pytest.mark.parametrize("how", [(False,), (True,), (True, GAMMA, 10, 0), (True, GAMMA, 30, 1)])
def test_no_test_row_influences_training_rows(how: tuple[Any, ...], use: Use) -> None:
    use(small())
    honest = _work.prepare("small", *how)
    use(with_other_test_rows(small()))
    corrupted = _work.prepare("small", *how)
    assert_same_train(honest, corrupted)
    assert np.abs(honest.X_test - corrupted.X_test).max() > 1e-3


# Figure 3, against Algorithm 1 written down once more in plain NumPy


@pytest.fixture(scope="module")
def larger() -> Dataset:
    dataset = make_low_rank_labels(90, 8, 6, rank=3, cardinality=2.0, noise=0.5, random_state=0)
    return replace(dataset, Y=dataset.Y.toarray(), n_train=N_FIT)


def algorithm1(
    X: npt.NDArray[np.float64],
    Y: npt.NDArray[np.float64],
    theta: int,
    alpha: float,
    gamma: float,
    steps: int,
) -> list[float]:
    """Objectives of the printed algorithm on the raw data, without spectral coordinates."""
    W = np.zeros((X.shape[1], Y.shape[1]))
    t = 2 * np.linalg.norm(X, 2) ** 2
    objectives = [float((Y**2).sum())]
    for _ in range(steps):
        t *= gamma
        U, s, Vt = np.linalg.svd(W - 2 * X.T @ (X @ W - Y) / t, full_matrices=False)
        head = np.where(s > alpha / t, s, 0.0)
        tail = np.maximum(s - alpha / t, 0.0)
        s = np.where(np.arange(len(s)) < theta, head, tail)
        W = (U * s) @ Vt
        objectives.append(float(((Y - X @ W) ** 2).sum() + alpha * s[theta:].sum()))
    return objectives


def curves_at(dataset: Dataset, theta: int, alpha: float) -> list[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_work, "load_dataset", lambda name: dataset)
        values, arrays = work(CELL | {"theta": theta, "alpha": alpha})
    assert arrays == {}
    found: list[dict[str, Any]] = values["curves"]
    return found


@pytest.mark.parametrize(("theta", "alpha"), PLACES)
def test_curves_of_algorithm_1_equal_a_plain_implementation(
    larger: Dataset, theta: int, alpha: float
) -> None:
    X, Y = larger.X[:N_FIT], larger.Y[:N_FIT].astype(float)
    _, growing, constant = curves_at(larger, theta, alpha)
    for curve, gamma in ((growing, 1.01), (constant, 1.0)):
        assert curve["method"] == f"Algorithm 1, gamma = {gamma:g}"
        assert curve["stop"] is None
        expected = algorithm1(X, Y, theta, alpha, gamma, STEPS)
        np.testing.assert_allclose(curve["objective"], expected, rtol=1e-8)


# Figure 1


def completion(**changes: Any) -> dict[str, Any]:
    (cell,) = make_plan("fig1").cells
    return cell | changes


def test_minima_of_the_completion() -> None:
    minima = work(completion())[0]["minima"]
    np.testing.assert_allclose(minima["trace_norm"]["entries"], [1.8392, 1.4271], atol=6e-5)
    np.testing.assert_allclose(minima["tail_sum"]["entries"], [2.0, 2.0], atol=1e-6)
    # By hand: M Mᵀ = [10 9 9; 9 10 10; 9 10 10] has the eigenvalues 0 and 15 ± √187.
    expected = [np.sqrt(15 + np.sqrt(187)), np.sqrt(15 - np.sqrt(187)), 0.0]
    np.testing.assert_allclose(minima["tail_sum"]["singular_values"], expected, atol=1e-6)
