"""Leave-one-out scores without refitting: what a model would give each row, had it not seen it.

At a solution W = Σ_j r_j v_jᵀ of the penalised problem, the right singular vectors v_j and the shrinkages
ρ_j = ridge + c_j / 2σ_j, c_j the slope of the penalty at σ_j, turn the fit into separate ridge regressions of
the columns of YV. If they stay as they are, the fit without row i is known in closed form. In spectral
coordinates X̃ = (X − 1x̄ᵀ)Q with XᵀX = QΛQᵀ, for weights w that add up to n̄, T = (Y − 1ȳᵀ)V and fitted values
F = X̃R,

::

    h_ij = w_i (1/n̄ + x̃_iᵀ M_j x̃_i),   M_j = (Λ + ρ_j)⁻¹,       t̂_ij = t_ij − (t_ij − f_ij) / (1 − h_ij),
    ŝ_i = ȳ + t̂_i Vᵀ − g_i / (1 − g_i) · (y_i − ȳ)(I − VVᵀ),     g_i = w_i (1/n̄ + f_iᵀ (RᵀXᵀYV)⁻¹ f_i).

The last term of ŝ corrects, to first order, that V turns: W changes by A Vᵀ + R Bᵀ with VᵀB = 0. The two
parts are orthogonal in the Hessian of the loss, so B solves a least-squares problem of its own, with the
curvature RᵀXᵀXR + diag(ρ_j σ_j²) = RᵀXᵀYV, and row i pulls at it by the part of y_i that V does not span.

The result is exact if the penalty is a ridge. Otherwise it is an estimate, and a little too good where labels
are rare and the penalty is strong.
"""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lrml.core.arrays import (
    Array,
    Place,
    dense,
    full_precision,
    is_host,
    is_sparse,
    namespace,
    take,
    to_host,
    to_numpy,
)
from lrml.core.coordinates import Coordinates, RidgeRegressions, coordinates_of, road_of
from lrml.core.linalg import descending_eigh
from lrml.core.losses import SquaredLoss
from lrml.core.rows import Rows
from lrml.estimators._calibration import Calibration
from lrml.estimators._fitted import Fitted
from lrml.estimators._pruning import SMALL, threshold_for
from lrml.estimators._spec import Parameters, sums_suffice
from lrml.model_selection import iterative_train_test_split
from lrml.thresholds import Cut, best_threshold

# 1 − h without any shrinkage: below the first, or so many roundings, a row is fitted without error; above
# the last, single precision is enough.
_INTERPOLATED, _ROUNDINGS, _ROOMY = 1e-9, 1e3, 1e-4
# A row that is fitted without error needs some shrinkage: no shrinkage is the limit of this share of the
# least eigenvalue. With 1 − h above the second, it is left out like any other row.
_LEAST_SHRINKAGE, _CLOSE = 1e-7, 1e-6
# Least 1 − h: below, the other rows say nothing about a row, up to rounding.
_LEAST_ROOM = 1e-14
_EPS = sys.float_info.epsilon
_Rows = npt.NDArray[np.int64]
# Rows held out if leave-one-out scores are not in closed form.
_HELD_OUT = 0.2
# A threshold is chosen on so many rows and scores at most: more would hardly change it.
_LEAST_ROWS, _MOST_SCORES = 1500, 1 << 25
# The same rows at every fit, so that the threshold does not depend on chance.
_SEED = 0


