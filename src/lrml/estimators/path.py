"""Paths: LRML for many theta, alpha and ridge, at little more than the price of one fit."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from lrml import _validation as check
from lrml.estimators._fitting import check_feature_count, warn_of_scales
from lrml.estimators._grid import Grid, GridPoint, chains_of, check_grid
from lrml.estimators._path_models import LRMLPath, PathModel, Space
from lrml.solvers import ChainPoint, solve_chains
from lrml.solvers import alpha_max as alpha_max_of_problem
from lrml.statistics import Statistics

_MAX_ITER, _TOL = 500, 1e-4


def lrml_path(
    X: Any,
    Y: Any,
    thetas: Any = None,
    alphas: Any = None,
    ridges: Any = 0.0,
    *,
    n_alphas: int = 20,
    alpha_ratio: float = 1e-3,
    fit_intercept: bool = True,
    targets: str = "binary",
    sample_weight: Any = None,
    max_iter: int = _MAX_ITER,
    tol: float = _TOL,
) -> LRMLPath:
    """Fit `LRML` with the squared loss for every theta, alpha and ridge of a grid.

    One pass over the data and one decomposition serve all models. For every theta and ridge, one chain of
    warm starts comes down from the largest alpha, where the model is the least-squares solution of rank
    theta, and one comes up from the smallest, next to plain least squares; they meet in the middle.

    Parameters
    ----------
    X : array, sparse matrix or frame of shape (n, d)
    Y : array, sparse matrix or frame of shape (n, L)
        0/1 labels.
    thetas : sequence of int or float, optional
        As in `LRML`: counts, or shares of the labels. By default 0 (the trace norm), 5, 10, 20 and 40 % of
        the labels.
    alphas : sequence of float, optional
        By default ``n_alphas`` log-spaced values from `alpha_max` of the theta and ridge at hand down to
        ``alpha_ratio`` times that.
    ridges : float or sequence of float, default=0.0
    n_alphas : int, default=20
    alpha_ratio : float, default=1e-3
    fit_intercept : bool, default=True
    targets : {"binary", "real"}, default="binary"
        "real" accepts any finite numbers in Y.
    sample_weight : array of shape (n,), optional
    max_iter : int, default=500
        Most spectral decompositions for one model.
    tol : float, default=1e-4
        As in `LRML`: upper limit of the estimated gap of the objective, over the objective.

    Returns
    -------
    LRMLPath

    Notes
    -----
    A model of the path ends by the same tests as a fit (``status``) and reports the same ``residual``. For
    theta = 0 the problem is convex, and its objective is that of the fit to within ``tol``. For
    0 < theta < min(d, L) it is not: a warm start from the neighbouring alpha and the start of a fit may lead
    to different stationary points, and then either objective may be the lower one.

    Examples
    --------
    >>> from lrml import lrml_path
    >>> from lrml.datasets import load_yeast
    >>> path = lrml_path(*load_yeast().train, thetas=[0, 2], n_alphas=4)
    >>> path.as_dict()["rank"]
    array([ 0,  8, 14, 14,  2,  9, 14, 14])
    """
    grid = check_grid(thetas, alphas, ridges, n_alphas, alpha_ratio)
    targets = check.check_choice("targets", targets, ("binary", "real"))
    statistics = _summarise(X, Y, targets, sample_weight)
    return _path(statistics, grid, fit_intercept, targets == "binary", max_iter, tol)


def lrml_path_from_statistics(
    statistics: Statistics,
    thetas: Any = None,
    alphas: Any = None,
    ridges: Any = 0.0,
    *,
    n_alphas: int = 20,
    alpha_ratio: float = 1e-3,
    fit_intercept: bool = True,
    targets: str = "binary",
    max_iter: int = _MAX_ITER,
    tol: float = _TOL,
) -> LRMLPath:
    """`lrml_path` for data that is known through its `Statistics` only: a stream, a cluster, a fold.

    Parameters
    ----------
    statistics : Statistics
    thetas, alphas, ridges, n_alphas, alpha_ratio, fit_intercept, targets, max_iter, tol
        As in `lrml_path`.

    Returns
    -------
    LRMLPath
    """
    if not isinstance(statistics, Statistics):
        raise TypeError(
            f"statistics must be lrml.statistics.Statistics, got {type(statistics).__name__}. "
            "Make them with Statistics.from_arrays(X, Y), or pass X and Y to lrml_path."
        )
    grid = check_grid(thetas, alphas, ridges, n_alphas, alpha_ratio)
    binary = check.check_choice("targets", targets, ("binary", "real")) == "binary"
    return _path(statistics, grid, fit_intercept, binary, max_iter, tol)


def alpha_max(
    X: Any,
    Y: Any,
    theta: int | float,
    *,
    ridge: float = 0.0,
    fit_intercept: bool = True,
    sample_weight: Any = None,
) -> float:
    """Least alpha from which on the tail of `LRML` is zero: alpha_max(theta) = ‖∇f(W_theta)‖₂.

    W_theta is the least-squares solution of rank theta; from there on it is stationary. For theta = 0 this is
    2‖XᵀY‖₂, of the centred data if there is an intercept.

    Parameters
    ----------
    X, Y, theta, ridge, fit_intercept, sample_weight
        As in `LRML` and its ``fit``.

    Returns
    -------
    float

    Examples
    --------
    >>> from lrml.datasets import load_yeast
    >>> from lrml.estimators import alpha_max
    >>> round(alpha_max(*load_yeast().train, theta=3), 1)
    75.4
    """
    ridge = check.check_nonnegative("ridge", ridge, "Pass ridge=0 for none.")
    fit_intercept = check.check_flag("fit_intercept", fit_intercept)
    statistics = _summarise(X, Y, "real", sample_weight)
    count = check.check_theta(theta, statistics.n_features, statistics.n_labels)
    space = Space.from_statistics(statistics, fit_intercept=fit_intercept, binary=False)
    return alpha_max_of_problem(space.problem.with_ridge(ridge), count)


def _summarise(X: Any, Y: Any, targets: str, sample_weight: Any) -> Statistics:
    check.check_unique_columns(X, "X")
    X = check_array(X, accept_sparse=["csr", "csc"], dtype=[np.float64, np.float32], input_name="X")
    check_feature_count(X.shape[1], "lrml_path")
    values, _, mask = check.check_targets(Y, targets, allow_unknown=True)
    if mask is not None:
        raise ValueError(
            "a path needs to know all labels, got a Y that contains NaN. "
            "Use LRML or LRMLCV, which leave unknown labels out, or impute or drop those rows."
        )
    warn_of_scales(X)
    return Statistics.from_arrays(X, values, check.check_sample_weight(sample_weight, X.shape[0]))


def _path(
    statistics: Statistics, grid: Grid, fit_intercept: Any, binary: bool, max_iter: Any, tol: Any
) -> LRMLPath:
    fit_intercept = check.check_flag("fit_intercept", fit_intercept)
    max_iter = check.check_max_iter(max_iter)
    tol = check.check_nonnegative("tol", tol, "Pass a small number such as tol=1e-4.")
    space = Space.from_statistics(statistics, fit_intercept=fit_intercept, binary=binary)
    points = grid.points(space.problem, statistics.n_features, statistics.n_labels)
    chains = chains_of(points, range(len(points)))
    problems = [space.problem.with_ridge(ridge) for ridge, _ in chains]

    def keep(index: int, found: ChainPoint) -> tuple[int, PathModel]:
        return index, _model(points[index], found, space)

    found = solve_chains(problems, [chain for _, chain in chains], keep, tol=tol, max_iter=max_iter)
    models = dict(pair for results in found for pair in results)
    _warn_of_open_ends(list(models.values()), max_iter)
    return LRMLPath([models[index] for index in range(len(points))])


def _model(point: GridPoint, found: ChainPoint, space: Space) -> PathModel:
    return PathModel(
        *point,
        singular_values=found.sigma,
        objective=found.objective,
        gap=found.gap,
        status=found.status,
        n_iter=found.n_steps,
        left=found.left,
        right=found.right,
        space=space,
    )


def _warn_of_open_ends(models: list[PathModel], max_iter: int) -> None:
    late = [model for model in models if not model.converged]
    if late:
        worst = max(model.gap for model in late)
        reason = f"at max_iter={max_iter}; raise max_iter or loosen tol"
        if all(model.n_iter < max_iter for model in late):
            reason = "as steps no longer brought anything; loosen tol, scale X or raise ridges"
        warnings.warn(
            f"{len(late)} of {len(models)} models stopped before tol was reached (gap at most {worst:.1e}), "
            f"{reason}.",
            ConvergenceWarning,
            stacklevel=4,  # the line that called lrml_path
        )
