"""All members on shared decompositions, against public estimators that are fitted one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import label_ranking_average_precision_score, mean_squared_error

from lrml import CPLST, LEML, LRML, MLTrace
from lrml.core.arrays import HOST
from lrml.paper._family import (
    _SOLVED,
    ERROR,
    RANKING,
    Candidate,
    Part,
    Trial,
    choose,
    folds_of,
    run_family,
    winners,
)

N, D, L = 60, 7, 5
HOW: dict[str, Any] = {"kernel": None, "place": HOST, "targets": "binary"}
FOLDS = [(np.arange(N) % 3 != fold, np.arange(N) % 3 == fold) for fold in range(3)]
FOLDS = [(np.flatnonzero(fit), np.flatnonzero(held)) for fit, held in FOLDS]


@pytest.fixture(scope="module")
def data() -> tuple[Any, ...]:
    """Rows and labels; every row has a label, and lacks one."""
    random = np.random.default_rng(3)
    X = random.standard_normal((N + 20, D))
    scores = X @ random.standard_normal((D, L)) + random.standard_normal((N + 20, L))
    Y = (scores > 0.3).astype(np.int8)
    Y[np.arange(N + 20), scores.argmax(1)], Y[np.arange(N + 20), scores.argmin(1)] = 1, 0
    return X[:N], Y[:N], X[N:], Y[N:]


MODELS = {
    Candidate("MLFro", None, 0.0, 2.0): Ridge(2.0),
    Candidate("CPLST", 2, 0.0, 2.0, "predictions"): CPLST(2, ridge=2.0),
    Candidate("LEML", 2, 3.0, 2.0): LEML(2, alpha=3.0, ridge=2.0, tol=1e-9),
    Candidate("MLTrace", None, 3.0, 0.5): MLTrace(3.0, ridge=0.5, space="coefficients", tol=1e-9),
    Candidate("MLTrace", None, 3.0, 0.5, "predictions"): MLTrace(3.0, ridge=0.5, space="predictions"),
    Candidate("LRML", 1, 3.0, 0.5, "predictions"): LRML(1, 3.0, ridge=0.5, space="predictions"),
}


def test_every_candidate_is_the_public_estimator(
    data: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(_SOLVED, "tol", 1e-9)  # a study needs less
    X, Y, judged, _ = data
    found: dict[Candidate, Any] = {}
    part = Part(X, Y, judged, **HOW | {"targets": "real"})  # in double precision
    part.visit(list(MODELS), lambda one, scores, rank: found.update({one: (np.array(scores), rank)}))
    for one, model in MODELS.items():
        fitted = model.fit(X, Y)
        own = fitted.predict(judged) if isinstance(model, Ridge) else fitted.decision_function(judged)
        np.testing.assert_allclose(found[one][0], own, atol=1e-4 if one.space == "coefficients" else 1e-8)
        assert found[one][1] == getattr(fitted, "rank_", min(D, L))


def test_a_trial_scores_held_out_rows_as_refits_do(data: tuple[Any, ...]) -> None:
    X, Y, *_ = data
    ridges = (0.1, 5.0, 100.0)
    trial = Trial(X, Y, FOLDS, [RANKING, ERROR], HOW)
    trial.judge(Candidate("MLFro", None, 0.0, ridge) for ridge in ridges)
    for ridge in ridges:
        scores = np.empty(Y.shape)
        for fit, held in FOLDS:
            scores[held] = Ridge(ridge).fit(X[fit], Y[fit]).predict(X[held])
        ranked, error = label_ranking_average_precision_score(Y, scores), mean_squared_error(Y, scores)
        one = Candidate("MLFro", None, 0.0, ridge)
        np.testing.assert_allclose(trial.found[one], [ranked, -error], rtol=1e-5)
        cuts = trial.cuts([one])[one]
        for label, cut in enumerate(cuts):  # no other cut has fewer errors
            tried = np.concatenate([[-np.inf], scores[:, label]])
            least = min(np.mean((scores[:, label] > other) != Y[:, label]) for other in tried)
            assert np.mean((scores[:, label] > cut) != Y[:, label]) == pytest.approx(least)


CELL: dict[str, Any] = {
    "seed": 0,
    "folds": 3,
    "judged": 3,
    "kernel": None,
    "means_only": False,
    "thetas": [1, 3],
    "spaces": ["predictions"],
    "criteria": {RANKING: RANKING, "hamming_loss": ERROR},
    "grid": {"ridges": [0.5, 5.0, 50.0], "steps": [0, 1], "predictions": [0.2, 0.8]},
}


def test_a_member_is_at_least_as_good_where_it_is_chosen_as_what_it_contains(data: tuple[Any, ...]) -> None:
    X, Y, judged, _ = data
    trial = Trial(X, Y, FOLDS, [RANKING, ERROR], HOW)
    choose(trial, Part(X, Y, judged, **HOW), CELL)
    found = winners(trial, CELL["spaces"], CELL["thetas"])
    for place, criterion in enumerate(trial.criteria):
        best = {key: trial.found[by[criterion]][place] for key, by in found.items()}
        for method, within in (("LRML", "MLFro"), ("MLTrace", "MLFro"), ("LEML", "CPLST")):
            assert best[method, "predictions", None] >= best[within, "predictions", None]
        for method in ("LRML", "LEML", "CPLST"):
            own = {theta: best[method, "predictions", theta] for theta in (None, 1, 3)}
            assert own[None] == max(own.values())


def test_a_cell_holds_the_test_values_of_what_was_chosen(data: tuple[Any, ...]) -> None:
    X, Y, X_test, Y_test = data
    values, arrays = run_family(data, CELL, None)
    ridge = next(one for one in values["members"] if one["method"] == "MLFro")
    chosen = ridge["chosen"][RANKING]["ridge"]
    scores = Ridge(chosen).fit(X, Y).predict(X_test)
    expected = label_ranking_average_precision_score(Y_test, scores)
    assert ridge["metrics"][RANKING] == pytest.approx(expected, rel=1e-5)
    assert arrays[ridge["arrays"][RANKING]].mean() == pytest.approx(expected, rel=1e-5)
    assert {(one["method"], one["theta"]) for one in values["members"] if one["theta"]} == {
        (method, theta) for method in ("LRML", "LEML", "CPLST") for theta in (1, 3)
    }


@pytest.mark.parametrize("targets", ["real", "binary"])
def test_folds_part_the_rows(data: tuple[Any, ...], targets: str) -> None:
    Y = data[1]
    pairs = folds_of(Y, 4, 4, 1, targets)
    held = np.concatenate([held for _, held in pairs])
    assert sorted(held) == list(range(N))
    assert all(sorted([*fit, *held]) == list(range(N)) for fit, held in pairs)
    assert len(folds_of(Y, 4, 1, 1, targets)) == 1