class LeaveOneOut:
    """Leave-one-out scores of some rows of the training data, for solutions in the coordinates of a space.

    Scores of labels are in single precision, which is enough to rank them, unless they are to be ``precise``.
    All arrays stay where the coordinates of the space are.
    """

    def __init__(
        self,
        space: Coordinates,
        data: Rows,
        rows: npt.NDArray[np.int64],
        *,
        fit_intercept: bool,
        precise: bool = False,
    ) -> None:
        self.space = space
        curvature = space.problem.curvature
        place = Place.of(curvature)
        xp = place.xp
        # Weights count relative to their mean, and X̃Λ^(−1/2) has no scale: rows are at most of length 1/√w.
        self.weights, scale = place.ones(len(rows)), 1.0
        if data.weights is not None:
            scale = data.total_weight / data.shape[0]
            self.weights = place.asarray(take(data.weights, rows)) / scale
        self.root = math.sqrt(scale)
        self.mean_leverage = self.weights / (data.total_weight / scale) * float(fit_intercept)
        unit = space.of_own_rows(data, rows) * (self.root / xp.sqrt(curvature))
        squares = unit**2
        self.outside = 1.0 - self.mean_leverage - self.weights * xp.sum(squares, axis=1)
        # Eigenvalues are rounded relative to the largest, and h with them.
        rounding = 1.0 + self.weights * (squares @ (xp.max(curvature) / curvature))
        rounding *= _ROUNDINGS * _EPS
        self.interpolated = self.outside < xp.minimum(rounding, _INTERPOLATED)
        self.interpolates = bool(xp.any(self.interpolated))
        # Single precision is not enough if residuals are all rounding.
        ranks_labels = data.schema.targets == "binary" and not precise
        self.result = xp.float32 if ranks_labels else xp.float64
        single = ranks_labels and float(xp.min(self.outside)) > _ROOMY
        self.dtype = xp.float32 if single else xp.float64
        self.unit = xp.astype(unit, self.dtype, copy=False)
        self.squares = xp.astype(squares, self.dtype, copy=False)
        Y = take(data.Y, rows)
        # Sparse ones stay so on the host.
        self.Y = Y.astype(self.dtype) if is_host(curvature) else xp.astype(place.asarray(Y), self.dtype)
        self.lone = None
        if data.schema.targets == "binary":
            self.lone = _LoneLabels(data.positive_counts, self.Y, self.weights > 0)

    def of(self, solution: RidgeRegressions) -> Callable[[slice], Array]:
        """Return the function that scores some of the rows by the fits without them."""
        left, right, _, extra, shrunk = solution
        xp = namespace(left)
        problem, dtype = self.space.problem, self.dtype
        curvature = problem.curvature[:, None]
        # One column of leverages serves all directions with the same shrinkage.
        distinct, inverse = solution.ridge * Place.of(left).ones(1), None
        if extra is not None:
            distinct, inverse = xp.unique_inverse(solution.ridge + extra)
        several = distinct.shape[0] > 1
        kept_back = xp.astype(_kept_back(distinct, curvature), dtype)
        projected = problem.cross if right is None else problem.cross @ right
        V = _times(problem.labels, right, dtype)
        encoder = xp.astype(xp.sqrt(curvature) * left / self.root, dtype)
        mean = xp.astype(self.space.y_mean, dtype)
        mean_code = _times(mean, V, dtype)
        turn = _Turn(left, projected / self.root**2) if V is not None and V.shape[1] < V.shape[0] else None
        if self.interpolates:
            least = _LEAST_SHRINKAGE * float(xp.min(curvature))
            limit = _kept_back(xp.maximum(distinct, least), curvature)
            residuals = _spread(limit, inverse, several) * (projected / (self.root * xp.sqrt(curvature)))

        @full_precision(self.unit)
        def scores(rows: slice) -> Array:
            unit, squares, weights = self.unit[rows, :], self.squares[rows, :], self.weights[rows][:, None]
            Y = self.Y[rows, :]
            codes = xp.astype(dense(Y) if V is None else Y @ V, dtype, copy=False) - mean_code
            fitted = unit @ encoder
            errors = codes - fitted
            # 1 − h as a sum of positive numbers, whose roundings cancel.
            room = xp.astype(self.outside[rows][:, None] + weights * (squares @ kept_back), dtype)
            room = _spread(room, inverse, several)
            if self.interpolates and bool(xp.any(self.interpolated[rows])):
                close = self.interpolated[rows][:, None] & (room < _CLOSE)
                errors = xp.where(close, unit @ residuals, errors)
                room = xp.where(close, _spread(weights * (squares @ limit), inverse, several), room)
            found = codes - errors / xp.maximum(room, float(xp.finfo(room.dtype).smallest_normal))
            found, codes = (found, codes) if shrunk is None else (shrunk * found, shrunk * codes)
            if turn is not None and V is not None:
                leverage = self.mean_leverage[rows] + self.weights[rows] * turn.leverages(fitted)
                pull = xp.astype(leverage / xp.maximum(1.0 - leverage, _LEAST_ROOM), dtype)[:, None]
                found = (found + pull * codes) @ V.T + (mean - pull * (dense(Y) - mean))
            else:
                found = (found if V is None else found @ V.T) + mean
            found = xp.astype(found, self.result, copy=False)
            if self.lone is not None:
                self.lone.hide(found, rows)
            return found

        return scores


