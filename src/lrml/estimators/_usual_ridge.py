"""Strengths that follow the data: the ridge with which least squares predicts unseen rows best, and an alpha.

Regressed are the slopes of the loss at the best constant scores, 2(ȳ − y) for the squared loss; where a label
is unknown they are 0. With many labels they are summed with random signs, into a few *mixes*: the squared
error of a mix is that of all labels, on average.

Where all directions are known, *generalised cross-validation* (Golub, Heath, Wahba 1979) tells the error,

::

    GCV(ρ) = n ‖(I − H_ρ) G‖²_F / (n − 1 − c tr H_ρ)²,   H_ρ = X (XᵀX + ρ)⁻¹ Xᵀ,   X and G centred,

with tr H_ρ = Σ λ_i / (λ_i + ρ) and ‖(I − H_ρ) G‖² = Σ e_i (ρ / (λ_i + ρ))², e_i the squared length of G along
the i-th left singular vector of X. c = 1 is the textbook; where the minimum is flat, that chooses too weak a
ridge, so c is a little larger (Kim and Gu 2004).

With weights w, X and G are D^(1/2)X and D^(1/2)G, and n is the larger of Σ w and (Σ w)² / Σ w². Weights that
are whole numbers so act as repetitions of rows, n = Σ w; others, such as shares of a total, by their ratios:
a weight of 1/10 for every row leaves n as it is, and makes the ridge a tenth.

Where n and d are both large, a fifth of the rows is *held out*, and the mixes are regressed on the others in
a subspace, which serves all ridges. GCV takes every row for equally influential; rows of wide text are not,
and it chose 0.9 where 1.4 to 2 was best.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import Array, Place, row_dots, take, to_numpy
from lrml.core.quadratic import SpectralProblem
from lrml.core.rows import Mask
from lrml.estimators._fitting import TrainingData, sort_labels
from lrml.estimators._grid import count_rows, loss_scale, noise_along
from lrml.estimators._space import InSubspace

_Float64 = npt.NDArray[np.float64]
# Ridges are compared that leave between these shares of the directions; beyond, the quotient is 0/0 or flat.
_LEAST_SHARE, _MOST_SHARE = 0.01, 0.9
_N_RIDGES = 300
_INFLATION = 1.05
_N_MIXES = 32
# On held-out rows: their share; the least and the largest ridge in units of the mean eigenvalue, below the
# first of which a subspace does not reach; and the ratio of neighbours, as the minimum is flat.
_HELD_OUT = 0.2
_WEAKEST, _STRONGEST, _RATIO = 0.03, 100.0, 1.1


def usual_ridge(data: TrainingData, *, fit_intercept: bool) -> float:
    """Return the ridge that suits the data, 0 if there is nothing to shrink; it does not depend on chance."""
    return _for_squares(data, fit_intercept=fit_intercept) * loss_scale(data, fit_intercept=fit_intercept)


def usual_strengths(data: TrainingData, *, fit_intercept: bool) -> tuple[float, float]:
    """Return the alpha and the ridge that suit the data.

    Directions of X with eigenvalues below the best ridge (of squares) are mostly noise. So alpha is the noise
    along a direction with just this eigenvalue.
    """
    ridge = _for_squares(data, fit_intercept=fit_intercept)
    alpha = noise_along(data, ridge, fit_intercept=fit_intercept)
    return alpha, ridge * loss_scale(data, fit_intercept=fit_intercept)


def _for_squares(data: TrainingData, *, fit_intercept: bool) -> float:
    """Return the best ridge for the slopes of the loss."""
    if data.needs_moments_only and data.road() != "compressed":
        return _by_gcv(data.space(fit_intercept=fit_intercept).problem, count_rows(data))
    mixed = _mixed(data, fit_intercept=fit_intercept)
    if mixed.road() == "compressed":
        return _on_held_out_rows(mixed, fit_intercept=fit_intercept)
    return _by_gcv(mixed.space(fit_intercept=fit_intercept).problem, count_rows(data))


def _mixed(data: TrainingData, *, fit_intercept: bool) -> TrainingData:
    """Return least squares of the slopes of the loss, or of sums of them with random signs."""
    loss = data.loss
    _, used, constants = map(to_numpy, sort_labels(data, data.row_sums, fit_intercept=fit_intercept))
    if len(used) > _N_MIXES:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (len(used), _N_MIXES))
    else:
        signs = np.eye(len(used))
    signs *= used[:, None]
    # For every loss, the slope at a given score is linear in the label.
    without, having = (loss.terms(np.full_like(constants, y), constants).slopes for y in (0.0, 1.0))
    return data.with_targets(_sums_of_slopes, without[:, None] * signs, (having - without)[:, None] * signs)


def _sums_of_slopes(Y: Any, mask: Mask | None, constant: _Float64, change: _Float64) -> Array:
    """Return sums of slopes (n × m): a known label brings a constant, and a change if it applies."""
    place = Place.of(Y)
    total, constant, change = map(place.asarray, (constant.sum(axis=0), constant, change))
    slopes = place.asarray((Y if place.is_host else place.asarray(Y, "float64")) @ change, "float64")
    if mask is None:
        slopes += total
        return slopes
    marked = (mask.pattern if place.is_host else place.asarray(mask.pattern, "float64")) @ constant
    slopes += marked if mask.marks_known else total - marked
    return slopes


def _by_gcv(problem: SpectralProblem, n_rows: float) -> float:
    """Return the ridge with the least GCV; if there are too few rows, one that leaves half."""
    values = to_numpy(problem.curvature)
    energies = to_numpy(row_dots(problem.cross, problem.cross)) / values
    if not energies.sum() > 0:
        return 0.0
    ridges = np.geomspace(values.max() * 1e3, values.min() * 1e-2, _N_RIDGES)
    kept = values / (values + ridges[:, None])
    used = kept.sum(axis=1)
    share = used / len(values)
    allowed = (share >= _LEAST_SHARE) & (share <= _MOST_SHARE) & (used <= _MOST_SHARE * (n_rows - 1))
    if not allowed.any():
        return float(ridges[int(np.argmin(np.abs(share - 0.5)))])
    errors = (1.0 - kept) ** 2 @ energies + max(problem.target - float(energies.sum()), 0.0)
    return float(ridges[allowed][np.argmin((errors / (n_rows - 1.0 - _INFLATION * used) ** 2)[allowed])])


def _on_held_out_rows(data: TrainingData, *, fit_intercept: bool) -> float:
    """Return the ridge with the least squared error on a fifth of the rows."""
    order = np.random.default_rng(0).permutation(data.X.shape[0])
    held_out, others = (np.sort(part) for part in np.split(order, [round(_HELD_OUT * len(order))]))
    part = data.part(others)
    space = part.space(fit_intercept=fit_intercept, road="compressed", extensible=True)
    assert isinstance(space, InSubspace)
    coordinates = space.coordinates(take(data.X, held_out))
    codes = take(data.Y, held_out) - space.y_mean
    codes = codes if space.problem.labels is None else codes @ space.problem.labels
    weights = np.ones(len(held_out)) if data.weights is None else data.weights[held_out]

    def error(ridge: float) -> float:
        left = codes - coordinates @ space.problem.with_ridge(ridge).ridge_solution()
        return float(weights @ np.einsum("ij,ij->i", left, left))

    if not np.any(space.problem.cross):
        return 0.0
    unit = space.subspace.unit
    return _least(error, _WEAKEST * unit, max(_STRONGEST * unit, float(space.problem.curvature[0])))


def _least(error: Callable[[float], float], low: float, high: float) -> float:
    """Return the best of a geometric series between two ridges."""
    ridges = np.geomspace(low, high, 1 + int(np.ceil(np.log(high / low) / np.log(_RATIO))))
    return float(min(ridges, key=error))
