"""The fitted model in a tagger, pipeline or search: what stands before it, what it predicts, what it is."""

from __future__ import annotations

import math
from copy import deepcopy
from itertools import chain
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from lrml._shown import counted, did_you_mean, shown
from lrml.core import Statistics
from lrml.core.arrays import at_home, is_sparse, to_host
from lrml.core.checks import check_integer
from lrml.core.losses import LOSSES
from lrml.estimators import predict_top_k

_PARAMS = ("theta", "rank", "alpha", "ridge", "loss", "kernel")  # what is told of a model


class Inner(NamedTuple):
    """A member of the family, and the fitted transformers before it, in their order; none is a pipeline."""

    model: Any
    steps: tuple[Any, ...]

    @property
    def reads_texts(self) -> bool:
        """Whether rows are texts: vectorizers are the transformers that count no columns."""
        return bool(self.steps) and not hasattr(self.steps[0], "n_features_in_")

    @property
    def feature_names(self) -> npt.NDArray[Any] | None:
        """What the features of the model are called; None if nobody knows."""
        names = None if self.steps else getattr(self.model, "feature_names_in_", None)
        try:
            for step in self.steps:
                names = step.get_feature_names_out(names)
        except (AttributeError, ValueError, NotFittedError):  # a step that does not know its names
            names = getattr(self.model, "feature_names_in_", None)
        return None if names is None else np.asarray(names)

    def unnamed(self) -> Self:
        """Return copies that take arrays without a warning about the names of features."""
        steps = deepcopy(self.steps)
        for step in steps:
            for part in (step, *step.get_params().values()):
                if hasattr(part, "transform"):
                    vars(part).pop("feature_names_in_", None)
        return self._replace(model=self.model._unnamed(), steps=steps)

    def features(self, rows: Any) -> Any:
        """Return what the model sees of some rows."""
        for step in self.steps:
            rows = step.transform(rows)
        return rows

    def contributions(self, X: Any, place: int, n: int | None) -> list[tuple[int, float]]:
        """Return the columns of a row, as the model sees it, that contribute most to the label in a place."""
        if hasattr(self.model, "kernel_"):
            raise ValueError(f"{shown(self.model)} adds up no features. Fit it with kernel='linear'.")
        n = None if n is None else check_integer("n", n)
        row = sp.csr_array(self.model._validated(X))
        found = row.data * self.model.fitted_.column(place)[row.indices]
        order = np.argsort(-np.abs(found), kind="stable")[:n]
        return [(int(row.indices[i]), float(found[i])) for i in order if found[i] != 0]


def inner_model(estimator: Any, caller: str) -> Inner:
    """Return what is inside pipelines, searches of scikit-learn and taggers, in any nesting.

    The model is a copy in NumPy arrays if it lives on a device.
    """
    inner = _inside(estimator, caller)
    return inner._replace(model=at_home(inner.model))


def _inside(estimator: Any, caller: str) -> Inner:
    """Return the same where the model lives."""
    inner, steps = estimator, list[Any]()
    if isinstance(inner, Statistics):
        raise NotFittedError(
            f"{caller} needs a model, got sums over {inner.n_rows:,d} rows. Fit one to them in Python, "
            "model = LRML().fit_statistics(lrml.load(FILE)), and pass it, or its file."
        )
    while "fitted_" not in (state := getattr(inner, "__dict__", {})):
        if isinstance(inner, Pipeline) and len(inner):
            steps += transformers_in(inner[:-1])
            inner = inner[-1]
        elif "model_" in state:
            steps += transformers_in(inner.vectorizer_)
            inner = inner.model_
        elif "best_estimator_" in state:
            inner = inner.best_estimator_
        elif type(inner).__module__.startswith("lrml."):
            raise NotFittedError(f"{caller} needs a fitted model, got {shown(inner)}. Call fit first.")
        else:
            raise TypeError(
                f"{caller} needs an estimator of lrml, or a pipeline or search that ends in one, got "
                f"{shown(estimator)}. Pass LRML(), for example, after fit."
            )
    return Inner(inner, tuple(steps))


