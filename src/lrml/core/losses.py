"""Losses between a label y in {0, 1} and a real score s; the squared one takes any real y.

With the sign m = 2y − 1 of a label:

================== ============================ ============================ ==================
name               ℓ(y, s)                      dℓ/ds                        d²ℓ/ds² at most
================== ============================ ============================ ==================
``squared``        (y − s)²                     2(s − y)                     2
``logistic``       log(1 + exp(−m s))           p − y,  p = 1/(1 + exp(−s))  1/4
``squared_hinge``  max(0, 1 − m s)²             −2m max(0, 1 − m s)          2
================== ============================ ============================ ==================

All are convex in s. The squared loss has no factor ½, as in the paper.

For NumPy a formula is written out step by step, in as few arrays as it needs: passes over memory take longer
than the arithmetic. Other libraries, whose arrays may be on a device, have the formula as it is.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit

from lrml.core.arrays import Array, is_host, namespace

Floats: TypeAlias = npt.NDArray[np.floating[Any]]


class Terms(NamedTuple):
    """Values, first and second derivatives with respect to the scores, entry by entry."""

    values: Array
    slopes: Array
    curvatures: Array


class Loss(Protocol):
    """What a fit by rows needs from a loss."""

    name: str
    threshold: float
    """A score at or above this means that the label applies."""
    largest_curvature: float
    """Upper limit of the second derivative."""
    unseen_score: float
    """Score of a label that no training example had: below those of real candidates."""

    def terms(self, Y: Array, S: Array) -> Terms:
        """Evaluate at labels Y and scores S of the same shape; the three arrays are new."""

    def constant(self, share: Array) -> Array:
        """Best constant score of labels that apply to these shares of the examples."""


class SquaredLoss:
    """(y − s)²; scores estimate y itself."""

    name = "squared"
    threshold = 0.5
    largest_curvature = 2.0
    unseen_score = -1.0

    def terms(self, Y: Array, S: Array) -> Terms:
        """Evaluate; the curvature is 2 everywhere."""
        error = S - Y
        return Terms(error * error, 2.0 * error, namespace(S).full_like(S, 2.0))

    def constant(self, share: Array) -> Array:
        """Return the share itself."""
        return share


class LogisticLoss:
    """log(1 + exp(−m s)); scores estimate the log odds of a label."""

    name = "logistic"
    threshold = 0.0
    largest_curvature = 0.25
    unseen_score = -100.0

    def terms(self, Y: Array, S: Array) -> Terms:
        """Evaluate without overflow: exp(−|s|) is at most 1."""
        if not isinstance(S, np.ndarray):
            return self._terms_anywhere(Y, S)
        slopes = _signs(Y, S)
        values = slopes * S  # the margins
        wrong = values < 0
        decay = np.abs(S)
        np.negative(decay, out=decay)
        np.exp(decay, out=decay)
        # Unlike max(s, 0) − sy and p − y, this does not cancel when a label is fitted well.
        np.minimum(values, 0.0, out=values)
        spare = np.log1p(decay)
        np.subtract(spare, values, out=values)
        np.add(decay, 1.0, out=spare)
        np.reciprocal(spare, out=spare)
        decay *= spare
        curvatures = decay * spare
        # The smaller probability, plus the difference where the sign is wrong: np.where is slow.
        spare -= decay
        spare *= wrong
        decay += spare
        slopes *= decay
        np.negative(slopes, out=slopes)
        return Terms(values, slopes, curvatures)

    def _terms_anywhere(self, Y: Array, S: Array) -> Terms:
        """Evaluate by the same formulas, in any namespace."""
        xp = namespace(S)
        signs = 2.0 * Y - 1.0
        margins, decay = signs * S, xp.exp(-xp.abs(S))
        wrong = margins < 0
        values = xp.log1p(decay) - xp.where(wrong, margins, 0.0)
        likely = 1.0 / (1.0 + decay)  # the larger of the two probabilities
        unlikely = decay * likely
        return Terms(values, -signs * xp.where(wrong, likely, unlikely), unlikely * likely)

    def constant(self, share: Array) -> Array:
        """Return the log odds of the share, 100 at most: the loss keeps falling, but is below 1e-43 there."""
        low, high = self.unseen_score, -self.unseen_score
        if is_host(share):
            return np.clip(logit(np.clip(share, 0.0, 1.0)), low, high)
        xp = namespace(share)
        having, without = (xp.log(xp.clip(part, min=1e-100)) for part in (share, 1.0 - share))
        return xp.clip(having - without, min=low, max=high)

    def probability(self, scores: Array) -> Array:
        """Return the probability 1/(1 + exp(−s)) that a label applies."""
        if is_host(scores):
            return expit(scores)
        xp = namespace(scores)
        decay = xp.exp(-xp.abs(scores))
        return xp.where(scores < 0, decay, 1.0) / (1.0 + decay)


class SquaredHingeLoss:
    """max(0, 1 − m s)², the loss of LinearSVC; scores are margins."""

    name = "squared_hinge"
    threshold = 0.0
    largest_curvature = 2.0
    unseen_score = -100.0

    def terms(self, Y: Array, S: Array) -> Terms:
        """Evaluate; the second derivative jumps from 0 to 2 where the margin is 1."""
        if not isinstance(S, np.ndarray):
            xp = namespace(S)
            signs = 2.0 * Y - 1.0
            short = 1.0 - signs * S
            inside = short > 0.0
            short = xp.where(inside, short, 0.0)
            return Terms(short * short, -2.0 * signs * short, 2.0 * xp.astype(inside, S.dtype))
        slopes = _signs(Y, S)
        short = slopes * S
        np.subtract(1.0, short, out=short)
        np.maximum(short, 0.0, out=short)
        curvatures = np.greater(short, 0.0, out=np.empty_like(S), casting="unsafe")
        curvatures *= 2.0
        slopes *= short
        slopes *= -2.0
        short *= short
        return Terms(short, slopes, curvatures)

    def constant(self, share: Array) -> Array:
        """Minimise share · (1 − s)² + (1 − share) · (1 + s)²."""
        return 2.0 * share - 1.0


def _signs(Y: Floats, S: Floats) -> Floats:
    """Return 2y − 1, in the precision of the scores."""
    signs = np.multiply(Y, 2.0, out=np.empty_like(S), casting="same_kind")
    signs -= 1.0
    return signs


LOSSES: dict[str, Loss] = {loss.name: loss for loss in (SquaredLoss(), LogisticLoss(), SquaredHingeLoss())}


def best_constants(loss: Loss, known: Array, positive: Array) -> Array:
    """Return starting scores near the best ones of a model without features, where the loss is curved.

    They follow from the weights of the known and of the positive examples. If all examples are of one kind,
    the best scores themselves (`Loss.constant`) are no good start for Newton's method.
    """
    share = positive / known
    if loss.name != "squared":
        # If all examples are of one kind, half an example of each kind is added.
        share = namespace(share).clip(share, min=0.5 / (known + 1), max=1 - 0.5 / (known + 1))
    return loss.constant(share)
