"""Paths: LRML for a whole grid of theta, alpha and ridge, at little more than one fit's cost."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from lrml._shown import level_of_user, shown
from lrml.core.arrays import namespace
from lrml.core.coordinates import Coordinates, coordinates_of
from lrml.core.linalg import Factors
from lrml.core.moments import Statistics
from lrml.core.rows import Rows, Schema
from lrml.estimators._criteria import GridPoint
from lrml.estimators._fit import record
from lrml.estimators._fitted import model_nbytes
from lrml.estimators._plans import DEFAULT_THETAS, grid_points, resolve_counts
from lrml.estimators._spec import CHECKS, check_parameters
from lrml.estimators.lrml import LRML
from lrml.estimators.spectral import SpectralRegressor
from lrml.solvers import SUCCESSES, PathPoint, result_of, solve_path
from lrml.thresholds import Cut

_N_ALPHAS, _ALPHA_RATIO, _MAX_ITER, _TOL = 20, 1e-3, 500, 1e-4


class LRMLPath(Sequence[Any]):
    """Fitted estimators by ridge, by theta and by descending alpha, made when they are looked at.

    Until then each of them takes r × k and m × k numbers, with r the rank of X, m = min(r, L) and k the rank
    of the model, in coordinates that all share.
    """

    def __init__(
        self,
        estimator: Any,
        rows: Rows,
        coordinates: Coordinates,
        models: Sequence[tuple[GridPoint, PathPoint]],
    ) -> None:
        self._shared, self._models = (estimator, rows, coordinates), models
        self._made: dict[int, Any] = {}

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return LRMLPath(*self._shared, self._models[index])
        place = range(len(self))[index]
        if place not in self._made:
            self._made[place] = _model(*self._shared, *self._models[place])
        return self._made[place]

    def __len__(self) -> int:
        return len(self._models)

    def __repr__(self) -> str:
        return f"LRMLPath({len(self)} models)"

    def as_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Columns: theta, alpha, ridge, rank, nbytes, objective, gap, converged, n_iter."""
        _, rows, _ = self._shared
        names = ("theta", "alpha", "ridge", "rank", "nbytes", "objective", "gap", "converged", "n_iter")
        table = []
        for point, found in self._models:
            rank, ended = found.regressions.left.shape[1], found.status in SUCCESSES
            nbytes = model_nbytes(rank, rows.model_shape, rows.model_dtype)
            table.append((*point[:3], rank, nbytes, found.objective, found.gap, ended, found.n_steps))
        return {name: np.array([row[place] for row in table]) for place, name in enumerate(names)}


def _model(estimator: Any, rows: Rows, coordinates: Coordinates, point: GridPoint, found: PathPoint) -> Any:
    """Return the estimator that a fit would have given, but for its start."""
    model = clone(estimator).set_params(theta=point.theta, alpha=point.alpha, ridge=point.ridge)
    spec, outcome = model._spec(model._check_params(), rows), result_of(found)
    model.fitted_ = record(rows, spec, outcome, coordinates.model(outcome.factors), coordinates.unseen)
    return model