def transformers_in(steps: Any) -> list[Any]:
    """Return the transformers of a pipeline, and of those inside it, without steps that do nothing."""
    if isinstance(steps, Pipeline):
        return list(chain.from_iterable(transformers_in(step) for _, step in steps.steps))
    return [] if steps is None or steps == "passthrough" else [steps]


def threshold_of(model: Any) -> Any:
    """Return the score from which on a model or tagger assigns a label; one number, or one per label."""
    inner = _inside(model, "threshold_of").model
    cut = at_home(inner._decision_threshold)
    return LOSSES[inner.loss_].threshold if cut is None else cut


class Prediction(NamedTuple):
    """The best labels of every row, best first, in arrays of shape (n, k)."""

    tags: npt.NDArray[Any]
    scores: npt.NDArray[Any]
    probabilities: npt.NDArray[Any] | None
    """If the model has any; calibrated ones have the labels in their order, not in that of the scores."""
    thresholds: npt.NDArray[Any]
    """Of these labels."""

    @property
    def assigned(self) -> npt.NDArray[np.bool_]:
        """Whether the score reaches the threshold: of all labels, those that ``predict`` gives."""
        found: npt.NDArray[np.bool_] = self.scores >= self.thresholds
        return found

    @classmethod
    def of(cls, estimator: Any, rows: Any, k: int | None = None, threshold: Any = None) -> Self:
        """Predict the k best labels by a model, a tagger, or a pipeline or search that ends in one.

        ``threshold``, a number or one for each label, takes the place of the model's own.
        """
        tags, scores = top = predict_top_k(estimator, rows, k)
        model = _inside(estimator, "Prediction").model
        fitted, probabilities = model.fitted_, None
        cut = np.asarray(threshold_of(model) if threshold is None else threshold)
        names = range(fitted.n_labels) if top.classes is None else top.classes
        places = {name: place for place, name in enumerate(names)}
        columns = np.vectorize(places.__getitem__, otypes=[np.intp])(tags)
        cuts = np.broadcast_to(cut[columns] if cut.ndim else cut, columns.shape)
        if fitted.has_probabilities:
            probabilities = fitted.probability(scores, columns)
        if fitted.calibration is not None and probabilities is not None:
            order = np.argsort(-probabilities, axis=1, kind="stable")
            parts = (tags, scores, probabilities, cuts)
            tags, scores, probabilities, cuts = (np.take_along_axis(part, order, axis=1) for part in parts)
        return cls(tags, scores, probabilities, cuts)


def explain(model: Any, row: Any, label: Any, n: int | None = 5) -> list[tuple[str, float]]:
    """Return features of one row and what they contribute to a label; negative ones speak against it.

    The score of the label is its intercept plus the contributions x_j W_jl of all features of the row, of
    which at most n are returned, the largest first; all if n is None.

    Parameters
    ----------
    model : estimator
        A fitted linear model or search of this library, a `TextTagger`, or a pipeline that ends in one.
    row : str, array of shape (d,) or (1, d), sparse matrix or frame with one row
        As ``predict`` takes it.
    label : object
        One of ``classes_``.
    n : int or None, default=5

    Examples
    --------
    >>> from lrml import MLFro
    >>> from lrml.datasets import load_yeast
    >>> X, Y = load_yeast().train
    >>> [(name, round(value, 3)) for name, value in explain(MLFro(1.0).fit(X, Y), X[0], 11, n=2)]
    [('44', -0.071), ('57', -0.046)]
    """
    inner = inner_model(model, "explain")
    if isinstance(row, str):
        rows: Any = [row]
    else:
        rows = to_host(row)
        rows = rows if is_sparse(rows) or hasattr(rows, "columns") else np.atleast_2d(rows)
        if rows.shape[0] != 1:
            raise ValueError(f"there are {rows.shape[0]} rows. Explain them one by one.")
    found = inner.contributions(inner.features(rows), place_of(inner.model, label), n)
    names = inner.feature_names
    return [(str(j if names is None else names[j]), value) for j, value in found]


