"""How the cases of the golden run are computed, and how far a result is from the recorded one.

Every function ``*_numbers`` returns a flat dict: a name and a number, or a list of numbers. `usage` says
which part of its tolerance each of them uses; above 1 it has moved too far.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

import lrml
from golden import cases
from golden.cases import Fit, Search
from lrml import completion, metrics, theory
from lrml.cli import main
from lrml.core.penalties import TailSum, TraceNorm
from lrml.datasets import TextDataset, load_yeast, make_tagged_texts, write_dataset
from lrml.thresholds import best_threshold

Numbers = dict[str, Any]
N_TEST = 20
# How many entries of a matrix of scores are kept, and how many rows of its best labels.
N_ENTRIES, N_TOP_ROWS, TOP_K = 20, 3, 3


class Sample(NamedTuple):
    """What a fit gets, and rows to score."""

    X: Any
    Y: Any
    weight: Any
    observed: Any
    X_test: Any


@cache
def sample(name: str) -> Sample:
    """Make the data set of a case; the same numbers on every machine."""
    data = cases.DATA[name]
    if data.kind == "yeast":
        yeast = load_yeast()
        return Sample(*yeast.train, None, None, yeast.test[0][:N_TEST])
    n, d, n_labels = data.sizes
    rng = np.random.default_rng([n, d, n_labels])
    rows = n + N_TEST
    X, Y = _texts(rng, rows, d, n_labels) if data.kind == "text" else _numbers(rng, rows, d, n_labels)
    if data.unseen:
        Y[:, -1] = 0.0
    weight = rng.uniform(0.5, 2.0, n) if data.weighted else None
    observed = None
    Y = Y[:n]
    if data.unknown is not None:
        known = rng.random((n, n_labels)) > 0.2
        if data.unknown == "nan":
            Y = np.where(known, Y, np.nan)
        else:
            observed = known
    X = X.astype(data.dtype)
    if data.sparse and not sp.issparse(X):
        X = sp.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    return Sample(X[:n], Y, weight, observed, X[n:])


def _numbers(rng: np.random.Generator, rows: int, d: int, n_labels: int) -> tuple[Any, Any]:
    X = rng.normal(size=(rows, d)) * rng.uniform(0.5, 2.0, d) + rng.normal(size=d)
    shared = rng.normal(size=(d, 3)) @ rng.normal(size=(3, n_labels))
    scores = X @ shared / np.sqrt(d) + rng.normal(size=(rows, n_labels))
    return X, (scores > np.quantile(scores, 0.7, axis=0)).astype(np.float64)


def _texts(rng: np.random.Generator, rows: int, d: int, n_labels: int) -> tuple[Any, Any]:
    """Rows of unit length with about 40 of d words, and one to three topics, each of which has its words."""
    common = 1.0 / np.arange(1, d + 1)
    own = np.stack([common[rng.permutation(d)] for _ in range(n_labels)])
    X, Y = np.zeros((rows, d)), np.zeros((rows, n_labels))
    for row in range(rows):
        topics = rng.choice(n_labels, size=rng.integers(1, 4), replace=False)
        Y[row, topics] = 1.0
        chances = common + own[topics].sum(axis=0)
        words = rng.choice(d, size=40, p=chances / chances.sum())
        X[row] = np.sqrt(np.bincount(words, minlength=d))
    return sp.csr_array(X / np.linalg.norm(X, axis=1, keepdims=True)), Y


# Fits and searches -----------------------------------------------------------------------------------------


def _blocks(data: Sample) -> list[tuple[Any, ...]]:
    """Cut a data set into three blocks; unknown labels are NaN there."""
    Y = data.Y if data.observed is None else np.where(data.observed, data.Y, np.nan)
    n = data.X.shape[0]
    cuts = [slice(0, n // 4), slice(n // 4, n // 2), slice(n // 2, n)]
    whole = (data.X, Y) if data.weight is None else (data.X, Y, data.weight)
    return [tuple(part[cut] for part in whole) for cut in cuts]


def fitted(case: Fit | Search) -> Any:
    """Fit the model of a case by its road."""
    data = sample(case.data)
    model = cases.estimator(case.model, case.parameters)
    road = case.road if isinstance(case, Fit) else "fit"
    if road == "blocks":
        return model.fit_blocks(lambda: iter(_blocks(data)))
    if road == "partial":
        for block in _blocks(data):
            model.partial_fit(*block)
        return model
    keywords = {} if data.observed is None else {"observed": data.observed}
    if data.weight is not None:
        keywords["sample_weight"] = data.weight
    return model.fit(data.X, data.Y, **keywords)


def _scores_numbers(S: Any) -> Numbers:
    S = np.asarray(S, dtype=np.float64)
    places = np.linspace(0, S.size - 1, N_ENTRIES).astype(int)
    return {
        "scores": S.ravel()[places],
        "scores mean": S.mean(),
        "scores mean square": np.sqrt((S**2).mean()),
        "scores largest": np.abs(S).max(),
    }


def _cut_numbers(model: Any, X: Any, S: Any, limit: float) -> Numbers:
    """Count the predicted labels, and name the best ones where a change within limits cannot alter them."""
    S = np.asarray(S, dtype=np.float64)
    margin = limit * np.abs(S).max()
    cut = getattr(model, "threshold_", 0.5 if model.loss_ == "squared" else 0.0)
    predicted = model.predict(X)
    top = model.predict_top_k(X[:N_TOP_ROWS], TOP_K)
    best = -np.sort(-S[:N_TOP_ROWS], axis=1)[:, : TOP_K + 1]
    clear = np.diff(best, axis=1) < -2 * margin
    clear[:, 1:] &= clear[:, :-1].copy()
    return {
        "predicted": [
            int(np.count_nonzero(S - margin >= cut)),
            int(predicted.sum()),
            int(np.count_nonzero(S + margin >= cut)),
        ],
        "top labels": np.where(clear, np.asarray(top.labels), -1).ravel(),
        "top scores": np.asarray(top.scores, dtype=np.float64).ravel(),
    }


def _strengths(model: Any) -> Numbers:
    found = {name: getattr(model, f"{name}_", None) for name in ("theta", "alpha", "ridge")}
    return {name: value for name, value in found.items() if value is not None}


def fit_numbers(case: Fit) -> Numbers:
    """Objective, spectrum and scores of a fit."""
    data = sample(case.data)
    if case.road == "leave one out":
        S = cases.estimator(case.model, case.parameters)
        S = S.fit(data.X, data.Y).leave_one_out_scores(data.X, data.Y)
        return _scores_numbers(S[:N_TEST])
    model = fitted(case)
    S = model.decision_function(data.X_test)
    numbers = _strengths(model) | {
        "objective": model.objective_,
        "converged": model.converged_,
        "rank": model.rank_,
        "singular values": model.singular_values_[:5],
    }
    if isinstance(case.parameters.get("threshold"), str | tuple):
        numbers["cuts"] = np.ravel(model.threshold_)[:5]
    return numbers | _scores_numbers(S) | _cut_numbers(model, data.X_test, S, case.limits[1])


def search_numbers(case: Search) -> Numbers:
    """What a search chooses, how it judges a few candidates, and the scores of its model."""
    search = fitted(case)
    means = np.asarray(search.cv_results_["mean_test_score"], dtype=np.float64)
    seen = np.flatnonzero(np.isfinite(means))
    chosen = {f"best {name}": value for name, value in search.best_params_.items()}
    some = seen[np.linspace(0, len(seen) - 1, 5).astype(int)]
    numbers = chosen | {"best score": search.best_score_, "n candidates": len(means), "means": means[some]}
    return numbers | _scores_numbers(search.decision_function(sample(case.data).X_test))


def path_numbers() -> Numbers:
    """Objectives, spectra and scores along a path."""
    data = sample("tall")
    exactly = lrml.LRML(tol=1e-12, max_iter=5_000)
    path = lrml.lrml_path(data.X, data.Y, **cases.PATH, estimator=exactly)
    numbers: Numbers = {
        "objectives": [model.objective_ for model in path],
        "leading values": [model.singular_values_[0] for model in path],
        "strengths": [value for model in path for value in (model.theta, model.alpha, model.ridge)],
    }
    for number in (1, 8):
        scores = _scores_numbers(path[number].decision_function(data.X_test))
        numbers |= {f"{name} of {number}": value for name, value in scores.items()}
    return numbers


# What is not a fit -----------------------------------------------------------------------------------------


@cache
def _judged() -> tuple[Any, Any]:
    rng = np.random.default_rng(7)
    Y = (rng.random((150, 12)) < rng.uniform(0.05, 0.5, 12)).astype(np.float64)
    S = np.round(0.4 * Y + rng.random(Y.shape), 2)  # two digits: there are ties
    return Y, S


def metric_numbers() -> Numbers:
    """All metrics on fixed labels and scores, with ties."""
    Y, S = _judged()
    numbers: Numbers = dict(metrics.evaluate(Y, S, ks=(1, 3, 5), threshold=0.7))
    propensities = metrics.label_propensities(Y)
    numbers |= {f"propensity precision at {k}": _propensity(Y, S, k, propensities) for k in (1, 3)}
    return numbers | {"propensities": propensities}


def _propensity(Y: Any, S: Any, k: int, propensities: Any) -> float:
    return metrics.propensity_scored_precision_at_k(Y, S, k, propensities)


def threshold_numbers() -> Numbers:
    """The best cuts of fixed scores, by metric, for all labels together and for each."""
    Y, S = _judged()
    numbers: Numbers = {}
    for metric, per_label in cases.THRESHOLDS:
        found = best_threshold(Y, S, metric, per_label=per_label)
        name = f"{metric}{' per label' if per_label else ''}"
        numbers |= {f"cut of {name}": np.ravel(found.cut), f"value of {name}": found.value}
    return numbers


def theory_numbers() -> Numbers:
    """Complexities and bounds on yeast."""
    X, Y = load_yeast().train
    n, n_labels = Y.shape
    eigenvalues = np.linalg.eigvalsh(X.T @ X / n)[::-1]
    drawn = theory.global_complexity(X, n_labels, n_draws=5, random_state=0)
    local = theory.local_complexity(X, n_labels, 0.01, theta=3, tail=1.0, n_draws=2, random_state=0)
    model = lrml.MLFro(2.0).fit(X, Y)
    report = theory.bound_report(model, X, theta=3, n_draws=3, n_local_draws=2, random_state=0)
    return {
        "global": theory.global_bound(eigenvalues, n, n_labels).value,
        "global, Frobenius": theory.global_bound(eigenvalues, n, n_labels, ball="frobenius").value,
        "local": theory.local_bound(eigenvalues, n, n_labels, 0.01).value,
        "local, tail": theory.local_bound(eigenvalues, n, n_labels, 0.01, theta=3, tail=1.0).value,
        "local, dual": theory.local_dual_bound(eigenvalues, n, n_labels, 0.01).value,
        "rate": theory.local_rate(eigenvalues, n, n_labels),
        "drawn": [drawn.mean, drawn.standard_error],
        "drawn, local": [local.lower.mean, local.upper.mean],
        "theorems": [theory.theorem1(0.1, n).value, theory.theorem2(0.1, n, 0.01).value],
    } | {f"report: {name}": value for name, value in report.facts.items() if np.isreal(value)}


def completion_numbers() -> Numbers:
    """Completed matrices: the paper's, noisy and exact, and a table with gaps."""
    paper = np.array([[2, 1, 2, 1], [1, 1, np.nan, 2], [1, 1, 2, np.nan]])
    exact_trace = completion.complete(paper, TraceNorm(1.0), exact=True, tol=1e-10)
    exact_tail = completion.complete(paper, TailSum(2, 1.0), exact=True, tol=1e-10)
    rng = np.random.default_rng(3)
    table = rng.normal(size=(40, 3)) @ rng.normal(size=(3, 15)) + 0.1 * rng.normal(size=(40, 15))
    table[rng.random(table.shape) < 0.3] = np.nan
    noisy = completion.complete(table, TailSum(2, 1.0), tol=1e-10, max_iter=10_000)
    convex = completion.complete(table, TraceNorm(1.0), tol=1e-10, max_iter=10_000)
    imputed = completion.LowRankImputer(2, 1.0, tol=1e-10, max_iter=10_000).fit_transform(table)
    chosen = completion.select_alpha(table, 1, n_alphas=5, tol=1e-8, max_iter=5_000, random_state=0)
    numbers: Numbers = {
        "exact, trace": exact_trace.values([1, 2], [2, 3]),
        "exact, tail": exact_tail.values([1, 2], [2, 3]),
        "noisy objective": noisy.objective,
        "convex objective": convex.objective,
        "noisy singular values": noisy.factors.s[:4],
        "convex singular values": convex.factors.s[:4],
        "chosen alpha": chosen.alpha,
        "errors": chosen.errors,
    }
    return numbers | {f"imputed {name}": value for name, value in _scores_numbers(imputed).items()}