def lrml_path(
    X: Any,
    Y: Any = None,
    thetas: Any = None,
    alphas: Any = None,
    ridges: Any = 0.0,
    *,
    estimator: Any = None,
    n_alphas: int = _N_ALPHAS,
    alpha_ratio: float | None = _ALPHA_RATIO,
    sample_weight: Any = None,
) -> LRMLPath:
    """Fit `LRML`, or `SpectralRegressor`, with the squared loss for every theta, alpha and ridge of a grid.

    Cost: one pass over the data and one decomposition, O(n d² + d³ + d² L), serve all models; each model on
    the coefficients then takes 4 to 5 eigendecompositions of a min(d, L)² matrix on average, and one on the
    predictions O(L).

    Parameters
    ----------
    X : array, sparse matrix or frame of shape (n, d), or Statistics
        `lrml.core.moments.Statistics` stand for rows that were summed up, of a stream or on a cluster; there
        is no Y then, and no weights.
    Y : array, sparse matrix or frame of shape (n, L)
        All labels must be known.
    thetas : sequence of int or float, optional
        As in `LRML`. By default 0 (the trace norm), 5, 10, 20 and 40 % of the labels.
    alphas : sequence of float, optional
        By default ``n_alphas`` log-spaced values from the least alpha without a tail, ‖∇f(W_theta)‖₂ for the
        coefficients (W_theta least squares of rank theta), down to ``alpha_ratio`` times that.
    ridges : float or sequence of float, default=0.0
    estimator : LRML or SpectralRegressor, optional
        All else, such as ``space`` (by default the coefficients), ``fit_intercept``, ``kernel``, ``tol``,
        ``max_iter`` (500 by default) and ``device``; the threshold is given, nothing calibrated or pruned.
    n_alphas, alpha_ratio, sample_weight
        20 and 1e-3 by default; array of shape (n,).

    Returns
    -------
    LRMLPath
        A sequence of fitted estimators; ``as_dict()`` is a table of them.

    Notes
    -----
    Each model starts from its neighbour (docs/solver.md). Where the problem is not convex, on coefficients
    with 0 < theta < min(d, L), it may end at another stationary point than a fit: either may be the better.

    Examples
    --------
    >>> from lrml import lrml_path
    >>> from lrml.datasets import load_yeast
    >>> path = lrml_path(*load_yeast().train, thetas=[0, 2], n_alphas=4)
    >>> path.as_dict()["rank"]
    array([ 0,  8, 14, 14,  2,  9, 14, 14])
    >>> round(path[1].score(*load_yeast().test), 3)
    0.755
    """
    asked = {"thetas": thetas, "alphas": alphas, "ridges": 0.0 if ridges is None else ridges}
    asked |= {"n_alphas": n_alphas, "alpha_ratio": alpha_ratio}
    given = check_parameters(asked, CHECKS, dict.fromkeys(asked))
    if not (estimator is None or isinstance(estimator, LRML | SpectralRegressor)):
        raise TypeError(f"estimator is {shown(estimator)}. Pass LRML(…) or SpectralRegressor(…).")
    estimator = clone(LRML() if estimator is None else estimator)
    space = estimator.space or "coefficients"
    params = estimator.set_params(theta=0, alpha=0.0, ridge=0.0, space=space)._check_params()
    later = isinstance(params.threshold, Cut) or params.calibrate is not None or params.prune is not None
    if later or params.loss.name != "squared":
        raise ValueError(f"{estimator}: a path takes no other loss, Cut, calibrate or prune. Use LRMLCV.")
    if isinstance(X, Statistics):
        if Y is not None or sample_weight is not None:
            raise ValueError("Statistics have labels and weights in them. Leave out Y and sample_weight.")
        rows = Rows.of_sums(X, Schema(X.n_features, X.n_labels, targets=estimator._targets))
    else:
        rows = estimator._rows(params, X, Y, sample_weight, None)
    if not rows.all_known:
        raise ValueError("Y contains NaN, and a path needs to know all labels. Use LRML, or impute them.")
    counts = resolve_counts("theta", given.thetas or DEFAULT_THETAS, 0, rows.model_shape)
    coordinates = coordinates_of(rows, fit_intercept=params.fit_intercept)
    whole, strengths = coordinates.problem, (given.alphas, given.ridges, given.n_alphas or _N_ALPHAS)
    points = grid_points(whole, counts, *strengths, given.alpha_ratio or _ALPHA_RATIO, space)
    parts = {ridge: whole.with_ridge(ridge) for ridge in given.ridges}
    max_iter = _MAX_ITER if params.max_iter is None else params.max_iter
    pairs = [(parts[point.ridge], point.penalty) for point in points]
    tol = _TOL if params.tol is None else params.tol
    found = solve_path(pairs, lambda _, point: _seen(point), space=space, tol=tol, max_iter=max_iter)
    late = [one for one in found if one.status not in SUCCESSES]
    if late:
        worst = max(late, key=lambda one: one.gap)
        warnings.warn(
            f"{len(late)} of {len(found)} models, with gaps up to {worst.gap:.1e}: {worst.status.value}",
            ConvergenceWarning,
            stacklevel=level_of_user(),
        )
    if rows.kernel is None:  # models do not need the rows
        rows = replace(Rows.of_sums(None, rows.schema), home=rows.home)
    return LRMLPath(estimator, rows, coordinates, list(zip(points, found, strict=True)))


def _seen(found: PathPoint) -> PathPoint:
    """Return a solution as left rightᵀ, without singular values that are 0."""
    left, right = found.regressions.sides
    if right is None:
        U, s, right = Factors.of(left)
        kept = int(namespace(s).count_nonzero(s > 0))  # they descend
        left, right = (U * s)[:, :kept], right[:, :kept]
    return replace(found, regressions=found.regressions._replace(left=left, right=right, shrunk=None))