def place_of(model: Any, label: Any) -> int:
    """Return the column of a label, by its name as it is printed."""
    names = [str(name) for name in model.classes_]
    if str(label) not in names:
        similar = did_you_mean(label, names)
        raise ValueError(f"label {shown(label)} is not in classes_. {similar}Pass one that fit has seen.")
    return names.index(str(label))


def free_values(model: Any) -> int | None:
    """Return how many singular values of the coefficients are free; None if none of them is penalised."""
    best = vars(model).get("best_estimator_", model)
    if getattr(best, "alpha", None) == 0 or getattr(best, "space_", None) == "predictions":
        return None
    if hasattr(best, "theta_"):
        return int(best.theta_)
    return 0 if hasattr(best, "gap_") else None


# What was fitted, and by which held-out rows it was chosen: for machines and in words


def facts_of(model: Any) -> dict[str, Any]:
    """Return what a fitted model, search or tagger is, as plain data."""
    inner = inner_model(model, "lrml").model
    best = getattr(inner, "best_estimator_", inner)
    found = {name: getattr(best, f"{name}_", None) for name in _PARAMS if name != "rank"}
    found |= {name: one for name, one in best.get_params(deep=False).items() if one is not None}
    params = {name: found[name] for name in _PARAMS if found.get(name) is not None}
    fit = best.fitted_
    facts: dict[str, Any] = {
        "estimator": type(best).__name__,
        "params": params | getattr(inner, "best_params_", {}),
        "penalty_on": getattr(best, "space_", None),
        "features": int(best.n_features_in_),
        "labels": len(best.intercept_),
        **({"rank": fit.rank} if fit.n_weights is None else {"weights": fit.n_weights}),
        "bytes": int(best.nbytes_),
        "converged": bool(best.converged_),
        "status": best.status_,
    }
    if best is inner:
        return facts
    usual = "minus the loss per row" if facts["labels"] == 1 else "label ranking average precision"
    usual = "R²" if inner._targets == "real" else usual
    lead = {f"{key}_over_ridge": inner.search_[key] for key in ("gain", "gain_error")}
    return facts | {
        "held_out_score": float(inner.best_score_),
        "scoring": usual if inner.scoring is None else str(inner.scoring),
        "judged_by": inner.search_["judged_by"],
        "candidates": len(inner.cv_results_["params"]),
        **{key: value if math.isfinite(value) else None for key, value in lead.items()},
    }


def in_words(facts: dict[str, Any]) -> list[str]:
    """Return the lines that say what was fitted, and how it ended unless it has converged."""
    params = facts["params"]
    words = [f"{params['loss'].replace('_', ' ')} loss"]
    words += [f"{params['kernel']} kernel"] if params.get("kernel", "linear") != "linear" else []
    for name in ("theta", "alpha", "ridge"):
        if name in params:
            words.append(f"{name} {params[name]:.4g}")
    words += [f"penalty on the {facts['penalty_on']}"] if facts["penalty_on"] else []
    sizes = (counted(facts[f"{what}s"], what) for what in ("feature", "label", "byte"))
    size = f"rank {facts['rank']}" if "rank" in facts else f"pruned to {counted(facts['weights'], 'weight')}"
    lines = [f"{facts['estimator']}: {', '.join(words)}", f"{size}, {', '.join(sizes)}"]
    lines += [] if facts["converged"] else [facts["status"]]
    if "held_out_score" in facts:
        lines.append(
            f"{facts['scoring']} {facts['held_out_score']:.4f} {facts['judged_by']}, the choice among "
            f"{facts['candidates']} candidates"
        )
        gain, error = facts["gain_over_ridge"], facts["gain_error_over_ridge"]
        if gain is not None:
            spread = "" if error is None else f" ± {error:.4f}"
            lines.append(f"lead of a penalty over the best ridge alone: {gain:+.4f}{spread}")
    return lines
