"""Probabilities of labels, from scores of rows that the model has not seen.

The log odds of label l at score s are

::

    a_l u(s) + b_l,

u one curve for all labels, and a_l, b_l each label's own. u is straight ("sigmoid": J. Platt, 1999) or any
rising curve ("isotonic": isotonic regression of relevance on score over the cells of all labels). Labels are
drawn towards what is common: a_l and b_l have normal priors whose means and variances are those of the labels
themselves, found by expectation and maximisation with Laplace's approximation. So a label with few positive
examples is hardly told from the others, and one with many follows its own scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.special import expit, logit
from sklearn.isotonic import isotonic_regression

from lrml.core.arrays import Array, Place, take
from lrml.core.losses import LogisticLoss

_Floats = npt.NDArray[np.float64]

CALIBRATIONS = ("sigmoid", "isotonic")
# Scores are sorted into so many bins by their quantiles, and as many by those of positive cells; fewer if
# that would be more counts in all. A rising curve of more knots follows chance.
_BINS, _MOST_COUNTS = {"sigmoid": 128, "isotonic": 16}, 1 << 22
# Steps of the fit at most, and the relative change of a variance that ends it.
_STEPS, _SETTLED = 50, 1e-2
# Variances of slopes and offsets to begin with, and the least slope: the better of two scores stays so.
_VARIANCES, _LEAST_SLOPE = (0.1, 1.0), 1e-2


@dataclass(frozen=True, eq=False)
class Calibration:
    """Log odds a_l u(s) + b_l of labels: slopes a, offsets b, u(s) through knots, or s itself without any."""

    slopes: _Floats
    offsets: _Floats
    knots: _Floats | None = None
    heights: _Floats | None = None

    def probability(self, scores: Array, labels: Any = slice(None)) -> Array:
        """Return probabilities of scores (n × m) of some labels: a slice, or their numbers."""
        place = Place.of(scores)
        slopes, offsets = (place.asarray(part[labels]) for part in (self.slopes, self.offsets))
        curve = place.xp.astype(scores, place.xp.float64, copy=False)
        if self.knots is not None and self.heights is not None:
            curve = _through(curve, place.asarray(self.knots), place.asarray(self.heights))
        found = LogisticLoss().probability(slopes * curve + offsets)
        return place.xp.astype(found, scores.dtype, copy=False)

    @classmethod
    def of(cls, Y: npt.NDArray[Any], S: npt.NDArray[Any], known: Any, method: str) -> Self:
        """Fit to labels and scores of unseen rows, n × L on the host, of which the known cells count."""
        if known is not None and not known.any():
            raise ValueError(f"calibrate={method!r} finds no known label in the rows left out. Leave it out.")
        scores, counts, positive = _binned(Y == 1, S, known, _BINS[method])
        pooled = positive.sum(axis=0), counts.sum(axis=0)
        middle = np.sum(counts * scores, axis=0) / pooled[1]
        if method == "isotonic":
            # Half a cell of the usual kind in each bin keeps the odds finite.
            share = (pooled[0].sum() + 1) / (pooled[1].sum() + 2)
            risen = isotonic_regression((pooled[0] + share / 2) / (pooled[1] + 0.5), sample_weight=pooled[1])
            heights = logit(risen)
            curve = np.interp(scores, middle, heights)
        else:
            slope, offset = _straight(middle, *pooled)
            curve, heights = slope * scores + offset, slope * middle + offset
        slopes, offsets = np.ones(len(curve)), np.zeros(len(curve))
        if len(curve) > 1:
            slopes, offsets = _drawn_together(curve, counts, positive, heights)
        if method == "isotonic":
            return cls(slopes, offsets, middle, heights)
        return cls(slopes * slope, slopes * offset + offsets)


def _through(values: Array, knots: Array, heights: Array) -> Array:
    """Interpolate between knots, on any device; beyond the last ones the height stays."""
    place = Place.of(values)
    if place.is_host:
        return np.interp(values, knots, heights)
    xp, flat = place.xp, place.xp.reshape(values, (-1,))
    if knots.shape[0] == 1:
        return xp.full_like(values, float(heights[0]))
    flat = xp.clip(flat, min=float(knots[0]), max=float(knots[-1]))
    last = xp.clip(xp.searchsorted(knots, flat), min=1, max=knots.shape[0] - 1)
    left, right = (take(knots, at) for at in (last - 1, last))
    low, high = (take(heights, at) for at in (last - 1, last))
    return xp.reshape(low + (high - low) * (flat - left) / (right - left), values.shape)


def _binned(
    Y: npt.NDArray[np.bool_], S: npt.NDArray[Any], known: Any, n_bins: int
) -> tuple[_Floats, _Floats, _Floats]:
    """Return, for each label and bin, the mean score, and how many cells there are and are positive."""
    some = slice(None, None, max(1, S.size // _MOST_COUNTS))  # of very many rows, enough for quantiles
    samples = (S[some], S[Y]) if known is None else (S[some][known[some]], S[Y & known])
    shares = np.linspace(0.0, 1.0, max(2, min(n_bins, _MOST_COUNTS // S.shape[1])) + 1)[1:-1]
    ends = [np.quantile(part, shares) for part in samples if part.size]
    edges = np.unique(np.concatenate([np.empty(0), *ends]))
    shape = S.shape[1], len(edges) + 1
    sums, counts, positive = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    for label in range(shape[0]):
        rows = slice(None) if known is None else known[:, label]
        scores = S[rows, label]
        bins = np.searchsorted(edges, scores, side="right")
        counts[label], sums[label], positive[label] = (
            np.bincount(bins, weights, minlength=shape[1]) for weights in (None, scores, Y[rows, label])
        )
    filled = counts.any(axis=0)
    sums, counts, positive = sums[:, filled], counts[:, filled], positive[:, filled]
    return sums / np.maximum(counts, 1.0), counts, positive


def _straight(scores: _Floats, positive: _Floats, counts: _Floats) -> tuple[float, float]:
    """Return Platt's slope and offset, with his targets, which keep both finite."""
    with_label, without = positive.sum(), counts.sum() - positive.sum()
    hits = positive * (with_label + 1) / (with_label + 2) + (counts - positive) / (without + 2)
    centre = np.average(scores, weights=counts)
    scale = np.sqrt(np.average((scores - centre) ** 2, weights=counts)) or 1.0
    line, start = (scores - centre) / scale, np.array([[0.0, logit(hits.sum() / counts.sum())]])
    for _ in range(_STEPS):
        start, _ = _step(start, line[None], counts[None], hits[None], start, np.full(2, 1e-9))
    slope = max(float(start[0, 0]) / scale, 0.0)
    return slope, float(start[0, 1]) - slope * float(centre)


