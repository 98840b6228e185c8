"""A method at one theta: chosen on validation rows, fitted on the training set, judged on the test set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from lrml import CPLSTCV, LEMLCV, LRMLCV, MLFroCV, MLTraceCV
from lrml.experiments._features import Arena
from lrml.losses import LOSSES
from lrml.metrics import evaluate
from lrml.theory import printed_local_bound
from lrml.thresholds import best_threshold

_SEARCHES = {"LRML": LRMLCV, "LEML": LEMLCV, "CPLST": CPLSTCV, "MLTrace": MLTraceCV, "MLFro": MLFroCV}
_RANK_PARAMETER = {"LRML": "thetas", "LEML": "ranks", "CPLST": "ranks"}
# Largest step by which alpha grows until a model fits into a rank; small, so that it is not cut too short.
_ALPHA_STEP, _MOST_STEPS = 1.25, 40


class Choice(NamedTuple):
    """A model chosen by one criterion."""

    score: float
    model: Any
    seconds: float


def hamming_at_best_cut(Y: Any, scores: Any) -> float:
    """Minus the least Hamming loss that a single cut of the scores can have."""
    return -best_threshold(Y, scores, "hamming_loss").value


def search_all(
    arena: Arena,
    method: str,
    theta: int | None,
    options: Mapping[str, Any],
    searches: Iterable[Mapping[str, Any]],
    criteria: Sequence[str],
) -> dict[str, Choice]:
    """Run every search of a method; return, for every criterion, the model that is best on validation rows.

    Parameters
    ----------
    arena : Arena
    method : str
    theta : int or None
        Of LRML, or the rank of LEML and CPLST.
    options : mapping
        seed, held_out, fit_intercept and threshold.
    searches : iterable of mapping
        Parameters of the method's ``…CV`` estimator.
    criteria : sequence of str
        Metrics of `lrml.metrics`; with threshold "auto" the Hamming loss is that at the best cut.
    """
    best: dict[str, Choice] = {}
    for parameters in searches:
        search = _search(method, theta, options, parameters, criteria, arena)
        search.fit(arena.X, arena.Y)
        for name, (key, model) in zip(criteria, search.best_estimators_.items(), strict=True):
            score = float(search.cv_results_[f"mean_test_{key}"][search.best_indices_[key]])
            if name not in best or score > best[name].score:
                best[name] = Choice(score, model, search.refit_time_)
    return best


def _search(
    method: str,
    theta: int | None,
    options: Mapping[str, Any],
    parameters: Mapping[str, Any],
    criteria: Sequence[str],
    arena: Arena,
) -> Any:
    given = dict(parameters)
    if method in _RANK_PARAMETER:
        given[_RANK_PARAMETER[method]] = [theta]
    if method == "LRML" and theta == min(arena.X.shape[1], arena.Y.shape[1]):
        # No singular value is in the tail, so that alpha does not matter.
        given |= {"alphas": [1.0]}
    if method != "CPLST":  # which centres by definition
        given["fit_intercept"] = options["fit_intercept"]
    cut = options["threshold"]
    scoring = [hamming_at_best_cut if c == "hamming_loss" and cut == "auto" else c for c in criteria]
    return _SEARCHES[method](
        **given,
        cv=options["held_out"],
        random_state=options["seed"],
        scoring=scoring,
        threshold=cut,
        threshold_scoring="hamming_loss",
    )


def run_model(arena: Arena, payload: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Compute a cell: test metrics, what was chosen, and the values per test example."""
    criteria = payload["criteria"]
    start = perf_counter()
    choices = search_all(
        arena,
        payload["method"],
        payload["theta"],
        payload["options"],
        payload["searches"],
        list(dict.fromkeys(criteria.values())),
    )
    return _judged(arena, criteria, choices, perf_counter() - start)


def run_equal_rank(arena: Arena, payload: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Compute a cell of LRML whose rank is at most ``theta``; LRML's own theta is a share of that.

    The candidates are those whose rank on the training part is low enough. If the fit on all rows has a
    higher one, alpha is raised until it is not.
    """
    limit, start = payload["theta"], perf_counter()
    thetas = sorted({max(1, round(share * limit)) for share in payload["theta_shares"]})

    def within(results: Mapping[str, Any]) -> int:
        scores = np.where(results["mean_model_rank"] <= limit, results["mean_test_score"], -np.inf)
        return int(np.argmax(scores))

    options = payload["options"]
    search = LRMLCV(
        thetas=thetas,
        **payload["searches"][0],
        rule=within,
        cv=options["held_out"],
        random_state=options["seed"],
        fit_intercept=options["fit_intercept"],
    ).fit(arena.X, arena.Y)
    model = _within_rank(search.best_estimator_, limit, arena)
    choice = Choice(search.best_score_, model, search.refit_time_)
    return _judged(arena, payload["criteria"], {"average_precision": choice}, perf_counter() - start)


def _within_rank(model: Any, limit: int, arena: Arena) -> Any:
    """Raise alpha until the rank is low enough."""
    first = model.alpha
    for _ in range(_MOST_STEPS):
        if model.rank_ <= limit:
            return model
        model.set_params(alpha=model.alpha * _ALPHA_STEP).fit(arena.X, arena.Y)
    if model.rank_ > limit:
        raise ValueError(
            f"a model at equal rank must have a rank of at most {limit}, got {model.rank_} with alpha raised "
            f"from {first:g} to {model.alpha:g}. Give the search stronger alphas."
        )
    return model


def _judged(
    arena: Arena, criteria: Mapping[str, str], choices: Mapping[str, Choice], seconds: float
) -> tuple[dict[str, Any], dict[str, Any]]:
    evaluations = {
        name: evaluate(
            arena.Y_test, choice.model.decision_function(arena.X_test), threshold=_cut(choice.model)
        )
        for name, choice in choices.items()
    }
    result = {
        "metrics": {metric: evaluations[by][metric] for metric, by in criteria.items()},
        "chosen": {name: _description(choice, arena.Y.shape[0]) for name, choice in choices.items()},
        "fit_seconds": choices["average_precision"].seconds,
        "search_seconds": seconds,
    }
    values = {metric: _compact(evaluations[by].per_example[metric]) for metric, by in criteria.items()}
    return result, values


def _cut(model: Any) -> float:
    """Where the model cuts its scores: a chosen or given threshold, else that of its loss."""
    return float(LOSSES[model.loss_].threshold if model.threshold is None else model.threshold)


def _description(choice: Choice, n_examples: int) -> dict[str, Any]:
    model = choice.model
    names = ("loss", "theta", "alpha", "ridge", "rank")
    parameters = {name: getattr(model, name) for name in names if hasattr(model, name)}
    return parameters | {
        "theorem3": _theorem3(model, n_examples),
        "threshold": _cut(model),
        "model_rank": int(model.rank_),
        "validation_score": choice.score,
        "converged": bool(getattr(model, "converged_", True)),
    }


def _theorem3(model: Any, n_examples: int) -> float | None:
    """Return Theorem 3 as printed, for W scaled to Frobenius norm 1 and back; None without a theta."""
    theta = getattr(model, "theta_", None)
    sigma = np.asarray(model.singular_values_, dtype=np.float64)
    size = float(np.linalg.norm(sigma))
    if theta is None or size == 0.0:
        return None
    unit = sigma / size
    return size * printed_local_bound(unit, n_examples, float(np.linalg.norm(unit**2)), theta).value


def _compact(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float32]:
    return values.astype(np.float32)