def _kept_back(shrinkage: Array, curvature: Array) -> Array:
    """Return the shares ρ / (λ + ρ) of each direction that shrinkages leave unfitted."""
    xp = namespace(shrinkage)
    return xp.where(xp.isinf(shrinkage), 1.0, shrinkage / (curvature + shrinkage))


def _spread(columns: Array, inverse: Array | None, several: bool) -> Array:
    """Return the column of each direction, given those of distinct shrinkages; a single one serves all."""
    return take(columns, inverse, axis=1) if several else columns


def _times(A: Array | None, B: Array | None, dtype: Any) -> Array | None:
    """Product of two matrices in some precision, where None stands for the identity."""
    with full_precision(A):
        product = B if A is None else A if B is None else A @ B
    return None if product is None else namespace(product).astype(product, dtype)


class _Turn:
    """Leverages g of rows on the column space of a solution: f (RᵀXᵀYV)⁻¹ fᵀ for fitted values f."""

    def __init__(self, left: Array, projected: Array) -> None:
        xp = namespace(left)
        size = xp.linalg.vector_norm(left, axis=0)
        # Directions that rounding has made of nothing have no leverage.
        n = size.shape[0]
        self.lengths = xp.where(size > n * _EPS * xp.max(size), size, math.inf) if n else size
        inner = (left / self.lengths).T @ (projected / self.lengths)
        inner = 0.5 * (inner + inner.T)
        values, vectors = descending_eigh(inner)
        positive = values > n * _EPS * values[0] if n else values > 0
        self.root = vectors * xp.where(positive, 1.0 / xp.sqrt(xp.where(positive, values, 1.0)), 0.0)

    def leverages(self, fitted: Array) -> Array:
        xp = namespace(fitted)
        whitened = fitted @ xp.astype(self.root / self.lengths[:, None], fitted.dtype)
        return xp.astype(xp.vecdot(whitened, whitened), xp.float64)


class _LoneLabels:
    """Labels that no other row has: a fit without this row knows nothing about them."""

    def __init__(self, totals: Array, Y: Any, counted: Array) -> None:
        xp = namespace(totals)
        rare = totals <= 1.0
        self.exist = bool(xp.any(rare))
        if not self.exist:
            return
        self.columns: Any = np.flatnonzero(rare) if is_host(rare) else slice(None)
        present = xp.astype(dense(Y[:, self.columns]), xp.float64) * xp.astype(counted, xp.float64)[:, None]
        self.alone = (totals[self.columns] - present <= 0.0) & rare[self.columns]

    def hide(self, scores: Array, rows: slice) -> None:
        """Put such labels below all others."""
        if self.exist:
            found = scores[:, self.columns]
            where = namespace(scores).where
            scores[:, self.columns] = where(self.alone[rows, :], SquaredLoss().unseen_score, found)


# Thresholds and probabilities, by scores of rows that the model has not seen