def tagger_numbers(own: bool) -> Numbers:
    """A tagger on 40 short texts, with a given model or the one by default."""
    texts = make_tagged_texts(60, random_state=1)
    model = cases.estimator("MLFro", {"alpha": 0.5}) if own else None
    tagger = lrml.TextTagger(model).fit(texts.texts[:40], texts.tags[:40])
    return {
        "n tags": len(tagger.classes_),
        "n words": len(tagger.vectorizer_.vocabulary_),
        "n predicted": sum(map(len, tagger.predict(texts.texts[40:]))),
    } | _scores_numbers(tagger.decision_function(texts.texts[40:]))


# The command line ------------------------------------------------------------------------------------------


def _told(*arguments: Any) -> Any:
    """Run a command in this process; return the objects that it prints as JSON, one or a line each."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    if code:
        raise RuntimeError(f"lrml {arguments[0]} ended with {code}: {err.getvalue()}")
    return out.getvalue()


def _flat(name: str, value: Any) -> Numbers:
    """Name the numbers of nested JSON by their paths; words, and what a bootstrap draws, are left out."""
    if isinstance(value, dict):
        return {
            path: leaf
            for key in sorted(value.keys() - {"low", "high"})
            for path, leaf in _flat(f"{name} {key}", value[key]).items()
        }
    if isinstance(value, list):
        return {name: value} if value and isinstance(value[0], int | float) else {}
    return {name: value} if isinstance(value, int | float) else {}


def scenario_numbers(folder: Path) -> Numbers:
    """Learn tags from a file of texts, tune, judge, look inside and predict, each by one command."""
    texts = make_tagged_texts(160, random_state=0)
    old, new, model = folder / "old.csv", folder / "new.csv", folder / "model.lrml"
    write_dataset(TextDataset("old", texts.texts[:120], texts.tags[:120]), old)
    write_dataset(TextDataset("new", texts.texts[120:], texts.tags[120:]), new)
    (folder / "model.toml").write_text(cases.CONFIG)
    commands = {
        "fit": (old, "-o", model, "--config", folder / "model.toml"),
        "tune": (old, "-o", folder / "tuned.lrml"),
        "evaluate": (model, new, "--bootstrap", 20),
        "inspect": (model,),
    }
    numbers: Numbers = {}
    for command, arguments in commands.items():
        found = json.loads(_told(command, *arguments, "--json"))
        found = found.get("fitted", {}) | found
        for key in cases.SCENARIO[command]:
            numbers |= _flat(f"{command} {key}", found[key])
    rows = [json.loads(line) for line in _told("predict", model, new, "-k", 3, "--json").splitlines()[:5]]
    names = sorted({tag for row in rows for tag in row["tags"]})
    return numbers | {
        "predict tags": [names.index(tag) for row in rows for tag in row["tags"]],
        "predict scores": [score for row in rows for score in row["scores"]],
    }


def reproduce_numbers(folder: Path) -> dict[str, Numbers]:
    """The tables of ``lrml reproduce`` on yeast, one seed."""
    _told(
        "reproduce", "table2", "--datasets", "yeast", "--protocols", "paper,tuned", "--seeds", 1,
        "--jobs", 1, "--no-plots", "--quiet", "--out", folder,
    )  # fmt: skip
    tables: dict[str, Numbers] = {}
    for table, (keys, values) in cases.TABLES.items():
        with open(folder / f"tables/{table}.csv", encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
        tables[table] = {
            " ".join([*(row[key] for key in keys), value]): float(row[value])
            for row in rows
            for value in values
            if row[value]
        }
    return tables


# All of them -----------------------------------------------------------------------------------------------

PLAIN = {
    "path": path_numbers,
    "metrics": metric_numbers,
    "thresholds": threshold_numbers,
    "theory": theory_numbers,
    "completion": completion_numbers,
    "tagger, ML-Fro": lambda: tagger_numbers(own=True),
    "tagger, default": lambda: tagger_numbers(own=False),
}


def all_numbers(folder: Path, parts: Sequence[str] = ("",)) -> dict[str, Numbers]:
    """Compute every case whose name has one of the parts, as plain numbers with 12 digits."""
    work: dict[str, Callable[[], Numbers]] = {case.name: partial(fit_numbers, case) for case in cases.FITS}
    work |= {case.name: partial(search_numbers, case) for case in cases.SEARCHES}
    work |= PLAIN | {"command line": partial(scenario_numbers, folder)}
    tables = cache(partial(reproduce_numbers, folder / "tables"))
    work |= {f"reproduce {table}": lambda table=table: tables()[table] for table in cases.TABLES}
    return {name: rounded(compute()) for name, compute in work.items() if any(part in name for part in parts)}


def rounded(numbers: Numbers) -> Numbers:
    """Turn NumPy's numbers and arrays into plain ones with 12 digits, as JSON keeps them."""
    return {name: _plain(value) for name, value in numbers.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(entry) for entry in value]
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    return float(f"{float(value):.12g}")


