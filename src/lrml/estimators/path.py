"""Paths: LRML for many theta, alpha and ridge, ML-Fro for many alpha, at little more than one fit's cost."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, overload

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_array

from lrml._door import check_features, memory_rows
from lrml.core.arrays import HOST, Array, Place, namespace
from lrml.core.checks import check_count
from lrml.core.coordinates import Coordinates, coordinates_of
from lrml.core.linalg import Factors
from lrml.core.moments import Statistics
from lrml.core.penalties import TailSum
from lrml.core.rows import Rows, Schema
from lrml.estimators._fitted import model_nbytes
from lrml.estimators._grid import grid_points, resolve_thetas
from lrml.estimators._parameters import CHECKS, Parameters, check_parameters, several
from lrml.estimators._scores import Scorer, sparse_is_cheaper
from lrml.solvers import SUCCESSES, PathPoint, Status, solve_path, stationarity_residual

_Float64 = npt.NDArray[np.float64]
_N_ALPHAS, _ALPHA_RATIO, _MAX_ITER, _TOL = 20, 1e-3, 500, 1e-4


@dataclass(frozen=True, eq=False)
class PathModel:
    """One model of a path: scores X coefᵀ + intercept.

    Attributes
    ----------
    theta, alpha, ridge
        The parameters of `LRML`.
    singular_values : array of shape (k,)
        Descending.
    rank : int
    nbytes : int
        Bytes of the factors and intercepts in double precision, as ``nbytes_`` in `LRML`.
    objective : float
    gap : float
        Estimated distance of the objective from its minimum, over the objective; ``tol`` limits it.
    residual : float
        Stationarity residual, as in `LRML`. Costs one proximal step, on first access.
    status : Status
        How the solver ended, by the same tests as in `LRML`.
    converged : bool
    n_iter : int
        Spectral decompositions, starting from the last model.
    """

    theta: int
    alpha: float
    ridge: float
    singular_values: _Float64
    objective: float
    gap: float
    status: Status
    n_iter: int
    left: _Float64
    right: _Float64
    space: Coordinates
    home: Place = HOST  # where the data came from, and the attributes are

    @property
    def rank(self) -> int:
        """Number of positive singular values."""
        return int(self.singular_values.shape[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the factors, or of their product if that is smaller, and of the intercepts."""
        return int(
            model_nbytes(self.rank, (self.space.x_mean.shape[0], self.space.y_mean.shape[0]), np.float64)
        )

    @property
    def converged(self) -> bool:
        """Whether ``tol`` was reached."""
        return self.status in SUCCESSES

    @cached_property
    def residual(self) -> float:
        """L‖W − prox_{1/L}(W − ∇f(W)/L)‖_F / ‖∇f(0)‖_F, computed on demand."""
        problem = self.space.problem.with_ridge(self.ridge)
        return stationarity_residual(problem, TailSum(self.theta, self.alpha), self.left @ self.right.T)

    @cached_property
    def factors(self) -> Factors:
        """Thin singular value decomposition of the d × L coefficients: U, s, V."""
        # The left side comes from a Gram matrix: columns of small singular values are orthogonal to that of a
        # large one to few digits only.
        return Factors.of_sides(*self._sides)

    @cached_property
    def _sides(self) -> tuple[Array, Array]:
        """Return A (d × k) and B (L × k) with coefficients B Aᵀ."""
        A, B = self.space.sides(self.left, self.right)
        return self.home.asarray(A), self.home.asarray(B)

    @property
    def coef(self) -> Array:
        """Coefficients, L × d, computed on demand."""
        left, right = self._sides
        return right @ left.T

    @property
    def intercept(self) -> Array:
        """Intercepts; −1 for a label without a positive example."""
        return self.home.asarray(self.space.intercept(*self.space.sides(self.left, self.right)))

    def decision_function(self, X: Any) -> Array:
        """Scores (n × L) of the rows of X, through the factors."""
        left, right = self._sides
        X = check_features(X, partial(check_array, input_name="X"))
        if X.shape[1] != left.shape[0]:
            raise ValueError(
                f"X must have the {left.shape[0]} features of the training data, got {X.shape[1]}. "
                "Pass the same columns, in the same order."
            )
        return Scorer(left, right.T, self.intercept, sparse_is_cheaper(X))(X)


