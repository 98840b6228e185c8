"""The choice of a model, against brute force: every candidate fitted by itself, scored, compared."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from low_rank_data import make_low_rank_labels
from lrml import CPLST, LEML, LRML, MLFro, MLTrace, metrics
from lrml.model_selection import iterative_train_test_split
from lrml.paper import _work

TrainTest = _work.TrainTest
TIGHT = {"tol": 1e-9, "max_iter": 5000}
CRITERIA = {
    "precision_at_1": "label_ranking_average_precision",
    "precision_at_3": "label_ranking_average_precision",
    "precision_at_5": "label_ranking_average_precision",
    "label_ranking_average_precision": "label_ranking_average_precision",
    "roc_auc_samples": "roc_auc_samples",
    "hamming_loss": "hamming_loss",
}
NAMES = ["label_ranking_average_precision", "roc_auc_samples", "hamming_loss"]
# Search parameters, and the estimator that the candidates are.
SEARCHES: dict[str, tuple[dict[str, Any], Any]] = {
    "LRML": ({"alphas": [0.5, 4.0, 20.0], "ridges": [0.0, 30.0]} | TIGHT, LRML),
    "LEML": ({"alphas": [1.0, 8.0, 30.0], "ridges": [0.0]} | TIGHT, LEML),
    "CPLST": ({"ridges": [0.0, 10.0, 100.0]}, CPLST),
    "MLTrace": ({"alphas": [1.0, 10.0, 40.0], "ridges": [0.0, 30.0]} | TIGHT, MLTrace),
    "MLFro": ({"alphas": [0.1, 10.0, 100.0, 1000.0]}, MLFro),
}
EVERY_METHOD = [("LRML", 2), ("LEML", 3), ("CPLST", 3), ("MLTrace", None), ("MLFro", None)]
RANK_NAMES = {"LRML": "theta", "LEML": "rank", "CPLST": "rank"}


def options(threshold: float | str = 0.5) -> dict[str, Any]:
    return {"fit_intercept": True, "threshold": threshold, "held_out": 0.25}


def cell_of(method: str, theta: int | None, **changes: Any) -> dict[str, Any]:
    usual = {"method": method, "theta": theta, "seed": 1, "options": options(), "criteria": CRITERIA}
    usual |= {"dataset": "small", "features": {"normalise": True, "kernel": None}}
    return usual | {"kind": "models", "searches": [SEARCHES[method][0]]} | changes


@pytest.fixture(scope="module")
def data() -> TrainTest:
    data = make_low_rank_labels(180, 8, 6, rank=3, cardinality=2.0, noise=1.5, random_state=0)
    Y = data.Y.toarray()
    return TrainTest(data.X[:120], Y[:120], data.X[120:], Y[120:])


def compute(data: TrainTest, cell: dict[str, Any]) -> _work.Output:
    """Compute a cell on the given data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_work, "prepare", lambda *_, **__: data)
        return _work.work(cell)


def run_model(data: TrainTest, cell: dict[str, Any]) -> dict[str, Any]:
    return compute(data, cell)[0]


def run_equal_rank(data: TrainTest, cell: dict[str, Any]) -> dict[str, Any]:
    return compute(data, {**cell, "kind": "equal_rank"})[0]


def candidates(method: str, theta: int | None, parameters: Mapping[str, Any]) -> list[Any]:
    """Return plain estimators, one for every point of the grid."""
    grid = {key[:-1]: value for key, value in parameters.items() if key in ("alphas", "ridges")}
    fixed = {key: value for key, value in parameters.items() if key in ("tol", "max_iter", "loss")}
    if method in RANK_NAMES:
        fixed[RANK_NAMES[method]] = theta
    if method != "CPLST":
        fixed["fit_intercept"] = True
    make = SEARCHES[method][1]
    return [make(**dict(zip(grid, point, strict=True)), **fixed) for point in product(*grid.values())]


def hamming(Y: npt.NDArray[Any], S: npt.NDArray[Any], cut: float) -> float:
    return float(np.mean((cut <= S) != (Y == 1)))


def best_cut(Y: npt.NDArray[Any], S: npt.NDArray[Any]) -> float:
    """Return the least Hamming loss over all cuts, one below and above all scores included."""
    return min(hamming(Y, S, cut) for cut in (*np.unique(S), S.max() + 1.0))


def score(criterion: str, Y: npt.NDArray[Any], S: npt.NDArray[Any], threshold: float | str) -> float:
    if criterion == "hamming_loss":
        return -best_cut(Y, S) if threshold == "auto" else -hamming(Y, S, float(threshold))
    return float(getattr(metrics, criterion)(Y, S))


def brute_force(
    data: TrainTest, models: list[Any], criterion: str, given: Mapping[str, Any]
) -> tuple[list[float], list[npt.NDArray[Any]], npt.NDArray[Any]]:
    """Scores of all candidates, the scores that they give to the validation rows, and the labels there."""
    X_fit, X_val, Y_fit, Y_val = iterative_train_test_split(
        data.X, data.Y, test_size=given["held_out"], random_state=1
    )
    S = [model.fit(X_fit, Y_fit).decision_function(X_val) for model in models]
    return [score(criterion, Y_val, scores, given["threshold"]) for scores in S], S, Y_val


def same(chosen: Mapping[str, Any], model: Any) -> bool:
    names = [name for name in ("alpha", "ridge", "loss") if hasattr(model, name)]
    return all(chosen[name] == pytest.approx(getattr(model, name)) for name in names)


# One search


