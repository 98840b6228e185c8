"""The fitted model inside a tagger, a pipeline or a search, with the names of its features."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from lrml._shown import shown
from lrml.core.arrays import at_home
from lrml.core.losses import LOSSES


class Inner(NamedTuple):
    """A member of the family, and what its features are called; None if nobody knows."""

    model: Any
    feature_names: npt.NDArray[Any] | None


def inner_model(estimator: Any, caller: str) -> Inner:
    """Go through any nesting of pipelines, searches of scikit-learn and taggers, down to a fitted model.

    The model is a copy in NumPy arrays if it lives on a device.
    """
    inner, front = estimator, None
    while "fitted_" not in vars(inner):
        if isinstance(inner, Pipeline) and len(inner):
            front = inner[:-1] if len(inner) > 1 else front
            inner = inner[-1]
        elif "model_" in vars(inner):
            front, inner = inner.vectorizer_, inner.model_
        elif "best_estimator_" in vars(inner):
            inner = inner.best_estimator_
        elif type(inner).__module__.startswith("lrml."):
            raise NotFittedError(f"{caller} needs a fitted model, got {shown(inner)}. Call fit first.")
        else:
            raise TypeError(
                f"{caller} needs an estimator of lrml, or a pipeline or search that ends in one, got "
                f"{shown(estimator)}. Pass LRML(), for example, after fit."
            )
    names = getattr(inner, "feature_names_in_", None)
    if front is not None:
        with suppress(AttributeError, ValueError, NotFittedError):  # a step that does not know its names
            names = front.get_feature_names_out()
    return Inner(at_home(inner), None if names is None else np.asarray(names))


def threshold_of(model: Any) -> Any:
    """Return the score from which on a model or tagger assigns a label; one number, or one per label."""
    inner = getattr(model, "model_", model)
    cut = inner._decision_threshold
    return LOSSES[inner.loss_].threshold if cut is None else cut


def label_vectors(model: Any) -> npt.NDArray[np.float64]:
    """Labels as rows of V diag(s), whose inner products are those of their coefficients, W = U diag(s) Vᵀ."""
    _, s, V = model.factors_
    return np.asarray(V, dtype=np.float64) * np.asarray(s, dtype=np.float64)


def free_values(model: Any) -> int | None:
    """Return how many singular values of the coefficients are free; None if none of them is penalised."""
    best = vars(model).get("best_estimator_", model)
    if getattr(best, "alpha", None) == 0 or getattr(best, "space_", None) == "predictions":
        return None
    if hasattr(best, "theta_"):
        return int(best.theta_)
    return 0 if hasattr(best, "gap_") else None
