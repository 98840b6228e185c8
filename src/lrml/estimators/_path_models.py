"""Models of a path: factors in coordinates that they share, and coefficients on demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array

from lrml._arrays import thin_svd
from lrml.losses import SquaredLoss
from lrml.penalties import TailSum
from lrml.problem import SpectralProblem
from lrml.solvers import SUCCESSES, Factors, Status, stationarity_residual
from lrml.statistics import Statistics

_Float64 = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Space:
    """What turns solutions in spectral coordinates into models: the bases and the means, shared by all."""

    problem: SpectralProblem
    x_mean: _Float64
    y_mean: _Float64
    unseen: npt.NDArray[np.bool_]

    @classmethod
    def from_statistics(cls, statistics: Statistics, *, fit_intercept: bool, binary: bool) -> Space:
        """Decompose the moments once."""
        problem = SpectralProblem.from_moments(statistics.moments(fit_intercept=fit_intercept))
        unseen = (statistics.y_mean == 0) & binary
        used = float(fit_intercept)
        return cls(problem, used * statistics.x_mean, used * statistics.y_mean, unseen)


@dataclass(frozen=True, eq=False)
class PathModel:
    """One model of a path: scores X coefᵀ + intercept.

    Attributes
    ----------
    theta, alpha, ridge
        The parameters of `LRML`.
    singular_values : array of shape (k,)
        Descending.
    objective : float
    gap : float
        Estimate of how far the objective is above the least one, over the objective; what ``tol`` limits.
    residual : float
        Stationarity residual, as in `LRML`. Costs one proximal step, when it is first asked for.
    status : Status
        How the solver ended, by the same tests as in `LRML`.
    converged : bool
    n_iter : int
        Spectral decompositions that it took from the last model.
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
    space: Space

    @property
    def rank(self) -> int:
        """Number of positive singular values."""
        return len(self.singular_values)

    @property
    def converged(self) -> bool:
        """Whether ``tol`` was reached."""
        return self.status in SUCCESSES

    @cached_property
    def residual(self) -> float:
        """L‖W − prox_{1/L}(W − ∇f(W)/L)‖_F / ‖∇f(0)‖_F, made on demand."""
        problem = self.space.problem.with_ridge(self.ridge)
        return stationarity_residual(problem, TailSum(self.theta, self.alpha), self.left @ self.right.T)

    @cached_property
    def factors(self) -> Factors:
        """Thin singular value decomposition of the d × L coefficients: U, s, V."""
        # A Gram matrix gave the left side: next to a large singular value, the columns of small ones are not
        # orthogonal to its column to many digits.
        left, right = self._sides
        Q, triangle = np.linalg.qr(left)
        U, s, Vt = thin_svd(triangle)
        return Factors(Q @ U, s, right @ Vt.T)

    @cached_property
    def _sides(self) -> tuple[_Float64, _Float64]:
        """Return A (d × k) and B (L × k) with coefficients B Aᵀ."""
        left, right = self.space.problem.restore(self.left, self.right)
        return left, right

    @property
    def coef(self) -> _Float64:
        """Coefficients, L × d, made on demand."""
        left, right = self._sides
        return right @ left.T

    @property
    def intercept(self) -> _Float64:
        """Intercepts; −1 for a label without a positive example."""
        left, right = self._sides
        intercept: _Float64 = self.space.y_mean - right @ (self.space.x_mean @ left)
        intercept[self.space.unseen] = SquaredLoss().unseen_score
        return intercept

    def decision_function(self, X: Any) -> _Float64:
        """Scores (n × L) of the rows of X, through the factors."""
        left, right = self._sides
        X = check_array(X, accept_sparse=["csr", "csc"], dtype=np.float64, input_name="X")
        if X.shape[1] != len(left):
            raise ValueError(
                f"X must have the {len(left)} features of the training data, got {X.shape[1]}. "
                "Pass the same columns, in the same order."
            )
        scores: _Float64 = np.asarray(X @ left) @ right.T + self.intercept
        return scores


class LRMLPath(Sequence[PathModel]):
    """The models of a path, by ridge, by theta and by descending alpha.

    Every model holds the factors of its coefficients, in coordinates that all share: r × k and m × k numbers,
    with r the rank of X, m = min(r, L) and k the rank of the model.
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

    def __iter__(self) -> Iterator[PathModel]:
        return iter(self.models)

    def __repr__(self) -> str:
        return f"LRMLPath({len(self)} models)"

    def as_dict(self) -> dict[str, npt.NDArray[Any]]:
        """Columns as arrays: theta, alpha, ridge, rank, objective, gap, residual, converged, n_iter."""
        names = ("theta", "alpha", "ridge", "rank", "objective", "gap", "residual", "converged", "n_iter")
        return {name: np.array([getattr(model, name) for model in self]) for name in names}