@pytest.mark.parametrize("threshold", [0.5, "auto"])
@pytest.mark.parametrize(("method", "theta"), EVERY_METHOD)
def test_the_choice_is_that_of_brute_force(
    method: str, theta: int | None, threshold: float | str, data: TrainTest
) -> None:
    given = options(threshold)
    result = run_model(data, cell_of(method, theta, options=given))
    models = candidates(method, theta, SEARCHES[method][0])
    assert list(result["chosen"]) == NAMES
    for criterion in NAMES:
        scores, S, Y_val = brute_force(data, models, criterion, given)
        chosen = result["chosen"][criterion]
        assert chosen["validation_score"] == pytest.approx(max(scores), abs=1e-9)
        (place,) = (i for i, model in enumerate(models) if same(chosen, model))
        assert scores[place] == pytest.approx(max(scores), abs=1e-9)
        cut = chosen["threshold"]
        if threshold == "auto":
            assert hamming(Y_val, S[place], cut) == pytest.approx(best_cut(Y_val, S[place]), abs=1e-12)
        else:
            assert cut == 0.5
        refitted = models[place].fit(data.X, data.Y)
        assert chosen["model_rank"] == refitted.rank_
        judged = metrics.evaluate(data.Y_test, refitted.decision_function(data.X_test), threshold=cut)
        for metric in (metric for metric, by in CRITERIA.items() if by == criterion):
            assert result["metrics"][metric] == pytest.approx(judged[metric], abs=1e-9)


def test_an_intercept_only_if_asked_for(data: TrainTest) -> None:
    without = options() | {"fit_intercept": False}
    for method, theta in (("LRML", 2), ("LEML", 2), ("MLTrace", None), ("MLFro", None)):
        choices = _work.search_all(data, cell_of(method, theta, options=without))
        assert all(not np.any(choice.model.intercept_) for choice in choices.values())


# Several searches


@pytest.mark.parametrize("threshold", [0.0, "auto"])
def test_of_two_losses_the_better_one_is_taken_by_every_criterion(
    threshold: float | str, data: TrainTest
) -> None:
    squared = {"alphas": [4.0], "ridges": [1.0]} | TIGHT
    logistic = {"alphas": [0.5], "ridges": [0.5], "loss": "logistic"} | TIGHT
    given = options(threshold)
    for searches in ([squared, logistic], [logistic, squared]):
        found = _work.search_all(data, cell_of("LRML", 2, options=given, searches=searches))
        models = [model for search in searches for model in candidates("LRML", 2, search)]
        for criterion in NAMES:
            scores, _, _ = brute_force(data, models, criterion, given)
            assert found[criterion].score == pytest.approx(max(scores), abs=1e-6)
            assert found[criterion].model.loss == models[int(np.argmax(scores))].loss


# What must not matter


@pytest.mark.parametrize(("method", "theta"), EVERY_METHOD)
def test_the_test_set_takes_no_part_in_the_choice(method: str, theta: int | None, data: TrainTest) -> None:
    cell = cell_of(method, theta, options=options("auto"))
    honest = run_model(data, cell)
    noise = np.random.default_rng(0).normal(size=data.X_test.shape)
    corrupted = run_model(data._replace(X_test=noise, Y_test=1 - data.Y_test), cell)
    assert corrupted["chosen"] == honest["chosen"]
    assert corrupted["metrics"]["precision_at_1"] != honest["metrics"]["precision_at_1"]


# theta


def test_at_equal_rank_the_best_of_those_with_a_low_rank_is_taken(data: TrainTest) -> None:
    search = {"alphas": [0.5, 4.0, 100.0, 300.0], "ridges": [0.0, 10.0]} | TIGHT
    cell = cell_of("LRML", 3, searches=[search], theta_shares=[0.5, 1.0])
    cell["criteria"] = {"precision_at_1": "label_ranking_average_precision"}
    models = [model for theta in (2, 3) for model in candidates("LRML", theta, search)]
    scores, _, _ = brute_force(data, models, "label_ranking_average_precision", options())
    within = [found for found, model in zip(scores, models, strict=True) if model.rank_ <= 3]
    assert max(scores) > max(within) > min(within)  # otherwise the limit would not matter, or all of them do
    chosen = run_equal_rank(data, cell)["chosen"]["label_ranking_average_precision"]
    assert chosen["validation_score"] == pytest.approx(max(within), abs=1e-9)


def test_alpha_is_raised_until_the_rank_fits(data: TrainTest) -> None:
    """The only candidate has full rank: at theta = 1, alpha must grow until the tail is empty."""
    cell = cell_of("LRML", 2, searches=[{"alphas": [1.0], "ridges": [0.0]}], theta_shares=[0.5])
    cell["criteria"] = {"precision_at_1": "label_ranking_average_precision"}
    assert LRML(theta=1, alpha=1.0).fit(data.X, data.Y).rank_ > 2
    chosen = run_equal_rank(data, cell)["chosen"]["label_ranking_average_precision"]
    steps = np.log(chosen["alpha"]) / np.log(1.25)
    assert chosen["model_rank"] <= 2
    assert steps > 0
    assert steps == pytest.approx(round(steps))
    assert LRML(theta=1, alpha=chosen["alpha"] / 1.25).fit(data.X, data.Y).rank_ > 2


def test_a_rank_that_cannot_be_met_is_an_error(data: TrainTest) -> None:
    cell = cell_of("LRML", 2, searches=[{"alphas": [1e-6], "ridges": [0.0]}], theta_shares=[0.5])
    with pytest.raises(ValueError, match=r" 2 .*from 1e-06 to 0\.0075"):
        run_equal_rank(data, cell)
