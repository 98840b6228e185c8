"""Losses between a label y in {0, 1} and a real score s, for fits that read the rows.

With the sign m = 2y − 1 of a label:

================== ============================ ============================ ==================
name               ℓ(y, s)                      dℓ/ds                        d²ℓ/ds² at most
================== ============================ ============================ ==================
``squared``        (y − s)²                     2(s − y)                     2
``logistic``       log(1 + exp(−m s))           p − y,  p = 1/(1 + exp(−s))  1/4
``squared_hinge``  max(0, 1 − m s)²             −2m max(0, 1 − m s)          2
================== ============================ ============================ ==================

All are convex in s. The squared loss has no factor ½, as in the paper.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import entr, expit, logit

Floats: TypeAlias = npt.NDArray[np.floating[Any]]


class Terms(NamedTuple):
    """Values, first and second derivatives with respect to the scores, entry by entry."""

    values: Floats
    slopes: Floats
    curvatures: Floats


class Loss(Protocol):
    """What a fit by rows needs from a loss."""

    name: str
    threshold: float
    """A score at or above this means that the label applies."""
    largest_curvature: float
    """Upper limit of the second derivative."""
    unseen_score: float
    """Score of a label that no training example had: below those of real candidates."""

    def terms(self, Y: Floats, S: Floats) -> Terms:
        """Evaluate at labels Y and scores S of the same shape."""

    def constant(self, share: Floats) -> Floats:
        """Best constant score of labels that apply to these shares of the examples."""

    def dual(self, Y: Floats, U: Floats) -> Floats:
        """Return −ℓ*(−u), ℓ* the conjugate: ℓ(y, s) ≥ −u s + dual(y, u), with equality for u = −dℓ/ds."""


class SquaredLoss:
    """(y − s)²; scores estimate y itself."""

    name = "squared"
    threshold = 0.5
    largest_curvature = 2.0
    unseen_score = -1.0

    def terms(self, Y: Floats, S: Floats) -> Terms:
        """Evaluate; the curvature is 2 everywhere."""
        errors = S - Y
        return Terms(errors * errors, 2.0 * errors, np.full_like(errors, 2.0))

    def constant(self, share: Floats) -> Floats:
        """Return the share itself."""
        return share

    def dual(self, Y: Floats, U: Floats) -> Floats:
        """Return u y − u²/4."""
        return U * Y - 0.25 * U * U


class LogisticLoss:
    """log(1 + exp(−m s)); scores estimate the log odds of a label."""

    name = "logistic"
    threshold = 0.0
    largest_curvature = 0.25
    unseen_score = -100.0

    def terms(self, Y: Floats, S: Floats) -> Terms:
        """Evaluate without overflow: exp(−|s|) is at most 1."""
        signs = 2.0 * Y - 1.0
        margins = signs * S
        decay = np.exp(-np.abs(S))
        # Unlike max(s, 0) − sy and p − y, this does not cancel when a label is fitted well.
        values = np.log1p(decay)
        values += np.maximum(-margins, 0.0)
        inverse = 1.0 / (1.0 + decay)
        small = decay * inverse
        slopes = np.where(margins >= 0, small, inverse)
        slopes *= -signs
        small *= inverse
        return Terms(values, slopes, small)

    def constant(self, share: Floats) -> Floats:
        """Return the log odds of the share, 100 at most.

        If all examples are of one kind, there is no best constant: the loss keeps falling. At 100 it is below
        1e-43, which is as good as its limit.
        """
        odds: Floats = logit(np.clip(share, 0.0, 1.0))
        return np.clip(odds, self.unseen_score, -self.unseen_score)

    def dual(self, Y: Floats, U: Floats) -> Floats:
        """Return the entropy of q = m u, which is a probability."""
        q = np.clip((2.0 * Y - 1.0) * U, 0.0, 1.0)
        entropy: Floats = entr(q) + entr(1.0 - q)
        return entropy

    def probability(self, scores: Floats) -> Floats:
        """Return the probability 1/(1 + exp(−s)) that a label applies."""
        probabilities: Floats = expit(scores)
        return probabilities


class SquaredHingeLoss:
    """max(0, 1 − m s)², the loss of LinearSVC; scores are margins."""

    name = "squared_hinge"
    threshold = 0.0
    largest_curvature = 2.0
    unseen_score = -100.0

    def terms(self, Y: Floats, S: Floats) -> Terms:
        """Evaluate; the second derivative jumps from 0 to 2 where the margin is 1."""
        signs = 2.0 * Y - 1.0
        short = np.maximum(1.0 - signs * S, 0.0)
        return Terms(short * short, -2.0 * signs * short, 2.0 * (short > 0).astype(S.dtype))

    def constant(self, share: Floats) -> Floats:
        """Minimise share · (1 − s)² + (1 − share) · (1 + s)²."""
        return 2.0 * share - 1.0

    def dual(self, Y: Floats, U: Floats) -> Floats:
        """Return q − q²/4 with q = m u, which is not negative."""
        q = (2.0 * Y - 1.0) * U
        return q - 0.25 * q * q


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (SquaredLoss(), LogisticLoss(), SquaredHingeLoss())}


def best_constants(loss: Loss, known: Floats, positive: Floats) -> npt.NDArray[np.float64]:
    """Return starting scores near the best ones of a model without features, where the loss is curved.

    They follow from the weights of the known and of the positive examples. If all examples are of one kind,
    the best scores themselves (`Loss.constant`) are no good start for Newton's method.
    """
    share = positive / known
    if loss.name != "squared":
        # If all examples are of one kind, half an example of each kind is added.
        share = np.clip(share, 0.5 / (known + 1), 1 - 0.5 / (known + 1))
    return np.asarray(loss.constant(share), dtype=np.float64)