def usage(name: str, found: Numbers, recorded: Numbers) -> dict[str, float]:
    """Return which part of its tolerance each number uses; infinity where it must be the same and is not."""
    missing = found.keys() ^ recorded.keys()
    case = _CASES.get(name)
    limits = cases.LIMITS[name.replace(",", " ").partition(" ")[0]] if case is None else case.limits
    return dict.fromkeys(missing, np.inf) | {
        key: _used(key, found[key], recorded, limits) for key in recorded if key not in missing
    }


_CASES: dict[str, Fit | Search] = {case.name: case for case in (*cases.FITS, *cases.SEARCHES)}
# Counts, choices and numbers of names: the same or not.
_SAME = ("converged", "theta", "best theta", "best rank", "n ", "top labels", "predict tags")
_STRENGTHS = ("alpha", "ridge", "strengths", "best alpha", "best ridge", "chosen alpha")
_STRENGTH_LIMIT = 1e-6
# Singular values say more than scores about directions in which X hardly varies.
_SPECTRUM = 10.0
# Smaller ones may or may not have reached zero.
_COUNTED = 1e-3


def _used(key: str, found: Any, recorded: Numbers, limits: tuple[float, float]) -> float:
    new, old = (np.ravel(np.asarray(value, dtype=np.float64)) for value in (found, recorded[key]))
    if new.shape != old.shape:
        return np.inf
    moved = np.abs(new - old)
    if key == "predicted":  # between the recorded counts at the two ends of the margin
        return 0.0 if old[0] <= new[1] <= old[2] else np.inf
    if key == "rank" and "singular values" in recorded:
        counted = np.count_nonzero(
            np.asarray(recorded["singular values"]) > _COUNTED * recorded["singular values"][0]
        )
        return 0.0 if counted <= new[0] <= old[0] + 1 else np.inf
    if key.startswith(_SAME):
        return 0.0 if not moved.any() else np.inf
    objective, scores = limits
    if key.startswith(_STRENGTHS):
        limit = _STRENGTH_LIMIT * np.abs(old)
    elif "objective" in key:
        limit = objective * np.abs(old)
    elif "values" in key:
        limit = _SPECTRUM * scores * np.abs(old).max()
    elif key in ("scores", "top scores", "cuts") or key.startswith("scores "):
        limit = (
            scores * recorded["scores largest"]
            if "scores largest" in recorded
            else scores * np.abs(old).max()
        )
    elif key in ("best score", "means"):  # measures between 0 and 1
        limit = scores
    else:
        limit = scores * np.maximum(np.abs(old).max(), 1e-3)
    return float(
        np.max(np.divide(moved, limit, out=np.where(moved > 0, np.inf, 0.0), where=np.asarray(limit) > 0))
    )
