"""What a worker process computes for one cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from time import perf_counter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from sklearn.kernel_approximation import Nystroem
from sklearn.preprocessing import normalize

from lrml import estimators
from lrml.completion import complete
from lrml.core.losses import LOSSES
from lrml.core.moments import Statistics
from lrml.core.penalties import TailSum, TraceNorm
from lrml.core.quadratic import SpectralProblem
from lrml.datasets import Dataset, describe, fetch_mulan, load_yeast, mulan_entries, read_dataset
from lrml.estimators import LRML, LRMLCV, lrml_path
from lrml.metrics import evaluate
from lrml.paper._family import Output, run_family
from lrml.paper._plan import EMBEDDED, Cell
from lrml.paper._study import run_study
from lrml.solvers import Algorithm1, SolverResult, solve
from lrml.theory import printed_local_bound
from lrml.thresholds import Cut, best_threshold

_Array: TypeAlias = npt.NDArray[np.float64]

# What a specification says of the model itself.
_OF_MODEL = ("loss", "tol", "max_iter")
_RANK_PARAMETER = {"LRML": "thetas", "LEML": "ranks", "CPLST": "ranks"}
# Largest factor by which alpha grows until the rank is low enough; small, so that it is not overshot.
_ALPHA_STEP, _MOST_STEPS = 1.25, 40
_OBJECTIVE_DIGITS = 10  # beyond them machines differ in the order of their sums
_COMPLETION_TOL = 1e-10
# A smooth minimum is known only to the square root of machine precision; more digits would be noise.
_MINIMISER_DECIMALS = 6


def work(cell: Cell, device: str | None = None) -> Output:
    """Compute one cell of a plan: values that JSON can hold, and arrays.

    Of a model: test metrics, what was chosen, and the metrics per test example. Of the other kinds: the
    statistics of a dataset, the curves of Figure 3, the minima and surfaces of Figure 1. What is large, and
    of all members of the family, is computed on the ``device``.

    Examples
    --------
    >>> values, arrays = work({"kind": "statistics", "dataset": "yeast"})
    >>> values["labels"], arrays
    (14, {})
    """
    kind = cell["kind"]
    if kind == "completion":
        return _completion(cell)
    if kind == "statistics":
        return dict(describe(load_dataset(cell["dataset"]))), {}
    if kind == "convergence":
        return _convergence(load_dataset(cell["dataset"]), cell), {}
    if kind == "study":
        return run_study(load_dataset(cell["dataset"]) if cell["part"] == "labels" else None, cell, device)
    if kind == "family":
        return run_family(prepare(cell["dataset"], cell["normalise"]), cell, device)
    features, kernel = cell["features"], cell["features"]["kernel"] or {}
    data = prepare(cell["dataset"], features["normalise"], **kernel, seed=cell["seed"] if kernel else None)
    return run_model(data, cell) if kind == "models" else run_equal_rank(data, cell)


# Features and labels


class TrainTest(NamedTuple):
    """Training and test set, features prepared."""

    X: Any
    Y: Any
    X_test: Any
    Y_test: Any


@lru_cache(maxsize=1)
def load_dataset(name: str) -> Dataset:
    """Return a dataset; yeast is always available."""
    if name == EMBEDDED:
        return load_yeast()
    found: Dataset = fetch_mulan(name, download=False) if name in mulan_entries() else read_dataset(name)
    return found


@lru_cache(maxsize=1)
def prepare(
    name: str,
    normalise: bool,
    gamma: float | None = None,
    n_components: int | None = None,
    seed: int | None = None,
) -> TrainTest:
    """Make the features of a protocol; the last ones are kept for the next cell.

    With a gamma they are Nystroem features of the kernel exp(−gamma ‖x − x'‖²). Which rows these are based on
    depends on no label, and on no test row.
    """
    dataset = load_dataset(name)
    (X, Y), (X_test, Y_test) = dataset.train, dataset.test
    if normalise:
        X, X_test = normalize(X), normalize(X_test)
    if gamma is not None:
        features = Nystroem(gamma=gamma, n_components=n_components, random_state=seed).fit(X)
        X, X_test = (np.ascontiguousarray(features.transform(part)) for part in (X, X_test))
    return TrainTest(X, Y, X_test, Y_test)


# A method at one theta: chosen on validation rows, fitted on the training set, judged on the test set


class Choice(NamedTuple):
    """A model chosen by one criterion."""

    score: float
    model: Any
    seconds: float


def run_model(data: TrainTest, cell: Cell) -> Output:
    """Choose a model by every criterion of the cell, and judge it by the metrics of the criterion."""
    start = perf_counter()
    choices = search_all(data, cell)
    return _judged(data, cell["criteria"], choices, perf_counter() - start)


def search_all(data: TrainTest, cell: Cell) -> dict[str, Choice]:
    """Run every search of a method; return, for every criterion, the model that is best on validation rows.

    With the threshold "auto" the Hamming loss is that at the best cut.
    """
    criteria = list(dict.fromkeys(cell["criteria"].values()))
    best: dict[str, Choice] = {}
    for search in _searches(data, cell, criteria):
        search.fit(data.X, data.Y)
        for name, (key, model) in zip(criteria, search.best_estimators_.items(), strict=True):
            score = float(search.cv_results_[f"mean_test_{key}"][search.best_indices_[key]])
            if name not in best or score > best[name].score:
                best[name] = Choice(score, model, search.refit_time_)
    return best


def _searches(data: TrainTest, cell: Cell, criteria: Sequence[str]) -> Iterator[Any]:
    """Yield the searches of a method, one for each ridge where the grid of alphas depends on it."""
    method, theta, options = cell["method"], cell["theta"], cell["options"]
    cut = options["threshold"]
    model = {"threshold": Cut("hamming_loss") if cut == "auto" else cut}
    if method != "CPLST":  # which centres by definition
        model["fit_intercept"] = options["fit_intercept"]
    scoring = [_hamming_at_best_cut if c == "hamming_loss" and cut == "auto" else c for c in criteria]
    search, member = (getattr(estimators, name) for name in (f"{method}CV", method))
    for parameters in cell["searches"]:
        given = dict(parameters)
        if method in _RANK_PARAMETER:
            given[_RANK_PARAMETER[method]] = [theta]
        if method == "LRML" and theta == min(data.X.shape[1], data.Y.shape[1]):
            given |= {"alphas": [1.0]}  # no singular value is in the tail, so alpha does not matter
        own = model | _of_model(parameters)
        for grid in _grids(data, given, theta if method == "LRML" else 0, options["fit_intercept"]):
            yield search(
                member(**own),
                **grid,
                cv=options["held_out"],
                random_state=cell["seed"],
                scoring=scoring,
            )


def _of_model(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in _OF_MODEL if name in given}


def _grids(
    data: TrainTest, given: Mapping[str, Any], theta: int, fit_intercept: bool
) -> Iterator[dict[str, Any]]:
    """Yield the same parameters with alphas in place of their number and ratio, for each ridge apart."""
    others = ("n_alphas", "alpha_ratio", *_OF_MODEL)
    rest = {name: value for name, value in given.items() if name not in others}
    if "alphas" in rest or "n_alphas" not in given:
        yield rest
        return
    centred = LRML(fit_intercept=fit_intercept)
    for ridge in rest.pop("ridges", [0.0]):
        most = lrml_path(data.X, data.Y, theta, ridges=ridge, n_alphas=1, estimator=centred)[0].alpha
        alphas = np.geomspace(most, given["alpha_ratio"] * most, given["n_alphas"])
        yield {**rest, "alphas": alphas.tolist(), "ridges": [ridge]}


def _hamming_at_best_cut(Y: Any, scores: Any) -> float:
    """Minus the least Hamming loss of a single cut of the scores."""
    return -best_threshold(Y, scores, "hamming_loss").value


def run_equal_rank(data: TrainTest, cell: Cell) -> Output:
    """Choose an LRML whose rank is at most ``theta``; LRML's own theta is a share of that.

    The candidates are those whose rank on the training part is low enough. If the fit on all rows has a
    higher one, alpha is raised until it is not.
    """
    limit, options, start = cell["theta"], cell["options"], perf_counter()
    given, best = cell["searches"][0], None
    own = {"fit_intercept": options["fit_intercept"]} | _of_model(given)
    shares = {max(1, round(share * limit)) for share in cell["theta_shares"]}
    for theta in sorted(shares):
        for grid in _grids(data, given, theta, options["fit_intercept"]):
            search = LRMLCV(
                LRML(**own), thetas=[theta], **grid, cv=options["held_out"], random_state=cell["seed"]
            ).fit(data.X, data.Y)
            results = search.cv_results_
            scores = np.where(results["mean_model_rank"] <= limit, results["mean_test_score"], -np.inf)
            place = int(np.argmax(scores))
            if best is None or scores[place] > best[0]:
                best = float(scores[place]), results["params"][place]
    assert best is not None
    began = perf_counter()
    model = LRML(**own, **best[1]).fit(data.X, data.Y)
    seconds = perf_counter() - began
    choice = Choice(best[0], _within_rank(model, limit, data), seconds)
    return _judged(
        data, cell["criteria"], {"label_ranking_average_precision": choice}, perf_counter() - start
    )


def _within_rank(model: Any, limit: int, data: TrainTest) -> Any:
    """Raise alpha until the rank is low enough."""
    first = model.alpha
    for _ in range(_MOST_STEPS):
        if model.rank_ <= limit:
            return model
        model.set_params(alpha=model.alpha * _ALPHA_STEP).fit(data.X, data.Y)
    raise ValueError(
        f"At equal rank {limit} is the largest rank allowed, but with alpha raised from {first:g} to "
        f"{model.alpha:g} it is {model.rank_}. Give the search stronger alphas."
    )


def _judged(
    data: TrainTest, criteria: Mapping[str, str], choices: Mapping[str, Choice], seconds: float
) -> Output:
    judged = {
        name: evaluate(data.Y_test, choice.model.decision_function(data.X_test), threshold=_cut(choice.model))
        for name, choice in choices.items()
    }
    result = {
        "metrics": {metric: judged[by][metric] for metric, by in criteria.items()},
        "chosen": {name: _description(choice, data.Y.shape[0]) for name, choice in choices.items()},
        "fit_seconds": choices["label_ranking_average_precision"].seconds,
        "search_seconds": seconds,
    }
    per_example = {
        metric: judged[by].per_example[metric].astype(np.float32) for metric, by in criteria.items()
    }
    return result, per_example


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


# Figure 3: how fast the objective falls, for Algorithm 1 of the paper and for the default solver


def _convergence(dataset: Dataset, cell: Cell) -> dict[str, Any]:
    """Run both methods on the training set, raw and without intercept as in the paper.

    A curve has the objective after every iteration (the first is that of the starting point), the residual
    of the point returned, and the iteration at which the default tolerance would have stopped the run (None
    for Algorithm 1, which has none).
    """
    moments = Statistics.from_arrays(*dataset.train).moments(fit_intercept=False)
    problem = SpectralProblem.from_moments(moments)
    penalty = TailSum(cell["theta"], cell["alpha"])
    usual = solve(problem, penalty, max_iter=cell["max_iter"])
    tight = solve(problem, penalty, max_iter=cell["max_iter"], tol=cell["tol"])
    curves = [_curve("default solver", tight, stop=usual.n_iter)]
    for gamma in cell["gammas"]:
        result = solve(problem, penalty, solver=Algorithm1(gamma=gamma), max_iter=cell["steps"])
        curves.append(_curve(f"Algorithm 1, gamma = {gamma:g}", result, stop=None))
    return {"curves": curves}


def _curve(method: str, result: SolverResult, stop: int | None) -> dict[str, Any]:
    values = result.history.as_dict()["objective"]
    objective = [float(f"{value:.{_OBJECTIVE_DIGITS}g}") for value in values]
    return {"method": method, "objective": objective, "residual": result.residual, "stop": stop}


# Figure 1: trace norm and tail sum of all completions of a small matrix


def _completion(cell: Cell) -> Output:
    """Complete a matrix with two unknown entries under both norms, and compute its singular values on a grid.

    Each norm has its minimum: entries, singular values and value.
    """
    matrix = np.array(cell["matrix"], dtype=np.float64)  # None becomes nan
    minima = {}
    for name, penalty in {"trace_norm": TraceNorm(1.0), "tail_sum": TailSum(cell["theta"], 1.0)}.items():
        found = complete(matrix, penalty, exact=True, tol=_COMPLETION_TOL)
        entries = np.round(found.values(*np.nonzero(np.isnan(matrix))), _MINIMISER_DECIMALS)
        sigma = _singular_values(matrix, *entries)
        minima[name] = {
            "entries": entries.tolist(),
            "singular_values": np.round(sigma, _MINIMISER_DECIMALS).tolist(),
            "value": round(found.objective, _MINIMISER_DECIMALS),
        }
    axis = np.linspace(cell["lowest"], cell["highest"], cell["points"])
    grid = _singular_values(matrix, *np.meshgrid(axis, axis))
    return {"minima": minima}, {"axis": axis, "singular_values": grid}


def _singular_values(matrix: _Array, first: npt.ArrayLike, second: npt.ArrayLike) -> _Array:
    """Singular values, descending, of a matrix whose two nan entries are replaced by all pairs given."""
    pairs = np.stack(np.broadcast_arrays(first, second), axis=-1)
    stack = np.broadcast_to(matrix, pairs.shape[:-1] + matrix.shape).copy()
    stack[..., np.isnan(matrix)] = pairs
    values: _Array = np.linalg.svd(stack, compute_uv=False).astype(np.float64, copy=False)
    return values
