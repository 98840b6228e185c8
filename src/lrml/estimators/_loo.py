"""Leave-one-out scores without refitting: what a model would give each row, had it not seen it.

At a solution W = Σ_j r_j v_jᵀ of the penalised problem, the right singular vectors v_j and the shrinkages
ρ_j = ridge + c_j / 2σ_j, c_j the slope of the penalty at σ_j, turn the fit into separate ridge regressions of
the columns of YV. If they stay as they are, the fit without row i is known in closed form. In spectral
coordinates X̃ = (X − 1x̄ᵀ)Q with XᵀX = QΛQᵀ, for weights w that add up to n̄, T = (Y − 1ȳᵀ)V and fitted values
F = X̃R,

::

    h_ij = w_i (1/n̄ + x̃_iᵀ M_j x̃_i),   M_j = (Λ + ρ_j)⁻¹,       t̂_ij = t_ij − (t_ij − f_ij) / (1 − h_ij),
    ŝ_i = ȳ + t̂_i Vᵀ − g_i / (1 − g_i) · (y_i − ȳ)(I − VVᵀ),     g_i = w_i (1/n̄ + f_iᵀ (RᵀXᵀYV)⁻¹ f_i).

Two terms correct what that leaves out, to first order. The last term of ŝ is the turn of V: W changes by
A Vᵀ + R Bᵀ with VᵀB = 0. The two parts are orthogonal in the Hessian of the loss, so B solves a least-squares
problem of its own, with the curvature RᵀXᵀXR + diag(ρ_j σ_j²) = RᵀXᵀYV, and row i pulls at it by the part of
y_i that V does not span. The other term is that the penalty is linear in σ_j: along r_j itself it does not
curve, so M_j is the inverse of Λ + ρ_j − (ρ_j − ridge) u_j u_jᵀ, u_j = r_j/σ_j, which adds
(ρ_j − ridge)(x̃_iᵀ M_j u_j)² / (1 − (ρ_j − ridge) u_jᵀ M_j u_j) to the leverage.

The result is exact if the penalty is a ridge. Otherwise it is an estimate, and a little too good where labels
are rare and the penalty is strong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.linalg

from lrml._arrays import is_sparse, take
from lrml.estimators._fitting import TrainingData
from lrml.estimators._scores import Scores
from lrml.estimators._space import RidgeRegressions, Space
from lrml.losses import SquaredLoss

_Float64 = npt.NDArray[np.float64]
# 1 − h without any shrinkage: below the first, or so many roundings, a row is fitted without error; above
# the last, single precision is enough.
_INTERPOLATED, _ROUNDINGS, _ROOMY = 1e-9, 1e3, 1e-4
# A row that is fitted without error needs some shrinkage: no shrinkage is the limit of this share of the
# least eigenvalue. With 1 − h above the second, it is left out like any other row.
_LEAST_SHRINKAGE, _CLOSE = 1e-7, 1e-6
# Least 1 − h: below, the other rows say nothing about a row, up to rounding.
_LEAST_ROOM = 1e-14


class LeaveOneOut:
    """Leave-one-out scores of some rows of the training data, for solutions in the coordinates of a space.

    Scores of labels are in single precision, which is enough to rank them, unless they are to be ``precise``.
    """

    def __init__(
        self,
        space: Space,
        data: TrainingData,
        rows: npt.NDArray[np.int64],
        *,
        fit_intercept: bool,
        precise: bool = False,
    ) -> None:
        self.space = space
        curvature = space.problem.curvature
        self.weights = np.ones(len(rows)) if data.weights is None else data.weights[rows]
        self.mean_leverage = self.weights / data.total_weight * fit_intercept
        # X̃Λ^(−1/2) has no scale: its rows are at most of length 1/√w.
        unit = space.own_coordinates(data.X, rows, data.weights) / np.sqrt(curvature)
        self.outside = 1.0 - self.mean_leverage - self.weights * np.einsum("ij,ij->i", unit, unit)
        # Eigenvalues are rounded relative to the largest, and h with them.
        rounding = 1.0 + self.weights * (unit**2 @ (curvature.max(initial=0.0) / curvature))
        rounding *= _ROUNDINGS * np.finfo(np.float64).eps
        self.interpolated = self.outside < np.minimum(_INTERPOLATED, rounding)
        # Single precision is not enough if residuals are all rounding.
        ranks_labels = data.targets == "binary" and not precise
        self.result = np.float32 if ranks_labels else np.float64
        single = ranks_labels and self.outside.min() > _ROOMY
        self.dtype: npt.DTypeLike = np.float32 if single else np.float64
        self.unit = unit.astype(self.dtype)
        Y = take(data.Y, rows)
        self.Y = (Y.tocsr() if is_sparse(Y) else Y).astype(self.dtype)
        self.lone = _LoneLabels(data, rows) if data.targets == "binary" else None

    def is_exact(self, solution: RidgeRegressions) -> bool:
        """Whether the scores are those of refitting: the penalty is a ridge, and no direction is left out."""
        right, extra = solution.right, solution.extra
        whole = right is None or right.shape[1] == self.space.problem.shape[1]
        return whole and (extra is None or not extra.any())

    def of(self, solution: RidgeRegressions) -> Callable[[slice], Scores]:
        """Return the function that scores some of the rows by the fits without them."""
        left, right, ridge, extra = solution
        extra = np.zeros(left.shape[1]) if extra is None else extra
        shrinkage = ridge + extra
        problem, dtype = self.space.problem, self.dtype
        curvature = problem.curvature[:, None]
        # One column of leverages serves all directions with the same shrinkage.
        distinct, inverse = np.unique(shrinkage, return_inverse=True)
        kept_back = _kept_back(distinct, curvature).astype(dtype)
        place: Any = inverse if len(distinct) > 1 else slice(None)
        projected = problem.cross if right is None else problem.cross @ right
        V = _times(problem.labels, right)
        V = None if V is None else V.astype(dtype)
        encoder = (np.sqrt(curvature) * left).astype(dtype)
        mean = self.space.y_mean.astype(dtype)
        mean_code = mean if V is None else mean @ V
        turn = _Turn(left, projected) if V is not None and V.shape[1] < V.shape[0] else None
        # Rows along M_j u_j, scaled so that their squares are what the penalty does not shrink after all.
        curved = extra > 0
        along = _radial(left[:, curved], curvature + shrinkage[curved], extra[curved]) * np.sqrt(curvature)
        along = along.astype(dtype)
        if self.interpolated.any():
            limit = _kept_back(
                np.maximum(distinct, _LEAST_SHRINKAGE * curvature.min(initial=np.inf)), curvature
            )
            residuals = limit[:, place] * (projected / np.sqrt(curvature))

        def scores(rows: slice) -> Any:
            unit, weights = self.unit[rows], self.weights[rows, None]
            Y = self.Y[rows]
            codes = np.asarray(_dense(Y) if V is None else Y @ V, dtype=dtype) - mean_code
            fitted = unit @ encoder
            errors = codes - fitted
            # 1 − h as a sum of positive numbers, whose roundings cancel.
            room = (self.outside[rows, None] + weights * (unit**2 @ kept_back)).astype(dtype)[:, place]
            if self.interpolated[rows].any():
                close = self.interpolated[rows, None] & (room < _CLOSE)
                errors = np.where(close, unit @ residuals, errors)
                room = np.where(close, (weights * (unit**2 @ limit))[:, place], room)
            if curved.any():
                less = room[:, curved] - weights.astype(dtype) * (unit @ along) ** 2
                room[:, curved] = np.maximum(less, _LEAST_ROOM * room[:, curved])
            found = codes - errors / np.maximum(room, np.finfo(room.dtype).tiny)
            if turn is not None and V is not None:
                leverage = self.mean_leverage[rows] + self.weights[rows] * turn.leverages(fitted)
                pull = (leverage / np.maximum(1.0 - leverage, _LEAST_ROOM)).astype(dtype)[:, None]
                found = (found + pull * codes) @ V.T + (mean - pull * (_dense(Y) - mean))
            else:
                found = (found if V is None else found @ V.T) + mean
            found = found.astype(self.result, copy=False)
            if self.lone is not None:
                self.lone.hide(found, rows)
            return found

        return scores


def _kept_back(shrinkage: _Float64, curvature: _Float64) -> _Float64:
    """Return the shares ρ / (λ + ρ) of each direction that shrinkages leave unfitted."""
    return np.where(np.isinf(shrinkage), 1.0, shrinkage / (curvature + shrinkage))


def _times(A: _Float64 | None, B: _Float64 | None) -> _Float64 | None:
    """Product of two matrices, where None stands for the identity."""
    return B if A is None else A if B is None else A @ B


def _dense(Y: Any) -> npt.NDArray[Any]:
    return Y.toarray() if is_sparse(Y) else np.asarray(Y)


def _radial(left: _Float64, inverse: _Float64, extra: _Float64) -> _Float64:
    """Return √extra M_j u_j / √(1 − extra u_jᵀ M_j u_j) for the columns of left, u_j their directions."""
    size = np.linalg.norm(left, axis=0)
    U = left / np.where(size > 0, size, 1.0)
    along = U / inverse
    room = 1.0 - extra * np.einsum("ij,ij->j", U, along)
    return np.where(np.isfinite(extra), along * np.sqrt(extra / np.maximum(room, _LEAST_ROOM)), 0.0)


class _Turn:
    """Leverages g of rows on the column space of a solution: f (RᵀXᵀYV)⁻¹ fᵀ for fitted values f."""

    def __init__(self, left: _Float64, projected: _Float64) -> None:
        size = np.linalg.norm(left, axis=0)
        self.size = np.where(size > 0, size, 1.0)
        inner = (left / self.size).T @ (projected / self.size)
        values, vectors = scipy.linalg.eigh(0.5 * (inner + inner.T))
        # Directions that rounding has made of nothing have no leverage.
        positive = values > len(values) * np.finfo(np.float64).eps * values[-1] if len(values) else []
        self.root = vectors[:, positive] / np.sqrt(values[positive])

    def leverages(self, fitted: Scores) -> _Float64:
        whitened = fitted @ (self.root / self.size[:, None]).astype(fitted.dtype)
        found: _Float64 = np.einsum("ij,ij->i", whitened, whitened).astype(np.float64)
        return found


class _LoneLabels:
    """Labels that no other row has: a fit without this row knows nothing about them."""

    def __init__(self, data: TrainingData, rows: npt.NDArray[np.int64]) -> None:
        totals = data.positive_counts()
        self.columns = np.flatnonzero(totals <= 1.0)
        Y = take(data.Y, rows)[:, self.columns]
        counted = np.ones(len(rows)) if data.weights is None else data.weights[rows] > 0
        present = (Y.toarray() if is_sparse(Y) else Y) * counted[:, None]
        self.alone = totals[self.columns] - present <= 0.0

    def hide(self, scores: Scores, rows: slice) -> None:
        if len(self.columns):
            found = scores[:, self.columns]
            scores[:, self.columns] = np.where(self.alone[rows], SquaredLoss().unseen_score, found)