class LRMLPath(Sequence[PathModel]):
    """The models of a path, by ridge, by theta and by descending alpha.

    Every model holds the factors of its coefficients in shared coordinates: r × k and m × k numbers, with r
    the rank of X, m = min(r, L) and k the rank of the model.
    """

    def __init__(self, models: Sequence[PathModel]) -> None:
        self.models = list(models)

    @overload
    def __getitem__(self, index: int) -> PathModel: ...
    @overload
    def __getitem__(self, index: slice) -> LRMLPath: ...
    def __getitem__(self, index: int | slice) -> PathModel | LRMLPath:
        return LRMLPath(self.models[index]) if isinstance(index, slice) else self.models[index]

    def __len__(self) -> int:
        return len(self.models)

    def __repr__(self) -> str:
        return f"LRMLPath({len(self)} models)"

    def as_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Columns: theta, alpha, ridge, rank, nbytes, objective, gap, residual, converged, n_iter."""
        names = ["theta", "alpha", "ridge", "rank", "nbytes", "objective"]
        names += ["gap", "residual", "converged", "n_iter"]
        return {name: np.array([getattr(model, name) for model in self]) for name in names}


def lrml_path(
    X: Any,
    Y: Any = None,
    thetas: Any = None,
    alphas: Any = None,
    ridges: Any = 0.0,
    *,
    n_alphas: int = _N_ALPHAS,
    alpha_ratio: float | None = _ALPHA_RATIO,
    fit_intercept: bool = True,
    targets: str = "binary",
    sample_weight: Any = None,
    max_iter: int = _MAX_ITER,
    tol: float = _TOL,
    device: Any = None,
) -> LRMLPath:
    """Fit `LRML` with the squared loss, on the coefficients, for every theta, alpha and ridge of a grid.

    Cost: one pass over the data and one decomposition, O(n d² + d³ + d² L), serve all models; each model then
    takes 4 to 5 eigendecompositions of a min(d, L)² matrix on average. For every theta and ridge, one chain
    of warm starts goes down from the largest alpha, where the model is the least-squares solution of rank
    theta, and one goes up from the smallest, near plain least squares; they meet in the middle.

    Parameters
    ----------
    X : array, sparse matrix or frame of shape (n, d), or Statistics
        `lrml.core.moments.Statistics` stand for rows that were summed up, of a stream or on a cluster; there
        is no Y then, and no weights.
    Y : array, sparse matrix or frame of shape (n, L)
        0/1 labels, or any finite numbers if ``targets="real"``.
    thetas : sequence of int or float, optional
        As in `LRML`. By default 0 (the trace norm), 5, 10, 20 and 40 % of the labels.
    alphas : sequence of float, optional
        By default ``n_alphas`` log-spaced values from `alpha_max` of the theta and ridge at hand down to
        ``alpha_ratio`` times that.
    ridges : float or sequence of float, default=0.0
    max_iter : int, default=500
        Most spectral decompositions for one model.
    tol : float, default=1e-4
        As in `LRML`; and so are ``fit_intercept``, ``targets`` and ``device``.
    n_alphas, alpha_ratio, sample_weight
        20 and 1e-3 by default; array of shape (n,).

    Returns
    -------
    LRMLPath

    Notes
    -----
    A model of the path stops by the same tests as a fit. For theta = 0 its objective is that of the fit to
    within ``tol``. For 0 < theta < min(d, L) the problem is not convex, and a warm start may lead to another
    stationary point than the start of a fit: either objective may be the lower one.

    Examples
    --------
    >>> from lrml import lrml_path
    >>> from lrml.datasets import load_yeast
    >>> path = lrml_path(*load_yeast().train, thetas=[0, 2], n_alphas=4)
    >>> path.as_dict()["rank"]
    array([ 0,  8, 14, 14,  2,  9, 14, 14])
    """
    params = _check(locals())
    data = _check_data(X, Y, sample_weight, params)
    params.thetas = resolve_thetas(params.thetas, data.model_shape)
    return _path(coordinates_of(data, fit_intercept=params.fit_intercept), params, data.home)


def alpha_max(
    X: Any,
    Y: Any = None,
    theta: Any = 0,
    *,
    ridge: float = 0.0,
    fit_intercept: bool = True,
    targets: str = "binary",
    sample_weight: Any = None,
) -> Any:
    """Least alpha from which the tail of `LRML` is zero: alpha_max(theta) = ‖∇f(W_theta)‖₂.

    W_theta is the least-squares solution of rank theta, which is stationary from this alpha on. For theta = 0
    this is 2‖XᵀY‖₂, of the centred data if there is an intercept.

    Parameters
    ----------
    X, Y, sample_weight
        As in `lrml_path`.
    theta : int, float or sequence of these, default=0
        As in `LRML`, except for "auto". Several take little longer than one.
    ridge : float, default=0.0
    fit_intercept : bool, default=True
    targets : {"binary", "real"}, default="binary"
        "real" accepts any finite numbers in Y.

    Returns
    -------
    float, or array with one number for each theta

    Examples
    --------
    >>> from lrml.datasets import load_yeast
    >>> from lrml.estimators import alpha_max
    >>> round(alpha_max(*load_yeast().train, theta=3), 1)
    75.4
    >>> alpha_max(*load_yeast().train, theta=[0, 3, 14]).round(1).tolist()
    [284.4, 75.4, 0.0]
    """
    several = isinstance(theta, Iterable) and not isinstance(theta, str)
    thetas = [CHECKS["theta"](one) for one in (theta if several else [theta])]
    params = _check({"ridge": ridge, "fit_intercept": fit_intercept, "targets": targets, "device": None})
    data = _check_data(X, Y, sample_weight, params)
    counts = [check_count("theta", one, 0, data.model_shape) for one in thetas]
    problem = coordinates_of(data, fit_intercept=params.fit_intercept).problem.with_ridge(params.ridge)
    found = problem.strongest_slopes(counts)
    return np.array(found) if several else found[0]


class RidgePath(NamedTuple):
    """Coefficients (m × L × d) and intercepts (m × L) for m values of alpha."""

    coefs: Array
    intercepts: Array


def ml_fro_path(
    X: Any,
    Y: Any,
    alphas: Iterable[float],
    *,
    fit_intercept: bool = True,
    sample_weight: Any = None,
    device: Any = None,
) -> RidgePath:
    """Solve `MLFro` with squared loss for many values of alpha with one decomposition.

    Parameters
    ----------
    X, Y, sample_weight
        As in `lrml_path`; Y may hold any finite numbers, and is None beside `Statistics`.
    alphas : iterable of float
        At least 0.
    fit_intercept : bool, default=True
    device : str, optional
        As in `LRML`.

    Returns
    -------
    RidgePath

    Examples
    --------
    >>> from lrml.datasets import load_yeast
    >>> from lrml.estimators import ml_fro_path
    >>> coefs, intercepts = ml_fro_path(*load_yeast().train, alphas=[0.1, 1.0, 10.0])
    >>> coefs.shape
    (3, 14, 103)
    """
    params = _check({"fit_intercept": fit_intercept, "targets": "real", "device": device})
    strengths = several("alphas", CHECKS["alpha"], alphas, repeated=True)
    data = _check_data(X, Y, sample_weight, params)
    space = coordinates_of(data, fit_intercept=params.fit_intercept)
    problem = space.problem
    # With more labels than features, the columns of cross are rotated labels: rotate back.
    cross = problem.cross if problem.labels is None else problem.cross @ problem.labels.T
    place, home, n_labels = data.place, data.home, space.y_mean.shape[0]
    coefs = home.zeros((len(strengths), n_labels, data.X.shape[1]))
    intercepts = home.zeros((len(strengths), n_labels))
    whole = place.xp.eye(n_labels, dtype=cross.dtype, device=place.device)
    for i, alpha in enumerate(strengths):
        left = space.lift.model_side(space.basis @ (cross / (problem.curvature[:, None] + alpha)))
        coefs[i, :, :] = home.asarray(left.T)
        intercepts[i, :] = home.asarray(space.intercept(left, whole))
    return RidgePath(coefs, intercepts)


def _check(arguments: dict[str, Any]) -> Parameters:
    """Check the parameters among the arguments of a function; None stands for the default of a path."""
    defaults = {"ridges": 0.0, "n_alphas": _N_ALPHAS, "max_iter": _MAX_ITER, "tol": _TOL}
    given = {name: value for name, value in arguments.items() if name in CHECKS}
    unset = [name for name in given if given[name] is None and name in defaults]
    given |= {name: defaults[name] for name in unset}
    return check_parameters(given, CHECKS, ("thetas", "alphas", "alpha_ratio", "device"))


def _check_data(X: Any, Y: Any, sample_weight: Any, given: Parameters) -> Rows:
    """Check data as an estimator does; all labels must be known."""
    if isinstance(X, Statistics):
        if Y is not None or sample_weight is not None:
            raise ValueError(
                "Statistics have labels and weights in them, got Y or sample_weight as well. Leave these out."
            )
        schema = Schema(X.n_features, X.n_labels, targets=given.targets)
        return Rows.of_sums(X, schema)
    data = memory_rows(X, Y, sample_weight, targets=given.targets, device=given.device)
    if data.mask is not None:
        raise ValueError(
            "a path needs to know all labels, got a Y that contains NaN. "
            "Use LRML or LRMLCV, which leave unknown labels out, or impute or drop those rows."
        )
    return data


def _path(space: Coordinates, params: Parameters, home: Place) -> LRMLPath:
    given = params.thetas, params.alphas, params.ridges, params.n_alphas, params.alpha_ratio
    points = grid_points(space.problem, *given)
    parts = {ridge: space.problem.with_ridge(ridge) for ridge in params.ridges}

    def keep(index: int, found: PathPoint) -> PathModel:
        left, right = found.regressions.sides
        if right is None:
            right = namespace(left).eye(left.shape[1], dtype=left.dtype, device=left.device)
        U, s, V = Factors.of_sides(left, right)
        kept = int(namespace(s).count_nonzero(s > 0))  # they descend
        return PathModel(
            *points[index][:3],
            singular_values=home.asarray(s[:kept]),
            objective=found.objective,
            gap=found.gap,
            status=found.status,
            n_iter=found.n_steps,
            left=(U * s)[:, :kept],
            right=V[:, :kept],
            space=space,
            home=home,
        )

    pairs = [(parts[point.ridge], point.penalty) for point in points]
    models = solve_path(pairs, keep, tol=params.tol, max_iter=params.max_iter)
    _warn_of_open_ends(models, params.max_iter)
    return LRMLPath(models)


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
