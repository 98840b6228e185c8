"""The data of the study, condition by condition, and the methods that are no least squares.

Rows, hidden labels, noise and the choice of labels are drawn from the seed of a cell; the test rows of labels
are always Mulan's. Of real targets a third of the rows is held out anew by each seed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.preprocessing import StandardScaler, normalize

from lrml.core.arrays import dense, is_sparse, to_numpy
from lrml.datasets import Dataset, fetch_multi_target
from lrml.estimators import LRML
from lrml.paper._family import RANKING, WORTH_A_DEVICE, Output, by_row, folds_of, run_family

_HELD_OUT = 3  # of real targets, one of so many rows
_LEADING = 0.05  # theta of the logistic loss, as a share of the labels


def run_study(dataset: Dataset | None, cell: Mapping[str, Any], device: str | None) -> Output:
    """Compute one condition with one seed: all members of the family, and the logistic loss."""
    parts = _PARTS[cell["part"]](dataset, cell, np.random.default_rng([cell["seed"], *_digits(cell)]))
    values, arrays = run_family(parts, cell, device)
    if cell["logistic"]:
        found = _logistic(parts, cell, device)
        for method, (scores, chosen) in found.items():
            rows = by_row(dense(parts[3]), scores, [RANKING])[RANKING]
            own = {"method": method, "space": "coefficients", "theta": None, "arrays": {RANKING: method}}
            metrics = {RANKING: float(np.nanmean(rows))}
            values["members"].append(own | {"metrics": metrics, "chosen": {RANKING: chosen}})
            arrays[method] = rows.astype(np.float32)
    values["shape"] = [*parts[0].shape, parts[1].shape[1]]
    return values, arrays


def _digits(cell: Mapping[str, Any]) -> list[int]:
    """Return what makes the draws of two conditions differ."""
    return [*cell["dataset"].encode(), *cell["axis"].encode(), round(1e4 * float(np.sum(cell["level"])))]


# The data


def _labels(dataset: Dataset, cell: Mapping[str, Any], random: np.random.Generator) -> tuple[Any, ...]:
    (X, Y), (X_test, Y_test), level = dataset.train, dataset.test, cell["level"]
    Y, Y_test = dense(Y).astype(np.int8), dense(Y_test).astype(np.int8)
    if cell["axis"] == "rows":
        rows = random.permutation(X.shape[0])[: round(level * X.shape[0])]
        X, Y = X[rows], Y[rows]
    elif cell["axis"] == "labels":
        some = np.sort(random.permutation(Y.shape[1])[: max(1, round(level * Y.shape[1]))])
        Y, Y_test = Y[:, some], Y_test[:, some]
    else:  # some labels are hidden, or move elsewhere
        row, column = np.nonzero(Y)
        gone = random.random(len(row)) < level
        Y = Y.copy()
        Y[row[gone], column[gone]] = 0
        if cell["axis"] == "noise":
            Y[row[gone], random.integers(Y.shape[1], size=int(gone.sum()))] = 1
    return normalize(X), Y, normalize(X_test), Y_test


def _targets(_: Any, cell: Mapping[str, Any], random: np.random.Generator) -> tuple[Any, ...]:
    """Impute features by medians of the training rows, and standardise all by these rows."""
    X, Y = fetch_multi_target(cell["dataset"], download=False)
    order = random.permutation(len(X))
    test, train = np.split(order, [len(X) // _HELD_OUT])
    train = train[: round(cell["level"] * len(train))]
    X = np.where(np.isnan(X), np.nan_to_num(np.nanmedian(X[train], axis=0)), X)
    X, Y = (StandardScaler().fit(part[train]).transform(part) for part in (X, Y))
    return X[train], Y[train], X[test], Y[test]


def _planted(_: Any, cell: Mapping[str, Any], random: np.random.Generator) -> tuple[Any, ...]:
    how, axis, level = cell["planted"], cell["axis"], cell["level"]
    n_rows, rank = level if axis == "phase" else (how["n_rows"], level)
    d, n_targets = how["n_features"], how["n_targets"]
    if axis == "decay":
        U, V = (np.linalg.qr(random.standard_normal((size, min(d, n_targets))))[0] for size in (d, n_targets))
        W = (U * np.arange(1.0, min(d, n_targets) + 1.0) ** -rank) @ V.T
    else:
        W = random.standard_normal((d, rank)) @ random.standard_normal((rank, n_targets))
    W *= (how["signal"] / np.mean(np.sum(W**2, axis=0))) ** 0.5
    X, X_test = random.standard_normal((n_rows, d)), random.standard_normal((how["n_test"], d))
    return X, X @ W + random.standard_normal((n_rows, n_targets)), X_test, X_test @ W


_PARTS: dict[str, Any] = {"labels": _labels, "targets": _targets, "planted": _planted}


# The logistic loss


def _logistic(
    data: Sequence[Any], cell: Mapping[str, Any], device: str | None
) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Fit one logistic regression per label, and LRML with that loss, each as one fold chooses.

    Candidates are multiples of the default ridge and alpha.
    """
    X, Y, X_test, _ = data
    fit, held = folds_of(Y, cell["folds"], 1, cell["seed"], "binary")[0]
    work = float(X.shape[0]) * X.shape[1] * Y.shape[1]
    usual: dict[str, Any] = {"loss": "logistic", "tol": 1e-2, "max_iter": 100}
    if device and work > WORTH_A_DEVICE:
        usual["device"] = device
        X, X_test = (part.toarray() if is_sparse(part) else part for part in (X, X_test))
    theta = max(1, round(_LEADING * Y.shape[1]))
    first = LRML(theta=theta, **usual).fit(X[fit], Y[fit])
    ridges = [factor * float(first.ridge_) for factor in cell["logistic"]]
    tried = {"logistic": [LRML(theta=0, alpha=0.0, ridge=ridge, **usual) for ridge in ridges]}
    best: dict[str, tuple[Any, dict[str, Any]]] = {}
    for method in ("logistic", "LRML logistic"):
        if method not in tried:
            ridge, alphas = best["logistic"][1]["ridge"], (0.3 * float(first.alpha_), float(first.alpha_))
            tried[method] = [
                LRML(theta=free, alpha=alpha, ridge=ridge * share, **usual)
                for free, alpha, share in zip(
                    (theta, theta, 0, theta), (*alphas, alphas[1], alphas[0]), (1, 0.5, 0.5, 0.5), strict=True
                )
            ]
        scores = [
            float(np.nanmean(_ranked(model.fit(X[fit], Y[fit]), X[held], Y[held]))) for model in tried[method]
        ]
        winner = tried[method][int(np.argmax(scores))]
        chosen = {key: getattr(winner, key) for key in ("theta", "alpha", "ridge")}
        chosen |= {"validation_score": max(scores), "loss": "logistic"}
        model = clone(winner).fit(X, Y)
        best[method] = to_numpy(model.decision_function(X_test)), chosen | {"model_rank": int(model.rank_)}
    return best


def _ranked(model: Any, X: Any, Y: Any) -> Any:
    return by_row(Y, to_numpy(model.decision_function(X)), [RANKING])[RANKING]
