"""The curves of Figure 3, against Algorithm 1 written down once more in plain NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from lrml.datasets import MultiLabelDataset, describe, load_yeast, make_low_rank_multilabel
from lrml.experiments import _work
from lrml.experiments._convergence import DEFAULT_SOLVER, convergence
from lrml.experiments.summary import is_whole

N_TRAIN, STEPS = 60, 40
PAYLOAD = {"gammas": [1.01, 1.0], "steps": STEPS, "tol": 1e-20, "max_iter": 2000}
PLACES = [(0, 5.0), (2, 1.0), (2, 20.0), (4, 5.0), (6, 5.0)]


@pytest.fixture(scope="module")
def small() -> MultiLabelDataset:
    dataset, _ = make_low_rank_multilabel(90, 8, 6, rank=3, cardinality=2.0, noise=0.5, random_state=0)
    return replace(dataset, Y=dataset.Y.toarray(), n_train=N_TRAIN)


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


def curves_at(dataset: MultiLabelDataset, theta: int, alpha: float) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = convergence(dataset, PAYLOAD | {"theta": theta, "alpha": alpha})["curves"]
    return found


@pytest.mark.parametrize(("theta", "alpha"), PLACES)
def test_curves_of_algorithm_1_equal_a_plain_implementation(
    small: MultiLabelDataset, theta: int, alpha: float
) -> None:
    X, Y = small.X[:N_TRAIN], small.Y[:N_TRAIN].astype(float)
    _, growing, constant = curves_at(small, theta, alpha)
    for curve, gamma in ((growing, 1.01), (constant, 1.0)):
        assert curve["method"] == f"Algorithm 1, gamma = {gamma:g}"
        assert curve["stop"] is None
        expected = algorithm1(X, Y, theta, alpha, gamma, STEPS)
        np.testing.assert_allclose(curve["objective"], expected, rtol=1e-8)


@pytest.mark.parametrize(("theta", "alpha"), PLACES)
def test_the_default_solver_is_not_above_algorithm_1(
    small: MultiLabelDataset, theta: int, alpha: float
) -> None:
    default, *others = curves_at(small, theta, alpha)
    assert default["method"] == DEFAULT_SOLVER
    best = min(default["objective"])
    assert best <= min(min(curve["objective"]) for curve in others) * (1 + 1e-9)
    assert 0 <= default["stop"] < len(default["objective"])
    assert default["residual"] <= 1e-9
    # Where the usual tolerance stops, little is left to gain.
    assert default["objective"][default["stop"]] <= best * (1 + 1e-2)


def test_with_nothing_penalised_the_solver_finds_least_squares(small: MultiLabelDataset) -> None:
    X, Y = small.X[:N_TRAIN], small.Y[:N_TRAIN].astype(float)
    W = np.linalg.lstsq(X, Y, rcond=None)[0]
    default = curves_at(small, 6, 5.0)[0]
    assert default["objective"][-1] == pytest.approx(((Y - X @ W) ** 2).sum(), rel=1e-8)


def test_the_test_set_takes_no_part(small: MultiLabelDataset) -> None:
    Y = small.Y.copy()
    Y[N_TRAIN:] = 1 - Y[N_TRAIN:]
    assert curves_at(replace(small, Y=Y), 2, 1.0) == curves_at(small, 2, 1.0)


def test_objectives_have_ten_digits(small: MultiLabelDataset) -> None:
    for curve in curves_at(small, 2, 1.0):
        assert all(value == float(f"{value:.10g}") for value in curve["objective"])


# What a worker makes of these cells


def test_a_worker_computes_curves(small: MultiLabelDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_work, "load_dataset", lambda name: small)
    payload = PAYLOAD | {"kind": "convergence", "dataset": "small", "theta": 2, "alpha": 1.0}
    outcome = _work.work(payload)
    assert outcome.result == {"curves": curves_at(small, 2, 1.0)}
    assert outcome.arrays is None


def test_only_a_record_with_all_that_a_worker_computes_is_whole(small: MultiLabelDataset) -> None:
    payload = PAYLOAD | {"kind": "convergence", "theta": 2, "alpha": 1.0}
    result = {"curves": curves_at(small, 2, 1.0)}
    assert is_whole({"payload": payload, "result": result, "arrays": None})
    first = result["curves"][0]
    for curves in ([], {}, None, [3], [first | {"objective": []}], [first | {"stop": "never"}]):
        assert not is_whole({"payload": payload, "result": {"curves": curves}, "arrays": None})
    assert not is_whole({"payload": payload, "result": {}, "arrays": None})


def test_a_worker_counts_what_the_data_is() -> None:
    outcome = _work.work({"kind": "statistics", "dataset": "yeast"})
    assert outcome.result == describe(load_yeast()).as_dict()
    assert (outcome.result["instances"], outcome.result["distinct_label_sets"]) == (2417, 198)
