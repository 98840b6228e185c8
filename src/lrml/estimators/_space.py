"""Least squares with all labels known, in spectral coordinates: the way there, and back to a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from lrml.core.arrays import Array, Place, is_host, is_sparse, namespace, take
from lrml.core.coordinates import differ_widely
from lrml.core.kernels import LeftOut, centred_kernel, dual_coordinates, row_coordinates, row_kernel
from lrml.core.losses import Loss, SquaredLoss
from lrml.core.moments import CentredRows, Statistics, dense_product, without_weightless
from lrml.core.quadratic import SpectralProblem
from lrml.core.subspace import Found, Subspace, estimated_eigenvalues
from lrml.estimators._kernels import Kernel, kernel_block
from lrml.solvers import Factors

_Float64 = npt.NDArray[np.float64]
_Floats = npt.NDArray[np.floating[Any]]
_Bools = npt.NDArray[np.bool_]
_Result = TypeVar("_Result")

# Sparse features of very different scales go through XᵀX, which keeps more digits, up to this number.
_MOST_WIDE_FEATURES = 5000
# Kernel values have larger rounding errors than sums: in 400 random problems with repeated rows, eigenvalues
# that should be 0 were up to 1.4 n · eps · max(λ₁, largest value).
_KERNEL_ROUNDING = 4
MOST_COMPRESSED, MOST_EXTENSIONS = 5e-4, 4
"""What a subspace may cost, over the objective, and how often it is extended until it costs less."""

# Smaller objectives, over ‖Y‖², are not told from 0 in a subspace.
_LEAST_OBJECTIVE = 1e-8
# Columns of features that are made at a time from dual vectors of a subspace.
_FEW_COLUMNS = 32


def with_unseen(intercept: Array, unseen: Array, loss: Loss) -> Array:
    """Give labels without a positive example a score below those of real candidates."""
    xp = namespace(intercept)
    return xp.where(unseen, xp.full_like(intercept, loss.unseen_score), intercept)


class RidgeRegressions(NamedTuple):
    """A solution W = left rightᵀ in spectral coordinates, as ridge regressions of the columns of Y right.

    Attributes
    ----------
    left : array of shape (r, k)
    right : array of shape (m, k), optional
        Orthonormal columns; None stands for the identity.
    ridge : float
    extra : array of shape (k,), optional
        left_j = (Λ + ridge + extra_j)⁻¹ XᵀY right_j; None stands for zeros, that is, a ridge only.
    """

    left: Array
    right: Array | None
    ridge: float
    extra: Array | None = None


@dataclass(frozen=True, eq=False)
class Space:
    """A problem in spectral coordinates, and the maps between them and the space of the model.

    With the coordinates X̃ of some rows, a solution left rightᵀ scores them as 1ȳᵀ + X̃ left (R right)ᵀ, R the
    rotation of the labels, if the problem has one.
    """

    problem: SpectralProblem  # without a ridge
    y_mean: Array  # zeros without an intercept
    unseen: Array  # labels without a positive example; none if the targets are real
    x_mean: Array  # zeros without an intercept

    @classmethod
    def from_statistics(cls, statistics: Statistics, *, fit_intercept: bool, targets: str) -> Space:
        """Decompose the moments once."""
        problem = SpectralProblem.from_moments(statistics.moments(fit_intercept=fit_intercept))
        unseen = (statistics.y_mean == 0) & (targets == "binary")
        used = float(fit_intercept)
        return cls(problem, used * statistics.y_mean, unseen, used * statistics.x_mean)

    @classmethod
    def from_rows(cls, X: Any, Y: Any, weights: Array | None, *, fit_intercept: bool, targets: str) -> Space:
        """Decompose XXᵀ (n × n) instead of XᵀX, or X itself if features differ much in scale."""
        X, Y, weights = without_weightless(X, Y, weights)
        rows = CentredRows.of(X, Y, weights)
        used = float(fit_intercept)
        scatter = rows.scatter
        wide = differ_widely(scatter, scatter + (1.0 - used) * rows.weight * rows.x_mean**2)
        if wide and is_sparse(X) and X.shape[1] <= _MOST_WIDE_FEATURES:
            statistics = Statistics.from_arrays(X, Y, weights)
            return cls.from_statistics(statistics, fit_intercept=fit_intercept, targets=targets)
        means = (used * rows.y_mean, (rows.y_mean == 0) & (targets == "binary"), used * rows.x_mean)
        if not fit_intercept:
            rows = rows.uncentred(X, Y)
        if wide and not is_sparse(X):
            return cls(SpectralProblem.from_coordinates(row_coordinates(rows), rows.yy), *means)
        found, _ = dual_coordinates(row_kernel(rows), rows, max(X.shape))
        return LinearDual(SpectralProblem.from_coordinates(found, rows.yy), *means, rows)

    @classmethod
    def compressed(
        cls,
        X: Any,
        Y: Any,
        weights: Array | None,
        *,
        fit_intercept: bool,
        targets: str,
        ridge: float,
        bare: bool,
        rough: bool,
        directions: int | None = None,
    ) -> Space:
        """Decompose inside a subspace that has the solutions for all ridges from the given one on."""
        rows, means = _rows_and_means(X, Y, weights, fit_intercept=fit_intercept, targets=targets)
        return in_subspace(
            Subspace.for_ridges(rows, ridge, bare=bare, rough=rough, directions=directions), means
        )

    def model_rows(self, X: Any) -> Any:
        """Rows as the coefficients of a model meet them."""
        return X

    def coordinates(self, X: Any) -> Array:
        """Rows of X in spectral coordinates: X̃ = (X − 1x̄ᵀ) Q."""
        rows, features = self.model_rows(X), self.problem.features
        if not is_host(features):
            rows = Place.of(features).asarray(rows, "float64")
        rotated = rows @ features
        rotated -= self.x_mean @ features
        return rotated

    def own_coordinates(self, X: Any, rows: Any, weights: Array | None) -> Array:
        """Return some rows of the training data X, with their weights, in spectral coordinates."""
        return self.coordinates(take(X, rows))

    def model_side(self, left: Array) -> Array:
        """Left side of a solution in the space of the model, given that in the problem's features (d × k)."""
        return left

    def compress(self, U: Array, s: Array, V: Array) -> Array:
        """Coefficients U diag(s) Vᵀ in spectral coordinates, W̃ = QᵀWR."""
        labels = self.problem.labels
        inside: Array = self.inside(U * s) @ (V if labels is None else labels.T @ V).T
        return inside

    def factors(self, found: Factors) -> Factors:
        """Factors of a solution in the space of the model, given those in the problem's features."""
        U, s, V = found
        return Factors(self.model_side(U), s, V)

    def inside(self, left: Array) -> Array:
        """Left side of a model (d × k) in spectral coordinates, Qᵀ left."""
        found: Array = self.problem.features.T @ left
        return found

    def kernel_gap(self, ridge: float, objective: float) -> dict[str, float]:
        """Return the fitted attribute that tells what directions left out cost; only kernels have it."""
        return {}

    def sides(self, left: Array, right: Array) -> tuple[Array, Array]:
        """Return A (d × k) and B (L × k), with coefficients A Bᵀ, for a solution left rightᵀ."""
        A, B = self.problem.restore(left, right)
        return self.model_side(A), B

    def intercept(self, left: Array, right: Array) -> Array:
        """Return the intercepts that go with the coefficients left rightᵀ, left d × k and right L × k.

        A scale belongs to the right side, which is smaller.
        """
        return with_unseen(self.y_mean - right @ (self.x_mean @ left), self.unseen, SquaredLoss())


