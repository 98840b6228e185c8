"""Choice of hyperparameters on rows that are held out of the training set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.model_selection import train_test_split

from lrml.metrics import average_precision

CRITERION = "average_precision"
"""The metric that chooses, by its name in `lrml.metrics.evaluate`."""


@dataclass(frozen=True, eq=False)
class Holdout:
    """A training set in two parts: rows to fit on, and rows to compare candidates on."""

    X_fit: Any
    X_validation: Any
    Y_fit: Any
    Y_validation: Any

    @classmethod
    def from_train(cls, X: Any, Y: Any, share: float, seed: int) -> Holdout:
        """Hold out a share of the training rows at random."""
        return cls(*train_test_split(X, Y, test_size=share, random_state=seed))


class Choice(NamedTuple):
    """The chosen candidate, unfitted, and its score on the held-out rows."""

    model: Any
    score: float


def select(candidates: Iterable[Any], holdout: Holdout) -> Choice:
    """Fit every candidate and take the one with the largest average precision on the held-out rows.

    Of equals the first is taken, so candidates come from the mildest to the strongest penalty.
    """
    best: Choice | None = None
    for candidate in candidates:
        model = clone(candidate).fit(holdout.X_fit, holdout.Y_fit)
        score = average_precision(holdout.Y_validation, scores_of(model, holdout.X_validation))
        if best is None or score > best.score:
            best = Choice(candidate, score)
    if best is None:
        raise ValueError("candidates must hold at least one model, got none. Check the grid of the spec.")
    return best


def scores_of(model: Any, X: Any) -> Any:
    """Return real-valued scores of the labels, of a classifier or of a regressor."""
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict(X)