def _drawn_together(
    curve: _Floats, counts: _Floats, positive: _Floats, heights: _Floats
) -> tuple[_Floats, _Floats]:
    """Return slopes and offsets of the labels beside the common curve."""
    # Offsets count from where the cells tell most: there they hardly depend on the slopes.
    telling = counts.sum(axis=0) * expit(heights) * expit(-heights)
    centre = float(np.average(heights, weights=telling))
    curve = curve - centre
    mean, variances = np.array([1.0, centre]), np.array(_VARIANCES)
    found = np.tile(mean, (len(curve), 1))
    for _ in range(_STEPS):
        found, spread = _step(found, curve, counts, positive, mean, 1.0 / variances)
        mean, last = found.mean(axis=0), variances
        variances = ((found - mean) ** 2 + spread).mean(axis=0)
        if np.all(np.abs(variances - last) < _SETTLED * last):
            break
    slopes = np.maximum(found[:, 0], _LEAST_SLOPE)
    return slopes, found[:, 1] - slopes * centre


def _step(
    found: _Floats, curve: _Floats, counts: _Floats, positive: _Floats, mean: _Floats, precision: _Floats
) -> tuple[_Floats, _Floats]:
    """Take Newton's step for each label's slope and offset; return them, and their posterior variances."""
    likely = expit(found[:, :1] * curve + found[:, 1:])
    wrong, weights = counts * likely - positive, counts * likely * (1.0 - likely)
    pull = precision * (found - mean)
    by_slope, by_offset = (wrong * curve).sum(axis=1) + pull[:, 0], wrong.sum(axis=1) + pull[:, 1]
    slope = (weights * curve**2).sum(axis=1) + precision[0]
    both, offset = (weights * curve).sum(axis=1), weights.sum(axis=1) + precision[1]
    area = slope * offset - both**2
    step = np.column_stack([offset * by_slope - both * by_offset, slope * by_offset - both * by_slope])
    # Far from the end the curvature nearly vanishes, and steps would be too long.
    return found - np.clip(step / area[:, None], -1.0, 1.0), np.column_stack([offset, slope]) / area[:, None]
