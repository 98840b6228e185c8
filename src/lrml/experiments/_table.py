"""The table of an experiment: LRML for several theta beside ridge regression, on the test set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from lrml import LRML
from lrml.datasets import MultiLabelDataset
from lrml.experiments._selection import Choice, Holdout, scores_of, select
from lrml.experiments._spec import Protocol, Spec
from lrml.metrics import Evaluation, evaluate
from lrml.solvers import Status

REFERENCE = "Ridge"
"""Name of the method that LRML is compared with: scikit-learn's `Ridge`, all labels at once."""


@dataclass(frozen=True, eq=False)
class Row:
    """One method under one protocol: what was chosen on the held-out rows, and the result on the test set.

    ``theta_percent``, ``theta``, ``alpha`` and ``iterations`` are None where a method has none.
    """

    protocol: str
    method: str
    theta_percent: int | None
    theta: int | None
    alpha: float | None
    ridge: float
    rank: int
    evaluation: Evaluation
    iterations: int | None
    status: str
    validation_score: float

    @property
    def label(self) -> str:
        """Method and theta, for people."""
        return self.method if self.theta is None else f"{self.method}, theta {self.theta}"

    def as_dict(self) -> dict[str, Any]:
        """Return the cells in the order of the table, without the per-example values."""
        return {
            "protocol": self.protocol,
            "method": self.method,
            "theta_percent": self.theta_percent,
            "theta": self.theta,
            "alpha": self.alpha,
            "ridge": self.ridge,
            "rank": self.rank,
            **self.evaluation.as_dict(),
            "iterations": self.iterations,
            "status": self.status,
            "validation_average_precision": self.validation_score,
        }


@dataclass(frozen=True, eq=False)
class _Arena:
    """The data under one protocol; the only place where the test set is read."""

    protocol: Protocol
    train: tuple[Any, Any]
    test: tuple[Any, Any]
    holdout: Holdout

    @classmethod
    def of(cls, dataset: MultiLabelDataset, protocol: Protocol, share: float, seed: int) -> _Arena:
        prepare: Callable[[Any], Any] = normalize if protocol.normalize else _unchanged
        train, test = ((prepare(X), Y) for X, Y in (dataset.train, dataset.test))
        return cls(protocol, train, test, Holdout.from_train(*train, share, seed))

    def evaluate(self, choice: Choice) -> tuple[Any, Evaluation]:
        """Refit the chosen model on the whole training set and evaluate it on the test set."""
        model = clone(choice.model).fit(*self.train)
        X, Y = self.test
        return model, evaluate(Y, scores_of(model, X))


def _unchanged(X: Any) -> Any:
    return X


def table_rows(dataset: MultiLabelDataset, spec: Spec, seed: int) -> Iterator[Row]:
    """Compute the rows of the table one after the other: per protocol, every theta and the reference.

    Parameters
    ----------
    dataset : MultiLabelDataset
        With a split.
    spec : Spec
    seed : int
        Chooses the held-out rows of the training set.
    """
    for protocol in spec.protocols:
        arena = _Arena.of(dataset, protocol, spec.validation_share, seed)
        for share in spec.theta_shares:
            yield _lrml_row(arena, share, spec.strengths.values)
        yield _reference_row(arena, spec.strengths.values)


def _lrml_row(arena: _Arena, share: float, alphas: tuple[float, ...]) -> Row:
    protocol = arena.protocol
    candidates = (
        LRML(share, alpha, ridge=ridge, fit_intercept=protocol.fit_intercept)
        for ridge in protocol.ridges
        for alpha in alphas
    )
    choice = select(candidates, arena.holdout)
    model, evaluation = arena.evaluate(choice)
    return Row(
        protocol=protocol.name,
        method="LRML",
        theta_percent=round(100 * share),
        theta=model.theta_,
        alpha=model.alpha,
        ridge=model.ridge,
        rank=model.rank_,
        evaluation=evaluation,
        iterations=model.n_iter_,
        status=Status(model.status_).name.lower(),
        validation_score=choice.score,
    )


def _reference_row(arena: _Arena, ridges: tuple[float, ...]) -> Row:
    candidates = (Ridge(alpha=ridge, fit_intercept=arena.protocol.fit_intercept) for ridge in ridges)
    choice = select(candidates, arena.holdout)
    model, evaluation = arena.evaluate(choice)
    return Row(
        protocol=arena.protocol.name,
        method=REFERENCE,
        theta_percent=None,
        theta=None,
        alpha=None,
        ridge=model.alpha,
        rank=int(np.linalg.matrix_rank(model.coef_)),
        evaluation=evaluation,
        iterations=None,
        status=Status.EXACT.name.lower(),
        validation_score=choice.score,
    )