class _DualSpace(Space):
    """A space whose problem has the dual vectors A = D^(1/2) P Λ^(−1/2) (n × r) as its features."""

    def own_coordinates(self, X: Any, rows: npt.NDArray[np.int64], weights: Array | None) -> Array:
        """Return some rows of the training data, X̃ = P Λ^(1/2) = A Λ if all weights are 1."""
        if weights is not None:
            return super().own_coordinates(X, rows, weights)
        return take(self.problem.features, rows) * self.problem.curvature


@dataclass(frozen=True, eq=False)
class KernelSpace(_DualSpace):
    """The same for a kernel: a model has dual coefficients a (n × L), and x the scores Σ_i k(x, x_i) a_i + b.

    Rows of kernel values with the training rows take the place of features, and ``x_mean`` is that of the
    training rows: the coordinates of x are (k(x, ·) − x̄)ᵀ A.
    """

    kernel: Kernel
    X: Any
    left_out: LeftOut

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        X: Any,
        Y: Any,
        weights: Array | None,
        *,
        fit_intercept: bool,
        targets: str,
        ridge: float = 0.0,
    ) -> KernelSpace:
        """Decompose the kernel matrix of all rows, at least as far as this ridge, or a larger one, needs it.

        Rows without weight get dual coefficients of zero.
        """
        K = kernel.matrix(X)
        place = Place.of(K)
        xp, n = place.xp, K.shape[0]
        largest = max(float(xp.max(K)), -float(xp.min(K)))
        no_features = place.zeros((n, 0))
        rows = CentredRows.of(no_features, Y, weights)
        unseen = (rows.y_mean == 0) & (targets == "binary")
        y_mean, means = xp.zeros_like(rows.y_mean), place.zeros(n)
        if fit_intercept:
            y_mean = rows.y_mean
            K, means = centred_kernel(K, rows.weights)
        else:
            rows = rows.uncentred(no_features, Y)
        found, left_out = dual_coordinates(K, rows, _KERNEL_ROUNDING * n, largest, ridge)
        del K
        if fit_intercept:
            # Dual vectors add up to 0 but for rounding, which the constant part of a kernel would magnify.
            dual, share = found.features, rows.weights / rows.weight
            dual -= share[:, None] * xp.sum(dual, axis=0)
        problem = SpectralProblem.from_coordinates(found, rows.yy)
        return cls(problem, y_mean, unseen, means, kernel, X, left_out)

    def kernel_gap(self, ridge: float, objective: float) -> dict[str, float]:
        """Bound of the rise of the objective, over the objective."""
        return {"kernel_gap": self.left_out.rise(ridge, objective) / objective if objective > 0 else 0.0}

    def model_rows(self, X: Any) -> Array:
        """Values k(x, x_i) for all training rows x_i."""
        return self.kernel(X, self.X)

    def coordinates(self, X: Any) -> Array:
        """Rows of X in spectral coordinates, in blocks: X̃ = (k(X, ·) − 1x̄ᵀ) A."""
        n_rows, step = X.shape[0], kernel_block(self.x_mean.shape[0])
        blocks = [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
        parts = [super(KernelSpace, self).coordinates(X[rows, :]) for rows in blocks]
        return namespace(*parts).concat(parts, axis=0)


@dataclass(frozen=True, eq=False)
class LinearDual(_DualSpace):
    """The same for more features than rows: Q = X_cᵀA, of which only the dual vectors A (n × r) are kept."""

    rows: CentredRows  # X_c

    def coordinates(self, X: Any) -> Array:
        """Rows of X in spectral coordinates: X̃ = (X − 1x̄ᵀ) X_cᵀ A."""
        M, offset = self.rows.X, self.rows.x_offset
        X = X if is_host(offset) else Place.of(offset).asarray(X, "float64")
        products = dense_product(X, M.T) - (X @ offset)[:, None]
        products -= M @ self.x_mean - offset @ self.x_mean
        return products @ self.problem.features

    def model_side(self, left: Array) -> Array:
        """Return X_cᵀ left, d × k, for dual coefficients (n × k)."""
        return self.rows.X.T @ left - self.rows.x_offset[:, None] * namespace(left).sum(left, axis=0)

    def factors(self, found: Factors) -> Factors:
        """Decompose anew: of small eigenvalues, the columns of X_cᵀA are orthogonal to few digits only."""
        U, s, V = super().factors(found)
        return Factors.of_sides(U * s, V)

    def inside(self, left: Array) -> Array:
        """Left side of a model (d × k) in spectral coordinates, Aᵀ X_c left."""
        return super().inside(self.rows.X @ left - self.rows.x_offset @ left)


class InSubspace(Space):
    """Coordinates in a subspace, which can be extended where a solution needs it."""

    subspace: Subspace

    @staticmethod
    def of_slopes(
        X: Any,
        Y: Any,
        weights: _Float64 | None,
        slopes: Iterable[_Floats],
        *,
        fit_intercept: bool,
        targets: str,
    ) -> InSubspace:
        """Span X̂ᵀS for slopes S (n × L) of a loss, which include the weights."""
        rows, means = _rows_and_means(X, Y, weights, fit_intercept=fit_intercept, targets=targets)
        subspace = Subspace.of_vectors(rows, (_weighing(part, weights) for part in slopes))
        return in_subspace(subspace, means)

    def outside(self, slopes: _Floats, weights: _Float64 | None) -> _Float64:
        """Return the inner products of X̂ᵀS, as far as it lies outside, for slopes S of a loss."""
        return self.subspace.outside(_weighing(slopes, weights))

    def along(self, slopes: _Floats, weights: _Float64 | None) -> InSubspace:
        """Add X̂ᵀS for slopes S of a loss."""
        vectors = self.subspace.from_rows(_weighing(slopes, weights))
        return self._with(self.subspace.extended(vectors))

    def _with(self, subspace: Subspace) -> InSubspace:
        problem = SpectralProblem.from_coordinates(subspace.coordinates, self.problem.target)
        larger: InSubspace = replace(cast(Any, self), problem=problem, subspace=subspace)
        return larger

    def found(self, solution: RidgeRegressions, alpha: float | None, enough: float) -> Found:
        """Return what the subspace costs a solution, and vectors if that is more than enough.

        ``alpha`` is the slope of the penalty at zero; None if the rank is given.
        """
        extra = np.zeros(solution.left.shape[1]) if solution.extra is None else solution.extra
        right = _turned(self.problem.labels, solution.right)
        return self.subspace.gap(solution.left, right, solution.ridge + extra, alpha, solution.ridge, enough)

    def extended(
        self,
        solution: RidgeRegressions,
        alpha: float | None,
        enough: float,
        tell: Callable[[Found], None] | None = None,
    ) -> tuple[float, InSubspace | None]:
        """Return what the subspace costs a solution, and a better one if that is more than enough."""
        found = self.found(solution, alpha, enough)
        if tell is not None:
            tell(found)
        if found.further is None:
            return found.gap, None
        return found.gap, self._with(self.subspace.extended(found.further))

    def unit_of_gaps(self, objective: float) -> float:
        """Return the objective; or, if a perfect fit leaves only rounding, a small share of ‖Y‖²."""
        return max(objective, _LEAST_OBJECTIVE * self.problem.target) or 1.0

    def without_coordinates(self) -> InSubspace:
        """Return a space that still maps solutions back: a wide model needs the memory of the others."""
        problem = replace(self.problem, features=np.zeros((0, 0)))
        lighter: InSubspace = replace(cast(Any, self), problem=problem, subspace=None)
        return lighter

    def start_in(self, larger: InSubspace, solution: RidgeRegressions) -> _Float64:
        """Return a solution in the coordinates of a larger subspace."""
        left = larger.subspace.inside(self.subspace.basis @ solution.left)
        right, labels = _turned(self.problem.labels, solution.right), larger.problem.labels
        if right is None:
            return left if labels is None else left @ labels
        start: _Float64 = left @ (right if labels is None else labels.T @ right).T
        return start


def solve_extending(
    space: Space, solve: Callable[[Space], tuple[_Result, RidgeRegressions, float]]
) -> tuple[Space, _Result, float | None]:
    """Solve in closed form, and extend a subspace until it costs little.

    ``solve`` returns a result, the same as ridge regressions, and the objective. Also return what the
    subspace costs, over the objective; None if the space has all directions.
    """
    result, regressions, objective = solve(space)
    gap = None
    for extension in range(1 + MOST_EXTENSIONS if isinstance(space, InSubspace) else 0):
        assert isinstance(space, InSubspace)
        unit = space.unit_of_gaps(objective)
        enough = MOST_COMPRESSED * unit
        if extension == MOST_EXTENSIONS:
            gap = space.found(regressions, None, enough).gap / unit
            break
        gap, larger = space.extended(regressions, None, enough)
        gap /= unit
        if larger is None:
            break
        space = larger
        del larger
        result, regressions, objective = solve(space)
    return space, result, gap


def _rows_and_means(
    X: Any, Y: Any, weights: _Float64 | None, *, fit_intercept: bool, targets: str
) -> tuple[CentredRows, tuple[_Float64, _Bools, _Float64]]:
    """Return centred rows, and means and unseen labels as a space holds them."""
    X, Y, weights = without_weightless(X, Y, weights)
    rows = CentredRows.of(X, Y, weights)
    used = float(fit_intercept)
    means = (used * rows.y_mean, (rows.y_mean == 0) & (targets == "binary"), used * rows.x_mean)
    return (rows if fit_intercept else rows.uncentred(X, Y)), means


def estimated_spectrum(X: Any, Y: Any, weights: _Float64 | None, *, fit_intercept: bool) -> SpectralProblem:
    """Return a problem with roughly the right curvature, and nothing to learn."""
    rows, _ = _rows_and_means(X, Y[:, :1], weights, fit_intercept=fit_intercept, targets="real")
    values = estimated_eigenvalues(rows)
    return SpectralProblem(values, np.zeros((len(values), 1)), 0.0, np.zeros((0, len(values))), None)


def in_subspace(subspace: Subspace, means: tuple[_Float64, _Bools, _Float64]) -> InSubspace:
    """Return the space of a subspace, given ȳ, which labels are unseen, and x̄."""
    problem = SpectralProblem.from_coordinates(subspace.coordinates, subspace.rows.yy)
    if subspace.is_dual and isinstance(subspace.rows, CentredRows):
        return CompressedDual(problem, *means, subspace.rows, subspace)
    return Compressed(problem, *means, subspace)


def _weighing(slopes: _Floats, weights: _Float64 | None) -> _Floats:
    """Return D^(−1/2) S without the rows of no weight, as X_cᵀS = X̂ᵀ D^(−1/2) S."""
    if weights is None:
        return slopes
    some = weights > 0
    return np.asarray(slopes[some] / np.sqrt(weights[some])[:, None])


def _turned(labels: _Float64 | None, right: _Float64 | None) -> _Float64 | None:
    """Return labels right, where None stands for the identity."""
    if labels is None or right is None:
        return right if labels is None else labels
    turned: _Float64 = labels @ right
    return turned


@dataclass(frozen=True, eq=False)
class Compressed(InSubspace):
    """The same in a subspace of feature space."""

    subspace: Subspace


@dataclass(frozen=True, eq=False)
class CompressedDual(InSubspace, LinearDual):
    """The same in a subspace of dual vectors A, Q = X_cᵀA."""

    subspace: Subspace

    def coordinates(self, X: Any) -> _Float64:
        """Rows of X in spectral coordinates, (X − 1x̄ᵀ) X_cᵀA, a few columns at a time."""
        found = np.empty((X.shape[0], self.problem.shape[0]))
        for start in range(0, found.shape[1], _FEW_COLUMNS):
            columns = slice(start, start + _FEW_COLUMNS)
            Q = self.model_side(self.problem.features[:, columns])
            found[:, columns] = np.asarray(X @ Q) - self.x_mean @ Q
        return found

    def own_coordinates(self, X: Any, rows: Any, weights: Array | None) -> Array:
        """Return some rows of the training data in spectral coordinates."""
        return Space.own_coordinates(self, X, rows, weights)

    def model_side(self, left: _Float64) -> _Float64:
        """Return X_cᵀ left, a few columns at a time: the result may be the largest array of the fit."""
        found = np.empty((len(self.x_mean), left.shape[1]))
        for start in range(0, left.shape[1], _FEW_COLUMNS):
            columns = slice(start, start + _FEW_COLUMNS)
            found[:, columns] = super().model_side(np.ascontiguousarray(left[:, columns]))
        return found

    def factors(self, found: Factors) -> Factors:
        """Return X_cᵀ U, whose columns are orthonormal by construction."""
        return Space.factors(self, found)