def chosen_on_unseen(model: Any, data: Rows, params: Parameters) -> dict[str, Any]:
    """Return the cut and the calibration that are asked for, for a model that was just fitted to the data.

    They are the best ones for leave-one-out scores where these are in closed form (not if N coefficients are
    kept), or else for scores of a fifth of the rows. Without a positive example, the cut is that of the loss.
    """
    counted, most = data.counted, max(_LEAST_ROWS, _MOST_SCORES // data.Y.shape[1])
    if len(counted) < 2:
        if params.calibrate is not None:
            raise ValueError(f"calibrate={params.calibrate!r} needs at least 2 rows. Leave it out.")
        return {"cut": params.loss.threshold}
    closed = hasattr(model, "_regressions") and params.prune in (None, "auto")
    if closed and sums_suffice(params.loss, data) and road_of(data) != "compressed":
        if len(counted) > most:
            counted = np.sort(np.random.RandomState(_SEED).permutation(counted)[:most])
        rows, scores = counted, left_out_scores(model, data, params, counted, warm=True)
    else:
        rows = held_out_rows(data, most)
        fitted, X = fit_without(model, data, rows)
        scores = fitted.scores(X)
    place = Place.of(scores)
    known = None if data.mask is None else place.asarray(data.mask.known(rows))
    return chosen_on(place.asarray(take(data.Y, rows)), scores, params, known, data)


def chosen_on(Y: Array, scores: Array, params: Parameters, known: Array | None, data: Rows) -> dict[str, Any]:
    """Return the cut and the calibration that are asked for, by labels and scores of unseen rows."""
    found: dict[str, Any] = {}
    if isinstance(params.threshold, Cut):
        found["cut"] = _best_cut(Y, scores, params, known, data)
    if params.calibrate is not None:
        mask = None if known is None else to_numpy(known)
        found["calibration"] = Calibration.of(to_numpy(dense(Y)), to_numpy(scores), mask, params.calibrate)
    return found


def _best_cut(Y: Array, scores: Array, params: Parameters, known: Array | None, data: Rows) -> Any:
    """Return the best cut, where a model of the data lives; the natural one if nothing tells."""
    natural = params.loss.threshold
    xp = namespace(Y)
    if not bool(xp.any(xp.astype(Y, xp.bool))):  # unknown labels are 0
        return natural
    cut = best_threshold(
        Y,
        scores,
        params.threshold.metric,
        per_label=params.threshold.per_label,
        prior=params.threshold.prior,
        natural=natural,
        known=known,
    ).cut
    return cut if isinstance(cut, float) else data.home.asarray(cut, data.model_dtype.name)


def left_out_scores(
    model: Any, data: Rows, params: Parameters, rows: _Rows, *, warm: bool = False, precise: bool = False
) -> Array:
    """Leave-one-out scores of some rows, by a fit to all that starts from the last one if ``warm``."""
    quiet = Parameters(**vars(params) | {"callback": None, "verbose": 0})
    # All directions of a kernel matrix, before the fit asks for the leading ones only.
    space = coordinates_of(data, fit_intercept=params.fit_intercept)
    scorer = LeaveOneOut(space, data, rows, fit_intercept=params.fit_intercept, precise=precise)
    return scorer.of(model._regressions(data, quiet, warm=warm))(slice(None))


def fit_without(model: Any, data: Rows, rows: _Rows, **settings: Any) -> tuple[Any, Any]:
    """Return the record of a fit to the other rows, and what such a model takes for these."""
    others = np.setdiff1d(np.arange(data.X.shape[0]), rows)
    twin = clone(model)
    settings |= {"threshold": None, "calibrate": None, "callback": None, "verbose": 0, "warm_start": False}
    twin.set_params(**{name: value for name, value in settings.items() if name in twin.get_params()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the fit to all rows has warned
        fitted = twin._solved(data.some(others), twin._check_params())
    return fitted, data.features(rows, others)


def automatically_pruned(
    model: Any,
    fitted: Fitted,
    data: Rows,
    make_leader: Callable[[], tuple[Fitted, Any, Any, Any]] | None = None,
) -> Fitted:
    """Return a fit with as few coefficients as lose next to nothing, or as it is: see `threshold_for`.

    The threshold is found for a fit to the other rows; ``make_leader`` returns one that is there already, and
    X, Y and what is known of the rows held out.
    """
    if not is_sparse(data.X) or fitted.nbytes < SMALL or len(data.counted) < 2:
        return fitted
    if make_leader is not None:
        leader = make_leader()
    else:
        rows = held_out_rows(data, len(data.counted))
        part, X = fit_without(model, data, rows, prune=None)
        leader = part, X, take(data.Y, rows), None if data.mask is None else data.mask.known(rows)
    threshold = threshold_for(*leader)
    found = fitted if threshold is None else fitted.pruned(threshold=threshold)
    return found if found.nbytes < fitted.nbytes else fitted


def held_out_rows(data: Rows, most: int) -> _Rows:
    """Return a fifth of the rows, or fewer, with about their share of every label."""
    counted = data.counted
    labels = take(to_host(data.Y), counted)  # splits are made on the host
    share = min(_HELD_OUT, most / len(counted))
    found: _Rows = iterative_train_test_split(counted, labels, test_size=share, random_state=_SEED)[1]
    return found
